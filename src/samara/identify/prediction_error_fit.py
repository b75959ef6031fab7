"""The numbers with which a vehicle predicts best: multi-step prediction error over windows of half a second.

    min Σ over windows and times of ρ(x̂(t; θ) − x(t)),    x̂ the rollout from the measured state under the recorded commands

The windows of all flights ride in the lanes of one compiled rollout, its derivatives to all numbers are exact and come with it
(`Simulator.rollout_tangent`), and Gauss–Newton does the rest. Errors are measured in those of constant velocity, so that
position, velocity, attitude and rate count alike; ρ is Huber's. Every window starts at a measured state: multiple shooting,
without states to be found.

What comes out predicts well where the flights were, and takes in whatever the equations lack: disturbances that are felt as
noise come out as inertia and damping. It is called a predictor, and is not the vehicle's physics.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from samara.compiler.simulator import Simulator
from samara.compiler.simulator import compile as compile_vehicle
from samara.core.algebra import Quat, Vec3, angle_between, conjugate, quat_exp
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.identify.fit_result import DELAY, GAIN, PER_VOLT, Fitted, Trim, mean_voltage, rotor_speeds
from samara.identify.parameters import VARIED, Parameter, with_gains
from samara.identify.predicted_wrench import motor_commands
from samara.identify.resampled_log import Samples, duration_of, runs
from samara.identify.rotor_speed_model import late
from samara.physics.multirotor import at_rest
from samara.physics.types import BODY, CALM, State, Vehicle
from samara.vehicles.parameters import parameter

QUANTITIES = ("position", "velocity", "attitude", "rate")
UNITS = ("m", "m/s", "°", "rad/s")


class Windows(NamedTuple):
    """Where windows begin in a flight (N,), how many samples they last, and the time between samples [s]"""

    starts: Array
    samples: int
    period: float


def measured(body: Array, windows: Windows) -> Array:
    """What came: (samples + 1, 13, N)"""
    return np.stack([body[:, windows.starts + k] for k in range(windows.samples + 1)])


def hold_state(body: Array, windows: Windows) -> Array:
    """Nothing changes"""
    return np.repeat(body[:, windows.starts][None], windows.samples + 1, axis=0)


def constant_velocity(body: Array, windows: Windows) -> Array:
    """p + v t,  q ⊗ exp(ω t): nothing accelerates"""
    states = hold_state(body, windows)
    time = windows.period * np.arange(windows.samples + 1)[:, None]
    p, v, q, omega = states[:, 0:3], states[:, 3:6], states[:, 6:10], states[:, 10:13]
    p += v * time[:, None]
    q_WB = Quat(*np.moveaxis(q, 1, 0)) * quat_exp(Vec3(*np.moveaxis(omega, 1, 0)) * time)
    states[:, 6:10] = np.stack(q_WB, axis=1)
    return states


def errors(predicted: Array, measured: Array) -> dict[str, Array]:
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


HORIZON, RECORDED = 0.5, 0.05  # [s]
FINEST = 0.005  # [s]: of a step
MOST_WINDOWS = 200  # of a flight
HUBER = 1.0  # of the median window: windows that err more than most count by their size, not its square
NOTHING = 1e-6  # of constant velocity's squared error: the resolution for flights that are simulated without noise
MOST_STEPS, SETTLED, FARTHEST = 15, 0.02, 1.0
DIFFERENCE = 1e-4
FIELDS = (slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12))
"""Of an error: position, velocity, attitude as a rotation vector, rate"""


def windows_of(
    samples: Samples, *, most: int | None = MOST_WINDOWS, stride: float = 0.05, after: float = 0.0
) -> Windows:
    """Windows of half a second that can be used, `stride` apart or so far that there are `most`; none begins before `after`
    [s]"""
    length = round(HORIZON / samples.period)
    step = max(round(stride / samples.period), 1)
    first = [
        np.arange(own.start, own.stop - length, step) for own in sorted(runs(samples.usable), key=lambda r: r.start)
    ]
    starts = np.concatenate(first) if first else np.zeros(0, dtype=int)
    starts = starts[samples.time[starts] >= after]
    if most is not None and len(starts) > most:
        starts = starts[np.linspace(0, len(starts) - 1, most).astype(int)]
    return Windows(starts, length, samples.period)


@dataclass(frozen=True)
class Predictor:
    """A vehicle that is `ready`, compiled with the numbers that vary as inputs."""

    simulator: Simulator
    volts: float = 0.0

    @staticmethod
    def of(vehicle: Vehicle, volts: float = 0.0) -> "Predictor":
        return Predictor(compile_vehicle(vehicle, vary=VARIED), volts)

    def lanes(
        self,
        flights: Sequence[Samples],
        windows: Sequence[Windows],
        vehicle: Vehicle,
        trims: Sequence[Trim],
        per_volt: float,
    ) -> "Lanes":
        """Every window of every flight as a lane, for one candidate"""
        return Lanes(self, tuple(flights), tuple(windows), vehicle, tuple(trims), per_volt)


@dataclass(frozen=True)
class Lanes:
    """Windows side by side: what each starts from, hears, and is made of"""

    predictor: Predictor
    flights: tuple[Samples, ...]
    windows: tuple[Windows, ...]
    vehicle: Vehicle
    trims: tuple[Trim, ...]
    per_volt: float

    @property
    def period(self) -> float:
        return self.flights[0].period

    @property
    def steps(self) -> int:
        """Of the integrator, to a sample"""
        return max(int(np.ceil(self.period / FINEST - 1e-9)), 1)

    def state(self, rise: float, fall: float, delays: Sequence[float]) -> State:
        """Measured bodies, and rotors that followed the commands before"""
        body = np.concatenate(
            [own.body[:, at.starts] for own, at in zip(self.flights, self.windows, strict=True)], axis=1
        )
        speeds = [rotor_speeds(own, rise, fall, delay) for own, delay in zip(self.flights, delays, strict=True)]
        rotors = np.concatenate([own[:, at.starts] for own, at in zip(speeds, self.windows, strict=True)], axis=1)
        rest = flatten(at_rest(self.vehicle))[BODY + len(rotors) :]
        rows = [*body, *rotors, *(np.full(body.shape[1], own) for own in rest)]
        state: State = unflatten(at_rest(self.vehicle), iter(np.ascontiguousarray(row) for row in rows))
        return state

    def commands(self, delays: Sequence[float]) -> Array:
        """(steps, rotors, N)"""
        parts = []
        for own, at, delay in zip(self.flights, self.windows, delays, strict=True):
            heard = late(own.commanded, delay / own.period)
            index = at.starts[None, :] + np.arange(at.samples)[:, None]
            parts.append(np.stack(motor_commands(heard[:, index], self.vehicle), axis=1))
        return np.repeat(np.concatenate(parts, axis=2), self.steps, axis=0)

    def gains(self) -> Array:
        """(rotors, N): of each flight's own rotors, at each window's voltage"""
        trimmed = np.array([trim.gains for trim in self.trims]).T
        counts = [len(at.starts) for at in self.windows]
        return np.repeat(trimmed, counts, axis=1) * (1.0 + self.per_volt * self.volts())

    def volts(self) -> Array:
        """What each window's voltage is above that which gains are for, (N,)"""
        parts = [
            np.zeros(len(at.starts)) if own.voltage is None else own.voltage[at.starts] - self.predictor.volts
            for own, at in zip(self.flights, self.windows, strict=True)
        ]
        return np.concatenate(parts)

    def winds(self) -> Scalar:
        n = [len(at.starts) for at in self.windows]
        along = [np.repeat([own.wind_W[axis] for own in self.trims], n) for axis in (0, 1)]
        return CALM._replace(wind_W=Vec3(along[0], along[1], np.zeros(sum(n))))

    def measured(self) -> Array:
        """(records, 13, N)"""
        every = round(RECORDED / self.period)
        flights = zip(self.flights, self.windows, strict=True)
        return np.concatenate([measured(own.body, at)[every::every] for own, at in flights], axis=2)

    def _numbers(self) -> tuple[State, Array, float, Scalar, Vehicle, int]:
        motor, delays = self.vehicle.rotors[0].motor, [own.delay for own in self.trims]
        state, commands = self.state(motor.rise, motor.fall, delays), self.commands(delays)
        vehicle = with_gains(self.vehicle, list(self.gains()))
        every = round(RECORDED / self.period) * self.steps
        return state, commands, self.period / self.steps, self.winds(), vehicle, every

    def predicted(self) -> Array:
        """(records, 13, N): what this candidate says of every window"""
        state, commands, dt, around, vehicle, every = self._numbers()
        found = self.predictor.simulator.rollout(state, commands, dt, around, vehicle, record_every=every)
        return np.stack(flatten(found.states)[:BODY], axis=1)

    def with_slopes(self, parameters: Sequence[Parameter], delays: bool) -> tuple[Array, Array]:
        """What it says, and its derivatives: to the parameters in scales, to the logarithm of every rotor's gain, to thrust per
        volt and, where asked for, to the delay [s]; (records, 13, N) and (unknowns, records, 13, N)"""
        state, commands, dt, around, vehicle, every = self._numbers()
        n = commands.shape[2]
        directions = len(parameters) + len(vehicle.rotors) + 1
        by_path = {path: np.zeros((len(flatten(parameter(vehicle, path))), directions, n)) for path in VARIED}
        by_state = np.zeros((len(flatten(state)), directions, n))
        gains, own_lag = self.gains(), self.vehicle.rotors[0].motor
        late_by = [own.delay for own in self.trims]
        for j, each in enumerate(parameters):
            moved = each.moved(self.vehicle, DIFFERENCE)
            for path in VARIED:
                here, there = (flatten(parameter(own, path)) for own in (self.vehicle, moved))
                for leaf, (a, b) in enumerate(zip(here, there, strict=True)):
                    if a != b:
                        gain = gains[leaf] if path in ("rotors.k_thrust", "rotors.k_torque") else 1.0
                        by_path[path][leaf, j] = (b - a) / DIFFERENCE * gain
            if each.name.startswith("motor."):
                lag = moved.rotors[0].motor
                a, b = (self.state(own.rise, own.fall, late_by).rotor_speed for own in (own_lag, lag))
                for rotor in range(len(vehicle.rotors)):
                    by_state[BODY + rotor, j] = (b[rotor] - a[rotor]) / DIFFERENCE
        volts = self.volts()
        for path in ("rotors.k_thrust", "rotors.k_torque"):
            for rotor, value in enumerate(flatten(parameter(vehicle, path))):
                by_path[path][rotor, len(parameters) + rotor] = value
                by_path[path][rotor, -1] = value / (1.0 + self.per_volt * volts) * volts
        d_vehicle = {
            path: unflatten(parameter(vehicle, path), iter(list(rows))) for path, rows in by_path.items() if rows.any()
        }
        d_state = unflatten(state, iter(list(by_state)))
        simulator = self.predictor.simulator
        found = simulator.rollout_tangent(
            state, commands, dt, around, vehicle, d_state=d_state, d_vehicle=d_vehicle, record_every=every
        )
        states = np.stack(flatten(found.states)[:BODY], axis=1)
        slopes = np.stack(flatten(found.d_states)[:BODY], axis=2)
        if delays:
            beside = [own + DIFFERENCE for own in late_by]
            d_commands = (self.commands(beside) - commands) / DIFFERENCE
            lag = own_lag
            a, b = (self.state(lag.rise, lag.fall, own).rotor_speed for own in (late_by, beside))
            rest = np.zeros((len(flatten(state)), n))
            for rotor in range(len(vehicle.rotors)):
                rest[BODY + rotor] = (b[rotor] - a[rotor]) / DIFFERENCE
            d_state = unflatten(state, iter(list(rest)))
            shifted = simulator.rollout_tangent(
                state, commands, dt, around, vehicle, d_state=d_state, d_commands=d_commands, record_every=every
            )
            slopes = np.concatenate([slopes, np.stack(flatten(shifted.d_states)[:BODY], axis=2)])
        return states, slopes


def apart(said: Array, came: Array) -> Array:
    """Δp, Δv, 2 vec(q⁻¹ ⊗ q̂), Δω: (records, 12, N)"""
    return np.concatenate([said[:, :6] - came[:, :6], _turned(came, said), said[:, 10:] - came[:, 10:]], axis=1)


def _turned(came: Array, said: Array) -> Array:
    """2 vec(q⁻¹ ⊗ q̂) with the sign by which q⁻¹ ⊗ q̂ is the shorter way, also of derivatives of q̂"""
    between = conjugate(Quat(*np.moveaxis(came[:, 6:10], 1, 0))) * Quat(*np.moveaxis(said[:, 6:10], 1, 0))
    return 2.0 * np.stack([between.x, between.y, between.z], axis=1) * np.where(between.w < 0.0, -1.0, 1.0)[:, None]


def coasting_error(flights: Sequence[Samples], windows: Sequence[Windows]) -> Array:
    """RMS error of constant velocity at every record, by kind: (records, 4)"""
    parts = []
    for own, at in zip(flights, windows, strict=True):
        every = round(RECORDED / own.period)
        parts.append(apart(constant_velocity(own.body, at)[every::every], measured(own.body, at)[every::every]))
    every_one = np.concatenate(parts, axis=2)
    return np.stack([np.sqrt((every_one[:, part] ** 2).sum(axis=1).mean(axis=1)) for part in FIELDS], axis=1)


@dataclass(frozen=True)
class _Search:
    """Unknowns in scales: the parameters, thrust per volt, then for each flight a gain for each rotor and the delay."""

    flights: tuple[Samples, ...]
    windows: tuple[Windows, ...]
    predictor: Predictor
    parameters: tuple[Parameter, ...]
    start: Vehicle
    before: tuple[Trim, ...]
    spread: float
    with_delay: bool
    with_volts: bool

    def weights(self) -> Array:
        """1 over what constant velocity errs by, (records, 12)"""
        by_kind = coasting_error(self.flights, self.windows)
        return 1.0 / np.repeat(np.maximum(by_kind, 1e-9), 3, axis=1) / np.sqrt(4.0 * len(by_kind))

    def lanes(self, x: Array) -> Lanes:
        k, own = len(self.parameters), len(self.start.rotors) + 1
        vehicle = self.start
        for each, s in zip(self.parameters, x[:k], strict=True):
            vehicle = each.moved(vehicle, float(s)) if s else vehicle
        trims = []
        for i, trim in enumerate(self.before):
            mine = x[k + 1 + i * own :][:own]
            gains = tuple(float(g * np.exp(s * self.spread)) for g, s in zip(trim.gains, mine[:-1], strict=True))
            trims.append(Trim(gains, trim.delay + DELAY * float(mine[-1]), trim.wind_W))
        return self.predictor.lanes(self.flights, self.windows, vehicle, trims, PER_VOLT * float(x[k]))

    @property
    def size(self) -> int:
        return len(self.parameters) + 1 + len(self.flights) * (len(self.start.rotors) + 1)

    @property
    def independent(self) -> float:
        """Windows that do not overlap"""
        return float(sum(own.usable.sum() * own.period for own in self.flights)) / HORIZON

    def cost(self, errors: Array, weights: Array, x: Array) -> tuple[float, Array, float]:
        """N log σ² + |x|², the robust weight of every window, and σ², the mean over windows of their squared error"""
        square = ((errors * weights[:, :, None]) ** 2).sum(axis=(0, 1))
        middle = float(np.median(square))
        robust = np.minimum(1.0, HUBER * np.sqrt(middle / np.maximum(square, 1e-30)))
        mean = float((robust * square).mean()) + NOTHING
        return self.independent * np.log(mean) + float(x @ x), robust, mean

    def normal(self, x: Array, weights: Array) -> tuple[Array, Array, float, Array]:
        """H, g, the cost here, and the scores of every window"""
        lanes = self.lanes(x)
        said, slopes = lanes.with_slopes(self.parameters, self.with_delay)
        came = lanes.measured()
        errors = apart(said, came)
        cost, robust, mean = self.cost(errors, weights, x)
        k, n = len(self.parameters), len(self.start.rotors)
        rows = np.stack(
            [np.concatenate([own[:, :6], _turned_by(came, own, said), own[:, 10:]], axis=1) for own in slopes]
        )
        rows *= weights[:, :, None]
        scaled = errors * weights[:, :, None]
        rows[k : k + n] *= self.spread
        rows[k + n] *= PER_VOLT if self.with_volts else 0.0
        if self.with_delay:
            rows[k + n + 1] *= DELAY
        flat = rows.reshape(len(rows), -1, rows.shape[-1])  # (unknowns, records · 12, N)
        residual = scaled.reshape(-1, scaled.shape[-1])
        factor = 2.0 * self.independent / mean / residual.shape[-1]
        matrix, gradient = 2.0 * np.eye(self.size), 2.0 * x
        scores = np.zeros((self.size, residual.shape[-1]))
        at = 0
        for i, window in enumerate(self.windows):
            lane = slice(at, at + len(window.starts))
            at = lane.stop
            own = flat[:, :, lane]
            first = k + 1 + i * (n + 1)
            places = [*range(k), *range(first, first + n), k, *([first + n] if self.with_delay else [])]
            weighed = own * robust[lane]
            matrix[np.ix_(places, places)] += factor * np.einsum("arn,brn->ab", weighed, own, optimize=True)
            score = factor * np.einsum("arn,rn->an", weighed, residual[:, lane], optimize=True)
            gradient[places] += score.sum(axis=1)
            scores[np.array(places)[:, None], np.arange(lane.start, lane.stop)] = score
        return matrix, gradient, cost, scores

    def solved(self, progress: Callable[[float], None] | None) -> tuple[Array, Array]:
        """Where the cost is least, and the covariance there"""
        weights = self.weights()
        x, damping = np.zeros(self.size), 1e-3
        matrix, gradient, cost, scores = self.normal(x, weights)
        for k in range(MOST_STEPS):
            step = -np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), gradient)
            trial = x + np.clip(step, -FARTHEST, FARTHEST)
            lanes = self.lanes(trial)
            with np.errstate(all="ignore"):
                try:
                    there = self.cost(apart(lanes.predicted(), lanes.measured()), weights, trial)[0]
                except (ValueError, FloatingPointError):
                    there = np.inf
            if progress:
                progress((k + 1) / MOST_STEPS)
            if there < cost:
                small = np.abs(trial - x).max() < SETTLED or cost - there < 0.05
                x, damping = trial, 0.2 * damping
                matrix, gradient, cost, scores = self.normal(x, weights)
                if small:
                    break
            else:
                damping *= 10.0
                if damping > 10.0:
                    break
        inverse = np.linalg.inv(matrix)
        return x, inverse @ (2.0 * np.eye(self.size) + _summed(scores, self.windows)) @ inverse


def _summed(scores: Array, windows: Sequence[Windows]) -> Array:
    """Σ over stretches of ten windows of the products of their sums: windows that follow each other err alike"""
    total, at = np.zeros((len(scores), len(scores))), 0
    for own in windows:
        for first in range(at, at + len(own.starts), 10):
            group = scores[:, first : min(first + 10, at + len(own.starts))].sum(axis=1)
            total += np.outer(group, group)
        at += len(own.starts)
    return total


def _turned_by(came: Array, slope: Array, said: Array) -> Array:
    between = conjugate(Quat(*np.moveaxis(came[:, 6:10], 1, 0))) * Quat(*np.moveaxis(said[:, 6:10], 1, 0))
    moved = conjugate(Quat(*np.moveaxis(came[:, 6:10], 1, 0))) * Quat(*np.moveaxis(slope[:, 6:10], 1, 0))
    return 2.0 * np.stack([moved.x, moved.y, moved.z], axis=1) * np.where(between.w < 0.0, -1.0, 1.0)[:, None]


def fit(
    flights: Sequence[Samples],
    start: Vehicle,
    parameters: Sequence[Parameter],
    trims: Sequence[Trim] | None = None,
    *,
    predictor: Predictor | None = None,
    windows: Sequence[Windows] | None = None,
    spread: float = GAIN,
    with_delay: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Fitted:
    """The numbers of a `ready` vehicle that predict the flights best; without parameters, the trims alone"""
    n = len(start.rotors)
    known = any(own.voltage is not None for own in flights)
    volts = predictor.volts if predictor else mean_voltage(flights)
    predictor = predictor or Predictor.of(start, volts)
    at = tuple(windows) if windows is not None else tuple(windows_of(own) for own in flights)
    before = tuple(trims) if trims is not None else tuple(Trim((1.0,) * n, 0.0, (0.0, 0.0)) for _ in flights)
    search = _Search(
        tuple(flights),
        at,
        predictor,
        tuple(parameters),
        start,
        before,
        spread,
        with_delay,
        known and bool(parameters),
    )
    x, covariance = search.solved(progress)
    k = len(search.parameters)
    lanes = search.lanes(x)
    independent = sum(duration_of(own) for own in flights) / (10.0 * HORIZON)
    found = (search.parameters, x[:k], covariance[:k, :k], independent)
    return Fitted(lanes.vehicle, lanes.trims, lanes.per_volt, volts, *found)
