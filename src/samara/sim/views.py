"""Rows of an array under the names they have in a tuple.

    motion = views(plant.state, at_rest(vehicle))
    motion.p_W                                          # (3, n): state[0:3], to be read and written in place

A vector, a quaternion and a tuple of them are blocks of rows; a tuple with other names inside is views again.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.tree import flatten

Array = np.ndarray[Any, Any]


def views(rows: Array, template: Any) -> Any:
    """What each field of the template is, of an array with a row for each of its leaves"""
    if _is_block(template):
        return rows
    parts, at = [], 0
    for branch in template:
        size = len(flatten(branch))
        parts.append(views(rows[at : at + size], branch))
        at += size
    names = getattr(template, "_fields", None)
    return SimpleNamespace(**dict(zip(names, parts, strict=True))) if names else tuple(parts)


def _is_block(template: Any) -> bool:
    if isinstance(template, (Vec3, Quat)) or not isinstance(template, tuple):
        return True
    return not hasattr(template, "_fields") and all(_is_block(branch) for branch in template)
