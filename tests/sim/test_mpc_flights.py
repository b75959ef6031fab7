"""The predictive controller of scenario files: its constraints are read in one sentence, hold in wind, and are recorded."""

import json
import math
import tomllib

import numpy as np
import pytest

import samara
from samara.control import MPC, controller_spec, keep_out_box, keep_out_sphere
from samara.control.controller_type import plain_option
from samara.control.mpc.constraint_tables import CONSTRAINT_TYPES, build_constraint, solid_constraints
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, quat_from_euler
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import Reference, State
from samara.scenario.file import ScenarioError, load_scenario
from samara.vehicles.shape import tip_radius
from samara.world.obstacles import HeightMap, signed_distance

SPHERE = {"type": "sphere", "centre": [1, 0, 1], "radius": 0.4}
EXAMPLES = {
    "sphere": {**SPHERE, "velocity": [0, 0.3, 0], "weight": 100.0},
    "capsule": {"type": "capsule", "start": [1, 0, 0], "end": [1, 0, 2], "radius": 0.3, "velocity": [0.1, 0, 0]},
    "solid_box": {
        "type": "solid_box",
        "centre": [1, 0, 1],
        "size": [1, 2, 3],
        "margin": 0.2,
        "rotation_deg": [0, 0, 30],
        "velocity": [0, 0, 0.1],
    },
    "half_space": {"type": "half_space", "normal": [0, 1, 0], "offset": -2},
    "box": {"type": "box", "low": [-1, -1, 0], "high": [1, 1, 2]},
    "altitude": {"type": "altitude", "low": 0.5, "high": 2},
    "speed": {"type": "speed", "max": 2},
    "tilt": {"type": "tilt", "max_deg": 35},
    "body_rate": {"type": "body_rate", "max": [8, 8, 3]},
}


# Reading ---------------------------------------------------------------------------------------------------------------


def test_every_type_of_constraint_is_read_and_survives_a_round_trip():
    assert set(EXAMPLES) == set(CONSTRAINT_TYPES)
    spec = controller_spec("mpc", constraints=list(EXAMPLES.values()), max_input_rate=[9, 1, 1, 1], delay=0.02)
    assert hash(spec) == hash(controller_spec("mpc", **spec.option_values))
    options = json.loads(json.dumps({key: plain_option(value) for key, value in spec.options}))
    assert controller_spec("mpc", **options) == spec
    tables = spec.option_values["constraints"]
    assert build_constraint(tables[0]) == keep_out_sphere((1, 0, 1), 0.4, velocity=(0, 0.3, 0), weight=100.0)
    assert tables[list(EXAMPLES).index("tilt")].values["max"] == math.radians(35)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (SPHERE | {"radius": -1}, "[0].radius = -1: expected a positive number"),
        (SPHERE | {"type": "sphre"}, "[0].type = 'sphre': there is no such constraint; did you mean sphere or speed?"),
        (SPHERE | {"radios": 1}, "[0].radios = 1: a sphere constraint has no such key; did you mean radius?"),
        (SPHERE | {"centre": [1, math.nan, 0]}, "[0].centre = [1, nan, 0]: expected three finite numbers"),
        (SPHERE | {"weight": 0}, "[0].weight = 0: expected a positive number"),
        ({"type": "sphere", "radius": 1}, "[0].centre is missing: expected three finite numbers"),
        ({"radius": 1}, f"[0].type is missing: expected one of {', '.join(CONSTRAINT_TYPES)}"),
        ({"type": "tilt", "max_deg": 200}, "[0].max_deg = 200: expected an angle between 0 and 180 degrees"),
        ({"type": "speed", "max_deg": 2}, "[0].max_deg = 2: a speed constraint has no such key; did you mean max?"),
        ({"type": "altitude", "low": 2, "high": 1}, "[0]: altitude_limits(2.0, 1.0): expected low < high"),
        ({"type": "half_space", "normal": [0, 0, 0], "offset": 1}, "[0].normal = [0, 0, 0]: expected three finite"),
        (3, "[0] = 3: expected a table, as "),
    ],
)
def test_an_invalid_constraint_is_one_sentence(table, message):
    with pytest.raises(ScenarioError) as caught:
        load_scenario("hover", {"drones.controller": {"type": "mpc", "constraints": [table]}})
    assert str(caught.value).startswith(f"hover.toml: drones[0].controller.constraints{message}")


def test_an_invalid_option_is_one_sentence():
    for options, message in (
        ({"constraints": "x"}, "constraints = 'x': expected a list of at most 64 tables with a type"),
        ({"max_input_rate": 0}, "max_input_rate = 0: expected a positive number, or one for each input"),
        ({"avoid_obstacles": 1}, "avoid_obstacles = 1: expected true or false"),
        ({"clearance": -1}, "clearance = -1: expected a number that is not negative"),
    ):
        with pytest.raises(ValueError, match="expected") as caught:
            controller_spec("mpc", **options)
        assert str(caught.value) == message


# Geometry --------------------------------------------------------------------------------------------------------------


def body_at(p_W):
    return State(Vec3(*p_W), ZERO, IDENTITY, ZERO, (), ())


def test_a_keep_out_constraint_is_the_signed_distance_of_the_solid():
    """g ≤ 0 exactly where the surface is further away than propellers and clearance together."""
    vehicle, rng = samara.vehicle("iris"), np.random.default_rng(5)
    tilted = Box(Vec3(0.5, 0.0, 1.0), Vec3(0.5, 0.2, 0.8), quat_from_euler(0.3, -0.4, 0.7))
    solids = (
        ("ball", Sphere(Vec3(0.3, 0.2, 1.0), 0.5)),
        ("pole", Capsule(ZERO, Vec3(0.0, 0.4, 2.0), 0.1)),
        ("point", Capsule(Vec3(0.0, 0.0, 1.0), Vec3(0.0, 0.0, 1.0), 0.1)),
        ("crate", tilted),
        ("wall", Ground(Vec3(1.0, 0.0, 0.0), Vec3(-0.6, 0.8, 0.0))),
    )
    margin = tip_radius(vehicle) + 0.1
    for (name, solid), constraint in zip(solids, solid_constraints(solids, vehicle, 0.1), strict=True):
        assert constraint.name == f"obstacle {name}"
        g, expected = [], []
        for p_W in rng.uniform((-1.5, -1.5, 0.0), (1.5, 1.5, 2.5), (200, 3)):
            g += constraint.evaluate(body_at(p_W), (), 0.0, constraint.values)
            expected.append(margin - signed_distance(solid, Vec3(*p_W)))
        scale = np.dot(g, expected) / np.dot(expected, expected)
        np.testing.assert_allclose(np.array(g) / scale, expected, atol=1e-5)  # [m]
        assert scale > 0.0 and min(g) < 0.0 < max(g)


def test_a_height_map_cannot_be_avoided():
    hill = HeightMap.from_grid([[0.0, 0.1], [0.3, 0.2]], 0.7)
    with pytest.raises(
        ValueError, match=r"avoid_obstacles: obstacle hill is a height map; expected a sphere, capsule,"
    ):
        solid_constraints([("hill", hill)], samara.vehicle("iris"), 0.1)


@pytest.mark.long
def test_a_campaign_states_constraints_as_a_file_has_them(course, tmp_path):
    campaign = tmp_path / "small.toml"
    campaign.write_text(
        'schema = 1\nscenario = "course.toml"\nflights = 2\n[settings]\nduration = 0.1\n"drones.count" = 1\n'
        "[vary]\nmass = { normal = [1.0, 0.05], relative = true }\n",
        encoding="utf-8",
    )
    spec = controller_spec("mpc", horizon=5, constraints=[SPHERE | {"centre": [3, 0, 1]}])
    store = samara.sweep(campaign, tmp_path / "out", controller=spec)
    assert store.table().num_rows == 2
    settings = tomllib.loads((tmp_path / "out" / "campaign.toml").read_text(encoding="utf-8"))["settings"]
    assert settings["drones.controller.constraints"] == [SPHERE | {"centre": [3.0, 0.0, 1.0]}]


def test_a_box_moves_with_its_velocity():
    box = keep_out_box((0, 0, 1), (1, 1, 1), 0.1, q_WS=Quat(1.0, 0.0, 0.0, 0.0), velocity=(0.5, 0, 0))
    (before,) = box.evaluate(body_at((-1.0, 0.0, 1.0)), (), 0.0, box.values)
    (after,) = box.evaluate(body_at((0.0, 0.0, 1.0)), (), 2.0, box.values)
    assert after == pytest.approx(before) and before == pytest.approx((0.1 - 0.5) / 0.6)


# The clock of obstacles ------------------------------------------------------------------------------------------------

CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, _ = samara.hover(CRAZYFLIE)
GOAL = HOVER.p_W + Vec3(1.0, 0.0, 0.0)


def ball_controller(centre, **options):
    """A controller that avoids a ball, whose centre is relative to the drone's at hover."""
    ball = keep_out_sphere(HOVER.p_W + Vec3(*centre), 0.35, velocity=(-0.5, 0.0, 0.0))
    return MPC(CRAZYFLIE, horizon=10, constraints=[ball], disturbance_time_constant=0.0, **options)


def test_obstacles_move_by_the_time_of_the_flight():
    """A group of drones that is formed at 8 s finds the obstacle where it is then."""
    estimate = np.array(samara.core.flatten(HOVER))[:, None]
    commands = []
    for centre, time in (((4.46, 0.1, 0.0), 8.0), ((0.46, 0.1, 0.0), None)):
        mpc = ball_controller(centre)
        goal = samara.core.flatten(Reference(GOAL))
        ahead = np.tile(np.array(goal)[:, None], (mpc.horizon + 1, 1, 1))
        batch = mpc.batch_controller(CRAZYFLIE, 1)
        batch.run(estimate, ahead, time)
        commands.append(batch.prediction.copy())
    np.testing.assert_allclose(*commands, atol=1e-9)
    assert commands[0][-1, 1, 0] < -0.05  # around the ball


def test_a_delayed_plan_starts_at_the_end_of_the_delay():
    """The tick and `solve` agree, in obstacles' positions too, and differ from the plan without delay."""
    plans = []
    for delay in (0.1, 0.0):
        mpc = ball_controller((0.46, 0.1, 0.0), delay=delay, max_iterations=3)
        _, controller_state = mpc(HOVER, GOAL, CRAZYFLIE, mpc.initial_state)
        plans.append(mpc.solve(HOVER, GOAL).controls)
        np.testing.assert_allclose(controller_state.controls, plans[-1], atol=1e-9)
    assert np.abs(plans[0] - plans[1]).max() > 1e-4


# Flights ---------------------------------------------------------------------------------------------------------------

CLEARANCE = 0.15
TOLERANCE = 0.03  # [m]: part of the clearance that gusts, and two obstacles that close a gap, may take
COURSE = """
name = "course"
duration = 9.0

[[wind]]
model = "dryden"
mean = [4, 0, 0]
sigma_aloft = 1.5

[[obstacles]]
name = "pole"
shape = "capsule"
start = [2.2, 1.0, 0.0]
end = [2.2, 1.0, 3.0]
radius = 0.1

[[obstacles]]
name = "crate"
shape = "box"
centre = [1.6, -1.3, 1.0]
size = [0.5, 0.5, 2.0]

[[drones]]
name = "drone"
vehicle = "iris"
count = 2
columns = 1
spacing = [0.0, 12.0, 0.0]
start = [0, 0, 1.5]
airborne = true

[drones.controller]
type = "mpc"
horizon = 40
control_iterations = 3
avoid_obstacles = true
clearance = 0.15
constraints = [
  { type = "sphere", centre = [0.4, -3.5, 1.5], radius = 0.75, velocity = [0, 0.9, 0] },
  { type = "tilt", max_deg = 40 },
  { type = "altitude", low = 1.0, high = 2.0 },
  { type = "speed", max = 2.5 },
]

[[drones.tasks]]
type = "figure8"
centre = [0, 0, 1.5]
half_length = 3.0
speed = 1.5
laps = 80
"""


def require_kept(run, document, drone=0):
    """Compare the recorded flight of a drone with all constraints: obstacles with nothing but their geometry."""
    track, controller = run.drone_records[drone], document["drones"][0]["controller"]
    p_W, v_W, time = track.position, track.velocity, track.time
    assert all(np.isfinite(table.rows).all() for table in track.tables.values()) and not run.crashed
    radius = tip_radius(track.vehicle)
    for obstacle in document["obstacles"]:
        if obstacle["shape"] == "capsule":
            start, axis = np.array(obstacle["start"]), np.subtract(obstacle["end"], obstacle["start"])
            fraction = np.clip((p_W - start) @ axis / (axis @ axis), 0.0, 1.0)
            distance = np.linalg.norm(p_W - start - fraction[:, None] * axis, axis=1) - obstacle["radius"]
        else:
            excess = np.abs(p_W - np.array(obstacle["centre"])) - 0.5 * np.array(obstacle["size"])
            distance = np.linalg.norm(np.maximum(excess, 0.0), axis=1)
        assert distance.min() - radius > CLEARANCE - TOLERANCE, obstacle["name"]
    for table in controller["constraints"]:
        if table["type"] == "sphere":
            centre = np.array(table["centre"]) + time[:, None] * np.array(table["velocity"])
            assert np.linalg.norm(p_W - centre, axis=1).min() > table["radius"] - TOLERANCE
    assert np.linalg.norm(v_W, axis=1).max() < 2.5
    assert p_W[:, 2].min() > 1.0 - TOLERANCE and p_W[:, 2].max() < 2.0 + TOLERANCE
    q = track.attitude
    assert np.degrees(np.arccos(1.0 - 2.0 * (q[:, 1] ** 2 + q[:, 2] ** 2))).max() < 40.0


@pytest.fixture
def course(tmp_path):
    path = tmp_path / "course.toml"
    path.write_text(COURSE, encoding="utf-8")
    return path


def test_two_drones_keep_every_constraint_in_gusts_and_the_recording_repeats_it(course):
    run = samara.fly(course)
    require_kept(run, tomllib.loads(COURSE))
    deviation = np.linalg.norm((run.position - run.reference_position)[run.time > 1.0], axis=1)
    assert deviation.max() > 0.5  # the reference leads through the crate
    loaded = samara.load_run(run.save(course.with_suffix(".mcap")))
    assert np.array_equal(samara.replay(loaded).position, run.position)
    options, _ = (drone["controller_options"] for drone in json.loads(loaded.metadata["drones"]))
    assert options["constraints"][0] == tomllib.loads(COURSE)["drones"][0]["controller"]["constraints"][0]


def test_a_setting_moves_an_obstacle_and_many_flights_are_the_single_ones(course):
    settings = {"duration": 1.0, "drones.count": 1, "drones.controller.constraints[0].centre": [0.9, 0.2, 1.5]}
    run = samara.fly(course, settings=settings)
    many = samara.fly_many(course, seeds=[0, 1], settings=settings, record=0.5)
    assert np.array_equal(many.states[-1, :3, 0], run.position[-1])
    assert np.linalg.norm(run.position[-1] - np.array([0.9, 1.1, 1.5])) > 0.73
    assert np.array_equal(samara.replay(run).position, run.position)


@pytest.mark.long
def test_ten_minutes_in_gusts_violate_nothing(course):
    """A ball crosses the path every fifty seconds, each time from another side."""
    document = tomllib.loads(COURSE)
    angles = 2.4 * np.arange(12)
    directions = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
    crossings = np.array([0.0, 0.0, 1.5]) - (25.0 + 50.0 * np.arange(12))[:, None] * 0.3 * directions
    balls = [
        {"type": "sphere", "centre": centre.tolist(), "radius": 0.75, "velocity": (0.3 * direction).tolist()}
        for centre, direction in zip(crossings, directions, strict=True)
    ]
    limits = document["drones"][0]["controller"]["constraints"][1:]
    document["drones"][0]["controller"]["constraints"] = balls + limits
    settings = {"duration": 600.0, "drones.count": 1, "drones.controller.constraints": balls + limits}
    require_kept(samara.fly(course, settings=settings), document)
