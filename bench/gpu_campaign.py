"""A million flights of a campaign on a GPU, from its rows to its files: what each part takes, and all of it.

    PYTHONPATH=src python3 bench/gpu_campaign.py --out bench/results/gpu_campaign.json

Twenty seconds of a Crazyflie in Dryden's wind by `geometric`, ten numbers of each flight its own; the scenario and the campaign
are files, as for `samara sweep`. Needs NumPy, SciPy and JAX. Where pyarrow is there rows are written as Parquet, else as .npy
files; where CasADi and llvmlite are there what fails is flown again on LLVM, else it is counted. Flown twice: `compile` is what
the first time took longer. `--flights 4096 --duration 0.5 --backend jax` is for a look without a GPU.
"""

import argparse
import json
import platform
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from campaign_files import campaign_in

import samara
from samara.campaigns.batch import Columns, Flying
from samara.campaigns.gpu_confirmation import failures_confirmed, on_devices
from samara.campaigns.outcome import PASS
from samara.campaigns.samples import Block
from samara.campaigns.store import store_for
from samara.campaigns.sweep import BATCH_ON_GPU

TENTH = "yaw = { normal = [0.0, 0.1] }"
LLVM = all(find_spec(own) for own in ("casadi", "llvmlite"))
PARQUET = bool(find_spec("pyarrow"))


def campaign(flying: Flying, folder: Path, batch: int, backend: str) -> dict[str, Any]:
    """Every part on its own, one batch after the other  [s]; then what came of them"""
    own, seconds = flying.campaign, dict.fromkeys(("sample", "fly", "judge", "fly again", "write"), 0.0)
    failed, began = 0, time.perf_counter()
    store = store_for(own, "", folder)
    for first in range(0, own.flights, batch):
        numbers = np.arange(first, min(first + batch, own.flights))
        marks = [time.perf_counter()]
        rows = flying.rows(numbers, Block(0, 0, own.flights))
        marks.append(time.perf_counter())
        flown: list[float] = []

        def told(some: Any, flown: list[float] = flown) -> Columns:
            flights = flying.fly(some, backend=backend)
            flown.append(time.perf_counter())
            return flying.evaluated(some, flights)

        columns = on_devices(told, rows)
        marks += [max(flown), time.perf_counter()]
        failed += int(np.count_nonzero(columns["outcome"] != PASS))
        if LLVM:
            columns = failures_confirmed(columns, rows, flying.told)
        marks.append(time.perf_counter())
        if PARQUET:
            store.write(numbers, columns)
        else:
            np.save(folder / f"{first}.npy", np.array([own for own in columns.values() if own.dtype.kind == "f"]))
        marks.append(time.perf_counter())
        for name, took in zip(seconds, np.diff(marks), strict=True):
            seconds[name] += float(took)
    return {"total": time.perf_counter() - began, **seconds, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON")
    parser.add_argument("--flights", type=int, default=1 << 20)
    parser.add_argument("--batch", type=int, default=BATCH_ON_GPU)
    parser.add_argument("--duration", type=float, default=20.0, help="of a flight [s]")
    parser.add_argument("--backend", default="pallas", choices=("pallas", "jax"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        flown = campaign_in(folder, options.flights, tenth=TENTH, max_error=3.0, duration=options.duration)
        flying = Flying.of(flown)
        first, again = (campaign(flying, folder / turn, options.batch, options.backend) for turn in ("first", "again"))
    found = {
        "device": str(jax.devices()[0].device_kind),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "samara": samara.__version__,
        "flights": options.flights,
        "written as": "Parquet" if PARQUET else ".npy",
        "failures flown again on LLVM": LLVM,
        "seconds": again,
        "compile": first["total"] - again["total"],
    }
    text = json.dumps(found, indent=1)
    print(text)
    again_s = ", ".join(f"{name} {own:.2f}" for name, own in again.items() if name not in ("total", "failed"))
    print(f"total {again['total']:.2f} s after compiling ({found['compile']:.1f} s): {again_s}")
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
