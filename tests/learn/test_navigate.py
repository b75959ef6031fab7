"""Navigate: the forest, what touches it, what is seen of it, and the policy that comes with Samara."""

import math
import runpy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.repository import REPOSITORY

import samara
from samara.control.depth_observation import BLOCKS, COLUMNS, ROWS, nearness, require_blocks
from samara.control.policy import policy_controller, shipped_policy
from samara.control.policy_file import Policy, dense_tensors, mlp, save_policy
from samara.control.registry import tuned
from samara.core.algebra import Vec3
from samara.learn.env_config import require_no_camera, setting_for
from samara.learn.task import Draw, Situation, craft_for
from samara.learn.tasks.navigate import (
    ASIDE,
    FREE,
    GOAL_W,
    Column,
    Goal,
    navigating,
    nearest,
    progress,
    reward,
    success,
)
from samara.learn.training import save, train
from samara.scenario.file import parse_scenario
from samara.vehicles.shape import extent_of

CRAFT = craft_for("crazyflie")
forest_toml = runpy.run_path(str(REPOSITORY / "examples" / "7_through_a_forest.py"))["forest_toml"]
LONE = Goal((Column(5.0, 0.0, 0.3),))


def drawn(seed):
    return navigating().reset(Draw.from_generator(np.random.default_rng(seed)), CRAFT)


def at(p_W, goal=LONE, v_W=(0.0, 0.0, 0.0)):
    return Situation(CRAFT.trim._replace(p_W=Vec3(*p_W), v_W=Vec3(*v_W)), goal)


def test_no_column_stands_where_flights_begin_and_end():
    for seed in range(200):
        state, goal = drawn(seed)
        for x, y, radius in goal.columns:
            for place in (state.p_W, GOAL_W):
                assert math.hypot(x - place.x, y - place.y) - radius >= FREE - 1e-12
            assert abs(y) <= ASIDE and 0.15 <= radius <= 0.5


def test_the_nearest_column_is_that_of_all():
    """Against all distances, by NumPy"""
    _, goal = drawn(3)
    places = np.random.default_rng(0).uniform((0.0, -6.0), (20.0, 6.0), (50, 2))
    for x, y in places:
        away = [math.hypot(x - own.x, y - own.y) - own.radius for own in goal.columns]
        assert nearest(goal.columns, Vec3(x, y, 1.5)) == goal.columns[int(np.argmin(away))]


@pytest.mark.parametrize(
    ("here", "there", "touched"),
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
def test_what_touches(here, there, touched):
    assert extent_of(CRAFT.nominal) == pytest.approx(0.0691)
    after = progress(at(here), at(there), CRAFT)
    assert after.touched == touched
    assert progress(at(there, LONE._replace(touched=1.0)), at(there), CRAFT).touched == 1.0  # what was touched stays so


def test_success_is_to_be_there_with_nothing_touched():
    assert success(at((19.7, 0.2, 1.5)), CRAFT) and not success(at((19.4, 0.0, 1.5)), CRAFT)
    assert not success(at((20.0, 0.0, 1.5), LONE._replace(touched=1.0)), CRAFT)


def test_what_is_worth_more():
    """Farther from a column, slower towards it, faster to the goal, at its height, looking ahead"""
    toward = (2.0, 0.0, 0.0)
    assert reward(at((4.0, 0.0, 1.5), v_W=toward), CRAFT) > reward(at((4.4, 0.0, 1.5), v_W=toward), CRAFT)
    assert reward(at((1.0, 0.0, 1.5), v_W=toward), CRAFT) > reward(at((1.0, 0.0, 1.5)), CRAFT)
    assert reward(at((1.0, 0.0, 1.5)), CRAFT) > reward(at((1.0, 0.0, 2.5)), CRAFT)


# What is seen -------------------------------------------------------------------------------------------------------


def test_blocks_of_a_picture():
    """1 / the least of 8 × 4 pixels, nothing seen as far away; what is nearer than 0.3 m as near as that"""
    depth = np.random.default_rng(1).uniform(0.5, 10.0, (2, 48, 64))
    depth[0, :8, :4] = 0.0
    depth[1, 47, 63] = 0.1
    own = nearness(depth, 10.0)
    assert own.shape == (2, BLOCKS)
    for r in range(ROWS):
        for c in range(COLUMNS):
            block = depth[1, 8 * r : 8 * r + 8, 4 * c : 4 * c + 4]
            assert own[1, COLUMNS * r + c] == 1.0 / max(block.min(), 0.3)
    assert own[0, 0] == 0.1 and own[1, -1] == 1.0 / 0.3
    with pytest.raises(ValueError, match="80 × 64 pixels has no 16 × 6 equal blocks"):
        require_blocks(64, 80)


def test_a_column_ahead_is_seen_in_the_middle():
    """5 m ahead less its radius, and 8 mm more as the ray is half a pixel aside; the ground below"""
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import flat_step

    functions = flat_step(setting_for(navigating(columns=1), "crazyflie"))
    rows = np.zeros((functions.size, 1), np.float32)
    state = [*CRAFT.trim._replace(p_W=Vec3(0.0, 0.0, 1.5)).p_W]
    rows[:3, 0], rows[6, 0] = state, 1.0
    rows[functions.state : functions.state + 3, 0] = 5.0, 0.0, 0.3
    seen = jax.jit(lambda x: jax.numpy.stack(functions.observe(list(x))))(rows)[:, 0]
    assert seen.shape == (functions.observations,) == (18 + BLOCKS,)
    assert seen[0] == -5.0  # the way to go, cut
    blocks = np.asarray(seen[18:]).reshape(ROWS, COLUMNS)
    assert blocks[2, 7] == pytest.approx(1.0 / 4.7, rel=3e-3) and blocks[2, 0] == pytest.approx(0.1)
    assert blocks[5, 0] > 0.2 > blocks[0, 0]  # the ground, some 3 m away, and nothing above


def test_environments_without_eyes_refuse_it():
    with pytest.raises(ValueError, match="task 'navigate' observes images of a depth camera"):
        require_no_camera(setting_for(navigating(), "crazyflie"))
    with pytest.raises(ValueError, match="columns = 0; expected a whole number from 1 to 200"):
        navigating(columns=0)


# In flight ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """One that has learnt nothing"""
    draw, sizes = np.random.default_rng(0), (18 + BLOCKS, 8, 4)
    layers = [(0.1 * draw.normal(size=(rows, columns)), np.zeros(rows)) for columns, rows in pairwise(sizes)]
    return save_policy(
        tmp_path_factory.mktemp("navigate"),
        samara.vehicle("crazyflie"),
        mlp((8,), 4),
        dense_tensors(layers),
        task="navigate",
        observation="depth",
        action="thrust_and_rates",
        period=0.04,
    )


def flown(policy, change=("", ""), seconds=0.2):
    scenario = parse_scenario(forest_toml(7).replace(*change), "forest")
    return samara.fly(replace(scenario, duration=seconds), controller=tuned("policy", file=policy))


def test_a_policy_that_looks_needs_a_camera(policy):
    camera = 'part = "d435", name = "camera", width = 64, height = 48, nearest = 0.05'
    with pytest.raises(ValueError, match="drone: its policy flies by a depth camera; expected one among its sensors"):
        flown(policy, (camera, 'part = "bmi088"'))
    with pytest.raises(ValueError, match="60 × 48 pixels has no 16 × 6 equal blocks"):
        flown(policy, ("width = 64", "width = 60"))


def test_in_flight_it_acts_on_the_pictures_that_were_heard(policy):
    """Beside a flight without columns: the same commands until the first picture is heard, others from then on"""
    text = forest_toml(7)
    with_columns, without = flown(policy).tracks[0], flown(policy, (text[text.index("[[solids]]") :], "")).tracks[0]
    heard = with_columns.tables["camera"].time[0]
    one, other = (own.tables["command"] for own in (with_columns, without))
    same = (np.asarray(one.rows) == np.asarray(other.rows)).all(axis=1)
    assert same[one.time < heard].all() and not same[one.time >= heard].any()
    assert len(policy_controller(policy, samara.vehicle("crazyflie"), 0.004).initial_memory.picture) == BLOCKS


def test_the_shipped_policy_is_small_and_finds_its_way():
    """The first forest of the picture in docs/policies.md, with noise, delay and lost pixels of the camera"""
    own = shipped_policy("navigate")
    assert len(dict(own.files)["weights.safetensors"]) < 100_000 and own.observation == "depth"
    run = samara.fly(parse_scenario(forest_toml(1), "forest"))
    assert not run.facts and np.linalg.norm(run.tracks[0].position[-1] - np.array(GOAL_W)) < 0.5


# Learning -----------------------------------------------------------------------------------------------------------


def test_steps_of_physics_in_a_loop_lead_where_those_in_a_row_lead():
    """A task without pictures takes them one after the other: the same numbers but for rounding"""
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import flat_step, starts

    task, found = navigating(columns=1), []
    for own in (task, task._replace(sight=None)):
        functions = flat_step(setting_for(own, "crazyflie"))

        def after(key, functions=functions):
            rows = starts(functions, key, 3)
            there, reward, over = functions.step(list(rows), [0.1 + 0.0 * rows[0]] * 4)
            return jax.numpy.stack([*there, reward, over])

        quick = jax.jit(after, compiler_options={"xla_disable_hlo_passes": "fusion"})
        found.append(np.asarray(quick(jax.random.key(0))))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


def test_it_is_learnt_judged_and_kept(tmp_path: Path):
    """From `samara learn` to a folder, by a few drones before a single column, for a moment"""
    pytest.importorskip("jax")
    setting = setting_for(navigating(columns=1), "crazyflie", seconds=0.2)
    learnt = train(setting, tmp_path, drones=4, horizon=2, updates=2)
    policy = save(setting, learnt, tmp_path, method="analytic", seed=0)
    assert np.isfinite(learnt.curve).all() and dict(policy.evaluation)["flights"] > 0
    assert policy.observation == "depth" and policy.bounds == setting.task.bounds and policy.inputs == 18 + BLOCKS
