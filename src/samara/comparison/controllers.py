"""`samara.compare`: controllers on the same scenario, vehicle and wind: errors, effort and computing time."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.control.policy_file import Policy
from samara.control.registry import CONTROLLERS, ControllerSpec, controller_name
from samara.core.algebra import Vec3, norm
from samara.core.lazy_import import present
from samara.physics.air.drag import drag_force
from samara.physics.types import Vehicle
from samara.plan import trajectory
from samara.plan.trajectory import Trajectory
from samara.record.metrics.recorded import array_sum, tracking_rows
from samara.record.run import Run
from samara.scenario.changes import (
    Changes,
    ControllerChoice,
    LoadedController,
    SensorChoice,
    VehicleChoice,
    WindChoice,
    change_scenario,
    load_controller,
    trained_vehicle,
)
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.sim.references import references_ahead
from samara.sim.simulation import Simulation
from samara.vehicles.effects import EffectOption
from samara.vehicles.trim import thrust_to_weight

TRAJECTORY_HEIGHT = 3.0  # [m]
TIMED_CALLS = 200
SETTLE_TIME = 2.0  # [s] of hover before the trajectory starts

TRAJECTORIES: dict[str, Callable[[float], Trajectory]] = {
    "figure8": lambda speed: trajectory.figure8((0.0, 0.0, TRAJECTORY_HEIGHT), half_length=3.0, speed=speed, laps=2),
    "circle": lambda speed: trajectory.circle((0.0, 0.0, TRAJECTORY_HEIGHT), radius=2.5, speed=speed, laps=2),
    "helix": lambda speed: trajectory.helix(
        (0.0, 0.0, TRAJECTORY_HEIGHT), radius=2.0, height_per_turn=1.0, turns=3.0, speed=speed
    ),
    "lissajous": lambda speed: trajectory.lissajous(
        (0.0, 0.0, TRAJECTORY_HEIGHT), amplitude=(2.0, 2.0, 0.5), frequency=(1.0, 2.0, 3.0), speed=speed, laps=2
    ),
}
LEFT_COLUMNS = 2  # columns of text; the others are numbers
SCENARIO_WIND = "the scenario's"


class ControllerResult(NamedTuple):
    """Result of one controller in one wind: errors [m], effort (mean square command rate), time per call [µs].

    The errors are NaN if it never took off.
    """

    controller: str
    wind: str
    rmse: float
    max_error: float
    effort: float
    microseconds: float
    crashed: bool
    run: Run

    @property
    def rmse_text(self) -> str:
        """The RMSE [mm], or why there is none."""
        if self.crashed:
            return "crashed"
        return "not flown" if math.isnan(self.rmse) else f"{1e3 * self.rmse:.3g}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Flights of several controllers: a sequence of `ControllerResult`, one for each wind and controller.

    Errors count while the drone has to follow its reference, from `error_start` [s] on.
    """

    title: str
    rows: tuple[ControllerResult, ...]
    error_start: float = 0.0

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ControllerResult]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> ControllerResult:
        return self.rows[index]

    def to_markdown(self) -> str:
        """Return the results as a Markdown table."""
        return markdown_table(HEADINGS, table_rows(self.rows))

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the paths and the errors; write a file (.png, .svg, .pdf) if a path is given, else return a figure."""
        return present("Comparison.plot", self, path)

    def __repr__(self) -> str:
        lines = [HEADINGS, *table_rows(self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "  ".join(
                cell.ljust(width) if k < LEFT_COLUMNS else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join([self.title, *texts])


def compare(
    scenario: str | Path | Scenario,
    controllers: Sequence[ControllerChoice] = tuple(CONTROLLERS),
    *,
    vehicle: VehicleChoice | None = None,
    wind: WindChoice | None = None,
    winds: Sequence[WindChoice] = (),
    sensors: SensorChoice | None = None,
    seed: int | None = None,
    duration: float | None = None,
    settings: Mapping[str, object] | None = None,
    effects: Sequence[EffectOption] = (),
    error_start: float = 0.0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Fly a scenario with each of several controllers and return their errors, effort and computing time.

    Args:
        scenario: name of a shipped scenario, path of a TOML file, or a `Scenario`; with one drone.
        controllers: controllers as in `samara.fly`. A function must store all values that it needs in the next call in its
            controller state, which is new for every flight.
        vehicle: vehicle as in `samara.fly`; by default that of the policies among the controllers, else the scenario's.
        wind: wind as in `samara.fly`.
        winds: several winds, in each of which every controller flies, instead of `wind`.
        sensors, seed, duration, settings, effects: as in `samara.fly`.
        error_start: time from which position errors count [s].
        progress: called with the counts of finished and of all flights after each flight.
    """
    if isinstance(controllers, str) or not isinstance(controllers, Sequence) or not controllers:
        raise ValueError(f"controllers = {controllers!r}: expected a list of controllers, such as ['geometric', 'pid']")
    if wind is not None and len(winds):
        raise ValueError("wind and winds are both given; expected one of them")
    choices = [load_controller(controller) for controller in controllers]
    flown_vehicle = common_vehicle(choices) if vehicle is None else vehicle
    rows: list[ControllerResult] = []
    wind_choices: list[WindChoice | None] = list(winds) or [wind]
    flown = ""
    for wind_choice in wind_choices:
        for name, controller in zip(controller_labels(choices), choices, strict=True):
            changes = Changes(flown_vehicle, controller, wind_choice, sensors, seed, duration)
            changed = change_scenario(scenario, changes, settings, effects=effects)
            if len(changed.drones) != 1:
                raise ValueError(
                    f"{changed.name} has {len(changed.drones)} drones; expected one to compare controllers"
                )
            flown = f"{changed.name}, {changed.drones[0].vehicle.name}"
            rows.append(_evaluate(fly(changed), name, wind_label(wind_choice), error_start, _call_time(changed)))
            progress(len(rows), len(wind_choices) * len(choices))
    return Comparison(flown, tuple(rows), error_start)


def compare_on_trajectory(
    vehicle: Vehicle,
    controllers: Sequence[ControllerChoice],
    *,
    trajectory_name: str = "figure8",
    speed: float = 2.0,
    winds: Sequence[WindChoice] = (0.0,),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Compare controllers on one of `TRAJECTORIES`; errors count from its start, after a hover of `SETTLE_TIME`.

    Args:
        vehicle: the vehicle of all flights.
        controllers: as in `compare`.
        trajectory_name: a key of `TRAJECTORIES`.
        speed: speed along the trajectory [m/s].
        winds: winds as in `compare`; numbers are speeds of steady winds from the west [m/s].
        progress: as in `compare`.
    """
    if trajectory_name not in TRAJECTORIES:
        raise ValueError(f"no trajectory {trajectory_name!r}; expected one of {', '.join(TRAJECTORIES)}")
    task = TRAJECTORIES[trajectory_name](speed)
    for wind in winds:
        if isinstance(wind, Real):
            require_thrust(vehicle, float(wind), speed)
    start = Vec3(*(float(x) for x in task.evaluate(0.0).p_W))
    flight_path = trajectory.sequence(trajectory.hover(start, duration=SETTLE_TIME), task)
    drone = Drone("drone", vehicle, flight_path, start, airborne=True)
    scenario = Scenario(trajectory_name, (drone,), round(flight_path.duration + 1.0, 3))
    result = compare(scenario, controllers, vehicle=vehicle, winds=winds, error_start=SETTLE_TIME, progress=progress)
    return replace(result, title=f"{trajectory_name} at {speed:g} m/s, {vehicle.name}")


def common_vehicle(controllers: Sequence[object]) -> str | None:
    """Return the name of the vehicle that the policies among the controllers were trained on; None if they have none."""
    names: dict[str, None] = {}
    for controller in controllers:
        policy = controller.option_values.get("file") if isinstance(controller, ControllerSpec) else None
        if isinstance(policy, Policy) and policy.vehicle:
            names[trained_vehicle(policy)] = None
    if len(names) > 1:
        raise ValueError(f"the policies were trained on {' and '.join(names)}; expected one vehicle for all of them")
    return next(iter(names), None)


def wind_label(choice: WindChoice | None) -> str:
    """Return a short name of a wind for a table."""
    if choice is None:
        return SCENARIO_WIND
    try:
        return f"{float(choice):g} m/s"  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    if isinstance(choice, str):
        return choice
    if isinstance(choice, Mapping):
        return str(choice.get("model", "constant"))
    if hasattr(choice, "sample"):
        return type(choice).__name__
    entries: list[Any] = list(choice)  # type: ignore[arg-type]
    if all(isinstance(entry, Mapping) for entry in entries):
        return " + ".join(map(wind_label, entries))
    return f"({', '.join(f'{x:g}' for x in entries)}) m/s"


def controller_labels(controllers: Sequence[LoadedController]) -> list[str]:
    """Return a label with the chosen options for each controller; equal labels are numbered."""
    names = [_label(controller) for controller in controllers]
    return [name if names.count(name) == 1 else f"{name} {names[: k + 1].count(name)}" for k, name in enumerate(names)]


def _label(controller: LoadedController) -> str:
    options = controller.options if isinstance(controller, ControllerSpec) else ()
    if isinstance(controller, ControllerSpec) and isinstance(controller.option_values.get("file"), Policy):
        policy = controller.option_values["file"]
        return Path(policy.folder).name or str(policy.task)
    return " ".join(
        [
            controller_name(controller),
            *(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in options),
        ]
    )


def _call_time(scenario: Scenario) -> float:
    """Measure the time of one controller call, the minimum over many calls  [s]."""
    simulation = Simulation(scenario)
    simulation.advance()
    (group,) = simulation.groups
    fleet, min_time = simulation.fleet, math.inf
    reference_horizon = references_ahead(fleet, group)
    for _ in range(TIMED_CALLS):
        start_time = time.perf_counter()
        if group.controller is None:
            fleet.run_entry(group, "controller")
        else:
            group.controller.run(group.estimate, group.reference, 0, reference_horizon)
        min_time = min(min_time, time.perf_counter() - start_time)
    return min_time


def _evaluate(run: Run, name: str, wind: str, error_start: float, call_time: float) -> ControllerResult:
    (record,) = run.drone_records
    rows = tracking_rows(record)
    error = record.error[rows[record.time[rows] >= error_start]]
    return ControllerResult(
        name,
        wind,
        array_sum(error**2).rms if len(error) else math.nan,
        float(np.max(error, initial=0.0)) if len(error) else math.nan,
        float(run.metrics.squared_command_rate.mean),
        1e6 * call_time,
        bool(run.crashed),
        run,
    )


def require_thrust(vehicle: Vehicle, wind: float, speed: float) -> None:
    """Raise ValueError if hovering in the wind, or flying against it, needs more thrust than the rotors have."""
    if not vehicle.has("drag") or not vehicle.rotors:
        return
    weight = vehicle.mass * vehicle["gravity"].acceleration
    drag = norm(drag_force(Vec3(abs(wind) + speed, 0.0, 0.0), drag=vehicle["drag"]))
    required_thrust, available_thrust = math.hypot(weight, drag), thrust_to_weight(vehicle) * weight
    if required_thrust > available_thrust:
        raise ValueError(
            f"vehicle {vehicle.name!r} at {speed:g} m/s against a wind of {wind:g} m/s needs {required_thrust:.3g} N; "
            f"its rotors give {available_thrust:.3g} N"
        )


def table_rows(entries: Sequence[ControllerResult]) -> list[tuple[str, ...]]:
    """Format the cells of a table: controller, wind, RMSE, largest error, effort, time per call."""
    return [
        (
            entry.controller,
            entry.wind,
            entry.rmse_text,
            "–" if math.isnan(entry.max_error) else f"{1e3 * entry.max_error:.3g}",
            f"{entry.effort:.3g}",
            f"{entry.microseconds:.1f}",
        )
        for entry in entries
    ]


HEADINGS = ("controller", "wind", "RMSE [mm]", "largest [mm]", "effort [1/s²]", "call [µs]")


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format texts as a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, ["---"] * len(headings), *rows])
