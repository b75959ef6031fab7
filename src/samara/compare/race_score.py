"""Who went through the gates: decided by the path alone, straight from one recorded place to the next.

A gate counts when it is the next one and the path goes through its opening, forwards, with room for the drone. Another gate, or
the next one backwards, does not count. A frame or a pole in the way, and leaving the hall, end the race.
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
    """How a race ended"""

    FINISHED = "finished"
    FRAME = "struck a gate"
    POLE = "struck a pole"
    LEFT = "left the hall"
    CRASHED = "crashed"
    LATE = "not through in time"


class Score(NamedTuple):
    """Of n flights: how each ended and when [s], how many gates it had passed, and when each of them (gates, n), ∞ where not"""

    ending: tuple[Ending, ...]
    time: Array
    passed: Array
    gates: Array

    @property
    def finished(self) -> Array:
        return np.array([own is Ending.FINISHED for own in self.ending])

    @property
    def success(self) -> float:
        """The share that finished"""
        return float(self.finished.mean())

    @property
    def mean_time(self) -> float:
        """Of those that finished [s]; not a number where none did"""
        return float(self.time[self.finished].mean()) if self.finished.any() else float("nan")


def score(time: Array, p_W: Vec3, course: Course, track: Track, reach: float, crashed: Array | None = None) -> Score:
    """Of paths (times, n), or one path (times,): of everything that happens to a flight the first counts"""
    path = Vec3(*(np.asarray(own, dtype=float).reshape(len(time), -1) for own in p_W))
    here, there = Vec3(*(own[:-1] for own in path)), Vec3(*(own[1:] for own in path))
    n, span = path.x.shape[1], np.diff(time)[:, None]

    def first(happens: Array, fraction: Array | float = 1.0) -> Array:
        """When something happens for the first time [s]"""
        moments = np.where(happens, time[:-1, None] + fraction * span, NEVER)
        return moments.min(axis=0, initial=NEVER)

    crossings = [crossing(here, there, gate) for gate in course.gates]
    frames = [first(strikes_frame(own, track.sizes, reach), own.share) for own in crossings]
    poles = [first(strikes_pole(here, there, pole, track.pole_radius + reach)) for pole in course.poles]
    ends = {
        Ending.FRAME: np.min([np.full(n, NEVER), *frames], axis=0),
        Ending.POLE: np.min([np.full(n, NEVER), *poles], axis=0),
        Ending.LEFT: first(is_outside(there, track.low_W, track.high_W)),
    }
    gates, latest = [], np.zeros(n)
    for own in crossings:
        through = own.forwards & is_clear(own, track.sizes, reach)
        moments = np.where(through, time[:-1, None] + own.share * span, NEVER)
        latest = np.where(moments > latest, moments, NEVER).min(axis=0, initial=NEVER)
        gates.append(latest)
    over = np.min(list(ends.values()), axis=0)
    over = np.minimum(over, track.seconds)
    passed = np.array([np.where(own <= over, own, NEVER) for own in gates])
    count = np.isfinite(passed).sum(axis=0)
    ending, when = [], np.where(count == len(gates), gates[-1], over)
    for k in range(n):
        if count[k] == len(gates):
            ending.append(Ending.FINISHED)
            continue
        _, kind = min((float(moments[k]), own) for own, moments in ends.items())
        late = Ending.CRASHED if crashed is not None and crashed[k] else Ending.LATE
        ending.append(kind if ends[kind][k] <= over[k] else late)
    return Score(tuple(ending), when, count, passed)
