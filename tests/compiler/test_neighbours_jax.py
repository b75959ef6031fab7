"""Sums over the other drones of a flight in JAX, against the CPU's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import samara
from samara.compiler.jax.arrays import precision
from samara.compiler.jax.folding_scalar import fold_tree, new_trace, sum_over_others, unfold_leaves
from samara.core.tree import flatten
from samara.physics.air.downwash import Downwash, DownwashReceiver, downwash_wrench, rotor_jet
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.sim.stages.downwash import DownwashGroup, downwash_wrenches

VEHICLE = samara.vehicle("crazyflie")
DOWNWASH = Downwash(body_area=0.003)
DRONES, FLIGHTS = 4, 8
QUICK = {"xla_disable_hlo_passes": "fusion"}  # compiles several times faster


def states():
    """Drones that hover above each other and side by side, (components, drones, flights)."""
    rng = np.random.default_rng(7)
    hover = state_at_rest(VEHICLE)
    rows = np.repeat(np.array(flatten(hover), dtype=float)[:, None], DRONES * FLIGHTS, axis=1)
    rows = rows.reshape(-1, DRONES, FLIGHTS)
    rows[:3] = rng.uniform(-0.1, 0.1, (3, DRONES, FLIGHTS))
    rows[2] += 0.3 * np.arange(DRONES)[:, None]
    rows[6:10] += rng.normal(size=(4, DRONES, FLIGHTS)) * 0.1
    rows[6:10] /= np.linalg.norm(rows[6:10], axis=0)
    rows[13 : 13 + len(VEHICLE.rotors)] = rng.uniform(1500.0, 2200.0, (len(VEHICLE.rotors), DRONES, FLIGHTS))
    return rows


def jax_downwash_wrenches(leaves):
    """Force and torque of all jets of a flight on every drone of it, as six arrays (drones, flights)."""
    state = fold_tree(state_at_rest(VEHICLE), leaves, new_trace(jnp.dtype("float64")))
    jet = rotor_jet(state, VEHICLE, complete_environment(VEHICLE))

    def push(exposed, jet):
        wrench = downwash_wrench(exposed, jet, VEHICLE, DOWNWASH)
        return wrench.f_W, wrench.tau_B

    felt = sum_over_others(push, DownwashReceiver(state.p_W, state.q_WB), jet)
    return [jnp.broadcast_to(x, leaves[0].shape) for x in unfold_leaves(felt)]


def run_in_kernel(leaves):
    """The same, with all drones of two flights in each block."""

    def kernel(*references):
        wrenches = jax_downwash_wrenches([reference[:] for reference in references[: len(leaves)]])
        for into, row in zip(references[len(leaves) :], wrenches, strict=True):
            into[:] = row

    block = pl.BlockSpec((DRONES, 2), lambda i: (0, i))
    return pl.pallas_call(
        kernel,
        grid=(FLIGHTS // 2,),
        in_specs=[block] * len(leaves),
        out_specs=[block] * 6,
        out_shape=[jax.ShapeDtypeStruct(leaves[0].shape, "float64")] * 6,
        interpret=True,
    )(*leaves)


@pytest.mark.parametrize("executor", [jax_downwash_wrenches, pytest.param(run_in_kernel, marks=pytest.mark.long)])
def test_downwash_is_that_of_the_cpu(executor):
    rows = states()
    environment = np.array(flatten(complete_environment(VEHICLE)), dtype=float)
    expected = np.empty((6, DRONES, FLIGHTS))
    for flight in range(FLIGHTS):
        around = np.repeat(environment[:, None], DRONES, axis=1)
        drones = DownwashGroup(VEHICLE, np.arange(DRONES), np.ascontiguousarray(rows[:, :, flight]), around, DOWNWASH)
        expected[:, :, flight] = downwash_wrenches([drones])[0]
    with precision("float64"):
        felt = np.stack(
            [np.asarray(x) for x in jax.jit(executor, compiler_options=QUICK)([jnp.asarray(row) for row in rows])]
        )
    assert np.abs(expected).max() > 0.01  # the lowest are pushed down by a good part of their weight
    assert np.abs(felt - expected).max() < 1e-12


def test_sums_exclude_the_drone_itself_and_other_flights():
    """Σ over others of (x_j − 2 x_i), by hand."""
    x = np.random.default_rng(1).normal(size=(3, 5))

    def total(array):
        (x_folded,) = fold_tree((0.0,), [array], new_trace(jnp.dtype("float64")))
        return unfold_leaves(sum_over_others(lambda a, b: b - 2.0 * a, x_folded, x_folded))[0]

    with precision("float64"):
        result = np.asarray(total(jnp.asarray(x)))
    assert result == pytest.approx(x.sum(axis=0) - x - 2.0 * 2.0 * x, abs=1e-14)
    with precision("float64"), pytest.raises(ValueError, match=r"shape \(3,\); expected \(drones, flights\)"):
        total(jnp.asarray(x[:, 0]))
