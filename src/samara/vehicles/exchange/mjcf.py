"""Read MJCF, MuJoCo's format, compiled by MuJoCo: bodies are combined into one, and actuators at sites become rotors.

A motor at a site acts with gain · ctrl · gear, a force and a torque in the site's axes: T along the force, Q against the spin,
Q/T from the gear. MuJoCo has no rotor speed: kF is not in the file, and the maximum thrust, which is, becomes a maximum speed
once kF is known. Only the file and includes beside it are opened: meshes are replaced before MuJoCo reads the text, and a file
whose mass depends on them is rejected.
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
from samara.core.budget import Budget, resolve_sibling_path
from samara.core.extras import import_extra
from samara.core.sanitise import quote_value
from samara.core.types import Array
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, ImportedVehicle, UncertainVector
from samara.vehicles.exchange.link_tree import RigidBody, combine_bodies
from samara.vehicles.exchange.safe_xml import MAX_LINKS, XmlNode, read_xml, xml_budget
from samara.vehicles.parts.uncertain import UncertainValue, exact_value

Mujoco: TypeAlias = Any
"""The module mujoco or an object of it, which has no type stubs."""
FORMAT = "MJCF"
_IGNORED_SECTIONS = (
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
_ALLOCATION_KEYS = ("actdim", "nsample")  # array sizes that MuJoCo allocates per element
MAX_ALLOCATION = 100
MAX_ELEMENTS = 10_000  # MuJoCo's computing time grows with the square of the number of shapes
_NON_FINITE = re.compile(r"(?:^|\s)[+-]?(?:nan|inf|infinity)(?:\s|$)", re.IGNORECASE)  # MuJoCo treats them as "not set"
_PLACEHOLDER = "0 0 0 1e-3 0 0 0 1e-3 0 0 0 1e-3"  # a tetrahedron that replaces every mesh


def read_mjcf(path: Path) -> ImportedVehicle:
    """Read the vehicle of an MJCF file, which has one body with actuators."""
    root = read_xml(path)
    if root.tag != "mujoco":
        raise root.error("is the root: expected <mujoco>")
    mujoco = import_extra("mujoco", "reading MJCF", "MuJoCo", "mjcf")
    text = tostring(_sanitise(root, path.parent, xml_budget(root.origin)), encoding="unicode")
    previous_handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)  # otherwise MuJoCo writes MUJOCO_LOG.TXT to the working directory
    try:
        spec = mujoco.MjSpec.from_string(text)
        _check_meshes(root, mujoco, spec)
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)  # only poses: contacts of thousands of shapes would take hours
    except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        if isinstance(error, VehicleError):
            raise
        message = " ".join(str(error).split())[:200]
        raise VehicleError(f"{root.origin}: MuJoCo reports {message!r}: expected a model that it compiles") from None
    finally:
        mujoco.set_mju_user_warning(previous_handler)
    return _read_model(root, mujoco, model, data)


# Sanitise the text for MuJoCo ----------------------------------------------------------------------------------------


def _sanitise(root: XmlNode, folder: Path, budget: Budget) -> Element:
    """Insert the includes, and remove everything that would open another file or has no influence on flight."""
    sanitised = Element("mujoco", root.element.attrib)
    sanitised.extend(list(_sections(root, folder, budget, 0)))
    if (bodies := sum(1 for _ in sanitised.iter("body"))) > MAX_LINKS:
        raise root.error(f"has {bodies} bodies: expected at most {MAX_LINKS}")
    if (elements := sum(1 for _ in sanitised.iter())) > MAX_ELEMENTS:
        raise root.error(f"has {elements} elements: expected at most {MAX_ELEMENTS}")
    for element in sanitised.iter():
        for key in ("texture", "material", "hfield", "skin", "plugin"):
            element.attrib.pop(key, None)
        for key, text in element.attrib.items():
            if key != "name" and _NON_FINITE.search(text):
                raise root.error(f"has {element.tag} {key} = {quote_value(text)}: expected finite numbers")
        for key in _ALLOCATION_KEYS:
            if not re.fullmatch(r"\s*-?\d{1,9}\s*", text := element.get(key, "1")) or int(text) > MAX_ALLOCATION:
                raise root.error(f"has {element.tag} {key} = {quote_value(text)}: expected at most {MAX_ALLOCATION}")
    return sanitised


def _sections(root: XmlNode, folder: Path, budget: Budget, depth: int) -> Iterator[Element]:
    budget.require_depth(depth, "elements and includes")
    for section in root.children():
        if section.tag == "include":
            yield from _sections(_read_include(section, folder, budget), folder, budget, depth + 1)
        elif section.tag == "asset":
            yield _assets(section)
        elif section.tag == "compiler":
            attributes = {key: value for key, value in section.element.attrib.items() if not key.endswith("dir")}
            yield Element("compiler", attributes)
        elif section.tag not in _IGNORED_SECTIONS:
            yield _expand_section(section, folder, budget, depth)


def _read_include(node: XmlNode, folder: Path, budget: Budget) -> XmlNode:
    name = node.attribute("file")
    try:
        path = resolve_sibling_path(folder, name)
    except ValueError:
        raise node.error(f"file = {quote_value(name)}: expected a file beside this one") from None
    if not path.is_file():
        raise node.error(f"file = {quote_value(name)}: expected an existing file")
    return read_xml(path, budget=budget)


def _expand_section(node: XmlNode, folder: Path, budget: Budget, depth: int) -> Element:
    """Expand the includes of a section, and remove plugins and rendering elements."""
    budget.require_depth(depth, "elements and includes")
    copy = Element(node.tag, node.element.attrib)
    for element in node.children():
        if element.tag == "include":
            included = _read_include(element, folder, budget).children()
            copy.extend([_expand_section(nested, folder, budget, depth + 1) for nested in included])
        elif element.tag not in (
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
            copy.append(_expand_section(element, folder, budget, depth + 1))
        elif element.tag in ("flexcomp", "composite", "replicate"):
            raise element.error("generates bodies: expected each body as its own element")
    return copy


def _assets(node: XmlNode) -> Element:
    """Replace meshes by a tiny tetrahedron with the same name."""
    assets = Element("asset")
    for mesh in node.children("mesh"):
        name = mesh.attribute("name", "") or Path(mesh.attribute("file", "")).stem
        assets.append(Element("mesh", {"name": name, "vertex": _PLACEHOLDER, "inertia": "convex"}))
    return assets


def _check_meshes(root: XmlNode, mujoco: Mujoco, spec: Mujoco) -> None:
    """Raise an error if a mass comes from a mesh, as meshes are not opened."""
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH and not geom.parent.explicitinertial and geom.mass != 0.0:
            name = geom.parent.name or "without a name"
            raise root.error(
                f"has a body {name!r:.60} whose mass is that of a mesh, which is not opened: expected an <inertial>"
            )


# Read the compiled model ---------------------------------------------------------------------------------------------


def _read_model(root: XmlNode, mujoco: Mujoco, model: Mujoco, data: Mujoco) -> ImportedVehicle:
    actuators = range(model.nu)
    if not model.nu:
        raise root.error("has no actuators: expected a motor at a site for each rotor")
    for i in actuators:
        if model.actuator_trntype[i] != mujoco.mjtTrn.mjTRN_SITE:
            raise root.error(
                f"has the actuator {_actuator_name(model, i)} at no site: expected a motor at a site for each rotor"
            )
    root_bodies = {int(model.body_rootid[model.site_bodyid[model.actuator_trnid[i][0]]]) for i in actuators}
    if len(root_bodies) != 1 or 0 in root_bodies:
        raise root.error(f"has actuators on {len(root_bodies)} bodies of the world: expected one flying body")
    body = root_bodies.pop()
    rotation = data.xmat[body].reshape(3, 3)

    def body_position(point: Array) -> Vec3:
        return Vec3(*(float(x) for x in rotation.T @ (point - data.xpos[body])))

    parts = []
    for i in range(1, model.nbody):
        if model.body_rootid[i] == body:
            axes = rotation.T @ data.ximat[i].reshape(3, 3)
            inertia = axes @ np.diag(model.body_inertia[i]) @ axes.T
            body_inertia = Mat3(*(float(x) for x in (0.5 * (inertia + inertia.T)).ravel()))
            parts.append(RigidBody(float(model.body_mass[i]), body_position(data.xipos[i]), body_inertia))
    total = combine_bodies(parts)
    if not total.mass > 0.0:
        raise root.error("has a flying body without mass: expected one with mass")
    name = model.body(body).name or "body"
    source = f"{root.origin}: body {name}"
    rotors = [_rotor(root, mujoco, model, data, i, rotation, body_position, total.centre) for i in actuators]
    max_thrusts = [_max_thrust(root, model, i) for i in actuators]
    hover = total.mass * STANDARD_GRAVITY / sum(max_thrusts)
    if max(max_thrusts) - min(max_thrusts) > 1e-9 * max(max_thrusts) or not 0.0 < hover < 1.0:
        raise root.error(
            f"has motors of {min(max_thrusts):g} to {max(max_thrusts):g} N: expected all equal, and enough to "
            f"lift {total.mass:g} kg"
        )
    notes = ["MuJoCo has thrust by command and no rotor speed: kF and its motors are not in the file"]
    if model.opt.density > 0.0 or model.opt.viscosity > 0.0:
        notes.append("density and viscosity, MuJoCo's drag by the shape of its bodies, are left out")
    return ImportedVehicle(
        root.attribute("model", "") or name,
        root.origin,
        FORMAT,
        mass=exact_value(total.mass, f"{source}: the sum over its bodies"),
        inertia=UncertainVector(tuple(total.inertia), f"{source}: its bodies about their common centre of mass"),
        rotors=tuple(replace(rotor, motor=_lag(root, mujoco, model, i)) for i, rotor in enumerate(rotors)),
        hover=exact_value(hover, f"{root.origin}: ctrlrange, with gear and mass"),
        description=f"{root.attribute('model', '') or name}, from {FORMAT}",
        notes=tuple(notes),
    )


def _actuator_name(model: Mujoco, i: int) -> str:
    return quote_value(model.actuator(i).name or i)


def _max_thrust(root: XmlNode, model: Mujoco, i: int) -> float:
    """Maximum thrust: gain · ctrl_max · |force of the gear|  [N]"""
    gear, gain = model.actuator_gear[i], float(model.actuator_gainprm[i][0])
    if not model.actuator_ctrllimited[i]:
        raise root.error(
            f"has the actuator {_actuator_name(model, i)} without a ctrlrange: expected the range of its thrust"
        )
    return gain * float(model.actuator_ctrlrange[i][1]) * math.hypot(*gear[:3])


def _rotor(
    root: XmlNode,
    mujoco: Mujoco,
    model: Mujoco,
    data: Mujoco,
    i: int,
    rotation: Array,
    body_position: Callable[[Array], Vec3],
    centre: Vec3,
) -> ImportedRotor:
    site, gear = int(model.actuator_trnid[i][0]), np.array(model.actuator_gear[i], dtype=float)
    source = f"{root.origin}: actuator {_actuator_name(model, i)}"
    force = math.hypot(*gear[:3])
    if not force > 0.0:
        raise root.error(
            f"has the actuator {_actuator_name(model, i)} with a torque and no force: expected rotors with thrust"
        )
    if (
        model.actuator_biastype[i] != mujoco.mjtBias.mjBIAS_NONE
        or model.actuator_gaintype[i] != mujoco.mjtGain.mjGAIN_FIXED
    ):
        raise root.error(
            f"has the actuator {_actuator_name(model, i)} that is not a plain motor: expected force in proportion to ctrl"
        )
    direction = gear[:3] / force
    torque = float(gear[3:] @ direction)
    if math.hypot(*(gear[3:] - torque * direction)) > 1e-6 * (abs(torque) + 1e-9):
        raise root.error(
            f"has the actuator {_actuator_name(model, i)} whose torque is not along its force: expected a rotor"
        )
    axis = rotation.T @ data.site_xmat[site].reshape(3, 3) @ direction
    axis = axis / math.hypot(*axis)
    ratio = UncertainValue(abs(torque) / force, 0.0, f"{source}: gear") if torque else None
    return ImportedRotor(
        position=UncertainVector(
            tuple(body_position(data.site_xpos[site]) - centre), f"{source}: its site, from the common centre of mass"
        ),
        axis=UncertainVector(tuple(float(x) for x in axis), f"{source}: the force of its gear"),
        spin=None if not torque else -1 if torque > 0.0 else 1,
        torque_ratio=ratio,
    )


def _lag(root: XmlNode, mujoco: Mujoco, model: Mujoco, i: int) -> dict[str, UncertainValue]:
    """Return the time constant of a motor with a filter; nothing for one that responds instantly, as no rotor does."""
    filters = (mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
    if int(model.actuator_dyntype[i]) not in (int(filter_type) for filter_type in filters):
        return {}
    lag = exact_value(
        float(model.actuator_dynprm[i][0]),
        f"{root.origin}: dynprm of actuator {_actuator_name(model, i)}, small changes",
    )
    return {"time_constant_up": lag, "time_constant_down": lag}
