"""Compare blade element momentum theory with the UIUC wind tunnel: errors of CT and CP for every propeller.

PYTHONPATH=bench python -m studies.propellers FOLDER_WITH_THE_UIUC_TABLES
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.propeller.airfoil import SMALL_PROPELLER, Airfoil
from samara.propeller.bem import rotor_coefficients
from samara.propeller.blade import Blade, Measurement, read_uiuc, zero_thrust_advance

WORKING_FRACTION = 0.7  # of the zero-thrust advance ratio: beyond it CT approaches 0 and its relative error diverges


class Errors(NamedTuple):
    """One propeller: its zero-thrust advance ratio, and model / measurement − 1 at each measured point below 70 % of it; the
    last two are RMS errors over the same points relative to the mean static value."""

    name: str
    zero_thrust: float
    thrust: Array
    power: Array
    thrust_of_static: float
    power_of_static: float


def compare(blade: Blade, measured: Measurement, *, airfoil: Airfoil = SMALL_PROPELLER) -> Errors:
    """e = model / measured − 1 for every measured point with J < 0.7 J₀, static ones included."""
    limit = zero_thrust_advance(measured)
    in_range = measured.advance < WORKING_FRACTION * limit
    run = Measurement(*(column[in_range] for column in measured))
    model = rotor_coefficients(blade, run.advance, run.rpm, airfoil=airfoil)
    standing = run.advance == 0.0 if (run.advance == 0.0).any() else run.advance == run.advance.min()
    return Errors(
        blade.name,
        limit,
        model.thrust / run.thrust - 1.0,
        model.power / run.power - 1.0,
        float(np.sqrt(np.mean((model.thrust - run.thrust) ** 2)) / run.thrust[standing].mean()),
        float(np.sqrt(np.mean((model.power - run.power) ** 2)) / run.power[standing].mean()),
    )


def compare_all(
    propellers: Mapping[str, tuple[Blade, Measurement]], *, airfoil: Airfoil = SMALL_PROPELLER
) -> list[Errors]:
    """Compare every propeller."""
    return [compare(blade, measured, airfoil=airfoil) for blade, measured in propellers.values()]


def medians(errors: list[Errors]) -> tuple[float, float]:
    """Median |e| of CT and of CP over all points of all propellers."""
    return (
        float(np.median(np.abs(np.concatenate([propeller.thrust for propeller in errors])))),
        float(np.median(np.abs(np.concatenate([propeller.power for propeller in errors])))),
    )


def table(errors: list[Errors]) -> str:
    """Format a Markdown table: the median errors of every propeller, signed and unsigned, and its RMS error over static."""
    lines = [
        "| propeller | points | J₀ | CT error | CT bias | CT RMS/static | CP error | CP bias | CP RMS/static |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for propeller in sorted(errors, key=lambda entry: entry.name):
        values = (
            np.median(np.abs(propeller.thrust)),
            np.median(propeller.thrust),
            propeller.thrust_of_static,
            np.median(np.abs(propeller.power)),
            np.median(propeller.power),
            propeller.power_of_static,
        )
        cells = " | ".join(f"{100.0 * float(x):{'+' if k in (1, 4) else ''}.1f} %" for k, x in enumerate(values))
        lines.append(f"| {propeller.name} | {len(propeller.thrust)} | {propeller.zero_thrust:.3f} | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    results = compare_all(read_uiuc(Path(sys.argv[1])))
    print(table(results))
    thrust, power = medians(results)
    print(f"median error of all points: CT {100 * thrust:.1f} %, CP {100 * power:.1f} %")
