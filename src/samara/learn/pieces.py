"""The parts of a step of an episode (`samara.learn.parts`) in JAX, on flat lists of arrays, each traced by itself.

    o = observe(x),  a = π(o),  u = command(x, a),  ż = rate(z, u, x) in each of RK4's stages,  x', r, over = after(z', x, a)

or all of it at once, x', r, over = step(x, a). x is an episode, z the vehicle's state in it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from samara.backends.folding import folded, new_trace, unfolded
from samara.backends.rolled import rolled
from samara.control.sight import BLOCKS
from samara.core.integrate import RUNGE_KUTTA, chain_of, integrator_named, unit_quaternions
from samara.core.tree import flatten, unflatten
from samara.learn.advance import Integrate
from samara.learn.episode import Setting
from samara.learn.parts import parts_of

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


def pieces_of(setting: Setting, integrate: Integrate | None = None) -> Pieces:
    """Those of a setting with one drone, and without sensors between, which would draw at every step

    `step` goes through RK4's stages in a loop, unless it is to `integrate` otherwise.
    """
    own, by = parts_of(setting), integrate or by_rolled_rk4
    state = len(flatten(own.state))

    def split(rows: Rows) -> tuple[Rows, Any, Any]:
        return rows[:-2], rows[-2], rows[-1]

    flat_step = _flat(lambda episode, action: own.step(episode, action, by), own.episode, own.action)
    flat_after = _flat(own.after, own.state, own.episode, own.action)
    observe, step, sight = _flat(own.observe, own.episode), lambda *given: split(flat_step(*given)), setting.task.sight
    if sight is not None:
        alone, fly = observe, _flat(lambda episode, action: own.fly(episode, action, by), own.episode, own.action)

        def observe(rows: Sequence[Any]) -> Rows:
            from samara.learn.sight import picture

            return [*alone(rows), *picture(sight, unflatten(own.episode, iter(rows)).situation)]

        def step(rows: Sequence[Any], action: Sequence[Any]) -> tuple[Rows, Any, Any]:
            """The steps of physics in a loop: code for one of them is enough"""
            rest = list(rows[state:])

            @jax.checkpoint
            def once(now: Any, _: Any) -> tuple[Any, None]:
                return jnp.stack(fly([*now, *rest], list(action))), None

            there, _ = lax.scan(once, jnp.stack(list(rows[:state])), None, length=own.substeps)
            return split(flat_after(list(there), rows, action))

    return Pieces(
        begin=_flat(
            own.begin, (0.0,) * max(1, len(own.kinds))
        ),  # a number more where none is drawn: it tells how many drones
        observe=observe,
        step=step,
        command=_flat(own.command, own.episode, own.action),
        rate=_flat(own.rate, own.state, own.hovering, own.episode),
        after=lambda *given: split(flat_after(*given)),
        unit=_flat(unit_quaternions, own.state),
        over=_flat(lambda episode: (own.over(episode),), own.episode),
        kinds=own.kinds,
        state=state,
        moving=own.moving,
        size=own.size,
        observations=own.observations + (0 if sight is None else BLOCKS),
        actions=len(own.action),
        dt=own.dt,
        substeps=own.substeps,
    )


def rolled_by(integrator: str) -> Integrate:
    """x(t + dt) under a command that is held, as a loop over a method's stages: for RK4 a quarter of the code to compile"""
    chain = chain_of(integrator_named(integrator, RUNGE_KUTTA).tableau)
    return lambda rate, state, command, dt: rolled(chain, lambda x: rate(x, command), state, dt)


by_rolled_rk4 = rolled_by("rk4")


def _flat(function: Callable[..., Any], *templates: Any) -> Callable[..., Rows]:
    """A function of trees of scalars as one of lists of arrays, all of one shape and type"""

    def flat(*groups: Sequence[Any]) -> Rows:
        first = groups[0][0]
        trace = new_trace(first.dtype, True)
        found = function(*(folded(template, list(own), trace) for template, own in zip(templates, groups, strict=True)))
        return [jnp.broadcast_to(lax.convert_element_type(x, first.dtype), first.shape) for x in unfolded(found)]

    return flat
