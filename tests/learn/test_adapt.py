"""Fine-tuning for a vehicle that differs from the one in training: the policy hovers as well as before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.networks import random_tensors
from support.trained_policies import trained_policy

import samara
from samara.control.policy_file import LayerSpec, load_policy, save_policy
from samara.learn.fine_tune import adapt
from samara.learn.policies import policy_weights
from samara.physics.types import Vehicle


def refit_vehicle(fraction: float = 0.2) -> Vehicle:
    """Return a Crazyflie that is heavier, weaker and slower by a fifth."""
    original = samara.vehicle("crazyflie")
    rotor = original.rotors[0]
    changed = original.replace(
        {
            "mass": original.mass * (1.0 + fraction),
            "rotors.k_thrust": rotor.k_thrust * (1.0 - fraction),
            "rotors.k_torque": rotor.k_torque * (1.0 - fraction),
            "rotors.motor.time_constant_up": rotor.motor.time_constant_up * (1.0 + fraction),
            "rotors.motor.time_constant_down": rotor.motor.time_constant_down * (1.0 + fraction),
        }
    )
    return replace(changed, structure=replace(changed.structure, name="refit"))


def test_the_error_of_hover_falls_by_seven_tenths(tmp_path: Path) -> None:
    result = adapt(trained_policy(), refit_vehicle(), tmp_path / "adapted")
    assert result.error_before > 0.02  # [m]: it sinks, because all parameters are a fifth worse
    assert result.error_after < 0.3 * result.error_before
    assert len(result.training.curve) == 60
    adapted_policy = load_policy(tmp_path / "adapted")
    assert adapted_policy.vehicle == "refit" and dict(adapted_policy.evaluation)["method"] == "adapt"


def test_weights_are_those_of_the_folder_and_others_are_one_sentence(tmp_path: Path) -> None:
    weights, activation = policy_weights(trained_policy())
    assert activation == "tanh" and [matrix.shape for matrix, _ in weights] == [(32, 22), (32, 32), (4, 32)]
    np.testing.assert_array_equal(weights[0][0], trained_policy().network[0].weights)
    gru = (LayerSpec("gru", 8), LayerSpec("dense", 4, "tanh"))
    other = save_policy(tmp_path, samara.vehicle("crazyflie"), gru, random_tensors(gru, 22), task="hover")
    with pytest.raises(ValueError, match="has hidden layers of gru; expected all tanh or all relu"):
        policy_weights(other)
    with pytest.raises(ValueError, match="the policy is for 4 rotors; vehicle 'hexarotor_x' has 6"):
        adapt(trained_policy(), samara.vehicle("hexarotor_x"), tmp_path)
