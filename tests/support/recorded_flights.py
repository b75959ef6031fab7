"""Reference flights: the first fifth of a second of every shipped scenario as a recording, and the SHA-256 of every stream
of the complete flights, in `tests/recordings/flights`.

`python -m tests.support.recorded_flights` writes both again, after an intended change of a flight.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

import samara

FLIGHTS_FOLDER = Path(__file__).parents[1] / "recordings" / "flights"
HASHES_FILE = FLIGHTS_FOLDER / "whole.json"
SHORT_DURATION = 0.2  # [s]
CONTROLLERS = ("figure8 lqr", "figure8 pid", "figure8 mellinger", "figure8 indi", "figure8 mpc")
FLIGHTS = (*samara.scenario_names(), *CONTROLLERS)


def fly_reference(flight: str, **settings: Any) -> samara.Run:
    name, _, controller = flight.partition(" ")
    return samara.fly(name, settings=settings, controller=controller or None)


def streams(run: samara.Run) -> dict[str, Any]:
    return {f"{track.name}/{name}": table for track in run.drone_records for name, table in track.tables.items()}


def digest(table: Any) -> str:
    header = json.dumps([table.fields, table.units]).encode()
    return hashlib.sha256(header + table.times_us.tobytes() + table.rows.tobytes()).hexdigest()


def arithmetic() -> str:
    """Return a hash of the arithmetic that flights depend on: the C library's functions, and fused multiply-add."""
    angles = [0.001 * 1.07**k for k in range(200)]
    values = [f(x) for f in (math.sin, math.cos, math.tan, math.exp, math.log, math.atan) for x in angles if x < 700.0]
    has_fma = llvm.get_host_cpu_features().get("fma", False)
    return hashlib.sha256(f"{values} {has_fma}".encode()).hexdigest()


def recording_path(flight: str) -> Path:
    return FLIGHTS_FOLDER / f"{flight.replace(' ', '_')}.mcap"


def stored_hashes() -> dict[str, Any]:
    return dict(json.loads(HASHES_FILE.read_text(encoding="utf-8")))


def write() -> None:
    """Write the recordings and hashes of the current code."""
    for flight in FLIGHTS:
        fly_reference(flight, duration=SHORT_DURATION).save(recording_path(flight), overwrite=True)
    hashes = {
        flight: {name: digest(table) for name, table in streams(fly_reference(flight)).items()} for flight in FLIGHTS
    }
    HASHES_FILE.write_text(
        json.dumps({"arithmetic": arithmetic(), "flights": hashes}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    write()
