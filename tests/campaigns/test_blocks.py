"""Blocks of rows: consecutive, and a row is sampled, found and rerun within its block."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from samara.campaigns import gpu_confirmation, rerun
from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import CampaignError, parse_campaign
from samara.campaigns.gpu_confirmation import choose_backend, confirm_worst
from samara.campaigns.rerun import flown_paths, rerun_row
from samara.campaigns.samples import RowRange, SampleRows
from samara.campaigns.store import open_or_create_store, open_store
from samara.record.metrics import FLIGHT_METRICS

pytest.importorskip("pyarrow")

TEXT = """
schema = 1
name = "blocks"
scenario = "hover"
flights = 4
seed = 3
sampler = "latin"

[settings]
duration = 0.02
"expect.landed" = false
"drones.vehicle" = "crazyflie_documented"

[vary]
mass = { uniform = [0.9, 1.1], relative = true }
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A folder with four rows, then three, then two, as sampled, with invented flights"""
    folder = tmp_path_factory.mktemp("campaign")
    parsed = parse_campaign(TEXT, "blocks.toml", folder)
    campaign_flights, store = CampaignFlights.prepare(parsed), open_or_create_store(parsed, TEXT, folder / "out")
    store.add(3)
    store.add(2)
    for block, numbers in store.missing_batches(100):
        assert (numbers[0], numbers[-1]) == (block.first, block.first + block.length - 1)
        store.write(numbers, invented_columns(campaign_flights.rows(numbers, block)))
    return campaign_flights, store


def invented_columns(rows):
    """Columns of a batch in which every third row flew badly"""
    n, end = len(rows.row_numbers), {f"final_{axis}": rows.row_numbers + 0.25 * k for k, axis in enumerate("xyz")}
    words = {
        name: np.full(n, word, dtype=object)
        for name, word in (("outcome", "pass"), ("reason", ""), ("error", ""), ("found", "pass"))
    }
    worst = 1.0 * (rows.row_numbers % 3 == 0) + 0.01 * rows.row_numbers
    measures = {name: np.zeros(n) for name in FLIGHT_METRICS}
    return {
        "seed": rows.seeds,
        **rows.values,
        **words,
        **measures,
        **end,
        "max_error": worst,
        "confirmed": np.zeros(n, dtype=bool),
    }


def test_each_block_begins_after_the_last_row_of_the_one_before(campaign):
    store = open_store(campaign[1].folder)
    assert store.blocks == [RowRange(0, 0, 4), RowRange(1, 4, 3), RowRange(2, 7, 2)]
    assert store.table()["row"].to_pylist() == list(range(9)) and store.total == 9


@pytest.mark.parametrize("row", range(9))
def test_a_row_flown_again_has_the_factors_of_its_own_block(campaign, row, monkeypatch):
    """Each block is a separate Latin hypercube: another block would sample another mass"""
    flown = []

    def fly(scenario, **more):
        flown.append(more["vary"])
        rows = np.array([[row, row + 0.25, row + 0.5]])
        return SimpleNamespace(drone_records=[SimpleNamespace(tables={"state": SimpleNamespace(rows=rows)})])

    monkeypatch.setattr(rerun, "fly", fly)
    again, stored = rerun_row(campaign[1].folder, row), campaign[1].row(row)
    assert again.same and stored["row"] == row
    assert again.values["mass"] == stored["mass"] == flown[0]["mass"]


def test_a_row_beyond_the_last_block_is_refused(campaign):
    with pytest.raises(CampaignError, match=r"row 9: .* has the rows 0 to 8"):
        rerun_row(campaign[1].folder, 9)


def test_trajectories_are_those_of_their_rows(campaign):
    flying, store = campaign

    def fly(rows, record):
        assert rows.values["mass"].tolist() == [store.row(int(row))["mass"] for row in rows.row_numbers]
        return SimpleNamespace(time=np.zeros(1), states=np.tile(rows.row_numbers, (1, 3, 1)))

    paths = flown_paths(SimpleNamespace(scenario=flying.scenario, rows=flying.rows, fly=fly), store, [3, 4, 6, 7])
    assert [path.row for path in paths] == [3, 4, 6, 7]
    assert [path.p_W.tolist() for path in paths] == [[[row] * 3] for row in (3, 4, 6, 7)]


def test_the_worst_rows_are_flown_again_as_rows_of_their_own_block(campaign):
    """Rows 6, 3 and 0 seem to be the worst; on LLVM they are not, and rows 8 and 7 follow"""
    flying, store = campaign
    confirmed_rows = []

    def fly_on_llvm(rows):
        confirmed_rows.extend(rows.row_numbers.tolist())
        assert rows.values["mass"].tolist() == [store.row(int(row))["mass"] for row in rows.row_numbers]
        better = invented_columns(rows) | {"max_error": 0.001 * rows.row_numbers}
        return {name: values for name, values in better.items() if name not in ("found", "confirmed")}

    before = {row: store.row(row) for row in range(9)}
    confirm_worst(store, flying, 3, fly_on_llvm)
    assert (
        set(confirmed_rows) == set(range(9)) and len(confirmed_rows) == 9
    )  # each once: none is as bad as the next one seems
    for row in confirmed_rows:
        expected = before[row] | {"max_error": 0.001 * row, "confirmed": True}
        assert store.row(row) == expected


# Choice of the backend ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has_gpu", "reason", "requested", "previous", "chosen"),
    [
        (True, "", "auto", None, "pallas"),
        (False, "", "auto", None, "llvm"),
        (True, "mass varies", "auto", None, "llvm"),
        (False, "mass varies", "auto", None, "llvm"),
        (True, "", "auto", "llvm", "llvm"),
        (False, "", "auto", "jax", "jax"),
        (False, "", "pallas", None, "pallas"),
        (True, "", "llvm", None, "llvm"),
        (True, "mass varies", "llvm", None, "llvm"),
    ],
)
def test_a_gpu_flies_where_there_is_one_that_can(monkeypatch, has_gpu, reason, requested, previous, chosen):
    monkeypatch.setattr(gpu_confirmation, "has_gpu", lambda: has_gpu)
    monkeypatch.setattr(gpu_confirmation, "unsupported_reason", lambda flying: reason)
    assert choose_backend(None, requested, previous) == chosen


def test_a_backend_that_cannot_fly_a_campaign_is_refused(monkeypatch):
    monkeypatch.setattr(gpu_confirmation, "unsupported_reason", lambda flying: "mass varies")
    flying = SimpleNamespace(campaign=SimpleNamespace(origin="c.toml"))
    with pytest.raises(CampaignError, match=r"c\.toml: backend 'jax': mass varies; expected llvm"):
        choose_backend(flying, "jax", None)
    with pytest.raises(CampaignError, match="the rows in this folder were flown on llvm"):
        choose_backend(flying, "jax", "llvm")


def test_what_jax_can_fly_depends_on_what_varies(tmp_path):
    """Vehicle parameters, yes; settings of the scenario's file and of the controller, no"""
    pytest.importorskip("jax")
    calm = TEXT.replace('"hover"', '"figure8"')
    for varied, reason in (("mass", ""), ('"controller.position"', "controller.position varies, which only llvm can")):
        text = calm.replace("mass = ", f"{varied} = ").replace(
            ", relative = true", "" if reason else ", relative = true"
        )
        flying = CampaignFlights.prepare(parse_campaign(text, "c.toml", tmp_path))
        assert gpu_confirmation.unsupported_reason(flying) == reason


@pytest.mark.parametrize(
    ("rows", "parts"), [(10, [10]), (4096, [4096]), (9000, [4500, 4500]), (20_000, [6667, 6667, 6666])]
)
def test_rows_are_divided_among_devices_that_they_are_worth(monkeypatch, rows, parts):
    """One device per 4096 rows, of three; every row once, in order"""
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(jax, "local_devices", lambda: ["a", "b", "c"])
    monkeypatch.setattr(jax, "default_device", lambda device: nullcontext())
    numbers, sizes = np.arange(rows), []

    def fly(batch):
        sizes.append(len(batch.row_numbers))
        return {"row": batch.row_numbers}

    assert (
        gpu_confirmation.fly_across_devices(fly, SampleRows(numbers, numbers, {}))["row"].tolist() == numbers.tolist()
    )
    assert sorted(sizes, reverse=True) == parts
