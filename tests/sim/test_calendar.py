"""The schedule of a flight against its timeline, which finds one instant after the other."""

from itertools import pairwise

import numpy as np
import pytest

from samara.scenario.timeline import STAGES, Rates, plant_steps, timeline
from samara.sim.calendar import Calendar

RATES = [
    Rates(),
    Rates(physics=500.0, autopilot=100.0, estimator=200.0, wind=40.0, scenario=25.0, log=50.0, sensor=500.0),
    Rates(physics=1000.0, autopilot=400.0, estimator=125.0, wind=64.0, scenario=50.0, log=80.0, sensor=100.0),
]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("cuts", [(), (0,), (1, 3_333, 250_000, 250_001)])
def test_spans_one_after_the_other_have_every_instant_of_the_timeline_and_what_is_due(rates, cuts):
    own = timeline(rates, 0.5, (7_777, 123_456, 400_000))
    calendar, periods = Calendar(own), dict(own.periods)
    bits = {axis: calendar.axis(axis) for axis in STAGES}
    found = {}
    edges = [0, *(cut for cut in cuts if cut), own.end_us]
    for k, (start, end) in enumerate(pairwise(edges)):
        span = calendar.span(start, end, again=k == 0)
        for time_us, due in zip(span.times_us.tolist(), span.due.tolist(), strict=True):
            if due & calendar.instant:
                found[time_us] = {axis for axis in STAGES if due & bits[axis]}
    expected = {now: {axis for place, axis in enumerate(STAGES) if due & (1 << place)} for now, due in own.instants()}
    assert found == expected
    assert all((now % periods[axis] == 0) == (axis in found[now]) for now in found for axis in STAGES)


@pytest.mark.parametrize("rates", RATES)
def test_the_steps_that_lead_to_an_instant_are_those_of_the_plant(rates):
    """Σ steps × dt between two instants, and each length, as `plant_steps` has them"""
    own = timeline(rates, 0.3, (7_777, 123_456))
    span = Calendar(own).span(0, own.end_us, again=True)
    before, parts = 0, []
    for (time_us, steps, due, *_), dt in zip(span.rows.tolist(), span.rows.view(float)[:, 3], strict=True):
        if steps:
            parts.append((round(1e6 * dt), steps))
        if due & Calendar(own).instant:
            assert parts == plant_steps(before, time_us, dict(own.periods)["physics"])
            before, parts = time_us, []
    np.testing.assert_array_equal(span.rows.view(float)[:, 4], span.times_us / 1e6)


def test_what_recurs_with_an_offset_is_due_from_it_on():
    own = timeline(Rates(), 0.2)
    calendar = Calendar(own)
    late = calendar.bit(20_000, 30_000)
    span = calendar.span(0, own.end_us, again=True)
    assert span.times_us[span.at(late)].tolist() == list(range(30_000, 200_001, 20_000))


@pytest.mark.parametrize("time_us", [0, 1, 3_999, 4_000, 7_777, 199_999])
def test_the_next_instant_is_the_first_after_a_time(time_us):
    own = timeline(Rates(), 0.2, (7_777,))
    assert Calendar(own).next_us(time_us) == min(now for now, _ in own.instants() if now > time_us)
