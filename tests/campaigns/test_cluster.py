"""Campaigns on a real Ray cluster of three nodes on this machine: one of them killed, the head killed, and none at all."""

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
from support.children import COMMAND, child, ended
from support.repository import TESTS, do_without

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
HELD = (sys.executable, TESTS / "support" / "held_command.py")
ENDS_WITHIN = 600  # [s], also on a machine with much else to do


@pytest.fixture
def file(tmp_path, monkeypatch):
    if find_spec("ray") is None:
        do_without("Ray is not installed")
    own = tmp_path / "gusty.toml"
    own.write_text(TEXT)
    place = tempfile.mkdtemp(prefix="samara-ray-")  # short: the names of its sockets have to fit in 107 bytes
    # Ray takes 127.0.0.1 for another of the machine's addresses, but on systems where it has no clusters: so this one is one.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else 15: on a machine with much else to do it comes to no end
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_TMPDIR", place)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield own
    shutil.rmtree(place, ignore_errors=True)


@contextmanager
def cluster():
    """Its address, and what kills parts of it"""
    words = [sys.executable, TESTS / "support" / "ray_cluster.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ}
    with child(words, stderr=subprocess.DEVNULL, **pipes) as running:
        said = next((line for line in running.stdout if line.startswith("address")), "")
        assert said, "the cluster did not start"

        def kill(part):
            running.stdin.write(f"{part}\n")
            running.stdin.flush()
            assert "killed" in running.stdout.readline()

        yield said.split()[1], kill
        running.stdin.close()
        running.wait(ENDS_WITHIN)


def words_for(file, address):
    return ["sweep", file, "--out", file.parent / "ray", "--batch", str(BATCH), "--no-keep", "--ray", address]


def flown_with_loss(file, part):
    """(what it said, its exit status) of the command that loses a part of its cluster while others than the first rows fly"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with cluster() as (address, kill), child([*HELD, *words_for(file, address)], **pipes) as running:
        said = []
        for line in running.stdout:
            said.append(line)
            if line == "held\n":
                break
        else:
            pytest.fail("".join(said))
        kill(part)
        return running.communicate(timeout=ENDS_WITHIN)[0], running.returncode


def test_a_node_is_killed_and_no_bit_differs(file, tmp_path):
    said, status = flown_with_loss(file, "node")
    assert status == 0 and "(raylet)" not in said, said
    assert len(open_store(tmp_path / "ray").done()) == BATCHES
    assert open_store(tmp_path / "ray").table().equals(sweep(file, tmp_path / "here", backend="llvm").table())


def test_the_head_is_killed_and_the_same_command_goes_on(file, tmp_path):
    said, status = flown_with_loss(file, "head")
    assert status == 2, said
    assert "the cluster no longer answers; no rows are lost: run the same command to resume" in " ".join(said.split())
    before = {own.name: own.stat().st_mtime_ns for own in (tmp_path / "ray" / "rows").glob("*.parquet")}
    assert 0 < len(before) < BATCHES
    with cluster():
        own = ended([*COMMAND, *words_for(file, "auto")], ENDS_WITHIN)
        assert own.returncode == 0, own.stderr.decode()
    after = {own.name: own.stat().st_mtime_ns for own in (tmp_path / "ray" / "rows").glob("*.parquet")}
    assert len(after) == BATCHES and after.items() >= before.items()  # nothing was flown twice
    assert open_store(tmp_path / "ray").table().equals(sweep(file, tmp_path / "here", backend="llvm").table())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "auto", "a stranger"])
def test_no_cluster_is_one_sentence(file, address):
    last = Path(os.environ["RAY_TMPDIR"]) / "ray" / "ray_current_cluster"
    last.parent.mkdir()
    last.write_text("127.0.0.1:1")  # for "auto": a cluster that is gone
    with socket.create_server(("127.0.0.1", 0)) as stranger:  # who takes a call and says nothing
        if address == "a stranger":
            address = f"127.0.0.1:{stranger.getsockname()[1]}"
        own = ended([*COMMAND, *words_for(file, address)], ENDS_WITHIN)
    said = own.stderr.decode()
    assert own.returncode == 2, said
    assert said.count("\n") == 1 and said.startswith(f"samara: --ray {address}: no Ray cluster answers"), said
