"""What the cameras and lidars of a run saw, at the moment they were nearest to something."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap

from samara.record.run import Run, Track
from samara.sensors.sensor import Sensor
from samara.vehicles.shape import GRID, INK
from samara.view.depth_colours import ANCHORS, Seen, common_scale, eyes_of, points_of, seen_at
from samara.view.plot.style import Picture, plain, samara_style

MOST = 4  # eyes in one figure
NEAR_TO_FAR = LinearSegmentedColormap.from_list("near to far", ANCHORS / 255.0)
AROUND = 1.25  # how far about the drone a plan reaches, in scales


def draw_eyes(run: Run) -> Picture | None:
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
        figure, axes = plt.subplots(1, len(seen), figsize=(1.2 + 4.4 * len(seen), 3.9), squeeze=False)
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


def _draw_depth(axes: Axes, seen: Seen, far: float) -> ScalarMappable:
    image = seen.said.reshape(seen.eye.part.shape)
    axes.set_facecolor(GRID)
    axes.grid(False)
    shown = axes.imshow(np.where(image > 0.0, image, np.nan), cmap=NEAR_TO_FAR, vmin=0.0, vmax=far)
    axes.set(xlabel="column", ylabel="row")
    return shown


def _draw_plan(axes: Axes, seen: Seen, far: float, track: Track) -> ScalarMappable:
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
