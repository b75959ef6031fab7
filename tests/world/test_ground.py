"""The ground plane below one drone, on every backend: NumPy, floats, compiled code, XLA and a kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import samara
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.arrays import Launch, precision, triton_options
from samara.compiler.jax.folding_scalar import collect_grids, fold_tree, new_trace, override_grid_loader, unfold_leaves
from samara.core.algebra import IDENTITY, ZERO, Vec3, quat_from_euler
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.scenario.world import Obstacle, World
from samara.sim.stages.ground import find_ground, standing_surfaces
from samara.world.ground import ground_below
from samara.world.obstacles import HeightMap

FEET_B = samara.vehicle("iris_documented")["contact"].points_B
AXIS = np.array([-2.0, -1.7, -0.4, 0.1, 0.9, 2.0])
HILLS = HeightMap(AXIS, AXIS[:5], np.random.default_rng(5).uniform(-0.3, 0.3, (6, 5)))
MOUND = HeightMap(AXIS[1:4], AXIS[2:5], np.random.default_rng(6).uniform(0.8, 1.0, (3, 3)))
TOPS = (
    Box(Vec3(0.0, 0.0, 0.5), Vec3(0.8, 0.8, 0.02)),
    Box(Vec3(-1.2, 0.4, 0.2), Vec3(0.7, 0.9, 0.4), quat_from_euler(0.0, 0.0, 0.7)),
    Ground(Vec3(0.0, 0.0, -0.2), Vec3(0.6, 0.0, 0.8)),
    MOUND,
    Box(Vec3(1.0, -1.0, 0.4), Vec3(0.6, 0.6, 0.6), quat_from_euler(0.2, -0.3, 1.1)),
)
QUICK = {"xla_disable_hlo_passes": "fusion"}  # compiles several times faster
CASES = {"plane": (Ground(Vec3(0.1, 0.2, -0.4), Vec3(0.0, -0.6, 0.8)), TOPS), "map": (HILLS, TOPS), "bare": (HILLS, ())}


def drones(n):
    """Return positions over all of the solids and beside them, attitudes upright and tilted."""
    rng = np.random.default_rng(3)
    p_W = rng.uniform([-2.4, -2.4, 0.0], [2.4, 2.4, 2.5], (n, 3))
    roll, pitch, yaw = rng.normal(size=(3, n)) * np.array([[0.05], [0.05], [2.0]])
    return Vec3(*p_W.T), quat_from_euler(roll, pitch, yaw)


def rows(tree, n):
    return np.stack([np.broadcast_to(np.asarray(leaf, dtype=float), n) for leaf in flatten(tree)])


@pytest.mark.parametrize("case", CASES)
def test_numbers_arrays_and_compiled_code_give_the_same_bits(case):
    ground, tops = CASES[case]
    p_W, q_WB = drones(203)
    expected = rows(ground_below(p_W, q_WB, ground=ground, tops=tops, feet_B=FEET_B), 203)
    normals = {tuple(normal) for normal in np.round(expected[3:].T, 6)}
    assert len(normals) > (3 if tops else 1)  # no solid hides all others

    code = CompiledStep(
        lambda carry, inputs: ground_below(*inputs, ground=ground, tops=tops, feet_B=FEET_B), Ground(), (ZERO, IDENTITY)
    )
    machine = code.machine(203)
    machine.held_inputs[:] = np.stack(flatten((p_W, q_WB)))
    machine.run()
    assert np.array_equal(machine.carry, expected)

    world = World(
        tuple(Obstacle(str(k), solid) for k, solid in enumerate(tops)), terrain=None if case == "plane" else ground
    )
    surface, standing = standing_surfaces(world, ground if case == "plane" else Ground())
    upright = Ground(ZERO, Vec3(1.0, 0.0, 0.0))  # unlike any ground here
    parameters = {"vehicle": samara.vehicle("iris_documented"), "ground": surface, "tops": standing}
    (plane,) = find_ground(p_W, q_WB, upright, **parameters)
    assert np.stack([np.broadcast_to(leaf, (203,)) for leaf in flatten(plane)]).tobytes() == expected.tobytes()

    for k in range(0, 203, 29):
        drone = unflatten((p_W, q_WB), iter([float(leaf[k]) for leaf in flatten((p_W, q_WB))]))
        assert flatten(ground_below(*drone, ground=ground, tops=tops, feet_B=FEET_B)) == expected[:, k].tolist()


def test_the_top_of_a_box_is_the_ground_only_where_all_feet_are_over_it():
    """By hand: a level table of 1.6 m at 0.52 m, and a drone over its middle, over its edge, beside it and under it."""
    table = (TOPS[0],)
    heights = [
        ground_below(Vec3(x, 0.0, z), IDENTITY, ground=Ground(), tops=table, feet_B=FEET_B).point_W.z
        for x, z in ((0.0, 1.0), (0.75, 1.0), (1.5, 1.0), (0.0, 0.3), (0.0, 6.0))
    ]
    assert heights == [0.52, 0.0, 0.0, 0.0, 0.0]


def test_a_position_that_is_not_a_number_does_not_crash():
    nowhere = Vec3(float("nan"), 0.0, 1.0)
    plane = ground_below(nowhere, IDENTITY, ground=HILLS, tops=TOPS, feet_B=FEET_B)
    assert np.isnan(plane.point_W.z)
    machine = CompiledStep(
        lambda carry, inputs: ground_below(*inputs, ground=HILLS, tops=TOPS, feet_B=FEET_B),
        Ground(),
        (nowhere, IDENTITY),
    ).machine()
    machine.run()
    assert np.isnan(machine.carry[2, 0])


def _trace_ground(leaves, dtype):
    """Point and normal in folded scalars"""
    p_W, q_WB = fold_tree((ZERO, IDENTITY), leaves, new_trace(jnp.dtype(dtype)))
    plane = ground_below(p_W, q_WB, ground=HILLS, tops=TOPS[:2], feet_B=FEET_B[:1])
    return [jnp.broadcast_to(x, leaves[0].shape) for x in unfold_leaves(plane)]


def _kernel(leaves, dtype="float64", **options):
    """Compute the same in one kernel, which reads the grids from its operands."""
    grids = collect_grids(lambda: jax.eval_shape(lambda *x: _trace_ground(x, dtype), *leaves))

    def body(*references):
        tables = dict(zip(grids, references[7 : 7 + len(grids)], strict=True))
        with override_grid_loader(lambda grid, at: tables[grid][at]):
            plane = _trace_ground([reference[:] for reference in references[:7]], dtype)
        for output, row in zip(references[7 + len(grids) :], plane, strict=True):
            output[:] = row

    shape = jax.ShapeDtypeStruct(leaves[0].shape, dtype)
    return pl.pallas_call(body, out_shape=[shape] * 6, **(options or {"interpret": True}))(
        *leaves, *(jnp.asarray(grid.values.ravel(), dtype) for grid in grids)
    )


@pytest.mark.parametrize("executor", ["xla", pytest.param("kernel", marks=pytest.mark.long)])
def test_jax_agrees_with_numpy(executor):
    p_W, q_WB = drones(64)
    expected = rows(ground_below(p_W, q_WB, ground=HILLS, tops=TOPS[:2], feet_B=FEET_B[:1]), 64)
    with precision("float64"):
        leaves = [jnp.asarray(x) for x in flatten((p_W, q_WB))]
        compute = jax.jit(
            _kernel if executor == "kernel" else lambda x: _trace_ground(x, "float64"), compiler_options=QUICK
        )
        computed = np.stack([np.asarray(x) for x in compute(leaves)])
    assert np.abs(computed - expected).max() < 1e-13


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_kernel_is_lowered_for_a_gpu(dtype):
    """Lookups and loops have code in Triton, which is generated without a GPU"""
    with precision(dtype):
        leaves = [jnp.asarray(x, dtype) for x in flatten(drones(64))]
        kernel = jax.jit(lambda *x: _kernel(x, dtype, **triton_options(Launch())))
        code = kernel.trace(*leaves).lower(lowering_platforms=("cuda",)).as_text()
    assert "triton" in code
