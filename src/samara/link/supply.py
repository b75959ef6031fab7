"""The drone's own battery, as an autopilot hears of it: ten times a second, from the equations that fly it."""

from samara.backends.packing import unpacker
from samara.link.readings import Supply
from samara.physics.multirotor import Vehicle, at_rest
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.scenario.batteries import battery_status
from samara.sim.battery_failsafe import BatteryFailsafe
from samara.sim.plant import Plant, environment_of

EVERY_US = 100_000
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


def failsafe_parameters(kind: str, vehicle: Vehicle, failsafe: BatteryFailsafe) -> dict[str, float]:
    """The charges at which PX4 (of 1) and ArduPilot (mA h) return and land; none for others, and where no battery empties"""
    battery = battery_of(vehicle)
    if battery is None:
        return {}
    if kind == "px4":
        return {"BAT_CRIT_THR": failsafe.return_below, "BAT_EMERGEN_THR": failsafe.land_below}
    if kind == "ardupilot":
        charge = milliampere_hours(vehicle)
        return {
            "BATT_LOW_MAH": round(failsafe.return_below * charge),
            "BATT_CRT_MAH": round(failsafe.land_below * charge),
        }
    return {}


class PowerModule:
    """Looks at a plant's battery once in a while."""

    def __init__(self, plant: Plant) -> None:
        self._plant, self._battery, self._next_us = plant, battery_of(plant.vehicle), 0
        self._state_of = unpacker(at_rest(plant.vehicle))
        self._around_of = unpacker(environment_of(plant.vehicle))

    def read(self, time_us: int) -> Supply | None:
        """What it says now; None between two readings, and where no battery empties"""
        if self._battery is None or time_us < self._next_us:
            return None
        self._next_us = time_us + EVERY_US
        state, around = self._state_of(self._plant.state[:, 0].tolist()), self._plant.environment[:, 0].tolist()
        command = tuple(self._plant.command[:, 0].tolist())
        told = battery_status(state, command, self._plant.vehicle, self._around_of(around))
        current = sum(each.current for each in told)
        return Supply(
            told[0].voltage, current, told[0].charge, cells_of(self._battery), float(self._battery.capacity) * len(told)
        )
