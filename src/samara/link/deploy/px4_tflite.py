"""Export a policy for PX4's `mc_nn_control`: a TensorFlow Lite file of fully connected layers, and C++ source for PX4's build.

The module (PX4 1.16, src/modules/mc_nn_control) passes its network 15 inputs in ENU and FLU, clips the four outputs o to
[−1, 1] and converts them to motor commands in the order of its quadrotor X:

    n = 60 √((o + 1)/k) rpm,   y = (n − n_min)/(n_max − n_min),   control = 0.8 y² + 0.2 y

with k = MC_NN_THRST_COEF/10⁵, n_min and n_max from its parameters. With THR_MDL_FAC = 0.8 the motor's command is then y. The
speeds are therefore only an encoding: y is Samara's command from its minimum to its maximum if
o = k (n_min + y (n_max − n_min))²/60² − 1. Two more layers approximate this curve of each output piecewise linearly, because
the module supports only FullyConnected, ReLU and Add.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.control.policy_file import ActionTrim, Policy
from samara.core.atomic_files import atomic_write, write_text
from samara.core.block_ops import ACTIVATIONS, Layer
from samara.core.extras import import_extra
from samara.core.types import Array
from samara.core.version import __version__
from samara.export.c_syntax import comment
from samara.link.motor_outputs import rotor_order
from samara.physics.types import Vehicle
from samara.vehicles.limits import command_bounds

FILES = ("control_net.tflite", "control_net.cpp", "control_net.hpp")
SYMBOL = "control_net_tflite"  # as in mc_nn_control.cpp
INPUTS = 15
MIN_RPM, MAX_RPM = 11_000, 22_000  # [rpm] that encode the minimum and the maximum of a command
PARAMETERS = {
    "MC_NN_MIN_RPM": float(MIN_RPM),
    "MC_NN_MAX_RPM": float(MAX_RPM),
    "MC_NN_THRST_COEF": 2e5 / (MAX_RPM / 60.0) ** 2,
    "THR_MDL_FAC": 0.8,
}
"""Parameters for PX4: an output from −1 to 1 covers the full command range, and THR_MDL_FAC cancels the module's curve."""
KNOTS = 32  # of the piecewise linear curve of each motor
MIN_COMMAND_FRACTION = 0.002  # fraction of the command range: rounding below 0 would make PX4 stop the motor
BYTES_PER_LINE = 12


class DenseLayers(NamedTuple):
    """Layers as matrices (out, in) and biases, with a ReLU after each but the last; and the parameters that PX4 needs."""

    layers: tuple[tuple[Array, Array], ...]
    parameters: dict[str, float]


class WrittenNetwork(NamedTuple):
    """The files, the size of the network, and the parameters that PX4 needs."""

    paths: tuple[Path, ...]
    parameter_count: int
    parameters: dict[str, float]


def write_px4_nn(policy: Policy, vehicle: Vehicle, folder: str | Path) -> WrittenNetwork:
    """Write control_net.tflite, and control_net.cpp and .hpp with the same bytes, which replace PX4's."""
    network = px4_network(policy, vehicle)
    data = tflite_bytes(network.layers)
    paths = tuple(Path(folder) / name for name in FILES)
    with atomic_write(paths[0]) as temporary:
        temporary.write_bytes(data)
    notice = f"A policy for {vehicle.name}, trained to {policy.task}: SHA-256 {policy.digest}. Samara {__version__}."
    write_text(paths[1], _source(data, notice))
    write_text(paths[2], _header(data, notice))
    parameter_count = sum(matrix.size + bias.size for matrix, bias in network.layers)
    return WrittenNetwork(paths, parameter_count, network.parameters)


def px4_network(policy: Policy, vehicle: Vehicle) -> DenseLayers:
    """Convert a policy to the network that the module computes; raise ValueError if the module cannot compute it."""
    _require_compatible(policy)
    fitted, order = policy.adapt(vehicle), rotor_order(vehicle, "px4")
    assert fitted.trim is not None
    _command_limits(vehicle)
    min_speed, max_speed = MIN_RPM / 60.0, MAX_RPM / 60.0
    k = 2.0 / max_speed**2
    layers = [(np.array(layer.weights), np.array(layer.bias)) for layer in fitted.network if isinstance(layer, Layer)]
    matrix, bias = layers.pop()
    rows = list(order)
    last = fitted.network[-1]
    assert isinstance(last, Layer)

    def curve(rotor: int) -> Callable[[Array], Array]:
        def output(z: Array) -> Array:
            """k n² − 1 as a function of the last layer's output for one rotor."""
            action = np.clip(_activate(last.activation, z), -1.0, 1.0)
            fraction = _command_fraction(action, rotor, fitted.trim, vehicle)
            command_fraction = np.clip(fraction, MIN_COMMAND_FRACTION, 1.0)
            return np.asarray(k * (min_speed + command_fraction * (max_speed - min_speed)) ** 2 - 1.0)

        return output

    first_knot, lines = _piecewise_linear_layers([curve(rotor) for rotor in order])
    layers.append((matrix[rows], bias[rows] - first_knot))
    return DenseLayers((*layers, *lines), PARAMETERS)


def _require_compatible(policy: Policy) -> None:
    source = policy.folder or "the policy"
    hidden = [layer.activation if isinstance(layer, Layer) else "gru" for layer in policy.network[:-1]]
    if any(activation != "relu" for activation in hidden):
        raise ValueError(
            f"{source}: has hidden layers of {', '.join(sorted(set(hidden)))}; PX4's mc_nn_control supports only relu: train "
            "one with samara train --observation px4_nn --activation relu"
        )
    if policy.observation != "px4_nn":
        raise ValueError(
            f"{source}: has the observation {policy.observation}; PX4's mc_nn_control has px4_nn, {INPUTS} inputs: train one "
            "with samara train --observation px4_nn --activation relu"
        )
    if policy.action != "rotors":
        raise ValueError(f"{source}: commands {policy.action}; PX4's mc_nn_control takes rotors")
    if policy.bounds is not None:
        raise ValueError(f"{source}: clips its observation to {policy.bounds}; PX4's mc_nn_control does not")


def _command_limits(vehicle: Vehicle) -> tuple[float, float]:
    """Return the minimum and maximum of the motor commands; raise ValueError if they differ between motors or do not exist."""
    bounds = set((command_bounds(vehicle) or ())[: len(vehicle.rotors)])
    if len(bounds) != 1:
        raise ValueError(
            f"vehicle {vehicle.name!r} ({vehicle.structure.actuation.name}): PX4's mc_nn_control needs motor commands that all "
            "have the same limits"
        )
    ((low, high),) = bounds
    return float(low), float(high)


def _command_fraction(action: Array, rotor: int, trim: ActionTrim | None, vehicle: Vehicle) -> Array:
    """u = centre + reach a, as a fraction of the command range."""
    assert trim is not None
    low, high = _command_limits(vehicle)
    return np.asarray((trim.offset[rotor] + trim.scale[rotor] * action - low) / (high - low))


def _activate(name: str, z: Array) -> Array:
    return np.tanh(z) if name == "tanh" else np.array([float(ACTIVATIONS[name](float(x))) for x in z])


# Lines ----------------------------------------------------------------------------------------------------------------


def _piecewise_linear_layers(curves: list[Callable[[Array], Array]]) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
    """y = y₀ + Σ cⱼ max(0, x − xⱼ),  x = max(0, z − z₀): two layers that interpolate curves which are flat at both ends.

    Below the first knot z₀ the curve is flat, so the ReLU after the layer that computes z loses nothing.
    """
    n = len(curves)
    first, offset = np.zeros((n * KNOTS, n)), np.zeros(n * KNOTS)
    last, start, lowest = np.zeros((n, n * KNOTS)), np.zeros(n), np.zeros(n)
    for i, curve in enumerate(curves):
        z = _knots(curve)
        y = curve(z)
        slopes = np.diff(y) / np.diff(z)
        rows = slice(i * KNOTS, (i + 1) * KNOTS)
        first[rows, i], offset[rows] = 1.0, z[0] - z
        last[i, rows] = np.diff(np.concatenate([[0.0], slopes, [0.0]]))
        start[i], lowest[i] = y[0], z[0]
    return lowest, ((first, offset), (last, start))


def _knots(curve: Callable[[Array], Array]) -> Array:
    """Place knots so that ∫ √|f″| between neighbours is constant, which equalises the interpolation error."""
    z = np.linspace(-6.0, 6.0, 12001)
    y = curve(z)
    curvature_density = np.sqrt(np.abs(np.gradient(np.gradient(y, z), z))) + 1e-4
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (curvature_density[1:] + curvature_density[:-1]) * np.diff(z))])
    return np.interp(np.linspace(0.0, cumulative[-1], KNOTS), cumulative, z)


# Files ----------------------------------------------------------------------------------------------------------------


def tflite_bytes(layers: tuple[tuple[Array, Array], ...]) -> bytes:
    """Serialise a TensorFlow Lite model: FullyConnected layers with bias, with a ReLU in all but the last."""
    feature = "a network for PX4"
    flatbuffers = import_extra("flatbuffers", feature, "flatbuffers", "px4-nn")
    tflite = import_extra("tflite", feature, "tflite", "px4-nn")
    builder = flatbuffers.Builder(1 << 16)

    def vector(offsets: list[int], start: Callable[[Any, int], Any]) -> int:
        start(builder, len(offsets))
        for value in reversed(offsets):
            builder.PrependUOffsetTRelative(value)
        return int(builder.EndVector())

    def append_aligned(data: bytes) -> int:
        """Append data at a multiple of 16 bytes, as the format requires."""
        builder.StartVector(1, len(data), 16)
        head = builder.Head() - len(data)
        builder.head = head
        builder.Bytes[head : head + len(data)] = data
        return int(builder.EndVector())

    def tensor(name: str, shape: tuple[int, ...], buffer: int) -> int:
        text, sizes = builder.CreateString(name), builder.CreateNumpyVector(np.array(shape, dtype=np.int32))
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, sizes)
        tflite.TensorAddType(builder, tflite.TensorType.FLOAT32)
        tflite.TensorAddBuffer(builder, buffer)
        tflite.TensorAddName(builder, text)
        return int(tflite.TensorEnd(builder))

    buffer_data: list[bytes] = [b""]  # the first buffer is for tensors without data
    tensors, operators, input_index = [tensor("observation", (1, layers[0][0].shape[1]), 0)], [], 0
    for k, (matrix, bias) in enumerate(layers):
        buffer_data += [np.ascontiguousarray(value, dtype="<f4").tobytes() for value in (matrix, bias)]
        first_index = len(tensors)
        tensors.append(tensor(f"{k}.weight", matrix.shape, len(buffer_data) - 2))
        tensors.append(tensor(f"{k}.bias", bias.shape, len(buffer_data) - 1))
        tensors.append(tensor(f"{k}", (1, len(bias)), 0))
        inputs = builder.CreateNumpyVector(np.array([input_index, first_index, first_index + 1], dtype=np.int32))
        outputs = builder.CreateNumpyVector(np.array([first_index + 2], dtype=np.int32))
        activation = tflite.ActivationFunctionType.RELU if k < len(layers) - 1 else tflite.ActivationFunctionType.NONE
        tflite.FullyConnectedOptionsStart(builder)
        tflite.FullyConnectedOptionsAddFusedActivationFunction(builder, activation)
        options = tflite.FullyConnectedOptionsEnd(builder)
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, 0)
        tflite.OperatorAddInputs(builder, inputs)
        tflite.OperatorAddOutputs(builder, outputs)
        tflite.OperatorAddBuiltinOptionsType(builder, tflite.BuiltinOptions.FullyConnectedOptions)
        tflite.OperatorAddBuiltinOptions(builder, options)
        operators.append(int(tflite.OperatorEnd(builder)))
        input_index = first_index + 2
    tensor_vector, operator_vector = (
        vector(tensors, tflite.SubGraphStartTensorsVector),
        vector(operators, tflite.SubGraphStartOperatorsVector),
    )
    end_indices = [builder.CreateNumpyVector(np.array([value], dtype=np.int32)) for value in (0, input_index)]
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_vector)
    tflite.SubGraphAddInputs(builder, end_indices[0])
    tflite.SubGraphAddOutputs(builder, end_indices[1])
    tflite.SubGraphAddOperators(builder, operator_vector)
    graph = int(tflite.SubGraphEnd(builder))
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, tflite.BuiltinOperator.FULLY_CONNECTED)
    tflite.OperatorCodeAddBuiltinCode(builder, tflite.BuiltinOperator.FULLY_CONNECTED)
    tflite.OperatorCodeAddVersion(builder, 1)
    code = int(tflite.OperatorCodeEnd(builder))
    buffers = []
    for value in buffer_data:
        data_offset = append_aligned(value) if value else None
        tflite.BufferStart(builder)
        if data_offset is not None:
            tflite.BufferAddData(builder, data_offset)
        buffers.append(int(tflite.BufferEnd(builder)))
    codes, graphs = (
        vector([code], tflite.ModelStartOperatorCodesVector),
        vector([graph], tflite.ModelStartSubgraphsVector),
    )
    buffer_vector, text = vector(buffers, tflite.ModelStartBuffersVector), builder.CreateString(f"Samara {__version__}")
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, codes)
    tflite.ModelAddSubgraphs(builder, graphs)
    tflite.ModelAddDescription(builder, text)
    tflite.ModelAddBuffers(builder, buffer_vector)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def _source(data: bytes, notice: str) -> str:
    lines = [data[k : k + BYTES_PER_LINE] for k in range(0, len(data), BYTES_PER_LINE)]
    rows = "\n".join("\t" + " ".join(f"0x{byte:02x}," for byte in line) for line in lines)
    return f'{comment(notice)}\n#include "control_net.hpp"\n\nalignas(16) const unsigned char {SYMBOL}[] = {{\n{rows}\n}};\n'


def _header(data: bytes, notice: str) -> str:
    return (
        f"{comment(notice)}\n#pragma once\n\n#include <cstdint>\n\nconstexpr unsigned int {SYMBOL}_size = {len(data)};\n"
        f"extern const unsigned char {SYMBOL}[];\n"
    )
