"""The viewer without a browser: it draws the vehicle's file and the simulation, refuses foreign requests and invalid messages,
and does not slow down the flight."""

import http.client
import math
import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.core.algebra import Quat, Vec3, cross, dot, norm, rotate
from samara.physics.multirotor import wrench_breakdown
from samara.physics.rotors.tilt import tilted_axis
from samara.plan import trajectory
from samara.record.diff import first_difference
from samara.scenario.events import Event, at, fail_motor, go_to, wind_step
from samara.scenario.file import scenario_names
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fingerprint
from samara.sim.replay import replay
from samara.sim.simulation import Simulation
from samara.vehicles.loader import vehicle_names
from samara.vehicles.shape import BodyBox, Disc, Rod, outer_frame_radius, propeller_radius, shape_parts, thrust_arrow

pytest.importorskip("viser", reason="the page needs viser")

from support.tricopter import ARM, LEVER, tricopter
from support.visitor import CAMERA, Visitor, wait_until_true

from samara.view.web.controls import MAX_REQUESTS, Requests
from samara.view.web.gauges import gauges, log_html
from samara.view.web.history import FIRST_INTERVAL, Trail
from samara.view.web.live import Live, extend_duration, fly_in_viewer
from samara.view.web.mesh import ARROW_ANGLES, arc_arrow, blade_mesh, linear_rgb, rotation_from_z
from samara.view.web.replay import ReplayViewer
from samara.view.web.server import MAX_MESSAGE_BYTES, is_permitted, refusal_reason
from samara.view.web.snapshot import drone_positions, recorded_frame, snapshot_frame, take_snapshot

QUICK = {"duration": 2.0}


# The drawing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", vehicle_names())
def test_a_drawing_has_the_files_rotors_where_the_file_puts_them(name):
    """One disc per rotor, about its axis, with its spin; one leg to each contact point; nothing else touches the ground."""
    vehicle = samara.vehicle(name)
    parts = shape_parts(vehicle)
    discs = [part for part in parts if isinstance(part, Disc)]
    assert len(discs) == len(vehicle.rotors)
    for disc, rotor in zip(discs, vehicle.rotors, strict=True):
        assert disc.axis_B == rotor.axis_B and disc.spin == rotor.spin
        offset = disc.centre_B - rotor.r_B  # along the axis, and less than a tenth of the vehicle
        assert norm(cross(offset, rotor.axis_B)) < 1e-12 and 0.0 <= dot(
            offset, rotor.axis_B
        ) < 0.1 * outer_frame_radius(vehicle)
        assert rotor.radius in (0.0, disc.radius)
    legs = [part for part in parts if isinstance(part, Rod) and part.name.startswith("leg")]
    feet = vehicle["contact"].points_B if vehicle.has("contact") else ()
    assert tuple(leg.end_B for leg in legs) == tuple(feet)
    lowest = min(foot.z for foot in feet) if feet else -math.inf
    assert all(part.start_B.z >= lowest for part in parts if isinstance(part, Rod))
    assert sum(isinstance(part, BodyBox) for part in parts) == 1


@pytest.mark.parametrize("name", [name for name in vehicle_names() if samara.vehicle(name).rotors])
def test_propellers_whose_size_is_not_known_do_not_touch_each_other(name):
    vehicle = samara.vehicle(name).replace({"rotors.radius": 0.0})
    for i, rotor in enumerate(vehicle.rotors):
        for j, other_rotor in enumerate(vehicle.rotors[:i]):
            assert propeller_radius(vehicle, i) + propeller_radius(vehicle, j) < norm(rotor.r_B - other_rotor.r_B)


def test_thrust_arrows_together_are_as_long_as_the_weight_asks():
    """In hover the lengths of the arrows, added along z, are one radius per rotor."""
    vehicle = samara.vehicle("hexarotor_x")
    state, _ = samara.hover(vehicle)
    thrusts = [rotor.k_thrust * speed**2 for rotor, speed in zip(vehicle.rotors, state.rotor_speed, strict=True)]
    arrows = [thrust_arrow(vehicle, k, thrust) for k, thrust in enumerate(thrusts)]
    assert sum(end.z - start.z for start, end in arrows) == pytest.approx(6 * outer_frame_radius(vehicle), rel=1e-9)


@pytest.mark.parametrize("spin", (1, -1))
def test_the_arrow_on_a_disc_points_the_way_it_turns(spin):
    """Counter-clockwise seen from the axis' tip is +1: from the tail of the arrow to its tip the angle grows with the spin."""
    vertices = arc_arrow(1.0, spin).vertices
    tip, behind = vertices[-1], vertices[-3:-1].mean(axis=0)
    assert math.copysign(1.0, np.cross(behind, tip)[2]) == spin
    assert np.sign(np.cross(vertices[: len(ARROW_ANGLES) - 1], vertices[1 : len(ARROW_ANGLES)])[:, 2]) == pytest.approx(
        spin
    )


@given(st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: math.hypot(*v) > 1e-3))
def test_turn_to_brings_z_to_an_axis(v):
    axis = Vec3(*v) / math.hypot(*v)
    assert np.array(rotate(rotation_from_z(axis), Vec3(0.0, 0.0, 1.0))) == pytest.approx(np.array(axis), abs=1e-8)


def test_turn_to_straight_down_turns_over():
    assert rotate(rotation_from_z(Vec3(0.0, 0.0, -1.0)), Vec3(0.0, 0.0, 1.0)) == pytest.approx((0.0, 0.0, -1.0))


def test_blades_reach_as_far_as_the_disc_and_turn_into_themselves_by_half_a_turn():
    vertices, faces = blade_mesh()
    assert np.abs(vertices[:, :2]).max() == 1.0 and faces.max() == len(vertices) - 1
    half = vertices * np.array([-1.0, -1.0, 1.0])
    assert {tuple(v) for v in half.round(12) + 0.0} == {tuple(v) for v in vertices.round(12) + 0.0}


def test_colours_are_told_as_light():
    """The ends of sRGB stay, its middle grey is a fifth of the light."""
    assert linear_rgb("#000000") == (0, 0, 0) and linear_rgb("#ffffff") == (255, 255, 255)
    assert linear_rgb("#808080") == (55, 55, 55)


# One moment ---------------------------------------------------------------------------------------------------------


def _simulate(name: str, seconds: float, **changes: object) -> Simulation:
    simulation = Simulation(samara.load_scenario(name, changes))
    while simulation.time_us < seconds * 1e6 and simulation.advance():
        pass
    return simulation


@pytest.fixture(scope="module")
def failed() -> Simulation:
    """A quadrotor and a hexarotor, half a second after a motor of each has failed."""
    return _simulate("motor_failure", 3.5)


def test_a_frame_says_what_the_bus_says(failed):
    simulation = failed
    frame, bus = snapshot_frame(take_snapshot(simulation), selected=1), simulation.bus()
    assert frame.time == bus.time
    for k, drone in enumerate(bus.drones):
        assert tuple(frame.p_W[k]) == drone.state.p_W and tuple(frame.q_WB[k]) == drone.state.q_WB
        rotors = len(drone.state.rotor_speed)
        assert (
            tuple(frame.rotor_speed[k, :rotors]) == drone.state.rotor_speed and not frame.rotor_speed[k, rotors:].any()
        )
        assert tuple(frame.reference_W[k]) == drone.reference.p_W
    assert np.array_equal(drone_positions(simulation), frame.p_W)
    detail = frame.detail
    assert detail.name == bus.drones[1].name and detail.batteries() == bus.drones[1].batteries


def test_the_thrusts_of_a_frame_are_what_pushes_the_body(failed):
    """Σ Tᵢ aᵢ of the arrows is the rotors' force in the sum of all forces."""
    simulation = failed
    frame, bus = snapshot_frame(take_snapshot(simulation)), simulation.bus()
    for k, drone in enumerate(bus.drones):
        vehicle = simulation.scenario.drones[k].vehicle
        force = wrench_breakdown(drone.state, (0.0,) * len(vehicle.rotors), vehicle, drone.environment)["rotors"].f_B
        thrust = sum((rotor.axis_B * frame.thrust[k, i] for i, rotor in enumerate(vehicle.rotors)), Vec3(0.0, 0.0, 0.0))
        assert np.array(thrust) == pytest.approx(np.array(force), rel=1e-12, abs=1e-12)


def test_a_snapshot_does_not_change_when_the_flight_goes_on():
    simulation = _simulate("hover", 1.0)
    snapshot = take_snapshot(simulation)
    first_frame = snapshot_frame(snapshot)
    while simulation.time_us < 1_500_000:
        simulation.advance()
    second_frame = snapshot_frame(snapshot)
    assert np.array_equal(first_frame.p_W, second_frame.p_W) and not np.array_equal(
        second_frame.p_W, drone_positions(simulation)
    )


def test_a_recorded_moment_is_its_row_and_between_two_rows_lies_between_them():
    run = samara.fly("figure8", settings={"duration": 3.0})
    track, row = run.drone_records[0], 217
    recorded = recorded_frame([run], float(track.time[row]))
    assert tuple(recorded.p_W[0]) == tuple(track.position[row]) and tuple(recorded.q_WB[0]) == tuple(
        track.attitude[row]
    )
    middle = recorded_frame([run], float(track.time[row : row + 2].mean()))
    assert middle.p_W[0] == pytest.approx(track.position[row : row + 2].mean(axis=0), abs=1e-12)
    assert np.linalg.norm(middle.q_WB[0]) == pytest.approx(1.0, abs=1e-12)
    rows = track.tables["state"].rows.copy()
    rows[row + 1, 6:10] *= -1.0  # the same attitude by the opposite quaternion
    flipped = replace(track, tables={**track.tables, "state": replace(track.tables["state"], rows=rows)})
    flipped_frame = recorded_frame([replace(run, drone_records=(flipped,))], middle.time)
    assert flipped_frame.q_WB[0] == pytest.approx(middle.q_WB[0], abs=1e-12)
    assert np.array_equal(recorded_frame([run], -1.0).p_W[0], track.position[0])
    assert np.array_equal(recorded_frame([run], 99.0).p_W[0], track.position[-1])


def test_an_estimate_is_drawn_where_there_is_one():
    simulation = _simulate("hover", 0.5, **{"drones.estimator": "noisy"})
    frame = snapshot_frame(take_snapshot(simulation))
    distance = np.linalg.norm(frame.estimate[0] - frame.p_W)
    assert 0.0 < distance < 0.2
    assert snapshot_frame(take_snapshot(_simulate("hover", 0.1))).estimate is None


def test_gauges_name_units_and_failures_and_escape_names(failed):
    simulation = failed
    text = gauges(snapshot_frame(take_snapshot(simulation)).detail)
    for unit in (" m<", "m/s", "°", " V, ", " A", "rad/s", " N", " %"):
        assert unit in text
    assert text.count("FAILED") == 1
    drone = replace(simulation.scenario.drones[0], name="<script>alert(1)</script>")
    other = Simulation(replace(simulation.scenario, drones=(drone,), events=()))
    assert "<script>" not in gauges(snapshot_frame(take_snapshot(other)).detail)
    assert "<b>x" not in log_html([], "<b>x")


# The path flown -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drones", (1, 100))
def test_an_hours_path_has_a_bounded_number_of_evenly_spaced_points(drones):
    trail = Trail(drones)
    for tick in range(72_000):
        time = FIRST_INTERVAL * tick
        if trail.is_due(time):
            trail.add(time, np.full((drones, 3), time))
    times = trail.points()[:, 0, 0]
    assert len(times) <= trail.capacity and len(times) >= trail.capacity // 2 - 1
    assert times[0] == 0.0 and times[-1] > 3600.0 - 2.0 * trail.interval
    assert np.diff(times) == pytest.approx(trail.interval, rel=0.05)
    assert trail.interval / FIRST_INTERVAL == 2.0 ** round(math.log2(trail.interval / FIRST_INTERVAL))


def test_wishes_come_in_their_order_and_are_bounded():
    requests = Requests()
    for k in range(MAX_REQUESTS + 10):
        requests.put("speed", k)
    assert [request.value for request in requests.take()] == list(range(10, MAX_REQUESTS + 10))
    assert requests.take() == []


# Acting from outside ------------------------------------------------------------------------------------------------


def test_an_action_from_outside_is_the_same_flight_as_an_event(tmp_path):
    """Wind that starts between two instants acts on the plant from the next step, whether from an event or from outside."""
    scenario = replace(samara.load_scenario("hover", QUICK), events=())
    event_run = samara.fly(replace(scenario, events=(Event(at(1.0), wind_step((2.0, 0.0, 0.0))),)))
    states, logs = [], []

    def sink(blocks, lines):
        states.extend(block.rows[:, :, 0] for block in blocks if block.topics == ("/drone/state",))
        logs.extend(lines)

    simulation = Simulation(scenario, sink)
    while simulation.advance():
        if simulation.time_us == 1_000_000:
            simulation.apply_action(wind_step((2.0, 0.0, 0.0)))
    assert np.array_equal(np.concatenate(states), event_run.drone_records[0].tables["state"].rows)
    assert [line.message for line in logs] == [line.message for line in event_run.logs[:-1]] == ["wind (2, 0, 0) m/s"]


def test_what_visitors_did_is_recorded_and_flies_again_bit_for_bit(tmp_path):
    """A watched flight with requests at odd times: its recording replays to the same bits."""
    scenario = samara.load_scenario("hover", {"duration": 3.0})

    def visit(address: str) -> None:
        visitor = Visitor(int(address.rpartition(":")[2]))
        wait_until_true(
            lambda: any(item["props"].get("label") == "motor is" for item in visitor.created.values()), 20.0, "buttons"
        )

        def act() -> None:
            time.sleep(0.15)
            visitor.press("wind", "Blow")
            time.sleep(0.1)
            visitor.press("motor is", "Failed")
            time.sleep(0.3)
            visitor.close()

        threading.Thread(target=act).start()

    run = fly_in_viewer(scenario, tmp_path / "run.mcap", port=0, speed=4.0, on_open=visit)
    messages = [line.message for line in run.logs]
    assert "fail motor 0 (drone)" in messages and any(line.startswith("wind (4, ") for line in messages)
    # A request at an instant that is logged already leaves two environments at one time; `derived` is logged with the first and
    # recomputed with the last. The other streams hold the flight.
    first_run, replayed = (
        replace(
            item,
            drone_records=tuple(
                replace(track, tables={name: table for name, table in track.tables.items() if name != "derived"})
                for track in item.drone_records
            ),
        )
        for item in (run, replay(run))
    )
    assert {"state", "command", "environment"} <= set(first_run.drone_records[0].tables)
    assert first_difference(first_run, replayed) is None
    assert run.time[-1] == 3.0


def test_an_action_that_cannot_be_is_refused_and_changes_nothing():
    simulation = _simulate("hover", 0.5)
    setting = simulation.setting
    with pytest.raises(ValueError, match="has no motor 9"):
        simulation.apply_action(fail_motor(9))
    assert simulation.setting is setting and simulation.logs == []
    simulation.apply_action(go_to((1.0, 0.0, 1.0)), "over there")
    assert simulation.logs[-1].message == "over there"


# The page -----------------------------------------------------------------------------------------------------------


class Running:
    """A page with its simulation in a thread."""

    def __init__(self, viewer: Live | ReplayViewer) -> None:
        self.shown = viewer
        self.port = viewer.page.server.get_port()
        self.cpu = 0.0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        started = time.thread_time()
        self.shown.run()
        self.cpu = time.thread_time() - started

    def __enter__(self) -> "Running":
        self.began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shown.close()
        self._thread.join()
        self.shown.shut_down()


def _hover(speed: float = 1.0) -> Live:
    return Live(extend_duration(samara.load_scenario("hover")), port=0, speed=speed)


def test_the_followed_drone_stands_still_and_the_world_passes_by():
    """Follow: the drone is drawn at the origin. On board: x is ahead. Free: the world is not moved."""
    live = _hover()
    try:
        scene = live.page.scene
        frame = snapshot_frame(take_snapshot(_simulate("figure8", 6.0)))
        scene.set_view("follow", frame, 0)
        assert scene.transform_frame(frame).p_W[0] == pytest.approx(np.zeros(3), abs=1e-12)
        scene.set_view("onboard", frame, 0)
        moved_frame = scene.transform_frame(frame)
        assert moved_frame.q_WB[0] == pytest.approx(np.array([1.0, 0.0, 0.0, 0.0]), abs=1e-9)
        assert moved_frame.p_W[0] == pytest.approx(-np.array(scene.onboard_camera_position(0)), abs=1e-9)
        scene.set_view("free", frame, 0)
        assert np.array_equal(scene.transform_frame(frame).p_W, frame.p_W)
    finally:
        live.shut_down()


def test_a_click_meets_the_ground_where_one_points_whatever_way_one_looks():
    live = _hover()
    try:
        scene, target = live.page.scene, Vec3(3.0, -2.0, 0.0)
        frame = snapshot_frame(take_snapshot(_simulate("figure8", 6.0)))
        for mode in ("follow", "onboard", "free"):
            scene.set_view(mode, frame, 0)
            eye_W = Vec3(1.0, 1.0, 7.0)
            eye, point = (rotate(scene.world_q, p) + scene.world_p for p in (eye_W, target))
            hit = scene.intersect_ground(tuple(eye), tuple((point - eye) * (1.0 / norm(point - eye))))
            assert np.array(hit) == pytest.approx(np.array(target), abs=1e-9)
        assert scene.intersect_ground((0.0, 0.0, 5.0), (0.0, 0.0, 1.0)) is None
        assert scene.intersect_ground((0.0, 0.0, 5.0), (1.0, 0.0, 0.0)) is None
    finally:
        live.shut_down()


def test_without_visitors_nothing_is_drawn_and_with_one_no_more_than_thirty_pictures_a_second():
    with Running(_hover()) as running:
        live = running.shown
        time.sleep(0.5)
        assert live.drawer.drawn_count <= 1
        visitor = Visitor(running.port)
        wait_until_true(lambda: "hover" in visitor.text(), 20.0, "the page")
        drawn_before, start = live.drawer.drawn_count, time.perf_counter()
        wait_until_true(lambda: live.drawer.drawn_count > drawn_before + 10, 60.0, "more pictures")
        rate = (live.drawer.drawn_count - drawn_before) / (time.perf_counter() - start)
        visitor.close()
        wait_until_true(lambda: not live.page.clients, 20.0, "the visitor to be gone")
        time.sleep(0.1)
        drawn_before = live.drawer.drawn_count
        time.sleep(0.3)
        assert live.drawer.drawn_count <= drawn_before + 1
        assert rate < 40.0, f"{rate:.1f} pictures per second"
        assert live.drawer.error_count == 0


def test_buttons_do_what_they_say():
    with Running(_hover()) as running:
        live, visitor = running.shown, Visitor(running.port)
        wait_until_true(lambda: "real time" in visitor.text(), 20.0, "the page")
        visitor.press("clock", "Pause")
        wait_until_true(lambda: live.paused, 20.0, "a pause")
        wait_until_true(lambda: "paused" in visitor.text(), 20.0, "the status")
        paused_us = live.simulation.time_us
        visitor.press("clock", "Step 10 ms")
        wait_until_true(lambda: live.simulation.time_us > paused_us, 20.0, "a step")
        assert live.simulation.time_us == (paused_us // 10_000 + 1) * 10_000
        visitor.press("controller", "pid")
        wait_until_true(lambda: live.scenario.drones[0].controller == "pid", 20.0, "another controller")
        assert live.simulation.time_us <= 20_000
        visitor.press("speed", "10×")
        visitor.press("clock", "Play")
        wait_until_true(lambda: live.simulation.time_us > 5_000_000, 20.0, "five seconds at tenfold speed")
        visitor.press("motor", "9")
        visitor.press("motor is", "Failed")
        wait_until_true(lambda: "has no motor 9" in visitor.text(), 20.0, "a refusal")
        visitor.press("task", "Land")
        wait_until_true(lambda: "land" in live.simulation.setting.drones[0].task.name, 20.0, "a landing")
        assert live.drawer.error_count == 0
        visitor.close()


def test_a_click_on_the_ground_sends_the_drone_there():
    with Running(_hover()) as running:
        live, visitor = running.shown, Visitor(running.port)
        wait_until_true(lambda: "real time" in visitor.text(), 20.0, "the page")
        live.page.mode = "free"
        live.page.changed = True
        wait_until_true(lambda: live.page.scene.world_p == Vec3(0.0, 0.0, 0.0), 20.0, "a free camera")
        ray = {"ray_origin": [0.4, -0.3, 3.0], "ray_direction": [0.0, 0.0, -1.0]}
        visitor.send(
            {"type": "ScenePointerMessage", "event_type": "click", "screen_pos": [[0.5, 0.5]], "modifier": None} | ray
        )
        wait_until_true(lambda: "go to (0.4, -0.3, " in visitor.text(), 20.0, "a new task")
        visitor.close()


def test_runs_side_by_side_on_a_timeline(tmp_path):
    runs = [samara.fly("hover", settings=QUICK, controller=name) for name in ("geometric", "pid")]
    with Running(ReplayViewer(runs, ["one", "other"], port=0)) as running:
        replay_viewer, visitor = running.shown, Visitor(running.port)
        wait_until_true(lambda: "geometric" in visitor.text(), 20.0, "the first run's instruments")
        visitor.press("time [s]", 1.25)
        wait_until_true(lambda: replay_viewer.time == 1.25 and not replay_viewer.playing, 20.0, "the chosen time")
        wait_until_true(lambda: "1.25</span> of 2.0 s" in visitor.text(), 20.0, "the time on the page")
        visitor.press("drone", "other")
        wait_until_true(
            lambda: "controller</td>" in visitor.text() and "pid" in visitor.text(), 20.0, "the other's instruments"
        )
        colours = {figure.colour for figure in replay_viewer.page.scene.figures}
        assert len(colours) == 2
        visitor.press("clock", "Play")
        wait_until_true(lambda: "at the end" in visitor.text(), 20.0, "the end")
        assert replay_viewer.drawer.error_count == 0
        visitor.close()


@pytest.mark.long
@pytest.mark.parametrize("name", scenario_names())
def test_every_shipped_scenario_can_be_shown(name):
    live = Live(samara.load_scenario(name), port=0)
    try:
        wait_until_true(lambda: live.drawer.drawn_count + live.drawer.error_count, 20.0, "a picture")
        assert live.drawer.error_count == 0
    finally:
        live.shut_down()


# Foreign requests and invalid messages ------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ("127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost"))
def test_this_machines_names_are_let_in(host):
    assert refusal_reason([host], []) == "" and refusal_reason([host], [f"http://{host}"]) == ""


@pytest.mark.parametrize(
    ("hosts", "origins"),
    (
        ([], []),
        (["evil.example:8080"], []),
        (["127.0.0.1.evil.example"], []),
        (["localhost:8080", "evil.example"], []),
        (["user@localhost:8080"], []),
        (["localhost:x"], []),
        (["localhost:8080/"], []),
        (["localhost:8080"], ["http://evil.example"]),
        (["localhost:8080"], ["http://localhost:3000"]),
        (["localhost:8080"], ["https://localhost:8080"]),
        (["localhost:8080"], ["null"]),
        (["localhost:8080"], ["http://localhost:8080", "http://evil.example"]),
    ),
)
def test_other_names_and_other_pages_are_refused(hosts, origins):
    assert "expected" in refusal_reason(hosts, origins)


@given(st.binary(max_size=300))
def test_no_bytes_at_random_are_a_message_nor_an_error(raw):
    assert not is_permitted(raw) or b"type" in raw


def test_only_what_a_browser_says_is_let_through():
    import msgspec

    def is_camera_permitted(**changes: object) -> bool:
        return is_permitted(msgspec.msgpack.encode({**CAMERA, **changes}))

    assert is_camera_permitted() and is_camera_permitted(fov=1)
    assert not is_camera_permitted(position=[0.0, math.nan, 0.0]) and not is_camera_permitted(
        position=[0.0, 1e300, 0.0]
    )
    assert (
        not is_camera_permitted(position=[0.0, 0.0])
        and not is_camera_permitted(position="here")
        and not is_camera_permitted(more=1)
    )
    assert (
        not is_camera_permitted(type="ShareUrlRequest")
        and not is_camera_permitted(type="RunJavascriptMessage")
        and not is_camera_permitted(type=7)
    )
    press = {"type": "GuiUpdateMessage", "uuid": "x", "updates": {"value": True}}
    assert is_permitted(msgspec.msgpack.encode(press))
    extra = ({"removed": True}, {"value": 1, "removed": True}, {"value": 1, "update_cb": []})
    for updates in (*extra, {"value": [1]}, {"value": math.inf}, {}):
        assert not is_permitted(msgspec.msgpack.encode({**press, "updates": updates}))
    assert not is_permitted(msgspec.msgpack.encode({"type": "ShareUrlRequest"}))
    assert not is_permitted(msgspec.msgpack.encode({**press, "uuid": "x" * MAX_MESSAGE_BYTES}))
    assert not is_permitted("text") and not is_permitted(b"\x91" * 60_000)


def test_the_server_refuses_strangers_and_survives_nonsense():
    """Foreign Host and Origin get 403, on the page and on the websocket; invalid data leave the flight running."""
    from websockets.exceptions import InvalidStatus

    with Running(_hover()) as running:
        port, live = running.port, running.shown
        assert live.page.server.get_host() == "127.0.0.1"
        for headers, status in (
            ({}, 200),
            ({"Host": "evil.example"}, 403),
            ({"Origin": "http://evil.example"}, 403),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
            connection.request("GET", "/", headers=headers)
            answer = connection.getresponse()
            assert answer.status == status, answer.read()
            if status == 200:
                assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]
            connection.close()
        with pytest.raises(InvalidStatus, match="403"):
            Visitor(port, origin="http://evil.example")
        with pytest.raises(InvalidStatus, match="403"):
            Visitor(port, additional_headers={"Host": "evil.example"})
        visitor = Visitor(port, origin=f"http://127.0.0.1:{port}")
        wait_until_true(lambda: "real time" in visitor.text(), 20.0, "the page")
        invalid = [b"", b"\xff" * 100, os.urandom(2000), b"\x81\xa4type", b"\x91" * 60_000, "text", b"\x00" * 900_000]
        for raw in invalid:
            visitor.socket.send(raw)
        visitor.send({"type": "ShareUrlRequest"})
        visitor.send({"type": "GuiUpdateMessage", "uuid": "no such handle", "updates": {"value": 1}})
        for created in list(visitor.created.values()):
            for value in ("nonsense", -1e9, 1e9, True):
                if created["props"].get("label") not in ("clock", None):
                    visitor.send({"type": "GuiUpdateMessage", "uuid": created["uuid"], "updates": {"value": value}})
        time_before = live.simulation.time_us
        wait_until_true(lambda: live.simulation.time_us > time_before + 200_000, 20.0, "the flight to continue")
        huge = Visitor(port)
        huge.socket.send(b"\x00" * (2 << 20))  # too large: this connection is closed, the others stay
        huge.close()
        drawn_before = live.drawer.drawn_count
        wait_until_true(lambda: live.drawer.drawn_count > drawn_before + 3, 20.0, "the page to continue")
        assert live.drawer.error_count == 0
        visitor.close()


# Cost ---------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_memory_stays_flat_over_many_pictures():
    """Twelve hundred pictures after the first four hundred add less than 3 MB: each picture replaces the previous one."""

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is read from /proc, which does not exist here")
    live = _hover()
    try:
        simulation, sizes = live.simulation, []
        for k in range(1600):
            for _ in range(8):
                simulation.advance()
            live._trail.add(simulation.time_us / 1e6, drone_positions(simulation))
            live._draw(live._display_state(fresh=True))
            if k in (399, 1599):
                sizes.append(resident())
        assert sizes[1] - sizes[0] < 3.0, sizes
    finally:
        live.shut_down()


def test_a_hash_of_a_watched_flight_is_that_of_any_other(tmp_path):
    """Watching changes no bit."""
    scenario = samara.load_scenario("hover", QUICK)
    run = fly_in_viewer(scenario, tmp_path / "run.mcap", port=0, speed=20.0)
    assert fingerprint(run) == fingerprint(samara.fly(scenario))


def test_blade_turning_follows_the_spin(failed):
    """A counter-clockwise rotor is shown counter-clockwise, a failed one stands still."""
    live = Live(samara.load_scenario("motor_failure"), port=0)
    try:
        wait_until_true(lambda: live.drawer.drawn_count, 10.0, "a picture")
        simulation = failed
        frame = snapshot_frame(take_snapshot(simulation))
        scene = live.page.scene
        scene.show(frame)
        angles_before = scene.rotor_angles.copy()
        scene.show(frame._replace(time=frame.time + 0.02))
        rotation = scene.rotor_angles - angles_before
        for k, drone in enumerate(simulation.scenario.drones):
            for i, rotor in enumerate(drone.vehicle.rotors):
                is_failed = i == 1
                assert abs(rotation[k, i]) < 0.05 if is_failed else math.copysign(1.0, rotation[k, i]) == rotor.spin
        blade_attitude = Quat(*np.asarray(scene.drone_batches[0].blades.batched_wxyzs)[0].tolist())
        axis = rotate(blade_attitude, Vec3(0.0, 0.0, 1.0))
        up = rotate(Quat(*scene.transform_frame(frame).q_WB[0].tolist()), Vec3(0.0, 0.0, 1.0))
        assert dot(axis, up) == pytest.approx(1.0, abs=1e-6)
    finally:
        live.shut_down()


def test_the_disc_of_a_rotor_that_tilts_leans_with_its_servo():
    """Disc, blades and thrust arrow of a tricopter's tail are along a cos δ + (h × a) sin δ; the front rotors stay upright."""
    start_position, vehicle = Vec3(0.0, 0.0, 2.0), tricopter()
    drone = Drone("d", vehicle, trajectory.hover(start_position), start_position, airborne=True, controller="geometric")
    live = Live(Scenario("tail", (drone,), 1.0), port=0)
    try:
        wait_until_true(lambda: live.drawer.drawn_count + live.drawer.error_count, 10.0, "a picture")
        assert live.drawer.error_count == 0
        scene, frame = live.page.scene, snapshot_frame(take_snapshot(Simulation(live.scenario)))
        assert frame.tilt[0].tolist() == [0.0, 0.0, pytest.approx(math.atan(LEVER / ARM), rel=0.02)]
        frame = frame._replace(tilt=np.array([[0.0, 0.0, 0.4]]))
        scene.show(frame)
        (batch,), (disc,) = scene.drone_batches, scene.drone_batches[0].tilting_discs
        body = Quat(*scene.transform_frame(frame).q_WB[0].tolist())
        tail = rotate(body, tilted_axis(vehicle.rotors[2].axis_B, vehicle.rotors[2].servo.hinge_B, 0.4))
        attitudes = [*np.asarray(batch.blades.batched_wxyzs), np.asarray(disc.batched_wxyzs)[0]]
        axes = [rotate(Quat(*attitude.tolist()), Vec3(0.0, 0.0, 1.0)) for attitude in attitudes]
        arrow = np.diff(np.asarray(scene.thrust.points)[2], axis=0)[0]
        assert [dot(axes[i], rotate(body, Vec3(0.0, 0.0, 1.0))) for i in (0, 1)] == pytest.approx([1.0, 1.0], abs=1e-6)
        assert [dot(axes[i], tail) for i in (2, 3)] == pytest.approx([1.0, 1.0], abs=1e-6)
        assert dot(Vec3(*arrow.tolist()), tail) == pytest.approx(np.linalg.norm(arrow), rel=1e-6)
    finally:
        live.shut_down()


# The command --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    (
        (["view", "a.mcap", "hover"], "expected recordings"),
        (["view", "hover", "swarm"], "expected one scenario"),
        (["view", "a.mcap", "--set", "seed=1"], "expected a scenario"),
        (["view", "no such.mcap"], "cannot be read"),
        (["view", "hover", "--speed", "0"], "expected a number above 0"),
        (["view", "hover", "--port", "70000"], "expected a whole number from 0 to 65535"),
        (["fly", "hover", "--speed", "2"], "expected --view"),
    ),
)
def test_the_command_says_what_it_cannot_show(words, sentence):
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, (ValueError, OSError)) and sentence in str(result.exception)


@pytest.mark.long
def test_a_flight_is_watched_from_the_command_line(tmp_path):
    """With --speed 4 a flight of 4 s takes at least one second of the wall clock."""
    words = ["fly", "hover", "--set", "duration=4", "--view", "--no-browser", "--port", "0", "--speed", "4"]
    start = time.perf_counter()
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert time.perf_counter() - start >= 1.0
    assert "http://127.0.0.1:" in result.output and "4.00 s" in result.output
    assert re.search(r"real-time factor\s+[\d.]+×", result.output)
    assert samara.load_run(tmp_path / "run.mcap").time[-1] == 4.0
