"""Read and write Betaflight's `diff all` or `dump all`: the mixer, which way the motors turn, and what it knows of the battery.

A row of a mixer is what a motor adds to roll (left up), pitch (tail up) and yaw (nose right), so it sits at (−pitch, roll) and
turns counter-clockwise where yaw is positive. Lower motors of a pair come after the upper ones. Thrust is made linear by
u = t (1 + L (1 − t)²), L = thrust_linear/100: the curve of the motors is met at hover.

Betaflight knows no lengths, no masses and no thrust: positions count in arms. `resource MOTOR` moves a motor to another pin and
`motor_output_reordering` to another output; neither moves it on the frame, where motor n is row n of the mixer.
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

from samara.core.atomic_files import write_text
from samara.core.sanitise import shown
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Several
from samara.vehicles.exchange.px4 import cell_battery
from samara.vehicles.exchange.safe_xml import number
from samara.vehicles.exchange.throttle import hover_throttle, pack_of
from samara.vehicles.parts.layouts import Mount, match_rotors
from samara.vehicles.parts.uncertain import Estimate


class Row(NamedTuple):
    """What one motor adds to roll, pitch and yaw."""

    roll: float
    pitch: float
    yaw: float


def _rows(*numbers: tuple[float, float, float]) -> tuple[Row, ...]:
    return tuple(Row(*own) for own in numbers)


_H, _S, _T = 0.866025, 0.707107, 0.414178
_QUAD_X = _rows((-1, 1, -1), (-1, -1, 1), (1, 1, 1), (1, -1, -1))
_Y = ((0, 1.333333), (-1, -0.666667), (1, -0.666667))

MIXERS = {
    "QUADX": _QUAD_X,
    "QUADX1234": tuple(_QUAD_X[i] for i in (3, 1, 0, 2)),
    "QUADP": _rows((0, 1, -1), (-1, 0, 1), (1, 0, 1), (0, -1, -1)),
    "HEX6X": _rows((-0.5, _H, 1), (-0.5, -_H, 1), (0.5, _H, -1), (0.5, -_H, -1), (-1, 0, -1), (1, 0, 1)),
    "HEX6": _rows((-_H, 0.5, 1), (-_H, -0.5, -1), (_H, 0.5, 1), (_H, -0.5, -1), (0, -1, 1), (0, 1, -1)),
    "Y6": _rows(
        *((roll, pitch, yaw) for (roll, pitch), yaw in zip(_Y, (1, -1, -1), strict=True)),
        *((roll, pitch, yaw) for (roll, pitch), yaw in zip(_Y, (-1, 1, 1), strict=True)),
    ),
    "OCTOX8": (*_QUAD_X, *(own._replace(yaw=-own.yaw) for own in _QUAD_X)),
    "OCTOFLATP": _rows(
        *((_S, -_S, 1), (-_S, -_S, 1), (-_S, _S, 1), (_S, _S, 1)), *((0, -1, -1), (-1, 0, -1), (0, 1, -1), (1, 0, -1))
    ),
    "OCTOFLATX": _rows(
        *((1, -_T, 1), (-_T, -1, 1), (-1, _T, 1), (_T, 1, 1)), *((_T, -1, -1), (-1, -_T, -1), (-_T, 1, -1), (1, _T, -1))
    ),
}
"""By the name of the CLI (Betaflight 4.6, mixer_init.c)"""
SERVOED = ("TRI", "BI", "CUSTOMTRI", "DUALCOPTER", "SINGLECOPTER")


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


def betaflight_diff(text: str, origin: str) -> Imported:
    """Read the layout of an aircraft from the text of a diff of Betaflight"""
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


NAMED = ("QUADX", "QUADP", "HEX6X", "HEX6", "OCTOFLATX", "OCTOFLATP", "OCTOX8", "Y6")
CLOSE = 0.05  # of an arm: as far as a rotor may be from a mixer's motor
MOST_LINEAR = 150


def betaflight_mixer(vehicle: Vehicle) -> tuple[str, tuple[int, ...], bool]:
    """The mixer's name, the vehicle's rotors in the order of its motors, and whether they turn the other way round

    CUSTOM, in the vehicle's own order, where no mixer has its motors at these places.
    """
    if not 0 < len(vehicle.rotors) <= MOST_MOTORS:
        raise VehicleError(f"{vehicle.name}: has {len(vehicle.rotors)} rotors; Betaflight drives 1 to {MOST_MOTORS}")
    for name in NAMED:
        for reversed_ in (False, True):
            if order := _order(vehicle, MIXERS[name], reversed_):
                return name, order, reversed_
    return "CUSTOM", tuple(range(len(vehicle.rotors))), False


def betaflight_text(vehicle: Vehicle) -> str:
    """Lines to paste into Betaflight's CLI"""
    name, order, reversed_ = betaflight_mixer(vehicle)
    lines = [f"# {vehicle.name}, written by Samara for Betaflight's CLI"]
    lines += [f"# motor {i} is rotor {at}" for i, at in enumerate(order, 1)]
    lines += ["", f"mixer {name}"]
    if name == "CUSTOM":
        lines.append("mmix reset")
        for i, row in enumerate(_custom_rows(vehicle)):
            lines.append(f"mmix {i} 1.000000 {row.roll:.6f} {row.pitch:.6f} {row.yaw:.6f}")
    settings: dict[str, str | int] = {
        "craft_name": vehicle.name[:16],
        "yaw_motors_reversed": "ON" if reversed_ else "OFF",
        "thrust_linear": thrust_linear(vehicle),
    }
    pack = pack_of(vehicle)
    if pack and pack.cells:
        settings["force_battery_cell_count"] = pack.cells
    if pack and 0 < round(pack.capacity / 3.6) <= 20000:
        settings["bat_capacity"] = round(pack.capacity / 3.6)
    lines += [f"set {key} = {value}" for key, value in settings.items()]
    return "\n".join([*lines, "save"]) + "\n"


def thrust_linear(vehicle: Vehicle) -> int:
    """100 (u/t − 1) / (1 − t)², 0 to 150"""
    found = hover_throttle(vehicle)
    percent = 100.0 * (found.throttle / found.thrust - 1.0) / (1.0 - found.thrust) ** 2
    return round(min(max(percent, 0.0), MOST_LINEAR))


def write_betaflight(vehicle: Vehicle, target: Path) -> tuple[Path, ...]:
    """NAME.txt"""
    path = target if target.suffix == ".txt" else target.with_name(f"{target.name}.txt")
    write_text(path, betaflight_text(vehicle))
    return (path,)


def betaflight_left_out(vehicle: Vehicle) -> tuple[str, ...]:
    """What Betaflight has no word for"""
    found = ["sizes, mass, inertia, thrust and drag", "gains, which Betaflight is tuned for in flight"]
    if any(rotor.axis_B.z < 0.999 for rotor in vehicle.rotors):
        found.append("tilted rotors: the mixer takes them for upright")
    return tuple(found)


def _custom_rows(vehicle: Vehicle) -> tuple[Row, ...]:
    """(y, −x) over the longest arm along roll or pitch, and the turn"""
    reach = max(max(abs(rotor.r_B.x), abs(rotor.r_B.y)) for rotor in vehicle.rotors)
    if not reach > 0.0:
        raise VehicleError(f"{vehicle.name}: all rotors are in the middle; expected some on arms")
    return tuple(
        Row(float(rotor.r_B.y) / reach, 0.0 - float(rotor.r_B.x) / reach, float(rotor.spin)) for rotor in vehicle.rotors
    )


def _order(vehicle: Vehicle, rows: tuple[Row, ...], reversed_: bool) -> tuple[int, ...] | None:
    """The vehicle's rotors in the order of a mixer's motors"""
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    size = arm / max(math.hypot(row.roll, row.pitch) for row in rows)
    turn = -1.0 if reversed_ else 1.0
    mounts = [Mount("", -row.pitch * size, row.roll * size, int(math.copysign(1.0, turn * row.yaw))) for row in rows]

    def is_near(rotor: Rotor, mount: Mount) -> bool:
        return math.hypot(rotor.r_B.x - mount.x, rotor.r_B.y - mount.y) < CLOSE * arm

    return match_rotors(vehicle, mounts, is_near)
