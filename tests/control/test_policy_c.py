"""A policy in C: against the one it was traced from, number by number and in flight. Skips where there is no compiler."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.distilled import PERIOD, distilled
from support.networks import drawn
from typer.testing import CliRunner

import samara
from samara.cli import app
from samara.control.policy import PolicyController
from samara.control.policy_c import NED, OURS, PolicyInC, compiled, write_policy_c
from samara.control.policy_file import LayerKind, Policy, mlp, save_policy
from samara.control.registry import tuned
from samara.core.algebra import Vec3
from samara.physics.frames import ned_from_enu, state_ned_frd_from_enu_flu, yaw_ned_from_enu
from samara.physics.multirotor import at_rest
from samara.physics.types import Reference, Vehicle

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wdouble-promotion", "-Wfloat-conversion")


def in_c(policy: Policy, vehicle: Vehicle, folder: Path, period: float, *, ned: bool = False) -> PolicyInC:
    exported = write_policy_c(policy, vehicle, folder, NED if ned else OURS)
    return PolicyInC(policy, exported, compiled(exported.source, folder / "policy.so", *STRICT), period)


@needs_cc
@pytest.mark.parametrize("ned", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [mlp((64, 64), 4), mlp((31,), 4, "relu"), (LayerKind("dense", 16, "relu"), LayerKind("gru", 16), *mlp((), 4))],
    ids=["tanh", "relu", "gru"],
)
def test_actions_are_within_a_millionth_of_those_in_double(kinds: Any, ned: bool, tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    observation = "raptor" if kinds[1].kind == "gru" else "full_state"
    policy = save_policy(tmp_path, vehicle, kinds, drawn(kinds, 22), task="hover", observation=observation)
    there = in_c(policy, vehicle, tmp_path, 0.004, ned=ned)
    own, draw, worst = PolicyController(policy, 0.004), np.random.default_rng(7), 0.0
    memory, held = own.initial_memory, there.initial_memory
    for _ in range(50):
        numbers = np.float32(draw.normal(size=24))
        turn = np.float32([1.0, *(0.3 * numbers[6:9])])
        q = turn / np.linalg.norm(turn)
        speeds = [float(x) for x in np.float32(1885.0 + 100.0 * numbers[12:16])]
        at = [Vec3(*map(float, numbers[k : k + 3])) for k in (0, 3, 9, 16, 19)]
        state = at_rest(vehicle)._replace(
            p_W=at[0], v_W=at[1], q_WB=samara.Quat(*map(float, q)), omega_B=at[2], rotor_speed=tuple(speeds), effects=()
        )
        asked = Reference(at[3], at[4], yaw=float(numbers[22]))
        command, memory = own(state, asked, vehicle, memory)
        if ned:
            state = state_ned_frd_from_enu_flu(state)
            asked = Reference(ned_from_enu(at[3]), ned_from_enu(at[4]), yaw=yaw_ned_from_enu(asked.yaw))
        given, held = there(state, asked, vehicle, held)
        assert policy.trim is not None
        worst = max(worst, *(abs(a - b) / r for a, b, r in zip(command, given, policy.trim.reach, strict=True)))
    assert worst < 1e-6


@needs_cc
def test_it_flies_in_c_as_it_does_here(tmp_path: Path) -> None:
    vehicle = samara.vehicle("crazyflie")
    policy = distilled(tmp_path / "policy", vehicle, hidden=32, samples=1000)
    settings = {"duration": 3.0}
    here = samara.fly("hover", controller=tuned("policy", file=policy), settings=settings)
    there = samara.fly("hover", controller=in_c(policy, vehicle, tmp_path, PERIOD), settings=settings)
    one, two = (run.tracks[0].tables["state"].rows[:, :3] for run in (here, there))
    assert one[-1, 2] > 1.0  # it did take off
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-4)


def test_the_command_line_writes_it_and_tells_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = mlp((8,), 4)
    vehicle = samara.vehicle("crazyflie")
    save_policy(tmp_path / "policy", vehicle, kinds, drawn(kinds, 22), task="hover")
    run = CliRunner().invoke(app, ["export", "policy", str(tmp_path / "policy"), "-o", str(tmp_path / "out")])
    assert run.exit_code == 0, run.output
    assert "220 parameters, 880 bytes; 20 bytes of state between calls" in run.output
    assert ("µs per call" in run.output) == (shutil.which("cc") is not None)
    again = (tmp_path / "out" / "samara_policy.c").read_bytes()
    monkeypatch.setenv("PATH", "")
    run = CliRunner().invoke(app, ["export", "policy", str(tmp_path / "policy"), "-o", str(tmp_path / "out")])
    assert "no C compiler found" in run.output and (tmp_path / "out" / "samara_policy.c").read_bytes() == again
