"""Foxglove layout of a recording: the drones in space beside plots of position, attitude and motors."""

import json
from collections.abc import Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from samara.core.atomic_files import write_text
from samara.record.channels import field_identifiers
from samara.record.foxglove import WORLD
from samara.record.run import DroneRecord, Run, run_from_recording
from samara.record.streams import LOG_TOPIC, SCENE_TOPIC, Recording
from samara.vehicles.shape import COLOURS

MAX_PLOTTED_DRONES = 4  # drones whose curves are plotted; users can add others in Foxglove
SUPPLY_CURVES = (("derived", "voltage"), ("derived", "current"), ("derived", "airspeed"))
SCENE_PANEL, LOG_PANEL = "3D!samara", "RosOut!samara"


def write_layout(recording: Recording, path: str | Path) -> Path:
    """Write the layout as a JSON file that Foxglove imports."""
    write_text(path, json.dumps(layout(run_from_recording(recording), recording.fleet_topics), indent=1) + "\n")
    return Path(path)


def layout(run: Run, in_fleet: Mapping[str, tuple[str, int]] = MappingProxyType({})) -> dict[str, object]:
    """Return the Foxglove layout: settings of each panel and the partition of the window.

    `in_fleet` maps the streams that are stored in the channel of a fleet, as `fleet_topics` of
    `samara.record.streams.Recording`.
    """
    plotted = run.drone_records[:MAX_PLOTTED_DRONES]
    plot = partial(_plot_panel, tracks=plotted, in_fleet=in_fleet)
    panels: dict[str, object] = {
        SCENE_PANEL: _scene_panel(run, in_fleet),
        "Plot!position": plot("Position [m]", curves=(("state", "p_W"), ("reference", "p_W"))),
        "Plot!attitude": plot("Attitude q_WB [1]", curves=(("state", "q_WB"),)),
        "Plot!rates": plot("Angular velocity [rad/s]", curves=(("state", "omega_B"),)),
        "Plot!motors": plot("Motors", curves=(("command", ""),)),
        "Plot!supply": plot("Voltage [V], current [A], airspeed [m/s]", curves=SUPPLY_CURVES),
        LOG_PANEL: {"topicToRender": LOG_TOPIC, "searchTerms": [], "minLogLevel": 1},
    }
    plots = _stack_panels([name for name in panels if name.startswith("Plot!")])
    left = {"direction": "column", "first": SCENE_PANEL, "second": LOG_PANEL, "splitPercentage": 80}
    return {
        "configById": panels,
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1},
        "layout": {"direction": "row", "first": left, "second": plots, "splitPercentage": 52},
    }


def _template(panel: str) -> dict[str, Any]:
    """Read the settings of a panel that do not depend on the recording."""
    text = (resources.files("samara.view") / "foxglove_layout.json").read_text(encoding="utf-8")
    settings: dict[str, Any] = json.loads(text)[panel]
    return settings


def _scene_panel(run: Run, in_fleet: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """Configure the 3D panel: world frame, ground grid, drones, and a camera at a distance that shows all paths."""
    points = np.concatenate([track.position for track in run.drone_records])
    size = max(float(np.ptp(points, axis=0).max()), 1.0)
    centre = [round(float(x), 3) for x in 0.5 * (points.min(axis=0) + points.max(axis=0))]
    cells = int(np.ceil(2.0 * size))
    settings = _template("space")
    settings["followTf"] = WORLD
    settings["cameraState"] |= {"distance": round(2.2 * size, 3), "target": centre}
    settings["layers"]["grid"] |= {"frameId": WORLD, "size": cells, "divisions": cells, "position": [*centre[:2], 0]}
    pose = {"visible": True, "type": "axis", "axisScale": 0.3}
    single_drones = [track.name for track in run.drone_records if f"/{track.name}/state" not in in_fleet]
    settings["topics"] = {SCENE_TOPIC: {"visible": True}} | {f"/{name}/pose": pose for name in single_drones}
    return settings


def _plot_panel(
    title: str,
    tracks: tuple[DroneRecord, ...],
    in_fleet: Mapping[str, tuple[str, int]],
    curves: tuple[tuple[str, str], ...],
) -> dict[str, object]:
    """Configure a plot by message paths: '/drone/state.p_W_x', or '/fleet/state.p_W_x[2]' for many drones."""
    paths: list[dict[str, object]] = []
    for track in tracks:
        for stream, field in curves:
            table = track.tables.get(stream)
            if table is None:
                continue
            for name, identifier in zip(table.fields, field_identifiers(table.fields), strict=True):
                if not field or name == field or name.startswith((f"{field}.", f"{field}[")):
                    colour = COLOURS[len(paths) % len(COLOURS)]
                    topic = f"/{track.name}/{stream}"
                    fleet, index = in_fleet.get(topic, ("", 0))
                    value = f"{fleet}.{identifier}[{index}]" if fleet else f"{topic}.{identifier}"
                    paths.append({"value": value, "enabled": True, "timestampMethod": "receiveTime", "color": colour})
    return {**_template("plot"), "title": title, "paths": paths}


def _stack_panels(names: list[str]) -> object:
    """Stack panels of equal height."""
    first, *remaining = names
    if not remaining:
        return first
    return {
        "direction": "column",
        "first": first,
        "second": _stack_panels(remaining),
        "splitPercentage": 100.0 / len(names),
    }
