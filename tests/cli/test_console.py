"""Output of the command line: units in their brackets, names verbatim, and no control sequences for the terminal."""

import re
import sys

import numpy as np
import pytest
from support.command import call

import samara
from samara import cli
from samara.cli.console import check_mark, command_text, console
from samara.cli.identify import score_table
from samara.comparison.controllers import HEADINGS
from samara.core.sanitise import escape_control_characters
from samara.identify.prediction_error_fit import QUANTITIES, UNITS
from samara.identify.scores import HORIZONS, PredictionScore
from samara.scenario.changes import Changes, change_scenario
from samara.scenario.file import ScenarioError, load_scenario

RED = "\x1b[31m"
HOSTILE = f"[/red] [m/s] {RED}\x07 \x9b2J \u202e"


def all_commands():
    """Every command with the words that call it: (["export", "c"], the command)."""
    commands = [([], cli.command_line())]
    for words, command in commands:
        commands += [([*words, name], subcommand) for name, subcommand in getattr(command, "commands", {}).items()]
    return commands


def units(text):
    """Units in brackets, such as [m/s] and [1/s²]."""
    return re.findall(r"\[[\w°/]+\]", text)


@pytest.mark.parametrize("words", [words for words, _ in all_commands()], ids=" ".join)
def test_every_help_says_its_units_and_comes_by_two_names(words, monkeypatch, capsys):
    """Text in brackets in the source appears on the screen literally."""
    status, out, err = call(monkeypatch, capsys, *words, "--help", columns=300)
    assert (status, err) == (0, "")
    assert call(monkeypatch, capsys, *words, "-h", columns=300) == (0, out, "")
    command = {" ".join(command_words): command_object for command_words, command_object in all_commands()}[
        " ".join(words)
    ]
    help_texts = [
        described.help.replace("\\[", "[")
        for described in (command, *command.params)
        if getattr(described, "help", None)
    ]
    for unit in units(" ".join(help_texts)):
        assert out.count(unit) == " ".join(help_texts).count(unit)


def test_the_helps_do_have_units():
    """The test above is not vacuous."""
    escaped = [
        parameter.help
        for _, command in all_commands()
        for parameter in command.params
        if getattr(parameter, "help", None)
    ]
    assert sum("\\[m/s]" in text for text in escaped) >= 3
    assert any("\\[deg/s]" in text for text in escaped)


def test_compare_has_the_units_of_its_columns(monkeypatch, capsys, tmp_path):
    _, out, _ = call(
        monkeypatch, capsys, "compare", "--trajectory", "circle", "--controller", "geometric", "--out",
        str(tmp_path / "a[b]"),
    )  # fmt: skip
    for heading in HEADINGS:
        for unit in units(heading):
            assert unit in out
    assert f"table   {tmp_path}/a[b]/compare.md" in out


def test_validate_has_the_units_of_its_columns(capsys):
    rms = {"model[0]": {quantity: np.full(1000, 2.0) for quantity in QUANTITIES}}
    console().print(score_table(PredictionScore("all", 3, rms)))
    out = capsys.readouterr().out
    assert len(UNITS) >= 3 and len(HORIZONS) >= 1
    for unit in UNITS:
        assert unit in out
    assert "model[0]" in out


def test_what_would_steer_the_terminal_is_shown():
    assert escape_control_characters(RED) == r"\x1b[31m"
    assert escape_control_characters("\u202e\udc80\x9b\x00") == r"\u202e\udc80\x9b\x00"
    assert escape_control_characters("5 µm ✓ Größe 無人機\n\tтест") == "5 µm ✓ Größe 無人機\n\tтест"


def test_every_way_to_print_keeps_brackets_and_no_control_character(monkeypatch, capsys):
    from rich.table import Table

    table = Table(title=HOSTILE, caption=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    monkeypatch.setenv("COLUMNS", "200")
    screen = console()
    for content in (HOSTILE, table, check_mark(False, HOSTILE)):
        screen.print(content)
    out = capsys.readouterr().out
    assert out.count("[/red] [m/s]") == 6
    assert not set(out) & set("\x1b\x07\x9b\u202e")


def test_hostile_names_in_files_and_folders_are_words(monkeypatch, capsys, tmp_path):
    """A vehicle, an event and a folder with markup and escapes in their names: flown, listed, replayed, and printed escaped."""
    monkeypatch.chdir(tmp_path)
    samara.save_vehicle(samara.vehicle("hexarotor_x"), "craft.toml")
    name = 'name = "[/red] \\u001b[31m"'
    (tmp_path / "craft.toml").write_text((tmp_path / "craft.toml").read_text().replace('name = "hexarotor_x"', name))
    (tmp_path / "mine.toml").write_text(
        'duration = 0.1\n[[drones]]\nname = "d"\nvehicle = "craft.toml"\n'
        f'[[events]]\nat = 0.05\ndo = "disarm"\n{name}\n'
    )
    folder = f"runs[a]{RED}"
    printed = [
        call(monkeypatch, capsys, *words)
        for words in (
            ("fly", "mine.toml", "--out", folder),
            ("replay", f"{folder}/run.mcap"),
            ("info", f"{folder}/run.mcap"),
            ("vehicles", "craft.toml"),
            ("check", "mine.toml", "craft.toml"),
            ("scenarios",),
        )
    ]
    assert [status for status, _, _ in printed] == [0] * 6
    for _, out, err in printed:
        assert "\x1b" not in out + err
    assert r"recording runs[a]\x1b[31m/run.mcap" in printed[0][1]
    assert r"[/red] \x1b[31m" in printed[3][1]


@pytest.mark.parametrize("words", [("fly", HOSTILE), ("replay", HOSTILE), ("vehicles", HOSTILE), ("fly", f"--{RED}")])
def test_hostile_words_get_a_sentence(words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, *words)
    assert (status, out) == (2, "")
    assert err
    assert not set(err) & set("\x1b\x07\x9b\u202e")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../..", "/tmp/x", "a/b", "[/red]", "", " ", "a\x1bb"])
def test_a_scenarios_name_is_a_name_for_a_folder(name, tmp_path):
    with pytest.raises(ScenarioError, match=r"^hover\.toml: name = .*: expected letters, digits, - and _$"):
        load_scenario("hover", {"name": name})


def test_a_file_without_a_name_is_called_after_itself(tmp_path):
    path = tmp_path / "my 1st flight.toml"
    path.write_text('duration = 1\n[[drones]]\nvehicle = "crazyflie"\n')
    assert load_scenario(path).name == "my_1st_flight"


def scenario_wind(name, **settings):
    wind = load_scenario(name, settings).wind
    return wind.sample(0.0, 0.02, (0.0, 0.0, 0.0), wind.initial())[0]


def test_a_wind_that_says_only_its_speed_is_steady_and_from_the_west():
    """`--set wind.speed=6` where there is none: 6 m/s towards +x, which is east."""
    assert scenario_wind("figure8", **{"wind.speed": 6}) == pytest.approx((6.0, 0.0, 0.0), abs=1e-12)
    assert scenario_wind("figure8", **{"wind.speed": 6, "wind.from_deg": 0}) == pytest.approx(
        (0.0, -6.0, 0.0), abs=1e-12
    )
    assert scenario_wind("figure8", **{"wind.speed": 0}) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"wind.model": "step", "wind.speed": 6}, r"wind\[0\]\.at is missing"),
        ({"wind.from_deg": 90}, r"wind\[0\]\.speed is missing"),
        ({"wind.speed": -1}, r"wind\[0\]\.speed = -1\.0: expected a number from 0 to 150"),
        ({"wind.speeed": 6}, r"wind\[0\]\.speeed = 6: expected only the keys .*speed.* here"),
    ],
)
def test_a_wind_that_lacks_a_key_says_which(settings, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        load_scenario("figure8", settings)


def test_wind_on_the_command_line_is_steady_from_the_scenarios_direction(monkeypatch, capsys, tmp_path):
    """`wind` has gusts from the west; with --wind 3 the wind is constantly 3 m/s from there, and the report shows it."""
    status, _, err = call(
        monkeypatch, capsys, "fly", "wind", "--wind", "3", "--set", "duration=0.5", "--set", "expect={}", "--out",
        str(tmp_path),
    )  # fmt: skip
    assert (status, err) == (0, "")
    run = samara.load_run(tmp_path / "run.mcap")
    assert np.allclose(run.wind, (3.0, 0.0, 0.0), atol=1e-12)
    assert "samara fly wind --set duration=0.5 --set &#x27;expect={}&#x27; --wind 3" in (
        tmp_path / "report.html"
    ).read_text(encoding="utf-8")


def test_wind_from_elsewhere_stays_from_there(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('duration = 1\nwind = { speed = 2, from_deg = 180 }\n[[drones]]\nvehicle = "crazyflie"\n')
    assert change_scenario(path, Changes(wind=5.0)).wind.wind_W == pytest.approx((0.0, 5.0, 0.0), abs=1e-12)
    assert change_scenario("hover", Changes(wind="5")).wind.wind_W == pytest.approx((5.0, 0.0, 0.0), abs=1e-12)


def test_commands_are_printed_as_they_can_be_typed(monkeypatch, tmp_path):
    """With the path of the program if `samara` is not on the PATH: relative below the current folder, absolute elsewhere."""
    program = tmp_path / "bin" / "samara"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(program.parent))
    assert command_text("view", "a b.mcap") == "samara view 'a b.mcap'"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command_text("fly") == f"{program} fly"
    monkeypatch.chdir(tmp_path)
    assert command_text("fly") == "bin/samara fly"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert command_text("fly") == "samara fly"
    monkeypatch.setattr(sys, "platform", "win32")  # its shells have double quotes only, and \\ in every path
    assert command_text("view", r"out\a b.mcap", r"out\run.mcap") == r'samara view "out\a b.mcap" out\run.mcap'


def test_no_command_is_printed_as_written_by_hand(repository):
    """`command_text` makes them all: with the path of the program, and quotes around a file with a space in its name."""
    files = (repository / "src" / "samara" / "cli").glob("*.py")
    lines = [line.strip() for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if re.search(r"\bsay\(.*\bsamara [a-z]", line)] == []
