"""Lee's geometric tracking control on SE(3): the thrust vector first, then the attitude that points the rotors along it.

The tilt goes before the yaw: its error is taken from b₃ alone, so that a yaw the rotors cannot give never steers it.

T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010.
D. Brescianini, R. D'Andrea, "Tilt-prioritized quadrocopter attitude control", IEEE Trans. Control Systems Technology 28, 2020.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from samara.control.allocation import Allocation, allocation_for, command_for_wrench, side_pull
from samara.control.controller_type import FLAG, LIMITS, LOOPS, ControllerType
from samara.control.default_gains import Gains
from samara.control.default_gains import gains_for as gains_for
from samara.control.default_gains import motor_time_constant as motor_time_constant
from samara.control.disturbance_torque import (
    Turned,
    joined,
    modelled_acceleration,
    nothing_seen,
    opposed,
    parted,
    rotor_drag_wrench,
    seen,
)
from samara.core.algebra import ZERO, Mat3, Vec3, cross, dot, matrix_from_quat, norm, rotate, scale
from samara.core.ops import clamp, cos, logical_or, maximum, minimum, safe_divide, safe_norm, safe_sqrt, sin, where
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import CALM, Command, Reference, State, Vehicle
from samara.plan.flatness import attitude_along

_LEAST_LIFT = 0.2  # of the weight: what is always left to steer with
_LEAST_LEAN = 0.1  # of the lift: what may always go sideways
_LEAST_SPARE = 0.1  # of g: the acceleration that is counted on in any case
DRAG_STEP = 0.02  # [s]: over which the rate of the drag is taken
STRAIN = 1e-3  # of g: a pull cut by more than this is out of reach
_CLOSING = 0.4  # of ω: a little faster than ω/3, at which the integral closes an offset


class FlightLimits(NamedTuple):
    """How far the wanted thrust may lean [rad], and how fast a far-away place is flown to [m/s]."""

    tilt: float = math.radians(60.0)
    speed: float = 5.0


DEFAULT_LIMITS = FlightLimits()


@dataclass(frozen=True)
class Geometric:
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`

    With integral action the memory is the acceleration that balances a steady disturbance, else (). For a vehicle that the air
    turns it is that and what is seen of the turn; with () alone, only what the model knows is opposed.
    """

    gains: Gains
    limits: FlightLimits
    allocation: Allocation
    integral_period: float | None
    period: float
    unseen: Turned | None

    @property
    def initial_memory(self) -> Any:
        return joined(self._own_memory, self.unseen)

    @property
    def _own_memory(self) -> Any:
        return () if self.integral_period is None else ZERO

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        own, before = parted(memory)
        require_memory(own, self._own_memory)
        pull_W, own = steered_pull(
            state, reference, vehicle, own, self.gains, self.limits, self.allocation, self.integral_period
        )
        turned = seen(state, vehicle, before, self.period)
        lift, tau_B = self.wrench(pull_W, state, with_drag(reference, state, vehicle), vehicle, turned)
        given_B = opposed(lift, tau_B, state, vehicle, turned)
        return command_for_wrench(lift, given_B, state, vehicle, self.allocation), joined(own, turned)

    def wrench(
        self, pull_W: Vec3, state: State, reference: Reference, vehicle: Vehicle, turned: Turned | None
    ) -> tuple[Scalar, Vec3]:
        """Lift [N], and the torque [N·m] that turns it along `pull_W`"""
        return geometric_wrench(pull_W, state, reference, vehicle, self.gains, self.allocation.keeps_yaw, turned)


def geometric(
    vehicle: Vehicle,
    gains: Gains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    integral: bool = False,
    period: float = 4e-3,
) -> Geometric:
    """Lee's controller for a vehicle: `controller(state, reference, vehicle, memory) → command, memory`

    `healthy` says which rotors still work. With `integral` a steady wind leaves no offset; `period` is then the time between
    calls [s], and the memory starts as `controller.initial_memory`.
    """
    require_plausible(period, limits)
    allocation = allocation_for(vehicle, healthy)
    own, patience = gains or gains_for(vehicle), period if integral else None
    return Geometric(own, limits, allocation, patience, period, nothing_seen(vehicle))


def require_memory(memory: Any, initial: Any, kind: str = "with integral action") -> None:
    """A memory where one is needed"""
    if initial != () and memory == ():
        raise ValueError(f"memory = (): a controller {kind} starts with its `initial_memory`")


def require_plausible(period: float, limits: FlightLimits) -> None:
    """A period and limits that mean something, or a sentence about the one that does not"""
    if not 0.0 < period < math.inf:
        raise ValueError(f"period = {period} s: expected a positive number")
    if not (0.0 < limits.tilt < math.pi / 2 and 0.0 < limits.speed < math.inf):
        raise ValueError(f"{limits}: expected a tilt between 0 and π/2 rad and a positive speed")


# The thrust vector -------------------------------------------------------------------------------------------------


def steered_pull(
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    memory: Any,
    gains: Gains,
    limits: FlightLimits,
    allocation: Allocation,
    integral_period: float | None,
) -> tuple[Vec3, Any]:
    """The thrust wanted on every kilogram, within all limits [m/s²], and what is remembered of a steady disturbance"""
    w, e_p, e_v = gains.position, state.p_W - reference.p_W, state.v_W - reference.v_W
    near = limited_error(e_p, vehicle, allocation, gains, limits)
    balance_W = ZERO if integral_period is None else memory
    wanted_W = wanted_pull(near, state, reference, vehicle, gains) + balance_W
    if allocation.side_B is not None:
        wanted_W = wanted_W - side_pull(state, vehicle, allocation)
    pull_W = limited_pull(wanted_W, vehicle, allocation, limits)
    if integral_period is None:
        return pull_W, memory
    cut = norm(wanted_W - pull_W) + norm(e_p - near) * (w * w)
    return pull_W, next_balance(balance_W, e_p, e_v, cut, vehicle, gains, integral_period)


def limited_error(e_p: Vec3, vehicle: Vehicle, allocation: Allocation, gains: Gains, limits: FlightLimits) -> Vec3:
    """e_p, no longer than 2 v/ω: there ω² e_p balances 2 ω v, and no place is flown to faster  [m]

    v is the speed limit, or 2a/ω where the rotors' spare acceleration a is small: critically damped, braking from it takes
    ωv/e = 0.74 a (e = 2.718…).
    """
    w, g = gains.position, vehicle["gravity"].acceleration
    speed: Scalar = limits.speed
    if allocation.groups:
        spare = maximum(allocation.lift.high / vehicle.mass - g, _LEAST_SPARE * g)
        speed = minimum(speed, spare * (2.0 / w))
    far = speed * (2.0 / w)
    return e_p * (far / maximum(norm(e_p), far))


def wanted_pull(e_p: Vec3, state: State, reference: Reference, vehicle: Vehicle, gains: Gains) -> Vec3:
    """f/m = g e₃ + a_d − d(v_d)/m − ω² e_p − 2 ω e_v, the thrust on every kilogram  [m/s²]"""
    w = gains.position
    return (
        reference.a_W
        - drag_ahead(state, reference, vehicle) / vehicle.mass
        - e_p * (w * w)
        - (state.v_W - reference.v_W) * (2.0 * w)
        + Vec3(0.0, 0.0, vehicle["gravity"].acceleration)
    )


def drag_ahead(state: State, reference: Reference, vehicle: Vehicle) -> Vec3:
    """d(v_d): the drag at the velocity asked for, in still air and in the attitude there is  [N]"""
    return drag_at(reference.v_W, state, vehicle)


def drag_at(v_W: Vec3, state: State, vehicle: Vehicle) -> Vec3:
    """d(v): the drag of airframe and rotors at a velocity, in still air, in the attitude and at the speeds there are  [N]"""
    whole = ZERO
    if vehicle.has("drag"):
        there = state._replace(v_W=v_W)
        force = vehicle.structure.effects[vehicle.index("drag")].wrench((), there, (), vehicle, CALM)
        whole = rotate(state.q_WB, force.f_B) + force.f_W
    if vehicle.has("rotor_drag"):
        whole = whole + rotate(state.q_WB, rotor_drag_wrench(v_W, state, vehicle).f_B)
    return whole


def with_drag(reference: Reference, state: State, vehicle: Vehicle) -> Reference:
    """j − ḋ/m and s − d̈/m in place of jerk and snap: how the thrust turns that also balances the drag d(v_d)

    Central differences over ±20 ms along v_d + t a_d + t² j_d/2 + t³ s_d/6: exact for drag that is linear or quadratic in v.
    """
    if not (vehicle.has("drag") or vehicle.has("rotor_drag")):
        return reference
    h = DRAG_STEP
    even_W = reference.v_W + reference.j_W * (0.5 * h * h)
    odd_W = reference.a_W * h + reference.s_W * (h * h * h / 6.0)
    now, before, after = (drag_at(v_W, state, vehicle) for v_W in (reference.v_W, even_W - odd_W, even_W + odd_W))
    return reference._replace(
        j_W=reference.j_W - (after - before) / (2.0 * h * vehicle.mass),
        s_W=reference.s_W - (after - now * 2.0 + before) / (h * h * vehicle.mass),
    )


def limited_pull(pull_W: Vec3, vehicle: Vehicle, allocation: Allocation, limits: FlightLimits) -> Vec3:
    """Its vertical part, then of the horizontal as much as the tilt limit and the strength of the rotors leave  [m/s²]

    The vertical part is never below a fifth of g: the rotors are not asked to push down.
    """
    z = maximum(pull_W.z, _LEAST_LIFT * vehicle["gravity"].acceleration)
    if allocation.groups:
        most = allocation.lift.high / vehicle.mass
        z = minimum(z, most)
        left = maximum(safe_sqrt(most * most - z * z), _LEAST_LEAN * z)
        aside = minimum(z * math.tan(limits.tilt), left)
    else:
        aside = z * math.tan(limits.tilt)
    part = aside / maximum(safe_norm(pull_W.x, pull_W.y), aside)
    return Vec3(pull_W.x * part, pull_W.y * part, z)


def next_balance(
    balance_W: Vec3, e_p: Vec3, e_v: Vec3, cut: Scalar, vehicle: Vehicle, gains: Gains, period: float
) -> Vec3:
    """b ← b − (4/27) ω³ e_p dt, each component within ±g  [m/s²]

    s³ + 2ω s² + ω² s + (4/27) ω³ = (s + ω/3)² (s + 4ω/3): with the integral, too, the loop is critically damped. b stays as it
    is while the pull wanted is cut, and while an offset closes faster than that by itself: neither says anything about wind.
    """
    g, w = vehicle["gravity"].acceleration, gains.position
    step = e_p * (4.0 / 27.0 * w * w * w * period)
    held = logical_or(cut > STRAIN * g, norm(e_v) > _CLOSING * w * norm(e_p))
    return Vec3(*(where(held, b, clamp(b - d, -g, g)) for b, d in zip(balance_W, step, strict=True)))


# The attitude ------------------------------------------------------------------------------------------------------


def geometric_wrench(
    pull_W: Vec3,
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    gains: Gains,
    keeps_yaw: bool = True,
    turned: Turned | None = None,
) -> tuple[Scalar, Vec3]:
    """T = f·b₃,  τ = J (−k_R e_R − k_Ω e_Ω − ω × RᵀR_d ω_d + RᵀR_d ω̇_d) + ω × Jω,  f = m `pull_W`

    The errors are led as in `led_error`.
    """
    error = deviation(pull_W, state, reference, keeps_yaw)
    if leads(gains):
        error = led_error(error, modelled_acceleration(state, vehicle, turned), gains)
    tau_B = required_torque(state.omega_B, wanted_turn(error, gains), inertia_B=vehicle.inertia_B)
    return lift_along(pull_W, state, vehicle), tau_B


class Leading(Protocol):
    """Gains with the time by which errors are led  [s]"""

    @property
    def lead(self) -> Scalar: ...


def leads(gains: Leading) -> bool:
    """Whether errors are led; a lead that is an input of the compiled program always counts"""
    return not (isinstance(gains.lead, (int, float)) and gains.lead == 0.0)


def led_error(error: "Deviation", alpha_B: Vec3, gains: Leading) -> "Deviation":
    """e_R + T e_Ω and e_Ω + T (ω̇ − ω̇_d) about x and y, with the angular acceleration ω̇ that there is

    A loop closed on e + T ė behind motors of lag T is the loop closed on e without any lag.
    """
    ahead = Vec3(gains.lead, gains.lead, 0.0)
    return error._replace(
        e_R=error.e_R + scale(ahead, error.e_omega),
        e_omega=error.e_omega + scale(ahead, alpha_B - error.alpha_B),
    )


def lift_along(pull_W: Vec3, state: State, vehicle: Vehicle) -> Scalar:
    """T = f·b₃, f = m `pull_W`; never below 0  [N]"""
    return maximum(vehicle.mass * dot(pull_W, matrix_from_quat(state.q_WB).columns[2]), 0.0)


class Deviation(NamedTuple):
    """From the attitude wanted to the one there is [1], the same of the angular velocity [rad/s], and what ω_d is, with
    the angular acceleration that keeps to it [rad/s, rad/s²]; all in body axes"""

    e_R: Vec3
    e_omega: Vec3
    omega_B: Vec3
    alpha_B: Vec3


def deviation(pull_W: Vec3, state: State, reference: Reference, keeps_yaw: bool = True) -> Deviation:
    """R_d points b₃ along f and b₁ as near to the yaw as that allows; e_Ω = ω − RᵀR_d ω_d, and RᵀR_d ω̇_d − ω × RᵀR_d ω_d

    Without yaw, the turn about b₃ is only damped.
    """
    R_WD = attitude_along(pull_W, reference.yaw)
    turn: Mat3 = R_WD.transpose @ matrix_from_quat(state.q_WB)
    wanted = turning_along(pull_W, reference, R_WD, keeps_yaw)
    omega_B = turn.transpose @ wanted.omega
    return Deviation(
        attitude_error(turn, keeps_yaw),
        state.omega_B - omega_B,
        omega_B,
        turn.transpose @ wanted.alpha - cross(state.omega_B, omega_B),
    )


def attitude_error(turn: Mat3, keeps_yaw: bool = True) -> Vec3:
    """e_R of R_dᵀR: about b₃ that component of Lee's ½ (R_dᵀR − RᵀR_d)^∨, and across it sin θ of the angle θ from b₃ to the one
    wanted, or 1 beyond 90°"""
    beyond = where(turn.zz < 0.0, safe_divide(1.0, safe_norm(turn.zx, turn.zy)), 1.0)
    e_yaw = 0.5 * (turn.yx - turn.xy) if keeps_yaw else 0.0
    return Vec3(turn.zy * beyond, -turn.zx * beyond, e_yaw)


def wanted_turn(own: Deviation, gains: Gains) -> Vec3:
    """ω̇ = ω̇_d − ω_n² e_R − 2 ω_n e_Ω  [rad/s²]"""
    spring = scale(scale(gains.attitude, gains.attitude), own.e_R)
    return own.alpha_B - spring - scale(gains.attitude, own.e_omega) * 2.0


class Turning(NamedTuple):
    """Angular velocity and acceleration [rad/s, rad/s²], in the axes of the body that turns."""

    omega: Vec3
    alpha: Vec3


def turning_along(pull_W: Vec3, reference: Reference, R_WD: Mat3, keeps_yaw: bool = True) -> Turning:
    """ω_d = (−b₂·ḃ₃, b₁·ḃ₃, −b₁·ḃ₂) of `attitude_along`, and ω̇_d, from jerk and snap

    f b₃ = a_d + g e₃ and D b₂ = b₃ × c, c = (cos ψ, sin ψ, 0), differentiated twice. Where feedback bends the pull away from
    the reference, its own rate is left out.
    """
    b1, b2, b3 = R_WD.columns
    over = safe_divide(1.0, dot(pull_W, b3))
    jerk, snap = reference.j_W * over, reference.s_W * over
    x, y = -dot(b2, jerk), dot(b1, jerk)
    stretch = 2.0 * dot(b3, jerk)
    b3_dot = b1 * y - b2 * x
    b3_ddot = b1 * (dot(b1, snap) - stretch * y) + b2 * (dot(b2, snap) + stretch * x)
    if not keeps_yaw:
        return Turning(Vec3(x, y, 0.0), Vec3(-dot(b2, b3_ddot), dot(b1, b3_ddot), 0.0))
    c, left = Vec3(cos(reference.yaw), sin(reference.yaw), 0.0), Vec3(-sin(reference.yaw), cos(reference.yaw), 0.0)
    c_dot = left * reference.yaw_rate
    c_ddot = left * reference.yaw_acceleration - c * (reference.yaw_rate * reference.yaw_rate)
    n, n_dot = cross(b3, c), cross(b3_dot, c) + cross(b3, c_dot)
    n_ddot = cross(b3_ddot, c) + cross(b3_dot, c_dot) * 2.0 + cross(b3, c_ddot)
    short = safe_divide(1.0, norm(n))
    z = -dot(b1, n_dot) * short
    z_dot = x * y - (dot(b1, n_ddot) + 2.0 * dot(b2, n_dot) * z) * short
    return Turning(Vec3(x, y, z), Vec3(y * z - dot(b2, b3_ddot), dot(b1, b3_ddot) - x * z, z_dot))


# By name -----------------------------------------------------------------------------------------------------------------


def chosen_limits(chosen: dict[str, Any]) -> FlightLimits:
    """The default limits with those that are chosen, which are taken out of `chosen`"""
    return DEFAULT_LIMITS._replace(**{key: chosen.pop(key) for key in LIMITS if key in chosen})


def chosen_loops(vehicle: Vehicle, chosen: dict[str, Any]) -> Gains:
    """The gains for a vehicle with those that are chosen, which are taken out of `chosen`"""
    return gains_for(vehicle)._replace(**{key: chosen.pop(key) for key in LOOPS if key in chosen})


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Geometric:
    gains, limits = chosen_loops(vehicle, chosen), chosen_limits(chosen)
    return geometric(vehicle, gains, healthy, limits, period=period, **chosen)


TYPES = (ControllerType("geometric", _build, {**LOOPS, **LIMITS, "integral": FLAG}),)
