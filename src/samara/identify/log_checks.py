"""Check a flight log before a fit: findings as data, each with a sentence.

An error means that the log cannot be used, a warning that the fit may be affected. `require_usable` returns the log without
its unusable samples. The estimator decides whether a flight excites a parameter.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.core.quantity import Scalar
from samara.identify.flight_log import FlightLog, Signal
from samara.identify.readers.registry import present_signals
from samara.identify.signal_agreement import clock_offsets

ERROR, WARNING = "error", "warning"

MAX_INVALID_FRACTION = 0.05  # fraction of invalid samples above which a log cannot be repaired
MIN_SAMPLE_RATES_HZ = {  # [Hz]: a warning below the first, an error below the second
    "command": (50.0, 5.0),  # PX4 and ArduPilot log at 10 Hz by default
    "rate": (50.0, 10.0),
    "specific_force": (50.0, 5.0),
    "attitude": (30.0, 5.0),
    "position": (5.0, 0.5),
    "velocity": (5.0, 0.5),
    "rotor_speed": (20.0, 1.0),
}
MIN_GAP_S, GAP_PERIODS = 0.1, 5.0  # [s], and in periods of the signal
MAX_BACKWARD_STEP_S = 1.0  # [s]
MAX_EARLY_S, MAX_LATE_S = (
    0.02,
    0.05,
)  # [s]: tolerated apparent offset of the motion, because a motor lag resembles a clock offset
MIN_EXPLAINED_FRACTION = 0.2  # fraction of the motion that a clock offset must explain to be reported
MAX_VIBRATION, VIBRATION_WINDOW_S = 8.0, 0.04  # [m/s²] about the mean over this duration [s]
MIN_CLIPPED_SAMPLES, MIN_CLIPPED_SIGMA, MIN_CLIPPED_RATIO = 5, 3.0, 2
MAX_NORM_ERROR = 0.01
MIN_JUMP_M, MAX_SPEED = 0.1, 30.0  # [m], [m/s]
MIN_ROTATION_RAD, MAX_ANGULAR_RATE = 0.2, 60.0  # [rad], [rad/s]
RECOMMENDED_AIRTIME_S, MIN_AIRTIME_S = 10.0, 2.0  # [s] in the air
_RANGE_TOLERANCE = 1e-3


class Finding(NamedTuple):
    """A defect of a log: a code, its severity, the signal, and a sentence for the user."""

    code: str
    severity: str
    signal: str
    sentence: str


def require_usable(log: FlightLog) -> tuple[FlightLog, list[Finding]]:
    """Return the repaired log and the findings; raise ValueError with the sentence of the first error if it is unusable."""
    findings = check(log)
    for finding in findings:
        if finding.severity == ERROR:
            raise ValueError(f"{log.name}: {finding.sentence}")
    return repair_log(log), findings


def check(log: FlightLog) -> list[Finding]:
    """Return all findings, errors first."""
    findings = [*_check_motors(log)]
    for name, signal in present_signals(log).items():
        findings += _check_times(name, signal)
        findings += _check_finite(name, signal)
    if not any(finding.severity == ERROR for finding in findings):
        repaired_log = repair_log(log)
        findings += [
            *_check_rates(repaired_log),
            *_check_quaternions(log),
            *_check_saturation(repaired_log),
            *_check_vibration(repaired_log),
            *_check_jumps(repaired_log),
        ]
        findings += [*_check_clocks(repaired_log), *_check_airtime(repaired_log)]
    return sorted(findings, key=lambda finding: finding.severity != ERROR)


def repair_log(log: FlightLog) -> FlightLog:
    """Drop samples that are not finite or not later than their predecessors, and normalise the quaternions."""
    signals: dict[str, Scalar] = {name: _drop_invalid_samples(signal) for name, signal in present_signals(log).items()}
    if "attitude" in signals:
        time, q = signals["attitude"]
        length = np.sqrt((q * q).sum(axis=0))
        is_valid = length > 0.5
        signals["attitude"] = Signal(time[is_valid], (q / np.where(is_valid, length, 1.0))[:, is_valid])
    return replace(log, **signals)


def _drop_invalid_samples(signal: Signal) -> Signal:
    is_finite = np.isfinite(signal.time) & np.isfinite(signal.values).all(axis=0)
    time, values = signal.time[is_finite], signal.values[:, is_finite]
    latest = np.maximum.accumulate(np.concatenate([[-np.inf], time]))[:-1]
    is_later = time > latest
    return Signal(time[is_later], values[:, is_later])


def airborne_interval(log: FlightLog) -> tuple[float, float]:
    """Return begin and end of the flight [s]: the time in which the mean command exceeds half of its median over
    running motors."""
    mean = log.command.values.mean(axis=0)
    running = mean[mean > 0.02]
    if not running.size:
        return 0.0, 0.0
    airborne = np.flatnonzero(mean > 0.5 * np.median(running))
    return float(log.command.time[airborne[0]]), float(log.command.time[airborne[-1]])


# Required signals ------------------------------------------------------------------------------------------------------


def _check_motors(log: FlightLog) -> Iterator[Finding]:
    command = log.command
    if command.values.size == 0:
        yield Finding("no_motors", ERROR, "command", "holds no motors; expected one column for each")
        return
    finite = command.values[np.isfinite(command.values)]
    if not finite.size or finite.max() <= 0.02:
        yield Finding("no_motors", ERROR, "command", "its motors never turn; expected a flight")
        return
    outside = (command.values < -_RANGE_TOLERANCE) | (command.values > 1.0 + _RANGE_TOLERANCE)
    fraction = float(outside.any(axis=0).mean())
    if fraction > 0.0:
        low, high = float(finite.min()), float(finite.max())
        sentence = f"{_percent(fraction)} of its motor commands are outside 0 … 1, from {low:.3g} to {high:.3g}"
        yield Finding("command_range", ERROR if fraction > MAX_INVALID_FRACTION else WARNING, "command", sentence)
    if not any((log.rate, log.attitude, log.specific_force, log.position)):
        yield Finding("no_motion", ERROR, "", "holds motors alone; expected an IMU, motion capture or an estimate too")


def _check_finite(name: str, signal: Signal) -> Iterator[Finding]:
    is_invalid = ~(np.isfinite(signal.time) & np.isfinite(signal.values).all(axis=0))
    if is_invalid.any():
        fraction = float(is_invalid.mean())
        first = int(np.argmax(is_invalid))
        sentence = f"{_percent(fraction)} of {_signal_label(name)} are not numbers, first at sample {first}"
        yield Finding("nan", ERROR if fraction > MAX_INVALID_FRACTION else WARNING, name, sentence)


def _check_times(name: str, signal: Signal) -> Iterator[Finding]:
    time = signal.time[np.isfinite(signal.time)]
    steps = np.diff(time)
    is_backward = steps < 0.0
    if is_backward.any():
        k = int(np.argmax(is_backward))
        largest_step = float(-steps.min())
        first_step = f"first from {time[k]:.6g} s to {time[k + 1]:.6g} s"
        sentence = f"the time of {_signal_label(name)} goes back {int(is_backward.sum())} times, {first_step}"
        is_error = largest_step > MAX_BACKWARD_STEP_S or is_backward.mean() > MAX_INVALID_FRACTION
        yield Finding("time_back", ERROR if is_error else WARNING, name, sentence)
    repeated = steps == 0.0
    if repeated.any():
        sentence = (
            f"{_percent(float(repeated.mean()))} of {_signal_label(name)} have the same time as the sample before"
        )
        yield Finding("time_repeated", WARNING, name, sentence)


def _check_rates(log: FlightLog) -> Iterator[Finding]:
    for name, signal in present_signals(log).items():
        if len(signal.time) < 2:
            yield Finding("slow", WARNING, name, f"{_signal_label(name)} are fewer than 2")
            continue
        steps = np.diff(signal.time)
        period = float(np.median(steps))
        recommended, minimum = MIN_SAMPLE_RATES_HZ.get(name, (0.0, 0.0))
        if 1.0 / period < recommended:
            sentence = f"{_signal_label(name)} come at {1.0 / period:.3g} Hz; expected {recommended:g} or more"
            yield Finding("slow", ERROR if 1.0 / period < minimum else WARNING, name, sentence)
        gaps = steps > max(MIN_GAP_S, GAP_PERIODS * period)
        if gaps.any() and name != "voltage":
            k = int(np.argmax(steps))
            longest = f"the longest {steps[k]:.3g} s at {signal.time[k]:.3f} s"
            count = int(gaps.sum())
            sentence = f"{_signal_label(name)} have {count} gap{'s' if count > 1 else ''}, {longest}"
            yield Finding("gap", WARNING, name, sentence)


# Plausible values ------------------------------------------------------------------------------------------------------


def _check_quaternions(log: FlightLog) -> Iterator[Finding]:
    if log.attitude is None:
        return
    q = log.attitude.values[:, np.isfinite(log.attitude.values).all(axis=0)]
    norm_error = np.abs(np.sqrt((q * q).sum(axis=0)) - 1.0)
    fraction = float((norm_error > MAX_NORM_ERROR).mean()) if norm_error.size else 0.0
    if fraction > 0.0:
        sentence = f"{_percent(fraction)} of its quaternions are not of length 1, the worst by {norm_error.max():.3g}"
        yield Finding("quaternion", ERROR if fraction > MAX_INVALID_FRACTION else WARNING, "attitude", sentence)


def _check_saturation(log: FlightLog) -> Iterator[Finding]:
    """Find saturation: a saturated sensor repeats its largest value, a coarsely quantised one also the next smaller value."""
    for name in ("rate", "specific_force"):
        signal = getattr(log, name)
        if signal is None or signal.values.shape[1] < MIN_CLIPPED_SAMPLES:
            continue
        for axis, row in zip("xyz", signal.values, strict=True):
            top = np.abs(row).max()
            is_maximum = np.abs(row) == top
            consecutive = int((is_maximum[1:] & is_maximum[:-1]).sum())
            next_step = np.abs(row) == np.abs(row[~is_maximum]).max(initial=0.0)
            is_outlier = top > np.abs(row.mean()) + MIN_CLIPPED_SIGMA * row.std()
            if (
                is_outlier
                and is_maximum.sum() >= max(MIN_CLIPPED_SAMPLES, MIN_CLIPPED_RATIO * int(next_step.sum()))
                and consecutive >= 2
            ):
                clipping = f"end at ±{top:.4g} for {int(is_maximum.sum())} samples"
                yield Finding(
                    "saturated",
                    WARNING,
                    name,
                    f"{_signal_label(name)} along {axis} {clipping}: the sensor was saturated",
                )


def _check_vibration(log: FlightLog) -> Iterator[Finding]:
    signal = log.specific_force
    if signal is None or len(signal.time) < 3:
        return
    period = float(np.median(np.diff(signal.time)))
    half = round(0.5 * VIBRATION_WINDOW_S / period)
    begin, end = airborne_interval(log)
    is_airborne = (signal.time >= begin) & (signal.time <= end)
    if half < 1 or is_airborne.sum() <= 2 * half + 1:
        return
    width = 2 * half + 1
    rms = 0.0
    for row in signal.values[:, is_airborne]:
        mean = np.convolve(row, np.full(width, 1.0 / width), "valid")
        rms += float(((row[half:-half] - mean) ** 2).mean())
    rms = float(np.sqrt(rms))
    if rms > MAX_VIBRATION:
        description = f"RMS, faster than {1.0 / VIBRATION_WINDOW_S:g} Hz"
        sentence = f"the accelerometer vibrates by {rms:.3g} m/s² ({description}); expected at most {MAX_VIBRATION:g}"
        yield Finding("vibration", WARNING, "specific_force", sentence)


def _check_jumps(log: FlightLog) -> Iterator[Finding]:
    if log.position is not None:
        time, p = log.position
        distance = np.sqrt((np.diff(p, axis=1) ** 2).sum(axis=0))
        jumps = (distance > MIN_JUMP_M) & (distance > MAX_SPEED * np.diff(time))
        if jumps.any():
            k = int(np.argmax(np.where(jumps, distance, 0.0)))
            sentence = (
                f"its position jumps {int(jumps.sum())} times, farthest by {distance[k]:.3g} m at {time[k]:.3f} s"
            )
            yield Finding("jump", WARNING, "position", sentence)
    if log.attitude is not None:
        time, q = log.attitude
        angle_change = 2.0 * np.arccos(np.clip(np.abs((q[:, 1:] * q[:, :-1]).sum(axis=0)), 0.0, 1.0))
        jumps = (angle_change > MIN_ROTATION_RAD) & (angle_change > MAX_ANGULAR_RATE * np.diff(time))
        if jumps.any():
            k = int(np.argmax(np.where(jumps, angle_change, 0.0)))
            angle = f"{np.degrees(angle_change[k]):.3g}°"
            sentence = f"its attitude jumps {int(jumps.sum())} times, farthest by {angle} at {time[k]:.3f} s"
            yield Finding("jump", WARNING, "attitude", sentence)


def _check_clocks(log: FlightLog) -> Iterator[Finding]:
    for name, offset in clock_offsets(log, *airborne_interval(log)).items():
        half_period = 0.5 * max(float(np.median(np.diff(signal.time))) for signal in (log.command, getattr(log, name)))
        if (
            offset.explained > MIN_EXPLAINED_FRACTION
            and not -MAX_EARLY_S - half_period < offset.delay < MAX_LATE_S + half_period
        ):
            relation = "after" if offset.delay > 0.0 else "before"
            sentence = (
                f"{_signal_label(name)} come {abs(offset.delay):.3f} s {relation} the motors acted "
                f"(a lag of {offset.lag:g} s aside; {_percent(offset.explained)} explained): its clocks differ"
            )
            yield Finding("clock", WARNING, name, sentence)


def _check_airtime(log: FlightLog) -> Iterator[Finding]:
    begin, end = airborne_interval(log)
    if end - begin < RECOMMENDED_AIRTIME_S:
        sentence = f"is {end - begin:.1f} s in the air; expected {RECOMMENDED_AIRTIME_S:g} s or more"
        yield Finding("short", ERROR if end - begin < MIN_AIRTIME_S else WARNING, "command", sentence)


def _percent(fraction: float) -> str:
    return f"{100.0 * fraction:.3g} %"


def _signal_label(name: str) -> str:
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
