"""From a task and a vehicle to a policy folder: learn, judge by starts that were not trained on, write."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from samara.compiler.jax.devices import has_gpu
from samara.control.policy_file import LayerKind, Policy, dense_tensors, mlp, save_policy
from samara.core.optional_dependencies import MissingExtraError
from samara.learn.episode import Setting
from samara.learn.hyperparameters import recipe_with
from samara.learn.judged import Judged
from samara.learn.training_result import Learner, Learnt, Progress, Weights

METHODS = ("analytic", "ppo")
CHUNKS = 20  # between which progress is told and a checkpoint is written
CHECKPOINT = "checkpoint.npz"
FLIGHTS = 10_000
WITH_PICTURES = {True: 4096, False: 256}  # flights, where there is a GPU to take them and where not


def require_flyable(setting: Setting) -> None:
    """ValueError where no controller could show a policy what the task shows it, or do what it commands"""
    task = setting.task
    if not task.sees:
        raise ValueError(
            f"task {task.name!r} shows what no controller sees, so its policy has no folder; learn it in Python with "
            "samara.learn.gradient_training, or let the task say SEES = 'full_state' where its observation is that"
        )
    if setting.history:
        raise ValueError(f"a policy folder is of one that sees no past actions; task {task.name!r} differs")


def learn(
    setting: Setting,
    folder: Path,
    *,
    method: str = "analytic",
    seed: int = 0,
    progress: Progress | None = None,
    **changes: Any,
) -> Learnt:
    """A trained policy; what was stopped before in the same folder goes on. `changes` are fields of the method's recipe"""
    learner, recipe = learner_for(setting, method, chunks=CHUNKS, **changes)
    from samara.learn.checkpoint import Checkpoint

    about = {"task": setting.task.name, "vehicle": setting.craft.vehicle.name, "method": method, "seed": seed}
    return learner(seed, progress, Checkpoint(folder / CHECKPOINT, {**about, **recipe._asdict()}))


def learner_for(
    setting: Setting, method: str = "analytic", *, chunks: int = 1, first: Weights | None = None, **changes: Any
) -> tuple[Learner, Any]:
    """What learns a setting here, compiled, and its recipe, with changes to that; "analytic" may go on from `first` weights

    "analytic" is JAX where that has a GPU or the policy is to remember, and machine code for the CPU where not; "ppo" is JAX.
    """
    if setting.task.practice is not None:
        setting = setting._replace(task=setting.task._replace(reset=setting.task.practice))
    if method not in METHODS:
        raise ValueError(f"method {method!r}: expected one of {', '.join(METHODS)}")
    remembers = recipe_with(setting.task.name, gpu=False).memory
    if method == "analytic" and not (has_gpu() or remembers):
        from samara.learn import analytic_lanes

        recipe = recipe_with(setting.task.name, gpu=False)._replace(**changes)
        return analytic_lanes.analytic(setting, recipe, chunks=chunks, first=first), recipe
    if find_spec("jax") is None:
        raise MissingExtraError(f"samara learn --method {method} needs JAX: pip install 'samara[jax]'")
    from samara.learn import gradient_training, ppo

    module: Any = {"analytic": gradient_training, "ppo": ppo}[method]
    own = module.recipe_for(setting.task.name)._replace(**changes)
    given = {"first": first} if method == "analytic" else {}
    return getattr(module, method)(setting, own, chunks=chunks, **given), own


def method_for(task: str) -> str:
    """How a task is learnt unless one chooses: by the gradient of the flight, but where only PPO was found to do"""
    return "ppo" if task.startswith("race_") else "analytic"


def layers_of(weights: Weights, activation: str = "tanh") -> tuple[tuple[LayerKind, ...], dict[str, Any]]:
    """What a policy folder has of them: the kinds of its layers, and their arrays by name"""
    if isinstance(weights, list):
        sizes = [np.shape(bias)[0] for _, bias in weights]
        return mlp(sizes[:-1], sizes[-1], activation), dense_tensors(weights)
    before = len(weights.first)
    kinds = (
        *(LayerKind("dense", np.shape(bias)[0], "relu") for _, bias in weights.first),
        LayerKind("gru", np.shape(weights.gru.initial)[0]),
        LayerKind("dense", np.shape(weights.last[1])[0], "linear"),
    )
    tensors = dense_tensors(weights.first)
    tensors |= {f"{before}.{name}": own for name, own in weights.gru._asdict().items()}
    tensors |= {f"{before + 1}.{name}": own for name, own in zip(("weight", "bias"), weights.last, strict=True)}
    return kinds, tensors


def _judged(setting: Setting, weights: Weights, activation: str) -> Judged:
    """In machine code; what remembers, in JAX, in which it was trained"""
    if isinstance(weights, list):
        from samara.learn.judge_lanes import judge

        return judge(setting, FLIGHTS, hidden=activation)(weights)
    from samara.learn import judge as of_jax
    from samara.learn.recurrent import recurrent_network

    network = recurrent_network((), np.shape(weights.gru.initial)[0])
    flights = FLIGHTS if setting.task.sight is None else WITH_PICTURES[has_gpu()]
    return of_jax.judge(setting, flights, network=network)(weights)


def keep(
    setting: Setting,
    learnt: Learnt,
    folder: Path,
    *,
    method: str,
    seed: int,
    curve: Callable[[Path], None] | None = None,
    activation: str = "tanh",
) -> Policy:
    """Judges a policy and writes its folder; the checkpoint is done with"""
    kinds, tensors = layers_of(learnt.weights, activation)
    evaluation: dict[str, str | float] = {
        "method": method,
        "seed": seed,
        "updates": len(learnt.curve),
        "seconds": round(learnt.seconds, 3),
        "reward": float(np.asarray(learnt.curve)[-1]),
    }
    if setting.task.success is not None:
        judged = _judged(setting, learnt.weights, activation)
        evaluation |= {"flights": judged.flights, "success": judged.success}
    policy = save_policy(
        folder,
        setting.craft.nominal,
        kinds,
        tensors,
        task=setting.task.name,
        observation=setting.task.sees,
        action=setting.task.action,
        period=setting.task.period,
        bounds=setting.task.bounds,
        for_any=setting.task.action == "throttle",
        evaluation=evaluation,
        versions={"numpy": np.__version__},
        curve=curve,
    )
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return policy
