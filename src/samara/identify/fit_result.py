"""The result of a fit to flights, by regression or by prediction error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.parameters import Parameter
from samara.identify.resampled_log import Samples
from samara.identify.rotor_speed_model import followed, late
from samara.physics.types import Vehicle

DELAY, GAIN, WIND, PER_VOLT, TOGETHER = 0.02, 0.3, 4.0, 0.1, 0.03
"""Prior σ: delay [s], logarithm of a gain, wind [m/s], relative thrust per volt, and mean gain of a flight."""


class Trim(NamedTuple):
    """Unknowns of one flight: a gain for each rotor, the delay of the motor commands [s], and the steady wind [m/s]."""

    gains: tuple[float, ...]
    delay: float
    wind_W: tuple[float, float]


def beside(trim: Trim, step: Array, basis: Array) -> Trim:
    """Return a trim displaced by `step`: logarithms of the gains in the columns of `basis`, delay [s] and wind [m/s]."""
    n = len(trim.gains)
    gains = np.array(trim.gains) * np.exp(basis @ step[:n])
    wind_W = (float(trim.wind_W[0] + step[n + 1]), float(trim.wind_W[1] + step[n + 2]))
    return Trim(tuple(float(g) for g in gains), float(trim.delay + step[n]), wind_W)


def mean_voltage(flights: Sequence[Samples]) -> float:
    """Return the mean voltage of all flights that log it; 0 if none does  [V]."""
    voltages = [flight.voltage[flight.usable] for flight in flights if flight.voltage is not None]
    return float(np.mean(np.concatenate(voltages))) if voltages else 0.0


def rotor_speeds(samples: Samples, rise: float, fall: float, delay: float) -> Array:
    """Return the measured rotor speeds, or else those of motors with this lag and command delay, (rotors, n)  [rad/s]."""
    if samples.rotor_speed is not None:
        return samples.rotor_speed
    return late(followed(samples.commanded, rise, fall, samples.period), delay / samples.period)


class Fitted(NamedTuple):
    """The fitted vehicle with the covariance of its parameters.

    `vehicle` excludes the gains of the rotors; they are in `trims`, one per flight. `per_volt` is the relative change of
    thrust per volt about the voltage `volts` [V]. `offset` and `covariance` refer to `parameters`, in their order: the
    difference from the start vehicle in prior scales. `independent` is the count of independent time intervals; `held` names
    the parameters fixed at their start values.
    """

    vehicle: Vehicle
    trims: tuple[Trim, ...]
    per_volt: float
    volts: float
    parameters: tuple[Parameter, ...]
    offset: Array
    covariance: Array
    independent: float
    held: tuple[str, ...] = ()
