"""Compare controllers on the same trajectory, vehicle and wind: errors, effort and computing time."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from samara.control.registry import ControllerSpec, controller_name
from samara.core.algebra import Vec3, norm
from samara.core.quantity import Scalar
from samara.physics.air.drag import drag_force
from samara.physics.types import Vehicle
from samara.plan import trajectory
from samara.plan.trajectory import Trajectory
from samara.record.metrics.recorded import array_sum
from samara.record.run import Run
from samara.scenario.autopilot_sensors import apply_firmware_rate
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.sim.references import references_ahead
from samara.sim.simulation import Simulation
from samara.vehicles.trim import thrust_to_weight
from samara.wind.sources import Constant

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
ControllerChoice: TypeAlias = str | ControllerSpec | Callable[..., Scalar]


class ControllerResult(NamedTuple):
    """Result of one controller in one wind: errors [m], effort (mean square command rate), time per call [µs]."""

    controller: str
    wind: float
    rmse: float
    max_error: float
    effort: float
    microseconds: float
    crashed: bool
    run: Run


def compare_controllers(
    vehicle: Vehicle,
    controllers: Sequence[ControllerChoice],
    *,
    trajectory_name: str = "figure8",
    speed: float = 2.0,
    winds: Sequence[float] = (0.0,),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[ControllerResult]:
    """Fly every controller in every wind, which blows from the west; errors count from the start of the trajectory.

    Args:
        vehicle: the vehicle of all flights.
        controllers: names, names with options (`ControllerSpec`), or functions, as `samara.fly` takes them. A function
            must store all values that it needs in the next call in its controller state, which is new for every flight.
        trajectory_name: a key of `TRAJECTORIES`.
        speed: speed along the trajectory [m/s].
        winds: wind speeds [m/s].
        progress: called with the counts of finished and of all flights after each flight.
    """
    if trajectory_name not in TRAJECTORIES:
        raise ValueError(f"no trajectory {trajectory_name!r}; expected one of {', '.join(TRAJECTORIES)}")
    task = TRAJECTORIES[trajectory_name](speed)
    for wind in winds:
        require_thrust(vehicle, wind, speed)
    return list(_fly_all(vehicle, controllers, task, winds, progress))


def _fly_all(
    vehicle: Vehicle,
    controllers: Sequence[ControllerChoice],
    task: Trajectory,
    winds: Sequence[float],
    progress: Callable[[int, int], None],
) -> Iterator[ControllerResult]:
    total, done = len(controllers) * len(winds), 0
    start = Vec3(*(float(x) for x in task.evaluate(0.0).p_W))
    flight_path = trajectory.sequence(trajectory.hover(start, duration=SETTLE_TIME), task)
    for wind in winds:
        for name, controller in zip(controller_labels(controllers), controllers, strict=True):
            drone = Drone("drone", vehicle, flight_path, start, airborne=True, controller=controller)
            wind_source = Constant(Vec3(float(wind), 0.0, 0.0))
            scenario = apply_firmware_rate(
                Scenario(f"{name} in {wind:g} m/s", (drone,), round(flight_path.duration + 1.0, 3), wind=wind_source)
            )
            run = fly(scenario)
            done += 1
            progress(done, total)
            yield _evaluate(run, name, float(wind), _call_time(scenario))


def controller_labels(controllers: Sequence[ControllerChoice]) -> list[str]:
    """Return a label with the chosen options for each controller; equal labels are numbered."""
    names = [_label(controller) for controller in controllers]
    return [name if names.count(name) == 1 else f"{name} {names[: k + 1].count(name)}" for k, name in enumerate(names)]


def _label(controller: ControllerChoice) -> str:
    options = controller.options if isinstance(controller, ControllerSpec) else ()
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


def _evaluate(run: Run, name: str, wind: float, call_time: float) -> ControllerResult:
    error = run.error[run.time >= SETTLE_TIME]
    return ControllerResult(
        name,
        wind,
        array_sum(error**2).rms,
        float(error.max()),
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
            f"{entry.wind:g}",
            "crashed" if entry.crashed else f"{1e3 * entry.rmse:.3g}",
            f"{1e3 * entry.max_error:.3g}",
            f"{entry.effort:.3g}",
            f"{entry.microseconds:.1f}",
        )
        for entry in entries
    ]


HEADINGS = ("controller", "wind [m/s]", "RMSE [mm]", "largest [mm]", "effort [1/s²]", "time per call [µs]")


def format_markdown(entries: Sequence[ControllerResult]) -> str:
    """Format the results as a Markdown table."""
    return markdown_table(HEADINGS, table_rows(entries))


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format texts as a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, ["---"] * len(headings), *rows])
