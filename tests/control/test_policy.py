"""Policies as controllers: against networks in NumPy, and bit-identical in every way of simulation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.distilled_policy import distil_policy
from support.networks import random_tensors

import samara
from samara.compiler.compiled_step import CompiledStep
from samara.compiler.llvm.codegen import vector_width
from samara.control.depth_observation import BLOCK_COUNT
from samara.control.gate_observation import GATE_OBSERVATION_SIZE
from samara.control.observation import OBSERVATIONS, Bounds, ObservedState, relative_state
from samara.control.policy_file import (
    GruLayer,
    LayerSpec,
    Policy,
    build_network,
    evaluate_network,
    initial_hidden,
    load_policy,
    policy_trim,
    save_policy,
)
from samara.control.registry import controller_spec, create_controller
from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.core.block_ops import ACTIVATIONS, Layer
from samara.core.ops import sigmoid, tanh
from samara.core.tree import flatten
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference
from samara.record.run import recorded_policies, report_changed_policies
from samara.scenario.file import load_scenario
from samara.sim.fly import fingerprint
from samara.sim.replay import replay
from samara.sim.varied import varied_drone

FILE = """
duration = 1.5
[[drones]]
name = "drone"
vehicle = "crazyflie"
airborne = true
start = [0.0, 0.0, 1.0]
controller = { type = "policy", file = "policy/" }
sensors = ["bmi088", "vicon"]
estimator = "ekf"
[[drones.tasks]]
type = "hover"
duration = 1.5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario with a policy beside it, distilled from the LQR"""
    directory = tmp_path_factory.mktemp("flown")
    distil_policy(directory / "policy", samara.vehicle("crazyflie"), hidden=32, samples=2000)
    (directory / "mine.toml").write_text(FILE)
    return directory


# Networks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [-800.0, -20.0, -1e-9, 0.0, 0.3, 20.0, 800.0])
def test_activations_are_those_of_numpy_at_any_size(x: float) -> None:
    assert tanh(x) == pytest.approx(np.tanh(x), abs=3e-16)
    assert sigmoid(x) == pytest.approx(1.0 / (1.0 + np.exp(-np.longdouble(x))), abs=3e-16)


def test_a_recurrent_network_is_the_textbooks() -> None:
    kinds = (LayerSpec("dense", 5, "relu"), LayerSpec("gru", 6), LayerSpec("dense", 2, "tanh"))
    tensors = random_tensors(kinds, 3)
    network = build_network(kinds, 3, tensors)
    hidden, h = initial_hidden(network), tensors["1.initial"].astype(float)
    for x in np.random.default_rng(2).normal(size=(7, 3)):
        y, hidden = evaluate_network(network, x.tolist(), hidden)
        dense_output = np.maximum(tensors["0.weight"].astype(float) @ x + tensors["0.bias"], 0.0)
        i, j = (
            tensors[f"1.weight_{a}"].astype(float) @ b + tensors[f"1.bias_{a}"]
            for a, b in (("ih", dense_output), ("hh", h))
        )
        r, z = (1.0 / (1.0 + np.exp(-(i + j)[6 * k : 6 * k + 6])) for k in (0, 1))
        n = np.tanh(i[12:] + r * j[12:])
        h = (1.0 - z) * n + z * h
        np.testing.assert_allclose(hidden[0], h, rtol=0, atol=1e-15)
        np.testing.assert_allclose(
            y, np.tanh(tensors["2.weight"].astype(float) @ h + tensors["2.bias"]), rtol=0, atol=1e-15
        )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_dense_layer_has_the_bits_of_its_scalar_products(activation: str) -> None:
    """A single drone, tiles of many, partial tiles, and NumPy: the same sums in the same order"""
    rng = np.random.default_rng(3)
    first = Layer(*_random_layer(rng, 13, 5), activation)
    second = Layer(*_random_layer(rng, 3, 14), activation)

    def body(carry: tuple[float, ...], inputs: tuple[float, ...]) -> tuple[float, ...]:
        inner = first([x * inputs[0] for x in inputs])
        return second([*inner, carry[0] + inputs[1]])  # some inputs come from the first layer, some do not

    code = CompiledStep(body, (0.0,) * 3, (0.0,) * 5)
    assert code.instructions > 13 * 5 + 3 * 14 and len(code._program.instructions) < 60
    n = vector_width("float64") + 3
    x, y = rng.normal(size=(5, n)), rng.normal(size=(3, n))
    batch_machine = code.machine(n)
    batch_machine.held_inputs[:], batch_machine.carry[:] = x, y
    batch_machine.run()
    np.testing.assert_array_equal(batch_machine.carry, np.array(body(tuple(y), tuple(x))))
    for i in range(n):
        single_machine = code.machine()
        single_machine.held_inputs[:, 0], single_machine.carry[:, 0] = x[:, i], y[:, i]
        single_machine.run()
        np.testing.assert_array_equal(single_machine.carry[:, 0], batch_machine.carry[:, i])


def _random_layer(
    draw: np.random.Generator, rows: int, columns: int
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    return tuple(map(tuple, draw.normal(size=(rows, columns)).tolist())), tuple(draw.normal(size=rows).tolist())


# Observations -------------------------------------------------------------------------------------------------------


def test_observations_are_relative_to_the_reference() -> None:
    """Rotating and shifting the world and the reference together changes nothing"""
    state = state_at_rest(samara.vehicle("crazyflie"))._replace(
        p_W=Vec3(0.1, -0.2, 0.3), v_W=Vec3(0.4, 0.5, -0.6), q_WB=quat_from_euler(0.1, -0.2, 0.3)
    )
    reference = Reference(Vec3(1.0, 2.0, 3.0), Vec3(0.3, 0.0, 0.1), yaw=2.1)
    rotation = Quat(np.cos(1.05), 0.0, 0.0, np.sin(1.05))
    moved = state._replace(
        p_W=reference.p_W + rotate(rotation, state.p_W),
        v_W=reference.v_W + rotate(rotation, state.v_W),
        q_WB=rotation * state.q_WB,
    )
    np.testing.assert_allclose(flatten(relative_state(moved, reference)), flatten(state), atol=1e-15)
    clipped = relative_state(state, Reference(Vec3(0.0, 0.0, 0.0)), Bounds(0.15, 0.5))
    assert clipped.p_W == (0.1, -0.15, 0.15) and clipped.v_W == (0.4, 0.5, -0.5)


def test_observations_have_their_declared_size() -> None:
    vehicle = samara.vehicle("hexarotor_x")
    observed_state = ObservedState(state_at_rest(vehicle), (0.0,) * 6, policy_trim(vehicle).hover_speed)
    ahead_sizes = {"race": GATE_OBSERVATION_SIZE, "depth": BLOCK_COUNT}
    for name, observation in OBSERVATIONS.items():
        assert len(
            observation.compute(observed_state._replace(ahead=(0.0,) * ahead_sizes.get(name, 0)))
        ) == observation.size(6, 6)
    assert OBSERVATIONS["full_state"].compute(observed_state)[6:15] == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


# In flight ----------------------------------------------------------------------------------------------------------


def test_a_policy_flies_a_scenario_and_is_recorded(folder: Path) -> None:
    run = samara.fly(folder / "mine.toml", out=folder / "run.mcap", overwrite=True)
    track = run.drone_records[0]
    error = np.linalg.norm(track.tables["state"].rows[:, :3] - [0.0, 0.0, 1.0], axis=1)
    assert track.controller == "policy" and error.max() < 0.05
    policy = load_policy(folder / "policy")
    assert recorded_policies(run)["drone"]["sha256"] == policy.digest
    assert run.attachments["policy/policy%2F/weights.safetensors"] == dict(policy.files)["weights.safetensors"]
    stepped = samara.fly(folder / "mine.toml", step_by_step=True)
    assert fingerprint(run) == fingerprint(stepped) == fingerprint(replay(folder / "run.mcap"))
    scenario = load_scenario(folder / "mine.toml")
    vary = {"goal_shift": np.linspace(0.0, 0.1, 9).reshape(3, 3), "mass": np.array([0.0275, 0.028, 0.0285])}
    final_states = np.array(flatten(samara.fly_many(scenario, 3, vary=vary).final))
    single_scenario = replace(scenario, seed=scenario.seed + 2, drones=(varied_drone(scenario.drones[0], vary, 2),))
    np.testing.assert_array_equal(
        final_states[:, 2], samara.fly(single_scenario).drone_records[0].tables["state"].rows[-1]
    )


def test_a_recording_is_read_without_the_folder_and_reports_a_changed_policy(folder: Path, tmp_path: Path) -> None:
    from samara.record.load import load_run
    from samara.scenario.file import parse_scenario

    policy_folder = tmp_path / "policy"
    policy_folder.mkdir()
    for path in (folder / "policy").iterdir():
        (policy_folder / path.name).write_bytes(path.read_bytes())
    samara.fly(
        "hover",
        controller=controller_spec("policy", file=policy_folder),
        settings={"duration": 0.2},
        out=tmp_path / "a.mcap",
    )
    run = load_run(tmp_path / "a.mcap")
    assert report_changed_policies(run, tmp_path) == []
    assert f"policy/{load_policy(policy_folder).digest}/policy.toml" in run.attachments
    distil_policy(policy_folder, samara.vehicle("crazyflie"), hidden=8, samples=500)
    assert "has changed since" in report_changed_policies(run, tmp_path)[0]
    samara.fly(folder / "mine.toml", out=tmp_path / "b.mcap")
    files = load_run(tmp_path / "b.mcap").attachments
    inside = parse_scenario(files["scenario.toml"].decode(), "inside", recorded_files=files)
    assert inside.drones[0].controller == load_scenario(folder / "mine.toml").drones[0].controller


def test_the_policy_state_advances_once_a_period(tmp_path: Path) -> None:
    """Called every 4 ms, a policy of 10 ms updates its state at 0, 12, 20, 32, 40 ms; at 10 ms, every time"""
    vehicle = samara.vehicle("crazyflie")
    kinds = (LayerSpec("gru", 4), LayerSpec("dense", 4, "tanh"))
    policy = save_policy(tmp_path, vehicle, kinds, random_tensors(kinds, 22), task="hover", observation="raptor")
    for period, expected_times in (
        (4e-3, [0, 12, 20, 32, 40]),
        (1e-2, [0, 10, 20, 30, 40]),
        (2e-3, [0, 10, 20, 30, 40]),
    ):
        controller = create_controller("policy", vehicle, period=period, file=policy)
        controller_state, state, times = controller.initial_state, trim_state(vehicle), []
        for tick in range(round(0.042 / period) + 1):
            _, next_state = controller.call(state, Reference(Vec3(0.1, 0.0, 1.0)), vehicle, controller_state)
            if next_state.hidden != controller_state.hidden:
                times.append(round(1e3 * tick * period))
            controller_state = next_state
        assert [time for time in times if time <= 40] == expected_times
    with pytest.raises(ValueError, match=r"acts every 10 ms.*expected rates.control = 100 or more"):
        create_controller("policy", vehicle, period=0.02, file=policy)


def trim_state(vehicle: samara.Vehicle) -> samara.State:
    return samara.hover(vehicle)[0]


def test_a_policy_for_any_vehicle_takes_its_trim(tmp_path: Path) -> None:
    kinds = (LayerSpec("dense", 4, "tanh"),)
    crazyflie, iris = samara.vehicle("crazyflie"), samara.vehicle("iris")
    zero = {"0.weight": np.zeros((4, 22)), "0.bias": np.zeros(4)}
    save_policy(tmp_path, crazyflie, kinds, zero, task="hover", universal=True)
    for vehicle in (crazyflie, iris):
        controller = create_controller("policy", vehicle, file=tmp_path)
        command, _ = controller.call(
            trim_state(vehicle), Reference(Vec3(0.0, 0.0, 1.0)), vehicle, controller.initial_state
        )
        assert command == pytest.approx(samara.hover(vehicle)[1], rel=1e-15)
    with pytest.raises(ValueError, match=r"for 4 rotors; vehicle 'hexarotor_x' has 6"):
        create_controller("policy", samara.vehicle("hexarotor_x"), file=tmp_path)


def test_policies_are_compared_by_value(folder: Path) -> None:
    one, two = load_policy(folder / "policy"), load_policy(folder / "policy")
    assert one == two and hash(one) == hash(two) and isinstance(one, Policy)
    assert (
        not any(isinstance(layer, GruLayer) for layer in one.network)
        and one.multiplication_count == 22 * 32 + 32 * 32 + 32 * 4
    )
