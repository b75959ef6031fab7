"""Operating point of a motor with speed controller and propeller: speed, thrust and current.

    K (I − I₀) = kM Ω²,    d V = K Ω + (R + L Ω) I,    I_supply = d I

d is the duty, that is the throttle: the fraction of the supply's voltage V that the controller passes on. The remaining
supply power, beyond air, R I² and friction, heats iron and controller (T-Motor's table of the U8II KV100:
tests/vehicles/test_drive.py).
"""

import math
from typing import NamedTuple

from samara.vehicles.parts.motor import RPM_PER_RAD_S, MotorPart
from samara.vehicles.parts.propeller import Propeller, propeller

MIN_LOADED_VOLTAGE_FRACTION = 0.3  # of the open-circuit voltage: lower bound of the search for the voltage under load


class Drive(NamedTuple):
    """The coefficients of the two equations, in SI units."""

    k_thrust: float
    k_torque: float
    constant: float
    resistance: float
    inductance: float
    no_load_current: float


class OperatingPoint(NamedTuple):
    """Speed [rad/s], thrust [N], torque [N m], the motor's current and the supply current [A]."""

    speed: float
    thrust: float
    torque: float
    current: float
    supply_current: float


def full_throttle_propeller(motor: MotorPart, size: str, voltage: float) -> Propeller:
    """Estimate the propeller at its full-throttle speed (two digits), where Reynolds and Mach numbers differ from hover's."""
    estimate = propeller(size)
    for _ in range(2):
        estimate = propeller(
            size,
            rpm=float(
                f"{operating_point(1.0, voltage, drive_coefficients(motor, estimate)).speed * RPM_PER_RAD_S:.2g}"
            ),
        )
    return estimate


def drive_coefficients(motor: MotorPart, propeller: Propeller) -> Drive:
    """Return the most likely coefficients of motor and propeller."""
    return Drive(
        propeller.k_thrust.value,
        propeller.k_torque.value,
        motor.constant.value,
        motor.resistance.value,
        motor.inductance.value,
        motor.no_load_current.value,
    )


def motor_current(speed: float, drive: Drive) -> float:
    """I = I₀ + kM Ω²/K  [A]"""
    return drive.no_load_current + drive.k_torque * speed * speed / drive.constant


def motor_voltage(speed: float, drive: Drive) -> float:
    """d V = K Ω + (R + L Ω) I  [V]"""
    return drive.constant * speed + (drive.resistance + drive.inductance * speed) * motor_current(speed, drive)


def hover_duty(thrust: float, voltage: float, drive: Drive) -> float:
    """d at which the rotor's thrust is `thrust`, Ω = √(T/kF); more than 1 if the rotor cannot reach that thrust"""
    return motor_voltage(math.sqrt(thrust / drive.k_thrust), drive) / voltage


def operating_point(duty: float, voltage: float, drive: Drive) -> OperatingPoint:
    """Ω by bisection between 0 and d V/K: the required voltage grows with the speed"""
    low, high = 0.0, duty * voltage / drive.constant
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if motor_voltage(middle, drive) < duty * voltage else (low, middle)
    speed = 0.5 * (low + high)
    current = motor_current(speed, drive)
    return OperatingPoint(speed, drive.k_thrust * speed**2, drive.k_torque * speed**2, current, duty * current)


def full_throttle_point(open_voltage: float, source_resistance: float, rotors: int, drive: Drive) -> OperatingPoint:
    """All rotors at d = 1 on one battery, V = V₀ − R_b n I: by bisection in V"""
    low, high = MIN_LOADED_VOLTAGE_FRACTION * open_voltage, open_voltage
    for _ in range(50):
        middle = 0.5 * (low + high)
        loaded_voltage = open_voltage - source_resistance * rotors * operating_point(1.0, middle, drive).supply_current
        low, high = (middle, high) if loaded_voltage > middle else (low, middle)
    return operating_point(1.0, 0.5 * (low + high), drive)


def dc_resistance(voltage: float, drive: Drive) -> float:
    """R = (V − K Ω)/I at full throttle: of the DC motor without inductance that has the same full-throttle speed  [Ω]"""
    point = operating_point(1.0, voltage, drive)
    return (voltage - drive.constant * point.speed) / point.current
