"""What a policy sees of a drone in an episode: that of `samara.control.observation`, as it will see it in flight."""

from samara.control.observation import OBSERVATIONS, seen
from samara.core.algebra import ZERO
from samara.core.quantity import Scalar
from samara.learn.task import Craft, Situation
from samara.physics.reference import Reference

STILL = Reference(ZERO)


def observed_as(
    kind: str, situation: Situation, craft: Craft, reference: Reference = STILL, ahead: tuple[Scalar, ...] = ()
) -> tuple[Scalar, ...]:
    """The numbers of an observation by its name, relative to a reference; without one to rest at the origin

    `ahead` is what one who races sees of the course (`samara.control.gate_observation.sight`).
    """
    own = seen(situation.state, reference, situation.action, craft.trim.rotor_speed)._replace(ahead=ahead)
    return OBSERVATIONS[kind].of(own)


def full_state(situation: Situation, craft: Craft, reference: Reference = STILL) -> tuple[Scalar, ...]:
    """Errors of position and velocity, R by rows, ω / 5 rad/s, and Ω/Ω₀ − 1 of every rotor"""
    return observed_as("full_state", situation, craft, reference)


def raptor(situation: Situation, craft: Craft, reference: Reference = STILL) -> tuple[Scalar, ...]:
    """Errors of position, R by rows, v, ω [rad/s] and the last action: the 22 numbers that RAPTOR is shown

    J. Eschmann, D. Albani, G. Loianno, "RAPTOR: a foundation policy for quadrotor control", 2025.
    """
    return observed_as("raptor", situation, craft, reference)
