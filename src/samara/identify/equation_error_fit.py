"""The physical numbers of a vehicle from what force and torque a flight needed: equation error, over twentieths of a second.

    m a = f_B(θ),        (J ω̇ + ω × Jω) / k = τ_B(θ) / k,        k = kF l, kF l, kM

a is what the accelerometer feels. The torque of the rotors is the dependent variable, which is what dividing by kF l and kM
does: a torque that no equation has is then noise on a known torque, and does not drive J to infinity. Both sides are means
over SHORT, in which the mean of ω̇ is a difference of rates, less their means over LONG, which steady wind and a drifting
bias are in; thrust alone is taken as it is.

Of each flight its own are a gain for every rotor, the steady wind and the time by which its motors are heard late; they are
found along with the vehicle's numbers and are not part of it. Neighbouring residuals are alike where gusts last longer than a
row: the errors are those of sums over time (Newey and West, Econometrica 1987), not of independent rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate_inverse
from samara.core.types import Array
from samara.identify.fit_result import (
    DELAY,
    GAIN,
    PER_VOLT,
    TOGETHER,
    WIND,
    Fitted,
    Trim,
    beside,
    mean_voltage,
    rotor_speeds,
)
from samara.identify.parameters import Parameter, parameters_of, size_of, with_gains
from samara.identify.predicted_wrench import acting, needed_torque
from samara.identify.resampled_log import Samples, runs
from samara.identify.rotor_speed_model import lag_of_speeds
from samara.physics.types import Vehicle

SHORT, LONG = 0.05, 3.0  # [s]
LAGS = (0.4, 1.0, 2.5)  # of the start's
MOVING = 0.1  # of what the rotors do, that must be seen in the motion before inertia and lag are asked for


@dataclass(frozen=True)
class Blocks:
    """A flight's blocks of SHORT seconds: the samples they begin at, how many samples each has, and the stretches they are
    in"""

    samples: Samples
    first: Array
    length: int
    stretches: tuple[slice, ...]
    turning: Array
    reference: float
    moves: Array

    @staticmethod
    def of(samples: Samples, volts: float, vehicle: Vehicle) -> "Blocks":
        length = max(round(SHORT / samples.period), 1)
        first: list[Array] = []
        stretches, at = [], 0
        for own in sorted(runs(samples.usable), key=lambda own: own.start):
            begins = np.arange(own.start, own.stop - length, length)
            if len(begins) * SHORT >= 0.5 * LONG:
                first.append(begins)
                stretches.append(slice(at, at + len(begins)))
                at += len(begins)
        if not first:
            raise ValueError(f"{samples.name}: is nowhere usable for {0.5 * LONG:g} s at a time; expected a flight")
        begin = np.concatenate(first)
        omega = samples.body[10:13]
        turning = (omega[:, begin + length] - omega[:, begin]) / (length * samples.period)
        whole = Blocks(samples, begin, length, tuple(stretches), turning, volts, np.ones(4, dtype=bool))
        return replace(whole, moves=whole.share_that_moves(vehicle) >= MOVING)

    def mean(self, rows: Array) -> Array:
        """The mean over each block, by the trapezoid rule"""
        total = np.cumsum(0.5 * (rows[:, 1:] + rows[:, :-1]), axis=1)
        total = np.concatenate([np.zeros((len(rows), 1)), total], axis=1)
        return np.asarray((total[:, self.first + self.length] - total[:, self.first]) / self.length)

    def speed(self) -> Array:
        """RMS of what its velocity along the body's axes changes by within LONG, (3,)  [m/s]"""
        v_B = rotate_inverse(Quat(*self.samples.body[6:10]), Vec3(*self.samples.body[3:6]))
        return np.sqrt((self.band(self.mean(np.stack(v_B))) ** 2).mean(axis=1))

    def share_that_moves(self, vehicle: Vehicle) -> Array:
        """The share of what the rotors do that is seen in the motion, corr² at the best of some lags: thrust, and three
        torques"""
        samples, motor = self.samples, vehicle.rotors[0].motor
        still = samples.body.copy()
        still[3:6] = still[10:] = 0.0
        moved = self.band(np.concatenate([self.mean(samples.specific_force[2:]), self.turning]))
        best = np.zeros(4)
        for factor in LAGS if samples.rotor_speed is None else LAGS[:1]:
            speeds = rotor_speeds(samples, factor * motor.rise, factor * motor.fall, 0.0)
            acts = acting(vehicle, still, speeds, samples.commanded)
            done = self.band(self.mean(np.concatenate([acts.f_B[2:], acts.tau_B])))
            both = (done * moved).sum(axis=1) ** 2
            size = (done**2).sum(axis=1) * (moved**2).sum(axis=1)
            best = np.maximum(best, both / np.maximum(size, 1e-300))
        return best

    def band(self, rows: Array) -> Array:
        """Less the mean over LONG, within each stretch"""
        half = max(round(0.5 * LONG / (self.length * self.samples.period)), 1)
        out = np.empty_like(rows)
        for own in self.stretches:
            x = rows[:, own]
            n = x.shape[1]
            total = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)], axis=1)
            low, high = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
            out[:, own] = x - (total[:, high] - total[:, low]) / (high - low)
        return out

    def banded(self, rows: Array) -> Array:
        """The six rows of force and torque less their means over LONG; thrust as it is"""
        found = self.band(rows)
        found[2] = rows[2]
        return found


LEVEL, EVEN = 0.002, 0.003  # σ of the mean of forces beside the weight, and of torques beside theirs
HUBER = 2.0
MOST_STEPS, ADJUSTING, SETTLED, FARTHEST = 12, 3, 0.01, 1.0
ALIKE_FOR = 3.0  # [s]: residuals farther apart are independent
BELIEVED = 2.5  # scales from the start
CLEAR = 0.1, 0.2
"""A number is told where its standard error is below this part of it, or of its scale where it may be 0"""
SURE = 0.1  # of kM, which yaw tells only as a part of Jzz: less sure, it stays what it was
INERTIAS = ("inertia.xx", "inertia.yy", "inertia.zz")
OF_AIRSPEED = {
    "drag.linear.x": 0,
    "drag.linear.y": 1,
    "drag.isotropic": 1,
    "rotor_drag.axial": 2,
    "airspeed_moment.roll": 1,
    "airspeed_moment.pitch": 0,
}
"""Numbers that only an airspeed tells, and along which axis of the body"""
SLOW_COMMANDS = 0.05  # [s]: commands that come less often tell neither the motors' lag nor what turns the body
FAST = 0.1  # [m/s], RMS: slower, a body goes where gusts push it, and its velocity is not its airspeed
DIFFERENCE = 1e-3


class Residuals(NamedTuple):
    """What a flight's force [N] and torque [N·m] have beyond the equations, (3, n) each in body axes, means over SHORT; and
    when [s], the airspeed [m/s] in body axes (3, n), the mean rotor speed [rad/s], voltage [V] and height [m] that they go
    with"""

    flight: str
    time: Array
    force: Array
    torque: Array
    airspeed: Array
    rotor_speed: Array
    voltage: Array | None
    height: Array


class Regression(NamedTuple):
    """What came of it, and what it leaves unexplained"""

    fitted: Fitted
    residuals: tuple[Residuals, ...]


def unbelievable(told: Fitted) -> frozenset[str]:
    """Numbers that ran as far from what was known before as they may: there is nothing in the flights to stop them"""
    far = np.abs(told.offset) > BELIEVED - 0.01
    return frozenset(own.name for own, gone in zip(told.parameters, far, strict=True) if gone)


def unclear(told: Fitted) -> frozenset[str]:
    """Numbers that the flights tell so little about that they had better stay what they were"""
    sigma = np.sqrt(np.diag(told.covariance))
    found = set()
    for own, size in zip(told.parameters, sigma, strict=True):
        least = SURE if own.name == "k_torque" else CLEAR[0] if own.positive else CLEAR[1] * own.scale
        if own.name not in told.held and not size * own.scale < least:
            found.add(own.name)
    return frozenset(found - {"inertia.zz"} if "k_torque" in told.held else found)


def regress(flights: Sequence[Samples], start: Vehicle, progress: Callable[[float], None] | None = None) -> Regression:
    """The numbers that the flights tell about a vehicle that is `ready`, and those of the start where they tell nothing"""
    measured = _measured_lag(flights, start)
    for name, (value, _) in measured.items():
        start = next(own for own in parameters_of(start) if own.name == name).put(start, value)
    parameters = parameters_of(start)
    volts = mean_voltage(flights)
    problem = _Problem(tuple(Blocks.of(own, volts, start) for own in flights), start, parameters)
    held = _and_what_goes_with(problem.untold() | _too_slow(flights) | frozenset(measured))
    while True:
        told = problem.told(*problem.solved(held, progress), held, measured)
        doubtful = unbelievable(told.fitted) | unclear(told.fitted)
        if not doubtful - held:
            return told
        held = _and_what_goes_with(held | doubtful)


def _and_what_goes_with(held: frozenset[str]) -> frozenset[str]:
    """Where a moment of inertia is not told, neither is what would turn the body about its axis: a centre of mass off the
    middle looks like uneven rotors then, and damping like noise"""
    more = {
        other
        for name, other in (("inertia.xx", "centre_of_mass.y"), ("inertia.yy", "centre_of_mass.x"))
        if name in held
    }
    more |= {"damping.yaw"} if "inertia.zz" in held else set()
    more |= {"damping.tilt"} if {"inertia.xx", "inertia.yy"} & held else set()
    return held | more


def _too_slow(flights: Sequence[Samples]) -> frozenset[str]:
    """What commands tell only where they are logged about as often as motors follow them"""
    if any(own.command_period <= SLOW_COMMANDS or own.rotor_speed is not None for own in flights):
        return frozenset()
    return frozenset({"motor.rise", "motor.fall", "k_torque", *INERTIAS})


def _measured_lag(flights: Sequence[Samples], start: Vehicle) -> dict[str, tuple[float, float]]:
    """The motors' lag and σ of its logarithm from the flight with measured rotor speeds that tells it best, if any has them"""
    motor, found = start.rotors[0].motor, []
    for own in flights:
        if own.rotor_speed is not None:
            stretch = runs(own.usable)[0]
            rows = own.commanded[:, stretch], own.rotor_speed[:, stretch]
            found.append(lag_of_speeds(*rows, own.period, motor.rise, motor.fall))
    if not found:
        return {}
    best = min(found, key=lambda own: own.error_rise + own.error_fall)
    return {"motor.rise": (best.rise, best.error_rise), "motor.fall": (best.fall, best.error_fall)}


class _Point(NamedTuple):
    """Where the search is: a vehicle without gains, and every flight's own"""

    vehicle: Vehicle
    trims: tuple[Trim, ...]
    per_volt: float
    offset: Array


@dataclass(frozen=True)
class _Problem:
    flights: tuple[Blocks, ...]
    start: Vehicle
    parameters: tuple[Parameter, ...]

    def solved(self, held: frozenset[str], progress: Callable[[float], None] | None) -> tuple[_Point, list[Array]]:
        n = len(self.start.rotors)
        trims = tuple(Trim((1.0,) * n, 0.0, (0.0, 0.0)) for _ in self.flights)
        point = _Point(self.start, trims, 0.0, np.zeros(len(self.parameters)))
        spreads: list[Array] = []
        for k in range(MOST_STEPS):
            if k < ADJUSTING:  # for good: rows that count by their own spread would reward what makes them vanish
                spreads = [self._spread(i, point) for i in range(len(self.flights))]
            step = self._step(point, held, spreads)
            point = self._moved(point, step)
            if progress:
                progress((k + 1) / MOST_STEPS)
            if np.abs(step).max() < SETTLED:
                break
        return point, spreads

    def untold(self) -> frozenset[str]:
        """Numbers that no flight can tell: it neither turns about their axis nor moves along it, as far as it knows"""
        fast = np.max([own.speed() for own in self.flights], axis=0)
        held = {name for name, axis in OF_AIRSPEED.items() if not fast[axis] > FAST}
        turns = np.any([own.moves for own in self.flights], axis=0)[1:]
        held |= {name for name, tells in zip(INERTIAS, turns, strict=True) if not tells}
        return frozenset(held | ({"k_torque"} if "inertia.zz" in held else set()))

    # The unknowns, in scales: parameters, thrust per volt, then for each flight contrasts of gains, their mean, delay, wind

    @property
    def _own(self) -> int:
        return len(self.start.rotors) + 3

    def _contrasts(self) -> Array:
        """Orthogonal patterns of gains, (rotors, rotors): all together in the last column"""
        n = len(self.start.rotors)
        ones = np.full((n, 1), 1.0 / np.sqrt(n))
        basis = np.linalg.qr(np.concatenate([ones, np.eye(n)[:, : n - 1]], axis=1))[0]
        return np.concatenate([basis[:, 1:], np.ones((n, 1))], axis=1)

    def _scales(self) -> Array:
        """σ of each of a flight's own unknowns; with one flight alone the mean of its gains is kF's"""
        n = len(self.start.rotors)
        together = TOGETHER if len(self.flights) > 1 else 0.0
        return np.array([*[GAIN] * (n - 1), together, DELAY, WIND, WIND])

    def _moved(self, point: _Point, step: Array) -> _Point:
        k = len(self.parameters)
        step = np.clip(step, -FARTHEST, FARTHEST)
        step[:k] = np.clip(point.offset + step[:k], -BELIEVED, BELIEVED) - point.offset
        offset = point.offset + step[:k]
        vehicle = point.vehicle
        for own, s in zip(self.parameters, step[:k], strict=True):
            vehicle = own.moved(vehicle, s) if s else vehicle
        scales, basis = self._scales(), self._contrasts()
        trims = []
        for i, trim in enumerate(point.trims):
            mine = step[k + 1 + i * self._own :][: self._own] * scales
            trims.append(beside(trim, mine, basis))
        return _Point(vehicle, tuple(trims), point.per_volt + float(step[k]) * PER_VOLT, offset)

    def _from_start(self, point: _Point) -> Array:
        """Where a point is, in scales"""
        basis, scales = self._contrasts(), self._scales()
        parts = [point.offset, np.array([point.per_volt / PER_VOLT])]
        for trim in point.trims:
            gains = np.linalg.solve(basis, np.log(trim.gains))
            own = np.array([*gains, trim.delay, *trim.wind_W])
            parts.append(np.divide(own, scales, out=np.zeros(self._own), where=scales > 0.0))
        return np.concatenate(parts)

    # Rows

    def errors(self, flight: Blocks, vehicle: Vehicle, trim: Trim, per_volt: float) -> Array:
        """What force and torque are needed, less what acts, in the vehicle's own units: (6, blocks)"""
        samples = flight.samples
        weight, arm, _, _ = size_of(self.start)
        motor = vehicle.rotors[0].motor
        speeds = rotor_speeds(samples, motor.rise, motor.fall, trim.delay)
        if samples.voltage is not None and per_volt:
            speeds = speeds * np.sqrt(np.maximum(1.0 + per_volt * (samples.voltage - flight.reference), 0.1))
        own = with_gains(vehicle, trim.gains)
        acts = acting(own, samples.body, speeds, samples.commanded, Vec3(*trim.wind_W, 0.0))
        force = flight.mean(float(vehicle.mass) * samples.specific_force - acts.f_B) / weight
        spinning = needed_torque(samples.body, np.zeros((3, samples.body.shape[1])), vehicle)
        torque = flight.mean(spinning - acts.tau_B) + needed_torque(
            np.zeros((13, len(flight.first))), flight.turning, vehicle
        )
        thrust, drag = (float(np.mean([getattr(r, name) for r in vehicle.rotors])) for name in ("k_thrust", "k_torque"))
        thrust_0 = float(np.mean([r.k_thrust for r in self.start.rotors]))
        lift = weight / thrust_0
        scale = np.array([thrust * arm, thrust * arm, drag]) * lift
        return np.concatenate([force, torque / scale[:, None]])

    def _columns(self, i: int, point: _Point, held: frozenset[str]) -> tuple[Array, Array, list[int]]:
        """A flight's errors and their derivatives to the unknowns that it knows: (6, blocks), (unknowns, 6, blocks), which"""
        flight, trim = self.flights[i], point.trims[i]
        k, n = len(self.parameters), len(self.start.rotors)
        here = self.errors(flight, point.vehicle, trim, point.per_volt)
        columns, places = [], []
        moves = flight.moves & np.array([True, *(name not in held for name in INERTIAS)])
        for j, own in enumerate(self.parameters):
            if own.name in held:
                continue
            moved = self.errors(flight, own.moved(point.vehicle, DIFFERENCE), trim, point.per_volt)
            column = (moved - here) / DIFFERENCE
            if own.name == "k_thrust":
                column[3:] = 0.0  # thrust is what force says; what torque says is J/kF
            elif own.name in INERTIAS or own.name.startswith("motor."):
                column[2:][~moves] = 0.0
            columns.append(column)
            places.append(j)
        if flight.samples.voltage is not None and np.ptp(flight.samples.voltage[flight.samples.usable]) > 0.1:
            moved = self.errors(flight, point.vehicle, trim, point.per_volt + DIFFERENCE * PER_VOLT)
            column = (moved - here) / DIFFERENCE
            column[3:] = 0.0
            columns.append(column)
            places.append(k)
        scales, basis = self._scales(), self._contrasts()
        for j in range(self._own):
            silent = j > n and "velocity" not in flight.samples.knows  # no wind is heard of
            if scales[j] == 0.0 or silent or (j == n and flight.samples.rotor_speed is not None):
                continue
            near = beside(trim, DIFFERENCE * scales * (np.arange(self._own) == j), basis)
            column = (self.errors(flight, point.vehicle, near, point.per_volt) - here) / DIFFERENCE
            if j == n - 1:
                column[3:] = 0.0
            elif j == n:
                column[2:][~moves] = 0.0
            columns.append(column)
            places.append(k + 1 + i * self._own + j)
        return here, np.stack(columns), places

    def _spread(self, i: int, point: _Point) -> Array:
        """How far each row of a flight is off, as a rule, (6,); ∞ for what the log cannot say"""
        flight = self.flights[i]
        rows = flight.banded(self.errors(flight, point.vehicle, point.trims[i], point.per_volt))
        spread = np.array([max(1.4826 * float(np.median(np.abs(own - np.median(own)))), 1e-4) for own in rows])
        if "specific_force" not in flight.samples.knows:
            spread[:3] = np.inf
        if "velocity" not in flight.samples.knows:
            spread[:2] = np.inf  # what pushes sideways is then unknown
        return spread

    def _weighed(
        self, i: int, point: _Point, held: frozenset[str], spread: Array
    ) -> tuple[Array, Array, list[int], Array, Array]:
        """Banded rows over their spread, (6, blocks); their columns; which unknowns; and the rows of means with theirs"""
        flight = self.flights[i]
        here, columns, places = self._columns(i, point, held)
        rows, banded = flight.banded(here), np.stack([flight.banded(own) for own in columns])
        size = np.abs(rows) / spread[:, None]
        robust = np.sqrt(np.minimum(1.0, HUBER / np.maximum(size, 1e-9)))
        weight = robust / spread[:, None]
        means = np.array([0, 1, 3, 4, 5])
        sigma = np.array([LEVEL, LEVEL, EVEN, EVEN, EVEN])
        sigma = np.where(np.isfinite(spread[means]), sigma, np.inf)
        level = here[means].mean(axis=1) / sigma
        level_columns = columns[:, means].mean(axis=2) / sigma
        return rows * weight, banded * weight, places, level, level_columns

    def _normal(self, point: _Point, held: frozenset[str], spreads: Sequence[Array]) -> tuple[Array, Array]:
        """H and g of the quadratic that the cost is near here: H δ = −g"""
        size = len(self.parameters) + 1 + len(self.flights) * self._own
        matrix, gradient = np.eye(size), self._from_start(point)
        for i in range(len(self.flights)):
            rows, columns, places, level, level_columns = self._weighed(i, point, held, spreads[i])
            flat = columns.reshape(len(columns), -1)
            matrix[np.ix_(places, places)] += flat @ flat.T + level_columns @ level_columns.T
            gradient[places] += flat @ rows.ravel() + level_columns @ level
        return matrix, gradient

    def _free(self, held: frozenset[str]) -> Array:
        free = np.ones(len(self.parameters) + 1 + len(self.flights) * self._own, dtype=bool)
        free[: len(self.parameters)] = [own.name not in held for own in self.parameters]
        return free

    def _step(self, point: _Point, held: frozenset[str], spreads: Sequence[Array]) -> Array:
        matrix, gradient = self._normal(point, held, spreads)
        free = self._free(held)
        step = np.zeros(len(gradient))
        step[free] = -np.linalg.solve(matrix[np.ix_(free, free)], gradient[free])
        return step

    # Answers

    def told(
        self,
        point: _Point,
        spreads: Sequence[Array],
        held: frozenset[str],
        measured: Mapping[str, tuple[float, float]],
    ) -> Regression:
        """The point with the covariance of its numbers, H⁻¹ (Σ of scores that are alike for a while) H⁻¹"""
        matrix, _ = self._normal(point, held, spreads)
        meat = np.eye(len(matrix))
        residuals, length = [], 0.0
        for i, flight in enumerate(self.flights):
            rows, columns, places, _, level_columns = self._weighed(i, point, held, spreads[i])
            scores = (columns * rows).sum(axis=1)
            lag = max(round(ALIKE_FOR / SHORT), 1)
            total = np.zeros((len(places), len(places)))
            for own in flight.stretches:
                total += _newey_west(scores[:, own], lag)
            meat[np.ix_(places, places)] += total + level_columns @ level_columns.T
            residuals.append(self._residuals(i, point))
            length += len(flight.first) * flight.length * flight.samples.period
        free = self._free(held)
        inverse = np.zeros_like(matrix)
        inverse[np.ix_(free, free)] = np.linalg.inv(matrix[np.ix_(free, free)])
        covariance = inverse @ meat @ inverse
        k = len(self.parameters)
        known = covariance[:k, :k].copy()
        for j, each in enumerate(self.parameters):
            if each.name in measured:
                known[j, j] = (measured[each.name][1] / each.scale) ** 2
            elif each.name in held:
                known[j, j] = 1.0
        at = {each.name: j for j, each in enumerate(self.parameters)}
        # torques tell J as a multiple of kF, and of kM where that was held: it is no better known than they are
        for name, by in (("inertia.xx", "k_thrust"), ("inertia.yy", "k_thrust"), ("inertia.zz", "k_torque")):
            if name not in held and (by == "k_thrust" or by in held):
                j, other = at[name], at[by]
                known[j, j] += known[other, other] * (self.parameters[other].scale / self.parameters[j].scale) ** 2
        fitted = Fitted(
            point.vehicle,
            point.trims,
            point.per_volt,
            self.flights[0].reference,
            self.parameters,
            point.offset,
            known,
            length / ALIKE_FOR,
            tuple(sorted(held - measured.keys())),
        )
        return Regression(fitted, tuple(residuals))

    def _residuals(self, i: int, point: _Point) -> Residuals:
        flight, trim = self.flights[i], point.trims[i]
        samples = flight.samples
        weight, arm, _, _ = size_of(self.start)
        rows = self.errors(flight, point.vehicle, trim, point.per_volt)
        thrust = np.mean([r.k_thrust for r in point.vehicle.rotors]) / np.mean([r.k_thrust for r in self.start.rotors])
        drag = np.mean([r.k_torque for r in point.vehicle.rotors]) / np.mean([r.k_thrust for r in self.start.rotors])
        units = weight * np.array([1.0, 1.0, 1.0, thrust * arm, thrust * arm, drag])
        rows = rows * units[:, None]
        wind = np.array([*trim.wind_W, 0.0])[:, None]
        air = np.stack(rotate_inverse(Quat(*samples.body[6:10]), Vec3(*(samples.body[3:6] - wind))))
        motor = point.vehicle.rotors[0].motor
        speeds = rotor_speeds(samples, motor.rise, motor.fall, trim.delay).mean(axis=0, keepdims=True)
        volts = None if samples.voltage is None else flight.mean(samples.voltage[None])[0]
        return Residuals(
            samples.name,
            samples.time[flight.first] + 0.5 * SHORT,
            rows[:3],
            rows[3:],
            flight.mean(air),
            flight.mean(speeds)[0],
            volts,
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
