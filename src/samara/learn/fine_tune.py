"""A policy for a vehicle other than the one it was trained on: its weights are trained further from where they are.

What the new vehicle's trim changes (the command of hover, and the rotor speeds there) is put right at once; the rest takes some
dozens of updates of the analytic learner, a second on a CPU. How far both are from their place at the end of flights on the
new vehicle is told: before, with the new trim alone, and after.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.control.network import Network
from samara.control.policy_file import WEIGHTS, Policy, trim_of
from samara.control.registry import tuned
from samara.core.network_layer import Layer
from samara.core.safetensors import read_tensors
from samara.learn.env_config import AT_REST, setting_for
from samara.learn.training import keep, learner_for
from samara.learn.training_result import Learnt, Progress, Weights
from samara.physics.quantities import position_error
from samara.physics.types import Vehicle
from samara.scenario.file import parse_scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fly_many import fly_many

UPDATES, RATE, LAST_RATE = 60, 1e-3, 1e-4  # fewer and smaller steps than learning from nothing takes
FLIGHTS = 64
HOVER = """
name = "adapted"
duration = 4.0

[[drones]]
name = "drone"
vehicle = "crazyflie"
start = [0, 0, 3]
airborne = true

[[drones.tasks]]
kind = "hover"
duration = 4.0
"""
"""What the error is measured in; the vehicle is another"""
AWAY = 0.3  # [m] along each axis that a flight starts from its place


class Adapted(NamedTuple):
    """The policy's folder as it was read back, how it went, and the mean distance from its place at the end  [m]: as it was,
    with the new trim alone, and after further training"""

    policy: Policy
    learnt: Learnt
    before: float
    trimmed: float
    after: float


def adapt(
    policy: Policy,
    vehicle: Vehicle,
    folder: str | Path,
    *,
    updates: int = UPDATES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Adapted:
    """Writes the folder of a policy trained further on another vehicle; ValueError where that cannot be done"""
    weights, activation = weights_of(policy)
    if policy.task not in AT_REST or policy.bounds is not None:
        raise ValueError(
            f"{policy.folder}: trained to {policy.task}{' within bounds' if policy.bounds else ''}; expected one of "
            f"{', '.join(AT_REST)}, which can be trained further"
        )
    as_it_was = _for(policy, vehicle)
    setting = setting_for(policy.task, vehicle, sees=policy.observation, period=policy.period, action=policy.action)
    hidden = tuple(len(bias) for _, bias in weights[:-1])
    changes: dict[str, Any] = {
        "hidden": hidden,
        "updates": updates,
        "rate": RATE,
        "last_rate": LAST_RATE,
        "activation": activation,
    }
    learner, _ = learner_for(setting, chunks=min(10, updates), first=weights, **changes)
    before = hover_error(as_it_was, vehicle)
    trimmed = hover_error(replace(as_it_was, trim=trim_of(vehicle)), vehicle)
    learnt = learner(seed, progress)
    own = keep(setting, learnt, Path(folder), method="adapt", seed=seed, activation=activation)
    return Adapted(own, learnt, before, trimmed, hover_error(own, vehicle))


def weights_of(policy: Policy) -> tuple[Weights, str]:
    """(W, b) of each layer, and the activation of the hidden ones; ValueError for networks that the learner has not"""
    network: Network = policy.network
    hidden = {own.activation if isinstance(own, Layer) else "gru" for own in network[:-1]}
    last = network[-1]
    if len(hidden) != 1 or not hidden <= {"tanh", "relu"} or not isinstance(last, Layer) or last.activation != "tanh":
        raise ValueError(
            f"{policy.folder}: has hidden layers of {', '.join(sorted(hidden)) or 'none'}; expected all of tanh or all of "
            "relu, and tanh in the last, for those can learn on"
        )
    tensors = read_tensors(dict(policy.files)[WEIGHTS])
    return [
        (np.array(tensors[f"{k}.weight"]), np.array(tensors[f"{k}.bias"])) for k in range(len(network))
    ], hidden.pop()


def hover_error(policy: Policy, vehicle: Vehicle) -> float:
    """The mean distance from its place after four seconds, of flights that begin beside it in calm air  [m]"""
    rate = MICROSECONDS / int(policy.period * MICROSECONDS + 1e-6)
    scenario = parse_scenario(HOVER, "adapt", {"rates.autopilot": rate, "rates.estimator": rate})
    drone = replace(scenario.drones[0], vehicle=vehicle, controller=tuned("policy", file=policy))
    place = np.array([float(x) for x in drone.start_W])
    starts = place + np.random.default_rng(0).uniform(-AWAY, AWAY, (FLIGHTS, 3))
    flights = fly_many(replace(scenario, drones=(drone,)), FLIGHTS, vary={"start_W": starts})
    error = np.asarray(position_error(flights.final.p_W, drone.start_W))
    return float(np.where(np.isfinite(error), error, 1e3).mean())


def _for(policy: Policy, vehicle: Vehicle) -> Policy:
    """The policy as it is, with the trim of its training, allowed to fly a vehicle of another name"""
    if policy.trim is None:
        policy = replace(policy, trim=trim_of(vehicle))
    own = replace(policy, vehicle="")
    own.require(vehicle)
    return own
