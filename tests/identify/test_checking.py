"""A flight that is in order has no findings; each thing that can be wrong with one is found, and nothing else is."""

from dataclasses import replace

import numpy as np
import pytest

from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.log_checks import ERROR, WARNING, check, clock_offsets, repaired, time_in_the_air, usable
from samara.identify.readers import read_log

PERIOD, SECONDS, LAG = 0.004, 20.0, 0.05
ARM, GAIN = np.array([[1.0, 1.0, -1.0, -1.0], [-1.0, 1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0]]), 40.0


def flown(late=0.0, seed=3):
    """A body that four lagging motors lift and turn, and every instrument on it; all its motion comes `late` seconds late."""
    random = np.random.default_rng(seed)
    time = PERIOD * np.arange(round(SECONDS / PERIOD))
    kept = np.exp(-PERIOD / 0.08)
    command = np.empty((4, len(time)))
    own = np.full(4, 0.5)
    for k in range(len(time)):
        own = 0.5 + kept * (own - 0.5) + np.sqrt(1.0 - kept**2) * 0.06 * random.standard_normal(4)
        command[:, k] = own
    command = np.clip(command, 0.05, 0.95)
    told, turned = command**2, np.empty_like(command)
    speed = told[:, 0]
    for k in range(len(time)):
        turned[:, k] = speed
        speed = told[:, k] + np.exp(-PERIOD / LAG) * (speed - told[:, k])
    lift = 9.80665 * turned.sum(axis=0) / turned.sum(axis=0).mean()
    noise = 0.3 * random.standard_normal((3, len(time)))
    force = np.stack([0.0 * time, 0.0 * time, lift]) + noise
    rate = np.cumsum(GAIN * ARM @ (turned - turned.mean(axis=1, keepdims=True)), axis=1) * PERIOD
    velocity = np.stack([0.0 * time, 0.0 * time, np.cumsum(lift - 9.80665) * PERIOD])
    position = np.cumsum(velocity, axis=1) * PERIOD
    level = np.tile(np.array([[1.0], [0.0], [0.0], [0.0]]), (1, len(time)))
    motion = time + late
    return FlightLog(
        "own", "test", "px4", Signal(time, command),
        position=Signal(motion, position), velocity=Signal(motion, velocity), attitude=Signal(motion, level),
        rate=Signal(motion, rate), specific_force=Signal(motion, force), truth=MOTION_CAPTURE,
    )  # fmt: skip


FLOWN = flown()


def codes(log):
    return {(own.code, own.severity, own.signal) for own in check(log)}


def changed(name, values=None, time=None):
    own = getattr(FLOWN, name)
    return replace(
        FLOWN, **{name: Signal(own.time if time is None else time, own.values if values is None else values)}
    )


def test_a_flight_in_order_has_no_findings():
    assert check(FLOWN) == []
    assert time_in_the_air(FLOWN) == pytest.approx((0.0, SECONDS), abs=0.1)
    log, findings = usable(FLOWN)
    assert findings == [] and (log.rate.values == FLOWN.rate.values).all()


@pytest.mark.parametrize("late", [-0.1, 0.12])
def test_the_shift_of_the_clocks_is_found(late):
    """Every signal alone tells it to a few milliseconds, beside a lag of the motors of 50 ms that is not the clock's."""
    log = flown(late)
    found = clock_offsets(log, *time_in_the_air(log))
    assert set(found) == {"specific_force", "rate", "velocity"}
    for own in found.values():
        assert own.late == pytest.approx(late, abs=0.012)
        assert own.explained > 0.5
    when = "after" if late > 0.0 else "before"
    assert all(own.code == "clock" and f" s {when} the motors acted" in own.sentence for own in check(log))
    assert len(check(log)) == 3


def test_times_that_are_wrong():
    n = len(FLOWN.rate.time)
    again, back, gap, slow = (FLOWN.rate.time.copy() for _ in range(4))
    again[5] = again[4]
    back[100:] -= 5.0
    gap[n // 2 :] += 0.5
    assert codes(changed("rate", time=again)) == {("time_repeated", WARNING, "rate")}
    assert codes(changed("rate", time=back)) == {("time_back", ERROR, "rate")}
    with pytest.raises(ValueError, match=r"own: the time of the rates goes back 1 times, first from 0.396 s to -4.6 s"):
        usable(changed("rate", time=back))
    assert ("gap", WARNING, "rate") in codes(changed("rate", time=gap))
    little = back.copy()
    little[100:] += 4.999
    assert codes(changed("rate", time=little)) == set()
    little[200] -= 0.006
    assert codes(changed("rate", time=little)) == {("time_back", WARNING, "rate")}
    assert (np.diff(repaired(changed("rate", time=little)).rate.time) > 0.0).all()
    thin = slice(None, None, 40)
    slow = Signal(FLOWN.rate.time[thin], FLOWN.rate.values[:, thin])
    assert ("slow", ERROR, "rate") in codes(replace(FLOWN, rate=slow))


def test_numbers_that_are_none():
    values = FLOWN.attitude.values.copy()
    values[1, 7] = np.nan
    log = changed("attitude", values)
    assert codes(log) == {("nan", WARNING, "attitude")}
    assert len(usable(log)[0].attitude.time) == len(values[0]) - 1
    values[1, ::10] = np.nan
    with pytest.raises(ValueError, match=r"own: 10 % of the attitudes are not numbers, first at sample 0"):
        usable(changed("attitude", values))


def test_motors_that_cannot_be():
    command = FLOWN.command.values.copy()
    command[2, :50] = 1.2
    assert codes(changed("command", command)) == {("command_range", WARNING, "command")}
    assert "1 % of its motor commands are outside 0 … 1" in check(changed("command", command))[0].sentence
    command[2, :500] = 1.2
    assert ("command_range", ERROR, "command") in codes(changed("command", command))
    for none in (np.zeros_like(command), np.empty((0, command.shape[1])), np.full_like(command, np.nan)):
        assert ("no_motors", ERROR, "command") in codes(changed("command", none))
    alone = FlightLog("own", "test", "px4", FLOWN.command)
    assert codes(alone) == {("no_motion", ERROR, "")}


def test_sensors_that_are_saturated_or_shaken():
    flat = FLOWN.rate.values.copy()
    flat[0, 1000:1010] = 35.0
    assert codes(changed("rate", flat)) == {("saturated", WARNING, "rate")}
    shaken = FLOWN.specific_force.values + 20.0 * np.sin(
        2 * np.pi * (4.0 / 0.044) * FLOWN.rate.time
    )  # whole turns in its mean
    assert ("vibration", WARNING, "specific_force") in codes(changed("specific_force", shaken))
    found = next(own for own in check(changed("specific_force", shaken)) if own.code == "vibration")
    assert f"vibrates by {20.0 * np.sqrt(3 / 2):.3g} m/s²" in found.sentence


def test_coarse_steps_are_not_saturation():
    """Steps of 2 m/s², each held for three samples: the largest comes often and in a row, the next smaller one more often"""
    shape = FLOWN.specific_force.values.shape
    draws = np.repeat(np.random.default_rng(5).standard_normal((3, shape[1] // 3 + 1)), 3, axis=1)[:, : shape[1]]
    coarse = 2.0 * np.round(1.2 * draws)
    assert all((np.abs(row) == np.abs(row).max()).sum() >= 5 for row in coarse)
    assert not any(own[0] == "saturated" for own in codes(changed("specific_force", coarse)))


def test_truth_that_jumps_or_is_no_attitude():
    far, turned, long = FLOWN.position.values.copy(), FLOWN.attitude.values.copy(), FLOWN.attitude.values.copy()
    far[0, 2000:] += 0.5
    assert codes(changed("position", far)) == {("jump", WARNING, "position")}
    turned[:, 2000:] = [[np.cos(0.3)], [np.sin(0.3)], [0.0], [0.0]]
    assert codes(changed("attitude", turned)) == {("jump", WARNING, "attitude")}
    assert "farthest by 34.4° at 7.996 s" in check(changed("attitude", turned))[0].sentence
    long[:, 10] *= 1.1
    assert codes(changed("attitude", long)) == {("quaternion", WARNING, "attitude")}
    opposite = FLOWN.attitude.values * np.where(np.arange(5000) % 2, -1.0, 1.0)
    assert codes(changed("attitude", opposite)) == set()


def test_flights_that_are_short():
    for seconds, severity in ((6.0, WARNING), (1.0, ERROR)):
        command = np.where(FLOWN.command.time < seconds, FLOWN.command.values, 0.0)
        assert ("short", severity, "command") in codes(changed("command", command))


def test_real_flights_are_usable(shared_folder):
    """NanoBench's clocks agree with the motors to a few hundredths of a second; the accelerometer of `log10` hits the table."""
    folder = shared_folder / "data"
    if not (folder / "nanobench").is_dir():
        pytest.skip("no flights in the shared folder")
    (log,) = read_log(folder / "nanobench" / "B9_trefoil_slow_rep2.csv.gz")
    whole, findings = usable(log)
    assert findings == [] and whole.command.values.shape == log.command.values.shape
    (log,) = read_log(folder / "arpl_crazyflie" / "log15")
    begin, end = time_in_the_air(log)
    for own in clock_offsets(log, begin, end).values():
        assert own.late + own.lag == pytest.approx(0.072, abs=0.01)  # its authors find 0.072 s, all of it lag
        assert own.explained > 0.9
