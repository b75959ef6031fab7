"""What a surface nearby does to the rotors' downwash."""

from samara.core.algebra import Vec3, rotate
from samara.documents.drone_physics.arguments import document, either
from samara.documents.drone_physics.frames import attitude
from samara.documents.drone_physics.types import Angles, Force, Length, Number, Position, Radius, Thrust, Truth, Vector
from samara.physics.ground.boundary import boundary_distance, boundary_force
from samara.physics.ground.contact import Ground

NEAR = 5.0  # in rotor radii: what is closer counts as near


@document
def boundary_disturbance(
    position: Position,
    euler: Angles,
    boundary_point: Position,
    boundary_normal: Vector,
    thrust: Thrust,
    rotor_radius: Radius,
    exponent: Number = 1.5,
) -> Force:
    """F = (T_e − 2 (T_e·n) n) / (1 + d/R)^1.5, T_e = R (0, 0, +T), d = |(p − b)·n|: the downwash, mirrored

    In the ground frame; n is a unit vector. Beside a vertical wall it pushes down: the document's choice of a model.
    """
    downwash = rotate(attitude(euler), Vec3(0.0, 0.0, thrust))
    plane = Ground(boundary_point, boundary_normal)
    return boundary_force(downwash, position, boundary=plane, rotor_radius=rotor_radius, exponent=exponent)


@document
def _boundary_is_near(distance: Length, rotor_radius: Length) -> Truth:
    """d < 5 R"""
    return distance < NEAR * rotor_radius


@document
def _boundary_is_near__plane(
    position: Position, boundary_point: Position, boundary_normal_unit: Vector, rotor_radius: Length
) -> Truth:
    """|(p − b)·n| < 5 R"""
    return boundary_distance(position, boundary=Ground(boundary_point, boundary_normal_unit)) < NEAR * rotor_radius


boundary_is_near = either("boundary_is_near", _boundary_is_near, _boundary_is_near__plane)
