"""Balance: the rotor speeds and the command that hold a vehicle still in the air."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from samara.core.algebra import Vec3
from samara.core.argument import is_number
from samara.core.matrices import least_squares, product
from samara.core.number_tape import in_each_lane, numbers_array
from samara.physics.effect import Role
from samara.physics.multirotor import at_rest, wrench_breakdown
from samara.physics.rotors.propulsion import lag_motors
from samara.physics.rotors.rotor import RotorLoad, density_ratio, rotor_wrench
from samara.physics.types import CALM, Command, Environment, State, Vehicle

Array: TypeAlias = np.ndarray[Any, Any]

_HELD = 1e-6  # a rotor speed is held when it changes by less than this, of itself, in a second
_BALANCED = 1e-12  # of the weight: what may remain
_UNBALANCED = 1e-9  # of the weight: more than this is no trim
_ROUNDS = 20  # of Newton's method; three or four do
_FAST = 0.01  # of the error left by a round: then the next needs no new slopes
_STEP = 1e-4  # of a rotor's share of the weight, for its slopes
_RANK = 1e-6  # of the largest slope: what is smaller is rounding in a direction that changes nothing


def effectiveness(vehicle: Vehicle) -> Array:
    """B (6 × n): force and torque on the body of one newton of thrust from each rotor, (f_B, τ_B) = B T"""
    columns = []
    for rotor in vehicle.rotors:
        unit = rotor_wrench(RotorLoad(1.0, rotor.k_torque / rotor.k_thrust), rotor)
        columns.append([*unit.f_B, *unit.tau_B])
    return numbers_array(columns).T


def hover(vehicle: Vehicle, p_W: Any = (0.0, 0.0, 1.0), environment: Environment = CALM) -> tuple[State, Command]:
    """Σ (forces, torques) = 0, level, at rest, all effects settled: the exact trim, with the smallest Σ Ω⁴ of all

    Where thrust is kF Ω² that is the smallest Σ T². The command is the one that keeps the rotor speeds. In wind it is the trim
    of a vehicle that can push sideways; one that cannot, or whose motors cannot keep those speeds, is refused.
    """
    if not isinstance(vehicle, Vehicle):
        raise ValueError(f"the vehicle is {vehicle!r:.60}; expected a Vehicle, as samara.vehicle makes")
    try:
        place = [float(x) for x in p_W]
    except (TypeError, ValueError, OverflowError):
        place = []
    if len(place) != 3 or not all(is_number(x) for x in place):
        raise ValueError(f"p_W is {p_W!r:.60}; expected three finite numbers")
    numbers = (vehicle.mass, vehicle.inertia_B, vehicle.rotors, vehicle.parameters)
    name = ("hover", vehicle.structure, tuple(place), environment)
    return in_each_lane(name, lambda own: _hover(Vehicle(vehicle.structure, *own), place, environment), numbers)


def _hover(vehicle: Vehicle, p_W: Sequence[float], environment: Environment) -> tuple[State, Command]:
    state = _balanced(vehicle, p_W, environment)
    actuation = vehicle.structure.actuation
    command = actuation.steady_command(state, vehicle, environment)
    state = _settled(state, command, vehicle, environment)
    accelerations = actuation.rotor_acceleration(state, command, vehicle, environment)
    for i, (acceleration, speed) in enumerate(zip(accelerations, state.rotor_speed, strict=True)):
        if abs(acceleration) > _HELD * speed:
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {i} would have to turn at {speed:.4g} rad/s, "
                f"which its motor does not hold (command {command[i]:.4g})"
            )
    return state, command


def _balanced(vehicle: Vehicle, p_W: Any, environment: Environment) -> State:
    """Newton on all that acts as a function of every rotor's kF Ω², the effects settled at each; B is its first slope."""
    for at, effect in enumerate(vehicle.structure.effects):
        if not effect.trimmed:
            state, own = _balanced(vehicle.without_effect(effect.name), p_W, environment), effect.initial(vehicle)
            return state._replace(effects=(*state.effects[:at], own, *state.effects[at:]))
    state = at_rest(vehicle, Vec3(*(float(x) for x in p_W)))
    if not vehicle.rotors:
        return state
    thrust: Array = np.zeros(len(vehicle.rotors))
    left = _left(thrust, state, vehicle, environment)
    weight, error = float(np.abs(left).max()), np.inf
    slopes = effectiveness(vehicle)
    for _ in range(_ROUNDS):
        ahead = least_squares(slopes, product(slopes, thrust) - left, negligible=_RANK)
        if float(ahead.min()) < 0.0:
            _require_level(float(np.abs(product(slopes, ahead - thrust) + left).max()), weight, vehicle)
            raise ValueError(f"vehicle {vehicle.name!r} cannot hover: rotor {int(ahead.argmin())} would have to pull")
        left_ahead = _left(ahead, state, vehicle, environment)
        before, error_ahead = error, float(np.abs(left_ahead).max())
        if not error_ahead < before:
            break
        thrust, left, error = ahead, left_ahead, error_ahead
        if error <= _BALANCED * weight:
            break
        if not error < _FAST * before < np.inf:
            slopes = _slopes(thrust, left, state, vehicle, environment)
    _require_level(error, weight, vehicle)
    return _turning(thrust, state, vehicle, environment)


def _require_level(error: float, weight: float, vehicle: Vehicle) -> None:
    if not error <= _UNBALANCED * weight:
        raise ValueError(f"vehicle {vehicle.name!r} cannot hover level: {error:.3g} N or N·m remain unbalanced")


def _turning(thrust: Array, state: State, vehicle: Vehicle, environment: Environment) -> State:
    """The state with Ωᵢ = √(Tᵢ / (kF ρ/ρ₀)) and its effects at rest there"""
    ratio = density_ratio(environment.air_density)
    speeds = tuple(
        float(np.sqrt(newton / (rotor.k_thrust * ratio))) for newton, rotor in zip(thrust, vehicle.rotors, strict=True)
    )
    state = state._replace(rotor_speed=speeds)
    command = vehicle.structure.actuation.steady_command(state, vehicle, environment)
    return _settled(state, command, vehicle, environment)


def _left(thrust: Array, state: State, vehicle: Vehicle, environment: Environment) -> Array:
    """(f, τ): what remains of all forces and torques, at rotor speeds that do not change"""
    state = _turning(thrust, state, vehicle, environment)
    command = vehicle.structure.actuation.steady_command(state, vehicle, environment)
    parts = zip(vehicle.structure.effects, wrench_breakdown(state, command, vehicle, environment).values(), strict=True)
    rest = [part for effect, part in parts if effect.role is not Role.MOMENTUM]
    return np.array([[*(part.f_B + part.f_W), *part.tau_B] for part in rest], dtype=float).sum(axis=0)


def _slopes(thrust: Array, left: Array, state: State, vehicle: Vehicle, environment: Environment) -> Array:
    """d(f, τ)/dT by differences"""
    step = _STEP * float(thrust.mean())
    ahead = [_left(thrust + step * unit, state, vehicle, environment) for unit in np.eye(len(thrust))]
    return np.array([(other - left) / step for other in ahead]).T


def _settled(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> State:
    """The state with every effect's own state at rest, one after the other"""
    for at, effect in enumerate(vehicle.structure.effects):
        own = effect.settled(state.effects[at], state, command, vehicle, environment)
        state = state._replace(effects=(*state.effects[:at], own, *state.effects[at + 1 :]))
    return state


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
    actuation = vehicle.structure.actuation
    faster = _settled(faster, actuation.steady_command(faster, vehicle, CALM), vehicle, CALM)
    command = actuation.steady_command(faster, vehicle, CALM)
    if actuation.name == "speed":
        motors = lag_motors(faster, vehicle, CALM)
        return all(u <= motor.speed_max for u, motor in zip(command, motors, strict=True))
    return all(u <= 1.0 for u in command)
