"""The scan as one GPU kernel, through Pallas and Triton: the carry stays in registers from the first step to the last.

A program of the kernel flies one block of drones: it loads their carry, loops over the steps and stores what is asked for.
Memory is touched for inputs and records only, so that arithmetic is the limit.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from samara.compiler.jax.arrays import Launch, Operand, call_kernel, load_rows, pad_lanes, repeat, store_rows
from samara.compiler.jax.scan import Body, Flat, flat_body, guarded, precision
from samara.compiler.scan import Quiet, Run, Templates

DEFAULT_LAUNCH = Launch()


def compile_scan_pallas(
    body: Body,
    templates: Templates,
    quiet: Quiet | None = None,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch = DEFAULT_LAUNCH,
    interpret: bool | None = None,
) -> Run:
    """The scan as one kernel, for any number of drones: the last block is filled up with copies of the last drone

    `interpret` runs it in JAX operation by operation, to be tested without a GPU; by default where JAX has none. A kernel is
    built for each number of steps, record interval and pattern of held values, when first met.
    """
    if launch.block < 1 or launch.block & (launch.block - 1):
        raise ValueError(f"a block of {launch.block} drones: expected a power of two")
    simulated = jax.default_backend() == "cpu" if interpret is None else interpret
    kernel = kernel_function(body, templates, quiet, dtype=dtype, fast=fast, launch=launch, interpret=simulated)
    options = (
        {"xla_disable_hlo_passes": "fusion"} if simulated else None
    )  # see MANY_OPERATIONS; here nobody counts speed
    compiled = jax.jit(kernel, static_argnums=(3, 4), compiler_options=options)

    def run(carry: Any, held: Sequence[Any], inputs: Any, steps: int, every: int = 1) -> tuple[Any, Any]:
        with precision(dtype):
            given = jnp.asarray(inputs, dtype) if inputs is not None else None
            return compiled(jnp.asarray(carry, dtype), [jnp.asarray(x, dtype) for x in held], given, steps, every)

    return run


def kernel_function(
    body: Body,
    templates: Templates,
    quiet: Quiet | None = None,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch = DEFAULT_LAUNCH,
    interpret: bool = False,
) -> Any:
    """`f(carry, held, inputs, steps, every) → carry, outputs` on flat arrays, not yet compiled: to lower or to inspect"""
    with precision(dtype):
        flat = guarded(flat_body(body, templates, dtype, fast), quiet, templates, fast)

    def whole(carry: Any, held: Sequence[Any], inputs: Any, steps: int, every: int) -> tuple[Any, Any]:
        n = carry.shape[1]
        block = min(launch.block, 1 << (n - 1).bit_length())
        missing = -n % block
        each = [x for x in held if x.ndim]
        same = [x for x in held if not x.ndim]
        operands = {
            "carry": pad_lanes(carry, missing),
            "same": jnp.stack(same) if same else None,
            "each": pad_lanes(jnp.stack(each), missing) if each else None,
            "inputs": inputs if inputs is None or inputs.ndim == 2 else pad_lanes(inputs, missing),
        }
        present = {name: x for name, x in operands.items() if x is not None and x.size}
        results = {"carry": carry.shape[0], "outputs": len(flat.places) if steps >= every else 0}
        shapes = {
            "carry": (results["carry"], n + missing),
            "outputs": (steps // every, results["outputs"], n + missing),
        }
        stored = {name: shape for name, shape in shapes.items() if results[name]}
        by_drone = {"carry", "each"} | ({"inputs"} if inputs is not None and inputs.ndim == 3 else set())
        kernel = _Kernel(flat, tuple(present), tuple(stored), tuple(bool(x.ndim) for x in held), steps, every)
        values = call_kernel(
            kernel,
            [Operand(x, name in by_drone) for name, x in present.items()],
            list(stored.values()),
            dtype=dtype,
            launch=launch._replace(block=block),
            interpret=interpret,
            name="scan",
        )
        found = {name: x[..., :n] for name, x in zip(stored, values, strict=True)}
        return found["carry"], found.get("outputs", jnp.zeros((steps // every, len(flat.places), n), dtype))

    return whole


class _Kernel:
    """The kernel over references to its operands and results, in the order of their names."""

    def __init__(
        self,
        flat: Flat,
        operands: tuple[str, ...],
        results: tuple[str, ...],
        held_by_drone: tuple[bool, ...],
        steps: int,
        every: int,
    ) -> None:
        self.flat, self.operands, self.results, self.held_by_drone = flat, operands, results, held_by_drone
        self.records, self.left_over = divmod(steps, every)
        self.every = every
        self.__name__ = "scan"

    def __call__(self, *references: Any) -> None:
        given = dict(zip(self.operands, references, strict=False))
        stored = dict(zip(self.results, references[len(self.operands) :], strict=True))
        carry = load_rows(given["carry"])
        each, same = iter(load_rows(given["each"]) if "each" in given else ()), iter(range(len(self.held_by_drone)))
        held = [next(each) if own else given["same"][next(same)] for own in self.held_by_drone]

        def step(k: Any, carry: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            row = given.get("inputs")
            inputs = [] if row is None else [row[k, i] if row.ndim == 2 else row[k, i, :] for i in range(row.shape[1])]
            return self.flat.step(carry, held, inputs)

        def record(r: Any, carry: list[Any]) -> list[Any]:
            nothing_yet = [jnp.zeros_like(carry[0])] * self.flat.extras
            first = r * self.every
            carry, extra = repeat(self.every, lambda i, both: step(first + i, both[0]), (carry, nothing_yet))
            for i, k in enumerate(self.flat.places):
                stored["outputs"][r, i, :] = (*carry, *extra)[k]
            return carry

        carry = repeat(self.records, record, carry)
        done = self.records * self.every
        carry = repeat(self.left_over, lambda i, carry: step(done + i, carry)[0], carry)
        store_rows(carry, stored["carry"], lambda i: (i, slice(None)))
