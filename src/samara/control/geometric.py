"""Lee's geometric tracking control on SE(3): the thrust vector first, then the attitude that points the rotors along it.

The tilt goes before the yaw: its error is taken from b₃ alone, so that a yaw the rotors cannot give never steers it.

T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010.
D. Brescianini, R. D'Andrea, "Tilt-prioritized quadrocopter attitude control", IEEE Trans. Control Systems Technology 28, 2020.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.algebra import ZERO, Mat3, Vec3, cross, direction, dot, matrix_from_quat, norm, scale
from samara.control.allocation import Allocation, allocation_for, command_for_wrench
from samara.ops import clamp, cos, logical_or, maximum, minimum, safe_divide, safe_norm, safe_sqrt, sin, where
from samara.physics.actuator import Lag
from samara.physics.multirotor import CALM, Command, State, Vehicle
from samara.physics.propulsion import rotor_loads
from samara.plan.reference import Reference
from samara.quantity import Scalar
from samara.trim import hover

Controller = Callable[[State, Reference, Vehicle, Any], tuple[Command, Any]]

_LEAST_LIFT = 0.2  # of the weight: what is always left to steer with
_LEAST_LEAN = 0.1  # of the lift: what may always go sideways
_LEAST_SPARE = 0.1  # of g: the acceleration that is counted on in any case
_STRAIN = 1e-3  # of g: a pull cut by more than this is out of reach
_CLOSING = 0.4  # of ω: a little faster than ω/3, at which the integral closes an offset


class GeometricGains(NamedTuple):
    """Natural frequencies [rad/s] of position and of attitude about the body axes; every loop is critically damped."""

    position: Scalar
    attitude: Vec3


class FlightLimits(NamedTuple):
    """How far the wanted thrust may lean [rad], and how fast a far-away place is flown to [m/s]."""

    tilt: float = math.radians(60.0)
    speed: float = 5.0


USUAL_LIMITS = FlightLimits()


@dataclass(frozen=True)
class Geometric:
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`

    With integral action the memory is the acceleration that balances a steady disturbance, else ().
    """

    gains: GeometricGains
    limits: FlightLimits
    allocation: Allocation
    integral_period: float | None

    @property
    def initial_memory(self) -> Any:
        return () if self.integral_period is None else ZERO

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        if self.integral_period is not None and memory == ():
            raise ValueError("memory = (): a controller with integral action starts with its `initial_memory`")
        w, e_p, e_v = self.gains.position, state.p_W - reference.p_W, state.v_W - reference.v_W
        near = limited_error(e_p, vehicle, self.allocation, self.gains, self.limits)
        balance_W = ZERO if self.integral_period is None else memory
        wanted_W = wanted_pull(near, state, reference, vehicle, self.gains) + balance_W
        pull_W = limited_pull(wanted_W, vehicle, self.allocation, self.limits)
        lift, tau_B = geometric_wrench(pull_W, state, reference, vehicle, self.gains, self.allocation.keeps_yaw)
        command = command_for_wrench(lift, tau_B, state, vehicle, self.allocation)
        if self.integral_period is None:
            return command, memory
        cut = norm(wanted_W - pull_W) + norm(e_p - near) * (w * w)
        return command, next_balance(balance_W, e_p, e_v, cut, vehicle, self.gains, self.integral_period)


def motor_time_constant(vehicle: Vehicle) -> float:
    """τ = J / (K²/R + b + dQ/dΩ) of a DC motor at hover, or the lag itself; 0 for a body driven by a wrench  [s]"""
    if not vehicle.rotors:
        return 0.0
    motor = vehicle.rotors[0].motor
    if isinstance(motor, Lag):
        return max(float(motor.rise), float(motor.fall))
    state, _ = hover(vehicle)
    load_slope = 2.0 * rotor_loads(state, vehicle, CALM)[0].torque / state.rotor_speed[0]
    stiffness = motor.constant**2 / motor.resistance + motor.damping + load_slope
    return float(vehicle.rotors[0].inertia / stiffness)


def gains_for(vehicle: Vehicle) -> GeometricGains:
    """ω_attitude = 0.35 / (τ + 10 ms), a third of that about z, ω_position = ω_attitude / 4

    A critically damped double integrator behind a lag τ is stable for ω < 2/τ; 0.35/τ keeps its damping near one.
    """
    attitude = 0.35 / (motor_time_constant(vehicle) + 0.01)
    return GeometricGains(attitude / 4.0, Vec3(attitude, attitude, attitude / 3.0))


def geometric(
    vehicle: Vehicle,
    gains: GeometricGains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = USUAL_LIMITS,
    integral: bool = False,
    period: float = 4e-3,
) -> Geometric:
    """Lee's controller for a vehicle: `controller(state, reference, vehicle, memory) → command, memory`

    `healthy` says which rotors still work. With `integral` a steady wind leaves no offset; `period` is then the time between
    calls [s], and the memory starts as `controller.initial_memory`.
    """
    if not 0.0 < period < math.inf:
        raise ValueError(f"period = {period} s: expected a positive number")
    if not (0.0 < limits.tilt < math.pi / 2 and 0.0 < limits.speed < math.inf):
        raise ValueError(f"{limits}: expected a tilt between 0 and π/2 rad and a positive speed")
    allocation = allocation_for(vehicle, healthy)
    return Geometric(gains or gains_for(vehicle), limits, allocation, period if integral else None)


# The thrust vector -------------------------------------------------------------------------------------------------


def limited_error(
    e_p: Vec3, vehicle: Vehicle, allocation: Allocation, gains: GeometricGains, limits: FlightLimits
) -> Vec3:
    """e_p, no longer than 2 v/ω: there ω² e_p balances 2 ω v, and no place is flown to faster  [m]

    v is the speed limit, or 2a/ω where the rotors' spare acceleration a is small: critically damped, braking from it takes
    ωv/e = 0.74 a (e = 2.718…).
    """
    w, g = gains.position, vehicle["gravity"].acceleration
    speed: Scalar = limits.speed
    if math.isfinite(allocation.lift.high):
        spare = maximum(allocation.lift.high / vehicle.mass - g, _LEAST_SPARE * g)
        speed = minimum(speed, spare * (2.0 / w))
    far = speed * (2.0 / w)
    return e_p * (far / maximum(norm(e_p), far))


def wanted_pull(e_p: Vec3, state: State, reference: Reference, vehicle: Vehicle, gains: GeometricGains) -> Vec3:
    """f/m = g e₃ + a_d − ω² e_p − 2 ω e_v, the thrust on every kilogram  [m/s²]"""
    w = gains.position
    return (
        reference.a_W
        - e_p * (w * w)
        - (state.v_W - reference.v_W) * (2.0 * w)
        + Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    )


def limited_pull(pull_W: Vec3, vehicle: Vehicle, allocation: Allocation, limits: FlightLimits) -> Vec3:
    """Its vertical part, then of the horizontal as much as the tilt limit and the strength of the rotors leave  [m/s²]

    The vertical part is never below a fifth of g: the rotors are not asked to push down.
    """
    z = maximum(pull_W.z, _LEAST_LIFT * vehicle["gravity"].acceleration)
    if math.isfinite(allocation.lift.high):
        most = allocation.lift.high / vehicle.mass
        z = minimum(z, most)
        left = maximum(safe_sqrt(most * most - z * z), _LEAST_LEAN * z)
        aside = minimum(z * math.tan(limits.tilt), left)
    else:
        aside = z * math.tan(limits.tilt)
    part = aside / maximum(safe_norm(pull_W.x, pull_W.y), aside)
    return Vec3(pull_W.x * part, pull_W.y * part, z)


def next_balance(
    balance_W: Vec3, e_p: Vec3, e_v: Vec3, cut: Scalar, vehicle: Vehicle, gains: GeometricGains, period: float
) -> Vec3:
    """b ← b − (4/27) ω³ e_p dt, each component within ±g  [m/s²]

    s³ + 2ω s² + ω² s + (4/27) ω³ = (s + ω/3)² (s + 4ω/3): with the integral, too, the loop is critically damped. b stays as it
    is while the pull wanted is cut, and while an offset closes faster than that by itself: neither says anything about wind.
    """
    g, w = vehicle["gravity"].acceleration, gains.position
    step = e_p * (4.0 / 27.0 * w * w * w * period)
    held = logical_or(cut > _STRAIN * g, norm(e_v) > _CLOSING * w * norm(e_p))
    return Vec3(*(where(held, b, clamp(b - d, -g, g)) for b, d in zip(balance_W, step, strict=True)))


# The attitude ------------------------------------------------------------------------------------------------------


def geometric_wrench(
    pull_W: Vec3, state: State, reference: Reference, vehicle: Vehicle, gains: GeometricGains, keeps_yaw: bool = True
) -> tuple[Scalar, Vec3]:
    """T = f·b₃,  τ = J (−k_R e_R − k_Ω e_Ω) + ω × Jω,  f = m `pull_W`

    R_d points b₃ along f and b₁ as near to the yaw as that allows; e_Ω = ω − RᵀR_d ω_d. About b₃, e_R is that component of
    Lee's ½ (R_dᵀR − RᵀR_d)^∨, and across it sin θ of the angle θ from b₃ to f, or 1 beyond 90°. Without yaw, the turn about b₃
    is only damped.
    """
    R_WB = matrix_from_quat(state.q_WB)
    R_WD = _attitude_along(pull_W, reference.yaw)
    turn: Mat3 = R_WD.transpose @ R_WB
    beyond = where(turn.zz < 0.0, safe_divide(1.0, safe_norm(turn.zx, turn.zy)), 1.0)
    e_yaw = 0.5 * (turn.yx - turn.xy) if keeps_yaw else 0.0
    e_R = Vec3(turn.zy * beyond, -turn.zx * beyond, e_yaw)
    e_omega = state.omega_B - turn.transpose @ _turning_with(pull_W, reference, R_WD, keeps_yaw)
    wanted = -(scale(scale(gains.attitude, gains.attitude), e_R) + scale(gains.attitude, e_omega) * 2.0)
    momentum_B = vehicle.inertia_B @ state.omega_B
    tau_B = vehicle.inertia_B @ wanted + cross(state.omega_B, momentum_B)
    return maximum(vehicle.mass * dot(pull_W, R_WB.columns[2]), 0.0), tau_B


def _attitude_along(pull_W: Vec3, yaw: Scalar) -> Mat3:
    """R_d = [b₂ × b₃, b₂, b₃] with b₃ = f/|f| and b₂ = b₃ × (cos ψ, sin ψ, 0), normalised"""
    b3 = direction(pull_W)
    b2 = direction(cross(b3, Vec3(cos(yaw), sin(yaw), 0.0)))
    b1 = cross(b2, b3)
    return Mat3(b1.x, b2.x, b3.x, b1.y, b2.y, b3.y, b1.z, b2.z, b3.z)


def _turning_with(pull_W: Vec3, reference: Reference, R_WD: Mat3, keeps_yaw: bool) -> Vec3:
    """ω_d of the wanted attitude: ḃ₃ = (j − (j·b₃) b₃)/|f| gives its tilt rates, the yaw rate its turn about b₃  [rad/s]"""
    b1, b2, b3 = R_WD.columns
    jerk_over_pull = reference.j_W * safe_divide(1.0, dot(pull_W, b3))
    yaw_rate = reference.yaw_rate if keeps_yaw else 0.0
    return Vec3(-dot(b2, jerk_over_pull), dot(b1, jerk_over_pull), yaw_rate * b3.z)
