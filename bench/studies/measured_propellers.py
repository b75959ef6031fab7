"""Make `measured_propellers.csv` of `samara.vehicles.parts.propeller_tables` from UIUC's measurements.

    python bench/studies/measured_propellers.py VOLUME_1 VOLUME_2

The arguments are the folders of volume 1 (tables) and volume 2 (text files). Volume 2 also has shapes made for a study, da40..
and nr640; only commercial propellers are used.
"""

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import write_text
from samara.propeller.blade import INCH, Measurement, TunnelRun, uiuc_runs, zero_thrust_advance
from samara.vehicles.parts.propeller_tables import (
    COEFFICIENTS,
    J0_FRACTIONS,
    TABLE,
    PropellerSize,
    compute_theory,
    generic_blade,
)

SOURCE = (
    "# UIUC Propeller Data Site, volumes 1 and 2 (J.B. Brandt, R.W. Deters, G.K. Ananda, M.S. Selig, University of Illinois at "
    "Urbana-Champaign): CT = T/(rho n^2 D^4), CP = P/(rho n^3 D^5) standing and at parts of the advance ratio J0 of no thrust, "
    "fitted over the faster runs; _bem by samara.vehicles.parts.propeller_tables"
)
_STANDING_FROM = 0.6  # of the speed of the fastest standing run: below it, the error of the balance dominates
_MOVING_FROM = 0.55  # of the speed of the fastest run in the tunnel
_DEGREE = 4
_FILE_NAME = re.compile(r"(?!da40|nr640)([a-z0-9]+)_([\d.]+)x([\d.]+)_static_\w+\.txt")
_MILLIMETRES_FROM = 20.0  # kpf_96x70 is in millimetres, the others in inches
_MIN_VOLUME_1_DIAMETER = 7.0  # [in]: the smallest diameter of volume 1


def text_runs(folder: str | Path) -> dict[str, TunnelRun]:
    """Read small propellers from UIUC's text files: gwsdd_5x3_static_0323rd.txt, and gwsdd_5x3_0326rd_5039.txt at 5039 rpm."""
    runs = {}
    for path in sorted(Path(folder).rglob("*_static_*.txt")):
        if (match := _FILE_NAME.fullmatch(path.name)) is None:
            continue
        unit = 1.0 if float(match[2]) < _MILLIMETRES_FROM else 1e-3 / INCH
        diameter, pitch = (round(float(text) * unit, 3) for text in match.group(2, 3))
        if diameter >= _MIN_VOLUME_1_DIAMETER:
            continue
        standing = [(0.0, *row) for row in np.loadtxt(path, skiprows=1)[:, :3]]
        moving = [
            (row[0], float(run.stem.rpartition("_")[2]), row[1], row[2])
            for run in path.parent.glob(f"{path.name.partition('_static')[0]}_[0-9]*_*.txt")
            for row in np.loadtxt(run, skiprows=1)
        ]
        name, family = f"{match[1]} {match[2]}x{match[3]}", match[1]
        runs[name] = TunnelRun(name, family, 2, diameter, pitch, Measurement(*np.array(standing + moving).T))
    return runs


def make_table(tables: str | Path, texts: str | Path) -> str:
    """Return the table's text, from a folder with volume1_exp.csv(.gz) and one with the text files of volume 2."""
    columns = ["name", "family", "diameter", "pitch", "rpm", "J0", "J0_bem"]
    columns += [f"{coefficient}_{k}" for coefficient in COEFFICIENTS for k in range(len(J0_FRACTIONS))]
    lines = [SOURCE, ",".join(columns)]
    for _, run in sorted((uiuc_runs(tables) | text_runs(texts)).items()):
        size = PropellerSize(run.diameter * INCH, run.pitch * INCH, run.blades)
        rpm, advance, thrust, power = _fit_coefficients(run.measurement)
        theory = compute_theory(generic_blade(size), rpm)
        cells = [f"{size.diameter:.5g}", f"{size.pitch:.5g}", f"{rpm:.0f}", f"{advance:.3f}", f"{theory.advance:.3f}"]
        for column in (thrust, theory.thrust, power, theory.power):
            cells += [f"{x:.4f}" for x in column]
        lines.append(",".join([run.blade, run.family, *cells]))
    return "\n".join(lines) + "\n"


def _fit_coefficients(run: Measurement) -> tuple[float, float, Any, Any]:
    """Standing: the mean of the faster runs. Moving: a polynomial of J over the faster runs, fixed at the standing value."""
    standing, moving = run.advance == 0.0, run.advance > 0.0
    fast_standing = standing & (run.rpm > _STANDING_FROM * run.rpm[standing].max())
    is_fast_moving = moving & (run.rpm > _MOVING_FROM * run.rpm[moving].max())
    fast_moving = Measurement(*(column[is_fast_moving] for column in run))
    advance = zero_thrust_advance(fast_moving)
    static_values = [float(column[fast_standing].mean()) for column in (run.thrust, run.power)]
    curves = []
    for start, values in zip(static_values, (fast_moving.thrust, fast_moving.power), strict=True):
        powers = np.stack([(fast_moving.advance / advance) ** k for k in range(1, _DEGREE + 1)], axis=1)
        slopes, *_ = np.linalg.lstsq(powers, values - start, rcond=None)
        fractions = np.array(J0_FRACTIONS)
        curves.append(start + np.stack([fractions**k for k in range(1, _DEGREE + 1)], axis=1) @ slopes)
    curves[0][-1] = 0.0
    return float(run.rpm[fast_standing].mean()), advance, curves[0], curves[1]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("python bench/studies/measured_propellers.py VOLUME_1 VOLUME_2: expected the folders of UIUC's tables")
    write_text(Path(str(files("samara.vehicles.parts").joinpath(TABLE))), make_table(sys.argv[1], sys.argv[2]))
