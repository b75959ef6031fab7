"""Nested tuples as lists of named leaves, and checks that external values are finite numbers."""

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.quantity import Scalar
from samara.core.sanitise import quote_value
from samara.core.types import Array

Tree: TypeAlias = Any
"""A nested tuple of scalars; named tuples keep their field names."""


def flatten(tree: Tree) -> list[Scalar]:
    """Return the leaves of a nested tuple, in order."""
    return [leaf for branch in tree for leaf in flatten(branch)] if isinstance(tree, tuple) else [tree]


def unflatten(template: Tree, leaves: Iterator[Scalar]) -> Tree:
    """Build a nested tuple shaped like the template from an iterator of leaves."""
    if not isinstance(template, tuple):
        return next(leaves)
    parts = [unflatten(branch, leaves) for branch in template]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def tree_structure(record: Tree) -> Hashable:
    """Return the structure of a record of tuples and frozen dataclasses: equal for records that differ only in their floats."""
    if isinstance(record, float):
        return float
    if isinstance(record, tuple):
        return type(record), tuple(tree_structure(value) for value in record)
    if is_dataclass(record) and not isinstance(record, type):
        values = (getattr(record, field.name) for field in fields(record) if field.compare)
        return type(record), tuple(tree_structure(value) for value in values)
    return record


def leaf_names(tree: Tree, prefix: str = "") -> list[str]:
    """Return the dotted name of every leaf: 'p_W.x', 'rotor_speed[2]'."""
    if not isinstance(tree, tuple):
        return [prefix]
    fields = getattr(tree, "_fields", None)
    names = (
        [f"{prefix}.{field}" if prefix else field for field in fields]
        if fields
        else [f"{prefix}[{i}]" for i in range(len(tree))]
    )
    return [name for branch, branch_name in zip(tree, names, strict=True) for name in leaf_names(branch, branch_name)]


def float_array(value: object, name: str) -> Array:
    """Convert to an array of floats; ValueError with `name` for texts, ragged rows and other non-numeric values."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            return array.astype(float, copy=False)
    except (ValueError, TypeError, OverflowError):  # ragged rows
        pass
    raise ValueError(f"{name} is {quote_value(value)}; expected numbers, in rows of equal length")


def finite_vector(value: object, name: str) -> Vec3:
    """Convert to a vector of three finite numbers; ValueError with `name` otherwise."""
    numbers = float_array(value, name)
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is {quote_value(value)}; expected three finite numbers")
    return Vec3(*numbers.tolist())


def require_finite(tree: Tree, label: str) -> None:
    """Raise ValueError naming the first component, and the first drone of a batch, that is not finite.

    Only numbers are checked: symbols and tracers pass.
    """
    leaves = flatten(tree)
    if all(math.isfinite(leaf) for leaf in leaves if type(leaf) is float) and all(
        np.isfinite(leaf).all() for leaf in leaves if isinstance(leaf, (np.ndarray, np.generic))
    ):
        return
    for name, leaf in zip(leaf_names(tree), leaves, strict=True):
        if isinstance(leaf, (float, np.ndarray, np.generic)) and not np.isfinite(leaf).all():
            drone = int(np.argmin(np.isfinite(leaf)))
            drone_label = f" of drone {drone}" if np.ndim(leaf) else ""
            value = float(np.asarray(leaf).reshape(-1)[drone])
            separator = "" if name.startswith("[") else " "
            raise ValueError(f"{label}{separator}{name}{drone_label} is {value}; expected a finite number")


def packer(template: Tree) -> Callable[[Tree], list[Scalar]]:
    """Return pack(tree): the leaves of a tree shaped like the template, in order; TypeError or ValueError for other shapes."""
    names: list[str] = []
    pattern = _unpacking_pattern(template, names)
    namespace: dict[str, Any] = {}
    exec(f"def pack(tree):\n    {pattern} = tree\n    return [{', '.join(names)}]", namespace)
    return namespace["pack"]


def unpacker(template: Tree) -> Callable[[Scalar], Tree]:
    """Return unpack(leaves): a tree shaped like the template, from an indexable sequence of leaves."""
    namespace: dict[str, object] = {
        "new": tuple.__new__
    }  # the constructor of a named tuple is a Python function, twice as slow
    expression, _ = _rebuild(template, 0, namespace)
    return eval(f"lambda leaves: {expression}", namespace)


def _unpacking_pattern(template: Tree, names: list[str]) -> str:
    """Return the target of an assignment that unpacks a tree, such as "((x0, x1,), x2,)"; append its names."""
    if isinstance(template, tuple):
        return f"({''.join(f'{_unpacking_pattern(branch, names)}, ' for branch in template)})"
    names.append(f"x{len(names)}")
    return names[-1]


def _rebuild(template: Tree, index: int, namespace: dict[str, object]) -> tuple[str, int]:
    if not isinstance(template, tuple):
        return f"leaves[{index}]", index + 1
    parts = []
    for branch in template:
        part, index = _rebuild(branch, index, namespace)
        parts.append(part)
    items = "".join(f"{part}, " for part in parts)
    if not hasattr(template, "_fields"):
        return f"({items})", index
    name = f"kind_{type(template).__name__}"
    namespace[name] = type(template)
    return f"new({name}, ({items}))", index


LAYOUTS = ("wxyz", "xyzw")
"""p_W, v_W, q_WB in this order of components, ω_B, rotor speeds, then the effects' states in the vehicle's order."""


def quaternion_order(layout: str | None) -> list[int]:
    """Return the index into (w, x, y, z) of each quaternion component in a layout; an array does not carry its layout."""
    if layout not in LAYOUTS:
        problem = "an array without a layout" if layout is None else f"layout {quote_value(layout)}"
        raise ValueError(f"{problem}: expected layout= one of {', '.join(LAYOUTS)}, the order of its quaternion")
    return ["wxyz".index(letter) for letter in layout]


def array_rows(x: object, name: str) -> list[Scalar]:
    """Return the rows of a stacked array; scalars become Python floats."""
    return [row if np.ndim(row) else float(row) for row in float_array(x, name)]


def stack_state(state: Tree, layout: str) -> Array:
    """Stack all components of a state into an array, with the attitude `q_WB` in the layout's order."""
    reordered = state._replace(q_WB=Quat(*(state.q_WB[i] for i in quaternion_order(layout))))
    return np.stack(np.broadcast_arrays(*(np.asarray(leaf, dtype=float) for leaf in flatten(reordered))))


def unstack_state(rows: list[Scalar], template: Tree, layout: str | None) -> Tree:
    """Rebuild a state shaped like the template from its rows: the inverse of `stack_state`."""
    state = unflatten(template, iter(rows))
    stored = dict(zip(quaternion_order(layout), state.q_WB, strict=True))
    return state._replace(q_WB=Quat(*(stored[i] for i in range(4))))
