"""Hover trim: the rotor speeds and the command that hold a vehicle stationary, and the rotors' loads in hover."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3, cross, quat_from_euler
from samara.core.batch_scalar import BatchScalar, float_or_batch_scalar, map_batch, scalar_array
from samara.core.coerce import is_number
from samara.core.ops import atan2, safe_norm
from samara.core.portable_linalg import least_squares, product, pseudoinverse
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.effect import Role, wrench_in_body_axes
from samara.physics.inputs import require_vehicle
from samara.physics.multirotor import replace_tilt_angles, state_at_rest, steady_command, tilt_angles, wrench_breakdown
from samara.physics.rotors.propulsion import lag_motors, rotor_loads
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor, RotorLoad, density_ratio, rotor_load, rotor_wrench
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.defaults import contact_depths

_MAX_SPEED_DRIFT = 1e-6  # [1/s]: relative rate below which a rotor speed counts as constant
_RESIDUAL_TOLERANCE = 1e-12  # of the weight: residual at which Newton's method stops
_MAX_RESIDUAL = 1e-9  # of the weight: largest residual of a trim
_MAX_ITERATIONS = 20  # of Newton's method; three or four suffice
_JACOBIAN_REUSE_RATIO = 0.01  # ratio of successive errors below which the next iteration reuses the Jacobian
_DIFFERENCE_STEP = 1e-4  # of a rotor's part of the weight, for finite differences
_CONTACT_TOLERANCE = 1e-9  # [m]: rounding of the height at which the feet touch the ground
_RANK_TOLERANCE = 1e-6  # of the largest singular value: smaller ones are rounding in a direction without influence


def effectiveness(vehicle: Vehicle) -> Array:
    """B (6 × n): force and torque on the body of one newton of thrust from each rotor, (f_B, τ_B) = B T

    A tilting rotor has a second column, after those of all rotors. With T cos δ along its axis and T sin δ along h × a,
    force and torque are linear in both; `thrusts_and_angles` converts them to thrust and angle.
    """
    columns = []
    rotors = [*vehicle.rotors, *(_lateral_rotor(vehicle.rotors[i]) for i in vehicle.servos)]
    for rotor in rotors:
        unit_wrench = rotor_wrench(RotorLoad(1.0, rotor.k_torque / rotor.k_thrust), rotor)
        columns.append([*unit_wrench.f_B, *unit_wrench.tau_B])
    return scalar_array(columns).T


def _lateral_rotor(rotor: Rotor) -> Rotor:
    return rotor._replace(axis_B=cross(rotor.servo.hinge_B, rotor.axis_B))


def thrusts_and_angles(components: Sequence[Scalar], vehicle: Vehicle) -> tuple[list[Scalar], list[Scalar]]:
    """T = √(T_a² + T_s²) of every rotor, and δ = atan2(T_s, T_a) of those that tilt, from the components of `effectiveness`"""
    count = len(vehicle.rotors)
    thrusts, angles = list(components[:count]), []
    for i, lateral in zip(vehicle.servos, components[count:], strict=True):
        axial = thrusts[i]
        thrusts[i] = safe_norm(axial, lateral)
        angles.append(atan2(lateral, axial))
    return thrusts, angles


class Trim(NamedTuple):
    """A steady state, and the command that holds its rotor speeds."""

    state: State
    command: Command


def hover(vehicle: Vehicle, p_W: Sequence[Scalar] = (0.0, 0.0, 1.0), environment: Environment = CALM) -> Trim:
    """Σ (forces, torques) = 0, level, at rest, all effects settled: the exact trim with the smallest Σ Ω⁴

    With thrust kF Ω² this minimises Σ T². A vehicle with tilting rotors balances their lateral thrust by rolling and pitching;
    all others are level. In wind only a vehicle that can push sideways has a trim.

    Args:
        vehicle: the vehicle, with all its effects.
        p_W: position of the centre of mass [m].
        environment: air, wind and ground.

    Returns:
        The trim: `state, command = hover(vehicle)`, or `hover(vehicle).command`.

    Raises:
        ValueError: no such trim exists, the motors cannot hold its speeds, or the feet would be below the ground.
    """
    require_vehicle(vehicle)
    try:
        position = tuple(float_or_batch_scalar(x) for x in p_W)
    except (TypeError, ValueError, OverflowError):
        position = ()
    if len(position) != 3 or not all(type(x) is BatchScalar or is_number(x) for x in position):
        raise ValueError(f"p_W is {p_W!r:.60}; expected three finite numbers")
    inputs = (vehicle.mass, vehicle.inertia_B, vehicle.rotors, vehicle.parameters, position, environment)
    name = ("hover", vehicle.structure)
    return map_batch(name, lambda tree: _hover(Vehicle(vehicle.structure, *tree[:4]), *tree[4:]), inputs)


def _require_above_ground(vehicle: Vehicle, p_W: Sequence[float], environment: Environment) -> None:
    """Raise ValueError if a level vehicle at p_W would have its feet below the ground."""
    ground, position = environment.ground, Vec3(*p_W)
    deepest = max(contact_depths(state_at_rest(vehicle, position), vehicle, environment), default=0.0)
    if deepest > _CONTACT_TOLERANCE:
        min_height = position.z + deepest / ground.normal_W.z
        coordinates = ", ".join(f"{x:g}" for x in position)
        raise ValueError(
            f"vehicle {vehicle.name!r} cannot hover at p_W = ({coordinates}): its feet would be {deepest:.3g} m "
            f"below the ground; expected p_W.z of {math.ceil(1e4 * min_height) / 1e4:g} m or more"
        )


def _hover(vehicle: Vehicle, p_W: Sequence[float], environment: Environment) -> Trim:
    _require_above_ground(vehicle, p_W, environment)
    state = _solve_trim(vehicle, p_W, environment)
    actuation = vehicle.structure.actuation
    command = steady_command(state, vehicle, environment)
    _require_angles(state, vehicle)
    state = _settle_effects(state, command, vehicle, environment)
    accelerations = actuation.rotor_acceleration(state, command, vehicle, environment)
    for i, (acceleration, speed) in enumerate(zip(accelerations, state.rotor_speed, strict=True)):
        if abs(acceleration) > _MAX_SPEED_DRIFT * speed:
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {i} would have to turn at {speed:.4g} rad/s, "
                f"which its motor does not hold (command {command[i]:.4g})"
            )
    return Trim(state, command)


def _solve_trim(vehicle: Vehicle, p_W: Sequence[Scalar], environment: Environment) -> State:
    """Solve for kF Ω² of every rotor by Newton's method with settled effects; B is the first Jacobian."""
    for index, effect in enumerate(vehicle.structure.effects):
        if not effect.trimmed:
            state, initial_state = (
                _solve_trim(vehicle.without_effect(effect.name), p_W, environment),
                effect.initial(vehicle),
            )
            return state._replace(effects=(*state.effects[:index], initial_state, *state.effects[index:]))
    state = state_at_rest(vehicle, Vec3(*(float(x) for x in p_W)))
    if not vehicle.rotors:
        return state
    if vehicle.servos:
        return _solve_tilted_trim(vehicle, state, environment)
    thrust: Array = np.zeros(len(vehicle.rotors))
    residual = _residual(thrust, state, vehicle, environment)
    weight, error = float(np.abs(residual).max()), np.inf
    jacobian = effectiveness(vehicle)
    for _ in range(_MAX_ITERATIONS):
        next_thrust = least_squares(jacobian, product(jacobian, thrust) - residual, relative_tolerance=_RANK_TOLERANCE)
        if float(next_thrust.min()) < 0.0:
            _require_level(float(np.abs(product(jacobian, next_thrust - thrust) + residual).max()), weight, vehicle)
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {int(next_thrust.argmin())} would have to pull"
            )
        next_residual = _residual(next_thrust, state, vehicle, environment)
        previous_error, next_error = error, float(np.abs(next_residual).max())
        if not next_error < previous_error:
            break
        thrust, residual, error = next_thrust, next_residual, next_error
        if error <= _RESIDUAL_TOLERANCE * weight:
            break
        if not error < _JACOBIAN_REUSE_RATIO * previous_error < np.inf:
            jacobian = _jacobian(thrust, residual, state, vehicle, environment)
    _require_level(error, weight, vehicle)
    return _spinning_state(thrust, state, vehicle, environment)


def _require_level(error: float, weight: float, vehicle: Vehicle) -> None:
    if not error <= _MAX_RESIDUAL * weight:
        raise ValueError(f"vehicle {vehicle.name!r} cannot hover level: {error:.3g} N or N·m remain unbalanced")


def _spinning_state(thrust: Array, state: State, vehicle: Vehicle, environment: Environment) -> State:
    """Return the state with Ωᵢ = √(Tᵢ / (kF ρ/ρ₀)) and settled effects."""
    ratio = density_ratio(environment.air_density)
    speeds = tuple(
        float(np.sqrt(rotor_thrust / (rotor.k_thrust * ratio)))
        for rotor_thrust, rotor in zip(thrust, vehicle.rotors, strict=True)
    )
    state = state._replace(rotor_speed=speeds)
    return _settle_effects(state, steady_command(state, vehicle, environment), vehicle, environment)


def _residual(thrust: Array, state: State, vehicle: Vehicle, environment: Environment) -> Array:
    """(f, τ): sum of all forces and torques at constant rotor speeds"""
    state = _spinning_state(thrust, state, vehicle, environment)
    command = steady_command(state, vehicle, environment)
    wrenches = zip(
        vehicle.structure.effects, wrench_breakdown(state, command, vehicle, environment).values(), strict=True
    )
    steady_wrenches = [wrench for effect, wrench in wrenches if effect.role is not Role.MOMENTUM]
    return np.array([[*(wrench.f_B + wrench.f_W), *wrench.tau_B] for wrench in steady_wrenches], dtype=float).sum(
        axis=0
    )


def _jacobian(thrust: Array, residual: Array, state: State, vehicle: Vehicle, environment: Environment) -> Array:
    """∂(f, τ)/∂T by forward differences"""
    step = _DIFFERENCE_STEP * float(thrust.mean())
    residuals = [_residual(thrust + step * unit, state, vehicle, environment) for unit in np.eye(len(thrust))]
    return np.array([(shifted - residual) / step for shifted in residuals]).T


def _solve_tilted_trim(vehicle: Vehicle, state: State, environment: Environment) -> State:
    """Solve for the thrust components and for roll and pitch, which balance the lateral thrust, by Newton's method.

    Roll and pitch are scaled by the weight, so that all unknowns are in newtons.
    """
    weight = float(vehicle.mass * vehicle["gravity"].acceleration) if vehicle.has("gravity") else 1.0
    components = product(pseudoinverse(effectiveness(vehicle)[2:]), np.array([weight, 0.0, 0.0, 0.0]))
    x: Array = np.concatenate([components, np.zeros(2)])

    def trial_state(x: Array) -> State:
        thrusts, angles = thrusts_and_angles([float(component) for component in x[:-2]], vehicle)
        q_WB = quat_from_euler(float(x[-2]) / weight, float(x[-1]) / weight, 0.0)
        tilted = replace_tilt_angles(state._replace(q_WB=q_WB), angles, vehicle)
        return replace_tilt_angles(_spinning_state(np.array(thrusts), tilted, vehicle, environment), angles, vehicle)

    def residual(x: Array) -> Array:
        trial = trial_state(x)
        command = steady_command(trial, vehicle, environment)
        wrenches = zip(
            vehicle.structure.effects, wrench_breakdown(trial, command, vehicle, environment).values(), strict=True
        )
        body_wrenches = [
            wrench_in_body_axes(wrench, trial.q_WB) for effect, wrench in wrenches if effect.role is not Role.MOMENTUM
        ]
        return np.array([[*wrench.f_B, *wrench.tau_B] for wrench in body_wrenches], dtype=float).sum(axis=0)

    step, error = _DIFFERENCE_STEP * weight / len(vehicle.rotors), np.inf
    solution = x
    for _ in range(_MAX_ITERATIONS):
        value = residual(x)
        value_norm = float(np.abs(value).max())
        if not value_norm < error:
            break
        solution, error = x, value_norm
        if error <= _RESIDUAL_TOLERANCE * weight:
            break
        jacobian = np.array(
            [(residual(x + step * unit) - residual(x - step * unit)) / (2.0 * step) for unit in np.eye(len(x))]
        ).T
        x = x + least_squares(jacobian, -value, relative_tolerance=_RANK_TOLERANCE)
        if float(x[: len(vehicle.rotors)].min()) < 0.0:
            raise ValueError(f"vehicle {vehicle.name!r} cannot hover: rotor {int(x.argmin())} would have to pull")
    _require_level(error, weight, vehicle)
    return trial_state(solution)


def _require_angles(state: State, vehicle: Vehicle) -> None:
    for i, angle in zip(vehicle.servos, tilt_angles(state, vehicle), strict=True):
        servo = vehicle.rotors[i].servo
        if not servo.low <= angle <= servo.high:
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {i} would have to tilt to {angle:.4g} rad, which its servo, "
                f"[{servo.low:.4g}, {servo.high:.4g}] rad, does not reach"
            )


def _settle_effects(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> State:
    """Return the state with the state of every effect settled, one after the other."""
    for index, effect in enumerate(vehicle.structure.effects):
        settled_state = effect.steady_state(state.effects[index], state, command, vehicle, environment)
        state = state._replace(effects=(*state.effects[:index], settled_state, *state.effects[index + 1 :]))
    return state


def thrust_to_weight(vehicle: Vehicle) -> float:
    """(Ω_max / Ω_hover)²: the largest factor on the hover thrust with all rotors within their limits

    Infinity for a body driven by a commanded wrench.
    """
    require_vehicle(vehicle)
    if not vehicle.rotors:
        return float("inf")
    state = _solve_trim(vehicle, (0.0, 0.0, 1.0), CALM)
    low, high = 0.0, 1.0
    while _is_within_limits(state, high, vehicle):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _is_within_limits(state, middle, vehicle) else (low, middle)
    return low * low


def _is_within_limits(state: State, factor: float, vehicle: Vehicle) -> bool:
    scaled_state = state._replace(rotor_speed=tuple(factor * speed for speed in state.rotor_speed))
    actuation = vehicle.structure.actuation
    scaled_state = _settle_effects(scaled_state, steady_command(scaled_state, vehicle, CALM), vehicle, CALM)
    command = steady_command(scaled_state, vehicle, CALM)[: len(vehicle.rotors)]
    if actuation.name == "speed":
        motors = lag_motors(scaled_state, vehicle, CALM)
        return all(u <= motor.speed_max for u, motor in zip(command, motors, strict=True))
    return all(u <= 1.0 for u in command)


_MAX_LOAD_ITERATIONS = 60  # each reduces the error to a third
_LOAD_TOLERANCE = 1e-13
_MIN_LOAD_FRACTION = 0.01
_LINEAR_IN_DENSITY = ("drag", "damping", "rotor_drag", "rolling_moment")


def select_effective_rotors(vehicle: Vehicle) -> Vehicle:
    """Fold the effects with `scales_hover_loads` into kF and kM of the rotors, at their values in hover, and remove them."""
    folded = [effect.name for effect in vehicle.structure.effects if effect.scales_hover_loads]
    return _scale_coefficients(vehicle.without_effect(*folded), load_fractions(vehicle)) if folded else vehicle


def scale_to_density(vehicle: Vehicle, density: float) -> Vehicle:
    """Scale the coefficients so that the vehicle behaves at sea level as it does at another air density: k' = k ρ/ρ₀

    Thrust, torque, drag and damping of a controller's model are linear in their coefficients, so a controller that
    computes with the sea-level density is exact at ρ with the scaled coefficients.
    """
    if density == SEA_LEVEL_DENSITY:
        return vehicle
    ratio = density_ratio(density)
    rotors = tuple(
        rotor._replace(k_thrust=rotor.k_thrust * ratio, k_torque=rotor.k_torque * ratio) for rotor in vehicle.rotors
    )
    parameters = tuple(
        unflatten(record, iter([leaf * ratio for leaf in flatten(record)]))
        if effect.name in _LINEAR_IN_DENSITY
        else record
        for effect, record in zip(vehicle.structure.effects, vehicle.parameters, strict=True)
    )
    return replace(vehicle, rotors=rotors, parameters=parameters)


def _scale_coefficients(vehicle: Vehicle, fractions: Sequence[RotorLoad]) -> Vehicle:
    rotors = tuple(
        rotor._replace(k_thrust=rotor.k_thrust * fraction.thrust, k_torque=rotor.k_torque * fraction.torque)
        for rotor, fraction in zip(vehicle.rotors, fractions, strict=True)
    )
    return replace(vehicle, rotors=rotors)


@lru_cache(maxsize=64)
def load_fractions(vehicle: Vehicle) -> tuple[RotorLoad, ...]:
    """T/(kF Ω²) and Q/(kM Ω²) of every rotor, including the effects with `scales_hover_loads`, in the hover with the
    smallest Σ T²

    The distribution of the weight depends on these fractions, and they depend on the rotor speeds: a fixed-point iteration.
    """
    effects = vehicle.structure.effects
    bare = vehicle.without_effect(
        *(
            effect.name
            for effect in effects
            if (effect.loads or effect.additional_loads) and not effect.scales_hover_loads
        )
    )
    weight = vehicle.mass * vehicle["gravity"].acceleration if vehicle.has("gravity") else 1.0
    state, fractions = state_at_rest(bare), [RotorLoad(1.0, 1.0) for _ in vehicle.rotors]
    for _ in range(_MAX_LOAD_ITERATIONS):
        thrust_components = product(
            pseudoinverse(effectiveness(_scale_coefficients(bare, fractions))[2:]), np.array([weight, 0.0, 0.0, 0.0])
        )
        min_thrust = 1e-3 * float(np.abs(thrust_components).max())
        gains = [rotor.k_thrust * fraction.thrust for rotor, fraction in zip(vehicle.rotors, fractions, strict=True)]
        thrusts = thrust_components[: len(gains)]
        speeds = tuple(
            float(np.sqrt(max(thrust, min_thrust) / gain)) for thrust, gain in zip(thrusts, gains, strict=True)
        )
        loads = rotor_loads(state._replace(rotor_speed=speeds), bare, CALM)
        previous, fractions = (
            fractions,
            [_load_fraction(*rotor_inputs) for rotor_inputs in zip(loads, speeds, vehicle.rotors, strict=True)],
        )
        if max(abs(a.thrust - b.thrust) for a, b in zip(fractions, previous, strict=True)) < _LOAD_TOLERANCE:
            break
    return tuple(fractions)


def _load_fraction(load: RotorLoad, speed: float, rotor: Rotor) -> RotorLoad:
    """Return the load as a fraction of the isolated rotor's, at least a hundredth because controllers divide by it."""
    isolated = rotor_load(speed, rotor)
    torque = load.torque / isolated.torque if isolated.torque else 1.0
    return RotorLoad(
        max(float(load.thrust / isolated.thrust), _MIN_LOAD_FRACTION), max(float(torque), _MIN_LOAD_FRACTION)
    )
