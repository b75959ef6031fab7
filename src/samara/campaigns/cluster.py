"""A campaign on a Ray cluster: batches are tasks, and come back in any order. What a lost node had is flown again elsewhere."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from samara.campaigns.campaign import Campaign, CampaignError
from samara.campaigns.flying import Columns, Flying
from samara.campaigns.rows import Block
from samara.core.extras import MissingExtraError

Array = np.ndarray[Any, Any]

RETRIES = 20  # of a batch whose node was lost
AHEAD = 2  # batches that wait for each processor, so that none is idle and results do not pile up


def flown_on(
    address: str, campaign: Campaign, batches: Sequence[tuple[Block, Array]], how: dict[str, Any]
) -> Iterator[tuple[Block, Array, Columns]]:
    """Each batch with its columns as soon as it is done, on the cluster at an address, or on the one that "auto" finds"""
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            sentence = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CampaignError(f"--ray {address}: no Ray cluster answers there ({sentence}); expected one") from None
    try:
        task = ray.remote(max_retries=RETRIES, num_cpus=1)(_columns)
        given = ray.put(campaign)
        waiting: dict[Any, tuple[Block, Array]] = {}
        left = iter(batches)
        room = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        while True:
            while len(waiting) < room and (batch := next(left, None)) is not None:
                waiting[task.remote(given, batch[1], batch[0], how)] = batch
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1)
            for own in done:
                block, numbers = waiting.pop(own)
                yield block, numbers, ray.get(own)
    finally:
        if ours:
            ray.shutdown()


_ready: dict[Campaign, Flying] = {}


def _columns(campaign: Campaign, numbers: Array, block: Block, how: dict[str, Any]) -> Columns:
    """A batch on a worker, which keeps the campaign it has read for the next"""
    if campaign not in _ready:
        _ready.clear()
        _ready[campaign] = Flying.of(campaign)
    return _ready[campaign].columns(numbers, block, **how)


def _ray() -> Any:
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtraError("--ray needs Ray: pip install 'samara[ray]'") from None
    return ray
