"""A loop on scalars of any backend: Newton's steps, the solids of a list, the impacts within a step.

    carry = loop(body, carry, inputs, count=24, active=is_apart)

Floats and NumPy arrays run it in Python. JAX runs it as one `lax` loop. A trace for machine code keeps it as one instruction
(`samara.compiler.trace.program`), so that the code does not grow with the number of turns.
"""

from collections.abc import Callable, Sequence

import numpy as np

from samara.core.ops import library_of, maximum, sigmoid, tanh, where
from samara.core.quantity import Scalar
from samara.core.tree import Tree, flatten, unflatten
from samara.core.types import Array

_TRACES = ("samara.compiler.trace.casadi_scalar", "samara.compiler.trace.tape_scalar")
Body = Callable[[Scalar, Tree, Tree], Tree]
Condition = Callable[[Tree, Tree], Scalar]


def loop(body: Body, carry: Tree, inputs: Tree = (), *, count: int, active: Condition | None = None) -> Tree:
    """carry ← body(k, carry, inputs) for k = 0 … count − 1, in every lane while `active(carry, inputs)` holds in it

    `carry` and `inputs` are nested tuples of numbers, none of them conditions. Whatever the body reads of a traced computation
    has to be in `inputs`; it may close over floats. All lanes stop once none is active. A trace simplifies nothing across the
    border of a loop, not even of one with a single turn.
    """
    library = library_of(*flatten(carry), *flatten(inputs))
    if count == 1 and active is None and library.__name__ not in _TRACES:
        return body(0.0, carry, inputs)
    run: Callable[..., Tree] = getattr(library, "loop", unrolled)
    return run(body, carry, inputs, count, active)


def unrolled(body: Body, carry: Tree, inputs: Tree, count: int, active: Condition | None) -> Tree:
    """Run the loop turn by turn; numbers leave the loop as soon as no lane is active"""
    for k in range(count):
        going = True if active is None else active(carry, inputs)
        if isinstance(going, (bool, np.bool_, np.ndarray)) and not np.any(going):
            break
        after = body(float(k), carry, inputs)
        carry = after if active is None else select(going, after, carry)
    return carry


def select(condition: Scalar, a: Tree, b: Tree) -> Tree:
    """`where`, for each leaf of two nested tuples of the same shape"""
    return unflatten(a, iter([where(condition, x, y) for x, y in zip(flatten(a), flatten(b), strict=True)]))


class Grid:
    """An immutable table of shape (rows, columns); hashable, and equal to a grid with the same numbers."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: object) -> None:
        table = np.array(values, dtype=float)
        if table.ndim != 2 or not table.size:
            raise ValueError(f"Grid has the shape {table.shape}; expected (rows, columns), neither of them 0")
        table.setflags(write=False)
        self.values = table
        self._hash = hash((table.shape, table.tobytes()))

    def __reduce__(self) -> tuple[type, tuple[Array]]:
        return Grid, (self.values,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Grid)
            and self._hash == other._hash
            and self.values.shape == other.values.shape
            and self.values.tobytes() == other.values.tobytes()
        )

    def at(self, i: Scalar, j: Scalar) -> Scalar:
        """The entry at indices that are floats or NumPy arrays: rounded down and clamped to the borders"""
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
    """Rows of weights, a bias for each, and the name of the activation: one whole, not a record of numbers that may differ."""

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
        """Products in it"""
        return self.rows * self.columns

    def __call__(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """f(((b + w₀ x₀) + w₁ x₁) + …) of each row"""
        whole: Callable[..., tuple[Scalar, ...]] | None = getattr(library_of(*x), "layer", None)
        return self.unrolled(x) if whole is None else whole(self, x)

    def unrolled(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """The same, product by product"""
        return tuple(self._row(w, b, x) for w, b in zip(self.weights, self.bias, strict=True))

    def _row(self, weights: Sequence[float], bias: float, x: Sequence[Scalar]) -> Scalar:
        total: Scalar = bias
        for w, own in zip(weights, x, strict=True):
            total = total + w * own
        return ACTIVATIONS[self.activation](total)
