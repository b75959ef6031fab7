"""The batteries of a drone in a simulation: what they tell, and what is left when a cell fails."""

from samara.core.ops import equal, where
from samara.core.quantity import Scalar
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.battery import Ideal, share_of_current, source_of
from samara.physics.rotors.propulsion import bus_current, rated_voltages, supply_voltage
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.bus import BatteryStatus


def with_cells(vehicle: Vehicle, left: float) -> Vehicle:
    """The vehicle with this fraction of its cells, all in series: OCV' = left · OCV; its motors are rated as before"""
    if left == 1.0 or not vehicle.has("battery"):
        return vehicle
    battery = vehicle["battery"]
    if any(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        rated = zip(vehicle.rotors, rated_voltages(vehicle), strict=True)
        motors = (rotor._replace(motor=rotor.motor._replace(full_voltage=full)) for rotor, full in rated)
        vehicle = vehicle.replace(rotors=tuple(motors))
    if isinstance(battery, Ideal):
        return vehicle.replace({"battery.voltage": battery.voltage * left})
    table = tuple(left * volts for volts in battery[0].table_voltage)
    return vehicle.replace({"battery.table_voltage": table})


def batteries_of(
    state: State, command: tuple[Scalar, ...], vehicle: Vehicle, environment: Environment
) -> tuple[BatteryStatus, ...]:
    """Charge, bus voltage and current of each battery, of any scalars; a supply that does not sag is always full"""
    if not vehicle.has("battery"):
        return ()
    connected = environment.battery_connected
    voltage = supply_voltage(state, command, vehicle, environment)
    if isinstance(vehicle["battery"], Ideal):
        return (BatteryStatus(1.0, voltage, bus_current(state, command, vehicle, environment), connected),)
    own = state.effects[vehicle.index("battery")]
    return tuple(
        BatteryStatus(
            each.charge,
            voltage,
            where(equal(connected, 0.0), 0.0, share_of_current(source_of(each, battery), voltage)),
            connected,
        )
        for each, battery in zip(own, vehicle["battery"], strict=True)
    )


def battery_status(
    state: State, command: tuple[float, ...], vehicle: Vehicle, environment: Environment
) -> tuple[BatteryStatus, ...]:
    """The same as numbers and a bool"""
    return tuple(
        BatteryStatus(float(own.charge), float(own.voltage), float(own.current), bool(own.connected))
        for own in batteries_of(state, command, vehicle, environment)
    )
