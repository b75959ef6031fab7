"""What a flight hands on to be recorded: rows of one stream of many drones at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.record.format import LogLine


class Block(NamedTuple):
    """Rows of a stream of n drones at the same times: a topic for each drone, times (m,) and rows (m, fields, n).

    Who is handed a block may keep it: nobody writes to its arrays again.
    """

    topics: tuple[str, ...]
    times_us: Array
    rows: Array


Sink = Callable[[Sequence[Block], Sequence[LogLine]], None]


def tables(blocks: Sequence[Block]) -> dict[str, tuple[Array, Array]]:
    """For each topic its times (m,) and its rows (m, fields), of all blocks that came one after the other"""
    together: dict[tuple[str, ...], list[Block]] = {}
    for block in blocks:
        together.setdefault(block.topics, []).append(block)
    groups = Counter(chain.from_iterable(together))
    found: dict[str, tuple[Array, Array]] = {}
    parted: dict[str, list[tuple[Array, Array]]] = {}  # of drones that were grouped in more than one way
    for topics, own in together.items():
        if all(groups[topic] == 1 for topic in topics):
            found |= dict(zip(topics, _of_each(own), strict=True))
    for topics, times_us, rows in blocks:
        if topics[0] not in found:
            for lane, topic in enumerate(topics):
                parted.setdefault(topic, []).append((times_us, rows[:, :, lane]))
    return found | {topic: (_joined(t for t, _ in own), _joined(r for _, r in own)) for topic, own in parted.items()}


def _of_each(blocks: Sequence[Block]) -> Iterator[tuple[Array, Array]]:
    """Times and rows of each drone, of blocks of the same drones"""
    times_us = _joined(block.times_us for block in blocks)
    fields, drones = blocks[0].rows.shape[1:]
    rows, at = np.empty((drones, len(times_us), fields)), 0
    for block in blocks:
        rows[:, at : at + len(block.times_us)] = block.rows.transpose(2, 0, 1)
        at += len(block.times_us)
    return ((times_us, own) for own in rows)


def _joined(parts: Iterable[Array]) -> Array:
    return np.concatenate(list(parts))
