"""An autopilot's output is a thrust: linear, the same for every rotor, and one half at hover."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.link.motor_outputs import (
    command_for_outputs,
    command_of_outputs,
    commands_code,
    outputs_code,
    outputs_of_command,
)
from samara.link.px4 import px4_parameters
from samara.physics.multirotor import at_rest
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import CALM
from samara.scenario.autopilot import Autopilot
from samara.vehicles.build import ACTUATIONS
from samara.vehicles.exchange.px4 import airframe_parameters
from samara.vehicles.exchange.throttle import full_thrust, hover_output
from samara.vehicles.trim import hover, thrust_to_weight

VEHICLES = [
    "iris_documented",
    "crazyflie_documented",
    "crazyflie",
    "hakoniwa",
    "hexarotor_x",
    "hexarotor_tilted",
    "octorotor_x",
]


def steady_thrusts(vehicle, outputs):
    """T of every rotor once it has settled under the command, found by letting the motors run for a while."""
    command = command_for_outputs(tuple(outputs), vehicle, full_thrust(vehicle))
    state = at_rest(vehicle)
    rates = vehicle.structure.actuation.rotor_acceleration
    if vehicle.has("actuator"):
        pytest.skip("an actuator settles too")
    for _ in range(20_000):
        accelerations = rates(state, command, vehicle, CALM)
        speeds = tuple(o + 2e-4 * a for o, a in zip(state.rotor_speed, accelerations, strict=True))
        if max(abs(a) for a in accelerations) < 1e-6:
            break
        state = state._replace(rotor_speed=speeds)
    return [load.thrust for load in rotor_loads(state, vehicle, CALM)]


@pytest.mark.parametrize("name", ["iris_documented", "crazyflie_documented", "hakoniwa", "hexarotor_x"])
def test_thrust_is_linear_in_the_output(name):
    """Each rotor by itself, from a quarter to all of it; slower a motor with an idle speed does not turn."""
    vehicle = samara.vehicle(name)
    n, full = len(vehicle.rotors), full_thrust(vehicle)
    for u in (0.25, 0.5, 1.0):
        assert steady_thrusts(vehicle, [u] * n) == pytest.approx([u * full] * n, rel=1e-6)


@pytest.mark.parametrize("name", VEHICLES)
def test_hover_is_at_one_half_where_the_motors_are_strong_enough(name):
    vehicle = samara.vehicle(name)
    weight = vehicle.mass * vehicle["gravity"].acceleration
    lift = sum(rotor.axis_B.z for rotor in vehicle.rotors) * full_thrust(vehicle)
    assert hover_output(vehicle) * lift == pytest.approx(weight, rel=1e-6)
    assert hover_output(vehicle) == pytest.approx(max(0.5, 1.0 / thrust_to_weight(vehicle)))


def test_the_machine_code_gives_the_hover_command_at_the_hover_output():
    vehicle = samara.vehicle("hakoniwa")
    machine = outputs_code(vehicle).machine()
    machine.held[:] = hover_output(vehicle)
    machine.run()
    assert machine.carry[:, 0] == pytest.approx(np.array(hover(vehicle)[1]), rel=1e-9)
    machine.held[:] = 0.0
    machine.run()
    assert not machine.carry.any()


def test_the_command_line_wants_an_autopilot_it_knows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, sentence in (
        (["--autopilot", "ardu"], "--autopilot 'ardu': expected one of px4, ardupilot, betaflight"),
        (["--connect"], "--binary, --connect, --mode are about an autopilot; expected --autopilot with them"),
        (["--autopilot", "px4", "--connect", "--binary", "x"], "expected one of them"),
        (
            ["--autopilot", "px4", "--binary", "nowhere/px4"],
            "is not a program that can be run; expected the binary of px4",
        ),
    ):
        with pytest.raises(ValueError) as error:
            CliRunner().invoke(app, ["fly", "hover", *words], catch_exceptions=False)
        assert sentence in str(error.value)
    assert not list(tmp_path.iterdir())


def test_outputs_that_are_commands_are_handed_on_and_px4_is_told_the_motors_curve():
    """As on the aircraft: nothing between an output and its motor"""
    own, fast = samara.vehicle("iris"), samara.vehicle("crazyflie")
    fast = replace(fast, structure=replace(fast.structure, actuation=ACTUATIONS["speed"]))
    assert command_of_outputs((0.2, -1.0, 2.0, 0.5), own) == (0.2, 0.0, 1.0, 0.5)
    assert command_of_outputs((0.5,) * 4, fast)[0] == 0.5 * fast.rotors[0].motor.speed_max
    for craft in (own, fast):
        assert outputs_of_command(command_of_outputs((0.25, 0.0, 1.0, 0.5), craft), craft) == (0.25, 0.0, 1.0, 0.5)
    machine = commands_code(own).machine()
    machine.held[:, 0] = (0.2, -1.0, 2.0, 0.5)
    machine.run()
    assert machine.carry[:, 0].tolist() == [0.2, 0.0, 1.0, 0.5]
    told = px4_parameters(own, outputs="command")
    assert airframe_parameters(own).items() <= told.items() and "THR_MDL_FAC" not in px4_parameters(own)
    with pytest.raises(ValueError, match=r"autopilot.outputs is 'command'; expected"):
        Autopilot("ardupilot", outputs="command")
