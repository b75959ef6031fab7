"""An untrusted campaign, its file or its folder: it starts no program, opens no port, and touches nothing outside."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.command import call

import samara
from samara.campaigns.batch import CampaignFlights
from samara.campaigns.campaign import Campaign, CampaignError, campaign_toml, parse_campaign
from samara.campaigns.rerun import rerun_row
from samara.campaigns.store import open_store
from samara.campaigns.sweep import sweep
from samara.core.sanitise import UserText

pytest.importorskip("pyarrow")

TEXT = """
schema = 1
name = "small"
scenario = "hover"
flights = 2

[settings]
duration = 0.1
"expect.landed" = false
"drones.vehicle" = "crazyflie_documented"
{more}

[vary]
"start_W.x" = {{ uniform = [-0.1, 0.1] }}

[record]
worst = 1
failures = 0
"""
SECRET = "TOP_SECRET = ]"


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A campaign that has flown"""
    folder = tmp_path_factory.mktemp("flown")
    (folder / "small.toml").write_text(TEXT.format(more=""))
    sweep(folder / "small.toml", folder / "out")
    return folder / "out"


@pytest.fixture
def folder(flown, tmp_path):
    """A copy of its folder, to be damaged"""
    return Path(shutil.copytree(flown, tmp_path / "out"))


@pytest.fixture
def evil(tmp_path):
    """A program that leaves a trace if it runs"""
    path = tmp_path / "evil.sh"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: call(monkeypatch, capsys, "sweep", *words)


ATTACKS = {
    "program": ('"drones.autopilot" = {{ type = "px4", binary = "{evil}" }}', "expected no program in a file"),
    "dotted": (
        '"drones.autopilot.type" = "px4"\n"drones.autopilot.binary" = "{evil}"',
        "expected no program in a file",
    ),
    "betaflight": (
        '"drones.autopilot" = {{ type = "betaflight", binary = "{evil}" }}',
        "expected no program in a file",
    ),
    "host": (
        '"drones.autopilot" = {{ type = "px4", host = "0.0.0.0" }}',
        "expected this machine, 127.0.0.1, in a file",
    ),
    "path": ('wind = [{{ model = "replay", file = "{secret}" }}]', "expected a file beside the scenario or below it"),
    "table": ('"drones.sensors" = [{{ part = "../secret.toml" }}]', "expected a file beside the scenario or below it"),
    "folder": ('"drones.controller" = {{ type = "policy", file = ".." }}', "expected a file beside the scenario"),
    "track": (
        '"drones.controller" = {{ type = "racer", track = "../secret.toml/." }}',
        "expected a file beside the scen",
    ),
}
"""Settings of a campaign that only the user may give, and what is said about them"""


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_campaigns_file_names_no_program_no_host_and_no_path(attack, evil, command, tmp_path):
    (tmp_path / "secret.toml").write_text(SECRET)
    (tmp_path / "theirs").mkdir()
    more, sentence = ATTACKS[attack]
    text = TEXT.format(more=more.format(evil=evil, secret=tmp_path / "secret.toml"))
    (tmp_path / "theirs" / "small.toml").write_text(text)
    status, out, err = command("theirs/small.toml")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err and "TOP_SECRET" not in err
    assert not (tmp_path / "pwned").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("program", ("report",)),
        ("program", ("replay", "--row", "0")),
        ("host", ("replay", "--row", "0")),
        ("path", ("replay", "--row", "0")),
    ],
)
def test_a_campaigns_folder_names_none_either(attack, words, evil, folder, command, tmp_path, monkeypatch):
    """The author of the folder has written a matching fingerprint"""
    monkeypatch.setattr(
        Campaign, "fingerprint", lambda self: json.loads((folder / "campaign.json").read_text())["fingerprint"]
    )
    (tmp_path / "secret.toml").write_text(SECRET)
    more, sentence = ATTACKS[attack]
    (folder / "campaign.toml").write_text(TEXT.format(more=more.format(evil=evil, secret=tmp_path / "secret.toml")))
    status, out, err = command(words[0], "out", *words[1:])
    page = folder / "report.html"
    output = err + out + (page.read_text() if page.exists() else "")
    assert sentence in output.replace("&#x27;", "'") and "TOP_SECRET" not in output
    assert status == 2 or page.exists()
    assert not (tmp_path / "pwned").exists() and not (folder / "flown").exists()


@pytest.mark.parametrize(
    "name", ["../secret.toml", "../secret.toml/", "../secret.toml/.", "/etc/secret.toml", "a\0.toml"]
)
def test_a_campaign_reads_no_scenario_and_no_table_from_elsewhere(name, tmp_path):
    """A name with a trailing slash is that of the file before it"""
    (tmp_path / "secret.toml").write_text(SECRET)
    (tmp_path / "theirs").mkdir()
    base = {"name": "x", "flights": 2, "origin": "x.toml", "folder": str(tmp_path / "theirs")}
    table = name.replace("toml", "csv").rstrip("./")
    for campaign in (Campaign(scenario=name, **base), Campaign(scenario="hover", samples=table, **base)):
        with pytest.raises(
            CampaignError, match=r"^x\.toml: (scenario|samples\.file) = .* is not in the folder"
        ) as error:
            CampaignFlights.prepare(campaign)
        assert "TOP_SECRET" not in str(error.value)


def test_what_only_the_user_may_give_is_known_by_its_type(tmp_path):
    """The same text as `UserText`, which no file can hold, is accepted"""
    campaign = Campaign("x", "hover", 2, settings=(("drones.autopilot", {"type": "px4", "host": UserText("0.0.0.0")}),))
    assert campaign.read_scenario().drones[0].autopilot.host == "0.0.0.0"
    parsed = parse_campaign(campaign_toml(campaign), "x", tmp_path)
    assert parsed.settings == (("drones.autopilot.host", "0.0.0.0"), ("drones.autopilot.type", "px4"))
    with pytest.raises(ValueError, match=r"autopilot\.host = '0\.0\.0\.0': expected this machine"):
        parsed.read_scenario()


# The folder is self-contained ----------------------------------------------------------------------------------------------


BLADE = "apc_9x4.5e.toml"


@pytest.mark.parametrize("nested", [False, pytest.param(True, marks=pytest.mark.long)])  # fitting a blade takes seconds
def test_a_folder_carries_the_files_that_its_campaign_names(nested, tmp_path):
    """Scenario, vehicle, the blade that the vehicle names and the table; it replays without the originals"""
    home, package = tmp_path / "home", Path(samara.__file__).parent
    (home / "parts").mkdir(parents=True)
    (home / "cases.csv").write_text("start_W.x\n0.1\n0.2\n")
    (home / "parts" / "blade.toml").write_text((package / "propeller" / BLADE).read_text())
    vehicle = (package / "vehicles" / f"{'iris' if nested else 'crazyflie_documented'}.toml").read_text()
    (home / "own.toml").write_text(vehicle + ('\n[rotor_fit]\nblade = "parts/blade.toml"\n' if nested else ""))
    (home / "mine.toml").write_text(
        'duration = 0.1\n[[drones]]\nvehicle = "own.toml"\nstart = [0, 0, 1]\nairborne = true\n'
    )
    (home / "c.toml").write_text('schema = 1\nscenario = "mine.toml"\nflights = 2\n[samples]\nfile = "cases.csv"\n')
    sweep(home / "c.toml", tmp_path / "out")
    changed = home / ("parts/blade.toml" if nested else "own.toml")
    changed.write_text(f"# changed\n{changed.read_text()}")
    with pytest.raises(CampaignError, match="holds another campaign"):
        sweep(home / "c.toml", tmp_path / "out")
    shutil.rmtree(home)
    moved = shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    assert rerun_row(moved, 1).same
    copies = {path.relative_to(moved).as_posix() for path in (moved / "files").rglob("*.*")}
    named = {"files/mine.toml", "files/own.toml", "files/cases.csv"}
    assert copies == (named | {"files/parts/blade.toml"} if nested else named)


# Links ---------------------------------------------------------------------------------------------------------------------


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


LINKED = ["running", "campaign.json", "campaign.toml", "rows", "flown", "files"]


@pytest.mark.parametrize(
    ("name", "dangling"),
    [*((name, dangling) for name in LINKED for dangling in (False, True)), ("report.html", False)],
)
def test_links_in_a_campaigns_folder_are_not_followed(name, dangling, folder, tmp_path, command):
    """The target of the link is neither read, written nor created"""
    (tmp_path / "small.toml").write_text(TEXT.format(more=""))
    outside = tmp_path / "outside"
    outside.mkdir()
    target, place = outside / "target", folder / name
    if not dangling:
        if place.is_dir() or name in ("flown", "files"):
            shutil.copytree(place, target) if place.exists() else target.mkdir()
        else:
            target.write_bytes(place.read_bytes() if place.exists() else b"precious")
    if place.exists():
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(target)
    before = contents(outside)
    commands = {
        "report.html": ("report", "out", "--no-fly"),
        "running": ("small.toml", "--out", "out", "--additional-flights", "1"),
    }
    resume, replay = ("small.toml", "--out", "out", "--no-record"), ("replay", "out", "--row", "0")
    for words in (commands[name],) if name in commands else (resume, replay):
        status, _, err = command(*words)
        refused = name != "report.html" and (words != resume or name not in ("flown", "files", "campaign.toml"))
        assert (status, err.count("\n")) == ((2, 1) if refused else (0, 0))
        assert not refused or "is a symbolic link; expected a file or directory of the folder itself" in err
    assert contents(outside) == before and target.exists() != dangling
    if name == "report.html":
        assert not place.is_symlink() and place.is_file()  # replaced, not followed


def test_a_recording_that_is_a_link_is_not_written_through(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (folder / "flown").mkdir()
    (folder / "flown" / "row_0.mcap").symlink_to(precious)
    with pytest.raises(OSError, match=r"is a symbolic link; expected a file or directory of the folder itself"):
        rerun_row(folder, 0)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["running", "campaign.json", "campaign.toml", "rows/000000000000-000000000001.parquet"]
)
def test_pipes_in_a_campaigns_folder_are_refused(name, folder, tmp_path):
    """Nobody writes into them: opening one for reading would block forever"""
    (tmp_path / "small.toml").write_text(TEXT.format(more=""))
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises((OSError, CampaignError), match=r"is not a regular file"):
        sweep(tmp_path / "small.toml", folder)
        rerun_row(folder, 0)


# campaign.json --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": 2}, r"schema = 2: expected 1; a newer Samara wrote it$"),
        ({"schema": True}, r"schema = True: expected 1$"),
        ({"blocks": []}, r"blocks = \[\]: expected blocks of rows"),
        ({"blocks": [[0, 0, -1]]}, r"blocks = \[\[0, 0, -1\]\]: expected blocks of rows"),
        ({"blocks": [[0, 0, 2], [1, 5, 2]]}, r"expected blocks of rows .* consecutive$"),
        ({"blocks": [[0, 0, 10**12]]}, r"expected blocks of rows"),
        ({"blocks": [[0, 0, 2.0]]}, r"expected blocks of rows"),
        ({"packages": ["numpy"]}, r"packages = \['numpy'\]: expected a table$"),
        ({"fingerprint": None}, r"fingerprint = None: expected a text$"),
        ({"backend": "sh"}, r"backend = 'sh': expected one of llvm, jax, pallas$"),
        ({"confirmed": {"failures": "x"}}, r"confirmed\.failures = 'x': expected a whole number"),
        ({"folder": "/"}, r"folder = '/': expected only the keys"),
    ],
)
def test_a_damaged_campaign_json_is_one_sentence(change, sentence, folder):
    metadata = json.loads((folder / "campaign.json").read_text())
    (folder / "campaign.json").write_text(json.dumps(metadata | change))
    with pytest.raises(CampaignError, match=sentence) as error:
        open_store(folder)
    assert str(error.value).startswith(f"{folder}/campaign.json: ") and "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"[1]", b"null", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b'{"schema": NaN}'])
def test_a_campaign_json_that_is_none_is_one_sentence(data, folder):
    (folder / "campaign.json").write_bytes(data)
    with pytest.raises(CampaignError, match=r"campaign\.json: ") as error:
        open_store(folder)
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000


@pytest.mark.parametrize("data", [b"", b"PAR1 half", b"PAR1" + bytes(50) + b"PAR1"])
def test_damaged_rows_are_one_sentence(data, folder):
    name = "rows/000000000000-000000000001.parquet"
    (folder / name).write_bytes(data)
    with pytest.raises(CampaignError, match=rf"{name}: cannot be read \(.*\); expected a file of samara sweep$"):
        open_store(folder).table()


def test_a_campaign_of_odd_names_is_written_and_read_back(tmp_path):
    """Letters beyond U+FFFF, quotes, line ends, DEL, and settings of every type"""
    settings = (
        ("a[0].b", "x"),
        ("drones.vehicle", 'i"r\nis\x7f😀'),
        ("list", [1, 2.5, "😀"]),
        ("seed", 3),
        ("strict", True),
    )
    campaign = Campaign('q"\n😀\x7f', "hover", 2, settings=settings, origin="x", folder=str(tmp_path))
    assert parse_campaign(campaign_toml(campaign), "x", tmp_path) == campaign
