"""Navigate: the forest, collisions with it, the depth images, and the policy that comes with Samara."""

import math
import runpy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.repository import REPOSITORY

import samara
from samara.control.depth_observation import BLOCK_COUNT, COLUMNS, ROWS, block_inverse_distance, require_blocks
from samara.control.policy import bundled_policy, policy_controller
from samara.control.policy_file import Policy, dense_tensors, mlp_layers, save_policy
from samara.control.registry import controller_spec
from samara.core.algebra import Vec3
from samara.learn.env_config import configure_environment, require_no_camera
from samara.learn.task import Draw, Situation, trim_drone
from samara.learn.tasks.navigate import (
    FREE_RADIUS_M,
    GOAL_W,
    HALF_WIDTH_M,
    Column,
    NavigateGoal,
    navigation_task,
    nearest_column,
    progress,
    reward,
    success,
)
from samara.learn.training import save, train
from samara.scenario.file import parse_scenario
from samara.vehicles.shape import tip_radius

DRONE = trim_drone("crazyflie")
forest_toml = runpy.run_path(str(REPOSITORY / "examples" / "7_through_a_forest.py"))["forest_toml"]
LONE = NavigateGoal((Column(5.0, 0.0, 0.3),))


def draw_forest(seed):
    return navigation_task().reset(Draw.from_generator(np.random.default_rng(seed)), DRONE)


def situation_at_point(p_W, goal=LONE, v_W=(0.0, 0.0, 0.0)):
    return Situation(DRONE.trim._replace(p_W=Vec3(*p_W), v_W=Vec3(*v_W)), goal)


def test_no_column_stands_where_flights_begin_and_end():
    for seed in range(200):
        state, goal = draw_forest(seed)
        for x, y, radius in goal.columns:
            for point in (state.p_W, GOAL_W):
                assert math.hypot(x - point.x, y - point.y) - radius >= FREE_RADIUS_M - 1e-12
            assert abs(y) <= HALF_WIDTH_M and 0.15 <= radius <= 0.5


def test_the_nearest_column_is_that_of_all():
    """Against all distances, by NumPy."""
    _, goal = draw_forest(3)
    points = np.random.default_rng(0).uniform((0.0, -6.0), (20.0, 6.0), (50, 2))
    for x, y in points:
        distances = [math.hypot(x - column.x, y - column.y) - column.radius for column in goal.columns]
        assert nearest_column(goal.columns, Vec3(x, y, 1.5)) == goal.columns[int(np.argmin(distances))]


@pytest.mark.parametrize(
    ("start", "end", "collided"),
    [
        ((4.5, 0.0, 1.5), (4.7, 0.0, 1.5), 1.0),  # into it
        ((4.0, 0.0, 1.5), (6.0, 0.0, 1.5), 1.0),  # through it within one step
        ((4.9, 0.38, 1.5), (5.1, 0.38, 1.5), 0.0),  # past it, 0.3 m + 7 cm from its axis
        ((4.9, 0.36, 1.5), (5.1, 0.36, 1.5), 1.0),
        ((1.0, 0.0, 0.2), (1.0, 0.0, 0.05), 1.0),  # the ground
        ((1.0, 5.9, 1.5), (1.0, 6.1, 1.5), 1.0),  # out of the strip
        ((1.0, 0.0, 2.9), (1.0, 0.0, 3.1), 1.0),
    ],
)
def test_what_touches(start, end, collided):
    assert tip_radius(DRONE.nominal) == pytest.approx(0.0691)
    goal = progress(situation_at_point(start), situation_at_point(end), DRONE)
    assert goal.collided == collided
    assert (
        progress(situation_at_point(end, LONE._replace(collided=1.0)), situation_at_point(end), DRONE).collided == 1.0
    )  # a collision persists


def test_success_is_to_be_there_with_nothing_touched():
    assert success(situation_at_point((19.7, 0.2, 1.5)), DRONE) and not success(
        situation_at_point((19.4, 0.0, 1.5)), DRONE
    )
    assert not success(situation_at_point((20.0, 0.0, 1.5), LONE._replace(collided=1.0)), DRONE)


def test_what_is_worth_more():
    """Further from a column, slower towards it, faster to the goal, at its height, looking ahead."""
    toward = (2.0, 0.0, 0.0)
    assert reward(situation_at_point((4.0, 0.0, 1.5), v_W=toward), DRONE) > reward(
        situation_at_point((4.4, 0.0, 1.5), v_W=toward), DRONE
    )
    assert reward(situation_at_point((1.0, 0.0, 1.5), v_W=toward), DRONE) > reward(
        situation_at_point((1.0, 0.0, 1.5)), DRONE
    )
    assert reward(situation_at_point((1.0, 0.0, 1.5)), DRONE) > reward(situation_at_point((1.0, 0.0, 2.5)), DRONE)


# Depth images -------------------------------------------------------------------------------------------------------


def test_blocks_of_a_picture():
    """1 / the least of 8 × 4 pixels; no return counts as the farthest; distances below 0.3 m as 0.3 m."""
    depth = np.random.default_rng(1).uniform(0.5, 10.0, (2, 48, 64))
    depth[0, :8, :4] = 0.0
    depth[1, 47, 63] = 0.1
    blocks = block_inverse_distance(depth, 10.0)
    assert blocks.shape == (2, BLOCK_COUNT)
    for r in range(ROWS):
        for c in range(COLUMNS):
            pixels = depth[1, 8 * r : 8 * r + 8, 4 * c : 4 * c + 4]
            assert blocks[1, COLUMNS * r + c] == 1.0 / max(pixels.min(), 0.3)
    assert blocks[0, 0] == 0.1 and blocks[1, -1] == 1.0 / 0.3
    with pytest.raises(ValueError, match="80 × 64 pixels has no 16 × 6 equal blocks"):
        require_blocks(64, 80)


def test_a_column_ahead_is_seen_in_the_middle():
    """5 m ahead minus its radius, plus 8 mm because the ray is half a pixel off centre; the ground below."""
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import flat_step

    functions = flat_step(configure_environment(navigation_task(columns=1), "crazyflie"))
    rows = np.zeros((functions.size, 1), np.float32)
    state = [*DRONE.trim._replace(p_W=Vec3(0.0, 0.0, 1.5)).p_W]
    rows[:3, 0], rows[6, 0] = state, 1.0
    rows[functions.state_size : functions.state_size + 3, 0] = 5.0, 0.0, 0.3
    observation = jax.jit(lambda x: jax.numpy.stack(functions.observe(list(x))))(rows)[:, 0]
    assert observation.shape == (functions.observation_size,) == (18 + BLOCK_COUNT,)
    assert observation[0] == -5.0  # the distance to the goal, clipped
    blocks = np.asarray(observation[18:]).reshape(ROWS, COLUMNS)
    assert blocks[2, 7] == pytest.approx(1.0 / 4.7, rel=3e-3) and blocks[2, 0] == pytest.approx(0.1)
    assert blocks[5, 0] > 0.2 > blocks[0, 0]  # the ground, some 3 m away, and nothing above


def test_environments_without_eyes_refuse_it():
    with pytest.raises(ValueError, match="task 'navigate' observes images of a depth camera"):
        require_no_camera(configure_environment(navigation_task(), "crazyflie"))
    with pytest.raises(ValueError, match="columns = 0; expected a whole number from 1 to 200"):
        navigation_task(columns=0)


# In flight ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """An untrained policy."""
    draw, sizes = np.random.default_rng(0), (18 + BLOCK_COUNT, 8, 4)
    layers = [(0.1 * draw.normal(size=(rows, columns)), np.zeros(rows)) for columns, rows in pairwise(sizes)]
    return save_policy(
        tmp_path_factory.mktemp("navigate"),
        samara.vehicle("crazyflie"),
        mlp_layers((8,), 4),
        dense_tensors(layers),
        task="navigate",
        observation="depth",
        action="thrust_and_rates",
        period=0.04,
    )


def fly_forest(policy, change=("", ""), seconds=0.2):
    scenario = parse_scenario(forest_toml(7).replace(*change), "forest")
    return samara.fly(replace(scenario, duration=seconds), controller=controller_spec("policy", file=policy))


def test_a_policy_that_looks_needs_a_camera(policy):
    camera = 'part = "d435", name = "camera", width = 64, height = 48, min_range = 0.05'
    with pytest.raises(ValueError, match="drone: its policy uses a depth camera; expected one among its sensors"):
        fly_forest(policy, (camera, 'part = "bmi088"'))
    with pytest.raises(ValueError, match="60 × 48 pixels has no 16 × 6 equal blocks"):
        fly_forest(policy, ("width = 64", "width = 60"))


def test_in_flight_it_acts_on_the_pictures_that_were_heard(policy):
    """Against a flight without columns: the same commands until the first image arrives, others from then on."""
    text = forest_toml(7)
    with_columns, without = (
        fly_forest(policy, change).drone_records[0] for change in (("", ""), (text[text.index("[[obstacles]]") :], ""))
    )
    first_image = with_columns.tables["camera"].time[0]
    commands, commands_without = (record.tables["command"] for record in (with_columns, without))
    is_same = (np.asarray(commands.rows) == np.asarray(commands_without.rows)).all(axis=1)
    assert is_same[commands.time < first_image].all() and not is_same[commands.time >= first_image].any()
    assert len(policy_controller(policy, samara.vehicle("crazyflie"), 0.004).initial_state.depth_blocks) == BLOCK_COUNT


def test_the_shipped_policy_is_small_and_finds_its_way():
    """The first forest of the picture in docs/reference/policy-file.md, with noise, delay and lost pixels of the camera"""
    bundled = bundled_policy("navigate")
    assert len(dict(bundled.files)["weights.safetensors"]) < 100_000 and bundled.observation == "depth"
    run = samara.fly(parse_scenario(forest_toml(1), "forest"))
    assert not run.occurrences and np.linalg.norm(run.drone_records[0].position[-1] - np.array(GOAL_W)) < 0.5


# Training -----------------------------------------------------------------------------------------------------------


def test_steps_of_physics_in_a_loop_lead_where_those_in_a_row_lead():
    """A task without images runs them one after the other: the same values apart from rounding."""
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import flat_step, initial_episodes

    task, results = navigation_task(columns=1), []
    for variant in (task, task._replace(depth_observation=None)):
        functions = flat_step(configure_environment(variant, "crazyflie"))

        def step_rows(key, functions=functions):
            rows = initial_episodes(functions, key, 3)
            next_rows, reward, is_over = functions.step(list(rows), [0.1 + 0.0 * rows[0]] * 4)
            return jax.numpy.stack([*next_rows, reward, is_over])

        compiled = jax.jit(step_rows, compiler_options={"xla_disable_hlo_passes": "fusion"})
        results.append(np.asarray(compiled(jax.random.key(0))))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_it_is_learnt_judged_and_kept(tmp_path: Path):
    """From `samara train` to a folder, with a few drones, a single column and a fraction of a second."""
    pytest.importorskip("jax")
    setting = configure_environment(navigation_task(columns=1), "crazyflie", seconds=0.2)
    result = train(setting, tmp_path, drones=4, horizon=2, updates=2)
    policy = save(setting, result, tmp_path, method="analytic", seed=0)
    assert np.isfinite(result.curve).all() and dict(policy.evaluation)["episodes"] > 0
    assert (
        policy.observation == "depth"
        and policy.bounds == setting.task.bounds
        and policy.input_count == 18 + BLOCK_COUNT
    )
