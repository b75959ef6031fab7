"""Action spaces of policies in flight, and the scaling of observations."""

import math

import numpy as np
import pytest

import samara
from samara.control.action_space import (
    autopilot_loops,
    thrust_and_attitude_command,
    thrust_and_rates_command,
    velocity_command,
)
from samara.control.depth_observation import BLOCK_COUNT
from samara.control.observation import OBSERVATIONS, ObservedState
from samara.control.policy import compute_action, policy_controller
from samara.control.policy_file import LayerSpec, policy_trim, save_policy
from samara.control.registry import create_controller
from samara.core.algebra import Vec3, quat_from_euler, rotate
from samara.physics.types import Reference

VEHICLE = samara.vehicle("crazyflie")
HOVER, COMMAND = samara.hover(VEHICLE)
ACTION = (0.0, 0.25, -0.4, 0.3)


def constant_action_command(folder, action_space, action, state, reference=Reference(Vec3(0.0, 0.0, 0.0))):  # noqa: B008
    """Return the command of a policy with a constant action."""
    layers = (LayerSpec("dense", 4, "linear"),)
    tensors = {"0.weight": np.zeros((4, 22)), "0.bias": np.array(action)}
    policy = save_policy(folder, VEHICLE, layers, tensors, task="hover", action=action_space)
    controller = create_controller("policy", VEHICLE, period=0.01, file=policy)
    return controller.call(state, reference, VEHICLE, controller.initial_state)[0]


@pytest.mark.parametrize(
    ("action_space", "command"),
    [("thrust_and_rates", thrust_and_rates_command), ("thrust_and_attitude", thrust_and_attitude_command)],
)
def test_an_action_is_converted_by_its_action_space(tmp_path, action_space, command):
    """Each action space has its equation; the same action gives different commands in each"""
    loops, rotating = autopilot_loops(VEHICLE), HOVER._replace(omega_B=Vec3(0.3, -0.2, 0.1))
    result = constant_action_command(tmp_path, action_space, ACTION, rotating)
    assert result == pytest.approx(command(ACTION, rotating, VEHICLE, loops), rel=1e-6)
    conversions = (thrust_and_rates_command, thrust_and_attitude_command, velocity_command)
    assert (
        sum(
            result == pytest.approx(conversion(ACTION, rotating, VEHICLE, loops), rel=1e-3)
            for conversion in conversions
        )
        == 1
    )


def test_a_velocity_is_relative_to_that_of_the_reference_and_in_its_heading(tmp_path):
    """v = v_ref + R_z(ψ) a 5 m/s: an action of 0 follows a moving reference"""
    reference = Reference(Vec3(0.0, 0.0, 1.0), Vec3(1.0, -0.5, 0.2), yaw=0.7)
    for action in ((0.0, 0.0, 0.0, 0.0), (0.1, -0.2, 0.05, 0.3)):
        v_W = np.array(reference.v_W) + np.array(rotate(quat_from_euler(0.0, 0.0, 0.7), Vec3(*action[:3]))) * 5.0
        expected = velocity_command((*(v_W / 5.0), action[3]), HOVER, VEHICLE, autopilot_loops(VEHICLE))
        assert constant_action_command(tmp_path, "velocity", action, HOVER, reference) == pytest.approx(
            expected, rel=1e-6
        )


def test_a_policy_with_a_camera_ignores_the_velocity_of_the_reference(tmp_path):
    """It finds its path: the position of the reference matters, its velocity does not"""
    inputs, layers = 18 + BLOCK_COUNT, (LayerSpec("dense", 4, "linear"),)
    weight = np.zeros((4, inputs))
    weight[1:, 3:6] = 0.1 * np.eye(3)  # the observed velocity becomes its action
    weight[0, 0] = 0.1
    tensors = {"0.weight": weight, "0.bias": np.zeros(4)}
    policy = save_policy(
        tmp_path, VEHICLE, layers, tensors, task="navigate", observation="depth", action="thrust_and_rates"
    )
    controller = policy_controller(policy, VEHICLE, 0.01)
    moving = HOVER._replace(v_W=Vec3(1.0, 2.0, 3.0))
    references = [Reference(Vec3(0.5, 0.0, 0.0), v_W) for v_W in (Vec3(0.0, 0.0, 0.0), Vec3(3.0, -2.0, 1.0))]
    actions = [controller(moving, reference, VEHICLE, controller.initial_state)[1].action for reference in references]
    assert actions[0] == actions[1] == pytest.approx((-0.05, 0.1, 0.2, 0.3), rel=1e-6)
    unmasked_actions = [
        compute_action(policy, moving, reference, controller.initial_state, (0.1,) * BLOCK_COUNT)[0]
        for reference in references
    ]
    assert unmasked_actions[0] == actions[0] and unmasked_actions[1] != actions[1]  # other policies observe it


@pytest.mark.parametrize(
    ("observation", "inputs", "action"),
    [
        ("depth", 18 + BLOCK_COUNT, "thrust_and_rates"),
        ("full_state", 22, "throttle"),
        ("full_state", 22, "rotors"),
    ],
)
def test_actions_of_a_linear_last_layer_are_limited(tmp_path, observation, inputs, action):
    """a = clamp(W o + b, ±1), as environments clip the actions of a trainer."""
    bias = np.array([0.25, 3.0, -2.0, 1.5])
    tensors = {"0.weight": np.zeros((4, inputs)), "0.bias": bias}
    layers = (LayerSpec("dense", 4, "linear"),)
    policy = save_policy(tmp_path, VEHICLE, layers, tensors, task="t", observation=observation, action=action)
    controller_state = policy_controller(policy, VEHICLE, 0.01).initial_state
    ahead = (0.1,) * BLOCK_COUNT if observation == "depth" else ()
    output, _ = compute_action(policy, HOVER, Reference(Vec3(0.0, 0.0, 0.0)), controller_state, ahead)
    assert output == pytest.approx(np.clip(bias, -1.0, 1.0))


@pytest.mark.parametrize(
    ("name", "first", "scale"),
    [
        ("full_state", 15, 5.0),
        ("tracking", 15, 5.0),
        ("race", 15, 5.0),
        ("depth", 15, 5.0),
        ("raptor", 15, 1.0),
        ("px4_nn", 12, 1.0),
    ],
)
def test_an_ordinary_rate_is_observed_as_1(name, first, scale):
    """ω / 5 rad/s, and ω in the observations of other firmware"""
    rotating = HOVER._replace(omega_B=Vec3(5.0, -2.5, 10.0))
    observed_state = ObservedState(rotating, (0.0,) * 4, policy_trim(VEHICLE).hover_speed)
    observed = OBSERVATIONS[name].compute(observed_state)[first : first + 3]
    assert observed == pytest.approx([5.0 / scale, -2.5 / scale, 10.0 / scale])


def test_acceleration_and_jerk_of_a_reference_are_scaled():
    """a / 5 m/s² and j / 25 m/s³, and rotor speeds relative to hover"""
    speeds = tuple(1.1 * speed for speed in policy_trim(VEHICLE).hover_speed)
    observed_state = ObservedState(
        HOVER._replace(rotor_speed=speeds),
        (0.0,) * 4,
        policy_trim(VEHICLE).hover_speed,
        Vec3(5.0, 10.0, -2.5),
        Vec3(25.0, -50.0, 5.0),
    )
    observed = OBSERVATIONS["tracking"].compute(observed_state)
    assert observed[18:] == pytest.approx([0.1] * 4 + [1.0, 2.0, -0.5, 1.0, -2.0, 0.2])
    assert math.isfinite(sum(observed))
