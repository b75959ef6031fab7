"""The arrays of one drone's flight, read from its streams, in samara's frames (ENU, FLU) or in NED and FRD."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.core.algebra import Quat, Vec3, euler_from_quat
from samara.core.types import Array
from samara.physics.frames import attitude_ned_frd_from_enu_flu, frd_from_flu, ned_from_enu, yaw_ned_from_enu
from samara.physics.quantities import speed, tilt
from samara.record.metrics.recorded import distance_between
from samara.record.streams import RecordedStream

BATTERY_CHARGE = re.compile(r"battery(\[\d+\])?\.charge")  # fields of the stream `state`
VARIANCE_SCHEMA = "samara.Variance"  # its vectors are squares: they change axes but no sign


class FlightArrays:
    """Arrays of one drone's flight. Time comes first; world axes are east, north, up, body axes forward, left, up.

    `tables` holds every recorded stream with names and units.
    """

    tables: Mapping[str, RecordedStream]

    @property
    def is_simulated(self) -> bool:
        """Whether the simulated environment is known; it is not for a real flight, read from a log."""
        return "environment" in self.tables

    @property
    def time(self) -> Array:
        """Time of every logged state, (m,)  [s]."""
        return self.tables["state"].time

    @property
    def position(self) -> Array:
        """p_W, position of the centre of mass in world axes, (m, 3)  [m]."""
        return self.tables["state"]["p_W"]

    @property
    def velocity(self) -> Array:
        """v_W, velocity in world axes, (m, 3)  [m/s]."""
        return self.tables["state"]["v_W"]

    @property
    def attitude(self) -> Array:
        """q_WB, rotation from body to world axes as w, x, y, z, (m, 4)."""
        return self.tables["state"]["q_WB"]

    @cached_property
    def euler(self) -> Array:
        """Roll, pitch and yaw (Z-Y-X) of the attitude, (m, 3)  [rad]."""
        return np.stack(euler_from_quat(Quat(*self.attitude.T)), axis=1)

    @property
    def angular_velocity(self) -> Array:
        """omega_B, angular velocity in body axes, (m, 3)  [rad/s]."""
        return self.tables["state"]["omega_B"]

    @property
    def rotor_speed(self) -> Array:
        """Ω of every rotor, (m, rotors)  [rad/s]."""
        table = self.tables["state"]
        return table["rotor_speed"] if "rotor_speed[0]" in table.fields else np.empty((len(self.time), 0))

    @property
    def command_time(self) -> Array:
        """Time of every command, (k,)  [s]."""
        return self.tables["command"].time

    @property
    def command(self) -> Array:
        """Commands at `command_time`, (k, n), in the unit of the vehicle's actuation."""
        return self.tables["command"].rows

    @property
    def reference_position(self) -> Array:
        """p_W of the reference, in world axes, (m, 3)  [m]."""
        return self.tables["reference"]["p_W"]

    @property
    def wind(self) -> Array:
        """Wind velocity at every logged time, held since its last change, in world axes, (m, 3)  [m/s]."""
        return self.environment("wind_W")

    @cached_property
    def tilt(self) -> Array:
        """Angle between the vertical axes of body and world, (m,)  [rad]."""
        return np.asarray(tilt(Quat(*self.attitude.T)))

    @cached_property
    def speed(self) -> Array:
        """|v|, (m,)  [m/s]."""
        return np.asarray(speed(Vec3(*self.velocity.T)))

    @cached_property
    def error(self) -> Array:
        """|p − p_reference|, (m,)  [m]."""
        return distance_between(self.position, self.reference_position)

    @property
    def charge(self) -> Array | None:
        """State of charge of the first battery, from 1 to 0, (m,); None without a battery model that discharges."""
        return self.charges[0] if self.charges else None

    @property
    def charges(self) -> list[Array]:
        """State of charge of each battery, from 1 to 0, (m,) each; empty without a battery model that discharges."""
        table = self.tables["state"]
        return [table[name] for name in table.fields if BATTERY_CHARGE.fullmatch(name)]

    def environment(self, field: str) -> Array:
        """Return a field of the stream `environment` at every logged time, held since its last change, (m, …)."""
        table = self.tables["environment"]
        rows = np.searchsorted(table.times_us, self.tables["state"].times_us, side="right") - 1
        return table[field][rows]

    def status(self, field: str) -> Array:
        """Return the values of "landed" or "crashed" at their changes, as booleans."""
        table = self.tables.get("status")
        return table[field] > 0.5 if table is not None else np.zeros(0, dtype=bool)

    @property
    def units(self) -> dict[str, str]:
        """The unit of every recorded field, by stream and field: 'state.p_W.x': 'm'."""
        return {
            f"{stream}.{field}": unit
            for stream, table in self.tables.items()
            for field, unit in zip(table.fields, table.units, strict=True)
        }

    def to_pandas(self, stream: str = "state") -> Any:
        """Return a recorded stream as a pandas DataFrame with the time [s] as its index; units in `attrs`."""
        from samara.record.export import data_frame

        return data_frame(self.stream(stream))

    def stream(self, name: str) -> RecordedStream:
        """Return a recorded stream by its name, such as "state" or "command"."""
        if name not in self.tables:
            raise KeyError(f"no stream {name!r}; there are {', '.join(self.tables)}")
        return self.tables[name]

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that raised AttributeError: raise it again
                return object.__getattribute__(self, name)
            nearest = get_close_matches(
                name, [public for public in dir(self) if not public.startswith("_")], cutoff=0.5
            )
            hint = f"; nearest: {', '.join(nearest)}" if nearest and not name.startswith("_") else ""
            raise AttributeError(f"a {type(self).__name__} has no {name!r}{hint}")


@dataclass(frozen=True, eq=False, repr=False)
class NedFlight(FlightArrays):
    """Arrays of one drone's flight in other frames: world axes are north, east, down, body axes forward, right, down.

    Yaw is clockwise from north. Recorded fields whose name ends in `_W` or `_B`, `q_WB` and the yaw of the reference are
    converted; others are as they were recorded.
    """

    name: str
    tables: Mapping[str, RecordedStream]

    def __repr__(self) -> str:
        return f"NedFlight {self.name}: {len(self.time)} states in NED and FRD, {self.time[-1]:.1f} s"


def stream_in_ned(stream: RecordedStream) -> RecordedStream:
    """Convert a stream from ENU and FLU to NED and FRD: `ned_from_enu` of `…_W`, `frd_from_flu` of `…_B`, `q_WB`, yaw."""
    rows = stream.rows.copy()
    for k, field in enumerate(stream.fields):
        vector, _, axis = field.rpartition(".")
        xyz = slice(k, k + 3)
        if axis == "w" and vector.endswith("q_WB"):
            quaternion = attitude_ned_frd_from_enu_flu(Quat(*stream.rows[:, k : k + 4].T))
            rows[:, k : k + 4] = np.stack(quaternion, axis=1)
        elif axis == "x" and vector.endswith("_W"):
            rows[:, xyz] = np.stack(ned_from_enu(Vec3(*stream.rows[:, xyz].T)), axis=1)
        elif axis == "x" and vector.endswith("_B"):
            rows[:, xyz] = np.stack(frd_from_flu(Vec3(*stream.rows[:, xyz].T)), axis=1)
        elif field == "yaw":
            rows[:, k] = yaw_ned_from_enu(stream.rows[:, k])
        elif field in ("yaw_rate", "yaw_acceleration"):
            rows[:, k] = -stream.rows[:, k]
    return replace(stream, rows=np.abs(rows) if stream.schema_name == VARIANCE_SCHEMA else rows)
