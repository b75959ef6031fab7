"""Corners of the unit cube, few of them, among which any three factors have all of their eight combinations.

    [H; −H],  H Hᵀ = n I

of a Hadamard matrix is an orthogonal array of strength three: 2 n rows for as many as n factors, in which every combination of
any three is n/4 times. What goes wrong where three factors are at their ends is flown, whatever all the others lead to.
"""

import numpy as np

from samara.core.types import Array


def hadamard(least: int) -> Array:
    """±1, H Hᵀ = n I, of the least order from `least` on that R. Paley's first way (1933) and doubling lead to"""
    order = next(n for n in (1, 2, *range(4, 4 * least + 4, 4)) if n >= least and _is_made(n))
    return _made(order)


def _is_made(order: int) -> bool:
    return order <= 2 or _is_prime(order - 1) or (order % 8 == 0 and _is_made(order // 2))


def _made(order: int) -> Array:
    if order == 1:
        return np.ones((1, 1))
    if order > 2 and _is_prime(order - 1):  # and order − 1 ≡ 3 mod 4
        q = order - 1
        squares = {k * k % q for k in range(1, q)}
        character = np.array([0.0, *(1.0 if k in squares else -1.0 for k in range(1, q))])
        skew = np.zeros((order, order))
        skew[0, 1:], skew[1:, 0] = 1.0, -1.0
        skew[1:, 1:] = character[(np.arange(q)[:, None] - np.arange(q)) % q]
        return np.eye(order) + skew
    half = _made(order // 2)
    return np.block([[half, half], [half, -half]])


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))


def corners(factors: int) -> Array:
    """(2 n, factors) of ±1, of strength three; all 2ᵏ of them for k up to three"""
    whole = hadamard(max(factors, 1))[:, :factors]
    return np.concatenate([whole, -whole])
