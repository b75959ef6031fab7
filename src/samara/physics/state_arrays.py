"""The edge between the named components of a state and flat arrays.

Arrays are component-first: (n,) for one drone, (n, N) for a batch of N.
"""

from typing import Any

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.tree import flatten as flatten
from samara.core.tree import leaf_names as leaf_names
from samara.core.tree import numbers_in as numbers_in
from samara.core.tree import require_finite as require_finite
from samara.core.tree import three_in as three_in
from samara.core.tree import unflatten as unflatten
from samara.physics.multirotor import State, Vehicle, at_rest, initial_effects

LAYOUTS = ("wxyz", "xyzw")
"""p_W, v_W, q_WB in this order of components, ω_B, rotor speeds, then the effects' states in the vehicle's order."""


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
