"""Permissions of an untrusted file: it is read, and may name files beside it. It starts no program, opens no network port, and
reads nothing from elsewhere; words that a person types are trusted."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.cli import main
from samara.core.atomic_files import parse_json
from samara.core.budget import read_bytes, resolve_sibling_path
from samara.record.load import load_run
from samara.scenario.autopilot import Autopilot, is_loopback
from samara.scenario.file import ScenarioError, load_scenario
from samara.view.report.report import (
    ReportRun,
    embedded_scenario,
    expectations,
    fly_command,
    scenario_text,
    write_report,
)

FLIGHT = """
duration = 0.1
[[drones]]
vehicle = {vehicle}
airborne = true
start = [0, 0, 1]
{more}
"""


def written(folder, *, vehicle='"iris"', more="", name="mine.toml"):
    path = folder / name
    path.write_text(FLIGHT.format(vehicle=vehicle, more=more))
    return path


def call(monkeypatch, capsys, *words):
    """Return exit status, stdout and stderr of the command line."""
    monkeypatch.setattr(sys, "argv", ["samara", *map(str, words)])
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code or 0
    out = capsys.readouterr()
    return status, out.out, out.err


# Programs and ports --------------------------------------------------------------------------------------------------


@pytest.fixture
def evil(tmp_path):
    """A program that leaves a trace when it runs."""
    path = tmp_path / "evil.sh"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("command", ["fly", "view", "check"])
@pytest.mark.parametrize("table", ['{{ type = "px4", binary = "{}" }}', '{{ type = "betaflight", binary = "{}" }}'])
def test_a_scenario_names_no_program(command, table, evil, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("evil.sh", "./evil.sh", evil):
        path = written(tmp_path, more=f"autopilot = {table.format(name)}")
        status, out, err = call(monkeypatch, capsys, command, path)
        assert (status, out, err.count("\n")) == (2, "", 1)
        variable = "SAMARA_PX4" if "px4" in table else "SAMARA_BETAFLIGHT"
        assert f"mine.toml: drones[0].autopilot.binary = '{name}': expected no program in a file" in err
        assert "--binary" in err and variable in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.sh", "mine.toml"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.com", "127.0.0.1; touch pwned"])
def test_a_scenario_opens_no_network_port(host, tmp_path):
    path = written(tmp_path, more=f'autopilot = {{ type = "betaflight", host = "{host}" }}')
    with pytest.raises(
        ScenarioError, match=r"autopilot\.host = .*: expected this machine, 127\.0\.0\.1, in a file: name"
    ):
        load_scenario(path)


def test_what_a_person_types_is_trusted(evil, tmp_path):
    """The same words by --set, as settings in Python, or as an Autopilot."""
    path = written(tmp_path, more='autopilot = { type = "px4", host = "localhost", binary = "" }')
    typed = {"drones.autopilot.binary": str(evil), "drones.autopilot.host": "0.0.0.0"}
    autopilot = samara.load_scenario(path, typed).drones[0].autopilot
    assert (autopilot.binary, autopilot.host) == (str(evil), "0.0.0.0")
    assert Autopilot("px4", binary=str(evil), host="0.0.0.0").host == "0.0.0.0"
    hosts = {"127.0.0.1": True, "127.1.2.3": True, "::1": True, "localhost": True, "": False, "localhost.evil": False}
    assert {host: is_loopback(host) for host in hosts} == hosts


@pytest.mark.parametrize("name", ["X; touch pwned; Y", "X\nY", "", "$(id)"])
def test_parameters_of_an_autopilot_are_no_words_for_the_shell(name):
    """They become lines of a script that a person runs."""
    with pytest.raises(ValueError, match=r"autopilot\.parameters has .*; expected names of letters, digits and _"):
        Autopilot("px4", parameters=((name, 1.0),))


# Files that a file names ---------------------------------------------------------------------------------------------


def test_a_file_names_those_beside_it_and_below(tmp_path):
    (tmp_path / "parts").mkdir()
    outside = tmp_path.parent / f"{tmp_path.name}.toml"
    outside.write_text("")
    (tmp_path / "link.toml").symlink_to(outside)
    (tmp_path / "near.toml").symlink_to(tmp_path / "parts")
    assert resolve_sibling_path(tmp_path, "a.toml") == tmp_path / "a.toml"
    assert resolve_sibling_path(tmp_path, "parts/../parts/a.toml")
    assert resolve_sibling_path(tmp_path, "near.toml")
    for name in ("../a.toml", str(outside), "link.toml", "parts/../../a.toml", "/etc/passwd", "a\0b"):
        with pytest.raises(ValueError, match="is not in the folder of the file that names it"):
            resolve_sibling_path(tmp_path, name)


@pytest.mark.parametrize(
    ("vehicle", "more"),
    [
        ('"{}.toml"', ""),
        ('"iris"', 'sensors = [{{ part = "{}.toml" }}]'),
        ('"iris"', 'effects = {{ rotor_air = {{ blade = "{}.toml" }} }}'),
        ('"iris"', '[wind]\nmodel = "replay"\nfile = "{}.csv"'),
        ('"iris"', '[[obstacles]]\nshape = "height_map"\nfile = "{}.npy"\nspacing = 1.0'),
    ],
)
def test_a_scenario_reads_nothing_from_elsewhere(vehicle, more, tmp_path):
    for name in ("../secret", "/etc/secret"):
        path = written(tmp_path, vehicle=vehicle.format(name), more=more.format(name))
        with pytest.raises(ScenarioError, match="expected a file beside the scenario or below it; --vehicle and --set"):
            load_scenario(path)


def test_a_vehicle_names_no_blade_from_elsewhere(tmp_path):
    text = (Path(samara.__file__).parent / "vehicles" / "iris.toml").read_text()
    (tmp_path / "mine.toml").write_text(text + '\n[rotor_fit]\nblade = "../b.toml"\n')
    with pytest.raises(
        ValueError, match=r"rotor_fit\.blade = '\.\./b\.toml': .*; expected a file beside that or below"
    ):
        samara.vehicle(tmp_path / "mine.toml")


def test_a_vehicle_and_a_table_may_be_anywhere_when_they_are_typed(tmp_path):
    (tmp_path / "lab").mkdir()
    elsewhere = tmp_path / "own.toml"
    elsewhere.write_text((Path(samara.__file__).parent / "vehicles" / "iris.toml").read_text())
    path = written(tmp_path / "lab")
    for vehicle_name in (str(elsewhere), "../own.toml"):
        assert (
            samara.load_scenario(path, {"drones.vehicle": vehicle_name}).drones[0].vehicle.mass
            == samara.vehicle("iris").mass
        )


def test_devices_and_pipes_are_no_files(tmp_path):
    """/dev/zero never ends, and no process writes into the pipe."""
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (Path("/dev/zero"), tmp_path / "pipe.toml", tmp_path):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_bytes(path)
    (tmp_path / "long.csv").write_bytes(bytes(11))
    with pytest.raises(OSError, match="larger than"):
        read_bytes(tmp_path / "long.csv", 10)
    for load in (samara.vehicle, load_scenario):
        with pytest.raises(ValueError, match=r"pipe\.toml: cannot be read \(it is not a regular file\)"):
            load(tmp_path / "pipe.toml")


# Recordings ------------------------------------------------------------------------------------------------------------


OPENED: list[str] = []
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A flight whose vehicle, sensor and wind are files beside its scenario."""
    folder = tmp_path_factory.mktemp("flown")
    source = Path(samara.__file__).parent
    (folder / "own.toml").write_text((source / "vehicles" / "iris.toml").read_text())
    (folder / "gyro.toml").write_text((source / "sensors" / "parts" / "bmi088.toml").read_text())
    (folder / "log.csv").write_text("time,wind_x,wind_y,wind_z\n0,1,0,0\n1,2,0,0\n")
    more = 'sensors = [{ part = "gyro.toml" }]\n[wind]\nmodel = "replay"\nfile = "log.csv"\n[expect]\nmax_error = 5.0\n'
    path = written(folder, vehicle='"own.toml"', more=more)
    samara.fly(path, out=folder / "run.mcap")
    for name in ("own.toml", "gyro.toml", "log.csv", "mine.toml"):
        (folder / name).unlink()
    return load_run(folder / "run.mcap")


def test_a_recording_carries_the_files_its_scenario_names(flown):
    """The files are deleted from the disk, and the embedded scenario can still be read."""
    assert {"own.toml", "gyro.toml", "log.csv"} - set(flown.attachments) == {"own.toml"}
    scenario = embedded_scenario(flown)
    assert scenario.drones[0].vehicle.mass == flown.drone_records[0].vehicle.mass
    assert [sensor.type_name for sensor in scenario.drones[0].sensors] == ["imu"]
    assert [judged.satisfied for judged in expectations(flown)] == [True, True]


@pytest.mark.parametrize(
    "text",
    [
        FLIGHT.format(vehicle='"{bait}.toml"', more=""),
        FLIGHT.format(vehicle='"iris"', more='sensors = [{{ part = "{bait}.toml" }}]'),
        FLIGHT.format(vehicle='"iris"', more='[wind]\nmodel = "replay"\nfile = "{bait}.csv"'),
        FLIGHT.format(vehicle='"iris"', more='[[obstacles]]\nshape = "height_map"\nfile = "{bait}.npy"\nspacing = 1.0'),
        FLIGHT.format(vehicle='"iris"', more='effects = {{ rotor_air = {{ blade = "{bait}.toml" }} }}'),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_a_recording_reads_nothing_from_the_disk(text, empty, flown, tmp_path, monkeypatch):
    """Neither files that its text names, nor those claimed to be typed, nor files whose embedded copy is empty."""
    bait = tmp_path / "bait"
    for ending in (".toml", ".csv", ".npy"):
        bait.with_suffix(ending).write_text("")
    monkeypatch.chdir(tmp_path)
    inside = {f"{name}{ending}": b"" for name in ("bait", bait) for ending in (".csv", ".npy", ".toml") if empty}
    for name in ("bait", str(bait)):
        attached = {
            **inside,
            "scenario.toml": text.replace("{bait}", name).replace("{{", "{").replace("}}", "}").encode(),
        }
        forged = replace(
            flown,
            attachments=attached,
            metadata={**flown.metadata, "settings": json.dumps({"description": f"{name}.toml {name}.csv", "seed": 1})},
        )
        OPENED.clear()
        embedded_scenario(forged)
        assert not [path for path in OPENED if "bait" in path]
    blade = (Path(samara.__file__).parent / "vehicles" / "iris.toml").read_text()
    attached = {**flown.attachments, "vehicle/drone0.toml": f'{blade}\n[rotor_fit]\nblade = "{bait}.toml"\n'.encode()}
    replace(flown, attachments=attached).save(tmp_path / "forged.mcap")
    OPENED.clear()
    with pytest.raises(ValueError, match="expected a name that Samara knows"):
        load_run(tmp_path / "forged.mcap")
    assert not [path for path in OPENED if "bait" in path]


def test_a_recording_that_names_a_program_is_read_and_replayed(flown, evil, tmp_path):
    """A recording from before scenarios were restricted: nothing in it is started."""
    text = FLIGHT.format(vehicle='"iris"', more=f'autopilot = {{ type = "px4", binary = "{evil}", host = "0.0.0.0" }}')
    older = replace(flown, attachments={**flown.attachments, "scenario.toml": text.encode()})
    older.save(tmp_path / "older.mcap")
    run = load_run(tmp_path / "older.mcap")
    autopilot = embedded_scenario(run).drones[0].autopilot
    assert (autopilot.type, autopilot.binary, autopilot.host) == ("px4", "", "127.0.0.1")
    again = samara.replay(run)
    assert np.array_equal(again.drone_records[0].position, run.drone_records[0].position)
    assert not (tmp_path / "pwned").exists()


MANY = 100_000
DEEP = "[" * MANY + "]" * MANY
DEEP_KEY = ".".join("a" * MANY)
OVERRIDES = [  # a key and a value, as TOML or Python would write them
    pytest.param("duration", "-" * MANY + "1", id="signs"),
    pytest.param("duration", "1+" * MANY + "1", id="sums"),
    pytest.param("duration", DEEP, id="brackets"),
    pytest.param("duration", "[" * 50 + "]" * 50, id="a few brackets"),
    pytest.param("duration", "{a=" * MANY, id="braces"),
    pytest.param("duration", "9" * MANY, id="digits"),
    pytest.param("drones[0].start", "[" + "1, " * MANY + "1]", id="a long list"),
    pytest.param(DEEP_KEY, "1", id="a path of many parts"),
    pytest.param("drones." * MANY + "x", "1", id="lists in a path"),
    pytest.param("drones" + "[0]" * MANY + ".x", "1", id="indices in a path"),
    pytest.param("drones[" + "9" * MANY + "].x", "1", id="digits of an index"),
    pytest.param("drones[²].x", "1", id="a digit that is no number"),
    pytest.param("a" * MANY, "1", id="letters"),
]


@pytest.mark.parametrize("key", ["drones", "rates", "versions", "settings", "instants_us"])
@pytest.mark.parametrize("text", [DEEP, "[1, 2]"], ids=["deep", "flat"])
def test_a_forged_recording_is_one_sentence_or_a_report(key, text, flown, tmp_path):
    """With correct checksums, and of a shape that Samara never writes."""
    replace(flown, metadata={**flown.metadata, key: text}).save(tmp_path / "forged.mcap")
    for read in (lambda path: write_report([ReportRun("f", load_run(path), "")], tmp_path / "r.html"), samara.replay):
        try:
            read(tmp_path / "forged.mcap")
        except ValueError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000


def test_forged_recordings_are_compared(flown, tmp_path):
    """The report of several has a column for each, for any versions and settings they claim."""
    forged = replace(flown, metadata={**flown.metadata, "versions": "[1, 2]", "settings": "[1, 2]"})
    write_report([ReportRun("f", flown, ""), ReportRun("g", forged, "")], tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size > 0


@pytest.mark.parametrize(("key", "value"), OVERRIDES)
def test_forged_overrides_leave_the_flight_readable(key, value, flown, tmp_path):
    forged = replace(flown, metadata={**flown.metadata, "settings": json.dumps({key: value})})
    run = load_run(forged.save(tmp_path / "forged.mcap"))
    assert np.array_equal(run.drone_records[0].position, flown.drone_records[0].position)
    text, settings = scenario_text(run)
    assert list(settings) == [key]
    assert embedded_scenario(run) is None and expectations(run) == []
    assert fly_command(run.scenario, text, settings).startswith("samara fly scenario.toml --set ")


@pytest.mark.parametrize(("key", "value"), OVERRIDES)
def test_an_endless_setting_is_one_short_sentence(key, value, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, "fly", "hover", "--set", f"{key}={value}")
    assert (status, out) == (2, "") and not list(tmp_path.iterdir())
    assert err.startswith(("samara: hover.toml: ", "samara: --set ")) and ("expected" in err or "there is no" in err)
    assert err.count("\n") == 1 and len(err) < 600


def test_json_of_a_recording_is_as_deep_as_ours_may_be():
    """A hundred brackets are read; one more is refused, independent of the stack size."""
    assert parse_json("[" * 100 + "]" * 100) is not None
    for text in ("[" * 101 + "1" + "]" * 101, '{"a":' * 101 + "1" + "}" * 101):
        with pytest.raises(ValueError, match="brackets are nested too deeply"):
            parse_json(text)
