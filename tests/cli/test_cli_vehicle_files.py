"""`samara vehicle import` and `export`: a file is imported and exported again; refused input leaves no file behind."""

from pathlib import Path

import pytest
from support.command import call

import samara
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.sdf import read_sdf

MARTIN = str(Path(__file__).parents[1] / "vehicles" / "martin.xml")
HERON = Path(__file__).parents[1] / "vehicles" / "models" / "heron" / "model.sdf"


def test_a_model_of_gazebo_becomes_a_vehicle_and_a_model_again(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, "vehicle", "import", str(HERON))
    assert (status, err) == (0, "")
    assert out.splitlines() == ["heron/model.sdf: Gazebo SDF, heron: 2.044 kg, 4 rotors", "vehicle heron.toml"]
    vehicle = samara.vehicle(tmp_path / "heron.toml")
    assert vehicle == build_imported(read_sdf(HERON))
    status, out, err = call(monkeypatch, capsys, "vehicle", "export", "heron.toml", "--sdf")
    assert (status, out.splitlines()) == (0, ["heron/model.sdf", "heron/model.config"])
    status, _, _ = call(
        monkeypatch, capsys, "vehicle", "import", "heron/model.sdf", "-o", "again.toml", "--name", "again"
    )
    reimported = samara.vehicle(tmp_path / "again.toml")
    assert status == 0 and reimported.name == "again"
    assert list(reimported.inertia_B) == pytest.approx(list(vehicle.inertia_B), rel=1e-12, abs=1e-16)


def test_what_is_left_out_is_said(monkeypatch, capsys, tmp_path):
    status, out, _ = call(monkeypatch, capsys, "vehicle", "export", "iris", "--sdf", "-o", str(tmp_path / "iris.sdf"))
    assert status == 0 and "left out: drag: SDF cannot express it" in out


def test_what_a_file_lacks_is_estimated_from_parts(monkeypatch, capsys, tmp_path):
    """A MuJoCo model has thrust but no rotor speed; the parts supply the missing parameters, with their spreads."""
    pytest.importorskip("mujoco")
    martin, out = HERON.parents[2] / "martin.xml", tmp_path / "martin.toml"
    words = ("--motors", "2806 1300KV", "--props", "8x4.5", "--battery", "4S3000", "-o", str(out))
    status, output, err = call(monkeypatch, capsys, "vehicle", "import", str(martin), *words)
    assert (status, err) == (0, "") and "not in the file: rotors.k_thrust" in output
    vehicle = samara.vehicle(out)
    assert vehicle.mass == pytest.approx(1.0) and vehicle.has("battery") and vehicle.has("drag")
    sources, spreads = dict(vehicle.structure.sources), dict(vehicle.structure.relative_uncertainties)
    assert sources["body.mass"].startswith("martin.xml: body martin") and "body.mass" not in spreads
    assert sources["rotor.k_thrust"].startswith("not in the file; ") and spreads["rotor.k_thrust"] > 0.05


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("import", MARTIN), "expected --defaults-from VEHICLE, or --motors, --props and --battery"),
        (("import", MARTIN, "--defaults-from", "iris", "--props", "8x4.5"), "--defaults-from and parts are both given"),
        (("import", MARTIN, "--props", "8x4.5"), "an estimate from parts needs --motors, --battery"),
        (("import", MARTIN, "--defaults-from", "hexarotor_x"), "has 4 rotors, and hexarotor_x"),
        (("import", "{}/bad.sdf"), "bad.sdf: is not XML"),
        (("import", "{}/none.sdf"), "No such file"),
        (("export", "iris"), "no format; expected --sdf"),
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
