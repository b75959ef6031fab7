"""RAPTOR beside our controllers: against its own package where that is installed."""

import sys

import numpy as np
import pytest

import samara
from samara.control import policy as raptor
from samara.control.policy_file import evaluate, initial_hidden
from samara.control.registry import controller_named
from samara.core.lazy_import import MissingExtraError
from samara.vehicles.rotor_numbering import NUMBERINGS

QUADS = ("crazyflie", "iris", "hakoniwa")


@pytest.mark.parametrize("name", QUADS)
def test_rotors_are_in_the_order_of_the_crazyflie(name: str) -> None:
    """Front right, back right, back left, front left: those of its firmware, and of the package's page"""
    vehicle = samara.vehicle(name)
    rotors = [vehicle.rotors[k] for k in raptor.rotor_order(vehicle)]
    for rotor, place in zip(rotors, NUMBERINGS["quad_x"]["crazyflie"].places, strict=True):
        off = np.degrees(np.arctan2(rotor.r_B.y, rotor.r_B.x)) - place.azimuth_deg
        assert abs((off + 180.0) % 360.0 - 180.0) < 30.0 and rotor.spin == place.spin


def test_what_it_cannot_fly_is_one_sentence() -> None:
    iris = samara.vehicle("iris")
    turned = iris.replace({"rotors.spin": -1.0})
    for vehicle, words in (
        (samara.vehicle("hexarotor_x"), "raptor flies quadrotors; vehicle 'hexarotor_x' has 6 rotors"),
        (turned, "wants the rotor front right to turn counter-clockwise"),
    ):
        with pytest.raises(ValueError, match=words):
            raptor.rotor_order(vehicle)


def test_without_its_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    raptor._published.cache_clear()
    monkeypatch.setitem(sys.modules, "foundation_policy", None)
    with pytest.raises(MissingExtraError, match=r"needs its weights: pip install 'samara\[raptor\]'"):
        controller_named("raptor", samara.vehicle("crazyflie"))


def test_it_acts_as_its_package_does() -> None:
    """In float32 there and in double here, over 200 steps of the recurrent layer"""
    package = pytest.importorskip("foundation_policy").Raptor()
    package.reset()
    network, _ = raptor._published()
    hidden, draw = initial_hidden(network), np.random.default_rng(0)
    for _ in range(200):
        seen = np.float32(0.3 * draw.normal(size=22))
        theirs = package.evaluate_step(seen[None])[0]
        ours, hidden = evaluate(network, seen.astype(float).tolist(), hidden)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", QUADS)
def test_it_flies_our_quadrotors_as_it_is(name: str) -> None:
    pytest.importorskip("foundation_policy")
    run = samara.fly("hover", controller="raptor", settings={"drones.vehicle": name})
    track = run.tracks[0]
    assert track.controller == "raptor" and not run.problem
    state = track.tables["state"].rows[:, :3]
    assert np.linalg.norm(state[-1, :2]) < 0.05 and state[:, 2].max() < 1.6
