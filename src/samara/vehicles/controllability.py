"""Which axes of a vehicle can be commanded and how far, with all rotors and with one of them failed.

    most τ_k   with  Σ f_z = m g,  the other torques 0  and  T_min ≤ T ≤ T_max

is a linear program for each direction, and so is the most lift without a torque: the end of a line through a zonotope. A
vehicle that has no such thrusts may still have some that balance all but the yaw: it holds its place turning about z.
"""

import math
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import effective, effectiveness

TORQUES = ("roll", "pitch", "yaw")
_LIFT, _YAW = 0, 3  # rows of (f_z, τx, τy, τz)
_ROUNDING = 1e-9  # below it a number of size 1 is 0


class Hover(StrEnum):
    """How the rotors carry the weight."""

    STEADY = "steady"
    TURNING = "turning"  # about z: the yaw is given up
    NONE = "none"


class Torque(NamedTuple):
    """The torque about one axis that can be had in hover, to either side [N m], and what it turns the body with [rad/s^2]"""

    axis: str
    low: float
    high: float
    acceleration: float

    @property
    def shown(self) -> str:
        """To both sides, as one number where they are alike"""
        alike = abs(self.low + self.high) <= 1e-3 * max(self.high, -self.low)
        return f"±{self.high:.3g}" if alike else f"{self.low:.3g} to {self.high:+.3g}"


class Controllability(NamedTuple):
    """How it hovers, the torques it has left there (none without a hover, no yaw where that is given up), and the most it
    accelerates upwards [m/s^2]"""

    hover: Hover
    torques: tuple[Torque, ...]
    climb: float


def controllability(vehicle: Vehicle, failed: int | None = None) -> Controllability:
    """What the rotors can do within their limits, the failed one aside; a body driven by a wrench has no limits"""
    weight = float(vehicle.mass * vehicle["gravity"].acceleration)
    if not vehicle.rotors:
        free = tuple(Torque(axis, -math.inf, math.inf, math.inf) for axis in TORQUES)
        return Controllability(Hover.STEADY, free, math.inf)
    known = effective(vehicle)
    matrix, limits = effectiveness(known)[2:], np.array(thrust_limits(known), dtype=float)
    if failed is not None:
        limits[failed] = 0.0
    inverse = np.linalg.inv(np.array(vehicle.inertia_B, dtype=float).reshape(3, 3))
    for hover, held in ((Hover.STEADY, (0, 1, 2, 3)), (Hover.TURNING, (0, 1, 2))):
        lift = _most(matrix, limits, _LIFT, 1.0, [row for row in held if row != _LIFT], weight)
        if math.isnan(lift) or lift < weight * (1.0 - 1e-9):
            continue
        torques = []
        for row in (own for own in held if own != _LIFT):
            others = [own for own in held if own != row]
            low, high = (_most(matrix, limits, row, sign, others, weight) for sign in (-1.0, 1.0))
            if math.isnan(low) or math.isnan(high):
                break
            turn = float(inverse[row - 1, row - 1]) * min(-low, high)
            torques.append(Torque(TORQUES[row - 1], low + 0.0, high + 0.0, max(turn, 0.0)))
        else:
            return Controllability(hover, tuple(torques), (lift - weight) / float(vehicle.mass))
    return Controllability(Hover.NONE, (), -math.inf)


def _most(matrix: Array, limits: Array, row: int, sign: float, held: list[int], weight: float) -> float:
    """The most of one row to one side with the held ones at (m g, 0, 0, 0), or NaN where there is none

    What thrusts within their limits give, y = M T, is a zonotope: ν·y ≤ Σᵢ max(ν·mᵢ T_min, ν·mᵢ T_max) for the normals ν of
    its facets, each of which is orthogonal to all but one dimension's worth of columns mᵢ.
    """
    columns = matrix[[row, *held]]
    size = np.abs(columns).max(axis=1, initial=0.0)
    size[size == 0.0] = 1.0
    columns, wanted = columns / size[:, None], np.array([weight if own == _LIFT else 0.0 for own in held]) / size[1:]
    normals = _facet_normals(columns)
    gains = normals @ columns
    reach = np.maximum(gains * limits[:, 0], gains * limits[:, 1]).sum(axis=1) - normals[:, 1:] @ wanted
    slack = _ROUNDING * np.abs(limits).sum()
    above, below = normals[:, 0] > _ROUNDING, normals[:, 0] < -_ROUNDING
    high = np.min(reach[above] / normals[above, 0], initial=math.inf)
    low = np.max(reach[below] / normals[below, 0], initial=-math.inf)
    if np.any(reach[~above & ~below] < -slack) or low > high + slack:
        return math.nan
    return float(size[0] * (high if sign > 0.0 else low))


def _facet_normals(columns: Array) -> Array:
    """Unit vectors orthogonal to the facets of a zonotope, (normals, rows), both signs of each; a flat one has two more"""
    left, singular, _ = np.linalg.svd(columns)
    rank = int(np.sum(singular > _ROUNDING * singular.max(initial=0.0)))
    flat = left[:, rank:].T
    sides = [
        np.vstack([columns.T[list(some)], flat]) for some in combinations(range(columns.shape[1]), max(rank - 1, 0))
    ]
    _, spread, right = np.linalg.svd(np.array(sides))
    normals = np.vstack([right[spread[:, -1] > _ROUNDING, -1] if len(columns) > 1 else right[:, 0], flat])
    return np.vstack([normals, -normals])


def in_words(own: Controllability) -> str:
    """One sentence about what is left"""
    if own.hover is Hover.NONE:
        return "cannot be held level in the air"
    given_up = {Hover.STEADY: "hovers", Hover.TURNING: "hovers, but turns about z"}[own.hover]
    none = [torque.axis for torque in own.torques if not torque.acceleration > 1e-6]
    without = f"; nothing left to {', '.join(none)} with" if none else ""
    return f"{given_up}{without}"


def failures(vehicle: Vehicle) -> list[tuple[str, Controllability]]:
    """What remains with one rotor failed, for each rotor; those alike together: 'any', '0, 2', '1'"""
    found: list[tuple[list[int], Controllability]] = []
    for i in range(len(vehicle.rotors)):
        own = controllability(vehicle, i)
        for at, (rotors, other) in enumerate(found):
            if _alike(own, other):
                found[at] = ([*rotors, i], other)
                break
        else:
            found.append(([i], own))
    count = len(vehicle.rotors)
    return [("any" if len(rotors) == count > 1 else ", ".join(str(i) for i in rotors), own) for rotors, own in found]


def _alike(a: Controllability, b: Controllability) -> bool:
    def sizes(own: Controllability) -> list[float]:
        return [own.climb, *(torque.acceleration for torque in own.torques)]

    return a.hover is b.hover and np.allclose(sizes(a), sizes(b), rtol=1e-3, atol=1e-6)
