"""From what is wanted to the rotors: Samara's geometric loops stand where the firmware's controller would.

place: f/m = steered_pull(…);   attitude: f/m = b₃(roll, pitch, ψ) times the thrust asked for, or what holds a height;
rates: ω̇ = 2 ω_n (ω_d − ω)
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.compiler.compiled_step import CompiledStep
from samara.control.allocation import allocation_for, rotor_thrusts
from samara.control.default_gains import OTHER_LAGS, Gains, gains_for
from samara.control.disturbance_torque import Turned, joined, led, motor_lag, nothing_seen, opposed, parted, seen
from samara.control.geometric import DEFAULT_LIMITS, Deviation, drag_at, geometric_wrench, steered_pull, wanted_turn
from samara.core.algebra import UP, ZERO, Vec3, quat_from_euler, rotate
from samara.core.ops import clamp, maximum, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.physics.motion.body import required_torque
from samara.physics.multirotor import at_rest, wrench_of_rotors
from samara.physics.types import Reference, State, Vehicle
from samara.vehicles.exchange.throttle import full_thrust

LEFT = 0.25  # of the lag: what the model may be wrong by


def state_ahead(state: State, vehicle: Vehicle, turned: Turned | None) -> State:
    """p + T v, v + T v̇, q ⊗ exp(T ω), ω + T ω̇, by the model of rotors and air; the state itself where nobody looks"""
    if turned is None:
        return state
    lag, g = motor_lag(vehicle), vehicle["gravity"].acceleration
    f_W = rotate(state.q_WB, wrench_of_rotors(state, vehicle).f_B) + drag_at(state.v_W, state, vehicle)
    a_W = f_W / vehicle.mass - Vec3(0.0, 0.0, g)
    return led(state, vehicle, turned)._replace(p_W=state.p_W + state.v_W * lag, v_W=state.v_W + a_W * lag)


def reference_ahead(there: Reference, vehicle: Vehicle, turned: Turned | None) -> Reference:
    """The same of what is wanted: p + T v, v + T a, a + T j, j + T s, ψ + T ψ̇, ψ̇ + T ψ̈"""
    if turned is None:
        return there
    lag = motor_lag(vehicle)
    return there._replace(
        p_W=there.p_W + there.v_W * lag,
        v_W=there.v_W + there.a_W * lag,
        a_W=there.a_W + there.j_W * lag,
        j_W=there.j_W + there.s_W * lag,
        yaw=there.yaw + there.yaw_rate * lag,
        yaw_rate=there.yaw_rate + there.yaw_acceleration * lag,
    )


def gains_ahead(gains: Gains, vehicle: Vehicle) -> Gains:
    """As fast as what is left of the lag allows; about z as before"""
    lag = motor_lag(vehicle)
    faster = (lag + OTHER_LAGS) / (LEFT * lag + OTHER_LAGS)
    x, y, z = gains.attitude
    return Gains(gains.position * faster, Vec3(x * faster, y * faster, z))


OFF, PLACE, ATTITUDE, ATTITUDE_AT_HEIGHT, RATES = range(5)
STEEPEST = 0.5  # cosine of the lean beyond which a height is not made up for


class Wanted(NamedTuple):
    """What is to come about, by `mode`: a place, or an attitude [rad] or rates [rad/s] with a share of the full thrust."""

    mode: int
    reference: Reference
    roll: float = 0.0
    pitch: float = 0.0
    thrust: float = 0.0
    omega_B: Vec3 = ZERO


class Pilot:
    """`outputs(state, wanted)`: of each rotor, 0 … 1, thrust linear in it; called every `period` [s]."""

    def __init__(self, vehicle: Vehicle, hover: float, period: float) -> None:
        self._count, self._machine = len(vehicle.rotors), _code(vehicle, hover, period).machine()
        self._rest, self._still = at_rest(vehicle), [0.0] * len(vehicle.rotors)

    def outputs(self, state: State, wanted: Wanted) -> Sequence[float]:
        """The rotors' outputs, of a state with their speeds; with the motors off, what was learnt of the wind is forgotten"""
        if wanted.mode == OFF:
            self._machine.carry[:, 0] = 0.0
            return self._still
        self._machine.held[:, 0] = flatten((state._replace(effects=self._rest.effects), wanted))
        self._machine.run()
        asked: list[float] = self._machine.carry[: self._count, 0].tolist()
        return asked


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle, hover: float, period: float) -> CompiledStep:
    """(outputs, balance of a steady push) from (state, wanted), as machine code"""
    allocation, full, unseen = allocation_for(vehicle), full_thrust(vehicle, hover), nothing_seen(vehicle)
    gains = gains_for(vehicle, lead=0.0)
    if unseen is not None:
        gains = gains_ahead(gains, vehicle)
    lifted = full * len(vehicle.rotors)

    def body(own: Scalar, held: Scalar) -> Scalar:
        (_, memory), (state, wanted) = own, held
        balance_W, before = parted(memory)
        turned = seen(state, vehicle, before, period)
        ahead = state_ahead(state, vehicle, turned)
        there = reference_ahead(wanted.reference, vehicle, turned)
        placed_W, balance_W = steered_pull(ahead, there, vehicle, balance_W, gains, DEFAULT_LIMITS, allocation, period)
        up_W = rotate(quat_from_euler(wanted.roll, wanted.pitch, there.yaw), UP)
        asked = wanted.thrust * lifted
        pull = where(wanted.mode == ATTITUDE_AT_HEIGHT, placed_W.z / maximum(up_W.z, STEEPEST), asked / vehicle.mass)
        pull_W = Vec3(*(where(wanted.mode == PLACE, p, u * pull) for p, u in zip(placed_W, up_W, strict=True)))
        lift, tau_B = geometric_wrench(pull_W, ahead, there, vehicle, gains, allocation.keeps_yaw)
        off = Deviation(ZERO, ahead.omega_B - wanted.omega_B, wanted.omega_B, ZERO)
        turning_B = required_torque(ahead.omega_B, wanted_turn(off, gains), inertia_B=vehicle.inertia_B)
        rates = wanted.mode == RATES
        given_B = Vec3(*(where(rates, a, b) for a, b in zip(turning_B, tau_B, strict=True)))
        lift = where(rates, asked, lift)
        thrusts = rotor_thrusts(lift, opposed(lift, given_B, state, vehicle, turned), allocation)
        return tuple(clamp(thrust / full, 0.0, 1.0) for thrust in thrusts), joined(balance_W, turned)

    still = tuple(0.0 for _ in vehicle.rotors)
    memory = joined(ZERO, unseen)
    return CompiledStep(body, (still, memory), (at_rest(vehicle), Wanted(PLACE, Reference(ZERO))))
