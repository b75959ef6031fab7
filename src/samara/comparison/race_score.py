"""Score races from recorded paths, which are straight between recorded positions.

A gate counts if it is the next one and the path passes forwards through its opening with clearance for the drone. Another
gate, or the next one backwards, does not count. A collision with a frame or a pole, or leaving the hall, ends the race.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.world.gates import Course, collides_with_frame, collides_with_pole, is_clear, is_outside, plane_crossing
from samara.world.track import Track

NEVER = np.inf


class RaceOutcome(StrEnum):
    """How a race ended."""

    FINISHED = "finished"
    FRAME = "struck a gate"
    POLE = "struck a pole"
    LEFT = "left the hall"
    CRASHED = "crashed"
    LATE = "not through in time"


class RaceScore(NamedTuple):
    """For n flights: ending and its time [s], the count of passed gates, and the time of each gate, (gates, n), else ∞."""

    ending: tuple[RaceOutcome, ...]
    time: Array
    gate_count: Array
    gate_times: Array

    @property
    def is_finished(self) -> Array:
        return np.array([ending is RaceOutcome.FINISHED for ending in self.ending])

    @property
    def success_rate(self) -> float:
        """Fraction of flights that finished."""
        return float(self.is_finished.mean())

    @property
    def mean_time(self) -> float:
        """Mean time of the flights that finished [s]; NaN if none did."""
        return float(self.time[self.is_finished].mean()) if self.is_finished.any() else float("nan")


def score(
    time: Array, p_W: Vec3, course: Course, track: Track, drone_radius: float, crashed: Array | None = None
) -> RaceScore:
    """Score paths of shape (times, n), or one path (times,); the first event that ends a flight is its outcome."""
    path = Vec3(*(np.asarray(component, dtype=float).reshape(len(time), -1) for component in p_W))
    start, end = Vec3(*(component[:-1] for component in path)), Vec3(*(component[1:] for component in path))
    flight_count, intervals = path.x.shape[1], np.diff(time)[:, None]

    def first(occurs: Array, fraction: Array | float = 1.0) -> Array:
        """Return the time [s] at which `occurs` is first true in each flight, at `fraction` of that interval; ∞ if
        never."""
        event_times = np.where(occurs, time[:-1, None] + fraction * intervals, NEVER)
        return event_times.min(axis=0, initial=NEVER)

    crossings = [plane_crossing(start, end, gate) for gate in course.gates]
    frames = [
        first(collides_with_frame(gate_crossing, track.sizes, drone_radius), gate_crossing.fraction)
        for gate_crossing in crossings
    ]
    poles = [first(collides_with_pole(start, end, pole, track.pole_radius + drone_radius)) for pole in course.poles]
    end_times = {
        RaceOutcome.FRAME: np.min([np.full(flight_count, NEVER), *frames], axis=0),
        RaceOutcome.POLE: np.min([np.full(flight_count, NEVER), *poles], axis=0),
        RaceOutcome.LEFT: first(is_outside(end, track.bounds_min_W, track.bounds_max_W)),
    }
    gates, gate_time = [], np.zeros(flight_count)
    for gate_crossing in crossings:
        is_passed = gate_crossing.forwards & is_clear(gate_crossing, track.sizes, drone_radius)
        event_times = np.where(is_passed, time[:-1, None] + gate_crossing.fraction * intervals, NEVER)
        gate_time = np.where(event_times > gate_time, event_times, NEVER).min(axis=0, initial=NEVER)
        gates.append(gate_time)
    end_time = np.min(list(end_times.values()), axis=0)
    end_time = np.minimum(end_time, track.time_limit)
    passed = np.array([np.where(gate_times <= end_time, gate_times, NEVER) for gate_times in gates])
    count = np.isfinite(passed).sum(axis=0)
    ending, finish_time = [], np.where(count == len(gates), gates[-1], end_time)
    for k in range(flight_count):
        if count[k] == len(gates):
            ending.append(RaceOutcome.FINISHED)
            continue
        _, first_ending = min((float(event_times[k]), ending_type) for ending_type, event_times in end_times.items())
        fallback = RaceOutcome.CRASHED if crashed is not None and crashed[k] else RaceOutcome.LATE
        ending.append(first_ending if end_times[first_ending][k] <= end_time[k] else fallback)
    return RaceScore(tuple(ending), finish_time, count, passed)
