"""Measure the parts of a flight: CPU time per simulated second of each, for the flights of `flight.py`.

    PYTHONPATH=src python bench/flight_parts.py     writes bench/results/flight_parts.json, from which a figure is drawn

The figures are CPU time of all threads, which other load disturbs little, of the fastest of several flights. The recorded
blocks are discarded: in a real flight another thread packs and writes them.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flight import Flight, bare_physics_factor, flight_cases
from timing import describe_results

from samara.core.atomic_files import write_text
from samara.sim import simulation as simulation_module
from samara.sim.simulation import Simulation

RESULT = Path(__file__).resolve().parent / "results" / "flight_parts.json"
REPEATS = 4


class Watch:
    """A wrapper of a function that accumulates the CPU time spent in it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call, self.seconds = call, 0.0

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        begin = time.process_time()
        try:
            return self.call(*arguments, **keywords)
        finally:
            self.seconds += time.process_time() - begin


def fly_once(flight: Flight, seconds: float) -> dict[str, float]:
    """Fly once; return the milliseconds per simulated second of each part."""
    run_programs = simulation_module.run_programs
    simulation = Simulation(replace(flight.scenario, duration=seconds), lambda blocks, lines: None)
    program, references, recording = Watch(run_programs), Watch(simulation._prepare), Watch(simulation._log.flush)
    vars(simulation)["_prepare"], vars(simulation._log)["flush"] = references, recording
    simulation.advance()  # link and compile before measuring
    for watch in (program, references, recording):
        watch.seconds = 0.0
    try:
        vars(simulation_module)["run_programs"] = program
        begin = time.process_time()
        simulation.run()
        total = time.process_time() - begin
    finally:
        vars(simulation_module)["run_programs"] = run_programs
    watches = {"program": program, "references": references, "recording": recording}
    part_times = {name: 1e3 * watch.seconds / seconds for name, watch in watches.items()}
    return {"total": 1e3 * total / seconds, **part_times}


def parts(flight: Flight) -> dict[str, Any]:
    """Return the times of physics, the other stages of the program, references, recording, and the remainder in Python."""
    seconds = 20.0 if len(flight.scenario.drones) == 1 else 3.0
    times = min((fly_once(flight, seconds) for _ in range(REPEATS)), key=lambda candidate: candidate["total"])
    physics = min(1e3 / bare_physics_factor(flight, clock=time.process_time), times["program"])
    remainder = times["total"] - times["program"] - times["references"] - times["recording"]
    return {
        "row": flight.name,
        "physics": physics,
        "other stages": times["program"] - physics,
        "references": times["references"],
        "recording": times["recording"],
        "Python": remainder,
    }


if __name__ == "__main__":
    rows = [parts(flight) for flight in flight_cases()]
    name = "bench/flight_parts.py: processor time of a flight by part"
    document = {**describe_results(name), "unit": "ms of processor time per simulated second", "rows": rows}
    write_text(RESULT, json.dumps(document, indent=2) + "\n")
    for row in rows:
        print(row)
