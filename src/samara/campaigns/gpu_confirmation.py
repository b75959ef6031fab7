"""Campaigns on GPUs: choice of the backend, flights on all devices of this machine, and confirmation of their results on LLVM.

A GPU flies in single precision with fused operations. Its failures and worst flights are reported only after LLVM has flown
them too: their columns are LLVM's, `found` is the outcome on the GPU, and `confirmed` is true. If very many
flights of a batch fail, LLVM flies only the first of them, and the result gives their count.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.batch import CampaignFlights, Columns, select_rows
from samara.campaigns.campaign import CampaignError
from samara.campaigns.outcome import FAIL, INVALID, badness
from samara.campaigns.samples import SETTING, SampleRows
from samara.campaigns.store import Store
from samara.compiler.jax import has_gpu
from samara.core.types import Array
from samara.sim.varied import CONTROLLER_PREFIX, POSITION_PARAMETERS, SCALAR_START_PARAMETERS

Fly = Callable[[SampleRows], Columns]

AUTO, LLVM, JAX, PALLAS = "auto", "llvm", "jax", "pallas"
BACKENDS = (AUTO, LLVM, JAX, PALLAS)
GPU_OUTCOME, CONFIRMED = "found", "confirmed"
MIN_ROWS_PER_DEVICE = 4096  # rows
MAX_CONFIRMATIONS = 2048  # failures of a batch that LLVM flies too: a few seconds


def choose_backend(campaign_flights: CampaignFlights, requested: str, previous: str | None) -> str:
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
        return PALLAS if has_gpu() and not unsupported_reason(campaign_flights) else LLVM
    if requested != LLVM and (reason := unsupported_reason(campaign_flights)):
        raise CampaignError(
            f"{campaign_flights.campaign.origin}: backend {requested!r}: {reason}; expected llvm for it"
        )
    return requested


def unsupported_reason(campaign_flights: CampaignFlights) -> str:
    """Return the reason why JAX cannot fly a campaign; empty if it can."""
    for name in campaign_flights.campaign.names:
        if name.startswith((SETTING, CONTROLLER_PREFIX)):
            return f"{name} varies, which only llvm can"
    if not find_spec("jax"):
        return "JAX is not installed"
    from samara.sim.fly_many_jax import require_traceable

    try:
        traced_names = (
            name
            for name in campaign_flights.campaign.names
            if name.partition(".")[0] not in (*POSITION_PARAMETERS, *SCALAR_START_PARAMETERS)
        )
        require_traceable(campaign_flights.scenario, tuple(traced_names))
    except ValueError as error:
        return str(error)
    return ""


def fly_batch(campaign_flights: CampaignFlights, rows: SampleRows, options: dict[str, Any]) -> Columns:
    """Fly a batch on a backend; failures on a GPU are confirmed on LLVM."""
    if options["backend"] == LLVM:
        return campaign_flights.fly_columns(rows, **options)
    return confirm_failures(
        fly_across_devices(lambda part: campaign_flights.fly_columns(part, **options), rows),
        rows,
        campaign_flights.fly_columns,
    )


def fly_across_devices(fly: Fly, rows: SampleRows) -> Columns:
    """Fly rows on all local JAX devices, an equal part on each."""
    from samara.compiler.jax.arrays import default_device
    from samara.compiler.jax.arrays import devices as local_devices

    devices = local_devices()[: max(1, len(rows.row_numbers) // MIN_ROWS_PER_DEVICE)]
    if len(devices) == 1:
        return fly(rows)
    parts = np.array_split(np.arange(len(rows.row_numbers)), len(devices))

    def fly_part(device: Any, indices: Array) -> Columns:
        with default_device(device):
            return fly(select_rows(rows, slice(indices[0], indices[-1] + 1)))

    with ThreadPoolExecutor(len(devices)) as threads:
        results = list(threads.map(fly_part, devices, parts))
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}


def confirm_failures(columns: Columns, rows: SampleRows, fly_on_llvm: Fly) -> Columns:
    """Return a GPU's columns with its first MAX_CONFIRMATIONS failures replaced by LLVM's results."""
    failed = np.flatnonzero((columns["outcome"] == FAIL) | (columns["outcome"] == INVALID))[:MAX_CONFIRMATIONS]
    double_columns = {
        name: values.astype(float) if values.dtype.kind == "f" else values for name, values in columns.items()
    }
    result = double_columns | {GPU_OUTCOME: columns["outcome"], CONFIRMED: np.zeros(len(rows.row_numbers), dtype=bool)}
    return replace_rows(result, failed, fly_on_llvm(select_rows(rows, failed))) if len(failed) else result


def replace_rows(columns: Columns, indices: Array, llvm_columns: Columns) -> Columns:
    """Return the columns with some rows replaced by LLVM's results, and marked as confirmed."""
    result = {name: np.array(values) for name, values in columns.items()}
    for name, values in llvm_columns.items():
        result[name][indices] = values
    result[CONFIRMED][indices] = True
    return result


def confirm_worst(store: Store, campaign_flights: CampaignFlights, count: int, fly_on_llvm: Fly) -> None:
    """Fly the worst rows again on LLVM until all of the worst are confirmed; rows that are better on LLVM are replaced
    by the next worst."""
    while len(unconfirmed := _unconfirmed_worst(store, campaign_flights.campaign.rank_by, count)):
        for first, last in store.row_ranges():
            file_rows = unconfirmed[(unconfirmed >= first) & (unconfirmed <= last)]
            if len(file_rows):
                block = next(
                    candidate
                    for candidate in store.blocks
                    if candidate.first <= first < candidate.first + candidate.length
                )
                table = store.file(first, last)
                columns = {name: _array(table[name]) for name in table.column_names if name != "row"}
                confirmed_columns = replace_rows(
                    columns, file_rows - first, fly_on_llvm(campaign_flights.rows(file_rows, block))
                )
                store.write(np.arange(first, last + 1), confirmed_columns)


def _unconfirmed_worst(store: Store, metric: str, count: int) -> Array:
    """Return the worst rows that LLVM has not flown."""
    table = store.table(["row", metric, CONFIRMED])
    values = np.asarray(table[metric].to_numpy(), dtype=float)
    worst = np.argsort(-badness(values, metric), kind="stable")[:count]
    remaining = worst[~table[CONFIRMED].to_numpy()[worst]]
    return np.sort(table["row"].to_numpy()[remaining])


class ConfirmationResult(NamedTuple):
    """Counts: failures on a GPU, those that LLVM repeated, all repeated rows, and rows with another outcome on LLVM."""

    failures: int
    failures_again: int
    flown_again: int
    disagree: int


def confirmation_result(store: Store) -> ConfirmationResult:
    """Count the agreement of LLVM with the GPU over all rows of a store."""
    table = store.table(["outcome", GPU_OUTCOME, CONFIRMED])
    flown_again = table[CONFIRMED].to_numpy()
    llvm_outcome, gpu_outcome = (np.array(table[name].to_pylist(), dtype=str) for name in ("outcome", GPU_OUTCOME))
    failed = np.isin(gpu_outcome, (FAIL, INVALID))
    return ConfirmationResult(
        *(
            int(np.count_nonzero(mask))
            for mask in (failed, failed & flown_again, flown_again, flown_again & (llvm_outcome != gpu_outcome))
        )
    )


def _array(column: Any) -> Array:
    return np.array(column.to_numpy())
