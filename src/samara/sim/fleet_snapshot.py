"""Snapshot of a flight: the state of the fleet as a frozen record, the bus."""

from typing import TYPE_CHECKING

from samara.core.algebra import ZERO
from samara.core.tree import unflatten
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import Environment, Reference, State
from samara.scenario.actuators import MOTOR_CHANNELS, ActuatorCommand
from samara.scenario.batteries import battery_status
from samara.scenario.snapshot import AutopilotCommand, Bus, DroneBus

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet


def fleet_bus(fleet: "Fleet") -> Bus:
    """Return the state of the flight at this instant."""
    drones = tuple(_drone_bus(fleet, index) for index in range(len(fleet.scenario.drones)))
    return Bus(fleet.time_us, drones, fleet.wind_W, fleet.setting.wind_disturbance_W)


def _drone_bus(fleet: "Fleet", index: int) -> DroneBus:
    (group, column), setting = fleet.locate(index), fleet.setting.drones[index]
    vehicle = group.drone_vehicle(column)
    template = state_at_rest(vehicle)
    state: State = unflatten(template, iter(group.plant.state[:, column].tolist()))
    estimate: State = unflatten(template, iter(group.estimate[:, column].tolist()))
    reference: Reference = unflatten(Reference(ZERO), iter(group.reference[:, column].tolist()))
    environment: Environment = unflatten(
        complete_environment(vehicle), iter(group.plant.environment[:, column].tolist())
    )
    command = tuple(group.plant.command[:, column].tolist())
    is_normalized = vehicle.structure.actuation.name in ("normalized", "duty")
    motors = tuple(min(max(u, 0.0), 1.0) for u in command[:MOTOR_CHANNELS]) if is_normalized else ()
    return DroneBus(
        fleet.drone_name(index),
        state,
        estimate,
        reference,
        ActuatorCommand(motors),
        AutopilotCommand(setting.armed, setting.task.name, setting.since_us),
        setting.faults,
        bool(fleet.landed[index]),
        bool(fleet.crashed[index]),
        environment,
        battery_status(state, command, vehicle, environment),
        {rows.sensor.name: tuple(rows.reading[:, column].tolist()) for rows in group.sensors},
    )
