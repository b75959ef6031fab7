"""The schedule of a flight against its timeline, which yields one instant after the other; and periodic blocks of it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import samara
from samara.compiler.llvm.codegen import vector_width
from samara.scenario.timeline import CLOCK_ORDER, Rates, plant_steps, timeline
from samara.sim.executors.llvm import Tiles, is_one_tile, partition_tiles
from samara.sim.initial_state import scenario_timeline
from samara.sim.schedule import Schedule

RATES = [
    Rates(),
    Rates(physics=500.0, control=100.0, estimator=200.0, wind=40.0, scenario=25.0, log=50.0, sensor=500.0),
    Rates(physics=1000.0, control=400.0, estimator=125.0, wind=64.0, scenario=50.0, log=80.0, sensor=100.0),
]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("cuts", [(), (0,), (1, 3_333, 250_000, 250_001)])
def test_consecutive_spans_have_every_instant_of_the_timeline_with_its_due_clocks(rates, cuts):
    flight_timeline = timeline(rates, 0.5, (7_777, 123_456, 400_000))
    schedule, periods = Schedule(flight_timeline), dict(flight_timeline.periods)
    bits = {clock: schedule.clock(clock) for clock in CLOCK_ORDER}
    due_by_time = {}
    edges = [0, *(cut for cut in cuts if cut), flight_timeline.end_us]
    for k, (start, end) in enumerate(pairwise(edges)):
        span = schedule.span(start, end, include_start=k == 0)
        for time_us, due in zip(span.times_us.tolist(), span.due.tolist(), strict=True):
            if due & schedule.instant_bit:
                due_by_time[time_us] = {clock for clock in CLOCK_ORDER if due & bits[clock]}
    expected = {
        time_us: {clock for bit, clock in enumerate(CLOCK_ORDER) if due & (1 << bit)}
        for time_us, due in flight_timeline.instants()
    }
    assert due_by_time == expected
    assert all(
        (time_us % periods[clock] == 0) == (clock in due_by_time[time_us])
        for time_us in due_by_time
        for clock in CLOCK_ORDER
    )


@pytest.mark.parametrize("rates", RATES)
def test_the_steps_that_lead_to_an_instant_are_those_of_the_plant(rates):
    """Σ steps × dt between two instants, and each length, as in `plant_steps`."""
    flight_timeline = timeline(rates, 0.3, (7_777, 123_456))
    span = Schedule(flight_timeline).span(0, flight_timeline.end_us, include_start=True)
    last_us, parts = 0, []
    for (time_us, steps, due, *_), dt in zip(span.rows.tolist(), span.rows.view(float)[:, 3], strict=True):
        if steps:
            parts.append((round(1e6 * dt), steps))
        if due & Schedule(flight_timeline).instant_bit:
            assert parts == plant_steps(last_us, time_us, dict(flight_timeline.periods)["physics"])
            last_us, parts = time_us, []
    np.testing.assert_array_equal(span.rows.view(float)[:, 4], span.times_us / 1e6)


def test_a_bit_with_an_offset_is_due_from_the_offset_on():
    flight_timeline = timeline(Rates(), 0.2)
    schedule = Schedule(flight_timeline)
    delayed_bit = schedule.bit(20_000, 30_000)
    span = schedule.span(0, flight_timeline.end_us, include_start=True)
    assert span.times_us[span.due_rows(delayed_bit)].tolist() == list(range(30_000, 200_001, 20_000))


@pytest.mark.parametrize("time_us", [0, 1, 3_999, 4_000, 7_777, 199_999])
def test_the_next_instant_is_the_first_after_a_time(time_us):
    flight_timeline = timeline(Rates(), 0.2, (7_777,))
    assert Schedule(flight_timeline).next_us(time_us) == min(
        instant_us for instant_us, _ in flight_timeline.instants() if instant_us > time_us
    )


@pytest.mark.parametrize("rates", [Rates(), Rates(physics=1e6 / 1429, log=1e6 / 11_000)])
@pytest.mark.parametrize("again", [False, True])
def test_cached_blocks_equal_rebuilt_ones(rates, again):
    """Second by second, across the ends of events and delays: bit for bit equal to a span that is built without a cache."""
    scenario = replace(samara.load_scenario("sensors", {"duration": 5.0}), rates=rates)
    schedule = Schedule(scenario_timeline(scenario))
    schedule.bit(100_000, 130_000)
    for start in (0, 1_000_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000):
        cached, rebuilt = (
            schedule.span(start, start + 1_000_000, include_start=again),
            schedule._build_span(start, start + 1_000_000, include_start=again),
        )
        for cached_array, rebuilt_array in zip(cached, rebuilt, strict=True):
            np.testing.assert_array_equal(cached_array, rebuilt_array)


@pytest.mark.parametrize("extra", [(), (1_000_000,), (1_234_567,), (2_000_000, 2_999_999)])
def test_a_periodic_block_has_the_instants_of_its_time(extra):
    """Second by second, with and without instants between clock ticks: those of the timeline."""
    flight_timeline = timeline(Rates(), 4.0, extra)
    schedule, ticks = Schedule(flight_timeline), []
    for second in range(4):
        span = schedule.span(1_000_000 * second, 1_000_000 * (second + 1), include_start=second == 0)
        ticks += [
            (time_us, bool(due & schedule.clock("wind"))) for time_us, due in zip(span.times_us, span.due, strict=True)
        ]
        np.testing.assert_array_equal(span.rows.view(float)[:, 4], span.times_us / 1e6)
    instants = {time_us for time_us, due in ticks}
    assert instants >= {time_us for time_us, _ in flight_timeline.instants()}
    assert all(wind == (time_us % 20_000 == 0) for time_us, wind in ticks)


def test_the_end_of_a_shortened_step_is_not_an_instant():
    """7 777 µs is between clock ticks: 777 µs lead to it from 7 ms, and 223 µs from it to 8 ms, where the autopilot is due."""
    schedule = Schedule(timeline(Rates(), 0.02, (7_777,)))
    span = schedule.span(4_000, 8_000)
    rows = [(time, steps, bool(due & schedule.instant_bit)) for time, steps, due, *_ in span.rows.tolist()]
    assert rows == [(7_000, 3, False), (7_777, 1, True), (8_000, 1, True)]
    assert span.times_us[span.due_rows(schedule.clock("control"))].tolist() == [8_000]


def test_drones_are_in_whole_tiles_half_a_tile_and_single_lanes():
    """Half a tile is used if it leaves no single drones, or if there are many tiles; every drone is in one part."""
    width = vector_width("float64")
    half = width // 2
    if half > 1:
        full = 12 * width
        assert partition_tiles(half) == [Tiles(0, half, half)] and is_one_tile(half)
        assert partition_tiles(full + half) == [Tiles(0, full, width), Tiles(full, full + half, half)]
        assert [part.width for part in partition_tiles(full + half + 1)] == [width, half, 1]
        assert [part.width for part in partition_tiles(width + half + 1)] == [width, 1]
    for n in range(1, 70):
        assert [lane for part in partition_tiles(n) for lane in range(part.first, part.last)] == list(range(n))
        assert all((part.last - part.first) % part.width == 0 for part in partition_tiles(n))
    assert partition_tiles(1) == [Tiles(0, 1, 1)] and partition_tiles(width) == [Tiles(0, width, width)]
    assert partition_tiles(2 * width + 3) == [Tiles(0, 2 * width, width), Tiles(2 * width, 2 * width + 3, 1)]
    assert [is_one_tile(n) for n in (1, 2, width, width + 1)] == [True, False, True, False]
    parts = [Tiles(0, 5 * width, width).part(k, 2) for k in range(2)]
    assert parts == [Tiles(0, 2 * width, width), Tiles(2 * width, 5 * width, width)]
