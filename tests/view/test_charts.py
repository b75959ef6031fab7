"""The report's charts: the numbers in the page are those of the flight; in a browser they are read, zoomed and hidden."""

import json
import time
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from figures.chromium import Browser, find_chromium, wait_for

import samara
from samara.record.recorder import LogLine
from samara.view.plot.plots import FEW, Flight, Panel, flights_of, marks_of, panels_of
from samara.view.plot.signals import Signal
from samara.view.report.charts import POINTS, Charts, chart_of, map_of, rounded
from samara.view.report.report import Flown, write_report


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


def charts(run, what):
    flights = flights_of(run)
    over = "frequency" if what == "spectra" else "time"
    return [chart_of(panel, [own.label for own in flights], over) for panel in panels_of(what, flights)]


def test_curves_are_those_of_the_flight(run):
    """Five digits of the largest value of each; the reference beside them, hidden by one name."""
    chart = charts(run, "position")[0]
    curves = {own["name"]: own for own in chart["curves"]}
    time = chart["xs"][curves["y north"]["x"]]
    assert time == pytest.approx(run.time, abs=1e-6)
    assert curves["y north"]["y"] == pytest.approx(run.position[:, 1], abs=1e-4 * np.abs(run.position[:, 1]).max())
    assert curves["y north, reference"]["group"] == curves["x east, reference"]["group"] == "reference"
    assert curves["y north, reference"]["style"] == "dash"
    assert (chart["title"], chart["unit"], chart["over"]) == ("Position", "m", "time")


def test_a_spectrum_is_in_powers_of_ten(run):
    chart = charts(run, "spectra")[0]
    panel = panels_of("spectra", flights_of(run))[0].signals[0][1]
    assert chart["log"] and chart["over"] == "frequency"
    assert chart["xs"][0] == pytest.approx(np.log10(panel.time), abs=1e-5)
    assert chart["curves"][0]["y"] == pytest.approx(np.log10(panel.values[:, 0]), abs=1e-3)


def test_a_long_flight_keeps_its_peaks_and_a_page_its_size():
    """A million rows are a few thousand points, the highest and the lowest among them."""
    rows = 1_000_000
    values = np.sin(np.linspace(0.0, 50.0, rows))
    values[777_777], values[333_333] = 9.0, -8.0
    signal = Signal("Voltage", "V", ("bus",), np.arange(rows) / 1e3, values[:, None])
    chart = chart_of(Panel("Voltage", (("drone", signal),)), ["drone"], "time")
    (curve,) = chart["curves"]
    assert len(curve["y"]) < 3 * POINTS and (max(curve["y"]), min(curve["y"])) == (9.0, -8.0)
    assert len(json.dumps(chart)) < 100_000


def test_eight_drones_need_no_more_room_than_a_page_may_have():
    """Forty panels of eight curves, each with what was asked, in five digits and a sign: under 4 MB."""
    time, rng = np.arange(60_000) / 1e3, np.random.default_rng(0)
    signals = {f"d{k}": rng.normal(size=(60_000, 1)) for k in range(FEW)}
    panel = Panel(
        "Roll", tuple((name, Signal("Roll", "°", ("roll",), time, y, (time, -y))) for name, y in signals.items())
    )
    chart = chart_of(panel, list(signals), "time")
    assert len(chart["curves"]) == 2 * FEW
    assert 40 * len(json.dumps(chart, separators=(",", ":"))) < 4_000_000


def test_where_there_is_no_number_there_is_none():
    assert rounded(np.array([1.0, np.nan, -0.123456789])) == [1.0, None, -0.1235]
    assert rounded(np.array([1234567.0, 0.0])) == [1234567.0, 0.0]
    assert rounded(np.array([np.nan])) == [None] and rounded(np.array([])) == []


def test_many_drones_are_their_ends_and_their_median(run):
    flights = [Flight(f"d{k}", run.tracks[0]) for k in range(FEW + 2)]
    chart = chart_of(panels_of("velocity", flights)[0], [own.label for own in flights], "time")
    names = [own["name"] for own in chart["curves"]]
    assert names == ["minimum", "maximum", "farthest: d0", f"median of {FEW + 2}"]
    least, largest, _, median = (np.array(own["y"]) for own in chart["curves"])
    assert (least <= median).all() and (median <= largest).all()


def test_the_map_has_paths_and_times(run):
    own = map_of(flights_of(run), None)
    curve = next(each for each in own["curves"] if each["name"] == "drone")
    rows = len(curve["y"])
    assert own["equal"] and len(own["xs"][curve["x"]]) == len(own["xs"][curve["t"]]) == rows
    assert own["xs"][curve["t"]][-1] == pytest.approx(run.time[-1], abs=0.05)


def test_nothing_in_the_data_ends_it(run):
    """However a drone or an event is called: < and > are written as numbers, and read back as they were."""
    evil = "</script><script>alert(1)</script>&\u2028<!--"
    named = replace(run, logs=(LogLine(1_000_000, "info", evil, evil),))
    page = Charts(marks_of(named))
    flights = [Flight(evil, run.tracks[0]), Flight("b", run.tracks[0])]
    page.add("velocity", flights)
    text = page.data()
    inside = text.removeprefix('<script type="application/json" id="chart-data">').removesuffix("</script>")
    assert not set("<>&\u2028") & set(inside) and unescape(inside) == inside
    told = json.loads(inside)
    assert told["marks"][0]["text"] == evil == told["charts"][0]["curves"][0]["name"]


# In a browser -----------------------------------------------------------------------------------------------------------


def mouse(page, kind, x, y, held=False):
    button = "left" if held or kind != "mouseMoved" else "none"
    page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(held), clickCount=1)


@pytest.mark.long
def test_charts_are_read_zoomed_and_hidden_in_a_browser(run, chromium, tmp_path):
    """Point at a time and its values are told; drag and all charts over time show that part; click a name, its curve goes."""
    evil = "</script><img src=x onerror=\"document.title='hurt'\">"
    named = replace(run, tracks=(replace(run.tracks[0], name=evil),), logs=(LogLine(500_000, "info", evil, evil),))
    write_report([Flown("run.mcap", named)], tmp_path / "report.html")
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

    def told():
        return page.evaluate("document.querySelector('.chart-note').innerText")

    def drawn():
        time.sleep(0.2)
        return page.evaluate(
            "[...document.querySelectorAll('canvas')].map(own => own.toDataURL().length + own.toDataURL())"
        )

    whole = drawn()
    mouse(page, "mouseMoved", 0.5 * (x0 + x1), middle)
    wait_for(told, 10.0, "the values under the pointer")
    row = int(np.searchsorted(run.time, 1.0))
    words = told()
    assert float(words.split()[0]) == pytest.approx(1.0, abs=0.01) and words.split()[1] == "s"
    up = next(line for line in words.splitlines() if line.startswith("z up "))
    assert float(up.split()[2]) == pytest.approx(run.position[row, 2], rel=0.05) and up.endswith(" m")

    mouse(page, "mousePressed", x0 + 0.25 * (x1 - x0), middle, held=True)
    mouse(page, "mouseMoved", x0 + 0.5 * (x1 - x0), middle, held=True)
    mouse(page, "mouseReleased", x0 + 0.5 * (x1 - x0), middle)
    wait_for(lambda: page.evaluate("!document.querySelector('.chart-reset').hidden"), 10.0, "a zoomed chart")
    wait_for(lambda: all(drawn()[k] != whole[k] for k in (0, 2)), 60.0, "all charts over time to follow")
    zoomed = drawn()
    mouse(page, "mouseMoved", x0 + 1.0, middle)
    wait_for(
        lambda: told() and abs(float(told().split()[0]) - 0.5) < 0.02, 10.0, "a quarter of two seconds at the left"
    )

    button = "document.querySelector('.chart-names button')"
    page.evaluate(f"{button}.click()")
    assert page.evaluate(f"{button}.getAttribute('aria-pressed')") == "false"
    wait_for(lambda: drawn()[0] != zoomed[0], 60.0, "a chart without the hidden curve")
    mouse(page, "mouseMoved", x0 + 5.0, middle)
    name = page.evaluate(f"{button}.textContent")
    wait_for(lambda: told() and f"{name} " not in told(), 10.0, "a hidden curve that is not told")
    page.evaluate("document.querySelector('.chart-reset').click()")
    wait_for(lambda: page.evaluate("document.querySelector('.chart-reset').hidden"), 10.0, "the whole flight")

    assert page.complaints() == []
    assert {address.partition(":")[0] for address in page.asked_for()} <= {"file", "data"}
    assert page.evaluate("document.title") != "hurt" and page.evaluate("document.images.length") == 1
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    page.close()
