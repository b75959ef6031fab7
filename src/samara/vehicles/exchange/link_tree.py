"""An aircraft as links: rigid bodies in one frame, composed into one mass and inertia; some are rotors (SDF, URDF, MJCF)."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Mat3, Quat, Vec3, dot, matrix_from_quat, rotate
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, Several
from samara.vehicles.exchange.safe_xml import Node
from samara.vehicles.parts.uncertain import Estimate, given
from samara.vehicles.payload import point_inertia


class Pose(NamedTuple):
    """Where a frame is in another, and how it is turned there"""

    p: Vec3 = ZERO
    q: Quat = IDENTITY

    def of(self, other: "Pose") -> "Pose":
        """A pose within this one's frame, told where this one is: p + R p', q ⊗ q'"""
        return Pose(self.p + rotate(self.q, other.p), self.q * other.q)

    def place(self, point: Vec3) -> Vec3:
        """p + R r"""
        return self.p + rotate(self.q, point)


HERE = Pose()


class Mass(NamedTuple):
    """A rigid body: its mass, where its centre of mass is, and its inertia about that, in the axes of the same frame"""

    mass: float
    centre: Vec3
    inertia: Mat3


def moved(own: Mass, pose: Pose) -> Mass:
    """The same body told in the frame that its own has this pose in: c' = p + R c,  J' = R J Rᵀ, symmetric to the last bit"""
    turn = matrix_from_quat(pose.q)
    turned = turn @ own.inertia @ turn.transpose
    return Mass(own.mass, pose.place(own.centre), (turned + turned.transpose) * 0.5)


def together(parts: Iterable[Mass]) -> Mass:
    """m = Σ mᵢ,  c = Σ mᵢ cᵢ / m,  J = Σ (Jᵢ + mᵢ (d·d I − d dᵀ)), d = cᵢ − c (Steiner)"""
    listed = list(parts)
    mass = sum(own.mass for own in listed)
    centre = sum((own.centre * own.mass for own in listed), ZERO) / mass if mass > 0.0 else ZERO
    inertia = Mat3(*(0.0,) * 9)
    for own in listed:
        inertia = inertia + own.inertia + point_inertia(own.mass, own.centre - centre)
    return Mass(mass, centre, inertia)


def symmetric(xx: float, xy: float, xz: float, yy: float, yz: float, zz: float) -> Mat3:
    """An inertia by its six numbers, as XML formats have them"""
    return Mat3(xx, xy, xz, xy, yy, yz, xz, yz, zz)


_LEVEL = 5e-3  # [m]: what is no higher than this above the lowest point stands on the ground too
_ROUND = 8  # points that stand for a rim


class Shape(NamedTuple):
    """A collision shape in its link: "box" by its sides, "cylinder" by radius and length, "sphere" by its radius"""

    kind: str
    size: tuple[float, ...]
    pose: Pose

    @property
    def reach(self) -> float:
        """Half of its width: the radius of a propeller of this shape  [m]"""
        return 0.5 * max(self.size) if self.kind == "box" else self.size[0]

    def points(self) -> list[Vec3]:
        """Corners, or points around the rims; of a sphere its lowest point, as it stands"""
        if self.kind == "sphere":
            return [self.pose.p - Vec3(0.0, 0.0, self.size[0])]
        if self.kind == "box":
            corners = product(*((-0.5 * side, 0.5 * side) for side in self.size))
        else:
            radius, length = self.size
            angles = [2.0 * math.pi * i / _ROUND for i in range(_ROUND)]
            corners = (
                (radius * math.cos(a), radius * math.sin(a), z) for z in (-0.5 * length, 0.5 * length) for a in angles
            )  # type: ignore[assignment]
        return [self.pose.place(Vec3(*corner)) for corner in corners]


_SIZES = {"box": (("size", 3),), "cylinder": (("radius", 1), ("length", 1)), "sphere": (("radius", 1),)}


def collision_shapes(
    link: Node, pose: Callable[[Node], Pose], numbers: Callable[[Node, str, int], tuple[float, ...]]
) -> tuple[Shape, ...]:
    """The plain collision shapes of a link; meshes, planes and maps are no feet

    `pose(collision)` and `numbers(shape, key, count)` read them as the format has it.
    """
    shapes = []
    for collision in link.children("collision"):
        geometry = collision.child("geometry")
        for shape in geometry.children(*_SIZES) if geometry is not None else ():
            size = tuple(x for key, count in _SIZES[shape.tag] for x in numbers(shape, key, count))
            shapes.append(Shape(shape.tag, size, pose(collision)))
    return tuple(shapes)


class Link(NamedTuple):
    """A rigid part: where its frame is in the aircraft's, its mass in its own frame, and its collision shapes"""

    name: str
    pose: Pose
    own: Mass
    shapes: tuple[Shape, ...] = ()

    @property
    def mass(self) -> Mass:
        """In the aircraft's frame"""
        return moved(self.own, self.pose)


def whole(links: Sequence[Link]) -> Mass:
    """All links as one rigid body"""
    return together(link.mass for link in links)


def rotor_at(link: Link, centre: Vec3, how: str) -> ImportedRotor:
    """A rotor where the centre of mass of its link is, pushing along the link's z axis; its inertia about that

    Its radius is that of the link's collision shape, where there is one.
    """
    axis = rotate(link.pose.q, Vec3(0.0, 0.0, 1.0))
    mass = link.mass
    place = mass.centre - centre
    turning = float(dot(axis, mass.inertia @ axis))
    reach = max((shape.reach for shape in link.shapes), default=0.0)
    shaped = f"{how}: its collision shape"
    return ImportedRotor(
        position=Several(tuple(place), f"{how}: its pose, from the common centre of mass"),
        axis=Several(tuple(axis), f"{how}: its z axis"),
        inertia=given(turning, f"{how}: its inertia about its z axis") if turning > 0.0 else None,
        radius=given(reach, shaped) if reach > 0.0 else None,
    )


def standing_points(links: Sequence[Link], centre: Vec3, how: str) -> tuple[Several, ...]:
    """Up to four feet: the lowest points of the collision shapes, farthest out to each corner; () where they are under three"""
    points = [link.pose.place(point) - centre for link in links for shape in link.shapes for point in shape.points()]
    lowest = min((point.z for point in points), default=0.0)
    low = [point for point in points if point.z <= lowest + _LEVEL]
    feet = []
    for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)):
        best = max(low, key=lambda point, x=x, y=y: x * point.x + y * point.y, default=None)  # type: ignore[misc]
        if best is not None and best not in feet:
            feet.append(best)
    return tuple(Several(tuple(foot), how) for foot in feet) if len(feet) >= 3 and lowest < 0.0 else ()


def said_mass(total: Mass, how: str) -> tuple[Estimate, Several]:
    """Mass, and inertia about the common centre of mass"""
    return given(total.mass, f"{how}: the sum over its links"), Several(
        tuple(total.inertia), f"{how}: its links about their common centre of mass"
    )
