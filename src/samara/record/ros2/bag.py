"""Write a ROS 2 bag in one MCAP file, which `ros2 bag`, Foxglove, PlotJuggler and rosbags read."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from mcap.writer import CompressionType, Writer

from samara.core.atomic_files import atomic_write
from samara.core.types import Array
from samara.core.version import __version__
from samara.record.flight_streams import is_reading
from samara.record.recording import RecordingError
from samara.record.ros2.messages import Ros2Topic, schema_name, schema_text, type_hash
from samara.record.ros2.topics import run_topics
from samara.record.run import Run, embedded_scenario

SPAN_US = 5_000_000  # time span of the messages in memory at once
INFINITE_DURATION = "{sec: 9223372036, nsec: 854775807}"
QOS_PROFILE = """- history: keep_last
  depth: {depth}
  reliability: reliable
  durability: {durability}
  deadline: {forever}
  lifespan: {forever}
  liveliness: automatic
  liveliness_lease_duration: {forever}
  avoid_ros_namespace_conventions: false
"""


def write_ros2_bag(run: Run, path: str | Path) -> Path:
    """Write a run's messages to an MCAP file; the embedded scenario gives the mountings of its sensors."""
    has_readings = any(
        is_reading(table) for drone_record in run.drone_records for table in drone_record.tables.values()
    )
    scenario = (
        embedded_scenario(run) if has_readings else None
    )  # parsing it plans the flight again, which may take a while
    sensors = {drone.name: drone.sensors for drone in scenario.drones} if scenario else {}
    return write_bag(run_topics(run, sensors), path)


def write_bag(topics: Sequence[Ros2Topic], path: str | Path) -> Path:
    """Write all messages in the order of time; those of one instant in the order of the topics."""
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile="ros2", library=f"samara {__version__}")
        channels = _register_channels(writer, topics)
        message_counts = dict.fromkeys(channels.values(), 0)
        end_us = max((int(topic.times_us[-1]) for topic in topics if len(topic.times_us)), default=0)
        for begin_us in range(0, end_us + 1, SPAN_US):
            for time_us, channel, data in _messages(topics, channels, begin_us):
                writer.add_message(channel, 1000 * time_us, data, 1000 * time_us, message_counts[channel])
                message_counts[channel] += 1
        writer.finish()  # type: ignore[no-untyped-call]
    return Path(path)


def _register_channels(writer: Writer, topics: Sequence[Ros2Topic]) -> dict[str, int]:
    """Register the channel of each topic; raise RecordingError if two topics of one name have different types."""
    types_by_topic: dict[str, str] = {}
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    for topic in topics:
        message_type = topic.layout.message_type
        if types_by_topic.setdefault(topic.name, message_type) != message_type:
            raise RecordingError(
                f"topic {topic.name!r} would be both {types_by_topic[topic.name]} and {message_type}; "
                "expected a sensor of another name"
            )
        if message_type not in schemas:
            schemas[message_type] = writer.register_schema(
                schema_name(message_type), "ros2msg", schema_text(message_type).encode()
            )
        if topic.name not in channels:
            qos = QOS_PROFILE.format(
                depth=1 if topic.latched else 10,
                durability="transient_local" if topic.latched else "volatile",
                forever=INFINITE_DURATION,
            )
            metadata = {"offered_qos_profiles": qos, "topic_type_hash": type_hash(message_type)}
            channels[topic.name] = writer.register_channel(topic.name, "cdr", schemas[message_type], metadata)
    return channels


def _messages(
    topics: Sequence[Ros2Topic], channels: Mapping[str, int], begin_us: int
) -> Iterator[tuple[int, int, bytes]]:
    """Yield time, channel and bytes of all messages of one span, in order."""
    times, indexes = [], []
    data: list[tuple[int, Array]] = []
    for topic in topics:
        selection = slice(*np.searchsorted(topic.times_us, [begin_us, begin_us + SPAN_US]))
        if selection.start == selection.stop:
            continue
        times.append(topic.times_us[selection])
        indexes.append(np.stack([np.full(len(times[-1]), len(data)), np.arange(len(times[-1]))]))
        data.append((channels[topic.name], topic.pack(selection)))
    if not data:
        return
    all_times, all_indexes = np.concatenate(times), np.concatenate(indexes, axis=1)
    order = np.argsort(all_times, kind="stable")
    for time_us, topic_index, row in zip(all_times[order].tolist(), *all_indexes[:, order].tolist(), strict=True):
        channel, rows = data[topic_index]
        yield time_us, channel, rows[row].tobytes()
