"""Measure the overhead of a campaign: `samara.sweep` from rows to Parquet files, against `samara.fly_many` alone.

Twenty seconds of a Crazyflie in turbulence, ten parameters varied per flight, double precision, strict. Both fly the same rows
in turns. The bench measures wall-clock time and the CPU time of all threads, which other load on the machine disturbs less.
    python bench/campaign.py [ROWS]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from campaign_files import write_campaign

import samara
from samara.campaigns.batch import CampaignFlights
from samara.campaigns.samples import RowRange, varied_parameters
from samara.campaigns.sweep import SweepProgress

Seconds = np.ndarray[Any, Any]
TENTH = '"controller.position" = { uniform = [2.9, 3.1] }'


def campaigns(rows: int = 4096, turns: int = 3) -> list[dict[str, Any]]:
    """Measure the flights per second of a campaign with its files; at least 85 % of the rate of `fly_many`, 95 % desired."""
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        campaign = write_campaign(folder, rows * (1 + turns), tenth=TENTH, max_error=0.5)
        campaign_flights = CampaignFlights.prepare(campaign)
        row_range = RowRange(0, 0, campaign.flights)
        fly_many_seconds: list[Seconds] = []  # by fly_many, one batch of the campaign at a time
        sweep_seconds: list[Seconds] = []
        batch_begin = _now()

        def time_fly_many(progress: SweepProgress) -> None:
            """Fly each batch of the campaign once more with `fly_many`; the first batch of both includes compilation."""
            nonlocal batch_begin
            if not progress.done:
                batch_begin = _now()
                return
            sweep_seconds.append(_now() - batch_begin)
            begin = _now()
            samples = campaign_flights.rows(np.arange(progress.done - rows, progress.done), row_range)
            samara.fly_many(
                campaign_flights.scenario,
                seeds=samples.seeds,
                vary=varied_parameters(samples, campaign_flights.scenario),
            )
            fly_many_seconds.append(_now() - begin)
            batch_begin = _now()

        samara.sweep(campaign, folder / "out", batch=rows, backend="llvm", progress=time_fly_many)
    wall, cpu = (
        [min(times[1:, clock]) for times in (np.array(fly_many_seconds), np.array(sweep_seconds))] for clock in (0, 1)
    )
    return [
        {
            "row": f"campaign, {rows} flights of 20 s with ten numbers varied, to Parquet, float64 strict",
            "flights_per_s": rows / wall[1],
            "of_fly_many": wall[0] / wall[1],
            "of_fly_many_in_cpu_time": cpu[0] / cpu[1],
            "cpu_s_beside_flying_per_1000": 1e3 * (cpu[1] - cpu[0]) / rows,
            "must": 0.85,
            "aim": 0.95,
        }
    ]


def _now() -> Seconds:
    """Return the wall-clock time and the CPU time of this process  [s]."""
    return np.array([time.perf_counter(), time.process_time()])


if __name__ == "__main__":
    for row in campaigns(*map(int, sys.argv[1:])):
        for name, value in row.items():
            print(f"{name:32} {value}")
