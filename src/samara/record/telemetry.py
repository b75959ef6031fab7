"""Telemetry of one vehicle that the user's code steps, without a simulation, as a `Run` for plots and metrics."""

import json
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from samara.core.algebra import ZERO
from samara.core.tree import flatten
from samara.core.types import Array
from samara.core.version import __version__
from samara.physics.multirotor import complete_environment
from samara.physics.types import CALM, REFERENCE_FIELDS, Command, Environment, State, Vehicle
from samara.plan.trajectory import hover
from samara.record.derived_outputs import output_table
from samara.record.flight_streams import CABLE_FIELD, drone_streams, load_fields
from samara.record.run import DroneRecord, Run
from samara.record.streams import Attachments, RecordedStream
from samara.scenario.scenario import Drone
from samara.scenario.snapshot import BUS_SCHEMA_VERSION
from samara.scenario.timeline import MICROSECONDS

DRONE = "drone"
PositionReference: TypeAlias = ArrayLike | Callable[[float], ArrayLike] | None


class Telemetry:
    """The rows of a flight: at each time [s] the state, and the command and environment held until the next."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self._times_us: list[int] = []
        self._rows: dict[str, list[list[float]]] = {"state": [], "command": [], "environment": []}

    def add(self, time: float, state: State, command: Command, environment: Environment = CALM) -> None:
        """Add a row; one at the same microsecond as the last replaces it, an earlier one raises ValueError."""
        time_us = round(time * MICROSECONDS)
        if self._times_us and time_us < self._times_us[-1]:
            raise ValueError(
                f"t = {time:g} s after {self._times_us[-1] / MICROSECONDS:g} s: expected times that increase"
            )
        if self._times_us and time_us == self._times_us[-1]:
            self._times_us.pop()
            for rows in self._rows.values():
                rows.pop()
        vehicle_environment = complete_environment(self._vehicle, environment)
        if environment.motor_effectiveness:
            vehicle_environment = vehicle_environment._replace(motor_effectiveness=environment.motor_effectiveness)
        if environment.hub_wind_W and vehicle_environment.hub_wind_W:
            vehicle_environment = vehicle_environment._replace(hub_wind_W=environment.hub_wind_W)
        no_load = [1.0 if field in ("remaining_cells", CABLE_FIELD) else 0.0 for field in load_fields(self._vehicle)]
        self._times_us.append(time_us)
        self._rows["state"].append([float(x) for x in flatten(state)])
        self._rows["command"].append([float(x) for x in command])
        self._rows["environment"].append([*map(float, flatten(vehicle_environment)), *no_load])

    def run(self, name: str, controller: str, reference: PositionReference = None) -> Run:
        """Return the flight as a `Run` of one drone, in world axes z-up and body axes forward-left-up.

        `reference` is the desired position [m]: three numbers, one row of three for each recorded time, or a function of
        the time [s]. Without one there are no tracking errors.
        """
        if not self._times_us:
            raise ValueError(f"{name}: nothing was recorded; expected at least one step")
        times_us = np.array(self._times_us, dtype=np.int64)
        streams = drone_streams(Drone(DRONE, self._vehicle, hover(ZERO)))
        rows = {stream: np.array(values, dtype=float) for stream, values in self._rows.items()}
        rows["reference"] = _reference_rows(reference, times_us / MICROSECONDS)
        tables = {
            stream: RecordedStream(
                streams[stream].fields, streams[stream].units, streams[stream].schema_name, times_us, values
            )
            for stream, values in rows.items()
        }
        tables["derived"] = output_table(tables, self._vehicle)
        drone = {"name": DRONE, "vehicle": self._vehicle.name, "controller": controller, "estimator": "truth"}
        metadata = {
            "schema": str(BUS_SCHEMA_VERSION),
            "scenario": name,
            "duration": repr(float(times_us[-1] - times_us[0]) / MICROSECONDS),
            "versions": json.dumps({"samara": __version__}),
            "drones": json.dumps([drone]),
        }
        files = Attachments({f"vehicle/{DRONE}.toml": self._vehicle})
        return Run(name, (DroneRecord(DRONE, self._vehicle, controller, tables),), (), metadata, files)


def _reference_rows(reference: PositionReference, time: Array) -> Array:
    """Return the rows of the stream `reference`: the desired position, at rest; NaN without one."""
    rows = np.full((len(time), len(REFERENCE_FIELDS)), np.nan)
    if reference is None:
        return rows
    desired = [reference(t) for t in time.tolist()] if callable(reference) else reference
    try:
        positions = np.broadcast_to(np.asarray(desired, dtype=float), (len(time), 3))
    except (TypeError, ValueError):
        raise ValueError(
            f"reference has the shape {np.asarray(desired).shape}; expected (3,), ({len(time)}, 3), or a function of the time"
        ) from None
    if not np.isfinite(positions).all():
        raise ValueError("reference has numbers that are not finite; expected a position at every recorded time")
    rows[:] = 0.0
    rows[:, [REFERENCE_FIELDS.index(f"p_W.{axis}") for axis in "xyz"]] = positions
    return rows
