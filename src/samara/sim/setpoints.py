"""What someone outside asks of a drone while it flies, as references over time.

Each is a function of the time since it came, and of the row of `Reference` that was asked at that moment: the anchor, where
it begins. A place that is far away is approached at a speed; a velocity that nobody repeats ends, and the drone stays there.
"""

from typing import Any, NamedTuple

import numpy as np

from samara.physics.reference import REFERENCE_FIELDS

Array = np.ndarray[Any, Any]

P, V, A = slice(0, 3), slice(3, 6), slice(6, 9)
YAW, YAW_RATE = REFERENCE_FIELDS.index("yaw"), REFERENCE_FIELDS.index("yaw_rate")

SPEED = 2.0  # [m/s] to a place
TURN = 1.0  # [rad/s] to a yaw
AT_ONCE = 0.1  # [s]: a place that is nearer than this, as one of a stream of them, is asked for at once
LIFE = 0.5  # [s] of a velocity, or of commands for the motors, that nobody repeats


class Place(NamedTuple):
    """To rest at p_W [m] with this yaw [rad], at a speed where it is far [m/s]"""

    p_W: Array
    yaw: float
    speed: float = SPEED

    def asked(self, anchor: Array, time: Array) -> Array:
        """p = p₀ + min(v t, |d|) d/|d|,  d = p − p₀: (times, fields)"""
        rows = _still(anchor, time)
        way = self.p_W - anchor[P]
        distance = float(np.linalg.norm(way))
        if distance <= AT_ONCE * self.speed:
            rows[:, P] = self.p_W
        else:
            direction, gone = way / distance, np.minimum(self.speed * time, distance)
            rows[:, P] = anchor[P] + gone[:, None] * direction
            rows[:, V] = np.where((gone < distance)[:, None], self.speed * direction, 0.0)
        turn = (self.yaw - anchor[YAW] + np.pi) % (2.0 * np.pi) - np.pi
        turned = np.clip(turn, -TURN * time, TURN * time)
        rows[:, YAW] = anchor[YAW] + turned
        rows[:, YAW_RATE] = np.where(turned != turn, np.sign(turn) * TURN, 0.0)
        return rows


class Velocity(NamedTuple):
    """At v_W [m/s], turning at a rate [rad/s], for as long as it lives"""

    v_W: Array
    yaw_rate: float

    def asked(self, anchor: Array, time: Array) -> Array:
        """p = p₀ + v min(t, T),  ψ = ψ₀ + r min(t, T): (times, fields)"""
        rows, lived = _still(anchor, time), np.minimum(time, LIFE)
        rows[:, P] = anchor[P] + lived[:, None] * self.v_W
        rows[:, V] = np.where((time < LIFE)[:, None], self.v_W, 0.0)
        rows[:, YAW] = anchor[YAW] + lived * self.yaw_rate
        rows[:, YAW_RATE] = np.where(time < LIFE, self.yaw_rate, 0.0)
        return rows


class Path(NamedTuple):
    """Through points p_W (m, 3) at times (m,) since it came [s], with yaws (m,), and velocities (m, 3) where they are known"""

    times: Array
    p_W: Array
    yaw: Array
    v_W: Array | None = None

    def asked(self, anchor: Array, time: Array) -> Array:
        """Cubics with the velocities of their ends, or straight lines without; begins at the anchor, and stays at the end"""
        times, p, yaw, v = self.times, self.p_W, self.yaw, self.v_W
        if times[0] > 0.0:
            times, p = np.append(0.0, times), np.vstack([anchor[P], p])
            yaw, v = np.append(anchor[YAW], yaw), None if v is None else np.vstack([anchor[V], v])
        yaw = np.unwrap(yaw)
        rows = _still(anchor, time)
        rows[:, P], rows[:, YAW] = p[-1], yaw[-1]
        flying = np.flatnonzero((time < times[-1]) & (time >= times[0]))
        at = np.searchsorted(times, time[flying], side="right") - 1
        span = (times[at + 1] - times[at])[:, None]
        s, way = (time[flying] - times[at])[:, None] / span, p[at + 1] - p[at]
        begun, ends = (way, way) if v is None else (v[at] * span, v[at + 1] * span)
        rows[flying, P] = p[at] + s * begun + s**2 * (3 * way - 2 * begun - ends) + s**3 * (begun + ends - 2 * way)
        rows[flying, V] = (begun + 2 * s * (3 * way - 2 * begun - ends) + 3 * s**2 * (begun + ends - 2 * way)) / span
        rows[flying, A] = (2 * (3 * way - 2 * begun - ends) + 6 * s * (begun + ends - 2 * way)) / span**2
        rate = (yaw[at + 1] - yaw[at]) / span[:, 0]
        rows[flying, YAW], rows[flying, YAW_RATE] = yaw[at] + s[:, 0] * (yaw[at + 1] - yaw[at]), rate
        return rows


class Motors(NamedTuple):
    """The command of the motors itself, as the vehicle takes it, for as long as it lives"""

    command: Array


Wish = Place | Velocity | Path | Motors


def _still(anchor: Array, time: Array) -> Array:
    """At the anchor's place and yaw, at rest: (times, fields)"""
    rows = np.zeros((len(time), len(REFERENCE_FIELDS)))
    rows[:, P], rows[:, YAW] = anchor[P], anchor[YAW]
    return rows
