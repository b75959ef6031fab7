"""A policy that `samara learn hover` trained (seed 0, on a CPU, 8 kB), and a weakened copy."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import samara
from samara.control.policy_file import WEIGHTS, Policy, load_policy, save_policy
from samara.core.safetensors import read_tensors

HOVER = Path(__file__).parent / "policies" / "hover"


@cache
def trained() -> Policy:
    return load_policy(HOVER)


@cache
def softened(share: float = 0.3) -> Policy:
    """Scale the input of the last activation by `share`: the policy hovers in calm air, and drifts in wind."""
    policy = trained()
    tensors = {name: np.array(array) for name, array in read_tensors(dict(policy.files)[WEIGHTS]).items()}
    for name in ("2.weight", "2.bias"):
        tensors[name] *= share
    with tempfile.TemporaryDirectory() as folder:
        return save_policy(
            folder, samara.vehicle("crazyflie"), policy.kinds, tensors, task="hover", period=policy.period
        )
