"""Trajectories that a client has written into memory, as curves of x, y, z and yaw: polynomials, or compact Bézier curves."""

import math
import struct

import numpy as np

from samara.core.types import Array
from samara.plan.min_snap import Piecewise

POLYNOMIALS, COMPRESSED = 0, 1
AXES, POWERS = 4, 8
LARGEST = 1e4
_PIECE = struct.Struct("<33f")
_START, _HEAD = struct.Struct("<4h"), struct.Struct("<BH")
_POINTS = (0, 1, 3, 7)  # by the two bits of an axis: how many points follow the one it starts from
_UNITS = (1e-3, 1e-3, 1e-3, math.radians(0.1))  # of x, y, z and yaw


def uploaded(content: bytes, kind: int, pieces: int) -> Piecewise | None:
    """The curve that is written there; None where there is none"""
    if not pieces or kind not in (POLYNOMIALS, COMPRESSED):
        return None
    read = _polynomials(content, pieces) if kind == POLYNOMIALS else _compressed(content, pieces)
    if read is None:
        return None
    durations, coefficients = (np.array(own) for own in read)
    sound = np.isfinite(durations).all() and (np.abs(coefficients) <= LARGEST).all()
    if not sound or not (durations > 0.0).all() or durations.sum() > LARGEST:
        return None
    return Piecewise(np.concatenate([[0.0], np.cumsum(durations)]), coefficients)


def _polynomials(content: bytes, pieces: int) -> tuple[list[float], list[Array]] | None:
    """Each 8 coefficients in seconds of x, y, z, yaw, and how long"""
    if pieces * _PIECE.size > len(content):
        return None
    durations, coefficients = [], []
    for *numbers, duration in _PIECE.iter_unpack(content[: pieces * _PIECE.size]):
        if not 0.0 < duration <= LARGEST:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            in_seconds = np.array(numbers).reshape(AXES, POWERS).T
            coefficients.append(in_seconds * duration ** np.arange(POWERS)[:, None])
        durations.append(duration)
    return durations, coefficients


def _compressed(content: bytes, pieces: int) -> tuple[list[float], list[Array]] | None:
    """A start, then for each piece how many points every axis has, milliseconds, and the points; mm and tenths of degrees"""
    here, at = [unit * x for unit, x in zip(_UNITS, _START.unpack_from(content), strict=True)], _START.size
    durations, coefficients = [], []
    for _ in range(pieces):
        if at + _HEAD.size > len(content):
            return None
        bits, milliseconds = _HEAD.unpack_from(content, at)
        counts = [_POINTS[bits >> 2 * axis & 0b11] for axis in range(AXES)]
        at += _HEAD.size
        if at + 2 * sum(counts) > len(content):
            return None
        table = np.zeros((POWERS, AXES))
        for axis, count in enumerate(counts):
            numbers = struct.unpack_from(f"<{count}h", content, at)
            at += 2 * count
            points = [here[axis], *(_UNITS[axis] * x for x in numbers)]
            table[: len(points), axis] = powers_of(points)
            here[axis] = points[-1]
        durations.append(1e-3 * milliseconds)
        coefficients.append(table)
    return durations, coefficients


def powers_of(points: list[float]) -> list[float]:
    """cⱼ = (n over j) Σᵢ (−1)ⁱ⁺ʲ (j over i) Pᵢ: a Bézier curve of n + 1 points as a polynomial"""
    n = len(points) - 1
    return [
        math.comb(n, j) * sum((-1) ** (i + j) * math.comb(j, i) * points[i] for i in range(j + 1)) for j in range(n + 1)
    ]
