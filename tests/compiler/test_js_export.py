"""The exported JavaScript is the same vehicle: under Node it gives Python's rates, and Python's flight over ten seconds."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.node import run_script
from support.sampling import build_case
from support.tricopter import tricopter

import samara
from samara.control.geometric import geometric
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.export.javascript import js_environment, write_js
from samara.physics.multirotor import derivative
from samara.physics.types import Vehicle
from samara.plan.reference import Reference
from samara.vehicles.build import Provenance

DT, HELD = 1e-3, 20  # [s]; steps per command
FLY = """
import { COMMANDS, calm, hover, step } from "./MODULE";
const numbers = (own) => (typeof own === "number" ? [own] : Object.values(own).flatMap(numbers));
const { state } = hover(), environment = calm();
const flown = given.commands.map((command, i) => {
  Object.assign(environment.wind_W, given.winds[i]);
  environment.motor_effectiveness = given.power;
  for (let k = 0; k < given.held; k++) step(state, command, environment, given.dt);
  return numbers(state);
});
console.log(JSON.stringify(flown));
"""
RATES = """
import { derivative } from "./MODULE";
const numbers = (own) => (typeof own === "number" ? [own] : Object.values(own).flatMap(numbers));
console.log(JSON.stringify(given.map(([state, command, environment]) => numbers(derivative(state, command, environment)))));
"""


def json_data(tree: Any) -> Any:
    """Convert a nested tuple to JSON data, named tuples to objects."""
    if not isinstance(tree, tuple):
        return float(tree)
    if hasattr(tree, "_fields"):
        return {name: json_data(branch) for name, branch in zip(tree._fields, tree, strict=True) if branch != ()}
    return [json_data(branch) for branch in tree]


def json_state(state: Any, vehicle: Vehicle) -> Any:
    """Convert a state to JSON data, with the states of effects under their names."""
    effects = {
        e.name: json_data(effect_state)
        for e, effect_state in zip(vehicle.structure.effects, state.effects, strict=True)
        if effect_state != ()
    }
    return json_data(state._replace(effects=())) | effects


def ten_seconds(vehicle: Vehicle) -> tuple[list[Any], list[Any], Any, np.ndarray]:
    """Commands of a controller on a loop in a turning wind, with one motor at 97 %; and the resulting states in Python."""
    simulator, control = samara.compile(vehicle), geometric(vehicle, integral=True, period=DT * HELD)
    state, memory = samara.hover(vehicle)[0], control.initial_state
    power = (0.97, *(1.0 for _ in vehicle.rotors[1:]))
    commands, winds, flown = [], [], []
    for i in range(500):
        t = i * DT * HELD
        wind_W = Vec3(0.5 * math.cos(t), 0.5 * math.sin(t), 0.1)
        reference = Reference(Vec3(math.sin(t), 1.0 - math.cos(t), 1.0 + 0.2 * t), Vec3(math.cos(t), math.sin(t), 0.2))
        command, memory = control(state, reference, vehicle, memory)
        command = tuple(map(float, command))
        around = js_environment(vehicle)._replace(wind_W=wind_W, motor_effectiveness=power if vehicle.rotors else ())
        state = simulator.step(state, command, DT, HELD, around)
        commands.append(command)
        winds.append(json_data(wind_W))
        flown.append(flatten(state))
    return commands, winds, power if vehicle.rotors else (), np.array(flown)


def parameters_by_vehicle() -> list[Any]:
    often = ("hexarotor_x",)
    return [pytest.param(n, marks=() if n in often else pytest.mark.long) for n in samara.vehicle_names()]


@pytest.mark.parametrize("name", parameters_by_vehicle())
def test_ten_seconds_are_those_of_python(name, tmp_path):
    """10 000 steps: at every fiftieth of a second within 1e-12 of the largest number of the state."""
    vehicle = samara.vehicle(name)
    module = write_js(vehicle, tmp_path)
    commands, winds, power, expected = ten_seconds(vehicle)
    arguments = {"commands": commands, "winds": winds, "power": power, "held": HELD, "dt": DT}
    states = np.array(run_script(tmp_path, FLY.replace("MODULE", module.name), arguments))
    assert np.abs(expected[:, :3]).max() > 1.0  # it moved
    assert (np.abs(states - expected).max(axis=1) <= 1e-12 * np.abs(expected).max(axis=1)).all()


@pytest.mark.parametrize("name", ("hakoniwa", "hexarotor_tilted", "iris"))
def test_rates_are_those_of_python(name, tmp_path):
    """ẋ at any point, on the ground and off it, relative above one."""
    vehicle = samara.vehicle(name)
    module = write_js(vehicle, tmp_path)
    template = js_environment(vehicle)
    points = [
        (
            state,
            command,
            environment._replace(
                hub_wind_W=(),
                external_wrenches=template.external_wrenches,
                motor_effectiveness=template.motor_effectiveness,
            ),
        )
        for state, command, _, environment in build_case(derivative, name).points
    ]
    arguments = [
        [json_state(state, vehicle), json_data(command), json_data(environment)]
        for state, command, environment in points
    ]
    results = run_script(tmp_path, RATES.replace("MODULE", module.name), arguments)
    for (state, command, environment), rates in zip(points, results, strict=True):
        expected = np.array(flatten(samara.derivative(state, command, vehicle, environment)))
        assert (np.abs(np.array(rates) - expected) <= 1e-13 * np.maximum(1.0, np.abs(expected))).all()


def test_any_vehicle_with_its_effects(tmp_path):
    """A tricopter whose tail tilts, and an Iris with more aerodynamic effects: rates, relative to x / 1 s if that is more."""
    airy = samara.switch_on(samara.switch_on(samara.vehicle("iris"), "ground_effect"), "rotor_air")
    for vehicle in (tricopter(), airy):
        module = write_js(vehicle, tmp_path)
        state, command = samara.hover(vehicle)
        state = state._replace(v_W=Vec3(2.0, -1.0, 0.3), omega_B=Vec3(0.5, -0.3, 0.2))
        arguments = [[json_state(state, vehicle), json_data(tuple(command)), json_data(js_environment(vehicle))]]
        rates = run_script(tmp_path, RATES.replace("MODULE", module.name), arguments)[0]
        expected = np.array(flatten(samara.derivative(state, command, vehicle, js_environment(vehicle))))
        assert (
            np.abs(np.array(rates) - expected) <= 1e-13 * np.maximum(np.abs(flatten(state)), np.abs(expected) + 1.0)
        ).all()


def test_a_command_of_another_size_is_refused(tmp_path):
    module = write_js(samara.vehicle("iris"), tmp_path)
    message = run_script(
        tmp_path,
        f'import {{ hover, calm, step }} from "./{module.name}";\n'
        "let said = ''; try { step(hover().state, [1, 1], calm(), 1e-3); } catch (error) { said = error.message; }\n"
        "console.log(JSON.stringify(said));",
    )
    assert message == "command has 2 numbers; iris takes 4"


def test_a_name_cannot_break_the_module(tmp_path):
    """The name of a vehicle is in a comment and in a string."""
    vehicle = samara.build_vehicle(
        'a "b" */ throw 1 //\u2028',
        mass=1.0,
        inertia=(0.01, 0.01, 0.02),
        rotors=samara.vehicle("crazyflie_documented").rotors,
        provenance=Provenance("ends here: */ throw 2"),
    )
    module = write_js(vehicle, tmp_path)
    assert run_script(tmp_path, f'import {{ STATES }} from "./{module.name}"; console.log(STATES);') == 17
    assert json.dumps(vehicle.name) in module.read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file: cannot be written to .*; expected a folder for modules"):
        write_js(samara.vehicle("iris"), Path(tmp_path / "file"))
