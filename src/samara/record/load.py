"""Load a recording as a run: completely, or a long one in little memory, with the metrics of all rows and as many rows as a
plot shows.

A long recording is read piece by piece. The metrics of each piece are merged with those before, and its rows are thinned: time
is divided into equal spans, and each span retains the rows with the smallest and largest value of any column, of the error and
of the tilt. The extremes of two spans are extremes of one of them, so repeated thinning preserves all peaks.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

import numpy as np

from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.record.metrics.recorded import RecordedMetrics
from samara.record.recording import read_recording
from samara.record.run import Run, Track, run_from
from samara.record.streams import Recording, Table
from samara.vehicles.effects import EffectOption

MOST_ROWS = 20_000  # of a stream: five times as many as a plot shows of a curve
FIRST_SPAN_US = 50_000
WHOLE = frozenset({"event"})  # streams with few rows, all of which matter


def load_run(path: str | Path, *, effects: Sequence[EffectOption] = (), whole: bool = True) -> Run:
    """Load a run from its file.

    Args:
        path: the recording.
        effects: effects from outside the package that its vehicles use.
        whole: load all rows. Otherwise a long recording has as many rows as a plot shows: its metrics are still those of
            all rows, and its tables retain the peaks.
    """
    return run_from(read_recording(path), effects) if whole else load_long_run(path, effects)


def load_flown_run(path: str | Path, vehicles: Mapping[str, Vehicle], *, whole: bool) -> Run:
    """Load a run that this process recorded, with the vehicle objects that flew it, by drone; none is parsed."""
    return run_from(read_recording(path), (), vehicles) if whole else load_long_run(path, vehicles=vehicles)


def load_long_run(
    path: str | Path,
    effects: Sequence[EffectOption] = (),
    most: int = MOST_ROWS,
    vehicles: Mapping[str, Vehicle] | None = None,
) -> Run:
    """Load a run: completely if it is read in one piece, else with at most `most` rows of each stream."""
    reader = _Reading(effects, most, vehicles or {})
    last_piece = read_recording(path, reader.take)
    if not reader.drones:
        return run_from(last_piece, effects, vehicles)
    reader.take(last_piece)
    run = run_from(last_piece, effects, reader.vehicles)
    return replace(run, tracks=tuple(reader.drones[drone_record.name].track for drone_record in run.tracks))


class _Reading:
    """The run after some pieces."""

    def __init__(self, effects: Sequence[EffectOption], max_rows: int, vehicles: Mapping[str, Vehicle]) -> None:
        self._effects, self._most = effects, max_rows
        self._begun: set[str] = set()
        self.vehicles = dict(vehicles)
        self.drones: dict[str, _Drone] = {}

    def take(self, piece: Recording) -> bool:
        """Add the next piece, which begins with the last row of each stream before; False if it holds no flight."""
        if "drones" not in piece.metadata:
            return False
        for drone_record in run_from(piece, self._effects, self.vehicles).tracks:
            self.vehicles[drone_record.name] = drone_record.vehicle
            carried = {name for name in drone_record.tables if f"/{drone_record.name}/{name}" in self._begun}
            if drone_record.name in self.drones:
                self.drones[drone_record.name].take(drone_record, carried)
            else:
                self.drones[drone_record.name] = _Drone(drone_record, self._most)
        self._begun = {topic for topic, table in piece.streams.items() if len(table.rows)}
        return True


class _Drone:
    """One drone's record after some pieces: the retained rows, and the metrics of all rows."""

    def __init__(self, first: Track, max_rows: int) -> None:
        self._most, self._span_us = max_rows, 0
        self.track = self._little(replace(first, merged_metrics=RecordedMetrics(first).after(None)))

    def take(self, piece: Track, carried: AbstractSet[str]) -> None:
        """Add the next piece; the first row of the streams in `carried` is known already."""
        metrics = RecordedMetrics(piece, carried).after(self.track.merged_metrics)
        thinned_tables = thinned(piece, self._span_us) if self._span_us else piece.tables
        tables = dict(self.track.tables)
        for name, table in thinned_tables.items():
            tables[name] = _concatenate_tables(tables[name], _some(table, slice(1, None))) if name in carried else table
        self.track = self._little(replace(piece, tables=tables, merged_metrics=metrics))

    def _little(self, drone_record: Track) -> Track:
        """Thin the record until it has few enough rows, in spans that double each time."""
        end_us = int(drone_record.tables["state"].times_us[-1])
        while _most_rows(drone_record) > self._most and self._span_us <= end_us:
            self._span_us = 2 * self._span_us or FIRST_SPAN_US
            drone_record = replace(drone_record, tables=thinned(drone_record, self._span_us))
        return drone_record


def _most_rows(drone_record: Track) -> int:
    return max(len(table.rows) for name, table in drone_record.tables.items() if name not in WHOLE)


def thinned(drone_record: Track, span_us: int) -> dict[str, Table]:
    """Return the tables with the rows at the significant instants of each span, the same for all streams.

    Every stream retains the row that was held at each of these instants, so that corresponding rows stay together.
    """
    recorded = {name: table for name, table in drone_record.tables.items() if len(table.rows) and name not in WHOLE}
    derived = (
        np.column_stack([drone_record.error, drone_record.tilt])
        if "reference" in recorded
        else drone_record.tilt[:, None]
    )
    curve_tables = (table for table in recorded.values() if table.raster is None)  # pixels are not curves
    significant_times = [_extreme_times(table.times_us, table.rows, span_us) for table in curve_tables]
    significant_times.append(_extreme_times(recorded["state"].times_us, derived, span_us))
    instants = np.unique(np.concatenate(significant_times))
    tables = dict(drone_record.tables)
    for name, table in recorded.items():
        is_retained = np.isin(table.times_us, instants)
        is_retained[np.maximum(np.searchsorted(table.times_us, instants, side="right") - 1, 0)] = True
        tables[name] = _some(table, np.flatnonzero(is_retained))
    return tables


def _extreme_times(times_us: Array, columns: Array, span_us: int) -> Array:
    """Return the first and last time, and the times of the first minimum and maximum of any column in each span."""
    starts = np.flatnonzero(np.diff(times_us // span_us, prepend=-1))
    span = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(times_us)))
    is_significant = np.zeros(len(times_us), dtype=bool)
    is_significant[[0, -1]] = True
    for column in columns.T:
        for extremes in (np.fmin.reduceat(column, starts), np.fmax.reduceat(column, starts)):
            matches = np.flatnonzero(column == extremes[span])
            is_significant[matches[np.diff(span[matches], prepend=-1) > 0]] = True
    return times_us[is_significant]


def _concatenate_tables(earlier: Table, later: Table) -> Table:
    return replace(
        earlier,
        times_us=np.concatenate([earlier.times_us, later.times_us]),
        rows=np.concatenate([earlier.rows, later.rows]),
    )


def _some(table: Table, rows: slice | Array) -> Table:
    """Copy rows of a table: a view would retain all rows."""
    return replace(table, times_us=table.times_us[rows].copy(), rows=table.rows[rows].copy())
