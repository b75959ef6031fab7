"""A child that asked to end with its parent does, also where the parent is killed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from support.children import SOURCES

PARENT = """
import os, subprocess, sys
child = "import os, sys, time; from samara.core.children import end_with_parent; end_with_parent(int(sys.argv[1])); "
child += "print('here', flush=True); time.sleep(600)"
running = subprocess.Popen([sys.executable, "-c", child, str(os.getpid())], stdout=subprocess.PIPE, text=True)
running.stdout.readline()
print(running.pid, flush=True)
running.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a signal for it")
def test_a_child_ends_when_its_parent_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env={**os.environ, **SOURCES}
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    while _runs(child):
        time.sleep(0.02)


def _runs(number: int) -> bool:
    """Whether a process is there and not merely waiting to be asked how it ended"""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
