"""Measure complete flights on a GPU: a million Crazyflies on a round trip from the ground in turbulence, twenty seconds each.

    PYTHONPATH=src python3 bench/gpu_flights.py --out bench/results/gpu_flights.json

needs NumPy and JAX only. Physics at 1 kHz, `geometric` at 250 Hz, Dryden wind at 50 Hz, a different seed for every flight; then
the same with an IMU and motion capture through the error-state Kalman filter. `flights/s` covers the whole call without
compilation: key derivation, initial states, flight, and transfer of the results. Beside it stand the same rate in physics
steps, and the rate of the bare physics in a separate kernel, with and without contact. `--small` runs a test without a GPU.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from there_and_back import plain_crazyflie, there_and_back
from timing import describe_results

import samara
from samara.compiler.jax.scan import compile_scan_pallas, flat_body
from samara.compiler.stepper import Stepper
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.multirotor import complete_environment
from samara.physics.types import Vehicle
from samara.sim.executors.jax import operation_counts
from samara.sim.fly_many_jax import compile_segments, derive_keys, fly_batch_jax, start_values
from samara.vehicles.trim import hover

STEPS_PER_SECOND = 1000
REPEATS = 3


def flights(
    n: int,
    duration: float,
    *,
    filtered: bool,
    backend: str = "pallas",
    vary: Any = None,
    vehicle: Vehicle | None = None,
    **extra_options: Any,
) -> dict[str, Any]:
    """Measure the whole call, and the part of it on the device."""
    scenario, seeds = there_and_back(duration, filtered=filtered, vehicle=vehicle), np.arange(n)
    options: dict[str, Any] = {"backend": backend, "dtype": "float32", "fast": True, **extra_options}
    times, result = [], None
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        result = fly_batch_jax(scenario, seeds, vary=vary, **options)
        times.append(time.perf_counter() - begin)
    ((segment, run),) = compile_segments(scenario, tuple(vary or ()), **options)
    values = start_values(scenario, segment, seeds, vary or {}, None, None, "float32")
    keys = {source: derive_keys(seeds, source) for source in segment.program.sources}
    on_device = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        jax.block_until_ready(run(values, keys, segment.tables))
        on_device.append(time.perf_counter() - begin)
    instruction_counts = {
        name: counts.instructions
        for name, counts in operation_counts(segment.program, values, dtype="float32", fast=True).items()
    }
    best = min(times[1:])
    assert result is not None
    first_flights = slice(0, 16)
    return {
        "flights": n,
        "flights_per_second": n / best,
        "steps_per_second": n * duration * STEPS_PER_SECOND / best,
        "device_flights_per_second": n / min(on_device),
        "seconds": times[1:],
        "device_seconds": on_device,
        "compile_seconds": times[0] - best,
        "instructions": instruction_counts,
        "landed": float(result.landed.mean()),
        "crashed": float(result.crashed.mean()),
        "rms_error": float(np.sqrt((result.rms_error**2).mean())),
        "worst_of_first": result.max_error[first_flights].tolist(),
        "rms_of_first": result.rms_error[first_flights].tolist(),
        "touchdown_of_first": result.max_touchdown_speed[first_flights].tolist(),
        "final_of_first": np.stack([x[first_flights] for x in result.final.p_W]).tolist(),
    }


def bare_physics(n: int, steps: int, *, contact: bool, skip_idle_contact: bool = False) -> dict[str, Any]:
    """Measure RK4 steps of the same vehicle alone, hovering under a held command, in one kernel."""
    vehicle = plain_crazyflie()
    vehicle = vehicle if contact else vehicle.without_effect("contact")
    body, templates, idle_path = Stepper(vehicle, "rk4", "pallas").step(complete_environment(vehicle))
    run = compile_scan_pallas(body, templates, idle_path if skip_idle_contact else None, dtype="float32", fast=True)
    state, command = hover(vehicle, Vec3(0.0, 0.0, 2.0))
    held_inputs = [*command, 1e-3, *flatten(complete_environment(vehicle))]
    carry = jnp.asarray(np.repeat(np.array(flatten(state), dtype=np.float32)[:, None], n, axis=1))
    times = []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        jax.block_until_ready(run(carry, held_inputs, None, steps, steps))
        times.append(time.perf_counter() - begin)
    best = min(times[1:])
    return {
        "drones": n,
        "steps_per_second": n * steps / best,
        "compile_seconds": times[0] - best,
        "instructions": flat_body(body, templates, "float32", True).work.instructions,
    }


Row = tuple[str, Callable[[], dict[str, Any]]]


def rows(n: int, duration: float, steps: int) -> list[Row]:
    def flight_row(name: str, filtered: bool, count: int = n, **options: Any) -> Row:
        return name, lambda: flights(count, duration, filtered=filtered, **options)

    spread = np.random.default_rng(1).uniform(0.9, 1.1, (2, n))
    vehicle = plain_crazyflie()
    varied = {
        "mass": vehicle.mass * spread[0],
        "rotors.k_thrust": np.outer(spread[1], [rotor.k_thrust for rotor in vehicle.rotors]),
    }
    return [
        ("bare physics, no contact", lambda: bare_physics(n, steps, contact=False)),
        (
            "bare physics, contact left out in the air",
            lambda: bare_physics(n, steps, contact=True, skip_idle_contact=True),
        ),
        ("bare physics, contact at every step", lambda: bare_physics(n, steps, contact=True)),
        flight_row("geometric", False),
        flight_row("geometric, the Crazyflie as identified", False, vehicle=samara.vehicle("crazyflie")),
        flight_row("geometric, own mass and thrust", False, vary=varied),
        flight_row("Kalman filter", True, n // 4),
        flight_row("Kalman filter, all of them", True),
        flight_row("geometric, a loop of XLA", False, n // 4, backend="jax"),
    ]


def line(name: str, result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{name:42s} {result['error']}"
    steps = f"{result['steps_per_second'] / 1e9:7.2f} G steps/s  compiled in {result['compile_seconds']:5.1f} s"
    if "flights_per_second" not in result:
        return f"{name:42s} {'':35s} {steps}  {result['instructions']} instructions"
    per_second = f"{result['flights_per_second']:9.0f} flights/s ({result['device_flights_per_second']:9.0f} on device)"
    end = f"landed {100 * result['landed']:.1f} %, crashed {100 * result['crashed']:.2f} %, RMS {result['rms_error']:.4f} m"
    return f"{name:42s} {per_second} {steps}  {end}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results here as JSON, after every row")
    parser.add_argument("--small", action="store_true", help="fly a few flights of 0.1 s to test the script")
    parser.add_argument("--budget", type=float, default=300.0, help="do not start a row after this time [s]")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only the rows with TEXT in their name")
    options = parser.parse_args()
    n, duration = (8, 0.1) if options.small else (1 << 20, 20.0)
    device, begin = jax.devices()[0].device_kind, time.perf_counter()
    document: dict[str, Any] = {
        **describe_results("bench/gpu_flights.py: whole flights on a GPU", device),
        "jax": jax.__version__,
        "rows": [],
    }
    print(f"{device}, JAX {jax.__version__}: flights of {duration:g} s, float32", flush=True)
    for name, measure in rows(n, duration, 10 if options.small else 1000):
        if options.only not in name:
            continue
        try:
            if time.perf_counter() - begin > options.budget:
                raise TimeoutError(f"skipped: the budget of {options.budget:g} s is used up")
            result = measure()
        except Exception as error:  # a row that fails reports its error; the other rows follow
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        document["rows"].append({"name": name} | result)
        print(line(name, result), f" [{time.perf_counter() - begin:.0f} s]", flush=True)
        if options.out:
            temporary = options.out.with_name(f".{options.out.name}.{os.getpid()}")
            temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            temporary.replace(options.out)


if __name__ == "__main__":
    main()
