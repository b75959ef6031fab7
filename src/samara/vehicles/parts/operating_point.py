"""A motor, its speed controller and its propeller at work: how fast they turn, what they pull and what they draw.

    K (I − I₀) = kM Ω²,    d V = K Ω + (R + L Ω) I,    I_supply = d I

d is the duty, that is the throttle: the fraction of the supply's voltage V that the controller passes on. What the supply
gives beyond air, R I² and friction heats iron and controller (T-Motor's table of the U8II KV100: tests/vehicles/test_drive.py).
"""

import math
from typing import NamedTuple

from samara.vehicles.parts.motor import RPM_PER_RAD_S, Motor
from samara.vehicles.parts.propeller import Propeller, propeller

LEAST_SAGGED = 0.3  # of the open voltage: a battery that sags further feeds nothing


class Drive(NamedTuple):
    """The numbers of the two equations, in SI units."""

    k_thrust: float
    k_torque: float
    constant: float
    resistance: float
    inductance: float
    no_load_current: float


class Working(NamedTuple):
    """Speed [rad/s], thrust [N], torque [N m], the motor's current and what the supply gives [A]."""

    speed: float
    thrust: float
    torque: float
    current: float
    drawn: float


def at_full_throttle(motor: Motor, size: str, voltage: float) -> Propeller:
    """The propeller at the speed that full throttle gives it, to two figures: its Reynolds and Mach numbers are not hover's"""
    own = propeller(size)
    for _ in range(2):
        own = propeller(size, rpm=float(f"{working(1.0, voltage, drive(motor, own)).speed * RPM_PER_RAD_S:.2g}"))
    return own


def drive(motor: Motor, propeller: Propeller) -> Drive:
    """The most likely numbers of both."""
    return Drive(
        propeller.k_thrust.value,
        propeller.k_torque.value,
        motor.constant.value,
        motor.resistance.value,
        motor.inductance.value,
        motor.no_load_current.value,
    )


def current_at(speed: float, own: Drive) -> float:
    """I = I₀ + kM Ω²/K  [A]"""
    return own.no_load_current + own.k_torque * speed * speed / own.constant


def voltage_at(speed: float, own: Drive) -> float:
    """d V = K Ω + (R + L Ω) I  [V]"""
    return own.constant * speed + (own.resistance + own.inductance * speed) * current_at(speed, own)


def hover_duty(thrust: float, voltage: float, own: Drive) -> float:
    """d at which the rotor pulls `thrust`, Ω = √(T/kF); more than 1 where it cannot"""
    return voltage_at(math.sqrt(thrust / own.k_thrust), own) / voltage


def working(duty: float, voltage: float, own: Drive) -> Working:
    """Ω by bisection between 0 and d V/K: the voltage it takes grows with the speed"""
    low, high = 0.0, duty * voltage / own.constant
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if voltage_at(middle, own) < duty * voltage else (low, middle)
    speed = 0.5 * (low + high)
    current = current_at(speed, own)
    return Working(speed, own.k_thrust * speed**2, own.k_torque * speed**2, current, duty * current)


def full_throttle(open_voltage: float, source_resistance: float, rotors: int, own: Drive) -> Working:
    """All rotors at d = 1 on one battery, V = V₀ − R_b n I: by bisection in V"""
    low, high = LEAST_SAGGED * open_voltage, open_voltage
    for _ in range(50):
        middle = 0.5 * (low + high)
        left = open_voltage - source_resistance * rotors * working(1.0, middle, own).drawn
        low, high = (middle, high) if left > middle else (low, middle)
    return working(1.0, 0.5 * (low + high), own)


def dc_resistance(voltage: float, own: Drive) -> float:
    """R = (V − K Ω)/I at full throttle: of the DC motor without inductance that turns this propeller as fast  [Ω]"""
    at_full = working(1.0, voltage, own)
    return (voltage - own.constant * at_full.speed) / at_full.current
