"""Measure a campaign of a million flights on a GPU, from its rows to its files: the time of each part and of all.

    PYTHONPATH=src python3 bench/gpu_campaign.py --out bench/results/gpu_campaign.json

Twenty seconds of a Crazyflie in Dryden wind with `geometric`, ten parameters varied per flight; the scenario and the campaign
are files, as for `samara sweep`. Needs NumPy, SciPy and JAX. With pyarrow, rows are written as Parquet, else as .npy files.
With the core dependencies, failures are flown again on LLVM, else they are only counted. The campaign runs twice; `compile`
is the extra time of the first run. `--flights 4096 --duration 0.5 --backend jax` runs a small test without a GPU.
"""

import argparse
import json
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
from campaign_files import write_campaign
from timing import describe_results

import samara
from samara.campaigns.batch import CampaignFlights, Columns
from samara.campaigns.gpu_confirmation import confirm_failures, fly_across_devices
from samara.campaigns.outcome import PASS
from samara.campaigns.samples import RowRange
from samara.campaigns.store import open_or_create_store
from samara.campaigns.sweep import GPU_BATCH_ROWS

TENTH = "yaw = { normal = [0.0, 0.1] }"
LLVM = all(find_spec(module) for module in ("llvmlite", "mcap", "foxglove_schemas_protobuf"))
PARQUET = bool(find_spec("pyarrow"))


def campaign(campaign_flights: CampaignFlights, folder: Path, batch: int, backend: str) -> dict[str, Any]:
    """Run a campaign batch by batch; return the seconds of each part, the total and the failure count."""
    campaign_file, seconds = (
        campaign_flights.campaign,
        dict.fromkeys(("sample", "fly", "judge", "fly again", "write"), 0.0),
    )
    failed, begin = 0, time.perf_counter()
    store = open_or_create_store(campaign_file, "", folder)
    for first in range(0, campaign_file.flights, batch):
        numbers = np.arange(first, min(first + batch, campaign_file.flights))
        marks = [time.perf_counter()]
        rows = campaign_flights.rows(numbers, RowRange(0, 0, campaign_file.flights))
        marks.append(time.perf_counter())
        end_times: list[float] = []

        def fly_rows(device_rows: Any, end_times: list[float] = end_times) -> Columns:
            flights = campaign_flights.fly(device_rows, backend=backend)
            end_times.append(time.perf_counter())
            return campaign_flights.result_columns(device_rows, flights)

        columns = fly_across_devices(fly_rows, rows)
        marks += [max(end_times), time.perf_counter()]
        failed += int(np.count_nonzero(columns["outcome"] != PASS))
        if LLVM:
            columns = confirm_failures(columns, rows, campaign_flights.fly_columns)
        marks.append(time.perf_counter())
        if PARQUET:
            store.write(numbers, columns)
        else:
            np.save(
                folder / f"{first}.npy", np.array([column for column in columns.values() if column.dtype.kind == "f"])
            )
        marks.append(time.perf_counter())
        for name, duration in zip(seconds, np.diff(marks), strict=True):
            seconds[name] += float(duration)
    return {"total": time.perf_counter() - begin, **seconds, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--flights", type=int, default=1 << 20)
    parser.add_argument("--batch", type=int, default=GPU_BATCH_ROWS)
    parser.add_argument("--duration", type=float, default=20.0, help="duration of a flight [s]")
    parser.add_argument("--backend", default="pallas", choices=("pallas", "jax"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        campaign_file = write_campaign(folder, options.flights, tenth=TENTH, max_error=3.0, duration=options.duration)
        campaign_flights = CampaignFlights.prepare(campaign_file)
        first_run, second_run = (
            campaign(campaign_flights, folder / run_name, options.batch, options.backend)
            for run_name in ("first", "again")
        )
    results = {
        **describe_results("bench/gpu_campaign.py: a campaign on a GPU", str(jax.devices()[0].device_kind)),
        "jax": jax.__version__,
        "samara": samara.__version__,
        "flights": options.flights,
        "written as": "Parquet" if PARQUET else ".npy",
        "failures flown again on LLVM": LLVM,
        "seconds": second_run,
        "compile": first_run["total"] - second_run["total"],
    }
    text = json.dumps(results, indent=1)
    print(text)
    part_seconds = ", ".join(
        f"{name} {value:.2f}" for name, value in second_run.items() if name not in ("total", "failed")
    )
    print(f"total {second_run['total']:.2f} s after compiling ({results['compile']:.1f} s): {part_seconds}")
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
