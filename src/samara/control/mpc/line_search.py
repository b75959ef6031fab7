"""Which of the rollouts is taken: the one that costs least, if it brings what the model promised, and what damping is next."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from samara.core.ops import equal, logical_and, logical_or, maximum, where
from samara.core.quantity import Scalar

FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-6
ENOUGH = 1e-4  # of what the model promised: the least that a step must bring


def not_finite(x: Scalar) -> Scalar:
    """NaN or +∞, as a condition"""
    return equal(where(x < math.inf, 1.0, 0.0), 0.0)


class Choice(NamedTuple):
    """The rollout taken, by its number and step size, or none (`accepted` 0, step size 0); and what follows from it."""

    accepted: Scalar
    index: Scalar
    alpha: Scalar
    cost: Scalar
    damping: Scalar
    converged: Scalar


def choose(
    costs: Sequence[Scalar],
    sizes: Sequence[Scalar],
    cost: Scalar,
    linear: Scalar,
    quadratic: Scalar,
    damping: Scalar,
    tolerance: Scalar,
) -> Choice:
    """The lowest cost J(α); accepted if J − J(α) is positive and at least 1e-4 of −(α qᵀk + ½ α² kᵀQk)

    Damping grows tenfold when nothing is accepted and threefold after a small step, and shrinks to a fifth after a large one.
    It has converged when less than the tolerance was gained, or could have been by the model.
    """
    lowest, alpha, index = costs[0], sizes[0], 0.0
    for i in range(1, len(costs)):
        lower = logical_or(costs[i] < lowest, not_finite(lowest))
        lowest, alpha, index = (
            where(lower, costs[i], lowest),
            where(lower, sizes[i], alpha),
            where(lower, float(i), index),
        )
    gained = cost - lowest
    promised = -(alpha * linear + 0.5 * alpha * alpha * quadratic)
    accepted = logical_and(gained > 0.0, gained >= ENOUGH * promised)
    after_success = where(
        alpha >= 0.5,
        where(damping > LEAST_DAMPING, 0.2 * damping, 0.0),
        where(alpha <= 0.1, maximum(3.0 * damping, FIRST_DAMPING), damping),
    )
    left = -(linear + 0.5 * quadratic)
    return Choice(
        accepted=where(accepted, 1.0, 0.0),
        index=index,
        alpha=where(accepted, alpha, 0.0),
        cost=where(accepted, lowest, cost),
        damping=where(accepted, after_success, maximum(10.0 * damping, FIRST_DAMPING)),
        converged=where(where(accepted, gained, left) <= tolerance, 1.0, 0.0),
    )
