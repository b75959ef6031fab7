"""A source of wind on the drones of a flight: as pure functions of one drone, compiled where the source can be traced.

What blows on all alike is drawn as for drone 0 and sampled once; what depends on the place, in a lane for each drone with
normals and memory of its own.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.machine import CompiledStep
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, cross, rotate
from samara.core.quantity import Scalar
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.sim.plant import CODES
from samara.wind.sources import Sum, WindSource, is_local, wind_at

Array = np.ndarray[Any, Any]
Normals = tuple[Scalar, ...]


def wind_on_one(
    source: WindSource, memory: Any, time: Scalar, dt: Scalar, p_W: Vec3, v_W: Vec3, disturbance_W: Vec3, drawn: Normals
) -> tuple[Any, Vec3]:
    """w(t, p, v) + what disturbs it, on one drone [m/s], and the memory for the next sample

    `drawn` are its own normals, and those of drone 0 where `own_draws` says that all share them. dt = ∞ at the first sample.
    """
    wind_W, memory = wind_at(source, time, dt, drawn, memory, p_W, v_W)
    return memory, wind_W + disturbance_W


def wind_at_hubs(
    source: WindSource,
    memory: Any,
    time: Scalar,
    moving: tuple[Vec3, Vec3, Quat, Vec3],
    disturbance_W: Vec3,
    hubs_B: tuple[Vec3, ...],
) -> tuple[Vec3, ...]:
    """w at p + R r of each hub [m/s], at the instant of the last sample: no time passes, so gusts stay

    `moving` is p_W, v_W, q_WB and ω_B of one drone, `memory` that after its sample.
    """
    (p_W, v_W, q_WB, omega_B), none = moving, (0.0,) * source.normals_needed
    winds = []
    for r_B in hubs_B:
        hub_W, hub_v_W = p_W + rotate(q_WB, r_B), v_W + rotate(q_WB, cross(omega_B, r_B))
        winds.append(wind_at(source, time, 0.0, none, memory, hub_W, hub_v_W)[0] + disturbance_W)
    return tuple(winds)


def own_draws(source: WindSource) -> tuple[bool, ...]:
    """For each normal that a source takes, whether every drone draws its own"""
    if isinstance(source, Sum):
        return tuple(each for own in source.sources for each in own_draws(own))
    return (is_local(source),) * source.normals_needed


def drawn_by(source: WindSource, drones: int, *, seed: int, tick: int) -> Array:
    """The normals of a sample, (normals, lanes): a lane for each drone, or one where all meet the same wind"""
    if not source.normals_needed:
        return np.zeros((0, 1))
    if not is_local(source):
        return normals(seed, "wind", 0, tick, source.normals_needed)[:, None]
    rows = normals(seed, "wind", np.arange(drones), tick, source.normals_needed).T
    shared = ~np.array(own_draws(source), dtype=bool)
    rows[shared] = rows[shared, :1]
    return rows


class Blowing:
    """A source on so many drones, asked in Python: what cannot be traced, or is not worth compiling."""

    def __init__(self, source: WindSource, drones: int, memory: Any) -> None:
        """`memory` may be another's, of one lane or of all"""
        self.source, self.drones, self.memory = source, drones, memory

    def sample(self, time: float, dt: float, moving: Array | None, disturbance_W: Vec3, drawn: Array) -> Array:
        """The wind on every drone, (3, n); rows of `moving`, where that matters, are p_W and v_W"""
        place = (ZERO, ZERO) if moving is None else (Vec3(*moving[:3]), Vec3(*moving[3:6]))
        given = tuple(row if own else float(row[0]) for row, own in zip(drawn, own_draws(self.source), strict=True))
        self.memory, wind_W = wind_on_one(self.source, self.memory, time, dt, *place, disturbance_W, given)
        return np.stack([np.broadcast_to(x, (self.drones,)) for x in wind_W])

    def at_hubs(self, time: float, moving: Array, lanes: Array, disturbance_W: Vec3, hubs_B: tuple[Vec3, ...]) -> Array:
        """The wind at the hubs of some drones, (3 hubs, n); rows of `moving` are p_W, v_W, q_WB and ω_B"""
        leaves = [leaf[lanes] if np.ndim(leaf) else leaf for leaf in flatten(self.memory)]
        memory = unflatten(self.memory, iter(leaves))
        winds = wind_at_hubs(self.source, memory, time, unflatten(_MOVING, iter(moving[:13])), disturbance_W, hubs_B)
        return np.stack([np.broadcast_to(x, (len(lanes),)) for x in flatten(winds)])


_MOVING = (ZERO, ZERO, IDENTITY, ZERO)


@lru_cache(maxsize=CODES)
def wind_code(source: Any) -> CompiledStep:
    """(memory, wind_W) from (time, dt, p_W, v_W, disturbance_W, normals)."""
    given = (0.0, 0.0, ZERO, ZERO, ZERO, (0.0,) * source.normals_needed)
    return CompiledStep(lambda own, held: wind_on_one(source, own[0], *held), (source.initial(), ZERO), given)


@lru_cache(maxsize=CODES)
def hub_code(source: Any, hubs_B: tuple[Vec3, ...]) -> CompiledStep:
    """The winds at the hubs, from (time, moving, disturbance_W, memory)."""

    def felt(own: Any, held: Any) -> Any:
        time, moving, disturbance_W, memory = held
        return wind_at_hubs(source, memory, time, moving, disturbance_W, hubs_B)

    return CompiledStep(felt, tuple(ZERO for _ in hubs_B), (0.0, _MOVING, ZERO, source.initial()))
