"""Which flights of a campaign are looked at more closely: the worst, the first that failed, and every n-th."""

import numpy as np

from samara.campaigns.campaign import Campaign
from samara.campaigns.outcome import DEGRADED, ERROR, FAIL, INVALID, PASS, badness
from samara.campaigns.store import Store
from samara.core.types import Array

RANK = {INVALID: 0, FAIL: 1, DEGRADED: 2, PASS: 3}  # of two flights the one that failed is the worse


def worst_rows(store: Store, campaign: Campaign, count: int) -> Array:
    """Numbers of the worst rows, the worst first: by outcome, then by `worst_by`. Rows that could not be flown are none"""
    table = store.table(["row", "outcome", "reason", campaign.worst_by])
    row, outcome, reason, value = (table[name].to_numpy(zero_copy_only=False) for name in table.column_names)
    flown = reason != ERROR
    rank = np.array([RANK[own] for own in outcome], dtype=int)
    order = np.lexsort((row[flown], -badness(value, campaign.worst_by)[flown], rank[flown]))
    return np.asarray(row[flown][order][:count])


def kept_rows(store: Store, campaign: Campaign) -> list[int]:
    """Numbers of the rows that `keep` names, each once and in their order"""
    table = store.table(["row", "outcome", "reason"])
    row, outcome, reason = (table[name].to_numpy(zero_copy_only=False) for name in table.column_names)
    flown = reason != ERROR
    failed = row[flown & np.isin(outcome, (FAIL, INVALID))][: campaign.kept.failures]
    every = row[flown & (row % campaign.kept.every == 0)] if campaign.kept.every else row[:0]
    return sorted({*worst_rows(store, campaign, campaign.kept.worst).tolist(), *failed.tolist(), *every.tolist()})
