"""What a drone of a scenario knows of itself: its `sensors`, and the `estimator` that makes a state of their readings."""

import math
from pathlib import Path
from typing import Any

from samara.core.algebra import quat_from_euler
from samara.core.argument import first_twice
from samara.core.toml import Table, is_file
from samara.estimate.fusion import EstimatorSetup, Fusion, Options, can_fuse
from samara.estimate.registry import ESTIMATORS
from samara.estimate.simple import TRUTH, Estimator
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
    """The estimator that is named; without a name the Kalman filter if the sensors allow it, else the truth"""
    if "estimator" not in table:
        if not can_fuse(sensors):
            return TRUTH
        table.entries["estimator"] = "ekf"
    block = table.kind_table("estimator")
    estimator_type = ESTIMATORS[block.text("kind", choices=ESTIMATORS)]
    setup = EstimatorSetup(sensors, rates.periods()["estimator"] / MICROSECONDS, vehicle["gravity"].acceleration)
    records = {options.argument: _record(block, options) for options in estimator_type.options}
    block.finish()
    with block.at():
        estimator: Estimator | Fusion = estimator_type.build(setup, **records)
        return estimator


def _record(block: Table, options: Options) -> Any:
    """The record of an estimator's options, with its defaults for the keys that are missing"""
    table = block.optional_table(options.table) if options.table else block
    if table is None:
        return options.record()
    numbers = {
        key: table.number(key, above=options.above)
        for key in options.record._fields
        if key in table or key not in options.record._field_defaults
    }
    if options.table:
        table.finish()
    return options.record(**numbers)
