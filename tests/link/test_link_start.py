"""How an autopilot's program is found, or started by hand; and that the command line changes only the given options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.autopilot_peers import one_at_a_time  # noqa: F401 - a fixture
from support.command import call

import samara
from samara.cli.fly import autopilot_changes
from samara.core.extras import install_hint
from samara.link.ardupilot import ArduPilot, ardupilot_command, ardupilot_parameters
from samara.link.betaflight import SETTINGS
from samara.link.link import AutopilotLostError
from samara.link.process import SCRIPT_NAME, StartFolder, find_installed, require_binary
from samara.link.px4 import px4_command, px4_environment, px4_parameters, px4_start
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_types import AUTOPILOTS, PX4
from samara.scenario.file import load_scenario
from samara.scenario.file.overrides import parse_override

SCENARIO = """
duration = 1
[[drones]]
vehicle = "hakoniwa"
autopilot = {}
[[drones]]
vehicle = "hakoniwa"
start = [5, 0, 0]
"""


@pytest.fixture
def program(tmp_path):
    """A program that prints how it was started."""
    (tmp_path / "build" / "bin").mkdir(parents=True)
    (tmp_path / "build" / "etc").mkdir()
    path = tmp_path / "build" / "bin" / "fake"
    path.write_text(
        '#!/bin/sh\npwd; for word in "$@"; do echo "$word"; done; env | grep PX4_ | sort; cat samara.parm 2>/dev/null || true\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    for autopilot_type in AUTOPILOTS.values():
        if autopilot_type.variable:
            monkeypatch.delenv(autopilot_type.variable, raising=False)
    monkeypatch.setattr("samara.link.process.find_installed", lambda executable: "")


def run_shell(command, folder):
    process = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.parametrize("how", ["by argument", "by a relative path", "by the environment"])
def test_the_line_that_is_printed_starts_px4(how, program, tmp_path, monkeypatch):
    """In any shell: the program gets its parameters, the folder `etc` of its build, and a separate working folder."""
    environment = px4_environment(px4_parameters(samara.vehicle("iris")))
    folder = StartFolder(px4_start(3, environment), "SAMARA_PX4")
    command, working_folder = folder.command_line, tmp_path
    if how == "by argument":
        command += f" {program}"
    elif how == "by a relative path":
        command, working_folder = f"{command} ./fake", program.parent
    else:
        monkeypatch.setenv("SAMARA_PX4", str(program))
    output = run_shell(command, working_folder)
    assert Path(output[0]) == folder.folder.resolve()
    assert output[1:4] == ["-d", "-i", "3"]
    assert Path(output[4]).resolve() == tmp_path / "build" / "etc"
    assert {f"{key}={value}" for key, value in environment.items()} <= set(output)
    folder.close()
    assert not folder.folder.exists()


def test_a_program_that_is_not_there_is_named(tmp_path):
    folder = StartFolder(px4_start(0, {}), "SAMARA_PX4")
    process = subprocess.run(f"{folder.command_line} nowhere/px4", shell=True, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr.startswith("nowhere/px4: not found; expected: sh ")
    (folder.folder / "log").mkdir()
    folder.close()
    assert (folder.folder / SCRIPT_NAME).is_file()  # a used folder stays


def test_ardupilots_parameter_file_is_written_beside_its_script(program, tmp_path):
    """While the flight waits, the message contains a command to paste, and the file it needs exists."""
    vehicle, messages = samara.vehicle("hakoniwa"), []
    link = ArduPilot(Autopilot("ardupilot", wait=0.3, instance=7), vehicle, lambda level, text: messages.append(text))
    with pytest.raises(AutopilotLostError, match="did not connect on UDP"):
        link._connect(0)
    assert len(messages) == 1
    line = messages[0].partition("start it with: ")[2]
    output = run_shell(f"{line} {program}", tmp_path)
    assert output[1:-7] == ardupilot_command("", 7)[1:]
    parameters = {name: float(value) for name, value in (text.split() for text in output[-7:])}
    assert parameters == pytest.approx(ardupilot_parameters(vehicle, 0.5))
    link.close()


def test_betaflights_settings_are_written_for_its_command_line(monkeypatch):
    from samara.link.betaflight import Betaflight

    messages = []
    link = Betaflight(
        Autopilot("betaflight", wait=0.2), samara.vehicle("hakoniwa"), lambda level, text: messages.append(text)
    )
    script = Path(link.watch.start_command().split()[1])
    lines = (script.parent / "settings.txt").read_text().splitlines()
    assert lines == [*SETTINGS, "set yaw_motors_reversed = OFF", "save"]
    link.close()
    assert not script.exists()


@pytest.mark.parametrize(
    ("kind", "executable"),
    [(name, autopilot_type.executable) for name, autopilot_type in AUTOPILOTS.items() if autopilot_type.executable],
)
def test_an_autopilot_that_is_not_there_is_said_at_once(kind, executable, monkeypatch, capsys, tmp_path):
    """The command does not wait and writes nothing, whether the command line names the autopilot or the scenario does."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SCENARIO.format(f'"{kind}"'))
    for arguments in (["hover", "--autopilot", kind], ["mine.toml"], ["mine.toml", "--set", "duration=2"]):
        status, out, err = call(monkeypatch, capsys, "fly", *arguments)
        assert (status, out) == (2, "")
        alternatives = (
            f"{executable.install}, --binary PROGRAM, the environment variable {executable.variable}, or --connect"
        )
        assert f"{AUTOPILOTS[kind].title} not found: expected {alternatives}" in err
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("kind", "files", "expected"),
    [
        ("px4", ("b/px4",), "b/px4"),
        ("px4", ("a/px4-gazebo",), ""),  # starts Gazebo
        ("ardupilot", ("a/arduplane", "b/arducopter"), "b/arducopter"),
        ("betaflight", ("b/betaflight_SITL.elf", "a/betaflight_4.6.0_SITL"), "a/betaflight_4.6.0_SITL"),
        ("betaflight", ("a/betaflight_2025.9.1_SITL", "a/betaflight_2025.12.2_SITL"), "a/betaflight_2025.12.2_SITL"),
        ("px4", (), ""),
    ],
)
def test_a_program_on_the_path_is_found(kind, files, expected, monkeypatch, tmp_path):
    """In the order of the PATH; not in a relative folder of it, and not a file that is not executable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("here/px4", "here/arducopter", "here/betaflight_SITL.elf", "c/px4", *files):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("#!/bin/sh\n")
        Path(name).chmod(0o755 if name in files or name.startswith("here") else 0o644)
    monkeypatch.setenv("PATH", os.pathsep.join(["here", "", *(str(tmp_path / name) for name in "cab")]))
    executable = AUTOPILOTS[kind].executable._replace(paths=())
    assert find_installed(executable) == (str(tmp_path / expected) if expected else "")


def test_px4_of_a_debian_package_is_found_with_its_files(monkeypatch, tmp_path):
    """/opt/px4-gazebo/bin/px4 beside etc/, as in its package; and /usr/bin/px4, a link into /opt/px4."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert PX4.executable.paths == ("/opt/px4/bin/px4", "/opt/px4-gazebo/bin/px4")
    prefixes = [tmp_path / "opt" / name for name in ("px4", "px4-gazebo")]
    paths = tuple(str(prefix / "bin" / "px4") for prefix in prefixes)
    executable = PX4.executable._replace(paths=paths)
    for prefix in reversed(prefixes):
        (prefix / "bin").mkdir(parents=True)
        (prefix / "etc").mkdir()
        (prefix / "bin" / "px4").write_text("#!/bin/sh\n")
        (prefix / "bin" / "px4").chmod(0o755)
        assert find_installed(executable) == str(prefix / "bin" / "px4")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "px4").symlink_to(prefixes[0] / "bin" / "px4")
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    link = require_binary(find_installed(executable), "PX4")
    assert px4_command(str(link), 2) == [paths[0], "-d", "-i", "2", str(prefixes[0] / "etc")]


def test_the_line_that_is_printed_follows_a_link_to_the_program(program, tmp_path):
    (tmp_path / "px4").symlink_to(program)
    folder = StartFolder(px4_start(0, {}), "SAMARA_PX4")
    assert (
        Path(run_shell(f"{folder.command_line} {tmp_path / 'px4'}", tmp_path)[4]).resolve()
        == tmp_path / "build" / "etc"
    )
    folder.close()


@pytest.mark.parametrize("kind", ["px4", "ardupilot"])
def test_without_pymavlink_one_sentence_says_what_to_install(kind, monkeypatch, capsys, tmp_path):
    from samara.link.mavlink import dialect

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pymavlink.dialects.v20.ardupilotmega", None)
    dialect.cache_clear()
    status, out, err = call(monkeypatch, capsys, "fly", "hover", "--autopilot", kind, "--connect")
    dialect.cache_clear()
    assert (status, out) == (2, "")
    assert err == f"samara: MAVLink needs pymavlink: {install_hint('mavlink')}\n"
    assert not list(tmp_path.iterdir())


def changed_autopilots(path, program=None, connect=False, autopilot=None, **settings):
    """Return the autopilots of a scenario's drones, with the changes of the command line."""
    changes = settings | autopilot_changes(str(path), settings, autopilot, program, connect)
    return [drone.autopilot for drone in load_scenario(path, changes).drones]


def test_only_the_given_options_are_changed(program, tmp_path):
    """--binary and --autopilot leave convention, on_loss, patience and parameters as in the scenario."""
    path = tmp_path / "mine.toml"
    path.write_text(
        SCENARIO.format(
            '{ type = "betaflight", convention = "2026.12", on_loss = "wait", patience = 3, parameters = { A = 1 } }'
        )
    )
    for autopilot in (None, "betaflight"):
        first, second = changed_autopilots(path, program, autopilot=autopilot)
        assert first == Autopilot(
            "betaflight", str(program), on_loss="wait", patience=3.0, convention="2026.12", parameters=(("A", 1.0),)
        )
        assert (second is None) == (autopilot is None)


def test_connect_works_when_the_scenario_names_its_autopilot(program, tmp_path):
    path = tmp_path / "mine.toml"
    for table in ('"px4"', f'{{ type = "px4", binary = "{program}" }}'):
        path.write_text(SCENARIO.format(table))
        first, second = changed_autopilots(path, connect=True)
        assert (first.type, first.binary, second) == ("px4", "", None)
    path.write_text(SCENARIO.format('{ type = "px4", binary = "" }'))  # wait for one
    assert changed_autopilots(path)[0].binary == ""
    assert changed_autopilots(path, program)[0].binary == str(program)


def test_an_autopilot_set_by_hand_is_one_too(program, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO.format('"px4"'))
    first, second = changed_autopilots(path, program, **{"drones[1].autopilot": "px4", "drones.autopilot.patience": 4})
    assert (first.binary, first.patience, second.binary, second.patience) == (str(program), 4.0, str(program), 4.0)
    with pytest.raises(ValueError, match="expected --autopilot, or a scenario that names one"):
        changed_autopilots("hover", connect=True)


@pytest.mark.parametrize("version", ["4.6", "2026.12"])
def test_a_convention_needs_no_inner_quotes(version):
    """TOML reads 2026.12 as a number; the option is a name."""
    key, value = parse_override(f"drones.autopilot.convention={version}")
    settings = {"drones.autopilot.type": "betaflight", key: value}
    assert load_scenario("hover", settings).drones[0].autopilot.convention == version
    with pytest.raises(ValueError, match=r"autopilot\.convention is '4\.7'; expected one of 4\.6, 2026\.12"):
        load_scenario("hover", {**settings, key: 4.7})
