"""`start` and `step` of an episode as machine code, for N drones side by side: every number is the same whatever N is."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.backends.scan import Run, Templates
from samara.backends.stepper import Scan, compile_scan
from samara.core.ops import where
from samara.core.tree import flatten, leaf_names, unflatten
from samara.learn import episode as alone
from samara.learn.advance import advance
from samara.learn.episode import Episode, Seen, Setting, require_blind
from samara.learn.task import Draw
from samara.learn.team import kinds_at_start, kinds_at_step, start, step, step_apart
from samara.physics.types import State

Array = np.ndarray[Any, Any]


class Program(NamedTuple):
    """Two compiled functions on rows of numbers, a column for each drone

    `begin` draws → (episode, observation); `go_on` (action, draws) and an episode, which it changes → (observation, rewards,
    terminated, sum of the episode). `rewards` is how many there are of the latter two: one, or of a team one for each drone.
    Where an action has several steps of physics, `fly` takes them in a loop, and `go_on` is given where they lead.
    """

    begin: Run
    go_on: Run
    fly: Run | None
    substeps: int
    start_kinds: tuple[str, ...]
    step_kinds: tuple[str, ...]
    template: Any
    observations: int
    rewards: int
    dtype: str

    @property
    def names(self) -> list[str]:
        """Of the numbers of an episode"""
        return leaf_names(self.template)

    def started(self, draws: Array) -> tuple[Array, Array]:
        """Episodes (components, N) and observations (size, N) from draws (kinds, N)"""
        nothing = np.empty((0, draws.shape[1]), dtype=self.dtype)
        _, rows = self.begin(nothing, (), draws[None], 1)
        return rows[0, : -self.observations], rows[0, -self.observations :]

    def stepped(self, episodes: Array, inputs: Array) -> tuple[Array, Array, Array]:
        """One action (size, N), with the step's draws below it: rows of observations, rewards, and ends (1, else 0)"""
        if self.fly is not None:
            size = len(flatten(self.template.situation.state))
            there, actions = episodes[:size].copy(), inputs[: len(inputs) - len(self.step_kinds)]
            self.fly(there, [*episodes[size:], *actions], None, self.substeps, self.substeps)
            inputs = np.concatenate([inputs, there])
        _, rows = self.go_on(episodes, (), inputs[None], 1)
        if not np.isfinite(rows[0, -1]).all():
            self._name_the_bad(episodes)
        seen, gained = self.observations, self.observations + self.rewards
        return rows[0, :seen], rows[0, seen:gained], rows[0, gained:-1]

    def _name_the_bad(self, episodes: Array) -> None:
        component, drone = (int(x) for x in np.argwhere(~np.isfinite(episodes))[0])
        value = episodes[component, drone]
        raise FloatingPointError(f"{self.names[component]} of drone {drone} is {value}; expected a finite number")


@lru_cache(maxsize=16)
def program_of(setting: Setting, dtype: str = "float64", apart: bool = False) -> Program:
    """The program of a setting; `apart` has a reward and an end for each drone of a team"""
    require_blind(setting)
    at_start, at_step = kinds_at_start(setting), kinds_at_step(setting)
    template, seen = start(Draw(), setting)

    def begin(carry: Any, held: Any, numbers: Any) -> tuple[Any, Any]:
        return (), start(Draw(iter(numbers)), setting)

    def seen_after(episode: Any, action: Any, numbers: Any, there: Any) -> tuple[Any, tuple[Seen, ...]]:
        if apart and setting.task.drones > 1:
            return step_apart(episode, action, setting)
        draw = Draw(iter(numbers))
        if there:
            after, one = alone.step(episode, action, draw, setting, lambda *given: there)
        else:
            after, one = step(episode, action, draw, setting)
        return after, (one,)

    def go_on(episode: Any, held: Any, inputs: Any) -> tuple[Any, Any]:
        after, each = seen_after(episode, *inputs)
        total = sum(flatten(after), 0.0)
        ends = [where(own.terminated, 1.0, 0.0) for own in each]
        return after, (*(own.observation for own in each), *(own.reward for own in each), *ends, total)

    looped = setting.task.substeps > 1 and setting.task.drones == 1
    actions, there = (0.0,) * setting.actions, template.situation.state if looped else ()
    first = Scan(begin, Templates((), (), (0.0,) * len(at_start)))
    later = Scan(go_on, Templates(template, (), (actions, (0.0,) * len(at_step), there)))
    once, again = (compile_scan("llvm", each, dtype=dtype) for each in (first, later))
    fly = compile_scan("llvm", _one_of_many(setting, template), dtype=dtype) if looped else None
    rewards = setting.task.drones if apart else 1
    return Program(once, again, fly, setting.task.substeps, at_start, at_step, template, len(seen), rewards, dtype)


def _one_of_many(setting: Setting, template: Episode) -> Scan:
    """One step of physics under an action: carry the state, held the rest of the episode and the action"""
    task = setting.task
    brief = task._replace(period=task.period / task.substeps, substeps=1)
    state = template.situation.state
    rest = tuple(flatten(template)[len(flatten(state)) :])

    def body(state: State, held: Any, inputs: Any) -> tuple[State, Any]:
        others, action = held
        episode = unflatten(template, iter([*flatten(state), *others]))
        arrived, craft, environment = alone.acting(episode, action, setting)
        return advance(state, arrived, craft, brief, environment), ()

    return Scan(body, Templates(state, (rest, (0.0,) * setting.actions), ()))
