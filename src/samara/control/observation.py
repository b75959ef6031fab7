"""Observations of policies: scalars of magnitude 1 or so in ordinary flight, relative to the reference.

Position and velocity are errors in the axes of the reference's heading, and so is the attitude: a policy trained to come to
rest at the origin, facing east, holds any position and heading and follows a moving reference.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.control.depth_observation import BLOCKS
from samara.control.gate_observation import AHEAD
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat, rotate_inverse
from samara.core.ops import clamp, cos, sin
from samara.core.quantity import Scalar
from samara.physics.types import Reference, State

RATE = 5.0  # [rad/s]: an ordinary angular rate


ACCELERATION, JERK = 5.0, 25.0  # [m/s², m/s³]: on an ordinary path


class Seen(NamedTuple):
    """State relative to the reference, last action in [−1, 1], hover rotor speeds [rad/s], and the reference's acceleration and
    jerk in the axes of its heading; `ahead` is the observation of a race (`samara.control.gate_observation.sight`) or of a
    depth camera (`samara.control.depth_observation.nearness`)."""

    state: State
    action: tuple[Scalar, ...]
    hover_speed: tuple[Scalar, ...]
    a_R: Vec3 = ZERO
    j_R: Vec3 = ZERO
    ahead: tuple[Scalar, ...] = ()


class Bounds(NamedTuple):
    """Limits of the observed errors along each axis  [m, m/s]: the range of the training."""

    position: float
    velocity: float


def seen(
    state: State,
    reference: Reference,
    action: tuple[Scalar, ...],
    hover_speed: tuple[Scalar, ...],
    bounds: Bounds | None = None,
) -> Seen:
    """Compute the quantities that observations are made of.

    Args:
        state: estimated state of the vehicle.
        reference: desired motion.
        action: last action, in [−1, 1].
        hover_speed: rotor speeds in hover [rad/s].
        bounds: limits of the observed errors; None for no limits.
    """
    q_WR = heading(reference)
    derivatives = (rotate_inverse(q_WR, vector_W) for vector_W in (reference.a_W, reference.j_W))
    return Seen(relative(state, reference, bounds), action, hover_speed, *derivatives)


def heading(reference: Reference) -> Quat:
    """q_z(ψ), from the axes of the reference's heading to the world's"""
    half = 0.5 * reference.yaw
    return Quat(cos(half), 0.0, 0.0, sin(half))


def relative(state: State, reference: Reference, bounds: Bounds | None = None) -> State:
    """p = R_z(ψ)ᵀ(p_W − p_ref), v = R_z(ψ)ᵀ(v_W − v_ref), q = q_z(ψ)* q_WB: the state in the frame of the reference"""
    q_WR = heading(reference)
    p_R = rotate_inverse(q_WR, state.p_W - reference.p_W)
    v_R = rotate_inverse(q_WR, state.v_W - reference.v_W)
    if bounds is not None:
        p_R = Vec3(*(clamp(x, -bounds.position, bounds.position) for x in p_R))
        v_R = Vec3(*(clamp(x, -bounds.velocity, bounds.velocity) for x in v_R))
    return state._replace(p_W=p_R, v_W=v_R, q_WB=Quat(q_WR.w, 0.0, 0.0, -q_WR.z) * state.q_WB)


def full_state(observed_state: Seen) -> tuple[Scalar, ...]:
    """p, v, R by rows, ω / 5 rad/s, and Ω/Ω₀ − 1 of every rotor: 18 values and one per rotor  [m, m/s]"""
    state = observed_state.state
    speeds = (speed / hover - 1.0 for speed, hover in zip(state.rotor_speed, observed_state.hover_speed, strict=True))
    return (*state.p_W, *state.v_W, *matrix_from_quat(state.q_WB), *(state.omega_B * (1.0 / RATE)), *speeds)


def tracking(observed_state: Seen) -> tuple[Scalar, ...]:
    """The full state, and a / 5 m/s² and j / 25 m/s³ of the reference, for tracking a moving reference"""
    return (
        *full_state(observed_state),
        *(observed_state.a_R * (1.0 / ACCELERATION)),
        *(observed_state.j_R * (1.0 / JERK)),
    )


def state_error(observed_state: Seen) -> tuple[Scalar, ...]:
    """p, R by rows, v and ω relative to the reference: 18 values  [m, m/s, rad/s]"""
    state = observed_state.state
    return (*state.p_W, *matrix_from_quat(state.q_WB), *state.v_W, *state.omega_B)


def raptor(observed_state: Seen) -> tuple[Scalar, ...]:
    """The state error and the last action, the input of RAPTOR: 18 values and one per rotor"""
    return (*state_error(observed_state), *observed_state.action)


def px4_nn(observed_state: Seen) -> tuple[Scalar, ...]:
    """−p, the first two rows of R, v and ω: the 15 inputs of the network of PX4's mc_nn_control  [m, m/s, rad/s]"""
    state = observed_state.state
    return (*(state.p_W * -1.0), *matrix_from_quat(state.q_WB)[:6], *state.v_W, *state.omega_B)


def race(observed_state: Seen) -> tuple[Scalar, ...]:
    """The full state relative to rest in the next gate, and the gates and poles ahead: 28 values and one per rotor"""
    return (*full_state(observed_state), *observed_state.ahead)


def depth(observed_state: Seen) -> tuple[Scalar, ...]:
    """p, v, R by rows, ω / 5 rad/s, and the 96 blocks of a depth image (`samara.control.depth_observation`)  [m, m/s, 1/m]"""
    state = observed_state.state
    return (
        *state.p_W,
        *state.v_W,
        *matrix_from_quat(state.q_WB),
        *(state.omega_B * (1.0 / RATE)),
        *observed_state.ahead,
    )


class Observation(NamedTuple):
    """A type of observation: `size(rotors, actions)` is its length, and `of` computes it."""

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


def in_order(values: Sequence[Scalar], order: Sequence[int]) -> tuple[Scalar, ...]:
    """numbers[order[0]], numbers[order[1]], …; unchanged if `order` is empty"""
    return tuple(values[i] for i in order) if order else tuple(values)
