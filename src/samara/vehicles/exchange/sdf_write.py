"""Write a vehicle as a Gazebo model: one link for the body, a link and a motor plugin for each rotor, and the sensors
of PX4.

Importing the file again restores the properties that SDF can express: mass, centre of mass and inertia of all links together,
rotors, lag, drag and rolling moment of rotors, feet. `sdf_omissions` lists the other properties.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from samara.core.algebra import IDENTITY, ZERO, Mat3, Quat, Vec3, cross, dot, euler_from_quat, normalize
from samara.core.atomic_files import write_text
from samara.core.sanitise import escape_control_characters
from samara.physics.effect import Role
from samara.physics.multirotor import state_at_rest
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.rotor_air_effects import ROLLING_BY_SPIN, ROLLING_MOMENT, ROTOR_DRAG, THRUST_FADE
from samara.physics.types import CALM, Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.link_tree import LinkPose, RigidBody, combine_bodies, transform_body
from samara.vehicles.limits import thrust_limits
from samara.vehicles.payload import point_inertia
from samara.vehicles.trim import hover

_EXPRESSIBLE_ROLES = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.CONTACT, Role.SHAPE)
_MOTOR_EFFECTS = (ROTOR_DRAG, ROLLING_MOMENT, ROLLING_BY_SPIN, THRUST_FADE)
MIN_LINK_INERTIA = 1e-9  # [kg m²]: Gazebo rejects links without inertia
_MAX_PROPELLER_FRACTION = 0.01  # of the mass: upper bound for a propeller
_FOOT_RADIUS = 0.005  # [m]
_SENSORS = (
    ("imu_sensor", "imu", 250),
    ("air_pressure_sensor", "air_pressure", 50),
    ("magnetometer_sensor", "magnetometer", 100),
    ("navsat_sensor", "navsat", 30),
)


class MotorDynamics(NamedTuple):
    """Top speed and time constants of a motor for Gazebo's motor plugin  [rad/s, s, s]."""

    speed_max: float
    time_constant_up: float
    time_constant_down: float


def write_sdf(vehicle: Vehicle, path: Path) -> list[Path]:
    """Write the model as a file .sdf, or as a folder with model.sdf and model.config, as Gazebo expects it."""
    text = sdf_text(vehicle)
    if path.suffix == ".sdf":
        write_text(path, text)
        return [path]
    write_text(path / "model.sdf", text)
    write_text(path / "model.config", _config(vehicle))
    return [path / "model.sdf", path / "model.config"]


def sdf_omissions(vehicle: Vehicle) -> list[str]:
    """Properties of the vehicle that SDF cannot express, one sentence each."""
    effects = vehicle.structure.effects
    inexpressible = [
        effect for effect in effects if effect.role not in _EXPRESSIBLE_ROLES and effect not in _MOTOR_EFFECTS
    ]
    omissions = [f"{effect.name}: SDF cannot express it" for effect in inexpressible]
    if vehicle.has("rotor_drag") and vehicle["rotor_drag"].axial > 0.0:
        omissions.append("rotor_drag.axial: Gazebo's rotors have only drag perpendicular to their axis")
    if vehicle.has("thrust_fade") and not _needs_classic(vehicle):
        omissions.append("thrust_fade: gz-sim's motor model has none")
    if vehicle.structure.inflow is not None:
        omissions.append("inflow: SDF cannot express it")
    if not all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        omissions.append("motor: Gazebo has a lag, here that of the DC motors about hover, on a full battery")
    elif any(rotor.motor.speed_min > 0.0 for rotor in vehicle.rotors):
        omissions.append("motor.speed_min: Gazebo's rotors stop at zero command")
    if any(not rotor.inertia > 0.0 for rotor in vehicle.rotors):
        omissions.append(f"rotors.inertia = 0: a link in Gazebo needs some, here {MIN_LINK_INERTIA:g} kg m^2")
    return omissions


def sdf_text(vehicle: Vehicle) -> str:
    """Return the text of a model.sdf."""
    if not vehicle.rotors:
        raise VehicleError(f"{vehicle.name}: rotors has 0 entries: expected some, Gazebo's motor models need them")
    is_classic = _needs_classic(vehicle)
    root = Element("sdf", version="1.6" if is_classic else "1.9")
    model = SubElement(root, "model", name=escape_control_characters(vehicle.name))
    lowest = min((point.z for point in vehicle["contact"].points_B), default=0.0) if vehicle.has("contact") else 0.0
    _add(model, {"pose": _format_numbers(0.0, 0.0, max(0.0, -lowest), 0.0, 0.0, 0.0)})
    body, propellers = _split_bodies(vehicle)
    link = _link(model, "base_link", LinkPose(), body)
    _body_shapes(link, vehicle)
    for name, sensor_type, rate in () if is_classic else _SENSORS:
        _add(SubElement(link, "sensor", name=name, type=sensor_type), {"always_on": "1", "update_rate": str(rate)})
    for i, (rotor, propeller) in enumerate(zip(vehicle.rotors, propellers, strict=True)):
        _rotor_link(model, i, rotor, propeller)
    for i, motor in enumerate(motor_dynamics(vehicle)):
        _plugin(model, i, vehicle, motor, is_classic)
    indent(root)
    return '<?xml version="1.0"?>\n' + tostring(root, encoding="unicode") + "\n"


def motor_dynamics(vehicle: Vehicle) -> list[MotorDynamics]:
    """Speed limits and lags; for DC motors the speed at full duty, and the lag at hover: τ = −1/(∂Ω̇/∂Ω)"""
    max_speeds = [
        math.sqrt(limits.high / rotor.k_thrust)
        for limits, rotor in zip(thrust_limits(vehicle), vehicle.rotors, strict=True)
    ]
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        return [
            MotorDynamics(
                rotor.motor.speed_max if not vehicle.has("battery") else max_speed,
                rotor.motor.time_constant_up,
                rotor.motor.time_constant_down,
            )
            for rotor, max_speed in zip(vehicle.rotors, max_speeds, strict=True)
        ]
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, command = hover(direct)
    rate = direct.structure.actuation.rotor_acceleration

    def accelerations(factor: float) -> np.ndarray:
        scaled_state = state_at_rest(direct)._replace(
            rotor_speed=tuple(factor * speed for speed in state.rotor_speed), effects=state.effects
        )
        return np.array(rate(scaled_state, command, direct, CALM))

    step = 1e-4
    slopes = (accelerations(1.0 + step) - accelerations(1.0 - step)) / (2.0 * step * np.array(state.rotor_speed))
    return [
        MotorDynamics(max_speed, float(-1.0 / slope), float(-1.0 / slope))
        for max_speed, slope in zip(max_speeds, slopes, strict=True)
    ]


def _needs_classic(vehicle: Vehicle) -> bool:
    """Whether only Gazebo Classic's plugin can express the vehicle: a moment by spin, or fading thrust without another
    moment."""
    if vehicle.has("rolling_moment"):
        return vehicle.structure.effects[vehicle.index("rolling_moment")] is ROLLING_BY_SPIN
    return vehicle.has("thrust_fade")


def _split_bodies(vehicle: Vehicle) -> tuple[RigidBody, list[RigidBody]]:
    """Split the vehicle into the body and each rotor in its own frame.

    A propeller is a flat disc of the rotor's inertia, with the mass of a rod as long as its diameter; lighter if the remaining
    body would be unphysical.
    """
    mass_factor = 1.0
    for _ in range(40):
        propellers = [_propeller(vehicle, rotor, mass_factor) for rotor in vehicle.rotors]
        placed_propellers = [
            transform_body(propeller, _hub_pose(rotor))
            for propeller, rotor in zip(propellers, vehicle.rotors, strict=True)
        ]
        all_propellers = combine_bodies(placed_propellers)
        mass = float(vehicle.mass) - all_propellers.mass
        if mass > 0.5 * float(vehicle.mass):
            centre = all_propellers.centre * (-all_propellers.mass / mass)
            propeller_inertia = (
                all_propellers.inertia
                + point_inertia(all_propellers.mass, all_propellers.centre)
                + point_inertia(mass, centre)
            )
            inertia = vehicle.inertia_B - propeller_inertia
            if _is_physical(inertia):
                return RigidBody(mass, centre, inertia), propellers
        mass_factor *= 0.5
    raise VehicleError(
        f"{vehicle.name}: rotors.inertia leaves an unphysical inertia of the body: expected less, to write it as links"
    )


def _propeller(vehicle: Vehicle, rotor: Rotor, mass_factor: float) -> RigidBody:
    inertia = max(float(rotor.inertia), MIN_LINK_INERTIA)
    max_mass = _MAX_PROPELLER_FRACTION * float(vehicle.mass)
    mass = mass_factor * min(3.0 * inertia / float(rotor.radius) ** 2 if rotor.radius > 0.0 else max_mass, max_mass)
    return RigidBody(mass, ZERO, Mat3(0.5 * inertia, 0.0, 0.0, 0.0, 0.5 * inertia, 0.0, 0.0, 0.0, inertia))


def _is_physical(inertia: Mat3) -> bool:
    smallest, middle, largest = np.linalg.eigvalsh(np.array(inertia, dtype=float).reshape(3, 3))
    return bool(smallest > 0.0 and smallest + middle >= largest)


def _hub_pose(rotor: Rotor) -> LinkPose:
    """Pose of the hub, with its z axis along the thrust."""
    return LinkPose(rotor.r_B, _rotation_from_z(rotor.axis_B))


def _rotation_from_z(axis: Vec3) -> Quat:
    """Shortest rotation from z to a direction."""
    if axis.z < -1.0 + 1e-12:
        return Quat(0.0, 1.0, 0.0, 0.0)
    if axis == Vec3(0.0, 0.0, 1.0):
        return IDENTITY
    up = Vec3(0.0, 0.0, 1.0)
    rotation_axis = cross(up, axis)
    return normalize(Quat(1.0 + dot(up, axis), rotation_axis.x, rotation_axis.y, rotation_axis.z))


def _link(model: Element, name: str, pose: LinkPose, body: RigidBody) -> Element:
    link = SubElement(model, "link", name=name)
    moments = {"ixx": 0, "ixy": 1, "ixz": 2, "iyy": 4, "iyz": 5, "izz": 8}
    inertial = {
        "pose": _format_numbers(*body.centre, 0.0, 0.0, 0.0),
        "mass": _format_numbers(body.mass),
        "inertia": {key: _format_numbers(body.inertia[index]) for key, index in moments.items()},
    }
    _add(link, {"pose": _format_numbers(*pose.p, *euler_from_quat(pose.q)), "inertial": inertial})
    return link


def _body_shapes(link: Element, vehicle: Vehicle) -> None:
    """Add a visible box, 0.7 of the arm length wide, and a small collision ball for each foot."""
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors) or 0.1
    size = _format_numbers(0.7 * arm, 0.7 * arm, 0.2 * arm)
    _add(SubElement(link, "visual", name="body"), {"geometry": {"box": {"size": size}}})
    for i, foot in enumerate(vehicle["contact"].points_B if vehicle.has("contact") else ()):
        pose = _format_numbers(foot.x, foot.y, foot.z + _FOOT_RADIUS, 0.0, 0.0, 0.0)
        ball = {"sphere": {"radius": _format_numbers(_FOOT_RADIUS)}}
        _add(SubElement(link, "collision", name=f"foot_{i}"), {"pose": pose, "geometry": ball})


def _rotor_link(model: Element, i: int, rotor: Rotor, propeller: RigidBody) -> None:
    link = _link(model, f"rotor_{i}", _hub_pose(rotor), propeller)
    disc = {"cylinder": {"radius": _format_numbers(rotor.radius), "length": "0.005"}}
    for element_type in ("collision", "visual") if rotor.radius > 0.0 else ():
        _add(SubElement(link, element_type, name=f"rotor_{i}_{element_type}"), {"geometry": disc})
    joint = SubElement(model, "joint", name=f"rotor_{i}_joint", type="revolute")
    axis = {"xyz": "0 0 1", "limit": {"lower": "-1e16", "upper": "1e16"}}
    _add(joint, {"parent": "base_link", "child": f"rotor_{i}", "axis": axis})


def _plugin(model: Element, i: int, vehicle: Vehicle, motor: MotorDynamics, is_classic: bool) -> None:
    rotor = vehicle.rotors[i]
    if is_classic:
        plugin = SubElement(model, "plugin", name=f"motor_{i}", filename="libgazebo_motor_model.so")
        _add(plugin, {"robotNamespace": ""})
    else:
        file, name = "gz-sim-multicopter-motor-model-system", "gz::sim::systems::MulticopterMotorModel"
        plugin = SubElement(model, "plugin", filename=file, name=name)
    direction = "ccw" if rotor.spin > 0 else "cw"
    _add(plugin, {"jointName": f"rotor_{i}_joint", "linkName": f"rotor_{i}", "turningDirection": direction})
    drag = vehicle["rotor_drag"].coefficient if vehicle.has("rotor_drag") else 0.0
    rolling = vehicle["rolling_moment"].coefficient if vehicle.has("rolling_moment") else 0.0
    values = {
        "timeConstantUp": motor.time_constant_up,
        "timeConstantDown": motor.time_constant_down,
        "maxRotVelocity": motor.speed_max,
        "motorConstant": rotor.k_thrust,
        "momentConstant": rotor.k_torque / rotor.k_thrust,
        "rotorDragCoefficient": drag,
        "rollingMomentCoefficient": rolling,
        "rotorVelocitySlowdownSim": 10.0,
    }
    if is_classic:
        values["maxRelativeAirspeed"] = vehicle["thrust_fade"].airspeed if vehicle.has("thrust_fade") else 1e9
    _add(plugin, {key: _format_numbers(number) for key, number in values.items()})
    topic = "/gazebo/command/motor_speed" if is_classic else "command/motor_speed"
    _add(plugin, {"commandSubTopic": topic, "motorNumber": str(i), "motorType": "velocity"})


def _config(vehicle: Vehicle) -> str:
    root = Element("model")
    _add(root, {"name": escape_control_characters(vehicle.name), "version": "1.0"})
    SubElement(root, "sdf", version="1.6" if _needs_classic(vehicle) else "1.9").text = "model.sdf"
    description = vehicle.structure.description or f"{vehicle.name}, written by Samara"
    _add(root, {"description": escape_control_characters(description)})
    indent(root)
    return '<?xml version="1.0"?>\n' + tostring(root, encoding="unicode") + "\n"


def _add(parent: Element, content: Mapping[str, object]) -> None:
    """Append elements by their tags: texts, or tables of further elements"""
    for tag, inner in content.items():
        element = SubElement(parent, tag)
        if isinstance(inner, Mapping):
            _add(element, inner)
        else:
            element.text = str(inner)


def _format_numbers(*numbers: float) -> str:
    """Format each number with the digits that restore it exactly."""
    return " ".join(repr(float(number) + 0.0) for number in numbers)
