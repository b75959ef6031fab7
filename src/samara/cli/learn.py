"""`samara learn`: a task and a vehicle become a policy that flies."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say
from samara.cli.interrupts import interrupts

if TYPE_CHECKING:
    from samara.learn.training_result import Progress


class Method(StrEnum):
    """How to learn"""

    ANALYTIC = "analytic"
    PPO = "ppo"


class Activation(StrEnum):
    """Of hidden layers"""

    TANH = "tanh"
    RELU = "relu"


def learn(
    task: Annotated[str, typer.Argument(help="A task by name, or your own as a Python file.")] = "hover",
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "crazyflie",
    out: Annotated[Path, typer.Option("--out", "-o", help="The policy's folder.")] = Path("policy"),
    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            help="The gradient of the flight itself, or PPO; PPO for race by default, the gradient otherwise.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of everything that is drawn.")] = 0,
    sees: Annotated[
        str | None, typer.Option("--sees", help="Another observation than the task's, such as px4_nn.")
    ] = None,
    activation: Annotated[
        Activation, typer.Option("--activation", help="Of hidden layers; relu is what PX4's mc_nn_control computes.")
    ] = Activation.TANH,
    drones: Annotated[int | None, typer.Option("--drones", min=1, help="How many fly at once.")] = None,
    updates: Annotated[int | None, typer.Option("--updates", min=1, help="How often the weights change.")] = None,
) -> None:
    """Learn a policy, judge it by 10 000 starts it has not seen, and write its folder. What was stopped goes on."""
    from samara.core.atomic_files import require_writable
    from samara.learn.env_config import setting_for
    from samara.learn.training import keep, method_for, require_flyable
    from samara.learn.training import learn as learnt_by
    from samara.view.plot.controllers import learning_curve

    setting = setting_for(task, vehicle, sees=sees)
    require_flyable(setting)
    by = method.value if method is not None else method_for(setting.task.name)
    try:
        out.mkdir(parents=True, exist_ok=True)
        require_writable(out)
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror or error}; expected a folder that can be written to") from None
    changes: dict[str, Any] = {
        name: value for name, value in (("drones", drones), ("updates", updates)) if value is not None
    }
    if activation is Activation.RELU:
        if by != Method.ANALYTIC:
            raise ValueError(f"--activation {activation.value} with --method {by}; expected analytic for it")
        changes["activation"] = activation.value
    with _progress() as tell:
        learnt = learnt_by(setting, out, method=by, seed=seed, progress=tell, **changes)
    title = f"{setting.task.name} with {setting.craft.vehicle.name}, {by}, seed {seed}"

    def draw(path: Path) -> None:
        learning_curve(learnt.curve, title).savefig(path, format="png")

    policy = keep(setting, learnt, out, method=by, seed=seed, curve=draw, activation=activation.value)
    told = dict(policy.evaluation)
    say(f"learnt in {learnt.seconds:.2f} s ({learnt.compile_seconds:.1f} s to compile), {len(learnt.curve)} updates")
    if "success" in told:
        say(f"success {100 * told['success']:.2f} % of {told['flights']} starts that it has not seen")
    scene = "hover" if setting.task.sight is None else "forest.toml"
    flown = "race" if policy.observation == "race" else f"fly {scene}"
    say(f"policy {out}\nfly    samara {flown} --controller {out}")


@contextmanager
def _progress() -> "Iterator[Progress]":
    """A bar with the reward; before it moves, the program is being compiled"""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}", markup=False), BarColumn(), TimeElapsedColumn())
    with interrupts() as asked, Progress(*columns, console=console()) as bar:
        task = bar.add_task("compiling", total=None)

        def tell(done: int, updates: int, reward: float) -> None:
            asked.check()
            bar.update(task, completed=done, total=updates, description=f"learning: reward {reward:.3f}")

        yield tell
