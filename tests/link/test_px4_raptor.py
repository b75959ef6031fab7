"""A policy in PX4's mc_raptor: the archive as RLtools reads it, its example, and a policy of ours in RAPTOR's order."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.learnt import trained
from support.networks import drawn

import samara
from samara.control.observation import Bounds
from samara.control.policy import RAPTOR_LAYERS, PolicyController, shipped_policy
from samara.control.policy_file import WEIGHTS, Policy, evaluate, initial_hidden, network_of, save_policy
from samara.core.algebra import Vec3
from samara.core.safetensors import read_tensors
from samara.link.deploy.px4_raptor import raptor_tensors, write_px4_raptor
from samara.link.motor_outputs import rotor_of_output
from samara.physics.multirotor import at_rest
from samara.physics.types import Reference


def random_policy(folder: Path, vehicle: str, **options: Any) -> Policy:
    return save_policy(
        folder,
        samara.vehicle(vehicle),
        RAPTOR_LAYERS,
        drawn(RAPTOR_LAYERS, 22),
        task="hover",
        observation="raptor",
        **options,
    )


def entries(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {own.name: tar.extractfile(own).read() for own in tar.getmembers()}  # type: ignore[union-attr]


def read(held: dict[str, bytes], path: str) -> np.ndarray:
    """As the comment in RLtools' persist/backends/tar/operations_generic.h reads a tensor"""
    lines = held[f"{path}/meta"].decode().split("\n")[:-1]
    meta = dict(line.split(": ") for line in lines)
    assert meta["type"] == "tensor" and meta["dtype"] == "float32" and len(held[f"{path}/meta"]) < 100
    shape = [int(meta[f"dim_{k}"]) for k in range(int(meta["num_dims"]))]
    return np.frombuffer(held[f"{path}/data"], np.float32).reshape(shape)


def test_the_archive_holds_what_the_module_looks_for(tmp_path: Path) -> None:
    """And its example is that of a recurrent network written here once more, to what the module allows"""
    policy = random_policy(tmp_path / "policy", "crazyflie")
    held = entries(write_px4_raptor(policy, samara.vehicle("crazyflie"), tmp_path / "policy.tar").read_bytes())
    assert held["actor/meta"].startswith(b"checkpoint_name: samara hover ") and len(held["actor/meta"]) < 256
    weights = {
        name: read(held, f"actor/layers/{name}/parameters").astype(float)
        for name in (
            *("0/weights", "0/biases", "1/weights_input", "1/biases_input", "1/weights_hidden", "1/biases_hidden"),
            *("1/initial_hidden_state", "2/weights", "2/biases"),
        )
    }
    seen, acted = read(held, "example/input"), read(held, "example/output")
    assert seen.shape == (500, 2, 22) and acted.shape == (500, 2, 4)
    for flight in range(2):
        h, off = weights["1/initial_hidden_state"], 0.0
        for step in range(20):
            x = np.maximum(weights["0/weights"] @ seen[step, flight] + weights["0/biases"], 0.0)
            i, j = (weights[f"1/weights_{a}"] @ b + weights[f"1/biases_{a}"] for a, b in (("input", x), ("hidden", h)))
            r, z = (1.0 / (1.0 + np.exp(-(i + j)[16 * k : 16 * k + 16])) for k in (0, 1))
            h = z * h + (1.0 - z) * np.tanh(i[32:] + r * j[32:])
            off = max(off, np.abs(weights["2/weights"] @ h + weights["2/biases"] - acted[step, flight]).max())
        assert off < 1e-5


@pytest.mark.parametrize("name", ["crazyflie", "iris"])
def test_in_raptors_order_and_range_it_commands_what_ours_does(name: str, tmp_path: Path) -> None:
    """mc_raptor: control = (a + 1)/2, remapped from the Crazyflie's order; the last action is seen as it was given"""
    vehicle, draw = samara.vehicle(name), np.random.default_rng(2)
    policy = random_policy(tmp_path, name, bounds=Bounds(0.5, 1.0))
    network = network_of(RAPTOR_LAYERS, 22, raptor_tensors(policy, vehicle))
    order = rotor_of_output(vehicle, "crazyflie")
    ours = PolicyController(policy, 0.01)
    memory, hidden = ours.initial_memory, initial_hidden(network)
    assert policy.trim is not None
    last = [2.0 * policy.trim.centre[k] - 1.0 for k in order]  # of an action of 0
    for _ in range(30):
        q = draw.normal(size=4)
        state = at_rest(vehicle)._replace(
            p_W=Vec3(*map(float, 0.2 * draw.normal(size=3))), q_WB=samara.Quat(*map(float, q / np.linalg.norm(q)))
        )
        command, memory = ours(state, Reference(Vec3(0.0, 0.0, 0.0)), vehicle, memory)
        p = np.clip(np.array(state.p_W), -0.5, 0.5)
        seen = [*p, *samara.core.algebra.matrix_from_quat(state.q_WB), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *last]
        theirs, hidden = evaluate(network, seen, hidden)
        last = list(theirs)
        control = [(own + 1.0) / 2.0 for own in theirs]
        remapped = [control[0], control[2], control[3], control[1]]  # REMAP_FROM_CRAZYFLIE, to PX4's motors 1 to 4
        wanted = [command[k] for k in rotor_of_output(vehicle, "px4")]
        np.testing.assert_allclose(remapped, wanted, rtol=0, atol=2e-5)


def test_another_architecture_is_one_sentence(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    for policy, words in (
        (
            trained(),
            "its layers are dense 32 tanh, dense 32 tanh, dense 4 tanh; PX4's mc_raptor is built for dense 16 relu",
        ),
        (random_policy(tmp_path / "a", "crazyflie", period=0.02), "has a period of 0.02 s; PX4's mc_raptor has 0.01"),
        (random_policy(tmp_path / "b", "crazyflie", bounds=Bounds(1.0, 1.0)), "clips errors to 1 m and 1 m/s"),
    ):
        with pytest.raises(ValueError, match=words):
            raptor_tensors(policy, vehicle)


@pytest.mark.parametrize("name", ["crazyflie", "iris"])
def test_the_policy_for_every_quadrotor_goes_to_px4_as_it_is(name: str) -> None:
    """Rotors in RAPTOR's order, −1 and 1 the motors' limits: weights stay as they are, those of the last action are 0"""
    policy = shipped_policy("universal")
    written, saved = raptor_tensors(policy, samara.vehicle(name)), read_tensors(dict(policy.files)[WEIGHTS])
    first = written.pop("0.weight")
    assert (first[:, :18] == saved.pop("0.weight")).all() and first.shape == (16, 22) and not first[:, 18:].any()
    assert written.keys() == saved.keys() and all((written[key] == saved[key]).all() for key in saved)
