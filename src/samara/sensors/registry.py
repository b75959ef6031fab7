"""Parts by name: a data sheet as a TOML file becomes a record of numbers, and the record a sensor.

Every value stands as `{ value, unit, source }`. What a file may hold, in which unit and of which sign, is read from the
record of its kind: `kind = "imu"` from `ImuPart`, and so on. What is given instead of a file's number is in SI units.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.coerce import UnfitError
from samara.core.quantity import Quantity, Tree
from samara.core.sanitise import shown
from samara.core.toml import DataSheet, File, Shipped, document
from samara.core.units import converted
from samara.sensors import (
    barometer,
    battery_monitor,
    depth_camera,
    gps,
    imu,
    lidar,
    magnetometer,
    motion_capture,
    optical_flow,
    range_finder,
)
from samara.sensors.sensor import POSITION, Mounting, Scene, Sensor, SensorType
from samara.sensors.site import HOME, Place
from samara.world.obstacles import HeightMap

SCHEMA = 1
MODULES = (
    imu,
    magnetometer,
    barometer,
    gps,
    range_finder,
    optical_flow,
    motion_capture,
    battery_monitor,
    depth_camera,
    lidar,
)
"""The registry: the module of every type of sensor, each with a `TYPE`"""
SENSOR_TYPES: dict[str, SensorType] = {module.TYPE.name: module.TYPE for module in MODULES}
EXACT: dict[str, Callable[[Place], Sensor]] = {
    **{name: sensor.exact for name, sensor in SENSOR_TYPES.items() if sensor.exact is not None},
    "position": lambda site: POSITION,
}
"""Sensors without error by name, each built for a site on Earth"""


class PartError(ValueError):
    """A part with something wrong in it; the message is one sentence."""


class Part(NamedTuple):
    """A part: its kind, its numbers in SI units, and where each came from."""

    name: str
    kind: str
    numbers: Tree
    sources: tuple[tuple[str, str], ...] = ()

    def sensor(self, *, r_B: Vec3 = ZERO, q_BS: Quat = IDENTITY, where: Place = HOME, name: str = "") -> Sensor:
        """The sensor it is when mounted at r_B from the centre of mass, turned by q_BS"""
        sensor_type, mounting = SENSOR_TYPES[self.kind], Mounting(Vec3(*r_B), Quat(*q_BS))
        site = {"where": where} if sensor_type.has_site else {}
        return sensor_type.build(self.numbers, mounting, name=name, **site)


def seeing(sensor: Sensor, scene: Scene, terrain: HeightMap | None = None) -> Sensor:
    """The sensor among solids and over terrain; one that detects neither stays as it is

    A sensor with one ray meets, over a height map, the plane below the drone.
    """
    sensor_type = SENSOR_TYPES.get(sensor.kind)
    if sensor_type is None or not sensor_type.detects or (sensor_type.detects == "solids" and not scene.solids):
        return sensor
    if sensor_type.detects == "terrain" and terrain is not None:
        scene = scene._replace(ground=terrain)
    return sensor_type.build(sensor.about.part, sensor.about.mounting, name=sensor.name, scene=scene)


def faults_of(sensor: Sensor) -> frozenset[str]:
    """The names of the faults that silence a sensor; none for a type that is not registered"""
    return SENSOR_TYPES[sensor.kind].fault_names if sensor.kind in SENSOR_TYPES else frozenset()


PARTS = Shipped("part", "samara.sensors.parts", PartError)


def part_names() -> list[str]:
    """The names of the parts that come with Samara."""
    return PARTS.names()


def part(name_or_path: str | Path, **overrides: Tree) -> Part:
    """A part by its shipped name or from a file, with other numbers where given: `part("bmp388", noise=0.0)`"""
    text, origin, _ = PARTS.find(name_or_path)
    return altered(parse_part(text, origin), **overrides)


def altered(own: Part, **overrides: Tree) -> Part:
    """The part with other numbers where given"""
    return own._replace(numbers=_replaced(own.numbers, overrides, own.name)) if overrides else own


@lru_cache(maxsize=64)
def parse_part(text: str, origin: str) -> Part:
    """A part from the text of a file; `origin` is what errors call it"""
    file = DataSheet(document(text, origin, PartError), File(origin, PartError))
    file.schema(SCHEMA, default=SCHEMA)
    kind, name = file.text("kind", choices=SENSOR_TYPES), file.text("name", Path(origin).stem)
    file.text("description", "")
    return Part(name, kind, _record(SENSOR_TYPES[kind].part, file), tuple(file.file.sources))


def _record(kind: type[Tree], table: DataSheet) -> Tree:
    """A record of numbers from a table of `{ value, unit, source }`, its own records from tables within it."""
    hints, values = get_type_hints(kind, include_extras=True), {}
    table.only(hints)
    for key, hint in hints.items():
        if key not in table and key in kind._field_defaults:
            continue
        if isinstance(hint, type):  # a record within the record
            values[key] = _record(hint, table.table(key))
            continue
        base, quantity = get_args(hint)[:2]
        value, unit = table.quantity(key, quantity.unit)
        try:
            values[key] = _shaped(base, value, unit, quantity)
        except UnfitError as error:
            raise table.error(key, value, str(error)) from None
    return kind(**values)


def _shaped(base: Any, given: Tree, unit: str, quantity: Quantity) -> Tree:
    """A number, three, four or pairs of them, in SI units; UnfitError says what was expected."""
    number = partial(converted, unit=unit, quantity=quantity)
    listed = given if isinstance(given, (list, tuple)) else None
    if base in (Vec3, Quat):
        many = [given] * 3 if listed is None else listed
        if len(many) != len(base._fields):
            raise UnfitError("a number or three" if base is Vec3 else "four numbers w, x, y, z")
        return base(*map(number, many))
    if get_origin(base) is tuple:
        if listed is None or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in listed):
            raise UnfitError("a list of pairs of numbers")
        return tuple(tuple(map(number, pair)) for pair in listed)
    return number(given)


def _replaced(record: Tree, overrides: Mapping[str, Tree], where: str) -> Tree:
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
            try:
                values[key] = _shaped(base, given, quantity.unit, quantity)
            except UnfitError as error:
                raise PartError(f"{where}.{key} = {shown(given)}: expected {error}") from None
    return record._replace(**values)
