"""Make `measured_propellers.csv` of `samara.vehicles.parts.propeller_tables` from UIUC's measurements.

    python bench/studies/measured_propellers.py VOLUME_1 VOLUME_2

The arguments are the folders of volume 1 (tables) and volume 2 (text files), of which it takes what was for sale: the
laboratory's own, da40.. and nr640, are shapes for a study.
"""

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.atomic_files import write_text
from samara.propeller.blade import INCH, Measurement, Run, uiuc_runs, zero_thrust_advance
from samara.vehicles.parts.propeller_tables import KINDS, PARTS_OF_J0, TABLE, Size, generic_blade, theory

SOURCE = (
    "# UIUC Propeller Data Site, volumes 1 and 2 (J.B. Brandt, R.W. Deters, G.K. Ananda, M.S. Selig, University of Illinois at "
    "Urbana-Champaign): CT = T/(rho n^2 D^4), CP = P/(rho n^3 D^5) standing and at parts of the advance ratio J0 of no thrust, "
    "fitted over the faster runs; _bem by samara.vehicles.parts.propeller_tables"
)
_STANDING_FROM = 0.6  # of the fastest standing run: below, the balance's error shows
_MOVING_FROM = 0.55  # of the fastest run in the tunnel
_DEGREE = 4
_IN_TEXT = re.compile(r"(?!da40|nr640)([a-z0-9]+)_([\d.]+)x([\d.]+)_static_\w+\.txt")
_MILLIMETRES_FROM = 20.0  # kpf_96x70 is in millimetres, the others in inches
_SMALL = 7.0  # [in] where volume 1 begins


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
    columns += [f"{kind}_{k}" for kind in KINDS for k in range(len(PARTS_OF_J0))]
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
        sys.exit("python bench/studies/measured_propellers.py VOLUME_1 VOLUME_2: expected the folders of UIUC's tables")
    write_text(Path(str(files("samara.vehicles.parts").joinpath(TABLE))), make_table(sys.argv[1], sys.argv[2]))
