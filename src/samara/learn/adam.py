"""m ← β₁ m + (1 − β₁) g,  s ← β₂ s + (1 − β₂) g²,  x ← x − η m̂ / (√ŝ + ε): Adam, on any tree of arrays, of NumPy or JAX.

m̂ and ŝ are divided by 1 − βᵗ, as both start at 0 (D. P. Kingma, J. Ba, ICLR 2015).
"""

from typing import Any, NamedTuple

from samara.core.ops import minimum, sqrt
from samara.learn.trees import leaves_of, mapped


class Moments(NamedTuple):
    """Running means of the gradient and of its square, and after how many steps"""

    mean: Any
    square: Any
    count: Any


def at_rest(tree: Any) -> Moments:
    """Before the first step"""
    zeros = mapped(lambda x: 0.0 * x, tree)
    return Moments(zeros, zeros, leaves_of(zeros)[0].sum())  # 0, of the arrays' own kind


def adam(
    tree: Any, gradient: Any, moments: Moments, rate: Any, decay: tuple[float, float] = (0.9, 0.99), small: float = 1e-8
) -> tuple[Any, Moments]:
    """One step down the gradient, with a learning rate"""
    (first, second), count = decay, moments.count + 1.0
    mean = mapped(lambda m, g: first * m + (1.0 - first) * g, moments.mean, gradient)
    square = mapped(lambda s, g: second * s + (1.0 - second) * g * g, moments.square, gradient)
    short, shorter = 1.0 - first**count, 1.0 - second**count

    def moved(x: Any, m: Any, s: Any) -> Any:
        return x - rate * (m / short) / (sqrt(s / shorter) + small)

    return mapped(moved, tree, mean, square), Moments(mean, square, count)


def clipped(gradient: Any, largest: float) -> Any:
    """g min(1, largest / |g|), with the length of the whole tree"""
    length = sqrt(sum((g * g).sum() for g in leaves_of(gradient)))
    share = minimum(1.0, largest / (length + 1e-12))
    return mapped(lambda g: g * share, gradient)
