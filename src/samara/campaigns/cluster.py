"""A campaign on a Ray cluster: batches are tasks, and come back in any order. What a lost node had is flown again elsewhere.

The rows are drawn here and flown there, each task on one thread, so that the bits are those of a campaign flown here.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from samara.backends.threads import limited_to
from samara.campaigns.campaign import CampaignError
from samara.campaigns.flying import Columns, Flying
from samara.campaigns.gpu import flown_by
from samara.campaigns.rows import Block, Rows, settings_of
from samara.campaigns.versions import versions
from samara.core.extras import MissingExtraError

Array = np.ndarray[Any, Any]
Missing = Callable[[int], Iterator[tuple[Block, Array]]]

RETRIES = 20  # of a batch whose node was lost
AHEAD = 2  # batches that wait for each processor, so that none is idle and results do not pile up
ROUNDS = 4  # batches for each processor in a small campaign
LEAST, MOST = 272, 4096  # rows in a batch: one fill of the lanes, and some seconds of flying
ANSWERS_WITHIN = 5.0  # [s]
LOOKS_EVERY = 10.0  # [s], whether the cluster is still there


def flown_on(
    address: str, flying: Flying, missing: Missing, left: int, size: int | None, how: dict[str, Any]
) -> Iterator[tuple[Block, Array, Columns]]:
    """Each batch with its columns as soon as it is done, on the cluster at an address, or on the one that "auto" finds

    `missing` gives the batches of a size, `left` is how many rows they have; without `size` each processor gets some.
    """
    ray = _ray()
    with _connected(ray, address) as host:
        needs = {"num_gpus": 1} if how.get("backend") == "pallas" else {"num_cpus": 1}
        task = ray.remote(max_retries=RETRIES, **needs)(_columns)
        every = -(-left // (ROUNDS * _processors(ray)))
        batches = missing(size or min(max(every, LEAST), MOST))
        waiting: dict[Any, tuple[Block, Array]] = {}
        while True:
            while len(waiting) < AHEAD * _processors(ray) and (batch := next(batches, None)) is not None:
                waiting[task.remote(flying, flying.rows(batch[1], batch[0]), how, versions())] = batch
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOKS_EVERY)
            if not done and not _answers(host):
                raise CampaignError(
                    f"--ray {address}: the cluster no longer answers; nothing is lost, and the same command goes on"
                )
            for own in done:
                block, numbers = waiting.pop(own)
                yield block, numbers, _got(ray, own, f"--ray {address}: rows {numbers[0]} to {numbers[-1]}")


def _columns(flying: Flying, rows: Rows, how: dict[str, Any], theirs: dict[str, str]) -> Columns:
    """A batch on a worker, on one of its machine's cores"""
    for package, ours in versions().items():
        if ours != theirs[package]:
            raise CampaignError(
                f"a worker has {package} {ours}; expected {theirs[package]}, for the same bits everywhere"
            )
    file = flying.campaign.file
    if settings_of(rows) and isinstance(file, Path) and not file.exists():
        raise CampaignError(f"a worker has no file {file}; expected it there, since numbers of it are varied")
    with limited_to(1):
        return flown_by(flying, rows, how)


def _got(ray: Any, own: Any, where: str) -> Columns:
    try:
        columns: Columns = ray.get(own)
        return columns
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        sentence = (str(cause).splitlines() or [""])[0] or type(cause).__name__
        raise CampaignError(f"{where}: {sentence}") from None


def _processors(ray: Any) -> int:
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[str]:
    """With the cluster, whose address is given; one sentence where there is none"""
    if ray.is_initialized():
        yield ""
        return
    try:
        if address != "auto" and not _answers(address):
            raise ConnectionError("nothing listens there")
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        sentence = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise CampaignError(f"--ray {address}: no Ray cluster answers ({sentence}); expected one") from None
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def _answers(host: str) -> bool:
    """Whether somebody listens at host:port; true where that is not known"""
    name, _, port = host.removeprefix("ray://").rpartition(":")
    if not host:
        return True
    if not name or not port.isdecimal() or not int(port) < 1 << 16:
        raise ValueError(f"{host!r} is not auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((name.strip("[]"), int(port)), ANSWERS_WITHIN).close()
    except OSError:
        return False
    return True


def _ray() -> Any:
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtraError("--ray needs Ray: pip install 'samara[ray]'") from None
    return ray
