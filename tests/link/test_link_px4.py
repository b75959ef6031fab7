"""PX4 in lockstep: what goes over the wire, what the vehicle's geometry becomes, and flights through the protocol."""

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
from support.autopilot_peers import GroundPeer, Px4Peer, mixer_of, one_at_a_time  # noqa: F401 - a fixture

import samara
from samara.core.algebra import ZERO, Quat, Vec3, quat_from_euler
from samara.link.link import AutopilotLostError, Repeated, task_orders
from samara.link.px4 import gps_fields, px4_environment, px4_parameters, truth_fields
from samara.link.registry import open_link
from samara.link.sensor_snapshot import Fix, Readings, Senses, outside
from samara.physics.frames import geodetic_from_enu, state_ned_frd_from_enu_flu
from samara.physics.types import State
from samara.plan.trajectory import circle, waypoints
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import flown_by, prepared
from samara.scenario.events import Event, Order, at, fail_motor, fail_sensor, go_to, land, take_off, wind_step
from samara.scenario.file import ScenarioError, load_scenario, parse_scenario
from samara.scenario.flight_events import Fact
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

IN_THE_AIR = "yaw_deg = 90.0\nairborne = true\nstart = [0, 0, 1.5]"


def scenario(vehicle="iris_documented", duration=1.0, more="", events=()):
    own = parse_scenario(MISSION.format(vehicle=vehicle, duration=duration, more=more), "mission.toml")
    return replace(own, events=tuple(events))


def still(time_us=0, **changes):
    """A drone at rest at the origin, nose north"""
    north = quat_from_euler(0.0, 0.0, math.pi / 2)
    state = State(ZERO, ZERO, north, ZERO)
    resting = Readings(time_us, Vec3(0.0, 0.0, 9.80665), ZERO, None, None, None, state)
    return resting._replace(**changes)


# What PX4 is told ---------------------------------------------------------------------------------------------------


def test_the_iris_geometry_is_the_one_px4_has_itself():
    """PX4's own airframe none_iris, as its file has it."""
    numbers = rotor_parameters(samara.vehicle("iris_documented"))
    places = [(0.1515, 0.245, 0.05), (-0.1515, -0.1875, 0.05), (0.1515, -0.245, -0.05), (-0.1515, 0.1875, -0.05)]
    for i, (x, y, km) in enumerate(places):
        told = [numbers[f"CA_ROTOR{i}_{name}"] for name in ("PX", "PY", "PZ", "KM", "AX", "AY", "AZ")]
        assert told == pytest.approx([x, y, 0.0, km, 0.0, 0.0, -1.0], abs=1e-12)
    assert numbers["CA_ROTOR_COUNT"] == 4


@pytest.mark.parametrize("vehicle", ["iris_documented", "crazyflie_documented", "hexarotor_tilted", "octorotor_x"])
def test_px4_computes_the_torque_that_the_plant_feels(vehicle):
    """T (r × a − km a) in FRD from the parameters, against the plant's own B in FLU."""
    craft = samara.vehicle(vehicle)
    numbers = rotor_parameters(craft)
    flip = np.diag([1.0, -1.0, -1.0])
    for i, column in enumerate(effectiveness(craft).T):
        place, axis = (np.array([numbers[f"CA_ROTOR{i}_{kind}{letter}"] for letter in "XYZ"]) for kind in "PA")
        torque = np.cross(place, axis) - numbers[f"CA_ROTOR{i}_KM"] * axis
        assert torque == pytest.approx(flip @ column[3:], abs=1e-12)
        assert axis == pytest.approx(flip @ column[:3], abs=1e-12)


def test_one_unit_of_normalized_torque_accelerates_as_px4_scales_its_mixer():
    """|α| from the mixer PX4 makes of the parameters, against `agility`; the Iris is the measure of the gains."""
    craft = samara.vehicle("hakoniwa")
    numbers = px4_parameters(craft)
    mixer = mixer_of(numbers)
    weight = craft.mass * craft["gravity"].acceleration
    thrusts = mixer[:, 1] * (2.0 * weight / 4)  # hover at one half: T_full is twice a quarter of the weight
    roll = abs((effectiveness(craft) @ thrusts)[3]) / craft.inertia_B.xx
    assert agility(craft)[0] == pytest.approx(roll, rel=1e-9)
    assert numbers["MC_ROLLRATE_K"] == pytest.approx(agility(samara.vehicle("iris_documented"))[0] / roll, rel=1e-9)
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
    place = geodetic_from_enu(Vec3(0.0, 10.0, 5.0), HOME.origin)
    told = gps_fields(Fix(place, Vec3(3.0, 4.0, -0.5)))
    metres = (told[0] - 473977420) * 1e-7 * 111_177.0  # a degree of latitude at 47.4°
    assert metres == pytest.approx(10.0, abs=0.02)
    assert told[1] == 85455940 and told[2] == 5000
    assert told[5:9] == (500, 400, 300, 50)
    assert told[9] == round(100 * math.degrees(math.atan2(3.0, 4.0)))
    assert gps_fields(Fix(place, ZERO))[9] == 65535  # no course
    assert told[10:12] == (3, 10)


def test_the_truth_is_sent_in_px4s_axes():
    """Nose east, right side down 0.1 rad, turning clockwise: roll and yaw rate positive in FRD."""
    q_WB = quat_from_euler(0.1, 0.0, 0.0)
    told = truth_fields(still(state=State(ZERO, Vec3(1.0, 2.0, 3.0), q_WB, Vec3(0.0, 0.0, -0.5))))
    half = math.sqrt(0.5)
    level_east = Quat(half, 0.0, 0.0, half)
    expected = level_east * Quat(math.cos(0.05), math.sin(0.05), 0.0, 0.0)
    assert told[:4] == pytest.approx(tuple(expected), abs=1e-12)
    assert told[4:7] == pytest.approx((0.0, 0.0, 0.5))
    home = still().origin
    assert told[7:10] == (
        round(math.degrees(home.latitude) * 1e7),
        round(math.degrees(home.longitude) * 1e7),
        round(home.altitude * 1e3),
    )
    assert told[10:13] == (200, 100, -300)
    assert told[-3:] == (0, 0, -1000)


def test_what_goes_outside_is_what_the_frames_say():
    """Machine code on one side, the functions of `samara.physics.frames` on the other; of q and −q the one with w ≥ 0."""
    state = State(Vec3(123.4, -56.7, 8.9), Vec3(1.0, 2.0, 3.0), quat_from_euler(0.3, -0.2, 2.8), Vec3(0.1, 0.2, 0.3))
    told, place = outside(state, HOME.origin)
    exact = state_ned_frd_from_enu_flu(state)
    assert place == pytest.approx(geodetic_from_enu(state.p_W, HOME.origin), rel=1e-15)
    sign = math.copysign(1.0, exact.q_WB.w)
    assert told.q_WB == pytest.approx(tuple(exact.q_WB * sign), rel=1e-15) and told.q_WB.w > 0.0
    assert (*told.p_W, *told.v_W, *told.omega_B) == (*exact.p_W, *exact.v_W, *exact.omega_B)


def test_a_turned_imu_is_turned_back():
    """Mounted nose to the left, it still tells the body's own axes."""

    class Told:
        sensor = samara.sensors.part("bmi088").sensor(q_BS=quat_from_euler(0.0, 0.0, math.pi / 2))
        reading = np.array([[1.0], [0.0], [9.8], [0.0], [2.0], [0.0]])
        fresh = np.ones(1)

    readings = Senses([Told()]).read(0, [0.0] * 6 + [1.0] + [0.0] * 6, [0.0] * 19)
    assert readings.specific_force_B == pytest.approx((0.0, 1.0, 9.8), abs=1e-12)
    assert readings.omega_B == pytest.approx((-2.0, 0.0, 0.0), abs=1e-12)


# Lockstep -----------------------------------------------------------------------------------------------------------


def opened(said, **options):
    options = {"wait": 10.0, "patience": 1.0, **options}
    return open_link(
        Autopilot("px4", **options), samara.vehicle("iris_documented"), lambda level, text: said.append(text)
    )


def fly_still(link, steps, first=0, **changes):
    return [list(link.exchange(still(4000 * k, **changes))) for k in range(first, first + steps)]


def test_silence_while_it_boots_then_one_answer_for_each_packet_with_its_time():
    said, peer = [], Px4Peer(boot_us=70_000)
    link = opened(said)
    try:
        fly_still(link, 300)
    finally:
        link.close()
        peer.stop()
    times = [message.time_usec for message in peer.sensors]
    assert times == [4000 * (k + 1) for k in range(300)]  # above 0, and never back
    assert peer.answered == 300 - 17  # of which the link hears all but those it got late while PX4 booted
    assert 0 < link.answered <= peer.answered and link.missed == 0
    assert link.missed == link.late == 0
    assert said == []


def test_the_sensors_arrive_in_frd_gauss_and_hectopascal():
    said, peer = [], Px4Peer(boot_us=0)
    link = opened(said)
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
    assert last.abs_pressure == pytest.approx(950.0)  # the last one it was told


def test_a_whole_flight_through_the_protocol_hovers_within_ten_centimetres():
    """The peer's controller and mixer know the vehicle only through the parameters PX4 is given."""
    own = scenario("hakoniwa", 4.0, 'yaw_deg = 90.0\nautopilot = "px4"')
    peer = Px4Peer(px4_parameters(own.drones[0].vehicle), target=(0.0, 0.0, -1.5))
    run = samara.fly(own)
    peer.stop()
    assert run.problem == ""
    settled = run.position[run.time > 3.0]
    assert np.abs(settled - np.array([0.0, 0.0, 1.5])).max() < 0.1
    assert peer.answered == 4 * 250 + 1 - 17
    assert len(peer.fixes) == pytest.approx(39, abs=1)  # 10 Hz, late by 0.1 s
    assert run.controller == "px4"


def test_wind_and_a_dead_motor_reach_a_drone_flown_by_an_autopilot():
    happening = [Event(at(1.0), wind_step((1.5, 0.0, 0.0))), Event(at(1.6), fail_motor(1))]
    own = flown_by(scenario("iris_documented", 2.2, IN_THE_AIR, happening), Autopilot("px4"))
    peer = Px4Peer(px4_parameters(own.drones[0].vehicle))
    run = samara.fly(own)
    peer.stop()
    assert run.wind[-1, 0] == 1.5
    assert run.tilt[run.time < 1.6].max() < math.radians(10.0)
    assert run.tilt[-1] > math.radians(30.0)


def test_a_recording_replays_bit_for_bit_without_the_autopilot(tmp_path):
    own = flown_by(scenario("iris_documented", 1.5, IN_THE_AIR, [Event(at(1.0), fail_motor(0))]), Autopilot("px4"))
    peer = Px4Peer(px4_parameters(own.drones[0].vehicle))
    run = samara.fly(own, out=tmp_path / "run.mcap")
    peer.stop()
    again = samara.replay(tmp_path / "run.mcap")
    assert np.array_equal(again.tables["state"].rows, run.tables["state"].rows)
    assert np.ptp(run.command) > 0.1


def test_at_a_thousand_hertz_every_packet_is_answered():
    own = flown_by(scenario("iris_documented", 1.0), Autopilot("px4", rate=1000.0))
    assert own.rates.autopilot == own.rates.sensor == 1000.0
    peer = Px4Peer(px4_parameters(own.drones[0].vehicle))
    samara.fly(own)
    peer.stop()
    assert np.diff([message.time_usec for message in peer.sensors]).tolist() == [1000] * 1000
    assert peer.answered == 1001 - 69


def test_one_that_answers_only_some_is_told_of_and_flown_on():
    """At 1 kHz without its parameters PX4 was seen to answer 31 % of the packets."""
    said, peer = [], Px4Peer(boot_us=0, answers_every=3)
    link = opened(said, rate=1000.0, patience=5.0)
    try:
        for k in range(60):
            link.exchange(still(1000 * k))
    finally:
        link.close()
        peer.stop()
    assert peer.answered == 20 and 0 < link.answered <= 20
    assert 20 < link.missed <= 60 - link.answered  # before its first answer it boots, and nothing is missed
    assert "IMU_INTEG_RATE" in said[0] and len(said) == 1


# When things go wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "words"), [("dies", "closed the connection"), ("hangs", "has not answered for 1 s")]
)
def test_an_autopilot_that_is_lost_ends_the_flight_with_a_sentence_and_its_recording(trouble, words, tmp_path):
    own = flown_by(scenario("iris_documented", 3.0), Autopilot("px4", patience=1.0))
    peer = Px4Peer(trouble=trouble, trouble_at=200)
    run = samara.fly(own, out=tmp_path / "run.mcap")
    peer.running = False
    assert words in run.problem and run.problem.startswith("the flight ended at ") and "\n" not in run.problem
    assert [line.message for line in run.logs if line.level == "error"] == [run.problem]
    assert re.fullmatch(r"PX4 answered \d+ of 218 packets, 0 missed", run.logs[-2].message) or trouble == "hangs"
    recorded = samara.load_run(tmp_path / "run.mcap")
    assert [own.drone for own in recorded.facts if own.fact is Fact.AUTOPILOT_LOST] == [0]
    assert 0.8 < recorded.time[-1] < 3.0
    assert samara.replay(recorded).time[-1] == recorded.time[-1]


def test_one_that_connects_and_never_answers_is_a_problem_and_no_finished_flight():
    peer = Px4Peer(boot_us=10**12)
    run = samara.fly(flown_by(scenario("iris_documented", 0.3), Autopilot("px4")))
    peer.stop()
    assert run.time[-1] == 0.3
    assert run.problem == "PX4 was there and never answered: nothing was flown by it"
    assert [line.message for line in run.logs[-3:-1]] == ["PX4 answered 0 of 76 packets, 0 missed", run.problem]
    assert run.facts[-1].fact is Fact.AUTOPILOT_LOST


def test_one_that_is_killed_is_named_with_its_signal(tmp_path):
    """It connects, as PX4 does, and dies without a word; the sentence holds what the system knows of its end."""
    program = tmp_path / "px4"
    words = "import os, socket\nsocket.create_connection(('127.0.0.1', 4560))\nprint('alive', flush=True)\n"
    program.write_text(f"#!{sys.executable}\n{words}os.kill(os.getpid(), 9)\n")
    program.chmod(0o755)
    run = samara.fly(flown_by(scenario("iris_documented", 5.0), Autopilot("px4", binary=str(program))))
    assert run.problem.endswith(": px4 ended by signal 9 (SIGKILL); its last words: alive")


def test_with_wait_one_that_was_flying_is_said_to_come_back_disarmed():
    said = []
    link = opened(said, on_loss="wait")
    link.watch.lost("PX4 closed the connection at 3.000 s", turning=True)
    link.watch.lost("PX4 closed the connection at 4.000 s", turning=False)
    link.close()
    assert said[0].endswith("until it is back, and will come back disarmed: in the air the drone falls")
    assert said[1].endswith("until it is back")


def test_a_second_voice_does_not_take_over_the_ground_station():
    """Orders go to the one whose heartbeat came first, whoever else speaks to the port; that is said once, with a count."""
    said, peer, ground = [], Px4Peer(boot_us=0), GroundPeer(refusals=0)
    link = opened(said)
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind(("127.0.0.1", 0))
    stranger.setblocking(False)
    beat = ground.common.MAVLink_heartbeat_message(2, 12, 129, 0, 4, 3).pack(ground.mav)
    try:
        for k in range(1000):  # until its heartbeat has come
            fly_still(link, 1, first=k)
            if link.ground.mode >= 0:
                break
            time.sleep(0.01)
        for _ in range(5):
            stranger.sendto(beat, ("127.0.0.1", 14540))
        link.obey(Order("arm"))
        for j in range(1000):
            fly_still(link, 5, first=k + 5 * j + 1)
            if not link.ground.waiting:
                break
            time.sleep(0.01)
        assert ground.armed and link.ground.waiting == 0
        with pytest.raises(BlockingIOError):
            stranger.recv(4096)
        said_last = [words for _, words in link.ending()]
    finally:
        stranger.close()
        link.close()
        peer.stop()
        ground.stop()
    assert "5 packets to PX4's ground station came from elsewhere; skipped" in said_last


def test_with_wait_a_new_autopilot_takes_over_where_the_old_one_died():
    own = flown_by(scenario("iris_documented", 2.0), Autopilot("px4", on_loss="wait"))
    said = []
    first, second = Px4Peer(trouble="dies", trouble_at=200), None

    def tell(sentence):
        nonlocal second
        said.append(sentence)
        if "closed the connection" in sentence:
            second = Px4Peer()

    run = samara.fly(own, tell=tell)
    second.stop()
    first.running = False
    assert run.problem == "" and run.time[-1] == 2.0
    assert [sentence for sentence in said if "until it is back" in sentence] == said[:1]
    assert second.sensors[0].time_usec == first.sensors[-1].time_usec  # the instant it was lost at, once more


def test_an_answer_that_comes_late_is_waited_for_or_counts_for_nothing():
    said, peer = [], Px4Peer(boot_us=0, trouble="late", trouble_at=50)
    link = opened(said, patience=5.0)
    try:
        fly_still(link, 100)
    finally:
        link.close()
        peer.stop()
    assert link.missed >= 1 and link.late >= 1 and 50 < link.answered <= 100 - link.missed
    assert len(said) == 1 and "did not answer" in said[0]


HANG_SECONDS = 60.0  # of a busy machine: longer is a failure


@pytest.fixture
def wait_for_answers(monkeypatch):
    """Let the link wait for the answer to every packet, however slow the machine is."""
    monkeypatch.setattr("samara.link.px4.FIRST_PATIENCE", HANG_SECONDS)


def boot(link):
    """Exchange packets until the first is answered; the number of packets"""
    deadline, steps = time.monotonic() + HANG_SECONDS, 0
    while not link.booted:
        assert time.monotonic() < deadline
        fly_still(link, 1, first=steps)
        steps += 1
    return steps


def test_garbage_is_skipped_and_said_once(wait_for_answers):
    said, peer = [], Px4Peer(boot_us=0, trouble="garbage", trouble_at=50)
    link = opened(said, patience=HANG_SECONDS)
    try:
        steps = boot(link)
        before = link.answered
        fly_still(link, 100, first=steps)
    finally:
        link.close()
        peer.stop()
    assert link.answered == before + 100 and peer.answered > 50
    assert said[-1] == "PX4 sent bytes that are no MAVLink; they were skipped"


def test_a_second_autopilot_is_sent_away(wait_for_answers):
    """The link looks for others every 250 packets; the first autopilot answers every packet meanwhile."""
    said, peer = [], Px4Peer(boot_us=0)
    link, other = opened(said, patience=HANG_SECONDS), None
    try:
        steps = boot(link)
        before = link.answered
        other = Px4Peer(boot_us=0)
        assert other.connected.wait(HANG_SECONDS)
        fly_still(link, 300, first=steps)
    finally:
        link.close()
        peer.stop()
        if other is not None:
            other.running = False
            other.join(HANG_SECONDS)
    assert link.answered == before + 300 and link.missed == 0
    assert other.answered == 0 and not other.is_alive()
    assert len(said) == 1 and "second autopilot" in said[0]


def test_what_is_said_again_is_counted():
    said = []
    once = Repeated(lambda level, words: said.append((level, words)))
    for k in range(3):
        once.say("warning", f"it is {k} o'clock", "clock")
    once.say("info", "rain")
    assert said == [("warning", "it is 0 o'clock"), ("info", "rain")]
    assert list(once.totals()) == [("warning", "3 times in all: it is 0 o'clock")]


def test_nobody_there_is_said_with_the_way_to_start_it():
    said = []
    link = opened(said, wait=0.5, instance=7)
    try:
        with pytest.raises(AutopilotLostError, match=r"PX4 did not come on TCP 127\.0\.0\.1:4567 within 0\.5 s"):
            fly_still(link, 1)
        script = Path(said[0].rpartition("start it with: sh ")[2]).read_text()
    finally:
        link.close()
    assert "export PX4_PARAM_CA_ROTOR0_PX=0.1515\n" in script and '"$program" -d -i 7' in script


def test_a_port_that_is_taken_and_a_binary_that_is_none_are_one_sentence():
    link = opened([])
    try:
        with pytest.raises(ValueError, match=r"127\.0\.0\.1:14540 cannot be used"):
            opened([])
    finally:
        link.close()
    with pytest.raises(ValueError, match="is not a program that can be run; expected the binary of PX4"):
        opened([], binary=__file__)
    with pytest.raises(ValueError, match="has 0 rotors; PX4 allocates to 1 to 12"):
        open_link(Autopilot("px4"), samara.vehicle("rigid_body_quadrotor"), print)


def test_a_program_that_ends_at_once_is_told_with_its_last_words(tmp_path):
    program = tmp_path / "px4"
    program.write_text("#!/bin/sh\necho no such airframe\nexit 3\n")
    program.chmod(0o755)
    run = samara.fly(flown_by(scenario("iris_documented", 1.0), Autopilot("px4", binary=str(program))))
    assert run.problem.endswith("px4 ended with status 3; its last words: no such airframe")


# Several, and their orders ------------------------------------------------------------------------------------------


def test_a_swarm_of_three_flies_in_one_lockstep():
    """Each answers an instant only when all three have its sensors: one after the other they would wait for ever."""
    own = scenario("hakoniwa", 3.0, 'count = 3\nspacing = [2, 0, 0]\nyaw_deg = 90.0\nautopilot = "px4"')
    assert [drone.autopilot.instance for drone in own.drones] == [0, 1, 2]
    starts = [drone.task.at(0.0).p_W for drone in own.drones]
    heights, together = (1.0, 1.5, 2.0), threading.Barrier(3)
    parameters = px4_parameters(own.drones[0].vehicle)
    peers = [
        Px4Peer(parameters, port=4560 + k, target=(float(p.y), float(p.x), -height), together=together)
        for k, (p, height) in enumerate(zip(starts, heights, strict=True))
    ]
    run = samara.fly(own)
    for peer in peers:
        peer.stop()
    assert run.problem == ""
    times = [[message.time_usec for message in peer.sensors] for peer in peers]
    assert times == [[4000 * (k + 1) for k in range(751)]] * 3
    assert [peer.answered for peer in peers] == [751 - 17] * 3
    endings = [line.message for line in run.logs if "missed" in line.message]
    for ending, drone in zip(endings, own.drones, strict=True):
        assert re.fullmatch(rf"{drone.name}: PX4 answered \d+ of 751 packets, 0 missed", ending)
    for track, start, height in zip(run.tracks, starts, heights, strict=True):
        settled = track.position[track.time > 2.6]
        assert np.abs(settled - np.array([start.x, start.y, height])).max() < 0.1


def test_an_instance_whose_port_px4_shares_with_others_is_refused():
    """PX4's startup script sends instances above 9 to UDP 14549, the port of instance 9."""
    with pytest.raises(ValueError, match=r"instance is 10; PX4 .* expected 0 to 9"):
        opened([], instance=10)


def test_events_become_orders_that_are_asked_until_they_are_obeyed():
    happening = [Event(at(0.0), take_off(4.0)), Event(at(4.0), go_to((3.0, 4.0, 5.0))), Event(at(5.0), land())]
    own = flown_by(scenario("iris_documented", 6.0, events=happening), Autopilot("px4"))
    peer, ground, said = Px4Peer(), GroundPeer(refusals=2), []
    run = samara.fly(own, tell=said.append)
    peer.stop()
    ground.stop()
    assert ground.height == 4.0 and ground.armed
    commands = [order.command for order in ground.orders]
    assert commands.count(400) == 3  # refused twice
    going = next(order for order in ground.orders if order.command == 192)
    there = geodetic_from_enu(Vec3(3.0, 4.0, 5.0), HOME.origin)
    assert going.get_type() == "COMMAND_INT"
    assert (going.x, going.y) == (round(math.degrees(there.latitude) * 1e7), round(math.degrees(there.longitude) * 1e7))
    assert going.z == pytest.approx(5.0, abs=1e-3) and math.isnan(going.param4)
    assert (ground.orders[-1].command, ground.orders[-1].param2, ground.orders[-1].param3) == (176, 4.0, 6.0)
    assert [s for s in said if "obeys" in s] == [
        "PX4 obeys: take off to 4 m",
        "PX4 obeys: go to (3, 4, 5)",
        "PX4 obeys: land",
    ]
    assert "PX4 says: Preflight Fail: no fix" in [line.message for line in run.logs]


def test_ports_of_px4_that_the_network_reaches_are_named():
    """PX4 binds its MAVLink ports on all interfaces; said with its first heartbeat, once."""
    said, peer, ground = [], Px4Peer(boot_us=0), GroundPeer()
    wide = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wide.bind(("0.0.0.0", 14580))
    link = opened(said)
    try:
        for k in range(2000):
            link.exchange(still(4000 * k))
            if said:
                break
    finally:
        link.close()
        peer.stop()
        ground.stop()
        wide.close()
    if not Path("/proc/net/udp").exists():
        pytest.skip("open ports are listed in Linux's /proc/net")
    assert said[0].startswith("PX4 listens on all network interfaces (UDP 14580): any machine that reaches this one")


def test_a_task_of_places_becomes_orders_and_a_circle_none():
    legs = waypoints([Vec3(0, 0, 0), Vec3(0, 0, 10), Vec3(10, 0, 10)], speed=2.0)
    assert [(order.kind, order.p_W) for order in task_orders(legs)] == [
        ("take_off", Vec3(0, 0, 10)),
        ("reach", Vec3(10, 0, 10)),
    ]
    assert task_orders(circle(Vec3(0, 0, 2), radius=1.0, speed=1.0)) == []


# The scenario -------------------------------------------------------------------------------------------------------


def test_an_autopilot_gets_the_sensors_it_needs_at_its_rate():
    own = scenario("iris_documented", 1.0, 'autopilot = { kind = "px4", rate = 500 }\nsensors = ["neo-m9n"]')
    drone = own.drones[0]
    assert sorted(sensor.kind for sensor in drone.sensors) == ["barometer", "gps", "imu", "magnetometer"]
    assert own.rates.sensor == own.rates.autopilot == 500.0
    assert drone.estimator.name == "truth"
    assert prepared(replace(own, drones=(replace(drone, autopilot=None),))).drones[0].sensors == drone.sensors


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ('autopilot = "ardu"', "autopilot.kind is 'ardu'; expected one of px4, ardupilot, betaflight"),
        ('autopilot = { kind = "px4", on_loss = "cry" }', "autopilot.on_loss is 'cry'; expected one of end, wait"),
        (
            'autopilot = { kind = "ardupilot", rate = 400 }',
            "autopilot.rate is 400 Hz; expected 720 to 4000 for ardupilot",
        ),
        ('autopilot = { kind = "px4", speed = 3 }', "expected only the keys"),
        ('autopilot = { kind = "px4", instance = -1 }', "autopilot.instance is -1"),
    ],
)
def test_a_wrong_key_is_one_sentence(key, sentence):
    with pytest.raises(ScenarioError) as error:
        scenario(more=key)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_two_rates_in_one_world_are_refused():
    text = MISSION.format(vehicle="iris_documented", duration=1.0, more='autopilot = "px4"')
    text += '[[drones]]\nname = "other"\nvehicle = "iris_documented"\nautopilot = "ardupilot"\n'
    with pytest.raises(ScenarioError, match="want their sensors at 250 Hz and 1000 Hz; expected one rate"):
        parse_scenario(text, "two.toml")


def test_parameters_of_ones_own_go_along():
    """Its filter is told how late the receiver is, unless it is told otherwise."""
    own = scenario(more='[drones.autopilot]\nkind = "px4"\nparameters = { MPC_XY_CRUISE = 3 }')
    assert dict(own.drones[0].autopilot.parameters) == {
        "EKF2_GPS_DELAY": 100.0,  # until PX4 1.17
        "SENS_GPS0_DELAY": 100.0,  # from 1.18 on
        "MPC_XY_CRUISE": 3.0,
    }
    own = scenario(more='[drones.autopilot]\nkind = "px4"\nparameters = { EKF2_GPS_DELAY = 20 }')
    assert dict(own.drones[0].autopilot.parameters) == {"EKF2_GPS_DELAY": 20.0, "SENS_GPS0_DELAY": 100.0}


def test_a_failed_sensor_is_silent_on_the_wire():
    happening = [Event(at(0.5), fail_sensor("magnetometer"))]
    own = flown_by(scenario("iris_documented", 1.0, events=happening), Autopilot("px4"))
    peer = Px4Peer()
    samara.fly(own)
    peer.stop()
    with_field = [m.time_usec for m in peer.sensors if m.fields_updated & 0x1C0]
    assert len(with_field) == pytest.approx(25, abs=1) and max(with_field) <= 504_000


def test_the_shipped_mission_is_that_of_hakoniwa():
    own = load_scenario("hakoniwa_autopilot", {"drones.autopilot": "px4"})
    assert own.drones[0].vehicle.name == "hakoniwa" and len(own.events) == 3
