"""RAPTOR (Eschmann, Albani and Loianno 2025), a policy that flies any quadrotor: its published weights, from their package.

22 numbers in, a dense layer of 16, a recurrent one of 16, four rotors out: 2 084 parameters, trained on a thousand quadrotors.
The package `foundation-policy` (MIT) holds the weights; frames, rotors and limits are those of its page and of PX4's module.
"""

import hashlib
from functools import cache
from typing import Any

import numpy as np

from samara.control.network import Network
from samara.control.observation import Bounds
from samara.control.policy_file import LayerKind, Policy, Trim, network_of
from samara.core.extras import MissingExtraError
from samara.core.safetensors import tensors_bytes
from samara.physics.types import Vehicle
from samara.vehicles.limits import command_bounds

CORNERS = {"front right": (1, -1), "back right": (-1, -1), "back left": (-1, 1), "front left": (1, 1)}  # signs of x, y
SPINS = (1, -1, 1, -1)
LIMITS = Bounds(0.5, 1.0)  # [m, m/s]
KINDS = (LayerKind("dense", 16, "relu"), LayerKind("gru", 16), LayerKind("dense", 4, "linear"))
PERIOD = 0.01  # [s]


def raptor_policy(vehicle: Vehicle) -> Policy:
    """RAPTOR for a quadrotor in X: −1 is a motor's least, 1 its most"""
    network, digest = _published()
    order = rotor_order(vehicle)
    bounds = command_bounds(vehicle)
    assert bounds is not None, vehicle.name  # it has rotors
    centre = tuple(0.5 * (low + high) for low, high in bounds)
    reach = tuple(0.5 * (high - low) for low, high in bounds)
    trim = Trim((1.0,) * len(order), centre, reach)  # it does not look at the rotors' speeds
    return Policy(
        network, 22, "raptor", trim=trim, bounds=LIMITS, period=PERIOD, order=order, task="raptor", digest=digest
    )


def rotor_order(vehicle: Vehicle, who: str = "raptor") -> tuple[int, ...]:
    """The vehicle's rotors front right, back right, back left, front left; ValueError where it has not these, or they turn
    the other way, and `who` needs them"""
    if len(vehicle.rotors) != 4 or vehicle.servos:
        raise ValueError(f"{who} flies quadrotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors")
    found = []
    for (corner, (ahead, left)), spin in zip(CORNERS.items(), SPINS, strict=True):
        here = [k for k, own in enumerate(vehicle.rotors) if ahead * own.r_B.x > 0.0 and left * own.r_B.y > 0.0]
        if len(here) != 1:
            raise ValueError(f"{who} flies quadrotors in X; vehicle {vehicle.name!r} has {len(here)} rotors {corner}")
        if vehicle.rotors[here[0]].spin != spin:
            way = "counter-clockwise" if spin > 0 else "clockwise"
            raise ValueError(f"{who} wants the rotor {corner} to turn {way}; that of vehicle {vehicle.name!r} does not")
        found.append(here[0])
    return tuple(found)


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
