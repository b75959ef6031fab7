"""A policy in PX4's mc_raptor: the archive as RLtools reads it, its example, and Samara's policy in RAPTOR's order."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import random_tensors
from support.trained_policies import trained_policy

import samara
from samara.control.observation import Bounds
from samara.control.policy import RAPTOR_LAYERS, PolicyController, bundled_policy
from samara.control.policy_file import (
    WEIGHTS_FILE,
    Policy,
    build_network,
    evaluate_network,
    initial_hidden,
    save_policy,
)
from samara.core.algebra import Vec3
from samara.core.safetensors import read_tensors
from samara.link.deploy.px4_raptor import raptor_tensors, write_px4_raptor
from samara.link.motor_outputs import rotor_order
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference


def random_policy(folder: Path, vehicle: str, **options: Any) -> Policy:
    return save_policy(
        folder,
        samara.vehicle(vehicle),
        RAPTOR_LAYERS,
        random_tensors(RAPTOR_LAYERS, 22),
        task="hover",
        observation="raptor",
        **options,
    )


def entries(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]


def read(archive: dict[str, bytes], path: str) -> np.ndarray:
    """Read a tensor as described in RLtools' persist/backends/tar/operations_generic.h."""
    lines = archive[f"{path}/meta"].decode().split("\n")[:-1]
    meta = dict(line.split(": ") for line in lines)
    assert meta["type"] == "tensor" and meta["dtype"] == "float32" and len(archive[f"{path}/meta"]) < 100
    shape = [int(meta[f"dim_{k}"]) for k in range(int(meta["num_dims"]))]
    return np.frombuffer(archive[f"{path}/data"], np.float32).reshape(shape)


def test_the_archive_holds_the_entries_that_the_module_reads(tmp_path: Path) -> None:
    """Its example agrees with an independent recurrent network, to the module's tolerance."""
    policy = random_policy(tmp_path / "policy", "crazyflie")
    archive = entries(write_px4_raptor(policy, samara.vehicle("crazyflie"), tmp_path / "policy.tar").read_bytes())
    assert archive["actor/meta"].startswith(b"checkpoint_name: samara hover ") and len(archive["actor/meta"]) < 256
    weights = {
        name: read(archive, f"actor/layers/{name}/parameters").astype(float)
        for name in (
            *("0/weights", "0/biases", "1/weights_input", "1/biases_input", "1/weights_hidden", "1/biases_hidden"),
            *("1/initial_hidden_state", "2/weights", "2/biases"),
        )
    }
    observations, actions = read(archive, "example/input"), read(archive, "example/output")
    assert observations.shape == (500, 2, 22) and actions.shape == (500, 2, 4)
    for flight in range(2):
        h, error = weights["1/initial_hidden_state"], 0.0
        for step in range(20):
            x = np.maximum(weights["0/weights"] @ observations[step, flight] + weights["0/biases"], 0.0)
            i, j = (weights[f"1/weights_{a}"] @ b + weights[f"1/biases_{a}"] for a, b in (("input", x), ("hidden", h)))
            r, z = (1.0 / (1.0 + np.exp(-(i + j)[16 * k : 16 * k + 16])) for k in (0, 1))
            h = z * h + (1.0 - z) * np.tanh(i[32:] + r * j[32:])
            error = max(error, np.abs(weights["2/weights"] @ h + weights["2/biases"] - actions[step, flight]).max())
        assert error < 1e-5


@pytest.mark.parametrize("name", ["crazyflie", "iris"])
def test_in_raptors_order_and_range_it_commands_the_same(name: str, tmp_path: Path) -> None:
    """mc_raptor: control = (a + 1)/2, remapped from the Crazyflie's order; the last action is observed as it was computed."""
    vehicle, rng = samara.vehicle(name), np.random.default_rng(2)
    policy = random_policy(tmp_path, name, bounds=Bounds(0.5, 1.0))
    network = build_network(RAPTOR_LAYERS, 22, raptor_tensors(policy, vehicle))
    order = rotor_order(vehicle, "crazyflie")
    controller = PolicyController(policy, 0.01)
    controller_state, hidden = controller.initial_state, initial_hidden(network)
    assert policy.trim is not None
    last = [2.0 * policy.trim.offset[k] - 1.0 for k in order]  # of an action of 0
    for _ in range(30):
        q = rng.normal(size=4)
        state = state_at_rest(vehicle)._replace(
            p_W=Vec3(*map(float, 0.2 * rng.normal(size=3))), q_WB=samara.Quat(*map(float, q / np.linalg.norm(q)))
        )
        command, controller_state = controller(state, Reference(Vec3(0.0, 0.0, 0.0)), vehicle, controller_state)
        p = np.clip(np.array(state.p_W), -0.5, 0.5)
        observation = [*p, *samara.core.algebra.matrix_from_quat(state.q_WB), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *last]
        action, hidden = evaluate_network(network, observation, hidden)
        last = list(action)
        control = [(component + 1.0) / 2.0 for component in action]
        remapped = [control[0], control[2], control[3], control[1]]  # REMAP_FROM_CRAZYFLIE, to PX4's motors 1 to 4
        expected = [command[k] for k in rotor_order(vehicle, "px4")]
        np.testing.assert_allclose(remapped, expected, rtol=0, atol=2e-5)


def test_another_architecture_is_one_sentence(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    for policy, message in (
        (
            trained_policy(),
            "its layers are dense 32 tanh, dense 32 tanh, dense 4 tanh; PX4's mc_raptor is built for dense 16 relu",
        ),
        (random_policy(tmp_path / "a", "crazyflie", period=0.02), "has a period of 0.02 s; PX4's mc_raptor has 0.01"),
        (random_policy(tmp_path / "b", "crazyflie", bounds=Bounds(1.0, 1.0)), "clips errors to 1 m and 1 m/s"),
    ):
        with pytest.raises(ValueError, match=message):
            raptor_tensors(policy, vehicle)


@pytest.mark.parametrize("name", ["crazyflie", "iris"])
def test_the_policy_for_every_quadrotor_is_exported_unchanged(name: str) -> None:
    """Rotors in RAPTOR's order, −1 and 1 the motors' limits: weights are unchanged, those of the last action are 0."""
    policy = bundled_policy("universal")
    exported, saved = raptor_tensors(policy, samara.vehicle(name)), read_tensors(dict(policy.files)[WEIGHTS_FILE])
    first = exported.pop("0.weight")
    assert (first[:, :18] == saved.pop("0.weight")).all() and first.shape == (16, 22) and not first[:, 18:].any()
    assert exported.keys() == saved.keys() and all((exported[key] == saved[key]).all() for key in saved)
