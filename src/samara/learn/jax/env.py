"""A task as pure functions in JAX: jit, vmap and differentiate them, on any device.

    env = environment("hover")
    flight, observation = env.reset(jax.random.key(0))
    flight, transition = env.step(flight, action)      # .observation, .reward, .terminated, .truncated
    many = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4096))

It traces the functions of `samara.learn.envs.gym`: with `env.key(seed)` it simulates the flights of the environments on the
CPU, up to the rounding of the type.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
from samara.compiler.jax.random import normal, uniform, words
from samara.core.quantity import Scalar
from samara.core.random import derive_key
from samara.core.tree import flatten, unflatten
from samara.learn.compiled_episode import SOURCE
from samara.learn.env_config import EnvironmentSetting, SettingOptions, configure_environment, require_no_camera
from samara.learn.episode import reset, reset_draws, step, step_draws, templates
from samara.learn.episode_images import (
    DETECTOR_KEY,
    STATE,
    episode_model,
    frame_timing,
    gate_detection,
    require_camera_task,
)
from samara.learn.task import Draw, Task, Tree
from samara.physics.types import Vehicle
from samara.sensors.camera_jax import camera_images


class JaxEpisode(NamedTuple):
    """One drone's episode: its state, the key of its random numbers, and the indices of the episode and of the step.

    `images` are those under way from a camera, (slots, rows, columns, …) by name, and its detector's state; () without one.
    """

    episode: Tree
    key: Array
    episode_index: Array
    age: Array
    images: Any = ()


class JaxTransition(NamedTuple):
    """The result of a step. The observation of a task with a camera is a dict: "state", and images by name."""

    observation: Any
    reward: Array
    terminated: Array
    truncated: Array


@dataclass(frozen=True)
class JaxEnv:
    """`reset(key)`, `step(flight, action)` and `restart(flight)` of one drone; use `jax.vmap` for many."""

    setting: EnvironmentSetting
    dtype: str = "float32"

    def key(self, seed: int) -> Array:
        """Return the key that a seed has in the environments on the CPU."""
        return jnp.array(derive_key(seed % 2**64, SOURCE), dtype=jnp.uint32)

    def reset(self, key: Array) -> tuple[JaxEpisode, Any]:
        """Start the first episode of a JAX key, or of its two words."""
        key_words = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        return self._start(key_words[:2].astype(jnp.uint32), jnp.uint32(0))

    def restart(self, flight: JaxEpisode) -> tuple[JaxEpisode, Any]:
        """Start the next episode of the same key."""
        return self._start(flight.key, flight.episode_index + jnp.uint32(1))

    def step(self, flight: JaxEpisode, action: ArrayLike) -> tuple[JaxEpisode, JaxTransition]:
        """Advance one period under an action; episodes that end are not restarted, see `restart`."""
        age = flight.age + jnp.uint32(1)
        trace = new_trace(jnp.dtype(self.dtype))
        episode = fold_tree(self._template, [jnp.asarray(x) for x in flatten(flight.episode)], trace)
        actions = jnp.asarray(action, self.dtype)
        numbers = self._draw(flight.key, flight.episode_index, age, step_draws(self.setting))
        folded_action = fold_tree((0.0,) * self.setting.action_size, list(actions), trace)
        draws = iter(fold_tree((0.0,) * len(numbers), numbers, trace))
        next_episode, (observation, reward, terminated) = step(episode, folded_action, Draw(draws), self.setting)
        advanced = JaxEpisode(self._pack_episode(next_episode), flight.key, flight.episode_index, age, flight.images)
        advanced, observed = self._observe(advanced, self._stack(observation))
        transition = JaxTransition(
            observed,
            self._number(unfold_leaves(reward)[0]),
            jnp.asarray(unfold_leaves(terminated)[0], bool),
            age >= self.setting.task.steps,
        )
        return advanced, transition

    def _start(self, key: Array, count: Array) -> tuple[JaxEpisode, Any]:
        numbers = self._draw(key, count, jnp.uint32(0), reset_draws(self.setting))
        draws = fold_tree((0.0,) * len(numbers), numbers, new_trace(jnp.dtype(self.dtype)))
        episode, observation = reset(Draw(iter(draws)), self.setting)
        first = JaxEpisode(self._pack_episode(episode), key, count, jnp.uint32(0))
        return self._observe(first, self._stack(observation))

    def _observe(self, flight: JaxEpisode, observation: Array) -> tuple[JaxEpisode, Any]:
        """Take the image of the episode's camera if one is due; return the observation with the images that have arrived."""
        if self.setting.task.camera is None:
            return flight, observation
        camera = require_camera_task(self.setting.task)
        timing, situation = frame_timing(camera, self.setting.task.period), flight.episode.situation
        goal, age = _single(situation.goal), flight.age.astype(jnp.int32)
        detection = gate_detection(camera, episode_model(camera, goal), self.setting.task.period)
        images = camera_images(_single(situation.state), detection.rendered)
        rings, tracks = flight.images or ({}, detection.initial())
        frame, slot, is_due = timing.observed_frame(age), age // timing.every % timing.slots, age % timing.every == 0
        if detection.instances:
            numbers = self._draw(
                flight.key ^ jnp.uint32(DETECTOR_KEY), flight.episode_index, flight.age, detection.draws
            )
            tracks = detection.advance(tracks, numbers, age == 0, is_due)
        rings, observed = dict(rings), {STATE: observation}
        for name, image in detection.detect({name: image[0] for name, image in images.items()}, tracks).items():
            ring = rings[name] if name in rings else jnp.zeros((timing.slots, *image.shape), image.dtype)
            rings[name] = jnp.where(is_due, ring.at[slot].set(image), ring)
            observed[name] = jnp.where(frame < 0, 0, rings[name][frame % timing.slots]).astype(image.dtype)
        return flight._replace(images=(rings, tracks)), observed

    def _draw(self, key: Array, count: Array, age: Array, draw_types: tuple[str, ...]) -> list[Array]:
        random_words = words((key[0], key[1]), 0, count, age, len(draw_types)) if draw_types else ()
        distributions = {"uniform": uniform, "normal": normal}
        return [
            distributions[draw_type](word, self.dtype) for draw_type, word in zip(draw_types, random_words, strict=True)
        ]

    def _pack_episode(self, episode: Tree) -> Tree:
        return unflatten(self._template, iter([self._number(x) for x in unfold_leaves(episode)]))

    def _stack(self, numbers: Tree) -> Array:
        return jnp.stack([self._number(x) for x in unfold_leaves(numbers)])

    def _number(self, x: Scalar) -> Array:
        return lax.convert_element_type(x, jnp.dtype(self.dtype))

    @property
    def _template(self) -> Tree:
        return templates(self.setting)[0]


def _single(tree: Tree) -> Tree:
    """Return a tree of arrays (1,), for one drone."""
    return unflatten(tree, iter([jnp.asarray(x)[None] for x in flatten(tree)]))


def environment(
    task: Task | str = "hover",
    vehicle: Vehicle | str = "crazyflie",
    *,
    dtype: str = "float32",
    **options: Unpack[SettingOptions],
) -> JaxEnv:
    """Configure a task for a vehicle in JAX; `options` are those of `VectorEnv`."""
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype {dtype!r}: expected one of float32, float64")
    if dtype == "float64" and jnp.result_type(float) != "float64":
        raise ValueError("dtype 'float64': JAX computes in float32 until jax.config.update('jax_enable_x64', True)")
    setting = configure_environment(task, vehicle, **options)
    require_no_camera(setting)
    return JaxEnv(setting, dtype)
