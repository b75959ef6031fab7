"""Steps without idle effects, and a check after the step that they were idle throughout.

Some effects are exactly 0 most of the time but expensive at every step, such as ground contact in the air. An effect with an
`idle` condition is replaced by one without wrench and rates that integrates the time during which it was not idle:

    ḃ = 0 where idle, else 1        and idle through the whole step  ⇔  b = 0 after it

If b = 0, every rate of the step equals that of the complete vehicle, by induction over the stages: the result is the same, bit
for bit. This holds for every method in which each rate that affects the result has a weight above 0, as in all of Samara's.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from samara.core.ops import equal, logical_and, where
from samara.core.quantity import Scalar, Tree
from samara.physics.effect import Effect
from samara.physics.types import Command, Environment, State, Vehicle


class IdleEffectState(NamedTuple):
    """The state of a suspended effect, and the time during which the effect was not idle [s]."""

    effect_state: Tree
    active_time: Scalar


def has_idle_conditions(vehicle: Vehicle) -> bool:
    """Return whether any effect of the vehicle has an idle condition."""
    return any(effect.idle is not None for effect in vehicle.structure.effects)


def is_idle(state: State, vehicle: Vehicle, environment: Environment) -> Scalar:
    """Return the condition that all effects with an idle condition are idle in this state."""
    idle: Scalar = True
    for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True):
        if effect.idle is not None:
            effect_idle = effect.idle(effect_state, state, vehicle, environment)
            idle = effect_idle if idle is True else logical_and(idle, effect_idle)
    return idle


def suspend_idle_effects(vehicle: Vehicle) -> Vehicle:
    """Return the vehicle with suspended effects in place of those with an idle condition."""
    effects = tuple(effect if effect.idle is None else _suspend_effect(effect) for effect in vehicle.structure.effects)
    return replace(vehicle, structure=replace(vehicle.structure, effects=effects))


def suspend_effect_states(state: State, vehicle: Vehicle) -> State:
    """Convert a state of the vehicle into one of the suspended vehicle (`suspend_idle_effects`), with b = 0."""
    pairs = zip(vehicle.structure.effects, state.effects, strict=True)
    return state._replace(
        effects=tuple(
            effect_state if effect.idle is None else IdleEffectState(effect_state, 0.0)
            for effect, effect_state in pairs
        )
    )


def resume_effect_states(state: State) -> tuple[State, Scalar]:
    """Convert a state of the suspended vehicle back, and return it with the condition that all effects were idle."""
    idle: Scalar = True
    effects = []
    for effect_state in state.effects:
        if isinstance(effect_state, IdleEffectState):
            effect_idle = equal(effect_state.active_time, 0.0)
            effect_state, idle = (
                effect_state.effect_state,
                effect_idle if idle is True else logical_and(idle, effect_idle),
            )
        effects.append(effect_state)
    return state._replace(effects=tuple(effects)), idle


def _suspend_effect(effect: Effect) -> Effect:
    """Return the effect without wrench and rates; its state integrates the time during which it was not idle."""
    idle = effect.idle
    assert idle is not None

    def initial(vehicle: Vehicle) -> IdleEffectState:
        return IdleEffectState(effect.initial(vehicle), 0.0)

    def rates(
        idle_state: IdleEffectState, state: State, command: Command, vehicle: Vehicle, environment: Environment
    ) -> IdleEffectState:
        active_rate = where(idle(idle_state.effect_state, state, vehicle, environment), 0.0, 1.0)
        return IdleEffectState(_zero_rates(idle_state.effect_state), active_rate)

    return Effect(effect.name, initial, rates, role=effect.role, reads=effect.reads, planned=effect.planned)


def _zero_rates(effect_state: Tree) -> Any:
    if not isinstance(effect_state, tuple):
        return 0.0
    parts = [_zero_rates(part) for part in effect_state]
    return type(effect_state)(*parts) if hasattr(effect_state, "_fields") else tuple(parts)
