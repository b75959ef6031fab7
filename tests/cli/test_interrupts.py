"""Ctrl-C ends a command with one line and status 130 at any time; child processes of tests receive it, too."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.children import child, run_child
from support.command import call
from support.repository import TESTS

from samara.cli.console import handle_interrupts

SLOW_IMPORT = """
import time
open({flag!r}, "w").close()
time.sleep(600)
"""


def wait_for_file(path):
    """Wait for a file that a child creates."""
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path.name} was never created")


def test_ctrl_c_while_the_package_is_imported_is_a_word_and_no_traceback(tmp_path):
    """A module whose import never ends replaces NumPy."""
    (tmp_path / "numpy.py").write_text(SLOW_IMPORT.format(flag=str(tmp_path / "importing")))
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import samara_command; samara_command.main()"
    words = [sys.executable, "-c", program, "fly"]
    with child(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        wait_for_file(tmp_path / "importing")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "samara: stopped\n")


def test_an_import_under_nohup_goes_on():
    """An ignored SIGINT stays ignored: the command runs to its end."""
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "import samara_command, sys; sys.argv = ['samara', '--version']\n"
        "signal.raise_signal(signal.SIGINT); samara_command.main()\n"
    )
    process = run_child([sys.executable, "-c", program], text=True)
    assert process.returncode == 0 and re.fullmatch(r"samara [\d.]+\n", process.stdout), process.stderr


def test_an_interrupt_that_the_compiler_swallows_ends_the_flight(monkeypatch, capsys, tmp_path, signals_heard):
    """An exception raised in a callback is lost silently; the flight ends before its first instant."""
    from samara.sim import simulation

    class InterruptedSimulation(simulation.Simulation):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("samara.sim.fly.Simulation", InterruptedSimulation)
    status, out, err = call(monkeypatch, capsys, "fly", "hover", "--out", str(tmp_path))
    assert (status, err) == (130, "samara: stopped\n") and "holds the flight up to here" in "".join(out.splitlines())


def test_one_that_is_lost_before_a_flight_begins_is_heard_in_it(signals_heard):
    """Nested contexts share their state; an interrupt that cannot be raised is held and not printed."""
    deleted = []

    class RaisesOnDelete:
        def __del__(self):
            deleted.append(True)
            signal.raise_signal(signal.SIGINT)

    hook = sys.unraisablehook
    with handle_interrupts():
        RaisesOnDelete()  # an exception in __del__ goes to sys.unraisablehook
        assert deleted
        with handle_interrupts() as inner, pytest.raises(KeyboardInterrupt):
            inner.check()
    assert sys.unraisablehook is hook


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="needs SIGTERM")
def test_every_command_takes_a_signal_for_ctrl_c(monkeypatch, capsys, signals_heard):
    monkeypatch.setattr("samara.cli.catalogue.console", lambda: signal.raise_signal(signal.SIGTERM))
    assert call(monkeypatch, capsys, "vehicles") == (130, "", "samara: stopped\n")


# The children of tests -------------------------------------------------------------------------------------------------


def test_a_child_hears_ctrl_c_where_its_parent_does_not():
    """As under nohup: ignored by the parent, but not by the child."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
        assert run_child([sys.executable, "-c", program], text=True).stdout == "True\n"
    finally:
        signal.signal(signal.SIGINT, previous)


SLEEPING_CHILD = """
import os, sys, time
open(sys.argv[1] + "-new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + "-new", sys.argv[1])
time.sleep(600)
"""


def has_ended(pid):
    """Whether a process has ended, waiting for it."""
    for _ in range(6000):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (OSError, IndexError):
            return True
        time.sleep(0.01)
    return False


def test_what_a_child_has_started_ends_with_the_block(tmp_path):
    program = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPING_CHILD!r}, {str(tmp_path / 'pid')!r}])"
    )
    with child([sys.executable, "-c", program]) as running:
        wait_for_file(tmp_path / "pid")
    assert running.returncode == -signal.SIGKILL
    assert has_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent is gone")
def test_a_child_ends_with_its_test_however_that_ends(tmp_path):
    """The test process is killed, so no `finally` runs in it."""
    program = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "from support.children import child\n"
        f"with child([sys.executable, '-c', {SLEEPING_CHILD!r}, {str(tmp_path / 'pid')!r}]) as running: running.wait()\n"
    )
    with child([sys.executable, "-c", program]) as tester:
        wait_for_file(tmp_path / "pid")
        tester.kill()
        assert has_ended(int((tmp_path / "pid").read_text()))


def test_no_test_starts_a_process_that_could_be_left_behind():
    """Only one module calls Popen."""
    calling = [path.name for path in TESTS.rglob("*.py") if re.search(r"\bPopen\(", path.read_text(encoding="utf-8"))]
    assert calling == ["children.py"]
