"""What a policy sees of a drone: scalars, each about 1 in size in ordinary flight, relative to what it is asked.

Position and velocity are errors in the axes of the reference's heading, and so is the attitude: a policy trained to come to
rest at the origin, facing east, holds any place and heading and follows what moves.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.control.depth_observation import BLOCKS
from samara.control.gate_observation import AHEAD
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat, rotate_inverse
from samara.core.ops import clamp, cos, sin
from samara.core.quantity import Scalar
from samara.physics.types import Reference, State

RATE = 5.0  # [rad/s]: an ordinary turn


ACCELERATION, JERK = 5.0, 25.0  # [m/s², m/s³]: of an ordinary path


class Seen(NamedTuple):
    """A state relative to the reference, the last action in [−1, 1], the rotor speeds of hover [rad/s], and the acceleration
    and the jerk of the reference in the axes of its heading; and what is seen ahead, in a race
    (`samara.control.gate_observation.sight`) or by a camera (`samara.control.depth_observation.nearness`)."""

    state: State
    action: tuple[Scalar, ...]
    hover_speed: tuple[Scalar, ...]
    a_R: Vec3 = ZERO
    j_R: Vec3 = ZERO
    ahead: tuple[Scalar, ...] = ()


class Bounds(NamedTuple):
    """The largest errors that are seen along each axis  [m, m/s]: what is beyond the range of the training is clipped."""

    position: float
    velocity: float


def seen(
    state: State,
    reference: Reference,
    action: tuple[Scalar, ...],
    hover_speed: tuple[Scalar, ...],
    bounds: Bounds | None = None,
) -> Seen:
    """What there is to see of a state under a reference"""
    q_WR = heading(reference)
    turned = (rotate_inverse(q_WR, own) for own in (reference.a_W, reference.j_W))
    return Seen(relative(state, reference, bounds), action, hover_speed, *turned)


def heading(reference: Reference) -> Quat:
    """q_z(ψ), from the axes of the reference's heading to the world's"""
    half = 0.5 * reference.yaw
    return Quat(cos(half), 0.0, 0.0, sin(half))


def relative(state: State, reference: Reference, bounds: Bounds | None = None) -> State:
    """p = R_z(ψ)ᵀ(p_W − p_ref), v = R_z(ψ)ᵀ(v_W − v_ref), q = q_z(ψ)* q_WB: as the reference sees it"""
    q_WR = heading(reference)
    p_R = rotate_inverse(q_WR, state.p_W - reference.p_W)
    v_R = rotate_inverse(q_WR, state.v_W - reference.v_W)
    if bounds is not None:
        p_R = Vec3(*(clamp(x, -bounds.position, bounds.position) for x in p_R))
        v_R = Vec3(*(clamp(x, -bounds.velocity, bounds.velocity) for x in v_R))
    return state._replace(p_W=p_R, v_W=v_R, q_WB=Quat(q_WR.w, 0.0, 0.0, -q_WR.z) * state.q_WB)


def full_state(seen: Seen) -> tuple[Scalar, ...]:
    """p, v, R by rows, ω / 5 rad/s, and Ω/Ω₀ − 1 of every rotor: 18 numbers and one for each rotor  [m, m/s]"""
    own = seen.state
    speeds = (speed / still - 1.0 for speed, still in zip(own.rotor_speed, seen.hover_speed, strict=True))
    return (*own.p_W, *own.v_W, *matrix_from_quat(own.q_WB), *(own.omega_B * (1.0 / RATE)), *speeds)


def tracking(seen: Seen) -> tuple[Scalar, ...]:
    """The full state, and a / 5 m/s² and j / 25 m/s³ of the reference: where it goes, for one that follows what moves"""
    return (*full_state(seen), *(seen.a_R * (1.0 / ACCELERATION)), *(seen.j_R * (1.0 / JERK)))


def state_error(seen: Seen) -> tuple[Scalar, ...]:
    """p, R by rows, v and ω relative to the reference: 18 numbers  [m, m/s, rad/s]"""
    state = seen.state
    return (*state.p_W, *matrix_from_quat(state.q_WB), *state.v_W, *state.omega_B)


def raptor(seen: Seen) -> tuple[Scalar, ...]:
    """The state error and the last action: the 18 numbers, and one for each rotor, that RAPTOR sees"""
    return (*state_error(seen), *seen.action)


def px4_nn(seen: Seen) -> tuple[Scalar, ...]:
    """−p, the first two rows of R, v and ω: the 15 numbers that PX4's mc_nn_control shows its network  [m, m/s, rad/s]"""
    own = seen.state
    return (*(own.p_W * -1.0), *matrix_from_quat(own.q_WB)[:6], *own.v_W, *own.omega_B)


def race(seen: Seen) -> tuple[Scalar, ...]:
    """The full state, relative to rest in the middle of the next gate, and what is seen ahead: 28 and one for each rotor"""
    return (*full_state(seen), *seen.ahead)


def depth(seen: Seen) -> tuple[Scalar, ...]:
    """p, v, R by rows, ω / 5 rad/s, and the 96 blocks of a depth picture (`samara.control.depth_observation`)  [m, m/s, 1/m]"""
    own = seen.state
    return (*own.p_W, *own.v_W, *matrix_from_quat(own.q_WB), *(own.omega_B * (1.0 / RATE)), *seen.ahead)


class Observation(NamedTuple):
    """How many numbers there are for a vehicle of so many rotors and a policy of so many actions, and what they are."""

    size: Callable[[int, int], int]
    of: Callable[[Seen], tuple[Scalar, ...]]


OBSERVATIONS: dict[str, Observation] = {
    "full_state": Observation(lambda rotors, actions: 18 + rotors, full_state),
    "tracking": Observation(lambda rotors, actions: 24 + rotors, tracking),
    "state_error": Observation(lambda rotors, actions: 18, state_error),
    "raptor": Observation(lambda rotors, actions: 18 + actions, raptor),
    "px4_nn": Observation(lambda rotors, actions: 15, px4_nn),
    "race": Observation(lambda rotors, actions: 18 + AHEAD + rotors, race),
    "depth": Observation(lambda rotors, actions: 18 + BLOCKS, depth),
}


def in_order(numbers: Sequence[Scalar], order: Sequence[int]) -> tuple[Scalar, ...]:
    """numbers[order[0]], numbers[order[1]], …; as they are where there is no order"""
    return tuple(numbers[k] for k in order) if order else tuple(numbers)
