"""Flights written as the logs of autopilots: in their units, axes, rotor order, rates and resolution.

    log_format = LOG_FORMATS["px4"]
    selected = log_format.select_signals(log)  # the signals of such a log, at its rates, its motors in its order
    path, columns = log_format.write(selected, folder)
    (read_back,) = read_log(path, columns)     # the same signals, to log_format.resolution

PX4's SDLOG_PROFILE is default + high rate (+ computer vision with motion capture): motors, gyroscope, accelerometer and
attitude at full rate, position ten times a second, motion capture every 30 ms. ArduPilot's LOG_BITMASK has IMU_FAST and
ATTITUDE_FAST: the IMU and RATE, from which its mixer computes the motor commands, at full rate, the estimate 25 times a second.
RCOU, which it writes ten times a second, cannot resolve a motor's lag: a log without RATE is `ardupilot_slow`.
"""

import math
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fuzz.flight_logs import DATAFLASH, PACK, PARAMETERS, PX4, UNIT, dataflash, message, packed, ulog

from samara.core.algebra import Quat, Vec3, conjugate, rotate
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import DEGREE, RPM, G, signal_names
from samara.physics.frames import attitude_ned_frd_from_enu_flu, frd_from_flu, ned_from_enu
from samara.vehicles.rotor_numbering import rotor_order
from support.blackbox_writer import Field, Log

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Any] | None

BOOT_US = 30_000_000  # the autopilot's clock at the start of the flight
FULL_PWM, THRUST_MODEL, POLES, ONE_G = 65535, 0.3, 14, 2048
POSES = ("position", "velocity", "attitude")
INERTIAL = ("rate", "specific_force")


class LogFormat(NamedTuple):
    """A log format: its rotor numbering, the largest rate of each signal [Hz], the resolutions, and its writer.

    `needs` is the truth that such a log can hold: motion capture, the estimate, or either. Signals that are `common_times` have
    the times of the first of them, with the last value before each; others have separate times.
    """

    numbering: str
    rates: dict[str, float]
    resolution: dict[str, float]
    write: Callable[[FlightLog, Path], tuple[Path, Columns]]
    needs: tuple[str, ...] = (MOTION_CAPTURE, ESTIMATE)
    common_times: tuple[str, ...] = ()
    has_fitted_velocity: bool = False  # velocity is fitted to the position

    def select_signals(self, log: FlightLog) -> FlightLog:
        """Return the signals of a flight that such a log holds."""
        if self.has_fitted_velocity and log.position is not None:
            log = replace(log, velocity=slopes(log.position))
        signals: dict[str, Any] = dict.fromkeys(signal_names())
        for name, rate in self.rates.items():
            signal = getattr(log, name)
            is_averaged = name in INERTIAL and name not in self.common_times
            signals[name] = None if signal is None else limit_rate(signal, rate, is_averaged=is_averaged)
        for name in self.common_times[1:]:
            time, signal = signals[self.common_times[0]].time, getattr(log, name)
            signals[name] = (
                None if signal is None or name not in self.rates else Signal(time, last_values(time, signal))
            )
        if self.numbering != "samara":
            order = list(rotor_order(self.numbering, "crazyflie_engine"))  # the numbering of Samara's quadrotors
            for name in ("command", "rotor_speed"):
                if signals[name] is not None:
                    signals[name] = signals[name]._replace(values=signals[name].values[order])
        truth = log.truth if any(signals[name] for name in POSES) else ""
        return replace(log, numbering=self.numbering, truth=truth, **signals)


def limit_rate(signal: Signal, rate: float, *, is_averaged: bool) -> Signal:
    """Take every n-th sample, or means of n, so that there are at most `rate` a second."""
    n = max(1, math.ceil((len(signal.time) - 1) / (signal.time[-1] - signal.time[0]) / rate - 0.01))
    if n == 1 or not is_averaged:
        return Signal(signal.time[::n], signal.values[:, ::n])
    count = len(signal.time) // n
    means = signal.values[:, : n * count].reshape(len(signal.values), count, n).mean(axis=2)
    return Signal(signal.time[: n * count].reshape(count, n).mean(axis=1), means)


def microseconds(time: Array) -> Array:
    return BOOT_US + np.rint(1e6 * time).astype(np.int64)


def last_values(time: Array, signal: Signal) -> Array:
    """Return the last values before each time."""
    return signal.values[:, np.clip(np.searchsorted(signal.time, time + 1e-9) - 1, 0, None)]


def sort_records(times: Sequence[Array], tables: Sequence[Array]) -> bytes:
    """Sort packed records of several types by their times."""
    pieces, stamps = [], np.concatenate(times)
    for table in tables:
        data, size = table.tobytes(), table.dtype.itemsize
        pieces += [data[k : k + size] for k in range(0, len(data), size)]
    return b"".join(pieces[k] for k in np.argsort(stamps, kind="stable"))


def record_table(layout: str, columns: Sequence[Any]) -> Array:
    """Build records of a `struct` layout, column by column."""
    codes = [code for count, letter in re.findall(r"(\d*)([a-zA-Z?])", layout) for code in [letter] * int(count or 1)]
    dtype = np.dtype([(f"c{i}", f"<{letter}") for i, letter in enumerate(codes)])
    table = np.zeros(max(np.size(column) for column in columns), dtype)
    for name, column in zip(dtype.names or (), columns, strict=True):
        table[name] = column
    return table


def ned_vectors(rows: Array) -> Array:
    return np.stack(ned_from_enu(Vec3(*rows)))


def frd_vectors(rows: Array) -> Array:
    return np.stack(frd_from_flu(Vec3(*rows)))


def ned_attitude(rows: Array) -> Array:
    return np.stack(attitude_ned_frd_from_enu_flu(Quat(*rows)))


# PX4 -------------------------------------------------------------------------------------------------------------------


def write_ulog(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write a ULog; `actuator_motors` holds thrusts by THR_MDL_FAC."""
    u, unused = log.command.values, [np.nan] * 8
    topics: dict[str, tuple[Array, list[Any]]] = {
        "actuator_motors": (log.command.time, [0, *(THRUST_MODEL * u * u + (1.0 - THRUST_MODEL) * u), *unused])
    }
    if log.rate is not None and log.specific_force is not None:
        imu = [*frd_vectors(log.rate.values), 0, 0, *frd_vectors(log.specific_force.values), 0]
        topics["sensor_combined"] = (log.rate.time, imu)
    if log.position is not None and log.attitude is not None:
        q, p = ned_attitude(log.attitude.values), ned_vectors(log.position.values)
        if log.truth == MOTION_CAPTURE:
            topics["vehicle_mocap_odometry"] = (log.position.time, [1, *p, *q, 1, np.nan, np.nan, np.nan])
        else:
            assert log.velocity is not None
            topics["vehicle_attitude"] = (log.attitude.time, [*q, 0, 0, 0, 0])
            topics["vehicle_local_position"] = (log.position.time, [*p, *ned_vectors(log.velocity.values)])
    if log.rotor_speed is not None:
        reports = [value for i, rpm in enumerate(np.rint(log.rotor_speed.values / RPM)) for value in (rpm, 101 + i)]
        topics["esc_status"] = (log.rotor_speed.time, reports)
    times, tables = [], []
    for number, (name, (time, columns)) in enumerate(topics.items()):
        stamps = microseconds(time)
        clocks = [stamps, stamps] if "timestamp_sample" in PX4[name][0] else [stamps]
        layout = "HBH" + PX4[name][1].removeprefix("<")
        size = struct.calcsize("<" + layout) - 3
        tables.append(record_table(layout, [size, ord("D"), number, *clocks, *columns]))
        times.append(time)
    head = ulog({}, [("THR_MDL_FAC", THRUST_MODEL)])
    head += b"".join(message("A", struct.pack("<BH", 0, number) + name.encode()) for number, name in enumerate(topics))
    path = folder / "flight.ulg"
    path.write_bytes(head + sort_records(times, tables))
    return path, None


# ArduPilot -------------------------------------------------------------------------------------------------------------


MIXER = np.array([[-0.5, 0.5, 0.5, 1.0], [0.5, -0.5, 0.5, 1.0], [0.5, 0.5, -0.5, 1.0], [-0.5, -0.5, -0.5, 1.0]])
"""Front right, back left, front left, back right, for roll right, nose up, yaw right, and collective."""
LINEAR = {"FRAME_CLASS": 1, "FRAME_TYPE": 1, "MOT_THST_EXPO": 0, "MOT_SPIN_MIN": 0, "MOT_SPIN_MAX": 1}
LINEAR |= {"INS_GYRO_FILTER": 0, "INS_ACCEL_FILTER": 0}


def write_dataflash(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write a DataFlash log: motors on outputs 1, 2, 5 and 6, in whole µs, ten times a second; all samples in RATE."""
    assert log.position is not None and log.velocity is not None and log.attitude is not None
    assert log.rate is not None and log.specific_force is not None
    low, high = PARAMETERS["MOT_PWM_MIN"], PARAMETERS["MOT_PWM_MAX"]
    step = max(1, round(0.1 / float(np.median(np.diff(log.command.time)))))
    pulses = np.rint(low + (high - low) * log.command.values[:, ::step])
    p, v, q = ned_vectors(log.position.values), ned_vectors(log.velocity.values), ned_attitude(log.attitude.values)
    kinds = {
        "RCOU": (log.command.time[::step], [pulses[0], pulses[1], 0, 0, pulses[2], pulses[3]]),
        "IMU": (log.rate.time, [0, *frd_vectors(log.rate.values), *frd_vectors(log.specific_force.values)]),
        "XKF1": (log.position.time, [0, 0, 0, 0, *v, 0, *p]),
        "XKQ": (log.attitude.time, [0, *q]),
    }
    if step > 1:
        kinds = {"RATE": (log.command.time, [*np.linalg.solve(MIXER, log.command.values)])} | kinds
    if log.rotor_speed is not None:
        for output, speed in zip((0, 1, 4, 5), log.rotor_speed.values, strict=True):
            kinds[f"ESC {output}"] = (log.rotor_speed.time, [output, speed / RPM])
    numbers = {kind: 129 + i for i, kind in enumerate(DATAFLASH)}
    times, tables = [], []
    for name, (time, columns) in kinds.items():
        kind = name.partition(" ")[0]
        letters = DATAFLASH[kind][0]
        scaled = [column * UNIT.get(letter, 1) for letter, column in zip(letters[1:], columns, strict=True)]
        layout = "BBB" + "".join(PACK[letter] for letter in letters)
        tables.append(record_table(layout, [0xA3, 0x95, numbers[kind], microseconds(time), *scaled]))
        times.append(time)
    parameters = [
        packed("PARM", numbers["PARM"], DATAFLASH["PARM"][0], (1000, name, value, value))
        for name, value in (PARAMETERS | LINEAR).items()
    ]
    path = folder / "flight.bin"
    path.write_bytes(dataflash([]) + b"".join(parameters) + sort_records(times, tables))
    return path, None


# Betaflight ------------------------------------------------------------------------------------------------------------


def write_blackbox(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write a blackbox log at every loop: gyro in 0.1 °/s, accelerometer in 1/2048 g, motors in DShot steps, eRPM / 100."""
    assert log.rate is not None and log.specific_force is not None
    time = log.rate.time
    signals = {"gyroADC": 10.0 / DEGREE * log.rate.values, "accSmooth": ONE_G / G * log.specific_force.values}
    signals["motor"] = 48.0 + 1999.0 * log.command.values
    fields = [
        Field("loopIteration", False, (0, 1), (6, 9)),
        Field("time", False, (0, 1), (2, 0)),
        *(Field(f"{name}[{i}]", True, (0, 0), (3, 0)) for name in ("gyroADC", "accSmooth") for i in range(3)),
        Field("motor[0]", False, (11, 1), (3, 0)),
        *(Field(f"motor[{i}]", False, (5, 0), (3, 0)) for i in (1, 2, 3)),
    ]
    if log.rotor_speed is not None:
        signals["eRPM"] = log.rotor_speed.values / RPM * (POLES / 2) / 100.0
        fields += [Field(f"eRPM[{i}]", False, (0, 1), (1, 0)) for i in range(4)]
    headers = {
        "Firmware revision": "Betaflight 4.5.1 (77d01ba3b) STM32F7X2",
        **{"gyro_scale": "0x3f800000", "blackbox_high_resolution": "1", "acc_1G": str(ONE_G), "minthrottle": "1070"},
        **{"motorOutput": "158,2047", "motor_poles": str(POLES), "yaw_motors_reversed": "0", "vbatref": "1650"},
    }
    blackbox_log = Log(fields, headers, interval=32)
    columns = {
        f"{name}[{i}]": np.rint(row).astype(int).tolist()
        for name, rows in signals.items()
        for i, row in enumerate(rows)
    }
    columns |= {"loopIteration": range(len(time)), "time": microseconds(time).tolist()}
    names = list(columns)
    for row in zip(*columns.values(), strict=True):
        blackbox_log.add_main_frame(dict(zip(names, row, strict=True)))
    blackbox_log.add_end()
    path = folder / "flight.bbl"
    path.write_bytes(bytes(blackbox_log))
    return path, None


# The Crazyflie ---------------------------------------------------------------------------------------------------------


def crazyflie_columns(log: FlightLog) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return columns by the firmware's names: those at the IMU's times, and those at the times of the pose."""
    assert (
        log.rate is not None
        and log.specific_force is not None
        and log.position is not None
        and log.attitude is not None
    )
    imu_columns = {f"acc.{axis}": row / G for axis, row in zip("xyz", log.specific_force.values, strict=True)}
    imu_columns |= {f"gyro.{axis}": row / DEGREE for axis, row in zip("xyz", log.rate.values, strict=True)}
    pwm = np.rint(FULL_PWM * log.command.values)
    imu_columns |= {f"motor.m{i + 1}": row for i, row in enumerate(pwm)}
    group = "locSrv" if log.truth == MOTION_CAPTURE else "stateEstimate"
    pose_columns = {f"{group}.{axis}": row for axis, row in zip("xyz", log.position.values, strict=True)}
    pose_columns |= {f"{group}.q{axis}": row for axis, row in zip("wxyz", log.attitude.values, strict=True)}
    if log.velocity is not None:
        pose_columns |= {f"{group}.v{axis}": row for axis, row in zip("xyz", log.velocity.values, strict=True)}
    return imu_columns, pose_columns


def write_card(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write an SD-card log with two types of records: IMU and motors, and the pose."""
    assert log.rate is not None and log.position is not None
    imu_columns, pose_columns = crazyflie_columns(log)
    types = (
        (0xFFFF, b"fixedFrequency", log.rate.time, imu_columns, [*"ffffff", *"HHHH"]),
        (7, b"pose", log.position.time, pose_columns, ["f"] * len(pose_columns)),
    )
    head = struct.pack("<BHH", 0xBC, 2, len(types))
    times, tables = [], []
    for number, name, time, columns, letters in types:
        head += struct.pack("<H", number) + name + b"\0" + struct.pack("<H", len(columns))
        head += b"".join(f"{column}({x})".encode() + b"\0" for column, x in zip(columns, letters, strict=True))
        tables.append(record_table("HQ" + "".join(letters), [number, microseconds(time), *columns.values()]))
        times.append(time)
    data = head + sort_records(times, tables)
    path = folder / "log00"
    path.write_bytes(data + struct.pack("<I", zlib.crc32(data)))
    return path, None


def write_crazyflie_csv(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write a radio log: all variables at one rate, in whole ms."""
    assert log.rate is not None and log.position is not None
    imu_columns, pose_columns = crazyflie_columns(log)
    time = log.rate.time
    columns = [*imu_columns.values(), *pose_columns.values()]
    stamps = 1e-3 * microseconds(time)
    lines = [",".join(["timestamp", *imu_columns, *pose_columns])]
    lines += [
        ",".join([f"{stamp:.0f}", *(f"{value:.6g}" for value in row)])
        for stamp, *row in zip(stamps, *columns, strict=True)
    ]
    path = folder / "crazyflie.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, None


def write_nanobench(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write all signals at the camera's rate; velocity and rate are slopes over 11 samples."""
    assert (
        log.rate is not None
        and log.specific_force is not None
        and log.position is not None
        and log.attitude is not None
    )
    assert log.velocity is not None
    time = log.position.time
    names = "t,px,py,pz,vx,vy,vz,qw,qx,qy,qz,wx_vicon,wy_vicon,wz_vicon,motor_motor_m1,motor_motor_m2,motor_motor_m3"
    names += ",motor_motor_m4,pwr_pm_vbat,imu_acc_x,imu_acc_y,imu_acc_z,imu_gyro_x,imu_gyro_y,imu_gyro_z"
    pwm, rate = np.rint(FULL_PWM * log.command.values), log.rate.values
    columns = [
        *(1.7e9 + time, *log.position.values, *log.velocity.values, *log.attitude.values, *rate, *pwm),
        *(np.full(len(time), 3.9), *(log.specific_force.values / G), *rate),
    ]
    path = folder / "nanobench.csv"
    np.savetxt(path, np.stack(columns, axis=1), fmt=["%.3f", *["%.7g"] * 24], delimiter=",", header=names, comments="")
    return path, None


def slopes(signal: Signal, width: int = 11) -> Signal:
    """Fit slopes over `width` samples."""
    half = width // 2
    steps = np.arange(-half, half + 1)
    kernel = -steps / (steps @ steps) / float(np.median(np.diff(signal.time)))
    padded = np.pad(signal.values, [(0, 0), (half, half)], mode="edge")
    return Signal(signal.time, np.stack([np.convolve(row, kernel, "valid") for row in padded]))


# ROS 2 -----------------------------------------------------------------------------------------------------------------


def write_bag(log: FlightLog, folder: Path, storage: str = "MCAP") -> tuple[Path, Columns]:
    """Write a bag with `actuator_msgs/Actuators`, `sensor_msgs/Imu`, and motion-capture poses or odometry."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    assert (
        log.rate is not None
        and log.specific_force is not None
        and log.position is not None
        and log.attitude is not None
    )
    store = get_typestore(Stores.ROS2_HUMBLE)
    actuators = "std_msgs/Header header\nfloat64[] position\nfloat64[] velocity\nfloat64[] normalized"
    store.register(get_types_from_msg(actuators, "actuator_msgs/msg/Actuators"))
    message_classes = {name.rpartition("/")[2]: message_class for name, message_class in store.types.items()}
    zero_3x3, zero_6x6, empty = np.zeros(9), np.zeros(36), np.zeros(0)
    unit = message_classes["Quaternion"](0.0, 0.0, 0.0, 1.0)
    position, attitude, velocity = log.position.values, log.attitude.values, log.velocity

    def header(time_ns: int) -> Any:
        return message_classes["Header"](message_classes["Time"](time_ns // 10**9, time_ns % 10**9), "world")

    def vector(row: Array) -> Any:
        return message_classes["Vector3"](*map(float, row))

    def pose(k: int) -> Any:
        w, x, y, z = map(float, attitude[:, k])
        return message_classes["Pose"](
            message_classes["Point"](*map(float, position[:, k])), message_classes["Quaternion"](x, y, z, w)
        )

    def actuator_message(k: int, time_ns: int) -> Any:
        return message_classes["Actuators"](header(time_ns), empty, empty, log.command.values[:, k].copy())

    def imu_message(k: int, time_ns: int) -> Any:
        assert log.rate is not None and log.specific_force is not None
        rates, force = vector(log.rate.values[:, k]), vector(log.specific_force.values[:, k])
        return message_classes["Imu"](header(time_ns), unit, zero_3x3, rates, zero_3x3, force, zero_3x3)

    def pose_message(k: int, time_ns: int) -> Any:
        return message_classes["PoseStamped"](header(time_ns), pose(k))

    if velocity is not None:
        v_B = np.stack(rotate(conjugate(Quat(*attitude)), Vec3(*velocity.values)))

    def odometry_message(k: int, time_ns: int) -> Any:
        twist = message_classes["TwistWithCovariance"](
            message_classes["Twist"](vector(v_B[:, k]), vector(np.zeros(3))), zero_6x6
        )
        return message_classes["Odometry"](
            header(time_ns), "base_link", message_classes["PoseWithCovariance"](pose(k), zero_6x6), twist
        )

    topics = {
        "/motors": ("actuator_msgs/msg/Actuators", log.command.time, actuator_message),
        "/imu": ("sensor_msgs/msg/Imu", log.rate.time, imu_message),
        "/pose": ("geometry_msgs/msg/PoseStamped", log.position.time, pose_message)
        if log.truth == MOTION_CAPTURE
        else ("nav_msgs/msg/Odometry", log.position.time, odometry_message),
    }
    path = folder / f"bag_{storage.lower()}"
    with Writer(path, version=9, storage_plugin=StoragePlugin[storage]) as writer:
        connections = {
            topic: writer.add_connection(topic, name, typestore=store) for topic, (name, *_) in topics.items()
        }
        order = sorted(
            (1_700_000_000 * 10**9 + round(1e9 * t), topic, k)
            for topic, (_, time, _) in topics.items()
            for k, t in enumerate(time)
        )
        for time_ns, topic, k in order:
            name, _, build_message = topics[topic]
            writer.write(connections[topic], time_ns, store.serialize_cdr(build_message(k, time_ns), name))
    return path, None


def write_database(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    return write_bag(log, folder, "SQLITE3")


# CSV with a map --------------------------------------------------------------------------------------------------------


def write_mapped_csv(log: FlightLog, folder: Path) -> tuple[Path, Columns]:
    """Write FRD and NED, ms, °/s, g, pulses in µs; cells are empty if a signal has no sample."""
    signals = {
        "motors": (log.command, 1000.0 + 1000.0 * log.command.values),
        "position": (log.position, None if log.position is None else ned_vectors(log.position.values)),
        "velocity": (log.velocity, None if log.velocity is None else ned_vectors(log.velocity.values)),
        "attitude": (log.attitude, None if log.attitude is None else ned_attitude(log.attitude.values)[[1, 2, 3, 0]]),
        "rate": (log.rate, None if log.rate is None else frd_vectors(log.rate.values) / DEGREE),
        "specific_force": (
            log.specific_force,
            None if log.specific_force is None else frd_vectors(log.specific_force.values) / G,
        ),
    }
    available = {
        name: (signal.time, rows) for name, (signal, rows) in signals.items() if signal is not None and rows is not None
    }
    stamps = np.unique(np.concatenate([microseconds(time) for time, _ in available.values()]))
    names = {name: [f"{name}_{i}" for i in range(len(rows))] for name, (_, rows) in available.items()}
    cells = [[f"{1e-3 * stamp:.3f}" for stamp in stamps]]
    for time, rows in available.values():
        rows_of_signal = np.searchsorted(stamps, microseconds(time))
        for row in rows:
            column = [""] * len(stamps)
            for k, value in zip(rows_of_signal, row, strict=True):
                column[k] = f"{value:.9g}"
            cells.append(column)
    heading = ["t", *(column_name for column_names in names.values() for column_name in column_names)]
    path = folder / "mapped.csv"
    path.write_text("\n".join([",".join(heading), *(",".join(row) for row in zip(*cells, strict=True))]) + "\n")
    columns = {
        **{"time": "t", "time_unit": "ms", "motor_range": [1000, 2000], "numbering": "px4", "axes": "frd/ned"},
        **{"quaternion": "xyzw", "rate_unit": "deg/s", "specific_force_unit": "g", "truth": log.truth, **names},
    }
    return path, columns


# All formats -----------------------------------------------------------------------------------------------------------

LOOP = 250.0  # [Hz]
FLOAT = {"position": 4e-6, "velocity": 2e-6, "attitude": 2e-7, "rate": 4e-6, "specific_force": 1e-5}
IMU = {"rate": LOOP, "specific_force": LOOP}
EVERYTHING = {"command": LOOP, "position": 100.0, "velocity": 100.0, "attitude": 100.0, **IMU}
EXACT = dict.fromkeys(EVERYTHING, 1e-12)

LOG_FORMATS = {
    "px4": LogFormat(
        "px4",
        {"command": LOOP, "rotor_speed": 200.0, "position": 10.0, "velocity": 10.0, "attitude": LOOP, **IMU},
        {**FLOAT, "command": 1e-6, "rotor_speed": RPM},
        write_ulog,
        needs=(ESTIMATE,),
    ),
    "px4_motion_capture": LogFormat(
        "px4",
        {"command": LOOP, "position": 33.4, "attitude": 33.4, **IMU},
        {**FLOAT, "command": 1e-6},
        write_ulog,
        needs=(MOTION_CAPTURE,),
    ),
    "ardupilot": LogFormat(
        "ardupilot",
        {"command": LOOP, "rotor_speed": LOOP, "position": 25.0, "velocity": 25.0, "attitude": 25.0, **IMU},
        {**FLOAT, "command": 0.5 / 800.0, "rotor_speed": 1e-3},
        write_dataflash,
        needs=(ESTIMATE,),
    ),
    "ardupilot_slow": LogFormat(
        "ardupilot",
        {"command": 10.0, "position": 25.0, "velocity": 25.0, "attitude": 25.0, **IMU},
        {**FLOAT, "command": 0.5 / 800.0},
        write_dataflash,
        needs=(ESTIMATE,),
    ),
    "betaflight": LogFormat(
        "betaflight",
        {"command": 500.0, "rate": 500.0, "specific_force": 500.0},
        {"command": 0.5 / 1999.0, "rate": 0.05 * DEGREE, "specific_force": 0.5 * G / ONE_G},
        write_blackbox,
        common_times=("rate", "specific_force", "command", "rotor_speed"),
    ),
    "betaflight_erpm": LogFormat(
        "betaflight",
        {"command": 500.0, "rotor_speed": 500.0, "rate": 500.0, "specific_force": 500.0},
        {
            **{"command": 0.5 / 1999.0, "rate": 0.05 * DEGREE, "specific_force": 0.5 * G / ONE_G},
            "rotor_speed": 50.0 * RPM * 2.0 / POLES,
        },
        write_blackbox,
        common_times=("rate", "specific_force", "command", "rotor_speed"),
    ),
    "crazyflie": LogFormat(
        "crazyflie",
        {**EVERYTHING, "rate": 500.0, "specific_force": 500.0},
        {**FLOAT, "command": 0.5 / FULL_PWM},
        write_card,
        common_times=("rate", "specific_force", "command"),
    ),
    "crazyflie_csv": LogFormat(
        "crazyflie",
        dict.fromkeys(EVERYTHING, 100.0),
        {
            "command": 0.5 / FULL_PWM,
            "position": 5e-5,
            "velocity": 5e-5,
            "attitude": 5e-7,
            "rate": 1e-4,
            "specific_force": 5e-4,
        },
        write_crazyflie_csv,
        common_times=("rate", "specific_force", "command", *POSES),
    ),
    "nanobench": LogFormat(
        "crazyflie",
        dict.fromkeys(EVERYTHING, 100.0),
        {
            "command": 0.5 / FULL_PWM,
            "position": 1e-5,
            "velocity": 1e-5,
            "attitude": 5e-7,
            "rate": 1e-5,
            "specific_force": 1e-4,
        },
        write_nanobench,
        needs=(MOTION_CAPTURE,),
        common_times=("position", "velocity", "attitude", "rate", "specific_force", "command"),
        has_fitted_velocity=True,
    ),
    "ros2_mcap": LogFormat("samara", {**EVERYTHING, "rate": 500.0, "specific_force": 500.0}, EXACT, write_bag),
    "ros2_sqlite3": LogFormat("samara", EVERYTHING, EXACT, write_database),
    "csv": LogFormat("px4", EVERYTHING, dict.fromkeys(EVERYTHING, 1e-6), write_mapped_csv),
}
