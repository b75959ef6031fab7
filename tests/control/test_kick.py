"""Rotors that are heavy beside their drag: the yaw they give at once, and loops that do not answer their own kick."""

import math

import pytest

import samara
from samara.control.default_gains import KICK_CROSSING, gains_for, kick, motor_time_constant
from samara.control.pid import pid_gains
from samara.physics.multirotor import wrench
from samara.physics.types import CALM

SHIPPED = ("crazyflie", "iris", "hakoniwa", "hexarotor_x", "octorotor_x")


def heavy_rotors():
    """An Iris on motors as stiff as a racer's: they turn faster than the drag of their propellers would let them"""
    iris = samara.vehicle("iris")
    rotors = tuple(
        own._replace(inertia=4e-5, motor=own.motor._replace(resistance=0.02, current_min=-60.0)) for own in iris.rotors
    )
    return iris.replace(rotors=rotors)


def test_the_kick_is_the_torque_at_once_over_the_torque_that_stays():
    """A small step of the duties in yaw: the body's torque then, over what is left of it when the rotors have settled"""
    vehicle = heavy_rotors()
    state, command = samara.hover(vehicle, (0.0, 0.0, 100.0))
    spins = [own.spin for own in vehicle.rotors]
    step = 1e-6
    asked = tuple(u - step * spin for u, spin in zip(command, spins, strict=True))
    at_once = wrench(state, asked, vehicle, CALM).tau_B.z
    slopes = [2.0 * own.k_torque * speed for own, speed in zip(vehicle.rotors, state.rotor_speed, strict=True)]
    volts = 12.6  # a little less under load
    change = [step * volts * own.motor.constant / own.motor.resistance for own in vehicle.rotors]
    stiff = [
        own.motor.constant**2 / own.motor.resistance + own.motor.damping + slope
        for own, slope in zip(vehicle.rotors, slopes, strict=True)
    ]
    stays = sum(own / k * slope for own, k, slope in zip(change, stiff, slopes, strict=True))
    assert at_once / stays == pytest.approx(kick(vehicle), rel=0.1)


@pytest.mark.parametrize("name", SHIPPED)
def test_those_that_were_flown_before_have_the_gains_of_before(name):
    vehicle = samara.vehicle(name)
    gains = gains_for(vehicle)
    assert gains.attitude.z == pytest.approx(gains.attitude.x / 3.0) or gains.attitude.z < gains.attitude.x / 3.0
    assert 2.0 * gains.attitude.z * kick(vehicle) < KICK_CROSSING
    assert pid_gains(vehicle).rate_derivative == pytest.approx(0.5 * min(1.0, 3.0 / max(kick(vehicle), 3.0)) ** 2)


def test_without_inertia_there_is_no_kick():
    assert kick(samara.vehicle("crazyflie_documented")) == 0.0
    assert kick(samara.vehicle("rigid_body_quadrotor")) == 0.0


def test_a_yaw_loop_of_rotors_that_kick_is_slower():
    vehicle = heavy_rotors()
    gains = gains_for(vehicle)
    kicks = kick(vehicle)
    assert kicks > 5.0 and motor_time_constant(vehicle) < 0.05
    assert gains.attitude.z <= gains.attitude.x / 3.0
    assert 2.0 * gains.attitude.z * kicks <= KICK_CROSSING * (1.0 + 1e-12)
    assert pid_gains(vehicle).rate_derivative == pytest.approx(0.5 * (3.0 / kicks) ** 2)


@pytest.mark.parametrize("controller", ["geometric", "pid"])
def test_such_an_aircraft_does_not_shake(controller, tmp_path):
    """Its battery is the witness: rotors that chase each other empty it; with the loops of before pid takes 3.6 times that"""
    vehicle = heavy_rotors()
    samara.save_vehicle(vehicle, tmp_path / "heavy.toml")
    settings = {"drones.vehicle": str(tmp_path / "heavy.toml"), "duration": 8.0}
    run = samara.fly("figure8", controller=controller, settings=settings)
    (track,) = run.tracks
    assert track.error.max() < 0.3
    assert math.degrees(abs(track.angular_velocity[-250:, 2]).max()) < 30.0
    assert track.charge[-1] > 0.985
