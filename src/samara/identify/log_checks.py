"""What is wrong with a flight log, before anything is fitted to it: findings as data, each with a sentence.

An error means that the log cannot be used, a warning that it can be, with care; `usable` gives the log with what is unusable
in it left out. Whether a flight excites a parameter is for the estimator to say.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, normalize, rotate_inverse
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.identify.flight_log import FlightLog, Signal
from samara.identify.readers.registry import G, signals_of

STEP = 0.004  # [s]
LAGS = (0.0, 0.015, 0.03, 0.045, 0.06, 0.08, 0.1)  # [s] of motors
EARLIEST, LATEST = -0.3, 0.3  # [s]
SMOOTHED, SLOW = 0.03, 1.0  # [s]: means over these times are what noise and what drift leave of a signal
LONGEST = 120.0  # [s] that are looked at
_FAINT = 1e-9


class Offset(NamedTuple):
    """Delay of the motion against the command by the clocks [s], the lag of the motors that goes with it [s], and the
    fraction of the motion's variance that they explain"""

    late: float
    lag: float
    explained: float


def clock_offsets(log: FlightLog, begin: float, end: float) -> dict[str, Offset]:
    """Between the motors and the IMU (`specific_force`, `rate`), and between the motors and the truth (`velocity`)"""
    end = min(end, begin + LONGEST)
    grid = np.arange(begin, end, STEP)
    if len(grid) < 5.0 / STEP:
        return {}
    commands = _band(sampled(log.command, grid) ** 2)
    motions = {
        "specific_force": None if log.specific_force is None else sampled(log.specific_force, grid)[2:],
        "rate": None if log.rate is None else np.gradient(sampled(log.rate, grid), STEP, axis=1),
        "velocity": _vertical_force(log, grid),
    }
    return {name: best_offset(commands, _band(motion)) for name, motion in motions.items() if motion is not None}


def sampled(signal: Signal, grid: Array) -> Array:
    """The signal between its samples, by straight lines"""
    return np.stack([np.interp(grid, signal.time, row) for row in signal.values])


def _vertical_force(log: FlightLog, grid: Array) -> Array | None:
    """(R(q)⁻¹ (v̇ + g e₃))_z: the specific force that the truth's motion needs, (1, n)"""
    if log.velocity is None or log.attitude is None:
        return None
    a_W = np.gradient(sampled(log.velocity, grid), STEP, axis=1)
    q_WB = normalize(Quat(*sampled(Signal(log.attitude.time, continuous(log.attitude.values)), grid)))
    f_B = rotate_inverse(q_WB, Vec3(a_W[0], a_W[1], a_W[2] + G))
    return np.asarray(f_B.z)[None]


def continuous(q: Array) -> Array:
    """q or −q, the same attitude, whichever is nearer to the one before: between them a straight line means something"""
    flipped = (q[:, 1:] * q[:, :-1]).sum(axis=0) < 0.0
    return q * np.concatenate([[1.0], np.where(np.cumsum(flipped) % 2, -1.0, 1.0)])


def best_offset(commands: Array, motion: Array) -> Offset:
    """The shift s and lag τ at which Σ over the motion's axes of R² is largest, y(t) = Σ bᵢ uᵢ(t − s) filtered with τ

    With cᵢ(s) the covariance of uᵢ(t − s) and y(t), and G that of the commands, R²(s) = c(s)ᵀ G⁻¹ c(s) / var y.
    """
    n = motion.shape[1]
    shifts = np.arange(round(EARLIEST / STEP), round(LATEST / STEP) + 1)
    size = 1 << (n + int(shifts[-1] - shifts[0])).bit_length()  # zeros between the end and the beginning
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    moved, commanded = np.fft.rfft(motion, size), np.fft.rfft(commands, size)
    power = max(float((motion * motion).sum()), _FAINT)
    offset = Offset(0.0, 0.0, 0.0)
    for lag in LAGS:
        decay = np.exp(-STEP / lag) if lag else 0.0
        spectrum = commanded * ((1.0 - decay) / (1.0 - decay * turn))  # τ ẋ = u − x
        lagged = np.fft.irfft(spectrum, size)
        inverse = np.linalg.pinv(lagged @ lagged.T, rcond=1e-9, hermitian=True)
        crossed = np.fft.irfft(moved[:, None] * np.conj(spectrum), size)[..., shifts]
        fraction = np.einsum("kis,ij,kjs->s", crossed, inverse, crossed) / power
        best = int(np.argmax(fraction))
        if fraction[best] > offset.explained:
            late = float((_peak(fraction, best) + shifts[0]) * STEP)
            offset = Offset(late, lag, min(float(fraction[best]), 1.0))
    return offset


def _peak(values: Array, at: int) -> float:
    """Where the parabola through a largest value and its neighbours is largest"""
    if not 0 < at < len(values) - 1:
        return float(at)
    left, middle, right = values[at - 1 : at + 2]
    bend = left - 2.0 * middle + right
    return at + (0.5 * (left - right) / bend if bend < 0.0 else 0.0)


def _band(rows: Array) -> Array:
    """What is slower than noise and faster than drift: the same filter for all, so that it moves none against another"""
    return _mean(rows, SMOOTHED) - _mean(rows, SLOW)


def _mean(rows: Array, seconds: float) -> Array:
    """The mean over ±half of these seconds, over fewer samples at the ends"""
    half = max(round(0.5 * seconds / STEP), 1)
    n = rows.shape[1]
    total = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    low, high = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
    return (total[:, high] - total[:, low]) / (high - low)


ERROR, WARNING = "error", "warning"

MANY = 0.05  # the share of samples that is too many to be left out
SLOWEST = {  # [Hz]: worth a warning, and too slow
    "command": (50.0, 5.0),  # PX4 and ArduPilot log 10 a second unless they are told to log more
    "rate": (50.0, 10.0),
    "specific_force": (50.0, 5.0),
    "attitude": (30.0, 5.0),
    "position": (5.0, 0.5),
    "velocity": (5.0, 0.5),
    "rotor_speed": (20.0, 1.0),
}
GAP, GAP_PERIODS = 0.1, 5.0  # [s], and in periods of the signal
BACK = 1.0  # [s]
EARLY, LATE = (
    0.02,
    0.05,
)  # [s]: motion may seem to come so much too soon or late, for a lag of the motors looks like a clock's
EXPLAINED = 0.2  # the share of the motion that a difference of clocks must explain to be believed
SHAKING, SHAKING_OVER = 8.0, 0.04  # [m/s²] about its mean over these seconds
FLAT_SAMPLES, FLAT_SIGMA, PILED = 5, 3.0, 2
OFF_UNIT = 0.01
JUMP, FASTEST = 0.1, 30.0  # [m], [m/s]
TURN, FASTEST_TURN = 0.2, 60.0  # [rad], [rad/s]
SHORT, TOO_SHORT = 10.0, 2.0  # [s] in the air
_RANGE = 1e-3


class Finding(NamedTuple):
    """What is wrong: a word to ask for, how bad, which signal, and a sentence for people"""

    code: str
    severity: str
    signal: str
    sentence: str


def usable(log: FlightLog) -> tuple[FlightLog, list[Finding]]:
    """The log as it can be fitted to, and what was found; ValueError with the first error's sentence where it cannot be"""
    findings = check(log)
    for own in findings:
        if own.severity == ERROR:
            raise ValueError(f"{log.name}: {own.sentence}")
    return repaired(log), findings


def check(log: FlightLog) -> list[Finding]:
    """Everything that is found, errors first"""
    findings = [*_motors(log)]
    for name, own in signals_of(log).items():
        findings += _times(name, own)
        findings += _finite(name, own)
    if not any(own.severity == ERROR for own in findings):
        whole = repaired(log)
        findings += [*_rates(whole), *_quaternion(log), *_saturated(whole), *_shaking(whole), *_jumps(whole)]
        findings += [*_clocks(whole), *_airtime(whole)]
    return sorted(findings, key=lambda own: own.severity != ERROR)


def repaired(log: FlightLog) -> FlightLog:
    """The log without samples that are not numbers or not later than those before them, its quaternions of length 1"""
    kept: dict[str, Scalar] = {name: _rising(own) for name, own in signals_of(log).items()}
    if "attitude" in kept:
        time, q = kept["attitude"]
        size = np.sqrt((q * q).sum(axis=0))
        there = size > 0.5
        kept["attitude"] = Signal(time[there], (q / np.where(there, size, 1.0))[:, there])
    return replace(log, **kept)


def _rising(signal: Signal) -> Signal:
    fine = np.isfinite(signal.time) & np.isfinite(signal.values).all(axis=0)
    time, values = signal.time[fine], signal.values[:, fine]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], time]))[:-1]
    later = time > before
    return Signal(time[later], values[:, later])


def time_in_the_air(log: FlightLog) -> tuple[float, float]:
    """From when to when the motors carry it: the mean command is above half of its median among those that turn  [s]"""
    mean = log.command.values.mean(axis=0)
    turning = mean[mean > 0.02]
    if not turning.size:
        return 0.0, 0.0
    carrying = np.flatnonzero(mean > 0.5 * np.median(turning))
    return float(log.command.time[carrying[0]]), float(log.command.time[carrying[-1]])


# What must be there --------------------------------------------------------------------------------------------------


def _motors(log: FlightLog) -> Iterator[Finding]:
    command = log.command
    if command.values.size == 0:
        yield Finding("no_motors", ERROR, "command", "holds no motors; expected one column for each")
        return
    finite = command.values[np.isfinite(command.values)]
    if not finite.size or finite.max() <= 0.02:
        yield Finding("no_motors", ERROR, "command", "its motors never turn; expected a flight")
        return
    outside = (command.values < -_RANGE) | (command.values > 1.0 + _RANGE)
    share = float(outside.any(axis=0).mean())
    if share > 0.0:
        low, high = float(finite.min()), float(finite.max())
        sentence = f"{_percent(share)} of its motor commands are outside 0 … 1, from {low:.3g} to {high:.3g}"
        yield Finding("command_range", ERROR if share > MANY else WARNING, "command", sentence)
    if not any((log.rate, log.attitude, log.specific_force, log.position)):
        yield Finding("no_motion", ERROR, "", "holds motors alone; expected an IMU, motion capture or an estimate too")


def _finite(name: str, own: Signal) -> Iterator[Finding]:
    wrong = ~(np.isfinite(own.time) & np.isfinite(own.values).all(axis=0))
    if wrong.any():
        share = float(wrong.mean())
        sentence = f"{_percent(share)} of {_called(name)} are not numbers, first at sample {int(np.argmax(wrong))}"
        yield Finding("nan", ERROR if share > MANY else WARNING, name, sentence)


def _times(name: str, own: Signal) -> Iterator[Finding]:
    time = own.time[np.isfinite(own.time)]
    steps = np.diff(time)
    back = steps < 0.0
    if back.any():
        at = int(np.argmax(back))
        far = float(-steps.min())
        first = f"first from {time[at]:.6g} s to {time[at + 1]:.6g} s"
        sentence = f"the time of {_called(name)} goes back {int(back.sum())} times, {first}"
        bad = far > BACK or back.mean() > MANY
        yield Finding("time_back", ERROR if bad else WARNING, name, sentence)
    repeated = steps == 0.0
    if repeated.any():
        sentence = f"{_percent(float(repeated.mean()))} of {_called(name)} have the time of the one before"
        yield Finding("time_repeated", WARNING, name, sentence)


def _rates(log: FlightLog) -> Iterator[Finding]:
    for name, own in signals_of(log).items():
        if len(own.time) < 2:
            yield Finding("slow", WARNING, name, f"{_called(name)} are fewer than 2")
            continue
        steps = np.diff(own.time)
        period = float(np.median(steps))
        warned, least = SLOWEST.get(name, (0.0, 0.0))
        if 1.0 / period < warned:
            sentence = f"{_called(name)} come at {1.0 / period:.3g} Hz; expected {warned:g} or more"
            yield Finding("slow", ERROR if 1.0 / period < least else WARNING, name, sentence)
        gaps = steps > max(GAP, GAP_PERIODS * period)
        if gaps.any() and name != "voltage":
            at = int(np.argmax(steps))
            sentence = (
                f"{_called(name)} have {int(gaps.sum())} gaps, the longest {steps[at]:.3g} s at {own.time[at]:.3f} s"
            )
            yield Finding("gap", WARNING, name, sentence)


# What the numbers look like ------------------------------------------------------------------------------------------


def _quaternion(log: FlightLog) -> Iterator[Finding]:
    if log.attitude is None:
        return
    q = log.attitude.values[:, np.isfinite(log.attitude.values).all(axis=0)]
    off = np.abs(np.sqrt((q * q).sum(axis=0)) - 1.0)
    share = float((off > OFF_UNIT).mean()) if off.size else 0.0
    if share > 0.0:
        sentence = f"{_percent(share)} of its quaternions are not of length 1, the worst by {off.max():.3g}"
        yield Finding("quaternion", ERROR if share > MANY else WARNING, "attitude", sentence)


def _saturated(log: FlightLog) -> Iterator[Finding]:
    """A sensor that can say no more says its largest number again and again, one with coarse steps the next smaller one too"""
    for name in ("rate", "specific_force"):
        own = getattr(log, name)
        if own is None or own.values.shape[1] < FLAT_SAMPLES:
            continue
        for axis, row in zip("xyz", own.values, strict=True):
            top = np.abs(row).max()
            flat = np.abs(row) == top
            in_a_row = int((flat[1:] & flat[:-1]).sum())
            next_step = np.abs(row) == np.abs(row[~flat]).max(initial=0.0)
            far = top > np.abs(row.mean()) + FLAT_SIGMA * row.std()
            if far and flat.sum() >= max(FLAT_SAMPLES, PILED * int(next_step.sum())) and in_a_row >= 2:
                held = f"end at ±{top:.4g} for {int(flat.sum())} samples"
                yield Finding(
                    "saturated", WARNING, name, f"{_called(name)} along {axis} {held}: the sensor was saturated"
                )


def _shaking(log: FlightLog) -> Iterator[Finding]:
    own = log.specific_force
    if own is None or len(own.time) < 3:
        return
    period = float(np.median(np.diff(own.time)))
    half = round(0.5 * SHAKING_OVER / period)
    begin, end = time_in_the_air(log)
    aloft = (own.time >= begin) & (own.time <= end)
    if half < 1 or aloft.sum() <= 2 * half + 1:
        return
    width = 2 * half + 1
    rms = 0.0
    for row in own.values[:, aloft]:
        mean = np.convolve(row, np.full(width, 1.0 / width), "valid")
        rms += float(((row[half:-half] - mean) ** 2).mean())
    rms = float(np.sqrt(rms))
    if rms > SHAKING:
        faster = f"RMS, faster than {1.0 / SHAKING_OVER:g} Hz"
        sentence = f"the accelerometer shakes by {rms:.3g} m/s² ({faster}); expected at most {SHAKING:g}"
        yield Finding("vibration", WARNING, "specific_force", sentence)


def _jumps(log: FlightLog) -> Iterator[Finding]:
    if log.position is not None:
        time, p = log.position
        far = np.sqrt((np.diff(p, axis=1) ** 2).sum(axis=0))
        jumps = (far > JUMP) & (far > FASTEST * np.diff(time))
        if jumps.any():
            at = int(np.argmax(np.where(jumps, far, 0.0)))
            sentence = f"its position jumps {int(jumps.sum())} times, farthest by {far[at]:.3g} m at {time[at]:.3f} s"
            yield Finding("jump", WARNING, "position", sentence)
    if log.attitude is not None:
        time, q = log.attitude
        apart = 2.0 * np.arccos(np.clip(np.abs((q[:, 1:] * q[:, :-1]).sum(axis=0)), 0.0, 1.0))
        jumps = (apart > TURN) & (apart > FASTEST_TURN * np.diff(time))
        if jumps.any():
            at = int(np.argmax(np.where(jumps, apart, 0.0)))
            angle = f"{np.degrees(apart[at]):.3g}°"
            sentence = f"its attitude jumps {int(jumps.sum())} times, farthest by {angle} at {time[at]:.3f} s"
            yield Finding("jump", WARNING, "attitude", sentence)


def _clocks(log: FlightLog) -> Iterator[Finding]:
    for name, own in clock_offsets(log, *time_in_the_air(log)).items():
        between = 0.5 * max(float(np.median(np.diff(each.time))) for each in (log.command, getattr(log, name)))
        if own.explained > EXPLAINED and not -EARLY - between < own.late < LATE + between:
            when = "after" if own.late > 0.0 else "before"
            sentence = (
                f"{_called(name)} come {abs(own.late):.3f} s {when} what the motors did (a lag of {own.lag:g} s aside; "
                f"{_percent(own.explained)} explained): its clocks differ"
            )
            yield Finding("clock", WARNING, name, sentence)


def _airtime(log: FlightLog) -> Iterator[Finding]:
    begin, end = time_in_the_air(log)
    if end - begin < SHORT:
        sentence = f"is {end - begin:.1f} s in the air; expected {SHORT:g} s or more"
        yield Finding("short", ERROR if end - begin < TOO_SHORT else WARNING, "command", sentence)


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %"


def _called(name: str) -> str:
    return {
        "command": "the motor commands",
        "rotor_speed": "the rotor speeds",
        "position": "the positions",
        "velocity": "the velocities",
        "attitude": "the attitudes",
        "rate": "the rates",
        "specific_force": "the accelerometer's samples",
        "voltage": "the voltages",
    }[name]
