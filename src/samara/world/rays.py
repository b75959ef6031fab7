"""Ray casting: the distance along a ray to the surface of a solid, in closed form.

    first_hit_distance(ray, solids)                     the distance of the nearest solid [m]; 1e9 without a hit, 0 from inside
    hit_distance(ray_terms(p_W, solid), d_W, nearest)   the same for one solid, in two steps; `nearest` bounds the result
    surface_hit(ray, solid)                             the distance of a solid, and the normal and texture coordinates there

`obstacles.ray_distance` computes the same distance by Newton's method, with a clearance. Cameras and lidars need it a hundred
thousand times a second, and these functions take about thirty operations each. The rays of an image share their origin: terms
that depend on it alone are in `ray_terms` and `is_inside`, and are computed once for all rays where values broadcast.

Selections use a single comparison, which may lose a NaN; `propagate_nan` restores it once, at the end.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from samara.core.algebra import Mat3, Vec3, cross, direction, dot, matrix_from_quat
from samara.core.ops import (
    absolute,
    asin,
    atan2,
    clamp,
    fast_maximum,
    fast_minimum,
    logical_and,
    logical_or,
    sqrt,
    where,
)
from samara.core.quantity import Scalar
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere, capsule_distance
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid, ray_distance

PARALLEL_TOLERANCE = 1e-12  # a ray whose direction has a smaller component along an axis is parallel to it
_MAX_FINITE = 1e38  # in single precision; a comparison with it is false for NaN, and no compiler folds it away


class PlaneRayTerms(NamedTuple):
    """Height of the ray origin above a plane [m], and the plane's outward normal."""

    height: Scalar
    normal_W: Vec3


class SphereRayTerms(NamedTuple):
    """m = p − centre,  c = m·m − R²"""

    m_W: Vec3
    c: Scalar


class CapsuleRayTerms(NamedTuple):
    """u = b − a,  m = p − a;  u·u,  u·m;  m·m − R² of the balls at a and b,  C of the cylinder, and the surface distance."""

    u_W: Vec3
    m_W: Vec3
    uu: Scalar
    um: Scalar
    c_a: Scalar
    c_b: Scalar
    c: Scalar
    gap: Scalar


class BoxRayTerms(NamedTuple):
    """Rotation from the world to the box frame, the ray origin in the box frame, and half the side lengths."""

    to_box: Mat3
    m: Vec3
    half: Vec3


RayTerms: TypeAlias = PlaneRayTerms | SphereRayTerms | CapsuleRayTerms | BoxRayTerms


def ray_terms(p_W: Vec3, solid: Ground | Sphere | Capsule | Box) -> RayTerms:
    """Precompute the terms that all rays from one point to a solid share."""
    if isinstance(solid, Sphere):
        m_W = p_W - solid.centre_W
        return SphereRayTerms(m_W, dot(m_W, m_W) - solid.radius * solid.radius)
    if isinstance(solid, Capsule):
        u_W, m_W = solid.end_W - solid.start_W, p_W - solid.start_W
        uu, um, c_a = dot(u_W, u_W), dot(u_W, m_W), dot(m_W, m_W) - solid.radius * solid.radius
        gap = capsule_distance(p_W, capsule=solid).distance
        c = uu * c_a - um * um - PARALLEL_TOLERANCE * PARALLEL_TOLERANCE  # keeps C nonzero for a capsule of length 0
        return CapsuleRayTerms(u_W, m_W, uu, um, c_a, c_a - 2.0 * um + uu, c, gap)
    if isinstance(solid, Box):
        to_box = matrix_from_quat(solid.q_WS).transpose
        return BoxRayTerms(to_box, to_box @ (p_W - solid.centre_W), solid.half)
    return PlaneRayTerms(dot(p_W - solid.point_W, solid.normal_W), solid.normal_W)


def is_inside(terms: RayTerms) -> Scalar:
    """Return whether the ray origin is inside the solid."""
    if isinstance(terms, SphereRayTerms):
        return terms.c <= 0.0
    if isinstance(terms, CapsuleRayTerms):
        return terms.gap <= 0.0
    if isinstance(terms, PlaneRayTerms):
        return terms.height <= 0.0
    x, y, z = (absolute(offset) <= half for offset, half in zip(terms.m, terms.half, strict=True))
    return logical_and(logical_and(x, y), z)


def support_distance(terms: RayTerms, n_W: Vec3) -> Scalar:
    """max n·(x − p) over all x of the solid: its extent along the unit vector n from the ray origin; 1e9 for a plane  [m]"""
    if isinstance(terms, PlaneRayTerms):
        return NEVER
    if isinstance(terms, BoxRayTerms):
        n = terms.to_box @ n_W
        return sum(
            (absolute(component) * half for component, half in zip(n, terms.half, strict=True)), -dot(n, terms.m)
        )
    c = terms.c if isinstance(terms, SphereRayTerms) else terms.c_a
    radius = sqrt(fast_maximum(dot(terms.m_W, terms.m_W) - c, 0.0))
    middle = radius - dot(n_W, terms.m_W)
    return middle if isinstance(terms, SphereRayTerms) else middle + fast_maximum(dot(n_W, terms.u_W), 0.0)


def hit_distance(terms: RayTerms, d_W: Vec3, nearest: Scalar) -> Scalar:
    """Return the lesser of `nearest` and the distance of the solid along the unit vector d; the origin is outside it  [m]."""
    if isinstance(terms, SphereRayTerms):
        return sphere_hit_distance(terms, d_W, nearest)
    if isinstance(terms, CapsuleRayTerms):
        return capsule_hit_distance(terms, d_W, nearest)
    return (
        box_hit_distance(terms, d_W, nearest)
        if isinstance(terms, BoxRayTerms)
        else plane_hit_distance(terms, d_W, nearest)
    )


def plane_hit_distance(terms: PlaneRayTerms, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = h / −d·n, if the ray descends  [m]"""
    descent = -dot(d_W, terms.normal_W)
    is_descending = descent > PARALLEL_TOLERANCE
    distance = terms.height / where(is_descending, descent, 1.0)
    return where(logical_and(is_descending, distance < nearest), distance, nearest)


def sphere_hit_distance(terms: SphereRayTerms, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = −b − √(b² − c),  b = m·d  [m]"""
    b = dot(terms.m_W, d_W)
    root = b * b - terms.c
    is_hit = root > 0.0
    distance = -b - sqrt(where(is_hit, root, 1.0))
    return where(logical_and(logical_and(is_hit, distance > 0.0), distance < nearest), distance, nearest)


def capsule_hit_distance(terms: CapsuleRayTerms, d_W: Vec3, nearest: Scalar) -> Scalar:
    """A s² + 2 B s + C = 0 of the cylinder,  A = u·u − (u·d)²,  B = (u·u)(m·d) − (u·m)(u·d),  C = (u·u)(m·m − R²) − (u·m)²  [m]

    If that point is beyond an end of u, the ray hits the ball at this end or nothing: between that end and the cylinder it
    has to pass through the ball.
    """
    ud, md = dot(terms.u_W, d_W), dot(terms.m_W, d_W)
    a, b = fast_maximum(terms.uu - ud * ud, PARALLEL_TOLERANCE), terms.uu * md - terms.um * ud
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


def box_hit_distance(terms: BoxRayTerms, d_W: Vec3, nearest: Scalar) -> Scalar:
    """s = maxᵢ (−mᵢ/dᵢ − hᵢ/|dᵢ|) if it does not exceed minᵢ (−mᵢ/dᵢ + hᵢ/|dᵢ|), in the box frame  [m]"""
    entry_distance: Scalar = 0.0
    exit_distance: Scalar = nearest
    for offset, slope, half in zip(terms.m, terms.to_box @ d_W, terms.half, strict=True):
        inverse = 1.0 / where(absolute(slope) > PARALLEL_TOLERANCE, slope, PARALLEL_TOLERANCE)
        middle, half_width = offset * inverse, half * absolute(inverse)
        entry_distance, exit_distance = (
            fast_maximum(-middle - half_width, entry_distance),
            fast_minimum(half_width - middle, exit_distance),
        )
    return where(entry_distance <= exit_distance, entry_distance, nearest)


def ray_hit_distance(ray: Ray, solid: Solid, nearest: Scalar = NEVER) -> Scalar:
    """Return the lesser of `nearest` and the distance of a solid of any type along a ray; height maps are marched  [m]."""
    if isinstance(solid, HeightMap):
        return fast_minimum(ray_distance(ray, solid), nearest)
    terms = ray_terms(ray.p_W, solid)
    return hit_distance(terms, ray.direction_W, where(is_inside(terms), 0.0, nearest))


def first_hit_distance(ray: Ray, solids: Sequence[Solid], nearest: Scalar = NEVER) -> Scalar:
    """Return the least of `nearest` and the distances of all solids [m]; NaN if the ray contains one."""
    for solid in solids:
        nearest = ray_hit_distance(ray, solid, nearest)
    return propagate_nan(ray, nearest)


def propagate_nan(ray: Ray, distance: Scalar) -> Scalar:
    """Return the distance, or NaN where the ray contains one."""
    p, d = ray.p_W, ray.direction_W
    total = (p.x + p.y + p.z) + (d.x + d.y + d.z)
    return where(absolute(total) < _MAX_FINITE, distance, total)


# The surface at a hit --------------------------------------------------------------------------------------------------


class SurfacePoint(NamedTuple):
    """A point of a surface: the outward unit normal, and texture coordinates along the surface [m]."""

    normal_W: Vec3
    u: Scalar
    v: Scalar


class SurfaceTerms(NamedTuple):
    """The terms of the distance, and those of normal and texture coordinates, that all rays from one point share."""

    ray: RayTerms
    axes: tuple[Vec3, ...] = ()
    numbers: tuple[Scalar, ...] = ()


class Hit(NamedTuple):
    """The hit of a ray on a solid: the distance [m], and the normal and texture coordinates of the surface there."""

    distance: Scalar
    point: SurfacePoint


def surface_hit(ray: Ray, solid: Solid, nearest: Scalar = NEVER) -> Hit:
    """Return the hit on a solid of any type at `ray_hit_distance`; the surface means nothing at `nearest`."""
    distance = ray_hit_distance(ray, solid, nearest)
    return Hit(distance, surface_point(ray, solid, distance))


def surface_point(ray: Ray, solid: Solid, distance: Scalar) -> SurfacePoint:
    """Return the surface of a solid of any type at a distance along a ray."""
    if isinstance(solid, HeightMap):
        p_W = ray.p_W + ray.direction_W * distance
        return SurfacePoint(solid.tangent_plane(p_W).normal_W, p_W.x, p_W.y)
    return hit_point(surface_terms(ray.p_W, solid), ray.direction_W, distance)


def surface_terms(p_W: Vec3, solid: Ground | Sphere | Capsule | Box) -> SurfaceTerms:
    """Precompute the terms of `hit_point`; those of a box are the terms of its distance."""
    terms = ray_terms(p_W, solid)
    if isinstance(solid, Sphere):
        return SurfaceTerms(terms, (), (solid.radius, 1.0 / solid.radius))
    if isinstance(solid, Capsule) and isinstance(terms, CapsuleRayTerms):
        uu = fast_maximum(terms.uu, PARALLEL_TOLERANCE)
        a_W, b_W = _tangents(terms.u_W / sqrt(uu))
        return SurfaceTerms(terms, (a_W, b_W), (solid.radius, 1.0 / solid.radius, 1.0 / uu, 1.0 / sqrt(uu)))
    if isinstance(solid, Ground):
        a_W, b_W = _tangents(solid.normal_W)
        r_W = p_W - solid.point_W
        return SurfaceTerms(terms, (a_W, b_W), (dot(r_W, a_W), dot(r_W, b_W)))
    return SurfaceTerms(terms)


def _tangents(n: Vec3) -> tuple[Vec3, Vec3]:
    """a ∝ (n_z, 0, −n_x), b = n × a: x and y for an upward normal; a = x for a normal nearly along y"""
    is_regular = absolute(n.y) < 0.999
    a = Vec3(where(is_regular, n.z, 1.0), 0.0, where(is_regular, -n.x, 0.0))
    a = direction(a)
    return a, cross(n, a)


def hit_point(terms: SurfaceTerms, d_W: Vec3, distance: Scalar) -> SurfacePoint:
    """Return the surface at p + s d. Coordinates: along a plane; latitude and azimuth of a sphere; along and around a capsule;
    those of a box's face in the order of its axes  [m]"""
    shape = terms.ray
    if isinstance(shape, PlaneRayTerms):
        (a_W, b_W), (a, b) = terms.axes, terms.numbers
        return SurfacePoint(shape.normal_W, a + distance * dot(d_W, a_W), b + distance * dot(d_W, b_W))
    if isinstance(shape, BoxRayTerms):
        return _box_point(shape, d_W, distance)
    offset_W = shape.m_W + d_W * distance
    if isinstance(shape, SphereRayTerms):
        radius, inverse = terms.numbers
        n = offset_W * inverse
        return SurfacePoint(n, radius * asin(clamp(n.z, -1.0, 1.0)), radius * atan2(n.y, n.x))
    (a_W, b_W), (radius, inverse, inverse_uu, inverse_length) = terms.axes, terms.numbers
    along = dot(offset_W, shape.u_W)
    n = (offset_W - shape.u_W * clamp(along * inverse_uu, 0.0, 1.0)) * inverse
    return SurfacePoint(n, along * inverse_length, radius * atan2(dot(n, b_W), dot(n, a_W)))


def _box_point(terms: BoxRayTerms, d_W: Vec3, distance: Scalar) -> SurfacePoint:
    """n = ±eₖ of the face with the greatest |xₖ| − hₖ, in the box frame"""
    x, y, z = terms.m + (terms.to_box @ d_W) * distance
    excess_x, excess_y, excess_z = (absolute(a) - half for a, half in zip((x, y, z), terms.half, strict=True))
    is_x = logical_and(excess_x >= excess_y, excess_x >= excess_z)
    is_y = excess_y >= excess_z

    def select(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
        return where(is_x, a, where(is_y, b, c))

    sign = where(select(x, y, z) < 0.0, -1.0, 1.0)
    n_W = Vec3(*(select(a, b, c) * sign for a, b, c in zip(*terms.to_box.rows, strict=True)))
    return SurfacePoint(n_W, where(is_x, y, x), where(logical_or(is_x, is_y), z, y))
