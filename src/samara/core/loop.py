"""A loop on scalars of any backend: Newton's steps, the solids of a list, the impacts within a step.

    carry = loop(body, carry, inputs, count=24, active=is_apart)

Floats and NumPy arrays run it in Python. JAX runs it as one `lax` loop. A trace for machine code keeps it as one instruction
(`samara.compiler.trace.program`), so that the code does not grow with the number of turns.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from samara.core.ops import library_of, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten

_TRACES = ("samara.compiler.trace.casadi_scalar", "samara.compiler.trace.tape_scalar")
Body = Callable[[Scalar, Any, Any], Any]
Condition = Callable[[Any, Any], Scalar]


def loop(body: Body, carry: Any, inputs: Any = (), *, count: int, active: Condition | None = None) -> Any:
    """carry ← body(k, carry, inputs) for k = 0 … count − 1, in every lane while `active(carry, inputs)` holds in it

    `carry` and `inputs` are nested tuples of numbers, none of them conditions. Whatever the body reads of a traced computation
    has to be in `inputs`; it may close over floats. All lanes stop once none is active. A trace simplifies nothing across the
    border of a loop, not even of one with a single turn.
    """
    library = library_of(*flatten(carry), *flatten(inputs))
    if count == 1 and active is None and library.__name__ not in _TRACES:
        return body(0.0, carry, inputs)
    if library.__name__ == "jax.numpy":
        return _jax_loop(body, carry, inputs, count, active)
    run: Any = getattr(library, "loop", unrolled)
    return run(body, carry, inputs, count, active)


def unrolled(body: Body, carry: Any, inputs: Any, count: int, active: Condition | None) -> Any:
    """Run the loop turn by turn; numbers leave the loop as soon as no lane is active"""
    for k in range(count):
        going = True if active is None else active(carry, inputs)
        if isinstance(going, (bool, np.bool_, np.ndarray)) and not np.any(going):
            break
        after = body(float(k), carry, inputs)
        carry = after if active is None else select(going, after, carry)
    return carry


def select(condition: Scalar, a: Any, b: Any) -> Any:
    """`where`, for each leaf of two nested tuples of the same shape"""
    return unflatten(a, iter([where(condition, x, y) for x, y in zip(flatten(a), flatten(b), strict=True)]))


def _jax_loop(body: Body, carry: Any, inputs: Any, count: int, active: Condition | None) -> Any:
    jnp = importlib.import_module("jax.numpy")
    leaves = jnp.broadcast_arrays(*(jnp.asarray(x, dtype=float) for x in (*flatten(carry), *flatten(inputs))))
    start = list(leaves[: len(flatten(carry))])

    def step(k: Any, arrays: Sequence[Any]) -> list[Any]:
        after = flatten(body(k * 1.0, unflatten(carry, iter(arrays)), inputs))
        return [jnp.broadcast_to(jnp.asarray(x, old.dtype), old.shape) for x, old in zip(after, arrays, strict=True)]

    going = None if active is None else lambda arrays: active(unflatten(carry, iter(arrays)), inputs)
    return unflatten(carry, iter(lax_loop(step, going, start, count)))


def lax_loop(step: Callable[[Any, Any], Any], going: Callable[[Any], Any] | None, start: list[Any], count: int) -> Any:
    """step(k, arrays) → arrays, `count` times, or while `going(arrays)` is true of any lane; the others keep theirs"""
    jnp, lax = importlib.import_module("jax.numpy"), importlib.import_module("jax.lax")
    if going is None:
        return lax.fori_loop(np.int32(0), np.int32(count), step, start)

    def any_going(turn: Any) -> Any:
        k, _, on = turn
        return (k < count) & (jnp.max(on) > 0)  # a kernel reduces numbers only

    def once(turn: Any) -> Any:
        k, arrays, on = turn
        after = [lax.select(on > 0, new, old) for new, old in zip(step(k, arrays), arrays, strict=True)]
        return k + np.int32(1), after, lanes(after)

    def lanes(arrays: Any) -> Any:
        return jnp.broadcast_to(going(arrays), start[0].shape).astype(jnp.int32)

    return lax.while_loop(any_going, once, (jnp.int32(0), start, lanes(start)))[1]
