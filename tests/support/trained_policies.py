"""A policy that `samara train hover` trained (seed 0, on a CPU, 8 kB), and a weakened copy."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import samara
from samara.control.policy_file import WEIGHTS_FILE, Policy, load_policy, save_policy
from samara.core.safetensors import read_tensors

HOVER = Path(__file__).parent / "policies" / "hover"


@cache
def trained_policy() -> Policy:
    return load_policy(HOVER)


@cache
def weakened_policy(factor: float = 0.3) -> Policy:
    """Scale the input of the last activation by `factor`: the policy hovers in calm air, and drifts in wind."""
    policy = trained_policy()
    tensors = {name: np.array(array) for name, array in read_tensors(dict(policy.files)[WEIGHTS_FILE]).items()}
    for name in ("2.weight", "2.bias"):
        tensors[name] *= factor
    with tempfile.TemporaryDirectory() as folder:
        return save_policy(
            folder, samara.vehicle("crazyflie"), policy.layers, tensors, task="hover", period=policy.period
        )
