"""Differential flatness: position and yaw over time say all else, through drag, inflow and motor lag.

The thrust carries what acceleration, weight and drag leave over, and so gives the tilt; the tilt's rate gives ω, its next rate
the torques, these the rotor speeds, and the rates of those the command. Every rate is that of a Taylor series in time
(`samara.plan.taylor`), so drag and inflow are differentiated as the vehicle has them.

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
from samara.plan.taylor import Series, from_derivatives, of_time
from samara.plan.trajectory import Trajectory
from samara.vehicles.trim import effective, effectiveness

JERK_ORDER, LAG_ORDER = 3, 5
ORDER = 12
"""Derivatives of the position that are used. 5 give the command of a motor with a lag; every further one takes the reaction to
spinning up the rotors one order further, where it is slow: 0.09 s in `hakoniwa`."""
SWEEPS = 16  # of the attitude in its own drag: each brings it as much closer as the drag is smaller than the thrust
INFLOW_SWEEPS = 8  # of a rotor's speed in its own inflow, which is a weak function of it

_OF_ROTORS = (Role.THRUST, Role.MOMENTUM)


class FlatOutput(NamedTuple):
    """Position and yaw as Taylor series in time, which say all the rest."""

    p_W: Vec3
    yaw: Scalar


class FlatMotion(NamedTuple):
    """What a flat output asks of a vehicle: its state and command, and the forces and rates between them. SI units."""

    state: State
    command: Command
    thrust: Scalar
    tau_B: Vec3
    alpha_B: Vec3
    rotor_thrust: tuple[Scalar, ...]
    rotor_acceleration: tuple[Scalar, ...]


def flat_output(trajectory: Trajectory, time: Scalar, order: int = ORDER) -> FlatOutput:
    """p(t + h), ψ(t + h) as series in h, at a time or an array of times [s]; at a joint, those of the piece that begins"""
    moments = np.asarray(time, dtype=float)
    if not np.isfinite(moments).all():
        raise ValueError(f"{trajectory.name}: a time is not finite; expected finite numbers of seconds")
    reference = trajectory.placed(of_time(moments if moments.ndim else float(moments), order))
    return FlatOutput(Vec3(*(_series(x, order) for x in reference.p_W)), _series(reference.yaw, order))


def output_of(reference: Reference, order: int = ORDER) -> FlatOutput:
    """The same from a reference, whose derivatives end at the snap: what needs more takes it for zero

    That is the command of a motor with a lag, and so it is short of τ Ω̇ by the crackle's part.
    """

    def series(*derivatives: Scalar) -> Series:
        return from_derivatives([*derivatives, *[0.0] * ORDER][: order + 1])

    rows = zip(reference.p_W, reference.v_W, reference.a_W, reference.j_W, reference.s_W, strict=True)
    yaw = series(reference.yaw, reference.yaw_rate, reference.yaw_acceleration)
    return FlatOutput(Vec3(*(series(*row) for row in rows)), yaw)


def flat_to_state(
    flat: Reference | FlatOutput, vehicle: Vehicle, environment: Environment = CALM
) -> tuple[State, Command]:
    """The state and the command with which a vehicle is where it should be and goes on as it should

    Simulated from this state under this command, open loop, it flies the trajectory. From a `flat_output` all is exact; a
    `Reference` ends at the snap, so from it the command leaves out what motor lag makes of the crackle. Effects with a state
    of their own start as the vehicle has them. Left out are what the air does to moving rotors, surfaces near by, other
    drones and loads: every effect that is not `planned`. What asks a rotor to pull, or is not finite, is refused.
    """
    motion = flat_motion(flat, vehicle, environment)
    _require_flyable(motion, vehicle)
    return motion.state, motion.command


def flat_motion(
    flat: Reference | FlatOutput, vehicle: Vehicle, environment: Environment = CALM, *, sweeps: int = SWEEPS
) -> FlatMotion:
    """All that a flat output asks, whether or not the vehicle can: a rotor that would have to pull stands still here"""
    _require_flat(vehicle)
    output = output_of(flat) if isinstance(flat, Reference) else flat
    if not vehicle.has("rotor_momentum"):  # nothing asks for more
        output = unflatten(output, iter([Series(x.coefficients[: LAG_ORDER + 1]) for x in flatten(output)]))
    state, force_W = _tilted(output, vehicle, environment, sweeps)
    alpha_B = _rate(state.omega_B)
    others = _push(state, vehicle, environment)
    tau_B = required_torque(state.omega_B, alpha_B, inertia_B=vehicle.inertia_B) - others.tau_B
    thrust = _along(force_W, state.q_WB)
    if not vehicle.rotors:
        rest = _values((state, (), thrust, tau_B, alpha_B, (), ()))
        return FlatMotion(*rest)._replace(command=(rest[2], *rest[3]))
    speeds, thrusts, tau_B = _spun(thrust, tau_B, state, vehicle, environment)
    accelerations = tuple(speed.rate for speed in speeds)
    now: State = _values(state._replace(rotor_speed=speeds))
    turning = _values(accelerations)
    command = vehicle.structure.actuation.command_for(now, turning, vehicle, environment)
    return FlatMotion(
        now,
        _values(command),
        _value(thrust),
        _values(tau_B),
        _values(alpha_B),
        _values(thrusts),
        turning,
    )


def flat_attitude(reference: Reference, vehicle: Vehicle, environment: Environment = CALM) -> Quat:
    """Return q_WB of `flat_motion` alone: it needs no derivative of the position beyond the jerk."""
    _require_flat(vehicle)
    state, _ = _tilted(output_of(reference, JERK_ORDER), vehicle, environment, SWEEPS)
    return Quat(*_values(state.q_WB))


def attitude_along(pull_W: Vec3, yaw: Scalar) -> Mat3:
    """R = [b₂ × b₃, b₂, b₃] with b₃ = f/|f| and b₂ = b₃ × (cos ψ, sin ψ, 0), normalised: b₁ as near to the yaw as b₃ allows"""
    b3 = direction(pull_W)
    b2 = direction(cross(b3, Vec3(cos(yaw), sin(yaw), 0.0)))
    b1 = cross(b2, b3)
    return Mat3(b1.x, b2.x, b3.x, b1.y, b2.y, b3.y, b1.z, b2.z, b3.z)


# The steps -----------------------------------------------------------------------------------------------------------


def _tilted(output: FlatOutput, vehicle: Vehicle, environment: Environment, sweeps: int) -> tuple[State, Vec3]:
    """f = m v̇ − (all other forces), b₃ = f/|f|, where drag in body axes depends on b₃ itself: fixed sweeps of the two"""
    v_W, level = _rate(output.p_W), Quat(1.0, 0.0, 0.0, 0.0)
    a_W, yaw = _rate(v_W), output.yaw
    state = State(output.p_W, v_W, level, ZERO, _none(vehicle), initial_effects(vehicle))
    for _ in range(sweeps if _leans(vehicle) else 1):
        others = _push(state, vehicle, environment)
        force_W = a_W * vehicle.mass - others.f_W - rotate(state.q_WB, others.f_B)
        q_WB = quat_from_matrix(attitude_along(force_W, yaw))
        omega_B = angular_velocity_from_attitude_rate(q_WB, Quat(*(x.rate for x in q_WB)))
        state = state._replace(q_WB=q_WB, omega_B=omega_B)
    others = _push(state, vehicle, environment)
    return state, a_W * vehicle.mass - others.f_W - rotate(state.q_WB, others.f_B)


def _leans(vehicle: Vehicle) -> bool:
    """Whether a force of the body's, other than its rotors', may depend on the attitude."""
    return any(own.turns and _pushes(own) for own in vehicle.structure.effects)


def _pushes(effect: Effect) -> bool:
    """Whether a plan has to carry what an effect does to the body; what the rotors do is what it looks for."""
    return effect.role not in _OF_ROTORS and not _silent(effect)


def _silent(effect: Effect) -> bool:
    """Whether it pushes nothing, or is what no plan knows."""
    return not effect.planned or effect.role in (Role.SUPPLY, Role.SHAPE)


def _push(state: State, vehicle: Vehicle, environment: Environment) -> Wrench:
    """What acts on the body besides its rotors."""
    total = Wrench()
    command = _none(vehicle) or (0.0,) * 4
    for effect, own in zip(vehicle.structure.effects, state.effects, strict=True):
        if _pushes(effect):
            total = add_wrenches(total, effect.wrench(own, state, command, vehicle, environment))
    return total


def _spun(
    thrust: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, environment: Environment
) -> tuple[tuple[Series, ...], tuple[Series, ...], Vec3]:
    """B T = (0, 0, T, τ),  Ω = √(T / kF f): speeds and thrusts of the rotors, the torque that they push with

    Spinning up and turning the rotors pushes too, −ω × h − ḣ, by speeds that are not known before; every sweep spends one
    derivative of the series on it.
    """
    known = effective(vehicle)
    allocation = pseudoinverse(effectiveness(known))[:, 2:].tolist()
    has_momentum = vehicle.has("rotor_momentum")
    pushed = tau_B
    speeds: tuple[Series, ...] = ()
    while True:
        wanted = (thrust, *pushed)
        thrusts: tuple[Series, ...] = tuple(
            _sum(w * share for w, share in zip(wanted, row, strict=True)) for row in allocation
        )
        speeds = _speeds(thrusts, speeds, state, known, environment)
        if not has_momentum or len(speeds[0]) <= 2:
            return speeds, thrusts, pushed
        reaction = ZERO
        for speed, rotor in zip(speeds, vehicle.rotors, strict=True):
            reaction = reaction + rotor_momentum_torque(state.omega_B, speed, speed.rate, rotor)
        pushed = tau_B - reaction


def _speeds(
    thrusts: tuple[Series, ...],
    before: tuple[Series, ...],
    state: State,
    vehicle: Vehicle,
    environment: Environment,
) -> tuple[Series, ...]:
    """T = kF (ρ/ρ₀) f(V_ax, Ω) Ω², solved for Ω in fixed sweeps where the inflow f depends on it"""
    ratio = density_ratio(environment.air_density)
    inflow: Callable[..., Scalar] | None = vehicle.structure.inflow
    length = len(thrusts[0])
    if inflow is None:
        speeds = (
            safe_sqrt(thrust / (rotor.k_thrust * ratio)) for thrust, rotor in zip(thrusts, vehicle.rotors, strict=True)
        )
        return tuple(_series(speed, length - 1) for speed in speeds)
    v_air_B = air_velocity(state.q_WB, state.v_W, environment.wind_W)
    found = []
    for i, (thrust, rotor) in enumerate(zip(thrusts, vehicle.rotors, strict=True)):
        without = safe_sqrt(thrust / (rotor.k_thrust * ratio))
        speed = before[i] if before else without
        v_axial = Series(axial_speed(v_air_B, rotor).coefficients[:length])
        for _ in range(INFLOW_SWEEPS):
            speed = without / sqrt(inflow(v_axial, speed, rotor.radius))
        found.append(_series(speed, length - 1))
    return tuple(found)


def _sum(parts: Iterable[Series]) -> Series:
    total, *rest = parts
    for part in rest:
        total = total + part
    return total


def _along(force_W: Vec3, q_WB: Quat) -> Scalar:
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
    """The leading coefficients: floats, or arrays of one shape"""
    leaves = [_value(leaf) for leaf in flatten(tree)]
    shape = np.broadcast_shapes(*(np.shape(leaf) for leaf in leaves))
    whole = [np.array(np.broadcast_to(x, shape), dtype=float) if shape else float(x) for x in leaves]
    return unflatten(tree, iter(whole))


def _none(vehicle: Vehicle) -> tuple[float, ...]:
    return tuple(0.0 for _ in vehicle.rotors)


# What is refused -------------------------------------------------------------------------------------------------------


def _require_flat(vehicle: Vehicle) -> None:
    """A thrust along z and three torques, each without the other; and no state that position and yaw do not tell."""
    for effect, own in zip(vehicle.structure.effects, initial_effects(vehicle), strict=True):
        if own != () and not _silent(effect):
            raise ValueError(
                f"vehicle {vehicle.name!r} is not flat: effect {effect.name!r} has a state of its own, "
                "which position and yaw do not tell"
            )
    if not vehicle.rotors:
        return
    allocation = effectiveness(vehicle)
    wanted = np.eye(6)[:, 2:]
    missed = np.abs(product(allocation, pseudoinverse(allocation), wanted) - wanted).max()
    if missed > 1e-9:
        raise ValueError(
            f"vehicle {vehicle.name!r} is not flat: its rotors cannot give a thrust and three torques alone"
        )


def _require_flyable(motion: FlatMotion, vehicle: Vehicle) -> None:
    asked = (motion.state, motion.command)
    for name, leaf in zip(leaf_names(asked), flatten(asked), strict=True):
        if not np.isfinite(leaf).all():
            raise ValueError(f"flat_to_state: {name} is not finite; expected finite derivatives, and a thrust not zero")
    for i, thrust in enumerate(motion.rotor_thrust):
        if np.min(thrust) < 0.0:
            raise ValueError(
                f"flat_to_state: rotor {i} of {vehicle.name!r} would have to pull with {-np.min(thrust):.3g} N; "
                "expected a gentler trajectory"
            )
