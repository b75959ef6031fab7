"""A vehicle as a module the page can fly: its physics, its pilots in three modes, and what it looks like."""

import json
import math
from pathlib import Path
from typing import Any

from samara.control.allocation import allocation_for, command_for_wrench
from samara.control.stick_modes import MODES, Asked, Sticks, stick_pilot
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import leaf_names
from samara.export.javascript import js_layout, js_source, state_argument
from samara.export.javascript_code import Argument, traced
from samara.physics.multirotor import at_rest
from samara.physics.types import Vehicle
from samara.vehicles.defaults.ground import clearance
from samara.vehicles.limits import thrust_limits
from samara.vehicles.shape import Disc, extent_of, parts_of, reach_of

PAGE = Path(__file__).parent / "page"
PERIOD = 4e-3  # [s]: how often a pilot looks


def craft_name(vehicle: Vehicle) -> str:
    """The name of its module"""
    return js_layout(vehicle).prefix


def craft_source(vehicle: Vehicle) -> str:
    """Physics, pilots and looks in one module"""
    parts = [js_source(vehicle).rstrip(), *_pilots(vehicle), (PAGE / "pilot.js").read_text(encoding="utf-8").strip()]
    return "\n\n".join([*parts, f"export const looks = {json.dumps(looks(vehicle))};"]) + "\n"


def _pilots(vehicle: Vehicle) -> list[str]:
    rest = at_rest(vehicle)
    first = stick_pilot(vehicle, period=PERIOD)
    memory = first.initial_memory(rest)
    x = state_argument(vehicle)
    sticks = Argument("r", leaf_names(Sticks(0.0, 0.0, 0.0, 0.0), "sticks"), Sticks(0.0, 0.0, 0.0, 0.0))
    m = Argument("m", leaf_names(memory, "memory"), memory)
    asked = Argument("a", leaf_names(Asked(0.0, ZERO), "asked"), Asked(0.0, ZERO))
    after, told = Argument("after", m.holds), Argument("u", [f"command {i}" for i in range(vehicle.command_size)])
    parts = [
        f"const MEMORY = {len(m.holds)}, PILOT_PERIOD = {PERIOD};",
        traced("begin_memory", lambda state: (first.initial_memory(state),), [x], [m]),
    ]
    for mode in MODES:
        parts.append(traced(f"ask_{mode}", _asker(vehicle, mode), [x, sticks, m], [asked, after]))
    masks = [None, *([k != failed for k in range(len(vehicle.rotors))] for failed in range(len(vehicle.rotors)))]
    for k, healthy in enumerate(masks):
        parts.append(traced(f"share_{k}", _sharer(vehicle, healthy), [asked, x], [told]))
    names = ", ".join(f"share_{k}" for k in range(len(masks)))
    parts.append(f"const ASK = {{ {', '.join(f'{mode}: ask_{mode}' for mode in MODES)} }};")
    parts.append(f"const SHARE = [{names}]; /* by all rotors, and without each of them */")
    return parts


def _asker(vehicle: Vehicle, mode: str) -> Any:
    pilot = stick_pilot(vehicle, mode, period=PERIOD)
    return lambda state, sticks, memory: pilot.asked(state, sticks, vehicle, memory)


def _sharer(vehicle: Vehicle, healthy: list[bool] | None) -> Any:
    allocation = allocation_for(vehicle, healthy)
    return lambda asked, state: (command_for_wrench(asked.lift, asked.tau_B, state, vehicle, allocation),)


# Looks -------------------------------------------------------------------------------------------------------------


def looks(vehicle: Vehicle) -> dict[str, Any]:
    """What the page draws and says of a vehicle: plain numbers"""
    limits = stick_pilot(vehicle).limits
    tops = thrust_limits(vehicle)
    parts = parts_of(vehicle)
    discs = [i for i, part in enumerate(parts) if isinstance(part, Disc)]
    return {
        "name": vehicle.name,
        "about": vehicle.structure.description,
        "mass": float(vehicle.mass),
        "reach": float(reach_of(vehicle)),
        "extent": float(extent_of(vehicle)),
        "clearance": float(clearance(vehicle)),
        "speed": limits.speed,
        "parts": [_plain(part._asdict()) | {"kind": type(part).__name__} for part in parts],
        "rotors": [
            {
                "r_B": _plain(rotor.r_B),
                "spin": 1 if rotor.spin > 0 else -1,
                "top_speed": math.sqrt(float(tops[k].high) / float(rotor.k_thrust)),
                "disc": discs[k],
            }
            for k, rotor in enumerate(vehicle.rotors)
        ],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Vec3):
        return [float(x) for x in value]
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    return float(value) if isinstance(value, float) else value
