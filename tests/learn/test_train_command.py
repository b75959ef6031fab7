"""`samara train`: what it says if the evaluation fails, the training diverges or a task cannot be traced; terms of rewards."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.command import call

from samara.learn import Env, VectorEnv
from samara.learn.optimizer import make_trainer, run_in_python

TASK = """
from samara.core import dot
from samara.learn import observe

SECONDS, OBSERVATION = 0.2, "full_state"

def reset(draw, drone):
    return drone.trim._replace(p_W=draw.vector(0.5)), ()

def observation(situation, drone):
    return observe("full_state", situation, drone)

def reward(situation, drone):
    {reward}

def termination(situation, drone):
    return situation.state.p_W.z > 9.0

def success(situation, drone):
    return dot(situation.state.p_W, situation.state.p_W) < {limit}
"""
TERMS = 'return {"alive": 1.0, "distance": -dot(situation.state.p_W, situation.state.p_W)}'


@pytest.fixture
def task_file(tmp_path):
    """Return a function that writes a task."""

    def write(reward=TERMS, limit=9.0):
        path = tmp_path / "mine.py"
        path.write_text(TASK.replace("{reward}", reward).replace("{limit}", str(limit)))
        return str(path)

    return write


def test_a_failed_evaluation_is_status_1(monkeypatch, capsys, tmp_path, task_file):
    arguments = ("--updates", "2", "--drones", "8", "-o", str(tmp_path / "policy"))
    status, out, _ = call(monkeypatch, capsys, "train", task_file(limit=1e-9), *arguments)
    assert status == 1
    assert "success 0.00 % of 10000" in out and "failed: fewer than 90 % of the flights succeed" in out
    assert "--updates 4 --rate 0.01" in out and "samara fly" not in out
    status, out, _ = call(monkeypatch, capsys, "train", task_file(), *arguments)
    assert status == 0 and "success 100.00 %" in out and "samara fly hover --controller" in out and "try" not in out


def test_more_time_is_suggested_where_it_suffices(monkeypatch, capsys, tmp_path, task_file):
    """A drone that starts far below comes up after the end of its episode; the other options of the command stay."""
    text = (
        TASK.replace("{reward}", TERMS)
        .replace("{limit}", "9.0")
        .replace("    return dot(situation.state.p_W, situation.state.p_W) < 9.0", "    return situation.time > 0.3")
    )
    path = tmp_path / "late.py"
    path.write_text(text)
    options = ("--updates", "1", "--drones", "8", "--seed", "3", "-o", str(tmp_path / "policy"))
    status, out, _ = call(monkeypatch, capsys, "train", str(path), *options)
    assert status == 1 and f"samara train {path} --vehicle crazyflie --seed 3 --drones 8 --seconds 0.4 --out" in out


def test_an_if_in_a_reward_is_one_sentence(monkeypatch, capsys, tmp_path, task_file):
    path = task_file("return 1.0 if situation.state.p_W.z > 0.0 else 0.0")
    status, _, err = call(monkeypatch, capsys, "train", path, "-o", str(tmp_path / "policy"))
    assert status == 2 and err.count("\n") == 1
    assert (
        err.startswith(f"samara: {path}:14, in reward: `situation.state.p_W.z > 0.0`")
        and "core.where instead of if" in err
    )


class Diverging(NamedTuple):
    """A training state that becomes NaN after its third update."""

    done: int


def test_errors_of_a_task_file_are_one_sentence(monkeypatch, capsys, tmp_path, task_file):
    """A misspelt name, an attribute that does not exist, a syntax error, a task without `success`."""
    out = ("--updates", "1", "--drones", "8", "-o", str(tmp_path / "policy"))
    assert "did you mean hover?" in call(monkeypatch, capsys, "train", "hovr", *out)[2]
    path = task_file("return situation.goal_W.z")
    status, _, err = call(monkeypatch, capsys, "train", path, *out)
    assert (status, err.count("\n")) == (2, 1) and err.startswith(f"samara: {path}:14, in reward: AttributeError: ")
    path = task_file("return (")
    status, _, err = call(monkeypatch, capsys, "train", path, *out)
    assert (status, err.count("\n")) == (2, 1) and f"{path}: does not run (SyntaxError" in err
    path = tmp_path / "plain.py"
    path.write_text(Path(task_file()).read_text().replace("def success", "def succes"))
    status, output, _ = call(monkeypatch, capsys, "train", str(path), *out)
    assert status == 0 and "not evaluated: the task plain has no function `success`" in output


def test_training_that_diverges_says_so():
    trainer = make_trainer(
        lambda seed: Diverging(0),
        lambda state: (Diverging(state.done + 1), np.float32(np.nan if state.done > 2 else 1.0)),
        lambda state: np.zeros(1),
        10,
        5,
        run_in_python,
    )
    with pytest.raises(FloatingPointError, match=r"the reward of update 4 is nan; .* lower learning rate \(--rate\)"):
        trainer(0)


def test_the_terms_of_a_reward_are_in_the_info(task_file):
    env, vector_env = Env(task_file()), VectorEnv(task_file(), 3)
    env.reset(seed=4)
    vector_env.reset(seed=4)
    for _ in range(3):
        observation, reward, _, _, info = env.step(np.zeros(4))
        _, rewards, _, _, vector_info = vector_env.step(np.zeros((3, 4)))
    assert info["reward_terms"]["alive"] == 1.0
    assert info["reward_terms"]["distance"] == pytest.approx(-float(observation[:3] @ observation[:3]), rel=1e-5)
    assert reward == pytest.approx(sum(info["reward_terms"].values()), rel=1e-12)
    terms = vector_info["reward_terms"]
    assert terms["distance"][0] == info["reward_terms"]["distance"] and terms["alive"].shape == (3,)
    assert rewards == pytest.approx(terms["alive"] + terms["distance"], rel=1e-12)
