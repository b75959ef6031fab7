"""Flight logs as runs, so that whatever shows a recording shows a log: `load_flight("flight.ulg").plot()`.

A run from a log holds what the log holds. A signal that was not logged has no column, and there is no reference, no
environment and no metric that needs them. The vehicle is a placeholder with the log's motors, for pictures in space.
"""

import math
from pathlib import Path

import numpy as np

from samara.core.algebra import Vec3
from samara.core.sanitise import escape_control_characters
from samara.core.tree import flatten, leaf_names
from samara.core.types import Array
from samara.identify.flight_log import FlightLog, Signal
from samara.identify.readers.registry import FORMATS, Columns, detect_format, present_signals, read_log
from samara.identify.signal_agreement import interpolate_signal, unwrap_quaternions
from samara.identify.start_vehicle import SAMARA_FORMAT
from samara.link.motor_outputs import FRAME_BY_ROTOR_COUNT
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import Vehicle
from samara.record.flight_streams import SENSOR_SCHEMA_PREFIX, field_unit
from samara.record.load import load_run
from samara.record.recorder import LogLine
from samara.record.run import DroneRecord, Run
from samara.record.streams import RecordedStream
from samara.vehicles.build import Provenance, build_vehicle
from samara.vehicles.limits import replace_dc_motors
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.rotor_numbering import NUMBERINGS

DRONE = "drone"
STATE_FIELDS = {"position": "p_W", "velocity": "v_W", "attitude": "q_WB", "rate": "omega_B"}
MODEL, ARM_M, MASS_KG, TIP_GAP = "iris", 0.2, 1.0, 0.9
"""Of the placeholder: the vehicle with its rotors, arm and mass, and radius over half the distance between rotors."""
TITLES = {log_format.name: log_format.title for log_format in FORMATS}


def load_flight(path: str | Path, columns: Columns = None, *, all_rows: bool = True) -> Run:
    """Load a recording or a flight log as a run; of a log with several flights the longest.

    Args:
        path: a recording (run.mcap) or a log in any format of `samara.identify.read_log`.
        columns: the map of a CSV's columns or of a bag's topics.
        all_rows: load all rows of a recording, as in `samara.load_run`.
    """
    if is_recording(path, columns):
        return load_run(path, all_rows=all_rows)
    logs = read_log(path, columns)
    longest = max(logs, key=duration)
    notes = (f"the file holds {len(logs)} flights; this is {longest.name}, the longest",) if len(logs) > 1 else ()
    return run_from_log(longest, notes)


def is_recording(path: str | Path, columns: Columns = None) -> bool:
    """Whether a file is a recording rather than a flight log; raise ValueError if it is neither."""
    if not Path(path).exists():
        return True  # `load_run` reports it
    try:
        return detect_format(Path(path), columns).name == SAMARA_FORMAT
    except ValueError as error:
        if Path(path).suffix == ".mcap":
            return True
        if Path(path).suffix.lower() == ".csv":
            raise
        titles = ", ".join(TITLES[name] for name in TITLES if name != SAMARA_FORMAT)
        shown = escape_control_characters(str(path))
        raise ValueError(
            f"{shown}: is neither a recording nor a flight log; expected a run.mcap of Samara, {titles} (--columns)"
        ) from error


def duration(log: FlightLog) -> float:
    """Return the time from the first to the last sample  [s]."""
    ends = [float(signal.time[-1]) for signal in present_signals(log).values()]
    starts = [float(signal.time[0]) for signal in present_signals(log).values()]
    return max(ends) - min(starts)


def describe_log(log: FlightLog) -> list[tuple[str, str]]:
    """Describe a flight in a log: duration, source of truth, motors, and the signals with their rates and units."""
    units = {"command": "0 to 1", "specific_force": "m/s^2", "voltage": "V", "rotor_speed": "rad/s", "attitude": "1"}
    units |= {name: field_unit(STATE_FIELDS[name]) for name in ("position", "velocity", "rate")}
    lines = [
        ("flight", log.name),
        ("format", TITLES.get(log.format, log.format)),
        ("duration", f"{duration(log):.3f} s"),
        ("truth", log.truth or "none: no position, velocity or attitude"),
        ("motors", f"{len(log.command.values)}, numbered as {log.numbering}"),
    ]
    for name, signal in present_signals(log).items():
        span = float(signal.time[-1] - signal.time[0])
        rate = f", {(len(signal.time) - 1) / span:.6g} Hz" if span > 0.0 else ""
        lines.append((name, f"{units[name]}, {len(signal.time)} samples{rate}"))
    return lines + [("note", note) for note in log.notes]


def run_from_log(log: FlightLog, notes: tuple[str, ...] = ()) -> Run:
    """Convert a flight log into a run of one drone; `notes` and those of the log become lines of its log.

    The stream `state` has the times of the fastest signal of the motion, from the latest first sample to the earliest last
    one; slower signals are interpolated. Commands, accelerometer and voltage keep their times.
    """
    signals = {name: clean for name, signal in present_signals(log).items() if (clean := _finite(signal)) is not None}
    if "command" not in signals:
        raise ValueError(f"{log.name}: holds one motor command; expected a flight")
    state, clipped = _state(signals)
    motors = [f"motor[{i}]" for i in range(len(log.command.values))]
    tables = {"state": state, "command": _table("samara.Command", motors, ["1"] * len(motors), signals["command"])}
    if "specific_force" in signals:
        names = [f"specific_force_B.{axis}" for axis in "xyz"]
        schema = f"{SENSOR_SCHEMA_PREFIX}accelerometer"
        tables["accelerometer"] = _table(schema, names, ["m/s^2"] * 3, signals["specific_force"])
    if "voltage" in signals:
        tables["battery"] = _table(f"{SENSOR_SCHEMA_PREFIX}battery", ["voltage"], ["V"], signals["voltage"])
    title = TITLES.get(log.format, log.format)
    truth = f"; position, velocity and attitude: {log.truth}" if log.truth else ""
    return Run(
        log.name,
        (DroneRecord(DRONE, placeholder_vehicle(len(log.command.values), log.numbering), "", tables),),
        tuple(LogLine(0, "warning", log.format, note) for note in (*notes, *log.notes, *clipped)),
        {"log_format": log.format, "description": f"{title}{truth}"},
        {},
    )


def scene_run(run: Run) -> Run:
    """Return the run with complete states, for the 3D scene: a log without position is shown at the origin, and so on."""
    if run.is_simulated:
        return run
    (record,) = run.drone_records
    at_rest = state_at_rest(record.vehicle)
    state, names = record.tables["state"], leaf_names(at_rest)
    rows = np.tile(np.array(flatten(at_rest), dtype=float), (len(state.rows), 1))
    for k, name in enumerate(names):
        if name in state.fields:
            rows[:, k] = state[name]
    environment = complete_environment(record.vehicle)
    fields = leaf_names(environment)
    calm = Signal(np.zeros(1), np.array(flatten(environment), dtype=float)[:, None])
    tables = {
        **record.tables,
        "state": RecordedStream(tuple(names), tuple(map(field_unit, names)), state.schema_name, state.times_us, rows),
        "environment": _table("samara.Environment", fields, [field_unit(field) for field in fields], calm),
    }
    missing = [name for name, field in STATE_FIELDS.items() if f"{field}.x" not in state.fields]
    lines = [LogLine(0, "warning", "view", f"not logged, shown at rest: {', '.join(missing)}")] if missing else []
    return Run(
        run.scenario,
        (DroneRecord(record.name, record.vehicle, record.controller, tables),),
        (*run.logs, *lines),
        run.metadata,
        run.attachments,
        run.problem,
    )


def placeholder_vehicle(rotor_count: int, numbering: str) -> Vehicle:
    """Return a vehicle with rotors in the order of a log's motors; only their positions and spins mean anything."""
    systems = NUMBERINGS.get(FRAME_BY_ROTOR_COUNT.get(rotor_count, ""), {})
    known = systems.get(numbering) or (systems.get("crazyflie_engine") if numbering == SAMARA_FORMAT else None)
    if known is not None:
        mounts = [(rotor.azimuth_deg, rotor.spin) for rotor in known.rotors]
    else:
        mounts = [(360.0 * (i + 0.5) / rotor_count, 1 if i % 2 == 0 else -1) for i in range(rotor_count)]
    model = replace_dc_motors(load_vehicle(MODEL)).rotors[0]
    radius = min(float(model.radius), TIP_GAP * ARM_M * math.sin(math.pi / max(rotor_count, 2)))
    rotors = [
        model._replace(
            r_B=Vec3(ARM_M * math.cos(math.radians(azimuth)), ARM_M * math.sin(math.radians(azimuth)), 0.0),
            spin=spin,
            radius=radius,
        )
        for azimuth, spin in mounts
    ]
    inertia = [0.4 * MASS_KG * ARM_M**2] * 3
    provenance = Provenance(description="placeholder: the log does not describe the aircraft")
    return build_vehicle("placeholder", mass=MASS_KG, inertia=inertia, rotors=rotors, provenance=provenance)


def _state(signals: dict[str, Signal]) -> tuple[RecordedStream, list[str]]:
    """Return the stream `state`, and what it does not show of the signals."""
    motion = {name: signals[name] for name in (*STATE_FIELDS, "rotor_speed") if name in signals}
    begin, end, notes = -math.inf, math.inf, []
    for name, signal in sorted(motion.items(), key=lambda item: float(item[1].time[0] - item[1].time[-1])):
        first, last = max(begin, float(signal.time[0])), min(end, float(signal.time[-1]))
        if last > first:
            begin, end = first, last
        else:
            del motion[name]
            notes.append(f"{name} is left out: it does not overlap the other signals")
    total = max((float(signal.time[-1] - signal.time[0]) for signal in motion.values()), default=0.0)
    if motion and total - (end - begin) > 1.0:
        notes.append(f"the motion is shown from {begin:.1f} s to {end:.1f} s, where all its signals were logged")
    clock = max(motion.values(), key=lambda signal: len(signal.time) / np.ptp(signal.time), default=signals["command"])
    time = clock.time[(clock.time >= begin) & (clock.time <= end)]
    fields: list[str] = []
    columns: list[Array] = []
    for name, field in STATE_FIELDS.items():
        if name in motion:
            fields += [f"{field}.{axis}" for axis in ("wxyz" if name == "attitude" else "xyz")]
            columns.append(_resample(name, motion[name], time))
    if "rotor_speed" in motion:
        columns.append(_resample("rotor_speed", motion["rotor_speed"], time))
        fields += [f"rotor_speed[{i}]" for i in range(len(columns[-1]))]
    values = np.concatenate(columns) if columns else np.empty((0, len(time)))
    return _table("samara.State", fields, [field_unit(field) for field in fields], Signal(time, values)), notes


def _resample(name: str, signal: Signal, time: Array) -> Array:
    """Interpolate a signal at the times of the state; attitudes along the shorter arc."""
    if name != "attitude":
        return interpolate_signal(signal, time)
    q = interpolate_signal(Signal(signal.time, unwrap_quaternions(signal.values)), time)
    return np.asarray(q / np.linalg.norm(q, axis=0))


def _finite(signal: Signal) -> Signal | None:
    """Return the samples without NaN, one for each microsecond; None if fewer than two are left."""
    rows = np.flatnonzero(np.isfinite(signal.time) & np.isfinite(signal.values).all(axis=0))
    _, first = np.unique(np.rint(1e6 * signal.time[rows]), return_index=True)
    rows = rows[first]
    return Signal(signal.time[rows], signal.values[:, rows]) if len(rows) > 1 else None


def _table(schema: str, fields: list[str], units: list[str], signal: Signal) -> RecordedStream:
    times_us = np.rint(1e6 * signal.time).astype(np.int64)
    return RecordedStream(tuple(fields), tuple(units), schema, times_us, np.ascontiguousarray(signal.values.T))
