"""An episode with all that lies around a task: vehicles drawn at random, late actions, sensors between drone and policy.

Pure functions of scalars again: the environments, on the CPU and in JAX, are `start` and `step` compiled.
"""

from typing import Any, NamedTuple, Protocol

from samara.core.ops import floor, where
from samara.core.quantity import Scalar
from samara.learn.actions import ACTIONS
from samara.learn.advance import Integrate, begin, by_rk4, cut, proceed
from samara.learn.task import Craft, Draw, Situation, Task
from samara.physics.types import CALM, Environment, State


class Randomization(Protocol):
    """Vehicles of their own: what is drawn at the start of an episode, and the craft and surroundings made of it."""

    def draw(self, draw: Draw, craft: Craft) -> Any: ...

    def apply(self, drawn: Any, craft: Craft) -> tuple[Craft, Environment]: ...


class Sensing(Protocol):
    """What stands between the state and the policy: what it remembers, and the state that it makes the policy believe in."""

    def begin(self, draw: Draw, state: State, craft: Craft) -> Any: ...

    def update(
        self, draw: Draw, memory: Any, situation: Situation, craft: Craft, environment: Environment
    ) -> tuple[State, Any]: ...


class Setting(NamedTuple):
    """A task, a craft, and what is between them: `history` is how many actions are seen again after the observation, newest
    first; an action arrives `delay` periods late, from the least to the most, drawn for each episode."""

    task: Task
    craft: Craft
    randomization: Randomization | None = None
    sensing: Sensing | None = None
    history: int = 0
    delay: tuple[int, int] = (0, 0)

    @property
    def actions(self) -> int:
        """Numbers in an action; of a team, in those of all"""
        return ACTIONS[self.task.action].size(self.craft.vehicle) * self.task.drones


class Episode(NamedTuple):
    """What is carried from one action to the next: the situation; what was drawn of the vehicle; by how many periods actions
    are late; those before the last, newest first; what the sensors remember, and the state they tell."""

    situation: Situation
    drawn: Any = ()
    late: Any = ()
    past: tuple[tuple[Scalar, ...], ...] = ()
    memory: Any = ()


class Seen(NamedTuple):
    """What comes of a step, for a learner"""

    observation: tuple[Scalar, ...]
    reward: Scalar
    terminated: Any


def start(draw: Draw, setting: Setting) -> tuple[Episode, tuple[Scalar, ...]]:
    """The first moment of an episode, and what is seen of it"""
    task, craft, randomization, sensing, history, (least, most) = setting
    drawn = randomization.draw(draw, craft) if randomization else ()
    craft, environment = _own(drawn, setting)
    late = floor(draw.uniform(least, most + 1.0)) if most > least else ()
    situation = begin(draw, craft, task)
    past = (situation.action,) * (max(history, most) - 1)
    episode = Episode(situation, drawn, late, past)
    if sensing is None:
        return episode, _observation(situation, episode, craft, setting)
    told, memory = sensing.update(draw, sensing.begin(draw, situation.state, craft), situation, craft, environment)
    episode = episode._replace(memory=memory)
    return episode, _observation(situation._replace(state=told), episode, craft, setting)


def step(
    episode: Episode, action: tuple[Scalar, ...], draw: Draw, setting: Setting, integrate: Integrate = by_rk4
) -> tuple[Episode, Seen]:
    """One action: where it leads, and what is seen there"""
    arrived, craft, environment = acting(episode, action, setting)
    after, reward, terminated = proceed(episode.situation, action, craft, setting.task, environment, arrived, integrate)
    past = (episode.situation.action, *episode.past)[: len(episode.past)]
    episode = episode._replace(situation=after, past=past)
    if setting.sensing is None:
        return episode, Seen(_observation(after, episode, craft, setting), reward, terminated)
    told, memory = setting.sensing.update(draw, episode.memory, after, craft, environment)
    episode = episode._replace(memory=memory)
    return episode, Seen(_observation(after._replace(state=told), episode, craft, setting), reward, terminated)


def acting(
    episode: Episode, action: tuple[Scalar, ...], setting: Setting
) -> tuple[tuple[Scalar, ...], Craft, Environment]:
    """The action that the vehicle gets, so many periods old, and what gets it where"""
    least, most = setting.delay
    candidates = (cut(action), episode.situation.action, *episode.past)
    arrived = candidates[least]
    for age in range(least + 1, most + 1):
        arrived = tuple(
            where(episode.late > age - 0.5, old, new) for old, new in zip(candidates[age], arrived, strict=True)
        )
    return arrived, *_own(episode.drawn, setting)


def observed(episode: Episode, setting: Setting) -> tuple[Scalar, ...]:
    """What is seen of an episode as it stands, without sensors between"""
    return _observation(episode.situation, episode, _own(episode.drawn, setting)[0], setting)


def over(episode: Episode, setting: Setting) -> Any:
    """Whether an episode has come to its end, as its task says"""
    return setting.task.termination(episode.situation, _own(episode.drawn, setting)[0])


def succeeded(episode: Episode, setting: Setting) -> Any:
    """Whether its task is done, by what the task calls success"""
    if setting.task.success is None:
        raise ValueError(f"task {setting.task.name!r} does not say what success is: it has no function `success`")
    return setting.task.success(episode.situation, _own(episode.drawn, setting)[0])


def require_blind(setting: Setting) -> None:
    """ValueError where a task shows pictures, which only the learner by gradients in JAX takes"""
    if setting.task.sight is not None:
        raise ValueError(
            f"task {setting.task.name!r} shows pictures of a depth camera, which are taken by samara.learn.analytic and "
            "samara.learn.judge alone; expected a task without"
        )


def kinds_at_start(setting: Setting) -> tuple[str, ...]:
    """What `start` draws, in its order: "uniform" or "normal" for each number"""
    draw = Draw()
    start(draw, setting)
    return tuple(draw.kinds)


def kinds_at_step(setting: Setting) -> tuple[str, ...]:
    """What `step` draws"""
    episode, _ = start(Draw(), setting)
    draw = Draw()
    step(episode, episode.situation.action, draw, setting)
    return tuple(draw.kinds)


def _own(drawn: Any, setting: Setting) -> tuple[Craft, Environment]:
    if setting.randomization is None:
        return setting.craft, CALM
    return setting.randomization.apply(drawn, setting.craft)


def _observation(situation: Situation, episode: Episode, craft: Craft, setting: Setting) -> tuple[Scalar, ...]:
    actions = (episode.situation.action, *episode.past)[: setting.history]
    return (*setting.task.observation(situation, craft), *(a for action in actions for a in action))
