"""What a campaign keeps: the worst, the first failures and every n-th, recorded once and the same as their rows."""

import numpy as np
import pytest

from samara.campaigns.campaign import load_campaign
from samara.campaigns.rerun import keep_flights
from samara.campaigns.store import kept_rows, worst_rows
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

[keep]
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
    whole = [own for own in table if own["reason"] != "error"]
    rank = ["invalid", "fail", "degraded", "pass"]
    ordered = sorted(whole, key=lambda own: (rank.index(own["outcome"]), -own["worst_error"], own["row"]))
    assert worst_rows(store, campaign, 5).tolist() == [own["row"] for own in ordered[:5]]
    failed = [own["row"] for own in whole if own["outcome"] in ("fail", "invalid")]
    nth = [own["row"] for own in whole if own["row"] % 5 == 0]
    assert kept_rows(store, campaign) == sorted({*[own["row"] for own in ordered[:2]], *failed[:1], *nth})


def test_kept_flights_are_recorded_once_and_are_their_rows(flown):
    store, campaign = flown
    kept = keep_flights(store, campaign)
    assert not kept.different and not kept.broken
    assert [own.name for own in kept.paths] == [f"row_{row}.mcap" for row in kept_rows(store, campaign)]
    for path in kept.paths:
        told = store.row(int(path.stem.removeprefix("row_")))
        end = load_run(path).tracks[0].tables["state"].rows[-1]
        assert np.array(end[:3]).tolist() == [told["final_x"], told["final_y"], told["final_z"]]
    before = [own.stat().st_mtime_ns for own in kept.paths]
    assert [own.stat().st_mtime_ns for own in keep_flights(store, campaign).paths] == before
