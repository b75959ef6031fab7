"""Sensor parts by name: a data sheet in a TOML file becomes a named tuple of parameters, from which a sensor is built.

Every value is `{ value, unit, source }`. The named tuple of the sensor type defines the keys, units and signs that a file may
have: `type = "imu"` is read into `ImuPart`, and so on. Overrides of a file's values are in SI units.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.coerce import InvalidValueError
from samara.core.quantity import Choices, Quantity, Tree
from samara.core.sanitise import quote_value
from samara.core.toml import DataSheet, ShippedFiles, TomlFile, parse_document
from samara.core.units import convert_to_si
from samara.sensors import (
    barometer,
    battery_monitor,
    camera,
    depth_camera,
    gps,
    imu,
    lidar,
    magnetometer,
    motion_capture,
    optical_flow,
    range_finder,
)
from samara.sensors.sensor import POSITION, Mounting, RayScene, Sensor, SensorType
from samara.sensors.site import HOME, Site
from samara.world.appearance import CameraScene
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
    camera,
)
"""The registry: the module of every type of sensor, each with a `TYPE`."""
SENSOR_TYPES: dict[str, SensorType] = {module.TYPE.name: module.TYPE for module in MODULES}
EXACT: dict[str, Callable[[Site], Sensor]] = {
    **{name: sensor.exact for name, sensor in SENSOR_TYPES.items() if sensor.exact is not None},
    "position": lambda site: POSITION,
}
"""Sensors without error by name, each built for a site on Earth."""


class PartError(ValueError):
    """An invalid part; the message is one sentence."""


class SensorPart(NamedTuple):
    """A sensor part: its type, its parameters in SI units, and the source of each."""

    name: str
    type_name: str
    parameters: Tree
    sources: tuple[tuple[str, str], ...] = ()

    def sensor(
        self,
        *,
        r_B: Vec3 | Sequence[float] = ZERO,
        q_BS: Quat | Sequence[float] = IDENTITY,
        where: Site = HOME,
        name: str = "",
    ) -> Sensor:
        """Create the sensor at r_B from the centre of mass, rotated by q_BS, for the site `where` on Earth."""
        sensor_type, mounting = SENSOR_TYPES[self.type_name], Mounting(Vec3(*r_B), Quat(*q_BS))
        site = {"where": where} if sensor_type.has_site else {}
        return sensor_type.build(self.parameters, mounting, name=name, **site)


def attach_scene(sensor: Sensor, scene: RayScene, terrain: HeightMap | None = None) -> Sensor:
    """Return the sensor with a scene of solids and terrain; unchanged if its type detects neither.

    Over a height map, a sensor with a single ray measures to the tangent plane below the drone.
    """
    registered_type = SENSOR_TYPES.get(sensor.type_name)
    if (
        registered_type is None
        or registered_type.detects not in ("solids", "terrain")
        or (registered_type.detects == "solids" and not scene.solids)
    ):
        return sensor
    if registered_type.detects == "terrain" and terrain is not None:
        scene = scene._replace(ground=terrain)
    return registered_type.build(sensor.model.part, sensor.model.mounting, name=sensor.name, scene=scene)


def attach_view(sensor: Sensor, view: CameraScene) -> Sensor:
    """Return a camera with its view; any other sensor unchanged."""
    registered_type = SENSOR_TYPES.get(sensor.type_name)
    if registered_type is None or registered_type.detects != "view":
        return sensor
    return registered_type.build(sensor.model.part, sensor.model.mounting, name=sensor.name, scene=view)


def fault_names(sensor: Sensor) -> frozenset[str]:
    """Return the names of the faults that silence a sensor; empty for an unregistered type."""
    return SENSOR_TYPES[sensor.type_name].fault_names if sensor.type_name in SENSOR_TYPES else frozenset()


PARTS = ShippedFiles("part", "samara.sensors.parts", PartError)


def part_names() -> list[str]:
    """Return the names of the parts that come with Samara."""
    return PARTS.names()


def part(name_or_path: str | Path, **overrides: Tree) -> SensorPart:
    """Load a part by its shipped name or from a file, with overrides: `part("bmp388", noise=0.0)`."""
    text, origin, _ = PARTS.find(name_or_path)
    return override_parameters(parse_part(text, origin), **overrides)


def override_parameters(base: SensorPart, **overrides: Tree) -> SensorPart:
    """Return the part with some parameters replaced."""
    return base._replace(parameters=_override_fields(base.parameters, overrides, base.name)) if overrides else base


@lru_cache(maxsize=64)
def parse_part(text: str, origin: str) -> SensorPart:
    """Parse a part from the text of a file; `origin` names the file in errors."""
    file = DataSheet(parse_document(text, origin, PartError), TomlFile(origin, PartError))
    file.schema(SCHEMA, default=SCHEMA)
    type_name, name = file.text("type", choices=SENSOR_TYPES), file.text("name", Path(origin).stem)
    file.text("description", "")
    return SensorPart(name, type_name, _read_record(SENSOR_TYPES[type_name].part, file), tuple(file.file.sources))


def _read_record(record_type: type[Tree], table: DataSheet) -> Tree:
    """Read a named tuple of parameters from a table of `{ value, unit, source }`, nested ones from nested tables."""
    hints, values = get_type_hints(record_type, include_extras=True), {}
    table.refuse_unknown_keys(hints)
    for key, hint in hints.items():
        if key not in table and key in record_type._field_defaults:
            continue
        if isinstance(hint, type):  # a record within the record
            values[key] = _read_record(hint, table.table(key))
            continue
        base, quantity = get_args(hint)[:2]
        if isinstance(quantity, Choices):
            values[key] = _chosen_names(table.take(key, f"a list of {', '.join(quantity.names)}"), quantity)
            continue
        value, unit = table.quantity(key, quantity.unit)
        try:
            values[key] = _parse_quantity(base, value, unit, quantity)
        except InvalidValueError as error:
            raise table.error(key, value, str(error)) from None
    return record_type(**values)


def _parse_quantity(base: Any, value: Tree, unit: str, quantity: Quantity) -> Tree:
    """Convert one, three or four numbers, or pairs of numbers, to SI units; raise InvalidValueError with the expected
    form."""
    number = partial(convert_to_si, unit=unit, quantity=quantity)
    sequence = value if isinstance(value, (list, tuple)) else None
    if base in (Vec3, Quat):
        components = [value] * 3 if sequence is None else sequence
        if len(components) != len(base._fields):
            raise InvalidValueError("a number or three" if base is Vec3 else "four numbers w, x, y, z")
        return base(*map(number, components))
    if get_origin(base) is tuple:
        if sequence is None or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in sequence):
            raise InvalidValueError("a list of pairs of numbers")
        return tuple(tuple(map(number, pair)) for pair in sequence)
    return number(value)


def _chosen_names(value: Tree, choices: Choices) -> tuple[str, ...]:
    """Return the names of a list; raise InvalidValueError with the expected form."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not names or any(name not in choices.names for name in names):
        raise InvalidValueError(f"one or more of {', '.join(choices.names)}")
    return tuple(dict.fromkeys(names))


def _override_fields(record: Tree, overrides: Mapping[str, Tree], label: str) -> Tree:
    hints, values = get_type_hints(type(record), include_extras=True), {}
    for key, value in overrides.items():
        if key not in hints:
            raise PartError(f"{label}: there is no {key!r}; expected one of {', '.join(hints)}")
        if isinstance(hints[key], type):
            if not isinstance(value, Mapping):
                raise PartError(
                    f"{label}.{key} = {quote_value(value)}: expected a table of {', '.join(hints[key]._fields)}"
                )
            values[key] = _override_fields(getattr(record, key), value, f"{label}.{key}")
        else:
            base, quantity = get_args(hints[key])[:2]
            try:
                values[key] = (
                    _chosen_names(value, quantity)
                    if isinstance(quantity, Choices)
                    else _parse_quantity(base, value, quantity.unit, quantity)
                )
            except InvalidValueError as error:
                raise PartError(f"{label}.{key} = {quote_value(value)}: expected {error}") from None
    return record._replace(**values)
