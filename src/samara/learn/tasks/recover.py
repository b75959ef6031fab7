"""Recover: thrown in any attitude, at up to 5 m/s along and 15 rad/s about each axis, come to rest at the origin."""

from typing import Any

from samara.core.algebra import norm
from samara.core.quantity import Scalar
from samara.learn.observations import full_state
from samara.learn.task import Craft, Draw, Situation
from samara.learn.tasks import hover
from samara.physics.types import State

SECONDS = 4.0
FAR = 30.0  # [m]: lost


def reset(draw: Draw, craft: Craft) -> tuple[State, Any]:
    """Thrown from within 0.5 m along each axis, in any attitude"""
    start = craft.trim._replace(
        p_W=draw.vector(0.5), v_W=draw.vector(5.0), q_WB=draw.attitude(), omega_B=draw.vector(15.0)
    )
    return start, ()


def observation(situation: Situation, craft: Craft) -> tuple[Scalar, ...]:
    """Position, velocity, attitude, rates and rotor speeds"""
    return full_state(situation, craft)


def reward(situation: Situation, craft: Craft) -> Scalar:
    """2 less what being away costs, as in `hover`"""
    return 2.0 - hover.unrest(situation)


def termination(situation: Situation, craft: Craft) -> Scalar:
    """Beyond 30 m"""
    return norm(situation.state.p_W) > FAR


success = hover.success
