"""What counts as landed and as crashed."""

import math
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3, norm
from samara.core.ops import logical_and, logical_or, where
from samara.core.quantity import Scalar

LANDED_SPEED, LANDED_RATE = 0.1, 0.3  # [m/s], [rad/s]: on its feet and slower than this, it has landed
CRASH_SPEED, CRASH_TILT = 3.0, math.radians(60.0)  # [m/s], [rad]: touching the ground faster, or leaning further


class Touchdown(NamedTuple):
    """Each 1 or 0: it stands on its feet, it is a wreck, and it became one just now."""

    landed: Scalar
    crashed: Scalar
    crashed_now: Scalar


def touchdown(
    v_W: Vec3, q_WB: Quat, omega_B: Vec3, *, touching: Scalar, impact_speed: Scalar, crashed: Scalar
) -> Touchdown:
    """Crashed: it hit the ground faster than 3 m/s, or touches it leaning by more than 60°. Landed: at rest on it, and no wreck

    `touching` and `crashed`, so far, are conditions or 0 and 1; `impact_speed` [m/s] is that of the hardest touch since the
    last look.
    """
    touches, was = touching > 0.5, crashed > 0.5
    leaning = 1.0 - 2.0 * (q_WB.x * q_WB.x + q_WB.y * q_WB.y) < math.cos(CRASH_TILT)
    broken = logical_or(impact_speed > CRASH_SPEED, logical_and(touches, leaning))
    wreck = logical_or(broken, was)
    still = logical_and(norm(v_W) < LANDED_SPEED, norm(omega_B) < LANDED_RATE)
    return Touchdown(
        where(wreck, 0.0, where(logical_and(touches, still), 1.0, 0.0)),
        where(wreck, 1.0, 0.0),
        where(was, 0.0, where(broken, 1.0, 0.0)),
    )
