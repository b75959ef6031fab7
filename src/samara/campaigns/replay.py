"""A row of a campaign flown again, alone and recorded."""

from pathlib import Path
from typing import Any, NamedTuple

from samara.campaigns.batch import Flying, at_row
from samara.campaigns.campaign import Campaign, CampaignError, parse_campaign
from samara.campaigns.store import FILES, TEXT, Store, open_store
from samara.sim.fly import fly


class FlownAgain(NamedTuple):
    """Where the recording is, the row's factors, what came of it then, and whether it ended in the same place now"""

    path: Path
    values: dict[str, Any]
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
    told = store.row(row)
    target = Path(out) if out else store.files.place_for(recording_of(row))
    run = fly(scenario, vary=vary, out=target, overwrite=True)
    end = run.tracks[0].tables["state"].rows[-1]
    same = told is not None and all(float(end[k]) == told[f"final_{axis}"] for k, axis in enumerate("xyz"))
    outcome, reason = (told["outcome"], told["reason"]) if told else ("not flown", "")
    return FlownAgain(target, values, outcome, reason, same)
