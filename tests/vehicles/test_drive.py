"""Operating point of a motor and its propeller: energy, closed forms, and a maker's test bench."""

import math

import pytest

from samara.vehicles.parts.motor import RPM_PER_RAD_S, motor
from samara.vehicles.parts.operating_point import (
    Drive,
    dc_resistance,
    drive_coefficients,
    full_throttle_point,
    hover_duty,
    motor_current,
    motor_voltage,
    operating_point,
)
from samara.vehicles.parts.propeller import propeller

OWN = Drive(k_thrust=1.2e-5, k_torque=1.9e-7, constant=0.0104, resistance=0.1, inductance=7e-5, no_load_current=0.7)


def test_both_equations_hold_at_the_speed_found():
    """Torque K (I − I₀) = kM Ω², and the voltage K Ω + (R + L Ω) I"""
    at = operating_point(0.6, 15.0, OWN)
    assert OWN.constant * (at.current - OWN.no_load_current) == pytest.approx(at.torque)
    lost = (OWN.resistance + OWN.inductance * at.speed) * at.current
    assert OWN.constant * at.speed + lost == pytest.approx(0.6 * 15.0, rel=1e-12)


def test_more_power_is_drawn_than_air_heat_and_friction_take():
    """V I_supply ≥ Q Ω + R I² + K I₀ Ω, and equal to it without inductance"""
    for coefficients, ratio in ((OWN, 1.02), (OWN._replace(inductance=0.0), 1.0)):
        point = operating_point(0.8, 15.0, coefficients)
        consumed = (
            point.torque * point.speed
            + coefficients.resistance * point.current**2
            + coefficients.constant * coefficients.no_load_current * point.speed
        )
        assert 15.0 * point.supply_current >= ratio * consumed * (1.0 - 1e-9)
    assert 15.0 * point.supply_current == pytest.approx(consumed)


# T-Motor's table of the U8II KV100 with G28x9.2 at 48 V: throttle, torque [N m], current of the supply [A], rpm
U8II = [
    (0.4, 0.77, 3.50, 1896),
    (0.5, 1.08, 6.00, 2268),
    (0.6, 1.35, 8.90, 2581),
    (0.7, 1.60, 12.20, 2858),
    (0.8, 1.87, 16.20, 3122),
    (0.9, 2.21, 21.40, 3379),
    (1.0, 2.73, 29.30, 3709),
]


def test_the_current_of_the_supply_is_duty_times_the_motors():
    """I_supply = d (Q/K + I₀) over the whole table of a large motor; K of its Kv, I₀ = 0.8 A"""
    for duty, torque, supply_current, _ in U8II:
        assert duty * (torque * 100.0 / RPM_PER_RAD_S + 0.8) == pytest.approx(supply_current, rel=0.05)


def test_one_inductance_makes_the_speeds_of_a_table():
    """d V = KΩ + (R + LΩ) I with R = 0.17 Ω, warm, and one L: volts within 6 % from 60 % throttle on, 12 % at 40 %"""
    for duty, torque, _, rpm in U8II:
        speed = rpm / RPM_PER_RAD_S
        coefficients = Drive(1.0, torque / speed**2, RPM_PER_RAD_S / 100.0, 0.17, 5e-5 * RPM_PER_RAD_S, 0.8)
        assert motor_voltage(speed, coefficients) == pytest.approx(48.0 * duty, rel=0.06 if duty > 0.55 else 0.12)


def test_without_inductance_it_is_the_dc_motor_in_closed_form():
    """d V = K Ω + R (I₀ + kM Ω²/K), a quadratic in Ω"""
    coefficients = OWN._replace(inductance=0.0)
    a, b, c = (
        coefficients.resistance * coefficients.k_torque / coefficients.constant,
        coefficients.constant,
        coefficients.resistance * coefficients.no_load_current - 0.5 * 15.0,
    )
    expected = (-b + math.sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
    assert operating_point(0.5, 15.0, coefficients).speed == pytest.approx(expected, rel=1e-12)
    assert dc_resistance(15.0, coefficients) == pytest.approx(coefficients.resistance)


def test_hover_is_the_inverse_of_working():
    """The thrust at the hover duty is the requested thrust."""
    duty = hover_duty(4.0, 15.0, OWN)
    assert operating_point(duty, 15.0, OWN).thrust == pytest.approx(4.0)
    assert motor_voltage(math.sqrt(4.0 / OWN.k_thrust), OWN) == pytest.approx(duty * 15.0)


def test_the_equivalent_dc_motor_turns_as_fast_at_full_throttle():
    """R of it is more than the winding's"""
    resistance = dc_resistance(15.0, OWN)
    plain = OWN._replace(inductance=0.0, resistance=resistance)
    assert resistance > OWN.resistance
    assert operating_point(1.0, 15.0, plain).speed == pytest.approx(operating_point(1.0, 15.0, OWN).speed)


def test_full_throttle_sags_the_battery():
    """V = V₀ − R n I at the voltage found, and a stiff battery does not sag"""
    at = full_throttle_point(16.8, 0.02, 4, OWN)
    voltage = 16.8 - 0.02 * 4 * at.supply_current
    assert operating_point(1.0, voltage, OWN).speed == pytest.approx(at.speed, rel=1e-9)
    assert full_throttle_point(16.8, 0.0, 4, OWN).speed == pytest.approx(operating_point(1.0, 16.8, OWN).speed)


def test_a_5_inch_motor_on_its_makers_bench():
    """MEPS Neon 2207 1950KV with a 5.1x4.5 of three blades at 24 V: 30342 rpm, 1699 g, 43 A (data sheet; its resistance is
    among the fits). At half throttle, which is in none, 20457 rpm, 763 g, 10.4 A at 24.9 V."""
    coefficients = drive_coefficients(motor("2207 1950KV"), propeller("5.1x4.5x3"))
    full, half = operating_point(1.0, 24.1, coefficients), operating_point(0.5, 24.9, coefficients)
    assert full.speed * RPM_PER_RAD_S == pytest.approx(30342.0, rel=0.06)
    assert full.thrust == pytest.approx(1.699 * 9.80665, rel=0.15)
    assert full.supply_current == pytest.approx(43.0, rel=0.2)
    assert half.speed * RPM_PER_RAD_S == pytest.approx(20457.0, rel=0.1)
    assert half.supply_current == pytest.approx(10.4, rel=0.25)


def test_current_at_rest_is_the_no_load_current():
    """I(0) = I₀"""
    assert motor_current(0.0, OWN) == OWN.no_load_current
