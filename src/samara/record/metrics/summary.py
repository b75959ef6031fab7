"""Tables of a flight's metrics: the summary printed after a flight, and the tables of its report.

summary = run.summary()
summary["position error, RMS"].value   # 0.0112, in
summary["position error, RMS"].unit    # "m"
print(summary)                         # position error, RMS   1.12 cm
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from samara.core.lazy_import import present
from samara.record.metrics.registry import METRICS
from samara.scenario.autopilot_types import POSITIONS_ONLY

if TYPE_CHECKING:
    from samara.record.run import DroneRecord, Run

MAX_PRINTED_DRONES = 6
LENGTHS = ((0.01, 1e3, "mm"), (1.0, 1e2, "cm"), (1e4, 1.0, "m"), (math.inf, 1e-3, "km"))  # below [m], factor, unit
DECIMALS = {"°": 1, "°/s": 0, "rad/s": 0, "%": 1, "s": 2, "m/s": 2, "V": 2, "A": 1}


class MetricValue(NamedTuple):
    """A number with its label and unit, or a word. `text` is its display form: a length is in mm, cm, m or km."""

    name: str
    value: Any
    unit: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        return format_value(self.value, self.unit) + self.note


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
    """Return the rows of several summaries side by side: the label, then the text of each summary."""
    columns = list(summaries)
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(column[name].text if name in column else missing for column in columns)) for name in names]


def format_value(value: Any, unit: str) -> str:
    """Format a number with its unit; a vector in brackets."""
    if isinstance(value, (str, int)):
        return f"{value} {unit}".rstrip()
    if isinstance(value, tuple):
        return "({}) {}".format(", ".join(f"{round(x, 2) + 0.0:.2f}" for x in value), unit)
    if unit == "m":
        return format_length(value)
    if unit == "J" and abs(value) >= 1e3:
        return format_value(1e-3 * value, "kJ")
    number = f"{value:.{DECIMALS[unit]}f}" if unit in DECIMALS else f"{value:.3g}"
    return f"{number}{unit}" if unit == "°" else f"{number} {unit}" if unit else number


def format_length(value: float) -> str:
    """Format a length in a suitable unit: 1.25 mm, 12.5 cm, 1.25 m, 12.5 km."""
    factor, unit = length_unit(value)
    return f"{factor * value:.2f} {unit}"


def length_unit(value: float) -> tuple[float, str]:
    """Return the unit for a length of `value` [m]: its conversion factor from metres, and its name."""
    return next((factor, unit) for below, factor, unit in LENGTHS if not abs(value) >= below)


# Tables --------------------------------------------------------------------------------------------------------------


def metric_value(drone_record: "DroneRecord", name: str, unit: str | None = None) -> MetricValue:
    """Return one of `METRICS` of a drone record, with its label, unit and note."""
    metric, metrics = METRICS[name], drone_record.metrics
    return MetricValue(metric.label, metrics.metric(name), metric.unit if unit is None else unit, metric.note(metrics))


def available_metrics(drone_record: "DroneRecord", names: Iterable[str]) -> list[MetricValue]:
    """Return metrics by name, without those that need a stream or field that a flight log does not have."""
    values = []
    for name in names:
        try:
            values.append(metric_value(drone_record, name))
        except KeyError:
            if drone_record.is_simulated:
                raise
    return [metric for metric in values if metric.value != -math.inf]


def summary(drone_record: "DroneRecord") -> Summary:
    """Return the metrics of one drone that are printed after a flight."""
    made_by = {"vehicle": drone_record.vehicle.name, "controller": drone_record.controller}
    return Summary(
        [
            *(MetricValue(name, text) for name, text in made_by.items() if drone_record.is_simulated),
            *available_metrics(drone_record, ("flight_time", "final_position")),
            *_tracking(drone_record),
            *available_metrics(drone_record, ("max_tilt_deg",)),
            *(available_metrics(drone_record, ("max_rotor_speed",)) if drone_record.vehicle.rotors else []),
            *_final_charge(drone_record),
            *_clipped_commands(drone_record),
        ]
    )


def report_tables(drone_record: "DroneRecord") -> dict[str, list[MetricValue]]:
    """Return the tables of a flight by heading: tracking, motion, effort, and energy if the vehicle has a battery."""
    tables = {
        "Tracking": [*_tracking(drone_record), *_estimate(drone_record)],
        "Motion": _motion(drone_record),
        "Effort": _effort(drone_record),
        "Energy": _energy(drone_record),
    }
    return {heading: rows for heading, rows in tables.items() if rows}


def report_values(drone_record: "DroneRecord") -> Summary:
    """Return all tables of a report as one summary."""
    return Summary(value for rows in report_tables(drone_record).values() for value in rows)


def _tracking(drone_record: "DroneRecord") -> list[MetricValue]:
    """The tracking error in flight; at the end the landing error, or the position error in the air."""
    metrics, rows = drone_record.metrics, []
    if not drone_record.is_simulated:
        return []
    if metrics.squared_error.samples:
        rows = [metric_value(drone_record, name) for name in ("rms_error", "max_error")]
    if not metrics.airborne_samples.total:
        return [*rows, MetricValue("took off", "never")]
    if drone_record.controller in POSITIONS_ONLY and drone_record.landed and metrics.reference_in_the_air.value:
        return rows  # its failsafe chose the landing position
    if not math.isfinite(metrics.final_offset.value[1]):
        return rows  # without a reference
    return [*rows, metric_value(drone_record, "landing_error" if drone_record.landed else "final_error")]


def _estimate(drone_record: "DroneRecord") -> list[MetricValue]:
    return (
        [metric_value(drone_record, "rms_estimate_error")]
        if drone_record.metrics.squared_estimate_error.samples
        else []
    )


def _motion(drone_record: "DroneRecord") -> list[MetricValue]:
    names = ["flight_time", "distance", "max_height", "max_speed", "max_tilt_deg", "max_angular_speed"]
    if drone_record.is_simulated and drone_record.metrics.metric("mean_wind_speed"):
        names.append("mean_wind_speed")
    return available_metrics(drone_record, names)


def _effort(drone_record: "DroneRecord") -> list[MetricValue]:
    """Effort metrics: the command rate wears the motors; a command at its limit shows missing control authority."""
    if not drone_record.vehicle.rotors:
        return [metric_value(drone_record, name) for name in ("mean_thrust", "max_thrust")]
    fastest = available_metrics(drone_record, ["max_rotor_speed"])
    unit = "rad/s" if drone_record.vehicle.structure.actuation.name == "speed" else ""
    rows = [
        *(speed._replace(note=f", {60.0 * speed.value / (2.0 * math.pi):.0f} rpm") for speed in fastest),
        metric_value(drone_record, "mean_command", unit),
    ]
    if drone_record.metrics.squared_command_rate.samples:
        rows.append(metric_value(drone_record, "rms_command_rate", f"{unit}/s"))
    saturations = (metric_value(drone_record, name) for name in ("upper_saturation", "lower_saturation"))
    return [*rows, *saturations, *_clipped_commands(drone_record)]


def _clipped_commands(drone_record: "DroneRecord") -> list[MetricValue]:
    return [metric_value(drone_record, "clipped_commands")] if drone_record.metrics.clipped_commands.total else []


def _energy(drone_record: "DroneRecord") -> list[MetricValue]:
    """The energy used, and the extremes of the supply."""
    if not drone_record.metrics.energy.samples:
        return []
    names = ("energy", "mean_power", "min_voltage", "max_current")
    return [*(metric_value(drone_record, name) for name in names), *_final_charge(drone_record)]


def _final_charge(drone_record: "DroneRecord") -> list[MetricValue]:
    return [] if drone_record.metrics.final_charge.value is None else [metric_value(drone_record, "final_charge")]


# Text ----------------------------------------------------------------------------------------------------------------


def describe_drone(drone_record: "DroneRecord") -> str:
    """Describe one drone in a line: vehicle, controller, final position and tracking."""
    values = summary(drone_record)
    if not drone_record.is_simulated:
        return ", ".join(f"{name} {metric.text}" for name, metric in values.items())
    labels = ("position error, RMS", "landing error, horizontal", "final position error", "took off")
    errors = [f"{label} {values[label].text}" for label in labels if label in values]
    position = f"ends at {values['final position'].text}"
    return ", ".join([f"{drone_record.vehicle.name} flown by {drone_record.controller}", position, *errors])


def describe_run(run: "Run") -> str:
    """Describe a run as it is printed: scenario and duration, a line for each of its first drones, and its problem."""
    count, time = len(run.drone_records), float(run.drone_records[0].time[-1])
    drones = "1 drone" if count == 1 else f"{count} drones"
    crashed = ", ".join(run.crashed[:3]) + (", …" if len(run.crashed) > 3 else "")
    end = (
        "from a flight log"
        if not run.is_simulated
        else "stopped early"
        if run.problem
        else f"crashed: {crashed}"
        if crashed
        else "no crash"
    )
    log = "1 line of log" if len(run.logs) == 1 else f"{len(run.logs)} lines of log"
    lines = [f"Run {run.scenario}: {drones}, {time:.1f} s, {end}, {log}"]
    lines += [
        f"  {drone_record.name}: {describe_drone(drone_record)}"
        for drone_record in run.drone_records[:MAX_PRINTED_DRONES]
    ]
    if count > MAX_PRINTED_DRONES:
        lines.append(f"  and {count - MAX_PRINTED_DRONES} more drones")
    if run.problem:
        lines.append(f"  {run.problem}")
    return "\n".join(lines)
