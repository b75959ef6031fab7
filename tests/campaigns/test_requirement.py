"""A requirement is a sentence; held and refuted are both claims, and rarely wrong."""

import math

import numpy as np
import pytest
from scipy import stats

from samara.campaigns.confidence import Requirement, Verdict, judge, parse_requirement


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
    found = parse_requirement(text)
    assert found == pytest.approx(expected) and found[:2] == expected[:2]
    assert parse_requirement(str(found)) == pytest.approx(found)


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


def test_how_many_flights_without_a_failure_show_it():
    """0.99ⁿ < 5 % from n = 299; who looked before needs more, and far fewer than by an interval of two sides"""
    wanted = parse_requirement("success > 0.99 @ 95%")
    assert [judge(wanted, n, n) for n in (298, 299)] == [Verdict.UNDECIDED, Verdict.HELD]
    first = next(n for n in range(1, 1000) if judge(wanted, n, n, looked=True) is Verdict.HELD)
    assert 299 < first < 500
    mirror = parse_requirement("failure < 0.01 @ 95%")
    assert [judge(mirror, 0, n) for n in (298, 299)] == [Verdict.UNDECIDED, Verdict.HELD]
    assert judge(mirror, 0, first, looked=True) is Verdict.HELD


def test_failures_refute():
    wanted = parse_requirement("success > 0.99")
    for looked in (False, True):
        assert judge(wanted, 0, 10, looked=looked) is Verdict.REFUTED
        assert judge(wanted, 97, 100, looked=looked) is Verdict.UNDECIDED
        assert judge(parse_requirement("failure < 0.01"), 10, 10, looked=looked) is Verdict.REFUTED


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_a_claim_is_wrong_in_one_of_twenty(rate, looked):
    """Summed over all counts of 150 flights, at the rate itself, which is neither above nor below"""
    n, wanted = 150, Requirement("success", True, rate)
    chance = stats.binom.pmf(np.arange(n + 1), n, rate)
    verdicts = [judge(wanted, k, n, looked=looked) for k in range(n + 1)]
    for wrong in (Verdict.HELD, Verdict.REFUTED):
        assert math.fsum(own for own, verdict in zip(chance, verdicts, strict=True) if verdict is wrong) <= 0.05
