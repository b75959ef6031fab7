"""Proximal policy optimisation (J. Schulman et al., 2017) with generalised advantages, all of it one compiled program.

    maximise  E min(ρ Â, clip(ρ, 1 ± ε) Â),   ρ = π(a|o) / π_old(a|o),   π = N(tanh(W₃ …), σ²)
    Âₜ = δₜ + γ λ (1 − endₜ) Âₜ₊₁,   δₜ = (1 − γ) r̃ₜ + γ (1 − terminatedₜ) V(oₜ') − V(oₜ)

oₜ' is what is seen at the end of a step, before another episode begins: where time has run out its value still counts. With
1 − γ before the reward a value is a mean reward, whatever the horizon 1/(1 − γ); r̃ is the reward, softened below 0 and
sharpened above.
"""

from functools import partial
from typing import Any, NamedTuple

from samara.core.optional_dependencies import MissingExtraError
from samara.learn.episode import Setting, require_no_camera
from samara.learn.in_chunks import learner_in_chunks
from samara.learn.jax_step import EpisodeBatch, Episodes
from samara.learn.training_result import Learner, Weights

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
except ImportError as error:
    raise MissingExtraError("samara.learn.ppo needs JAX: pip install 'samara[jax]'") from error

from samara.learn.adam import Moments, adam, at_rest, clipped
from samara.learn.network import act, first_weights


class Recipe(NamedTuple):
    """How to learn: `drones` fly `horizon` steps, then `epochs` times `batches` steps of Adam are taken; so for all `updates`

    The learning rate falls from `rate` to `last_rate`; `discount` is γ, `trace` λ, `clip` ε, `spread` σ at the start,
    `largest` the length that a gradient is cut to, and `sharpness` how much more a reward counts near the best; at 0 all
    rewards count as they are. `loss` is what an episode costs that ends with a negative reward, beside that reward; it grows
    from 0 over the first third of the updates: one learns to fly first, and then to take care. σ does not fall below
    `least_spread` times the share of updates that is left: a policy that stops trying stops learning. Many short batches learn
    faster than few long ones.
    """

    hidden: tuple[int, ...] = (64, 64)
    drones: int = 2048
    horizon: int = 32
    updates: int = 200
    epochs: int = 4
    batches: int = 16
    rate: float = 4e-3
    last_rate: float = 1e-5
    discount: float = 0.98
    trace: float = 0.95
    clip: float = 0.2
    spread: float = 0.3
    largest: float = 10.0
    sharpness: float = 2.0
    loss: float = 0.0
    least_spread: float = 0.0


RECIPES = {
    "hover": Recipe(updates=120),
    "recover": Recipe(drones=4096, horizon=64, updates=800, batches=8, rate=3e-3, discount=0.99, clip=0.1, spread=0.5),
    "race": Recipe(
        hidden=(128, 128),
        drones=4096,
        updates=4300,
        batches=8,
        rate=7e-4,
        last_rate=2e-5,
        discount=0.995,
        spread=0.5,
        largest=1.0,
        sharpness=0.0,
        loss=35.0,
        least_spread=0.06,
    ),
}
"""By the name of a task, race at any level and on any track; any other learns by the default"""

SMALL = 3e-3  # σ that may be left at the end
COUNTS = ("drones", "horizon", "updates", "epochs", "batches")
SHARES = ("discount", "trace", "clip")


class Networks(NamedTuple):
    """What is learnt: the policy's weights, log σ of each action, and the weights of the value"""

    policy: Weights
    log_spread: Any
    value: Weights


class Learning(NamedTuple):
    """Where learning stands"""

    networks: Networks
    moments: Moments
    drones: Episodes
    key: Any
    done: Any


class Batch(NamedTuple):
    """Samples in columns: (size, samples)"""

    observation: Any
    action: Any
    log_density: Any
    advantage: Any
    target: Any


def recipe_for(task: str) -> Recipe:
    """That of a task by its name"""
    return RECIPES.get("race" if task.startswith("race_") else task, Recipe())


def ppo(setting: Setting, recipe: Recipe, *, chunks: int = 1, kernel: bool | None = None) -> Learner:
    """A learner for a setting, compiled: `learner(seed, progress, checkpoint)` tells after each of so many chunks

    On a GPU a step of all drones is one `kernel`.
    """
    require_no_camera(setting)
    own = checked(recipe)
    env = EpisodeBatch(setting, jax.default_backend() == "gpu" if kernel is None else kernel)
    return learner_in_chunks(
        partial(_begun, env, own),
        partial(_updates, env, own),
        lambda learning: learning.networks.policy,
        own.updates,
        chunks,
    )


def checked(recipe: Recipe) -> Recipe:
    """The recipe, or a sentence about what does not fit"""
    for name in COUNTS:
        value = getattr(recipe, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
    for name in SHARES:
        if not 0.0 < getattr(recipe, name) < 1.0:
            raise ValueError(f"{name} is {getattr(recipe, name)!r}; expected a number between 0 and 1")
    for name in ("rate", "spread", "largest"):
        if not 0.0 < getattr(recipe, name) < np.inf:
            raise ValueError(f"{name} is {getattr(recipe, name)!r}; expected a positive number")
    for name in ("sharpness", "loss", "least_spread"):
        if not 0.0 <= getattr(recipe, name) < np.inf:
            raise ValueError(f"{name} is {getattr(recipe, name)!r}; expected a number that is not negative")
    if recipe.drones % recipe.batches:
        raise ValueError(f"drones is {recipe.drones}; expected a multiple of batches, which is {recipe.batches}")
    return recipe


# The program ----------------------------------------------------------------------------------------------------------


def _begun(env: EpisodeBatch, recipe: Recipe, seed: Any) -> Learning:
    first, second, third, fourth, key = jax.random.split(jax.random.key(seed), 5)
    seen, actions = env.observations, env.setting.actions
    policy = first_weights(first, (seen, *recipe.hidden, actions))
    value = first_weights(second, (seen, *recipe.hidden, 1))
    networks = Networks(policy, jnp.full(actions, np.log(recipe.spread), jnp.float32), value)
    drones = env.reset(third, recipe.drones)
    # of any age, so that not all episodes end together
    age = jnp.floor(jax.random.uniform(fourth, (recipe.drones,), jnp.float32, maxval=env.setting.task.steps))
    return Learning(networks, at_rest(networks), drones._replace(age=age), key, jnp.zeros((), jnp.int32))


def _updates(env: EpisodeBatch, recipe: Recipe, count: int, learning: Learning) -> tuple[Learning, Any]:
    return lax.scan(lambda now, _: _update(env, recipe, now), learning, None, length=count)


def _update(env: EpisodeBatch, recipe: Recipe, learning: Learning) -> tuple[Learning, Any]:
    """All drones fly, and what they saw is learnt from"""
    first, second, key = jax.random.split(learning.key, 3)
    drones, batches, reward = _flown(env, recipe, learning, first, second)
    left = jnp.maximum(0.0, 1.0 - learning.done / recipe.updates)
    rate = recipe.last_rate + (recipe.rate - recipe.last_rate) * left

    def descend(now: Any, batch: Batch) -> tuple[Any, None]:
        networks, moments = now
        gradient = clipped(jax.grad(_loss)(networks, batch, recipe), recipe.largest)
        return adam(networks, gradient, moments, rate, (0.9, 0.999)), None

    def epoch(now: Any, _: Any) -> tuple[Any, None]:
        return lax.scan(descend, now, batches)[0], None

    (networks, moments), _ = lax.scan(epoch, (learning.networks, learning.moments), None, length=recipe.epochs)
    if recipe.least_spread:
        least = jnp.log(recipe.least_spread * left + SMALL)
        networks = networks._replace(log_spread=jnp.maximum(networks.log_spread, least))
    return Learning(networks, moments, drones, key, learning.done + 1), reward


def _flown(
    env: EpisodeBatch, recipe: Recipe, learning: Learning, for_starts: Any, for_noise: Any
) -> tuple[Episodes, Batch, Any]:
    """The drones after `horizon` steps; what came of them, in batches; and the mean reward"""
    n, horizon = recipe.drones, recipe.horizon
    networks, drones = learning.networks, learning.drones
    fresh = env.reset(for_starts, n)
    own, other = jax.random.split(for_noise)
    noise = jax.random.normal(own, (horizon, env.setting.actions, n), jnp.float32)

    def one(drones: Episodes, drawn: Any) -> tuple[Episodes, Any]:
        own, others = drawn
        action = act(networks.policy, drones.observation) + jnp.exp(networks.log_spread)[:, None] * own
        after, step = env.step(drones, action, others, fresh)
        return after, (drones.observation, action, step)

    drones, (seen, action, step) = lax.scan(one, drones, (noise, env.noise(other, horizon, n)))
    seen, after, action = (x.swapaxes(0, 1) for x in (seen, step.final_observation, action))  # (size, horizon, drones)
    now, later = (_value(networks.value, x.reshape(len(x), -1)).reshape(horizon, n) for x in (seen, after))
    reward = shaped(step.reward, recipe.sharpness)
    if recipe.loss:
        lost = jnp.where(step.reward < 0.0, step.terminated, 0.0)
        reward = reward - recipe.loss * jnp.minimum(1.0, 3.0 * learning.done / recipe.updates) * lost
    worth = (1.0 - recipe.discount) * reward + recipe.discount * (1.0 - step.terminated) * later
    advantage = advantages(worth - now, recipe.discount * recipe.trace * (1.0 - step.ended))
    log_density = -0.5 * jnp.sum(noise * noise, 1) - jnp.sum(networks.log_spread)
    relative = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    whole = Batch(seen, action, log_density[None], relative[None], (advantage + now)[None])
    return drones, jax.tree.map(lambda x: _cut(x, recipe.batches), whole), jnp.mean(step.reward)


def shaped(reward: Any, sharpness: float) -> Any:
    """(eᵏʳ − 1)/k above 0, −log(1 − r) below; r itself where k is 0

    Far from the goal differences count for less, and near it for more: else a policy that comes to rest a hand's breadth
    beside the target is as good as any, for all that the noise of the advantages lets it see.
    """
    if sharpness == 0.0:
        return reward
    above = jnp.expm1(sharpness * jnp.maximum(reward, 0.0)) / sharpness
    return jnp.where(reward < 0.0, -jnp.log1p(jnp.maximum(-reward, 0.0)), above)


def _cut(x: Any, batches: int) -> Any:
    """(size, horizon, drones) → (batches, size, samples): each has some of the drones, at all times"""
    size, horizon, n = x.shape
    return x.reshape(size, horizon, batches, n // batches).transpose(2, 0, 1, 3).reshape(batches, size, -1)


def advantages(surprise: Any, carried: Any) -> Any:
    """Âₜ = δₜ + cₜ Âₜ₊₁ over the first axis, with 0 after the last: the maps x ↦ δ + c x, composed in pairs"""

    def composed(later: Any, earlier: Any) -> Any:
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    _, found = lax.associative_scan(composed, (carried, surprise), reverse=True)
    return found


def _loss(networks: Networks, batch: Batch, recipe: Recipe) -> Any:
    """(V − target)² − min(ρ Â, clip(ρ) Â), in the mean"""
    away = (batch.action - act(networks.policy, batch.observation)) * jnp.exp(-networks.log_spread)[:, None]
    log_density = -0.5 * jnp.sum(away * away, 0) - jnp.sum(networks.log_spread)
    ratio, advantage = jnp.exp(log_density - batch.log_density[0]), batch.advantage[0]
    near = jnp.clip(ratio, 1.0 - recipe.clip, 1.0 + recipe.clip)
    error = _value(networks.value, batch.observation) - batch.target[0]
    return jnp.mean(error * error - jnp.minimum(ratio * advantage, near * advantage))


def _value(weights: Weights, observation: Any) -> Any:
    """V(o) = W₃ tanh(W₂ tanh(W₁ o + b₁) + b₂) + b₃, (N,)"""
    matrix, bias = weights[-1]
    return (matrix @ act(weights[:-1], observation) + bias[:, None])[0]
