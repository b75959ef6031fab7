"""The compiled sum over neighbours against a plain double loop in floats: the same bits."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from samara.compiler.llvm import pairwise_sum
from samara.compiler.llvm.pairwise_sum import DroneColumns, NeighbourSum
from samara.core.algebra import Vec3, dot
from samara.core.tree import unflatten


class Place(NamedTuple):
    p: Vec3


class Source(NamedTuple):
    p: Vec3
    reach: Any
    strength: Any


TARGET, SOURCE = Place(Vec3(0.0, 0.0, 0.0)), Source(Vec3(0.0, 0.0, 0.0), 0.0, 0.0)


def margins(target, source):
    """Below a source, and within a ball around it."""
    offset = target.p - source.p
    return -offset.z + 0.125, source.reach * source.reach - dot(offset, offset)


def pair_terms(target, source):
    return source.strength * target.p.x, (source.strength, target.p.z - source.p.y)


NEIGHBOUR_SUM = NeighbourSum(pair_terms, margins, TARGET, SOURCE)


def columns(values, numbers):
    drones = DroneColumns(len(values), numbers)
    drones.values[:] = values
    return drones


def compiled_sum(targets, source_values, target_numbers, source_numbers):
    return NEIGHBOUR_SUM.compute(columns(targets, target_numbers), columns(source_values, source_numbers))


def loop_sum(targets, source_values, target_numbers, source_numbers):
    """Σ in the order of the sources, pair by pair."""
    felt, pairs = np.zeros((3, targets.shape[1])), 0
    source_list = [unflatten(SOURCE, iter(column)) for column in source_values.T.tolist()]
    for i, column in enumerate(targets.T.tolist()):
        target = unflatten(TARGET, iter(column))
        for j, source in enumerate(source_list):
            if target_numbers[i] != source_numbers[j] and all(margin > 0.0 for margin in margins(target, source)):
                first, (second, third) = pair_terms(target, source)
                felt[:, i] += (first, second, third)
                pairs += 1
    return felt, pairs


def sources(places, radius, rng):
    return np.concatenate([places, np.full((1, places.shape[1]), radius), rng.normal(size=(1, places.shape[1]))])


def drone_rows(n, rng):
    k = np.arange(n)
    return np.array([2.0 * (k % 16), 2.0 * (k // 16), 0.0 * k]) + 0.05 * rng.normal(size=(3, n))


CASES = {
    "one": (lambda n, rng: np.zeros((3, n)), 1, 1.0),
    "two": (lambda n, rng: np.zeros((3, n)), 2, 1.0),
    "all at one place": (lambda n, rng: np.zeros((3, n)), 37, 1.0),
    "none near": (lambda n, rng: 100.0 * np.arange(3.0 * n).reshape(3, n), 70, 1.0),
    "rows": (drone_rows, 150, 2.2),
    "a cloud": (lambda n, rng: rng.normal(size=(3, n)), 130, 0.7),
    "far away": (lambda n, rng: rng.normal(size=(3, n)) + 1e9, 64, 1.5),
    "two clouds": (lambda n, rng: rng.normal(size=(3, n)) + 50.0 * (np.arange(n) % 2), 96, 0.9),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_plain_double_loop_bit_for_bit(case):
    place, n, radius = CASES[case]
    rng = np.random.default_rng(3)
    places, numbers = place(n, rng), rng.permutation(n)
    source_values = sources(places, radius, rng)
    expected, pairs = loop_sum(places, source_values, numbers, numbers)
    assert (pairs == 0) == (case in ("one", "none near"))
    np.testing.assert_array_equal(compiled_sum(places, source_values, numbers, numbers), expected)


def test_a_subset_of_targets():
    """A subset of targets among all sources: a target is excluded by its number, at any position among the sources."""
    rng = np.random.default_rng(4)
    places = rng.normal(size=(3, 90))
    source_values, source_numbers = sources(places, 1.0, rng), rng.permutation(90)
    subset = slice(20, 51)
    expected, pairs = loop_sum(places[:, subset], source_values, source_numbers[subset], source_numbers)
    assert pairs > 100
    np.testing.assert_array_equal(
        compiled_sum(places[:, subset], source_values, source_numbers[subset], source_numbers), expected
    )


def test_no_targets_or_no_sources():
    assert compiled_sum(np.zeros((3, 0)), np.zeros((5, 4)), np.arange(0), np.arange(4)).shape == (3, 0)
    assert not compiled_sum(np.zeros((3, 9)), np.zeros((5, 0)), np.arange(9), np.arange(0)).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("component", range(5))
def test_a_value_that_is_not_finite_hides_no_neighbour(bad, component):
    """Beside finite ones in its block; its effect on its neighbours is that of the loop."""
    rng = np.random.default_rng(5)
    places = rng.normal(size=(3, 40))
    source_values = sources(places, 1.0, rng)
    source_values[component, 11] = bad
    numbers = np.arange(40)
    with np.errstate(invalid="ignore"):
        expected, _ = loop_sum(places, source_values, numbers, numbers)
    np.testing.assert_array_equal(compiled_sum(places, source_values, numbers, numbers), expected)


@pytest.mark.parametrize("shares", [2, 3, 50])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, shares):
    rng = np.random.default_rng(6)
    places = rng.normal(size=(3, 200))
    source_values, numbers = sources(places, 1.0, rng), np.arange(200)
    expected = compiled_sum(places, source_values, numbers, numbers)
    monkeypatch.setattr(pairwise_sum, "parallel_task_count", lambda work: shares)
    np.testing.assert_array_equal(compiled_sum(places, source_values, numbers, numbers), expected)


def test_another_order_of_drones_is_the_same_sum():
    """Σ over the same pairs in another order: equal but for rounding; and permuted with the targets."""
    rng = np.random.default_rng(7)
    places, order = rng.normal(size=(3, 120)), rng.permutation(120)
    source_values, numbers = sources(places, 1.0, rng), np.arange(120)
    sums = compiled_sum(places, source_values, numbers, numbers)
    permuted = compiled_sum(places[:, order], source_values[:, order], numbers[order], numbers[order])
    np.testing.assert_allclose(permuted, sums[:, order], rtol=0.0, atol=1e-13)
    np.testing.assert_array_equal(
        compiled_sum(places[:, order], source_values, numbers[order], numbers), sums[:, order]
    )
