"""The configuration of an environment: a task, a vehicle, and the randomization, sensors and delays between them."""

from functools import partial
from typing import NamedTuple, Protocol, TypedDict, Unpack

from samara.control.action_space import ACTION_SPACES
from samara.control.observation import OBSERVATIONS
from samara.learn.task import Draw, Situation, Task, Tree, TrimmedDrone, observe, trim_drone
from samara.learn.tasks import check_task, load_task
from samara.learn.vehicle_scaling import physics_substeps
from samara.physics.types import Environment, State, Vehicle

REST_TASKS = ("hover", "recover")  # tasks with the goal of rest at the origin, which every named observation describes


class Randomization(Protocol):
    """Random vehicle parameters: the draw at the start of an episode, and the vehicle and environment it gives."""

    def draw(self, draw: Draw, drone: TrimmedDrone) -> Tree: ...

    def apply(self, parameters: Tree, drone: TrimmedDrone) -> tuple[TrimmedDrone, Environment]: ...


class SensorPipeline(Protocol):
    """Sensors and an estimator between the state and the policy: their state, and the estimate that the task observes."""

    def initial(self, draw: Draw, state: State, drone: TrimmedDrone) -> Tree: ...

    def update(
        self, draw: Draw, sensing_state: Tree, situation: Situation, drone: TrimmedDrone, environment: Environment
    ) -> tuple[State, Tree]: ...


class EnvironmentSetting(NamedTuple):
    """A task, a vehicle, and the randomization, sensors and delays between them.

    The last `history` actions, the newest first, are appended to the observation. An action takes effect after `delay`
    periods: an integer from the first to the second is drawn for each episode.
    """

    task: Task
    drone: TrimmedDrone
    randomization: Randomization | None = None
    sensing: SensorPipeline | None = None
    history: int = 0
    delay: tuple[int, int] = (0, 0)

    @property
    def action_size(self) -> int:
        """Size of an action; for a team, of the actions of all drones."""
        return ACTION_SPACES[self.task.action].size(self.drone.vehicle) * self.task.drones


class TaskChanges(TypedDict, total=False):
    """Fields of a task that an environment may change."""

    seconds: float
    period: float
    substeps: int
    action: str


class SettingOptions(TaskChanges, total=False):
    """The options of every environment."""

    randomization: Randomization | None
    sensing: SensorPipeline | None
    history: int
    delay: int | tuple[int, int]


def configure_environment(
    task: Task | str,
    vehicle: Vehicle | str,
    randomization: Randomization | None = None,
    sensing: SensorPipeline | None = None,
    history: int = 0,
    delay: int | tuple[int, int] = 0,
    observation_name: str | None = None,
    **changes: Unpack[TaskChanges],
) -> EnvironmentSetting:
    """Configure a task for a vehicle.

    Args:
        task: a name, a file or a `Task`.
        vehicle: a vehicle, or the name of a shipped vehicle or file.
        randomization: random vehicle parameters; default: those of the task.
        sensing: sensors and an estimator between the state and the policy; None observes the state.
        history: count of past actions appended to the observation.
        delay: delay of actions [periods], or the range it is drawn from in each episode.
        observation_name: another observation of `samara.control.observation`, for tasks with the goal of rest at the origin.
        changes: other `seconds`, `period`, `substeps` or `action` of the task. By default `substeps` is larger than the task's
            if a motor of the vehicle is faster than a physics step.
    """
    base_task = load_task(task)
    for name in changes:
        if name not in TaskChanges.__annotations__:
            expected = ", ".join(TaskChanges.__annotations__)
            raise TypeError(f"a task has no {name!r} to change; expected some of {expected}")
    if observation_name is not None:
        if base_task.name not in REST_TASKS or observation_name not in OBSERVATIONS:
            expected = f"one of {', '.join(REST_TASKS)}, and of {', '.join(OBSERVATIONS)}"
            raise ValueError(f"task {base_task.name!r} with the observation {observation_name!r}; expected {expected}")
        base_task = base_task._replace(
            observation=partial(observe, observation_name), observation_name=observation_name
        )
    base_task = check_task(base_task._replace(**changes), f"task {base_task.name!r}")
    drone = trim_drone(vehicle)
    if "substeps" not in changes:
        base_task = base_task._replace(substeps=max(base_task.substeps, physics_substeps(drone, base_task.period)))
    shortest, longest = (delay, delay) if isinstance(delay, int) else delay
    for name, value, low in (("history", history, 0), ("delay", shortest, 0), ("delay", longest, shortest)):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 1000:
            raise ValueError(f"{name} is {value!r}; expected a whole number from {low} to 1000")
    if sensing is not None and base_task.drones > 1:
        raise ValueError(f"task {base_task.name!r} is for {base_task.drones} drones; sensing is for tasks with one")
    return EnvironmentSetting(
        base_task, drone, randomization or base_task.randomization, sensing, history, (shortest, longest)
    )


def drone_settings(setting: EnvironmentSetting) -> tuple[EnvironmentSetting, ...]:
    """Return the setting of each drone of a team; they differ in the drone's index."""
    task, drones = setting.task._replace(drones=1), range(setting.task.drones)
    return tuple(setting._replace(task=task, drone=setting.drone._replace(team_index=k)) for k in drones)


def require_no_images(setting: EnvironmentSetting) -> None:
    """Raise ValueError for a task whose camera's images only environments return."""
    if setting.task.camera is not None:
        raise ValueError(
            f"task {setting.task.name!r} observes the images of a camera, which environments return and trainers do not; "
            "expected a task without a camera"
        )


def require_no_camera(setting: EnvironmentSetting) -> None:
    """Raise ValueError for a task with a depth camera, whose images only the gradient trainer in JAX renders."""
    if setting.task.depth_observation is not None:
        raise ValueError(
            f"task {setting.task.name!r} observes images of a depth camera, which only training by gradient in JAX renders; "
            "expected a task without a camera"
        )
