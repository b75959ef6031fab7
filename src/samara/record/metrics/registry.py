"""The metrics of a flight by name: label, unit, and how each is read from a recording.

A name is the column of a campaign, the key of `rank_by` and `[degraded]` in its file, and the name in expectations; a label
is the text in summaries and reports.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.record.metrics.flight import FlightMetrics

if TYPE_CHECKING:
    from samara.record.metrics.recorded import RecordedMetrics


class Metric(NamedTuple):
    """A scalar, or a vector, that describes a flight.

    `recorded` reads it from `RecordedMetrics`, None if recordings do not hold it; `note` is shown behind its value.
    """

    name: str
    label: str
    unit: str
    recorded: "Callable[[RecordedMetrics], Any] | None"
    lower_is_worse: bool = False
    note: "Callable[[RecordedMetrics], str]" = lambda metrics: ""

    @property
    def is_accumulated(self) -> bool:
        """Whether `FlightMetrics` has it too, for flights without a recording."""
        return hasattr(FlightMetrics, self.name)


def _mean_power(metrics: "RecordedMetrics") -> float:
    return float(metrics.energy.total) / max(_duration(metrics), 1e-9)


def _duration(metrics: "RecordedMetrics") -> float:
    """Time from the first logged state to the last  [s]."""
    return float(metrics.end_time.value - metrics.start_time.value)


def _final_charge(metrics: "RecordedMetrics") -> float:
    charge = metrics.final_charge.value
    return math.nan if charge is None else 100.0 * charge


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "max_error",
            "position error, largest",
            "m",
            lambda metrics: float(np.maximum(metrics.max_error.value, 0.0)),  # 0 if there was nothing to track
            note=lambda metrics: f" at {metrics.max_error.time:.2f} s",
        ),
        Metric("rms_error", "position error, RMS", "m", lambda metrics: metrics.squared_error.rms),
        Metric("max_tilt_deg", "tilt, largest", "°", lambda metrics: metrics.max_tilt_deg.value),
        Metric("max_speed", "speed, largest", "m/s", lambda metrics: metrics.max_speed.value),
        Metric("max_height", "height, largest", "m", lambda metrics: metrics.max_height.value),
        Metric("min_height", "height, smallest", "m", lambda metrics: metrics.min_height.value, lower_is_worse=True),
        Metric("min_charge", "charge, lowest", "", lambda metrics: metrics.min_charge.value, lower_is_worse=True),
        Metric("min_voltage", "voltage, lowest", "V", lambda metrics: metrics.min_voltage.value, lower_is_worse=True),
        Metric("max_touchdown_speed", "touchdown speed, largest", "m/s", None),
        Metric("flight_time", "flight time", "s", _duration),
        Metric(
            "final_position",
            "final position",
            "m",
            lambda metrics: tuple(float(x) for x in metrics.final_position.value),
        ),
        Metric("final_error", "final position error", "m", lambda metrics: metrics.final_offset.value[1]),
        Metric(
            "landing_error",
            "landing error, horizontal",
            "m",
            lambda metrics: float(np.hypot(*metrics.final_offset.value[0][:2])),
        ),
        Metric("rms_estimate_error", "estimate error, RMS", "m", lambda metrics: metrics.squared_estimate_error.rms),
        Metric("distance", "distance flown", "m", lambda metrics: float(metrics.distance.total)),
        Metric(
            "max_angular_speed",
            "angular velocity, largest",
            "°/s",
            lambda metrics: math.degrees(metrics.max_angular_speed.value),
        ),
        Metric("mean_wind_speed", "wind, mean", "m/s", lambda metrics: float(metrics.wind_speed.mean)),
        Metric("mean_thrust", "thrust, mean", "N", lambda metrics: float(metrics.thrust.mean)),
        Metric("max_thrust", "thrust, largest", "N", lambda metrics: metrics.max_thrust.value),
        Metric("max_rotor_speed", "rotor speed, largest", "rad/s", lambda metrics: metrics.max_rotor_speed.value),
        Metric("mean_command", "command, mean", "", lambda metrics: float(metrics.command.mean)),
        Metric("rms_command_rate", "command rate, RMS", "/s", lambda metrics: metrics.squared_command_rate.rms),
        Metric("upper_saturation", "commands at upper limit", "%", lambda metrics: 100.0 * metrics.saturation[1]),
        Metric("lower_saturation", "commands at lower limit", "%", lambda metrics: 100.0 * metrics.saturation[0]),
        Metric("clipped_commands", "commands out of range", "", lambda metrics: int(metrics.clipped_commands.total)),
        Metric(
            "energy",
            "energy",
            "J",
            lambda metrics: float(metrics.energy.total),
            note=lambda metrics: f", {float(metrics.energy.total) / 3600.0:.3g} Wh",
        ),
        Metric("mean_power", "power, mean", "W", _mean_power),
        Metric("max_current", "current, largest", "A", lambda metrics: metrics.max_current.value),
        Metric("final_charge", "final charge", "%", _final_charge),
    )
}

FLIGHT_METRICS = tuple(metric.name for metric in METRICS.values() if metric.is_accumulated)
"""Metrics of flights without a recording: the columns of a campaign."""
