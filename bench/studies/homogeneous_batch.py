"""Fly vehicles of one structure and different parameters together, each under the controller designed for it.

The loop is that of a scenario in calm air: a controller every 4 ms, physics every 1 ms, contact with level ground, and every
20 ms the air density at each height. The parameters are inputs of the programs (`samara.compiler.batch_parameters`), so each
vehicle flies as it does alone, to rounding.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.batch_parameters import StepFunction, batch_code, split_record
from samara.compiler.compiled_step import CompiledStep
from samara.control.registry import create_controller
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.multirotor import state_at_rest, zero_command
from samara.physics.types import CALM, Reference, State, Vehicle
from samara.sensors.site import HOME
from samara.sim.initial_state import standing_state
from samara.sim.stages.air import air_density
from samara.sim.stages.controller import control
from samara.sim.stages.physics import ContactStatus, integrate
from samara.vehicles.defaults import clearance

PERIOD, PHYSICS, AIR = 4e-3, 1e-3, 20e-3  # [s]
LANES = 8  # drones per SIMD instruction


def initial_standing_state(vehicle: Vehicle) -> State:
    """Return the state of a vehicle that stands at the origin, as in a scenario."""
    contact_state = state_at_rest(vehicle, Vec3(0.0, 0.0, clearance(vehicle)))
    return standing_state(contact_state, ZERO, vehicle, CALM, lambda p_W, q_WB, part: CALM.ground)


class Flight(NamedTuple):
    """Positions (ticks, 3, n), tilt cosines, speeds and angular speeds (ticks, n) at every control tick, and final states."""

    p_W: Array
    up: Array
    speed: Array
    angular_speed: Array
    final: Array


def fly_homogeneous_batch(vehicles: Sequence[Vehicle], name: str, references: Array) -> Flight:
    """Fly vehicles of one structure, each under the named controller designed for it; references (ticks, components, n)."""
    structure, count = vehicles[0].structure, len(vehicles)
    named_controllers = [create_controller(name, vehicle, period=PERIOD) for vehicle in vehicles]
    controller_state, rest_state, command = (
        named_controllers[0].initial_state,
        state_at_rest(vehicles[0]),
        zero_command(vehicles[0]),
    )
    batch_vehicles = [replace(vehicle, structure=structure) for vehicle in vehicles]

    def control_step(vehicle: Vehicle, controller: Any) -> StepFunction:
        def body(carry: Any, held_inputs: Any) -> Any:
            return control(held_inputs[0], held_inputs[1], carry[1], 0.0, 1.0, controller=controller, vehicle=vehicle)[
                :2
            ]

        return StepFunction(body, (command, controller_state), (rest_state, Reference(ZERO)))

    def plant_step(vehicle: Vehicle) -> StepFunction:
        def body(state: Any, held_inputs: Any) -> Any:
            environment = CALM._replace(air_density=held_inputs[1])
            return integrate(state, ContactStatus(), held_inputs[0], environment, PHYSICS, vehicle=vehicle)[0]

        return StepFunction(body, rest_state, (command, CALM.air_density))

    def air(previous: Any, held_inputs: Any) -> Any:
        return air_density(held_inputs[0], home_density=CALM.air_density, home_altitude=HOME.origin.altitude)

    controllers = [
        (body, named_controller.call) for body, named_controller in zip(batch_vehicles, named_controllers, strict=True)
    ]
    pilots = batch_code(control_step, controllers).machine(count)
    plants = batch_code(plant_step, [(body,) for body in batch_vehicles]).machine(count)
    densities = CompiledStep(air, (CALM.air_density,), (0.0,)).machine(count)
    size, motors = len(flatten(rest_state)), len(command)
    plants.carry[:] = np.array([flatten(initial_standing_state(vehicle)) for vehicle in vehicles]).T
    rows = np.empty((len(references), 13, count))
    for tick, (row, reference) in enumerate(zip(rows, references, strict=True)):
        if tick % round(AIR / PERIOD) == 0:
            densities.held_inputs[:] = plants.carry[2]
            densities.run()
            plants.held_inputs[motors] = densities.carry[0]
        pilots.held_inputs[:size] = plants.carry
        pilots.held_inputs[size:] = reference
        pilots.run()
        plants.held_inputs[:motors] = pilots.carry[:motors]
        plants.run(round(PERIOD / PHYSICS))
        row[:] = plants.carry[:13]
    up = matrix_from_quat(Quat(*(rows[:, i] for i in range(6, 10)))).zz
    return Flight(
        rows[:, :3],
        up,
        np.linalg.norm(rows[:, 3:6], axis=1),
        np.linalg.norm(rows[:, 10:], axis=1),
        plants.carry.copy(),
    )


def batch_signature(vehicle: Vehicle, name: str) -> tuple[Any, ...]:
    """Return the properties that vehicles of one batch share: the structure of their parameters and of their controller."""
    controller = create_controller(name, vehicle, period=PERIOD).call
    effects = tuple(effect.name for effect in vehicle.structure.effects)
    return effects, split_record((vehicle.mass, vehicle.rotors, vehicle.parameters, controller)).structure
