"""The picture and the report of a flight."""

from pathlib import Path
from typing import Any

import numpy as np

from samara.algebra import rotate
from samara.files import write_text, written_whole
from samara.mission import Flight
from samara.view.style import COLOURS, INK, samara_style


def draw_flight(flight: Flight, path: str | Path) -> None:
    """Position against reference, attitude, rotor speeds and the path in space, as one PNG."""
    with samara_style() as plt:
        figure = plt.figure(figsize=(13, 8), layout="constrained")
        grid = figure.add_gridspec(3, 2, width_ratios=(1.25, 1.0))
        position, attitude, rotors = (figure.add_subplot(grid[row, 0]) for row in range(3))
        _draw_position(position, flight)
        _draw_attitude(attitude, flight)
        _draw_rotors(rotors, flight)
        _draw_path(figure.add_subplot(grid[:, 1], projection="3d"), flight)
        for axes in (position, attitude, rotors):
            axes.set_xlim(flight.time[0], flight.time[-1])
            _mark_legs(axes, flight)
        _name_legs(attitude, flight)
        rotors.set_xlabel("time [s]")
        error = flight.summary()["final position error"]
        figure.suptitle(
            f"{flight.vehicle.name} · {flight.controller} control · final position error {error}",
            fontweight="bold",
            color=INK,
        )
        with written_whole(path) as temporary:
            figure.savefig(temporary, format="png")
        plt.close(figure)


def _draw_position(axes: Any, flight: Flight) -> None:
    for k, name in enumerate(("x east", "y north", "z up")):
        axes.plot(flight.time, flight.position[:, k], color=COLOURS[k], label=name)
        axes.plot(
            flight.time,
            flight.reference_position[:, k],
            color=COLOURS[k],
            linestyle=(0, (2, 2)),
            linewidth=1.0,
            alpha=0.8,
        )
    axes.plot([], [], color=INK, linestyle=(0, (2, 2)), linewidth=1.0, label="reference")
    axes.set_title("Position")
    axes.set_ylabel("[m]")
    _legend_above(axes, 4)


def _draw_attitude(axes: Any, flight: Flight) -> None:
    angles = np.degrees(flight.euler)
    for k, name in enumerate(("roll", "pitch", "yaw − 90°")):
        axes.plot(flight.time, angles[:, k] - (90.0 if k == 2 else 0.0), color=COLOURS[k], label=name)
    axes.set_title("Attitude")
    axes.set_ylabel("[°]")
    _legend_above(axes, 3)


def _draw_rotors(axes: Any, flight: Flight) -> None:
    if not flight.vehicle.rotors:
        axes.plot(flight.time, [command[0] for command in flight.commands], color=COLOURS[0], label="thrust")
        axes.set_title("Thrust")
        axes.set_ylabel("[N]")
        return
    for k in range(flight.rotor_speed.shape[1]):
        spin = "ccw" if flight.vehicle.rotors[k].spin > 0 else "cw"
        axes.plot(
            flight.time, flight.rotor_speed[:, k], color=COLOURS[k % len(COLOURS)], label=f"{k} {spin}", linewidth=1.1
        )
    axes.set_title("Rotor speeds")
    axes.set_ylabel("[rad/s]")
    _legend_above(axes, len(flight.vehicle.rotors))


def _legend_above(axes: Any, columns: int) -> None:
    """On the line of the title, where no curve can run through it."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=columns, borderaxespad=0.2, handlelength=1.5)


def _mark_legs(axes: Any, flight: Flight) -> None:
    start = 0.0
    for leg in flight.legs:
        axes.axvspan(start, start + leg.travel, color=INK, alpha=0.05, linewidth=0)
        start += leg.travel + leg.rest


def _name_legs(axes: Any, flight: Flight) -> None:
    start = 0.0
    for leg in flight.legs:
        axes.text(start + 0.1, 0.03, leg.name, transform=axes.get_xaxis_transform(), fontsize=8, style="italic")
        start += leg.travel + leg.rest


def _draw_path(axes: Any, flight: Flight) -> None:
    p = flight.position
    axes.plot(*flight.reference_position.T, color=INK, linestyle=(0, (2, 2)), linewidth=1.0, label="reference")
    axes.plot(*p.T, color=COLOURS[0], linewidth=2.0, label="flown")
    axes.plot(p[:, 0], p[:, 1], np.zeros(len(p)), color=INK, alpha=0.25, linewidth=1.0, label="shadow")
    low, high = p.min(axis=0), p.max(axis=0)
    middle, half = 0.5 * (low + high), 0.55 * float(max((high - low).max(), 1.0))
    for state in flight.states[:: max(1, len(flight.states) // 14)]:
        for k, axis in enumerate(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))):
            tip = np.array(rotate(state.q_WB, type(state.p_W)(*axis)), dtype=float) * 0.14 * half
            here = np.array(state.p_W, dtype=float)
            axes.plot(*np.stack([here, here + tip]).T, color=COLOURS[k], linewidth=1.3)
    axes.set(xlabel="x east [m]", ylabel="y north [m]", zlabel="z up [m]")
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_zlim(0.0, 2.0 * half)
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.9)
    axes.view_init(elev=18.0, azim=-62.0)
    axes.set_title("Path, with body axes (x forward, y left, z up)")
    axes.legend(loc="upper left")


def write_report(flight: Flight, path: str | Path, picture: str) -> None:
    """A page of Markdown: what was flown, how it went, how to repeat it."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in flight.summary().items())
    legs = "\n".join(
        f"{i}. {leg.name}: {leg.travel:g} s, then rest {leg.rest:g} s" for i, leg in enumerate(flight.legs, 1)
    )
    write_text(
        path,
        f"# Flight report\n\n{legs}\n\n| | |\n|---|---|\n{rows}\n\n![position, attitude, rotor speeds and path]({picture})\n\n"
        f"Repeat it with `samara fly --vehicle {flight.vehicle.name}`.\n",
    )
