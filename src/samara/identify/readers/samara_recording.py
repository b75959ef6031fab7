"""Samara recordings as flight logs: the true state serves as motion capture, recorded sensors as the IMU and battery.

The log of each drone is its longest airborne interval: the recording marks take-offs and landings, and rotors on the ground
contain no information about flight.
"""

from pathlib import Path

import numpy as np

from samara.core.types import Array
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers.registry import signal
from samara.record.flight_streams import is_reading
from samara.record.load import load_run
from samara.record.run import DroneRecord, Run
from samara.record.streams import RecordedStream
from samara.scenario.flight_events import OccurrenceType


def read(path: Path, columns: object = None) -> list[FlightLog]:
    """Read every drone of the recording."""
    run = load_run(path)
    notes = (f"the recording is {run.problem}",) if run.problem else ()
    several = len(run.drone_records) > 1
    return [
        _flight(track, f"{path.stem}/{track.name}" if several else path.stem, notes, _airborne_interval(run, k))
        for k, track in enumerate(run.drone_records)
    ]


def _airborne_interval(run: Run, drone: int) -> tuple[float, float]:
    """Return the longest interval between take-off and landing; the complete recording if it marks neither  [s]."""
    end = float(run.drone_records[drone].time[-1])
    occurrences = [
        occurrence
        for occurrence in run.occurrences
        if occurrence.drone == drone
        and occurrence.type in (OccurrenceType.TOOK_OFF, OccurrenceType.LANDED, OccurrenceType.CRASHED)
    ]
    if not occurrences:
        return 0.0, end
    take_off = 0.0 if occurrences[0].type is not OccurrenceType.TOOK_OFF else None
    longest = (0.0, 0.0)
    for occurrence in occurrences:
        if occurrence.type is OccurrenceType.TOOK_OFF:
            take_off = occurrence.time if take_off is None else take_off
        elif take_off is not None:
            longest, take_off = (
                max(longest, (take_off, occurrence.time), key=lambda interval: interval[1] - interval[0]),
                None,
            )
    if take_off is not None:
        longest = max(longest, (take_off, end), key=lambda interval: interval[1] - interval[0])
    return longest


def _flight(track: DroneRecord, name: str, notes: tuple[str, ...], airborne: tuple[float, float]) -> FlightLog:
    if not track.vehicle.rotors:
        raise ValueError(f"{track.name}: is driven by a wrench; expected a vehicle with rotors")
    state = track.tables["state"]
    imu, battery = (_sensor(track, fields) for fields in (("specific_force_B.x", "omega_B.x"), ("voltage", "current")))

    def clip_to_flight(recorded: Signal) -> Signal:
        is_airborne = (recorded.time >= airborne[0]) & (recorded.time <= airborne[1])
        return Signal(recorded.time[is_airborne], recorded.values[:, is_airborne])

    return FlightLog(
        name,
        "samara",
        "samara",
        clip_to_flight(Signal(track.command_time, _command_fractions(track))),
        rotor_speed=clip_to_flight(_columns(state, "rotor_speed")),
        position=clip_to_flight(_columns(state, "p_W")),
        velocity=clip_to_flight(_columns(state, "v_W")),
        attitude=clip_to_flight(_columns(state, "q_WB")),
        rate=clip_to_flight(_columns(state if imu is None else imu, "omega_B")),
        specific_force=None if imu is None else clip_to_flight(_columns(imu, "specific_force_B")),
        voltage=None if battery is None else clip_to_flight(signal(battery.time, [battery["voltage"]])),
        truth=MOTION_CAPTURE,
        notes=notes,
    )


def _command_fractions(track: DroneRecord) -> Array:
    """Return the commands (rotors, n) as fractions of the largest: Ω / Ω_max for a vehicle with speed commands."""
    commands = track.command.T
    if track.vehicle.structure.actuation.name != "speed":
        return commands
    return commands / np.array([rotor.motor.speed_max for rotor in track.vehicle.rotors])[:, None]


def _sensor(track: DroneRecord, fields: tuple[str, ...]) -> RecordedStream | None:
    """Return the first recorded sensor with these fields."""
    readings = (table for table in track.tables.values() if is_reading(table) and len(table.rows))
    return next((table for table in readings if set(fields) <= set(table.fields)), None)


def _columns(table: RecordedStream, name: str) -> Signal:
    return Signal(table.time, table[name].T)
