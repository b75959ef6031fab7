"""Detect the format of a vehicle file by suffix and content, call its reader, and estimate missing parameters from parts."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from samara.core.sanitise import shown
from samara.physics.types import Vehicle
from samara.vehicles.check import MAX_ROTORS, VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, Several
from samara.vehicles.exchange.safe_xml import read_limited, text_of
from samara.vehicles.exchange.throttle import CELL
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.uncertain import Estimate

_MARKUP = re.compile(r"[\ufeff\s]*<(\?|!--|!DOCTYPE\s+\w+|\w+)")
_HEAD = 1 << 16  # [bytes] read to detect the format


class Format(NamedTuple):
    """A file format; `holds` recognises it by the first 64 kB of a file and decides between formats with a common suffix."""

    name: str
    endings: tuple[str, ...]
    holds: Callable[[str], bool]
    module: str
    function: str
    choices: tuple[str, ...] = ()  # keyword arguments of the reader


def _has_root_tag(*tags: str) -> Callable[[str], bool]:
    """Return a test whether the root element of an XML text is one of `tags`."""
    return lambda head: _first_tag(head) in tags


def _first_tag(head: str) -> str:
    """Return the name of the first element or of the document type, after declaration and comments, in one pass."""
    position = 0
    while tag := _MARKUP.match(head, position):
        if tag[1] not in ("?", "!--"):
            return tag[1].removeprefix("!DOCTYPE").strip()
        end = head.find("?>" if tag[1] == "?" else "-->", tag.end())
        if end < 0:
            return ""
        position = end + 2
        position += head[position : position + 1] == ">"
    return ""


def _has(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a pattern occurs in a text; ^ and $ match at lines."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda head: compiled.search(head) is not None


_BETAFLIGHT = (
    r"^# (?:Betaflight /|diff all|dump all)|^(?:mixer|mmix|resource MOTOR) |^set (?:motor_poles|yaw_motors_reversed) "
)
FORMATS = (
    Format("Gazebo SDF", (".sdf", ".world"), _has_root_tag("sdf", "gazebo"), "sdf", "read_sdf", ("leave_out",)),
    Format("URDF", (".urdf", ".xacro"), _has_root_tag("robot"), "urdf", "read_urdf"),
    Format("MJCF", (".xml", ".mjcf"), _has_root_tag("mujoco"), "mjcf", "read_mjcf"),
    Format(
        "drone-models' parameters",
        (".toml",),
        _has(r"rpm2thrust"),
        "drone_models_file",
        "drone_models_file",
        ("drone",),
    ),
    Format(
        "an ArduPilot frame file",
        (".json",),
        _has(r'"(?:hoverThrOut|propExpo|refSpd|num_motors)"\s*:'),
        "ardupilot",
        "ardupilot_frame",
        ("layout",),
    ),
    Format("RotorPy's parameters", (".py",), _has(r"rotor_pos"), "rotorpy_file", "rotorpy_file"),
    Format("PX4's parameters", (".params",), _has(r"\bCA_ROTOR_COUNT\b"), "px4", "px4_parameter_file"),
    Format("a diff of Betaflight", (".cli",), _has(_BETAFLIGHT), "betaflight", "betaflight_diff"),
)
"""All readable formats, in the order in which they are tried."""
_XML = ("sdf", "urdf", "mjcf")  # their readers take the path, to find files beside it; the others take the text


def read_aircraft(
    path: str | Path, leave_out: bool = False, layout: str | None = None, drone: str | None = None
) -> Imported:
    """Read a vehicle file of another program.

    Args:
        path: the file; `format_of` detects its format.
        leave_out: ignore files that an SDF file includes and that do not exist, instead of raising an error.
        layout: name of the motor layout, for a format that has a motor count without positions.
        drone: name of the drone, for a file that describes several.

    Raises:
        VehicleError: the format is unknown, or the file is invalid.
    """
    file = Path(path)
    file_format = format_of(file, read_limited(file)[:_HEAD].decode("utf-8", "replace"))
    reader = getattr(import_module(f"samara.vehicles.exchange.{file_format.module}"), file_format.function)
    options = {"leave_out": leave_out, "layout": layout, "drone": drone}
    source = (file,) if file_format.module in _XML else (text_of(path), str(path))
    imported: Imported = reader(*source, **{key: options[key] for key in file_format.choices})
    if len(imported.rotors) > MAX_ROTORS:
        raise VehicleError(f"{path}: has {len(imported.rotors)} rotors; expected at most {MAX_ROTORS}")
    return imported


def format_of(path: Path, head: str) -> Format:
    """Return the format that matches the content, else the one of the suffix, whose reader then reports the error."""
    by_content = [candidate for candidate in FORMATS if candidate.holds(head)]
    by_ending = [candidate for candidate in FORMATS if path.name.lower().endswith(candidate.endings)]
    by_both = [candidate for candidate in by_content if candidate in by_ending]
    if matches := (by_both or by_content or by_ending):
        return matches[0]
    format_list = "; ".join(f"{candidate.name} ({', '.join(candidate.endings)})" for candidate in FORMATS)
    raise VehicleError(f"{path}: begins with {shown(head[:40])}: expected one of {format_list}")


def estimated_from_parts(
    read: Imported, motors: str | None, props: str | None, battery: str | None = None, apc: str | None = None
) -> Vehicle:
    """Assemble a vehicle from parts on the rotors of a file; `built` takes the parameters from it that the file lacks.

    `battery` may be None if the file has the cell count and the capacity.
    """
    battery = battery or pack_text(read)
    required = {"--motors": motors, "--props": props, "--battery": battery, "--mass": read.mass}
    required["--diagonal"] = None if read.arm_lengths else "known"
    missing = [key for key, option_value in required.items() if option_value is None]
    if missing:
        raise VehicleError(f"{read.origin}: an estimate from parts needs {', '.join(missing)}: expected these options")
    assert read.mass is not None
    rotors = []
    for i, rotor in enumerate(read.rotors):
        if rotor.position is None or rotor.spin is None:
            raise VehicleError(
                f"{read.origin}: rotor {i} has no position or no spin: expected both, for an estimate from parts"
            )
        rotors.append([*rotor.position.values, "ccw" if rotor.spin > 0 else "cw"])
    return assemble(
        parts_list(
            read.origin,
            name=read.name,
            mass=read.mass.value,
            motors=motors,
            props=props,
            battery=battery,
            rotors=rotors,
            apc=apc,
        )
    )


def pack_text(read: Imported) -> str | None:
    """Format the battery as 6S1300, if a file has cells and capacity."""
    battery = read.battery or {}
    voltages, capacity = battery.get("table_voltage"), battery.get("capacity")
    if not isinstance(voltages, Several) or not isinstance(capacity, Estimate):
        return None
    return f"{round(voltages.values[-1] / CELL)}S{round(capacity.value / 3.6)}"
