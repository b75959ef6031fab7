"""`[wind]` of a scenario, or `[[wind]]` where several blow at once."""

import math
from inspect import signature
from typing import Any

from samara.core.toml import Table
from samara.physics.types import Environment
from samara.scenario.scenario import Drone
from samara.scenario.scenario_file.beside import Beside
from samara.vehicles.effects import OPTIONS
from samara.wind import sources
from samara.wind.registry import WINDS
from samara.wind.sources import NoWind, WindSource, is_local

WEST = 270.0  # [deg]: where a wind comes from that says only how fast it is


def read_wind(
    file: Table, beside: Beside, environment: Environment, drones: tuple[Drone, ...]
) -> tuple[WindSource, bool]:
    """The wind, and whether rotors feel it at their hubs"""
    if "wind" not in file:
        return NoWind(), False
    if isinstance(file.entries["wind"], dict):
        file.entries["wind"] = [file.entries["wind"]]
    found, at_hubs = [], False
    for table in file.tables("wind"):
        wanted = table.flag("at_hubs", False)
        source = _source(table, beside, environment)
        if wanted and not is_local(source):
            raise table.error("at_hubs", wanted, "a wind that depends on the place, as power_law, log_law or field do")
        if wanted and not any(own.vehicle.reads("hub_wind_W") for own in drones):
            feeling = [
                name for name, option in OPTIONS.items() if "hub_wind_W" in next(iter(option.models.values())).reads
            ]
            raise table.error("at_hubs", wanted, f"a drone that feels it, by {' or '.join(feeling)}")
        found.append(source)
        at_hubs |= wanted
    return (found[0] if len(found) == 1 else sources.Sum(tuple(found))), at_hubs


def _source(table: Table, beside: Beside, environment: Environment) -> WindSource:
    kind = table.text("kind", "constant", WINDS)
    maker: Any = WINDS[kind]
    parameters, given = signature(maker).parameters, dict[str, Any]()
    if "data" in parameters:
        given["name"] = table.text("file")
        given["data"] = beside.bytes_of(table, "file", given["name"])
    if "ground" in parameters and "ground" not in table.entries:
        given["ground"] = environment.ground.point_W.z
    if {"mean", "height"} <= set(parameters):
        given["height"] = 10.0  # unused: every drone is at its own height
        if isinstance(table.entries.get("mean"), dict):
            given["mean"] = _source(table.table("mean"), beside, environment)
        elif "mean" in table:
            given["mean"] = table.vector("mean")
    if "mean" not in given and ("from_deg" in table or "speed" in table):
        if not hasattr(maker, "from_direction"):
            key, what = ("from_deg", "direction") if "from_deg" in table else ("speed", "speed")
            reason = "there is no wind" if kind == "none" else f"{kind} has its own"
            raise table.error(key, table.entries[key], f"no {what}: {reason}")
        maker = maker.from_direction
        speed, direction = table.number("speed"), math.radians(table.number("from_deg", WEST))
        if speed < 0.0:
            raise table.error("speed", speed, "a number that is not negative")
        given |= {"speed": speed, "direction_from": direction}
    source: WindSource = table.call(maker, **given)
    return source
