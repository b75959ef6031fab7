"""Several drones in one episode, who see each other: `start` and `step` for any task, of one drone or of a team.

A team's episode is a tuple of its drones' episodes. An action has the numbers of the first drone, then of the second, and so
on, and so has an observation; the reward is their mean, and the end of one is the end of all.
"""

from typing import Any

from samara.core.ops import logical_or
from samara.core.quantity import Scalar
from samara.learn import episode as alone
from samara.learn.advance import advance, cut
from samara.learn.episode import Episode, Seen, Setting
from samara.learn.task import Draw, Other, Situation


def start(draw: Draw, setting: Setting) -> tuple[Any, tuple[Scalar, ...]]:
    """The first moment of an episode, and what is seen of it"""
    if setting.task.drones == 1:
        return alone.start(draw, setting)
    team = tuple(alone.start(draw, own)[0] for own in each_of(setting))
    shown = [
        alone.observed(episode._replace(situation=seen), own)
        for episode, seen, own in zip(team, among(team), each_of(setting), strict=True)
    ]
    return team, tuple(number for own in shown for number in own)


def step(episode: Any, action: tuple[Scalar, ...], draw: Draw, setting: Setting) -> tuple[Any, Seen]:
    """One action of all drones: where it leads, and what is seen there"""
    if setting.task.drones == 1:
        return alone.step(episode, action, draw, setting)
    team, seen = step_apart(episode, action, setting)
    over = seen[0].terminated
    for own in seen[1:]:
        over = logical_or(over, own.terminated)
    reward = sum((own.reward for own in seen[1:]), seen[0].reward) / setting.task.drones
    return team, Seen(tuple(number for own in seen for number in own.observation), reward, over)


def step_apart(
    team: tuple[Episode, ...], action: tuple[Scalar, ...], setting: Setting
) -> tuple[tuple[Episode, ...], tuple[Seen, ...]]:
    """The same, with what each drone sees and gains. All move first, and are then seen where they are."""
    task, size = setting.task, setting.actions // setting.task.drones
    settings, moved = each_of(setting), []
    for k, (episode, own) in enumerate(zip(team, settings, strict=True)):
        given = action[k * size : (k + 1) * size]
        arrived, craft, environment = alone.acting(episode, given, own)
        before = episode.situation
        state = advance(before.state, arrived, craft, task, environment)
        after = Situation(state, before.goal, before.time + task.period, cut(given))
        past = (before.action, *episode.past)[: len(episode.past)]
        moved.append(episode._replace(situation=after, past=past))
    done, seen = [], []
    for earlier, episode, there, own in zip(team, moved, among(moved), settings, strict=True):
        craft = alone.acting(episode, there.action, own)[1]
        if task.progress is not None:
            there = there._replace(goal=task.progress(earlier.situation, there, craft))
        known = episode._replace(situation=there)
        done.append(episode._replace(situation=there._replace(others=())))
        reward, over = task.reward(there, craft), task.termination(there, craft)
        seen.append(Seen(alone.observed(known, own), reward, over))
    return tuple(done), tuple(seen)


def each_of(setting: Setting) -> tuple[Setting, ...]:
    """The setting of every drone, which differs in its number, and in nothing else"""
    one = setting.task._replace(drones=1)
    numbers = range(setting.task.drones)
    return tuple(setting._replace(task=one, craft=setting.craft._replace(number=k)) for k in numbers)


def among(team: Any) -> list[Situation]:
    """The situation of each drone, with the others in it: from the next one on, around to the one before"""
    places = [Other(episode.situation.state.p_W, episode.situation.state.v_W) for episode in team]
    return [episode.situation._replace(others=(*places[k + 1 :], *places[:k])) for k, episode in enumerate(team)]


def kinds_at_start(setting: Setting) -> tuple[str, ...]:
    """What `start` draws, in its order: "uniform" or "normal" for each number"""
    draw = Draw()
    start(draw, setting)
    return tuple(draw.kinds)


def kinds_at_step(setting: Setting) -> tuple[str, ...]:
    """What `step` draws; a team draws nothing"""
    return alone.kinds_at_step(setting) if setting.task.drones == 1 else ()
