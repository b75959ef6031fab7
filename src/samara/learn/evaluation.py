"""Evaluation of a policy: the fraction of flights from unseen initial states that end in success."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.learn.env_config import EnvironmentSetting
from samara.learn.episode import StepFunctions, is_success, templates
from samara.learn.policies import TANH, RecurrentWeights, Weights, recurrent_network

EVALUATION_SEED = 0x5EED  # seed of the initial states of evaluations
FLIGHTS = 10_000


class Evaluation(NamedTuple):
    """Count of flights, count of those that satisfy the task's `success` at their end, and the final states."""

    flights: int
    successes: int
    states: Array  # (components, flights)

    @property
    def success(self) -> float:
        """Fraction of successful flights."""
        return self.successes / self.flights


Evaluator = Callable[[Weights], Evaluation]


def evaluator(
    setting: EnvironmentSetting,
    flights: int = FLIGHTS,
    seed: int = EVALUATION_SEED,
    *,
    activation: str = TANH,
    output: str = TANH,
    backend: str = "cpu",
) -> Evaluator:
    """Compile `evaluate(weights)`, which flies a policy for the task's `seconds`; flights that end earlier are
    evaluated there.

    Args:
        setting: task and vehicle.
        flights: count of flights.
        seed: seed of the initial states.
        activation: activation of the hidden layers of a dense policy.
        output: activation of its last layer; actions are clipped to [−1, 1].
        backend: "cpu" evaluates dense policies; "jax" also recurrent ones and those that observe depth images.
    """
    if backend == "cpu":
        return _cpu_evaluator(setting, flights, seed, activation, output)
    return _jax_evaluator(setting, flights, seed, activation)


def _cpu_evaluator(setting: EnvironmentSetting, flights: int, seed: int, activation: str, output: str) -> Evaluator:
    from samara.learn.rollout_cpu import LaneRollout, flatten_weights, initial_episodes, layer_sizes

    functions = StepFunctions(setting)
    episodes, _ = initial_episodes(functions, seed, 0, flights, "judge")
    compiled: dict[tuple[int, ...], LaneRollout] = {}

    def evaluate(weights: Weights) -> Evaluation:
        assert not isinstance(weights, RecurrentWeights)
        sizes = layer_sizes(weights)
        if sizes not in compiled:
            compiled[sizes] = LaneRollout(functions, sizes, hidden=activation, output=output)
        result = compiled[sizes].fly(flatten_weights(weights), episodes, setting.task.steps)
        successes = result.succeeded | (_successes(setting, result.end) & ~result.lost)
        return Evaluation(flights, int(successes.sum()), result.end[: len(flatten(functions.state))])

    return evaluate


def _jax_evaluator(setting: EnvironmentSetting, flights: int, seed: int, activation: str) -> Evaluator:
    from samara.learn.jax.rollout import compile_episode_flight
    from samara.learn.policies import dense_network

    state_size = len(flatten(StepFunctions(setting).state))
    compiled: dict[int, Callable[[Weights], Scalar]] = {}

    def evaluate(weights: Weights) -> Evaluation:
        recurrent_units = len(weights.gru.initial) if isinstance(weights, RecurrentWeights) else 0
        if recurrent_units not in compiled:
            network = recurrent_network((), recurrent_units) if recurrent_units else dense_network(hidden=activation)
            compiled[recurrent_units] = compile_episode_flight(setting, flights, seed, network)
        rows = np.asarray(compiled[recurrent_units](weights))
        return Evaluation(flights, int(_successes(setting, rows).sum()), rows[:state_size])

    return evaluate


def _successes(setting: EnvironmentSetting, rows: Array) -> Array:
    """Return which episodes (size, N) are successful at their end."""
    episode = unflatten(templates(setting)[0], iter(rows.astype(float)))
    successes: Array = np.asarray(is_success(episode, setting)) & np.isfinite(rows).all(0)
    return successes
