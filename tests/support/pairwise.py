"""Neighbours: what every drone of a world does to every other, as one primitive.

    felt = sum_over_others(f, mine, theirs)         # feltᵢ = Σ f(mineᵢ, theirsⱼ) over all j ≠ i

`mine` and `theirs` are nested tuples, `f` a pure function of one of each. Their scalars are arrays, one number per drone
(NumPy or JAX), or `mine` and `theirs` are lists of one tuple per drone (floats, symbols). Where only those who are near matter,
`llvm_neighbours.py` has the sum as machine code.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samara.core.ops import where
from samara.core.tree import flatten, unflatten

_PAIRS = 1 << 14  # at once; what is worked on stays in the cache

Pair = Callable[[Any, Any], Any]


def sum_over_others(f: Pair, mine: Any, theirs: Any, me: Any = None, them: Any = None) -> Any:
    """Σ_{j: themⱼ ≠ meᵢ} f(mineᵢ, theirsⱼ), for every i

    `me` and `them` are the drones' numbers, 0, 1, 2, … when not given; who has another number is another. So some drones
    may ask about all.
    """
    if isinstance(mine, list):
        return _one_by_one(f, mine, theirs, me, them)
    own, other = flatten(mine), flatten(theirs)
    library = _library(own + other)
    own, other = _rows(own, library), _rows(other, library)
    n, m = len(own[0]), len(other[0])
    me = library.arange(n) if me is None else library.asarray(me)
    them = library.arange(m) if them is None else library.asarray(them)
    columns = unflatten(theirs, iter([x[None, :] for x in other]))

    def block(rows: slice) -> list[Any]:
        felt = f(unflatten(mine, iter([x[rows, None] for x in own])), columns)
        others = me[rows, None] != them[None, :]
        shape.append(felt)
        return [where(others, x + library.zeros(others.shape), 0.0).sum(axis=1) for x in flatten(felt)]

    shape: list[Any] = []
    size = n if library is not np else max(1, _PAIRS // max(m, 1))
    parts = [block(slice(first, first + size)) for first in range(0, n, size)]
    sums = [library.concatenate(column) for column in zip(*parts, strict=True)]
    return unflatten(shape[0], iter(sums))


def _one_by_one(f: Pair, mine: list[Any], theirs: Sequence[Any], me: Any, them: Any) -> list[Any]:
    me, them = range(len(mine)) if me is None else me, range(len(theirs)) if them is None else them
    felt = []
    for i, own in zip(me, mine, strict=True):
        template = f(own, theirs[0])
        total = [0.0 for _ in flatten(template)]
        for j, other in zip(them, theirs, strict=True):
            if i != j:
                total = [a + b for a, b in zip(total, flatten(f(own, other)), strict=True)]
        felt.append(unflatten(template, iter(total)))
    return felt


def _library(leaves: list[Any]) -> Any:
    if any(type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib") for leaf in leaves):
        import jax.numpy

        return jax.numpy
    return np


def _rows(leaves: list[Any], library: Any) -> list[Any]:
    """Every leaf as long as the longest: a number that all drones share is repeated."""
    return list(library.broadcast_arrays(*(library.asarray(leaf, dtype=float) for leaf in leaves), library.zeros(1)))[
        :-1
    ]
