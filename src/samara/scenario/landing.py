"""What counts as landed and as crashed, and how far below the ground a landing aims."""

import math
from typing import NamedTuple

from samara.control.allocation import allocation_for
from samara.control.default_gains import gains_for
from samara.core.algebra import Quat, Vec3, norm
from samara.core.batch_scalar import as_scalar
from samara.core.ops import logical_and, logical_or, where
from samara.core.quantity import Scalar
from samara.physics.types import Vehicle

LANDED_SPEED, LANDED_RATE = 0.1, 0.3  # [m/s], [rad/s]: on its feet and slower than this, it has landed
TAKEOFF_SPEED, TAKEOFF_RATE, TAKEOFF_CLEARANCE = 0.3, 0.9, 0.05  # [m/s], [rad/s], [m]: below all three it stays landed
BELOW_GROUND = 0.3  # [m], where a landing aims
_SURELY = 2.0  # times the load under which friction just holds
_MOST_LOAD = 0.5  # of the weight: more is not asked of the feet, however slippery the ground
CRASH_SPEED, CRASH_TILT = 3.0, math.radians(60.0)  # [m/s], [rad]: touching the ground faster, or leaning further


class Touchdown(NamedTuple):
    """Each 1 or 0: it stands on its feet, it is a wreck, and it became one just now."""

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
) -> Touchdown:
    """Update whether a drone has landed or crashed.

    Crashed: it hit the ground faster than 3 m/s, or touches it leaning by more than 60°. Landed: it touches the ground
    slower than 0.1 m/s and 0.3 rad/s and is no wreck. It stays landed (hysteresis) while its lowest point is within 5 cm of
    the ground and it moves slower than 0.3 m/s and 0.9 rad/s.

    Args:
        clearance: height of the lowest contact point above the ground, negative where it touches [m].
        impact_speed: speed of the hardest touch since the last update [m/s].
        landed: status so far, a condition or 0 and 1.
        crashed: status so far, a condition or 0 and 1.
    """
    touches, was_landed, was_crashed = clearance < 0.0, landed > 0.5, crashed > 0.5
    leaning = 1.0 - 2.0 * (q_WB.x * q_WB.x + q_WB.y * q_WB.y) < math.cos(CRASH_TILT)
    broken = logical_or(impact_speed > CRASH_SPEED, logical_and(touches, leaning))
    wreck = logical_or(broken, was_crashed)
    speed, rate = norm(v_W), norm(omega_B)
    at_rest = logical_and(logical_and(speed < LANDED_SPEED, rate < LANDED_RATE), touches)
    near_rest = logical_and(logical_and(speed < TAKEOFF_SPEED, rate < TAKEOFF_RATE), clearance < TAKEOFF_CLEARANCE)
    stands = logical_or(at_rest, logical_and(was_landed, near_rest))
    return Touchdown(
        where(wreck, 0.0, where(stands, 1.0, 0.0)),
        where(wreck, 1.0, 0.0),
        where(was_crashed, 0.0, where(broken, 1.0, 0.0)),
    )


def landing_depth(vehicle: Vehicle) -> float:
    """max(0.3 m, 2 λ g/ω²),  λ = s/(1 + s),  s = F/(μ m g): so deep that the feet hold against a thrust F to the side  [m]

    A reference at a depth d takes ω² d/g off the thrust, and the feet carry it. A tricopter's tail pushes sideways with F even
    on level feet, which slide until they carry λ of the weight: it would rock on them, from leaning to sliding and back.
    Rotors that do not tilt push nowhere, and one that cannot hover does not land.
    """
    if not (vehicle.servos and vehicle.has("contact") and vehicle.has("gravity")):
        return BELOW_GROUND
    try:
        side_B, loop = allocation_for(vehicle).side_B, gains_for(vehicle).position
    except ValueError:
        return BELOW_GROUND
    g, friction = as_scalar(vehicle["gravity"].acceleration), as_scalar(vehicle["contact"].surface.friction)
    aside = 0.0 if side_B is None else as_scalar(norm(side_B))
    load = aside / (aside + friction * as_scalar(vehicle.mass) * g) if aside > 0.0 else 0.0
    return max(BELOW_GROUND, min(_SURELY * load, _MOST_LOAD) * g / as_scalar(loop * loop))
