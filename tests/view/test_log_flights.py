"""Flight logs where recordings are expected: plots, reports and the viewer show the flight that was written, and no more."""

from dataclasses import replace

import numpy as np
import pytest
from identify.test_log_files import make_log
from support.command import call
from support.log_files import LOG_FORMATS

import samara
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE, Signal
from samara.identify.log_run import load_flight, placeholder_vehicle, run_from_log, scene_run
from samara.vehicles.rotor_numbering import NUMBERINGS
from samara.view.plot.plots import available_subjects, draw_all, run_figure, run_flights, subject_panels
from samara.view.report.report import report_files
from samara.view.web.snapshot import recorded_frame

MOTION = ["position", "velocity", "attitude", "rates", "motors", "spectra", "path", "top"]


def write_log(folder, name, log):
    """Write a log in a format; return its file, its map of columns, and the signals that it holds."""
    kind = LOG_FORMATS[name]
    held = kind.select_signals(log)
    return *kind.write(held, folder), held


@pytest.mark.parametrize("name", ["px4", "ardupilot", "crazyflie", "csv"])
def test_a_picture_of_a_log_shows_the_flight_that_was_written(tmp_path, name):
    """The curves of position and attitude are the logged ones at their own times; motors are in the log's order."""
    path, columns, held = write_log(tmp_path, name, make_log(ESTIMATE))
    run = load_flight(path, columns)
    assert available_subjects(run_flights(run)) == MOTION
    (position,) = subject_panels("position", run_flights(run))
    (_, shown) = position.signals[0]
    start = min(signal.time[0] for signal in (held.command, held.position, held.attitude, held.rate))
    inside = slice(1, -1)
    times = held.position.time[inside] - start
    for k in range(3):
        resampled = np.interp(times, shown.time, shown.values[:, k])
        assert resampled == pytest.approx(held.position.values[k, inside], abs=0.02)
    shown_times = (held.attitude.time - start >= run.time[0]) & (held.attitude.time - start <= run.time[-1])
    nearest = np.abs(held.attitude.time[shown_times, None] - start - run.time).argmin(axis=1)
    products = np.abs((held.attitude.values[:, shown_times].T * run.attitude[nearest]).sum(axis=1))
    assert shown_times.mean() > 0.9 and products.min() > 1.0 - 1e-3
    assert pytest.approx(held.command.values, abs=1e-3) == run.command.T
    assert [rotor.spin for rotor in run.vehicle.rotors] == [
        rotor.spin for rotor in NUMBERINGS["quad_x"][held.numbering].rotors
    ]


def test_a_log_without_position_is_drawn_and_reported_without_it(tmp_path):
    """A blackbox shows rates, motors and spectra; its report has no map, no tracking error and no vehicle."""
    path, _, _ = write_log(tmp_path, "betaflight_erpm", make_log(ESTIMATE))
    run = load_flight(path)
    assert available_subjects(run_flights(run)) == ["rates", "motors", "spectra"]
    assert [file.stem for file in draw_all(run, tmp_path / "out")] == ["rates", "motors", "spectra"]
    with pytest.raises(ValueError, match="no data for 'position'; expected one of rates, motors, spectra"):
        run_figure(run, "position")
    speeds, commands = subject_panels("motors", run_flights(run))
    assert speeds.signals[0][1].names == commands.signals[0][1].names == ("motor 1", "motor 2", "motor 3", "motor 4")
    assert speeds.signals[0][1].limits is None
    page = report_files([path], tmp_path / "report.html").read_text(encoding="utf-8")
    for text in ("Commanded speed", "position error", "From above", "took off", "placeholder", "samara replay"):
        assert text not in page, text
    assert "Rates" in page and "Betaflight blackbox" in page and ".bbl --vehicle VEHICLE.toml" in page


def test_a_log_is_compared_with_another_in_one_report(tmp_path):
    """Two logs, of which one has no position: both have curves, and there is no bit-for-bit comparison."""
    first, _, _ = write_log(tmp_path, "px4", make_log(ESTIMATE))
    second, _, _ = write_log(tmp_path, "betaflight", make_log(ESTIMATE))
    page = report_files([first, second], tmp_path / "both.html").read_text(encoding="utf-8")
    assert "2 runs compared" in page and "From above" in page and "Against" not in page
    assert "placeholder" not in page


def test_the_viewer_shows_a_log_where_it_flew(tmp_path):
    """A frame has the logged pose; without position it is shown at the origin, and the page says so."""
    path, _, held = write_log(tmp_path, "px4", make_log(ESTIMATE))
    run = scene_run(load_flight(path))
    row = 15
    start = min(signal.time[0] for signal in (held.command, held.position, held.attitude, held.rate))
    frame = recorded_frame([run], float(held.position.time[row] - start))
    assert frame.p_W[0] == pytest.approx(held.position.values[:, row], abs=1e-3)
    assert frame.detail is not None and frame.detail.reference_W is None
    path, _, _ = write_log(tmp_path, "betaflight", make_log(ESTIMATE))
    run = scene_run(load_flight(path))
    assert recorded_frame([run], 1.0).p_W[0] == pytest.approx(np.zeros(3))
    assert run.logs[-1].message == "not logged, shown at rest: position, velocity, attitude"


def test_a_signal_with_gaps_becomes_a_state_without_nan():
    """NaN samples are left out; a signal that does not overlap the others is left out with a note."""
    log = make_log(MOTION_CAPTURE)
    position = Signal(log.position.time, log.position.values.copy())
    position.values[:, 5:9] = np.nan
    run = run_from_log(replace(log, position=position, velocity=Signal(log.position.time + 60.0, position.values)))
    assert np.isfinite(run.tables["state"].rows).all() and run.position.shape == (len(run.time), 3)
    assert "v_W.x" not in run.tables["state"].fields
    assert [line.message for line in run.logs] == ["velocity is left out: it does not overlap the other signals"]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 6, 8, 12])
def test_the_placeholder_has_the_motors_of_the_log(count):
    """Any number of rotors; none overlaps another."""
    rotors = placeholder_vehicle(count, "px4").rotors
    assert len(rotors) == count
    for i, rotor in enumerate(rotors):
        for other in rotors[:i]:
            distance = np.hypot(rotor.r_B.x - other.r_B.x, rotor.r_B.y - other.r_B.y)
            assert distance > rotor.radius + other.radius


def test_the_commands_take_a_log_or_say_what_they_take(monkeypatch, capsys, tmp_path):
    """`info` lists signals with rates and units, `plot` draws; a file of another kind gets one sentence."""
    path, _, _ = write_log(tmp_path, "px4", make_log(ESTIMATE))
    code, output, _ = call(monkeypatch, capsys, "info", str(path))
    assert code == 0
    for text in ("PX4 ULog", "4, numbered as px4", "m, 30 samples, 10 Hz", "rad/s, 750 samples, 250 Hz", "estimate"):
        assert text in output, text
    assert call(monkeypatch, capsys, "plot", str(path), "--subject", "rates")[0] == 0
    assert (tmp_path / "flight" / "rates.png").is_file()
    other = tmp_path / "notes.txt"
    other.write_text("nothing")
    for command in ("info", "plot", "report"):
        code, _, message = call(monkeypatch, capsys, command, str(other))
        assert code == 2
        assert "is neither a recording nor a flight log; expected a run.mcap of Samara, PX4 ULog" in message


def test_of_a_file_with_several_flights_the_longest_is_shown(monkeypatch, capsys, tmp_path):
    """Two blackbox flights in one file, the second longer: the run is the second and says so; `info` lists both."""
    log = make_log(ESTIMATE)
    short = replace(log, **{name: cut(getattr(log, name), 1.0) for name in ("command", "rate", "specific_force")})
    flights = [write_log(tmp_path, "betaflight", flight)[0].read_bytes() for flight in (short, log)]
    path = tmp_path / "two.bbl"
    path.write_bytes(b"".join(flights))
    run = load_flight(path)
    assert run.time[-1] > 2.9 and not run.landed
    assert [line.message for line in run.logs] == [f"the file holds 2 flights; this is {run.scenario}, the longest"]
    _, output, _ = call(monkeypatch, capsys, "info", str(path))
    assert output.count("Betaflight blackbox") == 2


def cut(signal, end):
    """Return the samples before a time."""
    return Signal(signal.time[signal.time < end], signal.values[:, signal.time < end])


def test_a_recording_is_read_as_before(tmp_path):
    """`load_flight` of a recording is `samara.load_run`."""
    run = samara.fly("hover", duration=0.2)
    path = run.save(tmp_path / "run.mcap")
    assert load_flight(path).tables.keys() == run.tables.keys() and load_flight(path).is_simulated
