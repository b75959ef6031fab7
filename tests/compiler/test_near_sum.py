"""The compiled sum over near others against a plain double loop in floats: the same bits."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from samara.compiler.llvm import pairwise_sum
from samara.compiler.llvm.pairwise_sum import Columns, NearSum
from samara.core.algebra import Vec3, dot
from samara.core.tree import unflatten


class Place(NamedTuple):
    p: Vec3


class Source(NamedTuple):
    p: Vec3
    reach: Any
    strength: Any


MINE, THEIRS = Place(Vec3(0.0, 0.0, 0.0)), Source(Vec3(0.0, 0.0, 0.0), 0.0, 0.0)


def margins(mine, theirs):
    """Below a source, and within a ball around it"""
    away = mine.p - theirs.p
    return -away.z + 0.125, theirs.reach * theirs.reach - dot(away, away)


def felt_from(mine, theirs):
    return theirs.strength * mine.p.x, (theirs.strength, mine.p.z - theirs.p.y)


NEAR = NearSum(felt_from, margins, MINE, THEIRS)


def columns(values, numbers):
    own = Columns(len(values), numbers)
    own.values[:] = values
    return own


def summed(mine, theirs, me, them):
    return NEAR.over(columns(mine, me), columns(theirs, them))


def by_loop(mine, theirs, me, them):
    """Σ in the order of the others, pair by pair"""
    felt, pairs = np.zeros((3, mine.shape[1])), 0
    others = [unflatten(THEIRS, iter(column)) for column in theirs.T.tolist()]
    for i, column in enumerate(mine.T.tolist()):
        own = unflatten(MINE, iter(column))
        for j, other in enumerate(others):
            if me[i] != them[j] and all(margin > 0.0 for margin in margins(own, other)):
                first, (second, third) = felt_from(own, other)
                felt[:, i] += (first, second, third)
                pairs += 1
    return felt, pairs


def sources(places, reach, rng):
    return np.concatenate([places, np.full((1, places.shape[1]), reach), rng.normal(size=(1, places.shape[1]))])


def rows_of_them(n, rng):
    k = np.arange(n)
    return np.array([2.0 * (k % 16), 2.0 * (k // 16), 0.0 * k]) + 0.05 * rng.normal(size=(3, n))


CASES = {
    "one": (lambda n, rng: np.zeros((3, n)), 1, 1.0),
    "two": (lambda n, rng: np.zeros((3, n)), 2, 1.0),
    "all at one place": (lambda n, rng: np.zeros((3, n)), 37, 1.0),
    "none near": (lambda n, rng: 100.0 * np.arange(3.0 * n).reshape(3, n), 70, 1.0),
    "rows": (rows_of_them, 150, 2.2),
    "a cloud": (lambda n, rng: rng.normal(size=(3, n)), 130, 0.7),
    "far away": (lambda n, rng: rng.normal(size=(3, n)) + 1e9, 64, 1.5),
    "two clouds": (lambda n, rng: rng.normal(size=(3, n)) + 50.0 * (np.arange(n) % 2), 96, 0.9),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_plain_double_loop_bit_for_bit(case):
    place, n, reach = CASES[case]
    rng = np.random.default_rng(3)
    places, numbers = place(n, rng), rng.permutation(n)
    theirs = sources(places, reach, rng)
    expected, pairs = by_loop(places, theirs, numbers, numbers)
    assert (pairs == 0) == (case in ("one", "none near"))
    np.testing.assert_array_equal(summed(places, theirs, numbers, numbers), expected)


def test_some_ask_about_all():
    """Two groups among three: who asks is left out by number, wherever he is among the others."""
    rng = np.random.default_rng(4)
    places = rng.normal(size=(3, 90))
    theirs, them = sources(places, 1.0, rng), rng.permutation(90)
    some = slice(20, 51)
    expected, pairs = by_loop(places[:, some], theirs, them[some], them)
    assert pairs > 100
    np.testing.assert_array_equal(summed(places[:, some], theirs, them[some], them), expected)


def test_nobody_asks_or_nobody_is_there():
    assert summed(np.zeros((3, 0)), np.zeros((5, 4)), np.arange(0), np.arange(4)).shape == (3, 0)
    assert not summed(np.zeros((3, 9)), np.zeros((5, 0)), np.arange(9), np.arange(0)).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("component", range(5))
def test_what_is_not_finite_hides_nobody(bad, component):
    """Beside others in its block; what it does to those near it, if anything, is what the loop says."""
    rng = np.random.default_rng(5)
    places = rng.normal(size=(3, 40))
    theirs = sources(places, 1.0, rng)
    theirs[component, 11] = bad
    numbers = np.arange(40)
    with np.errstate(invalid="ignore"):
        expected, _ = by_loop(places, theirs, numbers, numbers)
    np.testing.assert_array_equal(summed(places, theirs, numbers, numbers), expected)


@pytest.mark.parametrize("shares", [2, 3, 50])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, shares):
    rng = np.random.default_rng(6)
    places = rng.normal(size=(3, 200))
    theirs, numbers = sources(places, 1.0, rng), np.arange(200)
    alone = summed(places, theirs, numbers, numbers)
    monkeypatch.setattr(pairwise_sum, "shares_of", lambda work: shares)
    np.testing.assert_array_equal(summed(places, theirs, numbers, numbers), alone)


def test_another_order_of_drones_is_the_same_sum():
    """Σ over the same pairs in another order: equal but for rounding; and turned with those who ask."""
    rng = np.random.default_rng(7)
    places, order = rng.normal(size=(3, 120)), rng.permutation(120)
    theirs, numbers = sources(places, 1.0, rng), np.arange(120)
    felt = summed(places, theirs, numbers, numbers)
    turned = summed(places[:, order], theirs[:, order], numbers[order], numbers[order])
    np.testing.assert_allclose(turned, felt[:, order], rtol=0.0, atol=1e-13)
    np.testing.assert_array_equal(summed(places[:, order], theirs, numbers[order], numbers), felt[:, order])
