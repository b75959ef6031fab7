"""Read and write PX4's parameters: a QGroundControl file, the output of `param show` or an airframe script.

    1   1   CA_ROTOR0_PX   0.1515   9          QGroundControl, with tabs
    x + CA_ROTOR0_PX [95,188] : 0.1515         param show
    param set-default CA_ROTOR0_PX 0.1515      a script

They contain the rotor positions (CA_ROTORi_PX … in FRD) and ratios of moment and thrust: CA_ROTORi_KM = s Q/T, MPC_THR_HOVER is
the thrust in hover over full thrust, THR_MDL_FAC the e of the throttle curve. They contain neither mass nor inertia.
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
from samara.vehicles.exchange.imported_vehicle import ImportedRotor, ImportedVehicle, Record, UncertainVector
from samara.vehicles.exchange.safe_xml import parse_number
from samara.vehicles.exchange.throttle import (
    HOVER_OUTPUT,
    battery_pack,
    full_thrust,
    hover_throttle,
    loaded_hover_thrust,
)
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.parts.uncertain import UncertainValue
from samara.vehicles.trim import effectiveness

FORMAT = "a file of PX4's parameters"
NAME_PATTERN = r"([A-Z][A-Z0-9_]{1,15})"
LINE_PATTERNS = (
    re.compile(rf"\d+[\t ]+\d+[\t ]+{NAME_PATTERN}[\t ]+(\S+)[\t ]+\d+\Z"),
    re.compile(rf"(?:[x +*]+)?{NAME_PATTERN}[\t ]*\[[\d, -]+\][\t ]*:[\t ]*(\S+)\Z"),
    re.compile(rf"param[\t ]+set(?:-default)?[\t ]+(?:-s[\t ]+)?{NAME_PATTERN}[\t ]+(\S+)\Z"),
)
MAX_ROTORS = 12
DEFAULT_MOMENT_RATIO = 0.05


def parse_px4_parameters(text: str, origin: str) -> dict[str, float]:
    """Parse the parameters of a file by name; a later line overrides an earlier one, as in PX4."""
    parameters: dict[str, float] = {}
    for line_number, line in enumerate(text.splitlines(), 1):
        content = line.split("#")[0].strip()
        for pattern in LINE_PATTERNS:
            if match := pattern.match(content):
                parameters[match[1]] = parse_number(match[2], f"{origin}: line {line_number}, {match[1]}")
                break
    if not parameters:
        raise VehicleError(f"{origin}: has no parameter in any line; expected {FORMAT}")
    return parameters


def px4_parameter_file(text: str, origin: str) -> ImportedVehicle:
    """Read a vehicle from the text of a PX4 parameter file."""
    parameters, file = parse_px4_parameters(text, origin), Path(origin).name
    count = parameters.get("CA_ROTOR_COUNT")
    if count is None:
        raise VehicleError(
            f"{origin}: CA_ROTOR_COUNT is missing; expected the rotors of a multirotor (CA_ROTOR0_PX, …)"
        )
    if not (count == int(count) and 1 <= count <= MAX_ROTORS):
        raise VehicleError(f"{origin}: CA_ROTOR_COUNT = {count:g}: expected a whole number from 1 to {MAX_ROTORS}")
    if parameters.get("CA_AIRFRAME", 0.0) != 0.0:
        raise VehicleError(f"{origin}: CA_AIRFRAME = {parameters['CA_AIRFRAME']:g}: expected 0, a multirotor")
    without_moment = [i for i in range(int(count)) if f"CA_ROTOR{i}_KM" not in parameters]
    notes = []
    if without_moment:
        notes.append(
            f"no CA_ROTOR_KM for rotors {', '.join(map(str, without_moment))}: 0.05, counter-clockwise, PX4's default"
        )
    if "MPC_THR_HOVER" not in parameters:
        notes.append("no MPC_THR_HOVER: the strength of the motors is left to the estimate")
    return ImportedVehicle(
        name=re.sub(r"\W+", "_", Path(origin).stem) or "px4",
        origin=origin,
        format=FORMAT,
        rotors=tuple(_rotor(parameters, i, origin, file) for i in range(int(count))),
        hover=_fraction(parameters, "MPC_THR_HOVER", origin, file),
        expo=_fraction(parameters, "THR_MDL_FAC", origin, file) if parameters.get("THR_MDL_FAC") else None,
        battery=_battery(parameters, origin, file),
        description=f"{file}, PX4's parameters for {int(count)} rotors",
        notes=tuple(notes),
    )


def _fraction(parameters: Mapping[str, float], key: str, origin: str, file: str) -> UncertainValue | None:
    if key not in parameters:
        return None
    if not 0.0 < parameters[key] < 1.0 and not (key == "THR_MDL_FAC" and parameters[key] == 1.0):
        raise VehicleError(f"{origin}: {key} = {parameters[key]:g}: expected a number between 0 and 1")
    return UncertainValue(parameters[key], 0.0, f"{file}: {key}")


def _rotor(parameters: Mapping[str, float], i: int, origin: str, file: str) -> ImportedRotor:
    for letter in "XY":
        if f"CA_ROTOR{i}_P{letter}" not in parameters:
            raise VehicleError(f"{origin}: CA_ROTOR{i}_P{letter} is missing; expected the position of each rotor")
    x, y, z = (parameters.get(f"CA_ROTOR{i}_P{letter}", 0.0) for letter in "XYZ")
    ax, ay, az = (
        parameters.get(f"CA_ROTOR{i}_A{letter}", default)
        for letter, default in zip("XYZ", (0.0, 0.0, -1.0), strict=True)
    )
    length, moment = math.hypot(ax, ay, az), parameters.get(f"CA_ROTOR{i}_KM", DEFAULT_MOMENT_RATIO)
    if not length > 0.0:
        raise VehicleError(f"{origin}: CA_ROTOR{i}_AX, _AY, _AZ = 0, 0, 0: expected a direction")
    if not 0.0 < abs(moment) <= 1.0:
        raise VehicleError(f"{origin}: CA_ROTOR{i}_KM = {moment:g}: expected a nonzero moment, at most 1 in magnitude")
    axis = tuple(part / length + 0.0 for part in (ax, -ay, -az))
    return ImportedRotor(
        position=UncertainVector((x, 0.0 - y, 0.0 - z), f"{file}: CA_ROTOR{i}_PX, _PY, _PZ"),
        spin=1 if moment > 0.0 else -1,
        axis=UncertainVector(axis, f"{file}: CA_ROTOR{i}_AX, _AY, _AZ"),
        torque_ratio=UncertainValue(abs(moment), 0.0, f"{file}: CA_ROTOR{i}_KM"),
    )


def _battery(parameters: Mapping[str, float], origin: str, file: str) -> Record | None:
    cells = parameters.get("BAT1_N_CELLS", 0.0)
    if not cells > 0.0:
        return None
    if not (cells == int(cells) and cells <= 24):
        raise VehicleError(f"{origin}: BAT1_N_CELLS = {cells:g}: expected a whole number, at most 24")
    return cell_battery(
        int(cells),
        f"{file}: BAT1_N_CELLS",
        UncertainValue(3.6 * parameters["BAT1_CAPACITY"], 0.0, f"{file}: BAT1_CAPACITY")
        if parameters.get("BAT1_CAPACITY", -1.0) > 0.0
        else None,
        UncertainValue(parameters["BAT1_R_INTERNAL"] * cells, 0.0, f"{file}: BAT1_R_INTERNAL, of each cell")
        if parameters.get("BAT1_R_INTERNAL", -1.0) > 0.0
        else None,
    )


def cell_battery(cells: int, source: str, capacity: UncertainValue | None, resistance: UncertainValue | None) -> Record:
    """Return the voltage table of lithium-polymer cells, with capacity and resistance if known."""
    fields: dict[str, UncertainValue | UncertainVector] = {
        "table_charge": UncertainVector(CELL_CHARGE, "a lithium-polymer cell"),
        "table_voltage": UncertainVector(
            tuple(cells * voltage for voltage in CELL_VOLTAGE), f"{source}; lithium-polymer cells"
        ),
    }
    if capacity:
        fields["capacity"] = capacity
    if resistance:
        fields["resistance"] = resistance
    return fields


FIRST_MOTOR = 101  # the output function "Motor 1"

GAIN_RANGE = (0.01, 5.0)  # of MC_…RATE_K
HOVER_RANGE = (0.1, 0.8)  # of MPC_THR_HOVER
INTEGER, FLOAT = 6, 9  # MAVLink type codes at the end of each line
INTEGER_PARAMETERS = ("CA_AIRFRAME", "CA_ROTOR_COUNT", "BAT1_N_CELLS")


def rotor_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Return CA_ROTOR_COUNT, and position, axis and moment coefficient of each rotor in the vehicle's order."""
    if not 0 < len(vehicle.rotors) <= MAX_ROTORS:
        raise ValueError(f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; PX4 supports 1 to {MAX_ROTORS}")
    parameters: dict[str, float] = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(vehicle.rotors)}
    for i, rotor in enumerate(vehicle.rotors):
        hub, axis = frd_from_flu(rotor.r_B), frd_from_flu(rotor.axis_B)
        for letter, position, direction in zip("XYZ", hub, axis, strict=True):
            parameters[f"CA_ROTOR{i}_P{letter}"] = float(position) + 0.0  # no −0
            parameters[f"CA_ROTOR{i}_A{letter}"] = float(direction) + 0.0
        parameters[f"CA_ROTOR{i}_KM"] = float(rotor.spin * rotor.k_torque / rotor.k_thrust)
        parameters[f"PWM_MAIN_FUNC{i + 1}"] = FIRST_MOTOR + i
    return parameters


def agility(vehicle: Vehicle, hover: float = HOVER_OUTPUT) -> tuple[float, float, float]:
    """T_full |B_τ| √(n/2) / J about each axis: the angular acceleration of one unit of PX4's normalized torque  [rad/s²]

    PX4 scales each column of its mixer to the norm √(n/2).
    """
    arms = np.linalg.norm(effectiveness(vehicle)[3:], axis=1) * math.sqrt(len(vehicle.rotors) / 2.0)
    moments = np.array([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz])
    roll, pitch, yaw = (float(x) for x in full_thrust(vehicle, hover) * arms / moments)
    return roll, pitch, yaw


def gain_parameters(vehicle: Vehicle, hover: float = HOVER_OUTPUT) -> dict[str, float]:
    """MC_ROLLRATE_K = α_iris / α etc.: PX4's gains fit an Iris; k times the angular acceleration needs 1/k of the gain"""
    iris_agility, vehicle_agility = agility(load_vehicle("iris_documented")), agility(vehicle, hover)
    low, high = GAIN_RANGE
    names = ("MC_ROLLRATE_K", "MC_PITCHRATE_K", "MC_YAWRATE_K")
    return {
        name: min(max(u / a, low), high) if a > 0.0 else 1.0
        for name, u, a in zip(names, iris_agility, vehicle_agility, strict=True)
    }


def airframe_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Return all parameters of a real airframe, whose motor commands are PX4's outputs without a simulator in between."""
    low, high = HOVER_RANGE
    hover_fraction = min(max(loaded_hover_thrust(vehicle), low), high)
    parameters = {
        **rotor_parameters(vehicle),
        "THR_MDL_FAC": hover_throttle(vehicle).expo,
        "MPC_THR_HOVER": hover_fraction,
        **gain_parameters(vehicle, hover_fraction),
    }
    battery = battery_pack(vehicle)
    if battery and battery.cells:
        parameters["BAT1_N_CELLS"] = battery.cells
    if battery and battery.capacity:
        parameters["BAT1_CAPACITY"] = battery.capacity / 3.6
        if battery.cells:
            parameters["BAT1_R_INTERNAL"] = battery.resistance / battery.cells
    return parameters


def px4_text(vehicle: Vehicle) -> str:
    """Return a parameter file for QGroundControl."""
    lines = [
        f"# Onboard parameters for {vehicle.name}, written by Samara",
        "#",
        "# Stack: PX4",
        "# Vehicle: Multi-Rotor",
        "#",
        "# Vehicle-Id Component-Id Name Value Type",
    ]
    for name, value in airframe_parameters(vehicle).items():
        is_integer = name in INTEGER_PARAMETERS or name.startswith("PWM_MAIN_FUNC")
        lines.append(
            f"1\t1\t{name}\t{int(value) if is_integer else repr(float(value))}\t{INTEGER if is_integer else FLOAT}"
        )
    return "\n".join(lines) + "\n"


def write_px4(vehicle: Vehicle, target: Path) -> tuple[Path, ...]:
    """Write NAME.params."""
    path = target if target.suffix == ".params" else target.with_name(f"{target.name}.params")
    write_text(path, px4_text(vehicle))
    return (path,)


def px4_omissions(vehicle: Vehicle) -> tuple[str, ...]:
    """Properties of the vehicle that PX4's parameters cannot express."""
    omissions = ["mass and inertia", "the motors' lag", "drag"]
    low, high = HOVER_RANGE
    if not low <= (hover_fraction := loaded_hover_thrust(vehicle)) <= high:
        omissions.append(f"a hover thrust of {hover_fraction:.3g}: MPC_THR_HOVER is limited to {low:g} to {high:g}")
    return tuple(omissions)
