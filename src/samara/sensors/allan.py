"""The Allan deviation of a signal: how much its averages over a time τ differ from one such time to the next."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.core.types import Array


def allan_deviation(samples: Any, dt: float, times: Sequence[float]) -> Array:
    """σ²(τ) = ⟨(θ(t+2τ) − 2θ(t+τ) + θ(t))²⟩ / 2τ²,  θ = ∫ y dt, over all t: one for each τ [s], in the unit of the samples

    `samples` are evenly spaced by dt [s] along their first axis; what is along the others is kept apart. White noise of
    density N gives N/√τ, a constant bias gives 0, bias instability B a floor of 0.664 B.
    """
    y = np.asarray(samples, dtype=float)
    theta = np.concatenate([np.zeros((1, *y.shape[1:])), np.cumsum(y - y.mean(axis=0), axis=0) * dt])
    found = []
    for tau in times:
        m = round(tau / dt)
        if m < 1 or 2 * m > len(y):
            longest = len(y) // 2 * dt
            raise ValueError(f"an averaging time is {tau:g} s; expected one from {dt:g} s to {longest:g} s")
        second = theta[2 * m :] - 2.0 * theta[m:-m] + theta[: -2 * m]
        found.append(np.sqrt((second**2).mean(axis=0) / (2.0 * (m * dt) ** 2)))
    return np.array(found)
