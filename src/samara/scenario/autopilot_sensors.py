"""Prepare a scenario for autopilots: add the sensors they need, set the rates, and give each a separate port."""

import math
from collections.abc import Sequence
from dataclasses import replace

from samara.control.registry import required_rate
from samara.core.sanitise import quote_value
from samara.estimate.ideal import TRUTH
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import AutopilotType
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import MICROSECONDS, microseconds, period
from samara.sensors.registry import part
from samara.sensors.sensor import Sensor, sensor_type_name
from samara.sensors.site import Site

CELL_VOLTAGE = 4.2  # [V]: voltage of a full cell
MAX_MAVLINK_CELLS = 10  # cells that fit into one MAVLink message


def main_battery(vehicle: Vehicle) -> Thevenin | None:
    """Return the battery that discharges, the first of several in parallel; None without one."""
    if not vehicle.has("battery") or isinstance(vehicle["battery"], Ideal):
        return None
    first: Thevenin = vehicle["battery"][0]
    return first


def milliampere_hours(vehicle: Vehicle) -> float:
    """Return the capacity of all batteries in parallel, when full [mA h]."""
    battery = main_battery(vehicle)
    return 0.0 if battery is None else float(battery.capacity) * len(vehicle["battery"]) / 3.6


def cell_count(battery: Thevenin) -> int:
    """Return the cells in series, estimated from the voltage of the full battery."""
    return min(max(round(float(battery.table_voltage[-1]) / CELL_VOLTAGE), 1), MAX_MAVLINK_CELLS)


def failsafe_parameters(autopilot_type: AutopilotType, vehicle: Vehicle, failsafe: BatteryFailsafe) -> dict[str, float]:
    """Return the autopilot's parameters for a battery failsafe; {} if it has no failsafe or the battery never discharges."""
    parameters = autopilot_type.failsafe_parameters
    if parameters is None or main_battery(vehicle) is None:
        return {}
    return parameters(failsafe, milliampere_hours(vehicle))


def default_sensor(kind: str, rate: float, home: Site) -> Sensor:
    """Return the default part for a type of sensor; the GPS receiver has no wandering fixes."""
    if kind == "imu":
        return part("bmi088", rate=rate).sensor()
    if kind == "magnetometer":
        return part("bmm150", rate=50.0).sensor(where=home)
    if kind == "barometer":
        return part("bmp388", drift=0.0).sensor(where=home)
    if kind == "gps":
        return part("neo-m9n", horizontal_wander=0.0, vertical_wander=0.0).sensor(where=home)
    raise ValueError(
        f"an autopilot needs a sensor {kind!r}: expected imu, magnetometer, barometer or gps, or one in `sensors`"
    )


def prepare_autopilots(scenario: Scenario) -> Scenario:
    """Return the scenario with the sensors, rates and instances of its autopilots; unchanged without autopilots."""
    autopilots = [drone.autopilot for drone in scenario.drones if drone.autopilot is not None]
    if not autopilots:
        return apply_firmware_rate(scenario)
    firmware_rates = {
        rate for drone in scenario.drones if drone.autopilot is None and (rate := required_rate(drone.controller))
    }
    rates_needed = sorted({autopilot.sensor_rate for autopilot in autopilots} | firmware_rates)
    if len(rates_needed) > 1:
        rate_list = " and ".join(f"{rate:g} Hz" for rate in rates_needed)
        raise ValueError(f"the autopilots need their sensors at {rate_list}; expected one rate for all of them")
    rate = rates_needed[0]
    instances = _instances([drone.autopilot for drone in scenario.drones])
    drones = tuple(
        _equip_drone(drone, instance, scenario.home) for drone, instance in zip(scenario.drones, instances, strict=True)
    )
    periods_us = [period(rate, "the autopilot's rate")]
    for sensor in {sensor for drone in drones for sensor in drone.sensors}:
        if sensor.rate:
            periods_us.append(period(sensor.rate, f"the rate of sensor {sensor.name!r}"))
        if sensor.delay:
            periods_us.append(microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}"))
    rates = replace(
        scenario.rates,
        control=rate,
        sensor=MICROSECONDS / math.gcd(*periods_us),
        physics=max(scenario.rates.physics, rate),
    )
    return replace(scenario, drones=drones, rates=rates)


def apply_firmware_rate(scenario: Scenario) -> Scenario:
    """Return the scenario with the controller rate that a firmware controller requires; unchanged without one."""
    rates = {rate for drone in scenario.drones if (rate := required_rate(drone.controller)) is not None}
    if not rates:
        return scenario
    rate = max(rates)
    return replace(scenario, rates=replace(scenario.rates, control=rate, physics=max(scenario.rates.physics, rate)))


def assign_autopilot(scenario: Scenario, autopilot: Autopilot) -> Scenario:
    """Return the scenario with an autopilot for each of its drones."""
    if not isinstance(autopilot, Autopilot):
        raise ValueError(
            f"autopilot = {quote_value(autopilot)}: expected a samara.scenario.Autopilot, which names its program"
        )
    return prepare_autopilots(
        replace(scenario, drones=tuple(replace(drone, autopilot=autopilot) for drone in scenario.drones))
    )


def _equip_drone(drone: Drone, instance: int, home: Site) -> Drone:
    autopilot_setup = drone.autopilot
    if autopilot_setup is None:
        return drone
    present = {sensor_type_name(sensor) for sensor in drone.sensors}
    added = tuple(
        default_sensor(kind, autopilot_setup.sensor_rate, home)
        for kind in autopilot_setup.registered_type.sensors
        if kind not in present
    )
    sensors = (*drone.sensors, *added)
    parameters: dict[str, float | str] = {
        **_gps_delay(autopilot_setup.registered_type, sensors),
        **dict(autopilot_setup.parameters),
    }
    if drone.battery_failsafe is not None:
        parameters = {
            **failsafe_parameters(autopilot_setup.registered_type, drone.vehicle, drone.battery_failsafe),
            **parameters,
        }
    autopilot = replace(autopilot_setup, instance=instance, parameters=tuple(parameters.items()))
    return replace(drone, autopilot=autopilot, sensors=sensors, estimator=TRUTH)


def _gps_delay(autopilot_type: AutopilotType, sensors: Sequence[Sensor]) -> dict[str, float]:
    """Return the parameters for the delay of the first GPS receiver [ms]; PX4 assumes 10 ms in a simulation."""
    receivers = [sensor for sensor in sensors if sensor_type_name(sensor) == "gps"]
    return dict.fromkeys(autopilot_type.gps_delay_parameters, 1e3 * receivers[0].delay) if receivers else {}


def _instances(autopilots: Sequence[Autopilot | None]) -> list[int]:
    """Return the requested instance of each autopilot, or the next free one."""
    taken: set[int] = set()
    instances = []
    for autopilot in autopilots:
        instance = 0 if autopilot is None else autopilot.instance
        while autopilot is not None and instance in taken:
            instance += 1
        if autopilot is not None:
            taken.add(instance)
        instances.append(instance)
    return instances
