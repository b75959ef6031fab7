"""The registry of autopilots: a new one is one module and one entry, and no module decides by an autopilot's name."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from support.command import call
from support.height_autopilot import HEIGHT_HOLD
from support.repository import REPOSITORY

import samara
from samara.link.betaflight import CONVENTIONS
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import assign_autopilot
from samara.scenario.autopilot_types import AUTOPILOTS, BETAFLIGHT, AutopilotType, autopilot_help, mode_help, register
from samara.scenario.batteries import BatteryFailsafe, failsafe_events
from samara.scenario.file import parse_scenario

SOURCE = Path(samara.__file__).parent
SCENARIO = """
name = "fifth"
duration = 4.0
[[drones]]
name = "drone"
vehicle = "iris"
autopilot = "height_hold"
battery_failsafe = { return_below = 0.4, land_below = 0.2 }
[[events]]
at = 0.5
do = "take_off"
height = 3.0
"""


@pytest.fixture
def height_hold():
    register(HEIGHT_HOLD)
    yield HEIGHT_HOLD
    del AUTOPILOTS[HEIGHT_HOLD.name]


def test_a_fifth_autopilot_is_one_module_and_one_entry(height_hold, tmp_path):
    """z̈ = 4 (3 − z) − 4 ż over 3.5 s leaves 8 e⁻⁷ of the climb, 2 cm; without an integrator 2 cm more. The flight replays."""
    scenario = parse_scenario(SCENARIO, "fifth.toml")
    (drone,) = scenario.drones
    assert scenario.rates.control == 200.0
    assert [sensor.type_name for sensor in drone.sensors] == ["imu", "barometer"]
    assert dict(drone.autopilot.parameters) == {"LOW_MAH": pytest.approx(0.4 * 3500.0)}
    run = samara.fly(scenario, out=tmp_path / "run.mcap")
    assert run.problem == "" and run.controller == "height_hold"
    assert run.position[run.time < 0.5, 2].max() == pytest.approx(run.position[0, 2], abs=5e-3)
    assert run.position[-1, 2] == pytest.approx(3.0, abs=0.05)
    assert "Height hold answered 801 of 801" in [line.message for line in run.logs]
    assert "position error, RMS" not in run.summary()  # positions_only
    again = samara.replay(tmp_path / "run.mcap")
    assert np.array_equal(again.tables["state"].rows, run.tables["state"].rows)


def test_the_command_line_knows_a_fifth_autopilot(height_hold, monkeypatch, capsys, tmp_path):
    """It has no program, so the flight waits for it without --connect. It has no modes, outputs or sticks."""
    monkeypatch.chdir(tmp_path)
    arguments = ("fly", "hover", "--autopilot", "height_hold")
    status, out, err = call(monkeypatch, capsys, *arguments, "--set", "duration=0.2", "--no-report")
    assert (status, err) == (0, "") and "Height hold answered 41 of 41" in out
    for options, sentence in (
        (
            ("--autopilot-mode", "offboard"),
            "autopilot.mode is 'offboard' and its type height_hold; expected px4, or no mode",
        ),
        (("--set", "drones.autopilot.rate=50"), "autopilot.rate is 50 Hz; expected 100 to 1000 for height_hold"),
        (("--set", "drones.autopilot.outputs=command"), "autopilot.outputs is 'command'; expected one of thrust"),
        (("--sticks", "auto"), "--sticks does not reach height_hold: use a ground station; expected betaflight"),
    ):
        status, _, err = call(monkeypatch, capsys, *arguments, *options)
        assert status == 2 and sentence in err, err
    status, _, err = call(monkeypatch, capsys, "fly", "hover", "--autopilot", "other")
    names = ", ".join(AUTOPILOTS)
    assert (status, err) == (2, f"samara: --autopilot 'other': expected one of {names}\n")
    assert names.endswith(", height_hold") and "height_hold (holds its height)" in autopilot_help()
    with pytest.raises(ValueError, match=f"autopilot.type is 'other'; expected one of {names}"):
        Autopilot("other")


def test_help_texts_list_all_autopilots_and_modes(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "2000")
    status, out, _ = call(monkeypatch, capsys, "fly", "--help")
    text = " ".join(out.replace("│", " ").split())
    assert status == 0 and autopilot_help() in text and mode_help() in text
    for autopilot_type in AUTOPILOTS.values():
        assert re.search(rf"\b{autopilot_type.name}\b", autopilot_help())
        assert all(f"{mode.name} ({mode.description})" in mode_help() for mode in autopilot_type.modes)


@pytest.mark.parametrize("autopilot_type", AUTOPILOTS.values(), ids=lambda autopilot_type: autopilot_type.name)
def test_an_entry_names_a_module_that_opens_its_link(autopilot_type):
    assert callable(import_module(autopilot_type.module).open_link)
    assert Autopilot(autopilot_type.name).sensor_rate == autopilot_type.default_rate
    for field in ("mode", "convention"):
        offered = [mode.name for mode in autopilot_type.modes] if field == "mode" else autopilot_type.conventions
        for choice in offered:
            assert getattr(Autopilot(autopilot_type.name, **{field: choice}), field) == choice
        with pytest.raises(ValueError, match=f"autopilot.{field} is 'none'.*expected"):
            Autopilot(autopilot_type.name, **{field: "none"})


def test_betaflights_conventions_are_those_of_its_protocol():
    assert BETAFLIGHT.conventions == tuple(CONVENTIONS)


def test_the_battery_failsafe_is_either_parameters_or_events():
    """PX4 and ArduPilot have failsafes; Betaflight's pilot follows events; a Crazyflie's script takes no orders."""
    scenario = samara.load_scenario("low_battery")
    for name, parameters, events in (("px4", 3, 0), ("ardupilot", 2, 0), ("betaflight", 0, 3), ("crazyflie", 0, 0)):
        (drone,) = assign_autopilot(scenario, Autopilot(name)).drones
        battery_keys = [key for key, _ in drone.autopilot.parameters if key.startswith("BAT")]
        assert (len(battery_keys), len(failsafe_events(drone))) == (parameters, events), name
    assert len(failsafe_events(replace(scenario.drones[0], battery_failsafe=BatteryFailsafe()))) == 3


def test_an_invalid_entry_is_refused(height_hold):
    with pytest.raises(ValueError, match="autopilot type height_hold: registered already"):
        register(height_hold)
    for changes, sentence in (
        ({"name": "a b"}, "autopilot type 'a b': expected a name of letters, digits and _"),
        ({"default_rate": 50.0}, "default_rate = 50 Hz: expected within 100 to 1000"),
    ):
        with pytest.raises(ValueError, match=sentence):
            replace(height_hold, **changes)
    AUTOPILOTS["height_hold"] = replace(height_hold, sensors=("imu", "sonar"))
    with pytest.raises(ValueError, match="needs a sensor 'sonar': expected imu, magnetometer, barometer or gps"):
        assign_autopilot(samara.load_scenario("hover"), Autopilot("height_hold"))


def test_the_registry_imports_no_link():
    """Scenarios and help texts are read without importing the modules that talk to autopilots."""
    program = (
        "import sys, samara.scenario.autopilot, samara.cli.fly, samara.link.registry\n"
        f"print([name for name in {[autopilot_type.module for autopilot_type in AUTOPILOTS.values()]} if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


REGISTRY = "scenario/autopilot_types.py"
OTHER_MEANINGS = {  # of the same names
    "cli/vehicle.py": "formats of vehicle files",
    "link/deploy/betaflight.py": "numberings of rotors",
    "view/cockpit/page.py": "vehicles",
}
FOLDERS = ("scenario", "record", "link", "sim", "compare", "campaigns", "view", "cli")


def test_no_module_decides_by_the_name_of_an_autopilot():
    """Neither `kind == "px4"` nor `kind in ("px4", …)`, `{"px4": …}[kind]`, `table["px4"]` or `case "px4"`."""
    places = []
    for path in sorted(path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        text = path.read_text(encoding="utf-8")
        if module not in {REGISTRY, *OTHER_MEANINGS} and any(f'"{name}"' in text for name in AUTOPILOTS):
            places += [f"{module}:{line}" for line in decisions(ast.parse(text))]
    assert not places
    example = 'kind in ("px4", "x")\nkind == "px4"\n{"px4": 1}\ntable["px4"]\nmatch kind:\n    case "px4": pass\n'
    assert decisions(ast.parse(example)) == [1, 2, 3, 4, 6]


def decisions(tree: ast.AST) -> list[int]:
    """The lines in which the name of an autopilot is compared, is a key, or is in a list of names."""
    lines = []
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = list(node.keys)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = list(node.elts)
        elif isinstance(node, ast.MatchValue | ast.Subscript):
            parts = [node.value if isinstance(node, ast.MatchValue) else node.slice]
        lines += [part.lineno for part in parts if isinstance(part, ast.Constant) and part.value in AUTOPILOTS]
    return sorted(lines)


def test_the_documented_table_is_the_registry():
    text = (REPOSITORY / "docs" / "howto" / "autopilots.md").read_text(encoding="utf-8")
    table = documented_table()
    assert table in text, f"expected in docs/howto/autopilots.md:\n{table}"


def documented_table() -> str:
    """The options of each autopilot in a scenario, as in docs/howto/autopilots.md."""
    rows = [
        "| `type` | rate [Hz] | sensors | `outputs` | `mode` | `convention` | environment variable |",
        "|" + "---|" * 7,
    ]
    return "\n".join([*rows, *map(documented_row, AUTOPILOTS.values())]) + "\n"


def documented_row(autopilot_type: AutopilotType) -> str:
    low, high = autopilot_type.rate_range
    cells = (
        f"`{autopilot_type.name}`",
        f"{autopilot_type.default_rate:g} ({low:g} to {high:g})",
        ", ".join(autopilot_type.sensors),
        ", ".join(autopilot_type.outputs),
        ", ".join(mode.name for mode in autopilot_type.modes) or "–",
        ", ".join(autopilot_type.conventions) or "–",
        f"`{autopilot_type.variable}`" if autopilot_type.variable else "–, it is waited for",
    )
    return f"| {' | '.join(cells)} |"
