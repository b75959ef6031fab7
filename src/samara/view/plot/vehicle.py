"""Picture of a vehicle to scale: from above and from behind, with rotors, feet, centre of mass and a ruler."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from samara.core.algebra import Vec3
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.shape import (
    ARM_COLOUR,
    CCW_COLOUR,
    CW_COLOUR,
    GRID,
    INK,
    NOSE_COLOUR,
    PAPER,
    propeller_radius,
    tip_radius,
)
from samara.view.plot.style import DetachedFigure, escape_text, samara_style, save

_MARGIN = 1.15


def draw_vehicle(vehicle: Vehicle, path: str | Path) -> None:
    """Draw the vehicle to a PNG file."""
    figure = vehicle_picture(vehicle)
    save(figure, path)


def vehicle_picture(vehicle: Vehicle) -> DetachedFigure:
    """Draw the vehicle from above, nose up, and from behind, both at one scale."""
    with samara_style() as plt:
        figure, (top_view, rear_view) = plt.subplots(1, 2, figsize=(10.4, 5.4))
        half_width = _MARGIN * _half_width(vehicle)
        _draw_top_view(top_view, vehicle, half_width)
        _draw_rear_view(rear_view, vehicle, half_width)
        for axes, title in ((top_view, "from above"), (rear_view, "from behind")):
            axes.set(
                title=title,
                xlim=(-half_width, half_width),
                ylim=(-half_width, half_width),
                aspect="equal",
                xticks=[],
                yticks=[],
            )
            axes.grid(visible=False)
            for spine in axes.spines.values():
                spine.set_visible(False)
        _draw_ruler(top_view, half_width)
        _draw_legend(rear_view, vehicle)
        mass = f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"
        figure.suptitle(
            escape_text(f"{vehicle.name}: {mass}, {len(vehicle.rotors)} rotors"), x=0.01, ha="left", fontsize=12
        )
        return figure


def _half_width(vehicle: Vehicle) -> float:
    """Return half the width of the square around the vehicle, seen from above [m]."""
    ends = [
        max(abs(rotor.r_B.x), abs(rotor.r_B.y)) + propeller_radius(vehicle, i) for i, rotor in enumerate(vehicle.rotors)
    ]
    return max(ends, default=tip_radius(vehicle))


def _project_top(x: float, y: float) -> tuple[float, float]:
    """Project body axes to the view from above, nose up: left is left."""
    return -y, x


def _draw_top_view(axes: Axes, vehicle: Vehicle, half_width: float) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch

    for i, rotor in enumerate(vehicle.rotors):
        radius, hub = propeller_radius(vehicle, i), _project_top(rotor.r_B.x, rotor.r_B.y)
        colour = CCW_COLOUR if rotor.spin > 0 else CW_COLOUR
        axes.plot([0.0, hub[0]], [0.0, hub[1]], color=ARM_COLOUR, linewidth=5.0, solid_capstyle="round", zorder=1)
        is_lower = any(_is_above(other, rotor) for other in vehicle.rotors)
        drawn_radius = 0.93 * radius if is_lower else radius
        axes.add_patch(Circle(hub, drawn_radius, facecolor=colour, alpha=0.25, edgecolor="none", zorder=2))
        axes.add_patch(
            Circle(hub, drawn_radius, fill=False, edgecolor=colour, linestyle=":" if is_lower else "-", zorder=3)
        )
        start, end = (math.radians(angle) for angle in ((200.0, 340.0) if rotor.spin > 0 else (340.0, 200.0)))
        if not is_lower:
            ends = [(hub[0] + 0.72 * radius * math.cos(a), hub[1] + 0.72 * radius * math.sin(a)) for a in (start, end)]
            bend = f"arc3,rad={0.45 if rotor.spin > 0 else -0.45}"
            axes.add_patch(
                FancyArrowPatch(*ends, connectionstyle=bend, arrowstyle="-|>", mutation_scale=9, color=colour, zorder=4)
            )
        axes.annotate(
            str(i),
            hub,
            ha="center",
            va="center",
            fontsize=9,
            zorder=6,
            xytext=(9 if is_lower else 0, 0),
            textcoords="offset points",
            bbox={"boxstyle": "circle,pad=0.2", "facecolor": PAPER, "edgecolor": colour},
        )
    for foot in _feet(vehicle):
        axes.plot(*_project_top(foot.x, foot.y), "s", color=INK, markersize=4, zorder=5)
    axes.annotate(
        "", (0.0, 0.36 * half_width), (0.0, 0.0), arrowprops={"arrowstyle": "-|>", "color": NOSE_COLOUR, "lw": 2.5}
    )
    axes.text(0.0, 0.39 * half_width, "nose", ha="center", va="bottom", fontsize=8, color=NOSE_COLOUR)
    axes.plot(0.0, 0.0, "+", color=INK, markersize=11, zorder=7)


def _draw_legend(axes: Axes, vehicle: Vehicle) -> None:
    """Name the colours of the rotation directions that the vehicle has."""
    from matplotlib.lines import Line2D

    directions = ((1.0, CCW_COLOUR, "counter-clockwise"), (-1.0, CW_COLOUR, "clockwise"))
    handles = [
        Line2D([], [], marker="o", linestyle="none", markersize=9, color=colour, label=name)
        for spin, colour, name in directions
        if any(rotor.spin == spin for rotor in vehicle.rotors)
    ]
    if handles:
        axes.legend(
            handles=handles,
            title="rotation, seen from above",
            title_fontsize=8,
            loc="lower right",
            alignment="left",
            frameon=False,
        )


def _is_above(other: Rotor, rotor: Rotor) -> bool:
    is_coaxial = math.hypot(other.r_B.x - rotor.r_B.x, other.r_B.y - rotor.r_B.y) < 0.1 * max(rotor.radius, 1e-3)
    return other is not rotor and is_coaxial and other.r_B.z > rotor.r_B.z


def _draw_rear_view(axes: Axes, vehicle: Vehicle, half_width: float) -> None:
    for i, rotor in sorted(enumerate(vehicle.rotors), key=lambda item: -item[1].r_B.x):  # the rear ones are in front
        radius, y, z = propeller_radius(vehicle, i), -rotor.r_B.y, rotor.r_B.z
        colour = CCW_COLOUR if rotor.spin > 0 else CW_COLOUR
        axes.plot([0.0, y], [0.0, z], color=ARM_COLOUR, linewidth=4.0, solid_capstyle="round", zorder=1)
        axes.plot([y - radius, y + radius], [z, z], color=colour, linewidth=3.0, solid_capstyle="round", zorder=3)
    feet = _feet(vehicle)
    for foot in feet:
        axes.plot([-0.5 * foot.y, -foot.y], [0.0, foot.z], color=ARM_COLOUR, linewidth=2.0, zorder=1)
        axes.plot(-foot.y, foot.z, "s", color=INK, markersize=4, zorder=5)
    if feet:
        ground = min(foot.z for foot in feet)
        axes.plot([-half_width, half_width], [ground, ground], color=GRID, linewidth=1.5, zorder=0)
        axes.text(half_width, ground, "ground ", ha="right", va="top", fontsize=8)
    axes.plot(0.0, 0.0, "+", color=INK, markersize=11, zorder=7)
    highest = max((rotor.r_B.z for rotor in vehicle.rotors), default=0.0)
    axes.annotate(
        "centre of mass",
        (0.0, 0.0),
        (0.0, highest + 0.22 * half_width),
        ha="center",
        fontsize=8,
        arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.7},
    )


def _feet(vehicle: Vehicle) -> Sequence[Vec3]:
    return vehicle["contact"].points_B if vehicle.has("contact") else ()


def _draw_ruler(axes: Axes, half_width: float) -> None:
    """Draw a bar of 1, 2 or 5 times a power of ten, at most a third of the picture wide."""
    decade = 10.0 ** math.floor(math.log10(0.66 * half_width))
    length = max(factor * decade for factor in (1.0, 2.0, 5.0) if factor * decade <= 0.66 * half_width)
    x, y = -0.96 * half_width, -0.97 * half_width
    axes.plot([x, x + length], [y, y], color=INK, linewidth=2.0, solid_capstyle="butt")
    label = f"{100.0 * length:g} cm" if length < 1.0 else f"{length:g} m"
    axes.text(x + 0.5 * length, y + 0.02 * half_width, label, ha="center", va="bottom", fontsize=9)
