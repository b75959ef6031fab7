"""What the page shows beside the flight itself: cameras that see, shadows, dead motors, wrecks, plots, keys, and buttons that
tell what is in force."""

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
from samara.vehicles.shape import Box, Disc, Rod, axes_length, extent_of, parts_of, propeller_radius, reach_of

pytest.importorskip("viser", reason="the page needs viser")

import msgspec
from support.visitor import Visitor, wait_for

from samara.view.web.gauges import status_html
from samara.view.web.history import ERROR, FIRST_ROTOR, HEIGHT, ROWS, TILT, WINDOW, History, Recorded, measured
from samara.view.web.live import Live, endless
from samara.view.web.mesh import crossed_out, shadow_poses, silhouette
from samara.view.web.scene import AHEAD, EYE, FIELD_OF_VIEW
from samara.view.web.server import is_permitted
from samara.view.web.snapshot import frame_at, frame_of, motion_of, snapshot_of

NEAR = 0.02  # of the reach: closer to the camera nothing is drawn


@pytest.fixture
def live():
    """A page of the two drones of `motor_failure`; nothing runs."""
    own = Live(samara.load_scenario("motor_failure"), port=0)
    wait_for(lambda: own.drawer.drawn, 20.0, "the first picture")
    yield own
    own.take_down()


@pytest.fixture(scope="module")
def failed() -> Simulation:
    simulation = Simulation(samara.load_scenario("motor_failure"))
    while simulation.time_us < 3_500_000:
        simulation.advance()
    return simulation


# Shapes -------------------------------------------------------------------------------------------------------------


def _x8(radius: float, gap: float) -> samara.Vehicle:
    """Four arms of 0.25 m with two rotors each, `gap` apart on the same axis."""
    craft = samara.vehicle("hexarotor_x")
    rotors = []
    for k in range(8):
        azimuth = math.radians(45.0 + 90.0 * (k // 2))
        place = Vec3(0.25 * math.cos(azimuth), 0.25 * math.sin(azimuth), 0.5 * gap if k % 2 == 0 else -0.5 * gap)
        spin = craft.rotors[0].spin if k % 2 == 0 else -craft.rotors[0].spin
        rotors.append(craft.rotors[0]._replace(r_B=place, spin=spin, radius=radius))
    return replace(craft, rotors=tuple(rotors))


@pytest.mark.parametrize("gap", (0.0, 0.02, 0.08, 0.15))
def test_the_discs_of_coaxial_rotors_are_as_large_as_their_propellers(gap):
    """Given: the file's radius. Not given: what fits beside the next arm, however far apart the two on one arm are."""
    discs = [part for part in parts_of(_x8(0.127, gap)) if isinstance(part, Disc)]
    assert [disc.radius for disc in discs] == [0.127] * 8
    beside = 0.25 * math.sqrt(2.0)  # from arm to arm
    assert [propeller_radius(_x8(0.0, gap), k) for k in range(8)] == pytest.approx([0.46 * beside] * 8, rel=1e-9)


@pytest.mark.parametrize("gap", (0.0, 0.08))
def test_two_rotors_on_one_arm_are_two_discs_one_above_the_other(gap):
    discs = [part for part in parts_of(_x8(0.127, gap)) if isinstance(part, Disc)]
    for upper, lower in zip(discs[::2], discs[1::2], strict=True):
        assert upper.centre_B.z > lower.centre_B.z and upper.spin == -lower.spin


@pytest.mark.parametrize("name", vehicle_names())
def test_a_shadow_is_as_long_and_wide_as_the_vehicle(name):
    """Flat, looking up, and its corners reach to the tips of the propellers."""
    craft = samara.vehicle(name)
    vertices, faces = silhouette(craft)
    assert not vertices[:, 2].any()
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    assert (np.cross(b - a, c - a)[:, 2] > 0.0).all()
    if craft.rotors:
        level = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in craft.rotors]
        tips = max(level[k] + propeller_radius(craft, k) for k in range(len(level)))
        assert np.linalg.norm(vertices, axis=1).max() == pytest.approx(tips, rel=0.02)


def test_a_shadow_lies_under_the_drone_and_points_where_its_nose_does():
    q = quat_from_euler(0.3, -0.4, 2.0)
    places, turns = shadow_poses(np.array([[1.0, -2.0, 7.0]]), np.array([q]), 0.25)
    assert places[0] == pytest.approx([1.0, -2.0, 0.25])
    nose, forward = (rotate(turn, Vec3(1.0, 0.0, 0.0)) for turn in (q, Quat(*turns[0])))
    assert forward.z == pytest.approx(0.0, abs=1e-12)
    assert forward.x * nose.y - forward.y * nose.x == pytest.approx(0.0, abs=1e-12) and dot(forward, nose) > 0.0


@pytest.mark.parametrize("mode", ("follow", "onboard", "free"))
def test_a_shadow_stays_on_the_ground_however_the_world_is_moved(live, failed, mode):
    """Taken back into the world, it lies below its drone, at the height of the ground."""
    scene, frame = live.page.scene, frame_of(snapshot_of(failed))
    scene.look(mode, frame, 0)
    scene.show(frame)
    for kind in scene.kinds:
        for drone, place in zip(kind.drones, np.asarray(kind.shadow.batched_positions), strict=True):
            x, y, z = rotate_inverse(scene.world_q, Vec3(*place.tolist()) - scene.world_p)
            assert (x, y) == pytest.approx(tuple(frame.p_W[drone, :2]), abs=1e-5)
            assert scene.ground < z < scene.ground + 0.01


# Cameras ------------------------------------------------------------------------------------------------------------


def _from_segment(p: Vec3, a: Vec3, b: Vec3) -> float:
    along = b - a
    share = min(max(float(dot(p - a, along) / dot(along, along)), 0.0), 1.0)
    return float(norm(p - a - along * share))


def _clear(p: Vec3, craft: samara.Vehicle) -> float:
    """How far a point is from the nearest part of a vehicle; negative inside one  [m]"""
    gaps = []
    for part in parts_of(craft):
        if isinstance(part, Rod):
            gaps.append(_from_segment(p, part.start_B, part.end_B) - part.radius)
        elif isinstance(part, Disc):
            off = p - part.centre_B
            up = float(dot(off, part.axis_B))
            out = max(float(norm(off - part.axis_B * up)) - part.radius, 0.0)
            gaps.append(math.hypot(up, out) - 0.02 * part.radius)
        elif isinstance(part, Box):
            off = [abs(x) - 0.5 * size for x, size in zip(p - part.centre_B, part.size_B, strict=True)]
            gaps.append(math.hypot(*(max(x, 0.0) for x in off)) if max(off) > 0.0 else max(off))
    return min(gaps)


@pytest.mark.parametrize("name", vehicle_names())
def test_the_camera_on_board_is_inside_nothing_and_sees_ahead(name):
    """From the eye along its line of sight, as far as the vehicle reaches, there is none of its parts."""
    craft = samara.vehicle(name)
    reach = reach_of(craft)
    for far in np.linspace(0.0, 0.8, 81):
        assert _clear((EYE + AHEAD * float(far)) * reach, craft) > NEAR * reach, far
    axis = Vec3(0.0, 0.0, axes_length(craft))
    assert _from_segment(EYE * reach, Vec3(0.0, 0.0, 0.0), axis) > 0.3 * reach


def test_on_board_no_axis_and_no_arrow_is_drawn(live, failed):
    scene, frame = live.page.scene, frame_of(snapshot_of(failed))
    for mode, seen in (("onboard", False), ("follow", True)):
        scene.look(mode, frame, 0)
        scene.show_parts()
        assert scene.thrust.visible is seen and all(kind.axes.visible is seen for kind in scene.kinds)


def test_the_camera_that_follows_stands_off_in_proportion_to_the_vehicle(live, failed):
    """Large or small, a vehicle fills between a fifth and a half of the height of the picture."""
    frame, scene = frame_of(snapshot_of(failed)), live.page.scene
    scene.figures = (scene.figures[0], scene.figures[1]._replace(vehicle=samara.vehicle("crazyflie")))
    sizes = [extent_of(figure.vehicle) for figure in scene.figures]
    assert sizes[0] > 4.0 * sizes[1]
    for chosen, extent in enumerate(sizes):
        place, target = scene.camera("follow", frame, chosen)
        assert 0.2 < math.atan2(extent, norm(place - target)) / (0.5 * FIELD_OF_VIEW) < 0.5


# Failures -----------------------------------------------------------------------------------------------------------


def test_a_dead_motor_is_crossed_out_in_red_and_no_other(live, failed):
    frame = frame_of(snapshot_of(failed))
    scene = live.page.scene
    scene.show(frame)
    for kind in scene.kinds:
        scales = np.asarray(kind.failed.batched_scales)
        assert kind.failed.visible and list(np.flatnonzero(scales)) == [1]
        assert scales[1] == pytest.approx(propeller_radius(kind.vehicle, 1))
    scene.show(frame._replace(motor_power=np.ones_like(frame.motor_power)))
    assert not any(kind.failed.visible for kind in scene.kinds)


def test_the_cross_is_as_large_as_the_disc_and_seen_from_both_sides():
    vertices, faces = crossed_out()
    assert np.linalg.norm(vertices[:, :2], axis=1).max() == pytest.approx(1.0, abs=1e-12)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    upward = np.cross(b - a, c - a)[:, 2]
    assert (upward > 0.0).sum() == (upward < 0.0).sum() == len(faces) // 2


def test_the_blades_and_arrows_of_a_wreck_rest(live, failed):
    frame = frame_of(snapshot_of(failed))
    frame = frame._replace(crashed=np.array([True, False]))
    scene = live.page.scene
    scene.show(frame)
    before = scene.turned.copy()
    scene.show(frame._replace(time=frame.time + 0.02))
    turned = np.abs(scene.turned - before).max(axis=1)
    assert turned[0] == 0.0 and turned[1] > 0.01
    lengths = np.linalg.norm(np.diff(np.asarray(scene.thrust.points), axis=1)[:, 0], axis=1)
    quad = len(failed.scenario.drones[0].vehicle.rotors)
    assert lengths[:quad].max() < 1e-3 < lengths[quad:].max()


def test_a_recording_knows_when_a_drone_crashed_and_a_motor_died():
    """A quadrotor of which two motors die falls: until then it flies, from then on it is a wreck."""
    scenario = samara.load_scenario("hover", {"duration": 4.0, "drones.controller": "geometric"})
    events = tuple(Event(at(2.0), fail_motor(motor)) for motor in (0, 1))
    run = samara.fly(replace(scenario, events=events))
    (crash_us,) = (line.time_us for line in run.logs if " crashed: " in line.message)
    assert crash_us > 2_000_000
    before, after = (frame_at([run], crash_us / 1e6 + off) for off in (-0.01, 0.01))
    assert (before.crashed[0], after.crashed[0]) == (False, True)
    assert (before.close.crashed, after.close.crashed) == (False, True)
    assert list(frame_at([run], 1.9).motor_power[0]) == [1.0] * 4
    assert list(before.motor_power[0]) == [0.0, 0.0, 1.0, 1.0]


def test_the_top_of_the_page_says_what_happened_last_and_that_a_drone_is_down():
    lines = [
        LogLine(1_500_000, "info", "drone", "<b>first"),
        LogLine(2_000_000, "warning", "drone", "drone crashed: <i>hard"),
    ]
    told = status_html("title", 2.5, math.inf, "paused", lines, crashed=True)
    assert "2.00 s · <b>warning</b>: drone crashed: &lt;i&gt;hard" in told and "first" not in told
    assert ">crashed</b>" in told and ">crashed</b>" not in status_html("title", 2.5, math.inf, "paused", lines[:1])
    assert "refused:</b> &lt;u&gt;why" in status_html("title", 2.5, 9.0, "paused", lines, "<u>why")


# Plots --------------------------------------------------------------------------------------------------------------


def test_plots_show_height_tilt_error_and_rotor_speeds(failed):
    """By another road: the bus, and the vertical's part of the body's z axis in the rotation matrix."""
    values = measured(*motion_of(failed), 0.5)
    for k, own in enumerate(failed.bus().drones):
        R = np.array(matrix_from_quat(own.state.q_WB)).reshape(3, 3)
        assert values[k, HEIGHT] == own.state.p_W.z - 0.5
        assert math.cos(math.radians(values[k, TILT])) == pytest.approx(R[2, 2], abs=1e-9)
        assert values[k, ERROR] == pytest.approx(norm(own.state.p_W - own.reference.p_W), rel=1e-12)
        rotors = len(own.state.rotor_speed)
        assert tuple(values[k, FIRST_ROTOR : FIRST_ROTOR + rotors]) == own.state.rotor_speed


def test_plots_of_a_live_flight_keep_its_last_seconds():
    history = History()
    for tick in range(10_000):
        history.add(0.01 * tick, np.full((2, 4), 0.01 * tick))
    times, values = history.of(1, math.inf)
    assert times[-1] > 99.9 and times[0] == pytest.approx(times[-1] - WINDOW, abs=0.1) and len(times) <= ROWS + 1
    assert np.array_equal(values[:, 0], times) and (np.diff(times) > 0.0).all()
    history.clear()
    assert len(history.of(0, math.inf)[0]) == 0 and history.is_due(0.0)


def test_plots_of_a_recording_are_what_the_flight_was_up_to_a_time():
    run = samara.fly("hover", settings={"duration": 2.0})
    times, values = Recorded([run], 0.0).of(0, 1.0)
    assert times[0] == 0.0 and 0.99 < times[-1] <= 1.0
    rows = np.searchsorted(run.tracks[0].time, times)
    assert values[:, HEIGHT] == pytest.approx(run.tracks[0].position[rows, 2], abs=1e-12)
    assert np.array_equal(values[:, FIRST_ROTOR:], run.tracks[0].tables["state"].rows[rows, 13:17])


def test_the_plots_are_those_of_the_drone_that_is_looked_at(live):
    """A quadrotor's with four rotor speeds, then a hexarotor's with six: the last of each is what the bus says."""
    live.fly_to(0.5)
    for chosen, rotors in ((0, 4), (1, 6)):
        live.page.chosen = chosen
        live._draw(live._shown(fresh=True))
        curves, state = live.page.curves, live.simulation.bus().drones[chosen].state
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


def _filled(live: Live) -> list[tuple[str, int]]:
    """Which groups have which button filled, as the page's style says"""
    names = {group._impl.uuid: name for name, (group, _) in live.page.pressed._groups.items()}
    rules = live.page.pressed._html.content.split('for="')[1:]
    return [(names[rule.partition('"')[0]], int(rule.partition("nth-child(")[2].partition(")")[0])) for rule in rules]


def test_keys_do_what_the_list_says_and_buttons_show_what_is_in_force():
    live = Live(endless(samara.load_scenario("motor_failure")), port=0)
    thread = threading.Thread(target=live.run)
    thread.start()
    try:
        visitor = Visitor(live.page.server.get_port())
        wait_for(lambda: "real time" in visitor.text(), 20.0, "the page")
        wait_for(lambda: _filled(live) == [("clock", 1), ("camera", 1)], 20.0, "Play and follow filled")
        visitor.key("space")
        wait_for(lambda: live.paused and ("clock", 2) in _filled(live), 20.0, "a pause, and its button")
        held = live.simulation.time_us
        visitor.key("T")
        wait_for(lambda: live.simulation.time_us == (held // 10_000 + 1) * 10_000, 20.0, "a step")
        visitor.key("R")
        wait_for(lambda: live.simulation.time_us == 0, 20.0, "the start")
        visitor.key("2")
        wait_for(lambda: live.page.mode == "onboard" and ("camera", 2) in _filled(live), 20.0, "the camera on board")
        visitor.key("M")
        wait_for(lambda: ("motor", 1) in _filled(live), 20.0, "a dead motor")
        visitor.key("M")
        wait_for(lambda: ("motor", 1) not in _filled(live), 20.0, "a motor that works again")
        visitor.key("N")
        wait_for(lambda: live.page.chosen == 1 and "hexa" in visitor.text(), 20.0, "the other drone's instruments")
        visitor.key("pageup")
        wait_for(lambda: live.speed == 2.0, 20.0, "twice the speed")
        visitor.key("pagedown")
        wait_for(lambda: live.speed == 1.0, 20.0, "the speed before")
        for key, said in (("L", "land"), ("H", "return"), ("G", "gust")):
            visitor.key(key)
            wait_for(lambda said=said: any(said in line.message for line in live.simulation.logs), 20.0, said)
        listed = " ".join(str(own["props"].get("content")) for own in visitor.created.values())
        for key in ("space", "Page ↑", ">R<", ">M<", "camera: onboard", "next drone"):
            assert key in listed
        assert live.drawer.troubles == 0
        visitor.close()
    finally:
        live.close()
        thread.join()
        live.take_down()
