"""What cameras and lidars saw, where it is in the world, and in colours: near is orange, far is dark blue, nothing is grey."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.types import Array
from samara.physics.types import State
from samara.record.pictures import eyes_inside
from samara.record.run import Run, Track
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.ray_sensors import Beam, Eye, ray_sent
from samara.sensors.sensor import Sensor
from samara.vehicles.shape import GRID
from samara.view.interpolation import row_at, state_between

PIXEL = re.compile(r"\w+\[\d+\]\[\d+\]")
ANCHORS = np.array([[248, 149, 64], [204, 71, 120], [126, 3, 168], [13, 8, 135]], dtype=float)
"""Plasma without its yellow end, from near to far: as dark as to be seen on white, and told apart without red or green."""
NOTHING = np.array([int(GRID[k : k + 2], 16) for k in (1, 3, 5)], dtype=float)
MOST_SEEN = 0.95  # the share of readings that the scale reaches over


class Seen(NamedTuple):
    """One reading of an eye, (rays,), and how the drone moves `age` seconds after it was taken."""

    name: str
    eye: Eye
    said: Array
    motion: State
    age: float = 0.0


def moving(row: Array) -> State:
    """p, v, q and ω from the first thirteen numbers of a state"""
    x = [float(own) for own in row[:13]]
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*x[6:10]), Vec3(*x[10:13]))


def points_of(seen: Seen) -> tuple[Array, Array]:
    """Where each ray that met something met it, (k, 3), and how far away that was, (k,)  [m]

    Rays leave from where the drone was when they were sent, as the sensor's own do.
    """
    beams = seen.eye.beams
    distance = seen.said / beams.direction_S.x if seen.eye.is_camera else seen.said
    met = seen.said > 0.0
    ray = ray_sent(seen.motion, seen.eye.mounting, Beam(beams.direction_S, beams.age + seen.age))
    start, along = (
        np.stack(np.broadcast_arrays(*own, distance)[:3], axis=1)[met] for own in (ray.p_W, ray.direction_W)
    )
    return start + along * distance[met, None], distance[met]


def eyes_of(runs: Sequence[Run]) -> list[dict[str, Sensor]]:
    """The cameras and lidars of all drones of all runs, where the recordings carry their scenarios"""
    found: list[dict[str, Sensor]] = []
    for run in runs:
        known = eyes_inside(run) if any(_has_pictures(track) for track in run.tracks) else {}
        for track in run.tracks:
            head = f"/{track.name}/"
            found.append({k.removeprefix(head): sensor for k, (sensor, _) in known.items() if k.startswith(head)})
    return found


def _has_pictures(track: Track) -> bool:
    return any(is_picture(table.fields) for table in track.tables.values())


def is_picture(fields: Sequence[str]) -> bool:
    """Whether fields are those of rows and columns: 'depth[59][79]'"""
    return bool(fields) and PIXEL.fullmatch(fields[-1]) is not None


def seen_at(track: Track, sensor: Sensor, time: float) -> Seen:
    """What an eye had said last, as the drone was when that was measured"""
    table, states = track.tables[sensor.name], track.tables["state"]
    row = row_at(table.times_us, time)[0]
    taken = table.times_us[row] / MICROSECONDS - sensor.delay
    motion = moving(state_between(states.rows, *row_at(states.times_us, taken)))
    return Seen(sensor.name, sensor.about, table.rows[row], motion)


def scale_of(distances: Array) -> float:
    """1, 2, 5 or 10 … m, not less than most of them  [m]"""
    seen = distances[distances > 0.0]
    if not len(seen):
        return 1.0
    rough = float(np.quantile(seen, MOST_SEEN))
    power = 10.0 ** math.floor(math.log10(rough))
    return next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= rough * (1.0 - 1e-9))


def common_scale(eyes: Sequence[Seen]) -> float:
    """One scale for all eyes of a drone, that of the one that sees least far: what is near is told apart  [m]"""
    return min((scale_of(seen.said) for seen in eyes if (seen.said > 0.0).any()), default=1.0)


def coloured(distances: Array, far: float) -> Array:
    """Distances as bytes of red, green and blue (…, 3), evenly from 0 to `far`; what is farther is as dark as that"""
    share = np.clip(np.nan_to_num(distances) / far, 0.0, 1.0)[..., None] * (len(ANCHORS) - 1)
    below = np.minimum(share.astype(int), len(ANCHORS) - 2)[..., 0]
    colour = ANCHORS[below] + (share - below[..., None]) * (ANCHORS[below + 1] - ANCHORS[below])
    return np.where((distances > 0.0)[..., None], colour, NOTHING).round().astype(np.uint8)


def frustum_S(eye: Eye, depth: float) -> Array:
    """The edges of what a camera sees to a depth, (8, 2, 3) in its axes: from it to the four corners, and round them  [m]"""
    rows, columns = eye.part.shape
    direction = np.stack(eye.beams.direction_S, axis=1).reshape(rows, columns, 3)
    corners = np.array([direction[0, 0], direction[0, -1], direction[-1, -1], direction[-1, 0]])
    corners = depth * corners / corners[:, :1]
    rays = np.stack([np.zeros_like(corners), corners], axis=1)
    return np.concatenate([rays, np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)])
