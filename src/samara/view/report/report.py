"""The report of a flight, or of several side by side: one HTML file that needs nothing else.

Its charts are drawn by the one script it carries, `charts.js`; a browser is told to run no other and to fetch nothing.

write_report([Flown("run.mcap", run)], "run.html")
write_report([Flown("a.mcap", a), Flown("b.mcap", b)], "report.html")  # a comparison
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
from samara.record.diff import different_vehicles, distances, first_difference
from samara.record.load import load_run
from samara.record.metrics import report_tables, report_values, summary_table
from samara.record.metrics.summary import formatted
from samara.record.run import (
    CheckedExpectation,
    Run,
    Track,
    check_expectations,
    said,
    scenario_inside,
    scenario_text,
    table_said,
)
from samara.record.streams import LEVELS
from samara.scenario.world import world_inside
from samara.vehicles.shape import COLOURS
from samara.view.plot.depth_images import draw_eyes
from samara.view.plot.plots import FEW, MOST_MARKS, Flight, flights_of, marks_of, overview
from samara.view.report.charts import Charts, script, script_hash
from samara.view.report.html_repr import vehicle_numbers, vehicle_svg
from samara.view.report.page import Html, badge, element, faint, figure, image, limited, page, picture, table

ONE_BY_ONE = 6  # more drones than this have a table of the least, the median and the largest instead of a column each
MET = 8  # expectations that came true and are listed
SATURATED = 0.01  # share of commands at a limit that deserves a warning
SUBJECTS = ("position", "attitude", "rates", "motors", "battery", "wind", "estimate", "spectra", "top")
OVERLAID = ("position", "velocity", "attitude", "motors", "battery", "top")
AUTOPILOT = re.compile(r"drones(\[\d+\])?\.autopilot(\.(?P<field>kind|binary))?")
Progress = Callable[[int, int], None]


class Flown(NamedTuple):
    """A run, the file it is in, and what was typed to fly it where that is known."""

    path: str
    run: Run
    command: str = ""


def write_report(
    flown: Sequence[Flown],
    path: str | Path,
    checked: Sequence[CheckedExpectation] | None = None,
    picture_file: str | Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Path:
    """One run is told in full, several are compared; `checked` are its expectations, else those in the recording

    `picture_file` is the picture to look at first where it has been drawn already.
    """
    if not flown:
        raise ValueError("a report needs a run; expected at least one")
    text = _of_one(flown[0], checked, picture_file, progress) if len(flown) == 1 else _of_several(flown, progress)
    write_text(path, text)
    return Path(path)


def report_files(
    recordings: Sequence[str | Path], path: str | Path, progress: Progress = lambda done, total: None
) -> Path:
    """The report of recordings by their files"""
    whole = len(recordings) > 1  # runs are compared row by row
    return write_report([Flown(str(own), load_run(own, whole=whole)) for own in recordings], path, progress=progress)


# One run ----------------------------------------------------------------------------------------------------------------


def _of_one(
    flown: Flown, checked: Sequence[CheckedExpectation] | None, picture_file: str | Path | None, progress: Progress
) -> str:
    run = flown.run
    expected = expectations(run) if checked is None else checked
    flights, marks = flights_of(run), marks_of(run)
    first = _first_picture(run, picture_file)
    charts, drawn = Charts(marks), []
    for k, what in enumerate(SUBJECTS):
        progress(k, len(SUBJECTS))
        drawn.append(charts.add(what, flights, world_inside(run.attachments)))
    progress(len(SUBJECTS), len(SUBJECTS))
    return page(
        f"{run.scenario} – Samara",
        element("h1", run.scenario),
        faint(run.metadata.get("description", "")),
        element("p", _badges(expected)),
        _warnings(run),
        element("figure", first),
        element("h2", "How it went"),
        _measured(run),
        _expected(expected),
        element("h2", "What was flown"),
        element("div", _about(flown), _vehicles(run), class_="cards"),
        element("h2", "What happened"),
        timeline_svg(run),
        _events(run),
        element("h2", "Plots"),
        *_plots(charts, drawn),
        *_eyes(run),
        element("h2", "Fly it again"),
        _again(flown),
        script=script(),
        script_hash=script_hash(),
    )


def _plots(charts: Charts, drawn: Sequence[Html | None]) -> list[Html]:
    usage = "Drag to zoom, double-click to see all again, point to read values, click a name to hide its curve."
    without = element("noscript", element("p", "The charts below are drawn by a script, which is switched off here."))
    return [faint(usage), without, element("div", drawn, class_="pair"), charts.data()]


def _eyes(run: Run) -> list[Html]:
    """What its cameras and lidars saw"""
    drawn = draw_eyes(run)
    if drawn is None:
        return []
    words = "Each when it was nearest to something; a lidar's points from above, with the path that was flown."
    shown = figure(drawn, "what cameras and lidars saw, coloured by distance")
    return [element("h2", "What its eyes saw"), faint(words), shown]


def _first_picture(run: Run, file: str | Path | None) -> Html:
    alternative = f"{run.scenario}: position, attitude, motors and path"
    if file is not None and Path(file).suffix == ".png":
        return image(Path(file).read_bytes(), alternative)
    return picture(overview(run), alternative)


def _badges(checked: Sequence[CheckedExpectation]) -> list[Html]:
    if not checked:
        return [element("span", "nothing was expected of it", class_="badge faint")]
    failed = sum(not expectation.satisfied for expectation in checked)
    words = f"✗ {failed} of {len(checked)} expectations not met" if failed else f"✓ all {len(checked)} expectations met"
    return [badge(words, not failed)]


def _warnings(run: Run) -> Html | None:
    """What a reader must know before believing the rest."""
    said = [run.problem] if run.problem else []
    said += [f"{line.time_us / 1e6:.3f} s: {line.message}" for line in run.logs if LEVELS.index(line.level) >= 2]
    for track in run.tracks:
        low, high = track.metrics.saturation
        if max(low, high) > SATURATED:
            where = f"{100.0 * high:.1f} % at their most, {100.0 * low:.1f} % at their least"
            said.append(f"{track.name}: commands were at a limit: {where}")
    if not said:
        return None
    return element("div", element("h3", "Warnings", class_="bad"), element("ul", limited(said, 12)), class_="card")


def _measured(run: Run) -> Html:
    if len(run.tracks) == 1:
        cards = []
        for heading, rows in report_tables(run.tracks[0]).items():
            numbers = table((), [(own.name, own.text) for own in rows], class_="numbers")
            cards.append(element("div", element("h3", heading), numbers, class_="card"))
        return element("div", cards, class_="cards")
    if len(run.tracks) <= ONE_BY_ONE:
        return side_by_side([(track.name, track) for track in run.tracks])
    return _distribution(run.tracks)


def side_by_side(tracks: Sequence[tuple[str, Track]]) -> Html:
    """A row for each measure, a column for each flight"""
    rows = summary_table((report_values(track) for _, track in tracks), "–")
    return table(("", *(label for label, _ in tracks)), rows)


def _distribution(tracks: Sequence[Track]) -> Html:
    """Of many drones the least, the median and the largest of every measure, and whose the ends are."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for track in tracks:
        for own in report_values(track).values():
            found.setdefault(own.name, []).append((own.value, formatted(own.value, own.unit), track.name))
    ends = []
    for name, values in found.items():
        values.sort(key=lambda own: own[0])
        low, middle, high = values[0], values[(len(values) - 1) // 2], values[-1]
        ends.append((name, f"{low[1]} ({low[2]})", middle[1], f"{high[1]} ({high[2]})"))
    return table((f"{len(tracks)} drones", "least", "median", "largest"), ends)


def _expected(checked: Sequence[CheckedExpectation]) -> list[Html]:
    """Failed expectations first, then a few of those that are satisfied"""
    if not checked:
        return []
    failed = [expectation for expectation in checked if not expectation.satisfied]
    met = [expectation for expectation in checked if expectation.satisfied]
    items = [element("li", element("span", "✗ ", class_="bad"), own.text) for own in failed]
    items += [element("li", element("span", "✓ ", class_="good"), own.text) for own in met[:MET]]
    if len(met) > MET:
        items.append(element("li", element("span", "✓ ", class_="good"), f"and {len(met) - MET} more"))
    return [element("h2", "What was expected"), element("ul", items)]


def expectations(run: Run) -> list[CheckedExpectation]:
    """Check the expectations of the scenario inside the recording; empty if it holds none that can be read"""
    scenario = scenario_inside(run)
    return check_expectations(run, scenario.expect) if scenario else []


def _about(flown: Flown) -> Html:
    run, about = flown.run, flown.run.metadata
    rates, versions = (table_said(about, key) for key in ("rates", "versions"))
    drones = said(about, "drones")
    rows = [
        ("file", flown.path),
        ("scenario", run.scenario),
        ("drones", str(len(run.tracks))),
        ("controller", _few(track.controller for track in run.tracks)),
        ("estimator", _few(own.get("estimator", "") for own in drones) if isinstance(drones, list) else ""),
        ("seed", about.get("seed", "")),
        ("integrator", about.get("integrator", "")),
        (
            "rates",
            ", ".join(f"{name} {rate:g}" for name, rate in rates.items() if is_number(rate)) + " Hz" * bool(rates),
        ),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    facts = table((), [row for row in rows if row[1]], class_="left")
    return element("div", element("h3", "Run"), facts, class_="card")


def _few(values: Iterable[str]) -> str:
    kinds = list(dict.fromkeys(values))
    return ", ".join(kinds[:5]) + (f" and {len(kinds) - 5} more" if len(kinds) > 5 else "")


def _vehicles(run: Run) -> list[Html]:
    kinds = {id(track.vehicle): track.vehicle for track in run.tracks}
    cards = []
    for vehicle in list(kinds.values())[:4]:
        count = sum(track.vehicle is vehicle for track in run.tracks)
        title = vehicle.name if count == 1 else f"{vehicle.name}, {count} of them"
        shown = (faint(vehicle.structure.description), vehicle_svg(vehicle, 200.0), table((), vehicle_numbers(vehicle)))
        cards.append(element("div", element("h3", title), *shown, class_="card"))
    return cards


def timeline_svg(run: Run) -> Html:
    """The flight as a bar from its first to its last second, with a numbered mark for everything that happened"""
    end = max(float(run.tracks[0].time[-1]), 1e-9)
    width, left, right, y = 1000.0, 12.0, 76.0, 30.0

    def at(time: float) -> float:
        return left + (width - left - right) * min(max(time / end, 0.0), 1.0)

    step = _round_step(end / 8.0)
    shapes = [
        element("line", x1=f"{at(0.0):.1f}", x2=f"{at(end):.1f}", y1=y, y2=y, stroke="currentColor", stroke_width=3),
    ]
    words: dict[str, object] = {"text_anchor": "middle", "font_size": 12, "fill": "currentColor"}
    for k in range(int(end / step + 1e-9) + 1):
        tick = f"{at(k * step):.1f}"
        shapes.append(element("line", x1=tick, x2=tick, y1=y, y2=y + 6, stroke="currentColor"))
        shapes.append(element("text", f"{k * step:g}", x=tick, y=y + 20, **words))
    shapes.append(element("text", "time [s]", x=width - 2, y=y + 4, **{**words, "text_anchor": "end"}))
    last = -100.0
    for number, line in enumerate(run.logs[:MOST_MARKS], start=1):
        x = at(line.time_us / 1e6)
        colour = COLOURS[1] if LEVELS.index(line.level) >= 2 else COLOURS[0]
        shapes.append(element("circle", cx=f"{x:.1f}", cy=y, r=5, fill=colour, stroke="#ffffff"))
        if x - last > 16.0:  # [px]: closer numbers would overlap
            last = x
            shapes.append(element("text", number, x=f"{x:.1f}", y=y - 11, **words))
    title = element("title", f"{len(run.logs)} events in {end:.3g} s")
    return element("svg", title, shapes, viewBox=f"0 0 {width:g} 56", width="100%", role="img")


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not less than this."""
    power = 10.0 ** np.floor(np.log10(rough))
    return float(next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= rough * (1.0 - 1e-9)))


def _events(run: Run) -> Html:
    if not run.logs:
        return faint("Nothing was logged.")
    rows = [
        (number, f"{line.time_us / 1e6:.3f} s", line.level, line.name, line.message)
        for number, line in enumerate(run.logs[:60], start=1)
    ]
    more = faint(f"and {len(run.logs) - 60} lines more") if len(run.logs) > 60 else None
    return element("div", table(("", "time", "level", "who", "what"), rows), more, _facts(run))


def _facts(run: Run) -> Html | None:
    """What the log does not tell line by line: who took off, landed, lost a motor."""
    if not run.facts:
        return None
    rows = [(f"{own.time:.3f} s", run.describe(own)) for own in run.facts[:60]]
    if len(run.facts) > 60:
        rows.append(("", f"and {len(run.facts) - 60} more"))
    return element("div", element("h3", "Recorded facts"), table(("time", "what"), rows))


def _again(flown: Flown) -> Html:
    """What to type: the scenario, the recording, and in Python."""
    name = Path(flown.path).name
    text, settings = scenario_text(flown.run)
    lines = [flown.command or fly_command(flown.run.scenario, text, settings)]
    lines += [
        f"samara replay {shlex.quote(name)}              # bit for bit the same",
        f"samara replay {shlex.quote(name)} --plant iris # the same inputs on another vehicle",
        f"samara plot {shlex.quote(name)}                # every plot as a file",
        f"samara render {shlex.quote(name)} -o flight.gif",
    ]
    python = f"import samara\n\nrun = samara.load_run({name!r})\n"
    python += "run.position, run.error, run.tables  # arrays, and every stream"
    file = element("details", element("summary", "The scenario's file"), element("pre", text)) if text else None
    return element("div", element("pre", "\n".join(own for own in lines if own)), element("pre", python), file)


def fly_command(scenario: str, text: str, settings: dict[str, object]) -> str:
    """The command that flies this scenario: by its name where it came with Samara, else by its file"""
    from samara.scenario.file import SCENARIOS

    shipped = SCENARIOS.find(scenario).text if scenario in SCENARIOS.names() else ""
    name = scenario if text and shipped.rstrip() == text.rstrip() else "scenario.toml" if text else ""
    flown_by, others = _autopilot_flags(settings)
    changes = [f"--set {shlex.quote(f'{key}={_as_toml(value)}')}" for key, value in others.items()]
    return " ".join(["samara fly", name, *changes, *flown_by]) if name else ""


def _autopilot_flags(settings: dict[str, object]) -> tuple[list[str], dict[str, object]]:
    """What of the settings is said by --autopilot, --binary or --connect, and the rest: a program is named by a flag only"""
    named: dict[str, object] = {}
    for key, value in settings.items():
        if found := AUTOPILOT.fullmatch(key):
            named |= (
                {found["field"]: value} if found["field"] else value if isinstance(value, dict) else {"kind": value}
            )
    flags = [f"--autopilot {shlex.quote(str(named['kind']))}"] if "kind" in named else []
    if "binary" in named:
        flags.append(f"--binary {shlex.quote(str(named['binary']))}" if named["binary"] else "--connect")
    kept = {key: value for key, value in settings.items() if not AUTOPILOT.fullmatch(key)}
    more = {f"drones.autopilot.{key}": value for key, value in named.items() if key not in ("kind", "binary")}
    return flags, {**kept, **more}


def _as_toml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# Several runs -----------------------------------------------------------------------------------------------------------


def _of_several(flown: Sequence[Flown], progress: Progress) -> str:
    labels = labels_of([own.path for own in flown])
    flights = [
        Flight(label if len(own.run.tracks) == 1 else f"{label} {track.name}", track)
        for label, own in zip(labels, flown, strict=True)
        for track in own.run.tracks
    ]
    if len(flights) > FEW:  # the first drone of each run: more lines could not be told apart
        flights = [Flight(label, own.run.tracks[0]) for label, own in zip(labels, flown, strict=True)]
    checked = [expectations(own.run) for own in flown]
    charts, drawn = Charts(), []
    for k, what in enumerate(OVERLAID):
        progress(k, len(OVERLAID))
        drawn.append(charts.add(what, flights))
    progress(len(OVERLAID), len(OVERLAID))
    problems = [f"{label}: {own.run.problem}" for label, own in zip(labels, flown, strict=True) if own.run.problem]
    return page(
        f"{len(flown)} runs – Samara",
        element("h1", f"{len(flown)} runs compared"),
        element("p", ", ".join(own.path for own in flown), class_="faint"),
        element("ul", [element("li", own, class_="bad") for own in problems]) if problems else None,
        element("h2", "Side by side"),
        _table_of_runs(labels, flown, checked),
        element("h2", f"Against {labels[0]}"),
        _differences(labels, flown),
        element("h2", "Plots"),
        *_plots(charts, drawn),
        script=script(),
        script_hash=script_hash(),
    )


def labels_of(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths, without their endings, that tell them apart; numbered where none do"""
    parts = [Path(own).with_suffix("").parts for own in paths]
    for length in range(1, max(len(own) for own in parts) + 1):
        names = ["/".join(own[-length:]) for own in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{k}: {'/'.join(own[-1:])}" for k, own in enumerate(parts, start=1)]


def _table_of_runs(
    labels: Sequence[str], flown: Sequence[Flown], checked: Sequence[Sequence[CheckedExpectation]]
) -> Html:
    """What each run was, then the measures of its first drone."""
    runs = [own.run for own in flown]
    met = ["–" if not run else f"{sum(expectation.satisfied for expectation in run)} of {len(run)}" for run in checked]
    facts: list[tuple[str, list[str]]] = [
        ("scenario", [run.scenario for run in runs]),
        ("vehicle", [_few(track.vehicle.name for track in run.tracks) for run in runs]),
        ("controller", [_few(track.controller for track in run.tracks) for run in runs]),
        ("drones", [str(len(run.tracks)) for run in runs]),
        ("seed", [run.metadata.get("seed", "–") for run in runs]),
        ("samara", [str(table_said(run.metadata, "versions").get("samara", "–")) for run in runs]),
        ("settings", [", ".join(f"{k}={v}" for k, v in scenario_text(run)[1].items()) or "–" for run in runs]),
        ("expectations met", met),
    ]
    rows: list[tuple[str, ...]] = [(name, *values) for name, values in facts]
    rows += summary_table((report_values(run.tracks[0]) for run in runs), "–")
    return table(("first drone", *labels), rows)


def _differences(labels: Sequence[str], flown: Sequence[Flown]) -> Html:
    """When and where each run first differs from the first, and how far apart they are."""
    rows = []
    first = flown[0].run
    for label, own in zip(labels[1:], flown[1:], strict=True):
        try:
            vehicles = different_vehicles(first, own.run)
            different = first_difference(first, own.run)
            apart = distances(first, own.run)
        except ValueError as error:
            rows.append((label, str(error), "", ""))
            continue
        worst = max(apart, key=lambda each: each.position_max)
        words = "the same, bit for bit" if different is None else str(different)
        words = f"other vehicles: {vehicles}; {different}" if vehicles else words
        positions = f"{worst.position_rms:.4g} m RMS, {worst.position_max:.4g} m"
        rows.append((label, words, positions, f"{worst.attitude_max_deg:.3g}°"))
    return table(("run", "first difference", "positions apart, at most", "attitudes apart, at most"), rows)
