"""Where the time of a flight goes: processor time per simulated second of its parts, for the flights of `flight.py`.

    PYTHONPATH=src python bench/flight_parts.py     writes bench/results/flight_parts.json, which a picture is drawn from

Processor time of all threads, so that others on the machine disturb little; the fastest of several flights. What is recorded
goes to nobody: packing and writing are done beside the flight by a thread of their own.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flight import Flight, ceiling, rows_flown

from samara.core.atomic_files import write_text
from samara.sim import simulation as flown
from samara.sim.simulation import Simulation

RESULT = Path(__file__).resolve().parent / "results" / "flight_parts.json"
REPEATS = 4


class Watch:
    """A function that adds up the processor time spent in it"""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call, self.seconds = call, 0.0

    def __call__(self, *told: Any, **named: Any) -> Any:
        before = time.process_time()
        try:
            return self.call(*told, **named)
        finally:
            self.seconds += time.process_time() - before


def once(flight: Flight, seconds: float) -> dict[str, float]:
    """Milliseconds per simulated second"""
    walk = flown.walk
    simulation = Simulation(replace(flight.scenario, duration=seconds), lambda blocks, lines: None)
    program, references, recording = Watch(walk), Watch(simulation._prepare), Watch(simulation._log.flush)
    vars(simulation)["_prepare"], vars(simulation._log)["flush"] = references, recording
    simulation.advance()  # linked and compiled
    for own in (program, references, recording):
        own.seconds = 0.0
    try:
        vars(flown)["walk"] = program
        before = time.process_time()
        simulation.run()
        total = time.process_time() - before
    finally:
        vars(flown)["walk"] = walk
    parts = {"program": program, "references": references, "recording": recording}
    told = {name: 1e3 * own.seconds / seconds for name, own in parts.items()}
    return {"total": 1e3 * total / seconds, **told}


def parts(flight: Flight) -> dict[str, Any]:
    """Physics, the other stages of the program, references, recording, and what is left: Python and what it calls"""
    seconds = 20.0 if len(flight.scenario.drones) == 1 else 3.0
    own = min((once(flight, seconds) for _ in range(REPEATS)), key=lambda told: told["total"])
    physics = min(1e3 / ceiling(flight, clock=time.process_time), own["program"])
    rest = own["total"] - own["program"] - own["references"] - own["recording"]
    return {
        "row": flight.name,
        "physics": physics,
        "other stages": own["program"] - physics,
        "references": own["references"],
        "recording": own["recording"],
        "Python": rest,
    }


if __name__ == "__main__":
    found = [parts(flight) for flight in rows_flown()]
    write_text(
        RESULT, json.dumps({"unit": "ms of processor time per simulated second", "rows": found}, indent=2) + "\n"
    )
    for each in found:
        print(each)
