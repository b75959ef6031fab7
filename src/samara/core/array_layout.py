"""Named components as rows of an array, and back; the layout says in which order a quaternion stands in it.

Arrays are component-first: (n,) for one drone, (n, N) for a batch of N.
"""

from typing import Any

import numpy as np

from samara.core.algebra import Quat
from samara.core.tree import flatten, numbers_in, unflatten
from samara.core.types import Array

LAYOUTS = ("wxyz", "xyzw")
"""p_W, v_W, q_WB in this order of components, ω_B, rotor speeds, then the effects' states in the vehicle's order."""


def quaternion_order(layout: str | None) -> list[int]:
    """Which of w, x, y, z stands in each place of a layout; an array does not say it itself, so someone has to"""
    if layout not in LAYOUTS:
        problem = "an array without a layout" if layout is None else f"layout {layout!r}"
        raise ValueError(f"{problem}: expected layout= one of {', '.join(LAYOUTS)}, the order of its quaternion")
    return ["wxyz".index(letter) for letter in layout]


def rows_in(x: Any, what: str) -> list[Any]:
    """The rows of a stacked array; scalars become Python floats"""
    return [row if np.ndim(row) else float(row) for row in numbers_in(x, what)]


def stacked(state: Any, layout: str) -> Array:
    """All components of a state, its attitude `q_WB` in the layout's order"""
    reordered = state._replace(q_WB=Quat(*(state.q_WB[i] for i in quaternion_order(layout))))
    return np.stack(np.broadcast_arrays(*(np.asarray(leaf, dtype=float) for leaf in flatten(reordered))))


def unstacked(rows: list[Any], template: Any, layout: str | None) -> Any:
    """The inverse of `stacked`: a state shaped like the template"""
    state = unflatten(template, iter(rows))
    stored: Any = dict(zip(quaternion_order(layout), state.q_WB, strict=True))
    return state._replace(q_WB=Quat(*(stored[i] for i in range(4))))
