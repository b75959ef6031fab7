"""One rotor: thrust, reaction torque and angular momentum, at its position on the body.

A rotor sits at `r_B` and pushes along the unit vector `axis_B`. `spin` is +1 when it turns right-handed about `axis_B`
(counter-clockwise seen from the axis' tip), −1 when left-handed. All vectors are in the body frame (FLU), SI units.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Attitude, Vec3, cross, dot, rotate_inverse
from samara.core.ops import absolute, safe_divide, where
from samara.core.quantity import AirDensity, OneOf, Quantity, RotorAcceleration, RotorSpeed, Scalar, Tree, Unit
from samara.physics.effect import Wrench
from samara.physics.motion.body import AngularVelocity, Velocity

SEA_LEVEL_DENSITY = 1.225  # ρ₀ [kg/m³], ISA 1976: the density that k_thrust and k_torque are given for

AxialSpeed: TypeAlias = Annotated[Scalar, Quantity("m/s", -10.0, 10.0)]
Radius: TypeAlias = Annotated[Scalar, Quantity("m", 0.02, 0.5)]
LinearThrust: TypeAlias = Annotated[Scalar, Quantity("N s/rad", 1e-6, 0.1)]
LinearTorque: TypeAlias = Annotated[Scalar, Quantity("N m s/rad", 0.0, 0.01)]
Factor: TypeAlias = Annotated[Scalar, Quantity("1", 0.2, 2.0)]


class Rotor(NamedTuple):
    """Position, thrust axis, spin direction and coefficients of a rotor, with its motor and, if it tilts, its servo."""

    r_B: Annotated[Vec3, Quantity("m", -1.0, 1.0)]
    axis_B: Annotated[Vec3, Unit()]
    spin: Annotated[Scalar, OneOf((-1.0, 1.0))]
    k_thrust: Annotated[Scalar, Quantity("N s^2/rad^2", 1e-9, 1e-3)]
    k_torque: Annotated[Scalar, Quantity("N m s^2/rad^2", 0.0, 1e-5)]
    inertia: Annotated[Scalar, Quantity("kg m^2", 0.0, 1e-4)] = 0.0
    radius: Annotated[Scalar, Quantity("m", 0.0, 0.5)] = 0.0
    motor: Tree = ()
    servo: Tree = ()


class RotorLoad(NamedTuple):
    """Aerodynamic load of one rotor: thrust along its axis, and the torque that brakes it."""

    thrust: Annotated[Scalar, Quantity("N", 0.0, 20.0)]
    torque: Annotated[Scalar, Quantity("N m", 0.0, 1.0)]


def rotor_load(speed: RotorSpeed, rotor: Rotor, factor: Factor = 1.0) -> RotorLoad:
    """T = f kF Ω²,  Q = f kM Ω²;  f = (ρ/ρ₀) times the inflow factor  [N, N·m]"""
    scaled_speed_squared = factor * speed * speed
    return RotorLoad(rotor.k_thrust * scaled_speed_squared, rotor.k_torque * scaled_speed_squared)


def linear_load(speed: RotorSpeed, k_thrust: LinearThrust, k_torque: LinearTorque) -> RotorLoad:
    """T = k_T Ω,  Q = k_Q Ω: the linear model of jMAVSim, for comparison  [N, N·m]"""
    return RotorLoad(k_thrust * speed, k_torque * speed)


def rotor_wrench(load: RotorLoad, rotor: Rotor) -> Wrench:
    """F = T a,   τ = r × F − s Q a

    The air brakes the blades; the hub transmits this torque to the body, opposite to `spin`.
    """
    f_B = rotor.axis_B * load.thrust
    return Wrench(f_B, cross(rotor.r_B, f_B) - rotor.axis_B * (rotor.spin * load.torque))


def rotor_angular_momentum(speed: RotorSpeed, rotor: Rotor) -> Vec3:
    """h = s J Ω a, relative to the body  [N·m·s]"""
    return rotor.axis_B * (rotor.spin * rotor.inertia * speed)


def rotor_momentum_torque(
    omega_B: AngularVelocity, speed: RotorSpeed, acceleration: RotorAcceleration, rotor: Rotor
) -> Vec3:
    """τ = −ω × h − ḣ: reaction of the rotor's angular momentum on the body  [N·m]"""
    return -(cross(omega_B, rotor_angular_momentum(speed, rotor)) + rotor_angular_momentum(acceleration, rotor))


def axial_speed(v_air_B: Velocity, rotor: Rotor) -> Scalar:
    """V_ax = v_air · a: positive for air moving along the thrust, as in a descent  [m/s]

    The air velocity is relative to the body, v_air = wind − v. Where the rotor axis is defined as −a, it is −v_air · axis.
    """
    return dot(v_air_B, rotor.axis_B)


def inflow_factor(v_axial: AxialSpeed, speed: RotorSpeed, radius: Radius) -> Scalar:
    """f = 1 / (1 + 8 μ²),  μ = V_ax / (|Ω| R): even in V_ax, so it reduces thrust in climb and descent equally"""
    advance = safe_divide(v_axial, absolute(speed) * radius)
    return 1.0 / (1.0 + 8.0 * advance * advance)


def inflow_factor_signed(v_axial: AxialSpeed, speed: RotorSpeed, radius: Radius) -> Scalar:
    """f in climb, 2 − f in descent: air from below adds as much thrust as air from above removes"""
    f = inflow_factor(v_axial, speed, radius)
    return where(v_axial > 0, 2.0 - f, f)


def air_velocity(q_WB: Attitude, v_W: Velocity, wind_W: Velocity) -> Vec3:
    """v_air = Rᵀ (w − v): the relative wind in body axes  [m/s]"""
    return rotate_inverse(q_WB, wind_W - v_W)


def density_ratio(air_density: AirDensity) -> Scalar:
    """ρ / ρ₀"""
    return air_density / SEA_LEVEL_DENSITY
