"""A flight log on one even grid: the state of the body, the commanded rotor speeds, and a mask of usable samples.

Missing signals are derived from others: velocity from position, rates from attitude, specific force from velocity. A signal
that cannot be derived is 0 and absent from `available_signals`.
"""

import math
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, normalize, quat_log, rotate_inverse
from samara.core.types import Array
from samara.identify.flight_log import FlightLog, Signal
from samara.identify.log_checks import airborne_interval
from samara.identify.readers.crazyflie import MAX_PWM, rotor_speed_from_pwm
from samara.identify.readers.registry import G
from samara.identify.signal_agreement import interpolate_signal, unwrap_quaternions
from samara.link.motor_outputs import rotor_order
from samara.physics.rotors.actuator import speed_from_command
from samara.physics.types import Vehicle

MIN_PERIOD_S, MAX_PERIOD_S = 0.004, 0.02  # [s]: limits of the resampling period
SLOW_SIGNAL_RATIO = 0.6  # fraction of a period: signals with shorter sample periods are averaged over the period
DERIVATIVE_HALF_WIDTH_S = 0.05  # [s]: half width of the fit of a derivative
EDGE_MARGIN_S = 1.0  # [s] after take-off and before landing that are excluded
MIN_HEIGHT_M = 0.3  # [m]
GAP_PERIODS = 3.0  # periods of a signal
MAX_BRUSHED_RADIUS_M, MAX_BRUSHED_MASS_KG = 0.025, 0.036  # brushed Crazyflies: 45 mm propellers, 27 g and a deck or two
OUTPUTS = ("speed", "thrust")
"""The quantity that a motor output is linear in: the rotor speed, from the slowest to the fastest, or the thrust."""


class ResampledLog(NamedTuple):
    """One flight on an even grid of n samples, `period` [s] apart.

    `body` (13, n) is p_W, v_W, q_WB, ω_B in the order of `State`. `commanded` (rotors, n) are the commanded rotor speeds,
    means from each sample to the next [rad/s]; `rotor_speed` are the measured ones, or None. Without commands in the log, the
    commanded speeds are those with which the vehicle's motors turn as measured. `specific_force` (3, n) [m/s²] is
    from the accelerometer, minus its bias where the motion shows it. `available_signals` names the available signals:
    "position", "velocity", "attitude", "rate", "specific_force", "rotor_speed", "voltage". Commands were logged every
    `command_period` [s], infinite without commands.
    """

    name: str
    period: float
    time: Array
    body: Array
    commanded: Array
    specific_force: Array
    rotor_speed: Array | None
    voltage: Array | None
    usable: Array
    available_signals: frozenset[str]
    command_period: float = 0.0


def resampling_period(log: FlightLog) -> float:
    """Return the sample period of the log's motion, within limits  [s]."""
    motion = log.rate or log.attitude or log.specific_force
    if motion is None or len(motion.time) < 3:
        raise ValueError(
            f"{log.name}: holds neither rates nor attitudes; expected one of them to identify a vehicle from"
        )
    return round(float(np.clip(np.median(np.diff(motion.time)), MIN_PERIOD_S, MAX_PERIOD_S)), 4)


def resample_log(log: FlightLog, vehicle: Vehicle, outputs: str = "speed", period: float | None = None) -> ResampledLog:
    """Resample a log that has been checked (`samara.identify.log_checks.require_usable`), in the vehicle's rotor order.

    Args:
        log: the checked log.
        vehicle: determines the rotor order and the speeds of the commands.
        outputs: the quantity that a motor output is linear in, one of `OUTPUTS`.
        period: common period of flights that are fitted together [s]; without it, that of the log.
    """
    period = resampling_period(log) if period is None else period
    if len(log.command.values) < len(vehicle.rotors) or log.command.values[len(vehicle.rotors) :].any():
        raise ValueError(
            f"{log.name}: holds {len(log.command.values)} motors; expected {len(vehicle.rotors)}, as vehicle "
            f"{vehicle.name!r} has"
        )
    required = [
        signal
        for signal in (log.command, log.rate, log.attitude, log.specific_force, log.position)
        if signal is not None
    ]
    begin, end = max(signal.time[0] for signal in required), min(signal.time[-1] for signal in required)
    if not end - begin > 2.0 * DERIVATIVE_HALF_WIDTH_S + 10.0 * period:
        raise ValueError(f"{log.name}: its signals overlap for {max(end - begin, 0.0):.2f} s; expected a flight")
    time = begin + period * np.arange(int((end - begin) / period))
    available = {
        name
        for name in ("position", "velocity", "attitude", "rate", "specific_force", "rotor_speed", "voltage")
        if getattr(log, name) is not None
    }
    q = _attitude(log, time)
    p = _resample_signal(log.position, time, period, 3)
    if log.velocity is None and log.position is not None:
        v = _smooth_derivative(log.position, time)
        available.add("velocity")
    else:
        v = _resample_signal(log.velocity, time, period, 3)
    if log.rate is None:
        omega = _rates_from_attitude(log.attitude, time)
        available.add("rate")
    else:
        omega = _resample_signal(log.rate, time, period, 3)
    voltage = None if log.voltage is None else _resample_signal(log.voltage, time, period, 1)[0]
    body = np.concatenate([p, v, q, omega])
    speed = (
        None
        if log.rotor_speed is None
        else _order_by_rotor(_resample_signal(log.rotor_speed, time, period, 4), log, vehicle)
    )
    usable = _usable_mask(log, time, p)
    force = _specific_force(log, body, time, period, available, usable)
    if log.has_command or speed is None:
        commanded = _commanded_speeds(log, vehicle, time, period, outputs)
        command_period = float(np.median(np.diff(log.command.time)))
    else:
        commanded, command_period = _driving_speeds(speed, vehicle, period), math.inf
    return ResampledLog(
        log.name, period, time, body, commanded, force, speed, voltage, usable, frozenset(available), command_period
    )


def _resample_signal(signal: Signal | None, time: Array, period: float, rows: int) -> Array:
    """Return a signal at `time`: the mean over a period of a fast signal, linear interpolation of a slow one."""
    if signal is None:
        return np.zeros((rows, len(time)))
    signal_period = float(np.median(np.diff(signal.time)))
    if signal_period > SLOW_SIGNAL_RATIO * period:
        return interpolate_signal(signal, time)
    return _interval_mean(signal, time - 0.5 * period, time + 0.5 * period)


def _interval_mean(signal: Signal, begin: Array, end: Array) -> Array:
    """Return the mean of a linearly interpolated signal over each interval."""
    t, x = signal
    area = np.concatenate([np.zeros((len(x), 1)), np.cumsum(0.5 * (x[:, 1:] + x[:, :-1]) * np.diff(t), axis=1)], axis=1)

    def integral(t_end: Array) -> Array:
        t_end = np.clip(t_end, t[0], t[-1])
        k = np.clip(np.searchsorted(t, t_end, side="right") - 1, 0, len(t) - 2)
        elapsed = t_end - t[k]
        slope = (x[:, k + 1] - x[:, k]) / (t[k + 1] - t[k])
        return np.asarray(area[:, k] + x[:, k] * elapsed + 0.5 * slope * elapsed * elapsed)

    begin, end = np.clip(begin, t[0], t[-1]), np.clip(end, t[0], t[-1])
    width = end - begin
    return np.where(
        width > 0.0,
        (integral(end) - integral(begin)) / np.where(width > 0.0, width, 1.0),
        interpolate_signal(signal, begin),
    )


def _hold_mean(signal: Signal, time: Array, period: float) -> Array:
    """Return the mean over a period after each time of a signal that holds each value until the next (zero-order hold)."""
    t, x = signal
    area = np.concatenate([np.zeros((len(x), 1)), np.cumsum(x[:, :-1] * np.diff(t), axis=1)], axis=1)

    def integral(t_end: Array) -> Array:
        k = np.clip(np.searchsorted(t, t_end, side="right") - 1, 0, len(t) - 1)
        return np.asarray(area[:, k] + x[:, k] * (t_end - t[k]))

    return (integral(time + period) - integral(time)) / period


def _commanded_speeds(log: FlightLog, vehicle: Vehicle, time: Array, period: float, outputs: str) -> Array:
    """Return the commanded rotor speeds, means over each period, (rotors, n)  [rad/s]."""
    if outputs not in OUTPUTS:
        raise ValueError(f"outputs is {outputs!r}; expected one of {', '.join(OUTPUTS)}")
    if log.numbering == "crazyflie" and log.voltage is not None and _has_brushed_motors(vehicle):
        voltage = interpolate_signal(log.voltage, log.command.time)
        speeds = np.asarray(rotor_speed_from_pwm(MAX_PWM * np.clip(log.command.values, 0.0, 1.0), voltage))
        return _order_by_rotor(_hold_mean(Signal(log.command.time, speeds), time, period), log, vehicle)
    u = _order_by_rotor(np.clip(log.command.values, 0.0, 1.0), log, vehicle)
    u = np.sqrt(u) if outputs == "thrust" else u
    speeds = np.stack(
        [
            np.asarray(
                speed_from_command(output, rotor.motor if outputs == "speed" else rotor.motor._replace(speed_min=0.0))
            )
            for output, rotor in zip(u, vehicle.rotors, strict=True)
        ]
    )
    return _hold_mean(Signal(log.command.time, speeds), time, period)


def _has_brushed_motors(vehicle: Vehicle) -> bool:
    """Return whether a Crazyflie has the brushed motors of Bitcraze's table; the brushless one is larger and heavier."""
    radius = max(rotor.radius for rotor in vehicle.rotors)
    return bool(radius < MAX_BRUSHED_RADIUS_M and vehicle.mass < MAX_BRUSHED_MASS_KG)


def _driving_speeds(speed: Array, vehicle: Vehicle, period: float) -> Array:
    """Ω_cmd with lag(Ω(t), Ω_cmd, T) = Ω(t + T), (rotors, n): the commands that make the motors turn as measured  [rad/s]."""
    later = np.concatenate([speed[:, 1:], speed[:, -1:]], axis=1)
    motors = [rotor.motor for rotor in vehicle.rotors]
    up, down = (
        np.array([[getattr(motor, f"time_constant_{way}")] for motor in motors], dtype=float) for way in ("up", "down")
    )
    decay = np.exp(-period / np.maximum(np.where(later > speed, up, down), 1e-3 * period))
    return np.asarray((later - decay * speed) / (1.0 - decay))


def _order_by_rotor(rows: Array, log: FlightLog, vehicle: Vehicle) -> Array:
    """Return the rows of a log's motors in the order of the vehicle's rotors."""
    if log.numbering == "samara":
        return rows[: len(vehicle.rotors)]
    order = rotor_order(vehicle, log.numbering)
    return rows[np.argsort(order)]


def _attitude(log: FlightLog, time: Array) -> Array:
    if log.attitude is None:
        return np.stack([np.ones_like(time), *np.zeros((3, len(time)))])
    unwrapped = Signal(log.attitude.time, unwrap_quaternions(log.attitude.values))
    return np.stack(normalize(Quat(*interpolate_signal(unwrapped, time))))


def _smooth_derivative(signal: Signal, time: Array) -> Array:
    """d/dt of the parabola through the samples within ±50 ms, on an even grid of the signal's period."""
    t = signal.time
    period = float(np.median(np.diff(t)))
    half = max(round(DERIVATIVE_HALF_WIDTH_S / period), 1)
    even_time = t[0] + period * np.arange(int((t[-1] - t[0]) / period) + 1)
    rows = interpolate_signal(signal, even_time)
    k = np.arange(-half, half + 1) * period
    weights = k / (k * k).sum()
    padded = np.pad(rows, ((0, 0), (half, half)), mode="reflect", reflect_type="odd")
    slope = np.stack([np.convolve(row, weights[::-1], "valid") for row in padded])
    return interpolate_signal(Signal(even_time, slope), time)


def _rates_from_attitude(attitude: Signal | None, time: Array) -> Array:
    """ω_B = 2 log(q⁻¹(t − h) ⊗ q(t + h)) / 2h from attitudes, smoothed as velocities are  [rad/s]"""
    assert attitude is not None
    t = attitude.time
    q = Quat(*unwrap_quaternions(attitude.values))
    early = Quat(*(component[:-1] for component in q))
    late = Quat(*(component[1:] for component in q))
    step = np.stack(quat_log(normalize(conjugate(early) * late)))  # the rotation vector between consecutive attitudes
    rotation = np.concatenate([np.zeros((3, 1)), np.cumsum(step, axis=1)], axis=1)
    return _smooth_derivative(Signal(t, rotation), time)


def _specific_force(
    log: FlightLog, body: Array, time: Array, period: float, available: set[str], usable: Array
) -> Array:
    """Return the accelerometer's specific force minus its mean error against the motion, or that of the motion  [m/s²]."""
    motion_force = None
    if {"velocity", "attitude"} <= available:
        a_W = _smooth_derivative(Signal(time, body[3:6]), time)
        motion_force = np.stack(rotate_inverse(Quat(*body[6:10]), Vec3(a_W[0], a_W[1], a_W[2] + G)))
    if log.specific_force is None:
        if motion_force is None:
            return np.zeros((3, len(time)))
        available.add("specific_force")
        return motion_force
    force = _resample_signal(log.specific_force, time, period, 3)
    if motion_force is None or not usable.any():
        return force
    return force - np.mean((force - motion_force)[:, usable], axis=1, keepdims=True)


def _usable_mask(log: FlightLog, time: Array, p: Array) -> Array:
    """Return the mask of samples that are airborne, away from the ground and outside gaps."""
    begin, end = airborne_interval(log)
    margin = min(EDGE_MARGIN_S, 0.05 * (end - begin))
    usable = (time >= begin + margin) & (time <= end - margin)
    starts_on_ground = log.command.time[0] < begin - 1e-9 or log.command.time[-1] > end + 1e-9
    if log.position is not None and starts_on_ground:
        usable &= p[2] > np.min(p[2]) + MIN_HEIGHT_M
    for signal in (log.command, log.rate, log.attitude, log.specific_force, log.position):
        if signal is not None:
            steps = np.diff(signal.time)
            for k in np.flatnonzero(steps > max(GAP_PERIODS * float(np.median(steps)), 0.05)):
                usable &= ~((time > signal.time[k]) & (time < signal.time[k + 1]))
    return usable


def usable_intervals(usable: Array) -> list[slice]:
    """Return the intervals in which all samples are usable, longest first."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], usable.astype(int), [0]])))
    intervals = [slice(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    return sorted(intervals, key=lambda interval: interval.start - interval.stop)


def usable_duration(samples: ResampledLog) -> float:
    """Return the total usable time  [s]."""
    return float(samples.usable.sum()) * samples.period
