"""Learning tasks: the bundled ones, each a module of pure functions, and those of your own Python files."""

from importlib import import_module, util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from samara.control.action_space import ACTION_SPACES
from samara.control.observation import OBSERVATIONS
from samara.core.lazy_import import lazy_exports
from samara.core.sanitise import suggest_closest
from samara.learn.task import Draw, Situation, Task, TrimmedDrone, observe, trim_drone

if TYPE_CHECKING:
    from samara.learn.tasks.formation import formation_task
    from samara.learn.tasks.navigate import navigation_task
    from samara.learn.tasks.race import race_task
    from samara.learn.tasks.track import tracking_task
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "SHIPPED",
    "Draw",
    "Situation",
    "Task",
    "TrimmedDrone",
    "formation_task",
    "load_task",
    "navigation_task",
    "observe",
    "race_task",
    "tracking_task",
    "trim_drone",
]

IMAGE_FREE_TASKS = ("hover", "recover", "track", "race", "land", "formation", "universal")
"""Tasks without images, which every environment and every trainer accepts."""
SHIPPED = (*IMAGE_FREE_TASKS, "navigate")
REQUIRED, OPTIONAL = ("reset", "observation", "reward", "termination"), ("progress", "success", "practice")
CONSTANTS = {
    **{name.upper(): name for name in ("period", "substeps", "seconds", "action", "drones")},
    "OBSERVATION": "observation_name",
}
"""Fields of a task by the constant of its file."""


def load_task(name: str | Path | Task) -> Task:
    """Load a bundled task by name, or the task of a Python file, which is executed: load only files you trust.

    The file defines the functions `reset`, `observation`, `reward` and `termination`, optionally `progress`, `success`,
    `practice` and the constants `PERIOD`, `SUBSTEPS`, `SECONDS`, `ACTION`, `OBSERVATION` and `DRONES`; or it defines a `TASK`.
    """
    if isinstance(name, Task):
        return name
    if name in SHIPPED:
        return _build_task(import_module(f"samara.learn.tasks.{name}"), str(name), str(name))
    path = Path(name)
    if path.suffix != ".py" or not path.is_file():
        hint = suggest_closest(str(name), SHIPPED)
        raise ValueError(
            f"no task {str(name)!r}; expected one of {', '.join(SHIPPED)}, or a Python file with one{hint}"
        )
    spec = util.spec_from_file_location(f"task_{path.stem}", path)
    assert spec is not None and spec.loader is not None, path
    module = util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}: does not run ({type(error).__name__}: {error})") from error
    return _build_task(module, path.stem, str(path))


def _build_task(module: ModuleType, name: str, origin: str) -> Task:
    """Build a task from the functions and constants of a module."""
    if isinstance(getattr(module, "TASK", None), Task):
        return check_task(module.TASK, origin)
    for function in REQUIRED:
        if not callable(getattr(module, function, None)):
            raise ValueError(f"{origin}: {function} is missing; a task has functions {', '.join(REQUIRED)}")
    functions = {field: getattr(module, field) for field in (*REQUIRED, *OPTIONAL) if hasattr(module, field)}
    constants = {field: getattr(module, name) for name, field in CONSTANTS.items() if hasattr(module, name)}
    return check_task(Task(name, **functions, **constants), origin)


def check_task(task: Task, origin: str) -> Task:
    """Return the task; raise ValueError if one of its fields is out of range."""
    for field, value in (("PERIOD", task.period), ("SECONDS", task.seconds)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1e9:
            raise ValueError(f"{origin}: {field} = {value!r}; expected a positive number of seconds")
    for field, count in (("SUBSTEPS", task.substeps), ("DRONES", task.drones)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1000:
            raise ValueError(f"{origin}: {field} = {count!r}; expected a whole number from 1 to 1000")
    if task.observation_name not in ("", *OBSERVATIONS):
        raise ValueError(
            f"{origin}: OBSERVATION = {task.observation_name!r}; expected one of {', '.join(OBSERVATIONS)}"
        )
    if task.action not in ACTION_SPACES:
        raise ValueError(f"{origin}: ACTION = {task.action!r}; expected one of {', '.join(ACTION_SPACES)}")
    return task
