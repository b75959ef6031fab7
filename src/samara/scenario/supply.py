"""The battery that an autopilot hears of: which one it is, and its cells."""

from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.types import Vehicle
from samara.scenario.autopilot_types import AutopilotType
from samara.scenario.batteries import BatteryFailsafe

CELL_VOLTAGE = 4.2  # [V], of a full one
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


def failsafe_parameters(autopilot_type: AutopilotType, vehicle: Vehicle, failsafe: BatteryFailsafe) -> dict[str, float]:
    """The autopilot's parameters for a battery failsafe; none if it has no failsafe or the battery never empties"""
    parameters = autopilot_type.failsafe_parameters
    if parameters is None or battery_of(vehicle) is None:
        return {}
    return parameters(failsafe, milliampere_hours(vehicle))
