"""Flights with exact values, as an estimator without error would measure them."""

import numpy as np

from samara.core.algebra import Vec3
from samara.identify.manoeuvres import FlightVolume, identification_controller, manoeuvre_family, manoeuvre_trajectory
from samara.identify.parameters import prepare_vehicle
from samara.identify.predicted_wrench import predict_wrench
from samara.identify.resampled_log import ResampledLog
from samara.physics.rotors.actuator import speed_from_command
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory
from samara.record.streams import concatenate_blocks
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.simulation import Simulation

PERIOD = 0.004  # [s]
HOME_W = Vec3(0.0, 0.0, 2.0)


def lively_trajectory(vehicle: Vehicle) -> Trajectory:
    """Return steps to and fro along every axis, yaw steps and a sprint."""
    manoeuvres = [
        manoeuvre
        for manoeuvre in manoeuvre_family(vehicle, FlightVolume())
        if manoeuvre.name.startswith(("steps", "yaw", "sprint"))
    ]
    return manoeuvre_trajectory([*manoeuvres[2:12], *manoeuvres[:2], *manoeuvres[-2:]], HOME_W)


def exact_samples(vehicle: Vehicle, task: Trajectory, seconds: float) -> ResampledLog:
    """Fly in still air and sample every 4 ms, with the specific force of the equations."""
    drone = Drone("exact", vehicle, task, HOME_W, airborne=True, controller=identification_controller(FlightVolume()))
    blocks = []
    scenario = Scenario("exact", (drone,), seconds, rates=Rates(log=1.0 / PERIOD))
    Simulation(scenario, lambda new_blocks, lines: blocks.extend(new_blocks)).run()
    tables_by_topic = concatenate_blocks(blocks)
    state, commands = (np.ascontiguousarray(tables_by_topic[f"/exact/{name}"][1].T) for name in ("state", "command"))
    n = min(state.shape[1], commands.shape[1])
    speeds = np.stack(
        [speed_from_command(u, rotor.motor) for u, rotor in zip(commands[:, :n], vehicle.rotors, strict=True)]
    )
    body, rotor_speeds = state[:13, :n], state[13 : 13 + len(vehicle.rotors), :n]
    force = predict_wrench(prepare_vehicle(vehicle), body, rotor_speeds, speeds).f_B / vehicle.mass
    is_usable = np.ones(n, dtype=bool)
    signals = frozenset({"position", "velocity", "attitude", "rate", "specific_force"})
    return ResampledLog("exact", PERIOD, PERIOD * np.arange(n), body, speeds, force, None, None, is_usable, signals)
