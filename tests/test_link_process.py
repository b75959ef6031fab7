"""An autopilot's process ends with its owner, on systems with groups of processes and on those without."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from samara.link.process import Process

UNKNOWN_ON_WINDOWS = ("killpg", "getpgid", "setsid", "fork", "getuid"), ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1")


@pytest.mark.parametrize("polite", [True, False])
@pytest.mark.parametrize("groups", [True, False])
def test_a_process_is_ended_with_or_without_groups(monkeypatch, polite, groups):
    """Without `os.killpg` and SIGKILL the process itself is ended: polite or not, it is gone after `stop`."""
    own = Process([sys.executable, "-c", "import time; time.sleep(600)"], polite=polite)
    try:
        own.start()
        running = own._running
        assert running.poll() is None and own.ended == ""
        if not groups:
            monkeypatch.delattr(os, "killpg")
            monkeypatch.setattr("samara.link.process.signal", SimpleNamespace(SIGTERM=signal.SIGTERM))
        own.stop()
        assert running.poll() is not None
        own.stop()  # a second time there is nothing left to end
    finally:
        monkeypatch.undo()
        own.close()
    assert not own.folder.exists()


def test_modules_are_imported_where_these_names_do_not_exist():
    """Links, commands and the simulator, as Windows would import them."""
    system, signals = UNKNOWN_ON_WINDOWS
    program = (
        "import os, signal, importlib, pkgutil\n"
        f"[delattr(os, name) for name in {system} if hasattr(os, name)]\n"
        f"[delattr(signal, name) for name in {signals} if hasattr(signal, name)]\n"
        "import samara.cli, samara.link, samara.sim\n"
        "for package in (samara.cli, samara.link, samara.sim):\n"
        "    for own in pkgutil.iter_modules(package.__path__):\n"
        "        importlib.import_module(f'{package.__name__}.{own.name}')\n"
        "print('imported')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "imported\n", done.stderr[-2000:]
