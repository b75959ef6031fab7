"""The wind blown on many drones: each where it is, with gusts of its own, and at each of its hubs.

What blows on all alike does so inside a sum too: its normals are those of drone 0, whoever else flies.
"""

from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3, cross, rotate
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.physics.rotors.rotor import Rotor
from samara.wind.sources import Sum, WindSource, is_local, wind_at

Array = np.ndarray[Any, Any]


def own_draws(source: WindSource) -> tuple[bool, ...]:
    """For each normal that a source takes, whether every drone draws its own"""
    if isinstance(source, Sum):
        return tuple(each for own in source.sources for each in own_draws(own))
    return (is_local(source),) * source.normals_needed


def wind_on(
    source: WindSource, time: float, dt: float, memory: Any, moving: Array, *, seed: int, tick: int
) -> tuple[Array, Any]:
    """The wind on every drone, (3, n) [m/s], and the memory for the next; rows of `moving` are p_W and v_W"""
    drawn: tuple[Any, ...] = ()
    if source.normals_needed:
        rows = normals(seed, "wind", np.arange(moving.shape[1]), tick, source.normals_needed).T
        drawn = tuple(row if own else float(row[0]) for row, own in zip(rows, own_draws(source), strict=True))
    wind_W, memory = wind_at(source, time, dt, drawn, memory, Vec3(*moving[:3]), Vec3(*moving[3:6]))
    return _rows(wind_W, moving), memory


def wind_at_hub(source: WindSource, time: float, memory: Any, moving: Array, rotor: Rotor) -> Array:
    """The wind at p + R r of every drone, (3, n) [m/s], at the instant of its last sample: no time passes, so gusts stay

    Rows of `moving` are p_W, v_W, q_WB and ω_B.
    """
    q_WB = Quat(*moving[6:10])
    p_W = Vec3(*moving[:3]) + rotate(q_WB, rotor.r_B)
    v_W = Vec3(*moving[3:6]) + rotate(q_WB, cross(Vec3(*moving[10:13]), rotor.r_B))
    none = (0.0,) * source.normals_needed
    return _rows(wind_at(source, time, 0.0, none, memory, p_W, v_W)[0], moving)


def memory_of(memory: Any, drones: Array) -> Any:
    """The memory of some drones; what all share stays"""
    return unflatten(memory, iter([leaf[drones] if np.ndim(leaf) else leaf for leaf in flatten(memory)]))


def _rows(wind_W: Vec3, moving: Array) -> Array:
    return np.stack(np.broadcast_arrays(*wind_W, moving[0])[:3])
