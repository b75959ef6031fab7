"""One stopwatch for Samara and its peers."""

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], repeats: int = 15, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of many short runs: the machine's other work only ever adds."""
    times = []
    for _ in range(repeats):
        before = clock()
        call()
        times.append(clock() - before)
    return min(times)
