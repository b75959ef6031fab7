"""Scenario files: the shipped ones, and one with tasks, winds, obstacles, events and drones of every type."""

import copy
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from support.components import wind_table

from samara.scenario.file import ScenarioError, load_scenario
from samara.scenario.file.environment import SHAPES
from samara.scenario.file.mission import ACTIONS, TASKS
from samara.scenario.scenario import Scenario
from samara.wind.registry import WINDS

from .law import Case, Reader
from .mutate import mutate_bytes, mutate_document, mutate_toml, toml
from .tables import FIELD, HEIGHTS, REPLAY
from .vehicles import documents

_TASKS: tuple[dict[str, Any], ...] = (
    {"type": "hover", "at": [0, 0, 2], "duration": 2.0},
    {"type": "waypoints", "points": [[0, 0, 2], [1, 0, 2], [1, 1, 3]], "speed": 1.0, "hold_time": 0.5},
    {"type": "waypoints", "points": [[0, 0, 2], [1, 0, 2]], "leg_duration": 2.0, "yaw_deg": 30},
    {"type": "line", "to": [2, 0, 2], "speed": 1.0, "acceleration": 2.0},
    {"type": "take_off", "height": 3.0, "speed": 1.0},
    {"type": "land", "height": 0.0, "speed": 0.5},
    {"type": "circle", "centre": [0, 0, 2], "radius": 1.0, "speed": 1.0, "laps": 2, "clockwise": True, "yaw": "along"},
    {"type": "helix", "centre": [0, 0, 2], "radius": 1.0, "height_per_turn": 0.5, "turns": 2, "speed": 1.0},
    {"type": "figure8", "centre": [0, 0, 2], "half_length": 2.0, "half_width": 1.0, "speed": 1.0, "laps": 1},
    {
        "type": "lissajous",
        "centre": [0, 0, 2],
        "amplitude": [1, 1, 0.2],
        "frequency": [1, 2, 1],
        "speed": 1.0,
        "laps": 1,
    },
    {"type": "race", "gates": [[0, 0, 2], [4, 2, 2], [6, 6, 3]], "speed": 3.0, "closed": True, "laps": 1},
)
_WINDS: tuple[dict[str, Any], ...] = (
    {"model": "none"},
    {"model": "constant", "speed": 3.0, "from_deg": 200},
    {"model": "constant", "wind_W": [1, 2, 0]},
    {"model": "step", "after_W": [1, 2, 0], "at": 1.0},
    {"model": "gust", "amplitude_W": [1, 2, 0], "start": 1.0, "duration": 2.0},
    {"model": "turbulence", "mean_W": [1, 0, 0], "sigma": 0.6, "tau": 2.0},
    {"model": "turbulence", "speed": 2.0, "from_deg": 10, "sigma": [0.6, 0.5, 0.1], "tau": [2.0, 1.0, 1.0]},
    {"model": "dryden", "speed": 3.0, "from_deg": 200},
    {"model": "von_karman", "mean": [3, 0, 0], "sigma_aloft": 1.0},
    {
        "model": "dryden",
        "mean": {"model": "log_law", "speed": 3.0, "from_deg": 250, "reference_height": 10, "roughness": 0.03},
    },
    {"model": "power_law", "speed": 3.0, "from_deg": 200, "exponent": 0.2},
    {"model": "log_law", "speed": 3.0, "from_deg": 200, "roughness": 0.1},
    {"model": "field", "file": "field.csv", "carried_W": [1, 0, 0]},
    {"model": "replay", "file": "replay.csv", "linear": True},
)
_WINDS += tuple(wind_table(name) for name in WINDS.keys() - {wind["model"] for wind in _WINDS})
_OBSTACLES: tuple[dict[str, Any], ...] = (
    {"shape": "plane", "point": [0, 9, 0], "normal": [0, -1, 0], "name": "side"},
    {"shape": "sphere", "centre": [5, 5, 1], "radius": 0.5, "restitution": 0.3, "friction": 0.4},
    {"shape": "capsule", "start": [5, -2, 0], "end": [5, -2, 3], "radius": 0.1},
    {"shape": "box", "centre": [3, 6, 1], "size": [0.2, 2, 2], "rotation_deg": [0, 0, 20], "name": "wall"},
    {"shape": "height_map", "file": "heights.csv", "spacing": 1.0, "origin": [20, 20], "name": "hill"},
    {"shape": "height_map", "heights": [[0, 0.1], [0.2, 0.1]], "spacing": 1.0, "origin": [30, 30], "name": "step"},
)
_EVENTS: tuple[dict[str, Any], ...] = (
    {"at": 1.0, "do": "arm"},
    {"at": 1.0, "do": "disarm", "drone": "one"},
    {"at": 1.0, "do": "take_off", "height": 2.0},
    {"at": 1.0, "do": "go_to", "p_W": [1, 1, 2], "speed": 1.0},
    {"at": 1.0, "do": "return_home", "height": 2.0},
    {"when": "height > 1.5", "do": "land", "speed": 0.5, "name": "down"},
    {"at_step": 100, "do": "wind_step", "wind_W": [1, 0, 0]},
    {"at": 1.0, "do": "gust", "amplitude_W": [1, 0, 0], "duration": 1.0},
    {"at": 1.0, "do": "fail_motor", "motor": 1},
    {"at": 1.0, "do": "degrade_motor", "motor": 1, "effectiveness": 0.5},
    {"at": 1.0, "do": "restore_motor", "motor": 1},
    {"at": 1.0, "do": "disconnect_battery"},
    {"at": 1.0, "do": "connect_battery"},
    {"at": 1.0, "do": "fail_cell", "cells": 4},
    {"at": 1.0, "do": "fail_sensor", "sensor": "gps", "drone": "one"},
    {"at": 1.0, "do": "restore_sensor", "sensor": "gps", "drone": "one"},
    {"at": 1.0, "do": "freeze_estimator"},
    {"at": 1.0, "do": "unfreeze_estimator"},
    {"at": 1.0, "do": "add_payload", "mass": 0.1, "r_B": [0, 0, -0.1]},
    {"at": 1.0, "do": "release_load"},
    {"when": "x > 1", "do": "follow", "task": {"type": "circle", "centre": [0, 0, 2], "radius": 1.0, "speed": 1.0}},
)
_DRONES: tuple[dict[str, Any], ...] = (
    {"vehicle": "hakoniwa", "start": [0, 0, 0], "yaw_deg": 10, "controller": {"type": "geometric", "position": 2.0}},
    {"vehicle": "own.toml", "start": [0, 0, 2], "airborne": True, "controller": "pid"},
    {"vehicle": "iris", "estimator": {"type": "delayed", "delay": 0.02}},
    {"vehicle": "iris", "sensors": ["bmi088", {"part": "neo-m9n", "name": "gps", "r_B": [0, 0, 0.1]}, "bmp388", "bmm150"]},
    {"vehicle": "iris", "sensors": ["imu", "position", {"part": "part.toml", "noise": 1.0}], "estimator": "truth"},
    {"vehicle": "crazyflie", "count": 3, "columns": 2, "spacing": [1, 1, 0], "armed": False},
    {"vehicle": "iris", "effects": {"slung_load": {"mass": 0.2, "length": 1.0}, "downwash": True}, "motor_map": [3, 2, 1, 0]},
    {"vehicle": "iris", "effects": ["ground_effect"], "estimator": {"type": "noisy"}},
    {"vehicle": "iris", "sensors": ["bmi088", "neo-m9n"], "estimator": {"type": "complementary", "start": {}}},
    {"vehicle": "iris", "autopilot": {"type": "px4", "rate": 250.0, "on_loss": "wait", "parameters": {"MPC_XY_P": 1.0}}},
)  # fmt: skip
_WORLD: dict[str, Any] = {
    "schema": 1, "name": "all", "description": "every kind of thing", "duration": 10.0, "seed": 3, "integrator": "rk4",
    "strict": False, "propeller_strike": "report", "collisions": {"restitution": 0.4, "friction": 0.3},
    "rates": {"physics": 1000.0, "log": 100.0},
    "environment": {"latitude_deg": 47.4, "longitude_deg": 8.5, "altitude": 488.0, "year": 2026.0},
    "expect": {
        "final_position": [0, 0, 2], "position_tolerance": 1.0, "max_tilt_deg": 45.0, "max_error": 2.0, "no_crash": True,
    },
}  # fmt: skip


def _files() -> dict[str, bytes]:
    """Return the files beside a scenario."""
    return {
        "field.csv": FIELD.encode(),
        "replay.csv": REPLAY.encode(),
        "heights.csv": HEIGHTS.encode(),
        "own.toml": resources.files("samara.vehicles").joinpath("iris.toml").read_bytes(),
        "part.toml": resources.files("samara.sensors").joinpath("parts", "bmp388.toml").read_bytes(),
    }


def _combine(task: Any, wind: Any, obstacle: Any, event: Any, drone: Any) -> dict[str, Any]:
    drones = [{"name": "one", **drone, "tasks": [{"type": "hover", "at": [0, 0, 2], "duration": 1.0}, task]}]
    gps = {"name": "two", **_DRONES[2], "start": [-5, 0, 0]}
    if event.get("drone") == "one" and "sensor" in event:
        drones = [{**gps, "name": "one"}]
    if "autopilot" in drone:
        drones[0].pop("tasks", None)
    return copy.deepcopy({**_WORLD, "drones": drones, "wind": [wind], "obstacles": [obstacle], "events": [event]})


def _scenarios_of_every_type() -> Iterable[dict[str, Any]]:
    lists = (_TASKS, _WINDS, _OBSTACLES, _EVENTS, _DRONES)
    for k in range(max(map(len, lists))):
        yield _combine(*(choices[k % len(choices)] for choices in lists))


def seeds() -> list[Case]:
    """Return the shipped scenarios, and every type at least once."""
    assert {document["type"] for document in _TASKS} == set(TASKS)
    assert {document["shape"] for document in _OBSTACLES} == set(SHAPES)
    assert {document["do"] for document in _EVENTS} == {*ACTIONS, "follow"}
    return [
        Case((toml(document).encode(), {}, {}))
        for document in (*documents("samara.scenarios"), *_scenarios_of_every_type())
    ]


def make(rng: Random) -> Case:
    """Create one with an error in it, in a file beside it, or in a setting."""
    kinds = (_TASKS, _WINDS, _OBSTACLES, _EVENTS, _DRONES)
    base = rng.choice(documents("samara.scenarios")) if rng.random() < 0.3 else _combine(*map(rng.choice, kinds))
    files: dict[str, bytes] = {}
    settings: dict[str, Any] = {}
    kind = rng.random()
    if kind < 0.05:
        name = rng.choice(sorted(_files()))
        files[name], changes = mutate_bytes(_files()[name], rng)
        text = toml(base)
        changes = [f"{name}: {change}" for change in changes]
    elif kind < 0.15:
        key = rng.choice(
            ("duration", "drones.start", "drones[0].vehicle", "drones.tasks.speed", "wind", "x.y", "a[", "")
        )
        settings, changes = mutate_document({key: 1.0}, rng)
        text = toml(base)
    else:
        text, changes = mutate_toml(base, rng)
    return Case((text.encode("utf-8", "surrogatepass"), files, settings), tuple(changes))


def read(case_input: tuple[bytes, dict[str, bytes], dict[str, Any]], folder: Path) -> Any:
    """Load the scenario, and evaluate the references of its drones."""
    data, files, settings = case_input
    for name, content in {**_files(), **files}.items():
        (folder / name).write_bytes(content)
    (folder / "scenario.toml").write_bytes(data)
    scenario = load_scenario(folder / "scenario.toml", settings)
    return _numbers(scenario)


def _numbers(scenario: Scenario) -> Any:
    flown = []
    for drone in scenario.drones[:3]:
        ends = [0.0, 0.1, 1.0, min(drone.task.duration, scenario.duration)]
        flown += [np.array([*map(float, drone.task.evaluate(t).p_W), float(drone.task.evaluate(t).yaw)]) for t in ends]
    return scenario, flown


SCENARIOS = Reader("scenario", seeds, make, read, (ScenarioError,), share=8)
