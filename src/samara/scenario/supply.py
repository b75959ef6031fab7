"""The battery that an autopilot hears of: which one it is, and its cells."""

from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.types import Vehicle
from samara.scenario.battery_failsafe import BatteryFailsafe

CELL_VOLTAGE = 4.2  # [V], of a full one
WARNED = 0.05  # of the charge: so much before it returns PX4 says that it is low
MOST_CELLS = 10  # a message of MAVLink's has room for


def battery_of(vehicle: Vehicle) -> Thevenin | None:
    """The battery that empties, the first where several are in parallel; None without one"""
    if not vehicle.has("battery") or isinstance(vehicle["battery"], Ideal):
        return None
    first: Thevenin = vehicle["battery"][0]
    return first


def milliampere_hours(vehicle: Vehicle) -> float:
    """Of a full battery, of all that are in parallel"""
    battery = battery_of(vehicle)
    return 0.0 if battery is None else float(battery.capacity) * len(vehicle["battery"]) / 3.6


def cells_of(battery: Thevenin) -> int:
    """How many are in series, by its voltage when it is full"""
    return min(max(round(float(battery.table_voltage[-1]) / CELL_VOLTAGE), 1), MOST_CELLS)


def failsafe_parameters(kind: str, vehicle: Vehicle, failsafe: BatteryFailsafe) -> dict[str, float]:
    """The charges at which PX4 (of 1) and ArduPilot (mA h) return and land; none for others, and where no battery empties"""
    if battery_of(vehicle) is None:
        return {}
    if kind == "px4":
        return {
            "BAT_LOW_THR": round(failsafe.return_below + WARNED, 3),  # PX4 wants it above the next
            "BAT_CRIT_THR": failsafe.return_below,
            "BAT_EMERGEN_THR": failsafe.land_below,
        }
    if kind == "ardupilot":
        charge = milliampere_hours(vehicle)
        return {
            "BATT_LOW_MAH": round(failsafe.return_below * charge),
            "BATT_CRT_MAH": round(failsafe.land_below * charge),
        }
    return {}
