"""What a vehicle is asked to do at one instant."""

from typing import NamedTuple

from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import leaf_names


class Reference(NamedTuple):
    """Position and its derivatives to snap in the world, yaw and its first two. SI units."""

    p_W: Vec3
    v_W: Vec3 = ZERO
    a_W: Vec3 = ZERO
    j_W: Vec3 = ZERO
    yaw: Scalar = 0.0
    yaw_rate: Scalar = 0.0
    s_W: Vec3 = ZERO
    yaw_acceleration: Scalar = 0.0


REFERENCE_FIELDS = tuple(leaf_names(Reference(ZERO)))
