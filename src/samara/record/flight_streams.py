"""The streams of a flight's recording: their fields and units, and buffers for their rows."""

import math
import re
from collections.abc import Sequence
from typing import get_type_hints

import numpy as np

from samara.control.registry import look_ahead_count
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.core.quantity import Quantity
from samara.core.tree import Tree, leaf_names
from samara.estimate.estimator import VARIANCE_UNITS, Fusion, Variances
from samara.physics.multirotor import complete_environment, state_at_rest, state_names
from samara.physics.types import REFERENCE_FIELDS, State, Vehicle
from samara.record.derived_outputs import output_fields, output_units
from samara.record.image_stream import MAX_STEPS, NAN_PIXEL, PixelFormat, Raster
from samara.record.recorder import Stream
from samara.record.streams import RecordedStream, StreamBlock
from samara.scenario.flight_events import OCCURRENCE_FIELDS, Occurrence
from samara.scenario.scenario import Drone, Scenario
from samara.sensors.ray_sensors import Beam, RaySensor
from samara.sensors.sensor import ImageOutput, Sensor


class RowBuffer:
    """Buffer for the rows of a stream of all drones of a group: (rows, fields, drones)."""

    def __init__(self, topics: tuple[str, ...], fields: int, capacity: int, dtype: str = "float64") -> None:
        self.topics = topics
        self.times = np.empty(capacity, dtype=np.int64)
        self.rows = np.empty((capacity, fields, len(topics)), dtype)
        self.count = 0

    def add(self, time_us: int, *parts: np.ndarray) -> None:
        """Append a row, from arrays stacked along the fields."""
        self.extend(np.array([time_us]), *(part[None] for part in parts))

    def extend(self, times_us: np.ndarray, *parts: np.ndarray) -> None:
        """Append rows, from arrays (rows or 1, fields, drones) stacked along the fields."""
        end = self.count + len(times_us)
        while end > len(self.times):
            self.times = np.concatenate([self.times, np.empty_like(self.times)])
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        rows, column = self.rows[self.count : end], 0
        for part in parts:
            rows[:, column : column + part.shape[1]] = part
            column += part.shape[1]
        self.times[self.count : end] = times_us
        self.count = end

    def take_block(self) -> StreamBlock:
        """Return the buffered rows as a block and clear the buffer; later rows go to other memory."""
        times, rows, count = self.times[: self.count], self.rows[: self.count], self.count
        self.count = 0
        if 2 * count < len(self.times):  # copy a small part: a view would retain the whole buffer
            return StreamBlock(self.topics, times.copy(), rows.copy())
        self.times, self.rows = np.empty_like(self.times), np.empty_like(self.rows)
        return StreamBlock(self.topics, times, rows)


ESTIMATE_FIELDS = tuple(leaf_names(State(ZERO, ZERO, IDENTITY, ZERO)))
LOAD_FIELDS = ("payload.mass", "payload.r_B.x", "payload.r_B.y", "payload.r_B.z", "remaining_cells")
CABLE_FIELD = "cable_attached"
MAX_NORMAL_DEVIATE = 9.0  # larger than any normal number drawn from 53 random bits
SENSOR_SCHEMA_PREFIX = "samara.sensor."  # prefix of the schema names of sensors' streams
IMAGE_SCHEMA_PREFIX = "samara.image."  # prefix of those of cameras' images, '/drone0/camera/rgb'
STATUS_FIELDS = ("landed", "crashed")  # 1 or 0, a row at each change
UNITS = {
    "p_W": "m",
    "v_W": "m/s",
    "a_W": "m/s^2",
    "j_W": "m/s^3",
    "q_WB": "1",
    "omega_B": "rad/s",
    "rotor_speed": "rad/s",
}
UNITS |= {
    "s_W": "m/s^4",
    "yaw_acceleration": "rad/s^2",
    "yaw": "rad",
    "yaw_rate": "rad/s",
    "wind_W": "m/s",
    "hub_wind_W": "m/s",
    "air_density": "kg/m^3",
    "ground": "m",
    "payload": "kg",
    "speed": "m/s",
}


def field_unit(field: str) -> str:
    """Return the unit of a recorded field by its name; "1" for an unknown name."""
    if field.startswith("payload.r_B"):
        return "m"
    if field.startswith("external_wrenches"):
        return "N m" if ".tau_B" in field else "N"
    if field.startswith("ground.normal"):
        return "1"
    return UNITS.get(field.partition(".")[0].partition("[")[0], "1")


def parameter_unit(scenario: Scenario, name: str) -> str:
    """Return the unit of a varied parameter of the first drone, such as "mass" or "wind.mean_W.x"; "1" if it has none."""
    path = name.removeprefix("vehicle.")
    root, _, subpath = path.partition(".")
    vehicle = scenario.drones[0].vehicle
    own_units = {"mass": "kg", "inertia_B": "kg m^2", "yaw": "rad", "start_W": "m", "goal_shift": "m"}
    if root in own_units:
        return own_units[root]
    if root == "wind":
        return _wind_unit(scenario.wind, subpath)
    record: Tree = vehicle.rotors if root == "rotors" else None
    if record is None and vehicle.has(root):
        record = vehicle[root]
    if type(record) is tuple and record:  # the records of a list have the same fields
        record, subpath = record[0], re.sub(r"^\d+\.", "", subpath)
    if not hasattr(record, "_fields"):
        return "1"
    units = zip(leaf_names(record), _leaf_units(record, "1"), strict=True)
    return next((unit for leaf, unit in units if f"{leaf}.".startswith(f"{subpath}.")), "1")


def _wind_unit(source: Tree, path: str) -> str:
    """Return the unit that a field of a wind source declares, such as "sigma" or "mean.wind_W.x"; vectors are velocities."""
    for name in path.split("."):
        if name.endswith("_W"):
            return "m/s"
        annotation = get_type_hints(type(source), include_extras=True).get(name)
        for limits in getattr(annotation, "__metadata__", ()):
            return limits.unit or "1"
        source = getattr(source, name, None)
    return "1"


def state_units(vehicle: Vehicle) -> tuple[str, ...]:
    """Return the unit of every component of a vehicle's state, in the order of `state_names`."""
    state = state_at_rest(vehicle)
    units = [field_unit(field) for field in leaf_names(state._replace(effects=()))]
    for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True):
        units += _leaf_units(effect_state, effect.state_unit)
    return tuple(units)


def _leaf_units(tree: object, unit: str) -> list[str]:
    """Return the units that the fields of a named tuple declare; a field that declares none has the unit of its parent."""
    if not isinstance(tree, tuple):
        return [unit]
    hints = get_type_hints(type(tree), include_extras=True) if hasattr(tree, "_fields") else {}
    branch_units = [
        next(
            (quantity.unit for quantity in getattr(annotation, "__metadata__", ()) if isinstance(quantity, Quantity)),
            unit,
        )
        for annotation in (hints[name] for name in getattr(tree, "_fields", ()))
    ] or [unit] * len(tree)
    return [
        leaf
        for branch, branch_unit in zip(tree, branch_units, strict=True)
        for leaf in _leaf_units(branch, branch_unit)
    ]


def load_fields(vehicle: Vehicle) -> tuple[str, ...]:
    """Return the fields about the load that are recorded with the environment, with `cable_attached` for a slung load."""
    return (*LOAD_FIELDS, CABLE_FIELD) if vehicle.has("slung_load") else LOAD_FIELDS


def occurrence_blocks(occurrences: Sequence[Occurrence], drones: Sequence[Drone]) -> list[StreamBlock]:
    """Build the blocks of the streams `occurrence`; drones with occurrences at the same times share a block."""
    occurrences_by_drone: dict[int, list[Occurrence]] = {}
    for occurrence in occurrences:
        occurrences_by_drone.setdefault(occurrence.drone, []).append(occurrence)
    drones_by_times: dict[tuple[int, ...], list[int]] = {}
    for index, drone_occurrences in occurrences_by_drone.items():
        drones_by_times.setdefault(tuple(occurrence.time_us for occurrence in drone_occurrences), []).append(index)
    return [
        StreamBlock(
            tuple(f"/{drones[index].name}/occurrence" for index in drone_indexes),
            np.array(times_us),
            np.array(
                [[occurrence.row for occurrence in occurrences_by_drone[index]] for index in drone_indexes], dtype=float
            ).transpose(1, 2, 0),
        )
        for times_us, drone_indexes in drones_by_times.items()
    ]


def is_reading(table: RecordedStream) -> bool:
    """Whether a table is the stream of a sensor."""
    return table.schema_name.startswith(SENSOR_SCHEMA_PREFIX)


def drone_streams(drone: Drone) -> dict[str, Stream]:
    """Return the streams of a drone's recording, by their short names."""
    commands = [f"motor[{i}]" for i in range(len(drone.vehicle.rotors))] or ["thrust", "tau_B.x", "tau_B.y", "tau_B.z"]
    commands += [f"servo[{k}]" for k in range(len(drone.vehicle.servos))]
    fields = {
        "state": state_names(drone.vehicle),
        "command": tuple(commands),
        "reference": REFERENCE_FIELDS,
        "estimate": ESTIMATE_FIELDS,
        "derived": output_fields(drone.vehicle),
        "status": STATUS_FIELDS,
        "occurrence": OCCURRENCE_FIELDS,
        "environment": (*leaf_names(complete_environment(drone.vehicle)), *load_fields(drone.vehicle)),
    }
    if callable(drone.controller) and drone.autopilot is None:
        fields["command_excess"] = tuple(commands)
    path_length = look_ahead_count(drone.controller)
    if path_length:
        fields["predicted_path"] = tuple(f"p_W[{k}].{axis}" for k in range(path_length) for axis in "xyz")
    streams = {
        name: Stream(
            f"/{drone.name}/{name}",
            stream_fields,
            tuple(field_unit(field) for field in stream_fields),
            _schema_name(name),
        )
        for name, stream_fields in fields.items()
    }
    streams["state"] = streams["state"]._replace(units=state_units(drone.vehicle))
    streams["derived"] = streams["derived"]._replace(units=output_units(fields["derived"]))
    if isinstance(drone.estimator, Fusion) and drone.estimator.has_variances:
        variance_fields = tuple(leaf_names(Variances()))
        units = tuple(VARIANCE_UNITS[field.partition(".")[0]] for field in variance_fields)
        streams["variance"] = Stream(f"/{drone.name}/variance", variance_fields, units, "samara.Variance")
    for sensor in drone.sensors:
        if sensor.name in streams:
            raise ValueError(f"{drone.name} has a sensor called {sensor.name!r}, the name of another stream")
        schema_name = f"{SENSOR_SCHEMA_PREFIX}{sensor.name}"
        raster = sensor_raster(sensor)
        streams[sensor.name] = Stream(f"/{drone.name}/{sensor.name}", sensor.fields, sensor.units, schema_name, raster)
        for image in sensor.images:
            name = f"{sensor.name}/{image.name}"
            schema_name = f"{IMAGE_SCHEMA_PREFIX}{image.name}"
            streams[name] = Stream(f"/{drone.name}/{name}", (), (image.unit,), schema_name, pixel_format(image))
    return streams


def _schema_name(stream: str) -> str:
    """Return the schema name of a stream: 'samara.PredictedPath' for 'predicted_path'."""
    return "samara." + "".join(word.capitalize() for word in stream.split("_"))


def pixel_format(image: ImageOutput) -> PixelFormat:
    """Return the format in which an image is recorded."""
    rows, columns, *channels = image.shape
    return PixelFormat(rows, columns, math.prod(channels), np.dtype(image.dtype).newbyteorder("<").str)


def sensor_raster(sensor: Sensor) -> Raster | None:
    """Return the raster of a camera or lidar; None for other sensors, and if there are too many steps for a pixel."""
    if not isinstance(sensor.model, RaySensor):
        return None
    part = sensor.model.part
    max_steps = part.reading(part.max_range, Beam(Vec3(1.0, 0.0, 0.0)), (MAX_NORMAL_DEVIATE,) * 2) / part.resolution
    rows, columns = part.shape
    raster = Raster(sensor.reading._fields[0], rows, columns, part.resolution, wide=max_steps >= NAN_PIXEL)
    return raster if max_steps < MAX_STEPS else None
