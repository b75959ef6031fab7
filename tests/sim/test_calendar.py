"""The rows of a schedule: a block that recurs is the one that would be found anew."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.scenario.timeline import Rates
from samara.sim.calendar import Calendar
from samara.sim.start import timeline_of


@pytest.mark.parametrize("rates", [Rates(), Rates(physics=1e6 / 1429, log=1e6 / 11_000)])
@pytest.mark.parametrize("again", [False, True])
def test_blocks_that_follow_each_other(rates, again):
    """Every second in turn, over the ends of events and of delays: bit for bit what a calendar finds that has seen no other."""
    own = replace(samara.load_scenario("sensors", {"duration": 5.0}), rates=rates)
    calendar = Calendar(timeline_of(own))
    calendar.bit(100_000, 130_000)
    for start in (0, 1_000_000, 2_000_000, 2_500_000, 3_000_000, 4_000_000):
        known, anew = (
            calendar.span(start, start + 1_000_000, again=again),
            calendar._found(start, start + 1_000_000, again=again),
        )
        for ours, theirs in zip(known, anew, strict=True):
            np.testing.assert_array_equal(ours, theirs)
