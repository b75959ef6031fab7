"""Estimators that use sensor readings, never the true state.

    estimator_state = estimator.initial(state, normals)                          # a start with known uncertainty
    estimate, estimator_state = estimator.update(samples, estimator_state, dt)   # samples["imu"].reading, samples["imu"].fresh

`samples` has one sample for each name in `sensor_names`: its latest reading, and 1 if it is new since the last update, else 0.
All functions are pure and component-wise: they take one drone or a batch, and every backend compiles them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.quantity import Scalar, Tree
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.types import State
from samara.sensors.sensor import Sensor


class SensorSample(NamedTuple):
    """The latest reading of a sensor, and whether it is new: 1 or 0."""

    reading: Tree
    fresh: Scalar


class Variances(NamedTuple):
    """Variances of the errors of an estimate, axis by axis, as the estimator computes them."""

    p_W: Vec3 = ZERO
    v_W: Vec3 = ZERO
    theta_B: Vec3 = ZERO
    gyroscope_bias: Vec3 = ZERO
    accelerometer_bias: Vec3 = ZERO


VARIANCE_UNITS = {
    "p_W": "m^2",
    "v_W": "m^2/s^2",
    "theta_B": "rad^2",
    "gyroscope_bias": "rad^2/s^2",
    "accelerometer_bias": "m^2/s^4",
}


class Estimate(NamedTuple):
    """The motion of the centre of mass, as the first four fields of `State`; and its `Variances`, or () if unknown."""

    p_W: Vec3 = ZERO
    v_W: Vec3 = ZERO
    q_WB: Quat = IDENTITY
    omega_B: Vec3 = ZERO
    variances: Tree = Variances()


class StartUncertainty(NamedTuple):
    """Standard deviations of the initial state that an estimator receives."""

    position: float = 0.1  # [m]
    velocity: float = 0.05  # [m/s]
    tilt: float = 0.01  # [rad]
    heading: float = 0.03  # [rad]


DEFAULT_START = StartUncertainty()


@dataclass(frozen=True)
class Fusion:
    """An estimator that fuses sensors: the readings of `driver` drive the prediction, those of `aids` correct it.

    `initial(state, normals)`, with `start_normals` standard normals, returns the estimator's state, a nested tuple of scalars;
    `predict(sample, estimator_state, dt)` and `correct(aid, sample, estimator_state)` return the next one;
    `estimate(estimator_state)` returns the estimate.
    """

    name: str
    driver: Sensor
    aids: tuple[Sensor, ...]
    initial: Callable[[State, Sequence[Scalar]], Tree]
    predict: Callable[[SensorSample, Tree, Scalar], Tree]
    correct: Callable[[Sensor, SensorSample, Tree], Tree]
    estimate: Callable[[Tree], Estimate]
    start_normals: int = 0
    has_variances: bool = True
    normals_needed: int = 0

    @property
    def sensor_names(self) -> tuple[str, ...]:
        """Names of the required sensors, the driver first."""
        return (self.driver.name, *(sensor.name for sensor in self.aids))

    def update(self, samples: Mapping[str, SensorSample], estimator_state: Tree, dt: Scalar) -> tuple[Estimate, Tree]:
        """Predict with the driver's sample, and correct with the samples of the aids that are fresh."""
        estimator_state = self.predict(samples[self.driver.name], estimator_state, dt)
        for aid in self.aids:
            estimator_state = self.correct(aid, samples[aid.name], estimator_state)
        return self.estimate(estimator_state), estimator_state


class EstimatorSetup(NamedTuple):
    """Inputs of an estimator's construction: the drone's sensors, the time between updates [s], and gravity [m/s²]."""

    sensors: tuple[Sensor, ...]
    period: float
    gravity: float = STANDARD_GRAVITY


class EstimatorOptions(NamedTuple):
    """Parameters of an estimator in a scenario file: the fields of a named tuple, each above a bound.

    The estimator is built with the record as the argument `argument`. The fields are keys of the estimator's table or, with
    `table`, of the table of that name within it. A field without a default is required.
    """

    argument: str
    record: type[Any]
    above: float = -math.inf
    table: str = ""


class EstimatorType(NamedTuple):
    """A type of estimator: `build(setup, **records)` builds one from its options; `uses_sensors` is False for an
    estimator without sensors."""

    name: str
    build: Callable[..., Any]
    options: tuple[EstimatorOptions, ...] = ()
    uses_sensors: bool = True


START_OPTIONS = EstimatorOptions("start", StartUncertainty, above=0.0, table="start")
POSITION_SENSORS = ("gps", "motion_capture")


def can_fuse(sensors: Sequence[Sensor]) -> bool:
    """Whether the sensors include an IMU and a position sensor; without them the position error grows without bound."""
    return any(sensor.type_name == "imu" for sensor in sensors) and any(
        sensor.type_name in POSITION_SENSORS for sensor in sensors
    )


def require_position(sensors: Sequence[Sensor], user: str) -> None:
    """Raise ValueError if none of the sensors measures the position."""
    if not any(sensor.type_name in POSITION_SENSORS for sensor in sensors):
        names = ", ".join(sensor.name for sensor in sensors)
        raise ValueError(f"{user} needs a GPS receiver or motion capture; the sensors are {names}")


def select_sensors(sensors: Sequence[Sensor], kind: str) -> tuple[Sensor, ...]:
    """Return the sensors of a type, in their order."""
    return tuple(sensor for sensor in sensors if sensor.type_name == kind)


def require_imu(sensors: Sequence[Sensor], user: str, period: float) -> Sensor:
    """Return the first IMU; raise ValueError if there is none, or if it is slower than the updates of the estimator."""
    imus = select_sensors(sensors, "imu")
    if not imus:
        names = ", ".join(sensor.name for sensor in sensors) or "none"
        raise ValueError(f"{user} needs an IMU such as bmi088; the sensors are {names}")
    if imus[0].rate * period < 1.0 - 1e-9:
        raise ValueError(
            f"{user} is updated every {period:g} s and its IMU samples at {imus[0].rate:g} Hz; expected at least "
            f"{1.0 / period:g} Hz"
        )
    return imus[0]
