"""Stick modes: the vehicle follows rates, angles and velocities, and holds its position in wind."""

import math

import pytest
from support.casadi_function import casadi_function

import samara
from samara.control.allocation import build_allocation, command_for_wrench
from samara.control.stick_modes import Sticks, stick_pilot, thrust_fraction
from samara.core.algebra import Vec3, dot, euler_from_quat, norm, rotate
from samara.physics.multirotor import complete_environment
from samara.physics.types import CALM

CENTRE = Sticks(0.0, 0.0, 0.0, 0.0)


def fly_sticks(name, mode, seconds, sticks, environment=CALM, healthy=None):
    """Return the state after a time from hover at 5 m; `sticks` are constant, or a function of time."""
    vehicle = samara.vehicle(name)
    pilot, simulator = stick_pilot(vehicle, mode), samara.compile(vehicle)
    allocation = build_allocation(vehicle, healthy)
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 5.0))
    pilot_state = pilot.initial_state(state)

    def control(state, sticks, pilot_state):
        desired, pilot_state = pilot.desired_wrench(state, sticks, vehicle, pilot_state)
        return command_for_wrench(desired.collective_thrust, desired.tau_B, state, vehicle, allocation), pilot_state

    traced = casadi_function(control, state, CENTRE, pilot_state)
    for i in range(round(seconds / pilot.period)):
        current_sticks = sticks(i * pilot.period) if callable(sticks) else sticks
        command, pilot_state = traced(state, current_sticks, pilot_state)
        state = simulator.step(state, command, 1e-3, 4, environment)
    return state, pilot


def test_rate_mode_follows_the_sticks():
    """Right, forward and clockwise: +x, +y and −z of FLU."""
    state, pilot = fly_sticks("hexarotor_x", "rate", 0.35, Sticks(0.2, 0.1, 0.3, 0.0))
    desired = Vec3(0.2 * pilot.limits.rate.x, 0.1 * pilot.limits.rate.y, -0.3 * pilot.limits.rate.z)
    assert norm(state.omega_B - desired) < 0.25 * norm(desired)
    assert all(actual * expected > 0.0 for actual, expected in zip(state.omega_B, desired, strict=True))


def test_angle_mode_tilts_and_levels():
    state, pilot = fly_sticks("iris", "angle", 1.5, Sticks(0.0, 1.0, 0.0, 0.0))
    up_W = rotate(state.q_WB, Vec3(0.0, 0.0, 1.0))
    assert math.acos(up_W.z) == pytest.approx(pilot.limits.tilt, abs=0.02) and up_W.x > 0.0
    state, _ = fly_sticks("iris", "angle", 1.0, CENTRE)
    assert rotate(state.q_WB, Vec3(0.0, 0.0, 1.0)).z > 0.9999


def test_hold_mode_flies_relative_to_the_nose():
    """After a quarter turn to the right, forward is −y; at full deflection the speed is that of the limits."""
    rate = stick_pilot(samara.vehicle("iris")).limits.rate.z

    def sticks(time):
        return Sticks(0.0, 0.0 if time < 2.5 else 1.0, 0.5 if time < math.pi / rate else 0.0, 0.0)

    state, pilot = fly_sticks("iris", "hold", 5.5, sticks)
    assert euler_from_quat(state.q_WB).yaw == pytest.approx(-math.pi / 2, abs=0.03)
    assert state.v_W.y == pytest.approx(-pilot.limits.speed, rel=0.05) and abs(state.v_W.x) < 0.1
    assert state.p_W.z == pytest.approx(5.0, abs=0.1)


def test_the_position_is_held_in_wind():
    state, _ = fly_sticks("iris", "hold", 6.0, CENTRE, CALM._replace(wind_W=Vec3(1.0, -0.5, 0.0)))
    assert norm(state.p_W - Vec3(0.0, 0.0, 5.0)) < 0.05


def test_a_hexarotor_holds_its_place_on_five_motors():
    environment = complete_environment(samara.vehicle("hexarotor_x"))._replace(
        motor_effectiveness=(1.0, 0.0, 1.0, 1.0, 1.0, 1.0)
    )
    state, _ = fly_sticks("hexarotor_x", "hold", 6.0, CENTRE, environment, [True, False, True, True, True, True])
    assert norm(state.p_W - Vec3(0.0, 0.0, 5.0)) < 0.2
    assert dot(rotate(state.q_WB, Vec3(0.0, 0.0, 1.0)), Vec3(0.0, 0.0, 1.0)) > 0.99


def test_the_middle_of_the_throttle_is_the_weight():
    limits = stick_pilot(samara.vehicle("iris")).limits
    fractions = [float(thrust_fraction(throttle, limits)) for throttle in (-1.0, 0.0, 1.0)]
    assert fractions == pytest.approx([limits.min_thrust, 1.0, limits.max_thrust])


def test_an_unknown_mode_is_rejected():
    with pytest.raises(ValueError, match="mode 'acro': expected one of rate, angle, hold"):
        stick_pilot(samara.vehicle("iris"), "acro")
    with pytest.raises(ValueError, match="period = 0"):
        stick_pilot(samara.vehicle("iris"), period=0.0)
