"""Picture of propwash: the flow below a rotor, and the vibration in a descent.

`PYTHONPATH=docs python -m figures.propwash docs/images` draws the picture of the documentation.
"""

from pathlib import Path
from typing import Any

import numpy as np

from samara.core.algebra import Vec3
from samara.core.atomic_files import atomic_write
from samara.physics.air.propwash import ring_strength, wake_flow
from samara.physics.rotors.inflow import hover_induced, induced_ratio
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.plan import trajectory
from samara.record.run import Run
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.vehicles.build import switch_on
from samara.vehicles.loader import vehicle
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import samara_style
from samara.wind.sources import Constant

RATIOS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)
SHOWN_RATIOS = (0.2, 0.8)
START_POSITION = Vec3(0.0, 0.0, 20.0)


def draw_propwash(path: str | Path) -> None:
    """Plot flow and gust strength over the descent speed, two descents over time, and the rates of many."""
    with samara_style() as plt:
        figure, (flow, time, shaking) = plt.subplots(
            1, 3, figsize=(13.0, 4.3), layout="constrained", width_ratios=(1.1, 1.0, 0.9)
        )
        _flow(flow)
        _descents(time, shaking)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def _flow(axes: Any) -> None:
    x = np.linspace(1.5, -4.0, 600)
    v = induced_ratio(x, 0.0 * x)
    for k, (distance, label) in enumerate(((0.0, "in the disc"), (0.25, "R/4 below it"), (1e3, "far below"))):
        axes.plot(x, wake_flow(v, x, 1.0, radius=1.0, distance=distance), color=COLOURS[k], label=label)
    axes.plot(x, x, color=INK, linewidth=0.8, linestyle="--", label="no rotor")
    gusts = ring_strength(x, 0.0 * x)
    axes.fill_between(x, -4.4, -4.4 + gusts, color=COLOURS[4], alpha=0.5, linewidth=0.0, label="strength of gusts")
    axes.axhline(0.0, color=INK, linewidth=0.6)
    axes.set(title="Air flow below a rotor", xlabel="climb speed [v_h]", ylabel="downward flow [v_h]")
    axes.set(xlim=(-4.0, 1.5), ylim=(-4.4, 3.2))
    axes.legend(loc="upper left")


def _descents(time: Any, shaking: Any) -> None:
    straight, slanted = [], []
    for ratio in RATIOS:
        run = descent(ratio)
        straight.append(_rates(run).std(axis=0).max())
        slanted.append(_rates(descent(ratio, 1.0)).std(axis=0).max())
        if ratio in SHOWN_RATIOS:
            settled = run.time > 4.0
            k = SHOWN_RATIOS.index(ratio)
            time.plot(
                run.time[settled] - 4.0,
                np.degrees(_rates(run)[:, 0]),
                color=COLOURS[k],
                linewidth=1.0,
                label=f"{ratio:g} v_h",
            )
    time.set(title="Roll rate of a hexarotor in descent", xlabel="time [s]", ylabel="roll rate [°/s]", xlim=(0.0, 4.0))
    time.margins(y=0.12)
    time.legend(loc="upper right", ncols=2)
    shaking.plot(RATIOS, np.degrees(straight), "o-", color=COLOURS[1], markersize=4, label="straight down")
    shaking.plot(RATIOS, np.degrees(slanted), "s-", color=COLOURS[0], markersize=4, label="and forward at v_h")
    shaking.set(
        title="Standard deviation", xlabel="descent speed [v_h]", ylabel="roll or pitch rate [°/s]", xlim=(0.0, 1.65)
    )
    shaking.set_ylim(0.0, None)
    shaking.legend(loc="upper left")


def descent(ratio: float, forward: float = 0.0, seconds: float = 8.0) -> Run:
    """Fly a stationary hexarotor in rising air: a descent relative to the air at a fraction of v_h."""
    hexarotor = switch_on(switch_on(vehicle("hexarotor_x"), "rotor_air"), "propwash")
    thrust_per_rotor = hexarotor.mass * hexarotor["gravity"].acceleration / len(hexarotor.rotors)
    v_h = float(hover_induced(thrust_per_rotor, SEA_LEVEL_DENSITY, hexarotor.rotors[0].radius))
    drone = Drone("hexarotor", hexarotor, trajectory.hover(START_POSITION), START_POSITION, airborne=True)
    wind = Constant(Vec3(-forward * v_h, 0.0, ratio * v_h))
    return fly(Scenario("descent", (drone,), seconds, seed=1, wind=wind))


def _rates(run: Run) -> Any:
    return run.drone_records[0].angular_velocity[run.time > 4.0, :2]
