"""The linear-quadratic regulator of hover, from the exact Jacobian of the vehicle's own step, in the frame of the reference.

About a flat reference the error obeys what it obeys in hover, seen from the body that flies the reference exactly, as long as
that one turns slowly against the loop. So one gain, of a vehicle in hover, serves along a trajectory: errors of place and speed
are taken in the axes of the attitude that the reference's acceleration asks for, and its thrust and turn are fed forward.
With `along=False` the frame is level, and what the reference accelerates comes as a surprise: the textbook's hover LQR.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.control.allocation import Allocation, allocation_for, command_for_wrench, side_pull
from samara.control.controller_type import FLAG, FREQUENCIES, LIMITS, ControllerType
from samara.control.default_gains import Gains, gains_for
from samara.control.disturbance_torque import (
    Turned,
    air_torque,
    damping,
    is_turned,
    joined,
    nothing_seen,
    opposed,
    parted,
    seen,
)
from samara.control.geometric import (
    DEFAULT_LIMITS,
    FlightLimits,
    chosen_limits,
    chosen_loops,
    drag_ahead,
    limited_error,
    require_plausible,
    turning_along,
    with_drag,
)
from samara.core.algebra import ZERO, Mat3, Vec3, conjugate, norm, quat_from_matrix, quat_log, rotate_inverse
from samara.core.ops import maximum
from samara.core.portable_linalg import product, pseudoinverse, riccati, solve
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.effect import Role, Wrench
from samara.physics.motion.body import required_torque
from samara.physics.multirotor import tilt_angles, with_angles, wrench_of_rotors
from samara.physics.types import Command, Reference, State, Vehicle, initial_effects
from samara.plan.flatness import attitude_along
from samara.vehicles.trim import effective, effectiveness, hover

Rows = tuple[tuple[float, ...], ...]

_RIGID = 12  # δp, δv, δθ, δω


class Design(NamedTuple):
    """w = −K x, of least Σ xᵀQx + wᵀRw, which is x₀ᵀPx₀; x = (δp, δv, δθ, δω, δf, δτ), w = (δf, δτ) commanded

    δp, δv, δθ and δω are in the axes of the attitude to be held; δf and δτ are what the rotors give more than in hover, and
    missing for a body driven by a wrench. SI units.
    """

    gain: Array
    cost: Array
    state_weight: Array
    input_weight: Array
    a: Array
    b: Array


@dataclass(frozen=True)
class Lqr:
    """`controller(state, reference, vehicle, memory) → command, memory`; it remembers nothing but what turns the body"""

    gain: Rows
    pace: Gains
    limits: FlightLimits
    allocation: Allocation
    along: bool
    period: float
    unseen: Turned | None

    @property
    def initial_memory(self) -> Any:
        return joined((), self.unseen)

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        weight = vehicle["gravity"].acceleration
        pull_W = Vec3(0.0, 0.0, weight)
        if self.along:
            pull_W = pull_W + reference.a_W - drag_ahead(state, reference, vehicle) / vehicle.mass
        if self.allocation.side_B is not None:
            pull_W = pull_W - side_pull(state, vehicle, self.allocation)
        flown = with_drag(reference, state, vehicle) if self.along else reference._replace(j_W=ZERO, s_W=ZERO)
        R_WD = attitude_along(pull_W, reference.yaw)
        near = limited_error(state.p_W - reference.p_W, vehicle, self.allocation, self.pace, self.limits)
        own, before = parted(memory)
        turned = seen(state, vehicle, before, self.period)
        fed, x = flat_error(near, state, flown, vehicle, pull_W, R_WD, self.allocation.keeps_yaw, turned)
        f, *tau = (-sum(k * own for k, own in zip(row, x, strict=True)) for row in self.gain)
        lift, tau_B = maximum(fed.f_B.z + f, 0.0), fed.tau_B + Vec3(*tau)
        given_B = opposed(lift, tau_B, state, vehicle, turned)
        return command_for_wrench(lift, given_B, state, vehicle, self.allocation), joined(own, turned)


def lqr(
    vehicle: Vehicle,
    design: Design | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    period: float = 4e-3,
    along: bool = True,
) -> Lqr:
    """The regulator for a vehicle, called every `period` [s]; `along` takes errors in the frame of the reference

    `healthy` says which rotors still work: the gain is that of the whole vehicle, and its thrust and torques are shared among
    the rotors left.
    """
    require_plausible(period, limits)
    own = design or hover_design(vehicle, period)
    rows: Rows = tuple(tuple(float(k) for k in row) for row in own.gain)
    pace = _pace(own, vehicle)
    linear = _linear(limits, pace, vehicle)
    return Lqr(rows, pace, linear, allocation_for(vehicle, healthy), along, period, nothing_seen(vehicle))


# The error ---------------------------------------------------------------------------------------------------------


def flat_error(
    e_p: Vec3,
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    pull_W: Vec3,
    R_WD: Mat3,
    keeps_yaw: bool = True,
    turned: Turned | None = None,
) -> tuple[Wrench, tuple[Scalar, ...]]:
    """The lift m|f| and torque J ω̇_d + ω_d × Jω_d of the reference, and x = (R_dᵀe_p, R_dᵀe_v, log R_dᵀR, e_Ω, δf, δτ)

    What the air does to turn the body counts as given, as the rotors oppose it.
    """
    turning = turning_along(pull_W, reference, R_WD, keeps_yaw)
    tau_B = required_torque(turning.omega, turning.alpha, inertia_B=vehicle.inertia_B)
    fed = Wrench(f_B=Vec3(0.0, 0.0, vehicle.mass * norm(pull_W)), tau_B=tau_B)
    q_DB = conjugate(quat_from_matrix(R_WD)) * state.q_WB
    theta = quat_log(q_DB)
    parts: list[Vec3] = [
        R_WD.transpose @ e_p,
        R_WD.transpose @ (state.v_W - reference.v_W),
        theta if keeps_yaw else theta._replace(z=0.0),
        state.omega_B - rotate_inverse(q_DB, turning.omega),
    ]
    x = [component for part in parts for component in part]
    if vehicle.rotors:
        now = wrench_of_rotors(state, vehicle)
        given_B = now.tau_B
        if is_turned(vehicle):
            given_B = given_B + air_torque(state, vehicle) + damping(state, vehicle)
        if turned is not None:
            given_B = given_B + turned.rest_B
        x += [now.f_B.z - fed.f_B.z, *(given_B - fed.tau_B)]
    return fed, tuple(x)


# The gain ----------------------------------------------------------------------------------------------------------


def hover_design(vehicle: Vehicle, period: float = 4e-3, loops: Gains | None = None) -> Design:
    """P = Q + AᵀPA − AᵀPB (R + BᵀPB)⁻¹ BᵀPA,  K = (R + BᵀPB)⁻¹ BᵀPA of one period about hover

    Each error weighs one where the loops, those of `gains_for` unless given, meet it: a metre, the ω m/s with which it closes,
    the tilt ω²/g that pulls it back and the rate at which that is taken; each input where it gives them.
    """
    a, b = hover_jacobian(vehicle, period)
    x_scale, w_scale = scales(vehicle, len(a), loops)
    a_unit, b_unit = a * x_scale[None] / x_scale[:, None], b * w_scale[None] / x_scale[:, None]
    q_unit = np.diag(np.repeat([1.0, 0.0], [_RIGID, len(a) - _RIGID]))
    p_unit = riccati(a_unit, b_unit, q_unit, np.eye(4))
    k_unit = solve(np.eye(4) + product(b_unit.T, p_unit, b_unit), product(b_unit.T, p_unit, a_unit))
    return Design(
        gain=k_unit * w_scale[:, None] / x_scale[None],
        cost=p_unit / np.outer(x_scale, x_scale),
        state_weight=q_unit / np.outer(x_scale, x_scale),
        input_weight=np.diag(w_scale**-2),
        a=a,
        b=b,
    )


def scales(vehicle: Vehicle, states: int, loops: Gains | None = None) -> tuple[Array, Array]:
    """One metre, and what goes with it: (ω, ω²/g, W ω²/g) of the state, m ω² and J W² ω²/g of the input"""
    w, attitude, _ = loops or gains_for(vehicle)
    turn = np.array(attitude, dtype=float)
    tilt = w * w / vehicle["gravity"].acceleration
    inertia = np.array([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz], dtype=float)
    inputs = np.array([vehicle.mass * w * w, *(inertia * turn**2 * tilt)])
    rigid = np.array([1.0, 1.0, 1.0, w, w, w, tilt, tilt, tilt, *(turn * tilt)])
    return np.concatenate([rigid, inputs])[:states], inputs


@lru_cache(maxsize=16)
def hover_jacobian(vehicle: Vehicle, period: float) -> tuple[Array, Array]:
    """A, B of one period about hover, x' = A x + B w: the exact Jacobian of an RK4 step, the rotors by what they give

    The speeds of n rotors act on the body through f and τ alone: x has those four in place of n. What the battery loses in a
    period is left out, and so is the damping of a vehicle that the air turns: it is opposed, and not in the error.
    """
    from samara.compiler.derivatives.forward import jacobian_at
    from samara.compiler.simulator import compile

    vehicle = effective(vehicle)
    left_out = [own.name for own in vehicle.structure.effects if not own.planned or own.role is Role.ACTUATOR]
    if is_turned(vehicle) and vehicle.has("damping"):
        left_out.append("damping")
    free = vehicle.without_effect(*left_out)
    trim, command = hover(free)
    a, b = compile(free, backend="llvm").linearize(trim, command, period, tangent=True)
    size = _RIGID + len(free.rotors) + len(free.servos)
    kept = list(range(_RIGID + len(free.rotors))) + _angle_places(free)
    a, b = a[np.ix_(kept, kept)], b[kept]
    if not free.rotors:
        return a, b
    allocation = allocation_for(free)
    weight = float(free.mass * free["gravity"].acceleration)
    b = product(b, jacobian_at(lambda f, tau_B: command_for_wrench(f, tau_B, trim, free, allocation), weight, ZERO))
    given = _given(free, trim)
    into = np.eye(_RIGID + 4, size)
    into[_RIGID:, _RIGID:] = given
    out_of = np.eye(size, _RIGID + 4)
    out_of[_RIGID:, _RIGID:] = pseudoinverse(given)
    return product(into, a, out_of), product(into, b)


def _angle_places(vehicle: Vehicle) -> list[int]:
    """Where the angles of servos are among the numbers of a small change of the state"""
    if not vehicle.servos:
        return []
    before = initial_effects(vehicle)[: vehicle.index("tilt")]
    first = _RIGID + len(vehicle.rotors) + len(flatten(before))
    return list(range(first, first + len(vehicle.servos)))


def _given(vehicle: Vehicle, trim: State) -> Array:
    """d(f_z, τ)/d(Ω, δ) of the rotors: by their speeds, and by the angles of those that tilt"""
    speeds = np.array(trim.rotor_speed)
    if not vehicle.servos:
        return effectiveness(vehicle)[2:] * (2.0 * np.array([rotor.k_thrust for rotor in vehicle.rotors]) * speeds)
    from samara.compiler.derivatives.forward import jacobian_at

    def push(speeds: tuple[Scalar, ...], angles: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        wrench = wrench_of_rotors(with_angles(trim._replace(rotor_speed=speeds), angles, vehicle), vehicle)
        return (wrench.f_B.z, *wrench.tau_B)

    return jacobian_at(push, tuple(speeds), tuple(tilt_angles(trim, vehicle)))


def _pace(design: Design, vehicle: Vehicle) -> Gains:
    """ω² = g k_p/k_θ, how hard a metre of error pulls: sideways through the tilt, or upwards, whichever is more"""
    k, g = design.gain, float(vehicle["gravity"].acceleration)
    sideways = g * max(k[2, 0] / k[2, 7], -k[1, 1] / k[1, 6])
    return gains_for(vehicle)._replace(position=float(np.sqrt(max(sideways, k[0, 2] / float(vehicle.mass)))))


def _linear(limits: FlightLimits, pace: Gains, vehicle: Vehicle) -> FlightLimits:
    """v = g tan(½ θ_max) / 2ω: an error is cut where it asks for half the tilt allowed, as what is linear ends there"""
    fastest = float(vehicle["gravity"].acceleration) * math.tan(0.5 * limits.tilt) / (2.0 * pace.position)
    return limits._replace(speed=min(limits.speed, fastest))


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Lqr:
    design, limits = hover_design(vehicle, period, chosen_loops(vehicle, chosen)), chosen_limits(chosen)
    return lqr(vehicle, design, healthy, limits, period, **chosen)


TYPES = (ControllerType("lqr", _build, {**FREQUENCIES, **LIMITS, "along": FLAG}),)
