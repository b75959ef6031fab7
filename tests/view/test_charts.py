"""Charts of a report: the data in the page are those of the flight; in a browser they are read, zoomed and hidden."""

import json
import time
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from figures.chromium import Browser, find_chromium, wait_for

import samara
from samara.record.recorder import LogLine
from samara.view.plot.plots import (
    MAX_INDIVIDUAL_FLIGHTS,
    LabelledRecord,
    Panel,
    event_marks,
    run_flights,
    subject_panels,
)
from samara.view.plot.signals import PlotSignal
from samara.view.report.charts import MAX_POINTS, Charts, panel_chart, path_map, round_values
from samara.view.report.report import ReportRun, write_report


@pytest.fixture(scope="module")
def run():
    return samara.fly("figure8", settings={"duration": 2.0})


@pytest.fixture(scope="module")
def chromium():
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed")
    browser = Browser(program, (1100, 900))
    yield browser
    browser.close()


def charts(run, subject):
    flights = run_flights(run)
    over = "frequency" if subject == "spectra" else "time"
    return [
        panel_chart(panel, [flight.label for flight in flights], over) for panel in subject_panels(subject, flights)
    ]


def test_curves_are_those_of_the_flight(run):
    """Five digits of the largest value of each; the reference beside them, hidden by one name."""
    chart = charts(run, "position")[0]
    curves = {curve["name"]: curve for curve in chart["curves"]}
    time = chart["xs"][curves["y north"]["x"]]
    assert time == pytest.approx(run.time, abs=1e-6)
    assert curves["y north"]["y"] == pytest.approx(run.position[:, 1], abs=1e-4 * np.abs(run.position[:, 1]).max())
    assert curves["y north, reference"]["group"] == curves["x east, reference"]["group"] == "reference"
    assert curves["y north, reference"]["style"] == "dash"
    assert (chart["title"], chart["unit"], chart["over"]) == ("Position", "m", "time")


def test_a_spectrum_is_in_powers_of_ten(run):
    chart = charts(run, "spectra")[0]
    panel = subject_panels("spectra", run_flights(run))[0].signals[0][1]
    assert chart["log"] and chart["over"] == "frequency"
    assert chart["xs"][0] == pytest.approx(np.log10(panel.time), abs=1e-5)
    assert chart["curves"][0]["y"] == pytest.approx(np.log10(panel.values[:, 0]), abs=1e-3)


def test_a_long_flight_keeps_its_peaks_and_a_page_its_size():
    """A million rows are a few thousand points, the highest and the lowest among them."""
    rows = 1_000_000
    values = np.sin(np.linspace(0.0, 50.0, rows))
    values[777_777], values[333_333] = 9.0, -8.0
    signal = PlotSignal("Voltage", "V", ("bus",), np.arange(rows) / 1e3, values[:, None])
    chart = panel_chart(Panel("Voltage", (("drone", signal),)), ["drone"], "time")
    (curve,) = chart["curves"]
    assert len(curve["y"]) < 3 * MAX_POINTS and (max(curve["y"]), min(curve["y"])) == (9.0, -8.0)
    assert len(json.dumps(chart)) < 100_000


def test_eight_drones_need_no_more_room_than_a_page_may_have():
    """Forty panels of eight curves, each with its reference, in five digits and a sign: under 4 MB."""
    time, rng = np.arange(60_000) / 1e3, np.random.default_rng(0)
    signals = {f"d{k}": rng.normal(size=(60_000, 1)) for k in range(MAX_INDIVIDUAL_FLIGHTS)}
    panel = Panel(
        "Roll", tuple((name, PlotSignal("Roll", "°", ("roll",), time, y, (time, -y))) for name, y in signals.items())
    )
    chart = panel_chart(panel, list(signals), "time")
    assert len(chart["curves"]) == 2 * MAX_INDIVIDUAL_FLIGHTS
    assert 40 * len(json.dumps(chart, separators=(",", ":"))) < 4_000_000


def test_where_there_is_no_number_there_is_none():
    assert round_values(np.array([1.0, np.nan, -0.123456789])) == [1.0, None, -0.1235]
    assert round_values(np.array([1234567.0, 0.0])) == [1234567.0, 0.0]
    assert round_values(np.array([np.nan])) == [None] and round_values(np.array([])) == []


def test_many_drones_are_their_ends_and_their_median(run):
    flights = [LabelledRecord(f"d{k}", run.drone_records[0]) for k in range(MAX_INDIVIDUAL_FLIGHTS + 2)]
    chart = panel_chart(subject_panels("velocity", flights)[0], [flight.label for flight in flights], "time")
    names = [curve["name"] for curve in chart["curves"]]
    assert names == ["minimum", "maximum", "farthest: d0", f"median of {MAX_INDIVIDUAL_FLIGHTS + 2}"]
    minimum, maximum, _, median = (np.array(curve["y"]) for curve in chart["curves"])
    assert (minimum <= median).all() and (median <= maximum).all()


def test_the_map_has_paths_and_times(run):
    chart = path_map(run_flights(run), None)
    curve = next(candidate for candidate in chart["curves"] if candidate["name"] == "drone")
    rows = len(curve["y"])
    assert chart["equal"] and len(chart["xs"][curve["x"]]) == len(chart["xs"][curve["t"]]) == rows
    assert chart["xs"][curve["t"]][-1] == pytest.approx(run.time[-1], abs=0.05)


def test_nothing_in_the_data_ends_it(run):
    """Whatever the name of a drone or an event: < and > are escaped, and read back unchanged."""
    evil = "</script><script>alert(1)</script>&\u2028<!--"
    named = replace(run, logs=(LogLine(1_000_000, "info", evil, evil),))
    page = Charts(event_marks(named))
    flights = [LabelledRecord(evil, run.drone_records[0]), LabelledRecord("b", run.drone_records[0])]
    page.add("velocity", flights)
    text = page.data()
    data = text.removeprefix('<script type="application/json" id="chart-data">').removesuffix("</script>")
    assert not set("<>&\u2028") & set(data) and unescape(data) == data
    decoded = json.loads(data)
    assert decoded["marks"][0]["text"] == evil == decoded["charts"][0]["curves"][0]["name"]


# In a browser -----------------------------------------------------------------------------------------------------------


def mouse(page, event_type, x, y, held=False):
    button = "left" if held or event_type != "mouseMoved" else "none"
    page.call("Input.dispatchMouseEvent", type=event_type, x=x, y=y, button=button, buttons=int(held), clickCount=1)


@pytest.mark.long
def test_charts_are_read_zoomed_and_hidden_in_a_browser(run, chromium, tmp_path):
    """The pointer shows values; dragging zooms all charts over time; clicking a name hides its curve."""
    evil = "</script><img src=x onerror=\"document.title='hurt'\">"
    named = replace(
        run, drone_records=(replace(run.drone_records[0], name=evil),), logs=(LogLine(500_000, "info", evil, evil),)
    )
    write_report([ReportRun("run.mcap", named)], tmp_path / "report.html")
    page = chromium.page((tmp_path / "report.html").as_uri(), (1100, 900))
    page.wait("Reproduce")
    wait_for(lambda: page.evaluate("document.querySelectorAll('canvas').length") > 6, 20.0, "charts")
    page.evaluate("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    left, top, width, height = page.evaluate(
        "(() => { const r = document.querySelector('canvas').getBoundingClientRect();"
        "return [r.left, r.top, r.width, r.height]; })()"
    )
    x0, x1 = left + 58, left + width - 12  # the margins of charts.js
    middle = top + 0.4 * height

    def note_text():
        return page.evaluate("document.querySelector('.chart-note').innerText")

    def canvas_images():
        time.sleep(0.2)
        return page.evaluate(
            "[...document.querySelectorAll('canvas')].map(canvas => canvas.toDataURL().length + canvas.toDataURL())"
        )

    full_view = canvas_images()
    mouse(page, "mouseMoved", 0.5 * (x0 + x1), middle)
    wait_for(note_text, 10.0, "the values under the pointer")
    row = int(np.searchsorted(run.time, 1.0))
    note = note_text()
    assert float(note.split()[0]) == pytest.approx(1.0, abs=0.01) and note.split()[1] == "s"
    up = next(line for line in note.splitlines() if line.startswith("z up "))
    assert float(up.split()[2]) == pytest.approx(run.position[row, 2], rel=0.05) and up.endswith(" m")

    mouse(page, "mousePressed", x0 + 0.25 * (x1 - x0), middle, held=True)
    mouse(page, "mouseMoved", x0 + 0.5 * (x1 - x0), middle, held=True)
    mouse(page, "mouseReleased", x0 + 0.5 * (x1 - x0), middle)
    wait_for(lambda: page.evaluate("!document.querySelector('.chart-reset').hidden"), 10.0, "a zoomed chart")
    wait_for(lambda: all(canvas_images()[k] != full_view[k] for k in (0, 2)), 60.0, "all charts over time to follow")
    zoomed = canvas_images()
    mouse(page, "mouseMoved", x0 + 1.0, middle)
    wait_for(
        lambda: note_text() and abs(float(note_text().split()[0]) - 0.5) < 0.02,
        10.0,
        "a quarter of two seconds at the left",
    )

    button = "document.querySelector('.chart-names button')"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{button}.getAttribute('aria-pressed')") == "false"
    wait_for(lambda: canvas_images()[0] != zoomed[0], 60.0, "a chart without the hidden curve")
    mouse(page, "mouseMoved", x0 + 5.0, middle)
    name = page.evaluate(f"{button}.textContent")
    wait_for(lambda: note_text() and f"{name} " not in note_text(), 10.0, "a hidden curve without values")
    page.evaluate("document.querySelector('.chart-reset').click()")
    wait_for(lambda: page.evaluate("document.querySelector('.chart-reset').hidden"), 10.0, "the whole flight")

    assert page.console_errors() == []
    assert {address.partition(":")[0] for address in page.requested_addresses()} <= {"file", "data"}
    assert page.evaluate("document.title") != "hurt" and page.evaluate("document.images.length") == 1
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    page.close()
