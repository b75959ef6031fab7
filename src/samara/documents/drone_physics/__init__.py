"""Document 004's library: drone physics as functions of NED/FRD vectors and Euler angles, over the one source.

    import samara.documents.drone_physics as dp

    dp.ground_vector_from_body(body=(100, 200, 300), angle=(0, 0, math.pi / 2))  # (−200, 100, 300)

The ground frame is north-east-down, the body frame forward-right-down; angles are φ, θ, ψ about x, y, z, applied z-y-x. Thrust
is a positive number along −z of the body, gravity a positive number along +z of the ground. `ccw` is +1 for a rotor that turns
counter-clockwise seen from above, −1 for a clockwise one. SI units, radians.

A vector is a tuple or list of its numbers, or an array whose last axis holds them: then the other axes are a batch. A result
is a named tuple of numbers, or of arrays of that batch. Functions of the same name are told apart by their arguments. Equation
numbers are those of K. Nonami, "Introduction to Drone Engineering", as the document gives them; where the library behind the
document is wrong (docs/errata.md), these are right.
"""

from samara.core.lazy_import import lazily as _lazily
from samara.documents.drone_physics.body import (
    acceleration_in_body_frame,
    acceleration_in_ground_frame,
    angular_acceleration_in_body_frame,
    euler_acceleration_in_ground_frame,
)
from samara.documents.drone_physics.boundary import (
    boundary_disturbance,
    boundary_is_near,
)
from samara.documents.drone_physics.collision import (
    acceleration_from_impulse,
    angular_acceleration_from_impulse,
    delta_angular_velocity_from_impulse,
    delta_velocity_from_impulse,
    force_from_impulse,
    impulse_by_collision,
    torque_from_impulse,
    velocity_after_contact_with_wall,
)
from samara.documents.drone_physics.frames import (
    body_angular_velocity_from_euler_rate,
    body_vector_from_ground,
    cross,
    dot,
    euler_from_quaternion,
    euler_rate_from_body_angular_velocity,
    ground_vector_from_body,
    normalize,
    normalize_quaternion,
    quaternion_from_euler,
    quaternion_velocity_from_body_angular_velocity,
)
from samara.documents.drone_physics.rotor import (
    atmospheric_pressure,
    body_thrust,
    body_thrust_linear,
    body_torque,
    body_torque_linear,
    rotor_anti_torque,
    rotor_anti_torque_linear,
    rotor_current,
    rotor_omega_acceleration,
    rotor_thrust,
    rotor_thrust_linear,
)
from samara.documents.drone_physics.types import (
    AccelerationType,
    AngularAccelerationType,
    AngularVelocityType,
    EulerAccelerationType,
    EulerRateType,
    EulerType,
    ForceType,
    ImpulseType,
    InertiaDiagType,
    QuaternionType,
    QuaternionVelocityType,
    TorqueType,
    VectorType,
    VelocityType,
)

__all__ = [
    "AccelerationType",
    "AngularAccelerationType",
    "AngularVelocityType",
    "EulerAccelerationType",
    "EulerRateType",
    "EulerType",
    "ForceType",
    "ImpulseType",
    "InertiaDiagType",
    "QuaternionType",
    "QuaternionVelocityType",
    "TorqueType",
    "VectorType",
    "VelocityType",
    "acceleration_from_impulse",
    "acceleration_in_body_frame",
    "acceleration_in_ground_frame",
    "angular_acceleration_from_impulse",
    "angular_acceleration_in_body_frame",
    "atmospheric_pressure",
    "body_angular_velocity_from_euler_rate",
    "body_thrust",
    "body_thrust_linear",
    "body_torque",
    "body_torque_linear",
    "body_vector_from_ground",
    "boundary_disturbance",
    "boundary_is_near",
    "cross",
    "delta_angular_velocity_from_impulse",
    "delta_velocity_from_impulse",
    "dot",
    "euler_acceleration_in_ground_frame",
    "euler_from_quaternion",
    "euler_rate_from_body_angular_velocity",
    "force_from_impulse",
    "ground_vector_from_body",
    "impulse_by_collision",
    "normalize",
    "normalize_quaternion",
    "quaternion_from_euler",
    "quaternion_velocity_from_body_angular_velocity",
    "rotor_anti_torque",
    "rotor_anti_torque_linear",
    "rotor_current",
    "rotor_omega_acceleration",
    "rotor_thrust",
    "rotor_thrust_linear",
    "torque_from_impulse",
    "velocity_after_contact_with_wall",
]

__getattr__, __dir__ = _lazily(__name__, __path__)
