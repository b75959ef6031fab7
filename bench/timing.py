"""The stopwatch for Samara and its peers, and the fields that every results file begins with."""

import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def cpu_name() -> str:
    """Return the CPU's name, if the system reports it, and the thread count."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} threads"


def describe_results(name: str, machine: str = "") -> dict[str, str]:
    """Return name, machine and date of a results file; the machine is this CPU unless it is a GPU."""
    return {
        "name": name,
        "machine": machine or cpu_name(),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
    }


def best(call: Callable[[], Any], repeats: int = 15, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the shortest time of many short runs: other load on the machine only adds time."""
    times = []
    for _ in range(repeats):
        begin = clock()
        call()
        times.append(clock() - begin)
    return min(times)
