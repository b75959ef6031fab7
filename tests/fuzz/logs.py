"""Flight logs: the Crazyflie's card, PX4's, ArduPilot's, Betaflight's, CSV of three kinds, read and checked as before a fit."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from support.repository import RECORDINGS

from samara.identify.log_checks import check, repair_log
from samara.identify.readers import read_log

from .flight_logs import PX4_ROWS, as_text, card, dataflash, flight_messages, ulog
from .law import Case, Reader
from .mutate import mutate_bytes, mutate_document, mutate_table

MAP = {
    "time": "t",
    "motors": ["a", "b", "c"],
    "rate": ["x", "y", "z"],
    "rate_unit": "deg/s",
    "motor_range": [1000, 2000],
}
_ROWS = [(0.01 * k, *(1500 + 400 * np.sin(0.3 * k + i) for i in range(3)), k, -k, 0.5) for k in range(1200)]
_CSV = "t,a,b,c,x,y,z\n" + "".join(",".join(f"{v:.6g}" for v in row) + "\n" for row in _ROWS)
_FIRMWARE = "timestamp,motor.m1,motor.m2,motor.m3,motor.m4,gyro.x,gyro.y,gyro.z\n" + "".join(
    f"{10 * k},30000,31000,32000,33000,1,2,3\n" for k in range(300)
)

_BLACKBOX = RECORDINGS / "betaflight.bbl"
read_log(_BLACKBOX)  # compiles its reader into the disk cache before file accesses are checked

Given = tuple[str, bytes, dict[str, Any] | None]

SOURCES: dict[str, Given] = {
    "card": ("log00", card(), None),
    "card of version 1": ("log00", card(1), None),
    "ulog": ("own.ulg", ulog(PX4_ROWS, [("THR_MDL_FAC", 0.3)]), None),
    "dataflash": ("own.bin", dataflash(flight_messages()), None),
    "dataflash as text": ("own.log", as_text(flight_messages()), None),
    "blackbox": ("own.bbl", _BLACKBOX.read_bytes()[:40_000], None),
    "mapped": ("own.csv", _CSV.encode(), MAP),
    "firmware": ("own.csv", _FIRMWARE.encode(), None),
}


def seeds() -> list[Case]:
    """Return one of each."""
    return [Case(source) for source in SOURCES.values()]


def make(rng: Random) -> Case:
    """Create one with an error in its bytes, its rows or its map."""
    kind = rng.choice(list(SOURCES))
    name, data, columns = SOURCES[kind]
    if columns is not None and rng.random() < 0.5:
        columns, changes = mutate_document(columns, rng)
    elif name.endswith(".csv") and rng.random() < 0.7:
        text, changes = mutate_table(data.decode(), rng)
        data = text.encode("utf-8", "surrogatepass")
    else:
        data, changes = mutate_bytes(data, rng)
    return Case((name, data, columns), (kind, *changes))


def read(case_input: Given, folder: Path) -> Any:
    """Check a log, and read it without the defects found."""
    name, data, columns = case_input
    (folder / name).write_bytes(data)
    return [(check(log), repair_log(log)) for log in read_log(folder / name, columns)]


LOGS = Reader("log", seeds, make, read, (ValueError,), share=3)
