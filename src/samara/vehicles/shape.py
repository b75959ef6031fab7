"""The shape of a vehicle: its collision radius, and rods, propeller discs and a box to draw it, from its rotors and feet alone.

    for part in parts_of(samara.vehicle("iris")):
        print(part.name, part.colour)

Every drawing of a vehicle is made of these parts: the page in the browser and the pictures of `samara render`.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import ZERO, Vec3, cross, norm
from samara.core.quantity import Quantity, Scalar
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.effect import Effect, Role
from samara.physics.types import Vehicle

INK, GRID, PAPER = "#22313f", "#d9dee3", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#332288")
"""Okabe and Ito's colours, in the order x, y, z and rotor 0, 1, 2, …"""


COUNTER_CLOCKWISE, CLOCKWISE = COLOURS[5], COLOURS[4]  # light blue and orange: no axis has them
NOSE = COLOURS[1]
FAILED = "#c8102e"  # a motor that is dead; nothing else is red
PALE = "#8a97a3"
LOAD = COLOURS[2]

PROPELLER_SHARE = 0.46  # of the distance to the nearest other hub, where the file gives no radius
COAXIAL_SHARE = 0.1  # of the reach: hubs closer than this to a rotor's axis are on it
BARE_ARM_SHARE = 0.5  # of the arm, for a rotor that has no neighbour
SMALLEST_REACH = 0.02  # [m]
WATER = 1000.0  # [kg/m^3]
AXES_SHARE = 1.1  # of the reach
UNDER_HUB = 0.15  # of the reach: a foot that close below a hub hangs from it


class Rod(NamedTuple):
    """A round bar between two points: an arm, a leg, the nose."""

    name: str
    start_B: Vec3
    end_B: Vec3
    radius: float
    colour: str


class Disc(NamedTuple):
    """A propeller: where, around which axis, how large, and which way it turns (+1 right-handed about the axis)."""

    name: str
    centre_B: Vec3
    axis_B: Vec3
    radius: float
    spin: int
    colour: str


class Box(NamedTuple):
    """The body: a box along the body axes."""

    name: str
    centre_B: Vec3
    size_B: Vec3
    colour: str


Part: TypeAlias = Rod | Disc | Box


def reach_of(vehicle: Vehicle) -> float:
    """The distance of the farthest hub or foot from the centre of mass, or 3 gyration radii of a body that has neither  [m]"""
    places = [rotor.r_B for rotor in vehicle.rotors] + list(_feet(vehicle))
    if places:
        return max(SMALLEST_REACH, *(float(norm(place)) for place in places))
    inertia = vehicle.inertia_B
    return max(SMALLEST_REACH, 3.0 * math.sqrt(max(inertia.xx, inertia.yy, inertia.zz) / vehicle.mass))


def axes_length(vehicle: Vehicle) -> float:
    """How long its body axes are drawn  [m]"""
    return AXES_SHARE * reach_of(vehicle)


def extent_of(vehicle: Vehicle) -> float:
    """How far it reaches from its centre of mass, to the tip of the farthest propeller  [m]"""
    tips = [float(norm(own.r_B)) + propeller_radius(vehicle, k) for k, own in enumerate(vehicle.rotors)]
    return max([reach_of(vehicle), *tips])


def propeller_radius(vehicle: Vehicle, rotor: int) -> float:
    """The file's radius; where it has none, a share of the distance to the nearest hub that is not on the same axis  [m]"""
    own = vehicle.rotors[rotor]
    if own.radius > 0.0:
        return float(own.radius)
    apart = [other.r_B - own.r_B for other in vehicle.rotors]
    beside = [float(norm(r)) for r in apart if norm(cross(own.axis_B, r)) > COAXIAL_SHARE * reach_of(vehicle)]
    return PROPELLER_SHARE * min(beside) if beside else BARE_ARM_SHARE * reach_of(vehicle)


def parts_of(vehicle: Vehicle) -> tuple[Part, ...]:
    """Body, nose, one arm and one propeller for each rotor, one leg for each contact point; body axes, metres"""
    reach = reach_of(vehicle)
    thick = 0.035 * reach
    size = Vec3(0.55 * reach, 0.38 * reach, 0.18 * reach)
    parts: list[Part] = [
        Box("body", ZERO, size, INK),
        Rod("nose", Vec3(0.5 * size.x, 0.0, 0.0), Vec3(0.5 * size.x + 0.22 * reach, 0.0, 0.0), 1.6 * thick, NOSE),
    ]
    for k, rotor in enumerate(vehicle.rotors):
        radius = propeller_radius(vehicle, k)
        spin = 1 if rotor.spin > 0 else -1
        shared = any(norm(other.r_B - rotor.r_B) < thick for other in vehicle.rotors[:k])  # the second of a pair, below
        above = rotor.r_B + rotor.axis_B * (-2.0 * thick if shared else 2.0 * thick)
        colour = COUNTER_CLOCKWISE if spin > 0 else CLOCKWISE
        parts += [
            Rod(f"arm {k}", ZERO, rotor.r_B, thick, PALE),
            Rod(f"hub {k}", rotor.r_B - rotor.axis_B * (-thick if shared else thick), above, 1.8 * thick, INK),
            Disc(f"propeller {k}", above, rotor.axis_B, radius, spin, colour),
        ]
    for k, foot in enumerate(_feet(vehicle)):
        parts.append(Rod(f"leg {k}", _hip(vehicle, foot, reach), foot, 0.7 * thick, PALE))
    return tuple(parts)


def _feet(vehicle: Vehicle) -> tuple[Vec3, ...]:
    points: tuple[Vec3, ...] = vehicle["contact"].points_B if vehicle.has("contact") else ()
    return points


def _hip(vehicle: Vehicle, foot: Vec3, reach: float) -> Vec3:
    """Where a leg begins: at the hub above its foot, or at the body."""
    for rotor in vehicle.rotors:
        below = rotor.r_B - foot
        if math.hypot(below.x, below.y) < UNDER_HUB * reach and below.z > 0.0:
            return rotor.r_B
    return Vec3(0.35 * foot.x, 0.35 * foot.y, 0.0)


def load_radius(vehicle: Vehicle) -> float:
    """That of a ball of water as heavy as its load on a cable  [m]"""
    return float((3.0 * vehicle["slung_load"].mass / (4.0 * math.pi * WATER)) ** (1.0 / 3.0))


def thrust_arrow(vehicle: Vehicle, rotor: int, thrust: Scalar) -> tuple[Vec3, Vec3]:
    """From the propeller along its axis, as long as the reach when one rotor carries its even share of the weight  [m]"""
    own = vehicle.rotors[rotor]
    share = float(vehicle.mass) * STANDARD_GRAVITY / len(vehicle.rotors)
    return own.r_B, own.r_B + own.axis_B * (thrust * (reach_of(vehicle) / share))


def corners_of(vehicle: Vehicle) -> tuple[Vec3, Vec3]:
    """The lowest and the highest corner of a box along the body axes around all its parts  [m]"""
    low, high = [math.inf] * 3, [-math.inf] * 3
    for part in parts_of(vehicle):
        for k, (least, most) in enumerate(_spans(part)):
            low[k], high[k] = min(low[k], least), max(high[k], most)
    return Vec3(*low), Vec3(*high)


def _spans(part: Part) -> list[tuple[float, float]]:
    """From where to where a part reaches along each axis: a disc by R √(1 − a²)"""
    if isinstance(part, Rod):
        ends = zip(part.start_B, part.end_B, strict=True)
        return [(float(min(own)) - part.radius, float(max(own)) + part.radius) for own in ends]
    if isinstance(part, Box):
        reaches = [0.5 * float(side) for side in part.size_B]
    else:
        reaches = [part.radius * math.sqrt(max(0.0, 1.0 - float(a) ** 2)) for a in part.axis_B]
    return [(float(c) - r, float(c) + r) for c, r in zip(part.centre_B, reaches, strict=True)]


class Hull(NamedTuple):
    """How far the body reaches from its centre of mass, without arms and rotors."""

    radius: Annotated[Scalar, Quantity("m", 0.0, 1.0)]


BODY = Effect("body", role=Role.SHAPE)


def body_radius(vehicle: Vehicle) -> Scalar:
    """The radius of the vehicle's body; 0 unless its file says one  [m]"""
    return vehicle["body"].radius if vehicle.has("body") else 0.0
