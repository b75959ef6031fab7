"""An error-state Kalman filter: attitude, velocity, position, and the IMU's two biases; driven by the IMU, held by the rest.

The nominal state moves by the IMU's readings; the filter keeps the covariance of what is wrong with it, fifteen numbers:
δθ (in the body: q = q̂ ⊗ exp δθ), δv, δp (world), δb_g, δb_a. GPS, barometer, magnetometer and motion capture each take some
of it away, one scalar at a time. What is wrong with them and lasts (the wander of a GPS fix, the drift of a barometer, the
iron around a magnetometer) is one more state for each such number; without it the filter would believe their average.

A reading that comes late is compared with where the drone was then: an odometer of the last moments is kept for that.
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
from samara.core.picklable import remade
from samara.core.quantity import Scalar, Tree
from samara.estimate.estimator import (
    STANDING,
    START_OPTIONS,
    Estimate,
    EstimatorSetup,
    EstimatorType,
    Fusion,
    Sample,
    Start,
    Variances,
    inertial,
    of_kind,
    require_position,
)
from samara.physics.air.atmosphere import STANDARD_GRAVITY, air_density, air_pressure
from samara.physics.frames import Geodetic, enu_from_geodetic
from samara.physics.types import State
from samara.sensors.error_models import drift_sigma
from samara.sensors.gps import axes_of
from samara.sensors.imu import ImuReading
from samara.sensors.sensor import Sensor

Matrix = list[list[Scalar]]
Row = Mapping[int, Scalar]


def packed(P: Matrix) -> tuple[Scalar, ...]:
    """The upper triangle by rows"""
    return tuple(P[i][j] for i in range(len(P)) for j in range(i, len(P)))


def unpacked(upper: Sequence[Scalar], n: int) -> Matrix:
    """The matrix an upper triangle was taken from"""
    P: Matrix = [[0.0] * n for _ in range(n)]
    leaves = iter(upper)
    for i in range(n):
        for j in range(i, n):
            P[i][j] = P[j][i] = next(leaves)
    return P


def diagonal_matrix(variances: Sequence[Scalar]) -> Matrix:
    """diag(σ²)"""
    return [[own if i == j else 0.0 for j in range(len(variances))] for i, own in enumerate(variances)]


def _along(row: Row, values: Sequence[Scalar]) -> Scalar:
    """Σ cₖ xₖ"""
    total: Scalar = 0.0
    for k, c in row.items():
        total = total + (values[k] if isinstance(c, float) and c == 1.0 else c * values[k])
    return total


def propagated(P: Matrix, F: Sequence[Row], noise: Sequence[Scalar]) -> Matrix:
    """F P Fᵀ + diag(q)"""
    n = len(P)
    half = [[_along(F[i], P[j]) for j in range(n)] for i in range(n)]  # F P, for P[j] is also its column j
    moved: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            moved[i][j] = moved[j][i] = _along(F[j], half[i])
        moved[i][i] = moved[i][i] + noise[i]
    return moved


def updated(
    P: Matrix, error: Sequence[Scalar], row: Row, residual: Scalar, variance: Scalar, fresh: Scalar
) -> tuple[Matrix, list[Scalar]]:
    """s = h P hᵀ + r,  k = P hᵀ / s,  x' = x + k (z − h x),  P' = P − k s kᵀ; nothing where fresh = 0

    This is Joseph's form for the gain k: its other terms cancel. Symmetric to the last bit, since each pair is computed once.
    """
    n = len(P)
    across = [_along(row, P[i]) for i in range(n)]
    gain = fresh / (_along(row, across) + variance)
    missing = (residual - _along(row, error)) * gain
    scaled = [own * gain for own in across]
    narrowed: Matrix = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            narrowed[i][j] = narrowed[j][i] = P[i][j] - scaled[i] * across[j]
    return narrowed, [own + k * missing for own, k in zip(error, across, strict=True)]


THETA, V, P, GYROSCOPE, ACCELEROMETER, CORE = 0, 3, 6, 9, 12, 15
AIDS = ("gps", "barometer", "magnetometer", "motion_capture")
AXES = (EAST, NORTH, UP)


class Lasting(NamedTuple):
    """An error of a sensor that lasts: its deviation and its time constant, ∞ for one that stays."""

    sigma: float
    tau: float


class Odometer(NamedTuple):
    """∫ v dt and ∫ a dt since the start, without corrections  [m, m/s]"""

    p_W: Vec3
    v_W: Vec3


class EkfMemory(NamedTuple):
    """The nominal state at the IMU, what lasts of the other sensors' errors, and the covariance of all of it."""

    q_WB: Quat
    v_W: Vec3
    p_W: Vec3
    gyroscope_bias: Vec3
    accelerometer_bias: Vec3
    lasting: tuple[Scalar, ...]
    imu: ImuReading
    line: tuple[Odometer, ...]
    covariance: tuple[Scalar, ...]


class Scalar1(NamedTuple):
    """One scalar measurement: residual, its sparse row, its variance."""

    residual: Scalar
    row: Mapping[int, Scalar]
    variance: float


class Moment(NamedTuple):
    """The nominal state a reading is compared with, at the time it was taken."""

    q_WB: Quat
    R_WB: Mat3
    v_W: Vec3
    p_W: Vec3
    omega_B: Vec3
    f_B: Vec3
    ago: float


def block(first: int, rows: Sequence[Scalar]) -> dict[int, Scalar]:
    """Three coefficients from a column on, without those that are 0"""
    return {first + k: c for k, c in enumerate(rows) if not (isinstance(c, float) and c == 0.0)}


# What lasts ---------------------------------------------------------------------------------------------------------


def lasting_errors(sensor: Sensor) -> tuple[Lasting, ...]:
    """The errors of an aiding sensor that are states of the filter"""
    part = sensor.about.part
    if sensor.kind == "gps":
        sigma = axes_of(part.horizontal_wander, part.vertical_wander)
        return tuple(Lasting(own, part.wander_time) for own in sigma) if any(sigma) else ()
    if sensor.kind == "barometer":
        return (Lasting(part.drift, part.drift_time),) if part.drift else ()
    if sensor.kind == "magnetometer":
        size = math.hypot(*sensor.about.field_W)
        iron = math.hypot(part.hard_iron, part.soft_iron * size) * part.residual
        return (Lasting(iron, math.inf),) * 3 if iron else ()
    return ()


# What each sensor should say ----------------------------------------------------------------------------------------


def gps_rows(reading: Tree, at: Moment, lever_B: Vec3, lasting: Sequence[Scalar], first: int, about: Tree) -> Any:
    """p + R r + w,  v + R (ω × r), when it was measured"""
    part = about.part
    fix = enu_from_geodetic(Geodetic(*reading.place), about.origin)
    place = at.p_W + rotate(at.q_WB, lever_B)
    swing = cross(at.omega_B, lever_B)
    speed = at.v_W + rotate(at.q_WB, swing)
    turned = (-(at.R_WB @ skew(lever_B))).rows if lever_B != ZERO else (ZERO,) * 3
    swung = (-(at.R_WB @ skew(swing))).rows if lever_B != ZERO else (ZERO,) * 3
    noises = axes_of(part.horizontal_noise, part.vertical_noise)
    for k in range(3):
        wander = {first + k: 1.0} if lasting else {}
        late = {V + k: -at.ago} if at.ago else {}
        row = {P + k: 1.0, **late, **block(THETA, turned[k]), **wander}
        known = lasting[k] if lasting else 0.0
        yield Scalar1(fix[k] - place[k] - known, row, noises[k] ** 2)
    tilted, pushed = swung, (ZERO,) * 3
    if at.ago:  # δv then = δv + (R [f]× δθ + R δb_a) · ago
        tilted = tuple(a + b for a, b in zip(swung, (at.R_WB @ skew(at.f_B) * at.ago).rows, strict=True))
        pushed = (at.R_WB * at.ago).rows
    for k in range(3):
        row = {V + k: 1.0, **block(THETA, tilted[k]), **block(ACCELEROMETER, pushed[k])}
        yield Scalar1(reading.v_W[k] - speed[k], row, part.velocity_noise**2)


def barometer_rows(reading: Tree, at: Moment, lever_B: Vec3, lasting: Sequence[Scalar], first: int, about: Tree) -> Any:
    """p_ISA(h) + d, with slope −ρ g"""
    altitude = about.altitude + at.p_W.z + rotate(at.q_WB, lever_B).z
    slope = -(air_density(altitude) * STANDARD_GRAVITY)
    late = {V + 2: -at.ago * slope} if at.ago else {}
    turned = (-(at.R_WB @ skew(lever_B))).rows[2] * slope if lever_B != ZERO else ZERO
    row = {P + 2: slope, **late, **block(THETA, turned), **({first: 1.0} if lasting else {})}
    known = lasting[0] if lasting else 0.0
    variance = about.part.noise**2 + about.part.resolution**2 / 12.0
    yield Scalar1(reading.pressure - air_pressure(altitude) - known, row, variance)


def magnetometer_rows(
    reading: Tree, at: Moment, lever_B: Vec3, lasting: Sequence[Scalar], first: int, about: Tree
) -> Any:
    """Rᵀ B + b, in body axes: turning by δθ changes Rᵀ B by [Rᵀ B]× δθ"""
    expected = rotate_inverse(at.q_WB, about.field_W)
    told, rows = rotate(about.mounting.q_BS, reading.field_B), skew(expected).rows
    variance = about.part.noise**2 + about.part.resolution**2 / 12.0
    for k in range(3):
        known = lasting[k] if lasting else 0.0
        row = {**block(THETA, rows[k]), **({first + k: 1.0} if lasting else {})}
        yield Scalar1(told[k] - expected[k] - known, row, variance)


def motion_capture_rows(
    reading: Tree, at: Moment, lever_B: Vec3, lasting: Sequence[Scalar], first: int, about: Tree
) -> Any:
    """p + R r and log(q̂* ⊗ q), from the cameras' frame into the world"""
    part, q_BS = about.part, about.mounting.q_BS
    fix = rotate(part.q_WM, reading.p_M) + part.p_WM
    place = at.p_W + rotate(at.q_WB, lever_B)
    turned = (-(at.R_WB @ skew(lever_B))).rows if lever_B != ZERO else (ZERO,) * 3
    for k in range(3):
        late = {V + k: -at.ago} if at.ago else {}
        yield Scalar1(
            fix[k] - place[k], {P + k: 1.0, **late, **block(THETA, turned[k])}, max(part.position_noise, 1e-6) ** 2
        )
    seen = part.q_WM * reading.q_MB * conjugate(q_BS)
    turn_B = quat_log(conjugate(at.q_WB) * seen)
    for k in range(3):
        yield Scalar1(turn_B[k], {THETA + k: 1.0}, max(part.attitude_noise, 1e-6) ** 2)


ROWS = {
    "gps": gps_rows,
    "barometer": barometer_rows,
    "magnetometer": magnetometer_rows,
    "motion_capture": motion_capture_rows,
}


# The filter ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
@remade
def ekf(
    sensors: tuple[Sensor, ...],
    period: float,
    gravity: float = STANDARD_GRAVITY,
    start: Start = STANDING,
) -> Fusion:
    """The filter of a drone's sensors, updated every `period` seconds

    It knows the sensors' numbers: what their noise is, where they sit, how late they are.
    """
    imu = inertial(sensors, "the estimator ekf", period)
    aids = tuple(sensor for kind in AIDS for sensor in of_kind(sensors, kind))
    require_position(sensors, "the estimator ekf")
    part, mounting = imu.about
    errors = [lasting_errors(sensor) for sensor in aids]
    firsts = [CORE + sum(len(own) for own in errors[:k]) for k in range(len(aids))]
    extra = [own for each in errors for own in each]
    n = CORE + len(extra)
    ticks = [round(sensor.delay / period) for sensor in aids]
    depth = max(ticks, default=0)
    slower = max(1.0, imu.rate * period)  # a faster IMU is heard only so often, with the noise of one sample

    def density(triad: Tree) -> float:
        """N² with what the steps of the converter add"""
        return (max(triad.noise_density) ** 2 + triad.resolution**2 / 12.0 / imu.rate) * slower

    def walk(triad: Tree) -> float:
        return 2.0 * drift_sigma(triad.bias_instability) ** 2 / triad.bias_time

    gyroscope, accelerometer = part.gyroscope, part.accelerometer
    rates = (density(gyroscope), density(accelerometer), 0.0, walk(gyroscope), walk(accelerometer))

    def first_variances() -> list[float]:
        """A scale or misalignment of the accelerometer looks like a bias while it carries the weight."""
        turn, push = (
            (own.turn_on_bias * part.residual) ** 2 + drift_sigma(own.bias_instability) ** 2
            for own in (gyroscope, accelerometer)
        )
        across, along = (gravity * part.residual * own for own in (accelerometer.misalignment, accelerometer.scale))
        return [
            *(start.tilt**2, start.tilt**2, start.heading**2),
            *(start.velocity**2,) * 3,
            *(start.position**2,) * 3,
            *(turn,) * 3,
            *(push + across**2, push + across**2, push + along**2),
            *(own.sigma**2 for own in extra),
        ]

    def initial(state: State, normals: Sequence[Scalar]) -> EkfMemory:
        sigma = (start.tilt, start.tilt, start.heading, *(start.velocity,) * 3, *(start.position,) * 3)
        e = [s * x for s, x in zip(sigma, normals, strict=True)]
        q_WB = state.q_WB * quat_exp(Vec3(*e[0:3]))
        swing = rotate(state.q_WB, cross(state.omega_B, mounting.r_B))
        return EkfMemory(
            q_WB,
            state.v_W + swing + Vec3(*e[3:6]),
            state.p_W + rotate(state.q_WB, mounting.r_B) + Vec3(*e[6:9]),
            ZERO,
            ZERO,
            tuple(0.0 for _ in extra),
            ImuReading(Vec3(0.0, 0.0, gravity), ZERO),
            tuple(Odometer(ZERO, ZERO) for _ in range(depth)),
            packed(diagonal_matrix(first_variances())),
        )

    def predict(sample: Sample, memory: EkfMemory, dt: Scalar) -> EkfMemory:
        """q' = q ⊗ exp(ω dt),  v' = v + (R f + g) dt,  p' = p + v dt + ½ (R f + g) dt², by the mean of two readings

        δθ' = exp(−ω dt) δθ − δb_g dt,  δv' = δv − (R [f]× δθ + R δb_a) dt,  δp' = δp + δv dt.
        """
        now: ImuReading = sample.reading
        omega_B = rotate(mounting.q_BS, (memory.imu.omega_B + now.omega_B) * 0.5) - memory.gyroscope_bias
        f_S = (memory.imu.specific_force_B + now.specific_force_B) * 0.5
        f_B = rotate(mounting.q_BS, f_S) - memory.accelerometer_bias
        half = quat_exp(omega_B * (0.5 * dt))
        middle = memory.q_WB * half
        a_W = rotate(middle, f_B) - Vec3(0.0, 0.0, gravity)
        step, push = memory.v_W * dt + a_W * (0.5 * dt * dt), a_W * dt
        R = matrix_from_quat(middle)
        back = matrix_from_quat(conjugate(half * half)).rows
        tilted, pushed = (-(R @ skew(f_B)) * dt).rows, (-(R * dt)).rows
        keep = [1.0 if own.tau == math.inf else exp(-dt / own.tau) for own in extra]
        F: list[dict[int, Scalar]] = [{**block(THETA, back[k]), GYROSCOPE + k: -dt} for k in range(3)]
        F += [{V + k: 1.0, **block(THETA, tilted[k]), **block(ACCELEROMETER, pushed[k])} for k in range(3)]
        F += [{P + k: 1.0, V + k: dt} for k in range(3)]
        F += [{k: 1.0} for k in range(GYROSCOPE, CORE)]
        F += [{CORE + k: own} for k, own in enumerate(keep)]
        noise = [rate * dt for rate in rates for _ in range(3)]
        noise += [
            0.0 if own.tau == math.inf else own.sigma**2 * (1.0 - k * k) for own, k in zip(extra, keep, strict=True)
        ]
        line = tuple(Odometer(own.p_W + step, own.v_W + push) for own in memory.line[1:])
        return memory._replace(
            q_WB=normalize(middle * half),
            v_W=memory.v_W + push,
            p_W=memory.p_W + step,
            lasting=tuple(k * own for k, own in zip(keep, memory.lasting, strict=True)),
            imu=now,
            line=(*line, Odometer(step, push)) if depth else (),
            covariance=packed(propagated(unpacked(memory.covariance, n), F, noise)),
        )

    def correct(sensor: Sensor, sample: Sample, memory: EkfMemory) -> EkfMemory:
        """x' = x ⊞ K (z − h(x)), with z and h of the time it was measured"""
        k = aids.index(sensor)
        first, late, lasting = firsts[k], ticks[k], memory.lasting
        omega_B = rotate(mounting.q_BS, memory.imu.omega_B) - memory.gyroscope_bias
        f_B = rotate(mounting.q_BS, memory.imu.specific_force_B) - memory.accelerometer_bias
        then, ago = memory.q_WB, late * period
        p_W, v_W = memory.p_W, memory.v_W
        if late:
            since = memory.line[depth - late]
            then, p_W, v_W = then * quat_exp(omega_B * -ago), p_W - since.p_W, v_W - since.v_W
        at = Moment(then, matrix_from_quat(then), v_W, p_W, omega_B, f_B, ago)
        known = lasting[first - CORE : first - CORE + len(errors[k])]
        lever_B = sensor.about.mounting.r_B - mounting.r_B
        covariance, error = unpacked(memory.covariance, n), [0.0] * n
        for scalar in ROWS[sensor.kind](sample.reading, at, lever_B, known, first, sensor.about):
            covariance, error = updated(covariance, error, scalar.row, scalar.residual, scalar.variance, sample.fresh)
        e = [Vec3(*error[i : i + 3]) for i in range(0, CORE, 3)]
        turned = normalize(memory.q_WB * quat_exp(e[0]))
        pairs = zip(turned, memory.q_WB, strict=True)
        return memory._replace(
            q_WB=Quat(*(where(sample.fresh > 0.5, new, old) for new, old in pairs)),
            v_W=memory.v_W + e[1],
            p_W=memory.p_W + e[2],
            gyroscope_bias=memory.gyroscope_bias + e[3],
            accelerometer_bias=memory.accelerometer_bias + e[4],
            lasting=tuple(own + more for own, more in zip(lasting, error[CORE:], strict=True)),
            covariance=packed(covariance),
        )

    def estimate(memory: EkfMemory) -> Estimate:
        """At the centre of mass: p − R r,  v − R (ω × r)"""
        omega_B = rotate(mounting.q_BS, memory.imu.omega_B) - memory.gyroscope_bias
        p_W, v_W = memory.p_W, memory.v_W
        if mounting.r_B != ZERO:
            p_W = p_W - rotate(memory.q_WB, mounting.r_B)
            v_W = v_W - rotate(memory.q_WB, cross(omega_B, mounting.r_B))
        spread = [memory.covariance[i * n - i * (i - 1) // 2] for i in range(CORE)]
        own = [Vec3(*spread[k : k + 3]) for k in (P, V, THETA, GYROSCOPE, ACCELEROMETER)]
        return Estimate(p_W, v_W, memory.q_WB, omega_B, Variances(*own))

    return Fusion("ekf", imu, aids, initial, predict, correct, estimate, start_normals=9)


def _build(setup: EstimatorSetup, start: Start = STANDING) -> Fusion:
    return ekf(setup.sensors, setup.period, setup.gravity, start)


TYPES = (EstimatorType("ekf", _build, (START_OPTIONS,)),)
