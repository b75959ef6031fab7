"""Flapping: in cross-flow, or when the body rotates, the tip-path plane tilts away from the hub's plane.

Blades on a hinge with a spring, at an offset from the axis, in the steady first harmonic and to first order in the advance
ratio. A stiff spring makes them rigid: the hub then takes the complete aerodynamic moment, towards the retreating side. A free
hinge tilts the disc back instead, and a blade in between does both. Tilt and moments are linear, so they are written as vectors
and need no direction of flight.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Vec3, cross, dot
from samara.core.ops import absolute, safe_divide
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar
from samara.physics.motion.body import AngularVelocity
from samara.physics.rotors.blade_element import (
    Gradient,
    HubFlow,
    InducedVelocity,
    RotorAir,
    air_load,
    blade_coefficients,
    limited_cross_flow,
)
from samara.physics.rotors.rotor import Rotor

Tilt: TypeAlias = Annotated[Vec3, Quantity("rad", -0.2, 0.2)]
"""The tilt of the tip-path plane: the vector by which its normal departs from the axis."""


class Flapping(NamedTuple):
    """The blades of every rotor: count, inertia of one about its hinge, hinge offset r/R and hinge spring."""

    blades: Annotated[Scalar, Quantity("1", 2.0, 6.0)]
    blade_inertia: Annotated[Scalar, Quantity("kg m^2", 1e-9, 1e-3)]
    hinge_offset: Annotated[Scalar, Quantity("1", 0.0, 0.5)] = 0.0
    hub_spring: Annotated[Scalar, Quantity("N m/rad", 0.0, 100.0)] = 0.0


def hub_stiffness(speed: RotorSpeed, *, blades: Flapping) -> Scalar:
    """K = 3e/(2(1 − e)) I Ω² + k_β = (ν_β² − 1) I Ω²: the moment of one blade on the hub per radian of flap  [N·m/rad]"""
    offset = 1.5 * blades.hinge_offset / (1.0 - blades.hinge_offset)
    return offset * blades.blade_inertia * speed * speed + blades.hub_spring


def lock_number(rotor: Rotor, air: RotorAir, air_density: AirDensity, *, blades: Flapping) -> Scalar:
    """γ = ρ a c R⁴ / I,  c = σπR/B: the ratio of aerodynamic to inertial moments of a blade"""
    return _flap_damping(rotor, air, air_density, blades) * 8.0 / blades.blade_inertia


def _flap_damping(rotor: Rotor, air: RotorAir, air_density: Scalar, blades: Flapping) -> Scalar:
    """G/Ω² = ρ a c R⁴ / 8"""
    radius_squared = rotor.radius * rotor.radius
    chord = air.solidity * math.pi * rotor.radius / blades.blades
    return 0.125 * air_density * air.lift_slope * chord * radius_squared * radius_squared


def coning(
    speed: RotorSpeed,
    induced: InducedVelocity,
    flow: HubFlow,
    rotor: Rotor,
    air: RotorAir,
    air_density: AirDensity,
    *,
    blades: Flapping,
) -> Scalar:
    """a₀ = (γ/8) (θ − 4λ/3) / ν_β²  [rad]"""
    damping_coefficient = _flap_damping(rotor, air, air_density, blades)
    abs_speed, inflow_per_radius = absolute(speed), safe_divide(flow.climb + induced, rotor.radius)
    lift_moment = (
        damping_coefficient
        * abs_speed
        * (blade_coefficients(rotor, air).pitch * abs_speed - 4.0 / 3.0 * inflow_per_radius)
    )
    return safe_divide(lift_moment, blades.blade_inertia * speed * speed + hub_stiffness(speed, blades=blades))


def disc_tilt(
    speed: RotorSpeed,
    induced: InducedVelocity,
    gradient_B: Gradient,
    omega_B: AngularVelocity,
    flow: HubFlow,
    rotor: Rotor,
    air: RotorAir,
    air_density: AirDensity,
    *,
    blades: Flapping,
) -> Vec3:
    """t = (K F + G s a × F) / (K² + G²),
    F = −G [(4/3) a₀ μ + (8θ/3 − 2λ) s μ × a − g/U] + I Ω (2 s ω) − (G/Ω) ω × a,  μ = u_e/U  [rad]

    Its components along and across the flight are −a₁ and b₁ of the textbooks: for K = 0 a₁ = 2μ(4θ/3 − λ) − 16q/(γΩ), q nose
    up, and b₁ = (4/3)μa₀ − q/Ω. The tilt of a stopped rotor without a spring is 0.
    """
    damping_coefficient = _flap_damping(rotor, air, air_density, blades)
    abs_speed = absolute(speed)
    stiffness, damping = hub_stiffness(speed, blades=blades), damping_coefficient * abs_speed * abs_speed
    across_B = limited_cross_flow(flow, speed, rotor)
    omega_e_B = omega_B - rotor.axis_B * dot(omega_B, rotor.axis_B)
    pitch = blade_coefficients(rotor, air).pitch
    coning_angle = coning(speed, induced, flow, rotor, air, air_density, blades=blades)
    per_radius = safe_divide(damping_coefficient, rotor.radius)
    inflow_per_radius = safe_divide(flow.climb + induced, rotor.radius)
    lift_term = per_radius * (8.0 / 3.0 * pitch * abs_speed - 2.0 * inflow_per_radius)
    forcing_B = (
        across_B * (-4.0 / 3.0 * coning_angle * per_radius * abs_speed)
        - cross(across_B, rotor.axis_B) * (rotor.spin * lift_term)
        + gradient_B * (per_radius * abs_speed)
        + omega_e_B * (2.0 * rotor.spin * blades.blade_inertia * abs_speed)
        - cross(omega_e_B, rotor.axis_B) * (damping_coefficient * abs_speed)
    )
    quadrature_B = cross(rotor.axis_B, forcing_B) * rotor.spin
    return (forcing_B * stiffness + quadrature_B * damping) * safe_divide(
        1.0, stiffness * stiffness + damping * damping
    )


def flapping_force(
    speed: RotorSpeed,
    induced: InducedVelocity,
    tilt_B: Tilt,
    flow: HubFlow,
    rotor: Rotor,
    air: RotorAir,
    air_density: AirDensity,
) -> Vec3:
    """f = (T − ρA σa U W/8) t: the thrust tilts with the disc, reduced by the inflow  [N]"""
    thrust = air_load(speed, induced, flow, rotor, air, air_density).thrust
    tip, v_through = absolute(speed) * rotor.radius, flow.climb + induced
    rho_area = air_density * math.pi * rotor.radius * rotor.radius
    return tilt_B * (thrust - 0.125 * rho_area * air.solidity * air.lift_slope * tip * v_through)


def hub_moment(speed: RotorSpeed, tilt_B: Tilt, rotor: Rotor, *, blades: Flapping) -> Vec3:
    """τ = (B/2) K a × t: springs and offset hinges turn the hub towards the disc  [N·m]"""
    return cross(rotor.axis_B, tilt_B) * (0.5 * blades.blades * hub_stiffness(speed, blades=blades))
