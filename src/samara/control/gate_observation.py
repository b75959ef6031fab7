"""Observations of a race through gates: the drone's progress and its knowledge of the gates and poles ahead."""

from collections.abc import Sequence
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import clamp, cos, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, Vehicle
from samara.world.gates import (
    Course,
    Gate,
    GateSize,
    gate_coordinates,
    hub_radius,
    is_gate_passed,
    is_next,
    known_course,
    select_next_gate,
    update_observed_flags,
)
from samara.world.track import Track

MAX_POLE_DISTANCE = 2.0  # [m]: poles farther away are observed at this distance
OBSERVED_POLE_COUNT = 2  # number of nearest poles in the observation
GATE_OBSERVATION_SIZE = 6 + 2 * OBSERVED_POLE_COUNT  # size of `observe_gates`


class RaceProgress(NamedTuple):
    """Count of passed gates, and for each gate and then each pole whether it has been observed, 1 or 0."""

    gates_passed: Scalar
    is_observed: tuple[Scalar, ...]


class RacerState(NamedTuple):
    """Position at the last call, and the progress in the race."""

    p_W: Vec3
    progress: RaceProgress


class CourseKnowledge(NamedTuple):
    """Nominal and true poses of gates and poles, gate sizes, the drone's radius and the distance within which it observes
    gates and poles  [m]."""

    nominal: Course
    true: Course
    sizes: GateSize
    drone_radius: float
    observation_range: float

    @property
    def initial_progress(self) -> RaceProgress:
        return RaceProgress(0.0, (0.0,) * (len(self.nominal.gates) + len(self.nominal.poles)))

    def advance(self, progress: RaceProgress, start_W: Vec3, end_W: Vec3) -> RaceProgress:
        """Update the progress for a straight motion from `start_W` to `end_W`."""
        passed = progress.gates_passed
        for i, gate in enumerate(self.true.gates):
            passes_gate = is_gate_passed(start_W, end_W, gate, self.sizes, self.drone_radius)
            passed = where(is_next(progress.gates_passed, i), passed + where(passes_gate, 1.0, 0.0), passed)
        return RaceProgress(
            passed, update_observed_flags(end_W, self.true, progress.is_observed, self.observation_range)
        )

    def course(self, progress: RaceProgress) -> Course:
        """The course with true poses of observed gates and poles, and nominal poses of the others."""
        return known_course(self.true, self.nominal, progress.is_observed)


def course_knowledge(track: Track, poses: Sequence[Scalar], vehicle: Vehicle) -> CourseKnowledge:
    """Build the knowledge of a track.

    Args:
        track: the nominal track.
        poses: true x, y, z, yaw of each gate, then x, y, z of each pole; empty if the track is as nominal.
        vehicle: vehicle whose radius limits the passage through gates.
    """
    if not poses:
        return CourseKnowledge(track.course, track.course, track.sizes, hub_radius(vehicle), track.detection_range)
    template = track.course
    if len(poses) != len(flatten(template)):
        raise ValueError(
            f"course has {len(poses)} numbers; expected {len(flatten(template))} for the gates and poles of {track.name!r}"
        )
    true: Course = unflatten(template, iter(poses))
    return CourseKnowledge(template, true, track.sizes, hub_radius(vehicle), track.detection_range)


def gate_reference(gate: Gate) -> Reference:
    """Return the reference at rest in the centre of a gate, facing through it."""
    return Reference(gate.p_W, yaw=gate.yaw)


def observe_gates(p_W: Vec3, course: Course, progress: RaceProgress) -> tuple[Scalar, ...]:
    """Position, cosine and sine of the heading of the gate after the next; whether the next gate has been observed (1
    or 0); and the vectors from the drone to the two nearest poles: all in the axes of the next gate [m]"""
    gate, next_gate = (select_next_gate(course.gates, progress.gates_passed + i) for i in (0.0, 1.0))
    is_observed: Scalar = progress.is_observed[len(course.gates) - 1]
    for i in range(len(course.gates) - 1):
        is_observed = where(is_next(progress.gates_passed, i), progress.is_observed[i], is_observed)
    relative_yaw = next_gate.yaw - gate.yaw
    return (
        *gate_coordinates(next_gate.p_W, gate),
        cos(relative_yaw),
        sin(relative_yaw),
        is_observed,
        *_nearest_poles(p_W, course.poles, gate),
    )


def _nearest_poles(p_W: Vec3, poles: tuple[Vec3, ...], gate: Gate) -> tuple[Scalar, ...]:
    """Return the horizontal vectors to the two nearest poles."""
    no_pole = (MAX_POLE_DISTANCE, MAX_POLE_DISTANCE, 2.0 * MAX_POLE_DISTANCE)  # x, y and distance
    first, second = no_pole, no_pole
    c, s = cos(gate.yaw), sin(gate.yaw)
    for pole in poles:
        x, y = pole.x - p_W.x, pole.y - p_W.y
        offset = (
            clamp(c * x + s * y, -MAX_POLE_DISTANCE, MAX_POLE_DISTANCE),
            clamp(c * y - s * x, -MAX_POLE_DISTANCE, MAX_POLE_DISTANCE),
            safe_norm(x, y),
        )
        farther = _select(offset[2] < first[2], first, offset)
        first = _select(offset[2] < first[2], offset, first)
        second = _select(farther[2] < second[2], farther, second)
    return (*first[:2], *second[:2])


def _select(condition: Scalar, a: tuple[Scalar, ...], b: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return tuple(where(condition, x, y) for x, y in zip(a, b, strict=True))
