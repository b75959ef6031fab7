"""A flight that fails, reduced to what makes it fail: the fewest factors that differ from the nominal flight."""

import math
from collections.abc import Iterable
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.margin import Margin, margins
from samara.core.types import Array

BATCH = 4096


class Shrunk(NamedTuple):
    """The reduced case"""

    row: Array
    """(k,) as the nominal row, but for the changed factors"""
    changed: tuple[int, ...]
    """which factors still differ; the nominal flight fails itself where there is none"""
    margin: float
    flights: int
    fewest: bool
    """whether every smaller set was flown and passed; otherwise it is only so that no single one can be put back"""


def shrink(margin: Margin, case: Any, nominal: Any, *, budget: int = 1000) -> Shrunk:
    """The smallest set S for which the row that is `case` in S and `nominal` elsewhere still fails; of equals the worst

    Puts factors back as long as the flight fails, the least important first; then flies all smaller sets, within `budget`.
    """
    case, nominal = np.asarray(case, dtype=float), np.asarray(nominal, dtype=float)
    if case.ndim != 1 or case.shape != nominal.shape:
        raise ValueError(f"case has shape {case.shape}, nominal {nominal.shape}; expected one number for each factor")
    flights = 0

    def fly(sets: Iterable[tuple[int, ...]]) -> Array:
        nonlocal flights
        rows = np.array([np.where(np.isin(np.arange(len(case)), own), case, nominal) for own in sets])
        flights += len(rows)
        return margins(margin, rows)

    kept = tuple(int(i) for i in np.flatnonzero(case != nominal))
    whole, none = fly([kept, ()])
    if not whole < 0.0:
        raise ValueError(f"the case to shrink has a margin of {whole}; expected one that fails, below 0")
    if none < 0.0:
        return Shrunk(nominal, (), float(none), flights, True)
    least = float(whole)
    while len(kept) > 1:
        without = fly([_less(kept, (own,)) for own in kept])  # the lower, the less that factor mattered
        order = [kept[i] for i in np.argsort(without, kind="stable") if without[i] < 0.0]
        if not order:
            break
        several = [_less(kept, order[: n + 1]) for n in range(len(order))]
        judged = fly(several)
        most = int(np.flatnonzero(judged < 0.0)[-1])
        kept, least = several[most], float(judged[most])
    for size in range(1, len(kept)):
        if flights + math.comb(len(np.flatnonzero(case != nominal)), size) > budget:
            return Shrunk(_row(case, nominal, kept), kept, least, flights, False)
        sets = combinations((int(i) for i in np.flatnonzero(case != nominal)), size)
        found: list[tuple[float, tuple[int, ...]]] = []
        while some := list(islice(sets, BATCH)):
            found += [(float(own), each) for own, each in zip(fly(some), some, strict=True) if own < 0.0]
        if found:
            least, kept = min(found)
            break
    return Shrunk(_row(case, nominal, kept), kept, least, flights, True)


def _less(whole: tuple[int, ...], part: Iterable[int]) -> tuple[int, ...]:
    gone = set(part)
    return tuple(own for own in whole if own not in gone)


def _row(case: Array, nominal: Array, kept: tuple[int, ...]) -> Array:
    row = nominal.copy()
    row[list(kept)] = case[list(kept)]
    return row
