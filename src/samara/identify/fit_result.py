"""What a fit to flights comes to, by regression or by prediction error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.parameters import Parameter
from samara.identify.resampled_log import Samples
from samara.identify.rotor_speed_model import followed, late
from samara.physics.types import Vehicle

DELAY, GAIN, WIND, PER_VOLT, TOGETHER = 0.02, 0.3, 4.0, 0.1, 0.03
"""σ of what is known before: [s], of a gain's logarithm, [m/s], of thrust for a volt, and of all gains of a flight together"""


class Trim(NamedTuple):
    """What is one flight's own: a gain for each rotor, how late its motors are heard [s], and the steady wind [m/s]"""

    gains: tuple[float, ...]
    delay: float
    wind_W: tuple[float, float]


def beside(trim: Trim, step: Array, basis: Array) -> Trim:
    """A trim with other gains, by their patterns and logarithms, another delay [s] and another wind [m/s]"""
    n = len(trim.gains)
    gains = np.array(trim.gains) * np.exp(basis @ step[:n])
    wind = (float(trim.wind_W[0] + step[n + 1]), float(trim.wind_W[1] + step[n + 2]))
    return Trim(tuple(float(g) for g in gains), float(trim.delay + step[n]), wind)


def mean_voltage(flights: Sequence[Samples]) -> float:
    """Over all flights that know theirs; 0 without any  [V]"""
    known = [own.voltage[own.usable] for own in flights if own.voltage is not None]
    return float(np.mean(np.concatenate(known))) if known else 0.0


def rotor_speeds(samples: Samples, rise: float, fall: float, delay: float) -> Array:
    """Those measured, or else motors of such a lag that hear their commands late, (rotors, n)  [rad/s]"""
    if samples.rotor_speed is not None:
        return samples.rotor_speed
    return late(followed(samples.commanded, rise, fall, samples.period), delay / samples.period)


class Fitted(NamedTuple):
    """The vehicle without gains, the trim of each flight, the thrust that goes with a volt and the voltage that is for; for the
    parameters, in their order, how far they are from the start and the covariance of that, both in scales; how many stretches
    of time are independent of each other, and which parameters were held at the start's"""

    vehicle: Vehicle
    trims: tuple[Trim, ...]
    per_volt: float
    volts: float
    parameters: tuple[Parameter, ...]
    offset: Array
    covariance: Array
    independent: float
    held: tuple[str, ...] = ()
