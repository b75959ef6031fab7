"""Score races from recorded paths, which are straight between recorded positions.

A gate counts if it is the next one and the path passes forwards through its opening with clearance for the drone. Another
gate, or the next one backwards, does not count. Collision with a frame or a pole and leaving the hall end the race.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.world.gates import Course, crossing, is_clear, is_outside, strikes_frame, strikes_pole
from samara.world.track import Track

NEVER = np.inf


class Ending(StrEnum):
    """How a race ended."""

    FINISHED = "finished"
    FRAME = "struck a gate"
    POLE = "struck a pole"
    LEFT = "left the hall"
    CRASHED = "crashed"
    LATE = "not through in time"


class Score(NamedTuple):
    """For n flights: ending and its time [s], the count of passed gates, and the time of each gate, (gates, n), else ∞."""

    ending: tuple[Ending, ...]
    time: Array
    passed: Array
    gates: Array

    @property
    def finished(self) -> Array:
        return np.array([ending is Ending.FINISHED for ending in self.ending])

    @property
    def success(self) -> float:
        """Fraction of flights that finished."""
        return float(self.finished.mean())

    @property
    def mean_time(self) -> float:
        """Mean time of the flights that finished [s]; NaN if none did."""
        return float(self.time[self.finished].mean()) if self.finished.any() else float("nan")


def score(time: Array, p_W: Vec3, course: Course, track: Track, reach: float, crashed: Array | None = None) -> Score:
    """Score paths of shape (times, n), or one path (times,); the first event of a flight that ends it counts."""
    path = Vec3(*(np.asarray(component, dtype=float).reshape(len(time), -1) for component in p_W))
    start, end = Vec3(*(component[:-1] for component in path)), Vec3(*(component[1:] for component in path))
    flight_count, intervals = path.x.shape[1], np.diff(time)[:, None]

    def first(occurs: Array, fraction: Array | float = 1.0) -> Array:
        """Time of the first occurrence [s]."""
        event_times = np.where(occurs, time[:-1, None] + fraction * intervals, NEVER)
        return event_times.min(axis=0, initial=NEVER)

    crossings = [crossing(start, end, gate) for gate in course.gates]
    frames = [
        first(strikes_frame(gate_crossing, track.sizes, reach), gate_crossing.share) for gate_crossing in crossings
    ]
    poles = [first(strikes_pole(start, end, pole, track.pole_radius + reach)) for pole in course.poles]
    end_times = {
        Ending.FRAME: np.min([np.full(flight_count, NEVER), *frames], axis=0),
        Ending.POLE: np.min([np.full(flight_count, NEVER), *poles], axis=0),
        Ending.LEFT: first(is_outside(end, track.low_W, track.high_W)),
    }
    gates, gate_time = [], np.zeros(flight_count)
    for gate_crossing in crossings:
        is_passed = gate_crossing.forwards & is_clear(gate_crossing, track.sizes, reach)
        event_times = np.where(is_passed, time[:-1, None] + gate_crossing.share * intervals, NEVER)
        gate_time = np.where(event_times > gate_time, event_times, NEVER).min(axis=0, initial=NEVER)
        gates.append(gate_time)
    end_time = np.min(list(end_times.values()), axis=0)
    end_time = np.minimum(end_time, track.seconds)
    passed = np.array([np.where(gate_times <= end_time, gate_times, NEVER) for gate_times in gates])
    count = np.isfinite(passed).sum(axis=0)
    ending, finish_time = [], np.where(count == len(gates), gates[-1], end_time)
    for k in range(flight_count):
        if count[k] == len(gates):
            ending.append(Ending.FINISHED)
            continue
        _, first_ending = min((float(event_times[k]), ending_type) for ending_type, event_times in end_times.items())
        fallback = Ending.CRASHED if crashed is not None and crashed[k] else Ending.LATE
        ending.append(first_ending if end_times[first_ending][k] <= end_time[k] else fallback)
    return Score(tuple(ending), finish_time, count, passed)
