"""Rotors that tilt: a servo with lag, rate and limits, the trim of a tricopter, and angular momentum while a rotor swings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.tricopter import ARM, LEVER, SERVO, tricopter

import samara
from samara.core.algebra import Vec3, euler_from_quat, quat_from_axis_angle, rotate
from samara.core.integrate import rk4
from samara.core.tree import flatten, unflatten
from samara.link.registry import open_link
from samara.physics.multirotor import (
    derivative,
    replace_tilt_angles,
    state_at_rest,
    steady_command,
    tilt_angles,
    tilt_rotors,
    wrench_breakdown,
)
from samara.physics.rotors.rotor import rotor_angular_momentum
from samara.physics.rotors.tilt import servo_command, servo_target, tilted_axis
from samara.physics.types import CALM, Reference
from samara.plan.flatness import flat_to_state
from samara.scenario.autopilot import Autopilot
from samara.vehicles.check import VehicleError
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.plausibility import controllable_axes
from samara.vehicles.trim import effectiveness, hover, thrusts_and_angles
from samara.vehicles.writer import vehicle_toml

TRI = tricopter()
UP = Vec3(0.0, 0.0, 1.0)


def servo_angle(seconds, command, *, start=0.0, vehicle=TRI, dt=1e-3):
    state, trimmed = hover(vehicle)
    state = replace_tilt_angles(state, (start,), vehicle)
    for _ in range(round(seconds / dt)):
        state = samara.step(state, (*trimmed[:3], command), vehicle, dt)
    return tilt_angles(state, vehicle)[0]


# The servo -------------------------------------------------------------------------------------------------------------


def test_a_small_step_is_followed_with_a_lag():
    """δ(t) = δ₁ (1 − e^{−t/τ}) as long as δ₁/τ is below the rate."""
    desired = 0.5 * SERVO.rate * SERVO.lag
    actual = servo_angle(0.05, servo_command(desired, SERVO))
    assert actual == pytest.approx(desired * (1.0 - math.exp(-0.05 / SERVO.lag)), rel=1e-6)


def test_a_large_step_goes_at_its_rate_and_ends_at_the_limit():
    """δ = rate t at first; finally the limit, for every larger command."""
    assert servo_angle(0.02, 1.0) == pytest.approx(0.02 * SERVO.rate, rel=1e-9)
    assert servo_angle(0.6, 7.0, dt=1e-2) == pytest.approx(SERVO.high, abs=1e-5)
    assert servo_angle(0.6, -7.0, dt=1e-2) == pytest.approx(SERVO.low, abs=1e-5)


def test_commands_are_of_the_limits_or_radians_where_rotors_take_speeds():
    lopsided = SERVO._replace(low=-0.2)
    assert [servo_target(u, lopsided) for u in (-1.0, 0.0, 1.0, 3.0)] == pytest.approx([-0.2, 0.2, 0.6, 0.6])
    assert servo_command(servo_target(0.3, lopsided), lopsided) == pytest.approx(0.3, rel=1e-12)
    by_speed = tricopter("speed")
    assert servo_angle(0.6, 0.25, vehicle=by_speed, dt=1e-2) == pytest.approx(0.25, abs=1e-5)
    assert TRI.command_size == 4 and TRI.servos == (2,)


# The tilted rotor ------------------------------------------------------------------------------------------------------


def test_the_axis_turns_right_handed_about_the_hinge():
    for angle in (-0.5, 0.0, 0.3):
        q = quat_from_axis_angle(SERVO.hinge_B, angle)
        assert tilted_axis(UP, SERVO.hinge_B, angle) == pytest.approx(rotate(q, UP), abs=1e-15)


def test_a_tilted_rotor_is_one_that_was_built_so():
    """With all air effects: every force and torque is that of a vehicle without a servo whose axis is the tilted one."""
    air = {
        "rotor_air": {"solidity": 0.11, "model": "momentum"},
        "airspeed_moment": {"roll": 0.1, "pitch": 0.1},
    }
    vehicle = tricopter(effects=air)
    state, command = hover(vehicle)
    angle = 0.35
    state = replace_tilt_angles(state, (angle,), vehicle)._replace(
        v_W=Vec3(3.0, -1.0, 0.5), omega_B=Vec3(0.4, -0.2, 0.7)
    )
    still = (*command[:3], servo_command(angle, SERVO))
    tail = vehicle.rotors[2]._replace(axis_B=tilted_axis(UP, SERVO.hinge_B, angle), servo=())
    built = replace(vehicle.without_effect("tilt"), rotors=(*vehicle.rotors[:2], tail))
    index = vehicle.index("tilt")
    bare = state._replace(effects=(*state.effects[:index], *state.effects[index + 1 :]))
    expected = derivative(bare, command[:3], built)
    actual = derivative(state, still, vehicle)
    assert flatten(actual._replace(effects=())) == pytest.approx(flatten(expected._replace(effects=())), rel=1e-12)


def test_angular_momentum_is_kept_while_a_spinning_rotor_swings():
    """In a vacuum, R (Jω + Σ s J Ω a) is constant, to RK4's error, while the servo turns the rotor at its full rate."""
    vacuum = CALM._replace(air_density=0.0)
    body = TRI.replace({"gravity.acceleration": 1e-9})
    state = state_at_rest(body)._replace(rotor_speed=(500.0, 600.0, 700.0), omega_B=Vec3(0.3, -0.2, 0.5))

    def momentum(state):
        h_B = body.inertia_B @ state.omega_B
        for speed, rotor in zip(state.rotor_speed, tilt_rotors(state, body).rotors, strict=True):
            h_B = h_B + rotor_angular_momentum(speed, rotor)
        return np.array(rotate(state.q_WB, h_B))

    before, command = momentum(state), (0.2, 0.9, 0.4, 1.0)
    for k in range(600):
        state = rk4(lambda x, u=command: derivative(x, u, body, vacuum), state, 2.5e-4)
        if k == 250:
            command = (0.5, 0.5, 0.5, -1.0)
    assert momentum(state) == pytest.approx(before, abs=1e-9 * np.linalg.norm(before))
    assert tilt_angles(state, body)[0] < 0.0


def test_the_reaction_of_tilting_is_not_small():
    """s J Ω δ̇ = 5e-5 · 512 · 8 = 0.2 N·m: a tenth of the roll torque that the vehicle has."""
    state, command = hover(TRI)
    torque = wrench_breakdown(replace_tilt_angles(state, (0.0,), TRI), (*command[:3], 1.0), TRI)["tilt"].tau_B
    assert abs(torque.y) == pytest.approx(5e-5 * state.rotor_speed[2] * SERVO.rate, rel=1e-9)
    assert abs(torque.x) + abs(torque.z) < 1e-15  # about h × a: a roll of the tail kicks the pitch


# The trim --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actuation", ["normalized", "speed"])
def test_a_tricopter_hovers_with_its_tail_tilted_against_the_odd_torque(actuation):
    """T L sin δ = κ T cos δ: tan δ = κ/L. It tilts sideways: m g sin φ = −T sin δ; and all rates vanish."""
    vehicle = tricopter(actuation)
    state, command = hover(vehicle)
    angle = tilt_angles(state, vehicle)[0]
    assert math.tan(angle) == pytest.approx(LEVER / ARM, rel=1e-9)
    roll, pitch, yaw = euler_from_quat(state.q_WB)
    tail = vehicle.rotors[2].k_thrust * state.rotor_speed[2] ** 2
    assert 1.2 * 9.80665 * math.sin(roll) == pytest.approx(tail * -math.sin(angle), abs=1e-9)
    assert abs(pitch) < 1e-9 and abs(yaw) < 1e-12
    rate = derivative(state, command, vehicle)
    assert np.abs(np.array(flatten(rate), dtype=float)).max() < 1e-9


def test_the_lift_of_all_parts_is_the_weight():
    """f = √(f_z² + f_y²) of the tilted body: Σ T_a = m g cos φ, T sin δ = m g |sin φ|."""
    state, _ = hover(TRI)
    thrusts = [rotor.k_thrust * speed**2 for rotor, speed in zip(TRI.rotors, state.rotor_speed, strict=True)]
    angle, (roll, _, _) = tilt_angles(state, TRI)[0], euler_from_quat(state.q_WB)
    up, side = thrusts[0] + thrusts[1] + thrusts[2] * math.cos(angle), thrusts[2] * math.sin(angle)
    assert math.hypot(up, side) == pytest.approx(1.2 * 9.80665, rel=1e-9)
    assert abs(math.tan(roll)) == pytest.approx(side / up, rel=1e-9)


def test_force_and_torque_are_linear_in_what_a_rotor_pushes_along_and_across_its_axis():
    """B (T cos δ, T sin δ) is the wrench at any tilt, not only a small one."""
    rng = np.random.default_rng(2)
    for _ in range(5):
        parts = [*rng.uniform(1.0, 5.0, 3), float(rng.uniform(-2.0, 2.0))]
        thrusts, angles = thrusts_and_angles(parts, TRI)
        speeds = tuple(math.sqrt(t / rotor.k_thrust) for t, rotor in zip(thrusts, TRI.rotors, strict=True))
        state = replace_tilt_angles(state_at_rest(TRI)._replace(rotor_speed=speeds), angles, TRI)
        push = wrench_breakdown(state, steady_command(state, TRI), TRI)["rotors"]
        assert effectiveness(TRI) @ parts == pytest.approx([*push.f_B, *push.tau_B], rel=1e-12, abs=1e-12)


def test_a_servo_that_does_not_reach_far_enough_is_named():
    with pytest.raises(ValueError, match=r"rotor 2 would have to tilt to 0.06391 rad, which its servo, \[-0.6, 0.05\]"):
        hover(tricopter(servo=SERVO._replace(high=0.05)))


def test_its_four_axes_are_free_and_without_the_servo_they_are_not():
    assert controllable_axes(TRI) == (4, ("thrust", "roll", "pitch", "yaw"))
    fixed = replace(TRI.without_effect("tilt"), rotors=tuple(rotor._replace(servo=()) for rotor in TRI.rotors))
    assert controllable_axes(fixed)[0] == 3


# Files and errors ------------------------------------------------------------------------------------------------------


def test_a_file_says_it_and_is_read_to_the_same_vehicle():
    text = vehicle_toml(TRI)
    assert "[rotors.servo]" in text and parse_vehicle(text, "tricopter") == TRI


@pytest.mark.parametrize(
    ("servo", "message"),
    [
        (
            SERVO._replace(hinge_B=UP),
            r"rotors\[2\].servo.hinge_B = .*: expected a hinge perpendicular to the rotor's axis",
        ),
        (SERVO._replace(hinge_B=Vec3(2.0, 0.0, 0.0)), r"servo.hinge_B = .*: expected a unit vector"),
        (SERVO._replace(low=0.7), r"servo limits \[0.7, 0.6\] rad: expected low < high, within ±1.4 rad"),
        (SERVO._replace(rate=0.0), r"servo.rate = 0.0 rad/s: expected a positive number"),
        ("fast", r"rotors\[2\].servo is a str: expected a Servo"),
    ],
)
def test_what_no_servo_can_be_is_one_sentence(servo, message):
    with pytest.raises(VehicleError, match=message):
        tricopter(servo=servo)


def test_what_cannot_carry_a_servo_says_so():
    with pytest.raises(ValueError, match="'tricopter' has 1 servos that tilt rotors; a link to px4 drives motors only"):
        open_link(Autopilot("px4"), TRI, print)
    with pytest.raises(ValueError, match="'tricopter' is not flat: effect 'tilt' has a state"):
        flat_to_state(Reference(Vec3(0.0, 0.0, 1.0)), TRI)
    with pytest.raises(ValueError, match=r"command has 3 numbers; vehicle 'tricopter' .* takes 4"):
        samara.step(hover(TRI)[0], (0.5, 0.5, 0.5), TRI, 1e-3)


# Every backend ---------------------------------------------------------------------------------------------------------


def swinging():
    state, command = hover(TRI)
    state = replace_tilt_angles(state, (0.2,), TRI)
    return state._replace(omega_B=Vec3(0.5, -0.3, 0.2), v_W=Vec3(1.0, -2.0, 0.5)), (*command[:3], -0.7)


@pytest.mark.parametrize("backend", ["llvm", "jax"])
def test_compiled_steps_are_those_of_python(backend):
    state, command = swinging()
    expected = state
    for _ in range(5):
        expected = samara.step(expected, command, TRI, 1e-3)
    actual = samara.compile(TRI, backend=backend).step(state, command, 1e-3, steps=5)
    a, b = (np.array([np.atleast_1d(x) for x in flatten(state)], dtype=float).ravel() for state in (expected, actual))
    assert (np.abs(a - b) / np.maximum(1.0, np.abs(a))).max() <= 1e-12


def test_the_exact_slopes_are_those_of_differences():
    """CasADi's derivative of a step by the servo's angle and by its command."""
    state, command = swinging()
    a, b = samara.compile(TRI, backend="llvm").linearize(state, command, 1e-2)
    x, u = np.array(flatten(state), dtype=float), np.array(command)

    def step_result(x, u):
        return np.array(flatten(samara.step(unflatten(state, iter(map(float, x))), tuple(u), TRI, 1e-2)), dtype=float)

    h = 1e-6
    for slopes, at in ((a[:, -1], len(x) - 1),):
        nudge = np.eye(len(x))[at] * h
        assert slopes == pytest.approx((step_result(x + nudge, u) - step_result(x - nudge, u)) / (2 * h), abs=1e-6)
    nudge = np.eye(4)[3] * h
    assert b[:, 3] == pytest.approx((step_result(x, u + nudge) - step_result(x, u - nudge)) / (2 * h), abs=1e-6)
