"""What is said under one name: messages of one layout at their times, in columns."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.ros2.cdr import Layout

MAP = "map"
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


class Topic(NamedTuple):
    """A topic '/drone/imu': its layout, the times of its messages (m,) [µs], and their numbers by path

    Who comes late is still told the last message of one that is `latched`.
    """

    name: str
    layout: Layout
    times_us: Array
    columns: Mapping[str, Any]
    latched: bool = False

    def packed(self, some: slice) -> Array:
        """The bytes of some of its messages (k, size)"""
        return self.layout.packed(
            len(self.times_us[some]), {path: values[some] for path, values in self.columns.items()}
        )


def stamped(times_us: Array, path: str = "header.stamp") -> dict[str, Array]:
    """Whole seconds and nanoseconds of times, as builtin_interfaces/Time has them"""
    seconds, micros = np.divmod(times_us, 1_000_000)
    return {f"{path}.sec": seconds, f"{path}.nanosec": micros * 1000}


def xyzw(q: Array) -> Array:
    """Quaternions (…, w x y z) in ROS's order"""
    return q[..., [1, 2, 3, 0]]


def ros_name(name: str) -> str:
    """A drone's name as ROS 2 allows it: letters, digits and _, not beginning with a digit"""
    plain = NOT_IN_NAMES.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain
