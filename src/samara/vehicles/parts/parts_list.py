"""A parts list: what a builder knows of an aircraft, from flags, questions or a short TOML file.

    name     = "racer"
    mass     = 0.65            # kg, ready to fly
    diagonal = 0.22            # m, from motor to motor
    motors   = "2207 1950KV"
    props    = "5.1x4.3x3"
    battery  = "6S1300"

Whatever else is known is given instead of estimated: a key of `KNOWN`, in SI units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.budget import path_beside, read_text
from samara.core.coerce import is_number
from samara.core.quantity import Tree
from samara.core.sanitise import shown
from samara.core.toml import File, Table, document
from samara.vehicles.parts.layouts import LAYOUTS, Hub, hubs_at, hubs_of, layout_named
from samara.vehicles.rotor_numbering import CCW, CW

LIGHTEST, HEAVIEST = 0.01, 25.0  # [kg]: what the fits behind a parts list have seen
SMALLEST, WIDEST = 0.03, 4.0  # [m]: a diagonal
SPINS = {"ccw": CCW, "cw": CW}
MOST_ROTORS = 24


class PartsError(ValueError):
    """One sentence about what cannot be of a parts list"""


class Known(NamedTuple):
    """A number that may be given instead of estimated: how many, in which unit, whether 0 will do, and what it is"""

    unit: str
    numbers: int
    about: str
    sign: str = "positive"


KNOWN: Mapping[str, Known] = {
    "inertia": Known("kg m^2", 3, "moments of inertia about x, y and z of the whole aircraft"),
    "k_thrust": Known("N s^2/rad^2", 1, "thrust of one propeller over its speed squared"),
    "k_torque": Known("N m s^2/rad^2", 1, "torque of one propeller over its speed squared"),
    "prop_mass": Known("kg", 1, "one propeller"),
    "prop_inertia": Known("kg m^2", 1, "one propeller about its axis"),
    "resistance": Known("ohm", 1, "one motor, between two of its leads"),
    "no_load_current": Known("A", 1, "one motor without a propeller", "not negative"),
    "motor_mass": Known("kg", 1, "one motor"),
    "motor_inertia": Known("kg m^2", 1, "what turns of one motor"),
    "current_max": Known("A", 1, "the most that one speed controller gives"),
    "esc_mass": Known("kg", 1, "all speed controllers", "not negative"),
    "board_mass": Known("kg", 1, "flight controller, receiver, camera and all else in the middle"),
    "battery_mass": Known("kg", 1, "the battery"),
    "battery_resistance": Known("ohm", 1, "the whole battery with its leads"),
    "battery_position": Known("m", 3, "the battery's middle from that of the rotors, forward, left, up", "any"),
    "payload": Known("kg", 1, "carried, and part of the mass", "not negative"),
    "payload_position": Known("m", 3, "the payload's middle from that of the rotors, forward, left, up", "any"),
    "drag_area": Known("m^2", 3, "drag over ½ρv² along x, y and z", "not negative"),
    "leg_height": Known("m", 1, "from the propellers down to the feet"),
    "coaxial_gap": Known("m", 1, "between the discs of a coaxial pair"),
}
"""Each a key of the file and, with dashes, an option of `samara vehicle new`."""

_TEXTS = {"motors": "such as '2207 1950KV'", "props": "such as '5.1x4.3x3'", "battery": "such as '6S1300'"}


@dataclass(frozen=True)
class PartsList:
    """What a builder knows. The size is the diagonal of a layout by name, or stands in the rotors' coordinates."""

    name: str
    mass: float
    motors: str
    props: str
    battery: str
    layout: str = "quad_x"
    diagonal: float | None = None
    rotors: tuple[tuple[Vec3, int], ...] = ()
    apc: str | None = None
    known: tuple[tuple[str, Tree], ...] = ()

    def given(self, key: str) -> Tree:
        """A number of `KNOWN` that the builder gave, or None"""
        return dict(self.known).get(key)


def hubs(parts: PartsList, gap: float) -> tuple[Hub, ...]:
    """The rotors' hubs, from the middle of the rotors  [m]"""
    if parts.rotors:
        return hubs_at(parts.rotors)
    assert parts.diagonal is not None  # `parts_list` saw to it
    return hubs_of(layout_named(parts.layout), parts.diagonal, gap)


def parts_list(origin: str = "parts list", **entries: Tree) -> PartsList:
    """A checked parts list of the keys of such a file, or a PartsError that names the key, its value and what was expected"""
    return _parsed(Table({key: own for key, own in entries.items() if own is not None}, File(origin, PartsError)))


def read_parts_list(path: str | Path, **more: Tree) -> PartsList:
    """The parts list of a file; what is given besides goes before the file's own"""
    return parts_list(Path(path).name, **{**parts_entries(path), **{k: v for k, v in more.items() if v is not None}})


def parts_entries(path: str | Path) -> dict[str, Tree]:
    """The keys of a file as they are written; a file of an APC propeller is looked for beside it"""
    try:
        text = read_text(Path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PartsError(f"{path}: cannot be read ({error}); expected a parts list") from None
    entries = document(text, Path(path).name, PartsError)
    if isinstance(entries.get("apc"), str):
        try:
            entries["apc"] = str(path_beside(Path(path).parent, entries["apc"]))
        except ValueError as error:
            raise PartsError(f"{Path(path).name}: apc = {shown(entries['apc'])}: {error}") from None
    return entries


def missing(entries: Mapping[str, object]) -> tuple[str, ...]:
    """What a parts list cannot do without and these keys lack"""
    sized = any(entries.get(key) is not None for key in ("diagonal", "arm", "rotors"))
    asked = ["mass", *([] if sized else ["diagonal"]), *_TEXTS]
    return tuple(key for key in asked if entries.get(key) is None)


def _parsed(table: Table) -> PartsList:
    name = table.text("name", "drone")
    mass = _within(table, "mass", LIGHTEST, HEAVIEST, "kg")
    texts = {key: table.text(key) if key in table else _lacking(table, key, said) for key, said in _TEXTS.items()}
    rotors = _rotors(table)
    layout = table.text("layout", "quad_x")
    with table.at():
        found = layout_named(layout)
    diagonal = None
    if rotors:
        for key in ("diagonal", "arm"):
            if key in table:
                raise table.error(key, table.entries[key], "none beside rotors, whose coordinates say it")
    elif "arm" in table:
        if "diagonal" in table:
            raise table.error("arm", table.entries["arm"], "either arm or diagonal")
        diagonal = 2.0 * _within(table, "arm", 0.5 * SMALLEST, 0.5 * WIDEST, "m")
    else:
        diagonal = _within(table, "diagonal", SMALLEST, WIDEST, "m")
    apc = table.text("apc") if "apc" in table else None
    known = tuple((key, _known(table, key, own)) for key, own in KNOWN.items() if key in table)
    table.finish()
    key = next((own for own, each in LAYOUTS.items() if each is found), layout)
    return PartsList(name, mass, **texts, layout=key, diagonal=diagonal, rotors=rotors, apc=apc, known=known)


def _lacking(table: Table, key: str, said: str) -> str:
    raise table.missing(key, f"a text {said}")


def _within(table: Table, key: str, low: float, high: float, unit: str) -> float:
    expected = f"a number from {low:g} to {high:g} {unit}"
    value = table.take(key, expected)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise table.error(key, value, expected)
    return float(value)


def _known(table: Table, key: str, own: Known) -> Tree:
    signs = {"positive": "a positive number", "not negative": "a number that is not negative", "any": "a finite number"}
    each = f"{signs[own.sign]} [{own.unit}]"
    expected = each if own.numbers == 1 else f"{own.numbers} numbers, each {each}"
    value = table.take(key, expected)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    fine = len(values) == own.numbers and (own.numbers == 1) == (not isinstance(value, (list, tuple)))
    for number in values:
        fine = (
            fine
            and is_number(number)
            and (own.sign == "any" or number > 0.0 or (own.sign == "not negative" and number == 0.0))
        )
    if not fine:
        raise table.error(key, value, expected)
    return float(values[0]) if own.numbers == 1 else Vec3(*(float(number) for number in values))


def _rotors(table: Table) -> tuple[tuple[Vec3, int], ...]:
    if "rotors" not in table:
        return ()
    expected = "a list of [x, y, z, 'ccw' or 'cw'], three rotors or more, in metres from their middle"
    value = table.take("rotors", expected)
    if not isinstance(value, (list, tuple)) or not 3 <= len(value) <= MOST_ROTORS:
        raise table.error("rotors", value, expected)
    places = []
    for i, own in enumerate(value):
        if not _is_rotor(own):
            raise table.wrong(f"[{i}] = {shown(own)}: expected [x, y, z, 'ccw' or 'cw'] in metres", "rotors")
        places.append((Vec3(*(float(x) for x in own[:3])), SPINS[own[3]]))
    return tuple(places)


def _is_rotor(own: object) -> bool:
    if not isinstance(own, Sequence) or isinstance(own, str) or len(own) != 4 or own[3] not in ("ccw", "cw"):
        return False
    return all(isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) <= WIDEST for x in own[:3])
