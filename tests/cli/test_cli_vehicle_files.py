"""`samara vehicle import` and `export`: a file goes in and comes out; what is refused leaves nothing behind."""

from pathlib import Path

import pytest
from support.command import call

import samara
from samara.exchange.imported import built
from samara.exchange.sdf import read_sdf

HERON = Path(__file__).parents[1] / "exchange" / "models" / "heron" / "model.sdf"


def test_a_model_of_gazebo_becomes_a_vehicle_and_a_model_again(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, "vehicle", "import", str(HERON))
    assert (status, err) == (0, "")
    assert out.splitlines() == ["heron/model.sdf: Gazebo SDF, heron: 2.044 kg, 4 rotors", "vehicle heron.toml"]
    vehicle = samara.vehicle(tmp_path / "heron.toml")
    assert vehicle == built(read_sdf(HERON))
    status, out, err = call(monkeypatch, capsys, "vehicle", "export", "heron.toml", "--sdf")
    assert (status, out.splitlines()) == (0, ["heron/model.sdf", "heron/model.config"])
    status, _, _ = call(
        monkeypatch, capsys, "vehicle", "import", "heron/model.sdf", "-o", "again.toml", "--name", "again"
    )
    again = samara.vehicle(tmp_path / "again.toml")
    assert status == 0 and again.name == "again"
    assert list(again.inertia_B) == pytest.approx(list(vehicle.inertia_B), rel=1e-12, abs=1e-16)


def test_what_is_left_out_is_said(monkeypatch, capsys, tmp_path):
    status, out, _ = call(monkeypatch, capsys, "vehicle", "export", "iris", "--sdf", "-o", str(tmp_path / "iris.sdf"))
    assert status == 0 and "left out: drag: SDF has no word for it" in out


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("import", "{}/bad.sdf"), "bad.sdf: is no XML"),
        (("import", "{}/none.sdf"), "No such file"),
        (("export", "iris"), "no format is named; expected --sdf"),
        (("export", "rigid_body_quadrotor", "--sdf", "-o", "{}/x.sdf"), "rotors has 0 entries"),
        (("export", "nothing_such", "--sdf"), "nothing_such"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(monkeypatch, capsys, tmp_path, words, sentence):
    (tmp_path / "bad.sdf").write_text("<sdf>")
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, "vehicle", *(word.format(tmp_path) for word in words))
    assert (status, out) == (2, "") and sentence in err and len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.sdf"]
