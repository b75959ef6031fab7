"""The propellers measured at UIUC beside blade element theory on a generic blade of their size: a table of one line each.

    python -m samara.vehicles.parts.uiuc_table VOLUME_1 VOLUME_2

makes `measured_propellers.csv` from the tables of volume 1 and the text files of volume 2, of which it takes what was for sale
(the laboratory's own, da40.. and nr640, are shapes for a study). Every coefficient is there twice, as measured and as computed
(`_bem`), standing and at 20, 40, 60, 80 and 100 % of the advance ratio J₀ at which the thrust ends, each at its own J₀.
"""

import csv
import math
import re
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.atomic_files import write_text
from samara.propeller.airfoil import SMALL_PROPELLER, Airfoil
from samara.propeller.bem import rotor_coefficients
from samara.propeller.blade import INCH, Blade, Measurement, Run, uiuc_runs, zero_thrust_advance
from samara.vehicles.parts.generic_blade import Size, generic_blade

TABLE = "measured_propellers.csv"
PARTS_OF_J0 = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SOURCE = (
    "# UIUC Propeller Data Site, volumes 1 and 2 (J.B. Brandt, R.W. Deters, G.K. Ananda, M.S. Selig, University of Illinois at "
    "Urbana-Champaign): CT = T/(rho n^2 D^4), CP = P/(rho n^3 D^5) standing and at parts of the advance ratio J0 of no thrust, "
    "fitted over the faster runs; _bem by samara.vehicles.parts.uiuc_table"
)
SPEED_OF_SOUND = 340.3  # [m/s] at 15 °C
_STANDING_FROM = 0.6  # of the fastest standing run: below, the balance's error shows
_MOVING_FROM = 0.55  # of the fastest run in the tunnel
_DEGREE = 4
_MOST_J = 2.5
_IN_TEXT = re.compile(r"(?!da40|nr640)([a-z0-9]+)_([\d.]+)x([\d.]+)_static_\w+\.txt")
_MILLIMETRES_FROM = 20.0  # kpf_96x70 is in millimetres, the others in inches
_SMALL = 7.0  # [in] where volume 1 begins


class MeasuredPropeller(NamedTuple):
    """One propeller: what was measured and what the theory has on a generic blade; CT and CP over `PARTS_OF_J0`."""

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
    """Blade element theory on one blade: J₀, and CT and CP over `PARTS_OF_J0`."""

    advance: float
    thrust: Any
    power: Any


def in_fast_air(blade: Blade, rpm: float, airfoil: Airfoil = SMALL_PROPELLER) -> Airfoil:
    """a = a₀/√(1 − M²) at 75 % of the radius (Prandtl and Glauert); from M = 0.7 on, where shocks begin, as there"""
    mach = min(0.75 * rpm * (2.0 * math.pi / 60.0) * blade.radius / SPEED_OF_SOUND, 0.7)
    return airfoil._replace(lift_slope=airfoil.lift_slope / math.sqrt(1.0 - mach * mach))


def theory(blade: Blade, rpm: float) -> Theory:
    """J₀ where CT ends, by straight lines over 40 advance ratios; then CT and CP at parts of it"""
    airfoil = in_fast_air(blade, rpm)
    reach = min(_MOST_J, max(0.5, 2.2 * math.pi * 0.7 * math.tan(float(blade.at(0.7)[1]))))
    J = np.linspace(0.02, reach, 40)
    thrust = rotor_coefficients(blade, J, rpm, airfoil=airfoil).thrust
    ended = np.flatnonzero(thrust <= 0.0)
    if not ended.size or ended[0] == 0:
        raise ValueError(f"{blade.name}: no thrust, or thrust beyond J = {reach:.2f}; expected a propeller that pulls")
    k = int(ended[0])
    advance = float(np.interp(0.0, [thrust[k], thrust[k - 1]], [J[k], J[k - 1]]))
    own = rotor_coefficients(blade, advance * np.array(PARTS_OF_J0), rpm, airfoil=airfoil)
    return Theory(advance, own.thrust, own.power)


@cache
def measured_propellers() -> tuple[MeasuredPropeller, ...]:
    """Every propeller of the shipped table."""
    text = files("samara.vehicles.parts").joinpath(TABLE).read_text(encoding="utf-8")
    made = []
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        own = {key: float(value) for key, value in row.items() if key not in ("name", "family")}
        columns = {kind: tuple(own[f"{kind}_{k}"] for k in range(len(PARTS_OF_J0))) for kind in _KINDS}
        made.append(
            MeasuredPropeller(
                row["name"],
                row["family"],
                own["diameter"],
                own["pitch"],
                own["rpm"],
                own["J0"],
                own["J0_bem"],
                columns["ct"],
                columns["ct_bem"],
                columns["cp"],
                columns["cp_bem"],
            )
        )
    return tuple(made)


_KINDS = ("ct", "ct_bem", "cp", "cp_bem")


def text_runs(folder: str | Path) -> dict[str, Run]:
    """Small propellers in UIUC's text files: gwsdd_5x3_static_0323rd.txt, and gwsdd_5x3_0326rd_5039.txt at 5039 rpm"""
    found = {}
    for path in sorted(Path(folder).rglob("*_static_*.txt")):
        if (match := _IN_TEXT.fullmatch(path.name)) is None:
            continue
        unit = 1.0 if float(match[2]) < _MILLIMETRES_FROM else 1e-3 / INCH
        diameter, pitch = (round(float(text) * unit, 3) for text in match.group(2, 3))
        if diameter >= _SMALL:
            continue
        standing = [(0.0, *row) for row in np.loadtxt(path, skiprows=1)[:, :3]]
        moving = [
            (row[0], float(run.stem.rpartition("_")[2]), row[1], row[2])
            for run in path.parent.glob(f"{path.name.partition('_static')[0]}_[0-9]*_*.txt")
            for row in np.loadtxt(run, skiprows=1)
        ]
        name, family = f"{match[1]} {match[2]}x{match[3]}", match[1]
        found[name] = Run(name, family, 2, diameter, pitch, Measurement(*np.array(standing + moving).T))
    return found


def make_table(tables: str | Path, texts: str | Path) -> str:
    """The table's text, from a folder with volume1_exp.csv(.gz) and one with the text files of the UIUC Propeller Data Site"""
    columns = ["name", "family", "diameter", "pitch", "rpm", "J0", "J0_bem"]
    columns += [f"{kind}_{k}" for kind in _KINDS for k in range(len(PARTS_OF_J0))]
    lines = [SOURCE, ",".join(columns)]
    for _, run in sorted((uiuc_runs(tables) | text_runs(texts)).items()):
        size = Size(run.diameter * INCH, run.pitch * INCH, run.blades)
        rpm, advance, thrust, power = _smoothed(run.measured)
        own = theory(generic_blade(size), rpm)
        numbers = [f"{size.diameter:.5g}", f"{size.pitch:.5g}", f"{rpm:.0f}", f"{advance:.3f}", f"{own.advance:.3f}"]
        for column in (thrust, own.thrust, power, own.power):
            numbers += [f"{x:.4f}" for x in column]
        lines.append(",".join([run.blade, run.family, *numbers]))
    return "\n".join(lines) + "\n"


def _smoothed(run: Measurement) -> tuple[float, float, Any, Any]:
    """Standing: the mean of the faster runs. Moving: a polynomial of J, weighted towards the standing value, over the faster"""
    standing, moving = run.advance == 0.0, run.advance > 0.0
    fast = standing & (run.rpm > _STANDING_FROM * run.rpm[standing].max())
    quick = moving & (run.rpm > _MOVING_FROM * run.rpm[moving].max())
    kept = Measurement(*(column[quick] for column in run))
    advance = zero_thrust_advance(kept)
    rest = [float(column[fast].mean()) for column in (run.thrust, run.power)]
    found = []
    for start, values in zip(rest, (kept.thrust, kept.power), strict=True):
        powers = np.stack([(kept.advance / advance) ** k for k in range(1, _DEGREE + 1)], axis=1)
        slopes, *_ = np.linalg.lstsq(powers, values - start, rcond=None)
        parts = np.array(PARTS_OF_J0)
        found.append(start + np.stack([parts**k for k in range(1, _DEGREE + 1)], axis=1) @ slopes)
    found[0][-1] = 0.0
    return float(run.rpm[fast].mean()), advance, found[0], found[1]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("python -m samara.vehicles.parts.uiuc_table VOLUME_1 VOLUME_2: expected the folders of UIUC's tables")
    write_text(Path(__file__).with_name(TABLE), make_table(sys.argv[1], sys.argv[2]))
