"""Picture of a slung load: carried, swinging, released.

`PYTHONPATH=docs python -m figures.slung_load docs/images` draws the picture of the documentation.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.core.tree import unflatten
from samara.physics.multirotor import state_at_rest
from samara.physics.structure.slung_load import cable_rate, cable_tension
from samara.physics.types import State
from samara.record.run import DroneRecord, Run
from samara.vehicles.shape import COLOURS, INK, LOAD_COLOUR
from samara.view.plot.style import samara_style

Array = np.ndarray[Any, Any]
LEG = (4.0, 9.0)  # [s]: the first side of the square
CABLE_INTERVAL = 0.25  # [s] between two drawn cables


def draw_slung_load(run: Run, path: str | Path) -> None:
    """Plot the first side of the square from the side, and tension and angle of the cable over the whole flight."""
    track = run.drone_records[0]
    with samara_style() as plt:
        figure, grid = plt.subplot_mosaic(
            [["leg", "leg"], ["pull", "lean"]], figsize=(11.0, 6.4), layout="constrained", height_ratios=(1.15, 1.0)
        )
        _draw_leg(grid["leg"], track)
        _draw_tension(grid["pull"], track)
        _draw_angle(grid["lean"], track)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def cable_tensions(track: DroneRecord) -> Array:
    """T at every logged time, 0 after the release of the cable  [N]."""
    vehicle, load = track.vehicle, track.vehicle["slung_load"]
    state: State = unflatten(state_at_rest(vehicle), iter(track.tables["state"].rows.T))
    load_state = state.effects[vehicle.index("slung_load")]
    rate_W = cable_rate(load_state.v_W, state.q_WB, state.v_W, state.omega_B, attachment_B=load.attachment_B)
    attached = np.abs(track.cable[:, 1] - track.cable[:, 0]).max(axis=1) > 0.0
    tension: Array = cable_tension(load_state.cable_W, rate_W, load=load) * attached
    return tension


def _draw_leg(axes: Any, track: DroneRecord) -> None:
    time, ends = track.time, track.cable
    in_leg = (time >= LEG[0]) & (time <= LEG[1])
    axes.plot(*ends[in_leg][:, 0, ::2].T, color=COLOURS[0], label="drone")
    axes.plot(*ends[in_leg][:, 1, ::2].T, color=LOAD_COLOUR, label="load")
    for moment in np.arange(LEG[0], LEG[1] + 1e-9, CABLE_INTERVAL):
        k = int(np.searchsorted(time, moment))
        axes.plot(*ends[k, :, ::2].T, color=INK, linewidth=0.8)
        axes.plot(*ends[k, 0, ::2], "s", color=COLOURS[0], markersize=5)
        axes.plot(*ends[k, 1, ::2], "o", color=LOAD_COLOUR, markersize=5)
    axes.set(title="One side of the square, every 0.25 s", xlabel="x [m]", ylabel="height [m]")
    axes.set(aspect="equal", xlim=(-0.35, 6.6), ylim=(1.65, 3.4))
    axes.legend(loc="upper center", ncols=2)


def _draw_tension(axes: Any, track: DroneRecord) -> None:
    load, g = track.vehicle["slung_load"], track.vehicle["gravity"].acceleration
    axes.plot(track.time, cable_tensions(track), color=COLOURS[1], linewidth=1.0)
    axes.axhline(load.mass * g, color=INK, linewidth=0.8, linestyle="--")
    axes.text(34.0, load.mass * g + 0.08, "weight of the load", ha="right", va="bottom", fontsize=8)
    axes.annotate(
        "lifted with a jerk", (1.7, 0.9), (3.6, 0.9), va="center", fontsize=8, arrowprops={"arrowstyle": "->"}
    )
    axes.annotate(
        "released", (30.0, 0.9), (28.0, 0.9), ha="right", va="center", fontsize=8, arrowprops={"arrowstyle": "->"}
    )
    axes.set(title="Cable tension", xlabel="time [s]", ylabel="tension [N]", xlim=(0.0, 34.0), ylim=(-0.1, 4.6))


def _draw_angle(axes: Any, track: DroneRecord) -> None:
    s = track.cable[:, 1] - track.cable[:, 0]
    attached = np.abs(s).max(axis=1) > 0.0
    angle = np.degrees(np.arctan2(np.hypot(s[:, 0], s[:, 1]), -s[:, 2]))
    axes.plot(track.time[attached], angle[attached], color=COLOURS[0], linewidth=1.2)
    length, g = track.vehicle["slung_load"].length, track.vehicle["gravity"].acceleration
    period = 2.0 * math.pi * math.sqrt(length / g)
    axes.set(
        title=f"Angle of the cable (pendulum period {period:.1f} s)", xlabel="time [s]", ylabel="from the vertical [°]"
    )
    axes.set(xlim=(0.0, 34.0), ylim=(0.0, None))
