"""Fly vehicles of one structure and different parameters together, each under the controller designed for it.

The loop is that of a scenario in calm air: a controller every 4 ms, physics every 1 ms, contact with level ground, and every
20 ms the density of the air at each height. The parameters are inputs of the programs (`samara.compiler.batch_parameters`), so
each vehicle flies as it does by itself, to rounding.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.batch_parameters import StepFunction, batch_code, split_record
from samara.compiler.compiled_step import CompiledStep
from samara.control.registry import controller_named
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest, empty_command
from samara.physics.types import CALM, Reference, State, Vehicle
from samara.sensors.site import HOME
from samara.sim.initial_state import standing
from samara.sim.stages.air import air_density
from samara.sim.stages.controller import control
from samara.sim.stages.physics import Contact, integrate
from samara.vehicles.defaults import clearance

PERIOD, PHYSICS, AIR = 4e-3, 1e-3, 20e-3  # [s]
LANES = 8  # drones to an instruction, at the most


def parked(vehicle: Vehicle) -> State:
    """Standing in the origin, as in a scenario"""
    touching = at_rest(vehicle, Vec3(0.0, 0.0, clearance(vehicle)))
    return standing(touching, ZERO, vehicle, CALM, lambda p_W, q_WB, own: CALM.ground)


class Flight(NamedTuple):
    """At every control tick: places, tilt cosines, and speeds, (ticks, 3, n), (ticks, n); and the last state of each"""

    p_W: Array
    up: Array
    speed: Array
    turning: Array
    final: Array


def fly_homogeneous_batch(vehicles: Sequence[Vehicle], name: str, references: Array) -> Flight:
    """Fly vehicles of one structure, each under its own controller of a name; references (ticks, components, n)"""
    structure, count = vehicles[0].structure, len(vehicles)
    named = [controller_named(name, vehicle, period=PERIOD) for vehicle in vehicles]
    initial_memory, still, command = named[0].memory, at_rest(vehicles[0]), empty_command(vehicles[0])
    bodies = [replace(vehicle, structure=structure) for vehicle in vehicles]

    def control_step(vehicle: Vehicle, controller: Any) -> StepFunction:
        def body(carry: Any, held: Any) -> Any:
            return control(held[0], held[1], carry[1], 0.0, 1.0, controller=controller, vehicle=vehicle)[:2]

        return StepFunction(body, (command, initial_memory), (still, Reference(ZERO)))

    def plant_step(vehicle: Vehicle) -> StepFunction:
        def body(state: Any, held: Any) -> Any:
            around = CALM._replace(air_density=held[1])
            return integrate(state, Contact(), held[0], around, PHYSICS, vehicle=vehicle)[0]

        return StepFunction(body, still, (command, CALM.air_density))

    def air(before: Any, held: Any) -> Any:
        return air_density(held[0], home_density=CALM.air_density, home_altitude=HOME.origin.altitude)

    controllers = [(body, each.call) for body, each in zip(bodies, named, strict=True)]
    pilots = batch_code(control_step, controllers).machine(count)
    plants = batch_code(plant_step, [(body,) for body in bodies]).machine(count)
    densities = CompiledStep(air, (CALM.air_density,), (0.0,)).machine(count)
    size, motors = len(flatten(still)), len(command)
    plants.carry[:] = np.array([flatten(parked(vehicle)) for vehicle in vehicles]).T
    rows = np.empty((len(references), 13, count))
    for tick, (row, reference) in enumerate(zip(rows, references, strict=True)):
        if tick % round(AIR / PERIOD) == 0:
            densities.held[:] = plants.carry[2]
            densities.run()
            plants.held[motors] = densities.carry[0]
        pilots.held[:size] = plants.carry
        pilots.held[size:] = reference
        pilots.run()
        plants.held[:motors] = pilots.carry[:motors]
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
    """Return what vehicles that fly together have in common: the structure of their parameters and of their controller's"""
    controller = controller_named(name, vehicle, period=PERIOD).call
    effects = tuple(effect.name for effect in vehicle.structure.effects)
    return effects, split_record((vehicle.mass, vehicle.rotors, vehicle.parameters, controller)).structure
