"""Balance: the rotor speeds and the command that hold a vehicle still in the air."""

from typing import Any

import numpy as np

from samara.algebra import Vec3
from samara.physics.actuator import ActuatorState
from samara.physics.multirotor import CALM, Command, Environment, State, Vehicle, at_rest, wrench_breakdown
from samara.physics.rotor import RotorLoad, density_ratio, rotor_wrench

_HELD = 1e-6  # a rotor speed is held when it changes by less than this, of itself, in a second


def effectiveness(vehicle: Vehicle) -> np.ndarray[Any, Any]:
    """B (6 × n): force and torque on the body of one newton of thrust from each rotor, (f_B, τ_B) = B T"""
    columns = []
    for rotor in vehicle.rotors:
        unit = rotor_wrench(RotorLoad(1.0, rotor.k_torque / rotor.k_thrust), rotor)
        columns.append([*unit.f_B, *unit.tau_B])
    return np.array(columns, dtype=float).T


def hover(vehicle: Vehicle, p_W: Any = (0.0, 0.0, 1.0), environment: Environment = CALM) -> tuple[State, Command]:
    """B T = −(all other forces and torques), level, at rest: the exact trim, with the smallest Σ T² of all

    Rotor speeds are Ωᵢ = √(Tᵢ / (kF ρ/ρ₀)); the command is the one that keeps them. In wind it is the trim of a vehicle
    that can push sideways; one that cannot, or whose motors cannot keep those speeds, is refused.
    """
    state = _balanced(vehicle, p_W, environment)
    actuation = vehicle.structure.actuation
    command = actuation.steady_command(state, vehicle, environment)
    state = _settle_actuators(state, command, vehicle)
    accelerations = actuation.rotor_acceleration(state, command, vehicle, environment)
    for i, (acceleration, speed) in enumerate(zip(accelerations, state.rotor_speed, strict=True)):
        if abs(acceleration) > _HELD * speed:
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {i} would have to turn at {speed:.4g} rad/s, "
                f"which its motor does not hold (command {command[i]:.4g})"
            )
    return state, command


def _balanced(vehicle: Vehicle, p_W: Any, environment: Environment) -> State:
    state = at_rest(vehicle, Vec3(*(float(x) for x in p_W)))
    if not vehicle.rotors:
        return state
    parts = wrench_breakdown(state, tuple(0.0 for _ in vehicle.rotors), vehicle, environment)
    rest = [part for name, part in parts.items() if name not in ("rotors", "rotor_momentum")]
    needed = -np.array([[*(part.f_B + part.f_W), *part.tau_B] for part in rest], dtype=float).sum(axis=0)
    allocation = effectiveness(vehicle)
    thrust = np.linalg.lstsq(allocation, needed, rcond=None)[0]
    residual = float(np.abs(allocation @ thrust - needed).max())
    if residual > 1e-9 * float(np.abs(needed).max()):
        raise ValueError(f"vehicle {vehicle.name!r} cannot hover level: {residual:.3g} N or N·m remain unbalanced")
    if float(thrust.min()) < 0.0:
        raise ValueError(f"vehicle {vehicle.name!r} cannot hover: rotor {int(thrust.argmin())} would have to pull")
    ratio = density_ratio(environment.air_density)
    speeds = tuple(
        float(np.sqrt(newton / (rotor.k_thrust * ratio))) for newton, rotor in zip(thrust, vehicle.rotors, strict=True)
    )
    return state._replace(rotor_speed=speeds)


def thrust_to_weight(vehicle: Vehicle) -> float:
    """(Ω_max / Ω_hover)²: how much more than its weight a vehicle lifts with the first of its rotors at its limit

    A body driven by a wrench has no limit: infinity.
    """
    if not vehicle.rotors:
        return float("inf")
    state = _balanced(vehicle, (0.0, 0.0, 1.0), CALM)
    low, high = 0.0, 1.0
    while _within_limits(state, high, vehicle):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _within_limits(state, middle, vehicle) else (low, middle)
    return low * low


def _within_limits(state: State, factor: float, vehicle: Vehicle) -> bool:
    faster = state._replace(rotor_speed=tuple(factor * speed for speed in state.rotor_speed))
    command = vehicle.structure.actuation.steady_command(faster, vehicle, CALM)
    if vehicle.structure.actuation.name == "speed":
        return all(u <= rotor.motor.speed_max for u, rotor in zip(command, vehicle.rotors, strict=True))
    return all(u <= 1.0 for u in command)


def _settle_actuators(state: State, command: Command, vehicle: Vehicle) -> State:
    if not vehicle.has("actuator"):
        return state
    at = vehicle.index("actuator")
    settled = tuple(ActuatorState(u, 0.0) for u in command)
    return state._replace(effects=(*state.effects[:at], settled, *state.effects[at + 1 :]))
