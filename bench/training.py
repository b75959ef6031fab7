"""Train tasks with the default recipe: on every quadrotor of `tests/support/quadrotors.py`, or on the named vehicles.

    PYTHONPATH=src python bench/training.py hover recover      every quadrotor: bench/results/training.json
    PYTHONPATH=src python3 bench/training.py hover recover track --vehicle crazyflie --method analytic ppo --out FILE

`success_fraction` is that of 10,000 unseen initial states, `seconds` the wall time of the training without compilation, `batch`
the number of drones in parallel. Where fewer than 99 % succeed, `success_fraction_twice_the_time` is the fraction of the same
policy in flights of `seconds_twice_the_time`, which `samara train` suggests if it is 99 % or more. Other rows of the
file stay.
"""

import argparse
import json
import sys
import time
from itertools import product
from pathlib import Path

from timing import describe_results

import samara
from samara.compiler.jax import has_gpu
from samara.core.atomic_files import write_text
from samara.learn import build_trainer, configure_environment, evaluator
from samara.learn.training import EXPECTED_SUCCESS, METHODS
from samara.physics.types import Vehicle
from samara.vehicles import thrust_to_weight

RESULT = Path(__file__).resolve().parent / "results" / "training.json"


def all_quadrotors() -> dict[str, Vehicle]:
    """Return the quadrotors of the tests by name: shipped, imported and from parts."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.quadrotors import QUADROTORS, quadrotor

    return {name: quadrotor(name) for name in QUADROTORS}


def training_row(task: str, name: str, vehicle: Vehicle, method: str) -> dict[str, float | str]:
    """Train one policy and evaluate it."""
    setting = configure_environment(task, vehicle)
    trainer, parameters = build_trainer(setting, method)
    result = trainer(0)
    row: dict[str, float | str] = {
        "row": f"{task} {name}" if method == METHODS[0] else f"{task} {name}, {method}",
        "success_fraction": evaluator(setting)(result.weights).success,
        "seconds": result.seconds,
        "batch": parameters.drones,
        "updates": parameters.updates,
        "thrust_to_weight": thrust_to_weight(vehicle),
    }
    if float(row["success_fraction"]) < EXPECTED_SUCCESS:
        seconds = 2.0 * setting.task.seconds
        slower = setting._replace(task=setting.task._replace(seconds=seconds))
        row |= {
            "seconds_twice_the_time": seconds,
            "success_fraction_twice_the_time": evaluator(slower)(result.weights).success,
        }
    return row


def main() -> None:
    """Measure every combination, and keep the other rows of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("--vehicle", nargs="+", metavar="NAME", help="shipped vehicles; default: every quadrotor")
    parser.add_argument("--method", nargs="+", choices=METHODS, default=[METHODS[0]])
    parser.add_argument("--out", type=Path, default=RESULT, help="write the rows here as JSON, after every row")
    args = parser.parse_args()
    vehicles = {name: samara.vehicle(name) for name in args.vehicle} if args.vehicle else all_quadrotors()
    machine = device_name() if has_gpu() else ""
    rows = json.loads(args.out.read_text(encoding="utf-8"))["rows"] if args.out.exists() else []
    for method, task, name in product(args.method, args.tasks, vehicles):
        row = training_row(task, name, vehicles[name], method)
        rows = [*(other for other in rows if other["row"] != row["row"]), row]
        print(time.strftime("%H:%M:%S"), row, flush=True)
        document = {**describe_results("bench/training.py: training by the default recipe", machine), "rows": rows}
        write_text(args.out, json.dumps(document, indent=2) + "\n")


def device_name() -> str:
    """Return the name of JAX's first device, such as "NVIDIA H200"."""
    import jax

    return str(jax.devices()[0].device_kind)


if __name__ == "__main__":
    main()
