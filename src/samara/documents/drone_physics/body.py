"""Body dynamics: acceleration of translation and rotation, in the body and in the ground frame."""

from functools import partial
from inspect import unwrap

from samara.core.algebra import ZERO, Vec3, diagonal, rotate_inverse
from samara.core.quantity import Scalar
from samara.documents.drone_physics.arguments import document, either
from samara.documents.drone_physics.frames import attitude, euler_angles
from samara.documents.drone_physics.types import (
    Acceleration,
    Angles,
    AngularAcceleration,
    AngularVelocity,
    DragSquareVector,
    DragVector,
    EulerAcceleration,
    EulerRate,
    EulerType,
    Gravity,
    Inertia,
    LinearDrag,
    Mass,
    SquareDrag,
    Thrust,
    Torque,
    Velocity,
)
from samara.physics.air.drag import Drag, drag_force
from samara.physics.ground.collision import velocity_change
from samara.physics.motion.body import (
    angular_acceleration,
    angular_velocity_from_euler_rates,
    body_velocity_rate,
    euler_accelerations,
    translational_acceleration,
)


def _drag(velocity: Vec3, wind: Vec3, drag1: Vec3, drag2: Vec3) -> Vec3:
    return drag_force(velocity - wind, drag=Drag(drag1, drag2))


def _alike(drag: Scalar) -> Vec3:
    return Vec3(drag, drag, drag)


@document
def acceleration_in_ground_frame(
    ground_velocity: Velocity,
    angle: Angles,
    thrust: Thrust,
    mass: Mass,
    gravity: Gravity,
    drag1: LinearDrag,
    drag2: SquareDrag = 0.0,
) -> Acceleration:
    """v̇_e = −(T/m) R e₃ + g e₃ − (d₁ v_e + d₂ v_e|v_e|)/m, eq. (2.46), (2.47)

    R e₃ = (cφ sθ cψ + sφ sψ, cφ sθ sψ − sφ cψ, cφ cθ).
    """
    f_W = Vec3(0.0, 0.0, mass * gravity) + _drag(ground_velocity, ZERO, _alike(drag1), _alike(drag2))
    return translational_acceleration(attitude(angle), Vec3(0.0, 0.0, -thrust), f_W, mass=mass)


@document
def _acceleration_in_body_frame__wind(
    body_velocity: Velocity,
    angle: Angles,
    body_angular_velocity: AngularVelocity,
    thrust: Thrust,
    mass: Mass,
    gravity: Gravity,
    wind_body: Velocity,
    drag1: DragVector,
    drag2: DragSquareVector,
) -> Acceleration:
    """v̇ = −(T/m) e₃ + g Rᵀe₃ − ω × v − (d₁ u + d₂ u|u|)/m, u = v − wind, axis by axis, eq. (1.136), (2.31)

    The wind is given in body axes.
    """
    weight = rotate_inverse(attitude(angle), Vec3(0.0, 0.0, mass * gravity))
    force = Vec3(0.0, 0.0, -thrust) + weight + _drag(body_velocity, wind_body, drag1, drag2)
    return body_velocity_rate(body_velocity, body_angular_velocity, velocity_change(force, mass=mass))


@document
def _acceleration_in_body_frame(
    body_velocity: Velocity,
    angle: Angles,
    body_angular_velocity: AngularVelocity,
    thrust: Thrust,
    mass: Mass,
    gravity: Gravity,
    drag1: LinearDrag,
    drag2: SquareDrag = 0.0,
) -> Acceleration:
    """v̇ = −(T/m) e₃ + g Rᵀe₃ − ω × v − (d₁ v + d₂ v|v|)/m, eq. (1.136), (2.31)"""
    still = (ZERO, _alike(drag1), _alike(drag2))
    plain = unwrap(_acceleration_in_body_frame__wind)
    return plain(body_velocity, angle, body_angular_velocity, thrust, mass, gravity, *still)


acceleration_in_body_frame = either(
    "acceleration_in_body_frame", _acceleration_in_body_frame, _acceleration_in_body_frame__wind
)


@document
def angular_acceleration_in_body_frame(
    body_angular_velocity: AngularVelocity, torque: Torque, I_xx: Inertia, I_yy: Inertia, I_zz: Inertia
) -> AngularAcceleration:
    """I ω̇ = τ − ω × I ω, eq. (1.137), (2.31)"""
    return angular_acceleration(body_angular_velocity, torque, inertia_B=diagonal(Vec3(I_xx, I_yy, I_zz)))


@partial(document, singular_in="euler")
def euler_acceleration_in_ground_frame(
    euler_rate: EulerRate, euler: Angles, torque_body: Torque, I_xx: Inertia, I_yy: Inertia, I_zz: Inertia
) -> EulerAcceleration:
    """d/dt of eq. (1.109): η̈ = W(η)(ω̇ − Ė η̇) with ω = E η̇, W = E⁻¹ and I ω̇ = τ − ω × I ω"""
    angles, rates = euler_angles(euler), Vec3(*euler_rate)
    omega = angular_velocity_from_euler_rates(angles, rates)
    alpha = angular_acceleration(omega, torque_body, inertia_B=diagonal(Vec3(I_xx, I_yy, I_zz)))
    return EulerType(*euler_accelerations(angles, rates, alpha))
