"""A network: dense layers and gated recurrent units one after the other, on scalars of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from samara.core.network_layer import Layer
from samara.core.ops import tanh
from samara.core.quantity import Scalar

Hidden: TypeAlias = tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True)
class Gru:
    """A gated recurrent unit (Cho 2014), with the reset gate after the product, as PyTorch and RAPTOR have it."""

    gates: Layer  # r and z of (x, h)
    of_input: Layer
    of_hidden: Layer
    initial: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.initial)

    def __call__(self, x: Sequence[Scalar], h: Sequence[Scalar]) -> tuple[Scalar, ...]:
        """r, z = σ(W (x, h) + b),  n = tanh(W_n x + b_n + r (U_n h + c_n)),  h' = (1 − z) n + z h"""
        both = self.gates((*x, *h))
        r, z = both[: self.size], both[self.size :]
        inner = zip(self.of_input(x), r, self.of_hidden(h), strict=True)
        new = (tanh(a + b * c) for a, b, c in inner)
        return tuple(n + own * (old - n) for n, own, old in zip(new, z, h, strict=True))


Network: TypeAlias = tuple[Layer | Gru, ...]


def initial_hidden(network: Network) -> Hidden:
    """What its recurrent units begin with"""
    return tuple(own.initial for own in network if isinstance(own, Gru))


def evaluate(network: Network, x: Sequence[Scalar], hidden: Hidden) -> tuple[tuple[Scalar, ...], Hidden]:
    """What the last layer gives, and what the recurrent units hold after it"""
    y, before, after = tuple(x), iter(hidden), []
    for own in network:
        if isinstance(own, Gru):
            y = own(y, next(before))
            after.append(y)
        else:
            y = own(y)
    return y, tuple(after)
