"""What is wrong with a flight log, before anything is fitted to it: findings as data, each with a sentence.

An error means that the log cannot be used, a warning that it can be, with care; `usable` gives the log with what is unusable
in it left out. Whether a flight excites a parameter is for the estimator to say.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samara.identify.flight_log import FlightLog, Signal
from samara.identify.readers.registry import signals_of
from samara.identify.time_offset import clock_offsets

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
    kept: dict[str, Any] = {name: _rising(own) for name, own in signals_of(log).items()}
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
