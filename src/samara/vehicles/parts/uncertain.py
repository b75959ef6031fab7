"""A number that nobody measured: its value, how far it may be off, and how it was made."""

import math
from collections.abc import Callable
from typing import NamedTuple

_STEP = 1e-5  # of the value, for the slopes of a function: their error is of its square
COVERED_95 = 1.959963984540054  # standard deviations


class Estimate(NamedTuple):
    """x (1 ± s): a positive number in SI units, one standard deviation over it, and a sentence on how it was made

    The error is log-normal, so that no interval reaches below zero. A number that was given has the spread 0.
    """

    value: float
    spread: float
    how: str

    @property
    def low(self) -> float:
        """x e^(−1.96 s), the lower end of the 95 % interval"""
        return self.value * math.exp(-COVERED_95 * self.spread)

    @property
    def high(self) -> float:
        """x e^(1.96 s), the upper end of the 95 % interval"""
        return self.value * math.exp(COVERED_95 * self.spread)


def given(value: float, how: str = "given") -> Estimate:
    """A number that the user knows"""
    return Estimate(float(value), 0.0, how)


def derived(
    how: str, function: Callable[..., float], *inputs: Estimate, model: float = 0.0, together: float = 0.0
) -> Estimate:
    """y = f(x₁, …), s_y² = Σ gᵢ² + 2ϱ g₁ g₂ + model²,  gᵢ = ∂ln f/∂ln xᵢ · sᵢ

    for inputs whose errors are independent but for ϱ = `together`, the correlation of the first two; `model` is the relative
    error of the function itself.
    """
    values = [own.value for own in inputs]
    y = function(*values)
    parts = [0.0] * max(len(inputs), 2)
    for i, own in enumerate(inputs):
        if own.spread > 0.0:
            ends = [function(*values[:i], own.value * math.exp(step), *values[i + 1 :]) for step in (_STEP, -_STEP)]
            parts[i] = (ends[0] - ends[1]) / (2.0 * _STEP * y) * own.spread
    variance = sum(g * g for g in parts) + 2.0 * together * parts[0] * parts[1] + model * model
    return Estimate(y, math.sqrt(variance), how)
