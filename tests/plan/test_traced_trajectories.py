"""Trajectories as functions of a symbol, on every backend."""

import casadi
import jax
import numpy as np
import pytest
from support.backend_comparison import jnp  # with 64 bits

from samara.compiler.jax.folding_scalar import fold_tree, new_trace, unfold_leaves
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.types import Reference
from samara.plan.trajectory import circle, hover, minimum_snap, race, sequence, take_off, transfer, waypoints

GATES = [(0.0, 0.0, 1.0), (5.0, 2.0, 2.0), (9.0, -1.0, 3.0), (6.0, -6.0, 1.5)]
MOVING = Reference(Vec3(1.0, -2.0, 3.0), Vec3(0.7, 0.0, -0.4), Vec3(0.0, 0.3, 0.1), yaw=0.4)
TRACED = {
    "race": race(GATES[:3], speed=6.0, yaw="along"),
    "closed race": race(GATES, speed=6.0, closed=True, laps=2.0),
    "through": minimum_snap(GATES, [1.0, 2.0, 1.5], yaw=[0.0, 3.0, -3.0, 1.0]),
    "transfer": transfer(MOVING, Vec3(2.0, 3.0, 4.0), speed=1.0),
    "circle": circle((1.0, 2.0, 3.0), radius=2.0, speed=3.0, yaw="along"),
    "sequence": sequence(take_off((0.0, 0.0, 0.1), height=1.0), hover((0.0, 0.0, 1.0))),
    "moved": waypoints(GATES, speed=2.0).shift(Vec3(1.0, 2.0, 3.0)),
}
TIMES = np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 2.9, 3.0, 4.4, 20.0])


def table(reference, n: int) -> np.ndarray:
    return np.stack([np.broadcast_to(np.asarray(leaf, dtype=float), n) for leaf in flatten(reference)], axis=1)


@pytest.mark.parametrize("name", TRACED)
def test_a_trajectory_of_a_symbol_is_the_trajectory(name):
    task = TRACED[name]
    expected = table(task.evaluate(TIMES), len(TIMES))
    t = casadi.SX.sym("t")
    by_casadi = casadi.Function("asked", [t], [casadi.vertcat(*flatten(task.evaluate(t)))])
    np.testing.assert_allclose(np.array(by_casadi(TIMES[None])).T, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(table(task.evaluate(jnp.asarray(TIMES)), len(TIMES)), expected, rtol=1e-9, atol=1e-9)


def test_a_trajectory_is_traced_by_jax_and_by_its_folding_scalar():
    task = minimum_snap(GATES[:3], [1.0, 2.0], order=3)
    expected = np.array([flatten(task.evaluate(time)) for time in TIMES])

    def jax_reference(time):
        return jnp.stack([jnp.asarray(leaf, dtype=float) for leaf in flatten(task.evaluate(time))])

    def folded_reference(time):
        (folded_time,) = fold_tree((0.0,), [time], new_trace(jnp.float64))
        return jnp.stack([jnp.asarray(leaf, dtype=float) for leaf in unfold_leaves(task.evaluate(folded_time))])

    for traced in (jax_reference, folded_reference):
        np.testing.assert_allclose(jax.jit(jax.vmap(traced))(TIMES), expected, rtol=1e-9, atol=1e-9)
