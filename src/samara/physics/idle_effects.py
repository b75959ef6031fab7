"""A step without the effects that do nothing during it, and how to tell afterwards that they did nothing.

Many an effect is exactly 0 most of the time and expensive all the time: contact with the ground, in the air. One that says when
(`Effect.idle`) is replaced by one without wrench and rates that counts the time for which it would not have been idle:

    ḃ = 0 where idle, else 1        and idle through the whole step  ⇔  b = 0 after it

Where that holds, every rate of the step was that of the whole vehicle, by induction over the stages: the numbers are the same,
bit for bit. This holds for every method in which each rate that counts has a weight above 0, as all of ours.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from samara.core.ops import equal, logical_and, where
from samara.core.quantity import Scalar, Tree
from samara.physics.effect import Effect
from samara.physics.types import Command, Environment, State, Vehicle


class Resting(NamedTuple):
    """The state of an effect that is taken to be idle, and for how long it was not  [s]"""

    own: Tree
    busy: Scalar


def has_idle(vehicle: Vehicle) -> bool:
    """Whether any of its effects says when it is idle"""
    return any(effect.idle is not None for effect in vehicle.structure.effects)


def all_idle(state: State, vehicle: Vehicle, environment: Environment) -> Scalar:
    """Whether all effects that say when are idle in this state, as a condition"""
    idle: Scalar = True
    for effect, own in zip(vehicle.structure.effects, state.effects, strict=True):
        if effect.idle is not None:
            here = effect.idle(own, state, vehicle, environment)
            idle = here if idle is True else logical_and(idle, here)
    return idle


def quiet(vehicle: Vehicle) -> Vehicle:
    """The vehicle with `Resting` effects in place of those that say when they are idle"""
    effects = tuple(own if own.idle is None else _resting(own) for own in vehicle.structure.effects)
    return replace(vehicle, structure=replace(vehicle.structure, effects=effects))


def quieted(state: State, vehicle: Vehicle) -> State:
    """A state of the vehicle as one of the quiet vehicle: no effect was busy yet"""
    pairs = zip(vehicle.structure.effects, state.effects, strict=True)
    return state._replace(effects=tuple(own if effect.idle is None else Resting(own, 0.0) for effect, own in pairs))


def woken(state: State) -> tuple[State, Scalar]:
    """A state of the quiet vehicle as one of the vehicle, and whether all were idle until then, as a condition"""
    idle: Scalar = True
    effects = []
    for own in state.effects:
        if isinstance(own, Resting):
            here = equal(own.busy, 0.0)
            own, idle = own.own, here if idle is True else logical_and(idle, here)
        effects.append(own)
    return state._replace(effects=tuple(effects)), idle


def _resting(effect: Effect) -> Effect:
    """The effect without wrench and rates, counting for how long it was not idle"""
    idle = effect.idle
    assert idle is not None

    def initial(vehicle: Vehicle) -> Resting:
        return Resting(effect.initial(vehicle), 0.0)

    def rates(resting: Resting, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Resting:
        busy = where(idle(resting.own, state, vehicle, environment), 0.0, 1.0)
        return Resting(_no_rates(resting.own), busy)

    return Effect(effect.name, initial, rates, role=effect.role, reads=effect.reads, planned=effect.planned)


def _no_rates(own: Tree) -> Any:
    if not isinstance(own, tuple):
        return 0.0
    parts = [_no_rates(part) for part in own]
    return type(own)(*parts) if hasattr(own, "_fields") else tuple(parts)
