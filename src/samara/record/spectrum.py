"""Power spectral density of a signal by Welch's method."""

import math
from typing import NamedTuple

import numpy as np

from samara.core.types import Array

WELCH_WINDOW = 1024  # rows
MIN_SPECTRUM_ROWS = 16  # rows


class Spectrum(NamedTuple):
    """The sum of the powers |Σ w (x − x̄) e^{−2πift}|² (curves, frequencies) over all windows of `length` rows.

    Their mean is divided by `scale`, rate Σ w².
    """

    frequency: Array
    power: Array
    windows: int
    length: int
    scale: float

    @property
    def density(self) -> Array:
        """S(f), one-sided, (curves, frequencies)  [unit²/Hz]."""
        density = self.power / self.windows / self.scale
        density[..., 1 : -1 if self.length % 2 == 0 else None] *= 2.0
        return density

    def merge(self, later: "Spectrum") -> "Spectrum":
        """Return the spectrum of both pieces; a piece too short for windows of the same length adds nothing."""
        if self.length != later.length:
            return max(self, later, key=lambda spectrum: spectrum.length)
        return self._replace(power=self.power + later.power, windows=self.windows + later.windows)


def welch_spectrum(time: Array, values: Array) -> Spectrum:
    """Compute the spectrum of curves (rows, k) at nearly even times [s]; without frequencies if there are too few rows."""
    count = len(time)
    if count < MIN_SPECTRUM_ROWS or not time[-1] > time[0]:
        return Spectrum(np.empty(0), np.empty((values.shape[1], 0)), 0, 0, 1.0)
    even_times = np.linspace(time[0], time[-1], count)
    resampled = np.stack([np.interp(even_times, time, curve) for curve in values.T])
    return window_powers(resampled, (count - 1) / (time[-1] - time[0]), min(count, WELCH_WINDOW))


def window_powers(values: Array, rate: float, window: int) -> Spectrum:
    """Sum the powers of values (curves, rows) over Hann windows w of `window` rows that overlap by half."""
    w = 0.5 - 0.5 * np.cos(2.0 * math.pi * np.arange(window) / window)
    starts = np.arange(0, values.shape[-1] - window + 1, window - window // 2)
    power = np.empty((*values.shape[:-1], window // 2 + 1))
    # one curve at a time: the windows need eight times the memory of the values
    for curve in np.ndindex(values.shape[:-1]):
        pieces = values[curve][starts[:, None] + np.arange(window)]
        pieces = w * (pieces - pieces.mean(axis=-1, keepdims=True))
        power[curve] = (np.abs(np.fft.rfft(pieces)) ** 2).sum(axis=-2)
    return Spectrum(np.fft.rfftfreq(window, 1.0 / rate), power, len(starts), window, rate * float((w * w).sum()))


def welch(values: Array, rate: float, window: int) -> tuple[Array, Array]:
    """S(f) = mean |Σ w (x − x̄) e^{−2πift}|² · 2/(rate Σ w²), one-sided, over pieces that overlap by half  [unit²/Hz].

    w is the Hann window of `window` rows, values are (curves, rows); return frequencies [Hz] and (curves, frequencies).
    """
    spectrum = window_powers(values, rate, window)
    return spectrum.frequency, spectrum.density
