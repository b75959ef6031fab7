"""A policy for PX4's `mc_nn_control`: a TensorFlow Lite file of fully connected layers, and the source that PX4 is built with.

The module (PX4 1.16, src/modules/mc_nn_control) shows its network 15 numbers in ENU and FLU, cuts the four outputs o to
[−1, 1] and makes them commands of motors in the order of its quadrotor in X:

    n = 60 √((o + 1)/k) rpm,   y = (n − n_min)/(n_max − n_min),   control = 0.8 y² + 0.2 y

with k = MC_NN_THRST_COEF/10⁵, n_min and n_max of its parameters. With THR_MDL_FAC = 0.8 a motor is then told y. So the speeds
are a mere code: y is our command from its least to its most where o = k (n_min + y (n_max − n_min))²/60² − 1, a curve of each
output of the policy, which two more layers draw by straight lines, as the module has FullyConnected, ReLU and Add alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.control.policy_file import Policy, Trim
from samara.core.atomic_files import atomic_write, write_text
from samara.core.block_ops import ACTIVATIONS, Layer
from samara.core.lazy_import import MissingExtraError
from samara.core.types import Array
from samara.core.version import __version__
from samara.export.c_syntax import comment
from samara.link.motor_outputs import rotor_of_output
from samara.physics.types import Vehicle
from samara.vehicles.limits import command_bounds

FILES = ("control_net.tflite", "control_net.cpp", "control_net.hpp")
SYMBOL = "control_net_tflite"  # as mc_nn_control.cpp has it
INPUTS = 15
SLOWEST, FASTEST = 11_000, 22_000  # [rpm] that stand for the least and the most of a command
PARAMETERS = {
    "MC_NN_MIN_RPM": float(SLOWEST),
    "MC_NN_MAX_RPM": float(FASTEST),
    "MC_NN_THRST_COEF": 2e5 / (FASTEST / 60.0) ** 2,
    "THR_MDL_FAC": 0.8,
}
"""What PX4 has to be set to: with these an output from −1 to 1 covers every command, and the factor undoes the module's own"""
KNOTS = 32  # of the lines for each motor
LEAST = 0.002  # of a command: below 0 by rounding PX4 would stop the motor
PER_LINE = 12


class Network(NamedTuple):
    """Layers as matrices (out, in) and biases, each but the last with a ReLU behind it; and the parameters PX4 needs with it"""

    layers: tuple[tuple[Array, Array], ...]
    parameters: dict[str, float]


class Written(NamedTuple):
    """The files, how many numbers the network has, and the parameters of PX4 that go with them"""

    paths: tuple[Path, ...]
    numbers: int
    parameters: dict[str, float]


def write_px4_nn(policy: Policy, vehicle: Vehicle, folder: str | Path) -> Written:
    """Writes control_net.tflite, and control_net.cpp and .hpp with the same bytes, which take the place of PX4's own"""
    network = px4_network(policy, vehicle)
    data = tflite_bytes(network.layers)
    paths = tuple(Path(folder) / name for name in FILES)
    with atomic_write(paths[0]) as temporary:
        temporary.write_bytes(data)
    about = f"A policy for {vehicle.name}, trained to {policy.task}: SHA-256 {policy.digest}. Samara {__version__}."
    write_text(paths[1], _source(data, about))
    write_text(paths[2], _header(data, about))
    numbers = sum(matrix.size + bias.size for matrix, bias in network.layers)
    return Written(paths, numbers, network.parameters)


def px4_network(policy: Policy, vehicle: Vehicle) -> Network:
    """The network as the module computes it; ValueError with one sentence where it could not"""
    _require(policy)
    own, order = policy.fitted(vehicle), rotor_of_output(vehicle, "px4")
    assert own.trim is not None
    _shares(vehicle)
    slowest, fastest = SLOWEST / 60.0, FASTEST / 60.0
    k = 2.0 / fastest**2
    layers = [(np.array(each.weights), np.array(each.bias)) for each in own.network if isinstance(each, Layer)]
    matrix, bias = layers.pop()
    rows = list(order)
    last = own.network[-1]
    assert isinstance(last, Layer)

    def curve(rotor: int) -> Callable[[Array], Array]:
        def output(z: Array) -> Array:
            """k n² − 1 of what the network gives for one rotor"""
            share = np.clip(_share(_activated(last.activation, z), rotor, own.trim, vehicle), LEAST, 1.0)
            return np.asarray(k * (slowest + share * (fastest - slowest)) ** 2 - 1.0)

        return output

    first_knot, lines = _by_lines([curve(rotor) for rotor in order])
    layers.append((matrix[rows], bias[rows] - first_knot))
    return Network((*layers, *lines), PARAMETERS)


def _require(policy: Policy) -> None:
    where = policy.folder or "the policy"
    hidden = [own.activation if isinstance(own, Layer) else "gru" for own in policy.network[:-1]]
    if any(kind != "relu" for kind in hidden):
        raise ValueError(
            f"{where}: has hidden layers of {', '.join(sorted(set(hidden)))}; PX4's mc_nn_control computes relu alone: learn "
            "one with samara learn --sees px4_nn --activation relu"
        )
    if policy.observation != "px4_nn":
        raise ValueError(
            f"{where}: sees {policy.observation}; PX4's mc_nn_control shows px4_nn, {INPUTS} numbers: learn one with "
            "samara learn --sees px4_nn --activation relu"
        )
    if policy.action != "rotors":
        raise ValueError(f"{where}: commands {policy.action}; PX4's mc_nn_control takes rotors")
    if policy.bounds is not None:
        raise ValueError(f"{where}: cuts what it sees to {policy.bounds}; PX4's mc_nn_control does not")


def _shares(vehicle: Vehicle) -> tuple[float, float]:
    """The commands that are a motor's least and most; ValueError where they differ, or there are none"""
    bounds = set((command_bounds(vehicle) or ())[: len(vehicle.rotors)])
    if len(bounds) != 1:
        raise ValueError(
            f"vehicle {vehicle.name!r} ({vehicle.structure.actuation.name}): PX4's mc_nn_control wants commands of motors, all "
            "with the same limits"
        )
    ((low, high),) = bounds
    return float(low), float(high)


def _share(action: Array, rotor: int, trim: Trim | None, vehicle: Vehicle) -> Array:
    """u = centre + reach a, as a share of the range of commands"""
    assert trim is not None
    low, high = _shares(vehicle)
    return np.asarray((trim.centre[rotor] + trim.reach[rotor] * action - low) / (high - low))


def _activated(name: str, z: Array) -> Array:
    return np.tanh(z) if name == "tanh" else np.array([float(ACTIVATIONS[name](float(x))) for x in z])


# Lines ----------------------------------------------------------------------------------------------------------------


def _by_lines(curves: list[Callable[[Array], Array]]) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
    """y = y₀ + Σ cⱼ max(0, x − xⱼ),  x = max(0, z − z₀): two layers that join points of curves which are flat at both ends

    Below the first knot z₀ the curve is flat, so the ReLU behind the layer that gives z takes nothing away.
    """
    each = len(curves)
    first, offset = np.zeros((each * KNOTS, each)), np.zeros(each * KNOTS)
    last, start, lowest = np.zeros((each, each * KNOTS)), np.zeros(each), np.zeros(each)
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
    """Points between which ∫ √|f″| is the same: then every line is as far from the curve as any other"""
    z = np.linspace(-6.0, 6.0, 12001)
    y = curve(z)
    bent = np.sqrt(np.abs(np.gradient(np.gradient(y, z), z))) + 1e-4
    along = np.concatenate([[0.0], np.cumsum(0.5 * (bent[1:] + bent[:-1]) * np.diff(z))])
    return np.interp(np.linspace(0.0, along[-1], KNOTS), along, z)


# Files ----------------------------------------------------------------------------------------------------------------


def tflite_bytes(layers: tuple[tuple[Array, Array], ...]) -> bytes:
    """A TensorFlow Lite model: FullyConnected with its bias, one after the other, a ReLU in all but the last"""
    try:
        import flatbuffers
        import tflite
    except ImportError as error:
        raise MissingExtraError("PX4's networks are TensorFlow Lite files: pip install 'samara[px4-nn]'") from error

    build = flatbuffers.Builder(1 << 16)

    def vector(offsets: list[int], start: Callable[[Any, int], Any]) -> int:
        start(build, len(offsets))
        for own in reversed(offsets):
            build.PrependUOffsetTRelative(own)
        return int(build.EndVector())

    def aligned(data: bytes) -> int:
        """At a multiple of 16 bytes, as the format wants it"""
        build.StartVector(1, len(data), 16)
        head = build.Head() - len(data)
        build.head = head
        build.Bytes[head : head + len(data)] = data
        return int(build.EndVector())

    def tensor(name: str, shape: tuple[int, ...], buffer: int) -> int:
        text, sizes = build.CreateString(name), build.CreateNumpyVector(np.array(shape, dtype=np.int32))
        tflite.TensorStart(build)
        tflite.TensorAddShape(build, sizes)
        tflite.TensorAddType(build, tflite.TensorType.FLOAT32)
        tflite.TensorAddBuffer(build, buffer)
        tflite.TensorAddName(build, text)
        return int(tflite.TensorEnd(build))

    held: list[bytes] = [b""]  # the first buffer is that of tensors without numbers
    tensors, operators, at = [tensor("observation", (1, layers[0][0].shape[1]), 0)], [], 0
    for k, (matrix, bias) in enumerate(layers):
        held += [np.ascontiguousarray(own, dtype="<f4").tobytes() for own in (matrix, bias)]
        here = len(tensors)
        tensors.append(tensor(f"{k}.weight", matrix.shape, len(held) - 2))
        tensors.append(tensor(f"{k}.bias", bias.shape, len(held) - 1))
        tensors.append(tensor(f"{k}", (1, len(bias)), 0))
        inputs = build.CreateNumpyVector(np.array([at, here, here + 1], dtype=np.int32))
        outputs = build.CreateNumpyVector(np.array([here + 2], dtype=np.int32))
        activation = tflite.ActivationFunctionType.RELU if k < len(layers) - 1 else tflite.ActivationFunctionType.NONE
        tflite.FullyConnectedOptionsStart(build)
        tflite.FullyConnectedOptionsAddFusedActivationFunction(build, activation)
        options = tflite.FullyConnectedOptionsEnd(build)
        tflite.OperatorStart(build)
        tflite.OperatorAddOpcodeIndex(build, 0)
        tflite.OperatorAddInputs(build, inputs)
        tflite.OperatorAddOutputs(build, outputs)
        tflite.OperatorAddBuiltinOptionsType(build, tflite.BuiltinOptions.FullyConnectedOptions)
        tflite.OperatorAddBuiltinOptions(build, options)
        operators.append(int(tflite.OperatorEnd(build)))
        at = here + 2
    listed, acting = (
        vector(tensors, tflite.SubGraphStartTensorsVector),
        vector(operators, tflite.SubGraphStartOperatorsVector),
    )
    ends = [build.CreateNumpyVector(np.array([own], dtype=np.int32)) for own in (0, at)]
    tflite.SubGraphStart(build)
    tflite.SubGraphAddTensors(build, listed)
    tflite.SubGraphAddInputs(build, ends[0])
    tflite.SubGraphAddOutputs(build, ends[1])
    tflite.SubGraphAddOperators(build, acting)
    graph = int(tflite.SubGraphEnd(build))
    tflite.OperatorCodeStart(build)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(build, tflite.BuiltinOperator.FULLY_CONNECTED)
    tflite.OperatorCodeAddBuiltinCode(build, tflite.BuiltinOperator.FULLY_CONNECTED)
    tflite.OperatorCodeAddVersion(build, 1)
    code = int(tflite.OperatorCodeEnd(build))
    buffers = []
    for own in held:
        numbers = aligned(own) if own else None
        tflite.BufferStart(build)
        if numbers is not None:
            tflite.BufferAddData(build, numbers)
        buffers.append(int(tflite.BufferEnd(build)))
    codes, graphs = (
        vector([code], tflite.ModelStartOperatorCodesVector),
        vector([graph], tflite.ModelStartSubgraphsVector),
    )
    all_of_them, text = vector(buffers, tflite.ModelStartBuffersVector), build.CreateString(f"Samara {__version__}")
    tflite.ModelStart(build)
    tflite.ModelAddVersion(build, 3)
    tflite.ModelAddOperatorCodes(build, codes)
    tflite.ModelAddSubgraphs(build, graphs)
    tflite.ModelAddDescription(build, text)
    tflite.ModelAddBuffers(build, all_of_them)
    build.Finish(tflite.ModelEnd(build), b"TFL3")
    return bytes(build.Output())


def _source(data: bytes, about: str) -> str:
    lines = [data[k : k + PER_LINE] for k in range(0, len(data), PER_LINE)]
    rows = "\n".join("\t" + " ".join(f"0x{byte:02x}," for byte in line) for line in lines)
    return f'{comment(about)}\n#include "control_net.hpp"\n\nalignas(16) const unsigned char {SYMBOL}[] = {{\n{rows}\n}};\n'


def _header(data: bytes, about: str) -> str:
    return (
        f"{comment(about)}\n#pragma once\n\n#include <cstdint>\n\nconstexpr unsigned int {SYMBOL}_size = {len(data)};\n"
        f"extern const unsigned char {SYMBOL}[];\n"
    )
