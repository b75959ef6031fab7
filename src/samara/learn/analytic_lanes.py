"""Learning by the gradient of the flight itself, in machine code on all cores of a CPU:
`samara.learn.gradient_training` without JAX.

    maximise  J(w) = mean over drones of  (1/H) Σₖ r(xₖ, aₖ),    a = π_w(o),   with ∂J/∂w through the equations of motion

The recipe is the same, and so is what is done with a gradient; only the random numbers are others. They have addresses (seed,
update, drone), so that nothing depends on how many threads there are, or on where learning was stopped and went on.
"""

import time
from typing import NamedTuple

import numpy as np

from samara.core.random import key_of
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.learn.adam import Moments, adam, at_rest, clipped
from samara.learn.checkpoint import Checkpoint
from samara.learn.compiled_episode import SOURCE, random_numbers
from samara.learn.episode import Setting, StepFunctions, require_no_camera
from samara.learn.hyperparameters import Recipe
from samara.learn.rollout_cpu import LaneRollout, layers_of, row_of
from samara.learn.training_result import Learner, Learnt, Progress, Weights, first_layers


class Learning(NamedTuple):
    """Where learning stands"""

    weights: Array
    moments: Moments
    episodes: Array
    done: Array
    curve: Array


def analytic(setting: Setting, recipe: Recipe, *, chunks: int = 1, first: Weights | None = None) -> Learner:
    """A learner for a setting, compiled: `learner(seed, progress, checkpoint)` tells after each of so many chunks

    It goes on from the weights of another policy where `first` are given, else from drawn ones.
    """
    clock = time.perf_counter()
    require_no_camera(setting)
    functions = StepFunctions(setting)
    sizes = (functions.observations, *recipe.hidden, len(functions.action))
    rollout = LaneRollout(functions, sizes, recipe.horizon, hidden=recipe.activation, integrator=recipe.integrator)
    compile_seconds = time.perf_counter() - clock
    size = -(-recipe.updates // chunks)

    def learn(seed: int = 0, progress: Progress | None = None, checkpoint: Checkpoint | None = None) -> Learnt:
        clock = time.perf_counter()
        learning = _begun(functions, recipe, sizes, first, seed)
        learning = (checkpoint.load(learning) if checkpoint is not None else None) or learning
        for done in range(int(learning.done), recipe.updates):
            learning = _update(functions, rollout, recipe, seed, learning)
            if (done + 1) % size and done + 1 < recipe.updates:
                continue
            if checkpoint is not None:
                checkpoint.save(learning)
            if progress is not None:
                progress(done + 1, recipe.updates, float(learning.curve[done]))
        weights = layers_of(learning.weights, sizes)
        return Learnt(weights, learning.curve, time.perf_counter() - clock, compile_seconds)

    return learn


def _begun(
    functions: StepFunctions, recipe: Recipe, sizes: tuple[int, ...], first: Weights | None, seed: int
) -> Learning:
    rng = np.random.default_rng(seed)
    shapes = zip(sizes[1:], sizes, strict=False)
    weights = row_of(first or first_layers([rng.standard_normal(shape, dtype=np.float32) for shape in shapes]))
    episodes, _ = starts(functions, seed, recipe.updates, recipe.drones)
    return Learning(weights, at_rest(weights), episodes, np.array(0), np.zeros(recipe.updates, np.float32))


def starts(functions: StepFunctions, seed: int, update: int, drones: int, source: str = SOURCE) -> tuple[Array, Array]:
    """Episodes at their start (size, N), and a number from 0 to 1 for each"""
    keys = np.repeat(np.array(key_of(seed, source), dtype=np.uint64)[:, None], drones, axis=1)
    draws = random_numbers(keys, np.full(drones, update), np.arange(drones), (*functions.draws, "uniform"))
    leaves = flatten(functions.reset(list(draws[:-1])))
    return np.array([np.broadcast_to(x, drones) for x in leaves], dtype=np.float32), draws[-1]


def _update(functions: StepFunctions, rollout: LaneRollout, recipe: Recipe, seed: int, learning: Learning) -> Learning:
    """One gradient, and one step of Adam up it; what are not numbers is left out"""
    weights, moments, episodes, count, curve = learning
    done = int(count)
    with np.errstate(all="ignore"):  # of drones that are lost
        flying = unflatten(functions.episode, iter(episodes.astype(float)))
        terminated = np.broadcast_to(functions.is_terminated(flying), recipe.drones)
        lost = (terminated > 0.0) | ~np.isfinite(episodes).all(axis=0)
    fresh, choice = starts(functions, seed, done, recipe.drones)
    episodes = np.where(lost | (choice < recipe.afresh), fresh, episodes)
    share = -1.0 / (recipe.drones * recipe.horizon)
    flown, gradient, _ = rollout.gradient(weights, episodes, np.full(recipe.drones, share))
    gradient = clipped(gradient, 1.0)
    gradient = np.where(np.isfinite(gradient), gradient, np.float32(0.0))
    rate = recipe.rate * max(0.0, 1.0 - done / recipe.updates) + recipe.last_rate
    weights, moments = adam(weights, gradient, moments, np.float32(rate), (0.9, recipe.forgetting))
    curve = curve.copy()
    curve[done] = flown.total.mean() / recipe.horizon
    return Learning(weights, moments, flown.end, np.array(done + 1), curve)
