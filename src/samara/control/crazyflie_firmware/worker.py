"""Process that runs a drone's firmware: python worker.py PARENT FOLDER MODULE CONTROLLER FIELDS

FIELDS is the comma-separated list of `conversions.FIELDS`. The process first writes one line: the thrust curve of the module,
or the reason why it is unusable. Then, every millisecond, it reads one double per field and one for the supply voltage, and
writes the PWM of four motors.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, BinaryIO

from samara.control.crazyflie_firmware.motors import (
    FUNCTIONS,
    MAX_PWM,
    SUPPLY_FILTER_GAIN,
    ThrustPolynomial,
    identify_curve,
    pwm_from_thrust,
)
from samara.core.confined_folder import kill_when_parent_ends

REPLY = Struct("<4d")
MOTORS = ("m1", "m2", "m3", "m4")
REQUIRED_NAMES = (
    "control_t",
    "setpoint_t",
    "sensorData_t",
    "state_t",
    "motors_thrust_uncapped_t",
    "motors_thrust_pwm_t",
    "powerDistribution",
    "powerDistributionCap",
    "powerDistributionGetMaxThrust",
    "controlModeForceTorque",
    "modeAbs",
)
CONTROLLERS_WITH_STATE = ("mellinger", "lee")  # their state is a struct, that of the others is global
EXPECTED = "expected one built from Bitcraze's 2025.12.1 or newer"
INDI_MISSING = (
    "Bitcraze's bindings leave INDI out; expected a build with controller_indi.c and position_controller_indi.c among its "
    "sources and controller_indi.h in cffirmware.i"
)
PROBE_TORQUE_RATIO = 0.006  # [m]: torque over maximum thrust, for the measurement of the torque ratio


class UnsuitableModuleError(Exception):
    """The module is unsuitable; the message is one sentence."""


class Firmware:
    """A controller of the firmware, its power distribution and its battery compensation."""

    def __init__(self, module: Any, controller: str, fields: Sequence[str]) -> None:
        name = FUNCTIONS[controller]
        missing = [name_needed for name_needed in REQUIRED_NAMES if not hasattr(module, name_needed)]
        if missing:
            raise UnsuitableModuleError(f"this cffirmware has no {missing[0]}; {EXPECTED}")
        if not hasattr(module, name):
            reason = INDI_MISSING if controller == "indi" else EXPECTED
            raise UnsuitableModuleError(f"this cffirmware has no {name}: {reason}")
        self._module = module
        self._control, self._desired_thrusts, self._pwm = (
            module.control_t(),
            module.motors_thrust_uncapped_t(),
            module.motors_thrust_pwm_t(),
        )
        self.structs = {"state": module.state_t(), "sensors": module.sensorData_t(), "setpoint": module.setpoint_t()}
        for axis in ("x", "y", "z", "yaw"):
            setattr(self.structs["setpoint"].mode, axis, module.modeAbs)
        self._fields = [_resolve_field(self.structs, field) for field in fields]
        self.propellers, self._curve = self._measure_curve()
        self._supply: float | None = None
        self._step = 1  # as the firmware's loop starts
        self._update = self._initialize(name, has_state=controller in CONTROLLERS_WITH_STATE)

    def _initialize(self, name: str, *, has_state: bool) -> Callable[..., Any]:
        module = self._module
        update, initialize = getattr(module, name), getattr(module, f"{name}Init")
        if not has_state:
            initialize()
            return lambda *arguments: update(*arguments)
        firmware_state = getattr(module, f"{name}_t")()
        initialize(firmware_state)
        return lambda *arguments: update(firmware_state, *arguments)

    def _measure_curve(self) -> tuple[str, ThrustPolynomial]:
        """Measure maximum thrust and torque ratio of a build by the response of its power distribution to a torque about z."""
        module, control = self._module, self._module.control_t()
        max_thrust = module.powerDistributionGetMaxThrust() / len(MOTORS)
        torque = PROBE_TORQUE_RATIO * max_thrust
        control.controlMode = module.controlModeForceTorque
        control.thrustSi, control.torqueX, control.torqueY, control.torqueZ = 2.0 * max_thrust, 0.0, 0.0, torque
        module.powerDistribution(control, self._desired_thrusts)
        difference = self._desired_thrusts.motors.m2 - self._desired_thrusts.motors.m1  # 65535 τ/(2 k T_max)
        return identify_curve(max_thrust, 0.5 * MAX_PWM * torque / (difference * max_thrust) if difference else 0.0)

    def tick(self, inputs: tuple[float, ...], supply: float) -> list[float]:
        """Compute the PWM of the four motors, a millisecond after the previous tick."""
        for (struct, name), value in zip(self._fields, inputs, strict=True):
            setattr(struct, name, value)
        structs = self.structs
        self._update(self._control, structs["setpoint"], structs["sensors"], structs["state"], self._step)
        self._step += 1
        supply_before = supply if self._supply is None else self._supply  # the filter has settled before the start
        self._supply = supply_before + SUPPLY_FILTER_GAIN * (supply - supply_before)
        self._module.powerDistribution(self._control, self._desired_thrusts)
        motors = self._desired_thrusts.motors
        for name in MOTORS:
            setattr(motors, name, pwm_from_thrust(getattr(motors, name), self._supply, self._curve))
        self._module.powerDistributionCap(self._desired_thrusts, self._pwm)
        return [float(getattr(self._pwm.motors, name)) for name in MOTORS]

    @property
    def curve(self) -> ThrustPolynomial:
        """The thrust curve of the build's motors."""
        return self._curve


def _resolve_field(structs: dict[str, Any], field: str) -> tuple[Any, str]:
    """Return the struct that contains a field, and the name of its member."""
    *parents, name = field.split(".")
    struct = structs[parents[0]]
    for parent in parents[1:]:
        struct = getattr(struct, parent, None)
    if not hasattr(struct, name):
        raise UnsuitableModuleError(f"this cffirmware has no {field}; {EXPECTED}")
    return struct, name


def load_module(folder: str, module: str) -> Any:
    """Import a module from a folder."""
    sys.path.insert(0, folder)  # this one takes precedence over others of the same name
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsuitableModuleError(f"cffirmware of {folder} cannot be loaded: {error}") from None


def request_format(fields: Sequence[str]) -> Struct:
    """Format of a request: the values of the fields, and the supply voltage"""
    return Struct(f"<{len(fields) + 1}d")


def serve(firmware: Firmware, request: Struct, requests: BinaryIO, replies: BinaryIO) -> None:
    """Run ticks until the requests end."""
    while len(data := requests.read(request.size)) == request.size:
        *inputs, supply = request.unpack(data)
        replies.write(REPLY.pack(*firmware.tick(tuple(inputs), supply)))
        replies.flush()


def main(parent: str, folder: str, module: str, controller: str, fields: str) -> None:
    """Serve requests on stdin; output of the firmware goes to stderr, since stdout is for the replies."""
    kill_when_parent_ends(int(parent))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        names = fields.split(",")
        firmware = Firmware(load_module(folder, module), controller, names)
        description = {"kind": firmware.propellers, "curve": firmware.curve}
    except (UnsuitableModuleError, ValueError) as error:
        description = {"error": str(error)}
    replies.write(json.dumps(description).encode() + b"\n")
    replies.flush()
    if "error" not in description:
        serve(firmware, request_format(names), sys.stdin.buffer, replies)


if __name__ == "__main__":
    main(*sys.argv[1:])
