"""From an autopilot's motor outputs to the vehicle's commands: thrust is linear in the output, and hover is near one half.

An autopilot knows its vehicle only through its outputs, 0 … 1 for each motor. Output u stands for the thrust u T_full, the
same T_full for every rotor, and the command is the one with which the healthy vehicle, its battery full, at sea level, holds
that thrust. What sags, breaks or thins is for the autopilot to feel.
"""

from functools import lru_cache
from typing import Any

from samara.backends.machine import CompiledStep
from samara.core.ops import clamp, safe_sqrt
from samara.core.quantity import Scalar
from samara.physics.multirotor import at_rest
from samara.physics.types import CALM, Command, State, Vehicle
from samara.vehicles.limits import command_limits
from samara.vehicles.trim import hover, thrust_to_weight

HOVER_OUTPUT = 0.5


@lru_cache(maxsize=64)
def full_thrust(vehicle: Vehicle, hover_output: float = HOVER_OUTPUT) -> float:
    """T_full = T_hover / u_hover, T_hover the mean over the rotors; less where the motors give less  [N]"""
    if not vehicle.rotors:
        raise ValueError(f"vehicle {vehicle.name!r} has no rotors for an autopilot to drive; expected some")
    if not 0.0 < hover_output < 1.0:
        raise ValueError(f"the output at hover is {hover_output!r}; expected a number between 0 and 1")
    speeds = hover(vehicle)[0].rotor_speed
    thrusts = [r.k_thrust * speed * speed for r, speed in zip(vehicle.rotors, speeds, strict=True)]
    return float(sum(thrusts) / len(thrusts)) * min(1.0 / hover_output, thrust_to_weight(vehicle))


def hover_output(vehicle: Vehicle, wanted: float = HOVER_OUTPUT) -> float:
    """u = T_hover / T_full: what was wanted, or more where the motors cannot lift twice the weight"""
    return max(wanted, 1.0 / thrust_to_weight(vehicle))


def command_for_outputs(outputs: tuple[Scalar, ...], vehicle: Vehicle, full: Scalar) -> Command:
    """Ωᵢ = √(uᵢ T_full / kF), and the command that keeps Ω on the healthy vehicle"""
    speeds = tuple(
        safe_sqrt(clamp(u, 0.0, 1.0) * full / rotor.k_thrust) for u, rotor in zip(outputs, vehicle.rotors, strict=True)
    )
    state: State = at_rest(vehicle)._replace(rotor_speed=speeds)
    command = vehicle.structure.actuation.steady_command(state, vehicle, CALM)
    limits = command_limits(vehicle)
    return tuple(clamp(u, *limits) for u in command) if limits else command


@lru_cache(maxsize=64)
def outputs_code(vehicle: Vehicle, hover_output: float = HOVER_OUTPUT) -> CompiledStep:
    """The same as machine code: command from (outputs)"""
    full = full_thrust(vehicle, hover_output)
    nothing = tuple(0.0 for _ in vehicle.rotors)

    def body(own: Any, held: Any) -> Any:
        return command_for_outputs(held, vehicle, full)

    return CompiledStep(body, nothing, nothing)
