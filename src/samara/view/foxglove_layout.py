"""A layout for Foxglove: the drones in space beside plots of position, attitude and motors, by the topics of one recording."""

import json
from collections.abc import Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from samara.core.atomic_files import write_text
from samara.record.channels import identifiers
from samara.record.foxglove import WORLD
from samara.record.run import Run, Track, run_from
from samara.record.streams import LOG_TOPIC, SCENE_TOPIC, Recording
from samara.vehicles.shape import COLOURS

DRONES = 4  # whose curves are plotted; the rest can be added by hand
SUPPLY = (("outputs", "voltage"), ("outputs", "current"), ("outputs", "airspeed"))
SPACE, LOG = "3D!samara", "RosOut!samara"


def write_layout(recording: Recording, path: str | Path) -> Path:
    """The layout as a JSON file that Foxglove imports"""
    write_text(path, json.dumps(layout(run_from(recording), recording.in_fleet), indent=1) + "\n")
    return Path(path)


def layout(run: Run, in_fleet: Mapping[str, tuple[str, int]] = MappingProxyType({})) -> dict[str, object]:
    """What Foxglove calls a layout: settings of each panel, and how they share the window

    `in_fleet` has the streams that are written with those of other drones, see `samara.record.streams.Recording`.
    """
    shown = run.tracks[:DRONES]
    plot = partial(_plot, tracks=shown, in_fleet=in_fleet)
    panels: dict[str, object] = {
        SPACE: _space(run, in_fleet),
        "Plot!position": plot("Position [m]", wanted=(("state", "p_W"), ("reference", "p_W"))),
        "Plot!attitude": plot("Attitude q_WB [1]", wanted=(("state", "q_WB"),)),
        "Plot!rates": plot("Angular velocity [rad/s]", wanted=(("state", "omega_B"),)),
        "Plot!motors": plot("Motors", wanted=(("command", ""),)),
        "Plot!supply": plot("Voltage [V], current [A], airspeed [m/s]", wanted=SUPPLY),
        LOG: {"topicToRender": LOG_TOPIC, "searchTerms": [], "minLogLevel": 1},
    }
    plots = _stacked([name for name in panels if name.startswith("Plot!")])
    left = {"direction": "column", "first": SPACE, "second": LOG, "splitPercentage": 80}
    return {
        "configById": panels,
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1},
        "layout": {"direction": "row", "first": left, "second": plots, "splitPercentage": 52},
    }


def _template(panel: str) -> dict[str, Any]:
    """The settings of a panel that do not depend on the recording"""
    text = (resources.files("samara.view") / "foxglove_layout.json").read_text(encoding="utf-8")
    settings: dict[str, Any] = json.loads(text)[panel]
    return settings


def _space(run: Run, in_fleet: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """The frame of the world, a grid on the ground, the drones, and a camera far enough to see where they fly."""
    points = np.concatenate([track.position for track in run.tracks])
    size = max(float(np.ptp(points, axis=0).max()), 1.0)
    middle = [round(float(x), 3) for x in 0.5 * (points.min(axis=0) + points.max(axis=0))]
    cells = int(np.ceil(2.0 * size))
    settings = _template("space")
    settings["followTf"] = WORLD
    settings["cameraState"] |= {"distance": round(2.2 * size, 3), "target": middle}
    settings["layers"]["grid"] |= {"frameId": WORLD, "size": cells, "divisions": cells, "position": [*middle[:2], 0]}
    pose = {"visible": True, "type": "axis", "axisScale": 0.3}
    alone = [track.name for track in run.tracks if f"/{track.name}/state" not in in_fleet]
    settings["topics"] = {SCENE_TOPIC: {"visible": True}} | {f"/{name}/pose": pose for name in alone}
    return settings


def _plot(
    title: str,
    tracks: tuple[Track, ...],
    in_fleet: Mapping[str, tuple[str, int]],
    wanted: tuple[tuple[str, str], ...],
) -> dict[str, object]:
    """Curves by their message paths: '/drone/state.p_W_x', or of many drones '/fleet/state.p_W_x[2]'"""
    paths: list[dict[str, object]] = []
    for track in tracks:
        for stream, field in wanted:
            table = track.tables.get(stream)
            if table is None:
                continue
            for name, plain in zip(table.fields, identifiers(table.fields), strict=True):
                if not field or name == field or name.startswith((f"{field}.", f"{field}[")):
                    colour = COLOURS[len(paths) % len(COLOURS)]
                    topic = f"/{track.name}/{stream}"
                    fleet, lane = in_fleet.get(topic, ("", 0))
                    value = f"{fleet}.{plain}[{lane}]" if fleet else f"{topic}.{plain}"
                    paths.append({"value": value, "enabled": True, "timestampMethod": "receiveTime", "color": colour})
    return {**_template("plot"), "title": title, "paths": paths}


def _stacked(names: list[str]) -> object:
    """Panels below each other, all of one height."""
    first, *rest = names
    if not rest:
        return first
    return {"direction": "column", "first": first, "second": _stacked(rest), "splitPercentage": 100.0 / len(names)}
