"""Rigid links in one frame, combined into one mass and inertia; some of them are rotors (SDF, URDF, MJCF)."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Mat3, Quat, Vec3, dot, matrix_from_quat, rotate
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, UncertainVector
from samara.vehicles.exchange.safe_xml import XmlNode
from samara.vehicles.parts.uncertain import UncertainValue, exact_value
from samara.vehicles.payload import point_inertia


class LinkPose(NamedTuple):
    """Position and orientation of a frame in another."""

    p: Vec3 = ZERO
    q: Quat = IDENTITY

    def compose(self, other: "LinkPose") -> "LinkPose":
        """Express a pose in this frame in the outer frame: p + R p', q ⊗ q'"""
        return LinkPose(self.p + rotate(self.q, other.p), self.q * other.q)

    def transform_point(self, point: Vec3) -> Vec3:
        """p + R r"""
        return self.p + rotate(self.q, point)


IDENTITY_POSE = LinkPose()


class RigidBody(NamedTuple):
    """A rigid body: its mass, its centre of mass, and its inertia about the centre of mass, in the axes of one
    frame."""

    mass: float
    centre: Vec3
    inertia: Mat3


def transform_body(body: RigidBody, pose: LinkPose) -> RigidBody:
    """Transform a body from a frame with this pose: c' = p + R c,  J' = R J Rᵀ, exactly symmetric"""
    rotation = matrix_from_quat(pose.q)
    rotated = rotation @ body.inertia @ rotation.transpose
    return RigidBody(body.mass, pose.transform_point(body.centre), (rotated + rotated.transpose) * 0.5)


def combine_bodies(parts: Iterable[RigidBody]) -> RigidBody:
    """m = Σ mᵢ,  c = Σ mᵢ cᵢ / m,  J = Σ (Jᵢ + mᵢ (d·d I − d dᵀ)), d = cᵢ − c (Steiner)"""
    bodies = list(parts)
    mass = sum(part.mass for part in bodies)
    centre = sum((part.centre * part.mass for part in bodies), ZERO) / mass if mass > 0.0 else ZERO
    inertia = Mat3(*(0.0,) * 9)
    for part in bodies:
        inertia = inertia + part.inertia + point_inertia(part.mass, part.centre - centre)
    return RigidBody(mass, centre, inertia)


def symmetric_matrix(xx: float, xy: float, xz: float, yy: float, yz: float, zz: float) -> Mat3:
    """Return an inertia matrix from its six entries, as in XML formats."""
    return Mat3(xx, xy, xz, xy, yy, yz, xz, yz, zz)


_LEVEL_TOLERANCE = 5e-3  # [m] above the lowest point: such points stand on the ground too
_RIM_POINTS = 8  # points on the rim of a cylinder


class CollisionShape(NamedTuple):
    """A collision shape in its link: "box" with its sides, "cylinder" with radius and length, "sphere" with its radius."""

    type: str
    size: tuple[float, ...]
    pose: LinkPose

    @property
    def half_width(self) -> float:
        """Half of the width: the radius of a propeller of this shape  [m]."""
        return 0.5 * max(self.size) if self.type == "box" else self.size[0]

    def points(self) -> list[Vec3]:
        """Return corners, or points around the rims; of a sphere only the lowest point."""
        if self.type == "sphere":
            return [self.pose.p - Vec3(0.0, 0.0, self.size[0])]
        if self.type == "box":
            corners = product(*((-0.5 * side, 0.5 * side) for side in self.size))
        else:
            radius, length = self.size
            angles = [2.0 * math.pi * i / _RIM_POINTS for i in range(_RIM_POINTS)]
            corners = (
                (radius * math.cos(a), radius * math.sin(a), z) for z in (-0.5 * length, 0.5 * length) for a in angles
            )  # type: ignore[assignment]
        return [self.pose.transform_point(Vec3(*corner)) for corner in corners]


_SIZES = {"box": (("size", 3),), "cylinder": (("radius", 1), ("length", 1)), "sphere": (("radius", 1),)}


def collision_shapes(
    link: XmlNode, pose: Callable[[XmlNode], LinkPose], numbers: Callable[[XmlNode, str, int], tuple[float, ...]]
) -> tuple[CollisionShape, ...]:
    """Read the primitive collision shapes of a link; meshes, planes and maps are ignored.

    `pose(collision)` and `numbers(shape, key, count)` read pose and sizes in the file's format.
    """
    shapes = []
    for collision in link.children("collision"):
        geometry = collision.child("geometry")
        for shape in geometry.children(*_SIZES) if geometry is not None else ():
            size = tuple(x for key, count in _SIZES[shape.tag] for x in numbers(shape, key, count))
            shapes.append(CollisionShape(shape.tag, size, pose(collision)))
    return tuple(shapes)


class RigidLink(NamedTuple):
    """A rigid part: the pose of its frame in the vehicle's, its mass in its own frame, and its collision shapes."""

    name: str
    pose: LinkPose
    local_body: RigidBody
    shapes: tuple[CollisionShape, ...] = ()

    @property
    def body(self) -> RigidBody:
        """The rigid body in the vehicle's frame."""
        return transform_body(self.local_body, self.pose)


def combine_links(links: Sequence[RigidLink]) -> RigidBody:
    """Combine all links into one rigid body."""
    return combine_bodies(link.body for link in links)


def link_rotor(link: RigidLink, centre: Vec3, source: str) -> ImportedRotor:
    """Return a rotor at the centre of mass of its link, with thrust along the link's z axis and the inertia about it.

    Its radius is that of the link's collision shape, if there is one.
    """
    axis = rotate(link.pose.q, Vec3(0.0, 0.0, 1.0))
    mass = link.body
    position = mass.centre - centre
    inertia = float(dot(axis, mass.inertia @ axis))
    radius = max((shape.half_width for shape in link.shapes), default=0.0)
    radius_source = f"{source}: its collision shape"
    return ImportedRotor(
        position=UncertainVector(tuple(position), f"{source}: its pose, from the common centre of mass"),
        axis=UncertainVector(tuple(axis), f"{source}: its z axis"),
        inertia=exact_value(inertia, f"{source}: its inertia about its z axis") if inertia > 0.0 else None,
        radius=exact_value(radius, radius_source) if radius > 0.0 else None,
    )


def standing_points(links: Sequence[RigidLink], centre: Vec3, source: str) -> tuple[UncertainVector, ...]:
    """Return up to four feet: the lowest points of the collision shapes, farthest out to each corner; () if fewer than
    3."""
    points = [
        link.pose.transform_point(point) - centre for link in links for shape in link.shapes for point in shape.points()
    ]
    lowest = min((point.z for point in points), default=0.0)
    ground_points = [point for point in points if point.z <= lowest + _LEVEL_TOLERANCE]
    feet = []
    for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)):
        corner_point = max(ground_points, key=lambda point, x=x, y=y: x * point.x + y * point.y, default=None)  # type: ignore[misc]
        if corner_point is not None and corner_point not in feet:
            feet.append(corner_point)
    return tuple(UncertainVector(tuple(foot), source) for foot in feet) if len(feet) >= 3 and lowest < 0.0 else ()


def mass_and_inertia(total: RigidBody, source: str) -> tuple[UncertainValue, UncertainVector]:
    """Return the mass, and the inertia about the common centre of mass, with their sources."""
    return exact_value(total.mass, f"{source}: the sum over its links"), UncertainVector(
        tuple(total.inertia), f"{source}: its links about their common centre of mass"
    )
