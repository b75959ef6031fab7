"""Gazebo's motor models: the plugin that makes a link a rotor, in its three tongues.

gz-sim's MulticopterMotorModel and RotorS' motor model say T = k Ω², Q = k m Ω², f = −d |Ω| u_e, τ = −r |Ω| u_e. That of Gazebo
Classic, as PX4 has it, fades thrust by 1 − |V_c|/V₀ and gives the rolling moment the sign of the turning. All follow a
commanded speed, at most Ω_max, with a lag of one time constant up and another down. `rotorVelocitySlowdownSim` is no physics:
it turns the drawn rotor more slowly, and with it the angular momentum that Gazebo feels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from samara.core.algebra import Vec3
from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, Record
from samara.vehicles.exchange.link_tree import Link, rotor_at
from samara.vehicles.exchange.safe_xml import Node
from samara.vehicles.parts.uncertain import Estimate, given

DEFAULTS = {  # of all three
    "motorConstant": 8.54858e-06,
    "momentConstant": 0.016,
    "timeConstantUp": 1.0 / 80.0,
    "timeConstantDown": 1.0 / 40.0,
    "maxRotVelocity": 838.0,
    "rotorDragCoefficient": 1.0e-4,
    "rollingMomentCoefficient": 1.0e-6,
}
FADE = 25.0  # [m/s]: Classic's maxRelativeAirspeed by default
_NEVER = 1e6  # [m/s]: thrust that fades at such a speed does not
MAX_LISTED = 12  # names in one sentence
_SPINS = {"ccw": 1, "cw": -1}


class Motor(NamedTuple):
    """One plugin: whose motor it is, its number among the commands, which way it turns, its numbers, and its tongue"""

    link: str
    joint: str
    number: int
    spin: int
    numbers: Mapping[str, Estimate]
    classic: bool


def is_motor(plugin: Node) -> bool:
    """Whether a plugin is a motor model that is known here"""
    return _tongue(plugin) is not None


def _tongue(plugin: Node) -> str | None:
    file, name = plugin.attribute("filename", ""), plugin.attribute("name", "")
    if "multicopter-motor-model" in file or name.endswith("MulticopterMotorModel"):
        return "gz"
    if "gazebo_motor_model" in file:
        return "gz" if "rotors_" in file else "classic"
    return None


def read_motor(plugin: Node) -> Motor:
    """A motor model's numbers, Gazebo's defaults where it has none"""
    kind = plugin.text("motorType", "velocity")
    if kind != "velocity":
        raise plugin.error(f"motorType = {shown(kind)}: expected velocity, as Gazebo itself has no other")
    turning = plugin.text("turningDirection")
    if turning not in _SPINS:
        raise plugin.error(f"turningDirection = {shown(turning)}: expected ccw or cw")
    key = "actuator_number" if plugin.child("actuator_number") is not None else "motorNumber"
    number = plugin.number(key)
    if number != int(number) or number < 0:
        raise plugin.error(f"{key} = {number:g}: expected a whole number from 0")
    classic = _tongue(plugin) == "classic"
    link = plugin.text("linkName")
    numbers = {}
    for name, default in {**DEFAULTS, **({"maxRelativeAirspeed": FADE} if classic else {})}.items():
        there = plugin.child(name) is not None
        value = plugin.number(name, default)
        if value < 0.0:
            raise plugin.error(f"{name} = {value:g}: expected a number that is not negative")
        source = (
            f"{plugin.origin}: {name} of {link}" if there else f"{name}, Gazebo's default: {plugin.origin} has none"
        )
        numbers[name] = given(value, source)
    return Motor(link, plugin.text("jointName"), int(number), _SPINS[turning], numbers, classic)


def in_order(motors: Sequence[Motor], origin: str) -> list[Motor]:
    """By their numbers, which have to be those from 0 on"""
    ordered = sorted(motors, key=lambda own: own.number)
    if [own.number for own in ordered] != list(range(len(ordered))):
        numbers = ", ".join(str(own.number) for own in ordered)
        raise VehicleError(f"{origin}: motor numbers are {numbers}: expected each from 0 to {len(ordered) - 1} once")
    return ordered


def motor_fields(node: Node, motors: Sequence[Motor], links: Mapping[str, Link], centre: Vec3) -> dict[str, Any]:
    """The rotors of motor models and what air does to them, as fields of `Imported`"""
    rotors = []
    for motor in motors:
        if motor.link not in links:
            few = [name if name.isidentifier() else shown(name) for name in islice(links, MAX_LISTED)]
            listed = ", ".join(few) + (", ..." if len(links) > len(few) else "")
            raise node.error(f"has a motor model of link {shown(motor.link)}: expected one of {listed}")
        rotors.append(_driven(rotor_at(links[motor.link], centre, f"{node.origin}: link {motor.link}"), motor))
    effects, models = air_effects(motors, node.origin)
    return {"rotors": tuple(rotors), "effects": effects, "models": models}


def _driven(rotor: ImportedRotor, motor: Motor) -> ImportedRotor:
    """The rotor with what its motor model says: kF = k, kM = k m, the lag and the range of speeds"""
    numbers = motor.numbers
    thrust, length = numbers["motorConstant"], numbers["momentConstant"]
    return replace(
        rotor,
        spin=motor.spin,
        k_thrust=thrust,
        k_torque=given(thrust.value * length.value, f"{thrust.how}, times momentConstant"),
        motor={
            "speed_min": given(0.0, "Gazebo's rotors turn as slowly as they are told"),
            "speed_max": numbers["maxRotVelocity"],
            "rise": numbers["timeConstantUp"],
            "fall": numbers["timeConstantDown"],
        },
    )


def air_effects(motors: Sequence[Motor], origin: str) -> tuple[dict[str, Record], dict[str, str]]:
    """rotor_drag, rolling_moment and thrust_fade, one number for all rotors, and which of its models the moment is"""
    drag = _shared(motors, "rotorDragCoefficient", origin)
    rolling = _shared(motors, "rollingMomentCoefficient", origin)
    effects: dict[str, Record] = {}
    models = {}
    if drag.value > 0.0:
        effects["rotor_drag"] = {"coefficient": drag}
    if rolling.value > 0.0:
        effects["rolling_moment"] = {"coefficient": rolling}
        models["rolling_moment"] = "by_spin" if motors[0].classic else "alike"
    if len({own.classic for own in motors}) > 1:
        raise VehicleError(f"{origin}: has motor models of gz-sim and of Gazebo Classic: expected one kind")
    if motors[0].classic and motors[0].numbers["maxRelativeAirspeed"].value < _NEVER:
        effects["thrust_fade"] = {"airspeed": _shared(motors, "maxRelativeAirspeed", origin)}
    return effects, models


def _shared(motors: Sequence[Motor], key: str, origin: str) -> Estimate:
    values = [own.numbers[key] for own in motors]
    if len({own.value for own in values}) > 1:
        listed = ", ".join(f"{own.value:g}" for own in values)
        raise VehicleError(f"{origin}: {key} is {listed}: expected one number for all rotors")
    return values[0]
