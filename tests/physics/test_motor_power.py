"""Weak and failed motors: the delivered part of a command, and the response of the body."""

import dataclasses
import math

import numpy as np
import pytest

import samara
from samara import Environment, Vec3
from samara.core.algebra import diagonal
from samara.core.tree import flatten
from samara.physics.multirotor import derivative
from samara.physics.rotors.propulsion import apply_effectiveness, compensate_effectiveness, supply_voltage
from samara.physics.types import CALM

ROTORCRAFT = [name for name in samara.vehicle_names() if samara.vehicle(name).rotors]


def motor_failed(rotor: int, rotors: int) -> Environment:
    """One motor failed, the others healthy."""
    return Environment(motor_effectiveness=tuple(0.0 if i == rotor else 1.0 for i in range(rotors)))


def flown(state, command, vehicle, seconds, environment):
    return samara.step(state, command, vehicle, seconds, method="rk45", environment=environment)


@pytest.mark.parametrize("actuation", ["normalized", "speed"])
def test_a_failed_rotor_behind_a_lag_dies_away_exponentially(actuation):
    """Ω = Ω₀ e^{−t/τ}, down through the idle speed and on to 0; its neighbours keep theirs."""
    shipped = samara.vehicle("crazyflie_documented").without_effect("contact")
    motor = shipped.rotors[1].motor
    vehicle = shipped if actuation == "normalized" else speed_commanded(shipped)
    state, command = samara.hover(vehicle)
    for seconds in (0.01, 0.05):
        after = flown(state, command, vehicle, seconds, motor_failed(1, 4))
        assert after.rotor_speed[1] == pytest.approx(
            state.rotor_speed[1] * math.exp(-seconds / motor.time_constant_down), rel=1e-8
        )
        assert after.rotor_speed[0::2] == pytest.approx(state.rotor_speed[0::2], rel=1e-12)
    assert after.rotor_speed[1] < 0.2 * motor.speed_min


def speed_commanded(vehicle):
    """The same vehicle with its rotors commanded by their speeds."""
    return samara.build_vehicle(
        "in speeds",
        mass=vehicle.mass,
        inertia=vehicle.inertia_B,
        rotors=vehicle.rotors,
        actuation="speed",
        effects={"gravity": vehicle["gravity"]},
    )


def test_a_weak_motor_turns_at_its_part_of_the_speed():
    """Ω → p Ω_cmd, with its lag."""
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    state, command = samara.hover(vehicle)
    power, motor = 0.8, vehicle.rotors[2].motor
    after = flown(state, command, vehicle, 0.03, Environment(motor_effectiveness=(1.0, 1.0, power, 1.0)))
    start = state.rotor_speed[2]
    expected = start * (power + (1.0 - power) * math.exp(-0.03 / motor.time_constant_down))
    assert after.rotor_speed[2] == pytest.approx(expected, rel=1e-8)


def test_a_failed_dc_motor_coasts_down_under_its_drag():
    """J Ω̇ = −kQ Ω² − b Ω while charging is blocked:  Ω = b Ω₀ e / (b + kQ Ω₀ (1 − e)),  e = e^{−bt/J}.

    Without friction it is 1/Ω = 1/Ω₀ + kQ t/J.
    """
    iris = samara.vehicle("iris_documented").without_effect("contact")
    vehicle = dataclasses.replace(iris, structure=dataclasses.replace(iris.structure, inflow=None))
    state, command = samara.hover(vehicle)
    for damping in (vehicle.rotors[0].motor.damping, 1e-14):
        coasting = vehicle.replace({"rotors.motor.damping": damping})
        rotor, start, seconds = coasting.rotors[3], state.rotor_speed[3], 0.2
        after = flown(state, command, coasting, seconds, motor_failed(3, 4)).rotor_speed[3]
        e = math.exp(-damping * seconds / rotor.inertia)
        exact = (
            damping * start * e / (damping - rotor.k_torque * start * math.expm1(-damping * seconds / rotor.inertia))
        )
        assert after == pytest.approx(exact, rel=1e-7)
    assert 1.0 / after == pytest.approx(1.0 / start + rotor.k_torque * seconds / rotor.inertia, rel=1e-6)
    assert after < 0.1 * start


def test_failed_motors_take_nothing_from_the_battery():
    """With all four failed the bus is at its open-circuit voltage; with one failed, as with a command of 0 for it."""
    vehicle = samara.vehicle("iris_documented")
    state, command = samara.hover(vehicle)
    none_left = Environment(motor_effectiveness=(0.0,) * 4)
    assert supply_voltage(state, command, vehicle, none_left) == vehicle["battery"][0].table_voltage[-1] == 12.6
    zeroed_command = (*command[:2], 0.0, command[3])
    failed, untold = (
        supply_voltage(state, u, vehicle, conditions)
        for u, conditions in ((command, motor_failed(2, 4)), (zeroed_command, CALM))
    )
    assert failed == untold > supply_voltage(state, command, vehicle, CALM)


def test_half_the_duty_is_half_the_voltage():
    """A DC motor at effectiveness ½ and duty d acts as a healthy one at d/2; dead zone and limits apply before."""
    vehicle = samara.vehicle("hakoniwa")
    state, command = samara.hover(vehicle)
    for duty in (command[0], 1.7):
        weak = derivative(state, (duty,) * 4, vehicle, Environment(motor_effectiveness=(0.5,) * 4))
        assert weak == derivative(state, (0.5 * min(duty, 1.0),) * 4, vehicle)


@pytest.mark.parametrize("rotor", range(4))
def test_when_a_rotor_dies_the_body_turns_as_its_missing_torque_says(rotor):
    """J ω = −(r × F − s Q a) ∫(1 − e^{−2t/τ}) dt: thrust and drag torque go with Ω², and so fade twice as fast as Ω

    A spherical body, so that ω × Jω = 0 and the closed form is exact; no other torque acts.
    """
    shipped = samara.vehicle("crazyflie_documented")
    vehicle = shipped.without_effect("contact", "damping").replace(inertia_B=diagonal(Vec3(2e-5, 2e-5, 2e-5)))
    state, command = samara.hover(vehicle)
    failed_rotor, tau, t = vehicle.rotors[rotor], vehicle.rotors[rotor].motor.time_constant_down, 0.04
    thrust = failed_rotor.k_thrust * state.rotor_speed[rotor] ** 2
    drag = failed_rotor.k_torque * state.rotor_speed[rotor] ** 2
    lost = np.cross(failed_rotor.r_B, np.array(failed_rotor.axis_B) * thrust) - failed_rotor.spin * drag * np.array(
        failed_rotor.axis_B
    )
    after = flown(state, command, vehicle, t, motor_failed(rotor, 4))
    expected = -lost / 2e-5 * (t - 0.5 * tau * (1.0 - math.exp(-2.0 * t / tau)))
    assert np.array(after.omega_B) == pytest.approx(expected, rel=1e-7)
    assert np.sign(after.omega_B.x) == -np.sign(failed_rotor.r_B.y) and np.sign(after.omega_B.y) == np.sign(
        failed_rotor.r_B.x
    )


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_full_power_changes_no_number(name):
    """Effectiveness 1 for all equals (): exactly, not approximately."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    state = state._replace(v_W=Vec3(1.0, -2.0, 0.5), rotor_speed=tuple(0.9 * speed for speed in state.rotor_speed))
    healthy = Environment(motor_effectiveness=(1.0,) * len(vehicle.rotors))
    assert derivative(state, command, vehicle, healthy) == derivative(state, command, vehicle, CALM)


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_weak_motors_are_trimmed_by_asking_them_for_more(name):
    """In a hover with every motor a little weak nothing accelerates, and every command is higher."""
    vehicle = samara.vehicle(name)
    weak = Environment(motor_effectiveness=tuple(1.0 - 0.01 * (i + 1) for i in range(len(vehicle.rotors))))
    state, command = samara.hover(vehicle, p_W=(0.0, 0.0, 9.0), environment=weak)
    rate = derivative(state, command, vehicle, weak)
    assert np.array([*rate.v_W, *rate.omega_B]) == pytest.approx(np.zeros(6), abs=1e-9)
    assert np.array(rate.rotor_speed) == pytest.approx(np.zeros(len(command)), abs=1e-6)
    assert (np.array(command) > np.array(samara.hover(vehicle)[1])).all()


def test_a_vehicle_is_not_trimmed_on_a_failed_motor():
    with pytest.raises(
        ValueError, match=r"'crazyflie_documented' cannot hover: rotor 2 .* which its motor does not hold"
    ):
        samara.hover(samara.vehicle("crazyflie_documented"), environment=motor_failed(2, 4))


def test_telling_and_obeying_are_inverses():
    powers, desired = (0.3, 1.0, 0.7), (120.0, 0.4, 7.0)
    environment = Environment(motor_effectiveness=powers)
    assert apply_effectiveness(compensate_effectiveness(desired, environment), environment) == pytest.approx(
        desired, rel=1e-15
    )
    assert compensate_effectiveness((1.0, 2.0), Environment(motor_effectiveness=(0.0, 0.5))) == (0.0, 4.0)


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("python", "crazyflie_documented"),
        ("llvm", "crazyflie_documented"),
        ("jax", "crazyflie_documented"),
        ("llvm", "iris_documented"),
    ],
)
def test_compiled_motors_fail_too(backend, name):
    """A batch in which each drone has lost a different motor, in one call: each equals the drone stepped singly."""
    vehicle = samara.vehicle(name).without_effect("contact", "drag")
    state, command = samara.hover(vehicle)
    environment = Environment(motor_effectiveness=tuple(np.where(np.arange(4) == i, 0.0, 1.0) for i in range(4)))
    batch_result = samara.compile(vehicle, backend=backend).step(state, command, 2e-3, steps=5, environment=environment)
    for drone in range(4):
        single = state
        for _ in range(5):
            single = samara.step(single, command, vehicle, 2e-3, environment=motor_failed(drone, 4))
        actual = np.array([np.broadcast_to(leaf, 4)[drone] for leaf in flatten(batch_result)])
        assert actual == pytest.approx(np.array(flatten(single)), rel=1e-12, abs=1e-12)


def test_a_failed_motor_has_no_column_in_the_linear_model():
    """∂x'/∂u of a failed motor is 0, and its speed falls by e^{−dt/τ}; the others respond as healthy ones."""
    vehicle = samara.vehicle("hexarotor_x").without_effect("contact")
    state, command = samara.hover(vehicle)
    sim = samara.compile(vehicle, backend="llvm")
    a, b = sim.linearize(state, command, 5e-3, environment=motor_failed(4, 6))
    _, healthy = sim.linearize(state, command, 5e-3)
    assert (b[:, 4] == 0.0).all()
    assert np.delete(b[13:19], 4, axis=1) == pytest.approx(np.delete(healthy[13:19], 4, axis=1), rel=1e-14)
    assert a[17, 17] == pytest.approx(math.exp(-5e-3 / vehicle.rotors[4].motor.time_constant_down), rel=1e-6)


def test_a_power_too_many_is_told():
    vehicle = samara.vehicle("crazyflie_documented")
    state, command = samara.hover(vehicle)
    with pytest.raises(
        ValueError, match=r"motor_effectiveness has 3 numbers; expected one for each of 4 motors, or none"
    ):
        derivative(state, command, vehicle, Environment(motor_effectiveness=(1.0, 1.0, 1.0)))


@pytest.mark.parametrize("name", ROTORCRAFT)
def test_a_power_that_is_no_number_is_seen(name):
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    powers = (math.nan, *(1.0 for _ in vehicle.rotors[1:]))
    assert any(
        math.isnan(x) for x in flatten(derivative(state, command, vehicle, Environment(motor_effectiveness=powers)))
    )
    with pytest.raises(ValueError, match=r"motor_effectiveness\[0\]"):
        samara.compile(vehicle, backend="llvm").step(
            state, command, 1e-3, environment=Environment(motor_effectiveness=powers)
        )


def test_healthy_motors_cost_nothing():
    """The environment has no additional leaf, and so no program has an additional instruction."""
    assert CALM.motor_effectiveness == () and len(flatten(CALM)) == 11
