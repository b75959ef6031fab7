"""Parse vehicle files strictly; every mistake is reported in one sentence.

Every value is a table `{ value, unit, source, spread }`; source and spread are optional. The record that a table becomes
defines its keys, their units and their ranges: `[drag]` follows `Drag`, `[motor]` follows `Lag` or `DcMotor`, and so on.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

from samara.core.algebra import Vec3, quat_from_axis_angle, rotate
from samara.core.budget import resolve_sibling_path
from samara.core.quantity import Quantity, Tree
from samara.core.sanitise import quote_value
from samara.core.toml import QUANTITY, DataSheet, ShippedFiles, TomlFile, is_toml_path, parse_document
from samara.physics.ground.contact import Surface
from samara.physics.inputs import check_mass
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.tilt import Servo
from samara.physics.types import Vehicle, replace_parameters
from samara.vehicles.build import ACTUATIONS, BATTERIES, ContactShape, Provenance, build_vehicle
from samara.vehicles.check import MAX_CONTACT_POINTS, MAX_ROTORS, VehicleError, check_vehicle, raise_problems
from samara.vehicles.defaults import derived_feet, derived_top_height
from samara.vehicles.effects import OPTIONS, EffectOption, merge_options
from samara.vehicles.payload import Payload, with_payload

SCHEMA = 1
MOTORS: dict[str, type[Tree]] = {"lag": Lag, "dc": DcMotor}
_SPINS = {"ccw": 1, "cw": -1}
_LENGTH = Quantity("m", -1.0, 1.0)
_ANGLE = Quantity("rad", -math.pi, math.pi)


VEHICLES = ShippedFiles("vehicle", "samara.vehicles", VehicleError)


def vehicle_names() -> list[str]:
    """The names of the vehicles that come with Samara."""
    return VEHICLES.names()


def vehicle(name_or_path: str | Path, *, effects: Sequence[EffectOption] = (), **overrides: Tree) -> Vehicle:
    """Load a vehicle by its shipped name or from a file, and override some parameters: `vehicle("iris", mass=1.6)`.

    `effects` adds effects from outside the package: the file may contain their tables, and `switch_on` accepts their names.
    """
    text, origin, folder = VEHICLES.find(name_or_path)
    if folder is None and not effects:
        loaded_vehicle = _shipped_vehicle(text, origin)
    else:
        loaded_vehicle = parse_vehicle(text, origin, folder, derive_feet=folder is not None, effects=effects)
    if not overrides:
        return loaded_vehicle
    try:
        changed_vehicle = check_vehicle(replace_parameters(loaded_vehicle, overrides))
    except KeyError as error:
        raise VehicleError(error.args[0]) from None
    check_mass(changed_vehicle)
    return changed_vehicle


@lru_cache(maxsize=64)
def _shipped_vehicle(text: str, origin: str) -> Vehicle:
    """Parse a shipped vehicle once; a fleet loads the same one many times, and vehicles are immutable."""
    return parse_vehicle(text, origin)


def parse_vehicle(
    text: str,
    origin: str,
    folder: Path | None = None,
    *,
    derive_feet: bool = False,
    effects: Sequence[EffectOption] = (),
) -> Vehicle:
    """Parse the text of a vehicle file.

    Args:
        text: the file's content, in TOML.
        origin: name of the file in error messages.
        folder: the folder of the files that `text` names; None forbids such names, so that the vehicle of a recording
            reads nothing from the disk.
        derive_feet: derive contact points under the arms, and the height of the top, if the file sets none.
        effects: effects from outside the package whose tables the file may contain.

    Raises:
        VehicleError: lists every mistake of the file, one sentence per line.
    """
    try:
        options = merge_options(effects)
    except ValueError as error:
        raise VehicleError(f"{origin}: {error}") from None
    problems: list[str] = []
    document = parse_document(text, origin, VehicleError)
    if "body" not in document and "drones" in document:
        path = origin if folder is None else folder / origin
        raise VehicleError(
            f"{path} is a scenario, not a vehicle; expected samara fly {path}, or samara.fly('{path}') in Python"
        )
    file = DataSheet(document, TomlFile(origin, VehicleError, problems))
    file.schema(SCHEMA)
    name = file.read_or_report(lambda: file.text("name"), "")
    actuation = file.read_or_report(lambda: file.text("actuation", choices=ACTUATIONS), "")
    description = file.read_or_report(lambda: file.text("description", default=""), "")
    body = file.read_or_report(partial(_body, file), {})
    tables = file.read_or_report(partial(_gravity, file), {})
    contact = file.read_or_report(partial(_contact, file), {})
    tables |= file.read_or_report(partial(_inflow, file), {})
    for option in options.values():
        if option.name != "body":
            tables |= file.read_or_report(partial(_effect_table, file, option, folder), {})
    battery = file.read_or_report(lambda: _battery(file), None)
    rotors = file.read_or_report(lambda: _rotors(file), [])
    payload = file.read_or_report(lambda: _payload(file), Payload())
    file.finish()
    raise_problems(problems)
    hull_radius = body.pop("radius", None)
    if hull_radius is not None:
        tables["body"] = {"radius": hull_radius}
    if derive_feet and rotors:
        contact.setdefault("points", derived_feet(rotors))
    if derive_feet and contact.get("points"):
        contact.setdefault("top_height", derived_top_height(contact["points"], rotors, hull_radius or 0.0))
    built_vehicle = build_vehicle(
        origin,
        **body,
        rotors=rotors,
        actuation=actuation,
        battery=battery,
        contact=ContactShape(**contact) if contact else None,
        effects=tables,
        custom_effects=effects,
        provenance=Provenance(description, file.file.sources, file.file.spreads),
    )
    if payload.mass:
        built_vehicle = check_vehicle(with_payload(built_vehicle, payload))
    return replace(built_vehicle, structure=replace(built_vehicle.structure, name=name))


def _inertia(body: DataSheet) -> tuple[float, ...]:
    value, unit = body.quantity("inertia", "kg m^2")
    rows = value if isinstance(value, list) and len(value) == 3 else []
    is_full_matrix = bool(rows) and all(isinstance(row, list) and len(row) == 3 for row in rows)
    numbers = [entry for row in rows for entry in row] if is_full_matrix else rows
    if not numbers:
        raise body.error("inertia", value, "3 numbers (diagonal) or 3 rows of 3")
    signed_inertia = Quantity("kg m^2", -1.0, 1.0)
    return tuple(body.convert("inertia", entry, unit, signed_inertia) for entry in numbers)


def _body(file: DataSheet) -> dict[str, Any]:
    body = file.table("body")
    values: dict[str, Any] = {
        "mass": body.read_or_report(lambda: body.value("mass", Quantity("kg", 1e-3, 1e3)), None),
        "inertia": body.read_or_report(lambda: _inertia(body), None),
    }
    if "radius" in body:
        values |= body.fields(OPTIONS["body"].record)
    body.finish()
    return values


def _inflow(file: DataSheet) -> dict[str, object]:
    table = file.optional_table("inflow")
    if not table:
        return {}
    model = table.text("model")
    table.finish()
    return {"inflow": {"model": model}}


def _gravity(file: DataSheet) -> dict[str, object]:
    table = file.table("gravity")
    model = table.text("model", default="uniform")
    return {"gravity": {"model": model, **table.record(Gravity)._asdict()}}


def _effect_table(file: DataSheet, option: EffectOption, folder: Path | None) -> dict[str, object]:
    """Read the optional table of an effect, by name, as `build_vehicle` takes it; empty if the file has none."""
    table = file.optional_table(option.name)
    if not table:
        return {}
    values: dict[str, object] = {}
    if len(option.models) > 1:
        values[option.key] = table.text(option.key)
    for key in option.extra_texts:
        if key in table:
            text = table.text(key)
            values[key] = _resolve_file(table, key, folder, text) if is_toml_path(text) else text
    values |= {key: table.value(key, quantity) for key, quantity in option.extra_quantities.items() if key in table}
    values |= table.fields(option.record, option.has_completion)
    table.finish()
    return {option.name: values}


def _resolve_file(table: DataSheet, key: str, folder: Path | None, name: str) -> Path:
    """Return the path of a file in the same folder as the file that names it."""
    if folder is None:
        raise table.error(key, name, "a name that Samara knows; there is no folder to look in")
    try:
        return resolve_sibling_path(folder, name)
    except ValueError as error:
        raise table.make_error(f" = {quote_value(name)}: {error}", key) from None


def _contact(file: DataSheet) -> dict[str, Any]:
    if "contact" in file and file.entries["contact"] is False:
        file.take("contact", "a table or false")
        return {"points": ()}
    table = file.optional_table("contact")
    if not table:
        return {}
    value, unit = table.quantity("points", "m")
    if not isinstance(value, list) or not value or not all(isinstance(p, list) and len(p) == 3 for p in value):
        raise table.error("points", value, "a list of points of 3 numbers")
    if len(value) > MAX_CONTACT_POINTS:
        raise table.make_error(f" has {len(value)} entries: expected at most {MAX_CONTACT_POINTS}", "points")
    hints = get_type_hints(Surface, include_extras=True)
    options: dict[str, Any] = {
        "points": [Vec3(*(table.convert("points", x, unit, _LENGTH) for x in point)) for point in value],
        "friction": table.value("friction", get_args(hints["friction"])[1]),
    }
    if "top_height" in table:
        is_disabled = table.entries["top_height"] is False and not table.take("top_height", "a height or false")
        options["top_height"] = None if is_disabled else table.value("top_height", _LENGTH)
    for key in ("stiffness", "damping"):
        if key in table:
            options[key] = table.value(key, get_args(hints[key])[1])
    table.finish()
    return options


def _payload(file: DataSheet) -> Payload:
    """Read the point mass that the vehicle carries; its position is relative to the bare vehicle's centre of mass."""
    table = file.optional_table("payload")
    if not table:
        return Payload()
    payload = Payload(
        table.value("mass", Quantity("kg", 0.0, 1e3)), table.three_values("position", Quantity("m", -1.0, 1.0))
    )
    table.finish()
    return payload


def _battery(file: DataSheet) -> Ideal | list[Thevenin] | None:
    if "battery" not in file:
        return None
    if isinstance(file.entries["battery"], dict):
        file.entries["battery"] = [file.entries["battery"]]
    batteries = []
    for table in file.tables("battery"):
        battery_type = BATTERIES[table.text("model", choices=BATTERIES)]
        batteries.append(table.record(battery_type))
    return batteries[0] if len(batteries) == 1 and isinstance(batteries[0], Ideal) else batteries


def _rotors(file: DataSheet) -> list[Rotor]:
    shared_table = file.read_or_report(partial(file.optional_table, "rotor"), None)
    shared_values = {} if not shared_table else _rotor_values(shared_table)
    if shared_table:
        shared_table.finish()
    shared_motor = file.read_or_report(partial(_motor, file), Lag)
    tables = file.tables("rotors")
    if len(tables) > MAX_ROTORS:
        raise file.make_error(f" has {len(tables)} entries: expected at most {MAX_ROTORS}", "rotors")
    rotors = [file.read_or_report(partial(_rotor, table, shared_values, shared_motor), None) for table in tables]
    if not rotors and (shared_values or shared_motor):
        raise file.missing_error("rotors", "one [[rotors]] for each rotor")
    return rotors


def _rotor(table: DataSheet, shared_values: dict[str, float], shared_motor: Lag | DcMotor | None) -> Rotor:
    problem_count = len(table.file.problems or ())
    r_B, axis_B = table.read_or_report(lambda: _placement(table), (None, None))
    spin = table.read_or_report(lambda: _SPINS[table.text("spin", choices=_SPINS)], 1)
    values = shared_values | _rotor_values(table)
    for key in ("k_thrust", "k_torque"):
        if key not in values:
            raise table.missing_error(key, f"{QUANTITY} here or in [rotor]")
    motor = _motor(table) or shared_motor
    if motor is None:
        raise table.missing_error("motor", "a table here or as [motor]")
    servo = table.read_or_report(lambda: _servo(table), ())
    if len(table.file.problems or ()) == problem_count:
        table.finish()
    return Rotor(r_B, axis_B, spin, motor=motor, servo=servo, **values)


def _rotor_values(table: DataSheet) -> dict[str, float]:
    hints = get_type_hints(Rotor, include_extras=True)
    keys = [key for key in ("k_thrust", "k_torque", "inertia", "radius") if key in table]
    return {key: table.read_or_report(partial(table.value, key, get_args(hints[key])[1]), None) for key in keys}


def _motor(table: DataSheet) -> Lag | DcMotor | None:
    motor = table.optional_table("motor")
    if not motor:
        return None
    return motor.record(MOTORS[motor.text("model", choices=MOTORS)])


def _servo(table: DataSheet) -> Servo | tuple[()]:
    """Read the servo that tilts a rotor."""
    servo = table.optional_table("servo")
    return servo.record(Servo) if servo else ()


def _placement(table: DataSheet) -> tuple[Vec3, Vec3]:
    """Read the hub position (or arm, azimuth and height) and the thrust axis: upright, explicit, or tilted about the arm."""
    if "position" in table:
        r_B = table.three_values("position", _LENGTH)
        outward = Vec3(r_B.x, r_B.y, 0.0)
    else:
        arm, azimuth = table.value("arm", Quantity("m", 1e-3, 10.0)), table.value("azimuth", _ANGLE)
        height = table.value("height", _LENGTH) if "height" in table else 0.0
        outward = Vec3(math.cos(azimuth), math.sin(azimuth), 0.0)
        r_B = outward * arm + Vec3(0.0, 0.0, height)
    if "axis" in table:
        return r_B, table.three_values("axis", Quantity("1", -1.0, 1.0))
    if "tilt" in table:
        return r_B, rotate(quat_from_axis_angle(outward, table.value("tilt", _ANGLE)), Vec3(0.0, 0.0, 1.0))
    return r_B, Vec3(0.0, 0.0, 1.0)
