"""Numbers of a controller that are chosen by name: in a scenario's file, from the command line, in Python; and what they do."""

import json
import math
from dataclasses import fields, replace
from unittest.mock import Mock

import numpy as np
import pytest

import samara
from samara.control.controller_type import ANGLE, FLAG, THREE
from samara.control.mpc.options import YAW_WEIGHT, MpcOptions, Shaping, Weights
from samara.control.registry import CONTROLLERS, controller_named, instants_ahead, tuned
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


def parsed(controller, **settings):
    return parse_scenario(FILE.format(controller), "mine.toml", settings).drones[0].controller


def test_the_file_and_the_command_line_choose_the_same_numbers():
    """A table, and --set into a table, into a name, and into nothing at all."""
    wanted = tuned("ilqr", position_weight=60.0, max_tilt=math.radians(30.0))
    assert parsed('{ kind = "ilqr", position_weight = 60, max_tilt_deg = 30 }') == wanted
    into = {"drones.controller.position_weight": 60, "drones.controller.max_tilt_deg": 30}
    assert parsed('"ilqr"', **into) == wanted
    assert parsed('"pid"', **{"drones.controller.kind": "ilqr"}, **into) == wanted
    assert parsed('{ kind = "ilqr", position_weight = 1 }', **into) == wanted
    bare = load_scenario("hover", {"drones.controller.position": 2})
    assert bare.drones[0].controller == tuned("geometric", position=2.0)
    for name in CONTROLLERS:
        assert parsed(f'"{name}"') == parsed(f'{{ kind = "{name}" }}') == name


@pytest.mark.parametrize(
    ("controller", "sentence"),
    [
        ("5", "controller = 5: expected one of geometric, pid, mellinger, lqr, indi, ilqr"),
        ('{ kind = "lqg" }', "controller.kind = 'lqg': expected one of geometric, pid, "),
        (
            '{ kind = "ilqr", positon_weight = 60 }',
            "controller.positon_weight = 60: ilqr has no such option; did you mean position_weight",
        ),
        (
            '{ kind = "ilqr", tilt_weight = "much" }',
            "controller.tilt_weight = 'much': expected a number that is not neg",
        ),
        ('{ kind = "ilqr", tilt_weight = -1 }', "controller.tilt_weight = -1: expected a number that is not neg"),
        ('{ kind = "ilqr", tilt_weight = nan }', "controller.tilt_weight = nan: expected a number that is not neg"),
        ('{ kind = "ilqr", tilt_weight = true }', "controller.tilt_weight = True: expected a number that is not neg"),
        ('{ kind = "ilqr", horizon = 2.5 }', "controller.horizon = 2.5: expected a whole number from 1 to 10000"),
        ('{ kind = "ilqr", inputs = "pwm" }', "controller.inputs = 'pwm': expected one of wrench, rotors"),
        (
            '{ kind = "ilqr", tilt_weight_deg = 1 }',
            "controller.tilt_weight_deg = 1: ilqr has no such option; did you mean",
        ),
        (
            '{ kind = "ilqr", max_tilt_deg = 95 }',
            "controller.max_tilt_deg = 95: expected an angle between 0 and 90 deg",
        ),
        ("{ tilt = 1.6 }", "controller.tilt = 1.6: expected an angle between 0 and π/2 rad"),
        ("{ attitude = 12 }", "controller.attitude = 12: expected three positive numbers"),
        ("{ attitude = [12, 12] }", "controller.attitude = [12, 12]: expected three positive numbers"),
        ("{ integral = 1 }", "controller.integral = 1: expected true or false"),
        ('{ kind = "indi", integral = true }', "controller.integral = True: indi has no such option; expected"),
    ],
)
def test_a_slip_is_one_sentence_that_names_what_is_allowed(controller, sentence):
    with pytest.raises(ScenarioError) as told:
        parsed(controller)
    assert str(told.value).startswith(f"mine.toml: drones[0].{sentence}")


@pytest.mark.parametrize("name", [name for name in CONTROLLERS if name != "ilqr"])
def test_every_number_makes_another_controller(name):
    """A knob that does nothing is none: each changes what is built, and what the vehicle says changes nothing."""
    plain = controller_named(name, CRAZYFLIE)
    assert controller_named(name, CRAZYFLIE, **{}) == plain
    for key, knob in CONTROLLERS[name].knobs.items():
        value = True if knob is FLAG else 0.3 if knob is ANGLE else (1.1, 1.2, 1.3) if knob is THREE else 0.77
        built = [
            controller_named(name, CRAZYFLIE, **{key: own})
            for own in ((value, not value) if value is True else (value,))
        ]
        assert any(own != plain for own in built), key


def test_ilqr_gets_its_numbers(monkeypatch):
    """With the horizon and the yaw's weight of scenarios unless chosen; and each is an option that ILQR has."""
    given = {}
    monkeypatch.setattr(
        "samara.control.mpc.controller.ILQR", lambda *_, **options: given.update(options) or Mock(initial_memory=())
    )
    controller_named("ilqr", CRAZYFLIE, period=0.01, position_weight=60.0, horizon=12)
    everyone = {"healthy": (True,) * 4, "period": 0.01}
    assert given == {**everyone, "position_weight": 60.0, "horizon": 12, "yaw_weight": YAW_WEIGHT}
    assert set(CONTROLLERS["ilqr"].knobs) <= {
        *(field.name for field in fields(MpcOptions)),
        *Weights._fields,
        *Shaping._fields,
    }
    assert instants_ahead(tuned("ilqr", horizon=12)) == 13 and instants_ahead("ilqr") == 21


@pytest.mark.parametrize("position", [2.0, 3.0])
def test_a_stiffer_position_loop_is_pushed_less_by_the_wind(position):
    """m ω² e = D u: the offset in a steady wind, by the ω that was chosen."""
    wind = Vec3(0.4, 0.0, 0.0)
    drone = Drone("it", CRAZYFLIE, trajectory.hover((0.0, 0.0, 2.0)), Vec3(0.0, 0.0, 2.0), airborne=True)
    chosen = replace(drone, controller=tuned("geometric", position=position))
    run = fly(Scenario("pushed", (chosen,), 12.0, wind=Constant(wind)))
    drag = CRAZYFLIE["drag"].linear.x * wind.x
    assert run.position[-1, 0] == pytest.approx(drag / (CRAZYFLIE.mass * position**2), rel=2e-3)


def test_the_recording_says_what_was_chosen_and_flies_again(tmp_path):
    """In its metadata, with what was set of the scenario: flown again from there it is the same flight."""
    settings = {"duration": 0.2, "drones.controller.position": 2.5, "drones.controller.attitude": [9, 9, 3]}
    run = fly("hover", settings=settings, out=tmp_path / "run.mcap")
    (own,) = json.loads(samara.load_run(tmp_path / "run.mcap").metadata["drones"])
    assert own["controller"] == "geometric" == run.tracks[0].controller
    assert own["controller_options"] == {"position": 2.5, "attitude": [9.0, 9.0, 3.0]}
    assert json.loads(run.metadata["settings"]) == settings
    again = samara.replay(run)
    assert np.array_equal(again.tables["state"].rows, run.tables["state"].rows)
    chosen = tuned(own["controller"], **own["controller_options"])
    refly = fly("hover", settings={"duration": 0.2}, controller=chosen)
    assert np.array_equal(refly.tables["state"].rows, run.tables["state"].rows)
    plain = fly("hover", settings={"duration": 0.2})
    assert "controller_options" not in plain.metadata["drones"]
    assert not np.array_equal(plain.tables["state"].rows, run.tables["state"].rows)
