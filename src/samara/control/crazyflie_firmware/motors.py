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
"""The firmware's function by Samara's name without the prefix."""

NAMES = tuple(f"{PREFIX}{name}" for name in FUNCTIONS)


FULL = 65535  # 16 bits
LEAST_SUPPLY = 2.0  # [V]: below it the firmware rejects the measurement and stops
FORGETTING = 0.01  # of the filter of the supply voltage, per millisecond


class Curve(NamedTuple):
    """T = c₀ + c₁ V + c₂ V² + c₃ V³, from `least` to `most` [N], and the ratio of reaction torque to thrust  [m]."""

    coefficients: tuple[float, float, float, float]
    least: float
    most: float
    torque_ratio: float


_SMALL = 0.012817578393224994
CURVES = {
    "Crazyflie 2.1+ propellers": Curve(
        (-0.02476537915958403, 0.06523793527519485, -0.026792504967750107, 0.006776789303971145),
        _SMALL,
        0.12,
        0.0069928948992470565,
    ),
    "thrust upgrade kit": Curve(
        (0.006728127583707208, 0.01011557616217668, 0.010263198062061085, 0.0028358638322392503),
        0.01922636758983749,
        0.18,
        0.0051648627905205285,
    ),
    "legacy propellers": Curve(
        (-0.014830744918356092, 0.04724465241828281, -0.01847364358025878, 0.005960923942142),
        _SMALL,
        0.12,
        0.007350862856566459,
    ),
    "Crazyflie 2.1 Brushless": Curve(
        (-0.014058926705279723, 0.04265273261724981, 0.0018327760144017432, 0.0020576974784587178),
        0.02136263065537499,
        0.2,
        0.00569278844371417,
    ),
}
"""By the propellers that a build of the firmware is for."""


def curve_of(max_thrust: float, torque_ratio: float) -> tuple[str, Curve]:
    """Identify the curve of a build by its torque ratio; `most` replaces its maximum thrust, which brushless builds choose."""
    for name, curve in CURVES.items():
        if abs(torque_ratio / curve.torque_ratio - 1.0) < 1e-3:
            return name, curve._replace(most=max_thrust)
    expected = ", ".join(f"{curve.torque_ratio:.5f} m ({name})" for name, curve in CURVES.items())
    raise ValueError(
        f"this cffirmware is built for motors of {max_thrust:.4g} N and {torque_ratio:.5f} m, whose thrust curve is unknown; "
        f"expected {expected}, with ENABLE_THRUST_BAT_COMPENSATED as by default"
    )


def thrust_of_voltage(volts: float, curve: Curve) -> float:
    """T = c₀ + c₁ V + c₂ V² + c₃ V³, not below 0, and 0 for a motor at rest  [N]"""
    c0, c1, c2, c3 = curve.coefficients
    return max(0.0, c0 + volts * (c1 + volts * (c2 + volts * c3))) if volts > 0.0 else 0.0


def voltage_of_thrust(thrust: float, curve: Curve) -> float:
    """The one real root V of c₃ V³ + c₂ V² + c₁ V + c₀ = T, by Cardano's formula  [V]"""
    c0, c1, c2, c3 = curve.coefficients
    p, r = -c2 / (3.0 * c3), c1 / (3.0 * c3)
    q = p**3 + (c2 * c1 - 3.0 * c3 * (c0 - thrust)) / (6.0 * c3 * c3)
    root = math.sqrt(q * q + (r - p * p) ** 3)
    return math.cbrt(q + root) + math.cbrt(q - root) + p


def pwm_of_thrust(thrust_value: float, supply: float, curve: Curve) -> int:
    """65535 V(T)/V_supply of a thrust of 0 … 65535, which may exceed 65535; 0 below the minimum thrust"""
    thrust = thrust_value / FULL * curve.most
    if supply < LEAST_SUPPLY or thrust < curve.least:
        return 0
    return int(FULL * voltage_of_thrust(thrust, curve) / supply)


def thrust_of_pwm(pwm: float, supply: float, curve: Curve) -> float:
    """T(PWM/65535 V_supply): the thrust of the motor  [N]"""
    return thrust_of_voltage(pwm / FULL * supply, curve)
