"""Recorded flights of a campaign: the worst, the first failures and every n-th, recorded once and equal to their rows."""

import numpy as np
import pytest

from samara.campaigns.campaign import load_campaign
from samara.campaigns.rerun import record_flights
from samara.campaigns.store import rows_to_record, worst_rows
from samara.campaigns.sweep import sweep
from samara.record.load import load_run

pytest.importorskip("pyarrow")

TEXT = """
schema = 1
scenario = "hover"
flights = 12
seed = 3

[settings]
duration = 0.3
"expect.landed" = false
"expect.max_tilt_deg" = 3.0

[vary]
"yaw" = { uniform = [0.0, 1.0] }
"mass" = { normal = [0.028, 0.012] }

[record]
worst = 2
failures = 1
every = 5
"""


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    file = folder / "own.toml"
    file.write_text(TEXT)
    return sweep(file, folder / "out"), load_campaign(file)


def test_worst_first_and_every_nth(flown):
    store, campaign = flown
    table = store.table().to_pylist()
    flown_rows = [row for row in table if row["reason"] != "error"]
    rank = ["invalid", "fail", "degraded", "pass"]
    ordered = sorted(flown_rows, key=lambda row: (rank.index(row["outcome"]), -row["max_error"], row["row"]))
    assert worst_rows(store, campaign, 5).tolist() == [row["row"] for row in ordered[:5]]
    failed = [row["row"] for row in flown_rows if row["outcome"] in ("fail", "invalid")]
    nth = [row["row"] for row in flown_rows if row["row"] % 5 == 0]
    assert rows_to_record(store, campaign) == sorted({*[row["row"] for row in ordered[:2]], *failed[:1], *nth})


def test_flights_are_recorded_once_and_equal_their_rows(flown):
    store, campaign = flown
    saved = record_flights(store, campaign)
    assert not saved.different and not saved.broken
    assert [path.name for path in saved.paths] == [f"row_{row}.mcap" for row in rows_to_record(store, campaign)]
    for path in saved.paths:
        recorded_row = store.row(int(path.stem.removeprefix("row_")))
        end = load_run(path).drone_records[0].tables["state"].rows[-1]
        assert np.array(end[:3]).tolist() == [recorded_row["final_x"], recorded_row["final_y"], recorded_row["final_z"]]
    before = [path.stat().st_mtime_ns for path in saved.paths]
    assert [path.stat().st_mtime_ns for path in record_flights(store, campaign).paths] == before
