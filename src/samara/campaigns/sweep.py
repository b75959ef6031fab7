"""`sweep`: fly a campaign into its folder, locally or on a cluster; an interrupted campaign resumes."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.batch import CampaignFlights, Columns
from samara.campaigns.campaign import (
    Campaign,
    CampaignError,
    StoppingRule,
    campaign_folder,
    campaign_toml,
    parse_campaign,
    read_campaign,
)
from samara.campaigns.changes import changed_campaign
from samara.campaigns.confidence import confidence_sequence
from samara.campaigns.gpu_confirmation import LLVM, choose_backend, confirm_worst, confirmation_result, fly_batch
from samara.campaigns.outcome import DEGRADED, OUTCOMES, PASS
from samara.campaigns.samplers import GRID
from samara.campaigns.samples import RowRange
from samara.campaigns.store import Store, exclusive_lock, open_or_create_store
from samara.core.types import Array
from samara.scenario.changes import Changes, ControllerChoice, SensorChoice, VehicleChoice, WindChoice

BATCH_ROWS = 4096  # rows: a few seconds of flying, and a file of a few hundred kilobytes
GPU_BATCH_ROWS = 1 << 18


class SweepProgress(NamedTuple):
    """Progress of a sweep: completed and requested rows, the count of each outcome, and lost cluster nodes."""

    done: int
    total: int
    counts: dict[str, int]
    nodes_lost: int = 0


ProgressCallback = Callable[[SweepProgress], None]
CompletedBatch = tuple[RowRange, Array, Columns]


def sweep(
    campaign: str | Path | Campaign,
    out: str | Path,
    *,
    vehicle: VehicleChoice | None = None,
    controller: ControllerChoice | None = None,
    wind: WindChoice | None = None,
    sensors: SensorChoice | None = None,
    seed: int | None = None,
    duration: float | None = None,
    settings: Mapping[str, object] | None = None,
    additional_flights: int = 0,
    batch: int | None = None,
    backend: str = "auto",
    ray: str | None = None,
    progress: ProgressCallback = lambda state: None,
    **options: Any,
) -> Store:
    """Fly the missing rows of a campaign and write them to its folder, batch by batch.

    Args:
        campaign: a campaign or the path of its file.
        out: folder of the campaign; rows that it already has are not flown.
        vehicle, controller, wind, sensors, seed, duration: changes of the scenario of all flights, as in `samara.fly`;
            `seed` is that of the campaign. The folder gets copies of files from elsewhere and of `Vehicle` objects. Of a
            controller function it gets the name: to resume the campaign or replay its flights, pass the function again. A
            campaign cannot state wind and sensor objects.
        settings: changes of other keys of the scenario; files that they name are in the campaign's folder.
        additional_flights: count of rows to append to the folder's previous request.
        batch: rows per batch; chosen by backend if None.
        backend: backend of `samara.fly_many`; "auto" is "pallas" if JAX has a GPU that can fly the campaign, else "llvm".
        ray: "auto" or the address of a Ray cluster, on which batches are tasks; None flies locally.
        progress: called with the `SweepProgress` at the start and after each batch.
        options: further options of `samara.fly_many`.

    Returns:
        The store of the campaign.

    On "llvm" the rows have the same bits for every batch size, thread count, cluster and sequence of interruptions. Failures
    and worst flights of a GPU are confirmed on "llvm" before they are reported.
    """
    text = campaign_toml(campaign) if isinstance(campaign, Campaign) else read_campaign(campaign)
    parsed = (
        campaign if isinstance(campaign, Campaign) else parse_campaign(text, str(campaign), campaign_folder(campaign))
    )
    changes = Changes(vehicle, controller, wind, sensors, seed, duration)
    with changed_campaign(parsed, changes, settings) as changed:
        if changed.controller is not None and ray is not None:
            raise CampaignError(f"--ray {ray}: a controller function flies only locally; expected no cluster")
        request = _Request(additional_flights, batch, backend, ray, progress, options)
        return _sweep(changed, text if changed == parsed else campaign_toml(changed), out, request)


class _Request(NamedTuple):
    """How `sweep` flies: its arguments."""

    additional_flights: int
    batch: int | None
    backend: str
    ray: str | None
    progress: ProgressCallback
    options: dict[str, Any]


def _sweep(parsed: Campaign, text: str, out: str | Path, request: _Request) -> Store:
    additional_flights, batch, backend, ray, progress, options = request
    if batch is not None and batch < 1:
        raise CampaignError(f"batch is {batch}; expected at least 1 row")
    if additional_flights < 0 or (additional_flights and parsed.sampler == GRID):
        raise CampaignError(
            f"additional_flights is {additional_flights} with the sampler {parsed.sampler!r}; "
            "expected a number from 0, and 0 for a grid"
        )
    campaign_flights = CampaignFlights.prepare(parsed)
    store = open_or_create_store(parsed, text, out)
    with exclusive_lock(store.folder):
        if additional_flights:
            store.add(additional_flights)
        chosen_backend = choose_backend(
            campaign_flights, LLVM if ray and backend == "auto" else backend, store.metadata.get("backend")
        )
        store.update_metadata(backend=chosen_backend)
        counts = outcome_counts(store)
        total, done = store.total, sum(counts.values())
        progress(SweepProgress(done, total, counts))
        is_precise = parsed.stop is not None and done > 0 and _is_precise(counts, parsed.stop)
        lost_nodes = [0]
        batches = (
            iter(())
            if is_precise
            else _fly_missing(
                campaign_flights, store, total - done, batch, ray, {"backend": chosen_backend, **options}, lost_nodes
            )
        )
        for _, numbers, columns in batches:
            store.write(numbers, columns)
            for name in OUTCOMES:
                counts[name] += int(np.count_nonzero(columns["outcome"] == name))
            done += len(numbers)
            progress(SweepProgress(done, total, counts, lost_nodes[-1]))
            if parsed.stop is not None and _is_precise(counts, parsed.stop):
                break
        if chosen_backend != LLVM:
            confirm_worst(store, campaign_flights, parsed.record.worst, campaign_flights.fly_columns)
            store.update_metadata(confirmed=confirmation_result(store)._asdict())
    return store


def outcome_counts(store: Store) -> dict[str, int]:
    """Return the count of rows with each outcome."""
    counts = dict.fromkeys(OUTCOMES, 0)
    if store.row_ranges():
        value_counts = store.table(["outcome"])["outcome"].value_counts().to_pylist()
        counts |= {value_count["values"]: value_count["counts"] for value_count in value_counts}
    return counts


def _fly_missing(
    campaign_flights: CampaignFlights,
    store: Store,
    remaining: int,
    batch: int | None,
    ray: str | None,
    options: dict[str, Any],
    lost_nodes: list[int],
) -> Iterator[CompletedBatch]:
    if ray is not None:
        from samara.campaigns.ray_cluster import fly_on_cluster

        yield from fly_on_cluster(
            ray, campaign_flights, store.missing_batches, remaining, batch, options, lost_nodes.append
        )
        return
    for block, numbers in store.missing_batches(
        batch or (BATCH_ROWS if options["backend"] == LLVM else GPU_BATCH_ROWS)
    ):
        yield block, numbers, fly_batch(campaign_flights, campaign_flights.rows(numbers, block), options)


def _is_precise(counts: dict[str, int], stop: StoppingRule) -> bool:
    """Return whether the success rate is as precise as the stopping rule requires; checks after every batch are valid."""
    interval = confidence_sequence(counts[PASS] + counts[DEGRADED], sum(counts.values()), stop.confidence)
    return 0.5 * (interval.high - interval.low) <= stop.half_width
