"""What a campaign costs beside its flights: `samara.sweep` from the rows to the Parquet files, against `samara.fly_many` alone.

Twenty seconds of a Crazyflie in turbulence, ten numbers of each flight its own, double precision, strict; the same rows of both
in turns. By the clock, and by the processor's time of all threads, which others on the machine do not change as much.

    python bench/campaign.py [ROWS]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from campaign_files import campaign_in

import samara
from samara.campaigns.batch import Flying
from samara.campaigns.samples import Block, as_varied
from samara.campaigns.sweep import Progress

Seconds = np.ndarray[Any, Any]
TENTH = '"controller.position" = { uniform = [2.9, 3.1] }'


def campaigns(rows: int = 4096, turns: int = 3) -> list[dict[str, Any]]:
    """Flights a second of a campaign, end to end with its files; the bar is 85 % of `fly_many`'s rate, the aim 95 %"""
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        own = campaign_in(folder, rows * (1 + turns), tenth=TENTH, max_error=0.5)
        flying = Flying.of(own)
        block = Block(0, 0, own.flights)
        flown: list[Seconds] = []  # by fly_many, a batch of the campaign each time
        swept: list[Seconds] = []
        since = _now()

        def between(told: Progress) -> None:
            """After each batch of the campaign its rows once more, alone; the first batch of both is compiled"""
            nonlocal since
            if not told.done:
                since = _now()
                return
            swept.append(_now() - since)
            before = _now()
            some = flying.rows(np.arange(told.done - rows, told.done), block)
            samara.fly_many(flying.scenario, seeds=some.seeds, vary=as_varied(some, flying.scenario))
            flown.append(_now() - before)
            since = _now()

        samara.sweep(own, folder / "out", batch=rows, backend="llvm", progress=between)
    wall, cpu = ([min(each[1:, what]) for each in (np.array(flown), np.array(swept))] for what in (0, 1))
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
    """By the clock, and of the processor"""
    return np.array([time.perf_counter(), time.process_time()])


if __name__ == "__main__":
    for row in campaigns(*map(int, sys.argv[1:])):
        for name, value in row.items():
            print(f"{name:32} {value}")
