"""A vehicle that differs from the one a policy was trained on: the policy is trained further, and hovers as well as before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.learnt import trained
from support.networks import drawn

import samara
from samara.control.policy_file import LayerKind, load_policy, save_policy
from samara.learn.fine_tune import adapt
from samara.learn.policies import policy_weights
from samara.physics.types import Vehicle


def off(share: float = 0.2) -> Vehicle:
    """A Crazyflie that is heavier, weaker and slower by a fifth"""
    own = samara.vehicle("crazyflie")
    rotor = own.rotors[0]
    changed = own.replace(
        {
            "mass": own.mass * (1.0 + share),
            "rotors.k_thrust": rotor.k_thrust * (1.0 - share),
            "rotors.k_torque": rotor.k_torque * (1.0 - share),
            "rotors.motor.rise": rotor.motor.rise * (1.0 + share),
            "rotors.motor.fall": rotor.motor.fall * (1.0 + share),
        }
    )
    return replace(changed, structure=replace(changed.structure, name="refit"))


def test_the_error_of_hover_falls_by_seven_tenths(tmp_path: Path) -> None:
    found = adapt(trained(), off(), tmp_path / "adapted")
    assert found.before > 0.02  # [m]: it sinks, with a fifth too little of everything
    assert found.after < 0.3 * found.before
    assert len(found.training.curve) == 60
    own = load_policy(tmp_path / "adapted")
    assert own.vehicle == "refit" and dict(own.evaluation)["method"] == "adapt"


def test_weights_are_those_of_the_folder_and_others_are_one_sentence(tmp_path: Path) -> None:
    weights, activation = policy_weights(trained())
    assert activation == "tanh" and [own.shape for own, _ in weights] == [(32, 22), (32, 32), (4, 32)]
    np.testing.assert_array_equal(weights[0][0], trained().network[0].weights)
    gru = (LayerKind("gru", 8), LayerKind("dense", 4, "tanh"))
    other = save_policy(tmp_path, samara.vehicle("crazyflie"), gru, drawn(gru, 22), task="hover")
    with pytest.raises(ValueError, match="has hidden layers of gru; expected all tanh or all relu"):
        policy_weights(other)
    with pytest.raises(ValueError, match="the policy is for 4 rotors; vehicle 'hexarotor_x' has 6"):
        adapt(trained(), samara.vehicle("hexarotor_x"), tmp_path)
