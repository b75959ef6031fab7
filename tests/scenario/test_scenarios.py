"""Scenario files: every shipped one satisfies its expectations, and an error in a file is one sentence."""

import math

import numpy as np
import pytest

import samara
from samara.core.integrate import FLIGHT_INTEGRATORS
from samara.record.run import check_expectations
from samara.scenario.file import ScenarioError, load_scenario, parse_scenario, scenario_names
from samara.scenario.file.mission import ACTIONS, TASKS
from samara.scenario.file.overrides import parse_override
from samara.vehicles.plausibility import warnings

SMALLEST = 'duration = 1.0\n[[drones]]\nvehicle = "crazyflie_documented"\n'


@pytest.mark.parametrize("name", scenario_names())
def test_every_shipped_scenario_satisfies_its_expectations(name):
    """The `expect` block is satisfied, and has at least two expectations."""
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description
    run = samara.fly(scenario)
    outcomes = check_expectations(run, scenario.expect)
    assert len(outcomes) >= 2
    assert [outcome.text for outcome in outcomes if not outcome.satisfied] == []
    for track in run.drone_records:
        rows = track.tables["command"].rows
        assert np.abs(np.diff(rows, axis=0)).mean() < 0.01, (
            f"{track.name} chatters: its motors would be hot, not flying"
        )


def test_shipped_scenarios_fly_plausible_aircraft():
    """Only Hakoniwa's own missions fly a vehicle of a source document, whose parameters `samara check` warns about."""
    flown = {name: load_scenario(name).drones for name in scenario_names() if not name.startswith("hakoniwa_")}
    assert "waypoints" in flown
    for name, drones in flown.items():
        assert [warning for drone in drones for warning in warnings(drone.vehicle)] == [], name


def test_vehicles_of_the_source_documents_are_marked():
    marked = [
        n for n in samara.vehicle_names() if samara.vehicle(n).structure.description.startswith("Source document")
    ]
    assert marked == ["crazyflie_documented", "hakoniwa", "iris_documented", "rigid_body_quadrotor"]


def test_the_scenarios_of_the_documents_are_shipped():
    names = {
        "hover",
        "waypoints",
        "hakoniwa_mission",
        "figure8",
        "wind",
        "motor_failure",
        "battery_sag",
        "race",
        "swarm",
    }
    assert names <= set(scenario_names())


def test_tasks_follow_each_other_without_a_jump():
    """Every shipped trajectory is continuous in position, velocity and acceleration from task to task, sampled at 1 kHz."""
    for name in scenario_names():
        scenario = load_scenario(name)
        task = scenario.drones[0].task
        time = np.arange(0.0, scenario.duration, 1e-3)
        reference = task.evaluate(time)
        for field, max_step in (("p_W", 0.012), ("v_W", 0.05)):
            rows = np.stack(np.broadcast_arrays(*getattr(reference, field), time)[:-1])
            assert np.abs(np.diff(rows, axis=1)).max() < max_step, (name, field)


def test_copies_stand_apart_and_fly_their_own_figures():
    """Twenty copies of one table: in rows of five, two metres apart, and so are their references at every time."""
    swarm = load_scenario("swarm")
    assert len(swarm.drones) == 20
    assert swarm.drones[7].start_W == (4.0, 2.0, 0.0)
    for time in (0.0, 3.0, 9.0):
        first, other = (np.array(swarm.drones[k].task.evaluate(time).p_W, dtype=float) for k in (0, 7))
        assert other - first == pytest.approx([4.0, 2.0, 0.0], abs=1e-9)


def test_the_smallest_file_hovers_where_it_stands():
    scenario = parse_scenario(SMALLEST, "mine.toml")
    assert (scenario.name, scenario.seed, len(scenario.drones)) == ("mine", 0, 1)
    assert scenario.drones[0].task.evaluate(0.5).p_W == (0.0, 0.0, 0.0)


def test_angles_in_degrees_and_wind_by_where_it_comes_from():
    text = SMALLEST + 'yaw_deg = 90\n[wind]\nmodel = "constant"\nspeed = 5\nfrom_deg = 270\n'
    scenario = parse_scenario(text, "mine.toml")
    assert scenario.drones[0].yaw == pytest.approx(math.pi / 2)
    assert scenario.wind.wind_W == pytest.approx((5.0, 0.0, 0.0), abs=1e-12), "from the west it blows east"


def test_a_vehicle_beside_the_scenario_is_found(tmp_path):
    samara.save_vehicle(samara.vehicle("crazyflie_documented", mass=0.03), tmp_path / "mine.toml")
    (tmp_path / "flight.toml").write_text('duration = 1.0\n[[drones]]\nvehicle = "mine.toml"\n')
    assert load_scenario(tmp_path / "flight.toml").drones[0].vehicle.mass == 0.03


def test_settings_change_the_file():
    changed = load_scenario("swarm", {"duration": 2.0, "drones.vehicle": "crazyflie", "rates.log": 50})
    assert changed.duration == 2.0
    assert {drone.vehicle.name for drone in changed.drones} == {"crazyflie"}
    assert changed.rates.log == 50.0
    assert load_scenario("motor_failure", {"drones[1].start": [0, 5, 9]}).drones[1].start_W == (0.0, 5.0, 9.0)
    assert parse_override("seed=7") == ("seed", 7)
    assert parse_override("drones.vehicle=iris") == ("drones.vehicle", "iris")
    assert parse_override("drones.start=[1, 2, 3]") == ("drones.start", [1, 2, 3])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("duration = -1", "mine.toml: duration = -1: expected a number above 0 and up to 86400"),
        ("duration = 1e300", "mine.toml: duration = 1e+300: expected a number above 0 and up to 86400"),
        ('duration = "long"', "mine.toml: duration = 'long': expected a number above 0 and up to 86400"),
        ("durations = 3", "mine.toml: durations = 3: expected only the keys duration, "),
        ("seed = -4", "mine.toml: seed = -4: expected a whole number from 0 to 9223372036854775807"),
        ("seed = 1.5", "mine.toml: seed = 1.5: expected a whole number"),
        ("schema = 2", "mine.toml: schema = 2: expected 1"),
        ('integrator = "rk23"', f"mine.toml: integrator = 'rk23': expected one of {', '.join(FLIGHT_INTEGRATORS)}"),
        ("strict = 1", "mine.toml: strict = 1: expected true or false"),
        (
            "[rates]\nwind = 300",
            "mine.toml: rates.wind is 300 Hz, a period of 3333.333 µs, not a whole number; the nearest",
        ),
        ("[rates]\nradar = 10", "mine.toml: rates.radar = 10: expected only the keys physics, "),
        (
            "[environment]\nground_normal = [0, 0, -1]",
            "mine.toml: environment.ground_normal = [0.0, 0.0, -1.0]: expected a v",
        ),
        ('[wind]\nmodel = "hurricane"', "mine.toml: wind[0].model = 'hurricane': expected one of none, constant, "),
        ('[wind]\nmodel = "constant"', "mine.toml: wind[0].wind_W is missing"),
        (
            '[wind]\nmodel = "gust"\namplitude_W = [1, 0]',
            "mine.toml: wind[0].amplitude_W = [1, 0]: expected three finite numb",
        ),
        ('[[events]]\ndo = "arm"', "mine.toml: events[0] has no time; expected one of at, at_step, when"),
        (
            '[[events]]\nat = 1\nwhen = "height > 1"\ndo = "arm"',
            "mine.toml: events[0] has at and when; expected one of",
        ),
        (
            '[[events]]\nat = -1\ndo = "arm"',
            "mine.toml: events[0].at: the time of an event is -1 s; expected a number tha",
        ),
        ('[[events]]\nat = 1\ndo = "explode"', "mine.toml: events[0].do = 'explode': expected one of arm, disarm, "),
        ('[[events]]\nat = 1\ndo = "fail_motor"', "mine.toml: events[0].motor is missing"),
        (
            '[[events]]\nat = 1\ndo = "fail_motor"\nmotor = "left"',
            "mine.toml: events[0].motor = 'left': expected a whole numb",
        ),
        ('[[events]]\nat = 1\ndo = "arm"\ndrone = "x"', "mine.toml: events[0].drone = 'x': expected one of drone0"),
        (
            '[[events]]\nwhen = "height is 5"\ndo = "arm"',
            "mine.toml: events[0].when: the condition 'height is 5' cannot be",
        ),
        ("[expect]\nmax_tilt = 3", "mine.toml: expect.max_tilt = 3: expected only the keys crashed, "),
        ("drones = 3", "mine.toml: drones = 3: expected a list of tables"),
        ("x = [" + "1, " * 10, "mine.toml: is not TOML"),
        ("seed = " + "9" * 5000, "mine.toml: "),
    ],
)
def test_a_slip_in_the_file_is_one_sentence(change, sentence):
    lines = SMALLEST.splitlines()
    if change.startswith("duration ="):
        text = "\n".join([change, *lines[1:]])
    elif change.startswith("drones"):
        text = "\n".join([lines[0], change])
    elif change.startswith("["):
        text = "\n".join([*lines, change])
    else:
        text = "\n".join([change, *lines])
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "mine.toml")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ('vehicle = "irish"', "mine.toml: drones[0].vehicle = 'irish': no vehicle 'irish'; expected"),
        (
            'vehicle = "iris_documented"\ncontroller = "magic"',
            "mine.toml: drones[0].controller = 'magic': expected one of geometric",
        ),
        (
            'vehicle = "iris_documented"\nsensors = ["sonar"]',
            "mine.toml: drones[0].sensors = ['sonar']: expected a list of names among imu,",
        ),
        (
            'vehicle = "iris_documented"\nstart = [0, 0]',
            "mine.toml: drones[0].start = [0, 0]: expected three finite numbers",
        ),
        (
            'vehicle = "iris_documented"\nstart = [0, 0, nan]',
            "mine.toml: drones[0].start = [0, 0, nan]: expected three finite numbers",
        ),
        (
            'vehicle = "iris_documented"\ncount = 0',
            "mine.toml: drones[0].count = 0: expected a whole number from 1 to 10000",
        ),
        (
            'vehicle = "iris_documented"\nname = "a/b"',
            "mine.toml: drones[0].name = 'a/b': expected letters, digits, - and _",
        ),
        (
            'vehicle = "iris_documented"\nmotor_map = [0, 1, 2, 2]',
            "mine.toml: drones[0].motor_map = [0, 1, 2, 2]: expected each of 0 to 3",
        ),
        (
            'vehicle = "iris_documented"\nestimator = "oracle"',
            "mine.toml: drones[0].estimator.type = 'oracle': expected one of truth, noisy",
        ),
        (
            'vehicle = "iris_documented"\nestimator = { type = "delayed", delay = 0.005 }',
            "mine.toml: drones[0].estimator: delay is 0.005 s; expected a multiple of the estimator's period of 0.004 s",
        ),
        (
            'vehicle = "iris_documented"\n[[drones.tasks]]\ntype = "circle"\ncentre = [0, 0, 1]\nradius = -2\nspeed = 1',
            "mine.toml: drones[0].tasks[0]: circle: radius is -2; expected a positive number",
        ),
        (
            'vehicle = "iris_documented"\n[[drones.tasks]]\ntype = "circle"\ncentre = [0, 0, 1]\nradius = 2',
            "mine.toml: drones[0].tasks[0].speed is missing",
        ),
        (
            'vehicle = "iris_documented"\n[[drones.tasks]]\ntype = "take_off"\nheight = 2\nhaste = 1',
            "mine.toml: drones[0].tasks[0].haste = 1: expected only the keys type, height, speed, acceleration, yaw here",
        ),
        (
            'vehicle = "iris_documented"\n[[drones.tasks]]\ntype = "waypoints"\npoints = [[1, 2]]',
            "mine.toml: drones[0].tasks[0].points[0] = [1, 2]: expected three finite numbers",
        ),
        (
            'vehicle = "iris_documented"\n[[drones.tasks]]\ntype = "hover"\n[[drones.tasks]]\ntype = "land"',
            "mine.toml: drones[0].tasks[0] never ends; expected a duration, or it to be the last",
        ),
    ],
)
def test_a_slip_in_a_drone_is_one_sentence(table, sentence):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"duration = 1.0\n[[drones]]\n{table}\n", "mine.toml")
    assert str(caught.value).startswith(sentence)


def test_an_unknown_scenario_name_is_an_error():
    with pytest.raises(ScenarioError, match=r"no scenario 'hoover'; expected a .toml file or one of battery_sag, "):
        load_scenario("hoover")


def test_settings_without_a_matching_entry_are_an_error():
    with pytest.raises(ScenarioError, match=r"cannot set 'drones\[7\]\.start': there is no 'drones\[7\]'"):
        load_scenario("hover", {"drones[7].start": [0, 0, 0]})
    with pytest.raises(ScenarioError, match="--set 'duration': expected key=value"):
        parse_override("duration")


def test_an_event_may_give_a_whole_task():
    text = SMALLEST + 'sensors = ["imu"]\n[[events]]\nat = 0.5\ndo = "follow"\ntask = { type = "circle", '
    text += "centre = [2, 0, 1], radius = 1, speed = 0.5 }\n"
    scenario = parse_scenario(text, "mine.toml")
    assert scenario.events[0].name == "follow circle"
    assert [sensor.name for sensor in scenario.drones[0].sensors] == ["imu"]
    with pytest.raises(ScenarioError, match=r"events\[0\].task.type = 'take_off': expected one of hover, waypoints"):
        parse_scenario(text.replace('"circle"', '"take_off"'), "mine.toml")


def test_every_kind_of_task_and_event_can_be_named():
    """Each function a file can call has its arguments annotated, so that a wrong type is found before it is called."""
    from typing import get_type_hints

    for function in (*TASKS.values(), *ACTIONS.values()):
        assert set(get_type_hints(function)) - {"return"}, function
