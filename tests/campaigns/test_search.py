"""Search of a campaign: the failing flight shrinks to the planted cause, and reruns bit for bit."""

import numpy as np
import pytest

from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import CampaignError, load_campaign, parse_campaign
from samara.campaigns.search import campaign_margin, failure_probability, find_weakness, save_case
from samara.campaigns.sweep import sweep

pytest.importorskip("pyarrow")

SCENARIO = """
schema = 1
name = "gust"
duration = 1.0

[[wind]]
model = "gust"
amplitude_W = [1, 0, 0]
start = 0.1
duration = 0.8

[[drones]]
name = "drone"
vehicle = "crazyflie_documented"
start = [0, 0, 2]
airborne = true

[[drones.tasks]]
type = "hover"
duration = 1.0

[expect]
max_error = 0.5
"""
TEXT = """
schema = 1
name = "gusty"
scenario = "gust.toml"
flights = 10
seed = 7

[vary]
mass = { normal = [1.0, 0.02], relative = true }
"wind.amplitude_W.x" = { normal = [0.0, 2.0] }
"inertia_B.zz" = { normal = [1.0, 0.05], relative = true }
"""


@pytest.fixture
def campaign(tmp_path):
    (tmp_path / "gust.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "gusty.toml").write_text(TEXT, encoding="utf-8")
    return load_campaign(tmp_path / "gusty.toml")


def test_the_gust_is_what_makes_it_fail_and_the_case_flies_again(campaign, tmp_path):
    """Of three parameters only the gust remains; the campaign of that one flight has the same margin, to the last bit"""
    weakness = find_weakness(campaign, flights=40)
    assert weakness.search.fails and weakness.changed == ("wind.amplitude_W.x",) and weakness.shrunk.is_minimal
    nominal = CampaignFlights.prepare(campaign).nominal
    assert weakness.case["mass"] == nominal["mass"] and weakness.case["inertia_B.zz"] == nominal["inertia_B.zz"]
    (row,) = sweep(save_case(campaign, weakness.case), tmp_path / "out").table().to_pylist()
    assert row["outcome"] == "fail" and row["margin"] == weakness.shrunk.margin
    assert {name: row[name] for name in weakness.case} == weakness.case


def test_the_failure_probability(campaign):
    """Only the gust matters, at both ends: P is twice the probability beyond the failure threshold, found by bisection"""
    margin = campaign_margin(CampaignFlights.prepare(campaign))
    low, high = 0.5, 0.999
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if margin(np.array([[0.5, middle, 0.5]]))[0] > 0.0 else (low, middle)
    rare = failure_probability(campaign, per_level=400)
    assert rare.failure_reached and rare.probability == pytest.approx(2.0 * (1.0 - high), rel=0.5)


def test_what_cannot_be_searched(tmp_path):
    empty = parse_campaign(TEXT.split("[vary]")[0], "heavy.toml", tmp_path)
    with pytest.raises(
        CampaignError, match=r"^heavy.toml: is a grid, a table, or varies nothing; expected distributions"
    ):
        find_weakness(empty)
