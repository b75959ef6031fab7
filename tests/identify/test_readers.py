"""Logs of every format are converted to one representation: files written here by hand, byte for byte, give known signals."""

import gzip
import math

import numpy as np
import pytest
from fuzz.flight_logs import FIXED, TIME, N, card
from support.repository import TESTS

from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE
from samara.identify.readers import FORMATS, format_table, read_log
from samara.identify.readers.registry import MAX_FILE_BYTES
from samara.record.load import load_run

# The Crazyflie's µSD card ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_the_crazyflies_card_is_read_in_si(tmp_path, version):
    """g, °/s and 65535ths become m/s², rad/s and fractions; each event type has its own times; the clock began at 30 s."""
    path = tmp_path / "log00"
    path.write_bytes(card(version))
    (log,) = read_log(path)
    assert (log.name, log.format, log.numbering, log.truth, log.notes) == (
        "log00",
        "crazyflie",
        "crazyflie",
        ESTIMATE,
        (),
    )
    assert log.start == pytest.approx(30.0, abs=1e-9)
    assert log.command.time == pytest.approx(TIME, abs=1e-9)
    assert log.command.values[:, 5] == pytest.approx([1.0, 0.0, 32768 / 65535, 5 / 65535], rel=1e-15)
    assert log.specific_force.values[:, 0] == pytest.approx([0.980665, 1.96133, 9.80665], rel=1e-7)
    assert log.rate.values[:, 0] == pytest.approx([math.pi / 2, 0.0, -math.pi], rel=1e-7)
    assert log.position.time == pytest.approx(TIME[::10], abs=1e-9)
    assert log.attitude.values[:, 0] == pytest.approx([0.6, 0.0, 0.0, 0.8], rel=1e-7)
    assert log.voltage.values == pytest.approx(np.full((1, 4), 3.7), rel=1e-7)
    assert log.velocity is None and log.rotor_speed is None


def test_a_card_that_is_cut_or_changed_says_so(tmp_path):
    """Truncated in its records it is read up to there; truncated in its head, or without motors, it is rejected."""
    path, complete = tmp_path / "log00", card()
    path.write_bytes(complete[:-30])
    (log,) = read_log(path)
    assert "ends within a record" in log.notes[0] and len(log.command.time) == N - 1
    path.write_bytes(card(checked=False))
    assert "checksum" in read_log(path)[0].notes[0]
    for data, message in (
        (complete[:40], "log00: its head cannot be decoded"),
        (complete[:5], "log00: its head cannot be decoded"),
        (complete.replace(b"acc.x(f)", b"acc.x(s)"), r"a variable 'acc.x\(s\)', not name\(type\)"),
        (card(fixed=FIXED[:6]), "log00: holds no motors"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_log(path)
        assert "\n" not in str(error.value)


def test_the_crazyflies_csv_has_the_same_names(tmp_path):
    """`motor_m1` or `motor.m1`, time in ms; without a quaternion its angles in degrees, pitch nose up, are the attitude."""
    names = "timestamp,motor.m1,motor.m2,motor.m3,motor.m4,gyro.x,gyro.y,gyro.z"
    names += ",stateEstimate.roll,stateEstimate.pitch,stateEstimate.yaw"
    rows = "\n".join(f"{1000 + 10 * k},65535,0,0,0,180,0,0,10,-20,30" for k in range(5))
    for text in (names, names.replace(".", "_")):
        path = tmp_path / "flight.csv"
        path.write_text(f"{text}\n{rows}\n")
        (log,) = read_log(path)
        assert log.format == "crazyflie_csv"
        assert log.command.time == pytest.approx(0.01 * np.arange(5), abs=1e-12)
        assert log.rate.values[0] == pytest.approx(np.full(5, math.pi))
        angles = (math.radians(10.0), math.radians(20.0), math.radians(30.0))
        assert log.attitude.values[:, 0] == pytest.approx(np.array(quat_from_euler(*angles)), rel=1e-14)


def test_the_published_logs_of_a_crazyflie(shared_folder):
    """Three logs of 1 kHz; their checksums hold; standing on the table the accelerometer reads g."""
    folder = shared_folder / "data" / "arpl_crazyflie"
    if not folder.is_dir():
        pytest.skip("no Crazyflie logs in the shared folder")
    for name, samples, start in (("log10", 50496, 26.333702), ("log16", 47182, 16.895788)):
        (log,) = read_log(folder / name)
        assert log.notes == () and log.command.values.shape == (4, samples)
        assert log.start == pytest.approx(start, abs=1e-9)
        assert np.linalg.norm(log.specific_force.values[:, :500].mean(axis=1)) == pytest.approx(9.81, abs=0.1)


# NanoBench -------------------------------------------------------------------------------------------------------------


def test_a_flight_of_nanobench_as_it_is(tmp_path):
    """Its quaternion is relative to the level attitude at rest; a PWM beyond the maximum is retained for the log check."""
    heading = "t,px,py,pz,vx,vy,vz,qw,qx,qy,qz,wx_vicon,wy_vicon,wz_vicon,motor_motor_m1,motor_motor_m2,motor_motor_m3"
    heading += ",motor_motor_m4,pwr_pm_vbat,imu_acc_x,imu_acc_y,imu_acc_z,imu_gyro_x,imu_gyro_y,imu_gyro_z"
    q = quat_from_euler(0.03, -0.04, 0.4)
    row = ",".join(f"{x:.17g}" for x in (1, 2, 3, 0, 0, 0, *q, 9, 9, 9, 70000, 2, 3, 4, 3.9, 0, 0, 1, 0.1, 0.2, 0.3))
    path = tmp_path / "flight.csv.gz"
    path.write_bytes(gzip.compress("\n".join([heading, *(f"{5 + 0.01 * k},{row}" for k in range(80))]).encode()))
    (log,) = read_log(path)
    assert (log.format, log.numbering, log.truth) == ("nanobench", "crazyflie", MOTION_CAPTURE)
    assert rotate(Quat(*log.attitude.values[:, 0]), Vec3(0.0, 0.0, 1.0)) == pytest.approx((0.0, 0.0, 1.0), abs=1e-12)
    assert log.command.values[0, 0] == pytest.approx(70000 / 65535)
    turned_W = rotate(Quat(*log.attitude.values[:, 0]), Vec3(*log.rate.values[:, 0]))
    assert turned_W == pytest.approx(rotate(q, Vec3(9.0, 9.0, 9.0)), abs=1e-12)  # motion capture's, in whichever axes
    assert log.specific_force.values[2, 0] == pytest.approx(9.80665)


# CSV with a map --------------------------------------------------------------------------------------------------------

MAP = {
    **{"time": "t", "time_unit": "ms", "motors": ["a", "b", "c", "d"], "motor_range": [1000, 2000], "numbering": "px4"},
    **{"attitude": ["qx", "qy", "qz", "qw"], "quaternion": "xyzw", "axes": "frd/ned", "position": ["n", "e", "d_"]},
    **{"rate": ["p", "q", "r"], "rate_unit": "deg/s", "specific_force": ["ax", "ay", "az"], "specific_force_unit": "g"},
}
MAPPED = "t,a,b,c,d,qx,qy,qz,qw,n,e,d_,p,q,r,ax,ay,az,ignored\n"


def test_any_csv_is_read_by_a_map_of_its_columns(tmp_path):
    """FRD and NED are converted, units become SI; level and north is a quarter turn from east; slow columns differ in time."""
    path = tmp_path / "own.csv"
    rows = [
        f"{10 * k},1000,1500,2000,1250,0,0,0,1,{'1,2,-3' if k % 5 == 0 else ',,'},90,0,180,0,0,-1,x\n"
        for k in range(20)
    ]
    path.write_text(MAPPED + "".join(rows))
    (tmp_path / "map.toml").write_text("\n".join(f"{key} = {value!r}" for key, value in MAP.items()))
    for columns in (MAP, tmp_path / "map.toml"):
        (log,) = read_log(path, columns)
        assert (log.format, log.numbering, log.truth) == ("csv", "px4", MOTION_CAPTURE)
        assert log.command.values[:, 3] == pytest.approx([0.0, 0.5, 1.0, 0.25])
        assert log.command.time == pytest.approx(0.01 * np.arange(20))
        assert log.position.time == pytest.approx(0.05 * np.arange(4))
        assert log.position.values[:, 0] == pytest.approx([2.0, 1.0, 3.0])
        assert rotate(Quat(*log.attitude.values[:, 0]), Vec3(1.0, 0.0, 0.0)) == pytest.approx(
            (0.0, 1.0, 0.0), abs=1e-15
        )
        assert log.rate.values[:, 0] == pytest.approx([math.pi / 2, 0.0, -math.pi])
        assert log.specific_force.values[:, 0] == pytest.approx([0.0, 0.0, 9.80665])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"motors": None}, "columns: motors is missing: expected a list of columns"),
        ({"motors": ["a", "zz"]}, r"own.csv: has no column 'zz'; expected the columns that the map names"),
        ({"position": ["n", "e"]}, r"columns: position = \['n', 'e'\]: expected a list of 3 columns"),
        ({"rate_unit": "rpm"}, "columns: rate_unit = 'rpm': expected one of rad/s, deg/s"),
        ({"motor_range": [1, 1]}, "motor_range = .*: expected two different numbers"),
        ({"moters": ["a"]}, "columns: moters = .*: expected only the keys motors, time"),
        ({"numbering": "mine"}, "numbering = 'mine': expected one of samara, px4"),
    ],
)
def test_a_map_that_is_wrong_is_refused(tmp_path, changed, message):
    path = tmp_path / "own.csv"
    path.write_text(MAPPED)
    with pytest.raises(ValueError, match=message):
        read_log(path, {key: value for key, value in (MAP | changed).items() if value is not None})


# Samara recordings -------------------------------------------------------------------------------------------------------


def test_a_recording_is_a_log_of_each_drone():
    """The state serves as motion capture, the IMU is as recorded; a command in rad/s becomes a fraction of the maximum."""
    path = TESTS / "recordings" / "flights" / "wind.mcap"
    (log,) = read_log(path)
    track = load_run(path).drone_records[0]
    assert (log.name, log.format, log.numbering, log.truth) == ("wind", "samara", "samara", MOTION_CAPTURE)
    assert (log.position.values == track.position.T).all()
    assert (log.rate.values == track.tables["imu"]["omega_B"].T).all()
    assert log.specific_force.values[2].mean() == pytest.approx(9.81, abs=1.0)
    first, second = read_log(TESTS / "recordings" / "fall.mcap")
    assert (first.name, second.name) == ("fall/first", "fall/second")
    for drone_log in (log, first, second):
        assert drone_log.command.values.min() >= 0.0 and drone_log.command.values.max() <= 1.0


# Other files -------------------------------------------------------------------------------------------------------------


def test_what_is_no_log_is_said_in_one_sentence(tmp_path):
    path = tmp_path / "own.log"
    for data, message in (
        (b"", "own.log: is empty; expected a flight log"),
        (
            b"hello",
            r"own.log: begins with b'hello', which no supported format does; expected PX4 ULog, ArduPilot",
        ),
        (b"\x89MCAP0\r\n" + b"samara.recording", "own.log: is not a Samara recording"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_log(path)
        assert "\n" not in str(error.value)
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)  # a hole: nothing of it is written, and nothing read
    with pytest.raises(ValueError, match=r"own.log: has 2.1 GB; expected a log of at most 2.1 GB"):
        read_log(path)
    with pytest.raises(OSError, match="nothing"):
        read_log(tmp_path / "nothing.bin")


def test_the_table_of_formats_names_all():
    lines = format_table().splitlines()
    assert len(lines) == 2 + len(FORMATS)
    assert {line.count("|") for line in lines} == {9}
    for log_format, line in zip(FORMATS, lines[2:], strict=True):
        assert line.startswith(f"| {log_format.title} |")
