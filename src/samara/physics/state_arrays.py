"""The edge between the named components of a state and flat arrays.

Arrays are component-first: (n,) for one drone, (n, N) for a batch of N.
"""

from samara.core.array_layout import LAYOUTS as LAYOUTS
from samara.core.array_layout import quaternion_order as quaternion_order
from samara.core.tree import flatten as flatten
from samara.core.tree import leaf_names as leaf_names
from samara.core.tree import numbers_in as numbers_in
from samara.core.tree import require_finite as require_finite
from samara.core.tree import three_in as three_in
from samara.core.tree import unflatten as unflatten
from samara.physics.multirotor import state_names as state_names
