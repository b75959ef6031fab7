"""Pictures of the conventions, drawn from the functions and tables of the code, so that they agree with it.

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
_DISC = {
    "quad_x": 0.46,
    "hexa_x": 0.36,
    "octo_x": 0.3,
}  # radius of a rotor relative to its arm: neighbours do not touch


def draw_conventions(folder: str | Path) -> None:
    """Draw all pictures of this module into one folder."""
    folder = Path(folder)
    draw_numberings(("quad_x",), folder / "numbering-quad.png", columns=5)
    draw_numberings(("hexa_x", "octo_x"), folder / "numbering-hexa-octo.png", columns=3)
    draw_frames(folder / "frames.png")
    draw_angles(folder / "angles.png")


def _save(figure: Any, path: str | Path, description: str) -> None:
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Description": description})


# Rotor numbers -----------------------------------------------------------------------------------------------------


def describe_numberings(frames: Sequence[str]) -> str:
    """Describe the numbering for the metadata of the picture: 'PX4 quad_x: 1 FR ccw, 2 BL ccw, …'."""
    return "\n".join(
        f"{numbering.title} {frame}: "
        + ", ".join(
            f"{numbering.first_number + i} {position.name} {'ccw' if position.spin == CCW else 'cw'}"
            for i, position in enumerate(numbering.rotors)
        )
        for frame in frames
        for numbering in NUMBERINGS[frame].values()
    )


def _group_numberings(frame: str) -> list[tuple[str, Numbering]]:
    """Group systems with the same numbering, which share a panel."""
    titles: dict[Any, list[str]] = {}
    for numbering in NUMBERINGS[frame].values():
        titles.setdefault((numbering.first_number, numbering.rotors), []).append(numbering.title)
    return [
        (" and ".join(system_titles), Numbering(system_titles[0], first, positions, ""))
        for (first, positions), system_titles in titles.items()
    ]


def draw_numberings(frames: Sequence[str], path: str | Path, columns: int) -> None:
    """Draw one panel per numbering, seen from above, forward at the top."""
    panels = [(frame, title, numbering) for frame in frames for title, numbering in _group_numberings(frame)]
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
        _save(figure, path, describe_numberings(frames))


def numbering_panel(axes: Any, frame: str, title: str, numbering: Numbering) -> None:
    """Draw the rotors with the indices of a system; forward is up."""
    axes.text(0.0, 1.8, title, ha="center", fontsize=10, fontweight="bold")
    axes.text(0.0, 1.58, frame.replace("_", " ").title(), ha="center", fontsize=8.5)
    for i, position in enumerate(numbering.rotors):
        azimuth = math.radians(position.azimuth_deg)
        x, y = -math.sin(azimuth), math.cos(azimuth)  # left of the body is left in the picture
        axes.plot([0.0, x], [0.0, y], color=INK, linewidth=2.5, zorder=1)
        colour = _SPIN_COLOURS[position.spin]
        radius = _DISC[frame]
        axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor="none", zorder=2))
        axes.add_patch(Circle((x, y), radius, facecolor=colour, alpha=0.16, edgecolor="none", zorder=3))
        _arrow(axes, spin_arc(x, y, 0.86 * radius, position.spin), colour)
        axes.text(
            x,
            y,
            str(numbering.first_number + i),
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
    """Return points (n, 2) along most of a circle, in the direction of spin."""
    angles = np.radians(np.linspace(-60.0, 230.0, 60))
    return np.stack([x + spin * radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)


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
    """Choice of world and body axes, defined by the transformations of its vectors and attitudes to ENU and FLU."""

    title: str
    world: tuple[str, str, str]
    body: tuple[str, str, str]
    to_enu: Callable[[Vec3], Vec3]
    to_enu_flu: Callable[[Quat], Quat]


def _identity(value: Any) -> Any:
    return value


_CONVENTIONS = (
    _Convention(
        "Inside: ENU, FLU", ("x east", "y north", "z up"), ("x forward", "y left", "z up"), _identity, _identity
    ),
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


def _project(points: Any, right: Any, up: Any) -> Any:
    """Project points in ENU onto the picture plane (parallel projection)."""
    points = np.asarray(points, dtype=float)
    return np.stack([points @ np.asarray(right), points @ np.asarray(up)], axis=-1)


def _rotate_points(q: Quat, points: Any) -> Any:
    return np.array([rotate(q, Vec3(*map(float, point))) for point in points])


def _draw_drone(axes: Any, q: Quat, origin: Any, right: Any, up: Any, colour: str, size: float = 1.0) -> None:
    """Draw arms, rotors and nose of a drone with attitude q (ENU, FLU); the front rotors are filled."""

    def project(points: Any) -> Any:
        return _project(_rotate_points(q, np.asarray(points) * size) + np.asarray(origin), right, up)

    for x, y in _CORNERS:
        axes.plot(*project([(0.0, 0.0, 0.0), (x, y, 0.0)]).T, color=colour, linewidth=2.2, solid_capstyle="round")
    angles = np.linspace(0.0, 2.0 * math.pi, 49)
    for x, y in _CORNERS:
        rim = project(np.stack([x + 0.42 * np.cos(angles), y + 0.42 * np.sin(angles), 0.06 + 0.0 * angles], axis=1))
        axes.fill(*rim.T, facecolor=colour, alpha=0.28 if x > 0 else 0.07, linewidth=0)
        axes.plot(*rim.T, color=colour, linewidth=1.1)
    axes.fill(*project([(0.62, 0.0, 0.0), (-0.1, 0.16, 0.0), (-0.1, -0.16, 0.0)]).T, color=colour, linewidth=0)


def draw_frames(path: str | Path) -> None:
    """Draw world and body axes of both conventions at the attitude q = 1, where the body axes coincide with the world's."""
    azimuth, elevation = math.radians(-62.0), math.radians(27.0)
    right = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    up = np.array(
        [-math.sin(elevation) * math.cos(azimuth), -math.sin(elevation) * math.sin(azimuth), math.cos(elevation)]
    )
    with samara_style() as plt:
        figure, panels = plt.subplots(1, 2, figsize=(11.0, 4.3), layout="constrained")
        for axes, convention in zip(panels, _CONVENTIONS, strict=True):
            q = convention.to_enu_flu(Quat(1.0, 0.0, 0.0, 0.0))
            body, world = np.array([0.0, 0.0, 0.9]), np.array(right) * -3.1 - np.array(up) * 0.6
            _draw_ground(axes, right, up)
            _draw_drone(axes, q, body, right, up, INK)
            for k, unit in enumerate(_UNITS):
                direction = np.array(convention.to_enu(unit), dtype=float)
                for origin, names, length in ((world, convention.world, 1.25), (body, convention.body, 1.75)):
                    _draw_axis(axes, origin, direction * length, right, up, COLOURS[k], names[k])
            for point, name in ((world, "world"), (body - 1.3 * right, "body")):
                label_position = _project(point, right, up) - (0.18, 0.0)
                axes.text(*label_position, name, ha="right", va="center", style="italic", fontsize=9)
            nose = np.array(rotate(q, Vec3(1.0, 0.0, 0.0)), dtype=float)
            facing = "east" if nose[0] > 0.5 else "north"
            axes.set_title(f"{convention.title}     q = 1 faces {facing}")
            axes.set(xlim=(-4.1, 3.1), ylim=(-2.15, 2.9), aspect="equal")
            axes.axis("off")
        _save(figure, path, "World and body axes: ENU with FLU, NED with FRD, both at the attitude q = 1")


def _draw_ground(axes: Any, right: Any, up: Any) -> None:
    for offset in np.linspace(-1.8, 1.8, 7):
        for line in (((offset, -1.8, -0.6), (offset, 1.8, -0.6)), ((-1.8, offset, -0.6), (1.8, offset, -0.6))):
            axes.plot(*_project(line, right, up).T, color=GRID, linewidth=0.8, zorder=0)


def _draw_axis(axes: Any, origin: Any, axis_vector: Any, right: Any, up: Any, colour: str, name: str) -> None:
    foot, tip = _project([origin, origin + axis_vector], right, up)
    _arrow(axes, [foot, tip], colour, width=2.2)
    direction = (tip - foot) / np.linalg.norm(tip - foot)
    axes.text(
        *(tip + 0.1 * direction),
        name,
        color=colour,
        fontsize=10,
        fontweight="bold",
        zorder=7,
        ha="left" if direction[0] > 0.3 else "right" if direction[0] < -0.3 else "center",
        va="bottom" if direction[1] > 0.3 else "top" if direction[1] < -0.3 else "center",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
    )


class _Rotation(NamedTuple):
    """A positive angle, the point of the body (FLU) whose path shows it, and the direction of view (FLU, level)."""

    name: str
    angles: tuple[float, float, float]
    tip: Vec3
    seen_from: str
    right: Vec3
    up: Vec3


_ANGLE = math.radians(26.0)
_LOW, _HIGH = math.sin(math.radians(24.0)), math.cos(math.radians(24.0))  # a view from slightly above shows the rotors
_ROTATIONS = (
    _Rotation("roll", (_ANGLE, 0.0, 0.0), Vec3(0.0, -1.6, 0.0), "behind", Vec3(0.0, -1.0, 0.0), Vec3(_LOW, 0.0, _HIGH)),
    _Rotation(
        "pitch", (0.0, _ANGLE, 0.0), Vec3(1.6, 0.0, 0.0), "its right", Vec3(1.0, 0.0, 0.0), Vec3(0.0, _LOW, _HIGH)
    ),
    _Rotation("yaw", (0.0, 0.0, _ANGLE), Vec3(1.6, 0.0, 0.0), "above", Vec3(0.0, -1.0, 0.0), Vec3(1.0, 0.0, 0.0)),
)


def describe_rotation(convention: int, turn: int) -> str:
    """Describe the motion of the body's tip, such as 'right side down'."""
    convention_axes, rotation = _CONVENTIONS[convention], _ROTATIONS[turn]
    level_tip, rotated_tip = (
        rotate(convention_axes.to_enu_flu(quat_from_euler(*angles)), rotation.tip)
        for angles in ((0.0, 0.0, 0.0), rotation.angles)
    )
    if rotation.name == "yaw":
        return "counter-clockwise" if level_tip.x * rotated_tip.y - level_tip.y * rotated_tip.x > 0 else "clockwise"
    return ("right side " if rotation.name == "roll" else "nose ") + ("up" if rotated_tip.z > level_tip.z else "down")


def draw_angles(path: str | Path) -> None:
    """Draw positive roll, pitch and yaw in both conventions: level in grey, rotated in dark."""
    with samara_style() as plt:
        figure, grid = plt.subplots(2, 3, figsize=(11.0, 6.6), layout="constrained")
        for row, convention in enumerate(_CONVENTIONS):
            level = convention.to_enu_flu(Quat(1.0, 0.0, 0.0, 0.0))
            for column, turn in enumerate(_ROTATIONS):
                axes = grid[row, column]
                right, up = (np.array(rotate(level, v), dtype=float) for v in (turn.right, turn.up))
                steps = np.linspace(0.0, 1.0, 25)
                attitudes = [
                    convention.to_enu_flu(quat_from_euler(*(s * angle for angle in turn.angles))) for s in steps
                ]
                _draw_drone(axes, level, np.zeros(3), right, up, "#b9c1c9")
                _draw_drone(axes, attitudes[-1], np.zeros(3), right, up, INK)
                tip_path = [np.array(rotate(q, turn.tip), dtype=float) for q in attitudes]
                _arrow(axes, _project(tip_path, right, up), COLOURS[column], width=2.6)
                label = f"+{turn.name}: {describe_rotation(row, column)}"
                axes.text(0.0, 1.85, label, ha="center", fontsize=11, fontweight="bold", color=COLOURS[column])
                axes.text(0.0, -1.75, f"seen from {turn.seen_from}", ha="center", fontsize=8, style="italic")
                axes.set(xlim=(-2.1, 2.1), ylim=(-1.85, 2.1), aspect="equal")
                axes.axis("off")
            grid[row, 0].text(
                -2.15, 0.0, convention.title, rotation=90, ha="center", va="center", fontsize=11, fontweight="bold"
            )
        _save(figure, path, "Positive roll, pitch and yaw in ENU with FLU and in NED with FRD")


if __name__ == "__main__":
    draw_conventions(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
