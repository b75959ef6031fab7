"""Readings of cameras and lidars as points in the world and as pictures; near is orange, far is dark blue, no echo is grey."""

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.types import Array
from samara.physics.types import State
from samara.record.pictures import VisionModel, recorded_vision_sensors
from samara.record.run import DroneRecord, Run
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.camera import CameraModel
from samara.sensors.ray_sensors import Beam, beam_ray
from samara.sensors.sensor import Sensor
from samara.vehicles.shape import COLOURS, GRID
from samara.view.interpolation import find_row, interpolate_state

PIXEL = re.compile(r"\w+\[\d+\]\[\d+\]")
DEPTH_COLOURS = np.array([[248, 149, 64], [204, 71, 120], [126, 3, 168], [13, 8, 135]], dtype=float)
"""Plasma without its yellow end, from near to far: dark enough on white, and distinguishable without red or green."""
LABEL_COLOURS = np.array(
    [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in ("#cfe3f5", "#8a9a6b", "#9aa5b1", *COLOURS)],
    dtype=np.uint8,
)
"""Colours of classes and instances: sky, ground, then those of all pictures."""
NO_ECHO_COLOUR = np.array([int(GRID[k : k + 2], 16) for k in (1, 3, 5)], dtype=float)
SCALE_QUANTILE = 0.95  # quantile of the readings at the end of the colour scale


class VisionFrame(NamedTuple):
    """One reading of a vision sensor, (rays,), and the motion of the drone `age` seconds after it was taken.

    A camera has `images` by name; its `distances` are those of its depth image, (0,) if it has none.
    """

    name: str
    sensor_model: VisionModel
    distances: Array
    motion: State
    age: float = 0.0
    images: Mapping[str, Array] = MappingProxyType({})


def motion_state(row: Array) -> State:
    """Return p, v, q and ω from the first thirteen columns of a state."""
    x = [float(value) for value in row[:13]]
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*x[6:10]), Vec3(*x[10:13]))


def echo_points(frame: VisionFrame) -> tuple[Array, Array]:
    """Return the points that the rays hit, (k, 3), and their distances, (k,)  [m].

    As in the sensor model, rays start at the position of the drone when they were sent.
    """
    beams = frame.sensor_model.beams
    distance = frame.distances / beams.direction_S.x if frame.sensor_model.is_camera else frame.distances
    has_echo = frame.distances > 0.0
    ray = beam_ray(frame.motion, frame.sensor_model.mounting, Beam(beams.direction_S, beams.age + frame.age))
    origins, directions = (
        np.stack(np.broadcast_arrays(*vector, distance)[:3], axis=1)[has_echo] for vector in (ray.p_W, ray.direction_W)
    )
    return origins + directions * distance[has_echo, None], distance[has_echo]


def vision_sensors(runs: Sequence[Run]) -> list[dict[str, Sensor]]:
    """Return the vision sensors of all drones of all runs whose recordings contain their scenarios."""
    drone_sensors: list[dict[str, Sensor]] = []
    for run in runs:
        run_sensors = recorded_vision_sensors(run) if any(_has_pictures(track) for track in run.drone_records) else {}
        for track in run.drone_records:
            prefix = f"/{track.name}/"
            drone_sensors.append(
                {k.removeprefix(prefix): sensor for k, (sensor, _) in run_sensors.items() if k.startswith(prefix)}
            )
    return drone_sensors


def _has_pictures(track: DroneRecord) -> bool:
    return any(table.raster is not None or is_image(table.fields) for table in track.tables.values())


class Picture(NamedTuple):
    """A picture of a vision sensor: what it shows, its smallest distance or its classes, and colours (rows, columns, 3)."""

    quantity: str
    note: str
    colours: Array


def pictures(frame: VisionFrame, max_distance: float) -> list[Picture]:
    """Return the pictures of a reading; those of distances are linear up to `max_distance` [m]."""
    if not isinstance(frame.sensor_model, CameraModel):
        image = frame.distances.reshape(frame.sensor_model.part.shape)
        if not frame.sensor_model.is_camera:
            image = image[:, ::-1]  # a lidar's columns run from right to left
        quantity = "depth" if frame.sensor_model.is_camera else "range"
        return [Picture(quantity, nearest_text(image), depth_colours(image, max_distance))]
    return [_camera_picture(name, image, frame.sensor_model, max_distance) for name, image in frame.images.items()]


def _camera_picture(name: str, image: Array, model: CameraModel, max_distance: float) -> Picture:
    if name == "rgb":
        return Picture(name, "", np.repeat(image.reshape(*image.shape[:2], -1), 3 // image[0, 0].size, axis=2))
    if name == "depth":
        return Picture(name, nearest_text(image), depth_colours(image, max_distance))
    if name == "optical_flow":
        return Picture(name, f"up to {np.hypot(image[..., 0], image[..., 1]).max():.0f} pixels/s", flow_colours(image))
    names = model.class_names if name == "segmentation" else model.instance_names
    numbers = np.unique(image).tolist()
    labels = [names[k] if k < len(names) else f"drone {k - len(names)}" for k in numbers]
    return Picture(name, ", ".join(labels), LABEL_COLOURS[image % len(LABEL_COLOURS)])


def nearest_text(distances: Array) -> str:
    """Format the smallest distance."""
    echoes = distances[distances > 0.0]
    return f"nearest {echoes.min():.2f} m" if len(echoes) else "no echo"


def flow_colours(flow: Array) -> Array:
    """Convert optical flow (rows, columns, 2) to RGB bytes: the direction is the hue, the fastest pixel is saturated."""
    speed, angle = np.hypot(flow[..., 0], flow[..., 1]), np.arctan2(flow[..., 1], flow[..., 0])
    hue = 0.5 + 0.5 * np.cos(angle[..., None] - 2.0 * np.pi / 3.0 * np.arange(3))
    saturation = (speed / max(float(speed.max()), 1e-9))[..., None]
    return (255.0 * (1.0 - saturation * (1.0 - hue))).round().astype(np.uint8)


def is_image(fields: Sequence[str]) -> bool:
    """Whether fields are indexed by row and column: 'depth[59][79]'."""
    return bool(fields) and PIXEL.fullmatch(fields[-1]) is not None


def vision_frame(track: DroneRecord, sensor: Sensor, time: float) -> VisionFrame:
    """Return the latest reading of a vision sensor, with the motion of the drone when it was taken."""
    table, states = track.tables[sensor.name], track.tables["state"]
    row = find_row(table.times_us, time)[0]
    taken = table.times_us[row] / MICROSECONDS - sensor.delay
    motion = motion_state(interpolate_state(states.rows, *find_row(states.times_us, taken)))
    if isinstance(sensor.model, CameraModel):
        images = {image.name: _image_at(track, f"{sensor.name}/{image.name}", time) for image in sensor.images}
        return camera_frame(sensor, images, motion)
    return VisionFrame(sensor.name, sensor.model, table.rows[row], motion)


def _image_at(track: DroneRecord, name: str, time: float) -> Array:
    """Return the latest image of a stream."""
    table = track.tables[name]
    image: Array = table.images[find_row(table.times_us, time)[0]]
    return image


def camera_frame(sensor: Sensor, images: Mapping[str, Array], motion: State, age: float = 0.0) -> VisionFrame:
    """Return the images of a camera as a frame."""
    distances = images["depth"].ravel().astype(float) if "depth" in images else np.empty(0)
    return VisionFrame(sensor.name, sensor.model, distances, motion, age, images)


def colour_scale(distances: Array) -> float:
    """Return the end of the colour scale [m]: 1, 2, 5, 10 …, at or above most of the distances."""
    echoes = distances[distances > 0.0]
    if not len(echoes):
        return 1.0
    quantile = float(np.quantile(echoes, SCALE_QUANTILE))
    power = 10.0 ** math.floor(math.log10(quantile))
    return next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= quantile * (1.0 - 1e-9))


def common_scale(frames: Sequence[VisionFrame]) -> float:
    """Return one scale for all vision sensors of a drone: the smallest, so that near distances are distinguishable [m]."""
    return min((colour_scale(frame.distances) for frame in frames if (frame.distances > 0.0).any()), default=1.0)


def depth_colours(distances: Array, max_distance: float) -> Array:
    """Convert distances to RGB bytes (…, 3), linear from 0 to `max_distance`; larger distances have the last colour."""
    position = np.clip(np.nan_to_num(distances) / max_distance, 0.0, 1.0)[..., None] * (len(DEPTH_COLOURS) - 1)
    anchor = np.minimum(position.astype(int), len(DEPTH_COLOURS) - 2)[..., 0]
    colour = DEPTH_COLOURS[anchor] + (position - anchor[..., None]) * (
        DEPTH_COLOURS[anchor + 1] - DEPTH_COLOURS[anchor]
    )
    return np.where((distances > 0.0)[..., None], colour, NO_ECHO_COLOUR).round().astype(np.uint8)


def frustum_S(eye: VisionModel, depth: float) -> Array:
    """Return the edges of a camera's field of view to a depth, (8, 2, 3) in sensor axes: corner rays, then the rim [m]."""
    rows, columns = eye.part.shape
    direction = np.stack(eye.beams.direction_S, axis=1).reshape(rows, columns, 3)
    corners = np.array([direction[0, 0], direction[0, -1], direction[-1, -1], direction[-1, 0]])
    corners = depth * corners / corners[:, :1]
    rays = np.stack([np.zeros_like(corners), corners], axis=1)
    return np.concatenate([rays, np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)])
