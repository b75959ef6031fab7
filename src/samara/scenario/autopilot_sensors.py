"""A scenario made ready for autopilots: the sensors they need, the rate they want them at, a port of its own for each."""

import math
from collections.abc import Sequence
from dataclasses import replace

from samara.control.registry import own_rate
from samara.estimate.ideal import TRUTH
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import AutopilotType
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import MICROSECONDS, microseconds, period
from samara.sensors.registry import part
from samara.sensors.sensor import Sensor, kind_of
from samara.sensors.site import Place

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


def default_sensor(kind: str, rate: float, where: Place) -> Sensor:
    """A part of that kind, the receiver on a day when its fixes do not wander"""
    if kind == "imu":
        return part("bmi088", rate=rate).sensor()
    if kind == "magnetometer":
        return part("bmm150", rate=50.0).sensor(where=where)
    if kind == "barometer":
        return part("bmp388", drift=0.0).sensor(where=where)
    if kind == "gps":
        return part("neo-m9n", horizontal_wander=0.0, vertical_wander=0.0).sensor(where=where)
    raise ValueError(
        f"an autopilot needs a sensor {kind!r}: expected imu, magnetometer, barometer or gps, or one in `sensors`"
    )


def prepared(scenario: Scenario) -> Scenario:
    """The scenario with what its autopilots need; without any it is the same"""
    flown = [drone.autopilot for drone in scenario.drones if drone.autopilot is not None]
    if not flown:
        return at_own_rate(scenario)
    firmware = {rate for drone in scenario.drones if drone.autopilot is None and (rate := own_rate(drone.controller))}
    fastest = sorted({own.sensor_rate for own in flown} | firmware)
    if len(fastest) > 1:
        listed = " and ".join(f"{rate:g} Hz" for rate in fastest)
        raise ValueError(f"the autopilots want their sensors at {listed}; expected one rate for all of them")
    rate = fastest[0]
    numbers = _instances([drone.autopilot for drone in scenario.drones])
    drones = tuple(
        _fitted(own, instance, scenario.home) for own, instance in zip(scenario.drones, numbers, strict=True)
    )
    spans = [period(rate, "the autopilot's rate")]
    for sensor in {sensor for drone in drones for sensor in drone.sensors}:
        if sensor.rate:
            spans.append(period(sensor.rate, f"the rate of sensor {sensor.name!r}"))
        if sensor.delay:
            spans.append(microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}"))
    rates = replace(
        scenario.rates,
        autopilot=rate,
        sensor=MICROSECONDS / math.gcd(*spans),
        physics=max(scenario.rates.physics, rate),
    )
    return replace(scenario, drones=drones, rates=rates)


def at_own_rate(scenario: Scenario) -> Scenario:
    """The scenario with its controllers as often as those of a firmware have to be called; without any it is the same"""
    rates = {rate for drone in scenario.drones if (rate := own_rate(drone.controller)) is not None}
    if not rates:
        return scenario
    rate = max(rates)
    return replace(scenario, rates=replace(scenario.rates, autopilot=rate, physics=max(scenario.rates.physics, rate)))


def flown_by(scenario: Scenario, autopilot: Autopilot) -> Scenario:
    """The scenario with all its drones flown by an autopilot of their own"""
    return prepared(replace(scenario, drones=tuple(replace(own, autopilot=autopilot) for own in scenario.drones)))


def _fitted(drone: Drone, instance: int, where: Place) -> Drone:
    own = drone.autopilot
    if own is None:
        return drone
    has = {kind_of(sensor) for sensor in drone.sensors}
    more = tuple(default_sensor(kind, own.sensor_rate, where) for kind in own.type.sensors if kind not in has)
    sensors = (*drone.sensors, *more)
    numbers = {**_gps_delay(own.type, sensors), **dict(own.parameters)}
    if drone.battery_failsafe is not None:
        numbers = {**failsafe_parameters(own.type, drone.vehicle, drone.battery_failsafe), **numbers}
    autopilot = replace(own, instance=instance, parameters=tuple(numbers.items()))
    return replace(drone, autopilot=autopilot, sensors=sensors, estimator=TRUTH)


def _gps_delay(autopilot_type: AutopilotType, sensors: Sequence[Sensor]) -> dict[str, float]:
    """The parameters for the delay of the first GPS receiver [ms]; PX4 assumes 10 ms in a simulation"""
    receivers = [sensor for sensor in sensors if kind_of(sensor) == "gps"]
    return dict.fromkeys(autopilot_type.gps_delay_parameters, 1e3 * receivers[0].delay) if receivers else {}


def _instances(autopilots: Sequence[Autopilot | None]) -> list[int]:
    """The instance each asked for, or the next that is free"""
    taken: set[int] = set()
    numbers = []
    for own in autopilots:
        number = 0 if own is None else own.instance
        while own is not None and number in taken:
            number += 1
        if own is not None:
            taken.add(number)
        numbers.append(number)
    return numbers
