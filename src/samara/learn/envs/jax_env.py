"""A task as pure functions in JAX, to be jitted, mapped over keys, differentiated, on any device.

    env = environment("hover")
    flight, observation = env.reset(jax.random.key(0))
    flight, seen = env.step(flight, action)            # seen.observation, .reward, .terminated, .truncated
    many = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4096))

It is the program of `samara.learn.envs.gym_vector`, traced from the same functions: with `env.key(seed)` the numbers
are those of the
environments on the CPU, to the rounding of the type.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.core.optional_dependencies import MissingExtraError
from samara.core.random import key_of
from samara.core.tree import flatten, unflatten
from samara.learn.compiled_episode import SOURCE
from samara.learn.env_config import setting_for
from samara.learn.episode import (
    Randomization,
    Sensing,
    Setting,
    require_no_camera,
    reset,
    reset_draws,
    step,
    step_draws,
    templates,
)
from samara.learn.task import Draw, Task
from samara.physics.types import Vehicle

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError as error:
    raise MissingExtraError("samara.learn.envs.jax_env needs JAX: pip install 'samara[jax]'") from error

from samara.compiler.jax.folding_scalar import folded, new_trace, unfolded
from samara.compiler.jax.random import normal, uniform, words


class Flight(NamedTuple):
    """One drone's episode as it stands: what it carries, the key of its random numbers, and which episode and step it is."""

    episode: Any
    key: Any
    count: Any
    age: Any


class Seen(NamedTuple):
    """What comes of a step"""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any


@dataclass(frozen=True)
class Environment:
    """`reset(key)`, `step(flight, action)` and `restart(flight)` of one drone, pure and without shapes to choose: map them."""

    setting: Setting
    dtype: str = "float32"

    def key(self, seed: int) -> Any:
        """The key that the environments on the CPU make of a seed"""
        return jnp.array(key_of(seed % 2**64, SOURCE), dtype=jnp.uint32)

    def reset(self, key: Any) -> tuple[Flight, Any]:
        """The first episode of a key: one of JAX's, or its two words"""
        own = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        return self._started(own[:2].astype(jnp.uint32), jnp.uint32(0))

    def restart(self, flight: Flight) -> tuple[Flight, Any]:
        """The next episode of the same key"""
        return self._started(flight.key, flight.count + jnp.uint32(1))

    def step(self, flight: Flight, action: Any) -> tuple[Flight, Seen]:
        """One period under an action; nothing starts again by itself, see `restart`"""
        age = flight.age + jnp.uint32(1)
        trace = new_trace(jnp.dtype(self.dtype))
        episode = folded(self._template, [jnp.asarray(x) for x in flatten(flight.episode)], trace)
        given = jnp.asarray(action, self.dtype)
        numbers = self._drawn(flight.key, flight.count, age, step_draws(self.setting))
        own = folded((0.0,) * self.setting.actions, [given[k] for k in range(self.setting.actions)], trace)
        draws = iter(folded((0.0,) * len(numbers), numbers, trace))
        after, (observation, reward, terminated) = step(episode, own, Draw(draws), self.setting)
        seen = Seen(
            self._stacked(observation),
            self._number(unfolded(reward)[0]),
            jnp.asarray(unfolded(terminated)[0], bool),
            age >= self.setting.task.steps,
        )
        return Flight(self._carried(after), flight.key, flight.count, age), seen

    def _started(self, key: Any, count: Any) -> tuple[Flight, Any]:
        numbers = self._drawn(key, count, jnp.uint32(0), reset_draws(self.setting))
        draws = folded((0.0,) * len(numbers), numbers, new_trace(jnp.dtype(self.dtype)))
        episode, observation = reset(Draw(iter(draws)), self.setting)
        return Flight(self._carried(episode), key, count, jnp.uint32(0)), self._stacked(observation)

    def _drawn(self, key: Any, count: Any, age: Any, kinds: tuple[str, ...]) -> list[Any]:
        found = words((key[0], key[1]), 0, count, age, len(kinds)) if kinds else ()
        of = {"uniform": uniform, "normal": normal}
        return [of[kind](word, self.dtype) for kind, word in zip(kinds, found, strict=True)]

    def _carried(self, episode: Any) -> Any:
        return unflatten(self._template, iter([self._number(x) for x in unfolded(episode)]))

    def _stacked(self, numbers: Any) -> Any:
        return jnp.stack([self._number(x) for x in unfolded(numbers)])

    def _number(self, x: Any) -> Any:
        return lax.convert_element_type(x, jnp.dtype(self.dtype))

    @property
    def _template(self) -> Any:
        return templates(self.setting)[0]


def environment(
    task: Task | str = "hover",
    vehicle: Vehicle | str = "crazyflie",
    *,
    dtype: str = "float32",
    randomization: Randomization | None = None,
    sensing: Sensing | None = None,
    history: int = 0,
    delay: int | tuple[int, int] = 0,
    **changes: Any,
) -> Environment:
    """A task for a vehicle in JAX; options are those of `samara.learn.envs.gym_vector.VectorEnv`"""
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype {dtype!r}: expected one of float32, float64")
    if dtype == "float64" and jnp.result_type(float) != "float64":
        raise ValueError("dtype 'float64': JAX computes in float32 until jax.config.update('jax_enable_x64', True)")
    setting = setting_for(task, vehicle, randomization, sensing, history, delay, **changes)
    require_no_camera(setting)
    return Environment(setting, dtype)
