"""Learning by the gradient of the flight itself: rewards are summed over a short horizon, and differentiated by the weights.

    maximise  J(w) = mean over drones of  (1/H) Σₖ r(xₖ, aₖ),    a = π_w(o),   with ∂J/∂w through the equations of motion

All drones fly on from where the last horizon has left them, but for those that are lost and a share that start afresh: so the
policy learns from the start of an episode to its end, though no gradient reaches farther than H steps.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from samara.learn.adam import Moments, adam, at_rest, clipped
from samara.learn.episode import Setting
from samara.learn.hyperparameters import Recipe, recipe_with
from samara.learn.in_chunks import learner_in_chunks
from samara.learn.jax_step import FlatStep, flat_step, rolled_integrator
from samara.learn.network import Network, dense_network
from samara.learn.recurrent import recurrent_network
from samara.learn.rollout_xla import Rollout, rollout_xla
from samara.learn.training_result import Learner, Weights


def recipe_for(task: str) -> Recipe:
    """The recipe of a task, with as many drones as are worth their time where JAX runs"""
    return recipe_with(task, jax.default_backend() == "gpu")


def network_for(recipe: Recipe) -> Network:
    """Dense layers, or some with a memory"""
    if recipe.memory:
        return recurrent_network(recipe.hidden, recipe.memory)
    return dense_network(recipe.hidden, recipe.activation)


class Learning(NamedTuple):
    """Where learning stands"""

    weights: Weights
    moments: Moments
    episodes: Any
    key: Any
    done: Any


def analytic(setting: Setting, recipe: Recipe, *, chunks: int = 1, first: Weights | None = None) -> Learner:
    """A learner for a setting, compiled: `learner(seed, progress, checkpoint)` tells after each of so many chunks

    It goes on from the weights of another policy where `first` are given, else from drawn ones.
    On a GPU rollout and adjoint are a kernel each (`samara.learn.rollout_gpu`).
    """
    launched = jax.default_backend() == "gpu" and recipe.memory  # stages in a loop would be launched one by one
    integrator = recipe.integrator if launched else rolled_integrator(recipe.integrator)
    functions = flat_step(setting, integrator)
    rollout = rollout_for(functions, recipe)
    return learner_in_chunks(
        partial(_begun, functions, recipe, first),
        partial(_updates, functions, rollout, recipe),
        lambda learning: learning.weights,
        recipe.updates,
        chunks,
    )


def rollout_for(functions: FlatStep, recipe: Recipe) -> Rollout:
    """The quickest way to fly a policy where JAX runs"""
    if jax.default_backend() != "gpu" or recipe.memory:
        share = recipe.largest / (recipe.drones * recipe.horizon)  # of the mean reward
        return rollout_xla(functions, recipe.horizon, network_for(recipe), recipe.fading, share)
    from samara.learn.rollout_gpu import rollout_kernel

    return rollout_kernel(functions, recipe.horizon, hidden=recipe.activation, integrator=recipe.integrator)


def _begun(functions: FlatStep, recipe: Recipe, given: Weights | None, seed: Any) -> Learning:
    first, second, third = jax.random.split(jax.random.key(seed), 3)
    weights = given or network_for(recipe).first(first, functions.observations, functions.actions)
    episodes = _fresh(functions, recipe, weights, second)
    return Learning(weights, at_rest(weights), episodes, third, jnp.zeros((), jnp.int32))


def _fresh(functions: FlatStep, recipe: Recipe, weights: Weights, key: Any) -> Any:
    """Episodes at their start, and what the policy then remembers: (size + memory, N)"""
    return jnp.concatenate([starts(functions, key, recipe.drones), network_for(recipe).begin(weights, recipe.drones)])


def starts(functions: FlatStep, key: Any, drones: int) -> Any:
    """Episodes at their start, (size, N)"""
    first, second = jax.random.split(key)
    shape = (max(1, len(functions.draws)), drones)
    uniform, normal = jax.random.uniform(first, shape, jnp.float32), jax.random.normal(second, shape, jnp.float32)
    rows = [(uniform if kind == "uniform" else normal)[k] for k, kind in enumerate(functions.draws or ("uniform",))]
    return jnp.stack(functions.reset(rows))


def _updates(
    functions: FlatStep, rollout: Rollout, recipe: Recipe, count: int, learning: Learning
) -> tuple[Learning, Any]:
    return lax.scan(lambda own, _: _update(functions, rollout, recipe, own), learning, None, length=count)


def _update(functions: FlatStep, rollout: Rollout, recipe: Recipe, learning: Learning) -> tuple[Learning, Any]:
    """One gradient, and one step of Adam up it; rewards that are not numbers are left out"""
    weights, moments, episodes, key, done = learning
    key, for_starts, for_choice = jax.random.split(key, 3)
    lost = (functions.is_terminated(list(episodes[: functions.size]))[0] > 0.0) | ~jnp.isfinite(episodes).all(0)
    again = lost | (jax.random.uniform(for_choice, lost.shape) < recipe.afresh)
    episodes = jnp.where(again, _fresh(functions, recipe, weights, for_starts), episodes)

    def loss(weights: Weights) -> tuple[Any, Any]:
        total, end = rollout(weights, episodes)
        return -jnp.mean(total) / recipe.horizon, end

    (value, end), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
    gradient = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), g, 0.0), clipped(gradient, 1.0))
    left = jnp.maximum(0.0, 1.0 - done.astype(jnp.float32) / recipe.updates)
    rate = recipe.rate * left + recipe.last_rate
    weights, moments = adam(weights, gradient, moments, rate, (0.9, recipe.forgetting))
    return Learning(weights, moments, lax.stop_gradient(end), key, done + 1), -value
