"""Every part of an aircraft at its place: motors and propellers on the arms, battery, board and controllers in the middle.

The frame takes what is left of the mass: arms, plates and legs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.vehicles.parts.layouts import LOWER, Hub
from samara.vehicles.parts.parts_list import PartsError, PartsList
from samara.vehicles.parts.uncertain import Estimate, given

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


MOTOR_DENSITY = (
    3500.0  # [kg/m^3] of a brushless motor as a cylinder: 2207, 27.5 x 19 mm and 33 g; 2216, 28 x 30 mm and 60 g
)
MOTOR_SHAPE = 1.4  # its diameter over its height
BATTERY_DENSITY = 2000.0  # [kg/m^3] of a lithium-polymer pack: 6S 1300 mAh, 76 x 38 x 38 mm and 215 g
BATTERY_SHAPE = (2.0, 1.0, 0.9)  # length, width, height
BOARD_AT_1_KG, BOARD_POWER = 0.06, 0.6  # [kg]: 5 g in 20 g, 45 g in 0.65 kg, 80 g in 1.6 kg, 240 g in 10 kg
ON_THE_BODY = 1.2  # [kg]: lighter ones have one controller for all motors, in the middle, and the battery on top
LEAST_FRAME = 0.06  # of the mass: frame, wires and board together weigh more than this
MOST_FRAME = 0.75  # of the mass: with more, something is carried that nobody named
ARMS, PLATES = 0.45, 0.45  # of the frame; the rest is legs, screws and wires out there
ARM_THICKNESS = 0.045  # of the diagonal
FRAME = "frame"


class Placed(NamedTuple):
    """All parts, and how far below the middle of the rotors the lowest of them ends  [m]"""

    bodies: tuple[Body, ...]
    lowest: float


class Weights(NamedTuple):
    """What the parts weigh [kg] that a parts list names, and the inertia of a propeller about its axis  [kg m^2]"""

    motor: Estimate
    propeller: Estimate
    propeller_inertia: Estimate
    battery: Estimate
    controllers: Estimate


def controllers_mass(parts: PartsList, motors: int, current: float, voltage: float, brushed: bool) -> Estimate:
    """All speed controllers: one board for all in a light aircraft, one beside each motor in a heavy one  [kg]"""
    if (known := parts.given("esc_mass")) is not None:
        return given(known)
    if brushed:
        return Estimate(1e-6, 0.5, "brushed motors: transistors on the flight controller")
    if parts.mass < ON_THE_BODY:
        return Estimate(
            0.08e-3 * motors * current, 0.4, "0.08 g/A of the motors' largest current, as 4-in-1 controllers"
        )
    each = 3e-3 * (current / 10.0) * max(voltage / 12.0, 1.0) ** 0.8
    return Estimate(motors * each, 0.4, "3 g for each 10 A at 12 V, more with (V/12)^0.8, as single controllers")


def placed(parts: PartsList, hubs: tuple[Hub, ...], size: float, weights: Weights) -> Placed:
    """All parts where builders put them, about a frame of that diagonal [m]; refused where no mass is left for the frame"""
    payload = given(parts.given("payload") or 0.0)
    count = len(hubs)
    named = {
        "motors": count * weights.motor.value,
        "propellers": count * weights.propeller.value,
        "battery": weights.battery.value,
        "speed controllers": weights.controllers.value,
        "payload": payload.value,
    }
    rest = parts.mass - sum(named.values())
    _require_sensible(parts, named, rest)
    board = _board(parts, rest)
    frame = Estimate(rest - board.value, 0.3, f"what is left of {parts.mass:g} kg")

    height = (weights.motor.value / (MOTOR_DENSITY * 0.25 * 3.141592653589793 * MOTOR_SHAPE**2)) ** (1.0 / 3.0)
    bodies: list[Body] = []
    for hub in hubs:
        under = Vec3(hub.place.x, hub.place.y, hub.place.z + (0.5 * height if hub.level < 0 else -0.5 * height))
        bodies.append(cylinder("motors", weights.motor, under, MOTOR_SHAPE * height, height))
        bodies.append(spinning("propellers", weights.propeller, hub.place, weights.propeller_inertia.value))
    deck = -height if all(hub.level == 0 for hub in hubs) else 0.0  # the arms: under motors, or between a pair of them
    middle = Vec3(0.0, 0.0, deck)
    plates = Vec3(0.4 * size, 0.22 * size, 0.1 * size)
    thickness = ARM_THICKNESS * size
    ends = [Vec3(end.x, end.y, deck) for end in arm_ends(hubs)]
    each_arm = Estimate(ARMS * frame.value / len(ends), frame.spread, frame.how)
    bodies += [rod(FRAME, each_arm, middle, end, thickness) for end in ends]
    bodies.append(box(FRAME, frame._replace(value=PLATES * frame.value), middle, plates))
    legs = frame._replace(value=(1.0 - ARMS - PLATES) * frame.value / len(ends))
    bodies += [
        rod(
            FRAME,
            legs,
            Vec3(0.6 * e.x, 0.6 * e.y, deck),
            Vec3(0.6 * e.x, 0.6 * e.y, deck - 0.1 * size),
            0.2 * thickness,
        )
        for e in ends
    ]
    bodies.append(box("board", board, middle, Vec3(0.2 * size, 0.16 * size, 0.06 * size)))
    if parts.mass < ON_THE_BODY:
        bodies.append(
            box("speed controllers", weights.controllers, middle, Vec3(0.16 * size, 0.16 * size, 0.02 * size))
        )
    else:
        one = weights.controllers._replace(value=weights.controllers.value / len(ends))
        bodies += [
            box("speed controllers", one, Vec3(0.5 * e.x, 0.5 * e.y, deck), Vec3(0.1 * size, 0.05 * size, 0.02 * size))
            for e in ends
        ]
    pack = _pack(weights.battery.value)
    bodies.append(box("battery", weights.battery, _battery_place(parts, deck, plates, pack), pack))
    if payload.value > 0.0:
        side = (payload.value / 1000.0) ** (1.0 / 3.0)  # as dense as water
        where = parts.given("payload_position") or Vec3(0.0, 0.0, deck - 0.5 * plates.z - 0.5 * side)
        bodies.append(box("payload", payload, where, Vec3(side, side, side)))
    lowest = max(plates.z / 2.0 - deck, *(-hub.place.z for hub in hubs), *_undersides(parts, bodies, pack))
    return Placed(tuple(bodies), lowest)


def _undersides(parts: PartsList, bodies: list[Body], pack: Vec3) -> list[float]:
    found = [0.5 * pack.z - own.centre.z for own in bodies if own.name == "battery"]
    side = ((parts.given("payload") or 0.0) / 1000.0) ** (1.0 / 3.0)
    return found + [0.5 * side - own.centre.z for own in bodies if own.name == "payload"]


def _pack(mass: float) -> Vec3:
    """A battery of that mass  [m]"""
    length, width, height = BATTERY_SHAPE
    unit = (mass / BATTERY_DENSITY / (length * width * height)) ** (1.0 / 3.0)
    return Vec3(length * unit, width * unit, height * unit)


def _battery_place(parts: PartsList, deck: float, plates: Vec3, pack: Vec3) -> Vec3:
    place: Vec3 | None = parts.given("battery_position")
    if place is not None:
        return place
    above = 0.5 * (plates.z + pack.z)
    return Vec3(0.0, 0.0, deck + (above if parts.mass < ON_THE_BODY else -above))


def _board(parts: PartsList, rest: float) -> Estimate:
    """Flight controller, receiver, camera; at most half of what is left, for in small ones the board is the frame  [kg]"""
    if (known := parts.given("board_mass")) is not None:
        if not known < rest:
            raise PartsError(
                f"board_mass = {known:g} kg: expected less than the {rest:.3g} kg that the other parts leave of "
                f"{parts.mass:g} kg"
            )
        return given(known)
    usual = BOARD_AT_1_KG * parts.mass**BOARD_POWER
    return Estimate(min(usual, 0.5 * rest), 0.35, "0.06 kg (m/kg)^0.6, at most half of what the other parts leave")


def _require_sensible(parts: PartsList, named: dict[str, float], rest: float) -> None:
    if named["battery"] >= parts.mass:
        raise PartsError(
            f"battery = {parts.battery!r} weighs about {named['battery']:.3g} kg and mass = {parts.mass:g} kg: "
            "expected an aircraft heavier than its battery"
        )
    listed = ", ".join(f"{name} {own:.3g} kg" for name, own in named.items() if own > 0.0)
    if rest < LEAST_FRAME * parts.mass:
        raise PartsError(
            f"mass = {parts.mass:g} kg and the parts weigh {sum(named.values()):.3g} kg ({listed}): expected at least "
            f"{LEAST_FRAME * parts.mass:.2g} kg left for the frame; give what was weighed (battery_mass, motor_mass, ...)"
        )
    if rest > MOST_FRAME * parts.mass:
        raise PartsError(
            f"mass = {parts.mass:g} kg and the parts weigh {sum(named.values()):.3g} kg ({listed}): expected at most "
            f"{100 * MOST_FRAME:.0f} % of the mass left for the frame; give what is carried as payload"
        )
