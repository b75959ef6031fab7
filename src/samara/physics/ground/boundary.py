"""Hakoniwa's disturbance near a surface: the rotors' downwash, mirrored by it.

Over the ground and under a ceiling it does what is observed; beside a vertical wall the mirrored downwash still points down, so
the model pushes down there.
"""

from typing import Annotated, TypeAlias

from samara.core.algebra import Vec3, dot
from samara.core.ops import absolute, power
from samara.core.quantity import Quantity, Scalar
from samara.physics.ground.contact import Ground
from samara.physics.motion.body import Force
from samara.physics.rotors.rotor import Radius

Distance: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 10.0)]
Place: TypeAlias = Annotated[Vec3, Quantity("m", -10.0, 10.0)]
Exponent: TypeAlias = Annotated[Scalar, Quantity("1", 0.5, 3.0)]


def boundary_distance(p_W: Place, *, boundary: Ground) -> Scalar:
    """d = |(p − b)·n|  [m]"""
    return absolute(dot(p_W - boundary.point_W, boundary.normal_W))


def boundary_ratio(distance: Distance, *, rotor_radius: Radius, exponent: Exponent = 1.5) -> Scalar:
    """1 / (1 + d/R)^k: 1 at the surface, and soon nothing"""
    return power(1.0 + distance / rotor_radius, -exponent)


def boundary_force(
    downwash_W: Force, p_W: Place, *, boundary: Ground, rotor_radius: Radius, exponent: Exponent = 1.5
) -> Vec3:
    """F = ratio · (T − 2 (T·n) n), T the thrust turned round: the downwash as a force  [N]"""
    mirrored = downwash_W - boundary.normal_W * (2.0 * dot(downwash_W, boundary.normal_W))
    distance = boundary_distance(p_W, boundary=boundary)
    return mirrored * boundary_ratio(distance, rotor_radius=rotor_radius, exponent=exponent)
