"""The setting of an environment, from what a user writes."""

from typing import Any

from samara.learn.episode import Randomization, Sensing, Setting
from samara.learn.load import checked, load_task
from samara.learn.task import Task, craft_for
from samara.physics.types import Vehicle

CHANGES = ("seconds", "period", "substeps", "action")


def setting_for(
    task: Task | str,
    vehicle: Vehicle | str,
    randomization: Randomization | None = None,
    sensing: Sensing | None = None,
    history: int = 0,
    delay: int | tuple[int, int] = 0,
    **changes: Any,
) -> Setting:
    """A task by name, file or itself, with other `seconds`, `period`, `substeps` or `action`; a vehicle by name or itself"""
    own = load_task(task)
    for name in changes:
        if name not in CHANGES:
            raise TypeError(f"a task has no {name!r} to change; expected some of {', '.join(CHANGES)}")
    own = checked(own._replace(**changes), f"task {own.name!r}")
    least, most = (delay, delay) if isinstance(delay, int) else delay
    for name, value, low in (("history", history, 0), ("delay", least, 0), ("delay", most, least)):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 1000:
            raise ValueError(f"{name} is {value!r}; expected a whole number from {low} to 1000")
    if sensing is not None and own.drones > 1:
        raise ValueError(f"task {own.name!r} is for {own.drones} drones; sensing is for tasks with one")
    return Setting(own, craft_for(vehicle), randomization or own.randomization, sensing, history, (least, most))
