"""A planted weakness, one flight in a thousand, is found in a few dozen flights; random sampling does not find it in a hundred.

The margins stand for flights of ten parameters, of which gust, payload and state of charge matter; each alone is harmless.
"""

import math
import re
import sys

import numpy as np
import pytest

from samara.campaigns.falsify import METHODS, falsify
from samara.core.extras import MissingExtraError, install_hint

GUST, PAYLOAD, CHARGE = 2, 5, 7
RANDOM = np.random.default_rng(11).random((100_000, 10))


def thrust(x):
    """The thrust that gust and payload need, minus that of an empty battery; two other parameters add a ripple"""
    needed = (0.4 + 0.6 * x[:, GUST]) * (0.5 + 0.5 * x[:, PAYLOAD]) * (1.0 - 0.4 * x[:, CHARGE])
    return 0.915 - needed + 0.02 * np.sin(7.0 * x[:, 0]) + 0.01 * x[:, 1]


def saturating_margin(x):
    """An error that gusts alone hardly change, until the thrust margin is used up"""
    reserve = 0.65 + 0.35 * x[:, CHARGE] - (0.45 + 0.25 * x[:, PAYLOAD]) - 0.3 * x[:, GUST] ** 2
    return 1.37 - (0.1 + 0.05 * x[:, GUST] + 3.0 * np.maximum(0.0, 0.12 - reserve))


def steep(x):
    """Three conditions, each a step at 0.8 of its range: nearly flat elsewhere"""
    steps = [1.0 / (1.0 + np.exp(-12.0 * (factor - 0.8))) for factor in (x[:, GUST], x[:, PAYLOAD], 1.0 - x[:, CHARGE])]
    return 0.6 - steps[0] * steps[1] * steps[2]


PLANTED = (thrust, saturating_margin, steep)
SEEDS = range(5000, 5010)


@pytest.mark.parametrize("margin", PLANTED)
def test_the_weakness_is_rare_and_chance_does_not_find_it(margin):
    """At most one flight in a thousand, and in at most two of ten sets of 100 flights"""
    assert 1e-4 <= (margin(RANDOM) < 0.0).mean() <= 1e-3
    assert sum((margin(rows) < 0.0).any() for rows in RANDOM[:1000].reshape(10, 100, 10)) <= 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("margin", PLANTED)
def test_the_weakness_is_found(method, margin):
    """In 8 of 10 seeds within 50 flights; by TPE within 100"""
    results = [search(margin, method, seed) for seed in SEEDS]
    assert sum(result.fails and result.flights <= (100 if method == "tpe" else 50) for result in results) >= 8


def search(margin, method, seed):
    if method != "evolution":
        pytest.importorskip(
            {"cma": "cma", "tpe": "optuna"}[method], reason=f"{method} is not installed: {install_hint('search')}"
        )
    result = falsify(margin, 10, seed=seed, method=method)
    assert result.flights == len(result.rows) == len(result.margins) <= 100
    assert (
        result.fails == (result.margin < 0.0) and result.margin == result.margins.min() == margin(result.row[None])[0]
    )
    assert ((result.rows >= 1e-3) & (result.rows <= 1.0 - 1e-3)).all()
    return result


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_asks_for_the_same_rows(method):
    before = np.random.get_state()[1].copy()
    first, again, other = (search(thrust, method, seed) for seed in (1, 1, 2))
    assert first.rows.tobytes() == again.rows.tobytes() != other.rows.tobytes()
    assert (np.random.get_state()[1] == before).all()  # the global generator is unchanged


@pytest.mark.parametrize("budget", [1, 7, 8, 30])
def test_a_budget_is_exact(budget):
    flown = []

    def margin(x):
        flown.append(len(x))
        return 1.0 + x.sum(axis=1)

    result = falsify(margin, 3, budget=budget)
    assert not result.fails and result.flights == sum(flown) == budget


def test_a_weakness_in_the_middle_of_three_factors_is_found():
    """A box of a tenth of each range, one flight in a thousand: in 8 of 10 seeds within 160 flights"""

    def margin(x):
        outside = np.maximum(0.0, np.abs(x[:, [GUST, PAYLOAD, CHARGE]] - (0.62, 0.35, 0.7)) - 0.05)
        return np.sqrt((outside * outside).sum(axis=1)) - 1e-5

    assert (margin(RANDOM) < 0.0).mean() <= 1.1e-3
    assert sum(falsify(margin, 10, budget=160, seed=seed).fails for seed in SEEDS) >= 8


def test_the_worst_flight_of_a_bowl():
    """Without a stopping margin, the search converges to the lowest point, inside the cube and on its faces"""
    for lowest in (0.3, 1.0):
        result = falsify(lambda x, at=lowest: ((x - at) ** 2).sum(axis=1) - 1.0, 4, budget=400, stop_below=-math.inf)
        assert result.fails and result.flights == 400 and result.margin < -0.99


def test_from_elsewhere_after_a_dead_end():
    """A wide trap at one side, the failure at the other: the search leaves the trap"""

    def margin(x):
        trap = 0.1 + 0.2 * np.abs(x - 0.2).sum(axis=1)
        return np.minimum(trap, 2.0 * np.abs(x - 0.85).sum(axis=1) - 0.3)

    assert sum(falsify(margin, 2, budget=800, seed=seed).fails for seed in range(10)) >= 9


def test_what_is_missing_is_named(monkeypatch):
    for method, module, name in (("cma", "cma", "CMA-ES needs cma"), ("tpe", "optuna", "TPE needs Optuna")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match=f"^falsification by {name}: {re.escape(install_hint('search'))}$"):
            falsify(thrust, 10, method=method)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"^method 'guess'; expected one of evolution, cma, tpe$"):
        falsify(thrust, 10, method="guess")
    with pytest.raises(ValueError, match=r"^10 factors, 0 flights; expected at least one of each$"):
        falsify(thrust, 10, budget=0)
    with pytest.raises(ValueError, match=r"^the margin of 24 flights has nan;"):
        falsify(lambda x: np.full(len(x), np.nan), 10)
