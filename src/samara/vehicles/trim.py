"""Hover trim: the rotor speeds and the command that hold a vehicle still in the air, and the rotors' loads there."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from samara.core.algebra import Vec3, cross, quat_from_euler
from samara.core.batch_scalar import BatchScalar, as_scalar, call_for_each, scalar_array
from samara.core.coerce import is_number
from samara.core.ops import atan2, safe_norm
from samara.core.portable_linalg import least_squares, product, pseudoinverse
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.effect import Role, wrench_in_body_axes
from samara.physics.multirotor import at_rest, steady_command, tilt_angles, with_angles, wrench_breakdown
from samara.physics.rotors.propulsion import lag_motors, rotor_loads
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor, RotorLoad, density_ratio, rotor_load, rotor_wrench
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.defaults import contact_depths

_HELD = 1e-6  # a rotor speed is held when it changes by less than this, of itself, in a second
_BALANCED = 1e-12  # of the weight: what may remain
_UNBALANCED = 1e-9  # of the weight: more than this is no trim
_ROUNDS = 20  # of Newton's method; three or four do
_FAST = 0.01  # of the error left by a round: then the next needs no new slopes
_STEP = 1e-4  # of a rotor's share of the weight, for its slopes
_TOUCHING = 1e-9  # [m]: rounding of the height at which the feet touch the ground
_RANK = 1e-6  # of the largest slope: what is smaller is rounding in a direction that changes nothing


def effectiveness(vehicle: Vehicle) -> Array:
    """B (6 × n): force and torque on the body of one newton of thrust from each rotor, (f_B, τ_B) = B T

    A rotor that tilts has a second column, after those of all rotors. With T cos δ along its axis and T sin δ across it, along
    h × a, force and torque are linear in both: `polar` makes thrusts and angles of them.
    """
    columns = []
    rotors = [*vehicle.rotors, *(_across(vehicle.rotors[i]) for i in vehicle.servos)]
    for rotor in rotors:
        unit = rotor_wrench(RotorLoad(1.0, rotor.k_torque / rotor.k_thrust), rotor)
        columns.append([*unit.f_B, *unit.tau_B])
    return scalar_array(columns).T


def _across(rotor: Rotor) -> Rotor:
    return rotor._replace(axis_B=cross(rotor.servo.hinge_B, rotor.axis_B))


def polar(parts: Sequence[Scalar], vehicle: Vehicle) -> tuple[list[Scalar], list[Scalar]]:
    """T = √(T_a² + T_s²) of every rotor, and δ = atan2(T_s, T_a) of those that tilt, from the numbers of `effectiveness`"""
    count = len(vehicle.rotors)
    thrusts, angles = list(parts[:count]), []
    for i, across in zip(vehicle.servos, parts[count:], strict=True):
        along = thrusts[i]
        thrusts[i] = safe_norm(along, across)
        angles.append(atan2(across, along))
    return thrusts, angles


def hover(
    vehicle: Vehicle, p_W: Sequence[Scalar] = (0.0, 0.0, 1.0), environment: Environment = CALM
) -> tuple[State, Command]:
    """Σ (forces, torques) = 0, level, at rest, all effects settled: the exact trim, with the smallest Σ Ω⁴ of all

    A vehicle with rotors that tilt leans against what they push sideways; all others are level.

    Where thrust is kF Ω² that is the smallest Σ T². The command is the one that keeps the rotor speeds. In wind it is the trim
    of a vehicle that can push sideways; one that cannot, or whose motors cannot keep those speeds, is refused.
    """
    if not isinstance(vehicle, Vehicle):
        raise ValueError(f"the vehicle is {vehicle!r:.60}; expected a Vehicle, as samara.vehicle makes")
    try:
        place = tuple(as_scalar(x) for x in p_W)
    except (TypeError, ValueError, OverflowError):
        place = ()
    if len(place) != 3 or not all(type(x) is BatchScalar or is_number(x) for x in place):
        raise ValueError(f"p_W is {p_W!r:.60}; expected three finite numbers")
    numbers = (vehicle.mass, vehicle.inertia_B, vehicle.rotors, vehicle.parameters, place, environment)
    name = ("hover", vehicle.structure)
    return call_for_each(name, lambda tree: _hover(Vehicle(vehicle.structure, *tree[:4]), *tree[4:]), numbers)


def _require_above_ground(vehicle: Vehicle, p_W: Sequence[float], environment: Environment) -> None:
    """Raise a ValueError where a level vehicle at p_W would stand in the ground"""
    ground, place = environment.ground, Vec3(*p_W)
    deepest = max(contact_depths(at_rest(vehicle, place), vehicle, environment), default=0.0)
    if deepest > _TOUCHING:
        lowest = place.z + deepest / ground.normal_W.z
        listed = ", ".join(f"{x:g}" for x in place)
        raise ValueError(
            f"vehicle {vehicle.name!r} cannot hover at p_W = ({listed}): its feet would be {deepest:.3g} m below the ground; "
            f"expected p_W.z of {math.ceil(1e4 * lowest) / 1e4:g} m or more"
        )


def _hover(vehicle: Vehicle, p_W: Sequence[float], environment: Environment) -> tuple[State, Command]:
    _require_above_ground(vehicle, p_W, environment)
    state = _balanced(vehicle, p_W, environment)
    actuation = vehicle.structure.actuation
    command = steady_command(state, vehicle, environment)
    _require_angles(state, vehicle)
    state = _settled(state, command, vehicle, environment)
    accelerations = actuation.rotor_acceleration(state, command, vehicle, environment)
    for i, (acceleration, speed) in enumerate(zip(accelerations, state.rotor_speed, strict=True)):
        if abs(acceleration) > _HELD * speed:
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {i} would have to turn at {speed:.4g} rad/s, "
                f"which its motor does not hold (command {command[i]:.4g})"
            )
    return state, command


def _balanced(vehicle: Vehicle, p_W: Sequence[Scalar], environment: Environment) -> State:
    """Newton on all that acts as a function of every rotor's kF Ω², the effects settled at each; B is its first slope."""
    for at, effect in enumerate(vehicle.structure.effects):
        if not effect.trimmed:
            state, own = _balanced(vehicle.without_effect(effect.name), p_W, environment), effect.initial(vehicle)
            return state._replace(effects=(*state.effects[:at], own, *state.effects[at:]))
    state = at_rest(vehicle, Vec3(*(float(x) for x in p_W)))
    if not vehicle.rotors:
        return state
    if vehicle.servos:
        return _leaning(vehicle, state, environment)
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
    return _settled(state, steady_command(state, vehicle, environment), vehicle, environment)


def _left(thrust: Array, state: State, vehicle: Vehicle, environment: Environment) -> Array:
    """(f, τ): what remains of all forces and torques, at rotor speeds that do not change"""
    state = _turning(thrust, state, vehicle, environment)
    command = steady_command(state, vehicle, environment)
    parts = zip(vehicle.structure.effects, wrench_breakdown(state, command, vehicle, environment).values(), strict=True)
    rest = [part for effect, part in parts if effect.role is not Role.MOMENTUM]
    return np.array([[*(part.f_B + part.f_W), *part.tau_B] for part in rest], dtype=float).sum(axis=0)


def _slopes(thrust: Array, left: Array, state: State, vehicle: Vehicle, environment: Environment) -> Array:
    """d(f, τ)/dT by differences"""
    step = _STEP * float(thrust.mean())
    ahead = [_left(thrust + step * unit, state, vehicle, environment) for unit in np.eye(len(thrust))]
    return np.array([(other - left) / step for other in ahead]).T


def _leaning(vehicle: Vehicle, state: State, environment: Environment) -> State:
    """Newton on the parts of the thrusts, and on roll and pitch, with which the body leans against what is left sideways

    Roll and pitch count as the newtons of the weight that they tip over.
    """
    weight = float(vehicle.mass * vehicle["gravity"].acceleration) if vehicle.has("gravity") else 1.0
    parts = product(pseudoinverse(effectiveness(vehicle)[2:]), np.array([weight, 0.0, 0.0, 0.0]))
    x: Array = np.concatenate([parts, np.zeros(2)])

    def at(x: Array) -> State:
        thrusts, angles = polar([float(own) for own in x[:-2]], vehicle)
        q_WB = quat_from_euler(float(x[-2]) / weight, float(x[-1]) / weight, 0.0)
        turned = with_angles(state._replace(q_WB=q_WB), angles, vehicle)
        return with_angles(_turning(np.array(thrusts), turned, vehicle, environment), angles, vehicle)

    def left(x: Array) -> Array:
        here = at(x)
        command = steady_command(here, vehicle, environment)
        found = zip(
            vehicle.structure.effects, wrench_breakdown(here, command, vehicle, environment).values(), strict=True
        )
        rest = [wrench_in_body_axes(part, here.q_WB) for effect, part in found if effect.role is not Role.MOMENTUM]
        return np.array([[*part.f_B, *part.tau_B] for part in rest], dtype=float).sum(axis=0)

    step, error = _STEP * weight / len(vehicle.rotors), np.inf
    best = x
    for _ in range(_ROUNDS):
        here = left(x)
        size = float(np.abs(here).max())
        if not size < error:
            break
        best, error = x, size
        if error <= _BALANCED * weight:
            break
        slopes = np.array([(left(x + step * unit) - left(x - step * unit)) / (2.0 * step) for unit in np.eye(len(x))]).T
        x = x + least_squares(slopes, -here, negligible=_RANK)
        if float(x[: len(vehicle.rotors)].min()) < 0.0:
            raise ValueError(f"vehicle {vehicle.name!r} cannot hover: rotor {int(x.argmin())} would have to pull")
    _require_level(error, weight, vehicle)
    return at(best)


def _require_angles(state: State, vehicle: Vehicle) -> None:
    for i, angle in zip(vehicle.servos, tilt_angles(state, vehicle), strict=True):
        servo = vehicle.rotors[i].servo
        if not servo.low <= angle <= servo.high:
            raise ValueError(
                f"vehicle {vehicle.name!r} cannot hover: rotor {i} would have to tilt to {angle:.4g} rad, which its servo, "
                f"[{servo.low:.4g}, {servo.high:.4g}] rad, does not reach"
            )


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
    faster = _settled(faster, steady_command(faster, vehicle, CALM), vehicle, CALM)
    command = steady_command(faster, vehicle, CALM)[: len(vehicle.rotors)]
    if actuation.name == "speed":
        motors = lag_motors(faster, vehicle, CALM)
        return all(u <= motor.speed_max for u, motor in zip(command, motors, strict=True))
    return all(u <= 1.0 for u in command)


_LOAD_ROUNDS = 60  # each leaves a third of the error
_SETTLED = 1e-13
_LEAST = 0.01
_LINEAR_IN_DENSITY = ("drag", "damping", "rotor_drag", "rolling_moment")


def effective(vehicle: Vehicle) -> Vehicle:
    """The vehicle without the effects that are counted, its rotors with the kF and kM that those leave in hover"""
    counted = [effect.name for effect in vehicle.structure.effects if effect.counted]
    return _with(vehicle.without_effect(*counted), loads_left(vehicle)) if counted else vehicle


def at_density(vehicle: Vehicle, density: float) -> Vehicle:
    """The vehicle whose coefficients at sea level are this one's in air of another density: k' = k ρ/ρ₀

    Thrust, torque, drag and damping of a controller's model are linear in their coefficients, so a controller that
    computes with the sea-level density is exact at ρ with these.
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


def _with(vehicle: Vehicle, left: Sequence[RotorLoad]) -> Vehicle:
    rotors = tuple(
        rotor._replace(k_thrust=rotor.k_thrust * part.thrust, k_torque=rotor.k_torque * part.torque)
        for rotor, part in zip(vehicle.rotors, left, strict=True)
    )
    return replace(vehicle, rotors=rotors)


@lru_cache(maxsize=64)
def loads_left(vehicle: Vehicle) -> tuple[RotorLoad, ...]:
    """T/(kF Ω²) and Q/(kM Ω²) of every rotor, by what the effects that are counted leave where the smallest Σ T² hovers

    How the rotors share the weight depends on what is left to them, and that on how fast each turns: one after the other, until
    both agree.
    """
    effects = vehicle.structure.effects
    bare = vehicle.without_effect(*(own.name for own in effects if (own.loads or own.more_loads) and not own.counted))
    weight = vehicle.mass * vehicle["gravity"].acceleration if vehicle.has("gravity") else 1.0
    state, left = at_rest(bare), [RotorLoad(1.0, 1.0) for _ in vehicle.rotors]
    for _ in range(_LOAD_ROUNDS):
        shares = product(pseudoinverse(effectiveness(_with(bare, left))[2:]), np.array([weight, 0.0, 0.0, 0.0]))
        least = 1e-3 * float(np.abs(shares).max())
        gains = [rotor.k_thrust * part.thrust for rotor, part in zip(vehicle.rotors, left, strict=True)]
        thrusts = shares[: len(gains)]
        speeds = tuple(float(np.sqrt(max(own, least) / gain)) for own, gain in zip(thrusts, gains, strict=True))
        loads = rotor_loads(state._replace(rotor_speed=speeds), bare, CALM)
        before, left = left, [_part(*each) for each in zip(loads, speeds, vehicle.rotors, strict=True)]
        if max(abs(a.thrust - b.thrust) for a, b in zip(left, before, strict=True)) < _SETTLED:
            break
    return tuple(left)


def _part(load: RotorLoad, speed: float, rotor: Rotor) -> RotorLoad:
    """Of what the rotor gives without them; a hundredth at least, as a controller divides by it"""
    own = rotor_load(speed, rotor)
    torque = load.torque / own.torque if own.torque else 1.0
    return RotorLoad(max(float(load.thrust / own.thrust), _LEAST), max(float(torque), _LEAST))
