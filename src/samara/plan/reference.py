"""What a controller is asked to follow at one instant, and the smooth ways from rest to rest."""

import math
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import atan2, clamp, where
from samara.core.quantity import Scalar
from samara.physics.types import Reference as Reference


class Leg(NamedTuple):
    """A straight way to a place: there in so many seconds, then rest for so many more."""

    name: str
    p_W: Vec3
    travel: float
    rest: float


class Motion(NamedTuple):
    """How far along, and its derivatives in time to the fourth."""

    s: Scalar
    ds: Scalar
    dds: Scalar
    ddds: Scalar
    dddds: Scalar


class Path(NamedTuple):
    """A place on a curve p(s), and its derivatives along s to the fourth."""

    p_W: Vec3
    d_W: Vec3
    dd_W: Vec3
    ddd_W: Vec3
    dddd_W: Vec3


class Cruise(NamedTuple):
    """Up to a speed in `ramp` seconds, on at it for `hold`, and down to rest in `ramp` again."""

    speed: float
    ramp: float
    hold: float

    @property
    def duration(self) -> float:
        """2 r + h  [s]"""
        return 2.0 * self.ramp + self.hold


PEAK_SPEED = 15.0 / 8.0  # of a minimum-jerk move: times length over duration
STEEPEST = 15.0 / 8.0  # the same polynomial as a ramp of speed: times speed over ramp


def minimum_jerk(time: Scalar, duration: Scalar) -> Motion:
    """s = 10x³ − 15x⁴ + 6x⁵, x = t/T: from 0 to 1 with the least jerk, at rest at both ends; s, ṡ, s̈, s⃛, s⁗"""
    x = clamp(time / duration, 0.0, 1.0)
    y = 1.0 - x
    moving = where(x > 0.0, where(y > 0.0, 1.0, 0.0), 0.0)
    return Motion(
        x * x * x * (10.0 + x * (6.0 * x - 15.0)),
        30.0 * x * x * y * y / duration,
        60.0 * x * y * (1.0 - 2.0 * x) / duration**2,
        moving * 60.0 * (1.0 - 6.0 * x * y) / duration**3,
        moving * 360.0 * (2.0 * x - 1.0) / duration**4,
    )


def cruise_along(length: float, speed: float, acceleration: float) -> Cruise:
    """v = min(speed, √(8aL/15)),  r = 15v/8a,  h = L/v − r: the quickest within both limits [m/s, m/s²] over a length [m]"""
    top = min(speed, math.sqrt(length * acceleration / STEEPEST))
    ramp = STEEPEST * top / acceleration
    return Cruise(top, ramp, max(length / top - ramp, 0.0))


def cruise(time: Scalar, way: Cruise) -> Motion:
    """ṡ = v (S(t) − S(t − r − h)), S the minimum-jerk step of duration r: s to s⁗, all but the last continuous, s = ∫ṡ"""
    up, down = minimum_jerk(time, way.ramp), minimum_jerk(time - way.ramp - way.hold, way.ramp)
    level = clamp(time - way.ramp, 0.0, way.hold)
    x, y = (clamp(t / way.ramp, 0.0, 1.0) for t in (time, time - way.ramp - way.hold))
    return Motion(
        way.speed * (way.ramp * (_ramped(x) + y - _ramped(y)) + level),
        way.speed * (up.s - down.s),
        way.speed * (up.ds - down.ds),
        way.speed * (up.dds - down.dds),
        way.speed * (up.ddds - down.ddds),
    )


def _ramped(x: Scalar) -> Scalar:
    """∫₀ˣ (10u³ − 15u⁴ + 6u⁵) du = x⁴ (5/2 − 3x + x²)"""
    return x * x * x * x * (2.5 + x * (x - 3.0))


def along_path(path: Path, motion: Motion) -> Reference:
    """v = p' ṡ,  a = p'' ṡ² + p' s̈,  j = p''' ṡ³ + 3 p'' ṡ s̈ + p' s⃛: a curve flown at a pace

    And the snap p'''' ṡ⁴ + 6 p''' ṡ² s̈ + p'' (3 s̈² + 4 ṡ s⃛) + p' s⁗, after Faà di Bruno.
    """
    ds, dds, ddds, dddds = motion.ds, motion.dds, motion.ddds, motion.dddds
    return Reference(
        path.p_W,
        path.d_W * ds,
        path.dd_W * (ds * ds) + path.d_W * dds,
        path.ddd_W * (ds * ds * ds) + path.dd_W * (3.0 * ds * dds) + path.d_W * ddds,
        s_W=path.dddd_W * (ds * ds * ds * ds)
        + path.ddd_W * (6.0 * ds * ds * dds)
        + path.dd_W * (3.0 * dds * dds + 4.0 * ds * ddds)
        + path.d_W * dddds,
    )


def facing_along(reference: Reference, path: Path, motion: Motion) -> Reference:
    """ψ = ∠(p'_x, p'_y),  ψ' = (p'_x p''_y − p'_y p''_x) / l,  l = p'_x² + p'_y²: the nose along the curve, also at rest

    ψ'' = (p'_x p'''_y − p'_y p'''_x − ψ' l') / l;  ψ̇ = ψ' ṡ,  ψ̈ = ψ'' ṡ² + ψ' s̈.
    """
    d, dd, ddd = path.d_W, path.dd_W, path.ddd_W
    level = d.x * d.x + d.y * d.y
    turn = (d.x * dd.y - d.y * dd.x) / level
    turning = (d.x * ddd.y - d.y * ddd.x - turn * 2.0 * (d.x * dd.x + d.y * dd.y)) / level
    return reference._replace(
        yaw=atan2(d.y, d.x),
        yaw_rate=turn * motion.ds,
        yaw_acceleration=turning * motion.ds * motion.ds + turn * motion.dds,
    )


def along_legs(time: Scalar, start_W: Vec3, legs: tuple[Leg, ...], yaw: Scalar = 0.0) -> Reference:
    """p = p₀ + Σ s(t − tᵢ) (pᵢ₊₁ − pᵢ), leg after leg, and the last place for ever after"""
    reference, here = Reference(start_W, yaw=yaw), start_W
    for leg in legs:
        s, ds, dds, ddds, dddds = minimum_jerk(time, leg.travel)
        way = leg.p_W - here
        reference = reference._replace(
            p_W=reference.p_W + way * s,
            v_W=reference.v_W + way * ds,
            a_W=reference.a_W + way * dds,
            j_W=reference.j_W + way * ddds,
            s_W=reference.s_W + way * dddds,
        )
        time, here = time - leg.travel - leg.rest, leg.p_W
    return reference
