"""What a policy's action means in flight, kind by kind, and the scale of what it is shown."""

import math

import numpy as np
import pytest

import samara
from samara.control.action_space import (
    loops_for,
    thrust_and_attitude_command,
    thrust_and_rates_command,
    velocity_command,
)
from samara.control.depth_observation import BLOCKS
from samara.control.observation import OBSERVATIONS, Seen
from samara.control.policy import act, policy_controller
from samara.control.policy_file import LayerKind, save_policy, trim_of
from samara.control.registry import controller_named
from samara.core.algebra import Vec3, quat_from_euler, rotate
from samara.physics.types import Reference

VEHICLE = samara.vehicle("crazyflie")
HOVER, COMMAND = samara.hover(VEHICLE)
ACTION = (0.0, 0.25, -0.4, 0.3)


def flown(folder, kind, action, state, reference=Reference(Vec3(0.0, 0.0, 0.0))):  # noqa: B008
    """The command of a policy whose action is always the same"""
    layers = (LayerKind("dense", 4, "linear"),)
    tensors = {"0.weight": np.zeros((4, 22)), "0.bias": np.array(action)}
    policy = save_policy(folder, VEHICLE, layers, tensors, task="hover", action=kind)
    own = controller_named("policy", VEHICLE, period=0.01, file=policy)
    return own.call(state, reference, VEHICLE, own.memory)[0]


@pytest.mark.parametrize(
    ("kind", "command"),
    [("thrust_and_rates", thrust_and_rates_command), ("thrust_and_attitude", thrust_and_attitude_command)],
)
def test_an_action_is_flown_as_the_kind_that_it_is(tmp_path, kind, command):
    """Each kind by its own equation; of the same numbers every kind makes another command"""
    loops, turning = loops_for(VEHICLE), HOVER._replace(omega_B=Vec3(0.3, -0.2, 0.1))
    found = flown(tmp_path, kind, ACTION, turning)
    assert found == pytest.approx(command(ACTION, turning, VEHICLE, loops), rel=1e-6)
    others = (thrust_and_rates_command, thrust_and_attitude_command, velocity_command)
    assert sum(found == pytest.approx(own(ACTION, turning, VEHICLE, loops), rel=1e-3) for own in others) == 1


def test_a_velocity_is_relative_to_that_of_the_reference_and_in_its_heading(tmp_path):
    """v = v_ref + R_z(ψ) a 5 m/s: an action of 0 flies along with a reference that moves"""
    reference = Reference(Vec3(0.0, 0.0, 1.0), Vec3(1.0, -0.5, 0.2), yaw=0.7)
    for action in ((0.0, 0.0, 0.0, 0.0), (0.1, -0.2, 0.05, 0.3)):
        v_W = np.array(reference.v_W) + np.array(rotate(quat_from_euler(0.0, 0.0, 0.7), Vec3(*action[:3]))) * 5.0
        expected = velocity_command((*(v_W / 5.0), action[3]), HOVER, VEHICLE, loops_for(VEHICLE))
        assert flown(tmp_path, "velocity", action, HOVER, reference) == pytest.approx(expected, rel=1e-6)


def test_one_that_looks_sees_its_own_velocity_and_not_that_of_the_reference(tmp_path):
    """It finds its own way: where the reference is counts, how fast it moves does not"""
    inputs, layers = 18 + BLOCKS, (LayerKind("dense", 4, "linear"),)
    weight = np.zeros((4, inputs))
    weight[1:, 3:6] = 0.1 * np.eye(3)  # the velocity that it is shown becomes its action
    weight[0, 0] = 0.1
    tensors = {"0.weight": weight, "0.bias": np.zeros(4)}
    policy = save_policy(
        tmp_path, VEHICLE, layers, tensors, task="navigate", observation="depth", action="thrust_and_rates"
    )
    own = policy_controller(policy, VEHICLE, 0.01)
    moving = HOVER._replace(v_W=Vec3(1.0, 2.0, 3.0))
    references = [Reference(Vec3(0.5, 0.0, 0.0), v_W) for v_W in (Vec3(0.0, 0.0, 0.0), Vec3(3.0, -2.0, 1.0))]
    after = [own(moving, reference, VEHICLE, own.initial_memory)[1].action for reference in references]
    assert after[0] == after[1] == pytest.approx((-0.05, 0.1, 0.2, 0.3), rel=1e-6)
    shown = [act(policy, moving, reference, own.initial_memory, (0.1,) * BLOCKS)[0] for reference in references]
    assert shown[0] == after[0] and shown[1] != after[1]  # others do see it


@pytest.mark.parametrize(
    ("observation", "inputs", "action", "limited"),
    [
        ("depth", 18 + BLOCKS, "thrust_and_rates", True),
        ("full_state", 22, "throttle", True),
        ("full_state", 22, "thrust_and_rates", False),
    ],
)
def test_a_linear_last_layer_is_limited_for_cameras_and_throttles(tmp_path, observation, inputs, action, limited):
    """a = clamp(W o + b, ±1) there; elsewhere the output of the network is the action."""
    bias = np.array([0.25, 3.0, -2.0, 1.5])
    tensors = {"0.weight": np.zeros((4, inputs)), "0.bias": bias}
    layers = (LayerKind("dense", 4, "linear"),)
    policy = save_policy(tmp_path, VEHICLE, layers, tensors, task="t", observation=observation, action=action)
    memory = policy_controller(policy, VEHICLE, 0.01).initial_memory
    ahead = (0.1,) * BLOCKS if observation == "depth" else ()
    output, _ = act(policy, HOVER, Reference(Vec3(0.0, 0.0, 0.0)), memory, ahead)
    assert output == pytest.approx(np.clip(bias, -1.0, 1.0) if limited else bias)


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
def test_an_ordinary_turn_is_seen_as_1(name, first, scale):
    """ω / 5 rad/s, and ω itself in what other firmware shows its networks"""
    turning = HOVER._replace(omega_B=Vec3(5.0, -2.5, 10.0))
    seen = Seen(turning, (0.0,) * 4, trim_of(VEHICLE).hover_speed)
    observed = OBSERVATIONS[name].of(seen)[first : first + 3]
    assert observed == pytest.approx([5.0 / scale, -2.5 / scale, 10.0 / scale])


def test_acceleration_and_jerk_of_a_reference_are_seen_in_ordinary_sizes():
    """a / 5 m/s² and j / 25 m/s³, and rotor speeds beside those of hover"""
    speeds = tuple(1.1 * own for own in trim_of(VEHICLE).hover_speed)
    seen = Seen(
        HOVER._replace(rotor_speed=speeds),
        (0.0,) * 4,
        trim_of(VEHICLE).hover_speed,
        Vec3(5.0, 10.0, -2.5),
        Vec3(25.0, -50.0, 5.0),
    )
    observed = OBSERVATIONS["tracking"].of(seen)
    assert observed[18:] == pytest.approx([0.1] * 4 + [1.0, 2.0, -0.5, 1.0, -2.0, 0.2])
    assert math.isfinite(sum(observed))
