"""How a number differs from flight to flight: the quantile functions that make it of a number in (0, 1).

    x = F⁻¹(u)

One number in (0, 1) for each factor and flight is all the randomness there is; the sampler decides how they lie.
"""

from typing import NamedTuple

import numpy as np

from samara.core import lazy_import
from samara.core.quantity import Scalar
from samara.core.types import Array


class Uniform(NamedTuple):
    """x = a + u (b − a)"""

    low: float
    high: float

    def quantile(self, u: Array) -> Array:
        return self.low + u * (self.high - self.low)


class Normal(NamedTuple):
    """x = μ + σ Φ⁻¹(u)"""

    mean: float
    sigma: float

    def quantile(self, u: Array) -> Array:
        return self.mean + self.sigma * standard_normal(u)


class LogUniform(NamedTuple):
    """x = a (b/a)ᵘ"""

    low: float
    high: float

    def quantile(self, u: Array) -> Array:
        return self.low * np.exp(u * np.log(self.high / self.low))


class Choice(NamedTuple):
    """x = x_⌊u k⌋, one of k values that are all as likely"""

    values: tuple[float, ...]

    def quantile(self, u: Array) -> Array:
        return np.array(self.values)[np.minimum((u * len(self.values)).astype(int), len(self.values) - 1)]


class Grid(NamedTuple):
    """The values of an axis of a grid, each with all those of the others; between grids a choice"""

    values: tuple[float, ...]

    def quantile(self, u: Array) -> Array:
        return Choice(self.values).quantile(u)


Distribution = Uniform | Normal | LogUniform | Choice | Grid
KINDS: dict[str, Scalar] = {
    "uniform": Uniform,
    "normal": Normal,
    "log_uniform": LogUniform,
    "choice": Choice,
    "grid": Grid,
}


def distribution(kind: str, numbers: tuple[float, ...]) -> Distribution:
    """A distribution of its numbers; ValueError says what they should have been"""
    made = KINDS[kind]
    if made in (Choice, Grid):
        if not numbers:
            raise ValueError(f"{kind} has no values; expected at least one")
        return made(numbers)
    if len(numbers) != 2:
        raise ValueError(f"{kind} has {len(numbers)} numbers; expected two: {' and '.join(made._fields)}")
    first, second = numbers
    if made is Normal and not second > 0.0:
        raise ValueError(f"normal has the width {second:g}; expected a positive number")
    if made is not Normal and not first < second:
        raise ValueError(f"{kind} is from {first:g} to {second:g}; expected the first to be less")
    if made is LogUniform and not first > 0.0:
        raise ValueError(f"log_uniform begins at {first:g}; expected a positive number")
    return made(first, second)


def standard_normal(u: Array) -> Array:
    """z = Φ⁻¹(u)"""
    return np.asarray(lazy_import.scipy("special", "a normal distribution").ndtri(u))


class Correlated(NamedTuple):
    """x = μ + L z,  L Lᵀ the covariance: factors that are normally distributed together"""

    names: tuple[str, ...]
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]

    @staticmethod
    def of(names: tuple[str, ...], mean: tuple[float, ...], covariance: tuple[tuple[float, ...], ...]) -> "Correlated":
        """Of a covariance; ValueError where it is none"""
        k = len(names)
        if len(mean) != k or len(covariance) != k or any(len(row) != k for row in covariance):
            raise ValueError(
                f"{k} names, {len(mean)} means and a covariance of {len(covariance)} rows; expected as many"
            )
        matrix = np.array(covariance)
        if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
            raise ValueError("the covariance is not symmetric; expected it to be")
        correlated = Correlated(names, mean, covariance)
        correlated.factor()
        return correlated

    def factor(self) -> Array:
        """L, lower triangular"""
        try:
            return np.linalg.cholesky(np.array(self.covariance))
        except np.linalg.LinAlgError:
            raise ValueError("the covariance is not positive definite; expected it to be") from None

    def quantiles(self, u: Array) -> Array:
        """(n, k) of numbers in (0, 1), (n, k)"""
        z = standard_normal(u)
        found = np.empty_like(z)
        for i, row in enumerate(self.factor()):  # in a fixed order, so that a row is the same in any batch
            found[:, i] = self.mean[i]
            for j in range(i + 1):
                found[:, i] += row[j] * z[:, j]
        return found
