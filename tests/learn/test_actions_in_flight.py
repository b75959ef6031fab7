"""A policy that flies does what its action meant in its task."""

from pathlib import Path

import numpy as np
import pytest
from support.networks import drawn

import samara
from samara.control.action_space import ACTION_SPACES
from samara.control.policy_file import mlp, save_policy
from samara.control.registry import controller_named
from samara.core.algebra import ZERO, Vec3, quat_from_euler
from samara.learn.task import Craft, craft_for
from samara.physics.types import Reference, State


@pytest.fixture(scope="module")
def craft() -> Craft:
    return craft_for("crazyflie")


def state_near(craft: Craft, p_W: Vec3) -> State:
    return craft.trim._replace(
        p_W=p_W, v_W=Vec3(0.3, -0.2, 0.1), q_WB=quat_from_euler(0.2, -0.1, 0.4), omega_B=Vec3(1.0, -2.0, 0.5)
    )


@pytest.mark.parametrize("kind", ACTION_SPACES)
def test_it_does_what_its_action_meant(kind: str, craft: Craft, tmp_path: Path) -> None:
    vehicle, wanted = samara.vehicle("crazyflie"), np.array([0.2, -0.1, 0.15, 0.05])
    layers = mlp((), 4, last="linear")
    tensors = {**drawn(layers, 22), "0.weight": np.zeros((4, 22)), "0.bias": wanted}
    save_policy(tmp_path, vehicle, layers, tensors, task="hover", action=kind)
    own = controller_named("policy", vehicle, file=tmp_path)
    state = state_near(craft, ZERO)._replace(effects=samara.hover(vehicle)[0].effects)
    command, _ = own.call(state, Reference(ZERO), vehicle, own.memory)
    action = tuple(float(x) for x in np.float32(wanted))
    np.testing.assert_allclose(
        command, ACTION_SPACES[kind].command(action, state, craft.nominal, craft.command), rtol=1e-12
    )
