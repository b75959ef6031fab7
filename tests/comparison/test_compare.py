"""`samara.compare`: any scenario, vehicle and wind, from Python and from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.command import call
from support.trained_policies import trained_policy

import samara
from samara.comparison.race import race
from samara.control.registry import controller_spec


def hover_thrust(state, reference, vehicle):
    _, command = samara.hover(vehicle)
    return command


def states(run):
    return run.drone_records[0].tables["state"].rows


def test_each_flight_is_that_of_fly():
    controllers = ["geometric", controller_spec("pid"), hover_thrust]
    winds = [0, "dryden:3", (1.0, 2.0, 0.0)]
    result = samara.compare("hover", controllers, vehicle="iris", winds=winds, seed=3, duration=0.4)
    assert [(row.controller, row.wind) for row in result] == [
        (name, wind) for wind in ("0 m/s", "dryden:3", "(1, 2, 0) m/s") for name in ("geometric", "pid", "hover_thrust")
    ]
    for k, row in enumerate(result):
        arguments = {"controller": controllers[k % 3], "wind": winds[k // 3], "seed": 3, "duration": 0.4}
        assert np.array_equal(states(row.run), states(samara.fly("hover", vehicle=samara.vehicle("iris"), **arguments)))
    scenario = samara.load_scenario("hover")
    vehicle = samara.vehicle("iris")
    again = samara.compare(scenario, controllers, vehicle=vehicle, winds=winds, seed=3, duration=0.4)
    assert all(np.array_equal(states(a.run), states(b.run)) for a, b in zip(result, again, strict=True))


def test_the_result_is_a_table_and_a_picture(tmp_path):
    result = samara.compare("waypoints", ["pid", "geometric"], wind=2, duration=4)
    assert len(result) == 2 and result[0].run.summary()
    lines = repr(result).splitlines()
    assert lines[0].startswith("waypoints, ") and lines[2].split()[:3] == ["pid", "2", "m/s"]
    assert "| geometric | 2 m/s |" in result.to_markdown()
    assert result.plot(tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert result.plot().axes
    assert result[0].rmse == pytest.approx(result[0].run.metrics.squared_error.rms, rel=1e-12)
    assert result[0].max_error == result[0].run.metrics.metric("max_error")


def test_a_controller_that_never_takes_off_has_no_error(tmp_path):
    def idle(state, reference, vehicle):
        return (0.0,) * 4

    comparison = samara.compare("hover", [idle], duration=1.0)
    assert np.isnan(comparison[0].rmse) and np.isnan(comparison[0].max_error)
    assert "| idle | the scenario's | not flown | – |" in comparison.to_markdown()
    assert comparison.plot(tmp_path / "idle.png").is_file()


def test_the_command_compares_what_python_compares(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def cut(state, reference, vehicle):\n    return (0.0,) * vehicle.command_size\n")
    samara.save_vehicle(samara.vehicle("crazyflie", mass=0.031), "mine.toml")
    words = ("--controller", "pid,mine.py:cut", "--vehicle", "mine.toml", "--wind", "0,dryden:2", "--seed", "4")
    words += ("--duration", "3", "--set", "drones.yaw_deg=20", "-o", "out")
    status, out, err = call(monkeypatch, capsys, "compare", "hover", *words)
    assert (status, err) == (0, "") and "dryden:2" in out
    result = samara.compare(
        "hover",
        ["pid", "mine.py:cut"],
        vehicle="mine.toml",
        winds=[0, "dryden:2"],
        seed=4,
        duration=3.0,
        settings={"drones.yaw_deg": 20},
    )
    cells = [line.split("|")[1:6] for line in Path("out/compare.md").read_text(encoding="utf-8").splitlines()[4:8]]
    assert cells == [line.split("|")[1:6] for line in result.to_markdown().splitlines()[2:]]
    status, _, err = call(monkeypatch, capsys, "compare", "--seed", "3", "--sensors", "none")
    assert (status, err) == (2, "samara: --sensors, --seed: a trajectory has none; expected a SCENARIO as well\n")


def test_policies_choose_the_vehicle(tmp_path, monkeypatch, capsys):
    policy = trained_policy()
    result = samara.compare("hover", [policy.folder, "geometric"], duration=0.2)
    assert {row.run.drone_records[0].vehicle.name for row in result} == {policy.vehicle}
    assert [row.controller for row in result] == [Path(policy.folder).name, "geometric"]
    words = ("--controller", f"{policy.folder},geometric", "--duration", "0.2", "-o", str(tmp_path))
    assert call(monkeypatch, capsys, "compare", "hover", *words)[0] == 0
    assert f"# hover, {policy.vehicle}" in (tmp_path / "compare.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"controllers": []}, r"controllers = \[\]: expected a list of controllers"),
        ({"controllers": "pid"}, "controllers = 'pid': expected a list of controllers"),
        ({"controllers": ["pdi"]}, r"no controller 'pdi'; expected .*; did you mean pid"),
        ({"controllers": ["pid"], "wind": 3, "winds": [4]}, "wind and winds are both given; expected one of them"),
        ({"controllers": ["pid"], "scenario": "swarm"}, "swarm has .* drones; expected one to compare controllers"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        samara.compare(**{"scenario": "hover", **arguments})


def test_a_race_takes_objects_functions_and_a_wind(monkeypatch, capsys, tmp_path):
    """A vehicle as a file or an object, a controller by its name or as a function of a file; a wind replaces the level's."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from functools import cache\nfrom samara.control.geometric import geometric\n\nbuild = cache(geometric)\n\n\n"
        "def mine(state, reference, vehicle, controller_state):\n"
        "    return build(vehicle)(state, reference, vehicle, controller_state)\n"
    )
    vehicle = samara.vehicle(samara.world.track.load_track("hall").vehicle, mass=0.03)
    samara.save_vehicle(vehicle, "mine.toml")
    words = (
        "hall",
        "--level",
        "1",
        "--flights",
        "1",
        "--speed-fraction",
        "0.5",
        "--wind",
        "0.5",
        "--vehicle",
        "mine.toml",
    )
    flown = {}
    for controller in ("geometric", "mine.py:mine"):
        assert call(monkeypatch, capsys, "race", *words, "--controller", controller, "-o", controller[:4])[0] == 0
        (flown[controller],) = json.loads(Path(controller[:4], "race.json").read_text(encoding="utf-8"))
    assert flown["mine.py:mine"]["controller"] == "mine"
    for controller, race_json in flown.items():
        result = race("hall", level=1, controller=controller, vehicle=vehicle, wind=0.5, seeds=(0,), speed_fraction=0.5)
        assert result.row() == race_json
    calm = race("hall", level=1, controller=controller, vehicle=vehicle, wind="none", seeds=(0,), speed_fraction=0.5)
    assert not np.array_equal(calm.p_W.x, result.p_W.x)
