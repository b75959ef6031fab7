"""Rays: closed forms against other closed forms, against Newton's method, and against marching on distances in NumPy."""

import math

import numpy as np
import pytest

from samara.core.algebra import IDENTITY, UP, ZERO, Quat, Vec3, direction, normalize, quat_from_euler, rotate
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.world.obstacles import NEVER, HeightMap, Ray, ray_distance
from samara.world.rays import first_hit_distance, ray_hit_distance, ray_terms, support_distance

EAST = Vec3(1.0, 0.0, 0.0)
FAR = 50.0  # [m]: marching on a plane that is all but parallel comes no farther


def test_spheres_planes_boxes_and_capsules_seen_from_known_places():
    """By hand: each from outside, from inside, past it and away from it."""
    sphere = Sphere(Vec3(5.0, 0.0, 0.0), 1.0)
    assert ray_hit_distance(Ray(ZERO, EAST), sphere) == 4.0
    assert ray_hit_distance(Ray(Vec3(0.0, 0.6, 0.0), EAST), sphere) == pytest.approx(5.0 - 0.8, abs=1e-15)
    assert ray_hit_distance(Ray(Vec3(5.5, 0.0, 0.0), EAST), sphere) == 0.0
    assert (
        ray_hit_distance(Ray(Vec3(0.0, 1.1, 0.0), EAST), sphere) == ray_hit_distance(Ray(ZERO, -EAST), sphere) == NEVER
    )
    plane, slope = Ground(), math.radians(30.0)
    down = Vec3(math.cos(slope), 0.0, -math.sin(slope))
    assert ray_hit_distance(Ray(Vec3(0.0, 0.0, 2.0), down), plane) == pytest.approx(4.0, abs=1e-14)
    assert ray_hit_distance(Ray(Vec3(0.0, 0.0, 2.0), EAST), plane) == NEVER
    assert ray_hit_distance(Ray(Vec3(0.0, 0.0, -0.1), EAST), plane) == 0.0
    box = Box(Vec3(4.0, 0.0, 0.0), Vec3(1.0, 2.0, 3.0))
    assert ray_hit_distance(Ray(ZERO, EAST), box) == 3.0
    assert ray_hit_distance(Ray(Vec3(0.0, 2.1, 0.0), EAST), box) == ray_hit_distance(Ray(ZERO, UP), box) == NEVER
    assert ray_hit_distance(Ray(Vec3(4.2, 1.9, 0.0), UP), box) == 0.0
    rotated = box._replace(half=Vec3(1.0, 1.0, 1.0), q_WS=quat_from_euler(0.0, 0.0, math.pi / 4.0))
    assert ray_hit_distance(Ray(ZERO, EAST), rotated) == pytest.approx(4.0 - math.sqrt(2.0), abs=1e-14)  # onto its edge
    pole = Capsule(Vec3(3.0, 0.0, 0.0), Vec3(3.0, 0.0, 2.0), 0.5)
    assert ray_hit_distance(Ray(Vec3(0.0, 0.0, 1.0), EAST), pole) == pytest.approx(2.5, abs=1e-14)
    assert ray_hit_distance(Ray(Vec3(0.0, 0.0, 2.3), EAST), pole) == pytest.approx(
        3.0 - 0.4, abs=1e-14
    )  # the ball above
    assert ray_hit_distance(Ray(Vec3(3.2, 0.0, 5.0), -UP), pole) == pytest.approx(3.0 - math.sqrt(0.21), abs=1e-12)
    assert ray_hit_distance(Ray(Vec3(3.0, 0.1, -4.0), UP), pole) == pytest.approx(4.0 - math.sqrt(0.24), abs=1e-12)
    assert (
        ray_hit_distance(Ray(Vec3(3.2, 0.0, 5.0), UP), pole)
        == ray_hit_distance(Ray(Vec3(0.0, 0.6, 1.0), EAST), pole)
        == NEVER
    )
    assert ray_hit_distance(Ray(Vec3(3.1, 0.0, 0.2), EAST), pole) == 0.0
    ball = Capsule(Vec3(5.0, 0.0, 0.0), Vec3(5.0, 0.0, 0.0), 1.0)
    assert ray_hit_distance(Ray(Vec3(0.0, 0.6, 0.0), EAST), ball) == pytest.approx(4.2, abs=1e-12)


def scene(rng):
    """Solids of every shape about the origin, and rays between points among them"""
    attitudes = [normalize(Quat(*rng.normal(size=4).tolist())) for _ in range(4)]
    place = lambda: Vec3(*rng.uniform(-4.0, 4.0, 3).tolist())  # noqa: E731
    solids = [
        Ground(Vec3(0.0, 0.0, -5.0), direction(Vec3(0.1, -0.2, 1.0))),
        *(Sphere(place(), float(rng.uniform(0.2, 1.0))) for _ in range(4)),
        *(Capsule(place(), place(), float(rng.uniform(0.05, 0.5))) for _ in range(4)),
        *(Box(place(), Vec3(*rng.uniform(0.1, 1.0, 3).tolist()), q) for q in attitudes),
    ]
    n = 4000
    p = rng.uniform(-5.0, 5.0, (3, n))
    d = rng.uniform(-4.0, 4.0, (3, n)) - p
    return solids, Ray(Vec3(*p), Vec3(*(d / np.linalg.norm(d, axis=0))))


def march_ray(solid, ray):
    """Sphere tracing on a signed distance in NumPy: a reference that shares no line with the library"""

    def distance(p):
        if isinstance(solid, Sphere):
            return np.linalg.norm(p - np.array(solid.centre_W)[:, None], axis=0) - solid.radius
        if isinstance(solid, Ground):
            return np.array(solid.normal_W) @ (p - np.array(solid.point_W)[:, None])
        if isinstance(solid, Capsule):
            a, b = np.array(solid.start_W)[:, None], np.array(solid.end_W)[:, None]
            t = np.clip(((p - a) * (b - a)).sum(axis=0) / ((b - a) ** 2).sum(), 0.0, 1.0)
            return np.linalg.norm(p - a - t * (b - a), axis=0) - solid.radius
        w, x, y, z = solid.q_WS
        matrix = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        q = np.abs(matrix.T @ (p - np.array(solid.centre_W)[:, None])) - np.array(solid.half)[:, None]
        return np.linalg.norm(np.maximum(q, 0.0), axis=0) + np.minimum(q.max(axis=0), 0.0)

    start, along = np.array(ray.p_W), np.array(ray.direction_W)
    at = np.zeros(start.shape[1])
    for _ in range(800):
        at += np.maximum(distance(start + along * at), 0.0)
        at = np.minimum(at, 1e3)
    return np.where(distance(start + along * at) < 1e-9, at, NEVER)


def test_closed_forms_are_newtons_and_marched_distances():
    """52 000 pairs of rays and solids; only grazing rays may differ."""
    solids, ray = scene(np.random.default_rng(3))
    for solid in solids:
        closed, newton, slow = ray_hit_distance(ray, solid), ray_distance(ray, solid), march_ray(solid, ray)
        both = (closed < FAR) & (slow < FAR)
        assert ((closed < FAR) == (slow < FAR)).mean() > 0.999
        assert both.sum() > 5
        assert closed[both] == pytest.approx(slow[both], abs=2e-6)
        assert np.quantile(np.abs(closed - slow)[both], 0.95) < 1e-9
        met = (closed < NEVER) & (newton < NEVER)
        assert met.sum() >= 0.999 * (newton < NEVER).sum()
        assert closed[met] == pytest.approx(newton[met], abs=1e-6)


def test_turning_the_world_is_turning_the_rays_back():
    """s(q p, q d | q world) = s(p, d | world)"""
    rng = np.random.default_rng(4)
    solids, ray = scene(rng)
    q, shift = normalize(Quat(*rng.normal(size=4).tolist())), Vec3(1.0, -2.0, 0.5)

    def moved(solid):
        if isinstance(solid, Ground):
            return Ground(rotate(q, solid.point_W) + shift, rotate(q, solid.normal_W))
        if isinstance(solid, Capsule):
            return Capsule(rotate(q, solid.start_W) + shift, rotate(q, solid.end_W) + shift, solid.radius)
        rotated = solid._replace(centre_W=rotate(q, solid.centre_W) + shift)
        return rotated._replace(q_WS=q * solid.q_WS) if isinstance(solid, Box) else rotated

    distances = first_hit_distance(ray, solids)
    rotated_distances = first_hit_distance(
        Ray(rotate(q, ray.p_W) + shift, rotate(q, ray.direction_W)), [moved(solid) for solid in solids]
    )
    same = np.abs(distances - rotated_distances) < 1e-9
    assert same.mean() > 0.999 and (distances < NEVER).mean() > 0.5


def test_a_ray_that_is_not_a_number_meets_nothing_at_no_distance():
    """NaN in the start or direction gives NaN, for every scene."""
    solids = [Ground(), Sphere(Vec3(5.0, 0.0, 1.0), 1.0), Box(Vec3(9.0, 0.0, 0.0), Vec3(1.0, 1.0, 1.0))]
    assert math.isnan(first_hit_distance(Ray(Vec3(0.0, math.nan, 1.0), EAST), solids))
    assert math.isnan(first_hit_distance(Ray(UP, Vec3(1.0, 0.0, math.nan)), solids))
    assert first_hit_distance(Ray(UP, EAST), solids) == 4.0


def test_a_height_map_is_met_where_it_is_straight_below_the_ray():
    """A ramp z = x/2, from 3 m above its foot, level: met at x = 6."""
    ramp = HeightMap([0.0, 20.0], [-5.0, 5.0], [[0.0, 0.0], [10.0, 10.0]])
    assert ray_hit_distance(Ray(Vec3(0.0, 0.0, 3.0), EAST), ramp) == pytest.approx(6.0, abs=2e-3)


def test_gradients_are_the_surfaces_own():
    """∂s/∂p = −n/(n·d) at the hit, by JAX; finite and 0 without a hit."""
    jax = pytest.importorskip("jax")
    from samara.compiler.jax.arrays import precision

    d = direction(Vec3(1.0, 0.02, -0.01))
    for solid, normal in (
        (Sphere(Vec3(5.0, 0.0, 0.0), 1.0), None),
        (Box(Vec3(4.0, 0.0, 0.0), Vec3(1.0, 2.0, 3.0), IDENTITY), Vec3(-1.0, 0.0, 0.0)),
        (Capsule(Vec3(3.0, 0.0, -2.0), Vec3(3.0, 0.0, 2.0), 0.5), None),
    ):
        with precision("float64"):
            slope, away = (
                np.array(jax.grad(lambda p, s=s, w=w: first_hit_distance(Ray(Vec3(*p), w), (s,)))(jax.numpy.zeros(3)))
                for s, w in ((solid, d), (solid, -d))
            )
        at = d * float(ray_hit_distance(Ray(ZERO, d), solid))
        if normal is None:
            centre = solid.centre_W if isinstance(solid, Sphere) else Vec3(3.0, 0.0, at.z)
            normal = direction(at - centre)
        toward = normal.x * d.x + normal.y * d.y + normal.z * d.z
        assert slope == pytest.approx([-x / toward for x in normal], rel=1e-9, abs=1e-12)
        assert np.array_equal(away, np.zeros(3))


def test_support_distance_of_a_solid_along_a_direction():
    """max n·(x − p): by hand from centres and axes, and no hit of a ray is beyond it."""
    p, n = Vec3(1.0, 2.0, 3.0), direction(Vec3(3.0, 0.0, 4.0))
    assert support_distance(ray_terms(p, Sphere(Vec3(6.0, 2.0, 3.0), 0.5)), n) == pytest.approx(
        0.6 * 5.0 + 0.5, abs=1e-12
    )
    pole = Capsule(Vec3(1.0, 2.0, 0.0), Vec3(1.0, 2.0, 8.0), 0.25)
    assert support_distance(ray_terms(p, pole), n) == pytest.approx(0.8 * 5.0 + 0.25, abs=1e-12)
    assert support_distance(ray_terms(p, pole), -n) == pytest.approx(0.8 * 3.0 + 0.25, abs=1e-12)
    box = Box(Vec3(1.0, 2.0, 3.0), Vec3(1.0, 2.0, 3.0), quat_from_euler(0.0, 0.0, math.pi / 2.0))
    assert support_distance(ray_terms(p, box), n) == pytest.approx(0.6 * 2.0 + 0.8 * 3.0, abs=1e-12)
    assert support_distance(ray_terms(p, Ground()), n) == NEVER
    solids, ray = scene(np.random.default_rng(8))
    for solid in solids[1:]:
        s = ray_hit_distance(ray, solid)
        ahead = np.stack(
            [component + s * d - start for component, d, start in zip(ray.p_W, ray.direction_W, p, strict=True)]
        )
        along = (np.array(n) @ ahead)[(s > 0.0) & (s < NEVER)]
        assert len(along) > 10 and along.max() <= support_distance(ray_terms(p, solid), n) + 1e-9
