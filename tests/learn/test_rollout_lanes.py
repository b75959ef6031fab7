"""A policy flown there and back in machine code: the gradient is JAX's, and the slope of its rewards, whatever the threads."""

import subprocess
import sys

import numpy as np
import pytest

from samara.compiler import thread_pool
from samara.control.policy_file import load_policy
from samara.core.tree import flatten, unflatten
from samara.learn.compiled_episode import program_of
from samara.learn.domain_randomization import RAPTOR
from samara.learn.env_config import setting_for
from samara.learn.episode import StepFunctions
from samara.learn.evaluation import evaluator
from samara.learn.gradient_training import CPU_DRONES, HYPERPARAMETERS, Hyperparameters, gradient_trainer
from samara.learn.optimizer import Checkpoint, map_tree
from samara.learn.rollout_cpu import LaneRollout, layers_of, row_of, starts

SETTINGS = {
    "hover": {},
    "late actions, seen again, two steps in a period": {"substeps": 2, "delay": (0, 2), "history": 2},
    "thrust and rates": {"action": "thrust_and_rates"},
    "vehicles of their own": {"randomization": RAPTOR},
}
TINY = Hyperparameters(hidden=(8,), drones=20, horizon=3, updates=4)


class Flight:
    """A lively policy, drones in their first moments, and cotangents of what comes of it"""

    def __init__(self, setting, steps=3, drones=19, dtype="float64", hidden="tanh", integrator="rk4"):
        self.functions = StepFunctions(setting)
        self.sizes = (self.functions.observations, 13, 8, len(self.functions.action))
        self.rollout = LaneRollout(self.functions, self.sizes, steps, dtype, dtype == "float32", hidden, integrator)
        rng = np.random.default_rng(0)
        self.weights = (0.3 * rng.normal(size=self.rollout.layers.numbers)).astype(dtype)
        self.episodes = starts(self.functions, 1, 0, drones)[0].astype(dtype)
        self.total_bar = rng.normal(size=drones)
        self.end_bar = np.zeros(self.episodes.shape)
        moving = list(self.functions.varying)
        self.end_bar[moving] = rng.normal(size=(len(moving), drones))

    def value(self, weights, episodes):
        flown = self.rollout.gradient(weights, episodes, self.total_bar).flown
        return flown.total @ self.total_bar + (self.end_bar * flown.end).sum()

    def gradient(self):
        return self.rollout.gradient(self.weights, self.episodes, self.total_bar, self.end_bar)


@pytest.fixture(scope="module")
def hovering():
    return Flight(setting_for("hover", "crazyflie"))


def test_a_gradient_is_the_slope_of_what_was_flown(hovering):
    """(4 D(e) − D(2e)) / 3 of central differences D along a direction of weights and starts"""
    rng = np.random.default_rng(5)
    found = hovering.gradient()
    d_weights = rng.normal(size=hovering.weights.shape)
    d_start = np.zeros(hovering.episodes.shape)
    moving = list(hovering.functions.varying)
    d_start[moving] = rng.normal(size=(len(moving), d_start.shape[1]))

    def difference(e):
        ends = [hovering.value(hovering.weights + s * d_weights, hovering.episodes + s * d_start) for s in (e, -e)]
        return (ends[0] - ends[1]) / (2 * e)

    terms = found.weights * d_weights, found.start * d_start
    size = sum(np.abs(own).sum() for own in terms)
    expected = (4 * difference(1e-4) - difference(2e-4)) / 3
    assert abs(sum(own.sum() for own in terms) - expected) <= 1e-9 * size


def test_a_rollout_is_the_flight_of_the_environment():
    """Three actions of the policy, each a step of `VectorEnv`'s program: the same rewards and ends"""
    setting = setting_for("hover", "crazyflie")
    flight = Flight(setting)
    program, rows, rewards = program_of(setting), flight.episodes.copy(), 0.0
    for _ in range(3):
        x = np.array(flight.functions.observe(unflatten(flight.functions.episode, iter(rows))))
        for matrix, bias in layers_of(flight.weights, flight.sizes):
            x = np.tanh(matrix @ x + bias[:, None])
        _, reward, _ = program.step(rows, x)
        rewards = rewards + reward[0]
    found = flight.gradient().flown
    np.testing.assert_allclose(found.total, rewards, rtol=1e-12)
    np.testing.assert_allclose(found.end, rows, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "hidden", "integrator"),
    [*((kind, "tanh", "rk4") for kind in SETTINGS), ("hover", "relu", "rk4"), ("hover", "tanh", "midpoint")],
)
def test_jax_flies_and_differentiates_alike(kind, hidden, integrator):
    jax = pytest.importorskip("jax")
    from samara.learn.jax.rollout import flat_step, rolled_integrator, rollout_xla
    from samara.learn.policies import dense_network

    setting = setting_for("hover", "crazyflie", **SETTINGS[kind])
    flight = Flight(setting, hidden=hidden, integrator=integrator)
    layers = map_tree(jax.numpy.asarray, layers_of(flight.weights, flight.sizes))
    rollout = rollout_xla(flat_step(setting, rolled_integrator(integrator)), 3, dense_network(hidden=hidden))
    (total, end), back = jax.vjp(rollout, layers, jax.numpy.asarray(flight.episodes))
    bars = jax.numpy.asarray(flight.total_bar), jax.numpy.asarray(flight.end_bar)
    by_weights, by_start = back(bars)
    moving = list(flight.functions.varying)
    found = flight.gradient()
    for own, expected in (
        (found.flown.total, total),
        (found.flown.end, end),
        (found.weights, row_of(by_weights, np.float64)),
        (found.start[moving], np.asarray(by_start)[moving]),
    ):
        assert np.abs(own - np.asarray(expected)).max() <= 1e-12 * np.abs(expected).max()


def test_the_same_bits_of_any_number_of_threads_and_drones():
    """In single precision, as learning has it; what is one drone's is the same among 40 as among 19"""
    flight = Flight(setting_for("hover", "crazyflie"), steps=20, drones=40, dtype="float32")
    found = []
    for count in (1, 3):
        with thread_pool.limited_to(count):
            found.append(flight.gradient())
    assert found[0].weights.tobytes() == found[1].weights.tobytes()
    assert found[0].start.tobytes() == found[1].start.tobytes()
    few = flight.rollout.gradient(
        flight.weights, flight.episodes[:, :19], flight.total_bar[:19], flight.end_bar[:, :19]
    )
    assert few.flown.total.tobytes() == found[0].flown.total[:19].tobytes()
    assert np.ascontiguousarray(few.start).tobytes() == np.ascontiguousarray(found[0].start[:, :19]).tobytes()
    with pytest.raises(ValueError, match="is for gradients"):
        flight.rollout.fly(flight.weights, flight.episodes, 3)


# Learning ------------------------------------------------------------------------------------------------------------


class StoppedError(Exception):
    """By whoever watches"""


def test_what_was_stopped_goes_on_to_the_same_weights(tmp_path):
    learner = gradient_trainer(setting_for("hover", "crazyflie"), TINY, chunks=4)
    with thread_pool.limited_to(1):
        whole = learner(3)

    def stop(done, updates, reward):
        if done == 2:
            raise StoppedError

    checkpoint = Checkpoint(tmp_path / "half.npz", {"seed": 3})
    with pytest.raises(StoppedError):
        learner(3, stop, checkpoint)
    resumed = learner(3, None, checkpoint)
    assert row_of(whole.weights).tobytes() == row_of(resumed.weights).tobytes()
    assert whole.curve.tobytes() == resumed.curve.tobytes() and np.isfinite(whole.curve).all()
    assert row_of(learner(4).weights).tobytes() != row_of(whole.weights).tobytes()


def test_hover_is_learnt_and_judged_by_starts_it_has_not_seen():
    setting, told = setting_for("hover", "crazyflie"), []
    learnt = gradient_trainer(setting, HYPERPARAMETERS["hover"]._replace(drones=CPU_DRONES), chunks=3)(
        1, lambda *report: told.append(report)
    )
    assert learnt.curve.shape == (90,) and learnt.curve[-1] > learnt.curve[0]
    assert [done for done, _, _ in told] == [30, 60, 90]
    judged = evaluator(setting, 2000)(learnt.weights)
    assert judged.success > 0.99, judged.success
    assert judged.states.shape == (len(flatten(StepFunctions(setting).state)), 2000)


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None
from pathlib import Path
from samara.learn.env_config import setting_for
from samara.learn.training import save, train
setting, folder = setting_for("hover", "crazyflie"), Path(sys.argv[1])
learnt = train(setting, folder, hidden=(8,), drones=16, horizon=2, updates=3)
save(setting, learnt, folder, method="analytic", seed=0)
"""


def test_a_policy_is_learnt_and_written_without_jax(tmp_path):
    subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(tmp_path)], check=True)
    assert dict(load_policy(tmp_path).evaluation)["updates"] == 3


def test_an_episode_is_judged_by_where_it_ended():
    """One that ends after half a second, and would have succeeded until then, has; what a policy does later is not seen"""
    setting = setting_for("hover", "crazyflie", seconds=1.0)
    task = setting.task._replace(
        reset=lambda draw, craft: (craft.trim, ()),
        termination=lambda situation, craft: situation.time > 0.5,
        success=lambda situation, craft: situation.time < 0.75,
    )
    nothing = ((np.zeros((4, 22), np.float32), np.zeros(4, np.float32)),)
    for own, share in ((task, 1.0), (task._replace(success=lambda situation, craft: situation.time > 0.75), 0.0)):
        assert evaluator(setting._replace(task=own), 5)(nothing).success == share
        pytest.importorskip("jax")
        assert evaluator(setting._replace(task=own), 5, backend="jax")(nothing).success == share
