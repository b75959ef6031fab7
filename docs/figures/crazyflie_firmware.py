"""The Crazyflie firmware's controllers beside Samara's: a step, a gust and a figure of eight, as tables and a picture.

`PYTHONPATH=docs python -m figures.crazyflie_firmware docs/images` draws the picture of the documentation and prints its
tables. It needs `cffirmware`, built from Bitcraze's crazyflie-firmware.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import samara
from samara.comparison.controllers import SETTLE_TIME, Comparison, compare_on_trajectory
from samara.control.crazyflie_firmware.motors import NAMES
from samara.core.algebra import Vec3
from samara.core.atomic_files import atomic_write
from samara.plan import trajectory
from samara.record.run import Run
from samara.scenario.autopilot_sensors import apply_firmware_rate
from samara.scenario.events import Event, at, wind_step
from samara.scenario.scenario import Drone, Scenario
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import samara_style

SAMARA_CONTROLLERS = ("pid", "geometric", "mellinger", "lqr", "indi", "mpc")
DRAWN_CONTROLLERS = ("pid", "geometric", "indi", "mpc", *NAMES)
HEIGHT, STEP, WIND, SPEED = 3.0, 1.0, 2.0, 1.0
DURATION = 10.0
GUST_START = 1.0  # [s], start of the gust
SETTLING_BAND = 0.05  # [m]


def fly_task(controller: str, step: float, events: tuple[Event, ...] = ()) -> Run:
    """Fly from hover with a reference `ahead` metres ahead from the first instant."""
    start = Vec3(0.0, 0.0, HEIGHT)
    task = trajectory.hover(start + Vec3(step, 0.0, 0.0), duration=DURATION)
    drone = Drone("drone", samara.vehicle("crazyflie"), task, start, airborne=True, controller=controller)
    return samara.fly(apply_firmware_rate(Scenario(controller, (drone,), DURATION, events=events)))


def step_metrics(run: Run) -> list[str]:
    """Return time to 90 % [s], overshoot [%], settling time within 5 cm [s] and final error [mm]."""
    x, outside_rows = run.position[:, 0], np.flatnonzero(run.error > SETTLING_BAND)
    reached = run.time[int(np.argmax(x >= 0.9 * STEP))]
    settled = math.inf if outside_rows[-1] + 1 == len(run.time) else run.time[outside_rows[-1] + 1]
    overshoot = max(0.0, float(x.max()) / STEP - 1.0)
    return [f"{reached:.2f}", f"{100.0 * overshoot:.1f}", f"{settled:.2f}", f"{1e3 * run.error[-1]:.1f}"]


def gust_metrics(run: Run) -> list[str]:
    """Return largest error and final error [mm], and largest tilt [deg]."""
    in_gust = run.time >= GUST_START
    tilt = np.degrees(np.arccos(1.0 - 2.0 * (run.attitude[:, 1] ** 2 + run.attitude[:, 2] ** 2)))
    return [f"{1e3 * run.error[in_gust].max():.0f}", f"{1e3 * run.error[-1]:.1f}", f"{tilt.max():.1f}"]


def markdown_table(headings: Sequence[str], cells: dict[str, list[str]]) -> str:
    """Format a Markdown table."""
    lines = [["controller", *headings], ["---"] * (len(headings) + 1), *([name, *row] for name, row in cells.items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tracking_metrics(entries: Comparison) -> dict[str, list[str]]:
    """Return RMSE and largest error [mm] in each wind."""
    cells: dict[str, list[str]] = {}
    for entry in entries:
        errors = ["crashed", ""] if entry.crashed else [f"{1e3 * entry.rmse:.1f}", f"{1e3 * entry.max_error:.1f}"]
        cells.setdefault(entry.controller, []).extend(errors)
    return cells


def draw(path: Path, steps: dict[str, Run], gusts: dict[str, Run], eights: Comparison) -> None:
    """Plot the step response, the deviation in a gust, and the error along the figure of eight."""
    with samara_style() as plt:
        figure, (step, gust, eight) = plt.subplots(1, 3, figsize=(15.0, 4.6), layout="constrained")
        styles: dict[str, dict[str, Any]] = {
            name: {"color": COLOURS[k % len(COLOURS)], "linestyle": "-" if name in NAMES else (0, (4, 1.5))}
            for k, name in enumerate(DRAWN_CONTROLLERS)
        }
        step.axhline(STEP, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
        for name, style in styles.items():
            label = name.replace("crazyflie_", "firmware's ")
            step.plot(steps[name].time, steps[name].position[:, 0], label=label, linewidth=1.4, **style)
            gust.plot(gusts[name].time - GUST_START, 1e3 * gusts[name].position[:, 0], linewidth=1.4, **style)
        for entry in eights:
            if entry.controller in styles and entry.wind == "0 m/s" and not entry.crashed:
                error_mm = 1e3 * np.maximum(entry.run.error, 1e-6)
                eight.semilogy(entry.run.time - SETTLE_TIME, error_mm, linewidth=1.2, **styles[entry.controller])
        step.set(title=f"Step of {STEP:g} m", xlabel="time [s]", ylabel="x [m]", xlim=(0.0, 5.0))
        gust.set(
            title=f"Step of the wind to {WIND:g} m/s",
            xlabel="time [s]",
            ylabel="x [mm]",
            xlim=(-0.5, DURATION - GUST_START),
        )
        eight.set(title=f"Figure of eight at {SPEED:g} m/s", xlabel="time [s]", ylabel="error [mm]")
        eight.set(xlim=(0.0, None), ylim=(0.1, 2e3))
        step.legend(loc="lower right", fontsize=8)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def main(folder: Path) -> None:
    """Fly all flights, print three tables and draw the picture."""
    names = (*SAMARA_CONTROLLERS, *NAMES)
    steps = {name: fly_task(name, STEP) for name in names}
    print(
        markdown_table(
            ("to 0.9 m [s]", "overshoot [%]", "within 5 cm [s]", "final [mm]"),
            {n: step_metrics(r) for n, r in steps.items()},
        )
    )
    gust = (Event(at(GUST_START), wind_step(Vec3(WIND, 0.0, 0.0))),)
    gusts = {name: fly_task(name, 0.0, gust) for name in names}
    print(markdown_table(("largest [mm]", "final [mm]", "tilt [deg]"), {n: gust_metrics(r) for n, r in gusts.items()}))
    eights = compare_on_trajectory(samara.vehicle("crazyflie"), names, speed=SPEED, winds=(0.0, WIND))
    print(
        markdown_table(
            ("RMSE [mm]", "largest [mm]", "RMSE in wind [mm]", "largest in wind [mm]"), tracking_metrics(eights)
        )
    )
    draw(folder / "crazyflie-firmware.png", steps, gusts, eights)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
