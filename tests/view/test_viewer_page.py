"""The page besides the flight: cameras, shadows, failed motors, crashed drones, plots, keys, and buttons that show the active
option."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.algebra import Quat, Vec3, dot, matrix_from_quat, norm, quat_from_euler, rotate, rotate_inverse
from samara.record.recorder import LogLine
from samara.scenario.events import Event, at, fail_motor
from samara.sim.simulation import Simulation
from samara.vehicles.loader import vehicle_names
from samara.vehicles.shape import (
    BodyBox,
    Disc,
    Rod,
    axes_length,
    outer_frame_radius,
    propeller_radius,
    shape_parts,
    tip_radius,
)

pytest.importorskip("viser", reason="the page needs viser")

import msgspec
from support.visitor import Visitor, wait_until_true

from samara.view.web.gauges import status_html
from samara.view.web.history import (
    ERROR,
    FIRST_ROTOR,
    HEIGHT,
    MAX_ROWS,
    TILT,
    WINDOW,
    History,
    RecordedHistory,
    plot_quantities,
)
from samara.view.web.live import Live, extend_duration
from samara.view.web.mesh import failure_mesh, shadow_poses, silhouette
from samara.view.web.scene import FIELD_OF_VIEW, ONBOARD_CAMERA_DIRECTION, ONBOARD_CAMERA_POSITION
from samara.view.web.server import is_permitted
from samara.view.web.snapshot import drone_motion, recorded_frame, snapshot_frame, take_snapshot

NEAR = 0.02  # of the vehicle's radius: nothing closer to the camera is drawn


@pytest.fixture
def live():
    """A page with the two drones of `motor_failure`; nothing runs."""
    viewer = Live(samara.load_scenario("motor_failure"), port=0)
    wait_until_true(lambda: viewer.drawer.drawn_count, 20.0, "the first picture")
    yield viewer
    viewer.shut_down()


@pytest.fixture(scope="module")
def failed() -> Simulation:
    simulation = Simulation(samara.load_scenario("motor_failure"))
    while simulation.time_us < 3_500_000:
        simulation.advance()
    return simulation


# Shapes -------------------------------------------------------------------------------------------------------------


def _x8(radius: float, gap: float) -> samara.Vehicle:
    """Four arms of 0.25 m with two rotors each, `gap` apart on the same axis."""
    vehicle = samara.vehicle("hexarotor_x")
    rotors = []
    for k in range(8):
        azimuth = math.radians(45.0 + 90.0 * (k // 2))
        position = Vec3(0.25 * math.cos(azimuth), 0.25 * math.sin(azimuth), 0.5 * gap if k % 2 == 0 else -0.5 * gap)
        spin = vehicle.rotors[0].spin if k % 2 == 0 else -vehicle.rotors[0].spin
        rotors.append(vehicle.rotors[0]._replace(r_B=position, spin=spin, radius=radius))
    return replace(vehicle, rotors=tuple(rotors))


@pytest.mark.parametrize("gap", (0.0, 0.02, 0.08, 0.15))
def test_the_discs_of_coaxial_rotors_are_as_large_as_their_propellers(gap):
    """With a radius: the file's. Without: the largest that fits beside the next arm, whatever the gap on one arm."""
    discs = [part for part in shape_parts(_x8(0.127, gap)) if isinstance(part, Disc)]
    assert [disc.radius for disc in discs] == [0.127] * 8
    arm_distance = 0.25 * math.sqrt(2.0)  # from arm to arm
    assert [propeller_radius(_x8(0.0, gap), k) for k in range(8)] == pytest.approx([0.46 * arm_distance] * 8, rel=1e-9)


@pytest.mark.parametrize("gap", (0.0, 0.08))
def test_two_rotors_on_one_arm_are_two_discs_one_above_the_other(gap):
    discs = [part for part in shape_parts(_x8(0.127, gap)) if isinstance(part, Disc)]
    for upper, lower in zip(discs[::2], discs[1::2], strict=True):
        assert upper.centre_B.z > lower.centre_B.z and upper.spin == -lower.spin


@pytest.mark.parametrize("name", vehicle_names())
def test_a_shadow_is_as_long_and_wide_as_the_vehicle(name):
    """Flat, facing up, and as large as the propeller tips."""
    vehicle = samara.vehicle(name)
    vertices, faces = silhouette(vehicle)
    assert not vertices[:, 2].any()
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert (np.cross(b - a, c - a)[:, 2] > 0.0).all()
    if vehicle.rotors:
        arm_lengths = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors]
        tips = max(arm_lengths[k] + propeller_radius(vehicle, k) for k in range(len(arm_lengths)))
        assert np.linalg.norm(vertices, axis=1).max() == pytest.approx(tips, rel=0.02)


def test_a_shadow_lies_under_the_drone_and_points_where_its_nose_does():
    q = quat_from_euler(0.3, -0.4, 2.0)
    positions, rotations = shadow_poses(np.array([[1.0, -2.0, 7.0]]), np.array([q]), 0.25)
    assert positions[0] == pytest.approx([1.0, -2.0, 0.25])
    nose, forward = (rotate(rotation, Vec3(1.0, 0.0, 0.0)) for rotation in (q, Quat(*rotations[0])))
    assert forward.z == pytest.approx(0.0, abs=1e-12)
    assert forward.x * nose.y - forward.y * nose.x == pytest.approx(0.0, abs=1e-12) and dot(forward, nose) > 0.0


@pytest.mark.parametrize("mode", ("follow", "onboard", "free"))
def test_a_shadow_stays_on_the_ground_however_the_world_is_moved(live, failed, mode):
    """In world axes it lies below its drone, at the height of the ground."""
    scene, frame = live.page.scene, snapshot_frame(take_snapshot(failed))
    scene.set_view(mode, frame, 0)
    scene.show(frame)
    for batch in scene.drone_batches:
        for drone, position in zip(batch.drones, np.asarray(batch.shadow.batched_positions), strict=True):
            x, y, z = rotate_inverse(scene.world_q, Vec3(*position.tolist()) - scene.world_p)
            assert (x, y) == pytest.approx(tuple(frame.p_W[drone, :2]), abs=1e-5)
            assert scene.ground < z < scene.ground + 0.01


# Cameras ------------------------------------------------------------------------------------------------------------


def _segment_distance(p: Vec3, a: Vec3, b: Vec3) -> float:
    segment = b - a
    fraction = min(max(float(dot(p - a, segment) / dot(segment, segment)), 0.0), 1.0)
    return float(norm(p - a - segment * fraction))


def _clearance(p: Vec3, vehicle: samara.Vehicle) -> float:
    """Return the distance of a point from the nearest part of a vehicle; negative inside a part [m]."""
    distances = []
    for part in shape_parts(vehicle):
        if isinstance(part, Rod):
            distances.append(_segment_distance(p, part.start_B, part.end_B) - part.radius)
        elif isinstance(part, Disc):
            offset = p - part.centre_B
            axial = float(dot(offset, part.axis_B))
            radial_gap = max(float(norm(offset - part.axis_B * axial)) - part.radius, 0.0)
            distances.append(math.hypot(axial, radial_gap) - 0.02 * part.radius)
        elif isinstance(part, BodyBox):
            offset = [abs(x) - 0.5 * size for x, size in zip(p - part.centre_B, part.size_B, strict=True)]
            distances.append(math.hypot(*(max(x, 0.0) for x in offset)) if max(offset) > 0.0 else max(offset))
    return min(distances)


@pytest.mark.parametrize("name", vehicle_names())
def test_the_camera_on_board_is_inside_nothing_and_sees_ahead(name):
    """Along the line of sight, as far as the vehicle extends, there is none of its parts."""
    vehicle = samara.vehicle(name)
    radius = outer_frame_radius(vehicle)
    for distance in np.linspace(0.0, 0.8, 81):
        assert (
            _clearance((ONBOARD_CAMERA_POSITION + ONBOARD_CAMERA_DIRECTION * float(distance)) * radius, vehicle)
            > NEAR * radius
        ), distance
    axis = Vec3(0.0, 0.0, axes_length(vehicle))
    assert _segment_distance(ONBOARD_CAMERA_POSITION * radius, Vec3(0.0, 0.0, 0.0), axis) > 0.3 * radius


def test_on_board_no_axis_and_no_arrow_is_drawn(live, failed):
    scene, frame = live.page.scene, snapshot_frame(take_snapshot(failed))
    for mode, is_visible in (("onboard", False), ("follow", True)):
        scene.set_view(mode, frame, 0)
        scene.show_parts()
        assert scene.thrust.visible is is_visible and all(
            batch.axes.visible is is_visible for batch in scene.drone_batches
        )


def test_the_camera_that_follows_stands_off_in_proportion_to_the_vehicle(live, failed):
    """Large or small, a vehicle fills between a fifth and a half of the picture's height."""
    frame, scene = snapshot_frame(take_snapshot(failed)), live.page.scene
    scene.figures = (scene.figures[0], scene.figures[1]._replace(vehicle=samara.vehicle("crazyflie")))
    sizes = [tip_radius(figure.vehicle) for figure in scene.figures]
    assert sizes[0] > 4.0 * sizes[1]
    for selected, extent in enumerate(sizes):
        position, target = scene.camera("follow", frame, selected)
        assert 0.2 < math.atan2(extent, norm(position - target)) / (0.5 * FIELD_OF_VIEW) < 0.5


# Failures -----------------------------------------------------------------------------------------------------------


def test_a_dead_motor_is_crossed_out_in_red_and_no_other(live, failed):
    frame = snapshot_frame(take_snapshot(failed))
    scene = live.page.scene
    scene.show(frame)
    for batch in scene.drone_batches:
        scales = np.asarray(batch.failed.batched_scales)
        assert batch.failed.visible and list(np.flatnonzero(scales)) == [1]
        assert scales[1] == pytest.approx(propeller_radius(batch.vehicle, 1))
    scene.show(frame._replace(motor_effectiveness=np.ones_like(frame.motor_effectiveness)))
    assert not any(batch.failed.visible for batch in scene.drone_batches)


def test_the_cross_is_as_large_as_the_disc_and_seen_from_both_sides():
    vertices, faces = failure_mesh()
    assert np.linalg.norm(vertices[:, :2], axis=1).max() == pytest.approx(1.0, abs=1e-12)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    upward = np.cross(b - a, c - a)[:, 2]
    assert (upward > 0.0).sum() == (upward < 0.0).sum() == len(faces) // 2


def test_the_blades_and_arrows_of_a_wreck_rest(live, failed):
    frame = snapshot_frame(take_snapshot(failed))
    frame = frame._replace(crashed=np.array([True, False]))
    scene = live.page.scene
    scene.show(frame)
    angles_before = scene.rotor_angles.copy()
    scene.show(frame._replace(time=frame.time + 0.02))
    rotation = np.abs(scene.rotor_angles - angles_before).max(axis=1)
    assert rotation[0] == 0.0 and rotation[1] > 0.01
    lengths = np.linalg.norm(np.diff(np.asarray(scene.thrust.points), axis=1)[:, 0], axis=1)
    quad_rotors = len(failed.scenario.drones[0].vehicle.rotors)
    assert lengths[:quad_rotors].max() < 1e-3 < lengths[quad_rotors:].max()


def test_a_recording_knows_when_a_drone_crashed_and_a_motor_died():
    """A quadrotor with two failed motors falls: before the impact it flies, afterwards it has crashed."""
    scenario = samara.load_scenario("hover", {"duration": 4.0, "drones.controller": "geometric"})
    events = tuple(Event(at(2.0), fail_motor(motor)) for motor in (0, 1))
    run = samara.fly(replace(scenario, events=events))
    (crash_us,) = (line.time_us for line in run.logs if " crashed: " in line.message)
    assert crash_us > 2_000_000
    before, after = (recorded_frame([run], crash_us / 1e6 + offset) for offset in (-0.01, 0.01))
    assert (before.crashed[0], after.crashed[0]) == (False, True)
    assert (before.detail.crashed, after.detail.crashed) == (False, True)
    assert list(recorded_frame([run], 1.9).motor_effectiveness[0]) == [1.0] * 4
    assert list(before.motor_effectiveness[0]) == [0.0, 0.0, 1.0, 1.0]


def test_the_top_of_the_page_says_what_happened_last_and_that_a_drone_is_down():
    lines = [
        LogLine(1_500_000, "info", "drone", "<b>first"),
        LogLine(2_000_000, "warning", "drone", "drone crashed: <i>hard"),
    ]
    html = status_html("title", 2.5, math.inf, "paused", lines, crashed=True)
    assert "2.00 s · <b>warning</b>: drone crashed: &lt;i&gt;hard" in html and "first" not in html
    assert ">crashed</b>" in html and ">crashed</b>" not in status_html("title", 2.5, math.inf, "paused", lines[:1])
    assert "refused:</b> &lt;u&gt;why" in status_html("title", 2.5, 9.0, "paused", lines, "<u>why")


# Plots --------------------------------------------------------------------------------------------------------------


def test_plots_show_height_tilt_error_and_rotor_speeds(failed):
    """Computed independently from the bus, and from the rotation matrix for the tilt."""
    values = plot_quantities(*drone_motion(failed), 0.5)
    for k, drone in enumerate(failed.bus().drones):
        R = np.array(matrix_from_quat(drone.state.q_WB)).reshape(3, 3)
        assert values[k, HEIGHT] == drone.state.p_W.z - 0.5
        assert math.cos(math.radians(values[k, TILT])) == pytest.approx(R[2, 2], abs=1e-9)
        assert values[k, ERROR] == pytest.approx(norm(drone.state.p_W - drone.reference.p_W), rel=1e-12)
        rotors = len(drone.state.rotor_speed)
        assert tuple(values[k, FIRST_ROTOR : FIRST_ROTOR + rotors]) == drone.state.rotor_speed


def test_plots_of_a_live_flight_keep_its_last_seconds():
    history = History()
    for tick in range(10_000):
        history.add(0.01 * tick, np.full((2, 4), 0.01 * tick))
    times, values = history.drone_history(1, math.inf)
    assert times[-1] > 99.9 and times[0] == pytest.approx(times[-1] - WINDOW, abs=0.1) and len(times) <= MAX_ROWS + 1
    assert np.array_equal(values[:, 0], times) and (np.diff(times) > 0.0).all()
    history.clear()
    assert len(history.drone_history(0, math.inf)[0]) == 0 and history.is_due(0.0)


def test_plots_of_a_recording_are_what_the_flight_was_up_to_a_time():
    run = samara.fly("hover", settings={"duration": 2.0})
    times, values = RecordedHistory([run], 0.0).drone_history(0, 1.0)
    assert times[0] == 0.0 and 0.99 < times[-1] <= 1.0
    rows = np.searchsorted(run.drone_records[0].time, times)
    assert values[:, HEIGHT] == pytest.approx(run.drone_records[0].position[rows, 2], abs=1e-12)
    assert np.array_equal(values[:, FIRST_ROTOR:], run.drone_records[0].tables["state"].rows[rows, 13:17])


def test_the_plots_are_those_of_the_drone_that_is_looked_at(live):
    """A quadrotor's with four rotor speeds, then a hexarotor's with six; the last values are those of the bus."""
    live.fly_until(0.5)
    for selected, rotors in ((0, 4), (1, 6)):
        live.page.selected = selected
        live._draw(live._display_state(fresh=True))
        curves, state = live.page.curves, live.simulation.bus().drones[selected].state
        height, *_ = (plot.data for plot in curves.plots)
        assert height[0][-1] == pytest.approx(0.5, abs=0.07) and (np.diff(height[0]) > 0.0).all()
        assert height[1][-1] == pytest.approx(state.p_W.z, abs=0.01)
        assert len(curves.speeds.data) == len(curves.speeds.series) == 1 + rotors
        assert [speed[-1] for speed in curves.speeds.data[1:]] == pytest.approx(state.rotor_speed, rel=0.01)


# Keys and buttons ---------------------------------------------------------------------------------------------------


def test_a_command_has_a_name_and_nothing_else():
    assert is_permitted(msgspec.msgpack.encode({"type": "CommandTriggerMessage", "uuid": "x"}))
    for wrong in ({}, {"uuid": 1}, {"uuid": "x", "more": 1}):
        assert not is_permitted(msgspec.msgpack.encode({"type": "CommandTriggerMessage", **wrong}))


def _filled_buttons(live: Live) -> list[tuple[str, int]]:
    """Return the groups and their filled buttons, from the style of the page."""
    names = {group._impl.uuid: name for name, (group, _) in live.page.active_buttons._groups.items()}
    rules = live.page.active_buttons._html.content.split('for="')[1:]
    return [(names[rule.partition('"')[0]], int(rule.partition("nth-child(")[2].partition(")")[0])) for rule in rules]


def test_keys_do_what_the_list_says_and_buttons_show_what_is_in_force():
    live = Live(extend_duration(samara.load_scenario("motor_failure")), port=0)
    thread = threading.Thread(target=live.run)
    thread.start()
    try:
        visitor = Visitor(live.page.server.get_port())
        wait_until_true(lambda: "real time" in visitor.text(), 20.0, "the page")
        wait_until_true(lambda: _filled_buttons(live) == [("clock", 1), ("camera", 1)], 20.0, "Play and follow filled")
        visitor.key("space")
        wait_until_true(lambda: live.paused and ("clock", 2) in _filled_buttons(live), 20.0, "a pause, and its button")
        paused_us = live.simulation.time_us
        visitor.key("T")
        wait_until_true(lambda: live.simulation.time_us == (paused_us // 10_000 + 1) * 10_000, 20.0, "a step")
        visitor.key("R")
        wait_until_true(lambda: live.simulation.time_us == 0, 20.0, "the start")
        visitor.key("2")
        wait_until_true(
            lambda: live.page.mode == "onboard" and ("camera", 2) in _filled_buttons(live), 20.0, "the camera on board"
        )
        visitor.key("M")
        wait_until_true(lambda: ("motor", 1) in _filled_buttons(live), 20.0, "a dead motor")
        visitor.key("M")
        wait_until_true(lambda: ("motor", 1) not in _filled_buttons(live), 20.0, "a motor that works again")
        visitor.key("N")
        wait_until_true(
            lambda: live.page.selected == 1 and "hexa" in visitor.text(), 20.0, "the other drone's instruments"
        )
        visitor.key("pageup")
        wait_until_true(lambda: live.speed == 2.0, 20.0, "twice the speed")
        visitor.key("pagedown")
        wait_until_true(lambda: live.speed == 1.0, 20.0, "the speed before")
        for key, message in (("L", "land"), ("H", "return"), ("G", "gust")):
            visitor.key(key)
            wait_until_true(
                lambda message=message: any(message in line.message for line in live.simulation.logs), 20.0, message
            )
        page_text = " ".join(str(created["props"].get("content")) for created in visitor.created.values())
        for key in ("space", "Page ↑", ">R<", ">M<", "camera: onboard", "next drone"):
            assert key in page_text
        assert live.drawer.error_count == 0
        visitor.close()
    finally:
        live.close()
        thread.join()
        live.shut_down()
