"""A campaign searched: the flight it finds shrinks to what was planted, and flies again bit for bit."""

import numpy as np
import pytest

from samara.campaigns.batch import Flying
from samara.campaigns.campaign import CampaignError, load_campaign, parse_campaign
from samara.campaigns.search import campaign_margin, rare_failures, save_case, weakness
from samara.campaigns.sweep import sweep

pytest.importorskip("pyarrow")

SCENARIO = """
schema = 1
name = "gust"
duration = 1.0

[[wind]]
kind = "gust"
amplitude_W = [1, 0, 0]
start = 0.1
duration = 0.8

[[drones]]
name = "drone"
vehicle = "crazyflie_documented"
start = [0, 0, 2]
airborne = true

[[drones.tasks]]
kind = "hover"
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
    """Of three factors the gust alone is left; the campaign of that one flight has the margin found, to the last bit"""
    found = weakness(campaign, budget=40)
    assert found.searched.found and found.changed == ("wind.amplitude_W.x",) and found.shrunk.fewest
    nominal = Flying.of(campaign).nominal
    assert found.case["mass"] == nominal["mass"] and found.case["inertia_B.zz"] == nominal["inertia_B.zz"]
    (row,) = sweep(save_case(campaign, found.case), tmp_path / "out").table().to_pylist()
    assert row["outcome"] == "fail" and row["margin"] == found.shrunk.margin
    assert {name: row[name] for name in found.case} == found.case


def test_how_rare_it_is(campaign):
    """The gust alone matters, at both ends: P is twice the part beyond where flights begin to fail, found by bisection"""
    margin = campaign_margin(Flying.of(campaign))
    low, high = 0.5, 0.999
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if margin(np.array([[0.5, middle, 0.5]]))[0] > 0.0 else (low, middle)
    rare = rare_failures(campaign, per_level=400)
    assert rare.reached and rare.probability == pytest.approx(2.0 * (1.0 - high), rel=0.5)


def test_what_cannot_be_searched(tmp_path):
    empty = parse_campaign(TEXT.split("[vary]")[0], "heavy.toml", tmp_path)
    with pytest.raises(
        CampaignError, match=r"^heavy.toml: is a grid, a table, or varies nothing; expected distributions"
    ):
        weakness(empty)
