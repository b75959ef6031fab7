"""From a TOML file to a vehicle: strict, and one sentence about what is wrong.

Every value stands as `{ value, unit, source }`. What a table may hold, in which unit and of which sign, is read from the
record it becomes: `[drag]` from `Drag`, `[motor]` from `Lag` or `DcMotor`, and so on.
"""

import math
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, get_args, get_type_hints

from samara.algebra import Vec3, quat_from_axis_angle, rotate
from samara.physics.actuator import Lag
from samara.physics.battery import Ideal
from samara.physics.contact import Surface
from samara.physics.gravity import Gravity
from samara.physics.motor import DcMotor
from samara.physics.multirotor import Vehicle
from samara.physics.rotor import Rotor
from samara.quantity import Quantity, expected
from samara.vehicles.battery import BATTERIES
from samara.vehicles.build import ACTUATIONS, build_vehicle
from samara.vehicles.check import VehicleError, check_vehicle, fields_of
from samara.vehicles.effects import OPTIONS
from samara.vehicles.payload import Payload, with_payload

SCHEMA = 1
ALIASES = {"crazyflie_measured": "crazyflie"}  # names that vehicles had before
MOTORS: dict[str, type[Any]] = {"lag": Lag, "dc": DcMotor}
CONVERSIONS: dict[tuple[str, str], Callable[[float], float]] = {
    ("deg", "rad"): math.radians,
    ("A h", "C"): lambda hours: 3600.0 * hours,
    ("rpm/V", "N m/A"): lambda kv: 60.0 / (2.0 * math.pi * kv),
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


def vehicle(name_or_path: str | Path, **overrides: Any) -> Vehicle:
    """A vehicle by its shipped name or from a file, with other numbers where given: `vehicle("iris", mass=1.6)`."""
    path = Path(name_or_path)
    name = ALIASES.get(str(name_or_path), str(name_or_path))
    if path.suffix == ".toml":
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VehicleError(f"{path}: cannot be read ({error}); expected a vehicle file") from None
        loaded = parse_vehicle(text, path.name, path.parent)
    elif name in vehicle_names():
        entry = resources.files("samara.vehicles").joinpath(f"{name}.toml")
        loaded = parse_vehicle(entry.read_text(encoding="utf-8"), f"{name}.toml")
    else:
        raise VehicleError(
            f"no vehicle {str(name_or_path)!r}; expected a .toml file or one of {', '.join(vehicle_names())}"
        )
    if not overrides:
        return loaded
    try:
        return check_vehicle(loaded.replace(overrides))
    except KeyError as error:
        raise VehicleError(error.args[0]) from None


def parse_vehicle(text: str, origin: str, folder: Path | None = None) -> Vehicle:
    """A vehicle from the text of a file; `origin` is what errors call it, `folder` where the files are that it names."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # tomllib's own, and Python's on endless digits or brackets
        raise VehicleError(f"{origin}: is not TOML ({error})") from None
    file = _Table(document, origin, "", [])
    schema = file.take("schema", str(SCHEMA))
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise file.error("schema", f"= {_shown(schema)}: expected {SCHEMA}")
    if schema > SCHEMA:
        raise VehicleError(
            f"{origin}: schema = {_shown(schema)}: this Samara reads up to {SCHEMA}; a newer one wrote it"
        )
    name = file.text("name")
    actuation = file.text("actuation", choices=tuple(ACTUATIONS))
    description = file.text("description", default="")
    body = file.table("body")
    options: dict[str, Any] = {"mass": body.number("mass", Quantity("kg", 1e-3, 1e3)), "inertia": _inertia(body)}
    if "radius" in body:
        options["body"] = body.fields(OPTIONS["body"].record)
    body.finish()
    options |= _gravity(file) | _contact(file) | _options(file, folder)
    if inflow := file.table("inflow", optional=True):
        options["inflow"] = inflow.text("model")
        inflow.finish()
    options["battery"] = _battery(file)
    options["rotors"] = _rotors(file)
    carried = _payload(file)
    file.finish()
    try:
        built = build_vehicle(
            name, actuation=actuation, description=description, sources=tuple(file.sources), **options
        )
        return check_vehicle(with_payload(built, carried)) if carried.mass else built
    except VehicleError as error:
        raise VehicleError(str(error).replace(f"{name}:", f"{origin}:", 1)) from None


class _Table:
    """A table of the file that knows its name and forgets what was read, so that what is left over is unknown."""

    def __init__(self, entries: Any, origin: str, path: str, sources: list[tuple[str, str]]) -> None:
        if not isinstance(entries, dict):
            raise VehicleError(f"{origin}: {path} = {_shown(entries)}: expected a table")
        self.entries, self.origin, self.path, self.sources = dict(entries), origin, path, sources
        self.asked: dict[str, None] = {}

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: str) -> bool:
        self.asked[key] = None
        return key in self.entries

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

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
            raise self.error(key, f"= {_shown(value)}: expected {kind}")
        return value

    def table(self, key: str, optional: bool = False) -> "_Table | Any":
        if optional and key not in self:
            return None
        return _Table(self.take(key, "a table"), self.origin, self.name(key), self.sources)

    def tables(self, key: str) -> list["_Table"]:
        entries = self.entries.pop(key) if key in self else []
        if not isinstance(entries, list):
            raise self.error(key, f"= {_shown(entries)}: expected a list of tables")
        return [_Table(entry, self.origin, f"{self.name(key)}[{i}]", self.sources) for i, entry in enumerate(entries)]

    def finish(self) -> None:
        for key, value in self.entries.items():
            near = get_close_matches(key, self.asked, 3) if len(self.asked) > _MANY else []
            known = [*near, *(each for each in self.asked if each not in near)]
            listed = ", ".join(known if len(known) <= _MANY else [*known[:_MANY], "..."])
            raise self.error(key, f"= {_shown(value)}: expected only the keys {listed} here")

    def quantity(self, key: str, unit: str) -> tuple[Any, str]:
        """The bare value of a `{ value, unit, source }` and the unit it is given in: the one asked for or a convertible one."""
        whole = self.take(key, "{ value, unit, source }")
        if not isinstance(whole, dict):
            raise self.error(key, f"= {_shown(whole)}: expected {{ value, unit, source }}")
        entry = _Table(whole, self.origin, self.name(key), self.sources)
        value, given, source = entry.take("value", "a number or numbers"), entry.text("unit"), entry.text("source")
        entry.finish()
        self.sources.append((self.name(key), source))
        units = [unit, *(other for other, into in CONVERSIONS if into == unit)]
        if given not in units:
            raise self.error(key, f"has the unit {given!r}: expected {' or '.join(repr(each) for each in units)}")
        return value, given

    def number(self, key: str, quantity: Any) -> float:
        value, given = self.quantity(key, quantity.unit)
        return self.checked(key, value, given, quantity)

    def checked(self, key: str, value: Any, given: str, quantity: Any) -> float:
        wanted = expected(value, quantity)
        if wanted:
            raise self.error(key, f"= {_shown(value)}{'' if given == '1' else ' ' + given}: expected {wanted}")
        return CONVERSIONS.get((given, quantity.unit), float)(value)

    def numbers(self, key: str, quantity: Any, count: int | None = None) -> tuple[float, ...]:
        value, given = self.quantity(key, quantity.unit)
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise self.error(key, f"= {_shown(value)}: expected {count if count is not None else 'a list of'} numbers")
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
            if own.numbers == 3:
                values[key] = self.vector(key, own.quantity)
            elif own.numbers == 0:
                values[key] = self.numbers(key, own.quantity)
            else:
                values[key] = self.number(key, own.quantity)
        return values


def _shown(value: Any) -> str:
    """A value as an error quotes it: never longer than a line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 120 else f"{text[:117]}..."


def _inertia(body: _Table) -> tuple[float, ...]:
    value, given = body.quantity("inertia", "kg m^2")
    rows = value if isinstance(value, list) and len(value) == 3 else []
    full = bool(rows) and all(isinstance(row, list) and len(row) == 3 for row in rows)
    numbers = [each for row in rows for each in row] if full else rows
    if not numbers:
        raise body.error("inertia", f"= {_shown(value)} kg m^2: expected 3 numbers (diagonal) or 3 rows of 3")
    any_sign = Quantity("kg m^2", -1.0, 1.0)
    return tuple(body.checked("inertia", each, given, any_sign) for each in numbers)


def _gravity(file: _Table) -> dict[str, Any]:
    table = file.table("gravity")
    model = table.text("model", default="uniform")
    return {"gravity": table.record(Gravity).acceleration, "gravity_model": model}


def _options(file: _Table, folder: Path | None) -> dict[str, Any]:
    """What `build_vehicle` is told of every optional table that the file has; where there are several models it says which."""
    found: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        table = file.table(name, optional=True) if name != "body" else None
        if not table:
            continue
        if len(option.models) > 1:
            found[f"{name}_{option.key}"] = table.text(option.key)
        given: dict[str, Any] = {}
        for key in option.texts:
            if key in table:
                text = table.text(key)
                given[key] = folder / text if folder is not None and text.endswith(".toml") else text
        given |= {key: table.number(key, own) for key, own in option.numbers.items() if key in table}
        found[name] = given | table.fields(option.record, option.completes)
        table.finish()
    return found


def _contact(file: _Table) -> dict[str, Any]:
    table = file.table("contact", optional=True)
    if not table:
        return {}
    value, given = table.quantity("points", "m")
    if not isinstance(value, list) or not value or not all(isinstance(p, list) and len(p) == 3 for p in value):
        raise table.error("points", f"= {_shown(value)}: expected a list of points of 3 numbers")
    hints = get_type_hints(Surface, include_extras=True)
    options: dict[str, Any] = {
        "contact_points": [Vec3(*(table.checked("points", x, given, _LENGTH) for x in point)) for point in value],
        "friction": table.number("friction", get_args(hints["friction"])[1]),
    }
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
    shared = file.table("rotor", optional=True)
    shared_values = {} if not shared else _rotor_values(shared)
    if shared:
        shared.finish()
    shared_motor = _motor(file)
    rotors = []
    for table in file.tables("rotors"):
        r_B, axis_B = _placement(table)
        spin = _SPINS[table.text("spin", choices=tuple(_SPINS))]
        values = shared_values | _rotor_values(table)
        for key in ("k_thrust", "k_torque"):
            if key not in values:
                raise table.error(key, "is missing: expected { value, unit, source } here or in [rotor]")
        motor = _motor(table) or shared_motor
        if motor is None:
            raise table.error("motor", "is missing: expected a table here or as [motor]")
        table.finish()
        rotors.append(Rotor(r_B, axis_B, spin, motor=motor, **values))
    if not rotors and (shared_values or shared_motor):
        raise VehicleError(f"{file.origin}: rotors is missing: expected one [[rotors]] for each rotor")
    return rotors


def _rotor_values(table: _Table) -> dict[str, float]:
    hints = get_type_hints(Rotor, include_extras=True)
    keys = [key for key in ("k_thrust", "k_torque", "inertia", "radius") if key in table]
    return {key: table.number(key, get_args(hints[key])[1]) for key in keys}


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
