"""The high-level commander: take off, go there, land, fly a trajectory; each is a curve from what is asked now to rest.

The curves are polynomials of degree 7 of x, y, z and yaw: at rest at their end, and at their start with the velocity and
acceleration that there are. A spiral, and a way that is to be straight at an even speed, have at both ends the motion of what
they stand for.
"""

import errno
import math
import struct
from collections.abc import Callable, MutableMapping
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.ops import wrap_angle
from samara.core.types import Array
from samara.link.crazyflie.parameters import GROUP, LANDING_SPEED, TAKE_OFF_SPEED
from samara.physics.types import Reference
from samara.plan.min_snap import Piecewise, between

POLYNOMIALS, COMPRESSED = 0, 1
AXES, POWERS = 4, 8
LARGEST = 1e4
_PIECE = struct.Struct("<33f")
_START, _HEAD = struct.Struct("<4h"), struct.Struct("<BH")
_POINTS = (0, 1, 3, 7)  # by the two bits of an axis: how many points follow the one it starts from
_UNITS = (1e-3, 1e-3, 1e-3, math.radians(0.1))  # of x, y, z and yaw


def uploaded(content: bytes, kind: int, pieces: int) -> Piecewise | None:
    """The curve that is written there; None where there is none"""
    if not pieces or kind not in (POLYNOMIALS, COMPRESSED):
        return None
    read = _polynomials(content, pieces) if kind == POLYNOMIALS else _compressed(content, pieces)
    if read is None:
        return None
    durations, coefficients = (np.array(own) for own in read)
    sound = np.isfinite(durations).all() and (np.abs(coefficients) <= LARGEST).all()
    if not sound or not (durations > 0.0).all() or durations.sum() > LARGEST:
        return None
    return Piecewise(np.concatenate([[0.0], np.cumsum(durations)]), coefficients)


def _polynomials(content: bytes, pieces: int) -> tuple[list[float], list[Array]] | None:
    """Each 8 coefficients in seconds of x, y, z, yaw, and how long"""
    if pieces * _PIECE.size > len(content):
        return None
    durations, coefficients = [], []
    for *numbers, duration in _PIECE.iter_unpack(content[: pieces * _PIECE.size]):
        if not 0.0 < duration <= LARGEST:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            in_seconds = np.array(numbers).reshape(AXES, POWERS).T
            coefficients.append(in_seconds * duration ** np.arange(POWERS)[:, None])
        durations.append(duration)
    return durations, coefficients


def _compressed(content: bytes, pieces: int) -> tuple[list[float], list[Array]] | None:
    """A start, then for each piece how many points every axis has, milliseconds, and the points; mm and tenths of degrees"""
    here, at = [unit * x for unit, x in zip(_UNITS, _START.unpack_from(content), strict=True)], _START.size
    durations, coefficients = [], []
    for _ in range(pieces):
        if at + _HEAD.size > len(content):
            return None
        bits, milliseconds = _HEAD.unpack_from(content, at)
        counts = [_POINTS[bits >> 2 * axis & 0b11] for axis in range(AXES)]
        at += _HEAD.size
        if at + 2 * sum(counts) > len(content):
            return None
        table = np.zeros((POWERS, AXES))
        for axis, count in enumerate(counts):
            numbers = struct.unpack_from(f"<{count}h", content, at)
            at += 2 * count
            points = [here[axis], *(_UNITS[axis] * x for x in numbers)]
            table[: len(points), axis] = powers_of(points)
            here[axis] = points[-1]
        durations.append(1e-3 * milliseconds)
        coefficients.append(table)
    return durations, coefficients


def powers_of(points: list[float]) -> list[float]:
    """cⱼ = (n over j) Σᵢ (−1)ⁱ⁺ʲ (j over i) Pᵢ: a Bézier curve of n + 1 points as a polynomial"""
    n = len(points) - 1
    return [
        math.comb(n, j) * sum((-1) ** (i + j) * math.comb(j, i) * points[i] for i in range(j + 1)) for j in range(n + 1)
    ]


LARGEST_ANGLE = 2.0 * math.pi
Rows = list[list[float]]


def spiral(
    here: Reference,
    angle: float,
    radii: tuple[float, float],
    climb: float,
    duration: float,
    *,
    sideways: bool,
    clockwise: bool,
) -> tuple[Rows, Rows]:
    """(place, velocity, acceleration, jerk) of x, y, z, yaw at its start, which is here, and at its end

    Its nose points along the circle, or with `sideways` along the radius: outwards, and clockwise inwards. The angle [rad] is a
    full turn at most; a radius below 0 is 0.
    """
    r0, r1 = (max(radius, 0.0) for radius in radii)
    sense = -1.0 if clockwise else 1.0
    turn = sense * min(max(angle, -LARGEST_ANGLE), LARGEST_ANGLE)
    rate, widening, rise = turn / duration, (r1 - r0) / duration, climb / duration
    inwards = math.pi if clockwise else 0.0
    theta = here.yaw + (inwards if sideways else -sense * math.pi / 2.0)
    centre = here.p_W.x - r0 * math.cos(theta), here.p_W.y - r0 * math.sin(theta)

    def end(r: float, share: float) -> Rows:
        c, s = math.cos(theta + share * turn), math.sin(theta + share * turn)
        along, across = r * rate, r * rate * rate
        return [
            [centre[0] + r * c, centre[1] + r * s, here.p_W.z + share * climb, here.yaw + share * turn],
            [widening * c - along * s, widening * s + along * c, rise, rate],
            [-2.0 * widening * rate * s - across * c, 2.0 * widening * rate * c - across * s, 0.0, 0.0],
            [0.0] * 4,
        ]

    return end(r0, 0.0), end(r1, 1.0)


GROUPS, TAKE_OFF_1, LAND_1, STOP, GO_TO, START, DEFINE = range(7)
TAKE_OFF, LAND, TAKE_OFF_AT, LAND_AT, SPIRAL, GO_TO_2, START_2 = range(7, 14)
IN_MEMORY = 1
BUSY = 1  # what the aircraft answers to a take-off in flight, and to a landing while it lands
LONGEST, FARTHEST = 1e4, 1e4  # [s, m]
SHORTEST = 0.05  # [s]
MOST_TRAJECTORIES = 10
Numbers = tuple[float, ...]


class Way(NamedTuple):
    """A curve of x, y, z and yaw from a time on [s]; `lands`: the motors stop at its end."""

    curve: Piecewise
    since: float
    lands: bool = False
    backwards: bool = False

    def at(self, now: float) -> Reference:
        """Where to be, and at rest after the end"""
        duration = self.curve.duration
        time = min(max(now - self.since, 0.0), duration)
        rows = self.curve.derivatives(duration - time if self.backwards else time, 5)
        if self.backwards:
            rows = rows * np.array([1.0, -1.0, 1.0, -1.0, 1.0])[:, None]
        if self.ended(now):
            rows = rows * np.array([1.0, 0.0, 0.0, 0.0, 0.0])[:, None]
        p, v, a, j, s = (Vec3(*row[:3]) for row in rows.tolist())
        yaw, rate, acceleration = rows[:3, 3].tolist()
        return Reference(p, v, a, j, float(wrap_angle(yaw)), rate, s, acceleration)

    def ended(self, now: float) -> bool:
        """Whether its end is reached"""
        return now - self.since >= self.curve.duration


class Upload(NamedTuple):
    """Where in memory a trajectory is, of which kind, and how many pieces it has."""

    kind: int
    offset: int
    pieces: int


class Planner:
    """`way` is what is being flown, None where nothing is; `obey` takes a packet of the client's."""

    def __init__(self, memory: bytearray, settings: MutableMapping[str, float], stands: float = 0.0) -> None:
        """`settings` are parameters by name: the group it belongs to, and the speeds to take off and land with

        `stands` [m] is how high its centre of mass is on the ground: a landing at 0 ends there, at rest.
        """
        self._memory, self._settings, self._stands = memory, settings, stands
        self._uploads: dict[int, Upload] = {}
        self.way: Way | None = None

    @staticmethod
    def flies(data: bytes) -> bool:
        """Whether the packet asks for something to be flown"""
        return bool(data) and data[0] not in (GROUPS, STOP, DEFINE)

    def obey(self, data: bytes, now: float, here: Reference) -> int:
        """Does what it says, from what is asked now; 0, or what is wrong with it"""
        known = _LAYOUTS.get(data[0]) if data else None
        if known is None:
            return errno.ENOEXEC
        layout, act = known
        if len(data) != layout.size:
            return errno.EINVAL
        _, *numbers = layout.unpack(data)
        if not all(math.isfinite(x) and abs(x) <= 2**32 for x in numbers):
            return errno.EINVAL
        own = int(self._settings[GROUP])
        in_group = data[0] in (GROUPS, DEFINE) or not numbers[0] or int(numbers[0]) & own
        return act(self, tuple(numbers), now, here) if in_group else 0

    def stop(self) -> None:
        """Nothing is flown any more"""
        self.way = None

    # What it is asked ------------------------------------------------------------------------------------------------

    def _set_group(self, numbers: Numbers, now: float, here: Reference) -> int:
        self._settings[GROUP] = numbers[0]
        return 0

    def _stop(self, numbers: Numbers, now: float, here: Reference) -> int:
        self.stop()
        return 0

    def _climb_facing_zero(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, height, duration = numbers  # the oldest one turns it to a yaw of 0
        return self._climb((0.0, height, 0.0, False, duration), now, here)

    def _land_facing_zero(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, height, duration = numbers
        return self._land((0.0, height, 0.0, False, duration), now, here)

    def _climb_at(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, height, relative, yaw, keep_yaw, speed = numbers
        height += here.p_W.z if relative else 0.0
        duration = abs(height - here.p_W.z) / (speed if speed > 0.0 else self._settings[TAKE_OFF_SPEED] or math.inf)
        return self._climb((0.0, height, yaw, keep_yaw, duration), now, here)

    def _land_at(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, height, relative, yaw, keep_yaw, speed = numbers
        height = here.p_W.z - height if relative else height
        duration = abs(height - here.p_W.z) / (speed if speed > 0.0 else self._settings[LANDING_SPEED] or math.inf)
        return self._land((0.0, height, yaw, keep_yaw, duration), now, here)

    def _climb(self, numbers: Numbers, now: float, here: Reference) -> int:
        return BUSY if self.way is not None else self._change_height(numbers, now, here, lands=False)

    def _land(self, numbers: Numbers, now: float, here: Reference) -> int:
        group, height, *rest = numbers
        if self.way is not None and self.way.lands:
            return BUSY
        floor = self._stands if 0.0 <= height < self._stands else height
        return self._change_height((group, floor, *rest), now, here, lands=True)

    def _change_height(self, numbers: Numbers, now: float, here: Reference, *, lands: bool) -> int:
        _, height, yaw, keep_yaw, duration = numbers
        return self._go(here.p_W._replace(z=height), here.yaw if keep_yaw else yaw, duration, now, here, lands=lands)

    def _go_to_1(self, numbers: Numbers, now: float, here: Reference) -> int:
        group, relative, *rest = numbers
        return self._go_to((group, relative, False, *rest), now, here)

    def _go_to(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, relative, straight, x, y, z, yaw, duration = numbers
        p_W = here.p_W + Vec3(x, y, z) if relative else Vec3(x, y, z)
        return self._go(p_W, here.yaw + yaw if relative else yaw, duration, now, here, straight=bool(straight))

    def _go(
        self,
        p_W: Vec3,
        yaw: float,
        duration: float,
        now: float,
        here: Reference,
        *,
        lands: bool = False,
        straight: bool = False,
    ) -> int:
        if not SHORTEST <= duration <= LONGEST or max(map(abs, p_W)) > FARTHEST:
            return errno.EINVAL
        turn = float(wrap_angle(yaw - here.yaw))
        first, last = [*here.p_W, here.yaw], [*p_W, here.yaw + turn]
        start = [first, [*here.v_W, here.yaw_rate], [*here.a_W, here.yaw_acceleration], [0.0] * 4]
        end = [last, [0.0] * 4, [0.0] * 4, [0.0] * 4]
        if straight:
            start[1] = end[1] = [(b - a) / duration for a, b in zip(first, last, strict=True)]
            start[2] = [0.0] * 4
        self.way = Way(between(start, end, duration), now, lands)
        return 0

    def _spiral(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, sideways, clockwise, angle, first, last, climb, duration = numbers
        if not SHORTEST <= duration <= LONGEST or max(first, last, abs(climb)) > FARTHEST:
            return errno.EINVAL
        ends = spiral(here, angle, (first, last), climb, duration, sideways=bool(sideways), clockwise=bool(clockwise))
        self.way = Way(between(*ends, duration), now)
        return 0

    def _define(self, numbers: Numbers, now: float, here: Reference) -> int:
        name, where, kind, offset, pieces = (int(x) for x in numbers)
        if where != IN_MEMORY or offset >= len(self._memory) or name >= MOST_TRAJECTORIES:
            return errno.EINVAL
        self._uploads[name] = Upload(kind, offset, pieces)
        return 0

    def _start(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, relative, backwards, name, scale = numbers
        return self._fly(int(name), scale, bool(relative), False, bool(backwards), now, here)

    def _start_2(self, numbers: Numbers, now: float, here: Reference) -> int:
        _, relative, turned, backwards, name, scale = numbers
        return self._fly(int(name), scale, bool(relative), bool(turned), bool(backwards), now, here)

    def _fly(
        self, name: int, scale: float, relative: bool, turned: bool, backwards: bool, now: float, here: Reference
    ) -> int:
        upload = self._uploads.get(name)
        if upload is None:
            return errno.ENOENT
        if upload.kind == COMPRESSED and (scale != 1.0 or backwards):
            return errno.ENOEXEC  # as on the aircraft
        own = uploaded(bytes(self._memory[upload.offset :]), upload.kind, upload.pieces)
        if own is None:
            return errno.EINVAL
        if not 0.0 < scale * own.duration <= LONGEST or scale * float(np.diff(own.knots).min()) < 1e-3:
            return errno.EINVAL
        curve = own.stretched(scale)
        first = curve.derivatives(curve.duration if backwards else 0.0, 1)[0]
        about = first[:3] if relative else np.zeros(3)
        turn = here.yaw - float(first[3]) if turned and relative and upload.kind != COMPRESSED else 0.0
        coefficients = _rotated(curve.coefficients, about, turn)
        if relative:
            coefficients[:, 0, :3] += np.array(here.p_W) - about
        self.way = Way(Piecewise(curve.knots, coefficients), now, backwards=backwards)
        return 0


def _rotated(coefficients: Array, about: Array, yaw: float) -> Array:
    """The curve turned about the vertical through a place"""
    own = coefficients.copy()
    own[:, 0, :3] -= about
    x, y = own[:, :, 0].copy(), own[:, :, 1].copy()
    own[:, :, 0] = math.cos(yaw) * x - math.sin(yaw) * y
    own[:, :, 1] = math.sin(yaw) * x + math.cos(yaw) * y
    own[:, 0, :3] += about
    own[:, 0, 3] += yaw
    return own


Act = Callable[[Planner, Numbers, float, Reference], int]
_LAYOUTS: dict[int, tuple[struct.Struct, Act]] = {
    GROUPS: (struct.Struct("<BB"), Planner._set_group),
    STOP: (struct.Struct("<BB"), Planner._stop),
    TAKE_OFF_1: (struct.Struct("<BBff"), Planner._climb_facing_zero),
    LAND_1: (struct.Struct("<BBff"), Planner._land_facing_zero),
    TAKE_OFF: (struct.Struct("<BBff?f"), Planner._climb),
    LAND: (struct.Struct("<BBff?f"), Planner._land),
    TAKE_OFF_AT: (struct.Struct("<BBf?f?f"), Planner._climb_at),
    LAND_AT: (struct.Struct("<BBf?f?f"), Planner._land_at),
    GO_TO: (struct.Struct("<BBB5f"), Planner._go_to_1),
    GO_TO_2: (struct.Struct("<BBBB5f"), Planner._go_to),
    SPIRAL: (struct.Struct("<BBBB5f"), Planner._spiral),
    DEFINE: (struct.Struct("<BBBBIB"), Planner._define),
    START: (struct.Struct("<BBBBBf"), Planner._start),
    START_2: (struct.Struct("<BBBBBBf"), Planner._start_2),
}
"""By the first byte: the layout of the packet, and what it asks for."""
