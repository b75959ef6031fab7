"""The process in which a drone's firmware runs: python child.py PARENT FOLDER MODULE CONTROLLER FIELDS

FIELDS is the comma-separated list of `units.FIELDS`. The process replies with one line: what the module is built for, or why
it cannot be used. Then, every millisecond, it reads one double for each field and one for the supply voltage, and writes the
PWM of four motors.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, BinaryIO

from samara.control.crazyflie_firmware.motors import FORGETTING, FULL, FUNCTIONS, Curve, curve_of, pwm_of_thrust
from samara.core.confined import end_with_parent

REPLY = Struct("<4d")
MOTORS = ("m1", "m2", "m3", "m4")
NEEDED = (
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
OF_ITS_OWN = ("mellinger", "lee")  # their memory is a struct, that of the others is global
EXPECTED = "expected one built from Bitcraze's 2025.12.1 or newer"
LEFT_OUT = (
    "Bitcraze's bindings leave INDI out; expected a build with controller_indi.c and position_controller_indi.c among its "
    "sources and controller_indi.h in cffirmware.i"
)
SHARE = 0.006  # [m]: of the greatest thrust, as torque, when the torque ratio is asked for


class UselessModuleError(Exception):
    """The module is not what is needed; the message is one sentence."""


class Firmware:
    """A controller of the firmware, its power distribution and its battery compensation."""

    def __init__(self, module: Any, controller: str, fields: Sequence[str]) -> None:
        name = FUNCTIONS[controller]
        lacking = [own for own in NEEDED if not hasattr(module, own)]
        if lacking:
            raise UselessModuleError(f"this cffirmware has no {lacking[0]}; {EXPECTED}")
        if not hasattr(module, name):
            why = LEFT_OUT if controller == "indi" else EXPECTED
            raise UselessModuleError(f"this cffirmware has no {name}: {why}")
        self._module = module
        self._control, self._wanted, self._pwm = (
            module.control_t(),
            module.motors_thrust_uncapped_t(),
            module.motors_thrust_pwm_t(),
        )
        self.structs = {"state": module.state_t(), "sensors": module.sensorData_t(), "setpoint": module.setpoint_t()}
        for axis in ("x", "y", "z", "yaw"):
            setattr(self.structs["setpoint"].mode, axis, module.modeAbs)
        self._places = [_place(self.structs, field) for field in fields]
        self.kind, self._curve = self._asked_curve()
        self._supply: float | None = None
        self._step = 1  # as the firmware's own loop starts
        self._update = self._initialized(name, own_memory=controller in OF_ITS_OWN)

    def _initialized(self, name: str, *, own_memory: bool) -> Callable[..., Any]:
        module = self._module
        update, initialize = getattr(module, name), getattr(module, f"{name}Init")
        if not own_memory:
            initialize()
            return lambda *given: update(*given)
        memory = getattr(module, f"{name}_t")()
        initialize(memory)
        return lambda *given: update(memory, *given)

    def _asked_curve(self) -> tuple[str, Curve]:
        """Full thrust and torque ratio of a build, from what its power distribution makes of a torque about z"""
        module, control = self._module, self._module.control_t()
        most = module.powerDistributionGetMaxThrust() / len(MOTORS)
        torque = SHARE * most
        control.controlMode = module.controlModeForceTorque
        control.thrustSi, control.torqueX, control.torqueY, control.torqueZ = 2.0 * most, 0.0, 0.0, torque
        module.powerDistribution(control, self._wanted)
        turned = self._wanted.motors.m2 - self._wanted.motors.m1  # 65535 τ/(2 k T_max)
        return curve_of(most, 0.5 * FULL * torque / (turned * most) if turned else 0.0)

    def tick(self, numbers: tuple[float, ...], supply: float) -> list[float]:
        """The PWM of the four motors, a millisecond after the last"""
        for (struct, name), value in zip(self._places, numbers, strict=True):
            setattr(struct, name, value)
        structs = self.structs
        self._update(self._control, structs["setpoint"], structs["sensors"], structs["state"], self._step)
        self._step += 1
        before = supply if self._supply is None else self._supply  # it has been measured long before the start
        self._supply = before + FORGETTING * (supply - before)
        self._module.powerDistribution(self._control, self._wanted)
        motors = self._wanted.motors
        for name in MOTORS:
            setattr(motors, name, pwm_of_thrust(getattr(motors, name), self._supply, self._curve))
        self._module.powerDistributionCap(self._wanted, self._pwm)
        return [float(getattr(self._pwm.motors, name)) for name in MOTORS]

    @property
    def curve(self) -> Curve:
        """What its motors are taken for"""
        return self._curve


def _place(structs: dict[str, Any], field: str) -> tuple[Any, str]:
    """The struct that has a number, and the number's name in it"""
    *way, name = field.split(".")
    struct = structs[way[0]]
    for own in way[1:]:
        struct = getattr(struct, own, None)
    if not hasattr(struct, name):
        raise UselessModuleError(f"this cffirmware has no {field}; {EXPECTED}")
    return struct, name


def loaded(folder: str, module: str) -> Any:
    """The module of that name in a folder"""
    sys.path.insert(0, folder)  # that one, and no other of its name
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UselessModuleError(f"cffirmware of {folder} cannot be loaded: {error}") from None


def request_format(fields: Sequence[str]) -> Struct:
    """What a tick is asked with: the numbers of the fields, and the supply's voltage"""
    return Struct(f"<{len(fields) + 1}d")


def serve(firmware: Firmware, request: Struct, requests: BinaryIO, replies: BinaryIO) -> None:
    """Ticks until nobody requests any more"""
    while len(data := requests.read(request.size)) == request.size:
        *numbers, supply = request.unpack(data)
        replies.write(REPLY.pack(*firmware.tick(tuple(numbers), supply)))
        replies.flush()


def main(parent: str, folder: str, module: str, controller: str, fields: str) -> None:
    """What the firmware prints goes to stderr: stdout is for the replies"""
    end_with_parent(int(parent))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        names = fields.split(",")
        firmware = Firmware(loaded(folder, module), controller, names)
        about = {"kind": firmware.kind, "curve": firmware.curve}
    except (UselessModuleError, ValueError) as error:
        about = {"error": str(error)}
    replies.write(json.dumps(about).encode() + b"\n")
    replies.flush()
    if "error" not in about:
        serve(firmware, request_format(names), sys.stdin.buffer, replies)


if __name__ == "__main__":
    main(*sys.argv[1:])
