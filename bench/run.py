"""Measure Samara and its peers on this CPU, in one run: tables, ratios, and out/bench/cpu.json.

    make bench                                the complete bench
    make bench UPDATE=1                       the same, written over the committed bench/results/cpu.json
    python bench/run.py --against Crazyflow   only the comparisons with this text in their name: against.json
    python bench/run.py --check               only check that every peer can be imported

The bench model is `crazyflie_documented`: thrust, reaction torque, first-order lag, linear drag and diagonal inertia, RK4 at
1 kHz. A second row of each type has the default effects (plus angular damping and ground contact), a metre above the ground.
`contact.py` measures contact in the air and on the ground, `aero.py` full aerodynamics. A peer that cannot be measured ends the
run with one sentence and exit status 1; nothing is written.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from aero import effect_costs
from aero import rows as aero_rows
from campaign import campaigns
from contact import rows as contact_rows
from flight import compile_times, flights, many_flights
from mpc import rows as mpc_rows
from parts import parts as part_rows
from peer_process import PYTHON, PeerError, check_peers, run_peer
from peers import FROM_CHECKOUT, ROWS
from rich.console import Console
from rich.progress import track
from rich.table import Table
from timing import best, cpu_name, describe_results

import samara
from samara.compiler.trace.folding_tape import trace_program
from samara.control.geometric import geometric
from samara.core.atomic_files import write_text
from samara.core.integrate import rk4
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import derivative
from samara.physics.types import Reference

HERE = Path(__file__).resolve().parent
DT = 1e-3
FULL = samara.vehicle("crazyflie_documented")
BENCH = FULL.without_effect("contact", "damping")


def first_and_best(call: Callable[[], Any], repeats: int = 15) -> tuple[float, float]:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin, best(call, repeats)


def instructions(vehicle: samara.Vehicle) -> int:
    state, command = samara.hover(vehicle)
    return len(
        trace_program(lambda s, u: (rk4(lambda x: derivative(x, u, vehicle), s, DT),), state, command).instructions
    )


def row(name: str, vehicle: samara.Vehicle, seconds: float, steps: int, **extra: Any) -> dict[str, Any]:
    effects = [effect.name for effect in vehicle.structure.effects]
    return {
        "row": name,
        "steps_per_s": steps / seconds,
        "us_per_step": 1e6 * seconds / steps,
        "effects": effects,
        **extra,
    }


def hovering(vehicle: samara.Vehicle) -> tuple[samara.State, tuple[float, ...]]:
    """Return the hover state one metre above the ground, and its command."""
    state, command = samara.hover(vehicle)
    return state._replace(p_W=samara.Vec3(0.0, 0.0, 1.0)), command


def calls(vehicle: samara.Vehicle, label: str) -> list[dict[str, Any]]:
    """Measure one drone, one step per call from Python."""
    state, command = hovering(vehicle)
    sim, buffer, call_count = samara.compile(vehicle, backend="llvm"), state.to_numpy(), 500

    def step() -> None:
        for _ in range(call_count):
            sim.step(state, command, DT)

    def step_into() -> None:
        for _ in range(call_count):
            sim.step_into(buffer, command, DT)

    compile_seconds, _ = first_and_best(lambda: sim.step(state, command, DT), 1)
    return [
        row(
            f"single step call, {label}",
            vehicle,
            best(step),
            call_count,
            compile_s=compile_seconds,
            dtype="float64",
            n=1,
        ),
        row(f"single step_into call, {label}", vehicle, best(step_into), call_count, dtype="float64", n=1),
    ]


def rollouts(vehicle: samara.Vehicle, label: str) -> list[dict[str, Any]]:
    """Measure one drone, many steps inside one call."""
    state, command = hovering(vehicle)
    rows = []
    for dtype, fast in (("float64", False), ("float64", True), ("float32", False), ("float32", True)):
        sim, steps = samara.compile(vehicle, backend="llvm", dtype=dtype, fast=fast), 10_000
        buffer = state.to_numpy().astype(dtype)
        _, seconds = first_and_best(lambda sim=sim, buffer=buffer: sim.step_into(buffer, command, DT, steps=10_000))
        mode = "fast" if fast else "strict"
        rows.append(
            row(f"single rollout {dtype} {mode}, {label}", vehicle, seconds, steps, dtype=dtype, n=1, fast=fast)
        )
    return rows


def batches(vehicle: samara.Vehicle, label: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    state, command = hovering(vehicle)
    for dtype in ("float64", "float32"):
        for fast in (False, True):
            sim = samara.compile(vehicle, backend="llvm", dtype=dtype, fast=fast)
            for n in sizes:
                buffer = np.tile(state.to_numpy()[:, None], (1, n)).astype(dtype)
                steps = max(10, min(2000, 1_000_000 // n))
                call = lambda sim=sim, buffer=buffer, steps=steps: sim.step_into(buffer, command, DT, steps=steps)  # noqa: E731
                compile_and_run_seconds, seconds = first_and_best(call, 8)
                mode = "fast" if fast else "strict"
                name = f"batch {n} {dtype} {mode}, {label}"
                rows.append(
                    row(
                        name,
                        vehicle,
                        seconds,
                        n * steps,
                        dtype=dtype,
                        n=n,
                        fast=fast,
                        compile_s=compile_and_run_seconds - seconds,
                    )
                )
    return rows


def closed_loop() -> list[dict[str, Any]]:
    n, steps = 16384, 40
    state, _ = samara.hover(BENCH)
    sim = samara.compile(BENCH, backend="llvm", dtype="float32", controller=geometric(BENCH), fast=True)
    batch = unflatten(state, iter(np.full(n, leaf) for leaf in flatten(state)))
    rows = np.tile(np.array(flatten(Reference(samara.Vec3(0.3, 0.2, 1.5)))), (steps, 1))
    _, seconds = first_and_best(lambda: sim.rollout(batch, reference=rows, dt=DT, record_every=steps), 8)
    return [
        row(f"geometric control in the loop, batch {n} float32 fast", BENCH, seconds, n * steps, dtype="float32", n=n)
    ]


def jacobians(vehicle: samara.Vehicle, label: str) -> list[dict[str, Any]]:
    state, command = samara.hover(vehicle)
    sim = samara.compile(vehicle, backend="llvm")
    compile_and_run_seconds, seconds = first_and_best(lambda: [sim.linearize(state, command, DT) for _ in range(20)], 8)
    return [
        row(
            f"linearize, {label}",
            vehicle,
            seconds,
            20,
            compile_s=compile_and_run_seconds - seconds,
            dtype="float64",
            n=1,
        )
    ]


def latencies() -> list[dict[str, Any]]:
    """Measure a fresh interpreter: import of Samara, the first compiled step, and a flight from the command line."""
    import_program = "import time; t = time.perf_counter(); import samara; print(time.perf_counter() - t)"
    step_program = (
        "import time; t = time.perf_counter(); import samara; v = samara.vehicle('crazyflie_documented');"
        "s, u = samara.hover(v); samara.compile(v, backend='llvm').step(s, u, 1e-3); print(time.perf_counter() - t)"
    )
    rows = []
    for name, program in (("import samara", import_program), ("import, load, compile, first step", step_program)):
        seconds = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(3))
        rows.append({"row": name, "seconds": seconds})
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"SAMARA_CACHE": f"{folder}/code", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        command = [sys.executable, "-m", "samara_command", "fly", "hover", "--no-report", "--out", folder]

        def fly() -> None:
            subprocess.run(command, env=environment, check=True, capture_output=True)

        cold, warm = first_and_best(fly, 5)
    name = "samara fly hover, from shell to recording"
    return [*rows, {"row": f"{name}, first time", "seconds": cold}, {"row": f"{name}, code cached", "seconds": warm}]


class Comparison(NamedTuple):
    """A row of Samara beside a peer's: the ratio it must reach, and the desired one."""

    name: str
    ours: str
    theirs: str
    must: int | None = None
    aim: int | None = None


ROLLOUT, FAST_ROLLOUT = "single rollout float64 strict, bench", "single rollout float64 fast, bench"
BATCH, FULL_BATCH = "batch 16384 float32 fast, bench", "full aerodynamics, Dryden wind, batch 16384 float32 fast"
FLIGHT = "flight, one Crazyflie, recorded"
COMPARISONS = (
    Comparison("CPU batch 16384 float32 against Crazyflow", BATCH, "crazyflow_16384", 35, 70),
    Comparison("single rollout, strict, against Crazyflow", ROLLOUT, "crazyflow_1", 40, 80),
    Comparison("single rollout, fast, against Crazyflow", "single rollout float32 fast, bench", "crazyflow_1", 40, 80),
    Comparison("single rollout, strict, against RotorPy", ROLLOUT, "rotorpy_1", 10_000),
    Comparison("single rollout, fast, against RotorPy", FAST_ROLLOUT, "rotorpy_1", 10_000),
    Comparison("full aerodynamics, batch 16384, against RotorPy's batch", FULL_BATCH, "rotorpy_batched_16384", 200),
    Comparison("recorded flight against RotorPy's own, not recorded", FLIGHT, "rotorpy_flight", 80, 200),
    Comparison(
        "recorded flight against gym-pybullet-drones' own, not recorded", FLIGHT, "gym_pybullet_drones_flight", 80, 200
    ),
    Comparison("single rollout, strict, against gym-pybullet-drones (dyn)", ROLLOUT, "gym_pybullet_drones_dyn"),
    Comparison("single rollout, strict, against gym-pybullet-drones (pyb)", ROLLOUT, "gym_pybullet_drones_pyb"),
)


def peers(python: Path, checkout: Path | None, names: Iterable[str]) -> dict[str, float]:
    """Measure the steps per second of each peer, each in a separate process."""
    path = str(checkout.resolve()) if checkout else ""
    return {name: float(run_peer(name, [HERE / "peers.py", name], python, PYTHONPATH=path)) for name in names}


def ratios(rows: list[dict[str, Any]], peer: dict[str, float]) -> list[dict[str, Any]]:
    rate_keys = ("steps_per_s", "times_real_time")
    speed = {entry["row"]: entry[rate_key] for entry in rows for rate_key in rate_keys if rate_key in entry}
    return [
        {"row": entry.name, "ratio": speed[entry.ours] / peer[entry.theirs], "must": entry.must, "aim": entry.aim}
        for entry in COMPARISONS
        if entry.theirs in peer and entry.ours in speed
    ]


def report() -> dict[str, Any]:
    """Return the fields that every report begins with."""
    return {**describe_results("bench/run.py: one drone and batches, beside the peers"), "samara": samara.__version__}


def show_rows(console: Console, rows: list[dict[str, Any]]) -> None:
    table = Table(title=cpu_name())
    for heading in ("row", "M steps/s", "µs/step", "compile s"):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for measurement in rows:
        speed, microseconds = (
            measurement.get("steps_per_s"),
            measurement.get("us_per_step", 1e6 * measurement.get("seconds", 0.0)),
        )
        compile_seconds = measurement.get("compile_s")
        table.add_row(
            measurement["row"],
            f"{speed / 1e6:.3f}" if speed else "",
            f"{microseconds:.3f}",
            f"{compile_seconds:.2f}" if compile_seconds is not None else "",
        )
    console.print(table)


def show_effects(console: Console, effects: list[dict[str, Any]]) -> None:
    table = Table(
        title="cost of an effect: one derivative, and an RK4 step of a Crazyflie in a batch of 16384, float32"
    )
    for heading in ("on", "instructions", "ns/step", "× plain"):
        table.add_column(heading, justify="left" if heading == "on" else "right")
    for measurement in effects:
        table.add_row(
            measurement["row"],
            str(measurement["instructions"]),
            f"{measurement['ns']:.1f}",
            f"{measurement['times']:.1f}",
        )
    console.print(table)


def show_flights(
    console: Console,
    flight_rows: list[dict[str, Any]],
    batches: list[dict[str, Any]],
    campaign_rows: list[dict[str, Any]],
    compile_rows: list[dict[str, Any]],
) -> None:
    table = Table(title="flights: physics 1 kHz, control 250 Hz, log 100 Hz; × real time")
    headings = ("row", "recorded", "must", "aim", "not recorded", "recording costs", "bare physics", "without contact")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "row" else "right")
    keys = ("times_real_time", "must", "aim", "not_recorded", None, "bare_physics", "bare_physics_without_contact")
    for measurement in flight_rows[:-1]:
        cost = f"{measurement['recording_costs_percent']:.0f} %"
        table.add_row(measurement["row"], *(f"{measurement[key]:.4g}" if key else cost for key in keys))
    for measurement in batches:
        table.add_row(
            measurement["row"],
            f"{measurement['flights_per_s']:.4g} flights/s",
            f"{measurement['must']}",
            f"{measurement['aim']}",
        )
    for measurement in campaign_rows:
        fraction = (
            f"{measurement['of_fly_many']:.1%} of fly_many, {measurement['of_fly_many_in_cpu_time']:.1%} in CPU time"
        )
        table.add_row(measurement["row"], fraction, f"{measurement['must']:.0%}", f"{measurement['aim']:.0%}")
    for measurement in compile_rows:
        table.add_row(
            measurement["row"],
            f"{measurement['cold_s']:.2f} s, {measurement['cached_s']:.2f} s cached",
            f"{measurement['must']:g} s",
        )
    sizes = flight_rows[-1]
    table.caption = f"memory: {sizes['one_minute_mb']:.0f} MB for a minute, {sizes['one_hour_mb']:.0f} MB for an hour"
    console.print(table)


def show_solutions(console: Console, measurements: list[dict[str, Any]]) -> None:
    table = Table(title="model-predictive control")
    for heading in ("row", "µs", "per second", "× ours", "cost"):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for measurement in measurements:
        table.add_row(
            measurement["row"],
            f"{measurement['us']:.1f}",
            f"{1e6 / measurement['us']:,.0f}",
            f"{measurement['times_ours']:.1f}" if "times_ours" in measurement else "",
            f"{measurement['cost']:.4f}" if "cost" in measurement else "",
        )
    console.print(table)


def show_ratios(console: Console, comparisons: list[dict[str, Any]]) -> None:
    table = Table(title="against peers in the same run")
    for heading in ("row", "ratio", "must reach", "aim"):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for comparison in comparisons:
        must, aim = (f"{comparison[key]}x" if comparison[key] else "" for key in ("must", "aim"))
        table.add_row(comparison["row"], f"{comparison['ratio']:.0f}x", must, aim)
    console.print(table)


def against(text: str, console: Console, python: Path, checkout: Path | None) -> dict[str, Any]:
    """Measure the comparisons with `text` in their name: our rows, the peers' and the ratios."""
    selected = [entry for entry in COMPARISONS if text in entry.name and (checkout or entry.theirs in ROWS)]
    measures = {
        "single": lambda: rollouts(BENCH, "bench"),
        "batch": lambda: batches(BENCH, "bench", (16384,)),
        "full": aero_rows,
        "flight,": lambda: flights([entry.ours for entry in selected]),
    }
    row_types = {entry.ours.partition(" ")[0] for entry in selected}
    rows = [entry for row_type, measure in measures.items() if row_type in row_types for entry in measure()]
    peer_rates = peers(python, checkout, dict.fromkeys(entry.theirs for entry in selected))
    comparisons = ratios(rows, peer_rates)
    show_rows(console, rows)
    show_ratios(console, comparisons)
    return {**report(), "rows": rows, "peers": peer_rates, "ratios": comparisons}


def everything(console: Console, python: Path, checkout: Path | None) -> dict[str, Any]:
    measures: list[Callable[[], list[dict[str, Any]]]] = [
        lambda: calls(BENCH, "bench"),
        lambda: calls(FULL, "default effects"),
        lambda: rollouts(BENCH, "bench"),
        lambda: rollouts(FULL, "default effects"),
        lambda: batches(BENCH, "bench", (1, 16, 256, 4096, 16384, 65536)),
        lambda: batches(FULL, "default effects", (16384,)),
        closed_loop,
        contact_rows,
        aero_rows,
        lambda: jacobians(BENCH, "bench"),
        lambda: jacobians(FULL, "default effects"),
        latencies,
        part_rows,
    ]
    rows = [measurement for measure in track(measures, "measuring", console=console) for measurement in measure()]
    with console.status("measuring effects"):
        effects = effect_costs()
    with console.status("flying scenarios"):
        flight_rows, batch_rows, campaign_rows, compile_rows = flights(), many_flights(), campaigns(), compile_times()
    with console.status("solving"):
        solutions = mpc_rows(python)
    with console.status("measuring the peers"):
        peer_rates = peers(python, checkout, {**ROWS, **(FROM_CHECKOUT if checkout else {})})
    comparisons = ratios([*rows, *flight_rows], peer_rates)
    show_rows(console, rows)
    show_effects(console, effects)
    show_flights(console, flight_rows, batch_rows, campaign_rows, compile_rows)
    show_solutions(console, solutions)
    show_ratios(console, comparisons)
    return {
        **report(),
        "instructions": {"bench": instructions(BENCH), "default effects": instructions(FULL)},
        "rows": rows,
        "effects": effects,
        "flights": flight_rows,
        "many_flights": batch_rows,
        "campaigns": campaign_rows,
        "compile_times": compile_rows,
        "mpc": solutions,
        "peers": peer_rates,
        "ratios": comparisons,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check that every peer can be imported")
    parser.add_argument("--against", metavar="TEXT", help="only the comparisons with TEXT in their name")
    parser.add_argument("--update", action="store_true", help="overwrite the committed results")
    parser.add_argument("--python", type=Path, default=PYTHON, help="Python interpreter of the peers' environment")
    parser.add_argument(
        "--gym-pybullet-drones", type=Path, metavar="PATH", help="checkout of gym-pybullet-drones to measure"
    )
    options = parser.parse_args()
    try:
        check_peers(options.python)
        if options.check:
            return
        arguments = Console(), options.python, options.gym_pybullet_drones
        results = everything(*arguments) if options.against is None else against(options.against, *arguments)
    except PeerError as error:
        sys.exit(str(error))
    folder = HERE / "results" if options.update else HERE.parent / "out" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("cpu.json" if options.against is None else "against.json")
    write_text(path, json.dumps(results, indent=2) + "\n")
    print(f"written to {os.path.relpath(path)}")


if __name__ == "__main__":
    main()
