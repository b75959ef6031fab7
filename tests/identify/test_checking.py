"""A valid flight has no findings; each defect is found, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.log_checks import (
    ERROR,
    WARNING,
    airborne_interval,
    check,
    repair_log,
    require_usable,
)
from samara.identify.readers import read_log
from samara.identify.signal_agreement import clock_offsets

PERIOD, SECONDS, LAG = 0.004, 20.0, 0.05
ARM, GAIN = np.array([[1.0, 1.0, -1.0, -1.0], [-1.0, 1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0]]), 40.0


def flown(late=0.0, seed=3):
    """Return the log of a body lifted and rotated by four lagging motors; its motion is `late` seconds late."""
    random = np.random.default_rng(seed)
    time = PERIOD * np.arange(round(SECONDS / PERIOD))
    decay = np.exp(-PERIOD / 0.08)
    command = np.empty((4, len(time)))
    throttle = np.full(4, 0.5)
    for k in range(len(time)):
        throttle = 0.5 + decay * (throttle - 0.5) + np.sqrt(1.0 - decay**2) * 0.06 * random.standard_normal(4)
        command[:, k] = throttle
    command = np.clip(command, 0.05, 0.95)
    target, thrusts = command**2, np.empty_like(command)
    speed = target[:, 0]
    for k in range(len(time)):
        thrusts[:, k] = speed
        speed = target[:, k] + np.exp(-PERIOD / LAG) * (speed - target[:, k])
    vertical_force = 9.80665 * thrusts.sum(axis=0) / thrusts.sum(axis=0).mean()
    noise = 0.3 * random.standard_normal((3, len(time)))
    force = np.stack([0.0 * time, 0.0 * time, vertical_force]) + noise
    rate = np.cumsum(GAIN * ARM @ (thrusts - thrusts.mean(axis=1, keepdims=True)), axis=1) * PERIOD
    velocity = np.stack([0.0 * time, 0.0 * time, np.cumsum(vertical_force - 9.80665) * PERIOD])
    position = np.cumsum(velocity, axis=1) * PERIOD
    level_attitude = np.tile(np.array([[1.0], [0.0], [0.0], [0.0]]), (1, len(time)))
    motion = time + late
    return FlightLog(
        "own", "test", "px4", Signal(time, command),
        position=Signal(motion, position), velocity=Signal(motion, velocity), attitude=Signal(motion, level_attitude),
        rate=Signal(motion, rate), specific_force=Signal(motion, force), truth=MOTION_CAPTURE,
    )  # fmt: skip


FLOWN = flown()


def codes(log):
    return {(finding.code, finding.severity, finding.signal) for finding in check(log)}


def replace_signal(name, values=None, time=None):
    log_signal = getattr(FLOWN, name)
    return replace(
        FLOWN,
        **{name: Signal(log_signal.time if time is None else time, log_signal.values if values is None else values)},
    )


def test_a_flight_in_order_has_no_findings():
    assert check(FLOWN) == []
    assert airborne_interval(FLOWN) == pytest.approx((0.0, SECONDS), abs=0.1)
    log, findings = require_usable(FLOWN)
    assert findings == [] and (log.rate.values == FLOWN.rate.values).all()


@pytest.mark.parametrize("late", [-0.1, 0.12])
def test_the_shift_of_the_clocks_is_found(late):
    """Every signal yields it to a few milliseconds, despite a motor lag of 50 ms that is not part of the clock offset."""
    log = flown(late)
    offsets = clock_offsets(log, *airborne_interval(log))
    assert set(offsets) == {"specific_force", "rate", "velocity"}
    for offset in offsets.values():
        assert offset.delay == pytest.approx(late, abs=0.01)
        assert offset.explained > 0.5
    relation = "after" if late > 0.0 else "before"
    assert all(
        finding.code == "clock" and f" s {relation} the motors acted" in finding.sentence for finding in check(log)
    )
    assert len(check(log)) == 3


def test_times_that_are_wrong():
    n = len(FLOWN.rate.time)
    again, back, gap, slow = (FLOWN.rate.time.copy() for _ in range(4))
    again[5] = again[4]
    back[100:] -= 5.0
    gap[n // 2 :] += 0.5
    assert codes(replace_signal("rate", time=again)) == {("time_repeated", WARNING, "rate")}
    assert codes(replace_signal("rate", time=back)) == {("time_back", ERROR, "rate")}
    with pytest.raises(ValueError, match=r"own: the time of the rates goes back 1 times, first from 0.396 s to -4.6 s"):
        require_usable(replace_signal("rate", time=back))
    assert ("gap", WARNING, "rate") in codes(replace_signal("rate", time=gap))
    little = back.copy()
    little[100:] += 4.999
    assert codes(replace_signal("rate", time=little)) == set()
    little[200] -= 0.006
    assert codes(replace_signal("rate", time=little)) == {("time_back", WARNING, "rate")}
    assert (np.diff(repair_log(replace_signal("rate", time=little)).rate.time) > 0.0).all()
    thin = slice(None, None, 40)
    slow = Signal(FLOWN.rate.time[thin], FLOWN.rate.values[:, thin])
    assert ("slow", ERROR, "rate") in codes(replace(FLOWN, rate=slow))


def test_numbers_that_are_none():
    values = FLOWN.attitude.values.copy()
    values[1, 7] = np.nan
    log = replace_signal("attitude", values)
    assert codes(log) == {("nan", WARNING, "attitude")}
    assert len(require_usable(log)[0].attitude.time) == len(values[0]) - 1
    values[1, ::10] = np.nan
    with pytest.raises(ValueError, match=r"own: 10 % of the attitudes are not numbers, first at sample 0"):
        require_usable(replace_signal("attitude", values))


def test_motors_that_cannot_be():
    command = FLOWN.command.values.copy()
    command[2, :50] = 1.2
    assert codes(replace_signal("command", command)) == {("command_range", WARNING, "command")}
    assert "1 % of its motor commands are outside 0 … 1" in check(replace_signal("command", command))[0].sentence
    command[2, :500] = 1.2
    assert ("command_range", ERROR, "command") in codes(replace_signal("command", command))
    for invalid in (np.zeros_like(command), np.empty((0, command.shape[1])), np.full_like(command, np.nan)):
        assert ("no_motors", ERROR, "command") in codes(replace_signal("command", invalid))
    motors_only = FlightLog("own", "test", "px4", FLOWN.command)
    assert codes(motors_only) == {("no_motion", ERROR, "")}


def test_sensors_that_are_saturated_or_shaken():
    clipped = FLOWN.rate.values.copy()
    clipped[0, 1000:1010] = 35.0
    assert codes(replace_signal("rate", clipped)) == {("saturated", WARNING, "rate")}
    vibrating = FLOWN.specific_force.values + 20.0 * np.sin(
        2 * np.pi * (4.0 / 0.044) * FLOWN.rate.time
    )  # whole turns in its mean
    assert ("vibration", WARNING, "specific_force") in codes(replace_signal("specific_force", vibrating))
    finding = next(
        candidate for candidate in check(replace_signal("specific_force", vibrating)) if candidate.code == "vibration"
    )
    assert f"vibrates by {20.0 * np.sqrt(3 / 2):.3g} m/s²" in finding.sentence


def test_coarse_steps_are_not_saturation():
    """Steps of 2 m/s², each lasting three samples: the largest occurs often and in a row, the next smaller one more often."""
    shape = FLOWN.specific_force.values.shape
    draws = np.repeat(np.random.default_rng(5).standard_normal((3, shape[1] // 3 + 1)), 3, axis=1)[:, : shape[1]]
    coarse = 2.0 * np.round(1.2 * draws)
    assert all((np.abs(row) == np.abs(row).max()).sum() >= 5 for row in coarse)
    assert not any(code[0] == "saturated" for code in codes(replace_signal("specific_force", coarse)))


def test_truth_that_jumps_or_is_no_attitude():
    displaced, rotated, stretched = (
        FLOWN.position.values.copy(),
        FLOWN.attitude.values.copy(),
        FLOWN.attitude.values.copy(),
    )
    displaced[0, 2000:] += 0.5
    assert codes(replace_signal("position", displaced)) == {("jump", WARNING, "position")}
    rotated[:, 2000:] = [[np.cos(0.3)], [np.sin(0.3)], [0.0], [0.0]]
    assert codes(replace_signal("attitude", rotated)) == {("jump", WARNING, "attitude")}
    assert "farthest by 34.4° at 7.996 s" in check(replace_signal("attitude", rotated))[0].sentence
    stretched[:, 10] *= 1.1
    assert codes(replace_signal("attitude", stretched)) == {("quaternion", WARNING, "attitude")}
    opposite = FLOWN.attitude.values * np.where(np.arange(5000) % 2, -1.0, 1.0)
    assert codes(replace_signal("attitude", opposite)) == set()


def test_flights_that_are_short():
    for seconds, severity in ((6.0, WARNING), (1.0, ERROR)):
        command = np.where(FLOWN.command.time < seconds, FLOWN.command.values, 0.0)
        assert ("short", severity, "command") in codes(replace_signal("command", command))


def test_real_flights_are_usable(shared_folder):
    """NanoBench's clocks agree with the motors to a few hundredths of a second; the accelerometer of `log10` hits the table."""
    folder = shared_folder / "data"
    if not (folder / "nanobench").is_dir():
        pytest.skip("no flights in the shared folder")
    (log,) = read_log(folder / "nanobench" / "B9_trefoil_slow_rep2.csv.gz")
    repaired, findings = require_usable(log)
    assert findings == [] and repaired.command.values.shape == log.command.values.shape
    (log,) = read_log(folder / "arpl_crazyflie" / "log15")
    begin, end = airborne_interval(log)
    for offset in clock_offsets(log, begin, end).values():
        assert offset.delay + offset.lag == pytest.approx(
            0.072, abs=0.01
        )  # its authors find 0.072 s, entirely due to lag
        assert offset.explained > 0.9
