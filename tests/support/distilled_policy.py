"""A policy that flies without training: a least-squares fit of the LQR's commands about hover on random features."""

from pathlib import Path
from typing import Any

import numpy as np

from samara.control.observation import OBSERVATIONS, Bounds, ObservedState
from samara.control.policy_file import LayerSpec, Policy, policy_trim, save_policy
from samara.control.registry import create_controller
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.ops import cos, safe_norm, sin
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Reference, State, Vehicle

PERIOD = 0.004  # [s]: the default control period of scenarios


def distil_policy(
    folder: Path,
    vehicle: Vehicle,
    *,
    hidden: int = 64,
    layers: int = 2,
    samples: int = 4000,
    seed: int = 0,
    **options: Any,
) -> Policy:
    """Build a tanh MLP whose last layer is fitted to the vehicle's LQR within ±0.4 m, ±0.5 m/s, ±0.3 rad, ±2 rad/s."""
    rng, trim = np.random.default_rng(seed), policy_trim(vehicle)
    distance = (
        rng.uniform(0.0, 1.0, samples) ** 2
    )  # most samples are close to hover, and those have the largest weights
    state = _states(vehicle, trim.hover_speed, distance * rng.uniform(-1.0, 1.0, (16, samples)))
    teacher = create_controller("lqr", vehicle, period=PERIOD)
    command, _ = teacher.call(state, Reference(ZERO), vehicle, teacher.initial_state)
    actions = [
        (u - centre) / half_range for u, centre, half_range in zip(command, trim.offset, trim.scale, strict=True)
    ]
    x = np.array(
        [
            np.broadcast_to(component, samples)
            for component in OBSERVATIONS["full_state"].compute(ObservedState(state, (), trim.hover_speed))
        ]
    )
    tensors, layer_kinds = {}, []
    for k in range(layers):
        weight = rng.normal(size=(hidden, len(x))) / np.sqrt(len(x)) * 0.4
        bias = rng.normal(size=hidden) * 0.1
        tensors |= {f"{k}.weight": weight, f"{k}.bias": bias}
        layer_kinds.append(LayerSpec("dense", hidden, "tanh"))
        x = np.tanh(np.float32(weight) @ x + np.float32(bias)[:, None])
    weights = 1.0 / (0.01 + distance)[:, None]
    solution = np.linalg.lstsq(weights * np.vstack([x, np.ones(samples)]).T, weights * np.array(actions).T, rcond=1e-9)[
        0
    ]
    tensors |= {f"{layers}.weight": solution[:-1].T, f"{layers}.bias": solution[-1]}
    layer_kinds.append(LayerSpec("dense", len(actions), "linear"))
    return save_policy(
        folder, vehicle, layer_kinds, tensors, task="hover", period=PERIOD, bounds=Bounds(0.4, 0.5), **options
    )


def _states(vehicle: Vehicle, hover_speed: Any, unit: np.ndarray) -> State:
    rotation = 0.3 * unit[6:9]
    half = 0.5 * safe_norm(*rotation)
    axis = rotation / (2.0 * half)
    return state_at_rest(vehicle)._replace(
        p_W=Vec3(*0.4 * unit[:3]),
        v_W=Vec3(*0.5 * unit[3:6]),
        q_WB=Quat(cos(half), *(component * sin(half) for component in axis)),
        omega_B=Vec3(*2.0 * unit[9:12]),
        rotor_speed=tuple(
            hover_rotor_speed * (1.0 + 0.1 * component)
            for hover_rotor_speed, component in zip(hover_speed, unit[12:], strict=False)
        ),
    )
