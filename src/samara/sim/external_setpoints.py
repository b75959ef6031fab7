"""Setpoints that arrive in flight, as references over time.

Each is a function of the time since its arrival and of the anchor: the `Reference` at that moment, as a row. A distant position
is approached at a speed; a velocity that is not repeated times out, and the drone then holds its position.
"""

from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.physics.types import REFERENCE_FIELDS

P, V, A = slice(0, 3), slice(3, 6), slice(6, 9)
YAW, YAW_RATE = REFERENCE_FIELDS.index("yaw"), REFERENCE_FIELDS.index("yaw_rate")

APPROACH_SPEED = 2.0  # [m/s] of the approach to a position
YAW_APPROACH_RATE = 1.0  # [rad/s] of the turn to a yaw
STEP_TIME = 0.1  # [s] a position within this time, as in a stream of positions, becomes the reference immediately
SETPOINT_TIMEOUT = 0.5  # [s] after which a velocity or motor command expires


class Position(NamedTuple):
    """Rest at p_W [m] with a yaw [rad]; `speed` of the approach [m/s]."""

    p_W: Array
    yaw: float
    speed: float = APPROACH_SPEED

    def references(self, anchor: Array, time: Array) -> Array:
        """p = p₀ + min(v t, |d|) d/|d|,  d = p − p₀: (times, fields)."""
        rows = _rest_references(anchor, time)
        offset = self.p_W - anchor[P]
        distance = float(np.linalg.norm(offset))
        if distance <= STEP_TIME * self.speed:
            rows[:, P] = self.p_W
        else:
            direction, travelled = offset / distance, np.minimum(self.speed * time, distance)
            rows[:, P] = anchor[P] + travelled[:, None] * direction
            rows[:, V] = np.where((travelled < distance)[:, None], self.speed * direction, 0.0)
        turn = (self.yaw - anchor[YAW] + np.pi) % (2.0 * np.pi) - np.pi
        rotated = np.clip(turn, -YAW_APPROACH_RATE * time, YAW_APPROACH_RATE * time)
        rows[:, YAW] = anchor[YAW] + rotated
        rows[:, YAW_RATE] = np.where(rotated != turn, np.sign(turn) * YAW_APPROACH_RATE, 0.0)
        return rows


class Velocity(NamedTuple):
    """Fly at v_W [m/s] with a yaw rate [rad/s] for T = `SETPOINT_TIMEOUT`."""

    v_W: Array
    yaw_rate: float

    def references(self, anchor: Array, time: Array) -> Array:
        """p = p₀ + v min(t, T),  ψ = ψ₀ + r min(t, T): (times, fields)."""
        rows, active_time = _rest_references(anchor, time), np.minimum(time, SETPOINT_TIMEOUT)
        rows[:, P] = anchor[P] + active_time[:, None] * self.v_W
        rows[:, V] = np.where((time < SETPOINT_TIMEOUT)[:, None], self.v_W, 0.0)
        rows[:, YAW] = anchor[YAW] + active_time * self.yaw_rate
        rows[:, YAW_RATE] = np.where(time < SETPOINT_TIMEOUT, self.yaw_rate, 0.0)
        return rows


class TimedWaypoints(NamedTuple):
    """Pass points p_W (m, 3) at times (m,) since arrival [s], with yaws (m,) and optional velocities (m, 3)."""

    times: Array
    p_W: Array
    yaw: Array
    v_W: Array | None = None

    def references(self, anchor: Array, time: Array) -> Array:
        """p = p₀ + s a + s² b + s³ c on each segment: cubic Hermite, or linear without velocities."""
        times, p, yaw, v = self.times, self.p_W, self.yaw, self.v_W
        if times[0] > 0.0:
            times, p = np.append(0.0, times), np.vstack([anchor[P], p])
            yaw, v = np.append(anchor[YAW], yaw), None if v is None else np.vstack([anchor[V], v])
        yaw = np.unwrap(yaw)
        rows = _rest_references(anchor, time)
        rows[:, P], rows[:, YAW] = p[-1], yaw[-1]
        flying = np.flatnonzero((time < times[-1]) & (time >= times[0]))
        segment = np.searchsorted(times, time[flying], side="right") - 1
        span = (times[segment + 1] - times[segment])[:, None]
        s, offset = (time[flying] - times[segment])[:, None] / span, p[segment + 1] - p[segment]
        initial_slope, final_slope = (offset, offset) if v is None else (v[segment] * span, v[segment + 1] * span)
        quadratic = 3 * offset - 2 * initial_slope - final_slope
        cubic = initial_slope + final_slope - 2 * offset
        rows[flying, P] = p[segment] + s * initial_slope + s**2 * quadratic + s**3 * cubic
        rows[flying, V] = (initial_slope + 2 * s * quadratic + 3 * s**2 * cubic) / span
        rows[flying, A] = (2 * quadratic + 6 * s * cubic) / span**2
        rate = (yaw[segment + 1] - yaw[segment]) / span[:, 0]
        rows[flying, YAW], rows[flying, YAW_RATE] = yaw[segment] + s[:, 0] * (yaw[segment + 1] - yaw[segment]), rate
        return rows


class Motors(NamedTuple):
    """Apply a motor command for `SETPOINT_TIMEOUT`."""

    command: Array


Setpoint = Position | Velocity | TimedWaypoints | Motors


def _rest_references(anchor: Array, time: Array) -> Array:
    """References at rest at the anchor's position and yaw: (times, fields)."""
    rows = np.zeros((len(time), len(REFERENCE_FIELDS)))
    rows[:, P], rows[:, YAW] = anchor[P], anchor[YAW]
    return rows
