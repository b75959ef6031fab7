"""Gazebo's motor plugins, which turn a link into a rotor, in three dialects.

gz-sim's MulticopterMotorModel and RotorS' motor model have T = k Ω², Q = k m Ω², f = −d |Ω| u_e, τ = −r |Ω| u_e. That of Gazebo
Classic, as in PX4, fades thrust by 1 − |V_c|/V₀ and gives the rolling moment the sign of the spin. All follow a commanded
speed, at most Ω_max, with a lag of one time constant up and another down. `rotorVelocitySlowdownSim` is ignored: it is a
rendering aid that slows the drawn rotor, and with it the angular momentum in Gazebo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from samara.core.algebra import Vec3
from samara.core.sanitise import quote_value
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, Record
from samara.vehicles.exchange.link_tree import RigidLink, link_rotor
from samara.vehicles.exchange.safe_xml import XmlNode
from samara.vehicles.parts.uncertain import UncertainValue, exact_value

DEFAULTS = {  # of all three dialects
    "motorConstant": 8.54858e-06,
    "momentConstant": 0.016,
    "timeConstantUp": 1.0 / 80.0,
    "timeConstantDown": 1.0 / 40.0,
    "maxRotVelocity": 838.0,
    "rotorDragCoefficient": 1.0e-4,
    "rollingMomentCoefficient": 1.0e-6,
}
DEFAULT_FADE_AIRSPEED = 25.0  # [m/s]: default of Classic's maxRelativeAirspeed
_NO_FADE_AIRSPEED = 1e6  # [m/s]: a maxRelativeAirspeed from this value on means that thrust does not fade
MAX_LISTED = 12  # names in one message
_SPINS = {"ccw": 1, "cw": -1}


class MotorPlugin(NamedTuple):
    """A motor plugin: link, joint, index among the commands, spin, parameters, and whether it is Gazebo Classic's."""

    link: str
    joint: str
    number: int
    spin: int
    values: Mapping[str, UncertainValue]
    is_classic: bool


def is_motor(plugin: XmlNode) -> bool:
    """Return whether a plugin is a supported motor model."""
    return _dialect(plugin) is not None


def _dialect(plugin: XmlNode) -> str | None:
    file, name = plugin.attribute("filename", ""), plugin.attribute("name", "")
    if "multicopter-motor-model" in file or name.endswith("MulticopterMotorModel"):
        return "gz"
    if "gazebo_motor_model" in file:
        return "gz" if "rotors_" in file else "classic"
    return None


def read_motor(plugin: XmlNode) -> MotorPlugin:
    """Read a motor plugin, with Gazebo's defaults for missing parameters."""
    motor_type = plugin.text("motorType", "velocity")
    if motor_type != "velocity":
        raise plugin.error(f"motorType = {quote_value(motor_type)}: expected velocity, the only type in Gazebo")
    direction = plugin.text("turningDirection")
    if direction not in _SPINS:
        raise plugin.error(f"turningDirection = {quote_value(direction)}: expected ccw or cw")
    key = "actuator_number" if plugin.child("actuator_number") is not None else "motorNumber"
    number = plugin.number(key)
    if number != int(number) or number < 0:
        raise plugin.error(f"{key} = {number:g}: expected a whole number from 0")
    is_classic = _dialect(plugin) == "classic"
    link = plugin.text("linkName")
    values = {}
    for name, default in {**DEFAULTS, **({"maxRelativeAirspeed": DEFAULT_FADE_AIRSPEED} if is_classic else {})}.items():
        is_set = plugin.child(name) is not None
        value = plugin.number(name, default)
        if value < 0.0:
            raise plugin.error(f"{name} = {value:g}: expected a number that is not negative")
        source = (
            f"{plugin.origin}: {name} of {link}" if is_set else f"{name}, Gazebo's default: {plugin.origin} has none"
        )
        values[name] = exact_value(value, source)
    return MotorPlugin(link, plugin.text("jointName"), int(number), _SPINS[direction], values, is_classic)


def sort_motors(motors: Sequence[MotorPlugin], origin: str) -> list[MotorPlugin]:
    """Sort motors by their numbers, which have to be 0 to n − 1."""
    ordered = sorted(motors, key=lambda motor: motor.number)
    if [motor.number for motor in ordered] != list(range(len(ordered))):
        numbers = ", ".join(str(motor.number) for motor in ordered)
        raise VehicleError(f"{origin}: motor numbers are {numbers}: expected each from 0 to {len(ordered) - 1} once")
    return ordered


def motor_fields(
    node: XmlNode, motors: Sequence[MotorPlugin], links: Mapping[str, RigidLink], centre: Vec3
) -> dict[str, Any]:
    """Return the rotors of motor plugins and their air effects, as fields of `ImportedVehicle`."""
    rotors = []
    for motor in motors:
        if motor.link not in links:
            first_names = [name if name.isidentifier() else quote_value(name) for name in islice(links, MAX_LISTED)]
            name_list = ", ".join(first_names) + (", ..." if len(links) > len(first_names) else "")
            raise node.error(f"has a motor model of link {quote_value(motor.link)}: expected one of {name_list}")
        rotors.append(_add_motor(link_rotor(links[motor.link], centre, f"{node.origin}: link {motor.link}"), motor))
    effects, models = air_effects(motors, node.origin)
    return {"rotors": tuple(rotors), "effects": effects, "models": models}


def _add_motor(rotor: ImportedRotor, motor: MotorPlugin) -> ImportedRotor:
    """Add the data of its motor plugin to a rotor: kF = k, kM = k m, lag and speed range."""
    values = motor.values
    thrust, moment_arm = values["motorConstant"], values["momentConstant"]
    return replace(
        rotor,
        spin=motor.spin,
        k_thrust=thrust,
        k_torque=exact_value(thrust.value * moment_arm.value, f"{thrust.source}, times momentConstant"),
        motor={
            "speed_min": exact_value(0.0, "Gazebo's rotors have no lowest speed"),
            "speed_max": values["maxRotVelocity"],
            "time_constant_up": values["timeConstantUp"],
            "time_constant_down": values["timeConstantDown"],
        },
    )


def air_effects(motors: Sequence[MotorPlugin], origin: str) -> tuple[dict[str, Record], dict[str, str]]:
    """Return rotor_drag, rolling_moment and thrust_fade, each with one value for all rotors, and the model of the moment."""
    drag = _common_value(motors, "rotorDragCoefficient", origin)
    rolling = _common_value(motors, "rollingMomentCoefficient", origin)
    effects: dict[str, Record] = {}
    models = {}
    if drag.value > 0.0:
        effects["rotor_drag"] = {"coefficient": drag}
    if rolling.value > 0.0:
        effects["rolling_moment"] = {"coefficient": rolling}
        models["rolling_moment"] = "by_spin" if motors[0].is_classic else "uniform"
    if len({motor.is_classic for motor in motors}) > 1:
        raise VehicleError(f"{origin}: has motor models of gz-sim and of Gazebo Classic: expected one of them")
    if motors[0].is_classic and motors[0].values["maxRelativeAirspeed"].value < _NO_FADE_AIRSPEED:
        effects["thrust_fade"] = {"airspeed": _common_value(motors, "maxRelativeAirspeed", origin)}
    return effects, models


def _common_value(motors: Sequence[MotorPlugin], key: str, origin: str) -> UncertainValue:
    values = [motor.values[key] for motor in motors]
    if len({value.value for value in values}) > 1:
        value_list = ", ".join(f"{value.value:g}" for value in values)
        raise VehicleError(f"{origin}: {key} is {value_list}: expected one number for all rotors")
    return values[0]
