"""Pilot control by sticks: they command angular rates, angles, or a velocity with position hold when they are centred.

    ω_d = rates · sticks;   tan of the tilt = tan(tilt limit) · sticks;   v_d = speed · sticks along and across the nose

Each mode uses the loops of `samara.control.geometric`, from the outermost that it needs inwards. The desired
wrench and its allocation to the rotors are two functions: a failed motor changes only the second.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.control.allocation import Allocation, build_allocation, command_for_wrench, hover_side_acceleration
from samara.control.default_gains import Gains, default_gains
from samara.control.disturbance_torque import (
    DisturbanceObserver,
    compensate,
    initial_observer_state,
    merge_state,
    observe,
    split_state,
)
from samara.control.geometric import (
    AttitudeTrackingError,
    FlightLimits,
    desired_acceleration,
    desired_angular_acceleration,
    geometric_wrench,
)
from samara.core.algebra import ZERO, Vec3, euler_from_quat, norm
from samara.core.ops import clamp, cos, maximum, sin, where, wrap_angle
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.shape import outer_frame_radius

MODES = ("rate", "angle", "hold")
VELOCITY_SMOOTHING = 2.0  # time constant of the held velocity, times ω of the position loop
MAX_HOLD_DISTANCE_TIME = 0.4  # [s]: the held position is at most as far away as the top speed goes in this time
MAX_HEADING_LEAD = 0.5  # [rad]: maximum angle between the held heading and the nose


class Sticks(NamedTuple):
    """From −1 to 1: right, forward, clockwise as viewed from above, up."""

    roll: Scalar
    pitch: Scalar
    yaw: Scalar
    throttle: Scalar


class StickLimits(NamedTuple):
    """Demands of fully deflected sticks  [rad/s, rad, m/s, m/s, fraction of the weight, fraction of the weight]."""

    rate: Vec3
    tilt: float
    speed: float
    climb: float
    min_thrust: float
    max_thrust: float


class PilotState(NamedTuple):
    """State of the position controller and observer, held position and velocity [m, m/s], and held heading [rad]."""

    controller_state: Any
    p_W: Vec3
    v_W: Vec3
    yaw: Scalar


class ThrustAndTorque(NamedTuple):
    """Desired collective thrust along body z [N] and torque [N·m]."""

    collective_thrust: Scalar
    tau_B: Vec3


@dataclass(frozen=True)
class StickPilot:
    """Pilot that maps sticks to thrust and torque with `desired_wrench`, every `period` [s], from `initial_state(state)`."""

    mode: str
    gains: Gains
    limits: StickLimits
    allocation: Allocation
    period: float
    initial_observer: DisturbanceObserver | None

    def initial_state(self, state: State) -> PilotState:
        """Return the state that holds the present position, velocity and heading."""
        return PilotState(
            merge_state(ZERO, self.initial_observer), state.p_W, state.v_W, euler_from_quat(state.q_WB).yaw
        )

    def desired_wrench(
        self, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotState
    ) -> tuple[ThrustAndTorque, PilotState]:
        """Compute the desired thrust and torque.

        Args:
            state: estimated state of the vehicle.
            sticks: deflections of the sticks.
            vehicle: model of the vehicle.
            pilot_state: the state that the previous call returned; `initial_state(state)` at the first call.
        """
        _, previous_observer = split_state(pilot_state.controller_state)
        desired, next_state, integral_W = _MODES[self.mode](self, state, sticks, vehicle, pilot_state)
        observer = observe(state, vehicle, previous_observer, self.period)
        tau_B = compensate(desired.collective_thrust, desired.tau_B, state, vehicle, observer)
        return ThrustAndTorque(desired.collective_thrust, tau_B), next_state._replace(
            controller_state=merge_state(integral_W, observer)
        )

    def command(self, desired: ThrustAndTorque, state: State, vehicle: Vehicle) -> Command:
        """Allocate thrust and torque to all rotors."""
        return command_for_wrench(desired.collective_thrust, desired.tau_B, state, vehicle, self.allocation)


def stick_pilot(
    vehicle: Vehicle, mode: str = "hold", limits: StickLimits | None = None, period: float = 4e-3
) -> StickPilot:
    """Build a pilot for a vehicle.

    Args:
        vehicle: model of the vehicle, from which allocation and gains follow.
        mode: one of `MODES`.
        limits: demands of fully deflected sticks; None for `stick_limits`.
        period: time between calls [s].
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r}: expected one of {', '.join(MODES)}")
    if not 0.0 < period < math.inf:
        raise ValueError(f"period = {period} s: expected a positive number")
    allocation = build_allocation(vehicle)
    limits_used = limits or stick_limits(vehicle, allocation)
    return StickPilot(
        mode, default_gains(vehicle, lead=0.0), limits_used, allocation, period, initial_observer_state(vehicle)
    )


def stick_limits(vehicle: Vehicle, allocation: Allocation) -> StickLimits:
    """30°, 200°/s, 20 arm lengths per second within 1.5 and 5 m/s, and 85 % of the thrust, which leaves a control margin."""
    speed = min(5.0, max(1.5, 20.0 * outer_frame_radius(vehicle)))
    thrust_to_weight = float(allocation.thrust_range.high) / float(vehicle.mass * vehicle["gravity"].acceleration)
    max_thrust = max(1.1, min(2.0, 0.85 * thrust_to_weight))
    return StickLimits(Vec3(3.5, 3.5, 2.0), math.radians(30.0), speed, 0.5 * speed, 0.1, max_thrust)


# The three modes ---------------------------------------------------------------------------------------------------

_ModeOutput = tuple[ThrustAndTorque, PilotState, Vec3]


def _weight(vehicle: Vehicle) -> Scalar:
    return vehicle.mass * vehicle["gravity"].acceleration


def thrust_fraction(throttle: Scalar, limits: StickLimits) -> Scalar:
    """Return thrust over weight: 1 at the centre of the stick, minimum and maximum at its ends."""
    return 1.0 + throttle * where(throttle > 0.0, limits.max_thrust - 1.0, 1.0 - limits.min_thrust)


def _rate(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotState) -> _ModeOutput:
    """ω̇ = 2 ω_n (ω_d − ω),  T = fraction · m g"""
    max_rate = pilot.limits.rate
    omega_B = Vec3(sticks.roll * max_rate.x, sticks.pitch * max_rate.y, -sticks.yaw * max_rate.z)
    error = AttitudeTrackingError(ZERO, state.omega_B - omega_B, omega_B, ZERO)
    tau_B = required_torque(
        state.omega_B, desired_angular_acceleration(error, pilot.gains), inertia_B=vehicle.inertia_B
    )
    collective_thrust = thrust_fraction(sticks.throttle, pilot.limits) * _weight(vehicle)
    next_state = pilot_state._replace(p_W=state.p_W, v_W=state.v_W, yaw=euler_from_quat(state.q_WB).yaw)
    return ThrustAndTorque(collective_thrust, tau_B), next_state, ZERO


def _angle(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotState) -> _ModeOutput:
    """f/m = fraction · g (tan(tilt) · sticks forward and right, 1)"""
    heading, yaw, rate = _advance_heading(pilot, state, sticks, pilot_state)
    vertical = thrust_fraction(sticks.throttle, pilot.limits) * vehicle["gravity"].acceleration
    horizontal = vertical * math.tan(pilot.limits.tilt)
    horizontal_W = _heading_vector(sticks.pitch * horizontal, sticks.roll * horizontal, heading)
    acceleration_W = Vec3(horizontal_W.x, horizontal_W.y, vertical) - hover_side_acceleration(
        state, vehicle, pilot.allocation
    )
    desired = _desired_wrench(acceleration_W, pilot, state, Reference(state.p_W, yaw=yaw, yaw_rate=rate), vehicle)
    return desired, pilot_state._replace(p_W=state.p_W, v_W=state.v_W, yaw=yaw), ZERO


def _hold(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotState) -> _ModeOutput:
    """v ← v + (v_d − v) dt/T,  p ← p + v dt near the vehicle, tracked with integral action;  T = 2/ω of that loop"""
    limits, dt, time_constant = pilot.limits, pilot.period, VELOCITY_SMOOTHING / pilot.gains.position
    heading, yaw, rate = _advance_heading(pilot, state, sticks, pilot_state)
    level_W = _heading_vector(sticks.pitch * limits.speed, sticks.roll * limits.speed, heading)
    a_W = (Vec3(level_W.x, level_W.y, sticks.throttle * limits.climb) - pilot_state.v_W) / time_constant
    v_W = pilot_state.v_W + a_W * dt
    offset_W = pilot_state.p_W + v_W * dt - state.p_W
    max_distance = MAX_HOLD_DISTANCE_TIME * limits.speed
    p_W = state.p_W + offset_W * (max_distance / maximum(norm(offset_W), max_distance))
    reference = Reference(p_W, v_W, a_W, yaw=yaw, yaw_rate=rate)
    integral_W, _ = split_state(pilot_state.controller_state)
    flight_limits = FlightLimits(speed=2.0 * limits.speed)
    acceleration_W, integral_W = desired_acceleration(
        state, reference, vehicle, integral_W, pilot.gains, flight_limits, pilot.allocation, dt
    )
    return (
        _desired_wrench(acceleration_W, pilot, state, reference, vehicle),
        pilot_state._replace(p_W=p_W, v_W=v_W, yaw=yaw),
        integral_W,
    )


_MODES: dict[str, Callable[..., _ModeOutput]] = {"rate": _rate, "angle": _angle, "hold": _hold}


def _desired_wrench(
    acceleration_W: Vec3, pilot: StickPilot, state: State, reference: Reference, vehicle: Vehicle
) -> ThrustAndTorque:
    return ThrustAndTorque(
        *geometric_wrench(acceleration_W, state, reference, vehicle, pilot.gains, pilot.allocation.controls_yaw)
    )


def _advance_heading(
    pilot: StickPilot, state: State, sticks: Sticks, pilot_state: PilotState
) -> tuple[Scalar, Scalar, Scalar]:
    """Return the heading, the held heading ψ ← ψ + r dt within `MAX_HEADING_LEAD` of it, and r; the held heading does
    not run away if the rotors cannot yaw."""
    heading, rate = euler_from_quat(state.q_WB).yaw, -sticks.yaw * pilot.limits.rate.z
    yaw_lead = clamp(wrap_angle(pilot_state.yaw + rate * pilot.period - heading), -MAX_HEADING_LEAD, MAX_HEADING_LEAD)
    return heading, heading + yaw_lead, rate


def _heading_vector(forward: Scalar, right: Scalar, yaw: Scalar) -> Vec3:
    """Return the world vector of a forward and a right component relative to the heading."""
    return Vec3(forward * cos(yaw) + right * sin(yaw), forward * sin(yaw) - right * cos(yaw), 0.0)
