"""Lost episodes restart, the others continue; and the cost of actions beyond ±1, in both trainers."""

from types import SimpleNamespace

import numpy as np
import pytest

from samara.learn.gradient_training import GradientHyperparameters, GradientTrainingState, update
from samara.learn.optimizer import initial_moments
from samara.learn.rollout_cpu import CpuRollout

PARAMETERS = GradientHyperparameters(hidden=(2,), drones=6, horizon=3, updates=4)._replace(restart_fraction=0.0)
EPISODES = np.arange(12.0, dtype=np.float32).reshape(2, 6) + 100.0
OVER = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])  # drones 1 and 4 have ended; drone 2 has a NaN
FLIES_ON = [0, 3, 5]


def initial_episodes_with_nan():
    episodes = EPISODES.copy()
    episodes[1, 2] = np.nan
    return episodes


def cpu_rollout():
    """Return the rollout of the CPU with substitutes for the flight."""
    rollout = object.__new__(CpuRollout)
    rollout.parameters = PARAMETERS
    rollout.functions = SimpleNamespace(
        is_terminated=lambda episode: OVER, episode=(0.0, 0.0), draws=("uniform", "uniform"), reset=tuple
    )
    return rollout


def test_compiled_training_replaces_the_drones_that_are_lost():
    recorded = []

    def gradient(weights, episodes, total_bar):
        assert total_bar == pytest.approx([-1.0 / (6 * 3)] * 6)  # ascent of the mean over 6 drones and 3 steps
        recorded.append(episodes.copy())
        return SimpleNamespace(total=np.zeros(6), end=episodes), np.zeros_like(weights), None

    rollout = cpu_rollout()
    rollout.lanes = SimpleNamespace(gradient=gradient)
    weights = np.zeros(4, np.float32)
    update(
        rollout,
        PARAMETERS,
        GradientTrainingState(
            weights, initial_moments(weights), initial_episodes_with_nan(), np.array(1, np.uint64), np.int32(0)
        ),
    )
    np.testing.assert_array_equal(recorded[0][:, FLIES_ON], EPISODES[:, FLIES_ON])
    assert (recorded[0][:, [1, 2, 4]] < 1.0).all() and (recorded[0][:, [1, 2, 4]] > 0.0).all()


@pytest.mark.long
def test_jax_training_replaces_the_drones_that_are_lost():
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import JaxRollout

    rollout = object.__new__(JaxRollout)
    rollout.parameters, rollout.network = PARAMETERS, PARAMETERS.network
    rollout.functions = SimpleNamespace(
        size=2,
        draws=("uniform", "uniform"),
        is_terminated=lambda rows: [jax.numpy.asarray(OVER)],
        reset=lambda rows: rows,
    )
    rollout.fly = lambda weights, episodes: (0.0 * weights[0][0].sum() + jax.numpy.zeros(6), episodes)
    weights = ((jax.numpy.zeros((1, 1)), jax.numpy.zeros(1)),)
    episodes = jax.numpy.asarray(initial_episodes_with_nan())
    state = GradientTrainingState(
        weights, initial_moments(weights), episodes, jax.random.PRNGKey(1), jax.numpy.int32(0)
    )
    updated, _ = update(rollout, PARAMETERS, state)
    end = np.asarray(updated.episodes)
    np.testing.assert_array_equal(end[:, FLIES_ON], EPISODES[:, FLIES_ON])
    assert (end[:, [1, 2, 4]] < 1.0).all() and (end[:, [1, 2, 4]] >= 0.0).all()


@pytest.mark.parametrize(
    ("action", "cost"), [((0.5, -1.0, 1.0), 0.0), ((2.0, -1.5, 0.3), 0.1 * (1.0 + 0.25)), ((-3.0, 0.0, 0.0), 0.4)]
)
def test_an_action_beyond_1_costs_a_tenth_of_its_square(action, cost):
    """Σ 0.1 max(|a| − 1, 0)² per step, subtracted from the task's reward of 1."""
    pytest.importorskip("jax")
    import jax.numpy as jnp

    from samara.learn.jax.rollout import rollout_xla

    actions = jnp.broadcast_to(jnp.array(action)[:, None], (3, 2))
    functions = SimpleNamespace(
        size=1, observe=lambda rows: rows, step=lambda rows, action: ([rows[0] + action[0]], jnp.ones(2), jnp.zeros(2))
    )
    network = SimpleNamespace(act=lambda weights, observation, hidden: (actions, hidden))
    total, end = rollout_xla(functions, 4, network)([], jnp.zeros((1, 2)))
    assert np.asarray(total) == pytest.approx([4.0 * (1.0 - cost)] * 2, rel=1e-6)
    assert np.asarray(end)[0] == pytest.approx([4.0 * action[0]] * 2, rel=1e-6)
