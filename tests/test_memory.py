"""What memory and work grow with: not with the number of compiles, and with the drones of a recording only as they do."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.sim.recording import Recording, Table
from samara.sim.run import run_from
from samara.vehicles.writer import vehicle_toml

COMPILE = """
import gc, samara

vehicle = samara.vehicle("crazyflie_documented")
state, command = samara.hover(vehicle)

def grown(times):
    for _ in range(times):
        samara.compile(vehicle).step(state, command, 1e-3)
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096

warm = grown(8)  # until what is freed is enough for the next
print(grown(12) - warm)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the resident memory")
def test_compiling_again_and_again_takes_no_more_memory():
    """Twelve simulators more, none of them kept: less than 0.2 MB each, where LLVM's passes alone were once 0.7."""
    ended = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 12 * 200_000


class Counted(dict):
    """Streams that count how many of them were looked at."""

    looked = 0

    def items(self):
        for item in super().items():
            Counted.looked += 1
            yield item


def test_a_recording_is_sorted_by_drone_in_one_pass():
    """Fifty drones with three streams each: 150 looks, not 7,500; each drone gets its own, and no stream of streams."""
    names, text = [f"d{i}" for i in range(50)], vehicle_toml(samara.vehicle("crazyflie")).encode()
    tables = {
        f"/{name}/{stream}": Table(("t",), ("s",), "", np.array([i]), np.array([[float(i)]]))
        for i, name in enumerate(names)
        for stream in ("state", "command", "state/more")
    }
    drones = json.dumps([{"name": name, "controller": "pid"} for name in names])
    files = {f"vehicle/{name}.toml": text for name in names}
    run = run_from(Recording(Path("x"), 0, {"drones": drones}, files, Counted(tables), (), True, ""))
    assert Counted.looked == len(tables)
    assert all(set(track.tables) == {"state", "command"} for track in run.tracks)
    assert [float(track.tables["state"].rows[0, 0]) for track in run.tracks] == list(range(50))
