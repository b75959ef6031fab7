"""Size bombs: small files that would unfold to unbounded work, one for each kind of untrusted file."""

import gzip
import io
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import lz4.frame
import zstandard
from mcap.writer import CompressionType, Writer

from samara import vehicle
from samara.campaigns.campaign import load_campaign
from samara.control.policy_file import load_policy
from samara.identify.readers import read_log
from samara.plan.waypoint_file import read_waypoints
from samara.propeller.blade import blade
from samara.record.mcap_writer import MAGIC
from samara.record.recording import read_recording
from samara.scenario.file import load_scenario
from samara.sensors.registry import part
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.parts.parts_list import read_parts_list
from samara.wind.wind_field import RecordedWind
from samara.world.obstacles import HeightMap
from samara.world.track import load_track

from .flight_logs import message
from .law import Case, Reader

Files = dict[str, bytes]
XACRO = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{}</robot>'
NANOBENCH = (
    "t,px,py,pz,vx,vy,vz,qw,qx,qy,qz,wx_vicon,wy_vicon,wz_vicon,motor_motor_m1,motor_motor_m2,motor_motor_m3,"
    "motor_motor_m4,pwr_pm_vbat,imu_acc_x,imu_acc_y,imu_acc_z,imu_gyro_x,imu_gyro_y,imu_gyro_z"
)


class Bomb(NamedTuple):
    """How to build a bomb of a size, the reader of its first file, and the sentence at the size `scale`."""

    build: Callable[[int], Files]
    read: Callable[[Path], Any]
    scale: int
    sentence: str


def gzip_blocks(head: bytes, block: bytes, megabytes: int) -> bytes:
    """A gzip file of megabytes of one block: members of a megabyte each."""
    member = gzip.compress(block * ((1 << 20) // len(block)))
    return gzip.compress(head) + member * megabytes


def dotted_key(name: str) -> Callable[[int], Files]:
    beside = {"weights.safetensors": b""} if name == "policy.toml" else {}
    return lambda n: {name: b"a" + b".a" * n + b" = 1\n", **beside}


def property_doubling(n: int) -> Files:
    rows = [f'<xacro:property name="p{i}" value="${{p{i + 1}}}${{p{i + 1}}}"/>' for i in range(n)]
    rows += [f'<xacro:property name="p{n}" value="x"/><link name="${{p0}}"/>']
    return {"a.xacro": XACRO.format("".join(rows)).encode()}


def include_fan(n: int) -> Files:
    files = {
        f"a{i or ''}.xacro": XACRO.format(f'<xacro:include filename="a{i + 1}.xacro"/>' * 20).encode() for i in range(n)
    }
    return {**files, f"a{n or ''}.xacro": XACRO.format("").encode()}


def scoped_names(n: int) -> Files:
    links = "".join(f'<link name="l{i}"/>' for i in range(n))
    return {"a.sdf": f'<sdf><model name="a"><model name="{"n" * 50_000}">{links}</model></model></sdf>'.encode()}


def doubled_lists(n: int) -> Files:
    return {
        "a.py": ("a = [1, 1]\n" + "a = [a, a]\n" * n + 'quad_params = {"rotor_pos": a, "b": np.array(a)}\n').encode()
    }


def mjcf_includes(n: int) -> Files:
    files = {f"a{i or ''}.xml": (f'<mujoco>{f"<include file={chr(34)}a{i + 1}.xml{chr(34)}/>" * 20}</mujoco>').encode()
             for i in range(n)}  # fmt: skip
    return {**files, f"a{n or ''}.xml": b"<mujoco/>"}


def mjcf_bodies(n: int) -> Files:
    return {"a.xml": b"<mujoco><worldbody>" + b"<body/>" * n + b"</worldbody></mujoco>"}


def mjcf_activations(n: int) -> Files:
    actuator = f'<general site="s" dyntype="user" actdim="{n}"/>'
    return {"a.xml": f"<mujoco><worldbody/><actuator>{actuator}</actuator></mujoco>".encode()}


def nested_formats(n: int) -> Files:
    """ULog formats of arrays of formats of arrays: 100ⁿ fields."""
    file = b"ULog\x01\x12\x35\x01" + bytes(8) + message("B", bytes(40))
    for i in range(n):
        file += message("F", f"f{i}:f{i + 1}[100] x;".encode())
    file += message("F", f"f{n}:float x;".encode()) + message("A", struct.pack("<BH", 0, 1) + b"f0")
    return {"a.ulg": file}


def empty_frames(n: int) -> Files:
    """Blackbox frames of one byte that encode 255 numbers."""
    names = ",".join(["time", *(f"x{i}" for i in range(254))])
    null = ",".join(["9"] * 255)
    zeros = ",".join(["0"] * 255)
    head = "H Product:Blackbox flight data recorder by Nicholas Sherlock\nH Data version:2\n"
    head += (
        f"H Field I name:{names}\nH Field I signed:{zeros}\nH Field I predictor:{zeros}\nH Field I encoding:{null}\n"
    )
    head += f"H Field P predictor:6,{zeros[2:]}\nH Field P encoding:{null}\n"
    return {"a.bbl": head.encode() + b"I" + b"P" * n}


def recursive_view(n: int) -> Files:
    """A ROS 2 bag of SQLite whose messages are an endless query."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(f"""
        CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT);
        INSERT INTO topics VALUES (1, '/motors', 'actuator_msgs/msg/Actuators', 'cdr');
        CREATE VIEW messages AS WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers LIMIT {n})
            SELECT 1 AS topic_id, i AS timestamp, x'00' AS data FROM numbers;
    """)
    data = connection.serialize()
    connection.close()
    return {"a.db3": data}


def bag_chunk(n: int) -> Files:
    """A ROS 2 bag whose chunk claims to be small, and unpacks to n MB."""
    out = io.BytesIO()
    writer = Writer(out, compression=CompressionType.LZ4)
    writer.start(profile="ros2", library="")
    schema = writer.register_schema("actuator_msgs/msg/Actuators", "ros2msg", b"")
    channel = writer.register_channel("/motors", "cdr", schema)
    writer.add_message(channel, 1, b"\0\1\0\0" + bytes(40), 1)
    packed = _lz4_zeros(n)
    with patch("lz4.frame.compress", lambda data: packed):
        writer.finish()
    return {"a.mcap": out.getvalue()}


@lru_cache
def _lz4_zeros(megabytes: int) -> bytes:
    return bytes(lz4.frame.compress(bytes(megabytes << 20)))


def recording_chunks(n: int) -> Files:
    """A recording with n chunks, each of 16 MB of zeros in a few bytes."""
    from .recordings import records, serialise_records, stored_recordings

    opening = records(stored_recordings()[0])[:12]
    data = struct.pack("<BQ", 0x90, (1 << 24) - 9) + bytes((1 << 24) - 9)
    packed = zstandard.compress(data)
    body = struct.pack("<QQQI", 0, 1, len(data), zlib.crc32(data)) + struct.pack("<I4s", 4, b"zstd")
    return {
        "a.mcap": MAGIC
        + serialise_records(opening)
        + serialise_records([(6, body + struct.pack("<Q", len(packed)) + packed)]) * n
    }


def waypoints(n: int) -> Files:
    return {"a.csv": b"".join(b"%d,0,1\n" % (i % 2) for i in range(n))}


def policy(path: Path) -> Any:
    return load_policy(path.parent)


TOO_MANY_PARTS = r"has a dotted key of \d+ parts; expected at most 32"
TOO_MANY_BYTES = "has too many bytes after decompression; expected at most 256 MB"
BOMBS = {
    **{
        f"dotted key of a {kind}": Bomb(dotted_key(name), read, 60_000, TOO_MANY_PARTS)
        for kind, name, read in (
            ("vehicle", "a.toml", vehicle),
            ("scenario", "a.toml", load_scenario),
            ("campaign", "a.toml", load_campaign),
            ("parts list", "a.toml", read_parts_list),
            ("track", "a.toml", load_track),
            ("blade", "a.toml", blade),
            ("sensor", "a.toml", part),
            ("policy", "policy.toml", policy),
        )
    },
    "tables of a vehicle": Bomb(
        lambda n: {"a.toml": b"".join(b"[k%d%s]\n" % (i, b".a" * 25) for i in range(n))},
        vehicle,
        60_000,
        "has too many keys and values; expected at most 300,000",
    ),
    "rotors of a vehicle": Bomb(
        lambda n: {"a.toml": b"schema = 1\n" + b"[[rotors]]\n" * n},
        vehicle,
        20_000,
        "rotors has 20000 entries: expected at most 64",
    ),
    "lines of a CSV": Bomb(
        lambda n: {"a.csv.gz": gzip_blocks(NANOBENCH.encode() + b"\n", b"1\n", n)},
        read_log,
        250,
        "line 2 is not a row of numbers",
    ),
    "one line of a CSV": Bomb(
        lambda n: {"a.csv.gz": gzip_blocks(NANOBENCH.encode() + b"\n", b"1,", n)},
        read_log,
        250,
        "has a line that is too long; expected at most 1 MB",
    ),
    "blank lines of a DataFlash text": Bomb(
        lambda n: {"a.bin.gz": gzip_blocks(b"FMT, 128, 89, FMT, BBnNZ, Type\n", b"x" * 4095 + b"\n", n)},
        read_log,
        300,
        TOO_MANY_BYTES,
    ),
    "formats of a ULog": Bomb(nested_formats, read_log, 6, "has too many fields; expected at most 200,000"),
    "frames of a blackbox log": Bomb(empty_frames, read_log, 300_000, "has too many numbers; expected at most"),
    "a view of a ROS 2 bag": Bomb(recursive_view, read_log, 1 << 60, "has no table 'messages'"),
    "a chunk of a ROS 2 bag": Bomb(bag_chunk, read_log, 500, "has a chunk that differs from its stated size"),
    "chunks of a recording": Bomb(recording_chunks, read_recording, 20, TOO_MANY_BYTES),
    "properties of a xacro": Bomb(
        property_doubling, read_aircraft, 30, "has too many elements and evaluations; expected at most 50,000"
    ),
    "includes of a xacro": Bomb(include_fan, read_aircraft, 9, "has too many included files; expected at most 100"),
    "elements of an SDF": Bomb(
        lambda n: {"a.sdf": b"<sdf>" + b"<a/>" * n + b"</sdf>"},
        read_aircraft,
        3_000_000,
        "has too many elements; expected at most 200,000",
    ),
    "names of an SDF": Bomb(
        scoped_names, read_aircraft, 1900, "has too many bytes of scoped names; expected at most 16 MB"
    ),
    "lists of a RotorPy file": Bomb(doubled_lists, read_aircraft, 30, "has too many values; expected at most 20,000"),
    "includes of an MJCF": Bomb(mjcf_includes, read_aircraft, 9, "has too many included files; expected at most 100"),
    "bodies of an MJCF": Bomb(mjcf_bodies, read_aircraft, 20_000, "has 20000 bodies: expected at most 2000"),
    "keyframes of an MJCF": Bomb(
        lambda n: {"a.xml": b'<mujoco><size nkey="%d"/><worldbody><body><freejoint/></body></worldbody></mujoco>' % n},
        read_aircraft,
        1_000_000_000,
        "has no actuators|mass and inertia",
    ),
    "activations of an MJCF": Bomb(
        mjcf_activations, read_aircraft, 10**9, "actdim = '1000000000': expected at most 100"
    ),
    "values of an ArduPilot frame": Bomb(
        lambda n: {"a.json": b'{"mass": 1, "hoverThrOut": 0.3, "x": [' + b"[]," * n + b"[]]}"},
        read_aircraft,
        4_000_000,
        "has too many values; expected at most 5,000,000",
    ),
    "points of a waypoint file": Bomb(
        waypoints, read_waypoints, 20_000, "has too many waypoints; expected at most 1,000"
    ),
    "a path of a waypoint file": Bomb(
        lambda n: {"a.csv": b"0,0,1\n%d,0,1\n" % n}, read_waypoints, 10**12, r"has a path of 1e\+12 m; expected at most"
    ),
    "cells of a height map": Bomb(
        lambda n: {"a.csv": b"0\n" * n},
        lambda path: HeightMap.from_file(path, 1.0),
        6_000_000,
        "has too many cells; expected at most 5,000,000",
    ),
    "rows of a wind table": Bomb(
        lambda n: {"a.csv": b"time,wind_x,wind_y,wind_z\n" + b"0,0,0,0\n" * n},
        RecordedWind.from_file,
        2_000_000,
        "has too many cells; expected at most 5,000,000",
    ),
}


def make(rng: Random) -> Case:
    """Create a bomb of any size up to that of the test."""
    name = rng.choice(sorted(BOMBS))
    bomb = BOMBS[name]
    scale = rng.choice((1, 2, bomb.scale // 100 + 1, bomb.scale // 2 + 1, bomb.scale))
    return Case((name, bomb.build(scale)), (f"{name}, size {scale}",))


def read(bomb: tuple[str, Files], folder: Path) -> None:
    """Read it with the reader of its format; the result of a small one is checked elsewhere."""
    name, files = bomb
    beside = folder / "bomb"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    for file, data in files.items():
        (beside / file).write_bytes(data)
    BOMBS[name].read(beside / next(iter(files)))


SIZE_BOMBS = Reader("bomb", lambda: (), make, read, (ValueError,), lines=True)
