"""Measures accumulated tick by tick against the figures of the same flight's recording; and what a scenario expects."""

import math

import numpy as np
import pytest

import samara
from samara.backends.jax_scan import compile_scan_jax
from samara.backends.machine import CompiledStep
from samara.backends.scan import Templates
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.reference import Reference
from samara.physics.surroundings import empty_command, environment_of
from samara.plan import trajectory
from samara.record.run import judge
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.expecting import Ended, outcomes
from samara.scenario.scenario import Drone, Expect, Scenario
from samara.sim.measures import START, Measures, measured, touched, tracking_error
from samara.wind.sources import Constant


def landing(vehicle):
    """Hovers in the wind, and is brought down to the ground: it follows in the air only."""
    start = Vec3(0.0, 0.0, 0.8)
    drone = Drone("d", samara.vehicle(vehicle), trajectory.hover(start), start, airborne=True)
    down = Event(at(0.2), events.land(speed=1.5))
    return samara.fly(Scenario("down", (drone,), 2.5, wind=Constant(Vec3(1.0, 0.3, 0.0)), events=(down,)))


def logged(track):
    """At every tick of the log: state, command, reference and surroundings, as rows of numbers."""
    times, vehicle = track.tables["state"].times_us, track.vehicle
    held = [
        own.rows[np.searchsorted(own.times_us, times, side="right") - 1]
        for own in (track.tables["command"], track.tables["environment"])
    ]
    around = held[1][:, : len(flatten(environment_of(vehicle)))]
    return np.hstack([track.tables["state"].rows, held[0], track.tables["reference"].rows, around])


@pytest.mark.parametrize("vehicle", ["crazyflie", pytest.param("iris", marks=pytest.mark.long)])
def test_tick_by_tick_they_are_the_figures_of_the_recording(vehicle):
    """Compiled, and on floats: worst and least to the bit but for the angle, sums to rounding"""
    track = landing(vehicle).tracks[0]
    own, figures, rows = track.vehicle, track.figures, logged(track)
    given = (at_rest(own), empty_command(own), Reference(ZERO), environment_of(own))

    def body(measures, held):
        state, command, reference, environment = held
        return measured(measures, state, command, reference, own, environment)

    machine = CompiledStep(body, START, given).machine(1)
    by_floats = START
    for row in rows:
        machine.held[:, 0] = row
        machine.run()
        by_floats = body(by_floats, unflatten(given, iter(row.tolist())))
    for found in (by_floats, Measures(*machine.carry[:, 0].tolist())):
        assert 0 < figures.error.number == found.followed < len(rows)  # some of it on the ground
        assert found.squared_error == pytest.approx(figures.error.total, rel=1e-13)
        assert tracking_error(found) == pytest.approx(figures.error.root, rel=1e-13)
        assert found.worst_error == figures.worst.value
        assert found.tilt_deg == pytest.approx(math.degrees(figures.tilt.value), rel=1e-13)
        assert found.speed == figures.speed.value
        assert (found.highest, found.lowest) == (figures.highest.value, figures.lowest.value)
        if track.charge is not None:
            assert 0.0 < found.charge == track.charge.min() < 1.0
            assert found.voltage == pytest.approx(figures.voltage.value, rel=1e-13)


@pytest.mark.long
def test_in_jax_too():
    """A scan over the ticks of the log"""
    track = landing("iris").tracks[0]
    own, rows = track.vehicle, logged(track)
    given = (at_rest(own), empty_command(own), Reference(ZERO), environment_of(own))

    def body(measures, held, now):
        state, command, reference, environment = now
        return measured(measures, state, command, reference, own, environment), ()

    scan = compile_scan_jax(body, Templates(START, (), given), dtype="float64")
    by_jax = Measures(*np.asarray(scan(np.array(START)[:, None], [], rows, len(rows))[0])[:, 0].tolist())
    figures = track.figures
    assert tracking_error(by_jax) == pytest.approx(figures.error.root, rel=1e-12)
    assert by_jax.worst_error == pytest.approx(figures.worst.value, rel=1e-12)
    assert by_jax.voltage == pytest.approx(figures.voltage.value, rel=1e-12)


def test_who_never_flew_has_no_error():
    """On the ground with its reference far away, or in the air with one below the ground: nothing was to be followed"""
    own = samara.vehicle("crazyflie")
    state, command = samara.hover(own)
    for height, asked in ((0.0, 1.0), (2.0, -0.3)):
        there = state._replace(p_W=Vec3(0.0, 0.0, height))
        found = measured(START, there, command, Reference(Vec3(3.0, 0.0, asked)), own, environment_of(own))
        assert (found.followed, found.squared_error, found.worst_error, tracking_error(found)) == (0.0, 0.0, 0.0, 0.0)


def test_a_number_that_is_none_is_worse_than_any():
    own = samara.vehicle("crazyflie")
    state, command = samara.hover(own)
    lost = state._replace(p_W=Vec3(math.nan, 0.0, 5.0), v_W=Vec3(math.nan, 0.0, 0.0))
    found = START
    for each in (state._replace(p_W=Vec3(0.0, 0.0, 5.0)), lost, state._replace(p_W=Vec3(0.0, 0.0, 5.0))):
        found = measured(found, each, command, Reference(Vec3(0.0, 0.0, 5.0)), own, environment_of(own))
    assert math.isnan(found.speed)


def test_the_hardest_touch_stays():
    own = START
    for speed in (0.0, 1.2, 0.4):
        own = touched(own, speed)
    assert own.touchdown_speed == 1.2


# What a scenario expects ---------------------------------------------------------------------------------------------


def test_many_flights_are_judged_as_each_alone():
    """Three flights of two drones in arrays: every expectation, flight by flight, is what one flight's numbers give"""
    expect = Expect(Vec3(1.0, 0.0, 2.0), 0.5, landed=False, max_tilt_deg=30.0, max_error=0.4, min_height=0.5)
    rng = np.random.default_rng(2)
    together = [
        Ended(
            name,
            rng.uniform([[0.5], [-0.5], [1.5]], [[1.5], [0.5], [2.5]], (3, 3)),
            rng.integers(0, 2, 3).astype(float),
            rng.integers(0, 2, 3).astype(float),
            rng.uniform(20.0, 40.0, 3),
            rng.uniform(0.2, 0.6, 3),
            rng.uniform(0.3, 0.8, 3),
        )
        for name in "ab"
    ]
    of_all = list(outcomes(expect, together))
    assert [own.what for own in of_all] == [
        *("no_crash", "final_position", "landed"),
        *("max_tilt_deg", "max_error", "min_height") * 2,
    ]
    for flight in range(3):
        alone = [Ended(own.name, own.p_W[:, flight], *(x[flight] for x in own[2:])) for own in together]
        a, b = alone
        expected = [
            not (a.crashed or b.crashed),
            math.dist(a.p_W, (1.0, 0.0, 2.0)) <= 0.5,
            not (a.landed and b.landed),
            *(x for own in alone for x in (own.tilt_deg <= 30.0, own.worst_error <= 0.4, own.lowest >= 0.5)),
        ]
        assert [bool(own.true[flight]) for own in of_all] == expected
        assert [bool(own.true) for own in outcomes(expect, alone)] == expected


def test_a_crash_that_is_expected_is_none_that_is_not():
    wreck, whole = (Ended(name, ZERO, 0.0, float(name == "a"), 90.0, 9.0, 0.0) for name in "ab")
    told = {
        (own.what, own.drone): bool(own.true)
        for own in outcomes(Expect(crashed=("a",), max_error=10.0), [wreck, whole])
    }
    assert told == {("no_crash", ""): True, ("crashed", "a"): True, ("max_error", "b"): True}
    (other,) = outcomes(Expect(), [wreck, whole])
    assert not other.true


def test_a_run_is_judged_in_words():
    run = landing("crazyflie")
    told = judge(run, Expect(ZERO, 1.5, landed=True, max_tilt_deg=60.0, max_error=5.0, min_height=-1.0))
    assert [own.true for own in told] == [True, True, bool(run.status("landed")[-1]), True, True, True]
    assert [own.text for own in told] == [
        "no crash",
        f"ends within 1.5 m of (0, 0, 0): {np.linalg.norm(run.position[-1]):.3f} m",
        "landed at the end",
        f"tilt at most 60°: {math.degrees(run.tilt.max()):.1f}°",
        f"error at most 5 m: {run.figures.worst.value:.3f} m",
        f"height at least -1 m: {run.position[:, 2].min():.2f} m",
    ]
