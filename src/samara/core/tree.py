"""Nested tuples as lists of leaves with names, and the check that what comes from outside is finite numbers."""

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.quantity import Scalar
from samara.core.sanitise import shown
from samara.core.types import Array

Tree: TypeAlias = Any
"""A nested tuple of scalars; named tuples keep their names"""


def flatten(tree: Tree) -> list[Scalar]:
    """The leaves of a nested tuple, in order."""
    return [leaf for branch in tree for leaf in flatten(branch)] if isinstance(tree, tuple) else [tree]


def unflatten(template: Tree, leaves: Iterator[Scalar]) -> Tree:
    """A nested tuple shaped like the template from an iterator of leaves."""
    if not isinstance(template, tuple):
        return next(leaves)
    parts = [unflatten(branch, leaves) for branch in template]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def shape_of(record: Tree) -> Hashable:
    """What is left of a record of tuples and frozen dataclasses without its floats: equal where these alone differ"""
    if isinstance(record, float):
        return float
    if isinstance(record, tuple):
        return type(record), tuple(shape_of(each) for each in record)
    if is_dataclass(record) and not isinstance(record, type):
        own = (getattr(record, field.name) for field in fields(record) if field.compare)
        return type(record), tuple(shape_of(each) for each in own)
    return record


def leaf_names(tree: Tree, prefix: str = "") -> list[str]:
    """The dotted name of every leaf: 'p_W.x', 'rotor_speed[2]'."""
    if not isinstance(tree, tuple):
        return [prefix]
    fields = getattr(tree, "_fields", None)
    names = (
        [f"{prefix}.{field}" if prefix else field for field in fields]
        if fields
        else [f"{prefix}[{i}]" for i in range(len(tree))]
    )
    return [name for branch, own in zip(tree, names, strict=True) for name in leaf_names(branch, own)]


def numbers_in(value: object, name: str) -> Array:
    """An array of real numbers; ValueError naming it for texts, rows of different lengths, and all else that is none"""
    try:
        found = np.asarray(value)
        if found.dtype.kind in "fiub":
            return found.astype(float, copy=False)
    except (ValueError, TypeError, OverflowError):  # rows of different lengths
        pass
    raise ValueError(f"{name} is {shown(value)}; expected numbers, in rows of equal length")


def three_in(value: object, name: str) -> Vec3:
    """Three finite numbers; ValueError naming them where they are not"""
    numbers = numbers_in(value, name)
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is {shown(value)}; expected three finite numbers")
    return Vec3(*numbers.tolist())


def require_finite(tree: Tree, what: str) -> None:
    """ValueError naming the first component, and the first drone of a batch, that is not finite.

    Only numbers can be looked at: symbols and tracers pass.
    """
    leaves = flatten(tree)
    if all(math.isfinite(leaf) for leaf in leaves if type(leaf) is float) and all(
        np.isfinite(leaf).all() for leaf in leaves if isinstance(leaf, (np.ndarray, np.generic))
    ):
        return
    for name, leaf in zip(leaf_names(tree), leaves, strict=True):
        if isinstance(leaf, (float, np.ndarray, np.generic)) and not np.isfinite(leaf).all():
            drone = int(np.argmin(np.isfinite(leaf)))
            of_drone = f" of drone {drone}" if np.ndim(leaf) else ""
            value = float(np.asarray(leaf).reshape(-1)[drone])
            dot = "" if name.startswith("[") else " "
            raise ValueError(f"{what}{dot}{name}{of_drone} is {value}; expected a finite number")


def packer(template: Tree) -> Callable[[Tree], list[Scalar]]:
    """pack(tree) → the leaves of a tree shaped like the template, in order"""
    return eval(f"lambda tree: [{', '.join(_places(template, 'tree'))}]")


def unpacker(template: Tree) -> Callable[[Scalar], Tree]:
    """unpack(leaves) → a tree shaped like the template, from an indexable of leaves"""
    kinds: dict[str, object] = {
        "new": tuple.__new__
    }  # a named tuple's own constructor is a Python function, twice as slow
    expression, _ = _rebuild(template, 0, kinds)
    return eval(f"lambda leaves: {expression}", kinds)


def _places(template: Tree, at: str) -> list[str]:
    if not isinstance(template, tuple):
        return [at]
    return [place for i, branch in enumerate(template) for place in _places(branch, f"{at}[{i}]")]


def _rebuild(template: Tree, first: int, kinds: dict[str, object]) -> tuple[str, int]:
    if not isinstance(template, tuple):
        return f"leaves[{first}]", first + 1
    parts = []
    for branch in template:
        part, first = _rebuild(branch, first, kinds)
        parts.append(part)
    inside = "".join(f"{part}, " for part in parts)
    if not hasattr(template, "_fields"):
        return f"({inside})", first
    name = f"kind_{type(template).__name__}"
    kinds[name] = type(template)
    return f"new({name}, ({inside}))", first


LAYOUTS = ("wxyz", "xyzw")
"""p_W, v_W, q_WB in this order of components, ω_B, rotor speeds, then the effects' states in the vehicle's order."""


def quaternion_order(layout: str | None) -> list[int]:
    """Which of w, x, y, z stands in each place of a layout; an array does not say it itself, so someone has to"""
    if layout not in LAYOUTS:
        problem = "an array without a layout" if layout is None else f"layout {layout!r}"
        raise ValueError(f"{problem}: expected layout= one of {', '.join(LAYOUTS)}, the order of its quaternion")
    return ["wxyz".index(letter) for letter in layout]


def rows_in(x: object, what: str) -> list[Scalar]:
    """The rows of a stacked array; scalars become Python floats"""
    return [row if np.ndim(row) else float(row) for row in numbers_in(x, what)]


def stacked(state: Tree, layout: str) -> Array:
    """All components of a state, its attitude `q_WB` in the layout's order"""
    reordered = state._replace(q_WB=Quat(*(state.q_WB[i] for i in quaternion_order(layout))))
    return np.stack(np.broadcast_arrays(*(np.asarray(leaf, dtype=float) for leaf in flatten(reordered))))


def unstacked(rows: list[Scalar], template: Tree, layout: str | None) -> Tree:
    """The inverse of `stacked`: a state shaped like the template"""
    state = unflatten(template, iter(rows))
    stored = dict(zip(quaternion_order(layout), state.q_WB, strict=True))
    return state._replace(q_WB=Quat(*(stored[i] for i in range(4))))
