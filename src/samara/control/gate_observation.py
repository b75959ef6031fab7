"""What one who races through gates knows: how many it has passed, which it has seen, and what there is to see ahead."""

from collections.abc import Sequence
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import clamp, cos, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, Vehicle
from samara.world.gates import Course, Gate, Sizes, chosen, in_gate, is_next, known, passes, reach_of, seen_from
from samara.world.track import Track

FAR = 2.0  # [m]: a pole that is farther is seen as being there
POLES = 2  # that are seen, the nearest
AHEAD = 6 + 2 * POLES  # numbers of `sight`


class Standing(NamedTuple):
    """How many gates are passed, and of each gate and then each pole whether it has been seen, 1 or 0"""

    passed: Scalar
    seen: tuple[Scalar, ...]


class Racer(NamedTuple):
    """Where a drone was when it was last asked, and how far it has come"""

    p_W: Vec3
    standing: Standing


class Knowledge(NamedTuple):
    """Where gates and poles are said to be and where they are, the sizes of gates, how large the drone is, and from how near
    things are seen  [m]"""

    said: Course
    true: Course
    sizes: Sizes
    reach: float
    within: float

    @property
    def at_start(self) -> Standing:
        return Standing(0.0, (0.0,) * (len(self.said.gates) + len(self.said.poles)))

    def onward(self, standing: Standing, here_W: Vec3, there_W: Vec3) -> Standing:
        """After a straight way from here to there"""
        passed = standing.passed
        for k, gate in enumerate(self.true.gates):
            through = passes(here_W, there_W, gate, self.sizes, self.reach)
            passed = where(is_next(standing.passed, k), passed + where(through, 1.0, 0.0), passed)
        return Standing(passed, seen_from(there_W, self.true, standing.seen, self.within))

    def course(self, standing: Standing) -> Course:
        """As far as it is known"""
        return known(self.true, self.said, standing.seen)


def knowledge_of(track: Track, numbers: Sequence[Scalar], vehicle: Vehicle) -> Knowledge:
    """Of a track whose gates and poles are where `numbers` say: x, y, z, yaw of each gate, then x, y, z of each pole; without
    any, where the track has them"""
    if not numbers:
        return Knowledge(track.course, track.course, track.sizes, reach_of(vehicle), track.seen_within)
    template = track.course
    if len(numbers) != len(flatten(template)):
        raise ValueError(
            f"course has {len(numbers)} numbers; expected {len(flatten(template))} for the gates and poles of {track.name!r}"
        )
    true: Course = unflatten(template, iter(numbers))
    return Knowledge(template, true, track.sizes, reach_of(vehicle), track.seen_within)


def at_gate(gate: Gate) -> Reference:
    """Rest in the middle of a gate, facing through it"""
    return Reference(gate.p_W, yaw=gate.yaw)


def sight(p_W: Vec3, course: Course, standing: Standing) -> tuple[Scalar, ...]:
    """In the axes of the next gate: the gate after it, and the cosine and sine of that one's heading; whether the next has been
    seen; and from the drone to the two poles that are nearest  [m]"""
    gate, after = (chosen(course.gates, standing.passed + k) for k in (0.0, 1.0))
    seen: Scalar = standing.seen[len(course.gates) - 1]
    for k in range(len(course.gates) - 1):
        seen = where(is_next(standing.passed, k), standing.seen[k], seen)
    turn = after.yaw - gate.yaw
    return (*in_gate(after.p_W, gate), cos(turn), sin(turn), seen, *_nearest(p_W, course.poles, gate))


def _nearest(p_W: Vec3, poles: tuple[Vec3, ...], gate: Gate) -> tuple[Scalar, ...]:
    """The nearest pole, and the nearest of the rest"""
    nobody = (FAR, FAR, 2.0 * FAR)  # aside along both axes, and how far that is
    first, second = nobody, nobody
    c, s = cos(gate.yaw), sin(gate.yaw)
    for pole in poles:
        x, y = pole.x - p_W.x, pole.y - p_W.y
        aside = (clamp(c * x + s * y, -FAR, FAR), clamp(c * y - s * x, -FAR, FAR), safe_norm(x, y))
        farther = _either(aside[2] < first[2], first, aside)
        first = _either(aside[2] < first[2], aside, first)
        second = _either(farther[2] < second[2], farther, second)
    return (*first[:2], *second[:2])


def _either(condition: Scalar, a: tuple[Scalar, ...], b: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return tuple(where(condition, x, y) for x, y in zip(a, b, strict=True))
