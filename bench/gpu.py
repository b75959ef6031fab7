"""How many drones a GPU flies: RK4 steps per second of a million Crazyflies in float32, beside what the hardware allows.

    PYTHONPATH=src python3 bench/gpu.py --out bench/results/gpu.json

needs NumPy and JAX only. Every row names its effects and what differs from drone to drone. Two limits stand beside it: how
fast the multiply-add units could issue the step's instructions, were nothing else in the way, and how fast memory could move
what has to be read and written. Instructions are counted in the trace, a product that only one sum uses as one with that sum;
divisions, roots and sines count once although they take several. Drones fly a metre above the ground, where the kernel branches
around contact, and its instructions are those of that way. `error` is the largest distance from the same flight in NumPy's
float64, of four drones.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from aero import FULL as FULL_AIR
from aero import FULL_3, gpu_batch

import samara
from samara.compiler.jax.arrays import Launch
from samara.compiler.jax.scan import compile_scan_jax, compile_scan_pallas, flat_body
from samara.compiler.scan import Quiet, Templates, compile_scan_python
from samara.control.geometric import geometric
from samara.core.algebra import Vec3, diagonal
from samara.core.integrate import rk4
from samara.core.tree import flatten
from samara.physics.idle_effects import all_idle, has_idle, quiet, quieted, woken
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Reference

DT = 1e-3
REPEATS = 5
CHECKED = 4
DEVICES = {  # float32 lanes × boost clock [1/s], and memory [B/s], by the makers' data sheets
    "H200": (132 * 128 * 1.98e9, 4.8e12),
    "H100": (132 * 128 * 1.98e9, 3.35e12),
    "A100": (108 * 64 * 1.41e9, 1.555e12),
    "4090": (128 * 128 * 2.52e9, 1.008e12),
}
FULL = samara.vehicle("crazyflie_documented")
PLAIN = FULL.without_effect("contact", "damping")


@dataclass(frozen=True)
class Model:
    """A body to scan: the vehicle, who steers, and which numbers every drone has of its own."""

    vehicle: Any
    closed_loop: bool = False
    parameters: str = "none"  # or "eight" or "all"

    def numbers(self) -> tuple[Any, ...]:
        """The parameters that differ from drone to drone, at the values of the file."""
        v = self.vehicle
        if self.parameters == "eight":
            J, rotor = v.inertia_B, v.rotors[0]
            return (v.mass, J.xx, J.yy, J.zz, rotor.k_thrust, rotor.k_torque, rotor.motor.rise, 1.0)
        return (v.mass, v.inertia_B, v.rotors, v.parameters) if self.parameters == "all" else ()

    def vehicle_of(self, numbers: Any) -> Any:
        v = self.vehicle
        if self.parameters == "eight":
            mass, jx, jy, jz, k_thrust, k_torque, lag, drag = numbers
            changes = {"rotors.k_thrust": k_thrust, "rotors.k_torque": k_torque}
            changes |= {"rotors.motor.rise": lag, "rotors.motor.fall": lag, "drag.linear": v["drag"].linear * drag}
            return v.replace({"mass": mass, "inertia_B": diagonal(Vec3(jx, jy, jz)), **changes})
        if self.parameters == "all":
            mass, inertia_B, rotors, parameters = numbers
            return replace(v, mass=mass, inertia_B=inertia_B, rotors=rotors, parameters=parameters)
        return v

    def body(self) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
        steered = self.steered()

        def step(state: Any, held: Any, inputs: Any) -> tuple[Any, Any]:
            vehicle, command = steered(state, held)
            advanced = rk4(lambda s: derivative(s, command, vehicle), state, DT)
            return advanced, advanced

        return step

    def quiet(self) -> Quiet | None:
        """The way past contact, where there is any."""
        steered = self.steered()

        def step(state: Any, held: Any, inputs: Any) -> tuple[Any, Any, Any]:
            vehicle, command = steered(state, held)
            rate = lambda s: derivative(s, command, quiet(vehicle))  # noqa: E731
            advanced, idle = woken(rk4(rate, quieted(state, vehicle), DT))
            return advanced, advanced, idle

        def idle(state: Any, held: Any, inputs: Any) -> Any:
            return all_idle(state, self.vehicle_of(held[1]), CALM)

        return Quiet(idle, step) if has_idle(self.vehicle) else None

    def steered(self) -> Callable[[Any, Any], tuple[Any, Any]]:
        """The vehicle, and the command of who steers it."""
        controller = geometric(self.vehicle)

        def steer(state: Any, held: Any) -> tuple[Any, Any]:
            wanted, numbers = held
            vehicle, command = self.vehicle_of(numbers), wanted
            if self.closed_loop:
                command, _ = controller(state, Reference(Vec3(*wanted)), vehicle, ())
            return vehicle, command

        return steer

    def templates(self) -> Templates:
        state, command = samara.hover(self.vehicle)
        return Templates(state, (tuple(state.p_W) if self.closed_loop else command, self.numbers()), ())

    def batch(self, n: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Drones at hover that turn, each a little differently, with commands or places and parameters of their own."""
        templates, rng = self.templates(), np.random.default_rng(1)
        carry = np.repeat(np.array(flatten(templates.carry), dtype=np.float32)[:, None], n, axis=1)
        carry[2] += np.float32(1.0)
        carry[10:13] += rng.normal(0.0, 0.3, (3, n))
        wanted, numbers = (flatten(part) for part in templates.held)
        spread = 0.5 if self.closed_loop else 0.005
        held = [np.float32(x) + rng.normal(0.0, spread, n).astype(np.float32) for x in wanted]
        return carry, held + [np.float32(x) * rng.uniform(0.9, 1.1, n).astype(np.float32) for x in numbers]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    model: Model
    backend: str = "pallas"
    fast: bool = False
    launch: Launch = field(default_factory=Launch)
    every: int = 0  # 0: nothing is recorded


def rows() -> list[Row]:
    dynamics, steered = Model(PLAIN), Model(PLAIN, closed_loop=True)
    eight, everything = replace(steered, parameters="eight"), replace(steered, parameters="all")
    table = [Row("dynamics, one lax.scan", dynamics, backend="jax")]
    for fast in (False, True):
        table += [
            Row("dynamics", dynamics, fast=fast),
            Row("geometric controller", steered, fast=fast),
            Row("controller, 8 parameters per drone", eight, fast=fast),
            Row("default effects", Model(FULL), fast=fast),
        ]
    shapes = [Launch(128, 4), Launch(256, 4), Launch(512, 8), Launch(512, 16), Launch(64, 2), Launch(256, 8, 3)]
    table += [Row("dynamics", dynamics, fast=True, launch=shape) for shape in shapes]
    table += [Row("geometric controller", steered, fast=True, launch=shape) for shape in shapes[:2]]
    table += [Row("controller, 8 parameters per drone", eight, fast=True, launch=shape) for shape in shapes[:2]]
    table += [
        Row("dynamics, every 10th state recorded", dynamics, fast=True, every=10),
        Row("controller, all parameters per drone", everything, fast=True, launch=Launch(128, 4)),
        Row("controller, all parameters per drone", everything, fast=True),
    ]
    return table


def measure(row: Row, n: int, steps: int) -> dict[str, Any]:
    """Compile, warm up, then the best of several calls."""
    body, templates = row.model.body(), row.model.templates()
    recorded = body if row.every else lambda carry, held, inputs: (body(carry, held, inputs)[0], ())
    brief = row.model.quiet()
    if brief and not row.every:
        brief = brief._replace(body=_unrecorded(brief.body))
    every = row.every or steps
    if row.backend == "jax":
        run = compile_scan_jax(recorded, templates, dtype="float32", fast=row.fast)
    else:
        run = compile_scan_pallas(recorded, templates, brief, dtype="float32", fast=row.fast, launch=row.launch)
    way = _and_idle(brief.body) if brief and row.backend == "pallas" else recorded
    count = flat_body(way, templates, "float32", row.fast).work
    carry, held = row.model.batch(n)
    start, own = jnp.asarray(carry), [jnp.asarray(x) for x in held]
    times = []
    for _ in range(1 + REPEATS):
        before = time.perf_counter()
        end, _records = jax.block_until_ready(run(start, own, None, steps, every))
        times.append(time.perf_counter() - before)
    best = min(times[1:])
    positions = np.asarray(end[:3, :CHECKED], dtype=float)
    expected = true_positions(row.model, n, steps)
    rate = n * steps / best
    lanes, bandwidth = limits_of(jax.devices()[0].device_kind)
    traffic = bytes_per_step(row, len(carry), len(held), steps)
    limits = [limit for limit in (lanes and lanes / count.instructions, bandwidth and bandwidth / traffic) if limit]
    return {
        "steps_per_second": rate,
        "operations": count.operations,
        "instructions": count.instructions,
        "bytes_per_step": traffic,
        "limit_arithmetic": lanes and lanes / count.instructions,
        "limit_memory": bandwidth and bandwidth / traffic,
        "fraction": rate / min(limits) if limits else None,
        "seconds": times[1:],
        "compile_seconds": times[0] - best,
        "error_m": float(np.abs(positions - expected).max()),
    }


def _unrecorded(body: Callable[..., Any]) -> Callable[..., Any]:
    def step(*given: Any) -> tuple[Any, Any, Any]:
        advanced, _, idle = body(*given)
        return advanced, (), idle

    return step


def _and_idle(body: Callable[..., Any]) -> Callable[..., Any]:
    def step(*given: Any) -> tuple[Any, Any]:
        advanced, outputs, idle = body(*given)
        return advanced, (outputs, idle)

    return step


def bytes_per_step(row: Row, components: int, held: int, steps: int) -> float:
    """float32 numbers moved per drone and step: all of the carry at every step of a scan, once per call in a kernel."""
    moved = 2 * components + held
    records = components / row.every if row.every else 0.0
    return 4.0 * ((moved if row.backend == "jax" else moved / steps) + records)


def limits_of(device: str) -> tuple[float | None, float | None]:
    return next((limits for name, limits in DEVICES.items() if name in device), (None, None))


@cache
def true_positions(model: Model, n: int, steps: int) -> np.ndarray:
    """Where the first drones end up, in NumPy and float64 from the same float32 numbers."""
    carry, held = model.batch(n)
    reference = compile_scan_python(model.body(), model.templates(), dtype="float64")
    few = [np.asarray(x[:CHECKED], dtype=float) for x in held]
    return reference(np.asarray(carry[:, :CHECKED], dtype=float), few, None, steps, steps)[0][:3]


def line(row: Row, result: dict[str, Any]) -> str:
    how = f"{row.backend}{' fast' if row.fast else ''}"
    if row.backend == "pallas":
        how += f" {row.launch.block}/{row.launch.warps}/{row.launch.stages}"
    head = f"{row.name:38s} {how:22s}"
    if "error" in result:
        return f"{head} {result['error']}"

    def giga(x: float | None) -> str:
        return f"{x / 1e9:8.2f}" if x else "       –"

    share = f"{100 * result['fraction']:4.0f} %" if result["fraction"] else "     –"
    return (
        f"{head}{giga(result['steps_per_second'])} G/s{giga(result['limit_arithmetic'])}{giga(result['limit_memory'])}"
        f" {share} {result['operations']:5d} {result['instructions']:5d}"
        f" {result['compile_seconds']:6.1f} s  {result['error_m']:.1e} m"
    )


def write(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results here as JSON, after every row")
    parser.add_argument("--drones", type=int, default=1 << 20)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=330.0, help="start no row after so many seconds")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args()

    began = time.perf_counter()
    device = jax.devices()[0].device_kind
    document: dict[str, Any] = {
        "device": device,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "drones": options.drones,
        "steps": options.steps,
        "integrator": "rk4",
        "dtype": "float32",
        "rows": [],
    }
    print(f"{device}, JAX {jax.__version__}: {options.drones} drones, {options.steps} RK4 steps of {DT} s, float32")
    print(f"{'':61s}{'measured':>12s}  arithm.   memory  of it   ops instr  compile    error", flush=True)
    for row in rows():
        if options.only not in row.name:
            continue
        try:
            if time.perf_counter() - began > options.budget:
                raise TimeoutError(f"left out: {options.budget:g} s are over")
            result = measure(row, options.drones, options.steps)
        except Exception as error:  # a row that fails says so, and the others go on
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        model = row.model
        about = {
            "name": row.name,
            "backend": row.backend,
            "fast": row.fast,
            "launch": asdict_launch(row),
            "recorded_every": row.every,
            "vehicle": model.vehicle.name,
            "effects": [effect.name for effect in model.vehicle.structure.effects],
            "controller": "geometric" if model.closed_loop else None,
            "own_parameters": len(flatten(model.numbers())),
        }
        document["rows"].append(about | result)
        print(line(row, result), f" [{time.perf_counter() - began:.0f} s]", flush=True)
        if options.out:
            write(options.out, document)
    print(
        "full aerodynamics: dynamic inflow, H-force, flapping, drag, ground effect, Dryden wind of its own for every drone"
    )
    for name, vehicle in (("one inflow state a rotor", FULL_AIR), ("three inflow states a rotor", FULL_3)):
        if options.only and options.only not in f"full aerodynamics, {name}":
            continue
        result = gpu_batch(vehicle, options.drones, Launch())
        lanes, _ = limits_of(device)
        share = result["steps_per_second"] * result["instructions"] / lanes if lanes else None
        effects = [effect.name for effect in vehicle.structure.effects]
        about = {"name": f"full aerodynamics, {name}", "backend": "pallas", "fast": True, "effects": effects}
        document["rows"].append(about | result | {"fraction": share})
        print(
            f"{name:38s} {result['steps_per_second'] / 1e9:.2f} G/s, {result['instructions']:.0f} instructions, "
            f"{100 * share if share else 0:.0f} % of the arithmetic limit, compiled in {result['compile_seconds']:.1f} s",
            flush=True,
        )
        if options.out:
            write(options.out, document)


def asdict_launch(row: Row) -> dict[str, int] | None:
    return dict(row.launch._asdict()) if row.backend == "pallas" else None


if __name__ == "__main__":
    main()
