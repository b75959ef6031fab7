"""Values with uncertainty: the value, its relative standard deviation and its derivation."""

import math
from collections.abc import Callable
from typing import NamedTuple

_STEP = 1e-5  # of the value, for central differences, whose error is of its square
COVERED_95 = 1.959963984540054  # standard deviations


class Estimate(NamedTuple):
    """x (1 ± s): a positive value in SI units, its relative standard deviation, and a sentence on its derivation

    The error is log-normal, so that no interval extends below zero. An exact value has the spread 0.
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
    """Return a value that the user specified, without uncertainty."""
    return Estimate(float(value), 0.0, how)


def derived(
    how: str, function: Callable[..., float], *inputs: Estimate, model: float = 0.0, together: float = 0.0
) -> Estimate:
    """y = f(x₁, …), s_y² = Σ gᵢ² + 2ϱ g₁ g₂ + model²,  gᵢ = ∂ln f/∂ln xᵢ · sᵢ

    Args:
        how: the derivation, in one sentence.
        function: f, of the values of `inputs`.
        inputs: estimates with independent errors, except for the correlation of the first two.
        model: relative error of the function itself.
        together: ϱ, the correlation of the first two inputs.
    """
    values = [estimate.value for estimate in inputs]
    y = function(*values)
    contributions = [0.0] * max(len(inputs), 2)
    for i, estimate in enumerate(inputs):
        if estimate.spread > 0.0:
            shifted = [
                function(*values[:i], estimate.value * math.exp(step), *values[i + 1 :]) for step in (_STEP, -_STEP)
            ]
            contributions[i] = (shifted[0] - shifted[1]) / (2.0 * _STEP * y) * estimate.spread
    variance = sum(g * g for g in contributions) + 2.0 * together * contributions[0] * contributions[1] + model * model
    return Estimate(y, math.sqrt(variance), how)
