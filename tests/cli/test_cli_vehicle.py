"""`samara vehicle new`: the command of the documentation, prompts, files, and one sentence about invalid input."""

import sys

import pytest
from support.command import call

import samara

RACER = (
    "--mass",
    "0.65",
    "--diagonal",
    "0.22",
    "--motors",
    "2207 1950KV",
    "--props",
    "5.1x4.3x3",
    "--battery",
    "6S1300",
)


def test_the_racer_of_the_documentation(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(
        monkeypatch, capsys, "vehicle", "new", "racer", *RACER, "-o", "racer.toml", "--report", "r.html"
    )
    assert (status, err) == (0, "")
    for word in (
        "hover throttle",
        "thrust/weight",
        "hover time to empty",
        "hover time, 20 % left",
        "top speed",
        "climb",
        "full throttle",
        "95 % interval",
    ):
        assert word in out
    assert "fly it  samara fly figure8 --vehicle racer.toml" in out
    racer = samara.vehicle("racer.toml")
    assert (racer.name, racer.mass, len(racer.rotors)) == ("racer", 0.65, 4)
    assert (tmp_path / "racer.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>racer</h1>" in page and "Flight performance" in page and "samara vehicle new racer" in page
    assert "rotor.k_thrust" in page and "blade element theory" in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "racer.png", "racer.toml"]
    status, out, err = call(monkeypatch, capsys, "check", "racer.toml")
    assert (status, err) == (0, "") and "✗" not in out


def test_what_is_known_is_a_flag(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = ("--inertia", "0.001,0.0011,0.002", "--k-thrust", "1.9e-6", "--resistance", "0.05", "--no-plot")
    status, out, err = call(monkeypatch, capsys, "vehicle", "new", "mine", *RACER, *options)
    assert (status, err) == (0, "")
    vehicle = samara.vehicle("mine.toml")
    assert vehicle.inertia_B.yy == 0.0011 and vehicle.rotors[0].k_thrust == 1.9e-6
    assert not (tmp_path / "mine.png").exists() and "picture" not in out


def test_a_short_file_and_a_flag_that_goes_before_it(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    pairs = zip(RACER[::2], RACER[1::2], strict=True)
    texts = [f"{key[2:]} = {value if key in ('--mass', '--diagonal') else repr(value)}" for key, value in pairs]
    (tmp_path / "parts.toml").write_text("\n".join(['name = "short"', *texts]))
    status, _, err = call(monkeypatch, capsys, "vehicle", "new", "--parts", "parts.toml", "--mass", "0.7", "--no-plot")
    assert (status, err) == (0, "")
    assert samara.vehicle("short.toml").mass == 0.7


def test_rotors_by_coordinates(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    coordinates = ("0.08,-0.08,0,ccw", "-0.08,0.08,0,ccw", "0.08,0.08,0,cw", "-0.08,-0.08,0,cw")
    rotors = [word for coordinate in coordinates for word in ("--rotor", coordinate)]
    parts = RACER[:2] + RACER[4:]
    status, _, err = call(monkeypatch, capsys, "vehicle", "new", "own", *parts, *rotors, "--no-plot")
    assert (status, err) == (0, "")
    assert [rotor.spin for rotor in samara.vehicle("own.toml").rotors] == [1, 1, -1, -1]
    status, _, err = call(monkeypatch, capsys, "vehicle", "new", "own", *parts, "--rotor", "a,b,0,up", "--no-plot")
    assert status == 2 and "rotors" in err


def test_questions_in_a_terminal(monkeypatch, capsys, tmp_path):
    """Missing parts are prompted for, and nothing else."""
    monkeypatch.chdir(tmp_path)
    answers = {"Mass": 0.65, "Propellers": "5.1x4.3x3", "Battery": "6S1300"}
    prompts = []

    def prompt(text, type):
        prompts.append(text.split(",")[0])
        return answers[prompts[-1]]

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    status, _, err = call(
        monkeypatch, capsys, "vehicle", "new", "asked", "--diagonal", "0.22", "--motors", "2207 1950KV", "--no-plot"
    )
    assert (status, err) == (0, "")
    assert prompts == list(answers)
    assert samara.vehicle("asked.toml").mass == 0.65


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (("--mass", "-1"), "mass = -1.0: expected a number from 0.01 to 25 kg"),
        (("--mass", "nan"), "mass = nan: expected a number from 0.01 to 25 kg"),
        (("--diagonal", "0.1"), "expected propellers that do not overlap"),
        (("--battery", "6S9000"), "expected an aircraft heavier than its battery"),
        (("--motors", "2207 300KV"), "expected at least 1.1 times the mass"),
        (("--layout", "penta"), "layout = 'penta': expected one of quad_x"),
        (("--inertia", "1,2"), "inertia = [1.0, 2.0]: expected 3 numbers"),
        (("-o", "racer.txt"), "expected .toml"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_no_file(changes, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(monkeypatch, capsys, "vehicle", "new", "racer", *RACER, *changes)
    assert status == 2
    assert sentence in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_what_is_lacking_is_listed(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    status, _, err = call(monkeypatch, capsys, "vehicle", "new", "racer", "--mass", "0.65")
    assert status == 2
    assert "--diagonal, --motors, --props, --battery: missing" in err
