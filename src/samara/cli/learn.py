"""`samara learn`: train a policy for a task and a vehicle."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samara.cli.console import progress_bar, say
from samara.cli.options import Seed, Vehicle, argument, option, out_option

if TYPE_CHECKING:
    from samara.learn.optimizer import Progress


class Method(StrEnum):
    """Training method."""

    ANALYTIC = "analytic"
    PPO = "ppo"


class Activation(StrEnum):
    """Activation of hidden layers."""

    TANH = "tanh"
    RELU = "relu"


def learn(
    task: Annotated[str, argument("Task: a name, or a Python file with your task.")] = "hover",
    vehicle: Vehicle = "crazyflie",
    out: Annotated[Path, out_option("Folder for the policy.")] = Path("policy"),
    method: Annotated[
        Method | None, option("--method", "Analytic gradient of the flight, or PPO; default: analytic, for race ppo.")
    ] = None,
    seed: Seed = 0,
    sees: Annotated[str | None, option("--sees", "Observation to use instead of the task's, such as px4_nn.")] = None,
    activation: Annotated[
        Activation, option("--activation", "Activation of hidden layers; PX4 needs relu.")
    ] = Activation.TANH,
    drones: Annotated[int | None, option("--drones", "Number of drones in parallel.", min=1)] = None,
    updates: Annotated[int | None, option("--updates", "Number of gradient updates.", min=1)] = None,
) -> None:
    """Train a policy, evaluate it on 10,000 unseen initial states and save it. Resumes an interrupted run."""
    from samara.core.atomic_files import require_writable
    from samara.learn.env_config import setting_for
    from samara.learn.policies import require_flyable
    from samara.learn.training import default_method, save, train
    from samara.view.plot.controllers import learning_curve

    setting = setting_for(task, vehicle, sees=sees)
    require_flyable(setting)
    method_name = method.value if method is not None else default_method(setting.task.name)
    try:
        out.mkdir(parents=True, exist_ok=True)
        require_writable(out)
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror or error}; expected a writable folder") from None
    changes: dict[str, int | str] = {}
    changes |= {name: value for name, value in (("drones", drones), ("updates", updates)) if value is not None}
    if activation is Activation.RELU:
        if method_name != Method.ANALYTIC:
            raise ValueError(f"--activation {activation.value} with --method {method_name}; expected --method analytic")
        changes["activation"] = activation.value
    with _progress() as show:
        result = train(setting, out, method=method_name, seed=seed, progress=show, **changes)
    title = f"{setting.task.name} with {setting.craft.vehicle.name}, {method_name}, seed {seed}"

    def draw_curve(path: Path) -> None:
        learning_curve(result.curve, title).savefig(path, format="png")

    policy = save(setting, result, out, method=method_name, seed=seed, curve=draw_curve, activation=activation.value)
    evaluation = dict(policy.evaluation)
    say(f"trained in {result.seconds:.2f} s ({result.compile_seconds:.1f} s to compile), {len(result.curve)} updates")
    if isinstance(success := evaluation.get("success"), float):
        say(f"success {100 * success:.2f} % of {evaluation['flights']} unseen initial states")
    scenario = "hover" if setting.task.sight is None else "forest.toml"
    command = "race" if policy.observation == "race" else f"fly {scenario}"
    say(f"policy {out}\nfly    samara {command} --controller {out}")


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Show a bar with the reward; the bar stands still while the program is compiled."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<24}", markup=False), BarColumn(), TimeElapsedColumn())
    with progress_bar("compiling", *columns) as (_, update):
        yield lambda completed, updates, reward: update(
            completed, updates, description=f"training: reward {reward:.3f}"
        )
