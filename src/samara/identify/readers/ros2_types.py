"""Types of ROS 2 messages that say something of a flight: where CDR puts their numbers, and what those are in our axes.

ENU and FLU, but for `px4_msgs`, which are NED and FRD. Of a message of PX4 only its first fields are read, which stayed the
same while later ones changed.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.types import Array
from samara.identify.readers.log_signals import enu, enu_attitude, flu

MOST_NUMBERS = 64  # in one message of motors


class Row(NamedTuple):
    """What one message says: its stamp [s] or None, and its numbers"""

    stamp: float | None
    numbers: tuple[float, ...]


class Type(NamedTuple):
    """What a type of message is for, how it is read, and how its numbers (k, n) become signals"""

    role: str
    read: Callable[["Cdr"], Row]
    signals: Callable[[Array], dict[str, Array]]


class Cdr:
    """Little-endian numbers of a message, each at a multiple of its size after the four bytes of the head"""

    def __init__(self, data: bytes) -> None:
        if data[:2] != b"\0\1":
            raise ValueError(f"a message begins with {data[:4]!r}; expected CDR, little-endian")
        self.data, self.at = data[4:], 0

    def take(self, letter: str, count: int = 1) -> tuple[Any, ...]:
        size = struct.calcsize(letter)
        start = self.at + -self.at % size
        self.at = start + count * size
        return struct.unpack_from(f"<{count}{letter}", self.data, start)

    def text(self) -> None:
        """A text is passed over"""
        (length,) = self.take("I")
        self.at += length

    def stamp(self) -> float:
        """That of a header  [s]"""
        seconds, nanoseconds = self.take("i")[0], self.take("I")[0]
        self.text()
        return float(seconds) + 1e-9 * float(nanoseconds)

    def sequence(self, letter: str) -> tuple[Any, ...]:
        (count,) = self.take("I")
        if count > MOST_NUMBERS:
            raise ValueError(f"a message holds {count} numbers; expected those of motors")
        return self.take(letter, count) if count else ()


def _odometry(cdr: Cdr) -> Row:
    stamp = cdr.stamp()
    cdr.text()
    pose = cdr.take("d", 7)
    cdr.take("d", 36)
    return Row(stamp, pose + cdr.take("d", 6))


def _imu(cdr: Cdr) -> Row:
    stamp = cdr.stamp()
    cdr.take("d", 4 + 9)
    rate = cdr.take("d", 3)
    cdr.take("d", 9)
    return Row(stamp, rate + cdr.take("d", 3))


def _stamped(letter: str, count: int) -> Callable[[Cdr], Row]:
    return lambda cdr: Row(cdr.stamp(), cdr.take(letter, count))


def _multi_array(letter: str) -> Callable[[Cdr], Row]:
    def read(cdr: Cdr) -> Row:
        (dimensions,) = cdr.take("I")
        for _ in range(min(dimensions, MOST_NUMBERS)):
            cdr.text()
            cdr.take("I", 2)
        cdr.take("I")
        return Row(None, cdr.sequence(letter))

    return read


def _actuators(cdr: Cdr) -> Row:
    stamp = cdr.stamp()
    cdr.sequence("d")
    cdr.sequence("d")
    return Row(stamp, cdr.sequence("d"))


def _px4(*parts: tuple[str, int, bool], sampled: bool = True) -> Callable[[Cdr], Row]:
    """A message of PX4: its times in µs, then (letter, count, whether wanted)"""

    def read(cdr: Cdr) -> Row:
        times = cdr.take("Q", 2 if sampled else 1)
        numbers: tuple[float, ...] = ()
        for letter, count, wanted in parts:
            found = cdr.take(letter, count)
            numbers += found if wanted else ()
        return Row(1e-6 * (times[-1] or times[0]), numbers)

    return read


def _px4_motors(cdr: Cdr) -> Row:
    (time, _), _ = cdr.take("Q", 2), cdr.take("H")
    count = min((len(cdr.data) - cdr.at - 2) // 4, MOST_NUMBERS)
    return Row(1e-6 * time, cdr.take("f", count))


def _px4_commands(rows: Array) -> dict[str, Array]:
    return {"command": np.nan_to_num(rows[np.isfinite(rows).any(axis=1)], nan=0.0)}


def _turned(rows: Array) -> dict[str, Array]:
    """Odometry's velocity is in body axes"""
    q_WB = rows[[6, 3, 4, 5]]
    velocity = rotate(Quat(*q_WB), Vec3(*rows[7:10]))
    return {"position": rows[:3], "attitude": q_WB, "velocity": np.stack(velocity), "rate": rows[10:13]}


def _px4_odometry(rows: Array) -> dict[str, Array]:
    in_world = rows[7] < 3  # 1 NED, 2 FRD of the world, 3 FRD of the body
    v_FRD = rotate(Quat(*rows[3:7]), Vec3(*rows[8:11]))
    velocity = np.where(in_world, rows[8:11], np.stack(v_FRD))
    return {
        "position": enu(rows[:3]),
        "attitude": enu_attitude(rows[3:7]),
        "velocity": enu(velocity),
        "rate": flu(rows[11:14]),
    }


TYPES = {
    "std_msgs/msg/Float32MultiArray": Type("motors", _multi_array("f"), lambda rows: {"command": rows}),
    "std_msgs/msg/Float64MultiArray": Type("motors", _multi_array("d"), lambda rows: {"command": rows}),
    "actuator_msgs/msg/Actuators": Type("motors", _actuators, lambda rows: {"command": rows}),
    "px4_msgs/msg/ActuatorMotors": Type("motors", _px4_motors, _px4_commands),
    "geometry_msgs/msg/PoseStamped": Type(
        "pose", _stamped("d", 7), lambda rows: {"position": rows[:3], "attitude": rows[[6, 3, 4, 5]]}
    ),
    "nav_msgs/msg/Odometry": Type("pose", _odometry, _turned),
    "px4_msgs/msg/VehicleOdometry": Type(
        "pose",
        _px4(("B", 1, False), ("f", 3, True), ("f", 4, True), ("B", 1, True), ("f", 3, True), ("f", 3, True)),
        _px4_odometry,
    ),
    "sensor_msgs/msg/Imu": Type("imu", _imu, lambda rows: {"rate": rows[:3], "specific_force": rows[3:]}),
    "px4_msgs/msg/SensorCombined": Type(
        "imu",
        _px4(("f", 3, True), ("I", 1, False), ("i", 1, False), ("f", 3, True), sampled=False),
        lambda rows: {"rate": flu(rows[:3]), "specific_force": flu(rows[3:])},
    ),
    "sensor_msgs/msg/BatteryState": Type("battery", _stamped("f", 1), lambda rows: {"voltage": rows}),
    "px4_msgs/msg/BatteryStatus": Type(
        "battery", _px4(("?", 1, False), ("f", 1, True), sampled=False), lambda rows: {"voltage": rows}
    ),
}
