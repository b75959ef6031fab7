"""What comes of learning: the weights of a policy, and how it went."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Array = Any  # of JAX or NumPy
Layers = list[tuple[Array, Array]]
Weights = Any  # `Layers`, or those of `samara.learn.recurrent`


class Learnt(NamedTuple):
    """a = tanh(W₃ tanh(W₂ tanh(W₁ o + b₁) + b₂) + b₃): `weights` has (W, b) of each layer, of shapes (out, in) and (out,)

    Those of a policy that remembers are a `samara.learn.recurrent.Recurrent`.
    `curve` is the mean reward of a step, for each update. `compile_seconds` is 0 where the program was there already.
    """

    weights: Weights
    curve: Array
    seconds: float
    compile_seconds: float


class Progress(Protocol):
    """Told now and then how many updates are done of how many, and the mean reward of a step in the last one"""

    def __call__(self, done: int, updates: int, reward: float) -> None: ...


class Learner(Protocol):
    """A compiled program that learns, from a seed, as often as it is called"""

    def __call__(self, seed: int = 0, progress: Progress | None = None, checkpoint: Any = None) -> Learnt: ...


def first_layers(normals: Sequence[Array]) -> Layers:
    """W ~ N(0, 1/in), b = 0, of normal numbers (out, in) for each layer; the last one a hundred times smaller, so that a new
    policy does next to nothing"""
    layers = [(own / math.sqrt(own.shape[1]), 0.0 * own[:, 0]) for own in normals]
    matrix, bias = layers[-1]
    return [*layers[:-1], (0.01 * matrix, bias)]
