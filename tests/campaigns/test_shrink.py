"""A case of ten changed parameters is reduced to exactly those that matter."""

from itertools import combinations

import numpy as np
import pytest

from samara.campaigns.falsify import falsify, shrink

NOMINAL = np.full(10, 0.5)


def conditions(*factors):
    """Fails if all of these parameters are above 0.8; the others change the margin slightly"""
    return lambda x: 0.8 - x[:, list(factors)].min(axis=1) + 1e-3 * x.sum(axis=1)


@pytest.mark.parametrize("matter", [(4,), (0, 9), (2, 5, 7)])
def test_what_was_planted_is_what_is_left(matter):
    case = np.random.default_rng(len(matter)).uniform(0.9, 1.0, 10)
    margin, flown = conditions(*matter), []
    result = shrink(lambda x: flown.append(len(x)) or margin(x), case, NOMINAL)
    assert result.changed == matter and result.is_minimal and result.flights == sum(flown) <= 100
    expected = NOMINAL.copy()
    expected[list(matter)] = case[list(matter)]
    assert (result.row == expected).all() and result.margin == margin(expected[None])[0] < 0.0


@pytest.mark.parametrize("matter", [(4,), (0, 9), (2, 5, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_a_case_that_was_searched_for(matter, seed):
    """Found by falsification, then shrunk: the same factors"""
    margin = conditions(*matter)
    case = falsify(margin, 10, budget=1000, seed=seed)
    assert case.fails and shrink(margin, case.row, NOMINAL).changed == matter


def test_the_fewest_of_several_ways_to_fail():
    """One parameter alone, or three others, each less important: resetting one by one ends at the three."""

    def margin(x):
        return np.minimum(0.85 - x[:, 0], 0.5 - x[:, 1:4].min(axis=1))

    result = shrink(margin, np.full(10, 0.9), NOMINAL)
    assert result.changed == (0,) and result.is_minimal
    short = shrink(margin, np.full(10, 0.9), NOMINAL, budget=20)
    assert short.changed == (1, 2, 3) and not short.is_minimal


@pytest.mark.parametrize("seed", range(20))
def test_no_smaller_set_fails(seed):
    """For a random family of failing sets of 7 parameters: the size found is the smallest, by trying all 128"""
    draw = np.random.default_rng(seed)
    failing_sets = [tuple(np.flatnonzero(draw.random(7) < 0.6)) or (0,) for _ in range(4)]

    def margin(x):
        return 0.5 - np.max([x[:, list(failing_set)].min(axis=1) for failing_set in failing_sets], axis=0)

    result = shrink(margin, np.ones(7), np.zeros(7))
    smallest = min(
        n
        for n in range(8)
        for candidate in combinations(range(7), n)
        if margin(np.isin(np.arange(7), candidate)[None] * 1.0)[0] < 0
    )
    assert len(result.changed) == smallest and result.is_minimal and margin(result.row[None])[0] < 0.0


def test_a_nominal_case_and_a_failing_nominal():
    same = shrink(conditions(3), [0.5, 0.5, 0.5, 0.9], [0.5, 0.5, 0.5, 0.5])
    assert same.changed == (3,) and same.is_minimal and same.flights == 2
    assert shrink(lambda x: -np.ones(len(x)), [0.9], [0.5]).changed == ()


def test_bad_input_is_named():
    with pytest.raises(
        ValueError, match=r"^the case to shrink has a margin of 0\.\d+; expected one that fails, below 0$"
    ):
        shrink(conditions(0), np.full(10, 0.6), NOMINAL)
    with pytest.raises(
        ValueError, match=r"^case has shape \(3,\), nominal \(10,\); expected one number for each factor$"
    ):
        shrink(conditions(0), np.ones(3), NOMINAL)
