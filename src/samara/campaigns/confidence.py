"""Confidence intervals of rates and quantiles: exact intervals, confidence sequences for any stopping time, and requirements.

The intervals are distribution-free but assume independent rows. Rows of a Latin hypercube or a Sobol' sequence are spread
more evenly: as a rule the interval is then too wide, but this is not proven.

A Clopper–Pearson interval has its coverage at an n fixed in advance. Stopping when it looks narrow or favourable selects lucky
moments, and reduces the coverage. `confidence_sequence` may be evaluated after every flight: the likelihood ratio of a mixture
of rates to the true rate is a martingale of mean 1, which by Ville's inequality exceeds 1/α with a probability of at most α
(H. Robbins, 1970; S. Howard et al., 2021).
"""

import math
import re
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.extras import import_scipy
from samara.core.quantity import Scalar

_PURPOSE = "the statistics of a campaign"
_REQUIREMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*([<>])=?\s*([^\s@%]+)\s*(%?)\s*(?:@\s*([^\s@%]+)\s*%\s*)?")


class Interval(NamedTuple):
    """The closed interval [low, high]."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """high − low"""
        return self.high - self.low

    def contains(self, value: float) -> bool:
        """low ≤ value ≤ high"""
        return self.low <= value <= self.high


def check_level(level: float) -> float:
    """Return the level; raise ValueError unless it is between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level}; expected a number between 0 and 1, such as 0.95")
    return level


def check_count(count: int, n: int) -> int:
    """Return the count; raise ValueError unless `count` of n is possible."""
    if n < 1 or not 0 <= count <= n:
        raise ValueError(f"{count} of {n} flights; expected at least one flight, and a count from 0 to their number")
    return count


def _special() -> Scalar:
    return import_scipy("special", _PURPOSE)


# Fixed sample size ---------------------------------------------------------------------------------------------------


def tail_probability(count: int, n: int, rate: float) -> float:
    """P(X ≥ count) = I_rate(count, n − count + 1), X binomial of n and rate; 1 for count = 0"""
    return float(_special().betainc(count, n - count + 1.0, rate)) if count > 0 else 1.0


def clopper_pearson(count: int, n: int, level: float = 0.95) -> Interval:
    """P(X ≥ k | low) = α/2 = P(X ≤ k | high): the exact interval of a rate from `count` of n (Clopper & Pearson, 1934)

    It covers the true rate with a probability of at least `level`, for every rate and n.
    """
    one_sided_level = 0.5 * (1.0 + check_level(level))
    return Interval(lower_bound(count, n, one_sided_level), upper_bound(count, n, one_sided_level))


def lower_bound(count: int, n: int, level: float = 0.95) -> float:
    """The rate at which `count` or more has the probability 1 − level: the true rate is lower in at most a fraction 1 −
    level of campaigns."""
    check_count(count, n)
    tail = 1.0 - check_level(level)
    return float(_special().betaincinv(count, n - count + 1.0, tail)) if count else 0.0


def upper_bound(count: int, n: int, level: float = 0.95) -> float:
    """The rate at which `count` or fewer has the probability 1 − level; 3/n at 95 % for a count of 0"""
    return 1.0 - lower_bound(n - check_count(count, n), n, level)


def quantile_interval(values: ArrayLike, q: float, level: float = 0.95) -> Interval:
    """[x₍ᵣ₎, x₍ₛ₎] with P(X < r) ≤ α/2 and P(X ≥ s) ≤ α/2,  X binomial of n and q: a confidence interval of the q-quantile

    A bound beyond the sample is infinite: the 0.99 quantile needs 368 values for its upper bound at 95 %.
    """
    x = np.sort(np.asarray(values, dtype=float).reshape(-1))
    if not len(x) or np.isnan(x).any():
        raise ValueError(f"a quantile of {len(x)} values, {int(np.isnan(x).sum())} of them nan; expected numbers")
    low, high = quantile_ranks(len(x), q, level)
    return Interval(float(x[low - 1]) if low else -math.inf, float(x[high - 1]) if high <= len(x) else math.inf)


def quantile_ranks(n: int, q: float, level: float = 0.95) -> tuple[int, int]:
    """(r, s) of the interval [x₍ᵣ₎, x₍ₛ₎], counted from 1; r = 0 or s = n + 1 for a bound beyond the sample"""
    if not 0.0 < q < 1.0:
        raise ValueError(f"quantile {q}; expected a number between 0 and 1")
    tail = 0.5 * (1.0 - check_level(level))
    binomial = import_scipy("stats", _PURPOSE).binom(n, q)
    r = int(binomial.ppf(tail))  # the least with P(X ≤ r) ≥ α/2
    return r + int(binomial.cdf(r) <= tail), int(binomial.isf(tail)) + 1


# Any stopping time ---------------------------------------------------------------------------------------------------


def confidence_sequence(count: int, n: int, level: float = 0.95) -> Interval:
    """{p : B(k+½, n−k+½) / (B(½, ½) pᵏ (1−p)ⁿ⁻ᵏ) < 1/α}: covers with at least `level` at every stopping time

    About 1.8 times as wide as Clopper–Pearson's at a thousand flights, 2.3 times at a million.
    """
    check_count(count, n)
    limit = -math.log1p(-check_level(level))
    low = _lower_edge(count, n, limit) if count else 0.0
    high = 1.0 - _lower_edge(n - count, n, limit) if count < n else 1.0
    return Interval(low, high)


def log_mixture(p: float, count: int, n: int) -> float:
    """ln of a likelihood ratio: the mixture Beta(½, ½) of rates over the single rate p"""
    special = _special()
    likelihood = special.xlogy(count, p) + special.xlog1py(n - count, -p)
    return float(special.betaln(count + 0.5, n - count + 0.5) - math.log(math.pi) - likelihood)


def _lower_edge(count: int, n: int, limit: float) -> float:
    """The p below count/n at which `log_mixture`, which decreases up to there, is `limit`."""
    rate = count / n
    root = import_scipy("optimize", _PURPOSE).brentq(
        lambda z: log_mixture(rate * math.exp(z), count, n) - limit, -700.0, 0.0, xtol=1e-15, rtol=1e-15
    )
    return rate * math.exp(root)


def log_evidence_above(rate: float, count: int, n: int) -> float:
    """ln E,  E = ∫_rate^1 L(p) dBeta(½, ½) / (L(rate) ∫_rate^1 dBeta(½, ½)): evidence that the true rate is above `rate`

    If it is not, E has a mean of at most 1 at every moment, and ever exceeds 1/α with a probability of at most α. The test is
    one-sided, with the mixture's complete weight on that side: it needs fewer flights than the two-sided interval.
    """
    check_count(count, n)
    if not 0.0 < rate < 1.0:
        raise ValueError(f"rate {rate}; expected a number between 0 and 1")
    betainc = _special().betainc
    weight = float(betainc(n - count + 0.5, count + 0.5, 1.0 - rate))
    if weight == 0.0:
        return -math.inf
    return log_mixture(rate, count, n) + math.log(weight) - math.log(float(betainc(0.5, 0.5, 1.0 - rate)))


def log_evidence_below(rate: float, count: int, n: int) -> float:
    """ln E, the evidence that the true rate is below `rate`, as in `log_evidence_above`"""
    return log_evidence_above(1.0 - rate, n - count, n)


# Requirements --------------------------------------------------------------------------------------------------------


class Verdict(Enum):
    """Whether the flights of a campaign satisfy a requirement."""

    HELD = "held"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Requirement(NamedTuple):
    """The requirement that the rate of `subject` is above (or below) `rate`, with confidence `level`."""

    subject: str
    above: bool
    rate: float
    level: float = 0.95

    def __str__(self) -> str:
        return f"{self.subject} {'>' if self.above else '<'} {self.rate:.15g} @ {100.0 * self.level:.15g}%"


def parse_requirement(text: str) -> Requirement:
    """Parse a requirement: `success > 0.99 @ 95%`, `failure < 1e-3`, `expect_0 > 99.9% @ 99%`; 95 % by default."""
    if match := _REQUIREMENT.fullmatch(text):
        subject, sign, rate, percent, level = match.groups()
        try:
            scale = 100.0 if percent else 1.0
            requirement = Requirement(subject, sign == ">", float(rate) / scale, float(level or "95") / 100.0)
        except ValueError:
            requirement = None
        if requirement and 0.0 < requirement.rate < 1.0 and 0.0 < requirement.level < 1.0:
            return requirement
    raise ValueError(
        f"requirement {text!r}; expected a name, > or <, a rate between 0 and 1 and a confidence, as in 'success > 0.99 @ 95%'"
    )


def decide_requirement(requirement: Requirement, count: int, n: int, *, sequential: bool = False) -> Verdict:
    """Decide a requirement from `count` occurrences of its subject in n flights.

    By default by the one-sided Clopper–Pearson bound, for a fixed n. With `sequential`, for results that were inspected
    before and could have stopped the campaign, by sequential evidence. "held" and "refuted" are each wrong with a
    probability of at most 1 − level.
    """
    check_count(count, n)
    rate, level = requirement.rate, requirement.level
    if sequential:
        limit = -math.log1p(-level)
        above, below = log_evidence_above(rate, count, n) >= limit, log_evidence_below(rate, count, n) >= limit
    else:
        above, below = lower_bound(count, n, level) > rate, upper_bound(count, n, level) < rate
    if above or below:
        return Verdict.HELD if above is requirement.above else Verdict.REFUTED
    return Verdict.UNDECIDED


def format_percent(fraction: float) -> str:
    """Format a fraction with enough digits to distinguish it from 0 and 1."""
    if fraction in (0.0, 1.0):
        return f"{100.0 * fraction:.0f} %"
    digits = max(1, 1 - math.floor(math.log10(100.0 * min(fraction, 1.0 - fraction))))
    return f"{100.0 * fraction:.{min(digits, 9)}f} %"
