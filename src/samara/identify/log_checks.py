"""Check a flight log before a fit: findings as data, each with a sentence.

An error means that the log cannot be used, a warning that the fit may be affected. `require_usable` returns the log without
its unusable samples. The estimator decides whether a flight excites a parameter.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.identify.flight_log import FlightLog, Signal
from samara.identify.readers.registry import DEGREE, G, present_signals
from samara.identify.signal_agreement import (
    Agreement,
    agreements,
    align_truth,
    clock_offsets,
    command_agreement,
    comparison_grid,
    interpolate_signal,
    relative_delays,
    truth_delay,
)

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
MAX_SAMPLE_RATE_HZ = 20_000.0  # [Hz]: faster samples have times in another unit
MIN_SHARED_FRACTION = 0.5  # fraction of the variance that two signals share if their factor is known
MAX_FACTOR, MAX_FORCE_FACTOR = 3.0, 6.0  # between two signals of a quantity; an accelerometer may have a low pass
FORCE_RANGE_G = 0.6, 1.6  # of the median specific force in flight
MAX_MEDIAN_RATE, MAX_MEDIAN_SPEED = 30.0, 150.0  # [rad/s], [m/s] in flight
MIN_UPRIGHT = 0.3  # median cosine of the tilt in flight
MIN_MILLIVOLTS, MAX_VOLTS, MIN_VOLTS = 2600.0, 120.0, 2.0  # of one cell, of a large and of an empty battery
MAX_BROKEN_FRACTION = 0.05  # fraction of the samples of a rotor
MIN_STUCK_S, MIN_STUCK_COMMAND = 1.0, 0.05  # [s], and the range of the command meanwhile
MAX_SPIKE, MAX_SPIKE_PERIOD_S = 0.5, 0.025  # fraction of the median speed; no motor changes so much within samples [s]
MAX_ROTOR_RATIO = 1.8  # between a rotor's speed per command and the median rotor's
MIN_FOLLOWED_FRACTION, MIN_COMMAND_SPREAD = 0.1, 0.005
UNITS = {1.0 / DEGREE: "°/s", 1.0 / G: "g", 1000.0: "mm", 100.0: "cm"}
"""Units that logs have instead of the expected one, by the ratio of their numbers to those expected."""
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
    return prepare_log(log), findings


def prepare_log(log: FlightLog) -> FlightLog:
    """Return a log without errors as a fit uses it: repaired, with motion capture on the clock of the IMU."""
    repaired = repair_log(log)
    return align_truth(repaired, agreements(repaired, comparison_grid(*airborne_interval(repaired))))


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
            *_check_voltage(log),
            *_check_rotor_speeds(log),
        ]
        compared = agreements(repaired_log, comparison_grid(*airborne_interval(repaired_log)))
        findings += [*_check_axes(repaired_log, compared), *_check_airtime(repaired_log)]
        if not any(finding.severity == ERROR for finding in findings):
            findings += _check_clocks(repaired_log, compared)
    return sorted(findings, key=lambda finding: finding.severity != ERROR)


def repair_log(log: FlightLog) -> FlightLog:
    """Drop samples that are not finite or not later than their predecessors, and normalise the quaternions.

    Rotor speeds become positive and without spikes; those of a broken sensor and voltages of an unknown unit are dropped.
    """
    signals: dict[str, Scalar] = {name: _drop_invalid_samples(signal) for name, signal in present_signals(log).items()}
    if "voltage" in signals:
        scale = _voltage_scale(signals["voltage"])
        signals["voltage"] = Signal(signals["voltage"].time, scale * signals["voltage"].values) if scale else None
    if "rotor_speed" in signals:
        is_broken = any(_broken_rotors(replace(log, **signals)))
        signals["rotor_speed"] = None if is_broken else _without_spikes(signals["rotor_speed"])
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
        if period < 1.0 / MAX_SAMPLE_RATE_HZ:
            sentence = f"{_signal_label(name)} come at {1.0 / period:.3g} Hz: their times are in another unit"
            yield Finding("time_unit", ERROR, name, sentence)
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
        speed = float(np.median(distance / np.diff(time))) if len(distance) else 0.0
        if speed > MAX_MEDIAN_SPEED:
            yield Finding("unit", ERROR, "position", f"its position moves at {speed:.3g} m/s (median; mm?)")
        elif jumps.any():
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


# Units, signs and sensors ----------------------------------------------------------------------------------------------


def _check_voltage(log: FlightLog) -> Iterator[Finding]:
    if log.voltage is None or not np.isfinite(log.voltage.values).any():
        return
    scale, volts = _voltage_scale(log.voltage), float(np.nanmedian(log.voltage.values))
    if scale != 1.0:
        action = "millivolts, converted" if scale else f"expected {MIN_VOLTS:g} to {MAX_VOLTS:g} V: left out"
        yield Finding("voltage", WARNING, "voltage", f"the voltages are {volts:.4g} (median): {action}")


def _voltage_scale(voltage: Signal) -> float:
    """Return the factor of the voltages to volts; 0 if their unit is unknown."""
    median = float(np.nanmedian(voltage.values)) if np.isfinite(voltage.values).any() else 0.0
    return 1.0 if MIN_VOLTS <= median <= MAX_VOLTS else 1e-3 if MIN_MILLIVOLTS <= median <= 1e3 * MAX_VOLTS else 0.0


def _check_rotor_speeds(log: FlightLog) -> Iterator[Finding]:
    if log.rotor_speed is None:
        return
    rotor_speed = _drop_invalid_samples(log.rotor_speed)
    clean = replace(log, command=_drop_invalid_samples(log.command), rotor_speed=rotor_speed)
    problems = list(_broken_rotors(clean))
    for problem in problems:
        severity = WARNING if log.has_command else ERROR
        yield Finding("rotor_speed", severity, "rotor_speed", f"{problem}: the rotor speeds are left out")
    is_spike = _spikes(rotor_speed)
    if is_spike.any() and not problems:
        sentence = f"{_percent(float(is_spike.any(axis=0).mean()))} of the rotor speeds are spikes: left out"
        yield Finding("rotor_speed_spikes", WARNING, "rotor_speed", sentence)


def _spikes(signal: Signal) -> Array:
    """Return the mask of samples far from the median of five, (rotors, n)."""
    speeds = np.abs(signal.values)
    if len(signal.time) < 5 or np.median(np.diff(signal.time)) > MAX_SPIKE_PERIOD_S:
        return np.zeros(speeds.shape, dtype=bool)
    padded = np.pad(speeds, ((0, 0), (2, 2)), mode="edge")
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5, axis=1), axis=2)
    return np.asarray(np.abs(speeds - smooth) > MAX_SPIKE * np.median(speeds, axis=1, keepdims=True))


def _without_spikes(signal: Signal) -> Signal:
    is_valid = ~_spikes(signal).any(axis=0)
    return Signal(signal.time[is_valid], np.abs(signal.values[:, is_valid]))


def _broken_rotors(log: FlightLog) -> Iterator[str]:
    """Yield what is wrong with the rotor speeds: of one rotor that is stuck, missing, noisy or not like the others."""
    assert log.rotor_speed is not None
    begin, end = airborne_interval(log)
    is_airborne = (log.rotor_speed.time >= begin) & (log.rotor_speed.time <= end)
    time, speeds = log.rotor_speed.time[is_airborne], np.abs(log.rotor_speed.values[:, is_airborne])
    if len(time) < 10:
        yield "no rotor speeds in flight"
        return
    if len(speeds) != len(log.command.values):
        yield f"{len(speeds)} rotor speeds of {len(log.command.values)} motors"
        return
    commands = interpolate_signal(log.command, time)
    if not log.has_command:  # rotors are compared with the others
        commands = (commands.sum(axis=0) - commands) / max(len(commands) - 1, 1)
    levels = np.median(speeds, axis=1)
    ratios = levels / np.maximum(np.median(commands, axis=1), 0.05)
    spikes = _spikes(Signal(time, speeds)).mean(axis=1)
    for i, speed in enumerate(speeds):
        ratio = float(ratios[i] / max(float(np.median(ratios)), 1e-9))
        stopped = float(((speed <= 0.01 * levels.max()) & (commands[i] > 0.05)).mean())
        stuck = _longest_stuck_s(time, speed, commands[i])
        if stopped > MAX_BROKEN_FRACTION:
            yield f"rotor speed {i + 1} is 0 for {_percent(stopped)} of the flight"
        elif stuck > MIN_STUCK_S:
            yield f"rotor speed {i + 1} is stuck for {stuck:.3g} s"
        elif spikes[i] > MAX_BROKEN_FRACTION:
            yield f"{_percent(float(spikes[i]))} of rotor speed {i + 1} are spikes"
        elif not 1.0 / MAX_ROTOR_RATIO < ratio < MAX_ROTOR_RATIO:
            yield f"rotor speed {i + 1} is {ratio:.3g} times that of the other rotors (pole pairs?)"
    grid = comparison_grid(begin, end)
    if log.has_command and len(grid):
        compared = command_agreement(log.command, log.rotor_speed, grid)
        moves = compared.spread > MIN_COMMAND_SPREAD
        for k in np.flatnonzero(moves & (compared.shared < MIN_FOLLOWED_FRACTION)):
            yield f"rotor speed {k + 1} does not follow the command of motor {k + 1}"


def _longest_stuck_s(time: Array, speed: Array, command: Array) -> float:
    """Return the longest time for which a speed is constant although the command varies  [s]."""
    edges = np.flatnonzero(np.diff(speed) != 0.0)
    starts, ends = np.concatenate([[0], edges + 1]), np.concatenate([edges, [len(speed) - 1]])
    is_long = time[ends] - time[starts] > MIN_STUCK_S
    runs = [(a, b) for a, b in zip(starts[is_long], ends[is_long], strict=True)]
    return max(
        (float(time[b] - time[a]) for a, b in runs if np.ptp(command[a : b + 1]) > MIN_STUCK_COMMAND), default=0.0
    )


def _check_axes(log: FlightLog, compared: dict[str, Agreement]) -> Iterator[Finding]:
    """Find wrong units and signs: by gravity, and by pairs of signals that measure the same."""
    begin, end = airborne_interval(log)
    in_flight = {
        name: signal.values[:, (signal.time >= begin) & (signal.time <= end)]
        for name, signal in present_signals(log).items()
        if name in ("specific_force", "rate", "attitude")
    }
    in_flight = {name: values for name, values in in_flight.items() if values.shape[1] > 1}
    if "specific_force" in in_flight:
        force = np.median(in_flight["specific_force"], axis=1)
        size = float(np.median(np.sqrt((in_flight["specific_force"] ** 2).sum(axis=0))))
        label = _signal_label("specific_force")
        if not FORCE_RANGE_G[0] * G < size < FORCE_RANGE_G[1] * G:
            unit = f" ({_unit_of(size / G)}?)" if size > 0.0 and _unit_of(size / G) else ""
            yield Finding(
                "unit",
                ERROR,
                "specific_force",
                f"{label} are {size:.3g} (median) in flight{unit}; expected {G:.3g} m/s²",
            )
        elif force[2] < 0.5 * size:
            vector = ", ".join(f"{x:.2g}" for x in force)
            yield Finding("sign", ERROR, "specific_force", f"{label} are ({vector}) m/s² in flight; expected z up")
    if "rate" in in_flight:
        median = float(np.median(np.sqrt((in_flight["rate"] ** 2).sum(axis=0))))
        if median > MAX_MEDIAN_RATE:
            sentence = f"{_signal_label('rate')} are {median:.3g} (median; °/s?); expected rad/s"
            yield Finding("unit", ERROR, "rate", sentence)
    if "attitude" in in_flight:
        up = float(np.median(rotate(Quat(*in_flight["attitude"]), Vec3(0.0, 0.0, 1.0)).z))
        if up < MIN_UPRIGHT:
            sentence = f"the attitudes are tilted by {np.degrees(np.arccos(up)):.0f}° (median) in flight"
            yield Finding("sign", ERROR, "attitude", f"{sentence}; expected w, x, y, z from FLU to a world with z up")
    for name, agreement in compared.items():
        yield from _check_factor(name, agreement)


OTHERS = {"rate": "the attitudes turn", "specific_force": "the velocities accelerate", "velocity": "the positions move"}


def _check_factor(name: str, compared: Agreement) -> Iterator[Finding]:
    shared = compared.shared > MIN_SHARED_FRACTION
    if name == "specific_force":  # along x and y gravity and acceleration cancel
        shared[:2] = False
    if not shared.any():
        return
    factor = 1.0 / float(np.median(np.abs(compared.factor[shared])))
    largest = MAX_FORCE_FACTOR if name == "specific_force" else MAX_FACTOR
    if not 1.0 / largest < factor < largest:
        name_of_unit = _unit_of(factor) or _unit_of(1.0 / factor)
        unit = f" ({name_of_unit}?)" if name_of_unit else ""
        yield Finding(
            "unit", ERROR, name, f"{_signal_label(name)} are {factor:.3g} times as large as {OTHERS[name]}{unit}"
        )
    axes = ", ".join("xyz"[i] for i in np.flatnonzero(shared & (compared.factor < 0.0)))
    if axes:
        yield Finding(
            "sign", ERROR, name, f"{_signal_label(name)} along {axes} have the opposite sign of how {OTHERS[name]}"
        )


def _unit_of(factor: float) -> str:
    """Return the unit with this factor to the expected one, within 30 %; empty if there is none."""
    return next((unit for value, unit in UNITS.items() if abs(np.log(factor / value)) < 0.26), "")


def _check_clocks(log: FlightLog, compared: dict[str, Agreement]) -> Iterator[Finding]:
    relative, moved = relative_delays(compared), truth_delay(log, compared)
    if moved:
        relation = "after" if moved > 0.0 else "before"
        sentence = f"motion capture comes {abs(moved):.3f} s {relation} the IMU: moved onto its clock"
        yield Finding("clock", WARNING, "velocity", sentence)
    for name, offset in clock_offsets(log, *airborne_interval(log), compared).items():
        if name == "velocity" and moved:
            continue
        half_period = 0.5 * max(float(np.median(np.diff(signal.time))) for signal in (log.command, getattr(log, name)))
        is_known = offset.explained > MIN_EXPLAINED_FRACTION or abs(relative.get(name, 0.0)) > MAX_EARLY_S + half_period
        if is_known and not -MAX_EARLY_S - half_period < offset.delay < MAX_LATE_S + half_period:
            relation = "after" if offset.delay > 0.0 else "before"
            sentence = (
                f"{_signal_label(name)} come {abs(offset.delay):.3f} s {relation} the motors acted "
                f"(a lag of {offset.lag:.2g} s aside; {_percent(offset.explained)} explained): its clocks differ"
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
