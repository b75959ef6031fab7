"""From a reference in motion to rest at a place, with the least jerk."""

from samara.core.algebra import Vec3, norm
from samara.core.ops import clamp, where
from samara.core.picklable import remade
from samara.core.quantity import Scalar
from samara.physics.reference import Reference
from samara.plan.trajectory import Trajectory, Waypoint

PEAK = 1.875  # of a minimum-jerk motion from rest to rest, in units of its mean speed
BRAKING = 2.0  # [m/s²]: how hard a motion is brought to rest
SHORTEST = 0.5  # [s]


@remade
def transfer(start: Reference, end_W: Vec3, *, speed: float) -> Trajectory:
    """p = p₀ + v₀t + ½a₀t² + c₃t³ + c₄t⁴ + c₅t⁵ to rest at the end: the least ∫ j² dt from p₀, v₀, a₀ in its time T

    T is what a motion from rest takes at that peak speed, and no less than what braking from v₀ takes.
    """
    if not speed > 0.0:
        raise ValueError(f"transfer: speed is {speed!r}; expected a positive number")
    way = end_W - start.p_W
    T = max(PEAK * norm(way) / speed, PEAK * norm(start.v_W) / BRAKING, SHORTEST)
    return Trajectory(
        "transfer", T, lambda time: _along(time, start, way, T), (Waypoint(0.0, start.p_W), Waypoint(T, end_W))
    )


def _along(time: Scalar, start: Reference, way: Vec3, T: float) -> Reference:
    t = clamp(time, 0.0, T)
    moving = where(time < T, 1.0, 0.0)
    rows = [_axis(t, *numbers, T) for numbers in zip(start.p_W, start.v_W, start.a_W, way, strict=True)]
    p, v, a, j, snap = (Vec3(*(row[k] for row in rows)) for k in range(5))
    return Reference(p, v * moving, a * moving, j * moving, yaw=start.yaw, s_W=snap * moving)


def _axis(t: Scalar, p0: Scalar, v0: Scalar, a0: Scalar, way: Scalar, T: float) -> tuple[Scalar, ...]:
    c3 = (20.0 * way - 12.0 * v0 * T - 3.0 * a0 * T**2) / (2.0 * T**3)
    c4 = (-30.0 * way + 16.0 * v0 * T + 3.0 * a0 * T**2) / (2.0 * T**4)
    c5 = (12.0 * way - 6.0 * v0 * T - a0 * T**2) / (2.0 * T**5)
    return (
        p0 + t * (v0 + t * (0.5 * a0 + t * (c3 + t * (c4 + t * c5)))),
        v0 + t * (a0 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5))),
        a0 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5)),
        6.0 * c3 + t * (24.0 * c4 + t * 60.0 * c5),
        24.0 * c4 + t * 120.0 * c5,
    )


def stop(start: Reference) -> Trajectory:
    """To rest ½ v₀ T ahead, T = 1.875 |v₀| / braking: the velocity falls to zero and never turns back"""
    speed = norm(start.v_W)
    ahead = start.v_W * (0.5 * max(PEAK * speed / BRAKING, SHORTEST))
    return transfer(start, start.p_W + ahead, speed=max(speed, 1.0))
