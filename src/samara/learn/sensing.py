"""What stands between a drone and its policy: noise and latency, or sensors and the filter that listens to them.

    VectorEnv("hover", sensing=noisy(Noise(position=0.001), latency=0.02))
    VectorEnv("hover", sensing=fused(("bmi088", "vicon"), "ekf"))

The estimators and sensors are those of scenarios. A task's `observation` is then given their estimate in place of the state;
rotor speeds and what effects carry stay true.
"""

from typing import Any, NamedTuple

from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.estimate.fusion import STANDING, EstimatorSetup, Fusion, Sample, Start
from samara.estimate.registry import ESTIMATORS
from samara.estimate.simple import TRUTH, Estimator, Noise, delayed_estimator, noisy_estimator
from samara.learn.task import Craft, Draw, Situation
from samara.physics.types import Environment, State
from samara.sensors.registry import part
from samara.sensors.sensor import Sensor

FILTERS = {name: estimator for name, estimator in ESTIMATORS.items() if estimator.fuses}
L2F_NOISE = Noise(position=0.001, velocity=0.002, yaw=0.001, rate=0.002, rate_bias=0.0)
"""The noise that L2F trains with ("Learning to fly in seconds", 2024), but that only the yaw of the attitude has some."""


class Told(NamedTuple):
    """An estimator that is told the truth, updated every `period` [s]."""

    estimator: Estimator
    period: float

    def begin(self, draw: Draw, state: State, craft: Craft) -> Any:
        return self.estimator.initial(state)

    def update(
        self, draw: Draw, memory: Any, situation: Situation, craft: Craft, environment: Environment
    ) -> tuple[State, Any]:
        """x̂, and what it remembers"""
        normals = [draw.normal() for _ in range(self.estimator.normals_needed)]
        return self.estimator.update(situation.state, normals, memory, self.period)


def noisy(noise: Noise | None = None, latency: float = 0.0, period: float = 0.01) -> Told:
    """The state with noise, some time late [s]: a multiple of the task's period"""
    source = TRUTH if noise is None else noisy_estimator(noise)
    return Told(delayed_estimator(latency, period, source) if latency else source, period)


class Heard(NamedTuple):
    """Of one sensor: what it remembers, how many periods ago it last sampled, and what it said that is still on its way, the
    oldest first; with each whether it is new."""

    memory: Any
    since: Scalar
    coming: tuple[tuple[Any, Scalar], ...]


class Fused(NamedTuple):
    """A filter updated every `period` [s] by the sensors that it listens to."""

    fusion: Fusion
    period: float

    def begin(self, draw: Draw, state: State, craft: Craft) -> Any:
        """Sensors just switched on, and a filter that knows where it is as well as it can"""
        heard = tuple(self._switched_on(sensor, draw, craft) for sensor in self._sensors)
        return heard, self.fusion.initial(state, [draw.normal() for _ in range(self.fusion.start_normals)])

    def update(
        self, draw: Draw, memory: Any, situation: Situation, craft: Craft, environment: Environment
    ) -> tuple[State, Any]:
        """The estimate after this moment's readings, in place of position, velocity, attitude and angular velocity"""
        heard, known, samples = [], memory[1], {}
        for sensor, own in zip(self._sensors, memory[0], strict=True):
            samples[sensor.name], after = self._listened(sensor, own, draw, situation.state, craft, environment)
            heard.append(after)
        estimate, known = self.fusion.update(samples, known, self.period)
        state = situation.state._replace(
            p_W=estimate.p_W, v_W=estimate.v_W, q_WB=estimate.q_WB, omega_B=estimate.omega_B
        )
        return state, (tuple(heard), known)

    @property
    def _sensors(self) -> tuple[Sensor, ...]:
        return self.fusion.driver, *self.fusion.aids

    def _every(self, sensor: Sensor) -> int:
        return max(1, round(1.0 / (sensor.rate * self.period))) if sensor.rate else 1

    def _switched_on(self, sensor: Sensor, draw: Draw, craft: Craft) -> Heard:
        normals = [draw.normal() for _ in range(sensor.start_normals)]
        memory = sensor.initial(craft.vehicle, normals) if sensor.initial else ()
        silence = (sensor.reading, 0.0)
        return Heard(memory, float(self._every(sensor)), (silence,) * round(sensor.delay / self.period))

    def _listened(
        self, sensor: Sensor, own: Heard, draw: Draw, state: State, craft: Craft, environment: Environment
    ) -> tuple[Sample, Heard]:
        every, normals = self._every(sensor), [draw.normal() for _ in range(sensor.normals_needed)]
        given = state, craft.command, craft.vehicle, environment, normals
        if sensor.initial is None:
            reading, memory = sensor.measure(*given), ()
        else:
            reading, memory = sensor.measure(*given, own.memory, every * self.period)
        fresh: Scalar = 1.0
        since: Scalar = own.since
        if every > 1:
            due = own.since > every - 0.5
            fresh, since = where(due, 1.0, 0.0), where(due, 1.0, own.since + 1.0)
            memory = _chosen(due, memory, own.memory)
        if "valid" in getattr(reading, "_fields", ()):
            fresh = where(reading.valid > 0.5, fresh, 0.0)
        line = (*own.coming, (reading, fresh))
        return Sample(*line[0]), Heard(memory, since, line[1:])


def fused(
    sensors: tuple[str | Sensor, ...] = ("bmi088", "vicon"),
    estimator: str = "complementary",
    period: float = 0.01,
    start: Start = STANDING,
) -> Fused:
    """Sensors by the names of their parts or themselves, and the filter that makes a state of what they say"""
    if estimator not in FILTERS:
        raise ValueError(f"estimator {estimator!r}: expected one of {', '.join(FILTERS)}")
    own = tuple(part(each).sensor() if isinstance(each, str) else each for each in sensors)
    return Fused(FILTERS[estimator].build(EstimatorSetup(own, period), start=start), period)


def _chosen(due: Any, new: Any, old: Any) -> Any:
    if not isinstance(new, tuple):
        return where(due, new, old)
    own = [_chosen(due, one, other) for one, other in zip(new, old, strict=True)]
    return type(new)(*own) if hasattr(new, "_fields") else tuple(own)
