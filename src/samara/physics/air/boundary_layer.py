"""The mean wind near the ground: it grows with height, by a power law or by the logarithm."""

from typing import Annotated, TypeAlias

from samara.core.ops import log, maximum, power
from samara.core.quantity import Quantity, Scalar

Height: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 300.0)]
ReferenceHeight: TypeAlias = Annotated[Scalar, Quantity("m", 2.0, 100.0)]
Roughness: TypeAlias = Annotated[Scalar, Quantity("m", 1e-4, 1.0)]

_LOWEST = 0.01  # [m]: a power law has no slope at the ground itself


def power_law(height: Height, *, at: ReferenceHeight, exponent: Annotated[Scalar, Quantity("1", 0.0, 0.5)]) -> Scalar:
    """W/W₀ = (h/h₀)^α; 1/7 over open land; below 1 cm as at 1 cm"""
    return power(maximum(height, _LOWEST) / at, exponent)


def log_law(height: Height, *, at: ReferenceHeight, roughness: Roughness) -> Scalar:
    """W/W₀ = ln(h/z₀) / ln(h₀/z₀) above the roughness length z₀, 0 below it

    z₀ is 0.0002 m for open water, 0.03 m for grass, 0.1 m for crops, 1 m for a town; the handbook has 0.15 ft and 2 ft.
    """
    return log(maximum(height, roughness) / roughness) / log(at / roughness)
