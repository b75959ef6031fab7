"""From a task and a vehicle to a policy folder: train, evaluate on unseen initial states, save."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from samara.compiler.jax import has_gpu
from samara.control.policy_file import Policy
from samara.core.extras import missing_extra
from samara.learn.env_config import EnvironmentSetting
from samara.learn.evaluation import FLIGHTS, evaluator
from samara.learn.gradient_training import default_hyperparameters, gradient_trainer
from samara.learn.optimizer import Checkpoint, ProgressCallback, Trainer, TrainingResult
from samara.learn.policies import TANH, RecurrentWeights, Weights, policy_weights, save_trained_policy
from samara.learn.vehicle_scaling import slowness

METHODS = ("analytic", "ppo")
EXPECTED_SUCCESS = 0.99  # fraction of evaluation flights: with fewer, other hyperparameters are suggested
CHUNKS = 20  # progress is reported and a checkpoint written after each
CHECKPOINT = "checkpoint.npz"
FLIGHTS_WITH_IMAGES = {True: 4096, False: 256}  # evaluation flights with a GPU to render images, and without


def train(
    setting: EnvironmentSetting,
    folder: Path,
    *,
    method: str = "analytic",
    seed: int = 0,
    progress: ProgressCallback | None = None,
    **changes: Any,
) -> TrainingResult:
    """Train a policy, or resume the interrupted run in the same folder.

    Args:
        setting: task and vehicle.
        folder: folder of the policy; contains the checkpoint during training.
        method: "analytic" or "ppo".
        seed: seed of all random numbers.
        progress: called after each chunk of updates.
        changes: hyperparameters that differ from the defaults of the task.
    """
    trainer, parameters = build_trainer(setting, method, chunks=CHUNKS, **changes)
    run_description = {"task": setting.task.name, "vehicle": setting.drone.vehicle.name, "method": method, "seed": seed}
    return trainer(seed, progress, Checkpoint(folder / CHECKPOINT, {**run_description, **parameters._asdict()}))


def build_trainer(
    setting: EnvironmentSetting,
    method: str = "analytic",
    *,
    chunks: int = 1,
    first: Weights | None = None,
    **changes: Any,
) -> tuple[Trainer, Any]:
    """Compile the trainer of a setting for this machine; return it with its hyperparameters.

    Args:
        setting: task and vehicle.
        method: "analytic" trains by the gradient of the flight, in JAX if there is a GPU or the policy is recurrent, otherwise
            on all cores of the CPU. "ppo" needs JAX.
        chunks: count of chunks of updates; progress is reported after each.
        first: initial weights ("analytic" only); default: random.
        changes: hyperparameters that differ from the defaults of the task.
    """
    if setting.task.practice is not None:
        setting = setting._replace(task=setting.task._replace(reset=setting.task.practice))
    parameters = hyperparameters(setting, method, **changes)
    task = setting.task.name
    in_jax = method == "ppo" or has_gpu() or default_hyperparameters(task, gpu=False).recurrent_units > 0
    if in_jax and find_spec("jax") is None:
        raise missing_extra(f"samara train --method {method}", "JAX", "jax")
    if method == "ppo":
        from samara.learn.jax import ppo

        return ppo.ppo_trainer(setting, parameters, chunks=chunks), parameters
    backend = "jax" if in_jax else "cpu"
    return gradient_trainer(setting, parameters, chunks=chunks, first=first, backend=backend), parameters


def hyperparameters(setting: EnvironmentSetting, method: str, **changes: Any) -> Any:
    """Return the hyperparameters of a setting on this machine, with some changes."""
    task = setting.task.name
    if method not in METHODS:
        raise ValueError(f"method {method!r}: expected one of {', '.join(METHODS)}")
    if method == "analytic":
        return default_hyperparameters(task, has_gpu(), slowness(setting.drone))._replace(**changes)
    if find_spec("jax") is None:
        raise missing_extra(f"samara train --method {method}", "JAX", "jax")
    from samara.learn.jax import ppo

    return ppo.default_hyperparameters(task)._replace(**changes)


def default_method(task: str) -> str:
    """Return the default training method of a task: PPO for `race`, the gradient of the flight for the others."""
    return "ppo" if task.startswith("race_") else "analytic"


def suggest_changes(
    setting: EnvironmentSetting, policy: Policy, parameters: Any, flights: int = 2000
) -> dict[str, str]:
    """Return options of `samara train`, with their values, for a policy that succeeds too rarely.

    An episode of twice the time, if that suffices; more training, if it does not; both, if it halves the failures.
    """
    seconds = 2.0 * setting.task.seconds
    weights, activation = policy_weights(policy)
    success, success_later = (
        evaluator(setting._replace(task=setting.task._replace(seconds=time)), flights, activation=activation)(
            weights
        ).success
        for time in (setting.task.seconds, seconds)
    )
    more_time = {"--seconds": f"{seconds:g}"}
    more_training = {"--updates": f"{2 * parameters.updates}", "--rate": f"{0.5 * parameters.rate:g}"}
    if success_later >= EXPECTED_SUCCESS:
        return more_time
    return more_time | more_training if 1.0 - success_later < 0.5 * (1.0 - success) else more_training


def save(
    setting: EnvironmentSetting,
    result: TrainingResult,
    folder: Path,
    *,
    method: str,
    seed: int,
    curve: Callable[[Path], None] | None = None,
    activation: str = TANH,
) -> Policy:
    """Evaluate a policy on unseen initial states, write its folder and delete the checkpoint."""
    evaluation: dict[str, str | float] = {
        "method": method,
        "seed": seed,
        "updates": len(result.curve),
        "training_time": round(result.seconds, 3),
        "reward": float(result.curve[-1]),
    }
    if setting.task.success is not None:
        flights = FLIGHTS if setting.task.depth_observation is None else FLIGHTS_WITH_IMAGES[has_gpu()]
        backend = "jax" if isinstance(result.weights, RecurrentWeights) else "cpu"
        outcome = evaluator(setting, flights, activation=activation, backend=backend)(result.weights)
        evaluation |= {"episodes": outcome.flights, "success_rate": outcome.success}
    policy = save_trained_policy(folder, setting, result.weights, evaluation, activation, curve)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return policy
