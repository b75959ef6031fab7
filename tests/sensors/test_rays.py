"""Rays: closed forms against other closed forms, against Newton's method, and against marching on distances in NumPy."""

import math

import numpy as np
import pytest

from samara.core.algebra import IDENTITY, UP, ZERO, Quat, Vec3, direction, normalize, quat_from_euler, rotate
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.world.obstacles import NEVER, HeightMap, Ray, distance_along
from samara.world.rays import first_hit, hit, reach, seen_from

EAST = Vec3(1.0, 0.0, 0.0)
FAR = 50.0  # [m]: marching on a plane that is all but parallel comes no farther


def test_spheres_planes_boxes_and_capsules_seen_from_known_places():
    """By hand: each from outside, from inside, past it and away from it."""
    sphere = Sphere(Vec3(5.0, 0.0, 0.0), 1.0)
    assert hit(Ray(ZERO, EAST), sphere) == 4.0
    assert hit(Ray(Vec3(0.0, 0.6, 0.0), EAST), sphere) == pytest.approx(5.0 - 0.8, abs=1e-15)
    assert hit(Ray(Vec3(5.5, 0.0, 0.0), EAST), sphere) == 0.0
    assert hit(Ray(Vec3(0.0, 1.1, 0.0), EAST), sphere) == hit(Ray(ZERO, -EAST), sphere) == NEVER
    plane, slope = Ground(), math.radians(30.0)
    down = Vec3(math.cos(slope), 0.0, -math.sin(slope))
    assert hit(Ray(Vec3(0.0, 0.0, 2.0), down), plane) == pytest.approx(4.0, abs=1e-14)
    assert hit(Ray(Vec3(0.0, 0.0, 2.0), EAST), plane) == NEVER
    assert hit(Ray(Vec3(0.0, 0.0, -0.1), EAST), plane) == 0.0
    box = Box(Vec3(4.0, 0.0, 0.0), Vec3(1.0, 2.0, 3.0))
    assert hit(Ray(ZERO, EAST), box) == 3.0
    assert hit(Ray(Vec3(0.0, 2.1, 0.0), EAST), box) == hit(Ray(ZERO, UP), box) == NEVER
    assert hit(Ray(Vec3(4.2, 1.9, 0.0), UP), box) == 0.0
    turned = box._replace(half=Vec3(1.0, 1.0, 1.0), q_WS=quat_from_euler(0.0, 0.0, math.pi / 4.0))
    assert hit(Ray(ZERO, EAST), turned) == pytest.approx(4.0 - math.sqrt(2.0), abs=1e-14)  # onto its edge
    pole = Capsule(Vec3(3.0, 0.0, 0.0), Vec3(3.0, 0.0, 2.0), 0.5)
    assert hit(Ray(Vec3(0.0, 0.0, 1.0), EAST), pole) == pytest.approx(2.5, abs=1e-14)
    assert hit(Ray(Vec3(0.0, 0.0, 2.3), EAST), pole) == pytest.approx(3.0 - 0.4, abs=1e-14)  # the ball above
    assert hit(Ray(Vec3(3.2, 0.0, 5.0), -UP), pole) == pytest.approx(3.0 - math.sqrt(0.21), abs=1e-12)
    assert hit(Ray(Vec3(3.0, 0.1, -4.0), UP), pole) == pytest.approx(4.0 - math.sqrt(0.24), abs=1e-12)
    assert hit(Ray(Vec3(3.2, 0.0, 5.0), UP), pole) == hit(Ray(Vec3(0.0, 0.6, 1.0), EAST), pole) == NEVER
    assert hit(Ray(Vec3(3.1, 0.0, 0.2), EAST), pole) == 0.0
    ball = Capsule(Vec3(5.0, 0.0, 0.0), Vec3(5.0, 0.0, 0.0), 1.0)
    assert hit(Ray(Vec3(0.0, 0.6, 0.0), EAST), ball) == pytest.approx(4.2, abs=1e-12)


def scene(rng):
    """Solids of every kind about the origin, and rays between places among them"""
    turned = [normalize(Quat(*rng.normal(size=4).tolist())) for _ in range(4)]
    place = lambda: Vec3(*rng.uniform(-4.0, 4.0, 3).tolist())  # noqa: E731
    solids = [
        Ground(Vec3(0.0, 0.0, -5.0), direction(Vec3(0.1, -0.2, 1.0))),
        *(Sphere(place(), float(rng.uniform(0.2, 1.0))) for _ in range(4)),
        *(Capsule(place(), place(), float(rng.uniform(0.05, 0.5))) for _ in range(4)),
        *(Box(place(), Vec3(*rng.uniform(0.1, 1.0, 3).tolist()), q) for q in turned),
    ]
    n = 4000
    p = rng.uniform(-5.0, 5.0, (3, n))
    d = rng.uniform(-4.0, 4.0, (3, n)) - p
    return solids, Ray(Vec3(*p), Vec3(*(d / np.linalg.norm(d, axis=0))))


def marched(solid, ray):
    """Sphere tracing on a signed distance written for NumPy alone, the reference that shares no line with the library"""

    def distance(p):
        if isinstance(solid, Sphere):
            return np.linalg.norm(p - np.array(solid.center_W)[:, None], axis=0) - solid.radius
        if isinstance(solid, Ground):
            return np.array(solid.normal_W) @ (p - np.array(solid.point_W)[:, None])
        if isinstance(solid, Capsule):
            a, b = np.array(solid.a_W)[:, None], np.array(solid.b_W)[:, None]
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
        q = np.abs(matrix.T @ (p - np.array(solid.center_W)[:, None])) - np.array(solid.half)[:, None]
        return np.linalg.norm(np.maximum(q, 0.0), axis=0) + np.minimum(q.max(axis=0), 0.0)

    start, along = np.array(ray.p_W), np.array(ray.direction_W)
    at = np.zeros(start.shape[1])
    for _ in range(800):
        at += np.maximum(distance(start + along * at), 0.0)
        at = np.minimum(at, 1e3)
    return np.where(distance(start + along * at) < 1e-9, at, NEVER)


def test_closed_forms_are_newtons_and_marched_distances():
    """Of 52 000 pairs of rays and solids; only rays that graze one may be judged differently."""
    solids, ray = scene(np.random.default_rng(3))
    for solid in solids:
        closed, newton, slow = hit(ray, solid), distance_along(ray, solid), marched(solid, ray)
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
            return Capsule(rotate(q, solid.a_W) + shift, rotate(q, solid.b_W) + shift, solid.radius)
        turned = solid._replace(center_W=rotate(q, solid.center_W) + shift)
        return turned._replace(q_WS=q * solid.q_WS) if isinstance(solid, Box) else turned

    here = first_hit(ray, solids)
    there = first_hit(Ray(rotate(q, ray.p_W) + shift, rotate(q, ray.direction_W)), [moved(own) for own in solids])
    same = np.abs(here - there) < 1e-9
    assert same.mean() > 0.999 and (here < NEVER).mean() > 0.5


def test_a_ray_that_is_not_a_number_meets_nothing_at_no_distance():
    """NaN in the place or in the direction comes out again, whatever stands about."""
    solids = [Ground(), Sphere(Vec3(5.0, 0.0, 1.0), 1.0), Box(Vec3(9.0, 0.0, 0.0), Vec3(1.0, 1.0, 1.0))]
    assert math.isnan(first_hit(Ray(Vec3(0.0, math.nan, 1.0), EAST), solids))
    assert math.isnan(first_hit(Ray(UP, Vec3(1.0, 0.0, math.nan)), solids))
    assert first_hit(Ray(UP, EAST), solids) == 4.0


def test_a_height_map_is_met_where_it_is_straight_below_the_ray():
    """A ramp z = x/2, from 3 m above its foot, level: met at x = 6."""
    ramp = HeightMap([0.0, 20.0], [-5.0, 5.0], [[0.0, 0.0], [10.0, 10.0]])
    assert hit(Ray(Vec3(0.0, 0.0, 3.0), EAST), ramp) == pytest.approx(6.0, abs=2e-3)


def test_gradients_are_the_surfaces_own():
    """∂s/∂p = −n/(n·d) at the point that is met, by JAX; finite and 0 where nothing is."""
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
                np.array(jax.grad(lambda p, s=s, w=w: first_hit(Ray(Vec3(*p), w), (s,)))(jax.numpy.zeros(3)))
                for s, w in ((solid, d), (solid, -d))
            )
        at = d * float(hit(Ray(ZERO, d), solid))
        if normal is None:
            centre = solid.center_W if isinstance(solid, Sphere) else Vec3(3.0, 0.0, at.z)
            normal = direction(at - centre)
        toward = normal.x * d.x + normal.y * d.y + normal.z * d.z
        assert slope == pytest.approx([-x / toward for x in normal], rel=1e-9, abs=1e-12)
        assert np.array_equal(away, np.zeros(3))


def test_how_far_a_solid_reaches_along_a_direction():
    """max n·(x − p): by hand of the centres and axes, and no point that a ray meets is beyond it."""
    p, n = Vec3(1.0, 2.0, 3.0), direction(Vec3(3.0, 0.0, 4.0))
    assert reach(seen_from(p, Sphere(Vec3(6.0, 2.0, 3.0), 0.5)), n) == pytest.approx(0.6 * 5.0 + 0.5, abs=1e-12)
    pole = Capsule(Vec3(1.0, 2.0, 0.0), Vec3(1.0, 2.0, 8.0), 0.25)
    assert reach(seen_from(p, pole), n) == pytest.approx(0.8 * 5.0 + 0.25, abs=1e-12)
    assert reach(seen_from(p, pole), -n) == pytest.approx(0.8 * 3.0 + 0.25, abs=1e-12)
    box = Box(Vec3(1.0, 2.0, 3.0), Vec3(1.0, 2.0, 3.0), quat_from_euler(0.0, 0.0, math.pi / 2.0))
    assert reach(seen_from(p, box), n) == pytest.approx(0.6 * 2.0 + 0.8 * 3.0, abs=1e-12)
    assert reach(seen_from(p, Ground()), n) == NEVER
    solids, ray = scene(np.random.default_rng(8))
    for solid in solids[1:]:
        s = hit(ray, solid)
        ahead = np.stack([own + s * d - start for own, d, start in zip(ray.p_W, ray.direction_W, p, strict=True)])
        along = (np.array(n) @ ahead)[(s > 0.0) & (s < NEVER)]
        assert len(along) > 10 and along.max() <= reach(seen_from(p, solid), n) + 1e-9
