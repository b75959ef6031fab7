"""A flight through every file format: signals are read back as written, to the format's resolution."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import logging_scenario, random_vehicle, simulate_logs
from support.log_files import LOG_FORMATS, limit_rate

import samara
from samara.core.algebra import Vec3
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers import read_log
from samara.identify.readers.registry import shift_to_first_sample, signal_names
from samara.plan.trajectory import figure8, hover, sequence
from samara.vehicles.rotor_numbering import NUMBERINGS

HOME = Vec3(0.0, 0.0, 2.0)
TASK = sequence(hover(HOME, duration=0.5), figure8(HOME, half_length=0.4, speed=1.5))


def smooth(rate, components, size, middle=0.0, seconds=3.0):
    """Return different waves in every component."""
    time = np.arange(round(seconds * rate)) / rate
    waves = [np.sin((3.0 + i) * time + i) + 0.3 * np.cos((11.0 - i) * time) for i in range(components)]
    return Signal(time, middle + size * np.stack(waves))


def make_log(truth):
    """Return a made-up flight at the rates of a synthetic one."""
    captured = truth == MOTION_CAPTURE
    wave = smooth(100.0, 4, 0.2, middle=np.array([[0.5], [0.1], [-0.2], [0.6]]))
    imu = 500.0 if captured else 250.0
    return FlightLog(
        "made",
        "synthetic",
        "samara",
        command=smooth(250.0, 4, 0.15, middle=0.6),
        rotor_speed=smooth(250.0, 4, 300.0, middle=1500.0),
        position=smooth(100.0, 3, 2.0),
        velocity=None if captured else smooth(100.0, 3, 3.0),
        attitude=Signal(wave.time, wave.values / np.linalg.norm(wave.values, axis=0)),
        rate=smooth(imu, 3, 4.0),
        specific_force=smooth(imu, 3, 5.0, middle=np.array([[0.0], [0.0], [9.81]])),
        truth=truth,
    )


@pytest.mark.parametrize(
    ("name", "truth"), [(name, truth) for name, kind in LOG_FORMATS.items() for truth in kind.needs]
)
def test_what_is_written_is_read_back(tmp_path, name, truth):
    """All signals of the format, in Samara's axes and units; motors in the format's order; times to a microsecond."""
    log_kind, log = LOG_FORMATS[name], make_log(truth)
    expected_log = log_kind.select_signals(log)
    path, columns = log_kind.write(expected_log, tmp_path)
    (read_back,) = read_log(path, columns)
    expected = shift_to_first_sample(expected_log)
    assert (read_back.numbering, read_back.truth) == (expected_log.numbering, expected_log.truth)
    for signal in signal_names():
        written_signal, read_signal = getattr(expected, signal), getattr(read_back, signal)
        if written_signal is None:
            assert read_signal is None or signal == "voltage"
            continue
        clock = 1.1e-3 if name in ("crazyflie_csv", "nanobench") else 1.1e-6
        assert np.abs(read_signal.time - written_signal.time).max() < clock
        sign = np.sign((written_signal.values * read_signal.values).sum(axis=0)) if signal == "attitude" else 1.0
        step = log_kind.resolution[signal]
        assert np.abs(read_signal.values - sign * written_signal.values).max() <= 1.001 * step, (signal, step)


@pytest.mark.parametrize("name", LOG_FORMATS)
def test_motors_are_counted_as_the_format_does(name):
    """The command of a motor position is that of the rotor there: Samara's order is FL, FR, BR, BL."""
    log_kind, log = LOG_FORMATS[name], make_log(LOG_FORMATS[name].needs[0])
    if log_kind.numbering != "samara":
        first = log_kind.select_signals(log).command.values[:, 0]
        by_position = dict(zip(("FL", "FR", "BR", "BL"), log.command.values[:, 0], strict=True))
        assert first.tolist() == [
            by_position[position.name] for position in NUMBERINGS["quad_x"][log_kind.numbering].rotors
        ]


@pytest.mark.long
def test_a_recording_of_the_flight_is_the_log(tmp_path):
    """A Samara recording: the same commands, rotor speeds and IMU as in memory, bit for bit; the state for motion capture."""
    (log,) = simulate_logs([random_vehicle(1, 4)], [TASK], [4], captured=True, telemetry=True)
    scenario = logging_scenario([random_vehicle(1, 4)], [TASK], [4], captured=True, telemetry=True)
    samara.fly(replace(scenario, seed=4), out=tmp_path / "flight.mcap")
    (recorded,) = read_log(tmp_path / "flight.mcap")
    assert (recorded.truth, recorded.numbering) == (MOTION_CAPTURE, "samara")
    for name in ("command", "rotor_speed", "rate", "specific_force"):
        logged, recorded_signal = getattr(log, name), getattr(recorded, name)
        rows = np.searchsorted(recorded_signal.time, logged.time - 1e-9)
        assert np.array_equal(recorded_signal.values[:, rows], logged.values), name
    rows = np.searchsorted(recorded.position.time, log.position.time - 1e-9)
    assert np.abs(log.position.values - recorded.position.values[:, rows]).max() < 4e-3


def test_samples_are_thinned_or_averaged():
    """Means of n samples for an IMU, every n-th otherwise: never above the maximum rate."""
    dense = Signal(np.arange(12) * 0.002, np.arange(24.0).reshape(2, 12))
    assert np.array_equal(limit_rate(dense, 500.0, is_averaged=True).values, dense.values)
    thinned, averages = (limit_rate(dense, 200.0, is_averaged=averaged) for averaged in (False, True))
    assert thinned.values[0].tolist() == [0.0, 3.0, 6.0, 9.0]
    assert averages.values[1].tolist() == [13.0, 16.0, 19.0, 22.0]
    assert averages.time == pytest.approx([0.002, 0.008, 0.014, 0.020])
