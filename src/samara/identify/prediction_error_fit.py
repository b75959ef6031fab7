"""Fit a predictor: minimise the multi-step prediction error over windows of half a second.

    min Σ over windows and times of ρ(x̂(t; θ) − x(t)),    x̂ the rollout from the measured state under the recorded commands

The windows of all flights run in the lanes of one compiled rollout, which also yields exact derivatives with respect to all
parameters (`Simulator.rollout_tangent`); Gauss–Newton does the rest. Errors are relative to those of constant velocity, so that
position, velocity, attitude and rate have equal weight; ρ is Huber's loss. Every window starts at a measured state: multiple
shooting without state unknowns. All flights have the same gain for each rotor, no delay and no wind, because a vehicle file
holds no more: the vehicle that is fitted is the one that is written.

The result predicts well in conditions like those flown, and absorbs effects missing from the equations: disturbances that act
as noise appear as inertia and damping. It is therefore called a predictor, and is not the vehicle's physics.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from samara.compiler.simulator import Simulator
from samara.compiler.simulator import compile as compile_vehicle
from samara.core.algebra import Quat, Vec3, angle_between, conjugate, quat_exp
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.identify.fit_result import GAIN_SIGMA, Fit, FlightTrim, rotor_speeds
from samara.identify.parameters import VARIED_PATHS, FreeParameter, apply_gains
from samara.identify.predicted_wrench import motor_commands
from samara.identify.resampled_log import ResampledLog, usable_duration, usable_intervals
from samara.physics.multirotor import state_at_rest
from samara.physics.rotors.actuator import Lag
from samara.physics.types import BODY_STATE_SIZE, CALM, Environment, State, Vehicle
from samara.vehicles.parameters import parameter

QUANTITIES = ("position", "velocity", "attitude", "rate")
UNITS = ("m", "m/s", "°", "rad/s")


class Windows(NamedTuple):
    """Start indices of the windows of a flight (N,), the samples per window, and the sample period [s]."""

    starts: Array
    samples: int
    period: float


def measured_states(body: Array, windows: Windows) -> Array:
    """Return the measured states of all windows: (samples + 1, 13, N)."""
    return np.stack([body[:, windows.starts + k] for k in range(windows.samples + 1)])


def hold_state(body: Array, windows: Windows) -> Array:
    """Baseline prediction: the state does not change."""
    return np.repeat(body[:, windows.starts][None], windows.samples + 1, axis=0)


def constant_velocity(body: Array, windows: Windows) -> Array:
    """Baseline prediction p + v t,  q ⊗ exp(ω t): constant velocity and angular velocity."""
    states = hold_state(body, windows)
    time = windows.period * np.arange(windows.samples + 1)[:, None]
    p, v, q, omega = states[:, 0:3], states[:, 3:6], states[:, 6:10], states[:, 10:13]
    p += v * time[:, None]
    q_WB = Quat(*np.moveaxis(q, 1, 0)) * quat_exp(Vec3(*np.moveaxis(omega, 1, 0)) * time)
    states[:, 6:10] = np.stack(q_WB, axis=1)
    return states


def prediction_errors(predicted: Array, measured: Array) -> dict[str, Array]:
    """|Δp| [m], |Δv| [m/s], the angle between the attitudes [°], |Δω| [rad/s]: (samples + 1, N) each"""
    angle = np.degrees(angle_between(*(Quat(*np.moveaxis(states[:, 6:10], 1, 0)) for states in (predicted, measured))))
    parts = (slice(0, 3), slice(3, 6), None, slice(10, 13))
    return {
        name: angle if part is None else np.linalg.norm(predicted[:, part] - measured[:, part], axis=1)
        for name, part in zip(QUANTITIES, parts, strict=True)
    }


BASELINES: dict[str, Callable[[Array, Windows], Array]] = {
    "hold the state": hold_state,
    "constant velocity": constant_velocity,
}


HORIZON, RECORD_PERIOD = 0.5, 0.05  # [s]
MAX_INTEGRATION_STEP = 0.005  # [s]: longest integration step
MAX_WINDOWS = 200  # windows of a flight
HUBER_THRESHOLD = 1.0  # multiple of the median window's error above which errors count linearly, not quadratically
MIN_ERROR_FRACTION = 1e-6  # fraction of constant velocity's squared error: a floor for simulated flights without noise
MAX_STEPS, STEP_TOLERANCE, MAX_STEP = 15, 0.02, 1.0
DIFFERENCE_STEP = 1e-4
ERROR_FIELDS = (slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12))
"""Rows of an error: position, velocity, attitude as a rotation vector, rate."""


def select_windows(
    samples: ResampledLog, *, max_count: int | None = MAX_WINDOWS, stride: float = 0.05, earliest: float = 0.0
) -> Windows:
    """Return usable windows of half a second, as ten records at the multiple of the flight's period nearest to 0.05 s.

    Args:
        samples: the flight.
        max_count: largest count of windows; a longer flight has them evenly spread.
        stride: time between the starts of windows [s].
        earliest: time before which no window starts [s].
    """
    length = round(HORIZON / RECORD_PERIOD) * round(RECORD_PERIOD / samples.period)
    step = max(round(stride / samples.period), 1)
    first = [
        np.arange(interval.start, interval.stop - length, step)
        for interval in sorted(usable_intervals(samples.usable), key=lambda interval: interval.start)
    ]
    starts = np.concatenate(first) if first else np.zeros(0, dtype=int)
    starts = starts[samples.time[starts] >= earliest]
    if max_count is not None and len(starts) > max_count:
        starts = starts[np.linspace(0, len(starts) - 1, max_count).astype(int)]
    return Windows(starts, length, samples.period)


@dataclass(frozen=True)
class Predictor:
    """A vehicle prepared by `prepare_vehicle`, compiled with the varied parameters as inputs."""

    simulator: Simulator

    @staticmethod
    def build(vehicle: Vehicle) -> "Predictor":
        """Compile a vehicle."""
        return Predictor(compile_vehicle(vehicle, vary=VARIED_PATHS))

    def window_batch(
        self,
        flights: Sequence[ResampledLog],
        windows: Sequence[Windows],
        vehicle: Vehicle,
        gains: Sequence[float],
        wind_W: tuple[float, float] = (0.0, 0.0),
    ) -> "WindowBatch":
        """Return every window of every flight as one batch, for one candidate, the gains of its rotors and a wind."""
        return WindowBatch(self, tuple(flights), tuple(windows), vehicle, tuple(gains), wind_W)


@dataclass(frozen=True)
class WindowBatch:
    """A batch of windows with one candidate vehicle: initial states and commands of each window, a gain for each rotor, and
    the steady wind along x and y [m/s]."""

    predictor: Predictor
    flights: tuple[ResampledLog, ...]
    windows: tuple[Windows, ...]
    vehicle: Vehicle
    gains: tuple[float, ...]
    wind_W: tuple[float, float]

    @property
    def period(self) -> float:
        return self.flights[0].period

    @property
    def steps(self) -> int:
        """Integration steps per sample."""
        return max(int(np.ceil(self.period / MAX_INTEGRATION_STEP - 1e-9)), 1)

    def state(self, motor: Lag) -> State:
        """Return the measured bodies, with the rotor speeds that followed the earlier commands."""
        pairs = list(zip(self.flights, self.windows, strict=True))
        body = np.concatenate([flight.body[:, windows.starts] for flight, windows in pairs], axis=1)
        rotors = np.concatenate(
            [
                rotor_speeds(flight, motor.time_constant_up, motor.time_constant_down, 0.0)[:, windows.starts]
                for flight, windows in pairs
            ],
            axis=1,
        )
        effect_states = flatten(state_at_rest(self.vehicle))[BODY_STATE_SIZE + len(rotors) :]
        rows = [*body, *rotors, *(np.full(body.shape[1], value) for value in effect_states)]
        state: State = unflatten(state_at_rest(self.vehicle), iter(np.ascontiguousarray(row) for row in rows))
        return state

    def commands(self) -> Array:
        """Return the commands of all windows, (steps, rotors, N)."""
        parts = []
        for flight, windows in zip(self.flights, self.windows, strict=True):
            index = windows.starts[None, :] + np.arange(windows.samples)[:, None]
            parts.append(np.stack(motor_commands(flight.commanded[:, index], self.vehicle), axis=1))
        return np.repeat(np.concatenate(parts, axis=2), self.steps, axis=0)

    def measured_states(self) -> Array:
        """Return the measured states at the recorded times, (records, 13, N)."""
        record_stride = round(RECORD_PERIOD / self.period)
        pairs = zip(self.flights, self.windows, strict=True)
        return np.concatenate(
            [
                measured_states(flight.body, flight_windows)[record_stride::record_stride]
                for flight, flight_windows in pairs
            ],
            axis=2,
        )

    def _rollout_inputs(self) -> tuple[State, Array, float, Environment, Vehicle, int]:
        state, commands = self.state(self.vehicle.rotors[0].motor), self.commands()
        vehicle = apply_gains(self.vehicle, self.gains)
        record_stride = round(RECORD_PERIOD / self.period) * self.steps
        environment = CALM._replace(wind_W=Vec3(*self.wind_W, 0.0))
        return state, commands, self.period / self.steps, environment, vehicle, record_stride

    def predict(self) -> Array:
        """Predict the states of every window, (records, 13, N)."""
        state, commands, dt, environment, vehicle, record_stride = self._rollout_inputs()
        rollout = self.predictor.simulator.rollout(
            state, commands, dt, environment, vehicle, record_every=record_stride
        )
        return np.stack(flatten(rollout.states)[:BODY_STATE_SIZE], axis=1)

    def predict_with_derivatives(self, parameters: Sequence[FreeParameter]) -> tuple[Array, Array]:
        """Predict the states of every window, with derivatives.

        Returns:
            The states (records, 13, N), and their derivatives (unknowns, records, 13, N) with respect to the parameters in
            scales and the logarithm of every rotor's gain.
        """
        state, commands, dt, environment, vehicle, record_stride = self._rollout_inputs()
        n = commands.shape[2]
        directions = len(parameters) + len(vehicle.rotors)
        by_path = {path: np.zeros((len(flatten(parameter(vehicle, path))), directions, n)) for path in VARIED_PATHS}
        by_state = np.zeros((len(flatten(state)), directions, n))
        for j, unknown in enumerate(parameters):
            displaced = unknown.displace_vehicle(self.vehicle, DIFFERENCE_STEP)
            for path in VARIED_PATHS:
                values, displaced_values = (
                    flatten(parameter(candidate, path)) for candidate in (self.vehicle, displaced)
                )
                for leaf, (a, b) in enumerate(zip(values, displaced_values, strict=True)):
                    if a != b:
                        gain = self.gains[leaf] if path in ("rotors.k_thrust", "rotors.k_torque") else 1.0
                        by_path[path][leaf, j] = (b - a) / DIFFERENCE_STEP * gain
            if unknown.name.startswith("motor."):
                motors = (candidate.rotors[0].motor for candidate in (self.vehicle, displaced))
                a, b = (self.state(motor).rotor_speed for motor in motors)
                for rotor in range(len(vehicle.rotors)):
                    by_state[BODY_STATE_SIZE + rotor, j] = (b[rotor] - a[rotor]) / DIFFERENCE_STEP
        for path in ("rotors.k_thrust", "rotors.k_torque"):
            for rotor, value in enumerate(flatten(parameter(vehicle, path))):
                by_path[path][rotor, len(parameters) + rotor] = value
        d_vehicle = {
            path: unflatten(parameter(vehicle, path), iter(list(rows))) for path, rows in by_path.items() if rows.any()
        }
        d_state = unflatten(state, iter(list(by_state)))
        simulator = self.predictor.simulator
        rollout = simulator.rollout_tangent(
            state, commands, dt, environment, vehicle, d_state=d_state, d_vehicle=d_vehicle, record_every=record_stride
        )
        states = np.stack(flatten(rollout.states)[:BODY_STATE_SIZE], axis=1)
        slopes = np.stack(flatten(rollout.d_states)[:BODY_STATE_SIZE], axis=2)
        return states, slopes


def state_error(predicted: Array, measured: Array) -> Array:
    """Δp, Δv, 2 vec(q⁻¹ ⊗ q̂), Δω: (records, 12, N)."""
    return np.concatenate(
        [
            predicted[:, :6] - measured[:, :6],
            _attitude_error(measured, predicted),
            predicted[:, 10:] - measured[:, 10:],
        ],
        axis=1,
    )


def _attitude_error(measured: Array, predicted: Array) -> Array:
    """2 vec(q⁻¹ ⊗ q̂) with the sign of the shorter rotation."""
    difference = conjugate(Quat(*np.moveaxis(measured[:, 6:10], 1, 0))) * Quat(*np.moveaxis(predicted[:, 6:10], 1, 0))
    return (
        2.0
        * np.stack([difference.x, difference.y, difference.z], axis=1)
        * np.where(difference.w < 0.0, -1.0, 1.0)[:, None]
    )


def constant_velocity_error(flights: Sequence[ResampledLog], windows: Sequence[Windows]) -> Array:
    """RMS error of constant velocity at every record, by quantity: (records, 4)."""
    parts = []
    for flight, flight_windows in zip(flights, windows, strict=True):
        record_stride = round(RECORD_PERIOD / flight.period)
        parts.append(
            state_error(
                constant_velocity(flight.body, flight_windows)[record_stride::record_stride],
                measured_states(flight.body, flight_windows)[record_stride::record_stride],
            )
        )
    errors = np.concatenate(parts, axis=2)
    return np.stack([np.sqrt((errors[:, field] ** 2).sum(axis=1).mean(axis=1)) for field in ERROR_FIELDS], axis=1)


@dataclass(frozen=True)
class _Search:
    """Unknowns in scales: the parameters, and a gain for each rotor, the same in all flights."""

    flights: tuple[ResampledLog, ...]
    windows: tuple[Windows, ...]
    predictor: Predictor
    parameters: tuple[FreeParameter, ...]
    start: Vehicle
    wind_W: tuple[float, float]

    def weights(self) -> Array:
        """Return the inverse errors of constant velocity, (records, 12)."""
        reference_errors = constant_velocity_error(self.flights, self.windows)
        return 1.0 / np.repeat(np.maximum(reference_errors, 1e-9), 3, axis=1) / np.sqrt(4.0 * len(reference_errors))

    def window_batch(self, x: Array) -> WindowBatch:
        vehicle, k = self.start, len(self.parameters)
        for unknown, s in zip(self.parameters, x[:k], strict=True):
            vehicle = unknown.displace_vehicle(vehicle, float(s)) if s else vehicle
        gains = [float(gain) for gain in np.exp(GAIN_SIGMA * x[k:])]
        return self.predictor.window_batch(self.flights, self.windows, vehicle, gains, self.wind_W)

    @property
    def size(self) -> int:
        return len(self.parameters) + len(self.start.rotors)

    @property
    def independent_windows(self) -> float:
        """Count of windows that do not overlap."""
        return sum(_covered_duration(windows) for windows in self.windows) / HORIZON

    def cost(self, errors: Array, weights: Array, x: Array) -> tuple[float, Array, float]:
        """N log σ² + |x|², the robust weight of every window, and σ², the mean squared error of the windows."""
        square = ((errors * weights[:, :, None]) ** 2).sum(axis=(0, 1))
        median = float(np.median(square))
        robust = np.minimum(1.0, HUBER_THRESHOLD * np.sqrt(median / np.maximum(square, 1e-30)))
        mean = float((robust * square).mean()) + MIN_ERROR_FRACTION
        return self.independent_windows * np.log(mean) + float(x @ x), robust, mean

    def normal_equations(self, x: Array, weights: Array) -> tuple[Array, Array, float, Array]:
        """Return H, g, the cost at x, and the scores of every window."""
        lanes = self.window_batch(x)
        predicted, slopes = lanes.predict_with_derivatives(self.parameters)
        measured_states = lanes.measured_states()
        errors = state_error(predicted, measured_states)
        cost, robust, mean = self.cost(errors, weights, x)
        rows = np.stack(
            [
                np.concatenate(
                    [slope[:, :6], _attitude_error_derivative(measured_states, slope, predicted), slope[:, 10:]], axis=1
                )
                for slope in slopes
            ]
        )
        rows *= weights[:, :, None]
        rows[len(self.parameters) :] *= GAIN_SIGMA
        jacobian = rows.reshape(len(rows), -1, rows.shape[-1])  # (unknowns, records · 12, N)
        residual = (errors * weights[:, :, None]).reshape(-1, errors.shape[-1])
        factor = 2.0 * self.independent_windows / mean / residual.shape[-1]
        weighted = jacobian * robust
        matrix = 2.0 * np.eye(self.size) + factor * np.einsum("arn,brn->ab", weighted, jacobian, optimize=True)
        scores = factor * np.einsum("arn,rn->an", weighted, residual, optimize=True)
        return matrix, 2.0 * x + scores.sum(axis=1), cost, scores

    def solve(self, progress: Callable[[float], None] | None) -> tuple[Array, Array]:
        """Return the x of least cost and its covariance, by damped Gauss–Newton steps."""
        weights = self.weights()
        x, damping = np.zeros(self.size), 1e-3
        matrix, gradient, cost, scores = self.normal_equations(x, weights)
        for k in range(MAX_STEPS):
            step = -np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), gradient)
            trial = x + np.clip(step, -MAX_STEP, MAX_STEP)
            lanes = self.window_batch(trial)
            with np.errstate(all="ignore"):
                try:
                    trial_cost = self.cost(state_error(lanes.predict(), lanes.measured_states()), weights, trial)[0]
                except (ValueError, FloatingPointError):
                    trial_cost = np.inf
            if progress:
                progress((k + 1) / MAX_STEPS)
            if trial_cost < cost:
                is_converged = np.abs(trial - x).max() < STEP_TOLERANCE or cost - trial_cost < 0.05
                x, damping = trial, 0.2 * damping
                matrix, gradient, cost, scores = self.normal_equations(x, weights)
                if is_converged:
                    break
            else:
                damping *= 10.0
                if damping > 10.0:
                    break
        inverse = np.linalg.inv(matrix)
        return x, inverse @ (2.0 * np.eye(self.size) + _grouped_score_products(scores, self.windows)) @ inverse


def _grouped_score_products(scores: Array, windows: Sequence[Windows]) -> Array:
    """Sum the outer products of score sums over groups of ten windows: consecutive windows have correlated errors."""
    total, start = np.zeros((len(scores), len(scores))), 0
    for flight_windows in windows:
        for first in range(start, start + len(flight_windows.starts), 10):
            group = scores[:, first : min(first + 10, start + len(flight_windows.starts))].sum(axis=1)
            total += np.outer(group, group)
        start += len(flight_windows.starts)
    return total


def _attitude_error_derivative(measured: Array, slope: Array, predicted: Array) -> Array:
    """Return the derivative of `_attitude_error` for a derivative `slope` of the prediction."""
    difference = conjugate(Quat(*np.moveaxis(measured[:, 6:10], 1, 0))) * Quat(*np.moveaxis(predicted[:, 6:10], 1, 0))
    derivative = conjugate(Quat(*np.moveaxis(measured[:, 6:10], 1, 0))) * Quat(*np.moveaxis(slope[:, 6:10], 1, 0))
    return (
        2.0
        * np.stack([derivative.x, derivative.y, derivative.z], axis=1)
        * np.where(difference.w < 0.0, -1.0, 1.0)[:, None]
    )


def _covered_duration(windows: Windows) -> float:
    """Return the time that the windows cover  [s]."""
    steps = np.diff(np.sort(windows.starts), append=np.iinfo(int).max)
    return float(np.minimum(steps, windows.samples).sum() * windows.period)


def fit_by_prediction_error(
    flights: Sequence[ResampledLog],
    start: Vehicle,
    parameters: Sequence[FreeParameter],
    *,
    predictor: Predictor | None = None,
    windows: Sequence[Windows] | None = None,
    wind_W: tuple[float, float] = (0.0, 0.0),
    progress: Callable[[float], None] | None = None,
) -> Fit:
    """Fit the parameters of a vehicle prepared by `prepare_vehicle`, and one gain for each rotor, to predict the flights.

    Args:
        flights: the resampled logs.
        start: the vehicle to start from.
        parameters: the parameters to fit; without any, only the gains are fitted.
        predictor: the compiled vehicle; compiled here if None.
        windows: the windows of each flight; default: `select_windows`.
        wind_W: the steady wind along x and y, if it is known [m/s].
        progress: called with the completed fraction.
    """
    predictor = predictor or Predictor.build(start)
    flight_windows = tuple(windows) if windows is not None else tuple(select_windows(flight) for flight in flights)
    search = _Search(tuple(flights), flight_windows, predictor, tuple(parameters), start, wind_W)
    x, covariance = search.solve(progress)
    k = len(search.parameters)
    lanes = search.window_batch(x)
    independent = sum(usable_duration(flight) for flight in flights) / (10.0 * HORIZON)
    estimates = (search.parameters, x[:k], covariance[:k, :k], independent)
    trims = (FlightTrim(lanes.gains, 0.0, wind_W),) * len(flights)
    return Fit(lanes.vehicle, trims, 0.0, 0.0, *estimates)
