"""Rows of a campaign flown again: one recorded, those to keep recorded beside the rows, or the trajectories of several."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.batch import Flying, at_row, some_rows
from samara.campaigns.campaign import Campaign, CampaignError, parse_campaign
from samara.campaigns.samples import settings_of
from samara.campaigns.store import FILES, TEXT, Store, kept_rows, open_store
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.sim.fly import fly


class FlownAgain(NamedTuple):
    """The recording, the row's factors, its outcome in the campaign, and whether it ended in the same place again"""

    path: Path
    values: dict[str, Scalar]
    outcome: str
    reason: str
    same: bool


def campaign_of(store: Store) -> Campaign:
    """The campaign of a folder, as it was given"""
    folder = store.files.directory(FILES) if FILES in store.files.names() else store.folder / FILES
    return parse_campaign(store.text, str(store.folder / TEXT), folder)


def recording_of(row: int) -> str:
    """Where the recording of a row is in the folder of a campaign, beside the rows"""
    return f"flown/row_{row}.mcap"


def flown_again(folder: str | Path, row: int, out: str | Path | None = None) -> FlownAgain:
    """A row by its number, recorded to the MCAP file `out`, by default beside the rows"""
    store = open_store(folder)
    campaign = campaign_of(store)
    if campaign.fingerprint() != store.about["fingerprint"]:
        raise CampaignError(f"{folder}: its scenario or table was changed since it flew; expected them as they were")
    block = next((own for own in store.blocks if own.first <= row < own.first + own.length), None)
    if block is None:
        raise CampaignError(f"row {row}: {folder} has the rows 0 to {store.total - 1}")
    scenario, vary, values = at_row(Flying.of(campaign), row, block)
    entry = store.row(row)
    target = Path(out) if out else store.files.place_for(recording_of(row))
    run = fly(scenario, vary=vary, out=target, overwrite=True)
    end = run.tracks[0].tables["state"].rows[-1]
    same = entry is not None and all(float(end[k]) == entry[f"final_{axis}"] for k, axis in enumerate("xyz"))
    outcome, reason = (entry["outcome"], entry["reason"]) if entry else ("not flown", "")
    return FlownAgain(target, values, outcome, reason, same)


POINTS = 200  # of a trajectory


class Trajectory(NamedTuple):
    """Where a row was: times [s], (times, 3) places in the world [m]"""

    row: int
    time: Array
    p_W: Array


def trajectories(flying: Flying, store: Store, rows: Sequence[int]) -> list[Trajectory]:
    """The trajectories of the rows that can be flown, in their order, at about two hundred times"""
    scenario = flying.scenario
    tick = 1.0 / scenario.rates.log
    every = tick * math.ceil(scenario.duration / POINTS / tick)
    trajectories = []
    for block in store.blocks:
        numbers = np.array([row for row in rows if block.first <= row < block.first + block.length], dtype=np.int64)
        if not len(numbers):
            continue
        batch = flying.rows(numbers, block)
        alone = bool(settings_of(batch))
        for part in [slice(i, i + 1) for i in range(len(numbers))] if alone else [slice(None)]:
            flights = flying.fly(some_rows(batch, part), record=every)
            p_W = np.asarray(flights.states[:, :3])
            trajectories += [Trajectory(int(row), flights.time, p_W[:, :, k]) for k, row in enumerate(numbers[part])]
    return trajectories


class KeptFlights(NamedTuple):
    """Recordings, those of before included; rows that did not come to the same end, and rows that broke, with what was said"""

    paths: list[Path]
    different: list[int]
    broken: dict[int, str]


def keep_flights(
    store: Store, campaign: Campaign, tell: Callable[[int, int], None] = lambda done, of: None
) -> KeptFlights:
    """Record what the campaign's `keep` names; what is recorded already is left. `tell` hears how many of how many are done"""
    kept = KeptFlights([], [], {})
    rows = kept_rows(store, campaign)
    for done, row in enumerate(rows):
        tell(done, len(rows))
        path = store.folder / recording_of(row)
        if not store.files.has_file(recording_of(row)):
            try:
                rerun = flown_again(store.folder, row)
            except (ValueError, FloatingPointError) as error:  # the other rows are still recorded
                kept.broken[row] = str(error)
                continue
            if not rerun.same:
                kept.different.append(row)
        kept.paths.append(path)
    tell(len(rows), len(rows))
    return kept
