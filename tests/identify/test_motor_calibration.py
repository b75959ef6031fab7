"""Motors that turn at other speeds than the start vehicle says: measured speeds and thrust tell, and the vehicle has them."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import prior_vehicle, random_vehicle, spread_motors
from support.measured_flights import PERIOD, exact_samples, lively_trajectory

from samara.identify.identification import identify_resampled
from samara.identify.motor_calibration import calibrate_motors
from samara.identify.parameters import prepare_vehicle
from samara.identify.rotor_speed_model import delay_signal, simulate_lag, spin_up_commands
from samara.physics.rotors.actuator import command_from_speed, speed_from_command
from samara.physics.rotors.propulsion import ROTOR_MOMENTUM
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.writer import vehicle_toml

SECONDS = 25.0


def commanded_speeds(samples, truth, start):
    """Return the speeds that the start vehicle's ranges assign to the commands of a flight."""
    motors = zip(samples.commanded, truth.rotors, start.rotors, strict=True)
    return np.stack([speed_from_command(command_from_speed(row, a.motor), b.motor) for row, a, b in motors])


@pytest.fixture(scope="module")
def spread():
    """A vehicle whose motors are up to 5 % apart and whose rotors have inertia, its start, and its flight with rotor speeds."""
    truth = spread_motors(random_vehicle(5, 4), 5, 4)
    start = prior_vehicle(random_vehicle(5, 4), 5, 4)
    rotors = (rotor._replace(inertia=truth.rotors[0].inertia) for rotor in start.rotors)
    start = replace(start, rotors=tuple(rotors)).with_effect(ROTOR_MOMENTUM)
    samples = exact_samples(truth, lively_trajectory(truth), SECONDS)
    motor = truth.rotors[0].motor
    speeds = simulate_lag(samples.commanded, motor.time_constant_up, motor.time_constant_down, PERIOD)
    samples = samples._replace(commanded=commanded_speeds(samples, truth, start), rotor_speed=speeds)
    return truth, start, samples


def test_the_speed_of_each_motor_is_found(spread):
    """Every end of every range within 0.3 % of the full speed, and a delay of 6 ms within half a millisecond"""
    truth, start, samples = spread
    late = samples._replace(rotor_speed=delay_signal(samples.rotor_speed, 0.006 / PERIOD))
    calibration = calibrate_motors([late], start)
    assert calibration.delay == pytest.approx(0.006, abs=5e-4)
    for rotor, true_rotor in zip(calibration.calibrate_vehicle(start).rotors, truth.rotors, strict=True):
        accuracy = 0.003 * true_rotor.motor.speed_max
        assert rotor.motor.speed_min == pytest.approx(true_rotor.motor.speed_min, abs=accuracy)
        assert rotor.motor.speed_max == pytest.approx(true_rotor.motor.speed_max, abs=accuracy)
    assert calibrate_motors([samples._replace(rotor_speed=None)], start) is None


def test_speeds_that_fall_with_the_battery_are_told_by_its_voltage(spread):
    """Ω ∝ 1 + 0.05 (V − V̄): 5 % for a volt; the ranges are those at the mean voltage."""
    truth, start, samples = spread
    volts = np.linspace(16.5, 14.5, samples.body.shape[1])
    sagging = samples._replace(rotor_speed=samples.rotor_speed * (1.0 + 0.05 * (volts - 15.5)), voltage=volts)
    calibration = calibrate_motors([sagging], start)
    assert calibration.per_volt == pytest.approx(0.05, rel=0.05) and calibration.volts == pytest.approx(15.5, abs=0.01)
    full = [rotor.motor.speed_max for rotor in calibration.calibrate_vehicle(start).rotors]
    assert full == pytest.approx([rotor.motor.speed_max for rotor in truth.rotors], rel=0.01)
    commanded = calibration.calibrate_flight(sagging).commanded
    motor = truth.rotors[0].motor
    followed = simulate_lag(commanded, motor.time_constant_up, motor.time_constant_down, PERIOD)
    error = followed / sagging.rotor_speed - 1.0
    assert np.sqrt((error**2).mean()) < 0.005  # uncalibrated: 0.04


def test_a_flight_that_hovers_does_not_turn_the_lines():
    """Commands that vary by 0.1 % under noise: the motors 4 % faster are found, and their idle speed is left alone."""
    truth = random_vehicle(5, 4)
    samples = exact_samples(truth, lively_trajectory(truth), 4.0)
    draw = np.random.default_rng(4)
    commanded = 800.0 * (1.0 + 0.001 * draw.standard_normal(samples.commanded.shape))
    speeds = 1.04 * 800.0 + 3.0 * draw.standard_normal(commanded.shape)
    calibration = calibrate_motors([samples._replace(commanded=commanded, rotor_speed=speeds)], truth)
    assert calibration.offset + 800.0 * calibration.gain == pytest.approx(1.04 * 800.0, rel=1e-3)
    for rotor, true_rotor in zip(calibration.calibrate_vehicle(truth).rotors, truth.rotors, strict=True):
        assert rotor.motor.speed_max == pytest.approx(1.04 * true_rotor.motor.speed_max, rel=0.15)


def test_the_torque_of_spin_up_is_that_of_the_measured_acceleration():
    """Ω_cmd − Ω = τ Ω̇ of a sine, with the rise where it grows and the fall where it shrinks"""
    time = PERIOD * np.arange(500)
    speeds, rate = 700.0 + 50.0 * np.sin(9.0 * time)[None], 450.0 * np.cos(9.0 * time)
    excess = spin_up_commands(speeds, 0.03, 0.05, PERIOD)[0] - speeds[0]
    assert excess[1:-1] == pytest.approx((np.where(rate > 0.0, 0.03, 0.05) * rate)[1:-1], abs=0.05)


def test_measured_speeds_make_a_vehicle_of_uneven_motors_better(spread):
    """kF within 1 %, kM and J within 2 %; the written file has the range of every motor."""
    truth, start, samples = spread
    physical = identify_resampled([samples], start, predictor=False).physical
    bare = prepare_vehicle(truth)
    errors = {
        "k_thrust": physical.estimate("k_thrust").value / np.mean([rotor.k_thrust for rotor in bare.rotors]) - 1.0,
        "k_torque": physical.estimate("k_torque").value / np.mean([rotor.k_torque for rotor in bare.rotors]) - 1.0,
    }
    for axis in ("xx", "yy", "zz"):
        errors[axis] = physical.estimate(f"inertia.{axis}").value / getattr(truth.inertia_B, axis) - 1.0
    assert abs(errors.pop("k_thrust")) < 0.01
    assert max(map(abs, errors.values())) < 0.02, errors
    vehicle = parse_vehicle(vehicle_toml(physical.vehicle), physical.vehicle.name)
    for rotor, true_rotor in zip(vehicle.rotors, truth.rotors, strict=True):
        assert rotor.motor.speed_max == pytest.approx(true_rotor.motor.speed_max, rel=0.005)
    assert "rotor speeds" in dict(physical.vehicle.structure.sources)["rotors[2].motor.speed_max"]


@pytest.mark.parametrize("idle", [0.0, 0.35])
def test_a_wrong_idle_speed_of_the_start_does_not_bias_inertia(idle):
    """Without rotor speeds: the thrust curve takes the wrong range up, J is within 5 %, and the intervals hold the truth."""
    truth = random_vehicle(5, 4)
    start = prior_vehicle(truth, 5, 4)
    motor = start.rotors[0].motor._replace(speed_min=idle * start.rotors[0].motor.speed_max)
    start = replace(start, rotors=tuple(rotor._replace(motor=motor) for rotor in start.rotors))
    samples = exact_samples(truth, lively_trajectory(truth), SECONDS)
    samples = samples._replace(commanded=commanded_speeds(samples, truth, start))
    physical = identify_resampled([samples], start, predictor=False).physical
    for axis in ("xx", "yy"):
        estimate, true_value = physical.estimate(f"inertia.{axis}"), getattr(truth.inertia_B, axis)
        assert estimate.value == pytest.approx(true_value, rel=0.05)
        assert estimate.low < true_value < estimate.high
