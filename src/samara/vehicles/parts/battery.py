"""Estimate a lithium battery from cells and capacity: voltages, resistance, mass. Cells are lithium polymer unless
LiIon follows.

    R = 16.5 mΩ / Ah (C/30)^−0.875 per cell      [141 cells, half of them within 20 %, with tails 42 %]
    m = 29.4 g · Ah^0.96 (C/30)^0.135 per cell   [130 cells, scatter 8 %]

tests/vehicles/cell_data.csv has the cells, and a test repeats the fits. Connectors and leads add to the resistance. Round
lithium-ion cells vary little: 70 mΩ/Ah and 16.5 g/Ah (Molicel's P42A and P45B; a pack weighs 7 % more than its cells).
"""

import math
import re
from typing import NamedTuple

from samara.core.sanitise import quote_value
from samara.vehicles.parts.uncertain import UncertainValue, exact_value

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
ION_VOLTAGE = (2.80, 3.20, 3.32, 3.45, 3.60, 3.75, 3.95, 4.06, 4.20)  # [V] of round lithium-ion cells
FULL_VOLTAGE, NOMINAL_VOLTAGE, EMPTY_VOLTAGE = 4.2, 3.7, 3.3  # [V] per cell; pilots land at EMPTY
ION_NOMINAL, ION_EMPTY = 3.6, 3.0
RESISTANCE = (16.5e-3, -1.0, -0.875, 0.42)  # [Ω] at 1 Ah and 30 C, powers of Ah and C, scatter
MASS = (29.4e-3, 0.96, 0.135, 0.10)  # [kg] at 1 Ah and 30 C, powers of Ah and C, scatter
ION_RESISTANCE = (70e-3, 0.25)  # [Ω A h] a round lithium-ion cell, scatter
ION_MASS = (16.5e-3, 0.10)  # [kg/(A h)] a round lithium-ion cell in its pack
_DEFAULT_C_RATING, _C_RATING_SPREAD = (
    30.0,
    0.5,
)  # rating if none is stated; its scatter, as a standard deviation of ln C
_LEAD_RESISTANCE = (
    1.5e-3,
    0.5,
)  # [Ω] plug, leads and solder of one pack of 5 Ah; a power of 1/Ah: thinner wires on smaller packs

_PATTERN = re.compile(
    r"\s*(\d+)\s*s\s*(?:(\d+)\s*p)?\s*(\d+(?:\.\d+)?)\s*(mah|ah)?\s*(?:[,/ ]?\s*(\d+(?:\.\d+)?)\s*c)?"
    r"\s*(li-?ion|li-?po)?\s*",
    re.IGNORECASE,
)


class Battery(NamedTuple):
    """Cells in series and parallel, charge [C], resistance of the pack [Ω], mass [kg], voltages and the open-circuit table."""

    cells: int
    parallel: int
    capacity: UncertainValue  # [C]
    resistance: UncertainValue
    mass: UncertainValue
    full: float  # [V]
    nominal: float
    empty: float
    table_charge: tuple[float, ...]
    table_voltage: tuple[float, ...]


def battery(text: str) -> Battery:
    """Parse and estimate "6S1300", "6S1300 100C", "1S250", "4S2P5000" (mAh of the whole pack), "6S22Ah", "6S8000 LiIon"."""
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"battery = {quote_value(text)}: expected cells and mAh such as 6S1300 or 6S1300 100C")
    cells, parallel = int(match[1]), int(match[2] or 1)
    capacity_ah = float(match[3]) * (1.0 if (match[4] or "").lower() == "ah" else 1e-3)
    rating = float(match[5]) if match[5] else None
    if not 1 <= cells <= 28 or not 1 <= parallel <= 50:
        raise ValueError(
            f"battery = {quote_value(text)}: {cells} cells by {parallel}; expected 1 to 28 in series, 1 to 50 parallel"
        )
    if not 0.02 <= capacity_ah <= 500.0:
        raise ValueError(
            f"battery = {quote_value(text)}: {capacity_ah:g} A h; expected 0.02 to 500 (capacity is in mAh unless Ah follows)"
        )
    if rating is not None and not 1.0 <= rating <= 300.0:
        raise ValueError(f"battery = {quote_value(text)}: a rating of {rating:g} C; expected 1 to 300")
    is_ion = (match[6] or "").lower().replace("-", "") == "liion"
    resistance, mass = _ion_estimates(cells, capacity_ah) if is_ion else _polymer_estimates(cells, capacity_ah, rating)
    return Battery(
        cells,
        parallel,
        exact_value(3600.0 * capacity_ah, f"{text.strip()}: given"),
        _add_leads(resistance, capacity_ah),
        mass,
        FULL_VOLTAGE * cells,
        (ION_NOMINAL if is_ion else NOMINAL_VOLTAGE) * cells,
        (ION_EMPTY if is_ion else EMPTY_VOLTAGE) * cells,
        CELL_CHARGE,
        tuple(voltage * cells for voltage in (ION_VOLTAGE if is_ion else CELL_VOLTAGE)),
    )


def _polymer_estimates(cells: int, capacity_ah: float, rating: float | None) -> tuple[UncertainValue, UncertainValue]:
    """R = n r(Ah, C), m = n m₁(Ah, C): resistance and mass of n cells in series, from fits of one cell."""
    source = f"fit over lithium-polymer cells of {capacity_ah:g} A h" + (
        f" and {rating:g} C" if rating else ", rating unknown"
    )
    estimates = []
    for reference, capacity_power, rating_power, scatter in (RESISTANCE, MASS):
        value = cells * reference * capacity_ah**capacity_power * ((rating or _DEFAULT_C_RATING) / 30.0) ** rating_power
        estimates.append(
            UncertainValue(value, scatter if rating else math.hypot(scatter, _C_RATING_SPREAD * rating_power), source)
        )
    return estimates[0], estimates[1]


def _ion_estimates(cells: int, capacity_ah: float) -> tuple[UncertainValue, UncertainValue]:
    """R = n 70 mΩ/Ah,  m = n 16.5 g · Ah"""
    source = f"data sheets of round lithium-ion cells, for {capacity_ah:g} A h"
    return (
        UncertainValue(cells * ION_RESISTANCE[0] / capacity_ah, ION_RESISTANCE[1], source),
        UncertainValue(cells * ION_MASS[0] * capacity_ah, ION_MASS[1], source),
    )


def _add_leads(cells: UncertainValue, capacity_ah: float) -> UncertainValue:
    """Add the resistance of the leads, which are thinner on smaller packs."""
    leads = _LEAD_RESISTANCE[0] * (5.0 / capacity_ah) ** _LEAD_RESISTANCE[1]
    return UncertainValue(cells.value + leads, cells.spread, f"{cells.source}, with leads and plug")
