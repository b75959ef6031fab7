"""From an autopilot's motor outputs to the vehicle's commands: thrust is linear in the output, and hover is near one half.

An autopilot knows its vehicle only through its outputs, 0 … 1 for each motor. Output u stands for the thrust u T_full, the
same T_full for every rotor, and the command is the one with which the healthy vehicle, its battery full, at sea level, holds
that thrust. What sags, breaks or thins is for the autopilot to feel.
"""

from functools import lru_cache
from typing import Any

from samara.compiler.compiled_step import CompiledStep
from samara.core.ops import clamp, safe_sqrt
from samara.core.quantity import Scalar
from samara.physics.multirotor import at_rest
from samara.physics.types import CALM, Command, State, Vehicle
from samara.vehicles.exchange.thrust_scale import HOVER_OUTPUT, full_thrust
from samara.vehicles.limits import command_limits


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

    def body(own: Any, held: Any) -> Any:
        return command_for_outputs(held, vehicle, full)

    return CompiledStep(body, nothing, nothing)


@lru_cache(maxsize=64)
def commands_code(vehicle: Vehicle) -> CompiledStep:
    """`command_of_outputs` as machine code"""
    nothing = tuple(0.0 for _ in vehicle.rotors)

    def body(own: Any, held: Any) -> Any:
        return command_of_outputs(held, vehicle)

    return CompiledStep(body, nothing, nothing)
