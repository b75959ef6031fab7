"""The cascade of most autopilots: position P, velocity PI, attitude P, rate PID, each giving the next one its set point.

The integrals wait while what they ask for is cut off; the derivative is taken of the measured rate, never of a set point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.control.allocation import Allocation, allocation_for, command_for_wrench, side_pull
from samara.control.controller_type import LIMITS, NOT_NEGATIVE, THREE, ControllerType
from samara.control.default_gains import OTHER_LAGS, Gains, authority, gains_for, kick
from samara.control.disturbance_torque import Turned, joined, modelled_acceleration, nothing_seen, opposed, parted, seen
from samara.control.geometric import (
    DEFAULT_LIMITS,
    STRAIN,
    FlightLimits,
    chosen_limits,
    deviation,
    drag_ahead,
    leads,
    led_error,
    lift_along,
    limited_error,
    limited_pull,
    require_memory,
    require_plausible,
    with_drag,
)
from samara.core.algebra import ZERO, Vec3, norm, scale
from samara.core.ops import clamp, logical_or, where
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import Command, Reference, State, Vehicle

_PATIENCE = 0.3  # k_i = 0.3 ω²: with ω/2 and 2ω around it the zero at −0.15 ω meets a pole at −0.146 ω
_AGAINST_LAG = 0.5  # of ω̇: below 1 the derivative's own loop, through any lag and filter, has gain below 1
_HARD_KICK = 3.0  # κ of rotors whose spinning up turns the body so much harder than their drag that ω̇ answers itself
_LARGEST_TRIM = 0.5  # of the authority: what the rates' integral may ask for


class PidGains(NamedTuple):
    """What each loop gives for one unit of its error, and how fast its integral grows  [1/s, 1/s²]"""

    position: Scalar
    velocity: Scalar
    velocity_integral: Scalar
    attitude: Vec3
    rate: Vec3
    rate_integral: Vec3
    rate_derivative: Scalar
    trim: Vec3
    lead: Scalar = 0.0


class PidMemory(NamedTuple):
    """The two integrals [m/s², rad/s²], the last ω [rad/s], and ω̇ as it was last seen, filtered  [rad/s²]"""

    balance_W: Vec3
    trim_B: Vec3
    omega_B: Vec3
    alpha_B: Vec3


@dataclass(frozen=True)
class Pid:
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`

    It is a `PidMemory`; for a vehicle that the air turns, that and what is seen of the turn.
    """

    gains: PidGains
    limits: FlightLimits
    allocation: Allocation
    period: float
    unseen: Turned | None

    @property
    def initial_memory(self) -> Any:
        return joined(PidMemory(ZERO, ZERO, ZERO, ZERO), self.unseen)

    def __call__(self, state: State, reference: Reference, vehicle: Vehicle, memory: Any) -> tuple[Command, Any]:
        require_memory(memory, self.initial_memory)
        memory, before = parted(memory)
        gains, dt = self.gains, self.period
        pull_W, balance_W = velocity_loop(
            state, reference, vehicle, memory.balance_W, gains, self.limits, self.allocation, dt
        )
        turned = seen(state, vehicle, before, dt)
        error = deviation(pull_W, state, with_drag(reference, state, vehicle), self.allocation.keeps_yaw)
        if leads(gains):
            error = led_error(error, modelled_acceleration(state, vehicle, turned), gains)
        alpha_B = memory.alpha_B + ((state.omega_B - memory.omega_B) / dt - memory.alpha_B) * (dt / (OTHER_LAGS + dt))
        e_rate = -(scale(gains.attitude, error.e_R) + error.e_omega)
        wanted = error.alpha_B + scale(gains.rate, e_rate) + memory.trim_B - alpha_B * gains.rate_derivative
        tau_B = required_torque(state.omega_B, wanted, inertia_B=vehicle.inertia_B)
        lift = lift_along(pull_W, state, vehicle)
        given_B = opposed(lift, tau_B, state, vehicle, turned)
        command = command_for_wrench(lift, given_B, state, vehicle, self.allocation)
        trim_B = next_trim(memory.trim_B, e_rate, tau_B, gains, self.allocation, dt)
        return command, joined(PidMemory(balance_W, trim_B, state.omega_B, alpha_B), turned)


def pid(
    vehicle: Vehicle,
    gains: PidGains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    period: float = 4e-3,
) -> Pid:
    """The cascade for a vehicle, called every `period` [s]; `healthy` says which rotors still work"""
    require_plausible(period, limits)
    own = gains or pid_gains(vehicle)
    return Pid(own, limits, allocation_for(vehicle, healthy), period, nothing_seen(vehicle))


def pid_gains(vehicle: Vehicle, loops: Gains | None = None) -> PidGains:
    """k_p = ω/2, k_v = 2ω, k_i = 0.3 ω²: s³ + 2ω s² + 1.3 ω² s + 0.15 ω³, its poles −0.146 ω and (−0.93 ± 0.41i) ω

    The same for attitude and rate, all of it 1 + k_d times as strong, as −k_d ω̇ makes the body so much more inert. Beyond a
    kick κ of 3 k_d falls with κ²: its own loop would cross at k_d κ / 10 ms, later than one that is sampled can follow.
    """
    w, attitude, lead = loops or gains_for(vehicle)
    against, kicks = _AGAINST_LAG, kick(vehicle)
    if kicks > _HARD_KICK:
        against = _AGAINST_LAG * (_HARD_KICK / kicks) ** 2
    stronger = 1.0 + against
    strength = authority(vehicle)
    return PidGains(
        position=0.5 * w,
        velocity=2.0 * w,
        velocity_integral=_PATIENCE * w * w,
        attitude=attitude * 0.5,
        rate=attitude * (2.0 * stronger),
        rate_integral=scale(attitude, attitude) * (_PATIENCE * stronger),
        rate_derivative=against,
        trim=Vec3(*(min(_LARGEST_TRIM * each, 1e3) for each in strength)),
        lead=lead,
    )


def velocity_loop(
    state: State,
    reference: Reference,
    vehicle: Vehicle,
    balance_W: Vec3,
    gains: PidGains,
    limits: FlightLimits,
    allocation: Allocation,
    period: float,
) -> tuple[Vec3, Vec3]:
    """f/m = g e₃ + a_d − d(v_d)/m + k_v e_v + b,  e_v = v_d − k_p e_p − v  [m/s²]

    d(v_d) is the drag at the velocity asked for; b ← b + k_i e_v dt within ±g, held while f is cut.
    """
    g = vehicle["gravity"].acceleration
    near = limited_error(state.p_W - reference.p_W, vehicle, allocation, Gains(gains.velocity * 0.5, ZERO), limits)
    e_v = reference.v_W - near * gains.position - state.v_W
    carried_W = reference.a_W - drag_ahead(state, reference, vehicle) / vehicle.mass
    wanted_W = carried_W + e_v * gains.velocity + balance_W + Vec3(0.0, 0.0, g)
    if allocation.side_B is not None:
        wanted_W = wanted_W - side_pull(state, vehicle, allocation)
    pull_W = limited_pull(wanted_W, vehicle, allocation, limits)
    cut = norm(wanted_W - pull_W) > STRAIN * g
    step = e_v * (gains.velocity_integral * period)
    held = (where(cut, b, clamp(b + d, -g, g)) for b, d in zip(balance_W, step, strict=True))
    return pull_W, Vec3(*held)


def next_trim(trim_B: Vec3, e_rate: Vec3, tau_B: Vec3, gains: PidGains, allocation: Allocation, period: float) -> Vec3:
    """c ← c + k_i e_ω dt, within half the authority; held while roll and pitch ask for more than the rotors give  [rad/s²]

    Where the yaw has been given up, nothing is learnt about it.
    """
    step = scale(gains.rate_integral, e_rate) * period
    cut: Scalar = False
    for x, y in allocation.reach:
        beyond = x * tau_B.x + y * tau_B.y > 1.0
        cut = beyond if cut is False else logical_or(cut, beyond)
    bounds = zip(trim_B, step, gains.trim, strict=True)
    x, y, z = (where(cut, c, clamp(c + d, -most, most)) for c, d, most in bounds)
    return Vec3(x, y, z if allocation.keeps_yaw else 0.0)


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Pid:
    limits = chosen_limits(chosen)
    return pid(vehicle, pid_gains(vehicle)._replace(**chosen), healthy, limits, period)


_VECTORS = ("attitude", "rate", "rate_integral", "trim")
TYPES = (
    ControllerType(
        "pid", _build, {**{name: THREE if name in _VECTORS else NOT_NEGATIVE for name in PidGains._fields}, **LIMITS}
    ),
)
