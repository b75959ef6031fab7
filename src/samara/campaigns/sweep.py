"""`sweep`: fly a campaign into its folder, locally or on a cluster; an interrupted campaign resumes."""

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

BATCH = 4096  # rows: a few seconds of flying, and a file of a few hundred kilobytes
BATCH_ON_GPU = 1 << 18


class Progress(NamedTuple):
    """Progress of a sweep: completed and requested rows, the count of each outcome, and lost cluster nodes."""

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
    progress: Tell = lambda state: None,
    **options: Any,
) -> Store:
    """Fly the missing rows of a campaign and write them to its folder, batch by batch.

    Args:
        campaign: a campaign or the path of its file.
        out: folder of the campaign; rows that it already has are not flown.
        add: count of rows to append to the folder's previous request.
        batch: rows per batch; chosen by backend if None.
        backend: backend of `samara.fly_many`; "auto" is "pallas" if JAX has a GPU that can fly the campaign, else "llvm".
        ray: "auto" or the address of a Ray cluster, on which batches are tasks; None flies locally.
        progress: called with the `Progress` at the start and after each batch.
        how: further options of `samara.fly_many`.

    Returns:
        The store of the campaign.

    On "llvm" the rows have the same bits for every batch size, thread count, cluster and sequence of interruptions. Failures
    and worst flights of a GPU are confirmed on "llvm" before they are reported.
    """
    text = campaign_toml(campaign) if isinstance(campaign, Campaign) else read_campaign(campaign)
    parsed = campaign if isinstance(campaign, Campaign) else parse_campaign(text, str(campaign), folder_of(campaign))
    if batch is not None and batch < 1:
        raise CampaignError(f"batch is {batch}; expected at least 1 row")
    if add < 0 or (add and parsed.sampler == GRID):
        raise CampaignError(f"add is {add} with the sampler {parsed.sampler!r}; expected rows to add, and not a grid")
    campaign_flights = Flying.of(parsed)
    store = store_for(parsed, text, out)
    with alone(store.folder):
        if add:
            store.add(add)
        chosen_backend = backend_for(
            campaign_flights, LLVM if ray and backend == "auto" else backend, store.about.get("backend")
        )
        store.note(backend=chosen_backend)
        counts = counted(store)
        total, done = store.total, sum(counts.values())
        progress(Progress(done, total, counts))
        is_precise = parsed.stop is not None and done > 0 and _known(counts, parsed.stop)
        lost_nodes = [0]
        batches = (
            iter(())
            if is_precise
            else _flown(
                campaign_flights, store, total - done, batch, ray, {"backend": chosen_backend, **options}, lost_nodes
            )
        )
        for _, numbers, columns in batches:
            store.write(numbers, columns)
            for name in OUTCOMES:
                counts[name] += int(np.count_nonzero(columns["outcome"] == name))
            done += len(numbers)
            progress(Progress(done, total, counts, lost_nodes[-1]))
            if parsed.stop is not None and _known(counts, parsed.stop):
                break
        if chosen_backend != LLVM:
            worst_confirmed(store, campaign_flights, parsed.kept.worst, campaign_flights.told)
            store.note(confirmed=confirmed(store)._asdict())
    return store


def counted(store: Store) -> dict[str, int]:
    """Return the count of rows with each outcome."""
    counts = dict.fromkeys(OUTCOMES, 0)
    if store.done():
        value_counts = store.table(["outcome"])["outcome"].value_counts().to_pylist()
        counts |= {value_count["values"]: value_count["counts"] for value_count in value_counts}
    return counts


def _flown(
    campaign_flights: Flying,
    store: Store,
    remaining: int,
    batch: int | None,
    ray: str | None,
    options: dict[str, Any],
    lost_nodes: list[int],
) -> Iterator[Done]:
    if ray is not None:
        from samara.campaigns.ray_cluster import flown_on

        yield from flown_on(ray, campaign_flights, store.missing, remaining, batch, options, lost_nodes.append)
        return
    for block, numbers in store.missing(batch or (BATCH if options["backend"] == LLVM else BATCH_ON_GPU)):
        yield block, numbers, flown_by(campaign_flights, campaign_flights.rows(numbers, block), options)


def _known(counts: dict[str, int], stop: Stop) -> bool:
    """Return whether the success rate is as precise as the stopping rule requires; checks after every batch are valid."""
    interval = confidence_sequence(counts[PASS] + counts[DEGRADED], sum(counts.values()), stop.confidence)
    return 0.5 * (interval.high - interval.low) <= stop.half_width
