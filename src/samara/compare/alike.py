"""Vehicles that are built alike and have other numbers, flown together in the lanes of one batch, each with its own gains.

The loop is that of a scenario in calm air: a controller every 4 ms, physics every 1 ms, contact with level ground, and every
20 ms the density of the air at each height. Each flies as it does alone, to the rounding of numbers that are folded there and
inputs here.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.control.registry import Named, controller_named
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat
from samara.core.tree import flatten, unflatten
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


class Stack(NamedTuple):
    """Trees of numbers of one shape: one of them, where they differ, and the differing numbers, (numbers, trees)"""

    template: Any
    differing: tuple[int, ...]
    rows: Array

    def filled(self, numbers: Any) -> Any:
        """The tree with these in the differing places"""
        leaves = flatten(self.template)
        for at, number in zip(self.differing, numbers, strict=True):
            leaves[at] = number
        return unflatten(self.template, iter(leaves))


def stack(trees: Sequence[Any]) -> Stack:
    """What all have in common stays a number of the trace; a tree of another shape is an error"""
    leaves = [flatten(tree) for tree in trees]
    if len({len(own) for own in leaves}) != 1:
        raise ValueError("these trees have different shapes; expected vehicles that are built alike")
    differing = tuple(at for at, own in enumerate(leaves[0]) if any(other[at] != own for other in leaves))
    rows = np.array([[own[at] for own in leaves] for at in differing], dtype=float)
    return Stack(trees[0], differing, rows.reshape(len(differing), len(trees)))


def numbers_of(vehicle: Vehicle) -> tuple[Any, ...]:
    """All numbers of a vehicle, as a tree"""
    return vehicle.mass, vehicle.inertia_B, vehicle.rotors, vehicle.parameters


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


def fly_alike(vehicles: Sequence[Vehicle], name: str, references: Array) -> Flight:
    """Vehicles of one structure under the controller of a name, each with its own gains; references (ticks, components, n)"""
    structure, count = vehicles[0].structure, len(vehicles)
    bodies = stack([numbers_of(vehicle) for vehicle in vehicles])
    named = [controller_named(name, vehicle, period=PERIOD) for vehicle in vehicles]
    kind: Any = type(named[0].call)
    memory = named[0].memory
    own = stack([_numbers(each) for each in named])
    still, command, asked = at_rest(vehicles[0]), empty_command(vehicles[0]), Reference(Vec3(0.0, 0.0, 0.0))

    def pilot(carry: Any, held: Any) -> Any:
        state, reference, body, gains = held
        vehicle = Vehicle(structure, *bodies.filled(body))
        inputs = state, reference, carry[1], 0.0, 1.0
        return control(*inputs, controller=kind(*own.filled(gains)), vehicle=vehicle)[:2]

    def plant(state: Any, held: Any) -> Any:
        command, density, body = held
        vehicle, around = Vehicle(structure, *bodies.filled(body)), CALM._replace(air_density=density)
        return integrate(state, Contact(), command, around, PHYSICS, vehicle=vehicle)[0]

    def air(before: Any, held: Any) -> Any:
        return air_density(held[0], home_density=CALM.air_density, home_altitude=HOME.origin.altitude)

    body, gains = (tuple(one.rows[:, 0].tolist()) for one in (bodies, own))
    pilots = CompiledStep(pilot, (command, memory), (still, asked, body, gains)).machine(count)
    plants = CompiledStep(plant, still, (command, CALM.air_density, body)).machine(count)
    densities = CompiledStep(air, (CALM.air_density,), (0.0,)).machine(count)
    size, motors = len(flatten(still)), len(command)
    pilots.held[size + len(flatten(asked)) :] = np.concatenate([bodies.rows, own.rows])
    plants.held[motors + 1 :] = bodies.rows
    plants.carry[:] = np.array([flatten(parked(v)) for v in vehicles]).T
    rows = np.empty((len(references), 13, count))
    for tick, (row, reference) in enumerate(zip(rows, references, strict=True)):
        if tick % round(AIR / PERIOD) == 0:
            densities.held[:] = plants.carry[2]
            densities.run()
            plants.held[motors] = densities.carry[0]
        pilots.held[:size] = plants.carry
        pilots.held[size : size + len(reference)] = reference
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


def alike(vehicle: Vehicle, name: str) -> tuple[Any, ...]:
    """What vehicles have in common that may fly together: rotors, effects, and the shape of their controller's numbers"""
    effects = tuple(own.name for own in vehicle.structure.effects)
    own = len(flatten(_numbers(controller_named(name, vehicle, period=PERIOD))))
    return len(vehicle.rotors), effects, len(flatten(numbers_of(vehicle))), own


def _numbers(named: Named) -> tuple[Any, ...]:
    kind: Any = type(named.call)
    return tuple(getattr(named.call, field.name) for field in fields(kind))
