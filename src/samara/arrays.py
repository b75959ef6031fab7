"""The edge between named components and flat arrays, and the check that what crosses it is finite.

Arrays are component-first: (n,) for one drone, (n, N) for a batch of N.
"""

import math
from typing import Any

import numpy as np

from samara.algebra import Quat, Vec3
from samara.physics.multirotor import State, Vehicle, at_rest, initial_effects
from samara.printable import shown

LAYOUTS = ("wxyz", "xyzw")
"""p_W, v_W, q_WB in this order of components, ω_B, rotor speeds, then the effects' states in the vehicle's order."""


def flatten(tree: Any) -> list[Any]:
    """The leaves of a nested tuple, in order."""
    return [leaf for branch in tree for leaf in flatten(branch)] if isinstance(tree, tuple) else [tree]


def unflatten(template: Any, leaves: Any) -> Any:
    """A nested tuple shaped like the template from an iterator of leaves."""
    if not isinstance(template, tuple):
        return next(leaves)
    parts = [unflatten(branch, leaves) for branch in template]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def leaf_names(tree: Any, prefix: str = "") -> list[str]:
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


def state_names(vehicle: Vehicle) -> tuple[str, ...]:
    """The name of every number of a vehicle's state, an effect's after the effect: 'p_W.x', 'battery.charge', 'contact[0].x'.

    What there is one of, such as a battery, is not counted.
    """
    taken = set(State._fields)
    names = leaf_names(at_rest(vehicle)._replace(effects=()))
    for effect, own in zip(vehicle.structure.effects, initial_effects(vehicle), strict=True):
        name = effect.name
        while name in taken:
            name += "_"
        taken.add(name)
        names += leaf_names(own[0] if type(own) is tuple and len(own) == 1 else own, name)
    return tuple(names)


def quaternion_order(layout: str | None) -> list[int]:
    """Which of w, x, y, z stands in each place of a layout; an array does not say it itself, so someone has to"""
    if layout not in LAYOUTS:
        problem = "an array without a layout" if layout is None else f"layout {layout!r}"
        raise ValueError(f"{problem}: expected layout= one of {', '.join(LAYOUTS)}, the order of its quaternion")
    return ["wxyz".index(letter) for letter in layout]


def state_to_numpy(state: State, layout: str = "wxyz") -> np.ndarray[Any, Any]:
    """All components of a state, stacked in the layout's order."""
    order = quaternion_order(layout)
    reordered = state._replace(q_WB=Quat(*(state.q_WB[i] for i in order)))
    return np.stack(np.broadcast_arrays(*(np.asarray(leaf, dtype=float) for leaf in flatten(reordered))))


def state_from_numpy(x: Any, layout: str | None = None, vehicle: Vehicle | None = None) -> State:
    """The state a stacked array holds; scalars become Python floats."""
    order = quaternion_order(layout)
    rows = [row if np.ndim(row) else float(row) for row in numbers_in(x, "a state")]
    if vehicle is None:
        if len(rows) < 13:
            raise ValueError(f"a state has at least 13 components; got {len(rows)}")
        rotors, effects = (0.0,) * (len(rows) - 13), ()
    else:
        rotors, effects = (0.0,) * len(vehicle.rotors), initial_effects(vehicle)
    zero = Vec3(0.0, 0.0, 0.0)
    template = State(zero, zero, Quat(1.0, 0.0, 0.0, 0.0), zero, rotors, effects)
    expected = len(flatten(template))
    if len(rows) != expected:
        raise ValueError(
            f"a state of {vehicle.name if vehicle else 'this kind'!r} has {expected} components; got {len(rows)}"
        )
    state: State = unflatten(template, iter(rows))
    stored: Any = dict(zip(order, state.q_WB, strict=True))
    return state._replace(q_WB=Quat(*(stored[i] for i in range(4))))


def numbers_in(value: Any, name: str) -> np.ndarray[Any, Any]:
    """An array of real numbers; ValueError naming it for texts, rows of different lengths, and all else that is none"""
    try:
        found = np.asarray(value)
        if found.dtype.kind in "fiub":
            return found.astype(float, copy=False)
    except (ValueError, TypeError, OverflowError):  # rows of different lengths
        pass
    raise ValueError(f"{name} is {shown(value)}; expected numbers, in rows of equal length")


def three_in(value: Any, name: str) -> Vec3:
    """Three finite numbers; ValueError naming them where they are not"""
    numbers = numbers_in(value, name)
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} is {shown(value)}; expected three finite numbers")
    return Vec3(*numbers.tolist())


def require_finite(tree: Any, what: str) -> None:
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
