"""Sensing between a drone and its policy: noise and latency, or sensors and the filter that fuses them.

    VectorEnv("hover", sensing=noisy_sensing(EstimateNoise(position=0.001), latency=0.02))
    VectorEnv("hover", sensing=fused_sensing(("bmi088", "vicon"), "ekf"))

Sensors, estimators and the stages that run them are those of flights. A task's `observation` gets their estimate
instead of the state; rotor speeds and effect states stay true.
"""

from typing import NamedTuple

from samara.estimate.estimator import DEFAULT_START, EstimatorSetup, Fusion, StartUncertainty
from samara.estimate.ideal import TRUTH, EstimateNoise, Estimator, delayed_estimator, noisy_estimator
from samara.estimate.registry import ESTIMATORS
from samara.learn.episode import Slots, run_stages
from samara.learn.task import Draw, Situation, Tree, TrimmedDrone
from samara.physics.types import Environment, State
from samara.sensors.registry import part
from samara.sensors.sensor import Sensor
from samara.sim.stage import RandomInputs, Stage
from samara.sim.stages.estimator import add_noise, fusion_stages
from samara.sim.stages.sensors import reading_template, receive, sample

FILTERS = {name: estimator for name, estimator in ESTIMATORS.items() if estimator.uses_sensors}
L2F_NOISE = EstimateNoise(position=0.001, velocity=0.002, yaw=0.001, rate=0.002, rate_bias=0.0)
"""The noise of L2F ("Learning to fly in seconds", 2024), except that only the yaw of the attitude is noisy."""


class NoisyState(NamedTuple):
    """An estimator that adds noise and latency to the state, updated every `period` [s]."""

    estimator: Estimator
    period: float

    def initial(self, draw: Draw, state: State, drone: TrimmedDrone) -> Tree:
        """Return the state of the estimator at the start of an episode."""
        return self.estimator.initial(state)

    def update(
        self, draw: Draw, sensing_state: Tree, situation: Situation, drone: TrimmedDrone, environment: Environment
    ) -> tuple[State, Tree]:
        """Return x̂ and the estimator's state."""
        normals = [draw.normal() for _ in range(self.estimator.normals_needed)]
        return add_noise(situation.state, sensing_state, self.period, normals, estimator=self.estimator)


def noisy_sensing(noise: EstimateNoise | None = None, latency: float = 0.0, period: float = 0.01) -> NoisyState:
    """Observe the state with noise and a latency [s], which is a multiple of the task's period."""
    source = TRUTH if noise is None else noisy_estimator(noise)
    return NoisyState(delayed_estimator(latency, period, source) if latency else source, period)


class FusedSensors(NamedTuple):
    """A filter updated every `period` [s] by its sensors, each of which samples at most once in a period.

    Its state is the count of updates and the values of its slots.
    """

    fusion: Fusion
    period: float

    def initial(self, draw: Draw, state: State, drone: TrimmedDrone) -> tuple[float, tuple[Tree, ...]]:
        """Return sensors just switched on, and a filter initialised near the true state."""
        slots = self._empty_slots
        for sensor in self._sensors:
            normals = [draw.normal() for _ in range(sensor.start_normals)]
            slots[f"{sensor.name}/state"] = sensor.initial(drone.vehicle, normals) if sensor.initial else ()
        slots["filter"] = self.fusion.initial(state, [draw.normal() for _ in range(self.fusion.start_normals)])
        return 0.0, tuple(slots[name] for name in self._carried_slots)

    def update(
        self, draw: Draw, sensing_state: Tree, situation: Situation, drone: TrimmedDrone, environment: Environment
    ) -> tuple[State, Tree]:
        """Return the filter's estimate of position, velocity, attitude and angular velocity, and the new state."""
        tick, values = sensing_state
        slots = self._empty_slots | dict(zip(self._carried_slots, values, strict=True)) | {"silent": 0.0}
        slots |= {"state": situation.state, "command": drone.command, "environment": environment}
        slots = run_stages(self._stages(drone), slots, self.period, draw, tick)
        return slots["estimate"], (tick + 1.0, tuple(slots[name] for name in self._carried_slots))

    @property
    def _sensors(self) -> tuple[Sensor, ...]:
        return self.fusion.driver, *self.fusion.aids

    @property
    def _carried_slots(self) -> tuple[str, ...]:
        """The slots carried from one update to the next: readings that have arrived are used once, at once."""
        queues = (f"{sensor.name}/queue" for sensor in self._sensors if self._sampling(sensor) != (1, 0))
        return (*(f"{sensor.name}/state" for sensor in self._sensors), *queues, "filter")

    @property
    def _empty_slots(self) -> Slots:
        """Slots before the first sample of the sensors."""
        slots: Slots = {}
        for sensor in self._sensors:
            name, template, (every, delay) = sensor.name, reading_template(sensor), self._sampling(sensor)
            slots[f"{name}/queue"] = (template,) * (delay // every + 1)
            slots |= {f"{name}/reading": template, f"{name}/fresh": 0.0}
        return slots

    def _sampling(self, sensor: Sensor) -> tuple[int, int]:
        """Return the updates between samples, and from a sample to its arrival."""
        every = max(1, round(1.0 / (sensor.rate * self.period))) if sensor.rate else 1
        return every, round(sensor.delay / self.period)

    def _stages(self, drone: TrimmedDrone) -> tuple[Stage, ...]:
        """Return the stages that sample, receive and fuse the readings."""
        stages: list[Stage] = []
        for sensor in self._sensors:
            state, queue, reading, fresh = (f"{sensor.name}/{part}" for part in ("state", "queue", "reading", "fresh"))
            (every, delay), sensor_parameter, vehicle = (
                self._sampling(sensor),
                ("sensor", sensor),
                ("vehicle", drone.vehicle),
            )
            normals = RandomInputs(f"sensor {sensor.name}", sensor.normals_needed)
            reads, writes = ("state", "command", "environment", state, queue, "dt"), (state, queue)
            stages.append(
                Stage("sample", "sensor", sample, reads, writes, (sensor_parameter, vehicle), normals, every=every)
            )
            receive_stage = Stage(
                "receive", "sensor", receive, (queue, reading, fresh, "silent"), (reading, fresh), (sensor_parameter,)
            )
            stages.append(receive_stage._replace(every=every, delay=delay))
        return (*stages, *fusion_stages(self.fusion, "estimate"))


def fused_sensing(
    sensors: tuple[str | Sensor, ...] = ("bmi088", "vicon"),
    estimator: str = "complementary",
    period: float = 0.01,
    start: StartUncertainty = DEFAULT_START,
) -> FusedSensors:
    """Observe the estimate of a filter; `sensors` are sensors or the names of their parts."""
    if estimator not in FILTERS:
        raise ValueError(f"estimator {estimator!r}: expected one of {', '.join(FILTERS)}")
    fitted_sensors = tuple(part(sensor).sensor() if isinstance(sensor, str) else sensor for sensor in sensors)
    return FusedSensors(FILTERS[estimator].build(EstimatorSetup(fitted_sensors, period), start=start), period)
