"""Estimate a lithium battery from cells and capacity: voltages, resistance, mass. Cells are lithium polymer unless
LiIon follows.

    R = 16.2 mΩ / Ah (C/30)^−0.765 (1.5/Ah)^0.277 per cell   [141 cells, half of them within 20 %, with tails 42 %]
    m = 29.4 g · Ah^0.96 (C/30)^0.135 per cell                [130 cells, scatter 8 %]
    R = 118 mΩ / Ah (C/5)^−0.667 per round lithium-ion cell   [6 cells, scatter 18 %]

The factor (1.5/Ah) holds for cells below 1.5 Ah; of the smallest, few are known and they differ by factors. R is what a steady
current sees, ohmic part and polarisation together; a pulse of 10 to 20 s is taken to see 1/1.3 of it in a cell for power.
tests/vehicles/cell_data.csv and ion_cell_data.csv have the cells, and tests repeat the fits. Connectors and leads add to the
resistance. Round cells weigh 16.5 g/Ah in their pack (P42A and P45B, and 7 % for the pack). Unless a C rating follows,
it is that of the usual cells of that capacity: cells for energy (LG's M50: 1.5 C) have three times the resistance of cells for
power (P42A: 10 C).
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
# [V] of round lithium-ion cells, mean of models of LG's M50 (Chen et al. 2020, O'Regan et al. 2022) and NCA (Kim et al. 2011)
ION_VOLTAGE = (2.60, 3.12, 3.27, 3.43, 3.63, 3.81, 4.01, 4.09, 4.20)
FULL_VOLTAGE, NOMINAL_VOLTAGE, EMPTY_VOLTAGE = 4.2, 3.7, 3.3  # [V] per cell; pilots land at EMPTY
ION_NOMINAL, ION_EMPTY = 3.6, 3.0
RESISTANCE = (16.2e-3, -1.0, -0.765, 0.42)  # [Ω] at 1 Ah and 30 C, powers of Ah and C, scatter
SMALL_CELL = (1.5, 0.277, 0.4)  # [Ah] below which a cell has more, the power of this over Ah, more scatter per ln of it
MASS = (29.4e-3, 0.96, 0.135, 0.10)  # [kg] at 1 Ah and 30 C, powers of Ah and C, scatter
ION_RESISTANCE = (118e-3, -0.667, 0.25)  # [Ω A h] a round lithium-ion cell at 5 C, power of C, scatter
POLARISATION = (0.4, 20.0)  # part of the resistance that builds up under load, its time constant [s]
ION_POLARISATION = (0.5, 100.0)  # the two M50 models after 20, 100 and 300 s: 0.4 to 0.8 of the drop, in 85 to 150 s
ION_MASS = (16.5e-3, 0.10)  # [kg/(A h)] a round lithium-ion cell in its pack
_DEFAULT_C_RATING, _C_RATING_SPREAD = 30.0, 0.5  # if none is stated; its scatter, as a standard deviation of ln C
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
    chemistry: str
    polarisation: tuple[float, float]  # fraction of the resistance, time constant [s]


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
    resistance, mass = (
        _ion_estimates(cells, parallel, capacity_ah, rating)
        if is_ion
        else _polymer_estimates(cells, capacity_ah, rating)
    )
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
        "lithium-ion" if is_ion else "lithium-polymer",
        ION_POLARISATION if is_ion else POLARISATION,
    )


def _polymer_estimates(cells: int, capacity_ah: float, rating: float | None) -> tuple[UncertainValue, UncertainValue]:
    """R = n r(Ah, C), m = n m₁(Ah, C): resistance and mass of n cells in series, from fits of one cell."""
    source = f"fit over lithium-polymer cells of {capacity_ah:g} A h" + (
        f" and {rating:g} C" if rating else ", rating unknown"
    )
    small_capacity, small_power, small_spread = SMALL_CELL
    log_deficit = max(0.0, math.log(small_capacity / capacity_ah))
    estimates = []
    for (reference, capacity_power, rating_power, scatter), factor, extra_spread in (
        (RESISTANCE, math.exp(small_power * log_deficit), small_spread * log_deficit),
        (MASS, 1.0, 0.0),
    ):
        value = cells * factor * reference * capacity_ah**capacity_power
        rating_spread = 0.0 if rating else _C_RATING_SPREAD * rating_power
        estimates.append(
            UncertainValue(
                value * ((rating or _DEFAULT_C_RATING) / 30.0) ** rating_power,
                math.hypot(scatter, extra_spread, rating_spread),
                source,
            )
        )
    return estimates[0], estimates[1]


def _ion_estimates(
    cells: int, parallel: int, capacity_ah: float, rating: float | None
) -> tuple[UncertainValue, UncertainValue]:
    """R = n 118 mΩ/Ah (C/5)^−0.667,  m = n 16.5 g · Ah"""
    likely_rating, rating_spread = (rating, 0.0) if rating else _ion_rating(capacity_ah / parallel)
    reference, rating_power, scatter = ION_RESISTANCE
    source = f"fit over round lithium-ion cells, for {capacity_ah:g} A h and " + (
        f"{rating:g} C" if rating else f"a likely rating of {likely_rating:g} C"
    )
    return (
        UncertainValue(
            cells * reference / capacity_ah * (likely_rating / 5.0) ** rating_power,
            math.hypot(scatter, rating_power * rating_spread),
            source,
        ),
        UncertainValue(cells * ION_MASS[0] * capacity_ah, ION_MASS[1], source),
    )


def _ion_rating(cell_ah: float) -> tuple[float, float]:
    """Return the likely rating of a round cell [1/h] and its spread in ln C.

    18650 and 21700 cells are built for energy at the top of their capacities, 3.2 to 3.6 and 4.7 to 6 Ah, and for power below;
    larger packs, with cells in parallel that were not stated, can be of either.
    """
    if 3.15 <= cell_ah <= 3.65 or 4.65 <= cell_ah <= 6.0:
        return 2.0, 0.6
    return (8.0, 0.6) if 1.0 <= cell_ah < 4.65 else (4.0, 0.8)


def _add_leads(cells: UncertainValue, capacity_ah: float) -> UncertainValue:
    """Add the resistance of the leads, which are thinner on smaller packs."""
    leads = _LEAD_RESISTANCE[0] * (5.0 / capacity_ah) ** _LEAD_RESISTANCE[1]
    return UncertainValue(cells.value + leads, cells.spread, f"{cells.source}, with leads and plug")
