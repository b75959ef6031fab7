"""Adam on trees of arrays of NumPy or JAX, and the loop over its updates, which resumes from a checkpoint.

    m ← β₁ m + (1 − β₁) g,  s ← β₂ s + (1 − β₂) g²,  x ← x − η m̂ / (√ŝ + ε)

m̂ and ŝ are divided by 1 − βᵗ, as both start at 0 (D. P. Kingma, J. Ba, ICLR 2015).
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.learn.policies import Weights

T = TypeVar("T")


def map_tree(function: Callable[..., Scalar], tree: T, *more_trees: T) -> T:
    """Apply a function to the leaves of trees of one shape."""
    mapped: T = unflatten(tree, map(function, *map(flatten, (tree, *more_trees))))
    return mapped


class Moments(NamedTuple):
    """Running means of the gradient and of its square, and the count of steps."""

    mean: Scalar
    square: Scalar
    count: Scalar


def initial_moments(tree: object) -> Moments:
    """Return the moments before the first step."""
    zeros = map_tree(lambda x: 0.0 * x, tree)
    return Moments(zeros, zeros, flatten(zeros)[0].sum())  # zeros of the arrays' type


def adam(
    tree: T,
    gradient: T,
    moments: Moments,
    rate: Scalar,
    decay: tuple[float, float] = (0.9, 0.99),
    epsilon: float = 1e-8,
) -> tuple[T, Moments]:
    """Take one step down the gradient."""
    (first, second), count = decay, moments.count + 1.0
    mean = map_tree(lambda m, g: first * m + (1.0 - first) * g, moments.mean, gradient)
    square = map_tree(lambda s, g: second * s + (1.0 - second) * g * g, moments.square, gradient)
    mean_weight, square_weight = 1.0 - first**count, 1.0 - second**count

    def descend(x: Scalar, m: Scalar, s: Scalar) -> Scalar:
        return x - rate * (m / mean_weight) / (_sqrt(s / square_weight) + epsilon)

    return map_tree(descend, tree, mean, square), Moments(mean, square, count)


def clip_norm(gradient: T, max_norm: float) -> T:
    """g min(1, max_norm / |g|), |g| the Euclidean norm of all leaves."""
    norm = _sqrt(sum((g * g).sum() for g in flatten(gradient)))
    factor = norm.__array_namespace__().minimum(1.0, max_norm / (norm + 1e-12))
    return map_tree(lambda g: g * factor, gradient)


def _sqrt(x: Scalar) -> Scalar:
    return x.__array_namespace__().sqrt(x)


# The loop -------------------------------------------------------------------------------------------------------------


class TrainingResult(NamedTuple):
    """The weights of a policy, the mean reward of a step at each update, and the times [s] to train and to compile."""

    weights: Weights
    curve: Array
    seconds: float
    compile_seconds: float


class ProgressCallback(Protocol):
    """Called between chunks of updates with the mean reward of a step in the latest update."""

    def __call__(self, done: int, updates: int, reward: float) -> None: ...


class Checkpoint:
    """A file with the arrays of a tree and a description of the run; loading rejects files of other runs."""

    def __init__(self, path: str | Path, description: dict[str, object]) -> None:
        self.path, self.description = Path(path), json.dumps(description, sort_keys=True, default=str)

    def save(self, tree: object) -> None:
        """Replace the file."""
        leaves = {f"leaf{k:04d}": np.asarray(leaf) for k, leaf in enumerate(flatten(tree))}
        with atomic_write(self.path) as temporary, temporary.open("wb") as file:
            np.savez(file, about=np.array(self.description), **leaves)  # type: ignore[arg-type]

    def load(self, template: T) -> T | None:
        """Return a tree of the shape and types of the template, or None if the file does not exist."""
        if not self.path.exists():
            return None
        expected = flatten(template)
        try:
            with np.load(self.path, allow_pickle=False) as file:
                description = str(file["about"])
                leaves = [file[f"leaf{k:04d}"] for k in range(len(expected))] if description == self.description else []
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise ValueError(f"{self.path}: cannot be read ({error}); expected a checkpoint of this run") from None
        if description != self.description:
            raise ValueError(f"{self.path}: belongs to another run ({description}); expected {self.description}")
        if any(a.shape != np.shape(b) for a, b in zip(leaves, expected, strict=True)):
            raise ValueError(f"{self.path}: its arrays have other shapes; expected those of this run")
        pairs = zip(leaves, expected, strict=True)
        tree: T = unflatten(template, iter([b.__array_namespace__().asarray(a, b.dtype) for a, b in pairs]))
        return tree


class Trainer(Protocol):
    """A compiled program that trains a policy, from a seed, each time it is called."""

    def __call__(
        self, seed: int = 0, progress: ProgressCallback | None = None, checkpoint: Checkpoint | None = None
    ) -> TrainingResult: ...


class TrainingState(Protocol):
    """A named tuple of arrays with the count of completed updates."""

    @property
    def done(self) -> Scalar: ...


S = TypeVar("S", bound=TrainingState)
Begin = Callable[[Scalar], S]
Update = Callable[[S], tuple[S, Scalar]]
Chunk = Callable[[S, int], tuple[S, Scalar]]
"""(state, count) → state, the reward of each update; a compiled one has a fixed count."""
Compile = Callable[[Begin[S], Update[S], int], tuple[Begin[S], Chunk[S]]]
"""(initial state of a seed, update, updates in a chunk) → initial state, chunk."""


def run_in_python(begin: Begin[S], update: Update[S], size: int) -> tuple[Begin[S], Chunk[S]]:
    """Run the updates of a chunk one by one from Python: the `Compile` for updates that call compiled functions."""

    def chunk(state: S, count: int) -> tuple[S, Scalar]:
        rewards = np.empty(count, np.float32)
        for k in range(count):
            state, rewards[k] = update(state)
        return state, rewards

    return begin, chunk


def require_finite_reward(curve: Array, done: int) -> None:
    """Raise FloatingPointError if the reward of the latest of `done` updates is not finite: the training diverged."""
    if not np.isfinite(curve[done - 1]):
        first = int(np.argmin(np.isfinite(curve[:done])))
        raise FloatingPointError(
            f"training diverged: the reward of update {first + 1} is {curve[first]}; expected a finite number. "
            + ("Try a lower learning rate (--rate) or" if first else "Check the terms of the reward, or try")
            + " more physics steps per action (--substeps)"
        )


def make_trainer(
    begin: Begin[S],
    update: Update[S],
    extract_weights: Callable[[S], Weights],
    updates: int,
    chunks: int,
    compile_updates: Compile[S] = run_in_python,
    compile_seconds: float = 0.0,
) -> Trainer:
    """Compile a trainer, which reports and saves after each chunk.

    Args:
        begin: `begin(seed)` → state.
        update: `update(state)` → state, reward.
        extract_weights: `extract_weights(state)` → weights of the policy.
        updates: count of updates.
        chunks: count of chunks. A compiled last chunk runs beyond `updates`; rewards of the extra updates are dropped.
        compile_updates: compiles `begin` and the chunks.
        compile_seconds: time already spent on compilation [s].
    """
    size = -(-updates // chunks)
    clock = time.perf_counter()
    initial, chunk = compile_updates(begin, update, size)
    compile_seconds += time.perf_counter() - clock

    def train(
        seed: int = 0, progress: ProgressCallback | None = None, checkpoint: Checkpoint | None = None
    ) -> TrainingResult:
        clock = time.perf_counter()
        state, curve = initial(seed), np.zeros(updates, np.float32)
        saved = checkpoint.load((state, curve)) if checkpoint is not None else None
        state, curve = saved or (state, curve)
        for done in range(int(state.done), updates, size):
            count = min(size, updates - done)
            state, rewards = chunk(state, count)
            curve[done : done + count] = rewards[:count]
            require_finite_reward(curve, done + count)
            if checkpoint is not None:
                checkpoint.save((state, curve))
            if progress is not None:
                progress(done + count, updates, float(curve[done + count - 1]))
        weights = map_tree(np.asarray, extract_weights(state))
        return TrainingResult(weights, curve, time.perf_counter() - clock, compile_seconds)

    return train
