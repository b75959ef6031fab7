"""A file's format is detected by its content, whatever its name; and the command reads and writes every format."""

import pytest
from support.command import call
from vehicles.test_ardupilot_frame import HEAVY
from vehicles.test_betaflight_diff import OWN as DIFF
from vehicles.test_drone_models_file import OWN as MODELS
from vehicles.test_px4_file import QGROUNDCONTROL, SCRIPT, SHOWN
from vehicles.test_rotorpy_file import OWN as ROTORPY

import samara
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.formats import read_aircraft

FILES = {
    "heavy.json": (HEAVY, "an ArduPilot frame file"),
    "own.params": (QGROUNDCONTROL, "a file of PX4's parameters"),
    "shown.log": (SHOWN, "a file of PX4's parameters"),
    "4242_own": (SCRIPT, "a file of PX4's parameters"),
    "heron.txt": (DIFF, "a diff of Betaflight"),
    "own_params.py": (ROTORPY, "a parameter file of RotorPy"),
    "params.toml": (MODELS, "a parameter file of drone-models"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_content(name, tmp_path):
    text, expected_format = FILES[name]
    (tmp_path / name).write_text(text)
    (tmp_path / "anything.dat").write_text(text)
    assert read_aircraft(tmp_path / name).format == expected_format
    assert read_aircraft(tmp_path / "anything.dat").format == expected_format


@pytest.mark.parametrize("ending", [".json", ".params", ".txt", ".py", ".toml"])
def test_an_empty_file_of_any_ending_is_one_sentence(ending, tmp_path):
    (tmp_path / f"own{ending}").write_text("")
    with pytest.raises(VehicleError) as error:
        read_aircraft(tmp_path / f"own{ending}")
    assert "\n" not in str(error.value) and f"own{ending}" in str(error.value)


def test_the_command_writes_for_every_autopilot_and_reads_it_back(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, "vehicle", "export", "iris", "--px4", "--ardupilot", "--betaflight")
    assert (status, err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == {"iris.params", "iris.json", "iris.parm", "iris.txt"}
    assert "  left out: mass and inertia" in out.splitlines()
    status, out, _ = call(
        monkeypatch, capsys, "vehicle", "import", "iris.params", "--defaults-from", "iris", "-o", "again.toml"
    )
    assert status == 0 and "  not in the file: body.mass" in out.splitlines()
    assert samara.vehicle("again.toml").rotors[1].r_B == samara.vehicle("iris").rotors[1].r_B
    status, _, _ = call(monkeypatch, capsys, "vehicle", "import", "iris.json", "-o", "frame.toml")
    assert status == 0 and samara.vehicle("frame.toml").mass == 1.5
    status, _, err = call(monkeypatch, capsys, "vehicle", "import", "iris.txt", "-o", "none.toml")
    assert status == 2 and "does not contain" in err and not (tmp_path / "none.toml").exists()


def test_a_layout_and_a_drone_may_be_named(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heavy.json").write_text(HEAVY.replace('"num_motors" : 6', '"num_motors" : 8'))
    (tmp_path / "params.toml").write_text(MODELS)
    assert call(monkeypatch, capsys, "vehicle", "import", "heavy.json", "--layout", "x8")[0] == 0
    assert len({(rotor.r_B.x, rotor.r_B.y) for rotor in samara.vehicle("heavy.toml").rotors}) == 4
    assert call(monkeypatch, capsys, "vehicle", "import", "params.toml", "--drone", "wren")[0] == 0
    status, _, err = call(monkeypatch, capsys, "vehicle", "import", "params.toml", "--drone", "owl")
    assert status == 2 and "expected one of wren" in err


@pytest.mark.parametrize("flag", ["--px4", "--ardupilot", "--betaflight"])
def test_a_body_without_rotors_is_written_for_none(flag, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, "vehicle", "export", "rigid_body_quadrotor", flag)
    assert (status, out) == (2, "") and len(err.splitlines()) == 1 and not list(tmp_path.iterdir())
