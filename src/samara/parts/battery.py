"""A lithium-polymer battery by cells and capacity: voltages, resistance, mass.

    R = 16.5 mΩ / Ah (C/30)^−0.875 a cell      [141 cells, half of them within 20 %, with tails 42 %]
    m = 29.4 g · Ah^0.96 (C/30)^0.135 a cell   [130 cells, scatter 8 %]

tests/parts/cell_data.csv has the cells and makes the fits anew. Connectors and leads come on top of both.
"""

import math
import re
from typing import NamedTuple

from samara.core.printable import shown
from samara.parts.estimate import Estimate, given

CELL_CHARGE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
CELL_VOLTAGE = (
    3.27,
    3.61,
    3.69,
    3.73,
    3.79,
    3.87,
    4.02,
    4.11,
    4.20,
)  # [V] open circuit, the usual table of LiPo chargers
FULL, NOMINAL, EMPTY = 4.2, 3.7, 3.3  # [V] a cell; empty is where pilots land
RESISTANCE = (16.5e-3, -1.0, -0.875, 0.42)  # [Ω] at 1 Ah and 30 C, powers of Ah and C, scatter
MASS = (29.4e-3, 0.96, 0.135, 0.10)  # [kg] at 1 Ah and 30 C, powers of Ah and C, scatter
_COMMON_C, _C_UNKNOWN = 30.0, 0.5  # where no rating is given; its scatter, as a standard deviation of ln C
_LEADS = (
    1.5e-3,
    0.5,
)  # [Ω] plug, leads and solder of one pack of 5 Ah; a power of 1/Ah: thinner wires on smaller packs

_TEXT = re.compile(
    r"\s*(\d+)\s*s\s*(?:(\d+)\s*p)?\s*(\d+(?:\.\d+)?)\s*(mah|ah)?\s*(?:[,/ ]?\s*(\d+(?:\.\d+)?)\s*c)?\s*", re.IGNORECASE
)


class Battery(NamedTuple):
    """Cells in series and parallel, charge [C], resistance of the pack [Ω], mass [kg], voltages and the open-circuit table."""

    cells: int
    parallel: int
    capacity: Estimate  # [C]
    resistance: Estimate
    mass: Estimate
    full: float  # [V]
    nominal: float
    empty: float
    table_charge: tuple[float, ...]
    table_voltage: tuple[float, ...]


def battery(text: str) -> Battery:
    """A battery from "6S1300", "6S1300 100C", "1S250", "4S2P5000" (mAh of the whole pack), "6S22Ah" """
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"battery = {shown(text)}: expected cells and mAh such as 6S1300 or 6S1300 100C")
    cells, parallel = int(match[1]), int(match[2] or 1)
    hours = float(match[3]) * (1.0 if (match[4] or "").lower() == "ah" else 1e-3)
    rating = float(match[5]) if match[5] else None
    if not 1 <= cells <= 28 or not 1 <= parallel <= 50:
        raise ValueError(
            f"battery = {shown(text)}: {cells} cells by {parallel}; expected 1 to 28 in series, 1 to 50 parallel"
        )
    if not 0.02 <= hours <= 500.0:
        raise ValueError(
            f"battery = {shown(text)}: {hours:g} A h; expected 0.02 to 500 (capacity is in mAh unless Ah follows)"
        )
    if rating is not None and not 1.0 <= rating <= 300.0:
        raise ValueError(f"battery = {shown(text)}: a rating of {rating:g} C; expected 1 to 300")
    how = f"fit over lithium-polymer cells of {hours:g} A h" + (f" and {rating:g} C" if rating else ", rating unknown")
    return Battery(
        cells,
        parallel,
        given(3600.0 * hours, f"{text.strip()}: given"),
        _resistance(cells, hours, rating, how),
        _mass(cells, hours, rating, how),
        FULL * cells,
        NOMINAL * cells,
        EMPTY * cells,
        CELL_CHARGE,
        tuple(volts * cells for volts in CELL_VOLTAGE),
    )


def _resistance(cells: int, hours: float, rating: float | None, how: str) -> Estimate:
    """R = n r(Ah, C) + leads"""
    at_one, capacity_power, rating_power, scatter = RESISTANCE
    own = cells * at_one * hours**capacity_power * ((rating or _COMMON_C) / 30.0) ** rating_power
    leads = _LEADS[0] * (5.0 / hours) ** _LEADS[1]
    spread = scatter if rating else math.hypot(scatter, _C_UNKNOWN * rating_power)
    return Estimate(own + leads, spread, f"{how}, with leads and plug")


def _mass(cells: int, hours: float, rating: float | None, how: str) -> Estimate:
    """m = n m(Ah, C)"""
    at_one, capacity_power, rating_power, scatter = MASS
    own = cells * at_one * hours**capacity_power * ((rating or _COMMON_C) / 30.0) ** rating_power
    return Estimate(own, scatter if rating else math.hypot(scatter, _C_UNKNOWN * rating_power), how)
