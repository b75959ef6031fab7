"""Propeller tables: blades of a generic shape, propellers measured at UIUC beside theory, and APC's performance files.

`measured_propellers.csv` has every coefficient twice, as measured and as computed by blade element theory on a generic
blade of that size (columns that end in `_bem`): static and at 20, 40, 60, 80 and 100 % of the advance ratio J₀ of zero
thrust, each at its own J₀; `bench/studies/measured_propellers.py` writes the table.

The chord of a generic blade is the median of the 77 blades whose shape was measured at UIUC from 20 % of the radius on; the
twist follows the pitch, tan β = P/(2πr), plus the median deviation of those blades (flattened at the hub, washed out at the
tip).
"""

import csv
import math
import re
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.budget import read_text_or_gzip
from samara.core.types import Array
from samara.propeller.airfoil import SMALL_PROPELLER, Airfoil
from samara.propeller.bem import rotor_coefficients
from samara.propeller.blade import INCH, Blade

STATIONS = tuple(round(0.15 + 0.05 * k, 2) for k in range(18))
CHORD = (
    *(0.154, 0.152, 0.159, 0.166, 0.172, 0.177, 0.176, 0.174, 0.169),
    *(0.165, 0.159, 0.153, 0.143, 0.133, 0.119, 0.101, 0.075, 0.048),
)  # c/R
TWIST_OFFSET_DEG = (
    *(-19.2, -9.1, -1.4, 0.8, 0.8, 0.6, 0.7, 0.6, 0.7),
    *(0.7, 0.5, 0.4, 0.4, 0.2, 0.0, -0.1, -0.7, -1.1),
)  # [deg]


class PropellerSize(NamedTuple):
    """Diameter and pitch [m], blade count."""

    diameter: float
    pitch: float
    blades: int

    @property
    def name(self) -> str:
        """The size as shops write it, in inches: 5.1x4.3x3."""
        return f"{self.diameter / INCH:.4g}x{self.pitch / INCH:.4g}x{self.blades}"


def generic_blade(size: PropellerSize) -> Blade:
    """β(r) = atan(P/(2πr)) + δ(r/R),  c(r) = R γ(r/R)"""
    slope = size.pitch / (math.pi * size.diameter)
    twist = tuple(
        math.atan(slope / x) + math.radians(offset) for x, offset in zip(STATIONS, TWIST_OFFSET_DEG, strict=True)
    )
    return Blade(
        size.name,
        "generic",
        size.blades,
        0.5 * size.diameter,
        STATIONS,
        CHORD,
        twist,
        "samara.vehicles.parts.propeller_tables",
    )


TABLE = "measured_propellers.csv"
J0_FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SPEED_OF_SOUND = 340.3  # [m/s] at 15 °C
_MAX_ADVANCE_RATIO = 2.5


class MeasuredPropeller(NamedTuple):
    """A propeller as measured, and theory on a generic blade of its size; CT and CP over `J0_FRACTIONS`."""

    name: str
    family: str
    diameter: float  # [m]
    pitch: float  # [m]
    rpm: float
    advance: float  # J0
    advance_bem: float
    thrust: tuple[float, ...]
    thrust_bem: tuple[float, ...]
    power: tuple[float, ...]
    power_bem: tuple[float, ...]


class Theory(NamedTuple):
    """Blade element theory on one blade: J₀, and CT and CP over `J0_FRACTIONS`."""

    advance: float
    thrust: Array
    power: Array


def compressible_airfoil(blade: Blade, rpm: float, airfoil: Airfoil = SMALL_PROPELLER) -> Airfoil:
    """a = a₀/√(1 − M²) at 75 % of the radius (Prandtl and Glauert); constant above M = 0.7, where shocks begin"""
    mach = min(0.75 * rpm * (2.0 * math.pi / 60.0) * blade.radius / SPEED_OF_SOUND, 0.7)
    return airfoil._replace(lift_slope=airfoil.lift_slope / math.sqrt(1.0 - mach * mach))


def compute_theory(blade: Blade, rpm: float) -> Theory:
    """Compute J₀ of zero thrust by linear interpolation over 40 advance ratios, then CT and CP at fractions of it."""
    airfoil = compressible_airfoil(blade, rpm)
    max_advance = min(_MAX_ADVANCE_RATIO, max(0.5, 2.2 * math.pi * 0.7 * math.tan(float(blade.interpolate(0.7)[1]))))
    J = np.linspace(0.02, max_advance, 40)
    thrust = rotor_coefficients(blade, J, rpm, airfoil=airfoil).thrust
    non_positive = np.flatnonzero(thrust <= 0.0)
    if not non_positive.size or non_positive[0] == 0:
        raise ValueError(
            f"{blade.name}: no thrust, or thrust beyond J = {max_advance:.2f}; expected a propeller with thrust"
        )
    k = int(non_positive[0])
    advance = float(np.interp(0.0, [thrust[k], thrust[k - 1]], [J[k], J[k - 1]]))
    coefficients = rotor_coefficients(blade, advance * np.array(J0_FRACTIONS), rpm, airfoil=airfoil)
    return Theory(advance, coefficients.thrust, coefficients.power)


@cache
def measured_propellers() -> tuple[MeasuredPropeller, ...]:
    """Every propeller of the shipped table."""
    text = files("samara.vehicles.parts").joinpath(TABLE).read_text(encoding="utf-8")
    propellers = []
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        values = {key: float(value) for key, value in row.items() if key not in ("name", "family")}
        columns = {
            coefficient: tuple(values[f"{coefficient}_{k}"] for k in range(len(J0_FRACTIONS)))
            for coefficient in COEFFICIENTS
        }
        propellers.append(
            MeasuredPropeller(
                row["name"],
                row["family"],
                values["diameter"],
                values["pitch"],
                values["rpm"],
                values["J0"],
                values["J0_bem"],
                columns["ct"],
                columns["ct_bem"],
                columns["cp"],
                columns["cp_bem"],
            )
        )
    return tuple(propellers)


COEFFICIENTS = ("ct", "ct_bem", "cp", "cp_bem")


# APC's performance files ---------------------------------------------------------------------------------------------


_RPM_PATTERN = re.compile(r"\s*PROP\s+RPM\s*=\s*([\d.]+)\s*")
_APC_COLUMNS = ("J", "Ct", "Cp")
MAX_APC_VALUE = 10.0  # a J, Ct or Cp


class ApcRun(NamedTuple):
    """One block: rpm, and CT and CP over J."""

    rpm: float
    advance: tuple[float, ...]
    ct: tuple[float, ...]
    cp: tuple[float, ...]


def read_apc(path: str | Path) -> tuple[ApcRun, ...]:
    """Read every block of the file, by rpm; rows without a number (-NaN) are skipped."""
    try:
        text = read_text_or_gzip(Path(path))
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror or error}); expected an APC performance file"
        ) from None
    runs: list[ApcRun] = []
    rpm, columns = 0.0, None
    rows: list[list[float]] = []
    for line in [*text.splitlines(), "PROP RPM = 0"]:
        heading = _RPM_PATTERN.fullmatch(line)
        if heading:
            if rows:
                runs.append(_apc_run(path, rpm, rows))
            rpm, columns, rows = float(heading[1]), None, []
            continue
        words = line.split()
        if all(name in words for name in _APC_COLUMNS):
            columns = [words.index(name) for name in _APC_COLUMNS]
        elif columns and rpm > 0.0 and len(words) > max(columns):
            numbers = [_parse_number(words[k]) for k in columns]
            if all(math.isfinite(x) for x in numbers):
                rows.append(numbers)
    if not runs:
        raise ValueError(
            f"{path}: has no block 'PROP RPM = …' with columns J, Ct and Cp; expected an APC performance file"
        )
    return tuple(sorted(runs))


def _apc_run(path: str | Path, rpm: float, rows: list[list[float]]) -> ApcRun:
    advance, ct, cp = zip(*rows, strict=True)
    if any(b <= a for a, b in pairwise(advance)) or ct[0] <= 0.0 or cp[0] <= 0.0:
        raise ValueError(f"{path}: PROP RPM = {rpm:g}: expected increasing J, and Ct and Cp above 0 at the first")
    if max(map(abs, (*advance, *ct, *cp))) > MAX_APC_VALUE:
        raise ValueError(f"{path}: PROP RPM = {rpm:g}: expected J, Ct and Cp below {MAX_APC_VALUE:g}")
    return ApcRun(rpm, advance, ct, cp)


def _parse_number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan
