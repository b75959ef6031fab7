"""Pictures of the conventions, drawn from the functions and tables that the code itself uses: they cannot disagree with it.

`PYTHONPATH=docs python -m figures.conventions docs/images` draws all of them.
"""

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Polygon
from matplotlib.path import Path as Outline

from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.core.atomic_files import atomic_write
from samara.physics.frames import attitude_enu_flu_from_ned_frd, enu_from_ned
from samara.vehicles.rotor_numbering import CCW, NUMBERINGS, Numbering
from samara.vehicles.shape import COLOURS, GRID, INK
from samara.view.plot.style import samara_style

_SPIN_COLOURS = {CCW: COLOURS[0], -CCW: COLOURS[1]}
_DISC = {"quad_x": 0.46, "hexa_x": 0.36, "octo_x": 0.3}  # radius of a rotor, of its arm: neighbours do not touch


def draw_conventions(folder: str | Path) -> None:
    """All pictures of this file into one folder."""
    folder = Path(folder)
    draw_numberings(("quad_x",), folder / "numbering-quad.png", columns=5)
    draw_numberings(("hexa_x", "octo_x"), folder / "numbering-hexa-octo.png", columns=3)
    draw_frames(folder / "frames.png")
    draw_angles(folder / "angles.png")


def _save(figure: Any, path: str | Path, description: str) -> None:
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Description": description})


# Rotor numbers -----------------------------------------------------------------------------------------------------


def described(frames: Sequence[str]) -> str:
    """The same numbers in words, which travel in the picture file: 'PX4 quad_x: 1 FR ccw, 2 BL ccw, …'"""
    return "\n".join(
        f"{numbering.title} {frame}: "
        + ", ".join(
            f"{numbering.first + i} {place.name} {'ccw' if place.spin == CCW else 'cw'}"
            for i, place in enumerate(numbering.places)
        )
        for frame in frames
        for numbering in NUMBERINGS[frame].values()
    )


def _alike(frame: str) -> list[tuple[str, Numbering]]:
    """Systems that count alike share a panel."""
    titles: dict[Any, list[str]] = {}
    for numbering in NUMBERINGS[frame].values():
        titles.setdefault((numbering.first, numbering.places), []).append(numbering.title)
    return [(" and ".join(own), Numbering(own[0], first, places, "")) for (first, places), own in titles.items()]


def draw_numberings(frames: Sequence[str], path: str | Path, columns: int) -> None:
    """One panel for each way of counting, seen from above, forward at the top."""
    panels = [(frame, title, numbering) for frame in frames for title, numbering in _alike(frame)]
    rows = math.ceil(len(panels) / columns)
    with samara_style() as plt:
        figure, grid = plt.subplots(rows, columns, figsize=(2.6 * columns, 2.95 * rows + 0.3), layout="constrained")
        for axes, (frame, title, numbering) in zip(np.ravel(grid), panels, strict=True):
            numbering_panel(axes, frame, title, numbering)
        handles = [
            Line2D([], [], marker="o", linestyle="", markersize=9, color=_SPIN_COLOURS[spin], label=label)
            for spin, label in ((CCW, "counter-clockwise, seen from above"), (-CCW, "clockwise"))
        ]
        handles.append(Line2D([], [], marker="^", linestyle="", markersize=9, color=INK, label="forward"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        _save(figure, path, described(frames))


def numbering_panel(axes: Any, frame: str, title: str, numbering: Numbering) -> None:
    """Rotors in their places with the number the system gives them; the page's up is forward."""
    axes.text(0.0, 1.8, title, ha="center", fontsize=10, fontweight="bold")
    axes.text(0.0, 1.58, frame.replace("_", " ").title(), ha="center", fontsize=8.5)
    for i, place in enumerate(numbering.places):
        azimuth = math.radians(place.azimuth_deg)
        x, y = -math.sin(azimuth), math.cos(azimuth)  # left of the body is left of the page
        axes.plot([0.0, x], [0.0, y], color=INK, linewidth=2.5, zorder=1)
        colour = _SPIN_COLOURS[place.spin]
        radius = _DISC[frame]
        axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor="none", zorder=2))
        axes.add_patch(Circle((x, y), radius, facecolor=colour, alpha=0.16, edgecolor="none", zorder=3))
        _arrow(axes, spin_arc(x, y, 0.86 * radius, place.spin), colour)
        axes.text(
            x,
            y,
            str(numbering.first + i),
            ha="center",
            va="center",
            fontsize=15,
            fontweight="bold",
            color=colour,
            zorder=5,
        )
    axes.add_patch(Polygon([(-0.13, -0.16), (0.13, -0.16), (0.0, 0.24)], closed=True, facecolor=INK, zorder=4))
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.4, 2.0), aspect="equal")
    axes.axis("off")


def spin_arc(x: float, y: float, radius: float, spin: int) -> Any:
    """Points (n, 2) along most of a circle, in the order in which the rotor's blades pass them."""
    turn = np.radians(np.linspace(-60.0, 230.0, 60))
    return np.stack([x + spin * radius * np.cos(turn), y + radius * np.sin(turn)], axis=1)


def _arrow(axes: Any, points: Any, colour: str, width: float = 1.8) -> None:
    axes.add_patch(
        FancyArrowPatch(
            path=Outline(points),
            arrowstyle="-|>",
            mutation_scale=11,
            color=colour,
            linewidth=width,
            zorder=6,
            fill=False,
        )
    )


# Axes and angles ---------------------------------------------------------------------------------------------------


class _Convention(NamedTuple):
    """A choice of world and body axes, told by where its unit vectors and attitudes lie in ENU and FLU."""

    title: str
    world: tuple[str, str, str]
    body: tuple[str, str, str]
    to_enu: Callable[[Vec3], Vec3]
    to_enu_flu: Callable[[Quat], Quat]


def _same(value: Any) -> Any:
    return value


_CONVENTIONS = (
    _Convention("Inside: ENU, FLU", ("x east", "y north", "z up"), ("x forward", "y left", "z up"), _same, _same),
    _Convention(
        "Outside: NED, FRD",
        ("x north", "y east", "z down"),
        ("x forward", "y right", "z down"),
        enu_from_ned,
        attitude_enu_flu_from_ned_frd,
    ),
)
_UNITS = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))
_CORNERS = ((0.7, 0.7), (0.7, -0.7), (-0.7, -0.7), (-0.7, 0.7))


def _seen(points: Any, right: Any, up: Any) -> Any:
    """Parallel projection of points in ENU onto the page."""
    points = np.asarray(points, dtype=float)
    return np.stack([points @ np.asarray(right), points @ np.asarray(up)], axis=-1)


def _turned(q: Quat, points: Any) -> Any:
    return np.array([rotate(q, Vec3(*map(float, point))) for point in points])


def _draw_drone(axes: Any, q: Quat, origin: Any, right: Any, up: Any, colour: str, size: float = 1.0) -> None:
    """Arms, rotors and nose of a drone with attitude q (ENU, FLU); the front rotors are filled."""

    def place(points: Any) -> Any:
        return _seen(_turned(q, np.asarray(points) * size) + np.asarray(origin), right, up)

    for x, y in _CORNERS:
        axes.plot(*place([(0.0, 0.0, 0.0), (x, y, 0.0)]).T, color=colour, linewidth=2.2, solid_capstyle="round")
    around = np.linspace(0.0, 2.0 * math.pi, 49)
    for x, y in _CORNERS:
        rim = place(np.stack([x + 0.42 * np.cos(around), y + 0.42 * np.sin(around), 0.06 + 0.0 * around], axis=1))
        axes.fill(*rim.T, facecolor=colour, alpha=0.28 if x > 0 else 0.07, linewidth=0)
        axes.plot(*rim.T, color=colour, linewidth=1.1)
    axes.fill(*place([(0.62, 0.0, 0.0), (-0.1, 0.16, 0.0), (-0.1, -0.16, 0.0)]).T, color=colour, linewidth=0)


def draw_frames(path: str | Path) -> None:
    """World and body axes of both conventions at the attitude q = 1: there the body's axes are the world's."""
    azimuth, elevation = math.radians(-62.0), math.radians(27.0)
    right = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    up = np.array(
        [-math.sin(elevation) * math.cos(azimuth), -math.sin(elevation) * math.sin(azimuth), math.cos(elevation)]
    )
    with samara_style() as plt:
        figure, both = plt.subplots(1, 2, figsize=(11.0, 4.3), layout="constrained")
        for axes, own in zip(both, _CONVENTIONS, strict=True):
            q = own.to_enu_flu(Quat(1.0, 0.0, 0.0, 0.0))
            body, world = np.array([0.0, 0.0, 0.9]), np.array(right) * -3.1 - np.array(up) * 0.6
            _draw_ground(axes, right, up)
            _draw_drone(axes, q, body, right, up, INK)
            for k, unit in enumerate(_UNITS):
                along = np.array(own.to_enu(unit), dtype=float)
                for origin, names, length in ((world, own.world, 1.25), (body, own.body, 1.75)):
                    _draw_axis(axes, origin, along * length, right, up, COLOURS[k], names[k])
            for point, name in ((world, "world"), (body - 1.3 * right, "body")):
                foot = _seen(point, right, up) - (0.18, 0.0)
                axes.text(*foot, name, ha="right", va="center", style="italic", fontsize=9)
            nose = np.array(rotate(q, Vec3(1.0, 0.0, 0.0)), dtype=float)
            facing = "east" if nose[0] > 0.5 else "north"
            axes.set_title(f"{own.title}     q = 1 faces {facing}")
            axes.set(xlim=(-4.1, 3.1), ylim=(-2.15, 2.9), aspect="equal")
            axes.axis("off")
        _save(figure, path, "World and body axes: ENU with FLU, NED with FRD, both at the attitude q = 1")


def _draw_ground(axes: Any, right: Any, up: Any) -> None:
    for offset in np.linspace(-1.8, 1.8, 7):
        for line in (((offset, -1.8, -0.6), (offset, 1.8, -0.6)), ((-1.8, offset, -0.6), (1.8, offset, -0.6))):
            axes.plot(*_seen(line, right, up).T, color=GRID, linewidth=0.8, zorder=0)


def _draw_axis(axes: Any, origin: Any, along: Any, right: Any, up: Any, colour: str, name: str) -> None:
    foot, tip = _seen([origin, origin + along], right, up)
    _arrow(axes, [foot, tip], colour, width=2.2)
    beyond = (tip - foot) / np.linalg.norm(tip - foot)
    axes.text(
        *(tip + 0.1 * beyond),
        name,
        color=colour,
        fontsize=10,
        fontweight="bold",
        zorder=7,
        ha="left" if beyond[0] > 0.3 else "right" if beyond[0] < -0.3 else "center",
        va="bottom" if beyond[1] > 0.3 else "top" if beyond[1] < -0.3 else "center",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
    )


class _Turn(NamedTuple):
    """A positive angle, the point of the body (FLU) whose way shows it, and from where one looks (FLU, level)."""

    name: str
    angles: tuple[float, float, float]
    tip: Vec3
    seen_from: str
    right: Vec3
    up: Vec3


_ANGLE = math.radians(26.0)
_LOW, _HIGH = math.sin(math.radians(24.0)), math.cos(math.radians(24.0))  # looking down a little shows the rotors
_TURNS = (
    _Turn("roll", (_ANGLE, 0.0, 0.0), Vec3(0.0, -1.6, 0.0), "behind", Vec3(0.0, -1.0, 0.0), Vec3(_LOW, 0.0, _HIGH)),
    _Turn("pitch", (0.0, _ANGLE, 0.0), Vec3(1.6, 0.0, 0.0), "its right", Vec3(1.0, 0.0, 0.0), Vec3(0.0, _LOW, _HIGH)),
    _Turn("yaw", (0.0, 0.0, _ANGLE), Vec3(1.6, 0.0, 0.0), "above", Vec3(0.0, -1.0, 0.0), Vec3(1.0, 0.0, 0.0)),
)


def what_it_does(convention: int, turn: int) -> str:
    """'right side down', from where the tip of the body goes"""
    own, which = _CONVENTIONS[convention], _TURNS[turn]
    before, after = (
        rotate(own.to_enu_flu(quat_from_euler(*angles)), which.tip) for angles in ((0.0, 0.0, 0.0), which.angles)
    )
    if which.name == "yaw":
        return "counter-clockwise" if before.x * after.y - before.y * after.x > 0 else "clockwise"
    return ("right side " if which.name == "roll" else "nose ") + ("up" if after.z > before.z else "down")


def draw_angles(path: str | Path) -> None:
    """Positive roll, pitch and yaw in both conventions: level in grey, turned in ink."""
    with samara_style() as plt:
        figure, grid = plt.subplots(2, 3, figsize=(11.0, 6.6), layout="constrained")
        for row, own in enumerate(_CONVENTIONS):
            level = own.to_enu_flu(Quat(1.0, 0.0, 0.0, 0.0))
            for column, turn in enumerate(_TURNS):
                axes = grid[row, column]
                right, up = (np.array(rotate(level, v), dtype=float) for v in (turn.right, turn.up))
                steps = np.linspace(0.0, 1.0, 25)
                attitudes = [own.to_enu_flu(quat_from_euler(*(s * angle for angle in turn.angles))) for s in steps]
                _draw_drone(axes, level, np.zeros(3), right, up, "#b9c1c9")
                _draw_drone(axes, attitudes[-1], np.zeros(3), right, up, INK)
                way = [np.array(rotate(q, turn.tip), dtype=float) for q in attitudes]
                _arrow(axes, _seen(way, right, up), COLOURS[column], width=2.6)
                words = f"+{turn.name}: {what_it_does(row, column)}"
                axes.text(0.0, 1.85, words, ha="center", fontsize=11, fontweight="bold", color=COLOURS[column])
                axes.text(0.0, -1.75, f"seen from {turn.seen_from}", ha="center", fontsize=8, style="italic")
                axes.set(xlim=(-2.1, 2.1), ylim=(-1.85, 2.1), aspect="equal")
                axes.axis("off")
            grid[row, 0].text(
                -2.15, 0.0, own.title, rotation=90, ha="center", va="center", fontsize=11, fontweight="bold"
            )
        _save(figure, path, "Positive roll, pitch and yaw in ENU with FLU and in NED with FRD")


if __name__ == "__main__":
    draw_conventions(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
