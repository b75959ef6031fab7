"""Calls of the public interface with arguments of wrong types and values.

Equations such as `derivative` and `step` accept every scalar that a backend computes with: they check nothing on
purpose, and are not included.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import samara
from samara.control.registry import controller_spec
from samara.plan import trajectory
from samara.scenario import events
from samara.scenario.autopilot import Autopilot
from samara.scenario.timeline import Rates
from samara.sensors.registry import part
from samara.vehicles.build import ContactShape
from samara.wind import sources as wind
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.turbulence import Dryden
from samara.wind.wind_field import RecordedWind, WindField
from samara.world.obstacles import HeightMap

from .law import Case, Reader
from .nasty import nasty_object


class Call(NamedTuple):
    """A function by its name, and valid arguments."""

    function: Callable[..., Any]
    arguments: dict[str, Any]


@lru_cache
def _vehicle() -> Any:
    return samara.vehicle("iris")


def _trajectory_numbers(create: Callable[..., Any]) -> Callable[..., Any]:
    """Return its duration, and its references at a few times."""

    def evaluate(**arguments: Any) -> Any:
        path = create(**arguments)
        ends = (0.0, 0.3, min(path.duration, 1e3))
        return path.duration, [[float(x) for x in (*path.evaluate(t).p_W, path.evaluate(t).yaw)] for t in ends]

    return evaluate


@lru_cache
def calls() -> dict[str, Call]:
    """Return one valid call of each function."""
    iris = _vehicle()
    centre, points = {"centre_W": (0, 0, 2)}, [(0, 0, 1), (1, 0, 1), (1, 1, 2)]
    resting, rotors = samara.hover(iris)[0], samara.vehicle("crazyflie").rotors
    return {
        "vehicle": Call(samara.vehicle, {"name_or_path": "iris", "mass": 1.6}),
        "build_vehicle": Call(
            samara.build_vehicle,
            {
                "name": "own",
                "mass": 1.0,
                "inertia": (0.01, 0.01, 0.02),
                "rotors": rotors,
                "effects": {"gravity": {"acceleration": 9.8}},
                "contact": ContactShape([(0.0, 0.0, -0.1)], friction=0.8),
            },
        ),
        "Vehicle.__getitem__": Call(lambda effect: iris[effect], {"effect": "gravity"}),
        "switch_on": Call(samara.switch_on, {"vehicle": iris, "effect": "ground_effect"}),
        "hover": Call(samara.hover, {"vehicle": iris, "p_W": (0, 0, 1)}),
        "thrust_to_weight": Call(samara.thrust_to_weight, {"vehicle": iris}),
        "compile": Call(
            _compile_options, {"vehicle": iris, "backend": "llvm", "dtype": "float64", "integrator": "rk4"}
        ),
        "load_scenario": Call(samara.load_scenario, {"name_or_path": "hover", "settings": {"duration": 1.0}}),
        "State.from_numpy": Call(samara.State.from_numpy, {"x": resting.to_numpy(), "layout": "wxyz", "vehicle": iris}),
        "part": Call(part, {"name_or_path": "bmp388", "noise": 1.0}),
        "tuned": Call(
            partial(controller_spec, "geometric"), {"position": 2.0, "attitude": (12.0, 12.0, 4.0), "tilt_deg": 30.0}
        ),
        "Rates": Call(lambda **rates: Rates(**rates).periods(), {"physics": 1000.0, "log": 100.0}),
        "Autopilot": Call(Autopilot, {"type": "px4", "rate": 250.0, "instance": 0, "hover": 0.5, "patience": 1.0}),
        "HeightMap": Call(HeightMap, {"x": [0, 1], "y": [0, 1], "z": [[0, 0], [0, 1]]}),
        "trajectory.hover": Call(
            _trajectory_numbers(trajectory.hover), {"p_W": (0, 0, 2), "duration": 2.0, "yaw": 0.1}
        ),
        "trajectory.waypoints": Call(
            _trajectory_numbers(trajectory.waypoints), {"points": points, "speed": 1.0, "hold_time": 0.5, "yaw": 0.1}
        ),
        "trajectory.line": Call(
            _trajectory_numbers(trajectory.line), {"start_W": (0, 0, 2), "end_W": (2, 0, 2), "speed": 1.0}
        ),
        "trajectory.circle": Call(
            _trajectory_numbers(trajectory.circle),
            {**centre, "radius": 1.0, "speed": 1.0, "laps": 2.0, "start_angle": 0.1},
        ),
        "trajectory.helix": Call(
            _trajectory_numbers(trajectory.helix),
            {**centre, "radius": 1.0, "height_per_turn": 1.0, "turns": 2, "speed": 1.0},
        ),
        "trajectory.figure8": Call(
            _trajectory_numbers(trajectory.figure8), {**centre, "half_length": 1.0, "speed": 1.0, "laps": 1.0}
        ),
        "trajectory.lissajous": Call(
            _trajectory_numbers(trajectory.lissajous),
            {**centre, "amplitude": (1, 1, 0), "frequency": (1, 2, 1), "speed": 1.0},
        ),
        "trajectory.race": Call(
            _trajectory_numbers(trajectory.race),
            {"gates": points, "speed": 3.0, "closed": True, "laps": 1.0, "order": 4},
        ),
        "trajectory.through": Call(
            _trajectory_numbers(trajectory.minimum_snap), {"points": points, "durations": [1.0, 1.0], "order": 4}
        ),
        "events.at": Call(events.at, {"time": 1.0}),
        "events.at_step": Call(events.at_step, {"step": 3}),
        "events.when": Call(events.when, {"condition": "height > 1", "drone": "one"}),
        "events.go_to": Call(events.go_to, {"p_W": (0, 0, 1), "speed": 1.0}),
        "events.take_off": Call(events.take_off, {"height": 1.0, "speed": 1.0}),
        "events.gust": Call(events.gust, {"amplitude_W": (1, 0, 0), "duration": 1.0}),
        "events.degrade_motor": Call(events.degrade_motor, {"motor": 1, "effectiveness": 0.5}),
        "events.fail_cell": Call(events.fail_cell, {"cells": 4}),
        "events.add_payload": Call(events.add_payload, {"mass": 0.1, "r_B": (0, 0, 0)}),
        "wind.Constant": Call(wind.Constant, {"wind_W": (1, 0, 0)}),
        "wind.Step": Call(wind.WindStep, {"after_W": (1, 0, 0), "at": 1.0}),
        "wind.Gust": Call(wind.Gust, {"amplitude_W": (1, 0, 0), "start": 1.0, "duration": 1.0}),
        "wind.OrnsteinUhlenbeck": Call(wind.OrnsteinUhlenbeck, {"mean_W": (1, 0, 0), "sigma": 0.6, "tau": 2.0}),
        "PowerLaw": Call(PowerLaw, {"wind_W": (3, 0, 0), "reference_height": 10.0, "exponent": 0.2}),
        "LogLaw": Call(LogLaw, {"wind_W": (3, 0, 0), "roughness": 0.1}),
        "Dryden": Call(Dryden, {"mean": (3, 0, 0), "sigma_aloft": 1.0}),
        "Field": Call(WindField, {"x": [0, 1], "y": [0, 1], "z": [0, 1], "wind_W": np.ones((2, 2, 2, 3))}),
        "Replay": Call(RecordedWind, {"times": [0, 1], "wind_W": [[1, 0, 0], [0, 1, 0]]}),
    }


def _compile_options(**options: Any) -> None:
    """Check the options that are refused before compilation; valid options are compiled only as a seed."""
    if options == calls()["compile"].arguments:
        return
    samara.compile(**options)


def seeds() -> list[Case]:
    """Return the valid calls."""
    return [Case((name, call.arguments)) for name, call in calls().items()]


def make(rng: Random) -> Case:
    """Create a call with one or two wrong arguments, sometimes with an unknown one."""
    name = rng.choice(sorted(calls()))
    arguments = dict(calls()[name].arguments)
    changes = []
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(sorted(arguments)) if rng.random() < 0.97 else "unknown"
        value = nasty_object(rng)
        if key == "name_or_path" and isinstance(value, str) and value.startswith(("/", "..")):
            value = "nothing.toml"  # a caller may read any file
        old = arguments.get(key)
        if isinstance(old, (list, tuple)) and old and rng.random() < 0.5:  # an entry of it
            k = rng.randrange(len(old))
            value = type(old)([*old[:k], value, *old[k + 1 :]]) if type(old) in (list, tuple) else value
        arguments[key] = value
        changes.append(f"{name}({key}={value!r:.80})")
    return Case((name, arguments), tuple(changes))


def read(call: tuple[str, dict[str, Any]], folder: Path) -> Any:
    """Call the function and return its result."""
    name, arguments = call
    return calls()[name].function(**arguments)


CALLS = Reader(
    "call", seeds, make, read, (ValueError, TypeError, KeyError),
    lines=True, pythons=(TypeError, AttributeError), strangers=False, share=5,
)  # fmt: skip
