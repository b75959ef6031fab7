"""The scan in JAX: `jit` over `lax.scan`, on whatever devices JAX has. `samara.scan` is the same to differentiate.

Every component is an array of its own from the first step to the last, so that XLA sees one elementwise computation. Numbers
are what JAX makes them: multiply-adds are fused, and results agree with the other backends to a few rounding errors.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from samara.compiler.jax.folding_scalar import OperationCount, count_operations, folded, new_trace, unfolded
from samara.compiler.scan import Quiet, Run, Templates
from samara.core.tree import flatten

Body = Callable[[Any, Any, Any], tuple[Any, Any]]

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

    step: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]]
    places: tuple[int, ...]
    extras: int
    work: OperationCount


def flat_body(body: Body, templates: Templates, dtype: Any, fast: bool = False) -> Flat:
    """The body in folded scalars, traced once to count its operations and to see which of its outputs are the carry"""
    seen: dict[str, Any] = {}

    def step(carry: Sequence[Any], held: Sequence[Any], inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        trace = new_trace(carry[0].dtype, fast)
        groups = zip(templates, (carry, held, inputs), strict=True)
        advanced, outputs = body(*(folded(template, leaves, trace) for template, leaves in groups))
        after, wanted = unfolded(advanced), unfolded(outputs)
        at = {id(x): k for k, x in enumerate(after)}
        extra = [x for x in wanted if id(x) not in at]
        extra_places = iter(range(len(after), len(after) + len(extra)))
        seen["places"] = tuple(at[id(x)] if id(x) in at else next(extra_places) for x in wanted)
        shape, kind = jnp.shape(carry[0]), carry[0].dtype
        return [_as(x, shape, kind) for x in after], [_as(x, shape, kind) for x in extra]

    any_drone: Any = jax.ShapeDtypeStruct((1,), dtype)  # type: ignore[no-untyped-call]
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

    def traced(body: Callable[..., Any], given: Sequence[Sequence[Any]]) -> Any:
        trace = new_trace(given[0][0].dtype, fast)
        return body(*(folded(template, leaves, trace) for template, leaves in zip(templates, given, strict=True)))

    def step(*given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        carry = given[0]
        shape, kind = jnp.shape(carry[0]), carry[0].dtype

        def all_true(condition: Any) -> Any:
            return jnp.min(_as(condition, shape, jnp.int32)) > 0  # a kernel reduces numbers only

        def brief() -> Any:
            advanced, outputs, idle = traced(quiet.body, given)
            wanted = unfolded(outputs)
            found = [_as(x, shape, kind) for x in (*unfolded(advanced), *(wanted[k] for k in extras))]
            return found, all_true(unfolded(idle)[0])

        def not_tried() -> Any:
            return [*carry, *(jnp.zeros(shape, kind) for _ in extras)], worth_it  # false; a kernel yields no literals

        def whole() -> Any:
            after, extra = flat.step(*given)
            return [*after, *extra]

        worth_it = all_true(unfolded(traced(quiet.idle, given))[0])
        found, idle = lax.cond(worth_it, brief, not_tried)
        found = lax.cond(idle, lambda: found, whole)
        return found[:size], found[size:]

    return flat._replace(step=step)


def _as(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jnp.broadcast_to(lax.convert_element_type(x, dtype), shape)


def _scan(
    flat: Flat, carry: list[Any], held: list[Any], rows: Any, pick: Callable[[Any], list[Any]], steps: int, every: int
) -> tuple[list[Any], list[Any]]:
    """Records of `every` steps each, then the steps left over. `rows` has one row per step, `pick` makes inputs of it."""
    records, left_over = divmod(steps, every)

    def last(carry: list[Any], row: Any) -> tuple[list[Any], None]:
        return flat.step(carry, held, pick(row))[0], None

    def one(both: Any, row: Any) -> tuple[Any, None]:
        return flat.step(both[0], held, pick(row)), None

    def record(carry: list[Any], block: Any) -> tuple[list[Any], list[Any]]:
        if every == 1:
            carry, extra = flat.step(carry, held, pick(block))
        else:
            nothing_yet = [jnp.zeros_like(carry[0])] * flat.extras
            (carry, extra), _ = lax.scan(one, (carry, nothing_yet), block, length=every)
        return carry, [(*carry, *extra)[k] for k in flat.places]

    def blocks(row: Any) -> Any:
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

    def whole(flat: Flat, carry: Any, held: Sequence[Any], inputs: Any, steps: int, every: int) -> tuple[Any, Any]:
        end, outputs = _scan(flat, list(carry), list(held), inputs, _components, steps, every)
        n = carry.shape[1]
        return jnp.stack(end), jnp.stack(outputs, 1) if outputs else jnp.zeros((steps // every, 0, n), dtype)

    compiled: dict[tuple[str, int], Any] = {}

    def run(carry: Any, held: Sequence[Any], inputs: Any, steps: int, every: int = 1) -> tuple[Any, Any]:
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


def _components(row: Any) -> list[Any]:
    return [] if row is None else [row[k] for k in range(row.shape[0])]


def xla_options(operations: int, platform: str) -> dict[str, str] | None:
    """XLA's for a body of so many operations"""
    return {"xla_disable_hlo_passes": "fusion"} if platform == "cpu" and operations > MANY_OPERATIONS else None


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """JAX with doubles for as long as they are asked for; what is compiled meanwhile is kept apart from the rest."""
    if dtype != "float64" or jnp.result_type(float) == "float64":
        yield
        return
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental").enable_x64
    with enable(True):
        yield
