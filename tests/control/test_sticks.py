"""What sticks ask for is what the craft does: rates, angles, velocities, and a place that is held in wind."""

import math

import pytest

import samara
from samara.compiler.trace.symbolic import trace
from samara.control.allocation import allocation_for, command_for_wrench
from samara.control.stick_modes import Sticks, lift_share, stick_pilot
from samara.core.algebra import Vec3, dot, euler_from_quat, norm, rotate
from samara.physics.multirotor import environment_of
from samara.physics.types import CALM

CENTRE = Sticks(0.0, 0.0, 0.0, 0.0)


def flown(name, mode, seconds, sticks, environment=CALM, healthy=None):
    """The state after seconds, from hover at 5 m; `sticks` are held, or a function of time"""
    vehicle = samara.vehicle(name)
    pilot, simulator = stick_pilot(vehicle, mode), samara.compile(vehicle)
    allocation = allocation_for(vehicle, healthy)
    state, _ = samara.hover(vehicle, p_W=(0.0, 0.0, 5.0))
    memory = pilot.initial_memory(state)

    def told(state, sticks, memory):
        asked, memory = pilot.asked(state, sticks, vehicle, memory)
        return command_for_wrench(asked.lift, asked.tau_B, state, vehicle, allocation), memory

    traced = trace(told, state, CENTRE, memory)
    for i in range(round(seconds / pilot.period)):
        now = sticks(i * pilot.period) if callable(sticks) else sticks
        command, memory = traced(state, now, memory)
        state = simulator.step(state, command, 1e-3, 4, environment)
    return state, pilot


def test_sticks_turn_it_as_fast_as_they_say():
    """Right, forward and clockwise: +x, +y and −z of FLU."""
    state, pilot = flown("hexarotor_x", "rate", 0.35, Sticks(0.2, 0.1, 0.3, 0.0))
    wanted = Vec3(0.2 * pilot.limits.rate.x, 0.1 * pilot.limits.rate.y, -0.3 * pilot.limits.rate.z)
    assert norm(state.omega_B - wanted) < 0.25 * norm(wanted)
    assert all(is_ * should_be > 0.0 for is_, should_be in zip(state.omega_B, wanted, strict=True))


def test_sticks_lean_it_and_let_go_it_is_level():
    state, pilot = flown("iris", "angle", 1.5, Sticks(0.0, 1.0, 0.0, 0.0))
    up_W = rotate(state.q_WB, Vec3(0.0, 0.0, 1.0))
    assert math.acos(up_W.z) == pytest.approx(pilot.limits.tilt, abs=0.02) and up_W.x > 0.0
    state, _ = flown("iris", "angle", 1.0, CENTRE)
    assert rotate(state.q_WB, Vec3(0.0, 0.0, 1.0)).z > 0.9999


def test_it_flies_where_the_sticks_point_along_its_nose():
    """Turned a quarter to the right, forward is −y; at the end of the stick it has the speed of the limits."""
    rate = stick_pilot(samara.vehicle("iris")).limits.rate.z

    def sticks(time):
        return Sticks(0.0, 0.0 if time < 2.5 else 1.0, 0.5 if time < math.pi / rate else 0.0, 0.0)

    state, pilot = flown("iris", "hold", 5.5, sticks)
    assert euler_from_quat(state.q_WB).yaw == pytest.approx(-math.pi / 2, abs=0.03)
    assert state.v_W.y == pytest.approx(-pilot.limits.speed, rel=0.05) and abs(state.v_W.x) < 0.1
    assert state.p_W.z == pytest.approx(5.0, abs=0.1)


def test_a_place_is_held_in_wind():
    state, _ = flown("iris", "hold", 6.0, CENTRE, CALM._replace(wind_W=Vec3(1.0, -0.5, 0.0)))
    assert norm(state.p_W - Vec3(0.0, 0.0, 5.0)) < 0.05


def test_a_hexarotor_holds_its_place_on_five_motors():
    around = environment_of(samara.vehicle("hexarotor_x"))._replace(motor_power=(1.0, 0.0, 1.0, 1.0, 1.0, 1.0))
    state, _ = flown("hexarotor_x", "hold", 6.0, CENTRE, around, [True, False, True, True, True, True])
    assert norm(state.p_W - Vec3(0.0, 0.0, 5.0)) < 0.2
    assert dot(rotate(state.q_WB, Vec3(0.0, 0.0, 1.0)), Vec3(0.0, 0.0, 1.0)) > 0.99


def test_the_middle_of_the_throttle_is_the_weight():
    limits = stick_pilot(samara.vehicle("iris")).limits
    shares = [float(lift_share(throttle, limits)) for throttle in (-1.0, 0.0, 1.0)]
    assert shares == pytest.approx([limits.least_lift, 1.0, limits.most_lift])


def test_what_is_not_a_mode_is_refused():
    with pytest.raises(ValueError, match="mode 'acro': expected one of rate, angle, hold"):
        stick_pilot(samara.vehicle("iris"), "acro")
    with pytest.raises(ValueError, match="period = 0"):
        stick_pilot(samara.vehicle("iris"), period=0.0)
