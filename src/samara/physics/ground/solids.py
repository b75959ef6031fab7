"""Solids: signed distance and outward normal of a point relative to a plane, sphere, capsule or box.

Distances are negative inside. The normal is the unit gradient of the distance: it points out of the solid.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import IDENTITY, Attitude, Vec3, dot, norm, rotate, rotate_inverse
from samara.core.ops import absolute, clamp, logical_and, maximum, minimum, safe_divide, where
from samara.core.quantity import Quantity, Scalar, Unit
from samara.physics.ground.contact import Ground

NearbyPosition: TypeAlias = Annotated[Vec3, Quantity("m", -2.0, 2.0)]
Axis: TypeAlias = Annotated[Vec3, Unit()]
Radius: TypeAlias = Annotated[Scalar, Quantity("m", 0.02, 0.5)]


class SurfaceDistance(NamedTuple):
    """Signed distance to a solid, and the outward unit normal."""

    distance: Scalar
    normal_W: Vec3


class Sphere(NamedTuple):
    """All points within a radius of a centre."""

    centre_W: Annotated[Vec3, Quantity("m", -2.0, 2.0)]
    radius: Annotated[Scalar, Quantity("m", 0.01, 2.0)]


class Capsule(NamedTuple):
    """All points within a radius of the segment from start to end: a pole, a cable, an arm."""

    start_W: Annotated[Vec3, Quantity("m", -2.0, 2.0)]
    end_W: Annotated[Vec3, Quantity("m", -1.0, 3.0)]
    radius: Annotated[Scalar, Quantity("m", 0.01, 1.0)]


class Box(NamedTuple):
    """A box: its centre, half its side lengths, and its attitude (box to world)."""

    centre_W: Annotated[Vec3, Quantity("m", -2.0, 2.0)]
    half: Annotated[Vec3, Quantity("m", 0.05, 2.0)]
    q_WS: Attitude = IDENTITY


def plane_distance(p_W: NearbyPosition, *, plane: Ground) -> SurfaceDistance:
    """d = (p − p₀)·n"""
    return SurfaceDistance(dot(p_W - plane.point_W, plane.normal_W), plane.normal_W)


def sphere_distance(p_W: NearbyPosition, *, sphere: Sphere) -> SurfaceDistance:
    """d = |p − c| − R,  n = (p − c)/|p − c|; exactly at the centre n is up"""
    return _radial_distance(p_W - sphere.centre_W, sphere.radius)


def capsule_distance(p_W: NearbyPosition, *, capsule: Capsule) -> SurfaceDistance:
    """d = |p − a − t (b − a)| − R,  t = (p − a)·(b − a)/|b − a|² within [0, 1]"""
    axis, offset = capsule.end_W - capsule.start_W, p_W - capsule.start_W
    t = clamp(safe_divide(dot(offset, axis), dot(axis, axis)), 0.0, 1.0)
    return _radial_distance(offset - axis * t, capsule.radius)


def _radial_distance(offset: Vec3, radius: Scalar) -> SurfaceDistance:
    distance = norm(offset)
    nonzero = distance > 0.0
    divisor = where(nonzero, distance, 1.0)
    return SurfaceDistance(
        distance - radius, Vec3(offset.x / divisor, offset.y / divisor, where(nonzero, offset.z / divisor, 1.0))
    )


def box_distance(p_W: NearbyPosition, *, box: Box) -> SurfaceDistance:
    """d = |max(q, 0)| + min(max(q), 0),  q = |p_S| − half: to the nearest corner, edge or face; inside to the nearest face"""
    p_S = rotate_inverse(box.q_WS, p_W - box.centre_W)
    sign = Vec3(*(where(x < 0.0, -1.0, 1.0) for x in p_S))
    q = Vec3(*(absolute(x) - h for x, h in zip(p_S, box.half, strict=True)))
    excess = Vec3(*(maximum(x, 0.0) for x in q))
    outer_distance = norm(excess)
    max_component = maximum(q.x, maximum(q.y, q.z))
    outside = outer_distance > 0.0
    divisor = where(outside, outer_distance, 1.0)
    x_face = logical_and(q.x >= q.y, q.x >= q.z)
    y_face = q.y >= q.z
    face = Vec3(
        where(x_face, 1.0, 0.0),
        where(x_face, 0.0, where(y_face, 1.0, 0.0)),
        where(x_face, 0.0, where(y_face, 0.0, 1.0)),
    )
    normal_S = Vec3(*(s * where(outside, o / divisor, f) for s, o, f in zip(sign, excess, face, strict=True)))
    return SurfaceDistance(outer_distance + minimum(max_component, 0.0), rotate(box.q_WS, normal_S))


def nearest_disc_point(centre_W: NearbyPosition, axis_W: Axis, toward_W: NearbyPosition, *, radius: Radius) -> Vec3:
    """Return the point of a disc nearest to `toward_W`: its projection onto the plane, limited to the rim."""
    offset = toward_W - centre_W
    in_plane = offset - axis_W * dot(offset, axis_W)
    in_plane_distance = norm(in_plane)
    return centre_W + in_plane * where(in_plane_distance > radius, safe_divide(radius, in_plane_distance), 1.0)
