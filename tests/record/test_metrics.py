"""Flight metrics: accumulated tick by tick, computed from a recording, and in every user interface; and expectations."""

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.repository import REPOSITORY

import samara
from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import parse_campaign
from samara.campaigns.samples import RowRange
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.jax.scan import compile_scan_jax
from samara.compiler.scan import Templates
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten, unflatten
from samara.estimate.ideal import noisy_estimator
from samara.physics.multirotor import complete_environment, state_at_rest, zero_command
from samara.physics.types import Reference
from samara.plan import trajectory
from samara.record.metrics import FLIGHT_METRICS, METRICS, FlightMetrics, report_values
from samara.record.run import Run, check_expectations, expectation_outcomes
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.expectations import LIMITS, DroneResult, evaluate_expectations
from samara.scenario.scenario import Drone, Expectations, Scenario
from samara.sim.batch_result import Flights
from samara.wind.sources import Constant, OrnsteinUhlenbeck


def landing(vehicle):
    """Hover in the wind, and land: the tracking error counts in the air only."""
    start = Vec3(0.0, 0.0, 0.8)
    drone = Drone("d", samara.vehicle(vehicle), trajectory.hover(start), start, airborne=True)
    land_event = Event(at(0.2), events.land(speed=1.5))
    return samara.fly(Scenario("down", (drone,), 2.5, wind=Constant(Vec3(1.0, 0.3, 0.0)), events=(land_event,)))


def log_rows(drone_record):
    """Return state, command, reference and environment at every tick of the log, as rows of numbers."""
    times, vehicle = drone_record.tables["state"].times_us, drone_record.vehicle
    held_rows = [
        table.rows[np.searchsorted(table.times_us, times, side="right") - 1]
        for table in (drone_record.tables["command"], drone_record.tables["environment"])
    ]
    environment_rows = held_rows[1][:, : len(flatten(complete_environment(vehicle)))]
    return np.hstack(
        [drone_record.tables["state"].rows, held_rows[0], drone_record.tables["reference"].rows, environment_rows]
    )


# One definition -------------------------------------------------------------------------------------------------------

EXPECT = Expectations(no_crash=False, max_tilt_deg=1.0, max_error=1.0, min_height=1.0)
CAMPAIGN = 'schema = 1\nname = "one"\nscenario = "hover"\nflights = 1\n'


class Surfaces(NamedTuple):
    """One flight in every place where a user sees its metrics."""

    run: Run
    flights: Flights
    row: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def surfaces():
    """Take-off, a hop in gusts with a battery, an estimator and a landing: flown alone, in a batch, and in a campaign."""
    start = Vec3(0.0, 0.0, 0.0)
    task = trajectory.sequence(
        trajectory.take_off(start, height=0.6, speed=1.5),
        trajectory.line((0.0, 0.0, 0.6), (0.3, 0.0, 0.6), speed=0.5),
        trajectory.land((0.3, 0.0, 0.6), height=-0.1, speed=0.8),
    )
    drone = Drone("d", samara.vehicle("iris"), task, start, estimator=noisy_estimator())
    campaign_flights = CampaignFlights(
        parse_campaign(CAMPAIGN, "one.toml", Path()),
        Scenario("hop", (drone,), 4.5, wind=OrnsteinUhlenbeck(Vec3(1.0, 0.5, 0.0), 0.5, 1.0), expect=EXPECT),
        {},
    )
    row = campaign_flights.columns(np.array([0]), RowRange(0, 0, 1))
    scenario = replace(campaign_flights.scenario, seed=int(row["seed"][0]))
    return Surfaces(samara.fly(scenario), samara.fly_many(scenario, 1), row)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_has_one_value_wherever_it_is_shown(surfaces, metric):
    """Summary, report, expectation, campaign row and batch of the same flight agree: to the bit, an angle to rounding."""
    run, flights, row = surfaces
    drone_record = run.drone_records[0]
    values = {}
    if metric.recorded is not None:
        values["recording"] = drone_record.metrics.metric(metric.name)
    for surface, table in (("summary", drone_record.summary()), ("report", report_values(drone_record))):
        if metric.label in table:
            values[surface] = table[metric.label].value
            assert table[metric.label].unit in (metric.unit, f"rad/s{metric.unit}")
    for surface, outcomes in (
        ("expectation", expectation_outcomes(run, EXPECT)),
        ("expectation of a batch", flights.outcomes),
    ):
        fields = [limit.metric for limit in LIMITS if limit.metric == metric.name]
        values.update((surface, np.ravel(outcome.value)[0]) for outcome in outcomes if outcome.field in fields)
    assert (metric.name in row) is (metric.name in FLIGHT_METRICS)
    if metric.name in FLIGHT_METRICS:
        values["campaign"] = row[metric.name][0]
        values["batch"] = flights.metrics.metric(metric.name)[0]
    if metric.unit == "°":  # NumPy's arccos may differ from the compiled one in the last bit
        assert list(values.values()) == pytest.approx([values["batch"]] * len(values), rel=1e-14)
    else:
        assert values and len(set(values.values())) == 1, values


def test_the_flight_exercises_its_metrics(surfaces):
    """No metric of a batch is at its initial value, and all except the touchdown speed are in recordings."""
    initial = FlightMetrics.initial()
    for name in FLIGHT_METRICS:
        value = float(surfaces.row[name][0])
        assert math.isfinite(value) and value != initial.metric(name), name
        assert METRICS[name].recorded is not None or name == "max_touchdown_speed"
    labels = {*surfaces.run.summary(), *report_values(surfaces.run.drone_records[0])}
    assert len(labels & {metric.label for metric in METRICS.values()}) > 20


@pytest.mark.parametrize("vehicle", ["crazyflie", pytest.param("iris", marks=pytest.mark.long)])
def test_tick_by_tick_they_are_those_of_the_recording(vehicle):
    """Compiled, on floats, and merged from two halves; against NumPy on the recorded rows."""
    drone_record = landing(vehicle).drone_records[0]
    vehicle_model, rows = drone_record.vehicle, log_rows(drone_record)
    templates = (
        state_at_rest(vehicle_model),
        zero_command(vehicle_model),
        Reference(ZERO),
        complete_environment(vehicle_model),
    )

    def body(metrics, inputs):
        state, command, reference, environment = inputs
        return metrics.update(state, command, reference, vehicle_model, environment)

    machine = CompiledStep(body, FlightMetrics.initial(), templates).machine(1)
    float_metrics, halves = FlightMetrics.initial(), [FlightMetrics.initial()] * 2
    for k, row in enumerate(rows):
        machine.held_inputs[:, 0] = row
        machine.run()
        inputs = unflatten(templates, iter(row.tolist()))
        float_metrics = body(float_metrics, inputs)
        half = 2 * k // len(rows)
        halves[half] = body(halves[half], inputs)
    merged = halves[0].merge(halves[1])
    compiled = FlightMetrics(*machine.carry[:, 0].tolist())
    legs = -min(point.z for point in vehicle_model["contact"].points_B)
    tracking = drone_record.airborne & (drone_record.reference_position[:, 2] >= legs)
    error = np.linalg.norm(drone_record.position - drone_record.reference_position, axis=1)[tracking]
    assert 0 < len(error) < len(rows)  # part of it on the ground
    _, x, y, _ = drone_record.attitude.T
    for result in (float_metrics, compiled, merged):
        assert result.tracking_ticks == len(error)
        assert result.rms_error == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-13)
        assert result.max_error == error.max()
        assert result.max_tilt_deg == pytest.approx(np.degrees(np.arccos(1.0 - 2.0 * (x * x + y * y))).max(), rel=1e-12)
        assert result.max_speed == np.linalg.norm(drone_record.velocity, axis=1).max()
        assert (result.max_height, result.min_height) == (
            drone_record.position[:, 2].max(),
            drone_record.position[:, 2].min(),
        )
        if drone_record.charge is not None:
            assert 0.0 < result.min_charge == drone_record.charge.min() < 1.0
            assert result.min_voltage == pytest.approx(drone_record.tables["derived"]["voltage"].min(), rel=1e-13)
    assert merged[2:] == float_metrics[2:]  # sums are rounded in another order


@pytest.mark.long
def test_in_jax_too():
    """A scan over the ticks of the log."""
    drone_record = landing("iris").drone_records[0]
    vehicle, rows = drone_record.vehicle, log_rows(drone_record)
    templates = (state_at_rest(vehicle), zero_command(vehicle), Reference(ZERO), complete_environment(vehicle))

    def body(metrics, constants, inputs):
        state, command, reference, environment = inputs
        return metrics.update(state, command, reference, vehicle, environment), ()

    initial = FlightMetrics.initial()
    scan = compile_scan_jax(body, Templates(initial, (), templates), dtype="float64")
    jax_metrics = FlightMetrics(*np.asarray(scan(np.array(initial)[:, None], [], rows, len(rows))[0])[:, 0].tolist())
    for name in ("rms_error", "max_error", "min_voltage"):
        assert jax_metrics.metric(name) == pytest.approx(drone_record.metrics.metric(name), rel=1e-12)


def test_a_drone_that_never_flew_has_no_tracking_error():
    """On the ground with its reference far away, or in the air with its reference below the ground."""
    vehicle = samara.vehicle("crazyflie")
    state, command = samara.hover(vehicle)
    for height, reference in ((0.0, 1.0), (2.0, -0.3)):
        state_at_height = state._replace(p_W=Vec3(0.0, 0.0, height))
        metrics = FlightMetrics.initial().update(
            state_at_height, command, Reference(Vec3(3.0, 0.0, reference)), vehicle, complete_environment(vehicle)
        )
        assert (metrics.tracking_ticks, metrics.squared_error, metrics.max_error, metrics.rms_error) == (
            0.0,
            0.0,
            0.0,
            0.0,
        )


def test_not_a_number_is_worse_than_any():
    vehicle = samara.vehicle("crazyflie")
    state, command = samara.hover(vehicle)
    nan_state = state._replace(p_W=Vec3(math.nan, 0.0, 5.0), v_W=Vec3(math.nan, 0.0, 0.0))
    metrics = FlightMetrics.initial()
    for sample in (state._replace(p_W=Vec3(0.0, 0.0, 5.0)), nan_state, state._replace(p_W=Vec3(0.0, 0.0, 5.0))):
        metrics = metrics.update(
            sample, command, Reference(Vec3(0.0, 0.0, 5.0)), vehicle, complete_environment(vehicle)
        )
    assert math.isnan(metrics.max_speed)
    initial = FlightMetrics.initial()
    assert math.isnan(metrics.merge(initial).max_speed) and math.isnan(initial.merge(metrics).max_speed)


def test_the_hardest_touchdown_is_retained():
    metrics = FlightMetrics.initial()
    for speed in (0.0, 1.2, 0.4):
        metrics = metrics.touch_down(speed)
    assert metrics.max_touchdown_speed == metrics.merge(FlightMetrics.initial()).max_touchdown_speed == 1.2


# Expectations --------------------------------------------------------------------------------------------------------


def test_many_flights_are_evaluated_as_single_ones():
    """Three flights of two drones in arrays: every expectation equals that of the single flights."""
    expect = Expectations(Vec3(1.0, 0.0, 2.0), 0.5, landed=False, max_tilt_deg=30.0, max_error=0.4, min_height=0.5)
    rng = np.random.default_rng(2)
    results = [
        DroneResult(
            name,
            rng.uniform([[0.5], [-0.5], [1.5]], [[1.5], [0.5], [2.5]], (3, 3)),
            rng.integers(0, 2, 3).astype(float),
            rng.integers(0, 2, 3).astype(float),
            FlightMetrics.initial()
            ._replace(
                max_tilt_deg=rng.uniform(20.0, 40.0, 3),
                max_error=rng.uniform(0.2, 0.6, 3),
                min_height=rng.uniform(0.3, 0.8, 3),
            )
            .metric,
        )
        for name in "ab"
    ]
    outcomes = list(evaluate_expectations(expect, results))
    assert [outcome.field for outcome in outcomes] == [
        *("no_crash", "final_position", "landed"),
        *("max_tilt_deg", "max_error", "min_height") * 2,
    ]
    for flight in range(3):
        single_results = [
            DroneResult(
                result.name,
                result.p_W[:, flight],
                result.landed[flight],
                result.crashed[flight],
                lambda name, result=result, flight=flight: result.metric(name)[flight],
            )
            for result in results
        ]
        a, b = single_results
        expected = [
            not (a.crashed or b.crashed),
            math.dist(a.p_W, (1.0, 0.0, 2.0)) <= 0.5,
            not (a.landed and b.landed),
            *(
                x
                for result in single_results
                for x in (
                    result.metric("max_tilt_deg") <= 30.0,
                    result.metric("max_error") <= 0.4,
                    result.metric("min_height") >= 0.5,
                )
            ),
        ]
        assert [bool(outcome.satisfied[flight]) for outcome in outcomes] == expected
        assert [bool(outcome.satisfied) for outcome in evaluate_expectations(expect, single_results)] == expected


def test_an_expected_crash_satisfies_no_crash():
    crashed_drone, intact_drone = (
        DroneResult(name, ZERO, 0.0, float(name == "a"), {"max_error": 9.0}.get) for name in "ab"
    )
    satisfied = {
        (outcome.field, outcome.drone): bool(outcome.satisfied)
        for outcome in evaluate_expectations(
            Expectations(crashed=("a",), max_error=10.0), [crashed_drone, intact_drone]
        )
    }
    assert satisfied == {("no_crash", ""): True, ("crashed", "a"): True, ("max_error", "b"): True}
    (other,) = evaluate_expectations(Expectations(), [crashed_drone, intact_drone])
    assert not other.satisfied


def test_expectations_of_a_run_are_worded():
    run = landing("crazyflie")
    checks = check_expectations(
        run, Expectations(ZERO, 1.5, landed=True, max_tilt_deg=60.0, max_error=5.0, min_height=-1.0)
    )
    assert [check.satisfied for check in checks] == [True, True, bool(run.status("landed")[-1]), True, True, True]
    assert [check.text for check in checks] == [
        "no crash",
        f"ends within 1.5 m of (0, 0, 0): {np.linalg.norm(run.position[-1]):.3f} m",
        "landed at the end",
        f"tilt at most 60°: {math.degrees(run.tilt.max()):.1f}°",
        f"error at most 5 m: {run.metrics.max_error.value:.3f} m",
        f"height at least -1 m: {run.position[:, 2].min():.2f} m",
    ]


def test_the_documentation_lists_the_metrics_of_a_campaign():
    """docs/reference/campaign-file.md has each of them with its unit."""
    page = (REPOSITORY / "docs/reference/campaign-file.md").read_text(encoding="utf-8")
    table = page.partition("|metric|unit|meaning|\n|-|-|-|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines()]
    listed = {name.strip(" `"): unit for names, unit in rows for name in names.split(",")}
    assert listed == {name: METRICS[name].unit for name in FLIGHT_METRICS}
