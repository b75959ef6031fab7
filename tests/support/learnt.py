"""A policy that `samara learn hover` made (seed 0, on a CPU, 8 kB), and the same made worse."""

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
    """With so much of what goes into the last activation: it hovers in calm air, and gives way to wind"""
    own = trained()
    tensors = {name: np.array(array) for name, array in read_tensors(dict(own.files)[WEIGHTS]).items()}
    for name in ("2.weight", "2.bias"):
        tensors[name] *= share
    with tempfile.TemporaryDirectory() as folder:
        return save_policy(folder, samara.vehicle("crazyflie"), own.kinds, tensors, task="hover", period=own.period)
