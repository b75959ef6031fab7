"""Gazebo's SDF: links with masses and poses, and motor models that make rotors of some of them.

A model is flattened: nested and included models bring their links, poses are resolved through the frames they are told in,
and what is one rigid body in flight becomes one. Included models are looked for beside the file alone; meshes are never opened.
"""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import ZERO, Quat, Vec3, dot, norm, normalize, quat_from_euler, rotate
from samara.core.budget import Budget, path_beside
from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.gazebo_motor import MAX_LISTED, Motor, in_order, is_motor, motor_fields, read_motor
from samara.vehicles.exchange.imported_vehicle import Imported
from samara.vehicles.exchange.link_tree import (
    HERE,
    Link,
    Mass,
    Pose,
    Shape,
    collision_shapes,
    moved,
    said_mass,
    standing_points,
    symmetric,
    whole,
)
from samara.vehicles.exchange.safe_xml import MAX_LINKS, Node, read_xml, xml_budget

FORMAT = "Gazebo SDF"
_ALIGNED = 0.999998  # cos 0.1°
_CROOKED = 0.7  # cos 45°


class _Frame(NamedTuple):
    """A frame by the one it is told in, its pose there, and the element that says so"""

    parent: str
    pose: Pose
    node: Node


class _Joint(NamedTuple):
    name: str
    root: str
    prefix: str
    node: Node


class _Model:
    """All that one model has, flattened: names of nested models are before those of their parts, with :: between"""

    def __init__(self, node: Node, folder: Path | None, leave_out: bool, budget: Budget) -> None:
        self.origin, self.leave_out, self.budget = node.origin, leave_out, budget
        self.frames: dict[str, _Frame] = {}
        self.links: dict[str, Node] = {}
        self.joints: list[_Joint] = []
        self.plugins: list[Node] = []
        self.notes: list[str] = []
        self.poses: dict[str, Pose] = {"__model__": HERE}
        self.add(node, folder, "", "__model__")

    def add(self, model: Node, folder: Path | None, prefix: str, root: str, depth: int = 0) -> None:
        """The parts of a model whose own frame is `root`; `prefix` is before the names in it"""
        for own in model.children():
            if own.tag == "link":
                self.keep(prefix + own.name, own, prefix, root, root)
                self.links[prefix + own.name] = own
                if len(self.links) > MAX_LINKS:
                    raise own.error(f"is the link after {MAX_LINKS}: expected no more")
            elif own.tag == "frame":
                attached = own.attribute("attached_to", "")
                self.keep(prefix + own.name, own, prefix, root, prefix + attached if attached else root)
            elif own.tag == "joint":
                child = own.text("child")
                self.keep(prefix + own.name, own, prefix, root, root if child == "__model__" else prefix + child)
                self.joints.append(_Joint(prefix + own.name, root, prefix, own))
            elif own.tag == "plugin":
                self.plugins.append(own)
            elif own.tag == "model":
                self.nest(own, own, folder, prefix, root, depth)
            elif own.tag == "include":
                self.include(own, folder, prefix, root, depth)

    def keep(self, name: str, node: Node, prefix: str, root: str, default: str) -> None:
        if name in self.frames:
            raise node.error(f"has the name {shown(name)}, which another has already: expected a name of its own")
        told = node.child("pose")
        given = (told.attribute("relative_to", "") or told.attribute("frame", "")) if told is not None else ""
        parent = default if not given else root if given == "__model__" else prefix + given
        self.budget.spend_bytes(len(name) + len(parent), "bytes of scoped names")
        self.frames[name] = _Frame(parent, _pose(told), node)

    def nest(self, model: Node, placed: Node, folder: Path | None, prefix: str, root: str, depth: int) -> None:
        """A model within another, placed by `placed` where that has a pose, else by its own"""
        self.budget.require_depth(depth + 1, "models")
        if placed.child("placement_frame") is not None or placed.has("placement_frame") or model.has("placement_frame"):
            raise placed.error("has a placement_frame: expected a pose of the model's own frame")
        where = placed if placed.child("pose") is not None else model
        name = placed.text("name", "") or model.name
        merged = placed.attribute("merge", "false") in ("true", "1")
        own_root = f"{prefix}_merged__{name}__model__" if merged else f"{prefix}{name}::__model__"
        self.keep(own_root, where, prefix, root, root)
        if not merged:
            self.frames[prefix + name] = _Frame(own_root, HERE, model)
        self.add(model, folder, prefix if merged else f"{prefix}{name}::", own_root, depth + 1)

    def include(self, node: Node, folder: Path | None, prefix: str, root: str, depth: int) -> None:
        uri = node.text("uri")
        path = _beside(node, uri, folder, self.budget)
        if path is None and self.leave_out:
            self.notes.append(f"include {shown(uri)} is not there and was left out, with its mass")
            return
        if path is None:
            raise node.error(f"uri = {shown(uri)}: there is no such model: expected its folder beside this file's")
        self.nest(_only_model(read_xml(path, budget=self.budget)), node, path.parent, prefix, root, depth)
        self.plugins += node.children("plugin")

    def pose(self, name: str) -> Pose:
        """Of a frame, in that of the whole"""
        chain: dict[str, None] = {}
        at = name
        while at not in self.poses:
            if at in chain:
                named = ", ".join(map(shown, islice(chain, MAX_LISTED)))
                raise self.frames[at].node.error(f"has a pose relative to itself, through {named}")
            if at not in self.frames:
                relative = f" of {self.frames[next(reversed(chain))].node.place}" if chain else ""
                raise VehicleError(
                    f"{self.origin}: the pose{relative} is told in {shown(at)}: expected a frame that is there"
                )
            chain[at] = None
            at = self.frames[at].parent
        for frame in reversed(chain):
            self.poses[frame] = self.poses[self.frames[frame].parent].of(self.frames[frame].pose)
        return self.poses[name]

    def link(self, name: str) -> Link:
        node = self.links[name]
        inertial = node.child("inertial")
        if inertial is None:
            self.notes.append(
                f"link {shown(name)} has no <inertial>: Gazebo takes 1 kg and 1 kg m^2, and so is it here"
            )
        return Link(name, self.pose(name), _mass(node, inertial), _shapes(node))


def read_sdf(path: Path, leave_out: bool = False) -> Imported:
    """What an SDF file says of the one aircraft in it; with `leave_out` without the included models that are not there"""
    root = read_xml(path)
    if root.tag != "sdf":
        raise root.error("is the root: expected <sdf>")
    node = _only_model(root)
    model = _Model(node, path.parent, leave_out, xml_budget(root.origin))
    motors = in_order([read_motor(plugin) for plugin in model.plugins if is_motor(plugin)], root.origin)
    if not motors:
        raise node.error("has no motor model: expected a plugin MulticopterMotorModel for each rotor")
    links = {name: model.link(name) for name in model.links}
    total = whole(list(links.values()))
    how = f"{root.origin}: model {node.name}"
    mass, inertia = said_mass(total, how)
    fields = motor_fields(node, motors, links, total.centre)
    for motor in motors:
        _check_joint(model, motor, links[motor.link])
    turning = {motor.link for motor in motors}
    feet = standing_points(
        [own for own in links.values() if own.name not in turning], total.centre, f"{how}: collision shapes"
    )
    model.notes += _left_out(model, {motor.joint for motor in motors})
    return Imported(
        node.name,
        root.origin,
        FORMAT,
        mass=mass,
        inertia=inertia,
        actuation="normalized",
        feet=feet,
        description=f"{node.name}, from {FORMAT}",
        notes=tuple(model.notes),
        **fields,
    )


def _only_model(root: Node) -> Node:
    """The model of a file, in a world or by itself; of several the one that has motor models"""
    if root.tag != "sdf":
        raise root.error("is the root: expected <sdf>")
    found = [*root.children("model"), *(own for world in root.children("world") for own in world.children("model"))]
    flying = [own for own in found if any(is_motor(plugin) for plugin in own.children("plugin"))]
    if len(found) != 1 and len(flying) != 1:
        raise root.error(f"has {len(found)} models: expected one, or one with motor models")
    return found[0] if len(found) == 1 else flying[0]


def _beside(node: Node, uri: str, folder: Path | None, budget: Budget) -> Path | None:
    """The file of an included model: in a folder of its name beside the file, or beside the folder of the file; else None"""
    name = uri.removeprefix("model://").removesuffix("/model.sdf").rstrip("/")
    if folder is None or not name or "://" in name or "\\" in name:
        raise node.error(f"uri = {shown(uri)}: expected model://NAME, a model beside this file")
    for base in (folder, folder.resolve().parent):
        try:
            there = path_beside(base, name)
        except ValueError:
            raise node.error(
                f"uri = {shown(uri)}: expected model://NAME, a model beside this file and nowhere else"
            ) from None
        if there.is_dir():
            return _main_file(node, there, budget)
        if there.is_file():
            return there
    return None


def _main_file(node: Node, folder: Path, budget: Budget) -> Path:
    """The newest SDF that model.config names, else model.sdf"""
    name = "model.sdf"
    if (folder / "model.config").is_file():
        config = read_xml(folder / "model.config", f"{folder.name}/model.config", budget)
        listed = list(config.children("sdf"))
        name = (listed[-1].element.text or "").strip() if listed else name
    try:
        path = path_beside(folder, name)
    except ValueError:
        raise node.error(f"names {shown(name)} in its model.config: expected a file beside that") from None
    if not path.is_file():
        raise node.error(f"has no {shown(name)} in {shown(folder.name)}: expected one")
    return path


def _pose(told: Node | None) -> Pose:
    """x y z roll pitch yaw, in radians or degrees, or with a quaternion x y z w"""
    if told is None or not (told.element.text or "").strip():
        return HERE
    text = told.element.text or ""
    if told.attribute("rotation_format", "euler_rpy") == "quat_xyzw":
        x, y, z, qx, qy, qz, qw = told.numbers_of(text, 7)
        if not qx * qx + qy * qy + qz * qz + qw * qw > 0.0:
            raise told.error(f"= {shown(text)}: expected a quaternion that is not 0")
        return Pose(Vec3(x, y, z), normalize(Quat(qw, qx, qy, qz)))
    x, y, z, *angles = told.numbers_of(text, 6)
    unit = math.radians(1.0) if told.attribute("degrees", "false") in ("true", "1") else 1.0
    return Pose(Vec3(x, y, z), quat_from_euler(*(unit * angle for angle in angles)))


def _mass(link: Node, inertial: Node | None) -> Mass:
    """As SDF has it: 1 kg and 1 kg m² where nothing is said"""
    if inertial is None:
        return Mass(1.0, ZERO, symmetric(1.0, 0.0, 0.0, 1.0, 0.0, 1.0))
    if inertial.attribute("auto", "false") in ("true", "1"):
        raise inertial.error("is auto, which only Gazebo computes from meshes: expected mass and inertia")
    mass = inertial.number("mass", 1.0)
    if not mass >= 0.0:
        raise inertial.error(f"has the mass {mass:g} kg: expected a number that is not negative")
    inertia = inertial.child("inertia")
    keys = {"ixx": 1.0, "ixy": 0.0, "ixz": 0.0, "iyy": 1.0, "iyz": 0.0, "izz": 1.0}
    numbers = [inertia.number(key, default) if inertia is not None else default for key, default in keys.items()]
    return moved(Mass(mass, ZERO, symmetric(*numbers)), _pose(inertial.child("pose")))


def _shapes(link: Node) -> tuple[Shape, ...]:
    def numbers(shape: Node, key: str, count: int) -> tuple[float, ...]:
        return shape.need(key).numbers_of(shape.text(key), count)

    return collision_shapes(link, lambda collision: _pose(collision.child("pose")), numbers)


def _check_joint(model: _Model, motor: Motor, link: Link) -> None:
    """The joint of a rotor is there and turns it about its z axis, along which thrust acts"""
    joint = next((own for own in model.joints if own.name == motor.joint), None)
    if joint is None:
        raise VehicleError(
            f"{model.origin}: jointName = {shown(motor.joint)} of {shown(motor.link)}: expected a joint that is there"
        )
    axis = joint.node.child("axis")
    if axis is None:
        raise joint.node.error("turns a rotor and has no <axis>: expected one")
    told = axis.child("xyz")
    v = Vec3(*told.numbers_of(told.element.text or "", 3)) if told is not None else Vec3(0.0, 0.0, 1.0)
    expressed = told.attribute("expressed_in", "") if told is not None else ""
    in_model = axis.text("use_parent_model_frame", "0") in ("1", "true")
    frame = (
        joint.root if in_model or expressed == "__model__" else joint.prefix + expressed if expressed else joint.name
    )
    if not norm(v) > 0.0:
        raise axis.error("is 0 long: expected a direction")
    z = rotate(link.pose.q, Vec3(0.0, 0.0, 1.0))
    cosine = abs(dot(rotate(model.pose(frame).q, v), z)) / norm(v)
    if cosine < _CROOKED:
        raise axis.error(
            f"turns link {shown(link.name)} across its z axis, along which thrust acts: expected it along that"
        )
    if cosine < _ALIGNED:
        model.notes.append(
            f"rotor {shown(link.name)} turns about an axis that leans from its z axis: here it turns about its z axis, along "
            "which Gazebo's thrust acts"
        )


def _left_out(model: _Model, of_rotors: set[str]) -> Iterator[str]:
    for joint in model.joints:
        kind = joint.node.attribute("type", "")
        if joint.name in of_rotors or kind in ("fixed", "") or _locked(joint.node):
            continue
        yield f"joint {shown(joint.name)} ({kind}) moves in Gazebo: here it stays as it is drawn"
    forces = ("lift-drag", "liftdrag", "LiftDrag", "wind", "hydrodynamics", "buoyancy")
    for plugin in model.plugins:
        if any(each in plugin.attribute("filename", "") for each in forces):
            yield f"plugin {shown(plugin.attribute('filename', ''))} pushes in Gazebo and is left out"


def _locked(joint: Node) -> bool:
    axis = joint.child("axis")
    limit = axis.child("limit") if axis is not None else None
    return limit is not None and limit.number("lower", -1e16) == limit.number("upper", 1e16)
