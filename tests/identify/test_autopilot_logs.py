"""Logs of PX4 and ArduPilot, written here byte for byte as their formats are published."""

import math
import struct

import numpy as np
import pytest

from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.core.extras import MissingExtraError
from samara.identify.log import ESTIMATE, MOTION_CAPTURE
from samara.identify.readers import read_log

N = 40
FORWARD = Vec3(1.0, 0.0, 0.0)
PITCHED = quat_from_euler(0.0, 0.2, math.pi / 2)  # FRD to NED: heading east, nose up


# PX4 -----------------------------------------------------------------------------------------------------------------

PX4 = {
    "actuator_motors": (
        "uint64_t timestamp;uint64_t timestamp_sample;uint16_t reversible_flags;float[12] control",
        "<QQH12f",
    ),
    "vehicle_attitude": ("uint64_t timestamp;uint64_t timestamp_sample;float[4] q;float[4] delta_q_reset", "<QQ8f"),
    "vehicle_local_position": (
        "uint64_t timestamp;uint64_t timestamp_sample;float x;float y;float z;float vx;float vy;float vz",
        "<QQ6f",
    ),
    "vehicle_angular_velocity": ("uint64_t timestamp;uint64_t timestamp_sample;float[3] xyz", "<QQ3f"),
    "sensor_combined": ("uint64_t timestamp;float[3] gyro_rad;float[3] accelerometer_m_s2", "<Q6f"),
    "battery_status": ("uint64_t timestamp;bool connected;float voltage_v", "<Q?f"),
    "esc_report": ("int32_t esc_rpm;uint8_t actuator_function", ""),
    "esc_status": ("uint64_t timestamp;esc_report[4] esc", "<Q" + "iB" * 4),
    "vehicle_mocap_odometry": (
        "uint64_t timestamp;uint64_t timestamp_sample;uint8_t pose_frame;float[3] position;float[4] q;"
        "uint8_t velocity_frame;float[3] velocity",
        "<QQB7fB3f",
    ),
    "actuator_outputs": ("uint64_t timestamp;uint32_t noutputs;float[16] output", "<QI16f"),
}
NAN = math.nan
PX4_ROWS = {
    "actuator_motors": (0, 0.25, 0.5, 1.0, NAN, *[NAN] * 8),
    "vehicle_attitude": (*PITCHED, 0, 0, 0, 0),
    "vehicle_local_position": (1.0, 2.0, -3.0, 0.1, 0.2, -0.3),
    "vehicle_angular_velocity": (0.1, 0.2, 0.3),
    "sensor_combined": (9, 9, 9, 0.5, 0.6, -9.8),
    "battery_status": (True, 15.5),
    "esc_status": (1000, 102, 2000, 101, 3000, 103, 4000, 104),
    "actuator_outputs": (5, 1000, 1250, 1500, 2000, 900, *[0] * 11),
}


def message(kind, data):
    return struct.pack("<HB", len(data), ord(kind)) + data


def ulog(rows, parameters=(), changing=()):
    """A ULog file: N messages of each topic, 4 ms apart from 2 s on, sampled 1 ms before they are said."""
    file = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 2_000_000) + message("B", bytes(40))
    for name, (fields, _) in PX4.items():
        file += message("F", f"{name}:{fields};".encode())
    for name, value in parameters:
        key = f"float {name}".encode()
        file += message("P", bytes([len(key)]) + key + struct.pack("<f", value))
    for number, name in enumerate(rows):
        file += message("A", struct.pack("<BH", 0, number) + name.encode())
    for k in range(N):
        for number, (name, values) in enumerate(rows.items()):
            said = 2_000_000 + 4000 * k
            times = (said, said - 1000) if "timestamp_sample" in PX4[name][0] else (said,)
            values = [v + 100 * (k % 2) if (name, i) in changing else v for i, v in enumerate(values)]
            file += message("D", struct.pack("<H", number) + struct.pack(PX4[name][1], *times, *values))
    return file


def test_a_log_of_px4(tmp_path):
    """FRD and NED become FLU and ENU; unused motors, which are NaN, are none; ESCs are put in the order of their motors."""
    path = tmp_path / "flight.ulg"
    path.write_bytes(ulog({name: own for name, own in PX4_ROWS.items() if name != "actuator_outputs"}))
    (log,) = read_log(path)
    assert (log.name, log.format, log.numbering, log.truth, log.notes) == ("flight", "px4", "px4", ESTIMATE, ())
    assert log.start == pytest.approx(1.999)
    assert log.command.time == pytest.approx(0.001 + 0.004 * np.arange(N), abs=1e-9)
    assert log.command.values[:, 3] == pytest.approx([0.25, 0.5, 1.0])
    assert log.attitude.time == pytest.approx(0.004 * np.arange(N), abs=1e-9)
    nose = rotate(Quat(*log.attitude.values[:, 0]), FORWARD)
    assert nose == pytest.approx((math.cos(0.2), 0.0, math.sin(0.2)), abs=1e-7)
    assert log.position.values[:, 0] == pytest.approx([2.0, 1.0, 3.0])
    assert log.velocity.values[:, 0] == pytest.approx([0.2, 0.1, 0.3])
    assert log.rate.values[:, 0] == pytest.approx([0.1, -0.2, -0.3])
    assert log.specific_force.values[:, 0] == pytest.approx([0.5, -0.6, 9.8])
    assert log.voltage.values[0] == pytest.approx(np.full(N, 15.5))
    assert log.rotor_speed.values[:, 0] == pytest.approx(np.array([2000, 1000, 3000]) * math.pi / 30.0)


def test_px4s_thrust_model_is_undone(tmp_path):
    """`actuator_motors` holds thrusts; the ESC is told u with f u² + (1 − f) u = T."""
    path = tmp_path / "flight.ulg"
    path.write_bytes(
        ulog({name: PX4_ROWS[name] for name in ("actuator_motors", "vehicle_attitude")}, [("THR_MDL_FAC", 0.3)])
    )
    u = read_log(path)[0].command.values[:, 0]
    assert 0.3 * u**2 + 0.7 * u == pytest.approx([0.25, 0.5, 1.0], rel=1e-6)


def test_motion_capture_that_px4_was_sent_and_pulses(tmp_path):
    """Motion capture goes before the estimate; without `actuator_motors` every output that moves is a motor."""
    rows = {name: PX4_ROWS[name] for name in ("actuator_outputs", "vehicle_attitude", "vehicle_local_position")}
    rows["vehicle_mocap_odometry"] = (1, 7.0, 8.0, -9.0, *PITCHED, 1, 0.4, 0.5, -0.6)
    path = tmp_path / "flight.ulg"
    path.write_bytes(ulog(rows, changing={("actuator_outputs", 1), ("actuator_outputs", 2)}))
    (log,) = read_log(path)
    assert log.truth == MOTION_CAPTURE
    assert log.position.values[:, 0] == pytest.approx([8.0, 7.0, 9.0])
    assert log.velocity.values[:, 0] == pytest.approx([0.5, 0.4, 0.6])
    assert log.command.values[:, :2] == pytest.approx(np.array([[0.0, 0.1], [0.25, 0.35]]))
    assert "every output that moves" in log.notes[0]


def test_logs_of_px4_that_are_damaged(tmp_path, capsys):
    """Cut, it is read up to there; without motors, or with nothing in it, it is refused in one sentence; nothing is printed."""
    path = tmp_path / "flight.ulg"
    whole = ulog({name: PX4_ROWS[name] for name in ("actuator_motors", "vehicle_attitude")})
    path.write_bytes(whole[:-10])
    assert len(read_log(path)[0].attitude.time) == N - 1
    for data, message in (
        (
            ulog({"vehicle_attitude": PX4_ROWS["vehicle_attitude"]}),
            "flight.ulg: holds no motors; expected the topic actuator_motors",
        ),
        (whole[:300], "flight.ulg: holds no motors"),
        (whole[:10], "flight.ulg: .*; expected"),
        (whole[:16] + bytes(range(256)) * 20, "flight.ulg: .*; expected"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_log(path)
        assert "\n" not in str(error.value)
    assert capsys.readouterr() == ("", "")


def test_without_the_packages_a_log_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "flight"
    for module, data in (("pyulog", b"ULog\x01\x12\x35"), ("pymavlink", b"\xa3\x95\x80")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        path.write_bytes(data)
        with pytest.raises(MissingExtraError, match=r"pip install 'samara\[logs\]'"):
            read_log(path)


# ArduPilot -----------------------------------------------------------------------------------------------------------

FMT = ("BBnNZ", "Type,Length,Name,Format,Columns")
DATAFLASH = {
    "PARM": ("QNff", "TimeUS,Name,Value,Default"),
    "RCOU": ("QHHHHHH", "TimeUS,C1,C2,C3,C4,C5,C6"),
    "ESC": ("QBf", "TimeUS,Instance,RPM"),
    "XKF1": ("QBccCfffffff", "TimeUS,C,Roll,Pitch,Yaw,VN,VE,VD,dPD,PN,PE,PD"),
    "XKQ": ("QBffff", "TimeUS,C,Q1,Q2,Q3,Q4"),
    "ATT": ("Qccc", "TimeUS,Roll,Pitch,Yaw"),
    "IMU": ("QBffffff", "TimeUS,I,GyrX,GyrY,GyrZ,AccX,AccY,AccZ"),
    "GPS": ("QBBLLefff", "TimeUS,I,Status,Lat,Lng,Alt,Spd,GCrs,VZ"),
    "BAT": ("QBf", "TimeUS,Inst,Volt"),
}
PACK = {
    "B": "B",
    "n": "4s",
    "N": "16s",
    "Z": "64s",
    "Q": "Q",
    "H": "H",
    "f": "f",
    "c": "h",
    "C": "H",
    "L": "i",
    "e": "i",
}
UNIT = {"c": 100, "C": 100, "e": 100, "L": 10_000_000}
PARAMETERS = {
    "MOT_PWM_MIN": 1100,
    "MOT_PWM_MAX": 1900,
    "SERVO1_FUNCTION": 33,
    "SERVO2_FUNCTION": 34,
    "SERVO5_FUNCTION": 35,
}
PARAMETERS |= {"SERVO6_FUNCTION": 36, "SERVO3_FUNCTION": 0, "SERVO4_FUNCTION": 0}


def flight_messages(kinds=("ESC", "XKF1", "XKQ", "IMU", "BAT")):
    """(kind, values) as they are meant, in the order of time"""
    found = [("PARM", (1000, name, value, value)) for name, value in PARAMETERS.items()]
    for k in range(N):
        t = 5_000_000 + 2500 * k
        found.append(("RCOU", (t, 1100, 1300, 0, 0, 1500, 1900)))
        own = {
            "ESC": [(t, channel, 1000.0 * (channel + 1)) for channel in (0, 1, 4, 5)],
            "XKF1": [(t, core, 1, 2, 3, 0.1, 0.2, -0.3, 0, 1.0 + core, 2.0, -3.0) for core in (0, 1)],
            "XKQ": [(t, core, *(PITCHED if core == 0 else (1, 0, 0, 0))) for core in (0, 1)],
            "ATT": [(t, 0, math.degrees(0.2), 90)],
            "IMU": [(t, unit, 0.1 + unit, 0.2, 0.3, 0.5, 0.6, -9.8) for unit in (0, 1)],
            "GPS": [(t, 0, 3, 47.0 + 1e-6 * k, 8.0, 500.0, 2.0, 90.0, -1.0)],
            "BAT": [(t, 0, 16.2)],
        }
        found += [(kind, values) for kind in kinds for values in own[kind]]
    return found


def packed(kind, number, layout, values):
    numbers = [
        v.encode() if isinstance(v, str) else round(v * UNIT[letter]) if letter in UNIT else v
        for letter, v in zip(layout, values, strict=True)
    ]
    return b"\xa3\x95" + bytes([number]) + struct.pack("<" + "".join(PACK[letter] for letter in layout), *numbers)


def dataflash(messages):
    numbers = {kind: 129 + i for i, kind in enumerate(DATAFLASH)}
    file = packed("FMT", 128, FMT[0], (128, 89, "FMT", *FMT))
    for kind, (layout, columns) in DATAFLASH.items():
        length = 3 + struct.calcsize("<" + "".join(PACK[letter] for letter in layout))
        file += packed("FMT", 128, FMT[0], (numbers[kind], length, kind, layout, columns))
    return file + b"".join(packed(kind, numbers[kind], DATAFLASH[kind][0], values) for kind, values in messages)


def as_text(messages):
    lines = [f"FMT, 128, 89, FMT, {FMT[0]}, {FMT[1]}"]
    lines += [f"FMT, {129 + i}, 89, {kind}, {own[0]}, {own[1]}" for i, (kind, own) in enumerate(DATAFLASH.items())]
    lines += [", ".join([kind, *map(str, values)]) for kind, values in messages]
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("written", [dataflash, as_text])
def test_a_log_of_ardupilot(tmp_path, written):
    """Motors are the outputs 1, 2, 5 and 6, as its parameters say; of two cores and two IMUs the first is taken."""
    path = tmp_path / "00000001.BIN"
    path.write_bytes(written(flight_messages()))
    (log,) = read_log(path)
    assert (log.name, log.format, log.numbering, log.truth) == ("00000001", "ardupilot", "ardupilot", ESTIMATE)
    assert log.start == pytest.approx(5.0)
    assert log.command.time == pytest.approx(0.0025 * np.arange(N), abs=1e-9)
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
    assert all(len(own.time) == N for own in (log.position, log.attitude, log.rate))


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
    whole = dataflash(flight_messages())
    path.write_bytes(whole[:-5])
    assert len(read_log(path)[0].command.time) == N
    holed = bytearray(whole)
    holed[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    path.write_bytes(holed)
    assert N - 2 <= len(read_log(path)[0].command.time) <= N
    for data, message in (
        (dataflash([]), "log.bin: holds no motors; expected messages RCOU with C1, C2, C3, C4"),
        (whole[:50], "log.bin: .*; expected"),
        (b"\xa3\x95\x80", "log.bin: .*; expected"),
        (as_text([])[:60], "log.bin: .*; expected"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_log(path)
        assert "\n" not in str(error.value)
    assert capsys.readouterr() == ("", "")
