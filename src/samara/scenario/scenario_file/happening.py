"""`[[events]]` of a scenario: what happens, and when."""

from collections.abc import Callable
from inspect import isfunction, signature
from typing import Any

from samara.core.argument import UnfitError, argument
from samara.core.toml import Table
from samara.scenario import events
from samara.scenario.events import Event
from samara.scenario.scenario import Drone
from samara.scenario.scenario_file.tasks import task_anywhere

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
