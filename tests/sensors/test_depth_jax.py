"""Depth images of many drones in JAX: equal to plain Python's, with gradients equal to finite differences."""

import math

import numpy as np
import pytest

from samara.core.algebra import Quat, Vec3, normalize, quat_from_euler
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import State
from samara.sensors import part
from samara.sensors.ray_sensors import Beam, RaySensor, beam_ray
from samara.sensors.sensor import Mounting
from samara.world.obstacles import HeightMap
from samara.world.rays import first_hit_distance

jax = pytest.importorskip("jax")

from samara.compiler.jax.arrays import Launch, precision  # noqa: E402
from samara.sensors.depth_jax import depth_images  # noqa: E402

CAMERA = part("d435", width=9, height=7, max_range=20.0, k1=-0.05).parameters
MOUNTING = Mounting(Vec3(0.1, 0.0, -0.02), quat_from_euler(0.0, 0.2, 0.1))
GROUND = Ground(Vec3(0.0, 0.0, -1.0))
SOLIDS = (
    Sphere(Vec3(4.0, 1.0, 0.5), 0.7),
    Capsule(Vec3(3.0, -1.0, -2.0), Vec3(3.5, -1.5, 2.0), 0.3),
    Box(Vec3(6.0, 0.0, -1.0), Vec3(0.5, 1.5, 0.5), quat_from_euler(0.3, -0.2, 0.6)),
    Sphere(Vec3(2.0, 0.4, 0.1), 0.2),
)


def poses(n):
    rng = np.random.default_rng(5)
    q = normalize(Quat(np.ones(n), *(0.3 * rng.normal(size=(3, n)))))
    p = rng.uniform(-1.0, 1.0, (3, n))
    p[:, 0] = SOLIDS[0].centre_W  # one is inside a ball
    return State(Vec3(*p), Vec3(0.0, 0.0, 0.0), q, Vec3(0.0, 0.0, 0.0))


def reference(states, solids, ground=GROUND):
    """Ray by ray in Python's floats"""
    beams, depths = RaySensor(CAMERA).beams, []
    pick = lambda tree, k: jax.tree.map(lambda x: float(x[k]) if np.ndim(x) else float(x), tree)  # noqa: E731
    for k in range(len(states.p_W.x)):
        state, surfaces = pick(states, k), [ground, *pick(list(solids), k)]
        for x, y, z in zip(*(leaf.tolist() for leaf in beams.direction_S), strict=True):
            ray = beam_ray(state, MOUNTING, Beam(Vec3(x, y, z)))
            depths.append(min(first_hit_distance(ray, surfaces) * x, CAMERA.max_range))
    return np.array(depths).reshape(-1, *CAMERA.shape)


@pytest.mark.parametrize("kernel", ["xla", "pallas"])
@pytest.mark.parametrize("worlds", ["one", "each its own"])
def test_pictures_of_many_drones_are_those_of_plain_python(kernel, worlds):
    """In double precision to rounding; a kernel that JAX interprets, operation by operation, gives the same."""
    states, solids = poses(3), list(SOLIDS)
    if worlds != "one":
        solids[0] = Sphere(Vec3(np.array([4.0, 3.0, 5.0]), np.array([1.0, 0.0, -1.0]), 0.5), np.array([0.7, 0.3, 1.0]))
    with precision("float64"):
        images = depth_images(states, solids, CAMERA, mounting=MOUNTING, ground=GROUND, dtype="float64", kernel=kernel)
    assert np.asarray(images) == pytest.approx(reference(states, solids), rel=1e-9, abs=1e-9)
    assert (np.asarray(images[0]) == 0.0).all() and len(np.unique(images)) > 50


def test_what_is_not_in_a_tile_is_passed_over_and_nothing_else():
    """With more solids than a word has bits, in tiles of 4 × 4 pixels and as one tile: the images of plain Python."""
    rng = np.random.default_rng(3)
    place = lambda: Vec3(*rng.uniform(-8.0, 8.0, 3).tolist())  # noqa: E731
    solids = [Sphere(place(), float(rng.uniform(0.1, 0.8))) for _ in range(40)]
    solids += [Capsule(place(), place(), 0.1) for _ in range(3)]
    solids += [Box(place(), Vec3(0.2, 1.0, 0.4), quat_from_euler(*rng.normal(size=3).tolist())) for _ in range(3)]
    states = poses(2)
    expected = reference(states, solids)
    for launch in (Launch(block=16, warps=1), Launch(block=256, warps=1)):
        with precision("float64"):
            images = depth_images(
                states,
                solids,
                CAMERA,
                mounting=MOUNTING,
                ground=GROUND,
                dtype="float64",
                kernel="pallas",
                launch=launch,
            )
        assert np.asarray(images) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_in_single_precision_and_as_half_floats():
    """Within a tenth of a millimetre, and within half the step of float16 below 16 m, 4 mm."""
    states = jax.tree.map(lambda x: np.asarray(x, np.float32) if np.ndim(x) else x, poses(3))
    slow = reference(poses(3), SOLIDS)
    for dtype, close in (("float32", 1e-4), ("float16", 4e-3)):
        images = jax.jit(
            lambda s, dtype=dtype: depth_images(s, SOLIDS, CAMERA, mounting=MOUNTING, ground=GROUND, dtype=dtype)
        )(states)
        assert images.dtype == dtype and np.quantile(np.abs(np.asarray(images, float) - slow), 0.98) < close


@pytest.mark.parametrize("kernel", ["xla", "pallas"])
def test_slopes_are_those_of_finite_differences(kernel):
    """∂ Σ z / ∂ p and ∂ q, for pixels on the interior of a surface: no edge is within the step."""
    states = poses(3)

    def total(p, q, mask):
        moved_states = State(Vec3(*p), states.v_W, Quat(*q), states.omega_B)
        images = depth_images(
            moved_states, SOLIDS, CAMERA, mounting=MOUNTING, ground=GROUND, dtype="float64", kernel=kernel
        )
        return (images * mask).sum()

    with precision("float64"):
        p, q = np.array(states.p_W), np.array(states.q_WB)
        near = [
            reference(State(Vec3(*(p + e)), states.v_W, states.q_WB, states.omega_B), SOLIDS) for e in (-1e-3, 1e-3)
        ]
        mask = np.where(np.abs(near[1] - near[0]) < 0.05, 1.0, 0.0)  # not where another surface comes into view
        slopes = [np.asarray(slope) for slope in jax.grad(total, argnums=(0, 1))(p, q, mask)]
        assert all(np.isfinite(slope).all() for slope in slopes)
        for which, values in enumerate((p, q)):
            for axis, drone in ((0, 1), (2, 2), (1, 1)):
                step = np.zeros_like(values)
                step[axis, drone] = 1e-6
                ends = [total(*((values + s, q) if which == 0 else (p, values + s)), mask) for s in (step, -step)]
                assert slopes[which][axis, drone] == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-4)


def test_a_hill_is_for_xla_alone():
    """A ramp z = x/2 from 3 m above its foot: the middle pixel meets it at 6 m."""
    ramp = HeightMap([0.0, 40.0], [-30.0, 30.0], [[0.0, 0.0], [20.0, 20.0]])
    states = State(Vec3(np.zeros(1), np.zeros(1), np.full(1, 3.0)), None, Quat(*np.eye(4)[0][:, None]), None)
    with precision("float64"):
        image = depth_images(states, (), CAMERA._replace(k1=0.0), ground=ramp, dtype="float64")[0]
    assert image[3, 4] == pytest.approx(6.0, abs=2e-3)
    with pytest.raises(ValueError, match="kernel = 'pallas': a ray over a height map takes as many steps as it needs"):
        depth_images(states, (), CAMERA, ground=ramp, kernel="pallas")


def test_what_cannot_be_gets_one_sentence():
    states = poses(2)
    with pytest.raises(ValueError, match=r"kernel = 'cuda': expected one of 'pallas', 'xla', or None"):
        depth_images(states, SOLIDS, CAMERA, kernel="cuda")
    with pytest.raises(ValueError, match=r"states.p_W.x has the shape \(\); expected \(drones,\)"):
        depth_images(State(Vec3(0.0, 0.0, 1.0), None, Quat(1.0, 0.0, 0.0, 0.0), None), SOLIDS, CAMERA)
    lost = states._replace(p_W=states.p_W._replace(x=np.array([math.nan, 0.0])))
    images = np.asarray(depth_images(lost, SOLIDS, CAMERA))
    assert np.isnan(images[0]).all() and np.isfinite(images[1]).all()
