"""What the prediction benchmarks share: command line, vehicles, rotors at measured speeds, and the file of results.

A script has one function that scores a folder of flights. Its rows go to out/bench/prediction.json or, with --update, to
bench/results/prediction.json, from which docs/evidence/prediction.md takes its figures (`python -m tools.bench_figures`).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from timing import describe_results

from samara.core.atomic_files import write_text
from samara.core.types import Array
from samara.identify.flight_log import FlightLog
from samara.identify.identification import identify
from samara.identify.parameters import prepare_vehicle
from samara.link.motor_outputs import rotor_order
from samara.physics.types import Vehicle
from samara.vehicles.limits import replace_dc_motors
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS, DRAFT = REPOSITORY / "bench/results/prediction.json", REPOSITORY / "out/bench/prediction.json"
SILENT_SECONDS, MAX_SPEED = 2.0, 5e3  # before a progress bar; [rad/s], faster than any rotor of these data sets

Row = dict[str, Any]
Update = Callable[[float], None]
Score = Callable[[argparse.Namespace, dict[str, Vehicle], Update], list[Row]]


def run(benchmark: str, description: str, score: Score, *options: tuple[str, Mapping[str, Any]]) -> None:
    """Score the folder of the command line, print the rows and write them; exit with one sentence if that is impossible."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the downloaded data set")
    parser.add_argument("--vehicle", action="append", default=[], help="name or file of one more vehicle to score")
    parser.add_argument("--update", action="store_true", help="write bench/results/prediction.json, not out/bench")
    for name, settings in options:
        parser.add_argument(name, **settings)
    arguments = parser.parse_args()
    bar, begin = Progress(transient=True), time.monotonic()
    task = bar.add_task(benchmark, total=1.0)

    def update(fraction: float) -> None:
        if time.monotonic() - begin > SILENT_SECONDS:
            bar.start()
        bar.update(task, completed=fraction)

    try:
        if not arguments.folder.is_dir():
            raise ValueError(f"{arguments.folder}: is not a directory; expected the folder of the data set")
        rows = score(arguments, {name: load_vehicle(name) for name in arguments.vehicle}, update)
    except (ValueError, OSError) as error:
        sys.exit(" ".join(str(error).split()))
    finally:
        if bar.live.is_started:  # otherwise it prints an empty line
            bar.stop()
    print(format_rows(rows))
    print(write_rows(benchmark, rows, RESULTS if arguments.update else DRAFT))


def format_rows(rows: Sequence[Row]) -> str:
    """Tabulate the numbers of the rows as Markdown."""
    fields = [key for key, value in rows[0].items() if isinstance(value, float)]
    lines = [f"| {row['row']} | {' | '.join(f'{row[field]:.4g}' for field in fields)} |" for row in rows]
    return "\n".join([f"| | {' | '.join(fields)} |", f"|---|{'---:|' * len(fields)}", *lines])


def write_rows(benchmark: str, rows: Sequence[Row], path: Path) -> Path:
    """Replace the rows of one benchmark in a results file; each is named after the benchmark and has date and machine."""
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    origin = describe_results("bench/prediction: real flights predicted")
    stamp = {key: origin[key] for key in ("date", "machine")}
    document |= origin | {benchmark: [{**row, "row": f"{benchmark}, {row['row']}", **stamp} for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return path


def files_in(folder: Path, pattern: str, expected: str) -> list[Path]:
    """Return the files below a folder, by name; raise ValueError if there is none, or if one is a Git LFS pointer."""
    paths = sorted(folder.rglob(pattern), key=lambda path: path.name)
    if not paths:
        raise ValueError(f"{folder}: holds no {pattern}; expected {expected}")
    for path in paths:
        with path.open("rb") as file:
            if file.read(7) == b"version":
                raise ValueError(f"{path}: is a Git LFS pointer; expected its data: run `git lfs pull` in {folder}")
    return paths


def build_from_parts(**parts: Any) -> Vehicle:
    """Build a vehicle as `samara vehicle new` does, from parts that its maker or the data set names."""
    return assemble(parts_list(name="from_parts", **parts))


def replace_motors(vehicle: Vehicle, **fields: float) -> Vehicle:
    """Return the vehicle with lag motors, and these of their fields replaced."""
    vehicle = replace_dc_motors(vehicle)
    rotors = (rotor._replace(motor=rotor.motor._replace(**fields)) for rotor in vehicle.rotors)
    return replace(vehicle, rotors=tuple(rotors))


def follow_speeds(vehicle: Vehicle, time_constant: float) -> Vehicle:
    """Return the vehicle as identification simulates it, with motors that follow any speed with this lag [s]."""
    lag = {"time_constant_up": time_constant, "time_constant_down": time_constant}
    return replace_motors(prepare_vehicle(replace_dc_motors(vehicle)), speed_min=0.0, speed_max=MAX_SPEED, **lag)


def published_rows(published: Mapping[str, Sequence[float]], fields: Sequence[str]) -> list[Row]:
    """Return one row per published model."""
    return [{"row": f"published, {name}", **dict(zip(fields, row, strict=True))} for name, row in published.items()]


def order_by_rotor(rows: Array, vehicle: Vehicle, numbering: str) -> Array:
    """Return rows of motors, in the order of an autopilot, in the order of the vehicle's rotors."""
    return rows[np.argsort(rotor_order(vehicle, numbering))]


def identify_vehicles(logs: Sequence[FlightLog], start: Vehicle, update: Update) -> dict[str, Vehicle]:
    """Identify both products from flights, as `samara identify` writes them."""
    starts = {"forces and torques": 0.1, "prediction error": 0.5}
    result = identify(logs, start, progress=lambda stage, fraction: update(starts.get(stage, 0.0) + 0.4 * fraction))
    return {f"identified, {product.model_type}": product.vehicle for product in result.vehicles}
