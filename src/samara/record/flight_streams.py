"""The streams that a flight is recorded in: their fields and units, and the rows of the last second."""

from collections.abc import Sequence
from typing import get_type_hints

import numpy as np

from samara.control.registry import instants_ahead
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.core.quantity import Quantity
from samara.core.tree import leaf_names
from samara.estimate.estimator import VARIANCE_UNITS, Fusion, Variances
from samara.physics.multirotor import at_rest, environment_of, state_names
from samara.physics.types import REFERENCE_FIELDS, State, Vehicle
from samara.record.derived_outputs import output_fields, output_units
from samara.record.image_stream import MOST_STEPS, NOT_A_NUMBER, Raster
from samara.record.recorder import Stream
from samara.record.streams import Block, Table
from samara.scenario.flight_events import EVENT_FIELDS, Occurrence
from samara.scenario.scenario import Drone
from samara.sensors.ray_sensors import Beam, Eye
from samara.sensors.sensor import Sensor


class Rows:
    """Rows of a stream for all drones of a group, until they are handed on: (rows, fields, drones)."""

    def __init__(self, topics: tuple[str, ...], fields: int, capacity: int) -> None:
        self.topics = topics
        self.times = np.empty(capacity, dtype=np.int64)
        self.rows = np.empty((capacity, fields, len(topics)))
        self.count = 0

    def add(self, time_us: int, *parts: np.ndarray) -> None:
        """One more row, from arrays stacked below each other"""
        self.extend(np.array([time_us]), *(part[None] for part in parts))

    def extend(self, times_us: np.ndarray, *parts: np.ndarray) -> None:
        """Append rows, from arrays (rows or 1, fields, drones) stacked along the fields"""
        after = self.count + len(times_us)
        while after > len(self.times):
            self.times = np.concatenate([self.times, np.empty_like(self.times)])
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        rows, at = self.rows[self.count : after], 0
        for part in parts:
            rows[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        self.times[self.count : after] = times_us
        self.count = after

    def handed_on(self) -> Block:
        """What is there; from now on rows are written elsewhere"""
        times, rows, count = self.times[: self.count], self.rows[: self.count], self.count
        self.count = 0
        if 2 * count < len(self.times):  # few of many: what is handed on must not keep all the memory
            return Block(self.topics, times.copy(), rows.copy())
        self.times, self.rows = np.empty_like(self.times), np.empty_like(self.rows)
        return Block(self.topics, times, rows)


ESTIMATE_FIELDS = tuple(leaf_names(State(ZERO, ZERO, IDENTITY, ZERO)))
LOAD_FIELDS = ("payload.mass", "payload.r_B.x", "payload.r_B.y", "payload.r_B.z", "cells_left")
CABLE_FIELD = "cable_holds"
LARGEST_NORMAL = 9.0  # no draw of 53 bits is further out
SENSOR_KIND = "samara.sensor."  # what the kinds of sensors' streams begin with
STATUS_FIELDS = ("landed", "crashed")  # 1 or 0, a row whenever one changes
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


def unit_of(field: str) -> str:
    """The unit of a recorded field, where its name tells"""
    if field.startswith("payload.r_B"):
        return "m"
    if field.startswith("pushes"):
        return "N m" if ".tau_B" in field else "N"
    if field.startswith("ground.normal"):
        return "1"
    return UNITS.get(field.partition(".")[0].partition("[")[0], "1")


def state_units(vehicle: Vehicle) -> tuple[str, ...]:
    """The unit of every number of a vehicle's state, in the order of `state_names`"""
    resting = at_rest(vehicle)
    units = [unit_of(field) for field in leaf_names(resting._replace(effects=()))]
    for effect, own in zip(vehicle.structure.effects, resting.effects, strict=True):
        units += _leaf_units(own, effect.state_unit)
    return tuple(units)


def _leaf_units(tree: object, unit: str) -> list[str]:
    """Units as the fields of a named tuple declare them; below one that declares none, that of what it is part of."""
    if not isinstance(tree, tuple):
        return [unit]
    hints = get_type_hints(type(tree), include_extras=True) if hasattr(tree, "_fields") else {}
    declared = [
        next((own.unit for own in getattr(hint, "__metadata__", ()) if isinstance(own, Quantity)), unit)
        for hint in (hints[name] for name in getattr(tree, "_fields", ()))
    ] or [unit] * len(tree)
    return [leaf for branch, own in zip(tree, declared, strict=True) for leaf in _leaf_units(branch, own)]


def load_fields(vehicle: Vehicle) -> tuple[str, ...]:
    """What is recorded of a vehicle's load with the environment: where it has a cable, whether that holds"""
    return (*LOAD_FIELDS, CABLE_FIELD) if vehicle.has("slung_load") else LOAD_FIELDS


def event_blocks(facts: Sequence[Occurrence], drones: Sequence[Drone]) -> list[Block]:
    """The rows of the streams `event` of those drones that something happened to, together where it did at the same times"""
    of_drone: dict[int, list[Occurrence]] = {}
    for own in facts:
        of_drone.setdefault(own.drone, []).append(own)
    at: dict[tuple[int, ...], list[int]] = {}
    for index, found in of_drone.items():
        at.setdefault(tuple(own.time_us for own in found), []).append(index)
    return [
        Block(
            tuple(f"/{drones[index].name}/event" for index in alike),
            np.array(times_us),
            np.array([[own.row for own in of_drone[index]] for index in alike], dtype=float).transpose(1, 2, 0),
        )
        for times_us, alike in at.items()
    ]


def is_reading(table: Table) -> bool:
    """Whether a stream is a sensor's"""
    return table.kind.startswith(SENSOR_KIND)


def streams_of(drone: Drone) -> dict[str, Stream]:
    """The streams a drone's flight is recorded in, by their short names"""
    commands = [f"motor[{i}]" for i in range(len(drone.vehicle.rotors))] or ["thrust", "tau_B.x", "tau_B.y", "tau_B.z"]
    commands += [f"servo[{k}]" for k in range(len(drone.vehicle.servos))]
    fields = {
        "state": state_names(drone.vehicle),
        "command": tuple(commands),
        "reference": REFERENCE_FIELDS,
        "estimate": ESTIMATE_FIELDS,
        "outputs": output_fields(drone.vehicle),
        "status": STATUS_FIELDS,
        "event": EVENT_FIELDS,
        "environment": (*leaf_names(environment_of(drone.vehicle)), *load_fields(drone.vehicle)),
    }
    if callable(drone.controller) and drone.autopilot is None:
        fields["excess"] = tuple(commands)
    planned = instants_ahead(drone.controller)
    if planned:
        fields["plan"] = tuple(f"p_W[{k}].{axis}" for k in range(planned) for axis in "xyz")
    streams = {
        name: Stream(
            f"/{drone.name}/{name}", own, tuple(unit_of(field) for field in own), f"samara.{name.capitalize()}"
        )
        for name, own in fields.items()
    }
    streams["state"] = streams["state"]._replace(units=state_units(drone.vehicle))
    streams["outputs"] = streams["outputs"]._replace(units=output_units(fields["outputs"]))
    if isinstance(drone.estimator, Fusion) and drone.estimator.knows_variances:
        own = tuple(leaf_names(Variances()))
        units = tuple(VARIANCE_UNITS[field.partition(".")[0]] for field in own)
        streams["covariance"] = Stream(f"/{drone.name}/covariance", own, units, "samara.Covariance")
    for sensor in drone.sensors:
        if sensor.name in streams:
            raise ValueError(f"{drone.name} has a sensor called {sensor.name!r}, the name of another stream")
        kind = f"{SENSOR_KIND}{sensor.name}"
        raster = raster_of(sensor)
        streams[sensor.name] = Stream(f"/{drone.name}/{sensor.name}", sensor.fields, sensor.units, kind, raster)
    return streams


def raster_of(sensor: Sensor) -> Raster | None:
    """How the pictures of a camera or a lidar are written; None of other sensors, and where steps are too many to be told"""
    if not isinstance(sensor.about, Eye):
        return None
    part = sensor.about.part
    steps = part.told(part.farthest, Beam(Vec3(1.0, 0.0, 0.0)), (LARGEST_NORMAL,) * 2) / part.resolution
    rows, columns = part.shape
    raster = Raster(sensor.reading._fields[0], rows, columns, part.resolution, wide=steps >= NOT_A_NUMBER)
    return raster if steps < MOST_STEPS else None
