"""Betaflight's mixers: where its motors are, in arms, and which way they turn.

A row of a mixer is what a motor adds to roll (left up), pitch (tail up) and yaw (nose right), so it sits at (−pitch, roll) and
turns counter-clockwise where yaw is positive. Lower motors of a pair come after the upper ones.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """What one motor adds to roll, pitch and yaw."""

    roll: float
    pitch: float
    yaw: float


def _rows(*numbers: tuple[float, float, float]) -> tuple[Row, ...]:
    return tuple(Row(*own) for own in numbers)


_H, _S, _T = 0.866025, 0.707107, 0.414178
_QUAD_X = _rows((-1, 1, -1), (-1, -1, 1), (1, 1, 1), (1, -1, -1))
_Y = ((0, 1.333333), (-1, -0.666667), (1, -0.666667))

MIXERS = {
    "QUADX": _QUAD_X,
    "QUADX1234": tuple(_QUAD_X[i] for i in (3, 1, 0, 2)),
    "QUADP": _rows((0, 1, -1), (-1, 0, 1), (1, 0, 1), (0, -1, -1)),
    "HEX6X": _rows((-0.5, _H, 1), (-0.5, -_H, 1), (0.5, _H, -1), (0.5, -_H, -1), (-1, 0, -1), (1, 0, 1)),
    "HEX6": _rows((-_H, 0.5, 1), (-_H, -0.5, -1), (_H, 0.5, 1), (_H, -0.5, -1), (0, -1, 1), (0, 1, -1)),
    "Y6": _rows(
        *((roll, pitch, yaw) for (roll, pitch), yaw in zip(_Y, (1, -1, -1), strict=True)),
        *((roll, pitch, yaw) for (roll, pitch), yaw in zip(_Y, (-1, 1, 1), strict=True)),
    ),
    "OCTOX8": (*_QUAD_X, *(own._replace(yaw=-own.yaw) for own in _QUAD_X)),
    "OCTOFLATP": _rows(
        *((_S, -_S, 1), (-_S, -_S, 1), (-_S, _S, 1), (_S, _S, 1)), *((0, -1, -1), (-1, 0, -1), (0, 1, -1), (1, 0, -1))
    ),
    "OCTOFLATX": _rows(
        *((1, -_T, 1), (-_T, -1, 1), (-1, _T, 1), (_T, 1, 1)), *((_T, -1, -1), (-1, -_T, -1), (-_T, 1, -1), (1, _T, -1))
    ),
}
"""By the name of the CLI (Betaflight 4.6, mixer_init.c)"""
SERVOED = ("TRI", "BI", "CUSTOMTRI", "DUALCOPTER", "SINGLECOPTER")
