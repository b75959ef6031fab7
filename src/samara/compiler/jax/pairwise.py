"""Interactions between the drones of a flight in JAX: arrays of shape (drones, flights), in XLA or in one block of a kernel.

    felt = sum_over_others(f, mine, theirs)        # feltᵢ = Σ f(mineᵢ, theirsⱼ) over all j ≠ i of the same flight

`neighbours.sum_over_others` and `llvm_neighbours.NearSum` are the same sum on the CPU. `fold_over_others` is the general form:
the earliest of all meetings, for one.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.compiler.jax.folding_scalar import Folded, apart, folded, unfolded
from samara.core.tree import flatten, unflatten


def fold_over_others(body: Callable[[Any, Any, Any], Any], carry: Any, mine: Any, theirs: Any) -> Any:
    """carryᵢ ← body(carryᵢ, mineᵢ, theirsⱼ) for every j ≠ i of the same flight, in rising order of j

    All are nested tuples of folded scalars, with the drones of a flight along the first axis and flights along the second; a
    float is the same in all of them.
    """
    trace = next(leaf.trace for leaf in flatten((mine, theirs)) if isinstance(leaf, Folded))
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in unfolded((carry, mine, theirs))))
    if len(shape) != 2:
        raise ValueError(f"scalars have the shape {shape}; expected (drones, flights)")
    drone = lax.broadcasted_iota(jnp.int32, shape, 0)

    def filled(x: Any) -> Any:
        return jnp.broadcast_to(lax.convert_element_type(x, trace.dtype), shape)

    columns = [filled(x) for x in unfolded(theirs)]

    def turn(j: Any, arrays: Any) -> Any:
        is_other = drone == j
        rows = [jnp.sum(jnp.where(is_other, x, jnp.zeros_like(x)), axis=0, keepdims=True) for x in columns]
        with apart(trace):
            after = body(folded(carry, arrays, trace), mine, folded(theirs, [filled(x) for x in rows], trace))
            return [lax.select(is_other, old, filled(x)) for old, x in zip(arrays, unfolded(after), strict=True)]

    start = [filled(x) for x in unfolded(carry)]
    return folded(carry, lax.fori_loop(np.int32(0), np.int32(shape[0]), turn, start), trace)


def sum_over_others(f: Callable[[Any, Any], Any], mine: Any, theirs: Any) -> Any:
    """Σ f(mineᵢ, theirsⱼ) over all j ≠ i of the same flight, for every drone i"""
    shapes: list[Any] = []

    def probe() -> Any:
        trace = next(leaf.trace for leaf in flatten((mine, theirs)) if isinstance(leaf, Folded))
        with apart(trace):
            shapes.append(f(mine, theirs))
        return 0.0

    jax.eval_shape(probe)
    zero = unflatten(shapes[0], iter([0.0] * len(flatten(shapes[0]))))

    def add(total: Any, drone: Any, other: Any) -> Any:
        felt = flatten(f(drone, other))
        return unflatten(zero, iter([a + b for a, b in zip(flatten(total), felt, strict=True)]))

    return fold_over_others(add, zero, mine, theirs)
