"""Race a controller on a track, with many seeds at once, and score it."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.comparison.controllers import markdown_table
from samara.comparison.race_score import RaceOutcome, RaceScore, score
from samara.control.mpc.constraint_tables import MAX_CONSTRAINTS
from samara.control.registry import ControllerSpec, coerce_controller_spec, controller_spec
from samara.core.algebra import ZERO, Vec3
from samara.core.random import derive_key, uniforms_from_words, words
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.plan.time_optimal import RacingLine, plan_racing_line
from samara.scenario.changes import (
    ControllerChoice,
    LoadedController,
    VehicleChoice,
    WindChoice,
    load_controller,
    resolve_vehicle,
)
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.fly_many import fly_many
from samara.wind.sources import NoWind, OrnsteinUhlenbeck
from samara.world.gates import Course, Gate, hub_radius
from samara.world.track import Track, load_track, require_level

RANDOM_SOURCE = "race"


class Disturbances(NamedTuple):
    """For n seeds: factors on mass and inertia; start positions and steady winds, three rows of n each [m, m/s]; and the course
    with n values for each coordinate of a pose."""

    mass: Array
    inertia: Array
    start_W: Vec3
    wind_W: Vec3
    course: Course


def draw_disturbances(track: Track, level: int, seeds: Sequence[int]) -> Disturbances:
    """Draw disturbances, such as a mass factor 1 + m (2u − 1) with u uniform in [0, 1); at lower levels some stay
    nominal."""
    require_level(level)
    disturbance, uncertainty = track.disturbance, track.uncertainty
    count = 7 + 4 * len(track.gates) + 3 * len(track.poles)
    keys = np.array([derive_key(int(seed), RANDOM_SOURCE) for seed in seeds], dtype=np.uint64).T
    uniforms = iter(uniforms_from_words(words((keys[0], keys[1]), 0, 0, count)))

    def symmetric_offset(size: float, is_active: bool) -> Array:
        uniform = next(uniforms)
        return size * (2.0 * uniform - 1.0) if is_active else np.zeros(len(seeds))

    disturbed, uncertain = level >= 1, level >= 2
    mass, inertia = (
        1.0 + symmetric_offset(amplitude, disturbed) for amplitude in (disturbance.mass, disturbance.inertia)
    )
    x, y, up = next(uniforms), next(uniforms), next(uniforms)
    start_offset = Vec3(
        disturbance.start.x * (2.0 * x - 1.0),
        disturbance.start.y * (2.0 * y - 1.0),
        disturbance.start.z * up,
    )
    start_W = Vec3(*(a + (b if disturbed else 0.0 * b) for a, b in zip(track.start_W, start_offset, strict=True)))
    speed, angle = disturbance.max_wind_speed * next(uniforms) * float(disturbed), 2.0 * math.pi * next(uniforms)
    wind_W = Vec3(speed * np.cos(angle), speed * np.sin(angle), 0.0 * speed)
    gates = tuple(
        Gate(
            Vec3(*(a + symmetric_offset(size, uncertain) for a, size in zip(gate.p_W, uncertainty.gates, strict=True))),
            gate.yaw + symmetric_offset(uncertainty.yaw, uncertain),
        )
        for gate in track.gates
    )
    poles = tuple(
        Vec3(*(a + symmetric_offset(size, uncertain) for a, size in zip(pole, uncertainty.poles, strict=True)))
        for pole in track.poles
    )
    return Disturbances(mass, inertia, start_W, wind_W, Course(gates, poles))


PATH_PERIOD = 0.01  # [s] between the positions of a path
SETTLE_TIME = 1.0  # [s] of flight after the end of the plan
GUST_TIME_CONSTANT = 1.0  # [s]: time constant of gusts
DEFAULT_SEEDS = tuple(range(20))


class Race(NamedTuple):
    """A controller on a track at a level: its score, and the flown paths, `p_W` of shape (times, n) at `time` [s, m]."""

    track: Track
    level: int
    controller: str
    seeds: tuple[int, ...]
    score: RaceScore
    disturbances: Disturbances
    line: RacingLine
    time: Array
    p_W: Vec3

    def row(self) -> dict[str, object]:
        """Return the race as an entry of a JSON file; NaN becomes None."""
        times = [round(float(time), 6) for time in self.score.time]
        mean = self.score.mean_time
        return {
            "track": self.track.name,
            "level": self.level,
            "controller": self.controller,
            "success": self.score.success_rate,
            "mean_time": None if math.isnan(mean) else round(mean, 6),
            "flights": [
                {"seed": seed, "ending": str(ending), "time": time, "gates": int(passed)}
                for seed, ending, time, passed in zip(
                    self.seeds, self.score.ending, times, self.score.gate_count.tolist(), strict=True
                )
            ],
        }


def race(
    track: Track | str | Path = "hall",
    *,
    level: int = 0,
    controller: ControllerChoice = "geometric",
    seeds: Sequence[int] = DEFAULT_SEEDS,
    vehicle: VehicleChoice | None = None,
    wind: WindChoice | None = None,
    speed_fraction: float = 1.0,
) -> Race:
    """Fly a track with every seed and score it.

    The controller follows the time-optimal plan through the nominal gates; a policy trained to race observes the gates instead.

    Args:
        track: a track, the name of a shipped one, or a file.
        level: 0 nominal, 1 with disturbed mass, inertia, start and wind, 2 with disturbed gates and poles too.
        controller: as `samara.fly` takes it; designed for the nominal vehicle.
        seeds: one flight for each.
        vehicle: the track's vehicle by default.
        wind: wind as in `samara.fly`, instead of that of the level.
        speed_fraction: speed as a fraction of the plan's.
    """
    race_track = track if isinstance(track, Track) else load_track(track)
    if not len(seeds):
        raise ValueError("seeds is empty; expected at least one")
    race_vehicle = resolve_vehicle(race_track.vehicle if vehicle is None else vehicle)
    line, disturbances = (
        plan_racing_line(race_track, race_vehicle, speed_fraction),
        draw_disturbances(race_track, level, seeds),
    )
    race_controller = attach_track(coerce_controller_spec(load_controller(controller)), race_track)
    race_controller = avoid_frames(race_controller, race_track, race_vehicle)
    scenario = race_scenario(race_track, race_vehicle, line, race_controller, level)
    varied = varied_parameters(disturbances, race_vehicle, level, race_controller)
    if wind is not None:
        varied = {name: values for name, values in varied.items() if not name.startswith("wind.")}
    flights = fly_many(
        scenario,
        seeds=list(seeds),
        vary=varied,
        wind=wind,
        record=PATH_PERIOD,
    )
    p_W = Vec3(*(flights.states[:, k] for k in range(3)))
    with np.errstate(invalid="ignore"):
        result = score(flights.time, p_W, disturbances.course, race_track, hub_radius(race_vehicle), flights.crashed)
    return Race(race_track, level, _label(race_controller), tuple(seeds), result, disturbances, line, flights.time, p_W)


def race_scenario(
    track: Track, vehicle: Vehicle, line: RacingLine, controller: LoadedController, level: int
) -> Scenario:
    """Return the scenario of all seeds, without the varied parameters."""
    plan = line.trajectory
    drone = Drone("drone", vehicle, plan, track.start_W, airborne=True, controller=controller, model=vehicle)
    end_time = track.time_limit if has_track(controller) else min(track.time_limit, plan.duration + SETTLE_TIME)
    wind = OrnsteinUhlenbeck(ZERO, track.disturbance.gust_sigma, GUST_TIME_CONSTANT) if level else NoWind()
    duration = math.floor(end_time / PATH_PERIOD) * PATH_PERIOD
    return Scenario(
        f"race on {track.name}", (drone,), round(duration, 6), rates=Rates(log=1.0 / PATH_PERIOD), wind=wind
    )


def has_track(controller: LoadedController) -> bool:
    """Return whether the controller has the track as an option."""
    return isinstance(controller, ControllerSpec) and "track" in controller.option_values


def attach_track(controller: LoadedController, track: Track) -> LoadedController:
    """Set the track as an option of a controller that observes gates; return any other unchanged."""
    if not isinstance(controller, ControllerSpec) or has_track(controller):
        return controller
    policy = controller.option_values.get("file")
    observes_gates = controller.name == "racer" or getattr(policy, "observation", "") == "race"
    return controller_spec(controller.name, **controller.option_values, track=track) if observes_gates else controller


MARGIN_FRACTION = 0.2  # of the way from the edge of an opening, less the drone, to its centre


def avoid_frames(controller: LoadedController, track: Track, vehicle: Vehicle) -> LoadedController:
    """Give a predictive controller without constraints those of the track, unless the track has more than a controller may
    have."""
    if not isinstance(controller, ControllerSpec) or controller.name != "mpc":
        return controller
    constraints = track_constraints(track, vehicle)
    if len(constraints) > MAX_CONSTRAINTS:
        return controller
    options = {"constraints": constraints, **controller.option_values}
    return controller_spec(controller.name, **options)


def track_constraints(track: Track, vehicle: Vehicle) -> list[dict[str, object]]:
    """Return constraints, as in a scenario file: a capsule for each pole and each of the four bars of a frame, at the poses
    of the track's file.

    Their margin around the hubs, by which races are scored, is a fraction of the free half of the opening.
    """
    drone_radius, (width, height) = hub_radius(vehicle), track.sizes.opening_size
    frame_width, frame_height = track.sizes.frame_size
    margin = drone_radius + MARGIN_FRACTION * max(0.5 * min(width, height) - drone_radius, 0.0)
    bar_radius = 0.25 * min(frame_width - width, frame_height - height)
    half_width, half_height = 0.25 * (width + frame_width), 0.25 * (height + frame_height)
    segments = [(Vec3(pole.x, pole.y, 0.0), pole, track.pole_radius) for pole in track.poles]
    for gate in track.gates:
        side = Vec3(-math.sin(gate.yaw), math.cos(gate.yaw), 0.0) * half_width
        up = Vec3(0.0, 0.0, half_height)
        corners = (side + up, side - up, -side - up, -side + up)
        segments += [(gate.p_W + corner, gate.p_W + corners[k - 1], bar_radius) for k, corner in enumerate(corners)]
    return [
        {"type": "capsule", "start": [*start], "end": [*end], "radius": radius + margin}
        for start, end, radius in segments
    ]


def varied_parameters(
    disturbances: Disturbances, vehicle: Vehicle, level: int, controller: LoadedController
) -> dict[str, Array]:
    """Return the parameters that vary between flights, as `samara.fly_many` takes them."""
    if level == 0:
        return {}
    course = {}
    if level == 2 and has_track(controller):
        course["controller.course"] = np.stack(flatten(disturbances.course), axis=1)
    inertia = {
        f"inertia_B.{name}": x * disturbances.inertia for name, x in vehicle.inertia_B._asdict().items() if x != 0.0
    }
    return {
        "mass": vehicle.mass * disturbances.mass,
        **inertia,
        **course,
        "start_W": np.stack(disturbances.start_W, axis=1),
        "wind.mean_W.x": disturbances.wind_W.x,
        "wind.mean_W.y": disturbances.wind_W.y,
    }


def format_json(races: Sequence[Race]) -> str:
    """Format the races as JSON, one race per line."""
    rows = ",\n".join(f"  {json.dumps(entry.row())}" for entry in races)
    return f"[\n{rows}\n]\n"


def _label(controller: LoadedController) -> str:
    choice = coerce_controller_spec(controller)
    if isinstance(choice, ControllerSpec):
        return Path(choice.option_values["file"].folder).name if choice.name == "policy" else choice.name
    return str(getattr(choice, "__name__", type(choice).__name__))


HEADINGS = ("controller", "level", "success", "mean time [s]", "fastest [s]", "other endings")


def table_rows(races: Sequence[Race]) -> list[tuple[str, ...]]:
    """Format the cells of a table, one row per race."""
    return [_row(race) for race in races]


def _row(race: Race) -> tuple[str, ...]:
    score = race.score
    times = score.time[score.is_finished]
    endings = Counter(str(ending) for ending in score.ending if ending is not RaceOutcome.FINISHED)
    return (
        race.controller,
        str(race.level),
        f"{int(score.is_finished.sum())} of {len(race.seeds)}",
        "" if math.isnan(score.mean_time) else f"{score.mean_time:.3f}",
        f"{times.min():.3f}" if len(times) else "",
        ", ".join(f"{count} {ending}" for ending, count in endings.most_common()),
    )


def format_markdown(races: Sequence[Race]) -> str:
    """Format the races as a Markdown table."""
    return markdown_table(HEADINGS, table_rows(races))
