"""What a pilot's sticks ask for: a rate of turn, an angle, or a velocity with a place to hold when they are let go.

    ω_d = rates · sticks;   tan of the lean = tan(tilt) · sticks;   v_d = speed · sticks along and across the nose

Each is answered by the loops of `samara.control.geometric`, from the outermost that is needed inwards. What the rotors are to
give, and how they share it, are two functions: a motor that has failed changes the second alone.
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
SMOOTH = 2.0  # over ω of the position loop: how soon the velocity held follows the sticks
LEASH = 0.4  # [s]: a place that is held is never farther away than the top speed goes in this time
AHEAD = 0.5  # [rad]: the heading that is held is never farther from the nose


class Sticks(NamedTuple):
    """From −1 to 1: right, forward, clockwise seen from above, up"""

    roll: Scalar
    pitch: Scalar
    yaw: Scalar
    throttle: Scalar


class StickLimits(NamedTuple):
    """What a stick at its end asks for  [rad/s, rad, m/s, m/s, of the weight, of the weight]"""

    rate: Vec3
    tilt: float
    speed: float
    climb: float
    least_lift: float
    most_lift: float


class PilotMemory(NamedTuple):
    """The balance of a steady push and what turns the body, the place and velocity held [m, m/s], and the heading [rad]"""

    control: Any
    p_W: Vec3
    v_W: Vec3
    yaw: Scalar


class Asked(NamedTuple):
    """What the rotors are to give: lift along body z [N] and torque [N·m]"""

    lift: Scalar
    tau_B: Vec3


@dataclass(frozen=True)
class StickPilot:
    """`asked(state, sticks, vehicle, memory) → lift and torque, memory`, every `period`, from `initial_memory(state)`"""

    mode: str
    gains: Gains
    limits: StickLimits
    allocation: Allocation
    period: float
    unseen: Turned | None

    def initial_memory(self, state: State) -> PilotMemory:
        """Hold what there is"""
        return PilotMemory(joined(ZERO, self.unseen), state.p_W, state.v_W, euler_from_quat(state.q_WB).yaw)

    def asked(self, state: State, sticks: Sticks, vehicle: Vehicle, memory: PilotMemory) -> tuple[Asked, PilotMemory]:
        """What the rotors are to give for these sticks"""
        _, before = parted(memory.control)
        wanted, held, balance_W = _MODES[self.mode](self, state, sticks, vehicle, memory)
        turned = seen(state, vehicle, before, self.period)
        tau_B = opposed(wanted.lift, wanted.tau_B, state, vehicle, turned)
        return Asked(wanted.lift, tau_B), held._replace(control=joined(balance_W, turned))

    def command(self, asked: Asked, state: State, vehicle: Vehicle) -> Command:
        """The command that gives it, by all rotors"""
        return command_for_wrench(asked.lift, asked.tau_B, state, vehicle, self.allocation)


def stick_pilot(
    vehicle: Vehicle, mode: str = "hold", limits: StickLimits | None = None, period: float = 4e-3
) -> StickPilot:
    """A pilot for a vehicle in one of the `MODES`, called every `period` [s]"""
    if mode not in MODES:
        raise ValueError(f"mode {mode!r}: expected one of {', '.join(MODES)}")
    if not 0.0 < period < math.inf:
        raise ValueError(f"period = {period} s: expected a positive number")
    allocation = allocation_for(vehicle)
    own = limits or stick_limits(vehicle, allocation)
    return StickPilot(mode, gains_for(vehicle, lead=0.0), own, allocation, period, nothing_seen(vehicle))


def stick_limits(vehicle: Vehicle, allocation: Allocation) -> StickLimits:
    """30°, 200°/s, and 20 lengths of an arm a second within 1.5 and 5 m/s; as much lift as is left to steer with"""
    speed = min(5.0, max(1.5, 20.0 * reach_of(vehicle)))
    spare = float(allocation.lift.high) / float(vehicle.mass * vehicle["gravity"].acceleration)
    most = max(1.1, min(2.0, 0.85 * spare))
    return StickLimits(Vec3(3.5, 3.5, 2.0), math.radians(30.0), speed, 0.5 * speed, 0.1, most)


# The three modes ---------------------------------------------------------------------------------------------------

_Answer = tuple[Asked, PilotMemory, Vec3]


def _weight(vehicle: Vehicle) -> Scalar:
    return vehicle.mass * vehicle["gravity"].acceleration


def lift_share(throttle: Scalar, limits: StickLimits) -> Scalar:
    """1 with the stick in its middle, and at its ends the least and the most lift, of the weight"""
    return 1.0 + throttle * where(throttle > 0.0, limits.most_lift - 1.0, 1.0 - limits.least_lift)


def _rate(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, memory: PilotMemory) -> _Answer:
    """ω̇ = 2 ω_n (ω_d − ω),  T = share · m g"""
    most = pilot.limits.rate
    omega_B = Vec3(sticks.roll * most.x, sticks.pitch * most.y, -sticks.yaw * most.z)
    off = Deviation(ZERO, state.omega_B - omega_B, omega_B, ZERO)
    tau_B = required_torque(state.omega_B, wanted_turn(off, pilot.gains), inertia_B=vehicle.inertia_B)
    lift = lift_share(sticks.throttle, pilot.limits) * _weight(vehicle)
    here = memory._replace(p_W=state.p_W, v_W=state.v_W, yaw=euler_from_quat(state.q_WB).yaw)
    return Asked(lift, tau_B), here, ZERO


def _angle(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, memory: PilotMemory) -> _Answer:
    """f/m = share · g (tan(tilt) · sticks ahead and aside, 1)"""
    nose, yaw, rate = _turned_heading(pilot, state, sticks, memory)
    up = lift_share(sticks.throttle, pilot.limits) * vehicle["gravity"].acceleration
    lean = up * math.tan(pilot.limits.tilt)
    aside_W = _ahead_and_aside(sticks.pitch * lean, sticks.roll * lean, nose)
    pull_W = Vec3(aside_W.x, aside_W.y, up) - side_pull(state, vehicle, pilot.allocation)
    wanted = _along(pull_W, pilot, state, Reference(state.p_W, yaw=yaw, yaw_rate=rate), vehicle)
    return wanted, memory._replace(p_W=state.p_W, v_W=state.v_W, yaw=yaw), ZERO


def _hold(pilot: StickPilot, state: State, sticks: Sticks, vehicle: Vehicle, memory: PilotMemory) -> _Answer:
    """v ← v + (v_d − v) dt/T,  p ← p + v dt, on a leash: flown to with integral action;  T = 2/ω of that loop"""
    limits, dt, soon = pilot.limits, pilot.period, SMOOTH / pilot.gains.position
    nose, yaw, rate = _turned_heading(pilot, state, sticks, memory)
    level_W = _ahead_and_aside(sticks.pitch * limits.speed, sticks.roll * limits.speed, nose)
    a_W = (Vec3(level_W.x, level_W.y, sticks.throttle * limits.climb) - memory.v_W) / soon
    v_W = memory.v_W + a_W * dt
    away = memory.p_W + v_W * dt - state.p_W
    leash = LEASH * limits.speed
    p_W = state.p_W + away * (leash / maximum(norm(away), leash))
    there = Reference(p_W, v_W, a_W, yaw=yaw, yaw_rate=rate)
    balance_W, _ = parted(memory.control)
    flight = FlightLimits(speed=2.0 * limits.speed)
    pull_W, balance_W = steered_pull(state, there, vehicle, balance_W, pilot.gains, flight, pilot.allocation, dt)
    return _along(pull_W, pilot, state, there, vehicle), memory._replace(p_W=p_W, v_W=v_W, yaw=yaw), balance_W


_MODES: dict[str, Callable[..., _Answer]] = {"rate": _rate, "angle": _angle, "hold": _hold}


def _along(pull_W: Vec3, pilot: StickPilot, state: State, there: Reference, vehicle: Vehicle) -> Asked:
    return Asked(*geometric_wrench(pull_W, state, there, vehicle, pilot.gains, pilot.allocation.keeps_yaw))


def _turned_heading(
    pilot: StickPilot, state: State, sticks: Sticks, memory: PilotMemory
) -> tuple[Scalar, Scalar, Scalar]:
    """Where the nose is, ψ ← ψ + r dt on a leash to it, and r: rotors that cannot turn the body are not waited for"""
    nose, rate = euler_from_quat(state.q_WB).yaw, -sticks.yaw * pilot.limits.rate.z
    ahead = clamp(wrap_angle(memory.yaw + rate * pilot.period - nose), -AHEAD, AHEAD)
    return nose, nose + ahead, rate


def _ahead_and_aside(ahead: Scalar, right: Scalar, yaw: Scalar) -> Vec3:
    """A vector along the heading and to its right, in the world"""
    return Vec3(ahead * cos(yaw) + right * sin(yaw), ahead * sin(yaw) - right * cos(yaw), 0.0)
