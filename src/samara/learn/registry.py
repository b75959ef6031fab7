"""Tasks by name, and of one's own: a Python file with four functions."""

from importlib import import_module, util
from pathlib import Path
from typing import Any

from samara.control.observation import OBSERVATIONS
from samara.learn.actions import ACTIONS
from samara.learn.task import Task

BLIND = ("hover", "recover", "track", "race", "land", "formation", "universal")
"""Tasks without images, which every environment and every trainer takes"""
SHIPPED = (*BLIND, "navigate")


def load_task(name: str | Path | Task) -> Task:
    """A task that comes with Samara, by its name, or the one of a Python file, which is run: give only what you trust

    The file has functions `reset`, `observation`, `reward` and `termination`; `progress`, `success`, `practice` and the
    constants `PERIOD`, `SUBSTEPS`, `SECONDS`, `ACTION` and `DRONES` where it wants them; or it has a `TASK` of
    `samara.learn.task.Task`.
    """
    if isinstance(name, Task):
        return name
    if name in SHIPPED:
        return task_of(import_module(f"samara.learn.tasks.{name}"), str(name), str(name))
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"no task {str(name)!r}; expected one of {', '.join(SHIPPED)}, or a Python file with one")
    spec = util.spec_from_file_location(f"task_{path.stem}", path)
    assert spec is not None and spec.loader is not None, path
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return task_of(module, path.stem, str(path))


def task_of(module: Any, name: str, where: str) -> Task:
    """The task whose functions a module has, or its `TASK`"""
    if isinstance(getattr(module, "TASK", None), Task):
        return checked(module.TASK, where)
    needed = ("reset", "observation", "reward", "termination")
    for each in needed:
        if not callable(getattr(module, each, None)):
            raise ValueError(f"{where}: {each} is missing; a task has functions {', '.join(needed)}")
    given = {
        each: getattr(module, each) for each in (*needed, "progress", "success", "practice") if hasattr(module, each)
    }
    constants = ("period", "substeps", "seconds", "action", "sees", "drones")
    given |= {each: getattr(module, each.upper()) for each in constants if hasattr(module, each.upper())}
    return checked(Task(name, **given), where)


def checked(task: Task, where: str) -> Task:
    """The task, or a sentence about what does not fit"""
    for field, value in (("PERIOD", task.period), ("SECONDS", task.seconds)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1e9:
            raise ValueError(f"{where}: {field} = {value!r}; expected a positive number of seconds")
    for field, count in (("SUBSTEPS", task.substeps), ("DRONES", task.drones)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1000:
            raise ValueError(f"{where}: {field} = {count!r}; expected a whole number from 1 to 1000")
    if task.sees not in ("", *OBSERVATIONS):
        raise ValueError(f"{where}: SEES = {task.sees!r}; expected one of {', '.join(OBSERVATIONS)}")
    if task.action not in ACTIONS:
        raise ValueError(f"{where}: ACTION = {task.action!r}; expected one of {', '.join(ACTIONS)}")
    return task
