"""A complementary filter: gyroscope for the fast part of the attitude, gravity and magnetic field for the slow one.

The attitude is Mahony's (R. Mahony, T. Hamel, J.-M. Pflimlin, "Nonlinear complementary filters on the special orthogonal
group", IEEE TAC 53, 2008): the angle between where gravity and north should be and where they are seen turns it back, and its
integral is the gyroscope's bias. Velocity and position follow the accelerometer and are pulled to each fix.

It has no covariance and a handful of gains. The accelerometer feels thrust, not gravity: in a long turn it pulls the attitude
upright where it is not. Where that matters, use the Kalman filter.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.core.algebra import (
    UP,
    ZERO,
    Quat,
    Vec3,
    conjugate,
    cross,
    direction,
    norm,
    normalize,
    quat_exp,
    quat_log,
    rotate,
    rotate_inverse,
)
from samara.core.ops import absolute, atan2, maximum, where
from samara.core.picklable import remade
from samara.core.quantity import Scalar
from samara.estimate.estimator import (
    STANDING,
    START_OPTIONS,
    Estimate,
    EstimatorSetup,
    EstimatorType,
    Fusion,
    Options,
    Sample,
    Start,
    inertial,
    of_kind,
    require_position,
)
from samara.physics.air.atmosphere import STANDARD_GRAVITY, air_density, air_pressure
from samara.physics.frames import Geodetic, enu_from_geodetic
from samara.physics.types import State
from samara.sensors.imu import ImuReading
from samara.sensors.sensor import Sensor

AIDS = ("gps", "barometer", "magnetometer", "motion_capture")


class Gains(NamedTuple):
    """How fast each error is worn away  [1/s]; `bias` is the square of such a rate."""

    tilt: float = 0.05
    heading: float = 0.5
    bias: float = 0.002
    position: float = 0.5
    velocity: float = 1.0
    pose: float = 20.0
    gravity_within: float = 0.3  # of g: how far the specific force may be from gravity's size to be taken for it


STANDARD = Gains()


class ComplementaryMemory(NamedTuple):
    """The motion at the IMU, the gyroscope's bias, and the IMU's last reading."""

    q_WB: Quat
    v_W: Vec3
    p_W: Vec3
    gyroscope_bias: Vec3
    imu: ImuReading


@lru_cache(maxsize=64)
@remade
def complementary(
    sensors: tuple[Sensor, ...],
    period: float,
    gravity: float = STANDARD_GRAVITY,
    start: Start = STANDING,
    gains: Gains = STANDARD,
) -> Fusion:
    """The filter of a drone's sensors, updated every `period` seconds"""
    imu = inertial(sensors, "the estimator complementary", period)
    aids = tuple(sensor for kind in AIDS for sensor in of_kind(sensors, kind))
    require_position(sensors, "the estimator complementary")
    mounting = imu.about.mounting

    def initial(state: State, normals: Sequence[Scalar]) -> ComplementaryMemory:
        sigma = (start.tilt, start.tilt, start.heading, *(start.velocity,) * 3, *(start.position,) * 3)
        e = [s * x for s, x in zip(sigma, normals, strict=True)]
        return ComplementaryMemory(
            state.q_WB * quat_exp(Vec3(*e[0:3])),
            state.v_W + rotate(state.q_WB, cross(state.omega_B, mounting.r_B)) + Vec3(*e[3:6]),
            state.p_W + rotate(state.q_WB, mounting.r_B) + Vec3(*e[6:9]),
            ZERO,
            ImuReading(UP * gravity, ZERO),
        )

    def predict(sample: Sample, memory: ComplementaryMemory, dt: Scalar) -> ComplementaryMemory:
        """q' = q ⊗ exp((ω − b + k e) dt),  b' = b − k_b e dt,  e = f/|f| × Rᵀ e₃, while |f| is about g"""
        now: ImuReading = sample.reading
        omega_B = rotate(mounting.q_BS, (memory.imu.omega_B + now.omega_B) * 0.5) - memory.gyroscope_bias
        f_B = rotate(mounting.q_BS, (memory.imu.specific_force_B + now.specific_force_B) * 0.5)
        trust = maximum(1.0 - absolute(norm(f_B) / gravity - 1.0) / gains.gravity_within, 0.0)
        error_B = cross(direction(f_B), rotate_inverse(memory.q_WB, UP)) * trust
        half = quat_exp((omega_B + error_B * gains.tilt) * (0.5 * dt))
        middle = memory.q_WB * half
        a_W = rotate(middle, f_B) - UP * gravity
        return ComplementaryMemory(
            normalize(middle * half),
            memory.v_W + a_W * dt,
            memory.p_W + memory.v_W * dt + a_W * (0.5 * dt * dt),
            memory.gyroscope_bias - error_B * (gains.bias * dt),
            now,
        )

    def correct(sensor: Sensor, sample: Sample, memory: ComplementaryMemory) -> ComplementaryMemory:
        """Each error is worn away by gain · time since the last sample, at most all of it"""
        part, about, span = sensor.about.part, sensor.about, 1.0 / sensor.rate

        def share(gain: float) -> Scalar:
            return min(gain * span, 1.0) * sample.fresh

        lever_W = rotate(memory.q_WB, about.mounting.r_B - mounting.r_B)
        p_W = memory.p_W + lever_W - memory.v_W * sensor.delay
        if sensor.kind == "gps":
            missing = enu_from_geodetic(Geodetic(*sample.reading.place), about.origin) - p_W
            slower = sample.reading.v_W - memory.v_W
            return memory._replace(
                p_W=memory.p_W + missing * share(gains.position), v_W=memory.v_W + slower * share(gains.velocity)
            )
        if sensor.kind == "barometer":
            altitude = about.altitude + p_W.z
            up = (air_pressure(altitude) - sample.reading.pressure) / (air_density(altitude) * STANDARD_GRAVITY)
            return memory._replace(p_W=memory.p_W + UP * (up * share(gains.position)))
        if sensor.kind == "magnetometer":
            seen = rotate(memory.q_WB * about.mounting.q_BS, sample.reading.field_B)
            true = about.field_W
            turn = atan2(seen.x * true.y - seen.y * true.x, seen.x * true.x + seen.y * true.y)
            return _turned(
                memory, rotate_inverse(memory.q_WB, UP) * turn, sample, share(gains.heading), gains.bias * span
            )
        seen_q = part.q_WM * sample.reading.q_MB * conjugate(about.mounting.q_BS)
        missing = rotate(part.q_WM, sample.reading.p_M) + part.p_WM - p_W
        turn_B = quat_log(conjugate(memory.q_WB) * seen_q)
        turned = _turned(memory, turn_B, sample, share(gains.pose), gains.bias * span)
        rate = gains.pose * gains.pose / 2.0  # critically damped, as an α–β filter
        return turned._replace(
            p_W=turned.p_W + missing * share(gains.pose),
            v_W=turned.v_W + missing * (min(rate * span, rate) * sample.fresh),
        )

    def estimate(memory: ComplementaryMemory) -> Estimate:
        """At the centre of mass: p − R r,  v − R (ω × r)"""
        omega_B = rotate(mounting.q_BS, memory.imu.omega_B) - memory.gyroscope_bias
        swing = rotate(memory.q_WB, cross(omega_B, mounting.r_B))
        return Estimate(memory.p_W - rotate(memory.q_WB, mounting.r_B), memory.v_W - swing, memory.q_WB, omega_B, ())

    return Fusion(
        "complementary", imu, aids, initial, predict, correct, estimate, start_normals=9, knows_variances=False
    )


def _turned(
    memory: ComplementaryMemory, turn_B: Vec3, sample: Sample, share: Scalar, learn: float
) -> ComplementaryMemory:
    """Turned by a share of an angle, which also teaches the bias; untouched without a sample."""
    turned = normalize(memory.q_WB * quat_exp(turn_B * share))
    pairs = zip(turned, memory.q_WB, strict=True)
    return memory._replace(
        q_WB=Quat(*(where(sample.fresh > 0.5, new, old) for new, old in pairs)),
        gyroscope_bias=memory.gyroscope_bias - turn_B * (learn * sample.fresh),
    )


def _build(setup: EstimatorSetup, start: Start = STANDING, gains: Gains = STANDARD) -> Fusion:
    return complementary(setup.sensors, setup.period, setup.gravity, start, gains)


TYPES = (EstimatorType("complementary", _build, (START_OPTIONS, Options("gains", Gains, above=0.0))),)
