"""The messages Foxglove draws by itself: a pose, a transform and a line of log, in its own published schemas."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from foxglove_schemas_protobuf.FrameTransform_pb2 import FrameTransform
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.Pose_pb2 import Pose
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.Quaternion_pb2 import Quaternion
from foxglove_schemas_protobuf.Vector3_pb2 import Vector3
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

from samara.core.types import Array
from samara.record.format import LEVELS, LogLine, Stream
from samara.record.layout import NANOS_MARK, SECONDS_MARK, Layout, layout_of, marker

WORLD = "world"
RATE = 30  # poses a second at most; an eye needs no more, and a tool interpolates between them
POSE_FIELDS = ("p_W.x", "p_W.y", "p_W.z", "q_WB.x", "q_WB.y", "q_WB.z", "q_WB.w")  # in the order of foxglove.Pose


class Posed(NamedTuple):
    """A stream that says where a body is: the columns of its pose, the topic it is drawn under, and its frame."""

    columns: Array
    topic: str
    frame: str


def posed(stream: Stream) -> Posed | None:
    """'/drone0/state' gives '/drone0/pose' and the frame 'drone0'; any other stream a pose and a frame below its own name."""
    if not set(POSE_FIELDS) <= set(stream.fields):
        return None
    columns = np.array([stream.fields.index(name) for name in POSE_FIELDS])
    drone, _, last = stream.topic.rpartition("/")
    owner = drone if drone and last == "state" else stream.topic
    return Posed(columns, f"{owner}/pose", owner.strip("/"))


def pose_layout(channel: int) -> Layout:
    """foxglove.PoseInFrame in the world."""
    return _any_pose().on(channel)


@cache
def _any_pose() -> Layout:
    position, orientation = _marked()
    pose = Pose(position=position, orientation=orientation)
    return layout_of(0, PoseInFrame(timestamp=_stamp(), frame_id=WORLD, pose=pose), len(POSE_FIELDS))


def transform_layout(channel: int, frame: str) -> Layout:
    """foxglove.FrameTransform from the world to a body's frame."""
    translation, rotation = _marked()
    message = FrameTransform(
        timestamp=_stamp(), parent_frame_id=WORLD, child_frame_id=frame, translation=translation, rotation=rotation
    )
    return layout_of(channel, message, len(POSE_FIELDS))


def _stamp() -> Any:
    return Timestamp(seconds=SECONDS_MARK, nanos=NANOS_MARK)


def _marked() -> tuple[Any, Any]:
    x, y, z, *q = (marker(number) for number in range(len(POSE_FIELDS)))
    return Vector3(x=x, y=y, z=z), Quaternion(x=q[0], y=q[1], z=q[2], w=q[3])


def slots(times_us: Any) -> Any:
    """Which thirtieth of a second each time is in; the first row of each is drawn.

    A microsecond is added because a thirtieth is no whole number of them: 33 333 µs is in the second.
    """
    return (times_us + 1) * RATE // 1_000_000


def first_of_each(slot: Array, before: int) -> Array:
    """Which rows are the first of their slot, the last row before them having been in `before`."""
    changes = np.empty(len(slot), bool)
    changes[0] = slot[0] != before
    np.not_equal(slot[1:], slot[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def log_message(line: LogLine) -> bytes:
    """A line as foxglove.Log."""
    seconds, micros = divmod(line.time_us, 1_000_000)
    stamp = Timestamp(seconds=seconds, nanos=micros * 1000)
    level: Any = LEVELS.index(line.level) + 1
    return Log(timestamp=stamp, level=level, name=line.name, message=line.message).SerializeToString()


def log_line(data: bytes) -> LogLine:
    """The inverse of `log_message`."""
    log = Log.FromString(data)
    time_us = log.timestamp.seconds * 1_000_000 + log.timestamp.nanos // 1000
    return LogLine(time_us, LEVELS[log.level - 1], log.name, log.message)
