"""Films of what a recorded camera or lidar saw: `Film(camera="eye")`, or one output, `Film(camera="eye/depth")`."""

from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.run import DroneRecord, Run
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.camera import CameraModel
from samara.sensors.sensor import Sensor
from samara.view.vision_frames import VisionFrame, colour_scale, pictures, vision_frame, vision_sensors

BORDER = np.uint8(255)  # grey level around a picture of another shape
SCALE_ROWS = 50  # readings from which the colour scale of distances is chosen


class RecordedView(NamedTuple):
    """A picture stream of a drone's sensor: `quantity` is "rgb", "depth", "range" …."""

    track: DroneRecord
    sensor: Sensor
    quantity: str


def recorded_views(run: Run, drone: str) -> dict[str, RecordedView]:
    """Return the pictures that a drone recorded, by the names that `Film.camera` takes."""
    index = [track.name for track in run.drone_records].index(drone) if drone else 0
    track = run.drone_records[index]
    views: dict[str, RecordedView] = {}
    for name, sensor in vision_sensors([run])[index].items():
        if isinstance(sensor.model, CameraModel):
            quantities = [image.name for image in sensor.images]
        else:
            quantities = ["depth" if sensor.model.is_camera else "range"]
        for quantity in quantities:
            if len(track.tables[name].times_us):
                views.setdefault(name, RecordedView(track, sensor, quantity))
                views[f"{name}/{quantity}"] = RecordedView(track, sensor, quantity)
    return views


class SensorFilm:
    """A recorded view ready to be filmed: `frame(time)` returns a picture (height, width, 3)."""

    def __init__(self, view: RecordedView, size: tuple[int, int]) -> None:
        self._view, self._size = view, size
        table = view.track.tables[view.sensor.name]
        rows = np.linspace(0, len(table.times_us) - 1, min(len(table.times_us), SCALE_ROWS)).astype(int)
        times = table.times_us[rows] / MICROSECONDS
        self._first = float(times[0])
        distances = [self._reading(float(time)).distances for time in times]
        self._max_distance = colour_scale(np.concatenate(distances))

    def _reading(self, time: float) -> VisionFrame:
        return vision_frame(self._view.track, self._view.sensor, time)

    def frame(self, time: float) -> Array:
        """Return the latest picture at a time, enlarged without smoothing; an empty one before the first."""
        width, height = self._size
        canvas = np.full((height, width, 3), BORDER, np.uint8)
        if time < self._first:
            return canvas
        views = pictures(self._reading(time), self._max_distance)
        colours = next(picture.colours for picture in views if picture.quantity == self._view.quantity)
        rows, columns = colours.shape[:2]
        scale = min(height / rows, width / columns)
        shown_rows, shown_columns = (max(1, round(scale * count)) for count in (rows, columns))
        row, column = (
            np.minimum((np.arange(shown) + 0.5) * count / shown, count - 1).astype(int)
            for shown, count in ((shown_rows, rows), (shown_columns, columns))
        )
        top, left = (height - shown_rows) // 2, (width - shown_columns) // 2
        canvas[top : top + shown_rows, left : left + shown_columns] = colours[row[:, None], column]
        return canvas
