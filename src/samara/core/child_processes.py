"""Child processes end with their parent, however that ends."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when the one of that number ends; to be called in the child, as it starts

    Elsewhere than on Linux nobody can be asked, and a child that outlives its parent ends with its work.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)
