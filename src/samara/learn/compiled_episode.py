"""`reset` and `step` of an episode compiled for N drones side by side, and their random numbers: the same bits for any N.

Random numbers have an address: the seed, the number of the episode, and the step within it, where 0 is the reset. All
environments on the CPU get the same bits, and those in JAX the same numbers to rounding.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.compiler.llvm.random import drawing
from samara.compiler.scan import Run, Templates
from samara.compiler.stepper import Scan, compile_scan
from samara.core.ops import where
from samara.core.random import key_of
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.learn.env_config import Setting, require_no_camera
from samara.learn.episode import (
    Episode,
    Transition,
    conclude,
    fly,
    reset,
    reset_draws,
    step,
    step_draws,
    step_team,
    templates,
)
from samara.learn.task import Draw, Tree
from samara.physics.types import State

SOURCE = "learn"


def episode_keys(seeds: Sequence[int]) -> Array:
    """Two words for each seed: (2, N)"""
    return np.array([key_of(seed % 2**64, SOURCE) for seed in seeds], dtype=np.uint64).reshape(-1, 2).T


def random_numbers(keys: Array, episodes: Array, steps: ArrayLike, kinds: tuple[str, ...]) -> Array:
    """A random number of each kind, "uniform" or "normal", for every pair of keys: (kinds, N)"""
    episode, step = np.asarray(episodes, dtype=np.uint64), np.asarray(steps, dtype=np.uint64)
    return drawing(kinds)(keys, episode | step << np.uint64(32))


class Program(NamedTuple):
    """Compiled functions on rows of numbers, with a column for each drone

    `reset_code`: random numbers → (episode, observation). `step_code`: (action, random numbers) and an episode, which
    it changes → (observation, rewards, terminated, sum of the episode). There are `rewards` of the second and third:
    one, or one for each drone of a team. If a step has several updates of the physics, `physics_code` runs them in a
    loop and `step_code` takes the state that they lead to.
    """

    reset_code: Run
    step_code: Run
    physics_code: Run | None
    substeps: int
    reset_draws: tuple[str, ...]
    step_draws: tuple[str, ...]
    template: Tree
    observations: int
    rewards: int
    dtype: str

    @property
    def names(self) -> list[str]:
        """The names of an episode's leaves"""
        return leaf_names(self.template)

    def reset(self, draws: Array) -> tuple[Array, Array]:
        """Episodes (components, N) and observations (size, N) from random numbers (kinds, N)"""
        no_carry = np.empty((0, draws.shape[1]), dtype=self.dtype)
        _, rows = self.reset_code(no_carry, (), draws[None], 1)
        return rows[0, : -self.observations], rows[0, -self.observations :]

    def step(self, episodes: Array, inputs: Array) -> tuple[Array, Array, Array]:
        """Observations, rewards and terminations (1, else 0) after a step, which changes the episodes in place

        `inputs` are actions (size, N) with the random numbers of the step below.
        """
        if self.physics_code is not None:
            size = len(flatten(self.template.situation.state))
            states, actions = episodes[:size].copy(), inputs[: len(inputs) - len(self.step_draws)]
            self.physics_code(states, [*episodes[size:], *actions], None, self.substeps, self.substeps)
            inputs = np.concatenate([inputs, states])
        _, rows = self.step_code(episodes, (), inputs[None], 1)
        if not np.isfinite(rows[0, -1]).all():
            self._raise_not_finite(episodes)
        first, last = self.observations, self.observations + self.rewards
        return rows[0, :first], rows[0, first:last], rows[0, last:-1]

    def _raise_not_finite(self, episodes: Array) -> None:
        component, drone = (int(x) for x in np.argwhere(~np.isfinite(episodes))[0])
        value = episodes[component, drone]
        raise FloatingPointError(f"{self.names[component]} of drone {drone} is {value}; expected a finite number")


@lru_cache(maxsize=16)
def program_of(setting: Setting, dtype: str = "float64", apart: bool = False) -> Program:
    """Compile a setting; with `apart` there is a reward and a termination for each drone of a team"""
    require_no_camera(setting)
    for_reset, for_step = reset_draws(setting), step_draws(setting)
    template, observation = templates(setting)

    def reset_body(carry: Tree, constants: Tree, numbers: Tree) -> tuple[Tree, Tree]:
        return (), reset(Draw(iter(numbers)), setting)

    def step_body(episode: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        after: Tree
        action, numbers, state = inputs
        draw = Draw(iter(numbers))
        transitions: tuple[Transition, ...]
        if apart and setting.task.drones > 1:
            after, transitions = step_team(episode, action, setting)
        else:
            concluded = conclude(episode, action, state, draw, setting) if state else None
            after, transition = concluded or step(episode, action, draw, setting)
            transitions = (transition,)
        observations, rewards, terminations = zip(*transitions, strict=True)
        ends = [where(terminated, 1.0, 0.0) for terminated in terminations]
        return after, (*observations, *rewards, *ends, sum(flatten(after), 0.0))

    looped = setting.task.substeps > 1 and setting.task.drones == 1
    actions, state = (0.0,) * setting.actions, template.situation.state if looped else ()
    scans = (
        Scan(reset_body, Templates((), (), (0.0,) * len(for_reset))),
        Scan(step_body, Templates(template, (), (actions, (0.0,) * len(for_step), state))),
        *([_substep_scan(setting, template)] if looped else []),
    )
    reset_code, step_code, *physics = (compile_scan("llvm", scan, dtype=dtype) for scan in scans)
    rewards = setting.task.drones if apart else 1
    codes = reset_code, step_code, physics[0] if physics else None
    return Program(*codes, setting.task.substeps, for_reset, for_step, template, len(observation), rewards, dtype)


def _substep_scan(setting: Setting, template: Episode) -> Scan:
    """One update of the physics: the state is carried, the rest of the episode and the action are held"""
    state = template.situation.state
    rest = tuple(flatten(template)[len(flatten(state)) :])

    def body(state: State, constants: Tree, inputs: Tree) -> tuple[State, Tree]:
        others, action = constants
        episode = unflatten(template, iter([*flatten(state), *others]))
        return fly(episode, action, setting, substeps=1), ()

    return Scan(body, Templates(state, (rest, (0.0,) * setting.actions), ()))
