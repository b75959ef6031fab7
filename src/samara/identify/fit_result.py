"""The result of a fit to flights, by regression or by prediction error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.parameters import FreeParameter
from samara.identify.resampled_log import ResampledLog
from samara.identify.rotor_speed_model import delay_signal, simulate_lag
from samara.physics.types import Vehicle

DELAY_SIGMA, GAIN_SIGMA, WIND_SIGMA, PER_VOLT_SIGMA, MEAN_GAIN_SIGMA = 0.02, 0.3, 4.0, 0.1, 0.03
"""Prior σ: delay [s], logarithm of a gain, wind [m/s], relative thrust per volt, and mean gain of a flight."""


class FlightTrim(NamedTuple):
    """Unknowns of one flight: a gain for each rotor, how late the motion is logged after the motors [s], and the steady
    wind [m/s]."""

    gains: tuple[float, ...]
    delay: float
    wind_W: tuple[float, float]


def displace_trim(trim: FlightTrim, step: Array, basis: Array) -> FlightTrim:
    """Return a trim displaced by `step`: logarithms of the gains in the columns of `basis`, delay [s] and wind [m/s]."""
    n = len(trim.gains)
    gains = np.array(trim.gains) * np.exp(basis @ step[:n])
    wind_W = (float(trim.wind_W[0] + step[n + 1]), float(trim.wind_W[1] + step[n + 2]))
    return FlightTrim(tuple(float(g) for g in gains), float(trim.delay + step[n]), wind_W)


def mean_voltage(flights: Sequence[ResampledLog]) -> float:
    """Return the mean voltage of all flights that log it; 0 if none does  [V]."""
    voltages = [flight.voltage[flight.usable] for flight in flights if flight.voltage is not None]
    return float(np.mean(np.concatenate(voltages))) if voltages else 0.0


def rotor_speeds(samples: ResampledLog, time_constant_up: float, time_constant_down: float, delay: float) -> Array:
    """Return the measured rotor speeds, or else those of motors with this lag, late by a delay, (rotors, n)  [rad/s]."""
    speeds = samples.rotor_speed
    if speeds is None:
        speeds = simulate_lag(samples.commanded, time_constant_up, time_constant_down, samples.period)
    return delay_signal(speeds, delay / samples.period)


class Fit(NamedTuple):
    """The fitted vehicle with the covariance of its parameters.

    `vehicle` excludes the gains of the rotors; they are in `trims`, one per flight. `per_volt` is the relative change of
    thrust per volt about the voltage `volts` [V]. `offset` and `covariance` refer to `parameters`, in their order: the
    difference from the start vehicle in prior scales. `independent_intervals` is the count of independent time
    intervals; `fixed` names the parameters fixed at their start values.
    """

    vehicle: Vehicle
    trims: tuple[FlightTrim, ...]
    per_volt: float
    volts: float
    parameters: tuple[FreeParameter, ...]
    offset: Array
    covariance: Array
    independent_intervals: float
    fixed: tuple[str, ...] = ()
