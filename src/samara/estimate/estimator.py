"""Estimators that are told what the sensors said, and never the truth.

    memory = estimator.initial(state, normals)                    # where the flight begins, known so well
    estimate, memory = estimator.update(samples, memory, dt)      # samples["imu"].reading, samples["imu"].fresh

`samples` has one for each name in `needs`: the sensor's last reading, and 1 where it is new since the last update, else 0.
All of it is pure and component-wise: it takes one drone or a batch, and every backend compiles it.
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


class Sample(NamedTuple):
    """What a sensor said last, in the shape of its reading, and whether that is new: 1 or 0."""

    reading: Tree
    fresh: Scalar


class Variances(NamedTuple):
    """Squares of the standard deviations an estimator believes its errors have, axis by axis."""

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
    """The motion of the centre of mass, as the first four of `State`; and how sure of it: `Variances`, or () if unknown."""

    p_W: Vec3 = ZERO
    v_W: Vec3 = ZERO
    q_WB: Quat = IDENTITY
    omega_B: Vec3 = ZERO
    variances: Tree = Variances()


class Start(NamedTuple):
    """Standard deviations of what an estimator is told of the beginning: it knows where it stands, and not exactly."""

    position: float = 0.1  # [m]
    velocity: float = 0.05  # [m/s]
    tilt: float = 0.01  # [rad]
    heading: float = 0.03  # [rad]


STANDING = Start()


@dataclass(frozen=True)
class Fusion:
    """An estimator: `driver` is the sensor whose every reading moves it on, `aids` are those that correct it.

    `initial(state, normals)` with `start_normals` of them gives its memory, a nested tuple of scalars; `predict(sample, memory,
    dt)` and `correct(aid, sample, memory)` the next; `estimate(memory)` what it knows.
    """

    name: str
    driver: Sensor
    aids: tuple[Sensor, ...]
    initial: Callable[[State, Sequence[Scalar]], Tree]
    predict: Callable[[Sample, Tree, Scalar], Tree]
    correct: Callable[[Sensor, Sample, Tree], Tree]
    estimate: Callable[[Tree], Estimate]
    start_normals: int = 0
    knows_variances: bool = True
    normals_needed: int = 0

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the sensors it listens to, the driver first"""
        return (self.driver.name, *(sensor.name for sensor in self.aids))

    def update(self, samples: Mapping[str, Sample], memory: Tree, dt: Scalar) -> tuple[Estimate, Tree]:
        """Predicted by the driver's sample, corrected by each of the others that is fresh"""
        memory = self.predict(samples[self.driver.name], memory, dt)
        for aid in self.aids:
            memory = self.correct(aid, samples[aid.name], memory)
        return self.estimate(memory), memory


class EstimatorSetup(NamedTuple):
    """The inputs of an estimator's construction: the drone's sensors, the time between updates [s], and gravity [m/s²]."""

    sensors: tuple[Sensor, ...]
    period: float
    gravity: float = STANDARD_GRAVITY


class Options(NamedTuple):
    """Parameters of an estimator in a scenario file: the fields of a named tuple, each above a bound.

    The estimator is built with the record as the argument `argument`. The fields stand in the estimator's table or, with
    `table`, in the table of that name within it. A field without a default is required.
    """

    argument: str
    record: type[Any]
    above: float = -math.inf
    table: str = ""


class EstimatorType(NamedTuple):
    """A type of estimator: `build(setup, **records)` makes one of its options; `fuses` means that it uses the sensors."""

    name: str
    build: Callable[..., Any]
    options: tuple[Options, ...] = ()
    fuses: bool = True


START_OPTIONS = Options("start", Start, above=0.0, table="start")
POSITION_SENSORS = ("gps", "motion_capture")


def can_fuse(sensors: Sequence[Sensor]) -> bool:
    """Whether an IMU and a position sensor are among the sensors: without them no estimate of the position is bounded."""
    return any(sensor.kind == "imu" for sensor in sensors) and any(
        sensor.kind in POSITION_SENSORS for sensor in sensors
    )


def require_position(sensors: Sequence[Sensor], who: str) -> None:
    """ValueError if none of the sensors measures the position"""
    if not any(sensor.kind in POSITION_SENSORS for sensor in sensors):
        names = ", ".join(sensor.name for sensor in sensors)
        raise ValueError(f"{who} needs a GPS receiver or motion capture; the sensors are {names}")


def of_kind(sensors: Sequence[Sensor], kind: str) -> tuple[Sensor, ...]:
    """The sensors of a kind, in their order"""
    return tuple(sensor for sensor in sensors if sensor.kind == kind)


def inertial(sensors: Sequence[Sensor], who: str, period: float) -> Sensor:
    """The one IMU an estimator is driven by; at least as fast as its updates"""
    found = of_kind(sensors, "imu")
    if not found:
        names = ", ".join(sensor.name for sensor in sensors) or "none"
        raise ValueError(f"{who} needs an IMU such as bmi088; the sensors are {names}")
    if found[0].rate * period < 1.0 - 1e-9:
        raise ValueError(
            f"{who} is updated every {period:g} s and its IMU samples at {found[0].rate:g} Hz; expected at least "
            f"{1.0 / period:g} Hz"
        )
    return found[0]
