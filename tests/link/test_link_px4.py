"""PX4 in lockstep: the messages, the parameters of the vehicle's geometry, and flights through the protocol."""

import math
import re
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.autopilot_peers import GroundPeer, Px4Peer, one_at_a_time, px4_mixer  # noqa: F401 - a fixture

import samara
from samara.core.algebra import ZERO, Quat, Vec3, quat_from_euler
from samara.link.link import AutopilotLostError, OnceLog, task_orders
from samara.link.px4 import gps_fields, px4_environment, px4_parameters, truth_fields
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Fix, Readings, SensorReader, ned_frd_state
from samara.physics.frames import geodetic_from_enu, state_ned_frd_from_enu_flu
from samara.physics.types import State
from samara.plan.trajectory import circle, waypoints
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import assign_autopilot, prepare_autopilots
from samara.scenario.events import Event, Order, at, fail_motor, fail_sensor, go_to, land, take_off, wind_step
from samara.scenario.file import ScenarioError, load_scenario, parse_scenario
from samara.scenario.flight_events import OccurrenceType
from samara.sensors.site import HOME
from samara.vehicles.exchange.px4 import agility, rotor_parameters
from samara.vehicles.trim import effectiveness

MISSION = """
name = "mission"
duration = {duration}
[[drones]]
name = "drone"
vehicle = "{vehicle}"
{more}
"""

AIRBORNE = "yaw_deg = 90.0\nairborne = true\nstart = [0, 0, 1.5]"


def scenario(vehicle="iris_documented", duration=1.0, lines="", events=()):
    mission = parse_scenario(MISSION.format(vehicle=vehicle, duration=duration, more=lines), "mission.toml")
    return replace(mission, events=tuple(events))


def rest_readings(time_us=0, **changes):
    """A drone at rest at the origin, nose north."""
    north = quat_from_euler(0.0, 0.0, math.pi / 2)
    state = State(ZERO, ZERO, north, ZERO)
    readings = Readings(time_us, Vec3(0.0, 0.0, 9.80665), ZERO, None, None, None, state)
    return readings._replace(**changes)


# Parameters and fields ----------------------------------------------------------------------------------------------


def test_the_iris_geometry_is_the_one_in_px4():
    """PX4's airframe none_iris, as in its file."""
    parameters = rotor_parameters(samara.vehicle("iris_documented"))
    rotors = [(0.1515, 0.245, 0.05), (-0.1515, -0.1875, 0.05), (0.1515, -0.245, -0.05), (-0.1515, 0.1875, -0.05)]
    for i, (x, y, km) in enumerate(rotors):
        rotor = [parameters[f"CA_ROTOR{i}_{name}"] for name in ("PX", "PY", "PZ", "KM", "AX", "AY", "AZ")]
        assert rotor == pytest.approx([x, y, 0.0, km, 0.0, 0.0, -1.0], abs=1e-12)
    assert parameters["CA_ROTOR_COUNT"] == 4


@pytest.mark.parametrize("vehicle", ["iris_documented", "crazyflie_documented", "hexarotor_tilted", "octorotor_x"])
def test_px4_computes_the_torque_that_the_plant_feels(vehicle):
    """T (r × a − km a) in FRD from the parameters, against the plant's B in FLU."""
    model = samara.vehicle(vehicle)
    parameters = rotor_parameters(model)
    flip = np.diag([1.0, -1.0, -1.0])
    for i, column in enumerate(effectiveness(model).T):
        position, axis = (
            np.array([parameters[f"CA_ROTOR{i}_{quantity}{letter}"] for letter in "XYZ"]) for quantity in "PA"
        )
        torque = np.cross(position, axis) - parameters[f"CA_ROTOR{i}_KM"] * axis
        assert torque == pytest.approx(flip @ column[3:], abs=1e-12)
        assert axis == pytest.approx(flip @ column[:3], abs=1e-12)


def test_one_unit_of_normalized_torque_accelerates_as_px4_scales_its_mixer():
    """|α| from the mixer that PX4 computes from the parameters, against `agility`; the Iris is the reference of the gains."""
    vehicle = samara.vehicle("hakoniwa")
    parameters = px4_parameters(vehicle)
    mixer = px4_mixer(parameters)
    weight = vehicle.mass * vehicle["gravity"].acceleration
    thrusts = mixer[:, 1] * (2.0 * weight / 4)  # hover at one half: T_full is twice a quarter of the weight
    roll = abs((effectiveness(vehicle) @ thrusts)[3]) / vehicle.inertia_B.xx
    assert agility(vehicle)[0] == pytest.approx(roll, rel=1e-9)
    assert parameters["MC_ROLLRATE_K"] == pytest.approx(agility(samara.vehicle("iris_documented"))[0] / roll, rel=1e-9)
    assert px4_parameters(samara.vehicle("iris_documented"))["MC_ROLLRATE_K"] == 1.0


def test_fast_sensors_need_parameters_and_slow_ones_none():
    assert "IMU_INTEG_RATE" not in px4_parameters(samara.vehicle("iris_documented"), 250.0)
    just_above = px4_parameters(samara.vehicle("iris_documented"), 250.5)
    assert (just_above["IMU_INTEG_RATE"], just_above["IMU_GYRO_RATEMAX"]) == (251, 502)
    fast = px4_environment(px4_parameters(samara.vehicle("iris_documented"), 1000.0))
    assert fast["PX4_PARAM_IMU_INTEG_RATE"] == "1000" and float(fast["PX4_PARAM_IMU_GYRO_RATEMAX"]) >= 1000
    assert fast["PX4_SIM_MODEL"] == "none_iris"


def test_a_fix_is_sent_in_px4s_units():
    """Ten metres north, five up, at 3 m/s east and 4 m/s north: rounded to 1e-7°, mm and cm/s."""
    position = geodetic_from_enu(Vec3(0.0, 10.0, 5.0), HOME.origin)
    fields = gps_fields(Fix(position, Vec3(3.0, 4.0, -0.5)))
    metres = (fields[0] - 473977420) * 1e-7 * 111_177.0  # a degree of latitude at 47.4°
    assert metres == pytest.approx(10.0, abs=0.02)
    assert fields[1] == 85455940 and fields[2] == 5000
    assert fields[5:9] == (500, 400, 300, 50)
    assert fields[9] == round(100 * math.degrees(math.atan2(3.0, 4.0)))
    assert gps_fields(Fix(position, ZERO))[9] == 65535  # no course
    assert fields[10:12] == (3, 10)


def test_the_truth_is_sent_in_px4s_axes():
    """Nose east, right side down 0.1 rad, turning clockwise: roll and yaw rate positive in FRD."""
    q_WB = quat_from_euler(0.1, 0.0, 0.0)
    fields = truth_fields(rest_readings(state=State(ZERO, Vec3(1.0, 2.0, 3.0), q_WB, Vec3(0.0, 0.0, -0.5))))
    half = math.sqrt(0.5)
    level_east = Quat(half, 0.0, 0.0, half)
    expected = level_east * Quat(math.cos(0.05), math.sin(0.05), 0.0, 0.0)
    assert fields[:4] == pytest.approx(tuple(expected), abs=1e-12)
    assert fields[4:7] == pytest.approx((0.0, 0.0, 0.5))
    home = rest_readings().origin
    assert fields[7:10] == (
        round(math.degrees(home.latitude) * 1e7),
        round(math.degrees(home.longitude) * 1e7),
        round(home.altitude * 1e3),
    )
    assert fields[10:13] == (200, 100, -300)
    assert fields[-3:] == (0, 0, -1000)


def test_the_compiled_conversion_agrees_with_the_frames():
    """The compiled state against the functions of `samara.physics.frames`; of q and −q the one with w ≥ 0."""
    state = State(Vec3(123.4, -56.7, 8.9), Vec3(1.0, 2.0, 3.0), quat_from_euler(0.3, -0.2, 2.8), Vec3(0.1, 0.2, 0.3))
    ned_state, position = ned_frd_state(state, HOME.origin)
    exact = state_ned_frd_from_enu_flu(state)
    assert position == pytest.approx(geodetic_from_enu(state.p_W, HOME.origin), rel=1e-15)
    sign = math.copysign(1.0, exact.q_WB.w)
    assert ned_state.q_WB == pytest.approx(tuple(exact.q_WB * sign), rel=1e-15) and ned_state.q_WB.w > 0.0
    assert (*ned_state.p_W, *ned_state.v_W, *ned_state.omega_B) == (*exact.p_W, *exact.v_W, *exact.omega_B)


def test_a_rotated_imu_is_rotated_back():
    """Mounted nose to the left, it still reports in body axes."""

    class GroupSensor:
        sensor = samara.sensors.part("bmi088").sensor(q_BS=quat_from_euler(0.0, 0.0, math.pi / 2))
        reading = np.array([[1.0], [0.0], [9.8], [0.0], [2.0], [0.0]])
        fresh = np.ones(1)

    readings = SensorReader([GroupSensor()]).read(0, [0.0] * 6 + [1.0] + [0.0] * 6, [0.0] * 19)
    assert readings.specific_force_B == pytest.approx((0.0, 1.0, 9.8), abs=1e-12)
    assert readings.omega_B == pytest.approx((-2.0, 0.0, 0.0), abs=1e-12)


# Lockstep -----------------------------------------------------------------------------------------------------------


def connect_link(messages, **options):
    options = {"wait": 10.0, "patience": 1.0, **options}
    return open_link(
        Autopilot("px4", **options), samara.vehicle("iris_documented"), lambda level, text: messages.append(text)
    )


def fly_still(link, steps, first=0, **changes):
    return [list(link.exchange(rest_readings(4000 * k, **changes))) for k in range(first, first + steps)]


def test_silence_while_it_boots_then_one_answer_for_each_packet_with_its_time():
    messages, peer = [], Px4Peer(boot_us=70_000)
    link = connect_link(messages)
    try:
        fly_still(link, 300)
    finally:
        link.close()
        peer.stop()
    times = [message.time_usec for message in peer.sensors]
    assert times == [4000 * (k + 1) for k in range(300)]  # above 0, and never back
    assert peer.answered == 300 - 17  # the link receives all but those that arrived late while PX4 booted
    assert 0 < link.answered <= peer.answered and link.missed == 0
    assert link.missed == link.late == 0
    assert messages == []


def test_the_sensors_arrive_in_frd_gauss_and_hectopascal():
    messages, peer = [], Px4Peer(boot_us=0)
    link = connect_link(messages)
    field = Vec3(1e-5, 2e-5, -4e-5)
    turning = {"specific_force_B": Vec3(0.1, 0.2, 9.8), "omega_B": Vec3(0.3, 0.4, 0.5)}
    try:
        fly_still(link, 3, field_B=field, pressure=95000.0, **turning)
        fly_still(link, 3, first=3, **turning)
    finally:
        link.close()
        peer.stop()
    first, last = peer.sensors[0], peer.sensors[-1]
    assert (first.xacc, first.yacc, first.zacc) == pytest.approx((0.1, -0.2, -9.8), rel=1e-6)
    assert (first.xgyro, first.ygyro, first.zgyro) == pytest.approx((0.3, -0.4, -0.5), rel=1e-6)
    assert (first.xmag, first.ymag, first.zmag) == pytest.approx((0.1, -0.2, 0.4), rel=1e-6)
    assert first.abs_pressure == pytest.approx(950.0) and first.pressure_alt == pytest.approx(540.3, abs=0.5)
    assert first.fields_updated == 0x1BFF and last.fields_updated == 0x3F
    assert last.abs_pressure == pytest.approx(950.0)  # the last reading


def test_a_whole_flight_through_the_protocol_hovers_within_ten_centimetres():
    """The peer's controller and mixer are derived only from the parameters that PX4 is given."""
    mission = scenario("hakoniwa", 4.0, 'yaw_deg = 90.0\nautopilot = "px4"')
    peer = Px4Peer(px4_parameters(mission.drones[0].vehicle), target=(0.0, 0.0, -1.5))
    run = samara.fly(mission)
    peer.stop()
    assert run.problem == ""
    settled = run.position[run.time > 3.0]
    assert np.abs(settled - np.array([0.0, 0.0, 1.5])).max() < 0.1
    assert peer.answered == 4 * 250 + 1 - 17
    assert len(peer.fixes) == pytest.approx(39, abs=1)  # 10 Hz, late by 0.1 s
    assert run.controller == "px4"


def test_wind_and_a_dead_motor_reach_a_drone_flown_by_an_autopilot():
    events = [Event(at(1.0), wind_step((1.5, 0.0, 0.0))), Event(at(1.6), fail_motor(1))]
    mission = assign_autopilot(scenario("iris_documented", 2.2, AIRBORNE, events), Autopilot("px4"))
    peer = Px4Peer(px4_parameters(mission.drones[0].vehicle))
    run = samara.fly(mission)
    peer.stop()
    assert run.wind[-1, 0] == 1.5
    assert run.tilt[run.time < 1.6].max() < math.radians(10.0)
    assert run.tilt[-1] > math.radians(30.0)


def test_a_recording_replays_bit_for_bit_without_the_autopilot(tmp_path):
    mission = assign_autopilot(
        scenario("iris_documented", 1.5, AIRBORNE, [Event(at(1.0), fail_motor(0))]), Autopilot("px4")
    )
    peer = Px4Peer(px4_parameters(mission.drones[0].vehicle))
    run = samara.fly(mission, out=tmp_path / "run.mcap")
    peer.stop()
    again = samara.replay(tmp_path / "run.mcap")
    assert np.array_equal(again.tables["state"].rows, run.tables["state"].rows)
    assert np.ptp(run.command) > 0.1


def test_at_a_thousand_hertz_every_packet_is_answered():
    mission = assign_autopilot(scenario("iris_documented", 1.0), Autopilot("px4", rate=1000.0))
    assert mission.rates.control == mission.rates.sensor == 1000.0
    peer = Px4Peer(px4_parameters(mission.drones[0].vehicle))
    samara.fly(mission)
    peer.stop()
    assert np.diff([message.time_usec for message in peer.sensors]).tolist() == [1000] * 1000
    assert peer.answered == 1001 - 69


def test_missed_answers_are_reported_and_the_flight_continues():
    """At 1 kHz without its parameters PX4 was observed to answer 31 % of the packets."""
    messages, peer = [], Px4Peer(boot_us=0, answers_every=3)
    link = connect_link(messages, rate=1000.0, patience=5.0)
    try:
        for k in range(60):
            link.exchange(rest_readings(1000 * k))
    finally:
        link.close()
        peer.stop()
    assert peer.answered == 20 and 0 < link.answered <= 20
    assert 20 < link.missed <= 60 - link.answered  # while it boots, nothing counts as missed
    assert "IMU_INTEG_RATE" in messages[0] and len(messages) == 1


# Failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "words"), [("dies", "closed the connection"), ("hangs", "has not answered for 1 s")]
)
def test_an_autopilot_that_is_lost_ends_the_flight_with_a_sentence_and_its_recording(trouble, words, tmp_path):
    mission = assign_autopilot(scenario("iris_documented", 3.0), Autopilot("px4", patience=1.0))
    peer = Px4Peer(trouble=trouble, trouble_at=200)
    run = samara.fly(mission, out=tmp_path / "run.mcap")
    peer.running = False
    assert words in run.problem and run.problem.startswith("the flight ended at ") and "\n" not in run.problem
    assert [line.message for line in run.logs if line.level == "error"] == [run.problem]
    assert re.fullmatch(r"PX4 answered \d+ of 218 packets, 0 missed", run.logs[-2].message) or trouble == "hangs"
    recorded = samara.load_run(tmp_path / "run.mcap")
    assert [
        occurrence.drone for occurrence in recorded.occurrences if occurrence.type is OccurrenceType.AUTOPILOT_LOST
    ] == [0]
    assert 0.8 < recorded.time[-1] < 3.0
    assert samara.replay(recorded).time[-1] == recorded.time[-1]


def test_one_that_connects_and_never_answers_is_a_problem_and_no_finished_flight():
    peer = Px4Peer(boot_us=10**12)
    run = samara.fly(assign_autopilot(scenario("iris_documented", 0.3), Autopilot("px4")))
    peer.stop()
    assert run.time[-1] == 0.3
    assert run.problem == "PX4 was connected but never answered: it controlled no drone"
    assert [line.message for line in run.logs[-3:-1]] == ["PX4 answered 0 of 76 packets, 0 missed", run.problem]
    assert run.occurrences[-1].type is OccurrenceType.AUTOPILOT_LOST


def test_one_that_is_killed_is_named_with_its_signal(tmp_path):
    """It connects, as PX4 does, and is killed; the message names the signal."""
    program = tmp_path / "px4"
    words = "import os, socket\nsocket.create_connection(('127.0.0.1', 4560))\nprint('alive', flush=True)\n"
    program.write_text(f"#!{sys.executable}\n{words}os.kill(os.getpid(), 9)\n")
    program.chmod(0o755)
    run = samara.fly(assign_autopilot(scenario("iris_documented", 5.0), Autopilot("px4", binary=str(program))))
    assert run.problem.endswith(": px4 ended by signal 9 (SIGKILL); its last output: alive")


def test_with_wait_an_autopilot_lost_in_flight_is_reported_to_come_back_disarmed():
    messages = []
    link = connect_link(messages, on_loss="wait")
    link.watch.handle_loss("PX4 closed the connection at 3.000 s", motors_running=True)
    link.watch.handle_loss("PX4 closed the connection at 4.000 s", motors_running=False)
    link.close()
    assert messages[0].endswith("until it is back, and will come back disarmed: in the air the drone falls")
    assert messages[1].endswith("until it is back")


def test_a_second_sender_does_not_take_over_the_ground_station():
    """Orders go to the sender of the first heartbeat; other senders are counted, and the count is reported at the end."""
    messages, peer, ground = [], Px4Peer(boot_us=0), GroundPeer(refusals=0)
    link = connect_link(messages)
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind(("127.0.0.1", 0))
    other.setblocking(False)
    heartbeat = ground.common.MAVLink_heartbeat_message(2, 12, 129, 0, 4, 3).pack(ground.mav)
    try:
        for k in range(1000):  # until its heartbeat has come
            fly_still(link, 1, first=k)
            if link.ground.mode >= 0:
                break
            time.sleep(0.01)
        for _ in range(5):
            other.sendto(heartbeat, ("127.0.0.1", 14540))
        link.send_order(Order("arm"))
        for j in range(1000):
            fly_still(link, 5, first=k + 5 * j + 1)
            if not link.ground.pending_orders:
                break
            time.sleep(0.01)
        assert ground.armed and link.ground.pending_orders == 0
        with pytest.raises(BlockingIOError):
            other.recv(4096)
        closing_messages = [message for _, message in link.closing_report()]
    finally:
        other.close()
        link.close()
        peer.stop()
        ground.stop()
    assert "5 packets to PX4's ground station came from other senders; skipped" in closing_messages


def test_with_wait_a_new_autopilot_takes_over_where_the_old_one_died():
    mission = assign_autopilot(scenario("iris_documented", 2.0), Autopilot("px4", on_loss="wait"))
    messages = []
    first, second = Px4Peer(trouble="dies", trouble_at=200), None

    def tell(message):
        nonlocal second
        messages.append(message)
        if "closed the connection" in message:
            second = Px4Peer()

    run = samara.fly(mission, on_message=tell)
    second.stop()
    first.running = False
    assert run.problem == "" and run.time[-1] == 2.0
    assert [message for message in messages if "until it is back" in message] == messages[:1]
    assert second.sensors[0].time_usec == first.sensors[-1].time_usec  # the instant of the loss is repeated


def test_a_late_answer_is_waited_for_or_ignored():
    messages, peer = [], Px4Peer(boot_us=0, trouble="late", trouble_at=50)
    link = connect_link(messages, patience=5.0)
    try:
        fly_still(link, 100)
    finally:
        link.close()
        peer.stop()
    assert link.missed >= 1 and link.late >= 1 and 50 < link.answered <= 100 - link.missed
    assert len(messages) == 1 and "did not answer" in messages[0]


HANG_SECONDS = 60.0  # of a busy machine: longer is a failure


@pytest.fixture
def wait_for_answers(monkeypatch):
    """Let the link wait for the answer to every packet, however slow the machine is."""
    monkeypatch.setattr("samara.link.px4.ANSWER_TIMEOUT", HANG_SECONDS)


def boot(link):
    """Exchange packets until the first is answered; return their count."""
    deadline, steps = time.monotonic() + HANG_SECONDS, 0
    while not link.booted:
        assert time.monotonic() < deadline
        fly_still(link, 1, first=steps)
        steps += 1
    return steps


def test_garbage_is_skipped_and_said_once(wait_for_answers):
    messages, peer = [], Px4Peer(boot_us=0, trouble="garbage", trouble_at=50)
    link = connect_link(messages, patience=HANG_SECONDS)
    try:
        steps = boot(link)
        answered_before = link.answered
        fly_still(link, 100, first=steps)
    finally:
        link.close()
        peer.stop()
    assert link.answered == answered_before + 100 and peer.answered > 50
    assert messages[-1] == "PX4 sent bytes that are not MAVLink; they were skipped"


def test_a_second_autopilot_is_sent_away(wait_for_answers):
    """The link checks for others every 250 packets; the first autopilot answers every packet meanwhile."""
    messages, peer = [], Px4Peer(boot_us=0)
    link, other = connect_link(messages, patience=HANG_SECONDS), None
    try:
        steps = boot(link)
        answered_before = link.answered
        other = Px4Peer(boot_us=0)
        assert other.connected.wait(HANG_SECONDS)
        fly_still(link, 300, first=steps)
    finally:
        link.close()
        peer.stop()
        if other is not None:
            other.running = False
            other.join(HANG_SECONDS)
    assert link.answered == answered_before + 300 and link.missed == 0
    assert other.answered == 0 and not other.is_alive()
    assert len(messages) == 1 and "second autopilot" in messages[0]


def test_repeated_messages_are_counted():
    messages = []
    once_log = OnceLog(lambda level, message: messages.append((level, message)))
    for k in range(3):
        once_log.log("warning", f"it is {k} o'clock", "clock")
    once_log.log("info", "rain")
    assert messages == [("warning", "it is 0 o'clock"), ("info", "rain")]
    assert list(once_log.repetitions()) == [("warning", "3 times in all: it is 0 o'clock")]


def test_a_missing_autopilot_is_reported_with_the_command_to_start_it():
    messages = []
    link = connect_link(messages, wait=0.5, instance=7)
    try:
        with pytest.raises(AutopilotLostError, match=r"PX4 did not connect on TCP 127\.0\.0\.1:4567 within 0\.5 s"):
            fly_still(link, 1)
        script = Path(messages[0].rpartition("start it with: sh ")[2]).read_text()
    finally:
        link.close()
    assert "export PX4_PARAM_CA_ROTOR0_PX=0.1515\n" in script and '"$program" -d -i 7' in script


def test_a_port_in_use_and_an_invalid_binary_are_one_sentence():
    link = connect_link([])
    try:
        with pytest.raises(ValueError, match=r"127\.0\.0\.1:14540 cannot be used"):
            connect_link([])
    finally:
        link.close()
    with pytest.raises(ValueError, match="is not a program that can be run; expected the binary of PX4"):
        connect_link([], binary=__file__)
    with pytest.raises(ValueError, match="has 0 rotors; PX4 supports 1 to 12"):
        open_link(Autopilot("px4"), samara.vehicle("rigid_body_quadrotor"), print)


def test_a_program_that_ends_at_once_is_reported_with_its_last_output(tmp_path):
    program = tmp_path / "px4"
    program.write_text("#!/bin/sh\necho no such airframe\nexit 3\n")
    program.chmod(0o755)
    run = samara.fly(assign_autopilot(scenario("iris_documented", 1.0), Autopilot("px4", binary=str(program))))
    assert run.problem.endswith("px4 ended with status 3; its last output: no such airframe")


# Several, and their orders ------------------------------------------------------------------------------------------


def test_a_swarm_of_three_flies_in_one_lockstep():
    """Each answers an instant only when all three have its sensors: a sequential exchange would never end."""
    mission = scenario("hakoniwa", 3.0, 'count = 3\nspacing = [2, 0, 0]\nyaw_deg = 90.0\nautopilot = "px4"')
    assert [drone.autopilot.instance for drone in mission.drones] == [0, 1, 2]
    starts = [drone.task.evaluate(0.0).p_W for drone in mission.drones]
    heights, barrier = (1.0, 1.5, 2.0), threading.Barrier(3)
    parameters = px4_parameters(mission.drones[0].vehicle)
    peers = [
        Px4Peer(parameters, port=4560 + k, target=(float(p.y), float(p.x), -height), barrier=barrier)
        for k, (p, height) in enumerate(zip(starts, heights, strict=True))
    ]
    run = samara.fly(mission)
    for peer in peers:
        peer.stop()
    assert run.problem == ""
    times = [[message.time_usec for message in peer.sensors] for peer in peers]
    assert times == [[4000 * (k + 1) for k in range(751)]] * 3
    assert [peer.answered for peer in peers] == [751 - 17] * 3
    reports = [line.message for line in run.logs if "missed" in line.message]
    for report, drone in zip(reports, mission.drones, strict=True):
        assert re.fullmatch(rf"{drone.name}: PX4 answered \d+ of 751 packets, 0 missed", report)
    for drone_record, start, height in zip(run.drone_records, starts, heights, strict=True):
        settled = drone_record.position[drone_record.time > 2.6]
        assert np.abs(settled - np.array([start.x, start.y, height])).max() < 0.1


def test_an_instance_whose_port_px4_shares_with_others_is_refused():
    """PX4's startup script sends instances above 9 to UDP 14549, the port of instance 9."""
    with pytest.raises(ValueError, match=r"instance is 10; PX4 .* expected 0 to 9"):
        connect_link([], instance=10)


def test_events_become_orders_that_are_repeated_until_they_are_executed():
    events = [Event(at(0.0), take_off(4.0)), Event(at(4.0), go_to((3.0, 4.0, 5.0))), Event(at(5.0), land())]
    mission = assign_autopilot(scenario("iris_documented", 6.0, events=events), Autopilot("px4"))
    peer, ground, messages = Px4Peer(), GroundPeer(refusals=2), []
    run = samara.fly(mission, on_message=messages.append)
    peer.stop()
    ground.stop()
    assert ground.height == 4.0 and ground.armed
    commands = [order.command for order in ground.orders]
    assert commands.count(400) == 3  # refused twice
    reposition = next(order for order in ground.orders if order.command == 192)
    target = geodetic_from_enu(Vec3(3.0, 4.0, 5.0), HOME.origin)
    assert reposition.get_type() == "COMMAND_INT"
    assert (reposition.x, reposition.y) == (
        round(math.degrees(target.latitude) * 1e7),
        round(math.degrees(target.longitude) * 1e7),
    )
    assert reposition.z == pytest.approx(5.0, abs=1e-3) and math.isnan(reposition.param4)
    assert (ground.orders[-1].command, ground.orders[-1].param2, ground.orders[-1].param3) == (176, 4.0, 6.0)
    assert [s for s in messages if "executes" in s] == [
        "PX4 executes: take off to 4 m",
        "PX4 executes: go to (3, 4, 5)",
        "PX4 executes: land",
    ]
    assert "PX4 reports: Preflight Fail: no fix" in [line.message for line in run.logs]


def test_ports_of_px4_that_the_network_reaches_are_named():
    """PX4 binds its MAVLink ports on all interfaces; a warning follows its first heartbeat, once."""
    messages, peer, ground = [], Px4Peer(boot_us=0), GroundPeer()
    open_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    open_socket.bind(("0.0.0.0", 14580))
    link = connect_link(messages)
    try:
        for k in range(2000):
            link.exchange(rest_readings(4000 * k))
            if messages:
                break
    finally:
        link.close()
        peer.stop()
        ground.stop()
        open_socket.close()
    if not Path("/proc/net/udp").exists():
        pytest.skip("open ports are listed in Linux's /proc/net")
    assert messages[0].startswith(
        "PX4 listens on all network interfaces (UDP 14580): any machine that reaches this one"
    )


def test_a_task_of_waypoints_becomes_orders_and_a_circle_none():
    legs = waypoints([Vec3(0, 0, 0), Vec3(0, 0, 10), Vec3(10, 0, 10)], speed=2.0)
    assert [(order.kind, order.p_W) for order in task_orders(legs)] == [
        ("take_off", Vec3(0, 0, 10)),
        ("reach", Vec3(10, 0, 10)),
    ]
    assert task_orders(circle(Vec3(0, 0, 2), radius=1.0, speed=1.0)) == []


# The scenario -------------------------------------------------------------------------------------------------------


def test_an_autopilot_gets_the_sensors_it_needs_at_its_rate():
    mission = scenario("iris_documented", 1.0, 'autopilot = { type = "px4", rate = 500 }\nsensors = ["neo-m9n"]')
    drone = mission.drones[0]
    assert sorted(sensor.type_name for sensor in drone.sensors) == ["barometer", "gps", "imu", "magnetometer"]
    assert mission.rates.sensor == mission.rates.control == 500.0
    assert drone.estimator.name == "truth"
    assert (
        prepare_autopilots(replace(mission, drones=(replace(drone, autopilot=None),))).drones[0].sensors
        == drone.sensors
    )


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ('autopilot = "ardu"', "autopilot.type is 'ardu'; expected one of px4, ardupilot, betaflight"),
        ('autopilot = { type = "px4", on_loss = "cry" }', "autopilot.on_loss is 'cry'; expected one of end, wait"),
        (
            'autopilot = { type = "ardupilot", rate = 400 }',
            "autopilot.rate is 400 Hz; expected 720 to 4000 for ardupilot",
        ),
        ('autopilot = { type = "px4", speed = 3 }', "expected only the keys"),
        ('autopilot = { type = "px4", instance = -1 }', "autopilot.instance is -1"),
    ],
)
def test_a_wrong_key_is_one_sentence(key, sentence):
    with pytest.raises(ScenarioError) as error:
        scenario(lines=key)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_two_rates_in_one_world_are_refused():
    text = MISSION.format(vehicle="iris_documented", duration=1.0, more='autopilot = "px4"')
    text += '[[drones]]\nname = "other"\nvehicle = "iris_documented"\nautopilot = "ardupilot"\n'
    with pytest.raises(ScenarioError, match="need their sensors at 250 Hz and 1000 Hz; expected one rate"):
        parse_scenario(text, "two.toml")


def test_user_parameters_are_set():
    """Its filter gets the delay of the receiver, unless the user sets it."""
    mission = scenario(lines='[drones.autopilot]\ntype = "px4"\nparameters = { MPC_XY_CRUISE = 3 }')
    assert dict(mission.drones[0].autopilot.parameters) == {
        "EKF2_GPS_DELAY": 100.0,  # until PX4 1.17
        "SENS_GPS0_DELAY": 100.0,  # from 1.18 on
        "MPC_XY_CRUISE": 3.0,
    }
    mission = scenario(lines='[drones.autopilot]\ntype = "px4"\nparameters = { EKF2_GPS_DELAY = 20 }')
    assert dict(mission.drones[0].autopilot.parameters) == {"EKF2_GPS_DELAY": 20.0, "SENS_GPS0_DELAY": 100.0}


def test_a_failed_sensor_is_silent_on_the_wire():
    events = [Event(at(0.5), fail_sensor("magnetometer"))]
    mission = assign_autopilot(scenario("iris_documented", 1.0, events=events), Autopilot("px4"))
    peer = Px4Peer()
    samara.fly(mission)
    peer.stop()
    field_times = [m.time_usec for m in peer.sensors if m.fields_updated & 0x1C0]
    assert len(field_times) == pytest.approx(25, abs=1) and max(field_times) <= 504_000


def test_the_shipped_mission_is_that_of_hakoniwa():
    mission = load_scenario("hakoniwa_autopilot", {"drones.autopilot": "px4"})
    assert mission.drones[0].vehicle.name == "hakoniwa" and len(mission.events) == 3
