"""Trajectories of some rows of a campaign, flown again together."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.campaigns.batch import Flying, some_rows
from samara.campaigns.samples import settings_of
from samara.campaigns.store import Store
from samara.core.types import Array

POINTS = 200  # of a trajectory


class Trajectory(NamedTuple):
    """Where a row was: times [s], (times, 3) places in the world [m]"""

    row: int
    time: Array
    p_W: Array


def trajectories(flying: Flying, store: Store, rows: Sequence[int]) -> list[Trajectory]:
    """Of each row that can be flown, in their order, at some two hundred times"""
    scenario = flying.scenario
    tick = 1.0 / scenario.rates.log
    every = tick * math.ceil(scenario.duration / POINTS / tick)
    found = []
    for block in store.blocks:
        numbers = np.array([own for own in rows if block.first <= own < block.first + block.length], dtype=np.int64)
        if not len(numbers):
            continue
        asked = flying.rows(numbers, block)
        alone = bool(settings_of(asked))
        for part in [slice(i, i + 1) for i in range(len(numbers))] if alone else [slice(None)]:
            flights = flying.fly(some_rows(asked, part), record=every)
            found += [
                Trajectory(int(number), flights.time, np.asarray(flights.states[:, :3, k]))
                for k, number in enumerate(numbers[part])
            ]
    return found
