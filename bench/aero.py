"""Full aerodynamics: what each effect costs, and a batch of drones in turbulence with all of it on.

The vehicle is the bench's Crazyflie with body drag, dynamic inflow, H-force, flapping and ground effect. Every drone flies
through Dryden turbulence of its own, drawn at 100 Hz and held through ten RK4 steps of 1 ms, as in a scenario. Timed is all of
it: the normals, the wind, the steps.
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
PER_WIND = 10  # physics steps to each of the wind
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
    """One RK4 step in a wind that is held"""
    state, command = samara.hover(vehicle)

    def step(own: Any, held: Any, inputs: Any) -> tuple[Any, Any]:
        command, wind_W = held
        environment = CALM._replace(wind_W=Vec3(*wind_W))
        return advance(lambda x: derivative(x, command, vehicle, environment), own, DT), ()

    return step, Templates(state, (command, (0.0, 0.0, 0.0)), ())


def wind() -> tuple[Callable[[Any, Any, Any], tuple[Any, Any]], Templates]:
    """One sample of each drone's turbulence, where it is and as fast as it flies"""

    def step(own: Any, held: Any, inputs: Any) -> tuple[Any, Any]:
        p_W, v_W = held
        blown_W, memory = DRYDEN.sample_at(0.0, PER_WIND * DT, inputs, own[0], Vec3(*p_W), Vec3(*v_W))
        return (memory, tuple(blown_W)), ()

    nowhere = (0.0, 0.0, 1.0)
    return step, Templates((DRYDEN.initial(), (0.0,) * 3), (nowhere, nowhere), (0.0,) * DRYDEN.normals_needed)


def filled(tree: Any, n: int, dtype: str) -> np.ndarray:
    """The numbers of a template, n times, component first"""
    return np.repeat(np.array(flatten(tree), dtype=dtype)[:, None], n, axis=1)


def batch(vehicle: Vehicle, n: int = 16384, dtype: str = "float32", ticks: int = 4) -> float:
    """Seconds per drone and RK4 step on this CPU"""
    from samara.compiler.llvm.scan import compile_scan_llvm

    (flying, flown), (blowing, blown) = flight(vehicle), wind()
    fly = compile_scan_llvm(flying, flown, dtype=dtype, fast=True)
    blow = compile_scan_llvm(blowing, blown, dtype=dtype, fast=True)
    state, air = filled(flown.carry, n, dtype), filled(blown.carry, n, dtype)
    command, rng = [np.float32(u) for u in flatten(flown.held[0])], np.random.default_rng(1)

    def run() -> None:
        own = state.copy()
        for _ in range(ticks):
            drawn = rng.standard_normal((1, DRYDEN.normals_needed, n), dtype=dtype)
            blow(air, list(own[:6]), drawn, 1)
            fly(own, [*command, *air[-3:]], None, PER_WIND, PER_WIND)
        if not np.isfinite(own).all():
            raise FloatingPointError("the flight left the numbers")

    run()
    return best(run, 8) / (n * ticks * PER_WIND)


def costs(n: int = 16384) -> list[dict[str, Any]]:
    """What each effect adds: instructions of one derivative, and nanoseconds of an RK4 step in a batch, float32"""
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
        state, steps = filled(templates.carry, n, "float32"), 10
        command = [np.float32(u) for u in flatten(templates.held[0])]

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
    from samara.compiler.trace.program import program_of

    state, command = samara.hover(vehicle)
    return len(
        program_of(
            lambda s, u, w: (derivative(s, u, vehicle, CALM._replace(wind_W=w)),), state, command, CALM.wind_W
        ).instructions
    )


def rows() -> list[dict[str, Any]]:
    """Full aerodynamics in a batch, in Dryden turbulence"""
    found = []
    for name, vehicle in (("full aerodynamics", FULL), ("full aerodynamics, 3 inflow states", FULL_3)):
        seconds = batch(vehicle)
        found.append(
            {
                "row": f"{name}, Dryden wind, batch 16384 float32 fast",
                "steps_per_s": 1.0 / seconds,
                "us_per_step": 1e6 * seconds,
                "n": 16384,
                "dtype": "float32",
                "effects": [e.name for e in vehicle.structure.effects],
            }
        )
    return found


def gpu_batch(vehicle: Vehicle, n: int, launch: Any, ticks: int = 20, repeats: int = 5) -> dict[str, float]:
    """The same on JAX's first device, float32: steps per second, seconds to compile, and whether the flight stays finite"""
    import jax
    import jax.numpy as jnp

    from samara.compiler.jax.folding_scalar import rk4_in_kernel
    from samara.compiler.jax.scan import flat_body, kernel_function

    simulated = jax.default_backend() == "cpu"
    (flying, flown), (blowing, blown) = flight(vehicle, rk4_in_kernel), wind()
    fly = kernel_function(flying, flown, dtype="float32", fast=True, launch=launch, interpret=simulated)
    blow = kernel_function(blowing, blown, dtype="float32", fast=True, interpret=simulated)
    command = [jnp.float32(u) for u in flatten(flown.held[0])]

    def tick(carried: Any, key: Any) -> tuple[Any, None]:
        own, air = carried
        drawn = jax.random.normal(key, (1, DRYDEN.normals_needed, n), jnp.float32)
        air, _ = blow(air, list(own[:6]), drawn, 1, 1)
        own, _ = fly(own, [*command, *air[-3:]], None, PER_WIND, PER_WIND)
        return (own, air), None

    @jax.jit
    def run(own: Any, air: Any) -> Any:
        return jax.lax.scan(tick, (own, air), jax.random.split(jax.random.key(1), ticks))[0]

    start = [jnp.asarray(filled(tree, n, "float32")) for tree in (flown.carry, blown.carry)]
    before = time.perf_counter()
    end, _ = jax.block_until_ready(run(*start))
    first = time.perf_counter() - before
    seconds = best(lambda: jax.block_until_ready(run(*start)), repeats)
    count = flat_body(flying, flown, "float32", True).work
    return {
        "steps_per_second": n * ticks * PER_WIND / seconds,
        "compile_seconds": first - seconds,
        "operations": count.operations,
        "instructions": count.instructions,
        "finite": float(np.isfinite(np.asarray(end)).all()),
        "spread_m": float(np.asarray(end)[:3].std(axis=1).max()),
    }
