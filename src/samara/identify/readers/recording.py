"""Our own recordings as flight logs: the state stands for motion capture, sensors that were recorded for themselves."""

from pathlib import Path
from typing import Any

import numpy as np

from samara.identify.log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.signals import signal
from samara.record.load import load_run
from samara.record.run import Track
from samara.record.streams import is_reading
from samara.record.table import Table


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Every drone of the recording"""
    run = load_run(path)
    notes = (f"the recording is {run.problem}",) if run.problem else ()
    several = len(run.tracks) > 1
    return [_flight(track, f"{path.stem}/{track.name}" if several else path.stem, notes) for track in run.tracks]


def _flight(track: Track, name: str, notes: tuple[str, ...]) -> FlightLog:
    if not track.vehicle.rotors:
        raise ValueError(f"{track.name}: is driven by a wrench; expected a vehicle with rotors")
    state = track.tables["state"]
    imu, battery = (_sensor(track, fields) for fields in (("specific_force_B.x", "omega_B.x"), ("voltage", "current")))
    return FlightLog(
        name,
        "samara",
        "samara",
        Signal(track.command_time, _shares(track)),
        rotor_speed=_columns(state, "rotor_speed"),
        position=_columns(state, "p_W"),
        velocity=_columns(state, "v_W"),
        attitude=_columns(state, "q_WB"),
        rate=_columns(state if imu is None else imu, "omega_B"),
        specific_force=None if imu is None else _columns(imu, "specific_force_B"),
        voltage=None if battery is None else signal(battery.time, [battery["voltage"]]),
        truth=MOTION_CAPTURE,
        notes=notes,
    )


def _shares(track: Track) -> np.ndarray[Any, Any]:
    """Commands (rotors, n) as shares of the largest: a vehicle that is told speeds is told Ω / Ω_max"""
    told = track.command.T
    if track.vehicle.structure.actuation.name != "speed":
        return told
    return told / np.array([rotor.motor.speed_max for rotor in track.vehicle.rotors])[:, None]


def _sensor(track: Track, fields: tuple[str, ...]) -> Table | None:
    """The first recorded sensor that has these fields"""
    readings = (table for table in track.tables.values() if is_reading(table) and len(table.rows))
    return next((table for table in readings if set(fields) <= set(table.fields)), None)


def _columns(table: Table, name: str) -> Signal:
    return Signal(table.time, table[name].T)
