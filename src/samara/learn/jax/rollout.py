"""Rollouts of a policy in JAX, and their gradient by reverse differentiation.

x₀ → x_H and Σ r of each drone:   ∂ Σ r / ∂ weights, each step recomputed in the backward pass

Components are rows, drones are columns. The state of a recurrent policy is appended to the rows of an episode; depth
images are stored for the backward pass, not rendered again.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import DTypeLike

from samara.compiler.jax.folding_scalar import fold_tree, new_trace, stage_loop, unfold_leaves
from samara.control.depth_observation import BLOCK_COUNT, block_inverse_distance
from samara.core.integrate import RUNGE_KUTTA_INTEGRATORS, find_integrator, stage_chain, unit_quaternions
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.learn.env_config import EnvironmentSetting, require_no_images
from samara.learn.episode import Integration, StepFunctions, advance_episode
from samara.learn.optimizer import Begin, Chunk, S, Update
from samara.learn.policies import Layers, PolicyNetwork, Weights, dense_network
from samara.learn.task import DepthObservation, Situation, Tree
from samara.sensors.depth_jax import depth_images

if TYPE_CHECKING:
    from samara.learn.gradient_training import GradientHyperparameters

IMAGE = "image"  # name under which images are stored for the backward pass
ACTION_COST = 0.1  # cost per squared excess of an action beyond ±1; actions are clipped to ±1
DENSE = dense_network()  # of any size: the layers follow from the weights

RolloutFunction = Callable[[Weights, Array], tuple[Array, Array]]
"""(weights, episodes (size, N)) → (rewards summed over the steps (N,), episodes)."""

Rows = list[Scalar]
"""Arrays with one entry for each drone."""


def rolled_integrator(name: str = "rk4") -> Callable[..., Scalar]:
    """Return a Runge–Kutta method as a loop over its stages: for RK4 a quarter of the code to compile."""
    return partial(stage_loop, stage_chain(find_integrator(name, RUNGE_KUTTA_INTEGRATORS).tableau))


ROLLED_RK4 = rolled_integrator()


# One step ---


class FlatStep(NamedTuple):
    """The functions of `StepFunctions` on flat lists of arrays, each traced separately, and the sizes of the lists."""

    reset: Callable[[Sequence[Scalar]], Rows]
    observe: Callable[[Sequence[Scalar]], Rows]
    step: Callable[[Sequence[Scalar], Sequence[Scalar]], tuple[Rows, Scalar, Scalar]]
    command: Callable[[Sequence[Scalar], Sequence[Scalar]], Rows]
    derivative: Callable[[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]], Rows]
    complete_step: Callable[[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]], tuple[Rows, Scalar, Scalar]]
    normalize: Callable[[Sequence[Scalar]], Rows]
    is_terminated: Callable[[Sequence[Scalar]], Rows]
    draws: tuple[str, ...]
    state_size: int
    varying_leaves: tuple[int, ...]
    size: int
    observation_size: int
    action_size: int
    dt: float
    substeps: int


def flat_step(setting: EnvironmentSetting, integrator: Integration = ROLLED_RK4) -> FlatStep:
    """Return the functions of a setting with one drone and without sensors, whose step uses `integrator`."""
    require_no_images(setting)
    scalar = StepFunctions(setting)
    episode, state, action, depth_camera = scalar.episode, scalar.state, scalar.action, setting.task.depth_observation
    conclude = _flatten_function(scalar.complete_step, state, episode, action)
    step_rows = _flatten_function(partial(scalar.step, integrator=integrator), episode, action)
    observe, size = _flatten_function(scalar.observe, episode), len(flatten(state))
    if depth_camera is not None:
        substep = _flatten_function(
            partial(advance_episode, setting=setting, integrator=integrator, substeps=1), episode, action
        )
        observe_state = observe

        def observe(rows: Sequence[Scalar]) -> Rows:
            return [*observe_state(rows), *depth_image(depth_camera, unflatten(episode, iter(rows)).situation)]

        def step_rows(rows: Sequence[Scalar], action: Sequence[Scalar]) -> Rows:
            """Advance the physics in a loop: its code is compiled once, not for each of many substeps."""

            @jax.checkpoint
            def advance_once(state_rows: Array, _: None) -> tuple[Array, None]:
                return jnp.stack(substep([*state_rows, *rows[size:]], list(action))), None

            final_state, _ = lax.scan(advance_once, jnp.stack(list(rows[:size])), None, length=scalar.substeps)
            return conclude(list(final_state), rows, action)

    return FlatStep(
        reset=_flatten_function(
            scalar.reset, (0.0,) * max(1, len(scalar.draws))
        ),  # at least one input, to infer the batch size
        observe=observe,
        step=lambda *groups: _split(step_rows(*groups)),
        command=_flatten_function(scalar.command, episode, action),
        derivative=_flatten_function(scalar.derivative, state, tuple(setting.drone.command), episode),
        complete_step=lambda *groups: _split(conclude(*groups)),
        normalize=_flatten_function(unit_quaternions, state),
        is_terminated=_flatten_function(lambda episode: (scalar.is_terminated(episode),), episode),
        draws=scalar.draws,
        state_size=size,
        varying_leaves=scalar.varying_leaves,
        size=scalar.size,
        observation_size=scalar.observation_size + (0 if depth_camera is None else BLOCK_COUNT),
        action_size=len(action),
        dt=scalar.dt,
        substeps=scalar.substeps,
    )


def depth_image(depth_observation: DepthObservation, situation: Situation) -> Array:
    """Render the image blocks that a policy observes, (96, N), for N drones above flat ground at z = 0, each in its own world.

    No gradient flows through an image.
    """
    state, goal = lax.stop_gradient((situation.state, situation.goal))
    images = depth_images(state, depth_observation.solids(goal), depth_observation.camera)
    return checkpoint_name(block_inverse_distance(images, depth_observation.camera.max_range).T, IMAGE)  # type: ignore[no-untyped-call]


def _flatten_function(function: Callable[..., Scalar], *templates: Tree) -> Callable[..., Rows]:
    """Convert a function of trees of scalars to one of lists of arrays, all of one shape and type."""

    def flat(*groups: Sequence[Scalar]) -> Rows:
        first = groups[0][0]
        trace = new_trace(first.dtype, True)
        trees = (fold_tree(template, list(rows), trace) for template, rows in zip(templates, groups, strict=True))
        return fill_rows(unfold_leaves(function(*trees)), first.shape, first.dtype)

    return flat


def _split(rows: Rows) -> tuple[Rows, Scalar, Scalar]:
    return rows[:-2], rows[-2], rows[-1]


def fill_rows(leaves: list[Scalar], shape: tuple[int, ...], dtype: DTypeLike = jnp.float32) -> Rows:
    """Convert leaves to arrays of one shape and type."""
    return [jnp.broadcast_to(lax.convert_element_type(x, dtype), shape) for x in leaves]


# Rollouts ---


class JaxRollout:
    """The `samara.learn.gradient_training.Rollout` of JAX; on a GPU it may use kernels of `samara.learn.jax.rollout_gpu`."""

    def __init__(
        self, setting: EnvironmentSetting, parameters: "GradientHyperparameters", first: Weights | None = None
    ) -> None:
        self.parameters, self.first, self.network = parameters, first, parameters.network
        on_gpu = jax.default_backend() == "gpu"
        is_unrolled = on_gpu and parameters.recurrent_units  # a loop over stages would be launched stage by stage
        integrator = parameters.integrator if is_unrolled else rolled_integrator(parameters.integrator)
        self.functions = flat_step(setting, integrator)
        if on_gpu and not parameters.recurrent_units:
            from samara.learn.jax.rollout_gpu import rollout_kernel

            self.fly = rollout_kernel(
                self.functions, parameters.horizon, hidden=parameters.activation, integrator=parameters.integrator
            )
            return
        max_norm = parameters.max_gradient_norm / (parameters.drones * parameters.horizon)  # of the mean reward
        self.fly = rollout_xla(self.functions, parameters.horizon, self.network, parameters.gradient_decay, max_norm)

    def initial(self, seed: Array) -> tuple[Weights, Array, Array]:
        """Return weights, episodes at their start, and the key of the following random numbers."""
        weight_key, start_key, key = jax.random.split(jax.random.PRNGKey(seed), 3)
        weights = self.first or initial_weights(
            self.network, weight_key, self.functions.observation_size, self.functions.action_size
        )
        return weights, self._initial_episodes(start_key, weights), key

    def restart(self, key: Array, update: Array, weights: Weights) -> tuple[Array, Array, Array]:
        """Return the next key, new episodes, and a uniform random value for each drone."""
        key, start_key, choice_key = jax.random.split(key, 3)
        choice = jax.random.uniform(choice_key, (self.parameters.drones,))
        return key, self._initial_episodes(start_key, weights), choice

    def _initial_episodes(self, key: Array, weights: Weights) -> Array:
        count = self.parameters.drones
        return jnp.concatenate(
            [initial_episodes(self.functions, key, count), self.network.initial_state(weights, count)]
        )

    def is_lost(self, episodes: Array) -> Array:
        """Return whether each episode has ended or has values that are not finite."""
        terminated = self.functions.is_terminated(list(episodes[: self.functions.size]))[0] > 0.0
        return terminated | ~jnp.isfinite(episodes).all(0)

    def gradient(self, weights: Weights, episodes: Array) -> tuple[Array, Weights, Array]:
        """Return the mean reward of a step, the gradient of its negative, and the episodes after the horizon."""

        def loss(weights: Weights) -> tuple[Array, Array]:
            total, end = self.fly(weights, episodes)
            return -jnp.mean(total) / self.parameters.horizon, end

        (value, end), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
        return -value, gradient, lax.stop_gradient(end)

    def layers(self, weights: Weights) -> Weights:
        """Return the weights, which are (W, b) of each layer."""
        return weights

    def pack_layers(self, layers: Layers) -> Weights:
        """Return the layers, which are the weights."""
        return layers

    def compile_updates(self, begin: Begin[S], update: Update[S], size: int) -> tuple[Begin[S], Chunk[S]]:
        """Compile chunks of updates."""
        return compile_updates(begin, update, size)


def compile_updates(begin: Begin[S], update: Update[S], size: int) -> tuple[Begin[S], Chunk[S]]:
    """Compile the initial state of a seed, and a loop over the updates of a chunk."""
    initial = jax.jit(begin).lower(np.uint32(0)).compile()

    def updates(state: S) -> tuple[S, Array]:
        return lax.scan(lambda state, _: update(state), state, None, length=size)

    chunk = jax.jit(updates).lower(initial(np.uint32(0))).compile()
    return lambda seed: initial(np.uint32(seed)), lambda state, count: chunk(state)


def initial_weights(network: PolicyNetwork, key: Array, observations: int, actions: int) -> Tree:
    """Draw the weights of a new policy."""
    shapes = network.shapes(observations, actions)
    keys = jax.random.split(key, len(shapes))
    return network.initial_weights([jax.random.normal(*pair, jnp.float32) for pair in zip(keys, shapes, strict=True)])


def initial_episodes(functions: FlatStep, key: Array, drones: int) -> Array:
    """Return episodes at their start, (size, N)."""
    first, second = jax.random.split(key)
    shape = (max(1, len(functions.draws)), drones)
    uniform, normal = jax.random.uniform(first, shape, jnp.float32), jax.random.normal(second, shape, jnp.float32)
    rows = [
        (uniform if distribution == "uniform" else normal)[k]
        for k, distribution in enumerate(functions.draws or ("uniform",))
    ]
    return jnp.stack(functions.reset(rows))


def rollout_xla(
    functions: FlatStep,
    steps: int,
    network: PolicyNetwork = DENSE,
    gradient_decay: float = 1.0,
    max_norm: float = math.inf,
) -> RolloutFunction:
    """Fly `steps` actions of all drones, compiled by XLA.

    In the backward pass the gradient is multiplied by `gradient_decay` at every step, and each drone's is clipped to the norm
    `max_norm`.
    """

    @partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names(IMAGE))
    def step(weights: Weights, rows: Array) -> tuple[Array, Array]:
        episode, recurrent_state = rows[: functions.size], rows[functions.size :]
        action, recurrent_state = network.act(weights, jnp.stack(functions.observe(list(episode))), recurrent_state)
        next_rows, reward, _ = functions.step(list(episode), list(action))
        excess = jnp.maximum(jnp.abs(action) - 1.0, 0.0)
        return jnp.concatenate([jnp.stack(next_rows), recurrent_state]), reward - ACTION_COST * jnp.sum(
            excess * excess, axis=0
        )

    def rollout(weights: Weights, episodes: Array) -> tuple[Array, Array]:
        def body(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            rows, total = carry
            scaled = (
                rows
                if gradient_decay == 1.0 and max_norm == math.inf
                else scale_gradient(rows, gradient_decay, max_norm)
            )
            rows, reward = step(weights, scaled)
            return (rows, total + reward), None

        (rows, total), _ = lax.scan(body, (episodes, jnp.zeros_like(episodes[0])), None, length=steps)
        return total, rows

    return rollout


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def scale_gradient(x: Array, factor: float, largest: float) -> Array:
    """Return x (size, N); scale the incoming gradient by a factor and clip each drone's to the norm `largest`.

    The gradient of a chaotic flight grows without limit and is meaningless.
    """
    return x


def _scale_gradient_back(factor: float, largest: float, _: None, cotangent: Array) -> tuple[Array]:
    norm = jnp.sqrt(jnp.sum(cotangent * cotangent, axis=0))
    scale = jnp.where(jnp.isfinite(norm), factor * jnp.minimum(1.0, largest / (norm + 1e-30)), 0.0)
    return (jnp.where(scale > 0.0, scale * cotangent, 0.0),)


scale_gradient.defvjp(lambda x, factor, largest: (x, None), _scale_gradient_back)


def compile_episode_flight(
    setting: EnvironmentSetting, flights: int, seed: int, network: PolicyNetwork = DENSE
) -> Callable[[Weights], Array]:
    """Compile the flight of unseen initial states to the end of their episodes; it returns the final rows (size, N)."""
    functions = flat_step(setting, "rk4" if jax.default_backend() == "gpu" else ROLLED_RK4)
    episodes = initial_episodes(functions, jax.random.key(seed), flights)

    def body(weights: Weights, carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        rows, recurrent_state, is_ended = carry
        action, recurrent_state = network.act(weights, jnp.stack(functions.observe(list(rows))), recurrent_state)
        next_rows, _, terminated = functions.step(list(rows), list(action))
        return (jnp.where(is_ended, rows, jnp.stack(next_rows)), recurrent_state, is_ended | (terminated > 0.0)), None

    @jax.jit
    def fly(weights: Weights) -> Array:
        carry = episodes, network.initial_state(weights, flights), jnp.zeros(flights, bool)
        return lax.scan(partial(body, weights), carry, None, length=setting.task.steps)[0][0]

    return fly
