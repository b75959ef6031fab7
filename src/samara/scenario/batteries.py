"""The batteries of a drone in a simulation: their status, a failed cell, and the failsafe of a low charge."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samara.core.ops import equal, where
from samara.core.quantity import Scalar
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, battery_source, branch_current
from samara.physics.rotors.propulsion import bus_current, rated_voltages, supply_voltage
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.events import Event, disarm, land, return_home, when, when_charge_below
from samara.scenario.snapshot import BatteryStatus

if TYPE_CHECKING:
    from samara.scenario.scenario import Drone


def reduce_cells(vehicle: Vehicle, fraction: float) -> Vehicle:
    """Return the vehicle with this fraction of its cells in series: OCV' = fraction · OCV; its motors keep their rating."""
    if fraction == 1.0 or not vehicle.has("battery"):
        return vehicle
    battery = vehicle["battery"]
    if any(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        rated = zip(vehicle.rotors, rated_voltages(vehicle), strict=True)
        motors = (
            rotor._replace(motor=rotor.motor._replace(full_voltage=full_voltage)) for rotor, full_voltage in rated
        )
        vehicle = vehicle.replace(rotors=tuple(motors))
    if isinstance(battery, Ideal):
        return vehicle.replace({"battery.voltage": battery.voltage * fraction})
    table = tuple(fraction * volts for volts in battery[0].table_voltage)
    return vehicle.replace({"battery.table_voltage": table})


def evaluate_batteries(
    state: State, command: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> tuple[BatteryStatus, ...]:
    """Return charge, bus voltage and current of each battery, for any scalar type; an ideal supply is always full."""
    if not vehicle.has("battery"):
        return ()
    connected = environment.battery_connected
    voltage = supply_voltage(state, command, vehicle, environment)
    if isinstance(vehicle["battery"], Ideal):
        return (BatteryStatus(1.0, voltage, bus_current(state, command, vehicle, environment), connected),)
    battery_states = state.effects[vehicle.index("battery")]
    return tuple(
        BatteryStatus(
            battery_state.charge,
            voltage,
            where(equal(connected, 0.0), 0.0, branch_current(battery_source(battery_state, battery), voltage)),
            connected,
        )
        for battery_state, battery in zip(battery_states, vehicle["battery"], strict=True)
    )


def battery_status(
    state: State, command: tuple[float, ...], vehicle: Vehicle, environment: Environment
) -> tuple[BatteryStatus, ...]:
    """Return the status of each battery as floats and a bool."""
    return tuple(
        BatteryStatus(float(status.charge), float(status.voltage), float(status.current), bool(status.connected))
        for status in evaluate_batteries(state, command, vehicle, environment)
    )


@dataclass(frozen=True)
class BatteryFailsafe:
    """Below `return_below` of its charge a drone returns to its start, below `land_below` it lands and disarms.

    Autopilots with a battery failsafe get it as parameters (`AutopilotType.failsafe_parameters`). For other autopilots that
    take orders, and for Samara's controllers, it consists of events.
    """

    return_below: float = 0.2
    land_below: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.land_below < self.return_below < 1.0:
            raise ValueError(
                f"land_below = {self.land_below!r} and return_below = {self.return_below!r}: "
                "expected 0 < land_below < return_below < 1"
            )


def failsafe_events(drone: "Drone") -> tuple[Event, ...]:
    """Return the events to return, to land and then to disarm; () without a failsafe or if the autopilot has its own."""
    failsafe, autopilot, name = drone.battery_failsafe, drone.autopilot, drone.name
    if failsafe is None or (autopilot is not None and not autopilot.registered_type.has_failsafe_events):
        return ()
    return (
        Event(when_charge_below(failsafe.return_below, name), return_home(drone=name)),
        Event(when_charge_below(failsafe.land_below, name), land(drone=name)),
        Event(when(f"charge < {failsafe.land_below} and landed == 1", name), disarm(name)),
    )
