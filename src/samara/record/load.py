"""A recording as a run: all of it, or a long one in little memory, with the metrics of every row and as many rows as a picture
shows.

A long one is read piece by piece. Of each piece the metrics are merged with those before, and its rows are thinned: time is cut
into equal spans, in each of which the rows stay that hold the least and the largest of any column, of the error and of the
tilt. What is least or largest of two spans is so in one of them: thinned again, peaks stay what they are.
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

MOST_ROWS = 20_000  # of a stream: five times what a picture shows of a curve
FIRST_SPAN_US = 50_000
WHOLE = frozenset({"event"})  # few rows, none of which stands for another


def load_run(path: str | Path, *, effects: Sequence[EffectOption] = (), whole: bool = True) -> Run:
    """A run from its file; with the `effects` from outside the package that its vehicles were flown with

    Where not the `whole` is wanted, a long one has as many rows as a picture shows. Its metrics are still those of every row,
    and peaks stay in its tables.
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
    """The run of a file: all of it where it is read in one piece, else with no more than so many rows of each stream"""
    reading = _Reading(effects, most, vehicles or {})
    rest = read_recording(path, reading.take)
    if not reading.drones:
        return run_from(rest, effects, vehicles)
    reading.take(rest)
    run = run_from(rest, effects, reading.vehicles)
    return replace(run, tracks=tuple(reading.drones[track.name].track for track in run.tracks))


class _Reading:
    """What is known after some pieces."""

    def __init__(self, effects: Sequence[EffectOption], most: int, vehicles: Mapping[str, Vehicle]) -> None:
        self._effects, self._most = effects, most
        self._begun: set[str] = set()
        self.vehicles = dict(vehicles)
        self.drones: dict[str, _Drone] = {}

    def take(self, piece: Recording) -> bool:
        """Add the next piece, which begins with the last row of each stream before; False if it holds no flight."""
        if "drones" not in piece.metadata:
            return False
        for track in run_from(piece, self._effects, self.vehicles).tracks:
            self.vehicles[track.name] = track.vehicle
            again = {name for name in track.tables if f"/{track.name}/{name}" in self._begun}
            if track.name in self.drones:
                self.drones[track.name].take(track, again)
            else:
                self.drones[track.name] = _Drone(track, self._most)
        self._begun = {topic for topic, table in piece.streams.items() if len(table.rows)}
        return True


class _Drone:
    """One drone's track after some pieces: the rows that stay, and the metrics of all."""

    def __init__(self, first: Track, most: int) -> None:
        self._most, self._span_us = most, 0
        self.track = self._little(replace(first, merged_metrics=RecordedMetrics(first).after(None)))

    def take(self, piece: Track, carried: AbstractSet[str]) -> None:
        """The next piece; the first row of streams that are `carried` is here already"""
        metrics = RecordedMetrics(piece, carried).after(self.track.merged_metrics)
        thin = thinned(piece, self._span_us) if self._span_us else piece.tables
        tables = dict(self.track.tables)
        for name, table in thin.items():
            tables[name] = _joined(tables[name], _some(table, slice(1, None))) if name in carried else table
        self.track = self._little(replace(piece, tables=tables, merged_metrics=metrics))

    def _little(self, track: Track) -> Track:
        """The track with few enough rows, in spans as long as that takes"""
        end_us = int(track.tables["state"].times_us[-1])
        while _most_rows(track) > self._most and self._span_us <= end_us:
            self._span_us = 2 * self._span_us or FIRST_SPAN_US
            track = replace(track, tables=thinned(track, self._span_us))
        return track


def _most_rows(track: Track) -> int:
    return max(len(table.rows) for name, table in track.tables.items() if name not in WHOLE)


def thinned(track: Track, span_us: int) -> dict[str, Table]:
    """Its tables with rows at the instants that tell most of each span, the same for all streams

    Every stream has the row that was held at each of these instants, so that rows which belong together stay so.
    """
    recorded = {name: table for name, table in track.tables.items() if len(table.rows) and name not in WHOLE}
    derived = np.column_stack([track.error, track.tilt]) if "reference" in recorded else track.tilt[:, None]
    told = (table for table in recorded.values() if table.raster is None)  # a picture's pixels are no curves
    telling = [_telling(table.times_us, table.rows, span_us) for table in told]
    telling.append(_telling(recorded["state"].times_us, derived, span_us))
    instants = np.unique(np.concatenate(telling))
    found = dict(track.tables)
    for name, table in recorded.items():
        stays = np.isin(table.times_us, instants)
        stays[np.maximum(np.searchsorted(table.times_us, instants, side="right") - 1, 0)] = True
        found[name] = _some(table, np.flatnonzero(stays))
    return found


def _telling(times_us: Array, columns: Array, span_us: int) -> Array:
    """The first and the last time, and those at which any column is first at its least and at its largest in its span"""
    starts = np.flatnonzero(np.diff(times_us // span_us, prepend=-1))
    span = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(times_us)))
    tells = np.zeros(len(times_us), dtype=bool)
    tells[[0, -1]] = True
    for own in columns.T:
        for ends in (np.fmin.reduceat(own, starts), np.fmax.reduceat(own, starts)):
            at = np.flatnonzero(own == ends[span])
            tells[at[np.diff(span[at], prepend=-1) > 0]] = True
    return times_us[tells]


def _joined(before: Table, later: Table) -> Table:
    return replace(
        before,
        times_us=np.concatenate([before.times_us, later.times_us]),
        rows=np.concatenate([before.rows, later.rows]),
    )


def _some(table: Table, rows: slice | Array) -> Table:
    """Some of its rows, as arrays of their own: a view would keep all of them"""
    return replace(table, times_us=table.times_us[rows].copy(), rows=table.rows[rows].copy())
