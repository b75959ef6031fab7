"""How long one RK4 step takes: in plain Python, and traced once through CasADi and called from Python.

Prints a table and writes bench/results/latest.json. Times are medians over many calls on one core of whatever machine
this runs on; compare only what was measured together.
"""

import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import casadi
import numpy as np
from rich.console import Console
from rich.table import Table

import samara
from samara.arrays import flatten, unflatten
from samara.files import write_text
from samara.integrate import rk4
from samara.physics.multirotor import derivative

VEHICLES = ("rigid_body_quadrotor", "crazyflie", "hakoniwa", "iris", "octorotor_x")
DT = 1e-3
SECONDS_EACH = 0.5
RESULTS = Path(__file__).parent / "results" / "latest.json"


def median_time(step: Callable[[Any], Any], start: Any) -> float:
    """Seconds per call of x ← step(x), each call timed on its own."""
    x = step(start)
    times = []
    until = time.perf_counter() + SECONDS_EACH
    while time.perf_counter() < until:
        before = time.perf_counter()
        x = step(x)
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def traced_step(vehicle: samara.Vehicle, state: samara.State, command: tuple[float, ...]) -> casadi.Function:
    """The same source, unrolled once into a flat list of instructions."""
    x = casadi.SX.sym("x", len(flatten(state)))
    symbolic = unflatten(state, iter(casadi.vertsplit(x)))
    advanced = rk4(lambda s: derivative(s, command, vehicle), symbolic, DT)
    return casadi.Function("step", [x], [casadi.cse(casadi.vertcat(*flatten(advanced)))])


def measure(name: str) -> dict[str, Any]:
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    traced = traced_step(vehicle, state, command)
    return {
        "vehicle": name,
        "python_us": 1e6 * median_time(lambda s: samara.step(s, command, vehicle, DT), state),
        "casadi_us": 1e6 * median_time(traced, casadi.DM(np.array(flatten(state), dtype=float))),
        "instructions": traced.n_instructions(),
    }


def main() -> None:
    rows = [measure(name) for name in VEHICLES]
    table = Table(title=f"One RK4 step of {DT:g} s, one core, median")
    for heading in ("vehicle", "Python", "steps/s", "CasADi", "steps/s", "instructions"):
        table.add_column(heading, justify="left" if heading == "vehicle" else "right")
    for row in rows:
        cells = [f"{row[key]:.1f} µs,{1e6 / row[key]:.0f}".split(",") for key in ("python_us", "casadi_us")]
        table.add_row(row["vehicle"], *cells[0], *cells[1], str(row["instructions"]))
    Console().print(table)
    report = {
        "schema": 1,
        "samara": samara.__version__,
        "python": platform.python_version(),
        "casadi": casadi.__version__,
        "steps": rows,
    }
    write_text(RESULTS, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
