"""`samara sweep falsify` and `rare`: the failure that is found is written as a campaign, and fails again."""

from pathlib import Path

import pytest
from support.command import call

from samara.campaigns.store import open_store

pytest.importorskip("pyarrow")

TEXT = """
schema = 1
name = "small"
scenario = "hover"
flights = 6
seed = 7

[settings]
duration = 0.5
"expect.landed" = false
"expect.max_error" = MAX_ERROR

[vary]
mass = { normal = [1.0, 0.02], relative = true }
"rotors.k_thrust" = { uniform = [0.3, 1.1], relative = true }
"""


@pytest.fixture
def sweep(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: call(monkeypatch, capsys, "sweep", *words)


def test_the_case_that_is_found_flies_again(sweep):
    """Weak motors alone fail to take off in time."""
    Path("small.toml").write_text(TEXT.replace("MAX_ERROR", "0.06"))
    status, out, err = sweep("falsify", "small.toml", "--flights", "24")
    assert (
        (status, err) == (0, "") and "a failure after" in out and "* rotors.k_thrust = " in out and "  mass = " in out
    )
    assert "changed factors: rotors.k_thrust (the fewest" in out
    assert sweep("small_case.toml", "--no-record")[0] == 0
    (row,) = open_store("out/small_case").table().to_pylist()
    assert row["outcome"] == "fail" and f"rotors.k_thrust = {row['rotors.k_thrust']:.6g}" in out


def test_no_failure_is_said(sweep):
    Path("small.toml").write_text(TEXT.replace("MAX_ERROR", "100.0").replace("0.3, 1.1", "0.9, 1.1"))
    status, out, _ = sweep("falsify", "small.toml", "--flights", "8")
    assert status == 0 and "no failure in 8 flights; the smallest margin is" in out


def test_how_seldom(sweep):
    Path("small.toml").write_text(TEXT.replace("MAX_ERROR", "0.06"))
    status, out, err = sweep("rare", "small.toml", "--per-level", "100")
    assert (status, err) == (0, "") and "of flights fail (" in out and "flights in" in out


def test_what_cannot_be_searched_is_one_sentence(sweep):
    Path("small.toml").write_text(TEXT.replace("MAX_ERROR", "0.06").split("[vary]")[0])
    for words in (("falsify", "small.toml"), ("rare", "small.toml"), ("falsify", "gone.toml")):
        status, _, err = sweep(*words)
        assert status == 2 and err.startswith("samara: ") and err.count("\n") == 1 and "expected" in err
