"""A bag of ROS 2 in one MCAP file, which `ros2 bag`, Foxglove, PlotJuggler and rosbags read as it is."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from mcap.writer import CompressionType, Writer

from samara.core.atomic_files import atomic_write
from samara.core.types import Array
from samara.core.version import __version__
from samara.record.flight_streams import is_reading
from samara.record.recording import RecordingError
from samara.record.ros2.messages import Topic, schema_name, schema_text, type_hash
from samara.record.ros2.topics import topics_of
from samara.record.run import Run, scenario_inside

SPAN_US = 5_000_000  # of which messages are in memory at a time
FOREVER = "{sec: 9223372036, nsec: 854775807}"
QUALITY = """- history: keep_last
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
    """The run's messages in an MCAP file; where its sensors sit is known from the scenario inside it"""
    sensed = any(is_reading(table) for track in run.tracks for table in track.tables.values())
    scenario = scenario_inside(run) if sensed else None  # it plans the flight anew, which may take a while
    sensors = {drone.name: drone.sensors for drone in scenario.drones} if scenario else {}
    return write_bag(topics_of(run, sensors), path)


def write_bag(topics: Sequence[Topic], path: str | Path) -> Path:
    """All messages in the order of their times; those of one instant in the order of the topics"""
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(profile="ros2", library=f"samara {__version__}")
        channels = _registered(writer, topics)
        sent = dict.fromkeys(channels.values(), 0)
        end_us = max((int(topic.times_us[-1]) for topic in topics if len(topic.times_us)), default=0)
        for begin_us in range(0, end_us + 1, SPAN_US):
            for time_us, channel, data in _messages(topics, channels, begin_us):
                writer.add_message(channel, 1000 * time_us, data, 1000 * time_us, sent[channel])
                sent[channel] += 1
        writer.finish()  # type: ignore[no-untyped-call]
    return Path(path)


def _registered(writer: Writer, topics: Sequence[Topic]) -> dict[str, int]:
    """The channel of each topic; RecordingError where two of one name are of different types"""
    kinds: dict[str, str] = {}
    schemas: dict[str, int] = {}
    channels: dict[str, int] = {}
    for topic in topics:
        kind = topic.layout.kind
        if kinds.setdefault(topic.name, kind) != kind:
            raise RecordingError(
                f"topic {topic.name!r} would be both {kinds[topic.name]} and {kind}; expected a sensor of another name"
            )
        if kind not in schemas:
            schemas[kind] = writer.register_schema(schema_name(kind), "ros2msg", schema_text(kind).encode())
        if topic.name not in channels:
            quality = QUALITY.format(
                depth=1 if topic.latched else 10,
                durability="transient_local" if topic.latched else "volatile",
                forever=FOREVER,
            )
            metadata = {"offered_qos_profiles": quality, "topic_type_hash": type_hash(kind)}
            channels[topic.name] = writer.register_channel(topic.name, "cdr", schemas[kind], metadata)
    return channels


def _messages(topics: Sequence[Topic], channels: Mapping[str, int], begin_us: int) -> Iterator[tuple[int, int, bytes]]:
    """Time, channel and bytes of all messages of one span, in order"""
    times, where = [], []
    data: list[tuple[int, Array]] = []
    for topic in topics:
        some = slice(*np.searchsorted(topic.times_us, [begin_us, begin_us + SPAN_US]))
        if some.start == some.stop:
            continue
        times.append(topic.times_us[some])
        where.append(np.stack([np.full(len(times[-1]), len(data)), np.arange(len(times[-1]))]))
        data.append((channels[topic.name], topic.packed(some)))
    if not data:
        return
    together, places = np.concatenate(times), np.concatenate(where, axis=1)
    order = np.argsort(together, kind="stable")
    for time_us, which, row in zip(together[order].tolist(), *places[:, order].tolist(), strict=True):
        channel, rows = data[which]
        yield time_us, channel, rows[row].tobytes()
