"""The operations of `samara.core.ops` on bare JAX arrays: those of `jax.numpy`, with selections, lookups and loops by `lax`."""

import operator
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.core.block_ops import ConstantTable
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten

sqrt, exp, log, floor, sin, cos, tan = jnp.sqrt, jnp.exp, jnp.log, jnp.floor, jnp.sin, jnp.cos, jnp.tan
asin, acos, atan, atan2, minimum, maximum = jnp.asin, jnp.acos, jnp.atan, jnp.atan2, jnp.minimum, jnp.maximum
equal, power, logical_and, logical_or = operator.eq, operator.pow, jnp.logical_and, jnp.logical_or
_LITERALS = (float, int)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """A bare select: `jax.numpy.where` is a nested call that makes tracing slow and differentiating ten times slower."""
    if type(a) in _LITERALS and type(b) in _LITERALS:
        return jnp.where(condition, a, b)
    dtype, shape = jnp.result_type(a, b), jnp.broadcast_shapes(jnp.shape(condition), jnp.shape(a), jnp.shape(b))
    return lax.select(*(jnp.broadcast_to(x, shape) for x in (condition, jnp.asarray(a, dtype), jnp.asarray(b, dtype))))


def lookup(grid: ConstantTable, i: Scalar, j: Scalar) -> Scalar:
    """Return the entry of a grid at indices that are rounded down and clamped to its borders."""
    indices = tuple(
        jnp.minimum(jnp.where(jnp.greater(x, 0.0), x, 0.0), count - 1.0).astype(jnp.int32)
        for x, count in zip((i, j), grid.values.shape, strict=True)
    )
    return jnp.asarray(grid.values, dtype=float)[indices]


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """`samara.core.block_ops.loop` as one `lax` loop; a single iteration is computed without a loop."""
    if count == 1 and active is None:
        return body(0.0, carry, inputs)
    leaves = jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in (*flatten(carry), *flatten(inputs))))
    start = list(leaves[: len(flatten(carry))])

    def step(k: Scalar, arrays: Sequence[Scalar]) -> list[Scalar]:
        next_leaves = flatten(body(k * 1.0, unflatten(carry, iter(arrays)), inputs))
        return [
            jnp.broadcast_to(jnp.asarray(x, old.dtype), old.shape) for x, old in zip(next_leaves, arrays, strict=True)
        ]

    is_active = None if active is None else lambda arrays: active(unflatten(carry, iter(arrays)), inputs)
    return unflatten(carry, iter(lax_loop(step, is_active, start, count)))


def lax_loop(
    step: Callable[[Scalar, list[Scalar]], list[Scalar]],
    is_active: Callable[[list[Scalar]], Scalar] | None,
    start: list[Scalar],
    count: int,
) -> list[Scalar]:
    """step(k, arrays) → arrays, `count` times, or while `is_active(arrays)` holds in any element; others are unchanged."""
    if is_active is None:
        return lax.fori_loop(np.int32(0), np.int32(count), step, start)

    def is_any_active(loop_state: Scalar) -> Scalar:
        k, _, active_mask = loop_state
        return (k < count) & (jnp.max(active_mask) > 0)  # kernels can reduce numbers only

    def iterate(loop_state: Scalar) -> Scalar:
        k, arrays, active_mask = loop_state
        next_arrays = [lax.select(active_mask > 0, new, old) for new, old in zip(step(k, arrays), arrays, strict=True)]
        return k + np.int32(1), next_arrays, active_elements(next_arrays)

    def active_elements(arrays: list[Scalar]) -> Scalar:
        return jnp.broadcast_to(is_active(arrays), start[0].shape).astype(jnp.int32)

    return lax.while_loop(is_any_active, iterate, (jnp.int32(0), start, active_elements(start)))[1]
