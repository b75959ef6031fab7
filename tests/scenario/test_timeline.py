"""Time in whole microseconds: every clock ticks exactly at its multiples, and nothing is due twice."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samara.scenario.timeline import (
    CLOCK_ORDER,
    Rates,
    clock_ticks,
    microseconds,
    period,
    plant_steps,
    timeline,
)


def test_ten_minutes_at_100_hz_are_60001_ticks():
    ticks = clock_ticks(period(100.0), microseconds(600.0))
    assert len(ticks) == 60001
    assert set(np.diff(ticks)) == {10_000}
    assert (ticks[0], ticks[-1]) == (0, 600_000_000)


@given(st.integers(1, 1_000_000))
def test_a_period_of_whole_microseconds_is_found_from_its_rate(us):
    """f = 10⁶/T as a double, and T comes back."""
    assert period(1e6 / us) == us


@pytest.mark.parametrize(
    ("rate", "nearest"),
    [
        (300.0, ("299.940012 Hz (3334 µs)", "300.030003 Hz (3333 µs)")),
        (60.0, ("59.99880002 Hz (16667 µs)", "60.00240010 Hz (16666 µs)")),
    ],
)
def test_a_period_between_microseconds_is_an_error_with_the_nearest_rates(rate, nearest):
    with pytest.raises(ValueError, match="not a whole number") as caught:
        period(rate, "rates.wind")
    assert str(caught.value).startswith(f"rates.wind is {rate:g} Hz")
    for text in nearest:
        assert text.replace("60.00240010", "60.0024001") in str(caught.value)


@pytest.mark.parametrize("rate", [0.0, -1.0, 2e6, float("nan"), float("inf"), True, "fast"])
def test_an_invalid_rate_is_an_error(rate):
    with pytest.raises(ValueError, match=r"rate is .* Hz; expected a number above 0"):
        period(rate)


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-7])
def test_a_rate_slower_than_any_flight_is_an_error(rate):
    with pytest.raises(ValueError, match=r"rate is .* Hz; expected at least 1e-06"):
        period(rate)


def test_a_time_between_microseconds_is_an_error():
    assert microseconds(0.1 + 0.2) == 300_000  # the double nearest to 0.3 and its neighbour are the same microsecond
    with pytest.raises(ValueError, match="333333 µs and 333334 µs"):
        microseconds(1.0 / 3.0)


@given(
    st.lists(st.sampled_from([1, 2, 2.5, 4, 5, 8, 10, 20, 25, 40, 50, 100]), min_size=6, max_size=6),
    st.integers(1, 3000),
    st.lists(st.integers(0, 3_000_000), max_size=5),
)
def test_instants_are_the_union_of_the_clocks_and_the_events(milliseconds, length_ms, events_us):
    """Against sets of fractions: every tick of every clock once, with the bits of all clocks that tick there."""
    rates = Rates(1000.0, *(1000.0 / ms for ms in (milliseconds[1], milliseconds[0], *milliseconds[2:])))
    periods = rates.periods()
    instants = list(timeline(rates, length_ms / 1000.0, events_us).instants())
    end = length_ms * 1000
    due: dict[int, int] = {time: 0 for time in (*events_us, end) if time <= end}
    for name, us in periods.items():
        if name == "physics":
            continue
        k = 0
        while Fraction(k) * us <= end:
            due[k * us] = due.get(k * us, 0) | 1 << CLOCK_ORDER.index(name)
            k += 1
    assert [(instant.time_us, instant.due) for instant in instants] == sorted(due.items())


@given(st.integers(0, 5000), st.integers(1, 9000), st.integers(1, 3000))
def test_plant_steps_end_on_the_physics_clock_or_at_the_instant(start, length, physics):
    """The steps add up; each ends on a multiple of the physics period or at the end, and none is longer than it."""
    parts = plant_steps(start, start + length, physics)
    assert sum(dt * count for dt, count in parts) == length
    time = start
    for dt, count in parts:
        for _ in range(count):
            time += dt
            assert 0 < dt <= physics
            assert time % physics == 0 or time == start + length
