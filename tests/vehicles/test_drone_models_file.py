"""Parameter files of drone-models: thrust, torques and drag equal those of its first-principles model."""

import json
import math
import tomllib

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.physics.multirotor import state_at_rest, wrench
from samara.physics.types import CALM
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.drone_models_file import drone_models_file
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.trim import hover

OWN = """[wren]
gravity_vec = [0.0, 0.0, -9.81]
mass = 0.041
L = 0.031
J = [[2.1e-5, 0.0, 0.0], [0.0, 2.3e-5, 0.0], [0.0, 0.0, 4.0e-5]]
rpm2thrust = [0.0, -4.0e-7, 2.9e-10]
rpm2torque = [0.0, 1.2e-9, 1.7e-12]
rotor_dyn_coef = [9.0, 1.0e-4, 4.0, 3.0e-4]
mixing_matrix = [[-1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0]]
drag_matrix = [[-0.016, 0.0, 0.0], [0.0, -0.017, 0.0], [0.0, 0.0, -0.021]]
thrust_min = 0.015
thrust_max = 0.19
prop_radius = 0.024
prop_inertia = 3.0e-8
[other]
rpy_coef = [1.0, 2.0, 3.0]
"""


@pytest.mark.parametrize("share", [0.5, 0.8, 1.0, 1.3])
def test_thrust_torques_and_drag_are_its_models(share):
    imported = build_imported(drone_models_file(OWN, "params.toml"))
    n0 = hover(imported)[0].rotor_speed[0] * 30.0 / math.pi
    assert 4.0 * (2.9e-10 * n0**2 - 4.0e-7 * n0) == pytest.approx(0.041 * 9.81, rel=1e-9)
    rpm = share * n0 * np.array([1.0, 1.1, 0.9, 1.05])
    v = np.array([2.0, -1.0, 0.5])
    state = state_at_rest(imported)._replace(
        p_W=Vec3(0.0, 0.0, 9.0), v_W=Vec3(*v.tolist()), rotor_speed=tuple((rpm * math.pi / 30.0).tolist())
    )
    bare = imported.without_effect("gravity", "contact", "rotor_momentum")
    total = wrench(state._replace(effects=tuple(() for _ in bare.parameters)), state.rotor_speed, bare, CALM)
    thrust = 2.9e-10 * rpm**2 - 4.0e-7 * rpm
    assert total.f_B == pytest.approx((-0.016 * 2.0, 0.017, thrust.sum() - 0.021 * 0.5), rel=1e-12)
    mixing = np.array([[-1, -1, 1, 1], [-1, 1, 1, -1], [-1, 1, -1, 1]])
    assert total.tau_B[:2] == pytest.approx((0.031 * mixing[:2] @ thrust).tolist(), rel=1e-11)
    if share == 1.0:  # the torque is matched at hover; elsewhere it differs by the difference of two curves
        torque = mixing[2] @ (1.7e-12 * rpm**2 + 1.2e-9 * rpm)
        assert total.tau_B.z == pytest.approx(torque, rel=0.2)


def test_the_lag_is_that_of_small_changes_at_hover_and_limits_are_thrusts():
    motor = build_imported(drone_models_file(OWN, "params.toml")).rotors[0].motor
    n0 = (4.0e-7 + math.sqrt(1.6e-13 + 4 * 2.9e-10 * 0.041 * 9.81 / 4)) / (2 * 2.9e-10)
    assert motor.time_constant_up == pytest.approx(1.0 / (9.0 + 2.0e-4 * n0), rel=1e-12)
    assert motor.time_constant_down == pytest.approx(1.0 / (4.0 + 6.0e-4 * n0), rel=1e-12)
    n1 = motor.speed_max * 30.0 / math.pi
    assert 2.9e-10 * n1**2 - 4.0e-7 * n1 == pytest.approx(0.19, rel=1e-12)


def test_json_and_a_drone_by_name_are_the_same():
    table = tomllib.loads(OWN)["wren"]
    imported = build_imported(drone_models_file(OWN, "params.toml"))
    assert build_imported(drone_models_file(json.dumps(table), "wren.json")).rotors == imported.rotors
    two_drones = OWN + OWN.split("[other]")[0].replace("[wren]", "[robin]").replace("0.041", "0.05")
    assert build_imported(drone_models_file(two_drones, "params.toml", "robin")).mass == 0.05
    with pytest.raises(VehicleError, match="drone '': expected one of wren, robin"):
        drone_models_file(two_drones, "params.toml")
    with pytest.raises(VehicleError, match="drone 'owl': expected one of wren, robin"):
        drone_models_file(two_drones, "params.toml", "owl")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[wren]", "[wren", "is not TOML"),
        ("mass = 0.041", "", "has no drone with mass, L, J"),
        ("mass = 0.041", "mass = nan", "wren.mass = nan: expected a finite number"),
        ("mass = 0.041", "mass = -1.0", "wren.mass = -1 kg: expected a positive number"),
        ("mass = 0.041", "mass = [1]", "expected a finite number"),
        ("[0.0, -4.0e-7, 2.9e-10]", "[0.0, 2.9e-10]", "rpm2thrust = .*: expected 3 numbers"),
        ("2.9e-10]", "-2.9e-10]", "expected thrust that grows"),
        ("thrust_max = 0.19", "", "thrust_max is missing"),
        ("mass = 0.041", "mass = 1e-320", "overflow or divide by zero"),
        ("L = 0.031", "L = 'short'", "L = 'short': expected a finite number"),
        ("[-1.0, 1.0, -1.0, 1.0]]", "[-1.0, 1.0, 0.0, 1.0]]", "third row = .*: expected 1 or -1"),
        ("mixing_matrix = [[", "mixing_matrix = [[[", "is not TOML|expected"),
        ("[9.0, 1.0e-4, 4.0, 3.0e-4]", "[0.0, 0.0, 0.0, 0.0]", "rotor_dyn_coef = 0: expected a positive number"),
        ("J = [[2.1e-5, 0.0, 0.0],", "J = [[2.1e-5, 0.0],", "J = .*: expected 3 numbers"),
    ],
)
def test_what_is_wrong_is_one_sentence(old, new, sentence):
    with pytest.raises(VehicleError, match=sentence) as error:
        drone_models_file(OWN.replace(old, new), "bad.toml")
    assert "\n" not in str(error.value) and str(error.value).startswith("bad.toml") and len(str(error.value)) < 250
