"""Proximal policy optimisation (J. Schulman et al., 2017) with generalised advantages, compiled as one program.

    maximise  E min(ρ Â, clip(ρ, 1 ± ε) Â),   ρ = π(a|o) / π_old(a|o),   π = N(tanh(W₃ …), σ²)
    Âₜ = δₜ + γ λ (1 − endₜ) Âₜ₊₁,   δₜ = (1 − γ) r̃ₜ + γ (1 − terminatedₜ) V(oₜ') − V(oₜ)

oₜ' is the observation at the end of a step, before a new episode begins, so that truncated episodes are bootstrapped.
With the factor 1 − γ a value is a mean reward, whatever the horizon 1/(1 − γ); r̃ is the reward, compressed below 0 and
expanded above.
"""

from functools import partial
from typing import NamedTuple

from samara.core.optional_dependencies import MissingExtraError
from samara.learn.env_config import Setting, require_no_camera
from samara.learn.jax_step import BatchTransition, EpisodeBatch, Episodes
from samara.learn.optimizer import Moments, Trainer, adam, clip_norm, initial_moments, make_trainer
from samara.learn.policies import Layers, act, dense_network

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import Array, lax
except ImportError as error:
    raise MissingExtraError("samara.learn.ppo needs JAX: pip install 'samara[jax]'") from error

from samara.learn.rollout_jax import compile_updates, initial_weights


class Hyperparameters(NamedTuple):
    """In each of `updates`, `drones` fly `horizon` steps, from which Adam takes `batches` steps in each of `epochs`

    The learning rate falls from `rate` to `last_rate`; `discount` is γ, `trace` λ, `clip` ε, `spread` the initial σ,
    `largest` the norm to which gradients are clipped, and `sharpness` expands rewards near the maximum; 0 leaves
    rewards unchanged. `loss` is an extra cost of episodes that end with a negative reward; it grows from 0 over the
    first third of the updates. σ does not fall below `least_spread` times the fraction of updates left, so that
    exploration does not stop.
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


HYPERPARAMETERS = {
    "hover": Hyperparameters(updates=120),
    "recover": Hyperparameters(
        drones=4096, horizon=64, updates=800, batches=8, rate=3e-3, discount=0.99, clip=0.1, spread=0.5
    ),
    "race": Hyperparameters(
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
"""By the name of a task, `race` at any level and on any track; other tasks use the defaults"""

MIN_SPREAD = 3e-3  # σ at the end
COUNTS = ("drones", "horizon", "updates", "epochs", "batches")
FRACTIONS = ("discount", "trace", "clip")


class Networks(NamedTuple):
    """The trained parameters: weights of the policy, log σ of each action, weights of the value function"""

    policy: Layers
    log_spread: Array
    value: Layers


class State(NamedTuple):
    """The state of a training run"""

    networks: Networks
    moments: Moments
    drones: Episodes
    key: Array
    done: Array


class Batch(NamedTuple):
    """Samples in columns: (size, samples)"""

    observation: Array
    action: Array
    log_density: Array
    advantage: Array
    target: Array


def hyperparameters_for(task: str) -> Hyperparameters:
    """The hyperparameters of a task"""
    return HYPERPARAMETERS.get("race" if task.startswith("race_") else task, Hyperparameters())


def ppo(setting: Setting, parameters: Hyperparameters, *, chunks: int = 1, kernel: bool | None = None) -> Trainer:
    """Compile a trainer; on a GPU a step of all drones is one `kernel`"""
    require_no_camera(setting)
    check_hyperparameters(parameters)
    env = EpisodeBatch(setting, jax.default_backend() == "gpu" if kernel is None else kernel)
    return make_trainer(
        partial(_initial_state, env, parameters),
        partial(_update, env, parameters),
        lambda state: state.networks.policy,
        parameters.updates,
        chunks,
        compile_updates,
    )


def check_hyperparameters(parameters: Hyperparameters) -> None:
    """ValueError for a hyperparameter that is out of range"""
    for name in COUNTS:
        value = getattr(parameters, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
    for name in FRACTIONS:
        if not 0.0 < getattr(parameters, name) < 1.0:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; expected a number between 0 and 1")
    for name in ("rate", "spread", "largest"):
        if not 0.0 < getattr(parameters, name) < np.inf:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; expected a positive number")
    for name in ("sharpness", "loss", "least_spread"):
        if not 0.0 <= getattr(parameters, name) < np.inf:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; expected a number that is not negative")
    if parameters.drones % parameters.batches:
        raise ValueError(
            f"drones is {parameters.drones}; expected a multiple of batches, which is {parameters.batches}"
        )


# The program ----------------------------------------------------------------------------------------------------------


def _initial_state(env: EpisodeBatch, parameters: Hyperparameters, seed: Array) -> State:
    first, second, third, fourth, key = jax.random.split(jax.random.PRNGKey(seed), 5)
    network, observations, actions = dense_network(parameters.hidden), env.observations, env.setting.actions
    policy = initial_weights(network, first, observations, actions)
    value = initial_weights(network, second, observations, 1)
    networks = Networks(policy, jnp.full(actions, np.log(parameters.spread), jnp.float32), value)
    drones = env.reset(third, parameters.drones)
    # random ages, so that episodes do not all end together
    age = jnp.floor(jax.random.uniform(fourth, (parameters.drones,), jnp.float32, maxval=env.setting.task.steps))
    return State(networks, initial_moments(networks), drones._replace(age=age), key, jnp.zeros((), jnp.int32))


def _update(env: EpisodeBatch, parameters: Hyperparameters, state: State) -> tuple[State, Array]:
    """Fly all drones for a horizon, and train on what they observed"""
    first, second, key = jax.random.split(state.key, 3)
    drones, batches, reward = _collect(env, parameters, state, first, second)
    left = jnp.maximum(0.0, 1.0 - state.done / parameters.updates)
    rate = parameters.last_rate + (parameters.rate - parameters.last_rate) * left

    def descend(carry: tuple[Networks, Moments], batch: Batch) -> tuple[tuple[Networks, Moments], None]:
        networks, moments = carry
        gradient = clip_norm(jax.grad(_loss)(networks, batch, parameters), parameters.largest)
        return adam(networks, gradient, moments, rate, (0.9, 0.999)), None

    def epoch(carry: tuple[Networks, Moments], _: None) -> tuple[tuple[Networks, Moments], None]:
        return lax.scan(descend, carry, batches)[0], None

    (networks, moments), _ = lax.scan(epoch, (state.networks, state.moments), None, length=parameters.epochs)
    if parameters.least_spread:
        least = jnp.log(parameters.least_spread * left + MIN_SPREAD)
        networks = networks._replace(log_spread=jnp.maximum(networks.log_spread, least))
    return State(networks, moments, drones, key, state.done + 1), reward


def _collect(
    env: EpisodeBatch, parameters: Hyperparameters, state: State, for_starts: Array, for_noise: Array
) -> tuple[Episodes, Batch, Array]:
    """The drones after `horizon` steps, the samples in batches, and the mean reward"""
    n, horizon = parameters.drones, parameters.horizon
    networks, drones = state.networks, state.drones
    fresh = env.reset(for_starts, n)
    for_actions, for_sensors = jax.random.split(for_noise)
    noise = jax.random.normal(for_actions, (horizon, env.setting.actions, n), jnp.float32)

    def one(drones: Episodes, draws: tuple[Array, Array]) -> tuple[Episodes, tuple[Array, Array, BatchTransition]]:
        exploration, sensor_noise = draws
        action = act(networks.policy, drones.observation) + jnp.exp(networks.log_spread)[:, None] * exploration
        after, step = env.step(drones, action, sensor_noise, fresh)
        return after, (drones.observation, action, step)

    drones, (seen, action, step) = lax.scan(one, drones, (noise, env.noise(for_sensors, horizon, n)))
    seen, after, action = (x.swapaxes(0, 1) for x in (seen, step.final_observation, action))  # (size, horizon, drones)
    now, later = (_value(networks.value, x.reshape(len(x), -1)).reshape(horizon, n) for x in (seen, after))
    reward = shaped(step.reward, parameters.sharpness)
    if parameters.loss:
        lost = jnp.where(step.reward < 0.0, step.terminated, 0.0)
        reward = reward - parameters.loss * jnp.minimum(1.0, 3.0 * state.done / parameters.updates) * lost
    worth = (1.0 - parameters.discount) * reward + parameters.discount * (1.0 - step.terminated) * later
    advantage = advantages(worth - now, parameters.discount * parameters.trace * (1.0 - step.ended))
    log_density = -0.5 * jnp.sum(noise * noise, 1) - jnp.sum(networks.log_spread)
    relative = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    whole = Batch(seen, action, log_density[None], relative[None], (advantage + now)[None])
    return drones, jax.tree.map(lambda x: _cut(x, parameters.batches), whole), jnp.mean(step.reward)


def shaped(reward: Array, sharpness: float) -> Array:
    """(eᵏʳ − 1)/k above 0, −log(1 − r) below; r itself where k is 0

    Differences count less far from the goal and more near it; otherwise the noise of the advantages hides the last
    centimetres.
    """
    if sharpness == 0.0:
        return reward
    above = jnp.expm1(sharpness * jnp.maximum(reward, 0.0)) / sharpness
    return jnp.where(reward < 0.0, -jnp.log1p(jnp.maximum(-reward, 0.0)), above)


def _cut(x: Array, batches: int) -> Array:
    """(size, horizon, drones) → (batches, size, samples): each has some of the drones, at all times"""
    size, horizon, n = x.shape
    return x.reshape(size, horizon, batches, n // batches).transpose(2, 0, 1, 3).reshape(batches, size, -1)


def advantages(errors: Array, carried: Array) -> Array:
    """Âₜ = δₜ + cₜ Âₜ₊₁ over the first axis, with 0 after the last: the maps x ↦ δ + c x, composed in pairs"""

    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    _, sums = lax.associative_scan(compose, (carried, errors), reverse=True)
    return sums


def _loss(networks: Networks, batch: Batch, parameters: Hyperparameters) -> Array:
    """(V − target)² − min(ρ Â, clip(ρ) Â), in the mean"""
    away = (batch.action - act(networks.policy, batch.observation)) * jnp.exp(-networks.log_spread)[:, None]
    log_density = -0.5 * jnp.sum(away * away, 0) - jnp.sum(networks.log_spread)
    ratio, advantage = jnp.exp(log_density - batch.log_density[0]), batch.advantage[0]
    near = jnp.clip(ratio, 1.0 - parameters.clip, 1.0 + parameters.clip)
    error = _value(networks.value, batch.observation) - batch.target[0]
    return jnp.mean(error * error - jnp.minimum(ratio * advantage, near * advantage))


def _value(weights: Layers, observation: Array) -> Array:
    """V(o) = W₃ tanh(W₂ tanh(W₁ o + b₁) + b₂) + b₃, (N,)"""
    matrix, bias = weights[-1]
    return (matrix @ act(weights[:-1], observation) + bias[:, None])[0]
