"""A rotor in moving air: thrust, torque and in-plane drag by blade element theory, with the inflow of momentum theory.

Blades of constant chord and pitch, linear in angle of attack. Their pitch and drag follow from k_thrust and k_torque, so
that a hovering rotor is the same as without this effect: T = kF Ω², Q = kM Ω². Valid below stall and up to an advance ratio of
about 0.5, where the cross-flow is limited.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Attitude, Vec3, cross, dot
from samara.core.ops import absolute, safe_divide, safe_norm, safe_sqrt, where
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar, Unit
from samara.physics.motion.body import AngularVelocity, Velocity
from samara.physics.rotors.inflow import hover_induced, induced_velocity, mass_flow_speed, wake_skew
from samara.physics.rotors.rotor import (
    SEA_LEVEL_DENSITY,
    Rotor,
    RotorLoad,
    air_velocity,
    density_ratio,
    rotor_load,
)

MAX_ADVANCE_RATIO = 0.5  # V_e/(ΩR): above it, much of the disc is in reverse flow; the in-plane speed is limited there
INFLOW_ITERATIONS = 6  # leaves 1e-9 m/s between thrust and momentum (tests/physics/test_inflow.py)
_MIN_SECANT_RESIDUAL = 1e-9  # [m/s]: below this residual a secant would divide rounding errors
APPARENT_MASS, APPARENT_INERTIA = 8.0 / (3.0 * math.pi), 16.0 / (45.0 * math.pi)
"""Pitt and Peters, Theoretical Prediction of Dynamic-Inflow Derivatives, Vertica 5 (1981)"""

InducedVelocity: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
Gradient: TypeAlias = Annotated[Vec3, Quantity("m/s", -5.0, 5.0)]
"""The gain of the induced velocity from hub to tip, as a vector in the disc."""


class RotorAir(NamedTuple):
    """The blades of every rotor: solidity σ = B c/(πR), and the lift-curve slope."""

    solidity: Annotated[Scalar, Quantity("1", 0.03, 0.3)]
    lift_slope: Annotated[Scalar, Quantity("1/rad", 3.0, 6.5)] = 5.7


class RotorDrag(NamedTuple):
    """Drag of every rotor per rotor speed and airspeed, as measured in flight: in its plane, and along its axis.

    `axial` is the loss of thrust in climb and its gain in descent: −∂T/∂V_c = ¼ρσaA Ω R at constant inflow, and less as the
    inflow follows.
    """

    coefficient: Annotated[Scalar, Quantity("N s^2/(rad m)", 0.0, 1e-4)]
    axial: Annotated[Scalar, Quantity("N s^2/(rad m)", -1e-4, 1e-4)] = 0.0


class HubFlow(NamedTuple):
    """The velocity of a hub through the air: along its thrust (climb), and across it."""

    climb: Annotated[Scalar, Quantity("m/s", -15.0, 15.0)]
    across_B: Annotated[Vec3, Quantity("m/s", -15.0, 15.0)]


class BladeCoefficients(NamedTuple):
    """Coefficients from a rotor's constants: collective pitch θ [rad], σa, and σcd/8."""

    pitch: Annotated[Scalar, Quantity("rad", 0.05, 0.6)]
    lift: Annotated[Scalar, Quantity("1/rad", 0.1, 1.5)]
    profile: Annotated[Scalar, Quantity("1", 0.0, 0.01)]


class UniformInflow(NamedTuple):
    """One inflow state: the induced velocity through the disc."""

    induced: InducedVelocity


class HarmonicInflow(NamedTuple):
    """Three inflow states: the induced velocity at the centre, and its gain towards the tip along the disc's two axes."""

    induced: InducedVelocity
    first: Annotated[Scalar, Quantity("m/s", -5.0, 5.0)]
    second: Annotated[Scalar, Quantity("m/s", -5.0, 5.0)]


def hub_flow(q_WB: Attitude, v_W: Velocity, omega_B: AngularVelocity, wind_W: Velocity, rotor: Rotor) -> HubFlow:
    """u = Rᵀ(v − w) + ω × r at the hub, w the local wind;  V_c = u · a,  u_e = u − V_c a  [m/s]"""
    u_B = cross(omega_B, rotor.r_B) - air_velocity(q_WB, v_W, wind_W)
    climb = dot(u_B, rotor.axis_B)
    return HubFlow(climb, u_B - rotor.axis_B * climb)


def disc_axes(axis_B: Annotated[Vec3, Unit()]) -> tuple[Vec3, Vec3]:
    """Return two unit vectors that span the disc, right-handed with the axis; no singular direction (Duff et al., 2017)."""
    s = where(axis_B.z >= 0, 1.0, -1.0)
    k = -1.0 / (s + axis_B.z)
    xy_term = axis_B.x * axis_B.y * k
    return (
        Vec3(1.0 + s * axis_B.x * axis_B.x * k, s * xy_term, -s * axis_B.x),
        Vec3(xy_term, s + axis_B.y * axis_B.y * k, -axis_B.y),
    )


def blade_coefficients(rotor: Rotor, air: RotorAir) -> BladeCoefficients:
    """θ = 3 (2 C_T/σa + λ_h/2),  σcd/8 = C_Q − λ_h C_T;  C_T = kF/(ρ₀πR⁴), C_Q = kM/(ρ₀πR⁵), λ_h = √(C_T/2)"""
    area = SEA_LEVEL_DENSITY * math.pi * rotor.radius * rotor.radius
    c_thrust = safe_divide(rotor.k_thrust, area * rotor.radius * rotor.radius)
    c_torque = safe_divide(rotor.k_torque, area * rotor.radius * rotor.radius * rotor.radius)
    inflow = safe_sqrt(0.5 * c_thrust)
    lift = air.solidity * air.lift_slope
    return BladeCoefficients(3.0 * (2.0 * c_thrust / lift + 0.5 * inflow), lift, c_torque - inflow * c_thrust)


def limited_cross_flow(flow: HubFlow, speed: RotorSpeed, rotor: Rotor) -> Vec3:
    """u_e, limited to half of the tip speed  [m/s]"""
    limit, edge = MAX_ADVANCE_RATIO * absolute(speed) * rotor.radius, safe_norm(*flow.across_B)
    return flow.across_B * where(edge > limit, safe_divide(limit, edge), 1.0)


def air_load(
    speed: RotorSpeed, induced: InducedVelocity, flow: HubFlow, rotor: Rotor, air: RotorAir, air_density: AirDensity
) -> RotorLoad:
    """T = ½ρσaA [θ(U²/3 + V_e²/2) − ½U W],   Q = R [W T/U − ¼ρσaA θ W V_e²/U + ρA (σcd/8)(U² + V_e²)];  U = ΩR, W = V_c + v

    Blade elements over radius and azimuth, uniform inflow  [N, N·m]
    """
    blade = blade_coefficients(rotor, air)
    tip, v_through = absolute(speed) * rotor.radius, flow.climb + induced
    rho_area = air_density * math.pi * rotor.radius * rotor.radius
    across_B = limited_cross_flow(flow, speed, rotor)
    edge_squared = dot(across_B, across_B)
    edge_over_tip = safe_divide(edge_squared, tip)
    thrust_per_tip_speed = (
        0.5 * rho_area * blade.lift * (blade.pitch * (tip / 3.0 + 0.5 * edge_over_tip) - 0.5 * v_through)
    )
    induced_drag = v_through * (thrust_per_tip_speed - 0.25 * rho_area * blade.lift * blade.pitch * edge_over_tip)
    profile_drag = rho_area * blade.profile * (tip * tip + edge_squared)
    return RotorLoad(thrust_per_tip_speed * tip, rotor.radius * (induced_drag + profile_drag))


def in_plane_force(
    speed: RotorSpeed, induced: InducedVelocity, flow: HubFlow, rotor: Rotor, air: RotorAir, air_density: AirDensity
) -> Vec3:
    """H = −ρA (¼ σa θ W + 2 (σcd/8) U) u_e: the advancing blade's lift is tilted back, and its drag is larger  [N]"""
    blade = blade_coefficients(rotor, air)
    tip, v_through = absolute(speed) * rotor.radius, flow.climb + induced
    rho_area = air_density * math.pi * rotor.radius * rotor.radius
    drag_coefficient = rho_area * (0.25 * blade.lift * blade.pitch * v_through + 2.0 * blade.profile * tip)
    return limited_cross_flow(flow, speed, rotor) * -drag_coefficient


def momentum_inflow(
    speed: RotorSpeed, induced: InducedVelocity, flow: HubFlow, rotor: Rotor, air: RotorAir, air_density: AirDensity
) -> Scalar:
    """v(T(v)): the induced velocity by momentum theory under the thrust at the present inflow  [m/s]"""
    thrust = air_load(speed, induced, flow, rotor, air, air_density).thrust
    return induced_velocity(thrust, flow.climb, safe_norm(*flow.across_B), air_density, rotor.radius)


def balanced_inflow(speed: RotorSpeed, flow: HubFlow, rotor: Rotor, air: RotorAir, air_density: AirDensity) -> Scalar:
    """v = v(T(v)) by the secant method from the thrust in hover; v(T(v)) falls with v, so the solution is unique  [m/s]"""
    edge = safe_norm(*flow.across_B)
    nominal_thrust = rotor_load(speed, rotor, density_ratio(air_density)).thrust
    previous = induced_velocity(nominal_thrust, flow.climb, edge, air_density, rotor.radius)
    v_mass_flow = mass_flow_speed(previous, flow.climb, edge, hover_induced(nominal_thrust, air_density, rotor.radius))
    previous_residual = momentum_inflow(speed, previous, flow, rotor, air, air_density) - previous
    slope = 1.0 + air.solidity * air.lift_slope * absolute(speed) * rotor.radius / (8.0 * v_mass_flow)
    induced = previous + previous_residual / slope
    for _ in range(INFLOW_ITERATIONS):
        residual = momentum_inflow(speed, induced, flow, rotor, air, air_density) - induced
        unconverged = absolute(residual) > _MIN_SECANT_RESIDUAL
        step = where(
            unconverged, residual * (induced - previous) / where(unconverged, previous_residual - residual, 1.0), 0.0
        )
        previous, previous_residual, induced = induced, residual, induced + step
    return induced


def inflow_rate(
    speed: RotorSpeed, induced: InducedVelocity, flow: HubFlow, rotor: Rotor, air: RotorAir, air_density: AirDensity
) -> Scalar:
    """(8/3π) R v̇ = 2 V_m (v(T(v)) − v): Pitt and Peters' first state; its steady state is momentum theory's  [m/s²]"""
    steady = momentum_inflow(speed, induced, flow, rotor, air, air_density)
    v_hover = hover_induced(rotor_load(speed, rotor, density_ratio(air_density)).thrust, air_density, rotor.radius)
    v_mass_flow = mass_flow_speed(induced, flow.climb, safe_norm(*flow.across_B), v_hover)
    return safe_divide(2.0 * v_mass_flow, APPARENT_MASS * rotor.radius) * (steady - induced)


def gradient_rate(
    speed: RotorSpeed,
    inflow: HarmonicInflow,
    omega_B: AngularVelocity,
    flow: HubFlow,
    rotor: Rotor,
    air: RotorAir,
    air_density: AirDensity,
) -> Vec3:
    """(16/45π) R ġ = ¼(1 + cos χ) V_m (g_χ + g_M − g): the slope of the inflow over the disc, as the gain to the tip  [m/s²]

    g_χ = −(15π/32) tan(χ/2) v u_e/|u_e|: a skewed wake induces more at the back of the disc.
    g_M = (4/(1 + cos χ)) (σa/16) U²/V_m A: blades with more lift induce more; A is the slope of their lift, rigid blades:
    A U = (8θ/3 − 2W/U) s u_e × a − g − R a × ω.
    """
    blade = blade_coefficients(rotor, air)
    tip, v_through = absolute(speed) * rotor.radius, flow.climb + inflow.induced
    across_B = limited_cross_flow(flow, speed, rotor)
    edge = safe_norm(*flow.across_B)
    v_hover = hover_induced(rotor_load(speed, rotor, density_ratio(air_density)).thrust, air_density, rotor.radius)
    v_mass_flow = mass_flow_speed(inflow.induced, flow.climb, edge, v_hover)
    tan_half_skew = wake_skew(inflow.induced, flow.climb, edge)
    skew_factor = 0.5 * (1.0 + tan_half_skew * tan_half_skew)  # 1 / (1 + cos χ), cos χ = (1 − t²)/(1 + t²)
    skew_gradient_B = flow.across_B * safe_divide(-15.0 * math.pi / 32.0 * tan_half_skew * inflow.induced, edge)
    gradient_B = inflow_gradient(inflow, rotor)
    lift_term_B = cross(across_B, rotor.axis_B) * rotor.spin * (8.0 / 3.0 * blade.pitch * tip - 2.0 * v_through)
    rotation_term_B = gradient_B + cross(rotor.axis_B, omega_B) * rotor.radius
    loading_term_B = (lift_term_B - rotation_term_B * tip) * (blade.lift / 16.0)
    steady_gradient_B = skew_gradient_B + loading_term_B * (4.0 * skew_factor / v_mass_flow)
    return (steady_gradient_B - gradient_B) * safe_divide(
        v_mass_flow, 4.0 * skew_factor * APPARENT_INERTIA * rotor.radius
    )


def inflow_gradient(inflow: HarmonicInflow, rotor: Rotor) -> Vec3:
    """g = g₁ e₁ + g₂ e₂: the gain of the induced velocity from hub to tip, in its direction  [m/s]"""
    first_B, second_B = disc_axes(rotor.axis_B)
    return first_B * inflow.first + second_B * inflow.second


def rotor_drag_force(speed: RotorSpeed, flow: HubFlow, drag: RotorDrag) -> Vec3:
    """f = −k |Ω| u_e  [N]"""
    return flow.across_B * (-drag.coefficient * absolute(speed))


def climb_loss(speed: RotorSpeed, flow: HubFlow, drag: RotorDrag) -> Scalar:
    """ΔT = −k_a |Ω| V_c: the loss of thrust in a climb, blade elements to first order  [N]"""
    return flow.climb * (-drag.axial * absolute(speed))
