"""Measure RK4 steps per second of a million Crazyflies in float32 on a GPU, beside the limits of the hardware.

    PYTHONPATH=src python3 bench/gpu.py --out bench/results/gpu.json

needs NumPy and JAX only. Every row names its effects and the parameters that differ between drones. Two limits stand beside it:
the rate at which the multiply-add units could issue the step's instructions, and the rate at which memory could move the data.
Instructions are counted in the trace; a product used by one sum only counts as one instruction with that sum. Divisions, roots
and sines count once although they take several instructions. Drones fly a metre above the ground, where the kernel branches
around contact, and the instructions are those of that branch. `error` is the largest distance from the same flight in NumPy's
float64, over four drones.
"""

import argparse
import json
import os
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
from timing import describe_results

import samara
from samara.compiler.jax.arrays import Launch
from samara.compiler.jax.scan import compile_scan_jax, compile_scan_pallas, flat_body
from samara.compiler.scan import IdlePath, Templates, compile_scan_python
from samara.control.geometric import geometric
from samara.core.algebra import Vec3, diagonal
from samara.core.integrate import rk4
from samara.core.tree import flatten
from samara.physics.idle_effects import (
    has_idle_conditions,
    is_idle,
    resume_effect_states,
    suspend_effect_states,
    suspend_idle_effects,
)
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Reference

DT = 1e-3
REPEATS = 5
CHECKED_DRONES = 4
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
    """A body to scan: the vehicle, whether a controller closes the loop, and the parameters that differ between drones."""

    vehicle: Any
    closed_loop: bool = False
    parameters: str = "none"  # or "eight" or "all"

    def numbers(self) -> tuple[Any, ...]:
        """Return the parameters that differ between drones, with the values of the file."""
        v = self.vehicle
        if self.parameters == "eight":
            J, rotor = v.inertia_B, v.rotors[0]
            return (v.mass, J.xx, J.yy, J.zz, rotor.k_thrust, rotor.k_torque, rotor.motor.time_constant_up, 1.0)
        return (v.mass, v.inertia_B, v.rotors, v.parameters) if self.parameters == "all" else ()

    def vehicle_with(self, numbers: Any) -> Any:
        v = self.vehicle
        if self.parameters == "eight":
            mass, jx, jy, jz, k_thrust, k_torque, lag, drag = numbers
            changes = {"rotors.k_thrust": k_thrust, "rotors.k_torque": k_torque}
            changes |= {
                "rotors.motor.time_constant_up": lag,
                "rotors.motor.time_constant_down": lag,
                "drag.linear": v["drag"].linear * drag,
            }
            return v.replace({"mass": mass, "inertia_B": diagonal(Vec3(jx, jy, jz)), **changes})
        if self.parameters == "all":
            mass, inertia_B, rotors, parameters = numbers
            return replace(v, mass=mass, inertia_B=inertia_B, rotors=rotors, parameters=parameters)
        return v

    def body(self) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
        command_vehicle = self.command_function()

        def step(state: Any, held_inputs: Any, inputs: Any) -> tuple[Any, Any]:
            vehicle, command = command_vehicle(state, held_inputs)
            advanced = rk4(lambda s: derivative(s, command, vehicle), state, DT)
            return advanced, advanced

        return step

    def idle_path_or_none(self) -> IdlePath | None:
        """Return the path that skips contact, or None if the vehicle has no idle conditions."""
        command_vehicle = self.command_function()

        def step(state: Any, held_inputs: Any, inputs: Any) -> tuple[Any, Any, Any]:
            vehicle, command = command_vehicle(state, held_inputs)
            rate = lambda s: derivative(s, command, suspend_idle_effects(vehicle))  # noqa: E731
            advanced, idle = resume_effect_states(rk4(rate, suspend_effect_states(state, vehicle), DT))
            return advanced, advanced, idle

        def idle(state: Any, held_inputs: Any, inputs: Any) -> Any:
            return is_idle(state, self.vehicle_with(held_inputs[1]), CALM)

        return IdlePath(idle, step) if has_idle_conditions(self.vehicle) else None

    def command_function(self) -> Callable[[Any, Any], tuple[Any, Any]]:
        """Return a function from state and held inputs to the vehicle and its command."""
        controller = geometric(self.vehicle)

        def steer(state: Any, held_inputs: Any) -> tuple[Any, Any]:
            command_or_target, numbers = held_inputs
            vehicle, command = self.vehicle_with(numbers), command_or_target
            if self.closed_loop:
                command, _ = controller(state, Reference(Vec3(*command_or_target)), vehicle, ())
            return vehicle, command

        return steer

    def templates(self) -> Templates:
        state, command = samara.hover(self.vehicle)
        return Templates(state, (tuple(state.p_W) if self.closed_loop else command, self.numbers()), ())

    def batch(self, n: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return drones at hover with random angular velocities, commands or targets, and parameters; one column per drone."""
        templates, rng = self.templates(), np.random.default_rng(1)
        carry = np.repeat(np.array(flatten(templates.carry), dtype=np.float32)[:, None], n, axis=1)
        carry[2] += np.float32(1.0)
        carry[10:13] += rng.normal(0.0, 0.3, (3, n))
        commands_or_target, numbers = (flatten(part) for part in templates.held_inputs)
        spread = 0.5 if self.closed_loop else 0.005
        held_inputs = [np.float32(x) + rng.normal(0.0, spread, n).astype(np.float32) for x in commands_or_target]
        return carry, held_inputs + [np.float32(x) * rng.uniform(0.9, 1.1, n).astype(np.float32) for x in numbers]


@dataclass(frozen=True)
class Row:
    """One line of the table; `every` is the recording interval in steps."""

    name: str
    model: Model
    backend: str = "pallas"
    fast: bool = False
    launch: Launch = field(default_factory=Launch)
    every: int = 0  # 0: nothing is recorded


def rows() -> list[Row]:
    dynamics, closed_loop = Model(PLAIN), Model(PLAIN, closed_loop=True)
    eight_varied, all_varied = replace(closed_loop, parameters="eight"), replace(closed_loop, parameters="all")
    table = [Row("dynamics, one lax.scan", dynamics, backend="jax")]
    for fast in (False, True):
        table += [
            Row("dynamics", dynamics, fast=fast),
            Row("geometric controller", closed_loop, fast=fast),
            Row("controller, 8 parameters per drone", eight_varied, fast=fast),
            Row("default effects", Model(FULL), fast=fast),
        ]
    shapes = [Launch(128, 4), Launch(256, 4), Launch(512, 8), Launch(512, 16), Launch(64, 2), Launch(256, 8, 3)]
    table += [Row("dynamics", dynamics, fast=True, launch=shape) for shape in shapes]
    table += [Row("geometric controller", closed_loop, fast=True, launch=shape) for shape in shapes[:2]]
    table += [Row("controller, 8 parameters per drone", eight_varied, fast=True, launch=shape) for shape in shapes[:2]]
    table += [
        Row("dynamics, every 10th state recorded", dynamics, fast=True, every=10),
        Row("controller, all parameters per drone", all_varied, fast=True, launch=Launch(128, 4)),
        Row("controller, all parameters per drone", all_varied, fast=True),
    ]
    return table


def measure(row: Row, n: int, steps: int) -> dict[str, Any]:
    """Compile, warm up, and measure the best of several calls."""
    body, templates = row.model.body(), row.model.templates()
    scan_body = body if row.every else lambda carry, held_inputs, inputs: (body(carry, held_inputs, inputs)[0], ())
    idle_path = row.model.idle_path_or_none()
    if idle_path and not row.every:
        idle_path = idle_path._replace(body=_without_records(idle_path.body))
    every = row.every or steps
    if row.backend == "jax":
        run = compile_scan_jax(scan_body, templates, dtype="float32", fast=row.fast)
    else:
        run = compile_scan_pallas(scan_body, templates, idle_path, dtype="float32", fast=row.fast, launch=row.launch)
    counted_body = _with_idle_output(idle_path.body) if idle_path and row.backend == "pallas" else scan_body
    operation_counts = flat_body(counted_body, templates, "float32", row.fast).work
    carry, held_inputs = row.model.batch(n)
    start, device_inputs = jnp.asarray(carry), [jnp.asarray(x) for x in held_inputs]
    times = []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        end, _records = jax.block_until_ready(run(start, device_inputs, None, steps, every))
        times.append(time.perf_counter() - begin)
    best = min(times[1:])
    positions = np.asarray(end[:3, :CHECKED_DRONES], dtype=float)
    expected = reference_positions(row.model, n, steps)
    rate = n * steps / best
    lanes, bandwidth = device_limits(jax.devices()[0].device_kind)
    traffic = bytes_per_step(row, len(carry), len(held_inputs), steps)
    limits = [
        limit for limit in (lanes and lanes / operation_counts.instructions, bandwidth and bandwidth / traffic) if limit
    ]
    return {
        "steps_per_second": rate,
        "operations": operation_counts.operations,
        "instructions": operation_counts.instructions,
        "bytes_per_step": traffic,
        "limit_arithmetic": lanes and lanes / operation_counts.instructions,
        "limit_memory": bandwidth and bandwidth / traffic,
        "fraction": rate / min(limits) if limits else None,
        "seconds": times[1:],
        "compile_seconds": times[0] - best,
        "error_m": float(np.abs(positions - expected).max()),
    }


def _without_records(body: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any) -> tuple[Any, Any, Any]:
        advanced, _, idle = body(*arguments)
        return advanced, (), idle

    return step


def _with_idle_output(body: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any) -> tuple[Any, Any]:
        advanced, outputs, idle = body(*arguments)
        return advanced, (outputs, idle)

    return step


def bytes_per_step(row: Row, component_count: int, held_count: int, steps: int) -> float:
    """Return the bytes moved per drone and step: the carry at every step of a scan, but once per call in a kernel."""
    moved_count = 2 * component_count + held_count
    records = component_count / row.every if row.every else 0.0
    return 4.0 * ((moved_count if row.backend == "jax" else moved_count / steps) + records)


def device_limits(device: str) -> tuple[float | None, float | None]:
    return next((limits for name, limits in DEVICES.items() if name in device), (None, None))


@cache
def reference_positions(model: Model, n: int, steps: int) -> np.ndarray:
    """Return the final positions of the first drones, by NumPy in float64 from the same float32 inputs."""
    carry, held_inputs = model.batch(n)
    reference = compile_scan_python(model.body(), model.templates(), dtype="float64")
    checked_inputs = [np.asarray(x[:CHECKED_DRONES], dtype=float) for x in held_inputs]
    return reference(np.asarray(carry[:, :CHECKED_DRONES], dtype=float), checked_inputs, None, steps, steps)[0][:3]


def line(row: Row, result: dict[str, Any]) -> str:
    variant = f"{row.backend}{' fast' if row.fast else ''}"
    if row.backend == "pallas":
        variant += f" {row.launch.block}/{row.launch.warps}/{row.launch.stages}"
    head = f"{row.name:38s} {variant:22s}"
    if "error" in result:
        return f"{head} {result['error']}"

    def giga(x: float | None) -> str:
        return f"{x / 1e9:8.2f}" if x else "       –"

    fraction = f"{100 * result['fraction']:4.0f} %" if result["fraction"] else "     –"
    return (
        f"{head}{giga(result['steps_per_second'])} G/s{giga(result['limit_arithmetic'])}{giga(result['limit_memory'])}"
        f" {fraction} {result['operations']:5d} {result['instructions']:5d}"
        f" {result['compile_seconds']:6.1f} s  {result['error_m']:.1e} m"
    )


def write(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results here as JSON, after every row")
    parser.add_argument("--drones", type=int, default=1 << 20)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=330.0, help="do not start a row after this time [s]")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only the rows with TEXT in their name")
    options = parser.parse_args()

    began = time.perf_counter()
    device = jax.devices()[0].device_kind
    document: dict[str, Any] = {
        **describe_results("bench/gpu.py: steps on a GPU", device),
        "jax": jax.__version__,
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
                raise TimeoutError(f"skipped: the budget of {options.budget:g} s is used up")
            result = measure(row, options.drones, options.steps)
        except Exception as error:  # a row that fails reports its error; the other rows follow
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        model = row.model
        description = {
            "name": row.name,
            "backend": row.backend,
            "fast": row.fast,
            "launch": launch_fields(row),
            "recorded_every": row.every,
            "vehicle": model.vehicle.name,
            "effects": [effect.name for effect in model.vehicle.structure.effects],
            "controller": "geometric" if model.closed_loop else None,
            "own_parameters": len(flatten(model.numbers())),
        }
        document["rows"].append(description | result)
        print(line(row, result), f" [{time.perf_counter() - began:.0f} s]", flush=True)
        if options.out:
            write(options.out, document)
    print(
        "full aerodynamics: dynamic inflow, H-force, flapping, drag, ground effect, independent Dryden wind for every drone"
    )
    for name, vehicle in (("one inflow state a rotor", FULL_AIR), ("three inflow states a rotor", FULL_3)):
        if options.only and options.only not in f"full aerodynamics, {name}":
            continue
        result = gpu_batch(vehicle, options.drones, Launch())
        lanes, _ = device_limits(device)
        fraction = result["steps_per_second"] * result["instructions"] / lanes if lanes else None
        effects = [effect.name for effect in vehicle.structure.effects]
        description = {"name": f"full aerodynamics, {name}", "backend": "pallas", "fast": True, "effects": effects}
        document["rows"].append(description | result | {"fraction": fraction})
        print(
            f"{name:38s} {result['steps_per_second'] / 1e9:.2f} G/s, {result['instructions']:.0f} instructions, "
            f"{100 * fraction if fraction else 0:.0f} % of the arithmetic limit, compiled in {result['compile_seconds']:.1f} s",
            flush=True,
        )
        if options.out:
            write(options.out, document)


def launch_fields(row: Row) -> dict[str, int] | None:
    return dict(row.launch._asdict()) if row.backend == "pallas" else None


if __name__ == "__main__":
    main()
