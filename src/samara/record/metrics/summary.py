"""Tables of a flight's metrics: the summary printed after a flight, and the tables of its report.

summary = run.summary()
summary["tracking error, RMS"].value   # 0.0112, in
summary["tracking error, RMS"].unit    # "m"
print(summary)                         # tracking error, RMS   1.12 cm
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from samara.core.lazy_import import present
from samara.record.metrics.registry import METRICS
from samara.scenario.autopilot_types import POSITIONS_ONLY

if TYPE_CHECKING:
    from samara.record.run import Run, Track

MAX_PRINTED_DRONES = 6
LENGTHS = ((0.01, 1e3, "mm"), (1.0, 1e2, "cm"), (1e4, 1.0, "m"), (math.inf, 1e-3, "km"))  # below [m], factor, unit
DECIMALS = {"°": 1, "°/s": 0, "rad/s": 0, "%": 1, "s": 2, "m/s": 2, "V": 2, "A": 1}


class MetricValue(NamedTuple):
    """A number with its label and unit, or a word. `text` is how it is shown: a length in mm, cm, m or km by its size."""

    name: str
    value: Any
    unit: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        return formatted(self.value, self.unit) + self.note


class Summary(Mapping[str, MetricValue]):
    """Metrics by their labels, in order; printed as a table."""

    def __init__(self, values: Iterable[MetricValue]) -> None:
        self._values = {metric.name: metric for metric in values}

    def __getitem__(self, name: str) -> MetricValue:
        if name not in self._values:
            raise KeyError(f"no metric {name!r}; there are {', '.join(map(repr, self._values))}")
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        width = max(map(len, self._values), default=0)
        return "\n".join(f"{metric.name:{width}s}  {metric.text}" for metric in self._values.values())

    def _repr_html_(self) -> str:
        return str(present("Summary.html", self))


def summary_table(summaries: Iterable[Mapping[str, MetricValue]], missing: str = "") -> list[tuple[str, ...]]:
    """Rows of several summaries side by side: the label, then the text of each summary"""
    columns = list(summaries)
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(column[name].text if name in column else missing for column in columns)) for name in names]


def formatted(value: Any, unit: str) -> str:
    """A number with its unit, as a person writes it; a vector in brackets"""
    if isinstance(value, (str, int)):
        return f"{value} {unit}".rstrip()
    if isinstance(value, tuple):
        return "({}) {}".format(", ".join(f"{round(x, 2) + 0.0:.2f}" for x in value), unit)
    if unit == "m":
        return length(value)
    if unit == "J" and abs(value) >= 1e3:
        return formatted(1e-3 * value, "kJ")
    number = f"{value:.{DECIMALS[unit]}f}" if unit in DECIMALS else f"{value:.3g}"
    return f"{number}{unit}" if unit == "°" else f"{number} {unit}" if unit else number


def length(value: float) -> str:
    """In the unit that leaves a few digits before the point: 1.25 mm, 12.5 cm, 1.25 m, 12.5 km"""
    factor, unit = length_unit(value)
    return f"{factor * value:.2f} {unit}"


def length_unit(value: float) -> tuple[float, str]:
    """The unit for a length of `value` [m]: its conversion factor from metres, and its name"""
    return next((factor, unit) for below, factor, unit in LENGTHS if not abs(value) >= below)


# Tables --------------------------------------------------------------------------------------------------------------


def metric_value(track: "Track", name: str, unit: str | None = None) -> MetricValue:
    """One of `METRICS` of a track, with its label, unit and note"""
    metric, metrics = METRICS[name], track.metrics
    return MetricValue(metric.label, metrics.metric(name), metric.unit if unit is None else unit, metric.note(metrics))


def summary(track: "Track") -> Summary:
    """The metrics of one drone that are printed after a flight"""
    return Summary(
        [
            MetricValue("vehicle", track.vehicle.name),
            MetricValue("controller", track.controller),
            *(metric_value(track, name) for name in ("flight_time", "final_position")),
            *_tracking(track),
            metric_value(track, "tilt_deg"),
            *([metric_value(track, "rotor_speed")] if track.vehicle.rotors else []),
            *_final_charge(track),
            *_clipped_commands(track),
        ]
    )


def report_tables(track: "Track") -> dict[str, list[MetricValue]]:
    """Tables of a flight by their headings: tracking, motion, effort, and where the vehicle has a battery, energy"""
    tables = {
        "Tracking": [*_tracking(track), *_estimate(track)],
        "Motion": _motion(track),
        "Effort": _effort(track),
        "Energy": _energy(track),
    }
    return {heading: rows for heading, rows in tables.items() if rows}


def report_values(track: "Track") -> Summary:
    """All tables of a report in one"""
    return Summary(value for rows in report_tables(track).values() for value in rows)


def _tracking(track: "Track") -> list[MetricValue]:
    """The tracking error in flight; at the end the landing error, or the position error in the air"""
    metrics, rows = track.metrics, []
    if metrics.squared_error.samples:
        rows = [metric_value(track, name) for name in ("rms_error", "worst_error")]
    if not metrics.in_the_air.total:
        return [*rows, MetricValue("took off", "never")]
    if track.controller in POSITIONS_ONLY and track.landed and metrics.reference_in_the_air.value:
        return rows  # its failsafe landed it at a position of its choice
    if not math.isfinite(metrics.final_offset.value[1]):
        return rows  # without a reference
    return [*rows, metric_value(track, "landing_error" if track.landed else "final_error")]


def _estimate(track: "Track") -> list[MetricValue]:
    return [metric_value(track, "estimate_error")] if track.metrics.squared_estimate_error.samples else []


def _motion(track: "Track") -> list[MetricValue]:
    names = ["flight_time", "distance", "highest", "speed", "tilt_deg", "angular_speed"]
    if track.metrics.metric("wind"):
        names.append("wind")
    return [metric_value(track, name) for name in names]


def _effort(track: "Track") -> list[MetricValue]:
    """The rate of the command wears the motors; a command at its limit is control authority that was missing."""
    if not track.vehicle.rotors:
        return [metric_value(track, name) for name in ("mean_thrust", "thrust")]
    fastest = metric_value(track, "rotor_speed")
    unit = "rad/s" if track.vehicle.structure.actuation.name == "speed" else ""
    rows = [
        fastest._replace(note=f", {60.0 * fastest.value / (2.0 * math.pi):.0f} rpm"),
        metric_value(track, "command", unit),
    ]
    if track.metrics.squared_command_rate.samples:
        rows.append(metric_value(track, "command_rate", f"{unit}/s"))
    saturated = (metric_value(track, name) for name in ("upper_saturation", "lower_saturation"))
    return [*rows, *saturated, *_clipped_commands(track)]


def _clipped_commands(track: "Track") -> list[MetricValue]:
    return [metric_value(track, "clipped_commands")] if track.metrics.clipped_commands.total else []


def _energy(track: "Track") -> list[MetricValue]:
    """The energy used, and the extremes of its supply"""
    if not track.metrics.energy.samples:
        return []
    names = ("energy", "power", "voltage", "current")
    return [*(metric_value(track, name) for name in names), *_final_charge(track)]


def _final_charge(track: "Track") -> list[MetricValue]:
    return [] if track.metrics.final_charge.value is None else [metric_value(track, "final_charge")]


# Text ----------------------------------------------------------------------------------------------------------------


def one_line(track: "Track") -> str:
    """Vehicle, controller, final position and tracking of one drone"""
    values = summary(track)
    labels = ("tracking error, RMS", "landing error, horizontal", "final position error", "took off")
    shown = [f"{label} {values[label].text}" for label in labels if label in values]
    position = f"ends at {values['final position'].text}"
    return ", ".join([f"{track.vehicle.name} flown by {track.controller}", position, *shown])


def several_lines(run: "Run") -> str:
    """A run as it is printed: scenario and duration, a line for each of its first drones, and the problem, if any"""
    count, time = len(run.tracks), float(run.tracks[0].time[-1])
    drones = "1 drone" if count == 1 else f"{count} drones"
    lines = [
        f"Run {run.scenario}: {drones}, {time:.1f} s, {len(run.logs)} {'line' if len(run.logs) == 1 else 'lines'} of log"
    ]
    lines += [f"  {track.name}: {one_line(track)}" for track in run.tracks[:MAX_PRINTED_DRONES]]
    if count > MAX_PRINTED_DRONES:
        lines.append(f"  and {count - MAX_PRINTED_DRONES} drones more")
    if run.problem:
        lines.append(f"  {run.problem}")
    return "\n".join(lines)
