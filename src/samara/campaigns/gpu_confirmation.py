"""Campaigns on GPUs: choice of the backend, flights on all devices of this machine, and confirmation of their results on LLVM.

A GPU flies in single precision with fused operations. Its failures and worst flights are reported only after LLVM has flown
them too: their columns are LLVM's, `found` is the outcome on the GPU, and `confirmed` is true. If very many flights of a batch
fail, LLVM flies only the first of them, and the result gives their count.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.batch import Columns, Flying, some_rows
from samara.campaigns.campaign import CampaignError
from samara.campaigns.outcome import FAIL, INVALID, badness
from samara.campaigns.samples import SETTING, Rows
from samara.campaigns.store import Store
from samara.compiler.jax import has_gpu
from samara.core.types import Array
from samara.sim.varied import CONTROLLER, NUMBERS, PLACES

Fly = Callable[[Rows], Columns]

AUTO, LLVM, JAX, PALLAS = "auto", "llvm", "jax", "pallas"
BACKENDS = (AUTO, LLVM, JAX, PALLAS)
FOUND, CONFIRMED = "found", "confirmed"
WORTH_A_DEVICE = 4096  # rows
MOST_AGAIN = 2048  # failures of a batch that LLVM flies too: a few seconds


def backend_for(campaign_flights: Flying, requested: str, previous: str | None) -> str:
    """Return llvm, jax or pallas; "auto" is the backend of the existing rows, else pallas if a GPU can fly them."""
    if requested not in BACKENDS:
        raise CampaignError(f"backend {requested!r}: expected one of {', '.join(BACKENDS)}")
    if previous is not None and requested not in (AUTO, previous):
        raise CampaignError(
            f"backend {requested!r}: the rows in this folder were flown on {previous}; expected that, or another folder"
        )
    if requested == AUTO:
        if previous is not None:
            return previous
        return PALLAS if has_gpu() and not why_not(campaign_flights) else LLVM
    if requested != LLVM and (reason := why_not(campaign_flights)):
        raise CampaignError(
            f"{campaign_flights.campaign.origin}: backend {requested!r}: {reason}; expected llvm for it"
        )
    return requested


def why_not(campaign_flights: Flying) -> str:
    """Return the reason why JAX cannot fly a campaign; empty if it can."""
    for name in campaign_flights.campaign.names:
        if name.startswith((SETTING, CONTROLLER)):
            return f"{name} varies, which only llvm can"
    if not find_spec("jax"):
        return "JAX is not installed"
    from samara.sim.fly_many_jax import require_traceable

    try:
        traced_names = (
            name for name in campaign_flights.campaign.names if name.partition(".")[0] not in (*PLACES, *NUMBERS)
        )
        require_traceable(campaign_flights.scenario, tuple(traced_names))
    except ValueError as error:
        return str(error)
    return ""


def flown_by(campaign_flights: Flying, rows: Rows, options: dict[str, Any]) -> Columns:
    """Fly a batch on a backend; failures on a GPU are confirmed on LLVM."""
    if options["backend"] == LLVM:
        return campaign_flights.told(rows, **options)
    return failures_confirmed(
        on_devices(lambda part: campaign_flights.told(part, **options), rows), rows, campaign_flights.told
    )


def on_devices(fly: Fly, rows: Rows) -> Columns:
    """Fly rows on all local JAX devices, an equal part on each."""
    from samara.compiler.jax.arrays import default_device
    from samara.compiler.jax.arrays import devices as local_devices

    devices = local_devices()[: max(1, len(rows.numbers) // WORTH_A_DEVICE)]
    if len(devices) == 1:
        return fly(rows)
    parts = np.array_split(np.arange(len(rows.numbers)), len(devices))

    def fly_part(device: Any, indices: Array) -> Columns:
        with default_device(device):
            return fly(some_rows(rows, slice(indices[0], indices[-1] + 1)))

    with ThreadPoolExecutor(len(devices)) as threads:
        results = list(threads.map(fly_part, devices, parts))
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


def failures_confirmed(columns: Columns, rows: Rows, fly_on_llvm: Fly) -> Columns:
    """Return a GPU's columns with its first MOST_AGAIN failures replaced by LLVM's results."""
    failed = np.flatnonzero((columns["outcome"] == FAIL) | (columns["outcome"] == INVALID))[:MOST_AGAIN]
    double_columns = {
        name: values.astype(float) if values.dtype.kind == "f" else values for name, values in columns.items()
    }
    result = double_columns | {FOUND: columns["outcome"], CONFIRMED: np.zeros(len(rows.numbers), dtype=bool)}
    return replaced(result, failed, fly_on_llvm(some_rows(rows, failed))) if len(failed) else result


def replaced(columns: Columns, indices: Array, llvm_columns: Columns) -> Columns:
    """Return the columns with some rows replaced by LLVM's results, and marked as confirmed."""
    result = {name: np.array(values) for name, values in columns.items()}
    for name, values in llvm_columns.items():
        result[name][indices] = values
    result[CONFIRMED][indices] = True
    return result


def worst_confirmed(store: Store, campaign_flights: Flying, count: int, fly_on_llvm: Fly) -> None:
    """Fly the worst rows again on LLVM until all of the worst are confirmed; rows that were not as bad make way for others."""
    while len(unconfirmed := _worst(store, campaign_flights.campaign.worst_by, count)):
        for first, last in store.done():
            file_rows = unconfirmed[(unconfirmed >= first) & (unconfirmed <= last)]
            if len(file_rows):
                block = next(
                    candidate
                    for candidate in store.blocks
                    if candidate.first <= first < candidate.first + candidate.length
                )
                table = store.file(first, last)
                columns = {name: _array(table[name]) for name in table.column_names if name != "row"}
                confirmed_columns = replaced(
                    columns, file_rows - first, fly_on_llvm(campaign_flights.rows(file_rows, block))
                )
                store.write(np.arange(first, last + 1), confirmed_columns)


def _worst(store: Store, metric: str, count: int) -> Array:
    """Return the worst rows that LLVM has not flown."""
    table = store.table(["row", metric, CONFIRMED])
    values = np.asarray(table[metric].to_numpy(), dtype=float)
    worst = np.argsort(-badness(values, metric), kind="stable")[:count]
    remaining = worst[~table[CONFIRMED].to_numpy()[worst]]
    return np.sort(table["row"].to_numpy()[remaining])


class Confirmed(NamedTuple):
    """Counts: failures on a GPU, those that LLVM repeated, all repeated rows, and rows with another outcome on LLVM."""

    failures: int
    failures_again: int
    flown_again: int
    disagree: int


def confirmed(store: Store) -> Confirmed:
    """Count the agreement of LLVM with the GPU over all rows of a store."""
    table = store.table(["outcome", FOUND, CONFIRMED])
    flown_again = table[CONFIRMED].to_numpy()
    llvm_outcome, gpu_outcome = (np.array(table[name].to_pylist(), dtype=str) for name in ("outcome", FOUND))
    failed = np.isin(gpu_outcome, (FAIL, INVALID))
    return Confirmed(
        *(
            int(np.count_nonzero(mask))
            for mask in (failed, failed & flown_again, flown_again, flown_again & (llvm_outcome != gpu_outcome))
        )
    )


def _array(column: Any) -> Array:
    return np.array(column.to_numpy())
