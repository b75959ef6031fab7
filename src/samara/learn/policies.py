"""Networks of policies for trainers, on columns of observations in NumPy or JAX, and the folders they are saved in.

    dense       h₁ = tanh(W₁ o + b₁),  h₂ = tanh(W₂ h₁ + b₂),  a = tanh(W₃ h₂ + b₃)      (hidden layers may have a ReLU)
    recurrent   x = relu(W₁ o + b₁),  r, z = σ(W x + U h + b),  n = tanh(W_n x + b_n + r (U_n h + c_n)),
                h' = (1 − z) n + z h,  a = W₂ h' + b₂                                    (Cho 2014)

W (out, in), b (out,), o (in, N). The layers and the names of their tensors are those of `samara.control.policy_file` and of
PyTorch.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from samara.control.policy_file import WEIGHTS_FILE, LayerSpec, Policy, dense_tensors, mlp_layers, save_policy
from samara.core.block_ops import Layer
from samara.core.quantity import Scalar
from samara.core.safetensors import read_tensors
from samara.core.types import Array
from samara.learn.env_config import EnvironmentSetting

TANH, RELU = "tanh", "relu"
Matrix: TypeAlias = Scalar
"""An array of NumPy or JAX."""
Layers: TypeAlias = tuple[tuple[Matrix, Matrix], ...]
"""W and b of each layer."""


class GruWeights(NamedTuple):
    """W (3h, in), U (3h, h) and their biases in the order r, z, n, and h at the start of an episode, (h,)."""

    weight_ih: Matrix
    weight_hh: Matrix
    bias_ih: Matrix
    bias_hh: Matrix
    initial: Matrix


class RecurrentWeights(NamedTuple):
    """The dense layers before the recurrent one, the recurrent one, and the output layer."""

    dense: Layers
    gru: GruWeights
    output: tuple[Matrix, Matrix]


Weights: TypeAlias = Layers | RecurrentWeights


class PolicyNetwork(NamedTuple):
    """The functions of a policy's network.

    shapes(observations, actions) lists the matrices whose standard normal entries initial_weights(normals) scales;
    initial_state(weights, N) → (units, N);  act(weights, observation, state) → actions, state.
    """

    shapes: Callable[[int, int], list[tuple[int, int]]]
    initial_weights: Callable[[Sequence[Matrix]], Weights]
    initial_state: Callable[..., Matrix]
    act: Callable[..., tuple[Matrix, Matrix]]


def dense_network(sizes: Sequence[int] = (), hidden: str = TANH) -> PolicyNetwork:
    """Create a dense network; the sizes of hidden layers are needed for initial weights only."""
    return PolicyNetwork(
        lambda observations, actions: [
            (outputs, inputs) for inputs, outputs in pairwise((observations, *sizes, actions))
        ],
        initial_layers,
        lambda weights, count: np.zeros((0, count), np.float32),
        lambda weights, observation, state: (act(weights, observation, hidden), state),
    )


def initial_layers(normals: Sequence[Matrix]) -> Layers:
    """W ~ N(0, 1/in), b = 0; the last layer a hundred times smaller, so that initial actions are near zero."""
    *layers, (matrix, bias) = [_scale_normals(normal) for normal in normals]
    return (*layers, (0.01 * matrix, bias))


def _scale_normals(normal: Matrix) -> tuple[Matrix, Matrix]:
    return normal / math.sqrt(normal.shape[1]), 0.0 * normal[:, 0]


def act(weights: Layers, observation: Matrix, hidden: str = TANH) -> Matrix:
    """Return actions in [−1, 1], (out, N)."""
    x, numpy = observation, observation.__array_namespace__()
    for k, (matrix, bias) in enumerate(weights):
        x = matrix @ x + bias[:, None]
        x = numpy.maximum(x, 0.0) if hidden == RELU and k < len(weights) - 1 else numpy.tanh(x)
    return x


def recurrent_network(hidden: tuple[int, ...], units: int) -> PolicyNetwork:
    """Create a network of dense layers of these sizes with a ReLU, and recurrent units before the output layer."""

    def shapes(observations: int, actions: int) -> list[tuple[int, int]]:
        sizes = (observations, *hidden)
        layers = [(outputs, inputs) for inputs, outputs in pairwise(sizes)]
        return [(3 * units, sizes[-1]), (3 * units, units), (actions, units), *layers]

    def initial_weights(normals: Sequence[Matrix]) -> RecurrentWeights:
        (input_weights, bias), (hidden_weights, _), (matrix, last_bias), *layers = [
            _scale_normals(normal) for normal in normals
        ]
        return RecurrentWeights(
            tuple(layers),
            GruWeights(input_weights, hidden_weights, bias, bias, bias[:units]),
            (0.01 * matrix, last_bias),
        )

    def initial_state(weights: RecurrentWeights, count: int) -> Matrix:
        return weights.gru.initial[:, None] * np.ones((1, count), np.float32)

    return PolicyNetwork(shapes, initial_weights, initial_state, act_recurrent)


def act_recurrent(weights: RecurrentWeights, observation: Matrix, state: Matrix) -> tuple[Matrix, Matrix]:
    """Return actions (out, N), not limited to [−1, 1], and the next state (h, N)."""
    x, numpy, gru, units = observation, observation.__array_namespace__(), weights.gru, len(state)
    for matrix, bias in weights.dense:
        x = numpy.maximum(matrix @ x + bias[:, None], 0.0)
    input_terms = gru.weight_ih @ x + gru.bias_ih[:, None]
    state_terms = gru.weight_hh @ state + gru.bias_hh[:, None]
    gates = 0.5 * (1.0 + numpy.tanh(0.5 * (input_terms[: 2 * units] + state_terms[: 2 * units])))  # σ
    candidate = numpy.tanh(input_terms[2 * units :] + gates[:units] * state_terms[2 * units :])
    state = candidate + gates[units:] * (state - candidate)
    matrix, bias = weights.output
    return matrix @ state + bias[:, None], state


# Folders --------------------------------------------------------------------------------------------------------------


def policy_layers(weights: Weights, activation: str = TANH) -> tuple[tuple[LayerSpec, ...], dict[str, Array]]:
    """Return the layers of a policy folder, and their tensors by name."""
    if not isinstance(weights, RecurrentWeights):
        sizes = [np.shape(bias)[0] for _, bias in weights]
        return mlp_layers(sizes[:-1], sizes[-1], activation), dense_tensors(weights)
    gru_index = len(weights.dense)
    layers = (
        *(LayerSpec("dense", np.shape(bias)[0], "relu") for _, bias in weights.dense),
        LayerSpec("gru", np.shape(weights.gru.initial)[0]),
        LayerSpec("dense", np.shape(weights.output[1])[0], "linear"),
    )
    tensors = dense_tensors(weights.dense)
    tensors |= {f"{gru_index}.{name}": tensor for name, tensor in weights.gru._asdict().items()}
    tensors |= {
        f"{gru_index + 1}.{name}": tensor for name, tensor in zip(("weight", "bias"), weights.output, strict=True)
    }
    return layers, tensors


def policy_weights(policy: Policy) -> tuple[Layers, str]:
    """Return W and b of each layer of a policy folder, and the hidden activation; raise ValueError for other networks."""
    hidden = {layer.activation if isinstance(layer, Layer) else "gru" for layer in policy.network[:-1]}
    last = policy.network[-1]
    if len(hidden) != 1 or not hidden <= {TANH, RELU} or not isinstance(last, Layer) or last.activation != TANH:
        raise ValueError(
            f"{policy.folder}: has hidden layers of {', '.join(sorted(hidden)) or 'none'}; expected all tanh or all relu, and "
            "tanh in the last, to train it further"
        )
    tensors = read_tensors(dict(policy.files)[WEIGHTS_FILE])
    count = range(len(policy.network))
    return tuple((np.array(tensors[f"{k}.weight"]), np.array(tensors[f"{k}.bias"])) for k in count), hidden.pop()


def require_flyable(setting: EnvironmentSetting) -> None:
    """Raise ValueError if no controller can compute the task's observation, so that its policy cannot be saved."""
    task = setting.task
    if not task.observation_name:
        raise ValueError(
            f"task {task.name!r} has an observation that no controller computes, so its policy has no folder; train it in "
            "Python with samara.learn.build_trainer, or set OBSERVATION = 'full_state' in the task if its observation is that"
        )
    if setting.history:
        raise ValueError(f"task {task.name!r}: history = {setting.history}; expected 0 for a policy folder")


def save_trained_policy(
    folder: Path,
    setting: EnvironmentSetting,
    weights: Weights,
    evaluation: dict[str, str | float],
    activation: str = TANH,
    curve: Callable[[Path], None] | None = None,
) -> Policy:
    """Write the folder of a policy trained in a setting, and read it back."""
    return save_network(folder, setting, policy_layers(weights, activation), evaluation, curve)


def save_network(
    folder: Path,
    setting: EnvironmentSetting,
    network: tuple[Sequence[LayerSpec], dict[str, Array]],
    evaluation: dict[str, str | float],
    curve: Callable[[Path], None] | None = None,
) -> Policy:
    """Write the folder of a network, given as its layers and tensors, for the task and vehicle of a setting."""
    task = setting.task
    layers, tensors = network
    return save_policy(
        folder,
        setting.drone.nominal,
        layers,
        tensors,
        task=task.name,
        observation=task.observation_name,
        action=task.action,
        period=task.period,
        bounds=task.bounds,
        universal=task.action == "throttle",
        evaluation=evaluation,
        versions={"numpy": np.__version__},
        curve=curve,
    )
