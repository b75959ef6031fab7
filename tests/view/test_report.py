"""The report: self-contained, harmless whatever the names, and its numbers are those of the flight."""

import base64
import hashlib
import json
import math
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.command import call

import samara
from samara.record.diff import first_difference
from samara.record.load import load_run
from samara.record.metrics.summary import format_length
from samara.record.recorder import LogLine
from samara.record.run import check_expectations
from samara.scenario.file.overrides import parse_override
from samara.vehicles.description import vehicle_properties
from samara.view.report.html_repr import trajectory_properties, vehicle_svg
from samara.view.report.page import Html, element, table
from samara.view.report.report import (
    ReportRun,
    distinct_labels,
    expectations,
    fly_command,
    report_files,
    scenario_text,
    write_report,
)


class Page(HTMLParser):
    """Elements with their attributes, and the text between them, as a browser parses them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("img", "br", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag  # every element is closed, in order

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text.append(data)

    def said(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two short flights that differ in their controllers."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("geometric", "pid"):
        samara.fly("hover", controller=name, settings={"duration": 2.0}, out=folder / f"{name}.mcap")
    return folder / "geometric.mcap", folder / "pid.mcap"


@pytest.fixture(scope="module")
def written(files):
    path = files[0].with_suffix(".html")
    report_files([files[0]], path)
    return path.read_text(encoding="utf-8")


def cell(text: str, name: str) -> str:
    """Return the cell beside a heading."""
    match = re.search(rf"<th>{re.escape(name)}</th><td>(.*?)</td>", text)
    assert match, name
    return match.group(1)


# The page ---------------------------------------------------------------------------------------------------------------


def test_text_is_escaped_where_it_is_put_in():
    """By the rules of HTML: & < > in text, also quotes in attributes; text that is HTML already is unchanged."""
    assert element("p", "a < b & c > d") == "<p>a &lt; b &amp; c &gt; d</p>"
    assert element("p", element("b", "<i>")) == "<p><b>&lt;i&gt;</b></p>"
    assert element("a", "x", title="\"'><script>") == '<a title="&quot;&#x27;&gt;&lt;script&gt;">x</a>'
    assert element("p", None, ["a", "<"], Html("<hr>")) == "<p>a&lt;<hr></p>"
    assert "<script>" not in table(("<script>",), [("<script>", "<script>")])


def require_alone(page: Page) -> None:
    """Nothing is fetched and pictures are embedded; the only script is Samara's, identified by its hash, besides the data."""
    names = {name for name, _ in page.elements}
    assert not names & {"link", "iframe", "object", "embed", "base", "form", "audio", "video"}
    for name, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on")], (name, attributes)
        for key in ("src", "href", "srcset", "data", "action", "background"):
            assert attributes.get(key, "data:image/png;base64,").startswith("data:image/png;base64,"), (name, key)
    assert [attributes_of_element for name, attributes_of_element in page.elements if name == "script"] == [
        {"type": "application/json", "id": "chart-data"},
        {},
    ]
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    policy = [
        attributes_of_element["content"]
        for name, attributes_of_element in page.elements
        if attributes_of_element.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == [f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"]
    assert page.scripts[1] == (Path(samara.__file__).parent / "view" / "report" / "charts.js").read_text(
        encoding="utf-8"
    )
    assert page.open == []


def test_a_report_needs_nothing_else(written):
    page = Page(written)
    require_alone(page)
    assert len(written) < 4_000_000
    charts = json.loads(page.scripts[0])["charts"]
    boxes = [attributes["data-chart"] for _, attributes in page.elements if "data-chart" in attributes]
    assert boxes == [str(k) for k in range(len(charts))] and len(boxes) >= 6
    assert "url(" not in written and "@import" not in written
    for heading in ("Results", "Expectations", "Setup", "Events", "Plots", "Reproduce"):
        assert heading in page.said()


def test_names_that_are_html_stay_names(files, tmp_path, monkeypatch):
    """The names of a drone, a description and a log line would run as scripts, or end the data of the charts; the dollars would
    start a formula without end."""
    monkeypatch.setattr("samara.view.report.report.SUBJECTS", ("top",))  # names are drawn there too
    monkeypatch.setattr("samara.view.report.report.COMPARISON_SUBJECTS", ("top",))
    run = load_run(files[0])
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)> <!-- $\\frac$"
    vehicle = replace(run.vehicle, structure=replace(run.vehicle.structure, name=evil, description=evil))
    hostile_run = replace(
        run,
        scenario=evil,
        drone_records=(replace(run.drone_records[0], name=evil, vehicle=vehicle, controller=evil),),
        logs=(LogLine(1_000_000, "warning", evil, evil),),
        metadata={**run.metadata, "description": evil, "seed": evil},
        problem=evil,
    )
    other = replace(
        hostile_run,
        drone_records=(hostile_run.drone_records[0], replace(hostile_run.drone_records[0], name=evil + "2")),
    )
    for k, runs in enumerate(([hostile_run], [hostile_run, other], [other])):
        write_report([ReportRun(f"{evil}.mcap", reported_run) for reported_run in runs], tmp_path / f"{k}.html")
        page = Page((tmp_path / f"{k}.html").read_text(encoding="utf-8"))
        require_alone(page)
        assert evil in page.said()
    for html in (hostile_run._repr_html_(), vehicle._repr_html_()):
        page = Page(html)
        assert "script" not in {name for name, _ in page.elements}
        assert evil in page.said()


def test_numbers_of_the_report_are_those_of_the_flight(files, written):
    run = load_run(files[0])
    error = np.linalg.norm(run.tables["state"]["p_W"] - run.tables["reference"]["p_W"], axis=1)
    legs = -min(point.z for point in run.vehicle["contact"].points_B)
    flying = (run.position[:, 2] > legs + 1e-3) & (run.reference_position[:, 2] >= legs)
    error, time = error[flying], run.time[flying]
    assert cell(written, "position error, RMS") == f"{100.0 * math.sqrt(np.mean(error**2)):.2f} cm"
    largest = f"{100.0 * error.max():.2f} cm at {time[error.argmax()]:.2f} s"
    assert cell(written, "position error, largest") == largest
    assert cell(written, "flight time") == "2.00 s"
    assert cell(written, "commands at upper limit") == f"{100.0 * np.mean(run.command >= 1.0 - 1e-6):.1f} %"
    assert cell(written, "seed") == "0"
    assert cell(written, "controller") == "geometric"
    assert cell(written, "mass") == "29.3 g"
    assert "samara fly hover --set duration=2.0" in written
    assert "samara replay geometric.mcap" in written


def test_expectations_are_judged_from_the_recording(files):
    """The recording contains the scenario and its settings: after two seconds of hover, the drone has not landed."""
    run = load_run(files[0])
    text, settings = scenario_text(run)
    assert settings == {"duration": 2.0, "drones.controller": "geometric"}
    assert expectations(run) == check_expectations(run, samara.load_scenario("hover", {"duration": 2.0}).expect)
    assert [expectation.satisfied for expectation in expectations(run) if "landed" in expectation.text] == [False]
    assert fly_command("hover", text, {"drones.vehicle": "iris", "duration": 3.0}) == (
        "samara fly hover --set drones.vehicle=iris --set duration=3.0"
    )
    assert fly_command("hover", text + "# mine\n", {}) == "samara fly scenario.toml"
    for settings_case, flags in (
        (
            {"drones[0].autopilot.type": "px4", "drones[0].autopilot.binary": "/a b/px4"},
            "--autopilot px4 --binary '/a b/px4'",
        ),
        (
            {"drones[0].autopilot.type": "ardupilot", "drones[0].autopilot.binary": ""},
            "--autopilot ardupilot --connect",
        ),
        (
            {"drones.autopilot": {"type": "betaflight", "rate": 500}, "seed": 3},
            "--set seed=3 --set drones.autopilot.rate=500 --autopilot betaflight",
        ),
    ):
        assert fly_command("hover", text, settings_case) == f"samara fly hover {flags}"
    winds = {"wind": [{"model": "constant", "speed": 6.0, "from_deg": 270.0}]}
    words = shlex.split(fly_command("hover", text, winds))
    assert words[:-1] == ["samara", "fly", "hover", "--set"] and dict([parse_override(words[-1])]) == winds
    bare_run = replace(run, attachments={})
    assert expectations(bare_run) == [] and fly_command("own", *scenario_text(bare_run)) == ""


def test_a_comparison_says_where_runs_part(files, tmp_path, monkeypatch):
    """A column per run, the first difference in the words of `samara diff`, and charts of both together."""
    report_files(files, tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text(encoding="utf-8")
    page = Page(text)
    require_alone(page)
    first_run, second_run = (load_run(path) for path in files)
    assert str(first_difference(first_run, second_run)) in page.said()
    assert re.search(r"<th>controller</th><td>geometric</td><td>pid</td>", text)
    worst = [run.summary()["position error, largest"].text for run in (first_run, second_run)]
    assert f"<th>position error, largest</th><td>{worst[0]}</td><td>{worst[1]}</td>" in text
    monkeypatch.setattr("samara.view.report.report.COMPARISON_SUBJECTS", ())
    report_files([files[0], files[0]], tmp_path / "same.html")
    assert "the same, bit for bit" in (tmp_path / "same.html").read_text(encoding="utf-8")


def test_runs_are_called_by_what_tells_them_apart():
    assert distinct_labels(["out/a/run.mcap", "out/b/run.mcap"]) == ["a/run", "b/run"]
    assert distinct_labels(["x/one.mcap", "y/two.mcap"]) == ["one", "two"]
    assert distinct_labels(["one.mcap", "one.mcap"]) == ["1: one", "2: one"]


def test_many_drones_are_told_by_their_ends(tmp_path, monkeypatch):
    """Of ten drones the minimum, median and maximum of each metric, with the names at the extremes."""
    monkeypatch.setattr("samara.view.report.report.SUBJECTS", ())
    run = samara.fly("swarm", settings={"duration": 0.5, "drones.count": 10})
    raised = []
    for k, track in enumerate(run.drone_records):
        state = track.tables["state"]
        rows = state.rows.copy()
        rows[:, 2] += 0.1 * k
        raised.append(replace(track, tables={**track.tables, "state": replace(state, rows=rows)}))
    write_report([ReportRun("swarm.mcap", replace(run, drone_records=tuple(raised)))], tmp_path / "swarm.html")
    text = (tmp_path / "swarm.html").read_text(encoding="utf-8")
    extremes = [format_length(float(track.position[:, 2].max())) for track in (raised[0], raised[4], raised[9])]
    assert (
        f"<th>height, largest</th><td>{extremes[0]} (cf0)</td><td>{extremes[1]}</td><td>{extremes[2]} (cf9)</td>"
        in text
    )


def test_a_talkative_flight_has_a_page_of_ordinary_size(files, tmp_path, monkeypatch):
    """A hundred thousand log lines: the first are shown, and the count of the others."""
    monkeypatch.setattr("samara.view.report.report.SUBJECTS", ("rates",))
    run = load_run(files[0])
    lines = tuple(LogLine(20 * k + 1, "info", "drone", f"word {k}") for k in range(100_000))
    write_report([ReportRun("run.mcap", replace(run, logs=lines))], tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert len(text) < 1_500_000
    assert "word 59<" in text and "word 60<" not in text and f"and {len(lines) - 60} more lines" in text


def test_nothing_is_left_of_a_report_that_fails(files, tmp_path, monkeypatch):
    """Written to a temporary name and renamed: an old report survives, and no partial one appears."""
    path = tmp_path / "run.html"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr("samara.view.report.report.SUBJECTS", ())
    monkeypatch.setattr("samara.view.report.report._reproduce", lambda flown: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report_files([files[0]], path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_samara_report(files, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("samara.view.report.report.COMPARISON_SUBJECTS", ("rates",))
    out = str(tmp_path / "two.html")
    status, output, err = call(monkeypatch, capsys, "report", *map(str, files), "-o", out)
    assert (status, err) == (0, "")
    assert output.split()[-1] == out
    status, _, err = call(monkeypatch, capsys, "report", "absent.mcap")
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("samara: absent.mcap: ")


# In a notebook ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_a_vehicle_shows_its_rotors_where_they_are(name):
    """Forward is up and left is left; the labels are rotor indices, and each arc runs in the direction of spin."""
    vehicle = samara.vehicle(name)
    page = Page(vehicle._repr_html_())
    assert page.open == []
    properties = dict(vehicle_properties(vehicle))
    assert properties["mass"] == (f"{1e3 * vehicle.mass:.4g} g" if vehicle.mass < 1.0 else f"{vehicle.mass:.4g} kg")
    svg = Page(vehicle_svg(vehicle))
    texts = [attributes for tag, attributes in svg.elements if tag == "text"]
    paths = [attributes["d"] for tag, attributes in svg.elements if tag == "path"]
    assert len(texts) == len(paths) == len(vehicle.rotors)
    for rotor, label, path in zip(vehicle.rotors, texts, paths, strict=True):
        right, down = float(label["x"]) - 120.0, float(label["y"]) - 4.5 - 120.0
        assert math.atan2(-right, -down) == pytest.approx(math.atan2(rotor.r_B.y, rotor.r_B.x), abs=0.05)
        start, end = (
            np.array([float(x) for x in coordinates])
            for coordinates in re.findall(r"[M ](-?[\d.]+) (-?[\d.]+)(?: A|$)", path)
        )
        # An arc with SVG's sweep flag: 1 is clockwise on the page, whose y axis points down.
        sweep = int(re.search(r" 1 ([01]) ", path).group(1))
        assert sweep == (0 if rotor.spin > 0 else 1)
        assert np.linalg.norm(start - end) > 0.0
    if vehicle.rotors:
        assert properties["thrust / weight"] == f"{samara.thrust_to_weight(vehicle):.2f}"


def test_a_trajectory_tells_its_peaks():
    """A circle: a = v²/R at full speed, the tilt is atan(v²/(R g)), the length 2πR."""
    from samara.plan.trajectory import circle, hover

    trajectory = circle((0.0, 0.0, 2.0), radius=2.0, speed=3.0, laps=3.0)
    properties = dict(trajectory_properties(trajectory))
    assert properties["peak speed"] == "3.00 m/s"
    assert properties["length"] == f"{3.0 * 2.0 * math.pi * 2.0:.2f} m"[:5] + properties["length"][5:]
    assert float(properties["peak acceleration"].split()[0]) == pytest.approx(4.5, abs=0.05)
    tilt = float(properties["peak tilt, without drag"].rstrip("°"))
    assert tilt == pytest.approx(math.degrees(math.atan2(4.5, 9.80665)), abs=0.3)
    assert Page(trajectory._repr_html_()).open == []
    assert dict(trajectory_properties(hover((0, 0, 1))))["duration"] == "endless"


def test_a_run_shows_picture_and_table(files):
    run = load_run(files[0])
    page = Page(run._repr_html_())
    assert [name for name, _ in page.elements].count("img") == 1
    assert run.summary()["position error, RMS"].text in page.said()
