"""The flights of which a vehicle is identified: checked, resampled, and those left out that cannot be used."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from samara.identify.flight_log import FlightLog
from samara.identify.log_checks import ERROR, WARNING, Finding, airborne_interval, check, prepare_log
from samara.identify.readers.registry import G
from samara.identify.resampled_log import ResampledLog, resample_log, resampling_period, usable_intervals
from samara.physics.types import Vehicle

MIN_INTERVAL_S = 1.6  # [s]: shortest usable interval of a flight
MAX_SPEED_RATIO = 2.0  # of the hover speed to that of the start vehicle; more is a wrong unit or count of poles

Findings = dict[str, tuple[Finding, ...]]


def usable_flights(
    logs: Sequence[FlightLog], start: Vehicle, outputs: str = "speed", progress: Callable[[float], None] | None = None
) -> tuple[list[ResampledLog], Findings]:
    """Return the usable flights, resampled with one period, and the findings of all logs.

    Raises:
        ValueError: no log can be used.
    """
    findings: dict[str, list[Finding]] = {}
    checked = []
    for k, log in enumerate(logs):
        if progress:
            progress(k / len(logs))
        findings[log.name] = check(log)
        if any(finding.severity == ERROR for finding in findings[log.name]):
            continue
        repaired_log, scale_findings = drop_misscaled_speeds(prepare_log(log), start)
        findings[log.name] = scale_findings + findings[log.name]
        if any(finding.severity == ERROR for finding in scale_findings):
            continue
        try:
            resampling_period(repaired_log)
            checked.append(repaired_log)
        except ValueError as error:
            findings[log.name].insert(0, _unusable(log, error))
    period = max((resampling_period(log) for log in checked), default=0.0)
    flights = []
    for log in checked:
        try:
            flight = resample_log(log, start, outputs, period)
            longest = next(iter(usable_intervals(flight.usable)), slice(0, 0))
            if (longest.stop - longest.start) * period < MIN_INTERVAL_S:
                raise ValueError(f"{log.name}: has no usable interval of {MIN_INTERVAL_S:g} s; expected a flight")
            flights.append(flight)
        except ValueError as error:
            findings[log.name].insert(0, _unusable(log, error))
    if not flights:
        log = logs[0]
        count = f"none of the {len(logs)} flights can be used; " if len(logs) > 1 else ""
        raise ValueError(f"{count}{log.name}: {findings[log.name][0].sentence}")
    return flights, {name: tuple(log_findings) for name, log_findings in findings.items()}


def _unusable(log: FlightLog, error: ValueError) -> Finding:
    return Finding("unusable", ERROR, "", str(error).removeprefix(f"{log.name}: "))


def drop_misscaled_speeds(log: FlightLog, start: Vehicle) -> tuple[FlightLog, list[Finding]]:
    """Drop rotor speeds whose lift is far from the start vehicle's weight: Σ kF Ω² = m g in the mean of a flight."""
    if log.rotor_speed is None or not start.has("gravity"):
        return log, []
    begin, end = airborne_interval(log)
    is_airborne = (log.rotor_speed.time >= begin) & (log.rotor_speed.time <= end)
    lift = float((log.rotor_speed.values[:, is_airborne] ** 2).mean(axis=1).sum())
    mean_k_thrust = float(np.mean([rotor.k_thrust for rotor in start.rotors]))
    ratio = math.sqrt(lift * mean_k_thrust / (start.mass * G))
    if 1.0 / MAX_SPEED_RATIO < ratio < MAX_SPEED_RATIO:
        return log, []
    sentence = (
        f"the rotor speeds are {ratio:.3g} times those that carry {start.name} ({start.mass:.3g} kg); "
        "expected rad/s of the rotor (unit or pole pairs?)"
    )
    if not log.has_command:
        return log, [Finding("rotor_speed_scale", ERROR, "rotor_speed", sentence)]
    finding = Finding("rotor_speed_scale", WARNING, "rotor_speed", f"{sentence}: left out")
    return replace(log, rotor_speed=None), [finding]
