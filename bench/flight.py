"""How much faster than real time a scenario flies, recording on and off, and what memory it takes.

Physics at 1 kHz, control at 250 Hz, log at 100 Hz: one Crazyflie, one with iLQR, an iris on sensors and a Kalman filter, a
hundred in one world, a thousand in rows with the downwash of all on all; beside each what the bare physics does in the air, and
without contact at all. Then many flights at once, and how long a flight takes to compile.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from there_and_back import ten_numbers, there_and_back
from timing import best

import samara
from samara.record.recorder import Background
from samara.scenario.scenario import Scenario
from samara.sim.fly import recorder_of
from samara.sim.simulation import Simulation

SECONDS = 60.0
SWARM_SECONDS = 10.0
REPEATS = 5


def factor(scenario: Any, seconds: float, out: Path | None) -> float:
    """Simulated seconds per second of the clock, from the first instant until the last is in the file, or in memory."""
    instants: list[float] = []

    def progress(now: float, total: float) -> None:
        instants.append(time.perf_counter())

    if out is None:
        samara.fly(scenario, progress=progress)
        return seconds / (instants[-1] - instants[0])
    with recorder_of(scenario, out, overwrite=True) as recorder:  # as `samara.fly` does, which reads it back then
        with Background(recorder) as behind:
            Simulation(scenario, behind.write_blocks).run(progress)
        ended = time.perf_counter()
    return seconds / (ended - instants[0])


def fastest(scenario: Any, seconds: float, out: Path | None) -> float:
    return max(factor(scenario, seconds, out) for _ in range(REPEATS))


class Flight(NamedTuple):
    """A row: what is flown, for how long [s], and the factor of real time that it must reach and aims at"""

    name: str
    scenario: Scenario
    must: float
    aim: float

    @property
    def seconds(self) -> float:
        return float(self.scenario.duration)


def rows_flown() -> list[Flight]:
    crazyflie = {"duration": SECONDS, "drones.vehicle": "crazyflie_documented"}
    single, predictive = (
        samara.load_scenario("waypoints", crazyflie | {"drones.controller": name}) for name in ("geometric", "ilqr")
    )
    gusty = {"wind": [{"kind": "turbulence", "speed": 4.0, "sigma": 0.6, "tau": 2.0}]}
    sensing = samara.load_scenario("sensors", {"duration": 35.0, **gusty})
    many = {
        "duration": SWARM_SECONDS,
        "drones.count": 100,
        "drones.columns": 10,
        "drones.vehicle": "crazyflie_documented",
    }
    more = many | {"drones.count": 1000, "drones.columns": 32, "downwash": True}
    return [
        Flight("one Crazyflie", single, 1200, 2500),
        Flight("iris on IMU, GPS, barometer, magnetometer and Kalman filter in wind", sensing, 200, 300),
        Flight("one Crazyflie with iLQR", predictive, 50, 70),
        Flight("100 in one world", samara.load_scenario("swarm", many), 150, 300),
        Flight("1000 in one world, downwash of all on all", samara.load_scenario("swarm", more), 8, 20),
    ]


def ceiling(flight: Flight, *without: str, clock: Callable[[], float] = time.perf_counter) -> float:
    """Simulated seconds per second of the bare physics: as many drones in the air, RK4 at 1 kHz, nothing else"""
    vehicle, n = flight.scenario.drones[0].vehicle, len(flight.scenario.drones)
    vehicle = vehicle.without_effect(*(name for name in without if vehicle.has(name)))
    state, command = samara.hover(vehicle, (0.0, 0.0, 2.0))
    sim = samara.compile(vehicle, backend="llvm")
    buffer = np.repeat(state.to_numpy()[:, None], n, axis=1) if n > 1 else state.to_numpy()
    steps = max(100, 20_000 // n)
    sim.step_into(buffer, command, 1e-3, steps=steps)
    return steps * 1e-3 / best(lambda: sim.step_into(buffer, command, 1e-3, steps=steps), 5, clock)


def flights(names: Collection[str] = ()) -> list[dict[str, Any]]:
    """The rows of the bench, or those with such names alone"""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.mcap"
        for flight in rows_flown():
            if names and _row(flight) not in names:
                continue
            factor(flight.scenario, flight.seconds, None)  # compiled once
            silent, recorded = (fastest(flight.scenario, flight.seconds, where) for where in (None, out))
            rows.append(
                {
                    "row": _row(flight),
                    "times_real_time": recorded,
                    "must": flight.must,
                    "aim": flight.aim,
                    "not_recorded": silent,
                    "recording_costs_percent": 100.0 * (silent / recorded - 1.0),
                    "bare_physics": ceiling(flight),
                    "bare_physics_without_contact": ceiling(flight, "contact"),
                    "bytes_per_flown_second": out.stat().st_size / flight.seconds,
                }
            )
    return rows if names else [*rows, {"row": "memory of a flight", **memory()}]


def _row(flight: Flight) -> str:
    return f"flight, {flight.name}, recorded"


def many_flights(n: int = 1024) -> list[dict[str, Any]]:
    """`fly_many` on all threads: whole flights a second, strict in double and fast in single precision"""
    rows = []
    for label, must, aim, how in (
        ("float64 strict", 1000, 2000, {"dtype": "float64"}),
        ("float32 fast", 2500, 5000, {"dtype": "float32", "fast": True}),
    ):
        own = there_and_back()
        samara.fly_many(own, 64, seeds=range(64), **how)  # compiled
        seconds = best(lambda how=how, own=own: samara.fly_many(own, n, seeds=range(n), **how), 3)
        name = f"fly_many, {n} flights of 20 s, {label}"
        rows.append({"row": name, "flights_per_s": n / seconds, "must": must, "aim": aim, "seconds": seconds})
    return [*rows, *varied_flights(n)]


def varied_flights(n: int = 1024) -> list[dict[str, Any]]:
    """The same with ten numbers of each flight its own, in turns with flights that have none: the bar is 85 % of their rate

    `set_up_percent` is of four times as many flights what they take before they fly: a batch that is over after a twentieth of
    a second, of the time of the whole. What is traced and compiled is so before.
    """
    own, brief, many = there_and_back(), there_and_back(0.05), 4 * n
    alike = lambda: samara.fly_many(own, n, seeds=range(n))  # noqa: E731
    varied = lambda: samara.fly_many(own, n, seeds=range(n), vary=ten_numbers(own, n))  # noqa: E731
    set_up = lambda: samara.fly_many(brief, many, seeds=range(many), vary=ten_numbers(brief, many))  # noqa: E731
    for call in (alike, varied, set_up):
        call()
    pairs = [(best(alike, 1), best(varied, 1)) for _ in range(5)]
    least, seconds = (min(own) for own in zip(*pairs, strict=True))
    return [
        {
            "row": f"fly_many, {n} flights of 20 s, ten numbers varied, float64 strict",
            "flights_per_s": n / seconds,
            "must": round(0.85 * n / least),
            "aim": round(n / least),
            "seconds": seconds,
            "of_the_rate_unvaried": least / seconds,
            "set_up_percent": 100.0 * best(set_up, 2) / (4.0 * seconds),
        }
    ]


def compile_times() -> list[dict[str, Any]]:
    """A flight's first instants in a fresh interpreter: nothing on disk, and with the code of the time before  [s]"""
    program = (
        "import sys, time, samara\n"
        "own = samara.load_scenario(sys.argv[1], {'duration': 0.02, **eval(sys.argv[2])})\n"
        "from samara.sim.simulation import Simulation\n"
        "t = time.perf_counter(); Simulation(own).run(); print(time.perf_counter() - t)\n"
    )
    rows = []
    for name, scenario, settings, must in (
        ("geometric without sensors", "hover", {}, 2.0),
        ("geometric with sensors and Kalman filter", "sensors", {}, 8.0),
    ):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", program, scenario, repr(settings)]
            own = [float(subprocess.check_output(command, env=os.environ | {"SAMARA_CACHE": folder})) for _ in range(3)]
        rows.append({"row": f"compile, {name}", "cold_s": own[0], "cached_s": min(own[1:]), "must": must})
    return rows


def memory() -> dict[str, float]:
    """The largest resident size of a process that flies and records one minute, and one that does so for an hour  [MB]

    Of its own: a process begins with the largest size of the one that started it, so that is forgotten first.
    """
    program = (
        "import sys\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"
        "import tempfile, samara\n"
        "from samara.sim.fly import about, all_streams, attachments\n"
        "from samara.record.recorder import Recorder\n"
        "from samara.sim.simulation import Simulation\n"
        "own = samara.load_scenario('hover', {'duration': float(sys.argv[1])})\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    with Recorder(folder + '/run.mcap', all_streams(own), about(own), attachments(own)) as recorder:\n"
        "        Simulation(own, recorder.write_blocks).run()\n"
        "told = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(float(told['VmHWM'].split()[0]) / 1024)\n"
    )
    sizes = [float(subprocess.check_output([sys.executable, "-c", program, str(s)])) for s in (60.0, 3600.0)]
    return {"one_minute_mb": sizes[0], "one_hour_mb": sizes[1]}


if __name__ == "__main__":
    for part in (compile_times, many_flights, flights):
        for row in part():
            print(row, flush=True)
