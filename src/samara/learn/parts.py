"""One step of an episode in parts, on trees of scalars: what a rollout is made of, the loop over RK4's stages its own.

    o = observe(x),  a = π(o),  u = command(x, a),  ż = rate(z, u, x) in each of RK4's stages,  x', r, over = after(z', x, a)

x is an episode, z the vehicle's state in it. All are parts of `samara.learn.episode.step`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from samara.core.tree import flatten
from samara.learn.advance import Integrate, advance
from samara.learn.episode import (
    Episode,
    Setting,
    acting,
    kinds_at_start,
    kinds_at_step,
    observed,
    over,
    start,
    step,
    succeeded,
)
from samara.learn.task import Draw
from samara.physics.types import Command, State


class Parts(NamedTuple):
    """The functions, the shapes of what they take, and which numbers of an episode change within it (`moving`)"""

    begin: Callable[[Any], Episode]
    observe: Callable[[Episode], tuple[Any, ...]]
    step: Callable[[Episode, Any, Integrate], tuple[Episode, Any, Any]]
    fly: Callable[[Episode, Any, Integrate], State]  # one step of the physics of several within an action
    command: Callable[[Episode, Any], Command]
    rate: Callable[[State, Command, Episode], State]
    after: Callable[[State, Episode, Any], tuple[Episode, Any, Any]]
    over: Callable[[Episode], Any]
    done: Callable[[Episode], Any]  # whether it has succeeded, as its task says; never where that does not say it
    episode: Episode
    state: State
    hovering: Command
    action: tuple[float, ...]
    kinds: tuple[str, ...]
    moving: tuple[int, ...]
    size: int
    observations: int
    dt: float
    substeps: int


def parts_of(setting: Setting) -> Parts:
    """Those of a setting with one drone, and without sensors between, which would draw at every step"""
    if setting.task.drones > 1:
        raise ValueError(
            f"task {setting.task.name!r} is for a team of {setting.task.drones}; this learner takes one drone"
        )
    if kinds_at_step(setting):
        raise ValueError("a setting with sensors draws random numbers at every step; this learner takes one without")
    template, seen = start(Draw(), setting)
    action, kinds = (0.0,) * setting.actions, kinds_at_start(setting)

    def held(episode: Episode, action: Any) -> tuple[Any, Any]:
        """The rate of change under a command, and the command that the action means"""
        found: list[Any] = []

        def keep(rate: Any, state: Any, command: Any, dt: Any) -> Any:
            found.append((rate, command))
            return state

        arrived, craft, environment = acting(episode, action, setting)
        advance(episode.situation.state, arrived, craft, setting.task._replace(substeps=1), environment, keep)
        return found[0]

    def whole(episode: Episode, action: Any, integrate: Integrate) -> tuple[Episode, Any, Any]:
        advanced, seen = step(episode, action, Draw(), setting, integrate)
        return advanced, seen.reward, seen.terminated

    brief = setting.task._replace(period=setting.task.period / setting.task.substeps, substeps=1)

    def flown(episode: Episode, action: Any, integrate: Integrate) -> State:
        arrived, craft, environment = acting(episode, action, setting)
        return advance(episode.situation.state, arrived, craft, brief, environment, integrate)

    constant, first = len(flatten((template.drawn, template.late))), len(flatten(template.situation))
    size = len(flatten(template))
    return Parts(
        begin=lambda numbers: start(Draw(iter(numbers)), setting)[0],
        observe=lambda episode: observed(episode, setting),
        step=whole,
        fly=flown,
        command=lambda episode, action: held(episode, action)[1],
        rate=lambda z, u, episode: held(episode, action)[0](z, u),
        after=lambda z, episode, action: whole(episode, action, lambda rate, state, command, dt: z),
        over=lambda episode: over(episode, setting),
        done=lambda episode: succeeded(episode, setting) if setting.task.success is not None else False,
        episode=template,
        state=template.situation.state,
        hovering=tuple(setting.craft.command),
        action=action,
        kinds=kinds,
        moving=(*range(first), *range(first + constant, size)),
        size=size,
        observations=len(seen),
        dt=setting.task.period / setting.task.substeps,
        substeps=setting.task.substeps,
    )
