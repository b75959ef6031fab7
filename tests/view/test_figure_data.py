"""Data of the figures: values in the unit of the axis, limits around them, ticks at round numbers, and labels."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from samara.campaigns.confidence import clopper_pearson
from samara.campaigns.failure_curve import failure_curve
from samara.record.run import DroneRecord
from samara.vehicles.shape import COLOURS
from samara.view.interpolation import find_row, interpolate_state
from samara.view.plot import signals
from samara.view.plot.campaign import bad_quantile, distributions, failure_map, failure_rates, trajectory_fan
from samara.view.plot.controllers import magnification
from samara.view.plot.plots import LabelledRecord, Panel, bounding_box, flight_ensemble, signal_range
from samara.view.plot.signals import MotorLimits, PlotSignal, scale_length, shift_distant_curve
from samara.view.report.charts import panel_chart, path_map
from samara.view.report.report import _round_step, timeline_svg

TIME = np.linspace(0.0, 2.0, 21)


def signal(values, unit="m", names=("x", "y", "z"), **options):
    return PlotSignal("Title", unit, names, TIME, np.asarray(values, dtype=float), **options)


class Columns(dict):
    """The fields of a recorded table, with its times."""

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
    """From 0 in equal steps, at most eight and a half of them; x and the marks are proportional to time."""
    log = SimpleNamespace(time_us=round(0.5e6 * end), level="info")
    page = str(timeline_svg(SimpleNamespace(drone_records=[SimpleNamespace(time=np.array([0.0, end]))], logs=[log])))
    texts = re.findall(r"<text([^>]*)>([^<]*)</text>", page)
    ticks = [
        (float(re.search(r'x="([\d.]+)"', attributes)[1]), float(text))
        for attributes, text in texts
        if 'y="50' in attributes
    ]
    x, seconds = np.array(ticks).T
    shorter = 0.4 if f"{seconds[1]:e}"[0] == "5" else 0.5  # the next shorter round step, relative to this one
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
    """The value in the displayed unit is the same length."""
    values = largest * np.array([[0.5, -1.0, 0.25]] * 21)
    scaled = scale_length(signal(values))
    assert scaled.unit == unit and scaled.values == pytest.approx(factor * values, rel=1e-12)


def test_a_curve_far_from_the_others_is_moved_and_its_name_says_by_how_much():
    """yaw 90.2° beside roll and pitch near 0 is drawn about 0, its reference shifted equally; a near curve is not shifted."""
    angles = np.stack([np.sin(TIME), np.cos(TIME), 90.2 + 0.1 * np.sin(TIME)], axis=1)
    attitude = signal(angles, "°", ("roll", "pitch", "yaw"), reference=(TIME, angles + 1.0))
    shifted = shift_distant_curve(attitude, 2)
    shift = float(re.fullmatch(r"yaw − ([\d.]+)°", shifted.names[2])[1])
    assert shift == pytest.approx(90.2, abs=0.11)
    assert shifted.values == pytest.approx(angles - [0.0, 0.0, shift], abs=1e-9)
    assert shifted.reference[1] == pytest.approx(angles + 1.0 - [0.0, 0.0, shift], abs=1e-9)
    negative = shift_distant_curve(signal(angles * [1.0, 1.0, -1.0], "°", ("roll", "pitch", "yaw")), 2)
    assert negative.names[2].startswith("yaw + 90.") and np.abs(negative.values[:, 2]).max() < 0.3
    assert shift_distant_curve(attitude._replace(values=angles - [0.0, 0.0, 90.0]), 2).names == attitude.names


def test_the_signals_of_a_track_are_in_the_units_they_name():
    """Degrees of radians, percent of a charge of 1."""
    track = SimpleNamespace(
        time=TIME,
        euler=np.tile([np.pi / 6.0, -np.pi / 4.0, 0.5], (21, 1)),
        tilt=np.full(21, np.pi / 3.0),
        velocity=np.tile([3.0, 4.0, 12.0], (21, 1)),
        wind=np.tile([1.0, 2.0, 3.0], (21, 1)),
        tables={"reference": {"v_W": np.zeros((21, 3))}},
    )
    track.speed = DroneRecord.speed.func(track)
    attitude, tilt = signals.actual_attitude(track)
    assert (attitude.unit, tilt.unit) == ("°", "°")
    assert attitude.values[5] == pytest.approx([30.0, -45.0, np.degrees(0.5)]) and tilt.values[5] == pytest.approx(
        [60.0]
    )
    velocity, speed = signals.velocity(track)
    assert speed.values[7] == pytest.approx([13.0]) and velocity.values[7].tolist() == [3.0, 4.0, 12.0]
    assert (velocity.names, velocity.unit) == (("x east", "y north", "z up"), "m/s")
    assert signals.wind(track)[0].values[3].tolist() == [1.0, 2.0, 3.0]


def test_rates_charge_and_attitude_errors_are_in_the_units_they_name(monkeypatch):
    """Degrees per second of rad/s, percent of a charge of 1, degrees of an error of 0.1 rad about the body's y axis."""
    times_us = (1e6 * TIME).astype(int)
    motion = {"p_W": np.zeros((21, 3)), "v_W": np.zeros((21, 3)), "q_WB": np.tile([1.0, 0.0, 0.0, 0.0], (21, 1))}
    rotated = motion | {"q_WB": np.tile([np.cos(0.05), 0.0, np.sin(0.05), 0.0], (21, 1))}
    tables = {"state": Columns(motion, times_us), "estimate": Columns(rotated, times_us)}
    track = SimpleNamespace(
        time=TIME,
        angular_velocity=np.tile([np.pi, -0.5 * np.pi, 0.1], (21, 1)),
        charge=np.full(21, 0.25),
        tables=tables,
        is_simulated=True,
    )
    (rates,) = signals.rates(track)
    assert rates.unit == "°/s" and rates.values[4] == pytest.approx([180.0, -90.0, 18.0 / np.pi])
    monkeypatch.setattr(signals, "recorded_supply", lambda track: SimpleNamespace(voltage=TIME, current=2.0 * TIME))
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
    """1.08 times the span, about its centre; the reference and the band count as well."""
    values = np.tile([[1.0, 2.0, 5.0]], (21, 1))
    assert signal_range([signal(values)]) == pytest.approx((3.0 - 1.08 * 2.0, 3.0 + 1.08 * 2.0))
    assert signal_range([signal(values, reference=(TIME, values + 4.0))]) == pytest.approx(
        (5.0 - 1.08 * 4.0, 5.0 + 1.08 * 4.0)
    )
    assert signal_range([signal(values, band=values + 1.0)]) == pytest.approx((-6.0 * 1.08, 6.0 * 1.08))
    assert signal_range([signal(np.full((21, 3), np.nan))]) is None


def test_a_limit_is_in_the_picture_where_a_curve_comes_near_it():
    """Within 15 % of the range 0 … 100."""
    near, far = (signal(np.full((21, 1), level), "1", ("u",), limits=MotorLimits(0.0, 100.0)) for level in (86.0, 84.0))
    assert signal_range([near])[1] > 100.0 > signal_range([far])[1]
    low, high = (signal(np.full((21, 1), level), "1", ("u",), limits=MotorLimits(0.0, 100.0)) for level in (14.0, 16.0))
    assert signal_range([low])[0] < 0.0 < signal_range([high])[0]


def test_a_curve_that_hardly_changes_does_not_fill_the_axis():
    low, high = signal_range([signal(np.full((21, 1), 5.0), "°", ("a",))])
    assert (low, high) == pytest.approx((5.0 - 1.08 * 0.5, 5.0 + 1.08 * 0.5))  # a degree at least


def test_rows_that_are_not_weighed_do_not_set_the_scale():
    values = np.concatenate(
        [
            np.full((10, 1), 100.0),
            np.full((11, 1), 1.0),
        ]
    )
    low, high = signal_range([signal(values, "m", ("a",), scale_rows=np.arange(10, 21))])
    assert high < 2.0 and low > 0.0


def test_the_box_around_paths_holds_them_and_stands_on_ground_that_is_near():
    path = np.array([[0.0, 0.0, 0.1], [4.0, 1.0, 1.0]])
    low, high = bounding_box([path])
    assert (low <= path.min(axis=0)).all() and (high >= path.max(axis=0)).all()
    assert low[2] == 0.0 and high[2] == pytest.approx(1.6)  # 0.4 of the largest side
    assert (high - low)[0] == pytest.approx(1.1 * 4.0)
    low, high = bounding_box([path + np.array([0.0, 0.0, 50.0])])
    assert low[2] > 49.0 and 0.5 * (low + high) == pytest.approx([2.0, 0.5, 50.55])


@pytest.mark.parametrize(
    ("error", "size", "times"), [(0.05, 1.0, 2.0), (0.001, 1.0, 100.0), (0.5, 1.0, 1.0), (0.019, 1.0, 5.0)]
)
def test_errors_are_magnified_up_to_a_tenth_of_the_picture(error, size, times):
    assert magnification(error, size) == times


def test_a_spectrum_is_drawn_over_decades_with_a_tenth_of_one_to_spare():
    """10⁻³ … 10⁻¹ over 1 … 100 Hz: from −3.1 to −0.9 over 0 to 2, in powers of ten."""
    frequency = np.geomspace(1.0, 100.0, 21)
    spectrum = signal(np.geomspace(1e-3, 1e-1, 21)[:, None], "rad/s", ("x",))._replace(time=frequency)
    chart = panel_chart(Panel("Spectrum", [("a", spectrum)]), ["a"], "frequency")
    assert chart["y"] == pytest.approx([-3.1, -0.9]) and chart["x"] == pytest.approx([0.0, 2.0], abs=1e-9)
    assert (chart["log"], chart["xunit"], chart["xname"]) == (True, "Hz", "frequency [Hz]")


# Labels ----------------------------------------------------------------------------------------------------------------


def test_of_several_drones_every_curve_has_the_name_and_the_colour_of_its_drone():
    heights = {
        name: signal(np.full((21, 1), 10.0 * k) + TIME[:, None], "m", ("z",)) for k, name in enumerate(("a", "b", "c"))
    }
    panel = Panel("Height", [(name, heights[name]) for name in ("c", "a", "b")])
    chart = panel_chart(panel, ["a", "b", "c"], "time")
    for curve in chart["curves"]:
        k = "abc".index(curve["name"])
        assert curve["colour"] == COLOURS[k] and curve["y"] == pytest.approx(10.0 * k + TIME, abs=1e-3)
    assert (chart["title"], chart["unit"], chart["xunit"], chart["xname"]) == ("Height", "m", "s", "time [s]")
    assert chart["x"] == [0.0, 2.0] and chart["y"] == pytest.approx((11.0 - 1.08 * 11.0, 11.0 + 1.08 * 11.0))


def test_a_chart_names_the_least_and_the_most_where_they_are_in_it():
    command = signal(np.linspace(5.0, 95.0, 21)[:, None], "1", ("u",), limits=MotorLimits(0.0, 100.0))
    limits = panel_chart(Panel("Command", [("a", command)]), ["a"], "time")["limits"]
    assert {limit["name"]: limit["value"] for limit in limits} == {"min": 0.0, "max": 100.0}
    middle = command._replace(values=np.full((21, 1), 50.0))
    assert panel_chart(Panel("Command", [("a", middle)]), ["a"], "time")["limits"] == []


def test_of_many_the_median_and_the_one_that_is_ever_farthest_from_it():
    values = np.zeros((9, 5)) + np.linspace(-0.1, 0.1, 9)[:, None]
    values[6, 3] = -7.0
    values[2] += 3.0  # always off, by less
    curves = [("", PlotSignal("", "m", ("e",), np.arange(values.shape[1]), row[:, None])) for row in values]
    ensemble = flight_ensemble(curves)
    assert ensemble.farthest == 6 and ensemble.median == pytest.approx(np.median(values, axis=0))
    chart = panel_chart(
        Panel("Error", [(f"d{k}", signal(np.tile(row[:1], (21, 1)), "m", ("e",))) for k, row in enumerate(values)]),
        [f"d{k}" for k in range(9)],
        "time",
    )
    curves = {curve["name"]: curve["y"] for curve in chart["curves"]}
    assert {"minimum", "maximum", "median of 9"} < set(curves) and any(name == "farthest: d2" for name in curves)
    assert curves["minimum"][0] == pytest.approx(-0.1, abs=1e-4) and curves["maximum"][0] == pytest.approx(
        2.95, abs=1e-3
    )


def test_the_map_is_x_east_over_y_north_of_each_drone():
    tracks = [
        SimpleNamespace(
            time=TIME,
            position=np.stack([k + TIME, 2.0 * TIME - k, 9.0 + TIME], axis=1),
            reference_position=np.stack([k + 0.0 * TIME, TIME, TIME], axis=1),
            tables={"reference": None},
        )
        for k in range(2)
    ]
    chart = path_map([LabelledRecord(name, record) for name, record in zip("ab", tracks, strict=True)], None)
    curves = {curve["name"]: curve for curve in chart["curves"]}
    for k, name in enumerate("ab"):
        curve = curves[name]
        assert curve["colour"] == COLOURS[k]
        assert chart["xs"][curve["x"]] == pytest.approx(k + TIME, abs=1e-5) and curve["y"] == pytest.approx(
            2.0 * TIME - k, abs=1e-3
        )
        assert curves[f"{name}, reference"]["y"] == pytest.approx(TIME, abs=1e-3)
        assert chart["xs"][curve["t"]] == pytest.approx(TIME, abs=1e-6)
    pad = 0.08 * 5.0
    assert chart["x"] == pytest.approx([-pad, 3.0 + pad]) and chart["y"] == pytest.approx([-1.0 - pad, 4.0 + pad])
    assert chart["equal"] and (chart["xname"], chart["axis"]) == ("x east [m]", "y north [m]")


# Campaigns -------------------------------------------------------------------------------------------------------------


def test_rates_of_failure_are_percent_with_their_exact_intervals():
    """A factor with ten values, 40 flights each, of which k fail."""
    x, failed = np.repeat(np.arange(10.0), 40), np.concatenate([np.arange(40) < k for k in range(10)])
    (axes,) = [
        artist
        for artist in failure_rates({"wind": x}, failed, {"wind": failure_curve(x, failed)}).axes
        if artist.get_visible()
    ]
    dots = {
        float(artist.get_xdata()[0]): float(artist.get_ydata()[0])
        for artist in axes.lines
        if artist.get_marker() == "o"
    }
    assert dots == pytest.approx({float(k): 100.0 * k / 40.0 for k in range(10)})
    bars = {
        segment[0][0]: (segment[0][1], segment[1][1])
        for artist in axes.collections
        for segment in getattr(artist, "get_segments", list)()
    }
    for k in range(10):
        assert bars[float(k)] == pytest.approx([100.0 * end for end in clopper_pearson(k, 40)])
    assert axes.get_xlabel() == "wind" and axes.get_ylabel() == "failed flights [%]"
    assert axes.get_ylim() == pytest.approx((0.0, 1.05 * 100.0 * clopper_pearson(9, 40).high))


def test_every_flight_is_a_point_at_its_factors_under_its_outcome():
    factors = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([10.0, 20.0, 30.0])}
    (axes,) = [
        artist for artist in failure_map(factors, np.array(["pass", "fail", "pass"])).axes if artist.get_visible()
    ]
    points = {
        artist.get_label(): artist.get_offsets().tolist() for artist in axes.collections if len(artist.get_offsets())
    }
    assert points == {"pass": [[1.0, 10.0], [3.0, 30.0]], "fail": [[2.0, 20.0]]}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")


def test_a_distribution_has_its_median_its_bad_end_and_its_limit():
    """Of 0 … 100 the median is 50, and 99 % are below 99; the lowest height is bad at its low end."""
    figure = distributions(
        {"max_error": np.arange(101.0), "min_height": np.arange(101.0)}, {"max_error": "m"}, {"max_error": 80.0}
    )
    error, lowest = (artist for artist in figure.axes if artist.get_visible())
    assert [artist.get_xdata()[0] for artist in error.lines] == pytest.approx([50.0, 99.0, 80.0])
    assert [artist.get_xdata()[0] for artist in lowest.lines] == pytest.approx(
        [50.0, 100.0 * bad_quantile("min_height")]
    )
    assert (error.get_xlabel(), lowest.get_xlabel()) == ("max_error [m]", "min_height")
    assert sum(artist.get_height() for artist in error.patches) == 101


def test_the_fan_shows_paths_from_above_heights_and_distances_from_the_middle():
    paths = [("pass", TIME, np.stack([TIME + k, 2.0 * TIME, 3.0 * TIME], axis=1)) for k in (0.0, 1.0, 2.0)]
    paths.append(("fail", TIME, np.stack([TIME + 1.0, 2.0 * TIME + 4.0, 3.0 * TIME + 3.0], axis=1)))
    top_view, height, distance = trajectory_fan(paths).axes
    failed = top_view.lines[-1]
    assert failed.get_xdata() == pytest.approx(TIME + 1.0) and failed.get_ydata() == pytest.approx(2.0 * TIME + 4.0)
    assert height.lines[-1].get_ydata() == pytest.approx(3.0 * TIME + 3.0)
    assert distance.lines[-1].get_ydata() == pytest.approx(np.full(21, 5.0))  # 4 and 3 from those that pass
    assert top_view.get_xlabel() == "x east [m]" and top_view.get_ylabel() == "y north [m]"


# Between recorded rows -------------------------------------------------------------------------------------------------


def test_a_time_between_two_rows_is_in_proportion():
    times_us = np.array([0, 10_000, 30_000])
    assert find_row(times_us, 0.025) == (1, 0.75)
    assert find_row(times_us, -1.0) == (0, 0.0) and find_row(times_us, 9.0) == (2, 0.0)
    rows = np.zeros((2, 13))
    rows[:, 0], rows[0, 6], rows[1, 6] = (1.0, 3.0), 1.0, -1.0  # the same attitude, with the other sign
    half = interpolate_state(rows, 0, 0.5)
    assert half[0] == 2.0 and np.abs(half[6:10]).tolist() == [1.0, 0.0, 0.0, 0.0]
