"""Rotors with a large inertia relative to their drag: their immediate yaw torque, and loops that do not feed back on it."""

import math

import pytest

import samara
from samara.control.default_gains import MAX_YAW_CROSSOVER, default_gains, motor_time_constant, spin_up_torque_ratio
from samara.control.pid import pid_gains
from samara.physics.multirotor import wrench
from samara.physics.types import CALM

SHIPPED = ("crazyflie", "iris", "hakoniwa", "hexarotor_x", "octorotor_x")


def heavy_rotors():
    """An Iris with stiff motors: they accelerate faster than the drag of their propellers would allow"""
    iris = samara.vehicle("iris")
    rotors = tuple(
        rotor._replace(inertia=4e-5, motor=rotor.motor._replace(resistance=0.02, current_min=-60.0))
        for rotor in iris.rotors
    )
    return iris.replace(rotors=rotors)


def test_the_spin_up_ratio_is_initial_over_steady_torque():
    """A small yaw step of the duties: the initial torque over the torque when the rotors have settled"""
    vehicle = heavy_rotors()
    state, command = samara.hover(vehicle, (0.0, 0.0, 100.0))
    spins = [rotor.spin for rotor in vehicle.rotors]
    step = 1e-6
    stepped_command = tuple(u - step * spin for u, spin in zip(command, spins, strict=True))
    initial_torque = wrench(state, stepped_command, vehicle, CALM).tau_B.z
    slopes = [2.0 * rotor.k_torque * speed for rotor, speed in zip(vehicle.rotors, state.rotor_speed, strict=True)]
    volts = 12.6  # a little less under load
    change = [step * volts * rotor.motor.constant / rotor.motor.resistance for rotor in vehicle.rotors]
    stiffness = [
        rotor.motor.constant**2 / rotor.motor.resistance + rotor.motor.damping + slope
        for rotor, slope in zip(vehicle.rotors, slopes, strict=True)
    ]
    steady_torque = sum(rotor / k * slope for rotor, k, slope in zip(change, stiffness, slopes, strict=True))
    assert initial_torque / steady_torque == pytest.approx(spin_up_torque_ratio(vehicle), rel=0.1)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_vehicles_keep_their_gains(name):
    vehicle = samara.vehicle(name)
    gains = default_gains(vehicle)
    assert gains.attitude.z == pytest.approx(gains.attitude.x / 3.0) or gains.attitude.z < gains.attitude.x / 3.0
    assert 2.0 * gains.attitude.z * spin_up_torque_ratio(vehicle) < MAX_YAW_CROSSOVER
    assert pid_gains(vehicle).rate_derivative == pytest.approx(
        0.5 * min(1.0, 3.0 / max(spin_up_torque_ratio(vehicle), 3.0)) ** 2
    )


def test_without_inertia_the_spin_up_ratio_is_zero():
    assert spin_up_torque_ratio(samara.vehicle("crazyflie_documented")) == 0.0
    assert spin_up_torque_ratio(samara.vehicle("rigid_body_quadrotor")) == 0.0


def test_heavy_rotors_have_a_slower_yaw_loop():
    vehicle = heavy_rotors()
    gains = default_gains(vehicle)
    torque_ratio = spin_up_torque_ratio(vehicle)
    assert torque_ratio > 5.0 and motor_time_constant(vehicle) < 0.05
    assert gains.attitude.z <= gains.attitude.x / 3.0
    assert 2.0 * gains.attitude.z * torque_ratio <= MAX_YAW_CROSSOVER * (1.0 + 1e-12)
    assert pid_gains(vehicle).rate_derivative == pytest.approx(0.5 * (3.0 / torque_ratio) ** 2)


@pytest.mark.parametrize("controller", ["geometric", "pid"])
def test_a_vehicle_with_heavy_rotors_does_not_oscillate(controller, tmp_path):
    """The battery shows it: oscillating rotors empty it; with the earlier loops pid takes 3.6 times that"""
    vehicle = heavy_rotors()
    samara.save_vehicle(vehicle, tmp_path / "heavy.toml")
    settings = {"drones.vehicle": str(tmp_path / "heavy.toml"), "duration": 8.0}
    run = samara.fly("figure8", controller=controller, settings=settings)
    (track,) = run.drone_records
    assert track.error.max() < 0.3
    assert math.degrees(abs(track.angular_velocity[-250:, 2]).max()) < 30.0
    assert track.charge[-1] > 0.985
