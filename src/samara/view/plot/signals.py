"""Signals of a flight for plots: curves with names, units and limits; `plots` draws them.

Each subject is a function of one drone's record that returns its signals, or none if the recording does not hold them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, euler_from_quat, quat_log
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.inputs import command_range, speed_range
from samara.physics.multirotor import complete_environment
from samara.physics.types import Environment, Reference, Vehicle
from samara.plan.flatness import flat_attitude
from samara.record.metrics import tracking_rows
from samara.record.metrics.summary import length_unit
from samara.record.run import DroneRecord
from samara.record.spectrum import MIN_SPECTRUM_ROWS, Spectrum
from samara.scenario.autopilot_types import POSITIONS_ONLY

REFERENCE_POINTS = 300  # points at which the reference attitude is computed: more than a picture resolves
MAX_UNWRAPPED_YAW = 4.0 * math.pi  # [rad]: a yaw with a larger range is drawn within ±180°
SIGMAS = 3.0
SETTLING_TIME = 0.5  # [s]: convergence time of an estimator, excluded from the scale of the axis
MIN_MOTION = 0.5  # [m]: a drone that stays within this range is drawn by its position error
MIN_DENSITY = 1e-15  # floor of spectral densities, for the logarithm
AXES = ("x east", "y north", "z up")
BODY_AXES = ("x forward", "y left", "z up")


class MotorLimits(NamedTuple):
    """Lower and upper limit of a motor."""

    low: float
    high: float


class PlotSignal(NamedTuple):
    """Curves over one time axis: values (m, k) with k names, an optional reference, limits, and a band around 0."""

    title: str
    unit: str
    names: tuple[str, ...]
    time: Array
    values: Array
    reference: tuple[Array, Array] | None = None  # times (n,) and values (n, k) of the reference
    limits: MotorLimits | None = None
    band: Array | None = None
    homogeneous: bool = False  # all curves are of one type, such as the speeds of several rotors
    scale_rows: Array | None = None  # rows that determine the scale; default: all

    def components(self) -> list["PlotSignal"]:
        """Split into one signal per curve; homogeneous curves, such as rotor speeds, into the highest and the lowest."""
        if self.homogeneous and len(self.names) > 1:
            extremes = {"highest": np.max, "lowest": np.min}
            return [
                self._replace(title=f"{self.title}, {name}", names=(name,), values=reduce(self.values, axis=1)[:, None])
                for name, reduce in extremes.items()
            ]
        return [
            self._replace(
                title=self.title if len(self.names) == 1 else f"{self.title}, {name}",
                names=(name,),
                values=self.values[:, k : k + 1],
                reference=None if self.reference is None else (self.reference[0], self.reference[1][:, k : k + 1]),
                band=None if self.band is None else self.band[:, k : k + 1],
            )
            for k, name in enumerate(self.names)
        ]


def position(track: DroneRecord) -> list[PlotSignal]:
    """p_W with its reference, and the distance between them."""
    if "reference" not in track.tables:
        return [PlotSignal("Position", "m", AXES, track.time, track.position)]
    reference = (track.time, track.reference_position)
    return [PlotSignal("Position", "m", AXES, track.time, track.position, reference), position_error(track)]


def position_error(track: DroneRecord) -> PlotSignal:
    """|p − p_reference| while it is an error: in the air, with a controller that tracks the trajectory."""
    rows, error = tracking_rows(track), np.full(len(track.time), np.nan)
    if track.controller in POSITIONS_ONLY:
        return PlotSignal("Distance from the plan", "m", ("distance",), track.time, track.error[:, None])
    error[rows] = track.error[rows]
    return PlotSignal("Position error", "m", ("distance",), track.time, error[:, None])


def is_stationary(track: DroneRecord) -> bool:
    """Whether the path is so short that a plot of the position would show straight lines."""
    return bool(
        "reference" in track.tables and len(tracking_rows(track)) and np.ptp(track.position, axis=0).max() < MIN_MOTION
    )


def position_deviation(track: DroneRecord) -> PlotSignal:
    """p − p_reference by axis, in mm, cm or m: the position plot of a drone that hovers."""
    deviation = track.position - track.reference_position
    deviation[np.setdiff1d(np.arange(len(deviation)), tracking_rows(track))] = np.nan
    reference_text = ", ".join(f"{x:.3g}" for x in np.median(track.reference_position, axis=0) + 0.0)
    return scale_length(PlotSignal(f"Position error at ({reference_text}) m", "m", AXES, track.time, deviation))


def scale_length(signal: PlotSignal) -> PlotSignal:
    """Convert lengths [m] to mm, cm or m, according to the largest."""
    factor, unit = length_unit(float(np.nan_to_num(np.abs(signal.values)).max()))
    return signal._replace(unit=unit, values=factor * signal.values)


def velocity(track: DroneRecord) -> list[PlotSignal]:
    """v_W with its reference, and the speed."""
    reference = (track.time, track.tables["reference"]["v_W"]) if "reference" in track.tables else None
    return [
        PlotSignal("Velocity", "m/s", AXES, track.time, track.velocity, reference),
        PlotSignal("Speed", "m/s", ("speed",), track.time, track.speed[:, None]),
    ]


def attitude(track: DroneRecord) -> list[PlotSignal]:
    """Roll, pitch and yaw with the reference attitude of this vehicle in this wind, and the tilt."""
    angles, tilt = _attitude_with_reference(track)
    return [shift_distant_curve(angles, 2), tilt]


def _attitude_with_reference(track: DroneRecord) -> list[PlotSignal]:
    angles, tilt = actual_attitude(track)
    reference = reference_attitude(track) if "reference" in track.tables else None
    if reference is None:
        return [angles, tilt]
    rows, reference_angles = reference
    if _spins(track):
        return [angles._replace(reference=(track.time[rows], np.degrees(_insert_gaps(reference_angles)))), tilt]
    turns = 360.0 * np.round((angles.values[rows] - np.degrees(reference_angles)) / 360.0)
    return [angles._replace(reference=(track.time[rows], np.degrees(reference_angles) + turns)), tilt]


def actual_attitude(track: DroneRecord) -> list[PlotSignal]:
    """Roll, pitch, yaw and tilt without the reference, which takes long to compute and is not drawn for many drones."""
    angles = np.unwrap(track.euler, axis=0)
    if _spins(track):
        angles[:, 2] = _insert_gaps(track.euler[:, 2])
    return [
        PlotSignal("Attitude", "°", ("roll", "pitch", "yaw"), track.time, np.degrees(angles)),
        PlotSignal("Tilt", "°", ("tilt",), track.time, np.degrees(track.tilt)[:, None]),
    ]


def shift_distant_curve(signal: PlotSignal, k: int) -> PlotSignal:
    """Shift curve `k` by its median if it hardly varies and is far from the others; the shift is added to its name: yaw
    − 90°."""
    curve, other_curves = signal.values[:, k], np.delete(signal.values, k, axis=1)
    if not np.isfinite(signal.values).all():
        return signal
    middle, max_range = round(float(np.median(curve)), 1), max(float(np.ptp(other_curves)), float(np.ptp(curve)), 1.0)
    if np.ptp(curve) > 0.5 * max_range or abs(middle - float(np.median(other_curves))) < 1.5 * max_range:
        return signal
    names, shift = list(signal.names), np.zeros(len(signal.names))
    names[k], shift[k] = f"{names[k]} {'−' if middle > 0.0 else '+'} {abs(middle):g}{signal.unit}", middle
    reference = None if signal.reference is None else (signal.reference[0], signal.reference[1] - shift)
    return signal._replace(names=tuple(names), values=signal.values - shift, reference=reference)


def _spins(track: DroneRecord) -> bool:
    return bool(np.ptp(np.unwrap(track.euler[:, 2])) > MAX_UNWRAPPED_YAW)


def _insert_gaps(angles: Array) -> Array:
    """Replace an angle after a jump of half a turn or more by NaN, so that no line is drawn across."""
    gapped = angles.copy()
    gapped[1:][np.abs(np.diff(angles, axis=0)) > math.pi] = np.nan
    return gapped


def rates(track: DroneRecord) -> list[PlotSignal]:
    """ω_B."""
    return [PlotSignal("Rates", "°/s", BODY_AXES, track.time, np.degrees(track.angular_velocity))]


def motors(track: DroneRecord) -> list[PlotSignal]:
    """Rotor speeds and commands with the motor limits; thrust and torques of a body that a wrench drives."""
    if not track.vehicle.rotors:
        torque = PlotSignal("Torque", "N m", BODY_AXES, track.command_time, track.command[:, 1:])
        return [PlotSignal("Thrust", "N", ("thrust",), track.command_time, track.command[:, :1]), torque]
    names = tuple(f"{k} {'ccw' if rotor.spin > 0 else 'cw'}" for k, rotor in enumerate(track.vehicle.rotors))
    if not track.is_simulated:  # numbered as autopilots count
        names = tuple(f"motor {k + 1}" for k in range(len(names)))
    actuation = track.vehicle.structure.actuation.name
    unit, command_title = ("rad/s", "Commanded speed") if actuation == "speed" else ("1", f"Command ({actuation})")
    limits = motor_command_limits(track.vehicle)
    command = PlotSignal(command_title, unit, names, track.command_time, track.command, None, limits, None, True)
    if not track.is_simulated:
        return [*([_rotor_speed(track, names)] if track.rotor_speed.size else []), command]
    airborne = np.flatnonzero(track.airborne) if track.airborne.any() else None
    speeds = _rotor_speed(track, names)._replace(limits=speed_limits(track.vehicle), scale_rows=airborne)
    return [speeds, command]


def _rotor_speed(track: DroneRecord, names: tuple[str, ...]) -> PlotSignal:
    """Ω of every rotor."""
    speeds = track.rotor_speed
    return PlotSignal("Rotor speed", "rad/s", names[: speeds.shape[1]], track.time, speeds, homogeneous=True)


def wind(track: DroneRecord) -> list[PlotSignal]:
    """wind_W, if it is not zero throughout."""
    return [PlotSignal("Wind", "m/s", AXES, track.time, track.wind)] if track.wind.any() else []


def battery(track: DroneRecord) -> list[PlotSignal]:
    """Charge, bus voltage and current of a vehicle with a battery; of a real flight the measured voltage."""
    if not track.is_simulated and "battery" in track.tables:
        measured = track.tables["battery"]
        return [PlotSignal("Voltage", "V", ("measured",), measured.time, measured["voltage"][:, None])]
    bus = recorded_supply(track)
    if bus is None:
        return []
    signals = [
        PlotSignal("Voltage", "V", ("bus",), track.time, bus.voltage[:, None]),
        PlotSignal("Current", "A", ("all motors",), track.time, bus.current[:, None]),
    ]
    if track.charge is not None:
        signals.insert(0, PlotSignal("Charge", "%", ("first battery",), track.time, 100.0 * track.charge[:, None]))
    return signals


def estimate(track: DroneRecord) -> list[PlotSignal]:
    """Estimate − truth of position, velocity and attitude, with ±3σ if the recording has a stream `variance`.

    The variances are read from fields of the same names: p_W.x [m²], v_W.x [m²/s²], and theta_B.x [rad²] for the attitude.
    """
    if "estimate" not in track.tables:
        return []
    estimated, true = track.tables["estimate"], track.tables["state"]
    rows = _latest_rows(true.times_us, estimated.times_us)
    attitude_error = quat_log(conjugate(Quat(*true["q_WB"][rows].T)) * Quat(*estimated["q_WB"].T))
    theta = np.degrees(np.stack(np.broadcast_arrays(*attitude_error), axis=1))
    bands = [
        _band(track, field, scale) for field, scale in (("p_W", 1.0), ("v_W", 1.0), ("theta_B", math.degrees(1.0)))
    ]
    title_suffix = "error of the estimate"
    settled = np.flatnonzero(estimated.time >= estimated.time[0] + SETTLING_TIME)
    signals = [
        PlotSignal(
            f"Position {title_suffix}", "m", AXES, estimated.time, estimated["p_W"] - true["p_W"][rows], band=bands[0]
        ),
        PlotSignal(
            f"Velocity {title_suffix}", "m/s", AXES, estimated.time, estimated["v_W"] - true["v_W"][rows], band=bands[1]
        ),
        PlotSignal(f"Attitude {title_suffix}", "°", BODY_AXES, estimated.time, theta, band=bands[2]),
    ]
    return [signal._replace(scale_rows=settled) for signal in signals] if len(settled) else signals


def _band(track: DroneRecord, field: str, scale: float = 1.0) -> Array | None:
    """±3σ at the times of the estimate."""
    table = track.tables.get("variance")
    if table is None or f"{field}.x" not in table.fields:
        return None
    rows = _latest_rows(table.times_us, track.tables["estimate"].times_us)
    return SIGMAS * scale * np.sqrt(np.maximum(table[field][rows], 0.0))


def spectra(track: DroneRecord) -> list[PlotSignal]:
    """√S(f) of angular velocity and commands, by Welch's method; `time` of the signals is the frequency [Hz]."""
    metrics, signals = track.metrics, []
    if _has_field("omega_B.x")(track):
        signals = _spectrum(rates(track)[0], metrics.rate_spectrum)
    return [*signals, *_spectrum(motors(track)[-1], metrics.command_spectrum)]


def _spectrum(signal: PlotSignal, spectrum: Spectrum) -> list[PlotSignal]:
    if not len(spectrum.frequency):
        return []
    unit = f"{signal.unit}/√Hz" if signal.unit != "1" else "1/√Hz"
    amplitude = np.maximum(np.sqrt(spectrum.density[:, 1:].T), MIN_DENSITY)
    title = f"Spectrum of {signal.title.lower()}"
    return [PlotSignal(title, unit, signal.names, spectrum.frequency[1:], amplitude, homogeneous=signal.homogeneous)]


SUBJECTS: dict[str, Callable[[DroneRecord], list[PlotSignal]]] = {
    "position": position,
    "velocity": velocity,
    "attitude": attitude,
    "rates": rates,
    "motors": motors,
    "wind": wind,
    "battery": battery,
    "estimate": estimate,
    "spectra": spectra,
}
"""Subjects drawn as curves: over time, and `spectra` over frequency."""

SEVERAL_DRONE_SUBJECTS: dict[str, Callable[[DroneRecord], list[PlotSignal]]] = {
    **SUBJECTS,
    "attitude": _attitude_with_reference,
}
"""Subjects of several drones, whose curves need common names."""

MANY_DRONE_SUBJECTS: dict[str, Callable[[DroneRecord], list[PlotSignal]]] = {**SUBJECTS, "attitude": actual_attitude}
"""Subjects of many drones, without curves that take long to compute and would not be visible."""


def _has_field(field: str) -> Callable[[DroneRecord], bool]:
    """Return a predicate: whether the stream `state` has a field; that of a flight log may lack any."""
    return lambda track: field in track.tables["state"].fields


HAS_DATA: dict[str, Callable[[DroneRecord], bool]] = {
    **dict.fromkeys(("position", "path", "top"), _has_field("p_W.x")),
    "velocity": _has_field("v_W.x"),
    "attitude": _has_field("q_WB.w"),
    "rates": _has_field("omega_B.x"),
    "wind": lambda track: track.is_simulated and bool(track.wind.any()),
    "battery": lambda track: track.vehicle.has("battery") if track.is_simulated else "battery" in track.tables,
    "estimate": lambda track: "estimate" in track.tables,
    "spectra": lambda track: len(track.time) >= MIN_SPECTRUM_ROWS,
}
"""Predicates that a recording holds data for a subject; subjects without a predicate always have data."""


def has_data(subject: str, track: DroneRecord) -> bool:
    """Whether a flight holds data for a subject."""
    return subject not in HAS_DATA or HAS_DATA[subject](track)


# Quantities computed from a recording -----------------------------------------------------------------------------------


class SupplySignals(NamedTuple):
    """Bus voltage [V] and total motor current [A] at every logged time."""

    voltage: Array
    current: Array


def motor_command_limits(vehicle: Vehicle) -> MotorLimits | None:
    """Return the lower and upper limit of a command; None if it is unlimited."""
    command_limits = command_range(vehicle)
    return MotorLimits(*command_limits) if command_limits else None


def speed_limits(vehicle: Vehicle) -> MotorLimits | None:
    """Return the lowest and highest speed of a motor with lag [rad/s]; None for a DC motor, whose speed depends on load."""
    limits = speed_range(vehicle)
    return MotorLimits(*limits) if limits else None


def recorded_supply(track: DroneRecord) -> SupplySignals | None:
    """Return recorded voltage and current; None without a battery."""
    table = track.tables.get("derived")
    return (
        SupplySignals(table["voltage"], table["current"]) if table is not None and "voltage" in table.fields else None
    )


def reference_attitude(track: DroneRecord) -> tuple[Array, Array] | None:
    """Compute the attitude for exact tracking: rows of the record, and roll, pitch, yaw (rows, 3) [rad].

    None if the vehicle is not differentially flat: its attitude does not follow from position and yaw.
    """
    table = track.tables["reference"]
    rows = np.unique(np.linspace(0, len(table.times_us) - 1, min(len(table.times_us), REFERENCE_POINTS)).astype(int))
    fields = {
        name: Vec3(*table[name][rows].T) if f"{name}.x" in table.fields else table[name][rows]
        for name in Reference._fields
    }
    try:
        environment = recorded_environment(track, rows)._replace(motor_effectiveness=())
        attitudes = flat_attitude(Reference(**fields), track.vehicle, environment)
    except ValueError:
        return None
    angles = np.stack(euler_from_quat(attitudes), axis=1)
    return (rows, angles) if np.isfinite(angles).all() else None


def recorded_environment(track: DroneRecord, rows: Array) -> Environment:
    """Return the recorded environment at rows of the state."""
    table = track.tables["environment"]
    state_rows = _latest_rows(table.times_us, track.tables["state"].times_us[rows])
    environment: Environment = unflatten(complete_environment(track.vehicle), iter(table.rows[state_rows].T))
    return environment


def _latest_rows(times_us: Array, now_us: Array) -> Array:
    """Return, for each time, the last row that is not later."""
    return np.maximum(np.searchsorted(times_us, now_us, side="right") - 1, 0)
