"""The schedule of a flight: a bit for each period and offset, and the instants of a time span as rows."""

from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.llvm.flight_loop import ROW_FIELDS
from samara.core.types import Array
from samara.scenario.timeline import MICROSECONDS, Timeline, plant_steps


class Span(NamedTuple):
    """Rows of a schedule (`samara.compiler.llvm.flight_loop.ROW_FIELDS`), with their times [µs] and the bits that are due."""

    rows: Array
    times_us: Array
    due: Array

    def due_rows(self, bit: int) -> Array:
        """Mark the rows at which a bit is due."""
        due: Array = (self.due & bit) != 0
        return due

    @property
    def address(self) -> int:
        """Address of the rows."""
        return int(self.rows.ctypes.data)


class Schedule:
    """The clocks of a flight, and the stages with other periods: every period and offset has a bit."""

    def __init__(self, timeline: Timeline) -> None:
        self.periods = dict(timeline.periods)
        self.end_us = timeline.end_us
        self._extra = np.array([*timeline.extra_us, timeline.end_us], dtype=np.int64)
        self._bits: dict[tuple[int, int], int] = {}
        self._axes = sorted({period for axis, period in timeline.periods if axis != "physics"})
        self.physics_bit = 1 << 62  # set on rows that physics steps lead to
        self.instant_bit = 1 << 61  # set on instants, but not on the ends of shortened steps
        self._cached_span: tuple[tuple[Any, ...], int, Span] = ((), 0, Span(*[np.empty(0)] * 3))  # key, start, span
        for period in self._axes:
            self.bit(period)

    def bit(self, period_us: int, offset_us: int = 0) -> int:
        """Return the bit that is due at offset, offset + period, …"""
        return self._bits.setdefault((period_us, offset_us), 1 << len(self._bits))

    def clock(self, name: str) -> int:
        """Return the bit of a clock."""
        return self.bit(self.periods[name])

    @cached_property
    def _physics_us(self) -> int:
        return self.periods["physics"]

    def next_us(self, time_us: int) -> int:
        """Return the first instant after a time."""
        candidates = [(time_us // period + 1) * period for period in self._axes]
        candidates += [int(time) for time in self._extra if time > time_us]
        return min(candidates)

    def span(self, start_us: int, end_us: int, *, include_start: bool = False) -> Span:
        """Return the instants after `start_us` up to `end_us`; with `include_start`, `start_us` is the first.

        Consecutive blocks differ only in time if everything due in them is periodic: the last span is cached.
        """
        frame = lcm(self._physics_us, *(period for period, _ in self._bits))
        is_periodic = start_us >= max((offset for _, offset in self._bits), default=0)
        if not is_periodic or ((self._extra >= start_us) & (self._extra <= end_us)).any():
            return self._build_span(start_us, end_us, include_start=include_start)
        key = start_us % frame, end_us - start_us, include_start, len(self._bits)
        if self._cached_span[0] != key:
            self._cached_span = key, start_us, self._build_span(start_us, end_us, include_start=include_start)
        _, cached_start_us, cached = self._cached_span
        times_us, rows = cached.times_us + (start_us - cached_start_us), cached.rows.copy()
        rows[:, ROW_FIELDS.index("time_us")] = times_us
        rows.view(np.float64)[:, ROW_FIELDS.index("time")] = times_us / MICROSECONDS
        return Span(rows, times_us, cached.due)

    def _build_span(self, start_us: int, end_us: int, *, include_start: bool) -> Span:
        first = start_us if include_start else start_us + 1
        ticks = [np.arange(-(-first // period) * period, end_us + 1, period) for period in self._axes]
        extra = self._extra[(self._extra >= first) & (self._extra <= end_us)]
        instants = np.unique(np.concatenate([*ticks, extra, [start_us] if include_start else []]).astype(np.int64))
        previous_us = np.concatenate([[start_us], instants[:-1]])
        steps, remainder = np.divmod(instants - previous_us, self._physics_us)
        due = np.full(len(instants), self.instant_bit, dtype=np.int64)
        for (period, offset), bit in self._bits.items():
            due |= bit * ((instants >= offset) & ((instants - offset) % period == 0))
        length = np.full(len(instants), self._physics_us)
        if remainder.any() or (previous_us % self._physics_us)[steps > 0].any():
            instants, steps, length, due = self._split(previous_us, instants, due)
        due |= self.physics_bit * (steps > 0)
        rows = np.empty((len(instants), len(ROW_FIELDS)), dtype=np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = instants, steps, due
        in_seconds = rows.view(np.float64)
        in_seconds[:, 3], in_seconds[:, 4] = length / MICROSECONDS, instants / MICROSECONDS
        return Span(rows, instants, due)

    def _split(self, previous_us: Array, instants: Array, due: Array) -> tuple[Array, Array, Array, Array]:
        """Split intervals so that every step ends on the physics clock or at an instant: one row per step length."""
        rows = []
        for start, end, due_bits in zip(previous_us.tolist(), instants.tolist(), due.tolist(), strict=True):
            parts = plant_steps(start, end, self._physics_us) or [(self._physics_us, 0)]
            time_us = start
            for index, (length, steps) in enumerate(parts):
                time_us += length * steps
                rows.append((time_us, steps, length, due_bits if index == len(parts) - 1 else 0))
        times, steps_, lengths, dues = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        return times, steps_, lengths, dues
