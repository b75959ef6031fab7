"""The policy that comes with Samara and races: small, and through the gates with seeds that it was not chosen on."""

import pytest

import samara
from samara.compare.race import race
from samara.control.policy import shipped_policy
from samara.control.registry import controller_named
from samara.world.track import load_track


def test_the_shipped_policy_is_small_and_for_the_tracks_vehicle():
    own = shipped_policy("racer")
    assert own.observation == "race" and own.action == "thrust_and_rates" and own.vehicle == "crazyflie"
    assert sum(len(data) for _, data in own.files) < 100_000
    with pytest.raises(ValueError, match="crazyflie"):
        controller_named("racer", samara.vehicle("iris"), track="hall")


def test_it_races_by_name_through_gates_that_are_elsewhere():
    """Level 2, seeds from 5 000 on: nearly all come through"""
    flown = race("hall", level=2, controller="racer", seeds=range(5000, 5020))
    assert flown.controller == "racer" and flown.score.finished.sum() >= 18 and flown.score.mean_time < 3.7


def test_it_is_told_the_track():
    with pytest.raises(ValueError, match="the policy observes 'race' and needs a track"):
        controller_named("racer", samara.vehicle("crazyflie"))
    own = controller_named("racer", samara.vehicle("crazyflie"), track="hall")
    assert own.call.knows.said == load_track("hall").course
