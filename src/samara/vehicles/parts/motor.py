"""Estimate a motor from its size and Kv: fits over data sheets and measurements, each with its scatter.

    R Kv² = 2.19·10⁵ (d/22)^−4.02 (h/10)^−1.01     [Ω (rpm/V)²]  43 motors for multirotors, scatter 34 %
    I₀    = 0.52 (d/22)^2.35 (h/10)^0.59 (Kv/1000)^1.16  [A]     177 motors, 33 %
    m     = 50.1 (d/22)^1.51 (h/10)^1.11           [g]           60 motors for multirotors, 16 %
    I_max = 36.5 (m/50)^1.11 (Kv/1000)^0.93        [A]           46 motors, 24 %

with the stator's diameter d and height h in mm. tests/vehicles/motor_data.csv has the motors, and a test repeats the fits.

In operation a brushless motor loses more voltage than the resistance R alone explains: copper is warm, controller and
leads add resistance, and the current commutates with every pole against the winding's inductance. As in a rectifier,
that drop is proportional to speed and current: V = KΩ + (1.42 R + LΩ) I. Stators of one shape have L ∝ N² h and K ∝ N h
d with N turns, so L Kv² d² h is a constant. That constant and the 1.42 are fitted to 24 motors at full throttle on test
stands, from 1104 to U8, every other motor of tests/vehicles/full_throttle_data.csv; for the other 22 the predicted drop
has a scatter of 28 % and is 13 % too low in the mean.

Motors of 7 to 13 mm are in no fit but that of mass (1103, 1404). Data sheets of 26 of them have 29 % more resistance than the
fit, with a scatter of 26 %; 22 runs of five of them on a stand lose 1.8 times the voltage.
"""

import math
import re
from typing import NamedTuple

from samara.core.sanitise import quote_value
from samara.vehicles.parts.uncertain import UncertainValue, exact_value, propagate_uncertainty

RPM_PER_RAD_S = 30.0 / math.pi

RESISTANCE = (2.19e5, -4.02, -1.01, 0.34)  # Ω (rpm/V)² at 22 x 10 mm, powers of d and h, scatter
NO_LOAD_CURRENT = (0.523, 2.345, 0.589, 1.159, 0.33)  # A at 22 x 10 mm and 1000 rpm/V, powers of d, h and Kv, scatter
MASS = (50.1e-3, 1.505, 1.107, 0.16)  # kg at 22 x 10 mm, powers of d and h, scatter
CURRENT = (36.5, 1.107, 0.932, 0.24)  # A at 50 g and 1000 rpm/V, powers of m and Kv, scatter of the newer ones
WARM_RESISTANCE_FACTOR = 1.42  # of the resistance: copper at 100 °C contributes 1.3, controller and leads the remainder
INDUCTANCE = (3.99e4, 0.39)  # Ω/rpm (rpm/V)² mm³: L Kv² d² h, and a scatter that gives 26 % for the drop of both terms
KV_SPREAD = 0.04  # makers state Kv to about 5 %
_ROTOR_MASS_FRACTION = 0.45  # of the mass turns: bell, magnets and shaft
# From the stator's edge to the centre of magnets and bell, of the diameter and [m] at most: half the distance to the outside of
# motors of 11, 22 and 25 mm, which are 13.5, 27.5 and 30.8 mm wide (Happymodel EX1103, T-Motor V2207, a 2507)
_BELL_OFFSET = (0.06, 1.5e-3)
_ROTOR_SPREAD = 0.3
_EXTRAPOLATION_SPREAD = 0.5  # more scatter per ln of the diameter outside 14 to 81 mm

# Brushed coreless motors, diameter d and length l [mm] of the can: catalogue values of 615, 720 and 8520 at 3.7 V
BRUSHED_RESISTANCE = (2.75e11, 0.3)  # Ω (rpm/V)² mm³: R Kv² d² l
BRUSHED_MASS = (3.45e-6, 0.15)  # kg/mm³ of d² l
BRUSHED_NO_LOAD = (1.0e-4, 0.4)  # A/mm³ of d² l

_PATTERN = re.compile(
    r"\s*[A-Za-z-]{0,6}?\s*(\d{3,5}(?:\.\d+)?)\s*[,/ -]?\s*(\d+(?:\.\d+)?)\s*kv\s*(brushed|brushless)?\s*",
    re.IGNORECASE,
)


class MotorPart(NamedTuple):
    """Kv, torque constant K = 60/(2π Kv) [N m/A], warm resistance, its increase with speed [Ω s/rad], and other parameters."""

    diameter: float  # [mm] of the stator, or of the can of a brushed motor
    height: float  # [mm]
    brushed: bool
    kv: UncertainValue  # [rpm/V]
    constant: UncertainValue
    resistance: UncertainValue
    inductance: UncertainValue
    no_load_current: UncertainValue
    inertia: UncertainValue
    mass: UncertainValue
    current_max: UncertainValue


def motor(text: str) -> MotorPart:
    """Parse and estimate "2207 1950KV", "2806.5 1300KV", "MN4014 330KV", "08028 10000KV" or "8520 17000KV brushed"."""
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"motors = {quote_value(text)}: expected the stator's size and Kv such as 2207 1950KV, or 8520 17000KV brushed"
        )
    kv, brushed = float(match[2]), (match[3] or "").lower() == "brushed"
    diameter, height = _can_size(match[1]) if brushed else _stator_size(match[1], kv)
    if not 10.0 <= kv <= 60000.0:
        raise ValueError(f"motors = {quote_value(text)}: {kv:g} rpm/V; expected 10 to 60000")
    if not (3.0 <= diameter <= 200.0 and 0.5 <= height <= 120.0) or (not brushed and height > 2.0 * diameter):
        raise ValueError(
            f"motors = {quote_value(text)}: a stator of {diameter:g} x {height:g} mm; expected diameter and height such as 2207"
        )
    stated_kv = UncertainValue(kv, KV_SPREAD, f"{text.strip()}: as printed, accurate to 5 %")
    return _brushed_motor(diameter, height, stated_kv) if brushed else _brushless_motor(diameter, height, stated_kv)


def _stator_size(digits: str, kv: float) -> tuple[float, float]:
    """2207: 22 x 7 mm; 2806.5: 28 x 6.5; 08028: 8 x 2.8; 10015 of a slow motor: 100 x 15"""
    digits_before, _, decimals = digits.partition(".")
    if len(digits_before) == 3:
        digits_before = f"0{digits_before}"
    if len(digits_before) == 5 and not decimals:
        return (
            (float(digits_before[:3]), float(digits_before[3:]))
            if kv < 400.0
            else (float(digits_before[:2]), 0.1 * float(digits_before[2:]))
        )
    return float(digits_before[:2]), float(f"{digits_before[2:]}.{decimals or 0}")


def _can_size(digits: str) -> tuple[float, float]:
    """0716 or 716: 7 x 16 mm; 8520: 8.5 x 20; 1020: 10 x 20"""
    integer_digits = digits.partition(".")[0]
    if len(integer_digits) == 3:
        integer_digits = f"0{integer_digits}"
    diameter = float(integer_digits[:2])
    return (diameter if diameter <= 20.0 else 0.1 * diameter), float(integer_digits[2:])


def _brushless_motor(d: float, h: float, kv: UncertainValue) -> MotorPart:
    x, y = d / 22.0, h / 10.0
    extra_spread = _EXTRAPOLATION_SPREAD * max(0.0, math.log(14.0 / d), math.log(d / 81.0))
    motor_text = f"a {d:g} x {h:g} mm stator of {kv.value:g} rpm/V"
    a, b, c, s = RESISTANCE
    resistance = propagate_uncertainty(
        f"fit over motors for {motor_text}, warm and with controller and leads",
        lambda k: WARM_RESISTANCE_FACTOR * a * x**b * y**c / k**2,
        kv,
        model_spread=math.hypot(s, extra_spread),
    )
    e, f, g, p, s = NO_LOAD_CURRENT
    no_load = propagate_uncertainty(
        f"fit over motors for {motor_text}", lambda k: e * x**f * y**g * (k / 1000.0) ** p, kv, model_spread=s
    )
    u, v, w, s = MASS
    mass = UncertainValue(u * x**v * y**w, math.hypot(s, 0.5 * extra_spread), f"fit over motors for {motor_text}")
    i, q, r, s = CURRENT
    current = propagate_uncertainty(
        f"fit over motors for {motor_text}",
        lambda m, k: i * (m / 0.05) ** q * (k / 1000.0) ** r,
        mass,
        kv,
        model_spread=s,
    )
    z, s = INDUCTANCE
    inductance = propagate_uncertainty(
        f"24 motors at full throttle, for {motor_text}",
        lambda k: z * RPM_PER_RAD_S / (k**2 * d * d * h),
        kv,
        model_spread=s,
    )
    radius = 0.5e-3 * d + min(1e-3 * _BELL_OFFSET[0] * d, _BELL_OFFSET[1])
    inertia = propagate_uncertainty(
        "45 % of the motor's mass on the magnets' circle",
        lambda m: _ROTOR_MASS_FRACTION * m * radius**2,
        mass,
        model_spread=_ROTOR_SPREAD,
    )
    return MotorPart(d, h, False, kv, _torque_constant(kv), resistance, inductance, no_load, inertia, mass, current)


def _brushed_motor(d: float, length: float, kv: UncertainValue) -> MotorPart:
    volume = d * d * length
    motor_text = f"a coreless motor of {d:g} x {length:g} mm and {kv.value:g} rpm/V"
    a, s = BRUSHED_RESISTANCE
    resistance = propagate_uncertainty(f"catalogues of {motor_text}", lambda k: a / (k**2 * volume), kv, model_spread=s)
    b, s = BRUSHED_MASS
    mass = UncertainValue(b * volume, s, f"catalogues of {motor_text}")
    c, s = BRUSHED_NO_LOAD
    no_load = UncertainValue(c * volume, s, f"catalogues of {motor_text}")
    inertia = propagate_uncertainty(
        "a quarter of the motor's mass at 0.35 diameters",
        lambda m: 0.25 * m * (0.35e-3 * d) ** 2,
        mass,
        model_spread=_ROTOR_SPREAD,
    )
    current = propagate_uncertainty("stalled at 4.2 V", lambda r: 4.2 / r, resistance)
    no_inductance = exact_value(0.0, "the commutator of a brushed motor causes no inductive drop")
    return MotorPart(
        d, length, True, kv, _torque_constant(kv), resistance, no_inductance, no_load, inertia, mass, current
    )


def _torque_constant(kv: UncertainValue) -> UncertainValue:
    return propagate_uncertainty("60/(2π Kv)", lambda k: RPM_PER_RAD_S / k, kv)
