"""Betaflight's CLI lines of a vehicle: the mixer, which way the motors turn, how bent their thrust is, and the battery.

u = t (1 + L (1 − t)²),   L = thrust_linear/100:  the curve of the motors is met at hover
"""

import math
from pathlib import Path

from samara.core.atomic_files import write_text
from samara.physics.types import Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.battery_pack import pack_of
from samara.vehicles.exchange.betaflight_mixers import MIXERS, Row
from samara.vehicles.exchange.throttle_curve import hover_throttle

NAMED = ("QUADX", "QUADP", "HEX6X", "HEX6", "OCTOFLATX", "OCTOFLATP", "OCTOX8", "Y6")
CLOSE = 0.05  # of an arm: as far as a rotor may be from a mixer's motor
MOST_MOTORS = 8
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
        for i, row in enumerate(_rows(vehicle)):
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


def _rows(vehicle: Vehicle) -> tuple[Row, ...]:
    """(y, −x) over the longest arm along roll or pitch, and the turn"""
    reach = max(max(abs(rotor.r_B.x), abs(rotor.r_B.y)) for rotor in vehicle.rotors)
    if not reach > 0.0:
        raise VehicleError(f"{vehicle.name}: all rotors are in the middle; expected some on arms")
    return tuple(
        Row(float(rotor.r_B.y) / reach, 0.0 - float(rotor.r_B.x) / reach, float(rotor.spin)) for rotor in vehicle.rotors
    )


def _order(vehicle: Vehicle, rows: tuple[Row, ...], reversed_: bool) -> tuple[int, ...] | None:
    """The vehicle's rotors in the order of a mixer's motors; of a pair the upper one comes first"""
    if len(rows) != len(vehicle.rotors):
        return None
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors)
    reach = max(math.hypot(row.roll, row.pitch) for row in rows)
    order: list[int] = []
    for row in rows:
        spin = math.copysign(1.0, row.yaw) * (-1.0 if reversed_ else 1.0)
        fits = [
            i
            for i, rotor in enumerate(vehicle.rotors)
            if i not in order
            and rotor.spin == spin
            and math.hypot(rotor.r_B.x + row.pitch / reach * arm, rotor.r_B.y - row.roll / reach * arm) < CLOSE * arm
        ]
        if not fits:
            return None
        order.append(max(fits, key=lambda i: float(vehicle.rotors[i].r_B.z)))
    return tuple(order)
