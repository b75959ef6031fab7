"""Flight metrics: accumulated tick by tick, computed from a recording, and as every user sees them; and expectations."""

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.repository import REPOSITORY

import samara
from samara.campaigns.batch import Flying
from samara.campaigns.campaign import parse_campaign
from samara.campaigns.samples import Block
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.scan import compile_scan_jax
from samara.compiler.scan import Templates
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten, unflatten
from samara.estimate.ideal import noisy_estimator
from samara.physics.multirotor import at_rest, empty_command, environment_of
from samara.physics.types import Reference
from samara.plan import trajectory
from samara.record.metrics import FLIGHT_METRICS, METRICS, FlightMetrics, report_values
from samara.record.run import Run, check_expectations, expectation_outcomes
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.expectations import LIMITS, DroneResult, outcomes
from samara.scenario.scenario import Drone, Expect, Scenario
from samara.sim.batch_result import Flights
from samara.wind.sources import Constant, OrnsteinUhlenbeck


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


# One definition -------------------------------------------------------------------------------------------------------

EXPECT = Expect(no_crash=False, max_tilt_deg=1.0, max_error=1.0, min_height=1.0)
CAMPAIGN = 'schema = 1\nname = "one"\nscenario = "hover"\nflights = 1\n'


class Surfaces(NamedTuple):
    """One flight everywhere a user sees its metrics"""

    run: Run
    flights: Flights
    row: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def surfaces():
    """Take-off, a hop in gusts with a battery, an estimator and a landing: flown alone, in a batch, and in a campaign"""
    start = Vec3(0.0, 0.0, 0.0)
    task = trajectory.sequence(
        trajectory.take_off(start, height=0.6, speed=1.5),
        trajectory.line((0.0, 0.0, 0.6), (0.3, 0.0, 0.6), speed=0.5),
        trajectory.land((0.3, 0.0, 0.6), height=-0.1, speed=0.8),
    )
    drone = Drone("d", samara.vehicle("iris"), task, start, estimator=noisy_estimator())
    flying = Flying(
        parse_campaign(CAMPAIGN, "one.toml", Path()),
        Scenario("hop", (drone,), 4.5, wind=OrnsteinUhlenbeck(Vec3(1.0, 0.5, 0.0), 0.5, 1.0), expect=EXPECT),
        {},
    )
    row = flying.columns(np.array([0]), Block(0, 0, 1))
    flown = replace(flying.scenario, seed=int(row["seed"][0]))
    return Surfaces(samara.fly(flown), samara.fly_many(flown, 1), row)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_has_one_value_wherever_it_is_shown(surfaces, metric):
    """Summary, report, expectation, campaign row and batch of the same flight agree: to the bit, an angle to rounding"""
    run, flights, row = surfaces
    track = run.tracks[0]
    values = {}
    if metric.recorded is not None:
        values["recording"] = track.metrics.metric(metric.name)
    for surface, table in (("summary", track.summary()), ("report", report_values(track))):
        if metric.label in table:
            values[surface] = table[metric.label].value
            assert table[metric.label].unit in (metric.unit, f"rad/s{metric.unit}")
    for surface, found in (
        ("expectation", expectation_outcomes(run, EXPECT)),
        ("expectation of a batch", flights.outcomes),
    ):
        fields = [limit.field for limit in LIMITS if limit.metric == metric.name]
        values.update((surface, np.ravel(outcome.value)[0]) for outcome in found if outcome.field in fields)
    assert (metric.name in row) is (metric.name in FLIGHT_METRICS)
    if metric.name in FLIGHT_METRICS:
        values["campaign"] = row[metric.name][0]
        values["batch"] = flights.metrics.metric(metric.name)[0]
    if metric.unit == "°":  # NumPy's arccos may differ from the compiled one in the last bit
        assert list(values.values()) == pytest.approx([values["batch"]] * len(values), rel=1e-14)
    else:
        assert values and len(set(values.values())) == 1, values


def test_the_flight_exercises_its_metrics(surfaces):
    """No metric of a batch is at its initial value, and each of them but the touchdown speed is in recordings"""
    initial = FlightMetrics.initial()
    for name in FLIGHT_METRICS:
        value = float(surfaces.row[name][0])
        assert math.isfinite(value) and value != initial.metric(name), name
        assert METRICS[name].recorded is not None or name == "touchdown_speed"
    labels = {*surfaces.run.summary(), *report_values(surfaces.run.tracks[0])}
    assert len(labels & {metric.label for metric in METRICS.values()}) > 20


@pytest.mark.parametrize("vehicle", ["crazyflie", pytest.param("iris", marks=pytest.mark.long)])
def test_tick_by_tick_they_are_those_of_the_recording(vehicle):
    """Compiled, on floats, and merged from two halves; against NumPy on the recorded rows"""
    track = landing(vehicle).tracks[0]
    own, rows = track.vehicle, logged(track)
    given = (at_rest(own), empty_command(own), Reference(ZERO), environment_of(own))

    def body(metrics, held):
        state, command, reference, environment = held
        return metrics.update(state, command, reference, own, environment)

    machine = CompiledStep(body, FlightMetrics.initial(), given).machine(1)
    by_floats, halves = FlightMetrics.initial(), [FlightMetrics.initial()] * 2
    for k, row in enumerate(rows):
        machine.held[:, 0] = row
        machine.run()
        held = unflatten(given, iter(row.tolist()))
        by_floats = body(by_floats, held)
        half = 2 * k // len(rows)
        halves[half] = body(halves[half], held)
    merged = halves[0].merge(halves[1])
    compiled = FlightMetrics(*machine.carry[:, 0].tolist())
    legs = -min(point.z for point in own["contact"].points_B)
    tracking = track.in_the_air & (track.reference_position[:, 2] >= legs)
    error = np.linalg.norm(track.position - track.reference_position, axis=1)[tracking]
    assert 0 < len(error) < len(rows)  # part of it on the ground
    _, x, y, _ = track.attitude.T
    for found in (by_floats, compiled, merged):
        assert found.tracking_ticks == len(error)
        assert found.rms_error == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-13)
        assert found.worst_error == error.max()
        assert found.tilt_deg == pytest.approx(np.degrees(np.arccos(1.0 - 2.0 * (x * x + y * y))).max(), rel=1e-12)
        assert found.speed == np.linalg.norm(track.velocity, axis=1).max()
        assert (found.highest, found.lowest) == (track.position[:, 2].max(), track.position[:, 2].min())
        if track.charge is not None:
            assert 0.0 < found.charge == track.charge.min() < 1.0
            assert found.voltage == pytest.approx(track.tables["outputs"]["voltage"].min(), rel=1e-13)
    assert merged[2:] == by_floats[2:]  # sums are rounded in another order


@pytest.mark.long
def test_in_jax_too():
    """A scan over the ticks of the log"""
    track = landing("iris").tracks[0]
    own, rows = track.vehicle, logged(track)
    given = (at_rest(own), empty_command(own), Reference(ZERO), environment_of(own))

    def body(metrics, held, now):
        state, command, reference, environment = now
        return metrics.update(state, command, reference, own, environment), ()

    initial = FlightMetrics.initial()
    scan = compile_scan_jax(body, Templates(initial, (), given), dtype="float64")
    by_jax = FlightMetrics(*np.asarray(scan(np.array(initial)[:, None], [], rows, len(rows))[0])[:, 0].tolist())
    for name in ("rms_error", "worst_error", "voltage"):
        assert by_jax.metric(name) == pytest.approx(track.metrics.metric(name), rel=1e-12)


def test_a_drone_that_never_flew_has_no_tracking_error():
    """On the ground with its reference far away, or in the air with its reference below the ground"""
    own = samara.vehicle("crazyflie")
    state, command = samara.hover(own)
    for height, reference in ((0.0, 1.0), (2.0, -0.3)):
        there = state._replace(p_W=Vec3(0.0, 0.0, height))
        found = FlightMetrics.initial().update(
            there, command, Reference(Vec3(3.0, 0.0, reference)), own, environment_of(own)
        )
        assert (found.tracking_ticks, found.squared_error, found.worst_error, found.rms_error) == (0.0, 0.0, 0.0, 0.0)


def test_not_a_number_is_worse_than_any():
    own = samara.vehicle("crazyflie")
    state, command = samara.hover(own)
    lost = state._replace(p_W=Vec3(math.nan, 0.0, 5.0), v_W=Vec3(math.nan, 0.0, 0.0))
    found = FlightMetrics.initial()
    for each in (state._replace(p_W=Vec3(0.0, 0.0, 5.0)), lost, state._replace(p_W=Vec3(0.0, 0.0, 5.0))):
        found = found.update(each, command, Reference(Vec3(0.0, 0.0, 5.0)), own, environment_of(own))
    assert math.isnan(found.speed)
    sound = FlightMetrics.initial()
    assert math.isnan(found.merge(sound).speed) and math.isnan(sound.merge(found).speed)


def test_the_hardest_touchdown_is_retained():
    metrics = FlightMetrics.initial()
    for speed in (0.0, 1.2, 0.4):
        metrics = metrics.touch_down(speed)
    assert metrics.touchdown_speed == metrics.merge(FlightMetrics.initial()).touchdown_speed == 1.2


# Expectations --------------------------------------------------------------------------------------------------------


def test_many_flights_are_evaluated_as_each_alone():
    """Three flights of two drones in arrays: every expectation, flight by flight, is what one flight's numbers give"""
    expect = Expect(Vec3(1.0, 0.0, 2.0), 0.5, landed=False, max_tilt_deg=30.0, max_error=0.4, min_height=0.5)
    rng = np.random.default_rng(2)
    together = [
        DroneResult(
            name,
            rng.uniform([[0.5], [-0.5], [1.5]], [[1.5], [0.5], [2.5]], (3, 3)),
            rng.integers(0, 2, 3).astype(float),
            rng.integers(0, 2, 3).astype(float),
            FlightMetrics.initial()
            ._replace(
                tilt_deg=rng.uniform(20.0, 40.0, 3),
                worst_error=rng.uniform(0.2, 0.6, 3),
                lowest=rng.uniform(0.3, 0.8, 3),
            )
            .metric,
        )
        for name in "ab"
    ]
    of_all = list(outcomes(expect, together))
    assert [own.field for own in of_all] == [
        *("no_crash", "final_position", "landed"),
        *("max_tilt_deg", "max_error", "min_height") * 2,
    ]
    for flight in range(3):
        alone = [
            DroneResult(
                own.name,
                own.p_W[:, flight],
                own.landed[flight],
                own.crashed[flight],
                lambda name, own=own, flight=flight: own.metric(name)[flight],
            )
            for own in together
        ]
        a, b = alone
        expected = [
            not (a.crashed or b.crashed),
            math.dist(a.p_W, (1.0, 0.0, 2.0)) <= 0.5,
            not (a.landed and b.landed),
            *(
                x
                for own in alone
                for x in (own.metric("tilt_deg") <= 30.0, own.metric("worst_error") <= 0.4, own.metric("lowest") >= 0.5)
            ),
        ]
        assert [bool(own.satisfied[flight]) for own in of_all] == expected
        assert [bool(own.satisfied) for own in outcomes(expect, alone)] == expected


def test_a_crash_that_is_expected_is_none_that_is_not():
    wreck, whole = (DroneResult(name, ZERO, 0.0, float(name == "a"), {"worst_error": 9.0}.get) for name in "ab")
    told = {
        (own.field, own.drone): bool(own.satisfied)
        for own in outcomes(Expect(crashed=("a",), max_error=10.0), [wreck, whole])
    }
    assert told == {("no_crash", ""): True, ("crashed", "a"): True, ("max_error", "b"): True}
    (other,) = outcomes(Expect(), [wreck, whole])
    assert not other.satisfied


def test_expectations_of_a_run_are_worded():
    run = landing("crazyflie")
    told = check_expectations(run, Expect(ZERO, 1.5, landed=True, max_tilt_deg=60.0, max_error=5.0, min_height=-1.0))
    assert [own.satisfied for own in told] == [True, True, bool(run.status("landed")[-1]), True, True, True]
    assert [own.text for own in told] == [
        "no crash",
        f"ends within 1.5 m of (0, 0, 0): {np.linalg.norm(run.position[-1]):.3f} m",
        "landed at the end",
        f"tilt at most 60°: {math.degrees(run.tilt.max()):.1f}°",
        f"error at most 5 m: {run.metrics.worst_error.value:.3f} m",
        f"height at least -1 m: {run.position[:, 2].min():.2f} m",
    ]


def test_the_documentation_lists_the_metrics_of_a_campaign():
    """docs/campaigns.md has each of them with its unit"""
    page = (REPOSITORY / "docs/campaigns.md").read_text(encoding="utf-8")
    table = page.partition("| metric | unit | |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()]
    listed = {name.strip(" `"): unit for names, unit in rows for name in names.split(",")}
    assert listed == {name: METRICS[name].unit for name in FLIGHT_METRICS}
