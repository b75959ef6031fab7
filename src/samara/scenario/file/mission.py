"""What drones do and what happens: `[[drones.tasks]]` and `[[events]]` of a scenario.

A table of a task becomes a call: `kind = "circle"` calls `samara.plan.trajectory.circle` with the other keys as arguments.
"""

import math
from collections.abc import Callable
from inspect import isfunction, signature
from typing import Any

from samara.core.algebra import Vec3, norm
from samara.core.coerce import UnfitError, argument
from samara.core.toml import Table
from samara.plan import trajectory
from samara.plan.trajectory import Trajectory
from samara.scenario import events
from samara.scenario.events import Event
from samara.scenario.scenario import Drone

TRANSFER_SPEED = 1.5  # [m/s], from where one task ends to where the next begins
MOST_POINTS = {"points": 5000, "gates": 300}  # a race takes time that grows with their square
TASKS: dict[str, Callable[..., Trajectory]] = {
    "hover": trajectory.hover,
    "waypoints": trajectory.waypoints,
    "line": trajectory.line,
    "take_off": trajectory.take_off,
    "land": trajectory.land,
    "circle": trajectory.circle,
    "helix": trajectory.helix,
    "figure8": trajectory.figure8,
    "lissajous": trajectory.lissajous,
    "race": trajectory.race,
}


def read_tasks(tables: list[Table], start: Vec3, yaw: float) -> Trajectory:
    """One task after the other, each from where the one before ended, then hover; without any, hover at the start"""
    parts = task_parts(tables, start, yaw)
    if not parts:
        return trajectory.hover(start, yaw=yaw)
    last = parts[-1]
    if last.duration == math.inf:
        return _in_a_row(parts)
    end = last.at(last.duration)
    here = Vec3(*(float(x) for x in end.p_W))
    return _in_a_row([*parts, trajectory.hover(here, yaw=float(end.yaw))])


def task_parts(tables: list[Table], start: Vec3, yaw: float) -> list[Trajectory]:
    """The tasks one by one, and the ways between them; only the last may have no end"""
    parts: list[Trajectory] = []
    here = start
    for table in tables:
        kind = table.text("kind", choices=TASKS)
        if "yaw_deg" not in table.entries and "yaw" in signature(TASKS[kind]).parameters and "yaw" not in table.entries:
            table.entries["yaw"] = yaw
        part = _task(table, kind, here)
        first = Vec3(*(float(x) for x in part.at(0.0).p_W))
        if norm(first - here) > 1e-6:
            parts.append(trajectory.waypoints((here, first), speed=TRANSFER_SPEED, yaw=float(part.at(0.0).yaw)))
        parts.append(part)
        if part.duration == math.inf:
            if table is not tables[-1]:
                raise table.wrong(" never ends; expected a duration, or it to be the last")
            return parts
        here = Vec3(*(float(x) for x in part.at(part.duration).p_W))
    return parts


def _in_a_row(parts: list[Trajectory]) -> Trajectory:
    return parts[0] if len(parts) == 1 else trajectory.sequence(*parts)


def _task(table: Table, kind: str, here: Vec3) -> Trajectory:
    parameters = signature(TASKS[kind]).parameters
    given: dict[str, object] = {}
    if "start_W" in parameters:
        given["start_W"] = here
    if kind == "hover":
        given["p_W"] = table.vector("at") if "at" in table else here
    if kind == "line":
        given["end_W"] = table.vector("to")
    if "centre_W" in parameters:
        given["centre_W"] = table.vector("centre")
    for key in ("points", "gates"):
        if key in parameters:
            given[key] = _points(table, key, here, with_start=key == "points")
    made: Trajectory = table.call(TASKS[kind], **given)
    return made


def task_anywhere(table: Table) -> Trajectory:
    """A task that says itself where it begins, for a drone that may be anywhere"""
    kind = table.text(
        "kind", choices=[kind for kind, maker in TASKS.items() if "start_W" not in signature(maker).parameters]
    )
    if kind == "hover" and "at" not in table:
        raise table.missing("at", "three finite numbers")
    if kind == "waypoints":
        points = _points(table, "points", Vec3(math.inf, 0.0, 0.0), with_start=False)
        made: Trajectory = table.call(TASKS[kind], points=points)
        return made
    return _task(table, kind, Vec3(0.0, 0.0, 0.0))


def _points(table: Table, key: str, here: Vec3, *, with_start: bool) -> list[Vec3]:
    expected = f"a list of points of three numbers, at most {MOST_POINTS[key]}"
    value = table.take(key, expected)
    if not isinstance(value, list) or not 0 < len(value) <= MOST_POINTS[key]:
        raise table.error(key, value, expected)
    points = [table.three(key, each, i) for i, each in enumerate(value)]
    return [here, *points] if with_start and norm(points[0] - here) > 1e-9 else points


TRIGGERS: dict[str, tuple[type, Callable[..., Any]]] = {
    "at": (float, lambda time, drone: events.at(time)),
    "at_step": (int, lambda step, drone: events.at_step(step)),
    "when": (str, events.when),
}
ACTIONS: dict[str, Callable[..., Any]] = {  # every function of `events` that makes an action of plain values
    name: own
    for name, own in vars(events).items()
    if isfunction(own) and own.__annotations__.get("return") == events.Action and not name.startswith("_")
}
del ACTIONS["follow"]  # it takes a task


def read_event(table: Table, drones: tuple[Drone, ...]) -> Event:
    """`do = "go_to"` calls `events.go_to` with the table's other keys; `do = "follow"` has a task of its own"""
    given = [key for key in TRIGGERS if key in table]
    if len(given) != 1:
        raise table.wrong(f" has {' and '.join(given) or 'no time'}; expected one of {', '.join(TRIGGERS)}")
    key, value = given[0], table.entries.pop(given[0])
    name = table.text("drone", "")
    if name and name not in [own.name for own in drones]:
        raise table.error("drone", name, f"one of {', '.join(own.name for own in drones[:20])}")
    kind_of_value, trigger_of = TRIGGERS[key]
    try:
        value = argument(value, kind_of_value)
    except UnfitError as error:
        raise table.error(key, value, str(error)) from None
    with table.at(key):
        trigger = trigger_of(value, name)
    kind = table.text("do", choices=(*ACTIONS, "follow"))
    label = table.text("name", "")
    if kind == "follow":
        task = table.table("task")
        table.finish()
        return Event(trigger, events.follow(task_anywhere(task), name), label)
    maker = ACTIONS[kind]
    return Event(
        trigger, table.call(maker, **({"drone": name} if "drone" in signature(maker).parameters else {})), label
    )
