"""What reaches a figure: values in the unit of its axis, limits around them, ticks at round numbers, and whose they are."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from samara.campaigns.confidence import clopper_pearson
from samara.campaigns.failure_curve import failure_curve
from samara.record.run import Track
from samara.vehicles.shape import COLOURS
from samara.view.interpolation import row_at, state_between
from samara.view.plot import signals
from samara.view.plot.campaign import bad_quantile, distributions, failure_map, failure_rates, fan
from samara.view.plot.controllers import magnification
from samara.view.plot.plots import Flight, Panel, crowd_of, framed, span_of
from samara.view.plot.signals import Limits, Signal, from_nearby, in_handy_unit
from samara.view.report.charts import chart_of, map_of
from samara.view.report.report import _round_step, timeline_svg

TIME = np.linspace(0.0, 2.0, 21)


def signal(values, unit="m", names=("x", "y", "z"), **more):
    return Signal("Title", unit, names, TIME, np.asarray(values, dtype=float), **more)


class Columns(dict):
    """The fields of a recorded table, with its times"""

    def __init__(self, fields, times_us):
        super().__init__(fields)
        self.times_us, self.time = times_us, times_us / 1e6


# Ticks and units --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rough", "step"),
    [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (2.5, 5.0), (5.1, 10.0), (0.03, 0.05), (30.0, 50.0), (0.002, 0.002)],
)
def test_a_step_is_1_2_or_5_times_a_power_of_ten_and_not_less(rough, step):
    assert _round_step(rough) == pytest.approx(step, rel=1e-12)


@pytest.mark.parametrize("end", [0.7, 8.0, 30.0, 301.0])
def test_the_ticks_of_a_timeline_are_at_their_seconds(end):
    """From 0 on at equal steps, at most eight and a half of them; x is in proportion to the time, marks as well"""
    log = SimpleNamespace(time_us=round(0.5e6 * end), level="info")
    page = str(timeline_svg(SimpleNamespace(tracks=[SimpleNamespace(time=np.array([0.0, end]))], logs=[log])))
    texts = re.findall(r"<text([^>]*)>([^<]*)</text>", page)
    ticks = [(float(re.search(r'x="([\d.]+)"', own)[1]), float(text)) for own, text in texts if 'y="50' in own]
    x, seconds = np.array(ticks).T
    shorter = 0.4 if f"{seconds[1]:e}"[0] == "5" else 0.5  # the next shorter round step, of this one
    assert shorter * seconds[1] < end / 8.0 <= seconds[1] * (1.0 + 1e-9)
    assert seconds[0] == 0.0 and seconds[-1] <= end + 1e-9 < seconds[-1] + seconds[1]
    assert np.diff(seconds) == pytest.approx(seconds[1]) and f"{seconds[1]:e}"[0] in "125"
    line = re.search(r"<line([^>]*)stroke-width", page)[1]
    first, last = (float(re.search(rf'{name}="([\d.]+)"', line)[1]) for name in ("x1", "x2"))
    assert x == pytest.approx(first + (last - first) * seconds / end, abs=0.06)
    circle = re.search(r"<circle([^>]*)", page)[1]
    assert float(re.search(r'cx="([\d.]+)"', circle)[1]) == pytest.approx(0.5 * (first + last), abs=0.06)
    assert "time [s]" in page


@pytest.mark.parametrize(("largest", "unit", "factor"), [(0.004, "mm", 1e3), (0.04, "cm", 1e2), (4.0, "m", 1.0)])
def test_lengths_are_shown_in_a_unit_of_their_size(largest, unit, factor):
    """The number beside the unit is the same length"""
    values = largest * np.array([[0.5, -1.0, 0.25]] * 21)
    found = in_handy_unit(signal(values))
    assert found.unit == unit and found.values == pytest.approx(factor * values, rel=1e-12)


def test_a_curve_far_from_the_others_is_moved_and_its_name_says_by_how_much():
    """yaw 90.2° beside roll and pitch near 0: drawn about 0, what was asked moved alike; what is near stays"""
    angles = np.stack([np.sin(TIME), np.cos(TIME), 90.2 + 0.1 * np.sin(TIME)], axis=1)
    own = signal(angles, "°", ("roll", "pitch", "yaw"), asked=(TIME, angles + 1.0))
    moved = from_nearby(own, 2)
    shift = float(re.fullmatch(r"yaw − ([\d.]+)°", moved.names[2])[1])
    assert shift == pytest.approx(90.2, abs=0.11)
    assert moved.values == pytest.approx(angles - [0.0, 0.0, shift], abs=1e-9)
    assert moved.asked[1] == pytest.approx(angles + 1.0 - [0.0, 0.0, shift], abs=1e-9)
    below = from_nearby(signal(angles * [1.0, 1.0, -1.0], "°", ("roll", "pitch", "yaw")), 2)
    assert below.names[2].startswith("yaw + 90.") and np.abs(below.values[:, 2]).max() < 0.3
    assert from_nearby(own._replace(values=angles - [0.0, 0.0, 90.0]), 2).names == own.names


def test_the_signals_of_a_track_are_in_the_units_they_name():
    """Degrees of radians, percent of a charge of 1"""
    track = SimpleNamespace(
        time=TIME,
        euler=np.tile([np.pi / 6.0, -np.pi / 4.0, 0.5], (21, 1)),
        tilt=np.full(21, np.pi / 3.0),
        velocity=np.tile([3.0, 4.0, 12.0], (21, 1)),
        wind=np.tile([1.0, 2.0, 3.0], (21, 1)),
        tables={"reference": {"v_W": np.zeros((21, 3))}},
    )
    track.speed = Track.speed.func(track)
    flown, tilt = signals.flown_attitude(track)
    assert (flown.unit, tilt.unit) == ("°", "°")
    assert flown.values[5] == pytest.approx([30.0, -45.0, np.degrees(0.5)]) and tilt.values[5] == pytest.approx([60.0])
    along, speed = signals.velocity(track)
    assert speed.values[7] == pytest.approx([13.0]) and along.values[7].tolist() == [3.0, 4.0, 12.0]
    assert (along.names, along.unit) == (("x east", "y north", "z up"), "m/s")
    assert signals.wind(track)[0].values[3].tolist() == [1.0, 2.0, 3.0]


def test_rates_charge_and_attitude_errors_are_in_the_units_they_name(monkeypatch):
    """Degrees per second of rad/s, percent of a charge of 1, degrees of an error of 0.1 rad about the body's y axis"""
    times_us = (1e6 * TIME).astype(int)
    motion = {"p_W": np.zeros((21, 3)), "v_W": np.zeros((21, 3)), "q_WB": np.tile([1.0, 0.0, 0.0, 0.0], (21, 1))}
    turned = motion | {"q_WB": np.tile([np.cos(0.05), 0.0, np.sin(0.05), 0.0], (21, 1))}
    tables = {"state": Columns(motion, times_us), "estimate": Columns(turned, times_us)}
    track = SimpleNamespace(
        time=TIME,
        angular_velocity=np.tile([np.pi, -0.5 * np.pi, 0.1], (21, 1)),
        charge=np.full(21, 0.25),
        tables=tables,
    )
    (rates,) = signals.rates(track)
    assert rates.unit == "°/s" and rates.values[4] == pytest.approx([180.0, -90.0, 18.0 / np.pi])
    monkeypatch.setattr(signals, "supply", lambda track: SimpleNamespace(voltage=TIME, current=2.0 * TIME))
    charge, voltage, current = signals.battery(track)
    assert [(panel.title, panel.unit) for panel in (charge, voltage, current)] == [
        ("Charge", "%"),
        ("Voltage", "V"),
        ("Current", "A"),
    ]
    assert charge.values[9] == pytest.approx([25.0]) and current.values[9] == pytest.approx(2.0 * voltage.values[9])
    attitude = signals.estimate(track)[2]
    assert attitude.unit == "°" and attitude.values[3] == pytest.approx([0.0, 18.0 / np.pi, 0.0])


# Limits ---------------------------------------------------------------------------------------------------------------


def test_the_axis_holds_every_curve_with_a_margin_of_four_percent_at_either_end():
    """1.08 times the span, about its middle; what was asked and the band count as well"""
    values = np.tile([[1.0, 2.0, 5.0]], (21, 1))
    assert span_of([signal(values)]) == pytest.approx((3.0 - 1.08 * 2.0, 3.0 + 1.08 * 2.0))
    assert span_of([signal(values, asked=(TIME, values + 4.0))]) == pytest.approx((5.0 - 1.08 * 4.0, 5.0 + 1.08 * 4.0))
    assert span_of([signal(values, band=values + 1.0)]) == pytest.approx((-6.0 * 1.08, 6.0 * 1.08))
    assert span_of([signal(np.full((21, 3), np.nan))]) is None


def test_a_limit_is_in_the_picture_where_a_curve_comes_near_it():
    """Within 15 % of the range of 0 … 100"""
    near, far = (signal(np.full((21, 1), own), "1", ("u",), limits=Limits(0.0, 100.0)) for own in (86.0, 84.0))
    assert span_of([near])[1] > 100.0 > span_of([far])[1]
    low, high = (signal(np.full((21, 1), own), "1", ("u",), limits=Limits(0.0, 100.0)) for own in (14.0, 16.0))
    assert span_of([low])[0] < 0.0 < span_of([high])[0]


def test_a_curve_that_hardly_changes_does_not_fill_the_axis():
    low, high = span_of([signal(np.full((21, 1), 5.0), "°", ("a",))])
    assert (low, high) == pytest.approx((5.0 - 1.08 * 0.5, 5.0 + 1.08 * 0.5))  # a degree at least


def test_rows_that_are_not_weighed_do_not_set_the_scale():
    values = np.concatenate(
        [
            np.full((10, 1), 100.0),
            np.full((11, 1), 1.0),
        ]
    )
    low, high = span_of([signal(values, "m", ("a",), weighed=np.arange(10, 21))])
    assert high < 2.0 and low > 0.0


def test_the_box_around_paths_holds_them_and_stands_on_ground_that_is_near():
    path = np.array([[0.0, 0.0, 0.1], [4.0, 1.0, 1.0]])
    low, high = framed([path])
    assert (low <= path.min(axis=0)).all() and (high >= path.max(axis=0)).all()
    assert low[2] == 0.0 and high[2] == pytest.approx(1.6)  # 0.4 of the largest side
    assert (high - low)[0] == pytest.approx(1.1 * 4.0)
    low, high = framed([path + np.array([0.0, 0.0, 50.0])])
    assert low[2] > 49.0 and 0.5 * (low + high) == pytest.approx([2.0, 0.5, 50.55])


@pytest.mark.parametrize(
    ("error", "size", "times"), [(0.05, 1.0, 2.0), (0.001, 1.0, 100.0), (0.5, 1.0, 1.0), (0.019, 1.0, 5.0)]
)
def test_errors_are_magnified_up_to_a_tenth_of_the_picture(error, size, times):
    assert magnification(error, size) == times


def test_a_spectrum_is_drawn_over_decades_with_a_tenth_of_one_to_spare():
    """10⁻³ … 10⁻¹ over 1 … 100 Hz: from −3.1 to −0.9 over 0 to 2, in powers of ten"""
    frequency = np.geomspace(1.0, 100.0, 21)
    own = signal(np.geomspace(1e-3, 1e-1, 21)[:, None], "rad/s", ("x",))._replace(time=frequency)
    chart = chart_of(Panel("Spectrum", [("a", own)]), ["a"], "frequency")
    assert chart["y"] == pytest.approx([-3.1, -0.9]) and chart["x"] == pytest.approx([0.0, 2.0], abs=1e-9)
    assert (chart["log"], chart["xunit"], chart["xname"]) == (True, "Hz", "frequency [Hz]")


# Whose it is -----------------------------------------------------------------------------------------------------------


def test_of_several_drones_every_curve_has_the_name_and_the_colour_of_its_drone():
    flown = {
        name: signal(np.full((21, 1), 10.0 * k) + TIME[:, None], "m", ("z",)) for k, name in enumerate(("a", "b", "c"))
    }
    panel = Panel("Height", [(name, flown[name]) for name in ("c", "a", "b")])
    chart = chart_of(panel, ["a", "b", "c"], "time")
    for curve in chart["curves"]:
        k = "abc".index(curve["name"])
        assert curve["colour"] == COLOURS[k] and curve["y"] == pytest.approx(10.0 * k + TIME, abs=1e-3)
    assert (chart["title"], chart["unit"], chart["xunit"], chart["xname"]) == ("Height", "m", "s", "time [s]")
    assert chart["x"] == [0.0, 2.0] and chart["y"] == pytest.approx((11.0 - 1.08 * 11.0, 11.0 + 1.08 * 11.0))


def test_a_chart_names_the_least_and_the_most_where_they_are_in_it():
    own = signal(np.linspace(5.0, 95.0, 21)[:, None], "1", ("u",), limits=Limits(0.0, 100.0))
    limits = chart_of(Panel("Command", [("a", own)]), ["a"], "time")["limits"]
    assert {each["name"]: each["value"] for each in limits} == {"min": 0.0, "max": 100.0}
    middle = own._replace(values=np.full((21, 1), 50.0))
    assert chart_of(Panel("Command", [("a", middle)]), ["a"], "time")["limits"] == []


def test_of_many_the_median_and_the_one_that_is_ever_farthest_from_it():
    values = np.zeros((9, 5)) + np.linspace(-0.1, 0.1, 9)[:, None]
    values[6, 3] = -7.0
    values[2] += 3.0  # always off, by less
    curves = [("", Signal("", "m", ("e",), np.arange(values.shape[1]), row[:, None])) for row in values]
    crowd = crowd_of(curves)
    assert crowd.farthest == 6 and crowd.median == pytest.approx(np.median(values, axis=0))
    chart = chart_of(
        Panel("Error", [(f"d{k}", signal(np.tile(row[:1], (21, 1)), "m", ("e",))) for k, row in enumerate(values)]),
        [f"d{k}" for k in range(9)],
        "time",
    )
    curves = {own["name"]: own["y"] for own in chart["curves"]}
    assert {"minimum", "maximum", "median of 9"} < set(curves) and any(own == "farthest: d2" for own in curves)
    assert curves["minimum"][0] == pytest.approx(-0.1, abs=1e-4) and curves["maximum"][0] == pytest.approx(2.95, abs=1e-3)


def test_the_map_is_x_east_over_y_north_of_each_drone():
    tracks = [
        SimpleNamespace(
            time=TIME,
            position=np.stack([k + TIME, 2.0 * TIME - k, 9.0 + TIME], axis=1),
            reference_position=np.stack([k + 0.0 * TIME, TIME, TIME], axis=1),
        )
        for k in range(2)
    ]
    chart = map_of([Flight(name, own) for name, own in zip("ab", tracks, strict=True)], None)
    curves = {own["name"]: own for own in chart["curves"]}
    for k, name in enumerate("ab"):
        own = curves[name]
        assert own["colour"] == COLOURS[k]
        assert chart["xs"][own["x"]] == pytest.approx(k + TIME, abs=1e-5) and own["y"] == pytest.approx(
            2.0 * TIME - k, abs=1e-3
        )
        assert curves[f"{name}, reference"]["y"] == pytest.approx(TIME, abs=1e-3)
        assert chart["xs"][own["t"]] == pytest.approx(TIME, abs=1e-6)
    pad = 0.08 * 5.0
    assert chart["x"] == pytest.approx([-pad, 3.0 + pad]) and chart["y"] == pytest.approx([-1.0 - pad, 4.0 + pad])
    assert chart["equal"] and (chart["xname"], chart["unit"]) == ("x east [m]", "m north")


# Campaigns -------------------------------------------------------------------------------------------------------------


def test_rates_of_failure_are_percent_with_their_exact_intervals():
    """A factor of ten values, 40 flights each, of which k fail"""
    x, failed = np.repeat(np.arange(10.0), 40), np.concatenate([np.arange(40) < k for k in range(10)])
    (axes,) = [
        own for own in failure_rates({"wind": x}, failed, {"wind": failure_curve(x, failed)}).axes if own.get_visible()
    ]
    dots = {float(own.get_xdata()[0]): float(own.get_ydata()[0]) for own in axes.lines if own.get_marker() == "o"}
    assert dots == pytest.approx({float(k): 100.0 * k / 40.0 for k in range(10)})
    bars = {
        segment[0][0]: (segment[0][1], segment[1][1])
        for own in axes.collections
        for segment in getattr(own, "get_segments", list)()
    }
    for k in range(10):
        assert bars[float(k)] == pytest.approx([100.0 * end for end in clopper_pearson(k, 40)])
    assert axes.get_xlabel() == "wind" and axes.get_ylabel() == "failed flights [%]"
    assert axes.get_ylim() == pytest.approx((0.0, 1.05 * 100.0 * clopper_pearson(9, 40).high))


def test_every_flight_is_a_point_at_its_factors_under_its_outcome():
    factors = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([10.0, 20.0, 30.0])}
    (axes,) = [own for own in failure_map(factors, np.array(["pass", "fail", "pass"])).axes if own.get_visible()]
    found = {own.get_label(): own.get_offsets().tolist() for own in axes.collections if len(own.get_offsets())}
    assert found == {"pass": [[1.0, 10.0], [3.0, 30.0]], "fail": [[2.0, 20.0]]}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")


def test_a_distribution_has_its_median_its_bad_end_and_its_limit():
    """Of 0 … 100 the median is 50, and 99 of 100 are below 99; the least height is bad at its low end"""
    figure = distributions(
        {"worst_error": np.arange(101.0), "lowest": np.arange(101.0)}, {"worst_error": "m"}, {"worst_error": 80.0}
    )
    error, lowest = (own for own in figure.axes if own.get_visible())
    assert [own.get_xdata()[0] for own in error.lines] == pytest.approx([50.0, 99.0, 80.0])
    assert [own.get_xdata()[0] for own in lowest.lines] == pytest.approx([50.0, 100.0 * bad_quantile("lowest")])
    assert (error.get_xlabel(), lowest.get_xlabel()) == ("worst_error [m]", "lowest")
    assert sum(own.get_height() for own in error.patches) == 101


def test_the_fan_shows_paths_from_above_heights_and_distances_from_the_middle():
    paths = [("pass", TIME, np.stack([TIME + k, 2.0 * TIME, 3.0 * TIME], axis=1)) for k in (0.0, 1.0, 2.0)]
    paths.append(("fail", TIME, np.stack([TIME + 1.0, 2.0 * TIME + 4.0, 3.0 * TIME + 3.0], axis=1)))
    above, height, apart = fan(paths).axes
    failed = above.lines[-1]
    assert failed.get_xdata() == pytest.approx(TIME + 1.0) and failed.get_ydata() == pytest.approx(2.0 * TIME + 4.0)
    assert height.lines[-1].get_ydata() == pytest.approx(3.0 * TIME + 3.0)
    assert apart.lines[-1].get_ydata() == pytest.approx(np.full(21, 5.0))  # 4 and 3 from those that pass
    assert above.get_xlabel() == "x east [m]" and above.get_ylabel() == "y north [m]"


# Between recorded rows -------------------------------------------------------------------------------------------------


def test_a_time_between_two_rows_is_in_proportion():
    times_us = np.array([0, 10_000, 30_000])
    assert row_at(times_us, 0.025) == (1, 0.75)
    assert row_at(times_us, -1.0) == (0, 0.0) and row_at(times_us, 9.0) == (2, 0.0)
    rows = np.zeros((2, 13))
    rows[:, 0], rows[0, 6], rows[1, 6] = (1.0, 3.0), 1.0, -1.0  # the same attitude, with the other sign
    half = state_between(rows, 0, 0.5)
    assert half[0] == 2.0 and np.abs(half[6:10]).tolist() == [1.0, 0.0, 0.0, 0.0]
