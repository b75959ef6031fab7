"""How the signals of a log agree: the offsets of their clocks, and the factors between signals of the same quantity.

The gyroscope measures the rate of the attitude, and the accelerometer the acceleration of the velocity: their offset is the
shift of largest likelihood, Σ −½ n log(1 − ρ²) over the axes. Motors act with a lag, which resembles an offset: both are fitted
to the angular acceleration, and to the vertical force only in flights that do not turn: a controller makes thrust follow it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, normalize, quat_log, rotate_inverse
from samara.core.types import Array
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import G

GRID_STEP_S = 0.004  # [s]
MOTOR_LAGS_S = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.085, 0.1, 0.12, 0.15, 0.2)  # [s]: candidates
MAX_SHIFT_S = 0.4  # [s]
NOISE_WINDOW_S, DRIFT_WINDOW_S = 0.03, 1.0  # [s]: the difference of means over these durations removes noise and drift
FADE_S = 1.0  # [s] at each end
MAX_CHECKED_S = 120.0  # [s]: only this first part of a longer flight is checked
MIN_DURATION_S = 5.0  # [s]
MIN_AGREEMENT = 0.3  # fraction of the variance that two signals of a quantity share if their offset is known
CORRELATION_TIME_S = 0.1  # [s]: samples further apart are independent
MIN_RATE_FRACTION = 0.1  # of what motors explain of the other motions: below it, rates are noise
MIN_CORRECTED_AGREEMENT, MIN_CORRECTION_S = 0.5, 0.02  # fraction and [s]: motion capture is moved by more than this
MAX_CORRELATION = 0.9999  # ρ²: more than this is not worth more
SHIFTS = np.arange(-round(MAX_SHIFT_S / GRID_STEP_S), round(MAX_SHIFT_S / GRID_STEP_S) + 1)
_MIN_POWER = 1e-9


class ClockOffset(NamedTuple):
    """Delay of the motion relative to the command by their clocks [s], the motor lag estimated with it [s], and the
    fraction of the motion's variance that both explain."""

    delay: float
    lag: float
    explained: float


class Agreement(NamedTuple):
    """Two measurements y and x of a quantity: y's delay [s], and for each axis the fraction of the variance they share and the
    factor ±σ_y/σ_x; `spread` is σ_x."""

    delay: float
    shared: Array
    factor: Array
    spread: Array

    @property
    def is_clear(self) -> bool:
        """Whether the signals share enough for their delay to be known."""
        return bool(self.shared.max() > MIN_AGREEMENT)


def interpolate_signal(signal: Signal, grid: Array) -> Array:
    """Interpolate the signal linearly at the times `grid`."""
    return np.stack([np.interp(grid, signal.time, row) for row in signal.values])


def unwrap_quaternions(q: Array) -> Array:
    """Choose between q and −q, the same attitude, so that neighbours are close and linear interpolation is valid."""
    flipped = (q[:, 1:] * q[:, :-1]).sum(axis=0) < 0.0
    return q * np.concatenate([[1.0], np.where(np.cumsum(flipped) % 2, -1.0, 1.0)])


def comparison_grid(begin: float, end: float) -> Array:
    """Return the times of the comparison between `begin` and `end`; empty for a flight that is too short  [s]."""
    grid = np.arange(begin, min(end, begin + MAX_CHECKED_S), GRID_STEP_S)
    return grid if len(grid) >= MIN_DURATION_S / GRID_STEP_S else np.empty(0)


def agreements(log: FlightLog, grid: Array) -> dict[str, Agreement]:
    """Compare signals of the same quantity: "rate" with that of the attitude, "specific_force" with that of velocity and
    attitude, and "velocity" with that of the position; y is the latter."""
    if not len(grid):
        return {}
    pairs: dict[str, tuple[Array, Array]] = {}
    q = None if log.attitude is None else _attitude(log.attitude, grid)
    if q is not None and log.rate is not None:
        step = np.stack(quat_log(normalize(conjugate(Quat(*q[:, :-1])) * Quat(*q[:, 1:]))))
        rate = np.concatenate([step[:, :1], 0.5 * (step[:, 1:] + step[:, :-1]), step[:, -1:]], axis=1) / GRID_STEP_S
        pairs["rate"] = (interpolate_signal(log.rate, grid), rate)
    if q is not None and log.specific_force is not None and log.velocity is not None:
        pairs["specific_force"] = (interpolate_signal(log.specific_force, grid), _motion_force(log.velocity, q, grid))
    if log.velocity is not None and log.position is not None:
        slope = np.gradient(interpolate_signal(log.position, grid), GRID_STEP_S, axis=1)
        pairs["velocity"] = (interpolate_signal(log.velocity, grid), slope)
    return {name: _agreement(*pair) for name, pair in pairs.items()}


def command_agreement(command: Signal, rotor_speed: Signal, grid: Array) -> Agreement:
    """Compare the command of each motor with its speed."""
    return _agreement(interpolate_signal(command, grid), interpolate_signal(rotor_speed, grid))


def _agreement(x: Array, y: Array) -> Agreement:
    x, y = _remove_noise_and_drift(x), _remove_noise_and_drift(y)
    size = _padded_size(x.shape[1])
    crossed = np.fft.irfft(np.fft.rfft(y, size) * np.conj(np.fft.rfft(x, size)), size)[:, SHIFTS]
    power_x, power_y = ((rows * rows).sum(axis=1) for rows in (x, y))
    squared = crossed**2 / np.maximum(power_x * power_y, _MIN_POWER)[:, None]
    likelihood = -np.log1p(-np.minimum(squared, MAX_CORRELATION)).sum(axis=0)
    best = int(np.argmax(likelihood))
    factor = np.sign(crossed[:, best]) * np.sqrt(power_y / np.maximum(power_x, _MIN_POWER))
    delay = float((_peak(likelihood, best) + SHIFTS[0]) * GRID_STEP_S)
    return Agreement(delay, squared[:, best], factor, np.sqrt(power_x / x.shape[1]))


def clock_offsets(
    log: FlightLog, begin: float, end: float, compared: dict[str, Agreement] | None = None
) -> dict[str, ClockOffset]:
    """Return the offsets of the IMU (`specific_force`, `rate`) and of the truth (`velocity`) relative to the motors.

    Args:
        log: the repaired log.
        begin, end: the flight [s].
        compared: the `agreements` of its signals, if known.
    """
    grid = comparison_grid(begin, end)
    if not len(grid):
        return {}
    held = np.clip(np.searchsorted(log.command.time, grid, side="right") - 1, 0, None)
    commands = _remove_noise_and_drift(log.command.values[:, held] ** 2)
    motions = {}
    if log.specific_force is not None:
        motions["specific_force"] = interpolate_signal(log.specific_force, grid)[2:]
    if log.rate is not None:
        motions["rate"] = np.gradient(interpolate_signal(log.rate, grid), GRID_STEP_S, axis=1)
    if log.velocity is not None and log.attitude is not None:
        motions["velocity"] = _motion_force(log.velocity, _attitude(log.attitude, grid), grid)[2:]
    later = relative_delays(agreements(log, grid) if compared is None else compared)
    return _joint_offsets(commands, {name: _remove_noise_and_drift(rows) for name, rows in motions.items()}, later)


def relative_delays(compared: dict[str, Agreement]) -> dict[str, float]:
    """Return the delays of the truth ("velocity") and of the accelerometer relative to the gyroscope, where known  [s].

    Without a comparison of one of them, the two sensors of the IMU have one clock.
    """
    by_rate, by_force = (compared.get(name) for name in ("rate", "specific_force"))
    delays = {"rate": 0.0, "specific_force": 0.0}
    if by_rate is not None and by_rate.is_clear:
        delays["velocity"] = by_rate.delay
        if by_force is not None and by_force.is_clear:
            delays["specific_force"] = by_rate.delay - by_force.delay
    elif by_force is not None and by_force.is_clear:
        delays["velocity"] = by_force.delay
    return delays


def truth_delay(log: FlightLog, compared: dict[str, Agreement]) -> float:
    """Return the delay of motion capture relative to the IMU if their clocks differ clearly, else 0  [s]."""
    delay = relative_delays(compared).get("velocity", 0.0)
    shared = max((compared[name].shared.max() for name in ("rate", "specific_force") if name in compared), default=0.0)
    is_certain = shared > MIN_CORRECTED_AGREEMENT and abs(delay) > MIN_CORRECTION_S
    return delay if is_certain and log.truth == MOTION_CAPTURE else 0.0


def align_truth(log: FlightLog, compared: dict[str, Agreement]) -> FlightLog:
    """Move motion capture onto the clock of the IMU."""
    delay = truth_delay(log, compared)
    if not delay:
        return log

    def move(signal: Signal | None) -> Signal | None:
        return None if signal is None else Signal(signal.time - delay, signal.values)

    return replace(log, position=move(log.position), velocity=move(log.velocity), attitude=move(log.attitude))


def _joint_offsets(commands: Array, motions: dict[str, Array], later: dict[str, float]) -> dict[str, ClockOffset]:
    """Fit a lag τ and an offset s to all motions whose relative delays are known, and to each other one: means over the
    likelihood of the lags, because the two resemble each other in a noisy motion.

    y(t) = Σ bᵢ uᵢ(t − s) filtered with τ for each axis y, with cᵢ(s) the covariance of uᵢ(t − s) and y(t), and G that of the
    commands: R²(s) = c(s)ᵀ G⁻¹ c(s) / var y.
    """
    if not motions:
        return {}
    size = _padded_size(commands.shape[1])
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    commanded = np.fft.rfft(commands, size)
    moved = {name: np.fft.rfft(rows, size) for name, rows in motions.items()}
    power = {name: np.maximum((rows * rows).sum(axis=1), _MIN_POWER) for name, rows in motions.items()}
    squared: dict[tuple[float, str], Array] = {}  # R² of each axis, at every shift
    for lag in MOTOR_LAGS_S:
        decay = np.exp(-GRID_STEP_S / lag) if lag else 0.0
        spectrum = commanded * ((1.0 - decay) / (1.0 - decay * turn))  # τ ẋ = u − x
        lagged = np.fft.irfft(spectrum, size)
        inverse = np.linalg.pinv(lagged @ lagged.T, rcond=1e-9, hermitian=True)
        for name in motions:
            crossed = np.fft.irfft(moved[name][:, None] * np.conj(spectrum), size)[..., SHIFTS]
            explained = np.einsum("kis,ij,kjs->ks", crossed, inverse, crossed) / power[name][:, None]
            at_shift = SHIFTS + later.get(name, 0.0) / GRID_STEP_S
            squared[lag, name] = np.stack([np.interp(at_shift, SHIFTS, row) for row in explained])
    largest = {name: max(float(squared[lag, name].mean(axis=0).max()) for lag in MOTOR_LAGS_S) for name in motions}
    offsets = {}
    for group in ([name for name in motions if name in later], *([name] for name in motions if name not in later)):
        if not group:
            continue
        is_turning = largest.get("rate", 0.0) > MIN_RATE_FRACTION * max(largest[name] for name in group)
        drivers = ["rate"] if "rate" in group and is_turning else group
        likelihoods = [
            sum(-np.log1p(-np.minimum(squared[lag, name], MAX_CORRELATION)).sum(axis=0) for name in drivers)
            for lag in MOTOR_LAGS_S
        ]
        best = [int(np.argmax(row)) for row in likelihoods]
        peaks = np.array([row[k] for row, k in zip(likelihoods, best, strict=True)])
        weights = np.exp(0.5 * commands.shape[1] * GRID_STEP_S / CORRELATION_TIME_S * (peaks - peaks.max()))
        weights /= weights.sum()
        delays = [_peak(row, k) + SHIFTS[0] for row, k in zip(likelihoods, best, strict=True)]
        delay = float(weights @ delays) * GRID_STEP_S
        index = int(np.argmax(peaks))
        for name in group:
            explained = squared[MOTOR_LAGS_S[index], name][:, best[index]]
            explained_fraction = min(float(power[name] @ explained / power[name].sum()), 1.0)
            offsets[name] = ClockOffset(delay + later.get(name, 0.0), float(weights @ MOTOR_LAGS_S), explained_fraction)
    return offsets


def _attitude(signal: Signal, grid: Array) -> Array:
    unwrapped = Signal(signal.time, unwrap_quaternions(signal.values))
    return np.stack(normalize(Quat(*interpolate_signal(unwrapped, grid))))


def _motion_force(velocity: Signal, q: Array, grid: Array) -> Array:
    """R(q)⁻¹ (v̇ + g e₃): the specific force of the true motion, (3, n)."""
    a_W = np.gradient(interpolate_signal(velocity, grid), GRID_STEP_S, axis=1)
    return np.stack(rotate_inverse(Quat(*q), Vec3(a_W[0], a_W[1], a_W[2] + G)))


def _padded_size(n: int) -> int:
    """Return a size at which zero padding separates the end from the beginning."""
    return 1 << (n + len(SHIFTS)).bit_length()


def _peak(values: Array, index: int) -> float:
    """Return the position of the maximum of the parabola through a largest value and its neighbours."""
    if not 0 < index < len(values) - 1:
        return float(index)
    left, middle, right = values[index - 1 : index + 2]
    bend = left - 2.0 * middle + right
    return index + (0.5 * (left - right) / bend if bend < 0.0 else 0.0)


def _remove_noise_and_drift(rows: Array) -> Array:
    """Remove noise and drift; the same filter for all signals, so that it shifts none relative to another.

    The ends fade, so that shifted signals have no events of which one holds half.
    """
    fade = np.minimum(np.arange(rows.shape[1]) * GRID_STEP_S / FADE_S, 1.0)
    taper = np.sin(0.5 * np.pi * fade) ** 2
    return (_moving_mean(rows, NOISE_WINDOW_S) - _moving_mean(rows, DRIFT_WINDOW_S)) * taper * taper[::-1]


def _moving_mean(rows: Array, seconds: float) -> Array:
    """Return the mean over ±half of `seconds`, over fewer samples at the ends."""
    half = max(round(0.5 * seconds / GRID_STEP_S), 1)
    n = rows.shape[1]
    total = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    low, high = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
    return (total[:, high] - total[:, low]) / (high - low)
