"""Measure what README and the first pages show: a step in Python, a compiled step, a rollout, an environment, training hover.

    PYTHONPATH=src python bench/front_page.py     writes bench/results/front_page.json

The vehicle is `crazyflie_documented` with its default effects, a metre above the ground, RK4 at 1 kHz. Each row is the best of
several runs, because other load on the machine only adds time.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import DRONES
from environments import samara as vector_env
from timing import best, describe_results

import samara
from samara.core.atomic_files import write_text

RESULT = Path(__file__).resolve().parent / "results" / "front_page.json"
DT = 1e-3
TRAINING_RUNS = 3


def step_rows() -> list[dict[str, float | str]]:
    """Measure `samara.step`, `sim.step`, `sim.rollout` and `sim.step_into` as README writes them."""
    vehicle = samara.vehicle("crazyflie_documented")
    state, command = samara.hover(vehicle)
    state = state._replace(p_W=samara.Vec3(0.0, 0.0, 1.0))
    sim = samara.compile(vehicle)
    many = [command] * 10_000
    buffer = state.to_numpy()
    sim.step(state, command, DT), sim.rollout(state, many, DT), sim.step_into(buffer, command, DT, steps=10)  # compile

    def repeat(count: int, step: object, *arguments: object) -> float:
        def call() -> None:
            for _ in range(count):
                step(*arguments)  # type: ignore[operator]

        return best(call, 15) / count

    seconds = {
        "samara.step": repeat(50, samara.step, state, command, vehicle, DT),
        "sim.step": repeat(2000, sim.step, state, command, DT),
        "sim.rollout": best(lambda: sim.rollout(state, many, DT), 15) / len(many),
        "sim.step_into, 10,000 steps a call": best(lambda: sim.step_into(buffer, command, DT, steps=10_000), 15)
        / 10_000,
    }
    return [{"row": name, "steps_per_s": 1.0 / time_, "us_per_step": 1e6 * time_} for name, time_ in seconds.items()]


def training_row() -> dict[str, float | str]:
    """Measure `samara train hover` from its start to its evaluated policy folder."""
    seconds = []
    for _ in range(TRAINING_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "samara_command", "train", "hover", "--out", f"{folder}/policy"]
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - begin)
    return {"row": "samara train hover, with evaluation", "seconds": min(seconds)}


if __name__ == "__main__":
    rows = [*step_rows(), {"row": f"VectorEnv, {DRONES} drones", "steps_per_s": vector_env()}, training_row()]
    document = {**describe_results("bench/front_page.py: the code of the first pages"), "rows": rows}
    write_text(RESULT, json.dumps(document, indent=2) + "\n")
    print(json.dumps(rows, indent=2))
