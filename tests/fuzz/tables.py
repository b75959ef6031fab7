"""Tables: waypoints, winds, height maps, flights of NanoBench and propellers of UIUC, as CSV, gzip, npy and npz."""

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from samara.identify.log_checks import repair_log
from samara.identify.readers import read_log
from samara.plan.waypoint_file import leg_durations, read_waypoints
from samara.propeller.blade import read_uiuc
from samara.wind.wind_field import RecordedWind, WindField
from samara.world.obstacles import HeightMap

from .law import Case, Reader
from .mutate import mutate_bytes, mutate_table

WAYPOINTS = "x,y,z,yaw,time\n0,0,1,0,0\n1,0,1.5,90,2\n1,1,2,180,4.5\n0,1,1,-90,7\n"
REPLAY = "time,wind_x,wind_y,wind_z\n" + "".join(f"{0.5 * k},{k},{-k},0.1\n" for k in range(6))
FIELD = "x,y,z,wind_x,wind_y,wind_z\n" + "".join(
    f"{10 * i},{10 * j},{5 * k},{i},{j},{k}\n" for i in range(2) for j in range(3) for k in range(2)
)
HEIGHTS = "0,0.1,0.2\n0,0.2,0.3\n0,0.1,0.1\n"


def _flight() -> str:
    from samara.identify.readers import crazyflie

    names = (*crazyflie._COLUMNS, *crazyflie._IMU)
    rows = [
        [0.01 * k, 0, 0, 0.01, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, *[min(100 * k, 60000)] * 4, 3.9, 0, 0, 1, 0, 0, 0]
        for k in range(crazyflie._REST_SAMPLES + 20)
    ]
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n"


GEOMETRY = "BladeName,Family,B,D,P,r/R,c/R,beta\n" + "".join(
    f"apc,apc,2,10,5,{r},0.1,{30 - 20 * r}\n" for r in (0.15, 0.4, 0.7, 1.0)
)
PERFORMANCE = "PropName,BladeName,Family,B,D,P,J,N,CT,CP,eta\n" + "".join(
    f"apc 10,apc,apc,2,10,5,{0.1 * k},4000,0.1,0.05,0.4\n" for k in range(4)
)


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


_AXES: dict[str, Any] = {"x": np.arange(2.0), "y": np.arange(3.0), "z": np.arange(2.0), "wind": np.ones((2, 3, 2, 3))}
_MAP: dict[str, Any] = {"x": np.arange(2.0), "y": np.arange(3.0), "z": np.ones((2, 3))}

Given = tuple[str, dict[str, bytes]]  # the table's type, and its files


def _sources() -> dict[str, dict[str, bytes]]:
    return {
        "waypoints": {"own.csv": WAYPOINTS.encode()},
        "replay": {"own.csv": REPLAY.encode()},
        "field": {"own.csv": FIELD.encode()},
        "field npz": {"own.npz": _npz(**_AXES)},
        "heights": {"own.csv": HEIGHTS.encode()},
        "heights npy": {"own.npy": _npy(np.ones((3, 3)))},
        "heights npz": {"own.npz": _npz(**_MAP)},
        "flight": {"own.csv": _flight().encode()},
        "flight gz": {"own.csv.gz": gzip.compress(_flight().encode(), mtime=0)},
        "propellers": {"volume1_geom.csv": GEOMETRY.encode(), "volume1_exp.csv": PERFORMANCE.encode()},
    }


SOURCES = _sources()
READ: dict[str, Callable[[Path], Any]] = {
    "waypoints": lambda path: (points := read_waypoints(path), leg_durations(points)),
    "replay": RecordedWind.from_file,
    "field": WindField.from_file,
    "heights": lambda path: HeightMap.from_file(path, None if path.suffix == ".npz" else 1.0),
    "flight": lambda path: [repair_log(log) for log in read_log(path)],
    "propellers": lambda path: read_uiuc(path.parent),
}


def seeds() -> list[Case]:
    """Return one of each."""
    return [Case((name, files)) for name, files in SOURCES.items()]


def make(rng: Random) -> Case:
    """Create one with an error in its rows, its arrays or its bytes."""
    kind = rng.choice(list(SOURCES))
    files = dict(SOURCES[kind])
    name = rng.choice(list(files))
    data = files[name]
    if rng.random() < 0.15:
        files[name], changes = mutate_bytes(data, rng)
    elif name.endswith((".npz", ".npy")):
        files[name], changes = _forge_arrays(kind, rng)
    else:
        packed = name.endswith(".gz")
        text, changes = mutate_table((gzip.decompress(data) if packed else data).decode(), rng)
        encoded = text.encode("utf-8", "surrogatepass")
        files[name] = gzip.compress(encoded, mtime=0) if packed else encoded
    return Case((kind, files), (kind, *changes))


def _forge_arrays(kind: str, rng: Random) -> tuple[bytes, list[str]]:
    """Return arrays of wrong shapes and types in a valid file."""
    odd = rng.choice((
        np.array([]), np.array(0.0), np.zeros((2, 2)), np.array([np.nan, 1.0]), np.array([np.inf, 1.0]), np.array([1.0, 0.0]),
        np.array(["a", "b"]), np.array([b"a"]), np.array([1j, 2]), np.array([True, False]), np.array([2**63], dtype=np.uint64),
        np.zeros((0, 3)), np.zeros((2, 3, 2, 3), dtype=">f4"), np.array(["2026-01-01"], dtype="M8[D]"), np.zeros(2, "f8,i4"),
        np.full((2, 3), np.nan), np.full((2, 3, 2, 3), 1e308), np.array([1e308, -1e308]), np.zeros((1,) * 32),
    ))  # fmt: skip
    if kind == "heights npy":
        return _npy(odd), [f"an array {odd.dtype} {odd.shape}"]
    arrays = dict(_AXES if kind == "field npz" else _MAP)
    key = rng.choice(sorted(arrays))
    arrays[key] = odd
    if rng.random() < 0.2:
        del arrays[key]
    data = _npz(**arrays)
    if rng.random() < 0.1:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(
                rng.choice(("x.npy", "../x.npy", "/x")), rng.choice((b"", b"\x93NUMPY", rng.randbytes(80)))
            )
        data = out.getvalue()
    return data, [f"{key} is {odd.dtype} {odd.shape}"]


def read(case_input: Given, folder: Path) -> Any:
    """Read the table."""
    kind, files = case_input
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return READ[kind.partition(" ")[0]](folder / next(iter(files)))


TABLES = Reader("table", seeds, make, read, (ValueError,), share=5)
