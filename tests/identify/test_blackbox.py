"""Blackbox logs: values from a writer of the same format are read back, also from damaged files; and real logs."""

import math
import re
import struct

import numpy as np
import pytest
from support.blackbox_writer import PRODUCT, Field, Log, encode_values
from support.repository import RECORDINGS

from samara.core.algebra import Quat, Vec3, conjugate, quat_from_euler, rotate
from samara.identify.flight_log import ESTIMATE
from samara.identify.readers import read_log
from samara.identify.readers.blackbox import read_sessions
from samara.identify.readers.blackbox_frames import decode_frames, header_spans, parse_header
from samara.vehicles.exchange.throttle import HOVER_OUTPUT
from samara.vehicles.rotor_numbering import NUMBERINGS

HEADERS = {"minthrottle": "1070", "vbatref": "1650", "motorOutput": "158,2047", "I interval": "8"}
TIME = Field("time", False, (0, 1), (2, 0))
EXTREMES = {  # the largest differences that an encoding can represent
    0: (-(1 << 31), (1 << 31) - 1),
    1: (0, (1 << 32) - 1),
    3: (1 - (1 << 13), 1 << 13),
    6: (-(1 << 31), (1 << 31) - 1),
    7: (-(1 << 31), (1 << 31) - 1),
    8: (-(1 << 15), (1 << 15) - 1),
    9: (0, 0),
    10: (-(1 << 31), (1 << 31) - 1),
}


def decode(data: bytes, number: int = 0, behind: int = 0):
    """Decode the frames of one log of a file; `behind` is the value of the bytes after its end."""
    spans = list(header_spans(data))
    return decode_frames(data + 64 * bytes([behind]), parse_header(data, *spans[number]))


def columns(rows: list[dict[str, int]]) -> dict[str, list[int]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def assert_rows(table, rows: list[dict[str, int]]) -> None:
    assert {name: values.tolist() for name, values in table.items()} == columns(rows)


def numbers(rng, low: int, high: int, count: int) -> list[int]:
    """Return values of all magnitudes, both limits among them."""
    sizes = rng.integers(0, 33, count)
    signs = rng.choice([-1, 1], count)
    random_values = [int(s) * (int(rng.integers(0, 1 << 32)) >> 32 - int(n)) for s, n in zip(signs, sizes, strict=True)]
    return [low, high, *(min(max(value, low), high) for value in random_values)][:count]


# Encodings and predictors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "values", "data"),
    [
        (1, [23456], "a0 b7 01"),
        (0, [-2147483648], "ff ff ff ff 0f"),
        (6, [0, 0, 2, 0, 4], "14 04 08"),
        (7, [1, -1, -2], "1e"),
        (7, [0, 7, -8], "40 78"),
        (7, [31, -32, 1], "9f 20 01"),
        (7, [100, -300, 70000], "e4 64 d4 fe 70 11 01"),
        (8, [13, 0, 4, 2], "52 0d 42"),
        (10, [15, -16, 7], "5f 07"),
        (10, [127, -64, 63], "9f e0 3f"),
        (3, [-5], "05"),
        (3, [5], "fb 7f"),
    ],
)
def test_bytes_of_the_formats_description(encoding, values, data):
    """Worked by hand from its text; the writer that the other tests trust agrees."""
    names = [f"x[{i}]" for i in range(len(values))]
    log = Log([TIME, *(Field(name, True, (0, encoding)) for name in names)])
    frame = b"I\x07" + bytes.fromhex(data)
    assert encode_values(encoding, values) == bytes.fromhex(data)
    main = decode(log.header() + frame).tables["main"]
    assert [int(main[name][0]) for name in names] == values


@pytest.mark.parametrize("encoding", EXTREMES)
@pytest.mark.parametrize("fields", [1, 2, 3, 4, 8, 11])
def test_every_encoding_gives_back_what_was_written(encoding, fields):
    """In I and in P frames, as many fields in a row as share a tag, less and more; signed and not."""
    rng = np.random.default_rng(100 * encoding + fields)
    low, high = EXTREMES[encoding]
    signed = low < 0
    fields_under_test = [Field(f"x[{i}]", signed, (0, encoding), (0, encoding)) for i in range(fields)]
    log = Log([TIME, *fields_under_test, Field("last", True, (0, 0), (1, 0))])
    values_by_field = [numbers(rng, low, high, 40) for _ in fields_under_test]
    rows = []
    for k in range(40):
        values = {field.name: values_by_field[i][(k + 5 * i) % 40] for i, field in enumerate(fields_under_test)}
        rows.append({"time": 1000 + 125 * k, **values, "last": k - 20})
        log.add_main_frame(rows[-1])
    frames = decode(bytes(log))
    assert_rows(frames.tables["main"], rows)
    assert frames.rejected == frames.dropped == 0


@pytest.mark.parametrize("inter", [0, 1, 2, 3])
def test_every_predictor_gives_back_what_was_written(inter):
    """The difference is added to an earlier frame or to a header value, in 32 bits, so that the largest steps come back too."""
    rng = np.random.default_rng(inter)
    log = Log(
        [
            Field("loopIteration", False, (0, 1), (6, 9)),
            TIME,
            Field("signed", True, (0, 0), (inter, 0)),
            Field("servo", False, (8, 0), (1, 0)),
            Field("throttle", False, (4, 0), (1, 0)),
            Field("vbatLatest", False, (9, 3), (1, 6)),
            Field("motor[0]", False, (11, 1), (3, 0)),
            Field("motor[1]", False, (5, 0), (3, 0)),
        ],
        HEADERS,
    )
    rows = []
    for k in range(50):
        row = {
            "loopIteration": k,
            "time": (1 << 32) - 3000 + 127 * k,
            "signed": numbers(rng, -(1 << 31), (1 << 31) - 1, 3)[2],
        }
        row["time"] %= 1 << 32  # the clock starts again
        row |= {"servo": 1500 + int(rng.integers(-400, 400)), "throttle": 1000 + k, "vbatLatest": 1660 - k}
        row |= {"motor[0]": 158 + int(rng.integers(0, 1889)), "motor[1]": int(rng.integers(157, 2048))}
        rows.append(row)
        log.add_main_frame(row)
    assert_rows(decode(bytes(log)).tables["main"], rows)


def test_slow_gps_and_home_frames_and_events_have_tables_of_their_own():
    """GPS counts from home, and from the last main frame's time; before there is a home it is dropped."""
    log = Log(
        [TIME, Field("x", True, (0, 0), (1, 0))],
        slow=[Field("flags", False, (0, 1)), *(Field(f"s[{i}]", False, (0, 7)) for i in range(3))],
        gps=[Field("time", False, (10, 1)), *(Field(f"GPS_coord[{i}]", True, (7, 0)) for i in range(2))],
        home=[Field(f"GPS_home[{i}]", True, (0, 0)) for i in range(2)],
    )
    log._home = [0, 0]
    log.add_main_frame({"time": 10, "x": 1})
    log.add_frame("G", {"time": 12, "GPS_coord[0]": 7, "GPS_coord[1]": 8})
    slow = {"flags": 300, "s[0]": 1, "s[1]": 0, "s[2]": 1}
    log.add_frame("S", slow)
    homes = [{"GPS_home[0]": 478000000, "GPS_home[1]": -88000000}, {"GPS_home[0]": 478000001, "GPS_home[1]": -88000009}]
    coordinates = []
    for k, home in enumerate(homes):
        log.add_frame("H", home)
        log.add_main_frame({"time": 20 + k, "x": 2})
        coordinates.append({"time": 25 + k, "GPS_coord[0]": 477999000 + k, "GPS_coord[1]": -88000100})
        log.add_frame("G", coordinates[-1])
    log.add_event(0, 123456)
    log.add_event(14, 77, 21)
    log.add_event(15, 4)
    log.add_event(30, 5, 1)
    log.body += b"E\x0d\x03" + encode_values(0, [-7]) + b"E\x0d\x83" + struct.pack("<f", 0.5)
    log.add_end()
    frames = decode(bytes(log))
    assert_rows(frames.tables["slow"], [slow])
    assert_rows(frames.tables["home"], homes)
    assert_rows(frames.tables["gps"], coordinates)
    half = struct.unpack("<i", struct.pack("<f", 0.5))[0]
    events = [(0, 123456, 0), (14, 77, 21), (15, 4, 0), (30, 5, 1), (13, 3, -7), (13, 0x83, half)]
    assert list(zip(*(column.tolist() for column in frames.tables["event"].values()), strict=True)) == events
    assert frames.ended and frames.dropped == 1 and frames.rejected == 0


# Damage --------------------------------------------------------------------------------------------------------------


def flight(frames: int = 64, interval: int = 8, **headers: str) -> tuple[Log, list[dict[str, int]]]:
    """Return a log with gyro, accelerometer and motors, as Betaflight writes them, and its rows."""
    rng = np.random.default_rng(3)
    log = Log(
        [
            Field("loopIteration", False, (0, 1), (6, 9)),
            TIME,
            *(Field(f"axisI[{i}]", True, (0, 0), (1, 7)) for i in range(3)),
            *(Field(f"rcCommand[{i}]", True, (0, 0), (1, 8)) for i in range(4)),
            *(Field(name, False, (9, 3), (1, 6)) for name in ("vbatLatest",)),
            *(Field(name, False, (0, 1), (1, 6)) for name in ("rssi",)),
            *(Field(f"gyroADC[{i}]", True, (0, 0), (3, 0)) for i in range(3)),
            *(Field(f"accSmooth[{i}]", True, (0, 0), (3, 0)) for i in range(3)),
            Field("motor[0]", False, (11, 1), (3, 0)),
            *(Field(f"motor[{i}]", False, (5, 0), (3, 0)) for i in (1, 2, 3)),
        ],
        HEADERS
        | {"Firmware revision": "Betaflight 4.5.1 (77d01ba3b) STM32F7X2", "gyro_scale": "0x3f800000"}
        | {"acc_1G": "2048"}
        | headers,
        interval=interval,
    )
    rows = []
    for k in range(frames):
        row = {"loopIteration": k, "time": 5_000_000 + 500 * k + int(rng.integers(0, 20))}
        for field in log.fields[2:]:
            size = {"motor": (158, 2047), "vbatL": (1500, 1650)}.get(field.name[:5], (-300, 300))
            row[field.name] = int(rng.integers(*size)) if field.signed or size[0] > 0 else int(rng.integers(0, 1000))
        rows.append(row)
        log.add_main_frame(row)
    return log, rows


def test_after_lost_bytes_frames_are_found_again_at_the_next_that_stands_alone():
    """Bytes cut out of frame 20: 0 … 19 and 24 … are unchanged. A frame of the right length by chance is not detected."""
    log, rows = flight()
    data = log.header() + log.body
    first = len(log.header()) + log.starts[20]
    undetected = 0
    for lost in range(1, 30):
        frames = decode(data[: first + 3] + data[first + 3 + lost :])
        times = frames.tables["main"]["time"].tolist()
        expected = [row["time"] for row in rows]
        assert times[:20] == expected[:20] and times[-40:] == expected[-40:]
        undetected += len(times) > 60
        assert_rows({name: column[-40:] for name, column in frames.tables["main"].items()}, rows[-40:])
    assert undetected <= 6


def test_bytes_between_frames_and_unknown_events_are_passed_over():
    """A frame is rejected if no frame begins after it, so the frame before the noise is lost with it."""
    log, rows = flight(24)
    cut = log.starts[5]
    for noise, intact in ((b"\x00\xff\x80", 4), (b"E\xf0", 5), (b"\x01" * 1000, 4)):
        frames = decode(log.header() + log.body[:cut] + noise + log.body[cut:])
        assert_rows(frames.tables["main"], rows[:intact] + rows[8:])
        assert frames.dropped == 3


def test_a_frame_whose_time_goes_back_or_leaps_is_rejected_unless_the_log_says_why():
    """Half a minute ahead: rejected once, believed when the next one agrees; after "logging resumes" at once."""
    field = Field("x", True, (0, 0), (1, 0))
    log = Log([TIME, field], interval=1)
    times = [1000, 2000, 40_000_000, 3000, 4000, 3500, 5000, 45_000_000, 45_000_500, 45_001_000]
    for k, time in enumerate(times):
        log.add_main_frame({"time": time, "x": k})
    main = decode(bytes(log)).tables["main"]
    assert main["time"].tolist() == [1000, 2000, 3000, 4000, 5000, 45_000_500, 45_001_000]
    log = Log([TIME, field], interval=1)
    log.add_main_frame({"time": 1000, "x": 0})
    log.add_event(14, 9, 90_000_000)
    log.add_main_frame({"time": 90_000_000, "x": 1})
    assert decode(bytes(log)).tables["main"]["x"].tolist() == [0, 1]


def test_what_follows_the_end_of_a_log_is_ignored_and_a_second_log_is_read():
    log, rows = flight(16)
    log.add_end()
    trailing = b"".join([b"I", bytes(range(64)), b"P", bytes(100)])
    data = b"noise\xff\x00" + bytes(log) + trailing + bytes(log)
    for number in (0, 1):
        frames = decode(data, number)
        assert_rows(frames.tables["main"], rows)
        assert frames.ended and frames.rejected == 0


def test_a_file_cut_anywhere_gives_its_complete_frames():
    """Cut within a frame, that frame is missing; cut within the header, no frame is left and one sentence reports it."""
    log, rows = flight(24)
    head, data = len(log.header()), bytes(log)
    ends = [*log.starts[1:], len(log.body)]
    for length in range(len(data)):
        try:
            frames = decode(data[:length])
        except ValueError as error:
            assert length < head and "expected" in str(error)
        except IndexError:
            assert length < 61  # before the marker of a log
        else:
            count = len(frames.tables["main"]["time"])
            assert count == sum(end <= length - head for end in ends)
            assert frames.tables["main"]["time"].tolist() == [row["time"] for row in rows[:count]]


def test_nothing_behind_the_end_matters():
    """The same frames whatever bytes follow the log: other logs, zeros, or bytes that would continue it."""
    log, _ = flight(24)
    data = bytes(log)
    for length in range(len(log.header()), len(data), 7):
        tables = [decode(data[:length], behind=value).tables["main"] for value in (0, 0xFF, ord("P"))]
        for other in tables[1:]:
            assert all(np.array_equal(column, other[name]) for name, column in tables[0].items())


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_bytes_are_they_are_read_to_the_end(seed):
    """Random bytes, modified logs, headers with other values: frames, or one sentence; never another exception."""
    rng = np.random.default_rng(seed)
    log, _ = flight(64)
    head = log.header()
    for _ in range(10):
        body = np.frombuffer(log.body, dtype=np.uint8).copy()
        body[rng.integers(0, len(body), rng.integers(1, 200))] = rng.integers(0, 256)
        noise = rng.integers(0, 256, 3000, dtype=np.uint8)
        noise[rng.random(3000) < 0.1] = ord(str(rng.choice(list("IPSGHE"))))
        attribute = [b"encoding", b"predictor", b"signed"][rng.integers(3)]
        line = b"H Field %c %s:" % (b"IP"[rng.integers(2)], attribute)
        codes = b",".join(b"%d" % rng.integers(-1, 13) for _ in range(len(log.fields) - (rng.random() < 0.1)))
        other = re.sub(line + b".*", line + codes, head)
        for data in (head + body.tobytes(), head + noise.tobytes(), other + log.body, other + noise.tobytes()):
            try:
                frames = decode(data, behind=int(rng.integers(256)))
            except ValueError as error:
                assert "expected" in str(error) and "\n" not in str(error)
            else:
                time = frames.tables["main"]["time"]
                assert (np.diff(time).astype(np.uint32).astype(np.int32) > 0).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b"Data version:2", b"Data version:1"), "header 'Data version' is '1'; expected '2'"),
        ((b"H Field P encoding", b"H Other"), "header 'Field P encoding' is missing; expected it"),
        ((b"Field I name:loopIteration,time", b"Field I name:loopIteration,tame"), "has no field 'time'; expected one"),
        (
            (b"Field P encoding:9", b"Field P encoding:4"),
            "field 'loopIteration' of P frames has encoding 4; expected one of 0, 1, 3",
        ),
        (
            (b"Field I predictor:0", b"Field I predictor:12"),
            "field 'loopIteration' of I frames has predictor 12: expected 0 to 11",
        ),
        ((b"Field I predictor:0", b"Field I predictor:1"), "has predictor 1; expected it in P frames only"),
        ((b"Field I predictor:0", b"Field I predictor:5"), "field 'loopIteration' of I frames comes before 'motor[0]'"),
        ((b"Field I predictor:0", b"Field I predictor:7"), "home frames have no such field"),
        ((b"H vbatref:1650\n", b""), "header 'vbatref' is missing; expected it"),
        ((b"Field I signed:0,", b"Field I signed:"), "header 'Field I signed' has 20 numbers; expected 21"),
        ((b"Field I encoding:1", b"Field I encoding:x"), "header 'Field I encoding' is 'x,1,"),
        ((b"acc_1G:2048", b"acc_1G:0"), "header 'acc_1G' is '0'; expected 1e-6 to 1e6"),
        (
            (b"gyro_scale:0x3f800000", b"gyro_scale:0x7fc00000"),
            "header 'gyro_scale' is '0x7fc00000'; expected a number",
        ),
        ((b"motor[", b"mutor["), "there is no field 'motor[0]'; expected one"),
    ],
)
def test_a_header_that_cannot_be_is_told_in_one_sentence(tmp_path, change, words):
    log, _ = flight(16)
    path = tmp_path / "LOG00001.BFL"
    path.write_bytes(bytes(log).replace(*change))
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read_log(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


# To a flight ---------------------------------------------------------------------------------------------------------


def read_one(tmp_path, log: Log):
    path = tmp_path / "btfl_001.bbl"
    path.write_bytes(bytes(log))
    (flight_log,) = read_log(path)
    return flight_log


def test_a_flight_in_si(tmp_path):
    """°/s, 2048ths of g, steps of DShot and hundredths of a volt; time from the first frame; no rotor speeds, no attitude."""
    log, rows = flight()
    log.add_end()
    flight_log = read_one(tmp_path, log)
    raw = {name: np.array(values, dtype=float) for name, values in columns(rows).items()}
    assert (flight_log.name, flight_log.format, flight_log.truth) == ("btfl_001", "betaflight", "")
    assert flight_log.start == pytest.approx(rows[0]["time"] * 1e-6, rel=1e-15)
    assert flight_log.command.time == pytest.approx((raw["time"] - raw["time"][0]) * 1e-6, abs=1e-9)
    for i in range(3):
        assert flight_log.rate.values[i] == pytest.approx(np.radians(raw[f"gyroADC[{i}]"]), rel=1e-14)
        assert flight_log.specific_force.values[i] == pytest.approx(raw[f"accSmooth[{i}]"] * 9.80665 / 2048, rel=1e-14)
    for i in range(4):
        assert flight_log.command.values[i] == pytest.approx((raw[f"motor[{i}]"] - 48) / 1999, rel=1e-14)
    assert flight_log.voltage.values[0] == pytest.approx(raw["vbatLatest"] / 100, rel=1e-14)
    assert flight_log.rotor_speed is None and flight_log.attitude is None and flight_log.position is None


def test_pulses_high_resolution_and_old_firmware(tmp_path):
    """1000 … 2000 µs; gyro in tenths of °/s; a voltage of unknown unit is left out, with a note."""
    log, rows = flight(motorOutput="1070,2000", blackbox_high_resolution="1")
    log.headers["Firmware revision"] = "EmuFlight 0.4.1 (7bac6ddd0) HELIOSPRING"
    flight_log = read_one(tmp_path, log)
    pulses = np.array([row["motor[2]"] for row in rows])
    assert flight_log.command.values[2] == pytest.approx(np.clip((pulses - 1000) / 1000, 0.0, 1.0), abs=1e-15)
    assert flight_log.rate.values[0, 5] == pytest.approx(math.radians(rows[5]["gyroADC[0]"] / 10), rel=1e-14)
    assert flight_log.voltage is None and "the unit of its voltage is not known for EmuFlight" in " ".join(
        flight_log.notes
    )
    assert "has no end" in " ".join(flight_log.notes)


@pytest.mark.parametrize("poles", ["", "12"])
def test_rotor_speeds_are_a_hundred_electrical_turns_over_the_pairs_of_poles(tmp_path, poles):
    log, _ = flight(0, **({"motor_poles": poles} if poles else {}))
    log.fields += [Field(f"eRPM[{i}]", False, (0, 1), (1, 0)) for i in range(4)]
    _, rows = flight(16)
    for k, row in enumerate(rows):
        log.add_main_frame(row | {f"eRPM[{i}]": 1400 + 10 * k + i for i in range(4)})
    flight_log = read_one(tmp_path, log)
    pairs = 7 if not poles else 6
    assert flight_log.rotor_speed.values[2, 3] == pytest.approx(143200 / pairs * 2 * math.pi / 60, rel=1e-14)
    assert ("motor_poles: 14 are assumed" in " ".join(flight_log.notes)) is not bool(poles)


def test_the_attitude_is_turned_from_north_west_up(tmp_path):
    """Nose to the north, rolled and pitched: our x is to the north too, and up is up; q and −q do not alternate."""
    log, _ = flight(0)
    log.fields += [Field(f"imuQuaternion[{i}]", True, (0, 0), (3, 0)) for i in range(3)]
    _, rows = flight(40)
    attitudes = [quat_from_euler(0.3, -0.2, 0.2 * k) for k in range(40)]
    for row, q in zip(rows, attitudes, strict=True):
        sign = 1.0 if q.w >= 0.0 else -1.0
        log.add_main_frame(row | {f"imuQuaternion[{i}]": round(32767 * sign * part) for i, part in enumerate(q[1:])})
    flight_log = read_one(tmp_path, log)
    assert flight_log.truth == ESTIMATE
    quarter = quat_from_euler(0.0, 0.0, math.pi / 2)  # north is our y
    for k, q in enumerate(attitudes):
        q_WB = Quat(*flight_log.attitude.values[:, k])
        for axis in (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 0.0, 1.0)):
            assert rotate(q_WB, axis) == pytest.approx(rotate(quarter * q, axis), abs=2e-4)
    steps = np.diff(flight_log.attitude.values, axis=1)
    assert np.abs(steps).max() < 0.12


@pytest.mark.parametrize("outwards", [False, True])
@pytest.mark.parametrize("has_header", [False, True])
def test_which_way_propellers_turn_is_as_said_or_as_the_yaw_tells(tmp_path, outwards, has_header):
    """Props in: BR and FL turn clockwise, and more of their thrust yaws the body counter-clockwise; props out, the reverse."""
    rng = np.random.default_rng(1)
    log, _ = flight(0, interval=32)
    _, rows = flight(1000)
    yaw, spin = 0.0, -1.0 if outwards else 1.0
    effort = 0.0
    for k, row in enumerate(rows):
        effort = rng.normal() if k % 10 == 0 else effort
        yaw += 5.0 * spin * effort
        motors = {f"motor[{i}]": round(1000 + 100 * sign * effort) for i, sign in enumerate((1, -1, -1, 1))}
        log.add_main_frame(row | motors | {"time": 4000 * k, "gyroADC[2]": round(yaw + rng.normal())})
    if has_header:
        log.headers["yaw_motors_reversed"] = str(int(outwards))
    flight_log = read_one(tmp_path, log)
    assert flight_log.numbering == ("betaflight_props_out" if outwards else "betaflight")
    assert any("yaw response shows" in note for note in flight_log.notes) is not has_header


def test_what_cannot_be_read_is_passed_over_where_there_is_more(tmp_path):
    log, _ = flight(16)
    empty, _ = flight(0)
    path = tmp_path / "two.bbl"
    wrong = bytes(log).replace(b"Data version:2", b"Data version:1")
    path.write_bytes(bytes(empty) + bytes(log) + wrong + bytes(log))
    first, second = read_log(path)
    assert (first.name, second.name) == ("two-2", "two-4")
    assert first.notes[-2:] == (
        "log 3: header 'Data version' is '1'; expected '2': skipped",
        "log 1: holds 0 main frames; expected 2 or more: skipped",
    )
    path.write_bytes(bytes(log).replace(b"acc_1G:2048", b"acc_2G:2048"))
    (flight_log,) = read_log(path)
    assert flight_log.specific_force is None and any("has no header acc_1G" in note for note in flight_log.notes)
    path.write_bytes(bytes(empty))
    with pytest.raises(ValueError, match="log 1: holds 0 main frames; expected 2 or more"):
        read_log(path)
    assert len(read_sessions(path)[0]) == 1
    path.write_bytes(PRODUCT * 1001)
    with pytest.raises(ValueError, match="holds more than 1000 logs; expected fewer"):
        read_log(path)


# Betaflight itself ---------------------------------------------------------------------------------------------------


BETAFLIGHTS = RECORDINGS / "betaflight.bbl"
"""Betaflight 4.6's simulator flew Samara's `hakoniwa`, and logged it (`set blackbox_device = VIRTUAL`, high resolution, every
16th loop): up to 2 m, nine steps of some metres in all directions, five of height and yaw. It was not disarmed at the end."""


def test_what_betaflight_logs_is_what_was_flown():
    """The largest rates and the last attitude match Samara's recording; up is up, and it hovers at the output of the link."""
    (log,) = read_log(BETAFLIGHTS)
    ((session,), problems) = read_sessions(BETAFLIGHTS)
    assert problems == [] and session.frames.rejected == session.frames.dropped == 0
    assert len(log.rate.time) == 13132 and log.truth == ESTIMATE and log.numbering == "betaflight"
    assert log.rate.values.max(axis=1) == pytest.approx([6.75305, 11.15402, 2.05323], rel=5e-3)
    assert log.rate.values.min(axis=1) == pytest.approx([-6.22754, -9.07882, -2.43932], rel=5e-3)
    assert log.attitude.values[:, -1] == pytest.approx([0.750405, 0.001645, -0.001920, 0.660974], abs=1e-3)
    up = rotate(Quat(*log.attitude.values), Vec3(*log.specific_force.values))
    assert [np.mean(part) for part in up] == pytest.approx([0.0, 0.0, 9.80665], abs=0.02)
    hovers = (log.command.time > 2.8) & (log.command.time < 3.4)
    assert log.command.values[:, hovers].mean(axis=1) == pytest.approx([HOVER_OUTPUT] * 4, abs=0.01)


def test_attitude_gyro_and_motors_of_betaflight_agree_on_the_axes():
    """2 q̄ dq/dt is the gyro's mean about each axis, and ω̇ has the sign of Σ r × lift, and of the propellers' drag."""
    (log,) = read_log(BETAFLIGHTS)
    motors = NUMBERINGS["quad_x"][log.numbering].rotors
    azimuth, spin = np.radians([motor.azimuth_deg for motor in motors]), np.array([motor.spin for motor in motors])
    torques = np.stack([np.sin(azimuth), -np.cos(azimuth), -spin]) @ log.command.values
    n = 10
    time = log.rate.time[n:] - log.rate.time[:-n]
    is_regular = time < 1.1 * n * 0.002
    angular_rate = (
        2.0 * np.stack(conjugate(Quat(*log.attitude.values[:, :-n])) * Quat(*log.attitude.values[:, n:]))[1:] / time
    )
    weights = np.array([0.5, *[1.0] * (n - 1), 0.5]) / n
    rate, torque = (
        np.stack([np.convolve(row, weights, "valid") for row in rows]) for rows in (log.rate.values, torques)
    )
    for axis in range(3):
        assert np.polyfit(rate[axis, is_regular], angular_rate[axis, is_regular], 1)[0] == pytest.approx(1.0, abs=5e-3)
        assert np.corrcoef(torque[axis, :-n], rate[axis, n:] - rate[axis, :-n])[0, 1] > 0.5
