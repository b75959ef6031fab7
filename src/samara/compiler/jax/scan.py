"""The scan in JAX: `jit` over `lax.scan`, on whatever devices JAX has. `samara.scan` is the same to differentiate.

Every component is an array of its own from the first step to the last, so that XLA sees one elementwise computation. Numbers
are what JAX makes them: multiply-adds are fused, and results agree with the other backends to a few rounding errors.
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
from samara.compiler.jax.folding_scalar import OperationCount, count_operations, folded, new_trace, unfolded
from samara.compiler.scan import Quiet, Run, Templates
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten

Body = Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]

MANY_OPERATIONS = 1500
"""Above so many operations in a body XLA's fusion pass is left out on the CPU.

The pass copies every scalar that several outputs share into each of them, and theirs into them again. A step with ground
contact (2 600 operations) then takes ten times longer to compile, a minute instead of seconds, and runs three times slower.
Bodies without contact do not grow so: on 1024 to 16384 drones a plain step (680) is two to eight times faster with the pass,
one with a controller (880) twice as fast, and both compile in seconds.
"""


class Flat(NamedTuple):
    """A body on flat lists of arrays.

    `step(carry, held, inputs) → carry, extra`; output k is `(*carry, *extra)[places[k]]`: an output that is a component of
    the new carry, as a recorded state is, costs nothing until it is recorded.
    """

    step: Callable[[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]], tuple[list[Scalar], list[Scalar]]]
    places: tuple[int, ...]
    extras: int
    work: OperationCount


def flat_body(body: Body, templates: Templates, dtype: Any, fast: bool = False) -> Flat:
    """The body in folded scalars, traced once to count its operations and to see which of its outputs are the carry"""
    seen: dict[str, Scalar] = {}

    def step(
        carry: Sequence[Scalar], held: Sequence[Scalar], inputs: Sequence[Scalar]
    ) -> tuple[list[Scalar], list[Scalar]]:
        trace = new_trace(carry[0].dtype, fast)
        groups = zip(templates, (carry, held, inputs), strict=True)
        advanced, outputs = body(*(folded(template, leaves, trace) for template, leaves in groups))
        after, wanted = unfolded(advanced), unfolded(outputs)
        at = {id(x): k for k, x in enumerate(after)}
        extra = [x for x in wanted if id(x) not in at]
        extra_places = iter(range(len(after), len(after) + len(extra)))
        seen["places"] = tuple(at[id(x)] if id(x) in at else next(extra_places) for x in wanted)
        shape, kind = jnp.shape(carry[0]), carry[0].dtype
        return [fill(x, shape, kind) for x in after], [fill(x, shape, kind) for x in extra]

    any_drone: Scalar = jax.ShapeDtypeStruct((1,), dtype)  # type: ignore[no-untyped-call]
    traced = jax.make_jaxpr(step)(*([any_drone] * len(flatten(template)) for template in templates))
    outputs = len(traced.jaxpr.outvars) - len(flatten(templates.carry))
    return Flat(step, seen["places"], outputs, count_operations(traced.jaxpr))


def guarded(flat: Flat, quiet: Quiet | None, templates: Templates, fast: bool = False) -> Flat:
    """The flat body with a branch: the quiet way where all drones are idle, the whole one where any is not, or was not

    All drones that are computed together go the same way. Without a quiet way it is as it was.
    """
    if quiet is None:
        return flat
    size = len(flatten(templates.carry))
    extras = [flat.places.index(size + k) for k in range(flat.extras)]

    def traced(body: Callable[..., Tree], given: Sequence[Sequence[Scalar]]) -> Scalar:
        trace = new_trace(given[0][0].dtype, fast)
        return body(*(folded(template, leaves, trace) for template, leaves in zip(templates, given, strict=True)))

    def step(*given: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        carry = given[0]
        shape, kind = jnp.shape(carry[0]), carry[0].dtype

        def all_true(condition: Scalar) -> Scalar:
            return jnp.min(fill(condition, shape, jnp.int32)) > 0  # a kernel reduces numbers only

        def brief() -> Scalar:
            advanced, outputs, idle = traced(quiet.body, given)
            wanted = unfolded(outputs)
            found = [fill(x, shape, kind) for x in (*unfolded(advanced), *(wanted[k] for k in extras))]
            return found, all_true(unfolded(idle)[0])

        def not_tried() -> Scalar:
            return [*carry, *(jnp.zeros(shape, kind) for _ in extras)], worth_it  # false; a kernel yields no literals

        def whole() -> Scalar:
            after, extra = flat.step(*given)
            return [*after, *extra]

        worth_it = all_true(unfolded(traced(quiet.idle, given))[0])
        found, idle = lax.cond(worth_it, brief, not_tried)
        found = lax.cond(idle, lambda: found, whole)
        return found[:size], found[size:]

    return flat._replace(step=step)


def _scan(
    flat: Flat,
    carry: list[Scalar],
    held: list[Scalar],
    rows: Tree,
    pick: Callable[[Scalar], list[Scalar]],
    steps: int,
    every: int,
) -> tuple[list[Scalar], list[Scalar]]:
    """Records of `every` steps each, then the steps left over. `rows` has one row per step, `pick` makes inputs of it."""
    records, left_over = divmod(steps, every)

    def last(carry: list[Scalar], row: Tree) -> tuple[list[Scalar], None]:
        return flat.step(carry, held, pick(row))[0], None

    def one(both: Tree, row: Tree) -> tuple[Scalar, None]:
        return flat.step(both[0], held, pick(row)), None

    def record(carry: list[Scalar], block: Tree) -> tuple[list[Scalar], list[Scalar]]:
        if every == 1:
            carry, extra = flat.step(carry, held, pick(block))
        else:
            nothing_yet = [jnp.zeros_like(carry[0])] * flat.extras
            (carry, extra), _ = lax.scan(one, (carry, nothing_yet), block, length=every)
        return carry, [(*carry, *extra)[k] for k in flat.places]

    def blocks(row: Tree) -> Scalar:
        row = row[: records * every]
        return row if every == 1 else row.reshape(records, every, *row.shape[1:])

    carry, outputs = lax.scan(record, carry, jax.tree.map(blocks, rows), length=records)
    if left_over:
        carry, _ = lax.scan(last, carry, jax.tree.map(lambda row: row[records * every :], rows), length=left_over)
    return carry, outputs


def compile_scan_jax(
    body: Body, templates: Templates, quiet: Quiet | None = None, *, dtype: str, fast: bool = False
) -> Run:
    """The scan compiled by XLA, for the devices the carry is on; a batch sharded over several stays so

    On one CPU all drones of a batch go the quiet way, or none: in the air a step with contact is ten times faster. Several
    devices would have to ask each other. Results are JAX arrays of the type asked for. Doubles work whether or not JAX has
    them switched on.
    """
    with precision(dtype):
        plain = flat_body(body, templates, dtype, fast)

    def whole(
        flat: Flat, carry: Tree, held: Sequence[Scalar], inputs: Tree, steps: int, every: int
    ) -> tuple[Tree, Tree]:
        end, outputs = _scan(flat, list(carry), list(held), inputs, _components, steps, every)
        n = carry.shape[1]
        return jnp.stack(end), jnp.stack(outputs, 1) if outputs else jnp.zeros((steps // every, 0, n), dtype)

    compiled: dict[tuple[str, int], Scalar] = {}

    def run(carry: Tree, held: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
        with precision(dtype):
            start = jnp.asarray(carry, dtype)
            where = next(iter(start.devices())).platform, len(start.devices())
            if where not in compiled:
                options = xla_options(plain.work.operations, where[0])
                way = partial(whole, guarded(plain, quiet if where == ("cpu", 1) else None, templates, fast))
                compiled[where] = jax.jit(way, static_argnums=(3, 4), compiler_options=options)
            given = jnp.asarray(inputs, dtype) if inputs is not None else None
            return compiled[where](start, [jnp.asarray(x, dtype) for x in held], given, steps, every)

    return run


def _components(row: Tree) -> list[Scalar]:
    return [] if row is None else [row[k] for k in range(row.shape[0])]


def xla_options(operations: int, platform: str) -> dict[str, str] | None:
    """XLA's for a body of so many operations"""
    return {"xla_disable_hlo_passes": "fusion"} if platform == "cpu" and operations > MANY_OPERATIONS else None


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

    def run(carry: Tree, held: Sequence[Scalar], inputs: Tree, steps: int, every: int = 1) -> tuple[Tree, Tree]:
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
) -> Scalar:
    """`f(carry, held, inputs, steps, every) → carry, outputs` on flat arrays, not yet compiled: to lower or to inspect"""
    with precision(dtype):
        flat = guarded(flat_body(body, templates, dtype, fast), quiet, templates, fast)

    def whole(carry: Tree, held: Sequence[Scalar], inputs: Tree, steps: int, every: int) -> tuple[Tree, Tree]:
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

    def __call__(self, *references: Scalar) -> None:
        given = dict(zip(self.operands, references, strict=False))
        stored = dict(zip(self.results, references[len(self.operands) :], strict=True))
        carry = load_rows(given["carry"])
        each, same = iter(load_rows(given["each"]) if "each" in given else ()), iter(range(len(self.held_by_drone)))
        held = [next(each) if own else given["same"][next(same)] for own in self.held_by_drone]

        def step(k: Scalar, carry: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
            row = given.get("inputs")
            inputs = [] if row is None else [row[k, i] if row.ndim == 2 else row[k, i, :] for i in range(row.shape[1])]
            return self.flat.step(carry, held, inputs)

        def record(r: Scalar, carry: list[Scalar]) -> list[Scalar]:
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
