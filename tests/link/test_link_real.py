"""The real PX4 and ArduCopter, installed or named by SAMARA_PX4 and SAMARA_ARDUCOPTER: missions, faults, a swarm."""

import math
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.autopilot_peers import one_at_a_time  # noqa: F401 - a fixture

import samara
from samara.link.process import default_binary
from samara.record.run import check_expectations
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import AUTOPILOTS
from samara.scenario.file import load_scenario, parse_scenario
from samara.sim import fleet as sim_links


def binary(variable):
    """They take an hour to build: without them these tests are skipped, in continuous integration too."""
    path = default_binary(
        next(autopilot_type for autopilot_type in AUTOPILOTS.values() if autopilot_type.variable == variable)
    )
    if not path:
        pytest.skip(f"the autopilot is not installed, and {variable} is not set; expected the path of its binary")
    return path


@pytest.fixture
def links(monkeypatch):
    """The links of a test's flights, for inspection."""
    opened_links, open_link = [], sim_links.open_link

    def record_link(*arguments):
        opened_links.append(open_link(*arguments))
        return opened_links[-1]

    monkeypatch.setattr(sim_links, "open_link", record_link)
    return opened_links


def fly_low_battery(kind, variable, duration):
    """Return home on the battery of the shipped scenario by the autopilot's failsafe alone."""
    scenario = load_scenario("low_battery", {"duration": duration})
    run = samara.fly(scenario, autopilot=Autopilot(kind, binary=binary(variable)))
    assert run.problem == ""
    assert [
        expectation.text for expectation in check_expectations(run, scenario.expect) if not expectation.satisfied
    ] == []
    assert np.hypot(run.position[:, 0], run.position[:, 1]).max() == pytest.approx(math.hypot(6.0, 4.0), abs=1.0)
    assert run.charge[-1] < scenario.drones[0].battery_failsafe.return_below
    return run


def mission(kind, variable, duration=45.0, **options):
    scenario = load_scenario("hakoniwa_autopilot", {"duration": duration})
    return samara.fly(scenario, autopilot=Autopilot(kind, binary=binary(variable), **options))


def require_flown(run):
    """Up to 10 m, 10 m to the right, and down again."""
    assert run.problem == ""
    assert run.position[:, 2].max() == pytest.approx(10.0, abs=0.8)
    assert np.abs(run.position[:, 1]).max() < 1.0
    assert run.position[-1] == pytest.approx([10.0, 0.0, 0.1], abs=1.0)
    assert run.logs[-1].message == "landed"
    assert np.array_equal(samara.replay(run).tables["state"].rows, run.tables["state"].rows)


@pytest.mark.long
@pytest.mark.parametrize("rate", [250.0, 1000.0])
def test_px4_flies_the_mission_and_answers_every_packet(rate, links):
    require_flown(mission("px4", "SAMARA_PX4", rate=rate))
    link = links[0]
    assert link.missed == 0 and link.late <= 5  # the link does not wait while it boots
    assert link.answered > link.sent - 0.2 * rate  # but for its boot


@pytest.mark.long
def test_px4_flies_the_mission_with_the_exported_parameters_and_no_thrust_curve():
    """Its outputs are motor commands; it has their curve and hover from `samara vehicle export --px4`."""
    require_flown(mission("px4", "SAMARA_PX4", outputs="command"))


STEPS = """
name = "steps"
duration = 44.0
[[drones]]
name = "drone"
vehicle = "{vehicle}"
controller = "universal"
[[events]]
at = 0.0
do = "take_off"
height = 3.0
[[events]]
at = 32.0
do = "go_to"
p_W = [1, 0, 3]
speed = 1.0
[[events]]
at = 38.0
do = "follow"
task = {{ type = "figure8", centre = [1, 0, 3], half_length = 1.0, speed = 1.0 }}
"""


@pytest.mark.long
def test_px4_follows_the_reference_in_offboard():
    scenario = parse_scenario(STEPS.format(vehicle="iris"), "steps.toml")
    run = samara.fly(scenario, autopilot=Autopilot("px4", binary=binary("SAMARA_PX4"), mode="offboard"))
    assert run.problem == "" and "PX4 executes: offboard" in [line.message for line in run.logs]
    assert run.error[run.time > 25.0].max() < 0.5


@pytest.mark.long
@pytest.mark.parametrize("vehicle", ["iris", "crazyflie"])  # with rotors in PX4's order, and in another
def test_px4_flies_samaras_policy_as_samara_does(vehicle):
    """In `mc_raptor` with its filter, against a flight of the same policy along the same reference with the true state."""
    px4 = binary("SAMARA_PX4")
    if not (Path(px4).parent / "px4-mc_raptor").exists():
        pytest.skip("SAMARA_PX4 is built without mc_raptor; expected `make px4_sitl_raptor`, PX4 1.18 or later")
    scenario = parse_scenario(STEPS.format(vehicle=vehicle), "steps.toml")
    run = samara.fly(scenario, autopilot=Autopilot("px4", binary=px4, mode="raptor"))
    assert run.problem == "" and "PX4 executes: raptor" in [line.message for line in run.logs]
    samara_run = samara.fly(replace(scenario, rates=replace(scenario.rates, control=100.0)))
    is_flight = run.time > 25.0
    positions = [np.interp(run.time, samara_run.time, samara_run.position[:, k]) for k in range(3)]
    distance = np.linalg.norm(run.position - np.transpose(positions), axis=1)[is_flight]
    assert run.error[is_flight].max() < 0.25 and distance.max() < 0.25


@pytest.mark.long
def test_px4_is_killed_in_the_air_and_the_flight_ends_with_a_sentence(links):
    binary("SAMARA_PX4")  # skip before anything is started
    packets = 300  # 1.2 s of simulated time after its boot, at 250 Hz

    def kill():
        deadline = time.monotonic() + 300.0  # of a machine that hangs; the flight then ends without the sentence
        while not (links and links[0].armed and links[0].answered >= packets) and time.monotonic() < deadline:
            time.sleep(0.01)
        links[0].watch.process.running.send_signal(signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    run = mission("px4", "SAMARA_PX4")
    assert "PX4 closed the connection" in run.problem
    assert links[0].answered >= packets and run.time[-1] > (packets - 1) / 250.0


@pytest.mark.long
def test_px4_is_killed_on_the_ground_restarted_and_flies(links):
    """With `on_loss = "wait"` the process is restarted within seconds, and the flight continues."""
    binary("SAMARA_PX4")

    def kill():
        while not links or not getattr(links[0], "booted", False):
            time.sleep(0.01)
        links[0].watch.process.running.send_signal(signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    run = mission("px4", "SAMARA_PX4", on_loss="wait", duration=60.0)
    assert any("restarting it" in line.message for line in run.logs)
    require_flown(run)


@pytest.mark.long
def test_nothing_is_left_running_after_a_flight():
    mission("px4", "SAMARA_PX4", duration=2.0)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"{os.path.realpath(binary('SAMARA_PX4'))} -d -i 0" not in running


SWARM = """
name = "swarm"
duration = 50.0
[[drones]]
name = "drone"
vehicle = "iris"
count = 3
spacing = [4, 0, 0]
[[events]]
at = 0.0
do = "take_off"
height = 5.0
"""


@pytest.mark.long
def test_a_swarm_of_three_px4_takes_off(links):
    """Three processes in one lockstep: each answers every packet after its boot, and holds its position."""
    scenario = parse_scenario(SWARM, "swarm.toml")
    starts = [drone.task.evaluate(0.0).p_W for drone in scenario.drones]
    run = samara.fly(scenario, autopilot=Autopilot("px4", binary=binary("SAMARA_PX4")))
    assert run.problem == "" and [link.missed for link in links] == [0, 0, 0]
    for drone_record, start in zip(run.drone_records, starts, strict=True):
        assert drone_record.position[-1] == pytest.approx([start.x, start.y, 5.0], abs=0.8)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not any(f"{os.path.realpath(binary('SAMARA_PX4'))} -d -i {k}" in running for k in range(3))


@pytest.mark.long
def test_px4_comes_home_on_our_battery():
    run = fly_low_battery("px4", "SAMARA_PX4", 130.0)
    assert "PX4 reports: Critical battery" in [line.message for line in run.logs]


@pytest.mark.long
def test_arducopter_comes_home_on_our_battery():
    fly_low_battery("ardupilot", "SAMARA_ARDUCOPTER", 200.0)


@pytest.mark.long
def test_arducopter_flies_the_mission():
    require_flown(mission("ardupilot", "SAMARA_ARDUCOPTER", duration=100.0))
