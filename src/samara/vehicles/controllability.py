"""Controllable axes of a vehicle and the largest torques about them, with all rotors and with one rotor failed.

    max τ_k   with  Σ f_z = m g,  the other torques 0  and  T_min ≤ T ≤ T_max

is a linear program for each direction, and so is the largest collective thrust without torque: the end of a line through a
zonotope. A vehicle without such thrusts may still balance all but the yaw torque: it holds its position while it spins about z.
"""

import math
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import effectiveness, select_effective_rotors

TORQUES = ("roll", "pitch", "yaw")
_THRUST_ROW, _YAW_ROW = 0, 3  # rows of (f_z, τx, τy, τz)
_ROUNDING = 1e-9  # relative to 1: smaller values count as 0


class HoverMode(StrEnum):
    """How the rotors can carry the weight."""

    STEADY = "steady"
    TURNING = "turning"  # about z: yaw is uncontrolled
    NONE = "none"


class TorqueRange(NamedTuple):
    """The available torque about one axis in hover, in both directions [N m], and the angular acceleration [rad/s^2]."""

    axis: str
    low: float
    high: float
    acceleration: float


class Controllability(NamedTuple):
    """Hover mode, torques available in hover (none without a hover, no yaw if yaw is uncontrolled), and the largest upward
    acceleration [m/s^2]."""

    hover: HoverMode
    torques: tuple[TorqueRange, ...]
    climb: float


def controllability(vehicle: Vehicle, failed: int | None = None) -> Controllability:
    """Compute the torques and the climb within the rotors' limits, with one rotor failed if `failed` is its index.

    A body driven by a commanded wrench has no limits.
    """
    weight = float(vehicle.mass * vehicle["gravity"].acceleration)
    if not vehicle.rotors:
        unlimited = tuple(TorqueRange(axis, -math.inf, math.inf, math.inf) for axis in TORQUES)
        return Controllability(HoverMode.STEADY, unlimited, math.inf)
    model = select_effective_rotors(vehicle)
    matrix, limits = effectiveness(model)[2:], np.array(thrust_limits(model), dtype=float)
    if failed is not None:
        limits[failed] = 0.0
    inverse = np.linalg.inv(np.array(vehicle.inertia_B, dtype=float).reshape(3, 3))
    for hover, rows in ((HoverMode.STEADY, (0, 1, 2, 3)), (HoverMode.TURNING, (0, 1, 2))):
        lift = _max_torque(matrix, limits, _THRUST_ROW, 1.0, [row for row in rows if row != _THRUST_ROW], weight)
        if math.isnan(lift) or lift < weight * (1.0 - 1e-9):
            continue
        torques = []
        for row in (held_row for held_row in rows if held_row != _THRUST_ROW):
            held_rows = [held_row for held_row in rows if held_row != row]
            low, high = (_max_torque(matrix, limits, row, sign, held_rows, weight) for sign in (-1.0, 1.0))
            if math.isnan(low) or math.isnan(high):
                break
            rounding = _ROUNDING * float(np.abs(matrix[row]) @ np.abs(limits).max(axis=1))
            low, high = (0.0 if abs(torque) < rounding else torque for torque in (low, high))
            angular_acceleration = float(inverse[row - 1, row - 1]) * min(-low, high)
            torques.append(TorqueRange(TORQUES[row - 1], low, high, max(0.0, angular_acceleration)))
        else:
            return Controllability(hover, tuple(torques), (lift - weight) / float(vehicle.mass))
    return Controllability(HoverMode.NONE, (), -math.inf)


def _max_torque(matrix: Array, limits: Array, row: int, sign: float, held_rows: list[int], weight: float) -> float:
    """Largest value of one row in one direction with the `held_rows` rows at (m g, 0, 0, 0); NaN if they cannot be met

    The set of y = M T for thrusts within their limits is a zonotope: ν·y ≤ Σᵢ max(ν·mᵢ T_min, ν·mᵢ T_max) for the normals ν of
    its facets, each of which is orthogonal to rank − 1 of the columns mᵢ.
    """
    columns = matrix[[row, *held_rows]]
    scale = np.abs(columns).max(axis=1, initial=0.0)
    scale[scale == 0.0] = 1.0
    columns, target = (
        columns / scale[:, None],
        np.array([weight if held_row == _THRUST_ROW else 0.0 for held_row in held_rows]) / scale[1:],
    )
    normals = _facet_normals(columns)
    gains = normals @ columns
    margins = np.maximum(gains * limits[:, 0], gains * limits[:, 1]).sum(axis=1) - normals[:, 1:] @ target
    slack = _ROUNDING * np.abs(limits).sum()
    is_upper, is_lower = normals[:, 0] > _ROUNDING, normals[:, 0] < -_ROUNDING
    high = np.min(margins[is_upper] / normals[is_upper, 0], initial=math.inf)
    low = np.max(margins[is_lower] / normals[is_lower, 0], initial=-math.inf)
    if np.any(margins[~is_upper & ~is_lower] < -slack) or low > high + slack:
        return math.nan
    return float(scale[0] * (high if sign > 0.0 else low))


def _facet_normals(columns: Array) -> Array:
    """Unit normals of the facets of a zonotope, shape (normals, rows), with both signs; a flat zonotope has two more."""
    left, singular, _ = np.linalg.svd(columns)
    rank = int(np.sum(singular > _ROUNDING * singular.max(initial=0.0)))
    null_space = left[:, rank:].T
    facets = [
        np.vstack([columns.T[list(subset)], null_space])
        for subset in combinations(range(columns.shape[1]), max(rank - 1, 0))
    ]
    _, facet_singular, right = np.linalg.svd(np.array(facets))
    normals = np.vstack([right[facet_singular[:, -1] > _ROUNDING, -1] if len(columns) > 1 else right[:, 0], null_space])
    return np.vstack([normals, -normals])


def describe_controllability(result: Controllability) -> str:
    """Describe the controllability in one sentence."""
    if result.hover is HoverMode.NONE:
        return "cannot be held level in the air"
    hover_text = {HoverMode.STEADY: "hovers", HoverMode.TURNING: "hovers, but turns about z"}[result.hover]
    lost_axes = [torque.axis for torque in result.torques if not torque.acceleration > 1e-6]
    lost_text = f"; no torque left for {', '.join(lost_axes)}" if lost_axes else ""
    return f"{hover_text}{lost_text}"


def failure_groups(vehicle: Vehicle) -> list[tuple[str, Controllability]]:
    """Return the controllability with each rotor failed, grouped if equal: 'any rotor', 'rotor 0 or 2', 'rotor 1'."""
    groups: list[tuple[list[int], Controllability]] = []
    for i in range(len(vehicle.rotors)):
        result = controllability(vehicle, i)
        for index, (rotors, group_result) in enumerate(groups):
            if _is_close(result, group_result):
                groups[index] = ([*rotors, i], group_result)
                break
        else:
            groups.append(([i], result))
    count = len(vehicle.rotors)
    return [
        ("any rotor" if len(rotors) == count > 1 else f"rotor {_either(rotors)}", result) for rotors, result in groups
    ]


def _either(rotors: list[int]) -> str:
    *others, last = map(str, rotors)
    return f"{', '.join(others)} or {last}" if others else last


def _is_close(a: Controllability, b: Controllability) -> bool:
    def magnitudes(result: Controllability) -> list[float]:
        return [result.climb, *(torque.acceleration for torque in result.torques)]

    return a.hover is b.hover and np.allclose(magnitudes(a), magnitudes(b), rtol=1e-3, atol=1e-6)
