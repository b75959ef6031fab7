"""Differential flatness: position and yaw over time determine state and command, including drag, inflow and motor lag.

The thrust balances acceleration, weight and drag, which gives the tilt. The rate of the tilt gives ω, the rate of ω the
torques, the torques the rotor speeds, and the rates of the rotor speeds the command. Every rate is that of a Taylor
series in time (`samara.plan.taylor`), so the vehicle's drag and inflow are differentiated exactly.

D. Mellinger, V. Kumar, "Minimum snap trajectory generation and control for quadrotors", ICRA 2011; with drag, M. Faessler,
A. Franchi, D. Scaramuzza, "Differential flatness of quadrotor dynamics subject to rotor drag", RA-L 3, 2018.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Mat3, Quat, Vec3, cross, direction, matrix_from_quat, quat_from_matrix, rotate
from samara.core.ops import cos, safe_sqrt, sin, sqrt
from samara.core.portable_linalg import product, pseudoinverse
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.effect import Effect, Role, Wrench, add_wrenches
from samara.physics.motion.body import angular_velocity_from_attitude_rate, required_torque
from samara.physics.rotors.rotor import air_velocity, axial_speed, density_ratio, rotor_momentum_torque
from samara.physics.types import CALM, Command, Environment, Reference, State, Vehicle, initial_effects
from samara.plan.taylor import Series, series_from_derivatives, time_series
from samara.plan.trajectory import Trajectory
from samara.vehicles.trim import effectiveness, select_effective_rotors

JERK_ORDER, LAG_ORDER = 3, 5
DEFAULT_ORDER = 12
"""Highest order of the position derivatives in use. Five determine the command of a motor with a lag; each further one
extends the series of the reaction to the rotors' spin-up by one order, if that reaction is slow: 0.09 s in
`hakoniwa`."""
ATTITUDE_SWEEPS = (
    16  # fixed-point iterations of attitude and drag: the error shrinks by the ratio of drag to thrust in each
)
INFLOW_SWEEPS = 8  # fixed-point iterations of rotor speed and inflow, which depends weakly on the speed

_ROTOR_ROLES = (Role.THRUST, Role.MOMENTUM)


class FlatOutput(NamedTuple):
    """Position and yaw as Taylor series in time, which determine the motion."""

    p_W: Vec3
    yaw: Scalar


class FlatMotion(NamedTuple):
    """State and command of a vehicle that flies a flat output, and the forces and rates between them. SI units."""

    state: State
    command: Command
    thrust: Scalar
    tau_B: Vec3
    alpha_B: Vec3
    rotor_thrust: tuple[Scalar, ...]
    rotor_acceleration: tuple[Scalar, ...]


def flat_output(trajectory: Trajectory, time: Scalar, order: int = DEFAULT_ORDER) -> FlatOutput:
    """p(t + h), ψ(t + h) as series in h, at a time or an array of times [s]; at a joint, those of the following piece"""
    times = np.asarray(time, dtype=float)
    if not np.isfinite(times).all():
        raise ValueError(f"{trajectory.name}: a time is not finite; expected finite numbers of seconds")
    reference = trajectory.evaluate_unchecked(time_series(times if times.ndim else float(times), order))
    return FlatOutput(Vec3(*(_series(x, order) for x in reference.p_W)), _series(reference.yaw, order))


def flat_output_from_reference(reference: Reference, order: int = DEFAULT_ORDER) -> FlatOutput:
    """p(t + h), ψ(t + h) from a reference, whose derivatives end at the snap; higher derivatives are taken as zero

    The command of a motor with a lag therefore lacks the contribution of the crackle to τ Ω̇.
    """

    def series(*derivatives: Scalar) -> Series:
        return series_from_derivatives([*derivatives, *[0.0] * DEFAULT_ORDER][: order + 1])

    rows = zip(reference.p_W, reference.v_W, reference.a_W, reference.j_W, reference.s_W, strict=True)
    yaw = series(reference.yaw, reference.yaw_rate, reference.yaw_acceleration)
    return FlatOutput(Vec3(*(series(*row) for row in rows)), yaw)


def flat_to_state(
    flat: Reference | FlatOutput, vehicle: Vehicle, environment: Environment = CALM
) -> tuple[State, Command]:
    """Return the state and command with which a vehicle tracks a flat output.

    Simulated from this state under this command, open loop, the vehicle flies the trajectory. The result is exact for a
    `flat_output`; a `Reference` ends at the snap, so the command lacks the crackle's effect on motor lag. Effects with
    states start from their initial states. Effects that are not `planned` are left out: the air's effect on moving
    rotors, nearby surfaces, other drones and loads.

    Raises:
        ValueError: if a rotor would need negative thrust, or a value is not finite.
    """
    motion = flat_motion(flat, vehicle, environment)
    _require_flyable(motion, vehicle)
    return motion.state, motion.command


def flat_motion(
    flat: Reference | FlatOutput, vehicle: Vehicle, environment: Environment = CALM, *, sweeps: int = ATTITUDE_SWEEPS
) -> FlatMotion:
    """Compute state, command, forces and rates of a flat output, feasible or not; a rotor with negative thrust stands still."""
    _require_flat(vehicle)
    output = flat_output_from_reference(flat) if isinstance(flat, Reference) else flat
    if not vehicle.has("rotor_momentum"):  # higher orders have no effect
        output = unflatten(output, iter([Series(x.coefficients[: LAG_ORDER + 1]) for x in flatten(output)]))
    state, force_W = _solve_attitude(output, vehicle, environment, sweeps)
    alpha_B = _rate(state.omega_B)
    other_wrench = _body_wrench(state, vehicle, environment)
    tau_B = required_torque(state.omega_B, alpha_B, inertia_B=vehicle.inertia_B) - other_wrench.tau_B
    thrust = _project_on_thrust_axis(force_W, state.q_WB)
    if not vehicle.rotors:
        motion_values = _values((state, (), thrust, tau_B, alpha_B, (), ()))
        return FlatMotion(*motion_values)._replace(command=(motion_values[2], *motion_values[3]))
    speeds, thrusts, tau_B = _solve_rotors(thrust, tau_B, state, vehicle, environment)
    accelerations = tuple(speed.rate for speed in speeds)
    current_state: State = _values(state._replace(rotor_speed=speeds))
    rotor_accelerations = _values(accelerations)
    command = vehicle.structure.actuation.command_from_acceleration(
        current_state, rotor_accelerations, vehicle, environment
    )
    return FlatMotion(
        current_state,
        _values(command),
        _value(thrust),
        _values(tau_B),
        _values(alpha_B),
        _values(thrusts),
        rotor_accelerations,
    )


def flat_attitude(reference: Reference, vehicle: Vehicle, environment: Environment = CALM) -> Quat:
    """Return q_WB of `flat_motion` alone: it needs no derivative of the position beyond the jerk."""
    _require_flat(vehicle)
    state, _ = _solve_attitude(flat_output_from_reference(reference, JERK_ORDER), vehicle, environment, ATTITUDE_SWEEPS)
    return Quat(*_values(state.q_WB))


def attitude_from_thrust_direction(thrust_W: Vec3, yaw: Scalar) -> Mat3:
    """R = [b₂ × b₃, b₂, b₃] with b₃ = f/|f| and b₂ = b₃ × (cos ψ, sin ψ, 0), normalised: b₁ as close to the yaw as possible"""
    b3 = direction(thrust_W)
    b2 = direction(cross(b3, Vec3(cos(yaw), sin(yaw), 0.0)))
    b1 = cross(b2, b3)
    return Mat3(b1.x, b2.x, b3.x, b1.y, b2.y, b3.y, b1.z, b2.z, b3.z)


# The steps -----------------------------------------------------------------------------------------------------------


def _solve_attitude(output: FlatOutput, vehicle: Vehicle, environment: Environment, sweeps: int) -> tuple[State, Vec3]:
    """f = m v̇ − (all other forces), b₃ = f/|f|; drag in body axes depends on b₃: a fixed count of iterations"""
    v_W, upright = _rate(output.p_W), Quat(1.0, 0.0, 0.0, 0.0)
    a_W, yaw = _rate(v_W), output.yaw
    state = State(output.p_W, v_W, upright, ZERO, _zero_speeds(vehicle), initial_effects(vehicle))
    for _ in range(sweeps if _has_attitude_dependent_force(vehicle) else 1):
        other_wrench = _body_wrench(state, vehicle, environment)
        force_W = a_W * vehicle.mass - other_wrench.f_W - rotate(state.q_WB, other_wrench.f_B)
        q_WB = quat_from_matrix(attitude_from_thrust_direction(force_W, yaw))
        omega_B = angular_velocity_from_attitude_rate(q_WB, Quat(*(x.rate for x in q_WB)))
        state = state._replace(q_WB=q_WB, omega_B=omega_B)
    other_wrench = _body_wrench(state, vehicle, environment)
    return state, a_W * vehicle.mass - other_wrench.f_W - rotate(state.q_WB, other_wrench.f_B)


def _has_attitude_dependent_force(vehicle: Vehicle) -> bool:
    """Whether a force on the body, other than its rotors', depends on the attitude."""
    return any(effect.attitude_dependent and _is_balanced(effect) for effect in vehicle.structure.effects)


def _is_balanced(effect: Effect) -> bool:
    """Whether the rotors have to balance the wrench of an effect."""
    return effect.role not in _ROTOR_ROLES and not _is_ignored(effect)


def _is_ignored(effect: Effect) -> bool:
    """Whether an effect has no wrench, or is not part of plans."""
    return not effect.planned or effect.role in (Role.SUPPLY, Role.SHAPE)


def _body_wrench(state: State, vehicle: Vehicle, environment: Environment) -> Wrench:
    """Sum the wrenches on the body other than those of its rotors."""
    total = Wrench()
    command = _zero_speeds(vehicle) or (0.0,) * 4
    for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True):
        if _is_balanced(effect):
            total = add_wrenches(total, effect.wrench(effect_state, state, command, vehicle, environment))
    return total


def _solve_rotors(
    thrust: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, environment: Environment
) -> tuple[tuple[Series, ...], tuple[Series, ...], Vec3]:
    """B T = (0, 0, T, τ),  Ω = √(T / kF f): speeds and thrusts of the rotors, and their torque

    Accelerating and rotating the rotors causes a torque, too, −ω × h − ḣ, which depends on their speeds; every iteration
    uses up one derivative of the series.
    """
    effective_vehicle = select_effective_rotors(vehicle)
    allocation = pseudoinverse(effectiveness(effective_vehicle))[:, 2:].tolist()
    has_momentum = vehicle.has("rotor_momentum")
    rotor_tau_B = tau_B
    speeds: tuple[Series, ...] = ()
    while True:
        demand = (thrust, *rotor_tau_B)
        thrusts: tuple[Series, ...] = tuple(
            _sum(component * coefficient for component, coefficient in zip(demand, row, strict=True))
            for row in allocation
        )
        speeds = _solve_speeds(thrusts, speeds, state, effective_vehicle, environment)
        if not has_momentum or len(speeds[0]) <= 2:
            return speeds, thrusts, rotor_tau_B
        reaction = ZERO
        for speed, rotor in zip(speeds, vehicle.rotors, strict=True):
            reaction = reaction + rotor_momentum_torque(state.omega_B, speed, speed.rate, rotor)
        rotor_tau_B = tau_B - reaction


def _solve_speeds(
    thrusts: tuple[Series, ...],
    initial_guess: tuple[Series, ...],
    state: State,
    vehicle: Vehicle,
    environment: Environment,
) -> tuple[Series, ...]:
    """T = kF (ρ/ρ₀) f(V_ax, Ω) Ω², solved for Ω by fixed-point iterations if the inflow f depends on it"""
    ratio = density_ratio(environment.air_density)
    inflow: Callable[..., Scalar] | None = vehicle.structure.inflow
    length = len(thrusts[0])
    if inflow is None:
        speeds = (
            safe_sqrt(thrust / (rotor.k_thrust * ratio)) for thrust, rotor in zip(thrusts, vehicle.rotors, strict=True)
        )
        return tuple(_series(speed, length - 1) for speed in speeds)
    v_air_B = air_velocity(state.q_WB, state.v_W, environment.wind_W)
    speeds_found = []
    for i, (thrust, rotor) in enumerate(zip(thrusts, vehicle.rotors, strict=True)):
        speed_without_inflow = safe_sqrt(thrust / (rotor.k_thrust * ratio))
        speed = initial_guess[i] if initial_guess else speed_without_inflow
        v_axial = Series(axial_speed(v_air_B, rotor).coefficients[:length])
        for _ in range(INFLOW_SWEEPS):
            speed = speed_without_inflow / sqrt(inflow(v_axial, speed, rotor.radius))
        speeds_found.append(_series(speed, length - 1))
    return tuple(speeds_found)


def _sum(terms: Iterable[Series]) -> Series:
    total, *other_terms = terms
    for term in other_terms:
        total = total + term
    return total


def _project_on_thrust_axis(force_W: Vec3, q_WB: Quat) -> Scalar:
    """f · b₃"""
    b3 = matrix_from_quat(q_WB).columns[2]
    return force_W.x * b3.x + force_W.y * b3.y + force_W.z * b3.z


# Series and their values -----------------------------------------------------------------------------------------------


def _series(x: Scalar, order: int) -> Series:
    return x if isinstance(x, Series) else Series([x, *[0.0] * order])


def _rate(vector: Vec3) -> Vec3:
    return Vec3(*(x.rate for x in vector))


def _value(x: Scalar) -> Scalar:
    return x.value if isinstance(x, Series) else x


def _values(tree: Tree) -> Tree:
    """Return the leading coefficients: floats, or arrays of one shape."""
    leaves = [_value(leaf) for leaf in flatten(tree)]
    shape = np.broadcast_shapes(*(np.shape(leaf) for leaf in leaves))
    values = [np.array(np.broadcast_to(x, shape), dtype=float) if shape else float(x) for x in leaves]
    return unflatten(tree, iter(values))


def _zero_speeds(vehicle: Vehicle) -> tuple[float, ...]:
    return tuple(0.0 for _ in vehicle.rotors)


# Checks ----------------------------------------------------------------------------------------------------------------


def _require_flat(vehicle: Vehicle) -> None:
    """Require independent thrust and torques, and effects without states that position and yaw do not determine."""
    for effect, initial_state in zip(vehicle.structure.effects, initial_effects(vehicle), strict=True):
        if initial_state != () and not _is_ignored(effect):
            raise ValueError(
                f"vehicle {vehicle.name!r} is not flat: effect {effect.name!r} has a state, "
                "which position and yaw do not determine"
            )
    if not vehicle.rotors:
        return
    allocation = effectiveness(vehicle)
    required = np.eye(6)[:, 2:]
    residual = np.abs(product(allocation, pseudoinverse(allocation), required) - required).max()
    if residual > 1e-9:
        raise ValueError(
            f"vehicle {vehicle.name!r} is not flat: its rotors cannot give a thrust and three torques independently"
        )


def _require_flyable(motion: FlatMotion, vehicle: Vehicle) -> None:
    checked = (motion.state, motion.command)
    for name, leaf in zip(leaf_names(checked), flatten(checked), strict=True):
        if not np.isfinite(leaf).all():
            raise ValueError(f"flat_to_state: {name} is not finite; expected finite derivatives and a nonzero thrust")
    for i, thrust in enumerate(motion.rotor_thrust):
        if np.min(thrust) < 0.0:
            raise ValueError(
                f"flat_to_state: rotor {i} of {vehicle.name!r} would need a thrust of −{-np.min(thrust):.3g} N; "
                "expected a gentler trajectory"
            )
