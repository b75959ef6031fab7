"""One stopwatch for Samara and its peers."""

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], repeats: int = 15) -> float:
    """The shortest of many short runs: the machine's other work only ever adds."""
    times = []
    for _ in range(repeats):
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return min(times)
