"""A layer of a network, y = f(W x + b), on scalars of any kind.

A trace for machine code or C keeps it whole, as one instruction (`samara.compiler.trace.program`): unrolled, 64 × 64
of them take
seconds to compile. What is computed is the same, in the same order, and so are the bits.
"""

from collections.abc import Callable, Sequence
from typing import Any

from samara.core.ops import library_of, maximum, sigmoid, tanh
from samara.core.quantity import Scalar

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
        whole: Any = getattr(library_of(*x), "layer", None)
        return self.unrolled(x) if whole is None else whole(self, x)

    def unrolled(self, x: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """The same, product by product"""
        return tuple(self._row(w, b, x) for w, b in zip(self.weights, self.bias, strict=True))

    def _row(self, weights: Sequence[float], bias: float, x: Sequence[Scalar]) -> Scalar:
        total: Scalar = bias
        for w, own in zip(weights, x, strict=True):
            total = total + w * own
        return ACTIVATIONS[self.activation](total)
