"""A policy in PX4's mc_nn_control: against the module's arithmetic, reimplemented from its source, and readers of its file."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import random_tensors
from support.trained_policies import trained_policy

import samara
from samara.control.policy import PolicyController
from samara.control.policy_file import LayerSpec, Policy, mlp_layers, save_policy
from samara.core.algebra import Vec3
from samara.core.extras import MissingExtraError, install_hint
from samara.link.deploy.px4_tflite import KNOTS, px4_network, tflite_bytes, write_px4_nn
from samara.link.motor_outputs import rotor_order
from samara.physics.frames import ned_from_enu, state_ned_frd_from_enu_flu
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference, State

VEHICLES = ("crazyflie", "iris")


def random_policy(folder: Path, vehicle: str, last: str = "tanh", **options: Any) -> Policy:
    layer_kinds = mlp_layers((24, 24), 4, "relu", last)
    return save_policy(
        folder,
        samara.vehicle(vehicle),
        layer_kinds,
        random_tensors(layer_kinds, 15),
        task="hover",
        **{"observation": "px4_nn", **options},
    )


# PX4's computation, from src/modules/mc_nn_control/mc_nn_control.cpp and src/lib/mixer_module/functions/FunctionMotors.hpp


def input_tensor(state: State, setpoint_W: Vec3) -> np.ndarray:
    """PopulateInputTensor: position and velocity in NED, quaternion from FRD to NED, rates in FRD."""
    ned_state = state_ned_frd_from_enu_flu(state)
    to_flu = np.diag([1.0, -1.0, -1.0])
    enu_rotation = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    w, x, y, z = ned_state.q_WB
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    position, setpoint, velocity = (
        to_flu @ enu_rotation @ np.array(vector) for vector in (ned_state.p_W, ned_from_enu(setpoint_W), ned_state.v_W)
    )
    attitude = to_flu @ (enu_rotation @ R) @ to_flu.T
    return np.concatenate(
        [setpoint - position, attitude[0], attitude[1], velocity, to_flu @ np.array(ned_state.omega_B)]
    )


def motor_signals(output: np.ndarray, parameters: dict[str, float]) -> np.ndarray:
    """RescaleActions, and updateValues with THR_MDL_FAC, from 0 to 1; NaN is a stopped motor."""
    o = np.clip(output, -1.0, 1.0) + 1.0
    rpm = np.sqrt(o / (parameters["MC_NN_THRST_COEF"] / 100000.0)) * 60.0
    low, high = parameters["MC_NN_MIN_RPM"], parameters["MC_NN_MAX_RPM"]
    x = ((rpm * 2.0 - high - low) / (high - low) + 1.0) / 2.0
    a, b = 0.8, 0.2
    control = a * ((x + b / (2 * a)) ** 2 - b * b / (4 * a * a))
    f = parameters["THR_MDL_FAC"]
    g = 1.0 - f
    signal = -g / (2 * f) + np.sqrt(g * g / (4 * f * f) + control / f)
    return np.where(control < -1.2e-7, np.nan, signal)


def evaluate_layers(layers: Any, x: np.ndarray) -> np.ndarray:
    for k, (matrix, bias) in enumerate(layers):
        x = np.float32(matrix) @ np.float32(x) + np.float32(bias)
        x = np.maximum(x, 0.0) if k < len(layers) - 1 else x
    return x


def random_state(vehicle: Any, rng: Any) -> State:
    q = rng.normal(size=4)
    vectors = [Vec3(*map(float, rng.normal(size=3))) for _ in range(3)]
    return state_at_rest(vehicle)._replace(
        p_W=vectors[0], v_W=vectors[1], q_WB=samara.Quat(*map(float, q / np.linalg.norm(q))), omega_B=vectors[2]
    )


@pytest.mark.parametrize("last", ["tanh", "linear"])
@pytest.mark.parametrize("name", VEHICLES)
def test_motor_commands_equal_those_of_the_policy(name: str, last: str, tmp_path: Path) -> None:
    """To the error of the piecewise linear curve."""
    vehicle, rng, worst = samara.vehicle(name), np.random.default_rng(5), 0.0
    policy = random_policy(tmp_path, name, last)
    network, order = px4_network(policy, vehicle), rotor_order(vehicle, "px4")
    controller = PolicyController(policy, 0.01)
    for _ in range(200):
        state, position = random_state(vehicle, rng), Vec3(*map(float, rng.normal(size=3)))
        command, _ = controller(state, Reference(position), vehicle, controller.initial_state)
        signals = motor_signals(evaluate_layers(network.layers, input_tensor(state, position)), network.parameters)
        expected = np.clip(np.array(command)[list(order)], 0.0, 1.0)
        worst = max(worst, float(np.abs(signals - expected).max()))
    assert worst < (1e-3 if last == "tanh" else 3e-3)  # interpolation error; no motor below 0.002


def test_parameters_are_within_px4s_limits(tmp_path: Path) -> None:
    for name in VEHICLES:
        parameters = px4_network(random_policy(tmp_path / name, name), samara.vehicle(name)).parameters
        assert 0.0 < parameters["MC_NN_THRST_COEF"] <= 5.0 and parameters["THR_MDL_FAC"] == 0.8
        assert 0 <= parameters["MC_NN_MIN_RPM"] < parameters["MC_NN_MAX_RPM"] <= 80000
        assert all(parameters[f"MC_NN_{end}_RPM"] == round(parameters[f"MC_NN_{end}_RPM"]) for end in ("MIN", "MAX"))


def test_a_policy_that_the_module_cannot_compute_is_one_sentence(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    gru = (LayerSpec("dense", 8, "relu"), LayerSpec("gru", 8), LayerSpec("dense", 4, "tanh"))
    recurrent = save_policy(tmp_path / "g", vehicle, gru, random_tensors(gru, 15), task="hover", observation="px4_nn")
    layer_kinds = mlp_layers((8,), 4, "relu")
    other = save_policy(tmp_path / "o", vehicle, layer_kinds, random_tensors(layer_kinds, 22), task="hover")
    for policy, message in (
        (trained_policy(), "has hidden layers of tanh; PX4's mc_nn_control supports only relu"),
        (recurrent, "has hidden layers of gru, relu; PX4's mc_nn_control supports only relu"),
        (other, "has the observation full_state; PX4's mc_nn_control has px4_nn, 15 inputs"),
    ):
        with pytest.raises(ValueError, match=message):
            px4_network(policy, vehicle)


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(MissingExtraError, match=f"a network for PX4 needs .*: {re.escape(install_hint('px4-nn'))}"):
        tflite_bytes(((np.zeros((4, 15)), np.zeros(4)),))


def test_the_file_has_only_fully_connected_layers(tmp_path: Path) -> None:
    """Read back by the format's readers and computed in NumPy, and by TensorFlow Lite if that is installed."""
    tflite = pytest.importorskip("tflite")
    vehicle, rng = samara.vehicle("crazyflie"), np.random.default_rng(1)
    policy = random_policy(tmp_path / "policy", "crazyflie")
    exported = write_px4_nn(policy, vehicle, tmp_path / "out")
    data = exported.paths[0].read_bytes()
    assert data[4:8] == b"TFL3"
    model = tflite.Model.GetRootAsModel(data, 0)
    codes = [model.OperatorCodes(k).BuiltinCode() for k in range(model.OperatorCodesLength())]
    assert codes == [tflite.BuiltinOperator.FULLY_CONNECTED] and model.SubgraphsLength() == 1
    graph = model.Subgraphs(0)
    assert graph.Tensors(graph.Inputs(0)).ShapeAsNumpy().tolist() == [1, 15]
    assert graph.Tensors(graph.Outputs(0)).ShapeAsNumpy().tolist() == [1, 4]

    def tensor_array(tensor: Any) -> np.ndarray:
        data_array = model.Buffers(tensor.Buffer()).DataAsNumpy()
        return np.frombuffer(data_array.tobytes(), "<f4").reshape(tensor.ShapeAsNumpy())

    network, x = px4_network(policy, vehicle), np.float32(rng.normal(size=15))
    y = x
    for k in range(graph.OperatorsLength()):
        operator = graph.Operators(k)
        matrix, bias = (tensor_array(graph.Tensors(operator.Inputs(i))) for i in (1, 2))
        options = tflite.FullyConnectedOptions()
        options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
        y = matrix @ y + bias
        y = np.maximum(y, 0.0) if options.FusedActivationFunction() == tflite.ActivationFunctionType.RELU else y
    np.testing.assert_allclose(y, evaluate_layers(network.layers, x), rtol=0, atol=1e-5)
    assert f"size = {len(data)};" in exported.paths[2].read_text()
    source = exported.paths[1].read_text()
    assert (
        bytes(int(byte_text, 16) for byte_text in source.split("{")[1].split("}")[0].replace(",", " ").split()) == data
    )
    assert exported.parameter_count == 15 * 24 + 24 + 24 * 24 + 24 + 24 * 4 + 4 + 2 * (4 * KNOTS * 4) + 4 * KNOTS + 4
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x[None])
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0], y, atol=1e-5)
