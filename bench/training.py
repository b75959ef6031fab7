"""Train hover and recover on every quadrotor of `tests/support/quadrotors.py` with the default recipe.

    PYTHONPATH=src python bench/training.py [TASK ...]    writes bench/results/training.json

`success_fraction` is that of 10,000 unseen initial states, `seconds` the wall time of the training without compilation, `batch`
the number of drones in parallel. Where fewer than 99 % succeed, `success_fraction_twice_the_time` is the fraction of the same
policy in flights of `seconds_twice_the_time`, which `samara train` suggests if it is 99 % or more.
"""

import json
import sys
import time
from pathlib import Path

from timing import describe_results

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.quadrotors import QUADROTORS, quadrotor

from samara.core.atomic_files import write_text
from samara.learn import build_trainer, configure_environment, evaluator
from samara.learn.training import EXPECTED_SUCCESS
from samara.vehicles import thrust_to_weight

RESULT = Path(__file__).resolve().parent / "results" / "training.json"


def training_row(task: str, name: str) -> dict[str, float | str]:
    """Train one policy and evaluate it."""
    vehicle = quadrotor(name)
    setting = configure_environment(task, vehicle)
    trainer, parameters = build_trainer(setting)
    result = trainer(0)
    row: dict[str, float | str] = {
        "row": f"{task} {name}",
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


def main(tasks: list[str]) -> None:
    """Measure all rows of the tasks, and keep the stored rows of the others."""
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"] if RESULT.exists() else []
    rows = [row for row in rows if row["row"].split()[0] not in tasks]
    for task in tasks:
        for name in QUADROTORS:
            rows.append(training_row(task, name))
            print(time.strftime("%H:%M:%S"), rows[-1], flush=True)
            document = {**describe_results("bench/training.py: every quadrotor"), "rows": rows}
            write_text(RESULT, json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ["hover", "recover"])
