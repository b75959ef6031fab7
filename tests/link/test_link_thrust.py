"""An autopilot's output is a thrust: linear, the same for every rotor, and one half at hover."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.link.motor_outputs import (
    command_from_motor_outputs,
    command_from_thrust_outputs,
    compile_motor_outputs,
    compile_thrust_outputs,
    motor_outputs_from_command,
)
from samara.link.px4 import px4_parameters
from samara.physics.multirotor import state_at_rest
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
    """T of every rotor in steady state under the command, found by integrating the motors."""
    command = command_from_thrust_outputs(tuple(outputs), vehicle, full_thrust(vehicle))
    state = state_at_rest(vehicle)
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
    """Each rotor separately, from a quarter to full thrust; a motor with an idle speed does not turn more slowly."""
    vehicle = samara.vehicle(name)
    n, full = len(vehicle.rotors), full_thrust(vehicle)
    for u in (0.25, 0.5, 1.0):
        assert steady_thrusts(vehicle, [u] * n) == pytest.approx([u * full] * n, rel=1e-6)


@pytest.mark.parametrize("name", VEHICLES)
def test_hover_is_at_one_half_if_the_motors_are_strong_enough(name):
    vehicle = samara.vehicle(name)
    weight = vehicle.mass * vehicle["gravity"].acceleration
    full_collective_thrust = sum(rotor.axis_B.z for rotor in vehicle.rotors) * full_thrust(vehicle)
    assert hover_output(vehicle) * full_collective_thrust == pytest.approx(weight, rel=1e-6)
    assert hover_output(vehicle) == pytest.approx(max(0.5, 1.0 / thrust_to_weight(vehicle)))


def test_the_compiled_code_gives_the_hover_command_at_the_hover_output():
    vehicle = samara.vehicle("hakoniwa")
    machine = compile_thrust_outputs(vehicle).machine()
    machine.held_inputs[:] = hover_output(vehicle)
    machine.run()
    assert machine.carry[:, 0] == pytest.approx(np.array(hover(vehicle)[1]), rel=1e-9)
    machine.held_inputs[:] = 0.0
    machine.run()
    assert not machine.carry.any()


def test_the_command_line_requires_a_registered_autopilot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, sentence in (
        (["--autopilot", "ardu"], "--autopilot 'ardu': expected one of px4, ardupilot, betaflight"),
        (["--connect"], "--binary, --connect and --autopilot-mode apply to an autopilot; expected --autopilot"),
        (["--autopilot", "px4", "--connect", "--binary", "x"], "expected one of them"),
        (
            ["--autopilot", "px4", "--binary", "nowhere/px4"],
            "is not a program that can be run; expected the binary of px4",
        ),
    ):
        with pytest.raises(ValueError) as error:
            CliRunner().invoke(app, ["fly", "hover", *arguments], catch_exceptions=False)
        assert sentence in str(error.value)
    assert not list(tmp_path.iterdir())


def test_outputs_that_are_commands_are_passed_on_and_px4_gets_the_motor_curve():
    """As on the aircraft: no conversion between an output and its motor."""
    iris, speed_controlled = samara.vehicle("iris"), samara.vehicle("crazyflie")
    speed_controlled = replace(
        speed_controlled, structure=replace(speed_controlled.structure, actuation=ACTUATIONS["speed"])
    )
    assert command_from_motor_outputs((0.2, -1.0, 2.0, 0.5), iris) == (0.2, 0.0, 1.0, 0.5)
    assert (
        command_from_motor_outputs((0.5,) * 4, speed_controlled)[0] == 0.5 * speed_controlled.rotors[0].motor.speed_max
    )
    for vehicle in (iris, speed_controlled):
        assert motor_outputs_from_command(command_from_motor_outputs((0.25, 0.0, 1.0, 0.5), vehicle), vehicle) == (
            0.25,
            0.0,
            1.0,
            0.5,
        )
    machine = compile_motor_outputs(iris).machine()
    machine.held_inputs[:, 0] = (0.2, -1.0, 2.0, 0.5)
    machine.run()
    assert machine.carry[:, 0].tolist() == [0.2, 0.0, 1.0, 0.5]
    parameters = px4_parameters(iris, outputs="command")
    assert airframe_parameters(iris).items() <= parameters.items() and "THR_MDL_FAC" not in px4_parameters(iris)
    with pytest.raises(ValueError, match=r"autopilot.outputs is 'command'; expected"):
        Autopilot("ardupilot", outputs="command")
