"""When what is due: a bit for everything that recurs, and the instants of a span of time as rows of a schedule."""

from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from samara.backends.llvm_schedule import ROW
from samara.scenario.timeline import MICROSECONDS, Timeline, plant_steps

Array = np.ndarray[Any, Any]


class Span(NamedTuple):
    """Rows of a schedule (`samara.backends.llvm_schedule.ROW`), and of each its time [µs] and what is due."""

    rows: Array
    times_us: Array
    due: Array

    def at(self, bit: int) -> Array:
        """Where something is due"""
        found: Array = (self.due & bit) != 0
        return found

    @property
    def address(self) -> int:
        """Where the rows are"""
        return int(self.rows.ctypes.data)


class Schedule:
    """The axes of a flight, and whatever else recurs in it: every period and offset has a bit."""

    def __init__(self, timeline: Timeline) -> None:
        self.periods = dict(timeline.periods)
        self.end_us = timeline.end_us
        self._extra = np.array([*timeline.extra_us, timeline.end_us], dtype=np.int64)
        self._bits: dict[tuple[int, int], int] = {}
        self._axes = sorted({period for axis, period in timeline.periods if axis != "physics"})
        self.moving, self.instant = (
            1 << 62,
            1 << 61,
        )  # physics steps lead there; it is more than the end of a short step
        self._alike: tuple[tuple[Any, ...], int, Span] = (
            (),
            0,
            Span(*[np.empty(0)] * 3),
        )  # the last block that may recur
        for period in self._axes:
            self.bit(period)

    def bit(self, period_us: int, offset_us: int = 0) -> int:
        """What is due at offset, offset + period, …"""
        return self._bits.setdefault((period_us, offset_us), 1 << len(self._bits))

    def clock(self, name: str) -> int:
        """The bit of an axis"""
        return self.bit(self.periods[name])

    @cached_property
    def _physics_us(self) -> int:
        return self.periods["physics"]

    def next_us(self, time_us: int) -> int:
        """The first instant after a time"""
        later = [(time_us // period + 1) * period for period in self._axes]
        later += [int(time) for time in self._extra if time > time_us]
        return min(later)

    def span(self, start_us: int, end_us: int, *, again: bool = False) -> Span:
        """The instants after one time up to another; with `again` that at which it starts is the first

        Blocks that follow each other are alike, up to the time: where all recurs in a block, it is found once.
        """
        frame = lcm(self._physics_us, *(period for period, _ in self._bits))
        settled = start_us >= max((offset for _, offset in self._bits), default=0)
        if not settled or ((self._extra >= start_us) & (self._extra <= end_us)).any():
            return self._found(start_us, end_us, again=again)
        key = start_us % frame, end_us - start_us, again, len(self._bits)
        if self._alike[0] != key:
            self._alike = key, start_us, self._found(start_us, end_us, again=again)
        _, begun_us, known = self._alike
        times_us, rows = known.times_us + (start_us - begun_us), known.rows.copy()
        rows[:, ROW.index("time_us")] = times_us
        rows.view(np.float64)[:, ROW.index("time")] = times_us / MICROSECONDS
        return Span(rows, times_us, known.due)

    def _found(self, start_us: int, end_us: int, *, again: bool) -> Span:
        first = start_us if again else start_us + 1
        ticks = [np.arange(-(-first // period) * period, end_us + 1, period) for period in self._axes]
        extra = self._extra[(self._extra >= first) & (self._extra <= end_us)]
        instants = np.unique(np.concatenate([*ticks, extra, [start_us] if again else []]).astype(np.int64))
        before = np.concatenate([[start_us], instants[:-1]])
        steps, rest = np.divmod(instants - before, self._physics_us)
        due = np.full(len(instants), self.instant, dtype=np.int64)
        for (period, offset), bit in self._bits.items():
            due |= bit * ((instants >= offset) & ((instants - offset) % period == 0))
        length = np.full(len(instants), self._physics_us)
        if rest.any() or (before % self._physics_us)[steps > 0].any():
            instants, steps, length, due = self._split(before, instants, due)
        due |= self.moving * (steps > 0)
        rows = np.empty((len(instants), len(ROW)), dtype=np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = instants, steps, due
        in_seconds = rows.view(np.float64)
        in_seconds[:, 3], in_seconds[:, 4] = length / MICROSECONDS, instants / MICROSECONDS
        return Span(rows, instants, due)

    def _split(self, before: Array, instants: Array, due: Array) -> tuple[Array, Array, Array, Array]:
        """Every step ends on the physics axis or at an instant: a row for every length of steps."""
        found = []
        for start, end, what in zip(before.tolist(), instants.tolist(), due.tolist(), strict=True):
            parts = plant_steps(start, end, self._physics_us) or [(self._physics_us, 0)]
            at = start
            for place, (length, steps) in enumerate(parts):
                at += length * steps
                found.append((at, steps, length, what if place == len(parts) - 1 else 0))
        times, steps_, lengths, dues = (np.array(column, dtype=np.int64) for column in zip(*found, strict=True))
        return times, steps_, lengths, dues
