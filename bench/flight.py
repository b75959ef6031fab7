"""How much faster than real time a scenario flies, recording on and off, and what memory it takes.

One Crazyflie with physics at 1 kHz, control at 250 Hz, log at 100 Hz; a hundred in one world; and a thousand in rows, with the
downwash of all on all.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import samara

SECONDS = 60.0
SWARM_SECONDS = 10.0
REPEATS = 5


def factor(scenario: Any, seconds: float, out: Path | None) -> float:
    """Simulated seconds per second of the clock, from the first instant to the last, recording included."""
    started: list[float] = []

    def progress(now: float, total: float) -> None:
        if not started:
            started.append(time.perf_counter())
        ended[0] = time.perf_counter()

    ended = [0.0]
    samara.fly(scenario, out=out, overwrite=True, progress=progress)
    return seconds / (ended[0] - started[0])


def fastest(scenario: Any, seconds: float, out: Path | None) -> float:
    return max(factor(scenario, seconds, out) for _ in range(REPEATS))


def flights() -> list[dict[str, Any]]:
    """The rows of the bench."""
    crazyflie = {"duration": SECONDS, "drones.vehicle": "crazyflie_documented"}
    single, predictive = (
        samara.load_scenario("waypoints", crazyflie | {"drones.controller": name}) for name in ("geometric", "ilqr")
    )
    hundred = samara.load_scenario("swarm", {"duration": SWARM_SECONDS, "drones.count": 100, "drones.columns": 10})
    thousand = samara.load_scenario(
        "swarm", {"duration": SWARM_SECONDS, "drones.count": 1000, "drones.columns": 32, "downwash": True}
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.mcap"
        for name, scenario, seconds in (
            ("one Crazyflie", single, SECONDS),
            ("one Crazyflie with iLQR", predictive, SECONDS),
            ("100 in one world", hundred, SWARM_SECONDS),
            ("1000 in one world, downwash of all on all", thousand, SWARM_SECONDS),
        ):
            factor(scenario, seconds, None)  # compiled once
            silent, recorded = fastest(scenario, seconds, None), fastest(scenario, seconds, out)
            rows.append(
                {
                    "row": f"flight, {name}, recorded",
                    "times_real_time": recorded,
                    "not_recorded": silent,
                    "recording_costs_percent": 100.0 * (silent / recorded - 1.0),
                    "bytes_per_flown_second": out.stat().st_size / seconds,
                }
            )
    rows.append({"row": "memory of a flight", **memory()})
    return rows


def memory() -> dict[str, float]:
    """The largest resident size of a process that flies and records one minute, and one that does so for an hour  [MB]"""
    program = (
        "import resource, sys, tempfile, samara\n"
        "from samara.sim.fly import about, all_streams, attachments\n"
        "from samara.record.recorder import Recorder\n"
        "from samara.sim.simulation import Simulation\n"
        "own = samara.load_scenario('hover', {'duration': float(sys.argv[1])})\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    with Recorder(folder + '/run.mcap', all_streams(own), about(own), attachments(own)) as recorder:\n"
        "        Simulation(own, recorder.write_blocks).run()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    sizes = [float(subprocess.check_output([sys.executable, "-c", program, str(s)])) for s in (60.0, 3600.0)]
    return {"one_minute_mb": sizes[0], "one_hour_mb": sizes[1]}


if __name__ == "__main__":
    for row in flights():
        print(row)
