"""Error-state Kalman filter for attitude, velocity, position and the biases of the IMU, aided by the other sensors.

The IMU's readings propagate the nominal state; the filter propagates the covariance of its error, fifteen components:
δθ (in the body: q = q̂ ⊗ exp δθ), δv, δp (world), δb_g, δb_a. GPS, barometer, magnetometer and motion capture correct it, one
scalar at a time. Each persistent error of these sensors (the wander of a GPS fix, the drift of a barometer, the iron around a
magnetometer) is an additional state; without it the filter would take their average for the truth.

A delayed reading is compared with the state at the time of measurement, which an odometer of the recent motion gives.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from samara.core.algebra import (
    EAST,
    NORTH,
    UP,
    ZERO,
    Mat3,
    Quat,
    Vec3,
    conjugate,
    cross,
    matrix_from_quat,
    normalize,
    quat_exp,
    quat_log,
    rotate,
    rotate_inverse,
    skew,
)
from samara.core.ops import exp, where
from samara.core.picklable import picklable_factory
from samara.core.quantity import Scalar, Tree
from samara.estimate.estimator import (
    DEFAULT_START,
    START_OPTIONS,
    Estimate,
    EstimatorSetup,
    EstimatorType,
    Fusion,
    SensorSample,
    StartUncertainty,
    Variances,
    require_imu,
    require_position,
    select_sensors,
)
from samara.physics.air.atmosphere import STANDARD_GRAVITY, air_density, air_pressure
from samara.physics.frames import Geodetic, enu_from_geodetic
from samara.physics.types import State
from samara.sensors.error_models import drift_sigma
from samara.sensors.gps import horizontal_vertical
from samara.sensors.imu import ImuReading
from samara.sensors.sensor import Sensor

Matrix = list[list[Scalar]]
Row = Mapping[int, Scalar]


def pack_symmetric(P: Matrix) -> tuple[Scalar, ...]:
    """Return the upper triangle by rows."""
    return tuple(P[i][j] for i in range(len(P)) for j in range(i, len(P)))


def unpack_symmetric(upper: Sequence[Scalar], n: int) -> Matrix:
    """Return the symmetric matrix of an upper triangle."""
    P: Matrix = [[0.0] * n for _ in range(n)]
    leaves = iter(upper)
    for i in range(n):
        for j in range(i, n):
            P[i][j] = P[j][i] = next(leaves)
    return P


def diagonal_matrix(variances: Sequence[Scalar]) -> Matrix:
    """diag(σ²)"""
    return [[variance if i == j else 0.0 for j in range(len(variances))] for i, variance in enumerate(variances)]


def _sparse_dot(row: Row, vector: Sequence[Scalar]) -> Scalar:
    """Σ cₖ xₖ"""
    total: Scalar = 0.0
    for k, c in row.items():
        total = total + (vector[k] if isinstance(c, float) and c == 1.0 else c * vector[k])
    return total


def propagate_covariance(P: Matrix, F: Sequence[Row], noise: Sequence[Scalar]) -> Matrix:
    """F P Fᵀ + diag(q)"""
    n = len(P)
    half = [[_sparse_dot(F[i], P[j]) for j in range(n)] for i in range(n)]  # F P: row P[j] is also column j
    result: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            result[i][j] = result[j][i] = _sparse_dot(F[j], half[i])
        result[i][i] = result[i][i] + noise[i]
    return result


def update_covariance(
    P: Matrix, error: Sequence[Scalar], row: Row, residual: Scalar, variance: Scalar, fresh: Scalar
) -> tuple[Matrix, list[Scalar]]:
    """s = h P hᵀ + r,  k = P hᵀ / s,  x' = x + k (z − h x),  P' = P − k s kᵀ; unchanged if fresh = 0

    This is Joseph's form for the gain k: its other terms cancel. P' is symmetric to the last bit, since each pair is
    computed once.
    """
    n = len(P)
    P_h = [_sparse_dot(row, P[i]) for i in range(n)]
    gain = fresh / (_sparse_dot(row, P_h) + variance)
    innovation = (residual - _sparse_dot(row, error)) * gain
    gain_column = [value * gain for value in P_h]
    result: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            result[i][j] = result[j][i] = P[i][j] - gain_column[i] * P_h[j]
    return result, [value + k * innovation for value, k in zip(error, P_h, strict=True)]


THETA, V, P, GYROSCOPE, ACCELEROMETER, CORE_SIZE = 0, 3, 6, 9, 12, 15
AIDING_TYPES = ("gps", "barometer", "magnetometer", "motion_capture")
AXES = (EAST, NORTH, UP)


class PersistentError(NamedTuple):
    """A persistent error of a sensor: its standard deviation and its time constant, ∞ for a constant error."""

    sigma: float
    tau: float


class Odometer(NamedTuple):
    """∫ v dt and ∫ a dt since the start, without corrections  [m, m/s]"""

    p_W: Vec3
    v_W: Vec3


class EkfState(NamedTuple):
    """The nominal state at the IMU, the persistent errors of the other sensors, and the covariance of both."""

    q_WB: Quat
    v_W: Vec3
    p_W: Vec3
    gyroscope_bias: Vec3
    accelerometer_bias: Vec3
    persistent_errors: tuple[Scalar, ...]
    imu: ImuReading
    odometers: tuple[Odometer, ...]
    covariance: tuple[Scalar, ...]


class ScalarMeasurement(NamedTuple):
    """One scalar measurement: residual, its sparse row, its variance."""

    residual: Scalar
    row: Mapping[int, Scalar]
    variance: float


class MeasurementState(NamedTuple):
    """The nominal state at the time of a measurement."""

    q_WB: Quat
    R_WB: Mat3
    v_W: Vec3
    p_W: Vec3
    omega_B: Vec3
    f_B: Vec3
    delay: float


def sparse_block(first: int, rows: Sequence[Scalar]) -> dict[int, Scalar]:
    """Return coefficients by column, from the column `first` on, without those that are the literal 0."""
    return {first + k: c for k, c in enumerate(rows) if not (isinstance(c, float) and c == 0.0)}


# Persistent errors --------------------------------------------------------------------------------------------------


def persistent_errors(sensor: Sensor) -> tuple[PersistentError, ...]:
    """Return the errors of an aiding sensor that are states of the filter."""
    part = sensor.model.part
    if sensor.type_name == "gps":
        sigma = horizontal_vertical(part.horizontal_wander, part.vertical_wander)
        return (
            tuple(PersistentError(axis_sigma, part.wander_time_constant) for axis_sigma in sigma) if any(sigma) else ()
        )
    if sensor.type_name == "barometer":
        return (PersistentError(part.drift, part.drift_time_constant),) if part.drift else ()
    if sensor.type_name == "magnetometer":
        field_strength = math.hypot(*sensor.model.field_W)
        iron = math.hypot(part.hard_iron, part.soft_iron * field_strength) * part.calibration_residual
        return (PersistentError(iron, math.inf),) * 3 if iron else ()
    return ()


# Measurement models -------------------------------------------------------------------------------------------------


def gps_measurements(
    reading: Tree, nominal: MeasurementState, lever_B: Vec3, persistent: Sequence[Scalar], first: int, model: Tree
) -> Any:
    """p + R r + w,  v + R (ω × r), at the time of measurement"""
    part = model.part
    fix = enu_from_geodetic(Geodetic(*reading.position), model.origin)
    antenna_W = nominal.p_W + rotate(nominal.q_WB, lever_B)
    lever_velocity_B = cross(nominal.omega_B, lever_B)
    antenna_v_W = nominal.v_W + rotate(nominal.q_WB, lever_velocity_B)
    position_by_theta = (-(nominal.R_WB @ skew(lever_B))).rows if lever_B != ZERO else (ZERO,) * 3
    velocity_by_theta = (-(nominal.R_WB @ skew(lever_velocity_B))).rows if lever_B != ZERO else (ZERO,) * 3
    noises = horizontal_vertical(part.horizontal_noise, part.vertical_noise)
    for k in range(3):
        wander_entry = {first + k: 1.0} if persistent else {}
        delay_entry = {V + k: -nominal.delay} if nominal.delay else {}
        row = {P + k: 1.0, **delay_entry, **sparse_block(THETA, position_by_theta[k]), **wander_entry}
        persistent_error = persistent[k] if persistent else 0.0
        yield ScalarMeasurement(fix[k] - antenna_W[k] - persistent_error, row, noises[k] ** 2)
    velocity_rows, bias_rows = velocity_by_theta, (ZERO,) * 3
    if nominal.delay:  # at the time of measurement, δv = δv_now + (R [f]× δθ + R δb_a) · ago
        velocity_rows = tuple(
            a + b
            for a, b in zip(velocity_by_theta, (nominal.R_WB @ skew(nominal.f_B) * nominal.delay).rows, strict=True)
        )
        bias_rows = (nominal.R_WB * nominal.delay).rows
    for k in range(3):
        row = {V + k: 1.0, **sparse_block(THETA, velocity_rows[k]), **sparse_block(ACCELEROMETER, bias_rows[k])}
        yield ScalarMeasurement(reading.v_W[k] - antenna_v_W[k], row, part.velocity_noise**2)


def barometer_measurements(
    reading: Tree, nominal: MeasurementState, lever_B: Vec3, persistent: Sequence[Scalar], first: int, model: Tree
) -> Any:
    """p_ISA(h) + d, with slope −ρ g"""
    altitude = model.altitude + nominal.p_W.z + rotate(nominal.q_WB, lever_B).z
    slope = -(air_density(altitude) * STANDARD_GRAVITY)
    delay_entry = {V + 2: -nominal.delay * slope} if nominal.delay else {}
    height_by_theta = (-(nominal.R_WB @ skew(lever_B))).rows[2] * slope if lever_B != ZERO else ZERO
    row = {P + 2: slope, **delay_entry, **sparse_block(THETA, height_by_theta), **({first: 1.0} if persistent else {})}
    persistent_error = persistent[0] if persistent else 0.0
    variance = model.part.noise**2 + model.part.resolution**2 / 12.0
    yield ScalarMeasurement(reading.pressure - air_pressure(altitude) - persistent_error, row, variance)


def magnetometer_measurements(
    reading: Tree, nominal: MeasurementState, lever_B: Vec3, persistent: Sequence[Scalar], first: int, model: Tree
) -> Any:
    """Rᵀ B + b, in body axes: turning by δθ changes Rᵀ B by [Rᵀ B]× δθ"""
    expected = rotate_inverse(nominal.q_WB, model.field_W)
    measured, rows = rotate(model.mounting.q_BS, reading.field_B), skew(expected).rows
    variance = model.part.noise**2 + model.part.resolution**2 / 12.0
    for k in range(3):
        persistent_error = persistent[k] if persistent else 0.0
        row = {**sparse_block(THETA, rows[k]), **({first + k: 1.0} if persistent else {})}
        yield ScalarMeasurement(measured[k] - expected[k] - persistent_error, row, variance)


def motion_capture_measurements(
    reading: Tree, nominal: MeasurementState, lever_B: Vec3, persistent: Sequence[Scalar], first: int, model: Tree
) -> Any:
    """p + R r and log(q̂* ⊗ q), from the cameras' frame into the world"""
    part, q_BS = model.part, model.mounting.q_BS
    fix = rotate(part.q_WM, reading.p_M) + part.p_WM
    marker_W = nominal.p_W + rotate(nominal.q_WB, lever_B)
    position_by_theta = (-(nominal.R_WB @ skew(lever_B))).rows if lever_B != ZERO else (ZERO,) * 3
    for k in range(3):
        delay_entry = {V + k: -nominal.delay} if nominal.delay else {}
        yield ScalarMeasurement(
            fix[k] - marker_W[k],
            {P + k: 1.0, **delay_entry, **sparse_block(THETA, position_by_theta[k])},
            max(part.position_noise, 1e-6) ** 2,
        )
    measured_q = part.q_WM * reading.q_MB * conjugate(q_BS)
    rotation_B = quat_log(conjugate(nominal.q_WB) * measured_q)
    for k in range(3):
        yield ScalarMeasurement(rotation_B[k], {THETA + k: 1.0}, max(part.attitude_noise, 1e-6) ** 2)


MEASUREMENT_MODELS = {
    "gps": gps_measurements,
    "barometer": barometer_measurements,
    "magnetometer": magnetometer_measurements,
    "motion_capture": motion_capture_measurements,
}


# The filter ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
@picklable_factory
def ekf(
    sensors: tuple[Sensor, ...],
    period: float,
    gravity: float = STANDARD_GRAVITY,
    start: StartUncertainty = DEFAULT_START,
) -> Fusion:
    """Build the Kalman filter of a drone; it takes noise, mounting and delay of the sensors from their models.

    Args:
        sensors: the drone's sensors, among them an IMU and a position sensor.
        period: time between updates [s].
        gravity: gravitational acceleration [m/s²].
        start: uncertainty of the initial state.
    """
    imu = require_imu(sensors, "the estimator ekf", period)
    aids = tuple(sensor for sensor_type in AIDING_TYPES for sensor in select_sensors(sensors, sensor_type))
    require_position(sensors, "the estimator ekf")
    part, mounting = imu.model
    errors = [persistent_errors(sensor) for sensor in aids]
    first_indices = [CORE_SIZE + sum(len(sensor_errors) for sensor_errors in errors[:i]) for i in range(len(aids))]
    extra_errors = [error_model for sensor_errors in errors for error_model in sensor_errors]
    n = CORE_SIZE + len(extra_errors)
    ticks = [round(sensor.delay / period) for sensor in aids]
    depth = max(ticks, default=0)
    noise_factor = max(
        1.0, imu.rate * period
    )  # if the IMU is faster, one sample per update is used, with the noise of that sample

    def density(triad: Tree) -> float:
        """N² including the quantisation of the converter"""
        return (max(triad.noise_density) ** 2 + triad.resolution**2 / 12.0 / imu.rate) * noise_factor

    def walk(triad: Tree) -> float:
        return 2.0 * drift_sigma(triad.bias_instability) ** 2 / triad.bias_time_constant

    gyroscope, accelerometer = part.gyroscope, part.accelerometer
    rates = (density(gyroscope), density(accelerometer), 0.0, walk(gyroscope), walk(accelerometer))

    def first_variances() -> list[float]:
        """Return the initial variances; in hover, a scale error or misalignment of the accelerometer is equivalent to a
        bias."""
        gyroscope_variance, accelerometer_variance = (
            (triad.turn_on_bias * part.calibration_residual) ** 2 + drift_sigma(triad.bias_instability) ** 2
            for triad in (gyroscope, accelerometer)
        )
        misalignment, scale = (
            gravity * part.calibration_residual * deviation
            for deviation in (accelerometer.misalignment, accelerometer.scale_error)
        )
        return [
            *(start.tilt**2, start.tilt**2, start.heading**2),
            *(start.velocity**2,) * 3,
            *(start.position**2,) * 3,
            *(gyroscope_variance,) * 3,
            *(
                accelerometer_variance + misalignment**2,
                accelerometer_variance + misalignment**2,
                accelerometer_variance + scale**2,
            ),
            *(error_model.sigma**2 for error_model in extra_errors),
        ]

    def initial(state: State, normals: Sequence[Scalar]) -> EkfState:
        sigma = (start.tilt, start.tilt, start.heading, *(start.velocity,) * 3, *(start.position,) * 3)
        e = [s * x for s, x in zip(sigma, normals, strict=True)]
        q_WB = state.q_WB * quat_exp(Vec3(*e[0:3]))
        lever_velocity_W = rotate(state.q_WB, cross(state.omega_B, mounting.r_B))
        return EkfState(
            q_WB,
            state.v_W + lever_velocity_W + Vec3(*e[3:6]),
            state.p_W + rotate(state.q_WB, mounting.r_B) + Vec3(*e[6:9]),
            ZERO,
            ZERO,
            tuple(0.0 for _ in extra_errors),
            ImuReading(Vec3(0.0, 0.0, gravity), ZERO),
            tuple(Odometer(ZERO, ZERO) for _ in range(depth)),
            pack_symmetric(diagonal_matrix(first_variances())),
        )

    def predict(sample: SensorSample, filter_state: EkfState, dt: Scalar) -> EkfState:
        """q' = q ⊗ exp(ω dt),  v' = v + (R f + g) dt,  p' = p + v dt + ½ (R f + g) dt², by the mean of two readings

        δθ' = exp(−ω dt) δθ − δb_g dt,  δv' = δv − (R [f]× δθ + R δb_a) dt,  δp' = δp + δv dt.
        """
        reading: ImuReading = sample.reading
        omega_B = (
            rotate(mounting.q_BS, (filter_state.imu.omega_B + reading.omega_B) * 0.5) - filter_state.gyroscope_bias
        )
        f_S = (filter_state.imu.specific_force_B + reading.specific_force_B) * 0.5
        f_B = rotate(mounting.q_BS, f_S) - filter_state.accelerometer_bias
        half = quat_exp(omega_B * (0.5 * dt))
        middle = filter_state.q_WB * half
        a_W = rotate(middle, f_B) - Vec3(0.0, 0.0, gravity)
        position_step, velocity_step = filter_state.v_W * dt + a_W * (0.5 * dt * dt), a_W * dt
        R = matrix_from_quat(middle)
        theta_rows = matrix_from_quat(conjugate(half * half)).rows
        tilt_rows, bias_rows = (-(R @ skew(f_B)) * dt).rows, (-(R * dt)).rows
        decay = [1.0 if error_model.tau == math.inf else exp(-dt / error_model.tau) for error_model in extra_errors]
        F: list[dict[int, Scalar]] = [{**sparse_block(THETA, theta_rows[i]), GYROSCOPE + i: -dt} for i in range(3)]
        F += [
            {V + i: 1.0, **sparse_block(THETA, tilt_rows[i]), **sparse_block(ACCELEROMETER, bias_rows[i])}
            for i in range(3)
        ]
        F += [{P + i: 1.0, V + i: dt} for i in range(3)]
        F += [{i: 1.0} for i in range(GYROSCOPE, CORE_SIZE)]
        F += [{CORE_SIZE + i: factor} for i, factor in enumerate(decay)]
        noise = [rate * dt for rate in rates for _ in range(3)]
        noise += [
            0.0 if error_model.tau == math.inf else error_model.sigma**2 * (1.0 - factor * factor)
            for error_model, factor in zip(extra_errors, decay, strict=True)
        ]
        odometers = tuple(
            Odometer(odometer.p_W + position_step, odometer.v_W + velocity_step)
            for odometer in filter_state.odometers[1:]
        )
        return filter_state._replace(
            q_WB=normalize(middle * half),
            v_W=filter_state.v_W + velocity_step,
            p_W=filter_state.p_W + position_step,
            persistent_errors=tuple(
                factor * error for factor, error in zip(decay, filter_state.persistent_errors, strict=True)
            ),
            imu=reading,
            odometers=(*odometers, Odometer(position_step, velocity_step)) if depth else (),
            covariance=pack_symmetric(propagate_covariance(unpack_symmetric(filter_state.covariance, n), F, noise)),
        )

    def correct(sensor: Sensor, sample: SensorSample, filter_state: EkfState) -> EkfState:
        """x' = x ⊞ K (z − h(x)), with z and h at the time of measurement"""
        k = aids.index(sensor)
        first, delay_ticks, persistent = first_indices[k], ticks[k], filter_state.persistent_errors
        omega_B = rotate(mounting.q_BS, filter_state.imu.omega_B) - filter_state.gyroscope_bias
        f_B = rotate(mounting.q_BS, filter_state.imu.specific_force_B) - filter_state.accelerometer_bias
        q_then, delay = filter_state.q_WB, delay_ticks * period
        p_W, v_W = filter_state.p_W, filter_state.v_W
        if delay_ticks:
            motion_since = filter_state.odometers[depth - delay_ticks]
            q_then, p_W, v_W = q_then * quat_exp(omega_B * -delay), p_W - motion_since.p_W, v_W - motion_since.v_W
        nominal = MeasurementState(q_then, matrix_from_quat(q_then), v_W, p_W, omega_B, f_B, delay)
        sensor_errors = persistent[first - CORE_SIZE : first - CORE_SIZE + len(errors[k])]
        lever_B = sensor.model.mounting.r_B - mounting.r_B
        covariance, error = unpack_symmetric(filter_state.covariance, n), [0.0] * n
        for measurement in MEASUREMENT_MODELS[sensor.type_name](
            sample.reading, nominal, lever_B, sensor_errors, first, sensor.model
        ):
            covariance, error = update_covariance(
                covariance, error, measurement.row, measurement.residual, measurement.variance, sample.fresh
            )
        e = [Vec3(*error[i : i + 3]) for i in range(0, CORE_SIZE, 3)]
        corrected_q = normalize(filter_state.q_WB * quat_exp(e[0]))
        pairs = zip(corrected_q, filter_state.q_WB, strict=True)
        return filter_state._replace(
            q_WB=Quat(*(where(sample.fresh > 0.5, new, old) for new, old in pairs)),
            v_W=filter_state.v_W + e[1],
            p_W=filter_state.p_W + e[2],
            gyroscope_bias=filter_state.gyroscope_bias + e[3],
            accelerometer_bias=filter_state.accelerometer_bias + e[4],
            persistent_errors=tuple(
                value + correction for value, correction in zip(persistent, error[CORE_SIZE:], strict=True)
            ),
            covariance=pack_symmetric(covariance),
        )

    def estimate(filter_state: EkfState) -> Estimate:
        """At the centre of mass: p − R r,  v − R (ω × r)"""
        omega_B = rotate(mounting.q_BS, filter_state.imu.omega_B) - filter_state.gyroscope_bias
        p_W, v_W = filter_state.p_W, filter_state.v_W
        if mounting.r_B != ZERO:
            p_W = p_W - rotate(filter_state.q_WB, mounting.r_B)
            v_W = v_W - rotate(filter_state.q_WB, cross(omega_B, mounting.r_B))
        variances = [filter_state.covariance[i * n - i * (i - 1) // 2] for i in range(CORE_SIZE)]
        variance_vectors = [Vec3(*variances[i : i + 3]) for i in (P, V, THETA, GYROSCOPE, ACCELEROMETER)]
        return Estimate(p_W, v_W, filter_state.q_WB, omega_B, Variances(*variance_vectors))

    return Fusion("ekf", imu, aids, initial, predict, correct, estimate, start_normals=9)


def _build(setup: EstimatorSetup, start: StartUncertainty = DEFAULT_START) -> Fusion:
    return ekf(setup.sensors, setup.period, setup.gravity, start)


TYPES = (EstimatorType("ekf", _build, (START_OPTIONS,)),)
