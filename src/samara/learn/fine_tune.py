"""Fine-tuning: train a policy further for a vehicle other than the one it was trained on.

The policy gets the trim of the new vehicle (the hover command and rotor speeds), and then a few dozen updates by the
gradient of the flight, which take a second on a CPU. The result reports the mean position errors before, with the new trim
only, and after.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.control.policy_file import Policy, policy_trim
from samara.control.registry import controller_spec
from samara.learn.env_config import REST_TASKS, configure_environment
from samara.learn.optimizer import ProgressCallback, TrainingResult
from samara.learn.policies import policy_weights
from samara.learn.training import build_trainer, save
from samara.physics.quantities import position_error
from samara.physics.types import Vehicle
from samara.scenario.file import parse_scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fly_many import fly_many

UPDATES, RATE, LAST_RATE = 60, 1e-3, 1e-4  # fewer and smaller steps than training from random weights
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
type = "hover"
duration = 4.0
"""
"""The flight in which the position error is measured; its vehicle is replaced."""
START_OFFSET = 0.3  # [m], largest along each axis


class FineTuningResult(NamedTuple):
    """The fine-tuned policy, the result of training, and the mean final position errors [m]: before, with the new
    trim only, and after training."""

    policy: Policy
    training: TrainingResult
    error_before: float
    error_trimmed: float
    error_after: float


def adapt(
    policy: Policy,
    vehicle: Vehicle,
    folder: str | Path,
    *,
    updates: int = UPDATES,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> FineTuningResult:
    """Train a policy further on another vehicle and write its folder.

    Args:
        policy: the policy to train further.
        vehicle: the new vehicle.
        folder: folder of the new policy.
        updates: count of gradient updates.
        seed: seed of all random numbers.
        progress: called after each chunk of updates.

    Raises:
        ValueError: the policy cannot be trained further.
    """
    weights, activation = policy_weights(policy)
    if policy.task not in REST_TASKS or policy.bounds is not None:
        raise ValueError(
            f"{policy.folder}: trained to {policy.task}{' within bounds' if policy.bounds else ''}; expected one of "
            f"{', '.join(REST_TASKS)}, which can be trained further"
        )
    original = _remove_vehicle_restriction(policy, vehicle)
    setting = configure_environment(
        policy.task, vehicle, observation_name=policy.observation, period=policy.period, action=policy.action
    )
    hidden = tuple(len(bias) for _, bias in weights[:-1])
    trainer, _ = build_trainer(
        setting,
        chunks=min(10, updates),
        first=weights,
        hidden=hidden,
        updates=updates,
        rate=RATE,
        last_rate=LAST_RATE,
        activation=activation,
    )
    error_before = hover_error(original, vehicle)
    error_trimmed = hover_error(replace(original, trim=policy_trim(vehicle)), vehicle)
    training = trainer(seed, progress)
    tuned_policy = save(setting, training, Path(folder), method="adapt", seed=seed, activation=activation)
    return FineTuningResult(tuned_policy, training, error_before, error_trimmed, hover_error(tuned_policy, vehicle))


def hover_error(policy: Policy, vehicle: Vehicle) -> float:
    """Mean position error after four seconds of flights that start away from their reference, in calm air  [m]."""
    rate = MICROSECONDS / int(policy.period * MICROSECONDS + 1e-6)
    scenario = parse_scenario(HOVER, "adapt", {"rates.control": rate, "rates.estimator": rate})
    drone = replace(scenario.drones[0], vehicle=vehicle, controller=controller_spec("policy", file=policy))
    reference_W = np.array([float(x) for x in drone.start_W])
    starts = reference_W + np.random.default_rng(0).uniform(-START_OFFSET, START_OFFSET, (FLIGHTS, 3))
    flights = fly_many(replace(scenario, drones=(drone,)), FLIGHTS, vary={"start_W": starts})
    error = np.asarray(position_error(flights.final.p_W, drone.start_W))
    return float(np.where(np.isfinite(error), error, 1e3).mean())


def _remove_vehicle_restriction(policy: Policy, vehicle: Vehicle) -> Policy:
    """Return the policy with the trim of its training, without its restriction to one vehicle."""
    unrestricted = replace(policy, trim=policy.trim or policy_trim(vehicle), vehicle="")
    unrestricted.require_vehicle(vehicle)
    return unrestricted
