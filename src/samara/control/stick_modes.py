"""Pilot control by sticks: they command angular rates, angles, or a velocity with position hold when they are centred.

    ω_d = rates · sticks;   tan of the tilt = tan(tilt limit) · sticks;   v_d = speed · sticks along and across the nose

Each mode uses the loops of `samara.control.geometric`, from the outermost that it needs inwards. The desired wrench and its
allocation to the rotors are two functions: a failed motor changes only the second.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.control.allocation import Allocation, allocation_for, command_for_wrench, side_pull
from samara.control.default_gains import Gains, gains_for
from samara.control.disturbance_torque import Turned, joined, nothing_seen, opposed, parted, seen
from samara.control.geometric import Deviation, FlightLimits, geometric_wrench, steered_pull, wanted_turn
from samara.core.algebra import ZERO, Vec3, euler_from_quat, norm
from samara.core.ops import clamp, cos, maximum, sin, where, wrap_angle
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.shape import reach_of

MODES = ("rate", "angle", "hold")
SMOOTH = 2.0  # time constant of the held velocity, times ω of the position loop
LEASH = 0.4  # [s]: the held position is at most as far away as the top speed goes in this time
AHEAD = 0.5  # [rad]: maximum angle between the held heading and the nose


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
    least_lift: float
    most_lift: float


class PilotMemory(NamedTuple):
    """State of the position controller and observer, held position and velocity [m, m/s], and held heading [rad]."""

    control: Any
    p_W: Vec3
    v_W: Vec3
    yaw: Scalar


class Asked(NamedTuple):
    """Desired collective thrust along body z [N] and torque [N·m]."""

    lift: Scalar
    tau_B: Vec3


@dataclass(frozen=True)
class StickPilot:
    """Pilot that maps sticks to thrust and torque with `asked`, every `period` [s], from `initial_memory(state)`."""

    mode: str
    gains: Gains
    limits: StickLimits
    allocation: Allocation
    period: float
    unseen: Turned | None

    def initial_memory(self, state: State) -> PilotMemory:
        """Return the state that holds the present position, velocity and heading."""
        return PilotMemory(joined(ZERO, self.unseen), state.p_W, state.v_W, euler_from_quat(state.q_WB).yaw)

    def asked(
        self, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotMemory
    ) -> tuple[Asked, PilotMemory]:
        """Compute the desired thrust and torque.

        Args:
            state: estimated state of the vehicle.
            sticks: deflections of the sticks.
            vehicle: model of the vehicle.
            pilot_state: the state that the previous call returned; `initial_memory(state)` at the first call.
        """
        _, previous_observer = parted(pilot_state.control)
        desired, next_state, integral_W = _MODES[self.mode](self, state, sticks, vehicle, pilot_state)
        observer = seen(state, vehicle, previous_observer, self.period)
        tau_B = opposed(desired.lift, desired.tau_B, state, vehicle, observer)
        return Asked(desired.lift, tau_B), next_state._replace(control=joined(integral_W, observer))

    def command(self, desired: Asked, state: State, vehicle: Vehicle) -> Command:
        """Allocate thrust and torque to all rotors."""
        return command_for_wrench(desired.lift, desired.tau_B, state, vehicle, self.allocation)


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
    allocation = allocation_for(vehicle)
    limits_used = limits or stick_limits(vehicle, allocation)
    return StickPilot(mode, gains_for(vehicle, lead=0.0), limits_used, allocation, period, nothing_seen(vehicle))


def stick_limits(vehicle: Vehicle, allocation: Allocation) -> StickLimits:
    """30°, 200°/s, 20 arm lengths per second within 1.5 and 5 m/s, and 85 % of the thrust, which leaves a control margin."""
    speed = min(5.0, max(1.5, 20.0 * reach_of(vehicle)))
    thrust_to_weight = float(allocation.lift.high) / float(vehicle.mass * vehicle["gravity"].acceleration)
    max_thrust = max(1.1, min(2.0, 0.85 * thrust_to_weight))
    return StickLimits(Vec3(3.5, 3.5, 2.0), math.radians(30.0), speed, 0.5 * speed, 0.1, max_thrust)


# The three modes ---------------------------------------------------------------------------------------------------

_ModeOutput = tuple[Asked, PilotMemory, Vec3]


def _weight(vehicle: Vehicle) -> Scalar:
    return vehicle.mass * vehicle["gravity"].acceleration


def lift_share(throttle: Scalar, limits: StickLimits) -> Scalar:
    """Return thrust over weight: 1 at the centre of the stick, minimum and maximum at its ends."""
    return 1.0 + throttle * where(throttle > 0.0, limits.most_lift - 1.0, 1.0 - limits.least_lift)


def _rate(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotMemory) -> _ModeOutput:
    """ω̇ = 2 ω_n (ω_d − ω),  T = fraction · m g"""
    max_rate = pilot.limits.rate
    omega_B = Vec3(sticks.roll * max_rate.x, sticks.pitch * max_rate.y, -sticks.yaw * max_rate.z)
    error = Deviation(ZERO, state.omega_B - omega_B, omega_B, ZERO)
    tau_B = required_torque(state.omega_B, wanted_turn(error, pilot.gains), inertia_B=vehicle.inertia_B)
    collective_thrust = lift_share(sticks.throttle, pilot.limits) * _weight(vehicle)
    next_state = pilot_state._replace(p_W=state.p_W, v_W=state.v_W, yaw=euler_from_quat(state.q_WB).yaw)
    return Asked(collective_thrust, tau_B), next_state, ZERO


def _angle(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotMemory) -> _ModeOutput:
    """f/m = fraction · g (tan(tilt) · sticks forward and right, 1)"""
    heading, yaw, rate = _advance_heading(pilot, state, sticks, pilot_state)
    vertical = lift_share(sticks.throttle, pilot.limits) * vehicle["gravity"].acceleration
    horizontal = vertical * math.tan(pilot.limits.tilt)
    horizontal_W = _heading_vector(sticks.pitch * horizontal, sticks.roll * horizontal, heading)
    acceleration_W = Vec3(horizontal_W.x, horizontal_W.y, vertical) - side_pull(state, vehicle, pilot.allocation)
    desired = _along(acceleration_W, pilot, state, Reference(state.p_W, yaw=yaw, yaw_rate=rate), vehicle)
    return desired, pilot_state._replace(p_W=state.p_W, v_W=state.v_W, yaw=yaw), ZERO


def _hold(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, pilot_state: PilotMemory) -> _ModeOutput:
    """v ← v + (v_d − v) dt/T,  p ← p + v dt near the vehicle, tracked with integral action;  T = 2/ω of that loop"""
    limits, dt, time_constant = pilot.limits, pilot.period, SMOOTH / pilot.gains.position
    heading, yaw, rate = _advance_heading(pilot, state, sticks, pilot_state)
    level_W = _heading_vector(sticks.pitch * limits.speed, sticks.roll * limits.speed, heading)
    a_W = (Vec3(level_W.x, level_W.y, sticks.throttle * limits.climb) - pilot_state.v_W) / time_constant
    v_W = pilot_state.v_W + a_W * dt
    offset_W = pilot_state.p_W + v_W * dt - state.p_W
    max_distance = LEASH * limits.speed
    p_W = state.p_W + offset_W * (max_distance / maximum(norm(offset_W), max_distance))
    reference = Reference(p_W, v_W, a_W, yaw=yaw, yaw_rate=rate)
    integral_W, _ = parted(pilot_state.control)
    flight_limits = FlightLimits(speed=2.0 * limits.speed)
    acceleration_W, integral_W = steered_pull(
        state, reference, vehicle, integral_W, pilot.gains, flight_limits, pilot.allocation, dt
    )
    return (
        _along(acceleration_W, pilot, state, reference, vehicle),
        pilot_state._replace(p_W=p_W, v_W=v_W, yaw=yaw),
        integral_W,
    )


_MODES: dict[str, Callable[..., _ModeOutput]] = {"rate": _rate, "angle": _angle, "hold": _hold}


def _along(acceleration_W: Vec3, pilot: StickPilot, state: State, reference: Reference, vehicle: Vehicle) -> Asked:
    return Asked(*geometric_wrench(acceleration_W, state, reference, vehicle, pilot.gains, pilot.allocation.keeps_yaw))


def _advance_heading(
    pilot: StickPilot, state: State, sticks: Sticks, pilot_state: PilotMemory
) -> tuple[Scalar, Scalar, Scalar]:
    """Heading, ψ ← ψ + r dt within `AHEAD` of it, and r: the held heading does not run away if the rotors cannot yaw"""
    heading, rate = euler_from_quat(state.q_WB).yaw, -sticks.yaw * pilot.limits.rate.z
    yaw_lead = clamp(wrap_angle(pilot_state.yaw + rate * pilot.period - heading), -AHEAD, AHEAD)
    return heading, heading + yaw_lead, rate


def _heading_vector(forward: Scalar, right: Scalar, yaw: Scalar) -> Vec3:
    """Return the world vector of a forward and a right component relative to the heading."""
    return Vec3(forward * cos(yaw) + right * sin(yaw), forward * sin(yaw) - right * cos(yaw), 0.0)
