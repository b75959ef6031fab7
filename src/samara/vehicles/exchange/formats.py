"""Detect the format of a vehicle file by suffix and content, call its reader, and estimate missing parameters from parts."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from samara.core.sanitise import quote_value
from samara.physics.types import Vehicle
from samara.vehicles.check import MAX_ROTORS, VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedVehicle, UncertainVector
from samara.vehicles.exchange.safe_xml import read_limited, read_utf8
from samara.vehicles.exchange.throttle import FULL_CELL_VOLTAGE
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.uncertain import UncertainValue

_MARKUP = re.compile(r"[\ufeff\s]*<(\?|!--|!DOCTYPE\s+\w+|\w+)")
_HEAD_BYTES = 1 << 16  # [bytes] read to detect the format


class ExchangeFormat(NamedTuple):
    """A file format; `matches` recognises it by the first 64 kB of a file and decides between formats with a common
    suffix."""

    name: str
    endings: tuple[str, ...]
    matches: Callable[[str], bool]
    module: str
    function: str
    options: tuple[str, ...] = ()  # keyword arguments of the reader


def _has_root_tag(*tags: str) -> Callable[[str], bool]:
    """Return a predicate: whether the root element of an XML text is one of `tags`."""
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


def _contains(pattern: str) -> Callable[[str], bool]:
    """Return a predicate: whether a pattern occurs in a text; ^ and $ match at every line."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda head: compiled.search(head) is not None


_BETAFLIGHT = (
    r"^# (?:Betaflight /|diff all|dump all)|^(?:mixer|mmix|resource MOTOR) |^set (?:motor_poles|yaw_motors_reversed) "
)
FORMATS = (
    ExchangeFormat("Gazebo SDF", (".sdf", ".world"), _has_root_tag("sdf", "gazebo"), "sdf", "read_sdf", ("leave_out",)),
    ExchangeFormat("URDF", (".urdf", ".xacro"), _has_root_tag("robot"), "urdf", "read_urdf"),
    ExchangeFormat("MJCF", (".xml", ".mjcf"), _has_root_tag("mujoco"), "mjcf", "read_mjcf"),
    ExchangeFormat(
        "drone-models' parameters",
        (".toml",),
        _contains(r"rpm2thrust"),
        "drone_models_file",
        "drone_models_file",
        ("drone",),
    ),
    ExchangeFormat(
        "an ArduPilot frame file",
        (".json",),
        _contains(r'"(?:hoverThrOut|propExpo|refSpd|num_motors)"\s*:'),
        "ardupilot",
        "ardupilot_frame",
        ("layout",),
    ),
    ExchangeFormat("RotorPy's parameters", (".py",), _contains(r"rotor_pos"), "rotorpy_file", "rotorpy_file"),
    ExchangeFormat("PX4's parameters", (".params",), _contains(r"\bCA_ROTOR_COUNT\b"), "px4", "px4_parameter_file"),
    ExchangeFormat("a diff of Betaflight", (".cli",), _contains(_BETAFLIGHT), "betaflight", "betaflight_diff"),
)
"""All readable formats, in the order in which they are tried."""
_XML = ("sdf", "urdf", "mjcf")  # their readers take the path, to find files beside it; the others take the text


def read_aircraft(
    path: str | Path, leave_out: bool = False, layout: str | None = None, drone: str | None = None
) -> ImportedVehicle:
    """Read a vehicle file of another program.

    Args:
        path: the file; `detect_format` detects its format.
        leave_out: ignore files that an SDF file includes and that do not exist, instead of raising an error.
        layout: name of the motor layout, for a format that has a motor count without positions.
        drone: name of the drone, for a file that describes several.

    Raises:
        VehicleError: the format is unknown, or the file is invalid.
    """
    file = Path(path)
    file_format = detect_format(file, read_limited(file)[:_HEAD_BYTES].decode("utf-8", "replace"))
    reader = getattr(import_module(f"samara.vehicles.exchange.{file_format.module}"), file_format.function)
    options = {"leave_out": leave_out, "layout": layout, "drone": drone}
    source = (file,) if file_format.module in _XML else (read_utf8(path), str(path))
    imported: ImportedVehicle = reader(*source, **{key: options[key] for key in file_format.options})
    if len(imported.rotors) > MAX_ROTORS:
        raise VehicleError(f"{path}: has {len(imported.rotors)} rotors; expected at most {MAX_ROTORS}")
    return imported


def detect_format(path: Path, head: str) -> ExchangeFormat:
    """Return the format that matches the content, else the one of the suffix, whose reader then reports the error."""
    by_content = [candidate for candidate in FORMATS if candidate.matches(head)]
    by_ending = [candidate for candidate in FORMATS if path.name.lower().endswith(candidate.endings)]
    by_both = [candidate for candidate in by_content if candidate in by_ending]
    if matches := (by_both or by_content or by_ending):
        return matches[0]
    format_list = "; ".join(f"{candidate.name} ({', '.join(candidate.endings)})" for candidate in FORMATS)
    raise VehicleError(f"{path}: begins with {quote_value(head[:40])}: expected one of {format_list}")


def estimate_from_parts(
    imported: ImportedVehicle, motors: str | None, props: str | None, battery: str | None = None, apc: str | None = None
) -> Vehicle:
    """Assemble a vehicle from parts on the rotors of a file; `build_imported` takes from it the parameters that the
    file lacks.

    `battery` may be None if the file has the cell count and the capacity.
    """
    battery = battery or battery_text(imported)
    required = {"--motors": motors, "--props": props, "--battery": battery, "--mass": imported.mass}
    required["--diagonal"] = None if imported.uses_arm_lengths else "known"
    missing = [key for key, option_value in required.items() if option_value is None]
    if missing:
        raise VehicleError(
            f"{imported.origin}: an estimate from parts needs {', '.join(missing)}: expected these options"
        )
    assert imported.mass is not None
    rotors = []
    for i, rotor in enumerate(imported.rotors):
        if rotor.position is None or rotor.spin is None:
            raise VehicleError(
                f"{imported.origin}: rotor {i} has no position or no spin: expected both, for an estimate from parts"
            )
        rotors.append([*rotor.position.values, "ccw" if rotor.spin > 0 else "cw"])
    return assemble(
        parts_list(
            imported.origin,
            name=imported.name,
            mass=imported.mass.value,
            motors=motors,
            props=props,
            battery=battery,
            rotors=rotors,
            apc=apc,
        )
    )


def battery_text(imported: ImportedVehicle) -> str | None:
    """Format the battery as 6S1300, if a file has cells and capacity."""
    battery = imported.battery or {}
    voltages, capacity = battery.get("table_voltage"), battery.get("capacity")
    if not isinstance(voltages, UncertainVector) or not isinstance(capacity, UncertainValue):
        return None
    return f"{round(voltages.values[-1] / FULL_CELL_VOLTAGE)}S{round(capacity.value / 3.6)}"
