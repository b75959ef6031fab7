"""A vehicle as a model of Gazebo: one link for the body, one for each rotor, a motor model each, the sensors that PX4 reads.

What SDF says comes back the same when the file is imported again: mass, centre of mass and inertia of all links together,
rotors, lag, drag and rolling moment of rotors, feet. The rest is listed by `left_out`.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from samara.core.algebra import IDENTITY, ZERO, Mat3, Quat, Vec3, cross, dot, euler_from_quat, normalize
from samara.core.atomic_files import write_text
from samara.core.sanitise import printable
from samara.physics.effect import Role
from samara.physics.multirotor import at_rest
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.rotor_air_effects import ROLLING_BY_SPIN, ROLLING_MOMENT, ROTOR_DRAG, THRUST_FADE
from samara.physics.types import CALM, Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.link_tree import Mass, Pose, moved, together
from samara.vehicles.limits import thrust_limits
from samara.vehicles.payload import point_inertia
from samara.vehicles.trim import hover

_SAID = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.CONTACT, Role.SHAPE)
_SAID_BY_MOTORS = (ROTOR_DRAG, ROLLING_MOMENT, ROLLING_BY_SPIN, THRUST_FADE)
NO_INERTIA = 1e-9  # [kg m²]: Gazebo takes no link without any
_SHARE = 0.01  # of the mass: a propeller, where its size does not tell
_FOOT = 0.005  # [m]
_SENSORS = (
    ("imu_sensor", "imu", 250),
    ("air_pressure_sensor", "air_pressure", 50),
    ("magnetometer_sensor", "magnetometer", 100),
    ("navsat_sensor", "navsat", 30),
)


class Motor(NamedTuple):
    """What a motor model of Gazebo needs of a motor  [rad/s, s, s]"""

    speed_max: float
    rise: float
    fall: float


def write_sdf(vehicle: Vehicle, path: Path) -> list[Path]:
    """The model as a file .sdf, or as a folder with its model.config, as Gazebo looks for it"""
    text = sdf_text(vehicle)
    if path.suffix == ".sdf":
        write_text(path, text)
        return [path]
    write_text(path / "model.sdf", text)
    write_text(path / "model.config", _config(vehicle))
    return [path / "model.sdf", path / "model.config"]


def left_out(vehicle: Vehicle) -> list[str]:
    """What SDF has no word for, a sentence each"""
    effects = vehicle.structure.effects
    untold = [own for own in effects if own.role not in _SAID and own not in _SAID_BY_MOTORS]
    found = [f"{own.name}: SDF has no word for it" for own in untold]
    if vehicle.has("rotor_drag") and vehicle["rotor_drag"].axial > 0.0:
        found.append("rotor_drag.axial: Gazebo's rotors know only drag across their axis")
    if vehicle.has("thrust_fade") and not _classic(vehicle):
        found.append("thrust_fade: gz-sim's motor model has none")
    if vehicle.structure.inflow is not None:
        found.append("inflow: SDF has no word for it")
    if not all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        found.append("motor: Gazebo has a lag, here that of the DC motors about hover, on a full battery")
    elif any(rotor.motor.speed_min > 0.0 for rotor in vehicle.rotors):
        found.append("motor.speed_min: Gazebo's rotors stand still at no command")
    if any(not rotor.inertia > 0.0 for rotor in vehicle.rotors):
        found.append(f"rotors.inertia = 0: a link of Gazebo has some, here {NO_INERTIA:g} kg m^2")
    return found


def sdf_text(vehicle: Vehicle) -> str:
    """The text of a model.sdf"""
    if not vehicle.rotors:
        raise VehicleError(f"{vehicle.name}: rotors has 0 entries: expected some, Gazebo's motor models need them")
    classic = _classic(vehicle)
    root = Element("sdf", version="1.6" if classic else "1.9")
    model = SubElement(root, "model", name=printable(vehicle.name))
    lowest = min((point.z for point in vehicle["contact"].points_B), default=0.0) if vehicle.has("contact") else 0.0
    _add(model, {"pose": _numbers(0.0, 0.0, max(0.0, -lowest), 0.0, 0.0, 0.0)})
    body, propellers = _parts(vehicle)
    link = _link(model, "base_link", Pose(), body)
    _body_shapes(link, vehicle)
    for name, kind, rate in () if classic else _SENSORS:
        _add(SubElement(link, "sensor", name=name, type=kind), {"always_on": "1", "update_rate": str(rate)})
    for i, (rotor, propeller) in enumerate(zip(vehicle.rotors, propellers, strict=True)):
        _rotor_link(model, i, rotor, propeller)
    for i, motor in enumerate(motors(vehicle)):
        _plugin(model, i, vehicle, motor, classic)
    indent(root)
    return '<?xml version="1.0"?>\n' + tostring(root, encoding="unicode") + "\n"


def motors(vehicle: Vehicle) -> list[Motor]:
    """Speed limits and lags; of DC motors the speed at full duty, and the slope of Ω̇ over Ω about hover: τ = −1/(∂Ω̇/∂Ω)"""
    tops = [
        math.sqrt(own.high / rotor.k_thrust) for own, rotor in zip(thrust_limits(vehicle), vehicle.rotors, strict=True)
    ]
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        return [
            Motor(rotor.motor.speed_max if not vehicle.has("battery") else top, rotor.motor.rise, rotor.motor.fall)
            for rotor, top in zip(vehicle.rotors, tops, strict=True)
        ]
    direct = vehicle.without_effect("actuator") if vehicle.has("actuator") else vehicle
    state, command = hover(direct)
    rate = direct.structure.actuation.rotor_acceleration

    def turning(factor: float) -> np.ndarray:
        faster = at_rest(direct)._replace(
            rotor_speed=tuple(factor * speed for speed in state.rotor_speed), effects=state.effects
        )
        return np.array(rate(faster, command, direct, CALM))

    step = 1e-4
    slopes = (turning(1.0 + step) - turning(1.0 - step)) / (2.0 * step * np.array(state.rotor_speed))
    return [Motor(top, float(-1.0 / slope), float(-1.0 / slope)) for top, slope in zip(tops, slopes, strict=True)]


def _classic(vehicle: Vehicle) -> bool:
    """Whether only Gazebo Classic's motor model says it: a moment by spin, or thrust that fades and no other moment"""
    if vehicle.has("rolling_moment"):
        return vehicle.structure.effects[vehicle.index("rolling_moment")] is ROLLING_BY_SPIN
    return vehicle.has("thrust_fade")


def _parts(vehicle: Vehicle) -> tuple[Mass, list[Mass]]:
    """The body, and each rotor in its own frame: together they are the vehicle

    A propeller is a flat disc of the rotor's inertia, with the mass of a rod as long as its diameter; lighter where that would
    leave a body that no mass can make.
    """
    share = 1.0
    for _ in range(40):
        propellers = [_propeller(vehicle, rotor, share) for rotor in vehicle.rotors]
        placed = [moved(own, _hub(rotor)) for own, rotor in zip(propellers, vehicle.rotors, strict=True)]
        others = together(placed)
        mass = float(vehicle.mass) - others.mass
        if mass > 0.5 * float(vehicle.mass):
            centre = others.centre * (-others.mass / mass)
            about = others.inertia + point_inertia(others.mass, others.centre) + point_inertia(mass, centre)
            inertia = vehicle.inertia_B - about
            if _solid(inertia):
                return Mass(mass, centre, inertia), propellers
        share *= 0.5
    raise VehicleError(
        f"{vehicle.name}: rotors.inertia is more than the body's own leaves room for: expected less, to write it as links"
    )


def _propeller(vehicle: Vehicle, rotor: Rotor, share: float) -> Mass:
    turning = max(float(rotor.inertia), NO_INERTIA)
    most = _SHARE * float(vehicle.mass)
    mass = share * min(3.0 * turning / float(rotor.radius) ** 2 if rotor.radius > 0.0 else most, most)
    return Mass(mass, ZERO, Mat3(0.5 * turning, 0.0, 0.0, 0.0, 0.5 * turning, 0.0, 0.0, 0.0, turning))


def _solid(inertia: Mat3) -> bool:
    small, middle, large = np.linalg.eigvalsh(np.array(inertia, dtype=float).reshape(3, 3))
    return bool(small > 0.0 and small + middle >= large)


def _hub(rotor: Rotor) -> Pose:
    """At the rotor, its z axis along the thrust"""
    return Pose(rotor.r_B, _from_up(rotor.axis_B))


def _from_up(axis: Vec3) -> Quat:
    """The shortest turn from z to a direction"""
    if axis.z < -1.0 + 1e-12:
        return Quat(0.0, 1.0, 0.0, 0.0)
    if axis == Vec3(0.0, 0.0, 1.0):
        return IDENTITY
    up = Vec3(0.0, 0.0, 1.0)
    across = cross(up, axis)
    return normalize(Quat(1.0 + dot(up, axis), across.x, across.y, across.z))


def _link(model: Element, name: str, pose: Pose, body: Mass) -> Element:
    link = SubElement(model, "link", name=name)
    moments = {"ixx": 0, "ixy": 1, "ixz": 2, "iyy": 4, "iyz": 5, "izz": 8}
    inertial = {
        "pose": _numbers(*body.centre, 0.0, 0.0, 0.0),
        "mass": _numbers(body.mass),
        "inertia": {key: _numbers(body.inertia[at]) for key, at in moments.items()},
    }
    _add(link, {"pose": _numbers(*pose.p, *euler_from_quat(pose.q)), "inertial": inertial})
    return link


def _body_shapes(link: Element, vehicle: Vehicle) -> None:
    """A box that is seen, as wide as half of the arms, and a small ball for each foot"""
    reach = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors) or 0.1
    size = _numbers(0.7 * reach, 0.7 * reach, 0.2 * reach)
    _add(SubElement(link, "visual", name="body"), {"geometry": {"box": {"size": size}}})
    for i, foot in enumerate(vehicle["contact"].points_B if vehicle.has("contact") else ()):
        pose = _numbers(foot.x, foot.y, foot.z + _FOOT, 0.0, 0.0, 0.0)
        ball = {"sphere": {"radius": _numbers(_FOOT)}}
        _add(SubElement(link, "collision", name=f"foot_{i}"), {"pose": pose, "geometry": ball})


def _rotor_link(model: Element, i: int, rotor: Rotor, propeller: Mass) -> None:
    link = _link(model, f"rotor_{i}", _hub(rotor), propeller)
    disc = {"cylinder": {"radius": _numbers(rotor.radius), "length": "0.005"}}
    for kind in ("collision", "visual") if rotor.radius > 0.0 else ():
        _add(SubElement(link, kind, name=f"rotor_{i}_{kind}"), {"geometry": disc})
    joint = SubElement(model, "joint", name=f"rotor_{i}_joint", type="revolute")
    axis = {"xyz": "0 0 1", "limit": {"lower": "-1e16", "upper": "1e16"}}
    _add(joint, {"parent": "base_link", "child": f"rotor_{i}", "axis": axis})


def _plugin(model: Element, i: int, vehicle: Vehicle, motor: Motor, classic: bool) -> None:
    rotor = vehicle.rotors[i]
    if classic:
        plugin = SubElement(model, "plugin", name=f"motor_{i}", filename="libgazebo_motor_model.so")
        _add(plugin, {"robotNamespace": ""})
    else:
        file, name = "gz-sim-multicopter-motor-model-system", "gz::sim::systems::MulticopterMotorModel"
        plugin = SubElement(model, "plugin", filename=file, name=name)
    turning = "ccw" if rotor.spin > 0 else "cw"
    _add(plugin, {"jointName": f"rotor_{i}_joint", "linkName": f"rotor_{i}", "turningDirection": turning})
    drag = vehicle["rotor_drag"].coefficient if vehicle.has("rotor_drag") else 0.0
    rolling = vehicle["rolling_moment"].coefficient if vehicle.has("rolling_moment") else 0.0
    numbers = {
        "timeConstantUp": motor.rise,
        "timeConstantDown": motor.fall,
        "maxRotVelocity": motor.speed_max,
        "motorConstant": rotor.k_thrust,
        "momentConstant": rotor.k_torque / rotor.k_thrust,
        "rotorDragCoefficient": drag,
        "rollingMomentCoefficient": rolling,
        "rotorVelocitySlowdownSim": 10.0,
    }
    if classic:
        numbers["maxRelativeAirspeed"] = vehicle["thrust_fade"].airspeed if vehicle.has("thrust_fade") else 1e9
    _add(plugin, {key: _numbers(number) for key, number in numbers.items()})
    topic = "/gazebo/command/motor_speed" if classic else "command/motor_speed"
    _add(plugin, {"commandSubTopic": topic, "motorNumber": str(i), "motorType": "velocity"})


def _config(vehicle: Vehicle) -> str:
    root = Element("model")
    _add(root, {"name": printable(vehicle.name), "version": "1.0"})
    SubElement(root, "sdf", version="1.6" if _classic(vehicle) else "1.9").text = "model.sdf"
    described = vehicle.structure.description or f"{vehicle.name}, written by Samara"
    _add(root, {"description": printable(described)})
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


def _numbers(*numbers: float) -> str:
    """Each in the digits that read back to it"""
    return " ".join(repr(float(number) + 0.0) for number in numbers)
