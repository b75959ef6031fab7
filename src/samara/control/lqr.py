"""Linear-quadratic regulator about hover, from the exact Jacobian of the vehicle's step, in the frame of the reference.

In the axes of a body that flies a flat reference exactly, the error obeys the same equations as in hover, as long as that
body rotates slowly relative to the loop. One gain, designed for hover, therefore serves along a trajectory: position and
velocity errors are expressed in the axes of the attitude that the reference acceleration requires, and the thrust and torque
of the reference are fed forward. With `along=False` the frame is level and nothing is fed forward: the textbook hover
LQR.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.control.allocation import Allocation, build_allocation, command_for_wrench, hover_side_acceleration
from samara.control.controller_type import FLAG, FREQUENCY_OPTIONS, LIMIT_OPTIONS, ControllerType
from samara.control.default_gains import Gains, default_gains
from samara.control.disturbance_torque import (
    DisturbanceObserver,
    air_torque,
    compensate,
    damping_torque,
    has_airspeed_moment,
    initial_observer_state,
    merge_state,
    observe,
    split_state,
)
from samara.control.geometric import (
    DEFAULT_LIMITS,
    FlightLimits,
    add_drag_derivatives,
    desired_angular_motion,
    limit_position_error,
    pop_gains,
    pop_limits,
    reference_drag,
    require_plausible,
)
from samara.core.algebra import ZERO, Mat3, Vec3, conjugate, norm, quat_from_matrix, quat_log, rotate_inverse
from samara.core.ops import maximum
from samara.core.portable_linalg import product, pseudoinverse, solve, solve_riccati
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.effect import Role, Wrench
from samara.physics.motion.body import required_torque
from samara.physics.multirotor import replace_tilt_angles, tilt_angles, total_rotor_wrench
from samara.physics.types import Command, Reference, State, Vehicle, initial_effects
from samara.plan.flatness import attitude_from_thrust_direction
from samara.vehicles.trim import effectiveness, hover, select_effective_rotors

Rows = tuple[tuple[float, ...], ...]

_RIGID_BODY_SIZE = 12  # δp, δv, δθ, δω


class LqrDesign(NamedTuple):
    """w = −K x that minimises Σ xᵀQx + wᵀRw = x₀ᵀPx₀; x = (δp, δv, δθ, δω, δf, δτ), w = (δf, δτ) commanded

    δp, δv, δθ and δω are in the axes of the desired attitude; δf and δτ are the rotors' wrench relative to hover, absent
    for a body driven by a wrench. SI units.
    """

    gain: Array
    cost: Array
    state_weight: Array
    input_weight: Array
    a: Array
    b: Array


@dataclass(frozen=True)
class Lqr:
    """Linear-quadratic regulator; its only controller state is the disturbance observer, if the vehicle needs one."""

    gain: Rows
    position_gains: Gains
    limits: FlightLimits
    allocation: Allocation
    along: bool
    period: float
    initial_observer: DisturbanceObserver | None

    @property
    def initial_state(self) -> Any:
        return merge_state((), self.initial_observer)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, controller_state: Any
    ) -> tuple[Command, Any]:
        """Compute rotor commands that track `reference`.

        Args:
            state: estimated state of the vehicle.
            reference: desired position, velocity, acceleration, jerk, snap and yaw.
            vehicle: model of the vehicle.
            controller_state: the state that the previous call returned; `initial_state` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        weight = vehicle["gravity"].acceleration
        acceleration_W = Vec3(0.0, 0.0, weight)
        if self.along:
            acceleration_W = acceleration_W + reference.a_W - reference_drag(state, reference, vehicle) / vehicle.mass
        if self.allocation.hover_side_force_B is not None:
            acceleration_W = acceleration_W - hover_side_acceleration(state, vehicle, self.allocation)
        tracked = (
            add_drag_derivatives(reference, state, vehicle) if self.along else reference._replace(j_W=ZERO, s_W=ZERO)
        )
        R_WD = attitude_from_thrust_direction(acceleration_W, reference.yaw)
        limited_e_p = limit_position_error(
            state.p_W - reference.p_W, vehicle, self.allocation, self.position_gains, self.limits
        )
        controller_part, previous_observer = split_state(controller_state)
        observer = observe(state, vehicle, previous_observer, self.period)
        feedforward, x = flat_error(
            limited_e_p, state, tracked, vehicle, acceleration_W, R_WD, self.allocation.controls_yaw, observer
        )
        f, *tau = (-sum(k * component for k, component in zip(row, x, strict=True)) for row in self.gain)
        collective_thrust, tau_B = maximum(feedforward.f_B.z + f, 0.0), feedforward.tau_B + Vec3(*tau)
        total_tau_B = compensate(collective_thrust, tau_B, state, vehicle, observer)
        return command_for_wrench(collective_thrust, total_tau_B, state, vehicle, self.allocation), merge_state(
            controller_part, observer
        )


def lqr(
    vehicle: Vehicle,
    design: LqrDesign | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    period: float = 4e-3,
    along: bool = True,
) -> Lqr:
    """Build the linear-quadratic regulator for a vehicle.

    Args:
        vehicle: model of the vehicle.
        design: gain and weights; None for `hover_design(vehicle, period)`.
        healthy: for each rotor, whether it works; None for all. The gain is that of the intact vehicle; its thrust and
            torque are allocated to the working rotors.
        limits: limits of tilt and speed.
        period: time between calls [s].
        along: take errors in the frame of the reference and feed its thrust and torque forward.

    Returns:
        `controller(state, reference, vehicle, controller_state) → command, controller_state`.
    """
    require_plausible(period, limits)
    chosen_design = design or hover_design(vehicle, period)
    rows: Rows = tuple(tuple(float(k) for k in row) for row in chosen_design.gain)
    position_gains = _position_gains(chosen_design, vehicle)
    linear_limits = _linear_limits(limits, position_gains, vehicle)
    return Lqr(
        rows,
        position_gains,
        linear_limits,
        build_allocation(vehicle, healthy),
        along,
        period,
        initial_observer_state(vehicle),
    )


# The error ---------------------------------------------------------------------------------------------------------


def flat_error(
    e_p: Vec3,
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    acceleration_W: Vec3,
    R_WD: Mat3,
    controls_yaw: bool = True,
    observer: DisturbanceObserver | None = None,
) -> tuple[Wrench, tuple[Scalar, ...]]:
    """Thrust m|f| and torque J ω̇_d + ω_d × Jω_d of the reference, and x = (R_dᵀe_p, R_dᵀe_v, log R_dᵀR, e_Ω, δf, δτ)

    The torque of the air is part of δτ, since the rotors compensate it.
    """
    desired_motion = desired_angular_motion(acceleration_W, reference, R_WD, controls_yaw)
    tau_B = required_torque(desired_motion.omega, desired_motion.alpha, inertia_B=vehicle.inertia_B)
    feedforward = Wrench(f_B=Vec3(0.0, 0.0, vehicle.mass * norm(acceleration_W)), tau_B=tau_B)
    q_DB = conjugate(quat_from_matrix(R_WD)) * state.q_WB
    theta = quat_log(q_DB)
    errors: list[Vec3] = [
        R_WD.transpose @ e_p,
        R_WD.transpose @ (state.v_W - reference.v_W),
        theta if controls_yaw else theta._replace(z=0.0),
        state.omega_B - rotate_inverse(q_DB, desired_motion.omega),
    ]
    x = [component for error in errors for component in error]
    if vehicle.rotors:
        rotor_wrench = total_rotor_wrench(state, vehicle)
        applied_tau_B = rotor_wrench.tau_B
        if has_airspeed_moment(vehicle):
            applied_tau_B = applied_tau_B + air_torque(state, vehicle) + damping_torque(state, vehicle)
        if observer is not None:
            applied_tau_B = applied_tau_B + observer.disturbance_B
        x += [rotor_wrench.f_B.z - feedforward.f_B.z, *(applied_tau_B - feedforward.tau_B)]
    return feedforward, tuple(x)


# The gain ----------------------------------------------------------------------------------------------------------


def hover_design(vehicle: Vehicle, period: float = 4e-3, loops: Gains | None = None) -> LqrDesign:
    """P = Q + AᵀPA − AᵀPB (R + BᵀPB)⁻¹ BᵀPA,  K = (R + BᵀPB)⁻¹ BᵀPA of one period about hover

    The weights scale every error to its equivalent of one metre at the bandwidth of `loops` (default: `default_gains`):
    a velocity of ω m/s, the tilt ω²/g that corrects one metre of error, its rate, and the inputs that cause them.
    """
    a, b = hover_jacobian(vehicle, period)
    x_scale, w_scale = error_scales(vehicle, len(a), loops)
    a_unit, b_unit = a * x_scale[None] / x_scale[:, None], b * w_scale[None] / x_scale[:, None]
    q_unit = np.diag(np.repeat([1.0, 0.0], [_RIGID_BODY_SIZE, len(a) - _RIGID_BODY_SIZE]))
    p_unit = solve_riccati(a_unit, b_unit, q_unit, np.eye(4))
    k_unit = solve(np.eye(4) + product(b_unit.T, p_unit, b_unit), product(b_unit.T, p_unit, a_unit))
    return LqrDesign(
        gain=k_unit * w_scale[:, None] / x_scale[None],
        cost=p_unit / np.outer(x_scale, x_scale),
        state_weight=q_unit / np.outer(x_scale, x_scale),
        input_weight=np.diag(w_scale**-2),
        a=a,
        b=b,
    )


def error_scales(vehicle: Vehicle, state_count: int, loops: Gains | None = None) -> tuple[Array, Array]:
    """Scales of one metre of error: (1, ω, ω²/g, W ω²/g) of the state, m ω² and J W² ω²/g of the input"""
    w, attitude, _ = loops or default_gains(vehicle)
    attitude_bandwidth = np.array(attitude, dtype=float)
    tilt = w * w / vehicle["gravity"].acceleration
    inertia = np.array([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz], dtype=float)
    inputs = np.array([vehicle.mass * w * w, *(inertia * attitude_bandwidth**2 * tilt)])
    rigid = np.array([1.0, 1.0, 1.0, w, w, w, tilt, tilt, tilt, *(attitude_bandwidth * tilt)])
    return np.concatenate([rigid, inputs])[:state_count], inputs


@lru_cache(maxsize=16)
def hover_jacobian(vehicle: Vehicle, period: float) -> tuple[Array, Array]:
    """A, B of one period about hover, x' = A x + B w: the exact Jacobian of an RK4 step, reduced to the rotors' wrench

    The speeds of n rotors act on the body through f and τ alone: x has those four in place of n. The discharge of the battery
    is left out, and so is the damping of a vehicle with a moment of airspeed, which is compensated and not part of the error.
    """
    from samara.compiler.derivatives.forward import evaluate_jacobian
    from samara.compiler.simulator import compile

    vehicle = select_effective_rotors(vehicle)
    left_out = [
        effect.name for effect in vehicle.structure.effects if not effect.planned or effect.role is Role.ACTUATOR
    ]
    if has_airspeed_moment(vehicle) and vehicle.has("damping"):
        left_out.append("damping")
    free = vehicle.without_effect(*left_out)
    trim, command = hover(free)
    a, b = compile(free, backend="llvm").linearize(trim, command, period, tangent=True)
    size = _RIGID_BODY_SIZE + len(free.rotors) + len(free.servos)
    retained = list(range(_RIGID_BODY_SIZE + len(free.rotors))) + _servo_angle_indices(free)
    a, b = a[np.ix_(retained, retained)], b[retained]
    if not free.rotors:
        return a, b
    allocation = build_allocation(free)
    weight = float(free.mass * free["gravity"].acceleration)
    b = product(
        b, evaluate_jacobian(lambda f, tau_B: command_for_wrench(f, tau_B, trim, free, allocation), weight, ZERO)
    )
    rotor_jacobian = _rotor_jacobian(free, trim)
    reduce = np.eye(_RIGID_BODY_SIZE + 4, size)
    reduce[_RIGID_BODY_SIZE:, _RIGID_BODY_SIZE:] = rotor_jacobian
    expand = np.eye(size, _RIGID_BODY_SIZE + 4)
    expand[_RIGID_BODY_SIZE:, _RIGID_BODY_SIZE:] = pseudoinverse(rotor_jacobian)
    return product(reduce, a, expand), product(reduce, b)


def _servo_angle_indices(vehicle: Vehicle) -> list[int]:
    """Indices of the servo angles in the tangent space of the state."""
    if not vehicle.servos:
        return []
    effects_before = initial_effects(vehicle)[: vehicle.index("tilt")]
    first = _RIGID_BODY_SIZE + len(vehicle.rotors) + len(flatten(effects_before))
    return list(range(first, first + len(vehicle.servos)))


def _rotor_jacobian(vehicle: Vehicle, trim: State) -> Array:
    """d(f_z, τ)/d(Ω, δ) of the rotors: by their speeds and by the servo angles"""
    speeds = np.array(trim.rotor_speed)
    if not vehicle.servos:
        return effectiveness(vehicle)[2:] * (2.0 * np.array([rotor.k_thrust for rotor in vehicle.rotors]) * speeds)
    from samara.compiler.derivatives.forward import evaluate_jacobian

    def thrust_and_torque(speeds: tuple[Scalar, ...], angles: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        rotor_wrench = total_rotor_wrench(
            replace_tilt_angles(trim._replace(rotor_speed=speeds), angles, vehicle), vehicle
        )
        return (rotor_wrench.f_B.z, *rotor_wrench.tau_B)

    return evaluate_jacobian(thrust_and_torque, tuple(speeds), tuple(tilt_angles(trim, vehicle)))


def _position_gains(design: LqrDesign, vehicle: Vehicle) -> Gains:
    """ω² = g k_p/k_θ, the acceleration per metre of error: horizontal through the tilt, or vertical, whichever is larger"""
    k, g = design.gain, float(vehicle["gravity"].acceleration)
    horizontal = g * max(k[2, 0] / k[2, 7], -k[1, 1] / k[1, 6])
    return default_gains(vehicle)._replace(position=float(np.sqrt(max(horizontal, k[0, 2] / float(vehicle.mass)))))


def _linear_limits(limits: FlightLimits, position_gains: Gains, vehicle: Vehicle) -> FlightLimits:
    """v = g tan(½ θ_max) / 2ω: errors are limited to those that demand half the maximum tilt, the end of the linear range"""
    max_speed = float(vehicle["gravity"].acceleration) * math.tan(0.5 * limits.tilt) / (2.0 * position_gains.position)
    return limits._replace(speed=min(limits.speed, max_speed))


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> Lqr:
    design, limits = hover_design(vehicle, period, pop_gains(vehicle, options)), pop_limits(options)
    return lqr(vehicle, design, healthy, limits, period, **options)


TYPES = (
    ControllerType(
        "lqr",
        "Linear-quadratic regulator about hover",
        _build,
        {**FREQUENCY_OPTIONS, **LIMIT_OPTIONS, "along": FLAG},
    ),
)
