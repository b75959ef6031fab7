"""`sweep`: a campaign flown, here or on a cluster, into its folder; begun again it goes on where it stopped."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.batch import Columns, Flying
from samara.campaigns.campaign import (
    Campaign,
    CampaignError,
    Stop,
    campaign_toml,
    folder_of,
    parse_campaign,
    read_campaign,
)
from samara.campaigns.confidence import confidence_sequence
from samara.campaigns.gpu_confirmation import LLVM, backend_for, confirmed, flown_by, worst_confirmed
from samara.campaigns.outcome import DEGRADED, OUTCOMES, PASS
from samara.campaigns.samplers import GRID
from samara.campaigns.samples import Block
from samara.campaigns.store import Store, alone, store_for
from samara.core.types import Array

BATCH = 4096  # rows: some seconds of flying, and a file of a few hundred kilobytes
BATCH_ON_GPU = 1 << 18


class Progress(NamedTuple):
    """How far it is: rows done and asked for, how many have each outcome, and nodes of a cluster that were lost"""

    done: int
    total: int
    counts: dict[str, int]
    nodes_lost: int = 0


Tell = Callable[[Progress], None]
Done = tuple[Block, Array, Columns]


def sweep(
    campaign: str | Path | Campaign,
    out: str | Path,
    *,
    add: int = 0,
    batch: int | None = None,
    backend: str = "auto",
    ray: str | None = None,
    progress: Tell = lambda own: None,
    **how: Any,
) -> Store:
    """Fly a campaign into a folder: rows that are there already are left, all others flown and written batch by batch

    `add` asks for so many rows more than the folder was asked for before. `backend` is that of `samara.fly_many`; "auto" is
    "pallas" where JAX has a GPU that can fly it, else "llvm". With `ray`, "auto" or an address, batches are tasks of a Ray
    cluster. The rows are the same, bit for bit, on "llvm", whatever the batch, the threads, the cluster, and however often it
    was stopped in between. What a GPU calls a failure, and the worst, is flown again on "llvm" before it is told.
    """
    text = campaign_toml(campaign) if isinstance(campaign, Campaign) else read_campaign(campaign)
    own = campaign if isinstance(campaign, Campaign) else parse_campaign(text, str(campaign), folder_of(campaign))
    if batch is not None and batch < 1:
        raise CampaignError(f"batch is {batch}; expected a number of rows of at least 1")
    if add < 0 or (add and own.sampler == GRID):
        raise CampaignError(f"add is {add} with the sampler {own.sampler!r}; expected rows to add, and no grid")
    flying = Flying.of(own)
    store = store_for(own, text, out)
    with alone(store.folder):
        if add:
            store.add(add)
        chosen = backend_for(flying, LLVM if ray and backend == "auto" else backend, store.about.get("backend"))
        store.note(backend=chosen)
        counts = counted(store)
        total, done = store.total, sum(counts.values())
        progress(Progress(done, total, counts))
        known = own.stop is not None and done > 0 and _known(counts, own.stop)
        lost = [0]
        flown = iter(()) if known else _flown(flying, store, total - done, batch, ray, {"backend": chosen, **how}, lost)
        for _, numbers, columns in flown:
            store.write(numbers, columns)
            for name in OUTCOMES:
                counts[name] += int(np.count_nonzero(columns["outcome"] == name))
            done += len(numbers)
            progress(Progress(done, total, counts, lost[-1]))
            if own.stop is not None and _known(counts, own.stop):
                break
        if chosen != LLVM:
            worst_confirmed(store, flying, own.kept.worst, flying.told)
            store.note(confirmed=confirmed(store)._asdict())
    return store


def counted(store: Store) -> dict[str, int]:
    """How many rows have each outcome so far"""
    counts = dict.fromkeys(OUTCOMES, 0)
    if store.done():
        found = store.table(["outcome"])["outcome"].value_counts().to_pylist()
        counts |= {own["values"]: own["counts"] for own in found}
    return counts


def _flown(
    flying: Flying, store: Store, left: int, batch: int | None, ray: str | None, how: dict[str, Any], lost: list[int]
) -> Iterator[Done]:
    if ray is not None:
        from samara.campaigns.ray_cluster import flown_on

        yield from flown_on(ray, flying, store.missing, left, batch, how, lost.append)
        return
    for block, numbers in store.missing(batch or (BATCH if how["backend"] == LLVM else BATCH_ON_GPU)):
        yield block, numbers, flown_by(flying, flying.rows(numbers, block), how)


def _known(counts: dict[str, int], stop: Stop) -> bool:
    """Whether the rate of success is known as well as was asked; looking after every batch costs no coverage"""
    own = confidence_sequence(counts[PASS] + counts[DEGRADED], sum(counts.values()), stop.confidence)
    return 0.5 * (own.high - own.low) <= stop.half_width
