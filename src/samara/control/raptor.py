"""RAPTOR (Eschmann, Albani and Loianno 2025), a policy that flies any quadrotor: its published weights, from their package.

22 numbers in, a dense layer of 16, a recurrent one of 16, four rotors out: 2 084 parameters, trained on a thousand quadrotors.
The package `foundation-policy` (MIT) holds the weights; frames, rotors and limits are those of its page and of PX4's module.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from samara.control.action_space import throttle_range
from samara.control.controller_type import ControllerType
from samara.control.network import Network
from samara.control.observation import Bounds
from samara.control.policy import PolicyController, policy_controller
from samara.control.policy_file import LayerKind, Policy, Trim, network_of
from samara.control.quad_rotor_order import rotor_order
from samara.core.optional_dependencies import MissingExtraError
from samara.core.safetensors import tensors_bytes
from samara.physics.types import Vehicle

LIMITS = Bounds(0.5, 1.0)  # [m, m/s]
KINDS = (LayerKind("dense", 16, "relu"), LayerKind("gru", 16), LayerKind("dense", 4, "linear"))
PERIOD = 0.01  # [s]


def raptor_policy(vehicle: Vehicle) -> Policy:
    """RAPTOR for a quadrotor in X: −1 is a motor's least, 1 its most"""
    network, digest = _published()
    order = rotor_order(vehicle, "raptor")
    trim = Trim((1.0,) * len(order), *throttle_range(vehicle))  # it does not look at the rotors' speeds
    return Policy(
        network, 22, "raptor", trim=trim, bounds=LIMITS, period=PERIOD, order=order, task="raptor", digest=digest
    )


@cache
def _published() -> tuple[Network, str]:
    """The network, and the SHA-256 of its numbers"""
    tensors = published_tensors()
    return network_of(KINDS, 22, tensors), hashlib.sha256(tensors_bytes(tensors)).hexdigest()


def published_tensors() -> dict[str, Any]:
    """Its numbers by the names of a policy folder"""
    try:
        from foundation_policy import Raptor
    except ImportError as error:
        raise MissingExtraError("the controller raptor needs its weights: pip install 'samara[raptor]'") from error
    first, recurrent, last = Raptor().layers
    return {
        "0.weight": first.weights,
        "0.bias": np.ravel(first.biases),
        "1.weight_ih": recurrent.weights_input,
        "1.weight_hh": recurrent.weights_hidden,
        "1.bias_ih": recurrent.biases_input,
        "1.bias_hh": recurrent.biases_hidden,
        "1.initial": recurrent.initial_hidden_state,
        "2.weight": last.weights,
        "2.bias": np.ravel(last.biases),
    }


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float) -> PolicyController:
    return policy_controller(raptor_policy(vehicle), vehicle, period)


TYPE = ControllerType("raptor", _build)
