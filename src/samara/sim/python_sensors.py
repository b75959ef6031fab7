"""Sensors that Python samples: functions of one's own that cannot be traced, and cameras and lidars."""

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.control.sight import nearness
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.sensor import Sensor
from samara.sim.python_controllers import require_camera
from samara.sim.setup import DroneSetup
from samara.sim.stage import PythonStage, StageSet
from samara.sim.stages.sensors import build_sensors, receive

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group, SensorRows
    from samara.sim.ray_sensors import RayCaster
    from samara.sim.schedule import Span

Array = np.ndarray[Any, Any]


class SensorState:
    """One drone's part of a sensor that Python samples: its state, and the readings that have not arrived yet."""

    def __init__(self, state: Any = ()) -> None:
        self.state = state
        self.queue: deque[tuple[int, Array]] = deque()  # when each arrives [µs], and its numbers


class SensorsStage(PythonStage):
    """Every sensor of every drone; Python samples those that cannot be traced."""

    rate = "sensor"
    reason = "sensor in Python"
    needs_tables = False

    def __init__(self) -> None:
        self._states: dict[tuple[int, str], SensorState] = {}
        self._rays: RayCaster | None = None

    def build(self, setup: DroneSetup) -> StageSet:
        """The sensors of one drone that can be traced"""
        return build_sensors(setup)

    def prepare(self, fleet: "Fleet") -> None:
        """Show the last pictures to policies whose state begins anew"""
        for group in fleet.groups:
            show_picture(group)

    def is_due(self, fleet: "Fleet", span: "Span", *, needed: bool) -> Array:
        """Where a sensor that is not traced is to be sampled, or its reading arrives"""
        found, times_us = np.zeros(len(span.times_us), dtype=bool), span.times_us
        for rows in (rows for group in fleet.groups for rows in group.sensors if not rows.sensor.traced):
            for offset in (0, rows.delay_us):
                found |= (times_us >= offset) & ((times_us - offset) % rows.period_us == 0)
        return found & span.at(fleet.schedule.clock("sensor"))

    def update(self, fleet: "Fleet") -> None:
        for group in fleet.groups:
            for rows in group.sensors:
                if rows.sensor.traced:
                    continue
                if fleet.time_us % rows.period_us == 0:
                    self._sample(fleet, group, rows)
                if self._receive(fleet.time_us, group, rows):
                    show_picture(group)
                    if rows.sensor.name in group.tables:
                        group.tables[rows.sensor.name].add(fleet.time_us, rows.reading)

    def _state(self, group: "Group", lane: int, sensor: Sensor) -> SensorState:
        key = group.drones[lane], sensor.name
        if key not in self._states:
            state: Any = ()
            if sensor.initial is not None:
                drawn = normals(
                    group.seeds[lane], f"sensor {sensor.name} start", int(group.numbers[lane]), 0, sensor.start_normals
                )
                state = sensor.initial(group.vehicle_of(lane), drawn.tolist())
            self._states[key] = SensorState(state)
        return self._states[key]

    def _sample(self, fleet: "Fleet", group: "Group", rows: "SensorRows") -> None:
        from samara.sim.ray_sensors import RayCaster, is_ray_sensor

        sensor, tick = rows.sensor, fleet.tick("sensor")
        for lane in range(len(group)):
            count = sensor.normals_needed
            drawn = normals(group.seeds[lane], f"sensor {sensor.name}", int(group.numbers[lane]), tick, count)
            own = self._state(group, lane, sensor)
            if is_ray_sensor(sensor):
                self._rays = self._rays or RayCaster()
                values = self._rays.cast(fleet, group, lane, sensor, drawn)
            else:
                values = _measured(group, lane, sensor, own, drawn.tolist(), rows.period_us / MICROSECONDS)
            own.queue.append((fleet.time_us + rows.delay_us, values))

    def _receive(self, time_us: int, group: "Group", rows: "SensorRows") -> bool:
        """Readings whose delay has passed arrive; whether any did"""
        arrived = False
        for lane in range(len(group)):
            queue = self._state(group, lane, rows.sensor).queue
            if not queue or queue[0][0] > time_us:
                continue
            (_, values), arrived = queue.popleft(), True
            if "valid" in rows.sensor.fields:
                before, state = tuple(rows.reading[:, lane].tolist()), (rows.fresh[lane], rows.silent[lane])
                reading, rows.fresh[lane] = receive((tuple(values.tolist()),), before, *state, sensor=rows.sensor)
                rows.reading[:, lane] = reading
            elif rows.silent[lane] < 0.5:
                rows.reading[:, lane], rows.fresh[lane] = values, 1.0
        return arrived


def _measured(group: "Group", lane: int, sensor: Sensor, own: SensorState, drawn: list[float], dt: float) -> Array:
    state, environment = (
        unflatten(group.templates[name], iter(group.slots[name][:, lane].tolist())) for name in ("state", "environment")
    )
    command = tuple(group.slots["command"][:, lane].tolist())
    inputs = (state, command, group.vehicle, environment, drawn)
    if sensor.initial is None:
        reading = sensor.measure(*inputs)
    else:
        reading, own.state = sensor.measure(*inputs, own.state, dt)
    if isinstance(reading, tuple):
        reading = tuple(flatten(reading))
    if np.ndim(reading) != 1 or len(reading) != len(sensor.fields):
        raise ValueError(
            f"sensor {sensor.name!r} gave {reading!r}; expected {len(sensor.fields)} numbers: {', '.join(sensor.fields)}"
        )
    return np.array(reading, dtype=float)


def show_picture(group: "Group") -> None:
    """The last picture of the first depth camera, to a policy that flies by it"""
    camera = require_camera(group) if "controller_state" in group.slots else None
    if camera is not None:
        part, pictures = camera.about.part, group.slots[f"{camera.name}/reading"]
        shown = nearness(pictures.T.reshape(len(group), *part.shape), part.farthest)
        group.rows("controller_state.picture")[:] = shown.T
