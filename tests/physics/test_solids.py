"""Solids and impacts: distances by brute force, rays by quadratics, impacts that never add energy, no tunnelling."""

import math

import casadi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import samara
from samara.core.algebra import (
    IDENTITY,
    ZERO,
    Mat3,
    Quat,
    Vec3,
    diagonal,
    dot,
    norm,
    normalize,
    quat_exp,
    quat_from_euler,
    rotate,
    rotate_inverse,
)
from samara.documents import drone_physics
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import (
    Collider,
    Material,
    apply_impulse,
    collision_impulse,
    contact_velocity,
    impact_impulse,
    vehicle_collider,
    wall_impact_impulse,
    wall_impulse,
)
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.motion.body import kinetic_energy
from samara.physics.multirotor import state_at_rest
from samara.sim.collide.impacts import (
    DroneStep,
    bounce,
    bounce_drones,
    first_drone_hit,
    first_hit,
    interpolate_body,
)
from samara.sim.collide.parts import collision_parts, hull_box
from samara.world.obstacles import (
    NEVER,
    HeightMap,
    Ray,
    disc_touch,
    nearest_ray_distance,
    plane_below,
    ray_distance,
    signed_distance,
    time_to_reach,
    touch,
)

TILT = quat_from_euler(0.5, -0.3, 1.1)
PLANE = Ground(Vec3(0.1, 0.2, -0.3), rotate(TILT, Vec3(0.0, 0.0, 1.0)))
BALL = Sphere(Vec3(0.3, -0.2, 0.5), 0.4)
POLE = Capsule(Vec3(-0.5, 0.0, -0.2), Vec3(0.7, 0.4, 0.6), 0.15)
CRATE = Box(Vec3(0.2, 0.1, -0.1), Vec3(0.5, 0.3, 0.2), TILT)
CONVEX = {"plane": PLANE, "sphere": BALL, "capsule": POLE, "box": CRATE}


def random_points(n, seed=1, size=1.5):
    return np.random.default_rng(seed).uniform(-size, size, (n, 3))


def nearest_by_search(solid, p):
    """The squared distance to the solid's points, minimised: their parameters live in boxes."""
    p = np.array(p)
    if isinstance(solid, Sphere):
        away = p - np.array(solid.centre_W)
        return np.linalg.norm(away) - solid.radius
    if isinstance(solid, Capsule):
        a, b = np.array(solid.start_W), np.array(solid.end_W)
        t = np.linspace(0, 1, 20001)[:, None]
        return np.linalg.norm(p - a - t * (b - a), axis=1).min() - solid.radius
    turn = Rotation.from_quat([*solid.q_WS[1:], solid.q_WS[0]]).as_matrix()
    p_S, half = turn.T @ (p - np.array(solid.centre_W)), np.array(solid.half)
    if (np.abs(p_S) <= half).all():
        return -(half - np.abs(p_S)).min()
    bounds = [(-h, h) for h in half]
    minimum = minimize(lambda x: np.sum((x - p_S) ** 2), np.zeros(3), bounds=bounds, tol=1e-16)
    return math.sqrt(minimum.fun)


@pytest.mark.parametrize("name", ["sphere", "capsule", "box"])
def test_distances_by_searching_the_solid(name):
    for p in random_points(150):
        assert signed_distance(CONVEX[name], Vec3(*p)) == pytest.approx(nearest_by_search(CONVEX[name], p), abs=2e-7)


@pytest.mark.parametrize("name", CONVEX)
def test_the_normal_is_the_gradient_and_leads_to_the_surface(name):
    """n = ∇d, of length one; and p − d n is on the surface."""
    solid = CONVEX[name]
    for p in random_points(100, seed=2):
        surface = touch(solid, Vec3(*p.tolist()))
        h = 1e-6
        slope = [
            (signed_distance(solid, Vec3(*(p + h * e))) - signed_distance(solid, Vec3(*(p - h * e)))) / (2 * h)
            for e in np.eye(3)
        ]
        assert norm(surface.normal_W) == pytest.approx(1.0, rel=1e-12)
        assert slope == pytest.approx(list(surface.normal_W), abs=1e-5)
        assert signed_distance(solid, Vec3(*p) - surface.normal_W * surface.distance) == pytest.approx(0.0, abs=1e-12)


def test_the_exact_centre_has_an_outward_normal():
    for solid in (BALL, CRATE, Capsule(ZERO, ZERO, 0.2)):
        middle = solid.start_W if isinstance(solid, Capsule) else solid.centre_W
        surface = touch(solid, middle)
        assert surface.distance < 0.0 and norm(surface.normal_W) == pytest.approx(1.0)


# Rays --------------------------------------------------------------------------------------------------------------


def sphere_ray_distance(p, d, center, radius):
    """|p + s d − c| = R, the nearer root, or None."""
    b, c = np.dot(d, p - center), np.dot(p - center, p - center) - radius**2
    if b * b - c < 0 or -b - math.sqrt(b * b - c) < 0:
        return None
    return -b - math.sqrt(b * b - c)


def box_ray_distance(p, d, box):
    turn = Rotation.from_quat([*box.q_WS[1:], box.q_WS[0]]).as_matrix()
    p_S, d_S = turn.T @ (p - np.array(box.centre_W)), turn.T @ d
    entry = np.max(np.minimum((-np.array(box.half) - p_S) / d_S, (np.array(box.half) - p_S) / d_S))
    exit_ = np.min(np.maximum((-np.array(box.half) - p_S) / d_S, (np.array(box.half) - p_S) / d_S))
    return entry if 0 <= entry <= exit_ else None


def test_rays_by_the_textbook():
    """Quadratic for the sphere, slabs for the box, division for the plane: 120 rays, hits and misses alike."""
    rng, hits = np.random.default_rng(3), 0
    for p in random_points(120, seed=4, size=3.0):
        d = rng.normal(size=3) if rng.random() < 0.3 else -p + rng.normal(size=3)
        d /= np.linalg.norm(d)
        ray = Ray(Vec3(*p), Vec3(*d))
        across = np.dot(d, PLANE.normal_W)
        height = np.dot(p - np.array(PLANE.point_W), PLANE.normal_W)
        truths = {
            "plane": -height / across if height > 0 > across else (0.0 if height <= 0 else None),
            "sphere": sphere_ray_distance(p, d, np.array(BALL.centre_W), BALL.radius),
            "box": box_ray_distance(p, d, CRATE),
        }
        for name, truth in truths.items():
            if name != "plane" and signed_distance(CONVEX[name], Vec3(*p)) <= 0:
                truth = 0.0
            actual = ray_distance(ray, CONVEX[name])
            hits += truth is not None
            assert actual == (NEVER if truth is None else pytest.approx(truth, abs=2e-8)), name
        s = ray_distance(ray, POLE)
        if s < NEVER:
            assert signed_distance(POLE, Vec3(*(p + s * d))) == pytest.approx(0.0, abs=1e-8)
            before = [signed_distance(POLE, Vec3(*(p + t * s * d))) for t in np.linspace(0, 0.999, 20)]
            assert s == 0.0 or min(before) > 0.0
    assert 100 < hits < 330
    assert nearest_ray_distance(Ray(Vec3(0.0, 0.0, 3.0), Vec3(0.0, 0.0, -1.0)), list(CONVEX.values())) < 3.0


def test_a_range_finder_looks_along_such_a_ray():
    from samara.sensors.range_finder import sensor_ray
    from samara.sensors.sensor import Mounting

    ray = sensor_ray(
        state_at_rest(samara.vehicle("iris_documented"), Vec3(0.0, 0.0, 2.0)),
        Mounting(q_BS=quat_from_euler(0.0, math.pi / 2, 0.0)),
    )
    assert isinstance(ray, Ray) and ray_distance(ray, Ground()) == pytest.approx(2.0, rel=1e-15)


@pytest.mark.parametrize("name", CONVEX)
def test_rays_on_every_backend(name):
    """NumPy, JAX and CasADi equal floats, batched; the slope of a distance along a ray is finite."""
    solid = CONVEX[name]
    p = random_points(40, seed=5, size=2.0).T
    d = 0.5 * random_points(40, seed=6).T - p
    d /= np.linalg.norm(d, axis=0)

    def ask(p, d):
        return ray_distance(Ray(Vec3(*p), Vec3(*d)), solid)

    single = np.array([ask(p[:, i].tolist(), d[:, i].tolist()) for i in range(40)])
    assert ask(p, d) == pytest.approx(single, rel=1e-9, abs=1e-9)
    assert 3 < (single < NEVER).sum() < 38
    x = casadi.SX.sym("x", 6)
    y = ask([x[i] for i in range(3)], [x[i] for i in range(3, 6)])
    code = casadi.Function("s", [x], [y, casadi.jacobian(y, x)])
    for i in range(40):
        value, slope = code([*p[:, i], *d[:, i]])
        assert float(value) == pytest.approx(single[i], rel=1e-9, abs=1e-9)
        assert np.isfinite(np.array(slope)).all()
    if name in ("sphere", "plane"):  # XLA takes long for the others
        by_jax = jax.jit(ask)([jnp.asarray(row) for row in p], [jnp.asarray(row) for row in d])
        assert np.asarray(by_jax) == pytest.approx(single, rel=1e-9, abs=1e-9)
    assert math.isnan(ask((math.nan, 0.0, 0.0), (1.0, 0.0, 0.0)))


# Height maps -------------------------------------------------------------------------------------------------------


def test_a_height_map_that_is_a_plane_is_a_plane(tmp_path):
    """Distance, normal and rays of z = 0.3 + 0.2x − 0.1y, from a file."""
    x, y = np.linspace(-3, 3, 7), np.array([-3.0, -1.0, 3.0])
    np.savez(tmp_path / "hill.npz", x=x, y=y, z=0.3 + 0.2 * x[:, None] - 0.1 * y[None, :])
    hill = HeightMap.from_file(tmp_path / "hill.npz")
    normal = Vec3(-0.2, 0.1, 1.0) / math.sqrt(1.05)
    plane = Ground(Vec3(0.0, 0.0, 0.3), normal)
    for p in random_points(50):
        actual, expected = touch(hill, Vec3(*p)), touch(plane, Vec3(*p))
        assert actual.distance == pytest.approx(expected.distance, abs=1e-12)
        assert list(actual.normal_W) == pytest.approx(list(normal), abs=1e-12)
        ray = Ray(Vec3(*p) + Vec3(0.0, 0.0, 2.5), Vec3(0.3, 0.2, -0.9) / math.sqrt(0.94))
        assert ray_distance(ray, hill) == pytest.approx(ray_distance(ray, plane), abs=1e-6)
    assert ray_distance(Ray(Vec3(0.0, 0.0, 2.0), Vec3(0.0, 0.0, 1.0)), hill) == NEVER
    assert plane_below(hill, Vec3(1.0, 1.0, 9.0)).point_W.z == pytest.approx(0.4)
    assert plane_below(Ground(), Vec3(1.0, 1.0, 9.0)) == Ground()


def test_a_ray_meets_the_first_hill():
    """Two ridges: a level ray at 0.5 m stops at the first that is higher; also by marching in small steps."""
    x, y = np.linspace(0, 10, 201), np.array([-5.0, 5.0])
    hills = HeightMap(
        x, y, np.repeat(0.8 * np.exp(-((x - 4) ** 2))[:, None] + np.exp(-((x - 8) ** 2))[:, None], 2, axis=1)
    )
    actual = ray_distance(Ray(Vec3(0.0, 0.0, 0.5), Vec3(1.0, 0.0, 0.0)), hills)
    fine = np.linspace(0, 10, 2_000_001)
    inside = np.interp(fine, x, hills.z[:, 0]) >= 0.5
    assert actual == pytest.approx(fine[inside.argmax()], abs=1e-3)
    assert ray_distance(Ray(Vec3(0.0, 0.0, 1.5), Vec3(1.0, 0.0, 0.0)), hills) == NEVER


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: HeightMap([0.0], [0.0, 1.0], [[0.0, 0.0]]), "HeightMap.x is .*; expected two or more finite numbers"),
        (lambda: HeightMap([0.0, 1.0], [0.0, 1.0], [[0.0]]), r"HeightMap.z has shape \(1, 1\); expected \(2, 2\)"),
        (lambda: HeightMap([0, 1], [0, 1], [[0, math.inf], [0, 0]]), r"HeightMap.z\[0, 1\] is inf"),
    ],
)
def test_it_is_refused_in_one_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


# Propellers --------------------------------------------------------------------------------------------------------


def test_the_nearest_point_of_a_propeller():
    """By trying a hundred thousand points of the disc: near a wall its rim, near a small ball its interior."""
    rng = np.random.default_rng(7)
    angle, share = rng.uniform(0, 2 * math.pi, 100_000), np.sqrt(rng.uniform(0, 1, 100_000))
    for solid in (PLANE, BALL, CRATE, POLE, Sphere(Vec3(0.0, 0.0, 1.1), 0.02)):
        for seed in range(5):
            q = np.random.default_rng(seed).normal(size=4)
            q_WB = Quat(*(q / np.linalg.norm(q)).tolist())
            center, axis, radius = Vec3(0.05, 0.1, 1.4), rotate(q_WB, Vec3(0.0, 0.0, 1.0)), 0.127
            on = np.stack([radius * share * np.cos(angle), radius * share * np.sin(angle), 0 * angle])
            points = center + rotate(q_WB, Vec3(*on))
            tried = touch(solid, points).distance.min()
            surface, point = disc_touch(solid, center, axis, radius)
            assert surface.distance == pytest.approx(tried, abs=1e-3)
            assert surface.distance <= tried + 1e-4
            assert norm(point - center) <= radius * (1 + 1e-12) and abs(dot(point - center, axis)) < 1e-12


# Impacts -------------------------------------------------------------------------------------------------------------


def colliders(n, seed):
    """Bodies of any mass, shape, attitude and motion, hit at any point."""
    rng = np.random.default_rng(seed)
    turn = Rotation.random(n, random_state=rng.integers(1 << 30))
    sizes = rng.uniform(0.005, 0.02, (3, n))
    moments = np.stack([sizes[1] + sizes[2], sizes[0] + sizes[2], sizes[0] + sizes[1]])
    shape = np.einsum("nij,jn,nkj->nik", turn.as_matrix(), moments, turn.as_matrix())
    q = rng.normal(size=(4, n))
    q /= np.linalg.norm(q, axis=0)
    return Collider(
        Vec3(*rng.uniform(-10, 10, (3, n))),
        Vec3(*rng.uniform(-20, 20, (3, n))),
        Vec3(*rng.uniform(-0.4, 0.4, (3, n))),
        Quat(*q),
        rng.uniform(0.02, 5.0, n),
        Mat3(*shape.reshape(n, 9).T),
    )


def energy(body):
    return kinetic_energy(body.v_W, rotate_inverse(body.q_WB, body.omega_W), mass=body.mass, inertia_B=body.inertia_B)


def materials(n, seed):
    rng = np.random.default_rng(seed)
    restitution = np.where(rng.random(n) < 0.2, 1.0, rng.uniform(0, 1, n))
    return Material(restitution, np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0, 3, n)))


def directions(n, seed):
    d = np.random.default_rng(seed).normal(size=(3, n))
    return Vec3(*(d / np.linalg.norm(d, axis=0)))


def test_ten_thousand_impacts_of_a_wall_never_add_energy():
    """Kinetic energy never grows; the approach speed never exceeds the initial one; friction is within its cone."""
    n = 10_000
    body, material, normal = colliders(n, 1), materials(n, 2), directions(n, 3)
    impulse = wall_impact_impulse(body, ZERO, normal, material=material)
    after = apply_impulse(body, impulse)
    before = energy(body)
    assert ((energy(after) - before) / before).max() < 1e-12
    approached = dot(contact_velocity(body), normal) < 0
    push = dot(impulse, normal)
    assert 0.4 < approached.mean() < 0.6
    assert np.abs(np.stack(impulse)[:, ~approached]).max() == 0.0
    assert (push[approached] > 0).all()
    across = norm(impulse - normal * push)
    assert (across <= material.friction * push * (1 + 1e-9) + 1e-12).all()
    assert (energy(after) < before * (1 - 1e-9))[approached & (material.restitution < 0.99)].all()


def test_ten_thousand_impacts_between_bodies_never_add_energy_and_keep_momentum():
    """Linear and angular momentum of the pair are conserved; its energy never grows."""
    n = 10_000
    one, other, material, normal = colliders(n, 4), colliders(n, 5), materials(n, 6), directions(n, 7)
    impulse = impact_impulse(one, other, normal, material=material)
    after, other_after = apply_impulse(one, impulse), apply_impulse(other, -impulse)
    before = energy(one) + energy(other)
    assert ((energy(after) + energy(other_after) - before) / before).max() < 1e-12
    momentum_change = one.v_W * one.mass + other.v_W * other.mass - after.v_W * one.mass - other_after.v_W * other.mass
    assert np.abs(np.stack(momentum_change)).max() < 1e-12


def test_without_friction_it_is_the_impulse_of_hakoniwa():
    """Bit for bit `collision.py` for approaching bodies, and the value of `impulse_by_collision`."""
    n = 200
    one, other, normal = colliders(n, 8), colliders(n, 9), directions(n, 10)
    e = np.random.default_rng(11).uniform(0, 1, n)
    near = dot(contact_velocity(one) - contact_velocity(other), normal) < 0
    impulse = np.stack(impact_impulse(one, other, normal, material=Material(e, 0.0)))
    assert (impulse[:, near] == np.stack(collision_impulse(one, other, normal, e))[:, near]).all()
    wall = np.stack(wall_impact_impulse(one, ZERO, normal, material=Material(e, 0.0)))
    near_wall = dot(contact_velocity(one), normal) < 0
    assert (wall[:, near_wall] == np.stack(wall_impulse(one, ZERO, normal, e))[:, near_wall]).all()

    collider = Collider(
        Vec3(1.0, 2.0, -3.0), Vec3(0.5, 0.0, 1.0), Vec3(0.1, 0.0, -0.1), IDENTITY, 1.2, diagonal(Vec3(0.01, 0.02, 0.03))
    )
    expected = drone_physics.impulse_by_collision(
        self_velocity=collider.v_W, self_angular_velocity=collider.omega_W, self_euler=(0.0, 0.0, 0.0),
        target_velocity=ZERO, self_contact=collider.r_W, self_mass=1.2, self_inertia=(0.01, 0.02, 0.03),
        normal=(0.0, 0.0, 1.0), restitution_coefficient=0.4,
    )  # fmt: skip
    actual = wall_impact_impulse(collider, ZERO, Vec3(0.0, 0.0, 1.0), material=Material(0.4, 0.0))
    assert list(actual) == pytest.approx(list(expected), rel=1e-13, abs=1e-15)


def test_a_ball_bounces_to_e_squared_of_its_height_and_a_rough_one_rolls():
    """Closed forms: v' = −e v; a solid ball that grips keeps 5/7 of its slip as rolling, and slides at low friction."""
    mass, radius = 0.5, 0.1
    ball = Collider(
        Vec3(2.0, 0.0, -3.0),
        ZERO,
        Vec3(0.0, 0.0, -radius),
        IDENTITY,
        mass,
        diagonal(Vec3(*[0.4 * mass * radius**2] * 3)),
    )
    up = Vec3(0.0, 0.0, 1.0)
    gripped = apply_impulse(ball, wall_impact_impulse(ball, ZERO, up, material=Material(0.6, 5.0)))
    assert gripped.v_W.z == pytest.approx(1.8, rel=1e-12)
    assert gripped.v_W.x == pytest.approx(2.0 * 5 / 7, rel=1e-12)
    assert list(contact_velocity(gripped))[:2] == pytest.approx([0.0, 0.0], abs=1e-12)
    slid = apply_impulse(ball, wall_impact_impulse(ball, ZERO, up, material=Material(0.6, 0.05)))
    assert slid.v_W.x == pytest.approx(2.0 - 0.05 * 1.6 * 3.0, rel=1e-12)


def test_blows_on_jax_are_the_same():
    n = 50
    one, other, material, normal = colliders(n, 4), colliders(n, 5), materials(n, 6), directions(n, 7)
    by_numpy = np.stack(impact_impulse(one, other, normal, material=material))
    arguments = jax.tree.map(jnp.asarray, (one, other, normal, material))
    by_jax = jax.jit(lambda a, b, n, m: impact_impulse(a, b, n, material=m))(*arguments)
    assert np.stack(by_jax) == pytest.approx(by_numpy, rel=1e-10, abs=1e-12)


# Drones ------------------------------------------------------------------------------------------------------------


def flying(vehicle, p_W, v_W, q_WB=IDENTITY, omega_B=ZERO):
    return state_at_rest(vehicle, p_W, q_WB)._replace(v_W=v_W, omega_B=omega_B)


def advance_ballistic(state, dt):
    return state._replace(p_W=state.p_W + state.v_W * dt)


@pytest.mark.parametrize("solid", ["sheet", "cable", "ball", "ground"])
@pytest.mark.parametrize("angle", [0.0, 0.7, 1.4])
def test_nothing_tunnels_at_twenty_metres_per_second(solid, angle):
    """Steps of 20 ms are 0.4 m; the sheet is 1 mm thin and the cable 2 mm. Every approach is stopped before passing through."""
    iris = samara.vehicle("iris_documented")
    parts = collision_parts(iris, body_radius=0.1)
    direction_W = Vec3(math.cos(angle), math.sin(angle), 0.0)
    solids = {
        "sheet": Box(Vec3(3.0, 0.0, 0.0), Vec3(0.0005, 50.0, 5.0)),
        "cable": Capsule(Vec3(3.0, -60.0, 0.0), Vec3(3.0, 60.0, 0.0), 0.001),
        "ball": Sphere(direction_W * 3.0, 0.01),
        "ground": Ground(Vec3(3.0, 0.0, 0.0), Vec3(-1.0, 0.0, 0.0)),
    }
    state, dt, hit = flying(iris, ZERO, direction_W * 20.0), 0.02, None
    for _ in range(60):
        after = advance_ballistic(state, dt)
        hit = first_hit(state, after, iris, parts, (solids[solid],))
        if hit:
            break
        state = after
    assert hit is not None
    stopped = interpolate_body(state, after, hit.fraction)
    for part in parts:
        center = stopped.p_W + rotate(stopped.q_WB, part.centre_B)
        gap = (
            disc_touch(solids[solid], center, Vec3(0.0, 0.0, 1.0), part.radius)[0].distance
            if part.axis_B
            else (signed_distance(solids[solid], center) - part.radius)
        )
        assert gap > -1e-6
    assert hit.speed > 1.0


def test_a_propeller_strike_is_reported():
    """Level towards a wall, an iris hits it with a front propeller, at their extent beyond the body."""
    iris = samara.vehicle("iris_documented")
    state = flying(iris, Vec3(1.0, 0.0, 2.0), Vec3(5.0, 0.0, 0.0))
    wall = Ground(Vec3(1.5, 0.0, 0.0), Vec3(-1.0, 0.0, 0.0))
    hit = first_hit(state, advance_ballistic(state, 0.1), iris, collision_parts(iris, 0.1), (Ground(), wall))
    assert hit and hit.is_propeller and hit.solid == 1
    extent = max(rotor.r_B.x + rotor.radius for rotor in iris.rotors)
    assert hit.fraction * 0.5 == pytest.approx(0.5 - extent, rel=1e-9)
    assert str(hit) == f"{hit.part.name} hit solid 1 at 5 m/s" and hit.part.name.startswith("propeller")
    out = bounce(state, advance_ballistic(state, 0.1), hit, iris, Material(0.5, 0.0))
    parting = contact_velocity(vehicle_collider(out, hit.r_W, iris))
    assert dot(parting, hit.normal_W) == pytest.approx(2.5, rel=1e-9)
    assert out.omega_B.z != 0.0


def test_leaving_is_no_hit():
    iris = samara.vehicle("iris_documented")
    state = flying(iris, Vec3(0.0, 0.0, 0.05), Vec3(0.0, 0.0, 3.0))
    assert first_hit(state, advance_ballistic(state, 0.01), iris, collision_parts(iris, 0.1), (Ground(),)) is None


def test_a_drone_dropped_on_a_slope_comes_to_no_more_than_it_had():
    """A tumbling body with many impacts on floor, slope and ball under gravity: m g z + kinetic energy only falls."""
    iris = samara.vehicle("iris_documented")
    slope = Ground(Vec3(0.0, 0.0, -0.3), rotate(quat_from_euler(0.4, 0.0, 0.0), Vec3(0.0, 0.0, 1.0)))
    parts, solids = collision_parts(iris, 0.1), (Ground(), slope, Sphere(Vec3(0.2, 0.1, 0.3), 0.2))
    state = flying(iris, Vec3(0.0, 0.0, 0.9), Vec3(1.0, -0.5, -2.0), omega_B=Vec3(3.0, -2.0, 1.0))
    g, dt, hits = 9.81, 0.004, 0

    def total(state):
        return (
            kinetic_energy(state.v_W, state.omega_B, mass=iris.mass, inertia_B=iris.inertia_B)
            + iris.mass * g * state.p_W.z
        )

    def ballistic(state, dt):
        q = normalize(state.q_WB * quat_exp(state.omega_B * dt))
        p = state.p_W + state.v_W * dt - Vec3(0.0, 0.0, 0.5 * g * dt * dt)
        return state._replace(p_W=p, v_W=state.v_W - Vec3(0.0, 0.0, g * dt), q_WB=q)

    for _ in range(190):
        left, before, raised = dt, total(state), 0.0
        for _ in range(4):
            after = ballistic(state, left)
            hit = first_hit(state, after, iris, parts, solids)
            if hit is None:
                state = after
                break
            stopped = interpolate_body(state, after, hit.fraction)
            state = bounce(state, after, hit, iris, Material(0.4, 0.3))
            pushed_out = iris.mass * g * hit.normal_W.z * hit.depth
            assert total(state) <= total(stopped) + pushed_out + 1e-9
            left, hits, raised = left * (1 - hit.fraction), hits + 1, raised + max(pushed_out, 0.0)
        assert total(state) <= before + raised + 1e-9
    assert hits > 20
    assert min(signed_distance(solid, state.p_W) for solid in solids) > 0.0


def test_two_drones_meet_and_part():
    """Head on at 20 m/s each, in steps of 0.4 m: they collide, exchange momentum, and separate."""
    iris = samara.vehicle("iris_documented")
    parts, dt = collision_parts(iris, 0.1), 0.02
    left = flying(iris, Vec3(-3.0, 0.0, 1.0), Vec3(20.0, 0.0, 0.0))
    right = flying(iris, Vec3(3.0, 0.02, 1.0), Vec3(-20.0, 0.0, 0.0))
    for _ in range(20):
        one, other = (
            DroneStep(left, advance_ballistic(left, dt), iris, parts),
            DroneStep(right, advance_ballistic(right, dt), iris, parts),
        )
        hit = first_drone_hit(one, other)
        if hit:
            break
        left, right = one.end, other.end
    assert hit and hit.speed == pytest.approx(40.0, rel=1e-6)
    a, b = bounce_drones(one, other, hit, Material(0.3, 0.4))
    assert a.p_W.x < b.p_W.x
    assert list(a.v_W + b.v_W) == pytest.approx([0.0] * 3, abs=1e-9)
    energies = [kinetic_energy(s.v_W, s.omega_B, mass=iris.mass, inertia_B=iris.inertia_B) for s in (left, right, a, b)]
    assert sum(energies[2:]) < sum(energies[:2])
    hull = hull_box(right, parts)
    rotor = iris.rotors[0]
    assert hull.half.x == pytest.approx(max(abs(r.r_B.x) for r in iris.rotors) + rotor.radius)
    assert time_to_reach(hull, Vec3(-9.0, 0.0, 1.0), Vec3(1.0, 0.0, 0.0)) > 0.0
