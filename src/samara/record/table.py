"""What is read back of a recording: its streams as tables, its log, and the files inside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.record.format import LogLine
from samara.record.image_stream import Raster
from samara.vehicles.check import VehicleError
from samara.vehicles.writer import vehicle_toml


@dataclass(frozen=True, eq=False)
class Table:
    """A stream as it was recorded: names and units of its fields, times (m,) and rows (m, number of fields).

    Rows of a `raster` are pictures, and are written as such.
    """

    fields: tuple[str, ...]
    units: tuple[str, ...]
    kind: str
    times_us: Array
    rows: Array
    raster: Raster | None = None

    @property
    def time(self) -> Array:
        """t  [s]"""
        return self.times_us / 1e6

    @property
    def fitting_raster(self) -> Raster | None:
        """Its raster, where its rows are still what a sensor measured"""
        return self.raster if self.raster and self.raster.holds(self.rows) else None

    def __getitem__(self, name: str) -> Array:
        """The column of one field, 'p_W.x', or the columns of all that begin so, 'p_W' or 'rotor_speed', side by side."""
        if name in self.fields:
            return self.rows[:, self.fields.index(name)]
        columns = [i for i, field in enumerate(self.fields) if field.startswith((f"{name}.", f"{name}["))]
        if not columns:
            raise KeyError(f"field {name!r}: expected one of {', '.join(self.fields)}")
        return self.rows[:, columns]


@dataclass(frozen=True, eq=False, repr=False)
class Attachments(Mapping[str, bytes]):
    """The files inside a recording. A vehicle becomes a TOML file when that file is first read, once per vehicle.

    A vehicle with effects that are Python code has no file: its entry is absent.
    """

    files: Mapping[str, bytes | Vehicle]
    _texts: dict[int, bytes] = field(default_factory=dict, init=False)  # by the identity of the vehicle

    def __getitem__(self, name: str) -> bytes:
        content = self.files[name]
        if not isinstance(content, Vehicle):
            return content
        if id(content) not in self._texts:
            try:
                self._texts[id(content)] = vehicle_toml(content).encode()
            except VehicleError:
                self._texts[id(content)] = b""
        if text := self._texts[id(content)]:
            return text
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.files if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Attachments, (dict(self),)  # texts: identities are those of this process


class Recording(NamedTuple):
    """What a file holds. `complete` is False, and `problem` one sentence, where it was not closed or is damaged.

    Streams of many drones that are written as one are `in_fleet`: under what topic first, and the drone's number there.
    """

    path: Path
    size: int
    metadata: dict[str, str]
    attachments: dict[str, bytes]
    streams: dict[str, Table]
    logs: tuple[LogLine, ...]
    complete: bool
    problem: str
    in_fleet: Mapping[str, tuple[str, int]] = MappingProxyType({})

    @property
    def duration(self) -> float:
        """From 0 to the last row or line of log  [s]"""
        ends = [int(table.times_us[-1]) for table in self.streams.values() if len(table.times_us)]
        return max([*ends, *(line.time_us for line in self.logs)], default=0) / 1e6
