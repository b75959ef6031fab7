"""A campaign has the same bits with any thread count and batch size, and after kills; and GPU results are confirmed."""

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
from samara.campaigns.gpu_confirmation import ConfirmationResult, confirm_failures, confirmation_result
from samara.campaigns.samples import SampleRows
from samara.campaigns.sweep import sweep
from samara.compiler.thread_pool import limit_threads

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
    path = tmp_path / "gusty.toml"
    path.write_text(TEXT)
    return path


def test_threads_and_batches_change_no_bit(file, tmp_path):
    reference = sweep(file, tmp_path / "whole", batch=4096).table()
    for threads in (1, 2, 8):
        with limit_threads(threads):
            assert sweep(file, tmp_path / f"threads {threads}").table().equals(reference)
    for batch in (1, 7):
        assert sweep(file, tmp_path / f"batch {batch}", batch=batch).table().equals(reference)


def test_a_killed_campaign_resumes(file, tmp_path):
    """kill −9 the command at random times, then run it to the end: no row is lost, changed, or flown twice"""
    file.write_text(TEXT.replace("flights = 60", f"flights = {10 * KILLS}"))
    out, draw, before = tmp_path / "out", random.Random(1), {}
    for _ in range(KILLS):
        with child([*COMMAND, "sweep", file, "--out", out, "--batch", "1", "--no-record"]) as running:
            if draw.random() < 0.3:  # during its start, most likely
                time.sleep(draw.uniform(0.0, 2.0))
            else:
                while running.poll() is None and written(out) == before:
                    time.sleep(0.01)
                time.sleep(draw.uniform(0.0, 0.05))
        now = written(out)  # after the kill, when the block ends
        assert now.items() >= before.items()
        before = now
    reports = []
    store = sweep(file, out, batch=1, progress=reports.append)
    assert [report.done for report in reports] == list(range(len(before), 10 * KILLS + 1))  # the others, each once
    assert written(out).items() >= before.items()
    assert store.table().equals(sweep(file, tmp_path / "whole").table())


def written(out):
    """Modification time of each batch file"""
    return {path.name: path.stat().st_mtime_ns for path in out.glob("rows/0*.parquet")}


def test_what_a_gpu_finds_is_flown_again(file, tmp_path):
    """JAX instead of a GPU: failures and worst flights are LLVM's to the last bit, and disagreements are counted"""
    pytest.importorskip("jax")
    file.write_text(
        TEXT.replace('"hover"', '"figure8"')
        .replace('"expect.landed"', '"expect.position_tolerance" = 100.0\n"expect.landed"')
        .replace("flights = 60", "flights = 24")
    )  # without events
    errors = sweep(file, tmp_path / "first").table()["max_error"].to_pylist()
    file.write_text(file.read_text().replace("= 0.02\n", f"= {sorted(errors)[12]}\n"))  # half of them fail
    campaign = replace(load_campaign(file), record=load_campaign(file).record._replace(worst=3))
    llvm_rows = sweep(campaign, tmp_path / "llvm", backend="llvm").table().to_pylist()
    store = sweep(campaign, tmp_path / "jax", backend="jax")
    jax_rows = store.table().to_pylist()
    worst = sorted(jax_rows, key=lambda row: -row["max_error"])[:3]
    failed = [row for row in jax_rows if row["found"] in ("fail", "invalid")]
    assert 0 < len(failed) < 24 and all(row["confirmed"] for row in [*worst, *failed])
    for row in jax_rows:
        if row["confirmed"]:
            assert {name: row[name] for name in llvm_rows[0]} == llvm_rows[row["row"]]
    metadata = json.loads((tmp_path / "jax" / "campaign.json").read_text())
    confirmed = [row for row in jax_rows if row["confirmed"]]
    disagree = sum(row["found"] != row["outcome"] for row in confirmed)
    assert metadata["backend"] == "jax"
    assert metadata["confirmed"] == ConfirmationResult(len(failed), len(failed), len(confirmed), disagree)._asdict()
    with pytest.raises(CampaignError, match="the rows in this folder were flown on jax"):
        sweep(campaign, tmp_path / "jax", backend="llvm", additional_flights=1)


def test_confirmations_of_gpu_failures_are_limited(monkeypatch):
    """Five flights that pass on LLVM, four of which fail on the GPU: two of these are confirmed"""
    monkeypatch.setattr(gpu_confirmation, "MAX_CONFIRMATIONS", 2)
    rows = SampleRows(np.arange(5), np.arange(5), {})
    gpu_columns = {"outcome": np.array(["fail", "pass", "invalid", "fail", "fail"], dtype=object)}
    columns = confirm_failures(
        gpu_columns, rows, lambda failed: {"outcome": np.full(len(failed.row_numbers), "pass", dtype=object)}
    )
    assert columns["outcome"].tolist() == ["pass", "pass", "pass", "fail", "fail"]
    assert columns["confirmed"].tolist() == [True, False, True, False, False]
    written = SimpleNamespace(table=lambda names: pyarrow.table({name: columns[name] for name in names}))
    assert confirmation_result(written) == ConfirmationResult(failures=4, failures_again=2, flown_again=2, disagree=2)
