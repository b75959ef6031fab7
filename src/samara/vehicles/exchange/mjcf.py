"""MJCF, MuJoCo's format, compiled by MuJoCo itself: bodies as one, and actuators at sites as rotors.

A motor at a site pushes with gain · ctrl · gear, a force and a torque in the site's axes: T along the force, Q against the
turning, Q/T from the gear. MuJoCo knows no rotor speed: kF is not in the file, and the highest thrust, which is, becomes a
highest speed once kF is known. Nothing but the file and includes beside it is opened: meshes are replaced before MuJoCo sees
them, and where mass depends on them the file is refused.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree.ElementTree import Element, tostring

import numpy as np

from samara.core.algebra import Mat3, Vec3
from samara.core.budget import Budget, path_beside
from samara.core.lazy_import import MissingExtraError
from samara.core.sanitise import shown
from samara.core.types import Array
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Several
from samara.vehicles.exchange.link_tree import Mass, together
from samara.vehicles.exchange.safe_xml import MAX_LINKS, Node, read_xml, xml_budget
from samara.vehicles.parts.uncertain import Estimate, given

Mujoco: TypeAlias = Any
"""The module mujoco or an object of it, which has no type stubs"""
FORMAT = "MJCF"
_UNSEEN = (
    "visual",
    "sensor",
    "keyframe",
    "extension",
    "custom",
    "statistic",
    "contact",
    "equality",
    "tendon",
    "deformable",
    "size",  # memory reservations only
)
_ALLOCATED = ("actdim", "nsample")  # array sizes that MuJoCo allocates per element
MAX_ALLOCATED = 100
MAX_ELEMENTS = 10_000  # MuJoCo takes time with the square of the shapes
_NO_NUMBER = re.compile(r"(?:^|\s)[+-]?(?:nan|inf|infinity)(?:\s|$)", re.IGNORECASE)  # MuJoCo takes them for "not set"
_PLACEHOLDER = "0 0 0 1e-3 0 0 0 1e-3 0 0 0 1e-3"  # a tetrahedron in the place of every mesh


def read_mjcf(path: Path) -> Imported:
    """What an MJCF file says of the one body that flies in it"""
    root = read_xml(path)
    if root.tag != "mujoco":
        raise root.error("is the root: expected <mujoco>")
    mujoco = _mujoco()
    text = tostring(_harmless(root, path.parent, xml_budget(root.origin)), encoding="unicode")
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda words: None)  # or MuJoCo writes MUJOCO_LOG.TXT where the user stands
    try:
        spec = mujoco.MjSpec.from_string(text)
        _check_meshes(root, mujoco, spec)
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)  # poses alone: contacts of thousands of shapes would take hours
    except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        if isinstance(error, VehicleError):
            raise
        words = " ".join(str(error).split())[:200]
        raise VehicleError(f"{root.origin}: MuJoCo says {words!r}: expected a model that it compiles") from None
    finally:
        mujoco.set_mju_user_warning(before)
    return _aircraft(root, mujoco, model, data)


def _mujoco() -> Mujoco:
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("MJCF is read by MuJoCo: pip install 'samara[mjcf]'") from None
    return mujoco


# Before MuJoCo sees it -----------------------------------------------------------------------------------------------


def _harmless(root: Node, folder: Path, budget: Budget) -> Element:
    """The file with its includes in their places, and without all that would open another file or that flight does not need"""
    made = Element("mujoco", root.element.attrib)
    made.extend(list(_sections(root, folder, budget, 0)))
    if (bodies := sum(1 for _ in made.iter("body"))) > MAX_LINKS:
        raise root.error(f"has {bodies} bodies: expected at most {MAX_LINKS}")
    if (elements := sum(1 for _ in made.iter())) > MAX_ELEMENTS:
        raise root.error(f"has {elements} elements: expected at most {MAX_ELEMENTS}")
    for own in made.iter():
        for key in ("texture", "material", "hfield", "skin", "plugin"):
            own.attrib.pop(key, None)
        for key, text in own.attrib.items():
            if key != "name" and _NO_NUMBER.search(text):
                raise root.error(f"has {own.tag} {key} = {shown(text)}: expected finite numbers")
        for key in _ALLOCATED:
            if not re.fullmatch(r"\s*-?\d{1,9}\s*", text := own.get(key, "1")) or int(text) > MAX_ALLOCATED:
                raise root.error(f"has {own.tag} {key} = {shown(text)}: expected at most {MAX_ALLOCATED}")
    return made


def _sections(root: Node, folder: Path, budget: Budget, depth: int) -> Iterator[Element]:
    budget.require_depth(depth, "elements and includes")
    for own in root.children():
        if own.tag == "include":
            yield from _sections(_included(own, folder, budget), folder, budget, depth + 1)
        elif own.tag == "asset":
            yield _assets(own)
        elif own.tag == "compiler":
            kept = {key: value for key, value in own.element.attrib.items() if not key.endswith("dir")}
            yield Element("compiler", kept)
        elif own.tag not in _UNSEEN:
            yield _inner(own, folder, budget, depth)


def _included(node: Node, folder: Path, budget: Budget) -> Node:
    name = node.attribute("file")
    try:
        path = path_beside(folder, name)
    except ValueError:
        raise node.error(f"file = {shown(name)}: expected a file beside this one") from None
    if not path.is_file():
        raise node.error(f"file = {shown(name)}: expected a file that is there")
    return read_xml(path, budget=budget)


def _inner(node: Node, folder: Path, budget: Budget, depth: int) -> Element:
    """A section with the includes in it unfolded, and without plugins"""
    budget.require_depth(depth, "elements and includes")
    made = Element(node.tag, node.element.attrib)
    for own in node.children():
        if own.tag == "include":
            inside = _included(own, folder, budget).children()
            made.extend([_inner(child, folder, budget, depth + 1) for child in inside])
        elif own.tag not in (
            "plugin",
            "camera",
            "light",
            "material",
            "texture",
            "skin",
            "flexcomp",
            "composite",
            "replicate",
        ):
            made.append(_inner(own, folder, budget, depth + 1))
        elif own.tag in ("flexcomp", "composite", "replicate"):
            raise own.error("is none of the bodies of a multirotor: expected bodies that are written out")
    return made


def _assets(node: Node) -> Element:
    """Meshes by their names alone, each a speck"""
    made = Element("asset")
    for own in node.children("mesh"):
        name = own.attribute("name", "") or Path(own.attribute("file", "")).stem
        made.append(Element("mesh", {"name": name, "vertex": _PLACEHOLDER, "inertia": "convex"}))
    return made


def _check_meshes(root: Node, mujoco: Mujoco, spec: Mujoco) -> None:
    """No mass may come from a mesh: it was never opened"""
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH and not geom.parent.explicitinertial and geom.mass != 0.0:
            name = geom.parent.name or "without a name"
            raise root.error(
                f"has a body {name!r:.60} whose mass is that of a mesh, which is not opened: expected an <inertial>"
            )


# After MuJoCo has compiled it ----------------------------------------------------------------------------------------


def _aircraft(root: Node, mujoco: Mujoco, model: Mujoco, data: Mujoco) -> Imported:
    actuators = range(model.nu)
    if not model.nu:
        raise root.error("has no actuators: expected a motor at a site for each rotor")
    for i in actuators:
        if model.actuator_trntype[i] != mujoco.mjtTrn.mjTRN_SITE:
            raise root.error(f"has the actuator {_name(model, i)} at no site: expected rotors, motors at a site each")
    base = {int(model.body_rootid[model.site_bodyid[model.actuator_trnid[i][0]]]) for i in actuators}
    if len(base) != 1 or 0 in base:
        raise root.error(f"has actuators on {len(base)} bodies of the world: expected one body that flies")
    body = base.pop()
    turn = data.xmat[body].reshape(3, 3)

    def inside(place: Array) -> Vec3:
        return Vec3(*(float(x) for x in turn.T @ (place - data.xpos[body])))

    parts = []
    for i in range(1, model.nbody):
        if model.body_rootid[i] == body:
            axes = turn.T @ data.ximat[i].reshape(3, 3)
            inertia = axes @ np.diag(model.body_inertia[i]) @ axes.T
            own = Mat3(*(float(x) for x in (0.5 * (inertia + inertia.T)).ravel()))
            parts.append(Mass(float(model.body_mass[i]), inside(data.xipos[i]), own))
    total = together(parts)
    if not total.mass > 0.0:
        raise root.error("has a body that flies without mass: expected one")
    name = model.body(body).name or "body"
    how = f"{root.origin}: body {name}"
    rotors = [_rotor(root, mujoco, model, data, i, turn, inside, total.centre) for i in actuators]
    most = [_most(root, model, i) for i in actuators]
    hover = total.mass * STANDARD_GRAVITY / sum(most)
    if max(most) - min(most) > 1e-9 * max(most) or not 0.0 < hover < 1.0:
        raise root.error(
            f"has motors of {min(most):g} to {max(most):g} N: expected all alike, and enough to lift {total.mass:g} kg"
        )
    notes = ["MuJoCo has thrust by command and no rotor speed: kF and its motors are not in the file"]
    if model.opt.density > 0.0 or model.opt.viscosity > 0.0:
        notes.append("density and viscosity, MuJoCo's drag by the shape of its bodies, are left out")
    return Imported(
        root.attribute("model", "") or name,
        root.origin,
        FORMAT,
        mass=given(total.mass, f"{how}: the sum over its bodies"),
        inertia=Several(tuple(total.inertia), f"{how}: its bodies about their common centre of mass"),
        rotors=tuple(replace(own, motor=_lag(root, mujoco, model, i)) for i, own in enumerate(rotors)),
        hover=given(hover, f"{root.origin}: ctrlrange, with gear and mass"),
        description=f"{root.attribute('model', '') or name}, from {FORMAT}",
        notes=tuple(notes),
    )


def _name(model: Mujoco, i: int) -> str:
    return shown(model.actuator(i).name or i)


def _most(root: Node, model: Mujoco, i: int) -> float:
    """The highest thrust: gain · ctrl_max · |force of the gear|  [N]"""
    gear, gain = model.actuator_gear[i], float(model.actuator_gainprm[i][0])
    if not model.actuator_ctrllimited[i]:
        raise root.error(f"has the actuator {_name(model, i)} without a ctrlrange: expected the range of its thrust")
    return gain * float(model.actuator_ctrlrange[i][1]) * math.hypot(*gear[:3])


def _rotor(
    root: Node,
    mujoco: Mujoco,
    model: Mujoco,
    data: Mujoco,
    i: int,
    turn: Array,
    inside: Callable[[Array], Vec3],
    centre: Vec3,
) -> ImportedRotor:
    site, gear = int(model.actuator_trnid[i][0]), np.array(model.actuator_gear[i], dtype=float)
    where = f"{root.origin}: actuator {_name(model, i)}"
    force = math.hypot(*gear[:3])
    if not force > 0.0:
        raise root.error(f"has the actuator {_name(model, i)} with a torque and no force: expected rotors, which push")
    if (
        model.actuator_biastype[i] != mujoco.mjtBias.mjBIAS_NONE
        or model.actuator_gaintype[i] != mujoco.mjtGain.mjGAIN_FIXED
    ):
        raise root.error(
            f"has the actuator {_name(model, i)} that is no plain motor: expected force in proportion to ctrl"
        )
    along = gear[:3] / force
    twist = float(gear[3:] @ along)
    if math.hypot(*(gear[3:] - twist * along)) > 1e-6 * (abs(twist) + 1e-9):
        raise root.error(f"has the actuator {_name(model, i)} whose torque is not along its force: expected a rotor")
    axis = turn.T @ data.site_xmat[site].reshape(3, 3) @ along
    axis = axis / math.hypot(*axis)
    ratio = Estimate(abs(twist) / force, 0.0, f"{where}: gear") if twist else None
    return ImportedRotor(
        position=Several(
            tuple(inside(data.site_xpos[site]) - centre), f"{where}: its site, from the common centre of mass"
        ),
        axis=Several(tuple(float(x) for x in axis), f"{where}: the force of its gear"),
        spin=None if not twist else -1 if twist > 0.0 else 1,
        torque_ratio=ratio,
    )


def _lag(root: Node, mujoco: Mujoco, model: Mujoco, i: int) -> dict[str, Estimate]:
    """A motor with a filter has its time constant; one without answers at once, which no rotor does"""
    filters = (mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
    if int(model.actuator_dyntype[i]) not in (int(own) for own in filters):
        return {}
    lag = given(
        float(model.actuator_dynprm[i][0]), f"{root.origin}: dynprm of actuator {_name(model, i)}, small changes"
    )
    return {"rise": lag, "fall": lag}
