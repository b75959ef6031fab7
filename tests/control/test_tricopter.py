"""A tricopter under every controller: it hovers leaning, yaws by its servo, and flies a figure of eight."""

import math

import numpy as np
import pytest
from support.tricopter import ARM, LEVER, SERVO, tricopter

from samara.control.allocation import allocation_for, command_for_wrench
from samara.control.default_gains import gains_for
from samara.control.lqr import hover_jacobian
from samara.control.mpc.options import MpcOptions
from samara.control.mpc.prediction_model import model_of
from samara.control.registry import CONTROLLERS
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.multirotor import tilt_angles, wrench_of_rotors
from samara.plan import trajectory
from samara.record.load import load_run
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fingerprint, fly
from samara.sim.fly_many import fly_many
from samara.sim.replay import replay
from samara.vehicles.controllability import Hover, controllability
from samara.vehicles.trim import hover

TRI = tricopter()
ABOVE = Vec3(0.0, 0.0, 2.0)
WEIGHT = 1.2 * 9.80665


def flown(controller, task, seconds, vehicle=TRI):
    drone = Drone("d", vehicle, task, ABOVE, airborne=True, controller=controller)
    return fly(Scenario("tricopter", (drone,), seconds))


def settled(lift, tau_B, vehicle=TRI):
    """The trim with motors and servos where a command for this wrench has them in the end"""
    state, _ = hover(vehicle)
    command = command_for_wrench(lift, tau_B, state, vehicle, allocation_for(vehicle))
    speeds = tuple(100.0 + 900.0 * u for u in command[:3])
    angle = 0.5 * (SERVO.high - SERVO.low) * command[3]
    return state._replace(rotor_speed=speeds, effects=(*state.effects[:-1], (angle,))), command


def test_the_command_for_a_wrench_gives_it_exactly():
    """Along and across its axis a rotor that tilts is linear: no wrench within reach is missed, however large the angle."""
    for lift, tau in ((WEIGHT, (0.0, 0.0, 0.0)), (WEIGHT, (0.1, -0.2, 0.3)), (1.3 * WEIGHT, (-0.3, 0.1, -0.4))):
        state, command = settled(lift, Vec3(*tau))
        given = wrench_of_rotors(state, TRI)
        assert (given.f_B.z, *given.tau_B) == pytest.approx((lift, *tau), rel=1e-9, abs=1e-9)
        assert abs(command[3]) < 1.0


def test_yaw_gives_way_where_the_servo_ends():
    """τ_z = T_a (L tan δ − κ) at most; roll, pitch and lift stay what was asked for."""
    state, command = settled(WEIGHT, Vec3(0.05, 0.02, 5.0))
    given = wrench_of_rotors(state, TRI)
    assert (given.f_B.z, given.tau_B.x, given.tau_B.y) == pytest.approx((WEIGHT, 0.05, 0.02), rel=1e-3)
    tail = controllability(TRI).torques[2]
    assert controllability(TRI).hover is Hover.STEADY
    assert tail.high == pytest.approx(WEIGHT / 3.0 * (ARM * math.tan(SERVO.high) - LEVER), rel=0.03)
    assert 0.9 * tail.high < given.tau_B.z <= 1.05 * tail.high
    assert command[3] == pytest.approx(1.0, abs=0.02)  # the tail carries a little less than its share here


def test_the_allocation_leans_against_what_the_tail_pushes():
    """f_y = −T sin δ of the trim."""
    side_B, state = allocation_for(TRI).side_B, hover(TRI)[0]
    tail = TRI.rotors[2].k_thrust * state.rotor_speed[2] ** 2
    assert side_B.y == pytest.approx(-tail * math.sin(tilt_angles(state, TRI)[0]), rel=1e-3)
    assert abs(side_B.x) < 1e-12 and allocation_for(TRI).keeps_yaw


def test_a_slow_servo_slows_the_yaw_and_is_in_the_regulators_jacobian():
    slow = tricopter(servo=SERVO._replace(lag=0.4))
    assert gains_for(slow).attitude.z < 0.6 * gains_for(TRI).attitude.z
    assert gains_for(slow).attitude.x == gains_for(TRI).attitude.x
    a, b = hover_jacobian(slow, 4e-3)
    fast, _ = hover_jacobian(TRI, 4e-3)
    assert a.shape == (16, 16) and b.shape == (16, 4)
    assert a[15, 15] > fast[15, 15]  # the torque about z fades with the servo


def test_ilqr_refuses_thrusts_of_rotors_as_inputs():
    with pytest.raises(
        ValueError, match=r"inputs = 'rotors': vehicle 'tricopter' has rotors that tilt; expected 'wrench'"
    ):
        model_of(TRI, MpcOptions(inputs="rotors"))


@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_holds_it(controller):
    """From the trim within 2 cm, leaning to the side as the trim does."""
    track = flown(controller, trajectory.hover(ABOVE), 3.0)["d"]
    assert track.error.max() < 0.02
    assert track.euler[-1] == pytest.approx((-0.0213, 0.0, 0.0), abs=2e-3)


@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_turns_it_by_the_servo(controller):
    """One radian to the left: it faces there in the end, and its place is what it was."""
    track = flown(controller, trajectory.hover(ABOVE, yaw=1.0), 6.0)["d"]
    assert track.euler[-1, 2] == pytest.approx(1.0, abs=0.03)
    assert track.error[-1] < 0.02 and track.error.max() < 0.4
    servo = track.command[:, 3]
    assert servo.max() - servo.min() > 0.1


@pytest.mark.parametrize("actuation", ["normalized", "speed"])
@pytest.mark.parametrize("controller", list(CONTROLLERS))
def test_every_controller_flies_a_figure_of_eight(controller, actuation):
    """2 m to either side at 2 m/s, as a quadrotor of its size does it."""
    task = trajectory.figure8(ABOVE, reach=2.0, speed=2.0)
    run = flown(controller, task, 8.0, tricopter(actuation))
    assert run["d"].error.max() < 0.2 and not run.crashed


def test_a_flight_is_recorded_and_flown_again_bit_for_bit(tmp_path):
    """The angle is in the state, the servo's number in the command."""
    run = flown("geometric", trajectory.hover(ABOVE, yaw=0.5), 1.0)
    assert run["d"].tables["state"].fields[-1] == "tilt" and run["d"].tables["command"].fields[-1] == "servo[0]"
    again = load_run(run.save(tmp_path / "tri.mcap"))
    assert again["d"].vehicle == TRI
    assert fingerprint(replay(again)) == fingerprint(run)


def test_flights_of_many_masses_are_the_same_bits_as_each_alone():
    """The trim, the allocation and its lean are those of each mass."""
    masses = np.array([1.1, 1.3])

    def turning(vehicle):
        task = trajectory.hover(ABOVE, yaw=0.4)
        return Scenario("m", (Drone("d", vehicle, task, ABOVE, airborne=True, controller="geometric"),), 0.5)

    ends = np.array(flatten(fly_many(turning(TRI), 2, vary={"mass": masses}).final)).reshape(-1, 2)
    for k, mass in enumerate(masses):
        alone = fly(turning(TRI.replace(mass=float(mass))))["d"].tables["state"].rows[-1]
        assert (ends[:, k] == alone).all()


def test_a_function_of_ones_own_is_cut_to_the_servos_range():
    """2.0 is more than a servo has; of the rotors 0.46 is within, and −0.5 is fine for a servo."""
    hold = hover(TRI)[1]

    def mine(state, reference, vehicle, memory):
        return (*hold[:3], 2.0)

    def other(state, reference, vehicle, memory):
        return (*hold[:3], -0.5)

    with pytest.warns(RuntimeWarning, match=r"command of servo 0 is 2 .* expected a number within \[-1, 1\]"):
        far = flown(mine, trajectory.hover(ABOVE), 0.1)["d"]
    fine = flown(other, trajectory.hover(ABOVE), 0.1)["d"]
    assert np.abs(far.command[:, 3]).max() == 1.0 and far.commands_cut > 0
    assert fine.command[-1, 3] == -0.5 and fine.commands_cut == 0
