"""Commands around a flight: files, output and exit status."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.children import COMMAND, child, run_child
from support.command import call

import samara
from samara.cli.fly import repeat_command
from samara.core.atomic_files import replace_link
from samara.record.load import load_run
from samara.record.recording import read_recording


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """Fly a short hover with the command line."""
    folder = tmp_path_factory.mktemp("flown")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["samara", "fly", "hover", "--set", "duration=3", "--out", str(folder)])
        from samara import cli

        with pytest.raises(SystemExit) as exit_info:
            cli.main()
    return folder, exit_info.value.code


def test_fly_leaves_recording_picture_and_report(flown):
    """After 3 s of `hover` the drone has not landed: an expectation fails, and the status is 1."""
    folder, status = flown
    assert status == 1
    assert sorted(path.name for path in folder.iterdir()) == ["latest", "report.html", "run.mcap", "run.png"]
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert '<span class="bad">✗ </span>landed at the end' in report
    assert '<span class="good">✓ </span>no crash' in report
    assert "samara fly hover --set duration=3" in report
    assert "samara replay run.mcap" in report
    assert (folder / "run.png").read_bytes().startswith(b"\x89PNG")
    assert load_run(folder / "run.mcap").time[-1] == 3.0


def test_fly_step_by_step_leaves_the_same_numbers(flown, monkeypatch, capsys, tmp_path):
    words = ("fly", "hover", "--set", "duration=3", "--step-by-step", "--no-report", "--out", str(tmp_path))
    assert call(monkeypatch, capsys, *words)[0] == flown[1]
    same = call(monkeypatch, capsys, "diff", str(flown[0] / "run.mcap"), str(tmp_path / "run.mcap"))
    assert same == (0, "the same, bit for bit\n", "")


def test_fly_says_what_was_expected_and_ends_with_0_when_it_is_true(monkeypatch, capsys, tmp_path):
    status, out, err = call(
        monkeypatch, capsys, "fly", "hakoniwa_mission", "--set", "duration=1", "--set", "expect={max_tilt_deg=20}",
        "--out", str(tmp_path),
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert "✓ expected: no crash" in out
    assert "✓ expected: tilt at most 20°" in out
    assert "real-time factor" in out
    last_lines = [line.partition("samara ")[2] for line in out.splitlines()[-3:]]
    assert last_lines == [f"view {tmp_path / 'run.mcap'}", "fly hakoniwa_mission --wind 6", "vehicle new"]


def test_latest_is_the_newest_flight_by_names_that_never_change(monkeypatch, capsys, tmp_path):
    """`latest` holds the second of two flights; after a flight without a report it holds no older report."""
    latest = tmp_path / "latest"
    for seconds in ("0.2", "0.1"):
        call(monkeypatch, capsys, "fly", "hover", "--set", f"duration={seconds}", "--out", str(tmp_path))
        assert load_run(latest / "run.mcap").time[-1] == float(seconds)
    assert (latest / "run.mcap").resolve() == (tmp_path / "run-2.mcap").resolve()
    assert (latest / "report.html").read_bytes() == (tmp_path / "report-2.html").read_bytes()
    call(monkeypatch, capsys, "fly", "hover", "--set", "duration=0.3", "--no-report", "--out", str(tmp_path))
    assert [path.name for path in latest.iterdir()] == ["run.mcap"]
    assert load_run(latest / "run.mcap").time[-1] == 0.3
    assert not (tmp_path / "run-3.png").exists() and not (tmp_path / "report-3.html").exists()


def test_latest_is_a_copy_where_there_are_no_links(monkeypatch, tmp_path):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    (tmp_path / "run-2.mcap").write_bytes(b"second")
    replace_link(tmp_path / "latest" / "run.mcap", tmp_path / "run-2.mcap")
    assert (tmp_path / "latest" / "run.mcap").read_bytes() == b"second"


@pytest.mark.parametrize(
    ("wind", "autopilot", "binary", "connect", "typed"),
    [
        (None, None, None, False, "samara fly wind --set a=1 --vehicle iris"),
        (6.0, None, None, False, "samara fly wind --set a=1 --vehicle iris --wind 6"),
        (
            None,
            "px4",
            Path("my px4"),
            False,
            "samara fly wind --set a=1 --vehicle iris --autopilot px4 --binary 'my px4'",
        ),
        (None, "ardupilot", None, True, "samara fly wind --set a=1 --vehicle iris --autopilot ardupilot --connect"),
    ],
)
def test_the_command_of_a_report_is_the_one_that_was_typed(wind, autopilot, binary, connect, typed):
    flags = {"--vehicle": "iris", "--wind": wind, "--autopilot": autopilot, "--binary": binary, "--connect": connect}
    assert repeat_command("wind", ["a=1"], flags) == typed


def test_diff_says_first_that_the_vehicles_are_others(flown, monkeypatch, capsys, tmp_path):
    """Another vehicle, or the same with another mass, is reported before the other differences."""
    heavier = samara.vehicle("crazyflie").replace(mass=0.04)
    scenario = samara.load_scenario("hover", {"duration": 0.1})
    for name, vehicle in (
        ("other", samara.vehicle("iris")),
        ("heavier", heavier),
        ("same", scenario.drones[0].vehicle),
    ):
        drone = replace(scenario.drones[0], vehicle=vehicle)
        samara.fly(replace(scenario, drones=(drone,)), out=tmp_path / f"{name}.mcap")
    output = {
        name: call(monkeypatch, capsys, "diff", str(tmp_path / "same.mcap"), str(tmp_path / f"{name}.mcap"))[1]
        for name in ("other", "heavier", "same")
    }
    assert output["other"].startswith("different vehicles: drone is crazyflie and iris\n")
    assert output["heavier"].startswith("different vehicles: drone is crazyflie with other parameters\n")
    assert output["same"] == "the same, bit for bit\n"


def test_two_runs_into_one_folder_keep_both(monkeypatch, capsys, tmp_path):
    for _ in range(2):
        call(monkeypatch, capsys, "fly", "hover", "--set", "duration=0.2", "--out", str(tmp_path))
    assert {"run.mcap", "run-2.mcap", "run.png", "run-2.png", "report.html", "report-2.html"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert load_run(tmp_path / "run.mcap").time[-1] == load_run(tmp_path / "run-2.mcap").time[-1] == 0.2


def test_replay_and_diff(flown, monkeypatch, capsys, tmp_path):
    recording = str(flown[0] / "run.mcap")
    status, out, _ = call(monkeypatch, capsys, "replay", recording, "--out", str(tmp_path / "again.mcap"))
    assert status == 0
    assert out.splitlines()[-1] == "the same, bit for bit"
    assert call(monkeypatch, capsys, "diff", recording, str(tmp_path / "again.mcap"))[:2] == (
        0,
        "the same, bit for bit\n",
    )
    status, out, _ = call(monkeypatch, capsys, "replay", recording, "--vehicle", "crazyflie")
    assert status == 0
    assert "drone: position" in out and "m RMS" in out


def test_diff_says_where(flown, monkeypatch, capsys, tmp_path):
    call(
        monkeypatch, capsys, "fly", "hover", "--set", "duration=3", "--set", "drones.yaw_deg=1", "--out", str(tmp_path)
    )
    status, out, _ = call(monkeypatch, capsys, "diff", str(flown[0] / "run.mcap"), str(tmp_path / "run.mcap"))
    assert status == 1
    assert out.startswith("different: drone state q_WB.w at 0.000000 s: ")


def test_info_and_exports(flown, monkeypatch, capsys, tmp_path):
    recording = str(flown[0] / "run.mcap")
    status, out, _ = call(monkeypatch, capsys, "info", recording)
    assert status == 0
    assert "hover" in out and "/drone/state" in out
    status, out, _ = call(monkeypatch, capsys, "export", "csv", recording, "-o", str(tmp_path / "csv"))
    assert status == 0
    (state,) = [path for path in (tmp_path / "csv").iterdir() if "state" in path.name]
    header, row = state.read_text(encoding="utf-8").splitlines()[:2]
    assert "p_W.x [m]" in header
    stream = read_recording(recording).streams["/drone/state"]
    assert float(row.split(",")[header.split(",").index("p_W.z [m]")]) == stream["p_W.z"][0]
    status, _, _ = call(monkeypatch, capsys, "export", "parquet", recording, "-o", str(tmp_path / "parquet"))
    assert status == 0


def test_scenarios_and_check(monkeypatch, capsys, tmp_path):
    status, out, _ = call(monkeypatch, capsys, "scenarios")
    assert status == 0
    assert "hakoniwa_mission" in out and "motor_failure" in out
    status, out, _ = call(monkeypatch, capsys, "check", "waypoints", "swarm")
    assert status == 0
    headers = [line for line in out.splitlines() if not line.startswith("  ")]
    assert headers[1] == "swarm: scenario swarm, 20 drones, 0 events, 20 s" and "  physics          1000 Hz" in out
    (tmp_path / "bad.toml").write_text('duration = "long"\n[[drones]]\nvehicle = "iris_documented"\n')
    status, out, err = call(monkeypatch, capsys, "check", str(tmp_path / "bad.toml"))
    assert (status, out) == (2, "")
    assert err == "samara: bad.toml: duration = 'long': expected a number above 0 and up to 86400\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fly", "hoover"), "samara: no scenario 'hoover'; expected a .toml file or one of "),
        (("fly", "hover", "--set", "duration"), "samara: --set 'duration': expected key=value"),
        (
            ("fly", "hover", "--set", "drones.wings=2"),
            "samara: hover.toml: drones[0].wings = 2: expected only the keys ",
        ),
        (("replay", "absent.mcap"), "samara: absent.mcap: "),
        (("info", __file__), "samara: "),
        (("fly", "iris"), "samara: iris is a vehicle, not a scenario; expected samara fly SCENARIO --vehicle iris"),
        (("fly", "hover", "--out", __file__), f"samara: --out {__file__}: File exists; expected a folder"),
    ],
)
def test_bad_input_is_one_sentence_and_status_two(arguments, sentence, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_error_in_a_controller_is_one_sentence_and_keeps_the_flight(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "def late(state, reference, vehicle, time):\n    if time >= 1.5:\n        return gain\n    return (0.6,) * 4\n"
    )
    status, out, err = call(monkeypatch, capsys, "fly", "hover", "--controller", "mine.py:late", "--out", "out")
    assert (status, err) == (
        2,
        "samara: NameError: name 'gain' is not defined; raised by the controller at 1.5 s of the flight (mine.py, line 3)\n",
    )
    assert f"stopped; {Path('out/run.mcap')} holds the flight up to here" in out
    assert load_run(Path("out/latest/run.mcap")).time[-1] >= 1.0


def test_the_next_commands_fly_the_same_vehicle_and_controller(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ("fly", "hover", "--duration", "0.2", "--vehicle", "iris", "--controller", "pid")
    _, out, _ = call(monkeypatch, capsys, *words)
    assert "fly hover --vehicle iris --controller pid --wind 6" in out
    _, out, _ = call(monkeypatch, capsys, *words, "--wind", "2")
    assert "compare --vehicle iris --controller geometric,pid --wind 0,6" in out


def start_flight(folder):
    command = [*COMMAND, "fly", "hover", "--set", "duration=86400", "--out", folder]
    return child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_flying(path, seconds):
    """Wait until the file holds `seconds` of simulated time."""
    for _ in range(600):
        time.sleep(0.1)
        if (
            path.is_file()
            and path.stat().st_size
            and len(read_recording(path).streams["/drone/state"].times_us) > 100 * seconds
        ):
            return
    raise AssertionError("the flight never started")


def test_ctrl_c_closes_the_recording(tmp_path):
    with start_flight(tmp_path) as process:
        wait_until_flying(tmp_path / "run.mcap", 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped" in out + err
    recording = read_recording(tmp_path / "run.mcap")
    assert recording.complete
    assert recording.duration >= 3.0


def test_kill_9_leaves_all_but_the_last_second(tmp_path):
    with start_flight(tmp_path):  # killed at the end of the block
        wait_until_flying(tmp_path / "run.mcap", 3)
    recording = read_recording(tmp_path / "run.mcap")
    assert not recording.complete
    assert "truncated" in recording.problem
    assert len(recording.streams["/drone/state"].times_us) > 300
    assert load_run(tmp_path / "run.mcap").problem == recording.problem


def test_realtime_takes_as_long_as_it_flies(monkeypatch, capsys, tmp_path):
    call(monkeypatch, capsys, "fly", "hover", "--set", "duration=0.1", "--out", str(tmp_path))  # compiled
    start = time.monotonic()
    call(monkeypatch, capsys, "fly", "hover", "--set", "duration=1.5", "--realtime", "--out", str(tmp_path))
    assert time.monotonic() - start > 1.45


def test_a_disk_that_is_full_ends_the_recording_and_not_the_flight(tmp_path):
    """No file may exceed 1.1 MB: the flight continues to its end, one sentence reports it, and the written part is readable."""
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_100_000, 1_100_000))\n"
        "import samara\n"
        f"run = samara.fly('hover', out={str(tmp_path / 'run.mcap')!r})\n"
        "print(run.problem)\n"
    )
    process = run_child([sys.executable, "-c", program], text=True)
    assert process.returncode == 0, process.stderr
    assert "recording stopped after" in process.stdout
    assert process.stdout.count("\n") == 1
    recording = read_recording(tmp_path / "run.mcap")
    assert len(recording.streams["/drone/state"].times_us) > 50
