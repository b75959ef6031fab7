"""Values with uncertainty: the value, its relative standard deviation and its derivation."""

import math
from collections.abc import Callable
from typing import NamedTuple

_LOG_STEP = 1e-5  # for central differences, whose error is of second order in the step
SIGMAS_95 = 1.959963984540054  # standard deviations


class UncertainValue(NamedTuple):
    """x (1 ± s): a positive value in SI units, its relative standard deviation, and a sentence on its derivation

    The error is log-normal, so that no interval extends below zero. An exact value has the spread 0.
    """

    value: float
    spread: float
    source: str

    @property
    def low(self) -> float:
        """x e^(−1.96 s), the lower end of the 95 % interval"""
        return self.value * math.exp(-SIGMAS_95 * self.spread)

    @property
    def high(self) -> float:
        """x e^(1.96 s), the upper end of the 95 % interval"""
        return self.value * math.exp(SIGMAS_95 * self.spread)


def exact_value(value: float, source: str = "given") -> UncertainValue:
    """Return a value that the user specified, without uncertainty."""
    return UncertainValue(float(value), 0.0, source)


def propagate_uncertainty(
    source: str,
    function: Callable[..., float],
    *inputs: UncertainValue,
    model_spread: float = 0.0,
    correlation: float = 0.0,
) -> UncertainValue:
    """y = f(x₁, …), s_y² = Σ gᵢ² + 2ϱ g₁ g₂ + s_model²,  gᵢ = ∂ln f/∂ln xᵢ · sᵢ

    Args:
        source: the derivation, in one sentence.
        function: f, of the values of `inputs`.
        inputs: estimates with independent errors, except for the correlation of the first two.
        model_spread: s_model, the relative error of the function itself.
        correlation: ϱ, the correlation of the first two inputs.
    """
    values = [estimate.value for estimate in inputs]
    y = function(*values)
    contributions = [0.0] * max(len(inputs), 2)
    for i, estimate in enumerate(inputs):
        if estimate.spread > 0.0:
            shifted = [
                function(*values[:i], estimate.value * math.exp(step), *values[i + 1 :])
                for step in (_LOG_STEP, -_LOG_STEP)
            ]
            contributions[i] = (shifted[0] - shifted[1]) / (2.0 * _LOG_STEP * y) * estimate.spread
    variance = (
        sum(g * g for g in contributions)
        + 2.0 * correlation * contributions[0] * contributions[1]
        + model_spread * model_spread
    )
    return UncertainValue(y, math.sqrt(variance), source)
