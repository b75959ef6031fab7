"""PX4's parameters of a vehicle: where its rotors are, how they pull and turn, how strong they are, and its battery.

    CA_ROTORi_PX, _PY, _PZ = r in FRD [m],   CA_ROTORi_AX, _AY, _AZ = thrust axis in FRD,   CA_ROTORi_KM = s kM/kF
    THR_MDL_FAC = e of t = (1 − e) u + e u²,   MPC_THR_HOVER = t at hover,   MC_…RATE_K = α_iris/α

PX4 takes the torque of a rotor as T (r × a − km a), ours is T (r × a) − s Q a: the ratio s Q/T is its moment coefficient,
positive for one that turns counter-clockwise seen from above.
"""

import math
from pathlib import Path

import numpy as np

from samara.core.atomic_files import write_text
from samara.physics.frames import frd_from_flu
from samara.physics.types import Vehicle
from samara.vehicles.exchange.battery_pack import pack_of
from samara.vehicles.exchange.throttle_curve import hover_throttle, sagged_hover
from samara.vehicles.exchange.thrust_scale import HOVER_OUTPUT, full_thrust
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.trim import effectiveness

FIRST_MOTOR = 101  # the output function "Motor 1"
MOST_ROTORS = 12
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
