"""From an autopilot's motor outputs to the vehicle's commands: thrust is linear in the output, and hover is near one half.

An autopilot knows its vehicle only through its outputs, 0 … 1 for each motor. Output u stands for the thrust u T_full, the
same T_full for every rotor, and the command is the one with which the healthy vehicle, its battery full, at sea level, holds
that thrust. What sags, breaks or thins is for the autopilot to feel.
"""

import math
from functools import lru_cache

from samara.compiler.compiled_step import CompiledStep
from samara.core.ops import clamp, safe_sqrt
from samara.core.quantity import Scalar
from samara.physics.multirotor import at_rest
from samara.physics.types import CALM, Command, State, Vehicle
from samara.vehicles.exchange.throttle import HOVER_OUTPUT, full_thrust
from samara.vehicles.limits import command_limits
from samara.vehicles.rotor_numbering import NUMBERINGS

FRAMES = {4: "quad_x", 6: "hexa_x", 8: "octo_x"}
NEAR = math.radians(22.0)  # less than half the angle between two rotors of an octorotor


def rotor_of_output(vehicle: Vehicle, system: str) -> tuple[int, ...]:
    """order[channel] is the rotor of the vehicle that sits where the system has that motor, and turns the same way"""
    frame = FRAMES.get(len(vehicle.rotors))
    if frame is None or system not in NUMBERINGS[frame]:
        known = ", ".join(str(n) for n, name in FRAMES.items() if system in NUMBERINGS[name])
        raise ValueError(f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; {system} is wired for {known}")
    order = []
    for place in NUMBERINGS[frame][system].places:
        at = math.radians(place.azimuth_deg)
        found = [
            i
            for i, rotor in enumerate(vehicle.rotors)
            if abs(_between(math.atan2(rotor.r_B.y, rotor.r_B.x), at)) < NEAR and i not in order
        ]
        if len(found) != 1:
            raise ValueError(f"vehicle {vehicle.name!r} has no rotor {place.name} for {system}'s {frame}; expected one")
        if vehicle.rotors[found[0]].spin != place.spin:
            turns = "clockwise" if place.spin < 0 else "counter-clockwise"
            raise ValueError(
                f"rotor {place.name} of vehicle {vehicle.name!r} turns the other way than {system}'s; expected {turns}"
            )
        order.append(found[0])
    return tuple(order)


def _between(a: float, b: float) -> float:
    return math.remainder(a - b, 2.0 * math.pi)


def outputs_by_rotor(values: list[float], order: tuple[int, ...]) -> list[float]:
    """The values of the channels, sorted to the vehicle's rotors"""
    by_rotor = [0.0] * len(order)
    for channel, rotor in enumerate(order):
        by_rotor[rotor] = values[channel]
    return by_rotor


def speeds_for_outputs(outputs: tuple[Scalar, ...], vehicle: Vehicle, full: Scalar) -> tuple[Scalar, ...]:
    """Ωᵢ = √(uᵢ T_full / kF)  [rad/s]"""
    return tuple(
        safe_sqrt(clamp(u, 0.0, 1.0) * full / rotor.k_thrust) for u, rotor in zip(outputs, vehicle.rotors, strict=True)
    )


def command_for_outputs(outputs: tuple[Scalar, ...], vehicle: Vehicle, full: Scalar) -> Command:
    """Ωᵢ = √(uᵢ T_full / kF), and the command that keeps Ω on the healthy vehicle"""
    speeds = speeds_for_outputs(outputs, vehicle, full)
    state: State = at_rest(vehicle)._replace(rotor_speed=speeds)
    command = vehicle.structure.actuation.steady_command(state, vehicle, CALM)
    limits = command_limits(vehicle)
    return tuple(clamp(u, *limits) for u in command) if limits else command


def command_of_outputs(outputs: tuple[Scalar, ...], vehicle: Vehicle) -> Command:
    """u itself, as on the aircraft; of a commanded speed the share u of the highest"""
    held = tuple(clamp(u, 0.0, 1.0) for u in outputs)
    if vehicle.structure.actuation.name != "speed":
        return held
    return tuple(u * rotor.motor.speed_max for u, rotor in zip(held, vehicle.rotors, strict=True))


def outputs_of_command(command: Command, vehicle: Vehicle) -> tuple[Scalar, ...]:
    """u of each rotor, 0 … 1: the inverse of `command_of_outputs` within its range"""
    if vehicle.structure.actuation.name != "speed":
        return tuple(clamp(u, 0.0, 1.0) for u in command)
    speeds = zip(command, vehicle.rotors, strict=True)
    return tuple(clamp(speed / rotor.motor.speed_max, 0.0, 1.0) for speed, rotor in speeds)


@lru_cache(maxsize=64)
def outputs_code(vehicle: Vehicle, hover_output: float = HOVER_OUTPUT) -> CompiledStep:
    """The same as machine code: command from (outputs)"""
    full = full_thrust(vehicle, hover_output)
    nothing = tuple(0.0 for _ in vehicle.rotors)

    def body(own: Scalar, held: Scalar) -> Scalar:
        return command_for_outputs(held, vehicle, full)

    return CompiledStep(body, nothing, nothing)


@lru_cache(maxsize=64)
def commands_code(vehicle: Vehicle) -> CompiledStep:
    """`command_of_outputs` as machine code"""
    nothing = tuple(0.0 for _ in vehicle.rotors)

    def body(own: Scalar, held: Scalar) -> Scalar:
        return command_of_outputs(held, vehicle)

    return CompiledStep(body, nothing, nothing)
