"""The page of a vehicle from its parts: a picture to scale, what a pilot knows, and every number with how it was made.

write_vehicle_page(vehicle, pilot_figures(vehicle), "racer.html")
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samara.core.atomic_files import write_text
from samara.physics.types import Vehicle
from samara.vehicles.parts.performance import RESERVE, PilotFigure
from samara.vehicles.parts.uncertain import Estimate
from samara.vehicles.plausibility import warnings
from samara.vehicles.writer import vehicle_toml
from samara.view.plot.vehicle import vehicle_picture
from samara.view.report.page import Html, element, page, picture, table


class Line(NamedTuple):
    """A number of a vehicle's file"""

    path: str
    value: Any
    unit: str
    source: str
    spread: float


def write_vehicle_page(vehicle: Vehicle, figures: Sequence[PilotFigure], path: str | Path, command: str = "") -> None:
    """One HTML file that needs nothing else; `command` is what was typed"""
    write_text(path, vehicle_page(vehicle, figures, command))


def vehicle_page(vehicle: Vehicle, figures: Sequence[PilotFigure], command: str = "") -> str:
    """The text of the page"""
    mass = f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg"
    said = warnings(vehicle)
    return page(
        f"{vehicle.name} – Samara",
        element("h1", vehicle.name),
        element("p", f"{mass}, {vehicle.structure.description}", class_="faint"),
        element("p", [element("span", text, class_="badge bad") for text in said]) if said else None,
        element("figure", picture(vehicle_picture(vehicle), f"{vehicle.name} to scale")),
        element("h2", "What a pilot knows"),
        table(["", "", "95 of 100 such aircraft"], [[own.name, own.shown, own.interval] for own in figures]),
        element("p", f"Hover time is from full to {100 * RESERVE:.0f} % of the charge, in still air.", class_="faint"),
        element("h2", "Every number"),
        element("p", "A spread is one standard deviation; the interval holds 95 of 100."),
        _numbers(vehicle),
        element("h2", "Do it again") if command else None,
        element("pre", command) if command else None,
    )


def _numbers(vehicle: Vehicle) -> Html:
    rows, seen = [], set()
    for own in lines_of(vehicle):
        path = own.path.replace("rotors[0].", "rotor.", 1)
        if path.startswith("rotors[") and not path.endswith("].position") and ".servo." not in path:
            continue  # all rotors are alike, but for what tilts one
        if path in seen:
            continue
        seen.add(path)
        rows.append([path, _shown(own.value), own.unit, _interval(own), own.source])
    return table(["", "value", "unit", "95 of 100", "how it was made"], rows)


def lines_of(vehicle: Vehicle) -> list[Line]:
    """Every number that the vehicle's file has"""
    return list(_lines(tomllib.loads(vehicle_toml(vehicle)), ""))


def _lines(entries: Mapping[str, Any], path: str) -> Iterator[Line]:
    for key, own in entries.items():
        if isinstance(own, dict) and "value" in own:
            yield Line(f"{path}{key}", own["value"], own["unit"], own.get("source", ""), own.get("spread", 0.0))
        elif isinstance(own, dict):
            yield from _lines(own, f"{path}{key}.")
        elif isinstance(own, list):
            for i, each in enumerate(own):
                if isinstance(each, dict):
                    yield from _lines(each, f"{path}{key}[{i}].")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    return f"{value:.4g}"


def _interval(own: Line) -> str:
    if not own.spread:
        return ""
    if isinstance(own.value, list) or own.value <= 0.0:
        return f"± {100.0 * 1.96 * own.spread:.0f} %"
    estimate = Estimate(own.value, own.spread, own.source)
    return f"{estimate.low:.3g} to {estimate.high:.3g}"
