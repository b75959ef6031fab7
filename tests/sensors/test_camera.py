"""The camera: against an independent rasteriser, closed forms of light, shutter and noise, and its own compiled bits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.rasteriser import box_mesh, rasterise, rotation, round_mesh

import samara
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, quat_from_euler
from samara.core.extras import install_hint
from samara.core.tree import flatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import CALM, State
from samara.scenario.file import parse_scenario
from samara.scenario.scenario import ScenarioError
from samara.scenario.world import Obstacle, World, camera_scene, gate_obstacles, world_from_json, world_json
from samara.sensors import part
from samara.sensors.camera import CameraModel, CameraPart, SeenDrone, noise_normals, observe_gates, render_camera
from samara.sensors.depth_camera import pixel_ray, project_direction
from samara.sensors.registry import PartError
from samara.sensors.sensor import Mounting
from samara.sim import PythonStage
from samara.sim.camera_corners import CornerObserver
from samara.sim.camera_images import ImageRenderer, Noise
from samara.world.appearance import Appearance, CameraScene, CameraSurface, Light, PlacedGate, linear_colour
from samara.world.gates import Gate, GateSize
from samara.world.obstacles import HeightMap

PLAIN = CameraPart(50.0, 0.0, 96.0, 64.0, 1.4, 1.0, ("rgb", "segmentation", "depth", "instance"))
ALL = (*PLAIN.outputs, "optical_flow")
LEVEL = State(Vec3(0.0, 0.0, 1.5), ZERO, IDENTITY, ZERO)
WHITE = Appearance(Vec3(1.0, 1.0, 1.0))
WALL = Box(Vec3(6.0, 0.0, 0.0), Vec3(1.0, 50.0, 50.0))  # its face is at x = 5


def scene_of(*surfaces, **fields):
    return CameraScene(tuple(CameraSurface(*surface) for surface in surfaces), Ground(), **fields)


def images_of(scene, camera=PLAIN, state=LEVEL, mounting=Mounting(), **options):  # noqa: B008
    return render_camera(CameraModel(camera, mounting, scene), state, CALM, **options)


def random_scene(rng):
    """Ground, boxes, balls, rods and gates, and the same as meshes, numbered as instances"""
    obstacles, meshes = [], [(1, 200.0 * np.array([[[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]], float))]
    for k in range(9):
        x, y, z = rng.uniform([2.0, -4.0, 0.3], [12.0, 4.0, 3.0])
        if k % 3 == 0:
            half, angles = rng.uniform(0.2, 0.8, 3), rng.uniform(-1.0, 1.0, 3)
            solid = Box(Vec3(x, y, z), Vec3(*half), Quat(*map(float, quat_from_euler(*angles))))
            mesh = box_mesh(np.array([x, y, z]), half, rotation(*angles))
        elif k % 3 == 1:
            radius, end = rng.uniform(0.1, 0.4), np.array([x, y, z]) + rng.uniform(-2.0, 2.0, 3)
            solid, mesh = Capsule(Vec3(x, y, z), Vec3(*end), radius), round_mesh(np.array([x, y, z]), end, radius)
        else:
            radius = rng.uniform(0.2, 0.8)
            solid, mesh = Sphere(Vec3(x, y, z), radius), round_mesh(*np.array([[x, y, z]] * 2), radius)
        obstacles.append(Obstacle(str(k), solid, appearance=Appearance(class_name=f"class{k % 3}")))
        meshes.append((2 + k, mesh))
    for k in range(2):
        centre, yaw = rng.uniform([3.0, -2.0, 1.0], [8.0, 2.0, 2.0]), rng.uniform(-1.0, 1.0)
        placed = PlacedGate(f"gate{k}", Gate(Vec3(*centre), yaw), GateSize((1.4, 1.2), (1.9, 1.8)), 0.1)
        obstacles += gate_obstacles(placed)
        sides = [[0.0, s * 0.825, 0.0, 0.125, 0.9] for s in (-1, 1)] + [
            [0.0, 0.0, s * 0.75, 0.7, 0.15] for s in (-1, 1)
        ]
        for x, y, z, half_y, half_z in sides:
            turn = rotation(0.0, 0.0, yaw)
            meshes.append((11 + k, box_mesh(centre + turn @ [x, y, z], np.array([0.05, half_y, half_z]), turn)))
    return camera_scene(World(tuple(obstacles)), Ground()), meshes


def edges(numbers):
    """The pixels beside one of another number"""
    result = np.zeros(numbers.shape, bool)
    for axis in (0, 1):
        here, there = (slice(None),) * axis + (slice(1, None),), (slice(None),) * axis + (slice(None, -1),)
        differs = numbers[here] != numbers[there]
        result[here] |= differs
        result[there] |= differs
    return result


def grown(mask):
    """The pixels within one pixel"""
    padded = np.pad(mask, 1)
    rows, columns = mask.shape
    return np.any([padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)], axis=0)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 20), marks=pytest.mark.long)], ids=["2", "18"])
def test_random_scenes_are_those_of_an_independent_rasteriser(seeds):
    """20 scenes: class and instance equal in 99.9 % of the pixels, edges within one pixel, depth of flat ones."""
    camera = PLAIN._replace(width=240.0, height=160.0)
    matrix = np.array([[120 / math.tan(0.7), 0, 119.5], [0, 80 / math.tan(0.5), 79.5], [0, 0, 1]])
    for seed in seeds:
        rng = np.random.default_rng(seed)
        scene, meshes = random_scene(rng)
        angles, position = rng.uniform(-0.3, 0.3, 3), rng.uniform([-1.0, -1.0, 1.0], [0.0, 1.0, 2.0])
        state = LEVEL._replace(p_W=Vec3(*position), q_WB=Quat(*map(float, quat_from_euler(*angles))))
        model = CameraModel(camera, Mounting(), scene)
        images = ImageRenderer(model).render(np.array(flatten(state))[:, None], np.zeros((6, 1)))
        expected, depth = rasterise(meshes, position, rotation(*angles), matrix, camera.shape)
        expected[depth > 100.0] = 0  # the mesh of the ground ends
        instance = np.where(images["depth"][0] > 0.0, images["instance"][0], 0)
        assert (instance == expected).mean() >= 0.999, seed
        classes = np.array([0, 1, *(scene.class_names.index(f"class{k % 3}") for k in range(9)), 3, 3])
        segmentation = np.where(images["depth"][0] > 0.0, images["segmentation"][0], 0)
        assert (segmentation == classes[expected]).mean() >= 0.999, seed
        ours, theirs = edges(instance), edges(expected)
        assert (ours & ~grown(theirs)).sum() == 0, seed
        assert (theirs & ~grown(ours)).sum() == 0, seed
        flat = np.isin(expected, [1, 2, 5, 8, 11, 12])  # the meshes of balls and rods have facets
        same = (instance == expected) & flat & ~grown(theirs)
        error = np.abs(images["depth"][0][same] / depth[same] - 1.0)
        assert error.max() < 1e-6, seed  # single precision


def test_a_lens_is_that_of_opencv():
    """Projection to 1e-6 pixels, with all four coefficients; and the rays of pixels through it."""
    cv2 = pytest.importorskip("cv2", reason=f"OpenCV is not installed: {install_hint('peers')}")
    camera = PLAIN._replace(k1=-0.21, k2=0.05, p1=0.002, p2=-0.003).camera
    matrix = np.array(
        [[camera.focal_x, 0, camera.center_x - 0.5], [0, camera.focal_y, camera.center_y - 0.5], [0, 0, 1]]
    )
    coefficients = np.array(camera.lens)
    row, column = (index.ravel().astype(float) for index in np.indices((camera.height, camera.width)))
    direction = np.stack(pixel_ray(column, row, camera), axis=1)
    points = 7.0 * direction @ np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # x right, y down, z ahead
    projected, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), matrix, coefficients)
    np.testing.assert_allclose(projected[:, 0], np.stack([column, row], axis=1), rtol=0, atol=1e-6)
    ours = np.stack(project_direction(Vec3(*direction.T), camera), axis=1)
    np.testing.assert_allclose(ours, projected[:, 0], rtol=0, atol=1e-6)


def test_a_wall_has_the_radiance_of_the_cosine_law():
    """k = 255 g ρ (a + s n·d), and its square root with gamma 2; vignetting takes V (1 − cos⁴θ) of it."""
    light = Light(Vec3(-0.6, 0.0, 0.8), sun=0.5, ambient=0.2)
    grey = Appearance(Vec3(0.8, 0.4, 0.2))
    radiance = np.array(grey.colour) * (0.2 + 0.5 * 0.6)
    camera = PLAIN._replace(width=101.0, height=61.0)
    for gamma in (1.0, 2.0):
        image = images_of(scene_of((WALL, grey), light=light), camera._replace(exposure=1.5, gamma=gamma))["rgb"]
        np.testing.assert_array_equal(image[10, 50], np.floor(255 * (1.5 * radiance) ** (1 / gamma) + 0.5))
    faded = images_of(scene_of((WALL, WHITE), light=light), camera._replace(exposure=2.0, vignetting=0.7))["rgb"]
    x, y = (np.arange(101) - 50) * math.tan(0.7) / 50.5, -20 * math.tan(0.5) / 30.5
    cosine_squared = 1.0 / (1.0 + x * x + y * y)
    np.testing.assert_array_equal(faded[10, :, 0], np.floor(255 * (1.0 - 0.7 * (1.0 - cosine_squared**2)) + 0.5))


def test_noise_has_the_variance_of_photons_and_of_reading():
    """The photon transfer curve: var(y) = y/N + (σ/N)² at every exposure."""
    light = Light(Vec3(-1.0, 0.0, 0.0), sun=0.0, ambient=1.0)
    camera = PLAIN._replace(
        outputs=("rgb",), width=320.0, height=200.0, full_well=2000.0, read_noise=20.0, fov_y=0.3, fov_x=0.4
    )
    for exposure in (0.1, 0.4, 0.7):
        model = CameraModel(camera._replace(exposure=exposure), Mounting(), scene_of((WALL, WHITE), light=light))
        normals = noise_normals(model, 3, "sensor camera", 0, 5)
        level = images_of(model.scene, model.part, normals=normals)["rgb"] / 255.0
        variance = exposure / 2000.0 + (20.0 / 2000.0) ** 2 + (1.0 / 255.0) ** 2 / 12.0
        assert abs(level.mean() - exposure) < 4.0 * math.sqrt(variance / level.size)
        assert abs(level.var() / variance - 1.0) < 0.02
        assert abs(np.corrcoef(level[..., 0].ravel(), level[..., 1].ravel())[0, 1]) < 0.015


def test_textures_have_the_size_that_they_say():
    """A checkered floor below: the edges of its cells project to multiples of the size over the height."""
    floor = scene_of(ground_appearance=Appearance(Vec3(1.0, 1.0, 1.0), "checker", ZERO, 0.5))
    down = Mounting(ZERO, Quat(*map(float, quat_from_euler(0.0, math.pi / 2, 0.0))))
    camera = PLAIN._replace(outputs=("rgb",), width=200.0, height=200.0, fov_x=1.0, fov_y=1.0)
    image = images_of(floor, camera, mounting=down, state=LEVEL._replace(p_W=Vec3(0.25, 0.25, 2.0)))["rgb"][..., 0] > 0
    pixels_per_cell = 0.5 / 2.0 * 100.0 / math.tan(0.5)
    rows, columns = (np.arange(200) - 99.5) / pixels_per_cell, (np.arange(200) - 99.5) / pixels_per_cell
    expected = (np.floor(0.5 - rows)[:, None] + np.floor(0.5 - columns)[None]) % 2 == 0
    assert (image == expected).mean() > 0.999


def test_a_rolling_shutter_shears_a_turning_image():
    """While the drone turns left by ω, the row read τ earlier shows the pole at tan(ω τ) further left of the axis."""
    pole, rate, row_time = Capsule(Vec3(10.0, 0.0, -20.0), Vec3(10.0, 0.0, 20.0), 0.3), 2.0, 5e-4
    camera = PLAIN._replace(width=320.0, height=120.0, fov_y=0.2, row_time=row_time, outputs=("segmentation",))
    state = LEVEL._replace(omega_B=Vec3(0.0, 0.0, rate))
    pixels = images_of(scene_of((pole,)), camera, state)["segmentation"] == 2
    column = (pixels * np.arange(320)).sum(1) / pixels.sum(1)
    age = row_time * np.arange(120)[::-1]
    expected = 159.5 + 160 / math.tan(0.7) * np.tan(-rate * age)
    np.testing.assert_allclose(column, expected, atol=0.51)


def test_motion_blurs_an_edge_over_the_way_it_moves():
    """A step of a wall at f ω T pixels per exposure is a ramp of that width; depth is that of its middle."""
    light = Light(Vec3(-1.0, 0.0, 0.0), sun=0.0, ambient=1.0, horizon=ZERO, zenith=ZERO)
    half_wall = Box(Vec3(6.0, 10.0, 0.0), Vec3(1.0, 10.0, 50.0))  # left of the axis
    camera = PLAIN._replace(width=321.0, height=3.0, fov_y=0.02, exposure_time=0.02, motion_samples=31.0)
    state = LEVEL._replace(omega_B=Vec3(0.0, 0.0, -2.0), p_W=Vec3(0.0, 0.0, 1.5))
    images = images_of(scene_of((half_wall, WHITE), light=light), camera, state)
    focal, level = 160.5 / math.tan(0.7), images["rgb"][1, :, 0] / 255.0
    ramp = level[(level > 0.01) & (level < 0.99)]
    assert abs(len(ramp) - focal * math.tan(0.04)) < 2.0
    assert np.all(np.diff(level) <= 0.0)
    assert (images["depth"][1] > 0).sum() == pytest.approx(160.0 + focal * math.tan(2.0 * 0.01), abs=1.0)


def test_optical_flow_is_where_a_point_goes():
    """Points seen at one instant, projected an instant later, with distortion, a mounting and another drone that moves."""
    camera = PLAIN._replace(outputs=("depth", "optical_flow", "instance"), k1=-0.1, p1=0.01)
    mounting = Mounting(Vec3(0.1, -0.05, 0.02), Quat(*map(float, quat_from_euler(0.1, 0.2, -0.1))))
    state = State(
        Vec3(0.0, 0.0, 1.5),
        Vec3(3.0, -1.0, 0.5),
        Quat(*map(float, quat_from_euler(0.1, 0.0, 0.2))),
        Vec3(0.5, -1.0, 2.0),
    )
    other = SeenDrone(
        Vec3(-0.3, -0.3, -0.2), Vec3(0.3, 0.3, 0.2), 9.0, Vec3(4.0, 1.0, 1.5), Vec3(1.0, 2.0, -1.0), IDENTITY, Vec3(0.0, 3.0,
        1.0)
    )  # fmt: skip
    scene = scene_of((Sphere(Vec3(5.0, -1.0, 1.0), 0.5),))
    images = images_of(scene, camera, state, mounting, drones=[other])
    model = CameraModel(camera, mounting, scene)
    d_S, z = np.stack(model.directions, axis=1), images["depth"].ravel().astype(float)

    def pose(motion, dt):
        """The pose at a constant velocity in the world and a constant angular velocity of the body, by matrices"""
        angle = np.linalg.norm(motion.omega_B) * dt
        x, y, w = np.array(motion.omega_B) / max(np.linalg.norm(motion.omega_B), 1e-12)
        k = np.array([[0, -w, y], [w, 0, -x], [-y, x, 0]])
        turn = np.eye(3) + math.sin(angle) * k + (1 - math.cos(angle)) * k @ k
        a, b, c, d = motion.q_WB
        start = np.array(
            [
                [1 - 2 * (c * c + d * d), 2 * (b * c - a * d), 2 * (b * d + a * c)],
                [2 * (b * c + a * d), 1 - 2 * (b * b + d * d), 2 * (c * d - a * b)],
                [2 * (b * d - a * c), 2 * (c * d + a * b), 1 - 2 * (b * b + c * c)],
            ]
        )
        return np.array(motion.p_W) + dt * np.array(motion.v_W), start @ turn

    def projected(points_W, dt):
        p, turn = pose(state, dt)
        points_B = (points_W - p) @ turn
        points_S = (points_B - np.array(mounting.r_B)) @ rotation(0.1, 0.2, -0.1)
        return np.stack(project_direction(Vec3(*points_S.T), camera.camera), axis=1)

    p, turn = pose(state, 0.0)
    points = p + (np.array(mounting.r_B) + (d_S * (z / d_S[:, 0])[:, None]) @ rotation(0.1, 0.2, -0.1).T) @ turn.T
    dt, moved = 1e-5, points.copy()
    is_drone = images["instance"].ravel() == 9
    centre, start_turn = pose(other, 0.0)
    later, later_turn = pose(other, dt)
    moved[is_drone] = later + (points[is_drone] - centre) @ start_turn @ later_turn.T
    flow = (projected(moved, dt) - projected(points, 0.0)) / dt
    seen = z > 0
    assert is_drone.sum() > 20
    np.testing.assert_allclose(images["optical_flow"].reshape(-1, 2)[seen], flow[seen], rtol=1e-3, atol=0.05)


def gate_scene(*surfaces):
    placed = PlacedGate("gate", Gate(Vec3(5.0, 0.5, 1.5), 0.3), GateSize((1.4, 1.2), (1.9, 1.8)))
    obstacles = [*gate_obstacles(placed), *(Obstacle(str(k), solid) for k, solid in enumerate(surfaces))]
    return camera_scene(World(tuple(obstacles), gates=(placed,)), Ground())


def test_corners_of_gates_are_projected_unless_hidden():
    """By the matrix of the camera; a ball before the top left corner hides it, and only it."""
    camera = PLAIN._replace(outputs=("gate_corners",))
    corners = np.array([5.0, 0.5, 1.5]) + np.array(
        [[0, y, z] for y, z in ((0.7, 0.6), (-0.7, 0.6), (-0.7, -0.6), (0.7, -0.6))]
    ) @ rotation(0.0, 0.0, 0.3).T - [0.0, 0.0, 1.5]  # fmt: skip
    u = 47.5 - 48 / math.tan(0.7) * corners[:, 1] / corners[:, 0]
    v = 31.5 - 32 / math.tan(0.5) * corners[:, 2] / corners[:, 0]
    (observed,) = observe_gates(CameraModel(camera, Mounting(), gate_scene()), LEVEL, CALM)
    np.testing.assert_allclose(observed, np.stack([u, v, np.ones(4)], axis=1), atol=1e-9)
    ball = Sphere(Vec3(*(0.5 * corners[0] + [0.0, 0.0, 1.5])), 0.1)
    (observed,) = observe_gates(CameraModel(camera, Mounting(), gate_scene(ball)), LEVEL, CALM)
    assert [corner.visible for corner in observed] == [0.0, 1.0, 1.0, 1.0] and observed[0] == (0.0, 0.0, 0.0)
    behind = LEVEL._replace(q_WB=Quat(0.0, 0.0, 0.0, 1.0))
    (observed,) = observe_gates(CameraModel(camera, Mounting(), gate_scene()), behind, CALM)
    assert not any(corner.visible for corner in observed)


@pytest.mark.parametrize(
    "ground", [Ground(), HeightMap([-9.0, 9.0], [-9.0, 9.0], [[0.0, 0.0], [2.0, 2.0]])], ids=["plane", "map"]
)
def test_compiled_corners_are_those_of_the_definition(ground):
    camera = PLAIN._replace(outputs=("gate_corners",), row_time=1e-4, exposure_time=0.01)
    model = CameraModel(
        camera, Mounting(Vec3(0.1, 0.0, 0.0)), gate_scene(Sphere(Vec3(3.0, 0.4, 1.6), 0.3))._replace(ground=ground)
    )
    states, drones = moving_states(3), [moving_drones(1, k) for k in range(3)]
    observed = CornerObserver(model).observe(columns(states), np.zeros((6, 3)), drones)
    for state, others, row in zip(states, drones, observed, strict=True):
        np.testing.assert_array_equal(row, flatten(observe_gates(model, state, CALM, others)))


def moving_states(n):
    rng = np.random.default_rng(7)
    return [
        State(
            Vec3(*rng.uniform([-1.0, -1.0, 1.0], [1.0, 1.0, 3.0]).tolist()),
            Vec3(*rng.uniform(-3.0, 3.0, 3).tolist()),
            Quat(*map(float, quat_from_euler(*rng.uniform(-0.3, 0.3, 3)))),
            Vec3(*rng.uniform(-2.0, 2.0, 3).tolist()),
        )
        for _ in range(n)
    ]


def moving_drones(n, seed=0):
    return [
        SeenDrone(
            Vec3(-0.3, -0.3, -0.1),
            Vec3(0.3, 0.3, 0.1),
            20.0 + 10 * seed + k,
            *state._replace(p_W=Vec3(3.0, k - 0.5, 1.5))[:4],
        )
        for k, state in enumerate(moving_states(n))
    ]


def columns(states):
    return np.array([flatten(state) for state in states]).T


def textured_scene():
    looks = [Appearance(texture=texture, texture_size=0.2) for texture in ("plain", "checker", "stripes")]
    solids = (
        Sphere(Vec3(5.0, 1.0, 1.5), 0.7),
        Capsule(Vec3(6.0, -1.0, 0.0), Vec3(6.5, -1.5, 3.0), 0.3),
        Box(Vec3(7.0, 0.0, 1.0), Vec3(0.5, 1.5, 0.5), Quat(*map(float, quat_from_euler(0.3, -0.2, 0.6)))),
        Ground(Vec3(20.0, 0.0, 0.0), Vec3(-0.8, 0.0, 0.6)),
        Sphere(Vec3(0.0, 0.0, 2.0), 0.4),  # some cameras are inside it
    )
    return scene_of(*((solid, look) for solid in solids for look in looks[:: 1 if isinstance(solid, Sphere) else 2]))


CAMERAS = {
    "global": {},
    "odd size and grey": {"width": 51.0, "height": 37.0, "channels": 1.0, "gamma": 2.0},
    "noise and lens": {"full_well": 5000.0, "read_noise": 8.0, "vignetting": 0.5, "k1": -0.1, "p2": 0.01},
    "rolling": {"row_time": 2e-4, "exposure_time": 0.01},
    "blurred": {"row_time": 1e-4, "exposure_time": 0.02, "motion_samples": 3.0},
}


@pytest.mark.parametrize("changes", CAMERAS.values(), ids=CAMERAS)
def test_compiled_images_are_those_of_the_definition_at_every_batch_size(changes):
    """Bit by bit, among textures and drones, from inside a ball too; alone as among five."""
    model = CameraModel(PLAIN._replace(outputs=ALL, **changes), Mounting(Vec3(0.1, 0.0, 0.0)), textured_scene())
    states, n = moving_states(5), 5
    states[0] = states[0]._replace(p_W=Vec3(-0.1, 0.0, 2.0))
    drones = [moving_drones(2, k) for k in range(n)]
    noise = Noise("sensor camera", [1, 2, 3, 4, 5], [0, 1, 0, 2, 0], 9)
    together = ImageRenderer(model, 2).render(columns(states), np.zeros((6, n)), drones, noise)
    for k in (0, 3):
        own = noise._replace(seeds=[noise.seeds[k]], drones=[noise.drones[k]])
        alone = ImageRenderer(model, 2).render(columns(states[k : k + 1]), np.zeros((6, 1)), drones[k : k + 1], own)
        normals = noise_normals(model, noise.seeds[k], noise.source, noise.drones[k], noise.tick)
        defined = render_camera(model, states[k], CALM, normals, drones[k])
        for name, image in defined.items():
            np.testing.assert_array_equal(together[name][k], image, err_msg=name)
            np.testing.assert_array_equal(alone[name][0], image, err_msg=name)


def test_a_height_map_is_seen_as_by_the_definition():
    """The same bits; on the slope h = x/4 the depth is z = 1.5/(1/4 − d_z/dₓ)."""
    axis = np.linspace(-20.0, 20.0, 41)
    slope = HeightMap(axis, axis, np.maximum(axis, 0.0)[:, None] / 4.0 + np.zeros(41))
    camera = PLAIN._replace(outputs=ALL, width=40.0, height=30.0, max_range=15.0)
    model = CameraModel(camera, Mounting(), CameraScene((), slope))
    images = ImageRenderer(model).render(columns([LEVEL]), np.zeros((6, 1)))
    for name, expected in render_camera(model, LEVEL, CALM).items():
        np.testing.assert_array_equal(images[name][0], expected, err_msg=name)
    d = Vec3(*(leaf.reshape(30, 40) for leaf in model.directions))
    seen = images["depth"][0] > 0.0
    assert seen.sum() > 300
    np.testing.assert_allclose(images["depth"][0][seen], (1.5 / (0.25 - d.z / d.x))[seen], rtol=2e-3)


@pytest.mark.long
def test_images_in_jax_are_those_of_numpy():
    """Within one grey level in 99.9 % of the values, the same classes, depth and flow to single precision."""
    jax = pytest.importorskip("jax")
    from samara.core.tree import unflatten
    from samara.sensors import camera_images

    camera = PLAIN._replace(outputs=ALL, width=48.0, height=32.0, row_time=1e-4, exposure_time=0.005, k1=-0.05)
    model = CameraModel(camera, Mounting(Vec3(0.1, 0.0, 0.0)), textured_scene())
    states = moving_states(3)
    batch = unflatten(LEVEL, iter(jax.numpy.asarray(columns(states), "float32")))
    images = jax.jit(lambda batch: camera_images(batch, model))(batch)
    for image in model.images:
        assert images[image.name].shape == (3, *image.shape) and images[image.name].dtype == image.dtype
    for k, state in enumerate(states):
        for name, expected in render_camera(model, state, CALM).items():
            error = np.abs(np.asarray(images[name][k], float) - expected.astype(float))
            tolerance = {"rgb": 1.0, "depth": 1e-3, "optical_flow": 1e-2}.get(name, 0.0)
            assert (error > tolerance * np.maximum(1.0, 1e-3 * np.abs(expected))).mean() < 1e-3, name


# In flight -------------------------------------------------------------------------------------------------------------

FLIGHT = """
name = "camera_flight"
description = "two drones and a gate"
duration = 0.5
[light]
elevation_deg = 45.0
[[gates]]
name = "first"
centre = [3.0, 0.0, 1.0]
opening = [1.0, 1.0]
frame = [1.4, 1.4]
[[obstacles]]
name = "ball"
shape = "sphere"
centre = [5.0, 1.5, 1.0]
radius = 0.5
colour = "#0072b2"
texture = "checker"
class = "ball"
[[drones]]
name = "one"
vehicle = "crazyflie"
start = [0.0, 0.0, 1.0]
airborne = true
[[drones.sensors]]
part = "ov9281"
name = "eye"
width = 64
height = 48
rate = 25
delay = 0.04
full_well = 5000
outputs = ["rgb", "segmentation", "depth", "instance", "optical_flow", "gate_corners"]
[[drones]]
name = "two"
vehicle = "crazyflie"
start = [1.0, 0.3, 1.0]
airborne = true
"""


class Photographer(PythonStage):
    """Keeps a copy of every image at the ticks of the controller."""

    rate = "control"

    def __init__(self):
        self.album = []

    def update(self, fleet):
        images = {name: array.copy() for group in fleet.groups for name, array in group.images.items()}
        self.album.append((fleet.time_us, images))


def photographs(text, **settings):
    photographer = Photographer()
    scenario = parse_scenario(text, "x.toml")
    run = samara.fly(replace(scenario, **settings), stages=lambda standard: (*standard, photographer))
    return run, photographer.album


def test_a_flight_steps_and_compiles_to_the_same_images():
    run, album = photographs(FLIGHT, duration=0.13)
    _, stepped = photographs(FLIGHT, duration=0.13, backend="python")
    for (time_us, images), (stepped_us, stepped_images) in zip(album, stepped, strict=True):
        assert time_us == stepped_us
        for name, image in images.items():
            np.testing.assert_array_equal(image, stepped_images[name], err_msg=f"{name} at {time_us}")
    table = run.tables["eye"]
    np.testing.assert_array_equal(table.times_us, [40_000, 80_000, 120_000])
    np.testing.assert_array_equal(table["frame"], [0.0, 1.0, 2.0])
    assert not album[0][1]["eye/rgb"].any()  # the first arrives after its delay
    last = album[-1][1]
    scene = parse_scenario(FLIGHT, "x.toml").world
    names = camera_scene(scene, None).instance_names
    assert names == ("sky", "ground", "ball", "first")
    instances = set(np.unique(last["eye/instance"]).tolist())
    assert instances == {0, 1, 2, 3, len(names) + 1}  # and the second drone
    assert set(np.unique(last["eye/segmentation"]).tolist()) == {0, 1, 3, 4, 5}
    assert table["gate_corners[0][0].visible"][0] in (0.0, 1.0) and table["gate_corners[0][2].visible"][0] == 1.0


def test_a_failed_camera_keeps_its_last_image_and_a_blind_one_is_black():
    failure = '[[events]]\nat = 0.15\ndo = "fail_sensor"\nsensor = "camera"\n'
    _, album = photographs(FLIGHT + failure, duration=0.3)
    times, rgb = np.array([time_us for time_us, _ in album]), [images["eye/rgb"] for _, images in album]
    last = int(np.searchsorted(times, 150_000))
    assert all(np.array_equal(image, rgb[last]) for image in rgb[last:])
    assert not np.array_equal(rgb[int(np.searchsorted(times, 100_000))], rgb[last])  # noise changes every image
    _, album = photographs(FLIGHT + failure + 'mode = "occluded"\nfraction = 0.25\n', duration=0.3)
    _, intact = photographs(FLIGHT, duration=0.3)
    for name, image in album[-1][1].items():
        assert not image[0, :, :16].any()
        np.testing.assert_array_equal(image[0, :, 16:], intact[-1][1][name][0, :, 16:], err_msg=name)


def test_a_world_survives_json():
    world = parse_scenario(FLIGHT, "x.toml").world
    assert world_from_json(world_json(world)) == world
    assert world.obstacles[0].appearance == Appearance(linear_colour("#0072b2"), "checker", class_name="ball")
    assert [obstacle.name for obstacle in world.obstacles[1:]] == [
        "first.left",
        "first.right",
        "first.top",
        "first.bottom",
    ]
    assert world.light.sun_direction_W.z == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('colour = "#0072b2"', 'colour = "blue"', "colour = 'blue': expected six hexadecimal digits"),
        ('texture = "checker"', 'texture = "wood"', "texture = 'wood': expected one of plain, checker, stripes"),
        ("frame = [1.4, 1.4]", "frame = [0.9, 1.4]", r"frame = \[0.9, 1.4\]: expected a width and a height above"),
        ("elevation_deg = 45.0", "elevation_deg = 95.0", "elevation_deg = 95"),
        ("width = 64", "width = 64.5", "camera.width = 64.5: expected a whole number"),
        ('outputs = ["rgb", ', 'outputs = ["x", ', "expected one or more of rgb, segmentation"),
    ],
)
def test_bad_input_is_one_sentence(old, new, message):
    with pytest.raises(ScenarioError, match=message):
        parse_scenario(FLIGHT.replace(old, new), "x.toml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"motion_samples": 2.0}, "camera.motion_samples = 2: expected an odd number"),
        ({"channels": 2.0}, "camera.channels = 2: expected 1 or 3"),
        ({"gamma": 1.5}, "camera.gamma = 1.5: expected 1 or 2"),
        ({"k1": -0.9}, "such a lens has no inverse within the image"),
        ({"width": 3000.0, "height": 3000.0}, "expected at most 2097152 pixels"),
    ],
)
def test_an_impossible_camera_is_one_sentence(changes, message):
    with pytest.raises((ValueError, PartError), match=message):
        part("ov9281", **changes).sensor()
