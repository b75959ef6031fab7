"""HTML representations of vehicles, trajectories and runs for notebooks, and the page of a vehicle."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from samara.core.algebra import Vec3
from samara.core.atomic_files import write_text
from samara.core.types import Array
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.types import Vehicle
from samara.plan.flatness import attitude_from_thrust_direction
from samara.plan.trajectory import Trajectory
from samara.record.metrics import Summary, summary_table
from samara.record.run import Run
from samara.vehicles.description import vehicle_properties
from samara.vehicles.parts.performance import PerformanceFigure
from samara.vehicles.parts.uncertain import UncertainValue
from samara.vehicles.plausibility import warnings
from samara.vehicles.shape import COLOURS, INK, NOSE_COLOUR, BodyBox, Disc, Part, Rod, outer_frame_radius, shape_parts
from samara.vehicles.writer import vehicle_toml
from samara.view.plot.style import DetachedFigure, samara_style
from samara.view.plot.vehicle import vehicle_picture
from samara.view.report.page import Html, element, page, picture, table

PICTURE_SIZE = 240.0  # [px] of a vehicle's picture
MARGIN = 14.0  # [px]
MAX_TRAJECTORY_TIME = 60.0  # [s]: part of an endless trajectory that is shown
SAMPLES = 600
NOTEBOOK = "font:13px/1.45 system-ui,sans-serif;display:flex;gap:20px;flex-wrap:wrap;align-items:center"
CELL = "text-align:left;padding:2px 14px 2px 0"


# A vehicle --------------------------------------------------------------------------------------------------------------


def vehicle_html(vehicle: Vehicle) -> str:
    """Show the vehicle from above with its main properties."""
    title = element("div", element("b", vehicle.name), f" {vehicle.structure.description}")
    return _side_by_side(vehicle_svg(vehicle), title, vehicle_properties(vehicle))


def vehicle_svg(vehicle: Vehicle, size: float = PICTURE_SIZE) -> Html:
    """Draw the vehicle from above, nose up: numbered rotors with arrows in the direction of spin."""
    discs = [part for part in shape_parts(vehicle) if isinstance(part, Disc)]
    half_width = max(
        [outer_frame_radius(vehicle), *(math.hypot(disc.centre_B.x, disc.centre_B.y) + disc.radius for disc in discs)]
    )
    scale = (0.5 * size - MARGIN) / half_width

    def project(point_B: Vec3) -> tuple[float, float]:
        return 0.5 * size - scale * float(point_B.y), 0.5 * size - scale * float(point_B.x)

    shapes: list[Html] = []
    for part in sorted(shape_parts(vehicle), key=_layer):
        if isinstance(part, Rod):
            (x1, y1), (x2, y2) = project(part.start_B), project(part.end_B)
            ends = {"x1": _px(x1), "y1": _px(y1), "x2": _px(x2), "y2": _px(y2)}
            width = _px(max(2.0, 2.0 * scale * part.radius))
            shapes.append(element("line", **ends, stroke=part.colour, stroke_width=width, stroke_linecap="round"))
        elif isinstance(part, BodyBox):
            x, y = project(part.centre_B)
            w, h = scale * part.size_B.y, scale * part.size_B.x
            rectangle = {
                "x": _px(x - 0.5 * w),
                "y": _px(y - 0.5 * h),
                "width": _px(w),
                "height": _px(h),
                "rx": _px(0.2 * w),
            }
            shapes.append(element("rect", **rectangle, fill=part.colour, stroke="#8a97a3"))
    shapes += [_rotor(part, k, project(part.centre_B), scale * part.radius) for k, part in enumerate(discs)]
    spins = ", ".join(f"{k} {'ccw' if disc.spin > 0 else 'cw'}" for k, disc in enumerate(discs))
    label = f"{vehicle.name} from above, forward up" + (f"; rotors {spins}" if spins else "")
    box = f"0 0 {size:g} {size:g}"
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": box,
        "width": f"{size:g}",
        "height": f"{size:g}",
    }
    return element("svg", element("title", label), shapes, **attributes, role="img", font_family="sans-serif")


def _layer(part: Part) -> int:
    """Drawing order: arms and legs below the body, the nose above it."""
    return 1 if isinstance(part, BodyBox) else 2 if part.colour == NOSE_COLOUR else 0


def _rotor(disc: Disc, number: int, centre: tuple[float, float], radius: float) -> Html:
    """Draw a disc with its number and an arc that ends in an arrow in the direction of spin."""
    x, y = centre
    colour = COLOURS[0] if disc.spin > 0 else COLOURS[1]
    r = 0.8 * radius
    # The y axis of the page points down: counter-clockwise seen from above runs from the right over the top, sweep 0.
    start, end = (
        (math.radians(-50.0), math.radians(210.0)) if disc.spin > 0 else (math.radians(230.0), math.radians(-30.0))
    )
    arc_ends = [(x + r * math.cos(angle), y - r * math.sin(angle)) for angle in (start, end)]
    tangent = (-math.sin(end), -math.cos(end)) if disc.spin > 0 else (math.sin(end), math.cos(end))
    (tip_x, tip_y), size = arc_ends[1], max(4.0, 0.28 * radius)
    side = (-tangent[1], tangent[0])
    arrow = [
        (tip_x + size * tangent[0], tip_y + size * tangent[1]),
        (tip_x + 0.4 * size * side[0], tip_y + 0.4 * size * side[1]),
        (tip_x - 0.4 * size * side[0], tip_y - 0.4 * size * side[1]),
    ]
    arc = f"A{_px(r)} {_px(r)} 0 1 {0 if disc.spin > 0 else 1} {_px(tip_x)} {_px(tip_y)}"
    path = f"M{_px(arc_ends[0][0])} {_px(arc_ends[0][1])} {arc}"
    return element(
        "g",
        element("circle", cx=_px(x), cy=_px(y), r=_px(radius), fill=colour, fill_opacity="0.18", stroke=colour),
        element("path", d=path, fill="none", stroke=colour, stroke_width="1.6"),
        element("polygon", points=" ".join(f"{_px(a)},{_px(b)}" for a, b in arrow), fill=colour),
        element("circle", cx=_px(x), cy=_px(y), r="9", fill="#ffffff", stroke=colour),
        element("text", number, x=_px(x), y=_px(y + 4.5), text_anchor="middle", font_size="13", font_weight="700", fill=INK),
    )  # fmt: skip


def _px(x: float) -> str:
    return f"{x:.1f}"


# A trajectory -----------------------------------------------------------------------------------------------------------


def trajectory_html(trajectory: Trajectory) -> str:
    """Show the path coloured by speed, with duration, length, peak speed and acceleration, and the tilt that they require."""
    return _side_by_side(
        picture(_trajectory_figure(trajectory), f"the path of {trajectory.name}", dpi=90.0),
        element("b", trajectory.name),
        trajectory_properties(trajectory),
    )


def trajectory_properties(trajectory: Trajectory) -> list[tuple[str, str]]:
    """List duration, length and peak values; the tilt is that of a thrust for weight and acceleration, without drag."""
    _, p, v, a = _sample_trajectory(trajectory)
    specific_thrust_W = Vec3(a[:, 0], a[:, 1], a[:, 2] + STANDARD_GRAVITY)
    tilt = np.arccos(np.clip(attitude_from_thrust_direction(specific_thrust_W, 0.0).zz, -1.0, 1.0))
    length = float(np.linalg.norm(np.diff(p, axis=0), axis=1).sum())
    endless = not math.isfinite(trajectory.duration)
    rows = [
        ("duration", "endless" if endless else f"{trajectory.duration:.2f} s"),
        ("length", f"{length:.2f} m" + (f" in {MAX_TRAJECTORY_TIME:g} s" if endless else "")),
        ("peak speed", f"{np.linalg.norm(v, axis=1).max():.2f} m/s"),
        ("peak acceleration", f"{np.linalg.norm(a, axis=1).max():.2f} m/s²"),
        ("peak tilt, without drag", f"{math.degrees(float(tilt.max())):.1f}°"),
        ("height", f"{p[:, 2].min():.2f} to {p[:, 2].max():.2f} m"),
    ]
    return rows + ([("waypoints", str(len(trajectory.waypoints)))] if trajectory.waypoints else [])


def _sample_trajectory(trajectory: Trajectory) -> tuple[Array, Array, Array, Array]:
    time = np.linspace(0.0, min(trajectory.duration, MAX_TRAJECTORY_TIME), SAMPLES)
    reference = trajectory.evaluate(time)
    p, v, a = (np.stack(vector, axis=1) for vector in (reference.p_W, reference.v_W, reference.a_W))
    return time, p, v, a


def _trajectory_figure(trajectory: Trajectory) -> DetachedFigure:
    from samara.view.plot.plan import draw_trajectory

    _, p, v, _ = _sample_trajectory(trajectory)
    speed = np.linalg.norm(v, axis=1)
    with samara_style() as plt:
        figure = plt.figure(figsize=(5.2, 3.9))
        scale = ScalarMappable(Normalize(0.0, max(float(speed.max()), 1e-3)), "viridis_r")
        axes = figure.add_axes((0.0, 0.02, 0.82, 0.96), projection="3d")
        draw_trajectory(axes, p, scale.to_rgba(speed), trajectory)
        figure.colorbar(scale, cax=figure.add_axes((0.86, 0.2, 0.025, 0.6)), label="speed [m/s]")
        return figure


# A run ------------------------------------------------------------------------------------------------------------------


def run_html(run: Run) -> str:
    """Show the overview picture and the summary, one column per drone."""
    from samara.view.plot.plots import overview

    records = run.drone_records[:6]
    rows = summary_table(track.summary() for track in records)
    note = (
        f" The table has the first {len(records)} of {len(run.drone_records)} drones."
        if len(run.drone_records) > len(records)
        else ""
    )
    events = [element("li", f"{line.time_us / 1e6:.3f} s: {line.message}") for line in run.logs[:12]]
    return element(
        "div",
        element("div", element("b", run.scenario), f" {run.metadata.get('description', '')}{note}"),
        element("div", picture(overview(run), f"the flight {run.scenario}", dpi=80.0)),
        table(("", *(track.name for track in records)) if len(records) > 1 else (), rows),
        element("ul", events) if events else None,
    )


def summary_html(summary: Summary) -> str:
    """Format the summary of a flight as a table."""
    return table((), [(metric.name, metric.text) for metric in summary.values()])


def _side_by_side(image: Html, title: Html, rows: list[tuple[str, str]]) -> str:
    cells = [element("tr", element("td", name, style=CELL), element("td", value, style=CELL)) for name, value in rows]
    return element("div", element("div", image), element("div", title, element("table", cells)), style=NOTEBOOK)


__all__ = ["run_html", "trajectory_html", "vehicle_html", "vehicle_svg"]


class ParameterLine(NamedTuple):
    """A parameter of a vehicle file, with its unit, source and relative standard deviation."""

    path: str
    value: float | list[float]
    unit: str
    source: str
    spread: float


def write_vehicle_page(
    vehicle: Vehicle, figures: Sequence[PerformanceFigure], path: str | Path, command: str = ""
) -> None:
    """Write the vehicle's page as one self-contained HTML file; `command` is the command that created the vehicle."""
    write_text(path, vehicle_page(vehicle, figures, command))


def vehicle_page(vehicle: Vehicle, figures: Sequence[PerformanceFigure], command: str = "") -> str:
    """Return the HTML text of the page."""
    mass = f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"
    warning_texts = warnings(vehicle)
    return page(
        f"{vehicle.name} – Samara",
        element("h1", vehicle.name),
        element("p", f"{mass}, {vehicle.structure.description}", class_="faint"),
        element("p", [element("span", text, class_="badge bad") for text in warning_texts]) if warning_texts else None,
        element("figure", picture(vehicle_picture(vehicle), f"{vehicle.name} to scale")),
        element("h2", "Flight performance"),
        table(["", "", "95 % interval"], [[figure.name, figure.value_text, figure.interval] for figure in figures]),
        element("p", "Hover times are from a full battery, in still air.", class_="faint"),
        element("h2", "Parameters"),
        element("p", "The spread of a parameter is one standard deviation; the interval holds with 95 % probability."),
        _parameter_table(vehicle),
        element("h2", "Reproduce") if command else None,
        element("pre", command) if command else None,
    )


def _parameter_table(vehicle: Vehicle) -> Html:
    rows, listed = [], set()
    for line in parameter_lines(vehicle):
        path = line.path.replace("rotors[0].", "rotor.", 1)
        if path.startswith("rotors[") and not path.endswith("].position") and ".servo." not in path:
            continue  # rotors are identical, except for position and servo
        if path in listed:
            continue
        listed.add(path)
        rows.append([path, _format_value(line.value), line.unit, _interval(line), line.source])
    return table(["", "value", "unit", "95 % interval", "source"], rows)


def parameter_lines(vehicle: Vehicle) -> list[ParameterLine]:
    """List every parameter of the vehicle's file."""
    return list(_walk_parameters(tomllib.loads(vehicle_toml(vehicle)), ""))


def _walk_parameters(entries: Mapping[str, object], path: str) -> Iterator[ParameterLine]:
    for key, entry in entries.items():
        if isinstance(entry, dict) and "value" in entry:
            yield ParameterLine(
                f"{path}{key}", entry["value"], entry["unit"], entry.get("source", ""), entry.get("spread", 0.0)
            )
        elif isinstance(entry, dict):
            yield from _walk_parameters(entry, f"{path}{key}.")
        elif isinstance(entry, list):
            for i, element_entry in enumerate(entry):
                if isinstance(element_entry, dict):
                    yield from _walk_parameters(element_entry, f"{path}{key}[{i}].")


def _format_value(value: float | list[float]) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(component) for component in value) + "]"
    return f"{value:.4g}"


def _interval(line: ParameterLine) -> str:
    if not line.spread:
        return ""
    if isinstance(line.value, list) or line.value <= 0.0:
        return f"± {100.0 * 1.96 * line.spread:.0f} %"
    estimate = UncertainValue(line.value, line.spread, line.source)
    return f"{estimate.low:.3g} to {estimate.high:.3g}"
