"""Calibrate the motors by the rotor speeds that flights measured: which speed each motor turns at for a command.

    Ωᵢ = (aᵢ + bᵢ lag(Ω_cmd,i(t − d))) (1 + s (V − V_ref))

Ω_cmd is the speed that the start vehicle's range assigns to a command. A lag with a gain and an offset is the lag of the speeds
with that gain and offset, so that the commands of a log and the ranges of a vehicle are corrected by the same lines.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.fit_result import mean_voltage
from samara.identify.resampled_log import ResampledLog, usable_intervals
from samara.identify.rotor_speed_model import delay_signal, estimate_lag, simulate_lag
from samara.physics.rotors.actuator import Lag
from samara.physics.types import Vehicle

OFFSET_SIGMA = 0.2  # prior σ of a motor's offset, relative to its mean speed
CORRELATION_TIME_S = 1.0  # [s]: residuals further apart are independent
MIN_VOLTAGE_RANGE = 0.1  # [V]


class MotorCalibration(NamedTuple):
    """The speed of each motor by the speed commanded to the start vehicle: `offset` a [rad/s] and `gain` b, (rotors,).

    `per_volt` is s [1/V], `volts` V_ref (0 if no flight logs voltages), and `delay` d of the motors after the commands [s].
    """

    offset: Array
    gain: Array
    per_volt: float
    volts: float
    delay: float

    def then(self, later: "MotorCalibration") -> "MotorCalibration":
        """Return this calibration followed by a later one of speeds alone."""
        offset = later.offset + later.gain * self.offset
        return self._replace(offset=offset, gain=later.gain * self.gain)

    def calibrate_flight(self, samples: ResampledLog) -> ResampledLog:
        """Return the flight with the commanded speeds that its motors approach."""
        commanded = delay_signal(samples.commanded, self.delay / samples.period)
        commanded = self.offset[:, None] + self.gain[:, None] * commanded
        if samples.voltage is not None:
            commanded = commanded * (1.0 + self.per_volt * (samples.voltage - self.volts))
        return samples._replace(commanded=commanded)

    def calibrate_vehicle(self, vehicle: Vehicle) -> Vehicle:
        """Return the start vehicle with the speed range of each motor; with a battery, at the voltage V_ref."""

        def calibrate(motor: Lag, offset: float, gain: float) -> Lag:
            low, high = (max(offset + gain * float(speed), 0.0) for speed in (motor.speed_min, motor.speed_max))
            volts = self.volts if self.volts and vehicle.has("battery") else motor.full_voltage
            return motor._replace(speed_min=low, speed_max=high, full_voltage=volts)

        rotors = (
            rotor._replace(motor=calibrate(rotor.motor, float(offset), float(gain)))
            for rotor, offset, gain in zip(vehicle.rotors, self.offset, self.gain, strict=True)
        )
        return replace(vehicle, rotors=tuple(rotors))


def steepen_speeds(start: Vehicle, speed: float, slope: float) -> MotorCalibration:
    """Return the lines with d ln Ω / d ln Ω_cmd = `slope` at a speed and the full speed of the start, but no negative idle
    speed."""
    low, high = (float(np.mean([getattr(r.motor, name) for r in start.rotors])) for name in ("speed_min", "speed_max"))
    gain = min(slope * high / (speed * (1.0 - slope) + slope * high), high / (high - low))
    ones = np.ones(len(start.rotors))
    return MotorCalibration((1.0 - gain) * high * ones, gain * ones, 0.0, 0.0, 0.0)


def calibrate_motors(flights: Sequence[ResampledLog], start: Vehicle) -> MotorCalibration | None:
    """Fit the lines of all motors to the flights with commands and measured speeds; None if there is none.

    A flight that hardly varies its commands does not determine the offsets, which have the prior σ `OFFSET_SIGMA`.
    """
    motor, volts = start.rotors[0].motor, mean_voltage(flights)
    columns, delays, weights = [], [], []
    for samples in flights:
        if samples.rotor_speed is None or not samples.command_period < np.inf:
            continue
        stretch, measured = usable_intervals(samples.usable)[0], samples.rotor_speed[:, samples.usable]
        rows = samples.commanded[:, stretch], samples.rotor_speed[:, stretch]
        lag = estimate_lag(*rows, samples.period, motor.time_constant_up, motor.time_constant_down)
        response = simulate_lag(samples.commanded, lag.time_constant_up, lag.time_constant_down, samples.period)
        response = delay_signal(response, lag.delay / samples.period)[:, samples.usable]
        volt_rows = 0.0 * response if samples.voltage is None else response * (samples.voltage[samples.usable] - volts)
        columns.append(np.stack([np.ones_like(response), response, volt_rows, measured]))
        delays.append(lag.delay)
        weights.append(samples.period)
    if not columns:
        return None
    period = float(np.mean(weights))
    lines = np.array([_fit_line(rows, period) for rows in np.concatenate(columns, axis=2).transpose(1, 0, 2)])
    return MotorCalibration(lines[:, 0], lines[:, 1], float(lines[:, 2].mean()), volts, float(np.mean(delays)))


def _fit_line(rows: Array, period: float) -> tuple[float, float, float]:
    """Return a, b and s of one motor, from the rows 1, x, x (V − V_ref) and the measured speed."""
    *regressors, measured = rows
    has_voltage = np.ptp(regressors[2]) > MIN_VOLTAGE_RANGE * regressors[1].mean()
    design = np.stack(regressors if has_voltage else regressors[:2])
    matrix, target = design @ design.T, design @ measured
    unbiased = np.linalg.lstsq(matrix, target, rcond=None)[0]
    variance = float(np.mean((measured - unbiased @ design) ** 2)) * CORRELATION_TIME_S / period
    matrix[0, 0] += variance / (OFFSET_SIGMA * float(measured.mean())) ** 2
    offset, gain, *slope = np.linalg.solve(matrix, target)
    mean = float(regressors[1].mean())
    return offset, gain, slope[0] * mean / (offset + gain * mean) if slope else 0.0
