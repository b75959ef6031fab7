"""Read and write Betaflight's `diff all` or `dump all`: the mixer, the spin of the motors, and the battery.

A row of a mixer is a motor's contribution to roll (left up), pitch (tail up) and yaw (nose right), so the motor is at
(−pitch, roll) and turns counter-clockwise if yaw is positive. Lower motors of a pair come after the upper ones. Betaflight
linearises thrust by u = t (1 + L (1 − t)²), L = thrust_linear/100: the curve of the motors is matched at hover.

Betaflight has no lengths, masses or thrusts: positions are in arm lengths. `resource MOTOR` moves a motor to another pin and
`motor_output_reordering` to another output; neither moves it on the frame, where motor n is row n of the mixer.
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

from samara.core.atomic_files import write_text
from samara.core.sanitise import quote_value
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, ImportedVehicle, UncertainVector
from samara.vehicles.exchange.px4 import cell_battery
from samara.vehicles.exchange.safe_xml import parse_number
from samara.vehicles.exchange.throttle import battery_pack, hover_throttle
from samara.vehicles.parts.layouts import Mount, match_rotors
from samara.vehicles.parts.uncertain import UncertainValue


class MixerRow(NamedTuple):
    """Contribution of one motor to roll, pitch and yaw."""

    roll: float
    pitch: float
    yaw: float


def _rows(*contributions: tuple[float, float, float]) -> tuple[MixerRow, ...]:
    return tuple(MixerRow(*row) for row in contributions)


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
    "OCTOX8": (*_QUAD_X, *(row._replace(yaw=-row.yaw) for row in _QUAD_X)),
    "OCTOFLATP": _rows(
        *((_S, -_S, 1), (-_S, -_S, 1), (-_S, _S, 1), (_S, _S, 1)), *((0, -1, -1), (-1, 0, -1), (0, 1, -1), (1, 0, -1))
    ),
    "OCTOFLATX": _rows(
        *((1, -_T, 1), (-_T, -1, 1), (-1, _T, 1), (_T, 1, 1)), *((_T, -1, -1), (-1, -_T, -1), (-_T, 1, -1), (1, _T, -1))
    ),
}
"""Mixers by their names in the CLI (Betaflight 4.6, mixer_init.c)."""
SERVO_MIXERS = ("TRI", "BI", "CUSTOMTRI", "DUALCOPTER", "SINGLECOPTER")


FORMAT = "a diff of Betaflight"
SETTING_PATTERN = re.compile(r"set\s+(\w+)\s*=\s*(.*?)\s*\Z")
SECTION_KEYWORDS = ("profile", "rateprofile")
TUNING_PATTERN = re.compile(
    r"[pidfs]_(roll|pitch|yaw)|d_(min|max)_\w+|(gyro|dterm)_(lpf|notch|dyn)\w*|dyn_(notch|lpf)_\w+|yaw_lowpass_hz|"
    r"(simplified|angle|horizon|anti_gravity|iterm|feedforward|tpa|throttle_boost|pidsum_limit|abs_control)(_\w+)?"
)
"""Settings of PIDs and filters, which the simulated Betaflight has as well."""
STICK_PATTERN = re.compile(
    r"(roll|pitch|yaw)_(rc_rate|srate|expo|rate_limit)|rates_type|angle_limit|level_limit|thr_(mid|expo|hover)|"
    r"throttle_limit_(type|percent)|quickrates_rc_expo"
)
"""Settings of the rates: what the sticks mean."""
D_DEFAULTS = {"roll": (30, 40), "pitch": (34, 46), "yaw": (0, 0)}
"""Betaflight 4.3 to 4.5: d_min and d, which 4.6 calls d and d_max."""
LAST_D_MIN_VERSION = (4, 5)
VEHICLE_SETTINGS = ("craft_name", "yaw_motors_reversed", "force_battery_cell_count", "bat_capacity")
NOTED_SETTINGS = {
    "motor_poles": "magnets, for the rpm filter; the vehicle has no such parameter",
    "motor_kv": "Kv of the motors; set it with the parts",
    "thrust_linear": "percent by which Betaflight linearises the thrust",
    "motor_output_reordering": "the outputs are in another order, which moves no motor on the frame",
}
STRUCTURE_KEYWORDS = (
    *("mixer", "mmix", "name", "craft_name", "defaults", "resource", "save", "batch", "board_name", "mcu_id"),
    *("manufacturer_id", "signature", *SECTION_KEYWORDS),
)
COAXIAL_GAP_FRACTION = 0.15  # of an arm, from the upper rotor of a pair to the lower one
MAX_MOTORS = 8


class _Diff:
    """Settings, pins and mixer of a diff; as in Betaflight, a later line overrides, and `defaults` clears all."""

    def __init__(self, text: str, origin: str) -> None:
        self.origin = origin
        self.sections: dict[str, dict[str, str]] = {"": {}}
        self.selected: dict[str, str] = {}
        self.section = ""
        self.ignored_keywords: list[str] = []
        self.pins: dict[int, str] = {}
        self.custom: dict[int, MixerRow] = {}
        self.mixer, self.name, self.version = "", "", ""
        for line_number, line in enumerate(text.splitlines(), 1):
            self._parse_line(line.strip(), line_number)
        self.settings = {
            name: value
            for section in ("", *self.selected.values())
            for name, value in self.sections.get(section, {}).items()
        }
        if not (self.settings or self.mixer or self.pins or self.version):
            raise VehicleError(f"{origin}: has no Betaflight command; expected {FORMAT} (`diff all`)")

    def _parse_line(self, line: str, line_number: int) -> None:
        if match := SETTING_PATTERN.match(line):
            self.sections.setdefault(self.section, {})[match[1].lower()] = match[2]
            return
        if line.upper().startswith("# INAV"):
            raise VehicleError(f"{self.origin}: is a diff of INAV, whose settings differ; expected {FORMAT}")
        if line.startswith("#"):
            self.version = self.version or (line if "betaflight" in line.lower() else "")
            return
        keyword, *arguments = line.split() or [""]
        if keyword == "mixer" and arguments:
            self.mixer = arguments[0].upper()
        elif keyword in ("name", "craft_name") and arguments:
            self.name = " ".join(arguments)
        elif keyword == "defaults":
            self.pins, self.custom, self.mixer = {}, {}, ""
            self.sections, self.selected, self.section, self.ignored_keywords = {"": {}}, {}, "", []
        elif keyword == "resource" and len(arguments) == 3 and arguments[0].upper() == "MOTOR":
            self.pins[self._motor_index(arguments[1], 1, line, line_number)] = arguments[2].upper()
        elif keyword == "mmix" and arguments == ["reset"]:
            self.custom = {}
        elif keyword == "mmix" and len(arguments) == 5:
            path = f"{self.origin}: line {line_number}, mmix"
            throttle, *row = (parse_number(argument, path) for argument in arguments[1:])
            if throttle > 0.0:
                self.custom[self._motor_index(arguments[0], 0, line, line_number)] = MixerRow(*row)
        elif keyword in SECTION_KEYWORDS and arguments:
            self.section = self.selected[keyword] = f"{keyword} {arguments[0]}"
        elif keyword and keyword not in STRUCTURE_KEYWORDS:
            self.ignored_keywords.append(keyword)

    def _motor_index(self, text: str, first: int, line: str, line_number: int) -> int:
        if not (text.isdigit() and first <= int(text) < first + MAX_MOTORS):
            raise VehicleError(f"{self.origin}: line {line_number}, {quote_value(line)}: expected a motor from {first}")
        return int(text) - first

    def mixer_rows(self) -> tuple[str, tuple[MixerRow, ...]]:
        name = self.mixer or "QUADX"
        if name == "CUSTOM":
            if sorted(self.custom) != list(range(len(self.custom))) or not self.custom:
                raise VehicleError(
                    f"{self.origin}: mixer CUSTOM without mmix lines from 0 on; expected one for each motor"
                )
            return name, tuple(self.custom[i] for i in range(len(self.custom)))
        if name in SERVO_MIXERS:
            raise VehicleError(f"{self.origin}: mixer {name} needs servos; expected one of CUSTOM, {', '.join(MIXERS)}")
        if name not in MIXERS:
            raise VehicleError(f"{self.origin}: mixer {quote_value(name)}: expected one of CUSTOM, {', '.join(MIXERS)}")
        return name, MIXERS[name]


def betaflight_diff(text: str, origin: str) -> ImportedVehicle:
    """Read the layout of a vehicle from the text of a diff of Betaflight."""
    diff, file = _Diff(text, origin), Path(origin).name
    mixer, rows = diff.mixer_rows()
    if all(row.yaw == 0.0 for row in rows):
        raise VehicleError(f"{origin}: mixer {mixer} has no row with yaw; expected the spin of the motors")
    reversed_setting = diff.settings.get("yaw_motors_reversed", "OFF").upper()
    if reversed_setting not in ("ON", "OFF"):
        raise VehicleError(f"{origin}: yaw_motors_reversed = {quote_value(reversed_setting)}: expected ON or OFF")
    max_arm = max(math.hypot(row.roll, row.pitch) for row in rows)
    if not max_arm > 0.0:
        raise VehicleError(f"{origin}: mixer {mixer} has no row with roll or pitch; expected motors on arms")
    rotors, occupied = [], set()
    for i, row in enumerate(rows):
        position = (-row.pitch / max_arm + 0.0, row.roll / max_arm + 0.0)
        key = (round(position[0], 3), round(position[1], 3))
        height = -COAXIAL_GAP_FRACTION if key in occupied else 0.0
        occupied.add(key)
        source = f"{file}: {'mmix' if mixer == 'CUSTOM' else 'mixer ' + mixer}, motor {i + 1}"
        if row.yaw == 0.0:
            raise VehicleError(f"{origin}: motor {i + 1} of mixer {mixer} has no yaw; expected its spin")
        spin = (1 if row.yaw > 0.0 else -1) * (-1 if reversed_setting == "ON" else 1)
        rotors.append(ImportedRotor(position=UncertainVector((*position, height), source), spin=spin))
    return ImportedVehicle(
        name=re.sub(r"\W+", "_", diff.settings.get("craft_name", "") or diff.name or Path(origin).stem) or "betaflight",
        origin=origin,
        format=FORMAT,
        rotors=tuple(rotors),
        uses_arm_lengths=True,
        battery=_battery(diff, file),
        description=f"{file}, a {mixer} of Betaflight, props {'out' if reversed_setting == 'ON' else 'in'}",
        notes=(*_notes(diff, len(rows)), *_ignored_notes(diff)),
        autopilot="betaflight",
        autopilot_parameters=_autopilot_parameters(diff),
    )


def is_stick_setting(name: str) -> bool:
    """Whether a setting of Betaflight is one of the rates: what the sticks mean."""
    return bool(STICK_PATTERN.fullmatch(name))


def _autopilot_parameters(diff: _Diff) -> dict[str, float | str]:
    """Return the PIDs, filters and rates of the selected profiles: numbers and words."""
    parameters: dict[str, float | str] = {}
    for name, text in diff.settings.items():
        if not (TUNING_PATTERN.fullmatch(name) or is_stick_setting(name)):
            continue
        if re.fullmatch(r"-?\d+", text):
            parameters[name] = int(text)
        elif re.fullmatch(r"\w+", text, re.ASCII):
            parameters[name] = text
    return _split_d(parameters) if _has_d_min(diff) else parameters


def _has_d_min(diff: _Diff) -> bool:
    """Whether the diff is of a Betaflight in which d_min was the base of D and d its peak, by its version or its names."""
    version = re.search(r"\) (\d+)\.(\d+)", diff.version)
    is_old = version is not None and (int(version[1]), int(version[2])) <= LAST_D_MIN_VERSION
    return is_old or any(f"d_min_{axis}" in diff.settings for axis in D_DEFAULTS)


def _split_d(parameters: dict[str, float | str]) -> dict[str, float | str]:
    """Return the parameters with D as from 4.6 on: d is the base, and d_max the peak in fast moves."""
    others = {name: value for name, value in parameters.items() if not re.fullmatch(r"d_(min_)?(roll|pitch|yaw)", name)}
    for axis, (default_base, default_peak) in D_DEFAULTS.items():
        if f"d_{axis}" in parameters or f"d_min_{axis}" in parameters:
            peak = parameters.get(f"d_{axis}", default_peak)
            base = parameters.get(f"d_min_{axis}", default_base)
            others[f"d_{axis}"] = base or peak  # d_min = 0: D is constant
            others[f"d_max_{axis}"] = peak
    return others


def _ignored_notes(diff: _Diff) -> list[str]:
    """List the settings and the commands that neither the vehicle nor the simulated Betaflight gets."""
    used = {*VEHICLE_SETTINGS, *NOTED_SETTINGS, *_autopilot_parameters(diff), *(f"d_min_{axis}" for axis in D_DEFAULTS)}
    others = [section for section in diff.sections if section and section not in diff.selected.values()]
    ignored = {
        "ignored settings": [name for name in diff.settings if name not in used],
        "ignored commands": list(dict.fromkeys(diff.ignored_keywords)),
        "ignored profiles, which are not selected": [section for section in others if diff.sections[section]],
    }
    return [f"{title}: {', '.join(names)}" for title, names in ignored.items() if names]


def _setting_number(diff: _Diff, key: str) -> float:
    return parse_number(diff.settings[key], f"{diff.origin}: {key}") if key in diff.settings else 0.0


def _battery(diff: _Diff, file: str) -> dict[str, UncertainValue | UncertainVector] | None:
    cells, capacity = _setting_number(diff, "force_battery_cell_count"), _setting_number(diff, "bat_capacity")
    if not cells:
        return None
    if not (cells == int(cells) and 1 <= cells <= 24):
        raise VehicleError(f"{diff.origin}: force_battery_cell_count = {cells:g}: expected a whole number, at most 24")
    capacity_estimate = UncertainValue(3.6 * capacity, 0.0, f"{file}: bat_capacity") if capacity > 0.0 else None
    return dict(cell_battery(int(cells), f"{file}: force_battery_cell_count", capacity_estimate, None))


def _notes(diff: _Diff, count: int) -> tuple[str, ...]:
    notes = []
    wired = {motor: pin for motor, pin in diff.pins.items() if pin != "NONE"}
    if wired:
        pin_list = ", ".join(f"motor {motor + 1} on {pin}" for motor, pin in sorted(wired.items()))
        notes.append(f"pins differ from the board's defaults, which moves no motor on the frame: {pin_list}")
    unpinned = sorted(motor + 1 for motor, pin in diff.pins.items() if pin == "NONE" and motor < count)
    if unpinned:
        notes.append(f"in the mixer without a pin: motor {', '.join(map(str, unpinned))}")
    for key, meaning in NOTED_SETTINGS.items():
        if key in diff.settings:
            notes.append(f"{key} = {diff.settings[key]}: {meaning}")
    return tuple(notes)


NAMED_MIXERS = ("QUADX", "QUADP", "HEX6X", "HEX6", "OCTOFLATX", "OCTOFLATP", "OCTOX8", "Y6")
MAX_POSITION_FRACTION = 0.05  # of an arm: largest distance of a rotor from a mixer's motor
MAX_THRUST_LINEAR = 150


def betaflight_mixer(vehicle: Vehicle) -> tuple[str, tuple[int, ...], bool]:
    """Return the mixer's name, the vehicle's rotors in the order of its motors, and whether all spins are reversed.

    The mixer is CUSTOM, with the rotors in the vehicle's order, if no other has its motors at these positions.
    """
    if not 0 < len(vehicle.rotors) <= MAX_MOTORS:
        raise VehicleError(f"{vehicle.name}: has {len(vehicle.rotors)} rotors; Betaflight drives 1 to {MAX_MOTORS}")
    for name in NAMED_MIXERS:
        for is_reversed in (False, True):
            if order := _match_mixer(vehicle, MIXERS[name], is_reversed):
                return name, order, is_reversed
    return "CUSTOM", tuple(range(len(vehicle.rotors))), False


def betaflight_text(vehicle: Vehicle) -> str:
    """Return lines to paste into Betaflight's CLI."""
    name, order, is_reversed = betaflight_mixer(vehicle)
    lines = [f"# {vehicle.name}, written by Samara for Betaflight's CLI"]
    lines += [f"# motor {i} is rotor {rotor_index}" for i, rotor_index in enumerate(order, 1)]
    lines += ["", f"mixer {name}"]
    if name == "CUSTOM":
        lines.append("mmix reset")
        for i, row in enumerate(_custom_rows(vehicle)):
            lines.append(f"mmix {i} 1.000000 {row.roll:.6f} {row.pitch:.6f} {row.yaw:.6f}")
    settings: dict[str, str | int] = {
        "craft_name": vehicle.name[:16],
        "yaw_motors_reversed": "ON" if is_reversed else "OFF",
        "thrust_linear": thrust_linear(vehicle),
    }
    battery = battery_pack(vehicle)
    if battery and battery.cells:
        settings["force_battery_cell_count"] = battery.cells
    if battery and 0 < round(battery.capacity / 3.6) <= 20000:
        settings["bat_capacity"] = round(battery.capacity / 3.6)
    lines += [f"set {key} = {value}" for key, value in settings.items()]
    return "\n".join([*lines, "save"]) + "\n"


def thrust_linear(vehicle: Vehicle) -> int:
    """100 (u/t − 1) / (1 − t)², 0 to 150"""
    hover_point = hover_throttle(vehicle)
    percent = 100.0 * (hover_point.throttle / hover_point.thrust - 1.0) / (1.0 - hover_point.thrust) ** 2
    return round(min(max(percent, 0.0), MAX_THRUST_LINEAR))


def write_betaflight(vehicle: Vehicle, target: Path) -> tuple[Path, ...]:
    """Write NAME.txt."""
    path = target if target.suffix == ".txt" else target.with_name(f"{target.name}.txt")
    write_text(path, betaflight_text(vehicle))
    return (path,)


def betaflight_omissions(vehicle: Vehicle) -> tuple[str, ...]:
    """Properties of the vehicle that Betaflight cannot express."""
    omissions = ["sizes, mass, inertia, thrust and drag", "gains, which are tuned in flight"]
    if any(rotor.axis_B.z < 0.999 for rotor in vehicle.rotors):
        omissions.append("tilted rotors: the mixer treats them as upright")
    return tuple(omissions)


def _custom_rows(vehicle: Vehicle) -> tuple[MixerRow, ...]:
    """(y, −x) over the longest arm along roll or pitch, and the spin"""
    max_arm = max(max(abs(rotor.r_B.x), abs(rotor.r_B.y)) for rotor in vehicle.rotors)
    if not max_arm > 0.0:
        raise VehicleError(f"{vehicle.name}: all rotors are in the centre; expected some on arms")
    return tuple(
        MixerRow(float(rotor.r_B.y) / max_arm, 0.0 - float(rotor.r_B.x) / max_arm, float(rotor.spin))
        for rotor in vehicle.rotors
    )


def _match_mixer(vehicle: Vehicle, rows: tuple[MixerRow, ...], is_reversed: bool) -> tuple[int, ...] | None:
    """Return the vehicle's rotors in the order of a mixer's motors; None if one does not match."""
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    scale = arm / max(math.hypot(row.roll, row.pitch) for row in rows)
    spin_sign = -1.0 if is_reversed else 1.0
    mounts = [
        Mount("", -row.pitch * scale, row.roll * scale, int(math.copysign(1.0, spin_sign * row.yaw))) for row in rows
    ]

    def is_near(rotor: Rotor, mount: Mount) -> bool:
        return math.hypot(rotor.r_B.x - mount.x, rotor.r_B.y - mount.y) < MAX_POSITION_FRACTION * arm

    return match_rotors(vehicle, mounts, is_near)
