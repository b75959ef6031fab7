"""A spiral: r = r₀ + ṙ t and θ = θ₀ + ω t about its centre, while it climbs, and the nose turns at ω as well.

p = c + r e_r,   v = ṙ e_r + r ω e_θ,   a = 2 ṙ ω e_θ − r ω² e_r
"""

import math

from samara.physics.reference import Reference

LARGEST_ANGLE = 2.0 * math.pi
Rows = list[list[float]]


def spiral(
    here: Reference,
    angle: float,
    radii: tuple[float, float],
    climb: float,
    duration: float,
    *,
    sideways: bool,
    clockwise: bool,
) -> tuple[Rows, Rows]:
    """(place, velocity, acceleration, jerk) of x, y, z, yaw at its start, which is here, and at its end

    Its nose points along the circle, or with `sideways` along the radius: outwards, and clockwise inwards. The angle [rad] is a
    full turn at most; a radius below 0 is 0.
    """
    r0, r1 = (max(radius, 0.0) for radius in radii)
    sense = -1.0 if clockwise else 1.0
    turn = sense * min(max(angle, -LARGEST_ANGLE), LARGEST_ANGLE)
    rate, widening, rise = turn / duration, (r1 - r0) / duration, climb / duration
    inwards = math.pi if clockwise else 0.0
    theta = here.yaw + (inwards if sideways else -sense * math.pi / 2.0)
    centre = here.p_W.x - r0 * math.cos(theta), here.p_W.y - r0 * math.sin(theta)

    def end(r: float, share: float) -> Rows:
        c, s = math.cos(theta + share * turn), math.sin(theta + share * turn)
        along, across = r * rate, r * rate * rate
        return [
            [centre[0] + r * c, centre[1] + r * s, here.p_W.z + share * climb, here.yaw + share * turn],
            [widening * c - along * s, widening * s + along * c, rise, rate],
            [-2.0 * widening * rate * s - across * c, 2.0 * widening * rate * c - across * s, 0.0, 0.0],
            [0.0] * 4,
        ]

    return end(r0, 0.0), end(r1, 1.0)
