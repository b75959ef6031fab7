"""Controller options by name: in scenario files, on the command line and in Python; and their effects."""

import json
import math
from dataclasses import fields, replace
from unittest.mock import Mock

import numpy as np
import pytest

import samara
from samara.control.controller_type import ANGLE, FLAG, THREE_POSITIVE
from samara.control.mpc.options import DEFAULT_YAW_WEIGHT, CostWeights, MpcOptions, Shaping
from samara.control.registry import CONTROLLERS, controller_spec, create_controller, look_ahead_count
from samara.core.algebra import Vec3
from samara.plan import trajectory
from samara.scenario.file import ScenarioError, load_scenario, parse_scenario
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.wind.sources import Constant

CRAZYFLIE = samara.vehicle("crazyflie_documented")
FILE = """
name = "mine"
duration = 0.1
[[drones]]
vehicle = "crazyflie_documented"
start = [0, 0, 2]
airborne = true
controller = {}
"""


def parse_controller(controller, **settings):
    return parse_scenario(FILE.format(controller), "mine.toml", settings).drones[0].controller


def test_the_file_and_the_command_line_set_the_same_options():
    """A table, and --set into a table, into a name, and into a scenario without a controller."""
    expected = controller_spec("mpc", position_weight=60.0, max_tilt=math.radians(30.0))
    assert parse_controller('{ type = "mpc", position_weight = 60, max_tilt_deg = 30 }') == expected
    settings = {"drones.controller.position_weight": 60, "drones.controller.max_tilt_deg": 30}
    assert parse_controller('"mpc"', **settings) == expected
    assert parse_controller('"pid"', **{"drones.controller.type": "mpc"}, **settings) == expected
    assert parse_controller('{ type = "mpc", position_weight = 1 }', **settings) == expected
    scenario = load_scenario("hover", {"drones.controller.position": 2})
    assert scenario.drones[0].controller == controller_spec("geometric", position=2.0)
    for name in CONTROLLERS:
        assert parse_controller(f'"{name}"') == parse_controller(f'{{ type = "{name}" }}') == name


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        ("5", "controller = 5: expected one of geometric, pid, mellinger, lqr, indi, mpc"),
        ('{ type = "lqg" }', "controller.type = 'lqg': expected one of geometric, pid, "),
        (
            '{ type = "mpc", positon_weight = 60 }',
            "controller.positon_weight = 60: mpc has no such option; did you mean position_weight",
        ),
        (
            '{ type = "mpc", tilt_weight = "much" }',
            "controller.tilt_weight = 'much': expected a number that is not neg",
        ),
        ('{ type = "mpc", tilt_weight = -1 }', "controller.tilt_weight = -1: expected a number that is not neg"),
        ('{ type = "mpc", tilt_weight = nan }', "controller.tilt_weight = nan: expected a number that is not neg"),
        ('{ type = "mpc", tilt_weight = true }', "controller.tilt_weight = True: expected a number that is not neg"),
        ('{ type = "mpc", horizon = 2.5 }', "controller.horizon = 2.5: expected a whole number from 1 to 10000"),
        ('{ type = "mpc", inputs = "pwm" }', "controller.inputs = 'pwm': expected one of wrench, rotors"),
        (
            '{ type = "mpc", tilt_weight_deg = 1 }',
            "controller.tilt_weight_deg = 1: mpc has no such option; did you mean",
        ),
        (
            '{ type = "mpc", max_tilt_deg = 95 }',
            "controller.max_tilt_deg = 95: expected an angle between 0 and 90 deg",
        ),
        ("{ tilt = 1.6 }", "controller.tilt = 1.6: expected an angle between 0 and π/2 rad"),
        ("{ attitude = 12 }", "controller.attitude = 12: expected three positive numbers"),
        ("{ attitude = [12, 12] }", "controller.attitude = [12, 12]: expected three positive numbers"),
        ("{ integral = 1 }", "controller.integral = 1: expected true or false"),
        ('{ type = "indi", integral = true }', "controller.integral = True: indi has no such option; expected"),
    ],
)
def test_an_invalid_option_is_reported_with_the_expected_value(controller, message):
    with pytest.raises(ScenarioError) as caught:
        parse_controller(controller)
    assert str(caught.value).startswith(f"mine.toml: drones[0].{message}")


@pytest.mark.parametrize("name", [name for name in CONTROLLERS if name != "mpc"])
def test_every_option_changes_the_controller(name):
    """Every option changes the controller; no options change nothing."""
    default = create_controller(name, CRAZYFLIE)
    assert create_controller(name, CRAZYFLIE, **{}) == default
    for key, option_parser in CONTROLLERS[name].option_parsers.items():
        value = (
            True
            if option_parser is FLAG
            else 0.3
            if option_parser is ANGLE
            else (1.1, 1.2, 1.3)
            if option_parser is THREE_POSITIVE
            else 0.77
        )
        candidates = [
            create_controller(name, CRAZYFLIE, **{key: candidate})
            for candidate in ((value, not value) if value is True else (value,))
        ]
        assert any(candidate != default for candidate in candidates), key


def test_ilqr_receives_its_options(monkeypatch):
    """With the default horizon and yaw weight of scenarios unless set; every option exists in MPC."""
    received = {}
    monkeypatch.setattr(
        "samara.control.mpc.controller.MPC", lambda *_, **options: received.update(options) or Mock(initial_state=())
    )
    create_controller("mpc", CRAZYFLIE, period=0.01, position_weight=60.0, horizon=12)
    common = {"healthy": (True,) * 4, "period": 0.01, "constraints": ()}
    assert received == {**common, "position_weight": 60.0, "horizon": 12, "yaw_weight": DEFAULT_YAW_WEIGHT}
    assert set(CONTROLLERS["mpc"].option_parsers) - {"avoid_obstacles", "clearance"} <= {
        *(field.name for field in fields(MpcOptions)),
        *CostWeights._fields,
        *Shaping._fields,
    }
    assert look_ahead_count(controller_spec("mpc", horizon=12)) == 13 and look_ahead_count("mpc") == 21


@pytest.mark.parametrize("position", [2.0, 3.0])
def test_a_stiffer_position_loop_is_pushed_less_by_the_wind(position):
    """m ω² e = D u: the position error in a steady wind, for the chosen ω."""
    wind = Vec3(0.4, 0.0, 0.0)
    drone = Drone("it", CRAZYFLIE, trajectory.hover((0.0, 0.0, 2.0)), Vec3(0.0, 0.0, 2.0), airborne=True)
    chosen = replace(drone, controller=controller_spec("geometric", position=position))
    run = fly(Scenario("pushed", (chosen,), 12.0, wind=Constant(wind)))
    drag = CRAZYFLIE["drag"].linear.x * wind.x
    assert run.position[-1, 0] == pytest.approx(drag / (CRAZYFLIE.mass * position**2), rel=2e-3)


def test_the_recording_contains_the_options_and_replays(tmp_path):
    """Its metadata contain the options and settings of the scenario: a flight from them is identical."""
    settings = {"duration": 0.2, "drones.controller.position": 2.5, "drones.controller.attitude": [9, 9, 3]}
    run = fly("hover", settings=settings, out=tmp_path / "run.mcap")
    (metadata,) = json.loads(samara.load_run(tmp_path / "run.mcap").metadata["drones"])
    assert metadata["controller"] == "geometric" == run.drone_records[0].controller
    assert metadata["controller_options"] == {"position": 2.5, "attitude": [9.0, 9.0, 3.0]}
    assert json.loads(run.metadata["settings"]) == settings
    again = samara.replay(run)
    assert np.array_equal(again.tables["state"].rows, run.tables["state"].rows)
    spec = controller_spec(metadata["controller"], **metadata["controller_options"])
    refly = fly("hover", settings={"duration": 0.2}, controller=spec)
    assert np.array_equal(refly.tables["state"].rows, run.tables["state"].rows)
    default_run = fly("hover", settings={"duration": 0.2})
    assert "controller_options" not in default_run.metadata["drones"]
    assert not np.array_equal(default_run.tables["state"].rows, run.tables["state"].rows)
