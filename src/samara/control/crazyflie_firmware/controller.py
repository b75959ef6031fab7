"""Firmware controllers with Samara's interface: `controller(state, reference, vehicle, controller_state) → command, …`.

The controller state is the drone's firmware process, started at its first tick. A PWM is converted to the thrust of Bitcraze's
curve, and this to the command at which the vehicle's rotor gives the same thrust. If the vehicle has a battery, the firmware
measures its voltage.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

from samara.compiler.compiled_step import CompiledStep
from samara.control.allocation import build_allocation, quad_x_rotor_order
from samara.control.controller_type import Controller, ControllerType
from samara.control.crazyflie_firmware import worker
from samara.control.crazyflie_firmware.conversions import FIELDS, firmware_inputs, flatten_inputs
from samara.control.crazyflie_firmware.motors import (
    FUNCTIONS,
    PREFIX,
    RATE,
    ThrustPolynomial,
    thrust_from_pwm,
    voltage_from_thrust,
)
from samara.core.algebra import ZERO, Vec3
from samara.core.extras import MissingExtraError
from samara.core.ops import safe_sqrt
from samara.core.tree import flatten
from samara.physics.multirotor import state_at_rest, steady_command
from samara.physics.rotors.propulsion import supply_voltage
from samara.physics.rotors.rotor import density_ratio
from samara.physics.types import CALM, Command, Reference, State, Vehicle
from samara.vehicles.limits import clamp_command

MODULE = "cffirmware"
REQUEST_FORMAT = worker.request_format(FIELDS)
MAX_PROCESSES = 64  # one per drone: a batch of a thousand flights would start a thousand


def module_folder(name: str) -> str:
    """Return the directory of the bindings; raise MissingExtraError if they are not installed."""
    try:
        spec = importlib.util.find_spec(MODULE)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin:
        raise MissingExtraError(
            f"{name} is a controller of the Crazyflie firmware: it needs {MODULE}, built from Bitcraze's "
            "crazyflie-firmware "
            "with `make bindings_python`"
        )
    file = Path(spec.origin)
    return str(file.parent.parent if file.name == "__init__.py" else file.parent)


class FirmwareError(ChildProcessError):
    """The firmware's process ended or is unusable; the message is one sentence."""


class FirmwareProcess:
    """The firmware in a process; `tick(inputs, supply)` returns the PWM of four motors; `curve` is the thrust curve."""

    def __init__(self, controller: str) -> None:
        self._controller = controller
        if len(_RUNNING) >= MAX_PROCESSES:
            raise FirmwareError(
                f"{PREFIX}{controller}: {len(_RUNNING)} drones each run a firmware process; expected at most "
                f"{MAX_PROCESSES} at once"
            )
        folder = module_folder(f"{PREFIX}{controller}")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        root = str(Path(worker.__file__).parents[3])
        paths = os.pathsep.join(path for path in (root, os.environ.get("PYTHONPATH", "")) if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__, str(os.getpid()), folder, MODULE, controller, ",".join(FIELDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C is handled by the parent
        )
        _RUNNING.add(self._process)
        self.close = weakref.finalize(self, _end, self._process, self._stderr)
        description = self._read_description()
        self.propellers: str = description["kind"]
        self.curve = ThrustPolynomial(tuple(description["curve"][0]), *description["curve"][1:])

    def _read_description(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._process_error()
        description: dict[str, Any] = json.loads(line)
        if "error" in description:
            self.close()
            raise FirmwareError(f"{PREFIX}{self._controller}: {description['error']}")
        return description

    def tick(self, inputs: Sequence[float], supply: float) -> tuple[float, ...]:
        """Advance the firmware by one millisecond."""
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None and replies is not None
        try:
            requests.write(REQUEST_FORMAT.pack(*inputs, supply))
            requests.flush()
            reply = replies.read(worker.REPLY.size)
        except (OSError, ValueError):  # the process has ended, or was closed
            reply = b""
        if len(reply) < worker.REPLY.size:
            raise self._process_error()
        return worker.REPLY.unpack(reply)

    def _process_error(self) -> FirmwareError:
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
        last_message = "" if self._stderr.closed else _last_line(self._stderr)
        self.close()
        manner = "by signal" if code is not None and code < 0 else "with status"
        status = "" if code is None else f" {manner} {abs(code)}"
        return FirmwareError(
            f"{PREFIX}{self._controller}: the firmware's process ended{status}"
            + (f": {last_message}" if last_message else "")
        )


_RUNNING: "set[subprocess.Popen[bytes]]" = set()


def require_firmware(controller: str) -> None:
    """Raise an error if the bindings are missing, or lack this controller."""
    FirmwareProcess(controller).close()


def _last_line(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read()[-4000:].decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _end(process: "subprocess.Popen[bytes]", stderr: IO[bytes]) -> None:
    """Kill the process and close its streams."""
    _RUNNING.discard(process)
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    stderr.close()


@dataclass(frozen=True)
class CrazyflieController:
    """Controller of the firmware for one vehicle; the first call starts the firmware.

    `look_ahead` is empty: the controller previews nothing, and is called in Python. The firmware is not informed of a
    rotor failure: with `goes_on`, its state is retained where another controller would be rebuilt.
    """

    firmware_name: str
    rotor_order: tuple[int, ...]
    look_ahead: tuple[float, ...] = ()
    initial_state: "DroneFirmware | None" = None
    goes_on: bool = True

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, controller_state: "DroneFirmware | None"
    ) -> tuple[Command, "DroneFirmware"]:
        """Run one tick of the firmware.

        Args:
            state: estimated state of the vehicle.
            reference: desired position, velocity, acceleration, jerk and yaw.
            vehicle: model of the vehicle.
            controller_state: the firmware that the previous call returned; None at the first call, which starts it.

        Returns:
            The command and the firmware for the next call.
        """
        firmware = controller_state if controller_state is not None else DroneFirmware(self.firmware_name, vehicle)
        return firmware.tick(state, reference, vehicle, self.rotor_order), firmware


def crazyflie_controller(kind: str, vehicle: Vehicle, period: float) -> CrazyflieController:
    """Build a firmware controller for a quadrotor in X configuration.

    Args:
        kind: name of the firmware's controller, one of `FUNCTIONS`.
        vehicle: model of the vehicle.
        period: time between calls [s], which must be 1 ms.
    """
    name = f"{PREFIX}{kind}"
    if abs(period * RATE - 1.0) > 1e-9:
        raise ValueError(
            f"{name} is called at the firmware's own rate: rates.control is {1.0 / period:g}; expected {RATE:g}"
        )
    order = quad_x_rotor_order(vehicle, name)
    module_folder(name)
    return CrazyflieController(kind, order)


class DroneFirmware:
    """The firmware of one drone, with its state."""

    def __init__(self, kind: str, vehicle: Vehicle) -> None:
        self.firmware = FirmwareProcess(kind)
        self._v_W: Vec3 | None = None
        self._command: Command = tuple(0.0 for _ in vehicle.rotors)
        self._set_vehicle(vehicle)

    def _set_vehicle(self, vehicle: Vehicle) -> None:
        """Use this vehicle from now on: its load or battery may have changed."""
        self._vehicle = vehicle
        self._command_step = _commands_code(vehicle).machine()
        self._supply_step = _supply_code(vehicle).machine() if vehicle.has("battery") else None

    def tick(self, state: State, reference: Reference, vehicle: Vehicle, order: tuple[int, ...]) -> Command:
        """Run the firmware for one millisecond and return the command; `order` maps its motors to rotors."""
        if vehicle is not self._vehicle:
            self._set_vehicle(vehicle)
        gravity = vehicle["gravity"].acceleration
        a_W = ZERO if self._v_W is None else (state.v_W - self._v_W) * RATE
        self._v_W = state.v_W
        state_values = flatten(state)
        supply, curve = self._supply(state_values, vehicle), self.firmware.curve
        pwm = self.firmware.tick(flatten_inputs(firmware_inputs(state, a_W, reference, gravity)), supply)
        thrusts = [0.0] * len(order)
        for rotor, motor_pwm in zip(order, pwm, strict=True):
            thrusts[rotor] = thrust_from_pwm(motor_pwm, supply, curve)
        self._command_step.held_inputs[:, 0] = [*state_values, *thrusts]
        self._command_step.run(1)
        self._command = tuple(self._command_step.carry[:, 0].tolist())
        return self._command

    def _supply(self, state_values: list[Any], vehicle: Vehicle) -> float:
        """Battery voltage; without a battery, the voltage at which full PWM gives the rotors' maximum thrust  [V]"""
        if self._supply_step is None:
            return voltage_from_thrust(max_rotor_thrust(vehicle), self.firmware.curve)
        self._supply_step.held_inputs[:, 0] = [*state_values, *self._command]
        self._supply_step.run(1)
        return float(self._supply_step.carry[0, 0])

    def close(self) -> None:
        """End the firmware's process."""
        self.firmware.close()


def command_from_thrusts(thrusts: tuple[Any, ...], state: State, vehicle: Vehicle) -> Command:
    """Ωᵢ = √(Tᵢ / kF), and the command that holds Ω, within its limits"""
    ratio = density_ratio(CALM.air_density)
    speeds = tuple(
        safe_sqrt(thrust / (rotor.k_thrust * ratio)) for thrust, rotor in zip(thrusts, vehicle.rotors, strict=True)
    )
    return clamp_command(steady_command(state._replace(rotor_speed=speeds), vehicle), vehicle)


@lru_cache(maxsize=16)
def max_rotor_thrust(vehicle: Vehicle) -> float:
    """Maximum thrust of the strongest rotor  [N]"""
    return float(max(limit.high for limit in build_allocation(vehicle).limits))


@lru_cache(maxsize=16)
def _commands_code(vehicle: Vehicle) -> CompiledStep:
    zeros = tuple(0.0 for _ in vehicle.rotors)

    def body(carry: Any, inputs: Any) -> Any:
        return command_from_thrusts(inputs[1], inputs[0], vehicle)

    return CompiledStep(body, zeros, (state_at_rest(vehicle), zeros))


@lru_cache(maxsize=16)
def _supply_code(vehicle: Vehicle) -> CompiledStep:
    def body(carry: Any, inputs: Any) -> Any:
        state, command = inputs
        return (supply_voltage(state, command, vehicle, CALM),)

    return CompiledStep(body, (0.0,), (state_at_rest(vehicle), tuple(0.0 for _ in vehicle.rotors)))


def _build(name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float) -> Controller:
    return crazyflie_controller(name, vehicle, period)


TYPES = tuple(
    ControllerType(f"{PREFIX}{name}", f"The Crazyflie firmware's {name} controller", partial(_build, name), rate=RATE)
    for name in FUNCTIONS
)
