"""Observations of a race through gates: the drone's progress and its knowledge of the gates and poles ahead."""

from collections.abc import Sequence
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import clamp, cos, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, Vehicle
from samara.world.gates import Course, Gate, Sizes, chosen, in_gate, is_next, known, passes, reach_of, seen_from
from samara.world.track import Track

FAR = 2.0  # [m]: poles farther away are observed at this distance
POLES = 2  # nearest poles in the observation
AHEAD = 6 + 2 * POLES  # size of `sight`


class Standing(NamedTuple):
    """Count of passed gates, and for each gate and then each pole whether it has been observed, 1 or 0."""

    passed: Scalar
    seen: tuple[Scalar, ...]


class Racer(NamedTuple):
    """Position at the last call, and the progress in the race."""

    p_W: Vec3
    standing: Standing


class Knowledge(NamedTuple):
    """Nominal and true poses of gates and poles, gate sizes, the drone's radius and the distance within which it observes
    gates and poles  [m]."""

    said: Course
    true: Course
    sizes: Sizes
    reach: float
    within: float

    @property
    def at_start(self) -> Standing:
        return Standing(0.0, (0.0,) * (len(self.said.gates) + len(self.said.poles)))

    def onward(self, progress: Standing, start_W: Vec3, end_W: Vec3) -> Standing:
        """Update the progress for a straight motion from `here_W` to `there_W`."""
        passed = progress.passed
        for i, gate in enumerate(self.true.gates):
            passes_gate = passes(start_W, end_W, gate, self.sizes, self.reach)
            passed = where(is_next(progress.passed, i), passed + where(passes_gate, 1.0, 0.0), passed)
        return Standing(passed, seen_from(end_W, self.true, progress.seen, self.within))

    def course(self, progress: Standing) -> Course:
        """The course with true poses of observed gates and poles, and nominal poses of the others."""
        return known(self.true, self.said, progress.seen)


def knowledge_of(track: Track, poses: Sequence[Scalar], vehicle: Vehicle) -> Knowledge:
    """Build the knowledge of a track.

    Args:
        track: the nominal track.
        numbers: true x, y, z, yaw of each gate, then x, y, z of each pole; empty if the track is as nominal.
        vehicle: vehicle whose radius limits the passage through gates.
    """
    if not poses:
        return Knowledge(track.course, track.course, track.sizes, reach_of(vehicle), track.seen_within)
    template = track.course
    if len(poses) != len(flatten(template)):
        raise ValueError(
            f"course has {len(poses)} numbers; expected {len(flatten(template))} for the gates and poles of {track.name!r}"
        )
    true: Course = unflatten(template, iter(poses))
    return Knowledge(template, true, track.sizes, reach_of(vehicle), track.seen_within)


def at_gate(gate: Gate) -> Reference:
    """Return the reference at rest in the centre of a gate, facing through it."""
    return Reference(gate.p_W, yaw=gate.yaw)


def sight(p_W: Vec3, course: Course, progress: Standing) -> tuple[Scalar, ...]:
    """In the axes of the next gate: position of the gate after it, cosine and sine of its heading; whether the next gate has
    been observed; and the vectors from the drone to the two nearest poles  [m]"""
    gate, next_gate = (chosen(course.gates, progress.passed + i) for i in (0.0, 1.0))
    is_observed: Scalar = progress.seen[len(course.gates) - 1]
    for i in range(len(course.gates) - 1):
        is_observed = where(is_next(progress.passed, i), progress.seen[i], is_observed)
    relative_yaw = next_gate.yaw - gate.yaw
    return (
        *in_gate(next_gate.p_W, gate),
        cos(relative_yaw),
        sin(relative_yaw),
        is_observed,
        *_nearest(p_W, course.poles, gate),
    )


def _nearest(p_W: Vec3, poles: tuple[Vec3, ...], gate: Gate) -> tuple[Scalar, ...]:
    """Return the horizontal vectors to the two nearest poles."""
    no_pole = (FAR, FAR, 2.0 * FAR)  # x, y and distance
    first, second = no_pole, no_pole
    c, s = cos(gate.yaw), sin(gate.yaw)
    for pole in poles:
        x, y = pole.x - p_W.x, pole.y - p_W.y
        offset = (clamp(c * x + s * y, -FAR, FAR), clamp(c * y - s * x, -FAR, FAR), safe_norm(x, y))
        farther = _either(offset[2] < first[2], first, offset)
        first = _either(offset[2] < first[2], offset, first)
        second = _either(farther[2] < second[2], farther, second)
    return (*first[:2], *second[:2])


def _either(condition: Scalar, a: tuple[Scalar, ...], b: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return tuple(where(condition, x, y) for x, y in zip(a, b, strict=True))
