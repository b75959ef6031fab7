"""Requirements: parsing, and the error rates of both verdicts."""

import math

import numpy as np
import pytest
from scipy import stats

from samara.campaigns.confidence import Requirement, Verdict, decide_requirement, parse_requirement


@pytest.mark.parametrize(
    "text, expected",
    [
        ("success > 0.99 @ 95%", Requirement("success", True, 0.99, 0.95)),
        ("success>=99.9%@99 %", Requirement("success", True, 0.999, 0.99)),
        (" failure < 1e-3 ", Requirement("failure", False, 1e-3, 0.95)),
        ("expect_0 <= .5 @ 99.9%", Requirement("expect_0", False, 0.5, 0.999)),
    ],
)
def test_what_is_understood(text, expected):
    parsed = parse_requirement(text)
    assert parsed == pytest.approx(expected) and parsed[:2] == expected[:2]
    assert parse_requirement(str(parsed)) == pytest.approx(parsed)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "success",
            "success > ",
            "0.99 < success",
            "success = 1",
            "success > 1",
            "success > 0",
            "success > nan @ 95%",
        ),
        *(
            "success > 120%",
            "success > 0.9 @ 95",
            "success > 0.9 @ 100%",
            "success > 0.9 @ %",
            "success > 0.9 @ 95% please",
        ),
        *("success > a", "success > 0.9 > 0.8", "success > -0.9", "success > inf"),
    ],
)
def test_what_is_not(text):
    with pytest.raises(ValueError, match=r"^requirement .*; expected a name, > or <, .* as in 'success > 0.99 @ 95%'$"):
        parse_requirement(text)


def test_flights_without_a_failure_that_show_it():
    """0.99ⁿ < 5 % from n = 299; a sequential test needs more, but far fewer than a two-sided interval"""
    requirement = parse_requirement("success > 0.99 @ 95%")
    assert [decide_requirement(requirement, n, n) for n in (298, 299)] == [Verdict.UNDECIDED, Verdict.HELD]
    first = next(n for n in range(1, 1000) if decide_requirement(requirement, n, n, sequential=True) is Verdict.HELD)
    assert 299 < first < 500
    mirror = parse_requirement("failure < 0.01 @ 95%")
    assert [decide_requirement(mirror, 0, n) for n in (298, 299)] == [Verdict.UNDECIDED, Verdict.HELD]
    assert decide_requirement(mirror, 0, first, sequential=True) is Verdict.HELD


def test_failures_refute():
    requirement = parse_requirement("success > 0.99")
    for sequential in (False, True):
        assert decide_requirement(requirement, 0, 10, sequential=sequential) is Verdict.REFUTED
        assert decide_requirement(requirement, 97, 100, sequential=sequential) is Verdict.UNDECIDED
        assert decide_requirement(parse_requirement("failure < 0.01"), 10, 10, sequential=sequential) is Verdict.REFUTED


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_a_claim_is_wrong_in_one_of_twenty(rate, sequential):
    """Summed over all counts of 150 flights, at the rate itself, which is neither above nor below"""
    n, requirement = 150, Requirement("success", True, rate)
    chance = stats.binom.pmf(np.arange(n + 1), n, rate)
    verdicts = [decide_requirement(requirement, k, n, sequential=sequential) for k in range(n + 1)]
    for wrong in (Verdict.HELD, Verdict.REFUTED):
        assert (
            math.fsum(probability for probability, verdict in zip(chance, verdicts, strict=True) if verdict is wrong)
            <= 0.05
        )
