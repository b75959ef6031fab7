"""Sensor stages: each sensor samples at its rate, and its reading arrives after its delay."""

from collections.abc import Sequence

from samara.core.ops import where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.physics.types import Command, Environment, State, Vehicle
from samara.scenario.timeline import sampling
from samara.sensors.sensor import Sensor
from samara.sim.setup import DroneSetup
from samara.sim.stage import InitialValue, Normals, RandomInputs, Stage, StageSet


def sample(
    state: State,
    command: Command,
    environment: Environment,
    sensor_state: Tree,
    queue: tuple[Tree, ...],
    dt: Scalar,
    normals: Sequence[Scalar] = (),
    *,
    sensor: Sensor,
    vehicle: Vehicle,
) -> tuple[Tree, tuple[Tree, ...]]:
    """Sample a sensor, and append the reading to the queue of delayed readings."""
    inputs = (state, command, vehicle, environment, normals)
    if sensor.initial is None:
        reading = sensor.measure(*inputs)
    else:
        reading, sensor_state = sensor.measure(*inputs, sensor_state, dt)
    return sensor_state, (*queue[1:], reading)


def receive(
    queue: tuple[Tree, ...], reading: Tree, fresh: Scalar, silent: Scalar, *, sensor: Sensor
) -> tuple[Tree, Scalar]:
    """Receive the oldest reading of the queue; it is fresh unless the sensor has failed or the reading is not valid.

    A failed sensor keeps its last reading.
    """
    failed = silent > 0.5
    values = [where(failed, old, new) for old, new in zip(flatten(reading), flatten(queue[0]), strict=True)]
    fresh = where(failed, fresh, 1.0)
    if "valid" in sensor.fields:
        fresh = where(values[sensor.fields.index("valid")] > 0.5, fresh, 0.0)
    return unflatten(reading, iter(values)), fresh


def reading_template(sensor: Sensor) -> Tree:
    """Return a reading of zeros."""
    return sensor.reading or tuple(0.0 for _ in sensor.fields)


def build_sensors(setup: DroneSetup) -> StageSet:
    """Build a sampling and a receiving stage for each traced sensor, and slots for all sensors."""
    stages: list[Stage] = []
    slots: dict[str, Tree] = {}
    for sensor in setup.sensors:
        every, delay = sampling(sensor, setup.flight.periods["sensor"])
        name, template = sensor.name, reading_template(sensor)
        slots |= {f"{name}/reading": template, f"{name}/fresh": 0.0, f"{name}/silent": 0.0}
        if not sensor.traced:
            continue
        slots[f"{name}/state"] = () if sensor.initial is None else _initial(sensor, setup.vehicle)
        slots[f"{name}/queue"] = (template,) * (delay // every + 1)
        normals = RandomInputs(f"sensor {name}", sensor.normals_needed) if sensor.normals_needed else None
        reads: tuple[str, ...] = ("state", "command", "environment", f"{name}/state", f"{name}/queue", "dt")
        parameters: tuple[tuple[str, Tree], ...] = (("sensor", sensor), ("vehicle", setup.vehicle))
        writes = (f"{name}/state", f"{name}/queue")
        stages.append(Stage(f"{name} samples", "sensor", sample, reads, writes, parameters, normals, every=every))
        reads = (f"{name}/queue", f"{name}/reading", f"{name}/fresh", f"{name}/silent")
        writes = (f"{name}/reading", f"{name}/fresh")
        parameters = (("sensor", sensor),)
        stages.append(Stage(f"{name} arrives", "sensor", receive, reads, writes, parameters, every=every, delay=delay))
    in_python = [sensor.name for sensor in setup.sensors if not sensor.traced]
    return StageSet(tuple(stages), slots, f"{', '.join(in_python)}: sensor in Python" if in_python else "")


def _initial(sensor: Sensor, vehicle: Vehicle) -> InitialValue:
    def initial(state: State, normals: Normals) -> Tree:
        assert sensor.initial is not None, sensor.name
        return sensor.initial(vehicle, normals(f"sensor {sensor.name} start", sensor.start_normals))

    return initial
