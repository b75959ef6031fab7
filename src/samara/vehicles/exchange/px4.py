"""Read and write PX4's parameters: as QGroundControl saves, `param show` prints or an airframe's script sets them.

    1   1   CA_ROTOR0_PX   0.1515   9          QGroundControl, with tabs
    x + CA_ROTOR0_PX [95,188] : 0.1515         param show
    param set-default CA_ROTOR0_PX 0.1515      a script

They place the rotors (CA_ROTORi_PX … in FRD), and know moments and thrusts as shares: CA_ROTORi_KM = s Q/T, MPC_THR_HOVER is
the thrust of hover over full thrust, THR_MDL_FAC the e of the throttle curve. Of mass and inertia they say nothing.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from samara.core.atomic_files import write_text
from samara.physics.frames import frd_from_flu
from samara.physics.types import Vehicle
from samara.vehicles.build import CELL_CHARGE, CELL_VOLTAGE
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Record, Several
from samara.vehicles.exchange.safe_xml import number
from samara.vehicles.exchange.throttle import HOVER_OUTPUT, full_thrust, hover_throttle, pack_of, sagged_hover
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.parts.uncertain import Estimate
from samara.vehicles.trim import effectiveness

FORMAT = "a file of PX4's parameters"
NAME = r"([A-Z][A-Z0-9_]{1,15})"
LINES = (
    re.compile(rf"\d+[\t ]+\d+[\t ]+{NAME}[\t ]+(\S+)[\t ]+\d+\Z"),
    re.compile(rf"(?:[x +*]+)?{NAME}[\t ]*\[[\d, -]+\][\t ]*:[\t ]*(\S+)\Z"),
    re.compile(rf"param[\t ]+set(?:-default)?[\t ]+(?:-s[\t ]+)?{NAME}[\t ]+(\S+)\Z"),
)
MOST_ROTORS = 12
USUAL_MOMENT = 0.05


def px4_numbers(text: str, origin: str) -> dict[str, float]:
    """The parameters of a file by name; a later line has the last word, as in PX4"""
    found: dict[str, float] = {}
    for at, line in enumerate(text.splitlines(), 1):
        own = line.split("#")[0].strip()
        for pattern in LINES:
            if match := pattern.match(own):
                found[match[1]] = number(match[2], f"{origin}: line {at}, {match[1]}")
                break
    if not found:
        raise VehicleError(f"{origin}: has no parameter in any line; expected {FORMAT}")
    return found


def px4_parameter_file(text: str, origin: str) -> Imported:
    """Read an aircraft from the text of a file of PX4's parameters"""
    numbers, file = px4_numbers(text, origin), Path(origin).name
    count = numbers.get("CA_ROTOR_COUNT")
    if count is None:
        raise VehicleError(
            f"{origin}: CA_ROTOR_COUNT is missing; expected the rotors of a multirotor (CA_ROTOR0_PX, …)"
        )
    if not (count == int(count) and 1 <= count <= MOST_ROTORS):
        raise VehicleError(f"{origin}: CA_ROTOR_COUNT = {count:g}: expected a whole number from 1 to {MOST_ROTORS}")
    if numbers.get("CA_AIRFRAME", 0.0) != 0.0:
        raise VehicleError(f"{origin}: CA_AIRFRAME = {numbers['CA_AIRFRAME']:g}: expected 0, a multirotor")
    usual = [i for i in range(int(count)) if f"CA_ROTOR{i}_KM" not in numbers]
    notes = []
    if usual:
        notes.append(f"no CA_ROTOR_KM for rotors {', '.join(map(str, usual))}: 0.05, counter-clockwise, PX4's default")
    if "MPC_THR_HOVER" not in numbers:
        notes.append("no MPC_THR_HOVER: how strong the motors are is left to the estimate")
    return Imported(
        name=re.sub(r"\W+", "_", Path(origin).stem) or "px4",
        origin=origin,
        format=FORMAT,
        rotors=tuple(_rotor(numbers, i, origin, file) for i in range(int(count))),
        hover=_share(numbers, "MPC_THR_HOVER", origin, file),
        expo=_share(numbers, "THR_MDL_FAC", origin, file) if numbers.get("THR_MDL_FAC") else None,
        battery=_battery(numbers, origin, file),
        description=f"{file}, PX4's parameters for {int(count)} rotors",
        notes=tuple(notes),
    )


def _share(numbers: Mapping[str, float], key: str, origin: str, file: str) -> Estimate | None:
    if key not in numbers:
        return None
    if not 0.0 < numbers[key] < 1.0 and not (key == "THR_MDL_FAC" and numbers[key] == 1.0):
        raise VehicleError(f"{origin}: {key} = {numbers[key]:g}: expected a number between 0 and 1")
    return Estimate(numbers[key], 0.0, f"{file}: {key}")


def _rotor(numbers: Mapping[str, float], i: int, origin: str, file: str) -> ImportedRotor:
    for letter in "XY":
        if f"CA_ROTOR{i}_P{letter}" not in numbers:
            raise VehicleError(f"{origin}: CA_ROTOR{i}_P{letter} is missing; expected the place of each rotor")
    x, y, z = (numbers.get(f"CA_ROTOR{i}_P{letter}", 0.0) for letter in "XYZ")
    ax, ay, az = (
        numbers.get(f"CA_ROTOR{i}_A{letter}", usual) for letter, usual in zip("XYZ", (0.0, 0.0, -1.0), strict=True)
    )
    length, moment = math.hypot(ax, ay, az), numbers.get(f"CA_ROTOR{i}_KM", USUAL_MOMENT)
    if not length > 0.0:
        raise VehicleError(f"{origin}: CA_ROTOR{i}_AX, _AY, _AZ = 0, 0, 0: expected a direction")
    if not 0.0 < abs(moment) <= 1.0:
        raise VehicleError(f"{origin}: CA_ROTOR{i}_KM = {moment:g}: expected a moment, not 0 and at most 1 in size")
    axis = tuple(part / length + 0.0 for part in (ax, -ay, -az))
    return ImportedRotor(
        position=Several((x, 0.0 - y, 0.0 - z), f"{file}: CA_ROTOR{i}_PX, _PY, _PZ"),
        spin=1 if moment > 0.0 else -1,
        axis=Several(axis, f"{file}: CA_ROTOR{i}_AX, _AY, _AZ"),
        torque_ratio=Estimate(abs(moment), 0.0, f"{file}: CA_ROTOR{i}_KM"),
    )


def _battery(numbers: Mapping[str, float], origin: str, file: str) -> Record | None:
    cells = numbers.get("BAT1_N_CELLS", 0.0)
    if not cells > 0.0:
        return None
    if not (cells == int(cells) and cells <= 24):
        raise VehicleError(f"{origin}: BAT1_N_CELLS = {cells:g}: expected a whole number, at most 24")
    return cell_battery(
        int(cells),
        f"{file}: BAT1_N_CELLS",
        Estimate(3.6 * numbers["BAT1_CAPACITY"], 0.0, f"{file}: BAT1_CAPACITY")
        if numbers.get("BAT1_CAPACITY", -1.0) > 0.0
        else None,
        Estimate(numbers["BAT1_R_INTERNAL"] * cells, 0.0, f"{file}: BAT1_R_INTERNAL, of each cell")
        if numbers.get("BAT1_R_INTERNAL", -1.0) > 0.0
        else None,
    )


def cell_battery(cells: int, how: str, capacity: Estimate | None, resistance: Estimate | None) -> Record:
    """The voltages of that many lithium-polymer cells, and what else is known of them"""
    known: dict[str, Estimate | Several] = {
        "table_charge": Several(CELL_CHARGE, "a lithium-polymer cell"),
        "table_voltage": Several(tuple(cells * volts for volts in CELL_VOLTAGE), f"{how}; lithium-polymer cells"),
    }
    if capacity:
        known["capacity"] = capacity
    if resistance:
        known["resistance"] = resistance
    return known


FIRST_MOTOR = 101  # the output function "Motor 1"

GAIN_RANGE = (0.01, 5.0)  # of MC_…RATE_K
HOVER_RANGE = (0.1, 0.8)  # of MPC_THR_HOVER
INTEGER, FLOAT = 6, 9  # MAVLink's numbers of the types, behind each line
WHOLE = ("CA_AIRFRAME", "CA_ROTOR_COUNT", "BAT1_N_CELLS")


def rotor_parameters(vehicle: Vehicle) -> dict[str, float]:
    """CA_ROTOR_COUNT, and place, axis and moment coefficient of each rotor in the vehicle's order"""
    if not 0 < len(vehicle.rotors) <= MOST_ROTORS:
        raise ValueError(
            f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; PX4 allocates to 1 to {MOST_ROTORS}"
        )
    numbers: dict[str, float] = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(vehicle.rotors)}
    for i, rotor in enumerate(vehicle.rotors):
        place, axis = frd_from_flu(rotor.r_B), frd_from_flu(rotor.axis_B)
        for letter, position, along in zip("XYZ", place, axis, strict=True):
            numbers[f"CA_ROTOR{i}_P{letter}"] = float(position) + 0.0  # no −0
            numbers[f"CA_ROTOR{i}_A{letter}"] = float(along) + 0.0
        numbers[f"CA_ROTOR{i}_KM"] = float(rotor.spin * rotor.k_torque / rotor.k_thrust)
        numbers[f"PWM_MAIN_FUNC{i + 1}"] = FIRST_MOTOR + i
    return numbers


def agility(vehicle: Vehicle, hover: float = HOVER_OUTPUT) -> tuple[float, float, float]:
    """T_full |B_τ| √(n/2) / J about each axis: the angular acceleration of one unit of PX4's normalized torque  [rad/s²]

    PX4 scales each column of its mixer to the norm √(n/2).
    """
    arms = np.linalg.norm(effectiveness(vehicle)[3:], axis=1) * math.sqrt(len(vehicle.rotors) / 2.0)
    moments = np.array([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz])
    roll, pitch, yaw = (float(x) for x in full_thrust(vehicle, hover) * arms / moments)
    return roll, pitch, yaw


def gain_parameters(vehicle: Vehicle, hover: float = HOVER_OUTPUT) -> dict[str, float]:
    """MC_ROLLRATE_K = α_iris / α and so on: PX4's gains fit an Iris, and one that turns k times as hard needs 1/k of them"""
    usual, own = agility(load_vehicle("iris_documented")), agility(vehicle, hover)
    low, high = GAIN_RANGE
    names = ("MC_ROLLRATE_K", "MC_PITCHRATE_K", "MC_YAWRATE_K")
    return {name: min(max(u / a, low), high) if a > 0.0 else 1.0 for name, u, a in zip(names, usual, own, strict=True)}


def airframe_parameters(vehicle: Vehicle) -> dict[str, float]:
    """All that PX4 asks of an aircraft with these motors, whose command is its output: no simulator stands between them"""
    low, high = HOVER_RANGE
    share = min(max(sagged_hover(vehicle), low), high)
    numbers = {
        **rotor_parameters(vehicle),
        "THR_MDL_FAC": hover_throttle(vehicle).expo,
        "MPC_THR_HOVER": share,
        **gain_parameters(vehicle, share),
    }
    pack = pack_of(vehicle)
    if pack and pack.cells:
        numbers["BAT1_N_CELLS"] = pack.cells
    if pack and pack.capacity:
        numbers["BAT1_CAPACITY"] = pack.capacity / 3.6
        if pack.cells:
            numbers["BAT1_R_INTERNAL"] = pack.resistance / pack.cells
    return numbers


def px4_text(vehicle: Vehicle) -> str:
    """A file of parameters as QGroundControl loads it"""
    lines = [
        f"# Onboard parameters for {vehicle.name}, written by Samara",
        "#",
        "# Stack: PX4",
        "# Vehicle: Multi-Rotor",
        "#",
        "# Vehicle-Id Component-Id Name Value Type",
    ]
    for name, value in airframe_parameters(vehicle).items():
        whole = name in WHOLE or name.startswith("PWM_MAIN_FUNC")
        lines.append(f"1\t1\t{name}\t{int(value) if whole else repr(float(value))}\t{INTEGER if whole else FLOAT}")
    return "\n".join(lines) + "\n"


def write_px4(vehicle: Vehicle, target: Path) -> tuple[Path, ...]:
    """NAME.params"""
    path = target if target.suffix == ".params" else target.with_name(f"{target.name}.params")
    write_text(path, px4_text(vehicle))
    return (path,)


def px4_left_out(vehicle: Vehicle) -> tuple[str, ...]:
    """What PX4's parameters have no word for"""
    found = ["mass and inertia", "how fast the motors follow", "drag"]
    low, high = HOVER_RANGE
    if not low <= (share := sagged_hover(vehicle)) <= high:
        found.append(f"a hover thrust of {share:.3g}: MPC_THR_HOVER goes from {low:g} to {high:g}")
    return tuple(found)
