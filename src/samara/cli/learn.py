"""`samara learn`: train a policy for a task and a vehicle."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import console, say
from samara.cli.interrupts import interrupts

if TYPE_CHECKING:
    from samara.learn.optimizer import Progress


class Method(StrEnum):
    """Training methods"""

    ANALYTIC = "analytic"
    PPO = "ppo"


class Activation(StrEnum):
    """Activations of hidden layers"""

    TANH = "tanh"
    RELU = "relu"


def learn(
    task: Annotated[str, typer.Argument(help="A task by name, or your own as a Python file.")] = "hover",
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "crazyflie",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the policy to.")] = Path("policy"),
    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            help="Train by the gradient of the flight (analytic) or by PPO; the default is ppo for race, else analytic.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of all random numbers.")] = 0,
    sees: Annotated[
        str | None, typer.Option("--sees", help="Observe this instead of the task's observation, such as px4_nn.")
    ] = None,
    activation: Annotated[
        Activation, typer.Option("--activation", help="Activation of hidden layers; PX4's mc_nn_control computes relu.")
    ] = Activation.TANH,
    drones: Annotated[int | None, typer.Option("--drones", min=1, help="Number of drones that fly at once.")] = None,
    updates: Annotated[int | None, typer.Option("--updates", min=1, help="Number of gradient updates.")] = None,
) -> None:
    """Train a policy, evaluate it on 10,000 unseen initial states and save it. Resumes an interrupted run."""
    from samara.core.atomic_files import require_writable
    from samara.learn.env_config import setting_for
    from samara.learn.policies import require_flyable
    from samara.learn.training import default_method, save, train
    from samara.view.plot.controllers import learning_curve

    setting = setting_for(task, vehicle, sees=sees)
    require_flyable(setting)
    by = method.value if method is not None else default_method(setting.task.name)
    try:
        out.mkdir(parents=True, exist_ok=True)
        require_writable(out)
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror or error}; expected a folder that can be written to") from None
    requested = {"drones": drones, "updates": updates}
    changes: dict[str, int | str] = {name: value for name, value in requested.items() if value is not None}
    if activation is Activation.RELU:
        if by != Method.ANALYTIC:
            raise ValueError(f"--activation {activation.value} with --method {by}; expected analytic for it")
        changes["activation"] = activation.value
    with _progress() as report:
        result = train(setting, out, method=by, seed=seed, progress=report, **changes)
    title = f"{setting.task.name} with {setting.craft.vehicle.name}, {by}, seed {seed}"

    def draw(path: Path) -> None:
        learning_curve(result.curve, title).savefig(path, format="png")

    policy = save(setting, result, out, method=by, seed=seed, curve=draw, activation=activation.value)
    evaluation = dict(policy.evaluation)
    say(f"trained in {result.seconds:.2f} s ({result.compile_seconds:.1f} s to compile), {len(result.curve)} updates")
    if "success" in evaluation:
        say(f"success {100 * evaluation['success']:.2f} % of {evaluation['flights']} unseen initial states")
    scene = "hover" if setting.task.sight is None else "forest.toml"
    flown = "race" if policy.observation == "race" else f"fly {scene}"
    say(f"policy {out}\nfly    samara {flown} --controller {out}")


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Show a progress bar with the reward, after compilation"""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}", markup=False), BarColumn(), TimeElapsedColumn())
    with interrupts() as interrupt, Progress(*columns, console=console()) as bar:
        task = bar.add_task("compiling", total=None)

        def report(done: int, updates: int, reward: float) -> None:
            interrupt.check()
            bar.update(task, completed=done, total=updates, description=f"training: reward {reward:.3f}")

        yield report
