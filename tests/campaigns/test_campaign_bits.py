"""The same bits of a campaign on any number of threads, in batches of any size, killed at any time; and what a GPU finds."""

import json
import random
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.children import COMMAND, child

from samara.campaigns import gpu_confirmation
from samara.campaigns.campaign import CampaignError, load_campaign
from samara.campaigns.gpu_confirmation import Confirmed, confirmed, failures_confirmed
from samara.campaigns.samples import Rows
from samara.campaigns.sweep import sweep
from samara.compiler.thread_pool import limited_to

pyarrow = pytest.importorskip("pyarrow")

TEXT = """
schema = 1
name = "gusty"
scenario = "hover"
flights = 60
seed = 7

[settings]
duration = 2.0
"expect.landed" = false
"expect.max_error" = 0.02
"drones.vehicle" = "crazyflie_documented"

[vary]
mass = { normal = [1.0, 0.05], relative = true }
"drag.linear.x" = { uniform = [0.001, 0.02] }
"""
KILLS = 8


@pytest.fixture
def file(tmp_path):
    own = tmp_path / "gusty.toml"
    own.write_text(TEXT)
    return own


def test_threads_and_batches_change_no_bit(file, tmp_path):
    whole = sweep(file, tmp_path / "whole", batch=4096).table()
    for threads in (1, 2, 8):
        with limited_to(threads):
            assert sweep(file, tmp_path / f"threads {threads}").table().equals(whole)
    for batch in (1, 7):
        assert sweep(file, tmp_path / f"batch {batch}", batch=batch).table().equals(whole)


def test_killed_at_any_time_it_goes_on(file, tmp_path):
    """kill −9 at random times of the command itself, then once to the end: no row is lost, another, or flown twice"""
    file.write_text(TEXT.replace("flights = 60", f"flights = {10 * KILLS}"))
    out, draw, before = tmp_path / "out", random.Random(1), {}
    for _ in range(KILLS):
        with child([*COMMAND, "sweep", file, "--out", out, "--batch", "1", "--no-keep"]) as running:
            if draw.random() < 0.3:  # while it begins, most likely
                time.sleep(draw.uniform(0.0, 2.0))
            else:
                while running.poll() is None and written(out) == before:
                    time.sleep(0.01)
                time.sleep(draw.uniform(0.0, 0.05))
        now = written(out)  # after the kill, where the block ends
        assert now.items() >= before.items()
        before = now
    told = []
    store = sweep(file, out, batch=1, progress=told.append)
    assert [own.done for own in told] == list(range(len(before), 10 * KILLS + 1))  # the others, each once
    assert written(out).items() >= before.items()
    assert store.table().equals(sweep(file, tmp_path / "whole").table())


def written(out):
    """When each batch was written"""
    return {own.name: own.stat().st_mtime_ns for own in out.glob("rows/0*.parquet")}


def test_what_a_gpu_finds_is_flown_again(file, tmp_path):
    """JAX in the place of a GPU: failures and the worst are LLVM's to the last bit, and disagreements are counted"""
    pytest.importorskip("jax")
    file.write_text(
        TEXT.replace('"hover"', '"figure8"')
        .replace('"expect.landed"', '"expect.within" = 100.0\n"expect.landed"')
        .replace("flights = 60", "flights = 24")
    )  # without events
    errors = sweep(file, tmp_path / "first").table()["worst_error"].to_pylist()
    file.write_text(file.read_text().replace("= 0.02\n", f"= {sorted(errors)[12]}\n"))  # half of them fail
    own = replace(load_campaign(file), kept=load_campaign(file).kept._replace(worst=3))
    here = sweep(own, tmp_path / "llvm", backend="llvm").table().to_pylist()
    store = sweep(own, tmp_path / "jax", backend="jax")
    found = store.table().to_pylist()
    worst = sorted(found, key=lambda row: -row["worst_error"])[:3]
    failed = [row for row in found if row["found"] in ("fail", "invalid")]
    assert 0 < len(failed) < 24 and all(row["confirmed"] for row in [*worst, *failed])
    for row in found:
        if row["confirmed"]:
            assert {name: row[name] for name in here[0]} == here[row["row"]]
    about = json.loads((tmp_path / "jax" / "campaign.json").read_text())
    again = [row for row in found if row["confirmed"]]
    disagree = sum(row["found"] != row["outcome"] for row in again)
    assert about["backend"] == "jax"
    assert about["confirmed"] == Confirmed(len(failed), len(failed), len(again), disagree)._asdict()
    with pytest.raises(CampaignError, match="the rows in this folder were flown on jax"):
        sweep(own, tmp_path / "jax", backend="llvm", add=1)


def test_of_a_gpus_failures_so_many_are_flown_again(monkeypatch):
    """Five flights that LLVM calls passed, four of which failed on the GPU: two of these are asked about"""
    monkeypatch.setattr(gpu_confirmation, "MOST_AGAIN", 2)
    rows = Rows(np.arange(5), np.arange(5), {})
    found = {"outcome": np.array(["fail", "pass", "invalid", "fail", "fail"], dtype=object)}
    told = failures_confirmed(found, rows, lambda some: {"outcome": np.full(len(some.numbers), "pass", dtype=object)})
    assert told["outcome"].tolist() == ["pass", "pass", "pass", "fail", "fail"]
    assert told["confirmed"].tolist() == [True, False, True, False, False]
    written = SimpleNamespace(table=lambda names: pyarrow.table({name: told[name] for name in names}))
    assert confirmed(written) == Confirmed(failures=4, failures_again=2, flown_again=2, disagree=2)
