"""Estimate a propeller from its size: blade-element theory on a generic blade, corrected by similar measured propellers.

    C = C_bem e^m,   m = Σ w_i ln(C_i/C_bem,i) / Σ w_i,   w = e^(−d²/2),   d² = (Δ ln Re/0.35)² + (Δ(P/D)/0.15)²

with two pseudo-observations of weight 1 at the mean of all; Re ∝ n D². The uncertainty is the local error of this rule when it
predicts a measured propeller from other makers' families. It grows outside the table: UIUC's volumes 1 and 2 have two blades
and 2.2 to 19 inches. A propeller with more thrust than predicted also takes more power: the errors of both correlate.
"""

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.sanitise import quote_value
from samara.core.types import Array
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.propeller.blade import INCH
from samara.vehicles.parts.propeller_tables import (
    CHORD,
    J0_FRACTIONS,
    STATIONS,
    ApcRun,
    PropellerSize,
    compute_theory,
    generic_blade,
    measured_propellers,
    read_apc,
)
from samara.vehicles.parts.uncertain import UncertainValue, exact_value

DEFAULT_TIP_SPEED = 80.0  # [m/s] unless the rpm is set: multirotors hover at 60 to 100
THRUST_TORQUE_CORRELATION = (
    0.8  # correlation of the errors of kF and kM, of measured propellers whose family was left out
)
_NEIGHBOUR_SCALES = (0.35, 0.15)  # length scales of ln Re and P/D
_MEAN_WEIGHT = 2.0  # weight of the mean of all, which corrects a propeller without neighbours
_SMALL_SAMPLE_FACTOR = (
    1.15  # correction for only 26 families: 95 % of the intervals then cover the propellers of a family left out
)
_MEASURED_DIAMETERS = (2.2 * INCH, 19.0 * INCH)
_BLADE_COUNT_SPREAD = (
    0.25  # per ln(B/2): theory errs by 10 % for three blades; only two-bladed propellers were measured
)
_EXTRAPOLATION_SPREAD = 0.12  # per ln of the diameter outside the table: no measurements at those Reynolds numbers
_APC_SPREAD = (
    0.08  # APC's files are computed; they agree with UIUC's measurements of the same propellers to this accuracy
)
MAX_HALFWAY_CT_RATIO = 0.999  # of the static Ct, at half the J of zero thrust
# one blade with its part of the hub, over 30 propellers of 40 mm to 29 inches (tests/vehicles/propeller_masses.csv): small ones
# are moulded and scale with a power of 2.4 of their size, large ones are of thin carbon
_BLADE_MASS, _MASS_SPREAD = 3.34e-3, 0.25  # [kg] at 0.2 m, scatter
_MASS_POWERS = (1.966, -0.1356)  # of ln(D/0.2 m) and of its square
_BLADE_MASS_FRACTION = 0.75  # the rest is hub
_MIN_DIAMETER, _MAX_DIAMETER = 0.02, 3.0  # [m]

_SIZE_PATTERN = re.compile(
    r"\s*(\d+\.?\d*|\.\d+)\s*[x×]\s*(\d+\.?\d*|\.\d+)(?:\s*[x×]\s*(\d+))?\s*(mm|cm|m|in|inch|\")?\s*", re.IGNORECASE
)
_CODE_PATTERN = re.compile(r"\s*(\d\d)(\d\d)(?:\s*[x×-]\s*(\d)|(\d))?\s*", re.IGNORECASE)
_MIN_PITCH_RATIO, _MAX_PITCH_RATIO = 0.15, 1.6
_MAX_CODE_BLADES, _RACING_BLADES = (
    4,
    3,
)  # a fifth digit above 4 is a decimal of the pitch of a three-bladed racing propeller
SIZE_EXAMPLES = "5.1x4.3x3, 5143x3, 51433, 10x4.5, 1045 or '45x35 mm'"
_UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": INCH, "inch": INCH, '"': INCH, "": INCH}


class CoefficientCurve(NamedTuple):
    """A coefficient over the advance ratio J = V/(nD), its relative standard deviation, and its derivation."""

    advance: tuple[float, ...]
    values: tuple[float, ...]
    spread: float
    source: str


class Propeller(NamedTuple):
    """kF and kM at sea level, CT and CP over J from static to zero thrust, and its mass and inertia about the axis."""

    size: PropellerSize
    radius: UncertainValue
    k_thrust: UncertainValue
    k_torque: UncertainValue
    ct: CoefficientCurve
    cp: CoefficientCurve
    mass: UncertainValue
    inertia: UncertainValue


def parse_size(text: str) -> PropellerSize:
    """Parse diameter x pitch [x blades], in inches unless a unit follows, or the makers' code of four or five digits.

    5.1x4.3x3, 5143x3 and 51433 are 5.1 inches by 4.3 with three blades; 1045 is 10 by 4.5, because no pitch is 4.5 diameters;
    51466 is 5.1 by 4.66 with three blades.
    """
    if isinstance(text, str) and (code := _CODE_PATTERN.fullmatch(text)):
        size = _parse_code(*code.groups())
    elif isinstance(text, str) and (match := _SIZE_PATTERN.fullmatch(text)):
        unit = _UNITS[(match[4] or "").lower()]
        size = PropellerSize(float(match[1]) * unit, float(match[2]) * unit, int(match[3] or 2))
    else:
        raise ValueError(
            f"props = {quote_value(text)}: expected diameter x pitch in inches, and blades if not two, such as {SIZE_EXAMPLES}"
        )
    if not _MIN_DIAMETER <= size.diameter <= _MAX_DIAMETER:
        raise ValueError(
            f"props = {quote_value(text)}: a diameter of {size.diameter:.3g} m; expected {_MIN_DIAMETER} to {_MAX_DIAMETER} m"
        )
    if not _MIN_PITCH_RATIO <= size.pitch / size.diameter <= _MAX_PITCH_RATIO:
        raise ValueError(
            f"props = {quote_value(text)}: a pitch of {size.pitch / size.diameter:.2g} diameters; expected "
            f"{_MIN_PITCH_RATIO} to {_MAX_PITCH_RATIO}, such as {SIZE_EXAMPLES}"
        )
    if not 2 <= size.blades <= 8:
        raise ValueError(f"props = {quote_value(text)}: {size.blades} blades; expected 2 to 8")
    return size


def _parse_code(diameter: str, pitch: str, blades: str | None, last_digit: str | None) -> PropellerSize:
    """Read DDPP, DDPPxB and DDPPB, in tenths of an inch; the diameter is in whole inches if the pitch would be impossible."""
    pitch_inches, blade_count = int(pitch) / 10.0, int(blades or last_digit or 2)
    if last_digit is not None and int(last_digit) > _MAX_CODE_BLADES:
        pitch_inches, blade_count = pitch_inches + int(last_digit) / 100.0, _RACING_BLADES
    diameter_inches = int(diameter) / 10.0
    if pitch_inches > _MAX_PITCH_RATIO * diameter_inches:
        diameter_inches *= 10.0
    return PropellerSize(diameter_inches * INCH, pitch_inches * INCH, blade_count)


def propeller(text: str, *, rpm: float | None = None, apc_file: str | Path | None = None) -> Propeller:
    """Estimate a propeller from "5.1x4.3x3" at `rpm` (default: a tip speed of 80 m/s), or read it from APC's file."""
    size = parse_size(text)
    speed_rpm = rpm if rpm is not None else 60.0 * DEFAULT_TIP_SPEED / (math.pi * size.diameter)
    if not (math.isfinite(speed_rpm) and speed_rpm > 0.0):
        raise ValueError(f"{size.name}: rpm = {rpm}: expected a positive number")
    if apc_file is None:
        ct, cp = _predict_curves(size, speed_rpm)
    else:
        ct, cp = _apc_curves(size, read_apc(apc_file), speed_rpm)
    k_thrust, k_torque = rotor_constants(size.diameter, ct, cp)
    mass, inertia = _mass(size)
    return Propeller(
        size, exact_value(0.5 * size.diameter, f"{text.strip()}: given"), k_thrust, k_torque, ct, cp, mass, inertia
    )


def rotor_constants(
    diameter: float, ct: CoefficientCurve, cp: CoefficientCurve
) -> tuple[UncertainValue, UncertainValue]:
    """kF = ρ₀ CT(0) D⁴/4π²,  kM = ρ₀ CP(0) D⁵/8π³  [N s²/rad², N m s²/rad²]"""
    k_thrust = SEA_LEVEL_DENSITY * ct.values[0] * diameter**4 / (4.0 * math.pi**2)
    k_torque = SEA_LEVEL_DENSITY * cp.values[0] * diameter**5 / (8.0 * math.pi**3)
    return UncertainValue(k_thrust, ct.spread, ct.source), UncertainValue(k_torque, cp.spread, cp.source)


# Theory corrected by neighbours ------------------------------------------------------------------------------------


class Neighbours(NamedTuple):
    """Every measured propeller: (ln n D², P/D), its family, ln(measured/theory) of J₀ and of CT and CP at fractions of J₀."""

    features: Array
    family: Array
    ratio: Array
    error: Array


_COLUMNS = 1 + (len(J0_FRACTIONS) - 1) + len(J0_FRACTIONS)
_CT, _CP = slice(1, len(J0_FRACTIONS)), slice(len(J0_FRACTIONS), _COLUMNS)


@cache
def neighbours() -> Neighbours:
    """Load the shipped table, with the rule's error on each propeller when it is predicted from the other families."""
    table = measured_propellers()
    features = np.array(
        [similarity_point(PropellerSize(measured.diameter, measured.pitch, 2), measured.rpm) for measured in table]
    )
    family = np.array([measured.family for measured in table])
    ratio = np.array(
        [
            [
                math.log(measured.advance / measured.advance_bem),
                *(math.log(a / b) for a, b in zip(measured.thrust[:-1], measured.thrust_bem[:-1], strict=True)),
                *(math.log(a / b) for a, b in zip(measured.power, measured.power_bem, strict=True)),
            ]
            for measured in table
        ]
    )
    error = np.empty_like(ratio)
    for i in range(len(table)):
        other_families = family != family[i]
        error[i] = ratio[i] - weighted_mean(features[i], features[other_families], ratio[other_families])
    return Neighbours(features, family, ratio, error)


def similarity_point(size: PropellerSize, rpm: float) -> Array:
    """(ln n D², P/D): blades of one shape in the same air have Re ∝ n D²"""
    return np.array((math.log(rpm * size.diameter**2), size.pitch / size.diameter))


def neighbour_weights(point: Array, features: Array) -> Array:
    """w = e^(−d²/2)"""
    return np.exp(-0.5 * np.sum(((features - point) / np.array(_NEIGHBOUR_SCALES)) ** 2, axis=1))


def weighted_mean(point: Array, features: Array, ratio: Array) -> Array:
    """m = (Σ wᵢ yᵢ + 2 ȳ) / (Σ wᵢ + 2), for every column y"""
    point_weights = neighbour_weights(point, features)
    return (point_weights @ ratio + _MEAN_WEIGHT * ratio.mean(axis=0)) / (point_weights.sum() + _MEAN_WEIGHT)


def expected_error(point: Array, features: Array, error: Array) -> Array:
    """s² = 1.15² (Σ wᵢ eᵢ² + 2 mean e²) / (Σ wᵢ + 2), for every column e"""
    return _SMALL_SAMPLE_FACTOR * np.sqrt(weighted_mean(point, features, error * error))


@lru_cache(maxsize=256)
def _predict_curves(size: PropellerSize, rpm: float) -> tuple[CoefficientCurve, CoefficientCurve]:
    table = neighbours()
    point = similarity_point(size, rpm)
    curves = compute_theory(generic_blade(size), rpm)
    log_correction, error = (
        weighted_mean(point, table.features, table.ratio),
        expected_error(point, table.features, table.error),
    )
    advance = curves.advance * math.exp(log_correction[0]) * np.array(J0_FRACTIONS)
    thrust = np.append(curves.thrust[:-1] * np.exp(log_correction[_CT]), 0.0)
    power = curves.power * np.exp(log_correction[_CP])
    extra_spread = _extrapolation_spread(size)
    nearest = [measured_propellers()[i].name for i in np.argsort(-neighbour_weights(point, table.features))[:3]]
    source = (
        f"blade element theory on a generic {size.name} blade at {rpm:.0f} rpm, corrected by similar measured propellers "
        f"({', '.join(nearest)}, UIUC)"
    )
    ct = CoefficientCurve(_floats(advance), _floats(thrust), math.hypot(float(error[_CT][0]), extra_spread), source)
    cp = CoefficientCurve(_floats(advance), _floats(power), math.hypot(float(error[_CP][0]), extra_spread), source)
    return ct, cp


def _extrapolation_spread(size: PropellerSize) -> float:
    """Additional uncertainty for more than two blades and for a diameter outside the measurements."""
    smallest, largest = _MEASURED_DIAMETERS
    log_excess = max(0.0, math.log(smallest / size.diameter), math.log(size.diameter / largest))
    return math.hypot(_BLADE_COUNT_SPREAD * math.log(size.blades / 2.0), _EXTRAPOLATION_SPREAD * log_excess)


def _apc_curves(size: PropellerSize, runs: Sequence[ApcRun], rpm: float) -> tuple[CoefficientCurve, CoefficientCurve]:
    run = min(runs, key=lambda apc_run: abs(apc_run.rpm - rpm))
    count = next((k for k, value in enumerate(run.ct) if value <= 0.0), len(run.ct))
    source = f"APC's performance file at {run.rpm:.0f} rpm"
    halfway = np.interp(0.5 * run.advance[count - 1], run.advance[:count], run.ct[:count])
    if count < 2 or not halfway < MAX_HALFWAY_CT_RATIO * run.ct[0] or min(run.cp[:count]) <= 0.0:
        raise ValueError(f"{source}: expected Ct that falls with J, and positive Cp")
    ct = CoefficientCurve(run.advance[:count], run.ct[:count], _APC_SPREAD, source)
    return ct, CoefficientCurve(run.advance[:count], run.cp[:count], _APC_SPREAD, source)


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(float(x) for x in values)


# Mass --------------------------------------------------------------------------------------------------------------


def _mass(size: PropellerSize) -> tuple[UncertainValue, UncertainValue]:
    """m = B 3.3 g e^(1.97 x − 0.136 x²), x = ln(D/0.2 m);  I = ¾ m R² ∫γ²ξ² dξ/∫γ² dξ, thickness proportional to the chord γ"""
    log_size, (linear, quadratic) = math.log(size.diameter / 0.2), _MASS_POWERS
    mass = size.blades * _BLADE_MASS * math.exp(linear * log_size + quadratic * log_size * log_size)
    chord_squared, x = np.array(CHORD) ** 2, np.array(STATIONS)
    gyration_squared = float(np.trapezoid(chord_squared * x * x, x) / np.trapezoid(chord_squared, x))
    inertia = _BLADE_MASS_FRACTION * mass * (0.5 * size.diameter) ** 2 * gyration_squared
    source = "a curve through 30 propellers of 40 mm to 29 inches"
    return UncertainValue(mass, _MASS_SPREAD, source), UncertainValue(inertia, math.hypot(_MASS_SPREAD, 0.2), source)
