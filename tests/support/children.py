"""Processes that a test starts. None outlives its test, and Ctrl-C reaches each, also where the tests run under nohup."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import samara

COMMAND = (sys.executable, "-m", "samara_command")
"""The command `samara`, of the sources that are tested."""
SOURCES = {"PYTHONPATH": str(Path(samara.__file__).parent.parent)}

# A program becomes the child, since `preexec_fn` would run between the locks of other threads. A signal that its parent
# ignores stays ignored in a child; and the kernel kills it when its parent ends, however that ends (PR_SET_PDEATHSIG).
BECOME = """
import ctypes, os, signal, sys
for name in {"SIGINT", "SIGTERM", "SIGHUP"} & {*dir(signal)}:
    signal.signal(getattr(signal, name), signal.SIG_DFL)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def child(words: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """The program that `words` name, running; killed with all it has started where the block ends

    `options` are those of `subprocess.Popen`.
    """
    become = [sys.executable, "-I", "-S", "-c", BECOME, str(os.getpid())]
    environment = {**(options.pop("env", None) or os.environ), **SOURCES}
    running = subprocess.Popen([*become, *map(str, words)], start_new_session=True, env=environment, **options)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        for stream in (running.stdin, running.stdout, running.stderr):
            if stream is not None:
                stream.close()


def ended(words: Sequence[str | Path], seconds: float = 600.0, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """The program after its end, with what it said; TimeoutExpired where it does not end in so many seconds"""
    with child(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as running:
        said, complained = running.communicate(timeout=seconds)
    return subprocess.CompletedProcess(words, running.returncode, said, complained)
