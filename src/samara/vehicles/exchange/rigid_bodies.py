"""Rigid parts put together: where each is, and what mass, centre of mass and inertia they have as one."""

from collections.abc import Iterable
from typing import NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Mat3, Quat, Vec3, matrix_from_quat, rotate
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
