"""A flight through every file format: what is read is what was written, to the format's resolution."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import logs_of, random_vehicle, scenario_of
from support.log_files import KINDS, at_most

import samara
from samara.core.algebra import Vec3
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.readers import read_log
from samara.identify.readers.registry import from_first_sample, signal_names
from samara.plan.trajectory import figure8, hover, sequence
from samara.vehicles.rotor_numbering import NUMBERINGS

HOME = Vec3(0.0, 0.0, 2.0)
TASK = sequence(hover(HOME, duration=0.5), figure8(HOME, reach=0.4, speed=1.5))


def smooth(rate, components, size, middle=0.0, seconds=3.0):
    """Waves of their own in every component"""
    time = np.arange(round(seconds * rate)) / rate
    waves = [np.sin((3.0 + i) * time + i) + 0.3 * np.cos((11.0 - i) * time) for i in range(components)]
    return Signal(time, middle + size * np.stack(waves))


def made(truth):
    """A flight that nobody flew, at the rates of a synthetic one"""
    captured = truth == MOTION_CAPTURE
    turning = smooth(100.0, 4, 0.2, middle=np.array([[0.5], [0.1], [-0.2], [0.6]]))
    imu = 500.0 if captured else 250.0
    return FlightLog(
        "made",
        "synthetic",
        "samara",
        command=smooth(250.0, 4, 0.15, middle=0.6),
        rotor_speed=smooth(250.0, 4, 300.0, middle=1500.0),
        position=smooth(100.0, 3, 2.0),
        velocity=None if captured else smooth(100.0, 3, 3.0),
        attitude=Signal(turning.time, turning.values / np.linalg.norm(turning.values, axis=0)),
        rate=smooth(imu, 3, 4.0),
        specific_force=smooth(imu, 3, 5.0, middle=np.array([[0.0], [0.0], [9.81]])),
        truth=truth,
    )


@pytest.mark.parametrize(("name", "truth"), [(name, truth) for name, kind in KINDS.items() for truth in kind.needs])
def test_what_is_written_is_read_back(tmp_path, name, truth):
    """All signals that the format has, in our axes and units; motors as the format counts them; times to a microsecond"""
    kind, log = KINDS[name], made(truth)
    told = kind.told(log)
    path, columns = kind.write(told, tmp_path)
    (back,) = read_log(path, columns)
    expected = from_first_sample(told)
    assert (back.numbering, back.truth) == (told.numbering, told.truth)
    for signal in signal_names():
        own, read = getattr(expected, signal), getattr(back, signal)
        if own is None:
            assert read is None or signal == "voltage"
            continue
        clock = 1.1e-3 if name in ("crazyflie_csv", "nanobench") else 1.1e-6
        assert np.abs(read.time - own.time).max() < clock
        turned = np.sign((own.values * read.values).sum(axis=0)) if signal == "attitude" else 1.0
        step = kind.resolution[signal]
        assert np.abs(read.values - turned * own.values).max() <= 1.001 * step, (signal, step)


@pytest.mark.parametrize("name", KINDS)
def test_motors_are_counted_as_the_format_does(name):
    """What is told of a place is what the motor at that place did: ours are front left, front right, back right, back left"""
    kind, log = KINDS[name], made(KINDS[name].needs[0])
    if kind.numbering != "samara":
        first = kind.told(log).command.values[:, 0]
        ours = dict(zip(("FL", "FR", "BR", "BL"), log.command.values[:, 0], strict=True))
        assert first.tolist() == [ours[place.name] for place in NUMBERINGS["quad_x"][kind.numbering].places]


@pytest.mark.long
def test_a_recording_of_the_flight_is_the_log(tmp_path):
    """Our own recording: the same commands, rotor speeds and IMU as in memory, bit for bit; the state for cameras"""
    (log,) = logs_of([random_vehicle(1, 4)], [TASK], [4], captured=True, telemetry=True)
    scenario = scenario_of([random_vehicle(1, 4)], [TASK], [4], captured=True, telemetry=True)
    samara.fly(replace(scenario, seed=4), out=tmp_path / "flight.mcap")
    (back,) = read_log(tmp_path / "flight.mcap")
    assert (back.truth, back.numbering) == (MOTION_CAPTURE, "samara")
    for name in ("command", "rotor_speed", "rate", "specific_force"):
        own, read = getattr(log, name), getattr(back, name)
        rows = np.searchsorted(read.time, own.time - 1e-9)
        assert np.array_equal(read.values[:, rows], own.values), name
    rows = np.searchsorted(back.position.time, log.position.time - 1e-9)
    assert np.abs(log.position.values - back.position.values[:, rows]).max() < 4e-3


def test_samples_are_thinned_or_averaged():
    """Means of n for an IMU, every n-th of the rest: never more in a second than there may be"""
    own = Signal(np.arange(12) * 0.002, np.arange(24.0).reshape(2, 12))
    assert np.array_equal(at_most(own, 500.0, averaged=True).values, own.values)
    thin, mean = (at_most(own, 200.0, averaged=averaged) for averaged in (False, True))
    assert thin.values[0].tolist() == [0.0, 3.0, 6.0, 9.0]
    assert mean.values[1].tolist() == [13.0, 16.0, 19.0, 22.0]
    assert mean.time == pytest.approx([0.002, 0.008, 0.014, 0.020])
