"""A complementary filter: gyroscope for the fast part of the attitude, gravity and magnetic field for the slow one.

The attitude is Mahony's (R. Mahony, T. Hamel, J.-M. Pflimlin, "Nonlinear complementary filters on the special orthogonal
group", IEEE TAC 53, 2008): the angle between the expected and the measured directions of gravity and north corrects it, and the
integral of that angle is the gyroscope's bias. Velocity and position follow the accelerometer and are corrected by each fix.

The filter has no covariance and a handful of gains. The accelerometer measures thrust, not gravity: in a long turn the
estimated attitude drifts towards level although the vehicle is tilted. If that matters, use the Kalman filter.
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
from samara.core.picklable import picklable_factory
from samara.core.quantity import Scalar
from samara.estimate.estimator import (
    DEFAULT_START,
    START_OPTIONS,
    Estimate,
    EstimatorOptions,
    EstimatorSetup,
    EstimatorType,
    Fusion,
    SensorSample,
    StartUncertainty,
    require_imu,
    require_position,
    select_sensors,
)
from samara.physics.air.atmosphere import STANDARD_GRAVITY, air_density, air_pressure
from samara.physics.frames import Geodetic, enu_from_geodetic
from samara.physics.types import State
from samara.sensors.imu import ImuReading
from samara.sensors.sensor import Sensor

AIDING_TYPES = ("gps", "barometer", "magnetometer", "motion_capture")


class ComplementaryGains(NamedTuple):
    """Decay rates of the errors  [1/s]; `bias` is the square of such a rate."""

    tilt: float = 0.05
    heading: float = 0.5
    bias: float = 0.002
    position: float = 0.5
    velocity: float = 1.0
    pose: float = 20.0
    gravity_within: float = 0.3  # fraction of g: tolerance within which the specific force counts as gravity


DEFAULT_COMPLEMENTARY_GAINS = ComplementaryGains()


class ComplementaryState(NamedTuple):
    """Motion at the IMU, bias of the gyroscope, and the latest reading of the IMU."""

    q_WB: Quat
    v_W: Vec3
    p_W: Vec3
    gyroscope_bias: Vec3
    imu: ImuReading


@lru_cache(maxsize=64)
@picklable_factory
def complementary(
    sensors: tuple[Sensor, ...],
    period: float,
    gravity: float = STANDARD_GRAVITY,
    start: StartUncertainty = DEFAULT_START,
    gains: ComplementaryGains = DEFAULT_COMPLEMENTARY_GAINS,
) -> Fusion:
    """Build the complementary filter of a drone.

    Args:
        sensors: the drone's sensors, among them an IMU and a position sensor.
        period: time between updates [s].
        gravity: gravitational acceleration [m/s²].
        start: uncertainty of the initial state.
        gains: gains of the filter.
    """
    imu = require_imu(sensors, "the estimator complementary", period)
    aids = tuple(sensor for sensor_type in AIDING_TYPES for sensor in select_sensors(sensors, sensor_type))
    require_position(sensors, "the estimator complementary")
    mounting = imu.model.mounting

    def initial(state: State, normals: Sequence[Scalar]) -> ComplementaryState:
        sigma = (start.tilt, start.tilt, start.heading, *(start.velocity,) * 3, *(start.position,) * 3)
        e = [s * x for s, x in zip(sigma, normals, strict=True)]
        return ComplementaryState(
            state.q_WB * quat_exp(Vec3(*e[0:3])),
            state.v_W + rotate(state.q_WB, cross(state.omega_B, mounting.r_B)) + Vec3(*e[3:6]),
            state.p_W + rotate(state.q_WB, mounting.r_B) + Vec3(*e[6:9]),
            ZERO,
            ImuReading(UP * gravity, ZERO),
        )

    def predict(sample: SensorSample, filter_state: ComplementaryState, dt: Scalar) -> ComplementaryState:
        """q' = q ⊗ exp((ω − b + k e) dt),  b' = b − k_b e dt,  e = f/|f| × Rᵀ e₃, while |f| is about g"""
        reading: ImuReading = sample.reading
        omega_B = (
            rotate(mounting.q_BS, (filter_state.imu.omega_B + reading.omega_B) * 0.5) - filter_state.gyroscope_bias
        )
        f_B = rotate(mounting.q_BS, (filter_state.imu.specific_force_B + reading.specific_force_B) * 0.5)
        gravity_weight = maximum(1.0 - absolute(norm(f_B) / gravity - 1.0) / gains.gravity_within, 0.0)
        error_B = cross(direction(f_B), rotate_inverse(filter_state.q_WB, UP)) * gravity_weight
        half = quat_exp((omega_B + error_B * gains.tilt) * (0.5 * dt))
        middle = filter_state.q_WB * half
        a_W = rotate(middle, f_B) - UP * gravity
        return ComplementaryState(
            normalize(middle * half),
            filter_state.v_W + a_W * dt,
            filter_state.p_W + filter_state.v_W * dt + a_W * (0.5 * dt * dt),
            filter_state.gyroscope_bias - error_B * (gains.bias * dt),
            reading,
        )

    def correct(sensor: Sensor, sample: SensorSample, filter_state: ComplementaryState) -> ComplementaryState:
        """Reduce each error by a fraction: the gain times the time since the last sample, at most 1."""
        part, model, span = sensor.model.part, sensor.model, 1.0 / sensor.rate

        def fraction(gain: float) -> Scalar:
            return min(gain * span, 1.0) * sample.fresh

        lever_W = rotate(filter_state.q_WB, model.mounting.r_B - mounting.r_B)
        p_W = filter_state.p_W + lever_W - filter_state.v_W * sensor.delay
        if sensor.type_name == "gps":
            position_error = enu_from_geodetic(Geodetic(*sample.reading.position), model.origin) - p_W
            velocity_error = sample.reading.v_W - filter_state.v_W
            return filter_state._replace(
                p_W=filter_state.p_W + position_error * fraction(gains.position),
                v_W=filter_state.v_W + velocity_error * fraction(gains.velocity),
            )
        if sensor.type_name == "barometer":
            altitude = model.altitude + p_W.z
            height_error = (air_pressure(altitude) - sample.reading.pressure) / (
                air_density(altitude) * STANDARD_GRAVITY
            )
            return filter_state._replace(p_W=filter_state.p_W + UP * (height_error * fraction(gains.position)))
        if sensor.type_name == "magnetometer":
            field_W = rotate(filter_state.q_WB * model.mounting.q_BS, sample.reading.field_B)
            expected_W = model.field_W
            yaw_error = atan2(
                field_W.x * expected_W.y - field_W.y * expected_W.x, field_W.x * expected_W.x + field_W.y * expected_W.y
            )
            return _correct_attitude(
                filter_state,
                rotate_inverse(filter_state.q_WB, UP) * yaw_error,
                sample,
                fraction(gains.heading),
                gains.bias * span,
            )
        measured_q = part.q_WM * sample.reading.q_MB * conjugate(model.mounting.q_BS)
        position_error = rotate(part.q_WM, sample.reading.p_M) + part.p_WM - p_W
        rotation_B = quat_log(conjugate(filter_state.q_WB) * measured_q)
        corrected = _correct_attitude(filter_state, rotation_B, sample, fraction(gains.pose), gains.bias * span)
        rate = gains.pose * gains.pose / 2.0  # critically damped, as an α–β filter
        return corrected._replace(
            p_W=corrected.p_W + position_error * fraction(gains.pose),
            v_W=corrected.v_W + position_error * (min(rate * span, rate) * sample.fresh),
        )

    def estimate(filter_state: ComplementaryState) -> Estimate:
        """At the centre of mass: p − R r,  v − R (ω × r)"""
        omega_B = rotate(mounting.q_BS, filter_state.imu.omega_B) - filter_state.gyroscope_bias
        lever_velocity_W = rotate(filter_state.q_WB, cross(omega_B, mounting.r_B))
        return Estimate(
            filter_state.p_W - rotate(filter_state.q_WB, mounting.r_B),
            filter_state.v_W - lever_velocity_W,
            filter_state.q_WB,
            omega_B,
            (),
        )

    return Fusion("complementary", imu, aids, initial, predict, correct, estimate, start_normals=9, has_variances=False)


def _correct_attitude(
    filter_state: ComplementaryState, rotation_B: Vec3, sample: SensorSample, fraction: Scalar, bias_gain: float
) -> ComplementaryState:
    """Rotate by a fraction of an angle and correct the bias; unchanged without a new sample."""
    corrected_q = normalize(filter_state.q_WB * quat_exp(rotation_B * fraction))
    pairs = zip(corrected_q, filter_state.q_WB, strict=True)
    return filter_state._replace(
        q_WB=Quat(*(where(sample.fresh > 0.5, new, old) for new, old in pairs)),
        gyroscope_bias=filter_state.gyroscope_bias - rotation_B * (bias_gain * sample.fresh),
    )


def _build(
    setup: EstimatorSetup,
    start: StartUncertainty = DEFAULT_START,
    gains: ComplementaryGains = DEFAULT_COMPLEMENTARY_GAINS,
) -> Fusion:
    return complementary(setup.sensors, setup.period, setup.gravity, start, gains)


TYPES = (
    EstimatorType("complementary", _build, (START_OPTIONS, EstimatorOptions("gains", ComplementaryGains, above=0.0))),
)
