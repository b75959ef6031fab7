"""Distributions of varied parameters, by their quantile functions.

    x = F⁻¹(u)

Each flight has one number u in (0, 1) per varied parameter; the sampler determines their joint distribution.
"""

from typing import NamedTuple

import numpy as np

from samara.core import extras
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


class DiscreteUniform(NamedTuple):
    """x = x_⌊u k⌋, one of k equally likely values"""

    values: tuple[float, ...]

    def quantile(self, u: Array) -> Array:
        return np.array(self.values)[np.minimum((u * len(self.values)).astype(int), len(self.values) - 1)]


class GridAxis(NamedTuple):
    """The values of one axis of a full-factorial grid; with other samplers a discrete uniform distribution."""

    values: tuple[float, ...]

    def quantile(self, u: Array) -> Array:
        return DiscreteUniform(self.values).quantile(u)


Distribution = Uniform | Normal | LogUniform | DiscreteUniform | GridAxis
DISTRIBUTIONS: dict[str, Scalar] = {
    "uniform": Uniform,
    "normal": Normal,
    "log_uniform": LogUniform,
    "choice": DiscreteUniform,
    "grid": GridAxis,
}


def distribution(name: str, numbers: tuple[float, ...]) -> Distribution:
    """Create a distribution from its numbers; raise ValueError if they do not fit it."""
    distribution_type = DISTRIBUTIONS[name]
    if distribution_type in (DiscreteUniform, GridAxis):
        if not numbers:
            raise ValueError(f"{name} has no values; expected at least one")
        return distribution_type(numbers)
    if len(numbers) != 2:
        raise ValueError(f"{name} has {len(numbers)} numbers; expected two: {' and '.join(distribution_type._fields)}")
    first, second = numbers
    if distribution_type is Normal and not second > 0.0:
        raise ValueError(f"normal has the width {second:g}; expected a positive number")
    if distribution_type is not Normal and not first < second:
        raise ValueError(f"{name} is from {first:g} to {second:g}; expected the first to be less")
    if distribution_type is LogUniform and not first > 0.0:
        raise ValueError(f"log_uniform begins at {first:g}; expected a positive number")
    return distribution_type(first, second)


def standard_normal(u: Array) -> Array:
    """z = Φ⁻¹(u)"""
    return np.asarray(extras.import_scipy("special", "a normal distribution").ndtri(u))


class MultivariateNormal(NamedTuple):
    """x = μ + L z,  L Lᵀ the covariance: jointly normal parameters"""

    names: tuple[str, ...]
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]

    @staticmethod
    def create(
        names: tuple[str, ...], mean: tuple[float, ...], covariance: tuple[tuple[float, ...], ...]
    ) -> "MultivariateNormal":
        """Create the distribution; raise ValueError for a matrix that is not a covariance."""
        k = len(names)
        if len(mean) != k or len(covariance) != k or any(len(row) != k for row in covariance):
            raise ValueError(
                f"{k} names, {len(mean)} means and a covariance of {len(covariance)} rows; expected as many"
            )
        matrix = np.array(covariance)
        if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
            raise ValueError("the covariance is not symmetric; expected it to be")
        correlated = MultivariateNormal(names, mean, covariance)
        correlated.factor()
        return correlated

    def factor(self) -> Array:
        """L, lower triangular"""
        try:
            return np.linalg.cholesky(np.array(self.covariance))
        except np.linalg.LinAlgError:
            raise ValueError("the covariance is not positive definite; expected it to be") from None

    def quantiles(self, u: Array) -> Array:
        """Map numbers in (0, 1), shape (n, k), to values, shape (n, k)."""
        z = standard_normal(u)
        values = np.empty_like(z)
        for i, row in enumerate(self.factor()):  # in a fixed order, so that a row has the same bits in any batch
            values[:, i] = self.mean[i]
            for j in range(i + 1):
                values[:, i] += row[j] * z[:, j]
        return values
