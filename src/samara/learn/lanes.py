"""Drones side by side in JAX: a step of them all is one elementwise computation, and on a GPU one kernel.

    lanes = Lanes(setting)
    drones, observations = lanes.begin(key, 4096)                    # (size, 4096)
    drones, step = lanes.step(drones, actions, noise, fresh)         # actions (size, 4096)

Components are rows, drones are columns. Where an episode ends the drone goes on from its `fresh` start: starts are drawn once
for many steps, as a GPU would spend longer on random numbers than on the flight.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from samara.core.extras import MissingExtraError
from samara.core.tree import flatten
from samara.learn.episode import Episode, Setting, kinds_at_start, kinds_at_step, start, step
from samara.learn.task import Draw

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.experimental import pallas as pl
except ImportError as error:
    raise MissingExtraError("samara.learn.lanes needs JAX: pip install 'samara[jax]'") from error

from samara.backends.folding import folded, new_trace, unfolded
from samara.backends.pallas import Launch, _block, compiler_options, loaded, store
from samara.learn.pieces import by_rolled_rk4

HUGE = 1e18  # what is not below has come to nothing: such a drone starts again
BLOCK = Launch(128, 4)


class Drones(NamedTuple):
    """Episodes (components, N), and the steps that each has behind it (N,)"""

    rows: Any
    age: Any
    observation: Any


class Step(NamedTuple):
    """What came of a step: `after` is what is seen at its end, before a new episode starts"""

    after: Any
    reward: Any
    terminated: Any
    ended: Any


@dataclass(frozen=True)
class Lanes:
    """`begin` and `step` of many drones. With `kernel` a step is one of Triton's; `interpret` tries that without a GPU."""

    setting: Setting
    kernel: bool = False
    interpret: bool = False

    @property
    def observations(self) -> int:
        """How many numbers are seen"""
        return len(self._start[1])

    def begin(self, key: Any, count: int) -> Drones:
        """New episodes"""
        trace = new_trace(jnp.dtype("float32"))
        numbers = folded((0.0,) * len(self._start_kinds), list(self.draws(key, self._start_kinds, count)), trace)
        episode, observation = start(Draw(iter(numbers)), self.setting)
        rows, seen = (jnp.stack(_filled(unfolded(each), (count,))) for each in (episode, observation))
        return Drones(rows, jnp.zeros(count, jnp.float32), seen)

    def noise(self, key: Any, steps: int, count: int) -> Any:
        """The random numbers of so many steps, as sensors need them: (steps, kinds, N)"""
        if not self._step_kinds:
            return jnp.zeros((steps, 0, count), jnp.float32)
        return jax.vmap(lambda own: self.draws(own, self._step_kinds, count))(jax.random.split(key, steps))

    @staticmethod
    def draws(key: Any, kinds: tuple[str, ...], count: int) -> Any:
        """A number of each kind for each drone: (kinds, N)"""
        words = jax.random.split(key)
        of = {"uniform": iter(jax.random.uniform(words[0], (kinds.count("uniform"), count), jnp.float32))}
        of["normal"] = iter(jax.random.normal(words[1], (kinds.count("normal"), count), jnp.float32))
        return jnp.stack([next(of[kind]) for kind in kinds])

    def step(self, drones: Drones, actions: Any, noise: Any, fresh: Drones) -> tuple[Drones, Step]:
        """One period under the actions"""
        given = (drones.rows, drones.age[None], actions.astype(jnp.float32), noise, fresh.rows, fresh.observation)
        rows = (self._in_kernel if self.kernel else self._plainly)([x for x in given if x.shape[0]])
        c, o = len(drones.rows), self.observations
        cuts = (c, c + 1, c + 1 + o, c + 1 + 2 * o)
        now, age, seen, after, (reward, terminated, ended) = jnp.split(rows, cuts)
        return Drones(now, age[0], seen), Step(after, reward, terminated, ended)

    # The step on flat lists of components -----------------------------------------------------------------------------

    def _moved(self, given: list[Any]) -> list[Any]:
        shape, found = jnp.shape(given[0]), iter(given)
        sizes = (len(flatten(self._template)), 1, self.setting.actions, len(self._step_kinds))
        now, (age,), action, noise = ([next(found) for _ in range(size)] for size in sizes)
        fresh, at_start = ([next(found) for _ in range(size)] for size in (sizes[0], self.observations))
        trace = new_trace(jnp.dtype("float32"))
        episode = folded(self._template, now, trace)
        own = folded((0.0,) * len(action), action, trace)
        drawn = iter(folded((0.0,) * len(noise), noise, trace))
        later, (seen, reward, over) = step(episode, own, Draw(drawn), self.setting, by_rolled_rk4)
        moved, after, (worth, lost) = (_filled(unfolded(x), shape) for x in (later, seen, (reward, over)))
        total = sum((abs(x) for x in moved), jnp.zeros(shape, jnp.float32))
        sound = total < HUGE
        terminated = jnp.where(sound, lost, 1.0)
        ended = jnp.where(age + 1.0 >= self.setting.task.steps, 1.0, terminated)
        after = [jnp.where(sound, x, 0.0) for x in after]
        goes_on = ended < 0.5
        return [
            *(jnp.where(goes_on, *both) for both in zip(moved, fresh, strict=True)),
            jnp.where(goes_on, age + 1.0, 0.0),
            *(jnp.where(goes_on, *both) for both in zip(after, at_start, strict=True)),
            *after,
            jnp.where(sound, worth, 0.0),
            terminated,
            ended,
        ]

    def _plainly(self, given: list[Any]) -> Any:
        return jnp.stack(self._moved([row for rows in given for row in rows]))

    def _in_kernel(self, given: list[Any]) -> Any:
        count = given[0].shape[1]
        block = min(BLOCK.block, 1 << (count - 1).bit_length())
        if count % block:
            raise ValueError(f"{count} drones: expected a multiple of {block}")

        def kernel(*references: Any) -> None:
            moved = self._moved([row for each in references[:-1] for row in loaded(each)])
            store(moved, references[-1], lambda i: (i, slice(None)))

        outputs = (given[0].shape[0] + 1 + 2 * self.observations + 3, count)
        return pl.pallas_call(
            kernel,
            grid=(count // block,),
            in_specs=[_block(x.shape, block) for x in given],
            out_specs=_block(outputs, block),
            out_shape=jax.ShapeDtypeStruct(outputs, jnp.float32),  # type: ignore[no-untyped-call]
            interpret=self.interpret,
            name="step",
            **compiler_options(BLOCK),
        )(*given)

    @cached_property
    def _start(self) -> tuple[Episode, tuple[Any, ...]]:
        return start(Draw(), self.setting)

    @cached_property
    def _template(self) -> Episode:
        return self._start[0]

    @cached_property
    def _start_kinds(self) -> tuple[str, ...]:
        return kinds_at_start(self.setting)

    @cached_property
    def _step_kinds(self) -> tuple[str, ...]:
        return kinds_at_step(self.setting)


def _filled(leaves: list[Any], shape: tuple[int, ...]) -> list[Any]:
    return [jnp.broadcast_to(lax.convert_element_type(x, jnp.float32), shape) for x in leaves]
