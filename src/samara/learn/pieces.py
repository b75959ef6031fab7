"""One step of an episode in pieces, on flat lists of arrays: what a rollout is made of, the loop over RK4's stages its own.

    o = observe(x),  a = π(o),  u = command(x, a),  ż = rate(z, u, x) in each of RK4's stages,  x', r, over = after(z', x, a)

or all of it at once, x', r, over = step(x, a). x is an episode, z the vehicle's state in it. All are traced from
`samara.learn.episode.step`, each its own part.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from samara.backends.folding import folded, new_trace, unfolded
from samara.backends.rolled import rk4_rolled
from samara.core.integrate import unit_quaternions
from samara.core.tree import flatten
from samara.learn.advance import Integrate, advance
from samara.learn.episode import Episode, Setting, acting, kinds_at_start, kinds_at_step, observed, over, start, step
from samara.learn.task import Draw

Rows = list[Any]


class Pieces(NamedTuple):
    """The functions, and how many numbers each takes: `moving` are those of an episode that change within it."""

    begin: Callable[[Sequence[Any]], Rows]
    observe: Callable[[Sequence[Any]], Rows]
    step: Callable[[Sequence[Any], Sequence[Any]], tuple[Rows, Any, Any]]
    command: Callable[[Sequence[Any], Sequence[Any]], Rows]
    rate: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Rows]
    after: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Rows, Any, Any]]
    unit: Callable[[Sequence[Any]], Rows]
    over: Callable[[Sequence[Any]], Rows]
    kinds: tuple[str, ...]
    state: int
    moving: tuple[int, ...]
    size: int
    observations: int
    actions: int
    dt: float
    substeps: int


def pieces_of(setting: Setting) -> Pieces:
    """Those of a setting with one drone, and without sensors between, which would draw at every step"""
    if setting.task.drones > 1:
        raise ValueError(
            f"task {setting.task.name!r} is for a team of {setting.task.drones}; this learner takes one drone"
        )
    if kinds_at_step(setting):
        raise ValueError("a setting with sensors draws random numbers at every step; this learner takes one without")
    template, seen = start(Draw(), setting)
    action = (0.0,) * setting.actions
    kinds = kinds_at_start(setting)
    state = template.situation.state
    command = tuple(setting.craft.command)

    def begin(numbers: Any) -> Any:
        return start(Draw(iter(numbers)), setting)[0]

    def held(episode: Episode, action: Any) -> tuple[Any, Any]:
        """The rate of change under a command, and the command that the action means"""
        found: list[Any] = []

        def keep(rate: Any, state: Any, command: Any, dt: Any) -> Any:
            found.append((rate, command))
            return state

        arrived, craft, environment = acting(episode, action, setting)
        advance(episode.situation.state, arrived, craft, setting.task._replace(substeps=1), environment, keep)
        return found[0]

    def whole(episode: Episode, action: Any, integrate: Integrate = by_rolled_rk4) -> Any:
        advanced, seen = step(episode, action, Draw(), setting, integrate)
        return advanced, seen.reward, seen.terminated

    def after(z: Any, episode: Episode, action: Any) -> Any:
        return whole(episode, action, lambda rate, state, command, dt: z)

    def split(rows: Rows) -> tuple[Rows, Any, Any]:
        return rows[:-2], rows[-2], rows[-1]

    flat_step, flat_after = _flat(whole, template, action), _flat(after, state, template, action)
    constant = len(flatten((template.drawn, template.late)))
    first = len(flatten(template.situation))
    size = len(flatten(template))
    return Pieces(
        begin=_flat(begin, (0.0,) * len(kinds)),
        observe=_flat(lambda episode: observed(episode, setting), template),
        step=lambda *given: split(flat_step(*given)),
        command=_flat(lambda episode, action: held(episode, action)[1], template, action),
        rate=_flat(lambda z, u, episode: held(episode, action)[0](z, u), state, command, template),
        after=lambda *given: split(flat_after(*given)),
        unit=_flat(unit_quaternions, state),
        over=_flat(lambda episode: (over(episode, setting),), template),
        kinds=kinds,
        state=len(flatten(state)),
        moving=(*range(first), *range(first + constant, size)),
        size=size,
        observations=len(seen),
        actions=setting.actions,
        dt=setting.task.period / setting.task.substeps,
        substeps=setting.task.substeps,
    )


def by_rolled_rk4(rate: Any, state: Any, command: Any, dt: Any) -> Any:
    """x(t + dt) under a command that is held: a loop over RK4's stages, a quarter of the code to compile"""
    return rk4_rolled(lambda x: rate(x, command), state, dt)


def _flat(function: Callable[..., Any], *templates: Any) -> Callable[..., Rows]:
    """A function of trees of scalars as one of lists of arrays, all of one shape and type"""

    def flat(*groups: Sequence[Any]) -> Rows:
        first = groups[0][0]
        trace = new_trace(first.dtype, True)
        found = function(*(folded(template, list(own), trace) for template, own in zip(templates, groups, strict=True)))
        return [jnp.broadcast_to(lax.convert_element_type(x, first.dtype), first.shape) for x in unfolded(found)]

    return flat
