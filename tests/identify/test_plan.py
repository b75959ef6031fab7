"""The flight that tells most: what it tells, that it stays in its room, and that its files fly."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.identify.information import EVERY, Flown, information, log_det, parameters_of, standard_errors
from samara.identify.manoeuvres import Manoeuvre, Room, trajectory
from samara.identify.plan import Candidate, chosen, flown_in, plan_flight, write_plan
from samara.physics.multirotor import derivative
from samara.physics.types import State, Vehicle
from samara.plan.waypoint_file import read_waypoints

ROOM = Room(reach=2.0, low=0.5, high=3.0, speed=3.0)


@pytest.fixture(scope="module")
def vehicle() -> Vehicle:
    return samara.vehicle("hexarotor_x")


@pytest.fixture(scope="module")
def plan(vehicle):
    return plan_flight(vehicle, 40.0, ROOM)


def told_by(vehicle, manoeuvres):
    flown = flown_in([vehicle], [trajectory(manoeuvres, ROOM.home_W)], [ROOM])
    return float(log_det(information(vehicle, flown, parameters_of(vehicle))[0])), flown


@pytest.mark.long
def test_the_plan_tells_more_than_hover_and_than_any_manoeuvre_flown_as_long(vehicle, plan):
    """log det of the whole flight as it is flown, and not the sum it was chosen by"""
    told, _ = told_by(vehicle, plan.manoeuvres)
    assert plan.duration <= 40.0
    for own in plan.candidates:
        if not own.unsafe:
            assert told > float(log_det(own.information * (40.0 / own.duration))), own.manoeuvre.name
    assert told == pytest.approx(plan.log_det, abs=2.0)


@pytest.mark.long
def test_the_plan_stays_in_its_room(vehicle, plan):
    _, flown = told_by(vehicle, plan.manoeuvres)
    state = State.from_numpy(flown.states[:, :, 0], "wxyz", vehicle)
    assert max(np.abs(state.p_W.x).max(), np.abs(state.p_W.y).max()) <= ROOM.reach
    assert ROOM.low <= state.p_W.z.min() and state.p_W.z.max() <= ROOM.high
    up = 1.0 - 2.0 * (state.q_WB.x**2 + state.q_WB.y**2)
    assert math.degrees(np.arccos(up.min())) <= math.degrees(ROOM.tilt)


@pytest.mark.long
def test_the_files_of_a_plan_fly(plan, tmp_path):
    scenario, waypoints = write_plan(plan, tmp_path)
    run = samara.fly(scenario)
    assert all(own.true for own in samara.record.run.judge(run, samara.load_scenario(scenario).expect))
    file = read_waypoints(waypoints)
    asked = plan.trajectory.at(np.array(file.times))
    assert np.array(file.points) == pytest.approx(np.stack(asked.p_W, axis=1), abs=1e-4)
    assert file.times[-1] >= plan.duration


def test_sensitivities_are_those_of_the_equations_of_motion(vehicle):
    """∂f/∂ ln kF of a hovering body is g upwards, ∂ω̇/∂x of the centre of mass is m g arm/J about y: nothing else changes"""
    state, command = samara.hover(vehicle)
    rows = np.array(flatten(state))[:, None, None].repeat(80, axis=1)
    commands = np.array(command)[:, None, None].repeat(80, axis=1)
    parameters = [own for own in parameters_of(vehicle) if own.name in ("k_thrust", "centre_of_mass.x")]
    flown = Flown(np.arange(80) * 4e-3, rows, commands, np.array([1.0]))
    matrix = information(vehicle, flown, parameters)[0] / len(range(0, 80, EVERY))
    arm = np.mean([math.hypot(own.r_B.x, own.r_B.y) for own in vehicle.rotors])
    assert matrix[0, 0] == pytest.approx(0.02**-2, rel=1e-5)
    assert matrix[1, 1] == pytest.approx(0.02**-2, rel=1e-5)
    assert matrix[0, 1] == pytest.approx(0.0, abs=1e-3)
    moved = parameters[1].moved(vehicle, 0.01)
    turning = derivative(state, command, moved).omega_B
    weight = vehicle.mass * vehicle["gravity"].acceleration
    assert turning.y == pytest.approx(weight * 0.01 * arm / vehicle.inertia_B.yy, rel=1e-9)


def test_an_unknown_wind_takes_what_it_explains():
    """A parameter whose only trace is that of a steady wind is known no better than before"""
    seen, alike = np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, 1e3, 0.0, 0.0])
    assert standard_errors(1e6 * np.outer(seen, seen))[0] == pytest.approx(1e-3, rel=1e-3)
    assert standard_errors(1e6 * np.outer(alike, alike))[0] == pytest.approx(0.5, rel=1e-3)


def test_manoeuvres_are_chosen_until_nothing_is_gained():
    """Two that tell of one parameter each are shared out evenly; one that tells nothing is left out"""

    def telling(*diagonal):
        return np.diag([*diagonal, 0.0, 0.0, 0.0])

    given = [telling(50.0, 0.0), telling(0.0, 50.0), telling(0.0, 0.0)]
    candidates = [Candidate(Manoeuvre(str(i), ()), 5.0, own, "") for i, own in enumerate(given)]
    assert chosen(candidates, 42.0).tolist() == [4, 4, 0]


@pytest.mark.parametrize(
    ("room", "sentence"),
    [
        (Room(reach=-1.0), "reach is -1.0; expected a positive number"),
        (Room(low=3.0, high=3.2), "expected at least 0.5 m between"),
        (Room(tilt=2.0), "tilt is 2.0 rad"),
        (Room(thrust=math.nan), "thrust is nan"),
        (Room(wind=-1.0), "wind is -1.0"),
    ],
)
def test_a_room_that_cannot_be_is_refused(vehicle, room, sentence):
    with pytest.raises(ValueError, match=sentence):
        plan_flight(vehicle, 40.0, room)


def test_a_body_without_rotors_is_refused():
    with pytest.raises(ValueError, match="has no rotors"):
        plan_flight(samara.vehicle("rigid_body_quadrotor"))


def test_manoeuvres_begin_and_end_at_home(vehicle):
    from samara.identify.manoeuvres import family

    for own in family(vehicle, ROOM):
        way = trajectory([own], ROOM.home_W)
        for moment in (0.0, way.duration):
            assert Vec3(*way.at(moment).p_W) == pytest.approx(ROOM.home_W, abs=1e-4), own.name
