"""A propeller by its size: blade element theory on a generic blade, corrected by the measured propellers nearest to it.

    C = C_bem e^m,   m = Σ w_i ln(C_i/C_bem,i) / Σ w_i,   w = e^(−d²/2),   d² = (Δ ln Re/0.35)² + (Δ(P/D)/0.15)²

with two more of weight 1 at the mean of all; Re ∝ n D². The error bar is what that rule errs by near it when it predicts a
measured propeller from the other makers' families. It grows beyond the table: UIUC's volumes 1 and 2 have two blades and 2.2 to
19 inches. A propeller that pulls more than predicted also takes more: the errors of thrust and power go together.
"""

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.sanitise import shown
from samara.core.types import Array
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.propeller.blade import INCH
from samara.vehicles.parts.propeller_tables import (
    CHORD,
    PARTS_OF_J0,
    STATIONS,
    ApcRun,
    Size,
    generic_blade,
    measured_propellers,
    read_apc,
    theory,
)
from samara.vehicles.parts.uncertain import Estimate, given

TIP_SPEED = 80.0  # [m/s] unless the rpm are given: of hovering multirotors, 60 to 100
TOGETHER = 0.8  # correlation of the errors of kF and kM, of measured propellers whose family was left out
_NEAR = (0.35, 0.15)  # of ln Re and P/D: as near as a propeller twice as heavy in the mean
_ALL = 2.0  # weight of the mean of all, so that a lonely propeller is corrected by it
_FEW = 1.15  # 26 families are few: with it 95 % of the intervals hold propellers of a family that was left out
_MEASURED = (2.2 * INCH, 19.0 * INCH)
_BLADES = 0.25  # per ln(B/2): theory errs by 10 % for three blades; no more than two were measured
_BEYOND = 0.12  # per ln of the diameter beyond the table: Reynolds numbers that nobody measured there
_APC = 0.08  # APC computes its files; they lie within as much of UIUC's measurements of the same propellers
FALLEN = 0.999  # of the standing Ct, at half the J without thrust
# one blade with its part of the hub, over 30 propellers of 40 mm to 29 inches (tests/vehicles/propeller_masses.csv): small ones
# are moulded and go with a power of 2.4 of their size, large ones are of thin carbon
_BLADE_MASS, _MASS_SPREAD = 3.34e-3, 0.25  # [kg] at 0.2 m, scatter
_MASS_POWERS = (1.966, -0.1356)  # of ln(D/0.2 m) and of its square
_IN_THE_BLADE = 0.75  # the rest is hub
_LEAST, _MOST = 0.02, 3.0  # [m]

_SIZE = re.compile(
    r"\s*(\d+\.?\d*|\.\d+)\s*[x×]\s*(\d+\.?\d*|\.\d+)(?:\s*[x×]\s*(\d+))?\s*(mm|cm|m|in|inch|\")?\s*", re.IGNORECASE
)
_UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": INCH, "inch": INCH, '"': INCH, "": INCH}


class Curve(NamedTuple):
    """A coefficient over the advance ratio J = V/(nD), one standard deviation over it, and how it was made."""

    advance: tuple[float, ...]
    values: tuple[float, ...]
    spread: float
    how: str


class Propeller(NamedTuple):
    """kF and kM at sea level, CT and CP over J from standing to no thrust, and its mass and inertia about the axis."""

    size: Size
    radius: Estimate
    k_thrust: Estimate
    k_torque: Estimate
    ct: Curve
    cp: Curve
    mass: Estimate
    inertia: Estimate


def parse_size(text: str) -> Size:
    """Diameter x pitch [x blades], in inches unless a unit follows: 5.1x4.3x3, 10x4.5, 45x35 mm, 0.13x0.11 m"""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"props = {shown(text)}: expected diameter x pitch in inches, and blades if not two, such as 5.1x4.3x3"
        )
    unit = _UNITS[(match[4] or "").lower()]
    size = Size(float(match[1]) * unit, float(match[2]) * unit, int(match[3] or 2))
    if not _LEAST <= size.diameter <= _MOST:
        raise ValueError(f"props = {shown(text)}: a diameter of {size.diameter:.3g} m; expected {_LEAST} to {_MOST} m")
    if not 0.15 <= size.pitch / size.diameter <= 1.6:
        raise ValueError(
            f"props = {shown(text)}: a pitch of {size.pitch / size.diameter:.2g} diameters; expected 0.15 to 1.6"
        )
    if not 2 <= size.blades <= 8:
        raise ValueError(f"props = {shown(text)}: {size.blades} blades; expected 2 to 8")
    return size


def propeller(text: str, *, rpm: float | None = None, apc_file: str | Path | None = None) -> Propeller:
    """A propeller from "5.1x4.3x3", at the rpm given (else a tip speed of 80 m/s), or from APC's file of it"""
    size = parse_size(text)
    turning = rpm if rpm is not None else 60.0 * TIP_SPEED / (math.pi * size.diameter)
    if not (math.isfinite(turning) and turning > 0.0):
        raise ValueError(f"{size.name}: rpm = {rpm}: expected a positive number")
    if apc_file is None:
        ct, cp = _predicted(size, turning)
    else:
        ct, cp = _of_apc(size, read_apc(apc_file), turning)
    k_thrust, k_torque = constants(size.diameter, ct, cp)
    mass, inertia = _mass(size)
    return Propeller(
        size, given(0.5 * size.diameter, f"{text.strip()}: given"), k_thrust, k_torque, ct, cp, mass, inertia
    )


def constants(diameter: float, ct: Curve, cp: Curve) -> tuple[Estimate, Estimate]:
    """kF = ρ₀ CT(0) D⁴/4π²,  kM = ρ₀ CP(0) D⁵/8π³  [N s²/rad², N m s²/rad²]"""
    k_thrust = SEA_LEVEL_DENSITY * ct.values[0] * diameter**4 / (4.0 * math.pi**2)
    k_torque = SEA_LEVEL_DENSITY * cp.values[0] * diameter**5 / (8.0 * math.pi**3)
    return Estimate(k_thrust, ct.spread, ct.how), Estimate(k_torque, cp.spread, cp.how)


# Theory and its neighbours -----------------------------------------------------------------------------------------


class Neighbours(NamedTuple):
    """Every measured propeller: (ln n D², P/D), its family, and ln(measured/theory): columns J₀, CT at parts of J₀, CP too."""

    place: Array
    family: Array
    ratio: Array
    error: Array


_COLUMNS = 1 + (len(PARTS_OF_J0) - 1) + len(PARTS_OF_J0)
_CT, _CP = slice(1, len(PARTS_OF_J0)), slice(len(PARTS_OF_J0), _COLUMNS)


@cache
def neighbours() -> Neighbours:
    """The shipped table, and what the rule errs by on each propeller from the other families alone"""
    table = measured_propellers()
    place = np.array([place_of(Size(own.diameter, own.pitch, 2), own.rpm) for own in table])
    family = np.array([own.family for own in table])
    ratio = np.array(
        [
            [
                math.log(own.advance / own.advance_bem),
                *(math.log(a / b) for a, b in zip(own.thrust[:-1], own.thrust_bem[:-1], strict=True)),
                *(math.log(a / b) for a, b in zip(own.power, own.power_bem, strict=True)),
            ]
            for own in table
        ]
    )
    error = np.empty_like(ratio)
    for i in range(len(table)):
        others = family != family[i]
        error[i] = ratio[i] - corrected(place[i], place[others], ratio[others])
    return Neighbours(place, family, ratio, error)


def place_of(size: Size, rpm: float) -> Array:
    """(ln n D², P/D): blades of one shape in the same air have Re ∝ n D²"""
    return np.array((math.log(rpm * size.diameter**2), size.pitch / size.diameter))


def weights(at: Array, place: Array) -> Array:
    """w = e^(−d²/2)"""
    return np.exp(-0.5 * np.sum(((place - at) / np.array(_NEAR)) ** 2, axis=1))


def corrected(at: Array, place: Array, ratio: Array) -> Array:
    """m = (Σ wᵢ yᵢ + 2 ȳ) / (Σ wᵢ + 2), for every column y"""
    own = weights(at, place)
    return (own @ ratio + _ALL * ratio.mean(axis=0)) / (own.sum() + _ALL)


def expected_error(at: Array, place: Array, error: Array) -> Array:
    """s² = 1.15² (Σ wᵢ eᵢ² + 2 mean e²) / (Σ wᵢ + 2), for every column e"""
    return _FEW * np.sqrt(corrected(at, place, error * error))


@lru_cache(maxsize=256)
def _predicted(size: Size, rpm: float) -> tuple[Curve, Curve]:
    table = neighbours()
    at = place_of(size, rpm)
    own = theory(generic_blade(size), rpm)
    shift, error = corrected(at, table.place, table.ratio), expected_error(at, table.place, table.error)
    advance = own.advance * math.exp(shift[0]) * np.array(PARTS_OF_J0)
    thrust = np.append(own.thrust[:-1] * np.exp(shift[_CT]), 0.0)
    power = own.power * np.exp(shift[_CP])
    beyond = _beyond_the_table(size)
    nearest = [measured_propellers()[i].name for i in np.argsort(-weights(at, table.place))[:3]]
    how = (
        f"blade element theory on a generic {size.name} blade at {rpm:.0f} rpm, corrected by measured propellers near it "
        f"({', '.join(nearest)}, UIUC)"
    )
    ct = Curve(_floats(advance), _floats(thrust), math.hypot(float(error[_CT][0]), beyond), how)
    cp = Curve(_floats(advance), _floats(power), math.hypot(float(error[_CP][0]), beyond), how)
    return ct, cp


def _beyond_the_table(size: Size) -> float:
    """What to add to the error bar: for more blades than two, and for a diameter that was not measured"""
    small, large = _MEASURED
    outside = max(0.0, math.log(small / size.diameter), math.log(size.diameter / large))
    return math.hypot(_BLADES * math.log(size.blades / 2.0), _BEYOND * outside)


def _of_apc(size: Size, runs: Sequence[ApcRun], rpm: float) -> tuple[Curve, Curve]:
    run = min(runs, key=lambda own: abs(own.rpm - rpm))
    ends = next((k for k, value in enumerate(run.ct) if value <= 0.0), len(run.ct))
    how = f"APC's performance file at {run.rpm:.0f} rpm"
    halfway = np.interp(0.5 * run.advance[ends - 1], run.advance[:ends], run.ct[:ends])
    if ends < 2 or not halfway < FALLEN * run.ct[0] or min(run.cp[:ends]) <= 0.0:
        raise ValueError(f"{how}: Ct does not fall with J, or Cp is not positive; expected what a propeller gives")
    ct = Curve(run.advance[:ends], run.ct[:ends], _APC, how)
    return ct, Curve(run.advance[:ends], run.cp[:ends], _APC, how)


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(float(x) for x in values)


# Mass --------------------------------------------------------------------------------------------------------------


def _mass(size: Size) -> tuple[Estimate, Estimate]:
    """m = B 3.3 g e^(1.97 x − 0.136 x²), x = ln(D/0.2 m);  I = ¾ m R² ∫γ²ξ² dξ/∫γ² dξ, blades of one thickness over chord γ"""
    far, (once, twice) = math.log(size.diameter / 0.2), _MASS_POWERS
    mass = size.blades * _BLADE_MASS * math.exp(once * far + twice * far * far)
    weight, x = np.array(CHORD) ** 2, np.array(STATIONS)
    square = float(np.trapezoid(weight * x * x, x) / np.trapezoid(weight, x))
    inertia = _IN_THE_BLADE * mass * (0.5 * size.diameter) ** 2 * square
    how = "a curve through 30 propellers of 40 mm to 29 inches"
    return Estimate(mass, _MASS_SPREAD, how), Estimate(inertia, math.hypot(_MASS_SPREAD, 0.2), how)
