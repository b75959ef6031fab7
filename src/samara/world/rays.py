"""Ray casting: the distance along a ray to the surface of a solid, in closed form.

    first_hit(ray, solids)                       the distance of the nearest solid [m]; 1e9 without a hit, 0 from inside
    along(seen_from(p_W, solid), d_W, nearest)   the same for one solid, in two steps; `nearest` bounds the result

`obstacles.distance_along` computes the same distance by Newton's method, with a clearance. Cameras and lidars need it a hundred
thousand times a second, and these functions take about thirty operations each. The rays of an image share their origin: terms
that depend on it alone are in `seen_from` and `is_inside`, and are computed once for all rays where values broadcast.

Selections use a single comparison, which may lose a NaN; `kept_nan` restores it once, at the end.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from samara.core.algebra import Mat3, Vec3, dot, matrix_from_quat
from samara.core.ops import absolute, greater_of, lesser_of, logical_and, logical_or, sqrt, where
from samara.core.quantity import Scalar
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere, touch_capsule
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid, distance_along

LEAST = 1e-12  # a ray whose direction has a smaller component along an axis is parallel to it
_MAX_FINITE = 1e38  # in single precision; a comparison with it is false for NaN, and no compiler folds it away


class PlaneSeen(NamedTuple):
    """Height of the ray origin above a plane [m], and the plane's outward normal."""

    height: Scalar
    normal_W: Vec3


class SphereSeen(NamedTuple):
    """m = p − centre,  c = m·m − R²"""

    m_W: Vec3
    c: Scalar


class CapsuleSeen(NamedTuple):
    """u = b − a,  m = p − a;  u·u,  u·m;  m·m − R² of the balls at a and b,  C of the cylinder, and the surface distance."""

    u_W: Vec3
    m_W: Vec3
    uu: Scalar
    um: Scalar
    c_a: Scalar
    c_b: Scalar
    c: Scalar
    gap: Scalar


class BoxSeen(NamedTuple):
    """Rotation from the world to the box frame, the ray origin in the box frame, and half the side lengths."""

    to_box: Mat3
    m: Vec3
    half: Vec3


Seen: TypeAlias = PlaneSeen | SphereSeen | CapsuleSeen | BoxSeen


def seen_from(p_W: Vec3, solid: Ground | Sphere | Capsule | Box) -> Seen:
    """Precompute the terms that all rays from one point to a solid share."""
    if isinstance(solid, Sphere):
        m_W = p_W - solid.center_W
        return SphereSeen(m_W, dot(m_W, m_W) - solid.radius * solid.radius)
    if isinstance(solid, Capsule):
        u_W, m_W = solid.b_W - solid.a_W, p_W - solid.a_W
        uu, um, c_a = dot(u_W, u_W), dot(u_W, m_W), dot(m_W, m_W) - solid.radius * solid.radius
        gap = touch_capsule(p_W, capsule=solid).distance
        c = uu * c_a - um * um - LEAST * LEAST  # keeps C nonzero for a capsule of length 0
        return CapsuleSeen(u_W, m_W, uu, um, c_a, c_a - 2.0 * um + uu, c, gap)
    if isinstance(solid, Box):
        to_box = matrix_from_quat(solid.q_WS).transpose
        return BoxSeen(to_box, to_box @ (p_W - solid.center_W), solid.half)
    return PlaneSeen(dot(p_W - solid.point_W, solid.normal_W), solid.normal_W)


def is_inside(terms: Seen) -> Scalar:
    """Return whether the ray origin is inside the solid."""
    if isinstance(terms, SphereSeen):
        return terms.c <= 0.0
    if isinstance(terms, CapsuleSeen):
        return terms.gap <= 0.0
    if isinstance(terms, PlaneSeen):
        return terms.height <= 0.0
    x, y, z = (absolute(offset) <= half for offset, half in zip(terms.m, terms.half, strict=True))
    return logical_and(logical_and(x, y), z)


def reach(terms: Seen, n_W: Vec3) -> Scalar:
    """max n·(x − p) over all x of the solid: its extent along the unit vector n from the ray origin; 1e9 for a plane  [m]"""
    if isinstance(terms, PlaneSeen):
        return NEVER
    if isinstance(terms, BoxSeen):
        n = terms.to_box @ n_W
        return sum(
            (absolute(component) * half for component, half in zip(n, terms.half, strict=True)), -dot(n, terms.m)
        )
    c = terms.c if isinstance(terms, SphereSeen) else terms.c_a
    radius = sqrt(greater_of(dot(terms.m_W, terms.m_W) - c, 0.0))
    middle = radius - dot(n_W, terms.m_W)
    return middle if isinstance(terms, SphereSeen) else middle + greater_of(dot(n_W, terms.u_W), 0.0)


def along(terms: Seen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """Return the lesser of `nearest` and the distance of the solid along the unit vector d; the origin is outside it  [m]."""
    if isinstance(terms, SphereSeen):
        return along_sphere(terms, d_W, nearest)
    if isinstance(terms, CapsuleSeen):
        return along_capsule(terms, d_W, nearest)
    return along_box(terms, d_W, nearest) if isinstance(terms, BoxSeen) else along_plane(terms, d_W, nearest)


def along_plane(terms: PlaneSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = h / −d·n, if the ray descends  [m]"""
    descent = -dot(d_W, terms.normal_W)
    is_descending = descent > LEAST
    distance = terms.height / where(is_descending, descent, 1.0)
    return where(logical_and(is_descending, distance < nearest), distance, nearest)


def along_sphere(terms: SphereSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = −b − √(b² − c),  b = m·d  [m]"""
    b = dot(terms.m_W, d_W)
    root = b * b - terms.c
    is_hit = root > 0.0
    distance = -b - sqrt(where(is_hit, root, 1.0))
    return where(logical_and(logical_and(is_hit, distance > 0.0), distance < nearest), distance, nearest)


def along_capsule(terms: CapsuleSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """A s² + 2 B s + C = 0 of the cylinder,  A = u·u − (u·d)²,  B = (u·u)(m·d) − (u·m)(u·d),  C = (u·u)(m·m − R²) − (u·m)²  [m]

    If that point is beyond an end of u, the ray hits the ball at this end or nothing: between that end and the cylinder it
    has to pass through the ball.
    """
    ud, md = dot(terms.u_W, d_W), dot(terms.m_W, d_W)
    a, b = greater_of(terms.uu - ud * ud, LEAST), terms.uu * md - terms.um * ud
    root = b * b - a * terms.c
    is_hit = root > 0.0
    side = (-b - sqrt(where(is_hit, root, 1.0))) / a
    y = terms.um + side * ud  # along u, times its length: from 0 to u·u between the ends
    is_first_end = y <= 0.0
    b_ball, c_ball = where(is_first_end, md, md - ud), where(is_first_end, terms.c_a, terms.c_b)
    root_ball = b_ball * b_ball - c_ball
    hits_ball = root_ball > 0.0
    ball = -b_ball - sqrt(where(hits_ball, root_ball, 1.0))
    between = logical_and(y > 0.0, y < terms.uu)
    distance = where(between, side, ball)
    is_hit = logical_and(is_hit, logical_or(between, hits_ball))
    return where(logical_and(logical_and(is_hit, distance > 0.0), distance < nearest), distance, nearest)


def along_box(terms: BoxSeen, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = maxᵢ (−mᵢ/dᵢ − hᵢ/|dᵢ|) if it does not exceed minᵢ (−mᵢ/dᵢ + hᵢ/|dᵢ|), in the box frame  [m]"""
    entry_distance: Scalar = 0.0
    exit_distance: Scalar = nearest
    for offset, slope, half in zip(terms.m, terms.to_box @ d_W, terms.half, strict=True):
        inverse = 1.0 / where(absolute(slope) > LEAST, slope, LEAST)
        middle, half_width = offset * inverse, half * absolute(inverse)
        entry_distance, exit_distance = (
            greater_of(-middle - half_width, entry_distance),
            lesser_of(half_width - middle, exit_distance),
        )
    return where(entry_distance <= exit_distance, entry_distance, nearest)


def hit(ray: Ray, solid: Solid, nearest: Scalar = NEVER) -> Scalar:
    """Return the lesser of `nearest` and the distance of a solid of any type along a ray; height maps are marched  [m]."""
    if isinstance(solid, HeightMap):
        return lesser_of(distance_along(ray, solid), nearest)
    terms = seen_from(ray.p_W, solid)
    return along(terms, ray.direction_W, where(is_inside(terms), 0.0, nearest))


def first_hit(ray: Ray, solids: Sequence[Solid], nearest: Scalar = NEVER) -> Scalar:
    """Return the least of `nearest` and the distances of all solids [m]; NaN if the ray contains one."""
    for solid in solids:
        nearest = hit(ray, solid, nearest)
    return kept_nan(ray, nearest)


def kept_nan(ray: Ray, distance: Scalar) -> Scalar:
    """Return the distance, or NaN where the ray contains one."""
    p, d = ray.p_W, ray.direction_W
    total = (p.x + p.y + p.z) + (d.x + d.y + d.z)
    return where(absolute(total) < _MAX_FINITE, distance, total)
