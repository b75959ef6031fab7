"""The first flight: Hakoniwa's mission, through motors with lag, from the ground."""

import numpy as np
import pytest
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.core.algebra import Quat, Vec3
from samara.physics.frames import attitude_ned_frd_from_enu_flu, ned_from_enu, yaw_from_quat

TRAVEL, REST = 6.0, 3.0
RIGHT = (10.0, 0.0, 10.0)


def fly_mission(vehicle):
    return samara.fly("hakoniwa_mission", settings={"drones.vehicle": vehicle})


@pytest.fixture(scope="module")
def flight():
    return fly_mission("hakoniwa")


def final_error(flight):
    return np.linalg.norm(flight.position[-1] - RIGHT)


def test_it_ends_within_two_centimetres(flight):
    assert final_error(flight) < 0.02


def test_it_hovers_at_ten_metres_before_it_moves(flight):
    """At the end of the rest after the first leg: at 10 m, at rest, above the start."""
    row = np.searchsorted(flight.time, TRAVEL + REST) - 1
    assert flight.position[row] == pytest.approx([0.0, 0.0, 10.0], abs=0.02)
    assert flight.velocity[row] == pytest.approx(np.zeros(3), abs=0.02)


def test_right_is_right_in_the_frame_of_the_document(flight):
    """In NED, facing north (yaw 0), 10 m to the right at height 10 m is (0, 10, −10)."""
    final = ned_from_enu(Vec3(*flight.position[-1].tolist()))
    assert np.array(final) == pytest.approx([0.0, 10.0, -10.0], abs=0.02)
    facing = attitude_ned_frd_from_enu_flu(Quat(*flight.attitude[-1].tolist()))
    assert yaw_from_quat(facing) == pytest.approx(0.0, abs=1e-3)


def test_it_tilts_right_to_go_right_and_left_to_stop(flight):
    """+roll is right side down: positive while it accelerates, negative while it brakes."""
    second_leg = TRAVEL + REST
    roll = flight.euler[:, 0]
    accelerating = roll[(flight.time > second_leg + 0.5) & (flight.time < second_leg + 2.0)]
    braking = roll[(flight.time > second_leg + 4.0) & (flight.time < second_leg + 5.5)]
    assert accelerating.min() > 0.05
    assert braking.max() < -0.05


def test_it_stands_on_the_ground_until_the_rotors_carry_it(flight):
    """The legs hold the vehicle; it never sinks through the floor."""
    assert flight.position[:, 2].min() > 0.09
    assert flight.rotor_speed[0].max() == 0.0


@pytest.mark.parametrize(
    "name", shipped_vehicle_parameters(name for name in samara.vehicle_names() if name != "hakoniwa")
)
def test_every_shipped_vehicle_flies_it(name):
    assert final_error(fly_mission(name)) < 0.02
