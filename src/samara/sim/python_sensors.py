"""Sensors that Python samples: functions that cannot be traced, cameras and lidars."""

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.control.depth_observation import block_inverse_distance
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.sensor import Sensor
from samara.sim.python_controllers import require_camera
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, StageSet
from samara.sim.stages.sensors import build_sensors, receive

if TYPE_CHECKING:
    from samara.sim.camera_renderer import CameraRenderer
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group, SensorRows
    from samara.sim.ray_sensors import RayCaster
    from samara.sim.schedule import Span


class SensorState:
    """State of one drone's sensor that Python samples, and its delayed readings."""

    def __init__(self, state: Any = ()) -> None:
        self.state = state
        self.queue: deque[tuple[int, Array, dict[str, Array]]] = deque()  # arrival times [µs], readings and images


class SensorsStage(PythonStage):
    """The sensors of all drones; Python samples those that cannot be traced."""

    rate = "sensor"
    reason = "sensor in Python"
    needs_tables = False

    def __init__(self) -> None:
        self._states: dict[tuple[int, str], SensorState] = {}
        self._rays: RayCaster | None = None
        self._cameras: CameraRenderer | None = None

    def build(self, setup: DroneSetup) -> StageSet:
        """Build the traced sensors of one drone."""
        return build_sensors(setup)

    def prepare(self, fleet: "Fleet") -> None:
        """Pass the last depth images to policies whose state was reset."""
        for group in fleet.groups:
            write_depth_image(group)

    def is_due(self, fleet: "Fleet", span: "Span", *, needed: bool) -> Array:
        """Mark the instants at which a sensor that is not traced samples, or its reading arrives."""
        due, times_us = np.zeros(len(span.times_us), dtype=bool), span.times_us
        for rows in (rows for group in fleet.groups for rows in group.sensors if not rows.sensor.traced):
            for offset in (0, rows.delay_us):
                due |= (times_us >= offset) & ((times_us - offset) % rows.period_us == 0)
        return due & span.due_rows(fleet.schedule.clock("sensor"))

    def update(self, fleet: "Fleet") -> None:
        for group in fleet.groups:
            for rows in group.sensors:
                if rows.sensor.traced:
                    continue
                if fleet.time_us % rows.period_us == 0:
                    self._sample(fleet, group, rows)
                if self._receive(fleet.time_us, group, rows):
                    write_depth_image(group)
                    if rows.sensor.name in group.tables:
                        group.tables[rows.sensor.name].add(fleet.time_us, rows.reading)

    def _sensor_state(self, group: "Group", column: int, sensor: Sensor) -> SensorState:
        key = group.drones[column], sensor.name
        if key not in self._states:
            state: Any = ()
            if sensor.initial is not None:
                sensor_normals = normals(
                    group.seeds[column],
                    f"sensor {sensor.name} start",
                    int(group.drone_numbers[column]),
                    0,
                    sensor.start_normals,
                )
                state = sensor.initial(group.drone_vehicle(column), sensor_normals.tolist())
            self._states[key] = SensorState(state)
        return self._states[key]

    def _sample(self, fleet: "Fleet", group: "Group", rows: "SensorRows") -> None:
        from samara.sim.ray_sensors import RayCaster, is_ray_sensor

        if rows.sensor.images:
            self._sample_camera(fleet, group, rows)
            return
        sensor, tick = rows.sensor, fleet.tick("sensor")
        for column in range(len(group)):
            count = sensor.normals_needed
            sensor_normals = normals(
                group.seeds[column], f"sensor {sensor.name}", int(group.drone_numbers[column]), tick, count
            )
            sensor_state = self._sensor_state(group, column, sensor)
            if is_ray_sensor(sensor):
                self._rays = self._rays or RayCaster()
                values = self._rays.cast(fleet, group, column, sensor, sensor_normals)
            else:
                values = _measure(
                    group, column, sensor, sensor_state, sensor_normals.tolist(), rows.period_us / MICROSECONDS
                )
            sensor_state.queue.append((fleet.time_us + rows.delay_us, values, {}))

    def _sample_camera(self, fleet: "Fleet", group: "Group", rows: "SensorRows") -> None:
        """Render the images of all drones of a group at once."""
        from samara.sim.camera_renderer import CameraRenderer

        self._cameras = self._cameras or CameraRenderer()
        for column, (values, images) in enumerate(self._cameras.render(fleet, group, rows)):
            queue = self._sensor_state(group, column, rows.sensor).queue
            queue.append((fleet.time_us + rows.delay_us, values, images))

    def _receive(self, time_us: int, group: "Group", rows: "SensorRows") -> bool:
        """Accept the readings whose delay has passed; return whether one arrived."""
        has_arrived = False
        for column in range(len(group)):
            queue = self._sensor_state(group, column, rows.sensor).queue
            if not queue or queue[0][0] > time_us:
                continue
            (_, values, images), has_arrived = queue.popleft(), True
            if rows.silent[column] < 0.5:
                for name, image in images.items():
                    group.images[f"{rows.sensor.name}/{name}"][column] = image
            if "valid" in rows.sensor.fields:
                last_reading, state = tuple(rows.reading[:, column].tolist()), (rows.fresh[column], rows.silent[column])
                reading, rows.fresh[column] = receive(
                    (tuple(values.tolist()),), last_reading, *state, sensor=rows.sensor
                )
                rows.reading[:, column] = reading
            elif rows.silent[column] < 0.5:
                rows.reading[:, column], rows.fresh[column] = values, 1.0
        return has_arrived


def _measure(
    group: "Group", column: int, sensor: Sensor, sensor_state: SensorState, sensor_normals: list[float], dt: float
) -> Array:
    state, environment = (
        unflatten(group.templates[name], iter(group.slots[name][:, column].tolist()))
        for name in ("state", "environment")
    )
    command = tuple(group.slots["command"][:, column].tolist())
    inputs = (state, command, group.vehicle, environment, sensor_normals)
    if sensor.initial is None:
        reading = sensor.measure(*inputs)
    else:
        reading, sensor_state.state = sensor.measure(*inputs, sensor_state.state, dt)
    if isinstance(reading, tuple):
        reading = tuple(flatten(reading))
    if np.ndim(reading) != 1 or len(reading) != len(sensor.fields):
        raise ValueError(
            f"sensor {sensor.name!r} gave {reading!r}; expected {len(sensor.fields)} numbers: {', '.join(sensor.fields)}"
        )
    return np.array(reading, dtype=float)


def write_depth_image(group: "Group") -> None:
    """Write the last image of the first depth camera into the controller state of a vision policy."""
    camera = require_camera(group) if "controller_state" in group.slots else None
    if camera is not None:
        camera_part, depth_images = camera.model.part, group.slots[f"{camera.name}/reading"]
        nearness_images = block_inverse_distance(
            depth_images.T.reshape(len(group), *camera_part.shape), camera_part.max_range
        )
        group.rows("controller_state.depth_blocks")[:] = nearness_images.T
