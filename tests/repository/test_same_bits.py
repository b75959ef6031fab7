"""The same flights on another processor, bit for bit: other kernels in OpenBLAS, NumPy without vectors, another LLVM target."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

FLIGHTS = ("hover", "wind", "sensors", "swarm", "race", "wind_tunnel", "stack", "figure8 lqr", "waypoints mpc")

# An older LLVM target has other registers and instructions; the first x86-64 had 128 bits and no FMA.
FLY = """
import hashlib, json, sys
import llvmlite.binding as llvm

flights, old = json.loads(sys.argv[1]), sys.argv[2] == "old"
if old:
    llvm.get_host_cpu_name = lambda: ""
    llvm.get_host_cpu_features = lambda: llvm.targets.FeatureMap()

import samara

digests = {}
for flight in flights:
    name, _, controller = flight.partition(" ")
    run = samara.fly(name, settings={"duration": 0.5}, controller=controller or None)
    for record in run.drone_records:
        for stream, table in record.tables.items():
            numbers = table.times_us.tobytes() + table.rows.tobytes()
            digests[f"{flight}: {record.name} {stream}"] = hashlib.sha256(numbers).hexdigest()
print(json.dumps(digests))
"""


def flown(flights: tuple[str, ...], processor: str = "host", **environment: str) -> dict[str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", FLY, json.dumps(flights), processor],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def vector_features() -> str:
    """Return the features of this processor that NumPy would use beyond its baseline"""
    umath = np._core._multiarray_umath
    return " ".join(name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name])


@pytest.mark.long
def test_flights_are_the_same_bits_on_another_processor():
    """Every stream of every drone: trims, gains, wind, noise, paths, estimates, plans."""
    reference = flown(FLIGHTS)
    assert len(reference) > 100
    assert flown(FLIGHTS, OPENBLAS_CORETYPE="Nehalem", NPY_DISABLE_CPU_FEATURES=vector_features()) == reference
    strict = tuple(flight for flight in FLIGHTS if not flight.endswith("mpc"))  # its solver fuses multiply-adds
    expected = {name: bits for name, bits in reference.items() if not name.startswith("waypoints mpc")}
    assert flown(strict, "old", OPENBLAS_CORETYPE="Haswell") == expected
