"""A campaign on GPUs: which backend flies it, on all devices of this machine, and what they find flown again on LLVM.

A GPU flies in single precision with fused operations. Of what it finds, the failures and the worst are told only after LLVM
has flown them too: their columns are LLVM's, `found` is what the GPU called them, and `confirmed` is true. Where very many of a
batch fail, LLVM flies the first of them, and what is told says so.
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
MOST_AGAIN = 2048  # failures of a batch that LLVM flies too: some seconds


def backend_for(flying: Flying, asked: str, before: str | None) -> str:
    """llvm, jax or pallas: for "auto" that of the rows there are, or pallas where JAX has a GPU and can fly these"""
    if asked not in BACKENDS:
        raise CampaignError(f"backend {asked!r}: expected one of {', '.join(BACKENDS)}")
    if before is not None and asked not in (AUTO, before):
        raise CampaignError(
            f"backend {asked!r}: its rows so far were flown on {before}; expected that, or another folder"
        )
    if asked == AUTO:
        if before is not None:
            return before
        return PALLAS if has_gpu() and not why_not(flying) else LLVM
    if asked != LLVM and (reason := why_not(flying)):
        raise CampaignError(f"{flying.campaign.origin}: backend {asked!r}: {reason}; expected llvm for it")
    return asked


def why_not(flying: Flying) -> str:
    """Why JAX cannot fly a campaign; empty where it can"""
    for name in flying.campaign.names:
        if name.startswith((SETTING, CONTROLLER)):
            return f"{name} varies, which only llvm can"
    if not find_spec("jax"):
        return "JAX is not installed"
    from samara.sim.fly_many_jax import require_traceable

    try:
        traced = (own for own in flying.campaign.names if own.partition(".")[0] not in (*PLACES, *NUMBERS))
        require_traceable(flying.scenario, tuple(traced))
    except ValueError as error:
        return str(error)
    return ""


def flown_by(flying: Flying, rows: Rows, how: dict[str, Any]) -> Columns:
    """A batch on a backend; that of this machine's GPUs with its failures as LLVM says they are"""
    if how["backend"] == LLVM:
        return flying.told(rows, **how)
    return failures_confirmed(on_devices(lambda own: flying.told(own, **how), rows), rows, flying.told)


def on_devices(fly: Fly, rows: Rows) -> Columns:
    """Some rows on all devices that JAX has here, a part on each"""
    from samara.compiler.jax.arrays import default_device
    from samara.compiler.jax.arrays import devices as local_devices

    devices = local_devices()[: max(1, len(rows.numbers) // WORTH_A_DEVICE)]
    if len(devices) == 1:
        return fly(rows)
    parts = np.array_split(np.arange(len(rows.numbers)), len(devices))

    def part(device: Any, lanes: Array) -> Columns:
        with default_device(device):
            return fly(some_rows(rows, slice(lanes[0], lanes[-1] + 1)))

    with ThreadPoolExecutor(len(devices)) as threads:
        told = list(threads.map(part, devices, parts))
    return {name: np.concatenate([own[name] for own in told]) for name in told[0]}


def failures_confirmed(columns: Columns, rows: Rows, on_llvm: Fly) -> Columns:
    """A GPU's columns with those rows replaced that failed there, the first MOST_AGAIN of them, by what LLVM says of them"""
    failed = np.flatnonzero((columns["outcome"] == FAIL) | (columns["outcome"] == INVALID))[:MOST_AGAIN]
    wide = {name: own.astype(float) if own.dtype.kind == "f" else own for name, own in columns.items()}
    told = wide | {FOUND: columns["outcome"], CONFIRMED: np.zeros(len(rows.numbers), dtype=bool)}
    return replaced(told, failed, on_llvm(some_rows(rows, failed))) if len(failed) else told


def replaced(columns: Columns, places: Array, others: Columns) -> Columns:
    """Columns with some rows as LLVM flew them"""
    told = {name: np.array(own) for name, own in columns.items()}
    for name, own in others.items():
        told[name][places] = own
    told[CONFIRMED][places] = True
    return told


def worst_confirmed(store: Store, flying: Flying, count: int, on_llvm: Fly) -> None:
    """The worst rows flown again on LLVM until all of them are: a few more where the first ones were not so bad after all"""
    while len(again := _worst(store, flying.campaign.worst_by, count)):
        for first, last in store.done():
            here = again[(again >= first) & (again <= last)]
            if len(here):
                block = next(own for own in store.blocks if own.first <= first < own.first + own.length)
                table = store.file(first, last)
                before = {name: _array(table[name]) for name in table.column_names if name != "row"}
                told = replaced(before, here - first, on_llvm(flying.rows(here, block)))
                store.write(np.arange(first, last + 1), told)


def _worst(store: Store, metric: str, count: int) -> Array:
    """The numbers of those of the worst rows that LLVM has not flown"""
    table = store.table(["row", metric, CONFIRMED])
    values = np.asarray(table[metric].to_numpy(), dtype=float)
    worst = np.argsort(-badness(values, metric), kind="stable")[:count]
    left = worst[~table[CONFIRMED].to_numpy()[worst]]
    return np.sort(table["row"].to_numpy()[left])


class Confirmed(NamedTuple):
    """Failures that a GPU found; how many of them LLVM flew again, how many rows in all, and how many came out otherwise"""

    failures: int
    failures_again: int
    flown_again: int
    disagree: int


def confirmed(store: Store) -> Confirmed:
    """What LLVM said of what a GPU has found"""
    table = store.table(["outcome", FOUND, CONFIRMED])
    again = table[CONFIRMED].to_numpy()
    now, then = (np.array(table[name].to_pylist(), dtype=str) for name in ("outcome", FOUND))
    failed = np.isin(then, (FAIL, INVALID))
    return Confirmed(*(int(np.count_nonzero(own)) for own in (failed, failed & again, again, again & (now != then))))


def _array(column: Any) -> Array:
    return np.array(column.to_numpy())
