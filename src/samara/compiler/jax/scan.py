"""The scan in JAX: `jit` over `lax.scan`, on the devices of JAX. `samara.scan` is its differentiable counterpart.

Every component is a separate array from the first step to the last, so that XLA sees one elementwise computation. XLA fuses
multiply-adds, so results agree with the other backends to a few rounding errors.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from samara.compiler.jax.arrays import (
    Launch,
    Operand,
    call_kernel,
    fill,
    load_rows,
    pad_lanes,
    precision,
    repeat,
    store_rows,
)
from samara.compiler.jax.folding_scalar import OperationCount, count_operations, fold_tree, new_trace, unfold_leaves
from samara.compiler.scan import CompiledScan, IdlePath, Templates
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten

Body = Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]

MAX_FUSED_OPERATIONS = 1500
"""Operation count of a body above which XLA's fusion pass is disabled on the CPU.

The pass copies every scalar that several outputs share into each of them, recursively. A step with ground contact (2 600
operations) then takes ten times longer to compile, a minute instead of seconds, and runs three times slower. Bodies without
contact do not grow like this: on 1024 to 16384 drones a plain step (680) is two to eight times faster with the pass, one with a
controller (880) twice as fast, and both compile in seconds.
"""


class FlatBody(NamedTuple):
    """A body on flat lists of arrays.

    `step(carry, held, inputs) → carry, extra`; output k is `(*carry, *extra)[output_indices[k]]`: an output that is a
    component of the new carry, such as a recorded state, costs nothing until it is recorded.
    """

    step: Callable[[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]], tuple[list[Scalar], list[Scalar]]]
    output_indices: tuple[int, ...]
    extra_count: int
    work: OperationCount


def flat_body(body: Body, templates: Templates, dtype: Any, fast: bool = False) -> FlatBody:
    """Convert a body to folded scalars; trace it once to count its operations and to find the outputs that are the carry."""
    trace_results: dict[str, Scalar] = {}

    def step(
        carry: Sequence[Scalar], held_inputs: Sequence[Scalar], inputs: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
        trace = new_trace(carry[0].dtype, fast)
        groups = zip(templates, (carry, held_inputs, inputs), strict=True)
        next_carry_tree, outputs = body(*(fold_tree(template, leaves, trace) for template, leaves in groups))
        next_carry, output_leaves = unfold_leaves(next_carry_tree), unfold_leaves(outputs)
        carry_index = {id(x): k for k, x in enumerate(next_carry)}
        extra = [x for x in output_leaves if id(x) not in carry_index]
        extra_indices = iter(range(len(next_carry), len(next_carry) + len(extra)))
        trace_results["places"] = tuple(
            carry_index[id(x)] if id(x) in carry_index else next(extra_indices) for x in output_leaves
        )
        shape, element_type = jnp.shape(carry[0]), carry[0].dtype
        return [fill(x, shape, element_type) for x in next_carry], [fill(x, shape, element_type) for x in extra]

    one_drone: Scalar = jax.ShapeDtypeStruct((1,), dtype)  # type: ignore[no-untyped-call]
    traced = jax.make_jaxpr(step)(*([one_drone] * len(flatten(template)) for template in templates))
    outputs = len(traced.jaxpr.outvars) - len(flatten(templates.carry))
    return FlatBody(step, trace_results["places"], outputs, count_operations(traced.jaxpr))


def add_idle_branch(flat: FlatBody, idle_path: IdlePath | None, templates: Templates, fast: bool = False) -> FlatBody:
    """Add a branch to the flat body: the idle path if all drones are idle, the full body if any is not, or the path is invalid.

    All drones of a computation take the same branch. Without an idle path the body is returned unchanged.
    """
    if idle_path is None:
        return flat
    size = len(flatten(templates.carry))
    extras = [flat.output_indices.index(size + k) for k in range(flat.extra_count)]

    def trace_body(body: Callable[..., Tree], arguments: Sequence[Sequence[Scalar]]) -> Scalar:
        trace = new_trace(arguments[0][0].dtype, fast)
        return body(
            *(fold_tree(template, leaves, trace) for template, leaves in zip(templates, arguments, strict=True))
        )

    def step(*arguments: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        carry = arguments[0]
        shape, dtype = jnp.shape(carry[0]), carry[0].dtype

        def all_true(condition: Scalar) -> Scalar:
            return jnp.min(fill(condition, shape, jnp.int32)) > 0  # kernels can reduce numbers only

        def run_idle_path() -> Scalar:
            next_carry, outputs, is_valid = trace_body(idle_path.body, arguments)
            output_leaves = unfold_leaves(outputs)
            results = [fill(x, shape, dtype) for x in (*unfold_leaves(next_carry), *(output_leaves[k] for k in extras))]
            return results, all_true(unfold_leaves(is_valid)[0])

        def skip_idle_path() -> Scalar:
            return [
                *carry,
                *(jnp.zeros(shape, dtype) for _ in extras),
            ], is_worth_trying  # false; kernels cannot yield literals

        def run_full() -> Scalar:
            full_carry, extra = flat.step(*arguments)
            return [*full_carry, *extra]

        is_worth_trying = all_true(unfold_leaves(trace_body(idle_path.guard, arguments))[0])
        results, is_valid = lax.cond(is_worth_trying, run_idle_path, skip_idle_path)
        results = lax.cond(is_valid, lambda: results, run_full)
        return results[:size], results[size:]

    return flat._replace(step=step)


def _scan(
    flat: FlatBody,
    carry: list[Scalar],
    held_inputs: list[Scalar],
    rows: Tree,
    pick: Callable[[Scalar], list[Scalar]],
    steps: int,
    every: int,
) -> tuple[list[Scalar], list[Scalar]]:
    """Scan records of `every` steps each, then the remaining steps. `rows` has one row per step; `pick` extracts inputs."""
    records, remaining = divmod(steps, every)

    def final_step(carry: list[Scalar], row: Tree) -> tuple[list[Scalar], None]:
        return flat.step(carry, held_inputs, pick(row))[0], None

    def unrecorded_step(carry_and_extra: Tree, row: Tree) -> tuple[Scalar, None]:
        return flat.step(carry_and_extra[0], held_inputs, pick(row)), None

    def record(carry: list[Scalar], block: Tree) -> tuple[list[Scalar], list[Scalar]]:
        if every == 1:
            carry, extra = flat.step(carry, held_inputs, pick(block))
        else:
            empty_extra = [jnp.zeros_like(carry[0])] * flat.extra_count
            (carry, extra), _ = lax.scan(unrecorded_step, (carry, empty_extra), block, length=every)
        return carry, [(*carry, *extra)[k] for k in flat.output_indices]

    def blocks(row: Tree) -> Scalar:
        row = row[: records * every]
        return row if every == 1 else row.reshape(records, every, *row.shape[1:])

    carry, outputs = lax.scan(record, carry, jax.tree.map(blocks, rows), length=records)
    if remaining:
        carry, _ = lax.scan(final_step, carry, jax.tree.map(lambda row: row[records * every :], rows), length=remaining)
    return carry, outputs


def compile_scan_jax(
    body: Body, templates: Templates, idle_path: IdlePath | None = None, *, dtype: str, fast: bool = False
) -> CompiledScan:
    """Compile the scan with XLA, for the devices of the carry; a batch sharded over several devices stays sharded.

    On one CPU all drones of a batch take the idle path, or none: in the air a step with contact is ten times faster. Several
    devices would have to synchronise for it. Results are JAX arrays of `dtype`. Doubles work even if JAX has them disabled.
    """
    with precision(dtype):
        full_body = flat_body(body, templates, dtype, fast)

    def scan_arrays(
        flat: FlatBody, carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int
    ) -> tuple[Tree, Tree]:
        end, outputs = _scan(flat, list(carry), list(held_inputs), inputs, _components, steps, every)
        n = carry.shape[1]
        return jnp.stack(end), jnp.stack(outputs, 1) if outputs else jnp.zeros((steps // every, 0, n), dtype)

    compiled: dict[tuple[str, int], Scalar] = {}

    def run(carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
        with precision(dtype):
            start = jnp.asarray(carry, dtype)
            device_key = next(iter(start.devices())).platform, len(start.devices())
            if device_key not in compiled:
                options = xla_options(full_body.work.operations, device_key[0])
                scan_function = partial(
                    scan_arrays,
                    add_idle_branch(full_body, idle_path if device_key == ("cpu", 1) else None, templates, fast),
                )
                compiled[device_key] = jax.jit(scan_function, static_argnums=(3, 4), compiler_options=options)
            input_array = jnp.asarray(inputs, dtype) if inputs is not None else None
            return compiled[device_key](start, [jnp.asarray(x, dtype) for x in held_inputs], input_array, steps, every)

    return run


def _components(row: Tree) -> list[Scalar]:
    return [] if row is None else [row[k] for k in range(row.shape[0])]


def xla_options(operations: int, platform: str) -> dict[str, str] | None:
    """Return XLA's compiler options for a body with this operation count."""
    return {"xla_disable_hlo_passes": "fusion"} if platform == "cpu" and operations > MAX_FUSED_OPERATIONS else None


DEFAULT_LAUNCH = Launch()


def compile_scan_pallas(
    body: Body,
    templates: Templates,
    idle_path: IdlePath | None = None,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch = DEFAULT_LAUNCH,
    interpret: bool | None = None,
) -> CompiledScan:
    """Compile the scan as one GPU kernel for any drone count: the last block is padded with copies of the last drone.

    `interpret` runs it in JAX operation by operation, for tests without a GPU; by default if JAX has none. A kernel is built
    for each step count, record interval and combination of uniform and per-drone held inputs, on first use.
    """
    if launch.block < 1 or launch.block & (launch.block - 1):
        raise ValueError(f"a block of {launch.block} drones: expected a power of two")
    simulated = jax.default_backend() == "cpu" if interpret is None else interpret
    kernel = kernel_function(body, templates, idle_path, dtype=dtype, fast=fast, launch=launch, interpret=simulated)
    options = (
        {"xla_disable_hlo_passes": "fusion"} if simulated else None
    )  # see MAX_FUSED_OPERATIONS; speed does not matter here
    compiled = jax.jit(kernel, static_argnums=(3, 4), compiler_options=options)

    def run(carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
        with precision(dtype):
            input_array = jnp.asarray(inputs, dtype) if inputs is not None else None
            return compiled(
                jnp.asarray(carry, dtype), [jnp.asarray(x, dtype) for x in held_inputs], input_array, steps, every
            )

    return run


def kernel_function(
    body: Body,
    templates: Templates,
    idle_path: IdlePath | None = None,
    *,
    dtype: str,
    fast: bool = False,
    launch: Launch = DEFAULT_LAUNCH,
    interpret: bool = False,
) -> Scalar:
    """Return `f(carry, held, inputs, steps, every) → carry, outputs` on flat arrays, uncompiled: to lower or to inspect."""
    with precision(dtype):
        flat = add_idle_branch(flat_body(body, templates, dtype, fast), idle_path, templates, fast)

    def scan_arrays(
        carry: Tree, held_inputs: Sequence[Scalar], inputs: Tree, steps: int, every: int
    ) -> tuple[Tree, Tree]:
        n = carry.shape[1]
        block = min(launch.block, 1 << (n - 1).bit_length())
        missing = -n % block
        per_drone = [x for x in held_inputs if x.ndim]
        uniform = [x for x in held_inputs if not x.ndim]
        operands = {
            "carry": pad_lanes(carry, missing),
            "same": jnp.stack(uniform) if uniform else None,
            "each": pad_lanes(jnp.stack(per_drone), missing) if per_drone else None,
            "inputs": inputs if inputs is None or inputs.ndim == 2 else pad_lanes(inputs, missing),
        }
        present_operands = {name: x for name, x in operands.items() if x is not None and x.size}
        results = {"carry": carry.shape[0], "outputs": len(flat.output_indices) if steps >= every else 0}
        shapes = {
            "carry": (results["carry"], n + missing),
            "outputs": (steps // every, results["outputs"], n + missing),
        }
        stored = {name: shape for name, shape in shapes.items() if results[name]}
        by_drone = {"carry", "each"} | ({"inputs"} if inputs is not None and inputs.ndim == 3 else set())
        kernel = _ScanKernel(
            flat, tuple(present_operands), tuple(stored), tuple(bool(x.ndim) for x in held_inputs), steps, every
        )
        values = call_kernel(
            kernel,
            [Operand(x, name in by_drone) for name, x in present_operands.items()],
            list(stored.values()),
            dtype=dtype,
            launch=launch._replace(block=block),
            interpret=interpret,
            name="scan",
        )
        by_name = {name: x[..., :n] for name, x in zip(stored, values, strict=True)}
        return by_name["carry"], by_name.get("outputs", jnp.zeros((steps // every, len(flat.output_indices), n), dtype))

    return scan_arrays


class _ScanKernel:
    """The kernel over references to its operands and results, in the order of their names."""

    def __init__(
        self,
        flat: FlatBody,
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

    def __call__(self, *references: Scalar) -> None:
        operands = dict(zip(self.operands, references, strict=False))
        stored = dict(zip(self.results, references[len(self.operands) :], strict=True))
        carry = load_rows(operands["carry"])
        per_drone, uniform_index = (
            iter(load_rows(operands["each"]) if "each" in operands else ()),
            iter(range(len(self.held_by_drone))),
        )
        held_inputs = [
            next(per_drone) if is_per_drone else operands["same"][next(uniform_index)]
            for is_per_drone in self.held_by_drone
        ]

        def step(k: Scalar, carry: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
            row = operands.get("inputs")
            inputs = [] if row is None else [row[k, i] if row.ndim == 2 else row[k, i, :] for i in range(row.shape[1])]
            return self.flat.step(carry, held_inputs, inputs)

        def record(r: Scalar, carry: list[Scalar]) -> list[Scalar]:
            empty_extra = [jnp.zeros_like(carry[0])] * self.flat.extra_count
            first = r * self.every
            carry, extra = repeat(
                self.every, lambda i, carry_and_extra: step(first + i, carry_and_extra[0]), (carry, empty_extra)
            )
            for i, k in enumerate(self.flat.output_indices):
                stored["outputs"][r, i, :] = (*carry, *extra)[k]
            return carry

        carry = repeat(self.records, record, carry)
        recorded_steps = self.records * self.every
        carry = repeat(self.left_over, lambda i, carry: step(recorded_steps + i, carry)[0], carry)
        store_rows(carry, stored["carry"], lambda i: (i, slice(None)))
