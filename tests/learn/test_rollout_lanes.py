"""A compiled rollout of a policy, forward and backward: its gradient equals JAX's and differences, for any count of threads."""

import subprocess
import sys

import numpy as np
import pytest

from samara.compiler import thread_pool
from samara.control.policy_file import load_policy
from samara.core.tree import flatten, unflatten
from samara.learn.compiled_episode import compile_episode
from samara.learn.domain_randomization import RAPTOR
from samara.learn.env_config import configure_environment
from samara.learn.episode import StepFunctions
from samara.learn.evaluation import evaluator
from samara.learn.gradient_training import CPU_DRONES, HYPERPARAMETERS, GradientHyperparameters, gradient_trainer
from samara.learn.optimizer import Checkpoint, map_tree
from samara.learn.rollout_cpu import LaneRollout, flatten_weights, initial_episodes, unflatten_weights

SETTINGS = {
    "hover": {},
    "late actions, seen again, two steps in a period": {"substeps": 2, "delay": (0, 2), "history": 2},
    "thrust and rates": {"action": "thrust_and_rates"},
    "vehicles of their own": {"randomization": RAPTOR},
}
TINY = GradientHyperparameters(hidden=(8,), drones=20, horizon=3, updates=4)


class Flight:
    """A policy with large weights, drones at their start, and random cotangents of the result."""

    def __init__(self, setting, steps=3, drones=19, dtype="float64", hidden="tanh", integrator="rk4"):
        self.functions = StepFunctions(setting)
        self.sizes = (self.functions.observation_size, 13, 8, len(self.functions.action))
        self.rollout = LaneRollout(self.functions, self.sizes, steps, dtype, dtype == "float32", hidden, integrator)
        rng = np.random.default_rng(0)
        self.weights = (0.3 * rng.normal(size=self.rollout.layers.weight_count)).astype(dtype)
        self.episodes = initial_episodes(self.functions, 1, 0, drones)[0].astype(dtype)
        self.total_bar = rng.normal(size=drones)
        self.end_bar = np.zeros(self.episodes.shape)
        varying = list(self.functions.varying_leaves)
        self.end_bar[varying] = rng.normal(size=(len(varying), drones))

    def value(self, weights, episodes):
        result = self.rollout.gradient(weights, episodes, self.total_bar).result
        return result.total @ self.total_bar + (self.end_bar * result.end).sum()

    def gradient(self):
        return self.rollout.gradient(self.weights, self.episodes, self.total_bar, self.end_bar)


@pytest.fixture(scope="module")
def hovering():
    return Flight(configure_environment("hover", "crazyflie"))


def test_a_gradient_is_the_slope_of_what_was_flown(hovering):
    """(4 D(e) − D(2e)) / 3 of central differences D along a direction of weights and starts."""
    rng = np.random.default_rng(5)
    gradient = hovering.gradient()
    d_weights = rng.normal(size=hovering.weights.shape)
    d_start = np.zeros(hovering.episodes.shape)
    varying = list(hovering.functions.varying_leaves)
    d_start[varying] = rng.normal(size=(len(varying), d_start.shape[1]))

    def difference(e):
        ends = [hovering.value(hovering.weights + s * d_weights, hovering.episodes + s * d_start) for s in (e, -e)]
        return (ends[0] - ends[1]) / (2 * e)

    terms = gradient.weights * d_weights, gradient.start * d_start
    size = sum(np.abs(term).sum() for term in terms)
    expected = (4 * difference(1e-4) - difference(2e-4)) / 3
    assert abs(sum(term.sum() for term in terms) - expected) <= 1e-9 * size


def test_a_rollout_is_the_flight_of_the_environment():
    """Three actions of the policy, each a step of `VectorEnv`'s program: the same rewards and ends."""
    setting = configure_environment("hover", "crazyflie")
    flight = Flight(setting)
    program, rows, rewards = compile_episode(setting), flight.episodes.copy(), 0.0
    for _ in range(3):
        x = np.array(flight.functions.observe(unflatten(flight.functions.episode, iter(rows))))
        for matrix, bias in unflatten_weights(flight.weights, flight.sizes):
            x = np.tanh(matrix @ x + bias[:, None])
        _, reward, _ = program.step(rows, x)
        rewards = rewards + reward[0]
    result = flight.gradient().result
    np.testing.assert_allclose(result.total, rewards, rtol=1e-12)
    np.testing.assert_allclose(result.end, rows, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("setting_name", "hidden", "integrator"),
    [*((kind, "tanh", "rk4") for kind in SETTINGS), ("hover", "relu", "rk4"), ("hover", "tanh", "midpoint")],
)
def test_jax_flies_and_differentiates_alike(setting_name, hidden, integrator):
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import flat_step, rolled_integrator, rollout_xla
    from samara.learn.policies import dense_network

    setting = configure_environment("hover", "crazyflie", **SETTINGS[setting_name])
    flight = Flight(setting, hidden=hidden, integrator=integrator)
    layers = map_tree(jax.numpy.asarray, unflatten_weights(flight.weights, flight.sizes))
    rollout = rollout_xla(flat_step(setting, rolled_integrator(integrator)), 3, dense_network(hidden=hidden))
    (total, end), pullback = jax.vjp(rollout, layers, jax.numpy.asarray(flight.episodes))
    bars = jax.numpy.asarray(flight.total_bar), jax.numpy.asarray(flight.end_bar)
    by_weights, by_start = pullback(bars)
    varying = list(flight.functions.varying_leaves)
    gradient = flight.gradient()
    for actual, expected in (
        (gradient.result.total, total),
        (gradient.result.end, end),
        (gradient.weights, flatten_weights(by_weights, np.float64)),
        (gradient.start[varying], np.asarray(by_start)[varying]),
    ):
        assert np.abs(actual - np.asarray(expected)).max() <= 1e-12 * np.abs(expected).max()


def test_the_same_bits_of_any_number_of_threads_and_drones():
    """In single precision, as in training; the result of one drone is the same among 40 as among 19."""
    flight = Flight(configure_environment("hover", "crazyflie"), steps=20, drones=40, dtype="float32")
    gradients = []
    for count in (1, 3):
        with thread_pool.limit_threads(count):
            gradients.append(flight.gradient())
    assert gradients[0].weights.tobytes() == gradients[1].weights.tobytes()
    assert gradients[0].start.tobytes() == gradients[1].start.tobytes()
    few = flight.rollout.gradient(
        flight.weights, flight.episodes[:, :19], flight.total_bar[:19], flight.end_bar[:, :19]
    )
    assert few.result.total.tobytes() == gradients[0].result.total[:19].tobytes()
    assert np.ascontiguousarray(few.start).tobytes() == np.ascontiguousarray(gradients[0].start[:, :19]).tobytes()
    with pytest.raises(ValueError, match="is for gradients"):
        flight.rollout.fly(flight.weights, flight.episodes, 3)


# Learning ------------------------------------------------------------------------------------------------------------


class StoppedError(Exception):
    """Raised by the progress callback."""


def test_what_was_stopped_goes_on_to_the_same_weights(tmp_path):
    trainer = gradient_trainer(configure_environment("hover", "crazyflie"), TINY, chunks=4)
    with thread_pool.limit_threads(1):
        uninterrupted = trainer(3)

    def stop(done, updates, reward):
        if done == 2:
            raise StoppedError

    checkpoint = Checkpoint(tmp_path / "half.npz", {"seed": 3})
    with pytest.raises(StoppedError):
        trainer(3, stop, checkpoint)
    resumed = trainer(3, None, checkpoint)
    assert flatten_weights(uninterrupted.weights).tobytes() == flatten_weights(resumed.weights).tobytes()
    assert uninterrupted.curve.tobytes() == resumed.curve.tobytes() and np.isfinite(uninterrupted.curve).all()
    assert flatten_weights(trainer(4).weights).tobytes() != flatten_weights(uninterrupted.weights).tobytes()


def test_hover_is_learnt_and_judged_by_starts_it_has_not_seen():
    setting, reports = configure_environment("hover", "crazyflie"), []
    result = gradient_trainer(setting, HYPERPARAMETERS["hover"]._replace(drones=CPU_DRONES), chunks=3)(
        1, lambda *report: reports.append(report)
    )
    assert result.curve.shape == (90,) and result.curve[-1] > result.curve[0]
    assert [done for done, _, _ in reports] == [30, 60, 90]
    evaluation = evaluator(setting, 2000)(result.weights)
    assert evaluation.success > 0.99, evaluation.success
    assert evaluation.states.shape == (len(flatten(StepFunctions(setting).state)), 2000)


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None
from pathlib import Path
from samara.learn.env_config import configure_environment
from samara.learn.training import save, train
setting, folder = configure_environment("hover", "crazyflie"), Path(sys.argv[1])
result = train(setting, folder, hidden=(8,), drones=16, horizon=2, updates=3)
save(setting, result, folder, method="analytic", seed=0)
"""


def test_a_policy_is_learnt_and_written_without_jax(tmp_path):
    subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(tmp_path)], check=True)
    assert dict(load_policy(tmp_path).evaluation)["updates"] == 3


def test_an_episode_is_judged_by_where_it_ended():
    """An episode that ends after half a second is evaluated there; later actions have no effect."""
    setting = configure_environment("hover", "crazyflie", seconds=1.0)
    task = setting.task._replace(
        reset=lambda draw, drone: (drone.trim, ()),
        termination=lambda situation, drone: situation.time > 0.5,
        success=lambda situation, drone: situation.time < 0.75,
    )
    zero_weights = ((np.zeros((4, 22), np.float32), np.zeros(4, np.float32)),)
    for variant, success_rate in (
        (task, 1.0),
        (task._replace(success=lambda situation, drone: situation.time > 0.75), 0.0),
    ):
        assert evaluator(setting._replace(task=variant), 5)(zero_weights).success == success_rate
        pytest.importorskip("jax")
        assert evaluator(setting._replace(task=variant), 5, backend="jax")(zero_weights).success == success_rate
