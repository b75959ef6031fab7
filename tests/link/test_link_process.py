"""An autopilot's process ends with its owner, on systems with process groups and on those without."""

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
from samara.link.link import AutopilotLostError, AutopilotWatchdog
from samara.link.ports import bind_socket
from samara.link.process import Process, StartScript
from samara.link.registry import open_link
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import ARDUPILOT, AUTOPILOTS
from samara.scenario.file import parse_scenario

UNKNOWN_ON_WINDOWS = ("killpg", "getpgid", "setsid", "fork", "getuid"), ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1")


@pytest.mark.parametrize("polite", [True, False])
@pytest.mark.parametrize("has_groups", [True, False])
def test_a_process_is_ended_with_or_without_groups(monkeypatch, polite, has_groups):
    """Without `os.killpg` and SIGKILL only the process is ended: with or without SIGTERM, it is gone after `stop`."""
    process = Process([sys.executable, "-c", "import time; time.sleep(600)"], sigterm_first=polite)
    try:
        process.start()
        running = process.running
        assert running.poll() is None and process.exit_report == ""
        if not has_groups:
            monkeypatch.delattr(os, "killpg")
            monkeypatch.setattr("samara.link.process.signal", SimpleNamespace(SIGTERM=signal.SIGTERM))
        process.stop()
        assert running.poll() is not None
        process.stop()  # a second call does nothing
    finally:
        monkeypatch.undo()
        process.close()
    assert not process.folder.exists()


def test_modules_are_imported_where_these_names_do_not_exist():
    """Links, commands and the simulator, as Windows would import them."""
    system, signals = UNKNOWN_ON_WINDOWS
    program = (
        "import os, signal, importlib, pkgutil\n"
        f"[delattr(os, name) for name in {system} if hasattr(os, name)]\n"
        f"[delattr(signal, name) for name in {signals} if hasattr(signal, name)]\n"
        "import samara.cli, samara.link, samara.sim\n"
        "for package in (samara.cli, samara.link, samara.sim):\n"
        "    for module in pkgutil.iter_modules(package.__path__):\n"
        "        importlib.import_module(f'{package.__name__}.{module.name}')\n"
        "print('imported')\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.stdout == "imported\n", process.stderr[-2000:]


# With its owner -----------------------------------------------------------------------------------------------------

TIMEOUT = 60.0  # [s]: longer than anything here takes on a slow machine


def wait_until_true(condition):
    """Wait; return whether the condition became true."""
    deadline = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def is_running(pid):
    """Whether the process exists and has not ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.fixture
def sleeper(tmp_path):
    """An autopilot that never connects, and writes its process id to a file."""
    program = tmp_path / "px4"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    return program


def process_id(program):
    path = program.with_name("pid")
    assert wait_until_true(path.is_file)
    return int(path.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent is gone")
def test_a_process_is_gone_when_its_owner_was_killed(sleeper):
    """SIGKILL leaves its owner no time to end it: the kernel does."""
    lines = (
        f"from samara.link.process import Process; import time; Process([{str(sleeper)!r}]).start(); time.sleep(600)"
    )
    with child([sys.executable, "-c", lines]) as owner:
        pid = process_id(sleeper)
        assert is_running(pid)
        owner.kill()  # only the owner: its autopilot is in another process group
        assert wait_until_true(lambda: not is_running(pid))


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
    """Separate ports and folders, the same instants for all; after the flight none runs, and their ports are free."""
    program = write_px4_program(tmp_path)
    scenario = parse_scenario(SWARM.format(duration=0.4), "swarm.toml")
    run = samara.fly(scenario, autopilot=Autopilot("px4", binary=str(program)))
    assert run.problem == "" and len(run.drone_records) == 3
    reports = read_reports(tmp_path)
    assert [(answers, time_us) for _, _, answers, time_us in reports] == [(101, 404_000)] * 3
    assert len({process for process, *_ in reports}) == len({folder for _, folder, *_ in reports}) == 3
    assert not any(is_running(process) or Path(folder).exists() for process, folder, *_ in reports)
    for port in (4560, 14540, 14580, 18570):
        for k in range(3):
            bind_socket("127.0.0.1", port + k, "left open", stream=port == 4560).close()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process when its parent is gone")
def test_every_px4_of_a_swarm_is_gone_when_the_flight_was_killed(tmp_path):
    program = write_px4_program(tmp_path)
    (tmp_path / "swarm.toml").write_text(SWARM.format(duration=600.0))
    arguments = [*COMMAND, "fly", tmp_path / "swarm.toml", "--binary", program, "--out", tmp_path / "out"]
    with child(arguments, stdout=subprocess.DEVNULL) as flight:
        assert wait_until_true(lambda: len(read_reports(tmp_path)) == 3)
        processes = [process for process, *_ in read_reports(tmp_path)]
        assert all(map(is_running, processes))
        flight.kill()
        assert wait_until_true(lambda: not any(map(is_running, processes)))


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.long)])
def test_a_signal_ends_the_flight_and_its_autopilot(sleeper, name):
    """As Ctrl-C does: a message, status 130, and nothing left running; here the flight waits for a PX4 that never connects."""
    out = sleeper.with_name("out")
    arguments = [*COMMAND, "fly", "hover", "--autopilot", "px4", "--binary", sleeper, "--out", out]
    with child(arguments, stdout=subprocess.PIPE, text=True) as flight:
        pid = process_id(sleeper)
        flight.send_signal(getattr(signal, name))
        output, _ = flight.communicate(timeout=TIMEOUT)
    assert flight.returncode == 130 and "stopped;" in output and (out / "run.mcap").stat().st_size > 0
    assert not is_running(pid)


def test_a_program_that_no_system_can_start_is_reported(tmp_path):
    program = tmp_path / "px4"
    program.write_bytes(b"\x7fELF of nothing")
    program.chmod(0o755)
    process = Process([str(program)])
    try:
        try:
            process.start()
        except ValueError as error:
            message = str(error)
        else:
            assert wait_until_true(lambda: process.exit_report)
            message = process.exit_report
    finally:
        process.close()
    assert "cannot be started (Exec format error" in message or "Exec format error" in message


@pytest.mark.parametrize(
    ("kind", "socket_type_and_port", "sentence"),
    [
        ("px4", (socket.SOCK_DGRAM, 14582), "UDP 127.0.0.1:14582 cannot be used (Address already in use): PX4 is already "
         "running for instance 2; end it, or fly with instance = 3"),
        ("ardupilot", (socket.SOCK_STREAM, 5780), "TCP 127.0.0.1:5780 cannot be used (Address already in use): ArduCopter is "
         "already running for instance 2; end it, or fly with instance = 3"),
        ("betaflight", (socket.SOCK_DGRAM, 9003), "UDP 127.0.0.1:9003 cannot be used (Address already in use): Betaflight is "
         "already running; end it, or fly with --connect: its ports are fixed"),
    ],
)  # fmt: skip
def test_an_autopilot_that_runs_already_is_named_by_its_port_before_another_is_started(
    kind, socket_type_and_port, sentence, sleeper
):
    with socket.socket(socket.AF_INET, socket_type_and_port[0]) as sock:
        sock.bind(("0.0.0.0", socket_type_and_port[1]))
        if socket_type_and_port[0] == socket.SOCK_STREAM:
            sock.listen()
        instance = 0 if kind == "betaflight" else 2
        with pytest.raises(ValueError) as error:
            open_link(Autopilot(kind, str(sleeper), instance), samara.vehicle("hakoniwa"), print)
    assert str(error.value) == sentence
    assert not sleeper.with_name("pid").exists()


def test_one_that_ends_again_and_again_is_restarted_three_times():
    """Then the flight ends with a message."""
    starts, messages = [], []
    process = SimpleNamespace(
        start=lambda: starts.append(1), exit_report="px4 ended", wait_exit_report=lambda: "px4 ended"
    )
    watch = AutopilotWatchdog(
        Autopilot("px4", on_loss="wait"),
        "PX4",
        process,
        StartScript("px4", ()),
        lambda level, message: messages.append(message),
    )
    for _ in range(3):
        watch.restart_if_ended()
    assert len(starts) == 4 and messages == ["px4 ended; restarting it"] * 3
    with pytest.raises(AutopilotLostError, match="px4 ended; it was restarted 3 times"):
        watch.restart_if_ended()


@pytest.mark.parametrize("kind", AUTOPILOTS)
def test_each_autopilot_has_a_range_of_sensor_rates(kind):
    min_rate, max_rate = AUTOPILOTS[kind].rate_range
    for rate in (min_rate, max_rate):
        assert Autopilot(kind, rate=rate).sensor_rate == rate
    for rate in (0.99 * min_rate, 1.01 * max_rate):
        with pytest.raises(ValueError, match=f"expected {min_rate:g} to {max_rate:g} for {kind}"):
            Autopilot(kind, rate=rate)
    assert ARDUPILOT.rate_range[0] == 720.0  # below which ArduPilot does not arm


def test_a_late_autopilot_is_waited_for_and_a_missing_one_ends_the_flight():
    """After `wait` seconds, with its last output."""
    process = SimpleNamespace(start=lambda: None, exit_report="", last_output=lambda: ["so long"], output=lambda: "")

    def watch(wait):
        return AutopilotWatchdog(
            Autopilot("px4", wait=wait), "PX4", process, StartScript("px4", ()), lambda level, message: None
        )

    polls = iter([False, False, True])
    watch(60.0).wait_until(lambda seconds: next(polls), "on TCP 4560")
    assert next(polls, "all asked") == "all asked"
    with pytest.raises(
        AutopilotLostError, match=r"PX4 did not connect on TCP 4560 within 1e-09 s; its last output: so long"
    ):
        watch(1e-9).wait_until(lambda seconds: False, "on TCP 4560")


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("px4", "ERROR [param] Parameter SENS_GPS0_DELAY not found.\nERROR [param] Parameter MPC_XY_VEL not found.\n"),
        ("ardupilot", "Ignored unknown param MPC_XY_VEL in defaults file samara.parm\n"),
    ],
)
def test_parameters_that_the_autopilot_does_not_know_are_refused(kind, output):
    """Except those of Samara for other versions of PX4."""

    def connect(*names):
        process = SimpleNamespace(start=lambda: None, exit_report="", output=lambda: output)
        autopilot = Autopilot(kind, parameters=tuple((name, 1.0) for name in names))
        watch = AutopilotWatchdog(autopilot, "PX4", process, StartScript("px4", ()), lambda level, message: None)
        watch.wait_until(lambda seconds: True, "on TCP 4560")

    connect("SENS_GPS0_DELAY", "MPC_XY_CRUISE")
    with pytest.raises(ValueError, match=r"autopilot.parameters has 'MPC_XY_VEL', which this PX4 does not know$"):
        connect("MPC_XY_CRUISE", "MPC_XY_VEL")
