"""Camera and lidar data for Foxglove: images as foxglove.RawImage, points as foxglove.PointCloud, in a separate file.

A recording holds every ray as a number. This module converts them to depth images in millimetres (16UC1), and to points in the
drone's frame at the pose of the sensor. The file also has the drones' transforms and the scene, which place the points.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from foxglove_schemas_protobuf.CameraCalibration_pb2 import CameraCalibration
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
from samara.record.flight_streams import pixel_format
from samara.record.foxglove import POSE_FIELDS, WORLD, first_slot_rows, scene_message, time_slots
from samara.record.run import DroneRecord, Run, embedded_scenario
from samara.record.streams import SCENE_TOPIC, TRANSFORM_TOPIC, RecordedStream, RecordingError
from samara.scenario.world import recorded_world
from samara.sensors.camera import CameraModel
from samara.sensors.depth_camera import DISTORTION_MODEL, OPTICAL, Pinhole, calibration, optical_frame
from samara.sensors.ray_sensors import MILLIMETRE, RaySensor
from samara.sensors.sensor import Sensor

POINT_FIELDS = ("x", "y", "z", "distance")  # of a point


class TimedMessage(NamedTuple):
    """A message of a topic at a time."""

    time_us: int
    topic: str
    message: Message


VisionModel = RaySensor | CameraModel


def is_vision_sensor(sensor: Sensor) -> bool:
    """Whether a sensor is a camera, a depth camera or a lidar."""
    return isinstance(sensor.model, VisionModel)


def recorded_vision_sensors(run: Run) -> dict[str, tuple[Sensor, Mapping[str, RecordedStream]]]:
    """Return the cameras and lidars of a run by topic, '/drone/camera', with the recorded streams of their drones."""
    scenario = embedded_scenario(run)
    vision_sensors = {}
    for drone in scenario.drones if scenario else ():
        tables = next(
            (drone_record.tables for drone_record in run.drone_records if drone_record.name == drone.name), {}
        )
        for sensor in drone.sensors:
            if is_vision_sensor(sensor) and sensor.name in tables:
                vision_sensors[f"/{drone.name}/{sensor.name}"] = sensor, tables
    return vision_sensors


def sensor_points(ray_sensor: RaySensor, row: Array) -> Array:
    """Convert a row of a stream to points (k, 4) in the sensor's axes, with their distances; a camera's by depth/dₓ  [m]."""
    direction_S = np.stack(ray_sensor.beams.direction_S, axis=1)
    distance = row / direction_S[:, 0] if ray_sensor.is_camera else row
    has_return = row > 0.0
    return np.column_stack([direction_S[has_return] * distance[has_return, None], distance[has_return]])


def write_pictures(run: Run, path: str | Path) -> Path:
    """Write the images and point clouds of a run, its transforms and its scene; raise RecordingError without such a
    sensor."""
    vision_sensors = recorded_vision_sensors(run)
    if not vision_sensors:
        raise RecordingError(f"{run.scenario}: no camera, depth_camera or lidar in it; expected one on a drone")
    vehicles = {drone_record.name: drone_record.vehicle for drone_record in run.drone_records}
    scene = SceneUpdate.FromString(scene_message(vehicles, recorded_world(run.attachments)))
    messages = [TimedMessage(0, SCENE_TOPIC, scene)]
    messages += [timed_message for drone_record in run.drone_records for timed_message in _transforms(drone_record)]
    messages += [
        timed_message
        for topic, (sensor, tables) in vision_sensors.items()
        for timed_message in _sensor_messages(topic, sensor, tables)
    ]
    with atomic_write(Path(path)) as temporary, temporary.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD)
        writer.start(library=f"samara {__version__}")
        schemas: dict[str, int] = {}
        channels: dict[str, int] = {}
        for time_us, topic, message in sorted(messages, key=lambda timed_message: timed_message.time_us):
            name = message.DESCRIPTOR.full_name
            if name not in schemas:
                schemas[name] = writer.register_schema(name, SchemaEncoding.Protobuf, published_schema(message))
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, MessageEncoding.Protobuf, schemas[name])
            writer.add_message(channels[topic], 1000 * time_us, message.SerializeToString(), 1000 * time_us)
        writer.finish()  # type: ignore[no-untyped-call]
    return Path(path)


def _transforms(drone_record: DroneRecord) -> Iterator[TimedMessage]:
    """Yield the transform of a drone, thirty times a second."""
    table = drone_record.tables["state"]
    columns = [table.fields.index(name) for name in POSE_FIELDS]
    for k in first_slot_rows(time_slots(table.times_us), -1).tolist():
        time_us, (x, y, z, *q) = int(table.times_us[k]), table.rows[k, columns].tolist()
        message = FrameTransform(
            timestamp=_stamp(time_us),
            parent_frame_id=WORLD,
            child_frame_id=drone_record.name,
            translation=Vector3(x=x, y=y, z=z),
            rotation=Quaternion(x=q[0], y=q[1], z=q[2], w=q[3]),
        )
        yield TimedMessage(time_us, TRANSFORM_TOPIC, message)


def _sensor_messages(topic: str, sensor: Sensor, tables: Mapping[str, RecordedStream]) -> Iterator[TimedMessage]:
    """Yield the images of a camera with its calibration, a depth camera's images and clouds, or a lidar's clouds.

    They are logged on arrival, and stamped with the time of the sample.
    """
    delay_us, drone, table = round(1e6 * sensor.delay), topic.split("/")[1], tables[sensor.name]
    frame = f"{drone}/{sensor.name}"
    if isinstance(sensor.model, CameraModel):
        optical = optical_frame(drone, sensor.name)
        for image in sensor.images:
            stream, encoding = tables[f"{sensor.name}/{image.name}"], pixel_format(image).encoding
            for time_us, pixels in zip(stream.times_us.tolist(), stream.images, strict=True):
                message = raw_image(pixels, encoding, _stamp(time_us - delay_us), optical)
                yield TimedMessage(time_us, f"{topic}/{image.name}", message)
        for time_us in table.times_us.tolist():
            message = calibration_message(sensor.model.part.camera, _stamp(time_us - delay_us), optical)
            yield TimedMessage(time_us, f"{topic}/calibration", message)
        yield TimedMessage(0, TRANSFORM_TOPIC, _optical_transform(drone, sensor))
        return
    ray_sensor = sensor.model
    for time_us, row in zip(table.times_us.tolist(), table.rows, strict=True):
        stamp = _stamp(time_us - delay_us)
        if ray_sensor.is_camera:
            yield TimedMessage(time_us, f"{topic}/image", image_message(ray_sensor, row, stamp, frame))
        yield TimedMessage(time_us, f"{topic}/points", cloud_message(ray_sensor, row, stamp, drone))


def _optical_transform(drone: str, sensor: Sensor) -> FrameTransform:
    """Return the constant pose of a camera's optical frame on its drone."""
    r_B, q_BS = sensor.model.mounting
    q = q_BS * OPTICAL
    return FrameTransform(
        parent_frame_id=drone,
        child_frame_id=optical_frame(drone, sensor.name),
        translation=Vector3(x=float(r_B.x), y=float(r_B.y), z=float(r_B.z)),
        rotation=Quaternion(x=float(q.x), y=float(q.y), z=float(q.z), w=float(q.w)),
    )


def image_message(ray_sensor: RaySensor, row: Array, stamp: Timestamp, frame: str) -> RawImage:
    """Build a depth image in whole millimetres, 0 without a return: 16UC1 of REP 118."""
    depth = np.round(np.nan_to_num(row) / MILLIMETRE).clip(0, 65535).astype("<u2")
    return raw_image(depth.reshape(ray_sensor.part.shape), "16UC1", stamp, frame)


def raw_image(pixels: Array, encoding: str, stamp: Timestamp, frame: str) -> RawImage:
    """Build an image of pixels (rows, columns) or (rows, columns, channels) as they are."""
    return RawImage(
        timestamp=stamp,
        frame_id=frame,
        width=pixels.shape[1],
        height=pixels.shape[0],
        encoding=encoding,
        step=pixels[0].nbytes,
        data=pixels.tobytes(),
    )


def calibration_message(camera: Pinhole, stamp: Timestamp, frame: str) -> CameraCalibration:
    """Build the calibration of a camera: pinhole with Brown–Conrady distortion."""
    numbers = calibration(camera)
    return CameraCalibration(
        timestamp=stamp,
        frame_id=frame,
        width=camera.width,
        height=camera.height,
        distortion_model=DISTORTION_MODEL,
        **{key: values.ravel().tolist() for key, values in numbers.items()},
    )


def cloud_message(ray_sensor: RaySensor, row: Array, stamp: Timestamp, frame: str) -> PointCloud:
    """Build a point cloud in the sensor's axes, with the sensor's mounting as its pose in the drone's frame."""
    r_B, q_BS = ray_sensor.mounting
    fields = [
        PackedElementField(name=name, offset=4 * k, type=PackedElementField.FLOAT32)
        for k, name in enumerate(POINT_FIELDS)
    ]
    return PointCloud(
        timestamp=stamp,
        frame_id=frame,
        pose=Pose(
            position=Vector3(x=float(r_B.x), y=float(r_B.y), z=float(r_B.z)),
            orientation=Quaternion(x=float(q_BS.x), y=float(q_BS.y), z=float(q_BS.z), w=float(q_BS.w)),
        ),
        point_stride=4 * len(POINT_FIELDS),
        fields=fields,
        data=sensor_points(ray_sensor, row).astype("<f4").tobytes(),
    )


def _stamp(time_us: int) -> Timestamp:
    seconds, micros = divmod(max(time_us, 0), 1_000_000)
    return Timestamp(seconds=math.floor(seconds), nanos=1000 * micros)
