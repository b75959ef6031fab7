"""Runs a script written for cflib by the clock of the simulation, not of the machine: python crazyflie_script.py CLOCK SCRIPT …

CLOCK is a file with the time of the simulation [s], as a double. The script itself is unchanged: only `time.sleep` and
`time.time` are other than usual, so that it flies the same on a machine that is slow or busy.
"""

import mmap
import runpy
import struct
import sys
import time

_sleep, _begun = time.sleep, time.time()


def main() -> None:
    """Lays the clock under the script, and runs it"""
    with open(sys.argv[1], "rb") as file:
        clock = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def now() -> float:
        (seconds,) = struct.unpack("<d", clock[:8])
        return _begun + float(seconds)

    def sleep(seconds: float) -> None:
        until = now() + seconds
        while now() < until:
            _sleep(0.002)

    time.time, time.sleep = now, sleep
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
