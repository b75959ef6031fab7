"""Position, mass and shape of every part of an aircraft: motors and propellers on the arms, electronics in the centre.

The frame (arms, plates and legs) has the mass that the other parts leave.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.vehicles.parts.layouts import LOWER, Hub
from samara.vehicles.parts.parts_list import PartsError, PartsList
from samara.vehicles.parts.uncertain import UncertainValue, exact_value

SHAPE_SPREAD = 0.10  # of the inertia: error of representing parts by boxes, cylinders and rods
_MASS_STEP = 1e-4  # of the total mass, for the derivative of inertia with respect to a part's mass


class PartMass(NamedTuple):
    """A part: its mass, its centre [m], inertia per kilogram about its centre [m²], and its frontal area along each
    axis [m²]."""

    name: str
    mass: UncertainValue
    centre: Vec3
    gyration: Array
    area: Vec3


def box(name: str, mass: UncertainValue, centre: Vec3, size: Vec3) -> PartMass:
    """J/m = diag(b² + c², a² + c², a² + b²)/12"""
    a, b, c = size
    gyration = np.diag([b * b + c * c, a * a + c * c, a * a + b * b]) / 12.0
    return PartMass(name, mass, centre, gyration, Vec3(b * c, a * c, a * b))


def cylinder(name: str, mass: UncertainValue, centre: Vec3, diameter: float, height: float) -> PartMass:
    """J/m = diag((3r² + h²)/12, (3r² + h²)/12, r²/2), upright"""
    r2 = 0.25 * diameter * diameter
    transverse = (3.0 * r2 + height * height) / 12.0
    return PartMass(
        name,
        mass,
        centre,
        np.diag([transverse, transverse, 0.5 * r2]),
        Vec3(diameter * height, diameter * height, math.pi * r2),
    )


def rod(name: str, mass: UncertainValue, start: Vec3, end: Vec3, thickness: float) -> PartMass:
    """J/m = L²/12 (1 − u uᵀ): slender, from start to end"""
    axis = np.array(end) - np.array(start)
    gyration = (float(axis @ axis) * np.eye(3) - np.outer(axis, axis)) / 12.0
    area = Vec3(*(thickness * math.sqrt(max(float(axis @ axis) - component * component, 0.0)) for component in axis))
    return PartMass(name, mass, Vec3(*(0.5 * (np.array(start) + np.array(end))).tolist()), gyration, area)


def propeller_body(name: str, mass: UncertainValue, centre: Vec3, inertia: float) -> PartMass:
    """J/m = J_z/m diag(½, ½, 1): a propeller averaged over a revolution, with the inertia J_z about its axis"""
    axial = inertia / mass.value
    return PartMass(name, mass, centre, np.diag([0.5 * axial, 0.5 * axial, axial]), Vec3(0.0, 0.0, 0.0))


def centre_of_mass(bodies: Sequence[PartMass]) -> Vec3:
    """c = Σ mᵢ cᵢ / Σ mᵢ  [m]"""
    return Vec3(*_centre(_masses(bodies), bodies).tolist())


def inertia_about_centre(bodies: Sequence[PartMass]) -> Array:
    """J = Σ mᵢ (jᵢ + |dᵢ|² 1 − dᵢ dᵢᵀ),  dᵢ = cᵢ − c  [kg m²]"""
    return _inertia(_masses(bodies), bodies)


def inertia_spread(bodies: Sequence[PartMass], remainder: str) -> float:
    """Relative standard deviation of the largest moment, from every part's mass error; the part `remainder` takes the
    difference."""
    masses = _masses(bodies)
    moments = np.diag(_inertia(masses, bodies))
    is_remainder = [body.name == remainder for body in bodies]
    variance = np.full(3, SHAPE_SPREAD**2)
    for name in dict.fromkeys(body.name for body in bodies if body.name != remainder and body.mass.spread > 0.0):
        is_part = np.array([body.name == name for body in bodies])
        step = _MASS_STEP * float(masses.sum())
        shifted_masses = masses + step * (
            is_part * masses / masses[is_part].sum() - is_remainder * masses / masses[is_remainder].sum()
        )
        slope = (np.diag(_inertia(shifted_masses, bodies)) - moments) / step
        variance += (slope * masses[is_part].sum() * _spread(bodies, name) / moments) ** 2
    return float(math.sqrt(variance.max()))


def drag_areas(bodies: Sequence[PartMass]) -> Vec3:
    """Σ of the parts' areas along each axis  [m²]"""
    return Vec3(*(sum(body.area[axis] for body in bodies) for axis in range(3)))


def feet(hubs: Sequence[Hub], depth: float, arm_fraction: float) -> tuple[Vec3, ...]:
    """Four feet in a square at a fraction of the arm length, `depth` below the centre of the rotors [m]."""
    arm = sum(math.hypot(hub.position.x, hub.position.y) for hub in hubs) / len(hubs)
    half_width = arm_fraction * arm / math.sqrt(2.0)
    return tuple(
        Vec3(x * half_width, y * half_width, -depth) for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0))
    )


def arm_ends(hubs: Sequence[Hub]) -> tuple[Vec3, ...]:
    """Ends of the arms: one for each rotor, and one for a coaxial pair  [m]."""
    return tuple(Vec3(hub.position.x, hub.position.y, 0.0) for hub in hubs if hub.level != LOWER)


def _spread(bodies: Sequence[PartMass], name: str) -> float:
    return next(body.mass.spread for body in bodies if body.name == name)


def _masses(bodies: Sequence[PartMass]) -> Array:
    return np.array([body.mass.value for body in bodies])


def _centre(masses: Array, bodies: Sequence[PartMass]) -> Array:
    centres = np.array([body.centre for body in bodies])
    centre: Array = (masses[:, None] * centres).sum(axis=0) / masses.sum()
    return centre


def _inertia(masses: Array, bodies: Sequence[PartMass]) -> Array:
    offsets = np.array([body.centre for body in bodies]) - _centre(masses, bodies)
    inertia = np.zeros((3, 3))
    for mass, d, body in zip(masses, offsets, bodies, strict=True):
        inertia += mass * (body.gyration + float((d * d).sum()) * np.eye(3) - d[:, None] * d[None, :])
    return inertia


MOTOR_DENSITY = (
    3500.0  # [kg/m^3] of a brushless motor as a cylinder: 2207, 27.5 x 19 mm and 33 g; 2216, 28 x 30 mm and 60 g
)
MOTOR_ASPECT_RATIO = 1.4  # its diameter over its height
BATTERY_DENSITY = 2000.0  # [kg/m^3] of a lithium-polymer pack: 6S 1300 mAh, 76 x 38 x 38 mm and 215 g
BATTERY_PROPORTIONS = (2.0, 1.0, 0.9)  # length, width, height
BOARD_AT_1_KG, BOARD_POWER = 0.06, 0.6  # [kg]: 5 g in 20 g, 45 g in 0.65 kg, 80 g in 1.6 kg, 240 g in 10 kg
MAX_CENTRAL_CONTROLLER_MASS = (
    1.2  # [kg]: lighter aircraft have one controller for all motors, in the centre, and the battery on top
)
MIN_FRAME_FRACTION = 0.06  # of the mass: frame, wires and board together weigh more than this
MAX_FRAME_FRACTION = 0.75  # of the mass: with more, the parts list omits a payload
ARMS_FRACTION, PLATES_FRACTION = 0.45, 0.45  # of the frame; the remainder is legs, screws and wires on the arms
ARM_THICKNESS = 0.045  # of the diagonal
FRAME = "frame"


class PlacedParts(NamedTuple):
    """All parts, and the depth of the lowest point below the centre of the rotors  [m]."""

    bodies: tuple[PartMass, ...]
    lowest: float


class PartMasses(NamedTuple):
    """Masses of the parts that a parts list names [kg], and the inertia of a propeller about its axis  [kg m^2]."""

    motor: UncertainValue
    propeller: UncertainValue
    propeller_inertia: UncertainValue
    battery: UncertainValue
    controllers: UncertainValue


def controllers_mass(parts: PartsList, motors: int, current: float, voltage: float, brushed: bool) -> UncertainValue:
    """Mass of all speed controllers: one central board in a light aircraft, one beside each motor in a heavy one  [kg]."""
    if (specified := parts.optional_value("esc_mass")) is not None:
        return exact_value(specified)
    if brushed:
        return UncertainValue(1e-6, 0.5, "brushed motors: transistors on the flight controller")
    if parts.mass < MAX_CENTRAL_CONTROLLER_MASS:
        return UncertainValue(
            0.08e-3 * motors * current, 0.4, "0.08 g/A of the motors' current limit, as 4-in-1 controllers"
        )
    controller_mass = 3e-3 * (current / 10.0) * max(voltage / 12.0, 1.0) ** 0.8
    return UncertainValue(
        motors * controller_mass, 0.4, "3 g per 10 A at 12 V, scaled with (V/12)^0.8, as single controllers"
    )


def place_parts(parts: PartsList, hubs: tuple[Hub, ...], size: float, weights: PartMasses) -> PlacedParts:
    """Place all parts in their usual positions on a frame of diagonal `size` [m]; PartsError if no mass is left for it."""
    payload = exact_value(parts.optional_value("payload") or 0.0)
    count = len(hubs)
    part_masses = {
        "motors": count * weights.motor.value,
        "propellers": count * weights.propeller.value,
        "battery": weights.battery.value,
        "speed controllers": weights.controllers.value,
        "payload": payload.value,
    }
    remainder = parts.mass - sum(part_masses.values())
    _require_frame_mass(parts, part_masses, remainder)
    board = _board(parts, remainder)
    frame = UncertainValue(remainder - board.value, 0.3, f"remainder of {parts.mass:g} kg")

    motor_height = (weights.motor.value / (MOTOR_DENSITY * 0.25 * 3.141592653589793 * MOTOR_ASPECT_RATIO**2)) ** (
        1.0 / 3.0
    )
    bodies: list[PartMass] = []
    for hub in hubs:
        motor_centre = Vec3(
            hub.position.x,
            hub.position.y,
            hub.position.z + (0.5 * motor_height if hub.level < 0 else -0.5 * motor_height),
        )
        bodies.append(cylinder("motors", weights.motor, motor_centre, MOTOR_ASPECT_RATIO * motor_height, motor_height))
        bodies.append(propeller_body("propellers", weights.propeller, hub.position, weights.propeller_inertia.value))
    arm_height = (
        -motor_height if all(hub.level == 0 for hub in hubs) else 0.0
    )  # height of the arms: under motors, or between a pair
    frame_centre = Vec3(0.0, 0.0, arm_height)
    plate_size = Vec3(0.4 * size, 0.22 * size, 0.1 * size)
    thickness = ARM_THICKNESS * size
    tips = [Vec3(end.x, end.y, arm_height) for end in arm_ends(hubs)]
    arm_mass = UncertainValue(ARMS_FRACTION * frame.value / len(tips), frame.spread, frame.source)
    bodies += [rod(FRAME, arm_mass, frame_centre, end, thickness) for end in tips]
    bodies.append(box(FRAME, frame._replace(value=PLATES_FRACTION * frame.value), frame_centre, plate_size))
    leg_mass = frame._replace(value=(1.0 - ARMS_FRACTION - PLATES_FRACTION) * frame.value / len(tips))
    bodies += [
        rod(
            FRAME,
            leg_mass,
            Vec3(0.6 * tip.x, 0.6 * tip.y, arm_height),
            Vec3(0.6 * tip.x, 0.6 * tip.y, arm_height - 0.1 * size),
            0.2 * thickness,
        )
        for tip in tips
    ]
    bodies.append(box("board", board, frame_centre, Vec3(0.2 * size, 0.16 * size, 0.06 * size)))
    if parts.mass < MAX_CENTRAL_CONTROLLER_MASS:
        bodies.append(
            box("speed controllers", weights.controllers, frame_centre, Vec3(0.16 * size, 0.16 * size, 0.02 * size))
        )
    else:
        controller_mass = weights.controllers._replace(value=weights.controllers.value / len(tips))
        bodies += [
            box(
                "speed controllers",
                controller_mass,
                Vec3(0.5 * tip.x, 0.5 * tip.y, arm_height),
                Vec3(0.1 * size, 0.05 * size, 0.02 * size),
            )
            for tip in tips
        ]
    battery_size = _battery_size(weights.battery.value)
    bodies.append(
        box("battery", weights.battery, _battery_centre(parts, arm_height, plate_size, battery_size), battery_size)
    )
    if payload.value > 0.0:
        side = (payload.value / 1000.0) ** (1.0 / 3.0)  # as dense as water
        payload_centre = parts.optional_value("payload_position") or Vec3(
            0.0, 0.0, arm_height - 0.5 * plate_size.z - 0.5 * side
        )
        bodies.append(box("payload", payload, payload_centre, Vec3(side, side, side)))
    lowest = max(
        plate_size.z / 2.0 - arm_height, *(-hub.position.z for hub in hubs), *_undersides(parts, bodies, battery_size)
    )
    return PlacedParts(tuple(bodies), lowest)


def _undersides(parts: PartsList, bodies: list[PartMass], battery_size: Vec3) -> list[float]:
    depths = [0.5 * battery_size.z - body.centre.z for body in bodies if body.name == "battery"]
    side = ((parts.optional_value("payload") or 0.0) / 1000.0) ** (1.0 / 3.0)
    return depths + [0.5 * side - body.centre.z for body in bodies if body.name == "payload"]


def _battery_size(mass: float) -> Vec3:
    """Size of a battery of that mass  [m]."""
    length, width, height = BATTERY_PROPORTIONS
    scale = (mass / BATTERY_DENSITY / (length * width * height)) ** (1.0 / 3.0)
    return Vec3(length * scale, width * scale, height * scale)


def _battery_centre(parts: PartsList, arm_height: float, plate_size: Vec3, battery_size: Vec3) -> Vec3:
    position: Vec3 | None = parts.optional_value("battery_position")
    if position is not None:
        return position
    offset = 0.5 * (plate_size.z + battery_size.z)
    return Vec3(0.0, 0.0, arm_height + (offset if parts.mass < MAX_CENTRAL_CONTROLLER_MASS else -offset))


def _board(parts: PartsList, remainder: float) -> UncertainValue:
    """Mass of flight controller, receiver, camera; at most half of the remainder: in small aircraft the board is the frame."""
    if (specified := parts.optional_value("board_mass")) is not None:
        if not specified < remainder:
            raise PartsError(
                f"board_mass = {specified:g} kg: expected less than the {remainder:.3g} kg that the other parts leave of "
                f"{parts.mass:g} kg"
            )
        return exact_value(specified)
    typical = BOARD_AT_1_KG * parts.mass**BOARD_POWER
    return UncertainValue(
        min(typical, 0.5 * remainder), 0.35, "0.06 kg (m/kg)^0.6, at most half of what the other parts leave"
    )


def _require_frame_mass(parts: PartsList, part_masses: dict[str, float], remainder: float) -> None:
    if part_masses["battery"] >= parts.mass:
        raise PartsError(
            f"battery = {parts.battery!r} weighs about {part_masses['battery']:.3g} kg and mass = {parts.mass:g} kg: "
            "expected an aircraft heavier than its battery"
        )
    mass_list = ", ".join(f"{name} {mass:.3g} kg" for name, mass in part_masses.items() if mass > 0.0)
    if remainder < MIN_FRAME_FRACTION * parts.mass:
        raise PartsError(
            f"mass = {parts.mass:g} kg and the parts weigh {sum(part_masses.values()):.3g} kg ({mass_list}): expected at least "
            f"{MIN_FRAME_FRACTION * parts.mass:.2g} kg left for the frame; set measured masses (battery_mass, motor_mass, ...)"
        )
    if remainder > MAX_FRAME_FRACTION * parts.mass:
        raise PartsError(
            f"mass = {parts.mass:g} kg and the parts weigh {sum(part_masses.values()):.3g} kg ({mass_list}): expected at most "
            f"{100 * MAX_FRAME_FRACTION:.0f} % of the mass left for the frame; set the mass that is carried as payload"
        )
