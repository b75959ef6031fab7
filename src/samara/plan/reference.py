"""The reference of a controller at one instant, and smooth motions from rest to rest."""

import math
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import atan2, clamp, where
from samara.core.quantity import Scalar
from samara.physics.types import Reference as Reference


class StraightLeg(NamedTuple):
    """A straight segment to a position, flown in `travel_duration` seconds, followed by `rest_duration` seconds at rest."""

    name: str
    p_W: Vec3
    travel_duration: float
    rest_duration: float


class PathMotion(NamedTuple):
    """Path parameter s and its time derivatives to the fourth."""

    s: Scalar
    ds: Scalar
    dds: Scalar
    ddds: Scalar
    dddds: Scalar


class PathDerivatives(NamedTuple):
    """A point on a curve p(s), and its derivatives by s to the fourth."""

    p_W: Vec3
    d_W: Vec3
    dd_W: Vec3
    ddd_W: Vec3
    dddd_W: Vec3


class CruiseProfile(NamedTuple):
    """Speed profile: up to `speed` in `ramp` seconds, constant for `hold` seconds, and down to rest in `ramp` seconds."""

    speed: float
    ramp: float
    hold: float

    @property
    def duration(self) -> float:
        """2 r + h  [s]"""
        return 2.0 * self.ramp + self.hold


PEAK_SPEED_RATIO = 15.0 / 8.0  # peak speed of a minimum-jerk motion over length/duration
PEAK_ACCELERATION_RATIO = 15.0 / 8.0  # peak acceleration of a minimum-jerk speed ramp over speed/ramp


def minimum_jerk(time: Scalar, duration: Scalar) -> PathMotion:
    """s = 10x³ − 15x⁴ + 6x⁵, x = t/T: from 0 to 1 with minimum jerk, at rest at both ends; s, ṡ, s̈, s⃛, s⁗"""
    x = clamp(time / duration, 0.0, 1.0)
    y = 1.0 - x
    is_moving = where(x > 0.0, where(y > 0.0, 1.0, 0.0), 0.0)
    return PathMotion(
        x * x * x * (10.0 + x * (6.0 * x - 15.0)),
        30.0 * x * x * y * y / duration,
        60.0 * x * y * (1.0 - 2.0 * x) / duration**2,
        is_moving * 60.0 * (1.0 - 6.0 * x * y) / duration**3,
        is_moving * 360.0 * (2.0 * x - 1.0) / duration**4,
    )


def cruise_profile(length: float, speed: float, acceleration: float) -> CruiseProfile:
    """v = min(speed, √(8aL/15)),  r = 15v/8a,  h = L/v − r: the fastest profile within both limits [m/s, m/s²] over a
    length [m]"""
    peak_speed = min(speed, math.sqrt(length * acceleration / PEAK_ACCELERATION_RATIO))
    ramp = PEAK_ACCELERATION_RATIO * peak_speed / acceleration
    return CruiseProfile(peak_speed, ramp, max(length / peak_speed - ramp, 0.0))


def cruise_motion(time: Scalar, profile: CruiseProfile) -> PathMotion:
    """ṡ = v (S(t) − S(t − r − h)), S the minimum-jerk step of duration r: s to s⁗, all but the last continuous, s = ∫ṡ"""
    ramp_up, ramp_down = (
        minimum_jerk(time, profile.ramp),
        minimum_jerk(time - profile.ramp - profile.hold, profile.ramp),
    )
    cruise_time = clamp(time - profile.ramp, 0.0, profile.hold)
    x, y = (clamp(t / profile.ramp, 0.0, 1.0) for t in (time, time - profile.ramp - profile.hold))
    return PathMotion(
        profile.speed * (profile.ramp * (_ramp_integral(x) + y - _ramp_integral(y)) + cruise_time),
        profile.speed * (ramp_up.s - ramp_down.s),
        profile.speed * (ramp_up.ds - ramp_down.ds),
        profile.speed * (ramp_up.dds - ramp_down.dds),
        profile.speed * (ramp_up.ddds - ramp_down.ddds),
    )


def _ramp_integral(x: Scalar) -> Scalar:
    """∫₀ˣ (10u³ − 15u⁴ + 6u⁵) du = x⁴ (5/2 − 3x + x²)"""
    return x * x * x * x * (2.5 + x * (x - 3.0))


def path_reference(path: PathDerivatives, motion: PathMotion) -> Reference:
    """v = p' ṡ,  a = p'' ṡ² + p' s̈,  j = p''' ṡ³ + 3 p'' ṡ s̈ + p' s⃛: the reference on a curve for a motion s(t)

    The snap is p'''' ṡ⁴ + 6 p''' ṡ² s̈ + p'' (3 s̈² + 4 ṡ s⃛) + p' s⁗, after Faà di Bruno.
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


def face_along_path(reference: Reference, path: PathDerivatives, motion: PathMotion) -> Reference:
    """ψ = ∠(p'_x, p'_y),  ψ' = (p'_x p''_y − p'_y p''_x) / l,  l = p'_x² + p'_y²: heading along the curve, also at rest

    ψ'' = (p'_x p'''_y − p'_y p'''_x − ψ' l') / l;  ψ̇ = ψ' ṡ,  ψ̈ = ψ'' ṡ² + ψ' s̈.
    """
    d, dd, ddd = path.d_W, path.dd_W, path.ddd_W
    horizontal = d.x * d.x + d.y * d.y
    yaw_slope = (d.x * dd.y - d.y * dd.x) / horizontal
    yaw_curvature = (d.x * ddd.y - d.y * ddd.x - yaw_slope * 2.0 * (d.x * dd.x + d.y * dd.y)) / horizontal
    return reference._replace(
        yaw=atan2(d.y, d.x),
        yaw_rate=yaw_slope * motion.ds,
        yaw_acceleration=yaw_curvature * motion.ds * motion.ds + yaw_slope * motion.dds,
    )


def legs_reference(time: Scalar, start_W: Vec3, legs: tuple[StraightLeg, ...], yaw: Scalar = 0.0) -> Reference:
    """p = p₀ + Σ s(t − tᵢ) (pᵢ₊₁ − pᵢ), leg after leg, and rest at the last position"""
    reference, position_W = Reference(start_W, yaw=yaw), start_W
    for leg in legs:
        s, ds, dds, ddds, dddds = minimum_jerk(time, leg.travel_duration)
        displacement_W = leg.p_W - position_W
        reference = reference._replace(
            p_W=reference.p_W + displacement_W * s,
            v_W=reference.v_W + displacement_W * ds,
            a_W=reference.a_W + displacement_W * dds,
            j_W=reference.j_W + displacement_W * ddds,
            s_W=reference.s_W + displacement_W * dddds,
        )
        time, position_W = time - leg.travel_duration - leg.rest_duration, leg.p_W
    return reference
