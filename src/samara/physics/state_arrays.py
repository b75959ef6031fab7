"""The edge between the named components of a state and flat arrays.

Arrays are component-first: (n,) for one drone, (n, N) for a batch of N.
"""

from samara.core.layouts import LAYOUTS as LAYOUTS
from samara.core.layouts import quaternion_order as quaternion_order
from samara.core.tree import flatten as flatten
from samara.core.tree import leaf_names as leaf_names
from samara.core.tree import numbers_in as numbers_in
from samara.core.tree import require_finite as require_finite
from samara.core.tree import three_in as three_in
from samara.core.tree import unflatten as unflatten
from samara.physics.multirotor import at_rest
from samara.physics.types import State, Vehicle, initial_effects


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
