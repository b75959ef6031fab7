"""Images of cameras as sensor_msgs/Image, with sensor_msgs/CameraInfo beside them.

'/drone/camera/rgb' and the camera's other outputs have one '/drone/camera/camera_info'; a depth camera has '/drone/d435/depth'.
Pixels are those of the recording; depth is in metres (32FC1), NaN without a return, as in REP 118. The frame is
`NAME/camera_optical`: z ahead, x right, y down.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from samara.core.types import Array
from samara.record.flight_streams import pixel_format
from samara.record.image_stream import ImageFormat, Raster
from samara.record.ros2.messages import CdrLayout, Ros2Topic, cdr_layout, ros_name, stamp_columns
from samara.record.streams import RecordedStream
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.depth_camera import DISTORTION_MODEL, Pinhole, calibration, optical_frame
from samara.sensors.ray_sensors import RaySensor
from samara.sensors.sensor import Sensor

DEPTH_TYPE = np.dtype("<f4")


def camera_of(sensor: Sensor | None) -> Pinhole | None:
    """Return the pinhole model of a camera or depth camera; None for other sensors."""
    camera = getattr(getattr(sensor.model, "part", None), "camera", None) if sensor else None
    return camera if isinstance(camera, Pinhole) else None


def image_layout(image: ImageFormat, frame: str) -> CdrLayout:
    """Return the layout of sensor_msgs/Image for images of a format."""
    is_depth = isinstance(image, Raster)
    row_bytes = (DEPTH_TYPE if is_depth else image.pixel).itemsize * int(np.prod(image.shape[1:]))
    return cdr_layout(
        "sensor_msgs/Image",
        header={"frame_id": frame},
        height=image.rows,
        width=image.columns,
        encoding="32FC1" if is_depth else image.encoding,
        step=row_bytes,
        data=np.zeros(row_bytes * image.rows, np.uint8),
    )


def image_columns(rows: Array, image: ImageFormat) -> dict[str, Array]:
    """Return the bytes of images (m, bytes), from rows (m, numbers)."""
    if isinstance(image, Raster) or image.encoding == "32FC1":
        rows = np.where(rows > 0.0, rows, np.nan).astype(DEPTH_TYPE)
    return {"data": np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)}


def camera_info_layout(camera: Pinhole, frame: str) -> CdrLayout:
    """Return the layout of sensor_msgs/CameraInfo: only its stamp varies."""
    return cdr_layout(
        "sensor_msgs/CameraInfo",
        header={"frame_id": frame},
        height=camera.height,
        width=camera.width,
        distortion_model=DISTORTION_MODEL,
        **{name.lower(): values.ravel().tolist() for name, values in calibration(camera).items()},
    )


def image_topics(tables: Mapping[str, RecordedStream], drone: str, sensors: Sequence[Sensor]) -> list[Ros2Topic]:
    """Return the images of all cameras and depth cameras of a run, and the calibration of those that are known."""
    sensor_by_name, topics = {sensor.name: sensor for sensor in sensors}, []
    calibrated: set[str] = set()
    for stream_name, table in tables.items():
        if table.raster is None or not len(table.rows):
            continue
        name, _, output = stream_name.partition("/")
        sensor, topic = sensor_by_name.get(name), f"/{drone}/{ros_name(name)}"
        camera, frame = camera_of(sensor), optical_frame(drone, ros_name(name))
        if isinstance(table.raster, Raster) and camera is None:
            continue  # a lidar, or an unknown sensor
        delay_us = round(MICROSECONDS * sensor.delay) if sensor else 0
        stamp = stamp_columns(table.times_us - delay_us)
        layout, columns = image_layout(table.raster, frame), image_columns(table.rows, table.raster)
        topics.append(Ros2Topic(f"{topic}/{output or 'depth'}", layout, table.times_us, {**stamp, **columns}))
        if camera is not None and name not in calibrated:
            calibrated.add(name)
            topics.append(
                Ros2Topic(f"{topic}/camera_info", camera_info_layout(camera, frame), table.times_us, dict(stamp))
            )
    return topics


def depth_format(sensor: Sensor) -> Raster | None:
    """Return the format of a depth camera's reading, None for other sensors."""
    if not isinstance(sensor.model, RaySensor) or not sensor.model.is_camera:
        return None
    rows, columns = sensor.model.part.shape
    return Raster("depth", rows, columns, sensor.model.part.resolution)


def published_images(sensor: Sensor) -> dict[str, tuple[str, ImageFormat]]:
    """Return the images that a sensor publishes: by output the key of its pixels in a flight ("" for the reading), and
    their format."""
    if (depth := depth_format(sensor)) is not None:
        return {"depth": ("", depth)}
    return {image.name: (f"{sensor.name}/{image.name}", pixel_format(image)) for image in sensor.images}
