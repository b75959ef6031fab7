"""`reset` and `step` of an episode compiled for N drones in parallel, and their random numbers: the same bits for any N.

Random numbers have an address: the seed, the index of the episode, and the step within it, where 0 is the reset. All
environments on the CPU get the same bits, and those in JAX the same values up to rounding.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.compiler.llvm.random import compile_draw
from samara.compiler.scan import CompiledScan, Templates
from samara.compiler.stepper import Scan, compile_scan
from samara.core.ops import where
from samara.core.random import derive_key
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.learn.env_config import EnvironmentSetting, require_no_camera
from samara.learn.episode import (
    Episode,
    TrainerTransition,
    advance_episode,
    complete_step,
    reset,
    reset_draws,
    reward_terms,
    step,
    step_draws,
    step_team,
    templates,
)
from samara.learn.task import Draw, Tree
from samara.physics.types import State

SOURCE = "learn"


def episode_keys(seeds: Sequence[int]) -> Array:
    """Return two words for each seed: (2, N)."""
    return np.array([derive_key(seed % 2**64, SOURCE) for seed in seeds], dtype=np.uint64).reshape(-1, 2).T


def random_numbers(keys: Array, episodes: Array, steps: ArrayLike, distributions: tuple[str, ...]) -> Array:
    """Draw one value from each distribution, "uniform" or "normal", for every pair of keys: (distributions, N)."""
    episode, step = np.asarray(episodes, dtype=np.uint64), np.asarray(steps, dtype=np.uint64)
    return compile_draw(distributions)(keys, episode | step << np.uint64(32))


class CompiledEpisode(NamedTuple):
    """Compiled functions on rows of values, with a column for each drone.

    `reset_code`: random numbers → (episode, observation). `step_code`: (action, random numbers) and an episode, which
    it changes → (observation, rewards, terminated, terms of the reward, sum of the episode). Rewards and terminations
    have `reward_size` entries: one, or one for each drone of a team. If a step has several physics updates,
    `physics_code` runs them in a loop and `step_code` takes the resulting state.
    """

    reset_code: CompiledScan
    step_code: CompiledScan
    physics_code: CompiledScan | None
    substeps: int
    reset_draws: tuple[str, ...]
    step_draws: tuple[str, ...]
    template: Tree
    observation_size: int
    reward_size: int
    term_names: tuple[str, ...]
    dtype: str

    @property
    def names(self) -> list[str]:
        """The names of an episode's leaves."""
        return leaf_names(self.template)

    def reset(self, draws: Array) -> tuple[Array, Array]:
        """Return episodes (components, N) and observations (size, N) from random numbers (kinds, N)."""
        no_carry = np.empty((0, draws.shape[1]), dtype=self.dtype)
        _, rows = self.reset_code(no_carry, (), draws[None], 1)
        return rows[0, : -self.observation_size], rows[0, -self.observation_size :]

    def step(self, episodes: Array, inputs: Array) -> tuple[Array, Array, Array]:
        """Return the first three results of `step_with_terms`."""
        return self.step_with_terms(episodes, inputs)[:3]

    def step_with_terms(self, episodes: Array, inputs: Array) -> tuple[Array, Array, Array, dict[str, Array]]:
        """Return observations, rewards, terminations (1, else 0) and the terms of the rewards by name after a step, which
        changes the episodes in place.

        `inputs` are actions (size, N) with the step's random numbers below.
        """
        if self.physics_code is not None:
            size = len(flatten(self.template.situation.state))
            states, actions = episodes[:size].copy(), inputs[: len(inputs) - len(self.step_draws)]
            self.physics_code(states, [*episodes[size:], *actions], None, self.substeps, self.substeps)
            inputs = np.concatenate([inputs, states])
        _, rows = self.step_code(episodes, (), inputs[None], 1)
        if not np.isfinite(rows[0, -1]).all():
            self._raise_not_finite(episodes)
        first, last = self.observation_size, self.observation_size + self.reward_size
        end = last + self.reward_size
        terms = dict(zip(self.term_names, rows[0, end:-1], strict=True))
        return rows[0, :first], rows[0, first:last], rows[0, last:end], terms

    def _raise_not_finite(self, episodes: Array) -> None:
        component, drone = (int(x) for x in np.argwhere(~np.isfinite(episodes))[0])
        value = episodes[component, drone]
        raise FloatingPointError(f"{self.names[component]} of drone {drone} is {value}; expected a finite number")


@lru_cache(maxsize=16)
def compile_episode(setting: EnvironmentSetting, dtype: str = "float64", per_drone: bool = False) -> CompiledEpisode:
    """Compile a setting; with `per_drone`, each drone of a team has a reward and a termination."""
    require_no_camera(setting)
    reset_distributions, step_distributions = reset_draws(setting), step_draws(setting)
    template, observation = templates(setting)

    def reset_body(carry: Tree, constants: Tree, numbers: Tree) -> tuple[Tree, Tree]:
        return (), reset(Draw(iter(numbers)), setting)

    def step_body(episode: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        next_episode: Tree
        action, numbers, state = inputs
        draw = Draw(iter(numbers))
        transitions: tuple[TrainerTransition, ...]
        if per_drone and setting.task.drones > 1:
            next_episode, transitions = step_team(episode, action, setting)
        else:
            concluded = complete_step(episode, action, state, draw, setting) if state else None
            next_episode, transition = concluded or step(episode, action, draw, setting)
            transitions = (transition,)
        observations, rewards, terminations = zip(*transitions, strict=True)
        ends = [where(terminated, 1.0, 0.0) for terminated in terminations]
        terms = reward_terms(next_episode, setting).values()
        return next_episode, (*observations, *rewards, *ends, *terms, sum(flatten(next_episode), 0.0))

    has_physics_loop = setting.task.substeps > 1 and setting.task.drones == 1
    actions, state = (0.0,) * setting.action_size, template.situation.state if has_physics_loop else ()
    scans = (
        Scan(reset_body, Templates((), (), (0.0,) * len(reset_distributions))),
        Scan(step_body, Templates(template, (), (actions, (0.0,) * len(step_distributions), state))),
        *([_substep_scan(setting, template)] if has_physics_loop else []),
    )
    reset_code, step_code, *physics = (compile_scan("llvm", scan, dtype=dtype) for scan in scans)
    rewards = setting.task.drones if per_drone else 1
    compiled = reset_code, step_code, physics[0] if physics else None
    return CompiledEpisode(
        *compiled,
        setting.task.substeps,
        reset_distributions,
        step_distributions,
        template,
        len(observation),
        rewards,
        tuple(reward_terms(template, setting)),
        dtype,
    )


def _substep_scan(setting: EnvironmentSetting, template: Episode) -> Scan:
    """Return one physics update: the state is carried, the rest of the episode and the action are constant."""
    state = template.situation.state
    held_leaves = tuple(flatten(template)[len(flatten(state)) :])

    def body(state: State, constants: Tree, inputs: Tree) -> tuple[State, Tree]:
        other_leaves, action = constants
        episode = unflatten(template, iter([*flatten(state), *other_leaves]))
        return advance_episode(episode, action, setting, substeps=1), ()

    return Scan(body, Templates(state, (held_leaves, (0.0,) * setting.action_size), ()))
