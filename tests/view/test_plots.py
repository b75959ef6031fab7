"""What the plots show is true: each curve is computed by another road, and every subject of any number of drones is drawn."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from support.command import call

import samara
from samara.core.algebra import Quat, Vec3, quat_exp
from samara.physics.rotors.battery import Thevenin
from samara.plan.trajectory import hover as hold
from samara.record.metrics import report_tables
from samara.record.run import Run, Track
from samara.record.spectrum import spectrum_of, welch
from samara.record.streams import Table
from samara.scenario.scenario import Scenario
from samara.view.plot.plots import (
    EVERY,
    FEW,
    Flight,
    Mark,
    available,
    figure_of,
    flights_of,
    framed,
    panels_of,
    span_of,
    thinned,
)
from samara.view.plot.signals import (
    SUBJECTS,
    Signal,
    _spectrum,
    asked_attitude,
    estimate,
    from_nearby,
    limits_of,
    speed_limits,
    supply,
)
from samara.wind.sources import Constant


@pytest.fixture(scope="module")
def hover():
    return samara.fly("hover", settings={"duration": 3.0})


@pytest.fixture(scope="module")
def circling():
    """An iris, which has a battery, for three seconds of a circle in which a cell fails."""
    scenario = samara.load_scenario("battery_sag", {"duration": 3.0})
    early = replace(scenario.events[0], trigger=samara.scenario.events.at(1.5))
    return samara.fly(replace(scenario, events=(early,)))


@pytest.fixture(scope="module")
def swarm():
    return samara.fly("swarm", settings={"duration": 0.5, "drones.count": 100, "drones.columns": 10})


# Signals ------------------------------------------------------------------------------------------------------------


def test_the_attitude_asked_in_a_steady_wind_balances_drag_and_weight():
    """Hovering in a wind w, linear drag k w ρ/ρ₀ must be met by leaning: tan tilt = k w ρ/ρ₀ / (m g), into the wind."""
    scenario = samara.load_scenario("hover", {"duration": 0.5, "drones.airborne": True, "drones.start": [0, 0, 1]})
    drone = replace(scenario.drones[0], task=hold((0.0, 0.0, 1.0)))
    run = samara.fly(replace(scenario, drones=(drone,), wind=Constant(Vec3(1.0, 0.0, 0.0)), events=()))
    craft = run.vehicle
    rows, angles = asked_attitude(run.tracks[0])
    ratio = run.tracks[0].tables["environment"]["air_density"][0] / 1.225
    lean = math.atan2(craft["drag"].linear.x * ratio * 1.0, craft.mass * craft["gravity"].acceleration)
    assert angles[:, 1] == pytest.approx(np.full(len(rows), -lean), rel=1e-6)  # nose up: against a wind from behind
    assert angles[:, [0, 2]] == pytest.approx(0.0, abs=1e-12)


def test_the_current_drains_the_charge(circling):
    """dSOC/dt = −I / capacity, so ∫ I dt over the flight is the capacity times the charge that is gone."""
    track = circling.tracks[0]
    battery = track.vehicle["battery"][0]
    assert isinstance(battery, Thevenin)
    own = supply(track)
    passed = np.trapezoid(own.current, track.time)
    assert passed == pytest.approx(battery.capacity * (track.charge[0] - track.charge[-1]), rel=2e-3)


def test_the_voltage_falls_by_a_cell_when_one_fails(circling):
    """One of twelve: V + R₀ I, the voltage behind the resistance, falls to 11/12 of what it was."""
    track = circling.tracks[0]
    before, after = np.searchsorted(track.time, (1.45, 1.55))
    own, battery = supply(track), track.vehicle["battery"][0]
    open_circuit = own.voltage + battery.resistance * own.current
    assert open_circuit[after] / open_circuit[before] == pytest.approx(11.0 / 12.0, abs=2e-3)


def test_energy_is_power_over_time(circling):
    told = {own.name: own.value for rows in report_tables(circling.tracks[0]).values() for own in rows}
    own = supply(circling.tracks[0])
    power = own.voltage * own.current
    simpson = float(np.sum((power[:-2:2] + 4.0 * power[1:-1:2] + power[2::2]) * 0.01 / 3.0))
    assert told["energy"] == pytest.approx(simpson, rel=1e-3)
    assert told["power, mean"] == pytest.approx(simpson / 3.0, rel=1e-3)


def test_limits_of_motors():
    """Commands from 0 to 1, speeds as the file says; a DC motor has no speed limit of its own, a wrench none at all."""
    crazyflie, iris, body = (
        samara.vehicle(name) for name in ("crazyflie_documented", "iris_documented", "rigid_body_quadrotor")
    )
    assert limits_of(crazyflie) == (0.0, 1.0) == limits_of(iris)
    assert speed_limits(crazyflie) == (crazyflie.rotors[0].motor.speed_min, crazyflie.rotors[0].motor.speed_max)
    assert speed_limits(iris) is None and limits_of(body) is None


def with_tables(run: Run, **tables: Table) -> Run:
    first = run.tracks[0]
    return replace(run, tracks=(replace(first, tables={**first.tables, **tables}), *run.tracks[1:]))


def test_saturation_counts_commands_at_their_limits(hover):
    """Of 8 commands, 3 at the top and 1 at the bottom; one just short of the top is not at it."""
    rows = np.array([[1.0, 1.0, 0.5, 0.0], [0.999, 1.0, 0.2, 0.3]])
    own = replace(hover.tracks[0].tables["command"], times_us=np.array([0, 4000]), rows=rows)
    assert with_tables(hover, command=own).metrics.saturation == (1 / 8, 3 / 8)


def test_the_error_of_an_estimate_is_what_was_added_to_the_truth(hover):
    """Position off by a vector, attitude turned by a rotation vector in body axes; and the band is 3σ of the variances."""
    state = hover.tracks[0].tables["state"]
    off, turn = np.array([0.1, -0.2, 0.3]), Vec3(0.02, -0.03, 0.04)
    fields = state.fields[:13]
    rows = state.rows[:, :13].copy()
    rows[:, :3] += off
    rows[:, 6:10] = np.stack(np.broadcast_arrays(*(Quat(*state["q_WB"].T) * quat_exp(turn))), axis=1)
    told = Table(fields, state.units[:13], "samara.Estimate", state.times_us, rows)
    names = tuple(f"{name}.{axis}" for name in ("p_W", "v_W", "theta_B") for axis in "xyz")
    spread = Table(names, ("",) * 9, "samara.Covariance", state.times_us[:1], np.full((1, 9), 0.04))
    position, velocity, attitude = estimate(with_tables(hover, estimate=told, covariance=spread).tracks[0])
    assert position.values == pytest.approx(np.tile(off, (len(rows), 1)), abs=1e-12)
    assert velocity.values == pytest.approx(0.0)
    assert attitude.values == pytest.approx(np.tile(np.degrees(tuple(turn)), (len(rows), 1)), rel=1e-9)
    assert position.band == pytest.approx(np.full((len(rows), 3), 0.6))
    assert attitude.band == pytest.approx(np.full((len(rows), 3), math.degrees(0.6)))
    assert all(own.band is None for own in estimate(with_tables(hover, estimate=told).tracks[0]))
    first = replace(told, rows=np.concatenate([rows[:1] + 1e3, rows[1:]]))  # lost at first: that sets no scale
    position = estimate(with_tables(hover, estimate=first).tracks[0])[0]
    assert position.values.max() > 900.0 and span_of([position])[1] < 0.5


def test_a_spectrum_holds_the_variance():
    """Parseval: ∫ S df is the variance of the signal; and a tone of 7 Hz is at 7 Hz."""
    time = np.arange(4096) / 256.0
    wave = 3.0 * np.sin(2.0 * np.pi * 7.0 * time)
    tone = Signal("tone", "V", ("tone",), time, wave[:, None])
    (own,) = _spectrum(tone, spectrum_of(tone.time, tone.values))
    power = float((own.values[:, 0] ** 2).sum() * (own.time[1] - own.time[0]))
    assert power == pytest.approx(wave.var(), rel=1e-2)
    assert own.time[own.values[:, 0].argmax()] == pytest.approx(7.0, abs=0.26)
    assert own.unit == "V/√Hz"


@pytest.mark.parametrize(("rows", "window"), [(4096, 1024), (1000, 256), (333, 101), (64, 64)])
def test_a_spectrum_is_scipys(rows, window):
    """Welch's mean, with the same window, overlap and scale, for even and odd windows."""
    signal = pytest.importorskip("scipy.signal")
    values = np.random.default_rng(rows).normal(size=(2, rows)).cumsum(axis=1)
    frequency, density = welch(values, 250.0, window)
    expected = signal.welch(values, fs=250.0, nperseg=window)
    assert frequency == pytest.approx(expected[0])
    assert density == pytest.approx(expected[1], rel=1e-9, abs=1e-12)


def test_a_yaw_that_spins_is_drawn_without_lines_across(hover):
    """Ten turns: within ±180°, with a gap wherever it jumps."""
    state = hover.tracks[0].tables["state"]
    rows = state.rows.copy()
    half = 0.5 * np.linspace(0.0, 20.0 * np.pi, len(rows))
    rows[:, 6:10] = np.stack([np.cos(half), 0.0 * half, 0.0 * half, np.sin(half)], axis=1)
    yaw = SUBJECTS["attitude"](with_tables(hover, state=replace(state, rows=rows)).tracks[0])[0].values[:, 2]
    assert np.nanmax(np.abs(yaw)) <= 180.0
    assert np.isnan(yaw).sum() == 10
    assert np.nanmax(np.abs(np.diff(yaw))) < 180.0


def test_thinning_loses_no_peak():
    """Of a million points a few thousand are drawn; the highest, the lowest and both ends are among them."""
    rng = np.random.default_rng(1)
    time, values = np.arange(1_000_000) / 100.0, rng.normal(size=1_000_000)
    values[123_456], values[654_321] = 50.0, -60.0
    few_times, few = thinned(time, values)
    assert len(few) < 10_000
    assert (few.max(), few.min()) == (50.0, -60.0)
    assert (np.diff(few_times) > 0).all()
    assert (values[np.searchsorted(time, few_times)] == few).all()
    assert thinned(time[:100], values[:100])[1] is not None and len(thinned(time[:100], values[:100])[1]) == 100


def test_many_rotors_of_many_drones_are_the_highest_and_the_lowest():
    own = Signal(
        "Speed", "rad/s", ("0", "1", "2"), np.arange(2.0), np.array([[1.0, 5.0, 3.0], [9.0, 7.0, 8.0]]), alike=True
    )
    highest, lowest = own.components()
    assert highest.values.ravel().tolist() == [5.0, 9.0] and lowest.values.ravel().tolist() == [1.0, 7.0]
    assert (highest.title, lowest.title) == ("Speed, highest", "Speed, lowest")


# Pictures -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_subject_is_drawn_of_one_of_two_and_of_a_hundred(hover, circling, swarm, tmp_path):
    """A figure with labelled axes for all that was recorded, and nothing where nothing was."""
    assert available(flights_of(hover)) == [own for own in EVERY if own not in ("wind", "battery", "estimate")]
    assert "battery" in available(flights_of(circling))
    two = [Flight("one", hover.tracks[0]), Flight("two", circling.tracks[0])]
    assert len(swarm.tracks) == 100 > FEW
    for flights in (flights_of(hover), two, flights_of(swarm)):
        for what in EVERY:
            figure = figure_of(what, flights)
            assert (figure is None) == (what not in available(flights)), what
            if figure is not None:
                assert all("[" in axes.get_ylabel() for axes in figure.axes), what
                assert figure.axes[-1].get_xlabel().endswith("]"), what


def test_a_hundred_drones_are_a_crowd_with_its_median(swarm):
    """All are there as thin lines, and two more: the median, and by name the one that is farthest from it."""
    state = swarm.tracks[0].tables["state"]
    rows = state.rows.copy()
    rows[:, 0] += 50.0  # one that is astray moves the mean, and not the median
    swarm = with_tables(swarm, state=replace(state, rows=rows))
    panel = {own.title: own for own in panels_of("position", flights_of(swarm))}["Position, x east"]
    figure = figure_of("position", flights_of(swarm))
    (axes,) = (own for own in figure.axes if own.get_title(loc="left") == "Position, x east")
    *_, worst, middle = axes.get_lines()
    assert len(axes.get_lines()) == 102
    values = np.stack([own.values[:, 0] for _, own in panel.signals])
    assert middle.get_ydata() == pytest.approx(np.median(values, axis=0))
    name = worst.get_label().removeprefix("farthest: ")
    far = [float(np.abs(own - np.median(values, axis=0)).max()) for own in values]
    assert far[[track.name for track in swarm.tracks].index(name)] == max(far)


def test_limits_and_what_was_asked_are_drawn(hover):
    """Lines at 0 and 1 under the commands that come near them; the reference dashed under the position."""
    for rows, limits in (
        (np.linspace(0.05, 0.95, 8), [0.0, 1.0]),
        (np.linspace(0.4, 0.95, 8), [1.0]),
        (np.full(8, 0.5), []),
    ):
        told = replace(hover.tracks[0].tables["command"], times_us=np.array([0, 4000]), rows=rows.reshape(2, 4))
        commands = figure_of("motors", flights_of(with_tables(hover, command=told))).axes[1]
        levels = [line.get_ydata()[0] for line in commands.get_lines() if line.get_linestyle() == "-."]
        assert sorted(levels) == limits
    drawn = figure_of("position", flights_of(hover)).axes[0].get_lines()
    asked = [line for line in drawn if line.is_dashed() and len(line.get_xdata())]
    assert np.array_equal(np.stack([line.get_ydata() for line in asked], axis=1), hover.reference_position)


def moved(run: Run, p_W) -> Run:
    """The run with other positions, (m, 3), or one for all."""
    state = run.tracks[0].tables["state"]
    rows = state.rows.copy()
    rows[:, :3] = p_W
    return with_tables(run, state=replace(state, rows=rows))


def test_rounding_does_not_fill_a_panel(hover):
    """A tilt of 1e-13° is a straight line in a panel of a degree, and no factor is written over the title."""
    figure = figure_of("attitude", flights_of(hover))
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert high - low >= 1.0
    figure.savefig(io.BytesIO(), format="png")
    assert [axes.yaxis.get_offset_text().get_text() for axes in figure.axes] == ["", ""]
    noisy = Signal("Height", "m", ("z",), np.arange(3.0), np.array([[5.0], [5.0 + 1e-13], [5.0]]))
    assert span_of([noisy]) == pytest.approx((5.0 - 0.54 * 0.02, 5.0 + 0.54 * 0.02))
    assert span_of([noisy._replace(values=np.full((3, 1), np.nan))]) is None


def test_a_drone_that_stays_is_drawn_by_how_far_it_is_off(hover):
    """p − p_reference in millimetres instead of three straight lines; one that goes is drawn where it is."""
    state = hover.tracks[0].tables["reference"]
    rows = state.rows.copy()
    rows[:, [state.fields.index(f"p_W.{axis}") for axis in "xyz"]] = (1.0, 2.0, 5.0)
    own = moved(with_tables(hover, reference=replace(state, rows=rows)), (1.004, 2.0, 4.999))
    panel = panels_of("position", flights_of(own))[0]
    signal = panel.signals[0][1]
    assert (panel.title, signal.unit) == ("Position error at (1, 2, 5) m", "mm")
    assert signal.values == pytest.approx(np.tile((4.0, 0.0, -1.0), (len(rows), 1)))
    assert panels_of("position", flights_of(hover))[0].title == "Position"


def test_who_was_told_places_has_no_error_from_a_path(hover):
    """PX4 is sent to places: how far it is from the planned path is no error, and not called one."""
    sent = replace(hover, tracks=(replace(hover.tracks[0], controller="px4"),))
    two = replace(hover, tracks=(replace(sent.tracks[0], name="a"), replace(hover.tracks[0], name="b")))
    assert [own.title for own in panels_of("position", flights_of(sent))] == ["Position", "Distance from the plan"]
    assert "Position error" in [own.title for own in panels_of("position", flights_of(two))]
    for run in (sent, two, replace(two, tracks=two.tracks[::-1])):
        assert len(run.plot().axes) >= 4


def test_spinning_up_does_not_squeeze_the_flight(hover):
    """Motors start from rest on the ground; the panel of their speeds is made for the flight."""
    axes = figure_of("motors", flights_of(hover)).axes[0]
    flown = hover.rotor_speed[hover.in_the_air]
    low, high = axes.get_ylim()
    assert hover.rotor_speed.min() < low < flown.min() and flown.max() < high
    assert np.ptp(flown) > 0.85 * (high - low) or high - low == pytest.approx(1.08 * 20.0)


def test_a_constant_yaw_leaves_no_empty_band(hover):
    """90° beside a roll and a pitch of a few degrees: drawn from its middle, and its name says so."""
    time = np.linspace(0.0, 1.0, 50)
    angles = np.stack([5.0 * np.sin(time), 3.0 * time, 90.0 + 0.2 * time], axis=1)
    own = from_nearby(Signal("Attitude", "°", ("roll", "pitch", "yaw"), time, angles, (time, angles)), 2)
    assert own.names == ("roll", "pitch", "yaw − 90.1°")
    assert np.abs(own.values).max() < 6.0 and np.array_equal(own.values, own.asked[1])
    turning = Signal("Attitude", "°", ("roll", "pitch", "yaw"), time, np.column_stack([angles[:, :2], 90.0 * time]))
    assert from_nearby(turning, 2) is turning


def test_words_about_events_are_off_the_curves(hover):
    """Numbers on the edge of the first panel, the words below all panels; events at one time share a number."""
    marks = [Mark(1, 1.0, "gust"), Mark(2, 1.01, "fail motor 1"), Mark(4, 2.0, "a word $ without end " * 20)]
    figure = figure_of("position", flights_of(hover), marks)
    first, *others = figure.axes
    numbers = [text for text in first.texts if text.get_text()[0].isdigit()]
    assert [(text.get_text(), text.get_position()) for text in numbers] == [("1–2", (1.0, 0.0)), ("4", (2.0, 0.0))]
    assert not [text for axes in others for text in axes.texts]
    words = [text for text in figure.texts if "gust" in text.get_text() or "word" in text.get_text()]
    lowest = min(axes.get_position().y0 for axes in figure.axes)
    assert words and all(text.get_position()[1] < lowest for text in words)
    assert "1: gust, 1.00 s     2: fail motor 1, 1.01 s" in [text.get_text() for text in figure.texts]


@pytest.mark.parametrize(
    ("low", "high", "ground"),
    [
        ((0, 0, 0.1), (10, 4, 12), True),
        ((-0.05, -0.05, 4.95), (0.05, 0.05, 5.05), False),
        ((0, 0, 20), (8, 8, 22), False),
    ],
)
def test_paths_fill_their_box(low, high, ground):
    """All of the path is inside and takes most of the longest side; the ground is the floor where it is near."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    ends = framed([np.linspace(low, high, 20)])
    assert (ends[0] <= low).all() and (high <= ends[1]).all()
    assert bool(ends[0][2] == 0.0) is ground
    assert (ends[1] - ends[0]).max() <= max(1.15 * (high - low).max(), 0.2)


def test_a_figure_is_shown_in_a_notebook_and_leaves_pyplot_alone(hover):
    """It is a picture by itself; the program's backend, settings and open figures stay what they were."""
    import matplotlib
    import matplotlib.pyplot as plt

    before = matplotlib.get_backend(), plt.get_fignums(), matplotlib.rcParams["axes.titlesize"]
    matplotlib.use("svg")
    try:
        shown = hover.plot("rates")._repr_png_()
        assert shown.startswith(b"\x89PNG") and matplotlib.get_backend() == "svg"
    finally:
        matplotlib.use(before[0])
    assert (matplotlib.get_backend(), plt.get_fignums(), matplotlib.rcParams["axes.titlesize"]) == before


def test_plot_by_name_and_to_files(hover, tmp_path):
    assert hover.plot(tmp_path / "run.png") == tmp_path / "run.png"
    assert hover.plot("attitude", tmp_path / "attitude.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert hover.plot("rates").axes
    with pytest.raises(ValueError, match="no plot 'pizza'; expected one of position, velocity, "):
        hover.plot("pizza")
    with pytest.raises(ValueError, match=r"hover: no data for 'battery'; expected one of position, "):
        hover.plot("battery")
    with pytest.raises(ValueError, match=r"run\.bmp: a picture is written as \.png, \.svg, \.pdf"):
        hover.plot("rates", "run.bmp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attitude.svg", "run.png"]


def test_samara_plot(hover, monkeypatch, capsys, tmp_path):
    hover.save(tmp_path / "run.mcap")
    status, out, err = call(monkeypatch, capsys, "plot", str(tmp_path / "run.mcap"), "--what", "rates, top")
    assert (status, err) == (0, "")
    assert out.split() == [str(tmp_path / "run" / "rates.png"), str(tmp_path / "run" / "top.png")]
    assert all((tmp_path / "run" / name).read_bytes().startswith(b"\x89PNG") for name in ("rates.png", "top.png"))
    status, _, err = call(monkeypatch, capsys, "plot", str(tmp_path / "run.mcap"), "--what", "soup")
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("samara: no plot 'soup'; expected one of ")


def test_a_body_driven_by_a_wrench_is_drawn_too():
    """No rotors, no limits, no battery: thrust and torques instead."""
    scenario = samara.load_scenario("figure8", {"duration": 1.0, "drones.vehicle": "rigid_body_quadrotor"})
    assert isinstance(scenario, Scenario)
    run = samara.fly(scenario)
    assert isinstance(run.tracks[0], Track)
    assert [own.title for own in SUBJECTS["motors"](run.tracks[0])] == ["Thrust", "Torque"]
    assert [own.get_title(loc="left") for own in run.plot().axes][2] == "Thrust"
