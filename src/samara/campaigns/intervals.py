"""How far a rate or a quantile of so many flights may be off: exact intervals that assume no distribution.

They hold for rows drawn independently. Rows of a Latin hypercube or a Sobol' sequence are spread more evenly than that: as a
rule the interval is then too wide, but nothing proves it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.beta import at_least, at_most, rate_of_tail


class Interval(NamedTuple):
    """[low, high], both included"""

    low: float
    high: float

    @property
    def width(self) -> float:
        """high − low"""
        return self.high - self.low

    def holds(self, value: float) -> bool:
        """low ≤ value ≤ high"""
        return self.low <= value <= self.high


def clopper_pearson(count: int, n: int, level: float = 0.95) -> Interval:
    """P(X ≥ k | low) = α/2 = P(X ≤ k | high): the exact interval of a rate seen `count` times in n (Clopper & Pearson, 1934)

    It covers the true rate with a probability of at least `level`, whatever the rate and n.
    """
    side = 0.5 * (1.0 + check_level(level))
    return Interval(lower_bound(count, n, side), upper_bound(count, n, side))


def lower_bound(count: int, n: int, level: float = 0.95) -> float:
    """The rate at which `count` or more has the probability 1 − level: the true one is lower once in 1/(1 − level) campaigns"""
    check_count(count, n)
    return rate_of_tail(count, n, 1.0 - check_level(level))


def upper_bound(count: int, n: int, level: float = 0.95) -> float:
    """The rate at which `count` or fewer has the probability 1 − level; 3/n at 95 % where none was seen"""
    return 1.0 - lower_bound(n - check_count(count, n), n, level)


def quantile_interval(values: Any, q: float, level: float = 0.95) -> Interval:
    """[x₍ᵣ₎, x₍ₛ₎] with P(X < r) ≤ α/2 and P(X ≥ s) ≤ α/2,  X binomial of n and q: an interval of the q-quantile

    An end that so few values cannot tell is infinite: 0.99 needs 368 values for its upper end at 95 %.
    """
    x = np.sort(np.asarray(values, dtype=float).reshape(-1))
    if not len(x) or np.isnan(x).any():
        raise ValueError(f"a quantile of {len(x)} values, {int(np.isnan(x).sum())} of them nan; expected numbers")
    low, high = quantile_ranks(len(x), q, level)
    return Interval(float(x[low - 1]) if low else -math.inf, float(x[high - 1]) if high <= len(x) else math.inf)


def quantile_ranks(n: int, q: float, level: float = 0.95) -> tuple[int, int]:
    """(r, s) of the interval [x₍ᵣ₎, x₍ₛ₎], counted from 1; r = 0 or s = n + 1 where no value is far enough out"""
    if not 0.0 < q < 1.0:
        raise ValueError(f"quantile {q}; expected a number between 0 and 1")
    side = 0.5 * (1.0 - check_level(level))
    inside, beyond = 0, n + 1  # the largest r for which P(X ≤ r − 1) ≤ α/2, or 0
    while beyond - inside > 1:
        r = (inside + beyond) // 2
        inside, beyond = (r, beyond) if at_most(r - 1, n, q) <= side else (inside, r)
    below, s = 0, n + 1  # the smallest s for which P(X ≥ s) ≤ α/2
    while s - below > 1:
        middle = (below + s) // 2
        below, s = (below, middle) if at_least(middle, n, q) <= side else (middle, s)
    return inside, s


def check_level(level: float) -> float:
    """ValueError unless it is a probability that an interval can have"""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level}; expected a number between 0 and 1, such as 0.95")
    return level


def check_count(count: int, n: int) -> int:
    """ValueError unless `count` of n is possible"""
    if n < 1 or not 0 <= count <= n:
        raise ValueError(f"{count} of {n} flights; expected at least one flight, and a count from 0 to their number")
    return count
