"""The flight that tells most: what it tells, that it stays in its room, and that its files fly."""

import math
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import random_vehicle

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.identify.experiment_design import Candidate, FlightPlan, _as_long, chosen, flown_in, plan_flight, write_plan
from samara.identify.fisher_information import (
    GUSTS,
    NOISE,
    SLOW,
    Flown,
    Noise,
    aims_of,
    information,
    noise,
    parameters_of,
    shortfall,
    standard_errors,
    whitened,
)
from samara.identify.manoeuvres import Manoeuvre, Room, family, trajectory
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import command_from_speed
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
    aims = aims_of(parameters_of(vehicle))
    return float(shortfall(information(vehicle, flown, parameters_of(vehicle))[0], aims)), flown


@pytest.mark.long
def test_the_plan_leaves_less_missing_than_any_manoeuvre_flown_as_long(vehicle, plan):
    """In the whole flight as it is flown, and not in the sum it was chosen by"""
    missing, _ = told_by(vehicle, plan.manoeuvres)
    assert plan.duration <= 40.0
    aims = aims_of(parameters_of(vehicle))
    for own in plan.candidates:
        if not own.unsafe:
            assert missing < float(shortfall(own.information * (40.0 / own.duration), aims)), own.manoeuvre.name
    assert missing == pytest.approx(plan.shortfall, rel=0.05)
    assert plan.single > plan.shortfall


@pytest.mark.long
def test_the_plan_excites_every_axis(vehicle, plan):
    """Roll, pitch and yaw alike: inertias and the rotors' torque come out far better than they were known before"""
    for name in ("inertia.xx", "inertia.yy", "inertia.zz", "k_torque"):
        assert plan.errors[name] < 0.15, name


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
    assert all(
        own.satisfied for own in samara.record.run.check_expectations(run, samara.load_scenario(scenario).expect)
    )
    file = read_waypoints(waypoints)
    asked = plan.trajectory.at(np.array(file.times))
    assert np.array(file.points) == pytest.approx(np.stack(asked.p_W, axis=1), abs=1e-4)
    assert file.times[-1] >= plan.duration


@pytest.mark.parametrize("name", ['5" racer', 'a"\nduration = 1e9\n[x]', "a\\b", "../x", "a\x7f\u2028😀"])
def test_a_plan_for_a_vehicle_of_any_name_is_a_scenario(name, vehicle, tmp_path):
    """Its file is written in the folder, is TOML, and says of the vehicle what it is called."""
    own = replace(vehicle, structure=replace(vehicle.structure, name=name))
    still = Manoeuvre("stay", ({"kind": "hover", "duration": 2.0},))
    scenario, waypoints = write_plan(FlightPlan(own, (still,), ROOM, 2.0, 0.0, 0.0, {}, ()), tmp_path, "hexarotor_x")
    assert sorted(tmp_path.iterdir()) == sorted((scenario, waypoints))
    text = scenario.read_text(encoding="utf-8")
    document = tomllib.loads(text)
    assert document["description"] == f"1 manoeuvres to identify {name}" and document["duration"] < 60.0
    assert all(line.startswith("#") for line in text.split("\n")[:2]) and "x" not in document
    assert samara.load_scenario(scenario).name == scenario.stem


def test_sensitivities_are_those_of_the_equations_of_motion(vehicle):
    """∂f/∂ ln kF is the specific force of thrust itself, here of rotors whose speed swings; no other output has a part in it"""
    state, _ = samara.hover(vehicle)
    time = np.arange(12 * 80) * 4e-3
    rows = np.array(flatten(state))[:, None, None].repeat(len(time), axis=1)
    swing = 1.0 + 0.05 * np.sin(2.0 * math.pi * time)
    rows[13:, :, 0] *= swing
    told = [
        command_from_speed(own * swing, rotor.motor)
        for own, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    ]
    commands = np.stack(told)[:, :, None]
    still = vehicle.replace({"rotors.motor.rise": 1e-6, "rotors.motor.fall": 1e-6})  # follow at once: a row late
    (own,) = [each for each in parameters_of(still) if each.name == "k_thrust"]
    (matrix,) = information(still, Flown(time, rows, commands, np.array([time[-1] + 1.0])), [own])
    late = np.concatenate([swing[:1], swing[:-1]])[::12]
    g = float(vehicle["gravity"].acceleration)
    force = np.zeros((6, len(late)))
    force[2] = g * late**2
    to_wind = wind_by_hand(still, rows[:, ::12, 0])
    expected = np.square(whitened(force, noise(still, to_wind), 0.048)).sum()
    assert matrix[0, 0] == pytest.approx(expected, rel=1e-4)


def wind_by_hand(vehicle, rows):
    """(3, 6, m): how wind along each axis is felt, by differences of the equations of motion"""
    felt = []
    for k in range(rows.shape[1]):
        state = State.from_numpy(rows[:, k], "wxyz", vehicle)
        command = tuple(samara.hover(vehicle)[1])
        calm = derivative(state, command, vehicle)
        each = []
        for axis in range(3):
            wind = Vec3(*(1e-4 if own == axis else 0.0 for own in range(3)))
            windy = derivative(state, command, vehicle, samara.CALM._replace(wind_W=wind))
            each.append([*((windy.v_W - calm.v_W) * 1e4), *((windy.omega_B - calm.omega_B) * 1e4)])
        felt.append(each)
    return np.moveaxis(np.array(felt, dtype=float), 0, -1)


def test_gusts_act_through_drag_and_white_noise_is_a_part_of_the_weight(vehicle):
    """σ of force is drag/m times the gust, along x and y; 1 % of g without any"""
    to_wind = np.zeros((3, 6, 5))
    to_wind[0, 0] = to_wind[1, 1] = 0.4
    to_wind[2, 2] = 0.2
    own = noise(vehicle, to_wind)
    assert own.gusts == pytest.approx([0.4 * GUSTS[0], 0.4 * GUSTS[1], 0.2 * GUSTS[2], 0.0, 0.0, 0.0])
    assert own.white[:3] == pytest.approx(NOISE * vehicle["gravity"].acceleration)
    weight, arm = vehicle.mass * vehicle["gravity"].acceleration, math.hypot(*vehicle.rotors[0].r_B[:2])
    assert own.white[3] == pytest.approx(math.hypot(NOISE * weight * arm / vehicle.inertia_B.xx, 0.1))


def test_whitening_makes_white_what_gusts_and_sensors_add():
    """An autoregression of first order with white noise on it, drawn: its rows come out with variance one, unlike neighbours
    left apart; a constant, and all that is slow, is gone"""
    rng, dt, n = np.random.default_rng(5), 0.048, 40_000
    rho = math.exp(-dt)
    gust = np.zeros(n)
    kicks = rng.standard_normal(n) * math.sqrt(1.0 - rho * rho)
    for k in range(1, n):
        gust[k] = rho * gust[k - 1] + kicks[k]
    for white, strength in ((0.1, 2.0), (3.0, 0.1)):
        own = Noise(np.array([white]), np.array([strength]))
        rows = whitened(7.0 + (strength * gust + white * rng.standard_normal(n))[None], own, dt)[0]
        assert rows.var() == pytest.approx(1.0, rel=0.05)
    own = Noise(np.array([0.1]), np.array([2.0]))
    rows = whitened((2.0 * gust + 0.1 * rng.standard_normal(n))[None], own, dt)[0]
    assert abs(np.mean(rows[1:] * rows[:-1])) < 0.15
    steady = whitened(np.full((1, 500), 7.0), own, dt)
    assert steady == pytest.approx(np.zeros((1, 500)), abs=1e-9)
    quick = np.sin(2.0 * math.pi * np.arange(500) * dt / (SLOW / 10.0))[None]
    assert whitened(quick, own, dt)[0, 100:400].std() == pytest.approx(
        math.sqrt(0.5) * abs(1.0 - rho * np.exp(-2j * math.pi * dt / (SLOW / 10.0)))
        / math.sqrt((1.0 - rho**2) * 4.0 + (1.0 + rho**2) * 0.01),
        rel=0.03,
    )  # fmt: skip


def stepped(vehicle, change, seconds):
    """From hover, all motors told to turn faster or slower from the start on; a second after that as before"""
    state, _ = samara.hover(vehicle)
    time = np.arange(0.0, seconds, 4e-3)
    rows = np.array(flatten(state))[:, None].repeat(len(time), axis=1)
    factor = np.where(time < 1.0, 1.0 + change, 1.0 if change < 0.0 else 1.0 + change)
    told = [
        command_from_speed(own * factor, rotor.motor)
        for own, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    ]
    return time, rows, np.stack(told)


def test_a_flight_that_only_speeds_up_tells_nothing_of_slowing_down(vehicle):
    """Rise and fall are lags of their own: the one is told by steps up, the other by steps down"""
    parameters = [own for own in parameters_of(vehicle) if own.name.startswith("motor.")]
    time, rows, commands = stepped(vehicle, 0.1, 3.0)
    rising, falling = information(
        vehicle, Flown(time, rows[..., None], commands[..., None], np.array([9.0])), parameters
    )[0][:2, :2]
    assert rising[0] > 1.0 and falling[1] == pytest.approx(0.0, abs=1e-9) and rising[1] == pytest.approx(0.0, abs=1e-9)
    time, rows, commands = stepped(vehicle, -0.1, 3.0)
    both = information(vehicle, Flown(time, rows[..., None], commands[..., None], np.array([0.9])), parameters)[0]
    assert both[1, 1] > 1.0 and both[0, 0] == pytest.approx(0.0, abs=1e-9)


def test_flights_side_by_side_tell_what_each_tells_alone(vehicle):
    """As long as each lasts: what is recorded after its end says nothing"""
    parameters = parameters_of(vehicle)
    time, first, told_first = stepped(vehicle, 0.1, 4.0)
    _, second, told_second = stepped(vehicle, -0.2, 4.0)
    rows, commands = np.stack([first, second], axis=-1), np.stack([told_first, told_second], axis=-1)
    both = information(vehicle, Flown(time, rows, commands, np.array([4.0, 1.7])), parameters)
    for lane, lasting in enumerate((4.0, 1.7)):
        own = slice(0, round(lasting / 4e-3))
        alone = Flown(time[own], rows[:, own, lane : lane + 1], commands[:, own, lane : lane + 1], np.array([lasting]))
        assert both[lane] == pytest.approx(information(vehicle, alone, parameters)[0], rel=1e-9, abs=1e-9)


def test_flights_of_about_one_length_are_flown_together():
    assert _as_long([30.0, 2.0, 5.0, 6.1, 3.0, 18.2]) == [[1, 4, 2], [3, 5], [0]]


def test_what_is_missing_counts_by_aims():
    """Σ ln(1 + (σ/aim)²): as ln σ² far above its aim, nothing far below; 2 % of thrust, 5 of inertia, 10 of lag and drag"""
    names = ("k_thrust", "inertia.xx", "motor.rise", "drag.linear.x")
    asked = [own for own in parameters_of(random_vehicle(1, 1)) if own.name in names]
    assert aims_of(asked).tolist() == [0.02, 0.05, 0.1, 0.1]
    aims = np.array([0.02, 0.1])

    def missing(*sigma):
        return float(shortfall(np.diag([*(own**-2.0 - 4.0 for own in sigma), 0.0, 0.0, 0.0]), aims))

    assert missing(0.02, 0.1) == pytest.approx(2.0 * math.log(2.0))
    assert missing(1e-5, 1e-5) == pytest.approx(0.0, abs=1e-5)
    assert missing(0.02, 0.49) - missing(0.02, 0.245) == pytest.approx(math.log((1 + 4.9**2) / (1 + 2.45**2)))


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
    assert chosen(candidates, 42.0, np.array([0.02, 0.02])).tolist() == [4, 4, 0]
    assert chosen(candidates, 42.0, np.array([0.02, 0.4])).tolist() == [7, 1, 0]


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


@pytest.mark.parametrize("room", [ROOM, ROOM._replace(speed=0.4)])
def test_manoeuvres_begin_and_end_at_home_and_keep_the_speed(vehicle, room):
    for own in family(vehicle, room):
        way = trajectory([own], room.home_W)
        for moment in (0.0, way.duration):
            assert Vec3(*way.at(moment).p_W) == pytest.approx(room.home_W, abs=1e-4), own.name
        assert way.at(way.duration).yaw == pytest.approx(0.0, abs=1e-9) or "knot" in own.name, own.name
        asked = way.at(np.arange(0.0, way.duration, 0.01))
        assert np.sqrt(sum(np.square(v) for v in asked.v_W)).max() <= 0.901 * room.speed, own.name
