"""m ← β₁ m + (1 − β₁) g,  s ← β₂ s + (1 − β₂) g²,  x ← x − η m̂ / (√ŝ + ε): Adam, on any tree of arrays.

m̂ and ŝ are divided by 1 − βᵗ, as both start at 0 (D. P. Kingma, J. Ba, ICLR 2015).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """Running means of the gradient and of its square, and after how many steps"""

    mean: Any
    square: Any
    count: Any


def at_rest(tree: Any) -> Moments:
    """Before the first step"""
    zeros = jax.tree.map(jnp.zeros_like, tree)
    return Moments(zeros, zeros, jnp.zeros((), jnp.float32))


def adam(
    tree: Any, gradient: Any, moments: Moments, rate: Any, decay: tuple[float, float] = (0.9, 0.99), small: float = 1e-8
) -> tuple[Any, Moments]:
    """One step down the gradient, with a learning rate"""
    (first, second), count = decay, moments.count + 1.0
    mean = jax.tree.map(lambda m, g: first * m + (1.0 - first) * g, moments.mean, gradient)
    square = jax.tree.map(lambda s, g: second * s + (1.0 - second) * g * g, moments.square, gradient)
    short, shorter = 1.0 - first**count, 1.0 - second**count

    def moved(x: Any, m: Any, s: Any) -> Any:
        return x - rate * (m / short) / (jnp.sqrt(s / shorter) + small)

    return jax.tree.map(moved, tree, mean, square), Moments(mean, square, count)


def clipped(gradient: Any, largest: float) -> Any:
    """g min(1, largest / |g|), with the length of the whole tree"""
    length = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradient)))
    share = jnp.minimum(1.0, largest / (length + 1e-12))
    return jax.tree.map(lambda g: g * share, gradient)
