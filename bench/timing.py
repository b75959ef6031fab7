"""The stopwatch for Samara and its peers."""

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], repeats: int = 15, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the shortest time of many short runs: other load on the machine only adds time."""
    times = []
    for _ in range(repeats):
        begin = clock()
        call()
        times.append(clock() - begin)
    return min(times)
