"""The shape of a vehicle: its collision radius, and the rods, propeller discs and box that draw it, from rotors and feet alone.

    for part in shape_parts(samara.vehicle("iris")):
        print(part.name, part.colour)

The browser view and the images of `samara render` draw vehicles from these parts.
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


CCW_COLOUR, CW_COLOUR = COLOURS[5], COLOURS[4]  # light blue and orange: colours of no axis
NOSE_COLOUR = COLOURS[1]
FAILED_COLOUR = "#c8102e"  # a failed motor; nothing else is red
ARM_COLOUR = "#8a97a3"
LOAD_COLOUR = COLOURS[2]

PROPELLER_SPACING_FRACTION = 0.46  # of the distance to the nearest other hub, if the file has no radius
COAXIAL_FRACTION = 0.1  # of the frame radius: hubs closer than this to a rotor's axis are coaxial with it
LONE_PROPELLER_FRACTION = 0.5  # of the frame radius, for a rotor without a neighbour
MIN_FRAME_RADIUS = 0.02  # [m]
WATER_DENSITY = 1000.0  # [kg/m^3]
AXES_LENGTH_FRACTION = 1.1  # of the frame radius
FOOT_UNDER_HUB_FRACTION = 0.15  # of the frame radius: a foot within this horizontal distance of a hub hangs from it


class Rod(NamedTuple):
    """A round bar between two points: an arm, a leg, the nose."""

    name: str
    start_B: Vec3
    end_B: Vec3
    radius: float
    colour: str


class Disc(NamedTuple):
    """A propeller; `spin` is +1 for right-handed rotation about the axis."""

    name: str
    centre_B: Vec3
    axis_B: Vec3
    radius: float
    spin: int
    colour: str


class BodyBox(NamedTuple):
    """The body: a box along the body axes."""

    name: str
    centre_B: Vec3
    size_B: Vec3
    colour: str


Part: TypeAlias = Rod | Disc | BodyBox


def outer_frame_radius(vehicle: Vehicle) -> float:
    """Distance of the farthest hub or foot from the centre of mass, or 3 radii of gyration of a body that has neither  [m]."""
    points = [rotor.r_B for rotor in vehicle.rotors] + list(_feet(vehicle))
    if points:
        return max(MIN_FRAME_RADIUS, *(float(norm(point)) for point in points))
    inertia = vehicle.inertia_B
    return max(MIN_FRAME_RADIUS, 3.0 * math.sqrt(max(inertia.xx, inertia.yy, inertia.zz) / vehicle.mass))


def axes_length(vehicle: Vehicle) -> float:
    """Length of the drawn body axes  [m]."""
    return AXES_LENGTH_FRACTION * outer_frame_radius(vehicle)


def tip_radius(vehicle: Vehicle) -> float:
    """Distance from the centre of mass to the tip of the farthest propeller  [m]."""
    tip_distances = [float(norm(rotor.r_B)) + propeller_radius(vehicle, k) for k, rotor in enumerate(vehicle.rotors)]
    return max([outer_frame_radius(vehicle), *tip_distances])


def propeller_radius(vehicle: Vehicle, rotor: int) -> float:
    """The file's radius, or a fraction of the distance to the nearest hub that is not coaxial  [m]."""
    hub = vehicle.rotors[rotor]
    if hub.radius > 0.0:
        return float(hub.radius)
    offsets = [other.r_B - hub.r_B for other in vehicle.rotors]
    distances = [
        float(norm(r)) for r in offsets if norm(cross(hub.axis_B, r)) > COAXIAL_FRACTION * outer_frame_radius(vehicle)
    ]
    return (
        PROPELLER_SPACING_FRACTION * min(distances)
        if distances
        else LONE_PROPELLER_FRACTION * outer_frame_radius(vehicle)
    )


def shape_parts(vehicle: Vehicle) -> tuple[Part, ...]:
    """Return body, nose, an arm, a hub and a propeller for each rotor, and a leg for each contact point; body axes, metres."""
    frame_radius = outer_frame_radius(vehicle)
    rod_radius = 0.035 * frame_radius
    box_size = Vec3(0.55 * frame_radius, 0.38 * frame_radius, 0.18 * frame_radius)
    parts: list[Part] = [
        BodyBox("body", ZERO, box_size, INK),
        Rod(
            "nose",
            Vec3(0.5 * box_size.x, 0.0, 0.0),
            Vec3(0.5 * box_size.x + 0.22 * frame_radius, 0.0, 0.0),
            1.6 * rod_radius,
            NOSE_COLOUR,
        ),
    ]
    for k, rotor in enumerate(vehicle.rotors):
        radius = propeller_radius(vehicle, k)
        spin = 1 if rotor.spin > 0 else -1
        is_lower = any(
            norm(other.r_B - rotor.r_B) < rod_radius for other in vehicle.rotors[:k]
        )  # the lower one of a coaxial pair
        disc_centre = rotor.r_B + rotor.axis_B * (-2.0 * rod_radius if is_lower else 2.0 * rod_radius)
        colour = CCW_COLOUR if spin > 0 else CW_COLOUR
        parts += [
            Rod(f"arm {k}", ZERO, rotor.r_B, rod_radius, ARM_COLOUR),
            Rod(
                f"hub {k}",
                rotor.r_B - rotor.axis_B * (-rod_radius if is_lower else rod_radius),
                disc_centre,
                1.8 * rod_radius,
                INK,
            ),
            Disc(f"propeller {k}", disc_centre, rotor.axis_B, radius, spin, colour),
        ]
    for k, foot in enumerate(_feet(vehicle)):
        parts.append(Rod(f"leg {k}", _leg_top(vehicle, foot, frame_radius), foot, 0.7 * rod_radius, ARM_COLOUR))
    return tuple(parts)


def _feet(vehicle: Vehicle) -> tuple[Vec3, ...]:
    points: tuple[Vec3, ...] = vehicle["contact"].points_B if vehicle.has("contact") else ()
    return points


def _leg_top(vehicle: Vehicle, foot: Vec3, frame_radius: float) -> Vec3:
    """Return the upper end of a leg: the hub above its foot, or a point of the body."""
    for rotor in vehicle.rotors:
        offset = rotor.r_B - foot
        if math.hypot(offset.x, offset.y) < FOOT_UNDER_HUB_FRACTION * frame_radius and offset.z > 0.0:
            return rotor.r_B
    return Vec3(0.35 * foot.x, 0.35 * foot.y, 0.0)


def load_radius(vehicle: Vehicle) -> float:
    """Radius of a ball of water with the mass of the slung load  [m]."""
    return float((3.0 * vehicle["slung_load"].mass / (4.0 * math.pi * WATER_DENSITY)) ** (1.0 / 3.0))


def thrust_arrow(vehicle: Vehicle, rotor: int, thrust: Scalar) -> tuple[Vec3, Vec3]:
    """Arrow along the rotor's axis; its length is the frame radius at an equal part of the weight  [m]."""
    hub = vehicle.rotors[rotor]
    hover_thrust = float(vehicle.mass) * STANDARD_GRAVITY / len(vehicle.rotors)
    return hub.r_B, hub.r_B + hub.axis_B * (thrust * (outer_frame_radius(vehicle) / hover_thrust))


def bounding_box(vehicle: Vehicle) -> tuple[Vec3, Vec3]:
    """Opposite corners, lowest and highest, of the axis-aligned box around all parts  [m, body]."""
    low, high = [math.inf] * 3, [-math.inf] * 3
    for part in shape_parts(vehicle):
        for k, (lower, upper) in enumerate(_axis_intervals(part)):
            low[k], high[k] = min(low[k], lower), max(high[k], upper)
    return Vec3(*low), Vec3(*high)


def _axis_intervals(part: Part) -> list[tuple[float, float]]:
    """Interval of a part along each body axis; a disc extends by R √(1 − a²)."""
    if isinstance(part, Rod):
        axis_ends = zip(part.start_B, part.end_B, strict=True)
        return [
            (float(min(coordinates)) - part.radius, float(max(coordinates)) + part.radius) for coordinates in axis_ends
        ]
    if isinstance(part, BodyBox):
        half_widths = [0.5 * float(side) for side in part.size_B]
    else:
        half_widths = [part.radius * math.sqrt(max(0.0, 1.0 - float(a) ** 2)) for a in part.axis_B]
    return [(float(c) - r, float(c) + r) for c, r in zip(part.centre_B, half_widths, strict=True)]


class Hull(NamedTuple):
    """Radius of the body about its centre of mass, without arms and rotors."""

    radius: Annotated[Scalar, Quantity("m", 0.0, 1.0)]


BODY = Effect("body", role=Role.SHAPE)


def body_radius(vehicle: Vehicle) -> Scalar:
    """The radius of the vehicle's body; 0 if its file sets none  [m]."""
    return vehicle["body"].radius if vehicle.has("body") else 0.0
