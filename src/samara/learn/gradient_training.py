"""Training by the gradient of the flight: rewards are summed over a short horizon and differentiated by the weights.

    maximise  J(w) = mean over drones of  (1/H) Σₖ r(xₖ, aₖ),    a = π_w(o),   with ∂J/∂w through the equations of motion

Drones continue from the end of the last horizon, except those that are lost and a fraction that restarts: the
policy is trained from the start of an episode to its end, although no gradient spans more than H steps.
"""

import math
import time
from functools import partial
from typing import NamedTuple, Protocol, TypedDict

from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.learn.env_config import EnvironmentSetting
from samara.learn.optimizer import (
    Begin,
    Chunk,
    Moments,
    Trainer,
    Update,
    adam,
    clip_norm,
    initial_moments,
    make_trainer,
    map_tree,
)
from samara.learn.policies import Layers, PolicyNetwork, RecurrentWeights, Weights, dense_network, recurrent_network
from samara.learn.task import Tree
from samara.learn.vehicle_scaling import action_matrix

MAX_GRADIENT_NORM = 1.0


class GradientHyperparameters(NamedTuple):
    """Hyperparameters: in each of `updates`, `drones` fly `horizon` steps; `restart_fraction` of them start a new episode.

    The learning rate falls linearly from `rate` to `last_rate`; `adam_beta2` is Adam's β₂. Flights are integrated by
    `integrator`; evaluations use RK4.

    With `recurrent_units` above 0, hidden layers have a ReLU, a gradient is multiplied by `gradient_decay` for every step
    back in time, and the gradient with respect to one drone's state is clipped to the norm `max_gradient_norm`.
    """

    hidden: tuple[int, ...] = (64, 64)
    drones: int = 4096
    horizon: int = 50
    updates: int = 200
    rate: float = 2e-2
    last_rate: float = 1e-4
    restart_fraction: float = 0.6
    adam_beta2: float = 0.99
    activation: str = "tanh"
    integrator: str = "rk4"
    recurrent_units: int = 0
    gradient_decay: float = 1.0
    max_gradient_norm: float = math.inf

    @property
    def network(self) -> PolicyNetwork:
        """Dense layers, or layers with recurrent units."""
        if self.recurrent_units:
            return recurrent_network(self.hidden, self.recurrent_units)
        return dense_network(self.hidden, self.activation)


HYPERPARAMETERS = {
    "hover": GradientHyperparameters((32, 32), 4096, 50, 90, 6e-2, integrator="midpoint"),
    "recover": GradientHyperparameters((64, 64), 4096, 100, 170, 6e-2, integrator="midpoint"),
    "track": GradientHyperparameters((64, 64), 4096, 100, 600, 2e-2),
    "universal": GradientHyperparameters(
        (16,), 8192, 150, 6800, 6e-3, 1e-5, 0.1, recurrent_units=16, gradient_decay=0.997, max_gradient_norm=50.0
    ),
    "navigate": GradientHyperparameters(
        (64,), 4096, 60, 600, 3e-3, 1e-5, 0.25, recurrent_units=48, gradient_decay=0.97, max_gradient_norm=50.0
    ),
}
"""By the name of a task, tuned on an H200."""
OWN_TASK = GradientHyperparameters(horizon=100)
"""For all other tasks; within half a second of flight, moving towards a goal often costs more than it gains."""
CPU_DRONES = 256  # on a few cores more drones do not train faster


class _Changes(TypedDict, total=False):
    drones: int
    horizon: int
    updates: int
    rate: float
    restart_fraction: float
    integrator: str


CPU_CHANGES: dict[str, _Changes] = {
    "universal": {"drones": 512, "integrator": "midpoint"},
    "hover": {"horizon": 100, "updates": 120, "rate": 2e-2},
    "recover": {"updates": 400, "rate": 2e-2, "integrator": "rk4"},
}
"""Further differences on the CPU, where gradients of fewer drones are noisier."""
SLOW_VEHICLE_CHANGES: dict[str, _Changes] = {
    "hover": {"updates": 60, "rate": 3e-2, "restart_fraction": 0.9},
    "recover": {},
}
"""Further differences on the CPU for vehicles that turn slowly; their updates are multiplied by `slowness`."""


def default_hyperparameters(task: str, gpu: bool, slowness: float = 1.0) -> GradientHyperparameters:
    """Return the hyperparameters of a task on a GPU or a CPU, for a vehicle (`samara.learn.vehicle_scaling.slowness`)."""
    tuned = HYPERPARAMETERS.get(task, OWN_TASK)
    if gpu:
        return tuned
    changes: _Changes = {"drones": CPU_DRONES}
    parameters = tuned._replace(**(changes | CPU_CHANGES.get(task, {})))
    if slowness == 1.0 or task not in SLOW_VEHICLE_CHANGES:
        return parameters
    parameters = parameters._replace(**SLOW_VEHICLE_CHANGES[task])
    return parameters._replace(updates=round(slowness * parameters.updates))


# The trainer ----------------------------------------------------------------------------------------------------------


class Rollout(Protocol):
    """Batches of flights of a policy on one backend, and their derivatives.

    Weights are a tree of arrays of the backend or one row, episodes an array (size, N) with a column for each drone.
    """

    def initial(self, seed: Scalar) -> tuple[Tree, Scalar, Scalar]:
        """Return weights, episodes at their start, and the key of the following random numbers."""
        ...

    def restart(self, key: Scalar, update: Scalar, weights: Tree) -> tuple[Scalar, Scalar, Scalar]:
        """Return the next key, new episodes, and a uniform random value for each drone."""
        ...

    def is_lost(self, episodes: Scalar) -> Scalar:
        """Return whether each episode has ended or has values that are not finite."""
        ...

    def gradient(self, weights: Tree, episodes: Scalar) -> tuple[Scalar, Tree, Scalar]:
        """Return the mean reward of a step, the gradient of its negative, and the episodes after the horizon."""
        ...

    def layers(self, weights: Tree) -> Weights:
        """Return the weights as (W, b) of each layer."""
        ...

    def pack_layers(self, layers: Layers) -> Tree:
        """Return the weights from (W, b) of each dense layer."""
        ...

    def compile_updates(
        self, begin: "Begin[GradientTrainingState]", update: "Update[GradientTrainingState]", size: int
    ) -> "tuple[Begin[GradientTrainingState], Chunk[GradientTrainingState]]":
        """Compile chunks of updates, as `samara.learn.optimizer.Compile`."""
        ...


class ScaledRollout:
    """A rollout whose last layer is multiplied by a matrix M: policies are π_w = tanh(M (W h + b)), and w is trained."""

    def __init__(self, rollout: Rollout, matrix: Array) -> None:
        self.rollout, self.matrix = rollout, matrix
        self.initial, self.restart, self.is_lost = rollout.initial, rollout.restart, rollout.is_lost
        self.pack_layers, self.compile_updates = rollout.pack_layers, rollout.compile_updates

    def gradient(self, weights: Tree, episodes: Scalar) -> tuple[Scalar, Tree, Scalar]:
        """Return the mean reward of a step, the gradient of its negative, and the episodes after the horizon."""
        reward, gradient, episodes = self.rollout.gradient(self._scale(weights, self.matrix), episodes)
        return reward, self._scale(gradient, self.matrix.T), episodes

    def layers(self, weights: Tree) -> Weights:
        """Return the layers of the policy that flies."""
        return self.rollout.layers(self._scale(weights, self.matrix))

    def _scale(self, weights: Tree, matrix: Array) -> Tree:
        layers = self.rollout.layers(weights)
        assert not isinstance(layers, RecurrentWeights)
        *hidden, (last, bias) = layers
        return self.rollout.pack_layers((*hidden, (matrix @ last, matrix @ bias)))


class GradientTrainingState(NamedTuple):
    """The state of a training run."""

    weights: Tree
    moments: Moments
    episodes: Scalar
    key: Scalar
    done: Scalar


def gradient_trainer(
    setting: EnvironmentSetting,
    parameters: GradientHyperparameters,
    *,
    chunks: int = 1,
    first: Weights | None = None,
    backend: str = "cpu",
) -> Trainer:
    """Compile a trainer; it starts from the weights `first`, or from random ones.

    Args:
        setting: task and vehicle.
        parameters: hyperparameters.
        chunks: count of chunks of updates; progress is reported after each.
        first: initial weights.
        backend: "cpu" compiles rollouts and their adjoints for all cores (`samara.learn.rollout_cpu`); "jax" compiles
            the updates by XLA, on a GPU with one kernel for the rollout and one for its adjoint
            (`samara.learn.jax.rollout_gpu`).
    """
    clock = time.perf_counter()
    rollout: Rollout
    if backend == "cpu":
        from samara.learn.rollout_cpu import CpuRollout

        rollout = CpuRollout(setting, parameters, first)
    else:
        from samara.learn.jax.rollout import JaxRollout

        rollout = JaxRollout(setting, parameters, first)
    scales_actions = setting.task.action == "rotors" and not parameters.recurrent_units and first is None
    if scales_actions and (matrix := action_matrix(setting.drone)) is not None:
        rollout = ScaledRollout(rollout, matrix)
    return make_trainer(
        partial(initial_state, rollout),
        partial(update, rollout, parameters),
        lambda state: rollout.layers(state.weights),
        parameters.updates,
        chunks,
        rollout.compile_updates,
        time.perf_counter() - clock,
    )


def initial_state(rollout: Rollout, seed: Scalar) -> GradientTrainingState:
    """Return the state before the first update."""
    weights, episodes, key = rollout.initial(seed)
    done = episodes.__array_namespace__().zeros((), "int32")
    return GradientTrainingState(weights, initial_moments(weights), episodes, key, done)


def update(
    rollout: Rollout, parameters: GradientHyperparameters, state: GradientTrainingState
) -> tuple[GradientTrainingState, Scalar]:
    """Take one step of Adam up the gradient of the mean reward; components that are not finite are set to 0."""
    weights, moments, episodes, key, done = state
    numpy = episodes.__array_namespace__()
    key, fresh, choice = rollout.restart(key, done, weights)
    episodes = numpy.where(rollout.is_lost(episodes) | (choice < parameters.restart_fraction), fresh, episodes)
    reward, gradient, episodes = rollout.gradient(weights, episodes)
    gradient = map_tree(
        lambda g: numpy.where(numpy.isfinite(g), g, numpy.float32(0.0)), clip_norm(gradient, MAX_GRADIENT_NORM)
    )
    rate = parameters.rate * numpy.maximum(0.0, 1.0 - done / parameters.updates) + parameters.last_rate
    weights, moments = adam(weights, gradient, moments, rate.astype("float32"), (0.9, parameters.adam_beta2))
    return GradientTrainingState(weights, moments, episodes, key, done + 1), reward
