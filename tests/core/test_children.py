"""A child that asked to end with its parent does, even if the parent is killed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from support.children import child

PARENT = """
import os, time
from samara.core.confined_folder import kill_when_parent_ends
parent, child = os.getpid(), os.fork()
if child:
    print(child, flush=True)
else:
    kill_when_parent_ends(parent)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a signal for it")
def test_a_child_ends_when_its_parent_is_killed():
    with child([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        while _runs(grandchild):
            time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
