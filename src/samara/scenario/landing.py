"""The criteria for landed and crashed, and the depth below the ground that a landing aims at."""

import math
from typing import NamedTuple

from samara.control.allocation import build_allocation
from samara.control.default_gains import default_gains
from samara.core.algebra import Quat, Vec3, norm
from samara.core.batch_scalar import float_or_batch_scalar
from samara.core.ops import logical_and, logical_or, where
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle

LANDED_SPEED, LANDED_RATE = 0.1, 0.3  # [m/s], [rad/s]: on its feet and slower than this, a drone has landed
TAKEOFF_SPEED, TAKEOFF_RATE, TAKEOFF_CLEARANCE = 0.3, 0.9, 0.05  # [m/s], [rad/s], [m]: below all three it stays landed
DEFAULT_LANDING_DEPTH = 0.3  # [m]: depth below the ground that a landing aims at
_LOAD_SAFETY_FACTOR = 2.0  # factor on the load at which friction just holds
_MAX_LOAD_FRACTION = 0.5  # fraction of the weight: limit of the load on the feet, for any friction
CRASH_SPEED, CRASH_TILT = 3.0, math.radians(60.0)  # [m/s], [rad]: ground contact at more than either is a crash


class GroundStatus(NamedTuple):
    """Whether a drone has landed, whether it has crashed, and whether it crashed in this update; each 1 or 0."""

    landed: Scalar
    crashed: Scalar
    crashed_now: Scalar


def touchdown(
    v_W: Vec3,
    q_WB: Quat,
    omega_B: Vec3,
    *,
    clearance: Scalar,
    impact_speed: Scalar,
    landed: Scalar,
    crashed: Scalar,
) -> GroundStatus:
    """Update whether a drone has landed or crashed.

    Crashed: it hit the ground faster than 3 m/s, or touches it with a tilt of more than 60°. Landed: it touches the ground
    slower than 0.1 m/s and 0.3 rad/s and has not crashed. It stays landed (hysteresis) while its lowest point is within 5 cm of
    the ground and it moves slower than 0.3 m/s and 0.9 rad/s.

    Args:
        v_W: velocity [m/s].
        q_WB: attitude.
        omega_B: angular velocity [rad/s].
        clearance: height of the lowest contact point above the ground, negative in contact [m].
        impact_speed: maximum impact speed since the last update [m/s].
        landed: previous status, a condition or 0 and 1.
        crashed: previous status, a condition or 0 and 1.
    """
    is_touching, was_landed, was_crashed = clearance < 0.0, landed > 0.5, crashed > 0.5
    is_tilted = 1.0 - 2.0 * (q_WB.x * q_WB.x + q_WB.y * q_WB.y) < math.cos(CRASH_TILT)
    is_crash = logical_or(impact_speed > CRASH_SPEED, logical_and(is_touching, is_tilted))
    has_crashed = logical_or(is_crash, was_crashed)
    speed, rate = norm(v_W), norm(omega_B)
    is_at_rest = logical_and(logical_and(speed < LANDED_SPEED, rate < LANDED_RATE), is_touching)
    is_near_rest = logical_and(logical_and(speed < TAKEOFF_SPEED, rate < TAKEOFF_RATE), clearance < TAKEOFF_CLEARANCE)
    is_standing = logical_or(is_at_rest, logical_and(was_landed, is_near_rest))
    return GroundStatus(
        where(has_crashed, 0.0, where(is_standing, 1.0, 0.0)),
        where(has_crashed, 1.0, 0.0),
        where(was_crashed, 0.0, where(is_crash, 1.0, 0.0)),
    )


def landing_depth(vehicle: Vehicle) -> float:
    """max(0.3 m, 2 λ g/ω²),  λ = s/(1 + s),  s = F/(μ m g): depth at which the feet resist a lateral thrust F [m].

    A reference at a depth d reduces the thrust by ω² d/g, and the feet carry the difference. The tail of a tricopter pushes
    sideways with F even on level feet, which slide until they carry λ of the weight: without this depth the vehicle would rock
    between tilting and sliding. Rotors that do not tilt have no lateral thrust, and a vehicle that cannot hover does not land.
    """
    if not (vehicle.servos and vehicle.has("contact") and vehicle.has("gravity")):
        return DEFAULT_LANDING_DEPTH
    try:
        side_B, bandwidth = build_allocation(vehicle).hover_side_force_B, default_gains(vehicle).position
    except ValueError:
        return DEFAULT_LANDING_DEPTH
    g, friction = (
        float_or_batch_scalar(vehicle["gravity"].acceleration),
        float_or_batch_scalar(vehicle["contact"].surface.friction),
    )
    side_force = 0.0 if side_B is None else float_or_batch_scalar(norm(side_B))
    load_fraction = (
        side_force / (side_force + friction * float_or_batch_scalar(vehicle.mass) * g) if side_force > 0.0 else 0.0
    )
    return max(
        DEFAULT_LANDING_DEPTH,
        min(_LOAD_SAFETY_FACTOR * load_fraction, _MAX_LOAD_FRACTION) * g / float_or_batch_scalar(bandwidth * bandwidth),
    )
