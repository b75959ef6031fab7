"""What shakes, and how fast: the density of a signal over frequency, by Welch's mean over windows."""

import math
from typing import NamedTuple

import numpy as np

from samara.core.types import Array

WELCH_WINDOW = 1024  # rows
SHORTEST_SPECTRUM = 16  # rows


class Spectrum(NamedTuple):
    """The powers |Σ w (x − x̄) e^{−2πift}|² (curves, frequencies) of all windows, so many rows long, added up

    Their mean is divided by `scale`, rate Σ w².
    """

    frequency: Array
    power: Array
    windows: int
    length: int
    scale: float

    @property
    def density(self) -> Array:
        """S(f), one-sided, (curves, frequencies)  [unit²/Hz]"""
        density = self.power / self.windows / self.scale
        density[..., 1 : -1 if self.length % 2 == 0 else None] *= 2.0
        return density

    def merge(self, later: "Spectrum") -> "Spectrum":
        """That of both pieces; one too short for windows of the same length adds nothing"""
        if self.length != later.length:
            return max(self, later, key=lambda own: own.length)
        return self._replace(power=self.power + later.power, windows=self.windows + later.windows)


def spectrum_of(time: Array, values: Array) -> Spectrum:
    """Of curves (rows, k) at times [s] that are nearly even; without frequencies where there are too few rows"""
    count = len(time)
    if count < SHORTEST_SPECTRUM or not time[-1] > time[0]:
        return Spectrum(np.empty(0), np.empty((values.shape[1], 0)), 0, 0, 1.0)
    even = np.linspace(time[0], time[-1], count)
    evenly = np.stack([np.interp(even, time, own) for own in values.T])
    return powers(evenly, (count - 1) / (time[-1] - time[0]), min(count, WELCH_WINDOW))


def powers(values: Array, rate: float, window: int) -> Spectrum:
    """Of values (curves, rows), in Hann's windows w over as many rows that overlap by half"""
    w = 0.5 - 0.5 * np.cos(2.0 * math.pi * np.arange(window) / window)
    starts = np.arange(0, values.shape[-1] - window + 1, window - window // 2)
    power = np.empty((*values.shape[:-1], window // 2 + 1))
    for curve in np.ndindex(
        values.shape[:-1]
    ):  # one after the other: their windows take eight times the memory of the values
        pieces = values[curve][starts[:, None] + np.arange(window)]
        pieces = w * (pieces - pieces.mean(axis=-1, keepdims=True))
        power[curve] = (np.abs(np.fft.rfft(pieces)) ** 2).sum(axis=-2)
    return Spectrum(np.fft.rfftfreq(window, 1.0 / rate), power, len(starts), window, rate * float((w * w).sum()))


def welch(values: Array, rate: float, window: int) -> tuple[Array, Array]:
    """S(f) = mean |Σ w (x − x̄) e^{−2πift}|² · 2/(rate Σ w²), one-sided, over pieces that overlap by half  [unit²/Hz]

    w is Hann's window over as many rows, values are (curves, rows); frequencies [Hz] and (curves, frequencies).
    """
    own = powers(values, rate, window)
    return own.frequency, own.density
