"""What a policy sees of a drone: scalars, each about 1 in size in ordinary flight."""

from samara.core.algebra import ZERO, Vec3, matrix_from_quat
from samara.core.quantity import Scalar
from samara.learn.task import Craft, Situation

RATE = 5.0  # [rad/s]: an ordinary turn


def full_state(situation: Situation, craft: Craft, target_W: Vec3 = ZERO) -> tuple[Scalar, ...]:
    """p − p_target, v, R by rows, ω / 5 rad/s, and Ω/Ω₀ − 1 of every rotor: 18 numbers and one for each rotor  [m, m/s]"""
    state = situation.state
    speeds = (speed / still - 1.0 for speed, still in zip(state.rotor_speed, craft.trim.rotor_speed, strict=True))
    p_W, turn_B = state.p_W - target_W, state.omega_B * (1.0 / RATE)
    return (*p_W, *state.v_W, *matrix_from_quat(state.q_WB), *turn_B, *speeds)


def raptor(situation: Situation, craft: Craft, target_W: Vec3 = ZERO) -> tuple[Scalar, ...]:
    """p − p_target, R by rows, v, ω [rad/s] and the last action: the 22 numbers that RAPTOR's policy is shown of a quadrotor

    J. Eschmann, D. Albani, G. Loianno, "RAPTOR: a foundation policy for quadrotor control", 2025.
    """
    state = situation.state
    R_WB = matrix_from_quat(state.q_WB)
    return (*(state.p_W - target_W), *R_WB, *state.v_W, *state.omega_B, *situation.action)


OBSERVATIONS = {"full_state": full_state, "raptor": raptor}
