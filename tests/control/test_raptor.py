"""RAPTOR as a controller: against its package, if that is installed."""

import re
import sys

import numpy as np
import pytest

import samara
from samara.control import policy as raptor
from samara.control.policy_file import evaluate_network, initial_hidden
from samara.control.registry import create_controller
from samara.core.extras import MissingExtraError, install_hint
from samara.vehicles.rotor_numbering import NUMBERINGS

QUADS = ("crazyflie", "iris", "hakoniwa")


@pytest.mark.parametrize("name", QUADS)
def test_rotors_are_in_the_order_of_the_crazyflie(name: str) -> None:
    """Front right, back right, back left, front left: the order of the firmware, and of the package's page"""
    vehicle = samara.vehicle(name)
    rotors = [vehicle.rotors[i] for i in raptor.quad_x_rotor_order(vehicle)]
    for rotor, position in zip(rotors, NUMBERINGS["quad_x"]["crazyflie"].rotors, strict=True):
        azimuth_error = np.degrees(np.arctan2(rotor.r_B.y, rotor.r_B.x)) - position.azimuth_deg
        assert abs((azimuth_error + 180.0) % 360.0 - 180.0) < 30.0 and rotor.spin == position.spin


def test_unsuitable_vehicles_are_rejected() -> None:
    iris = samara.vehicle("iris")
    reversed_spins = iris.replace({"rotors.spin": -1.0})
    for vehicle, message in (
        (samara.vehicle("hexarotor_x"), "raptor flies quadrotors; vehicle 'hexarotor_x' has 6 rotors"),
        (reversed_spins, "expects the front right rotor to turn counter-clockwise"),
    ):
        with pytest.raises(ValueError, match=message):
            raptor.quad_x_rotor_order(vehicle)


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    raptor._raptor_network.cache_clear()
    monkeypatch.setitem(sys.modules, "foundation_policy", None)
    with pytest.raises(MissingExtraError, match=f"needs foundation-policy: {re.escape(install_hint('raptor'))}"):
        create_controller("raptor", samara.vehicle("crazyflie"))


def test_it_acts_as_its_package_does() -> None:
    """The package in float32 and Samara in double, over 200 steps of the recurrent layer"""
    package = pytest.importorskip("foundation_policy").Raptor()
    package.reset()
    network, _ = raptor._raptor_network()
    hidden, rng = initial_hidden(network), np.random.default_rng(0)
    for _ in range(200):
        observation = np.float32(0.3 * rng.normal(size=22))
        expected = package.evaluate_step(observation[None])[0]
        action, hidden = evaluate_network(network, observation.astype(float).tolist(), hidden)
        np.testing.assert_allclose(action, expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", QUADS)
def test_it_flies_the_shipped_quadrotors(name: str) -> None:
    pytest.importorskip("foundation_policy")
    run = samara.fly("hover", controller="raptor", settings={"drones.vehicle": name})
    track = run.drone_records[0]
    assert track.controller == "raptor" and not run.problem
    state = track.tables["state"].rows[:, :3]
    assert np.linalg.norm(state[-1, :2]) < 0.05 and state[:, 2].max() < 1.6
