"""Flight logs as their formats are published, byte for byte: the Crazyflie's card, PX4's ULog, ArduPilot's DataFlash."""

import math
import struct
import zlib

import numpy as np

from samara.core.algebra import quat_from_euler

N = 40  # samples
TIME = 0.002 * np.arange(N)
NAN = math.nan
PITCHED = quat_from_euler(0.0, 0.2, math.pi / 2)  # FRD to NED: heading east, nose up

# The Crazyflie's µSD card ----------------------------------------------------------------------------------------------

FIXED = [f"{group}.{axis}(f)" for group in ("acc", "gyro") for axis in "xyz"] + [f"motor.m{k}(H)" for k in (1, 2, 3, 4)]
SLOW = [*(f"stateEstimate.{name}(f)" for name in ("x", "y", "z", "qw", "qx", "qy", "qz")), "pm.vbat(f)"]


def card(version=2, fixed=FIXED, checked=True):
    """A log of two event types: every 2 ms the motors and the IMU, every 20 ms the estimate."""
    types = ((0xFFFF, b"fixedFrequency", fixed), (7, b"slow", SLOW))
    head = struct.pack("<BHH", 0xBC, version, len(types))
    for number, name, variables in types:
        head += struct.pack("<H", number) + name + b"\0" + struct.pack("<H", len(variables))
        head += b"".join(variable.encode() + b"\0" for variable in variables)
    clock, tick = ("<HI", 1e3) if version == 1 else ("<HQ", 1e6)
    body = b""
    for k, t in enumerate(TIME):
        stamp = round((t + 30.0) * tick)
        values = (0.1, 0.2, 1.0, 90.0, 0.0, -180.0, 65535, 0, 32768, k)[: len(fixed)]
        body += struct.pack(clock, 0xFFFF, stamp) + struct.pack("<6f" + "H" * (len(fixed) - 6), *values)
        if k % 10 == 0:
            body += struct.pack(clock, 7, stamp) + struct.pack("<8f", 1.0, 2.0, 3.0, 0.6, 0.0, 0.0, 0.8, 3.7)
    data = head + body
    return data + struct.pack("<I", zlib.crc32(data) if checked else 0)


# PX4 -------------------------------------------------------------------------------------------------------------------

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
    "sensor_combined": (
        "uint64_t timestamp;float[3] gyro_rad;uint32_t gyro_integral_dt;int32_t accelerometer_timestamp_relative;"
        "float[3] accelerometer_m_s2;uint32_t accelerometer_integral_dt",
        "<Q3fIi3fI",
    ),
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
PX4_ROWS = {
    "actuator_motors": (0, 0.25, 0.5, 1.0, NAN, *[NAN] * 8),
    "vehicle_attitude": (*PITCHED, 0, 0, 0, 0),
    "vehicle_local_position": (1.0, 2.0, -3.0, 0.1, 0.2, -0.3),
    "vehicle_angular_velocity": (0.1, 0.2, 0.4),
    "sensor_combined": (0.1, 0.2, 0.3, 4000, 0, 0.5, 0.6, -9.8, 4000),
    "battery_status": (True, 15.5),
    "esc_status": (1000, 102, 2000, 101, 3000, 103, 4000, 104),
    "actuator_outputs": (5, 1000, 1250, 1500, 2000, 900, *[0] * 11),
}


def message(kind, data):
    return struct.pack("<HB", len(data), ord(kind)) + data


def ulog(rows, parameters=(), changing=(), topics=PX4):
    """A ULog file: N messages of each topic, 4 ms apart from 2 s on, sampled 1 ms before they are logged."""
    file = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 2_000_000) + message("B", bytes(40))
    for name, (fields, _) in topics.items():
        file += message("F", f"{name}:{fields};".encode())
    for name, value in parameters:
        key = f"float {name}".encode()
        file += message("P", bytes([len(key)]) + key + struct.pack("<f", value))
    for number, name in enumerate(rows):
        file += message("A", struct.pack("<BH", 0, number) + name.encode())
    for k in range(N):
        for number, (name, values) in enumerate(rows.items()):
            logged_us = 2_000_000 + 4000 * k
            times = (logged_us, logged_us - 1000) if "timestamp_sample" in topics[name][0] else (logged_us,)
            values = [v + 100 * (k % 2) if (name, i) in changing else v for i, v in enumerate(values)]
            file += message("D", struct.pack("<H", number) + struct.pack(topics[name][1], *times, *values))
    return file


# ArduPilot -------------------------------------------------------------------------------------------------------------

FMT = ("BBnNZ", "Type,Length,Name,Format,Columns")
DATAFLASH = {
    "PARM": ("QNff", "TimeUS,Name,Value,Default"),
    "RCOU": ("QHHHHHH", "TimeUS,C1,C2,C3,C4,C5,C6"),
    "ESC": ("QBf", "TimeUS,Instance,RPM"),
    "XKF1": ("QBccCfffffff", "TimeUS,C,Roll,Pitch,Yaw,VN,VE,VD,dPD,PN,PE,PD"),
    "XKQ": ("QBffff", "TimeUS,C,Q1,Q2,Q3,Q4"),
    "ATT": ("Qccc", "TimeUS,Roll,Pitch,Yaw"),
    "IMU": ("QBffffff", "TimeUS,I,GyrX,GyrY,GyrZ,AccX,AccY,AccZ"),
    "GYR": ("QBQfff", "TimeUS,I,SampleUS,GyrX,GyrY,GyrZ"),
    "ACC": ("QBQfff", "TimeUS,I,SampleUS,AccX,AccY,AccZ"),
    "RATE": ("Qffff", "TimeUS,ROut,POut,YOut,AOut"),
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
    """(type, values) in physical units, in order of time."""
    messages = [("PARM", (1000, name, value, value)) for name, value in PARAMETERS.items()]
    for k in range(N):
        t = 5_000_000 + 2500 * k
        messages.append(("RCOU", (t, 1100, 1300, 0, 0, 1500, 1900)))
        by_type = {
            "ESC": [(t, channel, 1000.0 * (channel + 1)) for channel in (0, 1, 4, 5)],
            "XKF1": [(t, core, 1, 2, 3, 0.1, 0.2, -0.3, 0, 1.0 + core, 2.0, -3.0) for core in (0, 1)],
            "XKQ": [(t, core, *(PITCHED if core == 0 else (1, 0, 0, 0))) for core in (0, 1)],
            "ATT": [(t, 0, math.degrees(0.2), 90)],
            "IMU": [(t, unit, 0.1 + unit, 0.2, 0.3, 0.5, 0.6, -9.8) for unit in (0, 1)],
            "GPS": [(t, 0, 3, 47.0 + 1e-6 * k, 8.0, 500.0, 2.0, 90.0, -1.0)],
            "BAT": [(t, 0, 16.2)],
        }
        messages += [(kind, values) for kind in kinds for values in by_type[kind]]
    return messages


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
    lines += [
        f"FMT, {129 + i}, 89, {kind}, {layout[0]}, {layout[1]}" for i, (kind, layout) in enumerate(DATAFLASH.items())
    ]
    lines += [", ".join([kind, *map(str, values)]) for kind, values in messages]
    return ("\n".join(lines) + "\n").encode()
