"""What cameras and lidars saw, where it is in the world, and in colours: near is orange, far is dark blue, nothing is grey."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from samara.core.algebra import Quat, Vec3
from samara.core.types import Array
from samara.physics.types import State
from samara.record.pictures import eyes_inside
from samara.record.run import Run, Track
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.ray_sensors import Beam, Eye, ray_sent
from samara.sensors.sensor import Sensor
from samara.vehicles.shape import GRID, INK
from samara.view.interpolation import row_at, state_between
from samara.view.plot.style import plain, samara_style

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


def moving(row: Any) -> State:
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


MOST = 4  # eyes in one figure
NEAR_TO_FAR = LinearSegmentedColormap.from_list("near to far", ANCHORS / 255.0)
AROUND = 1.25  # how far about the drone a plan reaches, in scales


def draw_eyes(run: Run) -> Any:
    """Depth as a picture and a lidar's points from above, of the first few eyes, each when it was nearest to something

    None where nobody looked, or a recording does not carry its scenario.
    """
    found = [
        (track, sensor, _nearest_time(track, sensor))
        for track, sensors in zip(run.tracks, eyes_of([run]), strict=True)
        for sensor in sensors.values()
        if len(track.tables[sensor.name].rows)
    ][:MOST]
    if not found:
        return None
    seen = [seen_at(track, sensor, time) for track, sensor, time in found]
    far = common_scale(seen)
    with samara_style() as plt:
        figure, axes = plt.subplots(
            1, len(seen), figsize=(1.2 + 4.4 * len(seen), 3.9), layout="constrained", squeeze=False
        )
        for own, one, (track, _, time) in zip(axes[0], seen, found, strict=True):
            shown = _draw_depth(own, one, far) if one.eye.is_camera else _draw_plan(own, one, far, track)
            name = one.name if len(run.tracks) == 1 else f"{track.name} {one.name}"
            own.set_title(plain(f"{name} at {time:.2f} s"))
        figure.colorbar(shown, ax=list(axes[0]), label="distance [m]", extend="max", shrink=0.85, pad=0.015)
    return figure


def _nearest_time(track: Track, sensor: Sensor) -> float:
    """When an eye was nearest to something, by a twentieth of its rays: one alone may be noise  [s]"""
    table = track.tables[sensor.name]
    near = np.quantile(np.where(table.rows > 0.0, table.rows, np.inf), 0.05, axis=1, method="lower")
    return float(table.time[int(np.argmin(near))])


def _draw_depth(axes: Any, seen: Seen, far: float) -> Any:
    image = seen.said.reshape(seen.eye.part.shape)
    axes.set_facecolor(GRID)
    axes.grid(False)
    shown = axes.imshow(np.where(image > 0.0, image, np.nan), cmap=NEAR_TO_FAR, vmin=0.0, vmax=far)
    axes.set(xlabel="column", ylabel="row")
    return shown


def _draw_plan(axes: Any, seen: Seen, far: float, track: Track) -> Any:
    points, distances = points_of(seen)
    x, y = float(seen.motion.p_W.x), float(seen.motion.p_W.y)
    axes.plot(track.position[:, 0], track.position[:, 1], color=INK, linewidth=0.8, alpha=0.5)
    shown = axes.scatter(
        points[:, 0], points[:, 1], s=3.0, c=distances, cmap=NEAR_TO_FAR, vmin=0.0, vmax=far, linewidths=0.0
    )
    axes.plot(x, y, "o", color=INK, markersize=5.0)
    reach = AROUND * far
    axes.set(xlabel="x [m]", ylabel="y [m]", xlim=(x - reach, x + reach), ylim=(y - reach, y + reach), aspect="equal")
    return shown
