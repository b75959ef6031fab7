"""Read URDF, with xacro: a tree of links, and rotors from motor plugins, from a `<properties>` table, or from joints alone.

Gazebo's motor plugins are in `<gazebo><plugin>`. gym-pybullet-drones has `<properties kf= km= thrust2weight= …>` with speeds
in rpm. Any other file has rotor positions only, from joints that turn (continuous, or with a transmission).
"""

import math
import re
from dataclasses import replace
from pathlib import Path

from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.gazebo_motor import is_motor, motor_fields, read_motor, sort_motors
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, ImportedVehicle, Record
from samara.vehicles.exchange.link_tree import (
    IDENTITY_POSE,
    LinkPose,
    RigidBody,
    RigidLink,
    collision_shapes,
    combine_links,
    link_rotor,
    mass_and_inertia,
    standing_points,
    symmetric_matrix,
    transform_body,
)
from samara.vehicles.exchange.safe_xml import MAX_LINKS, XmlNode, read_xml
from samara.vehicles.exchange.xacro import expand_xacro, uses_xacro
from samara.vehicles.parts.uncertain import UncertainValue, exact_value

FORMAT = "URDF"
_RPM_PER_RAD_S = 60.0 / (2.0 * math.pi)
_GRAVITY = 9.8  # [m/s²], of gym-pybullet-drones, for its thrust2weight
_ROTOR_NAME = re.compile(r"rotor|prop", re.IGNORECASE)


def read_urdf(path: Path) -> ImportedVehicle:
    """Read the vehicle of a URDF file; a xacro file is expanded first, without executing code."""
    root = read_xml(path)
    if root.tag != "robot":
        raise root.error("is the root: expected <robot>")
    if uses_xacro(root):
        root = expand_xacro(root, path.parent)
    links = _links(root)
    total = combine_links(list(links.values()))
    if not total.mass > 0.0:
        raise root.error("has no link with a mass: expected one")
    source = f"{root.origin}: robot {root.attribute('name', '')}".rstrip()
    mass, inertia = mass_and_inertia(total, source)
    body = ImportedVehicle(
        root.attribute("name", "") or path.stem, root.origin, FORMAT, mass=mass, inertia=inertia, actuation="normalized"
    )
    plugins = [plugin for element in root.children("gazebo") for plugin in element.children("plugin")]
    if any(is_motor(plugin) for plugin in plugins):
        imported, rotor_links = _plugin_rotors(body, root, plugins, links, total)
    elif root.child("properties") is not None:
        imported, rotor_links = _property_rotors(body, root, root.require_child("properties"), links, total)
    else:
        imported, rotor_links = _joint_rotors(body, root, links, total)
    fixed_links = [link for link in links.values() if link.name not in rotor_links]
    feet = standing_points(fixed_links, total.centre, f"{source}: collision shapes")
    return replace(imported, feet=feet, description=f"{imported.name}, from {FORMAT}")


# The tree ------------------------------------------------------------------------------------------------------------


def _links(root: XmlNode) -> dict[str, RigidLink]:
    nodes = {node.name: node for node in root.children("link")}
    if len(nodes) > MAX_LINKS:
        raise root.error(f"has {len(nodes)} links: expected at most {MAX_LINKS}")
    parents: dict[str, tuple[str, LinkPose]] = {}
    for joint in root.children("joint"):
        if joint.child("child") is None:
            continue  # part of a transmission or a plugin
        parent, child = joint.require_child("parent").attribute("link"), joint.require_child("child").attribute("link")
        for name in (parent, child):
            if name not in nodes:
                raise joint.error(f"joins link {name!r:.60}: expected an existing link")
        if child in parents:
            raise joint.error(f"gives {child!r:.60} a second parent: expected a tree")
        parents[child] = (parent, _origin(joint))
    roots = [name for name in nodes if name not in parents]
    if len(roots) != 1:
        raise root.error(f"has {len(roots)} links without a parent: expected one")
    poses = _poses(parents, nodes)
    return {
        name: RigidLink(name, poses[name], _mass(node), collision_shapes(node, _origin, _numbers))
        for name, node in nodes.items()
    }


def _poses(parents: dict[str, tuple[str, LinkPose]], nodes: dict[str, XmlNode]) -> dict[str, LinkPose]:
    """The pose of every link in the root's frame, each computed once from its parent's."""
    poses: dict[str, LinkPose] = {}
    for name in nodes:
        chain: dict[str, None] = {}
        ancestor = name
        while ancestor in parents and ancestor not in poses:
            if ancestor in chain:
                raise nodes[ancestor].error("is its own ancestor: expected a tree")
            chain[ancestor] = None
            ancestor = parents[ancestor][0]
        pose = poses.setdefault(ancestor, IDENTITY_POSE)
        for link in reversed(chain):
            pose = poses[link] = pose.compose(parents[link][1])
    return poses


def _origin(node: XmlNode) -> LinkPose:
    origin = node.child("origin")
    if origin is None:
        return IDENTITY_POSE
    position, angles = (origin.parse_numbers(origin.attribute(key, "0 0 0"), 3, key) for key in ("xyz", "rpy"))
    return LinkPose(Vec3(*position), quat_from_euler(*angles))


def _numbers(node: XmlNode, key: str, count: int) -> tuple[float, ...]:
    return node.parse_numbers(node.attribute(key), count, key)


def _mass(link: XmlNode) -> RigidBody:
    """Read mass and inertia; a link without <inertial> has none."""
    inertial = link.child("inertial")
    zero = symmetric_matrix(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if inertial is None:
        return RigidBody(0.0, ZERO, zero)
    mass = inertial.require_child("mass").attribute_number("value")
    if mass < 0.0:
        raise inertial.error(f"has the mass {mass:g} kg: expected a number that is not negative")
    inertia = inertial.child("inertia")
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    matrix = symmetric_matrix(*(inertia.attribute_number(key, 0.0) for key in keys)) if inertia is not None else zero
    return transform_body(RigidBody(mass, ZERO, matrix), _origin(inertial))


# The rotors ----------------------------------------------------------------------------------------------------------


def _plugin_rotors(
    body: ImportedVehicle, root: XmlNode, plugins: list[XmlNode], links: dict[str, RigidLink], total: RigidBody
) -> tuple[ImportedVehicle, set[str]]:
    """Read complete rotors from motor plugins, as in SDF."""
    motors = sort_motors([read_motor(plugin) for plugin in plugins if is_motor(plugin)], root.origin)
    return replace(body, **motor_fields(root, motors, links, total.centre)), {motor.link for motor in motors}


def _property_rotors(
    body: ImportedVehicle, root: XmlNode, table: XmlNode, links: dict[str, RigidLink], total: RigidBody
) -> tuple[ImportedVehicle, set[str]]:
    """Read rotors from `<properties>`: kf and km per rpm², positions by the inertial origins of prop0_link …, thrust2weight.

    Spins alternate; the first is ccw. gym-pybullet-drones' drag, −c Σ Ω v, is that of rotors, in plane and along the axis.
    """

    def property_value(key: str, factor: float = 1.0) -> UncertainValue | None:
        if not table.has(key):
            return None
        return exact_value(factor * table.attribute_number(key), f"{root.origin}: properties {key}")

    rotor_links = sorted(name for name in links if re.fullmatch(r"prop\d+_link", name))
    if not rotor_links:
        raise root.error("has <properties> and no links prop0_link, prop1_link, ...: expected one for each rotor")
    k_thrust, k_torque = property_value("kf", _RPM_PER_RAD_S**2), property_value("km", _RPM_PER_RAD_S**2)
    ratio, radius = property_value("thrust2weight"), property_value("prop_radius")
    motor: dict[str, UncertainValue] = {}
    if ratio and k_thrust and k_thrust.value > 0.0:
        speed_squared = ratio.value * total.mass * _GRAVITY / (len(rotor_links) * k_thrust.value)
        motor["speed_max"] = exact_value(math.sqrt(speed_squared), f"{ratio.source}, with kf and the mass")
        motor["speed_min"] = exact_value(0.0, "gym-pybullet-drones' rotors have no lowest speed")
    rotors = []
    for i, name in enumerate(rotor_links):
        rotor = link_rotor(links[name], total.centre, f"{root.origin}: link {name}")
        rotors.append(
            replace(
                rotor, spin=1 if i % 2 == 0 else -1, k_thrust=k_thrust, k_torque=k_torque, radius=radius, motor=motor
            )
        )
    lateral, axial = property_value("drag_coeff_xy"), property_value("drag_coeff_z")
    drag: Record = {
        key: coefficient for key, coefficient in (("coefficient", lateral), ("axial", axial)) if coefficient and lateral
    }
    note = (
        "rotors of gym-pybullet-drones alternate in spin, the first counter-clockwise; those of its racer are reversed"
    )
    effects = {"rotor_drag": drag} if drag else {}
    return replace(body, rotors=tuple(rotors), effects=effects, notes=(note,)), set(rotor_links)


def _joint_rotors(
    body: ImportedVehicle, root: XmlNode, links: dict[str, RigidLink], total: RigidBody
) -> tuple[ImportedVehicle, set[str]]:
    """Read positions and axes from turning joints of links called rotor or prop, and from joints with a transmission."""
    driven_joints = {
        joint_node.name
        for transmission in root.children("transmission")
        for joint_node in transmission.children("joint")
    }
    rotors: list[tuple[str, ImportedRotor]] = []
    for joint in root.children("joint"):
        if joint.child("child") is None:
            continue
        name, joint_type = joint.require_child("child").attribute("link"), joint.attribute("type", "")
        if not (joint_type == "continuous" or joint.name in driven_joints or joint_type == "revolute"):
            continue
        if not (_ROTOR_NAME.search(name) or _ROTOR_NAME.search(joint.name) or joint.name in driven_joints):
            continue
        rotors.append((name, link_rotor(links[name], total.centre, f"{root.origin}: link {name}")))
    if not rotors:
        raise VehicleError(
            f"{root.origin}: has no motor model, no <properties> and no turning joint of a rotor: expected rotors"
        )
    rotors.sort(key=lambda pair: [int(token) if token.isdigit() else token for token in re.split(r"(\d+)", pair[0])])
    note = "only the joints of the rotors are known: thrust, torque, spin and motors are not in the file"
    return replace(body, rotors=tuple(rotor for _, rotor in rotors), notes=(note,)), {name for name, _ in rotors}
