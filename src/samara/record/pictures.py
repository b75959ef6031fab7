"""What cameras and lidars saw, for Foxglove: depth as foxglove.RawImage, points as foxglove.PointCloud, in a file of their own.

A recording holds every ray as a number. Here pictures are made of them: depth in millimetres (16UC1), and points in the frame
of the drone, at the pose of the sensor. The drones' transforms and the scene come along, so that points stand where they were.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from foxglove_schemas_protobuf.FrameTransform_pb2 import FrameTransform
from foxglove_schemas_protobuf.PackedElementField_pb2 import PackedElementField
from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
from foxglove_schemas_protobuf.Pose_pb2 import Pose
from foxglove_schemas_protobuf.Quaternion_pb2 import Quaternion
from foxglove_schemas_protobuf.RawImage_pb2 import RawImage
from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate
from foxglove_schemas_protobuf.Vector3_pb2 import Vector3
from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]
from mcap.well_known import MessageEncoding, SchemaEncoding
from mcap.writer import CompressionType, Writer

from samara.core.atomic_files import atomic_write
from samara.core.types import Array
from samara.core.version import __version__
from samara.record.channels import published_schema
from samara.record.foxglove import POSE_FIELDS, WORLD, first_of_each, scene_message, slots
from samara.record.run import Run, Track, scenario_inside
from samara.record.streams import SCENE_TOPIC, TRANSFORM_TOPIC, RecordingError, Table
from samara.scenario.world import world_inside
from samara.sensors.ray_sensors import MILLIMETRE, Eye
from samara.sensors.sensor import Sensor

FLOATS = ("x", "y", "z", "distance")  # of a point


class Told(NamedTuple):
    """A message of a topic, at a time."""

    time_us: int
    topic: str
    message: Message


def eyes_inside(run: Run) -> dict[str, tuple[Sensor, Table]]:
    """The cameras and lidars of a run by their topics, '/drone/camera', with what they said"""
    scenario = scenario_inside(run)
    found = {}
    for drone in scenario.drones if scenario else ():
        tables = next((track.tables for track in run.tracks if track.name == drone.name), {})
        for sensor in drone.sensors:
            if isinstance(sensor.about, Eye) and sensor.name in tables:
                found[f"/{drone.name}/{sensor.name}"] = sensor, tables[sensor.name]
    return found


def points_of(eye: Eye, row: Array) -> Array:
    """One row of a table as points (k, 4) in the sensor's axes, with their distances: those of a camera by depth/dₓ  [m]"""
    direction_S = np.stack(eye.beams.direction_S, axis=1)
    distance = row / direction_S[:, 0] if eye.is_camera else row
    met = row > 0.0
    return np.column_stack([direction_S[met] * distance[met, None], distance[met]])


def write_pictures(run: Run, path: str | Path) -> Path:
    """A file with the pictures and clouds of a run, its transforms and its scene; RecordingError where nobody looked"""
    eyes = eyes_inside(run)
    if not eyes:
        raise RecordingError(f"{run.scenario}: no depth_camera and no lidar in it; expected one on a drone")
    vehicles = {track.name: track.vehicle for track in run.tracks}
    scene = SceneUpdate.FromString(scene_message(vehicles, world_inside(run.attachments)))
    told = [Told(0, SCENE_TOPIC, scene)]
    told += [own for track in run.tracks for own in _transforms(track)]
    told += [own for topic, (sensor, table) in eyes.items() for own in _seen(topic, sensor, table)]
    with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(library=f"samara {__version__}")
        schemas: dict[str, int] = {}
        channels: dict[str, int] = {}
        for time_us, topic, message in sorted(told, key=lambda own: own.time_us):
            name = message.DESCRIPTOR.full_name
            if name not in schemas:
                schemas[name] = writer.register_schema(name, SchemaEncoding.Protobuf, published_schema(message))
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, MessageEncoding.Protobuf, schemas[name])
            writer.add_message(channels[topic], 1000 * time_us, message.SerializeToString(), 1000 * time_us)
        writer.finish()  # type: ignore[no-untyped-call]
    return Path(path)


def _transforms(track: Track) -> Iterator[Told]:
    """Where a drone is, thirty times a second"""
    table = track.tables["state"]
    columns = [table.fields.index(name) for name in POSE_FIELDS]
    for k in first_of_each(slots(table.times_us), -1).tolist():
        time_us, (x, y, z, *q) = int(table.times_us[k]), table.rows[k, columns].tolist()
        message = FrameTransform(
            timestamp=_stamp(time_us),
            parent_frame_id=WORLD,
            child_frame_id=track.name,
            translation=Vector3(x=x, y=y, z=z),
            rotation=Quaternion(x=q[0], y=q[1], z=q[2], w=q[3]),
        )
        yield Told(time_us, TRANSFORM_TOPIC, message)


def _seen(topic: str, sensor: Sensor, table: Table) -> Iterator[Told]:
    """A camera's pictures and clouds, or a lidar's clouds: logged when they were heard, stamped when they were taken"""
    eye, drone = sensor.about, topic.split("/")[1]
    late_us = round(1e6 * sensor.delay)
    for time_us, row in zip(table.times_us.tolist(), table.rows, strict=True):
        stamp = _stamp(time_us - late_us)
        if eye.is_camera:
            yield Told(time_us, f"{topic}/image", image_message(eye, row, stamp, f"{drone}/{sensor.name}"))
        yield Told(time_us, f"{topic}/points", cloud_message(eye, row, stamp, drone))


def image_message(eye: Eye, row: Array, stamp: Timestamp, frame: str) -> RawImage:
    """Depth in whole millimetres, 0 where nothing was seen: what REP 118 calls 16UC1"""
    rows, columns = eye.part.shape
    depth = np.round(np.nan_to_num(row) / MILLIMETRE).clip(0, 65535).astype("<u2")
    return RawImage(
        timestamp=stamp,
        frame_id=frame,
        width=columns,
        height=rows,
        encoding="16UC1",
        step=2 * columns,
        data=depth.tobytes(),
    )


def cloud_message(eye: Eye, row: Array, stamp: Timestamp, frame: str) -> PointCloud:
    """Points in the sensor's axes, which stand in the drone's at its mounting"""
    r_B, q_BS = eye.mounting
    fields = [
        PackedElementField(name=name, offset=4 * k, type=PackedElementField.FLOAT32) for k, name in enumerate(FLOATS)
    ]
    return PointCloud(
        timestamp=stamp,
        frame_id=frame,
        pose=Pose(
            position=Vector3(x=float(r_B.x), y=float(r_B.y), z=float(r_B.z)),
            orientation=Quaternion(x=float(q_BS.x), y=float(q_BS.y), z=float(q_BS.z), w=float(q_BS.w)),
        ),
        point_stride=4 * len(FLOATS),
        fields=fields,
        data=points_of(eye, row).astype("<f4").tobytes(),
    )


def _stamp(time_us: int) -> Timestamp:
    seconds, micros = divmod(max(time_us, 0), 1_000_000)
    return Timestamp(seconds=math.floor(seconds), nanos=1000 * micros)
