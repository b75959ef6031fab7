"""Pictures of the cameras and lidars of a run, each at the moment of its smallest distance, or else in the middle."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from samara.record.run import DroneRecord, Run
from samara.sensors.ray_sensors import RaySensor
from samara.sensors.sensor import Sensor
from samara.vehicles.shape import GRID, INK
from samara.view.plot.style import DetachedFigure, escape_text, samara_style
from samara.view.vision_frames import (
    DEPTH_COLOURS,
    Picture,
    VisionFrame,
    common_scale,
    echo_points,
    pictures,
    vision_frame,
    vision_sensors,
)

MAX_SENSORS, MAX_PANELS = 4, 6  # in one figure
DEPTH_COLORMAP = LinearSegmentedColormap.from_list("near to far", DEPTH_COLOURS / 255.0)
PLAN_MARGIN = 1.25  # half-width of a lidar plan, relative to the colour scale


def draw_vision_sensors(run: Run) -> DetachedFigure | None:
    """Draw images and lidar points from above, for the first few vision sensors.

    Each is drawn at the time of its smallest distance, a camera without depth in the middle of the flight. None if the run
    has no vision sensors or its recording does not contain the scenario.
    """
    sensors_at_times = [
        (track, sensor, _nearest_time(track, sensor))
        for track, sensors in zip(run.drone_records, vision_sensors([run]), strict=True)
        for sensor in sensors.values()
        if len(track.tables[sensor.name].rows) and (sensor.images or isinstance(sensor.model, RaySensor))
    ][:MAX_SENSORS]
    if not sensors_at_times:
        return None
    frames = [vision_frame(track, sensor, time) for track, sensor, time in sensors_at_times]
    max_distance = common_scale(frames)
    panels: list[tuple[int, str, Picture | None]] = [  # the frame, what is drawn of it, and a camera's picture
        (k, f" {picture.quantity}" if picture else "", picture)
        for k, frame in enumerate(frames)
        for picture in (pictures(frame, max_distance) if frame.images else [None])
    ][:MAX_PANELS]
    with samara_style() as plt:
        figure, axes = plt.subplots(1, len(panels), figsize=(1.2 + 4.4 * len(panels), 3.9), squeeze=False)
        for panel, (k, quantity, picture) in zip(axes[0], panels, strict=True):
            frame, (track, _, time) = frames[k], sensors_at_times[k]
            if picture is not None:
                _draw_picture(panel, picture)
            elif frame.sensor_model.is_camera:
                _draw_depth(panel, frame, max_distance)
            else:
                _draw_plan(panel, frame, max_distance, track)
            name = frame.name if len(run.drone_records) == 1 else f"{track.name} {frame.name}"
            panel.set_title(escape_text(f"{name}{quantity} at {time:.2f} s"))
        if any(len(frame.distances) for frame in frames):
            mappable = ScalarMappable(Normalize(0.0, max_distance), DEPTH_COLORMAP)
            figure.colorbar(mappable, ax=list(axes[0]), label="distance [m]", extend="max", shrink=0.85, pad=0.015)
    return figure


def _draw_picture(axes: Axes, picture: Picture) -> None:
    axes.grid(False)
    axes.imshow(picture.colours)
    axes.set(xlabel="column", ylabel="row")


def _nearest_time(track: DroneRecord, sensor: Sensor) -> float:
    """Return the time at which the nearest 5 % of the rays were nearest [s]; a single ray may be noise.

    The middle of the flight for a camera without depth.
    """
    table = track.tables[sensor.name]
    if sensor.images:
        if all(image.name != "depth" for image in sensor.images):
            return float(table.time[len(table.time) // 2])
        table = track.tables[f"{sensor.name}/depth"]
    distances = np.quantile(np.where(table.rows > 0.0, table.rows, np.inf), 0.05, axis=1, method="lower")
    return float(table.time[int(np.argmin(distances))])


def _draw_depth(axes: Axes, frame: VisionFrame, max_distance: float) -> None:
    image = frame.distances.reshape(frame.sensor_model.part.shape)
    axes.set_facecolor(GRID)
    axes.grid(False)
    axes.imshow(np.where(image > 0.0, image, np.nan), cmap=DEPTH_COLORMAP, vmin=0.0, vmax=max_distance)
    axes.set(xlabel="column", ylabel="row")


def _draw_plan(axes: Axes, frame: VisionFrame, max_distance: float, track: DroneRecord) -> None:
    points, distances = echo_points(frame)
    x, y = float(frame.motion.p_W.x), float(frame.motion.p_W.y)
    axes.plot(track.position[:, 0], track.position[:, 1], color=INK, linewidth=0.8, alpha=0.5)
    axes.scatter(
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
