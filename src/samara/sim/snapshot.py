"""The bus of a flight as it stands: the fleet as a frozen record."""

from typing import TYPE_CHECKING

from samara.backends.numbered import in_lane
from samara.core.algebra import ZERO
from samara.core.number import Number
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.reference import Reference
from samara.physics.surroundings import environment_of
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.actuators import MOTOR_CHANNELS, ActuatorCommand
from samara.scenario.batteries import battery_status
from samara.scenario.bus import AutopilotCommand, Bus, DroneBus

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet


def bus_of(fleet: "Fleet") -> Bus:
    """The world at this instant"""
    drones = tuple(_drone(fleet, index) for index in range(len(fleet.scenario.drones)))
    return Bus(fleet.time_us, drones, fleet.wind_W, fleet.setting.wind_disturbance_W)


def _drone(fleet: "Fleet", index: int) -> DroneBus:
    (group, lane), own = fleet.place_of(index), fleet.setting.drones[index]
    vehicle = group.vehicle_of(lane)
    template = at_rest(vehicle)
    state: State = unflatten(template, iter(group.plant.state[:, lane].tolist()))
    estimate: State = unflatten(template, iter(group.estimate[:, lane].tolist()))
    reference: Reference = unflatten(Reference(ZERO), iter(group.reference[:, lane].tolist()))
    environment: Environment = unflatten(environment_of(vehicle), iter(group.plant.environment[:, lane].tolist()))
    command = tuple(group.plant.command[:, lane].tolist())
    unit = vehicle.structure.actuation.name in ("normalized", "duty")
    motors = tuple(min(max(u, 0.0), 1.0) for u in command[:MOTOR_CHANNELS]) if unit else ()
    return DroneBus(
        fleet.name_of(index),
        state,
        estimate,
        reference,
        ActuatorCommand(motors),
        AutopilotCommand(own.armed, own.task.name, own.since_us),
        own.faults,
        bool(fleet.landed[index]),
        bool(fleet.crashed[index]),
        environment,
        battery_status(state, command, _in_floats(vehicle, index), environment),
        {own.sensor.name: tuple(own.reading[:, lane].tolist()) for own in group.sensors},
    )


def _in_floats(vehicle: Vehicle, index: int) -> Vehicle:
    """With this flight's own numbers, where many fly that differ in them"""
    if not vehicle.has("battery"):
        return vehicle
    own = next((each for each in flatten((vehicle.rotors, vehicle.parameters)) if type(each) is Number), None)
    return vehicle if own is None else in_lane(vehicle, own.tape, index)
