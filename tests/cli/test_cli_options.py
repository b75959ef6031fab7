"""Options that many commands share: one name and one help text everywhere, and an effect in every command that has them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.command import call
from support.trained_policies import trained_policy

import samara
from samara import cli

SHORT = ("--set", "duration=0.1", "--set", "expect={}")
TEXT = """
schema = 1
name = "small"
scenario = "hover"
flights = 3
seed = 7

[settings]
duration = 0.5
"expect.landed" = false
"expect.max_error" = 0.06

[vary]
"rotors.k_thrust" = { uniform = [0.3, 1.1], relative = true }
"""


def all_options():
    """Every option with the words of its command: ("sweep run", "--seed", the option)."""
    commands = [("", cli.command_line())]
    for words, command in commands:
        commands += [(f"{words} {name}".strip(), sub) for name, sub in getattr(command, "commands", {}).items()]
    return [
        (words, name, parameter)
        for words, command in commands
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    ]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("--vehicle", r"Vehicle: a shipped name or a \.toml file\b"),
        ("--controller", r"Controller(: a name, the folder of a policy or file\.py:function|s, separated by commas: )"),
        ("--wind", r"(Winds?, |Winds?: |Steady wind |Maximum wind )"),
        ("--seed", r"Seed of "),
        ("--out", r"(File|Folder) "),
        ("--flights", r"(Number|Maximum number) of "),
    ],
)
def test_shared_options_have_one_help_text(name, start):
    texts = {words: option.help for words, option_name, option in all_options() if option_name == name}
    assert len(texts) >= 3
    assert [words for words, text in texts.items() if not re.match(start, text)] == []


def test_out_has_a_short_name_everywhere():
    assert [words for words, name, option in all_options() if name == "--out" and "-o" not in option.opts] == []


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("fly", "hover", "--vehicel", "iris"), "--vehicle"),
        (("sweep", "small.toml", "--recrod"), "--record"),
        (("race", "--flight", "3"), "--flights"),
        (("identify", "plan", "crazyflie", "--max-hight", "3"), "--max-height"),
    ],
)
def test_an_unknown_option_gets_a_suggestion(words, suggestion, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(monkeypatch, capsys, *words)
    assert (status, out) == (2, "") and "No such option" in err and suggestion in err


def test_fly_takes_a_seed_and_repeats_it_in_the_report(monkeypatch, capsys, tmp_path):
    status, _, err = call(monkeypatch, capsys, "fly", "wind", "--seed", "41", *SHORT, "-o", str(tmp_path))
    assert (status, err) == (0, "")
    assert samara.load_run(tmp_path / "run.mcap").metadata["seed"] == "41"
    assert "--seed 41" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def flown_scenarios(monkeypatch):
    """The scenarios that `samara view` and `samara ros2` would fly, instead of a page or a network."""
    loaded = []

    class Ended:
        def __init__(self, scenario, *_, **__):
            loaded.append(scenario)
            raise ValueError("ended by the test")

    class Node:
        is_confined = True

        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr("samara.sim.ros2.bridge.Bridge", Ended)
    monkeypatch.setattr("samara.link.ros2.node.Ros2Node", Node)
    return loaded, Ended


@pytest.mark.parametrize("command", ["view", "ros2"])
def test_view_and_ros2_change_the_scenario_as_fly_does(command, flown_scenarios, monkeypatch, capsys):
    loaded, ended = flown_scenarios
    if command == "view":
        pytest.importorskip("viser")
        monkeypatch.setattr("samara.view.web.live.Live", ended)
    options = ("--vehicle", "iris", "--controller", "lqr", "--wind", "3", "--seed", "41", "--set", "drones.yaw_deg=90")
    options += ("--sensors", "bmi088,vicon", "--duration", "2")
    status, _, err = call(monkeypatch, capsys, command, "hover", *options)
    assert status == 2 and err.endswith(", in __init__: ValueError: ended by the test\n")
    (scenario,) = loaded
    changes = {"drones.vehicle": "iris", "drones.controller": "lqr", "seed": 41, "drones.yaw_deg": 90, "duration": 2.0}
    changes |= {"drones.sensors": ["bmi088", "vicon"], "wind": {"model": "constant", "speed": 3.0, "from_deg": 270.0}}
    expected = samara.load_scenario("hover", changes)
    assert scenario.drones[0].vehicle == expected.drones[0].vehicle
    assert scenario.drones[0].controller == expected.drones[0].controller
    assert [sensor.name for sensor in scenario.drones[0].sensors] == [s.name for s in expected.drones[0].sensors]
    assert scenario.drones[0].estimator.name == "ekf"
    assert (scenario.wind, scenario.seed, scenario.drones[0].yaw) == (expected.wind, 41, expected.drones[0].yaw)
    assert (scenario.duration, scenario.rates) == (2.0, expected.rates)


def test_a_recording_in_view_takes_no_changes(monkeypatch, capsys):
    status, _, err = call(monkeypatch, capsys, "view", "run.mcap", "--seed", "3", "--wind", "2")
    assert (status, err) == (2, "samara: --wind, --seed: a recording cannot be changed; expected a scenario\n")


def test_race_starts_at_the_seed(monkeypatch, capsys, tmp_path):
    """Two flights from seed 5 are the last two of three from seed 4."""
    flown = {}
    for seed, flights in ((4, 3), (5, 2)):
        words = ("--level", "1", "--flights", str(flights), "--seed", str(seed), "--speed-fraction", "0.5")
        out = tmp_path / str(seed)
        assert call(monkeypatch, capsys, "race", "hall", *words, "-o", str(out))[0] == 0
        (race,) = json.loads((out / "race.json").read_text(encoding="utf-8"))
        flown[seed] = race["flights"]
    assert flown[4][1:] == flown[5] and [flight["seed"] for flight in flown[5]] == [5, 6]


def test_plan_in_wind_takes_longer(monkeypatch, capsys, tmp_path):
    path = tmp_path / "way.csv"
    path.write_text("0,0,1\n-4,0,1\n")
    durations = []
    for wind in ("0", "0.5"):
        status, out, err = call(
            monkeypatch, capsys, "plan", str(path), "--vehicle", "crazyflie_documented", "--wind", wind
        )
        assert (status, err) == (0, "")
        durations.append(float(re.search(r"duration\s+([\d.]+) s", out).group(1)))
    assert durations[1] > 1.02 * durations[0]


def test_sticks_writes_a_file_only_with_calibrate(monkeypatch, capsys):
    status, _, err = call(monkeypatch, capsys, "sticks", "-o", "mine.toml")
    assert status == 2 and "only --calibrate writes a file" in err


def test_policy_check_writes_a_folder_and_takes_a_wind(monkeypatch, capsys, tmp_path):
    """The perturbed winds of the check are added to the 2 m/s from the west, which blow towards +x."""
    from samara.campaigns import policy_check

    checked = []

    def check_without_trials(*arguments, **options):
        result = check(*arguments, **options)
        checked.append(result)
        return result

    check = policy_check.check_policy
    monkeypatch.setattr(policy_check, "check_policy", check_without_trials)
    words = ("--flights", "4", "--wind", "2", "--spread", "0.1", "--no-record", "-o", str(tmp_path / "check"))
    status, _, err = call(monkeypatch, capsys, "policy", "check", str(trained_policy().folder), *words)
    assert (status, err) == (0, "")
    assert [path.name for path in (tmp_path / "check").iterdir()] == ["check.md"]
    assert abs(checked[0].worlds.vary["wind.mean_W"][:, 0] - 2.0).max() <= 0.15


# Campaigns ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sweep(monkeypatch, capsys, tmp_path):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TEXT)
    return lambda *words: call(monkeypatch, capsys, "sweep", *words)


def test_sweep_changes_the_campaign(sweep):
    """The changed campaign is stored, so that its rows are repeated; the folder of the original refuses it."""
    from samara.campaigns.store import open_store

    samara.save_vehicle(samara.vehicle("crazyflie").replace(mass=0.03), "mine.toml")
    options = ("--vehicle", "mine.toml", "--controller", "lqr", "--seed", "41", "--set", "duration=0.25")
    assert sweep("small.toml", "--no-record")[0] == 0
    assert sweep("small.toml", *options, "--no-record", "-o", "changed")[0] == 0
    store = open_store("changed")
    assert "seed = 41" in store.text and '"drones.vehicle" = "mine.toml"' in store.text
    assert '"drones.controller" = "lqr"' in store.text and '"duration" = 0.25' in store.text
    assert Path("changed/files/mine.toml").is_file()
    assert store.table(["seed"]) != open_store("out/small").table(["seed"])
    status, out, err = sweep("replay", "changed", "--row", "1", "-o", "again.mcap")
    assert (status, err) == (0, "") and "bit for bit" in out
    assert samara.load_run("again.mcap").drone_records[0].vehicle.mass == 0.03
    status, _, err = sweep("small.toml", *options, "--no-record")
    assert status == 2 and "out/small: holds another campaign" in err


def test_a_sweep_without_a_valid_flight_says_why_and_fails(sweep):
    Path("mine.py").write_text("def short(state, reference, vehicle):\n    return (0.5,) * 3\n")
    status, out, err = sweep("small.toml", "--controller", "mine.py:short", "--no-record", "-o", "out")
    assert (status, err) == (1, "")
    assert "the first invalid flight: the controller returned (0.5, 0.5, 0.5); expected 4 numbers" in out


def test_sweep_copies_files_from_elsewhere(sweep):
    """A vehicle and a policy outside the campaign's folder are copied to its results, from which rows are repeated."""
    from samara.campaigns.store import open_store

    Path("inner").mkdir()
    Path("inner/small.toml").write_text(TEXT)
    samara.save_vehicle(samara.vehicle("crazyflie").replace(mass=0.03), "mine.toml")
    assert sweep("inner/small.toml", "--vehicle", "mine.toml", "--no-record", "-o", "out")[0] == 0
    assert '"drones.vehicle" = "changes/vehicle.toml"' in open_store("out").text
    Path("mine.toml").unlink()
    status, out, err = sweep("replay", "out", "--row", "1", "-o", "again.mcap")
    assert (status, err) == (0, "") and "bit for bit" in out
    assert samara.load_run("again.mcap").drone_records[0].vehicle.mass == 0.03


def test_a_policy_replaces_the_controller_of_a_campaign(sweep):
    from samara.campaigns.campaign import load_campaign
    from samara.campaigns.changes import changed_campaign
    from samara.scenario.changes import Changes

    loaded = load_campaign("small.toml")
    loaded = replace(loaded, settings=(*loaded.settings, ("drones[0].controller.horizon", 20)))
    Path("policy").mkdir()
    policy = trained_policy()
    for name, content in policy.files:
        Path("policy", name).write_bytes(content)
    with changed_campaign(loaded, Changes(controller="policy")) as changed:
        settings = dict(changed.settings)
    assert settings["drones.controller"] == "policy" and settings["drones.controller.file"] == "policy"
    assert "drones[0].controller.horizon" not in settings and changed.seed == 7
    with changed_campaign(loaded, Changes(vehicle=policy.vehicle, controller=policy.folder)) as changed:
        assert dict(changed.settings)["drones.controller.file"] == "changes/policy"
        assert set(changed.named_files()) == {f"changes/policy/{name}" for name, _ in policy.files}


def test_falsify_writes_the_case_into_a_folder(sweep):
    """The case flies from there alone: the scenario's file is copied."""
    text = samara.load_scenario("hover").text
    Path("mine.toml").write_text(text)
    Path("small.toml").write_text(TEXT.replace('"hover"', '"mine.toml"'))
    status, out, err = sweep("falsify", "small.toml", "--flights", "12", "-o", "found")
    assert (status, err) == (0, "") and "case   found/small_case.toml" in out
    assert {path.name for path in Path("found").iterdir()} == {"small_case.toml", "small_case.csv", "mine.toml"}
    Path("mine.toml").unlink()
    assert sweep("found/small_case.toml", "--no-record")[0] == 0


def test_rare_writes_its_estimate(sweep):
    status, out, err = sweep("rare", "small.toml", "--per-level", "100", "--flights", "1000", "-o", "rare.json")
    assert (status, err) == (0, "") and "estimate rare.json" in out
    estimate = json.loads(Path("rare.json").read_text(encoding="utf-8"))
    assert 0.0 <= estimate["low"] <= estimate["probability"] <= estimate["high"] and estimate["flights"] <= 1000
