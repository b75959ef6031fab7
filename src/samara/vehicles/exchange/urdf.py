"""URDF, with xacro: a tree of links, and rotors by a motor model, by a `<properties>` table, or by their joints alone.

Gazebo's motor models stand in `<gazebo><plugin>`. gym-pybullet-drones has `<properties kf= km= thrust2weight= …>` with speeds
in rpm. Any other file says where its rotors are by joints that turn (continuous, or with a transmission) and no more.
"""

import math
import re
from dataclasses import replace
from pathlib import Path

from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.gazebo_motor import in_order, is_motor, motor_fields, read_motor
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Record
from samara.vehicles.exchange.link_tree import (
    HERE,
    Link,
    Mass,
    Pose,
    collision_shapes,
    moved,
    rotor_at,
    said_mass,
    standing_points,
    symmetric,
    whole,
)
from samara.vehicles.exchange.safe_xml import MAX_LINKS, Node, read_xml
from samara.vehicles.exchange.xacro import expanded, uses_xacro
from samara.vehicles.parts.uncertain import Estimate, given

FORMAT = "URDF"
_PER_RPM = 60.0 / (2.0 * math.pi)
_GRAVITY = 9.8  # [m/s²]: gym-pybullet-drones', for which its thrust2weight holds
_ROTOR = re.compile(r"rotor|prop", re.IGNORECASE)


def read_urdf(path: Path) -> Imported:
    """What a URDF file says of the aircraft in it; a xacro file is expanded first, without running any code"""
    root = read_xml(path)
    if root.tag != "robot":
        raise root.error("is the root: expected <robot>")
    if uses_xacro(root):
        root = expanded(root, path.parent)
    links = _links(root)
    total = whole(list(links.values()))
    if not total.mass > 0.0:
        raise root.error("has no link with a mass: expected one")
    how = f"{root.origin}: robot {root.attribute('name', '')}".rstrip()
    mass, inertia = said_mass(total, how)
    plain = Imported(
        root.attribute("name", "") or path.stem, root.origin, FORMAT, mass=mass, inertia=inertia, actuation="normalized"
    )
    plugins = [plugin for own in root.children("gazebo") for plugin in own.children("plugin")]
    if any(is_motor(plugin) for plugin in plugins):
        found, turning = _by_motors(plain, root, plugins, links, total)
    elif root.child("properties") is not None:
        found, turning = _by_properties(plain, root, root.need("properties"), links, total)
    else:
        found, turning = _by_joints(plain, root, links, total)
    others = [own for own in links.values() if own.name not in turning]
    feet = standing_points(others, total.centre, f"{how}: collision shapes")
    return replace(found, feet=feet, description=f"{found.name}, from {FORMAT}")


# The tree ------------------------------------------------------------------------------------------------------------


def _links(root: Node) -> dict[str, Link]:
    nodes = {own.name: own for own in root.children("link")}
    if len(nodes) > MAX_LINKS:
        raise root.error(f"has {len(nodes)} links: expected at most {MAX_LINKS}")
    above: dict[str, tuple[str, Pose]] = {}
    for joint in root.children("joint"):
        if joint.child("child") is None:
            continue  # of a transmission or a plugin
        parent, child = joint.need("parent").attribute("link"), joint.need("child").attribute("link")
        for name in (parent, child):
            if name not in nodes:
                raise joint.error(f"joins link {name!r:.60}: expected a link that is there")
        if child in above:
            raise joint.error(f"hangs {child!r:.60} under a second parent: expected a tree")
        above[child] = (parent, _origin(joint))
    roots = [name for name in nodes if name not in above]
    if len(roots) != 1:
        raise root.error(f"has {len(roots)} links that hang under no other: expected one")
    poses = _poses(above, nodes)
    return {
        name: Link(name, poses[name], _mass(node), collision_shapes(node, _origin, _numbers))
        for name, node in nodes.items()
    }


def _poses(above: dict[str, tuple[str, Pose]], nodes: dict[str, Node]) -> dict[str, Pose]:
    """The pose of every link in the root's frame, each computed once from its parent's."""
    poses: dict[str, Pose] = {}
    for name in nodes:
        chain: dict[str, None] = {}
        at = name
        while at in above and at not in poses:
            if at in chain:
                raise nodes[at].error("hangs under itself: expected a tree")
            chain[at] = None
            at = above[at][0]
        pose = poses.setdefault(at, HERE)
        for link in reversed(chain):
            pose = poses[link] = pose.of(above[link][1])
    return poses


def _origin(node: Node) -> Pose:
    origin = node.child("origin")
    if origin is None:
        return HERE
    place, turn = (origin.numbers_of(origin.attribute(key, "0 0 0"), 3, key) for key in ("xyz", "rpy"))
    return Pose(Vec3(*place), quat_from_euler(*turn))


def _numbers(node: Node, key: str, count: int) -> tuple[float, ...]:
    return node.numbers_of(node.attribute(key), count, key)


def _mass(link: Node) -> Mass:
    """A link without <inertial> has none"""
    inertial = link.child("inertial")
    nothing = symmetric(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if inertial is None:
        return Mass(0.0, ZERO, nothing)
    mass = inertial.need("mass").attribute_number("value")
    if mass < 0.0:
        raise inertial.error(f"has the mass {mass:g} kg: expected a number that is not negative")
    inertia = inertial.child("inertia")
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    own = symmetric(*(inertia.attribute_number(key, 0.0) for key in keys)) if inertia is not None else nothing
    return moved(Mass(mass, ZERO, own), _origin(inertial))


# The rotors ----------------------------------------------------------------------------------------------------------


def _by_motors(
    plain: Imported, root: Node, plugins: list[Node], links: dict[str, Link], total: Mass
) -> tuple[Imported, set[str]]:
    """As in SDF: everything is said"""
    motors = in_order([read_motor(plugin) for plugin in plugins if is_motor(plugin)], root.origin)
    return replace(plain, **motor_fields(root, motors, links, total.centre)), {motor.link for motor in motors}


def _by_properties(
    plain: Imported, root: Node, table: Node, links: dict[str, Link], total: Mass
) -> tuple[Imported, set[str]]:
    """kf and km per rpm², places by the inertial origins of prop0_link …, thrust2weight; they turn in turn, the first ccw

    gym-pybullet-drones' own drag, −c Σ Ω v, is that of rotors: in their plane, and along the axis.
    """

    def said(key: str, factor: float = 1.0) -> Estimate | None:
        if not table.has(key):
            return None
        return given(factor * table.attribute_number(key), f"{root.origin}: properties {key}")

    named = sorted(name for name in links if re.fullmatch(r"prop\d+_link", name))
    if not named:
        raise root.error("has <properties> and no links prop0_link, prop1_link, ...: expected one for each rotor")
    k_thrust, k_torque = said("kf", _PER_RPM**2), said("km", _PER_RPM**2)
    ratio, radius = said("thrust2weight"), said("prop_radius")
    motor: dict[str, Estimate] = {}
    if ratio and k_thrust and k_thrust.value > 0.0:
        most = ratio.value * total.mass * _GRAVITY / (len(named) * k_thrust.value)
        motor["speed_max"] = given(math.sqrt(most), f"{ratio.how}, with kf and the mass")
        motor["speed_min"] = given(0.0, "gym-pybullet-drones' rotors turn as slowly as they are told")
    rotors = []
    for i, name in enumerate(named):
        own = rotor_at(links[name], total.centre, f"{root.origin}: link {name}")
        rotors.append(
            replace(own, spin=1 if i % 2 == 0 else -1, k_thrust=k_thrust, k_torque=k_torque, radius=radius, motor=motor)
        )
    across, along = said("drag_coeff_xy"), said("drag_coeff_z")
    drag: Record = {key: own for key, own in (("coefficient", across), ("axial", along)) if own and across}
    note = "rotors of gym-pybullet-drones turn in turn, the first counter-clockwise; its racer turns the other way"
    effects = {"rotor_drag": drag} if drag else {}
    return replace(plain, rotors=tuple(rotors), effects=effects, notes=(note,)), set(named)


def _by_joints(plain: Imported, root: Node, links: dict[str, Link], total: Mass) -> tuple[Imported, set[str]]:
    """Joints of links called rotor or prop that turn, and those that a transmission drives: places and axes alone"""
    driving = {own.name for transmission in root.children("transmission") for own in transmission.children("joint")}
    found: list[tuple[str, ImportedRotor]] = []
    for joint in root.children("joint"):
        if joint.child("child") is None:
            continue
        name, kind = joint.need("child").attribute("link"), joint.attribute("type", "")
        if not (kind == "continuous" or joint.name in driving or kind == "revolute"):
            continue
        if not (_ROTOR.search(name) or _ROTOR.search(joint.name) or joint.name in driving):
            continue
        found.append((name, rotor_at(links[name], total.centre, f"{root.origin}: link {name}")))
    if not found:
        raise VehicleError(
            f"{root.origin}: has no motor model, no <properties> and no joint of a rotor that turns: expected rotors"
        )
    found.sort(key=lambda pair: [int(own) if own.isdigit() else own for own in re.split(r"(\d+)", pair[0])])
    note = "rotors are known by their joints alone: thrust, torque, turning and motors are not in the file"
    return replace(plain, rotors=tuple(own for _, own in found), notes=(note,)), {name for name, _ in found}
