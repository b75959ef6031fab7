"""A race: a controller flies a track with many seeds at once, and its score."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.compare.controllers import ControllerChoice, markdown_table
from samara.compare.race_score import Ending, Score, score
from samara.control.registry import Tuned, as_tuned, tuned
from samara.core.algebra import ZERO, Vec3
from samara.core.random import key_of, uniforms_of, words
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.plan.time_optimal import Line, line_of
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.fly_many import fly_many
from samara.vehicles.loader import vehicle as load_vehicle
from samara.wind.sources import NoWind, OrnsteinUhlenbeck
from samara.world.gates import Course, Gate, reach_of
from samara.world.track import Track, load_track, require_level

SOURCE = "race"


class Disturbances(NamedTuple):
    """For n seeds: factors to mass and inertia, where drones start and the steady wind, each three rows of n [m, m/s], and the
    course with n numbers for each of a pose's"""

    mass: Array
    inertia: Array
    start_W: Vec3
    wind_W: Vec3
    course: Course


def draw_disturbances(track: Track, level: int, seeds: Sequence[int]) -> Disturbances:
    """1 + m (2u − 1) and so on, u evenly from 0 to 1; what a level leaves alone is as the track has it"""
    require_level(level)
    one, two = track.disturbed, track.uncertain
    count = 7 + 4 * len(track.gates) + 3 * len(track.poles)
    keys = np.array([key_of(int(seed), SOURCE) for seed in seeds], dtype=np.uint64).T
    numbers = iter(uniforms_of(words((keys[0], keys[1]), 0, 0, count)))

    def either_way(size: float, used: bool) -> Array:
        own = next(numbers)
        return size * (2.0 * own - 1.0) if used else np.zeros(len(seeds))

    disturbed, uncertain = level >= 1, level >= 2
    mass, inertia = (1.0 + either_way(own, disturbed) for own in (one.mass, one.inertia))
    x, y, up = next(numbers), next(numbers), next(numbers)
    aside = Vec3(one.start.x * (2.0 * x - 1.0), one.start.y * (2.0 * y - 1.0), one.start.z * up)
    start_W = Vec3(*(a + (b if disturbed else 0.0 * b) for a, b in zip(track.start_W, aside, strict=True)))
    speed, angle = one.wind * next(numbers) * float(disturbed), 2.0 * math.pi * next(numbers)
    wind_W = Vec3(speed * np.cos(angle), speed * np.sin(angle), 0.0 * speed)
    gates = tuple(
        Gate(
            Vec3(*(a + either_way(size, uncertain) for a, size in zip(gate.p_W, two.gates, strict=True))),
            gate.yaw + either_way(two.yaw, uncertain),
        )
        for gate in track.gates
    )
    poles = tuple(
        Vec3(*(a + either_way(size, uncertain) for a, size in zip(pole, two.poles, strict=True)))
        for pole in track.poles
    )
    return Disturbances(mass, inertia, start_W, wind_W, Course(gates, poles))


EVERY = 0.01  # [s]: between the places of a path
SETTLE = 1.0  # [s] after a plan has come to its end
LULL = 1.0  # [s]: how long a gust lasts
SEEDS = tuple(range(20))


class Race(NamedTuple):
    """A controller on a track at a level: its score, and the paths it flew, `p_W` of (times, n) at `time` [s, m]"""

    track: Track
    level: int
    controller: str
    seeds: tuple[int, ...]
    score: Score
    disturbances: Disturbances
    line: Line
    time: Array
    p_W: Vec3

    def row(self) -> dict[str, object]:
        """The race as an entry of a JSON file: NaN is None"""
        times = [round(float(time), 6) for time in self.score.time]
        mean = self.score.mean_time
        return {
            "track": self.track.name,
            "level": self.level,
            "controller": self.controller,
            "success": self.score.success,
            "mean_time": None if math.isnan(mean) else round(mean, 6),
            "flights": [
                {"seed": seed, "ending": str(ending), "time": time, "gates": int(passed)}
                for seed, ending, time, passed in zip(
                    self.seeds, self.score.ending, times, self.score.passed.tolist(), strict=True
                )
            ],
        }


def race(
    track: Track | str | Path = "hall",
    *,
    level: int = 0,
    controller: ControllerChoice = "geometric",
    seeds: Sequence[int] = SEEDS,
    vehicle: Vehicle | str | None = None,
    pace: float = 1.0,
) -> Race:
    """Flies a track with every seed, and scores it

    The controller is made for the vehicle of the file, whatever is drawn, and follows the fastest plan through the gates as
    they were said to be, at a `pace`; a policy trained to race sees the gates themselves.
    """
    course = track if isinstance(track, Track) else load_track(track)
    if not len(seeds):
        raise ValueError("seeds has none; expected one at least")
    craft = vehicle if isinstance(vehicle, Vehicle) else load_vehicle(vehicle or course.vehicle)
    line, disturbances = line_of(course, craft, pace), draw_disturbances(course, level, seeds)
    flown = on_track(as_tuned(controller), course)
    scenario = scenario_of(course, craft, line, flown, level)
    flights = fly_many(scenario, seeds=list(seeds), vary=varied(disturbances, craft, level, flown), record=EVERY)
    p_W = Vec3(*(flights.states[:, k] for k in range(3)))
    with np.errstate(invalid="ignore"):
        result = score(flights.time, p_W, disturbances.course, course, reach_of(craft), flights.crashed)
    return Race(course, level, _label(controller), tuple(seeds), result, disturbances, line, flights.time, p_W)


def scenario_of(track: Track, vehicle: Vehicle, line: Line, controller: ControllerChoice, level: int) -> Scenario:
    """The flight of one seed, but for what is drawn"""
    plan = line.trajectory
    drone = Drone("drone", vehicle, plan, track.start_W, airborne=True, controller=controller, model=vehicle)
    until = track.seconds if sees_gates(controller) else min(track.seconds, plan.duration + SETTLE)
    wind = OrnsteinUhlenbeck(ZERO, track.disturbed.gusts, LULL) if level else NoWind()
    seconds = math.floor(until / EVERY) * EVERY
    return Scenario(f"race on {track.name}", (drone,), round(seconds, 6), rates=Rates(log=1.0 / EVERY), wind=wind)


def sees_gates(controller: ControllerChoice) -> bool:
    """Whether it is told the track"""
    return isinstance(controller, Tuned) and "track" in controller.chosen


def on_track(controller: ControllerChoice, track: Track) -> ControllerChoice:
    """A controller that is told the track, where it asks for one"""
    if not isinstance(controller, Tuned) or sees_gates(controller):
        return controller
    policy = controller.chosen.get("file")
    asks = controller.name == "racer" or getattr(policy, "observation", "") == "race"
    return tuned(controller.name, **controller.chosen, track=track) if asks else controller


def varied(disturbances: Disturbances, vehicle: Vehicle, level: int, controller: ControllerChoice) -> dict[str, Array]:
    """What differs from flight to flight, as `samara.fly_many` takes it"""
    if level == 0:
        return {}
    course = {}
    if level == 2 and sees_gates(controller):
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


def as_json(races: Sequence[Race]) -> str:
    """The rows as JSON, one race a line"""
    rows = ",\n".join(f"  {json.dumps(own.row())}" for own in races)
    return f"[\n{rows}\n]\n"


def _label(controller: ControllerChoice) -> str:
    own = as_tuned(controller)
    if isinstance(own, Tuned):
        return Path(own.chosen["file"].folder).name if own.name == "policy" else own.name
    return str(getattr(own, "__name__", type(own).__name__))


HEADINGS = ("controller", "level", "success", "mean time [s]", "fastest [s]", "the others")


def table_rows(races: Sequence[Race]) -> list[tuple[str, ...]]:
    """Text for a table, a row for each race"""
    return [_row(race) for race in races]


def _row(race: Race) -> tuple[str, ...]:
    score = race.score
    times = score.time[score.finished]
    endings = Counter(str(ending) for ending in score.ending if ending is not Ending.FINISHED)
    return (
        race.controller,
        str(race.level),
        f"{int(score.finished.sum())} of {len(race.seeds)}",
        "" if math.isnan(score.mean_time) else f"{score.mean_time:.3f}",
        f"{times.min():.3f}" if len(times) else "",
        ", ".join(f"{count} {ending}" for ending, count in endings.most_common()),
    )


def as_markdown(races: Sequence[Race]) -> str:
    """The table as Markdown"""
    return markdown_table(HEADINGS, table_rows(races))
