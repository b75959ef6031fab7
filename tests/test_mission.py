"""The first flight: document 004's mission, through motors with lag, from the ground."""

import numpy as np
import pytest

import samara
from samara.algebra import euler_from_quat
from samara.frames import euler_ned_from_enu, state_ned_frd_from_enu_flu
from samara.mission import MISSION, fly_mission


@pytest.fixture(scope="module")
def flight():
    return fly_mission(samara.vehicle("hakoniwa"))


def test_it_ends_within_two_centimetres(flight):
    assert flight.final_error() < 0.02


def test_it_hovers_at_ten_metres_before_it_moves(flight):
    """At the end of the first leg's rest: 10 m up, still, over the start."""
    moment = np.searchsorted(flight.time, MISSION[0].travel + MISSION[0].rest) - 1
    assert flight.position[moment] == pytest.approx([0.0, 0.0, 10.0], abs=0.02)
    assert np.array(flight.states[moment].v_W) == pytest.approx(np.zeros(3), abs=0.02)


def test_right_is_right_in_the_documents_own_frame(flight):
    """In NED, facing north (yaw 0), 10 m to the right at height 10 m is (0, 10, −10)."""
    final = state_ned_frd_from_enu_flu(flight.states[-1])
    assert np.array(final.p_W) == pytest.approx([0.0, 10.0, -10.0], abs=0.02)
    assert euler_ned_from_enu(euler_from_quat(flight.states[-1].q_WB)).yaw == pytest.approx(0.0, abs=1e-3)


def test_it_leans_right_to_go_right_and_left_to_stop(flight):
    """+roll is right side down: positive while it accelerates, negative while it brakes."""
    second = MISSION[0].travel + MISSION[0].rest
    roll = flight.euler[:, 0]
    early = roll[(flight.time > second + 0.5) & (flight.time < second + 2.0)]
    late = roll[(flight.time > second + 4.0) & (flight.time < second + 5.5)]
    assert early.min() > 0.05
    assert late.max() < -0.05


def test_it_stands_on_the_ground_until_the_rotors_carry_it(flight):
    """The legs hold the vehicle; it never sinks through the floor."""
    assert flight.position[:, 2].min() > 0.09
    assert flight.rotor_speed[0].max() == 0.0


@pytest.mark.parametrize("name", [name for name in samara.vehicle_names() if name != "hakoniwa"])
def test_every_shipped_vehicle_flies_it(name):
    assert fly_mission(samara.vehicle(name)).final_error() < 0.02
