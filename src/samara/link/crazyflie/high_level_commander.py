"""The high-level commander: take off, go to, land, fly a trajectory; each is a curve from the current reference to rest.

The curves are polynomials of degree 7 in x, y, z and yaw. They start with the current velocity and acceleration and end at
rest. A spiral, and a straight line at constant speed, have the velocity and acceleration of that motion at both ends.
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
from samara.link.crazyflie.parameters import GROUP_MASK, LANDING_SPEED, TAKE_OFF_SPEED
from samara.physics.types import Reference
from samara.plan.min_snap import PiecewisePolynomial, hermite_polynomial

POLYNOMIALS, COMPRESSED = 0, 1
AXES, POWERS = 4, 8
MAX_MAGNITUDE = 1e4
_PIECE = struct.Struct("<33f")
_START, _HEAD = struct.Struct("<4h"), struct.Struct("<BH")
_POINTS = (0, 1, 3, 7)  # count of control points after the first, by the two bits of an axis
_UNITS = (1e-3, 1e-3, 1e-3, math.radians(0.1))  # units of x, y, z [m] and yaw [rad]


def decode_trajectory(content: bytes, encoding: int, pieces: int) -> PiecewisePolynomial | None:
    """Decode a trajectory from memory; return None if it is invalid."""
    if not pieces or encoding not in (POLYNOMIALS, COMPRESSED):
        return None
    decoded = _decode_polynomials(content, pieces) if encoding == POLYNOMIALS else _decode_compressed(content, pieces)
    if decoded is None:
        return None
    durations, coefficients = (np.array(values) for values in decoded)
    is_finite = np.isfinite(durations).all() and (np.abs(coefficients) <= MAX_MAGNITUDE).all()
    if not is_finite or not (durations > 0.0).all() or durations.sum() > MAX_MAGNITUDE:
        return None
    return PiecewisePolynomial(np.concatenate([[0.0], np.cumsum(durations)]), coefficients)


def _decode_polynomials(content: bytes, pieces: int) -> tuple[list[float], list[Array]] | None:
    """Decode pieces of 8 coefficients in seconds for each of x, y, z, yaw, and a duration."""
    if pieces * _PIECE.size > len(content):
        return None
    durations, coefficients = [], []
    for *numbers, duration in _PIECE.iter_unpack(content[: pieces * _PIECE.size]):
        if not 0.0 < duration <= MAX_MAGNITUDE:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            in_seconds = np.array(numbers).reshape(AXES, POWERS).T
            coefficients.append(in_seconds * duration ** np.arange(POWERS)[:, None])
        durations.append(duration)
    return durations, coefficients


def _decode_compressed(content: bytes, pieces: int) -> tuple[list[float], list[Array]] | None:
    """Decode a start, then for each piece the point counts of the axes, milliseconds and the points; mm and 0.1 degrees."""
    start_point, offset = [unit * x for unit, x in zip(_UNITS, _START.unpack_from(content), strict=True)], _START.size
    durations, coefficients = [], []
    for _ in range(pieces):
        if offset + _HEAD.size > len(content):
            return None
        bits, milliseconds = _HEAD.unpack_from(content, offset)
        counts = [_POINTS[bits >> 2 * axis & 0b11] for axis in range(AXES)]
        offset += _HEAD.size
        if offset + 2 * sum(counts) > len(content):
            return None
        table = np.zeros((POWERS, AXES))
        for axis, count in enumerate(counts):
            numbers = struct.unpack_from(f"<{count}h", content, offset)
            offset += 2 * count
            points = [start_point[axis], *(_UNITS[axis] * x for x in numbers)]
            table[: len(points), axis] = bezier_coefficients(points)
            start_point[axis] = points[-1]
        durations.append(1e-3 * milliseconds)
        coefficients.append(table)
    return durations, coefficients


def bezier_coefficients(points: list[float]) -> list[float]:
    """cⱼ = (n over j) Σᵢ (−1)ⁱ⁺ʲ (j over i) Pᵢ: the polynomial of a Bézier curve with n + 1 points."""
    n = len(points) - 1
    return [
        math.comb(n, j) * sum((-1) ** (i + j) * math.comb(j, i) * points[i] for i in range(j + 1)) for j in range(n + 1)
    ]


MAX_SPIRAL_ANGLE = 2.0 * math.pi
Rows = list[list[float]]


def spiral(
    reference: Reference,
    angle: float,
    radii: tuple[float, float],
    climb: float,
    duration: float,
    *,
    sideways: bool,
    clockwise: bool,
) -> tuple[Rows, Rows]:
    """Return (position, velocity, acceleration, jerk) of x, y, z, yaw at the start, which is the reference, and at the end.

    The nose points along the circle, or with `sideways` along the radius: outwards, and inwards if clockwise. The angle [rad]
    is limited to a full turn; a radius below 0 is 0.
    """
    r0, r1 = (max(radius, 0.0) for radius in radii)
    direction = -1.0 if clockwise else 1.0
    turn_angle = direction * min(max(angle, -MAX_SPIRAL_ANGLE), MAX_SPIRAL_ANGLE)
    rate, radial_rate, climb_rate = turn_angle / duration, (r1 - r0) / duration, climb / duration
    radial_offset = math.pi if clockwise else 0.0
    theta = reference.yaw + (radial_offset if sideways else -direction * math.pi / 2.0)
    centre = reference.p_W.x - r0 * math.cos(theta), reference.p_W.y - r0 * math.sin(theta)

    def end(r: float, fraction: float) -> Rows:
        c, s = math.cos(theta + fraction * turn_angle), math.sin(theta + fraction * turn_angle)
        tangential_speed, centripetal_acceleration = r * rate, r * rate * rate
        return [
            [
                centre[0] + r * c,
                centre[1] + r * s,
                reference.p_W.z + fraction * climb,
                reference.yaw + fraction * turn_angle,
            ],
            [radial_rate * c - tangential_speed * s, radial_rate * s + tangential_speed * c, climb_rate, rate],
            [
                -2.0 * radial_rate * rate * s - centripetal_acceleration * c,
                2.0 * radial_rate * rate * c - centripetal_acceleration * s,
                0.0,
                0.0,
            ],
            [0.0] * 4,
        ]

    return end(r0, 0.0), end(r1, 1.0)


GROUPS, TAKE_OFF_1, LAND_1, STOP, GO_TO, START, DEFINE = range(7)
TAKE_OFF, LAND, TAKE_OFF_AT, LAND_AT, SPIRAL, GO_TO_2, START_2 = range(7, 14)
IN_MEMORY = 1
BUSY = 1  # the aircraft's answer to a take-off in flight, and to a landing while it lands
MAX_DURATION, MAX_DISTANCE = 1e4, 1e4  # [s, m]
MIN_DURATION = 0.05  # [s]
MAX_TRAJECTORIES = 10
Fields = tuple[float, ...]


class PlannedCurve(NamedTuple):
    """A curve of x, y, z and yaw that starts at `start_time` [s]; `lands`: the motors stop at its end."""

    curve: PiecewisePolynomial
    start_time: float
    lands: bool = False
    backwards: bool = False

    def reference(self, now: float) -> Reference:
        """Return the reference at a time, at rest after the end."""
        duration = self.curve.duration
        time = min(max(now - self.start_time, 0.0), duration)
        rows = self.curve.derivatives(duration - time if self.backwards else time, 5)
        if self.backwards:
            rows = rows * np.array([1.0, -1.0, 1.0, -1.0, 1.0])[:, None]
        if self.is_finished(now):
            rows = rows * np.array([1.0, 0.0, 0.0, 0.0, 0.0])[:, None]
        p, v, a, j, s = (Vec3(*row[:3]) for row in rows.tolist())
        yaw, yaw_rate, yaw_acceleration = rows[:3, 3].tolist()
        return Reference(p, v, a, j, float(wrap_angle(yaw)), yaw_rate, s, yaw_acceleration)

    def is_finished(self, now: float) -> bool:
        """Whether the end is reached."""
        return now - self.start_time >= self.curve.duration


class Upload(NamedTuple):
    """Encoding, memory offset and piece count of an uploaded trajectory."""

    encoding: int
    offset: int
    pieces: int


class Planner:
    """Plans the curve that is flown; `planned_curve` is None if there is none. `execute` executes a packet of the client."""

    def __init__(self, memory: bytearray, settings: MutableMapping[str, float], standing_height: float = 0.0) -> None:
        """Create a planner.

        Args:
            memory: content of the trajectory memory.
            settings: parameters by name: the group mask, and the speeds for take-off and landing.
            standing_height: height of the centre of mass on the ground [m]: a landing at 0 ends there, at rest.
        """
        self._memory, self._settings, self._standing_height = memory, settings, standing_height
        self._uploads: dict[int, Upload] = {}
        self.planned_curve: PlannedCurve | None = None

    @staticmethod
    def is_motion_order(data: bytes) -> bool:
        """Whether the packet starts a motion."""
        return bool(data) and data[0] not in (GROUPS, STOP, DEFINE)

    def execute(self, data: bytes, now: float, reference: Reference) -> int:
        """Execute a packet, starting from the current reference; return 0 or an error code."""
        layout_and_handler = _LAYOUTS.get(data[0]) if data else None
        if layout_and_handler is None:
            return errno.ENOEXEC
        layout, handler = layout_and_handler
        if len(data) != layout.size:
            return errno.EINVAL
        _, *fields = layout.unpack(data)
        if not all(math.isfinite(x) and abs(x) <= 2**32 for x in fields):
            return errno.EINVAL
        group_mask = int(self._settings[GROUP_MASK])
        in_group = data[0] in (GROUPS, DEFINE) or not fields[0] or int(fields[0]) & group_mask
        return handler(self, tuple(fields), now, reference) if in_group else 0

    def stop(self) -> None:
        """Stop following the curve."""
        self.planned_curve = None

    # Orders ----------------------------------------------------------------------------------------------------------

    def _set_group(self, fields: Fields, now: float, reference: Reference) -> int:
        self._settings[GROUP_MASK] = fields[0]
        return 0

    def _stop(self, fields: Fields, now: float, reference: Reference) -> int:
        self.stop()
        return 0

    def _take_off_facing_zero(self, fields: Fields, now: float, reference: Reference) -> int:
        _, height, duration = fields  # the oldest order has no yaw: it turns the drone to 0
        return self._take_off((0.0, height, 0.0, False, duration), now, reference)

    def _land_facing_zero(self, fields: Fields, now: float, reference: Reference) -> int:
        _, height, duration = fields
        return self._land((0.0, height, 0.0, False, duration), now, reference)

    def _take_off_with_speed(self, fields: Fields, now: float, reference: Reference) -> int:
        _, height, relative, yaw, keep_yaw, speed = fields
        height += reference.p_W.z if relative else 0.0
        duration = abs(height - reference.p_W.z) / (
            speed if speed > 0.0 else self._settings[TAKE_OFF_SPEED] or math.inf
        )
        return self._take_off((0.0, height, yaw, keep_yaw, duration), now, reference)

    def _land_with_speed(self, fields: Fields, now: float, reference: Reference) -> int:
        _, height, relative, yaw, keep_yaw, speed = fields
        height = reference.p_W.z - height if relative else height
        duration = abs(height - reference.p_W.z) / (speed if speed > 0.0 else self._settings[LANDING_SPEED] or math.inf)
        return self._land((0.0, height, yaw, keep_yaw, duration), now, reference)

    def _take_off(self, fields: Fields, now: float, reference: Reference) -> int:
        return BUSY if self.planned_curve is not None else self._change_height(fields, now, reference, lands=False)

    def _land(self, fields: Fields, now: float, reference: Reference) -> int:
        group, height, *remaining_fields = fields
        if self.planned_curve is not None and self.planned_curve.lands:
            return BUSY
        floor = self._standing_height if 0.0 <= height < self._standing_height else height
        return self._change_height((group, floor, *remaining_fields), now, reference, lands=True)

    def _change_height(self, fields: Fields, now: float, reference: Reference, *, lands: bool) -> int:
        _, height, yaw, keep_yaw, duration = fields
        return self._plan_curve(
            reference.p_W._replace(z=height), reference.yaw if keep_yaw else yaw, duration, now, reference, lands=lands
        )

    def _go_to_1(self, fields: Fields, now: float, reference: Reference) -> int:
        group, relative, *remaining_fields = fields
        return self._go_to_position((group, relative, False, *remaining_fields), now, reference)

    def _go_to_position(self, fields: Fields, now: float, reference: Reference) -> int:
        _, relative, straight, x, y, z, yaw, duration = fields
        p_W = reference.p_W + Vec3(x, y, z) if relative else Vec3(x, y, z)
        return self._plan_curve(
            p_W, reference.yaw + yaw if relative else yaw, duration, now, reference, straight=bool(straight)
        )

    def _plan_curve(
        self,
        p_W: Vec3,
        yaw: float,
        duration: float,
        now: float,
        reference: Reference,
        *,
        lands: bool = False,
        straight: bool = False,
    ) -> int:
        if not MIN_DURATION <= duration <= MAX_DURATION or max(map(abs, p_W)) > MAX_DISTANCE:
            return errno.EINVAL
        yaw_change = float(wrap_angle(yaw - reference.yaw))
        first, last = [*reference.p_W, reference.yaw], [*p_W, reference.yaw + yaw_change]
        start = [first, [*reference.v_W, reference.yaw_rate], [*reference.a_W, reference.yaw_acceleration], [0.0] * 4]
        end = [last, [0.0] * 4, [0.0] * 4, [0.0] * 4]
        if straight:
            start[1] = end[1] = [(b - a) / duration for a, b in zip(first, last, strict=True)]
            start[2] = [0.0] * 4
        self.planned_curve = PlannedCurve(hermite_polynomial(start, end, duration), now, lands)
        return 0

    def _spiral(self, fields: Fields, now: float, reference: Reference) -> int:
        _, sideways, clockwise, angle, start_radius, end_radius, climb, duration = fields
        if not MIN_DURATION <= duration <= MAX_DURATION or max(start_radius, end_radius, abs(climb)) > MAX_DISTANCE:
            return errno.EINVAL
        ends = spiral(
            reference,
            angle,
            (start_radius, end_radius),
            climb,
            duration,
            sideways=bool(sideways),
            clockwise=bool(clockwise),
        )
        self.planned_curve = PlannedCurve(hermite_polynomial(*ends, duration), now)
        return 0

    def _define(self, fields: Fields, now: float, reference: Reference) -> int:
        trajectory_id, location, encoding, offset, pieces = (int(x) for x in fields)
        if location != IN_MEMORY or offset >= len(self._memory) or trajectory_id >= MAX_TRAJECTORIES:
            return errno.EINVAL
        self._uploads[trajectory_id] = Upload(encoding, offset, pieces)
        return 0

    def _start(self, fields: Fields, now: float, reference: Reference) -> int:
        _, relative, backwards, trajectory_id, time_scale = fields
        return self._fly(int(trajectory_id), time_scale, bool(relative), False, bool(backwards), now, reference)

    def _start_2(self, fields: Fields, now: float, reference: Reference) -> int:
        _, relative, relative_yaw, backwards, trajectory_id, time_scale = fields
        return self._fly(
            int(trajectory_id), time_scale, bool(relative), bool(relative_yaw), bool(backwards), now, reference
        )

    def _fly(
        self,
        trajectory_id: int,
        time_scale: float,
        relative: bool,
        relative_yaw: bool,
        backwards: bool,
        now: float,
        reference: Reference,
    ) -> int:
        upload = self._uploads.get(trajectory_id)
        if upload is None:
            return errno.ENOENT
        if upload.encoding == COMPRESSED and (time_scale != 1.0 or backwards):
            return errno.ENOEXEC  # as on the aircraft
        trajectory = decode_trajectory(bytes(self._memory[upload.offset :]), upload.encoding, upload.pieces)
        if trajectory is None:
            return errno.EINVAL
        if (
            not 0.0 < time_scale * trajectory.duration <= MAX_DURATION
            or time_scale * float(np.diff(trajectory.knots).min()) < 1e-3
        ):
            return errno.EINVAL
        curve = trajectory.stretch(time_scale)
        start = curve.derivatives(curve.duration if backwards else 0.0, 1)[0]
        pivot = start[:3] if relative else np.zeros(3)
        yaw_offset = (
            reference.yaw - float(start[3]) if relative_yaw and relative and upload.encoding != COMPRESSED else 0.0
        )
        coefficients = _rotate_curve(curve.coefficients, pivot, yaw_offset)
        if relative:
            coefficients[:, 0, :3] += np.array(reference.p_W) - pivot
        self.planned_curve = PlannedCurve(PiecewisePolynomial(curve.knots, coefficients), now, backwards=backwards)
        return 0


def _rotate_curve(coefficients: Array, pivot: Array, yaw: float) -> Array:
    """Rotate a curve about the vertical through a point."""
    rotated = coefficients.copy()
    rotated[:, 0, :3] -= pivot
    x, y = rotated[:, :, 0].copy(), rotated[:, :, 1].copy()
    rotated[:, :, 0] = math.cos(yaw) * x - math.sin(yaw) * y
    rotated[:, :, 1] = math.sin(yaw) * x + math.cos(yaw) * y
    rotated[:, 0, :3] += pivot
    rotated[:, 0, 3] += yaw
    return rotated


OrderHandler = Callable[[Planner, Fields, float, Reference], int]
_LAYOUTS: dict[int, tuple[struct.Struct, OrderHandler]] = {
    GROUPS: (struct.Struct("<BB"), Planner._set_group),
    STOP: (struct.Struct("<BB"), Planner._stop),
    TAKE_OFF_1: (struct.Struct("<BBff"), Planner._take_off_facing_zero),
    LAND_1: (struct.Struct("<BBff"), Planner._land_facing_zero),
    TAKE_OFF: (struct.Struct("<BBff?f"), Planner._take_off),
    LAND: (struct.Struct("<BBff?f"), Planner._land),
    TAKE_OFF_AT: (struct.Struct("<BBf?f?f"), Planner._take_off_with_speed),
    LAND_AT: (struct.Struct("<BBf?f?f"), Planner._land_with_speed),
    GO_TO: (struct.Struct("<BBB5f"), Planner._go_to_1),
    GO_TO_2: (struct.Struct("<BBBB5f"), Planner._go_to_position),
    SPIRAL: (struct.Struct("<BBBB5f"), Planner._spiral),
    DEFINE: (struct.Struct("<BBBBIB"), Planner._define),
    START: (struct.Struct("<BBBBBf"), Planner._start),
    START_2: (struct.Struct("<BBBBBBf"), Planner._start_2),
}
"""By the first byte: the layout of the packet, and the method that executes it."""
