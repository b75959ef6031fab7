"""The format of a file, by its ending and content, the reader of each, and an estimate from parts of what the file lacks."""

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
_HEAD = 1 << 16  # [bytes] that tell what a file is


class Format(NamedTuple):
    """One format: `holds` says of a file's first 64 kB whether they are of it; where endings are shared it decides"""

    name: str
    endings: tuple[str, ...]
    holds: Callable[[str], bool]
    module: str
    function: str
    choices: tuple[str, ...] = ()  # keywords of the reader besides the path


def _root(*tags: str) -> Callable[[str], bool]:
    """Whether the first element of an XML text is one of these"""
    return lambda head: _first_tag(head) in tags


def _first_tag(head: str) -> str:
    """The name of the first element, or that of the document type: after declaration and comments, in one pass"""
    at = 0
    while found := _MARKUP.match(head, at):
        if found[1] not in ("?", "!--"):
            return found[1].removeprefix("!DOCTYPE").strip()
        end = head.find("?>" if found[1] == "?" else "-->", found.end())
        if end < 0:
            return ""
        at = end + 2
        at += head[at : at + 1] == ">"
    return ""


def _has(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern is somewhere in a text, ^ and $ being those of lines"""
    wanted = re.compile(pattern, re.MULTILINE)
    return lambda head: wanted.search(head) is not None


_BETAFLIGHT = (
    r"^# (?:Betaflight /|diff all|dump all)|^(?:mixer|mmix|resource MOTOR) |^set (?:motor_poles|yaw_motors_reversed) "
)
FORMATS = (
    Format("Gazebo SDF", (".sdf", ".world"), _root("sdf", "gazebo"), "sdf", "read_sdf", ("leave_out",)),
    Format("URDF", (".urdf", ".xacro"), _root("robot"), "urdf", "read_urdf"),
    Format("MJCF", (".xml", ".mjcf"), _root("mujoco"), "mjcf", "read_mjcf"),
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
"""Every format that is read, in the order in which a file is tried"""
_XML = ("sdf", "urdf", "mjcf")  # their readers take the path, for files beside it; the others the text


def read_aircraft(
    path: str | Path, leave_out: bool = False, layout: str | None = None, drone: str | None = None
) -> Imported:
    """What a file of another program says of an aircraft; with `leave_out` without the parts of it that are not there

    `layout` is for one that counts motors and does not place them, `drone` the name of one where a file has several.
    """
    own = Path(path)
    found = format_of(own, read_limited(own)[:_HEAD].decode("utf-8", "replace"))
    reader = getattr(import_module(f"samara.vehicles.exchange.{found.module}"), found.function)
    choices = {"leave_out": leave_out, "layout": layout, "drone": drone}
    source = (own,) if found.module in _XML else (text_of(path), str(path))
    imported: Imported = reader(*source, **{key: choices[key] for key in found.choices})
    if len(imported.rotors) > MAX_ROTORS:
        raise VehicleError(f"{path}: has {len(imported.rotors)} rotors; expected at most {MAX_ROTORS}")
    return imported


def format_of(path: Path, head: str) -> Format:
    """The format whose content the file has; where none has, the one of its ending, whose reader says what is wrong"""
    by_content = [own for own in FORMATS if own.holds(head)]
    by_ending = [own for own in FORMATS if path.name.lower().endswith(own.endings)]
    both = [own for own in by_content if own in by_ending]
    if found := (both or by_content or by_ending):
        return found[0]
    listed = "; ".join(f"{own.name} ({', '.join(own.endings)})" for own in FORMATS)
    raise VehicleError(f"{path}: begins with {shown(head[:40])}: expected one of {listed}")


def estimated_from_parts(
    read: Imported, motors: str | None, props: str | None, battery: str | None = None, apc: str | None = None
) -> Vehicle:
    """The vehicle that these parts make on the rotors of a file, which `built` takes the rest from

    A battery that the file counts the cells of need not be named.
    """
    battery = battery or pack_text(read)
    named = {"--motors": motors, "--props": props, "--battery": battery, "--mass": read.mass}
    named["--diagonal"] = None if read.arm_lengths else "known"
    lacking = [key for key, own in named.items() if own is None]
    if lacking:
        raise VehicleError(f"{read.origin}: an estimate from parts lacks {', '.join(lacking)}: expected them besides")
    assert read.mass is not None
    rotors = []
    for i, rotor in enumerate(read.rotors):
        if rotor.position is None or rotor.spin is None:
            raise VehicleError(
                f"{read.origin}: rotor {i} has no place or no turn: expected both, for an estimate from parts"
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
    """6S1300, where a file says cells and capacity"""
    known = read.battery or {}
    volts, capacity = known.get("table_voltage"), known.get("capacity")
    if not isinstance(volts, Several) or not isinstance(capacity, Estimate):
        return None
    return f"{round(volts.values[-1] / CELL)}S{round(capacity.value / 3.6)}"
