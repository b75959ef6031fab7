"""The line through a track: the fastest plan of least snap that a vehicle can fly, through the gates' middles, at some pace."""

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.physics.types import Vehicle
from samara.plan.time_optimal import fastest
from samara.plan.trajectory import Trajectory, through
from samara.world.track import Track

BEYOND = 2.5  # widths of the opening: where a plan comes to rest, behind the last gate


class Line(NamedTuple):
    """Points, how long from each to the next [s], and which of the points are the gates"""

    points: tuple[Vec3, ...]
    durations: tuple[float, ...]
    gates: tuple[int, ...]

    @property
    def trajectory(self) -> Trajectory:
        """From rest at the start to rest behind the last gate, with the least snap"""
        return through(self.points, self.durations)

    @property
    def finish(self) -> float:
        """When the last gate is passed [s]"""
        return math.fsum(self.durations[: self.gates[-1]])


def points_of(track: Track) -> tuple[tuple[Vec3, ...], tuple[int, ...]]:
    """The start, the gates with their `via` before them, and a place behind the last; and which of them are gates"""
    points, at = [track.start_W], []
    for via, gate in zip(track.via or ((),) * len(track.gates), track.gates, strict=True):
        points += [*via, gate.p_W]
        at.append(len(points) - 1)
    last = track.gates[-1]
    ahead = Vec3(math.cos(last.yaw), math.sin(last.yaw), 0.0)
    return (*points, last.p_W + ahead * (BEYOND * track.sizes.opening[0])), tuple(at)


def line_of(track: Track, vehicle: Vehicle, pace: float = 1.0) -> Line:
    """The fastest plan; with a `pace` below 1 all of it is flown so much slower"""
    if not 0.0 < pace <= 2.0:
        raise ValueError(f"pace is {pace!r}; expected a number above 0 and up to 2")
    points, gates = points_of(track)
    return Line(points, tuple(own / pace for own in _fastest(points, vehicle)), gates)


@lru_cache(maxsize=16)
def _fastest(points: tuple[Vec3, ...], vehicle: Vehicle) -> tuple[float, ...]:
    """How long from each point to the next"""
    marks = fastest(points, vehicle).trajectory.waypoints
    return tuple(after.time - before.time for before, after in pairwise(marks))
