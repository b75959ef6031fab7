"""Conversion of the firmware's motor thrust to PWM, and of the PWM to the thrust of the motor.

Values up to 65535 represent thrusts up to the motor's maximum. The motor voltage follows from a cubic that Bitcraze measured
for each propeller type, and the PWM is the ratio of that voltage to the supply voltage. The firmware computes this outside its
bindings, in `motors.c`; the cubics are those of its `platform_defaults`.
"""

import math
from typing import NamedTuple

PREFIX = "crazyflie_"
RATE = 1000.0  # [Hz] of the firmware's loop; slower parts count its ticks

FUNCTIONS = {
    "pid": "controllerPid",
    "mellinger": "controllerMellinger",
    "brescianini": "controllerBrescianini",
    "lee": "controllerLee",
    "indi": "controllerINDI",
}
"""Functions of the firmware by Samara's name of the controller, without the prefix."""

NAMES = tuple(f"{PREFIX}{name}" for name in FUNCTIONS)


MAX_PWM = 65535  # 16 bits
MIN_SUPPLY_VOLTAGE = 2.0  # [V]: below it the firmware rejects the measurement and stops
SUPPLY_FILTER_GAIN = 0.01  # of the low-pass filter on the supply voltage, per millisecond


class ThrustPolynomial(NamedTuple):
    """T = c₀ + c₁ V + c₂ V² + c₃ V³, from `min_thrust` to `max_thrust` [N], and the ratio of reaction torque to thrust  [m]."""

    coefficients: tuple[float, float, float, float]
    min_thrust: float
    max_thrust: float
    torque_ratio: float


_MIN_THRUST_SMALL = 0.012817578393224994
THRUST_CURVES = {
    "Crazyflie 2.1+ propellers": ThrustPolynomial(
        (-0.02476537915958403, 0.06523793527519485, -0.026792504967750107, 0.006776789303971145),
        _MIN_THRUST_SMALL,
        0.12,
        0.0069928948992470565,
    ),
    "thrust upgrade kit": ThrustPolynomial(
        (0.006728127583707208, 0.01011557616217668, 0.010263198062061085, 0.0028358638322392503),
        0.01922636758983749,
        0.18,
        0.0051648627905205285,
    ),
    "legacy propellers": ThrustPolynomial(
        (-0.014830744918356092, 0.04724465241828281, -0.01847364358025878, 0.005960923942142),
        _MIN_THRUST_SMALL,
        0.12,
        0.007350862856566459,
    ),
    "Crazyflie 2.1 Brushless": ThrustPolynomial(
        (-0.014058926705279723, 0.04265273261724981, 0.0018327760144017432, 0.0020576974784587178),
        0.02136263065537499,
        0.2,
        0.00569278844371417,
    ),
}
"""Thrust curves by the propellers for which the firmware is built."""


def identify_curve(max_thrust: float, torque_ratio: float) -> tuple[str, ThrustPolynomial]:
    """Identify the curve of a build by its torque ratio; `max_thrust` replaces its maximum thrust, which brushless
    builds choose."""
    for name, curve in THRUST_CURVES.items():
        if abs(torque_ratio / curve.torque_ratio - 1.0) < 1e-3:
            return name, curve._replace(max_thrust=max_thrust)
    expected = ", ".join(f"{curve.torque_ratio:.5f} m ({name})" for name, curve in THRUST_CURVES.items())
    raise ValueError(
        f"this cffirmware is built for motors of {max_thrust:.4g} N and {torque_ratio:.5f} m, whose thrust curve is unknown; "
        f"expected {expected}, with ENABLE_THRUST_BAT_COMPENSATED as by default"
    )


def thrust_from_voltage(volts: float, curve: ThrustPolynomial) -> float:
    """T = c₀ + c₁ V + c₂ V² + c₃ V³, not below 0, and 0 for a motor at rest  [N]"""
    c0, c1, c2, c3 = curve.coefficients
    return max(0.0, c0 + volts * (c1 + volts * (c2 + volts * c3))) if volts > 0.0 else 0.0


def voltage_from_thrust(thrust: float, curve: ThrustPolynomial) -> float:
    """The one real root V of c₃ V³ + c₂ V² + c₁ V + c₀ = T, by Cardano's formula  [V]"""
    c0, c1, c2, c3 = curve.coefficients
    p, r = -c2 / (3.0 * c3), c1 / (3.0 * c3)
    q = p**3 + (c2 * c1 - 3.0 * c3 * (c0 - thrust)) / (6.0 * c3 * c3)
    root = math.sqrt(q * q + (r - p * p) ** 3)
    return math.cbrt(q + root) + math.cbrt(q - root) + p


def pwm_from_thrust(thrust_value: float, supply: float, curve: ThrustPolynomial) -> int:
    """PWM = 65535 V(T)/V_supply of a thrust from 0 to 65535; 0 below the minimum thrust; the PWM may exceed 65535"""
    thrust = thrust_value / MAX_PWM * curve.max_thrust
    if supply < MIN_SUPPLY_VOLTAGE or thrust < curve.min_thrust:
        return 0
    return int(MAX_PWM * voltage_from_thrust(thrust, curve) / supply)


def thrust_from_pwm(pwm: float, supply: float, curve: ThrustPolynomial) -> float:
    """T(PWM/65535 V_supply): the thrust of the motor  [N]"""
    return thrust_from_voltage(pwm / MAX_PWM * supply, curve)
