"""The plots are true: each curve is computed independently, and every subject is drawn for one, two and many drones."""

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
from samara.record.run import DroneRecord, Run
from samara.record.spectrum import welch, welch_spectrum
from samara.record.streams import RecordedStream
from samara.scenario.scenario import Scenario
from samara.view.plot.plots import (
    ALL_SUBJECTS,
    MAX_INDIVIDUAL_FLIGHTS,
    LabelledRecord,
    Mark,
    available_subjects,
    bounding_box,
    decimate,
    run_flights,
    signal_range,
    subject_figure,
    subject_panels,
)
from samara.view.plot.signals import (
    SUBJECTS,
    PlotSignal,
    _spectrum,
    estimate,
    motor_command_limits,
    recorded_supply,
    reference_attitude,
    shift_distant_curve,
    speed_limits,
)
from samara.wind.sources import Constant


@pytest.fixture(scope="module")
def hover():
    return samara.fly("hover", settings={"duration": 3.0})


@pytest.fixture(scope="module")
def circling():
    """An iris, which has a battery, for three seconds of a circle in which a cell fails."""
    scenario = samara.load_scenario("battery_sag", {"duration": 3.0})
    early_failure = replace(scenario.events[0], trigger=samara.scenario.events.at(1.5))
    return samara.fly(replace(scenario, events=(early_failure,)))


@pytest.fixture(scope="module")
def swarm():
    return samara.fly("swarm", settings={"duration": 0.5, "drones.count": 100, "drones.columns": 10})


# Signals ------------------------------------------------------------------------------------------------------------


def test_the_attitude_asked_in_a_steady_wind_balances_drag_and_weight():
    """Hovering in a wind w, the drag k w ρ/ρ₀ is balanced by tilt: tan tilt = k w ρ/ρ₀ / (m g), into the wind."""
    scenario = samara.load_scenario("hover", {"duration": 0.5, "drones.airborne": True, "drones.start": [0, 0, 1]})
    drone = replace(scenario.drones[0], task=hold((0.0, 0.0, 1.0)))
    run = samara.fly(replace(scenario, drones=(drone,), wind=Constant(Vec3(1.0, 0.0, 0.0)), events=()))
    vehicle = run.vehicle
    rows, angles = reference_attitude(run.drone_records[0])
    ratio = run.drone_records[0].tables["environment"]["air_density"][0] / 1.225
    tilt = math.atan2(vehicle["drag"].linear.x * ratio * 1.0, vehicle.mass * vehicle["gravity"].acceleration)
    assert angles[:, 1] == pytest.approx(np.full(len(rows), -tilt), rel=1e-6)  # nose up: against a wind from behind
    assert angles[:, [0, 2]] == pytest.approx(0.0, abs=1e-12)


def test_the_current_drains_the_charge(circling):
    """dSOC/dt = −I / capacity, so ∫ I dt over the flight is the capacity times the charge used."""
    track = circling.drone_records[0]
    battery = track.vehicle["battery"][0]
    assert isinstance(battery, Thevenin)
    supply = recorded_supply(track)
    charge_used = np.trapezoid(supply.current, track.time)
    assert charge_used == pytest.approx(battery.capacity * (track.charge[0] - track.charge[-1]), rel=2e-3)


def test_the_voltage_falls_by_a_cell_when_one_fails(circling):
    """One of twelve: V + R₀ I, the voltage behind the resistance, falls to 11/12."""
    track = circling.drone_records[0]
    row_before, row_after = np.searchsorted(track.time, (1.45, 1.55))
    supply, battery = recorded_supply(track), track.vehicle["battery"][0]
    open_circuit = supply.voltage + battery.resistance * supply.current
    assert open_circuit[row_after] / open_circuit[row_before] == pytest.approx(11.0 / 12.0, abs=2e-3)


def test_energy_is_power_over_time(circling):
    metrics = {
        metric.name: metric.value for rows in report_tables(circling.drone_records[0]).values() for metric in rows
    }
    supply = recorded_supply(circling.drone_records[0])
    power = supply.voltage * supply.current
    simpson = float(np.sum((power[:-2:2] + 4.0 * power[1:-1:2] + power[2::2]) * 0.01 / 3.0))
    assert metrics["energy"] == pytest.approx(simpson, rel=1e-3)
    assert metrics["power, mean"] == pytest.approx(simpson / 3.0, rel=1e-3)


def test_limits_of_motors():
    """Commands from 0 to 1, speeds as in the file; a DC motor has no speed limit, a wrench no limit at all."""
    crazyflie, iris, body = (
        samara.vehicle(name) for name in ("crazyflie_documented", "iris_documented", "rigid_body_quadrotor")
    )
    assert motor_command_limits(crazyflie) == (0.0, 1.0) == motor_command_limits(iris)
    assert speed_limits(crazyflie) == (crazyflie.rotors[0].motor.speed_min, crazyflie.rotors[0].motor.speed_max)
    assert speed_limits(iris) is None and motor_command_limits(body) is None


def replace_tables(run: Run, **tables: RecordedStream) -> Run:
    first = run.drone_records[0]
    return replace(run, drone_records=(replace(first, tables={**first.tables, **tables}), *run.drone_records[1:]))


def test_saturation_counts_commands_at_their_limits(hover):
    """Of 8 commands, 3 are at the upper and 1 at the lower limit; one just below the upper limit does not count."""
    rows = np.array([[1.0, 1.0, 0.5, 0.0], [0.999, 1.0, 0.2, 0.3]])
    commands = replace(hover.drone_records[0].tables["command"], times_us=np.array([0, 4000]), rows=rows)
    assert replace_tables(hover, command=commands).metrics.saturation == (1 / 8, 3 / 8)


def test_the_error_of_an_estimate_is_what_was_added_to_the_truth(hover):
    """Position shifted by a vector, attitude by a rotation vector in body axes; the band is 3σ of the variances."""
    state = hover.drone_records[0].tables["state"]
    offset, rotation_vector = np.array([0.1, -0.2, 0.3]), Vec3(0.02, -0.03, 0.04)
    fields = state.fields[:13]
    rows = state.rows[:, :13].copy()
    rows[:, :3] += offset
    rows[:, 6:10] = np.stack(np.broadcast_arrays(*(Quat(*state["q_WB"].T) * quat_exp(rotation_vector))), axis=1)
    estimated = RecordedStream(fields, state.units[:13], "samara.Estimate", state.times_us, rows)
    names = tuple(f"{name}.{axis}" for name in ("p_W", "v_W", "theta_B") for axis in "xyz")
    variance = RecordedStream(names, ("",) * 9, "samara.Variance", state.times_us[:1], np.full((1, 9), 0.04))
    position, velocity, attitude = estimate(
        replace_tables(hover, estimate=estimated, variance=variance).drone_records[0]
    )
    assert position.values == pytest.approx(np.tile(offset, (len(rows), 1)), abs=1e-12)
    assert velocity.values == pytest.approx(0.0)
    assert attitude.values == pytest.approx(np.tile(np.degrees(tuple(rotation_vector)), (len(rows), 1)), rel=1e-9)
    assert position.band == pytest.approx(np.full((len(rows), 3), 0.6))
    assert attitude.band == pytest.approx(np.full((len(rows), 3), math.degrees(0.6)))
    assert all(signal.band is None for signal in estimate(replace_tables(hover, estimate=estimated).drone_records[0]))
    lost_at_first = replace(
        estimated, rows=np.concatenate([rows[:1] + 1e3, rows[1:]])
    )  # the initial transient does not set the scale
    position = estimate(replace_tables(hover, estimate=lost_at_first).drone_records[0])[0]
    assert position.values.max() > 900.0 and signal_range([position])[1] < 0.5


def test_a_spectrum_holds_the_variance():
    """Parseval: ∫ S df is the variance of the signal; and a tone of 7 Hz is at 7 Hz."""
    time = np.arange(4096) / 256.0
    wave = 3.0 * np.sin(2.0 * np.pi * 7.0 * time)
    tone = PlotSignal("tone", "V", ("tone",), time, wave[:, None])
    (spectrum,) = _spectrum(tone, welch_spectrum(tone.time, tone.values))
    power = float((spectrum.values[:, 0] ** 2).sum() * (spectrum.time[1] - spectrum.time[0]))
    assert power == pytest.approx(wave.var(), rel=1e-2)
    assert spectrum.time[spectrum.values[:, 0].argmax()] == pytest.approx(7.0, abs=0.26)
    assert spectrum.unit == "V/√Hz"


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
    """Ten turns: within ±180°, with a gap at each jump."""
    state = hover.drone_records[0].tables["state"]
    rows = state.rows.copy()
    half = 0.5 * np.linspace(0.0, 20.0 * np.pi, len(rows))
    rows[:, 6:10] = np.stack([np.cos(half), 0.0 * half, 0.0 * half, np.sin(half)], axis=1)
    yaw = SUBJECTS["attitude"](replace_tables(hover, state=replace(state, rows=rows)).drone_records[0])[0].values[:, 2]
    assert np.nanmax(np.abs(yaw)) <= 180.0
    assert np.isnan(yaw).sum() == 10
    assert np.nanmax(np.abs(np.diff(yaw))) < 180.0


def test_thinning_loses_no_peak():
    """Of a million points a few thousand are drawn, including the highest, the lowest and both ends."""
    rng = np.random.default_rng(1)
    time, values = np.arange(1_000_000) / 100.0, rng.normal(size=1_000_000)
    values[123_456], values[654_321] = 50.0, -60.0
    decimated_times, decimated = decimate(time, values)
    assert len(decimated) < 10_000
    assert (decimated.max(), decimated.min()) == (50.0, -60.0)
    assert (np.diff(decimated_times) > 0).all()
    assert (values[np.searchsorted(time, decimated_times)] == decimated).all()
    assert decimate(time[:100], values[:100])[1] is not None and len(decimate(time[:100], values[:100])[1]) == 100


def test_many_rotors_of_many_drones_are_the_highest_and_the_lowest():
    speeds = PlotSignal(
        "Speed",
        "rad/s",
        ("0", "1", "2"),
        np.arange(2.0),
        np.array([[1.0, 5.0, 3.0], [9.0, 7.0, 8.0]]),
        homogeneous=True,
    )
    highest, lowest = speeds.components()
    assert highest.values.ravel().tolist() == [5.0, 9.0] and lowest.values.ravel().tolist() == [1.0, 7.0]
    assert (highest.title, lowest.title) == ("Speed, highest", "Speed, lowest")


# Pictures -----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_subject_is_drawn_of_one_of_two_and_of_a_hundred(hover, circling, swarm, tmp_path):
    """A figure with labelled axes for all recorded subjects, and none for the others."""
    assert available_subjects(run_flights(hover)) == [
        subject for subject in ALL_SUBJECTS if subject not in ("wind", "battery", "estimate")
    ]
    assert "battery" in available_subjects(run_flights(circling))
    two = [LabelledRecord("one", hover.drone_records[0]), LabelledRecord("two", circling.drone_records[0])]
    assert len(swarm.drone_records) == 100 > MAX_INDIVIDUAL_FLIGHTS
    for flights in (run_flights(hover), two, run_flights(swarm)):
        for subject_name in ALL_SUBJECTS:
            figure = subject_figure(subject_name, flights)
            assert (figure is None) == (subject_name not in available_subjects(flights)), subject_name
            if figure is not None:
                assert all("[" in axes.get_ylabel() for axes in figure.axes), subject_name
                assert figure.axes[-1].get_xlabel().endswith("]"), subject_name


def test_a_hundred_drones_are_a_crowd_with_its_median(swarm):
    """All drones are thin lines; in addition the median, and the labelled drone that is farthest from it."""
    state = swarm.drone_records[0].tables["state"]
    rows = state.rows.copy()
    rows[:, 0] += 50.0  # an outlier changes the mean, but not the median
    swarm = replace_tables(swarm, state=replace(state, rows=rows))
    panel = {candidate.title: candidate for candidate in subject_panels("position", run_flights(swarm))}[
        "Position, x east"
    ]
    figure = subject_figure("position", run_flights(swarm))
    (axes,) = (candidate for candidate in figure.axes if candidate.get_title(loc="left") == "Position, x east")
    *_, farthest_line, median_line = axes.get_lines()
    assert len(axes.get_lines()) == 102
    values = np.stack([candidate.values[:, 0] for _, candidate in panel.signals])
    assert median_line.get_ydata() == pytest.approx(np.median(values, axis=0))
    name = farthest_line.get_label().removeprefix("farthest: ")
    distances = [float(np.abs(candidate - np.median(values, axis=0)).max()) for candidate in values]
    assert distances[[track.name for track in swarm.drone_records].index(name)] == max(distances)


def test_limits_and_what_was_asked_are_drawn(hover):
    """Lines at 0 and 1 for commands that come near them; the reference is dashed."""
    for rows, limits in (
        (np.linspace(0.05, 0.95, 8), [0.0, 1.0]),
        (np.linspace(0.4, 0.95, 8), [1.0]),
        (np.full(8, 0.5), []),
    ):
        commands_stream = replace(
            hover.drone_records[0].tables["command"], times_us=np.array([0, 4000]), rows=rows.reshape(2, 4)
        )
        commands = subject_figure("motors", run_flights(replace_tables(hover, command=commands_stream))).axes[1]
        levels = [line.get_ydata()[0] for line in commands.get_lines() if line.get_linestyle() == "-."]
        assert sorted(levels) == limits
    lines = subject_figure("position", run_flights(hover)).axes[0].get_lines()
    references = [line for line in lines if line.is_dashed() and len(line.get_xdata())]
    assert np.array_equal(np.stack([line.get_ydata() for line in references], axis=1), hover.reference_position)


def move_run(run: Run, p_W) -> Run:
    """Return the run with other positions, (m, 3), or one for all rows."""
    state = run.drone_records[0].tables["state"]
    rows = state.rows.copy()
    rows[:, :3] = p_W
    return replace_tables(run, state=replace(state, rows=rows))


def test_rounding_does_not_fill_a_panel(hover):
    """A tilt of 1e-13° is a straight line in a panel of one degree, and no factor is written over the title."""
    figure = subject_figure("attitude", run_flights(hover))
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert high - low >= 1.0
    figure.savefig(io.BytesIO(), format="png")
    assert [axes.yaxis.get_offset_text().get_text() for axes in figure.axes] == ["", ""]
    noisy = PlotSignal("Height", "m", ("z",), np.arange(3.0), np.array([[5.0], [5.0 + 1e-13], [5.0]]))
    assert signal_range([noisy]) == pytest.approx((5.0 - 0.54 * 0.02, 5.0 + 0.54 * 0.02))
    assert signal_range([noisy._replace(values=np.full((3, 1), np.nan))]) is None


def test_a_drone_that_stays_is_drawn_by_how_far_it_is_off(hover):
    """p − p_reference in millimetres instead of three straight lines; a moving drone is drawn by its position."""
    state = hover.drone_records[0].tables["reference"]
    rows = state.rows.copy()
    rows[:, [state.fields.index(f"p_W.{axis}") for axis in "xyz"]] = (1.0, 2.0, 5.0)
    hovering = move_run(replace_tables(hover, reference=replace(state, rows=rows)), (1.004, 2.0, 4.999))
    panel = subject_panels("position", run_flights(hovering))[0]
    signal = panel.signals[0][1]
    assert (panel.title, signal.unit) == ("Position error at (1, 2, 5) m", "mm")
    assert signal.values == pytest.approx(np.tile((4.0, 0.0, -1.0), (len(rows), 1)))
    assert subject_panels("position", run_flights(hover))[0].title == "Position"


def test_who_was_told_places_has_no_error_from_a_path(hover):
    """PX4 receives positions only: its distance from the planned path is not an error, and not called one."""
    px4_run = replace(hover, drone_records=(replace(hover.drone_records[0], controller="px4"),))
    two = replace(
        hover, drone_records=(replace(px4_run.drone_records[0], name="a"), replace(hover.drone_records[0], name="b"))
    )
    assert [panel.title for panel in subject_panels("position", run_flights(px4_run))] == [
        "Position",
        "Distance from the plan",
    ]
    assert "Position error" in [panel.title for panel in subject_panels("position", run_flights(two))]
    for run in (px4_run, two, replace(two, drone_records=two.drone_records[::-1])):
        assert len(run.plot().axes) >= 4


def test_spinning_up_does_not_squeeze_the_flight(hover):
    """Motors start from rest on the ground; the scale of their speeds is that of the flight."""
    axes = subject_figure("motors", run_flights(hover)).axes[0]
    airborne_speeds = hover.rotor_speed[hover.airborne]
    low, high = axes.get_ylim()
    assert hover.rotor_speed.min() < low < airborne_speeds.min() and airborne_speeds.max() < high
    assert np.ptp(airborne_speeds) > 0.85 * (high - low) or high - low == pytest.approx(1.08 * 20.0)


def test_a_constant_yaw_leaves_no_empty_band(hover):
    """90° beside a roll and a pitch of a few degrees is drawn about its median, and its name states the shift."""
    time = np.linspace(0.0, 1.0, 50)
    angles = np.stack([5.0 * np.sin(time), 3.0 * time, 90.0 + 0.2 * time], axis=1)
    shifted = shift_distant_curve(
        PlotSignal("Attitude", "°", ("roll", "pitch", "yaw"), time, angles, (time, angles)), 2
    )
    assert shifted.names == ("roll", "pitch", "yaw − 90.1°")
    assert np.abs(shifted.values).max() < 6.0 and np.array_equal(shifted.values, shifted.reference[1])
    turning = PlotSignal("Attitude", "°", ("roll", "pitch", "yaw"), time, np.column_stack([angles[:, :2], 90.0 * time]))
    assert shift_distant_curve(turning, 2) is turning


def test_words_about_events_are_off_the_curves(hover):
    """Labels at the edge of the first panel, descriptions below all panels; events at one time share a label."""
    marks = [Mark(1, 1.0, "gust"), Mark(2, 1.01, "fail motor 1"), Mark(4, 2.0, "a word $ without end " * 20)]
    figure = subject_figure("position", run_flights(hover), marks)
    first, *other_axes = figure.axes
    labels = [text for text in first.texts if text.get_text()[0].isdigit()]
    assert [(text.get_text(), text.get_position()) for text in labels] == [("1–2", (1.0, 0.0)), ("4", (2.0, 0.0))]
    assert not [text for axes in other_axes for text in axes.texts]
    descriptions = [text for text in figure.texts if "gust" in text.get_text() or "word" in text.get_text()]
    lowest = min(axes.get_position().y0 for axes in figure.axes)
    assert descriptions and all(text.get_position()[1] < lowest for text in descriptions)
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
    """The path is inside and fills most of the longest side; the ground is the floor if it is near."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    corners = bounding_box([np.linspace(low, high, 20)])
    assert (corners[0] <= low).all() and (high <= corners[1]).all()
    assert bool(corners[0][2] == 0.0) is ground
    assert (corners[1] - corners[0]).max() <= max(1.15 * (high - low).max(), 0.2)


def test_a_figure_is_shown_in_a_notebook_and_leaves_pyplot_alone(hover):
    """The figure displays without pyplot; the program's backend, settings and open figures are unchanged."""
    import matplotlib
    import matplotlib.pyplot as plt

    settings = matplotlib.get_backend(), plt.get_fignums(), matplotlib.rcParams["axes.titlesize"]
    matplotlib.use("svg")
    try:
        png = hover.plot("rates")._repr_png_()
        assert png.startswith(b"\x89PNG") and matplotlib.get_backend() == "svg"
    finally:
        matplotlib.use(settings[0])
    assert (matplotlib.get_backend(), plt.get_fignums(), matplotlib.rcParams["axes.titlesize"]) == settings


def test_plot_by_name_and_to_files(hover, tmp_path):
    assert hover.plot(tmp_path / "run.png") == tmp_path / "run.png"
    assert hover.plot("attitude", tmp_path / "attitude.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert hover.plot("rates").axes
    with pytest.raises(ValueError, match="no plot 'pizza'; expected one of position, velocity, "):
        hover.plot("pizza")
    with pytest.raises(ValueError, match=r"hover: no data for 'battery'; expected one of position, "):
        hover.plot("battery")
    with pytest.raises(ValueError, match=r"run\.bmp: expected a picture with the suffix \.png, \.svg, \.pdf"):
        hover.plot("rates", "run.bmp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attitude.svg", "run.png"]


def test_samara_plot(hover, monkeypatch, capsys, tmp_path):
    hover.save(tmp_path / "run.mcap")
    status, out, err = call(monkeypatch, capsys, "plot", str(tmp_path / "run.mcap"), "--subject", "rates, top")
    assert (status, err) == (0, "")
    assert out.split() == [str(tmp_path / "run" / "rates.png"), str(tmp_path / "run" / "top.png")]
    assert all((tmp_path / "run" / name).read_bytes().startswith(b"\x89PNG") for name in ("rates.png", "top.png"))
    status, _, err = call(monkeypatch, capsys, "plot", str(tmp_path / "run.mcap"), "--subject", "soup")
    assert (status, err.count("\n")) == (2, 1)
    assert err.startswith("samara: no plot 'soup'; expected one of ")


def test_a_body_driven_by_a_wrench_is_drawn_too():
    """No rotors, no limits, no battery: thrust and torques are drawn."""
    scenario = samara.load_scenario("figure8", {"duration": 1.0, "drones.vehicle": "rigid_body_quadrotor"})
    assert isinstance(scenario, Scenario)
    run = samara.fly(scenario)
    assert isinstance(run.drone_records[0], DroneRecord)
    assert [item.title for item in SUBJECTS["motors"](run.drone_records[0])] == ["Thrust", "Torque"]
    assert [item.get_title(loc="left") for item in run.plot().axes][2] == "Thrust"
