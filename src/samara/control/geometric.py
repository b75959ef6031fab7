"""Lee's geometric tracking control on SE(3): the thrust vector first, then the attitude that points the rotors along it.

Tilt has priority over yaw: the tilt error depends on b₃ alone, so a yaw error that the rotors cannot correct never affects it.

T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010.
D. Brescianini, R. D'Andrea, "Tilt-prioritized quadrocopter attitude control", IEEE Trans. Control Systems Technology 28, 2020.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from samara.control.allocation import Allocation, build_allocation, command_for_wrench, hover_side_acceleration
from samara.control.controller_type import FLAG, GAIN_OPTIONS, LIMIT_OPTIONS, ControllerType
from samara.control.default_gains import Gains
from samara.control.default_gains import default_gains as default_gains
from samara.control.default_gains import motor_time_constant as motor_time_constant
from samara.control.disturbance_torque import (
    DisturbanceObserver,
    compensate,
    has_rotor_drag,
    initial_observer_state,
    merge_state,
    modelled_acceleration,
    observe,
    rotor_drag_wrench,
    split_state,
)
from samara.core.algebra import ZERO, Mat3, Vec3, cross, dot, matrix_from_quat, norm, rotate, scale
from samara.core.ops import clamp, cos, logical_or, maximum, minimum, safe_divide, safe_norm, safe_sqrt, sin, where
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import CALM, Command, Reference, State, Vehicle
from samara.plan.flatness import attitude_from_thrust_direction

_MIN_THRUST_FRACTION = 0.2  # fraction of the weight; a smaller thrust leaves too little torque for attitude control
_MIN_HORIZONTAL_FRACTION = 0.1  # fraction of the vertical thrust that is always available horizontally
_MIN_HEADROOM_FRACTION = 0.1  # fraction of g assumed available, however weak the rotors
DRAG_STEP = 0.02  # [s], step of the finite differences of the drag
MAX_UNSATURATED_CUT = 1e-3  # fraction of g; a desired acceleration cut by more than this counts as saturated
_INTEGRAL_RATE_FRACTION = 0.4  # fraction of ω, slightly above ω/3, the rate at which the integral removes an offset


class FlightLimits(NamedTuple):
    """Limits of the tilt of the desired thrust [rad], and of the speed towards a distant reference [m/s]."""

    tilt: float = math.radians(60.0)
    speed: float = 5.0


DEFAULT_LIMITS = FlightLimits()


@dataclass(frozen=True)
class Geometric:
    """Geometric tracking controller; `initial_state` is the controller state of the first call.

    With integral action the controller state is the acceleration that balances a steady disturbance, otherwise (). For a
    vehicle with a moment of airspeed it also contains the disturbance observer; if the state is passed as () alone, only
    modelled torques are compensated.
    """

    gains: Gains
    limits: FlightLimits
    allocation: Allocation
    integral_period: float | None
    period: float
    initial_observer: DisturbanceObserver | None

    @property
    def initial_state(self) -> Any:
        return merge_state(self._initial_integral, self.initial_observer)

    @property
    def _initial_integral(self) -> Any:
        return () if self.integral_period is None else ZERO

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
        integral, previous_observer = split_state(controller_state)
        require_controller_state(integral, self._initial_integral)
        acceleration_W, integral = desired_acceleration(
            state, reference, vehicle, integral, self.gains, self.limits, self.allocation, self.integral_period
        )
        observer = observe(state, vehicle, previous_observer, self.period)
        collective_thrust, tau_B = self.wrench(
            acceleration_W, state, add_drag_derivatives(reference, state, vehicle), vehicle, observer
        )
        total_tau_B = compensate(collective_thrust, tau_B, state, vehicle, observer)
        return command_for_wrench(collective_thrust, total_tau_B, state, vehicle, self.allocation), merge_state(
            integral, observer
        )

    def wrench(
        self,
        acceleration_W: Vec3,
        state: State,
        reference: Reference,
        vehicle: Vehicle,
        observer: DisturbanceObserver | None,
    ) -> tuple[Scalar, Vec3]:
        """Return the collective thrust [N] and the torque [N·m] that aligns the thrust axis with `acceleration_W`."""
        return geometric_wrench(
            acceleration_W, state, reference, vehicle, self.gains, self.allocation.controls_yaw, observer
        )


def geometric(
    vehicle: Vehicle,
    gains: Gains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    integral: bool = False,
    period: float = 4e-3,
) -> Geometric:
    """Build Lee's geometric tracking controller for a vehicle.

    Args:
        vehicle: model of the vehicle, from which allocation and default gains follow.
        gains: natural frequencies of the loops and lead time; None for `default_gains(vehicle)`.
        healthy: for each rotor, whether it works; None for all.
        limits: limits of tilt and speed.
        integral: add integral action, so that a steady wind leaves no position error.
        period: time between calls [s].

    Returns:
        `controller(state, reference, vehicle, controller_state) → command, controller_state`.
    """
    require_plausible(period, limits)
    allocation = build_allocation(vehicle, healthy)
    gains_used, integral_period = gains or default_gains(vehicle), period if integral else None
    return Geometric(gains_used, limits, allocation, integral_period, period, initial_observer_state(vehicle))


def require_controller_state(
    controller_state: Any, initial_state: Any, description: str = "with integral action"
) -> None:
    """Raise ValueError if `controller_state` is empty although the controller needs a state."""
    if initial_state != () and controller_state == ():
        raise ValueError(f"controller_state = (): a controller {description} starts with its `initial_state`")


def require_plausible(period: float, limits: FlightLimits) -> None:
    """Raise ValueError if the period or a limit is out of range."""
    if not 0.0 < period < math.inf:
        raise ValueError(f"period = {period} s: expected a positive number")
    if not (0.0 < limits.tilt < math.pi / 2 and 0.0 < limits.speed < math.inf):
        raise ValueError(f"{limits}: expected a tilt between 0 and π/2 rad and a positive speed")


# The thrust vector -------------------------------------------------------------------------------------------------


def desired_acceleration(
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    controller_state: Any,
    gains: Gains,
    limits: FlightLimits,
    allocation: Allocation,
    integral_period: float | None,
) -> tuple[Vec3, Any]:
    """Return the desired specific thrust within all limits [m/s²], and the controller state for the next call."""
    w, e_p, e_v = gains.position, state.p_W - reference.p_W, state.v_W - reference.v_W
    limited_e_p = limit_position_error(e_p, vehicle, allocation, gains, limits)
    integral_W = ZERO if integral_period is None else controller_state
    unlimited_W = tracking_acceleration(limited_e_p, state, reference, vehicle, gains) + integral_W
    if allocation.hover_side_force_B is not None:
        unlimited_W = unlimited_W - hover_side_acceleration(state, vehicle, allocation)
    limited_W = limit_acceleration(unlimited_W, vehicle, allocation, limits)
    if integral_period is None:
        return limited_W, controller_state
    saturation = norm(unlimited_W - limited_W) + norm(e_p - limited_e_p) * (w * w)
    return limited_W, update_integral(integral_W, e_p, e_v, saturation, vehicle, gains, integral_period)


def limit_position_error(
    e_p: Vec3, vehicle: Vehicle, allocation: Allocation, gains: Gains, limits: FlightLimits
) -> Vec3:
    """e_p, no longer than 2 v/ω: at that length ω² e_p balances 2 ω v, which limits the approach speed to v  [m]

    v is the speed limit, or 2a/ω if the acceleration a that the rotors have in reserve above hover is small: critically
    damped braking from 2a/ω needs ωv/e = 0.74 a (e = 2.718…).
    """
    w, g = gains.position, vehicle["gravity"].acceleration
    speed: Scalar = limits.speed
    if allocation.groups:
        headroom = maximum(allocation.thrust_range.high / vehicle.mass - g, _MIN_HEADROOM_FRACTION * g)
        speed = minimum(speed, headroom * (2.0 / w))
    max_error = speed * (2.0 / w)
    return e_p * (max_error / maximum(norm(e_p), max_error))


def tracking_acceleration(e_p: Vec3, state: State, reference: Reference, vehicle: Vehicle, gains: Gains) -> Vec3:
    """f/m = g e₃ + a_d − d(v_d)/m − ω² e_p − 2 ω e_v, the desired specific thrust before limits  [m/s²]"""
    w = gains.position
    return (
        reference.a_W
        - reference_drag(state, reference, vehicle) / vehicle.mass
        - e_p * (w * w)
        - (state.v_W - reference.v_W) * (2.0 * w)
        + Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    )


def reference_drag(state: State, reference: Reference, vehicle: Vehicle) -> Vec3:
    """d(v_d): the drag at the reference velocity, in still air, at the current attitude  [N]"""
    return model_drag(reference.v_W, state, vehicle)


def model_drag(v_W: Vec3, state: State, vehicle: Vehicle) -> Vec3:
    """d(v): the drag of airframe and rotors at velocity v, in still air, at the current attitude and rotor speeds  [N]"""
    drag_W = ZERO
    if vehicle.has("drag"):
        state_at_v = state._replace(v_W=v_W)
        force = vehicle.structure.effects[vehicle.index("drag")].wrench((), state_at_v, (), vehicle, CALM)
        drag_W = rotate(state.q_WB, force.f_B) + force.f_W
    if has_rotor_drag(vehicle):
        drag_W = drag_W + rotate(state.q_WB, rotor_drag_wrench(v_W, state, vehicle).f_B)
    return drag_W


def add_drag_derivatives(reference: Reference, state: State, vehicle: Vehicle) -> Reference:
    """Replace jerk and snap by j − ḋ/m and s − d̈/m, the derivatives of a thrust that also balances the drag d(v_d).

    Central differences over ±20 ms along v_d + t a_d + t² j_d/2 + t³ s_d/6: exact for drag that is linear or quadratic in v.
    """
    if not (vehicle.has("drag") or has_rotor_drag(vehicle)):
        return reference
    h = DRAG_STEP
    even_W = reference.v_W + reference.j_W * (0.5 * h * h)
    odd_W = reference.a_W * h + reference.s_W * (h * h * h / 6.0)
    drag, drag_before, drag_after = (
        model_drag(v_W, state, vehicle) for v_W in (reference.v_W, even_W - odd_W, even_W + odd_W)
    )
    return reference._replace(
        j_W=reference.j_W - (drag_after - drag_before) / (2.0 * h * vehicle.mass),
        s_W=reference.s_W - (drag_after - drag * 2.0 + drag_before) / (h * h * vehicle.mass),
    )


def limit_acceleration(acceleration_W: Vec3, vehicle: Vehicle, allocation: Allocation, limits: FlightLimits) -> Vec3:
    """Limit the vertical part, then the horizontal part to what tilt limit and rotor thrust leave  [m/s²].

    The vertical part is at least a fifth of g: the rotors never have to push down.
    """
    z = maximum(acceleration_W.z, _MIN_THRUST_FRACTION * vehicle["gravity"].acceleration)
    if allocation.groups:
        max_acceleration = allocation.thrust_range.high / vehicle.mass
        z = minimum(z, max_acceleration)
        max_horizontal = maximum(safe_sqrt(max_acceleration * max_acceleration - z * z), _MIN_HORIZONTAL_FRACTION * z)
        horizontal = minimum(z * math.tan(limits.tilt), max_horizontal)
    else:
        horizontal = z * math.tan(limits.tilt)
    fraction = horizontal / maximum(safe_norm(acceleration_W.x, acceleration_W.y), horizontal)
    return Vec3(acceleration_W.x * fraction, acceleration_W.y * fraction, z)


def update_integral(
    integral_W: Vec3, e_p: Vec3, e_v: Vec3, saturation: Scalar, vehicle: Vehicle, gains: Gains, period: float
) -> Vec3:
    """b ← b − (4/27) ω³ e_p dt, each component within ±g  [m/s²]

    s³ + 2ω s² + ω² s + (4/27) ω³ = (s + ω/3)² (s + 4ω/3): the loop with the integral is critically damped, too. b is held
    while the desired acceleration is saturated, and while an offset shrinks faster than the integral would remove it: neither
    offset is caused by wind.
    """
    g, w = vehicle["gravity"].acceleration, gains.position
    step = e_p * (4.0 / 27.0 * w * w * w * period)
    hold = logical_or(saturation > MAX_UNSATURATED_CUT * g, norm(e_v) > _INTEGRAL_RATE_FRACTION * w * norm(e_p))
    return Vec3(*(where(hold, b, clamp(b - d, -g, g)) for b, d in zip(integral_W, step, strict=True)))


# The attitude ------------------------------------------------------------------------------------------------------


def geometric_wrench(
    acceleration_W: Vec3,
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    gains: Gains,
    controls_yaw: bool = True,
    observer: DisturbanceObserver | None = None,
) -> tuple[Scalar, Vec3]:
    """T = f·b₃,  τ = J (−k_R e_R − k_Ω e_Ω − ω × RᵀR_d ω_d + RᵀR_d ω̇_d) + ω × Jω,  f = m `acceleration_W`  [N, N·m]

    With a lead time, the errors are extrapolated by `extrapolate_error`.
    """
    error = attitude_tracking_error(acceleration_W, state, reference, controls_yaw)
    if has_lead(gains):
        error = extrapolate_error(error, modelled_acceleration(state, vehicle, observer), gains)
    tau_B = required_torque(state.omega_B, desired_angular_acceleration(error, gains), inertia_B=vehicle.inertia_B)
    return project_on_thrust_axis(acceleration_W, state, vehicle), tau_B


class LeadGains(Protocol):
    """Gains with a lead time by which errors are extrapolated  [s]."""

    @property
    def lead(self) -> Scalar: ...


def has_lead(gains: LeadGains) -> bool:
    """Whether errors are extrapolated; true for any lead that is an input of the compiled program."""
    return not (isinstance(gains.lead, (int, float)) and gains.lead == 0.0)


def extrapolate_error(error: "AttitudeTrackingError", alpha_B: Vec3, gains: LeadGains) -> "AttitudeTrackingError":
    """e_R + T e_Ω and e_Ω + T (ω̇ − ω̇_d) about x and y, with the angular acceleration ω̇ of the body

    A loop closed on e + T ė behind motors of lag T equals the loop closed on e with motors that have no lag.
    """
    lead_time = Vec3(gains.lead, gains.lead, 0.0)
    return error._replace(
        e_R=error.e_R + scale(lead_time, error.e_omega),
        e_omega=error.e_omega + scale(lead_time, alpha_B - error.alpha_B),
    )


def project_on_thrust_axis(acceleration_W: Vec3, state: State, vehicle: Vehicle) -> Scalar:
    """T = f·b₃, f = m `acceleration_W`; never below 0  [N]"""
    return maximum(vehicle.mass * dot(acceleration_W, matrix_from_quat(state.q_WB).columns[2]), 0.0)


class AttitudeTrackingError(NamedTuple):
    """Attitude error [1], angular velocity error [rad/s], and desired angular velocity and acceleration [rad/s, rad/s²].

    All vectors are in body axes.
    """

    e_R: Vec3
    e_omega: Vec3
    omega_B: Vec3
    alpha_B: Vec3


def attitude_tracking_error(
    acceleration_W: Vec3, state: State, reference: Reference, controls_yaw: bool = True
) -> AttitudeTrackingError:
    """R_d points b₃ along f and b₁ as close to the yaw as possible; e_Ω = ω − RᵀR_d ω_d, and RᵀR_d ω̇_d − ω × RᵀR_d ω_d

    Without yaw control, the rotation about b₃ is only damped.
    """
    R_WD = attitude_from_thrust_direction(acceleration_W, reference.yaw)
    R_DB: Mat3 = R_WD.transpose @ matrix_from_quat(state.q_WB)
    desired = desired_angular_motion(acceleration_W, reference, R_WD, controls_yaw)
    omega_B = R_DB.transpose @ desired.omega
    return AttitudeTrackingError(
        attitude_error(R_DB, controls_yaw),
        state.omega_B - omega_B,
        omega_B,
        R_DB.transpose @ desired.alpha - cross(state.omega_B, omega_B),
    )


def attitude_error(R_DB: Mat3, controls_yaw: bool = True) -> Vec3:
    """e_R of R_dᵀR: about z, Lee's ½ (R_dᵀR − RᵀR_d)^∨; about x and y, a vector of length sin θ for the tilt error θ,
    or 1 beyond 90°"""
    normalisation = where(R_DB.zz < 0.0, safe_divide(1.0, safe_norm(R_DB.zx, R_DB.zy)), 1.0)
    e_yaw = 0.5 * (R_DB.yx - R_DB.xy) if controls_yaw else 0.0
    return Vec3(R_DB.zy * normalisation, -R_DB.zx * normalisation, e_yaw)


def desired_angular_acceleration(error: AttitudeTrackingError, gains: Gains) -> Vec3:
    """ω̇ = ω̇_d − ω_n² e_R − 2 ω_n e_Ω  [rad/s²]"""
    spring = scale(scale(gains.attitude, gains.attitude), error.e_R)
    return error.alpha_B - spring - scale(gains.attitude, error.e_omega) * 2.0


class AngularMotion(NamedTuple):
    """Angular velocity and acceleration [rad/s, rad/s²], in the axes of the rotating body."""

    omega: Vec3
    alpha: Vec3


def desired_angular_motion(
    acceleration_W: Vec3, reference: Reference, R_WD: Mat3, controls_yaw: bool = True
) -> AngularMotion:
    """ω_d = (−b₂·ḃ₃, b₁·ḃ₃, −b₁·ḃ₂) of `attitude_from_thrust_direction`, and ω̇_d, from jerk and snap

    f b₃ = a_d + g e₃ and D b₂ = b₃ × c, c = (cos ψ, sin ψ, 0), differentiated twice. The rate of the feedback terms is
    neglected.
    """
    b1, b2, b3 = R_WD.columns
    inverse_thrust = safe_divide(1.0, dot(acceleration_W, b3))
    jerk, snap = reference.j_W * inverse_thrust, reference.s_W * inverse_thrust
    x, y = -dot(b2, jerk), dot(b1, jerk)
    thrust_rate = 2.0 * dot(b3, jerk)
    b3_dot = b1 * y - b2 * x
    b3_ddot = b1 * (dot(b1, snap) - thrust_rate * y) + b2 * (dot(b2, snap) + thrust_rate * x)
    if not controls_yaw:
        return AngularMotion(Vec3(x, y, 0.0), Vec3(-dot(b2, b3_ddot), dot(b1, b3_ddot), 0.0))
    c, c_normal = Vec3(cos(reference.yaw), sin(reference.yaw), 0.0), Vec3(-sin(reference.yaw), cos(reference.yaw), 0.0)
    c_dot = c_normal * reference.yaw_rate
    c_ddot = c_normal * reference.yaw_acceleration - c * (reference.yaw_rate * reference.yaw_rate)
    n, n_dot = cross(b3, c), cross(b3_dot, c) + cross(b3, c_dot)
    n_ddot = cross(b3_ddot, c) + cross(b3_dot, c_dot) * 2.0 + cross(b3, c_ddot)
    inverse_norm = safe_divide(1.0, norm(n))
    z = -dot(b1, n_dot) * inverse_norm
    z_dot = x * y - (dot(b1, n_ddot) + 2.0 * dot(b2, n_dot) * z) * inverse_norm
    return AngularMotion(Vec3(x, y, z), Vec3(y * z - dot(b2, b3_ddot), dot(b1, b3_ddot) - x * z, z_dot))


# Factory by name ---------------------------------------------------------------------------------------------------------


def pop_limits(options: dict[str, Any]) -> FlightLimits:
    """Remove the limits from `options` and return the default limits with these values."""
    return DEFAULT_LIMITS._replace(**{key: options.pop(key) for key in LIMIT_OPTIONS if key in options})


def pop_gains(vehicle: Vehicle, options: dict[str, Any]) -> Gains:
    """Remove the gains from `options` and return the vehicle's default gains with these values."""
    return default_gains(vehicle)._replace(**{key: options.pop(key) for key in GAIN_OPTIONS if key in options})


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> Geometric:
    gains, limits = pop_gains(vehicle, options), pop_limits(options)
    return geometric(vehicle, gains, healthy, limits, period=period, **options)


TYPES = (
    ControllerType(
        "geometric",
        "Geometric tracking on SE(3) (Lee); follows fast trajectories",
        _build,
        {**GAIN_OPTIONS, **LIMIT_OPTIONS, "integral": FLAG},
    ),
)
