"""Convert an autopilot's motor outputs to the vehicle's commands: thrust is linear in the output, and hover is near one half.

An autopilot acts on its vehicle only through its outputs, 0 … 1 for each motor. Output u stands for the thrust u T_full, with
the same T_full for every rotor; the command is the one at which the healthy vehicle with a full battery at sea level holds that
thrust. Battery sag, faults and thin air are not compensated here: the autopilot has to.
"""

import math
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from samara.compiler.compiled_step import CompiledStep
from samara.core.ops import clamp, safe_sqrt
from samara.core.quantity import Scalar
from samara.physics.inputs import command_limits
from samara.physics.multirotor import state_at_rest
from samara.physics.types import CALM, Command, State, Vehicle
from samara.vehicles.exchange.throttle import HOVER_OUTPUT, full_thrust
from samara.vehicles.rotor_numbering import NUMBERINGS

FRAME_BY_ROTOR_COUNT = {4: "quad_x", 6: "hexa_x", 8: "octo_x"}
MAX_AZIMUTH_ERROR_RAD = math.radians(22.0)  # just under half the angle between two rotors of an octorotor


def rotor_order(vehicle: Vehicle, system: str) -> tuple[int, ...]:
    """Return the vehicle's rotor index for each motor output of the autopilot, matched by azimuth and spin.

    Args:
        vehicle: a vehicle with 4, 6 or 8 rotors.
        system: the motor numbering, such as "px4".

    Raises:
        ValueError: if a motor of the numbering has no rotor, or a rotor with the opposite spin.
    """
    frame = FRAME_BY_ROTOR_COUNT.get(len(vehicle.rotors))
    if frame is None or system not in NUMBERINGS[frame]:
        supported = ", ".join(str(n) for n, name in FRAME_BY_ROTOR_COUNT.items() if system in NUMBERINGS[name])
        raise ValueError(
            f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; {system} is wired for {supported}"
        )
    order = []
    for motor in NUMBERINGS[frame][system].rotors:
        azimuth = math.radians(motor.azimuth_deg)
        candidates = [
            i
            for i, rotor in enumerate(vehicle.rotors)
            if abs(_angle_difference(math.atan2(rotor.r_B.y, rotor.r_B.x), azimuth)) < MAX_AZIMUTH_ERROR_RAD
            and i not in order
        ]
        if len(candidates) != 1:
            raise ValueError(f"vehicle {vehicle.name!r} has no rotor {motor.name} for {system}'s {frame}; expected one")
        if vehicle.rotors[candidates[0]].spin != motor.spin:
            turns = "clockwise" if motor.spin < 0 else "counter-clockwise"
            raise ValueError(
                f"rotor {motor.name} of vehicle {vehicle.name!r} turns the other way than {system}'s; expected {turns}"
            )
        order.append(candidates[0])
    return tuple(order)


class BetaflightWiring(NamedTuple):
    """The vehicle's rotor index of each Betaflight motor, and whether the propellers turn outwards."""

    order: tuple[int, ...]
    has_props_out: bool


def betaflight_wiring(vehicle: Vehicle) -> BetaflightWiring:
    """Return which of Betaflight's two quadrotors X a vehicle is; raise ValueError if it is neither."""
    try:
        return BetaflightWiring(rotor_order(vehicle, "betaflight"), False)
    except ValueError:
        with suppress(ValueError):
            return BetaflightWiring(rotor_order(vehicle, "betaflight_props_out"), True)
        raise


def _angle_difference(a: float, b: float) -> float:
    return math.remainder(a - b, 2.0 * math.pi)


def outputs_by_rotor(values: list[float], order: tuple[int, ...]) -> list[float]:
    """Reorder values from output channels to the vehicle's rotors."""
    by_rotor = [0.0] * len(order)
    for channel, rotor in enumerate(order):
        by_rotor[rotor] = values[channel]
    return by_rotor


def rotor_speeds_from_thrust_outputs(
    outputs: tuple[Scalar, ...], vehicle: Vehicle, full_thrust_per_rotor: Scalar
) -> tuple[Scalar, ...]:
    """Ωᵢ = √(uᵢ T_full / kF)  [rad/s]"""
    return tuple(
        safe_sqrt(clamp(u, 0.0, 1.0) * full_thrust_per_rotor / rotor.k_thrust)
        for u, rotor in zip(outputs, vehicle.rotors, strict=True)
    )


def command_from_thrust_outputs(
    outputs: tuple[Scalar, ...], vehicle: Vehicle, full_thrust_per_rotor: Scalar
) -> Command:
    """Ωᵢ = √(uᵢ T_full / kF); return the command that holds Ω on the healthy vehicle."""
    speeds = rotor_speeds_from_thrust_outputs(outputs, vehicle, full_thrust_per_rotor)
    state: State = state_at_rest(vehicle)._replace(rotor_speed=speeds)
    command = vehicle.structure.actuation.steady_command(state, vehicle, CALM)
    limits = command_limits(vehicle)
    return tuple(clamp(u, *limits) for u in command) if limits else command


def command_from_motor_outputs(outputs: tuple[Scalar, ...], vehicle: Vehicle) -> Command:
    """Return u, or u Ω_max for a vehicle with commanded rotor speeds."""
    clamped = tuple(clamp(u, 0.0, 1.0) for u in outputs)
    if vehicle.structure.actuation.name != "speed":
        return clamped
    return tuple(u * rotor.motor.speed_max for u, rotor in zip(clamped, vehicle.rotors, strict=True))


def motor_outputs_from_command(command: Command, vehicle: Vehicle) -> tuple[Scalar, ...]:
    """Return the output of each rotor, 0 … 1: the inverse of `command_from_motor_outputs` within its range."""
    if vehicle.structure.actuation.name != "speed":
        return tuple(clamp(u, 0.0, 1.0) for u in command)
    speeds = zip(command, vehicle.rotors, strict=True)
    return tuple(clamp(speed / rotor.motor.speed_max, 0.0, 1.0) for speed, rotor in speeds)


@lru_cache(maxsize=64)
def compile_thrust_outputs(vehicle: Vehicle, hover_output: float = HOVER_OUTPUT) -> CompiledStep:
    """Compile `command_from_thrust_outputs` for a vehicle: command from (outputs)."""
    full_thrust_per_rotor = full_thrust(vehicle, hover_output)
    zeros = tuple(0.0 for _ in vehicle.rotors)

    def body(carry: Scalar, outputs: Scalar) -> Scalar:
        return command_from_thrust_outputs(outputs, vehicle, full_thrust_per_rotor)

    return CompiledStep(body, zeros, zeros)


@lru_cache(maxsize=64)
def compile_motor_outputs(vehicle: Vehicle) -> CompiledStep:
    """Compile `command_from_motor_outputs` for a vehicle: command from (outputs)."""
    zeros = tuple(0.0 for _ in vehicle.rotors)

    def body(carry: Scalar, outputs: Scalar) -> Scalar:
        return command_from_motor_outputs(outputs, vehicle)

    return CompiledStep(body, zeros, zeros)
