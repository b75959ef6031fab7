"""`samara learn`: a folder that flies, and learning that was stopped and ends as if it had not been."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from support.command import call

from samara.control.policy_file import load_policy
from samara.learn.env_config import setting_for
from samara.learn.gradient_training import Hyperparameters, gradient_trainer
from samara.learn.optimizer import Checkpoint
from samara.learn.training import CHECKPOINT, save, train

TINY = {"hidden": (16,), "drones": 8, "horizon": 2, "updates": 4}


class StoppedError(Exception):
    """By whoever watches"""


def test_what_was_stopped_goes_on_to_the_same_weights(tmp_path):
    learner = gradient_trainer(setting_for("hover", "crazyflie"), Hyperparameters(**TINY), chunks=4, backend="jax")
    whole = learner(3)

    def stop(done, updates, reward):
        if done == 2:
            raise StoppedError

    checkpoint = Checkpoint(tmp_path / "half.npz", {"seed": 3})
    with pytest.raises(StoppedError):
        learner(3, stop, checkpoint)
    resumed = learner(3, None, checkpoint)
    for expected, found in zip(jax.tree.leaves(whole.weights), jax.tree.leaves(resumed.weights), strict=True):
        assert np.array_equal(expected, found)
    assert np.array_equal(whole.curve, resumed.curve)
    with pytest.raises(ValueError, match="another run"):
        learner(4, None, Checkpoint(tmp_path / "half.npz", {"seed": 4}))


def test_a_folder_is_written_and_the_checkpoint_is_gone(tmp_path):
    setting = setting_for("hover", "crazyflie")
    learnt = train(setting, tmp_path, **TINY)
    assert (tmp_path / CHECKPOINT).exists()
    save(setting, learnt, tmp_path, method="analytic", seed=0)
    assert not (tmp_path / CHECKPOINT).exists()
    policy = load_policy(tmp_path)
    assert policy.task == "hover" and policy.inputs == 22
    assert dict(policy.evaluation)["updates"] == 4


def test_a_method_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ValueError, match="'luck'"):
        train(setting_for("hover", "crazyflie"), tmp_path, method="luck")


def test_a_folder_that_cannot_be_is_one_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = call(monkeypatch, capsys, "learn", "hover", "-o", str(tmp_path / "file" / "policy"))
    assert (
        status == 2 and err.startswith("samara: --out ") and err.endswith("expected a writable folder\n")
    )
