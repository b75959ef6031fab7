"""Corners of strength three: every combination of the ends of any three parameters occurs equally often."""

from itertools import combinations, product

import numpy as np
import pytest

from samara.campaigns.falsify import corners, hadamard


@pytest.mark.parametrize("least", [1, 2, 3, 10, 12, 13, 20, 21, 25, 48])
def test_hadamard_matrices(least):
    matrix = hadamard(least)
    assert least <= len(matrix) <= least + 7 and set(matrix.ravel()) <= {-1.0, 1.0}
    assert (matrix @ matrix.T == len(matrix) * np.eye(len(matrix))).all()


@pytest.mark.parametrize("factors", [1, 2, 3, 7, 10, 17])
def test_any_three_factors_have_all_their_combinations_as_often(factors):
    rows = corners(factors)
    k = min(factors, 3)
    for chosen in combinations(range(factors), k):
        counts = [(rows[:, chosen] == ends).all(axis=1).sum() for ends in product((-1.0, 1.0), repeat=k)]
        assert counts == [len(rows) // 2**k] * 2**k


def test_few_rows():
    assert [len(corners(k)) for k in (1, 2, 3, 4, 10, 12)] == [2, 4, 8, 8, 24, 24]
