"""The flights of a campaign that are kept whole: flown again after it, and recorded beside its rows."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from samara.campaigns.campaign import Campaign
from samara.campaigns.replay import flown_again, recording_of
from samara.campaigns.store import Store, kept_rows


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
                found = flown_again(store.folder, row)
            except (
                ValueError,
                FloatingPointError,
            ) as error:  # a row that fails in the simulator is no end of the others
                kept.broken[row] = str(error)
                continue
            if not found.same:
                kept.different.append(row)
        kept.paths.append(path)
    tell(len(rows), len(rows))
    return kept
