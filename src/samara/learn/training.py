"""From a task and a vehicle to a policy folder: learn, judge by starts that were not trained on, write."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from samara.backends.gpu import has_gpu
from samara.control.policy_file import Policy, mlp, save_policy
from samara.core.extras import MissingExtraError
from samara.learn.episode import Setting
from samara.learn.learnt import Learner, Learnt, Progress, Weights
from samara.learn.recipe import recipe_with

METHODS = ("analytic", "ppo")
CHUNKS = 20  # between which progress is told and a checkpoint is written
CHECKPOINT = "checkpoint.npz"
FLIGHTS = 10_000


def require_flyable(setting: Setting) -> None:
    """ValueError where no controller could show a policy what the task shows it, or do what it commands"""
    task = setting.task
    if not task.sees:
        raise ValueError(
            f"task {task.name!r} shows what no controller sees, so its policy has no folder; learn it in Python with "
            "samara.learn.analytic, or let the task say SEES = 'full_state' where its observation is that"
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
    """A policy learnt; what was stopped before in the same folder goes on. `changes` are fields of the method's recipe"""
    learner, recipe = learner_for(setting, method, chunks=CHUNKS, **changes)
    from samara.learn.checkpoint import Checkpoint

    about = {"task": setting.task.name, "vehicle": setting.craft.vehicle.name, "method": method, "seed": seed}
    return learner(seed, progress, Checkpoint(folder / CHECKPOINT, {**about, **recipe._asdict()}))


def learner_for(
    setting: Setting, method: str = "analytic", *, chunks: int = 1, first: Weights | None = None, **changes: Any
) -> tuple[Learner, Any]:
    """What learns a setting here, compiled, and its recipe, with changes to that; "analytic" may go on from `first` weights

    "analytic" is JAX where that has a GPU, and machine code for the CPU where not; "ppo" is JAX.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: expected one of {', '.join(METHODS)}")
    if method == "analytic" and not has_gpu():
        from samara.learn import analytic_lanes

        recipe = recipe_with(setting.task.name, gpu=False)._replace(**changes)
        return analytic_lanes.analytic(setting, recipe, chunks=chunks, first=first), recipe
    if find_spec("jax") is None:
        raise MissingExtraError(f"samara learn --method {method} needs JAX: pip install 'samara[jax]'")
    from samara.learn import analytic, ppo

    module: Any = {"analytic": analytic, "ppo": ppo}[method]
    own = module.recipe_for(setting.task.name)._replace(**changes)
    given = {"first": first} if method == "analytic" else {}
    return getattr(module, method)(setting, own, chunks=chunks, **given), own


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
    from samara.learn.judge_lanes import judge

    layers = [np.asarray(bias).shape[0] for _, bias in learnt.weights]
    tensors: dict[str, Any] = {}
    for k, (matrix, bias) in enumerate(learnt.weights):
        tensors |= {f"{k}.weight": np.asarray(matrix), f"{k}.bias": np.asarray(bias)}
    evaluation: dict[str, str | float] = {
        "method": method,
        "seed": seed,
        "updates": len(learnt.curve),
        "seconds": round(learnt.seconds, 3),
        "reward": float(np.asarray(learnt.curve)[-1]),
    }
    if setting.task.success is not None:
        judged = judge(setting, FLIGHTS, hidden=activation)(learnt.weights)
        evaluation |= {"flights": judged.flights, "success": judged.success}
    policy = save_policy(
        folder,
        setting.craft.nominal,
        mlp(layers[:-1], layers[-1], activation),
        tensors,
        task=setting.task.name,
        observation=setting.task.sees,
        action=setting.task.action,
        period=setting.task.period,
        evaluation=evaluation,
        versions={"numpy": np.__version__},
        curve=curve,
    )
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return policy
