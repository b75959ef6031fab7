"""Intervals: no number between the bounds of the arguments gives a result beyond the bounds of the result, to the last bit."""

import numpy as np
import pytest

from samara.compiler.llvm.pairwise_sum import NumericInterval, intervals
from samara.core.algebra import Vec3, dot

FUNCTIONS = {
    "sum": lambda a, b: a + b + 0.1,
    "difference": lambda a, b: 0.3 - a - (b - 2.5),
    "product": lambda a, b: a * b,
    "scaled": lambda a, b: -0.7 * a + b * 1.3,
    "square": lambda a, b: a * a - b * b,
    "negative": lambda a, b: -a * b,
    "polynomial": lambda a, b: 3.0 * (a * a + b) * (a - b) + a * (b * b) - 1.0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_hold_to_the_last_bit(name):
    """Ends included: at x = low and x = high a bound rounded in the wrong direction would fail."""
    rng, function = np.random.default_rng(0), FUNCTIONS[name]
    for scale in (1e-8, 1.0, 1e6):
        ends = np.sort(rng.normal(size=(2, 2, 500)) * scale, axis=0)
        (low_a, low_b), (high_a, high_b) = ends
        bound = function(NumericInterval(low_a, high_a), NumericInterval(low_b, high_b))
        for share in (*rng.uniform(0.0, 1.0, (20, 2, 500)), *np.array([(0, 0), (0, 1), (1, 0), (1, 1)])[:, :, None]):
            a, b = np.clip(ends[0] + share * (ends[1] - ends[0]), *ends)
            value = function(a, b)
            assert (bound.low <= value).all() and (value <= bound.high).all()


def test_bounds_are_reached():
    """The bounds are tight: for a sum, a product and a square some number reaches each."""
    a, b = NumericInterval(-2.0, 3.0), NumericInterval(-1.0, 4.0)
    assert ((a + b).low, (a + b).high) == (-3.0, 7.0)
    assert ((a - b).low, (a - b).high) == (-6.0, 4.0)
    assert ((a * b).low, (a * b).high) == (-8.0, 12.0)
    assert ((a * a).low, (a * a).high) == (0.0, 9.0)
    assert ((-2.0 * a).low, (-2.0 * a).high) == (-6.0, 4.0)
    below = NumericInterval(-3.0, -2.0)
    assert ((below * below).low, (below * below).high) == (4.0, 9.0)


def test_nested_tuples_of_intervals_are_vectors():
    """|x|² of a box from (1, −1, 2) to (2, 1, 3) is between 1 + 0 + 4 and 4 + 1 + 9."""
    box = intervals(Vec3(1.0, -1.0, 2.0), Vec3(2.0, 1.0, 3.0))
    square = dot(box, box)
    assert (square.low, square.high) == (5.0, 14.0)
