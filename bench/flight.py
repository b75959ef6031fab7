"""Measure the speed of scenarios relative to real time, with and without recording, and their memory.

Physics at 1 kHz, control at 250 Hz, log at 100 Hz: one Crazyflie, one with MPC, an iris with sensors and a Kalman filter, a
hundred drones in one world, and a thousand in rows with mutual downwash. Each row also has the speed of the bare physics in
the air, with and without contact. Further rows measure batches of flights and the compile time of a flight.
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
from there_and_back import ten_parameters, there_and_back
from timing import best

import samara
from samara.record.recorder import BackgroundRecorder
from samara.scenario.scenario import Scenario
from samara.sim.fly import create_recorder
from samara.sim.simulation import Simulation

SECONDS = 60.0
SWARM_SECONDS = 10.0
REPEATS = 5


def real_time_factor(scenario: Any, seconds: float, out: Path | None) -> float:
    """Return simulated seconds per wall-clock second, from the first instant until the last is in the file or in memory."""
    instants: list[float] = []

    def progress(now: float, total: float) -> None:
        instants.append(time.perf_counter())

    if out is None:
        samara.fly(scenario, progress=progress)
        return seconds / (instants[-1] - instants[0])
    with create_recorder(
        scenario, out, overwrite=True
    ) as recorder:  # as `samara.fly` does before it reads the file back
        with BackgroundRecorder(recorder) as background_recorder:
            Simulation(scenario, background_recorder.write_blocks).run(progress)
        end = time.perf_counter()
    return seconds / (end - instants[0])


def best_real_time_factor(scenario: Any, seconds: float, out: Path | None) -> float:
    return max(real_time_factor(scenario, seconds, out) for _ in range(REPEATS))


class Flight(NamedTuple):
    """A row: the scenario, and the real-time factors that it must reach and should reach."""

    name: str
    scenario: Scenario
    must: float
    aim: float

    @property
    def seconds(self) -> float:
        return float(self.scenario.duration)


def flight_cases() -> list[Flight]:
    crazyflie_settings = {"duration": SECONDS, "drones.vehicle": "crazyflie_documented"}
    single, predictive = (
        samara.load_scenario("waypoints", crazyflie_settings | {"drones.controller": name})
        for name in ("geometric", "mpc")
    )
    turbulence = {"wind": [{"model": "turbulence", "speed": 4.0, "sigma": 0.6, "tau": 2.0}]}
    with_sensors = samara.load_scenario("sensors", {"duration": 35.0, **turbulence})
    swarm_settings = {
        "duration": SWARM_SECONDS,
        "drones.count": 100,
        "drones.columns": 10,
        "drones.vehicle": "crazyflie_documented",
    }
    large_swarm_settings = swarm_settings | {"drones.count": 1000, "drones.columns": 32, "downwash": True}
    return [
        Flight("one Crazyflie", single, 1200, 2500),
        Flight("iris on IMU, GPS, barometer, magnetometer and Kalman filter in wind", with_sensors, 200, 300),
        Flight("one Crazyflie with MPC", predictive, 50, 70),
        Flight("100 in one world", samara.load_scenario("swarm", swarm_settings), 150, 300),
        Flight("1000 in one world, downwash of all on all", samara.load_scenario("swarm", large_swarm_settings), 8, 20),
    ]


def bare_physics_factor(
    flight: Flight, *excluded_effects: str, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the simulated seconds per second of the bare physics: as many drones in the air, RK4 at 1 kHz, nothing else."""
    vehicle, n = flight.scenario.drones[0].vehicle, len(flight.scenario.drones)
    vehicle = vehicle.without_effect(*(name for name in excluded_effects if vehicle.has(name)))
    state, command = samara.hover(vehicle, (0.0, 0.0, 2.0))
    sim = samara.compile(vehicle, backend="llvm")
    buffer = np.repeat(state.to_numpy()[:, None], n, axis=1) if n > 1 else state.to_numpy()
    steps = max(100, 20_000 // n)
    sim.step_into(buffer, command, 1e-3, steps=steps)
    return steps * 1e-3 / best(lambda: sim.step_into(buffer, command, 1e-3, steps=steps), 5, clock)


def flights(names: Collection[str] = ()) -> list[dict[str, Any]]:
    """Measure the rows of the bench, or only those in `names`."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.mcap"
        for flight in flight_cases():
            if names and _row_name(flight) not in names:
                continue
            real_time_factor(flight.scenario, flight.seconds, None)  # compile before measuring
            unrecorded, recorded = (
                best_real_time_factor(flight.scenario, flight.seconds, path) for path in (None, out)
            )
            rows.append(
                {
                    "row": _row_name(flight),
                    "times_real_time": recorded,
                    "must": flight.must,
                    "aim": flight.aim,
                    "not_recorded": unrecorded,
                    "recording_costs_percent": 100.0 * (unrecorded / recorded - 1.0),
                    "bare_physics": bare_physics_factor(flight),
                    "bare_physics_without_contact": bare_physics_factor(flight, "contact"),
                    "bytes_per_flown_second": out.stat().st_size / flight.seconds,
                }
            )
    return rows if names else [*rows, {"row": "memory of a flight", **peak_memory()}]


def _row_name(flight: Flight) -> str:
    return f"flight, {flight.name}, recorded"


def many_flights(n: int = 1024) -> list[dict[str, Any]]:
    """Measure `fly_many` on all threads: flights per second, strict in double and fast in single precision."""
    rows = []
    for label, must, aim, options in (
        ("float64 strict", 1000, 2000, {"dtype": "float64"}),
        ("float32 fast", 2500, 5000, {"dtype": "float32", "fast": True}),
    ):
        scenario = there_and_back()
        samara.fly_many(scenario, 64, seeds=range(64), **options)  # compile before measuring
        seconds = best(
            lambda options=options, scenario=scenario: samara.fly_many(scenario, n, seeds=range(n), **options), 3
        )
        name = f"fly_many, {n} flights of 20 s, {label}"
        rows.append({"row": name, "flights_per_s": n / seconds, "must": must, "aim": aim, "seconds": seconds})
    return [*rows, *varied_flights(n)]


def varied_flights(n: int = 1024) -> list[dict[str, Any]]:
    """Measure ten varied parameters in turns with no variation; the rate must reach 85 % of that without.

    `set_up_percent` is the set-up time of four times as many flights, measured with a batch of flights of 0.05 s, as a
    percentage of their total time. Everything is traced and compiled before.
    """
    scenario, short_scenario, set_up_count = there_and_back(), there_and_back(0.05), 4 * n

    def fly_unvaried() -> None:
        samara.fly_many(scenario, n, seeds=range(n))

    def fly_varied() -> None:
        samara.fly_many(scenario, n, seeds=range(n), vary=ten_parameters(scenario, n))

    def fly_short() -> None:
        varied = ten_parameters(short_scenario, set_up_count)
        samara.fly_many(short_scenario, set_up_count, seeds=range(set_up_count), vary=varied)

    for call in (fly_unvaried, fly_varied, fly_short):
        call()
    pairs = [(best(fly_unvaried, 1), best(fly_varied, 1)) for _ in range(5)]
    unvaried_seconds, seconds = (min(times) for times in zip(*pairs, strict=True))
    return [
        {
            "row": f"fly_many, {n} flights of 20 s, ten numbers varied, float64 strict",
            "flights_per_s": n / seconds,
            "must": round(0.85 * n / unvaried_seconds),
            "aim": round(n / unvaried_seconds),
            "seconds": seconds,
            "of_the_rate_unvaried": unvaried_seconds / seconds,
            "set_up_percent": 100.0 * best(fly_short, 2) / (4.0 * seconds),
        }
    ]


def compile_times() -> list[dict[str, Any]]:
    """Measure the first instants of a flight in a fresh interpreter, with an empty and with a filled code cache  [s]."""
    program = (
        "import sys, time, samara\n"
        "scenario = samara.load_scenario(sys.argv[1], {'duration': 0.02, **eval(sys.argv[2])})\n"
        "from samara.sim.simulation import Simulation\n"
        "t = time.perf_counter(); Simulation(scenario).run(); print(time.perf_counter() - t)\n"
    )
    rows = []
    for name, scenario, settings, must in (
        ("geometric without sensors", "hover", {}, 2.0),
        ("geometric with sensors and Kalman filter", "sensors", {}, 8.0),
    ):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", program, scenario, repr(settings)]
            seconds = [
                float(subprocess.check_output(command, env=os.environ | {"SAMARA_CACHE": folder})) for _ in range(3)
            ]
        rows.append({"row": f"compile, {name}", "cold_s": seconds[0], "cached_s": min(seconds[1:]), "must": must})
    return rows


def peak_memory() -> dict[str, float]:
    """Measure the peak resident size of a process that flies and records one minute, and of one that does so for an hour  [MB].

    A process inherits the peak size of its parent, so the program resets it first.
    """
    program = (
        "import sys\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"
        "import tempfile, samara\n"
        "from samara.sim.fly import recording_attachments, run_metadata, scenario_streams\n"
        "from samara.record.recorder import Recorder\n"
        "from samara.sim.simulation import Simulation\n"
        "scenario = samara.load_scenario('hover', {'duration': float(sys.argv[1])})\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    files = run_metadata(scenario), recording_attachments(scenario)\n"
        "    with Recorder(folder + '/run.mcap', scenario_streams(scenario), *files) as recorder:\n"
        "        Simulation(scenario, recorder.write_blocks).run()\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(float(status['VmHWM'].split()[0]) / 1024)\n"
    )
    sizes = [float(subprocess.check_output([sys.executable, "-c", program, str(s)])) for s in (60.0, 3600.0)]
    return {"one_minute_mb": sizes[0], "one_hour_mb": sizes[1]}


if __name__ == "__main__":
    for part in (compile_times, many_flights, flights):
        for row in part():
            print(row, flush=True)
