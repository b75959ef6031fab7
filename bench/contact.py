"""What ground contact costs: a Crazyflie without it, with it in the air, where the step goes around it, and on the ground."""

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import best

import samara
from samara.control.geometric import geometric
from samara.core.algebra import Vec3
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference
from samara.vehicles.defaults import clearance

DT = 1e-3
BATCH = 16384
WITH = samara.vehicle("crazyflie")
WITHOUT = WITH.without_effect("contact")
WAYS = (
    ("without contact", WITHOUT, 1.0),
    ("with contact, in the air", WITH, 1.0),
    ("with contact, on the ground", WITH, 0.0),
)
KINDS = (("float64", False), ("float32", True))


def rows() -> list[dict[str, Any]]:
    """Steps per second of a command that is held, and of a controller at every step"""
    found = []
    for what, flown in (("rollout", held), ("geometric control in the loop", steered)):
        for dtype, fast in KINDS:
            for n in (1, BATCH):
                steps = 10_000 if n == 1 else 50
                for label, vehicle, height in WAYS:
                    seconds = best(flown(vehicle, height, n, steps, dtype, fast), 8)
                    kind = f"{dtype} {'fast' if fast else 'strict'}"
                    found.append(
                        {
                            "row": f"{what}, {'one drone' if n == 1 else f'batch {n}'}, {kind}, {label}",
                            "steps_per_s": n * steps / seconds,
                            "us_per_step": 1e6 * seconds / (n * steps),
                            "dtype": dtype,
                            "n": n,
                            "fast": fast,
                        }
                    )
    return found


def _start(vehicle: samara.Vehicle, height: float) -> samara.State:
    state, _ = samara.hover(vehicle)
    return state._replace(p_W=Vec3(0.0, 0.0, height or clearance(vehicle)))


def held(vehicle: samara.Vehicle, height: float, n: int, steps: int, dtype: str, fast: bool) -> Callable[[], Any]:
    """Hover, or on the ground a third of what that takes"""
    sim = samara.compile(vehicle, backend="llvm", dtype=dtype, fast=fast)
    column = np.array(flatten(_start(vehicle, height)), dtype=dtype)
    buffer = column if n == 1 else np.tile(column[:, None], (1, n))
    command = tuple(u if height else 0.3 * u for u in samara.hover(vehicle)[1])
    return lambda: sim.step_into(buffer, command, DT, steps=steps)


def steered(vehicle: samara.Vehicle, height: float, n: int, steps: int, dtype: str, fast: bool) -> Callable[[], Any]:
    """Towards a place beside, or on the ground below it"""
    sim = samara.compile(vehicle, backend="llvm", dtype=dtype, fast=fast, controller=geometric(vehicle))
    start = _start(vehicle, height)
    state = start if n == 1 else unflatten(start, iter(np.full(n, leaf) for leaf in flatten(start)))
    place = Vec3(0.3, 0.2, height + 0.1) if height else Vec3(0.0, 0.0, -0.5)
    references = np.tile(np.array(flatten(Reference(place))), (steps, 1))
    return lambda: sim.rollout(state, reference=references, dt=DT, record_every=steps)
