"""What a controller is asked to follow at one instant, and the smooth way from one place to the next."""

from typing import NamedTuple

from samara.algebra import ZERO, Vec3
from samara.quantity import Scalar


class Reference(NamedTuple):
    """Position and its derivatives to jerk in the world, yaw and its rate. SI units."""

    p_W: Vec3
    v_W: Vec3 = ZERO
    a_W: Vec3 = ZERO
    j_W: Vec3 = ZERO
    yaw: Scalar = 0.0
    yaw_rate: Scalar = 0.0


class Leg(NamedTuple):
    """A straight way to a place: there in so many seconds, then rest for so many more."""

    name: str
    p_W: Vec3
    travel: float
    rest: float


def minimum_jerk(time: float, duration: float) -> tuple[float, float, float, float]:
    """s = 10x³ − 15x⁴ + 6x⁵, x = t/T: from 0 to 1 with the least jerk, at rest at both ends; s, ṡ, s̈, s⃛"""
    x = min(max(time / duration, 0.0), 1.0)
    return (
        x * x * x * (10.0 + x * (6.0 * x - 15.0)),
        30.0 * x * x * (1.0 - x) ** 2 / duration,
        60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / duration**2,
        60.0 * (1.0 - 6.0 * x + 6.0 * x * x) / duration**3 if 0.0 < x < 1.0 else 0.0,
    )


def along_legs(time: float, start_W: Vec3, legs: tuple[Leg, ...], yaw: float = 0.0) -> Reference:
    """p = p₀ + s(t) (p₁ − p₀) leg after leg, and the last place for ever after"""
    here = start_W
    for leg in legs:
        if time < leg.travel + leg.rest:
            s, ds, dds, ddds = minimum_jerk(time, leg.travel)
            way = leg.p_W - here
            return Reference(here + way * s, way * ds, way * dds, way * ddds, yaw)
        time, here = time - leg.travel - leg.rest, leg.p_W
    return Reference(here, yaw=yaw)
