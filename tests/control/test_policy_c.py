"""Policies exported as C: against the traced original, in single actions and in flight. Skipped without a compiler."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.distilled_policy import PERIOD, distil_policy
from support.networks import random_tensors
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.policy import PolicyController
from samara.control.policy_c import ENU, NED, CompiledPolicy, compile_library, write_policy_c
from samara.control.policy_file import LayerSpec, Policy, mlp_layers, save_policy
from samara.control.registry import controller_spec
from samara.core.algebra import Vec3
from samara.physics.frames import ned_from_enu, state_ned_frd_from_enu_flu, yaw_ned_from_enu
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference, Vehicle

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wdouble-promotion", "-Wfloat-conversion")


def build_c_policy(
    policy: Policy, vehicle: Vehicle, folder: Path, period: float, *, ned: bool = False
) -> CompiledPolicy:
    exported = write_policy_c(policy, vehicle, folder, NED if ned else ENU)
    return CompiledPolicy(policy, exported, compile_library(exported.source, folder / "policy.so", *STRICT), period)


@needs_cc
@pytest.mark.parametrize("ned", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [
        mlp_layers((64, 64), 4),
        mlp_layers((31,), 4, "relu"),
        (LayerSpec("dense", 16, "relu"), LayerSpec("gru", 16), *mlp_layers((), 4)),
    ],
    ids=["tanh", "relu", "gru"],
)
def test_actions_are_within_a_millionth_of_those_in_double(kinds: Any, ned: bool, tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    observation = "raptor" if kinds[1].type == "gru" else "full_state"
    policy = save_policy(tmp_path, vehicle, kinds, random_tensors(kinds, 22), task="hover", observation=observation)
    c_policy = build_c_policy(policy, vehicle, tmp_path, 0.004, ned=ned)
    controller, rng, worst = PolicyController(policy, 0.004), np.random.default_rng(7), 0.0
    controller_state, c_state = controller.initial_state, c_policy.initial_state
    for _ in range(50):
        values = np.float32(rng.normal(size=24))
        quaternion = np.float32([1.0, *(0.3 * values[6:9])])
        q = quaternion / np.linalg.norm(quaternion)
        speeds = [float(x) for x in np.float32(1885.0 + 100.0 * values[12:16])]
        vectors = [Vec3(*map(float, values[k : k + 3])) for k in (0, 3, 9, 16, 19)]
        state = state_at_rest(vehicle)._replace(
            p_W=vectors[0],
            v_W=vectors[1],
            q_WB=samara.Quat(*map(float, q)),
            omega_B=vectors[2],
            rotor_speed=tuple(speeds),
            effects=(),
        )
        reference = Reference(vectors[3], vectors[4], yaw=float(values[22]))
        command, controller_state = controller(state, reference, vehicle, controller_state)
        if ned:
            state = state_ned_frd_from_enu_flu(state)
            reference = Reference(
                ned_from_enu(vectors[3]), ned_from_enu(vectors[4]), yaw=yaw_ned_from_enu(reference.yaw)
            )
        c_command, c_state = c_policy(state, reference, vehicle, c_state)
        assert policy.trim is not None
        worst = max(worst, *(abs(a - b) / r for a, b, r in zip(command, c_command, policy.trim.scale, strict=True)))
    assert worst < 1e-6


@needs_cc
def test_flights_in_c_and_in_python_agree(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    policy = distil_policy(tmp_path / "policy", vehicle, hidden=32, samples=1000)
    settings = {"duration": 3.0}
    python_run = samara.fly("hover", controller=controller_spec("policy", file=policy), settings=settings)
    c_run = samara.fly("hover", controller=build_c_policy(policy, vehicle, tmp_path, PERIOD), settings=settings)
    python_path, c_path = (run.drone_records[0].tables["state"].rows[:, :3] for run in (python_run, c_run))
    assert python_path[-1, 2] > 1.0  # it did take off
    np.testing.assert_allclose(c_path, python_path, rtol=0, atol=1e-4)


def test_the_command_line_writes_it_and_reports_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = mlp_layers((8,), 4)
    vehicle = samara.vehicle("crazyflie")
    save_policy(tmp_path / "policy", vehicle, kinds, random_tensors(kinds, 22), task="hover")
    run = CliRunner().invoke(app, ["export", "policy", str(tmp_path / "policy"), "-o", str(tmp_path / "out")])
    assert run.exit_code == 0, run.output
    assert "220 parameters, 880 bytes; 20 bytes of state between calls" in run.output
    assert ("µs per call" in run.output) == (shutil.which("cc") is not None)
    again = (tmp_path / "out" / "samara_policy.c").read_bytes()
    monkeypatch.setenv("PATH", "")
    run = CliRunner().invoke(app, ["export", "policy", str(tmp_path / "policy"), "-o", str(tmp_path / "out")])
    assert "no C compiler found" in run.output and (tmp_path / "out" / "samara_policy.c").read_bytes() == again
