"""ROS 2 bags: a `.mcap`, a `.db3`, or the folder of one.

Numbers are read from where CDR puts them in `TYPES`; definitions that a file brings along are not
compiled. Topics are found by their types, of several the one with most messages, or by a map of topics in the place of columns:

    motors = "/motors"               # std_msgs/Float32MultiArray, actuator_msgs/Actuators or px4_msgs/ActuatorMotors
    motor_range = [0, 1000]          # the values of no thrust and of all of it; 0 and 1 by default
    numbering = "crazyflie"
    pose = "/vicon/drone/pose"       # geometry_msgs/PoseStamped, nav_msgs/Odometry, px4_msgs/VehicleOdometry …
    imu = "/imu"                     # sensor_msgs/Imu or px4_msgs/SensorCombined
    battery = "/battery"             # sensor_msgs/BatteryState or px4_msgs/BatteryStatus
    truth = "estimate"               # what the pose is; a PoseStamped is taken for motion capture

A message has the time of its stamp. Where stamps are of another clock than receptions, they are moved by the least difference.
Axes are ENU and FLU, but for `px4_msgs`, which are NED and FRD. Of a message of PX4 only its first fields are read: they
stayed the same while later ones changed. No file is opened that a `metadata.yaml` names: a folder's are those that lie in it.
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
from samara.core.budget import Budget, decompressed_limit, size_text
from samara.core.sanitise import shown
from samara.core.types import Array
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.csv_mapping import SYSTEMS, given_table, range_of
from samara.identify.readers.registry import enu, enu_attitude, flu, signal
from samara.record.mcap_writer import decompressed

if TYPE_CHECKING:
    from mcap.records import McapRecord

MAX_BAG_BYTES = 2 << 30  # of all files of a folder
MAX_MESSAGES = 2_000_000  # of a small file; a large one may have one for every four bytes
MAX_CHUNK_BYTES = 1 << 25
MAX_RECORD_BYTES = 1 << 28
INSTRUCTIONS_PER_CHECK = 100_000  # of SQLite's virtual machine
MAX_INSTRUCTIONS = 10_000_000  # for a small file; a query of a whole bag takes some ten for each message


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(own for own in path.iterdir() if own.suffix in (".mcap", ".db3") and own.is_file())
    if not files:
        raise ValueError(f"{path}: is a folder without .mcap or .db3; expected a ROS 2 bag")
    Budget(path, max_bytes=MAX_BAG_BYTES).spend_bytes(sum(own.stat().st_size for own in files))
    return files


def topics_of(path: Path) -> dict[tuple[str, str], int]:
    """(topic, type) and how many messages"""
    found: dict[tuple[str, str], int] = {}
    for file in _files(path):
        for topic, kind, count in _mcap_topics(file) if _is_mcap(file) else _sqlite_topics(file):
            found[topic, kind] = found.get((topic, kind), 0) + count
    return found


def messages_of(path: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    """(topic, time of reception [ns], bytes)"""
    for file in _files(path):
        yield from _mcap_messages(file, wanted) if _is_mcap(file) else _sqlite_messages(file, wanted)


def _is_mcap(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(5) == b"\x89MCAP"


def _mcap_topics(file: Path) -> list[tuple[str, str, int]]:
    from mcap.reader import make_reader

    with file.open("rb") as opened, _whole_bag(file):
        summary = make_reader(opened).get_summary()
        if summary is None or summary.statistics is None:
            raise ValueError(f"{file}: is not closed; expected a whole ROS 2 bag")
        counts = summary.statistics.channel_message_counts
        return [
            (own.topic, summary.schemas[own.schema_id].name, counts.get(own.id, 0))
            for own in summary.channels.values()
            if own.message_encoding == "cdr" and own.schema_id in summary.schemas
        ]


def _mcap_messages(file: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    """In the order of their times; chunks are decompressed here, as far as they say, for `mcap` knows no limit."""
    from mcap.records import Channel, Message

    channels: dict[int, str] = {}
    found: list[tuple[int, str, bytes]] = []
    with file.open("rb") as opened, _whole_bag(file):
        for record in _mcap_records(file, opened):
            if isinstance(record, Channel):
                channels[record.id] = record.topic
            elif isinstance(record, Message) and channels.get(record.channel_id) in wanted:
                found.append((record.log_time, channels[record.channel_id], record.data))
    found.sort(key=lambda message: message[0])
    for time_ns, topic, data in found:
        yield topic, time_ns, data


def _mcap_records(file: Path, opened: BinaryIO) -> "Iterator[McapRecord]":
    """The records of the data section, those of chunks in their place"""
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
            raise budget.overrun(f"has a chunk of {size_text(record.uncompressed_size)}", size_text(MAX_CHUNK_BYTES))
        data = decompressed(record.data, record.compression, record.uncompressed_size)
        if len(data) != record.uncompressed_size:
            raise ValueError(f"{file}: has a chunk of another size than it says; expected a whole ROS 2 bag")
        for inner in breakup_chunk(replace(record, compression="", data=data), validate_crc=True):
            budget.spend_nodes(1 if isinstance(inner, Message) else 100, "messages")
            yield inner


def _sqlite(file: Path) -> sqlite3.Connection:
    """Read only; what the file says of functions and views is not trusted, and queries end with the budget"""
    size = file.stat().st_size
    opened = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(size, 1 << 16))  # no value is longer than the file
    left = (MAX_INSTRUCTIONS + 50 * size) // INSTRUCTIONS_PER_CHECK

    def is_spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

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
    with _whole_bag(file), closing(_sqlite(file)) as opened:
        counts = dict(opened.execute("SELECT topic_id, count(*) FROM messages GROUP BY topic_id"))
        asked = "SELECT id, name, type FROM topics WHERE serialization_format = 'cdr'"
        return [(str(name), str(kind), int(counts.get(number, 0))) for number, name, kind in opened.execute(asked)]


def _sqlite_messages(file: Path, wanted: set[str]) -> Iterator[tuple[str, int, bytes]]:
    size = file.stat().st_size
    budget = Budget(file, max_bytes=size, max_nodes=MAX_MESSAGES + size // 4)
    with _whole_bag(file), closing(_sqlite(file)) as opened:
        names = {number: name for number, name in opened.execute("SELECT id, name FROM topics") if name in wanted}
        marks = ",".join("?" * len(names))
        asked = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY timestamp"
        for number, time, data in opened.execute(asked, list(names)):
            budget.spend_bytes(len(data), "bytes in messages")
            budget.spend_nodes(1, "messages")
            yield names[number], int(time), bytes(data)


@contextmanager
def _whole_bag(file: Path) -> Iterator[None]:
    """What the libraries raise on bytes they did not write is one sentence"""
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


SAME_CLOCK = 1.0  # [s]: stamps and receptions nearer than this are of one clock
ROLES = ("battery", "pose", "imu", "motors")  # what a later one says of a signal stands: an IMU's rate, not odometry's


class TopicMap(NamedTuple):
    """The topic of each role, where it is given, and what the numbers of motors mean"""

    topics: dict[str, str]
    motor_range: tuple[float, float]
    numbering: str
    truth: str


def read(path: Path, columns: str | Path | Mapping[str, object] | None = None) -> list[FlightLog]:
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


def topic_map(given: str | Path | Mapping[str, object] | None) -> TopicMap:
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
