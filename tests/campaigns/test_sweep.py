"""Campaigns from file to dataset: the same bits for any batch size and interruption, and one sentence per invalid input."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.campaigns.batch import CampaignFlights, row_scenario
from samara.campaigns.campaign import CampaignError, campaign_toml, load_campaign, parse_campaign
from samara.campaigns.store import exclusive_lock, open_or_create_store, open_store
from samara.campaigns.sweep import sweep
from samara.core.algebra import Vec3
from samara.scenario.landing import TAKEOFF_SPEED
from samara.sim.varied import varied_wind
from samara.wind.sources import Constant, OrnsteinUhlenbeck, WindSum

pytest.importorskip("pyarrow")

TEXT = """
schema = 1
name = "gusty"
scenario = "hover"
flights = 24
seed = 7
sampler = "latin"

[settings]
duration = 0.5
"expect.landed" = false
"drones.vehicle" = "crazyflie_documented"

[vary]
mass = { normal = [1.0, 0.05], relative = true }
"drag.linear.x" = { uniform = [0.001, 0.02] }
"start_W.x" = { uniform = [-0.1, 0.1] }

[degraded]
max_error = 0.05
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "gusty.toml"
    path.write_text(TEXT)
    return path


def columns(store):
    return {name: store.table()[name].to_pylist() for name in store.table().column_names}


def test_a_row_is_the_flight_that_samara_flies(file, tmp_path):
    """Row 5 singly, by `samara.fly`: the same final position to the last bit"""
    store = sweep(file, tmp_path / "out")
    flying = CampaignFlights.prepare(load_campaign(file))
    scenario, vary, values = row_scenario(flying, 5, store.blocks[0])
    alone_flown = samara.fly(scenario, vary=vary)
    row = store.table().slice(5, 1).to_pylist()[0]
    assert alone_flown.drone_records[0].tables["state"].rows[-1][0] == row["final_x"]
    assert row["mass"] == values["mass"] == vary["mass"]
    assert row["error"] == ""
    every = columns(store)
    for outcome, reason, worst in zip(every["outcome"], every["reason"], every["max_error"], strict=True):
        assert (outcome, reason) == (("degraded", "degraded.max_error") if worst > 0.05 else ("pass", ""))


def test_batches_and_interruptions_change_no_bit(file, tmp_path):
    reference = columns(sweep(file, tmp_path / "whole"))
    assert columns(sweep(file, tmp_path / "sevens", batch=7)) == reference

    class StoppedError(Exception):
        pass

    def stop(progress):
        if progress.done >= 5:
            raise StoppedError

    for _ in range(4):  # each time one batch further, then killed
        with pytest.raises(StoppedError):
            sweep(file, tmp_path / "again", batch=5, progress=stop)
    store = sweep(file, tmp_path / "again", batch=4)
    assert columns(store) == reference
    assert sorted(store.row_ranges())[-1][1] == 23 and not list(store.missing_batches(7))


def test_added_rows_are_a_separate_block(file, tmp_path):
    first = columns(sweep(file, tmp_path / "out"))
    store = sweep(file, tmp_path / "out", additional_flights=8)
    both = columns(store)
    assert [values[:24] for values in both.values()] == list(first.values()) and len(both["row"]) == 32
    cells = np.sort(np.floor(8 * (np.array(both["start_W.x"][24:]) + 0.1) / 0.2))
    assert cells.tolist() == list(range(8))  # a hypercube of eight


def test_a_row_that_cannot_be_flown_is_a_row_with_its_error(file, tmp_path):
    file.write_text(TEXT.replace("[1.0, 0.05], relative = true", "[0.028, 0.05]"))  # some masses are negative
    table = columns(sweep(file, tmp_path / "out"))
    broken = [k for k, mass in enumerate(table["mass"]) if mass <= 0.0]
    assert broken and all(table["outcome"][k] == "invalid" and table["reason"][k] == "error" for k in broken)
    assert "mass" in table["error"][broken[0]] and {"pass", "degraded"} & set(table["outcome"])


def test_numbers_of_the_scenarios_file_may_vary(file, tmp_path):
    file.write_text(
        TEXT.replace('"start_W.x"', '"scenario.drones.start.2"')
        .replace("[-0.1, 0.1]", "[1.0, 2.0]")
        .replace("flights = 24", "flights = 2")
    )
    with pytest.raises(CampaignError, match=r"vary: .*start"):
        sweep(file, tmp_path / "bad")
    file.write_text(
        TEXT.replace('"start_W.x"', '"scenario.duration"')
        .replace("uniform = [-0.1, 0.1]", "choice = [0.5, 0.6]")
        .replace("flights = 24", "flights = 2")
    )
    rows = columns(sweep(file, tmp_path / "out"))
    assert len(rows["row"]) == 2 and set(rows["scenario.duration"]) == {0.5, 0.6}
    # not landed: within 0.5 s it climbs faster than 0.3 m/s, the limit below which a standing drone stays landed
    assert set(rows["outcome"]) <= {"pass", "degraded"} and min(rows["max_speed"]) > TAKEOFF_SPEED


def test_a_campaign_is_written_and_read_back(file):
    campaign = load_campaign(file)
    parsed = parse_campaign(campaign_toml(campaign), campaign.origin, file.parent)
    assert parsed == campaign and parsed.fingerprint() == campaign.fingerprint()


def test_components_of_a_wind_may_vary():
    """A mean wind by its components, a standard deviation in all three by one number, a gust among several winds"""
    wind = WindSum((OrnsteinUhlenbeck(Vec3(4.0, 0.0, 0.0), sigma=0.6, tau=2.0), Constant(Vec3(0.0, 1.0, 0.0))))
    varied = {"wind.sources.0.mean_W.x": np.array([5.0]), "wind.sources.1.wind_W.y": np.array([2.0])}
    row_wind = varied_wind(wind, varied, 0)
    assert row_wind.sources[0].mean_W == Vec3(5.0, 0.0, 0.0) and row_wind.sources[1].wind_W == Vec3(0.0, 2.0, 0.0)
    assert varied_wind(wind.sources[0], {"wind.sigma": np.array([0.9])}, 0).sigma == Vec3(0.9, 0.9, 0.9)
    with pytest.raises(ValueError, match=r"^vary: 'wind.mean_W' is 3 numbers, x, y, z, which differ; expected the"):
        varied_wind(wind.sources[0], {"wind.mean_W": np.array([0.9])}, 0)
    with pytest.raises(ValueError, match=r"expected one of 0, 1$"):
        varied_wind(wind, {"wind.sources.2.wind_W.y": np.array([2.0])}, 0)


def test_a_table_of_cases_is_flown_row_by_row(file, tmp_path):
    (tmp_path / "cases.csv").write_text("mass,yaw\n0.028,0.1\n0.03,0.2\n")
    file.write_text(
        'schema = 1\nscenario = "hover"\nflights = 2\n[settings]\nduration = 0.2\n[samples]\nfile = "cases.csv"\n'
    )
    result = columns(sweep(file, tmp_path / "out"))
    assert (result["mass"], result["yaw"]) == ([0.028, 0.03], [0.1, 0.2])
    file.write_text(file.read_text().replace("flights = 2", "flights = 3"))
    for table, sentence in (
        ("mass\n0.03\n0.03\n", r"cases.csv has 2 rows; expected at least 3"),
        ("mass\n", r"cases.csv has 0 rows; expected at least 3"),
        ("", r"cases.csv cannot be read \(.*\); expected columns of numbers"),
        ("mass\n0.03\nheavy\n0.03\n", r"cases.csv cannot be read \(.*\); expected columns of numbers"),
        ("mas\n1\n2\n3\n", r"vary.mas: "),
    ):
        (tmp_path / "cases.csv").write_text(table)
        with pytest.raises(CampaignError, match=sentence) as error:
            sweep(file, tmp_path / "more")
        assert "\n" not in str(error.value) and not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("mass = {", "masss = {", "vary.masss"),
        ('"start_W.x"', '"wind.speed"', "vary: 'wind.speed' is not a parameter of this wind; NoWind has no numbers"),
        ('"start_W.x"', '"controller.quickness"', "quickness"),
        ("normal = [1.0, 0.05]", "normal = [1.0, -0.05]", "normal has the width -0.05; expected a positive number"),
        ("flights = 24", "flights = 0", "flights = 0: expected a whole number from 1"),
        ("flights = 24", "", "flights is missing: expected the flight count"),
        ('scenario = "hover"', 'scenario = "hoover"', "hoover"),
        ('scenario = "hover"', 'scenario = "../hover.toml"', "not in the folder"),
        ('sampler = "latin"', 'sampler = "dice"', "expected one of independent, latin, sobol, halton, grid"),
        ("max_error = 0.05", "beauty = 1", "expected one of max_error"),
        ('"start_W.x"', '"start_W"', "expected start_W.x, start_W.y or start_W.z"),
        (
            '"start_W.x" = { uniform = [-0.1, 0.1] }',
            '"start_W.x" = { uniform = [-0.1, 0.1], relative = true }',
            "is relative; expected a parameter of the vehicle",
        ),
    ],
)
def test_what_is_wrong_with_a_campaign_is_one_sentence(file, tmp_path, old, new, sentence):
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(ValueError, match=sentence) as error:
        sweep(file, tmp_path / "out")
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_folders_that_are_taken_are_left_alone(file, tmp_path):
    out = tmp_path / "out"
    store = sweep(file, out)
    before = columns(store)
    file.write_text(TEXT.replace("0.05], relative", "0.06], relative"))
    with pytest.raises(CampaignError, match="holds another campaign, 'gusty', or this one before it was changed"):
        sweep(file, out)
    file.write_text(TEXT)
    with exclusive_lock(out), pytest.raises(CampaignError, match="another samara sweep is writing into it"):
        sweep(file, out, additional_flights=1)
    assert columns(open_store(out)) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(CampaignError, match="is not empty and holds no campaign"):
        sweep(file, tmp_path / "full")
    (out / "campaign.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(CampaignError, match="schema = 99: expected 1"):
        open_store(out)


@pytest.mark.parametrize("left", [("rows",), ("rows", "running"), ("rows", "running", "campaign.toml")])
def test_a_folder_whose_maker_was_killed_is_made(file, tmp_path, left):
    """kill −9 before the folder has its `campaign.json`: the same command resumes"""
    campaign, out = load_campaign(file), tmp_path / "out"
    open_or_create_store(campaign, TEXT, tmp_path / "whole")
    (out / "rows").mkdir(parents=True)
    for name in left[1:]:
        shutil.copy(tmp_path / "whole" / name, out)
    (out / ".campaign.json.0a1b2c3d.json").write_text("{ half")
    open_or_create_store(campaign, TEXT, out)
    assert open_store(out).metadata == open_store(tmp_path / "whole").metadata
    (out / "campaign.json").unlink()
    (out / "campaign.toml").write_text("mine")
    with pytest.raises(CampaignError, match="is not empty and holds no campaign"):
        open_or_create_store(campaign, TEXT, out)
    assert (out / "campaign.toml").read_text() == "mine"


def test_it_stops_when_the_rate_is_known(file, tmp_path):
    file.write_text(TEXT + "\n[stop]\nhalf_width = 0.4\n")
    store = sweep(file, tmp_path / "out", batch=4)
    done = sum(last - first + 1 for first, last in store.row_ranges())
    assert 4 <= done < 24
    campaign = replace(load_campaign(file), stop=None)
    assert campaign.fingerprint() == load_campaign(file).fingerprint()  # the stopping rule does not determine the rows
