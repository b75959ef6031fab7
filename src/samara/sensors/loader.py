"""Parts by name: a data sheet as a TOML file becomes a record of numbers, and the record a sensor.

Every value stands as `{ value, unit, source }`. What a file may hold, in which unit and of which sign, is read from the
record of its kind: `kind = "imu"` from `ImuPart`, and so on. What is given instead of a file's number is in SI units.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.named_files import read_text
from samara.core.printable import shown, shown_key
from samara.core.quantity import Quantity, expected
from samara.sensors.barometer import BarometerPart, barometer
from samara.sensors.battery_monitor import BatteryMonitorPart, battery_monitor
from samara.sensors.earth import HOME, Place
from samara.sensors.gps import GpsPart, gps
from samara.sensors.imu import ImuPart, imu
from samara.sensors.magnetometer import MagnetometerPart, magnetometer
from samara.sensors.motion_capture import MotionCapturePart, motion_capture
from samara.sensors.optical_flow import FlowModel, OpticalFlowPart, optical_flow
from samara.sensors.range_finder import RangeFinderPart, RangeModel, Sees, range_finder
from samara.sensors.sensor import Mounting, Sensor

SCHEMA = 1
_G, _DEGREE = 9.80665, math.pi / 180.0
UNITS: dict[tuple[str, str], float] = {
    ("deg", "rad"): _DEGREE,
    ("deg/s", "rad/s"): _DEGREE,
    ("deg/h", "rad/s"): _DEGREE / 3600.0,
    ("mdeg/s/sqrt(Hz)", "rad/s/sqrt(Hz)"): 1e-3 * _DEGREE,
    ("deg/s/sqrt(Hz)", "rad/s/sqrt(Hz)"): _DEGREE,
    ("g", "m/s^2"): _G,
    ("mg", "m/s^2"): 1e-3 * _G,
    ("ug", "m/s^2"): 1e-6 * _G,
    ("ug/sqrt(Hz)", "m/s^2/sqrt(Hz)"): 1e-6 * _G,
    ("uT", "T"): 1e-6,
    ("hPa", "Pa"): 100.0,
    ("ms", "s"): 1e-3,
    ("mm", "m"): 1e-3,
    ("%", "1"): 1e-2,
}
KINDS: dict[str, tuple[type[Any], Callable[..., Sensor]]] = {
    "imu": (ImuPart, imu),
    "magnetometer": (MagnetometerPart, magnetometer),
    "barometer": (BarometerPart, barometer),
    "gps": (GpsPart, gps),
    "range_finder": (RangeFinderPart, range_finder),
    "optical_flow": (OpticalFlowPart, optical_flow),
    "motion_capture": (MotionCapturePart, motion_capture),
    "battery_monitor": (BatteryMonitorPart, battery_monitor),
}
ON_EARTH = ("magnetometer", "barometer", "gps")  # these need to know where


class PartError(ValueError):
    """A part with something wrong in it; the message is one sentence."""


class Part(NamedTuple):
    """A part: its kind, its numbers in SI units, and where each came from."""

    name: str
    kind: str
    numbers: Any
    sources: tuple[tuple[str, str], ...] = ()

    def sensor(self, *, r_B: Vec3 = ZERO, q_BS: Quat = IDENTITY, where: Place = HOME, name: str = "") -> Sensor:
        """The sensor it is when mounted at r_B from the centre of mass, turned by q_BS"""
        make, mounting = KINDS[self.kind][1], Mounting(Vec3(*r_B), Quat(*q_BS))
        own = {"where": where} if self.kind in ON_EARTH else {}
        return make(self.numbers, mounting, name=name, **own)


def seeing(sensor: Sensor, sees: Sees) -> Sensor:
    """The sensor among other things to see; one that looks at nothing stays as it is"""
    if not isinstance(sensor.about, (RangeModel, FlowModel)):
        return sensor
    again: Sensor = KINDS[sensor.kind][1](sensor.about.part, sensor.about.mounting, name=sensor.name, sees=sees)
    return again


def part_names() -> list[str]:
    """The names of the parts that come with Samara."""
    folder = resources.files("samara.sensors").joinpath("parts")
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def part(name_or_path: str | Path, **overrides: Any) -> Part:
    """A part by its shipped name or from a file, with other numbers where given: `part("bmp388", noise=0.0)`"""
    return altered(_loaded(name_or_path), **overrides)


def altered(own: Part, **overrides: Any) -> Part:
    """The part with other numbers where given"""
    return own._replace(numbers=_replaced(own.numbers, overrides, own.name)) if overrides else own


def _loaded(name_or_path: str | Path) -> Part:
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise PartError(f"{path}: cannot be read ({error}); expected a part file") from None
        return parse_part(text, path.name)
    if str(name_or_path) in part_names():
        return _shipped(str(name_or_path))
    raise PartError(f"no part {str(name_or_path)!r}; expected a .toml file or one of {', '.join(part_names())}")


@lru_cache(maxsize=64)
def _shipped(name: str) -> Part:
    entry = resources.files("samara.sensors").joinpath("parts", f"{name}.toml")
    return parse_part(entry.read_text(encoding="utf-8"), f"{name}.toml")


def parse_part(text: str, origin: str) -> Part:
    """A part from the text of a file; `origin` is what errors call it"""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PartError(f"{origin}: is not TOML ({error})") from None
    schema = document.pop("schema", SCHEMA)
    if schema != SCHEMA:
        raise PartError(f"{origin}: schema = {shown(schema)}: expected {SCHEMA}; this Samara reads no other")
    kind, name = document.pop("kind", ""), document.pop("name", Path(origin).stem)
    if not isinstance(kind, str) or kind not in KINDS:
        raise PartError(f"{origin}: kind = {shown(kind)}: expected one of {', '.join(KINDS)}")
    if not isinstance(name, str):
        raise PartError(f"{origin}: name = {shown(name)}: expected a text")
    description = document.pop("description", "")
    if not isinstance(description, str):
        raise PartError(f"{origin}: description = {shown(description)}: expected a text")
    sources: list[tuple[str, str]] = []
    numbers = _record(KINDS[kind][0], document, origin, "", sources)
    return Part(name, kind, numbers, tuple(sources))


def _record(kind: type[Any], table: Any, origin: str, path: str, sources: list[tuple[str, str]]) -> Any:
    """A record of numbers from a table of `{ value, unit, source }`, its own records from tables within it."""
    if not isinstance(table, dict):
        raise PartError(f"{origin}: {path} = {shown(table)}: expected a table")
    hints, values = get_type_hints(kind, include_extras=True), {}
    for key in table:
        if key not in hints:
            raise PartError(f"{origin}: {path}{shown_key(key)}: expected only {', '.join(hints)} here")
    for key, hint in hints.items():
        if key not in table:
            if key in kind._field_defaults:
                continue
            raise PartError(f"{origin}: {path}{key} is missing")
        if isinstance(hint, type):  # a record within the record
            values[key] = _record(hint, table[key], origin, f"{path}{key}.", sources)
            continue
        entry = table[key]
        if not isinstance(entry, dict) or set(entry) != {"value", "unit", "source"}:
            raise PartError(f"{origin}: {path}{key} = {shown(entry)}: expected {{ value, unit, source }}")
        base, quantity = get_args(hint)[:2]
        if not isinstance(entry["source"], str):
            raise PartError(f"{origin}: {path}{key}.source = {shown(entry['source'])}: expected a text")
        unit = entry["unit"] if isinstance(entry["unit"], str) else ""
        factor = 1.0 if unit == quantity.unit else UNITS.get((unit, quantity.unit))
        if factor is None:
            others = [repr(given) for given, into in UNITS if into == quantity.unit]
            units = " or ".join([repr(quantity.unit), *others])
            raise PartError(f"{origin}: {path}{key} has the unit {shown(entry['unit'])}: expected {units}")
        values[key] = _value(base, quantity, entry["value"], factor, f"{origin}: {path}{key}")
        sources.append((f"{path}{key}", entry["source"]))
    return kind(**values)


def _value(base: Any, quantity: Quantity, given: Any, factor: float, where: str) -> Any:
    """A number, three, or pairs of them, of the declared sign."""
    if base is Vec3:
        three = given if isinstance(given, (list, tuple)) else [given] * 3
        if len(three) != 3:
            raise PartError(f"{where} = {shown(given)}: expected a number or three")
        return Vec3(*(_number(quantity, each, factor, where) for each in three))
    if base is Quat:
        if not isinstance(given, (list, tuple)) or len(given) != 4:
            raise PartError(f"{where} = {shown(given)}: expected four numbers w, x, y, z")
        return Quat(*(_number(quantity, each, factor, where) for each in given))
    if get_origin(base) is tuple:
        if not isinstance(given, (list, tuple)) or not all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given
        ):
            raise PartError(f"{where} = {shown(given)}: expected a list of pairs of numbers")
        return tuple(tuple(_number(quantity, each, factor, where) for each in pair) for pair in given)
    return _number(quantity, given, factor, where)


def _number(quantity: Quantity, given: Any, factor: float, where: str) -> float:
    if wanted := expected(given, quantity):
        raise PartError(f"{where} = {shown(given)}: expected {wanted}")
    return float(given) * factor


def _replaced(record: Any, overrides: Mapping[str, Any], where: str) -> Any:
    hints, values = get_type_hints(type(record), include_extras=True), {}
    for key, given in overrides.items():
        if key not in hints:
            raise PartError(f"{where}: there is no {key!r}; expected one of {', '.join(hints)}")
        if isinstance(hints[key], type):
            if not isinstance(given, Mapping):
                raise PartError(f"{where}.{key} = {shown(given)}: expected a table of {', '.join(hints[key]._fields)}")
            values[key] = _replaced(getattr(record, key), given, f"{where}.{key}")
        else:
            base, quantity = get_args(hints[key])[:2]
            values[key] = _value(base, quantity, given, 1.0, f"{where}.{key}")
    return record._replace(**values)
