"""Proximal policy optimisation (J. Schulman et al., 2017) with generalised advantages, compiled as one program.

    maximise  E min(ρ Â, clip(ρ, 1 ± ε) Â),   ρ = π(a|o) / π_old(a|o),   π = N(tanh(W₃ …), σ²)
    Âₜ = δₜ + γ λ (1 − endₜ) Âₜ₊₁,   δₜ = (1 − γ) r̃ₜ + γ (1 − terminatedₜ) V(oₜ') − V(oₜ)

oₜ' is the observation at the end of a step, before a new episode begins, so that truncated episodes are bootstrapped.
With the factor 1 − γ a value is a mean reward, whatever the horizon 1/(1 − γ); r̃ is the reward, compressed below 0 and
expanded above.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from samara.compiler.jax.arrays import Launch, Operand, call_kernel, load_rows, store_rows
from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.learn.env_config import EnvironmentSetting, require_no_camera, require_no_images
from samara.learn.episode import reset, reset_draws, step, step_draws, templates
from samara.learn.jax.rollout import ROLLED_RK4, Rows, compile_updates, fill_rows, initial_weights
from samara.learn.optimizer import Moments, Trainer, adam, clip_norm, initial_moments, make_trainer
from samara.learn.policies import Layers, act, dense_network
from samara.learn.task import Draw


class PpoHyperparameters(NamedTuple):
    """Hyperparameters: in each of `updates`, `drones` fly `horizon` steps; Adam takes `batches` steps in each of `epochs`.

    The learning rate falls from `rate` to `last_rate`; `discount` is γ, `gae_lambda` λ, `clip` ε, `initial_sigma` the initial
    σ, `max_gradient_norm` the norm to which gradients are clipped, and `sharpness` expands rewards near the maximum; 0 leaves
    rewards unchanged. `termination_cost` is an extra cost of episodes that end with a negative reward; it grows from 0 over the
    first third of the updates. σ stays above `min_sigma` times the fraction of remaining updates, so that
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
    gae_lambda: float = 0.95
    clip: float = 0.2
    initial_sigma: float = 0.3
    max_gradient_norm: float = 10.0
    sharpness: float = 2.0
    termination_cost: float = 0.0
    min_sigma: float = 0.0


HYPERPARAMETERS = {
    "hover": PpoHyperparameters(updates=120),
    "recover": PpoHyperparameters(
        drones=4096, horizon=64, updates=800, batches=8, rate=3e-3, discount=0.99, clip=0.1, initial_sigma=0.5
    ),
    "race": PpoHyperparameters(
        hidden=(128, 128),
        drones=4096,
        updates=4300,
        batches=8,
        rate=7e-4,
        last_rate=2e-5,
        discount=0.995,
        initial_sigma=0.5,
        max_gradient_norm=1.0,
        sharpness=0.0,
        termination_cost=35.0,
        min_sigma=0.06,
    ),
}
"""By the name of a task, `race` at any level and on any track; other tasks use the defaults."""

MAX_EPISODE_SUM = 1e18  # Σ|x| of an episode above which, or if it is NaN, the drone is lost and starts again
LAUNCH = Launch(128, 4)
MIN_SPREAD = 3e-3  # σ at the end
COUNTS = ("drones", "horizon", "updates", "epochs", "batches")
FRACTIONS = ("discount", "gae_lambda", "clip")


class Episodes(NamedTuple):
    """Episodes (components, N), the steps since each began (N,), and their observations."""

    rows: Array
    age: Array
    observation: Array


class BatchTransition(NamedTuple):
    """The result of a step: `final_observation` is that at its end, before a new episode begins."""

    final_observation: Array
    reward: Array
    terminated: Array
    ended: Array


class Networks(NamedTuple):
    """The trained parameters: weights of the policy, log σ of each action, weights of the value function."""

    policy: Layers
    log_spread: Array
    value: Layers


class PpoTrainingState(NamedTuple):
    """The state of a training run."""

    networks: Networks
    moments: Moments
    drones: Episodes
    key: Array
    done: Array


class SampleBatch(NamedTuple):
    """Samples in columns: (size, samples)."""

    observation: Array
    action: Array
    log_density: Array
    advantage: Array
    target: Array


@dataclass(frozen=True)
class EpisodeBatch:
    """`reset` and `step` of N drones in float32; a step is one elementwise computation, or with `kernel` one Triton kernel.

    After the end of an episode, the drone continues from its `fresh` start: starts are drawn once for many steps, because
    random numbers take a GPU longer than the flight. `interpret` runs the kernel without a GPU.
    """

    setting: EnvironmentSetting
    kernel: bool = False
    interpret: bool = False

    @property
    def observation_size(self) -> int:
        """The size of an observation."""
        return len(templates(self.setting)[1])

    def reset(self, key: Array, count: int) -> Episodes:
        """Return new episodes."""
        trace = new_trace(jnp.dtype("float32"))
        random_rows = self.draw(key, reset_draws(self.setting), count)
        numbers = fold_tree((0.0,) * len(random_rows), list(random_rows), trace)
        rows, observation = (
            jnp.stack(fill_rows(unfold_leaves(tree), (count,))) for tree in reset(Draw(iter(numbers)), self.setting)
        )
        return Episodes(rows, jnp.zeros(count, jnp.float32), observation)

    def noise(self, key: Array, steps: int, count: int) -> Array:
        """Draw the random inputs of the sensors for several steps: (steps, kinds, N)."""
        distributions = step_draws(self.setting)
        if not distributions:
            return jnp.zeros((steps, 0, count), jnp.float32)
        return jax.vmap(lambda key: self.draw(key, distributions, count))(jax.random.split(key, steps))

    @staticmethod
    def draw(key: Array, distributions: tuple[str, ...], count: int) -> Array:
        """Draw one value from each distribution for each drone: (kinds, N)."""
        words = jax.random.split(key)
        numbers = {"uniform": iter(jax.random.uniform(words[0], (distributions.count("uniform"), count), jnp.float32))}
        numbers["normal"] = iter(jax.random.normal(words[1], (distributions.count("normal"), count), jnp.float32))
        return jnp.stack([next(numbers[distribution]) for distribution in distributions])

    def step(
        self, episodes: Episodes, actions: Array, noise: Array, fresh: Episodes
    ) -> tuple[Episodes, BatchTransition]:
        """Advance one period under the actions."""
        actions = actions.astype(jnp.float32)
        inputs = (episodes.rows, episodes.age[None], actions, noise, fresh.rows, fresh.observation)
        if self.kernel:
            rows = self._run_kernel([x for x in inputs if x.shape[0]])
        else:
            rows = jnp.stack(self._step_rows([row for x in inputs for row in x]))
        c, o = len(episodes.rows), self.observation_size
        split_rows = (c, c + 1, c + 1 + o, c + 1 + 2 * o)
        next_rows, age, observation, final_observation, (reward, terminated, ended) = jnp.split(rows, split_rows)
        return Episodes(next_rows, age[0], observation), BatchTransition(final_observation, reward, terminated, ended)

    def _step_rows(self, inputs: list[Scalar]) -> Rows:
        """Advance rows of arrays: episode, age, action, noise, fresh episode and its observation."""
        shape, rows_left = jnp.shape(inputs[0]), iter(inputs)
        template, _ = templates(self.setting)
        size = len(flatten(template))
        sizes = (size, 1, self.setting.action_size, len(step_draws(self.setting)), size, self.observation_size)
        episode_rows, (age,), action, noise, fresh, start_observation = (
            [next(rows_left) for _ in range(count)] for count in sizes
        )
        trace = new_trace(jnp.dtype("float32"))
        episode = fold_tree(template, episode_rows, trace)
        folded_action = fold_tree((0.0,) * len(action), action, trace)
        draw = Draw(iter(fold_tree((0.0,) * len(noise), noise, trace)))
        next_episode, (next_observation, *outcome) = step(episode, folded_action, draw, self.setting, ROLLED_RK4)
        trees = next_episode, next_observation, tuple(outcome)
        rows, final_observation, (reward, terminated) = (fill_rows(unfold_leaves(tree), shape) for tree in trees)
        is_finite = sum((abs(x) for x in rows), jnp.zeros(shape, jnp.float32)) < MAX_EPISODE_SUM
        terminated = jnp.where(is_finite, terminated, 1.0)
        ended = jnp.where(age + 1.0 >= self.setting.task.steps, 1.0, terminated)
        final_observation = [jnp.where(is_finite, x, 0.0) for x in final_observation]
        continues = ended < 0.5
        return [
            *(jnp.where(continues, *pair) for pair in zip(rows, fresh, strict=True)),
            jnp.where(continues, age + 1.0, 0.0),
            *(jnp.where(continues, *pair) for pair in zip(final_observation, start_observation, strict=True)),
            *final_observation,
            jnp.where(is_finite, reward, 0.0),
            terminated,
            ended,
        ]

    def _run_kernel(self, inputs: list[Scalar]) -> Array:
        count = inputs[0].shape[1]
        block = min(LAUNCH.block, 1 << (count - 1).bit_length())
        if count % block:
            raise ValueError(f"{count} drones: expected a multiple of {block}")

        def kernel(*references: Scalar) -> None:
            rows = self._step_rows([row for reference in references[:-1] for row in load_rows(reference)])
            store_rows(rows, references[-1], lambda i: (i, slice(None)))

        outputs = (inputs[0].shape[0] + 1 + 2 * self.observation_size + 3, count)
        return call_kernel(
            kernel,
            [Operand(x) for x in inputs],
            [outputs],
            dtype="float32",
            launch=LAUNCH._replace(block=block),
            interpret=self.interpret,
            name="step",
        )[0]


def default_hyperparameters(task: str) -> PpoHyperparameters:
    """Return the hyperparameters of a task."""
    return HYPERPARAMETERS.get("race" if task.startswith("race_") else task, PpoHyperparameters())


def ppo_trainer(
    setting: EnvironmentSetting, parameters: PpoHyperparameters, *, chunks: int = 1, kernel: bool | None = None
) -> Trainer:
    """Compile a trainer; on a GPU a step of all drones is one `kernel`.

    Args:
        setting: task and vehicle.
        parameters: hyperparameters.
        chunks: count of chunks of updates; progress is reported after each.
        kernel: compute a step by a Triton kernel; default: on a GPU.
    """
    require_no_camera(setting)
    require_no_images(setting)
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


def check_hyperparameters(parameters: PpoHyperparameters) -> None:
    """Raise ValueError for a hyperparameter that is out of range."""
    for name in COUNTS:
        value = getattr(parameters, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
    for name in FRACTIONS:
        if not 0.0 < getattr(parameters, name) < 1.0:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; expected a number between 0 and 1")
    for name in ("rate", "initial_sigma", "max_gradient_norm"):
        if not 0.0 < getattr(parameters, name) < np.inf:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; expected a positive number")
    for name in ("sharpness", "termination_cost", "min_sigma"):
        if not 0.0 <= getattr(parameters, name) < np.inf:
            raise ValueError(f"{name} is {getattr(parameters, name)!r}; expected a number that is not negative")
    if parameters.drones % parameters.batches:
        raise ValueError(
            f"drones is {parameters.drones}; expected a multiple of batches, which is {parameters.batches}"
        )


# The program ----------------------------------------------------------------------------------------------------------


def _initial_state(env: EpisodeBatch, parameters: PpoHyperparameters, seed: Array) -> PpoTrainingState:
    policy_key, value_key, start_key, age_key, key = jax.random.split(jax.random.PRNGKey(seed), 5)
    network, observations, actions = dense_network(parameters.hidden), env.observation_size, env.setting.action_size
    policy = initial_weights(network, policy_key, observations, actions)
    value = initial_weights(network, value_key, observations, 1)
    networks = Networks(policy, jnp.full(actions, np.log(parameters.initial_sigma), jnp.float32), value)
    drones = env.reset(start_key, parameters.drones)
    # random ages, so that episodes do not all end together
    age = jnp.floor(jax.random.uniform(age_key, (parameters.drones,), jnp.float32, maxval=env.setting.task.steps))
    return PpoTrainingState(
        networks, initial_moments(networks), drones._replace(age=age), key, jnp.zeros((), jnp.int32)
    )


def _update(
    env: EpisodeBatch, parameters: PpoHyperparameters, state: PpoTrainingState
) -> tuple[PpoTrainingState, Array]:
    """Fly all drones for a horizon, and train on the samples."""
    first, second, key = jax.random.split(state.key, 3)
    drones, batches, reward = _collect(env, parameters, state, first, second)
    remaining = jnp.maximum(0.0, 1.0 - state.done / parameters.updates)
    rate = parameters.last_rate + (parameters.rate - parameters.last_rate) * remaining

    def descend(carry: tuple[Networks, Moments], batch: SampleBatch) -> tuple[tuple[Networks, Moments], None]:
        networks, moments = carry
        gradient = clip_norm(jax.grad(_loss)(networks, batch, parameters), parameters.max_gradient_norm)
        return adam(networks, gradient, moments, rate, (0.9, 0.999)), None

    def epoch(carry: tuple[Networks, Moments], _: None) -> tuple[tuple[Networks, Moments], None]:
        return lax.scan(descend, carry, batches)[0], None

    (networks, moments), _ = lax.scan(epoch, (state.networks, state.moments), None, length=parameters.epochs)
    if parameters.min_sigma:
        min_log_sigma = jnp.log(parameters.min_sigma * remaining + MIN_SPREAD)
        networks = networks._replace(log_spread=jnp.maximum(networks.log_spread, min_log_sigma))
    return PpoTrainingState(networks, moments, drones, key, state.done + 1), reward


def _collect(
    env: EpisodeBatch, parameters: PpoHyperparameters, state: PpoTrainingState, start_key: Array, noise_key: Array
) -> tuple[Episodes, SampleBatch, Array]:
    """Return the drones after `horizon` steps, the samples in batches, and the mean reward."""
    n, horizon = parameters.drones, parameters.horizon
    networks, drones = state.networks, state.drones
    fresh = env.reset(start_key, n)
    action_key, sensor_key = jax.random.split(noise_key)
    noise = jax.random.normal(action_key, (horizon, env.setting.action_size, n), jnp.float32)

    def fly_step(drones: Episodes, draws: tuple[Array, Array]) -> tuple[Episodes, tuple[Array, Array, BatchTransition]]:
        exploration, sensor_noise = draws
        action = act(networks.policy, drones.observation) + jnp.exp(networks.log_spread)[:, None] * exploration
        final_observation, transitions = env.step(drones, action, sensor_noise, fresh)
        return final_observation, (drones.observation, action, transitions)

    drones, (observation, action, transitions) = lax.scan(fly_step, drones, (noise, env.noise(sensor_key, horizon, n)))
    observation, final_observation, action = (
        x.swapaxes(0, 1) for x in (observation, transitions.final_observation, action)
    )  # (size, horizon, drones)
    values, next_values = (
        _value(networks.value, x.reshape(len(x), -1)).reshape(horizon, n) for x in (observation, final_observation)
    )
    reward = shape_reward(transitions.reward, parameters.sharpness)
    if parameters.termination_cost:
        is_lost = jnp.where(transitions.reward < 0.0, transitions.terminated, 0.0)
        reward = (
            reward - parameters.termination_cost * jnp.minimum(1.0, 3.0 * state.done / parameters.updates) * is_lost
        )
    target_values = (1.0 - parameters.discount) * reward + parameters.discount * (
        1.0 - transitions.terminated
    ) * next_values
    advantage = advantages(
        target_values - values, parameters.discount * parameters.gae_lambda * (1.0 - transitions.ended)
    )
    log_density = -0.5 * jnp.sum(noise * noise, 1) - jnp.sum(networks.log_spread)
    normalized = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    samples = SampleBatch(observation, action, log_density[None], normalized[None], (advantage + values)[None])
    return drones, jax.tree.map(lambda x: _split_batches(x, parameters.batches), samples), jnp.mean(transitions.reward)


def shape_reward(reward: Array, sharpness: float) -> Array:
    """(eᵏʳ − 1)/k above 0, −log(1 − r) below; r itself if k is 0.

    Differences count less far from the goal and more near it; otherwise the noise of the advantages hides the last
    centimetres.
    """
    if sharpness == 0.0:
        return reward
    above = jnp.expm1(sharpness * jnp.maximum(reward, 0.0)) / sharpness
    return jnp.where(reward < 0.0, -jnp.log1p(jnp.maximum(-reward, 0.0)), above)


def _split_batches(x: Array, batches: int) -> Array:
    """(size, horizon, drones) → (batches, size, samples): each batch has some of the drones, at all times."""
    size, horizon, n = x.shape
    return x.reshape(size, horizon, batches, n // batches).transpose(2, 0, 1, 3).reshape(batches, size, -1)


def advantages(errors: Array, carried: Array) -> Array:
    """Âₜ = δₜ + cₜ Âₜ₊₁ over the first axis, with 0 after the last: the maps x ↦ δ + c x, composed in pairs."""

    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    _, sums = lax.associative_scan(compose, (carried, errors), reverse=True)
    return sums


def _loss(networks: Networks, batch: SampleBatch, parameters: PpoHyperparameters) -> Array:
    """(V − target)² − min(ρ Â, clip(ρ) Â), averaged."""
    deviation = (batch.action - act(networks.policy, batch.observation)) * jnp.exp(-networks.log_spread)[:, None]
    log_density = -0.5 * jnp.sum(deviation * deviation, 0) - jnp.sum(networks.log_spread)
    ratio, advantage = jnp.exp(log_density - batch.log_density[0]), batch.advantage[0]
    clipped_ratio = jnp.clip(ratio, 1.0 - parameters.clip, 1.0 + parameters.clip)
    error = _value(networks.value, batch.observation) - batch.target[0]
    return jnp.mean(error * error - jnp.minimum(ratio * advantage, clipped_ratio * advantage))


def _value(weights: Layers, observation: Array) -> Array:
    """V(o) = W₃ tanh(W₂ tanh(W₁ o + b₁) + b₂) + b₃, (N,)."""
    matrix, bias = weights[-1]
    return (matrix @ act(weights[:-1], observation) + bias[:, None])[0]
