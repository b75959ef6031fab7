"""The shipped racing policy: small, and successful with seeds that it was not selected on."""

import pytest

import samara
from samara.comparison.race import race
from samara.control.policy import bundled_policy
from samara.control.registry import create_controller
from samara.world.track import load_track


def test_the_shipped_policy_is_small_and_for_the_tracks_vehicle():
    policy = bundled_policy("racer")
    assert policy.observation == "race" and policy.action == "thrust_and_rates" and policy.vehicle == "crazyflie"
    assert sum(len(data) for _, data in policy.files) < 100_000
    with pytest.raises(ValueError, match="crazyflie"):
        create_controller("racer", samara.vehicle("iris"), track="hall")


def test_it_races_by_name_through_displaced_gates():
    """Level 2, seeds from 5 000 on: nearly all finish"""
    result = race("hall", level=2, controller="racer", seeds=range(5000, 5020))
    assert result.controller == "racer" and result.score.is_finished.sum() >= 18 and result.score.mean_time < 3.7


def test_it_needs_the_track():
    with pytest.raises(ValueError, match="the policy observes 'race' and needs a track"):
        create_controller("racer", samara.vehicle("crazyflie"))
    controller = create_controller("racer", samara.vehicle("crazyflie"), track="hall")
    assert controller.call.course_knowledge.nominal == load_track("hall").course
