"""Read Gazebo's SDF: links with masses and poses, and motor plugins that turn some of them into rotors.

A model is flattened: nested and included models contribute their links, poses are resolved through the frames they refer to,
and all links become one rigid body. Included models are searched for only beside the file; meshes are never opened.
"""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import ZERO, Quat, Vec3, dot, norm, normalize, quat_from_euler, rotate
from samara.core.budget import Budget, resolve_sibling_path
from samara.core.sanitise import quote_value
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.gazebo_motor import (
    MAX_LISTED,
    MotorPlugin,
    is_motor,
    motor_fields,
    read_motor,
    sort_motors,
)
from samara.vehicles.exchange.imported_vehicle import ImportedVehicle
from samara.vehicles.exchange.link_tree import (
    IDENTITY_POSE,
    CollisionShape,
    LinkPose,
    RigidBody,
    RigidLink,
    collision_shapes,
    combine_links,
    mass_and_inertia,
    standing_points,
    symmetric_matrix,
    transform_body,
)
from samara.vehicles.exchange.safe_xml import MAX_LINKS, XmlNode, read_xml, xml_budget

FORMAT = "Gazebo SDF"
_ALIGNED_COSINE = 0.999998  # cos 0.1°
_MIN_AXIS_COSINE = 0.7  # cos 45°


class _Frame(NamedTuple):
    """A frame: its parent frame, its pose there, and the element that defines it."""

    parent: str
    pose: LinkPose
    node: XmlNode


class _Joint(NamedTuple):
    name: str
    root: str
    prefix: str
    node: XmlNode


class _Model:
    """All elements of a model, flattened: names of nested models precede those of their parts, separated by ::"""

    def __init__(self, node: XmlNode, folder: Path | None, leave_out: bool, budget: Budget) -> None:
        self.origin, self.leave_out, self.budget = node.origin, leave_out, budget
        self.frames: dict[str, _Frame] = {}
        self.links: dict[str, XmlNode] = {}
        self.joints: list[_Joint] = []
        self.plugins: list[XmlNode] = []
        self.notes: list[str] = []
        self.poses: dict[str, LinkPose] = {"__model__": IDENTITY_POSE}
        self.add(node, folder, "", "__model__")

    def add(self, model: XmlNode, folder: Path | None, prefix: str, root: str, depth: int = 0) -> None:
        """Add the elements of a model whose frame is `root`; `prefix` precedes their names."""
        for element in model.children():
            if element.tag == "link":
                self.add_frame(prefix + element.name, element, prefix, root, root)
                self.links[prefix + element.name] = element
                if len(self.links) > MAX_LINKS:
                    raise element.error(f"is one link too many: expected at most {MAX_LINKS}")
            elif element.tag == "frame":
                attached = element.attribute("attached_to", "")
                self.add_frame(prefix + element.name, element, prefix, root, prefix + attached if attached else root)
            elif element.tag == "joint":
                child = element.text("child")
                self.add_frame(
                    prefix + element.name, element, prefix, root, root if child == "__model__" else prefix + child
                )
                self.joints.append(_Joint(prefix + element.name, root, prefix, element))
            elif element.tag == "plugin":
                self.plugins.append(element)
            elif element.tag == "model":
                self.nest(element, element, folder, prefix, root, depth)
            elif element.tag == "include":
                self.include(element, folder, prefix, root, depth)

    def add_frame(self, name: str, node: XmlNode, prefix: str, root: str, default: str) -> None:
        if name in self.frames:
            raise node.error(f"has the name {quote_value(name)}, which another has already: expected a unique name")
        pose_node = node.child("pose")
        relative_to = (
            (pose_node.attribute("relative_to", "") or pose_node.attribute("frame", ""))
            if pose_node is not None
            else ""
        )
        parent = default if not relative_to else root if relative_to == "__model__" else prefix + relative_to
        self.budget.spend_bytes(len(name) + len(parent), "bytes of scoped names")
        self.frames[name] = _Frame(parent, _pose(pose_node), node)

    def nest(self, model: XmlNode, placement: XmlNode, folder: Path | None, prefix: str, root: str, depth: int) -> None:
        """Add a model within another, at the pose of `placement`, or at its own pose if there is none."""
        self.budget.require_depth(depth + 1, "models")
        if (
            placement.child("placement_frame") is not None
            or placement.has("placement_frame")
            or model.has("placement_frame")
        ):
            raise placement.error("has a placement_frame: expected a pose of the model's own frame")
        pose_source = placement if placement.child("pose") is not None else model
        name = placement.text("name", "") or model.name
        is_merged = placement.attribute("merge", "false") in ("true", "1")
        model_root = f"{prefix}_merged__{name}__model__" if is_merged else f"{prefix}{name}::__model__"
        self.add_frame(model_root, pose_source, prefix, root, root)
        if not is_merged:
            self.frames[prefix + name] = _Frame(model_root, IDENTITY_POSE, model)
        self.add(model, folder, prefix if is_merged else f"{prefix}{name}::", model_root, depth + 1)

    def include(self, node: XmlNode, folder: Path | None, prefix: str, root: str, depth: int) -> None:
        uri = node.text("uri")
        path = _find_include(node, uri, folder, self.budget)
        if path is None and self.leave_out:
            self.notes.append(f"include {quote_value(uri)} does not exist and was left out, with its mass")
            return
        if path is None:
            raise node.error(
                f"uri = {quote_value(uri)}: there is no such model: expected its folder beside this file's"
            )
        self.nest(_select_model(read_xml(path, budget=self.budget)), node, path.parent, prefix, root, depth)
        self.plugins += node.children("plugin")

    def pose(self, name: str) -> LinkPose:
        """Return the pose of a frame in the outermost model's frame."""
        chain: dict[str, None] = {}
        frame_name = name
        while frame_name not in self.poses:
            if frame_name in chain:
                chain_text = ", ".join(map(quote_value, islice(chain, MAX_LISTED)))
                raise self.frames[frame_name].node.error(f"has a pose relative to itself, through {chain_text}")
            if frame_name not in self.frames:
                relative = f" of {self.frames[next(reversed(chain))].node.location}" if chain else ""
                raise VehicleError(
                    f"{self.origin}: the pose{relative} refers to {quote_value(frame_name)}: expected an existing frame"
                )
            chain[frame_name] = None
            frame_name = self.frames[frame_name].parent
        for frame in reversed(chain):
            self.poses[frame] = self.poses[self.frames[frame].parent].compose(self.frames[frame].pose)
        return self.poses[name]

    def link(self, name: str) -> RigidLink:
        node = self.links[name]
        inertial = node.child("inertial")
        if inertial is None:
            self.notes.append(
                f"link {quote_value(name)} has no <inertial>: 1 kg and 1 kg m^2 are assumed, as in Gazebo"
            )
        return RigidLink(name, self.pose(name), _mass(node, inertial), _shapes(node))


def read_sdf(path: Path, leave_out: bool = False) -> ImportedVehicle:
    """Read the vehicle of an SDF file; `leave_out` ignores included models that do not exist."""
    root = read_xml(path)
    if root.tag != "sdf":
        raise root.error("is the root: expected <sdf>")
    node = _select_model(root)
    model = _Model(node, path.parent, leave_out, xml_budget(root.origin))
    motors = sort_motors([read_motor(plugin) for plugin in model.plugins if is_motor(plugin)], root.origin)
    if not motors:
        raise node.error("has no motor model: expected a plugin MulticopterMotorModel for each rotor")
    links = {name: model.link(name) for name in model.links}
    total = combine_links(list(links.values()))
    source = f"{root.origin}: model {node.name}"
    mass, inertia = mass_and_inertia(total, source)
    fields = motor_fields(node, motors, links, total.centre)
    for motor in motors:
        _check_joint(model, motor, links[motor.link])
    rotor_links = {motor.link for motor in motors}
    feet = standing_points(
        [link for link in links.values() if link.name not in rotor_links], total.centre, f"{source}: collision shapes"
    )
    model.notes += _ignored_features(model, {motor.joint for motor in motors})
    return ImportedVehicle(
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


def _select_model(root: XmlNode) -> XmlNode:
    """Return the model of a file, in a world or on its own; of several, the one with motor plugins."""
    if root.tag != "sdf":
        raise root.error("is the root: expected <sdf>")
    models = [
        *root.children("model"),
        *(model for world in root.children("world") for model in world.children("model")),
    ]
    with_motors = [model for model in models if any(is_motor(plugin) for plugin in model.children("plugin"))]
    if len(models) != 1 and len(with_motors) != 1:
        raise root.error(f"has {len(models)} models: expected one, or one with motor models")
    return models[0] if len(models) == 1 else with_motors[0]


def _find_include(node: XmlNode, uri: str, folder: Path | None, budget: Budget) -> Path | None:
    """Find an included model: in a folder of its name beside the file or its folder; None if it does not exist."""
    name = uri.removeprefix("model://").removesuffix("/model.sdf").rstrip("/")
    if folder is None or not name or "://" in name or "\\" in name:
        raise node.error(f"uri = {quote_value(uri)}: expected model://NAME, a model beside this file")
    for base in (folder, folder.resolve().parent):
        try:
            candidate = resolve_sibling_path(base, name)
        except ValueError:
            raise node.error(
                f"uri = {quote_value(uri)}: expected model://NAME, a model beside this file and nowhere else"
            ) from None
        if candidate.is_dir():
            return _main_file(node, candidate, budget)
        if candidate.is_file():
            return candidate
    return None


def _main_file(node: XmlNode, folder: Path, budget: Budget) -> Path:
    """Return the newest SDF file that model.config names, else model.sdf."""
    name = "model.sdf"
    if (folder / "model.config").is_file():
        config = read_xml(folder / "model.config", f"{folder.name}/model.config", budget)
        sdf_nodes = list(config.children("sdf"))
        name = (sdf_nodes[-1].element.text or "").strip() if sdf_nodes else name
    try:
        path = resolve_sibling_path(folder, name)
    except ValueError:
        raise node.error(f"names {quote_value(name)} in its model.config: expected a file beside it") from None
    if not path.is_file():
        raise node.error(f"has no {quote_value(name)} in {quote_value(folder.name)}: expected one")
    return path


def _pose(pose_node: XmlNode | None) -> LinkPose:
    """Parse x y z roll pitch yaw, in radians or degrees, or x y z with a quaternion x y z w."""
    if pose_node is None or not (pose_node.element.text or "").strip():
        return IDENTITY_POSE
    text = pose_node.element.text or ""
    if pose_node.attribute("rotation_format", "euler_rpy") == "quat_xyzw":
        x, y, z, qx, qy, qz, qw = pose_node.parse_numbers(text, 7)
        if not qx * qx + qy * qy + qz * qz + qw * qw > 0.0:
            raise pose_node.error(f"= {quote_value(text)}: expected a quaternion that is not 0")
        return LinkPose(Vec3(x, y, z), normalize(Quat(qw, qx, qy, qz)))
    x, y, z, *angles = pose_node.parse_numbers(text, 6)
    unit = math.radians(1.0) if pose_node.attribute("degrees", "false") in ("true", "1") else 1.0
    return LinkPose(Vec3(x, y, z), quat_from_euler(*(unit * angle for angle in angles)))


def _mass(link: XmlNode, inertial: XmlNode | None) -> RigidBody:
    """Read mass and inertia; SDF's defaults are 1 kg and 1 kg m²."""
    if inertial is None:
        return RigidBody(1.0, ZERO, symmetric_matrix(1.0, 0.0, 0.0, 1.0, 0.0, 1.0))
    if inertial.attribute("auto", "false") in ("true", "1"):
        raise inertial.error("is auto, which only Gazebo computes from meshes: expected mass and inertia")
    mass = inertial.number("mass", 1.0)
    if not mass >= 0.0:
        raise inertial.error(f"has the mass {mass:g} kg: expected a number that is not negative")
    inertia = inertial.child("inertia")
    keys = {"ixx": 1.0, "ixy": 0.0, "ixz": 0.0, "iyy": 1.0, "iyz": 0.0, "izz": 1.0}
    numbers = [inertia.number(key, default) if inertia is not None else default for key, default in keys.items()]
    return transform_body(RigidBody(mass, ZERO, symmetric_matrix(*numbers)), _pose(inertial.child("pose")))


def _shapes(link: XmlNode) -> tuple[CollisionShape, ...]:
    def numbers(shape: XmlNode, key: str, count: int) -> tuple[float, ...]:
        return shape.require_child(key).parse_numbers(shape.text(key), count)

    return collision_shapes(link, lambda collision: _pose(collision.child("pose")), numbers)


def _check_joint(model: _Model, motor: MotorPlugin, link: RigidLink) -> None:
    """Check that the joint of a rotor exists and turns it about its z axis, the direction of thrust."""
    joint = next((candidate for candidate in model.joints if candidate.name == motor.joint), None)
    if joint is None:
        raise VehicleError(
            f"{model.origin}: jointName = {quote_value(motor.joint)} of {quote_value(motor.link)}: expected an existing joint"
        )
    axis = joint.node.child("axis")
    if axis is None:
        raise joint.node.error("turns a rotor and has no <axis>: expected one")
    xyz = axis.child("xyz")
    v = Vec3(*xyz.parse_numbers(xyz.element.text or "", 3)) if xyz is not None else Vec3(0.0, 0.0, 1.0)
    expressed_in = xyz.attribute("expressed_in", "") if xyz is not None else ""
    uses_model_frame = axis.text("use_parent_model_frame", "0") in ("1", "true")
    frame = (
        joint.root
        if uses_model_frame or expressed_in == "__model__"
        else joint.prefix + expressed_in
        if expressed_in
        else joint.name
    )
    if not norm(v) > 0.0:
        raise axis.error("has zero length: expected a direction")
    z = rotate(link.pose.q, Vec3(0.0, 0.0, 1.0))
    cosine = abs(dot(rotate(model.pose(frame).q, v), z)) / norm(v)
    if cosine < _MIN_AXIS_COSINE:
        raise axis.error(
            f"turns link {quote_value(link.name)} across its z axis, along which thrust acts: expected an axis along z"
        )
    if cosine < _ALIGNED_COSINE:
        model.notes.append(
            f"rotor {quote_value(link.name)} turns about an axis that is tilted from its z axis: here it turns about its "
            "z axis, along which Gazebo's thrust acts"
        )


def _ignored_features(model: _Model, rotor_joints: set[str]) -> Iterator[str]:
    for joint in model.joints:
        joint_type = joint.node.attribute("type", "")
        if joint.name in rotor_joints or joint_type in ("fixed", "") or _is_locked(joint.node):
            continue
        yield f"joint {quote_value(joint.name)} ({joint_type}) moves in Gazebo: here it is fixed at its initial position"
    forces = ("lift-drag", "liftdrag", "LiftDrag", "wind", "hydrodynamics", "buoyancy")
    for plugin in model.plugins:
        if any(fragment in plugin.attribute("filename", "") for fragment in forces):
            yield f"plugin {quote_value(plugin.attribute('filename', ''))} applies forces in Gazebo and is left out"


def _is_locked(joint: XmlNode) -> bool:
    axis = joint.child("axis")
    limit = axis.child("limit") if axis is not None else None
    return limit is not None and limit.number("lower", -1e16) == limit.number("upper", 1e16)
