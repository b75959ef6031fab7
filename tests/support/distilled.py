"""A policy that really flies, without training: least squares of the LQR's commands about hover on random features."""

from pathlib import Path
from typing import Any

import numpy as np

from samara.control.observation import OBSERVATIONS, Bounds, Seen
from samara.control.policy_file import LayerKind, Policy, save_policy, trim_of
from samara.control.registry import controller_named
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.ops import cos, safe_norm, sin
from samara.physics.multirotor import at_rest
from samara.physics.types import Reference, State, Vehicle

PERIOD = 0.004  # [s]: as often as scenarios call their autopilot


def distilled(
    folder: Path,
    vehicle: Vehicle,
    *,
    hidden: int = 64,
    layers: int = 2,
    samples: int = 4000,
    seed: int = 0,
    **options: Any,
) -> Policy:
    """An MLP of tanh whose last layer is fitted to the LQR of this vehicle within ±0.4 m, ±0.5 m/s, ±0.3 rad, ±2 rad/s"""
    draw, trim = np.random.default_rng(seed), trim_of(vehicle)
    near = draw.uniform(0.0, 1.0, samples) ** 2  # most of them, and those count most
    state = _states(vehicle, trim.hover_speed, near * draw.uniform(-1.0, 1.0, (16, samples)))
    teacher = controller_named("lqr", vehicle, period=PERIOD)
    command, _ = teacher.call(state, Reference(ZERO), vehicle, teacher.memory)
    wanted = [(u - centre) / reach for u, centre, reach in zip(command, trim.centre, trim.reach, strict=True)]
    x = np.array(
        [np.broadcast_to(own, samples) for own in OBSERVATIONS["full_state"].of(Seen(state, (), trim.hover_speed))]
    )
    tensors, kinds = {}, []
    for k in range(layers):
        weight = draw.normal(size=(hidden, len(x))) / np.sqrt(len(x)) * 0.4
        bias = draw.normal(size=hidden) * 0.1
        tensors |= {f"{k}.weight": weight, f"{k}.bias": bias}
        kinds.append(LayerKind("dense", hidden, "tanh"))
        x = np.tanh(np.float32(weight) @ x + np.float32(bias)[:, None])
    weights = 1.0 / (0.01 + near)[:, None]
    solved = np.linalg.lstsq(weights * np.vstack([x, np.ones(samples)]).T, weights * np.array(wanted).T, rcond=1e-9)[0]
    tensors |= {f"{layers}.weight": solved[:-1].T, f"{layers}.bias": solved[-1]}
    kinds.append(LayerKind("dense", len(wanted), "linear"))
    return save_policy(folder, vehicle, kinds, tensors, task="hover", period=PERIOD, bounds=Bounds(0.4, 0.5), **options)


def _states(vehicle: Vehicle, hover_speed: Any, unit: np.ndarray) -> State:
    turn = 0.3 * unit[6:9]
    half = 0.5 * safe_norm(*turn)
    axis = turn / (2.0 * half)
    return at_rest(vehicle)._replace(
        p_W=Vec3(*0.4 * unit[:3]),
        v_W=Vec3(*0.5 * unit[3:6]),
        q_WB=Quat(cos(half), *(own * sin(half) for own in axis)),
        omega_B=Vec3(*2.0 * unit[9:12]),
        rotor_speed=tuple(still * (1.0 + 0.1 * own) for still, own in zip(hover_speed, unit[12:], strict=False)),
    )
