"""Names from files that become part of a path stay in their directory."""

import os
import tomllib
from pathlib import Path

import pytest
from support.command import call

import samara
from samara.comparison.race import race
from samara.core import confined_folder
from samara.core.budget import read_text_or_gzip
from samara.core.coerce import file_stem, is_name, sanitise_name
from samara.core.confined_folder import ConfinedFolder
from samara.core.toml import toml_value
from samara.vehicles.check import VehicleError
from samara.vehicles.parts.parts_list import PartsError, read_parts_list
from samara.world.track import TrackError, load_track

HOSTILE = ["../x", "/abs/x", "a/b", "a\\b", "..", ".", ".hidden", "a\0b", "a\nb", "\x1b[31m", "", "x" * 300, "\u202ex"]
PARTS = """
name = {name}
mass = 0.65
diagonal = 0.22
motors = "2207 1950KV"
props = "5.1x4.3x3"
battery = "6S1300"
{more}
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_elsewhere_names_no_file(name):
    with pytest.raises(ValueError, match="cannot be that of a file; expected no slash") as error:
        file_stem(name)
    assert "\n" not in str(error.value) and str(error.value).isprintable()
    assert is_name(sanitise_name(name)) or not name


@pytest.mark.parametrize(
    ("name", "stem"), [("racer", "racer"), ("APC 10x4.7", "APC_10x4.7"), ('my "5\'"', "my__5__"), ("機体-2", "機体-2")]
)
def test_other_names_are_stems(name, stem, tmp_path):
    assert file_stem(name) == stem
    (tmp_path / f"{stem}.toml").write_text("")
    assert [path.name for path in tmp_path.iterdir()] == [f"{stem}.toml"]


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["../x", "ABSOLUTE/x", "a/b", "..", "a\0b"])
def test_a_parts_list_and_a_blade_write_nowhere_else(name, tmp_path, monkeypatch, capsys):
    """`samara vehicle new --parts` and `samara rotor --plot` name their output after the name in the file."""
    (tmp_path / "cwd" / "a").mkdir(parents=True)
    (tmp_path / "cwd" / "out").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    quoted_name = toml_value(name.replace("ABSOLUTE", str(tmp_path)))
    Path("parts.toml").write_text(PARTS.format(name=quoted_name, more=""))
    blade = (Path(samara.__file__).parent / "propeller" / "apc_10x4.7.toml").read_text()
    Path("blade.toml").write_text(
        "\n".join(f"name = {quoted_name}" if line.startswith("name =") else line for line in blade.splitlines())
    )
    before = files(tmp_path)
    for words in (("vehicle", "new", "--parts", "parts.toml"), ("rotor", "blade.toml", "--plot")):
        status, _, err = call(monkeypatch, capsys, *words)
        assert (status, err.count("\n")) == (2, 1) and "cannot be that of a file" in err
    assert files(tmp_path) == before


# Files that a file names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../secret.dat", "/etc/passwd", "link.dat", "a\0.dat"])
def test_a_parts_list_reads_no_propeller_from_elsewhere(name, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "secret.dat").write_text("TOP_SECRET")
    (tmp_path / "theirs" / "link.dat").symlink_to(tmp_path / "secret.dat")
    (tmp_path / "theirs" / "parts.toml").write_text(PARTS.format(name='"x"', more=f"apc = {toml_value(name)}"))
    with pytest.raises(PartsError, match=r"^parts\.toml: apc = .* is not in the folder") as error:
        read_parts_list(tmp_path / "theirs" / "parts.toml")
    assert "TOP_SECRET" not in str(error.value)


def test_a_propeller_that_is_a_pipe_is_refused(tmp_path, monkeypatch, capsys):
    """No process writes into it: opening it would block for ever."""
    os.mkfifo(tmp_path / "pipe.dat")
    os.mkfifo(tmp_path / "pipe.dat.gz")
    for name in ("pipe.dat", "pipe.dat.gz"):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_text_or_gzip(tmp_path / name)
    (tmp_path / "parts.toml").write_text(PARTS.format(name='"x"', more='apc = "pipe.dat"'))
    monkeypatch.chdir(tmp_path)
    status, _, err = call(monkeypatch, capsys, "vehicle", "new", "--parts", "parts.toml")
    assert (status, err.count("\n")) == (2, 1) and "it is not a regular file" in err and not Path("x.toml").exists()


def test_a_track_names_a_vehicle_beside_it(tmp_path):
    text = (Path(samara.__file__).parent / "tracks" / "hall.toml").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("vehicle"))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "secret.toml").write_text("TOP_SECRET = ]")
    track = tmp_path / "theirs" / "track.toml"
    for name in ("../secret.toml", "../secret.toml/.", str(tmp_path / "secret.toml")):
        track.write_text(f'vehicle = "{name}"\n{text}')
        with pytest.raises(TrackError, match=r"^track\.toml: vehicle = .* is not in the folder") as error:
            race(track)
        assert "TOP_SECRET" not in str(error.value)
    track.write_text(f'vehicle = "own.toml"\n{text}')
    (tmp_path / "theirs" / "own.toml").write_text("mass = 3")
    assert load_track(track).vehicle == str(tmp_path / "theirs" / "own.toml")
    with pytest.raises(VehicleError, match=r"own\.toml: "):
        race(track)


# Folders -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relative_to_directories", [True, False], ids=["descriptors", "paths, as on Windows"])
def test_a_confined_folder_is_not_left(relative_to_directories, tmp_path, monkeypatch):
    monkeypatch.setattr(confined_folder, "HAS_DIR_FD", relative_to_directories)
    folder, outside = tmp_path / "in", tmp_path / "out"
    outside.mkdir()
    (outside / "x").write_text("precious")
    confined = ConfinedFolder(folder)
    confined.write_text("a/b/c.txt", "first")
    confined.write_text("a/b/c.txt", "second")
    assert (
        confined.read("a/b/c.txt") == b"second"
        and confined.names("a/b") == ["c.txt"]
        and confined.has_file("a/b/c.txt")
    )
    assert (
        confined.directory("a/b") == folder / "a" / "b"
        and confined.names("none") == []
        and not confined.has_file("none/x")
    )
    (folder / "way").symlink_to(outside)
    (folder / "x").symlink_to(outside / "x")
    for name in ("../out/x", str(outside / "x"), "way/x", "x", "a/../../out/x", "a\0", "..\\out\\x"):
        for access in (confined.read, confined.writable_path, lambda entry: confined.lock_file(entry).__enter__()):
            with pytest.raises(OSError, match=r"is a symbolic link|leads out of the folder"):
                access(name)
    with pytest.raises(OSError, match="is a symbolic link"):
        confined.write_text("way/x", "spoilt")
    with pytest.raises(OSError, match="is a symbolic link"):
        confined.directory("way")
    confined.write_text("x", "replaced")  # a link of that name is replaced
    assert (outside / "x").read_text() == "precious" and confined.read("x") == b"replaced"
    with pytest.raises(RuntimeError), confined.write("half") as file:
        file.write(b"half")
        raise RuntimeError
    assert confined.names() == ["a", "way", "x"] and files(outside) == ["x"]
    with pytest.raises(OSError, match="larger than"):
        confined.read("x", 3)


# TOML ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["", 'a"b', "a\\b", "a\nb\r\t", "\x00\x1f\x7f", "\u2028é😀", "'''", True, 3, -0.5, 1e300, float("inf"), [1, ["x"]]],
)
def test_toml_values_round_trip(value):
    assert tomllib.loads(f"value = {toml_value(value)}") == {"value": value}
    assert tomllib.loads(f"value = {toml_value({'a b': value})}") == {"value": {"a b": value}}
