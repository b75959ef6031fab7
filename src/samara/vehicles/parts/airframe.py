"""What an airframe weighs and where: masses placed, their inertia and centre of mass, the area the wind sees, the feet.

Bodies are boxes, cylinders and rods in axes forward-left-up, seen from the middle of the rotors.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.vehicles.parts.layouts import LOWER, Hub
from samara.vehicles.parts.uncertain import Estimate

SHAPES_OFF = 0.10  # of the inertia: what it costs to take parts for boxes, cylinders and rods
_STEP = 1e-4  # of the whole mass, for the slopes of inertia over a part's mass


class Body(NamedTuple):
    """A part: its mass, the middle of it [m], inertia on each kilogram about that [m²], and its area along each axis [m²]"""

    name: str
    mass: Estimate
    centre: Vec3
    gyration: Array
    area: Vec3


def box(name: str, mass: Estimate, centre: Vec3, size: Vec3) -> Body:
    """J/m = diag(b² + c², a² + c², a² + b²)/12"""
    a, b, c = size
    gyration = np.diag([b * b + c * c, a * a + c * c, a * a + b * b]) / 12.0
    return Body(name, mass, centre, gyration, Vec3(b * c, a * c, a * b))


def cylinder(name: str, mass: Estimate, centre: Vec3, diameter: float, height: float) -> Body:
    """J/m = diag((3r² + h²)/12, (3r² + h²)/12, r²/2), upright"""
    r2 = 0.25 * diameter * diameter
    across = (3.0 * r2 + height * height) / 12.0
    return Body(
        name,
        mass,
        centre,
        np.diag([across, across, 0.5 * r2]),
        Vec3(diameter * height, diameter * height, math.pi * r2),
    )


def rod(name: str, mass: Estimate, start: Vec3, end: Vec3, thickness: float) -> Body:
    """J/m = L²/12 (1 − u uᵀ): slender, from start to end"""
    along = np.array(end) - np.array(start)
    gyration = (float(along @ along) * np.eye(3) - np.outer(along, along)) / 12.0
    area = Vec3(*(thickness * math.sqrt(max(float(along @ along) - own * own, 0.0)) for own in along))
    return Body(name, mass, Vec3(*(0.5 * (np.array(start) + np.array(end))).tolist()), gyration, area)


def spinning(name: str, mass: Estimate, centre: Vec3, inertia: float) -> Body:
    """J/m = J_z/m diag(½, ½, 1): a propeller on average over a turn, of the inertia J_z about its axis"""
    own = inertia / mass.value
    return Body(name, mass, centre, np.diag([0.5 * own, 0.5 * own, own]), Vec3(0.0, 0.0, 0.0))


def centre_of_mass(bodies: Sequence[Body]) -> Vec3:
    """c = Σ mᵢ cᵢ / Σ mᵢ  [m]"""
    return Vec3(*_centre(_masses(bodies), bodies).tolist())


def inertia_about_centre(bodies: Sequence[Body]) -> Array:
    """J = Σ mᵢ (jᵢ + |dᵢ|² 1 − dᵢ dᵢᵀ),  dᵢ = cᵢ − c  [kg m²]"""
    return _inertia(_masses(bodies), bodies)


def inertia_spread(bodies: Sequence[Body], rest: str) -> float:
    """One standard deviation over the largest moment: every part's mass may be off, and `rest` takes the difference"""
    masses = _masses(bodies)
    moments = np.diag(_inertia(masses, bodies))
    takes = [own.name == rest for own in bodies]
    variance = np.full(3, SHAPES_OFF**2)
    for name in dict.fromkeys(own.name for own in bodies if own.name != rest and own.mass.spread > 0.0):
        mine = np.array([own.name == name for own in bodies])
        step = _STEP * float(masses.sum())
        moved = masses + step * (mine * masses / masses[mine].sum() - takes * masses / masses[takes].sum())
        slope = (np.diag(_inertia(moved, bodies)) - moments) / step
        variance += (slope * masses[mine].sum() * _spread(bodies, name) / moments) ** 2
    return float(math.sqrt(variance.max()))


def drag_areas(bodies: Sequence[Body]) -> Vec3:
    """Σ of the parts' areas along each axis  [m²]"""
    return Vec3(*(sum(own.area[axis] for own in bodies) for axis in range(3)))


def feet(hubs: Sequence[Hub], below: float, share: float) -> tuple[Vec3, ...]:
    """Four feet in a square, as far out as a share of the arms, so far below the middle of the rotors  [m]"""
    arm = sum(math.hypot(hub.place.x, hub.place.y) for hub in hubs) / len(hubs)
    out = share * arm / math.sqrt(2.0)
    return tuple(Vec3(x * out, y * out, -below) for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)))


def arm_ends(hubs: Sequence[Hub]) -> tuple[Vec3, ...]:
    """Where arms end: one for each rotor, and one for a coaxial pair  [m]"""
    return tuple(Vec3(hub.place.x, hub.place.y, 0.0) for hub in hubs if hub.level != LOWER)


def _spread(bodies: Sequence[Body], name: str) -> float:
    return next(own.mass.spread for own in bodies if own.name == name)


def _masses(bodies: Sequence[Body]) -> Array:
    return np.array([own.mass.value for own in bodies])


def _centre(masses: Array, bodies: Sequence[Body]) -> Array:
    places = np.array([own.centre for own in bodies])
    centre: Array = (masses[:, None] * places).sum(axis=0) / masses.sum()
    return centre


def _inertia(masses: Array, bodies: Sequence[Body]) -> Array:
    away = np.array([own.centre for own in bodies]) - _centre(masses, bodies)
    whole = np.zeros((3, 3))
    for mass, d, own in zip(masses, away, bodies, strict=True):
        whole += mass * (own.gyration + float((d * d).sum()) * np.eye(3) - d[:, None] * d[None, :])
    return whole
