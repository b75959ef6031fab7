"""Betaflight's `diff all`, or `dump all`: the mixer, which way the motors turn, and what it knows of the battery.

Betaflight knows no lengths, no masses and no thrust: positions count in arms. `resource MOTOR` moves a motor to another pin and
`motor_output_reordering` to another output; neither moves it on the frame, where motor n is row n of the mixer.
"""

import math
import re
from pathlib import Path

from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.betaflight_mixers import MIXERS, SERVOED, Row
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Several
from samara.vehicles.exchange.parameter_text import number, text_of
from samara.vehicles.exchange.px4_read import cell_battery
from samara.vehicles.parts.uncertain import Estimate

FORMAT = "a diff of Betaflight"
SETTING = re.compile(r"set\s+(\w+)\s*=\s*(.*?)\s*\Z")
LOWER = 0.15  # of an arm, from the upper rotor of a pair to the lower one
MOST_MOTORS = 8


class _Said:
    """What the lines of a diff say: the last of them, as in Betaflight, where `defaults` begins anew"""

    def __init__(self, text: str, origin: str) -> None:
        self.origin = origin
        self.settings: dict[str, str] = {}
        self.pins: dict[int, str] = {}
        self.custom: dict[int, Row] = {}
        self.mixer, self.name, self.version = "", "", ""
        for at, line in enumerate(text.splitlines(), 1):
            self._line(line.strip(), at)
        if not (self.settings or self.mixer or self.pins or self.version):
            raise VehicleError(f"{origin}: has no line of Betaflight's; expected {FORMAT} (`diff all`)")

    def _line(self, line: str, at: int) -> None:
        if match := SETTING.match(line):
            self.settings[match[1].lower()] = match[2]
            return
        if line.startswith("#"):
            self.version = self.version or (line if "betaflight" in line.lower() else "")
            return
        first, *rest = line.split() or [""]
        if first == "mixer" and rest:
            self.mixer = rest[0].upper()
        elif first in ("name", "craft_name") and rest:
            self.name = " ".join(rest)
        elif first == "defaults":
            self.pins, self.settings, self.custom, self.mixer = {}, {}, {}, ""
        elif first == "resource" and len(rest) == 3 and rest[0].upper() == "MOTOR":
            self.pins[self._motor(rest[1], 1, line, at)] = rest[2].upper()
        elif first == "mmix" and rest == ["reset"]:
            self.custom = {}
        elif first == "mmix" and len(rest) == 5:
            where = f"{self.origin}: line {at}, mmix"
            throttle, *row = (number(own, where) for own in rest[1:])
            if throttle > 0.0:
                self.custom[self._motor(rest[0], 0, line, at)] = Row(*row)

    def _motor(self, text: str, first: int, line: str, at: int) -> int:
        if not (text.isdigit() and first <= int(text) < first + MOST_MOTORS):
            raise VehicleError(f"{self.origin}: line {at}, {shown(line)}: expected a motor from {first}")
        return int(text) - first

    def rows(self) -> tuple[str, tuple[Row, ...]]:
        name = self.mixer or "QUADX"
        if name == "CUSTOM":
            if sorted(self.custom) != list(range(len(self.custom))) or not self.custom:
                raise VehicleError(
                    f"{self.origin}: mixer CUSTOM without mmix lines from 0 on; expected one for each motor"
                )
            return name, tuple(self.custom[i] for i in range(len(self.custom)))
        if name in SERVOED:
            raise VehicleError(f"{self.origin}: mixer {name} needs servos; expected one of CUSTOM, {', '.join(MIXERS)}")
        if name not in MIXERS:
            raise VehicleError(f"{self.origin}: mixer {shown(name)}: expected one of CUSTOM, {', '.join(MIXERS)}")
        return name, MIXERS[name]


def read_betaflight_diff(path: str | Path) -> Imported:
    """The layout of a diff of Betaflight"""
    return betaflight_diff(text_of(path), str(path))


def betaflight_diff(text: str, origin: str) -> Imported:
    """The same, of its text"""
    said, file = _Said(text, origin), Path(origin).name
    mixer, rows = said.rows()
    if all(own.yaw == 0.0 for own in rows):
        raise VehicleError(f"{origin}: mixer {mixer} has no row that yaws; expected which way the motors turn")
    away = said.settings.get("yaw_motors_reversed", "OFF").upper()
    if away not in ("ON", "OFF"):
        raise VehicleError(f"{origin}: yaw_motors_reversed = {shown(away)}: expected ON or OFF")
    reach = max(math.hypot(own.roll, own.pitch) for own in rows)
    if not reach > 0.0:
        raise VehicleError(f"{origin}: mixer {mixer} has no row that rolls or pitches; expected motors on arms")
    rotors, seen = [], set()
    for i, own in enumerate(rows):
        at = (-own.pitch / reach + 0.0, own.roll / reach + 0.0)
        key = (round(at[0], 3), round(at[1], 3))
        below = -LOWER if key in seen else 0.0
        seen.add(key)
        how = f"{file}: {'mmix' if mixer == 'CUSTOM' else 'mixer ' + mixer}, motor {i + 1}"
        if own.yaw == 0.0:
            raise VehicleError(f"{origin}: motor {i + 1} of mixer {mixer} does not yaw; expected which way it turns")
        spin = (1 if own.yaw > 0.0 else -1) * (-1 if away == "ON" else 1)
        rotors.append(ImportedRotor(position=Several((*at, below), how), spin=spin))
    return Imported(
        name=re.sub(r"\W+", "_", said.settings.get("craft_name", "") or said.name or Path(origin).stem) or "betaflight",
        origin=origin,
        format=FORMAT,
        rotors=tuple(rotors),
        arm_lengths=True,
        battery=_battery(said, file),
        description=f"{file}, a {mixer} of Betaflight, props {'out' if away == 'ON' else 'in'}",
        notes=_notes(said, len(rows)),
    )


def _whole(said: _Said, key: str) -> float:
    return number(said.settings[key], f"{said.origin}: {key}") if key in said.settings else 0.0


def _battery(said: _Said, file: str) -> dict[str, Estimate | Several] | None:
    cells, capacity = _whole(said, "force_battery_cell_count"), _whole(said, "bat_capacity")
    if not cells:
        return None
    if not (cells == int(cells) and 1 <= cells <= 24):
        raise VehicleError(f"{said.origin}: force_battery_cell_count = {cells:g}: expected a whole number, at most 24")
    known = Estimate(3.6 * capacity, 0.0, f"{file}: bat_capacity") if capacity > 0.0 else None
    return dict(cell_battery(int(cells), f"{file}: force_battery_cell_count", known, None))


def _notes(said: _Said, count: int) -> tuple[str, ...]:
    notes = []
    wired = {motor: pin for motor, pin in said.pins.items() if pin != "NONE"}
    if wired:
        listed = ", ".join(f"motor {motor + 1} on {pin}" for motor, pin in sorted(wired.items()))
        notes.append(f"wired otherwise than the board has it, which moves no motor on the frame: {listed}")
    lost = sorted(motor + 1 for motor, pin in said.pins.items() if pin == "NONE" and motor < count)
    if lost:
        notes.append(f"without a pin, and yet in the mixer: motor {', '.join(map(str, lost))}")
    for key, word in (
        ("motor_poles", "magnets, for the rpm filter; the vehicle has no such number"),
        ("motor_kv", "of the motors: give it with the parts"),
        ("thrust_linear", "percent: Betaflight makes thrust more linear itself"),
        ("motor_output_reordering", "outputs in another order"),
    ):
        if key in said.settings:
            notes.append(f"{key} = {said.settings[key]}: {word}")
    return tuple(notes)
