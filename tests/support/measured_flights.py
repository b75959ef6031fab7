"""Flights whose every number is known, as an estimator would have measured them without any error."""

import numpy as np

from samara.core.algebra import Vec3
from samara.identify.manoeuvres import Room, controller_for, family, trajectory
from samara.identify.parameters import ready
from samara.identify.predicted_wrench import acting
from samara.identify.resampled_log import Samples
from samara.physics.rotors.actuator import speed_from_command
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory
from samara.record.streams import tables
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.simulation import Simulation

PERIOD = 0.004  # [s]
HOME_W = Vec3(0.0, 0.0, 2.0)


def lively(vehicle: Vehicle) -> Trajectory:
    """Steps to and fro along every axis, yaw steps and a sprint"""
    own = [each for each in family(vehicle, Room()) if each.name.startswith(("steps", "yaw", "sprint"))]
    return trajectory([*own[2:12], *own[:2], *own[-2:]], HOME_W)


def exact_samples(vehicle: Vehicle, task: Trajectory, seconds: float) -> Samples:
    """What is flown in still air, every 4 ms, with the specific force of the equations themselves"""
    drone = Drone("exact", vehicle, task, HOME_W, airborne=True, controller=controller_for(Room()))
    blocks = []
    scenario = Scenario("exact", (drone,), seconds, rates=Rates(log=1.0 / PERIOD))
    Simulation(scenario, lambda own, lines: blocks.extend(own)).run()
    found = tables(blocks)
    state, told = (np.ascontiguousarray(found[f"/exact/{name}"][1].T) for name in ("state", "command"))
    n = min(state.shape[1], told.shape[1])
    speeds = np.stack(
        [speed_from_command(u, rotor.motor) for u, rotor in zip(told[:, :n], vehicle.rotors, strict=True)]
    )
    body, turning = state[:13, :n], state[13 : 13 + len(vehicle.rotors), :n]
    force = acting(ready(vehicle), body, turning, speeds).f_B / vehicle.mass
    usable = np.ones(n, dtype=bool)
    knows = frozenset({"position", "velocity", "attitude", "rate", "specific_force"})
    return Samples("exact", PERIOD, PERIOD * np.arange(n), body, speeds, force, None, None, usable, knows)
