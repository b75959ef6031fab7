"""Rerun rows of a campaign: record one, record the selected ones in the campaign's folder, or compute the paths of several."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.batch import CampaignFlights, row_scenario, select_rows
from samara.campaigns.campaign import Campaign, CampaignError, parse_campaign
from samara.campaigns.samples import scenario_settings
from samara.campaigns.store import CAMPAIGN_FILE, FILES, Store, open_store, rows_to_record
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.scenario.changes import load_function
from samara.sim.fly import fly


class RerunResult(NamedTuple):
    """The recording, the row's parameters, its outcome in the campaign, and whether it ended at the same position again."""

    path: Path
    values: dict[str, Scalar]
    outcome: str
    reason: str
    same: bool


def stored_campaign(store: Store, controller: Callable[..., Any] | None = None) -> Campaign:
    """Return the campaign of a folder, from its original file, flown by a controller function if that flew it."""
    folder = store.files.directory(FILES) if FILES in store.files.names() else store.folder / FILES
    return replace(parse_campaign(store.text, str(store.folder / CAMPAIGN_FILE), folder), controller=controller)


def recording_path(row: int) -> str:
    """Return the path of a row's recording within the folder of a campaign."""
    return f"flown/row_{row}.mcap"


def rerun_row(
    folder: str | Path, row: int, out: str | Path | None = None, *, controller: Callable[..., Any] | str | None = None
) -> RerunResult:
    """Fly a row again by its number and record it to the MCAP file `out`, by default in the campaign's folder.

    `controller` is the function that flew the campaign, or `"file.py:function"`; for a campaign that a function flew.
    """
    store = open_store(folder)
    function = load_function(controller) if isinstance(controller, str) else controller
    flown_by = store.metadata.get("controller")
    if (flown_by is None) != (function is None):
        expected = (
            f"--controller FILE.py:{flown_by}, which flew it" if flown_by else "no controller: its file states it"
        )
        raise CampaignError(f"{folder}: expected {expected}")
    campaign = stored_campaign(store, function)
    if campaign.fingerprint() != store.metadata["fingerprint"]:
        changed = "its scenario, its table or its controller function" if flown_by else "its scenario or table"
        raise CampaignError(f"{folder}: {changed} was changed since it flew; expected them as they were")
    block = next(
        (candidate for candidate in store.blocks if candidate.first <= row < candidate.first + candidate.length), None
    )
    if block is None:
        raise CampaignError(f"row {row}: {folder} has the rows 0 to {store.total - 1}")
    scenario, vary, values = row_scenario(CampaignFlights.prepare(campaign), row, block)
    entry = store.row(row)
    target = Path(out) if out else store.files.writable_path(recording_path(row))
    run = fly(scenario, vary=vary, out=target, overwrite=True)
    end = run.drone_records[0].tables["state"].rows[-1]
    same = entry is not None and all(float(end[k]) == entry[f"final_{axis}"] for k, axis in enumerate("xyz"))
    outcome, reason = (entry["outcome"], entry["reason"]) if entry else ("not flown", "")
    return RerunResult(target, values, outcome, reason, same)


PATH_POINTS = 200  # of a path


class FlownPath(NamedTuple):
    """The path of a row: times [s], and positions (times, 3) in the world [m]."""

    row: int
    time: Array
    p_W: Array


def flown_paths(campaign_flights: CampaignFlights, store: Store, rows: Sequence[int]) -> list[FlownPath]:
    """Return the paths of the rows that can be flown, in their order, at about 200 times."""
    scenario = campaign_flights.scenario
    tick = 1.0 / scenario.rates.log
    interval = tick * math.ceil(scenario.duration / PATH_POINTS / tick)
    paths = []
    for block in store.blocks:
        numbers = np.array([row for row in rows if block.first <= row < block.first + block.length], dtype=np.int64)
        if not len(numbers):
            continue
        batch = campaign_flights.rows(numbers, block)
        fly_singly = bool(scenario_settings(batch))
        for part in [slice(i, i + 1) for i in range(len(numbers))] if fly_singly else [slice(None)]:
            flights = campaign_flights.fly(select_rows(batch, part), record=interval)
            p_W = np.asarray(flights.states[:, :3])
            paths += [FlownPath(int(row), flights.time, p_W[:, :, k]) for k, row in enumerate(numbers[part])]
    return paths


class SavedRecordings(NamedTuple):
    """Recordings, including earlier ones; rows that ended at another position; and rows that failed to fly, with the error."""

    paths: list[Path]
    different: list[int]
    broken: dict[int, str]


def record_flights(
    store: Store, campaign: Campaign, progress: Callable[[int, int], None] = lambda done, total: None
) -> SavedRecordings:
    """Record the flights that the campaign selects, except those already recorded; report progress by `progress(done,
    total)`."""
    saved = SavedRecordings([], [], {})
    rows = rows_to_record(store, campaign)
    for done, row in enumerate(rows):
        progress(done, len(rows))
        path = store.folder / recording_path(row)
        if not store.files.has_file(recording_path(row)):
            try:
                rerun = rerun_row(store.folder, row, controller=campaign.controller)
            except (ValueError, FloatingPointError) as error:  # the other rows are still recorded
                saved.broken[row] = str(error)
                continue
            if not rerun.same:
                saved.different.append(row)
        saved.paths.append(path)
    progress(len(rows), len(rows))
    return saved
