"""Loops, tables and network layers on scalars of any backend: Newton iterations, lists of solids, impacts within a step.

    carry = loop(body, carry, inputs, count=24, active=is_apart)

Floats and NumPy arrays run the loop in Python. JAX runs it as one `lax` loop. A trace for compiled code stores it as one
instruction (`samara.compiler.trace.program`), so that the code does not grow with the iteration count.
"""

from collections.abc import Callable, Sequence

import numpy as np

from samara.core.ops import maximum, scalar_library, sigmoid, tanh, where
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten
from samara.core.types import Array

_TRACE = "samara.compiler.trace.tape_scalar"
Body = Callable[[Scalar, Tree, Tree], Tree]
Condition = Callable[[Tree, Tree], Scalar]


def loop(body: Body, carry: Tree, inputs: Tree = (), *, count: int, active: Condition | None = None) -> Tree:
    """carry ← body(k, carry, inputs) for k = 0 … count − 1; a batch element is updated only while it is active.

    Args:
        body: maps the iteration index, the carry and the inputs to the next carry. It may close over floats; every value of a
            traced computation that it reads must be in `inputs`.
        carry: nested tuple of numbers, none of them a condition.
        inputs: nested tuple of numbers that stay constant, none of them a condition.
        count: maximum iteration count.
        active: condition of `carry` and `inputs` under which an element continues; the loop ends when no element is active.

    A trace simplifies nothing across the border of a loop, not even of a single iteration.
    """
    library = scalar_library(*flatten(carry), *flatten(inputs))
    if count == 1 and active is None and library.__name__ != _TRACE:
        return body(0.0, carry, inputs)
    run: Callable[..., Tree] = getattr(library, "loop", unroll_loop)
    return run(body, carry, inputs, count, active)


def unroll_loop(body: Body, carry: Tree, inputs: Tree, count: int, active: Condition | None) -> Tree:
    """Run the loop iteration by iteration; floats and arrays leave the loop as soon as no element is active."""
    for k in range(count):
        is_active = True if active is None else active(carry, inputs)
        if isinstance(is_active, (bool, np.bool_, np.ndarray)) and not np.any(is_active):
            break
        next_carry = body(float(k), carry, inputs)
        carry = next_carry if active is None else select(is_active, next_carry, carry)
    return carry


def select(condition: Scalar, a: Tree, b: Tree) -> Tree:
    """Apply `where` to each pair of leaves of two nested tuples of the same shape."""
    return unflatten(a, iter([where(condition, x, y) for x, y in zip(flatten(a), flatten(b), strict=True)]))


class ConstantTable:
    """An immutable table of shape (rows, columns); hashable, and equal to a table with the same values."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: object) -> None:
        table = np.array(values, dtype=float)
        if table.ndim != 2 or not table.size:
            raise ValueError(f"ConstantTable has the shape {table.shape}; expected (rows, columns), neither of them 0")
        table.setflags(write=False)
        self.values = table
        self._hash = hash((table.shape, table.tobytes()))

    def __reduce__(self) -> tuple[type, tuple[Array]]:
        return ConstantTable, (self.values,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ConstantTable)
            and self._hash == other._hash
            and self.values.shape == other.values.shape
            and self.values.tobytes() == other.values.tobytes()
        )

    def lookup(self, i: Scalar, j: Scalar) -> Scalar:
        """Return the entry at indices that are floats or NumPy arrays: rounded down and clamped to the borders."""
        rows, columns = self.values.shape
        if isinstance(i, float) and isinstance(j, float):
            return float(self.values[_index(i, rows), _index(j, columns)])
        return self.values[_indices(i, rows), _indices(j, columns)]


def _index(x: float, count: int) -> int:
    return int(min(x, count - 1.0)) if x > 0.0 else 0


def _indices(x: Scalar, count: int) -> Scalar:
    if isinstance(x, float):
        return _index(x, count)
    return np.minimum(np.where(x > 0.0, x, 0.0), count - 1.0).astype(np.intp)


ACTIVATIONS: dict[str, Callable[[Scalar], Scalar]] = {
    "linear": lambda x: x,
    "relu": lambda x: maximum(x, 0.0),
    "sigmoid": sigmoid,
    "tanh": tanh,
}


class Layer:
    """A dense network layer: weight rows, one bias per row and the name of the activation; compared as a unit."""

    __slots__ = ("_hash", "activation", "bias", "weights")

    def __init__(
        self, weights: tuple[tuple[float, ...], ...], bias: tuple[float, ...], activation: str = "linear"
    ) -> None:
        self.weights, self.bias, self.activation = weights, bias, activation
        self._hash = hash((weights, bias, activation))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Layer)
            and self._hash == other._hash
            and (self.weights, self.bias, self.activation) == (other.weights, other.bias, other.activation)
        )

    @property
    def rows(self) -> int:
        return len(self.weights)

    @property
    def columns(self) -> int:
        return len(self.weights[0])

    @property
    def size(self) -> int:
        """The multiplication count."""
        return self.rows * self.columns

    def __call__(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """f(((b + w₀ x₀) + w₁ x₁) + …) of each row."""
        layer_function: Callable[..., tuple[Scalar, ...]] | None = getattr(scalar_library(*x), "layer", None)
        return self.evaluate_unrolled(x) if layer_function is None else layer_function(self, x)

    def evaluate_unrolled(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """Evaluate the layer as individual multiplications and additions."""
        return tuple(self._row(w, b, x) for w, b in zip(self.weights, self.bias, strict=True))

    def _row(self, weights: Sequence[float], bias: float, x: Sequence[Scalar]) -> Scalar:
        total: Scalar = bias
        for w, x_i in zip(weights, x, strict=True):
            total = total + w * x_i
        return ACTIVATIONS[self.activation](total)
