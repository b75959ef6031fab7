"""A blade of a given diameter, pitch and number: the shape that measured propellers have in common.

The chord is the median of the 77 blades whose shape was measured at UIUC from 20 % of the radius on; the twist is that of the
pitch, tan β = P/(2πr), with the median of what those blades differ from it (flattened at the hub, washed out at the tip).
"""

import math
from typing import NamedTuple

from samara.propeller.blade import INCH, Blade

STATIONS = tuple(round(0.15 + 0.05 * k, 2) for k in range(18))
CHORD = (
    *(0.154, 0.152, 0.159, 0.166, 0.172, 0.177, 0.176, 0.174, 0.169),
    *(0.165, 0.159, 0.153, 0.143, 0.133, 0.119, 0.101, 0.075, 0.048),
)  # c/R
TWIST_BESIDE_PITCH = (
    *(-19.2, -9.1, -1.4, 0.8, 0.8, 0.6, 0.7, 0.6, 0.7),
    *(0.7, 0.5, 0.4, 0.4, 0.2, 0.0, -0.1, -0.7, -1.1),
)  # [deg]


class Size(NamedTuple):
    """Diameter and pitch [m], number of blades."""

    diameter: float
    pitch: float
    blades: int

    @property
    def name(self) -> str:
        """As a shop would write it, in inches: 5.1x4.3x3"""
        return f"{self.diameter / INCH:.4g}x{self.pitch / INCH:.4g}x{self.blades}"


def generic_blade(size: Size) -> Blade:
    """β(r) = atan(P/(2πr)) + δ(r/R),  c(r) = R γ(r/R)"""
    slope = size.pitch / (math.pi * size.diameter)
    twist = tuple(
        math.atan(slope / x) + math.radians(beside) for x, beside in zip(STATIONS, TWIST_BESIDE_PITCH, strict=True)
    )
    return Blade(
        size.name,
        "generic",
        size.blades,
        0.5 * size.diameter,
        STATIONS,
        CHORD,
        twist,
        "samara.vehicles.parts.generic_blade",
    )
