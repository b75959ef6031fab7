"""RotorPy's parameter files: a Python dict `quad_params`, read without running it.

    T = k_eta Ω²,  M_z = d k_m Ω²  (d = rotor_directions: the torque on the body, so s = −d),  Ω̇ = (Ω_c − Ω)/tau_m
    H = −Ω (k_d v_x, k_d v_y, k_z v_z) at every hub,     D = −|v| (c_Dx v_x, c_Dy v_y, c_Dz v_z)

`k_h` (translational lift) and `k_flap` have no counterpart and are left out. Where c_D differs between the axes, the part they
share acts as |v| v and the rest as v|v| along each axis: the same along the axes, a little less between them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.imported_vehicle import Imported, ImportedRotor, Record, Several
from samara.vehicles.exchange.parameter_text import finite, text_of
from samara.vehicles.exchange.safe_literal import assigned
from samara.vehicles.exchange.typical_propeller import typical_radius
from samara.vehicles.parts.uncertain import Estimate

FORMAT = "a parameter file of RotorPy"
LEFT_OUT = ("k_h", "k_flap")
GRAVITY = 9.81  # [m/s²], RotorPy's


def read_rotorpy_file(path: str | Path) -> Imported:
    """The aircraft of a parameter file of RotorPy"""
    return rotorpy_file(text_of(path), str(path))


def rotorpy_file(text: str, origin: str) -> Imported:
    """The same, of its text"""
    tables = [own for own in assigned(text, origin).values() if isinstance(own, dict) and "rotor_pos" in own]
    if len(tables) != 1:
        raise VehicleError(f"{origin}: has {len(tables)} dicts with 'rotor_pos'; expected {FORMAT}, with one")
    own, file = tables[0], Path(origin).name

    def value(key: str, default: float | None = None) -> float:
        if key not in own and default is None:
            raise VehicleError(f"{origin}: {key} is missing; expected it in {FORMAT}")
        return finite(_plain(own.get(key, default)), f"{origin}: {key}")

    def number(key: str) -> Estimate:
        return Estimate(value(key), 0.0, f"{file}: {key}")

    rows = tuple(value(key) for key in ("Ixx", "Ixy", "Ixz", "Ixy", "Iyy", "Iyz", "Ixz", "Iyz", "Izz"))
    places, turns = _rotors(own, origin)
    motor = {
        "speed_min": number("rotor_speed_min"),
        "speed_max": number("rotor_speed_max"),
        "rise": number("tau_m"),
        "fall": number("tau_m"),
    }
    rotors = tuple(
        ImportedRotor(
            position=Several(place, f"{file}: rotor_pos, {name}"),
            spin=-turn,
            k_thrust=number("k_eta"),
            k_torque=number("k_m"),
            radius=number("rotor_radius") if "rotor_radius" in own else typical_radius(abs(value("k_eta"))),
            motor=motor,
        )
        for (name, place), turn in zip(places, turns, strict=True)
    )
    effects: dict[str, Record] = {}
    if value("k_d", 0.0) or value("k_z", 0.0):
        effects["rotor_drag"] = {
            "coefficient": Estimate(value("k_d", 0.0), 0.0, f"{file}: k_d"),
            "axial": Estimate(value("k_z", 0.0), 0.0, f"{file}: k_z"),
        }
    drag = tuple(value(key, 0.0) for key in ("c_Dx", "c_Dy", "c_Dz"))
    if any(drag):
        shared, source = min(drag), f"{file}: c_Dx, c_Dy, c_Dz"
        effects["drag"] = {
            "isotropic": Estimate(shared, 0.0, f"{source}; what they share"),
            "quadratic": Several(tuple(each - shared for each in drag), f"{source}; less what they share"),
        }
    left = [f"{key} = {value(key):g}" for key in LEFT_OUT if value(key, 0.0)]
    return Imported(
        name=re.sub(r"\W+", "_", Path(origin).stem.removesuffix("_params")) or "rotorpy",
        origin=origin,
        format=FORMAT,
        mass=number("mass"),
        inertia=Several(rows, f"{file}: Ixx, Ixy, …"),
        rotors=rotors,
        actuation="speed",
        effects=effects,
        gravity=Estimate(GRAVITY, 0.0, "RotorPy's multirotor.py"),
        description=f"{file}, from RotorPy",
        notes=(f"left out, for want of a counterpart: {', '.join(left)}",) if left else (),
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value


def _rotors(own: Mapping[str, Any], origin: str) -> tuple[list[tuple[str, tuple[float, ...]]], list[int]]:
    positions, turns = own["rotor_pos"], own.get("rotor_directions")
    if not isinstance(positions, dict) or not positions:
        raise VehicleError(f"{origin}: rotor_pos = {shown(positions)}: expected a dict with a place for each rotor")
    places = []
    for name, place in positions.items():
        numbers = np.asarray(place, dtype=float).ravel() if isinstance(place, (list, np.ndarray)) else np.zeros(0)
        if numbers.size != 3:
            raise VehicleError(f"{origin}: rotor_pos, {name} = {shown(place)}: expected three numbers")
        places.append((str(name), tuple(finite(float(x), f"{origin}: rotor_pos, {name}") for x in numbers)))
    listed = list(np.asarray(turns, dtype=float).ravel()) if isinstance(turns, (list, np.ndarray)) else []
    if len(listed) != len(places) or not all(own in (-1.0, 1.0) for own in listed):
        raise VehicleError(
            f"{origin}: rotor_directions = {shown(turns)}: expected 1 or -1 for each of {len(places)} rotors"
        )
    said = _plain(own.get("num_rotors", float(len(places))))
    if not isinstance(said, float) or said != len(places):
        raise VehicleError(f"{origin}: num_rotors = {shown(said)}: expected {len(places)}, as many as rotor_pos has")
    return places, [int(own) for own in listed]
