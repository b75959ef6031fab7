"""From a TOML file to a vehicle: strict, and one sentence about each thing that is wrong.

Every value stands as `{ value, unit, source }`; the source may be left out. What a table may hold, in which unit and of which
sign, is read from the record it becomes: `[drag]` from `Drag`, `[motor]` from `Lag` or `DcMotor`, and so on.
"""

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from samara.core.algebra import Vec3, quat_from_axis_angle, rotate
from samara.core.named_files import path_beside, read_text
from samara.core.printable import shown, shown_key
from samara.core.quantity import Quantity, expected
from samara.physics.ground.contact import Surface
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.motor import DcMotor
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.battery import BATTERIES
from samara.vehicles.build import ACTUATIONS, build_vehicle
from samara.vehicles.check import VehicleError, check_vehicle, fields_of, raise_all
from samara.vehicles.effects import OPTIONS, EffectOption, options_with
from samara.vehicles.ground import derived_feet, derived_top
from samara.vehicles.payload import Payload, with_payload

SCHEMA = 1
ALIASES = {"crazyflie_measured": "crazyflie"}  # names that vehicles had before
MOTORS: dict[str, type[Any]] = {"lag": Lag, "dc": DcMotor}
CONVERSIONS: dict[tuple[str, str], Callable[[float], float]] = {
    ("g", "kg"): lambda x: x / 1e3,
    ("lb", "kg"): lambda x: 0.45359237 * x,
    ("mm", "m"): lambda x: x / 1e3,
    ("cm", "m"): lambda x: x / 1e2,
    ("inch", "m"): lambda x: 0.0254 * x,
    ("g mm^2", "kg m^2"): lambda x: x / 1e9,
    ("g cm^2", "kg m^2"): lambda x: x / 1e7,
    ("kg mm^2", "kg m^2"): lambda x: x / 1e6,
    ("kg cm^2", "kg m^2"): lambda x: x / 1e4,
    ("g m^2", "kg m^2"): lambda x: x / 1e3,
    ("g mm", "kg m"): lambda x: x / 1e6,
    ("deg", "rad"): math.radians,
    ("rpm", "rad/s"): lambda x: x * 2.0 * math.pi / 60.0,
    ("N/rpm^2", "N s^2/rad^2"): lambda x: x * (60.0 / (2.0 * math.pi)) ** 2,
    ("N m/rpm^2", "N m s^2/rad^2"): lambda x: x * (60.0 / (2.0 * math.pi)) ** 2,
    ("ms", "s"): lambda x: x / 1e3,
    ("A h", "C"): lambda hours: 3600.0 * hours,
    ("mA h", "C"): lambda x: 3.6 * x,
    ("mA", "A"): lambda x: x / 1e3,
    ("mV", "V"): lambda x: x / 1e3,
    ("mohm", "ohm"): lambda x: x / 1e3,
    ("rpm/V", "N m/A"): lambda kv: 60.0 / (2.0 * math.pi * kv),
    ("%", "1"): lambda x: x / 1e2,
}
SPELLINGS = {
    "in": "inch",
    '"': "inch",
    "mAh": "mA h",
    "Ah": "A h",
    "Ohm": "ohm",
    "mOhm": "mohm",
    "Ω": "ohm",
    "mΩ": "mohm",
    "°": "deg",
}
_SPINS = {"ccw": 1, "cw": -1}
_MANY = 16  # keys that one sentence lists; of more, those most like the one that was found come first
_LENGTH = Quantity("m", -1.0, 1.0)
_ANGLE = Quantity("rad", -math.pi, math.pi)


def vehicle_names() -> list[str]:
    """The names of the vehicles that come with Samara."""
    return sorted(
        entry.name[:-5] for entry in resources.files("samara.vehicles").iterdir() if entry.name.endswith(".toml")
    )


def vehicle(name_or_path: str | Path, *, effects: Sequence[EffectOption] = (), **overrides: Any) -> Vehicle:
    """A vehicle by its shipped name or from a file, with other numbers where given: `vehicle("iris", mass=1.6)`.

    Its file may have the tables of `effects` from outside the package too, and `switch_on` knows them by name.
    """
    path = Path(name_or_path)
    name = ALIASES.get(str(name_or_path), str(name_or_path))
    if path.suffix == ".toml":
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise VehicleError(f"{path}: cannot be read ({error}); expected a vehicle file") from None
        loaded = parse_vehicle(text, path.name, path.parent, feet=True, effects=effects)
    elif name in vehicle_names():
        entry = resources.files("samara.vehicles").joinpath(f"{name}.toml")
        loaded = parse_vehicle(entry.read_text(encoding="utf-8"), f"{name}.toml", effects=effects)
    else:
        raise VehicleError(
            f"no vehicle {shown(str(name_or_path))}; expected a .toml file or one of {', '.join(vehicle_names())}"
        )
    if not overrides:
        return loaded
    try:
        return check_vehicle(loaded.replace(overrides))
    except KeyError as error:
        raise VehicleError(error.args[0]) from None


def parse_vehicle(
    text: str,
    origin: str,
    folder: Path | None = None,
    *,
    feet: bool = False,
    effects: Sequence[EffectOption] = (),
) -> Vehicle:
    """A vehicle from the text of a file; `origin` is what errors call it, `folder` where the files are that it names.

    Without a folder it may name none: the vehicle of a recording reads nothing from the disk. With `feet` one that has rotors
    and says nothing of contact gets feet under its arms, and one that says nothing of its top a top. All that is wrong is in
    one error, a sentence on each line.
    """
    try:
        tables = options_with(effects)
    except ValueError as error:
        raise VehicleError(f"{origin}: {error}") from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # tomllib's own, and Python's on endless digits or brackets
        raise VehicleError(f"{origin}: is not TOML ({error})") from None
    file = _Table(document, origin, "", _Notes([], []))
    schema = file.take("schema", str(SCHEMA))
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise file.error("schema", f"= {shown(schema)}: expected {SCHEMA}")
    if schema > SCHEMA:
        raise VehicleError(
            f"{origin}: schema = {shown(schema)}: this Samara reads up to {SCHEMA}; a newer one wrote it"
        )
    name = file.noted(lambda: file.text("name"), "")
    actuation = file.noted(lambda: file.text("actuation", choices=tuple(ACTUATIONS)), "")
    description = file.noted(lambda: file.text("description", default=""), "")
    options: dict[str, Any] = {}
    parts: list[Callable[[_Table], dict[str, Any]]] = [_body, _gravity, _contact, _inflow]
    parts += [partial(_option, option=own, folder=folder) for name, own in tables.items() if name != "body"]
    for part in parts:
        options |= file.noted(partial(part, file), {})
    options["battery"] = file.noted(lambda: _battery(file), None)
    options["rotors"] = file.noted(lambda: _rotors(file), [])
    carried = file.noted(lambda: _payload(file), Payload())
    file.finish()
    raise_all(file.notes.problems)
    if feet and options["rotors"] and "contact_points" not in options:
        options["contact_points"] = derived_feet(options["rotors"])
    if feet and options.get("contact_points") and "contact_top" not in options:
        hull = options.get("body", {}).get("radius", 0.0)
        options["contact_top"] = derived_top(options["contact_points"], options["rotors"], hull)
    built = build_vehicle(
        origin,
        actuation=actuation,
        description=description,
        sources=tuple(file.notes.sources),
        effects=effects,
        **options,
    )
    if carried.mass:
        built = check_vehicle(with_payload(built, carried))
    return replace(built, structure=replace(built.structure, name=name))


class _Notes(NamedTuple):
    """What is found while a file is read: (path, source) of its values, and all that is wrong."""

    sources: list[tuple[str, str]]
    problems: list[str]


class _Table:
    """A table of the file that knows its name and forgets what was read, so that what is left over is unknown."""

    def __init__(self, entries: Any, origin: str, path: str, notes: _Notes) -> None:
        if not isinstance(entries, dict):
            raise VehicleError(f"{origin}: {path} = {shown(entries)}: expected a table")
        self.entries, self.origin, self.path, self.notes = dict(entries), origin, path, notes
        self.asked: dict[str, None] = {}

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: str) -> bool:
        self.asked[key] = None
        return key in self.entries

    def noted(self, read: Callable[[], Any], otherwise: Any) -> Any:
        """What is read; or what is wrong noted, and reading goes on with something else"""
        try:
            return read()
        except VehicleError as error:
            self.notes.problems.append(str(error))
            return otherwise

    def name(self, key: str) -> str:
        return f"{self.path}.{shown_key(key)}" if self.path else shown_key(key)

    def error(self, key: str, text: str) -> VehicleError:
        return VehicleError(f"{self.origin}: {self.name(key)} {text}")

    def take(self, key: str, kind: str) -> Any:
        if key not in self:
            raise self.error(key, f"is missing: expected {kind}")
        return self.entries.pop(key)

    def text(self, key: str, default: str | None = None, choices: tuple[str, ...] = ()) -> str:
        kind = f"one of {', '.join(choices)}" if choices else "a text"
        value = default if default is not None and key not in self else self.take(key, kind)
        if not isinstance(value, str) or (choices and value not in choices):
            raise self.error(key, f"= {shown(value)}: expected {kind}")
        return value

    def table(self, key: str, optional: bool = False) -> "_Table | Any":
        if optional and key not in self:
            return None
        return _Table(self.take(key, "a table"), self.origin, self.name(key), self.notes)

    def tables(self, key: str) -> list["_Table"]:
        entries = self.entries.pop(key) if key in self else []
        if not isinstance(entries, list):
            raise self.error(key, f"= {shown(entries)}: expected a list of tables")
        return [_Table(entry, self.origin, f"{self.name(key)}[{i}]", self.notes) for i, entry in enumerate(entries)]

    def finish(self) -> None:
        for key, value in self.entries.items():
            near = get_close_matches(key, self.asked, 3) if len(self.asked) > _MANY else []
            known = [*near, *(each for each in self.asked if each not in near)]
            listed = ", ".join(known if len(known) <= _MANY else [*known[:_MANY], "..."])
            self.notes.problems.append(str(self.error(key, f"= {shown(value)}: expected only the keys {listed} here")))

    def quantity(self, key: str, unit: str) -> tuple[Any, str]:
        """The bare value of a `{ value, unit, source }` and the unit it is given in: the one asked for or a convertible one."""
        whole = self.take(key, "{ value, unit, source }")
        if not isinstance(whole, dict):
            raise self.error(key, f"= {shown(whole)}: expected {{ value, unit, source }}")
        entry = _Table(whole, self.origin, self.name(key), self.notes)
        value, given, source = entry.take("value", "a number or numbers"), entry.text("unit"), entry.text("source", "")
        entry.finish()
        given = SPELLINGS.get(given, given)
        if source:
            self.notes.sources.append((self.name(key), source))
        units = [unit, *(other for other, into in CONVERSIONS if into == unit)]
        if given not in units:
            raise self.error(key, f"has the unit {shown(given)}: expected {' or '.join(repr(each) for each in units)}")
        return value, given

    def number(self, key: str, quantity: Any) -> float:
        value, given = self.quantity(key, quantity.unit)
        return self.checked(key, value, given, quantity)

    def checked(self, key: str, value: Any, given: str, quantity: Any) -> float:
        wanted = expected(value, quantity)
        if wanted:
            raise self.error(key, f"= {shown(value)}{'' if given == '1' else ' ' + given}: expected {wanted}")
        return CONVERSIONS.get((given, quantity.unit), float)(value)

    def numbers(self, key: str, quantity: Any, count: int | None = None) -> tuple[float, ...]:
        value, given = self.quantity(key, quantity.unit)
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise self.error(key, f"= {shown(value)}: expected {count if count is not None else 'a list of'} numbers")
        return tuple(self.checked(key, each, given, quantity) for each in value)

    def vector(self, key: str, quantity: Any) -> Vec3:
        return Vec3(*self.numbers(key, quantity, 3))

    def record(self, kind: type[Any]) -> Any:
        """A named tuple whose fields are the table's keys, each with the unit and sign its annotation declares."""
        values = self.fields(kind)
        self.finish()
        return kind(**values)

    def fields(self, kind: type[Any], lacking: bool = False) -> dict[str, Any]:
        """The fields of a record that the table has; the others must have defaults, unless some may be lacking."""
        values: dict[str, Any] = {}
        for key, own in fields_of(kind).items():
            if key not in self and (lacking or key in kind._field_defaults):
                continue
            read: Callable[..., Any] = self.vector if own.numbers == 3 else self.number if own.numbers else self.numbers
            values[key] = self.noted(partial(read, key, own.quantity), None)
        return values


def _inertia(body: _Table) -> tuple[float, ...]:
    value, given = body.quantity("inertia", "kg m^2")
    rows = value if isinstance(value, list) and len(value) == 3 else []
    full = bool(rows) and all(isinstance(row, list) and len(row) == 3 for row in rows)
    numbers = [each for row in rows for each in row] if full else rows
    if not numbers:
        raise body.error("inertia", f"= {shown(value)} kg m^2: expected 3 numbers (diagonal) or 3 rows of 3")
    any_sign = Quantity("kg m^2", -1.0, 1.0)
    return tuple(body.checked("inertia", each, given, any_sign) for each in numbers)


def _body(file: _Table) -> dict[str, Any]:
    body = file.table("body")
    options: dict[str, Any] = {
        "mass": body.noted(lambda: body.number("mass", Quantity("kg", 1e-3, 1e3)), None),
        "inertia": body.noted(lambda: _inertia(body), None),
    }
    if "radius" in body:
        options["body"] = body.fields(OPTIONS["body"].record)
    body.finish()
    return options


def _inflow(file: _Table) -> dict[str, Any]:
    table = file.table("inflow", optional=True)
    if not table:
        return {}
    model = table.text("model")
    table.finish()
    return {"inflow": model}


def _gravity(file: _Table) -> dict[str, Any]:
    table = file.table("gravity")
    model = table.text("model", default="uniform")
    return {"gravity": table.record(Gravity).acceleration, "gravity_model": model}


def _option(file: _Table, option: EffectOption, folder: Path | None) -> dict[str, Any]:
    """What `build_vehicle` is told of an optional table, if the file has it; where there are several models it says which."""
    name = option.name
    table = file.table(name, optional=True)
    if not table:
        return {}
    found: dict[str, Any] = {}
    if len(option.models) > 1:
        found[f"{name}_{option.key}"] = table.text(option.key)
    given: dict[str, Any] = {}
    for key in option.texts:
        if key in table:
            text = table.text(key)
            given[key] = _beside(table, key, folder, text) if text.endswith(".toml") else text
    given |= {key: table.number(key, own) for key, own in option.numbers.items() if key in table}
    found[name] = given | table.fields(option.record, option.completes)
    table.finish()
    return found


def _beside(table: _Table, key: str, folder: Path | None, name: str) -> Path:
    """A file in the folder of the one that names it"""
    if folder is None:
        raise table.error(key, f"= {shown(name)}: expected a name that Samara knows; there is no folder to look in")
    try:
        return path_beside(folder, name)
    except ValueError as error:
        raise table.error(key, f"= {shown(name)}: {error}") from None


def _contact(file: _Table) -> dict[str, Any]:
    if "contact" in file and file.entries["contact"] is False:
        file.take("contact", "a table or false")
        return {"contact_points": ()}
    table = file.table("contact", optional=True)
    if not table:
        return {}
    value, given = table.quantity("points", "m")
    if not isinstance(value, list) or not value or not all(isinstance(p, list) and len(p) == 3 for p in value):
        raise table.error("points", f"= {shown(value)}: expected a list of points of 3 numbers")
    hints = get_type_hints(Surface, include_extras=True)
    options: dict[str, Any] = {
        "contact_points": [Vec3(*(table.checked("points", x, given, _LENGTH) for x in point)) for point in value],
        "friction": table.number("friction", get_args(hints["friction"])[1]),
    }
    if "top" in table:
        only_feet = table.entries["top"] is False and not table.take("top", "a height or false")
        options["contact_top"] = None if only_feet else table.number("top", _LENGTH)
    for key in ("stiffness", "damping"):
        if key in table:
            options[f"contact_{key}"] = table.number(key, get_args(hints[key])[1])
    table.finish()
    return options


def _payload(file: _Table) -> Payload:
    """A point mass that the vehicle carries, at its place from the centre of mass of the bare one."""
    table = file.table("payload", optional=True)
    if not table:
        return Payload()
    carried = Payload(
        table.number("mass", Quantity("kg", 0.0, 1e3)), table.vector("position", Quantity("m", -1.0, 1.0))
    )
    table.finish()
    return carried


def _battery(file: _Table) -> Any:
    if "battery" not in file:
        return None
    if isinstance(file.entries["battery"], dict):
        file.entries["battery"] = [file.entries["battery"]]
    batteries = []
    for table in file.tables("battery"):
        kind = BATTERIES[table.text("model", choices=tuple(BATTERIES))]
        batteries.append(table.record(kind))
    return batteries[0] if len(batteries) == 1 and isinstance(batteries[0], Ideal) else batteries


def _rotors(file: _Table) -> list[Rotor]:
    shared = file.noted(partial(file.table, "rotor", optional=True), None)
    shared_values = {} if not shared else _rotor_values(shared)
    if shared:
        shared.finish()
    shared_motor = file.noted(partial(_motor, file), Lag)
    rotors = [file.noted(partial(_rotor, table, shared_values, shared_motor), None) for table in file.tables("rotors")]
    if not rotors and (shared_values or shared_motor):
        raise VehicleError(f"{file.origin}: rotors is missing: expected one [[rotors]] for each rotor")
    return rotors


def _rotor(table: _Table, shared_values: dict[str, float], shared_motor: Any) -> Rotor:
    before = len(table.notes.problems)
    r_B, axis_B = table.noted(lambda: _placement(table), (None, None))
    spin = table.noted(lambda: _SPINS[table.text("spin", choices=tuple(_SPINS))], 1)
    values = shared_values | _rotor_values(table)
    for key in ("k_thrust", "k_torque"):
        if key not in values:
            raise table.error(key, "is missing: expected { value, unit, source } here or in [rotor]")
    motor = _motor(table) or shared_motor
    if motor is None:
        raise table.error("motor", "is missing: expected a table here or as [motor]")
    if len(table.notes.problems) == before:
        table.finish()
    return Rotor(r_B, axis_B, spin, motor=motor, **values)


def _rotor_values(table: _Table) -> dict[str, float]:
    hints = get_type_hints(Rotor, include_extras=True)
    keys = [key for key in ("k_thrust", "k_torque", "inertia", "radius") if key in table]
    return {key: table.noted(partial(table.number, key, get_args(hints[key])[1]), None) for key in keys}


def _motor(table: _Table) -> Any:
    motor = table.table("motor", optional=True)
    if not motor:
        return None
    return motor.record(MOTORS[motor.text("model", choices=tuple(MOTORS))])


def _placement(table: _Table) -> tuple[Vec3, Vec3]:
    """A hub by its position, or by arm and azimuth; its axis upright, given, or tilted about the arm."""
    if "position" in table:
        r_B = table.vector("position", _LENGTH)
        outward = Vec3(r_B.x, r_B.y, 0.0)
    else:
        arm, azimuth = table.number("arm", Quantity("m", 1e-3, 10.0)), table.number("azimuth", _ANGLE)
        height = table.number("height", _LENGTH) if "height" in table else 0.0
        outward = Vec3(math.cos(azimuth), math.sin(azimuth), 0.0)
        r_B = outward * arm + Vec3(0.0, 0.0, height)
    if "axis" in table:
        return r_B, table.vector("axis", Quantity("1", -1.0, 1.0))
    if "tilt" in table:
        return r_B, rotate(quat_from_axis_angle(outward, table.number("tilt", _ANGLE)), Vec3(0.0, 0.0, 1.0))
    return r_B, Vec3(0.0, 0.0, 1.0)
