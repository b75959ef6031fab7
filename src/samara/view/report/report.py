"""Report on one flight, or comparison of several, as one self-contained HTML file.

The embedded script `charts.js` draws the charts; the page forbids the browser to run other scripts or to fetch anything.

write_report([ReportRun("run.mcap", run)], "run.html")
write_report([ReportRun("a.mcap", a), ReportRun("b.mcap", b)], "report.html")  # a comparison
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.atomic_files import write_text
from samara.core.coerce import is_number
from samara.core.toml import toml_value
from samara.identify.log_run import load_flight
from samara.identify.readers.registry import Columns
from samara.record.diff import describe_vehicle_differences, distances, first_difference
from samara.record.metrics import report_tables, report_values, summary_table
from samara.record.metrics.summary import format_value
from samara.record.run import (
    CheckedExpectation,
    DroneRecord,
    Run,
    check_expectations,
    embedded_scenario,
    metadata_table,
    metadata_value,
    scenario_text,
)
from samara.record.streams import LEVELS
from samara.scenario.world import recorded_world
from samara.vehicles.description import vehicle_properties
from samara.vehicles.shape import COLOURS
from samara.view.plot.depth_images import draw_vision_sensors
from samara.view.plot.plots import (
    MAX_EVENT_MARKS,
    MAX_INDIVIDUAL_FLIGHTS,
    LabelledRecord,
    event_marks,
    overview,
    run_flights,
)
from samara.view.report.charts import Charts, script, script_hash
from samara.view.report.html_repr import vehicle_svg
from samara.view.report.page import (
    Html,
    badge,
    element,
    faint_paragraph,
    image,
    list_items,
    page,
    picture,
    table,
)

MAX_DRONE_COLUMNS = (
    6  # above this drone count the table shows minimum, median and maximum instead of a column per drone
)
MAX_LISTED_SATISFIED = 8  # satisfied expectations that are listed
MAX_SATURATION_FRACTION = 0.01  # fraction of commands at a limit above which the report warns
SUBJECTS = ("position", "attitude", "rates", "motors", "battery", "wind", "estimate", "spectra", "top")
COMPARISON_SUBJECTS = ("position", "velocity", "attitude", "motors", "battery", "top")
AUTOPILOT_KEY = re.compile(r"drones(\[\d+\])?\.autopilot(\.(?P<field>type|binary))?")
Progress = Callable[[int, int], None]


class ReportRun(NamedTuple):
    """A run, the path of its file, and the command that flew it, if known."""

    path: str
    run: Run
    command: str = ""


def write_report(
    runs: Sequence[ReportRun],
    path: str | Path,
    expectation_results: Sequence[CheckedExpectation] | None = None,
    picture_file: str | Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Path:
    """Write the report on one run, or a comparison of several runs, and return its path.

    Args:
        runs: the runs.
        path: HTML file to write.
        expectation_results: evaluated expectations of a single run; default: those of the scenario in the recording.
        picture_file: PNG of the overview, if it is drawn already.
        progress: called with the index of the current subject and the subject count.
    """
    if not runs:
        raise ValueError("a report needs a run; expected at least one")
    text = (
        _single_run_page(runs[0], expectation_results, picture_file, progress)
        if len(runs) == 1
        else _comparison_page(runs, progress)
    )
    write_text(path, text)
    return Path(path)


def report_files(
    recordings: Sequence[str | Path],
    path: str | Path,
    progress: Progress = lambda done, total: None,
    columns: Columns = None,
) -> Path:
    """Write the report on recordings or flight logs, given by their paths.

    Args:
        recordings: the files.
        path: HTML file to write.
        progress: called with the index of the current subject and the subject count.
        columns: the map of the columns of a CSV, as in `samara.identify.read_log`.
    """
    all_rows = len(recordings) > 1  # a comparison needs every row
    return write_report(
        [ReportRun(str(recording), load_flight(recording, columns, all_rows=all_rows)) for recording in recordings],
        path,
        progress=progress,
    )


# One run ----------------------------------------------------------------------------------------------------------------


def _single_run_page(
    flown: ReportRun,
    given_results: Sequence[CheckedExpectation] | None,
    picture_file: str | Path | None,
    progress: Progress,
) -> str:
    run = flown.run
    expectation_results = expectations(run) if given_results is None else given_results
    flights, marks = run_flights(run), event_marks(run)
    overview_picture = _first_picture(run, picture_file)
    charts, chart_figures = Charts(marks), []
    for k, subject in enumerate(SUBJECTS):
        progress(k, len(SUBJECTS))
        chart_figures.append(charts.add(subject, flights, recorded_world(run.attachments)))
    progress(len(SUBJECTS), len(SUBJECTS))
    return page(
        f"{run.scenario} – Samara",
        element("h1", run.scenario),
        faint_paragraph(run.metadata.get("description", "")),
        element("p", _badges(expectation_results)) if run.is_simulated else None,
        _warning_card(run),
        element("figure", overview_picture),
        element("h2", "Results"),
        _metrics(run),
        _expectation_list(expectation_results),
        element("h2", "Setup"),
        element("div", _run_card(flown), _vehicle_cards(run) if run.is_simulated else None, class_="cards"),
        element("h2", "Events"),
        timeline_svg(run),
        _event_table(run),
        element("h2", "Plots"),
        *_plots(charts, chart_figures),
        *_vision_images(run),
        element("h2", "Reproduce"),
        _reproduce(flown),
        script=script(),
        script_hash=script_hash(),
    )


def _plots(charts: Charts, chart_figures: Sequence[Html | None]) -> list[Html]:
    usage = "Drag to zoom, double-click to reset, point to read values, click a name to hide its curve."
    no_script = element("noscript", element("p", "The charts below need JavaScript, which is switched off."))
    return [faint_paragraph(usage), no_script, element("div", chart_figures, class_="pair"), charts.data()]


def _vision_images(run: Run) -> list[Html]:
    """Show images of cameras and lidars."""
    images = draw_vision_sensors(run)
    if images is None:
        return []
    caption = "Each image shows the moment of the smallest distance; the points of a lidar are seen from above, with the path."
    embedded = element("figure", picture(images, "images of cameras and lidars, coloured by distance"), class_="photo")
    return [element("h2", "Cameras and lidars"), faint_paragraph(caption), embedded]


def _first_picture(run: Run, file: str | Path | None) -> Html:
    alternative = f"{run.scenario}: position, attitude, motors and path"
    if file is not None and Path(file).suffix == ".png":
        return image(Path(file).read_bytes(), alternative)
    return picture(overview(run), alternative)


def _badges(results: Sequence[CheckedExpectation]) -> list[Html]:
    if not results:
        return [element("span", "no expectations", class_="badge faint")]
    failed = sum(not expectation.satisfied for expectation in results)
    text = f"✗ {failed} of {len(results)} expectations not met" if failed else f"✓ all {len(results)} expectations met"
    return [badge(text, not failed)]


def _warning_card(run: Run) -> Html | None:
    """List problems that affect the credibility of the results."""
    warnings = [run.problem] if run.problem else []
    warnings += [f"{line.time_us / 1e6:.3f} s: {line.message}" for line in run.logs if LEVELS.index(line.level) >= 2]
    for track in run.drone_records:
        low, high = track.metrics.saturation
        if max(low, high) > MAX_SATURATION_FRACTION:
            fractions = f"{100.0 * high:.1f} % at the maximum, {100.0 * low:.1f} % at the minimum"
            warnings.append(f"{track.name}: commands saturated: {fractions}")
    if not warnings:
        return None
    return element(
        "div", element("h3", "Warnings", class_="bad"), element("ul", list_items(warnings, 12)), class_="card"
    )


def _metrics(run: Run) -> Html:
    if len(run.drone_records) == 1:
        cards = []
        for heading, rows in report_tables(run.drone_records[0]).items():
            metrics = table((), [(metric.name, metric.text) for metric in rows], class_="numbers")
            cards.append(element("div", element("h3", heading), metrics, class_="card"))
        return element("div", cards, class_="cards")
    if len(run.drone_records) <= MAX_DRONE_COLUMNS:
        return flight_metrics_table([(track.name, track) for track in run.drone_records])
    return _metric_distribution(run.drone_records)


def flight_metrics_table(tracks: Sequence[tuple[str, DroneRecord]]) -> Html:
    """Tabulate one metric per row and one flight per column."""
    rows = summary_table((report_values(track) for _, track in tracks), "–")
    return table(("", *(label for label, _ in tracks)), rows)


def _metric_distribution(tracks: Sequence[DroneRecord]) -> Html:
    """Tabulate minimum, median and maximum of every metric over many drones, with the drones at the extremes."""
    metric_values: dict[str, list[tuple[float, str, str]]] = {}
    for track in tracks:
        for metric in report_values(track).values():
            metric_values.setdefault(metric.name, []).append(
                (metric.value, format_value(metric.value, metric.unit), track.name)
            )
    rows = []
    for name, values in metric_values.items():
        values.sort(key=lambda metric: metric[0])
        low, middle, high = values[0], values[(len(values) - 1) // 2], values[-1]
        rows.append((name, f"{low[1]} ({low[2]})", middle[1], f"{high[1]} ({high[2]})"))
    return table((f"{len(tracks)} drones", "minimum", "median", "maximum"), rows)


def _expectation_list(results: Sequence[CheckedExpectation]) -> list[Html]:
    """List failed expectations first, then some of the satisfied ones."""
    if not results:
        return []
    failed = [expectation for expectation in results if not expectation.satisfied]
    met = [expectation for expectation in results if expectation.satisfied]
    items = [element("li", element("span", "✗ ", class_="bad"), expectation.text) for expectation in failed]
    items += [
        element("li", element("span", "✓ ", class_="good"), expectation.text)
        for expectation in met[:MAX_LISTED_SATISFIED]
    ]
    if len(met) > MAX_LISTED_SATISFIED:
        items.append(element("li", element("span", "✓ ", class_="good"), f"and {len(met) - MAX_LISTED_SATISFIED} more"))
    return [element("h2", "Expectations"), element("ul", items)]


def expectations(run: Run) -> list[CheckedExpectation]:
    """Check the expectations of the scenario in the recording; empty if the recording holds no readable scenario."""
    scenario = embedded_scenario(run)
    return check_expectations(run, scenario.expect) if scenario else []


def _run_card(flown: ReportRun) -> Html:
    run, metadata = flown.run, flown.run.metadata
    rates, versions = (metadata_table(metadata, key) for key in ("rates", "versions"))
    drones = metadata_value(metadata, "drones")
    rows = [
        ("file", flown.path),
        ("scenario" if run.is_simulated else "flight", run.scenario),
        ("drones", str(len(run.drone_records))),
        ("controller", _short_list(track.controller for track in run.drone_records)),
        ("estimator", _short_list(drone.get("estimator", "") for drone in drones) if isinstance(drones, list) else ""),
        ("seed", metadata.get("seed", "")),
        ("integrator", metadata.get("integrator", "")),
        (
            "rates",
            ", ".join(f"{name} {rate:g}" for name, rate in rates.items() if is_number(rate)) + " Hz" * bool(rates),
        ),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    properties = table((), [row for row in rows if row[1]], class_="left")
    return element("div", element("h3", "Run"), properties, class_="card")


def _short_list(values: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(values))
    return ", ".join(distinct[:5]) + (f" and {len(distinct) - 5} more" if len(distinct) > 5 else "")


def _vehicle_cards(run: Run) -> list[Html]:
    vehicles = {id(track.vehicle): track.vehicle for track in run.drone_records}
    cards = []
    for vehicle in list(vehicles.values())[:4]:
        count = sum(track.vehicle is vehicle for track in run.drone_records)
        title = vehicle.name if count == 1 else f"{vehicle.name} (× {count})"
        content = (
            faint_paragraph(vehicle.structure.description),
            vehicle_svg(vehicle, 200.0),
            table((), vehicle_properties(vehicle)),
        )
        cards.append(element("div", element("h3", title), *content, class_="card"))
    return cards


def timeline_svg(run: Run) -> Html:
    """Draw the flight as a time axis with a numbered mark for every event."""
    duration = max(float(run.drone_records[0].time[-1]), 1e-9)
    width, left, right, y = 1000.0, 12.0, 76.0, 30.0

    def x_position(time: float) -> float:
        return left + (width - left - right) * min(max(time / duration, 0.0), 1.0)

    step = _round_step(duration / 8.0)
    shapes = [
        element(
            "line",
            x1=f"{x_position(0.0):.1f}",
            x2=f"{x_position(duration):.1f}",
            y1=y,
            y2=y,
            stroke="currentColor",
            stroke_width=3,
        ),
    ]
    text_style: dict[str, object] = {"text_anchor": "middle", "font_size": 12, "fill": "currentColor"}
    for k in range(int(duration / step + 1e-9) + 1):
        tick = f"{x_position(k * step):.1f}"
        shapes.append(element("line", x1=tick, x2=tick, y1=y, y2=y + 6, stroke="currentColor"))
        shapes.append(element("text", f"{k * step:g}", x=tick, y=y + 20, **text_style))
    shapes.append(element("text", "time [s]", x=width - 2, y=y + 4, **{**text_style, "text_anchor": "end"}))
    last_label_x = -100.0
    for number, line in enumerate(run.logs[:MAX_EVENT_MARKS], start=1):
        x = x_position(line.time_us / 1e6)
        colour = COLOURS[1] if LEVELS.index(line.level) >= 2 else COLOURS[0]
        shapes.append(element("circle", cx=f"{x:.1f}", cy=y, r=5, fill=colour, stroke="#ffffff"))
        if x - last_label_x > 16.0:  # [px]: closer labels would overlap
            last_label_x = x
            shapes.append(element("text", number, x=f"{x:.1f}", y=y - 11, **text_style))
    title = element("title", f"{len(run.logs)} events in {duration:.3g} s")
    drawing = element("svg", title, shapes, viewBox=f"0 0 {width:g} 56", width="100%", role="img", class_="timeline")
    return element("div", drawing, class_="wide")


def _round_step(rough: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(rough))
    return float(next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= rough * (1.0 - 1e-9)))


def _event_table(run: Run) -> Html:
    if not run.logs:
        return faint_paragraph("No events were logged.")
    rows = [
        (number, f"{line.time_us / 1e6:.3f} s", line.level, line.name, line.message)
        for number, line in enumerate(run.logs[:60], start=1)
    ]
    more = faint_paragraph(f"and {len(run.logs) - 60} more lines") if len(run.logs) > 60 else None
    return element("div", table(("", "time", "level", "source", "message"), rows), more, _occurrence_table(run))


def _occurrence_table(run: Run) -> Html | None:
    """List occurrences that the log does not contain: take-off, landing, motor failure."""
    if not run.occurrences:
        return None
    rows = [(f"{occurrence.time:.3f} s", run.describe(occurrence)) for occurrence in run.occurrences[:60]]
    if len(run.occurrences) > 60:
        rows.append(("", f"and {len(run.occurrences) - 60} more"))
    return element("div", element("h3", "Occurrences"), table(("time", "occurrence"), rows))


def _reproduce(flown: ReportRun) -> Html:
    """Show the commands that reproduce the flight, and the Python code that loads it."""
    name = Path(flown.path).name
    if not flown.run.is_simulated:
        file_name = shlex.quote(name)
        commands = (f"plot {file_name}", f"view {file_name}", f"identify {file_name} --vehicle VEHICLE.toml")
        return element("div", element("pre", "\n".join(f"samara {command}" for command in commands)))
    text, settings = scenario_text(flown.run)
    lines = [flown.command or fly_command(flown.run.scenario, text, settings)]
    lines += [
        f"samara replay {shlex.quote(name)}              # bit for bit the same",
        f"samara replay {shlex.quote(name)} --vehicle iris # the same inputs on another vehicle",
        f"samara plot {shlex.quote(name)}                # every plot as a PNG file",
        f"samara render {shlex.quote(name)} -o flight.gif",
    ]
    python = f"import samara\n\nrun = samara.load_run({name!r})\n"
    python += "run.position, run.error, run.tables  # arrays, and every stream"
    file = element("details", element("summary", "Scenario file"), element("pre", text)) if text else None
    return element("div", element("pre", "\n".join(line for line in lines if line)), element("pre", python), file)


def fly_command(scenario: str, text: str, settings: dict[str, object]) -> str:
    """Return the command that flies this scenario: by name if it is shipped, else by file."""
    from samara.scenario.file import SCENARIOS

    shipped = SCENARIOS.find(scenario).text if scenario in SCENARIOS.names() else ""
    name = scenario if text and shipped.rstrip() == text.rstrip() else "scenario.toml" if text else ""
    autopilot_flags, other_settings = _autopilot_flags(settings)
    changes = [f"--set {shlex.quote(_setting_text(key, value))}" for key, value in other_settings.items()]
    return " ".join(["samara fly", name, *changes, *autopilot_flags]) if name else ""


def _autopilot_flags(settings: dict[str, object]) -> tuple[list[str], dict[str, object]]:
    """Split settings into the flags --autopilot, --binary and --connect, and the others: only a flag may name a program."""
    autopilot: dict[str, object] = {}
    for key, value in settings.items():
        if match := AUTOPILOT_KEY.fullmatch(key):
            autopilot |= (
                {match["field"]: value} if match["field"] else value if isinstance(value, dict) else {"type": value}
            )
    flags = [f"--autopilot {shlex.quote(str(autopilot['type']))}"] if "type" in autopilot else []
    if "binary" in autopilot:
        flags.append(f"--binary {shlex.quote(str(autopilot['binary']))}" if autopilot["binary"] else "--connect")
    other_settings = {key: value for key, value in settings.items() if not AUTOPILOT_KEY.fullmatch(key)}
    autopilot_settings = {
        f"drones.autopilot.{key}": value for key, value in autopilot.items() if key not in ("type", "binary")
    }
    return flags, {**other_settings, **autopilot_settings}


def _setting_text(key: str, value: object) -> str:
    """Write a setting as `--set` reads it."""
    try:
        return f"{key}={value if isinstance(value, str) else toml_value(value)}"
    except TypeError:  # null, which only a file of another program has
        return f"{key}={json.dumps(value)}"


# Several runs -----------------------------------------------------------------------------------------------------------


def _comparison_page(flown: Sequence[ReportRun], progress: Progress) -> str:
    labels = distinct_labels([report_run.path for report_run in flown])
    flights = [
        LabelledRecord(label if len(report_run.run.drone_records) == 1 else f"{label} {track.name}", track)
        for label, report_run in zip(labels, flown, strict=True)
        for track in report_run.run.drone_records
    ]
    if len(flights) > MAX_INDIVIDUAL_FLIGHTS:  # the first drone of each run: more curves would be indistinguishable
        flights = [
            LabelledRecord(label, report_run.run.drone_records[0])
            for label, report_run in zip(labels, flown, strict=True)
        ]
    expectation_results = [expectations(report_run.run) for report_run in flown]
    charts, chart_figures = Charts(), []
    for k, subject in enumerate(COMPARISON_SUBJECTS):
        progress(k, len(COMPARISON_SUBJECTS))
        chart_figures.append(charts.add(subject, flights))
    progress(len(COMPARISON_SUBJECTS), len(COMPARISON_SUBJECTS))
    problems = [
        f"{label}: {report_run.run.problem}"
        for label, report_run in zip(labels, flown, strict=True)
        if report_run.run.problem
    ]
    return page(
        f"{len(flown)} runs – Samara",
        element("h1", f"{len(flown)} runs compared"),
        element("p", ", ".join(report_run.path for report_run in flown), class_="faint"),
        element("ul", [element("li", report_run, class_="bad") for report_run in problems]) if problems else None,
        element("h2", "Side by side"),
        _run_table(labels, flown, expectation_results),
        *(
            (element("h2", f"Against {labels[0]}"), _difference_table(labels, flown))
            if all(report_run.run.is_simulated for report_run in flown)
            else ()
        ),
        element("h2", "Plots"),
        *_plots(charts, chart_figures),
        script=script(),
        script_hash=script_hash(),
    )


def distinct_labels(paths: Sequence[str]) -> list[str]:
    """Label paths by their shortest distinct endings without suffix; number them if they are identical."""
    parts = [Path(path).with_suffix("").parts for path in paths]
    for length in range(1, max(len(path) for path in parts) + 1):
        names = ["/".join(path[-length:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{k}: {'/'.join(path[-1:])}" for k, path in enumerate(parts, start=1)]


def _run_table(
    labels: Sequence[str], flown: Sequence[ReportRun], checked: Sequence[Sequence[CheckedExpectation]]
) -> Html:
    """Tabulate the setup of each run, then the metrics of its first drone."""
    runs = [report_run.run for report_run in flown]
    met = ["–" if not run else f"{sum(expectation.satisfied for expectation in run)} of {len(run)}" for run in checked]
    properties: list[tuple[str, list[str]]] = [
        ("scenario", [run.scenario for run in runs]),
        (
            "vehicle",
            [
                _short_list(track.vehicle.name for track in run.drone_records) if run.is_simulated else "–"
                for run in runs
            ],
        ),
        ("controller", [_short_list(track.controller for track in run.drone_records) or "–" for run in runs]),
        ("drones", [str(len(run.drone_records)) for run in runs]),
        ("seed", [run.metadata.get("seed", "–") for run in runs]),
        ("samara", [str(metadata_table(run.metadata, "versions").get("samara", "–")) for run in runs]),
        (
            "settings",
            [", ".join(_setting_text(*item) for item in scenario_text(run)[1].items()) or "–" for run in runs],
        ),
        ("expectations met", met),
    ]
    rows: list[tuple[str, ...]] = [(name, *values) for name, values in properties]
    rows += summary_table((report_values(run.drone_records[0]) for run in runs), "–")
    return table(("first drone", *labels), rows)


def _difference_table(labels: Sequence[str], flown: Sequence[ReportRun]) -> Html:
    """Tabulate the first difference of each run from the first run, and the largest deviations."""
    rows = []
    reference_run = flown[0].run
    for label, report_run in zip(labels[1:], flown[1:], strict=True):
        try:
            vehicles = describe_vehicle_differences(reference_run, report_run.run)
            difference = first_difference(reference_run, report_run.run)
            deviations = distances(reference_run, report_run.run)
        except ValueError as error:
            rows.append((label, str(error), "", ""))
            continue
        worst = max(deviations, key=lambda deviation: deviation.position_max)
        text = "the same, bit for bit" if difference is None else str(difference)
        text = f"different vehicles: {vehicles}; {difference}" if vehicles else text
        positions = f"{worst.position_rms:.4g} m RMS, {worst.position_max:.4g} m"
        rows.append((label, text, positions, f"{worst.attitude_max_deg:.3g}°"))
    return table(("run", "first difference", "maximum position difference", "maximum attitude difference"), rows)
