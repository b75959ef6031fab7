"""What eyes saw, in the world and in colours: points lie on what was seen, and page and report show them."""

import numpy as np
import pytest

import samara
from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.physics.types import State
from samara.scenario.file import parse_scenario
from samara.sensors.ray_sensors import Eye
from samara.sensors.registry import part
from samara.sensors.sensor import Mounting, Scene
from samara.sim.ray_sensors import Picture
from samara.sim.simulation import Simulation
from samara.view.depth_colours import (
    ANCHORS,
    NOTHING,
    Seen,
    coloured,
    common_scale,
    eyes_of,
    frustum_S,
    points_of,
    scale_of,
    seen_at,
)
from samara.view.plot.depth_images import draw_eyes
from samara.view.report.report import Flown, write_report
from samara.world.obstacles import Box

WALL = Box(Vec3(5.0, 0.0, 0.0), Vec3(1.0, 50.0, 50.0))  # its face is at x = 4
EXACT = {"noise": 0.0, "noise_growth": 0.0, "lost": 0.0}
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
kind = "hover"
at = [1.0, 0.5, 3.2]

[[drones]]
name = "two"
vehicle = "iris"
start = [0.0, 3.0, 3.0]
airborne = true
[[drones.tasks]]
kind = "hover"
at = [0.0, 3.0, 3.0]

[[solids]]
name = "wall"
kind = "box"
center = [3.5, 0.0, 3.0]
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
    """Also a while later, when it has moved on as it moves now."""
    numbers = part("d435", width=9, height=7, **EXACT) if kind == "camera" else part("vlp-16", columns=40, noise=0.0)
    mounting = Mounting(Vec3(0.1, 0.02, -0.03), quat_from_euler(0.1, 0.3, -0.2))
    motion = State(Vec3(0.3, 0.2, 0.1), Vec3(2.0, -1.0, 0.5), quat_from_euler(0.1, -0.2, 0.3), Vec3(0.5, -0.3, 1.5))
    eye = Eye(numbers.numbers, mounting, Scene((WALL,)))
    row = np.concatenate([np.ravel(own) for own in motion[:4]])
    said = (
        Picture(eye).render(row, np.array([0.0, 0.0, -100.0, 0.0, 0.0, 1.0]), [], np.zeros(eye.draws * eye.rays)).copy()
    )
    age = 0.03
    later = motion._replace(p_W=motion.p_W + motion.v_W * age)._replace(omega_B=Vec3(0.0, 0.0, 0.0))
    points, distances = points_of(Seen("x", eye, said, motion))
    assert len(points) == (said > 0.0).sum() > 20 and np.ptp(points[:, 1]) > 3.0
    assert points[:, 0] == pytest.approx(
        4.0, abs=0.002
    )  # half a millimetre along rays that are 75° from upright at most
    start = np.array(motion.p_W) + np.array(rotate(motion.q_WB, mounting.r_B))
    if kind == "camera":
        assert np.linalg.norm(points - start, axis=1) == pytest.approx(distances, abs=1e-9)
        again, _ = points_of(Seen("x", eye, said, later, age))
        assert again == pytest.approx(points, abs=1e-9)


def test_what_was_recorded_lies_on_wall_ground_and_the_other_drone(run):
    """The points of a flight, each at the pose of its time: a camera is heard 40 ms later than it sees."""
    track, sensors = run["one"], eyes_of([run])[0]
    assert set(sensors) == {"camera", "lidar"} and eyes_of([run])[1] == {}
    for name in sensors:
        points, _ = points_of(seen_at(track, sensors[name], 0.3))
        on_wall, on_ground = np.abs(points[:, 0] - 3.0) < 0.01, np.abs(points[:, 2]) < 0.02
        near_other = np.linalg.norm(points - [0.0, 3.0, 3.0], axis=1) < 0.6
        assert (on_wall | on_ground | near_other).all() and on_wall.any()
    assert near_other.any()


def test_live_and_recorded_frames_have_the_same_eyes(run, scenario):
    pytest.importorskip("viser", reason="the page needs viser")
    from samara.view.web.gauges import gauges
    from samara.view.web.snapshot import frame_at, frame_of, snapshot_of

    simulation = Simulation(scenario)
    simulation.run()
    live, recorded = frame_of(snapshot_of(simulation)).close, frame_at([run], 0.4, 0, eyes_of([run])).close
    assert [seen.name for seen in live.eyes] == [seen.name for seen in recorded.eyes] == ["camera", "lidar"]
    for now, then in zip(live.eyes, recorded.eyes, strict=True):
        assert np.array_equal(now.said, then.said)
        assert points_of(now)[0] == pytest.approx(points_of(then)[0], abs=0.03)  # as it moves now, for 40 ms
    assert "depth[" not in gauges(recorded) and frame_at([run], 0.3, 1, eyes_of([run])).close.eyes == ()
    assert frame_at([run], 0.01, 0, eyes_of([run])).close.eyes[0].name == "lidar"  # no picture has been heard of


def test_the_page_draws_points_and_a_frustum_where_they_are(run):
    pytest.importorskip("viser", reason="the page needs viser")
    from samara.view.web.replay import Replay
    from samara.view.web.scene import FRUSTUM

    page = Replay([run], port=0)
    try:
        page.drawer.close()  # its first picture is of the start
        page.time, page.playing = 0.3, False
        page._draw(page._shown(fresh=True))
        sights, scene = page.page.scene.sights, page.page.scene
        expected = points_of(seen_at(run["one"], eyes_of([run])[0]["lidar"], 0.3))[0]
        drawn = sights._points["lidar"]
        assert drawn.points == pytest.approx(expected, abs=1e-5) and drawn.visible
        assert len(drawn.colors) == len(drawn.points)
        corner = sights._frustums["camera"].points[0, 1]
        assert corner[0] == pytest.approx(FRUSTUM * scene.reach) and corner[1] > 0.0 and corner[2] > 0.0  # left, up
        assert page.page._eyes_folder.visible and page.page._eyes.content.count("<img") == 2
        scene.shown["eyes"] = False
        page._draw(page._shown(fresh=True))
        assert not drawn.visible and not sights._frustums["camera"].visible
        scene.shown["eyes"], page.page.chosen = True, 1
        page._draw(page._shown(fresh=True))
        assert not drawn.visible and not page.page._eyes_folder.visible
    finally:
        page.take_down()


def test_the_report_shows_what_was_seen_and_says_nothing_where_nobody_looked(run, tmp_path):
    figure = draw_eyes(run)
    camera, lidar, scale = figure.axes
    assert (camera.get_title(loc="left"), lidar.get_xlabel()) == ("one camera at 0.40 s", "x [m]")
    assert scale.get_ylabel() == "distance [m]" and camera.images[0].get_array().shape == (12, 16)
    assert "Cameras and lidars" in write_report([Flown("x.mcap", run)], tmp_path / "x.html").read_text("utf-8")
    assert draw_eyes(samara.fly("hover", settings={"duration": 0.1})) is None


def test_colours_go_from_near_to_far_and_nothing_is_grey():
    colours = coloured(np.array([1e-9, 2.0, 4.0, 6.0, 60.0, 0.0, np.nan]), 6.0)
    assert colours[:4].tolist() == ANCHORS.astype(int).tolist() and colours[4].tolist() == ANCHORS[-1].tolist()
    assert colours[5].tolist() == colours[6].tolist() == NOTHING.astype(int).tolist()
    assert (np.diff(coloured(np.linspace(0.1, 6.0, 60), 6.0) @ [0.2126, 0.7152, 0.0722]) < 0.0).all()  # far is darker


@pytest.mark.parametrize(
    ("distances", "scale"), [([0.9], 1.0), ([1.0], 1.0), ([1.1], 2.0), ([7.0, 0.0], 10.0), ([], 1.0)]
)
def test_a_scale_is_a_round_number_that_reaches_over_most(distances, scale):
    assert scale_of(np.array(distances)) == scale
    assert scale_of(np.array([3.0] * 99 + [80.0])) == 5.0
    eye = Eye(part("d435", width=2, height=1).numbers)
    seen = [
        Seen("a", eye, np.array(own), State(Vec3(0, 0, 0), None, Quat(1, 0, 0, 0), None))
        for own in ([9.0, 1.0], [1.5, 0.0])
    ]
    assert common_scale(seen) == 2.0 and common_scale([]) == 1.0


def test_a_frustum_has_the_view_of_its_camera():
    """Its corners are those of the corner pixels, whose middles are half a pixel within the angles of view."""
    own = part("d435", width=64, height=48)
    edges = frustum_S(Eye(own.numbers), 2.0)
    half = 2.0 * np.tan(0.5 * np.array([own.numbers.view_x, own.numbers.view_y])) * (1.0 - 1.0 / np.array([64, 48]))
    assert edges.shape == (8, 2, 3) and (edges[:4, 0] == 0.0).all() and edges[:4, 1, 0] == pytest.approx(2.0)
    assert np.abs(edges[:4, 1, 1:]) == pytest.approx(np.tile(half, (4, 1)))
    assert edges[0, 1, 1] > 0.0 < edges[0, 1, 2] and edges[4, 0].tolist() == edges[0, 1].tolist()
