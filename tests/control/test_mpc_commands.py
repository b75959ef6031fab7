"""Plans whose inputs are the vehicle's commands: the prediction has the motors, so the vehicle does what the plan says."""

import numpy as np
import pytest

import samara
from samara.control import MPC, InputLimits
from samara.physics.types import State

VEHICLE = samara.vehicle("crazyflie").without_effect("contact")  # motors with a lag of 72 ms
HOVER, COMMAND = samara.hover(VEHICLE)
TARGET = (0.6, -0.3, 1.3)


@pytest.fixture(scope="module")
def mpc():
    return MPC(VEHICLE, horizon=12, inputs="commands", max_iterations=40)


def fly_open_loop(commands, dt=0.05, substeps=50):
    """Integrate the vehicle with its motors under commands that are held, with steps of a millisecond."""
    sim, state, positions = samara.compile(VEHICLE), HOVER, [np.array(HOVER.p_W)]
    for command in commands:
        for _ in range(substeps):
            state = sim.step(state, tuple(command), dt / substeps)
        positions.append(np.array(state.p_W))
    return np.array(positions), state


def test_the_vehicle_flies_the_plan_of_its_commands(mpc):
    """The planned positions and rotor speeds against an integration of the vehicle with a fiftieth of the step."""
    plan = mpc.solve(HOVER, TARGET)
    assert plan.converged and plan.states.shape == (13, 17) and plan.controls.shape == (12, 4)
    assert np.linalg.norm(plan.states[-1, :3] - np.array(HOVER.p_W)) > 0.1
    positions, last = fly_open_loop(plan.controls.tolist())
    assert np.abs(positions - plan.states[:, :3]).max() < 2e-4
    assert np.array(last.rotor_speed) == pytest.approx(plan.states[-1, 13:], rel=2e-3)


def test_a_plan_of_thrusts_ignores_the_motors():
    """The same flight from thrusts that are turned into commands at once: the motors' lag of 72 ms moves it by centimetres."""
    plan = MPC(VEHICLE, horizon=12, inputs="rotors", max_iterations=40).solve(HOVER, TARGET)
    hover_thrust = VEHICLE.rotors[0].k_thrust * HOVER.rotor_speed[0] ** 2
    speeds = np.sqrt(np.maximum(plan.controls / hover_thrust, 0.0)) * HOVER.rotor_speed[0]
    rotor = VEHICLE.rotors[0].motor
    commands = np.clip((speeds - rotor.speed_min) / (rotor.speed_max - rotor.speed_min), 0.0, 1.0)
    positions, _ = fly_open_loop(commands.tolist())
    assert np.abs(positions - plan.states[:, :3]).max() > 0.02


def test_at_the_target_the_command_is_that_of_hover(mpc):
    plan = mpc.solve(HOVER, tuple(HOVER.p_W))
    assert plan.cost == pytest.approx(0.0, abs=1e-9)
    assert plan.controls == pytest.approx(np.tile(COMMAND, (12, 1)), abs=1e-6)
    command, _ = mpc(HOVER, tuple(HOVER.p_W), VEHICLE, mpc.initial_state)
    assert command == pytest.approx(COMMAND, abs=1e-6)


def test_the_state_needs_the_rotor_speeds(mpc):
    """A state without them is refused in one sentence; a bare array has them at its end."""
    with pytest.raises(
        ValueError, match="state has 13 numbers; expected a State, or the 17 of p, v, q, ω and the rotor"
    ):
        mpc.solve(HOVER.to_numpy()[:13], TARGET, layout="wxyz")
    from_array = mpc.solve([*HOVER.to_numpy()[:13], *HOVER.rotor_speed], TARGET, layout="wxyz", iterations=3)
    from_state = mpc.solve(HOVER, TARGET, iterations=3)
    assert np.array_equal(from_array.controls, from_state.controls)
    assert from_state.state(3).rotor_speed == pytest.approx(from_state.states[3, 13:])
    assert isinstance(from_state.state(0), State)


def test_commands_stay_within_their_limits():
    """0 and 1, or tighter ones; some are reached on the way to a far target."""
    limits = InputLimits((0.2,) * 4, (0.9,) * 4)
    mpc = MPC(VEHICLE, horizon=12, inputs="commands", limits=limits, integrator="euler")
    plan = mpc.solve(HOVER, (3.0, 0.0, 2.0))
    assert plan.controls.min() >= 0.2 and plan.controls.max() <= 0.9
    assert np.isclose(plan.controls, 0.9).any() or np.isclose(plan.controls, 0.2).any()


@pytest.mark.long
@pytest.mark.parametrize(("name", "offset"), [("iris", 0.02), ("hakoniwa", 0.02), ("crazyflie_brushless", 0.12)])
def test_every_kind_of_motor_hovers(name, offset):
    """DC motors on a battery and motors faster than half a step: a flight in wind stays near its place.

    The moment of airspeed of the last is predicted in still air, and that of the wind is added as a steady torque.
    """
    controller = samara.control.controller_spec("mpc", inputs="commands")
    run = samara.fly("hover", vehicle=samara.vehicle(name), controller=controller, wind=2, duration=6.0)
    assert not run.crashed and np.abs(run.position[-50:] - (0.0, 0.0, 1.5)).max() < offset


def test_vehicles_without_rotors_of_fixed_axes_are_refused():
    for name, message in (("rigid_body_quadrotor", "has no rotors"),):
        with pytest.raises(ValueError, match=message):
            MPC(samara.vehicle(name), inputs="commands")
