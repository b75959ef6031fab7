"""Equation error on flights of known vehicles: the fit returns the true parameters."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import prior_vehicle, random_vehicle
from support.measured_flights import PERIOD, exact_samples, lively_trajectory

from samara.core.algebra import Vec3
from samara.identify.equation_error_fit import fit_by_regression
from samara.identify.parameters import identifiable_parameters, prepare_vehicle
from samara.identify.rotor_speed_model import delay_signal, simulate_lag


@pytest.fixture(scope="module")
def flown():
    truth = random_vehicle(5, 4)
    return truth, prior_vehicle(truth, 5, 4), exact_samples(truth, lively_trajectory(truth), 25.0)


def _parameter_errors(fitted, truth):
    """Return each parameter's error, relative unless the true value is 0."""
    true_vehicle = prepare_vehicle(truth)
    return {
        parameter.name: parameter.get(fitted.vehicle) / (parameter.get(true_vehicle) or 1.0)
        - bool(parameter.get(true_vehicle))
        for parameter in fitted.parameters
    }


def test_a_flight_without_noise_gives_the_vehicle_back(flown):
    """From values that are a fifth off to within half a percent: the remainder is due to means over a twentieth of a second."""
    truth, start, samples = flown
    fitted = fit_by_regression([samples], prepare_vehicle(start)).fitted
    errors = _parameter_errors(fitted, truth)
    assert fitted.fixed == ()
    assert abs(errors["k_thrust"]) < 2e-4
    for name in (
        "inertia.xx",
        "inertia.yy",
        "inertia.zz",
        "k_torque",
        "motor.time_constant_up",
        "motor.time_constant_down",
    ):
        assert abs(errors[name]) < 5e-3, name
    for name in ("drag.linear.x", "drag.linear.y", "rotor_drag.axial", "airspeed_moment.pitch"):
        assert abs(errors[name]) < 1e-2, name
    assert abs(errors["airspeed_moment.roll"]) < 4e-2
    (trim,) = fitted.trims
    assert abs(trim.delay) < 2e-4 and np.abs(trim.wind_W).max() < 0.05
    mean = float(np.mean([rotor.k_thrust for rotor in truth.rotors]))
    assert np.array(trim.gains) == pytest.approx([rotor.k_thrust / mean for rotor in truth.rotors], abs=0.03)


def test_a_steady_wind_and_late_motors_are_the_flights_own(flown):
    """The same flight in wind of 2 m/s along x, with motor commands delayed by 10 ms: the vehicle is the same."""
    truth, start, samples = flown
    body = samples.body.copy()
    body[3] += 2.0
    windy = samples._replace(body=body, commanded=delay_signal(samples.commanded, -0.010 / PERIOD))
    fitted = fit_by_regression([windy], prepare_vehicle(start)).fitted
    (trim,) = fitted.trims
    assert trim.wind_W == pytest.approx((2.0, 0.0), abs=0.1)
    assert trim.delay == pytest.approx(0.010, abs=1e-3)
    errors = _parameter_errors(fitted, truth)
    for name in ("k_thrust", "inertia.xx", "inertia.yy", "drag.linear.x", "drag.linear.y"):
        assert abs(errors[name]) < 0.02, name


def test_two_flights_share_a_vehicle_and_have_their_own_gains(flown):
    """Rotors that are 5 % stronger in one flight: the mean is the vehicle's"""
    truth, start, samples = flown
    other = samples._replace(name="other", commanded=samples.commanded / np.sqrt(1.05))
    fitted = fit_by_regression([samples, other], prepare_vehicle(start)).fitted
    gains = np.array([trim.gains for trim in fitted.trims])
    assert np.log(gains[1] / gains[0]).mean() == pytest.approx(np.log(1.05), abs=5e-3)
    assert abs(_parameter_errors(fitted, truth)["k_thrust"] - 0.025) < 0.01


def test_hover_tells_neither_inertia_nor_lag_nor_drag(flown):
    """Without motion nothing is identified: these stay at their start values, and are fixed or no better than the prior."""
    _, start, samples = flown
    n = samples.body.shape[1]
    body = np.zeros((13, n))
    body[2], body[6] = 2.0, 1.0
    draw = np.random.default_rng(1)
    body[10:] = 0.01 * draw.standard_normal((3, n))
    speed = np.sqrt(start.mass * 9.80665 / 4.0 / start.rotors[0].k_thrust)
    force = np.zeros((3, n))
    force[2] = 9.80665
    hovering = samples._replace(
        body=body,
        commanded=np.full((4, n), speed) * (1.0 + 0.005 * draw.standard_normal((4, n))),
        specific_force=force + 0.05 * draw.standard_normal((3, n)),
    )
    bare = prepare_vehicle(start)
    fitted = fit_by_regression([hovering], bare).fitted
    assert {"inertia.xx", "inertia.yy", "inertia.zz", "k_torque"} <= set(fitted.fixed)
    for parameter, variance in zip(fitted.parameters, np.diag(fitted.covariance), strict=True):
        if parameter.name in fitted.fixed:
            assert parameter.get(fitted.vehicle) == parameter.get(bare) and variance == 1.0
        if parameter.name.startswith(("motor", "airspeed_moment")):
            assert np.sqrt(variance) * parameter.scale > 0.2 * (parameter.scale if not parameter.positive else 1.0), (
                parameter.name
            )


def test_without_velocities_airspeed_tells_nothing(flown):
    """IMU and motors only: thrust, inertia and lag are identified, parameters that need an airspeed are fixed."""
    truth, start, samples = flown
    body = samples.body.copy()
    body[:6], body[6:10] = 0.0, np.array([[1.0], [0.0], [0.0], [0.0]])
    imu_only = samples._replace(body=body, available_signals=frozenset({"rate", "specific_force"}))
    fitted = fit_by_regression([imu_only], prepare_vehicle(start)).fitted
    errors = _parameter_errors(fitted, truth)
    assert {"drag.linear.x", "airspeed_moment.roll", "rotor_drag.axial"} <= set(fitted.fixed)
    assert abs(errors["k_thrust"]) < 0.02
    assert abs(errors["inertia.xx"]) < 0.1 and abs(errors["inertia.yy"]) < 0.1


def test_measured_rotor_speeds_take_the_place_of_the_lag(flown):
    truth, start, samples = flown
    motor = truth.rotors[0].motor
    speeds = simulate_lag(samples.commanded, motor.time_constant_up, motor.time_constant_down, PERIOD)
    fitted = fit_by_regression(
        [samples._replace(rotor_speed=speeds, available_signals=samples.available_signals | {"rotor_speed"})],
        prepare_vehicle(start),
    ).fitted
    errors = _parameter_errors(fitted, truth)
    for name in ("motor.time_constant_up", "motor.time_constant_down", "inertia.xx", "inertia.yy"):
        assert abs(errors[name]) < 1e-2, name


def test_a_shift_of_whole_and_of_half_samples():
    rows = np.arange(10.0)[None] ** 2
    assert delay_signal(rows, 2.0)[0, 2:] == pytest.approx(rows[0, :-2])
    assert delay_signal(rows, 0.5)[0, 1:] == pytest.approx(0.5 * (rows[0, 1:] + rows[0, :-1]))
    assert delay_signal(rows, -1.0)[0, :-1] == pytest.approx(rows[0, 1:])


def test_a_log_that_is_nowhere_usable_is_refused(flown):
    _, start, samples = flown
    with pytest.raises(ValueError, match=r"exact: has no usable interval of 1.5 s; expected a flight"):
        fit_by_regression(
            [samples._replace(usable=np.zeros(samples.body.shape[1], dtype=bool))], prepare_vehicle(start)
        )


def test_the_errors_grow_with_the_noise(flown):
    """Ten times the noise of the accelerometer gives about ten times the standard error of thrust."""
    _, start, samples = flown
    draw = np.random.default_rng(2).standard_normal(samples.specific_force.shape)
    errors = []
    for size in (0.2, 2.0):
        fitted = fit_by_regression(
            [samples._replace(specific_force=samples.specific_force + size * draw)], prepare_vehicle(start)
        ).fitted
        errors.append(np.sqrt(fitted.covariance[0, 0]))
    assert 4.0 < errors[1] / errors[0] < 15.0


def test_a_start_that_is_far_off_is_found_all_the_same(flown):
    truth, start, samples = flown
    rotors = tuple(rotor._replace(k_thrust=1.6 * rotor.k_thrust) for rotor in start.rotors)
    fitted = fit_by_regression([samples], prepare_vehicle(replace(start, rotors=rotors))).fitted
    assert abs(_parameter_errors(fitted, truth)["k_thrust"]) < 2e-3


def test_a_damping_that_is_not_there_is_given_up(flown):
    """A start with ten times the damping of rotors, as a predictor's file may have it: the flight shows that it is 0."""
    truth, start, samples = flown
    bare = prepare_vehicle(start)
    scale = {parameter.name: parameter for parameter in identifiable_parameters(bare)}["damping.tilt"].scale
    damped = bare.replace({"damping.linear": Vec3(10.0 * scale, 10.0 * scale, 10.0 * scale)})
    fitted = fit_by_regression([samples], damped).fitted
    assert abs(fitted.vehicle["damping"].linear.x) < 0.3 * scale
    assert abs(_parameter_errors(fitted, truth)["inertia.xx"]) < 0.01


def test_thrust_that_falls_with_the_battery_is_told_by_its_voltage(flown):
    """T ∝ 1 + 0.09 (V − V̄) under the same commands: 9 % for a volt, and the vehicle is the same"""
    truth, start, samples = flown
    volts = np.linspace(4.1, 3.5, samples.body.shape[1])
    weaker = samples.commanded / np.sqrt(1.0 + 0.09 * (volts - volts.mean()))
    fitted = fit_by_regression(
        [samples._replace(commanded=weaker, voltage=volts, available_signals=samples.available_signals | {"voltage"})],
        prepare_vehicle(start),
    ).fitted
    assert fitted.volts == pytest.approx(volts.mean())
    assert fitted.per_volt == pytest.approx(0.09, abs=0.01)
    assert abs(_parameter_errors(fitted, truth)["k_thrust"]) < 5e-3


def test_residuals_are_in_newtons_and_newton_metres(flown):
    """An oscillation of 0.3 m/s² is m a, one of ω is J ω̇, mean by mean; intervals of three seconds are independent."""
    truth, start, samples = flown
    time = samples.time
    shaken, force = samples.body.copy(), samples.specific_force.copy()
    shaken[10] += 0.05 * np.sin(50.0 * time)
    force[0] += 0.3 * np.sin(9.0 * time)
    fitted, (residuals,) = fit_by_regression(
        [samples._replace(body=shaken, specific_force=force)], prepare_vehicle(start)
    )
    starts = np.round((residuals.time - 0.025) / PERIOD).astype(int)
    omega_dot = 0.05 * (np.sin(50.0 * time[starts + 12]) - np.sin(50.0 * time[starts])) / (12 * PERIOD)
    expected_torque = truth.inertia_B.xx * omega_dot
    assert (residuals.torque[0] @ expected_torque) / (expected_torque @ expected_torque) == pytest.approx(1.0, abs=0.1)
    expected_force = truth.mass * 0.3 * np.sin(9.0 * residuals.time)
    assert (residuals.force[0] @ expected_force) / (expected_force @ expected_force) == pytest.approx(1.0, abs=0.1)
    assert fitted.independent_intervals == pytest.approx(25.0 / 3.0, rel=0.03)


def test_commands_that_are_logged_too_seldom_tell_nothing_quick(flown):
    """Ten commands a second, as ArduPilot logs them: lag and inertia keep their start values; thrust and drag are fitted."""
    _, start, samples = flown
    fast, _ = fit_by_regression([samples._replace(command_period=0.02)], prepare_vehicle(start))
    slow, _ = fit_by_regression([samples._replace(command_period=0.1)], prepare_vehicle(start))
    assert "motor.time_constant_up" not in fast.fixed
    assert {
        "motor.time_constant_up",
        "motor.time_constant_down",
        "inertia.xx",
        "inertia.yy",
        "inertia.zz",
        "k_torque",
    } <= set(slow.fixed)
    assert slow.vehicle.inertia_B.xx == prepare_vehicle(start).inertia_B.xx
    assert not {"k_thrust", "drag.linear.x"} & set(slow.fixed)
