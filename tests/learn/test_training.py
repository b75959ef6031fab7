"""`samara train`: a policy folder that flies, and a resumed run that ends like an uninterrupted one."""

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from support.command import call

from samara.control.policy_file import load_policy
from samara.learn.env_config import configure_environment
from samara.learn.gradient_training import GradientHyperparameters, gradient_trainer
from samara.learn.optimizer import Checkpoint
from samara.learn.training import CHECKPOINT, save, train

TINY = {"hidden": (16,), "drones": 8, "horizon": 2, "updates": 4}


class StoppedError(Exception):
    """Raised by the progress callback."""


def test_what_was_stopped_goes_on_to_the_same_weights(tmp_path):
    trainer = gradient_trainer(
        configure_environment("hover", "crazyflie"), GradientHyperparameters(**TINY), chunks=4, backend="jax"
    )
    uninterrupted = trainer(3)

    def stop(done, updates, reward):
        if done == 2:
            raise StoppedError

    checkpoint = Checkpoint(tmp_path / "half.npz", {"seed": 3})
    with pytest.raises(StoppedError):
        trainer(3, stop, checkpoint)
    resumed = trainer(3, None, checkpoint)
    for expected, actual in zip(jax.tree.leaves(uninterrupted.weights), jax.tree.leaves(resumed.weights), strict=True):
        assert np.array_equal(expected, actual)
    assert np.array_equal(uninterrupted.curve, resumed.curve)
    with pytest.raises(ValueError, match="another run"):
        trainer(4, None, Checkpoint(tmp_path / "half.npz", {"seed": 4}))


def test_a_folder_is_written_and_the_checkpoint_is_gone(tmp_path):
    setting = configure_environment("hover", "crazyflie")
    result = train(setting, tmp_path, **TINY)
    assert (tmp_path / CHECKPOINT).exists()
    save(setting, result, tmp_path, method="analytic", seed=0)
    assert not (tmp_path / CHECKPOINT).exists()
    policy = load_policy(tmp_path)
    assert policy.task == "hover" and policy.input_count == 22
    assert dict(policy.evaluation)["updates"] == 4


def test_a_method_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ValueError, match="'luck'"):
        train(configure_environment("hover", "crazyflie"), tmp_path, method="luck")


def test_a_folder_that_cannot_be_is_one_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, err = call(monkeypatch, capsys, "train", "hover", "-o", str(tmp_path / "file" / "policy"))
    assert status == 2 and err.startswith("samara: --out ") and err.endswith("expected a writable folder\n")
