"""PPO: advantages against their definition, a batch of drones against compiled code, and a task of one's own that it solves."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samara.core.tree import flatten
from samara.learn.compiled_episode import program_of
from samara.learn.env_config import setting_for
from samara.learn.evaluation import evaluator
from samara.learn.jax.ppo import EpisodeBatch, Hyperparameters, advantages, check_hyperparameters, ppo, shaped
from samara.learn.jax.rollout import initial_weights
from samara.learn.optimizer import Checkpoint
from samara.learn.policies import dense_network

NOTHING = np.zeros((0, 8), np.float32)
SLIDE = '''
"""Slide: come to x = 0 along one axis, from within 1 m, by asking for a velocity."""
from samara.core.algebra import Vec3
from samara.core.ops import absolute

PERIOD, SECONDS, ACTION = 0.02, 2.0, "velocity"
def reset(draw, craft): return craft.trim._replace(p_W=Vec3(draw.uniform(-1.0, 1.0), 0.0, 0.0)), ()
def observation(situation, craft): return (situation.state.p_W.x, situation.state.v_W.x, situation.state.q_WB.y)
def reward(situation, craft): return 1.0 - absolute(situation.state.p_W.x) - 0.1 * situation.state.v_W.x ** 2
def termination(situation, craft): return absolute(situation.state.p_W.x) > 3.0
def success(situation, craft): return absolute(situation.state.p_W.x) < 0.15
'''


def test_advantages_are_discounted_sums_of_surprises_up_to_the_end_of_an_episode():
    """Â₀ = Σₖ (Π c) δₖ, summed one by one"""
    draw = np.random.default_rng(0)
    surprise, carried = draw.normal(size=(7, 3)), 0.9 * (draw.uniform(size=(7, 3)) > 0.3)
    expected = [
        [sum(np.prod(carried[t:k, i]) * surprise[k, i] for k in range(t, 7)) for i in range(3)] for t in range(7)
    ]
    assert np.allclose(jax.jit(advantages)(np.float32(surprise), np.float32(carried)), expected, atol=1e-5)


def test_drones_in_lanes_fly_as_in_machine_code_and_start_again_where_their_time_is_up():
    setting = setting_for("hover", "crazyflie", seconds=0.05)
    batch, n = EpisodeBatch(setting), 8

    @jax.jit
    def flown(key):
        drones, fresh = batch.reset(key, n), batch.reset(jax.random.fold_in(key, 1), n)
        drones = drones._replace(age=jnp.float32(np.arange(n) % 5))
        action = jax.random.uniform(key, (4, n), minval=-1.5, maxval=1.5)  # some of it is cut
        return drones, action, fresh, batch.step(drones, action, NOTHING[:, :n], fresh)

    drones, action, fresh, (after, step) = flown(jax.random.key(3))
    rows = np.asarray(drones.rows, dtype=float)
    seen, reward, _ = program_of(setting).step(rows, np.asarray(action, dtype=float))
    assert np.abs(step.final_observation - seen).max() < 1e-5 and np.abs(step.reward - reward).max() < 1e-5
    ended = np.arange(n) % 5 == 4
    assert (step.ended == ended).all() and not step.terminated.any()
    assert (after.rows[:, ended] == fresh.rows[:, ended]).all() and (
        after.observation[:, ended] == fresh.observation[:, ended]
    ).all()
    assert np.allclose(after.rows[:, ~ended], rows[:, ~ended], rtol=1e-5, atol=1e-5)
    assert (after.age == np.where(ended, 0.0, np.arange(n) % 5 + 1)).all()
    assert len(rows) == len(flatten(program_of(setting).template))


def test_a_step_in_one_kernel_is_the_same_step():
    setting, n = setting_for("hover", "crazyflie"), 4
    plain, kernel = EpisodeBatch(setting), EpisodeBatch(setting, kernel=True, interpret=True)
    drones, fresh = (jax.jit(plain.reset, static_argnums=1)(jax.random.key(seed), n) for seed in (0, 1))
    given = (drones, jnp.full((4, n), 0.3), NOTHING[:, :n], fresh)
    options = {"xla_disable_hlo_passes": "fusion"}
    here, there = (jax.jit(batch.step, compiler_options=options)(*given) for batch in (plain, kernel))
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-6)


def test_a_drone_whose_numbers_are_lost_starts_again():
    setting, n = setting_for("hover", "crazyflie"), 4
    batch = EpisodeBatch(setting)
    drones, fresh = (jax.jit(batch.reset, static_argnums=1)(jax.random.key(seed), n) for seed in (0, 1))
    drones = drones._replace(rows=drones.rows.at[4, 2].set(np.nan))
    after, step = jax.jit(batch.step)(drones, np.zeros((4, n)), NOTHING[:, :n], fresh)
    assert step.terminated.tolist() == step.ended.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((after, step)))
    assert (after.rows[:, 2] == fresh.rows[:, 2]).all()


def test_it_solves_a_task_of_ones_own(tmp_path: Path):
    file = tmp_path / "slide.py"
    file.write_text(SLIDE, encoding="utf-8")
    setting = setting_for(str(file), "crazyflie")
    told = []
    recipe = Hyperparameters(hidden=(8, 8), drones=128, horizon=16, updates=240, batches=8, rate=1e-2)
    learner = ppo(setting, recipe, chunks=4)
    learnt = learner(1, lambda *state: told.append(state))
    judged = evaluator(setting, 200, backend="jax")
    assert [done for done, _, _ in told] == [60, 120, 180, 240]
    assert learnt.curve.shape == (240,) and told[-1][2] == pytest.approx(learnt.curve[-1])
    assert [(w.shape, b.shape, w.dtype.name) for w, b in learnt.weights] == [
        ((8, 3), (8,), "float32"),
        ((8, 8), (8,), "float32"),
        ((4, 8), (4,), "float32"),
    ]
    before = judged(initial_weights(dense_network((8, 8)), jax.random.key(0), 3, 4))
    assert before.success < 0.3 and judged(learnt.weights).success > 0.97
    checkpoint = Checkpoint(tmp_path / "half.npz", {})
    with pytest.raises(KeyboardInterrupt):
        learner(1, stopped, checkpoint)
    again = learner(1, None, checkpoint)
    assert all(
        (a == b).all() for a, b in zip(jax.tree.leaves(again.weights), jax.tree.leaves(learnt.weights), strict=True)
    )


def stopped(done, updates, reward):
    """By whoever watches, half way"""
    if done == updates // 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"drones": 100, "batches": 8}, "drones is 100; expected a multiple of batches, which is 8"),
        ({"updates": 0}, "updates is 0; expected a whole number of at least 1"),
        ({"discount": 1.0}, "discount is 1.0; expected a number between 0 and 1"),
        ({"rate": -1.0}, "rate is -1.0; expected a positive number"),
    ],
)
def test_a_recipe_that_does_not_fit_is_one_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        check_hyperparameters(Hyperparameters(**change))


def test_a_reward_is_softer_far_from_the_goal_and_sharper_near_it():
    """(eᵏʳ − 1)/k and −log(1 − r) meet at 0 with slope 1; at r = 2 a difference counts e²ᵏ times as much"""
    slope = jax.vmap(jax.grad(lambda r: shaped(r, 2.0)))
    np.testing.assert_allclose(slope(jnp.array([-3.0, -1e-7, 1e-7, 2.0])), [0.25, 1.0, 1.0, np.exp(4.0)], rtol=1e-5)
    np.testing.assert_allclose(
        shaped(jnp.array([-1.0, 0.0, 1.0]), 2.0), [-np.log(2.0), 0.0, 0.5 * (np.exp(2.0) - 1.0)], rtol=1e-6
    )
    np.testing.assert_array_equal(shaped(jnp.array([-3.0, 10.0]), 0.0), [-3.0, 10.0])
