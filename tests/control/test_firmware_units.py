"""Units and signs of the Crazyflie firmware's inputs and of its motors, each against an independent case."""

import math

import numpy as np
import pytest

import samara
from samara.control.crazyflie_firmware.conversions import (
    FIELDS,
    firmware_inputs,
    firmware_sensors,
    firmware_setpoint,
    firmware_state,
    flatten_inputs,
)
from samara.control.crazyflie_firmware.motors import (
    MAX_PWM,
    THRUST_CURVES,
    identify_curve,
    pwm_from_thrust,
    thrust_from_pwm,
    thrust_from_voltage,
    voltage_from_thrust,
)
from samara.core.algebra import ZERO, Vec3, matrix_from_quat, quat_from_axis_angle, quat_from_euler, rotate
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference
from samara.plan import trajectory
from samara.plan.flatness import attitude_from_thrust_direction

G = 9.80665
LEVEL = state_at_rest(samara.vehicle("crazyflie"))
X, Y, Z = Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0)


def rotated_state(axis: Vec3, degrees: float):
    return LEVEL._replace(q_WB=quat_from_axis_angle(axis, math.radians(degrees)))


def test_right_side_down_is_a_positive_roll_in_degrees():
    state = rotated_state(X, 30.0)
    assert rotate(state.q_WB, Y).z > 0.0  # its left side is up
    assert firmware_state(state, ZERO, G).attitude == pytest.approx((30.0, 0.0, 0.0), abs=1e-12)


def test_nose_up_is_a_positive_pitch_in_degrees():
    state = rotated_state(Y, -20.0)
    assert rotate(state.q_WB, X).z > 0.0
    assert firmware_state(state, ZERO, G).attitude == pytest.approx((0.0, 20.0, 0.0), abs=1e-12)


def test_to_the_left_is_a_positive_yaw_in_degrees():
    assert firmware_state(rotated_state(Z, 100.0), ZERO, G).attitude == pytest.approx((0.0, 0.0, 100.0), abs=1e-12)


def test_the_quaternion_is_converted_by_component_names():
    q_WB = quat_from_euler(0.1, 0.2, 0.3)
    names = dict(
        zip(FIELDS, flatten_inputs(firmware_inputs(LEVEL._replace(q_WB=q_WB), ZERO, Reference(ZERO), G)), strict=True)
    )
    assert [names[f"state.attitudeQuaternion.{name}"] for name in "wxyz"] == list(q_WB)


def test_units_of_position_velocity_and_acceleration():
    converted = firmware_state(
        LEVEL._replace(p_W=Vec3(1.0, 2.0, 3.0), v_W=Vec3(4.0, 5.0, 6.0)), Vec3(G, 0.0, -2.0 * G), G
    )
    assert converted.position == (1.0, 2.0, 3.0) and converted.velocity == (4.0, 5.0, 6.0)
    assert converted.acc == pytest.approx((1.0, 0.0, -2.0))


def test_the_gyroscope_is_in_degrees_with_the_same_signs():
    spinning = LEVEL._replace(omega_B=Vec3(math.pi, -0.5 * math.pi, 0.1 * math.pi))
    assert firmware_sensors(spinning, ZERO, G).gyro == pytest.approx((180.0, -90.0, 18.0))


@pytest.mark.parametrize(
    ("state", "a_W", "expected"),
    [
        (LEVEL, ZERO, (0.0, 0.0, 1.0)),
        (rotated_state(X, 90.0), ZERO, (0.0, 1.0, 0.0)),  # its left side up
        (rotated_state(Y, 180.0), ZERO, (0.0, 0.0, -1.0)),
        (rotated_state(Y, 33.0), Vec3(0.0, 0.0, -G), (0.0, 0.0, 0.0)),  # in free fall
        (rotated_state(Z, 90.0), Vec3(0.0, G, 0.0), (1.0, 0.0, 1.0)),
    ],
)
def test_the_accelerometer_measures_specific_force(state, a_W, expected):
    assert firmware_sensors(state, a_W, G).acc == pytest.approx(expected, abs=1e-12)


def test_a_set_point_is_metres_and_seconds_and_its_yaw_degrees_within_half_a_turn():
    derivatives = [Vec3(*(10.0 * k + i for i in range(3))) for k in range(4)]
    setpoint = firmware_setpoint(Reference(*derivatives, yaw=1.5 * math.pi), G)
    assert (setpoint.position, setpoint.velocity, setpoint.acceleration, setpoint.jerk) == tuple(derivatives)
    assert setpoint.attitude.yaw == pytest.approx(-90.0)


def test_the_rates_of_a_set_point_are_those_of_its_attitude():
    """For a circle with a rotating heading, against differences of the attitude; in degrees, with the gyroscope's signs"""
    task, time, h = trajectory.circle((0.0, 0.0, 1.0), radius=1.0, speed=2.0, laps=2), 3.0, 1e-5

    def attitude(t):
        reference_at_t = task.evaluate(t)._replace(yaw=0.7 * t)
        return np.array(
            attitude_from_thrust_direction(reference_at_t.a_W + Vec3(0.0, 0.0, G), reference_at_t.yaw), dtype=float
        ).reshape(3, 3)

    spin = attitude(time).T @ (attitude(time + h) - attitude(time - h)) / (2.0 * h)
    omega = np.degrees([spin[2, 1], spin[0, 2], spin[1, 0]])
    reference = task.evaluate(time)._replace(yaw=0.7 * time, yaw_rate=0.7)
    assert np.array(firmware_setpoint(reference, G).attitudeRate) == pytest.approx(omega, rel=1e-6)
    assert np.abs(omega).min() > 1.0  # all three components are tested
    assert np.isfinite(np.array(matrix_from_quat(LEVEL.q_WB))).all()


# Motors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", THRUST_CURVES.values(), ids=THRUST_CURVES)
def test_the_voltage_of_a_thrust_is_the_real_root_of_its_cubic(curve):
    for thrust in np.linspace(curve.min_thrust, curve.max_thrust, 7):
        c0, c1, c2, c3 = curve.coefficients
        roots = np.roots([c3, c2, c1, c0 - thrust])
        (real,) = roots[np.abs(roots.imag) < 1e-9].real
        assert voltage_from_thrust(thrust, curve) == pytest.approx(real, rel=1e-12)
        assert thrust_from_voltage(real, curve) == pytest.approx(thrust, rel=1e-12)


@pytest.mark.parametrize("curve", THRUST_CURVES.values(), ids=THRUST_CURVES)
@pytest.mark.parametrize("supply", [3.3, 4.2])
def test_the_battery_voltage_is_compensated(curve, supply):
    """The PWM of a thrust gives that thrust at any supply, to a count"""
    desired = 0.6 * MAX_PWM
    pwm = pwm_from_thrust(desired, supply, curve)
    step = thrust_from_pwm(pwm + 1, supply, curve) - thrust_from_pwm(pwm, supply, curve)
    assert 0.0 <= desired / MAX_PWM * curve.max_thrust - thrust_from_pwm(pwm, supply, curve) <= step
    assert pwm_from_thrust(desired, 3.3, curve) > pwm_from_thrust(desired, 4.2, curve)


def test_a_motor_stands_below_its_minimum_thrust_and_supply_voltage():
    curve = THRUST_CURVES["legacy propellers"]
    min_thrust = curve.min_thrust / curve.max_thrust * MAX_PWM
    assert pwm_from_thrust(0.99 * min_thrust, 4.0, curve) == 0 < pwm_from_thrust(1.01 * min_thrust, 4.0, curve)
    assert pwm_from_thrust(0.5 * MAX_PWM, 1.9, curve) == 0
    assert thrust_from_pwm(0, 4.2, curve) == 0.0
    assert pwm_from_thrust(MAX_PWM, 2.5, curve) > MAX_PWM  # the power distribution cuts it off


def test_a_build_is_identified_by_its_torque_ratio():
    name, curve = identify_curve(0.21, 0.00569279)
    assert name == "Crazyflie 2.1 Brushless" and curve.max_thrust == 0.21
    with pytest.raises(ValueError, match=r"built for motors of 0\.1125 N and 0\.00596 m.*expected 0\.00699 m"):
        identify_curve(0.1125, 0.005964552)
