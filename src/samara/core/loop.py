"""A loop on scalars of any backend: Newton's steps, the solids of a list, the impacts within a step.

    carry = loop(body, carry, inputs, count=24, active=is_apart)

Floats and NumPy arrays run it in Python. JAX runs it as one `lax` loop. A trace for machine code keeps it as one instruction
(`samara.compiler.trace.program`), so that the code does not grow with the number of turns.
"""

from collections.abc import Callable
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
