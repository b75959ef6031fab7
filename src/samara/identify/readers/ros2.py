"""ROS 2 bags: an `.mcap`, a `.db3`, or a folder of either.

Values are read at their CDR offsets according to `TYPES`; definitions in the file are not compiled. Topics are found by their
types, of several the one with most messages, or by a map of topics instead of columns:

    motors = "/motors"               # std_msgs/Float32MultiArray, actuator_msgs/Actuators or px4_msgs/ActuatorMotors
    motor_range = [0, 1000]          # the values of zero and full thrust; 0 and 1 by default
    numbering = "crazyflie"
    pose = "/vicon/drone/pose"       # geometry_msgs/PoseStamped, nav_msgs/Odometry, px4_msgs/VehicleOdometry …
    imu = "/imu"                     # sensor_msgs/Imu or px4_msgs/SensorCombined
    battery = "/battery"             # sensor_msgs/BatteryState or px4_msgs/BatteryStatus
    truth = "estimate"               # the source of the pose; a PoseStamped counts as motion capture

A message has the time of its stamp. If stamps are on another clock than receptions, they are shifted by the least difference.
Axes are ENU and FLU, except for `px4_msgs`, which are NED and FRD. Only the first fields of a PX4 message are read: they
stayed the same while later ones changed. Files named in a `metadata.yaml` are not opened: a folder's files are those in it.
"""

import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.budget import Budget, decompressed_limit, format_byte_count
from samara.core.sanitise import quote_value
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.csv_mapping import NUMBERING_NAMES, map_table, motor_range
from samara.identify.readers.registry import enu_attitude, enu_rows, flu_rows, signal
from samara.record.mcap_writer import decompress

if TYPE_CHECKING:
    from mcap.records import McapRecord

MAX_BAG_BYTES = 2 << 30  # size of all files of a folder
MAX_MESSAGES = 2_000_000  # messages in a small file; a large one may have one for every four bytes
MAX_CHUNK_BYTES = 1 << 25
MAX_RECORD_BYTES = 1 << 28
INSTRUCTIONS_PER_CHECK = 100_000  # of SQLite's virtual machine
MAX_INSTRUCTIONS = 10_000_000  # for a small file; a query of a complete bag takes some ten for each message


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".mcap", ".db3") and file.is_file())
    if not files:
        raise ValueError(f"{path}: is a folder without .mcap or .db3; expected a ROS 2 bag")
    Budget(path, max_bytes=MAX_BAG_BYTES).spend_bytes(sum(file.stat().st_size for file in files))
    return files


def read_topics(path: Path) -> dict[tuple[str, str], int]:
    """Return the message count of each (topic, type)."""
    counts: dict[tuple[str, str], int] = {}
    for file in _files(path):
        for topic, message_type, count in _mcap_topics(file) if _is_mcap(file) else _sqlite_topics(file):
            counts[topic, message_type] = counts.get((topic, message_type), 0) + count
    return counts


def read_messages(path: Path, topics: set[str]) -> Iterator[tuple[str, int, bytes]]:
    """Yield (topic, time of reception [ns], bytes)."""
    for file in _files(path):
        yield from _mcap_messages(file, topics) if _is_mcap(file) else _sqlite_messages(file, topics)


def _is_mcap(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(5) == b"\x89MCAP"


def _mcap_topics(file: Path) -> list[tuple[str, str, int]]:
    from mcap.reader import make_reader

    with file.open("rb") as opened, _readable_bag(file):
        summary = make_reader(opened).get_summary()
        if summary is None or summary.statistics is None:
            raise ValueError(f"{file}: is not closed; expected a whole ROS 2 bag")
        counts = summary.statistics.channel_message_counts
        return [
            (channel.topic, summary.schemas[channel.schema_id].name, counts.get(channel.id, 0))
            for channel in summary.channels.values()
            if channel.message_encoding == "cdr" and channel.schema_id in summary.schemas
        ]


def _mcap_messages(file: Path, topics: set[str]) -> Iterator[tuple[str, int, bytes]]:
    """Yield messages in order of time; chunks are decompressed here, up to their stated size, because `mcap` has no limit."""
    from mcap.records import Channel, Message

    channels: dict[int, str] = {}
    messages: list[tuple[int, str, bytes]] = []
    with file.open("rb") as opened, _readable_bag(file):
        for record in _mcap_records(file, opened):
            if isinstance(record, Channel):
                channels[record.id] = record.topic
            elif isinstance(record, Message) and channels.get(record.channel_id) in topics:
                messages.append((record.log_time, channels[record.channel_id], record.data))
    messages.sort(key=lambda message: message[0])
    for time_ns, topic, data in messages:
        yield topic, time_ns, data


def _mcap_records(file: Path, opened: BinaryIO) -> "Iterator[McapRecord]":
    """Yield the records of the data section, with chunks replaced by their records."""
    from mcap.records import Chunk, DataEnd, Message
    from mcap.stream_reader import StreamReader, breakup_chunk

    size = file.stat().st_size
    budget = Budget(file, max_bytes=decompressed_limit(size), max_nodes=MAX_MESSAGES + size // 4)
    for record in StreamReader(opened, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES).records:
        if isinstance(record, DataEnd):
            return
        if not isinstance(record, Chunk):
            yield record
            continue
        budget.spend_bytes(record.uncompressed_size, "bytes after decompression")
        if record.uncompressed_size > MAX_CHUNK_BYTES:
            raise budget.overrun(
                f"has a chunk of {format_byte_count(record.uncompressed_size)}", format_byte_count(MAX_CHUNK_BYTES)
            )
        data = decompress(record.data, record.compression, record.uncompressed_size)
        if len(data) != record.uncompressed_size:
            raise ValueError(f"{file}: has a chunk that differs from its stated size; expected a whole ROS 2 bag")
        for inner in breakup_chunk(replace(record, compression="", data=data), validate_crc=True):
            budget.spend_nodes(1 if isinstance(inner, Message) else 100, "messages")
            yield inner


def _open_sqlite(file: Path) -> sqlite3.Connection:
    """Open read-only; functions and views of the file are not trusted, and queries end with the budget."""
    size = file.stat().st_size
    opened = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(size, 1 << 16))  # a value is never longer than the file
    checks_left = (MAX_INSTRUCTIONS + 50 * size) // INSTRUCTIONS_PER_CHECK

    def is_spent() -> bool:
        nonlocal checks_left
        checks_left -= 1
        return checks_left < 0

    opened.set_progress_handler(is_spent, INSTRUCTIONS_PER_CHECK)
    opened.execute("PRAGMA trusted_schema = OFF")
    try:
        tables = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
        missing = {"topics", "messages"} - {name for (name,) in tables}
        if missing:
            raise ValueError(f"{file}: has no table {max(missing)!r}; expected a whole ROS 2 bag")
    except BaseException:
        opened.close()
        raise
    return opened


def _sqlite_topics(file: Path) -> list[tuple[str, str, int]]:
    with _readable_bag(file), closing(_open_sqlite(file)) as opened:
        counts = dict(opened.execute("SELECT topic_id, count(*) FROM messages GROUP BY topic_id"))
        query = "SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'"
        return [
            (str(name), str(message_type), int(counts.get(topic_id, 0)))
            for topic_id, name, message_type in opened.execute(query)
        ]


def _sqlite_messages(file: Path, topics: set[str]) -> Iterator[tuple[str, int, bytes]]:
    size = file.stat().st_size
    budget = Budget(file, max_bytes=size, max_nodes=MAX_MESSAGES + size // 4)
    with _readable_bag(file), closing(_open_sqlite(file)) as opened:
        names = {topic_id: name for topic_id, name in opened.execute("SELECT id, name FROM topics") if name in topics}
        marks = ",".join("?" * len(names))
        query = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY timestamp"
        for topic_id, time, data in opened.execute(query, list(names)):
            budget.spend_bytes(len(data), "bytes in messages")
            budget.spend_nodes(1, "messages")
            yield names[topic_id], int(time), bytes(data)


@contextmanager
def _readable_bag(file: Path) -> Iterator[None]:
    """Convert the libraries' errors about invalid bytes to one sentence."""
    from mcap.exceptions import McapError

    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise ValueError(f"{file}: cannot be read ({error}); expected a whole ROS 2 bag") from None
        limit = MAX_INSTRUCTIONS + 50 * file.stat().st_size
        raise Budget(file).overrun("takes too many steps of SQLite", f"{limit:,}") from None
    except (sqlite3.Error, McapError, struct.error, EOFError, ArithmeticError, LookupError) as error:
        raise ValueError(f"{file}: cannot be read ({error}); expected a whole ROS 2 bag") from None


MAX_MOTOR_VALUES = 64  # in one message of motors


class MessageRow(NamedTuple):
    """The contents of one message: its stamp [s] or None, and its values."""

    stamp: float | None
    numbers: tuple[float, ...]


class MessageType(NamedTuple):
    """The role of a message type, its decoder, and the conversion of its values (k, n) to signals."""

    role: str
    read: Callable[["Cdr"], MessageRow]
    signals: Callable[[Array], dict[str, Array]]


class Cdr:
    """Little-endian values of a message, each aligned to its size after the four bytes of the head."""

    def __init__(self, data: bytes) -> None:
        if data[:2] != b"\0\1":
            raise ValueError(f"a message begins with {data[:4]!r}; expected CDR, little-endian")
        self.data, self.at = data[4:], 0

    def take(self, letter: str, count: int = 1) -> tuple[Any, ...]:
        """Decode `count` values of a `struct` letter."""
        size = struct.calcsize(letter)
        start = self.at + -self.at % size
        self.at = start + count * size
        return struct.unpack_from(f"<{count}{letter}", self.data, start)

    def text(self) -> None:
        """Skip a text."""
        (length,) = self.take("I")
        self.at += length

    def stamp(self) -> float:
        """Decode the stamp of a header  [s]."""
        seconds, nanoseconds = self.take("i")[0], self.take("I")[0]
        self.text()
        return float(seconds) + 1e-9 * float(nanoseconds)

    def sequence(self, letter: str) -> tuple[Any, ...]:
        (count,) = self.take("I")
        if count > MAX_MOTOR_VALUES:
            raise ValueError(f"a message holds {count} numbers; expected those of motors")
        return self.take(letter, count) if count else ()


def _odometry(cdr: Cdr) -> MessageRow:
    stamp = cdr.stamp()
    cdr.text()
    pose = cdr.take("d", 7)
    cdr.take("d", 36)
    return MessageRow(stamp, pose + cdr.take("d", 6))


def _imu(cdr: Cdr) -> MessageRow:
    stamp = cdr.stamp()
    cdr.take("d", 4 + 9)
    rate = cdr.take("d", 3)
    cdr.take("d", 9)
    return MessageRow(stamp, rate + cdr.take("d", 3))


def _stamped_values(letter: str, count: int) -> Callable[[Cdr], MessageRow]:
    return lambda cdr: MessageRow(cdr.stamp(), cdr.take(letter, count))


def _multi_array(letter: str) -> Callable[[Cdr], MessageRow]:
    def read(cdr: Cdr) -> MessageRow:
        (dimensions,) = cdr.take("I")
        for _ in range(min(dimensions, MAX_MOTOR_VALUES)):
            cdr.text()
            cdr.take("I", 2)
        cdr.take("I")
        return MessageRow(None, cdr.sequence(letter))

    return read


def _actuators(cdr: Cdr) -> MessageRow:
    stamp = cdr.stamp()
    cdr.sequence("d")
    cdr.sequence("d")
    return MessageRow(stamp, cdr.sequence("d"))


def _px4_decoder(*parts: tuple[str, int, bool], sampled: bool = True) -> Callable[[Cdr], MessageRow]:
    """Return a decoder of PX4 messages: times in µs, then (letter, count, whether used)."""

    def read(cdr: Cdr) -> MessageRow:
        times = cdr.take("Q", 2 if sampled else 1)
        numbers: tuple[float, ...] = ()
        for letter, count, is_used in parts:
            values = cdr.take(letter, count)
            numbers += values if is_used else ()
        return MessageRow(1e-6 * (times[-1] or times[0]), numbers)

    return read


def _px4_motors(cdr: Cdr) -> MessageRow:
    (time, _), _ = cdr.take("Q", 2), cdr.take("H")
    count = min((len(cdr.data) - cdr.at - 2) // 4, MAX_MOTOR_VALUES)
    return MessageRow(1e-6 * time, cdr.take("f", count))


def _px4_commands(rows: Array) -> dict[str, Array]:
    return {"command": np.nan_to_num(rows[np.isfinite(rows).any(axis=1)], nan=0.0)}


def _odometry_signals(rows: Array) -> dict[str, Array]:
    """Convert odometry to signals; its velocity is in body axes."""
    q_WB = rows[[6, 3, 4, 5]]
    velocity = rotate(Quat(*q_WB), Vec3(*rows[7:10]))
    return {"position": rows[:3], "attitude": q_WB, "velocity": np.stack(velocity), "rate": rows[10:13]}


def _px4_odometry(rows: Array) -> dict[str, Array]:
    in_world = rows[7] < 3  # 1 NED, 2 FRD of the world, 3 FRD of the body
    v_FRD = rotate(Quat(*rows[3:7]), Vec3(*rows[8:11]))
    velocity = np.where(in_world, rows[8:11], np.stack(v_FRD))
    return {
        "position": enu_rows(rows[:3]),
        "attitude": enu_attitude(rows[3:7]),
        "velocity": enu_rows(velocity),
        "rate": flu_rows(rows[11:14]),
    }


TYPES = {
    "std_msgs/msg/Float32MultiArray": MessageType("motors", _multi_array("f"), lambda rows: {"command": rows}),
    "std_msgs/msg/Float64MultiArray": MessageType("motors", _multi_array("d"), lambda rows: {"command": rows}),
    "actuator_msgs/msg/Actuators": MessageType("motors", _actuators, lambda rows: {"command": rows}),
    "px4_msgs/msg/ActuatorMotors": MessageType("motors", _px4_motors, _px4_commands),
    "geometry_msgs/msg/PoseStamped": MessageType(
        "pose", _stamped_values("d", 7), lambda rows: {"position": rows[:3], "attitude": rows[[6, 3, 4, 5]]}
    ),
    "nav_msgs/msg/Odometry": MessageType("pose", _odometry, _odometry_signals),
    "px4_msgs/msg/VehicleOdometry": MessageType(
        "pose",
        _px4_decoder(("B", 1, False), ("f", 3, True), ("f", 4, True), ("B", 1, True), ("f", 3, True), ("f", 3, True)),
        _px4_odometry,
    ),
    "sensor_msgs/msg/Imu": MessageType("imu", _imu, lambda rows: {"rate": rows[:3], "specific_force": rows[3:]}),
    "px4_msgs/msg/SensorCombined": MessageType(
        "imu",
        _px4_decoder(("f", 3, True), ("I", 1, False), ("i", 1, False), ("f", 3, True), sampled=False),
        lambda rows: {"rate": flu_rows(rows[:3]), "specific_force": flu_rows(rows[3:])},
    ),
    "sensor_msgs/msg/BatteryState": MessageType("battery", _stamped_values("f", 1), lambda rows: {"voltage": rows}),
    "px4_msgs/msg/BatteryStatus": MessageType(
        "battery", _px4_decoder(("?", 1, False), ("f", 1, True), sampled=False), lambda rows: {"voltage": rows}
    ),
}


MAX_CLOCK_DIFFERENCE_S = 1.0  # [s]: stamps and receptions closer than this are on one clock
ROLES = ("battery", "pose", "imu", "motors")  # a later role overrides a signal: the IMU's rate, not the odometry's


class TopicMap(NamedTuple):
    """The topic of each role, if given, and the range, order and truth of the signals."""

    topics: dict[str, str]
    motor_range: tuple[float, float]
    numbering: str
    truth: str


def read(path: Path, columns: str | Path | Mapping[str, object] | None = None) -> list[FlightLog]:
    """Read the one flight of a bag."""
    mapping = topic_map(columns)
    selected = _select_topics(path, mapping)
    rows: dict[str, list[tuple[int, MessageRow]]] = {topic: [] for topic, _ in selected.values()}
    types = dict(selected.values())
    for topic, time_ns, data in read_messages(path, set(types)):
        try:
            rows[topic].append((time_ns, TYPES[types[topic]].read(Cdr(data))))
        except (struct.error, ValueError) as error:
            raise ValueError(f"{path}: topic {quote_value(topic)}: {error}; expected whole {types[topic]}") from None
    signals: dict[str, Any] = {}
    for role in ROLES:
        if role in selected:
            topic, message_type = selected[role]
            signals |= _signals(path, topic, rows[topic], TYPES[message_type])
    low, high = mapping.motor_range
    command = signals.pop("command")
    message_type = selected["motors"][1]
    pose_type = selected.get("pose", ("", ""))[1]
    default_truth = MOTION_CAPTURE if pose_type == "geometry_msgs/msg/PoseStamped" else ESTIMATE
    numbering = mapping.numbering or ("px4" if message_type.startswith("px4_msgs") else "samara")
    return [
        FlightLog(
            path.stem,
            "ros2",
            numbering,
            Signal(command.time, (command.values - low) / (high - low)),
            truth=(mapping.truth or default_truth) if pose_type else "",
            notes=tuple(f"{role} from {topic} ({message_type})" for role, (topic, message_type) in selected.items()),
            **signals,
        )
    ]


def topic_map(source: str | Path | Mapping[str, object] | None) -> TopicMap:
    """Read the map from a TOML file or a dictionary; raise ValueError naming an invalid key."""
    table = map_table({} if source is None else source, "topics")
    topics = {role: table.text(role) for role in ROLES if role in table}
    numbering = table.text("numbering", choices=NUMBERING_NAMES) if "numbering" in table else ""
    truth = table.text("truth", choices=(MOTION_CAPTURE, ESTIMATE)) if "truth" in table else ""
    mapping = TopicMap(topics, motor_range(table), numbering, truth)
    table.finish()
    return mapping


def _select_topics(path: Path, mapping: TopicMap) -> dict[str, tuple[str, str]]:
    """Return the topic of each role and its type."""
    counts = read_topics(path)
    selected = {}
    for role in reversed(ROLES):
        topic = mapping.topics.get(role)
        if topic is not None:
            types = [message_type for (name, message_type) in counts if name == topic]
            if not types or types[0] not in TYPES or TYPES[types[0]].role != role:
                expected = ", ".join(
                    message_type for message_type, candidate in TYPES.items() if candidate.role == role
                )
                problem = f"is {types[0]}" if types else "is not in it"
                raise ValueError(f"{path}: topic {quote_value(topic)} {problem}; expected one of {expected}")
            selected[role] = (topic, types[0])
            continue
        supported = {topic: count for topic, count in counts.items() if count and topic[1] in TYPES}
        candidates = [(count, *topic) for topic, count in supported.items() if TYPES[topic[1]].role == role]
        if candidates:
            selected[role] = max(candidates)[1:]
    if "motors" not in selected:
        expected = ", ".join(message_type for message_type, candidate in TYPES.items() if candidate.role == "motors")
        raise ValueError(f"{path}: holds no motors; expected a topic of {expected}")
    return selected


def _signals(
    path: Path, topic: str, rows: list[tuple[int, MessageRow]], message_type: MessageType
) -> dict[str, Signal]:
    sizes = {len(row.numbers) for _, row in rows}
    if len(sizes) != 1 or not max(sizes):
        counts = ", ".join(map(str, sorted(sizes))) or "no"
        raise ValueError(f"{path}: messages of {quote_value(topic)} have {counts} numbers; expected as many in each")
    numbers = np.array([row.numbers for _, row in rows], dtype=float).T
    received = 1e-9 * np.array([time for time, _ in rows], dtype=float)
    time = received
    if all(row.stamp for _, row in rows):
        stamps = np.array([row.stamp for _, row in rows])
        offset = float((received - stamps).min())
        time = stamps if abs(offset) < MAX_CLOCK_DIFFERENCE_S else stamps + offset
    return {name: signal(time, values) for name, values in message_type.signals(numbers).items()}
