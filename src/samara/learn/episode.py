"""An episode from one action of a policy to the next, as pure functions of scalars that environments and trainers trace.

    episode, observation = reset(draw, setting)
    episode, transition = step(episode, action, draw, setting)

A step is the schedule of a flight (`samara.sim.stage`) between two actions: `substeps` updates of a controller stage,
which turns the action into a command, and of the physics stage, the one that flights are made of. Then the sensors and
the estimator are updated once, if the policy does not observe the state itself (`samara.learn.observation_noise`), and
the task evaluates the result.

The episode of a team is a tuple with one `Episode` for each drone. Its action and its observation are those of the
first drone, then of the second, and so on; its reward is their mean, and it ends for all when it ends for one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, TypeAlias

from samara.control.action_space import ACTION_SPACES, ActionSpace
from samara.core.ops import clamp, floor, logical_and, logical_or, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.learn.env_config import Setting, drone_settings
from samara.learn.task import Craft, Draw, Other, Situation, Task, Tree
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Command, Environment, State
from samara.sim.stage import PHYSICS, Stage
from samara.sim.stages.physics import Contact, integrate

CACHED_SETTINGS = 16

Slots = dict[str, Tree]
"""One drone's values by the names of their slots: trees of scalars"""
Integration: TypeAlias = str | Callable[..., State]
"""An integrator by its name, or a function that integrates: (rate, state, dt) → state"""


class Episode(NamedTuple):
    """What is carried from one action to the next

    The situation; the parameters drawn for the vehicle; the delay of actions [periods], if it is drawn; the actions
    before the last, newest first; and the state of sensors and estimator.
    """

    situation: Situation
    parameters: Tree = ()
    delay: Scalar = ()
    past_actions: tuple[tuple[Scalar, ...], ...] = ()
    sensing_state: Tree = ()


class Transition(NamedTuple):
    """The result of a step for a trainer"""

    observation: tuple[Scalar, ...]
    reward: Scalar
    terminated: Scalar


# Stages ---------------------------------------------------------------------------------------------------------------


def run(stages: Sequence[Stage], slots: Slots, dt: Scalar, draw: Draw | None = None, tick: Scalar = 0.0) -> Slots:
    """Update one drone's slots by the stages in their order, at a tick of a clock with the period dt  [s]

    A stage that is not due at this tick leaves its slots unchanged.
    """
    for stage in stages:
        inputs = [stage.every * dt if path == "dt" else slots[path] for path in stage.reads]
        if stage.normals is not None:
            assert draw is not None, stage.name
            inputs.append(tuple(draw.normal() for _ in range(stage.normals.size)))
        values = dict(zip(stage.writes, stage(*inputs), strict=True))
        if stage.every > 1 or stage.delay:
            due = _is_due(stage, tick)
            values = {path: _select(due, value, slots[path]) for path, value in values.items()}
        slots = slots | values
    return slots


def _is_due(stage: Stage, tick: Scalar) -> Scalar:
    """tick ≥ delay and (tick − delay) mod every = 0"""
    since = tick - float(stage.delay)
    due = since - stage.every * floor((since + 0.5) / stage.every) < 0.5
    return logical_and(due, since > -0.5) if stage.delay else due


def _select(condition: Scalar, new: Tree, old: Tree) -> Tree:
    leaves = [where(condition, a, b) for a, b in zip(flatten(new), flatten(old), strict=True)]
    return unflatten(new, iter(leaves))


def command_from_action(
    action: tuple[Scalar, ...], state: State, *, space: ActionSpace, craft: Craft
) -> tuple[Command]:
    """u(a, x): the command an action means; the loops of an autopilot are those of the nominal vehicle"""
    return (space.command(action, state, craft.nominal, craft.command),)


def controller_stage(craft: Craft, task: Task) -> Stage:
    """The controller of an episode: the action is held, the loops that follow it run at every update of the physics"""
    parameters = (("space", ACTION_SPACES[task.action]), ("craft", craft))
    return Stage("controller", PHYSICS, command_from_action, ("action", "state"), ("command",), parameters)


def physics_stage(craft: Craft, integrator: Integration = "rk4") -> Stage:
    """The physics stage of flights, for the vehicle of an episode"""
    reads = ("state", "contact", "command", "environment", "dt")
    parameters = (("vehicle", craft.vehicle), ("integrator", integrator))
    return Stage("physics", PHYSICS, integrate, reads, ("state", "contact"), parameters)


def advance(
    state: State,
    action: tuple[Scalar, ...],
    craft: Craft,
    task: Task,
    environment: Environment = CALM,
    *,
    integrator: Integration = "rk4",
    substeps: int | None = None,
) -> State:
    """x(t + period) under an action; or after the first `substeps` updates of the controller and physics stages"""
    stages = controller_stage(craft, task), physics_stage(craft, integrator)
    slots: Slots = {"state": state, "contact": Contact(), "action": action, "environment": environment}
    for _ in range(task.substeps if substeps is None else substeps):
        slots = run(stages, slots, task.period / task.substeps)
    advanced: State = slots["state"]
    return advanced


# Reset and step -------------------------------------------------------------------------------------------------------


def reset(draw: Draw, setting: Setting) -> tuple[Tree, tuple[Scalar, ...]]:
    """Start an episode: its first moment, and the observation of it"""
    task, craft, randomization, sensing, history, (shortest, longest) = setting
    if task.drones > 1:
        drones = drone_settings(setting)
        team = tuple(reset(draw, drone)[0] for drone in drones)
        others = other_drones([episode.situation.state for episode in team])
        return team, tuple(chain(*map(observe, team, drones, others)))
    parameters = randomization.draw(draw, craft) if randomization else ()
    craft, environment = _vehicle(parameters, setting)
    delay = floor(draw.uniform(shortest, longest + 1.0)) if longest > shortest else ()
    state, goal = task.reset(draw, craft)
    situation = Situation(state, goal, 0.0, (0.0,) * setting.actions)
    past_actions = (situation.action,) * (max(history, longest) - 1)
    episode = Episode(situation, parameters, delay, past_actions)
    if sensing is not None:
        sensing_state = sensing.initial(draw, state, craft)
        estimate, sensing_state = sensing.update(draw, sensing_state, situation, craft, environment)
        episode, situation = episode._replace(sensing_state=sensing_state), situation._replace(state=estimate)
    return episode, _observation(situation, episode, craft, setting)


def step(
    episode: Tree, action: tuple[Scalar, ...], draw: Draw, setting: Setting, integrator: Integration = "rk4"
) -> tuple[Tree, Transition]:
    """One period under an action, clipped to [−1, 1]"""
    if setting.task.drones == 1:
        return conclude(episode, action, fly(episode, action, setting, integrator), draw, setting)
    team, transitions = step_team(episode, action, setting, integrator)
    observations, rewards, terminations = zip(*transitions, strict=True)
    terminated = terminations[0]
    for other in terminations[1:]:
        terminated = logical_or(terminated, other)
    reward = sum(rewards[1:], rewards[0]) / setting.task.drones
    return team, Transition(tuple(chain(*observations)), reward, terminated)


def step_team(
    team: tuple[Episode, ...], action: tuple[Scalar, ...], setting: Setting, integrator: Integration = "rk4"
) -> tuple[tuple[Episode, ...], tuple[Transition, ...]]:
    """The step of a team, with a transition for each drone; all of them move before any observes the others"""
    drones, size = drone_settings(setting), setting.actions // setting.task.drones
    actions = [action[k * size : (k + 1) * size] for k in range(len(team))]
    states = [fly(*inputs, integrator) for inputs in zip(team, actions, drones, strict=True)]
    draws = [Draw()] * len(team)  # sensors, which would take random numbers, are for one drone
    concluded = map(conclude, team, actions, states, draws, drones, other_drones(states))
    episodes, transitions = zip(*concluded, strict=True)
    return episodes, transitions


def fly(
    episode: Episode,
    action: tuple[Scalar, ...],
    setting: Setting,
    integrator: Integration = "rk4",
    substeps: int | None = None,
) -> State:
    """The state that the physics of a step leads to, or its first `substeps` updates"""
    craft, environment = _vehicle(episode.parameters, setting)
    delayed, state = delayed_action(episode, action, setting), episode.situation.state
    return advance(state, delayed, craft, setting.task, environment, integrator=integrator, substeps=substeps)


def conclude(
    episode: Episode,
    action: tuple[Scalar, ...],
    state: State,
    draw: Draw,
    setting: Setting,
    others: tuple[Other, ...] = (),
) -> tuple[Episode, Transition]:
    """Complete a step whose physics has led to a state: the task's reward and condition, sensors, estimator and observation"""
    task, before = setting.task, episode.situation
    craft, environment = _vehicle(episode.parameters, setting)
    action = clip(action)
    situation = Situation(state, before.goal, before.time + task.period, action, others)
    if task.progress is not None:
        situation = situation._replace(goal=task.progress(before, situation, craft))
    reward = task.reward(situation, craft)
    if task.action_change_cost:
        changes = (new - old for new, old in zip(action, before.action, strict=True))
        reward = reward - task.action_change_cost * sum(change * change for change in changes)
    terminated = task.termination(situation, craft)
    past_actions = (before.action, *episode.past_actions)[: len(episode.past_actions)]
    episode = episode._replace(situation=situation._replace(others=()), past_actions=past_actions)
    if setting.sensing is not None:
        update = setting.sensing.update(draw, episode.sensing_state, situation, craft, environment)
        episode, situation = episode._replace(sensing_state=update[1]), situation._replace(state=update[0])
    return episode, Transition(_observation(situation, episode, craft, setting), reward, terminated)


def delayed_action(episode: Episode, action: tuple[Scalar, ...], setting: Setting) -> tuple[Scalar, ...]:
    """The action in effect while `action` is chosen: one that is as many periods old as the episode's delay"""
    shortest, longest = setting.delay
    candidates = (clip(action), episode.situation.action, *episode.past_actions)
    delayed = candidates[shortest]
    for age in range(shortest + 1, longest + 1):
        pairs = zip(candidates[age], delayed, strict=True)
        delayed = tuple(where(episode.delay > age - 0.5, older, newer) for older, newer in pairs)
    return delayed


def clip(action: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Each component within [−1, 1]"""
    return tuple(clamp(a, -1.0, 1.0) for a in action)


def observe(episode: Episode, setting: Setting, others: tuple[Other, ...] = ()) -> tuple[Scalar, ...]:
    """The observation of an episode, without sensors between"""
    craft, _ = _vehicle(episode.parameters, setting)
    return _observation(episode.situation._replace(others=others), episode, craft, setting)


def is_success(episode: Episode, setting: Setting) -> Scalar:
    """Whether an episode is successful, by the task's condition"""
    if setting.task.success is None:
        raise ValueError(f"task {setting.task.name!r} does not say what success is: it has no function `success`")
    return setting.task.success(episode.situation, _vehicle(episode.parameters, setting)[0])


@lru_cache(maxsize=CACHED_SETTINGS)
def templates(setting: Setting) -> tuple[Tree, tuple[float, ...]]:
    """An episode and an observation, for their shapes"""
    return reset(Draw(), setting)


@lru_cache(maxsize=CACHED_SETTINGS)
def reset_draws(setting: Setting) -> tuple[str, ...]:
    """The random numbers that `reset` takes, in their order: "uniform" or "normal" for each"""
    draw = Draw()
    reset(draw, setting)
    return tuple(draw.kinds)


@lru_cache(maxsize=CACHED_SETTINGS)
def step_draws(setting: Setting) -> tuple[str, ...]:
    """The random numbers that `step` takes: those of the sensors"""
    draw = Draw()
    if setting.sensing is not None:
        step(templates(setting)[0], (0.0,) * setting.actions, draw, setting)
    return tuple(draw.kinds)


def other_drones(states: Sequence[State]) -> list[tuple[Other, ...]]:
    """For each drone of a team the motion of the others: from the next one on, around to the one before"""
    motions = [Other(state.p_W, state.v_W) for state in states]
    return [(*motions[k + 1 :], *motions[:k]) for k in range(len(motions))]


def _vehicle(parameters: Tree, setting: Setting) -> tuple[Craft, Environment]:
    if setting.randomization is None:
        return setting.craft, CALM
    return setting.randomization.apply(parameters, setting.craft)


def _observation(situation: Situation, episode: Episode, craft: Craft, setting: Setting) -> tuple[Scalar, ...]:
    actions = (episode.situation.action, *episode.past_actions)[: setting.history]
    return (*setting.task.observation(situation, craft), *chain(*actions))


# For trainers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepFunctions:
    """The functions that a step is composed of, for trainers that differentiate it through the stages of the integrator

        o = observe(x),  a = π(o),  u = command(x, a),  ż = derivative(z, u, x),  x', r, terminated = conclude(z', x, a)

    x is an episode, z the vehicle's state in it. One drone, and no sensors, which would draw random numbers at every
    step.
    """

    setting: Setting

    def __post_init__(self) -> None:
        task = self.setting.task
        if task.drones > 1:
            raise ValueError(f"task {task.name!r} is for a team of {task.drones}; this trainer takes one drone")
        if step_draws(self.setting):
            raise ValueError(
                "a setting with sensors draws random numbers at every step; this trainer takes one without"
            )

    def reset(self, numbers: Sequence[Scalar]) -> Episode:
        """An episode at its start, from its random numbers"""
        episode: Episode = reset(Draw(iter(numbers)), self.setting)[0]
        return episode

    def observe(self, episode: Episode) -> tuple[Scalar, ...]:
        """o(x)"""
        return observe(episode, self.setting)

    def step(
        self, episode: Episode, action: tuple[Scalar, ...], integrator: Integration = "rk4"
    ) -> tuple[Episode, Scalar, Scalar]:
        """x', r and whether the episode has ended"""
        return self.conclude(fly(episode, action, self.setting, integrator), episode, action)

    def command(self, episode: Episode, action: tuple[Scalar, ...]) -> Command:
        """u(x, a)"""
        craft, _ = _vehicle(episode.parameters, self.setting)
        delayed = delayed_action(episode, action, self.setting)
        command: Command = controller_stage(craft, self.setting.task)(delayed, episode.situation.state)[0]
        return command

    def derivative(self, state: State, command: Command, episode: Episode) -> State:
        """ż(z, u, x)"""
        craft, environment = _vehicle(episode.parameters, self.setting)
        return derivative(state, command, craft.vehicle, environment)

    def conclude(self, state: State, episode: Episode, action: tuple[Scalar, ...]) -> tuple[Episode, Scalar, Scalar]:
        """x', r and whether the episode has ended, where the physics has led to a state"""
        after, (_, reward, terminated) = conclude(episode, action, state, Draw(), self.setting)
        return after, reward, terminated

    def is_terminated(self, episode: Episode) -> Scalar:
        """Whether an episode has ended"""
        return self.setting.task.termination(episode.situation, _vehicle(episode.parameters, self.setting)[0])

    def is_success(self, episode: Episode) -> Scalar:
        """Whether an episode is successful; False where the task has no such condition"""
        return is_success(episode, self.setting) if self.setting.task.success is not None else False

    @property
    def draws(self) -> tuple[str, ...]:
        """The random numbers of a reset"""
        return reset_draws(self.setting)

    @cached_property
    def episode(self) -> Episode:
        """A template, as are `state` and `action`"""
        episode: Episode = templates(self.setting)[0]
        return episode

    @property
    def state(self) -> State:
        return self.episode.situation.state

    @property
    def action(self) -> tuple[float, ...]:
        return (0.0,) * self.setting.actions

    @property
    def size(self) -> int:
        """Leaves of an episode"""
        return len(flatten(self.episode))

    @cached_property
    def varying(self) -> tuple[int, ...]:
        """The leaves of an episode that change within it"""
        first = len(flatten(self.episode.situation))
        constant = len(flatten((self.episode.parameters, self.episode.delay)))
        return (*range(first), *range(first + constant, self.size))

    @cached_property
    def observations(self) -> int:
        """The size of an observation"""
        return len(templates(self.setting)[1])

    @property
    def substeps(self) -> int:
        return self.setting.task.substeps

    @property
    def dt(self) -> float:
        """Of one update of the physics  [s]"""
        return self.setting.task.period / self.substeps
