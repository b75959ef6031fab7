"""Failures too rare to wait for: subset simulation, a rare event as a chain of frequent ones.

Among the flights of one level the worst tenth begin chains of others that are at least as bad; among these the worst tenth
again, until a tenth fail. P = 0.1 · 0.1 · …: six levels of a few thousand flights find what happens once in a million
(S.-K. Au and J. L. Beck, 2001; the chains are those of I. Papaioannou et al., 2015).
"""

import math
from typing import NamedTuple

import numpy as np

from samara.campaigns.falsify import Margin, margins
from samara.core.lazy_import import scipy
from samara.core.random import normals
from samara.core.types import Array

LEVEL = 0.1  # the part of a level that begins the next
ACCEPTED = 0.3  # of the steps of a chain, for which its length of step is set; 0.44 errs more where two conditions meet
SOURCE = "subset simulation"


class RareEvent(NamedTuple):
    """The result of subset simulation"""

    probability: float  # of failure; if no failure was `reached`, an upper bound: that of the worst level
    variation: float  # the relative standard deviation of the estimate, from the ancestry of the failures
    flights: int
    thresholds: tuple[float, ...]  # of the margin, level by level
    failures: Array  # (m, k) rows that fail, in standard normals, the worst first
    reached: bool

    @property
    def interval(self) -> tuple[float, float]:
        """P e^(∓1.96 s),  s² = ln(1 + δ²): an approximate 95 % interval; it knows nothing of failures no chain came to"""
        spread = 1.959963984540054 * math.sqrt(math.log1p(self.variation**2))
        return (self.probability * math.exp(-spread) if self.reached else 0.0, self.probability * math.exp(spread))


def subset_simulation(
    margin: Margin,
    factors: int,
    *,
    seed: int = 0,
    per_level: int = 6000,
    budget: int = 100_000,
    smallest: float = 1e-12,
) -> RareEvent:
    """P(margin(u) < 0),  u a row of `factors` independent standard normals

    Takes (1 + 0.9 (levels − 1)) · `per_level` flights, at most `budget`. Ends without an answer, but with a bound, below
    `smallest`, where the budget is spent, or where the margins of a level are all the same and do not tell which way is worse.
    The same seed gives the same rows. `unit_cube` turns them into what the quantile functions of a campaign take.
    """
    steps = round(1.0 / LEVEL)
    if factors < 1 or per_level < 10 * steps or per_level % steps:
        raise ValueError(
            f"{factors} factors, {per_level} flights per level; expected 1 or more, and a multiple of {steps} from 100"
        )
    if budget < per_level:
        raise ValueError(f"a budget of {budget} flights; expected at least those of one level, {per_level}")
    chains = per_level // steps
    u = normals(seed, SOURCE, np.arange(per_level), 0, factors)
    g = margins(margin, u)
    probability, flights, thresholds, length, root = 1.0, per_level, list[float](), 0.6, np.arange(per_level)
    while True:
        order = np.argsort(g, kind="stable")
        threshold = float(g[order[chains - 1]])
        failing = int((g < 0.0).sum())
        last = threshold < 0.0
        bad = g < 0.0 if last else g <= threshold
        fraction = float(bad.mean())
        informative = fraction < 0.5 or last
        if informative:
            probability *= fraction
            thresholds.append(0.0 if last else threshold)
        enough = flights + per_level - chains <= budget and probability * LEVEL >= smallest
        if last or not informative or not enough:
            worst = order[:failing]
            return RareEvent(probability, _variation(root[bad]), flights, tuple(thresholds), u[worst], last)
        begin = order[:chains]
        u, g, length = _chains(margin, u[begin], g[begin], threshold, steps, length, seed, len(thresholds))
        root = np.tile(root[begin], steps)
        flights += per_level - chains


def _chains(
    margin: Margin, u: Array, g: Array, threshold: float, steps: int, length: float, seed: int, level: int
) -> tuple[Array, Array, float]:
    """u' = √(1 − σ²) u + σ n, taken where margin(u') ≤ threshold: leaves the standard normals of that level as they are

    All chains step at once; row s · chains + c is step s of chain c.
    """
    spread, all_u, all_g = u.std(axis=0), [u], [g]
    for step in range(1, steps):
        sigma = np.minimum(1.0, length * spread)
        fresh = normals(seed, SOURCE, np.arange(len(u)), level * steps + step, u.shape[1])
        tried = np.sqrt(1.0 - sigma * sigma) * u + sigma * fresh
        g_tried = margins(margin, tried)
        taken = g_tried <= threshold
        u, g = np.where(taken[:, None], tried, u), np.where(taken, g_tried, g)
        length *= math.exp((float(taken.mean()) - ACCEPTED) / math.sqrt(step))
        all_u.append(u)
        all_g.append(g)
    return np.concatenate(all_u), np.concatenate(all_g), length


def _variation(root: Array) -> float:
    """√Σ (mᵢ/m)²,  mᵢ of the m bad rows descend from row i of the first level (A. Lee and N. Whiteley, 2018)

    Few ancestors, large error: that counts the memory of the chains, and of a level for those before it.
    """
    fraction = np.unique(root, return_counts=True)[1] / len(root)
    return math.sqrt(float((fraction * fraction).sum()))


def unit_cube(u: Array) -> Array:
    """Φ(u), below 1: quantiles of 1 may be infinite"""
    return np.minimum(scipy("special", "subset simulation").ndtr(np.asarray(u, dtype=float)), 1.0 - 2.0**-53)
