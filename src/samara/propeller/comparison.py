"""Blade element momentum theory against the wind tunnel: error of CT and CP, propeller by propeller."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from samara.propeller.airfoil import SMALL_PROPELLER, Airfoil
from samara.propeller.bem import rotor_coefficients
from samara.propeller.blade import Blade, Measurement

WORKING = 0.7  # of the zero-thrust advance ratio: beyond it CT goes to 0, and its relative error anywhere
_NEAR_ZERO = 0.3  # of the largest CT


class Errors(NamedTuple):
    """One propeller: where its thrust ends, and model / measurement − 1 at each measured point below 70 % of that; the last
    two are RMS errors over the same points relative to the mean static value."""

    name: str
    zero_thrust: float
    thrust: Any
    power: Any
    thrust_of_static: float
    power_of_static: float


def zero_thrust_advance(measured: Measurement) -> float:
    """J where the straight line through the measured points with CT < 0.3 max CT meets 0"""
    low = measured.thrust < _NEAR_ZERO * measured.thrust.max()
    if low.sum() < 2:
        raise ValueError("the measurement has fewer than two points near zero thrust; expected a run up to it")
    slope, start = np.polyfit(measured.advance[low], measured.thrust[low], 1)
    return float(-start / slope)


def compare(blade: Blade, measured: Measurement, *, airfoil: Airfoil = SMALL_PROPELLER) -> Errors:
    """e = model / measured − 1 for every measured point with J < 0.7 J₀, static ones included"""
    limit = zero_thrust_advance(measured)
    near = measured.advance < WORKING * limit
    run = Measurement(*(column[near] for column in measured))
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
    """Every propeller, none left out."""
    return [compare(own, measured, airfoil=airfoil) for own, measured in propellers.values()]


def medians(errors: list[Errors]) -> tuple[float, float]:
    """Median |e| of CT and of CP over all points of all propellers"""
    return (
        float(np.median(np.abs(np.concatenate([each.thrust for each in errors])))),
        float(np.median(np.abs(np.concatenate([each.power for each in errors])))),
    )


def table(errors: list[Errors]) -> str:
    """Markdown: every propeller with its median errors, signed and unsigned, and its RMS error of the static value."""
    lines = [
        "| propeller | points | J₀ | CT error | CT bias | CT RMS/static | CP error | CP bias | CP RMS/static |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in sorted(errors, key=lambda own: own.name):
        numbers = (
            np.median(np.abs(each.thrust)),
            np.median(each.thrust),
            each.thrust_of_static,
            np.median(np.abs(each.power)),
            np.median(each.power),
            each.power_of_static,
        )
        shown = " | ".join(f"{100.0 * float(x):{'+' if k in (1, 4) else ''}.1f} %" for k, x in enumerate(numbers))
        lines.append(f"| {each.name} | {len(each.thrust)} | {each.zero_thrust:.3f} | {shown} |")
    return "\n".join(lines) + "\n"
