"""Load a recording as a run: completely, or a long one in little memory, with the metrics of all rows and as many rows as a
plot shows.

A long recording is read piece by piece. The metrics of each piece are merged with those before, and its rows are thinned: time
is divided into equal spans, and each span retains the rows with the smallest and largest value of any column, of the error and
of the tilt. The extremes of two joined spans are extremes of one of the two, so repeated thinning preserves all peaks.
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
from samara.record.run import DroneRecord, Run, run_from_recording
from samara.record.streams import RecordedStream, Recording
from samara.vehicles.effects import EffectOption

MAX_ROWS = 20_000  # rows of a stream: five times the points that a plot shows of a curve
FIRST_SPAN_US = 50_000
UNTHINNED_STREAMS = frozenset({"occurrence"})  # streams with few rows, all of which matter


def load_run(path: str | Path, *, effects: Sequence[EffectOption] = (), all_rows: bool = True) -> Run:
    """Load a run from its file.

    Args:
        path: the recording.
        effects: effects from outside the package that its vehicles use.
        all_rows: load all rows. Otherwise a long recording has as many rows as a plot shows: its metrics are still those of
            all rows, and its tables retain the peaks.
    """
    return run_from_recording(read_recording(path), effects) if all_rows else load_long_run(path, effects)


def load_own_run(path: str | Path, vehicles: Mapping[str, Vehicle], *, all_rows: bool) -> Run:
    """Load a run that this process recorded, with the vehicle objects that flew it, by drone; none is parsed."""
    return (
        run_from_recording(read_recording(path), (), vehicles) if all_rows else load_long_run(path, vehicles=vehicles)
    )


def load_long_run(
    path: str | Path,
    effects: Sequence[EffectOption] = (),
    max_rows: int = MAX_ROWS,
    vehicles: Mapping[str, Vehicle] | None = None,
) -> Run:
    """Load a run: completely if it is read in one piece, else with at most `max_rows` rows of each stream."""
    reader = _LongRunReader(effects, max_rows, vehicles or {})
    last_piece = read_recording(path, reader.add_piece)
    if not reader.drones:
        return run_from_recording(last_piece, effects, vehicles)
    reader.add_piece(last_piece)
    run = run_from_recording(last_piece, effects, reader.vehicles)
    return replace(
        run, drone_records=tuple(reader.drones[drone_record.name].drone_record for drone_record in run.drone_records)
    )


class _LongRunReader:
    """The run after some pieces."""

    def __init__(self, effects: Sequence[EffectOption], max_rows: int, vehicles: Mapping[str, Vehicle]) -> None:
        self._effects, self._max_rows = effects, max_rows
        self._started_topics: set[str] = set()
        self.vehicles = dict(vehicles)
        self.drones: dict[str, _ThinnedRecord] = {}

    def add_piece(self, piece: Recording) -> bool:
        """Add the next piece, which begins with the last row of each stream before; False if it holds no flight."""
        if "drones" not in piece.metadata:
            return False
        for drone_record in run_from_recording(piece, self._effects, self.vehicles).drone_records:
            self.vehicles[drone_record.name] = drone_record.vehicle
            carried = {name for name in drone_record.tables if f"/{drone_record.name}/{name}" in self._started_topics}
            if drone_record.name in self.drones:
                self.drones[drone_record.name].add_piece(drone_record, carried)
            else:
                self.drones[drone_record.name] = _ThinnedRecord(drone_record, self._max_rows)
        self._started_topics = {topic for topic, table in piece.streams.items() if len(table.rows)}
        return True


class _ThinnedRecord:
    """One drone's record after some pieces: the retained rows, and the metrics of all rows."""

    def __init__(self, first: DroneRecord, max_rows: int) -> None:
        self._max_rows, self._span_us = max_rows, 0
        self.drone_record = self._limit_rows(replace(first, merged_metrics=RecordedMetrics(first).merge_previous(None)))

    def add_piece(self, piece: DroneRecord, carried: AbstractSet[str]) -> None:
        """Add the next piece; the first row of the streams in `carried` is known already."""
        metrics = RecordedMetrics(piece, carried).merge_previous(self.drone_record.merged_metrics)
        thinned_tables = thin_tables(piece, self._span_us) if self._span_us else piece.tables
        tables = dict(self.drone_record.tables)
        for name, table in thinned_tables.items():
            tables[name] = (
                _concatenate_tables(tables[name], _copy_rows(table, slice(1, None))) if name in carried else table
            )
        self.drone_record = self._limit_rows(replace(piece, tables=tables, merged_metrics=metrics))

    def _limit_rows(self, drone_record: DroneRecord) -> DroneRecord:
        """Thin the record until it has few enough rows, in spans that double each time."""
        end_us = int(drone_record.tables["state"].times_us[-1])
        while _max_row_count(drone_record) > self._max_rows and self._span_us <= end_us:
            self._span_us = 2 * self._span_us or FIRST_SPAN_US
            drone_record = replace(drone_record, tables=thin_tables(drone_record, self._span_us))
        return drone_record


def _max_row_count(drone_record: DroneRecord) -> int:
    return max(len(table.rows) for name, table in drone_record.tables.items() if name not in UNTHINNED_STREAMS)


def thin_tables(drone_record: DroneRecord, span_us: int) -> dict[str, RecordedStream]:
    """Return the tables with the rows at the significant instants of each span, the same for all streams.

    Every stream retains the row that was held at each of these instants, so that corresponding rows stay together.
    """
    recorded = {
        name: table for name, table in drone_record.tables.items() if len(table.rows) and name not in UNTHINNED_STREAMS
    }
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
        tables[name] = _copy_rows(table, np.flatnonzero(is_retained))
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


def _concatenate_tables(earlier: RecordedStream, later: RecordedStream) -> RecordedStream:
    return replace(
        earlier,
        times_us=np.concatenate([earlier.times_us, later.times_us]),
        rows=np.concatenate([earlier.rows, later.rows]),
    )


def _copy_rows(table: RecordedStream, rows: slice | Array) -> RecordedStream:
    """Copy rows of a table: a view would retain all rows."""
    return replace(table, times_us=table.times_us[rows].copy(), rows=table.rows[rows].copy())
