"""Every part of an aircraft at its place: motors and propellers on the arms, battery, board and controllers in the middle.

The frame takes what is left of the mass: arms, plates and legs.
"""

from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.vehicles.parts.airframe import Body, arm_ends, box, cylinder, rod, spinning
from samara.vehicles.parts.layouts import Hub
from samara.vehicles.parts.parts_list import PartsError, PartsList
from samara.vehicles.parts.uncertain import Estimate, given

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
