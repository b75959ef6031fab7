"""Solids: how far a point is from a plane, sphere, capsule or box, and which way is out.

Distances are signed: negative inside. The normal is the unit gradient of the distance: it points out of the solid.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import IDENTITY, Attitude, Vec3, dot, norm, rotate, rotate_inverse
from samara.core.ops import absolute, clamp, logical_and, maximum, minimum, safe_divide, where
from samara.core.quantity import Quantity, Scalar, Unit
from samara.physics.ground.contact import Ground

Place: TypeAlias = Annotated[Vec3, Quantity("m", -2.0, 2.0)]
Axis: TypeAlias = Annotated[Vec3, Unit()]
Radius: TypeAlias = Annotated[Scalar, Quantity("m", 0.02, 0.5)]


class Touch(NamedTuple):
    """How far from a solid, and which way is out of it."""

    distance: Scalar
    normal_W: Vec3


class Sphere(NamedTuple):
    """All that is within a radius of a centre."""

    center_W: Annotated[Vec3, Quantity("m", -2.0, 2.0)]
    radius: Annotated[Scalar, Quantity("m", 0.01, 2.0)]


class Capsule(NamedTuple):
    """All that is within a radius of a line from a to b: a pole, a cable, an arm."""

    a_W: Annotated[Vec3, Quantity("m", -2.0, 2.0)]
    b_W: Annotated[Vec3, Quantity("m", -1.0, 3.0)]
    radius: Annotated[Scalar, Quantity("m", 0.01, 1.0)]


class Box(NamedTuple):
    """A box by its centre, its attitude (box to world) and half its sides."""

    center_W: Annotated[Vec3, Quantity("m", -2.0, 2.0)]
    half: Annotated[Vec3, Quantity("m", 0.05, 2.0)]
    q_WS: Attitude = IDENTITY


def touch_plane(p_W: Place, *, plane: Ground) -> Touch:
    """d = (p − p₀)·n"""
    return Touch(dot(p_W - plane.point_W, plane.normal_W), plane.normal_W)


def touch_sphere(p_W: Place, *, sphere: Sphere) -> Touch:
    """d = |p − c| − R,  n = (p − c)/|p − c|; at the very centre up is out"""
    return _around(p_W - sphere.center_W, sphere.radius)


def touch_capsule(p_W: Place, *, capsule: Capsule) -> Touch:
    """d = |p − a − t (b − a)| − R,  t = (p − a)·(b − a)/|b − a|² within [0, 1]"""
    along, own = capsule.b_W - capsule.a_W, p_W - capsule.a_W
    t = clamp(safe_divide(dot(own, along), dot(along, along)), 0.0, 1.0)
    return _around(own - along * t, capsule.radius)


def _around(own: Vec3, radius: Scalar) -> Touch:
    size = norm(own)
    there = size > 0.0
    divisor = where(there, size, 1.0)
    return Touch(size - radius, Vec3(own.x / divisor, own.y / divisor, where(there, own.z / divisor, 1.0)))


def touch_box(p_W: Place, *, box: Box) -> Touch:
    """d = |max(q, 0)| + min(max(q), 0),  q = |p_S| − half: by the nearest corner, edge or face; inside by the nearest face"""
    p_S = rotate_inverse(box.q_WS, p_W - box.center_W)
    sign = Vec3(*(where(x < 0.0, -1.0, 1.0) for x in p_S))
    q = Vec3(*(absolute(x) - h for x, h in zip(p_S, box.half, strict=True)))
    out = Vec3(*(maximum(x, 0.0) for x in q))
    beyond = norm(out)
    deepest = maximum(q.x, maximum(q.y, q.z))
    outside = beyond > 0.0
    divisor = where(outside, beyond, 1.0)
    x_face = logical_and(q.x >= q.y, q.x >= q.z)
    y_face = q.y >= q.z
    face = Vec3(
        where(x_face, 1.0, 0.0),
        where(x_face, 0.0, where(y_face, 1.0, 0.0)),
        where(x_face, 0.0, where(y_face, 0.0, 1.0)),
    )
    normal_S = Vec3(*(s * where(outside, o / divisor, f) for s, o, f in zip(sign, out, face, strict=True)))
    return Touch(beyond + minimum(deepest, 0.0), rotate(box.q_WS, normal_S))


def disc_point(center_W: Place, axis_W: Axis, toward_W: Place, *, radius: Radius) -> Vec3:
    """The point of a disc nearest to another point: projected onto its plane, and drawn in to its rim"""
    away = toward_W - center_W
    flat = away - axis_W * dot(away, axis_W)
    size = norm(flat)
    return center_W + flat * where(size > radius, safe_divide(radius, size), 1.0)
