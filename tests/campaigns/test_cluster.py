"""Campaigns on a real Ray cluster of three local nodes: with a node killed, with the head killed, and without a cluster."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.children import COMMAND, child, run_child
from support.repository import TESTS, skip_or_fail

from samara.campaigns.store import open_store
from samara.campaigns.sweep import sweep

TEXT = """
schema = 1
name = "gusty"
scenario = "hover"
flights = 240
seed = 7

[settings]
duration = 60
"expect.landed" = false
"drones.vehicle" = "crazyflie_documented"

[vary]
mass = { normal = [1.0, 0.05], relative = true }
"drag.linear.x" = { uniform = [0.001, 0.02] }
"start_W.x" = { uniform = [-0.1, 0.1] }
"""
BATCH, BATCHES = 20, 12
HELD = (sys.executable, TESTS / "support" / "paused_command.py")
TIMEOUT = 600  # [s], also on a busy machine


@pytest.fixture
def file(tmp_path, monkeypatch):
    if find_spec("ray") is None:
        skip_or_fail("Ray is not installed")
    path = tmp_path / "gusty.toml"
    path.write_text(TEXT)
    folder = tempfile.mkdtemp(prefix="samara-ray-")  # short: the names of its sockets have to fit in 107 bytes
    # Ray replaces 127.0.0.1 by another address of the machine, except on systems without clusters: this pretends to be one.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # with the default 15 it does not finish on a busy machine
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield path
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def cluster():
    """Yield its address, and a function that kills parts of it"""
    words = [sys.executable, TESTS / "support" / "ray_cluster.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ}
    with child(words, stderr=subprocess.DEVNULL, **pipes) as running:
        address_line = next((line for line in running.stdout if line.startswith("address")), "")
        assert address_line, "the cluster did not start"

        def kill(part):
            running.stdin.write(f"{part}\n")
            running.stdin.flush()
            assert "killed" in running.stdout.readline()

        yield address_line.split()[1], kill
        running.stdin.close()
        running.wait(TIMEOUT)


def command_arguments(file, address):
    return ["sweep", file, "--out", file.parent / "ray", "--batch", str(BATCH), "--no-record", "--ray", address]


def run_with_loss(file, part):
    """Run the command and kill a part of its cluster after the first rows; returns its output and exit status"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with cluster() as (address, kill), child([*HELD, *command_arguments(file, address)], **pipes) as running:
        output = []
        for line in running.stdout:
            output.append(line)
            if line == "held\n":
                break
        else:
            pytest.fail("".join(output))
        kill(part)
        return running.communicate(timeout=TIMEOUT)[0], running.returncode


def test_a_node_is_killed_and_no_bit_differs(file, tmp_path):
    output, status = run_with_loss(file, "node")
    assert status == 0 and "(raylet)" not in output, output
    assert len(open_store(tmp_path / "ray").row_ranges()) == BATCHES
    assert open_store(tmp_path / "ray").table().equals(sweep(file, tmp_path / "here", backend="llvm").table())


def test_the_head_is_killed_and_the_same_command_resumes(file, tmp_path):
    output, status = run_with_loss(file, "head")
    assert status == 2, output
    assert "the cluster no longer answers; no rows are lost: run the same command to resume" in " ".join(output.split())
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "ray" / "rows").glob("*.parquet")}
    assert 0 < len(before) < BATCHES
    with cluster():
        completed = run_child([*COMMAND, *command_arguments(file, "auto")], TIMEOUT)
        assert completed.returncode == 0, completed.stderr.decode()
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "ray" / "rows").glob("*.parquet")}
    assert len(after) == BATCHES and after.items() >= before.items()  # nothing was flown twice
    assert open_store(tmp_path / "ray").table().equals(sweep(file, tmp_path / "here", backend="llvm").table())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "auto", "a stranger"])
def test_no_cluster_is_one_sentence(file, address):
    address_file = Path(os.environ["RAY_TMPDIR"]) / "ray" / "ray_current_cluster"
    address_file.parent.mkdir()
    address_file.write_text("127.0.0.1:1")  # for "auto": a cluster that has stopped
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts a connection and never answers
        if address == "a stranger":
            address = f"127.0.0.1:{server.getsockname()[1]}"
        completed = run_child([*COMMAND, *command_arguments(file, address)], TIMEOUT)
    message = completed.stderr.decode()
    assert completed.returncode == 2, message
    assert message.count("\n") == 1 and message.startswith(f"samara: --ray {address}: no Ray cluster answers"), message
