"""The arguments of `samara.sweep` that change the scenario of a campaign: the flights of `fly_many` with the same arguments."""

from pathlib import Path

import numpy as np
import pytest
from support.command import call

import samara
from samara.campaigns.campaign import CampaignError
from samara.campaigns.rerun import rerun_row
from samara.campaigns.store import open_store
from samara.control.registry import controller_spec

pytest.importorskip("pyarrow")

CAMPAIGN = """
schema = 1
name = "small"
scenario = "hover"
flights = 3
seed = 7

[settings]
duration = 2.0

[vary]
mass = { uniform = [0.9, 1.1], relative = true }
"""
FUNCTION = """
import samara


def cut(state, reference, vehicle):
    return (0.0,) * vehicle.command_size


def hold(state, reference, vehicle):
    return (GAIN * (reference.p_W.z - state.p_W.z) + 0.4,) * vehicle.command_size


GAIN = 0.2
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("campaigns").mkdir()
    Path("campaigns/small.toml").write_text(CAMPAIGN)
    Path("mine.py").write_text(FUNCTION)
    samara.save_vehicle(samara.vehicle("crazyflie", mass=0.031), "mine.toml")


def final_positions(store):
    rows = store.table(["final_x", "final_y", "final_z"]).to_pydict()
    return np.array([rows[f"final_{axis}"] for axis in "xyz"])


CHANGES = {"wind": "dryden:2", "sensors": ["bmi088", "vicon"], "duration": 0.4}


def test_every_kind_of_argument_flies_the_flights_of_fly_many():
    vehicle = samara.vehicle("mine.toml")
    kinds = (
        {"vehicle": "mine.toml", "controller": "pid", **CHANGES},
        {"vehicle": vehicle, "controller": controller_spec("pid"), **CHANGES, "wind": {"model": "dryden", "speed": 2}},
    )
    for k, changes in enumerate(kinds):
        store = samara.sweep("campaigns/small.toml", f"out{k}", seed=9, **changes)
        table = store.table(["seed", "mass"]).to_pydict()
        flights = samara.fly_many("hover", seeds=table["seed"], vary={"mass": table["mass"]}, **changes)
        assert np.array_equal(final_positions(store), np.stack(flights.final.p_W))
        assert rerun_row(f"out{k}", 1).same
    assert np.array_equal(final_positions(open_store("out0")), final_positions(open_store("out1")))


def test_a_function_flies_a_campaign_and_is_needed_again(monkeypatch, capsys):
    """Its name is in the folder, its source in the fingerprint: a replay without it, or with another one, is refused."""
    store = samara.sweep("campaigns/small.toml", "out", controller="mine.py:hold", duration=0.4)
    table = store.table(["seed", "mass"]).to_pydict()
    arguments = {"vary": {"mass": table["mass"]}, "controller": "mine.py:hold", "duration": 0.4}
    flights = samara.fly_many("hover", seeds=table["seed"], **arguments)
    assert np.array_equal(final_positions(store), np.stack(flights.final.p_W))
    assert rerun_row("out", 1, controller="mine.py:hold").same
    with pytest.raises(CampaignError, match=r"out: expected --controller FILE.py:hold, which flew it"):
        rerun_row("out", 1)
    with pytest.raises(CampaignError, match="its controller function was changed since it flew"):
        rerun_row("out", 1, controller="mine.py:cut")
    Path("mine.py").write_text(FUNCTION.replace("GAIN = 0.2", "GAIN = 0.3"))
    with pytest.raises(CampaignError, match="its controller function was changed since it flew"):
        rerun_row("out", 1, controller="mine.py:hold")
    with pytest.raises(CampaignError, match="out: holds another campaign"):
        samara.sweep("campaigns/small.toml", "out", controller="mine.py:hold", duration=0.4)
    Path("mine.py").write_text(FUNCTION)
    words = ("campaigns/small.toml", "--controller", "mine.py:hold", "--duration", "0.4", "-o", "out")
    status, out, err = call(monkeypatch, capsys, "sweep", *words)
    assert (status, err) == (0, "") and "saved  " in out
    status, out, err = call(monkeypatch, capsys, "sweep", "replay", "out", "--row", "0", "--controller", "mine.py:hold")
    assert (status, err) == (0, "") and "bit for bit" in out
    status, _, err = call(monkeypatch, capsys, "sweep", "report", "out")
    assert (status, err) == (0, "")
    assert "Flown by the function hold" in Path("out/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vehicle": "irsi"}, r"no vehicle 'irsi'; expected .*; did you mean iris"),
        ({"wind": samara.wind.NoWind()}, "wind = NoWind: a campaign cannot state it; expected a speed"),
        ({"sensors": [3]}, "sensors = int: a campaign cannot state it; expected names, files or tables"),
        ({"seed": -1}, "seed = -1: expected a whole number from 0"),
        ({"duration": "long"}, "duration = 'long': expected a number above 0"),
        ({"controller": "mine.py:cut", "ray": "auto"}, "a controller function flies only locally"),
    ],
)
def test_a_wrong_value_gets_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        samara.sweep("campaigns/small.toml", "out", **changes)
    assert not Path("out").exists()
