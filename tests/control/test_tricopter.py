"""A tricopter under every controller: it hovers tilted, yaws with its servo, and flies a figure of eight."""

import math

import numpy as np
import pytest
from support.tricopter import ARM, LEVER, SERVO, tricopter

from samara.control.allocation import build_allocation, command_for_wrench
from samara.control.default_gains import default_gains
from samara.control.lqr import hover_jacobian
from samara.control.mpc.options import MpcOptions
from samara.control.mpc.prediction_model import build_prediction_model
from samara.control.registry import CONTROLLERS
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.multirotor import tilt_angles, total_rotor_wrench
from samara.plan import trajectory
from samara.record.load import load_run
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fingerprint, fly
from samara.sim.fly_many import fly_many
from samara.sim.replay import replay
from samara.vehicles.controllability import HoverMode, controllability
from samara.vehicles.trim import hover

TRICOPTER = tricopter()
START = Vec3(0.0, 0.0, 2.0)
WEIGHT = 1.2 * 9.80665


def fly_task(controller, task, seconds, vehicle=TRICOPTER):
    drone = Drone("d", vehicle, task, START, airborne=True, controller=controller)
    return fly(Scenario("tricopter", (drone,), seconds))


def settled_state(collective_thrust, tau_B, vehicle=TRICOPTER):
    """Return the trim with motors and servos settled at the command for this wrench."""
    state, _ = hover(vehicle)
    command = command_for_wrench(collective_thrust, tau_B, state, vehicle, build_allocation(vehicle))
    speeds = tuple(100.0 + 900.0 * u for u in command[:3])
    angle = 0.5 * (SERVO.high - SERVO.low) * command[3]
    return state._replace(rotor_speed=speeds, effects=(*state.effects[:-1], (angle,))), command


def test_the_command_for_a_wrench_gives_it_exactly():
    """A tilting rotor is linear in its axial and lateral force: every feasible wrench is exact, however large the angle."""
    for collective_thrust, tau in (
        (WEIGHT, (0.0, 0.0, 0.0)),
        (WEIGHT, (0.1, -0.2, 0.3)),
        (1.3 * WEIGHT, (-0.3, 0.1, -0.4)),
    ):
        state, command = settled_state(collective_thrust, Vec3(*tau))
        result = total_rotor_wrench(state, TRICOPTER)
        assert (result.f_B.z, *result.tau_B) == pytest.approx((collective_thrust, *tau), rel=1e-9, abs=1e-9)
        assert abs(command[3]) < 1.0


def test_yaw_is_limited_by_the_servo():
    """τ_z = T_a (L tan δ − κ) at the limit; roll, pitch and thrust are exact."""
    state, command = settled_state(WEIGHT, Vec3(0.05, 0.02, 5.0))
    result = total_rotor_wrench(state, TRICOPTER)
    assert (result.f_B.z, result.tau_B.x, result.tau_B.y) == pytest.approx((WEIGHT, 0.05, 0.02), rel=1e-3)
    tail = controllability(TRICOPTER).torques[2]
    assert controllability(TRICOPTER).hover is HoverMode.STEADY
    assert tail.high == pytest.approx(WEIGHT / 3.0 * (ARM * math.tan(SERVO.high) - LEVER), rel=0.03)
    assert 0.9 * tail.high < result.tau_B.z <= 1.05 * tail.high
    assert command[3] == pytest.approx(1.0, abs=0.02)  # the tail carries slightly less than a third here


def test_the_allocation_has_the_side_force_of_the_tail():
    """f_y = −T sin δ of the trim."""
    side_B, state = build_allocation(TRICOPTER).hover_side_force_B, hover(TRICOPTER)[0]
    tail = TRICOPTER.rotors[2].k_thrust * state.rotor_speed[2] ** 2
    assert side_B.y == pytest.approx(-tail * math.sin(tilt_angles(state, TRICOPTER)[0]), rel=1e-3)
    assert abs(side_B.x) < 1e-12 and build_allocation(TRICOPTER).controls_yaw


def test_a_slow_servo_slows_the_yaw_and_is_in_the_regulators_jacobian():
    slow = tricopter(servo=SERVO._replace(lag=0.4))
    assert default_gains(slow).attitude.z < 0.6 * default_gains(TRICOPTER).attitude.z
    assert default_gains(slow).attitude.x == default_gains(TRICOPTER).attitude.x
    a, b = hover_jacobian(slow, 4e-3)
    fast, _ = hover_jacobian(TRICOPTER, 4e-3)
    assert a.shape == (16, 16) and b.shape == (16, 4)
    assert a[15, 15] > fast[15, 15]  # the torque about z fades with the servo


def test_ilqr_refuses_thrusts_of_rotors_as_inputs():
    with pytest.raises(
        ValueError, match=r"inputs = 'rotors': vehicle 'tricopter' has rotors that tilt; expected 'wrench'"
    ):
        build_prediction_model(TRICOPTER, MpcOptions(inputs="rotors"))


@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_hovers(controller):
    """From the trim within 2 cm, tilted sideways as in the trim."""
    track = fly_task(controller, trajectory.hover(START), 3.0)["d"]
    assert track.error.max() < 0.02
    assert track.euler[-1] == pytest.approx((-0.0213, 0.0, 0.0), abs=2e-3)


@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_yaws_with_the_servo(controller):
    """One radian to the left: it ends at this yaw, at its position."""
    track = fly_task(controller, trajectory.hover(START, yaw=1.0), 6.0)["d"]
    assert track.euler[-1, 2] == pytest.approx(1.0, abs=0.03)
    assert track.error[-1] < 0.02 and track.error.max() < 0.4
    servo = track.command[:, 3]
    assert servo.max() - servo.min() > 0.1


@pytest.mark.parametrize("actuation", ["normalized", "speed"])
@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_flies_a_figure_of_eight(controller, actuation):
    """2 m to either side at 2 m/s, as a quadrotor of its size does it."""
    task = trajectory.figure8(START, half_length=2.0, speed=2.0)
    run = fly_task(controller, task, 8.0, tricopter(actuation))
    assert run["d"].error.max() < 0.2 and not run.crashed


def test_a_flight_is_recorded_and_replayed_bit_for_bit(tmp_path):
    """The state contains the angle, the command that of the servo."""
    run = fly_task("geometric", trajectory.hover(START, yaw=0.5), 1.0)
    assert run["d"].tables["state"].fields[-1] == "tilt" and run["d"].tables["command"].fields[-1] == "servo[0]"
    again = load_run(run.save(tmp_path / "tri.mcap"))
    assert again["d"].vehicle == TRICOPTER
    assert fingerprint(replay(again)) == fingerprint(run)


def test_flights_of_many_masses_are_the_same_bits_as_each_alone():
    """Trim, allocation and tilt are those of each mass."""
    masses = np.array([1.1, 1.3])

    def yaw_scenario(vehicle):
        task = trajectory.hover(START, yaw=0.4)
        return Scenario("m", (Drone("d", vehicle, task, START, airborne=True, controller="geometric"),), 0.5)

    final_states = np.array(flatten(fly_many(yaw_scenario(TRICOPTER), 2, vary={"mass": masses}).final)).reshape(-1, 2)
    for i, mass in enumerate(masses):
        single = fly(yaw_scenario(TRICOPTER.replace(mass=float(mass))))["d"].tables["state"].rows[-1]
        assert (final_states[:, i] == single).all()


def test_commands_of_a_custom_function_are_limited_to_the_servos_range():
    """2.0 exceeds a servo's range; 0.46 is within that of rotors, and −0.5 within that of a servo."""
    trim_command = hover(TRICOPTER)[1]

    def exceeding(state, reference, vehicle, controller_state):
        return (*trim_command[:3], 2.0)

    def allowed(state, reference, vehicle, controller_state):
        return (*trim_command[:3], -0.5)

    with pytest.warns(RuntimeWarning, match=r"command of servo 0 is 2 .* expected a number within \[-1, 1\]"):
        limited_flight = fly_task(exceeding, trajectory.hover(START), 0.1)["d"]
    unlimited_flight = fly_task(allowed, trajectory.hover(START), 0.1)["d"]
    assert np.abs(limited_flight.command[:, 3]).max() == 1.0 and limited_flight.clipped_command_count > 0
    assert unlimited_flight.command[-1, 3] == -0.5 and unlimited_flight.clipped_command_count == 0
