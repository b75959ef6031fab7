"""A campaign searched instead of sampled: the flight of it that fails, what makes it fail, and how rare failures are.

Its margin is that of its flights by what the scenario expects: (limit − value)/limit, the least of them.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.batch import Flying
from samara.campaigns.campaign import Campaign, CampaignError, campaign_toml
from samara.campaigns.falsify import Falsified, Margin, Shrunk, falsify, shrink
from samara.campaigns.samplers import GRID, INDEPENDENT, seeds_of
from samara.campaigns.samples import Rows, values_at
from samara.campaigns.subset_simulation import RareEvent, subset_simulation, unit_cube
from samara.core.atomic_files import atomic_write
from samara.core.quantity import Scalar
from samara.core.types import Array

NO_FLIGHT = 10.0  # the margin of a row that could not be flown: no failure of a flight, and nowhere to search


class Weakness(NamedTuple):
    """The result of searching a campaign for a failure"""

    searched: Falsified
    shrunk: Shrunk | None  # None if nothing fails
    case: dict[str, float]  # the factors of the shrunk flight, or of the worst, by name
    changed: tuple[str, ...]  # those that have to differ from the middle of their distributions


def campaign_margin(flying: Flying, *, seed: int | None = None, **how: Scalar) -> Margin:
    """Flies rows of the unit cube. All have the seed of the campaign's row 0, or row i that of row i of another `seed`"""
    campaign, flown = flying.campaign, 0

    def margin(u: Array) -> Array:
        nonlocal flown
        numbers = np.arange(len(u), dtype=np.int64)
        seeds = seeds_of(campaign.seed, 0 * numbers) if seed is None else seeds_of(seed, flown + numbers)
        flown += len(u)
        told = flying.told(Rows(numbers, seeds, values_at(campaign, u, flying.nominal)), **how)
        if all(told["error"]):
            raise CampaignError(f"{campaign.origin}: none of {len(u)} rows can be flown: {told['error'][0]}")
        return np.nan_to_num(np.asarray(told["margin"], dtype=float), nan=NO_FLIGHT)

    return margin


def weakness(
    campaign: Campaign, *, budget: int = 100, method: str = "evolution", seed: int = 0, **how: Scalar
) -> Weakness:
    """Search a campaign for a flight that fails by at most `budget` flights, then shrink it by at most ten times as many"""
    flying = Flying.of(_searchable(campaign))
    margin = campaign_margin(flying, **how)
    k = len(campaign.names)
    found = falsify(margin, k, budget=budget, seed=seed, method=method)
    small = shrink(margin, found.row, np.full(k, 0.5), budget=10 * budget) if found.found else None
    row = small.row if small else found.row
    values = values_at(campaign, row[None], flying.nominal)
    changed = tuple(campaign.names[i] for i in small.changed) if small else ()
    return Weakness(found, small, {name: float(own[0]) for name, own in values.items()}, changed)


def rare_failures(
    campaign: Campaign, *, seed: int = 0, per_level: int = 6000, budget: int = 100_000, **how: Scalar
) -> RareEvent:
    """The probability that a flight of a campaign fails, by subset simulation; every flight has a seed of its own"""
    margin = campaign_margin(Flying.of(_searchable(campaign)), seed=seed, **how)
    factors = len(campaign.names)
    return subset_simulation(lambda u: margin(unit_cube(u)), factors, seed=seed, per_level=per_level, budget=budget)


def save_case(campaign: Campaign, case: dict[str, float], name: str = "case") -> Path:
    """NAME.toml and NAME.csv beside the campaign's file: a campaign of that one flight, to fly again and to look at"""
    place = Path(campaign.folder)
    with atomic_write(place / f"{name}.csv") as temporary:
        temporary.write_text(f"{','.join(case)}\n{','.join(map(repr, case.values()))}\n", encoding="utf-8")
    alone = replace(
        campaign, name=name, flights=1, sampler=INDEPENDENT, factors=(), correlated=(), table=f"{name}.csv", stop=None
    )
    with atomic_write(place / f"{name}.toml") as temporary:
        temporary.write_text(campaign_toml(alone), encoding="utf-8")
    return place / f"{name}.toml"


def _searchable(campaign: Campaign) -> Campaign:
    if campaign.table or campaign.sampler == GRID or not campaign.names:
        raise CampaignError(
            f"{campaign.origin}: is a grid, a table, or varies nothing; expected distributions to search"
        )
    return campaign
