"""A policy in flight commands what its action means in its task."""

from pathlib import Path

import numpy as np
import pytest
from support.networks import random_tensors

import samara
from samara.control.action_space import ACTION_SPACES
from samara.control.policy_file import mlp_layers, save_policy
from samara.control.registry import create_controller
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.learn.task import TrimmedDrone, trim_drone
from samara.physics.types import Reference, State


@pytest.fixture(scope="module")
def drone() -> TrimmedDrone:
    return trim_drone("crazyflie")


def state_near(drone: TrimmedDrone, p_W: Vec3) -> State:
    return drone.trim._replace(
        p_W=p_W, v_W=Vec3(0.3, -0.2, 0.1), q_WB=quat_from_euler(0.2, -0.1, 0.4), omega_B=Vec3(1.0, -2.0, 0.5)
    )


@pytest.mark.parametrize("action_space", ACTION_SPACES)
def test_it_does_what_its_action_meant(action_space: str, drone: TrimmedDrone, tmp_path: Path) -> None:
    vehicle, desired_action = samara.vehicle("crazyflie"), np.array([0.2, -0.1, 0.15, 0.05])
    layers = mlp_layers((), 4, last="linear")
    tensors = {**random_tensors(layers, 22), "0.weight": np.zeros((4, 22)), "0.bias": desired_action}
    save_policy(tmp_path, vehicle, layers, tensors, task="hover", action=action_space)
    controller = create_controller("policy", vehicle, file=tmp_path)
    state = state_near(drone, ZERO)._replace(effects=samara.hover(vehicle)[0].effects)
    command, _ = controller.call(state, Reference(ZERO), vehicle, controller.initial_state)
    action = tuple(float(x) for x in np.float32(desired_action))
    np.testing.assert_allclose(
        command, ACTION_SPACES[action_space].command(action, state, drone.nominal, drone.command), rtol=1e-12
    )
