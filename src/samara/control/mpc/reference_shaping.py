"""Where the horizon leads: the iLQR document's shaped way to a point, or what a trajectory says at the horizon's times.

    v_des = reference_velocity_gain (p_target − p_start), no longer than max_reference_velocity
    a_ref = reference_acceleration_gain (v_des − v), no longer than max_reference_acceleration
    p ← p + v dt + ½ a_ref dt²,  v ← v + a_ref dt

a_ref leans the wanted thrust towards the target, so that hovering is no minimum of the cost. As the document writes it, v_des
is that of the start all along; after more than a second or so such a reference flies past its target. With reference_follow 1 it is
renewed from the reference's own place in every step, and ends at the target; between 0 and 1, something between.
"""

from typing import NamedTuple

from samara.control.mpc.cost import Goal
from samara.control.mpc.prediction_model import Model, thrust_direction
from samara.core.algebra import ZERO, Vec3, cross, direction, norm
from samara.core.ops import cos, maximum, sin
from samara.core.quantity import Scalar
from samara.physics.types import Reference


class Shaping(NamedTuple):
    """The iLQR document's names and values: gains [1/s], largest speed [m/s] and acceleration [m/s²] of the reference.

    `reference_follow` is not in it: how much of the way v_des is renewed along.
    """

    reference_velocity_gain: Scalar = 1.4
    max_reference_velocity: Scalar = 4.0
    reference_acceleration_gain: Scalar = 2.0
    max_reference_acceleration: Scalar = 8.0
    reference_follow: Scalar = 0.0


class Way(NamedTuple):
    """Where the reference has got to along the horizon."""

    p_W: Vec3
    v_W: Vec3


class Target(NamedTuple):
    """The point to reach, where the horizon starts, and the yaw there [rad]."""

    p_W: Vec3
    start_W: Vec3
    yaw: Scalar


def limited(v: Vec3, most: Scalar) -> Vec3:
    """v, no longer than `most`"""
    return v * (most / maximum(norm(v), most))


def reference_acceleration(way: Way, target: Target, shaping: Shaping) -> Vec3:
    """a_ref = reference_acceleration_gain (v_des − v),  v_des = reference_velocity_gain (p_target − p_start), each within its limit  [m/s²]"""
    from_W = target.start_W + (way.p_W - target.start_W) * shaping.reference_follow
    wanted_W = limited((target.p_W - from_W) * shaping.reference_velocity_gain, shaping.max_reference_velocity)
    return limited((wanted_W - way.v_W) * shaping.reference_acceleration_gain, shaping.max_reference_acceleration)


def shaped_step(way: Way, target: Target, shaping: Shaping, model: Model, push_W: Vec3 = ZERO) -> tuple[Way, Goal]:
    """The goal at this step of the horizon, and the way at the next: p + v dt + ½ a_ref dt², v + a_ref dt"""
    a_W, dt = reference_acceleration(way, target, shaping), model.dt
    goal = goal_of(Reference(way.p_W, way.v_W, a_W, yaw=target.yaw), model, push_W)
    return Way(way.p_W + way.v_W * dt + a_W * (0.5 * dt * dt), way.v_W + a_W * dt), goal


def goal_of(reference: Reference, model: Model, push_W: Vec3 = ZERO) -> Goal:
    """Position and velocity; b₃ along the thrust that the acceleration needs, b₁ at right angles to it towards the yaw"""
    b3_W = thrust_direction(reference.a_W, reference.v_W, push_W, model)
    ahead_W = Vec3(cos(reference.yaw), sin(reference.yaw), 0.0)
    b1_W = cross(direction(cross(b3_W, ahead_W)), b3_W)
    return Goal(reference.p_W, reference.v_W, b3_W, b1_W)


def extrapolated(reference: Reference, time: Scalar, shaping: Shaping) -> Reference:
    """What is known at one instant, t later: v + a t, no faster than it was or than max_reference_velocity, and p by the mean of v"""
    v_W = limited(reference.v_W + reference.a_W * time, maximum(norm(reference.v_W), shaping.max_reference_velocity))
    return reference._replace(
        p_W=reference.p_W + (reference.v_W + v_W) * (0.5 * time),
        v_W=v_W,
        yaw=reference.yaw + reference.yaw_rate * time,
    )
