"""The scalar that JAX traces are made with: it drops what a literal zero or one makes trivial, and shares what is common.

Neither XLA nor Triton folds 0·x (x might be NaN), so a generic rotor pays for every zero of its geometry. Here 0·x, x + 0,
1·x, 0/x and −(−x) cost nothing, provided the zero or one is a Python number: written in the source, or a parameter that is
folded in. What is computed at run time is never looked at, so a NaN in the state stays a NaN. The same operation on the same
operands is traced once.

With `fast` a quotient becomes a product with the reciprocal, which is computed once per divisor, or not at all for a literal;
and literal factors in a row become one: dt/2 · (f / m) is one product.
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
from samara.core.block_ops import ACTIVATIONS, Grid, Layer
from samara.core.integrate import RK4, Chain, chain_of, rk4, unit_quaternions
from samara.core.quantity import Scalar
from samara.core.traced import TracedScalar, trace_error
from samara.core.tree import Tree, flatten, unflatten


class Trace(NamedTuple):
    """What the scalars of one trace share: their type, whether to be fast, and the operations done so far."""

    dtype: Any
    fast: bool
    done: dict[tuple[Scalar, ...], tuple[Tree, Tree]]


class Folded(TracedScalar):
    """A traced array with the arithmetic of a scalar; or, from a comparison, a traced condition."""

    __slots__ = ("negated", "scaled", "trace", "value")

    def __init__(self, value: Scalar, trace: Trace) -> None:
        self.value, self.trace = value, trace
        self.negated: Folded | None = None  # what this is the negative of
        self.scaled: tuple[Folded, float] | None = None  # what this is a literal multiple of

    def __repr__(self) -> str:
        return f"Folded({self.value})"

    def __jax_array__(self) -> Scalar:
        return self.value

    def __add__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is(other, 0.0):
            return self
        if isinstance(other, Folded) and other.negated is not None:
            return self - other.negated
        return _folded(operator.add, self, other)

    def __radd__(self, other: Scalar) -> Scalar:
        return self + other

    def __sub__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is(other, 0.0):
            return self
        if isinstance(other, Folded) and other.negated is not None:
            return self + other.negated
        return _folded(operator.sub, self, other)

    def __rsub__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        return -self if _is(other, 0.0) else _folded(operator.sub, other, self)

    def __mul__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is(other, 0.0):
            return 0.0
        if _is(other, 1.0):
            return self
        if _is(other, -1.0):
            return -self
        if type(other) is not float or not self.trace.fast:
            return _folded(operator.mul, self, other)
        whole, factor = self.scaled or (self, 1.0)
        if factor * other == 1.0:
            return whole
        product = _folded(operator.mul, whole, factor * other)
        product.scaled = (whole, factor * other)
        return product

    def __rmul__(self, other: Scalar) -> Scalar:
        return self * other

    def __truediv__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is(other, 1.0):
            return self
        if _is(other, -1.0):
            return -self
        if not self.trace.fast or _is(other, 0.0):
            return _folded(operator.truediv, self, other)
        return self * (1.0 / other)

    def __rtruediv__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is(other, 0.0):
            return 0.0
        if self.trace.fast:
            return _folded(operator.truediv, 1.0, self) * other
        return _folded(operator.truediv, other, self)

    def __pow__(self, other: Scalar) -> Scalar:
        other = _literal(other)
        if _is(other, 0.0):
            return 1.0
        if _is(other, 1.0):
            return self
        return self * self if _is(other, 2.0) else _folded(operator.pow, self, other)

    def __rpow__(self, other: Scalar) -> Scalar:
        return _folded(operator.pow, _literal(other), self)

    def __neg__(self) -> "Folded":
        if self.negated is not None:
            return self.negated
        negative = _folded(operator.neg, self)
        negative.negated = self
        return negative

    def apply(self, operation: str, *operands: Scalar) -> Scalar:
        return _folded(_COMPARISONS[operation], *operands)

    def __and__(self, other: Scalar) -> Scalar:
        return _folded(operator.and_, self, other)

    def __or__(self, other: Scalar) -> Scalar:
        return _folded(operator.or_, self, other)

    def __invert__(self) -> Scalar:
        return _folded(operator.invert, self)


_COMPARISONS = {"less": operator.lt, "less_equal": operator.le, "equal": operator.eq, "not_equal": operator.ne}
_COMMUTE = frozenset({operator.add, operator.mul})


def _literal(x: Scalar) -> Scalar:
    """A Python float for a number of any kind: NumPy's own would turn float32 into float64."""
    return float(x) if isinstance(x, (int, float, np.number)) and not isinstance(x, bool) else x


def _is(x: Scalar, number: float) -> bool:
    return type(x) is float and x == number


def _raw(x: Scalar) -> Scalar:
    return x.value if isinstance(x, Folded) else x


def _folded(operation: Callable[..., Tree], *operands: Scalar) -> Folded:
    """operation(*operands) on JAX's arrays, or what it gave when it was last asked for the same"""
    trace = next(x.trace for x in operands if isinstance(x, Folded))
    raw = [_raw(_literal(x)) for x in operands]
    names: Scalar = [repr(x) if type(x) is float else id(x) for x in raw]
    key = (operation, *(sorted(names, key=str) if operation in _COMMUTE else names))
    if key not in trace.done:
        operands = tuple(lax.full((), x, trace.dtype) if type(x) is float and operation in _BARE else x for x in raw)
        try:
            value = operation(*operands)
        except TypeError as error:
            raise trace_error(str(error), "compute with scalars") from error
        trace.done[key] = (Folded(value, trace), raw)  # the operands are kept alive: their ids name them
    return trace.done[key][0]


def _unary(operation: Callable[[Scalar], Scalar]) -> Callable[[Folded], Folded]:
    return lambda x: _folded(operation, x)


# The operations of samara.core.ops, under the names it asks for ----------------------------------------------------------

sqrt, exp, log, floor = (_unary(operation) for operation in (lax.sqrt, lax.exp, lax.log, lax.floor))
sin, cos, tan = (_unary(operation) for operation in (lax.sin, lax.cos, lax.tan))
asin, acos, atan = (_unary(operation) for operation in (lax.asin, lax.acos, lax.atan))


def atan2(y: Scalar, x: Scalar) -> Folded:
    return _folded(_atan2, y, x)


def _atan2(y: Scalar, x: Scalar) -> Scalar:
    shape = jnp.broadcast_shapes(jnp.shape(y), jnp.shape(x))
    return lax.atan2(*(jnp.broadcast_to(each, shape) for each in (y, x)))


def equal(a: Scalar, b: Scalar) -> Scalar:
    return _folded(operator.eq, a, b)


def logical_and(a: Scalar, b: Scalar) -> Scalar:
    return _folded(operator.and_, a, b)


def logical_or(a: Scalar, b: Scalar) -> Scalar:
    return _folded(operator.or_, a, b)


def where(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    return _folded(bare_select, condition, a, b)


def bare_select(condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """A bare select: `jax.numpy.where` is a nested call."""
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in (condition, a, b)))
    return lax.select(*(jnp.broadcast_to(x, shape) for x in (condition, a, b)))


_BARE = frozenset({_atan2, bare_select})  # made of `lax` operations, which promote nothing: literals need a type


# Layers of networks -----------------------------------------------------------------------------------------------------

_by_products: ContextVar[bool] = ContextVar("by_products", default=False)


@contextmanager
def layers_by_products() -> Iterator[None]:
    """Within, a layer is traced product by product: for kernels, which have no products of matrices of any size"""
    before = _by_products.set(True)
    try:
        yield
    finally:
        _by_products.reset(before)


def layer(own: Layer, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """f(W x + b) as one product of matrices; sums may round in another order"""
    if _by_products.get():
        return own.unrolled(x)
    trace = next(each.trace for each in x if isinstance(each, Folded))
    columns = jnp.broadcast_arrays(*(jnp.asarray(_raw(each), trace.dtype) for each in x))
    weights, bias = (jnp.asarray(np.array(numbers), trace.dtype) for numbers in (own.weights, own.bias))
    rows = jnp.tensordot(weights, jnp.stack(columns), axes=1, precision=lax.Precision.HIGHEST)
    activated = ACTIVATIONS[own.activation](rows + bias.reshape(-1, *(1,) * (rows.ndim - 1)))
    return tuple(Folded(activated[k], trace) for k in range(own.rows))


# Lookups and loops --------------------------------------------------------------------------------------------------

Load = Callable[[Grid, Scalar], Scalar]
"""The entries of a grid, in rows one after the other, at an array of indices"""

_load: ContextVar[Load | None] = ContextVar("load", default=None)


@contextmanager
def grids_loaded_by(load: Load) -> Iterator[None]:
    """Within, lookups call `load(grid, at)`: a kernel has no constant arrays and reads grids from its operands."""
    before = _load.set(load)
    try:
        yield
    finally:
        _load.reset(before)


def grids_in(trace: Callable[[], Scalar]) -> tuple[Grid, ...]:
    """The grids that are looked up while `trace()` runs, such as a `jax.eval_shape`, each once."""
    grids: dict[Grid, None] = {}

    def note(grid: Grid, at: Scalar) -> Scalar:
        grids[grid] = None
        return jnp.zeros(jnp.shape(at))

    with grids_loaded_by(note):
        trace()
    return tuple(grids)


def lookup(grid: Grid, i: Scalar, j: Scalar) -> Folded:
    """An entry of a grid: gathered by XLA, or read by the `load` of a kernel"""
    trace = next(x.trace for x in (i, j) if isinstance(x, Folded))
    row, column = (_index(x, count, trace.dtype) for x, count in zip((i, j), grid.values.shape, strict=True))
    at, load = row * np.int32(grid.values.shape[1]) + column, _load.get()
    if load is not None:
        return Folded(lax.convert_element_type(load(grid, at), trace.dtype), trace)
    return Folded(jnp.asarray(grid.values.ravel(), trace.dtype)[at], trace)


def _index(x: Scalar, count: int, dtype: Any) -> Scalar:
    if not isinstance(x, Folded):
        return np.int32(min(float(x), count - 1.0) if float(x) > 0.0 else 0)
    zero, last = lax.full((), 0.0, dtype), lax.full((), count - 1.0, dtype)
    return lax.convert_element_type(
        bare_select(x.value < last, bare_select(x.value > zero, x.value, zero), last), jnp.int32
    )


def loop(
    body: Callable[..., Tree], carry: Tree, inputs: Tree, count: int, active: Callable[..., Tree] | None
) -> Scalar:
    """`samara.core.block_ops.loop` as one loop of `lax`"""
    leaves = flatten(carry)
    scalars = [*leaves, *flatten(inputs)]
    trace = next(x.trace for x in scalars if isinstance(x, Folded))
    shape = jnp.broadcast_shapes(*(jnp.shape(_raw(x)) for x in scalars))

    def filled(x: Scalar) -> Scalar:
        return jnp.broadcast_to(lax.convert_element_type(_raw(x), trace.dtype), shape)

    def step(k: Scalar, arrays: Tree) -> list[Scalar]:
        with apart(trace):
            index = Folded(lax.convert_element_type(k, trace.dtype), trace)
            return [filled(x) for x in flatten(body(index, folded(carry, arrays, trace), inputs))]

    def going(arrays: Tree) -> Scalar:
        with apart(trace):
            return _raw(active(folded(carry, arrays, trace), inputs)) if active else True

    final = lax_loop(step, going if active else None, [filled(x) for x in leaves], count)
    return folded(carry, final, trace)


@contextmanager
def apart(trace: Trace) -> Iterator[None]:
    """Forget the operations that are traced within: their results exist inside a loop only."""
    outside = dict(trace.done)
    try:
        yield
    finally:
        trace.done.clear()
        trace.done.update(outside)


# Functions of folded scalars ----------------------------------------------------------------------------------------


def folded(template: Tree, leaves: Iterable[Scalar], trace: Trace) -> Scalar:
    """A nested tuple shaped like the template, of traced arrays; what is a Python number stays one and folds"""
    return unflatten(template, iter([x if type(x) is float else Folded(x, trace) for x in leaves]))


def unfolded(tree: Tree) -> list[Scalar]:
    """The leaves of a nested tuple as JAX's arrays, or Python numbers where everything folded"""
    return [_raw(leaf) for leaf in flatten(tree)]


def new_trace(dtype: Any, fast: bool = False) -> Trace:
    return Trace(dtype, fast, {})


class OperationCount(NamedTuple):
    """What a straight-line function computes per drone.

    `instructions` counts a product that is used once, in a sum, as one with that sum: as fused multiply-adds do.
    """

    operations: int
    instructions: int


_MOVES = frozenset({"broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "copy", "neg"})


def count_operations(jaxpr: Any) -> OperationCount:
    """Of a jaxpr, loops as often as they run; moves, and signs that ride along with an operand, are not counted"""
    steps = needed_steps(jaxpr)
    loops = [(step.params["length"], step.params["jaxpr"].jaxpr) for step in steps if step.primitive.name == "scan"]
    working = [step for step in steps if step.primitive.name not in _MOVES | {"scan"}]
    uses = Counter(id(x) for step in steps for x in step.invars) + Counter(map(id, jaxpr.outvars))
    lone = {id(step.outvars[0]) for step in working if step.primitive.name == "mul" and uses[id(step.outvars[0])] == 1}
    sums = [step for step in working if step.primitive.name in ("add", "sub")]
    fused = sum(any(id(x) in lone for x in step.invars) for step in sums)
    inside = [(times, count_operations(body)) for times, body in loops]
    return OperationCount(
        len(working) + sum(times * own.operations for times, own in inside),
        len(working) - fused + sum(times * own.instructions for times, own in inside),
    )


def needed_steps(jaxpr: Any) -> list[Any]:
    """The equations of a jaxpr whose results are used; every compiler drops the others"""
    used, needed = {id(x) for x in jaxpr.outvars}, []
    for step in reversed(jaxpr.eqns):
        if any(id(x) in used for x in step.outvars):
            needed.append(step)
            used |= {id(x) for x in step.invars}
    return needed[::-1]


LONG = 1000
"""Operations in a stage above which the step is a loop"""


def rk4_in_kernel(rate: Callable[[Scalar], Scalar], state: Tree, dt: Scalar) -> Scalar:
    """`rk4` for a state of folded scalars, written out or as a loop, whichever a GPU runs faster"""
    return rk4(rate, state, dt) if _operations(rate, state) <= LONG else rk4_rolled(rate, state, dt)


def _operations(rate: Callable[[Scalar], Scalar], state: Tree) -> int:
    """How many operations a rate takes, found in a trace of its own that leaves nothing behind"""
    trace = next(x.trace for x in flatten(state) if isinstance(x, Folded))
    known = dict(trace.done)

    def traced(leaves: Tree) -> Scalar:
        return [jnp.asarray(x) for x in unfolded(rate(folded(state, leaves, trace)))]

    jax.eval_shape(traced, unfolded(state))
    count = len(trace.done) - len(known)
    trace.done.clear()
    trace.done.update(known)
    return count


def rk4_rolled(rate: Callable[[Scalar], Scalar], state: Tree, dt: Scalar) -> Scalar:
    """`rk4` for a state of folded scalars, four times one stage: to rounding the same numbers"""
    return rolled(chain_of(RK4), rate, state, dt)


def rolled(chain: Chain, rate: Callable[[Scalar], Scalar], state: Tree, dt: Scalar) -> Scalar:
    """A step for a state of folded scalars, as a loop over its stages"""
    trace = next(x.trace for x in flatten(state) if isinstance(x, Folded))
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in unfolded(state)))
    start = [_filled(x, shape, trace.dtype) for x in unfolded(state)]

    def stage(i: Scalar, carried: Scalar) -> Scalar:
        known = dict(trace.done)  # what is traced in here is not known outside
        here, total = carried
        slopes = flatten(rate(folded(state, here, trace)))
        further, weight = (Folded(chosen(i, row, trace.dtype), trace) * dt for row in (chain.ahead, chain.weights))
        after = unfolded(tuple(Folded(x, trace) + further * k for x, k in zip(start, slopes, strict=True)))
        summed = unfolded(tuple(Folded(x, trace) + weight * k for x, k in zip(total, slopes, strict=True)))
        trace.done.clear()
        trace.done.update(known)
        return tuple([_filled(x, shape, trace.dtype) for x in group] for group in (after, summed))

    _, advanced = lax.fori_loop(np.int32(0), np.int32(len(chain.weights)), stage, (start, start))
    return unit_quaternions(unflatten(state, iter([Folded(x, trace) for x in advanced])))


def _filled(x: Scalar, shape: tuple[int, ...], dtype: Any) -> Scalar:
    return jnp.broadcast_to(lax.convert_element_type(x, dtype), shape)


def chosen(i: Scalar, row: Sequence[float], dtype: Any) -> Scalar:
    """row[i], without a table: a kernel has no constants but numbers"""
    value = lax.full((), row[-1], dtype)
    for k in range(len(row) - 2, -1, -1):
        value = lax.select(i == k, lax.full((), row[k], dtype), value)
    return value


def fold_over_others(body: Callable[[Tree, Tree, Tree], Tree], carry: Tree, mine: Tree, theirs: Tree) -> Scalar:
    """carryᵢ ← body(carryᵢ, mineᵢ, theirsⱼ) for every j ≠ i of the same flight, in rising order of j

    All are nested tuples of folded scalars, with the drones of a flight along the first axis and flights along the second; a
    float is the same in all of them.
    """
    trace = next(leaf.trace for leaf in flatten((mine, theirs)) if isinstance(leaf, Folded))
    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in unfolded((carry, mine, theirs))))
    if len(shape) != 2:
        raise ValueError(f"scalars have the shape {shape}; expected (drones, flights)")
    drone = lax.broadcasted_iota(jnp.int32, shape, 0)

    def filled(x: Scalar) -> Scalar:
        return jnp.broadcast_to(lax.convert_element_type(x, trace.dtype), shape)

    columns = [filled(x) for x in unfolded(theirs)]

    def turn(j: Scalar, arrays: Tree) -> Scalar:
        is_other = drone == j
        rows = [jnp.sum(jnp.where(is_other, x, jnp.zeros_like(x)), axis=0, keepdims=True) for x in columns]
        with apart(trace):
            after = body(folded(carry, arrays, trace), mine, folded(theirs, [filled(x) for x in rows], trace))
            return [lax.select(is_other, old, filled(x)) for old, x in zip(arrays, unfolded(after), strict=True)]

    start = [filled(x) for x in unfolded(carry)]
    return folded(carry, lax.fori_loop(np.int32(0), np.int32(shape[0]), turn, start), trace)


def sum_over_others(f: Callable[[Tree, Tree], Tree], mine: Tree, theirs: Tree) -> Scalar:
    """Σ f(mineᵢ, theirsⱼ) over all j ≠ i of the same flight, for every drone i"""
    shapes: list[Scalar] = []

    def probe() -> Scalar:
        trace = next(leaf.trace for leaf in flatten((mine, theirs)) if isinstance(leaf, Folded))
        with apart(trace):
            shapes.append(f(mine, theirs))
        return 0.0

    jax.eval_shape(probe)
    zero = unflatten(shapes[0], iter([0.0] * len(flatten(shapes[0]))))

    def add(total: Tree, drone: Scalar, other: Scalar) -> Scalar:
        felt = flatten(f(drone, other))
        return unflatten(zero, iter([a + b for a, b in zip(flatten(total), felt, strict=True)]))

    return fold_over_others(add, zero, mine, theirs)
