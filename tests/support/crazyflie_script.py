"""Run a script for cflib in simulated time instead of real time: python crazyflie_script.py CLOCK SCRIPT …

CLOCK is a file with the time of the simulation [s], as a double. The script is unchanged: only `time.sleep` and `time.time` are
replaced, so that it flies the same on a slow or busy machine.
"""

import mmap
import runpy
import struct
import sys
import time

_sleep, _begun = time.sleep, time.time()


def main() -> None:
    """Replace the clock and run the script."""
    with open(sys.argv[1], "rb") as file:
        clock = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def now() -> float:
        (seconds,) = struct.unpack("<d", clock[:8])
        return _begun + float(seconds)

    def sleep(seconds: float) -> None:
        deadline = now() + seconds
        while now() < deadline:
            _sleep(0.002)

    time.time, time.sleep = now, sleep
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
