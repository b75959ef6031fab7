"""Search a campaign instead of sampling it: find a failing flight, its causes, and the probability of rare failures.

The margin of a flight is the smallest (limit − value)/limit over the scenario's expectations.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import Campaign, CampaignError, campaign_toml
from samara.campaigns.falsify import FalsificationResult, Margin, ShrinkResult, falsify, shrink
from samara.campaigns.samplers import GRID, INDEPENDENT, flight_seeds
from samara.campaigns.samples import SampleRows, factor_values
from samara.campaigns.subset_simulation import RareEvent, subset_simulation, unit_cube
from samara.core.atomic_files import atomic_write
from samara.core.budget import read_bytes
from samara.core.quantity import Scalar
from samara.core.types import Array

UNFLYABLE_MARGIN = 10.0  # margin of a row that could not be flown: not a failure, and not a direction to search in


class Weakness(NamedTuple):
    """The result of searching a campaign for a failure."""

    search: FalsificationResult
    shrunk: ShrinkResult | None  # None if nothing fails
    case: dict[str, float]  # the varied parameters of the shrunk flight, or of the worst, by name
    changed: tuple[str, ...]  # those that must differ from the median of their distributions


def campaign_margin(campaign_flights: CampaignFlights, *, seed: int | None = None, **options: Scalar) -> Margin:
    """Return the margin function on rows of the unit cube.

    All flights have the seed of the campaign's row 0; with `seed`, flight i has the seed of row i of a campaign with that seed.
    """
    campaign, flown_count = campaign_flights.campaign, 0

    def margin(u: Array) -> Array:
        nonlocal flown_count
        row_numbers = np.arange(len(u), dtype=np.int64)
        seeds = (
            flight_seeds(campaign.seed, 0 * row_numbers)
            if seed is None
            else flight_seeds(seed, flown_count + row_numbers)
        )
        flown_count += len(u)
        columns = campaign_flights.fly_columns(
            SampleRows(row_numbers, seeds, factor_values(campaign, u, campaign_flights.nominal)), **options
        )
        if all(columns["error"]):
            raise CampaignError(f"{campaign.origin}: none of {len(u)} rows can be flown: {columns['error'][0]}")
        return np.nan_to_num(np.asarray(columns["margin"], dtype=float), nan=UNFLYABLE_MARGIN)

    return margin


def find_weakness(
    campaign: Campaign, *, flights: int = 100, method: str = "evolution", seed: int = 0, **options: Scalar
) -> Weakness:
    """Search a campaign for a failing flight with at most `flights` flights, then shrink it with at most ten times as many."""
    campaign_flights = CampaignFlights.prepare(_require_searchable(campaign))
    margin = campaign_margin(campaign_flights, **options)
    k = len(campaign.names)
    search = falsify(margin, k, budget=flights, seed=seed, method=method)
    shrunk = shrink(margin, search.row, np.full(k, 0.5), budget=10 * flights) if search.fails else None
    row = shrunk.row if shrunk else search.row
    values = factor_values(campaign, row[None], campaign_flights.nominal)
    changed = tuple(campaign.names[i] for i in shrunk.changed) if shrunk else ()
    return Weakness(search, shrunk, {name: float(value[0]) for name, value in values.items()}, changed)


def failure_probability(
    campaign: Campaign, *, seed: int = 0, per_level: int = 6000, flights: int = 100_000, **options: Scalar
) -> RareEvent:
    """Estimate the failure probability of a campaign by subset simulation; every flight has a different seed."""
    margin = campaign_margin(CampaignFlights.prepare(_require_searchable(campaign)), seed=seed, **options)
    factors = len(campaign.names)
    return subset_simulation(lambda u: margin(unit_cube(u)), factors, seed=seed, per_level=per_level, budget=flights)


def save_case(campaign: Campaign, case: dict[str, float], name: str = "case", folder: str | Path | None = None) -> Path:
    """Write NAME.toml and NAME.csv: a campaign of that one flight, for reruns.

    They are written into the campaign's folder, or into another one with copies of the files that the campaign names.
    """
    folder = Path(campaign.folder if folder is None else folder)
    for file_name, path in campaign.named_files().items():
        if not (folder / file_name).exists() or not (folder / file_name).samefile(path):
            with atomic_write(folder / file_name) as temporary:
                temporary.write_bytes(read_bytes(path))
    with atomic_write(folder / f"{name}.csv") as temporary:
        temporary.write_text(f"{','.join(case)}\n{','.join(map(repr, case.values()))}\n", encoding="utf-8")
    case_campaign = replace(
        campaign, name=name, flights=1, sampler=INDEPENDENT, factors=(), correlated=(), samples=f"{name}.csv", stop=None
    )
    with atomic_write(folder / f"{name}.toml") as temporary:
        temporary.write_text(campaign_toml(case_campaign), encoding="utf-8")
    return folder / f"{name}.toml"


def _require_searchable(campaign: Campaign) -> Campaign:
    if campaign.samples or campaign.sampler == GRID or not campaign.names:
        raise CampaignError(
            f"{campaign.origin}: is a grid, a table, or varies nothing; expected distributions to search"
        )
    return campaign
