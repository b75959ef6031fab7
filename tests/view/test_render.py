"""Films: the camera is a pinhole camera, drones are at their projections, and files hold the right frames."""

import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support.command import call
from support.repository import skip_or_fail
from support.tricopter import ARM, LEVER, tricopter

import samara
from samara.core.algebra import Quat, Vec3, matrix_from_quat, quat_from_euler
from samara.core.extras import MissingExtraError, install_hint
from samara.physics.multirotor import replace_tilt_angles, state_at_rest, tilt_rotors
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.vehicles.shape import Disc, shape_parts
from samara.view.film.camera import MIN_DEPTH, camera_along, look_at, project, visible_area, visible_lines
from samara.view.film.render import (
    DISC_VERTICES,
    Film,
    FilmPose,
    FilmScene,
    default_film,
    flight_arrays,
    frame_times,
    interpolate_pose,
    perpendicular_axes,
    render,
    strobe,
    tilted_points,
    transform_points,
    vehicle_geometry,
)

SIZE = (160, 120)


@pytest.fixture(scope="module")
def run():
    return samara.fly("figure8", settings={"duration": 6.0, "drones.vehicle": "hexarotor_x"})


# The camera -------------------------------------------------------------------------------------------------------------

coordinates = st.tuples(*[st.floats(-20.0, 20.0)] * 3).map(np.array)


@given(eye=coordinates, along=coordinates.filter(lambda v: np.linalg.norm(v) > 0.1), point=coordinates)
@settings(max_examples=60, deadline=None)
def test_the_picture_is_that_of_a_pinhole(eye, along, point):
    """Compared with the matrix K [R | −R e] and division by its last row, as in books on vision."""
    camera = camera_along(eye, along, SIZE, 50.0)
    axes = np.stack([camera.right_W, -camera.up_W, camera.forward_W])
    assert axes @ axes.T == pytest.approx(np.eye(3), abs=1e-12)
    assert np.linalg.det(axes) == pytest.approx(1.0)  # right, down, forward: right-handed
    K = np.array([[camera.focal, 0.0, 80.0], [0.0, camera.focal, 60.0], [0.0, 0.0, 1.0]])
    u, v, w = K @ np.hstack([axes, -(axes @ eye)[:, None]]) @ [*point, 1.0]
    pixels, depth = project(camera, point)
    assert depth == pytest.approx(w, abs=1e-9)
    if w > MIN_DEPTH:
        assert pixels == pytest.approx(np.array([u, v]) / w, rel=1e-9, abs=1e-6)


def test_the_field_is_what_the_height_of_the_picture_takes_in():
    """A point at half the field above the line of sight is on the upper edge."""
    camera = look_at((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), SIZE, 50.0)
    up = math.tan(math.radians(25.0))
    assert project(camera, (2.0, 0.0, 2.0 * up))[0] == pytest.approx((80.0, 0.0))
    assert project(camera, (2.0, 2.0 * up, 0.0))[0] == pytest.approx((20.0, 60.0))  # left is left
    down = camera_along((0.0, 0.0, 10.0), (0.0, 0.0, -1.0), SIZE)
    east, north = (project(down, point)[0] for point in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))
    assert east[0] > 80.0 and east[1] == pytest.approx(60.0)
    assert north[1] < 60.0 and north[0] == pytest.approx(80.0)


def test_what_is_behind_the_eye_is_cut_off():
    """A line from in front of the eye to behind it ends at the near plane, in the direction of its visible end."""
    camera = look_at((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), SIZE)
    lines = visible_lines(camera, [(2.0, 0.0, 0.0), (-1.0, 0.0, 0.0)], [(-2.0, 0.0, 1.0), (-2.0, 0.0, 0.0)])
    assert lines.shape == (1, 2, 2)
    cut = np.array([MIN_DEPTH, 0.0, (2.0 - MIN_DEPTH) / 4.0])  # the point of the line with x = MIN_DEPTH
    assert lines[0, 0] == pytest.approx((80.0, 60.0))
    assert lines[0, 1] == pytest.approx(project(camera, cut)[0])
    square = [(-1.0, -1.0, -1.0), (3.0, -1.0, -1.0), (3.0, 1.0, -1.0), (-1.0, 1.0, -1.0)]
    assert len(visible_area(camera, square)) == 4 and (visible_area(camera, square)[:, 1] > 60.0).all()
    assert len(visible_area(camera, np.array(square) - (5.0, 0.0, 0.0))) == 0


# Drones -----------------------------------------------------------------------------------------------------------------


def test_a_model_turns_as_its_body_does():
    """R r + p with the rotation matrix; the edge of every disc lies around its hub, across its axis."""
    vehicle = samara.vehicle("hexarotor_tilted")
    model = vehicle_geometry(vehicle)
    q = quat_from_euler(0.3, -0.4, 1.2)
    pose = FilmPose(np.array([1.0, 2.0, 3.0]), q, *[np.zeros(3)] * 4, 0.0)
    R = np.array(matrix_from_quat(q), dtype=float).reshape(3, 3)
    assert transform_points(model.points_B, pose) == pytest.approx(model.points_B @ R.T + pose.p_W)
    discs = [part for part in shape_parts(vehicle) if isinstance(part, Disc)]
    for disc, edge in zip(discs, model.select_discs(model.points_B), strict=True):
        spokes = edge - np.array(disc.centre_B)
        assert np.linalg.norm(spokes, axis=1) == pytest.approx(np.full(DISC_VERTICES, disc.radius))
        assert spokes @ np.array(disc.axis_B) == pytest.approx(0.0, abs=1e-12)
        turn = np.cross(spokes[0], spokes[1]) @ np.array(disc.axis_B)
        assert turn > 0.0  # right-handed about the axis
    x, y = perpendicular_axes((0.0, 1.0, 0.0))
    assert np.cross(x, y) == pytest.approx((0.0, 1.0, 0.0))


def test_a_disc_on_a_servo_leans_as_its_rotor_does():
    """The disc is perpendicular to the tilted thrust axis, about the same centre; other points stay; a film reads the log."""
    vehicle = tricopter()
    model, (tail,), angle = vehicle_geometry(vehicle), vehicle.servos, 0.4
    points = tilted_points(model, np.array([angle]))
    tilted_rotor = tilt_rotors(replace_tilt_angles(state_at_rest(vehicle), (angle,), vehicle), vehicle).rotors[tail]
    spokes = model.select_discs(points)[tail] - np.array(model.discs[tail].centre_B)
    assert np.linalg.norm(spokes, axis=1) == pytest.approx(np.full(DISC_VERTICES, model.discs[tail].radius))
    assert spokes @ np.array(tilted_rotor.axis_B) == pytest.approx(0.0, abs=1e-12)
    moved_points = np.flatnonzero((points != model.points_B).any(axis=1))
    start = 2 * len(model.rods) + DISC_VERTICES * tail
    assert set(moved_points) <= set(range(start, start + DISC_VERTICES)) and len(moved_points) > DISC_VERTICES // 2
    start_position = Vec3(0.0, 0.0, 2.0)
    drone = Drone("d", vehicle, trajectory.hover(start_position), start_position, airborne=True, controller="geometric")
    record = samara.fly(Scenario("tail", (drone,), 0.1)).drone_records[0]
    assert interpolate_pose(flight_arrays(record), 0.05).servo_angle == pytest.approx(
        [math.atan(LEVER / ARM)], rel=0.02
    )


def test_between_two_states_a_pose_is_between_them(run):
    flight = flight_arrays(run.drone_records[0])
    half = interpolate_pose(flight, 0.5 * float(flight.time[200] + flight.time[201]))
    assert half.p_W == pytest.approx(0.5 * (flight.position[200] + flight.position[201]))
    assert sum(x * x for x in half.q_WB) == pytest.approx(1.0)
    assert interpolate_pose(flight, float(flight.time[77])).p_W == pytest.approx(flight.position[77])
    assert interpolate_pose(flight, -1.0).p_W == pytest.approx(flight.position[0])
    assert interpolate_pose(flight, 99.0).p_W == pytest.approx(flight.position[-1])
    flipped = flight._replace(attitude=flight.attitude * np.where(np.arange(len(flight.time)) % 2, -1.0, 1.0)[:, None])
    same = interpolate_pose(flipped, 0.5 * float(flight.time[200] + flight.time[201])).q_WB
    assert abs(sum(a * b for a, b in zip(same, half.q_WB, strict=True))) == pytest.approx(1.0)
    assert isinstance(half.q_WB, Quat)


def changed_pixels(first, second):
    """Return pixels that differ, as (x, y)."""
    rows, columns = np.nonzero((first.astype(int) - second.astype(int)).any(axis=2))
    return np.stack([columns, rows], axis=1)


@pytest.mark.parametrize("camera", ["chase", "fixed", "top"])
def test_the_drone_is_where_the_camera_projects_it(run, camera, monkeypatch):
    """Pictures with and without the drone differ only around the pixel of its position."""
    film = Film(size=(480, 360), camera=camera)
    scene = FilmScene(run, film)
    with_drone = scene.frame(4.0)
    monkeypatch.setattr(FilmScene, "_draw_drone", lambda *_: None)
    monkeypatch.setattr(FilmScene, "_draw_small", lambda *_: None)
    pixels = changed_pixels(with_drone, scene.frame(4.0))
    film_camera = scene.camera(4.0)
    (x, y), depth = project(film_camera, interpolate_pose(scene.flights[0], 4.0).p_W)
    max_distance = 2.0 * scene.scale * scene.models[0].radius * film_camera.focal / depth
    assert len(pixels) > 40
    assert np.abs(pixels - (x, y)).max() < max_distance
    assert np.median(pixels, axis=0) == pytest.approx((x, y), abs=0.5 * max_distance)


def test_cameras(run):
    """The chase camera has the drone near the centre, the onboard camera looks ahead, the others see the whole path."""
    chase = FilmScene(run, Film(size=SIZE, camera="chase"))
    for time in (0.0, 2.0, 5.9):
        pixel, depth = project(chase.camera(time), interpolate_pose(chase.flights[0], time).p_W)
        assert depth > 0.5
        assert np.abs(pixel - (80.0, 60.0)).max() < 30.0
    onboard = FilmScene(run, Film(size=SIZE, camera="onboard"))
    pose = interpolate_pose(onboard.flights[0], 4.0)
    ahead = pose.p_W + np.array(matrix_from_quat(pose.q_WB).columns[0], dtype=float) * 50.0
    assert project(onboard.camera(4.0), ahead)[0] == pytest.approx((80.0, 60.0), abs=1.0)
    for camera_mode in ("fixed", "top"):
        scene = FilmScene(run, Film(size=SIZE, camera=camera_mode))
        pixels, depths = project(scene.camera(0.0), run.position)
        assert (depths > 0.0).all()
        assert ((pixels > 0.0) & (pixels < SIZE)).all()
        assert scene.camera(0.0)[3] == pytest.approx(scene.camera(5.0)[3])


def test_a_frame_depends_on_its_time_alone(run):
    """The same bytes, whatever was drawn before."""
    scene = FilmScene(run, Film(size=SIZE))
    first = scene.frame(3.0).copy()
    scene.frame(5.0)
    assert (scene.frame(3.0) == first).all()
    assert first.shape == (120, 160, 3) and first.dtype == np.uint8


def test_many_drones_are_drawn_larger_than_life():
    """Twenty Crazyflies of 5 cm on a field of 8 m: each at least a fiftieth of the picture's height."""
    swarm = samara.fly("swarm", settings={"duration": 0.3})
    scene = FilmScene(swarm, Film(size=(480, 360), camera="fixed"))
    camera = scene.camera(0.0)
    pixels = scene.scale * scene.models[0].radius * camera.focal / scene.camera_distance
    assert scene.scale > 1.0 and pixels >= 0.02 * 360
    assert scene.frame(0.2).shape == (360, 480, 3)
    assert strobe(swarm, Film(size=SIZE, camera="fixed")).shape == (120, 160, 3)


# Files ------------------------------------------------------------------------------------------------------------------


def test_frames_are_at_equal_times(run):
    """k speed/fps from start to stop, both included: 30 per second for 2 s are 61."""
    times = frame_times(run, Film(fps=30.0, start=1.0, stop=3.0))
    assert len(times) == 61
    assert np.diff(times) == pytest.approx(np.full(60, 1.0 / 30.0))
    assert (times[0], times[-1]) == pytest.approx((1.0, 3.0))
    assert len(frame_times(run, Film(fps=30.0, speed=2.0))) == 91
    assert frame_times(run, Film(fps=7.0))[-1] <= 6.0


def test_a_gif_has_its_frames_and_lasts_as_long_as_the_flight(run, tmp_path):
    progress_calls = []
    path = render(
        run, tmp_path / "f.gif", Film(10.0, SIZE, 1.0, "fixed", stop=1.0), lambda *now: progress_calls.append(now)
    )
    with Image.open(path) as film:
        assert (film.size, film.n_frames, film.info["duration"]) == (SIZE, 11, 100)
        film.seek(10)
        last = np.asarray(film.convert("RGB")).astype(int)
    expected = FilmScene(run, Film(10.0, SIZE, 1.0, "fixed")).frame(1.0).astype(int)
    assert np.abs(last - expected).mean() < 6.0  # 64 colours
    assert progress_calls[-1] == (11, 11)
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_has_the_drone_all_along_its_way(run, tmp_path):
    """The picture shows the drone at earlier times, which a frame at the end does not."""
    film = Film(size=(480, 360), camera="fixed")
    path = render(run, tmp_path / "f.png", film)
    with Image.open(path) as picture:
        strobed = np.asarray(picture.convert("RGB"))
    scene = FilmScene(run, film)
    single = scene.frame(6.0)
    pixels = changed_pixels(strobed, single)
    for time in np.linspace(0.0, 6.0, 14)[:-1]:
        (x, y), _ = project(scene.camera(6.0), interpolate_pose(scene.flights[0], float(time)).p_W)
        assert np.linalg.norm(pixels - (x, y), axis=1).min() < 12.0


def test_an_mp4_has_its_frames(run, tmp_path):
    """Read back by ffmpeg: the frame count, the size and the last frame agree."""
    ffmpeg = ffmpeg_or_skip()
    path = render(run, tmp_path / "f.mp4", Film(10.0, SIZE, 1.0, "fixed", stop=1.0))
    command = [ffmpeg, "-loglevel", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    frames = np.frombuffer(data, np.uint8).reshape(-1, 120, 160, 3)
    assert len(frames) == 11
    expected = FilmScene(run, Film(10.0, SIZE, 1.0, "fixed")).frame(1.0).astype(int)
    assert np.abs(frames[-1].astype(int) - expected).mean() < 6.0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script as a program")
def test_what_ffmpeg_says_is_passed_on(run, tmp_path, monkeypatch):
    """A program that accepts no frames and fails: its last line is reported, and no file is left."""
    ffmpeg_or_skip()
    script = tmp_path / "ffmpeg"
    script.write_text("#!/bin/sh\nexec 0<&-\necho first >&2\necho no room >&2\nexit 3\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", lambda: str(script))
    with pytest.raises(OSError, match="ffmpeg: no room"):
        render(run, tmp_path / "f.mp4", Film(10.0, SIZE, stop=2.0))
    assert list(tmp_path.iterdir()) == [script]


def ffmpeg_or_skip():
    try:
        import imageio_ffmpeg
    except ImportError:
        skip_or_fail("imageio-ffmpeg is not installed")
    return imageio_ffmpeg.get_ffmpeg_exe()


def test_without_the_library_an_mp4_is_refused_in_a_sentence(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtraError, match=f"needs imageio-ffmpeg: {re.escape(install_hint('video'))}"):
        render(run, tmp_path / "f.mp4", Film(10.0, SIZE, stop=0.5))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("film", "sentence"),
    [
        (Film(fps=0.0), "fps is 0; expected a number above 0"),
        (Film(fps=math.nan), "fps is nan; expected a number above 0"),
        (Film(speed=-1.0), "speed is -1; expected a number above 0"),
        (Film(size=(961, 720)), "size is 961x720; expected even numbers from 16 to 4096"),
        (Film(size=(8, 8)), "size is 8x8; expected even numbers"),
        (Film(camera="drone"), "no camera 'drone'; expected one of chase, fixed, top, onboard"),
        (Film(drone="cf7"), "no drone 'cf7'; expected one of drone"),
        (Film(start=7.0), "no flight data from 7 to inf s; expected times from 0 to 6 s"),
        (Film(start=2.0, stop=1.0), "no flight data from 2 to 1 s"),
    ],
)
def test_a_film_that_cannot_be_is_refused(film, sentence, run, tmp_path):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        render(run, tmp_path / "f.gif", film)
    assert list(tmp_path.iterdir()) == []


def test_a_gif_of_any_flight_is_small_unless_told(run):
    """10 small frames per second, at most a few hundred: a longer flight is shown faster. Other films are unchanged."""
    long_state = replace(run.drone_records[0].tables["state"], times_us=np.linspace(0, 95e6, len(run.time)).astype(int))
    records = (replace(run.drone_records[0], tables={**run.drone_records[0].tables, "state": long_state}),)
    long_run = replace(run, drone_records=records)
    for flight, speed in ((run, 1.0), (long_run, 5.0)):
        film = default_film(flight, "f.gif")
        assert (film.fps, film.size, film.speed) == (10.0, (480, 360), speed)
        assert len(frame_times(flight, film)) <= 201
    assert default_film(long_run, "f.gif", speed=1.0, fps=5.0)[:3] == (5.0, (480, 360), 1.0)
    assert default_film(long_run, "f.mp4") == Film(camera="chase") and default_film(long_run, "f.png").camera == "fixed"


def test_samara_render(run, monkeypatch, capsys, tmp_path):
    run.save(tmp_path / "run.mcap")
    recording, film = str(tmp_path / "run.mcap"), str(tmp_path / "f.gif")
    options = ("--fps", "5", "--size", "96x64", "--stop", "1", "--camera", "top")
    status, out, err = call(monkeypatch, capsys, "render", recording, "-o", film, *options)
    assert (status, err) == (0, "")
    assert out.split()[-1] == film
    with Image.open(film) as image:
        assert (image.size, image.n_frames) == ((96, 64), 6)
    for arguments, sentence in (
        (
            ("-o", str(tmp_path / "f.avi")),
            f"samara: {tmp_path / 'f.avi'}: expected a file with the suffix .mp4, .gif, .png\n",
        ),
        (("--size", "big"), "samara: --size 'big': expected width and height in pixels, such as 960x720\n"),
    ):
        status, _, err = call(monkeypatch, capsys, "render", recording, *arguments)
        assert (status, err) == (2, sentence)


def test_the_blades_are_seen_to_turn_the_way_they_do():
    """Seen from above, the blade of a counter-clockwise rotor advances counter-clockwise."""
    vehicle = samara.vehicle("iris_documented")
    disc = next(part for part in shape_parts(vehicle) if isinstance(part, Disc))
    assert disc.spin == 1
    edge = vehicle_geometry(vehicle).select_discs(vehicle_geometry(vehicle).points_B)[0]
    spokes = edge - np.array(disc.centre_B)
    angle = np.unwrap(np.arctan2(spokes[:, 1], spokes[:, 0]))
    assert np.diff(angle) == pytest.approx(np.full(DISC_VERTICES - 1, 2.0 * math.pi / DISC_VERTICES))
    assert isinstance(disc.centre_B, Vec3)
