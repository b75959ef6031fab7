"""The setting of an environment, from what a user writes."""

from functools import partial
from typing import Any

from samara.control.observation import OBSERVATIONS
from samara.learn.episode import Randomization, Sensing, Setting
from samara.learn.observations import observed_as
from samara.learn.registry import checked, load_task
from samara.learn.task import Task, craft_for
from samara.physics.types import Vehicle

CHANGES = ("seconds", "period", "substeps", "action")
AT_REST = ("hover", "recover")  # tasks that rest at the origin, of which an observation by name shows all there is


def setting_for(
    task: Task | str,
    vehicle: Vehicle | str,
    randomization: Randomization | None = None,
    sensing: Sensing | None = None,
    history: int = 0,
    delay: int | tuple[int, int] = 0,
    sees: str | None = None,
    **changes: Any,
) -> Setting:
    """A task by name, file or itself, with other `seconds`, `period`, `substeps` or `action`; a vehicle by name or itself

    `sees` is another observation of `samara.control.observation`, for tasks that come to rest at the origin.
    """
    own = load_task(task)
    for name in changes:
        if name not in CHANGES:
            raise TypeError(f"a task has no {name!r} to change; expected some of {', '.join(CHANGES)}")
    if sees is not None:
        if own.name not in AT_REST or sees not in OBSERVATIONS:
            raise ValueError(
                f"task {own.name!r} is to see {sees!r}; expected one of {', '.join(AT_REST)}, and of {', '.join(OBSERVATIONS)}"
            )
        own = own._replace(observation=partial(observed_as, sees), sees=sees)
    own = checked(own._replace(**changes), f"task {own.name!r}")
    least, most = (delay, delay) if isinstance(delay, int) else delay
    for name, value, low in (("history", history, 0), ("delay", least, 0), ("delay", most, least)):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 1000:
            raise ValueError(f"{name} is {value!r}; expected a whole number from {low} to 1000")
    if sensing is not None and own.drones > 1:
        raise ValueError(f"task {own.name!r} is for {own.drones} drones; sensing is for tasks with one")
    return Setting(own, craft_for(vehicle), randomization or own.randomization, sensing, history, (least, most))
