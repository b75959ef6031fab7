"""Depth cameras and lidars: images with known geometry, computed identically by every backend."""

import math
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.algebra import IDENTITY, ZERO, Vec3, quat_from_euler, rotate
from samara.core.random import normals
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import CALM, State
from samara.scenario.file import parse_scenario
from samara.scenario.scenario import ScenarioError
from samara.sensors import PartError, part
from samara.sensors.depth_camera import Lens, depth_camera, distort, pinhole, pixel_ray, project_direction
from samara.sensors.lidar import lidar
from samara.sensors.ray_sensors import RaySensor, drone_box
from samara.sensors.sensor import Mounting, RayScene
from samara.sim.log import MetricsLog
from samara.sim.ray_sensors import ImageRenderer
from samara.sim.simulation import Simulation
from samara.vehicles.shape import bounding_box
from samara.world.obstacles import HeightMap

IRIS = samara.vehicle("iris")
BELOW = Ground(Vec3(0.0, 0.0, -1e6))
EXACT = {"noise": 0.0, "noise_growth": 0.0, "dropout_rate": 0.0}
WALL = Box(Vec3(5.0, 0.0, 0.0), Vec3(1.0, 50.0, 50.0))
SCENE = (
    Sphere(Vec3(4.0, 1.0, 0.5), 0.7),
    Capsule(Vec3(3.0, -1.0, -2.0), Vec3(3.5, -1.5, 2.0), 0.3),
    Box(Vec3(6.0, 0.0, -1.0), Vec3(0.5, 1.5, 0.5), quat_from_euler(0.3, -0.2, 0.6)),
    Ground(Vec3(0.0, 0.0, -3.0), Vec3(-0.6, 0.0, 0.8)),
)


def still(p_W=ZERO, q_WB=IDENTITY, v_W=ZERO, omega_B=ZERO):
    return State(p_W, v_W, q_WB, omega_B)


def camera(**more):
    return part("d435", **{**EXACT, "width": 17, "height": 11, "min_range": 0.0, "max_range": 60.0, **more}).parameters


def turning(**more):
    return part("vlp-16", **{**EXACT, "channels": 3, "columns": 40, "min_range": 0.0, **more}).parameters


def picture(numbers, state, solids, ground=BELOW, mounting=None, draws=None):
    """Render with the compiled code, as rows and columns"""
    eye = RaySensor(numbers, mounting or Mounting(), RayScene(tuple(solids), ground))
    normals = np.zeros(eye.ray_count * eye.normals_per_ray) if draws is None else draws
    motion = np.array([*state.p_W, *state.v_W, *state.q_WB, *state.omega_B])
    return ImageRenderer(eye).render(motion, np.zeros(6), [], normals).reshape(numbers.shape).copy()


# Known geometry -----------------------------------------------------------------------------------------------------


def test_a_wall_is_as_deep_everywhere_and_the_ground_as_deep_as_it_is_high():
    """Depth is along the axis: a wall normal to it has one depth, and so has the ground for a camera that points down."""
    assert picture(camera(), still(), [WALL]) == pytest.approx(4.0, abs=1e-12)
    down = Mounting(ZERO, quat_from_euler(0.0, math.pi / 2.0, 0.0))
    flat = picture(camera(), still(Vec3(1.0, 2.0, 7.5)), [], Ground(), down)
    assert flat == pytest.approx(7.5, abs=1e-12)


def test_a_ball_ahead_is_nearest_in_the_middle_and_as_wide_as_its_angle():
    """A ball of radius R at distance L: L − R in the middle; visible within asin(R/L) of the axis."""
    camera_part = camera(width=201.0, height=1.0)
    row = picture(camera_part, still(), [Sphere(Vec3(5.0, 0.0, 0.0), 1.0)])[0]
    assert row[100] == 4.0 == row.max(initial=0.0, where=row < 4.0005)
    focal = 0.5 * 201 / math.tan(camera_part.fov_x / 2.0)
    visible = np.abs(np.arange(201) - 100) / focal < math.tan(math.asin(0.2))
    assert np.array_equal(row > 0.0, visible)


def test_left_is_left_and_up_is_up():
    """A ball to the left of the drone is on the left of the image, one above it in the upper half."""
    left = picture(camera(), still(), [Sphere(Vec3(5.0, 2.0, 0.0), 0.5)]) > 0.0
    above = picture(camera(), still(), [Sphere(Vec3(5.0, 0.0, 1.5), 0.5)]) > 0.0
    assert left[:, :8].any() and not left[:, 8:].any()
    assert above[:5].any() and not above[5:].any()


def test_a_scene_that_is_its_own_mirror_image_has_such_a_picture():
    solids = [Sphere(Vec3(5.0, y, 0.3), 0.6) for y in (-1.2, 1.2)] + [Box(Vec3(8.0, 0.0, 0.0), Vec3(0.5, 0.7, 2.0))]
    image = picture(camera(), still(), solids, Ground(Vec3(0.0, 0.0, -1.0)))
    assert np.array_equal(image, image[:, ::-1]) and len(np.unique(image)) > 3


def test_turning_drone_and_world_together_changes_nothing():
    """s(q p, q q_WB | q world) = s(p, q_WB | world), for the image of a scene and any mounting."""
    q, mounting = quat_from_euler(0.5, -0.4, 2.0), Mounting(Vec3(0.1, -0.05, 0.02), quat_from_euler(0.1, 0.2, -0.3))
    rotated_solids = [
        Sphere(rotate(q, SCENE[0].centre_W), SCENE[0].radius),
        Capsule(rotate(q, SCENE[1].start_W), rotate(q, SCENE[1].end_W), SCENE[1].radius),
        SCENE[2]._replace(centre_W=rotate(q, SCENE[2].centre_W), q_WS=q * SCENE[2].q_WS),
        Ground(rotate(q, SCENE[3].point_W), rotate(q, SCENE[3].normal_W)),
    ]
    state = still(Vec3(0.3, 0.2, 0.1), quat_from_euler(0.1, 0.2, 0.3))
    moved = still(rotate(q, state.p_W), q * state.q_WB)
    image, rotated_image = (
        picture(camera(), state, SCENE, mounting=mounting),
        picture(camera(), moved, rotated_solids, mounting=mounting),
    )
    assert image == pytest.approx(rotated_image, abs=1.1e-3)  # a millimetre, where rounding falls the other way
    assert (image == rotated_image).mean() > 0.99 and (image > 0.0).mean() > 0.3


def test_a_lens_and_its_inverse():
    """pixel_of(pixel_ray(u, v)) = (u, v) with distortion, and by hand: x' = x (1 + k₁ x²) on the axis y = 0."""
    pinhole_camera = pinhole(64, 48, 1.5, 1.2, Lens(-0.12, 0.03, 0.004, -0.006))
    v, u = (index.astype(float) for index in np.indices((48, 64)))
    pixel = project_direction(pixel_ray(u, v, pinhole_camera), pinhole_camera)
    assert pixel[0] == pytest.approx(u, abs=1e-9) and pixel[1] == pytest.approx(v, abs=1e-9)
    assert distort(0.5, 0.0, Lens(k1=-0.2))[0] == pytest.approx(0.5 * (1 - 0.2 * 0.25), abs=1e-15)
    ray = pixel_ray(63.5, 23.5, pinhole(64, 48, 1.5, 1.2))
    assert math.atan2(-ray.y, ray.x) == pytest.approx(0.75, abs=1e-12) and ray.z == 0.0  # the edge of the view
    bent = picture(camera(k1=-0.1), still(), [WALL])
    assert bent == pytest.approx(
        4.0, abs=1e-12
    )  # a wall stays a wall: distortion only moves its points within the image


def test_beams_are_sent_one_after_the_other():
    """In front of a wall at x = 4, moving at v and turning at ω: (4 − x + v τ) / cos(azimuth − ω τ), beam by beam."""
    lidar_part = turning(channels=1.0, sweep=1.2, min_elevation=0.0, max_elevation=0.0, rate=5.0)
    column = np.arange(40.0)
    azimuth, age = 1.2 * ((column + 0.5) / 40.0 - 0.5), (1.0 - (column + 1.0) / 40.0) / 5.0
    v, omega = 3.0, 0.8
    distances = picture(
        lidar_part, still(Vec3(0.5, 0.0, 0.0), v_W=Vec3(v, 0.0, 0.0), omega_B=Vec3(0.0, 0.0, omega)), [WALL]
    )[0]
    assert distances == pytest.approx((3.5 + v * age) / np.cos(azimuth - omega * age), abs=0.5001e-3)
    assert age[-1] == 0.0 and age[0] == pytest.approx(0.195)


def test_a_rosette_stays_in_its_cone_and_comes_through_its_middle():
    lidar_part = part("mid-70", **EXACT, columns=2000).parameters
    beams = RaySensor(lidar_part).beams
    off_axis = np.arccos(np.clip(beams.direction_S.x, -1.0, 1.0))
    assert off_axis.max() == pytest.approx(lidar_part.sweep / 2.0, rel=1e-3) and off_axis.min() < 0.02
    assert np.hypot(np.hypot(*beams.direction_S[:2]), beams.direction_S.z) == pytest.approx(1.0, abs=1e-14)
    assert (np.diff(beams.age) < 0.0).all() and beams.age[-1] == 0.0 and beams.age[0] < 0.1


def test_a_rosette_is_a_rose_whose_last_beam_is_the_tip_along_y():
    """ρ = cos 61θ: 61 tips, at multiples of 2π/61 from the y axis, the last one along it, passed from y towards z"""
    lidar_part = part("mid-70", **EXACT, columns=61 * 40, channels=1).parameters
    beams = RaySensor(lidar_part).beams
    _, y, z = (np.asarray(x) for x in beams.direction_S)
    edge = math.sin(0.5 * lidar_part.sweep)
    assert (y[-1], z[-1]) == pytest.approx((edge, 0.0), abs=1e-12)
    outer = np.hypot(y, z) > 0.999999 * edge
    petals = np.arctan2(z[outer], y[outer]) * 61.0 / (2.0 * math.pi)
    assert np.abs(petals - petals.round()).max() < 1e-6 and len(set(petals.round().astype(int) % 61)) == 61
    theta = 2.0 * math.pi * (1.0 - np.asarray(beams.age) * lidar_part.rate)
    rho = np.arcsin(y * np.cos(theta) + z * np.sin(theta))
    assert rho == pytest.approx(0.5 * lidar_part.sweep * np.cos(61.0 * theta), abs=1e-10)


def test_a_hill_is_seen_as_it_is():
    """A ramp z = x/2 from 3 m above its foot: a level beam meets it at 6 m, which the plane below the drone would not give."""
    ramp = HeightMap([0.0, 40.0], [-30.0, 30.0], [[0.0, 0.0], [20.0, 20.0]])
    image = picture(camera(width=1.0, height=1.0), still(Vec3(0.0, 0.0, 3.0)), [], ramp)
    assert image == pytest.approx(6.0, abs=2e-3)


# Backends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["camera", "lidar"])
def test_compiled_pictures_are_those_of_plain_python(kind):
    """Every shape of solid, with noise and dropouts, in motion: the same millimetres."""
    more = {"noise": 0.01, "noise_growth": 0.002, "dropout_rate": 0.05}
    numbers = camera(**more, k1=-0.1, p1=0.002) if kind == "camera" else turning(**more)
    mounting = Mounting(Vec3(0.1, 0.02, -0.03), quat_from_euler(0.1, 0.3, -0.2))
    make = depth_camera if kind == "camera" else lidar
    sensor = make(numbers, mounting, scene=RayScene(SCENE, BELOW))
    state = still(Vec3(0.2, 0.1, 0.0), quat_from_euler(0.1, -0.2, 0.3), Vec3(2.0, -1.0, 0.5), Vec3(0.5, -0.3, 1.5))
    draws = normals(1, "x", 0, 0, sensor.normals_needed)
    slow = np.array(sensor.measure(state, (), IRIS, CALM, draws.tolist()))
    quick = picture(numbers, state, SCENE, mounting=mounting, draws=draws).ravel()
    assert quick == pytest.approx(slow, abs=1.1e-3) and (quick == slow).mean() > 0.98
    assert (slow == 0.0).any() and len(np.unique(slow)) > 40


def test_noise_grows_with_the_square_of_the_depth_and_some_pixels_are_lost():
    """σ = σ₀ + σ₁ z², of 14 400 pixels at two depths; and the fraction of zeros is the dropout rate."""
    for x, z in ((5.0, 4.0), (9.0, 8.0)):
        camera_part = camera(width=120.0, height=120.0, noise=0.002, noise_growth=0.003, dropout_rate=0.1)
        draws = normals(int(x), "noise", 0, 0, 28_800)
        depths = picture(camera_part, still(), [WALL._replace(centre_W=Vec3(x, 0.0, 0.0))], draws=draws).ravel()
        returned = depths[depths > 0.0]
        assert (depths == 0.0).mean() == pytest.approx(0.1, abs=0.01)
        assert returned.std() == pytest.approx(0.002 + 0.003 * z * z, rel=0.03)
        assert returned.mean() == pytest.approx(z, abs=7e-3)


def test_what_is_too_near_or_too_far_says_nothing():
    assert (picture(camera(min_range=4.1), still(), [WALL]) == 0.0).all()
    assert (picture(camera(max_range=3.9), still(), [WALL]) == 0.0).all()
    assert (picture(camera(), still(Vec3(5.0, 0.0, 0.0)), [WALL]) == 0.0).all()  # from within


# In flight ----------------------------------------------------------------------------------------------------------

FLIGHT = """
name = "eyes"
description = "two drones look at each other"
duration = 0.4
seed = 3

[[drones]]
name = "one"
vehicle = "iris"
start = [0.0, 0.0, 3.0]
airborne = true
sensors = [
  { part = "d435", name = "camera", width = 21, height = 15, dropout_rate = 0.0, delay = 0.08, r_B = [0.1, 0.0, 0.0] },
  { part = "vlp-16", name = "lidar", columns = 36 },
]
[[drones.tasks]]
type = "hover"
at = [0.0, 0.0, 3.0]

[[drones]]
name = "two"
vehicle = "iris"
start = [4.0, 0.0, 3.0]
airborne = true
[[drones.tasks]]
type = "hover"
at = [4.0, 0.0, 3.0]

[[obstacles]]
name = "ball"
shape = "sphere"
centre = [3.0, 2.0, 3.0]
radius = 0.4
"""


def flown(text=FLIGHT, **options):
    return samara.fly(parse_scenario(text, "eyes.toml"), **options)


def test_a_flight_has_pictures_at_their_rate_and_when_they_are_heard():
    run = flown()
    cameras, clouds = run["one"].tables["camera"], run["one"].tables["lidar"]
    assert cameras.fields[20:22] == ("depth[0][20]", "depth[1][0]") and set(cameras.units) == {"m"}
    assert cameras.time.tolist() == pytest.approx([0.08 + 0.04 * k for k in range(9)])
    assert clouds["distance"].shape == (9, 16 * 36)
    image = cameras["depth"][0].reshape(15, 21)
    assert 3.3 < image[7, 10] < 3.9  # the other drone's box, from its nose to the camera on ours
    assert abs(image[7, :8][image[7, :8] > 0.0].min() - 2.5) < 0.2  # the ball, on the left
    assert (image[:5] == 0.0).all() and (image[12:] > 0.0).all()  # the sky and the ground


def test_stepping_and_the_program_and_another_seed():
    """Stepping gives the same bits; another seed gives other noise and the same scene."""
    compiled, stepped, other = flown(), flown(step_by_step=True), flown(FLIGHT.replace("seed = 3", "seed = 4"))
    for name in ("camera", "lidar"):
        rows = compiled["one"].tables[name].rows
        assert rows.tobytes() == stepped["one"].tables[name].rows.tobytes()
        another = other["one"].tables[name].rows
        assert not np.array_equal(rows, another) and np.array_equal(rows == 0.0, another == 0.0)


def test_drones_of_flights_of_their_own_do_not_see_each_other():
    """Flights of one scenario share memory, here at the same position; each sees the world without the others."""
    single_drone = FLIGHT.split('[[drones]]\nname = "two"')[0]
    scenario = parse_scenario(single_drone, "eyes.toml")
    simulation = Simulation(replace(scenario, drones=scenario.drones * 2), seeds=[3, 4], log=MetricsLog())
    simulation.run()
    (group,) = simulation.groups
    assert np.array_equal(group.sensors[0].reading[:, 0], flown(single_drone)["one"].tables["camera"].rows[-1])
    assert group.sensors[0].reading.reshape(15, 21, 2)[7, 10].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("width = 21", "width = 21.5", "depth_camera.width = 21.5: expected a whole number from 1"),
        ("width = 21", "width = 0", "expected a positive number"),
        ("width = 21", "width = 9999", "9999 × 15 rays; expected at most 16384"),
        ("width = 21", "wide = 21", "there is no 'wide'; expected one of rate,"),
        (
            "dropout_rate = 0.0",
            "dropout_rate = 1.5",
            "depth_camera.dropout_rate = 1.5: expected a fraction from 0 to 1",
        ),
        ("dropout_rate = 0.0", "max_range = 0.1", "depth_camera.max_range = 0.1: expected more than min_range, 0.28 m"),
        ("dropout_rate = 0.0", "fov_x = 3.2", "depth_camera.fov_x = 3.2: expected an angle up to 2.967 rad"),
        ("dropout_rate = 0.0", "k1 = -2.0", "has no inverse within the image; expected less distortion"),
        ("columns = 36", "columns = nan", "expected a finite number"),
        ("columns = 36", "sweep = 7.0", "lidar.sweep = 7: expected an angle up to 2π rad"),
        ("columns = 36", "min_elevation = 0.5", "lidar.min_elevation = 0.5: expected at most max_elevation, 0.261799"),
        ("columns = 36", "petals = 2.5", "lidar.petals = 2.5: expected a whole number"),
        ("columns = 36", "rate = 7", "not a whole number"),
    ],
)
def test_a_camera_that_cannot_be_gets_one_sentence(before, after, sentence):
    assert before in FLIGHT
    with pytest.raises((ScenarioError, PartError)) as caught:
        parse_scenario(FLIGHT.replace(before, after, 1), "eyes.toml")
    assert sentence in str(caught.value) and "eyes.toml" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_another_drone_is_a_box_as_large_as_it_is():
    """The tips of an Iris' propellers are 0.128 m from hubs at (±0.13, ±0.22) and (0.13, −0.22); yawed by 90° x is y."""
    low, high = bounding_box(IRIS)
    box = drone_box(Vec3(1.0, 2.0, 3.0), quat_from_euler(0.0, 0.0, math.pi / 2.0), low, high)
    tips = [max(getattr(rotor.r_B, axis) for rotor in IRIS.rotors) + IRIS.rotors[0].radius for axis in "xy"]
    assert (high.x, high.y) == pytest.approx(tips)
    assert low.z < 0.0 < high.z and box.half == pytest.approx((high - low) * 0.5)
    assert box.centre_W == pytest.approx(
        Vec3(1.0 - 0.5 * (low.y + high.y), 2.0 + 0.5 * (low.x + high.x), box.centre_W.z)
    )
