"""Pairwise sums: the effect of every drone of a world on every other, as one primitive.

    felt = sum_over_others(f, trees, other_trees)   # feltᵢ = Σ f(treeᵢ, otherⱼ) over all j ≠ i

`trees` and `other_trees` are nested tuples, `f` a pure function of one of each. Their scalars are arrays, one number per drone
(NumPy or JAX), or `trees` and `other_trees` are lists of one tuple per drone (floats, symbols). If only near drones matter,
`llvm_neighbours.py` has the compiled sum.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samara.core.ops import where
from samara.core.tree import flatten, unflatten

_PAIRS = 1 << 14  # computed at once; the working set stays in the cache

Pair = Callable[[Any, Any], Any]


def sum_over_others(f: Pair, trees: Any, other_trees: Any, indices: Any = None, other_indices: Any = None) -> Any:
    """Σ_{j: other_indexⱼ ≠ indexᵢ} f(treeᵢ, otherⱼ), for every i.

    `indices` and `other_indices` are the drones' indices, 0, 1, 2, … by default; a drone with another index is another drone.
    So the sum may be over all drones for some of them.
    """
    if isinstance(trees, list):
        return _one_by_one(f, trees, other_trees, indices, other_indices)
    leaves, other_leaves = flatten(trees), flatten(other_trees)
    library = _library(leaves + other_leaves)
    leaves, other_leaves = _rows(leaves, library), _rows(other_leaves, library)
    n, m = len(leaves[0]), len(other_leaves[0])
    indices = library.arange(n) if indices is None else library.asarray(indices)
    other_indices = library.arange(m) if other_indices is None else library.asarray(other_indices)
    columns = unflatten(other_trees, iter([x[None, :] for x in other_leaves]))

    def block(rows: slice) -> list[Any]:
        effect = f(unflatten(trees, iter([x[rows, None] for x in leaves])), columns)
        is_other = indices[rows, None] != other_indices[None, :]
        shape.append(effect)
        return [where(is_other, x + library.zeros(is_other.shape), 0.0).sum(axis=1) for x in flatten(effect)]

    shape: list[Any] = []
    size = n if library is not np else max(1, _PAIRS // max(m, 1))
    parts = [block(slice(first, first + size)) for first in range(0, n, size)]
    sums = [library.concatenate(column) for column in zip(*parts, strict=True)]
    return unflatten(shape[0], iter(sums))


def _one_by_one(f: Pair, trees: list[Any], other_trees: Sequence[Any], indices: Any, other_indices: Any) -> list[Any]:
    indices, other_indices = (
        range(len(trees)) if indices is None else indices,
        range(len(other_trees)) if other_indices is None else other_indices,
    )
    sums = []
    for i, tree in zip(indices, trees, strict=True):
        template = f(tree, other_trees[0])
        total = [0.0 for _ in flatten(template)]
        for j, other_tree in zip(other_indices, other_trees, strict=True):
            if i != j:
                total = [a + b for a, b in zip(total, flatten(f(tree, other_tree)), strict=True)]
        sums.append(unflatten(template, iter(total)))
    return sums


def _library(leaves: list[Any]) -> Any:
    if any(type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib") for leaf in leaves):
        import jax.numpy

        return jax.numpy
    return np


def _rows(leaves: list[Any], library: Any) -> list[Any]:
    """Broadcast every leaf to the length of the longest; a value that all drones share is repeated."""
    return list(library.broadcast_arrays(*(library.asarray(leaf, dtype=float) for leaf in leaves), library.zeros(1)))[
        :-1
    ]
