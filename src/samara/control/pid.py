"""The cascade of most autopilots: position P, velocity PI, attitude P, rate PID; each loop is the set point of the next one.

The integrals are held while their output is saturated; the derivative acts on the measured rate, never on a set point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.control.allocation import Allocation, build_allocation, command_for_wrench, hover_side_acceleration
from samara.control.controller_type import LIMIT_OPTIONS, NOT_NEGATIVE, THREE_POSITIVE, ControllerType
from samara.control.default_gains import OTHER_LAG, Gains, control_authority, default_gains, spin_up_torque_ratio
from samara.control.disturbance_torque import (
    DisturbanceObserver,
    compensate,
    initial_observer_state,
    merge_state,
    modelled_acceleration,
    observe,
    split_state,
)
from samara.control.geometric import (
    DEFAULT_LIMITS,
    MAX_UNSATURATED_CUT,
    FlightLimits,
    add_drag_derivatives,
    attitude_tracking_error,
    extrapolate_error,
    has_lead,
    limit_acceleration,
    limit_position_error,
    pop_limits,
    project_on_thrust_axis,
    reference_drag,
    require_controller_state,
    require_plausible,
)
from samara.core.algebra import ZERO, Vec3, norm, scale
from samara.core.ops import clamp, logical_or, where
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import Command, Reference, State, Vehicle

_INTEGRAL_GAIN = 0.3  # k_i = 0.3 ω²: with ω/2 and 2ω around it the zero at −0.15 ω meets a pole at −0.146 ω
_DERIVATIVE_GAIN = 0.5  # k_d: below 1 the loop of the derivative, through any lag and filter, has a gain below 1
_MAX_SPIN_UP_RATIO = 3.0  # κ; above it the reaction to spin-up exceeds the drag so much that ω̇ feeds back on itself
_MAX_INTEGRAL_FRACTION = 0.5  # fraction of the authority that limits the rates' integral


class PidGains(NamedTuple):
    """Gains of the loops [1/s], growth rates of their integrals [1/s²], and limits of the rate integral [rad/s²]."""

    position: Scalar
    velocity: Scalar
    velocity_integral: Scalar
    attitude: Vec3
    rate: Vec3
    rate_integral: Vec3
    rate_derivative: Scalar
    trim: Vec3
    lead: Scalar = 0.0


class PidState(NamedTuple):
    """The two integrals [m/s², rad/s²], the previous ω [rad/s], and the filtered ω̇  [rad/s²]."""

    velocity_integral_W: Vec3
    rate_integral_B: Vec3
    omega_B: Vec3
    alpha_B: Vec3


@dataclass(frozen=True)
class Pid:
    """Cascaded PID controller; `initial_state` is the controller state of the first call.

    The controller state is a `PidState`; for a vehicle with a moment of airspeed, it also contains the disturbance observer.
    """

    gains: PidGains
    limits: FlightLimits
    allocation: Allocation
    period: float
    initial_observer: DisturbanceObserver | None

    @property
    def initial_state(self) -> Any:
        return merge_state(PidState(ZERO, ZERO, ZERO, ZERO), self.initial_observer)

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
        require_controller_state(controller_state, self.initial_state)
        controller_state, previous_observer = split_state(controller_state)
        gains, dt = self.gains, self.period
        acceleration_W, velocity_integral_W = velocity_loop(
            state, reference, vehicle, controller_state.velocity_integral_W, gains, self.limits, self.allocation, dt
        )
        observer = observe(state, vehicle, previous_observer, dt)
        error = attitude_tracking_error(
            acceleration_W, state, add_drag_derivatives(reference, state, vehicle), self.allocation.controls_yaw
        )
        if has_lead(gains):
            error = extrapolate_error(error, modelled_acceleration(state, vehicle, observer), gains)
        alpha_B = controller_state.alpha_B + (
            (state.omega_B - controller_state.omega_B) / dt - controller_state.alpha_B
        ) * (dt / (OTHER_LAG + dt))
        e_rate = -(scale(gains.attitude, error.e_R) + error.e_omega)
        desired_alpha_B = (
            error.alpha_B
            + scale(gains.rate, e_rate)
            + controller_state.rate_integral_B
            - alpha_B * gains.rate_derivative
        )
        tau_B = required_torque(state.omega_B, desired_alpha_B, inertia_B=vehicle.inertia_B)
        collective_thrust = project_on_thrust_axis(acceleration_W, state, vehicle)
        total_tau_B = compensate(collective_thrust, tau_B, state, vehicle, observer)
        command = command_for_wrench(collective_thrust, total_tau_B, state, vehicle, self.allocation)
        rate_integral_B = update_rate_integral(
            controller_state.rate_integral_B, e_rate, tau_B, gains, self.allocation, dt
        )
        return command, merge_state(PidState(velocity_integral_W, rate_integral_B, state.omega_B, alpha_B), observer)


def pid(
    vehicle: Vehicle,
    gains: PidGains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    period: float = 4e-3,
) -> Pid:
    """Build the cascaded PID controller for a vehicle.

    Args:
        vehicle: model of the vehicle, from which allocation and default gains follow.
        gains: gains of the loops; None for `pid_gains(vehicle)`.
        healthy: for each rotor, whether it works; None for all.
        limits: limits of tilt and speed.
        period: time between calls [s].

    Returns:
        `controller(state, reference, vehicle, controller_state) → command, controller_state`.
    """
    require_plausible(period, limits)
    gains_used = gains or pid_gains(vehicle)
    return Pid(gains_used, limits, build_allocation(vehicle, healthy), period, initial_observer_state(vehicle))


def pid_gains(vehicle: Vehicle, loops: Gains | None = None) -> PidGains:
    """k_p = ω/2, k_v = 2ω, k_i = 0.3 ω²: s³ + 2ω s² + 1.3 ω² s + 0.15 ω³, its poles −0.146 ω and (−0.93 ± 0.41i) ω

    The same for attitude and rate, multiplied by 1 + k_d, since −k_d ω̇ increases the apparent inertia by that factor. For
    κ = `spin_up_torque_ratio` above 3, k_d falls with κ²: its loop would cross over at k_d κ / 10 ms, too fast for a
    sampled loop.
    """
    w, attitude, lead = loops or default_gains(vehicle)
    derivative, spin_up_ratio = _DERIVATIVE_GAIN, spin_up_torque_ratio(vehicle)
    if spin_up_ratio > _MAX_SPIN_UP_RATIO:
        derivative = _DERIVATIVE_GAIN * (_MAX_SPIN_UP_RATIO / spin_up_ratio) ** 2
    inertia_factor = 1.0 + derivative
    max_alpha_B = control_authority(vehicle)
    return PidGains(
        position=0.5 * w,
        velocity=2.0 * w,
        velocity_integral=_INTEGRAL_GAIN * w * w,
        attitude=attitude * 0.5,
        rate=attitude * (2.0 * inertia_factor),
        rate_integral=scale(attitude, attitude) * (_INTEGRAL_GAIN * inertia_factor),
        rate_derivative=derivative,
        trim=Vec3(*(min(_MAX_INTEGRAL_FRACTION * component, 1e3) for component in max_alpha_B)),
        lead=lead,
    )


def velocity_loop(
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    integral_W: Vec3,
    gains: PidGains,
    limits: FlightLimits,
    allocation: Allocation,
    period: float,
) -> tuple[Vec3, Vec3]:
    """f/m = g e₃ + a_d − d(v_d)/m + k_v e_v + b,  e_v = v_d − k_p e_p − v  [m/s²]

    d(v_d) is the drag at the reference velocity; b ← b + k_i e_v dt within ±g, held while f is saturated.
    """
    g = vehicle["gravity"].acceleration
    limited_e_p = limit_position_error(
        state.p_W - reference.p_W, vehicle, allocation, Gains(gains.velocity * 0.5, ZERO), limits
    )
    e_v = reference.v_W - limited_e_p * gains.position - state.v_W
    feedforward_W = reference.a_W - reference_drag(state, reference, vehicle) / vehicle.mass
    unlimited_W = feedforward_W + e_v * gains.velocity + integral_W + Vec3(0.0, 0.0, g)
    if allocation.hover_side_force_B is not None:
        unlimited_W = unlimited_W - hover_side_acceleration(state, vehicle, allocation)
    limited_W = limit_acceleration(unlimited_W, vehicle, allocation, limits)
    is_saturated = norm(unlimited_W - limited_W) > MAX_UNSATURATED_CUT * g
    step = e_v * (gains.velocity_integral * period)
    integral = (where(is_saturated, b, clamp(b + d, -g, g)) for b, d in zip(integral_W, step, strict=True))
    return limited_W, Vec3(*integral)


def update_rate_integral(
    integral_B: Vec3, e_rate: Vec3, tau_B: Vec3, gains: PidGains, allocation: Allocation, period: float
) -> Vec3:
    """c ← c + k_i e_ω dt, within half the authority; held while roll and pitch demand more than the rotors give  [rad/s²]

    The yaw integral is zero if the allocation does not control yaw.
    """
    step = scale(gains.rate_integral, e_rate) * period
    is_saturated: Scalar = False
    for x, y in allocation.torque_polygon:
        exceeds = x * tau_B.x + y * tau_B.y > 1.0
        is_saturated = exceeds if is_saturated is False else logical_or(is_saturated, exceeds)
    bounds = zip(integral_B, step, gains.trim, strict=True)
    x, y, z = (where(is_saturated, c, clamp(c + d, -max_integral, max_integral)) for c, d, max_integral in bounds)
    return Vec3(x, y, z if allocation.controls_yaw else 0.0)


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> Pid:
    limits = pop_limits(options)
    return pid(vehicle, pid_gains(vehicle)._replace(**options), healthy, limits, period)


_VECTOR_GAINS = ("attitude", "rate", "rate_integral", "trim")
TYPES = (
    ControllerType(
        "pid",
        "The cascade of most autopilots: position, velocity, attitude, rate",
        _build,
        {
            **{name: THREE_POSITIVE if name in _VECTOR_GAINS else NOT_NEGATIVE for name in PidGains._fields},
            **LIMIT_OPTIONS,
        },
    ),
)
