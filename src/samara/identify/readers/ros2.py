"""ROS 2 bags: a `.mcap`, a `.db3`, or the folder of one.

Numbers are read from where CDR puts them in the types known here (`ros2_types`); definitions that a file brings along are not
compiled. Topics are found by their types, of several the one with most messages, or by a map of topics in the place of columns:

    motors = "/motors"               # std_msgs/Float32MultiArray, actuator_msgs/Actuators or px4_msgs/ActuatorMotors
    motor_range = [0, 1000]          # the values of no thrust and of all of it; 0 and 1 by default
    numbering = "crazyflie"
    pose = "/vicon/drone/pose"       # geometry_msgs/PoseStamped, nav_msgs/Odometry, px4_msgs/VehicleOdometry …
    imu = "/imu"                     # sensor_msgs/Imu or px4_msgs/SensorCombined
    battery = "/battery"             # sensor_msgs/BatteryState or px4_msgs/BatteryStatus
    truth = "estimate"               # what the pose is; a PoseStamped is taken for motion capture

A message has the time of its stamp. Where stamps are of another clock than receptions, they are moved by the least difference.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.sanitise import shown
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.csv_mapping import SYSTEMS, given_table, range_of
from samara.identify.readers.log_signals import signal
from samara.identify.readers.ros2_containers import messages_of, topics_of
from samara.identify.readers.ros2_types import TYPES, Cdr, Row, Type

SAME_CLOCK = 1.0  # [s]: stamps and receptions nearer than this are of one clock
ROLES = ("battery", "pose", "imu", "motors")  # what a later one says of a signal stands: an IMU's rate, not odometry's


class TopicMap(NamedTuple):
    """The topic of each role, where it is given, and what the numbers of motors mean"""

    topics: dict[str, str]
    motor_range: tuple[float, float]
    numbering: str
    truth: str


def read(path: Path, columns: str | Path | Mapping[str, Any] | None = None) -> list[FlightLog]:
    """The one flight of a bag"""
    own = topic_map(columns)
    chosen = _chosen(path, own)
    rows: dict[str, list[tuple[int, Row]]] = {topic: [] for topic, _ in chosen.values()}
    types = dict(chosen.values())
    for topic, time_ns, data in messages_of(path, set(types)):
        try:
            rows[topic].append((time_ns, TYPES[types[topic]].read(Cdr(data))))
        except (struct.error, ValueError) as error:
            raise ValueError(f"{path}: topic {shown(topic)}: {error}; expected whole {types[topic]}") from None
    found: dict[str, Any] = {}
    for role in ROLES:
        if role in chosen:
            topic, kind = chosen[role]
            found |= _signals(path, topic, rows[topic], TYPES[kind])
    low, high = own.motor_range
    command = found.pop("command")
    kind = chosen["motors"][1]
    poses = chosen.get("pose", ("", ""))[1]
    guess = MOTION_CAPTURE if poses == "geometry_msgs/msg/PoseStamped" else ESTIMATE
    numbering = own.numbering or ("px4" if kind.startswith("px4_msgs") else "samara")
    return [
        FlightLog(
            path.stem,
            "ros2",
            numbering,
            Signal(command.time, (command.values - low) / (high - low)),
            truth=(own.truth or guess) if poses else "",
            notes=tuple(f"{role} from {topic} ({kind})" for role, (topic, kind) in chosen.items()),
            **found,
        )
    ]


def topic_map(given: str | Path | Mapping[str, Any] | None) -> TopicMap:
    """The map of a TOML file or a dictionary; ValueError naming the key that is wrong"""
    table = given_table({} if given is None else given, "topics")
    topics = {role: table.text(role) for role in ROLES if role in table}
    numbering = table.text("numbering", choices=SYSTEMS) if "numbering" in table else ""
    truth = table.text("truth", choices=(MOTION_CAPTURE, ESTIMATE)) if "truth" in table else ""
    found = TopicMap(topics, range_of(table), numbering, truth)
    table.finish()
    return found


def _chosen(path: Path, own: TopicMap) -> dict[str, tuple[str, str]]:
    """The topic of each role and its type"""
    counts = topics_of(path)
    chosen = {}
    for role in reversed(ROLES):
        topic = own.topics.get(role)
        if topic is not None:
            kinds = [kind for (name, kind) in counts if name == topic]
            if not kinds or kinds[0] not in TYPES or TYPES[kinds[0]].role != role:
                expected = ", ".join(kind for kind, own in TYPES.items() if own.role == role)
                what = f"is {kinds[0]}" if kinds else "is not in it"
                raise ValueError(f"{path}: topic {shown(topic)} {what}; expected one of {expected}")
            chosen[role] = (topic, kinds[0])
            continue
        known = {topic: count for topic, count in counts.items() if count and topic[1] in TYPES}
        fit = [(count, *topic) for topic, count in known.items() if TYPES[topic[1]].role == role]
        if fit:
            chosen[role] = max(fit)[1:]
    if "motors" not in chosen:
        expected = ", ".join(kind for kind, own in TYPES.items() if own.role == "motors")
        raise ValueError(f"{path}: holds no motors; expected a topic of {expected}")
    return chosen


def _signals(path: Path, topic: str, rows: list[tuple[int, Row]], kind: Type) -> dict[str, Signal]:
    sizes = {len(row.numbers) for _, row in rows}
    if len(sizes) != 1 or not max(sizes):
        counts = ", ".join(map(str, sorted(sizes))) or "no"
        raise ValueError(f"{path}: messages of {shown(topic)} have {counts} numbers; expected as many in each")
    numbers = np.array([row.numbers for _, row in rows], dtype=float).T
    received = 1e-9 * np.array([time for time, _ in rows], dtype=float)
    time = received
    if all(row.stamp for _, row in rows):
        stamps = np.array([row.stamp for _, row in rows])
        least = float((received - stamps).min())
        time = stamps if abs(least) < SAME_CLOCK else stamps + least
    return {name: signal(time, values) for name, values in kind.signals(numbers).items()}
