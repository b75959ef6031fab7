"""What a drone of a scenario knows of itself: its `sensors`, and the `estimator` that makes a state of their readings."""

import math
from pathlib import Path
from typing import Any

from samara.core.algebra import quat_from_euler
from samara.core.names import first_twice
from samara.core.shipped import is_file
from samara.core.toml import Table
from samara.estimate.complementary import Gains, complementary
from samara.estimate.ekf import ekf
from samara.estimate.fusion import Fusion, Start
from samara.estimate.simple import TRUTH, Estimator, Noise, delayed_estimator, noisy_estimator
from samara.physics.types import Vehicle
from samara.scenario.scenario_file.beside import Beside
from samara.scenario.timeline import MICROSECONDS, Rates
from samara.sensors.earth import Place
from samara.sensors.registry import EXACT, altered, parse_part, part, part_names
from samara.sensors.sensor import Sensor


def read_sensors(table: Table, beside: Beside, where: Place) -> tuple[Sensor, ...]:
    entries = table.take("sensors", "a list", [])
    if not isinstance(entries, list) or not all(isinstance(entry, (str, dict)) for entry in entries):
        raise table.error("sensors", entries, "a list of names, or of tables with a part")
    sensors = [_sensor(table, k, entries, beside, where) for k in range(len(entries))]
    if (twice := first_twice(sensor.name for sensor in sensors)) is not None:
        raise table.error("sensors", entries, f"a name of its own for each; two are called {twice!r}")
    return tuple(sensors)


def _sensor(table: Table, k: int, entries: list[Any], beside: Beside, where: Place) -> Sensor:
    """One without error by its name, or a part as it is, or a table of a part, its mounting, and other numbers for it."""
    entry = {"part": entries[k]} if isinstance(entries[k], str) else entries[k]
    own = Table(entry, table.file, f"{table.name('sensors')}[{k}]")
    kind = own.text("part")
    if kind in EXACT and not own.entries:
        return EXACT[kind](where)
    if kind not in part_names() and not is_file(kind):
        known = ", ".join((*EXACT, *part_names()))
        raise table.error("sensors", entries, f"a list of names among {known}, or of .toml files, each once")
    name, r_B = own.text("name", ""), own.vector("r_B", (0.0, 0.0, 0.0))
    angles = own.vector("rotation_deg", (0.0, 0.0, 0.0))
    q_BS = quat_from_euler(*(math.radians(angle) for angle in angles))
    with own.at():
        if is_file(kind):
            text = beside.bytes_of(own, "part", kind).decode("utf-8")
            made = altered(parse_part(text, Path(kind).name), **own.entries)
        else:
            made = part(kind, **own.entries)
        return made.sensor(r_B=r_B, q_BS=q_BS, where=where, name=name)


def read_estimator(table: Table, rates: Rates, sensors: tuple[Sensor, ...], vehicle: Vehicle) -> Estimator | Fusion:
    """The one that is named; without a name the Kalman filter where the sensors allow it, else the truth"""
    if "estimator" not in table:
        kinds = {sensor.kind for sensor in sensors}
        if "imu" not in kinds or not kinds & {"gps", "motion_capture"}:
            return TRUTH
        table.entries["estimator"] = "ekf"
    own = table.kind_table("estimator")
    kind = own.text("kind", choices=("truth", "noisy", "delayed", "ekf", "complementary"))
    period = rates.periods()["estimator"] / MICROSECONDS
    if kind in ("ekf", "complementary"):
        return _fusion(own, kind, sensors, period, vehicle["gravity"].acceleration)
    if kind == "truth":
        own.finish()
        return TRUTH
    delay = own.number("delay") if kind == "delayed" or "delay" in own else 0.0
    source = TRUTH
    with own.at():
        if kind == "noisy":
            source = noisy_estimator(Noise(**own.given_numbers(Noise._fields)))
        own.finish()
        return delayed_estimator(delay, period, source) if delay else source


def _fusion(own: Table, kind: str, sensors: tuple[Sensor, ...], period: float, gravity: float) -> Fusion:
    """`start` is how well the beginning is known; the complementary filter's gains may be given too."""
    beginning = own.optional_table("start")
    start = Start()
    if beginning is not None:
        start = Start(**beginning.given_numbers(Start._fields, above=0.0))
        beginning.finish()
    gains = own.given_numbers(Gains._fields, above=0.0) if kind == "complementary" else {}
    own.finish()
    with own.at():
        if kind == "ekf":
            return ekf(sensors, period, gravity, start)
        return complementary(sensors, period, gravity, start, Gains(**gains))
