"""Processes that a test starts. None outlives its test, and Ctrl-C reaches each, also if the tests run under nohup."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import samara

COMMAND = (sys.executable, "-m", "samara_command")
"""The command `samara`, of the sources that are tested."""
SOURCES = {"PYTHONPATH": str(Path(samara.__file__).parent.parent)}

# A Python script executes the program, since `preexec_fn` would run while other threads hold locks. It resets signals that the
# parent ignores; and the kernel kills the child when its parent ends, for whatever reason (PR_SET_PDEATHSIG).
LAUNCHER_SCRIPT = """
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
def child(arguments: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Run the program with its `arguments`; at the end of the block kill it and all processes that it has started.

    `options` are those of `subprocess.Popen`. Skips the test on systems without process groups, such as Windows.
    """
    if not hasattr(os, "killpg"):
        pytest.skip("needs a system with process groups")
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER_SCRIPT, str(os.getpid())]
    environment = {**(options.pop("env", None) or os.environ), **SOURCES}
    process = subprocess.Popen([*launcher, *map(str, arguments)], start_new_session=True, env=environment, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def run_child(
    arguments: Sequence[str | Path], seconds: float = 600.0, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a program to its end and return its output; raise TimeoutExpired after `seconds`."""
    with child(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        stdout, stderr = process.communicate(timeout=seconds)
    return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)
