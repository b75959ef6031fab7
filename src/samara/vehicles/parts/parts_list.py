"""A parts list: the builder's data of an aircraft, from command-line options, prompts or a short TOML file.

    name     = "racer"
    mass     = 0.65            # kg, ready to fly
    diagonal = 0.22            # m, from motor to motor
    motors   = "2207 1950KV"
    props    = "5.1x4.3x3"
    battery  = "6S1300"

Any key of `OPTIONAL_KEYS`, in SI units, replaces the estimate of that parameter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.budget import read_text, resolve_sibling_path
from samara.core.coerce import is_number
from samara.core.quantity import Tree
from samara.core.sanitise import quote_value
from samara.core.toml import TomlFile, TomlTable, parse_document
from samara.vehicles.parts.layouts import LAYOUTS, Hub, coordinate_hubs, find_layout, layout_hubs
from samara.vehicles.rotor_numbering import CCW, CW

MIN_MASS, MAX_MASS = 0.01, 25.0  # [kg]: range of the data behind the fits
MIN_DIAGONAL, MAX_DIAGONAL = 0.03, 4.0  # [m]: of the diagonal
SPINS = {"ccw": CCW, "cw": CW}
MAX_ROTORS = 24


class PartsError(ValueError):
    """A contradiction or an invalid value in a parts list, in one sentence."""


class OptionalKey(NamedTuple):
    """An optional key of a parts list: its unit, the length of its value, its description and the allowed sign."""

    unit: str
    length: int
    description: str
    sign: str = "positive"


OPTIONAL_KEYS: Mapping[str, OptionalKey] = {
    "inertia": OptionalKey("kg m^2", 3, "moments of inertia about x, y and z of the whole aircraft"),
    "k_thrust": OptionalKey("N s^2/rad^2", 1, "thrust of one propeller over its speed squared"),
    "k_torque": OptionalKey("N m s^2/rad^2", 1, "torque of one propeller over its speed squared"),
    "prop_mass": OptionalKey("kg", 1, "one propeller"),
    "prop_inertia": OptionalKey("kg m^2", 1, "one propeller about its axis"),
    "resistance": OptionalKey("ohm", 1, "one motor, between two of its leads"),
    "no_load_current": OptionalKey("A", 1, "one motor without a propeller", "not negative"),
    "motor_mass": OptionalKey("kg", 1, "one motor"),
    "motor_inertia": OptionalKey("kg m^2", 1, "rotating part of one motor"),
    "current_max": OptionalKey("A", 1, "current limit of one speed controller"),
    "esc_mass": OptionalKey("kg", 1, "all speed controllers", "not negative"),
    "board_mass": OptionalKey("kg", 1, "flight controller, receiver, camera and everything else in the centre"),
    "battery_mass": OptionalKey("kg", 1, "the battery"),
    "battery_resistance": OptionalKey("ohm", 1, "the whole battery with its leads"),
    "battery_position": OptionalKey("m", 3, "the battery's centre from that of the rotors, forward, left, up", "any"),
    "payload": OptionalKey("kg", 1, "carried, and part of the mass", "not negative"),
    "payload_position": OptionalKey("m", 3, "the payload's centre from that of the rotors, forward, left, up", "any"),
    "drag_area": OptionalKey("m^2", 3, "drag over ½ρv² along x, y and z", "not negative"),
    "leg_height": OptionalKey("m", 1, "from the propellers down to the feet"),
    "coaxial_gap": OptionalKey("m", 1, "between the discs of a coaxial pair"),
}
"""Each a key of the file and, with dashes, an option of `samara vehicle new`."""

_TEXT_EXAMPLES = {"motors": "such as '2207 1950KV'", "props": "such as '5.1x4.3x3'", "battery": "such as '6S1300'"}


@dataclass(frozen=True)
class PartsList:
    """The builder's data. The size is the diagonal of a named layout, or follows from the rotors' coordinates."""

    name: str
    mass: float
    motors: str
    props: str
    battery: str
    layout: str = "quad_x"
    diagonal: float | None = None
    rotors: tuple[tuple[Vec3, int], ...] = ()
    apc: str | None = None
    optional_values: tuple[tuple[str, Tree], ...] = ()

    def optional_value(self, key: str) -> Tree:
        """The value of a key of `OPTIONAL_KEYS`, or None if the builder did not set it."""
        return dict(self.optional_values).get(key)


def frame_hubs(parts: PartsList, gap: float) -> tuple[Hub, ...]:
    """Return the rotors' hubs, relative to the centre of the rotors  [m]."""
    if parts.rotors:
        return coordinate_hubs(parts.rotors)
    assert parts.diagonal is not None  # `parts_list` checked it
    return layout_hubs(find_layout(parts.layout), parts.diagonal, gap)


def parts_list(origin: str = "parts list", **entries: Tree) -> PartsList:
    """Check the keys of a parts list; raise a PartsError with key, value and expectation if one is invalid."""
    return _parse(
        TomlTable({key: value for key, value in entries.items() if value is not None}, TomlFile(origin, PartsError))
    )


def read_parts_list(path: str | Path, **overrides: Tree) -> PartsList:
    """Read a parts list from a file; keyword arguments take precedence over the file."""
    return parts_list(
        Path(path).name, **{**parts_entries(path), **{k: v for k, v in overrides.items() if v is not None}}
    )


def parts_entries(path: str | Path) -> dict[str, Tree]:
    """Read the keys of a file without checking them; the path of an APC file is relative to the file."""
    try:
        text = read_text(Path(path))
    except OSError as error:
        raise PartsError(f"{path}: cannot be read ({error}); expected a parts list") from None
    entries = parse_document(text, Path(path).name, PartsError)
    if isinstance(entries.get("apc"), str):
        try:
            entries["apc"] = str(resolve_sibling_path(Path(path).parent, entries["apc"]))
        except ValueError as error:
            raise PartsError(f"{Path(path).name}: apc = {quote_value(entries['apc'])}: {error}") from None
    return entries


def missing_keys(entries: Mapping[str, object]) -> tuple[str, ...]:
    """Return the required keys that these entries lack."""
    has_size = any(entries.get(key) is not None for key in ("diagonal", "arm", "rotors"))
    required = ["mass", *([] if has_size else ["diagonal"]), *_TEXT_EXAMPLES]
    return tuple(key for key in required if entries.get(key) is None)


def _parse(table: TomlTable) -> PartsList:
    name = table.text("name", "drone")
    mass = _bounded_number(table, "mass", MIN_MASS, MAX_MASS, "kg")
    texts = {
        key: table.text(key) if key in table else _raise_missing(table, key, example)
        for key, example in _TEXT_EXAMPLES.items()
    }
    rotors = _rotors(table)
    layout = table.text("layout", "quad_x")
    with table.error_context():
        named_layout = find_layout(layout)
    diagonal = None
    if rotors:
        for key in ("diagonal", "arm"):
            if key in table:
                raise table.error(key, table.entries[key], "none beside rotors, whose coordinates define the size")
    elif "arm" in table:
        if "diagonal" in table:
            raise table.error("arm", table.entries["arm"], "either arm or diagonal")
        diagonal = 2.0 * _bounded_number(table, "arm", 0.5 * MIN_DIAGONAL, 0.5 * MAX_DIAGONAL, "m")
    else:
        diagonal = _bounded_number(table, "diagonal", MIN_DIAGONAL, MAX_DIAGONAL, "m")
    apc = table.text("apc") if "apc" in table else None
    optional_values = tuple(
        (key, _optional_value(table, key, spec)) for key, spec in OPTIONAL_KEYS.items() if key in table
    )
    table.finish()
    key = next((name_key for name_key, candidate in LAYOUTS.items() if candidate is named_layout), layout)
    return PartsList(
        name, mass, **texts, layout=key, diagonal=diagonal, rotors=rotors, apc=apc, optional_values=optional_values
    )


def _raise_missing(table: TomlTable, key: str, example: str) -> str:
    raise table.missing_error(key, f"a text {example}")


def _bounded_number(table: TomlTable, key: str, low: float, high: float, unit: str) -> float:
    expected = f"a number from {low:g} to {high:g} {unit}"
    value = table.take(key, expected)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise table.error(key, value, expected)
    return float(value)


def _optional_value(table: TomlTable, key: str, spec: OptionalKey) -> Tree:
    signs = {"positive": "a positive number", "not negative": "a number that is not negative", "any": "a finite number"}
    requirement = f"{signs[spec.sign]} [{spec.unit}]"
    expected = requirement if spec.length == 1 else f"{spec.length} numbers, each {requirement}"
    value = table.take(key, expected)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    is_valid = len(values) == spec.length and (spec.length == 1) == (not isinstance(value, (list, tuple)))
    for number in values:
        is_valid = (
            is_valid
            and is_number(number)
            and (spec.sign == "any" or number > 0.0 or (spec.sign == "not negative" and number == 0.0))
        )
    if not is_valid:
        raise table.error(key, value, expected)
    return float(values[0]) if spec.length == 1 else Vec3(*(float(number) for number in values))


def _rotors(table: TomlTable) -> tuple[tuple[Vec3, int], ...]:
    if "rotors" not in table:
        return ()
    expected = "a list of [x, y, z, 'ccw' or 'cw'], three rotors or more, in metres from their centre"
    value = table.take("rotors", expected)
    if not isinstance(value, (list, tuple)) or not 3 <= len(value) <= MAX_ROTORS:
        raise table.error("rotors", value, expected)
    coordinates = []
    for i, row in enumerate(value):
        if not _is_rotor(row):
            raise table.make_error(f"[{i}] = {quote_value(row)}: expected [x, y, z, 'ccw' or 'cw'] in metres", "rotors")
        coordinates.append((Vec3(*(float(x) for x in row[:3])), SPINS[row[3]]))
    return tuple(coordinates)


def _is_rotor(row: object) -> bool:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 4 or row[3] not in ("ccw", "cw"):
        return False
    return all(isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) <= MAX_DIAGONAL for x in row[:3])
