"""`samara train`: train a policy for a task and a vehicle."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import command_text, progress_bar, say
from samara.cli.options import Seed, Vehicle, argument, option, out_option

if TYPE_CHECKING:
    from samara.learn.env_config import TaskChanges
    from samara.learn.optimizer import ProgressCallback


class Method(StrEnum):
    """Training method."""

    ANALYTIC = "analytic"
    PPO = "ppo"


class Activation(StrEnum):
    """Activation of hidden layers."""

    TANH = "tanh"
    RELU = "relu"


def train(
    task: Annotated[
        str, argument("Task: a shipped name such as hover, track or race, or a Python file with your task.")
    ] = "hover",
    vehicle: Vehicle = "crazyflie",
    out: Annotated[Path, out_option("Folder for the policy.")] = Path("policy"),
    method: Annotated[
        Method | None,
        option("--method", "Analytic gradient through the flight, or PPO; default: analytic; ppo for the task race."),
    ] = None,
    seed: Seed = 0,
    observation: Annotated[
        str | None, option("--observation", "Observation of the policy, such as px4_nn; default: the task's.")
    ] = None,
    activation: Annotated[
        Activation, option("--activation", "Activation of hidden layers; PX4 needs relu.")
    ] = Activation.TANH,
    drones: Annotated[int | None, option("--drones", "Number of drones in parallel.", min=1)] = None,
    updates: Annotated[int | None, option("--updates", "Number of gradient updates.", min=1)] = None,
    rate: Annotated[float | None, option("--rate", "Learning rate of the first update.", min=0.0)] = None,
    seconds: Annotated[
        float | None, option("--seconds", "Length of an episode in the evaluation [s]; default: the task's.")
    ] = None,
    substeps: Annotated[int | None, option("--substeps", "Physics steps per action.", min=1)] = None,
    min_success: Annotated[
        float,
        option("--min-success", "Fraction of successful flights that is needed for exit status 0.", min=0.0, max=1.0),
    ] = 0.9,
) -> None:
    """Train a policy, evaluate it on 10,000 unseen initial states and save it. Exits with status 1 if the evaluation
    fails. Resumes an interrupted run."""
    from samara.core.atomic_files import require_writable
    from samara.learn.env_config import configure_environment
    from samara.learn.policies import require_flyable
    from samara.learn.training import EXPECTED_SUCCESS, default_method, hyperparameters, save, suggest_changes
    from samara.learn.training import train as train_policy
    from samara.view.plot.controllers import learning_curve

    task_changes: TaskChanges = {}
    if seconds is not None:
        task_changes["seconds"] = seconds
    if substeps is not None:
        task_changes["substeps"] = substeps
    setting = configure_environment(task, vehicle, observation_name=observation, **task_changes)
    require_flyable(setting)
    method_name = method.value if method is not None else default_method(setting.task.name)
    try:
        out.mkdir(parents=True, exist_ok=True)
        require_writable(out)
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror or error}; expected a writable folder") from None
    changes: dict[str, float | str] = {}
    changes |= {
        name: value for name, value in (("drones", drones), ("updates", updates), ("rate", rate)) if value is not None
    }
    if activation is Activation.RELU:
        if method_name != Method.ANALYTIC:
            raise ValueError(f"--activation {activation.value} with --method {method_name}; expected --method analytic")
        changes["activation"] = activation.value
    with _progress() as show:
        result = train_policy(setting, out, method=method_name, seed=seed, progress=show, **changes)
    title = f"{setting.task.name} with {setting.drone.vehicle.name}, {method_name}, seed {seed}"

    def draw_curve(path: Path) -> None:
        learning_curve(result.curve, title).savefig(path, format="png")

    policy = save(setting, result, out, method=method_name, seed=seed, curve=draw_curve, activation=activation.value)
    evaluation = dict(policy.evaluation)
    say(f"trained in {result.seconds:.2f} s ({result.compile_seconds:.1f} s to compile), {len(result.curve)} updates")
    success_rate = evaluation.get("success_rate")
    if isinstance(success_rate, float):
        say(f"success {100 * success_rate:.2f} % of {evaluation['episodes']} unseen initial states")
        if (
            success_rate < EXPECTED_SUCCESS
            and method_name == Method.ANALYTIC
            and setting.task.depth_observation is None
        ):
            given = {
                **{"--vehicle": vehicle, "--method": method and method.value, "--seed": seed or None},
                **{"--observation": observation, "--drones": drones, "--seconds": seconds, "--substeps": substeps},
                **{"--activation": activation.value if activation is Activation.RELU else None, "--out": out},
            }
            options = given | suggest_changes(setting, policy, hyperparameters(setting, method_name, **changes))
            option_words = [word for name, value in options.items() if value is not None for word in (name, value)]
            say(f"try    {command_text('train', task, *option_words)}")
    else:
        say(f"not evaluated: the task {setting.task.name} has no function `success`")
    say(f"policy {out}")
    if isinstance(success_rate, float) and success_rate < min_success:
        say(f"failed: fewer than {100 * min_success:g} % of the flights succeed; do not fly this policy")
        raise typer.Exit(1)
    scenario = "hover" if setting.task.depth_observation is None else "forest.toml"
    words = ("race",) if policy.observation == "race" else ("fly", scenario)
    say(f"fly    {command_text(*words, '--controller', out)}")


@contextmanager
def _progress() -> "Iterator[ProgressCallback]":
    """Show a bar with the reward; the bar stands still while the program is compiled."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}", markup=False), BarColumn(), TimeElapsedColumn())
    with progress_bar("compiling", *columns) as (_, update):
        yield lambda completed, updates, reward: update(
            completed, updates, description=f"training: reward {reward:.3f}"
        )
