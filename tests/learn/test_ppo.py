"""PPO: advantages against their definition, a batch of drones against compiled code, and a user-defined task that it solves."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samara.core.tree import flatten
from samara.learn.compiled_episode import compile_episode
from samara.learn.env_config import configure_environment
from samara.learn.evaluation import evaluator
from samara.learn.jax.ppo import (
    EpisodeBatch,
    PpoHyperparameters,
    advantages,
    check_hyperparameters,
    ppo_trainer,
    shape_reward,
)
from samara.learn.jax.rollout import initial_weights
from samara.learn.optimizer import Checkpoint
from samara.learn.policies import dense_network

NOTHING = np.zeros((0, 8), np.float32)
SLIDE = '''
"""Slide: come to x = 0 along one axis, from within 1 m, with velocity commands."""
from samara.core.algebra import Vec3
from samara.core.ops import absolute

PERIOD, SECONDS, ACTION = 0.02, 2.0, "velocity"
def reset(draw, drone): return drone.trim._replace(p_W=Vec3(draw.uniform(-1.0, 1.0), 0.0, 0.0)), ()
def observation(situation, drone): return (situation.state.p_W.x, situation.state.v_W.x, situation.state.q_WB.y)
def reward(situation, drone): return 1.0 - absolute(situation.state.p_W.x) - 0.1 * situation.state.v_W.x ** 2
def termination(situation, drone): return absolute(situation.state.p_W.x) > 3.0
def success(situation, drone): return absolute(situation.state.p_W.x) < 0.15
'''


def test_advantages_are_discounted_sums_of_surprises_up_to_the_end_of_an_episode():
    """Â₀ = Σₖ (Π c) δₖ, summed one by one."""
    draw = np.random.default_rng(0)
    errors, carried = draw.normal(size=(7, 3)), 0.9 * (draw.uniform(size=(7, 3)) > 0.3)
    expected = [[sum(np.prod(carried[t:k, i]) * errors[k, i] for k in range(t, 7)) for i in range(3)] for t in range(7)]
    assert np.allclose(jax.jit(advantages)(np.float32(errors), np.float32(carried)), expected, atol=1e-5)


def test_drones_in_lanes_fly_as_in_machine_code_and_start_again_where_their_time_is_up():
    setting = configure_environment("hover", "crazyflie", seconds=0.05)
    batch, n = EpisodeBatch(setting), 8

    @jax.jit
    def fly_step(key):
        drones, fresh = batch.reset(key, n), batch.reset(jax.random.fold_in(key, 1), n)
        drones = drones._replace(age=jnp.float32(np.arange(n) % 5))
        action = jax.random.uniform(key, (4, n), minval=-1.5, maxval=1.5)  # partly clipped
        return drones, action, fresh, batch.step(drones, action, NOTHING[:, :n], fresh)

    drones, action, fresh, (next_episodes, transition) = fly_step(jax.random.key(3))
    rows = np.asarray(drones.rows, dtype=float)
    observation, reward, _ = compile_episode(setting).step(rows, np.asarray(action, dtype=float))
    assert (
        np.abs(transition.final_observation - observation).max() < 1e-5
        and np.abs(transition.reward - reward).max() < 1e-5
    )
    is_ended = np.arange(n) % 5 == 4
    assert (transition.ended == is_ended).all() and not transition.terminated.any()
    assert (next_episodes.rows[:, is_ended] == fresh.rows[:, is_ended]).all() and (
        next_episodes.observation[:, is_ended] == fresh.observation[:, is_ended]
    ).all()
    assert np.allclose(next_episodes.rows[:, ~is_ended], rows[:, ~is_ended], rtol=1e-5, atol=1e-5)
    assert (next_episodes.age == np.where(is_ended, 0.0, np.arange(n) % 5 + 1)).all()
    assert len(rows) == len(flatten(compile_episode(setting).template))


def test_a_step_in_one_kernel_is_the_same_step():
    setting, n = configure_environment("hover", "crazyflie"), 4
    plain, kernel = EpisodeBatch(setting), EpisodeBatch(setting, kernel=True, interpret=True)
    drones, fresh = (jax.jit(plain.reset, static_argnums=1)(jax.random.key(seed), n) for seed in (0, 1))
    arguments = (drones, jnp.full((4, n), 0.3), NOTHING[:, :n], fresh)
    options = {"xla_disable_hlo_passes": "fusion"}
    plain_result, kernel_result = (
        jax.jit(batch.step, compiler_options=options)(*arguments) for batch in (plain, kernel)
    )
    for a, b in zip(jax.tree.leaves(plain_result), jax.tree.leaves(kernel_result), strict=True):
        assert np.allclose(a, b, rtol=1e-6, atol=1e-6)


def test_a_drone_whose_numbers_are_lost_starts_again():
    setting, n = configure_environment("hover", "crazyflie"), 4
    batch = EpisodeBatch(setting)
    drones, fresh = (jax.jit(batch.reset, static_argnums=1)(jax.random.key(seed), n) for seed in (0, 1))
    drones = drones._replace(rows=drones.rows.at[4, 2].set(np.nan))
    next_episodes, transition = jax.jit(batch.step)(drones, np.zeros((4, n)), NOTHING[:, :n], fresh)
    assert transition.terminated.tolist() == transition.ended.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((next_episodes, transition)))
    assert (next_episodes.rows[:, 2] == fresh.rows[:, 2]).all()


def test_it_solves_a_task_of_ones_own(tmp_path: Path):
    file = tmp_path / "slide.py"
    file.write_text(SLIDE, encoding="utf-8")
    setting = configure_environment(str(file), "crazyflie")
    reports = []
    hyperparameters = PpoHyperparameters(hidden=(8, 8), drones=128, horizon=16, updates=240, batches=8, rate=1e-2)
    trainer = ppo_trainer(setting, hyperparameters, chunks=4)
    result = trainer(1, lambda *state: reports.append(state))
    evaluate = evaluator(setting, 200, backend="jax")
    assert [done for done, _, _ in reports] == [60, 120, 180, 240]
    assert result.curve.shape == (240,) and reports[-1][2] == pytest.approx(result.curve[-1])
    assert [(w.shape, b.shape, w.dtype.name) for w, b in result.weights] == [
        ((8, 3), (8,), "float32"),
        ((8, 8), (8,), "float32"),
        ((4, 8), (4,), "float32"),
    ]
    untrained = evaluate(initial_weights(dense_network((8, 8)), jax.random.key(0), 3, 4))
    assert untrained.success < 0.3 and evaluate(result.weights).success > 0.97
    checkpoint = Checkpoint(tmp_path / "half.npz", {})
    with pytest.raises(KeyboardInterrupt):
        trainer(1, interrupt_half_way, checkpoint)
    resumed = trainer(1, None, checkpoint)
    assert all(
        (a == b).all() for a, b in zip(jax.tree.leaves(resumed.weights), jax.tree.leaves(result.weights), strict=True)
    )


def interrupt_half_way(done, updates, reward):
    """Interrupt training half way."""
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
        check_hyperparameters(PpoHyperparameters(**change))


def test_a_reward_is_softer_far_from_the_goal_and_sharper_near_it():
    """(eᵏʳ − 1)/k and −log(1 − r) meet at 0 with slope 1; at r = 2 a difference counts e²ᵏ times as much"""
    slope = jax.vmap(jax.grad(lambda r: shape_reward(r, 2.0)))
    np.testing.assert_allclose(slope(jnp.array([-3.0, -1e-7, 1e-7, 2.0])), [0.25, 1.0, 1.0, np.exp(4.0)], rtol=1e-5)
    np.testing.assert_allclose(
        shape_reward(jnp.array([-1.0, 0.0, 1.0]), 2.0), [-np.log(2.0), 0.0, 0.5 * (np.exp(2.0) - 1.0)], rtol=1e-6
    )
    np.testing.assert_array_equal(shape_reward(jnp.array([-3.0, 10.0]), 0.0), [-3.0, 10.0])
