"""Tasks and events: `[[drones.tasks]]` and `[[events]]` of a scenario.

A task's table becomes a call: `type = "circle"` calls `samara.plan.trajectory.circle` with the other keys as arguments.
"""

import math
from collections.abc import Callable
from inspect import isfunction, signature
from typing import Any

from samara.core.algebra import Vec3, norm
from samara.core.coerce import InvalidValueError, coerce_argument
from samara.core.toml import TomlTable
from samara.plan import trajectory
from samara.plan.trajectory import Trajectory
from samara.scenario import events
from samara.scenario.events import Event
from samara.scenario.scenario import Drone

TRANSFER_SPEED = 1.5  # [m/s], from the end of one task to the start of the next
MAX_POINTS = {"points": 5000, "gates": 300}  # the planning time of a race grows with the square of the gates
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


def read_tasks(tables: list[TomlTable], start: Vec3, yaw: float) -> Trajectory:
    """Read tasks in sequence, each from the end of the previous one, then hover; without tasks, hover at the start."""
    parts = task_parts(tables, start, yaw)
    if not parts:
        return trajectory.hover(start, yaw=yaw)
    last = parts[-1]
    if last.duration == math.inf:
        return _join_tasks(parts)
    end = last.evaluate(last.duration)
    end_W = Vec3(*(float(x) for x in end.p_W))
    return _join_tasks([*parts, trajectory.hover(end_W, yaw=float(end.yaw))])


def task_parts(tables: list[TomlTable], start: Vec3, yaw: float) -> list[Trajectory]:
    """Return the tasks and the transfers between them; only the last may be endless."""
    parts: list[Trajectory] = []
    position = start
    for table in tables:
        task_type = table.text("type", choices=TASKS)
        if (
            "yaw_deg" not in table.entries
            and "yaw" in signature(TASKS[task_type]).parameters
            and "yaw" not in table.entries
        ):
            table.entries["yaw"] = yaw
        part = _task(table, task_type, position)
        first_W = Vec3(*(float(x) for x in part.evaluate(0.0).p_W))
        if norm(first_W - position) > 1e-6:
            parts.append(
                trajectory.waypoints((position, first_W), speed=TRANSFER_SPEED, yaw=float(part.evaluate(0.0).yaw))
            )
        parts.append(part)
        if part.duration == math.inf:
            if table is not tables[-1]:
                raise table.make_error(" never ends; expected a duration, or it to be the last")
            return parts
        position = Vec3(*(float(x) for x in part.evaluate(part.duration).p_W))
    return parts


def _join_tasks(parts: list[Trajectory]) -> Trajectory:
    return parts[0] if len(parts) == 1 else trajectory.sequence(*parts)


def _task(table: TomlTable, task_type: str, position: Vec3) -> Trajectory:
    parameters = signature(TASKS[task_type]).parameters
    arguments: dict[str, object] = {}
    if "start_W" in parameters:
        arguments["start_W"] = position
    if task_type == "hover":
        arguments["p_W"] = table.vector("at") if "at" in table else position
    if task_type == "line":
        arguments["end_W"] = table.vector("to")
    if "centre_W" in parameters:
        arguments["centre_W"] = table.vector("centre")
    for key in ("points", "gates"):
        if key in parameters:
            arguments[key] = _points(table, key, position, with_start=key == "points")
    task: Trajectory = table.call(TASKS[task_type], **arguments)
    return task


def read_absolute_task(table: TomlTable) -> Trajectory:
    """Read a task that determines its own start, for a drone at any position."""
    task_type = table.text(
        "type", choices=[name for name, factory in TASKS.items() if "start_W" not in signature(factory).parameters]
    )
    if task_type == "hover" and "at" not in table:
        raise table.missing_error("at", "three finite numbers")
    if task_type == "waypoints":
        points = _points(table, "points", Vec3(math.inf, 0.0, 0.0), with_start=False)
        task: Trajectory = table.call(TASKS[task_type], points=points)
        return task
    return _task(table, task_type, Vec3(0.0, 0.0, 0.0))


def _points(table: TomlTable, key: str, position: Vec3, *, with_start: bool) -> list[Vec3]:
    expected = f"a list of points of three numbers, at most {MAX_POINTS[key]}"
    value = table.take(key, expected)
    if not isinstance(value, list) or not 0 < len(value) <= MAX_POINTS[key]:
        raise table.error(key, value, expected)
    points = [table.parse_vector(key, point, i) for i, point in enumerate(value)]
    return [position, *points] if with_start and norm(points[0] - position) > 1e-9 else points


TRIGGERS: dict[str, tuple[type, Callable[..., Any]]] = {
    "at": (float, lambda time, drone: events.at(time)),
    "at_step": (int, lambda step, drone: events.at_step(step)),
    "when": (str, events.when),
}
ACTIONS: dict[str, Callable[..., Any]] = {  # every function of `events` that creates an action from plain values
    name: function
    for name, function in vars(events).items()
    if isfunction(function)
    and function.__annotations__.get("return") == events.EventAction
    and not name.startswith("_")
}
del ACTIONS["follow"]  # its argument is a task, not a plain value


def read_event(table: TomlTable, drones: tuple[Drone, ...]) -> Event:
    """Read an event: `do = "go_to"` calls `events.go_to` with the table's other keys; `do = "follow"` has a task table."""
    triggers = [key for key in TRIGGERS if key in table]
    if len(triggers) != 1:
        raise table.make_error(f" has {' and '.join(triggers) or 'no time'}; expected one of {', '.join(TRIGGERS)}")
    key, value = triggers[0], table.entries.pop(triggers[0])
    name = table.text("drone", "")
    if name and name not in [drone.name for drone in drones]:
        raise table.error("drone", name, f"one of {', '.join(drone.name for drone in drones[:20])}")
    value_type, create_trigger = TRIGGERS[key]
    try:
        value = coerce_argument(value, value_type)
    except InvalidValueError as error:
        raise table.error(key, value, str(error)) from None
    with table.error_context(key):
        trigger = create_trigger(value, name)
    action = table.text("do", choices=(*ACTIONS, "follow"))
    label = table.text("name", "")
    if action == "follow":
        task = table.table("task")
        table.finish()
        return Event(trigger, events.follow(read_absolute_task(task), name), label)
    factory = ACTIONS[action]
    return Event(
        trigger, table.call(factory, **({"drone": name} if "drone" in signature(factory).parameters else {})), label
    )
