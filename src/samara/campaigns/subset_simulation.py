"""Subset simulation: the probability of a rare failure as a product of larger conditional probabilities.

The worst tenth of the flights of one level start Markov chains of flights that are at least as bad; of these again the worst
tenth, until a tenth fail. P = 0.1 · 0.1 · …: six levels of a few thousand flights resolve a probability of one in a million
(S.-K. Au and J. L. Beck, 2001; the chains are those of I. Papaioannou et al., 2015).
"""

import math
from typing import NamedTuple

import numpy as np

from samara.campaigns.falsify import Margin, evaluate_margins
from samara.core.extras import import_scipy
from samara.core.random import normals
from samara.core.types import Array

LEVEL_PROBABILITY = 0.1  # conditional probability of a level
TARGET_ACCEPTANCE = 0.3  # target acceptance rate of the chains; 0.44 gives larger errors if two conditions meet
RANDOM_SOURCE = "subset simulation"


class RareEvent(NamedTuple):
    """The result of subset simulation."""

    probability: float  # of failure; only an upper bound, that of the last level, unless `failure_reached`
    variation: float  # the relative standard deviation of the estimate, from the ancestry of the failures
    flights: int
    thresholds: tuple[float, ...]  # of the margin, level by level
    failures: Array  # (m, k) rows that fail, in standard normals, the worst first
    failure_reached: bool

    @property
    def interval(self) -> tuple[float, float]:
        """P e^(∓1.96 s),  s² = ln(1 + δ²): an approximate 95 % interval; it excludes failures that no chain reached"""
        spread = 1.959963984540054 * math.sqrt(math.log1p(self.variation**2))
        return (
            self.probability * math.exp(-spread) if self.failure_reached else 0.0,
            self.probability * math.exp(spread),
        )


def subset_simulation(
    margin: Margin,
    factors: int,
    *,
    seed: int = 0,
    per_level: int = 6000,
    budget: int = 100_000,
    min_probability: float = 1e-12,
) -> RareEvent:
    """P(margin(u) < 0),  u a row of `factors` independent standard normals

    Takes (1 + 0.9 (levels − 1)) · `per_level` flights, at most `budget`. The result is only an upper bound if the
    probability is below `min_probability`, if the budget is spent, or if all margins of a level are equal and give no
    direction. Equal seeds give equal rows. `unit_cube` maps them to the arguments of a campaign's quantile functions.
    """
    steps = round(1.0 / LEVEL_PROBABILITY)
    if factors < 1 or per_level < 10 * steps or per_level % steps:
        raise ValueError(
            f"{factors} factors, {per_level} flights per level; expected 1 or more, and a multiple of {steps} from 100"
        )
    if budget < per_level:
        raise ValueError(f"a budget of {budget} flights; expected at least those of one level, {per_level}")
    chains = per_level // steps
    u = normals(seed, RANDOM_SOURCE, np.arange(per_level), 0, factors)
    g = evaluate_margins(margin, u)
    probability, flights, thresholds, step_scale, ancestor = 1.0, per_level, list[float](), 0.6, np.arange(per_level)
    while True:
        order = np.argsort(g, kind="stable")
        threshold = float(g[order[chains - 1]])
        failing = int((g < 0.0).sum())
        reached_failure = threshold < 0.0
        below_threshold = g < 0.0 if reached_failure else g <= threshold
        fraction = float(below_threshold.mean())
        informative = fraction < 0.5 or reached_failure
        if informative:
            probability *= fraction
            thresholds.append(0.0 if reached_failure else threshold)
        can_continue = flights + per_level - chains <= budget and probability * LEVEL_PROBABILITY >= min_probability
        if reached_failure or not informative or not can_continue:
            worst = order[:failing]
            return RareEvent(
                probability,
                _coefficient_of_variation(ancestor[below_threshold]),
                flights,
                tuple(thresholds),
                u[worst],
                reached_failure,
            )
        seeds = order[:chains]
        u, g, step_scale = _run_chains(margin, u[seeds], g[seeds], threshold, steps, step_scale, seed, len(thresholds))
        ancestor = np.tile(ancestor[seeds], steps)
        flights += per_level - chains


def _run_chains(
    margin: Margin, u: Array, g: Array, threshold: float, steps: int, step_scale: float, seed: int, level: int
) -> tuple[Array, Array, float]:
    """u' = √(1 − σ²) u + σ n, accepted if margin(u') ≤ threshold: leaves the conditional normal distribution invariant

    All chains step at once; row s · chains + c is step s of chain c.
    """
    sigma_u, all_u, all_g = u.std(axis=0), [u], [g]
    for step in range(1, steps):
        sigma = np.minimum(1.0, step_scale * sigma_u)
        innovations = normals(seed, RANDOM_SOURCE, np.arange(len(u)), level * steps + step, u.shape[1])
        proposals = np.sqrt(1.0 - sigma * sigma) * u + sigma * innovations
        proposal_margins = evaluate_margins(margin, proposals)
        accepted = proposal_margins <= threshold
        u, g = np.where(accepted[:, None], proposals, u), np.where(accepted, proposal_margins, g)
        step_scale *= math.exp((float(accepted.mean()) - TARGET_ACCEPTANCE) / math.sqrt(step))
        all_u.append(u)
        all_g.append(g)
    return np.concatenate(all_u), np.concatenate(all_g), step_scale


def _coefficient_of_variation(ancestor: Array) -> float:
    """√Σ (mᵢ/m)²,  mᵢ of the m bad rows descend from row i of the first level (A. Lee and N. Whiteley, 2018)

    Few ancestors mean a large error: this accounts for correlation within the chains and between levels.
    """
    fraction = np.unique(ancestor, return_counts=True)[1] / len(ancestor)
    return math.sqrt(float((fraction * fraction).sum()))


def unit_cube(u: Array) -> Array:
    """Φ(u), below 1, since a quantile of 1 can be infinite"""
    return np.minimum(import_scipy("special", "subset simulation").ndtr(np.asarray(u, dtype=float)), 1.0 - 2.0**-53)
