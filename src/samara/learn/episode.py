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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, TypeAlias

from samara.control.action_space import ACTION_SPACES, ActionSpace
from samara.core.ops import clamp, floor, logical_and, logical_or, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.learn.env_config import EnvironmentSetting, drone_settings
from samara.learn.task import Draw, Reward, Situation, Task, TeammateMotion, Tree, TrimmedDrone
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Command, Environment, State
from samara.sim.stage import PHYSICS, Stage
from samara.sim.stages.physics import ContactStatus, integrate

CACHED_SETTINGS = 16

Slots = dict[str, Tree]
"""One drone's values by slot name: trees of scalars."""
Integration: TypeAlias = str | Callable[..., State]
"""The name of an integrator, or a function that integrates: (rate, state, dt) → state."""


class Episode(NamedTuple):
    """The values carried from one action to the next.

    The situation; the random parameters of the vehicle; the delay of actions [periods], if it is random; the actions
    before the last, newest first; and the state of sensors and estimator.
    """

    situation: Situation
    parameters: Tree = ()
    delay: Scalar = ()
    past_actions: tuple[tuple[Scalar, ...], ...] = ()
    sensing_state: Tree = ()


class TrainerTransition(NamedTuple):
    """The result of a step for a trainer."""

    observation: tuple[Scalar, ...]
    reward: Scalar
    terminated: Scalar


# Stages ---------------------------------------------------------------------------------------------------------------


def run_stages(
    stages: Sequence[Stage], slots: Slots, dt: Scalar, draw: Draw | None = None, tick: Scalar = 0.0
) -> Slots:
    """Update one drone's slots by the stages in order, at a tick of a clock with the period dt  [s].

    A stage that is not due at this tick leaves its slots unchanged.
    """
    for stage in stages:
        inputs = [stage.every * dt if path == "dt" else slots[path] for path in stage.reads]
        if stage.normals is not None:
            assert draw is not None, stage.name
            inputs.append(tuple(draw.normal() for _ in range(stage.normals.size)))
        values = dict(zip(stage.writes, stage(*inputs), strict=True))
        if stage.every > 1 or stage.delay:
            is_due = _is_due(stage, tick)
            values = {path: _select(is_due, value, slots[path]) for path, value in values.items()}
        slots = slots | values
    return slots


def _is_due(stage: Stage, tick: Scalar) -> Scalar:
    """tick ≥ delay and (tick − delay) mod every = 0"""
    elapsed = tick - float(stage.delay)
    is_multiple = elapsed - stage.every * floor((elapsed + 0.5) / stage.every) < 0.5
    return logical_and(is_multiple, elapsed > -0.5) if stage.delay else is_multiple


def _select(condition: Scalar, new: Tree, old: Tree) -> Tree:
    leaves = [where(condition, a, b) for a, b in zip(flatten(new), flatten(old), strict=True)]
    return unflatten(new, iter(leaves))


def command_from_action(
    action: tuple[Scalar, ...], state: State, *, space: ActionSpace, drone: TrimmedDrone
) -> tuple[Command]:
    """u(a, x): the command of an action; the loops of an autopilot are those of the nominal vehicle."""
    return (space.command(action, state, drone.nominal, drone.command),)


def controller_stage(drone: TrimmedDrone, task: Task) -> Stage:
    """Return the controller of an episode: the action is held, the loops that follow it run at every physics update."""
    parameters = (("space", ACTION_SPACES[task.action]), ("drone", drone))
    return Stage("controller", PHYSICS, command_from_action, ("action", "state"), ("command",), parameters)


def physics_stage(drone: TrimmedDrone, integrator: Integration = "rk4") -> Stage:
    """Return the physics stage of flights, for the vehicle of an episode."""
    reads = ("state", "contact", "command", "environment", "dt")
    parameters = (("vehicle", drone.vehicle), ("integrator", integrator))
    return Stage("physics", PHYSICS, integrate, reads, ("state", "contact"), parameters)


def advance(
    state: State,
    action: tuple[Scalar, ...],
    drone: TrimmedDrone,
    task: Task,
    environment: Environment = CALM,
    *,
    integrator: Integration = "rk4",
    substeps: int | None = None,
) -> State:
    """x(t + period) under an action; or after the first `substeps` updates of the controller and physics stages."""
    stages = controller_stage(drone, task), physics_stage(drone, integrator)
    slots: Slots = {"state": state, "contact": ContactStatus(), "action": action, "environment": environment}
    for _ in range(task.substeps if substeps is None else substeps):
        slots = run_stages(stages, slots, task.period / task.substeps)
    advanced: State = slots["state"]
    return advanced


# Reset and step -------------------------------------------------------------------------------------------------------


def reset(draw: Draw, setting: EnvironmentSetting) -> tuple[Tree, tuple[Scalar, ...]]:
    """Start an episode; return it with its first observation."""
    task, drone, randomization, sensing, history, (shortest, longest) = setting
    if task.drones > 1:
        drones = drone_settings(setting)
        team = tuple(reset(draw, drone_setting)[0] for drone_setting in drones)
        teammates = teammate_motions([episode.situation.state for episode in team])
        return team, tuple(chain(*map(observe, team, drones, teammates)))
    parameters = randomization.draw(draw, drone) if randomization else ()
    drone, environment = _randomized_drone(parameters, setting)
    delay = floor(draw.uniform(shortest, longest + 1.0)) if longest > shortest else ()
    state, goal = task.reset(draw, drone)
    situation = Situation(state, goal, 0.0, (0.0,) * setting.action_size)
    past_actions = (situation.action,) * (max(history, longest) - 1)
    episode = Episode(situation, parameters, delay, past_actions)
    if sensing is not None:
        sensing_state = sensing.initial(draw, state, drone)
        estimate, sensing_state = sensing.update(draw, sensing_state, situation, drone, environment)
        episode, situation = episode._replace(sensing_state=sensing_state), situation._replace(state=estimate)
    return episode, _observation(situation, episode, drone, setting)


def step(
    episode: Tree, action: tuple[Scalar, ...], draw: Draw, setting: EnvironmentSetting, integrator: Integration = "rk4"
) -> tuple[Tree, TrainerTransition]:
    """Advance one period under an action, clipped to [−1, 1]."""
    if setting.task.drones == 1:
        return complete_step(episode, action, advance_episode(episode, action, setting, integrator), draw, setting)
    team, transitions = step_team(episode, action, setting, integrator)
    observations, rewards, terminations = zip(*transitions, strict=True)
    terminated = terminations[0]
    for termination in terminations[1:]:
        terminated = logical_or(terminated, termination)
    reward = sum(rewards[1:], rewards[0]) / setting.task.drones
    return team, TrainerTransition(tuple(chain(*observations)), reward, terminated)


def step_team(
    team: tuple[Episode, ...], action: tuple[Scalar, ...], setting: EnvironmentSetting, integrator: Integration = "rk4"
) -> tuple[tuple[Episode, ...], tuple[TrainerTransition, ...]]:
    """Advance a team, with a transition for each drone; all drones move before any observes the others."""
    drones, size = drone_settings(setting), setting.action_size // setting.task.drones
    actions = [action[k * size : (k + 1) * size] for k in range(len(team))]
    states = [advance_episode(*inputs, integrator) for inputs in zip(team, actions, drones, strict=True)]
    draws = [Draw()] * len(team)  # sensors, which need random numbers, are for a single drone
    concluded = map(complete_step, team, actions, states, draws, drones, teammate_motions(states))
    episodes, transitions = zip(*concluded, strict=True)
    return episodes, transitions


def advance_episode(
    episode: Episode,
    action: tuple[Scalar, ...],
    setting: EnvironmentSetting,
    integrator: Integration = "rk4",
    substeps: int | None = None,
) -> State:
    """Return the state after the physics of a step, or after its first `substeps` updates."""
    drone, environment = _randomized_drone(episode.parameters, setting)
    delayed, state = delayed_action(episode, action, setting), episode.situation.state
    return advance(state, delayed, drone, setting.task, environment, integrator=integrator, substeps=substeps)


def complete_step(
    episode: Episode,
    action: tuple[Scalar, ...],
    state: State,
    draw: Draw,
    setting: EnvironmentSetting,
    teammates: tuple[TeammateMotion, ...] = (),
) -> tuple[Episode, TrainerTransition]:
    """Complete a step after its physics: the task's reward and termination, sensors, estimator and observation."""
    task, previous = setting.task, episode.situation
    drone, environment = _randomized_drone(episode.parameters, setting)
    action = clip(action)
    situation = Situation(state, previous.goal, previous.time + task.period, action, teammates)
    if task.progress is not None:
        situation = situation._replace(goal=task.progress(previous, situation, drone))
    reward = total_reward(task.reward(situation, drone))
    if task.action_change_cost:
        changes = (new - old for new, old in zip(action, previous.action, strict=True))
        reward = reward - task.action_change_cost * sum(change * change for change in changes)
    terminated = task.termination(situation, drone)
    past_actions = (previous.action, *episode.past_actions)[: len(episode.past_actions)]
    episode = episode._replace(situation=situation._replace(teammates=()), past_actions=past_actions)
    if setting.sensing is not None:
        update = setting.sensing.update(draw, episode.sensing_state, situation, drone, environment)
        episode, situation = episode._replace(sensing_state=update[1]), situation._replace(state=update[0])
    return episode, TrainerTransition(_observation(situation, episode, drone, setting), reward, terminated)


def total_reward(reward: Reward) -> Scalar:
    """The sum of the terms of a reward, if it has terms."""
    return sum(reward.values(), 0.0) if isinstance(reward, Mapping) else reward


def reward_terms(episode: Tree, setting: EnvironmentSetting) -> dict[str, Scalar]:
    """Return the terms of the latest reward by name; none for a team, or if the task's `reward` returns a number."""
    if setting.task.drones > 1:
        return {}
    reward = setting.task.reward(episode.situation, _randomized_drone(episode.parameters, setting)[0])
    return dict(reward) if isinstance(reward, Mapping) else {}


def delayed_action(episode: Episode, action: tuple[Scalar, ...], setting: EnvironmentSetting) -> tuple[Scalar, ...]:
    """Return the action in effect while `action` is chosen: it is older by the episode's delay."""
    shortest, longest = setting.delay
    candidates = (clip(action), episode.situation.action, *episode.past_actions)
    delayed = candidates[shortest]
    for age in range(shortest + 1, longest + 1):
        pairs = zip(candidates[age], delayed, strict=True)
        delayed = tuple(where(episode.delay > age - 0.5, older, newer) for older, newer in pairs)
    return delayed


def clip(action: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Clip each component to [−1, 1]."""
    return tuple(clamp(a, -1.0, 1.0) for a in action)


def observe(
    episode: Episode, setting: EnvironmentSetting, teammates: tuple[TeammateMotion, ...] = ()
) -> tuple[Scalar, ...]:
    """Return the observation of an episode without sensors."""
    drone, _ = _randomized_drone(episode.parameters, setting)
    return _observation(episode.situation._replace(teammates=teammates), episode, drone, setting)


def is_success(episode: Episode, setting: EnvironmentSetting) -> Scalar:
    """Return whether an episode is successful, by the task's condition."""
    if setting.task.success is None:
        raise ValueError(f"task {setting.task.name!r} does not define success: it has no function `success`")
    return setting.task.success(episode.situation, _randomized_drone(episode.parameters, setting)[0])


@lru_cache(maxsize=CACHED_SETTINGS)
def templates(setting: EnvironmentSetting) -> tuple[Tree, tuple[float, ...]]:
    """Return an episode and an observation as templates of their shapes."""
    return reset(Draw(), setting)


@lru_cache(maxsize=CACHED_SETTINGS)
def reset_draws(setting: EnvironmentSetting) -> tuple[str, ...]:
    """Return the distributions that `reset` draws from, in order: "uniform" or "normal" for each random number."""
    draw = Draw()
    reset(draw, setting)
    return tuple(draw.distributions)


@lru_cache(maxsize=CACHED_SETTINGS)
def step_draws(setting: EnvironmentSetting) -> tuple[str, ...]:
    """Return the distributions that `step` draws from: those of the sensors."""
    draw = Draw()
    if setting.sensing is not None:
        step(templates(setting)[0], (0.0,) * setting.action_size, draw, setting)
    return tuple(draw.distributions)


def teammate_motions(states: Sequence[State]) -> list[tuple[TeammateMotion, ...]]:
    """Return for each drone of a team the motion of the others: from the next one on, cyclically."""
    motions = [TeammateMotion(state.p_W, state.v_W) for state in states]
    return [(*motions[k + 1 :], *motions[:k]) for k in range(len(motions))]


def _randomized_drone(parameters: Tree, setting: EnvironmentSetting) -> tuple[TrimmedDrone, Environment]:
    """Return the drone of an episode with its random parameters, and its environment."""
    if setting.randomization is None:
        return setting.drone, CALM
    return setting.randomization.apply(parameters, setting.drone)


def _observation(
    situation: Situation, episode: Episode, drone: TrimmedDrone, setting: EnvironmentSetting
) -> tuple[Scalar, ...]:
    actions = (episode.situation.action, *episode.past_actions)[: setting.history]
    return (*setting.task.observation(situation, drone), *chain(*actions))


# For trainers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepFunctions:
    """The functions that a step is composed of, for trainers that differentiate it through the stages of the integrator.

        o = observe(x),  a = π(o),  u = command(x, a),  ż = derivative(z, u, x),  x', r, terminated = conclude(z', x, a)

    x is an episode, z the vehicle's state in it. For one drone without sensors, which would draw random numbers at every
    step.
    """

    setting: EnvironmentSetting

    def __post_init__(self) -> None:
        task = self.setting.task
        if task.drones > 1:
            raise ValueError(f"task {task.name!r} is for a team of {task.drones}; this trainer takes one drone")
        if step_draws(self.setting):
            raise ValueError(
                "a setting with sensors draws random numbers at every step; this trainer takes one without"
            )

    def reset(self, numbers: Sequence[Scalar]) -> Episode:
        """Return an episode at its start, from its random numbers."""
        episode: Episode = reset(Draw(iter(numbers)), self.setting)[0]
        return episode

    def observe(self, episode: Episode) -> tuple[Scalar, ...]:
        """o(x)"""
        return observe(episode, self.setting)

    def step(
        self, episode: Episode, action: tuple[Scalar, ...], integrator: Integration = "rk4"
    ) -> tuple[Episode, Scalar, Scalar]:
        """x', r and whether the episode has ended."""
        return self.complete_step(advance_episode(episode, action, self.setting, integrator), episode, action)

    def command(self, episode: Episode, action: tuple[Scalar, ...]) -> Command:
        """u(x, a)"""
        drone, _ = _randomized_drone(episode.parameters, self.setting)
        delayed = delayed_action(episode, action, self.setting)
        command: Command = controller_stage(drone, self.setting.task)(delayed, episode.situation.state)[0]
        return command

    def derivative(self, state: State, command: Command, episode: Episode) -> State:
        """ż(z, u, x)"""
        drone, environment = _randomized_drone(episode.parameters, self.setting)
        return derivative(state, command, drone.vehicle, environment)

    def complete_step(
        self, state: State, episode: Episode, action: tuple[Scalar, ...]
    ) -> tuple[Episode, Scalar, Scalar]:
        """x', r and whether the episode has ended, after the physics has led to `state`."""
        next_episode, (_, reward, terminated) = complete_step(episode, action, state, Draw(), self.setting)
        return next_episode, reward, terminated

    def is_terminated(self, episode: Episode) -> Scalar:
        """Return whether an episode has ended."""
        return self.setting.task.termination(episode.situation, _randomized_drone(episode.parameters, self.setting)[0])

    def is_success(self, episode: Episode) -> Scalar:
        """Return whether an episode is successful; False if the task has no such condition."""
        return is_success(episode, self.setting) if self.setting.task.success is not None else False

    @property
    def draws(self) -> tuple[str, ...]:
        """The distributions that a reset draws from."""
        return reset_draws(self.setting)

    @cached_property
    def episode(self) -> Episode:
        """A template of an episode; `state` and `action` are templates, too."""
        episode: Episode = templates(self.setting)[0]
        return episode

    @property
    def state(self) -> State:
        return self.episode.situation.state

    @property
    def action(self) -> tuple[float, ...]:
        return (0.0,) * self.setting.action_size

    @property
    def size(self) -> int:
        """Count of leaves of an episode."""
        return len(flatten(self.episode))

    @cached_property
    def varying_leaves(self) -> tuple[int, ...]:
        """The leaves that change within an episode."""
        first = len(flatten(self.episode.situation))
        constant = len(flatten((self.episode.parameters, self.episode.delay)))
        return (*range(first), *range(first + constant, self.size))

    @cached_property
    def observation_size(self) -> int:
        """The size of an observation."""
        return len(templates(self.setting)[1])

    @property
    def substeps(self) -> int:
        return self.setting.task.substeps

    @property
    def dt(self) -> float:
        """Period of the physics updates  [s]."""
        return self.setting.task.period / self.substeps
