"""An autopilot's process ends with its owner, on systems with groups of processes and on those without."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.autopilot_peers import one_at_a_time  # noqa: F401 - a fixture
from support.children import COMMAND, child
from support.px4_program import read_reports, write_px4_program

import samara
from samara.link.link import AutopilotLostError, Watch
from samara.link.ports import bound
from samara.link.process import Process, Start
from samara.link.registry import open_link
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import ARDUPILOT, AUTOPILOTS
from samara.scenario.file import parse_scenario

UNKNOWN_ON_WINDOWS = ("killpg", "getpgid", "setsid", "fork", "getuid"), ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1")


@pytest.mark.parametrize("polite", [True, False])
@pytest.mark.parametrize("groups", [True, False])
def test_a_process_is_ended_with_or_without_groups(monkeypatch, polite, groups):
    """Without `os.killpg` and SIGKILL the process itself is ended: polite or not, it is gone after `stop`."""
    own = Process([sys.executable, "-c", "import time; time.sleep(600)"], polite=polite)
    try:
        own.start()
        running = own.running
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


# With its owner -----------------------------------------------------------------------------------------------------

SOON = 60.0  # [s]: nothing here takes so long, however slow the machine


def until(true):
    """Whether it comes true at all"""
    deadline = time.monotonic() + SOON
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def runs(pid):
    """Whether there is such a process, and it has not ended"""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.fixture
def sleeper(tmp_path):
    """An autopilot that never speaks, and leaves its number in a file."""
    program = tmp_path / "px4"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    return program


def number_of(program):
    path = program.with_name("pid")
    assert until(path.is_file)
    return int(path.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent is gone")
def test_a_process_is_gone_when_its_owner_was_killed(sleeper):
    """SIGKILL leaves its owner no time to end it: the system does."""
    lines = (
        f"from samara.link.process import Process; import time; Process([{str(sleeper)!r}]).start(); time.sleep(600)"
    )
    with child([sys.executable, "-c", lines]) as owner:
        pid = number_of(sleeper)
        assert runs(pid)
        owner.kill()  # it alone: its autopilot has a group of its own
        assert until(lambda: not runs(pid))


SWARM = """
name = "swarm"
duration = {duration}
[[drones]]
name = "drone"
vehicle = "iris_documented"
count = 3
spacing = [2, 0, 0]
autopilot = "px4"
"""


def test_a_swarm_has_a_px4_process_each_and_leaves_none(tmp_path):
    """Ports and folders of their own, the same instants for all; after the flight none runs, and their ports are free."""
    program = write_px4_program(tmp_path)
    scenario = parse_scenario(SWARM.format(duration=0.4), "swarm.toml")
    run = samara.fly(scenario, autopilot=Autopilot("px4", binary=str(program)))
    assert run.problem == "" and len(run.tracks) == 3
    reports = read_reports(tmp_path)
    assert [(answers, time_us) for _, _, answers, time_us in reports] == [(101, 404_000)] * 3
    assert len({process for process, *_ in reports}) == len({folder for _, folder, *_ in reports}) == 3
    assert not any(runs(process) or Path(folder).exists() for process, folder, *_ in reports)
    for port in (4560, 14540, 14580, 18570):
        for k in range(3):
            bound("127.0.0.1", port + k, "left open", stream=port == 4560).close()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent is gone")
def test_every_px4_of_a_swarm_is_gone_when_the_flight_was_killed(tmp_path):
    program = write_px4_program(tmp_path)
    (tmp_path / "swarm.toml").write_text(SWARM.format(duration=600.0))
    words = [*COMMAND, "fly", tmp_path / "swarm.toml", "--binary", program, "--out", tmp_path / "out"]
    with child(words, stdout=subprocess.DEVNULL) as flight:
        assert until(lambda: len(read_reports(tmp_path)) == 3)
        processes = [process for process, *_ in read_reports(tmp_path)]
        assert all(map(runs, processes))
        flight.kill()
        assert until(lambda: not any(map(runs, processes)))


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.long)])
def test_a_signal_ends_the_flight_and_its_autopilot(sleeper, name):
    """As Ctrl-C does: the sentence, status 130, and nothing left running; here a PX4 is waited for that never connects."""
    out = sleeper.with_name("out")
    words = [*COMMAND, "fly", "hover", "--autopilot", "px4", "--binary", sleeper, "--out", out]
    with child(words, stdout=subprocess.PIPE, text=True) as flight:
        pid = number_of(sleeper)
        flight.send_signal(getattr(signal, name))
        said, _ = flight.communicate(timeout=SOON)
    assert flight.returncode == 130 and "stopped;" in said and (out / "run.mcap").stat().st_size > 0
    assert not runs(pid)


def test_a_program_no_system_can_start_is_said(tmp_path):
    program = tmp_path / "px4"
    program.write_bytes(b"\x7fELF of nothing")
    program.chmod(0o755)
    own = Process([str(program)])
    try:
        try:
            own.start()
        except ValueError as error:
            said = str(error)
        else:
            assert until(lambda: own.ended)
            said = own.ended
    finally:
        own.close()
    assert "cannot be started (Exec format error" in said or "Exec format error" in said


@pytest.mark.parametrize(
    ("kind", "taken", "sentence"),
    [
        ("px4", (socket.SOCK_DGRAM, 14582), "UDP 127.0.0.1:14582 cannot be used (Address already in use): PX4 is already "
         "running for instance 2; end it, or fly with instance = 3"),
        ("ardupilot", (socket.SOCK_STREAM, 5780), "TCP 127.0.0.1:5780 cannot be used (Address already in use): ArduCopter is "
         "already running for instance 2; end it, or fly with instance = 3"),
        ("betaflight", (socket.SOCK_DGRAM, 9003), "UDP 127.0.0.1:9003 cannot be used (Address already in use): Betaflight is "
         "already running; end it, or fly with --connect: its ports are fixed"),
    ],
)  # fmt: skip
def test_an_autopilot_that_runs_already_is_named_by_its_port_before_another_is_started(kind, taken, sentence, sleeper):
    with socket.socket(socket.AF_INET, taken[0]) as other:
        other.bind(("0.0.0.0", taken[1]))
        if taken[0] == socket.SOCK_STREAM:
            other.listen()
        instance = 0 if kind == "betaflight" else 2
        with pytest.raises(ValueError) as error:
            open_link(Autopilot(kind, str(sleeper), instance), samara.vehicle("hakoniwa"), print)
    assert str(error.value) == sentence
    assert not sleeper.with_name("pid").exists()


def test_one_that_ends_again_and_again_is_restarted_three_times():
    """Then it is given up, in a sentence"""
    starts, said = [], []
    dying = SimpleNamespace(start=lambda: starts.append(1), ended="px4 ended", ended_soon=lambda: "px4 ended")
    watch = Watch(
        Autopilot("px4", on_loss="wait"), "PX4", dying, Start("px4", ()), lambda level, sentence: said.append(sentence)
    )
    for _ in range(3):
        watch.alive()
    assert len(starts) == 4 and said == ["px4 ended; restarting it"] * 3
    with pytest.raises(AutopilotLostError, match="px4 ended; it was restarted 3 times"):
        watch.alive()


@pytest.mark.parametrize("kind", AUTOPILOTS)
def test_each_autopilot_takes_sensors_so_often_and_no_oftener(kind):
    least, most = AUTOPILOTS[kind].rate_range
    for rate in (least, most):
        assert Autopilot(kind, rate=rate).sensor_rate == rate
    for rate in (0.99 * least, 1.01 * most):
        with pytest.raises(ValueError, match=f"expected {least:g} to {most:g} for {kind}"):
            Autopilot(kind, rate=rate)
    assert ARDUPILOT.rate_range[0] == 720.0  # below which ArduPilot does not arm


def test_one_that_comes_late_is_waited_for_and_one_that_does_not_come_is_given_up():
    """As long as `wait` says; then with its last words"""
    running = SimpleNamespace(start=lambda: None, ended="", last_words=lambda: ["so long"])

    def watch(wait):
        return Watch(Autopilot("px4", wait=wait), "PX4", running, Start("px4", ()), lambda level, sentence: None)

    asked = iter([False, False, True])
    watch(60.0).until(lambda seconds: next(asked), "on TCP 4560")
    assert next(asked, "all asked") == "all asked"
    with pytest.raises(
        AutopilotLostError, match=r"PX4 did not come on TCP 4560 within 1e-09 s; its last words: so long"
    ):
        watch(1e-9).until(lambda seconds: False, "on TCP 4560")
