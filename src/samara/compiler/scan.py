"""The scan `scan(body, carry, inputs)`, the only loop over time, and the contract under which every backend compiles it.

A backend is a function

    compile_scan(body, carry, held_inputs, inputs, *, dtype, fast) -> run

where `body(carry, held_inputs, inputs) -> (carry, outputs)` is a pure function of nested tuples, straight-line and
without nested scans, and `carry`, `held_inputs`, `inputs` are templates of its arguments. The result works on flat,
component-first arrays of n drones:

    run(carry, held_inputs, inputs, steps, every) -> (carry, outputs)

with carry (nc, n); held a list of nh scalars or (n,) arrays, constant through the loop; inputs (steps, ni), shared by all
drones, or (steps, ni, n); outputs (steps // every, no, n), those of every `every`-th step.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten


class CompiledScan(Protocol):
    """A compiled scan over flat arrays."""

    def __call__(
        self, carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1
    ) -> tuple[Tree, Tree]: ...


class IdlePath(NamedTuple):
    """The idle path of a body: a cheaper version for steps in which effects are idle.

    `guard(carry, held_inputs, inputs)` is the condition for trying it. `body(carry, held_inputs, inputs) → (carry,
    outputs, guard)` computes it; its results equal those of the full body if the returned condition is true.
    """

    guard: Callable[[Tree, Tree, Tree], Tree]
    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree, Tree]]


class Templates(NamedTuple):
    """Arguments with the shapes that a body takes; their values do not matter."""

    carry: Tree
    held_inputs: Tree
    inputs: Tree


def scan(
    body: Callable[[Tree, Tree], tuple[Tree, Tree]], carry: Tree, inputs: Tree, reverse: bool = False
) -> tuple[Tree, Tree]:
    """carry, out[k] = body(carry, inputs[k]) for every k, or from the last to the first; returns carry, outputs.

    `inputs` is a nested tuple of arrays whose first axis is k; `outputs` has the shape of body's, stacked along k. With JAX
    arrays it is `jax.lax.scan`.
    """
    leaves = flatten(inputs)
    if any(type(leaf).__module__.partition(".")[0] in ("jax", "jaxlib") for leaf in (*leaves, *flatten(carry))):
        from jax import lax

        return lax.scan(body, carry, inputs, reverse=reverse)
    length = len(leaves[0])
    rows: list[Scalar] = [None] * length
    for k in range(length - 1, -1, -1) if reverse else range(length):
        carry, rows[k] = body(carry, unflatten(inputs, iter(leaf[k] for leaf in leaves)))
    columns = zip(*(flatten(row) for row in rows), strict=True)
    return carry, unflatten(
        rows[0], iter(np.stack([np.asarray(x) for x in column]) for column in columns)
    ) if rows else ()


def compile_scan_python(
    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]], templates: Templates, *, dtype: str, fast: bool = False
) -> CompiledScan:
    """Return the scan executed by Python: on floats for one drone, on NumPy arrays for several."""

    def run(carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
        n = carry.shape[1]
        is_single = n == 1

        def scalars(rows: Tree) -> Scalar:
            return iter([float(np.asarray(row).reshape(-1)[0]) if is_single else _scalar(row) for row in rows])

        state = unflatten(templates.carry, scalars(carry))
        constants = unflatten(templates.held_inputs, scalars(held_inputs))
        recorded = []
        for k in range(steps):
            step_inputs = unflatten(templates.inputs, scalars(inputs[k] if inputs is not None else ()))
            state, outputs = body(state, constants, step_inputs)
            if (k + 1) % every == 0:
                recorded.append(_stack(flatten(outputs), n, dtype))
        rows = len(recorded[0]) if recorded else 0
        return _stack(flatten(state), n, dtype), np.array(recorded, dtype=dtype).reshape(len(recorded), rows, n)

    return run


def _scalar(row: Tree) -> Scalar:
    return row if np.ndim(row) else float(row)


def _stack(leaves: list[Scalar], n: int, dtype: str) -> Scalar:
    return np.array([np.broadcast_to(np.asarray(leaf, dtype=dtype), (n,)) for leaf in leaves]).reshape(len(leaves), n)
