"""The scalar for JAX traces: folds operations with a literal zero or one, and shares common subexpressions.

Neither XLA nor Triton folds 0·x (x might be NaN), so a generic rotor pays for every zero of its geometry. Here 0·x, x + 0,
1·x, 0/x and −(−x) cost nothing, provided the zero or one is a Python number: a literal in the source, or a parameter that is
folded in. Values computed at run time are never inspected, so a NaN in the state stays a NaN. The same operation on the same
operands is traced once.

With `fast` a quotient becomes a product with the reciprocal, which is computed once per divisor, or not at all for a literal;
and consecutive literal factors are combined: dt/2 · (f / m) is one product.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samara.compiler.jax.array_scalar import lax_loop
from samara.core.block_ops import ACTIVATIONS, ConstantTable, Layer
from samara.core.integrate import RK4, StageChain, rk4, stage_chain, unit_quaternions
from samara.core.quantity import Scalar
from samara.core.traced_scalar import TracedScalar, trace_error
from samara.core.tree import Tree, flatten, unflatten


class Trace(NamedTuple):
    """The state that the scalars of one trace share: their type, the `fast` flag, and the recorded operations."""

    dtype: Any
    fast: bool
    recorded: dict[tuple[Scalar, ...], tuple[Tree, Tree]]


class FoldingScalar(TracedScalar):
    """A traced array with the arithmetic of a scalar; or, from a comparison, a traced condition."""

    __slots__ = ("negated", "scaled", "trace", "value")

    def __init__(self, value: Scalar, trace: Trace) -> None:
        self.value, self.trace = value, trace
        self.negated: FoldingScalar | None = None  # this scalar is its negative
        self.scaled: tuple[FoldingScalar, float] | None = None  # this scalar is that one times a literal

    def __repr__(self) -> str:
        return f"Folded({self.value})"

    def __jax_array__(self) -> Scalar:
        return self.value

    def __add__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is_literal_value(other, 0.0):
            return self
        if isinstance(other, FoldingScalar) and other.negated is not None:
            return self - other.negated
        return _apply_once(operator.add, self, other)

    def __radd__(self, other: Scalar) -> Scalar:
        return self + other

    def __sub__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is_literal_value(other, 0.0):
            return self
        if isinstance(other, FoldingScalar) and other.negated is not None:
            return self + other.negated
        return _apply_once(operator.sub, self, other)

    def __rsub__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        return -self if _is_literal_value(other, 0.0) else _apply_once(operator.sub, other, self)

    def __mul__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is_literal_value(other, 0.0):
            return 0.0
        if _is_literal_value(other, 1.0):
            return self
        if _is_literal_value(other, -1.0):
            return -self
        if type(other) is not float or not self.trace.fast:
            return _apply_once(operator.mul, self, other)
        base, factor = self.scaled or (self, 1.0)
        if factor * other == 1.0:
            return base
        product = _apply_once(operator.mul, base, factor * other)
        product.scaled = (base, factor * other)
        return product

    def __rmul__(self, other: Scalar) -> Scalar:
        return self * other

    def __truediv__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is_literal_value(other, 1.0):
            return self
        if _is_literal_value(other, -1.0):
            return -self
        if not self.trace.fast or _is_literal_value(other, 0.0):
            return _apply_once(operator.truediv, self, other)
        return self * (1.0 / other)

    def __rtruediv__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is_literal_value(other, 0.0):
            return 0.0
        if self.trace.fast:
            return _apply_once(operator.truediv, 1.0, self) * other
        return _apply_once(operator.truediv, other, self)

    def __pow__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is_literal_value(other, 0.0):
            return 1.0
        if _is_literal_value(other, 1.0):
            return self
        return self * self if _is_literal_value(other, 2.0) else _apply_once(operator.pow, self, other)

    def __rpow__(self, other: Scalar) -> Scalar:
        return _apply_once(operator.pow, _literal(other), self)

    def __neg__(self) -> "FoldingScalar":
        if self.negated is not None:
            return self.negated
        negative = _apply_once(operator.neg, self)
        negative.negated = self
        return negative

    def apply(self, operation: str, *operands: Scalar) -> Scalar:
        return _apply_once(_COMPARISONS[operation], *operands)

    def __and__(self, other: Scalar) -> Scalar:
        return _apply_once(operator.and_, self, other)

    def __or__(self, other: Scalar) -> Scalar:
        return _apply_once(operator.or_, self, other)

    def __invert__(self) -> Scalar:
        return _apply_once(operator.invert, self)


_COMPARISONS = {"less": operator.lt, "less_equal": operator.le, "equal": operator.eq, "not_equal": operator.ne}
_COMMUTATIVE = frozenset({operator.add, operator.mul})


def _literal(x: Scalar) -> Scalar:
    """Convert numbers of any type to a Python float: NumPy's types would promote float32 to float64."""
    return float(x) if isinstance(x, (int, float, np.number)) and not isinstance(x, bool) else x


def _is_literal_value(x: Scalar, literal: float) -> bool:
    return type(x) is float and x == literal


def _raw(x: Scalar) -> Scalar:
    return x.value if isinstance(x, FoldingScalar) else x


def _apply_once(operation: Callable[..., Tree], *operands: Scalar) -> FoldingScalar:
    """Return operation(*operands) on JAX arrays, or its earlier result on the same operands."""
    trace = next(x.trace for x in operands if isinstance(x, FoldingScalar))
    raw = [_raw(_literal(x)) for x in operands]
    names: Scalar = [repr(x) if type(x) is float else id(x) for x in raw]
    key = (operation, *(sorted(names, key=str) if operation in _COMMUTATIVE else names))
    if key not in trace.recorded:
        operands = tuple(
            lax.full((), x, trace.dtype) if type(x) is float and operation in _TYPED_OPERATIONS else x for x in raw
        )
        try:
            value = operation(*operands)
        except TypeError as error:
            raise trace_error(str(error), "compute with scalars") from error
        trace.recorded[key] = (
            FoldingScalar(value, trace),
            raw,
        )  # holds references to the operands, whose ids are in the key
    return trace.recorded[key][0]


def _unary(operation: Callable[[Scalar], Scalar]) -> Callable[[FoldingScalar], FoldingScalar]:
    return lambda x: _apply_once(operation, x)


# The operations of samara.core.ops, under the names it dispatches to -----------------------------------------------------

sqrt, exp, log, floor = (_unary(operation) for operation in (lax.sqrt, lax.exp, lax.log, lax.floor))
sin, cos, tan = (_unary(operation) for operation in (lax.sin, lax.cos, lax.tan))
asin, acos, atan = (_unary(operation) for operation in (lax.asin, lax.acos, lax.atan))


def atan2(y: Scalar, x: Scalar) -> FoldingScalar:
    return _apply_once(_atan2, y, x)


def _atan2(y: Scalar, x: Scalar) -> Scalar:
    shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(x))
    return lax.atan2(*(jnp.broadcast_to(x_or_y, shape) for x_or_y in (y, x)))


def equal(a: Scalar, b: Scalar) -> Scalar:
    return _apply_once(operator.eq, a, b)


def logical_and(a: Scalar, b: Scalar) -> Scalar:
    return _apply_once(operator.and_, a, b)


def logical_or(a: Scalar, b: Scalar) -> Scalar:
    return _apply_once(operator.or_, a, b)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    return _apply_once(bare_select, condition, a, b)


def bare_select(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """Select without the nested call of `jax.numpy.where`."""
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (condition, a, b)))
    return lax.select(*(jnp.broadcast_to(x, shape) for x in (condition, a, b)))


_TYPED_OPERATIONS = frozenset({_atan2, bare_select})  # `lax` operations do not promote types: literals need one


# Network layers ---------------------------------------------------------------------------------------------------------

_layers_unrolled: ContextVar[bool] = ContextVar("by_products", default=False)


@contextmanager
def unrolled_layers() -> Iterator[None]:
    """Trace layers inside as individual multiplications: kernels have no matrix products of arbitrary size."""
    token = _layers_unrolled.set(True)
    try:
        yield
    finally:
        _layers_unrolled.reset(token)


def layer(network_layer: Layer, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """f(W x + b) as one matrix product; sums may round in another order."""
    if _layers_unrolled.get():
        return network_layer.evaluate_unrolled(x)
    trace = next(element.trace for element in x if isinstance(element, FoldingScalar))
    columns = jnp.broadcast_arrays(*(jnp.asarray(_raw(element), trace.dtype) for element in x))
    weights, bias = (
        jnp.asarray(np.array(numbers), trace.dtype) for numbers in (network_layer.weights, network_layer.bias)
    )
    rows = jnp.tensordot(weights, jnp.stack(columns), axes=1, precision=lax.Precision.HIGHEST)
    activated = ACTIVATIONS[network_layer.activation](rows + bias.reshape(-1, *(1,) * (rows.ndim - 1)))
    return tuple(FoldingScalar(activated[k], trace) for k in range(network_layer.rows))


# Lookups and loops --------------------------------------------------------------------------------------------------

Load = Callable[[ConstantTable, Scalar], Scalar]
"""Loads the entries of a grid, flattened by rows, at an array of indices."""

_load: ContextVar[Load | None] = ContextVar("load", default=None)


@contextmanager
def override_grid_loader(load: Load) -> Iterator[None]:
    """Make lookups inside call `load(grid, at)`: a kernel has no constant arrays and reads grids from its operands."""
    token = _load.set(load)
    try:
        yield
    finally:
        _load.reset(token)


def collect_grids(trace: Callable[[], Scalar]) -> tuple[ConstantTable, ...]:
    """Return the distinct grids that are looked up while `trace()` runs, such as a `jax.eval_shape`."""
    grids: dict[ConstantTable, None] = {}

    def record_grid(grid: ConstantTable, indices: Scalar) -> Scalar:
        grids[grid] = None
        return jnp.zeros(jnp.shape(indices))

    with override_grid_loader(record_grid):
        trace()
    return tuple(grids)


def lookup(grid: ConstantTable, i: Scalar, j: Scalar) -> FoldingScalar:
    """Look up an entry of a grid: gathered by XLA, or read by the `load` of a kernel."""
    trace = next(x.trace for x in (i, j) if isinstance(x, FoldingScalar))
    row, column = (_index(x, count, trace.dtype) for x, count in zip((i, j), grid.values.shape, strict=True))
    flat_index, load = row * np.int32(grid.values.shape[1]) + column, _load.get()
    if load is not None:
        return FoldingScalar(lax.convert_element_type(load(grid, flat_index), trace.dtype), trace)
    return FoldingScalar(jnp.asarray(grid.values.ravel(), trace.dtype)[flat_index], trace)


def _index(x: Scalar, count: int, dtype: Any) -> Scalar:
    if not isinstance(x, FoldingScalar):
        return np.int32(min(float(x), count - 1.0) if float(x) > 0.0 else 0)
    zero, last = lax.full((), 0.0, dtype), lax.full((), count - 1.0, dtype)
    return lax.convert_element_type(
        bare_select(x.value < last, bare_select(x.value > zero, x.value, zero), last), jnp.int32
    )


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """`samara.core.block_ops.loop` as one `lax` loop."""
    leaves = flatten(carry)
    scalars = [*leaves, *flatten(inputs)]
    trace = next(x.trace for x in scalars if isinstance(x, FoldingScalar))
    shape = jnp.broadcast_shapes(*(jnp.shape(_raw(x)) for x in scalars))

    def broadcast(x: Scalar) -> Scalar:
        return jnp.broadcast_to(lax.convert_element_type(_raw(x), trace.dtype), shape)

    def step(k: Scalar, arrays: Tree) -> list[Scalar]:
        with discard_operations(trace):
            index = FoldingScalar(lax.convert_element_type(k, trace.dtype), trace)
            return [broadcast(x) for x in flatten(body(index, fold_tree(carry, arrays, trace), inputs))]

    def is_active(arrays: Tree) -> Scalar:
        with discard_operations(trace):
            return _raw(active(fold_tree(carry, arrays, trace), inputs)) if active else True

    final = lax_loop(step, is_active if active else None, [broadcast(x) for x in leaves], count)
    return fold_tree(carry, final, trace)


@contextmanager
def discard_operations(trace: Trace) -> Iterator[None]:
    """Discard the operations recorded inside: their results exist only inside a loop."""
    recorded = dict(trace.recorded)
    try:
        yield
    finally:
        trace.recorded.clear()
        trace.recorded.update(recorded)


# Functions of folded scalars ----------------------------------------------------------------------------------------


def fold_tree(template: Tree, leaves: Iterable[Scalar], trace: Trace) -> Scalar:
    """Build a nested tuple of folded scalars shaped like the template; Python floats stay floats and fold."""
    return unflatten(template, iter([x if type(x) is float else FoldingScalar(x, trace) for x in leaves]))


def unfold_leaves(tree: Tree) -> list[Scalar]:
    """Return the leaves of a nested tuple as JAX arrays, or Python floats if they folded."""
    return [_raw(leaf) for leaf in flatten(tree)]


def new_trace(dtype: Any, fast: bool = False) -> Trace:
    return Trace(dtype, fast, {})


class OperationCount(NamedTuple):
    """The operation count of a straight-line function, per drone.

    `instructions` counts a product whose only use is a sum together with that sum, as fused multiply-adds do.
    """

    operations: int
    instructions: int


_UNCOUNTED = frozenset({"broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "copy", "neg"})


def count_operations(jaxpr: Any) -> OperationCount:
    """Count the operations of a jaxpr, loop bodies once per iteration; moves and sign changes are not counted."""
    steps = used_equations(jaxpr)
    loops = [(step.params["length"], step.params["jaxpr"].jaxpr) for step in steps if step.primitive.name == "scan"]
    counted = [step for step in steps if step.primitive.name not in _UNCOUNTED | {"scan"}]
    uses = Counter(id(x) for step in steps for x in step.invars) + Counter(map(id, jaxpr.outvars))
    single_use_products = {
        id(step.outvars[0]) for step in counted if step.primitive.name == "mul" and uses[id(step.outvars[0])] == 1
    }
    sums = [step for step in counted if step.primitive.name in ("add", "sub")]
    fused = sum(any(id(x) in single_use_products for x in step.invars) for step in sums)
    loop_counts = [(iterations, count_operations(body)) for iterations, body in loops]
    return OperationCount(
        len(counted) + sum(iterations * body_count.operations for iterations, body_count in loop_counts),
        len(counted) - fused + sum(iterations * body_count.instructions for iterations, body_count in loop_counts),
    )


def used_equations(jaxpr: Any) -> list[Any]:
    """Return the equations of a jaxpr whose results are used; compilers drop the others."""
    used, used_steps = {id(x) for x in jaxpr.outvars}, []
    for step in reversed(jaxpr.eqns):
        if any(id(x) in used for x in step.outvars):
            used_steps.append(step)
            used |= {id(x) for x in step.invars}
    return used_steps[::-1]


MAX_UNROLLED_OPERATIONS = 1000
"""Operation count of a stage above which the step is a loop over the stages."""


def rk4_in_kernel(rate: Callable[[Scalar], Scalar], state: Tree, dt: Scalar) -> Scalar:
    """`rk4` for a state of folded scalars, unrolled or as a loop, whichever is faster on a GPU."""
    return (
        rk4(rate, state, dt)
        if _count_rate_operations(rate, state) <= MAX_UNROLLED_OPERATIONS
        else rk4_loop(rate, state, dt)
    )


def _count_rate_operations(rate: Callable[[Scalar], Scalar], state: Tree) -> int:
    """Count the operations of a rate in a temporary trace."""
    trace = next(x.trace for x in flatten(state) if isinstance(x, FoldingScalar))
    recorded = dict(trace.recorded)

    def trace_rate(leaves: Tree) -> Scalar:
        return [jnp.asarray(x) for x in unfold_leaves(rate(fold_tree(state, leaves, trace)))]

    jax.eval_shape(trace_rate, unfold_leaves(state))
    count = len(trace.recorded) - len(recorded)
    trace.recorded.clear()
    trace.recorded.update(recorded)
    return count


def rk4_loop(rate: Callable[[Scalar], Scalar], state: Tree, dt: Scalar) -> Scalar:
    """`rk4` for a state of folded scalars as a loop over the stages: equal to rounding."""
    return stage_loop(stage_chain(RK4), rate, state, dt)


def stage_loop(chain: StageChain, rate: Callable[[Scalar], Scalar], state: Tree, dt: Scalar) -> Scalar:
    """Take a step for a state of folded scalars as a loop over the stages."""
    trace = next(x.trace for x in flatten(state) if isinstance(x, FoldingScalar))
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in unfold_leaves(state)))
    start = [_broadcast(x, shape, trace.dtype) for x in unfold_leaves(state)]

    def stage(i: Scalar, loop_carry: Scalar) -> Scalar:
        recorded = dict(trace.recorded)  # operations traced in the loop body are invalid outside
        stage_state, total = loop_carry
        slopes = flatten(rate(fold_tree(state, stage_state, trace)))
        next_coefficient, weight = (
            FoldingScalar(select_constant(i, row, trace.dtype), trace) * dt
            for row in (chain.next_coefficients, chain.weights)
        )
        next_stage_state = unfold_leaves(
            tuple(FoldingScalar(x, trace) + next_coefficient * k for x, k in zip(start, slopes, strict=True))
        )
        next_total = unfold_leaves(
            tuple(FoldingScalar(x, trace) + weight * k for x, k in zip(total, slopes, strict=True))
        )
        trace.recorded.clear()
        trace.recorded.update(recorded)
        return tuple([_broadcast(x, shape, trace.dtype) for x in group] for group in (next_stage_state, next_total))

    _, next_state = lax.fori_loop(np.int32(0), np.int32(len(chain.weights)), stage, (start, start))
    return unit_quaternions(unflatten(state, iter([FoldingScalar(x, trace) for x in next_state])))


def _broadcast(x: Scalar, shape: tuple[int, ...], dtype: Any) -> Scalar:
    return jnp.broadcast_to(lax.convert_element_type(x, dtype), shape)


def select_constant(i: Scalar, row: Sequence[float], dtype: Any) -> Scalar:
    """row[i] by comparisons: a kernel has no constant arrays."""
    value = lax.full((), row[-1], dtype)
    for k in range(len(row) - 2, -1, -1):
        value = lax.select(i == k, lax.full((), row[k], dtype), value)
    return value


def fold_over_others(body: Callable[[Tree, Tree, Tree], Tree], carry: Tree, targets: Tree, sources: Tree) -> Scalar:
    """carryᵢ ← body(carryᵢ, targetᵢ, sourceⱼ) for every j ≠ i of the same flight, in increasing order of j.

    All are nested tuples of folded scalars, with the drones of a flight along the first axis and flights along the second; a
    float is the same for all of them.
    """
    trace = next(leaf.trace for leaf in flatten((targets, sources)) if isinstance(leaf, FoldingScalar))
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in unfold_leaves((carry, targets, sources))))
    if len(shape) != 2:
        raise ValueError(f"scalars have the shape {shape}; expected (drones, flights)")
    drone = lax.broadcasted_iota(jnp.int32, shape, 0)

    def broadcast(x: Scalar) -> Scalar:
        return jnp.broadcast_to(lax.convert_element_type(x, trace.dtype), shape)

    columns = [broadcast(x) for x in unfold_leaves(sources)]

    def iterate(j: Scalar, arrays: Tree) -> Scalar:
        is_other = drone == j
        rows = [jnp.sum(jnp.where(is_other, x, jnp.zeros_like(x)), axis=0, keepdims=True) for x in columns]
        with discard_operations(trace):
            next_carry = body(
                fold_tree(carry, arrays, trace), targets, fold_tree(sources, [broadcast(x) for x in rows], trace)
            )
            return [
                lax.select(is_other, old, broadcast(x))
                for old, x in zip(arrays, unfold_leaves(next_carry), strict=True)
            ]

    start = [broadcast(x) for x in unfold_leaves(carry)]
    return fold_tree(carry, lax.fori_loop(np.int32(0), np.int32(shape[0]), iterate, start), trace)


def sum_over_others(f: Callable[[Tree, Tree], Tree], targets: Tree, sources: Tree) -> Scalar:
    """Σ f(targetᵢ, sourceⱼ) over all j ≠ i of the same flight, for every drone i."""
    shapes: list[Scalar] = []

    def probe() -> Scalar:
        trace = next(leaf.trace for leaf in flatten((targets, sources)) if isinstance(leaf, FoldingScalar))
        with discard_operations(trace):
            shapes.append(f(targets, sources))
        return 0.0

    jax.eval_shape(probe)
    zero = unflatten(shapes[0], iter([0.0] * len(flatten(shapes[0]))))

    def add(total: Tree, drone: Scalar, source: Scalar) -> Scalar:
        terms = flatten(f(drone, source))
        return unflatten(zero, iter([a + b for a, b in zip(flatten(total), terms, strict=True)]))

    return fold_over_others(add, zero, targets, sources)
