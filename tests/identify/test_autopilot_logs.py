"""Logs of PX4 and ArduPilot, written byte for byte as their formats are published, and the expected signals."""

import gzip
import math
import re
import sys

import numpy as np
import pytest
from fuzz.flight_logs import PITCHED, PX4, PX4_ROWS, N, as_text, dataflash, flight_messages, ulog
from pymavlink.DFReader import DFReader_binary

from samara.core.algebra import Quat, Vec3, rotate
from samara.core.budget import Budget
from samara.core.extras import MissingExtraError, install_hint
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE
from samara.identify.readers import read_log
from samara.identify.readers.dataflash import _parse_binary

FORWARD = Vec3(1.0, 0.0, 0.0)


# PX4 -----------------------------------------------------------------------------------------------------------------


def test_a_log_of_px4(tmp_path):
    """FRD and NED become FLU and ENU; unused motors, which are NaN, are dropped; ESCs are sorted by their motors."""
    path = tmp_path / "flight.ulg"
    path.write_bytes(ulog({name: row for name, row in PX4_ROWS.items() if name != "actuator_outputs"}))
    (log,) = read_log(path)
    assert (log.name, log.format, log.numbering, log.truth, log.notes) == ("flight", "px4", "px4", ESTIMATE, ())
    assert log.start == pytest.approx(1.998)
    assert log.command.time == pytest.approx(0.002 + 0.004 * np.arange(N), abs=1e-9)
    assert log.command.values[:, 3] == pytest.approx([0.25, 0.5, 1.0])
    assert log.attitude.time == pytest.approx(0.001 + 0.004 * np.arange(N), abs=1e-9)
    assert log.rate.time == pytest.approx(0.004 * np.arange(N), abs=1e-9)  # means over 4 ms belong to their middle
    nose = rotate(Quat(*log.attitude.values[:, 0]), FORWARD)
    assert nose == pytest.approx((math.cos(0.2), 0.0, math.sin(0.2)), abs=1e-7)
    assert log.position.values[:, 0] == pytest.approx([2.0, 1.0, 3.0])
    assert log.velocity.values[:, 0] == pytest.approx([0.2, 0.1, 0.3])
    assert log.rate.values[:, 0] == pytest.approx([0.1, -0.2, -0.3])
    assert log.specific_force.values[:, 0] == pytest.approx([0.5, -0.6, 9.8])
    assert log.voltage.values[0] == pytest.approx(np.full(N, 15.5))
    assert log.rotor_speed.values[:, 0] == pytest.approx(np.array([2000, 1000, 3000]) * math.pi / 30.0)


def test_rates_that_px4_has_filtered_are_as_much_earlier(tmp_path):
    """A second-order low pass at f delays slow signals by √2/(2π f): 5.6 ms at 40 Hz, unless its parameter differs."""
    rows = {name: PX4_ROWS[name] for name in ("actuator_motors", "vehicle_angular_velocity")}
    path = tmp_path / "flight.ulg.gz"
    for parameters, delay in (
        ((), 5.627e-3),
        ([("IMU_GYRO_CUTOFF", 80.0)], 2.813e-3),
        ([("IMU_GYRO_CUTOFF", 0.0)], 0.0),
    ):
        path.write_bytes(gzip.compress(ulog(rows, parameters)))
        (log,) = read_log(path)
        assert log.name == "flight" and log.rate.values[:, 0] == pytest.approx([0.1, -0.2, -0.4])
        assert log.command.time[0] - log.rate.time[0] == pytest.approx(1e-3 + delay, abs=1e-6)
        assert log.specific_force is None


def test_rotor_speeds_that_px4s_simulator_invents_are_none(tmp_path):
    """It reports 6000 rpm times the output, and a temperature proportional to it."""
    path = tmp_path / "flight.ulg"
    report = ("int32_t esc_rpm;float esc_temperature", "")
    topics = PX4 | {"esc_report": report, "esc_status": ("uint64_t timestamp;esc_report[4] esc", "<Q" + "if" * 4)}
    motors = {"actuator_motors": PX4_ROWS["actuator_motors"]}
    for temperature, is_used in ((lambda rpm: 20.0 + rpm / 150.0, False), (lambda rpm: 35.0, True)):
        report_values = [number for rpm in (1500, 3000, 6000, 0) for number in (rpm, temperature(rpm))]
        path.write_bytes(ulog(motors | {"esc_status": report_values}, topics=topics))
        (log,) = read_log(path)
        assert (log.rotor_speed is not None) is is_used
        assert any("made up by PX4's simulator" in note for note in log.notes) is not is_used


def test_px4s_thrust_model_is_undone(tmp_path):
    """`actuator_motors` holds thrusts; the ESC command is u with f u² + (1 − f) u = T."""
    path = tmp_path / "flight.ulg"
    path.write_bytes(
        ulog({name: PX4_ROWS[name] for name in ("actuator_motors", "vehicle_attitude")}, [("THR_MDL_FAC", 0.3)])
    )
    u = read_log(path)[0].command.values[:, 0]
    assert 0.3 * u**2 + 0.7 * u == pytest.approx([0.25, 0.5, 1.0], rel=1e-6)


def test_motion_capture_that_px4_was_sent_and_pulses(tmp_path):
    """Motion capture takes precedence over the estimate; without `actuator_motors` every varying output is a motor."""
    rows = {name: PX4_ROWS[name] for name in ("actuator_outputs", "vehicle_attitude", "vehicle_local_position")}
    rows["vehicle_mocap_odometry"] = (1, 7.0, 8.0, -9.0, *PITCHED, 1, 0.4, 0.5, -0.6)
    path = tmp_path / "flight.ulg"
    path.write_bytes(ulog(rows, changing={("actuator_outputs", 1), ("actuator_outputs", 2)}))
    (log,) = read_log(path)
    assert log.truth == MOTION_CAPTURE
    assert log.position.values[:, 0] == pytest.approx([8.0, 7.0, 9.0])
    assert log.velocity.values[:, 0] == pytest.approx([0.5, 0.4, 0.6])
    assert log.command.values[:, :2] == pytest.approx(np.array([[0.0, 0.1], [0.25, 0.35]]))
    assert "the outputs that vary are used" in log.notes[0]


def test_logs_of_px4_that_are_damaged(tmp_path, capsys):
    """A truncated log is read up to there; without motors or contents it is rejected in one sentence; nothing is printed."""
    path = tmp_path / "flight.ulg"
    complete = ulog({name: PX4_ROWS[name] for name in ("actuator_motors", "vehicle_attitude")})
    path.write_bytes(complete[:-10])
    assert len(read_log(path)[0].attitude.time) == N - 1
    for data, message in (
        (
            ulog({"vehicle_attitude": PX4_ROWS["vehicle_attitude"]}),
            "flight.ulg: holds no motors; expected the topic actuator_motors",
        ),
        (complete[:300], "flight.ulg: holds no motors"),
        (complete[:10], "flight.ulg: .*; expected"),
        (complete[:16] + bytes(range(256)) * 20, "flight.ulg: .*; expected"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_log(path)
        assert "\n" not in str(error.value)
    assert capsys.readouterr() == ("", "")


def test_without_pyulog_it_is_said_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "flight"
    monkeypatch.setitem(sys.modules, "pyulog", None)
    path.write_bytes(b"ULog\x01\x12\x35")
    with pytest.raises(MissingExtraError, match=re.escape(install_hint("logs"))):
        read_log(path)


# ArduPilot -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [dataflash, as_text])
def test_a_log_of_ardupilot(tmp_path, written):
    """Motors are the outputs 1, 2, 5 and 6, as its parameters say; of two cores and two IMUs the first is used."""
    path = tmp_path / "00000001.BIN"
    path.write_bytes(written(flight_messages()))
    (log,) = read_log(path)
    assert (log.name, log.format, log.numbering, log.truth) == ("00000001", "ardupilot", "ardupilot", ESTIMATE)
    delay = math.sqrt(2.0) / (2.0 * math.pi * 20.0)  # Butterworth's low pass of second order, at ArduPilot's 20 Hz
    assert log.start == pytest.approx(5.0 - delay)
    assert log.command.time == pytest.approx(delay + 0.0025 * np.arange(N), abs=1e-9)
    assert log.command.values[:, 0] == pytest.approx([0.0, 0.25, 0.5, 1.0])
    assert log.rotor_speed.values[:, 5] == pytest.approx(np.array([1000, 2000, 5000, 6000]) * math.pi / 30.0)
    assert log.position.values[:, 0] == pytest.approx([2.0, 1.0, 3.0])
    assert log.velocity.values[:, 0] == pytest.approx([0.2, 0.1, 0.3])
    assert rotate(Quat(*log.attitude.values[:, 0]), FORWARD) == pytest.approx(
        (math.cos(0.2), 0, math.sin(0.2)), abs=1e-6
    )
    assert log.rate.values[:, 0] == pytest.approx([0.1, -0.2, -0.3])
    assert log.specific_force.values[:, 0] == pytest.approx([0.5, -0.6, 9.8])
    assert log.voltage.values[0, 0] == pytest.approx(16.2)
    assert all(len(log_signal.time) == N for log_signal in (log.position, log.attitude, log.rate))


def test_pymavlink_reads_the_same(tmp_path):
    """ArduPilot's reader finds the same values in the file: pulses, rates, quaternions, latitudes."""
    path = tmp_path / "log.bin"
    path.write_bytes(dataflash(flight_messages(("XKQ", "IMU", "GPS"))))
    messages, skipped = _parse_binary(path.read_bytes(), Budget(path))
    index = DFReader_binary(str(path))
    for message_type in ("RCOU", "XKQ", "IMU", "GPS", "PARM"):
        index.rewind()
        reference = []
        while (message := index.recv_match(type=message_type)) is not None:
            reference.append(message.to_dict())
        for name, values in messages[message_type].columns.items():
            expected = [message_fields[name] for message_fields in reference]
            assert (
                [v.decode() for v in values] == expected
                if name == "Name"
                else values == pytest.approx(expected, rel=1e-12)
            )
    index.close()
    assert skipped == 0


def test_raw_rates_of_ardupilot_go_before_filtered_ones(tmp_path):
    messages = flight_messages(("IMU",))
    for k in range(N):
        t = 5_000_000 + 2500 * k
        messages += [("GYR", (t + 300, 0, t, 1.0, 2.0, 3.0)), ("ACC", (t + 300, 0, t, 4.0, 5.0, 6.0))]
    path = tmp_path / "log.bin.gz"
    path.write_bytes(gzip.compress(dataflash(messages)))
    (log,) = read_log(path)
    assert log.name == "log" and log.start == pytest.approx(5.0)
    assert log.rate.time == pytest.approx(0.0025 * np.arange(N), abs=1e-9)
    assert log.rate.values[:, 0] == pytest.approx([1.0, -2.0, -3.0])
    assert log.specific_force.values[:, 0] == pytest.approx([4.0, -5.0, -6.0])


def mixed_messages(differing=0.0):
    """Return two seconds of RATE at 400 Hz with RCOU at 10 Hz, and the motor outputs FR, RL, FL, RR.

    A roll to the right needs more thrust on the left, a nose-up pitch more in front, a yaw to the right more of the rotors that
    turn to the left; a thrust T needs 0.15 + 0.8 u with 0.35 u + 0.65 u² = T, and 5 % more in thin air.
    """
    time = 0.0025 * np.arange(800)
    roll, pitch, yaw = 0.1 * np.sin(9.0 * time), 0.08 * np.cos(7.0 * time), 0.05 * np.sin(4.0 * time)
    up = 0.3 + 0.05 * np.sin(2.0 * time)
    signs = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1]])
    thrust = 1.05 * (up + 0.5 * signs @ np.stack([roll, pitch, yaw]))
    u = np.stack([[max(np.roots([0.65, 0.35, -value])) for value in row] for row in thrust])
    outputs = 0.15 + 0.8 * u
    numbers = {"FRAME_CLASS": 1, "FRAME_TYPE": 1, "MOT_THST_EXPO": 0.65, "MOT_SPIN_MIN": 0.15, "MOT_SPIN_MAX": 0.95}
    messages = [("PARM", (1000, name, value, value)) for name, value in numbers.items()]
    for k, t in enumerate(time):
        stamp = 5_000_000 + round(1e6 * t)
        messages.append(("RATE", (stamp, roll[k], pitch[k], yaw[k], up[k])))
        if k % 40 == 39:
            pulses = [round(1000 + 1000 * (output[k] + differing * (-1) ** i)) for i, output in enumerate(outputs)]
            messages.append(("RCOU", (stamp + 200, *pulses, 0, 0)))
    return messages, outputs


def test_motors_that_ardupilot_logs_rarely_are_mixed_of_what_it_logs_often(tmp_path):
    path = tmp_path / "log.bin"
    messages, outputs = mixed_messages()
    path.write_bytes(dataflash(messages))
    (log,) = read_log(path)
    assert log.command.time == pytest.approx(0.0025 * np.arange(800), abs=1e-6)
    assert np.abs(log.command.values - outputs).max() < 2e-3
    assert "computed from RATE as the mixer does" in log.notes[0]


@pytest.mark.parametrize("reason", ["the motors say otherwise", "another frame", "no RATE"])
def test_motors_that_cannot_be_mixed_stay_rare(tmp_path, reason):
    messages, _ = mixed_messages(differing=0.1 if reason == "the motors say otherwise" else 0.0)
    if reason == "another frame":
        messages.append(("PARM", (2000, "FRAME_TYPE", 0, 1)))
    if reason == "no RATE":
        messages = [message for message in messages if message[0] != "RATE"]
    path = tmp_path / "log.bin"
    path.write_bytes(dataflash(messages))
    (log,) = read_log(path)
    assert len(log.command.time) == 20 and "set fast attitude in LOG_BITMASK" in log.notes[0]


def test_gps_and_angles_where_there_is_no_estimate(tmp_path):
    """A millionth of a degree of latitude is 0.111 m; a course of 90° is east; the angles are those of the quaternion."""
    path = tmp_path / "log.bin"
    path.write_bytes(dataflash(flight_messages(("ATT", "GPS", "IMU"))))
    (log,) = read_log(path)
    assert np.diff(log.position.values[1]) == pytest.approx(np.full(N - 1, 0.11117), rel=0.1)
    assert log.velocity.values[:, 0] == pytest.approx([2.0, 0.0, 1.0], abs=1e-12)
    assert rotate(Quat(*log.attitude.values[:, 0]), FORWARD) == pytest.approx(
        (math.cos(0.2), 0, math.sin(0.2)), abs=1e-4
    )


def test_logs_of_ardupilot_that_are_damaged(tmp_path, capsys):
    path = tmp_path / "log.bin"
    complete = dataflash(flight_messages())
    path.write_bytes(complete[:-5])
    assert len(read_log(path)[0].command.time) == N
    holed = bytearray(complete)
    holed[len(complete) // 2 : len(complete) // 2 + 40] = bytes(40)
    path.write_bytes(holed)
    assert N - 2 <= len(read_log(path)[0].command.time) <= N
    for data, message in (
        (dataflash([]), "log.bin: holds no motors; expected messages RCOU with C1, C2, C3, C4"),
        (complete[:50], "log.bin: .*; expected"),
        (b"\xa3\x95\x80", "log.bin: .*; expected"),
        (as_text([])[:60], "log.bin: .*; expected"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_log(path)
        assert "\n" not in str(error.value)
    assert capsys.readouterr() == ("", "")
