"""Measure full aerodynamics: the cost of each effect, and a batch of drones with all effects in turbulence.

The vehicle is the bench's Crazyflie with body drag, dynamic inflow, H-force, flapping and ground effect. Every drone flies
through independent Dryden turbulence, sampled at 100 Hz and held for ten RK4 steps of 1 ms, as in a scenario. The time covers
everything: the normals, the wind and the steps.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import best

import samara
from samara.compiler.scan import Templates
from samara.core.algebra import Vec3
from samara.core.integrate import rk4
from samara.core.tree import flatten
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Vehicle
from samara.vehicles.build import with_effects
from samara.wind.turbulence import Dryden

DT = 1e-3
STEPS_PER_WIND_SAMPLE = 10  # physics steps per wind sample
DRYDEN = Dryden(Vec3(5.0, 0.0, 0.0))
PLAIN = samara.vehicle("crazyflie_documented").without_effect("contact", "damping")
BLADES = {"blades": 2.0, "blade_inertia": 2e-9, "hinge_offset": 0.1}
FULL = with_effects(PLAIN, {"rotor_air": {"model": "dynamic"}, "flapping": BLADES, "ground_effect": True})
FULL_3 = with_effects(PLAIN, {"rotor_air": {"model": "dynamic_3"}, "flapping": BLADES, "ground_effect": True})
EFFECTS: dict[str, dict[str, Any]] = {
    "rotor drag": {"rotor_drag": {"coefficient": 1e-6}},
    "ground effect": {"ground_effect": True},
    "ceiling effect": {"ceiling_effect": {"point_W": Vec3(0.0, 0.0, 3.0)}},
    "inflow, one state": {"rotor_air": {"model": "dynamic"}},
    "inflow, three states": {"rotor_air": {"model": "dynamic_3"}},
    "inflow in balance": {"rotor_air": {"model": "momentum"}},
    "inflow, one state, and flapping": {"rotor_air": {"model": "dynamic"}, "flapping": BLADES},
    "inflow, one state, and propwash": {"rotor_air": {"model": "dynamic"}, "propwash": True},
    "imbalance": {"imbalance": True},
    "arms that bend and twist": {"arms": {"frequency": 60.0}},
    "slung load": {"slung_load": {"mass": 0.005, "length": 0.5}},
}


def flight(
    vehicle: Vehicle, advance: Callable[..., Any] = rk4
) -> tuple[Callable[[Any, Any, Any], tuple[Any, Any]], Templates]:
    """Return the body of one RK4 step in a held wind, and its templates."""
    state, command = samara.hover(vehicle)

    def step(state_in: Any, held_inputs: Any, inputs: Any) -> tuple[Any, Any]:
        command, wind_W = held_inputs
        environment = CALM._replace(wind_W=Vec3(*wind_W))
        return advance(lambda x: derivative(x, command, vehicle, environment), state_in, DT), ()

    return step, Templates(state, (command, (0.0, 0.0, 0.0)), ())


def wind() -> tuple[Callable[[Any, Any, Any], tuple[Any, Any]], Templates]:
    """Return the body that samples each drone's turbulence at its position and velocity, and its templates."""

    def step(carry: Any, held_inputs: Any, inputs: Any) -> tuple[Any, Any]:
        p_W, v_W = held_inputs
        wind_W, turbulence_state = DRYDEN.sample_at(
            0.0, STEPS_PER_WIND_SAMPLE * DT, inputs, carry[0], Vec3(*p_W), Vec3(*v_W)
        )
        return (turbulence_state, tuple(wind_W)), ()

    unit_z = (0.0, 0.0, 1.0)
    return step, Templates((DRYDEN.initial(), (0.0,) * 3), (unit_z, unit_z), (0.0,) * DRYDEN.normals_needed)


def repeat_template(tree: Any, n: int, dtype: str) -> np.ndarray:
    """Repeat the numbers of a template for `n` drones; shape (components, n)."""
    return np.repeat(np.array(flatten(tree), dtype=dtype)[:, None], n, axis=1)


def time_batch(vehicle: Vehicle, n: int = 16384, dtype: str = "float32", ticks: int = 4) -> float:
    """Measure the seconds per drone and RK4 step on this CPU."""
    from samara.compiler.llvm.scan import compile_scan_llvm

    (flight_body, flight_templates), (wind_body, wind_templates) = flight(vehicle), wind()
    fly = compile_scan_llvm(flight_body, flight_templates, dtype=dtype, fast=True)
    sample_wind = compile_scan_llvm(wind_body, wind_templates, dtype=dtype, fast=True)
    state, wind_carry = (
        repeat_template(flight_templates.carry, n, dtype),
        repeat_template(wind_templates.carry, n, dtype),
    )
    command, rng = [np.float32(u) for u in flatten(flight_templates.held_inputs[0])], np.random.default_rng(1)

    def run() -> None:
        states = state.copy()
        for _ in range(ticks):
            noise = rng.standard_normal((1, DRYDEN.normals_needed, n), dtype=dtype)
            sample_wind(wind_carry, list(states[:6]), noise, 1)
            fly(states, [*command, *wind_carry[-3:]], None, STEPS_PER_WIND_SAMPLE, STEPS_PER_WIND_SAMPLE)
        if not np.isfinite(states).all():
            raise FloatingPointError("the state of a drone is not finite")

    run()
    return best(run, 8) / (n * ticks * STEPS_PER_WIND_SAMPLE)


def effect_costs(n: int = 16384) -> list[dict[str, Any]]:
    """Measure each effect: instructions of one derivative, and nanoseconds of an RK4 step in a batch, float32."""
    from samara.compiler.llvm.scan import compile_scan_llvm

    rows = []
    vehicles = {"plain": PLAIN} | {name: with_effects(PLAIN, effects) for name, effects in EFFECTS.items()}
    vehicles |= {
        "ground contact": samara.vehicle("crazyflie_documented").without_effect("damping"),
        "all of the air": FULL,
    }
    for name, vehicle in vehicles.items():
        step, templates = flight(vehicle)
        run = compile_scan_llvm(step, templates, dtype="float32", fast=True)
        state, steps = repeat_template(templates.carry, n, "float32"), 10
        command = [np.float32(u) for u in flatten(templates.held_inputs[0])]

        def call(run: Any = run, state: Any = state, command: Any = command) -> None:
            run(state.copy(), [*command, 1.0, 0.0, 0.0], None, 10, 10)

        call()
        ns = 1e9 * best(call, 8) / (n * steps)
        rows.append(
            {
                "row": name,
                "instructions": _instructions(vehicle),
                "ns": ns,
                "times": ns / rows[0]["ns"] if rows else 1.0,
            }
        )
    return rows


def _instructions(vehicle: Vehicle) -> int:
    from samara.compiler.trace.folding_tape import trace_program

    state, command = samara.hover(vehicle)
    return len(
        trace_program(
            lambda s, u, w: (derivative(s, u, vehicle, CALM._replace(wind_W=w)),), state, command, CALM.wind_W
        ).instructions
    )


def rows() -> list[dict[str, Any]]:
    """Measure full aerodynamics in a batch in Dryden turbulence."""
    measurements = []
    for name, vehicle in (("full aerodynamics", FULL), ("full aerodynamics, 3 inflow states", FULL_3)):
        seconds = time_batch(vehicle)
        measurements.append(
            {
                "row": f"{name}, Dryden wind, batch 16384 float32 fast",
                "steps_per_s": 1.0 / seconds,
                "us_per_step": 1e6 * seconds,
                "n": 16384,
                "dtype": "float32",
                "effects": [e.name for e in vehicle.structure.effects],
            }
        )
    return measurements


def gpu_batch(vehicle: Vehicle, n: int, launch: Any, ticks: int = 20, repeats: int = 5) -> dict[str, float]:
    """Measure the same on JAX's first device in float32: steps per second, compile time, and whether the states stay finite."""
    import jax
    import jax.numpy as jnp

    from samara.compiler.jax.folding_scalar import rk4_in_kernel
    from samara.compiler.jax.scan import flat_body, kernel_function

    is_interpreted = jax.default_backend() == "cpu"
    (flight_body, flight_templates), (wind_body, wind_templates) = flight(vehicle, rk4_in_kernel), wind()
    fly = kernel_function(
        flight_body, flight_templates, dtype="float32", fast=True, launch=launch, interpret=is_interpreted
    )
    sample_wind = kernel_function(wind_body, wind_templates, dtype="float32", fast=True, interpret=is_interpreted)
    command = [jnp.float32(u) for u in flatten(flight_templates.held_inputs[0])]

    def tick(carry: Any, key: Any) -> tuple[Any, None]:
        states, wind_carry = carry
        noise = jax.random.normal(key, (1, DRYDEN.normals_needed, n), jnp.float32)
        wind_carry, _ = sample_wind(wind_carry, list(states[:6]), noise, 1, 1)
        states, _ = fly(states, [*command, *wind_carry[-3:]], None, STEPS_PER_WIND_SAMPLE, STEPS_PER_WIND_SAMPLE)
        return (states, wind_carry), None

    @jax.jit
    def run(states: Any, wind_carry: Any) -> Any:
        return jax.lax.scan(tick, (states, wind_carry), jax.random.split(jax.random.key(1), ticks))[0]

    start = [
        jnp.asarray(repeat_template(tree, n, "float32")) for tree in (flight_templates.carry, wind_templates.carry)
    ]
    begin = time.perf_counter()
    end, _ = jax.block_until_ready(run(*start))
    first_call_seconds = time.perf_counter() - begin
    seconds = best(lambda: jax.block_until_ready(run(*start)), repeats)
    operation_counts = flat_body(flight_body, flight_templates, "float32", True).work
    return {
        "steps_per_second": n * ticks * STEPS_PER_WIND_SAMPLE / seconds,
        "compile_seconds": first_call_seconds - seconds,
        "operations": operation_counts.operations,
        "instructions": operation_counts.instructions,
        "finite": float(np.isfinite(np.asarray(end)).all()),
        "spread_m": float(np.asarray(end)[:3].std(axis=1).max()),
    }
