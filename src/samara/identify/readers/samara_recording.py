"""Our own recordings as flight logs: the state stands for motion capture, sensors that were recorded for themselves.

Of each drone the longest time in the air: a recording knows when its drones stand, and motors that turn on the ground tell
nothing of what a vehicle does in the air.
"""

from pathlib import Path

import numpy as np

from samara.core.types import Array
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import signal
from samara.record.flight_streams import is_reading
from samara.record.load import load_run
from samara.record.run import Run, Track
from samara.record.streams import Table
from samara.scenario.flight_events import Fact


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Every drone of the recording"""
    run = load_run(path)
    notes = (f"the recording is {run.problem}",) if run.problem else ()
    several = len(run.tracks) > 1
    return [
        _flight(track, f"{path.stem}/{track.name}" if several else path.stem, notes, _in_the_air(run, k))
        for k, track in enumerate(run.tracks)
    ]


def _in_the_air(run: Run, drone: int) -> tuple[float, float]:
    """When it left the ground for the longest time and came back to it; all of the recording without a word of it  [s]"""
    end = float(run.tracks[drone].time[-1])
    own = [
        each for each in run.facts if each.drone == drone and each.fact in (Fact.TOOK_OFF, Fact.LANDED, Fact.CRASHED)
    ]
    if not own:
        return 0.0, end
    left = 0.0 if own[0].fact is not Fact.TOOK_OFF else None
    longest = (0.0, 0.0)
    for each in own:
        if each.fact is Fact.TOOK_OFF:
            left = each.time if left is None else left
        elif left is not None:
            longest, left = max(longest, (left, each.time), key=lambda spell: spell[1] - spell[0]), None
    if left is not None:
        longest = max(longest, (left, end), key=lambda spell: spell[1] - spell[0])
    return longest


def _flight(track: Track, name: str, notes: tuple[str, ...], aloft: tuple[float, float]) -> FlightLog:
    if not track.vehicle.rotors:
        raise ValueError(f"{track.name}: is driven by a wrench; expected a vehicle with rotors")
    state = track.tables["state"]
    imu, battery = (_sensor(track, fields) for fields in (("specific_force_B.x", "omega_B.x"), ("voltage", "current")))

    def during(own: Signal) -> Signal:
        kept = (own.time >= aloft[0]) & (own.time <= aloft[1])
        return Signal(own.time[kept], own.values[:, kept])

    return FlightLog(
        name,
        "samara",
        "samara",
        during(Signal(track.command_time, _shares(track))),
        rotor_speed=during(_columns(state, "rotor_speed")),
        position=during(_columns(state, "p_W")),
        velocity=during(_columns(state, "v_W")),
        attitude=during(_columns(state, "q_WB")),
        rate=during(_columns(state if imu is None else imu, "omega_B")),
        specific_force=None if imu is None else during(_columns(imu, "specific_force_B")),
        voltage=None if battery is None else during(signal(battery.time, [battery["voltage"]])),
        truth=MOTION_CAPTURE,
        notes=notes,
    )


def _shares(track: Track) -> Array:
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
