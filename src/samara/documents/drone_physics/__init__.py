"""Drone physics as functions of NED/FRD vectors and Euler angles, under the names of Hakoniwa's library.

    import samara.documents.drone_physics as dp

    dp.ground_vector_from_body(body=(100, 200, 300), angle=(0, 0, math.pi / 2))  # (−200, 100, 300)

The ground frame is north-east-down, the body frame forward-right-down; angles are φ, θ, ψ about x, y, z, applied z-y-x. Thrust
is a positive number along −z of the body, gravity a positive number along +z of the ground. `ccw` is +1 for a rotor that turns
counter-clockwise seen from above, −1 for a clockwise one. SI units, radians.

A vector is a tuple or list of its numbers, or an array whose last axis holds them: then the other axes are a batch. A result
is a named tuple of numbers, or of arrays of that batch. Functions of the same name differ in their arguments. Equation
numbers are those of K. Nonami, "Introduction to Drone Engineering", as the document gives them; where the library behind the
document is wrong (docs/evidence/errata.md), these are right.
"""

from functools import partial
from inspect import unwrap
from typing import Annotated, NamedTuple, NoReturn, TypeAlias

from samara.core import algebra
from samara.core.algebra import IDENTITY, ZERO, Euler, Quat, Vec3, diagonal, rotate, rotate_inverse
from samara.core.ops import absolute, power, where
from samara.core.quantity import Scalar
from samara.documents.drone_physics.arguments import CArgumentType, RotorSum, dispatch, document, sum_over_rotors
from samara.physics.air.atmosphere import SEA_LEVEL_PRESSURE, air_pressure
from samara.physics.air.drag import Drag, drag_force
from samara.physics.frames import flu_from_frd, frd_from_flu
from samara.physics.ground import impact
from samara.physics.motion import body as rigid_body
from samara.physics.rotors.actuator import Lag, lag_rate
from samara.physics.rotors.motor import DcMotor, dc_motor_rate, motor_current
from samara.physics.rotors.rotor import Rotor, RotorLoad, linear_load, rotor_load, rotor_momentum_torque, rotor_wrench

ABSOLUTE_ZERO = -273.15  # [°C]
NEAR_BOUNDARY_RADII = 5.0  # in rotor radii: the distance below which a boundary is near


# Types of the arguments: record, unit, name in C ---------------------------------------------------------------------


def _refuse_arithmetic(self: object, other: object) -> NoReturn:
    raise TypeError(
        "Euler angles are not a vector: they cannot be added or scaled; rotate vectors, or multiply quaternions"
    )


class EulerType(NamedTuple):
    """Euler angles about x, y, z, or their rates: not a vector, so `+` and `*` raise TypeError."""

    phi: Scalar
    theta: Scalar
    psi: Scalar


for _operator in ("__add__", "__radd__", "__mul__", "__rmul__"):
    setattr(EulerType, _operator, _refuse_arithmetic)

VectorType = VelocityType = AccelerationType = ForceType = TorqueType = ImpulseType = InertiaDiagType = Vec3
AngularVelocityType = AngularAccelerationType = Vec3
EulerRateType = EulerAccelerationType = EulerType
QuaternionType = QuaternionVelocityType = Quat


Vector: TypeAlias = Annotated[Vec3, CArgumentType("vector", "")]
Position: TypeAlias = Annotated[Vec3, CArgumentType("vector", "m")]
Velocity: TypeAlias = Annotated[Vec3, CArgumentType("velocity", "m/s")]
Acceleration: TypeAlias = Annotated[Vec3, CArgumentType("acceleration", "m/s^2")]
Force: TypeAlias = Annotated[Vec3, CArgumentType("force", "N")]
Torque: TypeAlias = Annotated[Vec3, CArgumentType("torque", "N m")]
Impulse: TypeAlias = Annotated[Vec3, CArgumentType("impulse", "N s")]
InertiaDiag: TypeAlias = Annotated[Vec3, CArgumentType("inertia_diag", "kg m^2", positive=True)]
AngularVelocity: TypeAlias = Annotated[Vec3, CArgumentType("angular_velocity", "rad/s")]
AngularAcceleration: TypeAlias = Annotated[Vec3, CArgumentType("angular_acceleration", "rad/s^2")]
Angles: TypeAlias = Annotated[EulerType, CArgumentType("euler", "rad")]
EulerRate: TypeAlias = Annotated[EulerType, CArgumentType("euler_rate", "rad/s")]
EulerAcceleration: TypeAlias = Annotated[EulerType, CArgumentType("euler_acceleration", "rad/s^2")]
Quaternion: TypeAlias = Annotated[Quat, CArgumentType("quaternion", "")]
QuaternionVelocity: TypeAlias = Annotated[Quat, CArgumentType("quaternion_velocity", "1/s")]
DragVector: TypeAlias = Annotated[Vec3, CArgumentType("vector", "N s/m")]
DragSquareVector: TypeAlias = Annotated[Vec3, CArgumentType("vector", "N s^2/m^2")]

Number: TypeAlias = Annotated[Scalar, CArgumentType("double", "")]
Truth: TypeAlias = Annotated[Scalar, CArgumentType("int", "")]
Mass: TypeAlias = Annotated[Scalar, CArgumentType("double", "kg", positive=True)]
Inertia: TypeAlias = Annotated[Scalar, CArgumentType("double", "kg m^2", positive=True)]
RotorInertia: TypeAlias = Annotated[Scalar, CArgumentType("double", "kg m^2")]
Length: TypeAlias = Annotated[Scalar, CArgumentType("double", "m")]
Radius: TypeAlias = Annotated[Scalar, CArgumentType("double", "m", positive=True)]
Time: TypeAlias = Annotated[Scalar, CArgumentType("double", "s", positive=True)]
Thrust: TypeAlias = Annotated[Scalar, CArgumentType("double", "N")]
TorqueZ: TypeAlias = Annotated[Scalar, CArgumentType("double", "N m")]
Gravity: TypeAlias = Annotated[Scalar, CArgumentType("double", "m/s^2")]
LinearDrag: TypeAlias = Annotated[Scalar, CArgumentType("double", "N s/m")]
SquareDrag: TypeAlias = Annotated[Scalar, CArgumentType("double", "N s^2/m^2")]
RotorSpeed: TypeAlias = Annotated[Scalar, CArgumentType("double", "rad/s")]
RotorAcceleration: TypeAlias = Annotated[Scalar, CArgumentType("double", "rad/s^2")]
ThrustCoefficient: TypeAlias = Annotated[Scalar, CArgumentType("double", "N s^2/rad^2")]
TorqueCoefficient: TypeAlias = Annotated[Scalar, CArgumentType("double", "N m s^2/rad^2")]
LinearThrust: TypeAlias = Annotated[Scalar, CArgumentType("double", "N s/rad")]
LinearTorque: TypeAlias = Annotated[Scalar, CArgumentType("double", "N m s/rad")]
Damping: TypeAlias = Annotated[Scalar, CArgumentType("double", "N m s/rad")]
MotorConstant: TypeAlias = Annotated[Scalar, CArgumentType("double", "N m/A")]
Resistance: TypeAlias = Annotated[Scalar, CArgumentType("double", "ohm", positive=True)]
Voltage: TypeAlias = Annotated[Scalar, CArgumentType("double", "V")]
Current: TypeAlias = Annotated[Scalar, CArgumentType("double", "A")]
Pressure: TypeAlias = Annotated[Scalar, CArgumentType("double", "atm")]
Celsius: TypeAlias = Annotated[Scalar, CArgumentType("double", "degC")]

# Frames: vectors, angular velocities, Euler angles and quaternions ----------------------------------------------------


def attitude(angle: EulerType) -> Quat:
    """q = qz(ψ) ⊗ qy(θ) ⊗ qx(φ), body to ground"""
    return algebra.quat_from_euler(angle.phi, angle.theta, angle.psi)


@document
def cross(u: Vector, v: Vector) -> Vector:
    """u × v"""
    return algebra.cross(u, v)


@document
def dot(u: Vector, v: Vector) -> Number:
    """u · v"""
    return algebra.dot(u, v)


@document
def ground_vector_from_body(body: Vector, angle: Angles) -> Vector:
    """v_e = Rz(ψ) Ry(θ) Rx(φ) v, eq. (1.71), (1.124)"""
    return rotate(attitude(angle), body)


@document
def body_vector_from_ground(ground: Vector, angle: Angles) -> Vector:
    """v = (Rz(ψ) Ry(θ) Rx(φ))ᵀ v_e, eq. (1.69), the inverse of (1.124)"""
    return rotate_inverse(attitude(angle), ground)


@partial(document, singular_in="euler")
def euler_rate_from_body_angular_velocity(body_angular_velocity: AngularVelocity, euler: Angles) -> EulerRate:
    """φ̇ = p + tan θ (q sin φ + r cos φ), θ̇ = q cos φ − r sin φ, ψ̇ = sec θ (q sin φ + r cos φ), eq. (1.109)

    Within 0.06° of θ = ±90° the rates of φ and ψ grow without bound: Python warns (`GimbalLockWarning`).
    """
    return EulerType(*rigid_body.euler_rates(Euler(*euler), body_angular_velocity))


@document
def body_angular_velocity_from_euler_rate(euler_rate: EulerRate, euler: Angles) -> AngularVelocity:
    """p = φ̇ − ψ̇ sin θ, q = θ̇ cos φ + ψ̇ cos θ sin φ, r = −θ̇ sin φ + ψ̇ cos θ cos φ, eq. (1.106)"""
    return rigid_body.angular_velocity_from_euler_rates(Euler(*euler), Vec3(*euler_rate))


@document
def quaternion_from_euler(euler: Angles) -> Quaternion:
    """q = qz(ψ) ⊗ qy(θ) ⊗ qx(φ)"""
    return attitude(euler)


@document
def euler_from_quaternion(quaternion_wxyz: Quaternion) -> Angles:
    """φ, θ, ψ with qz(ψ) ⊗ qy(θ) ⊗ qx(φ) = ±q; φ = 0 at θ = ±90°"""
    return EulerType(*algebra.euler_from_quat(quaternion_wxyz))


@document
def normalize_quaternion(quaternion_wxyz: Quaternion) -> Quaternion:
    """q / |q|"""
    return algebra.normalize(quaternion_wxyz)


normalize = normalize_quaternion


@document
def quaternion_velocity_from_body_angular_velocity(
    body_angular_velocity: AngularVelocity, quaternion_wxyz: Quaternion
) -> QuaternionVelocity:
    """q̇ = ½ q ⊗ (0, p, q, r)"""
    return rigid_body.attitude_rate(quaternion_wxyz, body_angular_velocity)


# Acceleration of translation and rotation ----------------------------------------------------------------------------


def _uniform_drag(drag: Scalar) -> Vec3:
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
    f_W = Vec3(0.0, 0.0, mass * gravity) + drag_force(
        ground_velocity, drag=Drag(_uniform_drag(drag1), _uniform_drag(drag2))
    )
    return rigid_body.translational_acceleration(attitude(angle), Vec3(0.0, 0.0, -thrust), f_W, mass=mass)


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
    force = Vec3(0.0, 0.0, -thrust) + weight + drag_force(body_velocity - wind_body, drag=Drag(drag1, drag2))
    return rigid_body.body_velocity_rate(body_velocity, body_angular_velocity, impact.velocity_change(force, mass=mass))


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
    still = (ZERO, _uniform_drag(drag1), _uniform_drag(drag2))
    plain = unwrap(_acceleration_in_body_frame__wind)
    return plain(body_velocity, angle, body_angular_velocity, thrust, mass, gravity, *still)


acceleration_in_body_frame = dispatch(
    "acceleration_in_body_frame", _acceleration_in_body_frame, _acceleration_in_body_frame__wind
)


@document
def angular_acceleration_in_body_frame(
    body_angular_velocity: AngularVelocity, torque: Torque, I_xx: Inertia, I_yy: Inertia, I_zz: Inertia
) -> AngularAcceleration:
    """I ω̇ = τ − ω × I ω, eq. (1.137), (2.31)"""
    return rigid_body.angular_acceleration(body_angular_velocity, torque, inertia_B=diagonal(Vec3(I_xx, I_yy, I_zz)))


@partial(document, singular_in="euler")
def euler_acceleration_in_ground_frame(
    euler_rate: EulerRate, euler: Angles, torque_body: Torque, I_xx: Inertia, I_yy: Inertia, I_zz: Inertia
) -> EulerAcceleration:
    """d/dt of eq. (1.109): η̈ = W(η)(ω̇ − Ė η̇) with ω = E η̇, W = E⁻¹ and I ω̇ = τ − ω × I ω"""
    angles, rates = Euler(*euler), Vec3(*euler_rate)
    omega = rigid_body.angular_velocity_from_euler_rates(angles, rates)
    alpha = rigid_body.angular_acceleration(omega, torque_body, inertia_B=diagonal(Vec3(I_xx, I_yy, I_zz)))
    return EulerType(*rigid_body.euler_accelerations(angles, rates, alpha))


# Rotors, one and n of them, and the pressure of the air --------------------------------------------------------------


def _upright(position: Vec3, ccw: Scalar, Ct: Scalar = 0.0, Cq: Scalar = 0.0, J: Scalar = 0.0) -> Rotor:
    """Return an upright rotor: thrust along −z of FRD, which is +z of FLU; ccw is Samara's spin."""
    return Rotor(flu_from_frd(position), Vec3(0.0, 0.0, 1.0), ccw, Ct, Cq, J)


@document
def _rotor_omega_acceleration(Kr: RotorSpeed, Tr: Time, omega: RotorSpeed, duty: Number) -> RotorAcceleration:
    """ω̇ = (Kr d − ω) / Tr, eq. (2.48)"""
    return lag_rate(omega, Kr * duty, Lag(0.0, Kr, Tr, Tr))


@document
def _rotor_omega_acceleration__battery(
    Vbat: Voltage,
    R: Resistance,
    Cq: TorqueCoefficient,
    J: Inertia,
    K: MotorConstant,
    D: Damping,
    omega: RotorSpeed,
    duty: Number,
) -> RotorAcceleration:
    """J ω̇ = K i − D ω − Cq ω², i = (Vbat d − K ω)/R"""
    motor = DcMotor(K, R, damping=D)
    load = rotor_load(omega, _upright(ZERO, 1.0, 0.0, Cq))
    return dc_motor_rate(omega, motor_current(duty, Vbat, omega, motor), load.torque, J, motor)


rotor_omega_acceleration = dispatch(
    "rotor_omega_acceleration", _rotor_omega_acceleration, _rotor_omega_acceleration__battery
)


@document
def rotor_current(Vbat: Voltage, R: Resistance, K: MotorConstant, omega: RotorSpeed, duty: Number) -> Current:
    """i = (Vbat d − K ω)/R; negative where the rotor drives the motor and charges the battery"""
    return motor_current(duty, Vbat, omega, DcMotor(K, R))


@document
def rotor_thrust(Ct: ThrustCoefficient, omega: RotorSpeed, atm_pressure: Pressure = 1.0) -> Thrust:
    """T = Ct ω² p, along −z, eq. (2.50); p is the air pressure in atm, at the temperature for which Ct is given"""
    return rotor_load(omega, _upright(ZERO, 1.0, Ct), atm_pressure).thrust


@document
def rotor_anti_torque(
    Cq: TorqueCoefficient, J: RotorInertia, omega: RotorSpeed, omega_acceleration: RotorAcceleration, ccw: Number
) -> TorqueZ:
    """τ = ccw (Cq ω² + J ω̇), about +z, eq. (2.56)"""
    return _rotor_torque(0.0, Cq, J, ZERO, ccw, omega, omega_acceleration).z


@document
def rotor_thrust_linear(Ct2: LinearThrust, omega: RotorSpeed) -> Thrust:
    """T = Ct2 ω, along −z: the linear model of jMAVSim"""
    return linear_load(omega, Ct2, 0.0).thrust


@document
def rotor_anti_torque_linear(Cq2: LinearTorque, omega: RotorSpeed, ccw: Number) -> TorqueZ:
    """τ = ccw Cq2 ω, about +z"""
    return _rotor_torque_linear(0.0, Cq2, ZERO, ccw, omega).z


def _wrench_torque(load: RotorLoad, rotor: Rotor) -> Vec3:
    return frd_from_flu(rotor_wrench(load, rotor).tau_B)


def _rotor_torque(
    Ct: ThrustCoefficient,
    Cq: TorqueCoefficient,
    J: RotorInertia,
    position: Position,
    ccw: Number,
    omega: RotorSpeed,
    omega_acceleration: RotorAcceleration,
    atm_pressure: Pressure = 1.0,
) -> Torque:
    """τ = r × (0, 0, −Ct ω² p) + (0, 0, ccw (Cq ω² p + J ω̇)): one rotor's part of `body_torque`"""
    rotor = _upright(position, ccw, Ct, Cq, J)
    spin_up = rotor_momentum_torque(ZERO, omega, omega_acceleration, rotor)
    return _wrench_torque(rotor_load(omega, rotor, atm_pressure), rotor) + frd_from_flu(spin_up)


def _rotor_torque_linear(
    Ct2: LinearThrust, Cq2: LinearTorque, position: Position, ccw: Number, omega: RotorSpeed
) -> Torque:
    """τ = r × (0, 0, −Ct2 ω) + (0, 0, ccw Cq2 ω): one rotor's part of `body_torque_linear`"""
    return _wrench_torque(linear_load(omega, Ct2, Cq2), _upright(position, ccw))


body_thrust = sum_over_rotors(RotorSum("body_thrust", rotor_thrust, ("omega",)), "T = Σ Ct ωᵢ² p, eq. (2.61)")
body_torque = sum_over_rotors(
    RotorSum("body_torque", _rotor_torque, ("position", "ccw", "omega", "omega_acceleration")),
    "τ = Σ rᵢ × (0, 0, −Ct ωᵢ² p) + (0, 0, ccwᵢ (Cq ωᵢ² p + J ω̇ᵢ)), eq. (2.60) to (2.62)",
)
body_thrust_linear = sum_over_rotors(RotorSum("body_thrust_linear", rotor_thrust_linear, ("omega",)), "T = Σ Ct2 ωᵢ")
body_torque_linear = sum_over_rotors(
    RotorSum("body_torque_linear", _rotor_torque_linear, ("position", "ccw", "omega")),
    "τ = Σ rᵢ × (0, 0, −Ct2 ωᵢ) + (0, 0, ccwᵢ Cq2 ωᵢ)",
)


@document
def atmospheric_pressure(sea_level_atm: Pressure, altitude_from_sea: Length, ground_temperature: Celsius) -> Pressure:
    """p = p₀ (1 − L h/T₀)^(g/LR), up to 11 km, T₀ = ground_temperature + 273.15; in atm as p₀ is"""
    kelvin = ground_temperature - ABSOLUTE_ZERO
    pascal = air_pressure(
        altitude_from_sea, sea_level_temperature=kelvin, sea_level_pressure=sea_level_atm * SEA_LEVEL_PRESSURE
    )
    return pascal / SEA_LEVEL_PRESSURE


# Walls and impacts ---------------------------------------------------------------------------------------------------


@document
def _velocity_after_contact_with_wall(velocity_before: Velocity, normal: Vector, restitution: Number) -> Velocity:
    """v' = v − (1 + e)(v·n) n, whatever the sign of v·n; 0 when the normal vanishes"""
    return _bounce(velocity_before, normal, restitution, 0.0)


def _bounce(velocity: Vec3, normal: Vec3, restitution: Scalar, least: float) -> Vec3:
    """Return the velocity after a bounce; 0 if |n|² ≤ `least`."""
    after = impact.velocity_after_bounce(velocity, normal, restitution)
    has_normal = algebra.dot(normal, normal) > least
    return Vec3(*(where(has_normal, component, 0.0) for component in after))


@document
def _velocity_after_contact_with_wall__points(
    velocity_before: Velocity, center: Position, contact: Position, restitution: Number
) -> Velocity:
    """v' = v − (1 + e)(v·n) n, n along contact − center; 0 when they are closer than 10 µm"""
    return _bounce(velocity_before, contact - center, restitution, 1e-10)


velocity_after_contact_with_wall = dispatch(
    "velocity_after_contact_with_wall",
    _velocity_after_contact_with_wall,
    _velocity_after_contact_with_wall__points,
)


def _collider(v: Vec3, omega: Vec3, euler: EulerType, r: Vec3, mass: Scalar, inertia: Vec3) -> impact.Collider:
    return impact.Collider(v, omega, r, attitude(euler), mass, diagonal(inertia))


@document
def _impulse_by_collision(
    self_velocity: Velocity,
    self_angular_velocity: AngularVelocity,
    self_euler: Angles,
    target_velocity: Velocity,
    target_angular_velocity: AngularVelocity,
    target_euler: Angles,
    self_contact: Position,
    target_contact: Position,
    self_mass: Mass,
    target_mass: Mass,
    self_inertia: InertiaDiag,
    target_inertia: InertiaDiag,
    normal: Vector,
    restitution_coefficient: Number,
) -> Impulse:
    """J = −(1 + e)(v_rel·n) n / (1/m₁ + 1/m₂ + (r₁×n)·I₁⁻¹(r₁×n) + (r₂×n)·I₂⁻¹(r₂×n)), on the self

    All vectors are in one frame; the angles turn each body's inertia into it. n and −n give the same.
    """
    body = _collider(self_velocity, self_angular_velocity, self_euler, self_contact, self_mass, self_inertia)
    other = _collider(
        target_velocity, target_angular_velocity, target_euler, target_contact, target_mass, target_inertia
    )
    return impact.collision_impulse(body, other, normal, restitution_coefficient)


@document
def _impulse_by_collision__wall(
    self_velocity: Velocity,
    self_angular_velocity: AngularVelocity,
    self_euler: Angles,
    target_velocity: Velocity,
    self_contact: Position,
    self_mass: Mass,
    self_inertia: InertiaDiag,
    normal: Vector,
    restitution_coefficient: Number,
) -> Impulse:
    """J = −(1 + e)(v_rel·n) n / (1/m + (r×n)·I⁻¹(r×n)): the target's mass and inertia are without bound"""
    body = _collider(self_velocity, self_angular_velocity, self_euler, self_contact, self_mass, self_inertia)
    return impact.wall_impulse(body, target_velocity, normal, restitution_coefficient)


impulse_by_collision = dispatch("impulse_by_collision", _impulse_by_collision, _impulse_by_collision__wall)


@document
def delta_velocity_from_impulse(impulse: Impulse, mass: Mass) -> Velocity:
    """Δv = J / m"""
    return impact.velocity_change(impulse, mass=mass)


@document
def acceleration_from_impulse(impulse: Impulse, mass: Mass, delta_time: Time) -> Acceleration:
    """a = J / (m Δt)"""
    return impact.velocity_change(impulse, mass=mass) / delta_time


@document
def force_from_impulse(impulse: Impulse, delta_time: Time) -> Force:
    """F = J / Δt"""
    return impulse / delta_time


def _rotation_change(impulse: Vec3, r1: Vec3, inertia: Vec3) -> Vec3:
    return impact.angular_velocity_change(impulse, impact.Collider(ZERO, ZERO, r1, IDENTITY, 1.0, diagonal(inertia)))


@document
def delta_angular_velocity_from_impulse(impulse: Impulse, r1: Position, inertia_diag: InertiaDiag) -> AngularVelocity:
    """Δω = I⁻¹ (r₁ × J), in body axes"""
    return _rotation_change(impulse, r1, inertia_diag)


@document
def angular_acceleration_from_impulse(
    impulse: Impulse, r1: Position, inertia_diag: InertiaDiag, delta_time: Time
) -> AngularAcceleration:
    """α = I⁻¹ (r₁ × J) / Δt, in body axes"""
    return _rotation_change(impulse, r1, inertia_diag) / delta_time


@document
def torque_from_impulse(impulse: Impulse, r1: Position, delta_time: Time) -> Torque:
    """τ = (r₁ × J) / Δt"""
    return algebra.cross(r1, impulse) / delta_time


# The downwash near a surface -----------------------------------------------------------------------------------------


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
    mirrored = downwash - boundary_normal * (2.0 * algebra.dot(downwash, boundary_normal))
    distance = _distance(position, boundary_point, boundary_normal)
    return mirrored * power(1.0 + distance / rotor_radius, -exponent)


def _distance(position: Vec3, point: Vec3, normal: Vec3) -> Scalar:
    """d = |(p − b)·n|  [m]"""
    return absolute(algebra.dot(position - point, normal))


@document
def _boundary_is_near(distance: Length, rotor_radius: Length) -> Truth:
    """d < 5 R"""
    return distance < NEAR_BOUNDARY_RADII * rotor_radius


@document
def _boundary_is_near__plane(
    position: Position, boundary_point: Position, boundary_normal_unit: Vector, rotor_radius: Length
) -> Truth:
    """|(p − b)·n| < 5 R"""
    return _distance(position, boundary_point, boundary_normal_unit) < NEAR_BOUNDARY_RADII * rotor_radius


boundary_is_near = dispatch("boundary_is_near", _boundary_is_near, _boundary_is_near__plane)
