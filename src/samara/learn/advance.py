"""From one action to the next: all environments and learners are traced from these few lines."""

from collections.abc import Callable
from typing import Any, NamedTuple

from samara.core.integrate import ONE_STEP, integrator_named
from samara.core.ops import clamp
from samara.core.quantity import Scalar
from samara.learn.actions import ACTIONS
from samara.learn.task import Craft, Draw, Situation, Task
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Command, Environment, State


class Outcome(NamedTuple):
    """What an action led to: the situation after it, its reward, and whether that ends the episode"""

    situation: Situation
    reward: Scalar
    terminated: Any


Rate = Callable[[State, Command], State]
Integrate = Callable[[Rate, State, Command, float], State]


def held_by(integrator: str) -> Integrate:
    """x(t + dt) under a command that is held, by a method of `samara.core.integrate`"""
    step = integrator_named(integrator, ONE_STEP).advance
    return lambda rate, state, command, dt: step(lambda x: rate(x, command), state, dt)


by_rk4 = held_by("rk4")


def advance(
    state: State,
    action: tuple[Scalar, ...],
    craft: Craft,
    task: Task,
    environment: Environment = CALM,
    integrate: Integrate = by_rk4,
) -> State:
    """x(t + period): the command that the action means, and so many steps of RK4 under it"""
    command_of, dt = ACTIONS[task.action].command, task.period / task.substeps

    def rate(x: State, command: Command) -> State:
        return derivative(x, command, craft.vehicle, environment)

    for _ in range(task.substeps):
        state = integrate(rate, state, command_of(action, state, craft), dt)
    return state


def begin(draw: Draw, craft: Craft, task: Task) -> Situation:
    """The start of an episode: no time has passed, and no action was taken"""
    state, goal = task.reset(draw, craft)
    return Situation(state, goal, 0.0, (0.0,) * ACTIONS[task.action].size(craft.vehicle))


def proceed(
    before: Situation,
    action: tuple[Scalar, ...],
    craft: Craft,
    task: Task,
    environment: Environment = CALM,
    arrived: tuple[Scalar, ...] | None = None,
    integrate: Integrate = by_rk4,
) -> Outcome:
    """One step of an episode under an action, cut to [−1, 1]; `arrived` is the one that the vehicle gets, where that is late"""
    action = cut(action)
    state = advance(before.state, action if arrived is None else arrived, craft, task, environment, integrate)
    after = Situation(state, before.goal, before.time + task.period, action)
    if task.progress is not None:
        after = after._replace(goal=task.progress(before, after, craft))
    reward = task.reward(after, craft)
    if task.action_change_cost:
        changes = (new - old for new, old in zip(action, before.action, strict=True))
        reward = reward - task.action_change_cost * sum(change * change for change in changes)
    return Outcome(after, reward, task.termination(after, craft))


def cut(action: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Each number within [−1, 1]"""
    return tuple(clamp(a, -1.0, 1.0) for a in action)
