"""Equation error on flights whose every number is known: what goes in comes out."""

from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import doubted, random_vehicle
from support.measured_flights import PERIOD, exact_samples, lively

from samara.core.algebra import Vec3
from samara.identify.equation_error_fit import regress
from samara.identify.parameters import parameters_of, ready
from samara.identify.rotor_speed_model import followed, late


@pytest.fixture(scope="module")
def flown():
    truth = random_vehicle(5, 4)
    return truth, doubted(truth, 5, 4), exact_samples(truth, lively(truth), 25.0)


def _apart(found, truth):
    """Each parameter's error, relative where there is something to relate to"""
    own = ready(truth)
    return {
        each.name: each.get(found.vehicle) / (each.get(own) or 1.0) - bool(each.get(own)) for each in found.parameters
    }


def test_a_flight_without_noise_gives_the_vehicle_back(flown):
    """From numbers that are off by a fifth to within half a percent: what means over a twentieth of a second leave"""
    truth, start, samples = flown
    found = regress([samples], ready(start)).fitted
    apart = _apart(found, truth)
    assert found.held == ()
    assert abs(apart["k_thrust"]) < 2e-4
    for name in ("inertia.xx", "inertia.yy", "inertia.zz", "k_torque", "motor.rise", "motor.fall"):
        assert abs(apart[name]) < 5e-3, name
    for name in ("drag.linear.x", "drag.linear.y", "rotor_drag.axial", "airspeed_moment.pitch"):
        assert abs(apart[name]) < 1e-2, name
    assert abs(apart["airspeed_moment.roll"]) < 4e-2
    (trim,) = found.trims
    assert abs(trim.delay) < 2e-4 and np.abs(trim.wind_W).max() < 0.05
    mean = float(np.mean([rotor.k_thrust for rotor in truth.rotors]))
    assert np.array(trim.gains) == pytest.approx([rotor.k_thrust / mean for rotor in truth.rotors], abs=0.03)


def test_a_steady_wind_and_late_motors_are_the_flights_own(flown):
    """The same flight seen from air that moves with 2 m/s along x, its motors heard 10 ms late: the vehicle is the same"""
    truth, start, samples = flown
    body = samples.body.copy()
    body[3] += 2.0
    moved = samples._replace(body=body, commanded=late(samples.commanded, -0.010 / PERIOD))
    found = regress([moved], ready(start)).fitted
    (trim,) = found.trims
    assert trim.wind_W == pytest.approx((2.0, 0.0), abs=0.1)
    assert trim.delay == pytest.approx(0.010, abs=1e-3)
    apart = _apart(found, truth)
    for name in ("k_thrust", "inertia.xx", "inertia.yy", "drag.linear.x", "drag.linear.y"):
        assert abs(apart[name]) < 0.02, name


def test_two_flights_share_a_vehicle_and_have_their_own_gains(flown):
    """Rotors that are 5 % stronger in one flight: the mean is the vehicle's"""
    truth, start, samples = flown
    other = samples._replace(name="other", commanded=samples.commanded / np.sqrt(1.05))
    found = regress([samples, other], ready(start)).fitted
    gains = np.array([own.gains for own in found.trims])
    assert np.log(gains[1] / gains[0]).mean() == pytest.approx(np.log(1.05), abs=5e-3)
    assert abs(_apart(found, truth)["k_thrust"] - 0.025) < 0.01


def test_hover_tells_neither_inertia_nor_lag_nor_drag(flown):
    """Where nothing moves nothing is told: these stay the start's, and are said to be held or known no better than before"""
    _, start, samples = flown
    n = samples.body.shape[1]
    body = np.zeros((13, n))
    body[2], body[6] = 2.0, 1.0
    draw = np.random.default_rng(1)
    body[10:] = 0.01 * draw.standard_normal((3, n))
    speed = np.sqrt(start.mass * 9.80665 / 4.0 / start.rotors[0].k_thrust)
    force = np.zeros((3, n))
    force[2] = 9.80665
    still = samples._replace(
        body=body,
        commanded=np.full((4, n), speed) * (1.0 + 0.005 * draw.standard_normal((4, n))),
        specific_force=force + 0.05 * draw.standard_normal((3, n)),
    )
    bare = ready(start)
    found = regress([still], bare).fitted
    assert {"inertia.xx", "inertia.yy", "inertia.zz", "k_torque"} <= set(found.held)
    for own, variance in zip(found.parameters, np.diag(found.covariance), strict=True):
        if own.name in found.held:
            assert own.get(found.vehicle) == own.get(bare) and variance == 1.0
        if own.name.startswith(("motor", "airspeed_moment")):
            assert np.sqrt(variance) * own.scale > 0.2 * (own.scale if not own.positive else 1.0), own.name


def test_without_velocities_airspeed_tells_nothing(flown):
    """An IMU and motors alone: thrust, inertia and lag are found, what needs an airspeed is held"""
    truth, start, samples = flown
    body = samples.body.copy()
    body[:6], body[6:10] = 0.0, np.array([[1.0], [0.0], [0.0], [0.0]])
    alone = samples._replace(body=body, knows=frozenset({"rate", "specific_force"}))
    found = regress([alone], ready(start)).fitted
    apart = _apart(found, truth)
    assert {"drag.linear.x", "airspeed_moment.roll", "rotor_drag.axial"} <= set(found.held)
    assert abs(apart["k_thrust"]) < 0.02
    assert abs(apart["inertia.xx"]) < 0.1 and abs(apart["inertia.yy"]) < 0.1


def test_measured_rotor_speeds_take_the_place_of_the_lag(flown):
    truth, start, samples = flown
    motor = truth.rotors[0].motor
    speeds = followed(samples.commanded, motor.rise, motor.fall, PERIOD)
    found = regress([samples._replace(rotor_speed=speeds, knows=samples.knows | {"rotor_speed"})], ready(start)).fitted
    apart = _apart(found, truth)
    for name in ("motor.rise", "motor.fall", "inertia.xx", "inertia.yy"):
        assert abs(apart[name]) < 1e-2, name


def test_a_shift_of_whole_and_of_half_samples():
    rows = np.arange(10.0)[None] ** 2
    assert late(rows, 2.0)[0, 2:] == pytest.approx(rows[0, :-2])
    assert late(rows, 0.5)[0, 1:] == pytest.approx(0.5 * (rows[0, 1:] + rows[0, :-1]))
    assert late(rows, -1.0)[0, :-1] == pytest.approx(rows[0, 1:])


def test_a_log_that_is_nowhere_usable_is_refused(flown):
    _, start, samples = flown
    with pytest.raises(ValueError, match=r"exact: is nowhere usable for 1.5 s at a time; expected a flight"):
        regress([samples._replace(usable=np.zeros(samples.body.shape[1], dtype=bool))], ready(start))


def test_the_errors_grow_with_the_noise(flown):
    """Ten times the noise on what the accelerometer feels, about ten times the standard error of thrust"""
    _, start, samples = flown
    draw = np.random.default_rng(2).standard_normal(samples.specific_force.shape)
    errors = []
    for size in (0.2, 2.0):
        found = regress([samples._replace(specific_force=samples.specific_force + size * draw)], ready(start)).fitted
        errors.append(np.sqrt(found.covariance[0, 0]))
    assert 4.0 < errors[1] / errors[0] < 15.0


def test_a_start_that_is_far_off_is_found_all_the_same(flown):
    truth, start, samples = flown
    rotors = tuple(own._replace(k_thrust=1.6 * own.k_thrust) for own in start.rotors)
    found = regress([samples], ready(replace(start, rotors=rotors))).fitted
    assert abs(_apart(found, truth)["k_thrust"]) < 2e-3


def test_a_damping_that_is_not_there_is_given_up(flown):
    """A start with ten times the damping that rotors have, as a predictor's file may: the flight says that there is none"""
    truth, start, samples = flown
    bare = ready(start)
    size = {own.name: own for own in parameters_of(bare)}["damping.tilt"].scale
    damped = bare.replace({"damping.linear": Vec3(10.0 * size, 10.0 * size, 10.0 * size)})
    found = regress([samples], damped).fitted
    assert abs(found.vehicle["damping"].linear.x) < 0.3 * size
    assert abs(_apart(found, truth)["inertia.xx"]) < 0.01


def test_thrust_that_falls_with_the_battery_is_told_by_its_voltage(flown):
    """T ∝ 1 + 0.09 (V − V̄) under the same commands: 9 % for a volt, and the vehicle is the same"""
    truth, start, samples = flown
    volts = np.linspace(4.1, 3.5, samples.body.shape[1])
    weaker = samples.commanded / np.sqrt(1.0 + 0.09 * (volts - volts.mean()))
    found = regress(
        [samples._replace(commanded=weaker, voltage=volts, knows=samples.knows | {"voltage"})], ready(start)
    ).fitted
    assert found.volts == pytest.approx(volts.mean())
    assert found.per_volt == pytest.approx(0.09, abs=0.01)
    assert abs(_apart(found, truth)["k_thrust"]) < 5e-3


def test_residuals_are_in_newtons_and_newton_metres(flown):
    """A shake of 0.3 m/s² is m a, one of ω is J ω̇, mean by mean; and independent are stretches of three seconds"""
    truth, start, samples = flown
    time = samples.time
    shaken, force = samples.body.copy(), samples.specific_force.copy()
    shaken[10] += 0.05 * np.sin(50.0 * time)
    force[0] += 0.3 * np.sin(9.0 * time)
    found, (own,) = regress([samples._replace(body=shaken, specific_force=force)], ready(start))
    first = np.round((own.time - 0.025) / PERIOD).astype(int)
    turning = 0.05 * (np.sin(50.0 * time[first + 12]) - np.sin(50.0 * time[first])) / (12 * PERIOD)
    needed = truth.inertia_B.xx * turning
    assert (own.torque[0] @ needed) / (needed @ needed) == pytest.approx(1.0, abs=0.1)
    pushed = truth.mass * 0.3 * np.sin(9.0 * own.time)
    assert (own.force[0] @ pushed) / (pushed @ pushed) == pytest.approx(1.0, abs=0.1)
    assert found.independent == pytest.approx(25.0 / 3.0, rel=0.03)


def test_commands_that_are_logged_too_seldom_tell_nothing_quick(flown):
    """Ten commands a second, as ArduPilot logs them: lag and inertia stay what they were; thrust and drag are told"""
    _, start, samples = flown
    fast, _ = regress([samples._replace(command_period=0.02)], ready(start))
    slow, _ = regress([samples._replace(command_period=0.1)], ready(start))
    assert "motor.rise" not in fast.held
    assert {"motor.rise", "motor.fall", "inertia.xx", "inertia.yy", "inertia.zz", "k_torque"} <= set(slow.held)
    assert slow.vehicle.inertia_B.xx == ready(start).inertia_B.xx
    assert not {"k_thrust", "drag.linear.x"} & set(slow.held)
