"""Readings of vision sensors in the world and in colours: points lie on the surfaces, and page and report show them."""

import numpy as np
import pytest

import samara
from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.physics.types import State
from samara.scenario.file import parse_scenario
from samara.sensors.ray_sensors import RaySensor
from samara.sensors.registry import part
from samara.sensors.sensor import Mounting, RayScene
from samara.sim.ray_sensors import ImageRenderer
from samara.sim.simulation import Simulation
from samara.view.plot.vision_images import draw_vision_sensors
from samara.view.report.report import ReportRun, write_report
from samara.view.vision_frames import (
    DEPTH_COLOURS,
    NO_ECHO_COLOUR,
    VisionFrame,
    colour_scale,
    common_scale,
    depth_colours,
    echo_points,
    frustum_S,
    vision_frame,
    vision_sensors,
)
from samara.world.obstacles import Box

WALL = Box(Vec3(5.0, 0.0, 0.0), Vec3(1.0, 50.0, 50.0))  # its face is at x = 4
EXACT = {"noise": 0.0, "noise_growth": 0.0, "dropout_rate": 0.0}
FLIGHT = """
name = "eyes"
description = "two drones before a wall"
duration = 0.4

[[drones]]
name = "one"
vehicle = "iris"
start = [0.0, 0.0, 3.0]
airborne = true
sensors = [
  { part = "d435", name = "camera", width = 16, height = 12, noise = 0.0, noise_growth = 0.0, r_B = [0.1, 0.0, 0.0] },
  { part = "vlp-16", name = "lidar", columns = 24, noise = 0.0 },
]
[[drones.tasks]]
type = "hover"
at = [1.0, 0.5, 3.2]

[[drones]]
name = "two"
vehicle = "iris"
start = [0.0, 3.0, 3.0]
airborne = true
[[drones.tasks]]
type = "hover"
at = [0.0, 3.0, 3.0]

[[obstacles]]
name = "wall"
shape = "box"
centre = [3.5, 0.0, 3.0]
size = [1.0, 100.0, 100.0]
"""


@pytest.fixture(scope="module")
def scenario():
    return parse_scenario(FLIGHT, "eyes.toml")


@pytest.fixture(scope="module")
def run(scenario):
    return samara.fly(scenario)


@pytest.mark.parametrize("kind", ["camera", "lidar"])
def test_points_lie_on_the_wall_that_was_seen_while_the_drone_moves_and_turns(kind):
    """Also some time later, extrapolated with the current motion."""
    model = part("d435", width=9, height=7, **EXACT) if kind == "camera" else part("vlp-16", columns=40, noise=0.0)
    mounting = Mounting(Vec3(0.1, 0.02, -0.03), quat_from_euler(0.1, 0.3, -0.2))
    motion = State(Vec3(0.3, 0.2, 0.1), Vec3(2.0, -1.0, 0.5), quat_from_euler(0.1, -0.2, 0.3), Vec3(0.5, -0.3, 1.5))
    sensor = RaySensor(model.parameters, mounting, RayScene((WALL,)))
    row = np.concatenate([np.ravel(vector) for vector in motion[:4]])
    reading = (
        ImageRenderer(sensor)
        .render(
            row, np.array([0.0, 0.0, -100.0, 0.0, 0.0, 1.0]), [], np.zeros(sensor.normals_per_ray * sensor.ray_count)
        )
        .copy()
    )
    age = 0.03
    later_motion = motion._replace(p_W=motion.p_W + motion.v_W * age)._replace(omega_B=Vec3(0.0, 0.0, 0.0))
    points, distances = echo_points(VisionFrame("x", sensor, reading, motion))
    assert len(points) == (reading > 0.0).sum() > 20 and np.ptp(points[:, 1]) > 3.0
    assert points[:, 0] == pytest.approx(
        4.0, abs=0.002
    )  # half a millimetre along rays that are 75° from upright at most
    origin = np.array(motion.p_W) + np.array(rotate(motion.q_WB, mounting.r_B))
    if kind == "camera":
        assert np.linalg.norm(points - origin, axis=1) == pytest.approx(distances, abs=1e-9)
        later_points, _ = echo_points(VisionFrame("x", sensor, reading, later_motion, age))
        assert later_points == pytest.approx(points, abs=1e-9)


def test_what_was_recorded_lies_on_wall_ground_and_the_other_drone(run):
    """The points of a flight, each at the pose of its time: a camera's reading is delayed by 40 ms."""
    track, sensors = run["one"], vision_sensors([run])[0]
    assert set(sensors) == {"camera", "lidar"} and vision_sensors([run])[1] == {}
    for name in sensors:
        points, _ = echo_points(vision_frame(track, sensors[name], 0.3))
        on_wall, on_ground = np.abs(points[:, 0] - 3.0) < 0.01, np.abs(points[:, 2]) < 0.02
        near_other = np.linalg.norm(points - [0.0, 3.0, 3.0], axis=1) < 0.6
        assert (on_wall | on_ground | near_other).all() and on_wall.any()
    assert near_other.any()


def test_live_and_recorded_frames_have_the_same_eyes(run, scenario):
    pytest.importorskip("viser", reason="the page needs viser")
    from samara.view.web.gauges import gauges
    from samara.view.web.snapshot import recorded_frame, snapshot_frame, take_snapshot

    simulation = Simulation(scenario)
    simulation.run()
    live, recorded = (
        snapshot_frame(take_snapshot(simulation)).detail,
        recorded_frame([run], 0.4, 0, vision_sensors([run])).detail,
    )
    assert (
        [frame.name for frame in live.vision_frames]
        == [frame.name for frame in recorded.vision_frames]
        == ["camera", "lidar"]
    )
    for live_frame, recorded_depth in zip(live.vision_frames, recorded.vision_frames, strict=True):
        assert np.array_equal(live_frame.distances, recorded_depth.distances)
        assert echo_points(live_frame)[0] == pytest.approx(
            echo_points(recorded_depth)[0], abs=0.03
        )  # as it moves now, for 40 ms
    assert (
        "depth[" not in gauges(recorded)
        and recorded_frame([run], 0.3, 1, vision_sensors([run])).detail.vision_frames == ()
    )
    assert (
        recorded_frame([run], 0.01, 0, vision_sensors([run])).detail.vision_frames[0].name == "lidar"
    )  # no picture has been heard of


def test_the_page_draws_points_and_a_frustum_where_they_are(run):
    pytest.importorskip("viser", reason="the page needs viser")
    from samara.view.web.replay import ReplayViewer
    from samara.view.web.scene import FRUSTUM_RADII

    page = ReplayViewer([run], port=0)
    try:
        page.drawer.close()  # its first picture is of the start
        page.time, page.playing = 0.3, False
        page._draw(page._display_state(fresh=True))
        display, scene = page.page.scene.vision_display, page.page.scene
        expected = echo_points(vision_frame(run["one"], vision_sensors([run])[0]["lidar"], 0.3))[0]
        cloud = display._points["lidar"]
        assert cloud.points == pytest.approx(expected, abs=1e-5) and cloud.visible
        assert len(cloud.colors) == len(cloud.points)
        corner = display._frustums["camera"].points[0, 1]
        assert (
            corner[0] == pytest.approx(FRUSTUM_RADII * scene.vehicle_radius) and corner[1] > 0.0 and corner[2] > 0.0
        )  # left, up
        assert page.page._vision_folder.visible and page.page._vision_images.content.count("<img") == 2
        scene.visible_parts["eyes"] = False
        page._draw(page._display_state(fresh=True))
        assert not cloud.visible and not display._frustums["camera"].visible
        scene.visible_parts["eyes"], page.page.selected = True, 1
        page._draw(page._display_state(fresh=True))
        assert not cloud.visible and not page.page._vision_folder.visible
    finally:
        page.shut_down()


def test_the_report_shows_what_was_seen_and_says_nothing_where_nobody_looked(run, tmp_path):
    figure = draw_vision_sensors(run)
    camera, lidar, scale = figure.axes
    assert (camera.get_title(loc="left"), lidar.get_xlabel()) == ("one camera at 0.40 s", "x [m]")
    assert scale.get_ylabel() == "distance [m]" and camera.images[0].get_array().shape == (12, 16)
    assert "Cameras and lidars" in write_report([ReportRun("x.mcap", run)], tmp_path / "x.html").read_text("utf-8")
    assert draw_vision_sensors(samara.fly("hover", settings={"duration": 0.1})) is None


def test_colours_go_from_near_to_far_and_nothing_is_grey():
    colours = depth_colours(np.array([1e-9, 2.0, 4.0, 6.0, 60.0, 0.0, np.nan]), 6.0)
    assert (
        colours[:4].tolist() == DEPTH_COLOURS.astype(int).tolist() and colours[4].tolist() == DEPTH_COLOURS[-1].tolist()
    )
    assert colours[5].tolist() == colours[6].tolist() == NO_ECHO_COLOUR.astype(int).tolist()
    assert (
        np.diff(depth_colours(np.linspace(0.1, 6.0, 60), 6.0) @ [0.2126, 0.7152, 0.0722]) < 0.0
    ).all()  # far is darker


@pytest.mark.parametrize(
    ("distances", "scale"), [([0.9], 1.0), ([1.0], 1.0), ([1.1], 2.0), ([7.0, 0.0], 10.0), ([], 1.0)]
)
def test_a_scale_is_a_round_number_that_reaches_over_most(distances, scale):
    assert colour_scale(np.array(distances)) == scale
    assert colour_scale(np.array([3.0] * 99 + [80.0])) == 5.0
    sensor = RaySensor(part("d435", width=2, height=1).parameters)
    frames = [
        VisionFrame("a", sensor, np.array(reading), State(Vec3(0, 0, 0), None, Quat(1, 0, 0, 0), None))
        for reading in ([9.0, 1.0], [1.5, 0.0])
    ]
    assert common_scale(frames) == 2.0 and common_scale([]) == 1.0


def test_a_frustum_has_the_view_of_its_camera():
    """Its corners are those of the corner pixels, whose centres are half a pixel inside the angles of view."""
    camera = part("d435", width=64, height=48)
    edges = frustum_S(RaySensor(camera.parameters), 2.0)
    half = (
        2.0
        * np.tan(0.5 * np.array([camera.parameters.fov_x, camera.parameters.fov_y]))
        * (1.0 - 1.0 / np.array([64, 48]))
    )
    assert edges.shape == (8, 2, 3) and (edges[:4, 0] == 0.0).all() and edges[:4, 1, 0] == pytest.approx(2.0)
    assert np.abs(edges[:4, 1, 1:]) == pytest.approx(np.tile(half, (4, 1)))
    assert edges[0, 1, 1] > 0.0 < edges[0, 1, 2] and edges[4, 0].tolist() == edges[0, 1].tolist()
