"""The most informative flight: its information, its limits, and that its files fly."""

import math
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from studies.synthetic import random_vehicle

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.identify.experiment_design import (
    Candidate,
    FlightPlan,
    _group_by_duration,
    choose_counts,
    plan_flight,
    simulate_tasks,
    write_plan,
)
from samara.identify.fisher_information import (
    GUST_SIGMAS,
    MODEL_NOISE,
    SLOW_MEAN_S,
    OutputNoise,
    SimulatedFlights,
    experiment_parameters,
    information_matrices,
    output_noise,
    shortfall,
    standard_errors,
    target_errors,
    whiten,
)
from samara.identify.manoeuvres import FlightVolume, Manoeuvre, manoeuvre_family, manoeuvre_trajectory
from samara.physics.multirotor import derivative
from samara.physics.rotors.actuator import command_from_speed
from samara.physics.types import State, Vehicle
from samara.plan.waypoint_file import read_waypoints

ROOM = FlightVolume(reach=2.0, low=0.5, high=3.0, speed=3.0)


@pytest.fixture(scope="module")
def vehicle() -> Vehicle:
    return samara.vehicle("hexarotor_x")


@pytest.fixture(scope="module")
def plan(vehicle):
    return plan_flight(vehicle, 40.0, ROOM)


def fly_manoeuvres(vehicle, manoeuvres):
    """Fly manoeuvres; return their shortfall and the flight."""
    flights = simulate_tasks([vehicle], [manoeuvre_trajectory(manoeuvres, ROOM.home_W)], [ROOM])
    targets = target_errors(experiment_parameters(vehicle))
    return float(shortfall(information_matrices(vehicle, flights, experiment_parameters(vehicle))[0], targets)), flights


@pytest.mark.long
def test_the_plan_leaves_less_missing_than_any_manoeuvre_flown_as_long(vehicle, plan):
    """For the complete flight as it is simulated, not the sum by which it was chosen."""
    missing, _ = fly_manoeuvres(vehicle, plan.manoeuvres)
    assert plan.duration <= 40.0
    targets = target_errors(experiment_parameters(vehicle))
    for candidate in plan.candidates:
        if not candidate.unsafe:
            assert missing < float(shortfall(candidate.information * (40.0 / candidate.duration), targets)), (
                candidate.manoeuvre.name
            )
    assert missing == pytest.approx(plan.shortfall, rel=0.05)
    assert plan.single_shortfall > plan.shortfall


@pytest.mark.long
def test_the_plan_excites_every_axis(vehicle, plan):
    """Roll, pitch and yaw: inertias and the rotors' torque are far more accurate than the prior."""
    for name in ("inertia.xx", "inertia.yy", "inertia.zz", "k_torque"):
        assert plan.errors[name] < 0.15, name


@pytest.mark.long
def test_the_plan_stays_in_its_room(vehicle, plan):
    _, flights = fly_manoeuvres(vehicle, plan.manoeuvres)
    state = State.from_numpy(flights.states[:, :, 0], "wxyz", vehicle)
    assert max(np.abs(state.p_W.x).max(), np.abs(state.p_W.y).max()) <= ROOM.reach
    assert ROOM.low <= state.p_W.z.min() and state.p_W.z.max() <= ROOM.high
    up = 1.0 - 2.0 * (state.q_WB.x**2 + state.q_WB.y**2)
    assert math.degrees(np.arccos(up.min())) <= math.degrees(ROOM.tilt)


@pytest.mark.long
def test_the_files_of_a_plan_fly(plan, tmp_path):
    scenario, waypoints = write_plan(plan, tmp_path)
    run = samara.fly(scenario)
    assert all(
        check.satisfied for check in samara.record.run.check_expectations(run, samara.load_scenario(scenario).expect)
    )
    file = read_waypoints(waypoints)
    references = plan.trajectory.evaluate(np.array(file.times))
    assert np.array(file.points) == pytest.approx(np.stack(references.p_W, axis=1), abs=1e-4)
    assert file.times[-1] >= plan.duration


@pytest.mark.parametrize("name", ['5" racer', 'a"\nduration = 1e9\n[x]', "a\\b", "../x", "a\x7f\u2028😀"])
def test_a_plan_for_a_vehicle_of_any_name_is_a_scenario(name, vehicle, tmp_path):
    """Its file is written in the folder, is TOML, and contains the vehicle's name."""
    renamed = replace(vehicle, structure=replace(vehicle.structure, name=name))
    hover_task = Manoeuvre("stay", ({"type": "hover", "duration": 2.0},))
    scenario, waypoints = write_plan(
        FlightPlan(renamed, (hover_task,), ROOM, 2.0, 0.0, 0.0, {}, ()), tmp_path, "hexarotor_x"
    )
    assert sorted(tmp_path.iterdir()) == sorted((scenario, waypoints))
    text = scenario.read_text(encoding="utf-8")
    document = tomllib.loads(text)
    assert document["description"] == f"1 manoeuvres to identify {name}" and document["duration"] < 60.0
    assert all(line.startswith("#") for line in text.split("\n")[:2]) and "x" not in document
    assert samara.load_scenario(scenario).name == scenario.stem


def test_sensitivities_are_those_of_the_equations_of_motion(vehicle):
    """∂f/∂ ln kF is the specific force of the thrust, here of rotors whose speed oscillates; no other output contributes."""
    state, _ = samara.hover(vehicle)
    time = np.arange(12 * 80) * 4e-3
    rows = np.array(flatten(state))[:, None, None].repeat(len(time), axis=1)
    swing = 1.0 + 0.05 * np.sin(2.0 * math.pi * time)
    rows[13:, :, 0] *= swing
    motor_commands = [
        command_from_speed(speed * swing, rotor.motor)
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    ]
    commands = np.stack(motor_commands)[:, :, None]
    fast_motors = vehicle.replace(
        {"rotors.motor.time_constant_up": 1e-6, "rotors.motor.time_constant_down": 1e-6}
    )  # respond at once: one row late
    (thrust_parameter,) = [
        parameter for parameter in experiment_parameters(fast_motors) if parameter.name == "k_thrust"
    ]
    (matrix,) = information_matrices(
        fast_motors, SimulatedFlights(time, rows, commands, np.array([time[-1] + 1.0])), [thrust_parameter]
    )
    delayed = np.concatenate([swing[:1], swing[:-1]])[::12]
    g = float(vehicle["gravity"].acceleration)
    force = np.zeros((6, len(delayed)))
    force[2] = g * delayed**2
    wind_sensitivity = wind_by_hand(fast_motors, rows[:, ::12, 0])
    expected = np.square(whiten(force, output_noise(fast_motors, wind_sensitivity), 0.048)).sum()
    assert matrix[0, 0] == pytest.approx(expected, rel=1e-4)


def wind_by_hand(vehicle, rows):
    """Sensitivity (3, 6, m) to wind along each axis, by differences of the equations of motion."""
    sensitivities = []
    for k in range(rows.shape[1]):
        state = State.from_numpy(rows[:, k], "wxyz", vehicle)
        command = tuple(samara.hover(vehicle)[1])
        calm = derivative(state, command, vehicle)
        by_axis = []
        for axis in range(3):
            wind = Vec3(*(1e-4 if index == axis else 0.0 for index in range(3)))
            windy = derivative(state, command, vehicle, samara.CALM._replace(wind_W=wind))
            by_axis.append([*((windy.v_W - calm.v_W) * 1e4), *((windy.omega_B - calm.omega_B) * 1e4)])
        sensitivities.append(by_axis)
    return np.moveaxis(np.array(sensitivities, dtype=float), 0, -1)


def test_gusts_act_through_drag_and_white_noise_is_a_part_of_the_weight(vehicle):
    """σ of force is drag/m times the gust, along x and y; 1 % of g without gusts."""
    wind_sensitivity = np.zeros((3, 6, 5))
    wind_sensitivity[0, 0] = wind_sensitivity[1, 1] = 0.4
    wind_sensitivity[2, 2] = 0.2
    output_sigma = output_noise(vehicle, wind_sensitivity)
    assert output_sigma.gusts == pytest.approx(
        [0.4 * GUST_SIGMAS[0], 0.4 * GUST_SIGMAS[1], 0.2 * GUST_SIGMAS[2], 0.0, 0.0, 0.0]
    )
    assert output_sigma.white[:3] == pytest.approx(MODEL_NOISE * vehicle["gravity"].acceleration)
    weight, arm = vehicle.mass * vehicle["gravity"].acceleration, math.hypot(*vehicle.rotors[0].r_B[:2])
    assert output_sigma.white[3] == pytest.approx(math.hypot(MODEL_NOISE * weight * arm / vehicle.inertia_B.xx, 0.1))


def test_whitening_makes_white_what_gusts_and_sensors_add():
    """A simulated first-order autoregression plus white noise: whitened rows have variance one and uncorrelated neighbours;
    constants and slow signals are removed."""
    rng, dt, n = np.random.default_rng(5), 0.048, 40_000
    rho = math.exp(-dt)
    gust = np.zeros(n)
    kicks = rng.standard_normal(n) * math.sqrt(1.0 - rho * rho)
    for k in range(1, n):
        gust[k] = rho * gust[k - 1] + kicks[k]
    for white, strength in ((0.1, 2.0), (3.0, 0.1)):
        noise_sigma = OutputNoise(np.array([white]), np.array([strength]))
        rows = whiten(7.0 + (strength * gust + white * rng.standard_normal(n))[None], noise_sigma, dt)[0]
        assert rows.var() == pytest.approx(1.0, rel=0.05)
    noise_sigma = OutputNoise(np.array([0.1]), np.array([2.0]))
    rows = whiten((2.0 * gust + 0.1 * rng.standard_normal(n))[None], noise_sigma, dt)[0]
    assert abs(np.mean(rows[1:] * rows[:-1])) < 0.15
    steady = whiten(np.full((1, 500), 7.0), noise_sigma, dt)
    assert steady == pytest.approx(np.zeros((1, 500)), abs=1e-9)
    fast_signal = np.sin(2.0 * math.pi * np.arange(500) * dt / (SLOW_MEAN_S / 10.0))[None]
    assert whiten(fast_signal, noise_sigma, dt)[0, 100:400].std() == pytest.approx(
        math.sqrt(0.5) * abs(1.0 - rho * np.exp(-2j * math.pi * dt / (SLOW_MEAN_S / 10.0)))
        / math.sqrt((1.0 - rho**2) * 4.0 + (1.0 + rho**2) * 0.01),
        rel=0.03,
    )  # fmt: skip


def step_motors(vehicle, change, seconds):
    """From hover, command all motors to a higher or lower speed; a second later back to the first if it was lower."""
    state, _ = samara.hover(vehicle)
    time = np.arange(0.0, seconds, 4e-3)
    rows = np.array(flatten(state))[:, None].repeat(len(time), axis=1)
    factor = np.where(time < 1.0, 1.0 + change, 1.0 if change < 0.0 else 1.0 + change)
    motor_commands = [
        command_from_speed(speed * factor, rotor.motor)
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    ]
    return time, rows, np.stack(motor_commands)


def test_a_flight_that_only_speeds_up_tells_nothing_of_slowing_down(vehicle):
    """Rise and fall are separate lags: steps up determine the one, steps down the other."""
    parameters = [parameter for parameter in experiment_parameters(vehicle) if parameter.name.startswith("motor.")]
    time, rows, commands = step_motors(vehicle, 0.1, 3.0)
    rising, falling = information_matrices(
        vehicle, SimulatedFlights(time, rows[..., None], commands[..., None], np.array([9.0])), parameters
    )[0][:2, :2]
    assert rising[0] > 1.0 and falling[1] == pytest.approx(0.0, abs=1e-9) and rising[1] == pytest.approx(0.0, abs=1e-9)
    time, rows, commands = step_motors(vehicle, -0.1, 3.0)
    matrix = information_matrices(
        vehicle, SimulatedFlights(time, rows[..., None], commands[..., None], np.array([0.9])), parameters
    )[0]
    assert matrix[1, 1] > 1.0 and matrix[0, 0] == pytest.approx(0.0, abs=1e-9)


def test_flights_side_by_side_tell_what_each_tells_alone(vehicle):
    """For the duration of each flight: rows after its end carry no information."""
    parameters = experiment_parameters(vehicle)
    time, first, first_commands = step_motors(vehicle, 0.1, 4.0)
    _, second, second_commands = step_motors(vehicle, -0.2, 4.0)
    rows, commands = np.stack([first, second], axis=-1), np.stack([first_commands, second_commands], axis=-1)
    matrices = information_matrices(vehicle, SimulatedFlights(time, rows, commands, np.array([4.0, 1.7])), parameters)
    for lane, duration in enumerate((4.0, 1.7)):
        span = slice(0, round(duration / 4e-3))
        single = SimulatedFlights(
            time[span], rows[:, span, lane : lane + 1], commands[:, span, lane : lane + 1], np.array([duration])
        )
        assert matrices[lane] == pytest.approx(information_matrices(vehicle, single, parameters)[0], rel=1e-9, abs=1e-9)


def test_flights_of_about_one_length_are_flown_together():
    assert _group_by_duration([30.0, 2.0, 5.0, 6.1, 3.0, 18.2]) == [[1, 4, 2], [3, 5], [0]]


def test_what_is_missing_counts_by_aims():
    """Σ ln(1 + (σ/aim)²): as ln σ² far above the target, nothing far below; 2 % of thrust, 5 of inertia, 10 of lag and drag."""
    names = ("k_thrust", "inertia.xx", "motor.time_constant_up", "drag.linear.x")
    parameters = [parameter for parameter in experiment_parameters(random_vehicle(1, 1)) if parameter.name in names]
    assert target_errors(parameters).tolist() == [0.02, 0.05, 0.1, 0.1]
    targets = np.array([0.02, 0.1])

    def total_shortfall(*sigma):
        return float(shortfall(np.diag([*(s**-2.0 - 4.0 for s in sigma), 0.0, 0.0, 0.0]), targets))

    assert total_shortfall(0.02, 0.1) == pytest.approx(2.0 * math.log(2.0))
    assert total_shortfall(1e-5, 1e-5) == pytest.approx(0.0, abs=1e-5)
    assert total_shortfall(0.02, 0.49) - total_shortfall(0.02, 0.245) == pytest.approx(
        math.log((1 + 4.9**2) / (1 + 2.45**2))
    )


def test_an_unknown_wind_takes_what_it_explains():
    """A parameter whose only effect equals that of a steady wind stays as uncertain as its prior."""
    distinct, like_wind = np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, 1e3, 0.0, 0.0])
    assert standard_errors(1e6 * np.outer(distinct, distinct))[0] == pytest.approx(1e-3, rel=1e-3)
    assert standard_errors(1e6 * np.outer(like_wind, like_wind))[0] == pytest.approx(0.5, rel=1e-3)


def test_manoeuvres_are_chosen_until_nothing_is_gained():
    """Two manoeuvres with information on one parameter each are repeated equally; one without information is left out."""

    def diagonal_matrix(*diagonal):
        return np.diag([*diagonal, 0.0, 0.0, 0.0])

    matrices = [diagonal_matrix(50.0, 0.0), diagonal_matrix(0.0, 50.0), diagonal_matrix(0.0, 0.0)]
    candidates = [Candidate(Manoeuvre(str(i), ()), 5.0, matrix, "") for i, matrix in enumerate(matrices)]
    assert choose_counts(candidates, 42.0, np.array([0.02, 0.02])).tolist() == [4, 4, 0]
    assert choose_counts(candidates, 42.0, np.array([0.02, 0.4])).tolist() == [7, 1, 0]


@pytest.mark.parametrize(
    ("room", "sentence"),
    [
        (FlightVolume(reach=-1.0), "reach is -1.0; expected a positive number"),
        (FlightVolume(low=3.0, high=3.2), "expected at least 0.5 m between"),
        (FlightVolume(tilt=2.0), "tilt is 2.0 rad"),
        (FlightVolume(thrust=math.nan), "thrust is nan"),
        (FlightVolume(wind=-1.0), "wind is -1.0"),
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
    for manoeuvre in manoeuvre_family(vehicle, room):
        path = manoeuvre_trajectory([manoeuvre], room.home_W)
        for moment in (0.0, path.duration):
            assert Vec3(*path.evaluate(moment).p_W) == pytest.approx(room.home_W, abs=1e-4), manoeuvre.name
        assert path.evaluate(path.duration).yaw == pytest.approx(0.0, abs=1e-9) or "knot" in manoeuvre.name, (
            manoeuvre.name
        )
        references = path.evaluate(np.arange(0.0, path.duration, 0.01))
        assert np.sqrt(sum(np.square(v) for v in references.v_W)).max() <= 0.901 * room.speed, manoeuvre.name
