"""What there is to see of a flight: curves with names, units and limits. No drawing here; `plots` draws them.

Each subject is a function of one drone's track that gives its signals, or none where the recording does not hold them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, euler_from_quat, quat_log
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.multirotor import environment_of
from samara.physics.types import Environment, Reference, Vehicle
from samara.plan.flatness import flat_attitude
from samara.record.metrics import tracking_rows
from samara.record.metrics.summary import length_unit
from samara.record.run import Track
from samara.record.spectrum import SHORTEST_SPECTRUM, Spectrum
from samara.scenario.autopilot_types import POSITIONS_ONLY
from samara.vehicles.limits import command_range, speed_range

ASKED_POINTS = 300  # where the attitude that the reference asks for is computed: more than a picture shows
SPINNING = 4.0 * math.pi  # [rad]: a yaw that turns further is drawn within ±180°
SIGMAS = 3.0
SETTLING = 0.5  # [s] in which an estimator finds itself, and which do not set the scale
HARDLY = 0.5  # [m]: a drone that stays within this is drawn by how far it is off
SILENT = 1e-15  # less has no logarithm worth drawing
AXES = ("x east", "y north", "z up")
BODY_AXES = ("x forward", "y left", "z up")


class Limits(NamedTuple):
    """The least and the most a motor can do."""

    low: float
    high: float


class Signal(NamedTuple):
    """Curves over one time axis: values (m, k) with k names; dashed what was asked, lines at the limits, a band around 0."""

    title: str
    unit: str
    names: tuple[str, ...]
    time: Array
    values: Array
    asked: tuple[Array, Array] | None = None
    limits: Limits | None = None
    band: Array | None = None
    alike: bool = False
    weighed: Array | None = None  # rows that set the scale, where not all do

    def components(self) -> list["Signal"]:
        """One signal for each curve; of many curves of one kind, such as rotors, the highest and the lowest."""
        if self.alike and len(self.names) > 1:
            ends = {"highest": np.max, "lowest": np.min}
            return [
                self._replace(title=f"{self.title}, {name}", names=(name,), values=of(self.values, axis=1)[:, None])
                for name, of in ends.items()
            ]
        return [
            self._replace(
                title=self.title if len(self.names) == 1 else f"{self.title}, {name}",
                names=(name,),
                values=self.values[:, k : k + 1],
                asked=None if self.asked is None else (self.asked[0], self.asked[1][:, k : k + 1]),
                band=None if self.band is None else self.band[:, k : k + 1],
            )
            for k, name in enumerate(self.names)
        ]


def position(track: Track) -> list[Signal]:
    """p_W with its reference, and the distance between them"""
    asked = (track.time, track.reference_position)
    return [Signal("Position", "m", AXES, track.time, track.position, asked), position_error(track)]


def position_error(track: Track) -> Signal:
    """|p − p_reference|, while that is an error: in the air, of a pilot that was given the path"""
    rows, error = tracking_rows(track), np.full(len(track.time), np.nan)
    if track.controller in POSITIONS_ONLY:
        return Signal("Distance from the plan", "m", ("distance",), track.time, track.error[:, None])
    error[rows] = track.error[rows]
    return Signal("Position error", "m", ("distance",), track.time, error[:, None])


def hardly_moves(track: Track) -> bool:
    """Whether its path is so short that its position would be straight lines"""
    return bool(len(tracking_rows(track)) and np.ptp(track.position, axis=0).max() < HARDLY)


def position_off(track: Track) -> Signal:
    """p − p_reference by its axes, in mm, cm or m: what there is to see of a drone that stays where it is"""
    off = track.position - track.reference_position
    off[np.setdiff1d(np.arange(len(off)), tracking_rows(track))] = np.nan
    place = ", ".join(f"{x:.3g}" for x in np.median(track.reference_position, axis=0) + 0.0)
    return in_handy_unit(Signal(f"Position off ({place}) m", "m", AXES, track.time, off))


def in_handy_unit(signal: Signal) -> Signal:
    """Lengths [m] in mm, cm or m, as the largest asks for"""
    factor, unit = length_unit(float(np.nan_to_num(np.abs(signal.values)).max()))
    return signal._replace(unit=unit, values=factor * signal.values)


def velocity(track: Track) -> list[Signal]:
    """v_W with its reference, and the speed"""
    return [
        Signal("Velocity", "m/s", AXES, track.time, track.velocity, (track.time, track.tables["reference"]["v_W"])),
        Signal("Speed", "m/s", ("speed",), track.time, track.speed[:, None]),
    ]


def attitude(track: Track) -> list[Signal]:
    """Roll, pitch, yaw, dashed what the reference asks of this vehicle in this wind; and the tilt"""
    flown, tilt = _attitude(track)
    return [from_nearby(flown, 2), tilt]


def _attitude(track: Track) -> list[Signal]:
    flown, tilt = flown_attitude(track)
    found = asked_attitude(track)
    if found is None:
        return [flown, tilt]
    rows, wanted = found
    if _spins(track):
        return [flown._replace(asked=(track.time[rows], np.degrees(_with_gaps(wanted)))), tilt]
    turns = 360.0 * np.round((flown.values[rows] - np.degrees(wanted)) / 360.0)
    return [flown._replace(asked=(track.time[rows], np.degrees(wanted) + turns)), tilt]


def flown_attitude(track: Track) -> list[Signal]:
    """Roll, pitch, yaw and tilt alone: what is asked takes long to find, and is not drawn of many drones"""
    angles = np.unwrap(track.euler, axis=0)
    if _spins(track):
        angles[:, 2] = _with_gaps(track.euler[:, 2])
    return [
        Signal("Attitude", "°", ("roll", "pitch", "yaw"), track.time, np.degrees(angles)),
        Signal("Tilt", "°", ("tilt",), track.time, np.degrees(track.tilt)[:, None]),
    ]


def from_nearby(signal: Signal, k: int) -> Signal:
    """One curve that hardly changes and is far from the others is drawn from its middle, and its name says so: yaw − 90°"""
    own, others = signal.values[:, k], np.delete(signal.values, k, axis=1)
    if not np.isfinite(signal.values).all():
        return signal
    middle, reach = round(float(np.median(own)), 1), max(float(np.ptp(others)), float(np.ptp(own)), 1.0)
    if np.ptp(own) > 0.5 * reach or abs(middle - float(np.median(others))) < 1.5 * reach:
        return signal
    names, shift = list(signal.names), np.zeros(len(signal.names))
    names[k], shift[k] = f"{names[k]} {'−' if middle > 0.0 else '+'} {abs(middle):g}{signal.unit}", middle
    asked = None if signal.asked is None else (signal.asked[0], signal.asked[1] - shift)
    return signal._replace(names=tuple(names), values=signal.values - shift, asked=asked)


def _spins(track: Track) -> bool:
    return bool(np.ptp(np.unwrap(track.euler[:, 2])) > SPINNING)


def _with_gaps(angles: Array) -> Array:
    """Not a number where an angle jumps by half a turn or more, so that no line is drawn across."""
    shown = angles.copy()
    shown[1:][np.abs(np.diff(angles, axis=0)) > math.pi] = np.nan
    return shown


def rates(track: Track) -> list[Signal]:
    """ω_B"""
    return [Signal("Rates", "°/s", BODY_AXES, track.time, np.degrees(track.angular_velocity))]


def motors(track: Track) -> list[Signal]:
    """Rotor speeds and commands with the limits of the motors; thrust and torques of a body driven by a wrench"""
    if not track.vehicle.rotors:
        torque = Signal("Torque", "N m", BODY_AXES, track.command_time, track.command[:, 1:])
        return [Signal("Thrust", "N", ("thrust",), track.command_time, track.command[:, :1]), torque]
    names = tuple(f"{k} {'ccw' if rotor.spin > 0 else 'cw'}" for k, rotor in enumerate(track.vehicle.rotors))
    kind = track.vehicle.structure.actuation.name
    unit, what = ("rad/s", "Commanded speed") if kind == "speed" else ("1", f"Command ({kind})")
    own = limits_of(track.vehicle)
    return [
        Signal(
            "Rotor speed",
            "rad/s",
            names,
            track.time,
            track.rotor_speed,
            limits=speed_limits(track.vehicle),
            alike=True,
            weighed=np.flatnonzero(track.in_the_air) if track.in_the_air.any() else None,
        ),
        Signal(what, unit, names, track.command_time, track.command, None, own, None, True),
    ]


def wind(track: Track) -> list[Signal]:
    """wind_W, where there is any"""
    return [Signal("Wind", "m/s", AXES, track.time, track.wind)] if track.wind.any() else []


def battery(track: Track) -> list[Signal]:
    """Charge, bus voltage and current of a vehicle that has a battery"""
    supplied = supply(track)
    if supplied is None:
        return []
    signals = [
        Signal("Voltage", "V", ("bus",), track.time, supplied.voltage[:, None]),
        Signal("Current", "A", ("all motors",), track.time, supplied.current[:, None]),
    ]
    if track.charge is not None:
        signals.insert(0, Signal("Charge", "%", ("first battery",), track.time, 100.0 * track.charge[:, None]))
    return signals


def estimate(track: Track) -> list[Signal]:
    """Estimate − truth of position, velocity and attitude, with ±3σ where a stream `covariance` tells the variances

    The variances are taken from fields of the same names: p_W.x [m²], v_W.x [m²/s²], and theta_B.x [rad²] for the attitude.
    """
    if "estimate" not in track.tables:
        return []
    told, true = track.tables["estimate"], track.tables["state"]
    rows = _held(true.times_us, told.times_us)
    turn = quat_log(conjugate(Quat(*true["q_WB"][rows].T)) * Quat(*told["q_WB"].T))
    theta = np.degrees(np.stack(np.broadcast_arrays(*turn), axis=1))
    bands = [
        _band(track, field, scale) for field, scale in (("p_W", 1.0), ("v_W", 1.0), ("theta_B", math.degrees(1.0)))
    ]
    of = "error of the estimate"
    settled = np.flatnonzero(told.time >= told.time[0] + SETTLING)
    signals = [
        Signal(f"Position {of}", "m", AXES, told.time, told["p_W"] - true["p_W"][rows], band=bands[0]),
        Signal(f"Velocity {of}", "m/s", AXES, told.time, told["v_W"] - true["v_W"][rows], band=bands[1]),
        Signal(f"Attitude {of}", "°", BODY_AXES, told.time, theta, band=bands[2]),
    ]
    return [own._replace(weighed=settled) for own in signals] if len(settled) else signals


def _band(track: Track, field: str, scale: float = 1.0) -> Array | None:
    """±3σ at the times of the estimate."""
    table = track.tables.get("covariance")
    if table is None or f"{field}.x" not in table.fields:
        return None
    rows = _held(table.times_us, track.tables["estimate"].times_us)
    return SIGMAS * scale * np.sqrt(np.maximum(table[field][rows], 0.0))


def spectra(track: Track) -> list[Signal]:
    """√S(f) of angular velocity and commands, Welch's mean over windows: what shakes, and how fast; `time` is f [Hz]"""
    metrics, shaken, driven = track.metrics, rates(track)[0], motors(track)[-1]
    return [*_spectrum(shaken, metrics.rate_spectrum), *_spectrum(driven, metrics.command_spectrum)]


def _spectrum(signal: Signal, own: Spectrum) -> list[Signal]:
    if not len(own.frequency):
        return []
    unit = f"{signal.unit}/√Hz" if signal.unit != "1" else "1/√Hz"
    shown = np.maximum(np.sqrt(own.density[:, 1:].T), SILENT)
    title = f"Spectrum of {signal.title.lower()}"
    return [Signal(title, unit, signal.names, own.frequency[1:], shown, alike=signal.alike)]


SUBJECTS: dict[str, Callable[[Track], list[Signal]]] = {
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
"""Subjects that are curves: over time, and the last over frequency."""

SEVERAL: dict[str, Callable[[Track], list[Signal]]] = {**SUBJECTS, "attitude": _attitude}
"""The same for several drones, whose curves have names in common."""

ROUGHLY: dict[str, Callable[[Track], list[Signal]]] = {**SUBJECTS, "attitude": flown_attitude}
"""The same for many drones, without what takes long and would not be seen."""

RECORDED: dict[str, Callable[[Track], bool]] = {
    "wind": lambda track: bool(track.wind.any()),
    "battery": lambda track: track.vehicle.has("battery"),
    "estimate": lambda track: "estimate" in track.tables,
    "spectra": lambda track: len(track.time) >= SHORTEST_SPECTRUM,
}
"""Whether there is something to show; of the subjects not named here there always is."""


# What is computed from a recording --------------------------------------------------------------------------------------


class Supply(NamedTuple):
    """Bus voltage [V] and the current of all motors [A] at every logged time."""

    voltage: Array
    current: Array


def limits_of(vehicle: Vehicle) -> Limits | None:
    """The least and the most a command can ask; None where it has no limit"""
    own = command_range(vehicle)
    return Limits(*own) if own else None


def speed_limits(vehicle: Vehicle) -> Limits | None:
    """The slowest and the fastest a motor with a lag can turn  [rad/s]; a DC motor's depends on its load and supply"""
    own = speed_range(vehicle)
    return Limits(*own) if own else None


def supply(track: Track) -> Supply | None:
    """V and I as they were recorded; None without a battery"""
    table = track.tables.get("outputs")
    return Supply(table["voltage"], table["current"]) if table is not None and "voltage" in table.fields else None


def asked_attitude(track: Track) -> tuple[Array, Array] | None:
    """Rows of the track, and the roll, pitch, yaw (rows, 3) [rad] with which it would follow its reference exactly

    None where the vehicle is not flat: position and yaw do not tell its attitude.
    """
    table = track.tables["reference"]
    rows = np.unique(np.linspace(0, len(table.times_us) - 1, min(len(table.times_us), ASKED_POINTS)).astype(int))
    fields = {
        name: Vec3(*table[name][rows].T) if f"{name}.x" in table.fields else table[name][rows]
        for name in Reference._fields
    }
    try:
        calm = environment_at(track, rows)._replace(motor_power=())
        asked = flat_attitude(Reference(**fields), track.vehicle, calm)
    except ValueError:
        return None
    angles = np.stack(euler_from_quat(asked), axis=1)
    return (rows, angles) if np.isfinite(angles).all() else None


def environment_at(track: Track, rows: Array) -> Environment:
    """The surroundings held at some rows of the state"""
    table = track.tables["environment"]
    held = _held(table.times_us, track.tables["state"].times_us[rows])
    own: Environment = unflatten(environment_of(track.vehicle), iter(table.rows[held].T))
    return own


def _held(times_us: Array, now_us: Array) -> Array:
    """For each time the last row that is not after it."""
    return np.maximum(np.searchsorted(times_us, now_us, side="right") - 1, 0)
