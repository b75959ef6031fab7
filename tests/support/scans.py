"""Scans to compile: a spring, and flights with and without a controller, each with an independent solution."""

import os
import subprocess
import sys
import textwrap
from typing import Any, NamedTuple

import numpy as np
import pytest

import samara
from samara.compiler.scan import IdlePath, Templates, compile_scan_python
from samara.control.geometric import geometric
from samara.core.algebra import Vec3
from samara.core.integrate import rk4
from samara.core.ops import where
from samara.core.tree import flatten
from samara.physics.multirotor import derivative
from samara.physics.types import Reference

DT = 1e-3


class Mass(NamedTuple):
    """A mass on a spring."""

    x: Any
    v: Any


def spring(mass: Mass, stiffness: tuple, force: tuple) -> tuple[Mass, tuple]:
    """Explicit Euler of v̇ = u − k x; outputs are the new position, which is in the carry, and the old energy."""
    advanced = Mass(mass.x + 0.1 * mass.v, mass.v + 0.1 * (force[0] - stiffness[0] * mass.x))
    return advanced, (advanced.x, 0.5 * (mass.v * mass.v + stiffness[0] * mass.x * mass.x))


def spring_by_matrices(x0: np.ndarray, k: np.ndarray, u: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The same linear system drone by drone: z' = A z + b u, with NumPy's matrix product; all positions and energies."""
    n = x0.shape[1]
    k, u = np.broadcast_to(k, n), np.broadcast_to(u, (steps, n))
    outputs = np.empty((steps, 2, n))
    end = np.empty_like(x0)
    for i in range(n):
        A, b, z = np.array([[1.0, 0.1], [-0.1 * k[i], 1.0]]), np.array([0.0, 0.1]), x0[:, i]
        for step in range(steps):
            energy = 0.5 * z @ np.diag([k[i], 1.0]) @ z
            z = A @ z + b * u[step, i]
            outputs[step, :, i] = z[0], energy
        end[:, i] = z
    return end, outputs


SPRING = Templates(Mass(0.0, 0.0), (1.0,), (0.0,))
PATTERNS = [  # drones, steps, record every, stiffness per drone, force per drone
    pytest.param(1, 4, 1, False, False, id="one drone, every step"),
    pytest.param(7, 12, 4, True, True, id="all per drone, every fourth"),
    pytest.param(7, 11, 4, False, True, id="steps left over"),
    pytest.param(7, 3, 5, True, False, id="nothing recorded"),
    pytest.param(300, 6, 2, True, False, id="more than a block"),
]


def check_spring(compile_scan: Any, n: int, steps: int, every: int, own_k: bool, own_u: bool) -> None:
    """A compiled scan of the spring against matrices, to rounding."""
    rng = np.random.default_rng(n + steps)
    carry = rng.normal(size=(2, n))
    k = rng.uniform(0.5, 2.0, n) if own_k else 1.3
    u = rng.normal(size=(steps, n)) if own_u else rng.normal(size=(steps, 1))
    run = compile_scan(spring, SPRING, dtype="float64")
    end, outputs = run(carry, [k], u[:, None, :] if own_u else u, steps, every)
    true_end, true_outputs = spring_by_matrices(carry, k, u, steps)
    assert np.shape(outputs) == (steps // every, 2, n)
    assert np.asarray(end) == pytest.approx(true_end, rel=1e-14, abs=1e-14)
    assert np.asarray(outputs) == pytest.approx(true_outputs[every - 1 :: every], rel=1e-14, abs=1e-14)


def against_wall(mass: Mass, stiffness: tuple, force: tuple) -> tuple[Mass, tuple]:
    """Euler of v̇ = u − k min(x, 0): free, except for a springy wall at 0; outputs are the new position and the wall's push."""
    push = where(mass.x < 0.0, -stiffness[0] * mass.x, 0.0)
    advanced = Mass(mass.x + 0.1 * mass.v, mass.v + 0.1 * (force[0] + push))
    return advanced, (advanced.x, push)


def without_wall(mass: Mass, stiffness: tuple, force: tuple) -> tuple[Mass, tuple, Any]:
    """The same without the wall; the third result is whether that was correct for the position before the step."""
    advanced = Mass(mass.x + 0.1 * mass.v, mass.v + 0.1 * force[0])
    return advanced, (advanced.x, 0.0), mass.x > 0.0


WALL = IdlePath(lambda mass, stiffness, force: mass.x > -0.2, without_wall)


def check_wall(compile_scan: Any, n: int) -> None:
    """Masses fall against a wall and bounce off it one after the other: the branch must not change the numbers."""
    carry = np.array([np.linspace(0.3, 6.0, n), np.linspace(-1.0, 0.0, n)])
    inputs = np.full((60, 1), -0.5)
    results = [
        compile_scan(against_wall, SPRING, quiet, dtype="float64")(carry.copy(), [3.0], inputs, 60, 1)
        for quiet in (WALL, None)
    ]
    for guarded, plain in zip(*results, strict=True):
        assert np.asarray(guarded) == pytest.approx(np.asarray(plain), rel=1e-14, abs=1e-14)
    has_contact = np.asarray(results[0][1])[:, 1] > 0.0
    assert has_contact.any(axis=0).all() and not has_contact.any(axis=1).all()


class Flight(NamedTuple):
    """A body to scan, and a batch to scan it over."""

    body: Any
    templates: Templates
    carry: np.ndarray
    constants: list[np.ndarray]
    inputs: np.ndarray


def open_loop(vehicle: samara.Vehicle, n: int, steps: int, advance: Any = rk4) -> Flight:
    """Tumbling drones of different mass under commands that change at every step."""

    def body(state: Any, constants: Any, command: Any) -> tuple[Any, Any]:
        loaded = vehicle.replace(mass=constants[0])
        advanced = advance(lambda s: derivative(s, command, loaded), state, DT)
        return advanced, (advanced.p_W, advanced.omega_B)

    state, command = samara.hover(vehicle)
    rng = np.random.default_rng(3)
    carry = np.repeat(np.array(flatten(state))[:, None], n, axis=1)
    carry[10:13] = rng.normal(size=(3, n))
    inputs = np.array(command)[None, :, None] + rng.normal(0.0, 0.02, (steps, len(command), n))
    return Flight(
        body, Templates(state, (vehicle.mass,), command), carry, [vehicle.mass * rng.uniform(0.9, 1.1, n)], inputs
    )


def closed_loop(vehicle: samara.Vehicle, n: int, steps: int) -> Flight:
    """Lee's controller at every step, with drones that start away from a moving position."""
    controller = geometric(vehicle)

    def body(state: Any, constants: Any, position: Any) -> tuple[Any, Any]:
        command, _ = controller(state, Reference(Vec3(*position)), vehicle, ())
        advanced = rk4(lambda s: derivative(s, command, vehicle), state, DT)
        return advanced, command

    state, _ = samara.hover(vehicle)
    rng = np.random.default_rng(4)
    carry = np.repeat(np.array(flatten(state))[:, None], n, axis=1)
    carry[:3] += rng.normal(0.0, 0.5, (3, n))
    inputs = np.cumsum(rng.normal(0.0, 0.001, (steps, 3)), axis=0) + np.array([0.0, 0.0, 1.0])
    return Flight(body, Templates(state, (), (0.0, 0.0, 0.0)), carry, [], inputs)


def plain_crazyflie() -> samara.Vehicle:
    """Thrust, reaction torque, lag, linear drag: no contact, so that XLA compiles it in seconds."""
    return samara.vehicle("crazyflie_documented").without_effect("contact", "damping")


def max_relative_difference(a: Any, b: Any) -> float:
    """The largest difference, relative to numbers above one."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return float((np.abs(a - b) / np.maximum(1.0, np.abs(b))).max())


def check_flight(compile_scan: Any, flight: Flight, every: int, dtype: str, bound: float) -> None:
    """Compare the final carry and the records with the Python loop in float64."""
    body, templates, carry, constants, inputs = flight
    steps = len(inputs)
    expected = compile_scan_python(body, templates, dtype="float64")(carry.copy(), constants, inputs, steps, every)
    result = compile_scan(body, templates, dtype=dtype)(carry, constants, inputs, steps, every)
    assert all(x.dtype == dtype for x in result)
    assert max(max_relative_difference(a, b) for a, b in zip(result, expected, strict=True)) <= bound


def run_python(environment: dict[str, str], source: str) -> None:
    """Run the source in another Python with that environment; fail unless it succeeds."""
    base = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=base | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
