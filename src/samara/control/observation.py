"""Observations of policies: scalars of magnitude about 1 in ordinary flight, relative to the reference.

Position and velocity are errors in the axes of the reference's heading, and so is the attitude: a policy trained to come to
rest at the origin, facing east, holds any position and heading and follows a moving reference.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from samara.control.depth_observation import BLOCK_COUNT
from samara.control.gate_observation import GATE_OBSERVATION_SIZE
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat, rotate_inverse
from samara.core.ops import clamp, cos, sin
from samara.core.quantity import Scalar
from samara.physics.types import Reference, State

RATE_SCALE = 5.0  # [rad/s]: an ordinary angular rate


ACCELERATION_SCALE, JERK_SCALE = 5.0, 25.0  # [m/s², m/s³]: on an ordinary path


class ObservedState(NamedTuple):
    """State relative to the reference, last action in [−1, 1], hover rotor speeds [rad/s], and the reference's acceleration and
    jerk in the axes of its heading; `ahead` is the observation of a race
    (`samara.control.gate_observation.observe_gates`) or of a depth camera
    (`samara.control.depth_observation.block_inverse_distance`)."""

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


def observe_state(
    state: State,
    reference: Reference,
    action: tuple[Scalar, ...],
    hover_speed: tuple[Scalar, ...],
    bounds: Bounds | None = None,
) -> ObservedState:
    """Compute the quantities from which observations are composed.

    Args:
        state: estimated state of the vehicle.
        reference: desired motion.
        action: last action, in [−1, 1].
        hover_speed: rotor speeds in hover [rad/s].
        bounds: limits of the observed errors; None for no limits.
    """
    q_WR = heading_quat(reference)
    derivatives = (rotate_inverse(q_WR, vector_W) for vector_W in (reference.a_W, reference.j_W))
    return ObservedState(relative_state(state, reference, bounds), action, hover_speed, *derivatives)


def heading_quat(reference: Reference) -> Quat:
    """q_z(ψ), from the axes of the reference's heading to the world's"""
    half = 0.5 * reference.yaw
    return Quat(cos(half), 0.0, 0.0, sin(half))


def relative_state(state: State, reference: Reference, bounds: Bounds | None = None) -> State:
    """p = R_z(ψ)ᵀ(p_W − p_ref), v = R_z(ψ)ᵀ(v_W − v_ref), q = q_z(ψ)* q_WB: the state in the frame of the reference"""
    q_WR = heading_quat(reference)
    p_R = rotate_inverse(q_WR, state.p_W - reference.p_W)
    v_R = rotate_inverse(q_WR, state.v_W - reference.v_W)
    if bounds is not None:
        p_R = Vec3(*(clamp(x, -bounds.position, bounds.position) for x in p_R))
        v_R = Vec3(*(clamp(x, -bounds.velocity, bounds.velocity) for x in v_R))
    return state._replace(p_W=p_R, v_W=v_R, q_WB=Quat(q_WR.w, 0.0, 0.0, -q_WR.z) * state.q_WB)


def full_state(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """p, v, R by rows, ω / 5 rad/s, and Ω/Ω₀ − 1 of every rotor: 18 values and one per rotor  [m, m/s]"""
    state = observed_state.state
    speeds = (speed / hover - 1.0 for speed, hover in zip(state.rotor_speed, observed_state.hover_speed, strict=True))
    return (*state.p_W, *state.v_W, *matrix_from_quat(state.q_WB), *(state.omega_B * (1.0 / RATE_SCALE)), *speeds)


def tracking_observation(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """The full state, and a / 5 m/s² and j / 25 m/s³ of the reference, for tracking a moving reference"""
    return (
        *full_state(observed_state),
        *(observed_state.a_R * (1.0 / ACCELERATION_SCALE)),
        *(observed_state.j_R * (1.0 / JERK_SCALE)),
    )


def state_error(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """p, R by rows, v and ω relative to the reference: 18 values  [m, m/s, rad/s]"""
    state = observed_state.state
    return (*state.p_W, *matrix_from_quat(state.q_WB), *state.v_W, *state.omega_B)


def raptor_observation(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """The state error and the last action, the input of RAPTOR: 18 values and one per rotor"""
    return (*state_error(observed_state), *observed_state.action)


def px4_nn_observation(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """−p, the first two rows of R, v and ω: the 15 inputs of the network of PX4's mc_nn_control  [m, m/s, rad/s]"""
    state = observed_state.state
    return (*(state.p_W * -1.0), *matrix_from_quat(state.q_WB)[:6], *state.v_W, *state.omega_B)


def race_observation(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """The full state relative to rest in the next gate, and the gates and poles ahead: 28 values and one per rotor"""
    return (*full_state(observed_state), *observed_state.ahead)


def depth_observation(observed_state: ObservedState) -> tuple[Scalar, ...]:
    """p, v, R by rows, ω / 5 rad/s, and the 96 blocks of a depth image (`samara.control.depth_observation`)  [m, m/s, 1/m]"""
    state = observed_state.state
    return (
        *state.p_W,
        *state.v_W,
        *matrix_from_quat(state.q_WB),
        *(state.omega_B * (1.0 / RATE_SCALE)),
        *observed_state.ahead,
    )


class Observation(NamedTuple):
    """A type of observation: `size(rotors, action_size)` is its length, and `compute` computes it."""

    size: Callable[[int, int], int]
    compute: Callable[[ObservedState], tuple[Scalar, ...]]


OBSERVATIONS: dict[str, Observation] = {
    "full_state": Observation(lambda rotors, actions: 18 + rotors, full_state),
    "tracking": Observation(lambda rotors, actions: 24 + rotors, tracking_observation),
    "state_error": Observation(lambda rotors, actions: 18, state_error),
    "raptor": Observation(lambda rotors, actions: 18 + actions, raptor_observation),
    "px4_nn": Observation(lambda rotors, actions: 15, px4_nn_observation),
    "race": Observation(lambda rotors, actions: 18 + GATE_OBSERVATION_SIZE + rotors, race_observation),
    "depth": Observation(lambda rotors, actions: 18 + BLOCK_COUNT, depth_observation),
}


def reorder(values: Sequence[Scalar], order: Sequence[int]) -> tuple[Scalar, ...]:
    """values[order[0]], values[order[1]], …; unchanged if `order` is empty"""
    return tuple(values[i] for i in order) if order else tuple(values)
