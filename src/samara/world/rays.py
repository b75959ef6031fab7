"""Rays: how far along a half line the surface of a solid is, in closed form.

    first_hit(ray, solids)                       the nearest of all [m]; 1e9 where none is met, 0 from inside one
    along(seen_from(p_W, solid), d_W, nearest)   the same of one, in two steps, where it is nearer than what was met before

`obstacles.distance_along` answers the same question by Newton's method, with a clearance; cameras and lidars ask it a hundred
thousand times a second, and these take some thirty operations each. The rays of a picture share their start: what depends on
it alone is `seen_from` and `is_inside`, and is computed once for all of them wherever numbers broadcast.

Selections are by one comparison, which may lose a NaN; whether a ray is of numbers is asked once, at the end (`kept_nan`).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from samara.core.algebra import Mat3, Vec3, dot, matrix_from_quat
from samara.core.ops import absolute, greater_of, lesser_of, logical_and, logical_or, sqrt, where
from samara.core.quantity import Scalar
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere, touch_capsule
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid, distance_along

LEAST = 1e-12  # how little a ray leans against an axis or a plane that it is taken to be parallel to
_LARGEST = 1e38  # of single precision; a comparison with it is false of NaN, and no compiler folds it away


class PlaneSeen(NamedTuple):
    """How high above it, and which way is out."""

    height: Scalar
    normal_W: Vec3


class SphereSeen(NamedTuple):
    """m = p − centre,  c = m·m − R²"""

    m_W: Vec3
    c: Scalar


class CapsuleSeen(NamedTuple):
    """u = b − a,  m = p − a;  u·u,  u·m;  of the balls at a and b m·m − R²,  of the cylinder C, and how far its surface is."""

    u_W: Vec3
    m_W: Vec3
    uu: Scalar
    um: Scalar
    c_a: Scalar
    c_b: Scalar
    c: Scalar
    gap: Scalar


class BoxSeen(NamedTuple):
    """From the world into its axes, where the start is in them, and half its sides."""

    to_box: Mat3
    m: Vec3
    half: Vec3


Seen: TypeAlias = PlaneSeen | SphereSeen | CapsuleSeen | BoxSeen


def seen_from(p_W: Vec3, solid: Ground | Sphere | Capsule | Box) -> Seen:
    """What all rays from a point to a solid have in common"""
    if isinstance(solid, Sphere):
        m_W = p_W - solid.center_W
        return SphereSeen(m_W, dot(m_W, m_W) - solid.radius * solid.radius)
    if isinstance(solid, Capsule):
        u_W, m_W = solid.b_W - solid.a_W, p_W - solid.a_W
        uu, um, c_a = dot(u_W, u_W), dot(u_W, m_W), dot(m_W, m_W) - solid.radius * solid.radius
        gap = touch_capsule(p_W, capsule=solid).distance
        c = uu * c_a - um * um - LEAST * LEAST  # of one without length it is not 0
        return CapsuleSeen(u_W, m_W, uu, um, c_a, c_a - 2.0 * um + uu, c, gap)
    if isinstance(solid, Box):
        to_box = matrix_from_quat(solid.q_WS).transpose
        return BoxSeen(to_box, to_box @ (p_W - solid.center_W), solid.half)
    return PlaneSeen(dot(p_W - solid.point_W, solid.normal_W), solid.normal_W)


def is_inside(seen: Seen) -> Scalar:
    """Whether all rays begin in it"""
    if isinstance(seen, SphereSeen):
        return seen.c <= 0.0
    if isinstance(seen, CapsuleSeen):
        return seen.gap <= 0.0
    if isinstance(seen, PlaneSeen):
        return seen.height <= 0.0
    x, y, z = (absolute(own) <= half for own, half in zip(seen.m, seen.half, strict=True))
    return logical_and(logical_and(x, y), z)


def reach(seen: Seen, n_W: Vec3) -> Scalar:
    """max of n·(x − p) over all x in it: how far it gets along a unit vector from where it is seen; a plane, everywhere  [m]"""
    if isinstance(seen, PlaneSeen):
        return NEVER
    if isinstance(seen, BoxSeen):
        n = seen.to_box @ n_W
        return sum((absolute(own) * half for own, half in zip(n, seen.half, strict=True)), -dot(n, seen.m))
    c = seen.c if isinstance(seen, SphereSeen) else seen.c_a
    radius = sqrt(greater_of(dot(seen.m_W, seen.m_W) - c, 0.0))
    middle = radius - dot(n_W, seen.m_W)
    return middle if isinstance(seen, SphereSeen) else middle + greater_of(dot(n_W, seen.u_W), 0.0)


def along(seen: Seen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """The lesser of `nearest` and how far along a direction, a unit vector, what was seen from outside it is  [m]"""
    if isinstance(seen, SphereSeen):
        return along_sphere(seen, d_W, nearest)
    if isinstance(seen, CapsuleSeen):
        return along_capsule(seen, d_W, nearest)
    return along_box(seen, d_W, nearest) if isinstance(seen, BoxSeen) else along_plane(seen, d_W, nearest)


def along_plane(seen: PlaneSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = h / −d·n, where it goes down  [m]"""
    sinking = -dot(d_W, seen.normal_W)
    down = sinking > LEAST
    distance = seen.height / where(down, sinking, 1.0)
    return where(logical_and(down, distance < nearest), distance, nearest)


def along_sphere(seen: SphereSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = −b − √(b² − c),  b = m·d  [m]"""
    b = dot(seen.m_W, d_W)
    root = b * b - seen.c
    met = root > 0.0
    distance = -b - sqrt(where(met, root, 1.0))
    return where(logical_and(logical_and(met, distance > 0.0), distance < nearest), distance, nearest)


def along_capsule(seen: CapsuleSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """A s² + 2 B s + C = 0 of the cylinder,  A = u·u − (u·d)²,  B = (u·u)(m·d) − (u·m)(u·d),  C = (u·u)(m·m − R²) − (u·m)²  [m]

    Where that is beyond an end of u, the ball about this end is met or nothing is: on the way from there to the cylinder a ray
    has to pass the ball.
    """
    ud, md = dot(seen.u_W, d_W), dot(seen.m_W, d_W)
    a, b = greater_of(seen.uu - ud * ud, LEAST), seen.uu * md - seen.um * ud
    root = b * b - a * seen.c
    met = root > 0.0
    side = (-b - sqrt(where(met, root, 1.0))) / a
    y = seen.um + side * ud  # along u, times its length: from 0 to u·u between the ends
    first = y <= 0.0
    b_ball, c_ball = where(first, md, md - ud), where(first, seen.c_a, seen.c_b)
    root_ball = b_ball * b_ball - c_ball
    round_end = root_ball > 0.0
    ball = -b_ball - sqrt(where(round_end, root_ball, 1.0))
    between = logical_and(y > 0.0, y < seen.uu)
    distance = where(between, side, ball)
    met = logical_and(met, logical_or(between, round_end))
    return where(logical_and(logical_and(met, distance > 0.0), distance < nearest), distance, nearest)


def along_box(seen: BoxSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = maxᵢ (−mᵢ/dᵢ − hᵢ/|dᵢ|) where it is not beyond minᵢ (−mᵢ/dᵢ + hᵢ/|dᵢ|), in the axes of the box  [m]"""
    near: Scalar = 0.0
    far: Scalar = nearest
    for own, slope, half in zip(seen.m, seen.to_box @ d_W, seen.half, strict=True):
        inverse = 1.0 / where(absolute(slope) > LEAST, slope, LEAST)
        middle, reach = own * inverse, half * absolute(inverse)
        near, far = greater_of(-middle - reach, near), lesser_of(reach - middle, far)
    return where(near <= far, near, nearest)


def hit(ray: Ray, solid: Solid, nearest: Scalar = NEVER) -> Scalar:
    """The lesser of `nearest` and how far along a ray a solid of any kind is  [m]; a height map is marched along"""
    if isinstance(solid, HeightMap):
        return lesser_of(distance_along(ray, solid), nearest)
    seen = seen_from(ray.p_W, solid)
    return along(seen, ray.direction_W, where(is_inside(seen), 0.0, nearest))


def first_hit(ray: Ray, solids: Sequence[Solid], nearest: Scalar = NEVER) -> Scalar:
    """The least of `nearest` and of all hits  [m]; along a ray that is not of numbers it is not a number either"""
    for solid in solids:
        nearest = hit(ray, solid, nearest)
    return kept_nan(ray, nearest)


def kept_nan(ray: Ray, distance: Scalar) -> Scalar:
    """The distance, or NaN where the ray has one"""
    p, d = ray.p_W, ray.direction_W
    total = (p.x + p.y + p.z) + (d.x + d.y + d.z)
    return where(absolute(total) < _LARGEST, distance, total)
