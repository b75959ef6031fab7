"""Measure ground contact: a Crazyflie without it, with it in the air, where the step bypasses it, and on the ground."""

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
WITH_CONTACT = samara.vehicle("crazyflie")
WITHOUT_CONTACT = WITH_CONTACT.without_effect("contact")
CASES = (
    ("without contact", WITHOUT_CONTACT, 1.0),
    ("with contact, in the air", WITH_CONTACT, 1.0),
    ("with contact, on the ground", WITH_CONTACT, 0.0),
)
PRECISIONS = (("float64", False), ("float32", True))


def rows() -> list[dict[str, Any]]:
    """Measure the steps per second with a held command, and with a controller at every step."""
    measurements = []
    for loop_name, make_call in (("rollout", held_command_call), ("geometric control in the loop", closed_loop_call)):
        for dtype, fast in PRECISIONS:
            for n in (1, BATCH):
                steps = 10_000 if n == 1 else 50
                for label, vehicle, height in CASES:
                    seconds = best(make_call(vehicle, height, n, steps, dtype, fast), 8)
                    precision = f"{dtype} {'fast' if fast else 'strict'}"
                    measurements.append(
                        {
                            "row": f"{loop_name}, {'one drone' if n == 1 else f'batch {n}'}, {precision}, {label}",
                            "steps_per_s": n * steps / seconds,
                            "us_per_step": 1e6 * seconds / (n * steps),
                            "dtype": dtype,
                            "n": n,
                            "fast": fast,
                        }
                    )
    return measurements


def _start(vehicle: samara.Vehicle, height: float) -> samara.State:
    state, _ = samara.hover(vehicle)
    return state._replace(p_W=Vec3(0.0, 0.0, height or clearance(vehicle)))


def held_command_call(
    vehicle: samara.Vehicle, height: float, n: int, steps: int, dtype: str, fast: bool
) -> Callable[[], Any]:
    """Return a call that steps with the hover command; on the ground, with 30 % of it."""
    sim = samara.compile(vehicle, backend="llvm", dtype=dtype, fast=fast)
    column = np.array(flatten(_start(vehicle, height)), dtype=dtype)
    buffer = column if n == 1 else np.tile(column[:, None], (1, n))
    command = tuple(u if height else 0.3 * u for u in samara.hover(vehicle)[1])
    return lambda: sim.step_into(buffer, command, DT, steps=steps)


def closed_loop_call(
    vehicle: samara.Vehicle, height: float, n: int, steps: int, dtype: str, fast: bool
) -> Callable[[], Any]:
    """Return a call that flies to a point beside the start; on the ground, to one below it."""
    sim = samara.compile(vehicle, backend="llvm", dtype=dtype, fast=fast, controller=geometric(vehicle))
    start = _start(vehicle, height)
    state = start if n == 1 else unflatten(start, iter(np.full(n, leaf) for leaf in flatten(start)))
    target_W = Vec3(0.3, 0.2, height + 0.1) if height else Vec3(0.0, 0.0, -0.5)
    references = np.tile(np.array(flatten(Reference(target_W))), (steps, 1))
    return lambda: sim.rollout(state, reference=references, dt=DT, record_every=steps)
