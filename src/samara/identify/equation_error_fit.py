"""Identify physical parameters from the force and torque of a flight: equation error, over blocks of a twentieth of a second.

    m a = f_B(θ),        (J ω̇ + ω × Jω) / k = τ_B(θ) / k,        k = kF l, kF l, kM

a is the accelerometer's specific force. Dividing by kF l and kM makes the rotor torque the dependent variable: an unmodelled
torque is then noise on a known torque, and does not drive J to infinity. Both sides are means over blocks, in which the mean
of ω̇ is a difference of rates, minus their means over three seconds, which contain steady wind and bias drift; only the thrust
keeps its mean.

Each flight has its own unknowns: a gain for every rotor, the steady wind and the delay of its motor commands. They are
estimated together with the vehicle's parameters and are not part of the vehicle. Gusts outlast a block and correlate
neighbouring residuals: the errors are those of sums over time (Newey and West, Econometrica 1987), not of independent rows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate_inverse
from samara.core.types import Array
from samara.identify.fit_result import (
    DELAY_SIGMA,
    GAIN_SIGMA,
    MEAN_GAIN_SIGMA,
    PER_VOLT_SIGMA,
    WIND_SIGMA,
    Fit,
    FlightTrim,
    displace_trim,
    mean_voltage,
    rotor_speeds,
)
from samara.identify.parameters import FreeParameter, apply_gains, hover_scales, identifiable_parameters
from samara.identify.predicted_wrench import predict_wrench, required_body_torque
from samara.identify.resampled_log import ResampledLog, usable_intervals
from samara.identify.rotor_speed_model import estimate_lag, spin_up_commands
from samara.physics.types import Vehicle

BLOCK_DURATION_S, SLOW_MEAN_DURATION_S = 0.05, 3.0  # [s]
LAG_FACTORS = (0.4, 1.0, 2.5)  # multiples of the start vehicle's lag
MIN_EXPLAINED_FRACTION = (
    0.1  # fraction of the rotors' action that the motion must reflect before inertia and lag are estimated
)


@dataclass(frozen=True)
class Blocks:
    """A flight in blocks of `BLOCK_DURATION_S`.

    `starts` are the sample indices at which blocks begin, `length` the samples per block and `stretches` the contiguous runs of
    blocks. `angular_acceleration` is the mean angular acceleration of each block [rad/s²], `reference_voltage` the
    voltage of the gains [V], and `is_excited` whether the motion reflects the rotors' thrust and torques (4,).
    """

    samples: ResampledLog
    starts: Array
    length: int
    stretches: tuple[slice, ...]
    angular_acceleration: Array
    reference_voltage: float
    is_excited: Array

    @staticmethod
    def build(samples: ResampledLog, reference_voltage: float, vehicle: Vehicle) -> "Blocks":
        """Divide the usable samples of a flight into blocks; raise ValueError if no usable interval is long enough."""
        length = max(round(BLOCK_DURATION_S / samples.period), 1)
        first: list[Array] = []
        stretches, count = [], 0
        for run in sorted(usable_intervals(samples.usable), key=lambda run: run.start):
            run_starts = np.arange(run.start, run.stop - length, length)
            if len(run_starts) * BLOCK_DURATION_S >= 0.5 * SLOW_MEAN_DURATION_S:
                first.append(run_starts)
                stretches.append(slice(count, count + len(run_starts)))
                count += len(run_starts)
        if not first:
            raise ValueError(
                f"{samples.name}: has no usable interval of {0.5 * SLOW_MEAN_DURATION_S:g} s; expected a flight"
            )
        starts = np.concatenate(first)
        omega = samples.body[10:13]
        angular_acceleration = (omega[:, starts + length] - omega[:, starts]) / (length * samples.period)
        blocks = Blocks(
            samples, starts, length, tuple(stretches), angular_acceleration, reference_voltage, np.ones(4, dtype=bool)
        )
        return replace(blocks, is_excited=blocks.explained_fraction(vehicle) >= MIN_EXPLAINED_FRACTION)

    def mean(self, rows: Array) -> Array:
        """Return the mean over each block, by the trapezoid rule."""
        total = np.cumsum(0.5 * (rows[:, 1:] + rows[:, :-1]), axis=1)
        total = np.concatenate([np.zeros((len(rows), 1)), total], axis=1)
        return np.asarray((total[:, self.starts + self.length] - total[:, self.starts]) / self.length)

    def rms_speed(self) -> Array:
        """RMS change of the velocity along the body axes within `SLOW_MEAN_DURATION_S`, (3,)  [m/s]."""
        v_B = rotate_inverse(Quat(*self.samples.body[6:10]), Vec3(*self.samples.body[3:6]))
        return np.sqrt((self.subtract_slow_mean(self.mean(np.stack(v_B))) ** 2).mean(axis=1))

    def explained_fraction(self, vehicle: Vehicle) -> Array:
        """Return the fraction of the rotors' action that the motion reflects: corr² at the best of `LAG_FACTORS`, for
        the thrust and three torques."""
        samples, motor = self.samples, vehicle.rotors[0].motor
        body_at_rest = samples.body.copy()
        body_at_rest[3:6] = body_at_rest[10:] = 0.0
        motion = self.subtract_slow_mean(
            np.concatenate([self.mean(samples.specific_force[2:]), self.angular_acceleration])
        )
        fraction = np.zeros(4)
        for factor in LAG_FACTORS if samples.rotor_speed is None else LAG_FACTORS[:1]:
            speeds = rotor_speeds(samples, factor * motor.time_constant_up, factor * motor.time_constant_down, 0.0)
            commanded = spin_up_commands(speeds, motor.time_constant_up, motor.time_constant_down, samples.period)
            predicted = predict_wrench(vehicle, body_at_rest, speeds, commanded)
            action = self.subtract_slow_mean(self.mean(np.concatenate([predicted.f_B[2:], predicted.tau_B])))
            covariance = (action * motion).sum(axis=1) ** 2
            power = (action**2).sum(axis=1) * (motion**2).sum(axis=1)
            fraction = np.maximum(fraction, covariance / np.maximum(power, 1e-300))
        return fraction

    def subtract_slow_mean(self, rows: Array) -> Array:
        """Return the rows minus their mean over `SLOW_MEAN_DURATION_S`, within each stretch."""
        half = max(round(0.5 * SLOW_MEAN_DURATION_S / (self.length * self.samples.period)), 1)
        out = np.empty_like(rows)
        for stretch in self.stretches:
            x = rows[:, stretch]
            n = x.shape[1]
            total = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)], axis=1)
            low, high = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
            out[:, stretch] = x - (total[:, high] - total[:, low]) / (high - low)
        return out

    def filter_wrench(self, rows: Array) -> Array:
        """Return the six rows of force and torque minus their slow means; the thrust keeps its mean."""
        filtered = self.subtract_slow_mean(rows)
        filtered[2] = rows[2]
        return filtered


MEAN_FORCE_SIGMA, MEAN_TORQUE_SIGMA = (
    0.002,
    0.003,
)  # σ of the mean force relative to the weight, and of the mean torque in its unit
HUBER_THRESHOLD = 2.0
MAX_STEPS, REWEIGHTING_STEPS, STEP_TOLERANCE, MAX_STEP = 12, 3, 0.01, 1.0
CORRELATION_TIME_S = 3.0  # [s]: residuals further apart are independent
MAX_OFFSET = 2.5  # scales from the start value
MAX_ERRORS = 0.1, 0.2
"""Largest standard error of an identified parameter: relative, and in scales for a parameter that may be 0."""
MAX_K_TORQUE_ERROR = 0.1  # largest relative error of kM, which yaw determines only through Jzz; above it kM is fixed
THRUST_PARAMETERS = ("k_thrust", "thrust_curve.linear")
CURVE_WIDENING = 2.0  # of that error: the controller answers gusts, which so correlate with the thrust
MAX_CURVE_ERROR = 0.12  # largest error of the thrust curve's linear part; above it the start's curve is kept
INERTIAS = ("inertia.xx", "inertia.yy", "inertia.zz")
AIRSPEED_AXES = {
    "drag.linear.x": 0,
    "drag.linear.y": 1,
    "drag.isotropic": 1,
    "rotor_drag.axial": 2,
    "airspeed_moment.roll": 1,
    "airspeed_moment.pitch": 0,
}
"""Parameters that only an airspeed excites, and the body axis of that airspeed."""
MAX_COMMAND_PERIOD_S = 0.05  # [s]: commands logged at a longer period determine neither motor lag nor torques
MIN_RMS_SPEED = 0.1  # [m/s], RMS: below it gusts dominate the motion, and the velocity does not represent the airspeed
DIFFERENCE_STEP = 1e-3


class Residuals(NamedTuple):
    """Unexplained force [N] and torque [N·m] of a flight, (3, n) each in body axes, block means, with their times [s], the
    airspeed [m/s] in body axes (3, n), the mean rotor speed [rad/s], voltage [V] and height [m]."""

    flight: str
    time: Array
    force: Array
    torque: Array
    airspeed: Array
    rotor_speed: Array
    voltage: Array | None
    height: Array


class Regression(NamedTuple):
    """The fit and the residuals it leaves."""

    fitted: Fit
    residuals: tuple[Residuals, ...]


def diverged_parameters(fitted: Fit) -> frozenset[str]:
    """Return the parameters that moved to the limit of their prior: nothing in the flights bounds them."""
    is_at_limit = np.abs(fitted.offset) > MAX_OFFSET - 0.01
    return frozenset(parameter.name for parameter, flag in zip(fitted.parameters, is_at_limit, strict=True) if flag)


def uncertain_parameters(fitted: Fit) -> frozenset[str]:
    """Return the parameters whose standard errors are too large; they are better fixed at their start values."""
    sigma = np.sqrt(np.diag(fitted.covariance))
    names = set()
    for parameter, error in zip(fitted.parameters, sigma, strict=True):
        max_error = (
            MAX_K_TORQUE_ERROR
            if parameter.name == "k_torque"
            else MAX_CURVE_ERROR
            if parameter.name == "thrust_curve.linear"
            else MAX_ERRORS[0]
            if parameter.positive
            else MAX_ERRORS[1] * parameter.scale
        )
        if parameter.name not in fitted.fixed and not error * parameter.scale < max_error:
            names.add(parameter.name)
    return frozenset(names - {"inertia.zz"} if "k_torque" in fitted.fixed else names)


def fit_by_regression(
    flights: Sequence[ResampledLog], start: Vehicle, progress: Callable[[float], None] | None = None
) -> Regression:
    """Fit the parameters of a vehicle prepared by `prepare_vehicle` to the flights; unexcited parameters stay at their
    start values."""
    measured_lag = _measured_lag(flights, start)
    for name, (value, _) in measured_lag.items():
        start = next(parameter for parameter in identifiable_parameters(start) if parameter.name == name).put(
            start, value
        )
    parameters = identifiable_parameters(start)
    volts = mean_voltage(flights)
    problem = _Problem(tuple(Blocks.build(flight, volts, start) for flight in flights), start, parameters)
    fixed = _add_dependent_parameters(
        problem.unexcited_parameters() | _unresolved_parameters(flights) | frozenset(measured_lag)
    )
    while True:
        regression = problem.regression_result(*problem.solve(fixed, progress), fixed, measured_lag)
        diverged = diverged_parameters(regression.fitted)
        doubtful = diverged | uncertain_parameters(regression.fitted)
        doubtful -= diverged & {"thrust_curve.linear"}  # the flights do bound it: the start's speed range is wrong
        if not doubtful - fixed:
            return regression._replace(fitted=_add_reference_errors(regression.fitted))
        fixed = _add_dependent_parameters(fixed | doubtful)


def _add_reference_errors(fitted: Fit) -> Fit:
    """Add to the errors of J those of what torques determine it relative to: kF, the slope 2 − b of the thrust curve, and kM
    if that was fixed."""
    index = {parameter.name: j for j, parameter in enumerate(fitted.parameters)}
    covariance = fitted.covariance.copy()
    slope = ("thrust_curve.linear", CURVE_WIDENING * 0.5)
    for name, references in (
        ("inertia.xx", (("k_thrust", 1.0), slope)),
        ("inertia.yy", (("k_thrust", 1.0), slope)),
        ("inertia.zz", (("k_torque", 1.0), slope) if "k_torque" in fitted.fixed else ()),
        ("k_torque", (slope,)),
    ):
        j = index[name]
        for reference, factor in references if name not in fitted.fixed else ():
            other = index[reference]
            ratio = factor * fitted.parameters[other].scale / fitted.parameters[j].scale
            covariance[j, j] += fitted.covariance[other, other] * ratio**2
    return fitted._replace(covariance=covariance)


def _add_dependent_parameters(fixed: frozenset[str]) -> frozenset[str]:
    """Fix the parameters that cannot be separated once a moment of inertia is fixed.

    Without J about an axis, an offset centre of mass looks like uneven rotors, and damping like noise.
    """
    dependent = {
        dependent_name
        for name, dependent_name in (("inertia.xx", "centre_of_mass.y"), ("inertia.yy", "centre_of_mass.x"))
        if name in fixed
    }
    dependent |= {"damping.yaw"} if "inertia.zz" in fixed else set()
    dependent |= {"damping.tilt"} if {"inertia.xx", "inertia.yy"} & fixed else set()
    return fixed | dependent


def _unresolved_parameters(flights: Sequence[ResampledLog]) -> frozenset[str]:
    """Return the parameters that cannot be estimated because no flight logs commands as fast as the motors respond."""
    periods = [(flight.command_period, flight.rotor_speed is not None) for flight in flights]
    if any(period <= MAX_COMMAND_PERIOD_S or (has_speed and period < math.inf) for period, has_speed in periods):
        return frozenset()
    lag = {"motor.time_constant_up", "motor.time_constant_down"}
    return frozenset(lag if any(has_speed for _, has_speed in periods) else {*lag, "k_torque", *INERTIAS})


def _measured_lag(flights: Sequence[ResampledLog], start: Vehicle) -> dict[str, tuple[float, float]]:
    """Return the motor lag and the σ of its logarithm from the most accurate flight with measured rotor speeds, if any."""
    motor, estimates = start.rotors[0].motor, []
    for flight in flights:
        if flight.rotor_speed is not None and flight.command_period < math.inf:
            stretch = usable_intervals(flight.usable)[0]
            rows = flight.commanded[:, stretch], flight.rotor_speed[:, stretch]
            estimates.append(estimate_lag(*rows, flight.period, motor.time_constant_up, motor.time_constant_down))
    if not estimates:
        return {}
    best = min(estimates, key=lambda estimate: estimate.error_up + estimate.error_down)
    return {
        "motor.time_constant_up": (best.time_constant_up, best.error_up),
        "motor.time_constant_down": (best.time_constant_down, best.error_down),
    }


class _Point(NamedTuple):
    """An iterate: a vehicle without gains, and the unknowns of every flight."""

    vehicle: Vehicle
    trims: tuple[FlightTrim, ...]
    per_volt: float
    offset: Array


@dataclass(frozen=True)
class _Problem:
    flights: tuple[Blocks, ...]
    start: Vehicle
    parameters: tuple[FreeParameter, ...]

    def solve(self, fixed: frozenset[str], progress: Callable[[float], None] | None) -> tuple[_Point, list[Array]]:
        """Iterate Gauss–Newton steps; return the solution and the residual spread of each flight."""
        n = len(self.start.rotors)
        trims = tuple(FlightTrim((1.0,) * n, 0.0, (0.0, 0.0)) for _ in self.flights)
        point = _Point(self.start, trims, 0.0, np.zeros(len(self.parameters)))
        spreads: list[Array] = []
        for k in range(MAX_STEPS):
            if k < REWEIGHTING_STEPS:  # later weights are fixed: rows could otherwise gain weight by shrinking
                spreads = [self._residual_spread(i, point) for i in range(len(self.flights))]
            step = self._step(point, fixed, spreads)
            point = self._apply_step(point, step)
            if progress:
                progress((k + 1) / MAX_STEPS)
            if np.abs(step).max() < STEP_TOLERANCE:
                break
        return point, spreads

    def unexcited_parameters(self) -> frozenset[str]:
        """Return the parameters that no flight excites: it neither rotates about their axis nor moves along it."""
        speeds = np.max([flight.rms_speed() for flight in self.flights], axis=0)
        names = {name for name, axis in AIRSPEED_AXES.items() if not speeds[axis] > MIN_RMS_SPEED}
        rotates = np.any([flight.is_excited for flight in self.flights], axis=0)[1:]
        names |= {name for name, is_excited in zip(INERTIAS, rotates, strict=True) if not is_excited}
        return frozenset(names | ({"k_torque"} if "inertia.zz" in names else set()))

    # The unknowns, in scales: parameters, thrust per volt, then for each flight contrasts of gains, their mean, delay, wind

    @property
    def _trim_size(self) -> int:
        return len(self.start.rotors) + 3

    def _contrasts(self) -> Array:
        """Return orthogonal patterns of gains, (rotors, rotors): the common mode in the last column."""
        n = len(self.start.rotors)
        ones = np.full((n, 1), 1.0 / np.sqrt(n))
        basis = np.linalg.qr(np.concatenate([ones, np.eye(n)[:, : n - 1]], axis=1))[0]
        return np.concatenate([basis[:, 1:], np.ones((n, 1))], axis=1)

    def _scales(self) -> Array:
        """Return the prior σ of each unknown of a flight; with a single flight the mean gain belongs to kF."""
        n = len(self.start.rotors)
        mean_gain_sigma = MEAN_GAIN_SIGMA if len(self.flights) > 1 else 0.0
        return np.array([*[GAIN_SIGMA] * (n - 1), mean_gain_sigma, DELAY_SIGMA, WIND_SIGMA, WIND_SIGMA])

    def _apply_step(self, point: _Point, step: Array) -> _Point:
        k = len(self.parameters)
        step = np.clip(step, -MAX_STEP, MAX_STEP)
        step[:k] = np.clip(point.offset + step[:k], -MAX_OFFSET, MAX_OFFSET) - point.offset
        offset = point.offset + step[:k]
        vehicle = point.vehicle
        for parameter, s in zip(self.parameters, step[:k], strict=True):
            vehicle = parameter.displace_vehicle(vehicle, s) if s else vehicle
        scales, basis = self._scales(), self._contrasts()
        trims = []
        for i, trim in enumerate(point.trims):
            trim_step = step[k + 1 + i * self._trim_size :][: self._trim_size] * scales
            trims.append(displace_trim(trim, trim_step, basis))
        return _Point(vehicle, tuple(trims), point.per_volt + float(step[k]) * PER_VOLT_SIGMA, offset)

    def _scaled_offset(self, point: _Point) -> Array:
        """Return the position of an iterate relative to the start, in scales."""
        basis, scales = self._contrasts(), self._scales()
        parts = [point.offset, np.array([point.per_volt / PER_VOLT_SIGMA])]
        for trim in point.trims:
            gains = np.linalg.solve(basis, np.log(trim.gains))
            values = np.array([*gains, trim.delay, *trim.wind_W])
            parts.append(np.divide(values, scales, out=np.zeros(self._trim_size), where=scales > 0.0))
        return np.concatenate(parts)

    # Rows

    def errors(self, flight: Blocks, vehicle: Vehicle, trim: FlightTrim, per_volt: float) -> Array:
        """Return the required minus the predicted force and torque in characteristic units: (6, blocks)."""
        samples = flight.samples
        weight, arm, _, _ = hover_scales(self.start)
        motor = vehicle.rotors[0].motor
        speeds = rotor_speeds(samples, motor.time_constant_up, motor.time_constant_down, trim.delay)
        if samples.voltage is not None and per_volt and samples.rotor_speed is None:
            speeds = speeds * np.sqrt(np.maximum(1.0 + per_volt * (samples.voltage - flight.reference_voltage), 0.1))
        vehicle_with_gains = apply_gains(vehicle, trim.gains)
        commanded = spin_up_commands(speeds, motor.time_constant_up, motor.time_constant_down, samples.period)
        predicted = predict_wrench(vehicle_with_gains, samples.body, speeds, commanded, Vec3(*trim.wind_W, 0.0))
        force = flight.mean(float(vehicle.mass) * samples.specific_force - predicted.f_B) / weight
        gyroscopic = required_body_torque(samples.body, np.zeros((3, samples.body.shape[1])), vehicle)
        torque = flight.mean(gyroscopic - predicted.tau_B) + required_body_torque(
            np.zeros((13, len(flight.starts))), flight.angular_acceleration, vehicle
        )
        thrust, drag = (float(np.mean([getattr(r, name) for r in vehicle.rotors])) for name in ("k_thrust", "k_torque"))
        thrust_0 = float(np.mean([r.k_thrust for r in self.start.rotors]))
        speed_squared = weight / thrust_0
        scale = np.array([thrust * arm, thrust * arm, drag]) * speed_squared
        return np.concatenate([force, torque / scale[:, None]])

    def _errors_and_jacobian(self, i: int, point: _Point, fixed: frozenset[str]) -> tuple[Array, Array, list[int]]:
        """Return a flight's errors (6, blocks), their derivatives (unknowns, 6, blocks), and the indices of the unknowns."""
        flight, trim = self.flights[i], point.trims[i]
        k, n = len(self.parameters), len(self.start.rotors)
        errors = self.errors(flight, point.vehicle, trim, point.per_volt)
        columns, unknowns = [], []
        is_excited = flight.is_excited & np.array([True, *(name not in fixed for name in INERTIAS)])
        for j, parameter in enumerate(self.parameters):
            if parameter.name in fixed:
                continue
            displaced = self.errors(
                flight, parameter.displace_vehicle(point.vehicle, DIFFERENCE_STEP), trim, point.per_volt
            )
            column = (displaced - errors) / DIFFERENCE_STEP
            if parameter.name in THRUST_PARAMETERS:
                column[3:] = (
                    0.0  # the force determines kF and the thrust curve; the torque determines J relative to them
                )
            elif parameter.name in INERTIAS or parameter.name.startswith("motor."):
                column[2:][~is_excited] = 0.0
            columns.append(column)
            unknowns.append(j)
        voltage = None if flight.samples.rotor_speed is not None else flight.samples.voltage  # no effect at a speed
        if voltage is not None and np.ptp(voltage[flight.samples.usable]) > 0.1:
            displaced = self.errors(flight, point.vehicle, trim, point.per_volt + DIFFERENCE_STEP * PER_VOLT_SIGMA)
            column = (displaced - errors) / DIFFERENCE_STEP
            column[3:] = 0.0
            columns.append(column)
            unknowns.append(k)
        scales, basis = self._scales(), self._contrasts()
        for j in range(self._trim_size):
            is_unobservable = (
                j > n and "velocity" not in flight.samples.available_signals
            )  # without velocity the wind is unobservable
            if scales[j] == 0.0 or is_unobservable:
                continue
            displaced_trim = displace_trim(trim, DIFFERENCE_STEP * scales * (np.arange(self._trim_size) == j), basis)
            column = (self.errors(flight, point.vehicle, displaced_trim, point.per_volt) - errors) / DIFFERENCE_STEP
            if j == n - 1:
                column[3:] = 0.0
            elif j == n:
                column[2:][~is_excited] = 0.0
            columns.append(column)
            unknowns.append(k + 1 + i * self._trim_size + j)
        return errors, np.stack(columns), unknowns

    def _residual_spread(self, i: int, point: _Point) -> Array:
        """Return the robust spread of each row of a flight, (6,); ∞ for rows that the log cannot determine."""
        flight = self.flights[i]
        rows = flight.filter_wrench(self.errors(flight, point.vehicle, point.trims[i], point.per_volt))
        spread = np.array([max(1.4826 * float(np.median(np.abs(row - np.median(row)))), 1e-4) for row in rows])
        if "specific_force" not in flight.samples.available_signals:
            spread[:3] = np.inf
        if "velocity" not in flight.samples.available_signals:
            spread[:2] = np.inf  # the lateral airspeed is unknown
        return spread

    def _weighted_rows(
        self, i: int, point: _Point, fixed: frozenset[str], spread: Array
    ) -> tuple[Array, Array, list[int], Array, Array]:
        """Return filtered rows over their spread (6, blocks), their columns, the unknowns, and the same for the row means."""
        flight = self.flights[i]
        errors, columns, unknowns = self._errors_and_jacobian(i, point, fixed)
        rows, banded = flight.filter_wrench(errors), np.stack([flight.filter_wrench(column) for column in columns])
        magnitude = np.abs(rows) / spread[:, None]
        robust = np.sqrt(np.minimum(1.0, HUBER_THRESHOLD / np.maximum(magnitude, 1e-9)))
        weight = robust / spread[:, None]
        means = np.array([0, 1, 3, 4, 5])
        sigma = np.array([MEAN_FORCE_SIGMA, MEAN_FORCE_SIGMA, MEAN_TORQUE_SIGMA, MEAN_TORQUE_SIGMA, MEAN_TORQUE_SIGMA])
        sigma = np.where(np.isfinite(spread[means]), sigma, np.inf)
        level = errors[means].mean(axis=1) / sigma
        level_columns = columns[:, means].mean(axis=2) / sigma
        return rows * weight, banded * weight, unknowns, level, level_columns

    def _normal_equations(self, point: _Point, fixed: frozenset[str], spreads: Sequence[Array]) -> tuple[Array, Array]:
        """Return H and g of the local quadratic model of the cost: H δ = −g."""
        count = len(self.parameters) + 1 + len(self.flights) * self._trim_size
        matrix, gradient = np.eye(count), self._scaled_offset(point)
        for i in range(len(self.flights)):
            rows, columns, unknowns, level, level_columns = self._weighted_rows(i, point, fixed, spreads[i])
            jacobian = columns.reshape(len(columns), -1)
            matrix[np.ix_(unknowns, unknowns)] += jacobian @ jacobian.T + level_columns @ level_columns.T
            gradient[unknowns] += jacobian @ rows.ravel() + level_columns @ level
        return matrix, gradient

    def _free_unknowns(self, fixed: frozenset[str]) -> Array:
        free = np.ones(len(self.parameters) + 1 + len(self.flights) * self._trim_size, dtype=bool)
        free[: len(self.parameters)] = [parameter.name not in fixed for parameter in self.parameters]
        return free

    def _step(self, point: _Point, fixed: frozenset[str], spreads: Sequence[Array]) -> Array:
        """Solve the normal equations for the free unknowns."""
        matrix, gradient = self._normal_equations(point, fixed, spreads)
        free = self._free_unknowns(fixed)
        step = np.zeros(len(gradient))
        step[free] = -np.linalg.solve(matrix[np.ix_(free, free)], gradient[free])
        return step

    # Answers

    def regression_result(
        self,
        point: _Point,
        spreads: Sequence[Array],
        fixed: frozenset[str],
        measured: Mapping[str, tuple[float, float]],
    ) -> Regression:
        """Return the fit with its covariance H⁻¹ (Σ of correlated scores) H⁻¹, and the residuals."""
        matrix, _ = self._normal_equations(point, fixed, spreads)
        score_covariance = np.eye(len(matrix))
        residuals, length = [], 0.0
        for i, flight in enumerate(self.flights):
            rows, columns, unknowns, _, level_columns = self._weighted_rows(i, point, fixed, spreads[i])
            scores = (columns * rows).sum(axis=1)
            lag = max(round(CORRELATION_TIME_S / BLOCK_DURATION_S), 1)
            total = np.zeros((len(unknowns), len(unknowns)))
            for stretch in flight.stretches:
                total += _newey_west(scores[:, stretch], lag)
            score_covariance[np.ix_(unknowns, unknowns)] += total + level_columns @ level_columns.T
            residuals.append(self._residuals(i, point))
            length += len(flight.starts) * flight.length * flight.samples.period
        free = self._free_unknowns(fixed)
        inverse = np.zeros_like(matrix)
        inverse[np.ix_(free, free)] = np.linalg.inv(matrix[np.ix_(free, free)])
        covariance = inverse @ score_covariance @ inverse
        k = len(self.parameters)
        parameter_covariance = covariance[:k, :k].copy()
        for j, parameter in enumerate(self.parameters):
            if parameter.name in measured:
                parameter_covariance[j, j] = (measured[parameter.name][1] / parameter.scale) ** 2
            elif parameter.name in fixed:
                parameter_covariance[j, j] = 1.0
        fitted = Fit(
            point.vehicle,
            point.trims,
            point.per_volt,
            self.flights[0].reference_voltage,
            self.parameters,
            point.offset,
            parameter_covariance,
            length / CORRELATION_TIME_S,
            tuple(sorted(fixed - measured.keys())),
        )
        return Regression(fitted, tuple(residuals))

    def _residuals(self, i: int, point: _Point) -> Residuals:
        flight, trim = self.flights[i], point.trims[i]
        samples = flight.samples
        weight, arm, _, _ = hover_scales(self.start)
        rows = self.errors(flight, point.vehicle, trim, point.per_volt)
        thrust = np.mean([r.k_thrust for r in point.vehicle.rotors]) / np.mean([r.k_thrust for r in self.start.rotors])
        drag = np.mean([r.k_torque for r in point.vehicle.rotors]) / np.mean([r.k_thrust for r in self.start.rotors])
        units = weight * np.array([1.0, 1.0, 1.0, thrust * arm, thrust * arm, drag])
        rows = rows * units[:, None]
        wind_W = np.array([*trim.wind_W, 0.0])[:, None]
        airspeed = np.stack(rotate_inverse(Quat(*samples.body[6:10]), Vec3(*(samples.body[3:6] - wind_W))))
        motor = point.vehicle.rotors[0].motor
        speeds = rotor_speeds(samples, motor.time_constant_up, motor.time_constant_down, trim.delay).mean(
            axis=0, keepdims=True
        )
        voltage = None if samples.voltage is None else flight.mean(samples.voltage[None])[0]
        return Residuals(
            samples.name,
            samples.time[flight.starts] + 0.5 * BLOCK_DURATION_S,
            rows[:3],
            rows[3:],
            flight.mean(airspeed),
            flight.mean(speeds)[0],
            voltage,
            flight.mean(samples.body[2:3])[0],
        )


def _newey_west(scores: Array, lag: int) -> Array:
    """Σ over |h| ≤ lag of (1 − |h|/(lag + 1)) Σ s(t) s(t + h)ᵀ"""
    n = scores.shape[1]
    total = scores @ scores.T
    for h in range(1, min(lag, n - 1) + 1):
        cross = scores[:, h:] @ scores[:, :-h].T
        total += (1.0 - h / (lag + 1.0)) * (cross + cross.T)
    return np.asarray(total)
