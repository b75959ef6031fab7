"""Pictures of the cameras and lidars of a run, each at the moment of its smallest distance."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap

from samara.record.run import DroneRecord, Run
from samara.sensors.sensor import Sensor
from samara.vehicles.shape import GRID, INK
from samara.view.depth_colours import DEPTH_COLOURS, DepthFrame, common_scale, depth_frame, echo_points, vision_sensors
from samara.view.plot.style import DetachedFigure, escape_text, samara_style

MAX_SENSORS = 4  # sensors in one figure
DEPTH_COLORMAP = LinearSegmentedColormap.from_list("near to far", DEPTH_COLOURS / 255.0)
PLAN_MARGIN = 1.25  # half-width of a lidar plan, relative to the colour scale


def draw_vision_sensors(run: Run) -> DetachedFigure | None:
    """Draw depth images and lidar points from above, for the first few vision sensors, each at its smallest distance.

    None if the run has no vision sensors or its recording does not contain the scenario.
    """
    sensors_at_times = [
        (track, sensor, _nearest_time(track, sensor))
        for track, sensors in zip(run.drone_records, vision_sensors([run]), strict=True)
        for sensor in sensors.values()
        if len(track.tables[sensor.name].rows)
    ][:MAX_SENSORS]
    if not sensors_at_times:
        return None
    frames = [depth_frame(track, sensor, time) for track, sensor, time in sensors_at_times]
    max_distance = common_scale(frames)
    with samara_style() as plt:
        figure, axes = plt.subplots(1, len(frames), figsize=(1.2 + 4.4 * len(frames), 3.9), squeeze=False)
        for panel, frame, (track, _, time) in zip(axes[0], frames, sensors_at_times, strict=True):
            mappable = (
                _draw_depth(panel, frame, max_distance)
                if frame.sensor_model.is_camera
                else _draw_plan(panel, frame, max_distance, track)
            )
            name = frame.name if len(run.drone_records) == 1 else f"{track.name} {frame.name}"
            panel.set_title(escape_text(f"{name} at {time:.2f} s"))
        figure.colorbar(mappable, ax=list(axes[0]), label="distance [m]", extend="max", shrink=0.85, pad=0.015)
    return figure


def _nearest_time(track: DroneRecord, sensor: Sensor) -> float:
    """Return the time at which the nearest 5 % of the rays were nearest [s]; a single ray may be noise."""
    table = track.tables[sensor.name]
    distances = np.quantile(np.where(table.rows > 0.0, table.rows, np.inf), 0.05, axis=1, method="lower")
    return float(table.time[int(np.argmin(distances))])


def _draw_depth(axes: Axes, frame: DepthFrame, max_distance: float) -> ScalarMappable:
    image = frame.distances.reshape(frame.sensor_model.part.shape)
    axes.set_facecolor(GRID)
    axes.grid(False)
    mappable = axes.imshow(np.where(image > 0.0, image, np.nan), cmap=DEPTH_COLORMAP, vmin=0.0, vmax=max_distance)
    axes.set(xlabel="column", ylabel="row")
    return mappable


def _draw_plan(axes: Axes, frame: DepthFrame, max_distance: float, track: DroneRecord) -> ScalarMappable:
    points, distances = echo_points(frame)
    x, y = float(frame.motion.p_W.x), float(frame.motion.p_W.y)
    axes.plot(track.position[:, 0], track.position[:, 1], color=INK, linewidth=0.8, alpha=0.5)
    mappable = axes.scatter(
        points[:, 0], points[:, 1], s=3.0, c=distances, cmap=DEPTH_COLORMAP, vmin=0.0, vmax=max_distance, linewidths=0.0
    )
    axes.plot(x, y, "o", color=INK, markersize=5.0)
    half_width = PLAN_MARGIN * max_distance
    axes.set(
        xlabel="x [m]",
        ylabel="y [m]",
        xlim=(x - half_width, x + half_width),
        ylim=(y - half_width, y + half_width),
        aspect="equal",
    )
    return mappable
